/* pipeline: data of the program that a caller goes through, to look at it or to step on it. */
#include "runtime/data/pipeline.h"
#include "runtime/data_check.h"

#include "base/memory.h"
#include "base/options.h"
#include "runtime/dtrt/processes.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <string.h>

struct dtrt_pipeline {
    dtrt_session *session;
    dt_pipeline *pipeline;
    int number; /* in the artifact */
    int64_t epoch, position;
    bool runs;     /* from there; else it is to be started */
    int64_t *dims; /* [n_components][1 + n_dims] of the last batch */
};

/* Room for the shapes of all components with their rows. */
static dt_status *make_dims(dtrt_pipeline *pipeline) {
    int n, n_all = 0;
    const dt_column *columns = dt_pipeline_columns(pipeline->pipeline, &n);
    for (int i = 0; i < n; i++) n_all += 1 + columns[i].tensor.n_dims;
    pipeline->dims = dt_allocate((size_t)n_all * sizeof *pipeline->dims);
    return pipeline->dims != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

static void destroy(dtrt_pipeline *pipeline) {
    dt_pipeline_close(pipeline->pipeline);
    dt_release(pipeline->dims);
    dt_release(pipeline);
}

static void close_pipeline(dtrt_pipeline *pipeline) {
    pipeline->session->n_pipelines--;
    destroy(pipeline);
}

static dt_status *open_pipeline(dtrt_session *session, const char *name, dtrt_pipeline **pipeline) {
    const dt_artifact *artifact = session->artifact;
    int number = dt_artifact_find_pipeline(artifact, name);
    if (number < 0) return dt_error_in(DT_NOT_FOUND, artifact->path, 0, "has no data %s", name);
    dt_pipeline_options options = {.folder = session->data,
                                   .replicas = dt_session_replicas(session->session),
                                   .rows = dt_session_rows(session->session),
                                   .seed = session->options.seed,
                                   .ignore_bad_index = session->options.ignore_bad_index != 0,
                                   .part = dt_session_rows_here(session->session),
                                   .progress = dt_processes_progress(dt_api_processes(session->processes)),
                                   .timeline = session->timeline};
    dtrt_pipeline *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->session = session;
    made->number = number;
    dt_status *status = dt_pipeline_open(session->kernels, &artifact->pipelines[number], &options, &made->pipeline);
    if (status == NULL) status = make_dims(made);
    if (status != NULL) {
        destroy(made);
        return status;
    }
    session->n_pipelines++;
    *pipeline = made;
    return NULL;
}

dt_status *dtrt_pipeline_open(dtrt_session *session, const char *name, dtrt_pipeline **pipeline) {
    DT_TRY(dt_api_need(pipeline, "pipeline"));
    *pipeline = NULL;
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter(session));
    dtrt_pipeline *made = NULL;
    dt_api_call call = {.name = "dtrt_pipeline_open", .hash = dt_api_mix_text(DT_HASH_SEED, name)};
    dt_status *status = dt_api_agree(session, &call, open_pipeline(session, name, &made));
    if (status == NULL) status = dt_data_check_start(session->session, made->pipeline);
    if (status == NULL)
        *pipeline = made;
    else if (made != NULL)
        close_pipeline(made);
    return dt_api_leave(session, status);
}

dt_status *dtrt_pipeline_close(dtrt_pipeline *pipeline) {
    if (pipeline == NULL) return NULL;
    dtrt_session *session = pipeline->session;
    DT_TRY(dt_api_enter(session));
    close_pipeline(pipeline);
    return dt_api_leave(session, NULL);
}

dt_status *dtrt_pipeline_describe(dtrt_pipeline *pipeline, dtrt_pipeline_info *info) {
    DT_TRY(dt_api_need(pipeline, "pipeline"));
    DT_TRY(dt_api_enter_to_read(pipeline->session));
    dtrt_pipeline_info about = {.n_examples = dt_pipeline_n_examples(pipeline->pipeline),
                                .n_batches = dt_pipeline_n_batches(pipeline->pipeline),
                                .epoch = pipeline->epoch,
                                .position = pipeline->position};
    dt_pipeline_columns(pipeline->pipeline, &about.n_components);
    return dt_api_leave(pipeline->session, dt_options_write(info, &about, sizeof about, "dtrt_pipeline_info"));
}

dt_status *dtrt_pipeline_seek(dtrt_pipeline *pipeline, int64_t epoch, int64_t position) {
    DT_TRY(dt_api_need(pipeline, "pipeline"));
    DT_TRY(dt_api_enter(pipeline->session));
    int64_t n = dt_pipeline_n_examples(pipeline->pipeline);
    dt_status *status = NULL;
    if (epoch < 0 || epoch > DT_MOST_COUNT || position < 0 || position > n)
        status = dt_error(DT_OUT_OF_RANGE, "example %" PRId64 " of epoch %" PRId64 ": both count from 0, and an epoch has %" PRId64 " examples",
                          position, epoch, n);
    if (status == NULL) {
        pipeline->epoch = epoch;
        pipeline->position = position;
        pipeline->runs = false;
    }
    return dt_api_leave(pipeline->session, status);
}

