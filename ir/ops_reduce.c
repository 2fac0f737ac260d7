/* ops_reduce: reductions over axes of one operand.
 *
 * With `keep` the axes stay, of extent 1. B among the axes is the outermost reduced loop, wherever it stands: positions that argmax and argmin
 * count then have constant strides. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

static bool holds(const dt_attribute *axes, int axis) {
    for (int64_t i = 0; i < axes->i; i++)
        if (axes->ints[i] == axis) return true;
    return false;
}

static dt_combiner combiner_of(const dt_op *op) {
    dt_combiner combiner = DT_COMBINE_NONE;
    while (strcmp(dt_combiner_name(combiner), op->formula) != 0) combiner++;
    return combiner;
}

/* Whether results are larger than elements: of small integers, and of bool, they are i64. */
static bool grows(dt_combiner combiner) { return combiner == DT_COMBINE_SUM || combiner == DT_COMBINE_PRODUCT; }

dt_status *dt_infer_reduce(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                           dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    const dt_attribute *axes = dt_op_attribute(op, attributes, "axes");
    bool keep = dt_op_attribute(op, attributes, "keep")->i != 0;
    dt_shape x = operands[0]->shape;
    DT_TRY(dt_check_axes(op, "axes", axes, x.rank));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, x.rank);
    int rank = 0;
    for (int d = 0; d < x.rank; d++) {
        if (!holds(axes, d))
            dims[rank++] = x.dims[d];
        else if (keep)
            dims[rank++] = 1;
    }
    *shape = (dt_shape){rank, dims};
    bool has_identity = strcmp(op->formula, "sum") == 0 || strcmp(op->formula, "product") == 0 || operands[0]->dtype == DT_BOOL;
    for (int64_t i = 0; i < axes->i && !has_identity; i++)
        if (x.dims[axes->ints[i]] == 0)
            return dt_error(DT_INVALID_ARGUMENT, "%s: dimension %d of x: %s has no elements to choose from", op->name, (int)axes->ints[i],
                            dt_type_text(arena, operands[0]));
    *dtype = dt_op_result_dtype(op, operands, attributes);
    if (grows(combiner_of(op)) && !dt_dtype_is_float(*dtype)) *dtype = DT_I64;
    return NULL;
}

/* The axes in the order of the reduced loops: B, then the others ascending. */
static int reduced_axes(dt_arena *arena, const dt_value *value, int **ordered) {
    int n;
    const int64_t *axes = dt_value_ints(value, "axes", &n);
    const int64_t *dims = value->operands[0]->shape.dims;
    *ordered = DT_NEW_ARRAY(arena, int, n);
    int at = 0;
    for (int i = 0; i < n; i++)
        if (dt_dim_is_symbol(dims[axes[i]])) (*ordered)[at++] = (int)axes[i];
    for (int i = 0; i < n; i++)
        if (!dt_dim_is_symbol(dims[axes[i]])) (*ordered)[at++] = (int)axes[i];
    return n;
}

dt_loops *dt_loops_reduce(dt_arena *arena, const dt_value *value) {
    const dt_value *x = value->operands[0];
    int *axes, n_axes = reduced_axes(arena, value, &axes);
    int64_t *extents = DT_NEW_ARRAY(arena, int64_t, n_axes);
    for (int i = 0; i < n_axes; i++) extents[i] = x->shape.dims[axes[i]];
    dt_combiner combiner = combiner_of(value->op);
    const char *body = grows(combiner) && value->dtype != x->dtype ? "i64(x)" : "x";
    dt_loops *loops = dt_loops_new(arena, value, value->shape, n_axes, extents, combiner, body);
    bool keep = dt_value_bool(value, "keep");
    for (int d = 0, outer = 0; d < x->shape.rank; d++) {
        int reduced = 0;
        while (reduced < n_axes && axes[reduced] != d) reduced++;
        if (reduced < n_axes) {
            loops->operands[0].dims[d].coefficients[loops->n_outer + reduced] = 1;
            outer += keep;
        } else {
            loops->operands[0].dims[d].coefficients[outer++] = 1;
        }
    }
    return loops;
}

