/* library_product: nests that are matrix products.
 *
 * Each loop of the nest walks the two factors and the result by steps of its own; which of the three it walks says whether it goes through rows,
 * columns, terms or batches. Loops of one kind whose steps continue one another are one loop. What is left over beyond one loop of rows and one of
 * columns are batches too, by which one factor does not move. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/library.h"
#include "compiler/kernel/view.h"

enum {
    FIRST,
    SECOND,
    RESULT,
    N_TENSORS
};

typedef enum walk_kind {
    ROWS,
    COLUMNS,
    TERMS,
    BATCHES
} walk_kind;

typedef struct walk {
    walk_kind kind;
    int64_t iterations, steps[N_TENSORS];
} walk;

enum {
    MOST_WALKS = 16
};

typedef struct product {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest *nest;
    const dt_address *addresses[N_TENSORS];
    int row_loop; /* of the nest: the one of DT_BATCH iterations; -1: none */
    int n_walks;
    walk walks[MOST_WALKS];
} product;

/* ---- the statement ---- */

static const dt_instruction *plain_load(const dt_nest *nest, int i) {
    const dt_instruction *x = &nest->instructions[i];
    bool plain = x->kind == DT_INSTRUCTION_LOAD && x->dtype == DT_F32 && x->guard < 0 && x->address.n_terms == 0;
    return plain ? x : NULL;
}

static bool is_scalar(const dt_nest *nest, int i, dt_scalar_op scalar) {
    return nest->instructions[i].kind == DT_INSTRUCTION_SCALAR && nest->instructions[i].scalar == scalar;
}

static bool is_constant(const dt_nest *nest, int i) { return nest->instructions[i].kind == DT_INSTRUCTION_CONSTANT; }

/* Of an operation with two operands, where the one for which `is` holds stands; -1: neither. */
static int operand_that(const dt_nest *nest, int i, bool (*is)(const dt_nest *nest, int i)) {
    const int *operands = nest->instructions[i].operands;
    return is(nest, operands[0]) ? 0 : is(nest, operands[1]) ? 1 : -1;
}

static bool is_plain_load(const dt_nest *nest, int i) { return plain_load(nest, i) != NULL; }

/* Peels what follows the sum, from the outside: relu, bias, scale. What is left must be the sum. */
static bool read_epilogue(const dt_nest *nest, int i, dt_library_product *p, const dt_instruction **bias) {
    int at;
    *bias = NULL;
    if (is_scalar(nest, i, DT_SCALAR_MAXIMUM) && (at = operand_that(nest, i, is_constant)) >= 0 &&
        nest->instructions[nest->instructions[i].operands[at]].number == 0) {
        p->activation = DT_LIBRARY_ACTIVATION_RELU;
        i = nest->instructions[i].operands[1 - at];
    }
    if (is_scalar(nest, i, DT_SCALAR_ADD) && (at = operand_that(nest, i, is_plain_load)) >= 0) {
        *bias = plain_load(nest, nest->instructions[i].operands[at]);
        i = nest->instructions[i].operands[1 - at];
    }
    if (is_scalar(nest, i, DT_SCALAR_MULTIPLY) && (at = operand_that(nest, i, is_constant)) >= 0) {
        p->scale = nest->instructions[nest->instructions[i].operands[at]].number;
        i = nest->instructions[i].operands[1 - at];
    }
    return nest->instructions[i].kind == DT_INSTRUCTION_REDUCED;
}

