/* plan_memory: gives every buffer a space and an offset. No memory is allocated while a step runs.
 *
 * What a microbatch leaves for its own later kernels of the same segment lies in scratch, which the next microbatch reuses, also what is summed over
 * shards between two of them; what it leaves for the
 * sum over all microbatches at the end of the segment lies with the partial sums; what it leaves for another segment or as a result, in memory of
 * its own.
 * Within each space buffers whose lifetimes do not meet share memory: they are placed by size, the greatest first, each at the lowest offset that is
 * free while it lives. Those that hold the rows of all replicas are placed by themselves, as if there were one microbatch: for a launch
 * with more of them, the runtime multiplies sizes and offsets. */
#include "compiler/passes/plan_memory.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/view.h"

#include <string.h>

enum {
    alignment = DT_BUFFER_ALIGNMENT,
    slack = DT_SLACK_BYTES
};

static int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/* ---- spaces ---- */

static void keep_for_replicas(dt_plan *plan, int buffer) {
    if (plan->buffers[buffer].space == DT_MEMORY_SCRATCH) plan->buffers[buffer].space = DT_MEMORY_REPLICA;
}

/* A sum over replicas, or the like, of what no other segment and nobody outside asks for, in a type that partial sums are kept in. */
static bool is_summed_at_once(const dt_plan *plan, const dt_collective *collective, bool of_this_segment) {
    const dt_buffer *source = &plan->buffers[collective->source];
    bool widened = dt_dtype_is_half(source->dtype); /* summed in f32 and rounded once */
    return of_this_segment && source->space == DT_MEMORY_SCRATCH && collective->kind != DT_COLLECTIVE_ALL_GATHER && !widened;
}

/* Segment s uses a buffer; first: the first that does so of each. */
static void add_use(dt_plan *plan, int *first, int buffer, int s) {
    int root = dt_buffer_root(plan, buffer);
    if (first[root] < 0) first[root] = s;
    if (first[root] != s) keep_for_replicas(plan, root);
}

static void give_spaces(dt_arena *arena, dt_plan *plan) {
    int *first = DT_NEW_ARRAY(arena, int, plan->n_buffers);
    bool *is_taken = DT_NEW_ARRAY(arena, bool, plan->n_buffers); /* within a segment */
    for (int b = 0; b < plan->n_buffers; b++) first[b] = -1;
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_replica_kernels; k++) {
            const dt_kernel_function *kernel = &plan->kernels[segment->replica_kernels[k]];
            for (int a = 0; a < kernel->n_buffers; a++) add_use(plan, first, kernel->buffers[a], s);
        }
        for (int c = 0; c < segment->n_collectives; c++) {
            if (!dt_collective_is_within(plan, &segment->collectives[c])) continue;
            is_taken[segment->collectives[c].source] = true;
            add_use(plan, first, segment->collectives[c].source, s);
            add_use(plan, first, segment->collectives[c].target, s);
        }
    }
    for (int r = 0; r < plan->n_results; r++) keep_for_replicas(plan, plan->results[r].buffer);
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++) {
            const dt_collective *collective = &plan->segments[s].collectives[c];
            dt_memory_space *space = &plan->buffers[collective->source].space;
            bool of_this_segment = first[collective->source] == s && !is_taken[collective->source];
            if (dt_collective_is_within(plan, collective)) continue;
            if (*space == DT_MEMORY_PARTIAL)
                *space = DT_MEMORY_REPLICA; /* two collectives take it: no sum may be made in its place */
            else if (is_summed_at_once(plan, collective, of_this_segment))
                *space = DT_MEMORY_PARTIAL;
            else
                keep_for_replicas(plan, collective->source);
            keep_for_replicas(plan, collective->target);
        }
}

/* ---- offsets ---- */

static bool meet(const dt_lifetime *x, const dt_lifetime *y) { return x->first <= y->last && y->first <= x->last; }

/* The lowest offset where `buffer` fits beside what is placed already and lives at the same time. */
static int64_t free_offset(const dt_plan *plan, const dt_lifetime *lifetimes, const int *placed, int n_placed, int buffer) {
    const dt_buffer *it = &plan->buffers[buffer];
    int64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n_placed; i++) {
            const dt_buffer *other = &plan->buffers[placed[i]];
            if (other->space != it->space || dt_buffer_is_gathered(other) != dt_buffer_is_gathered(it) ||
                !meet(&lifetimes[placed[i]], &lifetimes[buffer]))
                continue;
            if (offset >= other->offset + other->bytes + slack || other->offset >= offset + it->bytes + slack) continue;
            offset = aligned(other->offset + other->bytes + slack);
            moved = true;
        }
    }
    return offset;
}