/* ---- gradients ---- */

/* `part`, of the shape of `value`, repeated over the axes that were reduced. */
static dt_status *spread(dt_builder *builder, const dt_value *value, dt_value *part, dt_value **result) {
    dt_shape x = value->operands[0]->shape;
    const dt_attribute *axes = dt_op_attribute(value->op, value->attributes, "axes");
    bool keep = dt_value_bool(value, "keep");
    int64_t *dims = DT_NEW_ARRAY(builder->function->module->arena, int64_t, x.rank);
    int n = 0;
    for (int d = 0; d < x.rank; d++)
        if (keep || !holds(axes, d)) dims[n++] = d;
    return dt_build_broadcast(builder, result, part, x, dims);
}

dt_status *dt_gradient_reduce_sum(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? spread(builder, value, g, &gradients[0]) : NULL;
}

/* Each element's position among those that it is reduced with, as argmax counts. */
static dt_status *build_positions(dt_builder *builder, const dt_value *value, dt_value **result) {
    const dt_value *x = value->operands[0];
    int *axes, n_axes = reduced_axes(builder->function->module->arena, value, &axes);
    int64_t stride = 1;
    *result = NULL;
    for (int i = n_axes - 1; i >= 0; i--) {
        dt_value *position, *step;
        DT_TRY(dt_build_like(builder, &position, "iota", NULL, 0, NULL,
                             (dt_setting[]){dt_set_ints(builder, "shape", x->shape.rank, x->shape.dims), dt_set_int("axis", axes[i])}, 2));
        if (stride != 1) {
            DT_TRY(dt_build_number(builder, &step, DT_I64, dt_number_of_int(stride), x->shape));
            DT_TRY(dt_build_binary(builder, &position, "multiply", position, step));
        }
        if (*result != NULL) DT_TRY(dt_build_binary(builder, &position, "add", *result, position));
        *result = position;
        if (i > 0) stride *= x->shape.dims[axes[i]]; /* only the outermost is B */
    }
    return *result != NULL ? NULL : dt_build_constant(builder, result, DT_I64, 0, x->shape);
}

static dt_status *first_position(dt_builder *builder, const dt_value *value, const char *search, dt_value *g, dt_value **gradient);

/* Where B is reduced more than once, a position has no stride that is known. The first one over the outermost B and then over the others is the same.
 */
static dt_status *first_of_outermost(dt_builder *builder, const dt_value *value, const char *search, dt_value *g, dt_value **gradient) {
    dt_value *inner, *outer;
    int *axes, n_axes = reduced_axes(builder->function->module->arena, value, &axes);
    int64_t *others = DT_NEW_ARRAY(builder->function->module->arena, int64_t, n_axes), outermost = axes[0];
    for (int i = 1; i < n_axes; i++) others[i - 1] = axes[i];
    DT_TRY(dt_build_reduce(builder, &inner, value->op->name, value->operands[0], others, n_axes - 1, true));
    DT_TRY(dt_build_reduce(builder, &outer, value->op->name, inner, &outermost, 1, true));
    dt_setting shape = dt_set_ints(builder, "shape", outer->shape.rank, outer->shape.dims);
    DT_TRY(dt_build_like(builder, &g, "reshape", &g, 1, NULL, &shape, 1));
    DT_TRY(first_position(builder, outer, search, g, &g));
    return first_position(builder, inner, search, g, gradient);
}

