/* divide_replicas: kernels that replicas run, in parts, for cores that have no microbatch.
 *
 * Where a replica is one microbatch there are often fewer microbatches than cores. A nest of such a kernel then gets a loop over blocks of one of its
 * loops, outside of all but the loop over rows, and each core runs a range of these blocks; what cannot be divided part 0 does alone. Cores meet
 * before a nest that has to do with what others have done, and at the kernel's end. Only loops are divided whose iterations have nothing to do with
 * one another (compiler/kernel/parallel.h), so no sum is cut, each element is made by one core, and no bit depends on how many there are: the blocks
 * are the same for one core as for many.
 *
 * Which loop: one that no register tile has, so that tiles stay as they are; else the vector loop of tiles, along which operand b is packed block by
 * block anyway; else their rows, for each block of which it is packed once more. It comes after plan_memory: what shares memory is done in turn, too.
 */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/meetings.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/parallel.h"
#include "compiler/kernel/repeats.h"
#include "compiler/passes/passes.h"

#include <string.h>

enum {
    MOST_BLOCKS = 16,     /* of one nest: for so many cores */
    ENOUGH_BLOCKS = 4,    /* of one nest: no other loop is looked for */
    LEAST_WORK = 1 << 18, /* instructions of a nest that are worth a meeting: many microseconds */
    LEAST_KERNEL_WORK = 1 << 20
};

/* ---- which loop ---- */

/* A loop to divide, and how many blocks its iterations become: of one iteration each, or of several. */
typedef struct division {
    int loop; /* -1: none */
    int64_t n_blocks;
} division;

/* The most blocks that an extent is a multiple of, of at least so many iterations. */
static int64_t blocks_of(int64_t extent, int64_t least_block) {
    int64_t n = MOST_BLOCKS;
    while (n > 1 && (extent % n != 0 || extent / n < least_block)) n--;
    return n;
}

static bool is_of_tile(const dt_nest *nest, int loop) {
    return nest->algorithm != DT_ALGORITHM_LOOPS && (loop == nest->tiling.row_loop || loop == nest->tiling.vector_loop);
}

static division best_division(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    const uint64_t parallel = dt_nest_parallel_loops(plan, kernel, nest);
    const int vector = nest->vector_loop, row = nest->algorithm == DT_ALGORITHM_LOOPS ? -1 : nest->tiling.row_loop;
    const struct {
        int loop;
        int64_t least_block;
    } ways[] = {{vector, 32}, {row, 32}, {row, 16}, {row, 8}, {vector, 16}};
    division best = {-1, 1};
    for (int l = nest->in_rows; l < nest->n_loops; l++) {
        int64_t extent = nest->loops[l].extent;
        if (!(parallel >> l & 1) || dt_dim_is_symbol(extent) || is_of_tile(nest, l) || l == nest->vector_loop) continue;
        int64_t n = blocks_of(extent, 1);
        if (extent >= ENOUGH_BLOCKS) return (division){l, n >= ENOUGH_BLOCKS ? n : extent};
    }
    for (size_t w = 0; w < sizeof ways / sizeof *ways && best.n_blocks < ENOUGH_BLOCKS; w++) {
        int l = ways[w].loop;
        if (l < nest->in_rows || !(parallel >> l & 1) || dt_dim_is_symbol(nest->loops[l].extent)) continue;
        int64_t n = blocks_of(nest->loops[l].extent, ways[w].least_block);
        if (n > best.n_blocks) best = (division){l, n};
    }
    return best;
}

static division division_of(const dt_plan *plan, const dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n];
    bool in_blocks = nest->in_blocks || (n + 1 < kernel->n_nests && kernel->nests[n + 1].in_blocks);
    if (in_blocks || nest->library != NULL || dt_nest_has_check(nest) || dt_piece_work(plan, kernel, n, n + 1) < LEAST_WORK) return (division){-1, 0};
    return best_division(plan, kernel, nest);
}

/* ---- a nest with a loop over blocks ---- */

typedef DT_LIST(dt_instruction) instruction_list;

/* Where instruction i of the nest is now. */
typedef struct rewriting {
    dt_arena *arena;
    instruction_list made;
    int *now;
} rewriting;

static int add(rewriting *r, dt_instruction x) {
    x.guard = x.otherwise = -1;
    dt_list_push(r->arena, &r->made, x);
    return (int)r->made.n - 1;
}

/* block * size + the iteration within it */
static void add_index(rewriting *r, int block, int64_t size, int within) {
    int number = add(r, (dt_instruction){.kind = DT_INSTRUCTION_LOOP, .dtype = DT_I64, .index = block});
    int by = add(r, (dt_instruction){.kind = DT_INSTRUCTION_CONSTANT, .dtype = DT_I64, .integer = size});
    int start = add(
        r, (dt_instruction){.kind = DT_INSTRUCTION_SCALAR, .dtype = DT_I64, .scalar = DT_SCALAR_MULTIPLY, .n_operands = 2, .operands = {number, by}});
    int one = add(r, (dt_instruction){.kind = DT_INSTRUCTION_LOOP, .dtype = DT_I64, .index = within});
    add(r, (dt_instruction){.kind = DT_INSTRUCTION_SCALAR, .dtype = DT_I64, .scalar = DT_SCALAR_ADD, .n_operands = 2, .operands = {start, one}});
}

/* The loops as they stand now: `at` is the one over blocks, `from` the one that was divided, which is gone where a block is one iteration. */
typedef struct new_loops {
    int at, from;
    int64_t size;
} new_loops;

