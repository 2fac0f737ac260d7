/* ops_index: gather and scatter_add, each the other's gradient.
 *
 *     gather       result[l, p, r]     = x[l, index[l, p], r]
 *     scatter_add  result[l, index[l, p], r] += updates[l, p, r]
 *
 * l runs over the dimensions before the axis, which both operands have, p over the rest of index, r over the dimensions after the axis. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

dt_status *dt_infer_gather(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                           dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape, index = operands[1]->shape;
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i;
    DT_TRY(dt_check_axis(op, "axis", axis, x.rank));
    bool paired = index.rank >= axis;
    for (int64_t d = 0; paired && d < axis; d++) paired = x.dims[d] == index.dims[d];
    if (!paired)
        return dt_error(DT_INVALID_ARGUMENT, "gather along axis %" PRId64 " pairs the dimensions before it, but x: %s and index: %s differ there",
                        axis, dt_type_text(arena, operands[0]), dt_type_text(arena, operands[1]));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, index.rank + x.rank);
    int rank = index.rank;
    memcpy(dims, index.dims, (size_t)index.rank * sizeof *dims);
    for (int d = (int)axis + 1; d < x.rank; d++) dims[rank++] = x.dims[d];
    *shape = (dt_shape){rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

/* The dimensions of `index` lie at the first loops, one each. */
static void read_index(dt_access *index, int rank) {
    for (int d = 0; d < rank; d++) index->dims[d].coefficients[d] = 1;
}

/* x of gather, the result of scatter_add: [l, index, r], where r's loops come after those of the index. */
static void set_indirect(dt_index *dims, int rank, int axis, int rank_index) {
    for (int d = 0; d < axis; d++) dims[d].coefficients[d] = 1;
    dims[axis].indirect = 1;
    for (int d = axis + 1; d < rank; d++) dims[d].coefficients[rank_index + d - axis - 1] = 1;
}

dt_loops *dt_loops_gather(dt_arena *arena, const dt_value *value) {
    const dt_value *x = value->operands[0], *index = value->operands[1];
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, "x");
    read_index(&loops->operands[1], index->shape.rank);
    set_indirect(loops->operands[0].dims, x->shape.rank, (int)dt_value_int(value, "axis"), index->shape.rank);
    return dt_loops_guard(loops, value);
}

dt_status *dt_infer_scatter_add(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape updates = operands[0]->shape, index = operands[1]->shape;
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i, size = dt_op_attribute(op, attributes, "size")->i;
    bool fits = updates.rank >= index.rank && axis >= 0 && axis <= index.rank && (size >= 1 || dt_dim_is_symbol(size));
    for (int d = 0; fits && d < index.rank; d++) fits = updates.dims[d] == index.dims[d];
    if (!fits)
        return dt_error(DT_INVALID_ARGUMENT,
                        "scatter_add along axis %" PRId64 " of size %" PRId64 ": updates: %s must begin with the dimensions of index: %s", axis, size,
                        dt_type_text(arena, operands[0]), dt_type_text(arena, operands[1]));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, updates.rank + 1);
    int rank = 0;
    for (; rank < axis; rank++) dims[rank] = updates.dims[rank];
    dims[rank++] = size;
    for (int d = index.rank; d < updates.rank; d++) dims[rank++] = updates.dims[d];
    *shape = (dt_shape){rank, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_loops *dt_loops_scatter_add(dt_arena *arena, const dt_value *value) {
    const dt_value *updates = value->operands[0], *index = value->operands[1];
    dt_loops *loops = dt_loops_new(arena, value, updates->shape, 0, NULL, DT_COMBINE_SUM, "updates");
    read_index(&loops->operands[0], updates->shape.rank);
    read_index(&loops->operands[1], index->shape.rank);
    loops->result = DT_NEW(arena, dt_access);
    *loops->result = dt_access_new(arena, value->shape.rank, loops->n_loops);
    set_indirect(loops->result->dims, value->shape.rank, (int)dt_value_int(value, "axis"), index->shape.rank);
    return dt_loops_guard(loops, value);
}

/* ---- gradients ---- */

/* g where the index points into the axis, else 0: looked up, so that an index out of range is counted although the lookup itself may not be computed
 * any more. The pass shrink drops this where it is. */
static dt_status *look_up(dt_builder *builder, dt_value *index, int64_t n, dt_value **g) {
    dt_value *is_inside;
    int64_t *dims = DT_NEW_ARRAY(builder->function->module->arena, int64_t, index->shape.rank);
    for (int d = 0; d < index->shape.rank; d++) dims[d] = d;
    DT_TRY(dt_build_constant(builder, &is_inside, DT_BOOL, 1, (dt_shape){1, &n}));
    DT_TRY(dt_build_text(builder, &is_inside, "gather", (dt_value *[]){is_inside, index}, 2, "axis=0"));
    DT_TRY(dt_build_broadcast(builder, &is_inside, is_inside, (*g)->shape, dims));
    return dt_build_expression(builder, g, "where(inside, g, 0)", (const char *const[]){"inside", "g"}, (dt_value *[]){is_inside, *g}, 2);
}

/* With one index for each row the gradient is g where the index points, else 0: elementwise, so that it can be fused, as in a crossentropy. */
static dt_status *gradient_of_one_index(dt_builder *builder, const dt_value *value, dt_value *g, dt_value **gradient) {
    dt_value *x = value->operands[0], *index = value->operands[1], *position;
    int axis = (int)dt_value_int(value, "axis"), n = 0;
    int64_t *dims = DT_NEW_ARRAY(builder->function->module->arena, int64_t, x->shape.rank);
    for (int d = 0; d < x->shape.rank; d++)
        if (d != axis) dims[n++] = d;
    DT_TRY(look_up(builder, index, x->shape.dims[axis], &g));
    dt_dtype dtype = index->dtype == DT_I64 ? DT_I64 : DT_I32;
    DT_TRY(dt_build_convert(builder, &index, index, dtype));
    DT_TRY(dt_build_broadcast(builder, &index, index, x->shape, dims));
    DT_TRY(dt_build_like(
        builder, &position, "iota", NULL, 0, NULL,
        (dt_setting[]){dt_set_ints(builder, "shape", x->shape.rank, x->shape.dims), dt_set_int("axis", axis), dt_set_int("dtype", dtype)}, 3));
    DT_TRY(dt_build_broadcast(builder, &g, g, x->shape, dims));
    return dt_build_expression(builder, gradient, "where(position == index, g, 0)", (const char *const[]){"position", "index", "g"},
                               (dt_value *[]){position, index, g}, 3);
}

dt_status *dt_gradient_gather(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    int64_t axis = dt_value_int(value, "axis");
    if (value->operands[1]->shape.rank == axis) return gradient_of_one_index(builder, value, g, &gradients[0]);
    dt_setting size = dt_set_int("size", value->operands[0]->shape.dims[axis]);
    return dt_build_like(builder, &gradients[0], "scatter_add", (dt_value *[]){g, value->operands[1]}, 2, value, &size, 1);
}

dt_status *dt_gradient_scatter_add(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? dt_build_like(builder, &gradients[0], "gather", (dt_value *[]){g, value->operands[1]}, 2, value, NULL, 0) : NULL;
}
