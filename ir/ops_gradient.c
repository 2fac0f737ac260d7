/* ops_gradient: what the gradient functions of all classes are made of. */
#include "ir/ops.h"

#include <assert.h>
#include <string.h>

dt_setting dt_set_int(const char *name, int64_t i) { return (dt_setting){name, {.i = i}}; }

dt_setting dt_set_ints(dt_builder *builder, const char *name, int n, const int64_t *ints) {
    return (dt_setting){name, {.i = n, .ints = dt_arena_copy(builder->function->module->arena, ints, (size_t)n * sizeof *ints)}};
}

dt_status *dt_build_like(dt_builder *builder, dt_value **result, const char *op_name, dt_value *const *operands, int n_operands, const dt_value *like,
                         const dt_setting *settings, int n_settings) {
    const dt_op *op = dt_op_find(op_name);
    assert(op != NULL);
    dt_attribute *attributes = DT_NEW_ARRAY(builder->function->module->arena, dt_attribute, op->n_attributes);
    for (int i = 0; i < op->n_attributes; i++) {
        const char *name = op->attributes[i].name;
        int set = 0, own = like != NULL ? dt_op_attribute_index(like->op, name) : -1;
        while (set < n_settings && strcmp(settings[set].name, name) != 0) set++;
        assert(set < n_settings || own >= 0 || op->attributes[i].has_default);
        attributes[i] = set < n_settings ? settings[set].value : own >= 0 ? like->attributes[own] : op->attributes[i].standard;
    }
    return dt_build(builder, op, operands, n_operands, attributes, result);
}

dt_status *dt_gradient_convert(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_dtype from = value->operands[0]->dtype;
    bool flows = dt_dtype_is_float(from) && dt_dtype_is_float(value->dtype);
    return wanted[0] && flows ? dt_build_convert(builder, &gradients[0], g, from) : NULL;
}
