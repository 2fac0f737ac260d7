/* ops_source: values from nothing. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

static dt_status *infer_shape(dt_arena *arena, const dt_op *op, const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype) {
    DT_TRY(dt_check_shape(op, attributes, "shape"));
    const dt_attribute *dims = dt_op_attribute(op, attributes, "shape");
    *shape = dt_shape_make(arena, (int)dims->i, dims->ints);
    *dtype = dt_op_result_dtype(op, NULL, attributes);
    return NULL;
}

dt_status *dt_infer_constant(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                             dt_shape *shape, dt_dtype *dtype) {
    (void)operands, (void)n_operands;
    return infer_shape(arena, op, attributes, shape, dtype);
}

dt_loops *dt_loops_constant(dt_arena *arena, const dt_value *value) {
    return dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, NULL);
}

dt_status *dt_infer_iota(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes, dt_shape *shape,
                         dt_dtype *dtype) {
    (void)operands, (void)n_operands;
    DT_TRY(infer_shape(arena, op, attributes, shape, dtype));
    int64_t axis = dt_op_attribute(op, attributes, "axis")->i;
    if (axis < 0 || axis >= shape->rank)
        return dt_error(DT_INVALID_ARGUMENT, "iota: axis %" PRId64 " is not a dimension of a shape of rank %d", axis, shape->rank);
    return NULL;
}

dt_loops *dt_loops_iota(dt_arena *arena, const dt_value *value) {
    int axis = (int)dt_value_int(value, "axis");
    const char *first = value->shape.dims[axis] == DT_BATCH ? " + launch(row_offset)" : "";
    const char *body = dt_arena_format(arena, "%s(loop(%d)%s)", dt_dtype_name(value->dtype), axis, first);
    return dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, body);
}

dt_status *dt_infer_launch(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                           dt_shape *shape, dt_dtype *dtype) {
    (void)arena, (void)n_operands;
    const char *name = dt_op_attribute(op, attributes, "name")->s;
    if (dt_launch_field_find(name) < 0) return dt_error(DT_INVALID_ARGUMENT, "launch: there is no launch value \"%s\"", name);
    if (strcmp(name, "rows") == 0 || strcmp(name, "row_offset") == 0)
        return dt_error(DT_INVALID_ARGUMENT, "launch: \"%s\" differs from replica to replica; \"valid\" are the rows of the whole batch", name);
    *shape = dt_shape_scalar();
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return NULL;
}

dt_loops *dt_loops_launch(dt_arena *arena, const dt_value *value) { return dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, NULL); }
