/* elaborate_data: pipelines. They are written down, not run: sources and stages with their arguments become the module's record, which the runtime
 * gives meaning. Only the functions of map and filter are compiled here, as functions over one example; what an example is, their parameters say,
 * since no data file is opened at compile time. */
#include "frontends/dsl/elaborator.h"

#include "abi/pipeline.h"

#include <string.h>

/* ---- sources ---- */

static const char *const source_names[] = {
#define X(name, most_files, fewest, most) #name,
    DT_SOURCES(X)
#undef X
};
enum {
    N_SOURCES = sizeof source_names / sizeof *source_names
};

const char *dt_list_sources(dt_elaborator *e) {
    const char *list = source_names[0];
    for (int i = 1; i < N_SOURCES; i++) list = dt_arena_format(e->arena, "%s, %s", list, source_names[i]);
    return list;
}

/* What the source may be given by name; *n of them. */
static const char **list_options(dt_elaborator *e, const char *source, size_t *n) {
    int n_all;
    const dt_source_option *all = dt_source_options(&n_all);
    const char **names = DT_NEW_ARRAY(e->arena, const char *, n_all);
    *n = 0;
    for (int i = 0; i < n_all; i++)
        if (strcmp(all[i].source, source) == 0) names[(*n)++] = all[i].name;
    return names;
}

/* "stretch, crop, pad" */
static const char *list_choices(dt_elaborator *e, const dt_source_option *option) {
    const char *list = "";
    for (const char *choice = option->choices; *choice != 0; choice += strcspn(choice, " "), choice += *choice == ' ')
        list = dt_arena_format(e->arena, "%s%s%.*s", list, *list != 0 ? ", " : "", (int)strcspn(choice, " "), choice);
    return list;
}

dt_object dt_source_choice(dt_elaborator *e, const char *source, const dt_argument *argument) {
    const dt_source_option *option = argument->name != NULL ? dt_source_option_find(source, argument->name) : NULL;
    if (option == NULL || *option->choices == 0 || argument->value->kind != DT_EXPRESSION_NAME) return dt_object_none();
    const char *word = argument->value->text;
    if (dt_source_option_allows(option, word)) return (dt_object){.kind = DT_OBJECT_CHOICE, .text = word};
    dt_elaborator_error(e, argument->value->span, "%s is one of %s, not %s", option->name, list_choices(e, option), word);
    return dt_poison();
}

static bool add_source_file(dt_elaborator *e, const dt_source_row *row, dt_stage_declaration *stage, const dt_actual *actual) {
    dt_object o = actual->object;
    if (o.kind == DT_OBJECT_STRING) {
        dt_stage_argument file = {.kind = DT_STAGE_STRING, .s = o.text};
        dt_list_push(e->arena, &stage->arguments, file);
        return true;
    }
    size_t n_options;
    const char **options = list_options(e, row->name, &n_options);
    dt_diagnostic *error = dt_elaborator_error(e, actual->span, "%s takes names of files, not %s", row->name, dt_object_describe(e->arena, o));
    if (n_options > 0 && o.kind == DT_OBJECT_INT) dt_diagnostic_help(error, "write %s: %lld", options[0], (long long)o.i);
    return false;
}

static bool add_source_option(dt_elaborator *e, const dt_source_option *option, dt_stage_declaration *stage, const dt_actual *actual) {
    dt_object o = actual->object;
    dt_stage_argument argument = {.name = option->name, .kind = DT_STAGE_INT, .i = o.i};
    const char *given = dt_object_describe(e->arena, o);
    for (size_t i = 0; i < stage->arguments.n; i++) {
        const char *before = stage->arguments.items[i].name;
        if (before != NULL && strcmp(before, option->name) == 0)
            return dt_elaborator_error(e, actual->span, "%s gets %s twice", option->source, option->name), false;
    }
    if (*option->choices != 0 && o.kind != DT_OBJECT_CHOICE)
        return dt_elaborator_error(e, actual->span, "%s is one of %s, not %s", option->name, list_choices(e, option), given), false;
    if (*option->choices == 0 && o.kind != DT_OBJECT_INT)
        return dt_elaborator_error(e, actual->span, "%s is a whole number, not %s", option->name, given), false;
    if (*option->choices == 0 && (o.i < option->least || o.i > option->most))
        return dt_elaborator_error(e, actual->span, "%s is a whole number from %lld to %lld, not %s", option->name, (long long)option->least,
                                   (long long)option->most, given),
               false;
    if (o.kind == DT_OBJECT_CHOICE) argument.kind = DT_STAGE_STRING, argument.s = o.text;
    dt_list_push(e->arena, &stage->arguments, argument);
    return true;
}

