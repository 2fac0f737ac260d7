/* plan_memory_divide: which of the kernels that run once are shared out among the cores of a memory, and how. A GPU runs all parts as one, but
 * processes share out what can be divided (share_updates), and what is gathered is gathered between two kernels.
 *
 * All parameters are updated by one kernel, and it is the most expensive work that is not split by rows: on one core the others would wait
 * for it. Each of its nests is divided by ranges of the outermost loop, in whole cache lines of what it stores, so that no line is written by two
 * cores; norms of gradients are divided by their blocks (split_reductions). What a nest stores for an element depends on nothing but that element, so
 * the division changes no bit.
 *
 * Parts run at once, without waiting for one another. So a nest that touches what another one of its kernel writes (the sum of a norm's blocks, a
 * count of steps that is read by the update and then increased) goes to a kernel after it, which runs when all parts of the first are done. It is
 * decided before buffers get their offsets, since all nests of a divided kernel run at the same time: plan_memory_lifetimes.c asks. */
#include "compiler/kernel/affine.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/plan_memory.h"

#include <string.h>

enum {
    LINE_BYTES = 64,
    LEAST_ELEMENTS = 4096 /* that are worth one more meeting of the cores */
};

/* ---- nests ---- */

/* An element each iteration of loop 0, none of them twice: no scatters. Checks of indices are counted in one record, so one core makes them all. */
static bool is_dividable(const dt_nest *nest) {
    if (nest->n_loops == 0 || nest->in_rows || nest->algorithm != DT_ALGORITHM_LOOPS || dt_nest_has_check(nest)) return false;
    if (dt_nest_reduces(nest, 0) || dt_dim_is_symbol(nest->loops[0].extent) || nest->loops[0].extent < 2) return false;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (store->accumulate || store->address.n_terms > 0 || store->address.coefficients[0] == 0) return false;
    }
    return true;
}

/* The least number of iterations of loop 0 that begin at a cache line in all buffers that are stored to; of sums 1, for they store little. */
static int64_t iterations_of_lines(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    int64_t iterations = 1;
    if (nest->n_reductions > 0) return 1;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_address *address = &nest->stores[s].address;
        int64_t bytes = address->coefficients[0] * (int64_t)dt_dtype_bytes(plan->buffers[kernel->buffers[address->buffer]].dtype);
        while (iterations * bytes % LINE_BYTES != 0) iterations *= 2;
    }
    return iterations;
}

static int64_t n_elements(const dt_nest *nest) {
    int64_t n = 1;
    for (int l = 0; l < nest->n_loops; l++) n *= nest->loops[l].extent;
    return n;
}

/* ---- what nests have to do with each other ---- */

/* The elements that an address can reach; false: that is not known. */
static bool reach(const dt_nest *nest, const dt_address *address, int64_t *least, int64_t *greatest) {
    const dt_affine x = {address->coefficients, address->offset, address->n_terms, address->terms, address->term_coefficients};
    return dt_affine_least(nest->n_loops, nest->loops, &x, least) && dt_affine_greatest(nest->n_loops, nest->loops, &x, greatest);
}

/* Whether two nests of a kernel may mean the same element by these addresses. */
static bool can_meet(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *a, const dt_address *x, const dt_nest *b,
                     const dt_address *y) {
    int64_t least[2], greatest[2];
    if (!dt_arguments_are_one(plan, kernel, x->buffer, y->buffer)) return false;
    if (!reach(a, x, &least[0], &greatest[0]) || !reach(b, y, &least[1], &greatest[1])) return true;
    return least[0] <= greatest[1] && least[1] <= greatest[0];
}

/* Whether `nest` loads from, or stores to, what `writer` stores to. Both are of the kernel. */
static bool touches(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_nest *writer) {
    for (int w = 0; w < writer->n_stores; w++) {
        const dt_address *written = &writer->stores[w].address;
        for (int s = 0; s < nest->n_stores; s++)
            if (can_meet(plan, kernel, nest, &nest->stores[s].address, writer, written)) return true;
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && can_meet(plan, kernel, nest, &nest->instructions[i].address, writer, written))
                return true;
    }
    return false;
}

/* A kernel, and which nests before a nest have to do with it: one of the two stores what the other touches. */
typedef struct relations {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    bool *related; /* [n_nests][n_nests] */
} relations;

typedef DT_LIST(int) nest_list;

static void note(dt_arena *arena, nest_list *list, int nest) {
    if (list->n == 0 || list->items[list->n - 1] != nest) dt_list_push(arena, list, nest);
}

static void relate(relations *r, int a, int b) {
    const dt_nest *nests = r->kernel->nests;
    bool *related = &r->related[(size_t)b * (size_t)r->kernel->n_nests + (size_t)a];
    if (a < b && !*related) *related = touches(r->plan, r->kernel, &nests[a], &nests[b]) || touches(r->plan, r->kernel, &nests[b], &nests[a]);
}

