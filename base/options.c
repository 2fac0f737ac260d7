/* options: see options.h. */
#include "base/options.h"

#include <string.h>

dt_status *dt_options_read(const void *given, void *options, size_t own_bytes, const char *name) {
    memset(options, 0, own_bytes);
    if (given == NULL) return NULL;
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes) return dt_error(DT_INVALID_ARGUMENT, "%s.size is %zu; set it to sizeof(%s)", name, given_bytes, name);
    const unsigned char *bytes = given;
    for (size_t i = own_bytes; i < given_bytes; i++)
        if (bytes[i] != 0)
            return dt_error(DT_INVALID_ARGUMENT,
                            "%s asks for something that this library, which is older than the program, does not know: byte %zu is set", name, i);
    memcpy(options, given, given_bytes < own_bytes ? given_bytes : own_bytes);
    return NULL;
}

dt_status *dt_options_write(void *given, const void *filled, size_t own_bytes, const char *name) {
    size_t given_bytes = 0;
    if (given != NULL) memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes) return dt_error(DT_INVALID_ARGUMENT, "%s has no size; set it to sizeof(%s)", name, name);
    size_t n = given_bytes < own_bytes ? given_bytes : own_bytes;
    memset(given, 0, given_bytes);
    memcpy(given, filled, n);
    memcpy(given, &given_bytes, sizeof given_bytes);
    return NULL;
}
