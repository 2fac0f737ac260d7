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
    dt_total *totals;          /* [n_totals] */
    double **inputs;           /* [n_aggregates] the report function's, each with its slack */
    const void **input_places; /* the same */
    void *inputs_memory;
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

static size_t n_of(const dt_artifact_step *step, int aggregate) {
    return (size_t)(step->aggregate_starts[aggregate + 1] - step->aggregate_starts[aggregate]);
}

/* Bytes from one input to the next. */
static size_t input_bytes(const dt_artifact_step *step, int aggregate) {
    size_t bytes = n_of(step, aggregate) * sizeof(double) + DT_SLACK_BYTES;
    return (bytes + DT_BUFFER_ALIGNMENT - 1) & ~(size_t)(DT_BUFFER_ALIGNMENT - 1);
}

static void place_inputs(dt_reports *reports) {
    uintptr_t place = ((uintptr_t)reports->inputs_memory + DT_BUFFER_ALIGNMENT - 1) & ~(uintptr_t)(DT_BUFFER_ALIGNMENT - 1);
    for (int i = 0; i < reports->step->n_aggregates; i++) {
        reports->inputs[i] = (double *)place;
        reports->input_places[i] = reports->inputs[i];
        place += input_bytes(reports->step, i);
    }
}

static dt_status *create(dt_reports *reports, const dt_kernels *kernels) {
    const dt_artifact_step *step = reports->step;
    size_t n = (size_t)step->n_aggregates, bytes = DT_BUFFER_ALIGNMENT;
    for (int i = 0; i < step->n_aggregates; i++) bytes += input_bytes(step, i);
    reports->totals = dt_allocate_zeroed((size_t)step->aggregate_starts[n], sizeof *reports->totals);
    reports->inputs_memory = dt_allocate_zeroed(bytes, 1);
    reports->inputs = dt_allocate_zeroed(n, sizeof *reports->inputs);
    reports->input_places = dt_allocate_zeroed(n, sizeof *reports->input_places);
    if (reports->totals == NULL || reports->inputs_memory == NULL || reports->inputs == NULL || reports->input_places == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the reports of %s", step->name);
    place_inputs(reports);
    return step->report >= 0 ? dt_example_function_create(kernels, step->report, &reports->function) : NULL;
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
    dt_release(reports->inputs);
    dt_release(reports->input_places);
    dt_release(reports);
}

int dt_reports_n(const dt_reports *reports) { return reports->step->n_reports; }
int dt_reports_n_totals(const dt_reports *reports) { return (int)reports->step->aggregate_starts[reports->step->n_aggregates]; }
int dt_reports_n_values(const dt_reports *reports) { return (int)reports->step->report_starts[reports->step->n_reports]; }
const char *dt_reports_name(const dt_reports *reports, int report) { return reports->step->reports[report]; }
const dt_total *dt_reports_totals(const dt_reports *reports) { return reports->totals; }
int64_t dt_reports_n_added(const dt_reports *reports) { return reports->n_added; }

void dt_reports_reset(dt_reports *reports) {
    memset(reports->totals, 0, (size_t)dt_reports_n_totals(reports) * sizeof *reports->totals);
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
    const dt_artifact_step *step = reports->step;
    for (int i = 0; i < step->n_aggregates; i++)
        for (int64_t k = step->aggregate_starts[i]; k < step->aggregate_starts[i + 1]; k++) {
            if (reports->n_added == 0)
                reports->totals[k] = aggregates[k];
            else
                add(&reports->totals[k], step->aggregates[i], aggregates[k]);
        }
    reports->n_added++;
}

void dt_reports_restore(dt_reports *reports, const dt_total *totals, int64_t n_added) {
    memcpy(reports->totals, totals, (size_t)dt_reports_n_totals(reports) * sizeof *totals);
    reports->n_added = n_added;
}

void dt_reports_evaluate(dt_reports *reports, const dt_total *totals, double *values) {
    if (reports->function == NULL) return;
    if (totals == NULL) totals = reports->totals;
    const dt_artifact_step *step = reports->step;
    for (int i = 0; i < step->n_aggregates; i++)
        for (size_t k = 0; k < n_of(step, i); k++) reports->inputs[i][k] = dt_total_as_f64(totals[step->aggregate_starts[i] + (int64_t)k]);
    dt_example_function_call(reports->function, reports->input_places, 0, 0);
    for (int i = 0; i < step->n_reports; i++) {
        int64_t start = step->report_starts[i], n = step->report_starts[i + 1] - start;
        memcpy(values + start, dt_example_function_result(reports->function, i), (size_t)n * sizeof *values);
    }
}
