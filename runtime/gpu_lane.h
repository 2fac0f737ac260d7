/* gpu_lane: a lane that is a GPU. All replicas are its leaves; what a step does is put on the GPU as a graph, once for each slot of input, when the
 * session is created, and a step is: write the launch values, launch the graph, wait.
 *
 * A function's graph:    launch values and empty records of bad indices, from the host
 *                        for each segment: kernels that run once; for each leaf its kernels, and the folds that it completes; the folds of all
 *                        collectives, in one launch, which puts aggregates side by side behind the records of bad indices
 *                        aggregates that no collective made, there too; all of these to the host, in one copy
 *
 * With DT_CUDA_CHECK=1 in the environment a step's kernels are run one by one instead, each waited for, so that an error that a kernel makes says
 * which one it was.
 *
 * Inputs have two slots, each in pinned memory and on the GPU. While a step reads one, the next batch is copied into the other. In a slot the rows of
 * each leaf begin at a multiple of 256 bytes. Nothing is allocated, loaded or captured once dt_gpu_lane_bind has returned. */
#ifndef DT_RUNTIME_GPU_LANE_H
#define DT_RUNTIME_GPU_LANE_H

#include "runtime/devices/cuda/library.h"
#include "runtime/lane.h"
#include "runtime/reports.h"

typedef struct dt_gpu_lane dt_gpu_lane;

/* Lays out what the lane's functions need beside the plan's memory, and loads the code of `artifact`, which opened; lane->artifact is its program for
 * GPUs. use_libraries: see devices/cuda/kernels.h. lane->gpu is set as soon as there is something to release. */
dt_status *dt_gpu_lane_open(dt_lane *lane, const dt_artifact *artifact, bool use_libraries, dt_arena *arena);
void dt_gpu_lane_close(dt_lane *lane); /* waits for what runs; a lane that is no GPU is allowed */

int64_t dt_gpu_lane_bytes(const dt_gpu_lane *gpu);                      /* on the GPU, beside those of lane and home */
const dt_cuda_libraries *dt_gpu_lane_libraries(const dt_gpu_lane *gpu); /* NULL: none are used */
const char *dt_gpu_lane_architecture(const dt_gpu_lane *gpu);           /* of the code in use: "sm_90" */

/* Allocates, and makes the graphs of all initialisers and steps, when lane and home are allocated. */
dt_status *dt_gpu_lane_bind(dt_lane *lane, dt_arena *arena);

/* Copies inputs of a function into the slot that no step reads, and starts their way to the GPU. The host's are free when it returns. */
dt_status *dt_gpu_lane_stage(dt_lane *lane, int function, const void *const *inputs, int64_t valid);

/* The halves of dt_lane_run. inputs NULL: those that were staged last. Between the halves the GPU works. */
dt_status *dt_gpu_lane_start(dt_lane *lane, const dt_lane_run_values *values);
dt_status *dt_gpu_lane_finish(dt_lane *lane, const dt_lane_run_values *values);

/* Aggregate `index` of the step that finished last; it must not be an input. */
const void *dt_gpu_lane_aggregate(const dt_gpu_lane *gpu, int index);

#endif