/* One argument of a source: the name of a file, or an option. false: reported. */
static bool add_source_argument(dt_elaborator *e, const dt_source_row *row, dt_stage_declaration *stage, const dt_actual *actual) {
    if (dt_is_poison(actual->object)) return false;
    if (actual->name == NULL && row->most_files > 0) return add_source_file(e, row, stage, actual);
    size_t n_options;
    const char **options = list_options(e, row->name, &n_options);
    const dt_source_option *option = dt_source_option_find(row->name, actual->name != NULL ? actual->name : options[0]);
    if (option != NULL) return add_source_option(e, option, stage, actual);
    dt_diagnostic *error = dt_elaborator_error(e, actual->span, "%s has no argument %s", row->name, actual->name);
    if (n_options > 0) dt_diagnostic_suggest(error, actual->name, options, n_options);
    return false;
}

/* An option that says something of another one stands beside it. false: reported. */
static bool check_source_options(dt_elaborator *e, const dt_source_row *row, const dt_stage_declaration *stage, const dt_actual *actuals, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const dt_source_option *option = actuals[i].name != NULL ? dt_source_option_find(row->name, actuals[i].name) : NULL;
        bool is_there = option == NULL || *option->other == 0;
        for (size_t k = 0; k < stage->arguments.n && !is_there; k++)
            is_there = stage->arguments.items[k].name != NULL && strcmp(stage->arguments.items[k].name, option->other) == 0;
        if (is_there) continue;
        dt_diagnostic *error = dt_elaborator_error(e, actuals[i].span, "%s says nothing without %s", option->name, option->other);
        dt_diagnostic_help(error, "give %s: …, too, or leave out %s", option->other, option->name);
        return false;
    }
    return true;
}

static bool add_source_arguments(dt_elaborator *e, const dt_source_row *row, dt_stage_declaration *stage, const dt_actual *actuals, size_t n) {
    size_t n_files = 0;
    for (size_t i = 0; i < n; i++) {
        if (!add_source_argument(e, row, stage, &actuals[i])) return false;
        n_files += actuals[i].name == NULL && row->most_files > 0;
    }
    const char *wrong = NULL;
    if (row->most_files == 0 && n == 0)
        wrong = dt_arena_format(e->arena, "%s needs a whole number", row->name);
    else if (row->most_files == 0)
        return true;
    else if (n_files == 0)
        wrong = dt_arena_format(e->arena, "%s needs the name of a file", row->name);
    else if (n_files > (size_t)row->most_files)
        wrong = dt_arena_format(e->arena, "%s takes %d file%s, here are %zu", row->name, row->most_files, dt_plural(row->most_files), n_files);
    else if (stage->arguments.items[0].name != NULL)
        wrong = dt_arena_format(e->arena, "%s begins with the name of a file", row->name);
    if (wrong != NULL) dt_elaborator_fail(e, "%s", wrong);
    return wrong == NULL;
}

dt_object dt_make_source(dt_elaborator *e, const char *kind, const dt_actual *actuals, size_t n, dt_span span) {
    const dt_source_row *row = dt_source_row_find(kind);
    dt_stage_declaration stage = {.kind = kind, .location = dt_elaborator_location(e, span)};
    if (!add_source_arguments(e, row, &stage, actuals, n) || !check_source_options(e, row, &stage, actuals, n)) return dt_poison();
    dt_pipeline_declaration *pipeline = DT_NEW(e->arena, dt_pipeline_declaration);
    pipeline->location = stage.location;
    dt_list_push(e->arena, &pipeline->stages, stage);
    return (dt_object){.kind = DT_OBJECT_PIPELINE, .pipeline = pipeline};
}

