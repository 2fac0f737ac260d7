/* plan_memory_divide: which of the kernels that run once are shared out among the cores of a memory, and how.
 *
 * All parameters are updated by one kernel, and it is the dearest thing that does not go by rows: on one core it would be what the others wait
 * for. Each of its nests is divided by ranges of the outermost loop, in whole cache lines of what it stores, so that no line is written by two
 * cores. What a nest stores for an element hangs on nothing but that element, so bits do not know of the division.
 *
 * Parts run at once, without waiting for one another. So a nest that touches what another one of its kernel writes (a count of steps that is read by
 * the update and then increased) goes to a kernel of its own, which runs when all parts of the first are done. It is decided before buffers get their
 * places, since in a divided kernel all nests are under way together: plan_memory_lifetimes.c asks. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/plan_memory.h"

#include <string.h>

enum {
    LINE_BYTES = 64,
    LEAST_ELEMENTS = 4096 /* that are worth one more meeting of the cores */
};

/* ---- nests ---- */

/* An element each turn, none of them twice: no sums, no scatters. Checks of indices are counted in one record, so one core makes them all. */
static bool is_dividable(const dt_nest *nest) {
    if (nest->n_loops == 0 || nest->in_rows || nest->algorithm != DT_ALGORITHM_LOOPS || nest->n_reductions > 0 ||
        dt_dim_is_symbol(nest->loops[0].extent))
        return false;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) return false;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (store->accumulate || store->address.n_terms > 0 || store->address.coefficients[0] == 0) return false;
    }
    return true;
}

/* The least number of turns of loop 0 that begin at a cache line in all buffers that are stored to. */
static int64_t turns_of_lines(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    int64_t turns = 1;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_address *address = &nest->stores[s].address;
        int64_t bytes = address->coefficients[0] * (int64_t)dt_dtype_bytes(plan->buffers[kernel->buffers[address->buffer]].dtype);
        while (turns * bytes % LINE_BYTES != 0) turns *= 2;
    }
    return turns;
}

static int64_t n_elements(const dt_nest *nest) {
    int64_t n = 1;
    for (int l = 0; l < nest->n_loops; l++) n *= nest->loops[l].extent;
    return n;
}

/* ---- what nests have to do with each other ---- */

/* Whether `nest` loads from, or stores to, what `writer` stores to. Both are of the kernel. */
static bool touches(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_nest *writer) {
    for (int w = 0; w < writer->n_stores; w++) {
        int written = kernel->buffers[writer->stores[w].address.buffer];
        for (int s = 0; s < nest->n_stores; s++)
            if (dt_buffers_are_one(plan, kernel->buffers[nest->stores[s].address.buffer], written)) return true;
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD &&
                dt_buffers_are_one(plan, kernel->buffers[nest->instructions[i].address.buffer], written))
                return true;
    }
    return false;
}

/* The nests from `first` on that can run side by side: returns the first one that cannot. */
static int end_of_group(const dt_plan *plan, const dt_kernel_function *kernel, int first) {
    for (int end = first + 1; end < kernel->n_nests; end++)
        for (int n = first; n < end; n++)
            if (touches(plan, kernel, &kernel->nests[n], &kernel->nests[end]) || touches(plan, kernel, &kernel->nests[end], &kernel->nests[n]))
                return end;
    return kernel->n_nests;
}

static bool is_worth_it(const dt_plan *plan, const dt_kernel_function *kernel) {
    int64_t most = 0;
    for (int n = 0; n < kernel->n_nests; n++) {
        if (kernel->nests[n].in_rows) return false; /* they share a loop, and are not to be parted */
        if (is_dividable(&kernel->nests[n]) && n_elements(&kernel->nests[n]) > most) most = n_elements(&kernel->nests[n]);
    }
    return most >= LEAST_ELEMENTS || (most > 0 && end_of_group(plan, kernel, 0) == kernel->n_nests);
}

/* ---- kernels ---- */

/* Nests [first, end) of `whole` as a kernel: with the arguments that they need. */
static dt_kernel_function part_of(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *whole, int first, int end) {
    dt_kernel_function kernel = {.name = first == 0 ? whole->name : dt_arena_format(arena, "%s_%d", whole->name, first), .once = true};
    for (int n = first; n < end; n++) {
        dt_nest nest = whole->nests[n];
        nest.part_turns = is_dividable(&nest) ? turns_of_lines(plan, whole, &nest) : 0;
        kernel.divided |= nest.part_turns > 0;
        for (int i = 0; i < nest.n_instructions; i++)
            if (nest.instructions[i].kind == DT_INSTRUCTION_LOAD)
                nest.instructions[i].address.buffer = dt_kernel_argument(arena, &kernel, whole->buffers[nest.instructions[i].address.buffer]);
        for (int s = 0; s < nest.n_stores; s++) {
            int buffer = whole->buffers[nest.stores[s].address.buffer];
            nest.stores[s].address.buffer = dt_kernel_argument(arena, &kernel, buffer);
            kernel.update |= plan->buffers[buffer].space == DT_MEMORY_VARIABLE;
        }
        dt_kernel_insert_nest(arena, &kernel, kernel.n_nests, nest);
    }
    return kernel;
}

/* Divides the k-th kernel of those that the segment runs once; what has to wait becomes kernels behind it. Returns how many there are now. */
static int divide(dt_arena *arena, dt_plan *plan, dt_segment *segment, int k) {
    dt_kernel_function whole = plan->kernels[segment->device_kernels[k]];
    if (!is_worth_it(plan, &whole)) return 1;
    int n = 0;
    for (int first = 0, end; first < whole.n_nests; first = end, n++) {
        end = end_of_group(plan, &whole, first);
        dt_kernel_function part = part_of(arena, plan, &whole, first, end);
        if (first == 0) {
            plan->kernels[segment->device_kernels[k]] = part;
            continue;
        }
        int *kernels = DT_NEW_ARRAY(arena, int, segment->n_device_kernels + 1), before = k + n;
        memcpy(kernels, segment->device_kernels, (size_t)before * sizeof *kernels);
        kernels[before] = dt_plan_add_kernel(arena, plan, part);
        memcpy(kernels + before + 1, segment->device_kernels + before, (size_t)(segment->n_device_kernels - before) * sizeof *kernels);
        segment->device_kernels = kernels;
        segment->n_device_kernels++;
    }
    return n;
}

void dt_plan_divide(dt_arena *arena, dt_plan *plan) {
    dt_function_role role = plan->function->role;
    if (role != DT_ROLE_INIT && role != DT_ROLE_STEP) return; /* the others are run by one core */
    for (int s = 0; s < plan->n_segments; s++)
        for (int k = 0; k < plan->segments[s].n_device_kernels;) k += divide(arena, plan, &plan->segments[s], k);
}
