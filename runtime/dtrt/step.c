/* step: a step on a batch of the caller's, and what it leaves. */
#include "runtime/devices/host_memory.h"
#include "runtime/dtrt/array.h"
#include "runtime/dtrt/processes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const dt_artifact_function *function_of(const dtrt_session *session, int step) {
    return &session->artifact->functions[session->artifact->steps[step].function];
}

static const char *name_of(const dtrt_session *session, int step) { return session->artifact->steps[step].name; }

/* ---- inputs ---- */

/* Allocates the buffer of an input, unless it is there. */
static dt_status *need_buffer(dtrt_session *session, int step, dtrt_step_state *state, int i) {
    const dt_artifact_tensor *input = &function_of(session, step)->inputs[i];
    size_t bytes = dt_api_input_bytes(session, input);
    if (state->buffers[i] != NULL) return NULL;
    state->buffers[i] = dt_host_memory_allocate(bytes + DT_SLACK_BYTES);
    if (state->buffers[i] != NULL) return NULL;
    return dt_error(DT_RESOURCE_EXHAUSTED, "step %s: no memory for %zu bytes of %s", name_of(session, step), bytes, input->name);
}

/* Whether this process may have no row of a batch: others have some then. */
static bool may_be_empty(const dtrt_session *session) { return dt_processes_count(dt_api_processes(session->processes)) > 1; }

enum {
    NO_ARRAY = -1 /* rows, before an array has said how many */
};

dt_status *dt_api_refuse_rows(const dtrt_session *session, int step, const char *what, int64_t rows) {
    int64_t most = dt_session_n_rows(session->session), least = may_be_empty(session) ? 0 : 1;
    dt_status *status =
        dt_error_in(DT_INVALID_ARGUMENT, name_of(session, step), 0, "%s %" PRId64 " rows; a batch of this %s has %" PRId64 " to %" PRId64, what, rows,
                    least == 0 ? "process" : "session", least, most);
    if (rows <= most) return status;
    char value[32];
    snprintf(value, sizeof value, "%" PRId64, rows);
    if (rows > session->artifact->capacity * dt_session_replicas(session->session))
        return dt_artifact_suggest(status, session->artifact, "--batch", value);
    dt_status *longer = dt_error(DT_INVALID_ARGUMENT, "%s: --global-batch %s makes one that takes them", dt_status_message(status), value);
    dt_status_free(status);
    return longer;
}

/* Checks an array, and that it has as many rows as those before it: *rows. */
static dt_status *check_input(dtrt_session *session, int step, const dtrt_array *array, const dt_artifact_tensor *input, int64_t *rows) {
    const char *name = name_of(session, step);
    int64_t here = 0;
    DT_TRY(dt_array_check(array, input, name, input->name, &here));
    if (!input->has_rows) return NULL;
    if (here < (may_be_empty(session) ? 0 : 1) || here > dt_session_n_rows(session->session)) {
        char what[128];
        snprintf(what, sizeof what, "%s has", input->name);
        return dt_api_refuse_rows(session, step, what, here);
    }
    if (*rows != NO_ARRAY && here != *rows)
        return dt_error_in(DT_INVALID_ARGUMENT, name, 0, "%s has %" PRId64 " rows, and the batch %" PRId64, input->name, here, *rows);
    *rows = here;
    return NULL;
}

/* Where input `i` is to be read. */
static dt_status *place_input(dtrt_session *session, int step, dtrt_step_state *state, const dtrt_array *array, int i) {
    bool is_callers = array != NULL && array->data != NULL;
    if (is_callers && !state->returns_inputs && dt_array_can_stay(array)) {
        state->inputs[i] = array->data;
        return NULL;
    }
    DT_TRY(need_buffer(session, step, state, i));
    if (is_callers) dt_array_copy(state->buffers[i], array);
    state->inputs[i] = state->buffers[i];
    return NULL;
}