static bool is_zip(const dt_stage_declaration *stage) { return strcmp(stage->kind, DT_STAGE_ZIP) == 0; }

/* How many stages follow the source, or those that zip joined. */
static size_t count_stages_after_source(const dt_pipeline_declaration *pipeline) {
    size_t n = 0;
    for (size_t i = 1; i < pipeline->stages.n; i++) n += !is_zip(&pipeline->stages.items[i]);
    return n;
}

static void push_zipped(dt_elaborator *e, dt_pipeline_declaration *joined, const dt_stage_declaration *source) {
    dt_stage_declaration zip = {.kind = DT_STAGE_ZIP, .location = source->location};
    dt_stage_argument kind = {.name = "source", .kind = DT_STAGE_STRING, .s = source->kind};
    dt_list_push(e->arena, &zip.arguments, kind);
    for (size_t i = 0; i < source->arguments.n; i++) dt_list_push(e->arena, &zip.arguments, source->arguments.items[i]);
    dt_list_push(e->arena, &joined->stages, zip);
}

dt_object dt_zip_sources(dt_elaborator *e, const dt_pipeline_declaration *a, const dt_pipeline_declaration *b) {
    const dt_pipeline_declaration *longer = count_stages_after_source(a) > 0 ? a : b;
    size_t n_more = count_stages_after_source(longer);
    if (n_more > 0) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "zip joins sources, and one has the stage %s", longer->stages.items[longer->stages.n - n_more].kind);
        dt_diagnostic_help(error, "write zip(…, …) | %s(…)", longer->stages.items[longer->stages.n - n_more].kind);
        return dt_poison();
    }
    dt_pipeline_declaration *joined = DT_NEW(e->arena, dt_pipeline_declaration);
    joined->location = a->location;
    for (size_t i = 0; i < a->stages.n; i++) dt_list_push(e->arena, &joined->stages, a->stages.items[i]);
    for (size_t i = 0; i < b->stages.n; i++)
        if (is_zip(&b->stages.items[i]))
            dt_list_push(e->arena, &joined->stages, b->stages.items[i]);
        else
            push_zipped(e, joined, &b->stages.items[i]);
    return (dt_object){.kind = DT_OBJECT_PIPELINE, .pipeline = joined};
}

/* ---- functions over one example ---- */

