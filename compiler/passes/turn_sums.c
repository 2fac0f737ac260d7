/* turn_sums: sums of products of which operand b is mostly zero get it as operand a, of which zeros can be left out (choose_zeros.c).
 *
 * In the gradient of a convolution's kernel, over rows of the batch, what comes back from the layers above is operand b: vectors lie along its
 * channels, as they do in the kernel. Here rows and vectors change places. So that vectors are still stored to neighbours, the sum is kept with rows
 * and columns turned, in scratch, and turned back once, when all rows of the microbatch are added up. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/passes.h"

enum {
    LEAST_ZEROS = 75, /* in a hundred of b, as choose_zeros.c has it */
    LEAST_TERMS = 64  /* of a sum in a microbatch: then turning it back costs next to nothing */
};

/* A sum that may be turned. */
typedef struct turning {
    dt_arena *arena;
    dt_plan *plan;
    dt_kernel_function *kernel;
    int sum, zero, end; /* nests: the sum, the one that clears it before, and the first one behind the loop over rows */
} turning;

static dt_nest *sum_of(const turning *t) { return &t->kernel->nests[t->sum]; }

static const dt_buffer *buffer_of(const turning *t, int argument) { return &t->plan->buffers[t->kernel->buffers[argument]]; }

/* The nests that touch what the sum is stored to: one clears all of it, the sum adds to it, and behind the loop over rows others may read it. */
static bool find_zero(turning *t) {
    const int result = sum_of(t)->stores[0].address.buffer;
    t->zero = -1;
    for (t->end = t->sum; t->end < t->kernel->n_nests && t->kernel->nests[t->end].in_rows;) t->end++;
    for (int n = 0; n < t->kernel->n_nests; n++) {
        const dt_nest *nest = &t->kernel->nests[n];
        for (int i = 0; i < nest->n_instructions && n < t->end; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && nest->instructions[i].address.buffer == result) return false;
        for (int s = 0; s < nest->n_stores; s++) {
            if (nest->stores[s].address.buffer != result || n == t->sum) continue;
            const dt_instruction *stored = &nest->instructions[nest->stores[s].operand];
            if (t->zero >= 0 || n > t->sum || nest->in_rows || nest->n_stores != 1 || nest->n_loops != 1) return false;
            if (stored->kind != DT_INSTRUCTION_CONSTANT || stored->number != 0) return false;
            t->zero = n;
        }
    }
    return t->zero >= 0;
}

/* Whether rows and columns are the last two dimensions of what is stored. */
static bool is_matrix(const turning *t) {
    const dt_nest *nest = sum_of(t);
    const int64_t *at = nest->stores[0].address.coefficients;
    const int row = nest->tiling.row_loop, column = nest->tiling.vector_loop;
    const int64_t n_columns = nest->loops[column].extent, block = n_columns * nest->loops[row].extent;
    bool is_one = at[column] == 1 && at[row] == n_columns && nest->stores[0].address.offset % block == 0;
    for (int l = 0; l < nest->n_loops; l++) is_one &= l == row || l == column || at[l] % block == 0;
    return is_one && t->kernel->nests[t->zero].loops[0].extent % block == 0;
}

static bool can_be_turned(turning *t) {
    const dt_nest *nest = sum_of(t);
    if (nest->algorithm != DT_ALGORITHM_TILED || !nest->in_rows || nest->tiling.row_loop < 1 || nest->n_stores != 1) return false;
    if (!nest->stores[0].accumulate || nest->stores[0].guard >= 0 || nest->stores[0].address.n_terms > 0 || !dt_nest_stores_sum(nest)) return false;
    if (dt_dim_is_symbol(nest->loops[nest->tiling.row_loop].extent) || dt_dim_is_symbol(nest->loops[nest->tiling.vector_loop].extent)) return false;
    const dt_address *a = &nest->instructions[nest->tiling.a].address, *b = &nest->instructions[nest->tiling.b].address;
    if (a->coefficients[nest->tiling.row_loop] != 1 || buffer_of(t, b->buffer)->zeros < LEAST_ZEROS) return false;
    if (buffer_of(t, a->buffer)->zeros >= LEAST_ZEROS) return false;
    double n_terms = (double)t->plan->microbatch_rows;
    for (int l = 0; l < nest->n_loops; l++)
        if (dt_nest_reduces(nest, l) && !dt_dim_is_symbol(nest->loops[l].extent)) n_terms *= (double)nest->loops[l].extent;
    return n_terms >= LEAST_TERMS && find_zero(t) && is_matrix(t);
}