/* Where what is laid out of the buffer's space ends; NULL: it is not laid out here. */
static int64_t *end_of_space(dt_plan *plan, const dt_buffer *buffer) {
    dt_space_bytes *bytes = dt_buffer_is_gathered(buffer) ? &plan->gathered : &plan->bytes;
    switch (buffer->space) {
    case DT_MEMORY_DEVICE: return &bytes->device;
    case DT_MEMORY_REPLICA: return &bytes->replica;
    case DT_MEMORY_PARTIAL: return &bytes->partial;
    case DT_MEMORY_SCRATCH: return &bytes->scratch;
    default: return NULL;
    }
}

/* A view has the memory of its root. */
static void place_views(dt_plan *plan) {
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_buffer *root = &plan->buffers[dt_buffer_root(plan, b)];
        plan->buffers[b].space = root->space;
        plan->buffers[b].offset = root->offset;
        plan->buffers[b].bytes = root->bytes;
    }
}

static void place_buffers(dt_arena *arena, dt_plan *plan, const dt_lifetime *lifetimes) {
    int64_t rows = plan->microbatch_rows;
    int *order = DT_NEW_ARRAY(arena, int, plan->n_buffers), n = 0;
    for (int b = 0; b < plan->n_buffers; b++) {
        dt_buffer *buffer = &plan->buffers[b];
        buffer->bytes = dt_shape_elements(buffer->shape, rows, rows) * (int64_t)dt_dtype_bytes(buffer->dtype);
        if (buffer->view != NULL || end_of_space(plan, buffer) == NULL || lifetimes[b].first > lifetimes[b].last) continue;
        int at = n++;
        for (; at > 0 && plan->buffers[order[at - 1]].bytes < buffer->bytes; at--) order[at] = order[at - 1];
        order[at] = b;
    }
    for (int i = 0; i < n; i++) {
        dt_buffer *buffer = &plan->buffers[order[i]];
        buffer->offset = free_offset(plan, lifetimes, order, i, order[i]);
        int64_t end = aligned(buffer->offset + buffer->bytes + slack), *space = end_of_space(plan, buffer);
        if (end > *space) *space = end;
    }
}

/* Nothing shares memory with anything. */
static void live_forever(const dt_plan *plan, dt_lifetime *lifetimes) {
    for (int b = 0; b < plan->n_buffers; b++)
        if (lifetimes[b].first <= lifetimes[b].last) lifetimes[b] = (dt_lifetime){0, INT64_MAX};
}

static void place(dt_arena *arena, dt_plan *plan, const dt_lifetime *lifetimes) {
    plan->bytes = plan->gathered = (dt_space_bytes){0};
    place_buffers(arena, plan, lifetimes);
    place_views(plan);
    plan->is_placed = true;
}

/* [kernels][nests] what one launch on the GPU holds, as is chosen where no buffers share memory. They do not keep nests apart later on: those of a
 * launch will not share any. */
static const dt_nest_range *const *find_launches(dt_arena *arena, const dt_gpu_target *target, dt_plan *plan) {
    const dt_nest_range **launches = DT_NEW_ARRAY(arena, const dt_nest_range *, plan->n_kernels);
    dt_lifetime *lifetimes = dt_plan_lifetimes(arena, plan, NULL);
    live_forever(plan, lifetimes);
    place(arena, plan, lifetimes);
    for (int k = 0; k < plan->n_kernels; k++) launches[k] = dt_gpu_find_launches(arena, target, plan, &plan->kernels[k]);
    plan->is_placed = false;
    return launches;
}

dt_status *dt_pass_plan_memory(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan *plan = compilation->plans[p];
        dt_plan_mark_sharded(plan);
        dt_plan_divide(compilation->arena, plan);
        give_spaces(compilation->arena, plan);
        const dt_gpu_target *target = dt_gpu_target_of(compilation->target);
        dt_lifetime *lifetimes = dt_plan_lifetimes(compilation->arena, plan, target != NULL ? find_launches(compilation->arena, target, plan) : NULL);
        if (!dt_switch_is_on(compilation->off, DT_SWITCH_REUSE)) live_forever(plan, lifetimes);
        place(compilation->arena, plan, lifetimes);
    }
    return NULL;
}
