/* safetensors from anywhere: what is accepted names tensors that lie within the file. */
#include "runtime/data/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static volatile unsigned char sink;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    dt_safetensors *file;
    dt_status *status = dt_safetensors_parse("fuzz", bytes, n, &file);
    for (int i = 0; status == NULL && i < file->n; i++) {
        const dt_safetensor *tensor = &file->tensors[i];
        for (int64_t k = 0; k < tensor->n_bytes; k++) sink ^= ((const unsigned char *)tensor->data)[k];
        if (dt_safetensors_find(file, tensor->name) != tensor) abort();
    }
    if (status == NULL) dt_safetensors_free(file);
    dt_status_free(status);
    return 0;
}