static void swap_places(dt_nest *nest) {
    const dt_tiling was = nest->tiling;
    nest->tiling = (dt_tiling){.row_loop = was.vector_loop, .vector_loop = was.row_loop, .a = was.b, .b = was.a};
    nest->vector_loop = nest->tiling.vector_loop;
}

/* Sums turned back: [blocks][rows][columns] from [blocks][columns][rows]. */
static dt_nest turned_back(const turning *t, int turned, int64_t n_blocks, int64_t n_rows, int64_t n_columns) {
    enum {
        BLOCK,
        ROW,
        COLUMN,
        N_LOOPS
    };
    dt_arena *arena = t->arena;
    dt_nest_builder nest = {.arena = arena, .plan = t->plan, .kernel = t->kernel, .n_loops = N_LOOPS, .loops = DT_NEW_ARRAY(arena, dt_loop, N_LOOPS)};
    const int64_t extents[N_LOOPS] = {n_blocks, n_rows, n_columns}, to[N_LOOPS] = {n_rows * n_columns, n_columns, 1},
                  from[N_LOOPS] = {n_rows * n_columns, 1, n_rows};
    dt_affine source = dt_affine_constant(arena, N_LOOPS, 0), target = source;
    for (int l = 0; l < N_LOOPS; l++) {
        nest.loops[l].extent = extents[l];
        source = dt_affine_add(arena, N_LOOPS, source, dt_affine_loop(arena, N_LOOPS, l), from[l]);
        target = dt_affine_add(arena, N_LOOPS, target, dt_affine_loop(arena, N_LOOPS, l), to[l]);
    }
    const int result = t->kernel->buffers[sum_of(t)->stores[0].address.buffer];
    dt_nest_store(&nest, result, &target, dt_nest_load(&nest, turned, &source, -1, -1), false, -1);
    dt_nest made = dt_nest_finish(&nest);
    made.vector_loop = COLUMN;
    made.note = "turn";
    made.layer = sum_of(t)->layer;
    made.backward = sum_of(t)->backward;
    return made;
}

static void turn(turning *t) {
    dt_nest *nest = sum_of(t);
    swap_places(nest);
    if (dt_skipping_needs(t->plan, t->kernel, nest) != NULL) {
        swap_places(nest);
        return;
    }
    const int64_t n_columns = nest->loops[nest->tiling.row_loop].extent, n_rows = nest->loops[nest->tiling.vector_loop].extent;
    const int64_t n = t->kernel->nests[t->zero].loops[0].extent;
    const dt_buffer *result = buffer_of(t, nest->stores[0].address.buffer);
    dt_buffer buffer = {.space = DT_MEMORY_SCRATCH, .dtype = result->dtype, .sharded = result->sharded, .variable = -1, .input = -1};
    buffer.name = dt_arena_format(t->arena, "%s/turned", result->name != NULL ? result->name : "sum");
    buffer.shape = dt_shape_make(t->arena, 1, &n);
    const int turned = dt_plan_add_buffer(t->arena, t->plan, buffer);
    dt_kernel_insert_nest(t->arena, t->kernel, t->end, turned_back(t, turned, n / (n_rows * n_columns), n_rows, n_columns));
    nest = sum_of(t);
    const int argument = dt_kernel_argument(t->arena, t->kernel, turned);
    t->kernel->nests[t->zero].stores[0].address.buffer = argument;
    dt_address *at = &nest->stores[0].address;
    at->buffer = argument;
    at->coefficients[nest->tiling.row_loop] = n_rows;
    at->coefficients[nest->tiling.vector_loop] = 1;
}

dt_status *dt_pass_turn_sums(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan *plan = compilation->plans[p];
        for (int k = 0; k < plan->n_kernels && !plan->batched; k++)
            for (int n = 0; n < plan->kernels[k].n_nests; n++) {
                turning t = {.arena = compilation->arena, .plan = plan, .kernel = &plan->kernels[k], .sum = n};
                if (can_be_turned(&t)) turn(&t);
            }
    }
    return NULL;
}