static bool add_example_inputs(dt_elaborator *e, const dt_pipeline_declaration *before, const dt_callee *callee, const char *kind,
                               dt_actuals *inputs) {
    for (size_t i = 0; i < callee->callable->parameters.n; i++) {
        const dt_parameter *parameter = &callee->callable->parameters.items[i];
        dt_dtype dtype;
        dt_shape shape;
        bool is_tensor = parameter->type != NULL && dt_type_is_tensor(parameter->type);
        if (!is_tensor && dt_pipeline_may_give_text(before, (int)i)) {
            dt_actual text = {.span = parameter->span, .object = dt_text_component(e, parameter->name, (int)i)};
            e->example->has_text = true;
            dt_list_push(e->arena, inputs, text);
            continue;
        }
        if (!is_tensor) {
            dt_diagnostic *error = dt_elaborator_error(e, parameter->span, "%s compiles its function, so %s needs a type", kind, parameter->name);
            dt_diagnostic_help(error, "say what an example holds, without B: %s: u8[28, 28]", parameter->name);
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
        dt_example_add_input(e, (int)i, NULL, input);
        dt_list_push(e->arena, inputs, actual);
    }
    return true;
}

static bool add_example_results(dt_elaborator *e, const char *kind, dt_object result) {
    dt_object lone[1] = {result};
    const dt_object *objects = result.kind == DT_OBJECT_TUPLE ? result.items->items : lone;
    size_t n = result.kind == DT_OBJECT_TUPLE ? result.items->n : 1;
    for (size_t i = 0; i < n; i++) {
        bool is_text = objects[i].kind == DT_OBJECT_TEXT && strcmp(kind, "map") == 0;
        dt_object tensor = is_text ? objects[i] : dt_to_tensor(e, objects[i], DT_N_DTYPES);
        if (dt_is_poison(tensor)) return false;
        if (strcmp(kind, "map") == 0) dt_list_push(e->arena, &e->example->outputs, tensor);
        if (is_text) continue;
        dt_result named = {dt_arena_format(e->arena, "result%zu", e->function->results.n), tensor.value};
        dt_list_push(e->arena, &e->function->results, named);
    }
    if (strcmp(kind, "filter") != 0) return true;
    dt_value *first = e->function->results.items[0].value;
    if (n == 1 && first->dtype == DT_BOOL && first->shape.rank == 0) return true;
    dt_elaborator_fail(e, "the function of filter gives one bool for an example, this one %s", dt_object_describe(e->arena, result));
    return false;
}

/* Compiles what map and filter call, and gives it to the stage. false: reported. */
static bool add_function(dt_elaborator *e, const dt_pipeline_declaration *before, dt_stage_declaration *stage, const dt_actual *actual) {
    const char *kind = stage->kind, *name = dt_arena_format(e->arena, "unnamed/%s%zu", kind, e->module->functions.n);
    dt_object object = actual->object;
    dt_span span = actual->span;
    bool declared = object.kind == DT_OBJECT_FUNCTION && object.callee->callable != NULL && object.callee->kind == DT_DECLARATION_FN;
    if (!declared) {
        if (!dt_is_poison(object)) dt_elaborator_error(e, span, "%s takes a fn over one example, not %s", kind, dt_object_describe(e->arena, object));
        return false;
    }
    dt_example_work example = {0};
    dt_function *function = e->function;
    dt_frame frame = {.callee = object.callee,
                      .file = object.callee->file,
                      .scope = object.callee->scope,
                      .call = span,
                      .stream = dt_hash_bytes(name, strlen(name), DT_HASH_SEED)};
    e->function = dt_module_add_function(e->module, name, DT_ROLE_EXAMPLE);
    e->example = &example;
    dt_actuals inputs = {0};
    dt_push_frame(e, &frame);
    bool compiled = add_example_inputs(e, before, object.callee, kind, &inputs);
    dt_pop_frame(e);
    if (compiled) {
        dt_frame caller = {.file = e->frame->file, .scope = e->frame->scope, .call = span, .stream = frame.stream};
        dt_push_frame(e, &caller);
        dt_object result = dt_call(e, object, inputs.items, inputs.n, span);
        compiled = !dt_is_poison(result) && add_example_results(e, kind, result);
        dt_pop_frame(e);
    }
    bool is_empty = e->function->inputs.n == 0 && e->function->results.n == 0; /* it computes texts alone */
    if (is_empty) e->module->functions.n--;
    dt_stage_argument written = {.kind = DT_STAGE_FUNCTION, .s = name};
    if (compiled && !is_empty) dt_list_push(e->arena, &stage->arguments, written);
    if (compiled && example.has_text) dt_write_operands(e, stage);
    e->function = function;
    e->example = NULL;
    return compiled;
}

/* ---- stages ---- */

static bool unknown_stage(dt_elaborator *e, const dt_expression *x) {
    const char *names[DT_N_STAGE_KINDS];
    for (int i = 0; i < DT_N_STAGE_KINDS; i++) names[i] = dt_stage_name((dt_stage_kind)i);
    dt_diagnostic *error = dt_elaborator_error(e, x->span, "there is no stage %s", x->a->text);
    dt_diagnostic_suggest(error, x->a->text, names, DT_N_STAGE_KINDS);
    return false;
}

/* The stages that a mistake of order would make pointless are refused with the line put right. */
static bool is_random(dt_elaborator *e, const dt_stage_declaration *stage) {
    if (stage->arguments.n == 0 || stage->arguments.items[0].kind != DT_STAGE_FUNCTION) return false;
    const dt_function *function = dt_module_find_function(e->module, stage->arguments.items[0].s);
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->op->class == DT_CLASS_RANDOM) return true;
    return false;
}