static bool read_statement(product *x, dt_library_call *call, const dt_instruction **bias) {
    const dt_nest *nest = x->nest;
    if (nest->n_stores != 1 || nest->n_reductions != 1 || nest->reductions[0].dtype != DT_F32) return false;
    if (!dt_reduction_is_product(nest, &nest->reductions[0]) || dt_nest_has_check(nest)) return false;
    const dt_store *store = &nest->stores[0];
    if (store->accumulate || store->guard >= 0 || store->address.n_terms > 0 || nest->instructions[store->operand].dtype != DT_F32) return false;
    const int *factors = nest->instructions[nest->reductions[0].operand].operands;
    dt_precision of_second;
    const dt_instruction *first = plain_load(nest, dt_factor_unrounded(nest, factors[0], &call->precision));
    const dt_instruction *second = plain_load(nest, dt_factor_unrounded(nest, factors[1], &of_second));
    if (first == NULL || second == NULL || call->precision != of_second) return false;
    if (!read_epilogue(nest, store->operand, &call->product, bias)) return false;
    x->addresses[FIRST] = &first->address;
    x->addresses[SECOND] = &second->address;
    x->addresses[RESULT] = &store->address;
    return true;
}

/* ---- loops ---- */

static bool add_walk(product *x, int l) {
    walk w = {.iterations = dt_trip_count(x->plan, x->nest->loops[l].extent)};
    if (x->nest->loops[l].extent == DT_BATCH) {
        if (x->row_loop >= 0) return false; /* rows against rows: sizes are not those at capacity */
        x->row_loop = l;
    }
    if (w.iterations == 1) return true;
    for (int t = 0; t < N_TENSORS; t++) {
        w.steps[t] = x->addresses[t]->coefficients[l];
        if (w.steps[t] < 0) return false;
    }
    bool first = w.steps[FIRST] != 0, second = w.steps[SECOND] != 0, reduced = dt_nest_reduces(x->nest, l);
    if (w.iterations < 1 || x->n_walks == MOST_WALKS || reduced == (w.steps[RESULT] != 0) || (!first && !second) || (reduced && !(first && second)))
        return false;
    w.kind = reduced ? TERMS : first && second ? BATCHES : first ? ROWS : COLUMNS;
    x->walks[x->n_walks++] = w;
    return true;
}

static bool continues(const walk *outer, const walk *inner) {
    bool same = outer->kind == inner->kind;
    for (int t = 0; t < N_TENSORS; t++) same &= outer->steps[t] == inner->iterations * inner->steps[t];
    return same;
}

static void remove_walk(product *x, int i) { x->walks[i] = x->walks[--x->n_walks]; }

static void join_walks(product *x) {
    for (int i = 0; i < x->n_walks; i++)
        for (int j = 0; j < x->n_walks; j++) {
            if (i == j || !continues(&x->walks[i], &x->walks[j])) continue;
            x->walks[j].iterations *= x->walks[i].iterations;
            remove_walk(x, i);
            i = -1;
            break;
        }
}

/* Takes the walk of a kind out of the list: the one that goes through the result element by element, else the longest. Those left of that kind are
 * batches, but for terms, of which none may be left. */
static bool take(product *x, walk_kind kind, walk *taken) {
    int best = -1;
    for (int i = 0; i < x->n_walks; i++) {
        const walk *w = &x->walks[i];
        if (w->kind != kind) continue;
        if (best < 0 || w->steps[RESULT] == 1 || (x->walks[best].steps[RESULT] != 1 && w->iterations > x->walks[best].iterations)) best = i;
    }
    if (best < 0) return false;
    *taken = x->walks[best];
    remove_walk(x, best);
    for (int i = 0; i < x->n_walks; i++) {
        if (x->walks[i].kind != kind) continue;
        if (kind == TERMS) return false;
        x->walks[i].kind = BATCHES;
    }
    return true;
}

/* ---- matrices ---- */

static bool are_steps(int64_t step, int64_t side, int64_t other, int64_t other_side) {
    return (step == 1 && other >= side) || (other == 1 && step >= other_side);
}

static dt_library_matrix matrix(const product *x, int tensor, const walk *i, const walk *j) {
    return (dt_library_matrix){
        .argument = x->addresses[tensor]->buffer, .offset = x->addresses[tensor]->offset, .strides = {i->steps[tensor], j->steps[tensor]}};
}

