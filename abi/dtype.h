/* dtype: the element types, one row each, shared by compiler, artifact and runtime. */
#ifndef DT_ABI_DTYPE_H
#define DT_ABI_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(enumerator, name in programs and files, bytes, name in safetensors, kind: 'f' float, 'i' integer, 'b' bool, signed) */
#define DT_DTYPES(X)                                                                                                                                 \
    X(F32, "f32", 4, "F32", 'f', 1)                                                                                                                  \
    X(F16, "f16", 2, "F16", 'f', 1)                                                                                                                  \
    X(BF16, "bf16", 2, "BF16", 'f', 1)                                                                                                               \
    X(F64, "f64", 8, "F64", 'f', 1)                                                                                                                  \
    X(I8, "i8", 1, "I8", 'i', 1)                                                                                                                     \
    X(U8, "u8", 1, "U8", 'i', 0)                                                                                                                     \
    X(I32, "i32", 4, "I32", 'i', 1)                                                                                                                  \
    X(I64, "i64", 8, "I64", 'i', 1)                                                                                                                  \
    X(BOOL, "bool", 1, "BOOL", 'b', 0)

typedef enum dt_dtype {
#define X(enumerator, name, bytes, safetensors, kind, is_signed) DT_##enumerator,
    DT_DTYPES(X)
#undef X
    DT_N_DTYPES
} dt_dtype;

static inline size_t dt_dtype_bytes(dt_dtype dtype) {
    static const unsigned char bytes_of[] = {
#define X(enumerator, name, bytes, safetensors, kind, is_signed) bytes,
        DT_DTYPES(X)
#undef X
    };
    return bytes_of[dtype];
}

static inline const char *dt_dtype_name(dt_dtype dtype) {
    static const char *const names[] = {
#define X(enumerator, name, bytes, safetensors, kind, is_signed) name,
        DT_DTYPES(X)
#undef X
    };
    return names[dtype];
}

static inline const char *dt_dtype_safetensors_name(dt_dtype dtype) {
    static const char *const names[] = {
#define X(enumerator, name, bytes, safetensors, kind, is_signed) safetensors,
        DT_DTYPES(X)
#undef X
    };
    return names[dtype];
}

/* 'f' float, 'i' integer, 'b' bool */
static inline char dt_dtype_kind(dt_dtype dtype) {
    static const char kinds[] = {
#define X(enumerator, name, bytes, safetensors, kind, is_signed) kind,
        DT_DTYPES(X)
#undef X
    };
    return kinds[dtype];
}

static inline int dt_dtype_is_float(dt_dtype dtype) { return dt_dtype_kind(dtype) == 'f'; }
static inline int dt_dtype_is_signed(dt_dtype dtype) { return dtype != DT_U8 && dtype != DT_BOOL; }

/* The least and the greatest value of an integer type or bool. */
static inline void dt_dtype_limits(dt_dtype dtype, int64_t *least, int64_t *greatest) {
    int bits = dtype == DT_BOOL ? 1 : 8 * (int)dt_dtype_bytes(dtype);
    *greatest = (int64_t)(UINT64_MAX >> (dt_dtype_is_signed(dtype) ? 65 - bits : 64 - bits));
    *least = dt_dtype_is_signed(dtype) ? -*greatest - 1 : 0;
}

/* DT_N_DTYPES when there is no such type. */
static inline dt_dtype dt_dtype_from_name(const char *name) {
    for (int d = 0; d < DT_N_DTYPES; d++)
        if (strcmp(dt_dtype_name((dt_dtype)d), name) == 0) return (dt_dtype)d;
    return DT_N_DTYPES;
}

/* NumPy's kind and size, "f4"; NULL: it has no such type. */
static inline const char *dt_dtype_numpy_name(dt_dtype dtype) {
    static const char *const names[DT_N_DTYPES] = {
        [DT_F32] = "f4", [DT_F16] = "f2", [DT_F64] = "f8", [DT_I8] = "i1", [DT_U8] = "u1", [DT_I32] = "i4", [DT_I64] = "i8", [DT_BOOL] = "b1"};
    return names[dtype];
}

/* DT_N_DTYPES when there is no such type. */
static inline dt_dtype dt_dtype_from_numpy_name(const char *name) {
    for (int d = 0; d < DT_N_DTYPES; d++)
        if (dt_dtype_numpy_name((dt_dtype)d) != NULL && strcmp(dt_dtype_numpy_name((dt_dtype)d), name) == 0) return (dt_dtype)d;
    return DT_N_DTYPES;
}

/* Floats of 16 bits are computed and added up as f32, and rounded once. */
static inline int dt_dtype_is_half(dt_dtype dtype) { return dtype == DT_F16 || dtype == DT_BF16; }
static inline dt_dtype dt_dtype_of_sums(dt_dtype dtype) { return dt_dtype_is_half(dtype) ? DT_F32 : dtype; }

#endif