dt_status *dt_api_take_inputs(dtrt_session *session, int step, dtrt_step_state *state, const dtrt_array *arrays, int64_t *rows) {
    const dt_artifact_function *function = function_of(session, step);
    int64_t most = dt_session_n_rows(session->session);
    if (*rows < 0 || *rows > most) return dt_api_refuse_rows(session, step, "it is given", *rows);
    if (*rows == 0) *rows = NO_ARRAY;
    for (int i = 0; i < function->n_inputs && arrays != NULL; i++)
        if (arrays[i].data != NULL) DT_TRY(check_input(session, step, &arrays[i], &function->inputs[i], rows));
    if (*rows == NO_ARRAY) *rows = most;
    for (int i = 0; i < function->n_inputs; i++) DT_TRY(place_input(session, step, state, arrays != NULL ? &arrays[i] : NULL, i));
    return NULL;
}

dt_api_call dt_api_call_of_batch(const dtrt_session *session, const char *name, int step, const dtrt_step_state *state, int64_t rows) {
    const dt_artifact_function *function = function_of(session, step);
    dt_api_call call = {.name = name, .which = step, .hash = DT_HASH_SEED, .has_rows = true, .rows = rows};
    for (int i = 0; i < function->n_inputs && may_be_empty(session); i++)
        if (!function->inputs[i].has_rows) call.hash = dt_hash_bytes(state->inputs[i], (size_t)function->inputs[i].row_bytes, call.hash);
    return call;
}

/* ---- running ---- */

dt_status *dt_api_run_batch(dtrt_session *session, int step, dtrt_step_state *state, const void *const *inputs, int64_t rows) {
    bool trains = session->artifact->steps[step].trains;
    int64_t counter = trains ? session->progress.step : dt_reports_n_added(dt_runner_reports(state->runner));
    int64_t n_run = dt_runner_n_run(state->runner);
    session->last_step = step;
    dt_status *status = dt_runner_run(state->runner, &(dt_batch){.inputs = inputs, .rows = rows, .counter = counter});
    session->progress.step += trains && dt_runner_n_run(state->runner) > n_run;
    return status;
}

static dt_status *step_on_arrays(dtrt_session *session, int step, const dtrt_array *arrays, int64_t rows) {
    dtrt_step_state *state;
    dt_status *status = dt_api_step_state(session, step, &state);
    if (status == NULL) status = dt_api_take_inputs(session, step, state, arrays, &rows);
    dt_api_call call = status == NULL ? dt_api_call_of_batch(session, "dtrt_step", step, state, rows) : (dt_api_call){.name = "dtrt_step"};
    DT_TRY(dt_api_agree(session, &call, status));
    return dt_api_run_batch(session, step, state, state->inputs, call.rows);
}

dt_status *dtrt_step(dtrt_session *session, int step, const dtrt_array *arrays, int64_t rows) {
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, step_on_arrays(session, step, arrays, rows));
}

static dt_status *find_buffer(dtrt_session *session, int step, int input, void **data, size_t *bytes) {
    dtrt_step_state *state;
    DT_TRY(dt_api_step_state(session, step, &state));
    const dt_artifact_function *function = function_of(session, step);
    DT_TRY(dt_api_check_index(input, function->n_inputs, "input"));
    DT_TRY(need_buffer(session, step, state, input));
    *data = state->buffers[input];
    if (bytes != NULL) *bytes = dt_api_input_bytes(session, &function->inputs[input]);
    return NULL;
}

dt_status *dtrt_step_buffer(dtrt_session *session, int step, int input, void **data, size_t *bytes) {
    DT_TRY(dt_api_need(data, "data"));
    *data = NULL;
    if (bytes != NULL) *bytes = 0;
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, find_buffer(session, step, input, data, bytes));
}

static dt_status *need_buffers(dtrt_session *session, int step, dtrt_step_state **state) {
    DT_TRY(dt_api_step_state(session, step, state));
    for (int i = 0; i < function_of(session, step)->n_inputs; i++) DT_TRY(need_buffer(session, step, *state, i));
    return NULL;
}

