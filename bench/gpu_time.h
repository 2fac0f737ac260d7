/* gpu_time: what programs that time something on a GPU share: the GPU, numbers in its memory, and how long work takes there. */
#ifndef DT_BENCH_GPU_TIME_H
#define DT_BENCH_GPU_TIME_H

#include "abi/dtype.h"
#include "runtime/devices/cuda/context.h"

typedef struct gpu_time {
    dt_cuda gpu;
    void *events[2];
    int n_launches; /* that follow one another in a measurement */
    uint64_t random;
} gpu_time;

/* The first GPU. After an error all of it is closed. */
dt_status *gpu_time_open(gpu_time *g, int n_launches);
void gpu_time_close(gpu_time *g);

/* Fills n elements with numbers from 0 to 1, or integers below `indices`. Made by the host are the first of them; the others are copies. */
dt_status *gpu_time_fill(gpu_time *g, uint64_t at, dt_dtype dtype, int64_t n, int64_t indices);

/* Puts work on the stream, and nothing else: it is captured. */
typedef dt_status *gpu_work(gpu_time *g, void *context);

/* Seconds that the work takes: of n_launches in a graph, as they would stand in that of a step, so that the host's time for a launch is not in it;
 * the median of five launches of the graph. */
dt_status *gpu_time_of(gpu_time *g, gpu_work *work, void *context, double *seconds);

#endif
