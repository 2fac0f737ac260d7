/* autodiff: grad becomes ops.
 *
 * In:  functions with `gradient(y, x)` values, as the front end leaves them.      Out: the same functions without any.
 *
 * Reverse mode, once for each y: all gradients of one loss share one walk backwards. Only values that lie between an x and y are visited, and each is
 * differentiated by its own row (ir/gradient.h). What the rows build is ops of the same table, so a gradient can be differentiated again:
 * the first y in program order is resolved first, and a later one finds plain ops where an earlier gradient stood. */
#include "compiler/passes/passes.h"
#include "ir/gradient.h"

/* State of one walk: adjoints by the id that a value had when the walk began. */
typedef struct walk {
    dt_builder builder;
    dt_value *y;
    bool *depends;       /* [n] lies on a path from some x to y */
    dt_value **adjoints; /* [n] d y / d value, or NULL while it is zero */
    bool *is_x;          /* [n] */
} walk;

static bool is_gradient_of(const dt_value *value, const dt_value *y) {
    return dt_value_is(value, "gradient") && (y == NULL || value->operands[0] == y);
}

static dt_value *first_gradient(const dt_function *function) {
    for (dt_value *value = function->first; value; value = value->next)
        if (is_gradient_of(value, NULL)) return value;
    return NULL;
}

/* Marks what depends on an x, from the top of the function down to y. */
static void mark_dependents(walk *walk, const dt_function *function) {
    for (dt_value *value = function->first; value; value = value->next) {
        bool depends = walk->is_x[value->id];
        for (int k = 0; k < value->n_operands && !depends; k++) depends = walk->depends[value->operands[k]->id];
        walk->depends[value->id] = depends;
        if (value == walk->y) return;
    }
}

static dt_status *add_adjoint(walk *walk, const dt_value *value, dt_value *part) {
    dt_value **adjoint = &walk->adjoints[value->id];
    if (*adjoint == NULL) {
        *adjoint = part;
        return NULL;
    }
    return dt_build_binary(&walk->builder, adjoint, "add", *adjoint, part);
}

static dt_status *differentiate(walk *walk, dt_arena *arena, dt_value *value) {
    bool *wanted = DT_NEW_ARRAY(arena, bool, value->n_operands);
    dt_value **parts = DT_NEW_ARRAY(arena, dt_value *, value->n_operands);
    bool any = false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *operand = value->operands[k];
        wanted[k] = walk->depends[operand->id] && dt_dtype_is_float(operand->dtype);
        any = any || wanted[k];
    }
    if (!any) return NULL;
    walk->builder.locations = value->locations;
    walk->builder.n_locations = value->n_locations;
    DT_TRY(dt_op_gradient(&walk->builder, value, walk->adjoints[value->id], wanted, parts));
    for (int k = 0; k < value->n_operands; k++)
        if (wanted[k] && parts[k]) DT_TRY(add_adjoint(walk, value->operands[k], parts[k]));
    return NULL;
}

/* Resolves all gradients of first->operands[0], placing the backward ops before `first`. */
static dt_status *resolve(dt_function *function, dt_value *first) {
    dt_arena *arena = function->module->arena;
    dt_value *y = first->operands[0];
    int n = function->next_id;
    walk walk = {.builder = {.function = function, .before = first},
                 .y = y,
                 .depends = DT_NEW_ARRAY(arena, bool, n),
                 .adjoints = DT_NEW_ARRAY(arena, dt_value *, n),
                 .is_x = DT_NEW_ARRAY(arena, bool, n)};
    for (dt_value *value = first; value; value = value->next)
        if (is_gradient_of(value, y)) walk.is_x[value->operands[1]->id] = true;
    mark_dependents(&walk, function);

    walk.builder.locations = y->locations;
    walk.builder.n_locations = y->n_locations;
    DT_TRY(dt_build_constant(&walk.builder, &walk.adjoints[y->id], y->dtype, 1, y->shape));
    for (dt_value *value = y; value; value = value->previous)
        if (walk.depends[value->id] && walk.adjoints[value->id]) DT_TRY(differentiate(&walk, arena, value));

    for (dt_value *value = first, *next; value; value = next) {
        next = value->next;
        if (!is_gradient_of(value, y)) continue;
        dt_value *x = value->operands[1], *adjoint = walk.adjoints[x->id];
        walk.builder.before = value;
        if (adjoint == NULL) DT_TRY(dt_build_constant(&walk.builder, &adjoint, x->dtype, 0, x->shape));
        dt_value_replace(value, adjoint);
        dt_value_remove(value);
    }
    return NULL;
}

dt_status *dt_pass_autodiff(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        int n_forward = function->next_id;
        for (dt_value *first; (first = first_gradient(function)) != NULL;) DT_TRY(resolve(function, first));
        for (dt_value *value = function->first; value != NULL; value = value->next)
            if (value->id >= n_forward) value->layer = NULL, value->call = DT_BACKWARD;
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}
