/* check_batch: a step, as it is written, over a batch of which each row is there twice, and over one in another order.
 *
 * A mean over the batch, what an objective divides, a rate in a report is the same of twice the rows, and so is the gradient of a mean. Which
 * quotients are means says the graph: one call of the program made a sum over rows and its divisor out of numbers of rows. Where what is summed is
 * itself another over twice the rows, as sums over pairs are, nothing follows.
 *
 * Of a batch in reverse order results that have rows are reversed, and others are as they were, but for what depends on where a row stands:
 * positions, random numbers, the first of equals. */
#include "compiler/check.h"
#include "compiler/pipeline.h"
#include "ir/flops.h"

#include <math.h>
#include <string.h>

static const double TOLERANCE = 1e-7;
static const double MOST_WORK = 2e7; /* scalar operations of a step, forwards: larger ones are left out */

/* A quotient that is a mean of `terms`: numerator / denominator of the step's, which the report divides where it is one of a report. */
typedef struct mean {
    dt_value *terms, *numerator, *denominator;
    dt_value *quotient; /* NULL: the report's */
    const char *name;
    dt_location location;
} mean;

/* The gradient of a mean with respect to what has no rows. */
typedef struct slope {
    dt_value *value;
    size_t of;    /* in `means` */
    bool follows; /* the mean is the same of twice the rows */
} slope;

typedef DT_LIST(mean) mean_list;

typedef struct work {
    dt_arena *arena;
    const dt_check *check;
    size_t step;
    int64_t rows;
    dt_check_data data;
    mean_list means;
    DT_LIST(slope) slopes;
    bool *placed; /* [results of the step] what depends on where rows stand */
    dt_function *function;
    dt_finding *finding;
} work;

/* ---- what means are ---- */

static dt_value *origin_of(dt_value *value) {
    while (value->n_operands == 1 && (value->op->class == DT_CLASS_MOVE || dt_value_is(value, "convert"))) value = value->operands[0];
    return value;
}

/* Made of constants and numbers of rows alone. *counts: of these there are some. */
static bool is_count(dt_value *value, bool *counts) {
    value = origin_of(value);
    if (dt_value_is(value, "launch"))
        return *counts |= strcmp(dt_value_string(value, "name"), "valid") == 0 || strcmp(dt_value_string(value, "name"), "global_batch") == 0;
    if (dt_value_is(value, "multiply")) return is_count(value->operands[0], counts) && is_count(value->operands[1], counts);
    return dt_value_is(value, "constant");
}

static bool same_place(const dt_value *a, const dt_value *b) {
    return a->n_locations > 0 && b->n_locations > 0 && memcmp(&a->locations[0], &b->locations[0], sizeof a->locations[0]) == 0;
}

/* numerator / denominator as a mean, if that is what they are. The name is that of a result, or none. */
static void note_quotient(work *w, dt_value *quotient, dt_value *numerator, dt_value *denominator, const char *name) {
    dt_value *sum = origin_of(numerator), *count = origin_of(denominator);
    bool counts = false;
    if (!dt_value_is(sum, "reduce_sum") || dt_shape_count(sum->operands[0]->shape, DT_BATCH) == dt_shape_count(sum->shape, DT_BATCH)) return;
    if (!same_place(sum, count) || !is_count(count, &counts) || !counts) return;
    mean found = {sum->operands[0], numerator, denominator, quotient, name, sum->locations[0]};
    dt_list_push(w->arena, &w->means, found);
}

/* Where the report divides totals of the step. */
static void note_report(work *w, const dt_step *step) {
    const dt_function *report = step->report;
    for (const dt_value *value = report != NULL ? report->first : NULL; value != NULL; value = value->next) {
        if (!dt_value_is(value, "divide")) continue;
        const dt_value *parts[] = {origin_of(value->operands[0]), origin_of(value->operands[1])};
        dt_value *totals[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < report->inputs.n; i++)
                if (report->inputs.items[i] == parts[k]) totals[k] = w->function->results.items[i].value;
        if (totals[0] != NULL && totals[1] != NULL) note_quotient(w, NULL, totals[0], totals[1], "a mean of the report");
    }
}

static void note_gradient(work *w, dt_value *value) {
    const dt_value *of = origin_of(value->operands[0]);
    for (size_t m = 0; m < w->means.n && dt_shape_batch_axis(value->shape) < 0; m++)
        if (w->means.items[m].quotient == of) dt_list_push(w->arena, &w->slopes, ((slope){value, m, false}));
}

static void add_result(work *w, dt_value *value) { dt_list_push(w->arena, &w->function->results, ((dt_result){"part", value})); }

/* Finds them, and has the function give their parts. */
static void list_means(work *w, const dt_step *step) {
    for (dt_value *value = w->function->first; value != NULL; value = value->next) {
        if (dt_value_is(value, "divide")) note_quotient(w, value, value->operands[0], value->operands[1], "a mean");
        if (dt_value_is(value, "gradient")) note_gradient(w, value);
    }
    note_report(w, step);
    for (size_t m = 0; m < w->means.n; m++) {
        add_result(w, w->means.items[m].terms);
        add_result(w, w->means.items[m].numerator);
        add_result(w, w->means.items[m].denominator);
    }
    for (size_t s = 0; s < w->slopes.n; s++) add_result(w, w->slopes.items[s].value);
}

