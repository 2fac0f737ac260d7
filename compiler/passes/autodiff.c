/* autodiff: grad becomes ops.
 *
 * In:  functions with `gradient(y, x)` values, as the front end leaves them.      Out: the same functions without any.
 *
 * Reverse mode, once for each y: all gradients of one loss share one walk backwards. Only values that lie between an x and y are visited, and each is
 * differentiated by its own row (ir/gradient.h). What the rows build is ops of the same table, so a gradient can be differentiated again:
 * the first y in program order is resolved first, and a later one finds plain ops where an earlier gradient stood. */
#include "compiler/passes/autodiff.h"
#include "ir/body.h"
#include "ir/gradient.h"

static bool is_gradient_of(const dt_value *value, const dt_value *y) {
    return dt_value_is(value, "gradient") && (y == NULL || value->operands[0] == y);
}

static dt_value *first_gradient(const dt_function *function) {
    for (dt_value *value = function->first; value; value = value->next)
        if (is_gradient_of(value, NULL)) return value;
    return NULL;
}

/* Marks what depends on an x, from the top of the function down to y. A carry also depends on what it advances to: its loop is gone through again. */
static void mark_dependents(dt_autodiff *walk) {
    bool advanced = false;
    for (dt_value *value = walk->function->first; value; value = value->next) {
        bool *depends = &walk->depends[value->id];
        *depends |= walk->is_x[value->id];
        for (int k = 0; k < value->n_operands && !*depends; k++) *depends = walk->depends[value->operands[k]->id];
        if (value == walk->y) return;
        if (value->op->class != DT_CLASS_LOOP) continue;
        if (dt_value_is(value, "advance") && walk->depends[value->operands[1]->id] && !walk->depends[value->operands[0]->id])
            walk->depends[value->operands[0]->id] = advanced = true;
        if (!dt_value_is_end_loop(value) || !advanced) continue;
        while (walk->bodies[value->id] != NULL || !dt_value_is_loop(value)) value = value->previous; /* the outermost */
        advanced = false;
    }
}

dt_status *dt_adjoint_add(dt_adjoints *adjoints, const dt_value *value, dt_value *part) {
    dt_value **adjoint = &adjoints->of[value->id];
    if (*adjoint == NULL) {
        *adjoint = part;
        return NULL;
    }
    return dt_build_binary(&adjoints->builder, adjoint, "add", *adjoint, part);
}

static dt_status *differentiate(dt_autodiff *walk, dt_adjoints *adjoints, dt_value *value) {
    bool *wanted = DT_NEW_ARRAY(walk->arena, bool, value->n_operands);
    dt_value **parts = DT_NEW_ARRAY(walk->arena, dt_value *, value->n_operands);
    bool any = false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *operand = value->operands[k];
        wanted[k] = walk->depends[operand->id] && dt_dtype_is_float(operand->dtype);
        any = any || wanted[k];
    }
    if (!any) return NULL;
    adjoints->builder.locations = value->locations;
    adjoints->builder.n_locations = value->n_locations;
    adjoints->builder.layer = value->layer;
    DT_TRY(dt_op_gradient(&adjoints->builder, value, adjoints->of[value->id], wanted, parts));
    for (int k = 0; k < value->n_operands; k++)
        if (wanted[k] && parts[k]) DT_TRY(dt_adjoint_add(adjoints, value->operands[k], parts[k]));
    return NULL;
}

dt_status *dt_autodiff_walk(dt_autodiff *walk, dt_adjoints *adjoints, dt_value *last, const dt_value *begin) {
    for (dt_value *value = last; value != begin; value = value->previous) {
        if (dt_value_is_end_loop(value)) { /* on the way back it comes first */
            int id = value->id;
            while (!dt_value_is_loop(value) || dt_loop_end(value)->id != id) value = value->previous;
            DT_TRY(dt_autodiff_loop(walk, adjoints, value));
        } else if (value->op->class != DT_CLASS_LOOP && value->id < walk->n && walk->depends[value->id] && adjoints->of[value->id]) {
            DT_TRY(differentiate(walk, adjoints, value));
        }
    }
    return NULL;
}

/* What is asked for, from `first` on, are the adjoints; of what y does not depend on, 0. */
static dt_status *replace_gradients(dt_function *function, dt_value *first, dt_adjoints *adjoints) {
    const dt_value *y = first->operands[0];
    dt_arena *arena = function->module->arena;
    DT_LIST(dt_value *) gradients = {0};
    for (dt_value *value = first; value; value = value->next) {
        if (!is_gradient_of(value, y)) continue;
        dt_value *x = value->operands[1], **adjoint = &adjoints->of[x->id];
        adjoints->builder.before = value;
        if (*adjoint == NULL) DT_TRY(dt_build_constant(&adjoints->builder, adjoint, x->dtype, 0, x->shape));
        dt_list_push(arena, &gradients, value);
    }
    dt_value **replacements = DT_NEW_ARRAY(arena, dt_value *, function->next_id);
    for (size_t g = 0; g < gradients.n; g++) replacements[gradients.items[g]->id] = adjoints->of[gradients.items[g]->operands[1]->id];
    dt_function_replace(function, replacements);
    for (size_t g = 0; g < gradients.n; g++) dt_value_remove(gradients.items[g]);
    return NULL;
}

/* Resolves all gradients of first->operands[0], placing the backward ops before `first`. */
static dt_status *resolve(dt_function *function, dt_value *first) {
    dt_arena *arena = function->module->arena;
    dt_value *y = first->operands[0];
    int n = function->next_id;
    dt_autodiff walk = {.arena = arena,
                        .function = function,
                        .y = y,
                        .n = n,
                        .depends = DT_NEW_ARRAY(arena, bool, n),
                        .is_x = DT_NEW_ARRAY(arena, bool, n),
                        .bodies = DT_NEW_ARRAY(arena, dt_value *, n)};
    dt_adjoints adjoints = {.builder = {.function = function, .before = first}, .of = DT_NEW_ARRAY(arena, dt_value *, n)};
    dt_function_find_bodies(function, walk.bodies);
    if (walk.bodies[first->id] != NULL)
        return dt_value_error(first, DT_INVALID_ARGUMENT, "a gradient is taken within the body of a loop, which is not supported");
    for (dt_value *value = first; value; value = value->next)
        if (is_gradient_of(value, y)) walk.is_x[value->operands[1]->id] = true;
    mark_dependents(&walk);

    adjoints.builder.locations = y->locations;
    adjoints.builder.n_locations = y->n_locations;
    DT_TRY(dt_build_constant(&adjoints.builder, &adjoints.of[y->id], y->dtype, 1, y->shape));
    DT_TRY(dt_autodiff_walk(&walk, &adjoints, y, NULL));

    return replace_gradients(function, first, &adjoints);
}

dt_status *dt_pass_autodiff(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        int n_forward = function->next_id;
        for (dt_value *first; (first = first_gradient(function)) != NULL;) DT_TRY(resolve(function, first));
        for (dt_value *value = function->first; value != NULL; value = value->next)
            if (value->id >= n_forward) value->call = DT_BACKWARD;
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}