/* The first stage that windows may not come after; NULL: there is none. */
static const char *stage_before_windows(const dt_pipeline_declaration *pipeline) {
    for (size_t i = 1; i < pipeline->stages.n; i++) {
        const dt_stage_declaration *stage = &pipeline->stages.items[i];
        if (!is_zip(stage) && strcmp(stage->kind, "take") != 0 && strcmp(stage->kind, "skip") != 0) return stage->kind;
    }
    return NULL;
}

static bool check_order(dt_elaborator *e, const dt_pipeline_declaration *pipeline, const char *kind, dt_span span) {
    bool batched = false;
    bool is_interleave = strcmp(kind, "interleave") == 0;
    if (is_interleave && pipeline->stages.n > 1) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "interleave comes after %s: it takes files in turn as the source has them",
                                                   pipeline->stages.items[pipeline->stages.n - 1].kind);
        dt_diagnostic_help(error, "write %s(…) | interleave(…) | …", pipeline->stages.items[0].kind);
        return false;
    }
    const char *between = strcmp(kind, "windows") == 0 ? stage_before_windows(pipeline) : NULL;
    if (between != NULL) {
        dt_diagnostic *error =
            dt_elaborator_error(e, span, "windows comes after %s: it joins neighbours as the source has them, or a take or skip of it", between);
        dt_diagnostic_help(error, "write %s(…) | windows(…) | %s(…), which then works on whole windows", pipeline->stages.items[0].kind, between);
        return false;
    }
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
        if (strcmp(kind, "skip") == 0 && strcmp(before, "shuffle") == 0) {
            dt_diagnostic *warning =
                dt_elaborator_warning(e, DT_WARN_SKIP_AFTER_SHUFFLE, span,
                                      "skip comes after shuffle, whose order is another in each epoch: it leaves out other examples each time");
            dt_diagnostic_help(warning, "where some examples are kept apart, write … | skip(…) | shuffle(…)");
        }
    }
    if (!batched && strcmp(kind, "prefetch") == 0) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "prefetch comes before batch: it keeps whole batches ready");
        dt_diagnostic_help(error, "write … | batch(…) | prefetch(…)");
        return false;
    }
    if (batched && strcmp(kind, "prefetch") != 0) {
        dt_diagnostic *error =
            dt_elaborator_error(e, span, "%s comes after batch: stages before it work on examples, only prefetch comes after", kind);
        dt_diagnostic_help(error, "write … | %s(…) | batch(…)", kind);
        return false;
    }
    return true;
}

static bool add_int(dt_elaborator *e, const dt_stage_argument_row *row, dt_stage_declaration *stage, const dt_actual *actual) {
    dt_object n = actual->object;
    if (dt_is_poison(n)) return false;
    if (n.kind == DT_OBJECT_INT && n.i > row->most) {
        dt_elaborator_error(e, actual->span, "%s(%s) takes at most %lld, not %lld", stage->kind, row->name, (long long)row->most, (long long)n.i);
        return false;
    }
    if (n.kind != DT_OBJECT_INT || n.i < row->least) {
        const char *given = n.kind == DT_OBJECT_INT ? dt_arena_format(e->arena, "%lld", (long long)n.i) : dt_object_describe(e->arena, n);
        dt_diagnostic *error = dt_elaborator_error(e, actual->span, "%s(%s) takes a whole number, %lld or more, not %s", stage->kind, row->name,
                                                   (long long)row->least, given);
        if (n.flexible) dt_diagnostic_help(error, "a launch value is not known at compile time: use an option");
        return false;
    }
    dt_stage_argument count = {.name = stage->arguments.n > 0 ? row->name : NULL, .kind = DT_STAGE_INT, .i = n.i};
    dt_list_push(e->arena, &stage->arguments, count);
    return true;
}

