/* variables: read, written, and looked at where they are. */
#include "base/memory.h"
#include "runtime/dtrt/array.h"
#include "runtime/dtrt/processes.h"
#include "runtime/execution/ranges.h"

static dt_status *find(const dtrt_session *session, int variable, const dt_artifact_variable **found) {
    DT_TRY(dt_api_check_index(variable, session->artifact->n_variables, "variable"));
    *found = &session->artifact->variables[variable];
    if (dt_session_has_variable(session->session, variable)) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s is a slot of an optimizer, and the session is forward-only", (*found)->path);
}

static dt_status *find_whole(const dtrt_session *session, int variable, const dt_artifact_variable **found) {
    DT_TRY(find(session, variable, found));
    if (dt_ranges_have_all(session->session, variable)) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s is shared out, and this process has a part of it: dtrt_save writes all of it", (*found)->path);
}

static dt_status *read_variable(dtrt_session *session, int variable, void *data, size_t bytes) {
    const dt_artifact_variable *about;
    DT_TRY(find_whole(session, variable, &about));
    if (bytes != (size_t)about->bytes)
        return dt_error(DT_INVALID_ARGUMENT, "%s has %lld bytes, there is room for %zu", about->path, (long long)about->bytes, bytes);
    return dt_ranges_read(session->session, 0, variable, (dt_byte_range){0, about->bytes}, data);
}

/* A failure of one of these is about the variable, where there is one. */
static dt_status *leave(dtrt_session *session, int variable, dt_status *status) {
    bool is_known = variable >= 0 && variable < session->artifact->n_variables;
    return dt_api_leave(session, is_known ? dt_status_about(status, session->artifact->variables[variable].path) : status);
}

dt_status *dtrt_read(dtrt_session *session, int variable, void *data, size_t bytes) {
    DT_TRY(dt_api_need(data, "data"));
    DT_TRY(dt_api_enter_to_read(session));
    return leave(session, variable, read_variable(session, variable, data, bytes));
}

/* The array's elements, dense, which the caller frees. */
static dt_status *copy_array(const dtrt_session *session, int variable, const dtrt_array *array, const dt_artifact_variable **about, void **dense) {
    int64_t no_rows;
    DT_TRY(find(session, variable, about));
    DT_TRY(dt_array_check(array, &(*about)->tensor, dt_program_artifact(session->program)->name, (*about)->path, &no_rows));
    *dense = dt_allocate((size_t)(*about)->bytes);
    if (*dense == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: no memory for a copy of %lld bytes", (*about)->path, (long long)(*about)->bytes);
    dt_array_copy(*dense, array);
    return NULL;
}

static dt_status *write_variable(dtrt_session *session, int variable, const dtrt_array *array) {
    const dt_artifact_variable *about = NULL;
    void *dense = NULL;
    dt_api_call call = {.name = "dtrt_write", .which = variable};
    dt_status *status = copy_array(session, variable, array, &about, &dense);
    bool has_others = dt_processes_count(dt_api_processes(session->processes)) > 1;
    if (status == NULL && has_others) call.hash = dt_hash_bytes(dense, (size_t)about->bytes, DT_HASH_SEED);
    status = dt_api_agree(session, &call, status);
    if (status == NULL) status = dt_ranges_write(session->session, variable, (dt_byte_range){0, about->bytes}, dense);
    dt_release(dense);
    return status;
}

dt_status *dtrt_write(dtrt_session *session, int variable, const dtrt_array *array) {
    DT_TRY(dt_api_need(array, "array"));
    DT_TRY(dt_api_need(array->data, "array->data"));
    DT_TRY(dt_api_enter(session));
    return leave(session, variable, write_variable(session, variable, array));
}

static dt_status *view_variable(dtrt_session *session, int variable, dtrt_array *view) {
    const dt_artifact_variable *about;
    DT_TRY(find_whole(session, variable, &about));
    DT_TRY(dt_session_usable(session->session));
    const void *data = dt_ranges_memory(session->session, variable);
    if (data == NULL && about->split.groups > 0)
        return dt_error(DT_UNIMPLEMENTED, "%s is split over the shards of the model, and lies nowhere in one piece: copy it with dtrt_read",
                        about->path);
    if (data == NULL)
        return dt_error(DT_UNIMPLEMENTED, "%s is in a device's memory, which the host cannot read in place: copy it with dtrt_read", about->path);
    *view = (dtrt_array){.data = data, .dtype = (dtrt_dtype)about->tensor.dtype, .n_dims = about->tensor.n_dims, .dims = about->tensor.dims};
    return NULL;
}

dt_status *dtrt_view(dtrt_session *session, int variable, dtrt_array *view) {
    DT_TRY(dt_api_need(view, "view"));
    *view = (dtrt_array){0};
    DT_TRY(dt_api_enter_to_read(session));
    return leave(session, variable, view_variable(session, variable, view));
}