/* The last batch is the longest: a library walks it, the others are calls. */
static bool add_batches(const product *x, int first, dt_library_product *p) {
    static const int shown = DT_LIBRARY_MOST_BATCHES;
    int longest = 0;
    int64_t calls = 1;
    if (x->n_walks > shown) return false;
    for (int i = 1; i < x->n_walks; i++)
        if (x->walks[i].iterations > x->walks[longest].iterations) longest = i;
    p->n_batches = x->n_walks;
    for (int i = 0; i < x->n_walks; i++) {
        const walk *w = &x->walks[i == x->n_walks - 1 ? longest : i == longest ? x->n_walks - 1 : i];
        if (w->kind != BATCHES) return false;
        p->batches[i] = w->iterations;
        p->first.batch_strides[i] = w->steps[first];
        p->second.batch_strides[i] = w->steps[first == FIRST ? SECOND : FIRST];
        p->result.batch_strides[i] = w->steps[RESULT];
        if (i < x->n_walks - 1) calls *= w->iterations;
    }
    return calls <= DT_LIBRARY_MOST_CALLS;
}

/* The bias lies side by side and moves with the columns alone: by the very steps that the result takes within them. */
static bool add_bias(const product *x, const dt_instruction *bias, int64_t columns, dt_library_product *p) {
    if (bias == NULL) return true;
    for (int l = 0; l < x->nest->n_loops; l++) {
        int64_t step = x->addresses[RESULT]->coefficients[l], own = bias->address.coefficients[l];
        if (x->nest->loops[l].extent == 1) continue;
        if (own != (dt_nest_reduces(x->nest, l) || step >= columns ? 0 : step)) return false;
    }
    p->bias = bias->address.buffer;
    p->bias_offset = bias->address.offset;
    return true;
}

static bool find_matrices(product *x, const dt_instruction *bias, dt_library_product *p) {
    walk rows, columns, terms;
    if (!take(x, TERMS, &terms) || !take(x, ROWS, &rows) || !take(x, COLUMNS, &columns)) return false;
    bool swapped = rows.steps[RESULT] == 1;
    int first = swapped ? SECOND : FIRST, second = swapped ? FIRST : SECOND;
    const walk *down = swapped ? &columns : &rows, *along = swapped ? &rows : &columns;
    p->rows = down->iterations, p->columns = along->iterations, p->terms = terms.iterations;
    p->first = matrix(x, first, down, &terms);
    p->second = matrix(x, second, &terms, along);
    p->result = matrix(x, RESULT, down, along);
    if (along->steps[RESULT] != 1 || down->steps[RESULT] < along->iterations) return false;
    if (!are_steps(p->first.strides[0], p->rows, p->first.strides[1], p->terms)) return false;
    if (!are_steps(p->second.strides[0], p->terms, p->second.strides[1], p->columns)) return false;
    return add_batches(x, first, p) && add_bias(x, bias, p->columns, p);
}

/* ---- rows of the batch ---- */

static bool find_clears(const product *x, dt_library_call *call) {
    if (x->row_loop < 0 || !dt_nest_reduces(x->nest, x->row_loop)) return true;
    for (int t = FIRST; t <= SECOND; t++) {
        int64_t step = x->addresses[t]->coefficients[x->row_loop];
        if (!dt_library_add_clear(x->plan, x->kernel, x->addresses[t]->buffer, step, call)) return false;
    }
    return true;
}

/* ---- views ---- */

/* Begins in each iteration where any buffer may. */
static bool is_aligned(const product *x, const dt_address *address) {
    return dt_buffer_begins_at(x->plan, x->kernel->buffers[address->buffer], DT_BUFFER_ALIGNMENT);
}

static bool are_apart(const product *x, int argument, int other) {
    int a = x->kernel->buffers[argument], b = x->kernel->buffers[other];
    return dt_buffer_root(x->plan, a) != dt_buffer_root(x->plan, b) || dt_views_are_apart(x->plan, a, b);
}

