/* elaborate_mixed: `option precision: mixed_bf16` and `mixed_f16`, as Keras's policies of these names.
 *
 * A layer takes and gives what is f32 in the narrow type, a model gives f32. A value computed of parameters, constants and random numbers alone is
 * weak: it takes the type of what it meets. Where else f32 and the narrow type meet, the result is f32. So the program is the one that it is without
 * the option. */
#include "frontends/dsl/elaborator.h"

#include <assert.h>
#include <string.h>

bool dt_is_mixed(const dt_elaborator *e) {
    return e->between_layers != DT_F32 && e->step != NULL && e->function == e->step->function && e->frame->update == NULL;
}

static bool is_narrow(const dt_elaborator *e, dt_dtype dtype) { return dt_is_mixed(e) && dtype == e->between_layers; }

bool dt_stands_for(const dt_elaborator *e, dt_dtype dtype, const char *word) {
    return word != NULL && strcmp(word, dt_dtype_name(DT_F32)) == 0 && is_narrow(e, dtype);
}

dt_object dt_to_type_of_variable(dt_elaborator *e, dt_object object, dt_dtype dtype) {
    bool meets = object.kind == DT_OBJECT_TENSOR && dtype == DT_F32 && is_narrow(e, object.value->dtype);
    return meets ? dt_emit_convert(e, object.value, dtype) : object;
}

/* ---- weak values ---- */

static bool is_weak(const dt_elaborator *e, const dt_value *value) {
    return value->function == e->step->function && (size_t)value->id < e->step->weak.n && e->step->weak.items[value->id];
}

void dt_mark_weak(dt_elaborator *e, const dt_value *value) {
    if (!dt_is_mixed(e) || value->function != e->step->function) return;
    while (e->step->weak.n <= (size_t)value->id) dt_list_push(e->arena, &e->step->weak, false);
    e->step->weak.items[value->id] = true;
}

/* Of a value that was emitted just now. */
void dt_mark_if_weak(dt_elaborator *e, const dt_value *value) {
    if (!dt_is_mixed(e)) return;
    dt_op_class class = value->op->class;
    bool is_source = class == DT_CLASS_RANDOM || strcmp(value->op->name, "constant") == 0 || strcmp(value->op->name, "iota") == 0;
    bool may_be = is_source || class == DT_CLASS_MAP || class == DT_CLASS_MOVE;
    if (!may_be || (value->n_operands == 0 && !is_source)) return;
    for (int i = 0; i < value->n_operands; i++)
        if (!is_weak(e, value->operands[i])) return;
    dt_mark_weak(e, value);
}

/* ---- where types meet ---- */

bool dt_mix(dt_elaborator *e, const dt_op *op, dt_value **operands, int n) {
    if (!dt_is_mixed(e) || op->class == DT_CLASS_LOOP || op->class == DT_CLASS_STATE || op->class == DT_CLASS_CONTROL) return true;
    const char *word = NULL;
    bool has_narrow = false, has_strong = false, has_wide = false;
    for (int i = 0; i < n; i++) {
        if (operands[i] == NULL) continue;
        bool wide = operands[i]->dtype == DT_F32, narrow = operands[i]->dtype == e->between_layers;
        const char *own = dt_op_operand(op, i)->type;
        if ((!wide && !narrow) || (word != NULL && strcmp(word, own) != 0)) continue;
        word = own;
        has_narrow |= narrow;
        has_wide |= wide;
        has_strong |= wide && !is_weak(e, operands[i]);
    }
    if (!has_narrow || !has_wide) return true;
    assert(word != NULL); /* that of the first of them */
    dt_dtype to = has_strong ? DT_F32 : e->between_layers;
    for (int i = 0; i < n; i++) {
        bool meets = operands[i] != NULL && (operands[i]->dtype == DT_F32 || operands[i]->dtype == e->between_layers);
        if (!meets || strcmp(word, dt_op_operand(op, i)->type) != 0) continue;
        dt_object converted = dt_emit_convert(e, operands[i], to);
        if (dt_is_poison(converted)) return false;
        operands[i] = converted.value;
    }
    return true;
}

/* ---- layers and models ---- */

dt_object dt_across_layers(dt_elaborator *e, dt_object object, bool of_model) {
    if (!dt_is_mixed(e)) return object;
    dt_dtype from = of_model ? e->between_layers : DT_F32, to = of_model ? DT_F32 : e->between_layers;
    if (object.kind == DT_OBJECT_TENSOR) return object.value->dtype == from ? dt_emit_convert(e, object.value, to) : object;
    if (object.kind != DT_OBJECT_TUPLE && object.kind != DT_OBJECT_LIST) return object;
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, object.items->n);
    for (size_t i = 0; i < object.items->n; i++) {
        items[i] = dt_across_layers(e, object.items->items[i], of_model);
        if (dt_is_poison(items[i])) return items[i];
    }
    return dt_object_items(e->arena, object.kind, items, object.items->n);
}

/* ---- scaled losses ---- */

/* core.dt's scaled_update(total, optimizer, over). */
dt_object dt_scaled_update(dt_elaborator *e, dt_object total, dt_object optimizer, dt_object over) {
    dt_object function;
    if (!dt_find_in_file(e, e->core, "scaled_update", &function)) return dt_elaborator_fail(e, "the library has no scaled_update");
    return dt_call_with(e, function, (dt_object[]){total, optimizer, over}, 3);
}
