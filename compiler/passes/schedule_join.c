/* schedule_join: neighbouring loops that walk memory as one become one. Loops whose iterations are used as numbers are joined too, if all that is used
 * of them is l * extent + (l + 1), as in the number of an element, by which random numbers are drawn. Vectors are longer then, and nests of other
 * shapes are the same code. */
#include "compiler/kernel/nest.h"
#include "compiler/passes/schedule.h"

static bool walks_as_one(const dt_nest *nest, const int64_t *coefficients, int l) {
    return coefficients[l] == (int64_t)((uint64_t)coefficients[l + 1] * (uint64_t)nest->loops[l + 1].extent);
}

/* ---- sums of iterations ---- */

/* An i64 that is a sum of iterations times constants, and a constant. */
typedef struct linear {
    int64_t *coefficients; /* [n_loops] NULL: it is none */
    int64_t constant;
    bool is_used; /* something other than such a sum reads it */
} linear;

static bool is_constant(const dt_nest *nest, const linear *x) {
    for (int l = 0; l < nest->n_loops; l++)
        if (x->coefficients[l] != 0) return false;
    return true;
}

/* As i64 scalars are computed. */
static int64_t wrapped(bool product, int64_t x, int64_t y) { return (int64_t)(product ? (uint64_t)x * (uint64_t)y : (uint64_t)x + (uint64_t)y); }

/* x + y, or x * y if one of them is constant. */
static void combine(dt_arena *arena, const dt_nest *nest, const dt_instruction *x, linear *all, linear *result) {
    const linear *a = &all[x->operands[0]], *b = &all[x->operands[1]];
    bool product = x->scalar == DT_SCALAR_MULTIPLY;
    if (a->coefficients == NULL || b->coefficients == NULL || (!product && x->scalar != DT_SCALAR_ADD)) return;
    if (product && !is_constant(nest, b)) {
        const linear *turned = a;
        a = b, b = turned;
        if (!is_constant(nest, b)) return;
    }
    result->coefficients = DT_NEW_ARRAY(arena, int64_t, nest->n_loops);
    for (int l = 0; l < nest->n_loops; l++)
        result->coefficients[l] = wrapped(product, a->coefficients[l], product ? b->constant : b->coefficients[l]);
    result->constant = wrapped(product, a->constant, b->constant);
}

static void use_address(linear *all, const dt_address *address) {
    for (int t = 0; t < address->n_terms; t++) all[address->terms[t]].is_used = true;
}

static linear *find_sums(dt_arena *arena, const dt_nest *nest) {
    linear *all = DT_NEW_ARRAY(arena, linear, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        bool is_sum = x->dtype == DT_I64;
        if (is_sum && (x->kind == DT_INSTRUCTION_LOOP || x->kind == DT_INSTRUCTION_CONSTANT)) {
            all[i].coefficients = DT_NEW_ARRAY(arena, int64_t, nest->n_loops);
            if (x->kind == DT_INSTRUCTION_LOOP) all[i].coefficients[x->index] = 1;
            if (x->kind == DT_INSTRUCTION_CONSTANT) all[i].constant = x->integer;
        } else if (is_sum && x->kind == DT_INSTRUCTION_SCALAR && x->n_operands == 2) {
            combine(arena, nest, x, all, &all[i]);
        }
        for (int k = 0; k < x->n_operands && all[i].coefficients == NULL; k++) all[x->operands[k]].is_used = true;
        if (x->kind != DT_INSTRUCTION_LOAD) continue;
        use_address(all, &x->address);
        if (x->guard >= 0) all[x->guard].is_used = all[x->otherwise].is_used = true;
    }
    for (int s = 0; s < nest->n_stores; s++) {
        all[nest->stores[s].operand].is_used = true;
        use_address(all, &nest->stores[s].address);
        if (nest->stores[s].guard >= 0) all[nest->stores[s].guard].is_used = true;
    }
    for (int r = 0; r < nest->n_reductions; r++) all[nest->reductions[r].operand].is_used = true;
    return all;
}

/* Whether all that is used of loops l and l + 1 is l * extent + (l + 1). */
static bool are_asked_as_one(const dt_nest *nest, const linear *sums, int l) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (sums[i].is_used && sums[i].coefficients != NULL && !walks_as_one(nest, sums[i].coefficients, l)) return false;
    return true;
}

static bool asks_for_loops(const dt_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOOP) return true;
    return false;
}

/* ---- joining ---- */

/* Whether loops l and l + 1 are one walk in every address, and mean nothing else. */
static bool can_join(const dt_nest *nest, const linear *sums, int l) {
    const dt_tiling *tiling = &nest->tiling;
    const dt_loop *loops = nest->loops;
    if (dt_dim_is_symbol(loops[l].extent) || dt_dim_is_symbol(loops[l + 1].extent) || loops[l].reduced != loops[l + 1].reduced) return false;
    bool tiled = nest->algorithm != DT_ALGORITHM_LOOPS;
    if (tiled && (tiling->row_loop == l || tiling->row_loop == l + 1 || tiling->vector_loop == l || tiling->vector_loop == l + 1)) return false;
    for (int s = 0; s < nest->n_stores; s++)
        if (!walks_as_one(nest, nest->stores[s].address.coefficients, l)) return false;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOOP && (x->index == l || x->index == l + 1) && sums == NULL) return false;
        if (x->kind == DT_INSTRUCTION_LOAD && !walks_as_one(nest, x->address.coefficients, l)) return false;
    }
    return sums == NULL || are_asked_as_one(nest, sums, l);
}

