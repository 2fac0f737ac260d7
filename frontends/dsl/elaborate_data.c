/* elaborate_data: pipelines. They are written down, not run: sources and stages with their arguments become the module's record, which the runtime
 * gives meaning. Only the functions of map and filter are compiled here, as functions over one example; what an example is, their parameters say,
 * since no data file is opened at compile time. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* What each stage takes: positional arguments, the names it knows, and how many must be there. */
static const struct {
    const char *kind;
    const char *names[4]; /* in order of position */
    int n_needed;
    bool function; /* the first argument is one */
} stages[] = {
    {"map", {"function"}, 1, true},
    {"filter", {"function"}, 1, true},
    {"shuffle", {"n"}, 1, false},
    {"cache", {NULL}, 0, false},
    {"interleave", {"n"}, 1, false},
    {"take", {"n"}, 1, false},
    {"skip", {"n"}, 1, false},
    {"repeat", {"n"}, 0, false},
    {"windows", {"n", "shift"}, 1, false},
    {"pad", {"n", "value"}, 1, false},
    {"wordpiece", {"vocab", "length"}, 2, false},
    {"batch", {"n"}, 1, false},
    {"prefetch", {"n"}, 1, false},
};
enum {
    N_STAGES = sizeof stages / sizeof *stages
};

/* ---- arguments ---- */

static bool add_argument(dt_elaborator *e, dt_stage *stage, const dt_actual *actual) {
    dt_stage_argument argument = {.name = actual->name};
    dt_object o = actual->object;
    switch (o.kind) {
    case DT_OBJECT_INT: argument.kind = DT_STAGE_INT, argument.i = o.i; break;
    case DT_OBJECT_BOOL: argument.kind = DT_STAGE_INT, argument.i = o.b; break;
    case DT_OBJECT_FLOAT: argument.kind = DT_STAGE_FLOAT, argument.f = o.f; break;
    case DT_OBJECT_STRING: argument.kind = DT_STAGE_STRING, argument.s = o.text; break;
    case DT_OBJECT_POISON: return false;
    default: dt_elaborator_error(e, actual->span, "%s takes numbers and strings, not %s", stage->kind, dt_object_describe(e->arena, o)); return false;
    }
    dt_list_push(e->arena, &stage->arguments, argument);
    return true;
}

dt_object dt_make_source(dt_elaborator *e, const char *kind, const dt_actual *actuals, size_t n, dt_span span) {
    dt_stage stage = {.kind = kind, .location = dt_elaborator_location(e, span)};
    if (n == 0) return dt_elaborator_fail(e, "%s needs the name of a file", kind);
    for (size_t i = 0; i < n; i++)
        if (!add_argument(e, &stage, &actuals[i])) return dt_poison();
    if (actuals[0].object.kind != DT_OBJECT_STRING) {
        dt_elaborator_error(e, actuals[0].span, "%s begins with the name of a file, not %s", kind, dt_object_describe(e->arena, actuals[0].object));
        return dt_poison();
    }
    dt_pipeline *pipeline = DT_NEW(e->arena, dt_pipeline);
    pipeline->location = stage.location;
    dt_list_push(e->arena, &pipeline->stages, stage);
    return (dt_object){.kind = DT_OBJECT_PIPELINE, .pipeline = pipeline};
}

/* ---- functions over one example ---- */

static bool add_example_inputs(dt_elaborator *e, const dt_callee *callee, const char *kind, dt_actuals *inputs) {
    for (size_t i = 0; i < callee->callable->parameters.n; i++) {
        const dt_parameter *parameter = &callee->callable->parameters.items[i];
        dt_dtype dtype;
        dt_shape shape;
        if (parameter->type == NULL || !dt_type_is_tensor(parameter->type)) {
            dt_diagnostic *error = dt_elaborator_error(e, parameter->span, "%s compiles its function, so %s needs a type", kind, parameter->name);
            dt_diagnostic_help(error, "say what an example holds, without B: %s: u8[28, 28]. Functions of text are not there yet", parameter->name);
            return false;
        }
        if (!dt_resolve_type(e, parameter->type, &dtype, &shape)) return false;
        if (dt_shape_batch_axis(shape) >= 0) {
            dt_diagnostic *error = dt_elaborator_error(e, parameter->type->span, "%s runs over one example: there is no B", kind);
            dt_diagnostic_help(error, "leave B out of the shape of %s", parameter->name);
            return false;
        }
        dt_value *input = dt_build_input(e->function, parameter->name, dtype, shape, dt_elaborator_location(e, parameter->span));
        dt_actual actual = {.span = parameter->span, .object = dt_object_tensor(input)};
        dt_list_push(e->arena, inputs, actual);
    }
    return true;
}

