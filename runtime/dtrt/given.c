/* given: see given.h. Arrays are a source like files; batches are asked for by callbacks. */
#include "runtime/dtrt/given.h"

#include "base/memory.h"
#include "base/options.h"
#include "runtime/dtrt/array.h"

#include <inttypes.h>
#include <string.h>

/* No pipeline can be called so. */
static const char ARRAYS[] = "(arrays)", BATCHES[] = "(batches)";

bool dt_given_is_name(const char *name) { return strcmp(name, ARRAYS) == 0 || strcmp(name, BATCHES) == 0; }

static const dt_artifact_function *function_of(const dt_api_given *given) {
    return &given->session->artifact->functions[given->session->artifact->steps[given->step].function];
}

static const char *name_of(const dt_api_given *given) { return given->session->artifact->steps[given->step].name; }

/* ---- arrays ---- */

typedef struct array_source {
    dt_source source;
    const dt_api_given *given;
    dt_column *columns; /* [inputs of the step] */
} array_source;

static dt_status *read_rows(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const dtrt_array *whole = &((const array_source *)base)->given->arrays[column];
    int64_t dims[DT_MOST_CALLERS_DIMS];
    memcpy(dims, whole->dims, (size_t)whole->n_dims * sizeof *dims);
    dims[0] = n_rows;
    int64_t stride = whole->strides != NULL ? whole->strides[0] : base->columns[column].tensor.row_bytes;
    dtrt_array part = *whole;
    part.dims = dims;
    part.data = (const char *)whole->data + row * stride;
    dt_array_copy(bytes, &part);
    return NULL;
}

static void close_source(dt_source *base) {
    dt_release(((array_source *)base)->columns);
    dt_release(base);
}

