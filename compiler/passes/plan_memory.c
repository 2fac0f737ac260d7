/* plan_memory: gives every buffer a space and an offset. No memory is allocated while a step runs. */
#include "compiler/passes/passes.h"

enum { alignment = 64, slack = 64 }; /* vector code may read up to `slack` bytes behind a buffer */

static int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/* Sources of collectives and results that differ from replica to replica outlive a replica's turn. */
static void keep_for_replicas(dt_plan *plan, int buffer) {
    if (plan->buffers[buffer].space == DT_SPACE_SCRATCH) plan->buffers[buffer].space = DT_SPACE_REPLICA;
}

static int segment_of_kernel(const dt_plan *plan, int kernel) {
    for (int s = 0; s < plan->n_segments; s++)
        for (int k = 0; k < plan->segments[s].n_replica_kernels; k++)
            if (plan->segments[s].replica_kernels[k] == kernel) return s;
    return -1;
}

static void give_spaces(dt_plan *plan, dt_arena *arena) {
    int *first = DT_NEW_ARRAY(arena, int, plan->n_buffers);
    for (int b = 0; b < plan->n_buffers; b++) first[b] = -1;
    for (int k = 0; k < plan->n_kernels; k++) {
        int segment = segment_of_kernel(plan, k);
        for (int a = 0; a < plan->kernels[k].n_buffers && segment >= 0; a++) {
            int buffer = plan->kernels[k].buffers[a];
            if (first[buffer] < 0) first[buffer] = segment;
            else if (first[buffer] != segment) keep_for_replicas(plan, buffer);
        }
    }
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++) {
            keep_for_replicas(plan, plan->segments[s].collectives[c].source);
            keep_for_replicas(plan, plan->segments[s].collectives[c].target);
        }
    for (size_t r = 0; r < plan->function->results.n; r++) keep_for_replicas(plan, plan->results[r]);
}

static void place(dt_plan *plan, dt_buffer *buffer) {
    int64_t capacity = plan->function->module->capacity;
    buffer->bytes = dt_shape_elements(buffer->shape, capacity, capacity) * (int64_t)dt_dtype_bytes(buffer->dtype);
    int64_t *end = buffer->space == DT_SPACE_DEVICE    ? &plan->device_bytes
                   : buffer->space == DT_SPACE_REPLICA ? &plan->replica_bytes
                   : buffer->space == DT_SPACE_SCRATCH ? &plan->scratch_bytes
                                                       : NULL;
    if (end == NULL) return;
    buffer->offset = *end;
    *end = aligned(*end + buffer->bytes + slack);
}

dt_status *dt_pass_plan_memory(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan *plan = compilation->plans[p];
        give_spaces(plan, compilation->arena);
        for (int b = 0; b < plan->n_buffers; b++) place(plan, &plan->buffers[b]);
    }
    return NULL;
}