static bool add_bool(dt_elaborator *e, const dt_stage_argument_row *row, dt_stage_declaration *stage, const dt_actual *actual) {
    dt_object o = actual->object;
    if (o.kind != DT_OBJECT_BOOL && !dt_is_poison(o))
        dt_elaborator_error(e, actual->span, "%s(%s) is true or false, not %s", stage->kind, row->name, dt_object_describe(e->arena, o));
    if (o.kind != DT_OBJECT_BOOL) return false;
    dt_stage_argument argument = {.name = row->name, .kind = DT_STAGE_INT, .i = o.b};
    dt_list_push(e->arena, &stage->arguments, argument);
    return true;
}

static bool add_file(dt_elaborator *e, const dt_stage_argument_row *row, dt_stage_declaration *stage, const dt_actual *actual) {
    dt_object o = actual->object;
    if (o.kind != DT_OBJECT_STRING && !dt_is_poison(o))
        dt_elaborator_error(e, actual->span, "%s(%s) takes the name of a file, not %s", stage->kind, row->name, dt_object_describe(e->arena, o));
    if (o.kind != DT_OBJECT_STRING) return false;
    dt_stage_argument argument = {.name = stage->arguments.n > 0 ? row->name : NULL, .kind = DT_STAGE_STRING, .s = o.text};
    dt_list_push(e->arena, &stage->arguments, argument);
    return true;
}

static bool add_argument(dt_elaborator *e, const dt_pipeline_declaration *before, const dt_stage_argument_row *row, dt_stage_declaration *stage,
                         const dt_actual *actual) {
    switch (row->takes) {
    case DT_STAGE_TAKES_INT: return add_int(e, row, stage, actual);
    case DT_STAGE_TAKES_BOOL: return add_bool(e, row, stage, actual);
    case DT_STAGE_TAKES_FILE: return add_file(e, row, stage, actual);
    case DT_STAGE_TAKES_FUNCTION: break;
    }
    return add_function(e, before, stage, actual);
}

/* Which argument of the stage each row gets; NULL: its default. false: reported. */
static bool match_stage_arguments(dt_elaborator *e, const dt_expression *x, const dt_stage_argument_row *rows, int n, const dt_argument **matched) {
    static const char *const numbers[] = {"no arguments", "one argument", "two arguments", "three arguments", "four arguments"};
    const char **names = DT_NEW_ARRAY(e->arena, const char *, n);
    for (int i = 0; i < n; i++) names[i] = rows[i].name;
    for (size_t k = 0; k < x->arguments.n; k++) {
        const dt_argument *a = &x->arguments.items[k];
        int at = 0;
        while (a->name != NULL && at < n && strcmp(names[at], a->name) != 0) at++;
        if (a->name == NULL) at = k < (size_t)n ? (int)k : n;
        if (at == n && a->name != NULL && n > 0) {
            dt_diagnostic_suggest(dt_elaborator_error(e, a->span, "%s has no argument %s", x->a->text, a->name), a->name, names, (size_t)n);
            return false;
        }
        if (at == n) return dt_elaborator_error(e, a->span, "%s takes %s", x->a->text, numbers[n]), false;
        if (matched[at] != NULL) return dt_elaborator_error(e, a->span, "%s gets %s twice", x->a->text, names[at]), false;
        matched[at] = a;
    }
    for (int i = 0; i < n; i++)
        if (matched[i] == NULL && rows[i].standard == DT_REQUIRED)
            return dt_elaborator_error(e, x->span, "%s is called without %s", x->a->text, names[i]), false;
    return true;
}

