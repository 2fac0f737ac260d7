/* elaborate_report: what a step reports, as two functions with aggregators between them.
 *
 * `report loss: mean(loss)` leaves two aggregates in the step's function, a sum and a count; what is done with them (the division, a logarithm
 * around it) happens once, in the report function, whose inputs are the totals over the epoch. Aggregates are of any shape without B:
 * `sum(x, axis: 0)` of an f32[B, C] is C sums.
 *
 * While a report is worked out, each value goes to the function that its operands are of (dt_report_place). So a function of the library computes
 * with examples until it calls an aggregator, and with totals from there on. Constants are of no batch: they are made again where they are needed. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

enum {
    MOST_NUMBERS = 1 << 20 /* of an aggregate or a report: they are written as text, into checkpoints and logs */
};

/* ---- where values go ---- */

static void refuse_example(dt_elaborator *e) {
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "a report is made of totals, this tensor belongs to one step");
    dt_diagnostic_help(error, "put an aggregator around it: mean(…), sum(…), min(…), max(…) or last(…)");
}

static bool is_of_report(const dt_elaborator *e, const dt_function *function) { return function == e->step->function || function == e->step->report; }

bool dt_is_in_report(const dt_elaborator *e) { return e->in_report && e->step != NULL && is_of_report(e, e->function); }

bool dt_report_holds(const dt_elaborator *e, const dt_value *value) { return dt_is_in_report(e) && is_of_report(e, value->function); }

/* Made of constants and launch values alone: the same in each batch. `known` [next_id] remembers: 1 it is, 2 it is not. */
static bool is_constant(const dt_value *value, char *known) {
    if (known[value->id] != 0) return known[value->id] == 1;
    bool is_source = value->op->class == DT_CLASS_SOURCE && !dt_value_is(value, "input");
    bool fixed = is_source || (value->n_operands > 0 && value->op->class <= DT_CLASS_INDEX);
    if (fixed && dt_value_is(value, "launch")) {
        const char *name = dt_value_string(value, "name");
        fixed = strcmp(name, "valid") != 0 && strcmp(name, "counter") != 0;
    }
    for (int i = 0; i < value->n_operands && fixed; i++) fixed = is_constant(value->operands[i], known);
    known[value->id] = fixed ? 1 : 2;
    return fixed;
}

/* The constant `value`, made again by `builder`. copies [next_id]: those that were. NULL: reported. */
static dt_value *copy_constant(dt_elaborator *e, dt_builder *builder, const dt_value *value, dt_value **copies) {
    if (copies[value->id] != NULL) return copies[value->id];
    dt_value **operands = DT_NEW_ARRAY(e->arena, dt_value *, value->n_operands);
    for (int i = 0; i < value->n_operands; i++)
        if ((operands[i] = copy_constant(e, builder, value->operands[i], copies)) == NULL) return NULL;
    builder->n_locations = value->n_locations;
    builder->locations = value->locations;
    dt_status *status = dt_build(builder, value->op, operands, value->n_operands, value->attributes, &copies[value->id]);
    if (status == NULL) return copies[value->id];
    dt_elaborator_error(e, e->at, "%s", dt_status_message(status));
    dt_status_free(status);
    return NULL;
}

static dt_value *carry_over(dt_elaborator *e, const dt_value *value, dt_function *function) {
    dt_builder builder = {.function = function, .before = function == e->function ? e->before : NULL};
    return copy_constant(e, &builder, value, DT_NEW_ARRAY(e->arena, dt_value *, value->function->next_id));
}

static bool is_constant_value(dt_elaborator *e, const dt_value *value) {
    return is_constant(value, DT_NEW_ARRAY(e->arena, char, value->function->next_id));
}

static bool names_batch(const dt_named_attribute *settings, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (int64_t d = 0; strcmp(settings[i].name, "shape") == 0 && d < settings[i].value.i; d++)
            if (settings[i].value.ints[d] == DT_BATCH) return true;
    return false;
}

dt_function *dt_report_place(dt_elaborator *e, const dt_op *op, dt_value **operands, int n, const dt_named_attribute *settings, size_t n_settings) {
    dt_function *step = e->step->function, *report = e->step->report;
    bool of_step = op->class == DT_CLASS_RANDOM || op->class == DT_CLASS_STATE || names_batch(settings, n_settings), of_report = false;
    for (int i = 0; i < n; i++) {
        of_step |= operands[i]->function == step;
        of_report |= operands[i]->function == report;
    }
    if (!of_report) return of_step ? step : e->function;
    if (!of_step) return report;
    dt_function *functions[] = {step, report};
    for (int f = 0; f < 2; f++) {
        bool moves = true;
        for (int i = 0; i < n && moves; i++) moves = operands[i]->function == functions[f] || is_constant_value(e, operands[i]);
        for (int i = 0; i < n && moves; i++)
            if (operands[i]->function != functions[f] && (operands[i] = carry_over(e, operands[i], functions[f])) == NULL) return NULL;
        if (moves) return functions[f];
    }
    refuse_example(e);
    return NULL;
}

