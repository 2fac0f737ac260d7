/* ops_move: the same elements elsewhere. All are one read at an affine index; reshape is none, it only renumbers them. B is never cut, reversed or
 * mixed with another dimension: its extent is not known. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

static int64_t *copy_dims(dt_arena *arena, dt_shape shape) { return dt_arena_copy(arena, shape.dims, (size_t)shape.rank * sizeof(int64_t)); }

static dt_loops *one_read(dt_arena *arena, const dt_value *value) { return dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, "x"); }

/* ---- reshape ---- */

/* Elements of constant dimensions before each symbol and after the last: equal for both shapes when B stays what it is. */
static bool same_elements(dt_shape a, dt_shape b) {
    int i = 0, j = 0;
    for (;;) {
        int64_t n_a = 1, n_b = 1;
        while (i < a.rank && !dt_dim_is_symbol(a.dims[i])) n_a *= a.dims[i++];
        while (j < b.rank && !dt_dim_is_symbol(b.dims[j])) n_b *= b.dims[j++];
        if (n_a != n_b || (i < a.rank) != (j < b.rank)) return false;
        if (i == a.rank) return true;
        if (a.dims[i++] != b.dims[j++]) return false;
    }
}

dt_status *dt_infer_reshape(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                            dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    DT_TRY(dt_check_shape(op, attributes, "shape"));
    const dt_attribute *dims = dt_op_attribute(op, attributes, "shape");
    *shape = dt_shape_make(arena, (int)dims->i, dims->ints);
    *dtype = operands[0]->dtype;
    if (same_elements(operands[0]->shape, *shape)) return NULL;
    dt_value wanted = {.dtype = *dtype, .shape = *shape};
    return dt_error(DT_INVALID_ARGUMENT,
                    "reshape: x: %s cannot become %s: the number of elements differs, or B would be mixed with another dimension",
                    dt_type_text(arena, operands[0]), dt_type_text(arena, &wanted));
}

static dt_status *build_reshape(dt_builder *builder, dt_value *x, dt_shape shape, dt_value **result) {
    dt_setting setting = dt_set_ints(builder, "shape", shape.rank, shape.dims);
    return dt_build_like(builder, result, "reshape", &x, 1, NULL, &setting, 1);
}

dt_status *dt_gradient_reshape(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? build_reshape(builder, g, value->operands[0]->shape, &gradients[0]) : NULL;
}

/* A part of the result is a part of x where one of its dimensions, 1's aside, is one of x's, with the same before and after it. */
void dt_narrow_reshape(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    dt_shape x = value->operands[0]->shape, result = value->shape;
    int64_t n_x = 1, n_result = 1; /* elements of the dimensions passed that found no partner */
    for (int i = 0, j = 0; i < x.rank && j < result.rank;) {
        bool together = n_x == n_result;
        if (together && x.dims[i] == result.dims[j])
            operands[0][i++] = part[j++];
        else if (together && result.dims[j] == 1)
            j++;
        else if (n_x <= n_result)
            n_x *= x.dims[i++];
        else
            n_result *= result.dims[j++];
    }
    dt_narrow_shape(arena, value, part, operands, attributes);
}

/* ---- transpose ---- */