static int loop_now(new_loops to, int loop) {
    if (loop < to.at) return loop;
    if (to.size > 1) return loop + 1;
    return loop == to.from ? to.at : loop < to.from ? loop + 1 : loop;
}

static dt_address address_now(dt_arena *arena, const rewriting *r, new_loops to, int n_loops, dt_address address) {
    int64_t *coefficients = DT_NEW_ARRAY(arena, int64_t, n_loops + 1);
    int *terms = DT_NEW_ARRAY(arena, int, address.n_terms);
    for (int l = 0; l < n_loops; l++) coefficients[loop_now(to, l)] = address.coefficients[l];
    coefficients[to.at] = to.size * address.coefficients[to.from];
    for (int t = 0; t < address.n_terms; t++) terms[t] = r->now[address.terms[t]];
    address.coefficients = coefficients;
    address.terms = terms;
    return address;
}

static void rewrite_instructions(rewriting *r, new_loops to, const dt_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++) {
        dt_instruction x = nest->instructions[i];
        for (int k = 0; k < x.n_operands; k++) x.operands[k] = r->now[x.operands[k]];
        if (x.kind == DT_INSTRUCTION_LOAD) {
            x.address = address_now(r->arena, r, to, nest->n_loops, x.address);
            if (x.guard >= 0) x.guard = r->now[x.guard], x.otherwise = r->now[x.otherwise];
        }
        if (x.kind == DT_INSTRUCTION_LOOP && x.index == to.from && to.size > 1) {
            add_index(r, to.at, to.size, loop_now(to, to.from));
        } else {
            if (x.kind == DT_INSTRUCTION_LOOP) x.index = loop_now(to, x.index);
            dt_list_push(r->arena, &r->made, x);
        }
        r->now[i] = (int)r->made.n - 1;
    }
}

static void divide_nest(dt_arena *arena, dt_nest *nest, division by) {
    const new_loops to = {nest->in_rows, by.loop, nest->loops[by.loop].extent / by.n_blocks};
    const int n_loops = nest->n_loops + (to.size > 1);
    rewriting r = {.arena = arena, .now = DT_NEW_ARRAY(arena, int, nest->n_instructions)};
    dt_loop *loops = DT_NEW_ARRAY(arena, dt_loop, n_loops);
    for (int l = 0; l < nest->n_loops; l++) loops[loop_now(to, l)] = nest->loops[l];
    if (to.size > 1) loops[loop_now(to, by.loop)].extent = to.size;
    loops[to.at] = (dt_loop){.extent = by.n_blocks};
    rewrite_instructions(&r, to, nest);
    for (int i = 0; i < nest->n_reductions; i++) nest->reductions[i].operand = r.now[nest->reductions[i].operand];
    for (int s = 0; s < nest->n_stores; s++) {
        dt_store *store = &nest->stores[s];
        store->address = address_now(arena, &r, to, nest->n_loops, store->address);
        store->operand = r.now[store->operand];
        if (store->guard >= 0) store->guard = r.now[store->guard];
    }
    if (nest->vector_loop >= 0) nest->vector_loop = loop_now(to, nest->vector_loop);
    if (nest->algorithm != DT_ALGORITHM_LOOPS) {
        nest->tiling.vector_loop = loop_now(to, nest->tiling.vector_loop);
        if (nest->tiling.row_loop >= 0) nest->tiling.row_loop = loop_now(to, nest->tiling.row_loop);
        nest->tiling.a = r.now[nest->tiling.a];
        nest->tiling.b = r.now[nest->tiling.b];
    }
    nest->loops = loops;
    nest->n_loops = n_loops;
    nest->instructions = r.made.items;
    nest->n_instructions = (int)r.made.n;
    nest->part_iterations = 1;
}

/* ---- kernels ---- */

/* Worth it is what is mostly divided, and takes longer than the meetings. */
static void divide_kernel(dt_arena *arena, const dt_plan *plan, dt_kernel_function *kernel) {
    double all = 0, divided = 0;
    division *divisions = DT_NEW_ARRAY(arena, division, kernel->n_nests);
    if (kernel->loop != NULL) return; /* cores would meet in each iteration */
    for (int n = 0; n < kernel->n_nests; n++) {
        double work = dt_piece_work(plan, kernel, n, n + 1);
        divisions[n] = division_of(plan, kernel, n);
        all += work;
        if (divisions[n].loop >= 0) divided += work;
    }
    if (divided < LEAST_KERNEL_WORK || divided < all / 2) return;
    kernel->divided = true;
    for (int n = 0; n < kernel->n_nests; n++)
        if (divisions[n].loop >= 0) divide_nest(arena, &kernel->nests[n], divisions[n]);
    for (int n = 0; n < kernel->n_nests; n++) kernel->nests[n].meets = dt_nest_has_to_meet(plan, kernel, n);
}

dt_status *dt_pass_divide_replicas(dt_compilation *compilation) {
    const bool for_cores = dt_switch_is_on(compilation->off, DT_SWITCH_MICROBATCHES); /* else a replica is one microbatch, for one core */
    for (int p = 0; p < compilation->n_plans && for_cores; p++) {
        const dt_plan *plan = compilation->plans[p];
        bool is_one = plan->microbatch_rows >= plan->capacity; /* a replica is one microbatch */
        if (plan->batched || plan->role != DT_ROLE_STEP || !is_one || plan->n_shards > 1) continue;
        for (int s = 0; s < plan->n_segments; s++)
            for (int k = 0; k < plan->segments[s].n_replica_kernels; k++)
                divide_kernel(compilation->arena, plan, &plan->kernels[plan->segments[s].replica_kernels[k]]);
    }
    return NULL;
}
