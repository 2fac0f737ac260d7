/* scalar: single elements: rounding to a dtype, conversion between dtypes, memory. See scalar.h. */
#include "ir/scalar.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The small formats that the machine may lack, as sign, exponent, mantissa. */
typedef struct small_format {
    int mantissa_bits, exponent_bits;
} small_format;

static small_format format_of(dt_dtype dtype) { return dtype == DT_F16 ? (small_format){10, 5} : (small_format){7, 8}; }

static int bias_of(small_format format) { return (1 << (format.exponent_bits - 1)) - 1; }

/* To nearest, ties as `nearest` has them; every intermediate is exact in double. */
static double round_by(double (*nearest)(double), double value, small_format format) {
    if (value == 0 || !isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent); /* value = fraction in [0.5, 1) times 2^exponent */
    int least = 1 - bias_of(format) + 1;
    double unit = ldexp(1, (exponent > least ? exponent : least) - 1 - format.mantissa_bits);
    double rounded = nearest(value / unit) * unit;
    return fabs(rounded) >= ldexp(1, bias_of(format) + 1) ? copysign(INFINITY, value) : rounded;
}

/* Half to even. */
static double round_small(double value, small_format format) { return round_by(rint, value, format); }

double dt_factor_round(double factor, dt_precision precision) {
    switch (precision) {
    case DT_PRECISION_TF32: return round_by(round, factor, (small_format){10, 8});
    case DT_PRECISION_BF16: return round_by(rint, factor, (small_format){7, 8});
    default: return factor;
    }
}

static uint16_t encode_small(double value, small_format format) {
    uint16_t sign = (uint16_t)((signbit(value) != 0) << (format.mantissa_bits + format.exponent_bits));
    uint16_t top = (uint16_t)(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
    if (isnan(value)) return (uint16_t)(sign | top | 1 << (format.mantissa_bits - 1));
    double size = fabs(round_small(value, format));
    if (isinf(size)) return sign | top;
    int exponent;
    frexp(size, &exponent);
    int biased = size == 0 ? 0 : exponent - 1 + bias_of(format);
    if (biased <= 0) return (uint16_t)(sign | (uint16_t)ldexp(size, bias_of(format) - 1 + format.mantissa_bits));
    uint16_t mantissa = (uint16_t)ldexp(size, format.mantissa_bits - exponent + 1);
    return (uint16_t)(sign | (mantissa + ((biased - 1) << format.mantissa_bits)));
}

static double decode_small(uint16_t bits, small_format format) {
    int top = (1 << format.exponent_bits) - 1;
    int mantissa = bits & ((1 << format.mantissa_bits) - 1), exponent = bits >> format.mantissa_bits & top;
    double size;
    if (exponent == top)
        size = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        size = ldexp(mantissa, 1 - bias_of(format) - format.mantissa_bits);
    else
        size = ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias_of(format) - format.mantissa_bits);
    return bits >> (format.mantissa_bits + format.exponent_bits) ? -size : size;
}

dt_scalar dt_scalar_round(dt_scalar value, dt_dtype dtype) {
    switch (dtype) {
    case DT_F32: return (dt_scalar){.f = (double)(float)value.f};
    case DT_F16:
    case DT_BF16: return (dt_scalar){.f = round_small(value.f, format_of(dtype))};
    case DT_I8: return (dt_scalar){.i = (int8_t)(uint64_t)value.i};
    case DT_U8: return (dt_scalar){.i = (uint8_t)(uint64_t)value.i};
    case DT_I32: return (dt_scalar){.i = (int32_t)(uint64_t)value.i};
    case DT_BOOL: return (dt_scalar){.i = value.i != 0};
    default: return value;
    }
}

void dt_scalars_round(dt_scalar *values, size_t n, dt_dtype dtype) {
    switch (dtype) {
    case DT_F64:
    case DT_I64: return;
    case DT_F32:
        for (size_t i = 0; i < n; i++) values[i].f = (double)(float)values[i].f;
        return;
    case DT_I32:
        for (size_t i = 0; i < n; i++) values[i].i = (int32_t)(uint64_t)values[i].i;
        return;
    default:
        for (size_t i = 0; i < n; i++) values[i] = dt_scalar_round(values[i], dtype);
    }
}

static int64_t saturate(double value, dt_dtype dtype) {
    int64_t least, greatest;
    dt_dtype_limits(dtype, &least, &greatest);
    if (isnan(value)) return 0;
    if (value >= (double)greatest) return greatest;
    return value <= (double)least ? least : (int64_t)value;
}

dt_scalar dt_scalar_convert(dt_scalar value, dt_dtype from, dt_dtype to) {
    bool from_float = dt_dtype_is_float(from);
    if (to == DT_BOOL) return (dt_scalar){.i = from_float ? value.f != 0 : value.i != 0};
    if (dt_dtype_is_float(to)) {
        double number = from_float ? value.f : to == DT_F64 ? (double)value.i : (double)(float)value.i;
        return dt_scalar_round((dt_scalar){.f = number}, to);
    }
    return from_float ? (dt_scalar){.i = saturate(value.f, to)} : dt_scalar_round(value, to);
}

/* One memory format a dtype: X(dtype, C type, member) for those that C has. */
#define PLAIN(X)                                                                                                                                     \
    X(DT_F32, float, f)                                                                                                                              \
    X(DT_F64, double, f)                                                                                                                             \
    X(DT_I8, int8_t, i)                                                                                                                              \
    X(DT_U8, uint8_t, i)                                                                                                                             \
    X(DT_I32, int32_t, i)                                                                                                                            \
    X(DT_I64, int64_t, i)                                                                                                                            \
    X(DT_BOOL, uint8_t, i)

dt_scalar dt_scalar_load(const void *memory, dt_dtype dtype) {
    switch (dtype) {
#define X(dtype, type, member)                                                                                                                       \
    case dtype: {                                                                                                                                    \
        type element;                                                                                                                                \
        memcpy(&element, memory, sizeof element);                                                                                                    \
        return (dt_scalar){.member = element};                                                                                                       \
    }
        PLAIN(X)
#undef X
    default: {
        uint16_t bits;
        memcpy(&bits, memory, sizeof bits);
        return (dt_scalar){.f = decode_small(bits, format_of(dtype))};
    }
    }
}

void dt_scalar_store(void *memory, dt_dtype dtype, dt_scalar value) {
    value = dt_scalar_round(value, dtype);
    switch (dtype) {
#define X(dtype, type, member)                                                                                                                       \
    case dtype: {                                                                                                                                    \
        type element = (type)value.member;                                                                                                           \
        memcpy(memory, &element, sizeof element);                                                                                                    \
        break;                                                                                                                                       \
    }
        PLAIN(X)
#undef X
    default: {
        uint16_t bits = encode_small(value.f, format_of(dtype));
        memcpy(memory, &bits, sizeof bits);
    }
    }
}
