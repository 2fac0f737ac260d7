/* elaborate_step: a step becomes a function over the global batch, and, when it reports (elaborate_report.c), a second one over totals. */
#include "frontends/dsl/elaborator.h"

#include "abi/pipeline.h"

#include <string.h>

/* ---- steps ---- */

void dt_finish_writes(dt_elaborator *e) {
    if (e->step != NULL && !e->step->trains) return; /* a state that `training: true` changed is another to the rest of the step alone */
    for (size_t i = 0; i < e->variables.n; i++) {
        if (!e->variables.items[i].written) continue;
        dt_named_attribute setting = {"variable", {.s = e->module->variables.items[i].path}};
        dt_emit(e, "write", &e->variables.items[i].current, 1, &setting, 1);
    }
}

static void add_inputs(dt_elaborator *e, dt_frame *frame) {
    const dt_callable *callable = frame->callee->callable;
    for (size_t i = 0; i < callable->parameters.n; i++) {
        const dt_parameter *parameter = &callable->parameters.items[i];
        dt_dtype dtype;
        dt_shape shape;
        dt_object object = dt_poison();
        if (callable->broken) {
            e->n_poisoned++;
        } else if (parameter->type == NULL || parameter->standard != NULL) {
            dt_diagnostic *error = dt_elaborator_error(e, parameter->span, "an input of a step has a type, and no default");
            dt_diagnostic_help(error, "write %s: f32[B, …]", parameter->name);
        } else if (dt_resolve_type(e, parameter->type, &dtype, &shape)) {
            object = dt_object_tensor(dt_build_input(e->function, parameter->name, dtype, shape, dt_elaborator_location(e, parameter->span)));
            bool inner_batch = false;
            for (int d = 1; d < shape.rank; d++) inner_batch |= shape.dims[d] == DT_BATCH;
            if (inner_batch || shape.rank == 0 || shape.dims[0] != DT_BATCH) {
                dt_diagnostic *error = dt_elaborator_error(e, parameter->type->span, "an input of a step begins with the batch B, and has it once");
                dt_diagnostic_help(error, "write %s: %s[B, …]", parameter->name, dt_dtype_name(dtype));
            }
        }
        frame->scope = dt_bind(e->arena, frame->scope, parameter->name, object, parameter->span);
    }
}

/* Results leave row by row, or whole: the batch comes first, once, or not at all. */
static bool has_rows_first(dt_elaborator *e, const dt_argument *argument, dt_shape shape) {
    int n_batch = dt_shape_count(shape, DT_BATCH);
    if (n_batch == 0 || (n_batch == 1 && shape.dims[0] == DT_BATCH)) return true;
    dt_diagnostic *error =
        dt_elaborator_error(e, argument->span, "a result of a step begins with the batch B and has it once, or not at all: %s is %s", argument->name,
                            dt_describe_shape(e, shape));
    if (n_batch > 1)
        dt_diagnostic_help(error, "return what becomes of the pairs: sum(x, axis: 1), argmax(x, axis: 1)");
    else
        dt_diagnostic_help(error, "put B first: transpose(x, [%d, …])", dt_shape_batch_axis(shape));
    return false;
}

static void add_results(dt_elaborator *e, const dt_frame *frame) {
    dt_step_work *step = e->step;
    for (size_t i = 0; i < step->aggregate_values.n; i++) {
        dt_result result = {step->totals.items[i]->name, step->aggregate_values.items[i]};
        dt_list_push(e->arena, &step->function->results, result);
    }
    for (size_t i = 0; frame->named_results != NULL && i < frame->named_results->n; i++) {
        const dt_argument *argument = &frame->named_results->items[i];
        e->at = argument->span;
        dt_object object = dt_to_tensor(e, frame->named_objects[i], DT_N_DTYPES);
        for (size_t k = 0; k < i && argument->name != NULL; k++)
            if (frame->named_results->items[k].name != NULL && strcmp(frame->named_results->items[k].name, argument->name) == 0)
                dt_diagnostic_help(dt_elaborator_error(e, argument->span, "two results are called %s", argument->name), "rename one of them");
        if (dt_is_poison(object) || argument->name == NULL) continue;
        if (!has_rows_first(e, argument, object.value->shape)) continue;
        dt_result result = {argument->name, object.value};
        dt_list_push(e->arena, &step->function->results, result);
    }
}

/* A step takes batches: how many rows, its data must say. */
static void check_batch(dt_elaborator *e, const dt_declaration *d) {
    const dt_pipeline_declaration *pipeline = NULL;
    for (size_t i = 0; i < e->module->pipelines.n; i++)
        if (strcmp(e->module->pipelines.items[i].name, d->from) == 0) pipeline = &e->module->pipelines.items[i];
    if (pipeline == NULL) return; /* a mistake in it was reported */
    for (size_t i = 0; i < pipeline->stages.n; i++)
        if (strcmp(pipeline->stages.items[i].kind, dt_stage_name(DT_STAGE_BATCH)) == 0) return;
    dt_diagnostic *error = dt_elaborator_error(e, d->from_span, "data %s ends without batch(n)", d->from);
    dt_diagnostic_help(error, "write data %s = … | batch(32)", d->from);
}

