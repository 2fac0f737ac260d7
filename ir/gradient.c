/* gradient: see gradient.h. A row says its gradient in one line of text, or names a function. */
#include "ir/gradient.h"

#include <ctype.h>
#include <string.h>

/* The expression of operand `name` in "x: …; y: …", copied; NULL when there is none. */
static const char *gradient_text(dt_arena *arena, const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text, *end; *at != '\0'; at = *end == ';' ? end + 1 : end) {
        while (isspace((unsigned char)*at)) at++;
        end = at + strcspn(at, ";");
        if (strncmp(at, name, length) == 0 && at[length] == ':') return dt_arena_substring(arena, at + length + 1, (size_t)(end - at) - length - 1);
    }
    return NULL;
}

static dt_status *from_text(dt_builder *builder, dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    const dt_op *op = value->op;
    dt_arena *arena = builder->function->module->arena;
    int n = op->n_operands + 2;
    const char **names = DT_NEW_ARRAY(arena, const char *, n);
    dt_value **values = DT_NEW_ARRAY(arena, dt_value *, n);
    for (int k = 0; k < op->n_operands; k++) {
        names[k] = op->operands[k].name;
        values[k] = value->operands[k];
    }
    names[n - 2] = "result";
    values[n - 2] = value;
    names[n - 1] = "g";
    values[n - 1] = g;
    for (int k = 0; k < op->n_operands; k++) {
        const char *text = wanted[k] ? gradient_text(arena, op->gradient, op->operands[k].name) : NULL;
        if (text != NULL) DT_TRY(dt_build_expression(builder, &gradients[k], text, names, values, n));
    }
    return NULL;
}

dt_status *dt_op_gradient(dt_builder *builder, dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    const dt_op *op = value->op;
    bool *differentiable = DT_NEW_ARRAY(builder->function->module->arena, bool, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) {
        gradients[k] = NULL;
        differentiable[k] = wanted[k] && dt_dtype_is_float(value->operands[k]->dtype);
    }
    if (!dt_dtype_is_float(value->dtype)) return NULL;
    if (op->gradient_function != NULL) return op->gradient_function(builder, value, g, differentiable, gradients);
    return op->gradient[0] != '\0' ? from_text(builder, value, g, differentiable, gradients) : NULL;
}