/* Has the callback fill the buffers with this process's rows. */
static dt_status *fill_buffers(dtrt_session *session, int step, dtrt_step_state *state, dtrt_fill_callback *fill, void *context, int64_t *rows,
                               bool *stops) {
    int64_t most_rows = dt_session_n_rows(session->session);
    *rows = 0;
    dt_api_begin_callback(session);
    *stops = fill(context, session, state->buffers, most_rows, rows) != 0;
    dt_api_end_callback(session);
    if (*stops) *rows = 0;
    if (*rows >= 0 && *rows <= most_rows) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: the callback says %" PRId64 " rows; it was asked for 1 to %" PRId64, name_of(session, step), *rows,
                    most_rows);
}

static dt_status *step_on_callback(dtrt_session *session, int step, dtrt_fill_callback *fill, void *context, int64_t most_steps, int64_t *n_steps) {
    static const char name[] = "dtrt_step_callback";
    dtrt_step_state *state;
    dt_api_call begin = {.name = name, .which = step, .hash = (uint64_t)most_steps};
    DT_TRY(dt_api_agree(session, &begin, need_buffers(session, step, &state)));
    while (most_steps == 0 || *n_steps < most_steps) {
        int64_t rows;
        bool stops;
        dt_status *status = fill_buffers(session, step, state, fill, context, &rows, &stops);
        for (int i = 0; i < function_of(session, step)->n_inputs; i++) state->inputs[i] = state->buffers[i];
        dt_api_call call = dt_api_call_of_batch(session, name, step, state, rows);
        call.stops = stops;
        DT_TRY(dt_api_agree(session, &call, status));
        if (call.stops || call.rows == 0) return NULL;
        DT_TRY(dt_api_run_batch(session, step, state, state->inputs, call.rows));
        ++*n_steps;
    }
    return NULL;
}

dt_status *dtrt_step_callback(dtrt_session *session, int step, dtrt_fill_callback *fill, void *context, int64_t most_steps, int64_t *n_steps) {
    int64_t n = 0;
    if (n_steps != NULL) *n_steps = 0;
    if (fill == NULL) return dt_error(DT_INVALID_ARGUMENT, "fill is NULL");
    if (most_steps < 0) return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " steps at most", most_steps);
    DT_TRY(dt_api_enter(session));
    dt_status *status = step_on_callback(session, step, fill, context, most_steps, &n);
    if (n_steps != NULL) *n_steps = n;
    return dt_api_leave(session, status);
}

/* ---- reports ---- */

static bool is_number(const dtrt_session *session, int step, int report) {
    const dt_artifact_step *about = &session->artifact->steps[step];
    return session->artifact->functions[about->report].results[report].tensor.n_dims == 0;
}

typedef const double *values_function(dt_runner *runner);

static dt_status *find_runner(dtrt_session *session, int step, dt_runner **runner) {
    DT_TRY(dt_api_check_index(step, session->artifact->n_steps, "step"));
    *runner = session->steps[step].runner;
    bool has_run = *runner != NULL && dt_runner_n_run(*runner) > 0;
    return has_run ? NULL : dt_error(DT_FAILED_PRECONDITION, "step %s has not been run", name_of(session, step));
}

/* One number for each report. */
static dt_status *read_numbers(dtrt_session *session, int step, values_function *read, double *values) {
    dt_runner *runner;
    DT_TRY(find_runner(session, step, &runner));
    const dt_artifact_step *about = &session->artifact->steps[step];
    const double *all = read(runner);
    for (int i = 0; i < about->n_reports; i++) values[i] = is_number(session, step, i) ? all[about->report_starts[i]] : NAN;
    return NULL;
}

static dt_status *find_report(const dtrt_session *session, int step, const char *name, int *report) {
    DT_TRY(dt_api_check_index(step, session->artifact->n_steps, "step"));
    *report = dtrt_find_report(session->program, step, name);
    return *report >= 0 ? NULL : dt_error(DT_NOT_FOUND, "step %s reports no %s", name_of(session, step), name);
}