/* Only nests that use one argument can have to do with each other, and most arguments are used by few. */
static relations find_relations(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel) {
    relations r = {plan, kernel, dt_arena_new_array(arena, (size_t)kernel->n_nests, (size_t)kernel->n_nests * sizeof(bool))};
    nest_list *users = DT_NEW_ARRAY(arena, nest_list, kernel->n_buffers), *writers = DT_NEW_ARRAY(arena, nest_list, kernel->n_buffers);
    int *first = DT_NEW_ARRAY(arena, int, kernel->n_buffers); /* an argument that is the same memory */
    for (int b = 0; b < kernel->n_buffers; b++)
        while (!dt_arguments_are_one(plan, kernel, first[b], b)) first[b]++;
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) note(arena, &users[first[nest->instructions[i].address.buffer]], n);
        for (int s = 0; s < nest->n_stores; s++) {
            note(arena, &users[first[nest->stores[s].address.buffer]], n);
            note(arena, &writers[first[nest->stores[s].address.buffer]], n);
        }
    }
    for (int b = 0; b < kernel->n_buffers; b++)
        for (size_t w = 0; w < writers[b].n; w++)
            for (size_t u = 0; u < users[b].n; u++) {
                relate(&r, users[b].items[u], writers[b].items[w]);
                relate(&r, writers[b].items[w], users[b].items[u]);
            }
    return r;
}

static bool have_to_do(const relations *r, int before, int nest) { return r->related[(size_t)nest * (size_t)r->kernel->n_nests + (size_t)before]; }

/* Nests of a kernel that make a kernel: in the order in which they stand. */
typedef struct group {
    int *nests, n;
    bool divided; /* they can run side by side, and some are dividable */
} group;

/* The next group of the nests that are not in `done`. */
static group next_group(dt_arena *arena, const relations *r, const bool *done) {
    const dt_kernel_function *kernel = r->kernel;
    group group = {.nests = DT_NEW_ARRAY(arena, int, kernel->n_nests)};
    for (int i = 0; i < kernel->n_nests; i++) { /* what has nothing to do with any nest before it */
        bool joins = !done[i];
        for (int j = 0; j < i && joins; j++) joins = done[j] || !have_to_do(r, j, i);
        if (!joins) continue;
        group.nests[group.n++] = i;
        group.divided |= is_dividable(&kernel->nests[i]);
    }
    if (group.divided) return group;
    bool *waits = DT_NEW_ARRAY(arena, bool, kernel->n_nests);
    group.n = 0;
    for (int i = 0; i < kernel->n_nests; i++) { /* one core runs them one after another: up to what is dividable, and what has to do with that */
        if (done[i]) continue;
        waits[i] = is_dividable(&kernel->nests[i]);
        for (int j = 0; j < i && !waits[i]; j++) waits[i] = waits[j] && have_to_do(r, j, i);
        if (!waits[i]) group.nests[group.n++] = i;
    }
    return group;
}

static bool is_worth_it(const dt_kernel_function *kernel, const group *first) {
    int64_t most = 0;
    if (kernel->loop != NULL) return false; /* cores would meet in each iteration */
    for (int n = 0; n < kernel->n_nests; n++) {
        if (kernel->nests[n].in_rows) return false;         /* they share a loop, and are not to be parted */
        if (kernel->nests[n].library != NULL) return false; /* its call names this kernel's arguments */
        if (is_dividable(&kernel->nests[n]) && n_elements(&kernel->nests[n]) > most) most = n_elements(&kernel->nests[n]);
    }
    return most >= LEAST_ELEMENTS || (most > 0 && first->n == kernel->n_nests);
}

/* ---- kernels ---- */

/* The group as a kernel: with the arguments that its nests need. */
static dt_kernel_function kernel_of(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *whole, const group *group) {
    int first = group->nests[0];
    dt_kernel_function kernel = {.name = first == 0 ? whole->name : dt_arena_format(arena, "%s_%d", whole->name, first), .once = true};
    kernel.divided = group->divided;
    kernel.layer = whole->layer;
    for (int i = 0; i < group->n; i++) {
        dt_nest nest = whole->nests[group->nests[i]];
        nest.part_iterations = is_dividable(&nest) ? iterations_of_lines(plan, whole, &nest) : 0;
        for (int k = 0; k < nest.n_instructions; k++)
            if (nest.instructions[k].kind == DT_INSTRUCTION_LOAD)
                nest.instructions[k].address.buffer = dt_kernel_argument(arena, &kernel, whole->buffers[nest.instructions[k].address.buffer]);
        for (int s = 0; s < nest.n_stores; s++) {
            int buffer = whole->buffers[nest.stores[s].address.buffer];
            nest.stores[s].address.buffer = dt_kernel_argument(arena, &kernel, buffer);
            kernel.update |= plan->buffers[buffer].space == DT_MEMORY_VARIABLE;
        }
        dt_kernel_insert_nest(arena, &kernel, kernel.n_nests, nest);
    }
    return kernel;
}

/* Divides the k-th kernel of those that the segment runs once; what has to wait becomes kernels after it. Returns how many there are now. */
static int divide(dt_arena *arena, dt_plan *plan, dt_segment *segment, int k) {
    dt_kernel_function whole = plan->kernels[segment->device_kernels[k]];
    bool *done = DT_NEW_ARRAY(arena, bool, whole.n_nests);
    relations relations = find_relations(arena, plan, &whole);
    group group = next_group(arena, &relations, done);
    int n = 0;
    if (!is_worth_it(&whole, &group)) return 1;
    for (; group.n > 0; group = next_group(arena, &relations, done), n++) {
        dt_kernel_function part = kernel_of(arena, plan, &whole, &group);
        for (int i = 0; i < group.n; i++) done[group.nests[i]] = true;
        if (n == 0) {
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
    dt_function_role role = plan->role;
    if (role != DT_ROLE_INIT && !dt_function_role_has_rows(role)) return; /* the others are run by one core */
    for (int s = 0; s < plan->n_segments; s++)
        for (int k = 0; k < plan->segments[s].n_device_kernels;) k += divide(arena, plan, &plan->segments[s], k);
}