/* ---- what depends on where rows stand ---- */

static bool depends_on_place(const dt_value *value) {
    bool has_rows = dt_shape_batch_axis(value->shape) >= 0;
    if (dt_value_is(value, "gather") && value->operands[0]->shape.dims[dt_value_int(value, "axis")] == DT_BATCH) return true;
    if (dt_value_is(value, "scatter_add") && value->shape.dims[dt_value_int(value, "axis")] == DT_BATCH) return true;
    if (dt_value_is(value, "iota")) return value->shape.dims[dt_value_int(value, "axis")] == DT_BATCH;
    if (dt_value_is(value, "argmax") || dt_value_is(value, "argmin")) {
        int n_axes;
        const int64_t *axes = dt_value_ints(value, "axes", &n_axes);
        for (int i = 0; i < n_axes; i++)
            if (value->operands[0]->shape.dims[axes[i]] == DT_BATCH) return true;
    }
    return (value->op->class == DT_CLASS_RANDOM && has_rows) || dt_value_is(value, "gradient");
}

static void find_placed(work *w) {
    bool *placed = DT_NEW_ARRAY(w->arena, bool, w->function->next_id);
    for (int round = 0; round < 2; round++) /* what a loop carries comes round once more */
        for (const dt_value *value = w->function->first; value != NULL; value = value->next) {
            placed[value->id] |= depends_on_place(value);
            for (int k = 0; k < value->n_operands; k++) placed[value->id] |= placed[value->operands[k]->id];
            if (dt_value_is(value, "advance")) placed[value->operands[0]->id] |= placed[value->id];
        }
    w->placed = DT_NEW_ARRAY(w->arena, bool, w->function->results.n);
    for (size_t i = 0; i < w->function->results.n; i++) w->placed[i] = placed[w->function->results.items[i].value->id];
}

/* ---- runs ---- */

/* Which row of the batch stands at i. */
typedef int64_t (*row_function)(int64_t i, int64_t rows);
static int64_t each(int64_t i, int64_t rows) { return (void)rows, i; }
static int64_t twice(int64_t i, int64_t rows) { return (void)rows, i / 2; }
static int64_t reversed(int64_t i, int64_t rows) { return rows - 1 - i; }

/* The element of a tensor over the batch that a tensor over `rows` rows has at `element`. */
static size_t element_at(dt_shape shape, const dt_tensor *tensor, const dt_tensor *of, size_t element, row_function row) {
    size_t at = 0, stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        int64_t dim = tensor->shape.dims[d], i = (int64_t)(element % (size_t)dim);
        element /= (size_t)dim;
        at += stride * (size_t)(shape.dims[d] == DT_BATCH ? row(i, dim) : i);
        stride *= (size_t)of->shape.dims[d];
    }
    return at;
}

/* `of` with its rows where `row` says, in the shape of `like`. */
static dt_tensor arranged(dt_arena *arena, dt_shape shape, const dt_tensor *of, const dt_tensor *like, row_function row) {
    dt_tensor tensor = dt_tensor_make(arena, like->dtype, like->shape);
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, dt_tensor_get(of, element_at(shape, like, of, i, row)));
    return tensor;
}

/* Variables a little off where they begin: what is 0 there would hide what it weighs. */
static void move_variables(dt_memory *memory, const dt_module *module) {
    for (size_t v = 0; v < module->variables.n; v++) dt_check_nudge(&memory->variables[v], (int)v + 1, 0.01);
    for (size_t v = 0; v < module->variables.n; v++) {
        dt_tensor *tensor = &memory->variables[v];
        bool is_parameter = module->variables.items[v].kind == DT_VARIABLE_PARAMETER && dt_dtype_is_float(tensor->dtype);
        for (size_t i = 0; is_parameter && i < dt_tensor_elements(tensor); i++)
            if (dt_tensor_get(tensor, i) == 0) dt_tensor_set(tensor, i, 0.01 * (double)(i % 3 + 1));
    }
}

static dt_status *run(const work *w, const dt_module *module, int64_t rows, row_function row, dt_tensor *results) {
    dt_bad_index bad_index = {0};
    dt_launch launch = {
        .rows = rows, .valid = rows, .global_batch = rows, .replicas = 1, .epochs = 1, .steps_per_epoch = 1, .seed = 1, .bad_index = &bad_index};
    dt_tensor *inputs = DT_NEW_ARRAY(w->arena, dt_tensor, w->function->inputs.n);
    for (size_t i = 0; i < w->function->inputs.n; i++) {
        const dt_value *input = w->function->inputs.items[i];
        dt_tensor all = dt_check_input(w->arena, &w->data, input, (int)i, 0, rows), own = all;
        own.data = dt_arena_new(w->arena, dt_tensor_bytes(&all));
        for (size_t e = 0; e < dt_tensor_elements(&all); e++)
            dt_tensor_set(&own, e, dt_tensor_get(&all, element_at(input->shape, &own, &all, e, row)));
        inputs[i] = own;
    }
    dt_memory memory = dt_check_memory(w->arena, w->check, module);
    move_variables(&memory, module);
    return dt_interpret(w->arena, w->function, &launch, inputs, &memory, results);
}

