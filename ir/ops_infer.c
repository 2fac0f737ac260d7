/* ops_infer: the checks that infer functions share. Their sentences reach the user, after the location in the program. */
#include "ir/ops.h"

#include <inttypes.h>

const char *dt_type_text(dt_arena *arena, const dt_value *value) {
    dt_text text = {.arena = arena};
    dt_shape_print(&text, value->dtype, value->shape);
    return text.data;
}

dt_status *dt_check_axis(const dt_op *op, const char *name, int64_t axis, int rank) {
    if (axis >= 0 && axis < rank) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: %s %" PRId64 " is not a dimension of %s, which has %d", op->name, name, axis, op->operands[0].name,
                    rank);
}

dt_status *dt_check_axes(const dt_op *op, const char *name, const dt_attribute *axes, int rank) {
    for (int64_t i = 0; i < axes->i; i++) {
        DT_TRY(dt_check_axis(op, name, axes->ints[i], rank));
        if (i > 0 && axes->ints[i] <= axes->ints[i - 1])
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s must increase, but %" PRId64 " follows %" PRId64, op->name, name, axes->ints[i],
                            axes->ints[i - 1]);
    }
    return NULL;
}

dt_status *dt_check_ints(const dt_op *op, const dt_attribute *attributes, const char *name, int n, int64_t lowest) {
    const dt_attribute *ints = dt_op_attribute(op, attributes, name);
    if (ints->i != n) return dt_error(DT_INVALID_ARGUMENT, "%s: %s needs %d numbers, got %" PRId64, op->name, name, n, ints->i);
    for (int i = 0; i < n; i++)
        if (ints->ints[i] < lowest)
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s must be at least %" PRId64 ", got %" PRId64, op->name, name, lowest, ints->ints[i]);
    return NULL;
}

dt_status *dt_check_shape(const dt_op *op, const dt_attribute *attributes, const char *name) {
    const dt_attribute *shape = dt_op_attribute(op, attributes, name);
    for (int64_t i = 0; i < shape->i; i++)
        if (shape->ints[i] < 0 && shape->ints[i] != DT_BATCH && shape->ints[i] != DT_GATHERED)
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s holds the dimension %" PRId64, op->name, name, shape->ints[i]);
    return NULL;
}

dt_status *dt_check_precision(const dt_op *op, dt_value *const *operands, const dt_attribute *attributes) {
    const char *name = dt_op_attribute(op, attributes, "precision")->s;
    dt_precision precision = dt_precision_from_name(name);
    if (precision == DT_N_PRECISIONS)
        return dt_error(DT_INVALID_ARGUMENT, "%s: precision must be \"f32\", \"tf32\" or \"bf16\", it is \"%s\"", op->name, name);
    if (precision == DT_PRECISION_F32 || operands[0]->dtype == DT_F32) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: precision %s rounds factors of f32, these are %s", op->name, name, dt_dtype_name(operands[0]->dtype));
}