bool dt_nest_library_product(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call) {
    product x = {.plan = plan, .kernel = kernel, .nest = nest, .row_loop = -1};
    const dt_instruction *bias;
    *call = (dt_library_call){
        .class = DT_LIBRARY_PRODUCT, .n_launches = 1, .product = {.scale = 1, .bias = -1, .kept = -1, .bias_gradient = {.argument = -1}}};
    if (!read_statement(&x, call, &bias) || (bias != NULL && !is_aligned(&x, &bias->address))) return false;
    for (int t = 0; t < N_TENSORS; t++)
        if (!is_aligned(&x, x.addresses[t])) return false;
    int result = x.addresses[RESULT]->buffer;
    if (!dt_library_may_write(plan, kernel, result)) return false;
    if (!are_apart(&x, x.addresses[FIRST]->buffer, result) || !are_apart(&x, x.addresses[SECOND]->buffer, result)) return false;
    for (int l = 0; l < nest->n_loops; l++)
        if (!add_walk(&x, l)) return false;
    join_walks(&x);
    return find_matrices(&x, bias, &call->product) && find_clears(&x, call);
}

/* ---- the gradient of a bias beside it ---- */

/* Whether the nest walks, element by element, through `side` elements of the matrix, and for each through all terms; it sums what it finds. */
static bool sums_over_terms(product *x, int64_t side, int64_t side_step, int64_t terms, int64_t term_step) {
    x->n_walks = 0;
    x->row_loop = -1;
    for (int l = 0; l < x->nest->n_loops; l++)
        if (!add_walk(x, l)) return false;
    join_walks(x);
    if (x->n_walks != 2) return false;
    const walk *over = &x->walks[x->walks[0].kind == TERMS ? 0 : 1], *along = &x->walks[x->walks[0].kind == TERMS ? 1 : 0];
    return over->kind == TERMS && over->iterations == terms && over->steps[FIRST] == term_step && along->kind != TERMS && along->iterations == side &&
           along->steps[FIRST] == side_step && along->steps[RESULT] == 1;
}

/* What of it is scaled or rounded is said nowhere: so it is f32, and the factor of the product 1. */
bool dt_library_add_bias_gradient(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *sum, dt_library_call *call) {
    dt_library_product *p = &call->product;
    if (call->class != DT_LIBRARY_PRODUCT || call->precision != DT_PRECISION_F32 || p->bias_gradient.argument >= 0) return false;
    if (p->scale != 1 || p->bias >= 0 || p->activation != DT_LIBRARY_ACTIVATION_NONE || p->n_batches > 0) return false;
    if (sum->n_stores != 1 || sum->n_reductions != 1 || sum->reductions[0].combiner != DT_COMBINE_SUM || sum->reductions[0].dtype != DT_F32)
        return false;
    const dt_store *store = &sum->stores[0];
    const dt_instruction *load = plain_load(sum, sum->reductions[0].operand);
    bool plain = !store->accumulate && store->guard < 0 && store->address.n_terms == 0 && dt_library_may_write(plan, kernel, store->address.buffer);
    if (load == NULL || !plain || sum->instructions[store->operand].kind != DT_INSTRUCTION_REDUCED) return false;
    product x = {.plan = plan, .kernel = kernel, .nest = sum, .addresses = {&load->address, &load->address, &store->address}};
    for (int of_first = 0; of_first < 2; of_first++) {
        const dt_library_matrix *factor = of_first ? &p->first : &p->second;
        if (load->address.buffer != factor->argument || load->address.offset != factor->offset) continue;
        if (!sums_over_terms(&x, of_first ? p->rows : p->columns, factor->strides[1 - of_first], p->terms, factor->strides[of_first])) continue;
        p->bias_gradient = (dt_library_bias_gradient){store->address.buffer, store->address.offset, of_first != 0, 1};
        return true;
    }
    return false;
}