static dt_status *open_source(const dt_given *base, dt_source **source) {
    const dt_api_given *given = (const dt_api_given *)base;
    const dt_artifact_function *function = function_of(given);
    array_source *made = dt_allocate_zeroed(1, sizeof *made);
    *source = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->columns = dt_allocate_zeroed((size_t)function->n_inputs, sizeof *made->columns);
    if (made->columns == NULL) {
        dt_release(made);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (int i = 0; i < function->n_inputs; i++) {
        const dt_artifact_tensor *input = &function->inputs[i];
        made->columns[i].path = input->name;
        made->columns[i].tensor = (dt_artifact_tensor){
            .name = "", .dtype = input->dtype, .n_dims = input->n_dims - 1, .dims = input->dims + 1, .row_bytes = input->row_bytes};
    }
    made->given = given;
    made->source = (dt_source){
        .n_examples = given->arrays[0].dims[0], .n_columns = function->n_inputs, .columns = made->columns, .read = read_rows, .close = close_source};
    *source = &made->source;
    return NULL;
}

/* All that an epoch needs is there before it begins. */
static dt_status *check_arrays(dt_api_given *given) {
    const dt_artifact_function *function = function_of(given);
    const char *name = name_of(given);
    if (function->n_inputs == 0) return dt_error_in(DT_INVALID_ARGUMENT, name, 0, "takes no inputs, so there is no data to give");
    memcpy(given->arrays, given->callers.arrays, (size_t)function->n_inputs * sizeof *given->arrays);
    for (int i = 0; i < function->n_inputs; i++) {
        const dt_artifact_tensor *input = &function->inputs[i];
        int64_t rows = 0, first = i > 0 ? given->arrays[0].dims[0] : 0;
        DT_TRY(dt_api_need(given->arrays[i].data, "dtrt_given.arrays[i].data"));
        DT_TRY(dt_array_check(&given->arrays[i], input, name, input->name, &rows));
        if (!input->has_rows)
            return dt_error_in(DT_INVALID_ARGUMENT, name, 0, "%s has no rows, of which examples could be dealt: give batches", input->name);
        if (rows < 1) return dt_error_in(DT_INVALID_ARGUMENT, name, 0, "%s has no rows", input->name);
        if (i > 0 && rows != first)
            return dt_error_in(DT_INVALID_ARGUMENT, name, 0, "%s has %" PRId64 " rows, and %s %" PRId64, input->name, rows, function->inputs[0].name,
                               first);
    }
    return NULL;
}

static dt_status *take_arrays(dt_api_given *given) {
    int64_t most = dt_session_global_batch(given->session->session), batch = given->callers.batch;
    DT_TRY(check_arrays(given));
    if (batch < 0 || batch > most) return dt_api_refuse_rows(given->session, given->step, "its data is dealt into batches of", batch);
    int n = 0;
    given->counts[0] = (dt_artifact_argument){.kind = DT_ARGUMENT_INT, .integer = given->arrays[0].dims[0]};
    given->counts[1] = (dt_artifact_argument){.kind = DT_ARGUMENT_INT, .integer = batch > 0 ? batch : most};
    given->stages[n++] = (dt_artifact_stage){.kind = ARRAYS};
    if (given->callers.shuffle) given->stages[n++] = (dt_artifact_stage){.kind = "shuffle", .n_arguments = 1, .arguments = &given->counts[0]};
    given->stages[n++] = (dt_artifact_stage){.kind = "batch", .n_arguments = 1, .arguments = &given->counts[1]};
    given->base.written = (dt_artifact_pipeline){.name = ARRAYS, .n_stages = n, .stages = given->stages};
    given->base.rows = given->counts[1].integer;
    given->base.open = open_source;
    return NULL;
}

/* ---- batches ---- */

static dt_status *ask_for_batch(dt_api_given *given, int64_t *rows, bool *stops) {
    dtrt_session *session = given->session;
    dtrt_step_state *state = &session->steps[given->step];
    int n_inputs = function_of(given)->n_inputs;
    memset(given->arrays, 0, (size_t)n_inputs * sizeof *given->arrays);
    dt_api_begin_callback(session);
    *stops = given->callers.next(given->callers.context, session, given->arrays, rows) != 0;
    dt_api_end_callback(session);
    if (*stops) *rows = 0;
    bool is_over = *rows == 0 && (n_inputs == 0 || given->arrays[0].data == NULL);
    if (is_over || *stops) { /* others may have rows yet */
        int64_t unused = 0;
        bool alone = dt_processes_count(dt_api_processes(session->processes)) == 1;
        return alone || *stops ? NULL : dt_api_take_inputs(session, given->step, state, NULL, &unused);
    }
    for (int i = 0; i < n_inputs; i++)
        if (given->arrays[i].data == NULL)
            return dt_error_in(DT_INVALID_ARGUMENT, name_of(given), 0, "the batch has no array for %s", function_of(given)->inputs[i].name);
    return dt_api_take_inputs(session, given->step, state, given->arrays, rows);
}

/* Of several processes each has asked for its rows. */
static dt_status *next_batch(const dt_given *base, dt_given_batch *batch) {
    dt_api_given *given = (dt_api_given *)(uintptr_t)base;
    dtrt_step_state *state = &given->session->steps[given->step];
    int64_t rows = 0;
    dt_status *status = batch->stops ? NULL : ask_for_batch(given, &rows, &batch->stops);
    bool has_inputs = status == NULL && !batch->stops;
    dt_api_call call = has_inputs ? dt_api_call_of_batch(given->session, "dtrt_batch_callback", given->step, state, rows)
                                  : (dt_api_call){.name = "dtrt_batch_callback", .which = given->step, .has_rows = true};
    call.stops = batch->stops;
    DT_TRY(dt_api_agree(given->session, &call, status));
    batch->stops = call.stops;
    batch->rows = call.stops ? 0 : call.rows;
    batch->inputs = state->inputs;
    return NULL;
}

static dt_status *stopped(const char *what) { return dt_error(DT_ABORTED, "the application's callback has stopped the run: %s", what); }

static dt_status *begin_epoch(const dt_given *base, int64_t epoch, int64_t position, const char *place, int64_t *begun) {
    const dt_api_given *given = (const dt_api_given *)base;
    *begun = 0;
    dt_api_begin_callback(given->session);
    int stops = given->callers.begin(given->callers.context, given->session, epoch, position, place, begun);
    dt_api_end_callback(given->session);
    if (stops != 0) return stopped("its data does not begin");
    return *begun == 0 || *begun == position ? NULL
                                             : dt_error_in(DT_INVALID_ARGUMENT, name_of(given), 0,
                                                           "the data begins at example %" PRId64 ", and was asked for %" PRId64, *begun, position);
}

static dt_status *tell_place(const dt_given *base, char **place) {
    const dt_api_given *given = (const dt_api_given *)base;
    const char *said = NULL;
    *place = NULL;
    if (given->callers.place == NULL) return NULL;
    dt_api_begin_callback(given->session);
    int stops = given->callers.place(given->callers.context, given->session, &said);
    dt_api_end_callback(given->session);
    return stops != 0 ? stopped("its data does not say where it is") : dt_api_copy_text(said, place);
}

static dt_status *take_batches(dt_api_given *given) {
    dtrt_step_state *unused;
    DT_TRY(dt_api_need((const void *)(uintptr_t)given->callers.begin, "dtrt_given.begin"));
    if (given->callers.n_batches < 0 || given->callers.n_examples < 0)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_given: %" PRId64 " batches, %" PRId64 " examples", given->callers.n_batches,
                        given->callers.n_examples);
    if (given->callers.batch != 0 || given->callers.shuffle)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_given: batch and shuffle are for arrays, and batches are given");
    given->base.written = (dt_artifact_pipeline){.name = BATCHES};
    given->base.rows = dt_session_global_batch(given->session->session);
    given->base.next = next_batch;
    given->base.begin = begin_epoch;
    given->base.tell = tell_place;
    given->base.n_batches = given->callers.n_batches;
    given->base.n_examples = given->callers.n_examples;
    return dt_api_step_state(given->session, given->step, &unused);
}

/* ---- either ---- */

dt_status *dt_api_take_given(dtrt_session *session, int step, const dtrt_given *callers, dt_api_given **given, uint64_t *hash) {
    *given = NULL;
    if (callers == NULL) return NULL;
    dt_api_given *made = *given = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->session = session;
    made->step = step;
    DT_TRY(dt_options_read(callers, &made->callers, sizeof made->callers, "dtrt_given"));
    made->arrays = dt_allocate_zeroed((size_t)function_of(made)->n_inputs + 1, sizeof *made->arrays);
    if (made->arrays == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if ((made->callers.arrays != NULL) == (made->callers.next != NULL))
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_given has %s",
                        made->callers.next != NULL ? "arrays and a callback: it is one of both" : "neither arrays nor a callback `next`");
    DT_TRY(made->callers.arrays != NULL ? take_arrays(made) : take_batches(made));
    int64_t alike[] = {made->base.next != NULL, made->base.rows,       made->callers.shuffle != 0,
                       made->base.n_batches,    made->base.n_examples, made->callers.arrays != NULL ? made->arrays[0].dims[0] : 0};
    *hash = dt_hash_bytes(alike, sizeof alike, *hash);
    return NULL;
}

void dt_api_free_given(dt_api_given *given) {
    if (given != NULL) dt_release(given->arrays);
    dt_release(given);
}
