/* text_form_parse: the module from its text, see text_form.h. Values come through the builder, so what parses has the types that the rows infer;
 * what remains to be checked is dt_verify's. Bad text of any kind ends in an error that names the place. */
#include "ir/loops.h"
#include "ir/reader.h"
#include "ir/text_form.h"

#include <limits.h>
#include <string.h>

/* A step as read: its functions stand further down. */
typedef struct step_names {
    const char *function, *report;
} step_names;

/* A row form's, likewise. */
typedef struct row_form_names {
    const char *of, *indices, *step, *sum, *update;
} row_form_names;

typedef struct parser {
    dt_reader r;
    dt_module *module;
    DT_LIST(step_names) steps;
    DT_LIST(row_form_names) row_forms;
    DT_LIST(const char *) row_inits; /* of the module's row_variables */
    const char *row_init;
} parser;

static dt_status *expect(parser *p, const char *symbol) {
    return dt_read_symbol(&p->r, symbol) ? NULL : dt_reader_error(&p->r, "expected %s", symbol);
}

static dt_status *expect_name(parser *p, const char *what, const char **name) {
    return dt_read_name(&p->r, name) ? NULL : dt_reader_error(&p->r, "expected %s", what);
}

static dt_status *expect_type(parser *p, dt_dtype *dtype, dt_shape *shape) {
    return dt_read_type(&p->r, dtype, shape) ? NULL : dt_reader_error(&p->r, "expected a type as f32[B, 3]");
}

/* One of `words`; its place goes to *word. */
static dt_status *expect_word_of(parser *p, const char *const *words, int n, int *word) {
    for (*word = 0; *word < n; ++*word)
        if (dt_read_keyword(&p->r, words[*word])) return NULL;
    const char *all = words[0];
    for (int i = 1; i < n; i++) all = dt_arena_format(p->r.arena, "%s%s%s", all, i + 1 < n ? ", " : " or ", words[i]);
    return dt_reader_error(&p->r, "expected %s", all);
}

static dt_status *expect_int(parser *p, const char *what, int *number) {
    int64_t wide;
    *number = 0;
    if (!dt_read_int(&p->r, &wide) || wide < INT_MIN || wide > INT_MAX) return dt_reader_error(&p->r, "expected %s", what);
    *number = (int)wide;
    return NULL;
}

/* "@file:line:column" where there is one; *there says so. */
static dt_status *parse_location(parser *p, dt_location *location, bool *there) {
    *location = (dt_location){0};
    *there = dt_read_symbol(&p->r, "@");
    if (!*there) return NULL;
    DT_TRY(expect_int(p, "the number of a file", &location->file));
    DT_TRY(expect(p, ":"));
    DT_TRY(expect_int(p, "a line", &location->line));
    DT_TRY(expect(p, ":"));
    return expect_int(p, "a column", &location->column);
}

static dt_status *parse_own_location(parser *p, dt_location *location) {
    bool there;
    return parse_location(p, location, &there);
}

/* ---- what surrounds functions ---- */

static dt_status *parse_file(parser *p) {
    int number;
    const char *name;
    DT_TRY(expect_int(p, "the number of the file", &number));
    if (number < 0 || (size_t)number != p->module->files.n) return dt_reader_error(&p->r, "files must be numbered 0, 1, 2, …");
    if (!dt_read_string(&p->r, &name)) return dt_reader_error(&p->r, "expected the file's name in quotes");
    dt_list_push(p->r.arena, &p->module->files, name);
    return NULL;
}

static dt_status *parse_shards(parser *p) {
    if (p->module->n_shards != 1) return dt_reader_error(&p->r, "the number of shards is given twice");
    if (!dt_read_int(&p->r, &p->module->n_shards) || !dt_shards_are_valid(p->module->n_shards))
        return dt_reader_error(&p->r, "expected a number of shards, which is a power of two from 1 to %d", DT_MOST_SHARDS);
    return NULL;
}

