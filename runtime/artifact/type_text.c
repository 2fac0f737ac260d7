/* type_text: see type_text.h. */
#include "runtime/artifact/type_text.h"

void dt_text_append_type(dt_text *text, dt_dtype dtype, int n_dims, const int64_t *dims) {
    dt_text_append(text, dt_dtype_name(dtype));
    for (int i = 0; i < n_dims; i++) {
        dt_text_append(text, i == 0 ? "[" : ", ");
        if (dims[i] == -1) /* as artifacts have B; what callers give may be anything */
            dt_text_append(text, "B");
        else
            dt_text_format(text, "%lld", (long long)dims[i]);
    }
    if (n_dims > 0) dt_text_append(text, "]");
}
