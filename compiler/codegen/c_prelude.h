/* c_prelude: what generated C starts with, apart from dt_launch. The meaning of each function is that of llvm_scalar.c. */
#include <stdbool.h>
#include <stdint.h>

/* Elements of buffers, which share memory where they are not in use together. */
typedef int8_t __attribute__((may_alias)) i8;
typedef uint8_t __attribute__((may_alias)) u8;
typedef uint16_t __attribute__((may_alias)) u16;
typedef int32_t __attribute__((may_alias)) i32;
typedef int64_t __attribute__((may_alias)) i64;
typedef float __attribute__((may_alias)) f32;
typedef double __attribute__((may_alias)) f64;

#define APART static __attribute__((noinline)) /* compiled alone: callers do not see what is in it */

/* The same bits as another type. */
#define BITS(name, to, from)                                                                                                                         \
    static inline to name(from x) {                                                                                                                  \
        to bits;                                                                                                                                     \
        __builtin_memcpy(&bits, &x, sizeof x);                                                                                                       \
        return bits;                                                                                                                                 \
    }
BITS(bits_i32, i32, f32)
BITS(bits_f32, f32, i32)
BITS(bits_i64, i64, f64)
BITS(bits_f64, f64, i64)
BITS(bits_u16, u16, _Float16)
BITS(bits_f16, _Float16, u16)

/* ---- floats: NaN if either is ---- */

#define HIGHER(a, b) ((a) != (a) ? (a) : (a) > (b) ? (a) : (b))
#define LOWER(a, b) ((a) != (a) ? (a) : (a) < (b) ? (a) : (b))
static inline float higher_f32(float a, float b) { return HIGHER(a, b); }
static inline float lower_f32(float a, float b) { return LOWER(a, b); }
static inline double higher_f64(double a, double b) { return HIGHER(a, b); }
static inline double lower_f64(double a, double b) { return LOWER(a, b); }
static inline i64 higher_i64(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 lower_i64(i64 a, i64 b) { return a < b ? a : b; }

static inline float round_tf32(float x) { return x != x ? x : bits_f32((i32)(((uint32_t)bits_i32(x) + 0x1000) & ~(uint32_t)0x1fff)); }
static inline float round_bf16(float x) {
    uint32_t bits = (uint32_t)bits_i32(x);
    bits = x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    return bits_f32((i32)(bits & 0xffff0000));
}
static inline u16 to_bf16(float x) { return (u16)((uint32_t)bits_i32(round_bf16(x)) >> 16); }
static inline float from_bf16(u16 x) { return bits_f32((i32)((uint32_t)x << 16)); }
static inline u16 to_f16(float x) { return bits_u16((_Float16)x); }
static inline float from_f16(u16 bits) { return bits_f16(bits); }
static inline float round_f16(float x) { return from_f16(to_f16(x)); }

/* ---- vectors ---- */

#define VECTOR(name, type, n, fma)                                                                                                                   \
    typedef type name __attribute__((vector_size(n * sizeof(type)), aligned(sizeof(type)), may_alias));                                              \
    static inline __attribute__((always_inline)) name splat_##name(type x) { return x - (name){0}; }                                                 \
    static inline __attribute__((always_inline)) name fma_##name(name a, name b, name c) {                                                           \
        name sum;                                                                                                                                    \
        for (int k = 0; k < n; k++) sum[k] = fma(a[k], b[k], c[k]);                                                                                  \
        return sum;                                                                                                                                  \
    }
VECTOR(f32x2, f32, 2, __builtin_fmaf)
VECTOR(f32x4, f32, 4, __builtin_fmaf)
VECTOR(f32x8, f32, 8, __builtin_fmaf)
VECTOR(f32x16, f32, 16, __builtin_fmaf)
VECTOR(f64x2, f64, 2, __builtin_fma)
VECTOR(f64x4, f64, 4, __builtin_fma)
VECTOR(f64x8, f64, 8, __builtin_fma)
#ifdef __FMA__ /* GCC makes vectors of those loops, but in an order that 16 registers do not hold */
#define fma_f32x4 __builtin_ia32_vfmaddps
#define fma_f32x8 __builtin_ia32_vfmaddps256
#define fma_f64x2 __builtin_ia32_vfmaddpd
#define fma_f64x4 __builtin_ia32_vfmaddpd256
#endif

/* ---- integers ---- */

/* Both 0 where the divisor is 0; the least number divided by -1 is itself. */
static inline i64 quotient(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
static inline i64 rest(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
static inline uint64_t shift_left(uint64_t a, uint64_t b, unsigned bits) { return b < bits ? a << b : 0; }
static inline uint64_t shift_right(uint64_t a, uint64_t b, unsigned bits) { return b < bits ? a >> b : 0; }
static inline i32 high_product(i32 a, i32 b) { return (i32)((uint64_t)(uint32_t)a * (uint32_t)b >> 32); }

/* Truncates and saturates; 0 of NaN. APART, since GCC makes -0 of -0.5 where it sees that the integer becomes a float again. */
#define SATURATED(type, least, greatest) (x != x ? 0 : x <= (least) ? (type)(least) : x >= (greatest) ? (type)(greatest) : (type)x)
APART i8 to_i8(double x) { return SATURATED(i8, -128.0, 127.0); }
APART u8 to_u8(double x) { return SATURATED(u8, 0.0, 255.0); }
APART i32 to_i32(double x) { return SATURATED(i32, -2147483648.0, 2147483647.0); }
APART i64 to_i64(double x) { return x >= 0x1p63 ? INT64_MAX : SATURATED(i64, -0x1p63, 0x1p63 - 1024); }

/* ---- indices and shares ---- */

static bool check(const dt_launch *launch, i64 value, i64 limit, i64 row, i64 location, bool is_counted, bool before) {
    if ((uint64_t)value < (uint64_t)limit) return true;
    dt_bad_index *all = launch->bad_index;
    if (!is_counted || (before && all->count > 0)) return false;
    dt_bad_index one = {.count = 1, .value = value, .row = row, .location = location, .limit = limit};
    if (dt_bad_index_is_first(&one, all)) all->value = value, all->row = row, all->location = location, all->limit = limit;
    all->count++;
    return false;
}

/* The first iteration of a share of a divided nest, and that of a part of those from `first` to `end`. */
static inline i64 share_start(const dt_launch *launch, i64 share, i64 n_units, i64 turn, i64 first_unit, i64 unit_iterations, i64 extent) {
    i64 unit = (n_units * share + turn % launch->n_shares) / launch->n_shares - first_unit;
    return lower_i64(unit < 0 ? 0 : unit * unit_iterations, extent);
}
static inline i64 part_start(const dt_launch *launch, i64 part, i64 iterations, i64 first, i64 end) {
    return lower_i64(first + (end - first + iterations - 1) / iterations * part / launch->n_parts * iterations, end);
}

/* What the processor's clock shows. */
static inline i64 cycles(void) {
#ifdef __x86_64__
    return (i64)__builtin_ia32_rdtsc();
#else
    i64 now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#endif
}
/* Adds the time since `before` to a timer. */
static inline i64 read_timer(const dt_launch *launch, i64 timer, i64 before) {
    const i64 now = cycles();
    launch->timers[2 * timer] += now - before;
    launch->timers[2 * timer + 1]++;
    return now;
}