/* ---- comparing ---- */

static void compare(const work *w, const char *what, dt_location location, const dt_tensor *expected, const dt_tensor *found) {
    double worst = w->finding->worst;
    dt_check_compare(w->finding, TOLERANCE, what, expected, 0, found, 0);
    if (w->finding->worst > worst) w->finding->location = location;
}

static bool is_same(const dt_tensor *expected, const dt_tensor *found) {
    dt_finding finding = {0};
    dt_check_compare(&finding, TOLERANCE, "", expected, 0, found, 0);
    return !finding.wrong;
}

/* numerator / denominator, each with its own number of elements. */
static void divide(dt_tensor *numerator, const dt_tensor *denominator) {
    size_t n = dt_tensor_elements(denominator);
    for (size_t i = 0; i < dt_tensor_elements(numerator); i++)
        dt_tensor_set(numerator, i, dt_tensor_get(numerator, i) / dt_tensor_get(denominator, n == 1 ? 0 : i));
}

/* Means, with and without each row twice: results from `first` on are terms, numerator and denominator of each. */
static void compare_means(work *w, size_t first, dt_tensor *once, dt_tensor *doubled) {
    for (size_t m = 0; m < w->means.n; m++) {
        const mean *mean = &w->means.items[m];
        dt_tensor *a = once + first + 3 * m, *b = doubled + first + 3 * m;
        dt_tensor terms = arranged(w->arena, mean->terms->shape, &a[0], &b[0], twice);
        if (!is_same(&terms, &b[0])) continue;
        divide(&a[1], &a[2]);
        divide(&b[1], &b[2]);
        dt_tensor expected = arranged(w->arena, mean->numerator->shape, &a[1], &b[1], twice);
        w->finding->n++;
        compare(w, mean->name, mean->location, &expected, &b[1]);
        for (size_t s = 0; s < w->slopes.n; s++) w->slopes.items[s].follows |= w->slopes.items[s].of == m;
    }
    first += 3 * w->means.n;
    for (size_t s = 0; s < w->slopes.n; s++) {
        const slope *slope = &w->slopes.items[s];
        w->finding->n += slope->follows;
        if (slope->follows) compare(w, "the gradient of a mean", w->means.items[slope->of].location, &once[first + s], &doubled[first + s]);
    }
}

static void compare_order(const work *w, const dt_tensor *once, const dt_tensor *other) {
    for (size_t i = 0; i < w->check->module->steps.items[w->step].function->results.n; i++) {
        const dt_result *result = &w->function->results.items[i];
        if (w->placed[i]) continue;
        dt_tensor expected = arranged(w->arena, result->value->shape, &once[i], &other[i], reversed);
        w->finding->n++;
        compare(w, result->name, (dt_location){.file = -1}, &expected, &other[i]);
    }
}

dt_status *dt_check_batch(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding) {
    work w = {.arena = arena, .check = check, .step = step, .rows = rows > 1 ? rows : 2, .finding = finding};
    dt_module *copy;
    dt_flops flops = dt_flops_of_function(arena, check->module->steps.items[step].function);
    *finding = (dt_finding){.location.file = -1,
                            .is_left_out = flops.fixed + (double)w.rows * (flops.per_row + (double)w.rows * flops.per_pair) > MOST_WORK};
    if (finding->is_left_out) return NULL;
    DT_TRY(dt_check_copy(arena, check->module, &copy));
    w.function = copy->steps.items[step].function;
    w.data = dt_check_data_of(arena, check->module->steps.items[step].function, DT_CHECK_PLAIN);
    find_placed(&w);
    size_t n_results = w.function->results.n;
    list_means(&w, &copy->steps.items[step]);
    dt_compilation compilation = {.arena = arena, .module = copy, .off = DT_SWITCHES_OFF};
    DT_TRY(dt_passes_run(&compilation, &(dt_passes_options){.stop_after = "autodiff"}));
    w.function = copy->steps.items[step].function;
    dt_tensor *once = DT_NEW_ARRAY(arena, dt_tensor, w.function->results.n), *other = DT_NEW_ARRAY(arena, dt_tensor, w.function->results.n);
    DT_TRY(run(&w, copy, w.rows, each, once));
    DT_TRY(dt_check_tell(check, 0.3));
    DT_TRY(run(&w, copy, w.rows, reversed, other));
    compare_order(&w, once, other);
    DT_TRY(run(&w, copy, 2 * w.rows, twice, other));
    compare_means(&w, n_results, once, other);
    return NULL;
}
