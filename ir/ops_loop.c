/* ops_loop: types of loops and of what enters and leaves their bodies. Where they may stand is ir/body.c's. */
#include "ir/ops.h"

#include <inttypes.h>

dt_status *dt_infer_loop(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes, dt_shape *shape,
                         dt_dtype *dtype) {
    (void)arena, (void)operands, (void)n_operands;
    int64_t trips = dt_op_attribute(op, attributes, "trips")->i;
    *shape = dt_shape_scalar();
    *dtype = DT_I64;
    return trips > 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s: trips must be at least 1, got %" PRId64, op->name, trips);
}

dt_status *dt_infer_end_loop(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                             dt_shape *shape, dt_dtype *dtype) {
    (void)arena, (void)op, (void)operands, (void)n_operands, (void)attributes;
    *shape = dt_shape_scalar();
    *dtype = DT_BOOL; /* of no use to anybody */
    return NULL;
}

dt_status *dt_infer_carried(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                            dt_shape *shape, dt_dtype *dtype) {
    (void)arena, (void)op, (void)n_operands, (void)attributes;
    *shape = operands[0]->shape;
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_status *dt_infer_advance(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                            dt_shape *shape, dt_dtype *dtype) {
    if (operands[0]->dtype != operands[1]->dtype || !dt_shape_equal(operands[0]->shape, operands[1]->shape))
        return dt_error(DT_INVALID_ARGUMENT, "%s: the carry is %s, x is %s", op->name, dt_type_text(arena, operands[0]),
                        dt_type_text(arena, operands[1]));
    (void)n_operands, (void)attributes;
    *shape = dt_shape_scalar();
    *dtype = DT_BOOL;
    return NULL;
}

dt_status *dt_infer_scanned(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                            dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i;
    DT_TRY(dt_check_axis(op, "axis", axis, x.rank));
    if (dt_dim_is_symbol(x.dims[axis]))
        return dt_error(DT_INVALID_ARGUMENT, "%s: axis %" PRId64 " of x: %s is the batch, whose length is not known", op->name, axis,
                        dt_type_text(arena, operands[0]));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, x.rank);
    for (int d = 0; d < x.rank - 1; d++) dims[d] = x.dims[d < axis ? d : d + 1];
    *shape = (dt_shape){x.rank - 1, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_status *dt_infer_stack(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                          dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape x = operands[0]->shape;
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i, size = dt_op_attribute(op, attributes, "size")->i;
    DT_TRY(dt_check_axis(op, "axis", axis, x.rank + 1));
    if (size < 1) return dt_error(DT_INVALID_ARGUMENT, "%s: size must be at least 1, got %" PRId64, op->name, size);
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, x.rank + 1);
    for (int d = 0; d <= x.rank; d++) dims[d] = d == axis ? size : x.dims[d < axis ? d : d - 1];
    *shape = (dt_shape){x.rank + 1, dims};
    *dtype = operands[0]->dtype;
    return NULL;
}
