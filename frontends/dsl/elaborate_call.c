/* elaborate_call: calls. Arguments are evaluated by the caller, bound to parameters in a new frame, checked against their types, and then the body
 * runs there. Functions of C (builtins.c) are bound by the same rules: their parameters are written in the language too. */
#include "frontends/dsl/elaborator.h"
#include "frontends/dsl/parser.h"

#include <string.h>

/* ---- frames and streams ---- */

void dt_push_frame(dt_elaborator *e, dt_frame *frame) {
    frame->caller = e->frame;
    e->frame = frame;
    if (frame->callee != NULL) e->at = frame->callee->span;
}

void dt_pop_frame(dt_elaborator *e) {
    e->at = e->frame->call;
    e->frame = e->frame->caller;
}

uint64_t dt_next_stream(dt_elaborator *e, const char *name) {
    uint64_t hash = dt_hash_bytes(&e->frame->stream, sizeof e->frame->stream, DT_HASH_SEED);
    int ordinal = e->frame->n_streams++;
    hash = dt_hash_bytes(&ordinal, sizeof ordinal, hash);
    return dt_hash_bytes(name, strlen(name), hash);
}

bool dt_is_callable(dt_object object) { return object.kind == DT_OBJECT_FUNCTION || object.kind == DT_OBJECT_DTYPE; }

dt_object dt_to_schedule(dt_elaborator *e, dt_object object) {
    if (dt_is_callable(object)) return object;
    dt_callee *callee = DT_NEW(e->arena, dt_callee);
    *callee = (dt_callee){.name = "a constant rate", .kind = DT_DECLARATION_FN, .constant = object};
    return (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = callee};
}

/* ---- binding ---- */

static int find_parameter(const dt_callable *callable, const char *name) {
    for (size_t i = 0; i < callable->parameters.n; i++)
        if (strcmp(callable->parameters.items[i].name, name) == 0) return (int)i;
    return -1;
}

