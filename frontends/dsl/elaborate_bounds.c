/* elaborate_bounds: what a head says of the numbers that it takes, `rate: float >= 0 < 1`, against what a call gives.
 *
 * Numbers of compile time are compared; a list by its items, a schedule that is a number by that, a launch value by its default. What is known later
 * is not looked at. A limit may be any number that the head's own names give: `high >= low`. */
#include "frontends/dsl/elaborator.h"

#include <stdlib.h>

static bool is_within(double number, dt_token_kind operator, double limit) {
    if (operator== DT_TOKEN_LESS) return number < limit;
    if (operator== DT_TOKEN_LESS_EQUAL) return number <= limit;
    return operator== DT_TOKEN_GREATER ? number > limit : number >= limit;
}

/* "at least 0 and below 1" */
static const char *describe_bounds(dt_elaborator *e, const dt_parameter *parameter, const dt_object *limits) {
    dt_text text = {.arena = e->arena};
    for (size_t i = 0; i < parameter->bounds.n; i++) {
        dt_token_kind operator= parameter->bounds.items[i].operator;
        const dt_expression *limit = parameter->bounds.items[i].limit;
        const char *word = operator== DT_TOKEN_LESS       ? "below" :
                           operator== DT_TOKEN_LESS_EQUAL ? "at most"
                           :
                           operator== DT_TOKEN_GREATER_EQUAL ? "at least"
                                                             : "above";
        dt_text_format(&text, "%s%s ", i > 0 ? " and " : "", word);
        if (limit->kind == DT_EXPRESSION_NAME) dt_text_format(&text, "%s, which is ", limit->text);
        dt_text_append(&text, dt_object_describe(e->arena, limits[i]));
    }
    return text.data;
}

/* The number that a run begins with where nobody sets it, of a launch value as it is; POISON: it is none. */
static dt_object default_of_launch(dt_elaborator *e, const dt_value *value) {
    if (!dt_value_is(value, "read")) return dt_poison();
    const dt_variable *variable = dt_module_find_variable(e->module, dt_value_string(value, "variable"));
    if (variable == NULL || variable->kind != DT_VARIABLE_LAUNCH || variable->dtype == DT_BOOL) return dt_poison();
    const dt_value *initial = e->variables.items[variable - e->module->variables.items].initial;
    double number = dt_value_number(initial, "value");
    char text[32];
    return dt_object_float(variable->dtype == DT_F32 ? strtod(dt_text_from_f32((float)number, text), NULL) : number);
}

/* A schedule that is a number as this number, all else as it is. */
static dt_object constant_of(dt_object given) {
    bool is_number = given.kind == DT_OBJECT_FUNCTION && given.callee->callable == NULL && given.callee->builtin == NULL && given.callee->op == NULL;
    return is_number ? given.callee->constant : given;
}

/* The first number of what is given that is out of bounds; POISON: there is none. */
static dt_object find_outside(dt_elaborator *e, const dt_parameter *parameter, const dt_object *limits, dt_object given) {
    if (given.kind == DT_OBJECT_TENSOR && given.flexible) given = default_of_launch(e, given.value);
    for (size_t i = 0; given.kind == DT_OBJECT_LIST && i < given.items->n; i++) {
        dt_object outside = find_outside(e, parameter, limits, given.items->items[i]);
        if (!dt_is_poison(outside)) return outside;
    }
    for (size_t i = 0; dt_is_number(given) && i < parameter->bounds.n; i++) {
        bool is_known = dt_is_number(limits[i]);
        if (is_known && !is_within(dt_object_number(given), parameter->bounds.items[i].operator, dt_object_number(limits[i]))) return given;
    }
    return dt_poison();
}

bool dt_check_bounds(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, const int *matched, dt_frame *frame) {
    bool all_within = true;
    for (size_t p = 0; p < callee->callable->parameters.n; p++) {
        const dt_parameter *parameter = &callee->callable->parameters.items[p];
        if (parameter->bounds.n == 0) continue;
        dt_object *limits = DT_NEW_ARRAY(e->arena, dt_object, parameter->bounds.n);
        dt_push_frame(e, frame);
        for (size_t i = 0; i < parameter->bounds.n; i++) limits[i] = dt_settle(e, dt_value_of(e, parameter->bounds.items[i].limit));
        dt_pop_frame(e);
        dt_object given = constant_of(dt_find_binding(frame->scope, parameter->name)->object);
        dt_object outside = find_outside(e, parameter, limits, given);
        if (dt_is_poison(outside)) continue;
        dt_span span = matched[p] >= 0 ? actuals[matched[p]].span : frame->call;
        const char *is = given.kind == DT_OBJECT_LIST ? "has" : given.kind == DT_OBJECT_TENSOR ? "is by default" : "is";
        dt_elaborator_error(e, span, "%s: %s %s %s, it must be %s", callee->name, parameter->name, is, dt_object_describe(e->arena, outside),
                            describe_bounds(e, parameter, limits));
        all_within = false;
    }
    return all_within;
}
