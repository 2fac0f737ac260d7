/* peak: see the header. Plain C loops over vector types, compiled once for each level; the build lets the compiler contract a product and a sum
 * in this file alone.
 *
 * Best of several short runs: a peak is what the machine can do, and on a busy one most runs are disturbed. */
#include "runtime/devices/peak.h"

#include "base/memory.h"
#include "runtime/threads/clock.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum {
    N_CHAINS = 12, /* independent sums: more than the latency of two units, and no more than there are registers on every level */
    N_TURNS = 100000,
    N_RUNS = 10,
    N_COPIES = 10,
    MEMORY_BYTES = 64 << 20, /* of each of two buffers */
    CACHE_BYTES = 96 << 10   /* the two are larger than a first-level cache and fit a second */
};

/* Each chain goes to a limit near 1 and stays there: no infinities, no denormals. The compiler would leave out a chain that it sees to stand still,
 * and one without a result. */
#define DEFINE_CHAINS(name, bytes, attributes)                                                                                                       \
    typedef float name##_vector __attribute__((vector_size(bytes)));                                                                                 \
    attributes static void name(void) {                                                                                                              \
        volatile float half = 0.5F, sink;                                                                                                            \
        name##_vector sums[N_CHAINS], factor, term;                                                                                                  \
        for (int i = 0; i < (bytes) / 4; i++) factor[i] = term[i] = half;                                                                            \
        for (int c = 0; c < N_CHAINS; c++) sums[c] = term * (float)c;                                                                                \
        for (int t = 0; t < N_TURNS; t++) {                                                                                                          \
            _Pragma("GCC unroll 12") for (int c = 0; c < N_CHAINS; c++) sums[c] = sums[c] * factor + term;                                           \
        }                                                                                                                                            \
        for (int c = 1; c < N_CHAINS; c++) sums[0] += sums[c];                                                                                       \
        sink = sums[0][0];                                                                                                                           \
        (void)sink;                                                                                                                                  \
    }

DEFINE_CHAINS(chains_16, 16, )
#if defined(__x86_64__)
DEFINE_CHAINS(chains_32, 32, __attribute__((target("avx2,fma"))))
DEFINE_CHAINS(chains_64, 64, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))))
#endif

static double seconds_of(void (*run)(void)) {
    double began = dt_seconds_now();
    run();
    return dt_seconds_now() - began;
}

static double measure_flops(int level) {
    void (*run)(void) = chains_16;
    double bytes = 16, best = 0;
#if defined(__x86_64__)
    if (level >= 3) run = chains_32, bytes = 32;
    if (level >= 4) run = chains_64, bytes = 64;
#else
    (void)level;
#endif
    for (int i = 0; i < N_RUNS; i++) {
        double seconds = seconds_of(run);
        if (i == 0 || seconds < best) best = seconds;
    }
    return best > 0 ? 2 * N_CHAINS * (bytes / 4) * N_TURNS / best : 0;
}

static void copy(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }

/* As kernels store what is larger than caches: lines that are overwritten are not read first, which memcpy takes to at its own sizes. `to` is as
 * malloc aligns, `bytes` a multiple of that. */
static void copy_streaming(char *to, const char *from, size_t bytes) {
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes; i += sizeof(__m128i)) _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
    _mm_sfence();
#else
    copy(to, from, bytes);
#endif
}

/* Copies `bytes` as often as makes up MEMORY_BYTES. */
static double measure_bytes(void (*how)(char *, const char *, size_t), char *to, const char *from, size_t bytes) {
    double best = 0;
    volatile char sink; /* so that what is copied is read */
    size_t n = MEMORY_BYTES / bytes;
    for (int run = 0; run < N_COPIES; run++) {
        double began = dt_seconds_now();
        for (size_t i = 0; i < n; i++) {
            how(to, from, bytes);
            sink = to[i % bytes];
        }
        double seconds = dt_seconds_now() - began;
        if (run == 0 || seconds < best) best = seconds;
    }
    (void)sink;
    return best > 0 ? 2.0 * (double)bytes * (double)n / best : 0;
}

dt_peak dt_peak_measure(int level) {
    dt_peak peak = {.flops = measure_flops(level)};
    char *from = dt_allocate(MEMORY_BYTES), *to = dt_allocate(MEMORY_BYTES);
    if (from != NULL && to != NULL) {
        memset(from, 1, MEMORY_BYTES);
        memset(to, 2, MEMORY_BYTES);
        double ordinary = measure_bytes(copy, to, from, MEMORY_BYTES), streaming = measure_bytes(copy_streaming, to, from, MEMORY_BYTES);
        peak.memory_bytes = streaming > ordinary ? streaming : ordinary;
        peak.cache_bytes = measure_bytes(copy, to, from, CACHE_BYTES);
    }
    dt_release(from);
    dt_release(to);
    return peak;
}

static double fraction(double rate, double of) { return of > 0 ? rate / of : 0; }

dt_peak_share dt_peak_nearest(const dt_peak *peak, double flops, double bytes) {
    bool cached = bytes > peak->memory_bytes;
    dt_peak_share computing = {fraction(flops, peak->flops), "flops"};
    dt_peak_share moving = {fraction(bytes, cached ? peak->cache_bytes : peak->memory_bytes), cached ? "cache" : "memory"};
    return computing.share > moving.share ? computing : moving;
}