static bool report_unknown_argument(dt_elaborator *e, const dt_callee *callee, const dt_actual *actual) {
    const dt_callable *callable = callee->callable;
    const char **names = DT_NEW_ARRAY(e->arena, const char *, callable->parameters.n + 1);
    dt_text list = {.arena = e->arena};
    for (size_t i = 0; i < callable->parameters.n; i++) {
        names[i] = callable->parameters.items[i].name;
        dt_text_format(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    dt_diagnostic *error = dt_elaborator_error(e, actual->span, "%s has no parameter %s", callee->name, actual->name);
    dt_diagnostic_note(error, "its parameters: %s", list.data != NULL ? list.data : "none");
    dt_note_hidden(e, error, callee);
    const char *ours = dt_foreign_parameter(actual->name);
    if (ours != NULL && find_parameter(callable, ours) >= 0)
        dt_diagnostic_help(error, "here that is %s", ours);
    else
        dt_diagnostic_suggest(error, actual->name, names, callable->parameters.n);
    return false;
}

/* Which actual each parameter gets; -1: its default. false: reported. */
static bool match_arguments(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span, int *matched) {
    const dt_callable *callable = callee->callable;
    size_t n_parameters = callable->parameters.n;
    for (size_t i = 0; i < n_parameters; i++) matched[i] = -1;
    for (size_t i = 0; i < n; i++) {
        int at = actuals[i].name != NULL ? find_parameter(callable, actuals[i].name) : (int)i;
        if (at < 0) return report_unknown_argument(e, callee, &actuals[i]);
        if (actuals[i].name == NULL && i > 0 && actuals[i - 1].name != NULL) {
            dt_diagnostic_help(dt_elaborator_error(e, actuals[i].span, "an argument without a name after one with a name"),
                               "name this one too, or put it first");
            return false;
        }
        if ((size_t)at >= n_parameters) {
            dt_diagnostic *error = dt_elaborator_error(e, actuals[i].span, "%s takes %zu argument%s, here are %zu", callee->name, n_parameters,
                                                       dt_plural(n_parameters), n);
            dt_note_hidden(e, error, callee);
            if (n_parameters > 0)
                dt_diagnostic_help(error, "the last one is %s: leave out what comes after it", callable->parameters.items[n_parameters - 1].name);
            return false;
        }
        if (matched[at] >= 0) {
            dt_diagnostic *error = dt_elaborator_error(e, actuals[i].span, "%s gets %s twice", callee->name, callable->parameters.items[at].name);
            dt_diagnostic_help(error, "leave one of them out");
            return false;
        }
        matched[at] = (int)i;
    }
    for (size_t i = 0; i < n_parameters; i++) {
        const dt_parameter *parameter = &callable->parameters.items[i];
        if (matched[i] >= 0 || parameter->standard != NULL) continue;
        const char *type = parameter->type != NULL ? dt_arena_format(e->arena, ": %s", dt_declared_text(e, parameter->type)) : "";
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is called without %s", callee->name, parameter->name);
        dt_diagnostic_note(error, "it is declared %s%s", parameter->name, type);
        dt_note_hidden(e, error, callee);
        dt_diagnostic_help(error, "write %s(…, %s: …)", callee->name, parameter->name);
        return false;
    }
    return true;
}

static void report_misfit(dt_elaborator *e, const dt_callee *callee, const dt_parameter *parameter, const dt_actual *actual, dt_object object,
                          const char *why, dt_span span) {
    bool in_callee = actual == NULL;
    const dt_expression *written = in_callee ? NULL : actual->written;
    dt_span shown = dt_type_is_tensor(parameter->type) || in_callee ? span : actual->span;
    dt_diagnostic *error =
        dt_elaborator_error(e, shown, "%s expects %s: %s, got %s", callee->name, parameter->name, dt_declared_text(e, parameter->type), why);
    if (written != NULL && written->kind == DT_EXPRESSION_NAME) {
        dt_binding *binding = dt_find_binding(e->frame->scope, written->text);
        if (binding != NULL)
            dt_diagnostic_note(error, "%s comes from %s: %s: %s", written->text, dt_elaborator_place(e, binding->span), written->text,
                               dt_object_describe(e->arena, object));
    }
    dt_note_hidden(e, error, callee);
    dt_help_with_type(e, error, parameter->type, object, written);
}

bool dt_bind_arguments(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_frame *frame) {
    const dt_callable *callable = callee->callable;
    size_t n_parameters = callable->parameters.n;
    int *matched = DT_NEW_ARRAY(e->arena, int, n_parameters);
    bool is_matched = match_arguments(e, callee, actuals, n, frame->call, matched), all_fit = is_matched;
    dt_binding **bindings = DT_NEW_ARRAY(e->arena, dt_binding *, n_parameters);
    for (size_t i = 0; i < n_parameters; i++) {
        const dt_parameter *parameter = &callable->parameters.items[i];
        dt_object object = matched[i] >= 0 ? actuals[matched[i]].object : parameter->standard != NULL ? dt_object_none() : dt_poison();
        frame->scope = dt_bind(e->arena, frame->scope, parameter->name, object, parameter->span);
        bindings[i] = frame->scope;
    }
    for (size_t i = 0; i < n_parameters; i++) {
        const dt_parameter *parameter = &callable->parameters.items[i];
        const dt_actual *actual = matched[i] >= 0 ? &actuals[matched[i]] : NULL;
        const char *why = "";
        bool fits = true;
        dt_push_frame(e, frame);
        if (actual == NULL && parameter->standard != NULL) {
            bool choice = parameter->type != NULL && parameter->type->word == NULL && parameter->standard->kind == DT_EXPRESSION_NAME;
            bindings[i]->object =
                choice ? (dt_object){.kind = DT_OBJECT_CHOICE, .text = parameter->standard->text} : dt_settle(e, dt_value_of(e, parameter->standard));
        }
        dt_object given = bindings[i]->object;
        bool none = given.kind == DT_OBJECT_NONE && parameter->standard != NULL && parameter->standard->kind == DT_EXPRESSION_NONE;
        if (parameter->type != NULL && !none) fits = dt_fit_type(e, parameter->type, &bindings[i]->object, &why);
        fits &= !dt_is_poison(bindings[i]->object);
        if (!fits) dt_bind_unknown_dims(e, parameter->type);
        if (!fits) bindings[i]->object = callee->file->is_library ? dt_poison() : dt_stand_in(e, parameter->type);
        dt_pop_frame(e);
        if (!fits && *why != '\0' && is_matched) report_misfit(e, callee, parameter, actual, dt_settle(e, given), why, frame->call);
        all_fit &= fits;
    }
    if (all_fit) all_fit = dt_check_bounds(e, callee, actuals, matched, frame);
    if (all_fit) dt_note_arguments(e, callee, actuals, matched, frame);
    return all_fit || !(callee->file->is_library || callee->callable->broken);
}

/* ---- functions of the language ---- */

static bool fit_results(dt_elaborator *e, dt_frame *frame) {
    const dt_callable *callable = frame->callee->callable;
    size_t n = callable->results.n;
    if (n == 0 || dt_is_poison(frame->result)) return true;
    size_t n_given = frame->result.kind == DT_OBJECT_TUPLE ? frame->result.items->n : 1;
    if (!frame->returned) {
        dt_diagnostic *error = dt_elaborator_error(e, frame->callee->span, "%s returns nothing, its head says %zu value%s", frame->callee->name, n,
                                                   dt_plural((int64_t)n));
        dt_diagnostic_help(error, "end its body with return …");
        return false;
    }
    if (frame->result.kind == DT_OBJECT_NONE || n_given != n) {
        dt_elaborator_error(e, frame->result_span, "%s returns %zu value%s, its head says %zu", frame->callee->name,
                            frame->result.kind == DT_OBJECT_NONE ? 0 : n_given, dt_plural((int64_t)n_given), n);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        dt_object *object = n == 1 ? &frame->result : (dt_object *)&frame->result.items->items[i];
        const char *why;
        if (dt_fit_type(e, callable->results.items[i], object, &why)) {
            dt_note_result(e, callable->results.items[i], *object);
            continue;
        }
        if (*why == '\0') return false;
        dt_diagnostic *error = dt_elaborator_error(e, frame->result_span, "%s returns %s, its head says %s", frame->callee->name, why,
                                                   dt_declared_text(e, callable->results.items[i]));
        dt_help_with_type(e, error, callable->results.items[i], *object, NULL);
        return false;
    }
    return true;
}

static dt_object stand_in_of_results(dt_elaborator *e, const dt_callable *callable) {
    size_t n = callable->results.n;
    dt_object *results = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (size_t i = 0; i < n; i++)
        if (dt_is_poison(results[i] = dt_stand_in(e, callable->results.items[i]))) return dt_poison();
    return n == 0 ? dt_poison() : n == 1 ? results[0] : dt_object_items(e->arena, DT_OBJECT_TUPLE, results, n);
}

dt_object dt_run_body(dt_elaborator *e, dt_frame *frame) {
    bool has_run = !dt_note_run(e, frame->callee);
    if (has_run && e->n_uncertain > 0) return dt_poison(); /* recursion would have no end */
    int64_t n_poisoned = e->n_poisoned;
    frame->may_return = true;
    dt_push_frame(e, frame);
    dt_run_block(e, &frame->callee->callable->body);
    bool may_be_broken = e->n_poisoned != n_poisoned || frame->callee->callable->broken; /* the return, too */
    if (!frame->returned) frame->result = may_be_broken ? dt_poison() : dt_object_none();
    if (!fit_results(e, frame)) frame->result = dt_poison();
    if (dt_is_poison(frame->result) && !frame->file->is_library) frame->result = stand_in_of_results(e, frame->callee->callable);
    dt_pop_frame(e);
    return frame->result;
}

static dt_object call_function(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span) {
    dt_frame frame = {.callee = callee, .file = callee->file, .scope = callee->scope, .call = span, .stream = dt_next_stream(e, callee->name)};
    int first = e->function != NULL ? e->function->next_id : 0;
    size_t n_targets = e->step != NULL ? e->step->targets.n : 0;
    if (!dt_bind_arguments(e, callee, actuals, n, &frame)) return dt_poison();
    dt_object result = dt_run_body(e, &frame);
    dt_note_end(e, n_targets);
    dt_record_function_layer(e, callee, first, result, span);
    return result;
}

/* ---- functions of C, ops ---- */

/* The builtin's parameters, which are written as text. */
static const dt_callable *head_of(dt_elaborator *e, const dt_builtin *builtin) {
    for (size_t i = 0; i < e->heads.n; i++)
        if (strcmp(e->heads.items[i].name, builtin->name) == 0) return e->heads.items[i].callable;
    const char *text = dt_arena_format(e->arena, "fn %s%s { }", builtin->name, builtin->parameters);
    int file = dt_diagnostics_add_file(e->diagnostics, builtin->name, text);
    dt_head head = {builtin->name, dt_parse(e->arena, e->diagnostics, file, text)->declarations.items[0]->callable};
    dt_list_push(e->arena, &e->heads, head);
    return head.callable;
}

static dt_object call_builtin(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span) {
    const dt_builtin *builtin = callee->builtin;
    bool any_poison = false;
    for (size_t i = 0; i < n; i++) any_poison |= dt_is_poison(actuals[i].object);
    if (builtin->parameters == NULL && any_poison) return dt_poison();
    if (builtin->parameters == NULL) return dt_make_source(e, builtin->name, actuals, n, span);
    dt_callee bound = *callee;
    bound.callable = head_of(e, builtin);
    bound.file = e->core;
    dt_frame frame = {.callee = &bound, .file = e->core, .call = span};
    if (!dt_bind_arguments(e, &bound, actuals, n, &frame)) return dt_poison();
    size_t n_parameters = bound.callable->parameters.n;
    dt_object *objects = DT_NEW_ARRAY(e->arena, dt_object, n_parameters);
    for (size_t i = 0; i < n_parameters; i++) objects[i] = dt_find_binding(frame.scope, bound.callable->parameters.items[i].name)->object;
    e->at = span;
    return builtin->function(e, objects);
}

static bool not_an_attribute(dt_elaborator *e, const dt_op *op, const dt_actual *actual, dt_object o) {
    if (!dt_is_poison(o)) dt_elaborator_error(e, actual->span, "ops.%s: %s cannot be %s", op->name, actual->name, dt_object_describe(e->arena, o));
    return false;
}

/* A list of ints and B: axes, strides, …, limits. */
static bool set_ints(dt_object list, dt_attribute *attribute, dt_arena *arena) {
    int64_t *ints = DT_NEW_ARRAY(arena, int64_t, list.items->n);
    for (size_t i = 0; i < list.items->n; i++) {
        dt_object item = list.items->items[i];
        bool fits = item.kind == DT_OBJECT_BATCH || (item.kind == DT_OBJECT_INT && item.i >= INT32_MIN && item.i <= INT32_MAX);
        if (!fits) return false;
        ints[i] = item.kind == DT_OBJECT_INT ? item.i : DT_BATCH;
    }
    attribute->i = (int64_t)list.items->n;
    attribute->ints = ints;
    return true;
}

static bool set_attribute(dt_elaborator *e, const dt_op *op, const dt_actual *actual, dt_attribute *attributes, bool *given) {
    int index = dt_op_attribute_index(op, actual->name);
    if (index < 0) {
        dt_elaborator_error(e, actual->span, "ops.%s has no attribute %s", op->name, actual->name);
        return false;
    }
    dt_attribute *attribute = &attributes[index];
    dt_object o = dt_settle(e, actual->object);
    given[index] = true;
    switch (op->attributes[index].kind) {
    case DT_ATTR_INT:
        if (o.kind == DT_OBJECT_INT) return attribute->i = o.i, true;
        break;
    case DT_ATTR_NUMBER:
        if (dt_is_number(o) || o.kind == DT_OBJECT_BOOL) return *attribute = dt_literal_number(o), true;
        break;
    case DT_ATTR_BOOL:
        if (o.kind == DT_OBJECT_BOOL) return attribute->i = o.b, true;
        break;
    case DT_ATTR_STRING:
        if (o.kind == DT_OBJECT_STRING) return attribute->s = o.text, true;
        break;
    case DT_ATTR_DTYPE:
        if (o.kind == DT_OBJECT_DTYPE) return attribute->i = o.dtype, true;
        break;
    case DT_ATTR_INTS:
        if (o.kind != DT_OBJECT_LIST) break;
        if (strcmp(actual->name, "shape") == 0 || strcmp(actual->name, "size") == 0) {
            dt_shape shape;
            if (!dt_to_shape(e, o, actual->name, &shape)) return false;
            attribute->i = shape.rank;
            attribute->ints = shape.dims;
            return true;
        }
        if (set_ints(o, attribute, e->arena)) return true;
        break;
    }
    return not_an_attribute(e, op, actual, o);
}

/* ops.name(operands, attribute: value): the row itself, nothing broadcast. */
static dt_object call_op(dt_elaborator *e, const dt_op *op, const dt_actual *actuals, size_t n) {
    DT_LIST(dt_value *) operands = {0};
    dt_attribute *attributes = DT_NEW_ARRAY(e->arena, dt_attribute, op->n_attributes);
    bool *given = DT_NEW_ARRAY(e->arena, bool, op->n_attributes);
    for (size_t i = 0; i < n; i++) {
        if (actuals[i].name != NULL) {
            if (!set_attribute(e, op, &actuals[i], attributes, given)) return dt_poison();
            continue;
        }
        dt_object list = actuals[i].object;
        bool many = list.kind == DT_OBJECT_LIST && op->variadic;
        for (size_t k = 0; k < (many ? list.items->n : 1); k++) {
            dt_object operand = dt_to_tensor(e, many ? list.items->items[k] : list, DT_N_DTYPES);
            if (dt_is_poison(operand)) return operand;
            dt_list_push(e->arena, &operands, operand.value);
        }
    }
    int stream = op->class == DT_CLASS_RANDOM ? dt_op_attribute_index(op, "stream") : -1;
    if (stream >= 0) attributes[stream].i = (int64_t)(dt_next_stream(e, op->name) >> 1), given[stream] = true;
    DT_LIST(dt_named_attribute) settings = {0};
    for (int i = 0; i < op->n_attributes; i++) {
        dt_named_attribute setting = {op->attributes[i].name, attributes[i]};
        if (!given[i] && !op->attributes[i].has_default) return dt_elaborator_fail(e, "ops.%s needs %s", op->name, op->attributes[i].name);
        if (given[i]) dt_list_push(e->arena, &settings, setting);
    }
    if (op->variadic ? (int)operands.n < op->n_operands : (int)operands.n != op->n_operands)
        return dt_elaborator_fail(e, "ops.%s takes %d operand%s, here are %zu", op->name, op->n_operands, dt_plural(op->n_operands), operands.n);
    if (strcmp(op->name, "launch") == 0 && strcmp(attributes[0].s, "shard") == 0)
        return dt_elaborator_fail(e, "launch: \"shard\" differs from shard to shard of the model; a program computes whole values");
    if (stream >= 0) return dt_emit_random(e, op, attributes);
    return dt_emit(e, op->name, operands.items, (int)operands.n, settings.items, settings.n);
}

static dt_object call_op_row(dt_elaborator *e, const dt_op *op, const dt_actual *actuals, size_t n) {
    if (op->class != DT_CLASS_MAP || op->n_attributes > 0) return call_op(e, op, actuals, n);
    dt_object *objects = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (size_t i = 0; i < n; i++) {
        objects[i] = actuals[i].object;
        if (actuals[i].name == NULL) continue;
        dt_elaborator_error(e, actuals[i].span, "%s takes its arguments by position", op->name);
        return dt_poison();
    }
    return dt_elementwise(e, op, objects, n);
}

/* f32(x): of a tensor, or of a number as a literal of that type; floats are cut as those of a tensor are. */
static dt_object convert(dt_elaborator *e, dt_dtype dtype, const dt_actual *actuals, size_t n) {
    if (n != 1 || actuals[0].name != NULL) return dt_elaborator_fail(e, "%s(x) converts one value, here are %zu", dt_dtype_name(dtype), n);
    dt_object x = dt_settle(e, actuals[0].object);
    if (x.kind == DT_OBJECT_TENSOR) return dt_emit_convert(e, x.value, dtype);
    if (dt_is_number(x) && dtype == DT_BOOL) return dt_to_tensor(e, dt_object_bool(dt_object_number(x) != 0), dtype);
    if (x.kind == DT_OBJECT_FLOAT && dt_dtype_kind(dtype) == 'i') x = dt_object_int(dt_scalar_convert((dt_scalar){.f = x.f}, DT_F64, dtype).i);
    if (dt_is_number(x)) return dt_to_tensor(e, x, dtype);
    if (dt_is_poison(x)) return x;
    return dt_elaborator_fail(e, "%s(x) converts a tensor or a number, not %s", dt_dtype_name(dtype), dt_object_describe(e->arena, x));
}

/* ---- all ---- */

/* `training: false` beside a callee that has no such parameter sets the ambient value for the call; so does `recompute: true`. */
static void take_ambient(dt_elaborator *e, const dt_callee *callee, const char *name, dt_actual *actuals, size_t *n, bool *value) {
    if (find_parameter(callee->callable, name) >= 0) return;
    size_t n_left = 0;
    bool is_given = false;
    for (size_t i = 0; i < *n; i++) {
        if (actuals[i].name == NULL || strcmp(actuals[i].name, name) != 0) {
            actuals[n_left++] = actuals[i];
            continue;
        }
        if (is_given)
            dt_diagnostic_help(dt_elaborator_error(e, actuals[i].span, "%s gets %s twice", callee->name, name), "leave one of them out");
        else if (actuals[i].object.kind == DT_OBJECT_BOOL)
            *value = actuals[i].object.b;
        else if (!dt_is_poison(actuals[i].object))
            dt_elaborator_error(e, actuals[i].span, "%s is true or false, not %s", name, dt_object_describe(e->arena, actuals[i].object));
        is_given = true;
    }
    *n = n_left;
}

/* Of a call within another one that is computed again, that one's number: what it keeps is made with the rest. */
static int number_of_recomputed(dt_elaborator *e, bool recomputes) {
    if (!recomputes) return 0;
    return e->recompute > 0 ? e->recompute : ++e->n_recomputed;
}

/* A layer that a model calls itself. */
static bool is_layer_of_model(const dt_elaborator *e, const dt_callee *callee) {
    return callee->kind == DT_DECLARATION_LAYER && e->visit != NULL && e->visit->serial == e->visit->call_of_model;
}

/* A model computes with examples, also where it is a report that calls it. */
static dt_object call_layer(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span,
                            const dt_expression *written) {
    dt_function *function = e->function;
    bool reporting = e->reporting;
    if (dt_is_in_report(e)) e->function = e->step->function, e->reporting = false;
    dt_object result = dt_call_layer(e, callee, actuals, n, span, written);
    e->function = function;
    e->reporting = reporting;
    return result;
}

static dt_object call_declared(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span,
                               const dt_expression *written) {
    bool training = e->training, recomputes = e->recompute > 0 || (e->recomputes_layers && is_layer_of_model(e, callee));
    int recompute = e->recompute;
    dt_actual *own = DT_NEW_ARRAY(e->arena, dt_actual, n + callee->n_bound);
    for (size_t i = 0; i < n; i++) own[i] = actuals[i];
    for (size_t i = 0; i < callee->n_bound; i++) own[n++] = callee->bound[i];
    take_ambient(e, callee, "training", own, &n, &e->training);
    take_ambient(e, callee, "recompute", own, &n, &recomputes);
    e->recompute = number_of_recomputed(e, recomputes);
    dt_object result = dt_poison();
    switch (callee->kind) {
    case DT_DECLARATION_FN: result = call_function(e, callee, own, n, span); break;
    case DT_DECLARATION_LAYER:
    case DT_DECLARATION_MODEL: result = call_layer(e, callee, own, n, span, written); break;
    case DT_DECLARATION_OPTIMIZER: result = dt_make_optimizer(e, callee, own, n, span); break;
    default:
        dt_diagnostic_help(dt_elaborator_error(e, span, "%s is a step: the runtime runs it, nothing calls it", callee->name),
                           "put what is shared into a fn or a model");
    }
    e->training = training;
    e->recompute = recompute;
    return result;
}

static dt_object call_object(dt_elaborator *e, dt_object callee, const dt_actual *actuals, size_t n, dt_span span, const dt_expression *written) {
    e->at = span;
    if (dt_is_poison(callee)) return callee;
    bool any_poison = false, binds = callee.kind == DT_OBJECT_FUNCTION && callee.callee->op == NULL; /* checks names and the other types, too */
    for (size_t i = 0; i < n; i++) any_poison |= dt_is_poison(actuals[i].object);
    if (any_poison && !binds) return dt_poison();
    if (callee.kind == DT_OBJECT_DTYPE) return convert(e, callee.dtype, actuals, n);
    if (callee.kind != DT_OBJECT_FUNCTION) {
        callee = dt_settle(e, callee);
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is no function", dt_object_describe(e->arena, callee));
        if (callee.kind == DT_OBJECT_STRING) dt_diagnostic_help(error, "give the function itself, without quotes: %s", callee.text);
        return dt_poison();
    }
    const dt_callee *function = callee.callee;
    if (!dt_elaborator_enter(e)) return dt_elaborator_leave(e), dt_poison();
    dt_object result;
    if (function->builtin != NULL)
        result = call_builtin(e, function, actuals, n, span);
    else if (function->op != NULL)
        result = call_op_row(e, function->op, actuals, n);
    else if (function->callable != NULL)
        result = call_declared(e, function, actuals, n, span, written);
    else
        result = function->constant;
    dt_elaborator_leave(e);
    e->at = span;
    return result;
}

dt_object dt_call(dt_elaborator *e, dt_object callee, const dt_actual *actuals, size_t n, dt_span span) {
    return call_object(e, callee, actuals, n, span, NULL);
}

dt_object dt_call_with(dt_elaborator *e, dt_object callee, const dt_object *objects, size_t n) {
    dt_actual *actuals = DT_NEW_ARRAY(e->arena, dt_actual, n);
    for (size_t i = 0; i < n; i++) actuals[i] = (dt_actual){.span = e->at, .object = objects[i]};
    return dt_call(e, callee, actuals, n, e->at);
}

/* The parameter with choices that an argument, written as a plain name, goes to; NULL: it is none of that. is_lost: its name is no parameter's. */
static const dt_parameter *choice_parameter(dt_elaborator *e, const dt_object *callee, const dt_argument *argument, size_t position, bool *is_lost) {
    *is_lost = false;
    if (callee->kind != DT_OBJECT_FUNCTION || argument->value->kind != DT_EXPRESSION_NAME) return NULL;
    const dt_callable *callable = callee->callee->callable;
    bool has_head = callee->callee->builtin != NULL && callee->callee->builtin->parameters != NULL;
    if (has_head) callable = head_of(e, callee->callee->builtin);
    if (callable == NULL) return NULL;
    int at = argument->name != NULL ? find_parameter(callable, argument->name) : (int)position;
    *is_lost = at < 0;
    if (at < 0 || (size_t)at >= callable->parameters.n) return NULL;
    const dt_parameter *parameter = &callable->parameters.items[at];
    return parameter->type != NULL && parameter->type->word == NULL ? parameter : NULL;
}

/* An argument's value. `padding: same`: a name is looked for among the choices of the parameter first. */
static dt_object evaluate_argument(dt_elaborator *e, const dt_object *callee, const dt_argument *argument, size_t position) {
    bool is_lost;
    dt_object object;
    const dt_parameter *parameter = choice_parameter(e, callee, argument, position, &is_lost);
    bool is_source = callee->kind == DT_OBJECT_FUNCTION && callee->callee->builtin != NULL && callee->callee->builtin->parameters == NULL;
    dt_object choice = is_source ? dt_source_choice(e, callee->callee->name, argument) : dt_object_none();
    if (choice.kind != DT_OBJECT_NONE) return choice;
    const char *name = argument->value->text;
    bool is_bound =
        (parameter != NULL || is_lost) && (dt_find_binding(e->frame->scope, name) != NULL || dt_find_top(e, e->frame->file, name, &object));
    if (is_lost && !is_bound) return dt_poison(); /* it may be a choice of the parameter that was meant */
    if (parameter == NULL) return dt_settle(e, dt_value_of(e, argument->value));
    for (size_t i = 0; i < parameter->type->choices.n; i++)
        if (strcmp(parameter->type->choices.items[i], name) == 0) return (dt_object){.kind = DT_OBJECT_CHOICE, .text = name};
    if (is_bound) return dt_settle(e, dt_value_of(e, argument->value));
    dt_diagnostic *error = dt_elaborator_error(e, argument->value->span, "%s: %s is %s, not %s", callee->callee->name, parameter->name,
                                               dt_declared_text(e, parameter->type), name);
    dt_diagnostic_suggest(error, name, parameter->type->choices.items, parameter->type->choices.n);
    return dt_poison();
}

dt_actuals dt_evaluate_arguments(dt_elaborator *e, const dt_object *callee, const dt_expression *call) {
    size_t n = call->arguments.n;
    dt_actuals actuals = {.n = n, .capacity = n, .items = DT_NEW_ARRAY(e->arena, dt_actual, n)};
    for (size_t i = 0; i < n; i++) {
        const dt_argument *argument = &call->arguments.items[i];
        actuals.items[i] = (dt_actual){.name = argument->name, .span = argument->span, .written = argument->value};
        actuals.items[i].object = evaluate_argument(e, callee, argument, i);
    }
    return actuals;
}

/* An aggregator's arguments are computed with examples. Where they leave nothing of these, as the recall of each class, they are made of totals. Of
 * `last` they are the last step's. */
static dt_actuals evaluate_aggregated(dt_elaborator *e, const dt_object *callee, const dt_expression *call) {
    dt_function *report = e->function;
    bool had_reduced_batch = e->has_reduced_batch;
    e->function = e->step->function;
    e->reporting = e->has_reduced_batch = false;
    dt_actuals actuals = dt_evaluate_arguments(e, callee, call);
    bool of_totals = e->has_reduced_batch && strcmp(callee->callee->name, "last") != 0 && dt_is_of_batch(e, actuals.items[0].object);
    e->function = report;
    e->reporting = true;
    e->has_reduced_batch = had_reduced_batch;
    return of_totals ? dt_evaluate_arguments(e, callee, call) : actuals;
}

static dt_object evaluate_call(dt_elaborator *e, const dt_expression *call) {
    dt_object callee = dt_value_of(e, call->a);
    if (dt_is_poison(callee)) return callee;
    bool is_builtin = callee.kind == DT_OBJECT_FUNCTION && callee.callee->builtin != NULL;
    if (is_builtin && strcmp(callee.callee->name, "freeze") == 0) return dt_freeze(e, call); /* names parts that may not exist yet */
    bool aggregates = e->reporting && is_builtin && callee.callee->builtin->aggregates;
    dt_actuals actuals = aggregates ? evaluate_aggregated(e, &callee, call) : dt_evaluate_arguments(e, &callee, call);
    return call_object(e, callee, actuals.items, actuals.n, call->span, call);
}

dt_object dt_evaluate_call(dt_elaborator *e, const dt_expression *call) {
    const char *binding = e->frame->binding;
    e->frame->binding = NULL; /* what the call gives is bound, not what it is given */
    dt_object object = evaluate_call(e, call);
    e->frame->binding = binding;
    return object;
}
