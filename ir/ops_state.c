/* ops_state: ops that passes insert or resolve: collectives, writes of variables, gradient. */
#include "ir/ops.h"

#include <string.h>

static dt_status *check_kind(const dt_op *op, const dt_attribute *attributes) {
    const char *kind = dt_op_attribute(op, attributes, "kind")->s;
    if (strcmp(kind, "sum") == 0 || strcmp(kind, "max") == 0 || strcmp(kind, "min") == 0) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: kind must be \"sum\", \"max\" or \"min\", it is \"%s\"", op->name, kind);
}

/* The operand's type with `from` replaced by `to` at the axis. */
static dt_status *infer_along(dt_arena *arena, const dt_op *op, const dt_value *x, const dt_attribute *attributes, int64_t from, int64_t to,
                              dt_shape *shape, dt_dtype *dtype) {
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i;
    DT_TRY(dt_check_axis(op, "axis", axis, x->shape.rank));
    if (x->shape.dims[axis] != from)
        return dt_error(DT_INVALID_ARGUMENT, "%s: dimension %d of x: %s does not hold %s", op->name, (int)axis, dt_type_text(arena, x),
                        from == DT_BATCH ? "a replica's rows" : "the rows of all replicas");
    int64_t *dims = dt_arena_copy(arena, x->shape.dims, (size_t)x->shape.rank * sizeof *dims);
    dims[axis] = to;
    *shape = (dt_shape){x->shape.rank, dims};
    *dtype = x->dtype;
    return NULL;
}

dt_status *dt_infer_all_reduce(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                               dt_shape *shape, dt_dtype *dtype) {
    (void)arena, (void)n_operands;
    *shape = operands[0]->shape;
    *dtype = operands[0]->dtype;
    return check_kind(op, attributes);
}

dt_status *dt_infer_all_gather(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                               dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    return infer_along(arena, op, operands[0], attributes, DT_BATCH, DT_GATHERED, shape, dtype);
}

dt_status *dt_infer_reduce_scatter(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                   dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    DT_TRY(check_kind(op, attributes));
    return infer_along(arena, op, operands[0], attributes, DT_GATHERED, DT_BATCH, shape, dtype);
}

dt_status *dt_infer_write(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                          dt_shape *shape, dt_dtype *dtype) {
    (void)arena, (void)op, (void)n_operands, (void)attributes;
    *shape = dt_shape_scalar();
    *dtype = operands[0]->dtype;
    return NULL;
}

dt_status *dt_infer_gradient(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                             dt_shape *shape, dt_dtype *dtype) {
    (void)op, (void)n_operands, (void)attributes;
    if (operands[0]->shape.rank != 0)
        return dt_error(DT_INVALID_ARGUMENT, "gradient: y must be a scalar, it is %s", dt_type_text(arena, operands[0]));
    if (!dt_dtype_is_float(operands[1]->dtype))
        return dt_error(DT_INVALID_ARGUMENT, "gradient: x must be of floats, it is %s", dt_type_text(arena, operands[1]));
    *shape = operands[1]->shape;
    *dtype = operands[1]->dtype;
    return NULL;
}