/* "shard(axis=1, groups=3)" */
static dt_status *parse_variable_shard(parser *p, dt_variable *variable) {
    if (!dt_read_keyword(&p->r, "shard")) return NULL;
    DT_TRY(expect(p, "("));
    if (!dt_read_keyword(&p->r, "axis")) return dt_reader_error(&p->r, "expected axis");
    DT_TRY(expect(p, "="));
    DT_TRY(expect_int(p, "an axis", &variable->shard_axis));
    DT_TRY(expect(p, ","));
    if (!dt_read_keyword(&p->r, "groups")) return dt_reader_error(&p->r, "expected groups");
    DT_TRY(expect(p, "="));
    DT_TRY(expect_int(p, "how many tensors are side by side", &variable->shard_groups));
    return expect(p, ")");
}

static dt_status *parse_variable(parser *p) {
    dt_variable variable = {.shard_axis = -1, .shard_groups = 1};
    int kind;
    DT_TRY(expect_name(p, "the variable's path", &variable.path));
    if (dt_module_find_variable(p->module, variable.path) != NULL) return dt_reader_error(&p->r, "there is a variable %s already", variable.path);
    DT_TRY(expect(p, ":"));
    DT_TRY(expect_type(p, &variable.dtype, &variable.shape));
    DT_TRY(expect_word_of(p, dt_variable_kind_names(), DT_N_VARIABLE_KINDS, &kind));
    variable.kind = (dt_variable_kind)kind;
    variable.trainable = dt_read_keyword(&p->r, "trainable");
    DT_TRY(parse_variable_shard(p, &variable));
    DT_TRY(parse_own_location(p, &variable.location));
    dt_module_add_variable(p->module, variable);
    return NULL;
}

static dt_status *parse_argument(parser *p, dt_stage_argument *argument) {
    dt_reader start = p->r;
    if (!dt_read_name(&p->r, &argument->name) || !dt_read_symbol(&p->r, "=")) {
        p->r = start;
        argument->name = NULL;
    }
    if (dt_read_keyword(&p->r, "function")) {
        argument->kind = DT_STAGE_FUNCTION;
        return expect_name(p, "a function's name", &argument->s);
    }
    argument->kind = DT_STAGE_STRING;
    if (dt_read_string(&p->r, &argument->s)) return NULL;
    start = p->r;
    argument->kind = DT_STAGE_INT;
    if (dt_read_int(&p->r, &argument->i) && (*p->r.at == '\0' || strchr(".eE", *p->r.at) == NULL)) return NULL;
    p->r = start;
    argument->kind = DT_STAGE_FLOAT;
    argument->i = 0;
    return dt_read_float(&p->r, &argument->f) ? NULL : dt_reader_error(&p->r, "expected a number, a string or a function");
}

static dt_status *parse_stage(parser *p, dt_stage_declaration *stage) {
    DT_TRY(expect_name(p, "a stage", &stage->kind));
    DT_TRY(expect(p, "("));
    while (!dt_read_symbol(&p->r, ")")) {
        dt_stage_argument argument = {0};
        if (stage->arguments.n > 0) DT_TRY(expect(p, ","));
        DT_TRY(parse_argument(p, &argument));
        dt_list_push(p->r.arena, &stage->arguments, argument);
    }
    return NULL;
}

/* A stage without a location has the pipeline's, which is the last one of the line. */
static dt_status *parse_pipeline(parser *p) {
    dt_pipeline_declaration pipeline = {0};
    DT_TRY(expect_name(p, "the pipeline's name", &pipeline.name));
    DT_LIST(bool) has_own = {0};
    bool own = false, last_there = false;
    dt_location last = {0};
    for (const char *symbol = "="; dt_read_symbol(&p->r, symbol); symbol = "|") {
        dt_stage_declaration stage = {0};
        DT_TRY(parse_stage(p, &stage));
        DT_TRY(parse_location(p, &stage.location, &own));
        dt_list_push(p->r.arena, &pipeline.stages, stage);
        dt_list_push(p->r.arena, &has_own, own);
    }
    DT_TRY(parse_location(p, &last, &last_there));
    if (!last_there && own) { /* the only location after the last stage is the pipeline's */
        last = pipeline.stages.items[pipeline.stages.n - 1].location;
        has_own.items[has_own.n - 1] = false;
    }
    pipeline.location = last;
    for (size_t i = 0; i < has_own.n; i++)
        if (!has_own.items[i]) pipeline.stages.items[i].location = last;
    dt_list_push(p->r.arena, &p->module->pipelines, pipeline);
    return NULL;
}

