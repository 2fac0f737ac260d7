/* fuzz: any bytes as a relocatable object. What loads is asked for a name, never run. */
#include "runtime/artifact/object_loader.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    dt_object *object;
    dt_status *status = dt_object_load("fuzz.o", data, n_bytes, &object);
    if ((status == NULL) != (object != NULL)) abort();
    if (object != NULL) dt_object_find(object, "scaled_prime");
    dt_status_free(status);
    dt_object_free(object);
    return 0;
}
