/* bench: runs one step over and over and says where its time goes, kernel by kernel.
 *
 * The batch is made up once: floats in [0, 1), whole numbers 0 to 9 (fit for class labels and for any table of ten rows or more), bytes of any
 * value where an input of bytes has two dimensions or more after its rows (an image). With a folder of data it is the step's pipeline instead,
 * full batches only, and a step's time includes the wait for its batch. Weights are those of the program's initialisers.
 *
 * On a GPU each step is run twice: as it is, for its time, and kernel by kernel between events, for theirs.
 *
 * Where the run has several processes all of them make the same calls, on their own rows, and each gets the times of its own kernels.
 *
 * Two of them may be run in turn, one step each, so that what disturbs the machine disturbs both. */
#ifndef DT_RUNTIME_BENCH_H
#define DT_RUNTIME_BENCH_H

#include "runtime/devices/peak.h"
#include "runtime/run.h"

typedef struct dt_bench dt_bench;

/* Of the options it takes: step (NULL: "train"), from, data (NULL: made-up input), devices, replicas, global_batch, seed, processes. n_steps: how
 * many will be measured at most. The kernels outlive it. */
dt_status *dt_bench_create(const dt_kernels *kernels, const dt_run_options *options, int64_t n_steps, dt_bench **bench);
void dt_bench_destroy(dt_bench *bench); /* NULL is allowed */

/* Runs one step; when `measured`, keeps its times. */
dt_status *dt_bench_step(dt_bench *bench, bool measured);

/* What one core, or the GPU, can do at most. */
dt_status *dt_bench_peak(dt_bench *bench, dt_peak *peak);

typedef struct dt_bench_kernel {
    const char *name, *lines; /* lines of the program that it came from; "" where the compiler knows none */
    double calls;             /* a step, over all microbatches and cores */
    double seconds;           /* median over steps of all its calls together: time of cores, not of the clock */
    double share;             /* of all cores' time in the measured steps; on a GPU in those that were run kernel by kernel */
    double flops, bytes;      /* a step; 0: the artifact does not say */
} dt_bench_kernel;

typedef struct dt_bench_result {
    const char *step, *level;
    const char *gpu;                     /* "cuda:0"; NULL: processors */
    int n_processes, n_devices, n_cores; /* devices and cores of this process, as all that is said of kernels */
    int64_t replicas, global_batch, n_steps;
    double median, p10, p90;    /* seconds of a step */
    double examples_per_second; /* global batch / median */
    double exchanging,
        exposed;   /* medians of the seconds of a step in which something is under way between processes, and in which it is waited for */
    double linked; /* median of the seconds that a GPU's own exchanges with other processes take, one by one; 0: it has none */
    int n_kernels; /* those that ran */
    const dt_bench_kernel *kernels;
    double core_seconds;                 /* of a step, of all cores together: mean */
    int n_timers;                        /* of code that measures itself; else 0 */
    const struct dt_bench_timer *timers; /* runtime/bench_profile.h */
    double exchange_share, rest_share;   /* collectives with their waiting; launching, waiting for data, all else. All shares add up to 1 */
    int64_t bad_indices;                 /* in the last step */
} dt_bench_result;

const dt_session *dt_bench_session(const dt_bench *bench);

/* How, and what is said of it. */
typedef struct dt_bench_wishes {
    int64_t n_steps;
    bool json;       /* one JSON object instead of a table */
    const char *svg; /* a file for a flame graph of the first program, whose code has to measure itself; NULL: none */
} dt_bench_wishes;

/* Runs a step of one program, or of two in turn, so that what disturbs the machine disturbs both, and appends where its time goes. kernels [n], n 1
 * or
 * 2. Where the run has several processes all of them call it; the first one draws. */
dt_status *dt_bench_programs(const dt_kernels *const kernels[], int n, const dt_run_options *options, const dt_bench_wishes *wishes, dt_text *text);

/* Of the measured steps, at least one. Valid until the next call of any function on it. */
dt_bench_result dt_bench_result_of(dt_bench *bench);

#endif