static dt_status *first_position(dt_builder *builder, const dt_value *value, const char *search, dt_value *g, dt_value **gradient) {
    dt_value *first, *position;
    int *axes, n_axes = reduced_axes(builder->function->module->arena, value, &axes);
    if (n_axes > 1 && dt_dim_is_symbol(value->operands[0]->shape.dims[axes[1]])) return first_of_outermost(builder, value, search, g, gradient);
    DT_TRY(dt_build_like(builder, &first, search, value->operands, 1, value, NULL, 0));
    DT_TRY(spread(builder, value, first, &first));
    DT_TRY(build_positions(builder, value, &position));
    DT_TRY(spread(builder, value, g, &g));
    return dt_build_expression(builder, gradient, "where(position == first, g, 0)", (const char *const[]){"position", "first", "g"},
                               (dt_value *[]){position, first, g}, 3);
}

dt_status *dt_gradient_reduce_max(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? first_position(builder, value, "argmax", g, &gradients[0]) : NULL;
}

dt_status *dt_gradient_reduce_min(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? first_position(builder, value, "argmin", g, &gradients[0]) : NULL;
}

/* The sum over the axes, for each element that was reduced, of what the formula makes of x. */
static dt_status *sum_of(dt_builder *builder, const dt_value *value, const char *formula, dt_value **sum) {
    DT_TRY(dt_build_expression(builder, sum, formula, (const char *const[]){"x"}, (dt_value *[]){value->operands[0]}, 1));
    DT_TRY(dt_build_like(builder, sum, "reduce_sum", sum, 1, value, NULL, 0));
    return spread(builder, value, *sum, sum);
}

/* The number of factors of each product; 0: only the launch knows. */
static int64_t count_factors(const dt_value *value) {
    int n_axes;
    int64_t n = 1;
    const int64_t *axes = dt_value_ints(value, "axes", &n_axes);
    for (int i = 0; i < n_axes; i++) n = dt_dim_is_symbol(value->operands[0]->shape.dims[axes[i]]) ? 0 : n * value->operands[0]->shape.dims[axes[i]];
    return n;
}

/* x with one dimension more, the last one, along which lie all n factors of the product that an element is in. */
static dt_status *beside_factors(dt_builder *builder, const dt_value *value, int64_t n, dt_shape wide, dt_value **result) {
    dt_arena *arena = builder->function->module->arena;
    dt_value *x = value->operands[0];
    int *axes, n_axes = reduced_axes(arena, value, &axes), rank = x->shape.rank, n_rest = 0;
    int64_t *permutation = DT_NEW_ARRAY(arena, int64_t, rank), *dims = DT_NEW_ARRAY(arena, int64_t, rank + 1),
            *places = DT_NEW_ARRAY(arena, int64_t, rank + 1);
    for (int d = 0; d < rank; d++) {
        if (holds(dt_op_attribute(value->op, value->attributes, "axes"), d)) continue;
        permutation[n_rest] = places[n_rest] = d;
        dims[n_rest++] = x->shape.dims[d];
    }
    for (int i = 0; i < n_axes; i++) permutation[n_rest + i] = axes[i];
    dims[n_rest] = n;
    places[n_rest] = rank;
    DT_TRY(dt_build_like(builder, result, "transpose", &x, 1, NULL, (dt_setting[]){dt_set_ints(builder, "permutation", rank, permutation)}, 1));
    DT_TRY(dt_build_like(builder, result, "reshape", result, 1, NULL, (dt_setting[]){dt_set_ints(builder, "shape", n_rest + 1, dims)}, 1));
    return dt_build_broadcast(builder, result, *result, wide, places);
}