static dt_status *parse_layer(parser *p) {
    dt_layer layer = {0};
    DT_TRY(expect_name(p, "the layer's path", &layer.path));
    DT_TRY(expect_name(p, "the layer's kind", &layer.kind));
    DT_TRY(expect_int(p, "the layer's depth", &layer.depth));
    DT_TRY(expect_type(p, &layer.dtype, &layer.shape));
    if (!dt_read_keyword(&p->r, "parameters") || !dt_read_int(&p->r, &layer.n_parameters))
        return dt_reader_error(&p->r, "expected parameters and their number");
    if (!dt_read_keyword(&p->r, "trainable") || !dt_read_int(&p->r, &layer.n_trainable))
        return dt_reader_error(&p->r, "expected trainable and their number");
    DT_TRY(parse_own_location(p, &layer.location));
    dt_list_push(p->r.arena, &p->module->layers, layer);
    return NULL;
}

static dt_status *parse_aggregates(parser *p, dt_step *step) {
    DT_LIST(dt_aggregate_kind) kinds = {0};
    do {
        int kind;
        DT_TRY(expect_word_of(p, dt_aggregate_names(), DT_N_AGGREGATES, &kind));
        dt_list_push(p->r.arena, &kinds, (dt_aggregate_kind)kind);
    } while (dt_read_symbol(&p->r, ","));
    step->aggregates = kinds.items;
    step->n_aggregates = (int)kinds.n;
    return expect(p, ")");
}

static dt_status *parse_step(parser *p) {
    dt_step step = {0};
    step_names names = {0};
    DT_TRY(expect_name(p, "the step's name", &step.name));
    DT_TRY(expect(p, "="));
    DT_TRY(expect_name(p, "the step's function", &names.function));
    if (dt_read_keyword(&p->r, "report")) DT_TRY(expect_name(p, "the function of its reports", &names.report));
    if (dt_read_keyword(&p->r, "from")) DT_TRY(expect_name(p, "a pipeline", &step.data));
    if (dt_read_keyword(&p->r, "every") && (!dt_read_int(&p->r, &step.every) || step.every < 1))
        return dt_reader_error(&p->r, "expected after how many epochs");
    if (dt_read_keyword(&p->r, "aggregates")) {
        DT_TRY(expect(p, "("));
        DT_TRY(parse_aggregates(p, &step));
    }
    step.trains = dt_read_keyword(&p->r, "trains");
    DT_TRY(parse_own_location(p, &step.location));
    dt_list_push(p->r.arena, &p->module->steps, step);
    dt_list_push(p->r.arena, &p->steps, names);
    return NULL;
}

/* "indices train/indices": the name; `word` may be missing where *name is optional. */
static dt_status *parse_named(parser *p, const char *word, bool optional, const char **name) {
    *name = NULL;
    if (!dt_read_keyword(&p->r, word)) return optional ? NULL : dt_reader_error(&p->r, "expected %s and a function", word);
    return expect_name(p, "a function's name", name);
}

static dt_status *parse_slots(parser *p, dt_row_form *form) {
    if (!dt_read_keyword(&p->r, "slots")) return NULL;
    DT_TRY(expect(p, "("));
    do {
        const char *path;
        DT_TRY(expect_name(p, "a slot's path", &path));
        dt_list_push(p->r.arena, &form->slots, path);
    } while (dt_read_symbol(&p->r, ","));
    return expect(p, ")");
}

static dt_status *parse_row_form(parser *p) {
    dt_row_form form = {.gradient = -1};
    row_form_names names;
    DT_TRY(expect_name(p, "the table's path", &form.table));
    DT_TRY(parse_named(p, "of", false, &names.of));
    DT_TRY(parse_named(p, "indices", false, &names.indices));
    DT_TRY(expect_int(p, "the number of a result", &form.index));
    DT_TRY(parse_named(p, "step", false, &names.step));
    DT_TRY(expect_int(p, "the number of an input", &form.rows));
    if (dt_read_keyword(&p->r, "gradient")) {
        DT_TRY(expect_int(p, "the number of a result", &form.gradient));
        if (!dt_read_keyword(&p->r, "numbers")) return dt_reader_error(&p->r, "expected numbers");
        DT_TRY(expect_int(p, "the number of a result", &form.first_number));
        DT_TRY(expect_int(p, "how many numbers there are", &form.n_numbers));
    }
    DT_TRY(parse_named(p, "sum", true, &names.sum));
    DT_TRY(parse_named(p, "update", form.gradient < 0, &names.update));
    DT_TRY(parse_slots(p, &form));
    if (dt_read_keyword(&p->r, "moves") && !dt_read_string(&p->r, &form.moves)) return dt_reader_error(&p->r, "expected a text in quotes");
    DT_TRY(parse_own_location(p, &form.location));
    dt_list_push(p->r.arena, &p->module->row_forms, form);
    dt_list_push(p->r.arena, &p->row_forms, names);
    return NULL;
}

