/* elaborate_step: a step becomes a function over the global batch, and, when it reports, a second one over totals.
 *
 * `report loss: mean(loss)` leaves two aggregates in the step's function, a sum and a count; what is done with them (the division, a logarithm
 * around it) happens once, in the report function, whose inputs are the totals over the epoch. */
#include "frontends/dsl/elaborator.h"

#include "abi/pipeline.h"

#include <string.h>

/* ---- aggregates ---- */

/* A 0-d value of the step as an aggregate; its total, as the report function sees it. */
static dt_object add_aggregate(dt_elaborator *e, dt_aggregate_kind kind, dt_value *value) {
    dt_step_work *step = e->step;
    for (size_t i = 0; i < step->aggregate_values.n; i++)
        if (step->aggregate_values.items[i] == value && step->aggregates.items[i] == kind) return dt_object_tensor(step->totals.items[i]);
    const char *name = dt_arena_format(e->arena, "aggregate%zu", step->aggregates.n);
    dt_value *total = dt_build_input(step->report, name, DT_F64, dt_shape_scalar(), dt_elaborator_location(e, e->at));
    dt_list_push(e->arena, &step->aggregates, kind);
    dt_list_push(e->arena, &step->aggregate_values, value);
    dt_list_push(e->arena, &step->totals, total);
    return dt_object_tensor(total);
}

/* Sums are exact for bool and integers, and f64 for floats, from the first addition on. */
static dt_object sum_total(dt_elaborator *e, dt_value *x) {
    for (size_t i = 0; i < e->step->sums.n; i++)
        if (e->step->sums.items[i].x == x) return e->step->sums.items[i].total;
    dt_object wide = dt_emit_convert(e, x, dt_dtype_is_float(x->dtype) ? DT_F64 : DT_I64);
    dt_object sum = dt_is_poison(wide) ? wide : dt_emit_reduce_all(e, "reduce_sum", wide.value);
    if (dt_is_poison(sum)) return sum;
    dt_summed summed = {x, add_aggregate(e, DT_AGGREGATE_SUM, sum.value)};
    dt_list_push(e->arena, &e->step->sums, summed);
    return summed.total;
}

static dt_object count_total(dt_elaborator *e, dt_value *x) {
    int64_t per_row = dt_shape_elements_per_row(x->shape);
    bool has_batch = dt_shape_batch_axis(x->shape) >= 0;
    for (size_t i = 0; i < e->step->counts.n; i++)
        if (e->step->counts.items[i].per_row == per_row && e->step->counts.items[i].has_batch == has_batch) return e->step->counts.items[i].total;
    dt_object count = dt_emit_count(e, x, "valid");
    if (dt_is_poison(count)) return count;
    dt_counted counted = {per_row, has_batch, add_aggregate(e, DT_AGGREGATE_SUM, count.value)};
    dt_list_push(e->arena, &e->step->counts, counted);
    return counted.total;
}

typedef struct ratio {
    dt_object numerator, denominator; /* denominator NONE: the numerator alone */
} ratio;

static ratio weighted_totals(dt_elaborator *e, dt_value *x, dt_object weight) {
    ratio bad = {dt_poison(), dt_poison()};
    dt_object wide = dt_emit_convert(e, x, DT_F64);
    if (dt_is_poison(wide)) return bad;
    weight = dt_broadcast_weight(e, weight, wide.value);
    if (dt_is_poison(weight)) return bad;
    dt_object product = dt_emit_binary(e, "multiply", wide.value, weight.value);
    dt_object sum = dt_is_poison(product) ? product : dt_emit_reduce_all(e, "reduce_sum", product.value);
    dt_object weights = dt_emit_reduce_all(e, "reduce_sum", weight.value);
    if (dt_is_poison(sum) || dt_is_poison(weights)) return bad;
    return (ratio){add_aggregate(e, DT_AGGREGATE_SUM, sum.value), add_aggregate(e, DT_AGGREGATE_SUM, weights.value)};
}

static dt_object last_total(dt_elaborator *e, dt_value *x) {
    if (x->shape.rank > 0) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "last takes a scalar, this is %s", dt_object_describe(e->arena, dt_object_tensor(x)));
        dt_diagnostic_help(error, "mean(x) or max(x) makes one of it");
        return dt_poison();
    }
    dt_object wide = dt_emit_convert(e, x, DT_F64);
    return dt_is_poison(wide) ? wide : add_aggregate(e, DT_AGGREGATE_LAST, wide.value);
}

