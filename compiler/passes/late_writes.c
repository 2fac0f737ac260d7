/* late_writes: variables are written in place, when nothing reads the old value afterwards.
 *
 * fuse puts writes after reads as far as it can. What is left (two variables that take each other's place) is stored beside and copied at the
 * end, when all has run that may read. From here on no nest reads a variable where another iteration of it stores: its iterations may run at the
 * same time, which split_reductions and the renderers ask. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/passes.h"

#include <string.h>

/* When a kernel runs: kernels of later segments later, a device's before those of its replicas. */
static int64_t time_of(const dt_plan *plan, int kernel) {
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_device_kernels; k++)
            if (segment->device_kernels[k] == kernel) return (int64_t)2 * s * plan->n_kernels + k;
        for (int k = 0; k < segment->n_replica_kernels; k++)
            if (segment->replica_kernels[k] == kernel) return (int64_t)(2 * s + 1) * plan->n_kernels + k;
    }
    return 0;
}

static bool same_element(int n_loops, const dt_address *x, const dt_address *y) {
    return x->n_terms + y->n_terms == 0 && x->offset == y->offset &&
           memcmp(x->coefficients, y->coefficients, (size_t)n_loops * sizeof *x->coefficients) == 0;
}

/* Where a variable is read. */
typedef struct read {
    int kernel, nest;
    const dt_address *address;
} read;

typedef DT_LIST(read) reads;

/* Of each variable, as far as the plan has it. */
static reads *find_reads(dt_arena *arena, const dt_plan *plan) {
    reads *all = DT_NEW_ARRAY(arena, reads, dt_plan_n_arguments(plan, DT_MEMORY_VARIABLE));
    for (int k = 0; k < plan->n_kernels; k++)
        for (int n = 0; n < plan->kernels[k].n_nests; n++) {
            const dt_nest *nest = &plan->kernels[k].nests[n];
            for (int i = 0; i < nest->n_instructions; i++) {
                if (nest->instructions[i].kind != DT_INSTRUCTION_LOAD) continue;
                const dt_address *address = &nest->instructions[i].address;
                const dt_buffer *buffer = &plan->buffers[plan->kernels[k].buffers[address->buffer]];
                if (buffer->space == DT_MEMORY_VARIABLE) dt_list_push(arena, &all[buffer->variable], ((read){k, n, address}));
            }
        }
    return all;
}

/* Whether something reads what nest n of kernel k has written by then. */
static bool is_read_later(const dt_plan *plan, int k, int n, const dt_store *store, const reads *reads) {
    int64_t written = time_of(plan, k);
    for (size_t r = 0; r < reads->n; r++) {
        const read *one = &reads->items[r];
        int64_t time = time_of(plan, one->kernel);
        if (time < written || (time == written && one->nest < n)) continue;
        if (one->kernel != k || one->nest != n || !same_element(plan->kernels[k].nests[n].n_loops, one->address, &store->address)) return true;
    }
    return false;
}

static void append_copy(dt_arena *arena, dt_plan *plan, dt_kernel_function *kernel, int from, int to) {
    int64_t elements = dt_shape_elements(plan->buffers[to].shape, 1, 1);
    dt_nest_builder nest = {.arena = arena, .plan = plan, .kernel = kernel, .n_loops = 1, .loops = DT_NEW(arena, dt_loop)};
    nest.loops[0].extent = elements;
    dt_affine at = dt_affine_loop(arena, 1, 0);
    dt_nest_store(&nest, to, &at, dt_nest_load(&nest, from, &at, -1, -1), false, -1);
    dt_nest copy = dt_nest_finish(&nest);
    copy.vector_loop = 0;
    copy.note = "copy";
    dt_kernel_insert_nest(arena, kernel, kernel->n_nests, copy);
}

/* A kernel that runs last, for copies. */
static void append_kernel(dt_arena *arena, dt_plan *plan, dt_kernel_function kernel) {
    dt_segment *segments = DT_NEW_ARRAY(arena, dt_segment, plan->n_segments + 1);
    memcpy(segments, plan->segments, (size_t)plan->n_segments * sizeof *segments);
    plan->segments = segments;
    dt_segment *last = &segments[plan->n_segments++];
    *last = (dt_segment){.n_device_kernels = 1, .device_kernels = DT_NEW(arena, int)};
    char *name = dt_arena_format(arena, "%s_%d_update", plan->name, plan->n_kernels);
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '_';
    kernel.name = name;
    last->device_kernels[0] = dt_plan_add_kernel(arena, plan, kernel);
}

static void write_late(dt_arena *arena, dt_plan *plan) {
    dt_kernel_function copies = {.once = true, .update = true};
    const reads *all = find_reads(arena, plan);
    for (int k = 0; k < plan->n_kernels; k++)
        for (int n = 0; n < plan->kernels[k].n_nests; n++)
            for (int s = 0; s < plan->kernels[k].nests[n].n_stores; s++) {
                dt_kernel_function *kernel = &plan->kernels[k];
                dt_store *store = &kernel->nests[n].stores[s];
                int variable = kernel->buffers[store->address.buffer];
                if (plan->buffers[variable].space != DT_MEMORY_VARIABLE) continue;
                if (!is_read_later(plan, k, n, store, &all[plan->buffers[variable].variable])) continue;
                dt_buffer next = plan->buffers[variable];
                next.name = dt_arena_format(arena, "%s/next", next.name);
                next.space = DT_MEMORY_DEVICE;
                int buffer = dt_plan_add_buffer(arena, plan, next);
                store->address.buffer = dt_kernel_argument(arena, kernel, buffer);
                append_copy(arena, plan, &copies, buffer, variable);
            }
    if (copies.n_nests > 0) append_kernel(arena, plan, copies);
}

dt_status *dt_pass_late_writes(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) write_late(compilation->arena, compilation->plans[p]);
    return NULL;
}
