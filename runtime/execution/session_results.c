/* session_results: what a session's last run has left: results, times, indices out of range. See session.h. */
#include "base/memory.h"
#include "runtime/execution/session_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Each microbatch's valid rows, side by side. */
static dt_status *read_rows(const dt_session *session, int function, const dt_artifact_result *result, char *data) {
    for (int e = 0; e < session->n_executors; e++) {
        const dt_executor_memory *memory = &session->executors[e].memory;
        for (int m = 0; m < memory->n_microbatches; m++) {
            int64_t rows = dt_microbatches_valid_rows(&memory->rows, memory->first_microbatch + m, session->batch.rows);
            size_t bytes = (size_t)(rows * result->tensor.row_bytes);
            if (bytes == 0) continue;
            DT_TRY(dt_device_read(session->executors[e].device, data, dt_executor_memory_address(memory, function, result->buffer, m, 0, 0), bytes));
            data += bytes;
        }
    }
    return NULL;
}

dt_status *dt_session_result(dt_session *session, int step, int index, void *data) {
    int number = session->artifact->steps[step].function;
    const dt_artifact_function *function = &session->artifact->functions[number];
    const dt_artifact_result *result = &function->results[index];
    const dt_artifact_buffer *buffer = &function->buffers[result->buffer];
    if (step != session->step || session->failed)
        return dt_error(DT_FAILED_PRECONDITION, "%s has not been run last: its results are gone", session->artifact->steps[step].name);
    int64_t bytes = result->tensor.has_rows ? result->tensor.row_bytes * dt_session_own_rows(session, session->batch.rows) : result->tensor.row_bytes;
    if (buffer->space == DT_MEMORY_INPUT) {
        memcpy(data, session->batch.inputs[buffer->input], (size_t)bytes);
        return NULL;
    }
    if (result->tensor.has_rows) return read_rows(session, number, result, data);
    const void *source = dt_executor_memory_address(&session->executors[0].memory, number, result->buffer, 0, 0, 0);
    return dt_device_read(session->executors[0].device, data, source, (size_t)bytes);
}

int64_t dt_session_last_rows(const dt_session *session) { return dt_session_own_rows(session, session->batch.rows); }

dt_status *dt_session_gather_result(dt_session *session, int step, int index, dt_text *all) {
    const dt_artifact_tensor *tensor = &session->artifact->functions[session->artifact->steps[step].function].results[index].tensor;
    int64_t rows = tensor->has_rows ? dt_session_own_rows(session, session->batch.rows) : 1;
    size_t n_bytes = (size_t)(rows * tensor->row_bytes);
    void *data = dt_allocate(n_bytes);
    dt_status *status = data != NULL ? dt_session_result(session, step, index, data) : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (!dt_mesh_leads(&session->mesh)) n_bytes = 0; /* others have the same rows */
    if (status == NULL && tensor->has_rows)
        status = dt_processes_gatherv(session->options.processes, data, n_bytes,
                                      &(dt_step_context){.step = session->artifact->steps[step].name, .number = session->batch.counter}, all);
    else if (status == NULL && dt_session_leads(session))
        dt_text_append_bytes(all, data, n_bytes);
    if (status == NULL && all->failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "no memory for result %s", tensor->name);
    dt_release(data);
    return status;
}

double dt_session_times(const dt_session *session, double *kernel_seconds, int *kernel_calls) {
    int n = session->artifact->functions[session->artifact->steps[session->step].function].n_kernels;
    double exchange_seconds = 0;
    for (int k = 0; k < n; k++) {
        kernel_seconds[k] = 0;
        kernel_calls[k] = 0;
        for (int e = 0; e < session->n_executors; e++) {
            kernel_seconds[k] += session->executors[e].times->kernel_seconds[k];
            kernel_calls[k] += session->executors[e].times->kernel_calls[k];
        }
    }
    for (int e = 0; e < session->n_executors; e++) exchange_seconds += session->executors[e].times->exchange_seconds;
    return exchange_seconds;
}

void dt_session_take_timers(dt_session *session, int64_t *timers) {
    int n = session->artifact->functions[session->artifact->steps[session->step].function].n_timers;
    for (int i = 0; i < 2 * n; i++) timers[i] = 0;
    for (int e = 0; e < session->n_executors && n > 0; e++)
        for (int i = 0; i < 2 * n; i++) {
            timers[i] += session->executors[e].timers[i];
            session->executors[e].timers[i] = 0;
        }
}

double dt_session_exposed_seconds(const dt_session *session) { return session->executors[0].times->crossing_seconds + session->gathering_seconds; }

double dt_session_link_seconds(const dt_session *session) { return session->executors[0].times->link_seconds; }

void dt_session_measure(dt_session *session, bool one_by_one) {
    for (int e = 0; e < session->n_executors; e++) session->executors[e].times->pauses = !one_by_one;
}

const dt_bad_index *dt_session_bad_index(const dt_session *session) { return &session->bad_index; }

dt_status *dt_session_bad_index_status(const dt_session *session) {
    const dt_bad_index *bad = &session->bad_index;
    const dt_artifact *artifact = session->artifact;
    char place[200] = "", row[64] = "", iteration[64] = "", others[64] = "";
    if (bad->count == 0) return NULL;
    const dt_artifact_location *location = bad->location >= 0 && bad->location < artifact->n_locations ? &artifact->locations[bad->location] : NULL;
    if (location != NULL) snprintf(place, sizeof place, "%.150s:%" PRId64 ":%" PRId64 ": ", location->file, location->line, location->column);
    if (bad->row >= 0) snprintf(row, sizeof row, ", row %" PRId64, bad->row);
    if (bad->loop > 0) snprintf(iteration, sizeof iteration, ", iteration %" PRId64, bad->loop - 1);
    if (bad->count > 1) snprintf(others, sizeof others, " (and %" PRId64 " more out of range)", bad->count - 1);
    dt_status *status = dt_error(DT_OUT_OF_RANGE, "%s%s step %" PRId64 "%s%s: index %" PRId64 " is not within 0 to %" PRId64 "%s", place,
                                 artifact->steps[session->step].name, session->batch.counter + 1, row, iteration, bad->value, bad->limit - 1, others);
    return location != NULL ? dt_status_at(status, location->file, (int)location->line, (int)location->column) : status;
}