/* Every argument that the stage's rows name, in their order. false: reported. */
static bool stage_arguments(dt_elaborator *e, const dt_pipeline_declaration *before, dt_stage_kind kind, const dt_expression *x,
                            dt_stage_declaration *stage) {
    int n;
    const dt_stage_argument_row *rows = dt_stage_argument_rows(kind, &n);
    const dt_argument **matched = DT_NEW_ARRAY(e->arena, const dt_argument *, n);
    if (!match_stage_arguments(e, x, rows, n, matched)) return false;
    for (int i = 0; i < n; i++) {
        const dt_argument *a = matched[i];
        dt_object standard = rows[i].takes == DT_STAGE_TAKES_BOOL ? dt_object_bool(rows[i].standard != 0) : dt_object_int(rows[i].standard);
        dt_actual actual = {.span = x->span, .object = standard};
        if (a != NULL)
            actual = (dt_actual){.name = a->name, .span = a->span, .object = dt_settle(e, dt_value_of(e, a->value)), .written = a->value};
        else if (rows[i].standard == DT_AS_FIRST)
            actual.object = dt_object_int(stage->arguments.items[0].i);
        if (!add_argument(e, before, &rows[i], stage, &actual)) return false;
    }
    return true;
}

/* The stage that a call names. false: reported. */
static bool make_stage(dt_elaborator *e, const dt_pipeline_declaration *before, const dt_expression *x, dt_stage_declaration *stage) {
    if (x->kind != DT_EXPRESSION_CALL || x->a->kind != DT_EXPRESSION_NAME) {
        dt_diagnostic_help(dt_elaborator_error(e, x->span, "a stage is called: … | shuffle(1000)"), "| joins a source of data with its stages");
        return false;
    }
    dt_stage_kind kind = dt_stage_kind_from_name(x->a->text);
    *stage = (dt_stage_declaration){.kind = x->a->text, .location = dt_elaborator_location(e, x->span)};
    if (!check_order(e, before, stage->kind, x->span)) return false;
    return kind < DT_N_STAGE_KINDS ? stage_arguments(e, before, kind, x, stage) : unknown_stage(e, x);
}

/* What stands to the left of |. A source that is none is told as such, not as some unknown name. */
static dt_object evaluate_source(dt_elaborator *e, const dt_expression *x) {
    dt_object object;
    bool is_call = x->kind == DT_EXPRESSION_CALL && x->a->kind == DT_EXPRESSION_NAME;
    if (!is_call || dt_find_binding(e->frame->scope, x->a->text) != NULL || dt_find_top(e, e->frame->file, x->a->text, &object))
        return dt_value_of(e, x);
    dt_diagnostic *error = dt_elaborator_error(e, x->a->span, "there is no source %s", x->a->text);
    dt_diagnostic_help(error, "the sources are %s", dt_list_sources(e));
    return dt_poison();
}

dt_object dt_evaluate_pipe(dt_elaborator *e, const dt_expression *x) {
    dt_object source = evaluate_source(e, x->a);
    if (dt_is_poison(source)) return source;
    if (source.kind != DT_OBJECT_PIPELINE) {
        dt_diagnostic *error = dt_elaborator_error(e, x->a->span, "| joins data with a stage, this is %s", dt_object_describe(e->arena, source));
        dt_diagnostic_help(error, "begin with a source, %s; or joins two bools", dt_list_sources(e));
        return dt_poison();
    }
    e->at = x->b->span;
    dt_stage_declaration stage;
    if (!make_stage(e, source.pipeline, x->b, &stage)) return dt_poison();
    dt_pipeline_declaration *longer = DT_NEW(e->arena, dt_pipeline_declaration);
    longer->location = source.pipeline->location;
    for (size_t i = 0; i < source.pipeline->stages.n; i++) dt_list_push(e->arena, &longer->stages, source.pipeline->stages.items[i]);
    dt_list_push(e->arena, &longer->stages, stage);
    return (dt_object){.kind = DT_OBJECT_PIPELINE, .pipeline = longer};
}

void dt_elaborate_data(dt_elaborator *e, const dt_declaration *d, const dt_pipeline_declaration *pipeline) {
    dt_pipeline_declaration named = {.name = d->name, .location = dt_elaborator_location(e, d->span)};
    int n_functions = 0;
    for (size_t i = 0; i < pipeline->stages.n; i++) {
        dt_stage_declaration stage = pipeline->stages.items[i];
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