static void check_from(dt_elaborator *e, const dt_declaration *d) {
    if (d->from == NULL) return;
    DT_LIST(const char *) names = {0};
    const dt_syntax *syntax = e->program->syntax;
    for (size_t i = 0; i < syntax->declarations.n; i++) {
        if (syntax->declarations.items[i]->kind != DT_DECLARATION_DATA) continue;
        if (strcmp(syntax->declarations.items[i]->name, d->from) == 0) {
            check_batch(e, d);
            return;
        }
        dt_list_push(e->arena, &names, syntax->declarations.items[i]->name);
    }
    dt_diagnostic *error = dt_elaborator_error(e, d->from_span, "there is no data %s", d->from);
    dt_diagnostic_suggest(error, d->from, names.items, names.n);
}

/* What training runs after epochs may not train: it would learn from what it is measured by. */
static void check_every(dt_elaborator *e, const dt_declaration *d, bool trains) {
    bool is_evaluate = strcmp(d->name, "evaluate") == 0;
    if (d->is_repeated && (d->every < 1 || d->every > INT32_MAX))
        dt_diagnostic_help(dt_elaborator_error(e, d->every_span, "a step is run after 1 epoch or more"), "write every epoch, or every 5 epochs");
    if (!trains || (!d->is_repeated && !is_evaluate)) return;
    dt_diagnostic *error =
        dt_elaborator_error(e, is_evaluate ? d->span : d->every_span, "step %s trains, and what is run after epochs evaluates", d->name);
    if (is_evaluate)
        dt_diagnostic_help(error, "leave minimize and apply out, or give the step another name, and run it with dtrun train --step NAME");
    else
        dt_diagnostic_help(error, "leave every out, and run it with dtrun train --step %s", d->name);
}

static void check_frozen(dt_elaborator *e) {
    for (size_t i = 0; i < e->step->frozen.n; i++) {
        const char *path = e->step->frozen.items[i];
        if (dt_frozen_exists(e, path) || dt_is_tainted(e)) continue;
        dt_diagnostic *error = dt_elaborator_error(e, e->step->frozen_spans.items[i], "freeze: there is no %s in what the step calls", path);
        dt_diagnostic_help(error, "`dtc summary` lists the paths; … as name gives a layer its own");
    }
}

/* Does it give anything, or change anything? Where there are other mistakes, they say why not. */
static void check_purpose(dt_elaborator *e, const dt_declaration *d, const dt_function *function) {
    if (function->results.n > 0 || dt_is_tainted(e)) return;
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_writes(value)) return;
    dt_diagnostic *error = dt_elaborator_error(e, d->span, "step %s does nothing: it trains, reports and returns nothing", d->name);
    dt_diagnostic_help(error, "say what it is to give: return y: …");
}

void dt_elaborate_uncalled(dt_elaborator *e, dt_object function) {
    const dt_callee *callee = function.callee;
    dt_step_work work = {.n_poisoned = e->n_poisoned, .trains = true};
    work.function = dt_module_add_function(e->module, callee->name, DT_ROLE_STEP);
    e->step = &work;
    e->function = work.function;
    e->training = true;
    dt_variables_reset(e);
    dt_actuals actuals = {0};
    for (size_t i = 0; i < callee->callable->parameters.n; i++) {
        const dt_parameter *parameter = &callee->callable->parameters.items[i];
        dt_actual actual = {.name = parameter->name, .span = parameter->span, .object = dt_poison()};
        if (parameter->standard == NULL) dt_list_push(e->arena, &actuals, actual);
    }
    dt_instance owner = {.name = callee->name, .path = callee->name, .kind = callee->name, .callable = callee->callable};
    dt_visit visit = {.instance = &owner, .frame = e->frame, .first = true, .call = callee->span, .n_poisoned = -1};
    if (callee->kind == DT_DECLARATION_LAYER) {
        owner.layer = dt_add_layer_row(e, owner.path, owner.kind, -1, callee->span);
        owner.active = true;
        e->visit = &visit;
    }
    dt_object result = dt_call(e, function, actuals.items, actuals.n, callee->span);
    if (result.kind == DT_OBJECT_OPTIMIZER) dt_run_optimizer(e, result);
    e->visit = NULL;
    e->step = NULL;
    e->function = NULL;
    e->training = false;
}

void dt_elaborate_step(dt_elaborator *e, const dt_declaration *d) {
    dt_step_work work = {.declaration = d, .n_poisoned = e->n_poisoned};
    check_from(e, d);
    work.trains = dt_declaration_trains(e, d);
    check_every(e, d, work.trains);
    work.function = dt_module_add_function(e->module, d->name, DT_ROLE_STEP);
    e->step = &work;
    e->function = work.function;
    e->training = work.trains;
    dt_variables_reset(e);
    dt_callee callee = {.name = d->name, .kind = DT_DECLARATION_STEP, .callable = d->callable, .span = d->span, .file = e->program};
    dt_frame frame = {
        .callee = &callee, .file = e->program, .call = d->span, .may_return = true, .stream = dt_hash_bytes(d->name, strlen(d->name), DT_HASH_SEED)};
    dt_push_frame(e, &frame);
    add_inputs(e, &frame);
    dt_run_block(e, &d->callable->body);
    e->at = d->span;
    dt_finish_writes(e);
    add_results(e, &frame);
    check_purpose(e, d, work.function);
    check_frozen(e);
    dt_check_regularizations(e);
    dt_check_comparisons(e);
    dt_pop_frame(e);
    dt_step step = {.name = d->name,
                    .function = work.function,
                    .report = work.report,
                    .data = d->from,
                    .every = d->every,
                    .trains = work.trains,
                    .n_aggregates = (int)work.aggregates.n,
                    .aggregates = work.aggregates.items,
                    .location = dt_elaborator_location(e, d->span)};
    dt_list_push(e->arena, &e->module->steps, step);
    e->step = NULL;
    e->function = NULL;
    e->training = false;
}
