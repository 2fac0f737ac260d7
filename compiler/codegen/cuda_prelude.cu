// What generated kernels are made of. No header of the toolkit is needed: NVRTC knows the few built-in functions below, and where there is no GPU
// an emulation provides them (it defines DT_EMULATED, and what PTX does, in C).

#ifndef DT_EMULATED
#pragma nv_diag_suppress 186  // 0 < x is said of u8 as of any other type
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define INLINE inline __device__

enum : lane_set { ALL_LANES = ~lane_set(0) >> (8 * sizeof(lane_set) - DT_WARP) };

// ---- who am I ----

INLINE int grid_thread() { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
INLINE int grid_threads() { return (int)(gridDim.x * blockDim.x); }

// Where processes share out an update: whether an iteration of a nest's outermost loop is this process's own. The numbers are those of dt_nest_share
// (compiler/kernel/kernel.h), the shares those of abi/share.h.
INLINE i64 share_start(const dt_launch *launch, i64 share, i64 n_units, i64 turn, i64 first_unit, i64 unit_iterations) {
    return ((n_units * share + turn % launch->n_shares) / launch->n_shares - first_unit) * unit_iterations;
}
INLINE bool is_own(const dt_launch *launch, i64 iteration, i64 n_units, i64 turn, i64 first_unit, i64 unit_iterations) {
    return launch->n_shares <= 1 || (share_start(launch, launch->share, n_units, turn, first_unit, unit_iterations) <= iteration &&
                                     iteration < share_start(launch, launch->share + 1, n_units, turn, first_unit, unit_iterations));
}

// The value, of which the compiler computes nothing ahead: within the loop before it, registers are short.
#ifndef DT_EMULATED
INLINE int not_ahead(int value) {
    asm volatile("" : "+r"(value));
    return value;
}
INLINE i64 not_ahead(i64 value) {
    asm volatile("" : "+l"(value));
    return value;
}
#endif

// ---- several values side by side in memory, at an address that is a multiple of their bytes: read and written at once ----

template <class T, int N> struct alignas(sizeof(T) * N) values {
    T at[N];
};
#ifndef DT_EMULATED
template <class V> INLINE V *whole(void *pointer) { return (V *)pointer; }
template <class V> INLINE const V *whole(const void *pointer) { return (const V *)pointer; }
#endif
template <int N, class T> INLINE values<T, N> load(const T *pointer) { return *whole<values<T, N>>(pointer); }
template <int N, class T> INLINE void store(T *pointer, const values<T, N> &value) { *whole<values<T, N>>(pointer) = value; }

template <int N, class T> INLINE values<T, N> filled(T value) {
    values<T, N> all;
    for (int k = 0; k < N; k++) all.at[k] = value;
    return all;
}

// ---- floats of 16 bits: registers hold float, memory holds bits ----

#ifndef DT_EMULATED
INLINE float from_f16(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
INLINE u16 to_f16(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif
INLINE float from_bf16(u16 bits) { return __uint_as_float((u32)bits << 16); }
INLINE u16 to_bf16(float value) {  // to nearest, ties to even; NaN stays NaN
    u32 bits = __float_as_uint(value);
    if (value != value) return (u16)((bits | 0x400000u) >> 16);
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
INLINE float round_f16(float value) { return from_f16(to_f16(value)); }
INLINE float round_bf16(float value) { return from_bf16(to_bf16(value)); }
// what cvt.rna.tf32.f32 does: to nearest, ties away from 0
INLINE float round_tf32(float value) { return value != value ? value : __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u); }

// ---- what C leaves undefined, or does otherwise ----

template <class T> INLINE T lower(T a, T b) { return a < b || a != a ? a : b; }   // NaN if either is
template <class T> INLINE T higher(T a, T b) { return a > b || a != a ? a : b; }

template <class T> INLINE bool is_minus_one(T b) { return T(-1) < T(0) && b == T(-1); }
template <class T> INLINE T quotient(T a, T b) { return b == 0 ? T(0) : is_minus_one(b) ? T(0 - (u64)a) : T(a / b); }  // integers; by 0: 0
template <class T> INLINE T remainder_of(T a, T b) { return b == 0 || is_minus_one(b) ? T(0) : T(a % b); }

// integers wrap around
template <class T> INLINE T sum_of(T a, T b) { return T((u64)a + (u64)b); }
template <class T> INLINE T difference(T a, T b) { return T((u64)a - (u64)b); }
template <class T> INLINE T product(T a, T b) { return T((u64)a * (u64)b); }
template <class T> INLINE T opposite(T a) { return T(0 - (u64)a); }
template <class T> INLINE T size_of(T a) { return a < 0 ? T(0 - (u64)a) : a; }
INLINE int high_product(int a, int b) { return (int)((u64)(u32)a * (u32)b >> 32); }

INLINE u8 pattern(i8 a) { return (u8)a; }
INLINE u8 pattern(u8 a) { return a; }
INLINE u32 pattern(int a) { return (u32)a; }
INLINE u64 pattern(i64 a) { return (u64)a; }
template <class T> INLINE T shift_left(T a, T b) { return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T((u64)a << (int)b); }
template <class T> INLINE T shift_right(T a, T b) { return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T(pattern(a) >> (int)b); }

// floats become integers towards zero, at the ends of the type where they do not fit, NaN 0
template <class T, class F> INLINE T saturated(F x, F least, F above, T lowest, T highest) {
    return x != x ? T(0) : x <= least ? lowest : x >= above ? highest : T(x);
}
template <class F> INLINE i8 to_i8(F x) { return saturated<i8, F>(x, F(-128), F(127), -128, 127); }
template <class F> INLINE u8 to_u8(F x) { return saturated<u8, F>(x, F(0), F(255), 0, 255); }
template <class F> INLINE int to_i32(F x) { return saturated<int, F>(x, F(-2147483648.0), F(2147483648.0), -2147483647 - 1, 2147483647); }
template <class F> INLINE i64 to_i64(F x) {
    return saturated<i64, F>(x, F(-9223372036854775808.0), F(9223372036854775808.0), -9223372036854775807LL - 1, 9223372036854775807LL);
}

INLINE int bits_of(float x) { return __float_as_int(x); }
INLINE float bits_of(int x) { return __int_as_float(x); }
INLINE i64 bits_of(double x) { return __double_as_longlong(x); }
INLINE double bits_of(i64 x) { return __longlong_as_double(x); }
INLINE u8 bits_of(i8 x) { return (u8)x; }
INLINE i8 bits_of(u8 x) { return (i8)x; }

INLINE float infinity() { return __int_as_float(0x7f800000); }
INLINE float not_a_number() { return __int_as_float(0x7fc00000); }

// ---- indices from data ----

// Of a record: nothing is in it yet, a thread writes it, there is one.
constexpr u64 EMPTY = 0, WRITTEN = 1, FULL = 2;

// Whether an index comes before the recorded one: by its row, by its location, by its value.
INLINE bool comes_before(const volatile dt_bad_index *record, i64 value, i64 row, int location) {
    if (row != record->row) return row < record->row;
    return location != record->location ? location < record->location : value < record->value;
}

// Counts an index, and records it if it is the first, so that the record does not depend on the order of threads. One thread at a time writes; those of
// higher rows, which are most, need not wait for it: the recorded row only falls.
INLINE void record_bad_index(dt_bad_index *record, i64 value, i64 limit, i64 row, int location, i64 iteration) {
    volatile dt_bad_index *seen = record;
    u64 *state = (u64 *)&record->state;
    atomicAdd((u64 *)&record->count, (u64)1);
    for (bool done = false; !done;) {
        const u64 before = (u64)seen->state;
        __threadfence();
        if (before == FULL && row > seen->row) {
            done = true;
        } else if (before != WRITTEN && atomicCAS(state, before, WRITTEN) == before) {
            __threadfence();
            if (before == EMPTY || comes_before(seen, value, row, location)) {
                seen->value = value;
                seen->row = row;
                seen->location = location;
                seen->limit = limit;
                seen->loop = iteration + 1;
            }
            __threadfence();
            atomicExch(state, FULL);
            done = true;
        }
    }
}

// Whether an index is in [0, limit). Where it is not, it is counted. iteration: of the loop that the launch is in; -1: it is in none.
INLINE bool checked(const dt_launch *launch, i64 value, i64 limit, i64 row, int location, bool counts, i64 iteration = -1) {
    if (value >= 0 && value < limit) return true;
    if (counts) record_bad_index(launch->bad_index, value, limit, row, location, iteration);
    return false;
}

// Whether lane by lane of the warp something holds; the first of such lanes; and those of another lane.
INLINE lane_set lanes_where(bool holds) { return __ballot_sync(ALL_LANES, holds); }
INLINE int first_of(u32 lanes) { return __ffs((int)lanes) - 1; }
INLINE int first_of(u64 lanes) { return __ffsll((i64)lanes) - 1; }
INLINE lane_set lanes_of(lane_set lanes, int lane) { return __shfl_sync(ALL_LANES, lanes, lane); }

// ---- reduction by a team: a tree over the lanes of a warp, then the warps in their order. The order never depends on anything else. ----

struct by_sum {
    template <class T> static __device__ T of(T a, T b) { return a + b; }
    static __device__ i64 of(i64 a, i64 b) { return sum_of(a, b); }
    static __device__ int of(int a, int b) { return sum_of(a, b); }
};
struct by_product {
    template <class T> static __device__ T of(T a, T b) { return a * b; }
    static __device__ i64 of(i64 a, i64 b) { return product(a, b); }
    static __device__ int of(int a, int b) { return product(a, b); }
};
struct by_lower {
    template <class T> static __device__ T of(T a, T b) { return lower(a, b); }
};
struct by_higher {
    template <class T> static __device__ T of(T a, T b) { return higher(a, b); }
};

template <class T> INLINE T from_lane_after(T value, int distance) { return __shfl_down_sync(ALL_LANES, value, distance); }
INLINE i8 from_lane_after(i8 value, int distance) { return (i8)__shfl_down_sync(ALL_LANES, (int)value, distance); }
INLINE u8 from_lane_after(u8 value, int distance) { return (u8)__shfl_down_sync(ALL_LANES, (int)value, distance); }
INLINE bool from_lane_after(bool value, int distance) { return __shfl_down_sync(ALL_LANES, (int)value, distance) != 0; }
template <class T> INLINE T from_first_lane(T value) { return __shfl_sync(ALL_LANES, value, 0); }
INLINE i8 from_first_lane(i8 value) { return (i8)__shfl_sync(ALL_LANES, (int)value, 0); }
INLINE u8 from_first_lane(u8 value) { return (u8)__shfl_sync(ALL_LANES, (int)value, 0); }
INLINE bool from_first_lane(bool value) { return __shfl_sync(ALL_LANES, (int)value, 0) != 0; }

template <class Combiner, class T> INLINE T reduce_warp(T value) {
    for (int distance = DT_WARP / 2; distance > 0; distance /= 2) {
        T other = from_lane_after(value, distance);
        value = Combiner::of(value, other);
    }
    return from_first_lane(value);
}
template <class Combiner, int WARPS, class T> INLINE T reduce_block(T value, u64 *partials) {
    T *partial = (T *)partials;
    value = reduce_warp<Combiner>(value);
    __syncthreads();
    if (threadIdx.x % DT_WARP == 0) partial[threadIdx.x / DT_WARP] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) value = Combiner::of(value, partial[warp]);
    return value;
}

// Positions of the greatest, or the least: of equal values the first. NaN is better than any number, and not better than NaN.
template <class T> struct candidate {
    T value;
    i64 position;
};
struct greatest {
    template <class T> static __device__ bool beats(T x, T best) { return (x > best || x != x) && best == best; }
};
struct least {
    template <class T> static __device__ bool beats(T x, T best) { return (x < best || x != x) && best == best; }
};
template <class Order, class T> INLINE void consider(candidate<T> &best, T value, i64 position) {
    if (best.position >= 0 && !Order::beats(value, best.value)) return;
    best.value = value;
    best.position = position;
}
template <class Order, class T> INLINE void consider_other(candidate<T> &best, candidate<T> other) {
    bool better = best.position < 0 || Order::beats(other.value, best.value);
    bool tie = !Order::beats(best.value, other.value) && other.position < best.position;
    if (other.position >= 0 && (better || tie)) best = other;
}
template <class Order, class T> INLINE candidate<T> best_of_warp(candidate<T> best) {
    for (int distance = DT_WARP / 2; distance > 0; distance /= 2) {
        candidate<T> other = {from_lane_after(best.value, distance), from_lane_after(best.position, distance)};
        consider_other<Order>(best, other);
    }
    best.value = from_first_lane(best.value);
    best.position = from_first_lane(best.position);
    return best;
}
template <class Order, int WARPS, class T> INLINE candidate<T> best_of_block(candidate<T> best, u64 *partials) {
    candidate<T> *partial = (candidate<T> *)partials;
    best = best_of_warp<Order>(best);
    __syncthreads();
    if (threadIdx.x % DT_WARP == 0) partial[threadIdx.x / DT_WARP] = best;
    __syncthreads();
    best = partial[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) consider_other<Order>(best, partial[warp]);
    return best;
}

// ---- small products by 32 lanes of a warp: sum[16, 8] += a[16, terms] b[terms, 8], of values that tf32 and bf16 hold ----
//
// Lane 4 g + q has of the sum elements (g, 2 q), (g, 2 q + 1), (g + 8, 2 q), (g + 8, 2 q + 1). Of a and b, 8 terms of tf32: a (g, q), (g + 8, q),
// (g, q + 4), (g + 8, q + 4) and b (q, g), (q + 4, g); 16 terms of bf16, two to a register: the same with terms 2 q and 2 q + 1, and those 8 further.

INLINE u32 bf16_pair(float first, float second) { return __float_as_uint(first) >> 16 | (__float_as_uint(second) & 0xffff0000u); }

#if defined(DT_EMULATED) || __CUDA_ARCH__ < 800
// What such a product is, by exchanges: terms are added one after the other. Tensor cores add the terms of one instruction in an order of their own.
INLINE void add_terms(float (&sum)[4], float low, float high, float left, float right) {
    sum[0] = fmaf(low, left, sum[0]);
    sum[1] = fmaf(low, right, sum[1]);
    sum[2] = fmaf(high, left, sum[2]);
    sum[3] = fmaf(high, right, sum[3]);
}
INLINE u32 from_lane_of(u32 value, int lane) { return __shfl_sync(ALL_LANES, value, threadIdx.x % DT_WARP / 32 * 32 + lane); }
INLINE void multiply_tf32(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    for (int term = 0; term < 8; term++) {
        const u32 low = from_lane_of(a[term / 4 * 2], row + term % 4), high = from_lane_of(a[term / 4 * 2 + 1], row + term % 4);
        const u32 left = from_lane_of(b[term / 4], column + term % 4), right = from_lane_of(b[term / 4], column + 4 + term % 4);
        add_terms(sum, __uint_as_float(low), __uint_as_float(high), __uint_as_float(left), __uint_as_float(right));
    }
}
INLINE void multiply_bf16(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    for (int pair = 0; pair < 8; pair++) {
        const u32 low = from_lane_of(a[pair / 4 * 2], row + pair % 4), high = from_lane_of(a[pair / 4 * 2 + 1], row + pair % 4);
        const u32 left = from_lane_of(b[pair / 4], column + pair % 4), right = from_lane_of(b[pair / 4], column + 4 + pair % 4);
        add_terms(sum, from_bf16((u16)low), from_bf16((u16)high), from_bf16((u16)left), from_bf16((u16)right));
        add_terms(sum, from_bf16((u16)(low >> 16)), from_bf16((u16)(high >> 16)), from_bf16((u16)(left >> 16)), from_bf16((u16)(right >> 16)));
    }
}
#else
INLINE void multiply_tf32(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
INLINE void multiply_bf16(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
