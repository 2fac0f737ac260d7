/* reports: see reports.h. */
#include "runtime/execution/reports.h"

#include "base/half.h"
#include "base/memory.h"
#include "runtime/execution/example_function.h"

#include <math.h>
#include <string.h>

struct dt_reports {
    const dt_artifact_step *step;
    dt_example_function *function; /* NULL: no reports */
    int64_t n_added;
    dt_total *totals; /* [n_aggregates] */
    /* The report function's inputs: one float64 each, with its slack. */
    struct report_input {
        _Alignas(64) double number;
        char slack[DT_SLACK_BYTES];
    } * inputs;
    void *inputs_memory;
    const void **input_places;
};

dt_total dt_total_from(dt_dtype dtype, const void *data) {
    dt_total total = {.is_integer = !dt_dtype_is_float(dtype)};
    union {
        float f32;
        double f64;
        int8_t i8;
        uint8_t u8;
        int32_t i32;
        int64_t i64;
        uint16_t half;
    } value = {0};
    memcpy(&value, data, dt_dtype_bytes(dtype));
    switch (dtype) {
    case DT_F32: total.number = value.f32; break;
    case DT_F64: total.number = value.f64; break;
    case DT_F16: total.number = dt_f32_from_f16(value.half); break;
    case DT_BF16: total.number = dt_f32_from_bf16(value.half); break;
    case DT_I8: total.integer = value.i8; break;
    case DT_U8:
    case DT_BOOL: total.integer = value.u8; break;
    case DT_I32: total.integer = value.i32; break;
    case DT_I64:
    case DT_N_DTYPES: total.integer = value.i64; break;
    }
    return total;
}

double dt_total_as_f64(dt_total total) { return total.is_integer ? (double)total.integer : total.number; }

static dt_status *create(dt_reports *reports, const dt_kernels *kernels) {
    size_t n = (size_t)reports->step->n_aggregates;
    reports->totals = dt_allocate_zeroed(n, sizeof *reports->totals);
    reports->inputs_memory = dt_allocate_zeroed(n + 1, sizeof *reports->inputs);
    reports->input_places = dt_allocate_zeroed(n, sizeof *reports->input_places);
    if (reports->totals == NULL || reports->inputs_memory == NULL || reports->input_places == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the reports of %s", reports->step->name);
    reports->inputs = (struct report_input *)(((uintptr_t)reports->inputs_memory + 63) & ~(uintptr_t)63);
    for (size_t i = 0; i < n; i++) reports->input_places[i] = &reports->inputs[i].number;
    return reports->step->report >= 0 ? dt_example_function_create(kernels, reports->step->report, &reports->function) : NULL;
}

dt_status *dt_reports_create(const dt_kernels *kernels, int step, dt_reports **reports) {
    const dt_artifact_step *about = &dt_kernels_artifact(kernels)->steps[step];
    dt_reports *made = dt_allocate_zeroed(1, sizeof *made);
    *reports = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the reports of %s", about->name);
    made->step = about;
    dt_status *status = create(made, kernels);
    if (status == NULL)
        *reports = made;
    else
        dt_reports_destroy(made);
    return status;
}

void dt_reports_destroy(dt_reports *reports) {
    if (reports == NULL) return;
    dt_example_function_destroy(reports->function);
    dt_release(reports->totals);
    dt_release(reports->inputs_memory);
    dt_release(reports->input_places);
    dt_release(reports);
}

int dt_reports_n(const dt_reports *reports) { return reports->step->n_reports; }
int dt_reports_n_aggregates(const dt_reports *reports) { return reports->step->n_aggregates; }
const char *dt_reports_name(const dt_reports *reports, int report) { return reports->step->reports[report]; }
const dt_total *dt_reports_totals(const dt_reports *reports) { return reports->totals; }
int64_t dt_reports_n_added(const dt_reports *reports) { return reports->n_added; }

void dt_reports_reset(dt_reports *reports) {
    memset(reports->totals, 0, (size_t)reports->step->n_aggregates * sizeof *reports->totals);
    reports->n_added = 0;
}

/* Whether `b` takes the place of `a` as the least (or, below, the greatest). A NaN stays, once it is there. */
static bool is_less(dt_total b, dt_total a) { return a.is_integer ? b.integer < a.integer : b.number < a.number || isnan(b.number); }
static bool is_greater(dt_total b, dt_total a) { return a.is_integer ? b.integer > a.integer : b.number > a.number || isnan(b.number); }

static void add(dt_total *total, dt_aggregate_kind kind, dt_total value) {
    switch (kind) {
    case DT_AGGREGATE_SUM:
        if (total->is_integer)
            total->integer = (int64_t)((uint64_t)total->integer + (uint64_t)value.integer); /* integers wrap around */
        else
            total->number += value.number;
        break;
    case DT_AGGREGATE_MIN:
        if (is_less(value, *total)) *total = value;
        break;
    case DT_AGGREGATE_MAX:
        if (is_greater(value, *total)) *total = value;
        break;
    case DT_AGGREGATE_LAST: *total = value; break;
    }
}

void dt_reports_add(dt_reports *reports, const dt_total *aggregates) {
    for (int i = 0; i < reports->step->n_aggregates; i++) {
        if (reports->n_added == 0)
            reports->totals[i] = aggregates[i];
        else
            add(&reports->totals[i], reports->step->aggregates[i], aggregates[i]);
    }
    reports->n_added++;
}

void dt_reports_restore(dt_reports *reports, const dt_total *totals, int64_t n_added) {
    memcpy(reports->totals, totals, (size_t)reports->step->n_aggregates * sizeof *totals);
    reports->n_added = n_added;
}

void dt_reports_evaluate(dt_reports *reports, const dt_total *totals, double *values) {
    if (reports->function == NULL) return;
    if (totals == NULL) totals = reports->totals;
    for (int i = 0; i < reports->step->n_aggregates; i++) reports->inputs[i].number = dt_total_as_f64(totals[i]);
    dt_example_function_call(reports->function, reports->input_places, 0, 0);
    for (int i = 0; i < reports->step->n_reports; i++) memcpy(&values[i], dt_example_function_result(reports->function, i), sizeof values[i]);
}