static dt_status *parse_row_variable(parser *p) {
    dt_row_variable variable = {0};
    const char *init;
    DT_TRY(expect_name(p, "the variable's path", &variable.path));
    DT_TRY(parse_named(p, "init", false, &init));
    dt_list_push(p->r.arena, &p->module->row_variables, variable);
    dt_list_push(p->r.arena, &p->row_inits, init);
    return NULL;
}

static dt_status *parse_row_init(parser *p) { return expect_name(p, "a function's name", &p->row_init); }

static dt_status *resolve(parser *p, const char *who, const char *name, dt_function **function) {
    *function = NULL;
    if (name == NULL) return NULL;
    *function = dt_module_find_function(p->module, name);
    return *function != NULL ? NULL : dt_reader_error(&p->r, "%s names the function %s, which does not exist", who, name);
}

static dt_status *resolve_all(parser *p) {
    for (size_t i = 0; i < p->steps.n; i++) {
        DT_TRY(resolve(p, "a step", p->steps.items[i].function, &p->module->steps.items[i].function));
        DT_TRY(resolve(p, "a step", p->steps.items[i].report, &p->module->steps.items[i].report));
    }
    for (size_t i = 0; i < p->row_forms.n; i++) {
        const row_form_names *names = &p->row_forms.items[i];
        dt_row_form *form = &p->module->row_forms.items[i];
        DT_TRY(resolve(p, "a row form", names->of, &form->of));
        DT_TRY(resolve(p, "a row form", names->indices, &form->indices));
        DT_TRY(resolve(p, "a row form", names->step, &form->step));
        DT_TRY(resolve(p, "a row form", names->sum, &form->sum));
        DT_TRY(resolve(p, "a row form", names->update, &form->update));
    }
    for (size_t i = 0; i < p->row_inits.n; i++) DT_TRY(resolve(p, "a row variable", p->row_inits.items[i], &p->module->row_variables.items[i].init));
    return resolve(p, "row_init", p->row_init, &p->module->row_init);
}

/* ---- functions ---- */

/* Most operands are defined just before. */
static dt_value *find_value(const dt_function *function, int id) {
    for (dt_value *value = function->last; value != NULL; value = value->previous)
        if (value->id == id) return value;
    return NULL;
}

static dt_status *parse_use(parser *p, const dt_function *function, dt_value **value) {
    int id;
    DT_TRY(expect(p, "%"));
    DT_TRY(expect_int(p, "the number of a value", &id));
    *value = id >= 0 ? find_value(function, id) : NULL;
    return *value != NULL ? NULL : dt_reader_error(&p->r, "%%%d is not defined", id);
}

/* What stands left of "=", or before an input's place. */
typedef struct definition {
    int id;
    const char *name;
    dt_dtype dtype;
    dt_shape shape;
} definition;

/* Behind the "%". */
static dt_status *parse_definition(parser *p, const dt_function *function, definition *definition) {
    DT_TRY(expect_int(p, "the number of a value", &definition->id));
    if (definition->id < 0 || definition->id == INT_MAX) return dt_reader_error(&p->r, "a value has a number from 0");
    if (find_value(function, definition->id) != NULL) return dt_reader_error(&p->r, "%%%d is defined twice", definition->id);
    definition->name = NULL;
    (void)dt_read_name(&p->r, &definition->name);
    DT_TRY(expect(p, ":"));
    return expect_type(p, &definition->dtype, &definition->shape);
}