/* All of a report, of whatever shape, into `values` with room for n. */
static dt_status *read_array(dtrt_session *session, int step, values_function *read, int report, double *values, size_t n) {
    dt_runner *runner;
    DT_TRY(dt_api_check_index(step, session->artifact->n_steps, "step"));
    const dt_artifact_step *about = &session->artifact->steps[step];
    DT_TRY(dt_api_check_index(report, about->n_reports, "report"));
    size_t start = (size_t)about->report_starts[report], n_of = (size_t)about->report_starts[report + 1] - start;
    if (n_of > n)
        return dt_error(DT_INVALID_ARGUMENT, "%s: report %s has %zu numbers, there is room for %zu", name_of(session, step), about->reports[report],
                        n_of, n);
    DT_TRY(find_runner(session, step, &runner));
    memcpy(values, read(runner) + start, n_of * sizeof *values);
    return NULL;
}

static dt_status *read_report(dtrt_session *session, int step, values_function *read, const char *name, double *value) {
    int report;
    DT_TRY(find_report(session, step, name, &report));
    if (!is_number(session, step, report))
        return dt_error(DT_INVALID_ARGUMENT, "%s: report %s is no single number: dtrt_report_values has all of it", name_of(session, step), name);
    return read_array(session, step, read, report, value, 1);
}

dt_status *dtrt_reports(dtrt_session *session, int step, double *values) {
    DT_TRY(dt_api_need(values, "values"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_numbers(session, step, dt_runner_step_reports, values));
}

dt_status *dtrt_totals(dtrt_session *session, int step, double *values) {
    DT_TRY(dt_api_need(values, "values"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_numbers(session, step, dt_runner_epoch_reports, values));
}

dt_status *dtrt_report_values(dtrt_session *session, int step, int report, double *values, size_t n) {
    DT_TRY(dt_api_need(values, "values"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_array(session, step, dt_runner_step_reports, report, values, n));
}

dt_status *dtrt_total_values(dtrt_session *session, int step, int report, double *values, size_t n) {
    DT_TRY(dt_api_need(values, "values"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_array(session, step, dt_runner_epoch_reports, report, values, n));
}

dt_status *dtrt_report(dtrt_session *session, int step, const char *name, double *value) {
    DT_TRY(dt_api_need(value, "value"));
    *value = 0;
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_report(session, step, dt_runner_step_reports, name, value));
}

dt_status *dtrt_total(dtrt_session *session, int step, const char *name, double *value) {
    DT_TRY(dt_api_need(value, "value"));
    *value = 0;
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_report(session, step, dt_runner_epoch_reports, name, value));
}

dt_status *dtrt_reset_totals(dtrt_session *session, int step) {
    DT_TRY(dt_api_enter(session));
    dtrt_step_state *state;
    dt_status *status = dt_api_step_state(session, step, &state);
    if (status == NULL) dt_reports_reset(dt_runner_reports(state->runner));
    return dt_api_leave(session, status);
}

/* ---- results ---- */

static dt_status *read_result(dtrt_session *session, int step, int result, void *data, size_t bytes, int64_t *rows) {
    DT_TRY(dt_api_check_index(step, session->artifact->n_steps, "step"));
    const dt_artifact_function *function = function_of(session, step);
    int n_aggregates = session->artifact->steps[step].n_aggregates;
    DT_TRY(dt_api_check_index(result, function->n_results - n_aggregates, "result"));
    if (step != session->last_step) return dt_error(DT_FAILED_PRECONDITION, "step %s was not the last one to run", name_of(session, step));
    const dt_artifact_tensor *tensor = &function->results[n_aggregates + result].tensor;
    int64_t n = tensor->has_rows ? dt_session_last_rows(session->session) : 1;
    if ((size_t)(n * tensor->row_bytes) > bytes)
        return dt_error(DT_INVALID_ARGUMENT, "%s: result %s has %" PRId64 " bytes, there is room for %zu", name_of(session, step), tensor->name,
                        n * tensor->row_bytes, bytes);
    DT_TRY(dt_session_result(session->session, step, n_aggregates + result, data));
    if (rows != NULL) *rows = n;
    return NULL;
}

dt_status *dtrt_result(dtrt_session *session, int step, int result, void *data, size_t bytes, int64_t *rows) {
    if (rows != NULL) *rows = 0;
    DT_TRY(dt_api_need(data, "data"));
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, read_result(session, step, result, data, bytes, rows));
}