static ratio totals_of(dt_elaborator *e, const char *kind, dt_value *x, dt_object weight) {
    ratio totals = {dt_poison(), dt_object_none()};
    if (strcmp(kind, "mean") == 0 && weight.kind != DT_OBJECT_NONE) return weighted_totals(e, x, weight);
    if (strcmp(kind, "mean") == 0 || strcmp(kind, "sum") == 0) {
        totals.numerator = sum_total(e, x);
        if (*kind == 'm') totals.denominator = count_total(e, x);
    } else if (strcmp(kind, "last") == 0) {
        totals.numerator = last_total(e, x);
    } else {
        bool is_max = strcmp(kind, "max") == 0;
        dt_object wide = dt_emit_convert(e, x, DT_F64);
        dt_object extreme = dt_is_poison(wide) ? wide : dt_emit_reduce_all(e, is_max ? "reduce_max" : "reduce_min", wide.value);
        if (!dt_is_poison(extreme)) totals.numerator = add_aggregate(e, is_max ? DT_AGGREGATE_MAX : DT_AGGREGATE_MIN, extreme.value);
    }
    return totals;
}

/* The rate that a schedule gave in this step: the one value of it that a report can mean. */
static dt_object rate_of(dt_elaborator *e, dt_object schedule) {
    for (size_t i = e->step->paced.n; i-- > 0;)
        if (e->step->paced.items[i].schedule == schedule.callee) return e->step->paced.items[i].rate;
    if (dt_is_tainted(e)) return dt_poison(); /* an optimizer that was not understood may have been the one */
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "no optimizer of this step has used the schedule before this report");
    dt_diagnostic_help(error, "report it after minimize or apply");
    return dt_poison();
}

dt_object dt_aggregate(dt_elaborator *e, const char *kind, dt_object x, dt_object weight) {
    dt_function *report = e->function;
    e->function = e->step->function;
    e->reporting = false;
    if (x.kind == DT_OBJECT_FUNCTION && strcmp(kind, "last") == 0) x = rate_of(e, x);
    x = dt_to_tensor(e, x, DT_N_DTYPES);
    ratio totals = {dt_poison(), dt_poison()};
    if (!dt_is_poison(x)) totals = totals_of(e, kind, x.value, weight);
    e->function = report;
    e->reporting = true;
    if (dt_is_poison(totals.numerator) || totals.denominator.kind == DT_OBJECT_NONE) return totals.numerator;
    if (dt_is_poison(totals.denominator)) return totals.denominator;
    return dt_emit_binary(e, "divide", totals.numerator.value, totals.denominator.value);
}

/* ---- report ---- */

static void run_report(dt_elaborator *e, const dt_argument *argument) {
    dt_step_work *step = e->step;
    for (size_t i = 0; i < step->report->results.n; i++) {
        if (strcmp(step->report->results.items[i].name, argument->name) != 0) continue;
        dt_diagnostic_help(dt_elaborator_error(e, argument->span, "two reports are called %s", argument->name), "rename one of them");
        return;
    }
    dt_object object = dt_settle(e, dt_value_of(e, argument->value));
    e->at = argument->value->span;
    if (dt_is_poison(object)) return;
    if (object.kind != DT_OBJECT_TENSOR && !dt_is_number(object)) {
        dt_elaborator_error(e, e->at, "a report is a number, this is %s", dt_object_describe(e->arena, object));
        return;
    }
    object = dt_to_tensor(e, object, DT_F64);
    if (dt_is_poison(object)) return;
    object = dt_emit_convert(e, object.value, DT_F64);
    if (dt_is_poison(object)) return;
    dt_result result = {argument->name, object.value};
    dt_list_push(e->arena, &step->report->results, result);
}

void dt_run_report(dt_elaborator *e, const dt_statement *s) {
    bool in_step = e->step != NULL && e->frame->callee != NULL && e->frame->callee->kind == DT_DECLARATION_STEP;
    if (!in_step) {
        dt_elaborator_error(e, s->span, "report stands in a step");
        return;
    }
    if (e->step->report == NULL)
        e->step->report = dt_module_add_function(e->module, dt_arena_format(e->arena, "%s/report", e->step->declaration->name), DT_ROLE_REPORT);
    e->function = e->step->report;
    e->reporting = true;
    for (size_t i = 0; i < s->arguments.n; i++) run_report(e, &s->arguments.items[i]);
    e->reporting = false;
    e->function = e->step->function;
}

/* ---- steps ---- */

void dt_finish_writes(dt_elaborator *e) {
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
    bool has_effect = false;
    for (const dt_value *value = function->first; value != NULL; value = value->next) has_effect |= dt_value_writes(value);
    if (has_effect || function->results.n > 0 || dt_is_tainted(e)) return;
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
    dt_visit visit = {.instance = &owner, .first = true, .call = callee->span, .n_poisoned = -1};
    if (callee->kind == DT_DECLARATION_LAYER) {
        owner.layer = dt_add_layer_row(e, owner.path, owner.kind, 0, callee->span);
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
    dt_pop_frame(e);
    dt_step step = {.name = d->name,
                    .function = work.function,
                    .report = work.report,
                    .data = d->from,
                    .trains = work.trains,
                    .n_aggregates = (int)work.aggregates.n,
                    .aggregates = work.aggregates.items,
                    .location = dt_elaborator_location(e, d->span)};
    dt_list_push(e->arena, &e->module->steps, step);
    e->step = NULL;
    e->function = NULL;
    e->training = false;
}