static bool add_example_results(dt_elaborator *e, const char *kind, dt_object result) {
    dt_object lone[1] = {result};
    const dt_object *objects = result.kind == DT_OBJECT_TUPLE ? result.items->items : lone;
    size_t n = result.kind == DT_OBJECT_TUPLE ? result.items->n : 1;
    for (size_t i = 0; i < n; i++) {
        dt_object tensor = dt_to_tensor(e, objects[i], DT_N_DTYPES);
        if (dt_is_poison(tensor)) return false;
        dt_result named = {dt_arena_format(e->arena, "result%zu", i), tensor.value};
        dt_list_push(e->arena, &e->function->results, named);
    }
    if (strcmp(kind, "filter") != 0) return true;
    dt_value *first = e->function->results.items[0].value;
    if (n == 1 && first->dtype == DT_BOOL && first->shape.rank == 0) return true;
    dt_elaborator_fail(e, "the function of filter gives one bool for an example, this one %s", dt_object_describe(e->arena, result));
    return false;
}

/* The name of the compiled function; NULL: reported. */
static const char *compile_example_function(dt_elaborator *e, const char *kind, dt_object object, const char *name, dt_span span) {
    bool declared = object.kind == DT_OBJECT_FUNCTION && object.callee->callable != NULL && object.callee->kind == DT_DECLARATION_FN;
    if (!declared) {
        if (!dt_is_poison(object)) dt_elaborator_error(e, span, "%s takes a fn over one example, not %s", kind, dt_object_describe(e->arena, object));
        return NULL;
    }
    dt_function *function = e->function;
    dt_frame frame = {.callee = object.callee,
                      .file = object.callee->file,
                      .scope = object.callee->scope,
                      .call = span,
                      .stream = dt_hash_bytes(name, strlen(name), DT_HASH_SEED)};
    e->function = dt_module_add_function(e->module, name, DT_FUNCTION_EXAMPLE);
    dt_actuals inputs = {0};
    dt_push_frame(e, &frame);
    bool compiled = add_example_inputs(e, object.callee, kind, &inputs);
    dt_pop_frame(e);
    if (compiled) {
        dt_frame caller = {.file = e->frame->file, .scope = e->frame->scope, .call = span, .stream = frame.stream};
        dt_push_frame(e, &caller);
        dt_object result = dt_call(e, object, inputs.items, inputs.n, span);
        compiled = !dt_is_poison(result) && add_example_results(e, kind, result);
        dt_pop_frame(e);
    }
    e->function = function;
    return compiled ? name : NULL;
}

/* ---- stages ---- */

static int find_stage(const dt_expression *x) {
    bool named = x->kind == DT_EXPRESSION_CALL && x->a->kind == DT_EXPRESSION_NAME;
    for (int i = 0; named && i < N_STAGES; i++)
        if (strcmp(stages[i].kind, x->a->text) == 0) return i;
    return -1;
}

static dt_object not_a_stage(dt_elaborator *e, const dt_expression *x) {
    const char *names[N_STAGES];
    for (int i = 0; i < N_STAGES; i++) names[i] = stages[i].kind;
    if (x->kind != DT_EXPRESSION_CALL || x->a->kind != DT_EXPRESSION_NAME) {
        dt_diagnostic_help(dt_elaborator_error(e, x->span, "a stage is called: … | shuffle(1000)"), "| joins a source of data with its stages");
        return dt_poison();
    }
    dt_diagnostic *error = dt_elaborator_error(e, x->span, "there is no stage %s", x->a->text);
    dt_diagnostic_suggest(error, x->a->text, names, N_STAGES);
    return dt_poison();
}

/* The stages that a mistake of order would make pointless are refused with the line put right. */
static bool is_random(dt_elaborator *e, const dt_stage *stage) {
    if (stage->arguments.n == 0 || stage->arguments.items[0].kind != DT_STAGE_FUNCTION) return false;
    const dt_function *function = dt_module_find_function(e->module, stage->arguments.items[0].s);
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->op->class == DT_CLASS_RANDOM) return true;
    return false;
}

static bool check_order(dt_elaborator *e, const dt_pipeline *pipeline, const char *kind, dt_span span) {
    bool batched = false;
    for (size_t i = 0; i < pipeline->stages.n; i++) {
        const char *before = pipeline->stages.items[i].kind;
        batched |= strcmp(before, "batch") == 0;
        bool is_cache = strcmp(kind, "cache") == 0;
        if (is_cache && is_random(e, &pipeline->stages.items[i])) {
            dt_diagnostic *error = dt_elaborator_error(e, span, "cache comes after a random %s: it would keep what was drawn first for ever", before);
            dt_diagnostic_help(error, "write … | cache() | %s(…)", before);
            return false;
        }
        if (is_cache && (strcmp(before, "shuffle") == 0 || strcmp(before, "batch") == 0)) {
            dt_diagnostic *error = dt_elaborator_error(e, span, "cache comes after %s: it would keep one order for ever", before);
            dt_diagnostic_help(error, "write … | cache() | %s(…)", before);
            return false;
        }
    }
    if (batched && strcmp(kind, "prefetch") != 0) {
        dt_diagnostic *error =
            dt_elaborator_error(e, span, "%s comes after batch: stages before it work on examples, only prefetch comes after", kind);
        dt_diagnostic_help(error, "write … | %s(…) | batch(…)", kind);
        return false;
    }
    return true;
}

