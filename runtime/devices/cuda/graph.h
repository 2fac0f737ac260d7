/* graph: what is put on a stream once, kept, and run with one call. */
#ifndef DT_RUNTIME_DEVICES_CUDA_GRAPH_H
#define DT_RUNTIME_DEVICES_CUDA_GRAPH_H

#include "runtime/devices/cuda/context.h"

/* Calls `enqueue`, which puts work on cuda->stream, and keeps that work instead of running it; *graph can then be launched any number of times. After
 * an error the stream is as before. */
dt_status *dt_cuda_graph_make(const dt_cuda *cuda, dt_status *(*enqueue)(void *context), void *context, void **graph);
void dt_cuda_graph_free(const dt_cuda *cuda, void *graph); /* NULL is allowed; it must not be running */

#endif
