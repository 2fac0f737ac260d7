/* sink: monotone elementwise operations move past the maximum that is taken of what they make.
 *
 *     max(f(x0), f(x1), …)  is  f(max(x0, x1, …))      where f does not decrease
 *
 * So a bias and a relu between a convolution and its pooling are computed on what the pooling leaves, a fourth of the elements. It runs before
 * autodiff, so that gradients are computed there too.
 *
 * Bits of values stay, but for the sign of a 0: of zeros of both signs a maximum gives either. Sums of floats do not decrease, for rounding does not;
 * those of integers wrap around and stay where they are. NaN and both infinities pass through; where an infinite bias meets the opposite infinity,
 * the maximum is that of the elements which it does not meet.
 *
 * A gradient goes to the first position that reaches the maximum of f(x). That may be another one than the first which reaches the maximum of x: f
 * makes equal what was not, 1 and 2 by adding 1e8, or by clipping at 1. So where gradients are taken only those f move which have no gradient
 * wherever they make two numbers equal (STEADY in ir/ops.def), as relu has none where it gives 0. A bias then stays before the pooling, and costs one
 * addition for each element that the pooling reads; the sum that is its gradient is one of what the pooling leaves all the same (simplify.c). */
#include "compiler/passes/passes.h"
#include "ir/loops.h"

typedef struct sink {
    dt_arena *arena;
    dt_function *function;
    int *n_uses;            /* by id, of the values that were there before */
    bool is_differentiated; /* gradients of the function are still to be made */
} sink;

/* Whether the formula does not read operand k. */
static bool is_free_of(const dt_formula *node, int k) {
    if (node->kind == DT_FORMULA_OPERAND || node->kind == DT_FORMULA_INSIDE) return node->index != k;
    for (int a = 0; a < node->n_arguments; a++)
        if (!is_free_of(node->arguments[a], k)) return false;
    return true;
}

/* Whether it does not decrease where operand k does not. `wraps`: sums of its type do where they leave the range. */
static bool keeps_order(const dt_formula *node, int k, bool wraps) {
    if (is_free_of(node, k) || node->kind == DT_FORMULA_OPERAND) return true;
    if (node->kind != DT_FORMULA_SCALAR) return false;
    switch (node->scalar) {
    case DT_SCALAR_MAXIMUM:
    case DT_SCALAR_MINIMUM: return keeps_order(node->arguments[0], k, wraps) && keeps_order(node->arguments[1], k, wraps);
    case DT_SCALAR_ADD: return !wraps && keeps_order(node->arguments[0], k, wraps) && keeps_order(node->arguments[1], k, wraps);
    case DT_SCALAR_SUBTRACT: return !wraps && keeps_order(node->arguments[0], k, wraps) && is_free_of(node->arguments[1], k);
    default: return false;
    }
}

/* Whether dimension d is read where the result stands, not in windows. */
static bool is_in_place(const dt_loops *loops, const dt_value *maximum, int d) {
    const dt_index *index = &loops->operands[0].dims[d];
    for (int l = 0; l < loops->n_loops; l++)
        if (index->coefficients[l] != (l == d)) return false;
    return index->offset == 0 && index->divisor == 1 && maximum->operands[0]->shape.dims[d] == maximum->shape.dims[d];
}

/* Whether `value` is the same all over each window. */
static bool is_uniform(const dt_loops *loops, const dt_value *maximum, const dt_value *value) {
    if (dt_value_is(value, "constant")) return true;
    if (!dt_value_is(value, "broadcast")) return false;
    int n;
    const int64_t *dims = dt_value_ints(value, "dims", &n);
    for (int i = 0; i < n; i++)
        if (value->operands[0]->shape.dims[i] != 1 && !is_in_place(loops, maximum, (int)dims[i])) return false;
    return true;
}

static dt_status *in_shape(dt_builder *builder, const dt_value *value, dt_shape shape, dt_value **result) {
    int n;
    if (dt_value_is(value, "constant")) return dt_build_constant_like(builder, result, value, shape);
    return dt_build_broadcast(builder, result, value->operands[0], shape, dt_value_ints(value, "dims", &n));
}

/* The operand of `below` that a maximum over `below` may be taken of instead; -1: none. */
static int operand_to_take(const sink *s, const dt_value *maximum) {
    const dt_value *below = maximum->operands[0];
    if (below->op->class != DT_CLASS_MAP || below->dtype != maximum->dtype || s->n_uses[below->id] != 1) return -1;
    if (s->is_differentiated && !(below->op->algebra & DT_OP_STEADY)) return -1;
    const dt_loops *loops = dt_value_loops(s->arena, maximum);
    if (loops == NULL || loops->combiner != DT_COMBINE_MAX || loops->body->kind != DT_FORMULA_OPERAND || loops->operands[0].guarded) return -1;
    if (maximum->shape.rank != below->shape.rank) return -1;
    int taken = -1;
    for (int k = 0; k < below->n_operands; k++) {
        if (is_uniform(loops, maximum, below->operands[k])) continue;
        if (taken >= 0 || below->operands[k]->dtype != below->dtype) return -1;
        taken = k;
    }
    bool wraps = !dt_dtype_is_float(below->dtype);
    return taken >= 0 && keeps_order(dt_value_loops(s->arena, below)->body, taken, wraps) ? taken : -1;
}

/* Moves all that can follow `maximum` after it. */
static dt_status *sink_below(sink *s, dt_value *maximum) {
    for (int k; maximum->n_operands == 1 && (k = operand_to_take(s, maximum)) >= 0;) {
        const dt_value *below = maximum->operands[0];
        dt_builder of_maximum = {.function = s->function, .before = maximum, .locations = maximum->locations, .n_locations = maximum->n_locations};
        dt_builder of_below = {.function = s->function, .before = maximum, .locations = below->locations, .n_locations = below->n_locations};
        dt_value **operands = DT_NEW_ARRAY(s->arena, dt_value *, below->n_operands), *result;
        DT_TRY(dt_build(&of_maximum, maximum->op, &below->operands[k], 1, maximum->attributes, &operands[k]));
        for (int i = 0; i < below->n_operands; i++)
            if (i != k) DT_TRY(in_shape(&of_below, below->operands[i], maximum->shape, &operands[i]));
        DT_TRY(dt_build(&of_below, below->op, operands, below->n_operands, below->attributes, &result));
        dt_value_replace(maximum, result);
        maximum = operands[k];
    }
    return NULL;
}

static dt_status *sink_in(dt_arena *arena, dt_function *function) {
    sink s = {.arena = arena, .function = function, .n_uses = DT_NEW_ARRAY(arena, int, function->next_id)};
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        for (int k = 0; k < value->n_operands; k++) s.n_uses[value->operands[k]->id]++;
        s.is_differentiated |= value->op->class == DT_CLASS_CONTROL;
    }
    for (size_t r = 0; r < function->results.n; r++) s.n_uses[function->results.items[r].value->id]++;
    for (dt_value *value = function->first, *next; value != NULL; value = next) {
        next = value->next;
        DT_TRY(sink_below(&s, value));
    }
    dt_function_sweep(function);
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_pass_sink(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) DT_TRY(sink_in(compilation->arena, compilation->module->functions.items[f]));
    return NULL;
}