static bool stage_arguments(dt_elaborator *e, int row, const dt_expression *x, dt_stage *stage) {
    bool given[4] = {false};
    for (size_t i = 0; i < x->arguments.n; i++) {
        const dt_argument *a = &x->arguments.items[i];
        int at = -1, n_known = 0;
        for (; n_known < 4 && stages[row].names[n_known] != NULL; n_known++)
            if (a->name != NULL && strcmp(a->name, stages[row].names[n_known]) == 0) at = n_known;
        if (a->name == NULL) at = (int)i < n_known ? (int)i : -1;
        if (at < 0) {
            dt_diagnostic *error =
                dt_elaborator_error(e, a->span, a->name != NULL ? "%s has no argument %s" : "%s takes fewer arguments", stages[row].kind, a->name);
            if (a->name != NULL) dt_diagnostic_suggest(error, a->name, stages[row].names, (size_t)n_known);
            return false;
        }
        given[at] = true;
        dt_actual actual = {.name = a->name, .span = a->span, .object = dt_settle(e, dt_value_of(e, a->value)), .written = a->value};
        bool compiled = stages[row].function && at == 0;
        if (!compiled && !add_argument(e, stage, &actual)) return false;
        if (!compiled) continue;
        dt_stage_argument function = {.kind = DT_STAGE_FUNCTION};
        const char *name = dt_arena_format(e->arena, "unnamed/%s%zu", stage->kind, e->module->functions.n);
        function.s = compile_example_function(e, stage->kind, actual.object, name, a->span);
        if (function.s == NULL) return false;
        dt_list_push(e->arena, &stage->arguments, function);
    }
    for (int i = 0; i < stages[row].n_needed; i++) {
        if (given[i]) continue;
        dt_elaborator_error(e, x->span, "%s is called without %s", stages[row].kind, stages[row].names[i]);
        return false;
    }
    return true;
}

dt_object dt_evaluate_pipe(dt_elaborator *e, const dt_expression *x) {
    dt_object source = dt_value_of(e, x->a);
    if (dt_is_poison(source)) return source;
    if (source.kind != DT_OBJECT_PIPELINE) {
        dt_diagnostic *error = dt_elaborator_error(e, x->a->span, "| joins data with a stage, this is %s", dt_object_describe(e->arena, source));
        dt_diagnostic_help(error, "begin with a source: idx, npy, csv, lines, bytes, …; or joins two bools");
        return dt_poison();
    }
    int row = find_stage(x->b);
    if (row < 0) return not_a_stage(e, x->b);
    e->at = x->b->span;
    dt_stage stage = {.kind = stages[row].kind, .location = dt_elaborator_location(e, x->b->span)};
    if (!check_order(e, source.pipeline, stage.kind, x->b->span) || !stage_arguments(e, row, x->b, &stage)) return dt_poison();
    bool positive = strcmp(stage.kind, "batch") != 0 || (stage.arguments.items[0].kind == DT_STAGE_INT && stage.arguments.items[0].i > 0);
    if (!positive) {
        dt_elaborator_error(e, x->b->span, "batch takes the number of rows for each replica, at least 1");
        return dt_poison();
    }
    dt_pipeline *longer = DT_NEW(e->arena, dt_pipeline);
    longer->location = source.pipeline->location;
    for (size_t i = 0; i < source.pipeline->stages.n; i++) dt_list_push(e->arena, &longer->stages, source.pipeline->stages.items[i]);
    dt_list_push(e->arena, &longer->stages, stage);
    return (dt_object){.kind = DT_OBJECT_PIPELINE, .pipeline = longer};
}

void dt_elaborate_data(dt_elaborator *e, const dt_declaration *d, const dt_pipeline *pipeline) {
    dt_pipeline named = {.name = d->name, .location = dt_elaborator_location(e, d->span)};
    int n_functions = 0;
    for (size_t i = 0; i < pipeline->stages.n; i++) {
        dt_stage stage = pipeline->stages.items[i];
        if (strcmp(stage.kind, "batch") == 0 && stage.arguments.items[0].i > e->largest_batch) e->largest_batch = stage.arguments.items[0].i;
        for (size_t k = 0; k < stage.arguments.n; k++) {
            dt_stage_argument *argument = &stage.arguments.items[k];
            if (argument->kind != DT_STAGE_FUNCTION) continue;
            dt_function *function = dt_module_find_function(e->module, argument->s);
            if (strncmp(argument->s, "unnamed/", 8) == 0) { /* compiled while the pipeline had no name */
                function->name = dt_arena_format(e->arena, "%s/%s%d", d->name, stage.kind, n_functions++);
                argument->s = function->name;
            }
        }
        dt_list_push(e->arena, &named.stages, stage);
    }
    dt_list_push(e->arena, &e->module->pipelines, named);
}