/* The next batch; of 0 rows at the end of the epoch, after which the next one begins. */
static dt_status *take_batch(dtrt_pipeline *pipeline, dt_pipeline_batch *batch) {
    if (!pipeline->runs) DT_TRY(dt_pipeline_start(pipeline->pipeline, pipeline->epoch, pipeline->position));
    pipeline->runs = true;
    DT_TRY(dt_pipeline_next(pipeline->pipeline, batch));
    pipeline->position = dt_pipeline_position(pipeline->pipeline);
    if (batch->rows > 0) return NULL;
    pipeline->epoch++;
    pipeline->position = 0;
    pipeline->runs = false;
    return NULL;
}

static dt_status *look(dtrt_pipeline *pipeline, dtrt_array *arrays, int64_t *rows) {
    dt_pipeline_batch batch;
    int n;
    DT_TRY(take_batch(pipeline, &batch));
    const dt_column *columns = dt_pipeline_columns(pipeline->pipeline, &n);
    int64_t *dims = pipeline->dims;
    for (int i = 0; i < n && arrays != NULL && batch.rows > 0; i++) {
        const dt_artifact_tensor *tensor = &columns[i].tensor;
        dims[0] = dt_session_own_rows(pipeline->session->session, batch.rows);
        memcpy(dims + 1, tensor->dims, (size_t)tensor->n_dims * sizeof *dims);
        arrays[i] = (dtrt_array){.data = batch.inputs[i], .dtype = (dtrt_dtype)tensor->dtype, .n_dims = 1 + tensor->n_dims, .dims = dims};
        dims += 1 + tensor->n_dims;
    }
    *rows = batch.rows;
    return NULL;
}

dt_status *dtrt_pipeline_next(dtrt_pipeline *pipeline, dtrt_array *arrays, int64_t *rows) {
    DT_TRY(dt_api_need(rows, "rows"));
    *rows = 0;
    DT_TRY(dt_api_need(pipeline, "pipeline"));
    DT_TRY(dt_api_enter(pipeline->session));
    return dt_api_leave(pipeline->session, look(pipeline, arrays, rows));
}

/* Where training is in its data, for a checkpoint. */
static void note_position(dtrt_session *session, int step, const dtrt_pipeline *pipeline) {
    if (!session->artifact->steps[step].trains) return;
    session->trained_step = step;
    session->trained_on = pipeline->number;
    session->n_examples = dt_pipeline_n_examples(pipeline->pipeline);
    session->progress.epoch = pipeline->epoch;
    session->progress.examples = pipeline->position;
}

/* The next batch for the step, or what is wrong here. */
static dt_status *find_batch(dtrt_session *session, int step, dtrt_pipeline *pipeline, dtrt_step_state **state, dt_pipeline_batch *batch) {
    if (pipeline->session != session) return dt_error(DT_INVALID_ARGUMENT, "the pipeline is another session's");
    DT_TRY(dt_api_step_state(session, step, state));
    DT_TRY(dt_pipeline_check(pipeline->pipeline, step));
    return take_batch(pipeline, batch);
}

static dt_status *step_on_pipeline(dtrt_session *session, int step, dtrt_pipeline *pipeline, int64_t *rows) {
    dtrt_step_state *state;
    dt_pipeline_batch batch = {0};
    int64_t epoch = pipeline->epoch, position = pipeline->position;
    dt_status *status = find_batch(session, step, pipeline, &state, &batch);
    dt_api_call call = {.name = "dtrt_step_pipeline", .which = step, .hash = dt_api_mix_integer(dt_api_mix_integer(DT_HASH_SEED, epoch), position)};
    call.hash = dt_api_mix_integer(call.hash, pipeline->number);
    DT_TRY(dt_api_agree(session, &call, status));
    status = batch.rows > 0 ? dt_api_run_batch(session, step, state, batch.inputs, batch.rows) : NULL;
    note_position(session, step, pipeline); /* also of a batch with an index out of range: it has run */
    *rows = batch.rows;
    return status;
}

dt_status *dtrt_step_pipeline(dtrt_session *session, int step, dtrt_pipeline *pipeline, int64_t *rows) {
    int64_t n = 0;
    if (rows != NULL) *rows = 0;
    DT_TRY(dt_api_need(pipeline, "pipeline"));
    DT_TRY(dt_api_enter(session));
    dt_status *status = step_on_pipeline(session, step, pipeline, &n);
    if (rows != NULL) *rows = n;
    return dt_api_leave(session, status);
}
