/* gpu_time: see the header. */
#include "bench/gpu_time.h"

#include "ir/interpret.h"
#include "runtime/devices/cuda/graph.h"

#include <stdlib.h>

enum {
    BATCHES = 5,
    SOME_ELEMENTS = 1 << 20
};
static const double ENOUGH_SECONDS = 0.2; /* of the GPU's time, to say how long something takes */

#define CALL(g, symbol, ...) DT_CUDA_TRY(&(g)->gpu, symbol, __VA_ARGS__)

static dt_status *create_events(gpu_time *g) {
    for (int i = 0; i < 2; i++) CALL(g, cuEventCreate, &g->events[i], 0);
    return NULL;
}

dt_status *gpu_time_open(gpu_time *g, int most_launches) {
    *g = (gpu_time){.most_launches = most_launches, .random = 1};
    DT_TRY(dt_cuda_open(0, &g->gpu));
    dt_status *status = dt_cuda_enter(&g->gpu);
    if (status == NULL) status = create_events(g);
    if (status != NULL) gpu_time_close(g);
    return status;
}

void gpu_time_close(gpu_time *g) {
    for (int i = 0; i < 2; i++)
        if (g->events[i] != NULL) g->gpu.driver.cuEventDestroy_v2(g->events[i]);
    dt_cuda_close(&g->gpu);
    *g = (gpu_time){0};
}

/* ---- numbers ---- */

static double fraction(gpu_time *g) { /* from 0 to below 1 */
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(g->random >> 40) / (1 << 24);
}

static void make_some(gpu_time *g, dt_tensor *tensor, int64_t indices) {
    int64_t most = tensor->dtype == DT_BOOL ? 2 : dt_dtype_bytes(tensor->dtype) == 1 ? 128 : indices, below = most < indices ? most : indices;
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) {
        double x = fraction(g);
        dt_tensor_set(tensor, i, dt_dtype_is_float(tensor->dtype) ? x : (double)(int64_t)(x * (double)below));
    }
}

static dt_status *copy_some(gpu_time *g, uint64_t at, const dt_tensor *some, size_t bytes) {
    size_t done = dt_tensor_bytes(some);
    if (done > 0) CALL(g, cuMemcpyHtoDAsync_v2, at, some->data, done, g->gpu.stream);
    DT_TRY(dt_cuda_wait(&g->gpu)); /* the host's memory is pageable, and goes away */
    for (; done < bytes; done *= 2) CALL(g, cuMemcpyDtoDAsync_v2, at + done, at, done < bytes - done ? done : bytes - done, g->gpu.stream);
    return dt_cuda_wait(&g->gpu);
}

dt_status *gpu_time_fill(gpu_time *g, uint64_t at, dt_dtype dtype, int64_t n, int64_t indices) {
    int64_t n_some = n < SOME_ELEMENTS ? n : SOME_ELEMENTS;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_tensor some = dt_tensor_make(arena, dtype, (dt_shape){.rank = 1, .dims = &n_some});
    make_some(g, &some, indices);
    dt_status *status = copy_some(g, at, &some, (size_t)n * dt_dtype_bytes(dtype));
    dt_arena_destroy(arena);
    return status;
}

/* ---- time ---- */

/* Seconds from when the GPU gets to the work until it is done with it. */
static dt_status *time_between_events(gpu_time *g, gpu_work *work, void *context, double *seconds) {
    float milliseconds;
    CALL(g, cuEventRecord, g->events[0], g->gpu.stream);
    DT_TRY(work(g, context));
    CALL(g, cuEventRecord, g->events[1], g->gpu.stream);
    CALL(g, cuEventSynchronize, g->events[1]);
    CALL(g, cuEventElapsedTime, &milliseconds, g->events[0], g->events[1]);
    *seconds = 1e-3 * (double)milliseconds;
    return NULL;
}

dt_status *gpu_time_once(gpu_time *g, gpu_work *work, void *context, double *seconds) {
    DT_TRY(work(g, context));
    DT_TRY(dt_cuda_wait(&g->gpu));
    return time_between_events(g, work, context, seconds);
}

typedef struct repetition {
    gpu_time *time;
    gpu_work *work;
    void *context;
    int n;
} repetition;

static dt_status *repeat(void *context) {
    const repetition *r = context;
    for (int i = 0; i < r->n; i++) DT_TRY(r->work(r->time, r->context));
    return NULL;
}

static dt_status *launch_graph(gpu_time *g, void *graph) {
    CALL(g, cuGraphLaunch, graph, g->gpu.stream);
    return NULL;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

dt_status *gpu_time_of(gpu_time *g, gpu_work *work, void *context, double *seconds) {
    double times[BATCHES];
    void *graph;
    DT_TRY(gpu_time_once(g, work, context, seconds));
    if (*seconds > ENOUGH_SECONDS) return NULL;
    double fitting = ENOUGH_SECONDS / BATCHES / (*seconds > 0 ? *seconds : ENOUGH_SECONDS);
    int n = fitting < 1 ? 1 : fitting < g->most_launches ? (int)fitting : g->most_launches;
    DT_TRY(dt_cuda_graph_make(&g->gpu, repeat, &(repetition){g, work, context, n}, &graph));
    dt_status *status = launch_graph(g, graph); /* to be warm */
    for (int i = 0; i < BATCHES && status == NULL; i++) status = time_between_events(g, launch_graph, graph, &times[i]);
    dt_status *freed = dt_cuda_driver_error(&g->gpu.driver, "cuGraphExecDestroy", g->gpu.driver.cuGraphExecDestroy(graph));
    if (status != NULL) {
        dt_status_free(freed);
        return status;
    }
    qsort(times, BATCHES, sizeof *times, compare_seconds);
    *seconds = times[BATCHES / 2] / n;
    return freed;
}
