/* half: the 16-bit floats, f16 (IEEE binary16) and bf16 (the upper half of a float32), to and from float32. To nearest, ties to even. And tf32, the
 * float32 with 10 bits behind the point. */
#ifndef DT_BASE_HALF_H
#define DT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float dt_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t dt_bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float dt_f32_from_bf16(uint16_t half) { return dt_f32_from_bits((uint32_t)half << 16); }

static inline uint16_t dt_bf16_from_f32(float value) {
    uint32_t bits = dt_bits_of_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);                 /* to nearest, ties to even */
}

/* To nearest, ties away from 0. */
static inline float dt_tf32_from_f32(float value) {
    return value != value ? value : dt_f32_from_bits((dt_bits_of_f32(value) + 0x1000u) & 0xffffe000u);
}

static inline float dt_f32_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return dt_f32_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    /* Shifting the 15 bits into a float's place leaves the exponent 112 too small; the product also makes subnormals normal. */
    return dt_f32_from_bits(sign | dt_bits_of_f32(dt_f32_from_bits(magnitude << 13) * 0x1p112f));
}

static inline uint16_t dt_f16_from_f32(float value) {
    uint32_t bits = dt_bits_of_f32(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (bits < 0x38800000u)                                     /* subnormal: adding 0.5 leaves its multiple of 2^-24 in the low bits */
        return (uint16_t)(sign | (dt_bits_of_f32(dt_f32_from_bits(bits) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13);
}

#endif
