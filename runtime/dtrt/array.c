/* array: see array.h. */
#include "runtime/dtrt/array.h"

#include "base/text.h"
#include "runtime/artifact/type_text.h"

#include <string.h>

enum {
    LEAST_PAGE_BYTES = 4096 /* memory is mapped in multiples of it */
};

/* Whether it is one example, of which a batch has rows. */
static bool lacks_rows(const dtrt_array *array, const dt_artifact_tensor *tensor) {
    bool is_example = tensor->has_rows && array->n_dims == tensor->n_dims - 1;
    for (int d = 0; d < array->n_dims && is_example; d++) is_example = array->dims[d] == tensor->dims[d + 1];
    return is_example;
}

static dt_status *wrong_type(const dtrt_array *array, const dt_artifact_tensor *tensor, const char *of, const char *name) {
    dt_text wanted = {0}, given = {0};
    dt_text_append_type(&wanted, tensor->dtype, tensor->n_dims, tensor->dims);
    dt_text_append_type(&given, (dt_dtype)array->dtype, array->n_dims, array->dims);
    dt_status *status = wanted.failed || given.failed
                            ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory")
                            : dt_error(DT_INVALID_ARGUMENT, "%s: %s is %s, not %s%s", of, name, wanted.data, given.data,
                                       lacks_rows(array, tensor) ? ": the first dimension is that of the batch, 1 of one example" : "");
    dt_text_free(&wanted);
    dt_text_free(&given);
    return status;
}

dt_status *dt_array_check(const dtrt_array *array, const dt_artifact_tensor *tensor, const char *of, const char *name, int64_t *rows) {
    if ((unsigned)array->dtype >= DT_N_DTYPES) return dt_error(DT_INVALID_ARGUMENT, "%s: %s: %d is no element type", of, name, (int)array->dtype);
    if (array->n_dims < 0 || array->n_dims > DT_MOST_CALLERS_DIMS || (array->dims == NULL && array->n_dims > 0))
        return dt_error(DT_INVALID_ARGUMENT, "%s: %s: an array of %d dimensions%s", of, name, array->n_dims,
                        array->n_dims > 0 && array->dims == NULL ? " that are NULL" : "");
    bool fits = (dt_dtype)array->dtype == tensor->dtype && array->n_dims == tensor->n_dims;
    for (int d = 0; d < tensor->n_dims && fits; d++) fits = array->dims[d] == tensor->dims[d] || (d == 0 && tensor->has_rows && array->dims[d] >= 0);
    if (!fits) return wrong_type(array, tensor, of, name);
    if (tensor->has_rows && array->n_dims > 0) *rows = array->dims[0];
    return NULL;
}

/* Elements, where the last dimension is the fastest. */
static bool is_dense(const dtrt_array *array) {
    int64_t expected = (int64_t)dt_dtype_bytes((dt_dtype)array->dtype);
    for (int d = array->n_dims - 1; array->strides != NULL && d >= 0; d--) {
        if (array->dims[d] != 1 && array->strides[d] != expected) return false;
        expected *= array->dims[d];
    }
    return true;
}

static size_t bytes_of(const dtrt_array *array) {
    size_t bytes = dt_dtype_bytes((dt_dtype)array->dtype);
    for (int d = 0; d < array->n_dims; d++) bytes *= (size_t)array->dims[d];
    return bytes;
}

bool dt_array_can_stay(const dtrt_array *array) {
    uintptr_t start = (uintptr_t)array->data, last = start + bytes_of(array) - 1;
    bool is_aligned = start % dt_dtype_bytes((dt_dtype)array->dtype) == 0;
    return is_aligned && last / LEAST_PAGE_BYTES == (last + DT_SLACK_BYTES) / LEAST_PAGE_BYTES && is_dense(array);
}

/* The elements from dimension `d` on, those at `from`; returns where the next ones go. */
static char *copy(char *to, const char *from, const dtrt_array *array, int d) {
    size_t bytes = dt_dtype_bytes((dt_dtype)array->dtype);
    if (d == array->n_dims) {
        memcpy(to, from, bytes);
        return to + bytes;
    }
    if (d == array->n_dims - 1 && array->strides[d] == (int64_t)bytes) {
        memcpy(to, from, bytes * (size_t)array->dims[d]);
        return to + bytes * (size_t)array->dims[d];
    }
    for (int64_t i = 0; i < array->dims[d]; i++) to = copy(to, from + i * array->strides[d], array, d + 1);
    return to;
}

void dt_array_copy(void *to, const dtrt_array *array) {
    if (is_dense(array))
        memcpy(to, array->data, bytes_of(array));
    else
        copy(to, array->data, array, 0);
}