static dt_status *parse_distribution(parser *p, dt_distribution *distribution) {
    if (!dt_read_symbol(&p->r, "{")) return NULL;
    if (dt_read_keyword(&p->r, "replicated")) {
        distribution->kind = DT_REPLICATED;
    } else if (dt_read_keyword(&p->r, "split")) {
        distribution->kind = DT_SPLIT;
        DT_TRY(expect(p, "("));
        DT_TRY(expect_int(p, "an axis", &distribution->axis));
        DT_TRY(expect(p, ")"));
    } else if (dt_read_keyword(&p->r, "partial")) {
        distribution->kind = DT_PARTIAL;
        DT_TRY(expect(p, "("));
        distribution->combiner = DT_COMBINE_SUM;
        while (distribution->combiner < DT_COMBINE_ARGMAX && !dt_read_keyword(&p->r, dt_combiner_name(distribution->combiner)))
            distribution->combiner++;
        if (distribution->combiner == DT_COMBINE_ARGMAX) return dt_reader_error(&p->r, "expected sum, max or min");
        DT_TRY(expect(p, ")"));
    } else {
        return dt_reader_error(&p->r, "expected replicated, split or partial");
    }
    return expect(p, "}");
}

/* "{replicated} recompute 2 @0:14:9 @0:24:5" */
static dt_status *parse_tail(parser *p, dt_value *value) {
    DT_TRY(parse_distribution(p, &value->distribution));
    value->distribution.sharded = dt_read_keyword(&p->r, "sharded");
    value->recompute = 0;
    if (dt_read_keyword(&p->r, "recompute")) {
        DT_TRY(expect_int(p, "the number of a call", &value->recompute));
        if (value->recompute < 1) return dt_reader_error(&p->r, "calls that are computed again have numbers from 1");
    }
    DT_LIST(dt_location) locations = {0};
    for (;;) {
        dt_location location;
        bool there;
        DT_TRY(parse_location(p, &location, &there));
        if (!there) break;
        if (location.file < 0 || (size_t)location.file >= p->module->files.n) return dt_reader_error(&p->r, "there is no file %d", location.file);
        dt_list_push(p->r.arena, &locations, location);
    }
    value->locations = locations.items;
    value->n_locations = (int)locations.n;
    return NULL;
}

static dt_status *parse_inputs(parser *p, dt_function *function) {
    DT_TRY(expect(p, "("));
    while (!dt_read_symbol(&p->r, ")")) {
        definition definition;
        if (function->inputs.n > 0) DT_TRY(expect(p, ","));
        DT_TRY(expect(p, "%"));
        DT_TRY(parse_definition(p, function, &definition));
        if (definition.name == NULL) return dt_reader_error(&p->r, "an input needs a name");
        dt_value *input = dt_build_input(function, definition.name, definition.dtype, definition.shape, (dt_location){0});
        input->id = definition.id;
        DT_TRY(parse_tail(p, input));
    }
    return NULL;
}

/* "op(%1, %2, axis=1)" */
static dt_status *parse_call(parser *p, dt_function *function, dt_value **value) {
    const char *name;
    DT_TRY(expect_name(p, "an op", &name));
    const dt_op *op = dt_op_find(name);
    if (op == NULL) return dt_reader_error(&p->r, "there is no op %s", name);
    DT_TRY(expect(p, "("));
    DT_LIST(dt_value *) operands = {0};
    for (bool more = true; more;) {
        dt_reader start = p->r;
        if (!dt_read_symbol(&p->r, "%")) break;
        p->r = start;
        dt_value *operand;
        DT_TRY(parse_use(p, function, &operand));
        dt_list_push(p->r.arena, &operands, operand);
        more = dt_read_symbol(&p->r, ",");
    }
    dt_attribute *attributes = DT_NEW_ARRAY(p->r.arena, dt_attribute, op->n_attributes);
    DT_TRY(dt_read_attributes(&p->r, op, attributes));
    DT_TRY(expect(p, ")"));
    dt_builder builder = {.function = function};
    return dt_reader_annotate(&p->r, dt_build(&builder, op, operands.items, (int)operands.n, attributes, value));
}