bool dt_report_meets(dt_elaborator *e, const dt_object *operands, size_t n) {
    const dt_value *example = NULL, *total = NULL;
    for (size_t i = 0; i < n && dt_is_in_report(e); i++) {
        if (operands[i].kind != DT_OBJECT_TENSOR) continue;
        if (operands[i].value->function == e->step->report)
            total = operands[i].value;
        else
            example = operands[i].value;
    }
    bool meet = example == NULL || total == NULL || is_constant_value(e, total) || is_constant_value(e, example);
    if (!meet) refuse_example(e);
    return meet;
}

/* ---- aggregates ---- */

typedef struct reduction {
    dt_object x;
    const int64_t *axes;
    int n_axes;
    bool keep;
} reduction;

/* A value of the step without B as an aggregate; its total, as the report function sees it. */
static dt_object add_aggregate(dt_elaborator *e, dt_aggregate_kind kind, dt_value *value) {
    dt_step_work *step = e->step;
    for (size_t i = 0; i < step->aggregate_values.n; i++)
        if (step->aggregate_values.items[i] == value && step->aggregates.items[i] == kind) return dt_object_tensor(step->totals.items[i]);
    if (dt_shape_elements(value->shape, 1, 1) > MOST_NUMBERS)
        return dt_elaborator_fail(e, "%s are too many totals: a report holds %d numbers at most", dt_describe_shape(e, value->shape), MOST_NUMBERS);
    const char *name = dt_arena_format(e->arena, "aggregate%zu", step->aggregates.n);
    dt_value *total = dt_build_input(step->report, name, DT_F64, value->shape, dt_elaborator_location(e, e->at));
    dt_list_push(e->arena, &step->aggregates, kind);
    dt_list_push(e->arena, &step->aggregate_values, value);
    dt_list_push(e->arena, &step->totals, total);
    return dt_object_tensor(total);
}

static dt_object reduced_total(dt_elaborator *e, dt_aggregate_kind kind, const char *op, dt_object x, const reduction *r) {
    dt_object reduced = dt_is_poison(x) ? x : dt_emit_reduce(e, op, x.value, r->axes, r->n_axes, r->keep);
    return dt_is_poison(reduced) ? reduced : add_aggregate(e, kind, reduced.value);
}

/* Sums are exact for bool and integers, and f64 for floats, from the first addition on. */
static dt_object sum_total(dt_elaborator *e, const reduction *r) {
    dt_value *x = r->x.value;
    for (size_t i = 0; i < e->step->sums.n; i++) {
        const dt_summed *made = &e->step->sums.items[i];
        bool same = made->x == x && made->n_axes == r->n_axes && made->keep == r->keep;
        for (int k = 0; k < r->n_axes && same; k++) same = made->axes[k] == r->axes[k];
        if (same) return made->total;
    }
    dt_object wide = dt_emit_convert(e, x, dt_dtype_is_float(x->dtype) ? DT_F64 : DT_I64);
    dt_object total = reduced_total(e, DT_AGGREGATE_SUM, "reduce_sum", wide, r);
    dt_summed summed = {x, r->axes, r->n_axes, r->keep, total};
    if (!dt_is_poison(total)) dt_list_push(e->arena, &e->step->sums, summed);
    return total;
}

/* How many elements are added up in one element of the result, over the epoch. */
static dt_object count_total(dt_elaborator *e, const reduction *r) {
    dt_extent extent = dt_extent_of(r->x.value->shape, r->axes, r->n_axes);
    for (size_t i = 0; i < e->step->counts.n; i++) {
        const dt_counted *made = &e->step->counts.items[i];
        if (made->extent.per_row == extent.per_row && made->extent.n_batch == extent.n_batch) return made->total;
    }
    dt_object count = dt_emit_elements(e, extent, "valid");
    if (dt_is_poison(count)) return count;
    dt_counted counted = {extent, add_aggregate(e, DT_AGGREGATE_SUM, count.value)};
    dt_list_push(e->arena, &e->step->counts, counted);
    return counted.total;
}

typedef struct ratio {
    dt_object numerator, denominator; /* denominator NONE: the numerator alone */
} ratio;

static ratio weighted_totals(dt_elaborator *e, const reduction *r, dt_object weight) {
    ratio bad = {dt_poison(), dt_poison()};
    dt_object wide = dt_emit_convert(e, r->x.value, DT_F64);
    if (dt_is_poison(wide)) return bad;
    weight = dt_broadcast_weight(e, weight, wide.value);
    if (dt_is_poison(weight)) return bad;
    dt_object product = dt_emit_binary(e, "multiply", wide.value, weight.value);
    return (ratio){reduced_total(e, DT_AGGREGATE_SUM, "reduce_sum", product, r), reduced_total(e, DT_AGGREGATE_SUM, "reduce_sum", weight, r)};
}

static dt_object last_total(dt_elaborator *e, dt_value *x) {
    if (dt_shape_batch_axis(x->shape) >= 0) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "last takes what a batch as a whole gives, this is %s", dt_object_describe(e->arena, dt_object_tensor(x)));
        dt_diagnostic_help(error, "mean(x, axis: 0) or max(x, axis: 0) makes one of it");
        return dt_poison();
    }
    dt_object wide = dt_emit_convert(e, x, DT_F64);
    return dt_is_poison(wide) ? wide : add_aggregate(e, DT_AGGREGATE_LAST, wide.value);
}

