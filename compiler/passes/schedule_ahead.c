/* schedule_ahead: what no row has a part in is laid out once, ahead of all rows.
 *
 * A nest that lays an operand out for a product stands in the product's kernel, which runs for one microbatch after another. Where it reads
 * nothing but what is the same for all of them, weights as a rule, it is moved to a kernel that runs once, at the head of the segment: one for each
 * layer, which needs that layer's weights alone. */
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/schedule.h"

#include <ctype.h>

static bool kernel_writes(const dt_kernel_function *kernel, int buffer) {
    for (int n = 0; n < kernel->n_nests; n++)
        for (int s = 0; s < kernel->nests[n].n_stores; s++)
            if (kernel->buffers[kernel->nests[n].stores[s].address.buffer] == buffer) return true;
    return false;
}

/* Whether `buffer` is there, and the same, for all replica kernels of the segment, in all iterations. */
static bool is_given(const dt_plan *plan, const dt_segment *segment, int buffer) {
    dt_memory_space space = plan->buffers[buffer].space;
    if (space == DT_MEMORY_CONSTANT) return true;
    if (space != DT_MEMORY_VARIABLE && space != DT_MEMORY_DEVICE) return false;
    if (dt_buffer_moves(plan, buffer)) return false;
    for (int k = 0; k < segment->n_replica_kernels; k++)
        if (kernel_writes(&plan->kernels[segment->replica_kernels[k]], buffer)) return false;
    return true;
}

static int n_writers(const dt_plan *plan, int buffer) {
    int n = 0;
    for (int k = 0; k < plan->n_kernels; k++)
        for (int i = 0; i < plan->kernels[k].n_nests; i++)
            for (int s = 0; s < plan->kernels[k].nests[i].n_stores; s++)
                n += plan->kernels[k].buffers[plan->kernels[k].nests[i].stores[s].address.buffer] == buffer;
    return n;
}

static bool can_run_ahead(const dt_plan *plan, const dt_segment *segment, const dt_kernel_function *kernel, const dt_nest *nest) {
    if (nest->in_rows || nest->n_stores != 1 || nest->stores[0].accumulate) return false;
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->loops[l].extent == DT_BATCH) return false;
    bool loads = false;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LAUNCH || x->kind == DT_INSTRUCTION_CHECK) return false;
        if (x->kind == DT_INSTRUCTION_LOAD && !is_given(plan, segment, kernel->buffers[x->address.buffer])) return false;
        loads |= x->kind == DT_INSTRUCTION_LOAD;
    }
    int target = kernel->buffers[nest->stores[0].address.buffer];
    return loads && plan->buffers[target].space == DT_MEMORY_SCRATCH && n_writers(plan, target) == 1;
}

/* Takes nest n out of `from` and puts it at the end of `to`. */
static void move_nest(dt_arena *arena, dt_kernel_function *from, int n, dt_kernel_function *to) {
    dt_nest nest = from->nests[n];
    for (int i = 0; i < nest.n_instructions; i++) {
        dt_instruction *x = &nest.instructions[i];
        if (x->kind == DT_INSTRUCTION_LOAD) x->address.buffer = dt_kernel_argument(arena, to, from->buffers[x->address.buffer]);
    }
    nest.stores[0].address.buffer = dt_kernel_argument(arena, to, from->buffers[nest.stores[0].address.buffer]);
    dt_kernel_insert_nest(arena, to, to->n_nests, nest);
    for (from->n_nests--; n < from->n_nests; n++) from->nests[n] = from->nests[n + 1];
}

/* "train_7_pack" */
static const char *name_of(dt_arena *arena, const dt_plan *plan) {
    char *name = dt_arena_format(arena, "%s_%d_pack", plan->name, plan->n_kernels);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return name;
}

static void add_ahead(dt_arena *arena, dt_plan *plan, dt_segment *segment, dt_kernel_function ahead) {
    if (ahead.n_nests == 0) return;
    ahead.name = name_of(arena, plan);
    int *kernels = DT_NEW_ARRAY(arena, int, segment->n_device_kernels + 1);
    for (int k = 0; k < segment->n_device_kernels; k++) kernels[k] = segment->device_kernels[k];
    kernels[segment->n_device_kernels++] = dt_plan_add_kernel(arena, plan, ahead);
    segment->device_kernels = kernels;
}

/* Whether it reads what shards of a model have by themselves. */
static bool reads_shard(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOAD && plan->buffers[kernel->buffers[x->address.buffer]].sharded) return true;
    }
    return false;
}

/* aheads: [2] for what is the same for all shards, and for what is not. */
static void move_nests(dt_arena *arena, dt_plan *plan, const dt_segment *segment, dt_kernel_function *kernel, dt_kernel_function *aheads) {
    for (int n = 0; n < kernel->n_nests && kernel->n_nests > 1;) {
        const dt_nest *nest = &kernel->nests[n];
        if (!can_run_ahead(plan, segment, kernel, nest)) {
            n++;
            continue;
        }
        plan->buffers[kernel->buffers[nest->stores[0].address.buffer]].space = DT_MEMORY_DEVICE;
        move_nest(arena, kernel, n, &aheads[reads_shard(plan, kernel, nest)]);
    }
}

void dt_schedule_ahead(dt_arena *arena, dt_plan *plan) {
    for (int s = 0; s < plan->n_segments; s++) {
        dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_replica_kernels;) {
            dt_kernel_function ahead = {.once = true, .layer = plan->kernels[segment->replica_kernels[k]].layer}, aheads[] = {ahead, ahead};
            for (; k < segment->n_replica_kernels && plan->kernels[segment->replica_kernels[k]].layer == ahead.layer; k++)
                move_nests(arena, plan, segment, &plan->kernels[segment->replica_kernels[k]], aheads);
            for (int sharded = 0; sharded < 2; sharded++) add_ahead(arena, plan, segment, aheads[sharded]);
        }
    }
}