dt_status *dt_infer_transpose(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                              dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    DT_TRY(dt_check_ints(op, attributes, "permutation", x.rank, 0));
    const int64_t *permutation = dt_op_attribute(op, attributes, "permutation")->ints;
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, x.rank);
    for (int d = 0; d < x.rank; d++) {
        DT_TRY(dt_check_axis(op, "permutation", permutation[d], x.rank));
        for (int e = 0; e < d; e++)
            if (permutation[e] == permutation[d])
                return dt_error(DT_INVALID_ARGUMENT, "transpose: permutation names dimension %" PRId64 " twice", permutation[d]);
        dims[d] = x.dims[permutation[d]];
    }
    *shape = (dt_shape){x.rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_loops *dt_loops_transpose(dt_arena *arena, const dt_value *value) {
    int n;
    const int64_t *permutation = dt_value_ints(value, "permutation", &n);
    dt_loops *loops = one_read(arena, value);
    for (int d = 0; d < n; d++) loops->operands[0].dims[permutation[d]].coefficients[d] = 1;
    return loops;
}

dt_status *dt_gradient_transpose(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    int n;
    const int64_t *permutation = dt_value_ints(value, "permutation", &n);
    int64_t *inverse = DT_NEW_ARRAY(builder->function->module->arena, int64_t, n);
    for (int d = 0; d < n; d++) inverse[permutation[d]] = d;
    dt_setting setting = dt_set_ints(builder, "permutation", n, inverse);
    return dt_build_like(builder, &gradients[0], "transpose", &g, 1, NULL, &setting, 1);
}

/* ---- broadcast ---- */

dt_status *dt_infer_broadcast(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                              dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    const dt_attribute *target = dt_op_attribute(op, attributes, "shape"), *dims = dt_op_attribute(op, attributes, "dims");
    DT_TRY(dt_check_shape(op, attributes, "shape"));
    DT_TRY(dt_check_ints(op, attributes, "dims", x.rank, 0));
    DT_TRY(dt_check_axes(op, "dims", dims, (int)target->i));
    *shape = dt_shape_make(arena, (int)target->i, target->ints);
    *dtype = operands[0]->dtype;
    for (int d = 0; d < x.rank; d++) {
        int64_t wanted = shape->dims[dims->ints[d]];
        if (x.dims[d] == wanted || x.dims[d] == 1) continue;
        dt_value result = {.dtype = *dtype, .shape = *shape};
        return dt_error(DT_INVALID_ARGUMENT, "broadcast: dimension %d of x: %s cannot become dimension %" PRId64 " of %s", d,
                        dt_type_text(arena, operands[0]), dims->ints[d], dt_type_text(arena, &result));
    }
    return NULL;
}

dt_loops *dt_loops_broadcast(dt_arena *arena, const dt_value *value) {
    int n;
    const int64_t *dims = dt_value_ints(value, "dims", &n);
    dt_loops *loops = one_read(arena, value);
    for (int d = 0; d < n; d++)
        if (value->operands[0]->shape.dims[d] == value->shape.dims[dims[d]]) loops->operands[0].dims[d].coefficients[dims[d]] = 1;
    return loops;
}

/* The sum over what was repeated. */
dt_status *dt_gradient_broadcast(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    dt_shape x = value->operands[0]->shape, result = value->shape;
    int n, n_axes = 0;
    const int64_t *dims = dt_value_ints(value, "dims", &n);
    int64_t *axes = DT_NEW_ARRAY(builder->function->module->arena, int64_t, result.rank);
    for (int d = 0, own = 0; d < result.rank; d++) {
        bool kept = own < n && dims[own] == d;
        if (!kept || x.dims[own] != result.dims[d]) axes[n_axes++] = d;
        own += kept;
    }
    gradients[0] = g;
    if (n_axes > 0) DT_TRY(dt_build_reduce(builder, &gradients[0], "reduce_sum", g, axes, n_axes, false));
    return dt_shape_equal(gradients[0]->shape, x) ? NULL : build_reshape(builder, gradients[0], x, &gradients[0]);
}

/* ---- slice and pad, each the other's gradient ---- */

/* steps[d], 1 where the list is empty. */
static int64_t step_of(const dt_attribute *steps, int d) { return steps->i > 0 ? steps->ints[d] : 1; }

static dt_status *check_steps(const dt_op *op, const dt_attribute *attributes, int rank) {
    return dt_op_attribute(op, attributes, "steps")->i > 0 ? dt_check_ints(op, attributes, "steps", rank, 1) : NULL;
}

/* From the first of n elements to the last, steps apart. */
static int64_t span(int64_t n, int64_t step) { return n > 0 ? (n - 1) * step + 1 : 0; }

dt_status *dt_infer_slice(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                          dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    DT_TRY(dt_check_ints(op, attributes, "starts", x.rank, 0));
    DT_TRY(dt_check_ints(op, attributes, "limits", x.rank, DT_GATHERED));
    DT_TRY(check_steps(op, attributes, x.rank));
    const int64_t *starts = dt_op_attribute(op, attributes, "starts")->ints, *limits = dt_op_attribute(op, attributes, "limits")->ints;
    const dt_attribute *steps = dt_op_attribute(op, attributes, "steps");
    int64_t *dims = copy_dims(arena, x);
    for (int d = 0; d < x.rank; d++) {
        int64_t step = step_of(steps, d);
        if (dt_dim_is_symbol(x.dims[d])) {
            if (starts[d] == 0 && limits[d] == x.dims[d] && step == 1) continue;
            return dt_error(DT_INVALID_ARGUMENT, "slice: dimension %d of x: %s is B and can only be taken whole", d,
                            dt_type_text(arena, operands[0]));
        }
        if (limits[d] < starts[d] || limits[d] > x.dims[d])
            return dt_error(DT_INVALID_ARGUMENT, "slice: %" PRId64 ":%" PRId64 " is not within dimension %d of x: %s", starts[d], limits[d], d,
                            dt_type_text(arena, operands[0]));
        dims[d] = (limits[d] - starts[d] + step - 1) / step;
    }
    *shape = (dt_shape){x.rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_loops *dt_loops_slice(dt_arena *arena, const dt_value *value) {
    int n;
    const int64_t *starts = dt_value_ints(value, "starts", &n);
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    dt_loops *loops = one_read(arena, value);
    for (int d = 0; d < n; d++) {
        loops->operands[0].dims[d].coefficients[d] = step_of(steps, d);
        loops->operands[0].dims[d].offset = starts[d];
    }
    return dt_loops_guard(loops, value);
}

dt_status *dt_gradient_slice(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    int rank;
    const int64_t *starts = dt_value_ints(value, "starts", &rank), *x = value->operands[0]->shape.dims;
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    int64_t *high = DT_NEW_ARRAY(builder->function->module->arena, int64_t, rank);
    for (int d = 0; d < rank; d++)
        if (!dt_dim_is_symbol(x[d])) high[d] = x[d] - starts[d] - span(value->shape.dims[d], step_of(steps, d));
    return dt_build_like(builder, &gradients[0], "pad", &g, 1, value,
                         (dt_setting[]){dt_set_ints(builder, "low", rank, starts), dt_set_ints(builder, "high", rank, high)}, 2);
}

dt_status *dt_infer_pad(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes, dt_shape *shape,
                        dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    DT_TRY(dt_check_ints(op, attributes, "low", x.rank, 0));
    DT_TRY(dt_check_ints(op, attributes, "high", x.rank, 0));
    DT_TRY(check_steps(op, attributes, x.rank));
    const int64_t *low = dt_op_attribute(op, attributes, "low")->ints, *high = dt_op_attribute(op, attributes, "high")->ints;
    const dt_attribute *steps = dt_op_attribute(op, attributes, "steps");
    int64_t *dims = copy_dims(arena, x);
    for (int d = 0; d < x.rank; d++) {
        if (dt_dim_is_symbol(x.dims[d])) {
            if (low[d] == 0 && high[d] == 0 && step_of(steps, d) == 1) continue;
            return dt_error(DT_INVALID_ARGUMENT, "pad: dimension %d of x: %s is B and cannot be padded", d, dt_type_text(arena, operands[0]));
        }
        dims[d] = low[d] + span(x.dims[d], step_of(steps, d)) + high[d];
    }
    *shape = (dt_shape){x.rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_loops *dt_loops_pad(dt_arena *arena, const dt_value *value) {
    int n;
    const int64_t *low = dt_value_ints(value, "low", &n);
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    dt_loops *loops = one_read(arena, value);
    for (int d = 0; d < n; d++) {
        loops->operands[0].dims[d].coefficients[d] = 1;
        loops->operands[0].dims[d].offset = -low[d];
        loops->operands[0].dims[d].divisor = step_of(steps, d);
    }
    loops->operands[0].outside = dt_value_scalar(value, "value");
    return dt_loops_guard(loops, value);
}

dt_status *dt_gradient_pad(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    dt_arena *arena = builder->function->module->arena;
    dt_shape x = value->operands[0]->shape;
    int rank;
    const int64_t *low = dt_value_ints(value, "low", &rank);
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    int64_t *limits = copy_dims(arena, x);
    for (int d = 0; d < rank; d++)
        if (!dt_dim_is_symbol(x.dims[d])) limits[d] = low[d] + span(x.dims[d], step_of(steps, d));
    return dt_build_like(builder, &gradients[0], "slice", &g, 1, value,
                         (dt_setting[]){dt_set_ints(builder, "starts", rank, low), dt_set_ints(builder, "limits", rank, limits)}, 2);
}

void dt_narrow_slice(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    int rank;
    const int64_t *old = dt_value_ints(value, "starts", &rank);
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    int64_t *starts = DT_NEW_ARRAY(arena, int64_t, rank), *limits = DT_NEW_ARRAY(arena, int64_t, rank);
    for (int d = 0; d < rank; d++) {
        bool whole = dt_dim_is_symbol(value->shape.dims[d]);
        if (!whole) starts[d] = old[d] + part[d].low * step_of(steps, d) - operands[0][d].low;
        limits[d] = whole ? value->shape.dims[d] : starts[d] + span(dt_range_extent(part[d]), step_of(steps, d));
    }
    dt_narrowed(value, attributes, "starts")->ints = starts;
    dt_narrowed(value, attributes, "limits")->ints = limits;
}

void dt_narrow_pad(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    int rank;
    const int64_t *old = dt_value_ints(value, "low", &rank);
    const dt_attribute *steps = dt_op_attribute(value->op, value->attributes, "steps");
    int64_t *low = DT_NEW_ARRAY(arena, int64_t, rank), *high = DT_NEW_ARRAY(arena, int64_t, rank);
    for (int d = 0; d < rank; d++) {
        if (dt_dim_is_symbol(value->shape.dims[d])) continue;
        low[d] = old[d] - part[d].low + operands[0][d].low * step_of(steps, d);
        high[d] = dt_range_extent(part[d]) - low[d] - span(dt_range_extent(operands[0][d]), step_of(steps, d));
    }
    dt_narrowed(value, attributes, "low")->ints = low;
    dt_narrowed(value, attributes, "high")->ints = high;
}

/* ---- concatenate ---- */

dt_status *dt_infer_concatenate(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                dt_shape *shape, dt_dtype *dtype) {
    dt_shape first = operands[0]->shape;
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i;
    DT_TRY(dt_check_axis(op, "axis", axis, first.rank));
    int64_t *dims = copy_dims(arena, first);
    dims[axis] = 0;
    for (int k = 0; k < n_operands; k++) {
        dt_shape x = operands[k]->shape;
        bool fits = x.rank == first.rank;
        for (int d = 0; fits && d < x.rank; d++) fits = d == axis || x.dims[d] == first.dims[d];
        if (fits && dt_dim_is_symbol(x.dims[axis]))
            return dt_error(DT_INVALID_ARGUMENT,
                            "concatenate along axis %" PRId64 ": that is the batch of operand %d, %s, to which no rows can be added", axis, k,
                            dt_type_text(arena, operands[k]));
        if (!fits)
            return dt_error(DT_INVALID_ARGUMENT, "concatenate along axis %" PRId64 ": operand %d, %s, does not fit to the first, %s", axis, k,
                            dt_type_text(arena, operands[k]), dt_type_text(arena, operands[0]));
        dims[axis] += x.dims[axis];
    }
    *shape = (dt_shape){first.rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

/* Each operand stands at its place; the one that is inside is taken. */
dt_loops *dt_loops_concatenate(dt_arena *arena, const dt_value *value) {
    int axis = (int)dt_value_int(value, "axis"), last = value->n_operands - 1;
    const char *body = dt_arena_format(arena, "x%d", last);
    for (int k = last - 1; k >= 0; k--) body = dt_arena_format(arena, "where(inside(x%d), x%d, %s)", k, k, body);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, body);
    int64_t start = 0;
    for (int k = 0; k <= last; k++) {
        for (int d = 0; d < value->shape.rank; d++) loops->operands[k].dims[d].coefficients[d] = 1;
        loops->operands[k].dims[axis].offset = -start;
        start += value->operands[k]->shape.dims[axis];
    }
    return dt_loops_guard(loops, value);
}

dt_status *dt_gradient_concatenate(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_arena *arena = builder->function->module->arena;
    int axis = (int)dt_value_int(value, "axis"), rank = value->shape.rank;
    int64_t *starts = DT_NEW_ARRAY(arena, int64_t, rank), *limits = copy_dims(arena, value->shape);
    for (int k = 0; k < value->n_operands; k++) {
        limits[axis] = starts[axis] + value->operands[k]->shape.dims[axis];
        if (wanted[k])
            DT_TRY(dt_build_like(builder, &gradients[k], "slice", &g, 1, NULL,
                                 (dt_setting[]){dt_set_ints(builder, "starts", rank, starts), dt_set_ints(builder, "limits", rank, limits)}, 2));
        starts[axis] = limits[axis];
    }
    return NULL;
}

/* ---- reverse ---- */

dt_status *dt_infer_reverse(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                            dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    const dt_attribute *axes = dt_op_attribute(op, attributes, "axes");
    DT_TRY(dt_check_axes(op, "axes", axes, operands[0]->shape.rank));
    for (int64_t i = 0; i < axes->i; i++)
        if (dt_dim_is_symbol(operands[0]->shape.dims[axes->ints[i]]))
            return dt_error(DT_INVALID_ARGUMENT, "reverse: dimension %" PRId64 " of x: %s is B and has no order", axes->ints[i],
                            dt_type_text(arena, operands[0]));
    *shape = operands[0]->shape;
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_loops *dt_loops_reverse(dt_arena *arena, const dt_value *value) {
    int n;
    const int64_t *axes = dt_value_ints(value, "axes", &n);
    dt_loops *loops = one_read(arena, value);
    dt_index *dims = loops->operands[0].dims;
    for (int d = 0; d < value->shape.rank; d++) dims[d].coefficients[d] = 1;
    for (int i = 0; i < n; i++) {
        dims[axes[i]].coefficients[axes[i]] = -1;
        dims[axes[i]].offset = value->shape.dims[axes[i]] - 1;
    }
    return loops;
}

dt_status *dt_gradient_reverse(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? dt_build_like(builder, &gradients[0], "reverse", &g, 1, value, NULL, 0) : NULL;
}