static ratio totals_of(dt_elaborator *e, const char *kind, const reduction *r, dt_object weight) {
    ratio totals = {dt_poison(), dt_object_none()};
    bool is_mean = strcmp(kind, "mean") == 0;
    if (is_mean && weight.kind != DT_OBJECT_NONE) return weighted_totals(e, r, weight);
    if (is_mean || strcmp(kind, "sum") == 0) {
        totals.numerator = sum_total(e, r);
        if (is_mean) totals.denominator = count_total(e, r);
    } else if (strcmp(kind, "count") == 0) {
        totals.numerator = count_total(e, r);
    } else if (strcmp(kind, "last") == 0) {
        totals.numerator = last_total(e, r->x.value);
    } else {
        bool is_max = strcmp(kind, "max") == 0;
        dt_object wide = dt_emit_convert(e, r->x.value, DT_F64);
        totals.numerator = reduced_total(e, is_max ? DT_AGGREGATE_MAX : DT_AGGREGATE_MIN, is_max ? "reduce_max" : "reduce_min", wide, r);
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

bool dt_aggregates_here(const dt_elaborator *e, dt_object x) {
    return e->reporting && !(x.kind == DT_OBJECT_TENSOR && x.value->function == e->step->report);
}

dt_object dt_aggregate(dt_elaborator *e, const char *kind, const dt_aggregator *a) {
    dt_function *report = e->function;
    e->function = e->step->function;
    e->reporting = false;
    reduction r = {.x = a->x.kind == DT_OBJECT_FUNCTION && strcmp(kind, "last") == 0 ? rate_of(e, a->x) : a->x, .keep = a->keep};
    r.x = dt_to_tensor(e, r.x, DT_N_DTYPES);
    ratio totals = {dt_poison(), dt_poison()};
    bool fits = !dt_is_poison(r.x) && dt_resolve_axes(e, a->axis, a->axes, r.x.value->shape, &r.axes, &r.n_axes);
    bool leaves_batch =
        fits && strcmp(kind, "last") != 0 && dt_extent_of(r.x.value->shape, r.axes, r.n_axes).n_batch < dt_shape_count(r.x.value->shape, DT_BATCH);
    if (fits && !leaves_batch) totals = totals_of(e, kind, &r, a->weight);
    e->function = report;
    e->reporting = true;
    if (leaves_batch) return dt_object_none();
    if (dt_is_poison(totals.numerator) || totals.denominator.kind == DT_OBJECT_NONE) return totals.numerator;
    return dt_is_poison(totals.denominator) ? totals.denominator : dt_binary(e, DT_TOKEN_SLASH, totals.numerator, totals.denominator);
}

bool dt_is_of_batch(const dt_elaborator *e, dt_object x) {
    return x.kind == DT_OBJECT_TENSOR && x.value->function == e->step->function && dt_shape_batch_axis(x.value->shape) < 0;
}

/* ---- report ---- */

static dt_object to_report(dt_elaborator *e, dt_object object) {
    if (object.kind != DT_OBJECT_TENSOR && !dt_is_number(object))
        return dt_elaborator_fail(e, "a report is made of numbers, this is %s", dt_object_describe(e->arena, object));
    object = dt_to_tensor(e, object, DT_F64);
    if (dt_is_poison(object)) return object;
    if (object.value->function != e->step->report && is_constant_value(e, object.value) && dt_shape_batch_axis(object.value->shape) < 0) {
        dt_value *copy = carry_over(e, object.value, e->step->report);
        if (copy == NULL) return dt_poison();
        object = dt_object_tensor(copy);
    }
    if (object.value->function != e->step->report || dt_shape_batch_axis(object.value->shape) >= 0) {
        refuse_example(e);
        return dt_poison();
    }
    if (dt_shape_elements(object.value->shape, 1, 1) > MOST_NUMBERS)
        return dt_elaborator_fail(e, "%s is too much for a report: it holds %d numbers at most", dt_object_describe(e->arena, object), MOST_NUMBERS);
    return dt_emit_convert(e, object.value, DT_F64);
}

static void run_report(dt_elaborator *e, const dt_argument *argument) {
    dt_step_work *step = e->step;
    for (size_t i = 0; i < step->report->results.n; i++) {
        if (strcmp(step->report->results.items[i].name, argument->name) != 0) continue;
        dt_diagnostic_help(dt_elaborator_error(e, argument->span, "two reports are called %s", argument->name), "rename one of them");
        return;
    }
    dt_object object = dt_settle(e, dt_value_of(e, argument->value));
    e->at = argument->value->span;
    if (!dt_is_poison(object)) object = to_report(e, object);
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
    e->reporting = e->in_report = true;
    for (size_t i = 0; i < s->arguments.n; i++) run_report(e, &s->arguments.items[i]);
    e->reporting = e->in_report = false;
    e->function = e->step->function;
}
