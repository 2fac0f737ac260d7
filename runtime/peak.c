/* peak: see the header. Plain C loops over vector types, compiled once for each level; the build lets the compiler contract a product and a sum
 * in this file alone.
 *
 * Best of several short runs: a peak is what the machine can do, and on a busy one most runs are disturbed. */
#include "runtime/peak.h"

#include "base/memory.h"
#include "runtime/clock.h"

#include <string.h>

enum {
    N_CHAINS = 12, /* independent sums: more than the latency of two units, and no more than there are registers on every level */
    N_TURNS = 100000,
    N_RUNS = 10,
    N_COPIES = 5,
    COPY_BYTES = 64 << 20
};

static volatile float sink;        /* the loops have a result */
static volatile float half = 0.5F; /* unknown to the compiler, which leaves out a chain that it sees to stand still */

/* Each chain goes to a limit near 1 and stays there: no infinities, no denormals. */
#define DEFINE_CHAINS(name, bytes, attributes)                                                                                                       \
    typedef float name##_vector __attribute__((vector_size(bytes)));                                                                                 \
    attributes static void name(void) {                                                                                                              \
        name##_vector sums[N_CHAINS], factor, term;                                                                                                  \
        for (int i = 0; i < (bytes) / 4; i++) factor[i] = term[i] = half;                                                                            \
        for (int c = 0; c < N_CHAINS; c++) sums[c] = term * (float)c;                                                                                \
        for (int t = 0; t < N_TURNS; t++) {                                                                                                          \
            _Pragma("GCC unroll 12") for (int c = 0; c < N_CHAINS; c++) sums[c] = sums[c] * factor + term;                                           \
        }                                                                                                                                            \
        for (int c = 1; c < N_CHAINS; c++) sums[0] += sums[c];                                                                                       \
        sink = sums[0][0];                                                                                                                           \
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

double dt_peak_flops(int level) {
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

double dt_peak_bytes(void) {
    double best = 0;
    char *from = dt_allocate(COPY_BYTES), *to = dt_allocate(COPY_BYTES);
    if (from != NULL && to != NULL) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        for (int i = 0; i < N_COPIES; i++) {
            double began = dt_seconds_now();
            memcpy(to, from, COPY_BYTES);
            sink = to[i];
            double seconds = dt_seconds_now() - began;
            if (i == 0 || seconds < best) best = seconds;
        }
    }
    dt_release(from);
    dt_release(to);
    return best > 0 ? 2.0 * COPY_BYTES / best : 0;
}
