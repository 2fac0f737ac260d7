/* weight_copy: see weight_copy.h. */
#include "runtime/weight_copy.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

bool dt_weight_can_convert(dt_dtype from, dt_dtype to) {
    if (from == DT_N_DTYPES) return false;
    return from == to || (dt_dtype_kind(from) == dt_dtype_kind(to) && dt_dtype_kind(from) != 'b');
}

/* X(type, C type, value as a wider type): how an element is read, and written from the wider type. */
#define FLOATS(X)                                                                                                                                    \
    X(DT_F32, float, *e, (float)value)                                                                                                               \
    X(DT_F64, double, *e, value)                                                                                                                     \
    X(DT_F16, uint16_t, dt_f32_from_f16(*e), dt_f16_from_f32((float)value))                                                                          \
    X(DT_BF16, uint16_t, dt_f32_from_bf16(*e), dt_bf16_from_f32((float)value))
#define INTEGERS(X)                                                                                                                                  \
    X(DT_I8, int8_t, *e, (int8_t)value)                                                                                                              \
    X(DT_U8, uint8_t, *e, (uint8_t)value)                                                                                                            \
    X(DT_I32, int32_t, *e, (int32_t)value)                                                                                                           \
    X(DT_I64, int64_t, *e, value)

static double read_float(dt_dtype dtype, const unsigned char *data) {
#define X(enumerator, type, read, write)                                                                                                             \
    if (dtype == enumerator) {                                                                                                                       \
        type element, *e = &element;                                                                                                                 \
        memcpy(e, data, sizeof element);                                                                                                             \
        return read;                                                                                                                                 \
    }
    FLOATS(X)
#undef X
    return 0;
}

static void write_float(dt_dtype dtype, double value, unsigned char *data) {
#define X(enumerator, type, read, write)                                                                                                             \
    if (dtype == enumerator) memcpy(data, &(type){write}, sizeof(type));
    FLOATS(X)
#undef X
}

static int64_t read_integer(dt_dtype dtype, const unsigned char *data) {
#define X(enumerator, type, read, write)                                                                                                             \
    if (dtype == enumerator) {                                                                                                                       \
        type element, *e = &element;                                                                                                                 \
        memcpy(e, data, sizeof element);                                                                                                             \
        return read;                                                                                                                                 \
    }
    INTEGERS(X)
#undef X
    return 0;
}

static void write_integer(dt_dtype dtype, int64_t value, unsigned char *data) {
#define X(enumerator, type, read, write)                                                                                                             \
    if (dtype == enumerator) memcpy(data, &(type){write}, sizeof(type));
    INTEGERS(X)
#undef X
}

/* One axis: `n` elements, `from_step` and `to_step` bytes apart. */
static dt_status *copy_row(int64_t n, dt_dtype from, const unsigned char *source, int64_t from_step, dt_dtype to, unsigned char *target,
                           int64_t to_step, double scale) {
    int64_t bytes = (int64_t)dt_dtype_bytes(to), least, greatest;
    if (from == to && scale == 1) {
        if (from_step == bytes && to_step == bytes)
            memcpy(target, source, (size_t)(n * bytes));
        else
            for (int64_t i = 0; i < n; i++) memcpy(target + i * to_step, source + i * from_step, (size_t)bytes);
        return NULL;
    }
    if (dt_dtype_is_float(to)) {
        for (int64_t i = 0; i < n; i++) write_float(to, read_float(from, source + i * from_step) * scale, target + i * to_step);
        return NULL;
    }
    dt_dtype_limits(to, &least, &greatest);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = read_integer(from, source + i * from_step);
        if (value < least || value > greatest) return dt_error(DT_OUT_OF_RANGE, "%lld is no %s", (long long)value, dt_dtype_name(to));
        write_integer(to, value, target + i * to_step);
    }
    return NULL;
}

/* Axes from `axis` on. */
static dt_status *copy_axes(int axis, int n, const int64_t *sizes, const dt_weight_view *from, const unsigned char *source, const dt_weight_view *to,
                            unsigned char *target, double scale) {
    int64_t from_step = n > 0 ? from->strides[axis] * (int64_t)dt_dtype_bytes(from->dtype) : 0;
    int64_t to_step = n > 0 ? to->strides[axis] * (int64_t)dt_dtype_bytes(to->dtype) : 0;
    if (axis + 1 >= n) return copy_row(n > 0 ? sizes[axis] : 1, from->dtype, source, from_step, to->dtype, target, to_step, scale);
    for (int64_t i = 0; i < sizes[axis]; i++) DT_TRY(copy_axes(axis + 1, n, sizes, from, source + i * from_step, to, target + i * to_step, scale));
    return NULL;
}

dt_status *dt_weight_copy(int n, const int64_t *sizes, const dt_weight_view *from, const void *source, const dt_weight_view *to, void *target,
                          double scale) {
    for (int i = 0; i < n; i++)
        if (sizes[i] == 0) return NULL;
    return copy_axes(0, n, sizes, from, source, to, target, scale);
}

int64_t dt_weight_count_not_finite(dt_dtype dtype, const void *data, int64_t n) {
    int64_t count = 0, bytes = (int64_t)dt_dtype_bytes(dtype);
    if (!dt_dtype_is_float(dtype)) return 0;
    for (int64_t i = 0; i < n; i++) count += !isfinite(read_float(dtype, (const unsigned char *)data + i * bytes));
    return count;
}