static void drop_coefficient(dt_arena *arena, const dt_nest *nest, dt_address *address, int l) {
    int64_t *coefficients = DT_NEW_ARRAY(arena, int64_t, nest->n_loops - 1);
    for (int k = 0; k < nest->n_loops - 1; k++) coefficients[k] = address->coefficients[k < l ? k : k + 1];
    address->coefficients = coefficients;
}

/* The one loop runs to the product. Where iterations are asked for, those of l are 0 from now on, and those of l + 1 its own. */
static void join(dt_arena *arena, dt_nest *nest, int l) {
    for (int s = 0; s < nest->n_stores; s++) drop_coefficient(arena, nest, &nest->stores[s].address, l);
    for (int i = 0; i < nest->n_instructions; i++) {
        dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOOP && x->index == l) *x = (dt_instruction){.dtype = DT_I64, .guard = -1, .otherwise = -1};
        if (x->kind == DT_INSTRUCTION_LOOP && x->index > l) x->index--;
        if (x->kind == DT_INSTRUCTION_LOAD) drop_coefficient(arena, nest, &x->address, l);
    }
    dt_loop *loops = DT_NEW_ARRAY(arena, dt_loop, nest->n_loops - 1);
    for (int k = 0; k < nest->n_loops - 1; k++) loops[k] = nest->loops[k < l ? k : k + 1];
    loops[l].extent = nest->loops[l].extent * nest->loops[l + 1].extent;
    nest->loops = loops;
    nest->n_loops--;
    if (nest->tiling.vector_loop > l) nest->tiling.vector_loop--;
    if (nest->tiling.row_loop > l) nest->tiling.row_loop--;
}

/* ---- without what has become constant ---- */

static dt_affine renamed_index(dt_arena *arena, const dt_address *address, const int *names) {
    dt_affine index = {address->coefficients, address->offset, address->n_terms, DT_NEW_ARRAY(arena, int, address->n_terms),
                       address->term_coefficients};
    for (int t = 0; t < address->n_terms; t++) index.terms[t] = names[address->terms[t]];
    return index;
}

static int renamed(const int *names, int x) { return x < 0 ? x : names[x]; }

/* A nest of loops, added to a new one instruction by instruction: constants fold. */
static void build_again(dt_arena *arena, dt_plan *plan, dt_kernel_function *kernel, dt_nest *nest) {
    dt_nest_builder b = {.arena = arena, .plan = plan, .kernel = kernel, .n_loops = nest->n_loops, .loops = nest->loops};
    int *names = DT_NEW_ARRAY(arena, int, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        dt_instruction x = nest->instructions[i];
        for (int k = 0; k < x.n_operands; k++) x.operands[k] = names[x.operands[k]];
        if (x.kind == DT_INSTRUCTION_SCALAR) {
            names[i] = dt_nest_scalar(&b, x.scalar, x.dtype, x.n_operands, x.operands);
        } else if (x.kind == DT_INSTRUCTION_LOAD) {
            dt_affine index = renamed_index(arena, &x.address, names);
            names[i] = dt_nest_load(&b, kernel->buffers[x.address.buffer], &index, renamed(names, x.guard), renamed(names, x.otherwise));
        } else {
            names[i] = dt_nest_add(&b, x);
        }
    }
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        dt_affine index = renamed_index(arena, &store->address, names);
        dt_nest_store(&b, kernel->buffers[store->address.buffer], &index, names[store->operand], store->accumulate, renamed(names, store->guard));
    }
    dt_nest built = dt_nest_finish(&b);
    nest->n_instructions = built.n_instructions;
    nest->instructions = built.instructions;
    nest->stores = built.stores;
}

void dt_schedule_join(dt_arena *arena, dt_plan *plan, dt_kernel_function *kernel, int n) {
    dt_nest *nest = &kernel->nests[n];
    bool in_blocks = nest->in_blocks || (n + 1 < kernel->n_nests && kernel->nests[n + 1].in_blocks);
    bool by_sums = asks_for_loops(nest) && nest->algorithm == DT_ALGORITHM_LOOPS && nest->n_reductions == 0 && !in_blocks;
    int n_loops = nest->n_loops;
    for (int l = nest->n_loops - 2; l >= 0; l--)
        if (can_join(nest, by_sums ? find_sums(arena, nest) : NULL, l)) join(arena, nest, l);
    if (by_sums && nest->n_loops < n_loops) build_again(arena, plan, kernel, nest);
}