/* The product of the others, as it is written: each element's factors with 1 in its own place. */
static dt_status *multiply_others(dt_builder *builder, const dt_value *value, int64_t n, dt_value **others) {
    dt_arena *arena = builder->function->module->arena;
    int rank = value->operands[0]->shape.rank;
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank + 1), *places = DT_NEW_ARRAY(arena, int64_t, rank), last = rank;
    dt_shape wide = {rank + 1, dims};
    dt_value *factors, *own, *position;
    for (int d = 0; d < rank; d++) dims[d] = value->operands[0]->shape.dims[places[d] = d];
    dims[rank] = n;
    DT_TRY(beside_factors(builder, value, n, wide, &factors));
    DT_TRY(build_positions(builder, value, &own));
    DT_TRY(dt_build_broadcast(builder, &own, own, wide, places));
    DT_TRY(dt_build_like(builder, &position, "iota", NULL, 0, NULL,
                         (dt_setting[]){dt_set_ints(builder, "shape", rank + 1, wide.dims), dt_set_int("axis", rank)}, 2));
    DT_TRY(dt_build_expression(builder, &factors, "where(own == position, 1, x)", (const char *const[]){"own", "position", "x"},
                               (dt_value *[]){own, position, factors}, 3));
    return dt_build_reduce(builder, others, "reduce_product", factors, &last, 1, false);
}

/* As sum_of, the product. */
static dt_status *product_of(dt_builder *builder, const dt_value *value, const char *formula, dt_value **product) {
    DT_TRY(dt_build_expression(builder, product, formula, (const char *const[]){"x"}, (dt_value *[]){value->operands[0]}, 1));
    DT_TRY(dt_build_like(builder, product, "reduce_product", product, 1, value, NULL, 0));
    return spread(builder, value, *product, product);
}

/* g times the product of the others. Of a few that is multiplied out, so that it is as exact as any product, and its own gradients are.
 *
 * Of many it is the product of the numbers among them, which is that of all numbers over one, times that of the zeros. g comes last: times the
 * product of all it may be infinite where the gradient is not. The zeros are written as what they are, not as the constant 0, for this is
 * differentiated again. Of one zero there is no other; of two the other is their sum less x; of three the others' product is half of what the square
 * of their sum has more than the sum of their squares. More are needed only by the fourth gradient, which is not right there. */
dt_status *dt_gradient_reduce_product(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    enum {
        FEW = 16
    };
    if (!wanted[0]) return NULL;
    dt_value *x = value->operands[0], *numbers, *zeros, *n, *sum, *squares;
    int64_t n_factors = count_factors(value);
    if (n_factors > 0 && n_factors <= FEW) {
        DT_TRY(spread(builder, value, g, &g));
        DT_TRY(multiply_others(builder, value, n_factors, &gradients[0]));
        return dt_build_binary(builder, &gradients[0], "multiply", g, gradients[0]);
    }
    DT_TRY(product_of(builder, value, "where(x == 0, 1, x)", &numbers));
    DT_TRY(product_of(builder, value, "where(x == 0, x, 1)", &zeros));
    DT_TRY(sum_of(builder, value, "where(x == 0, 1, 0)", &n));
    DT_TRY(sum_of(builder, value, "where(x == 0, x, 0)", &sum));
    DT_TRY(sum_of(builder, value, "where(x == 0, x * x, 0)", &squares));
    DT_TRY(spread(builder, value, g, &g));
    const char *names[] = {"x", "n", "g", "numbers", "zeros", "sum", "squares", "others", "finite"};
    dt_value *values[] = {x, n, g, numbers, zeros, sum, squares, NULL, NULL};
    DT_TRY(dt_build_expression(builder, &values[7],
                               "where(n == 1, 1, where(n == 2, sum - x, where(n == 3, 0.5 * ((sum - x) * (sum - x) - (squares - x * x)), 0)))", names,
                               values, 7));
    /* What is multiplied by a zero beside it must not be infinite, as a product of large numbers is: the gradient is 0 there. */
    DT_TRY(dt_build_expression(builder, &values[8], "where(numbers - numbers == 0, numbers, 1)", names, values, 7));
    return dt_build_expression(
        builder, &gradients[0],
        "where(x == 0, g * where(n == 1, numbers, finite) * others, g * (where(n == 0, numbers, finite) / where(x == 0, 1, x) * zeros))", names,
        values, 9);
}