static dt_status *parse_value(parser *p, dt_function *function) {
    definition definition = {.id = -1};
    bool defines = dt_read_symbol(&p->r, "%");
    if (defines) {
        DT_TRY(parse_definition(p, function, &definition));
        DT_TRY(expect(p, "="));
    }
    dt_value *value;
    DT_TRY(parse_call(p, function, &value));
    if (dt_value_has_effect(value) == defines) return dt_reader_error(&p->r, defines ? "%s has no value" : "%s has a value", value->op->name);
    value->id = definition.id;
    if (defines) {
        value->name = definition.name;
        if (value->dtype != definition.dtype || !dt_shape_equal(value->shape, definition.shape))
            return dt_reader_error(&p->r, "%%%d has another type than %s makes of its operands", value->id, value->op->name);
    }
    return parse_tail(p, value);
}

static dt_status *parse_results(parser *p, dt_function *function) {
    do {
        dt_result result;
        DT_TRY(expect_name(p, "a result's name", &result.name));
        DT_TRY(expect(p, "="));
        DT_TRY(parse_use(p, function, &result.value));
        dt_list_push(p->r.arena, &function->results, result);
    } while (dt_read_symbol(&p->r, ","));
    return NULL;
}

/* Effects print no number: they get those after the others. */
static void number_effects(dt_function *function) {
    function->next_id = 0;
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->id >= function->next_id) function->next_id = value->id + 1;
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (value->id < 0 && function->next_id < INT_MAX) value->id = function->next_id++;
}

static dt_status *parse_function(parser *p) {
    const char *name;
    int role;
    DT_TRY(expect_name(p, "the function's name", &name));
    if (dt_module_find_function(p->module, name) != NULL) return dt_reader_error(&p->r, "there is a function %s already", name);
    DT_TRY(expect_word_of(p, dt_function_role_names(), DT_N_FUNCTION_ROLES, &role));
    dt_function *function = dt_module_add_function(p->module, name, (dt_function_role)role);
    DT_TRY(parse_inputs(p, function));
    DT_TRY(expect(p, "{"));
    while (!dt_read_symbol(&p->r, "}")) {
        if (dt_read_keyword(&p->r, "return")) {
            DT_TRY(parse_results(p, function));
            DT_TRY(expect(p, "}"));
            break;
        }
        DT_TRY(parse_value(p, function));
    }
    number_effects(function);
    return NULL;
}

/* ---- the module ---- */

static dt_status *parse_items(parser *p) {
    static const struct {
        const char *keyword;
        dt_status *(*parse)(parser *p);
    } items[] = {{"shards", parse_shards},     {"file", parse_file},        {"variable", parse_variable}, {"pipeline", parse_pipeline},
                 {"layer", parse_layer},       {"step", parse_step},        {"row_init", parse_row_init}, {"row_variable", parse_row_variable},
                 {"row_form", parse_row_form}, {"function", parse_function}};
    while (!dt_read_end(&p->r)) {
        size_t i = 0;
        while (i < sizeof items / sizeof *items && !dt_read_keyword(&p->r, items[i].keyword)) i++;
        if (i == sizeof items / sizeof *items)
            return dt_reader_error(&p->r, "expected shards, file, variable, pipeline, layer, step, row_init, row_variable, row_form or function");
        DT_TRY(items[i].parse(p));
    }
    return NULL;
}

dt_status *dt_module_parse(dt_arena *arena, const char *name, const char *source, dt_module **module) {
    parser p = {.r = {.name = name, .source = source, .at = source, .arena = arena}};
    const char *program;
    if (!dt_read_keyword(&p.r, "module"))
        return dt_reader_error(&p.r, "expected module, with which a graph begins: `dtc compile --emit=ir` prints one");
    DT_TRY(expect_name(&p, "the module's name", &program));
    p.module = dt_module_create(arena, program);
    if (dt_read_keyword(&p.r, "capacity") && !dt_read_int(&p.r, &p.module->capacity)) return dt_reader_error(&p.r, "expected a number of rows");
    DT_TRY(parse_items(&p));
    DT_TRY(resolve_all(&p));
    *module = p.module;
    return NULL;
}

dt_status *dt_module_copy(dt_arena *arena, const dt_module *module, dt_module **copy) {
    dt_text text = {.arena = arena};
    dt_module_print(&text, module);
    return dt_module_parse(arena, dt_arena_string(arena, module->name), text.data, copy);
}
