/* gpu_time: what programs that time something on a GPU share: the GPU, numbers in its memory, and how long work takes there. */
#ifndef DT_BENCH_GPU_TIME_H
#define DT_BENCH_GPU_TIME_H

#include "abi/dtype.h"
#include "runtime/devices/cuda/context.h"

typedef struct gpu_time {
    dt_cuda gpu;
    void *events[2];
    int most_launches; /* that follow one another in a measurement */
    uint64_t random;
} gpu_time;

/* The first GPU. After an error all of it is closed. */
dt_status *gpu_time_open(gpu_time *g, int most_launches);
void gpu_time_close(gpu_time *g);

/* Fills n elements with numbers from 0 to 1, or integers below `indices`. Made by the host are the first of them; the others are copies. */
dt_status *gpu_time_fill(gpu_time *g, uint64_t at, dt_dtype dtype, int64_t n, int64_t indices);

/* Puts work on the stream, and nothing else: it is captured. */
typedef dt_status *gpu_work(gpu_time *g, void *context);

/* Seconds that the work takes: the median of five launches of a graph, which has it most_launches times, or as often as makes a fifth of a second of
 * all five; as they would stand in a step's graph, so that the host's time for a launch is not in it. Work that takes longer than that is run as in
 * gpu_time_once. After an error the stream can be used, unless it is the GPU that failed. */
dt_status *gpu_time_of(gpu_time *g, gpu_work *work, void *context, double *seconds);

/* Seconds of the second of two runs. The first one is not timed, since libraries load what they need when they are first asked. */
dt_status *gpu_time_once(gpu_time *g, gpu_work *work, void *context, double *seconds);

#endif
