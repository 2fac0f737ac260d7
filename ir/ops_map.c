/* ops_map: elementwise ops. A row is all there is to one; here is what the rows share. */
#include "ir/ops.h"

dt_status *dt_infer_map(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes, dt_shape *shape,
                        dt_dtype *dtype) {
    for (int i = 1; i < n_operands; i++)
        if (!dt_shape_equal(operands[0]->shape, operands[i]->shape))
            return dt_error(DT_INVALID_ARGUMENT, "%s expects %s and %s of one shape, got %s and %s", op->name, op->operands[0].name,
                            op->operands[i].name, dt_type_text(arena, operands[0]), dt_type_text(arena, operands[i]));
    *shape = operands[0]->shape;
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return NULL;
}

dt_loops *dt_loops_map(dt_arena *arena, const dt_value *value) {
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, NULL);
    for (int k = 0; k < value->n_operands; k++)
        for (int d = 0; d < value->shape.rank; d++) loops->operands[k].dims[d].coefficients[d] = 1;
    return loops;
}
