/* run_predict: a step that trains nothing over arrays of the user's, or over data of the program; one .npy file for each result that it names, or
 * pictures. Of several processes each runs its rows of every batch; the one that leads gets all, and writes. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/arrays.h"
#include "runtime/data_check.h"
#include "runtime/png_file.h"
#include "runtime/run.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct prediction {
    const dt_artifact_step *about;
    const dt_artifact_function *function;
    dt_session *session;
    dt_pipeline *pipeline;
    int step;
    dt_text *results; /* [n_results]: the bytes of each, batch after batch, where this process leads; those of aggregates stay empty */
    int64_t n_rows, n_batches, n_first; /* n_first: rows of the first batch */
    double began, first_done, last_done, waited;
} prediction;

/* A result that sees a batch as a whole is not what it would be of all examples: of two batches there would be two. */
static dt_status *check_results(const prediction *all) {
    int64_t n_batches = dt_pipeline_n_batches(all->pipeline), n_examples = dt_pipeline_n_examples(all->pipeline);
    int64_t replicas = dt_session_replicas(all->session), enough = (n_examples + replicas - 1) / replicas * replicas;
    for (int i = all->about->n_aggregates; i < all->function->n_results && n_batches > 1; i++) {
        const dt_artifact_result *result = &all->function->results[i];
        if (result->tensor.has_rows || !result->varies) continue;
        return dt_error(DT_INVALID_ARGUMENT,
                        "step %s: result %s is one for all examples of a batch, and the input's %" PRId64 " examples are %" PRId64
                        " batches: make them one with --global-batch %" PRId64
                        ", give the result a row for each example, or report it: `dtrun evaluate` adds reports up over batches",
                        all->about->name, result->tensor.name, n_examples, n_batches, enough);
    }
    return NULL;
}

/* Appends what the last batch gave; a result without rows is the same for all batches, or there is but one. */
static dt_status *collect(prediction *all) {
    for (int i = all->about->n_aggregates; i < all->function->n_results; i++) {
        const dt_artifact_tensor *tensor = &all->function->results[i].tensor;
        if (!tensor->has_rows) dt_text_free(&all->results[i]);
        DT_TRY(dt_session_gather_result(all->session, all->step, i, &all->results[i]));
    }
    return NULL;
}

static dt_status *run_batches(prediction *all, const dt_run_options *options) {
    all->began = all->last_done = dt_seconds_now();
    DT_TRY(dt_pipeline_start(all->pipeline, 0, 0));
    for (;;) {
        dt_pipeline_batch batch;
        DT_TRY(dt_processes_sign(options->processes, dt_pipeline_next(all->pipeline, &batch)));
        if (batch.rows == 0) return NULL;
        dt_batch run = {.inputs = batch.inputs, .rows = batch.rows, .counter = all->n_batches};
        DT_TRY(dt_session_run(all->session, all->step, &run, NULL));
        if (!options->ignore_bad_index) DT_TRY(dt_session_bad_index_status(all->session));
        DT_TRY(collect(all));
        all->n_rows += batch.rows;
        all->waited += batch.waited;
        all->last_done = dt_seconds_now();
        if (all->n_batches++ > 0) continue;
        all->first_done = all->last_done;
        all->n_first = batch.rows;
    }
}

static void log_batches(const prediction *all, dt_log *log) {
    double seconds = all->last_done - all->began, after_first = all->last_done - all->first_done;
    bool has_rate = all->n_batches > 1 && after_first > 0;
    dt_log_epoch done = {.step = all->about->name,
                         .epoch = 1,
                         .steps = all->n_batches,
                         .n_steps = all->n_batches,
                         .examples = all->n_rows,
                         .complete = true,
                         .seconds = seconds,
                         .examples_per_second = has_rate ? (double)(all->n_rows - all->n_first) / after_first : 0,
                         .seconds_per_step = has_rate ? after_first / (double)(all->n_batches - 1) : 0,
                         .data_wait = seconds > 0 ? all->waited / seconds : 0};
    dt_log_epoch_done(log, &done, &(dt_log_values){0});
}

static dt_status *write_result(const prediction *all, int i, const char *folder, dt_log *log) {
    const dt_artifact_tensor *tensor = &all->function->results[i].tensor;
    dt_text path = {0};
    int64_t *dims = dt_allocate((size_t)tensor->n_dims * sizeof *dims);
    dt_text_format(&path, "%s/%s.npy", folder, tensor->name);
    dt_status *status = dims == NULL || path.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (int d = 0; status == NULL && d < tensor->n_dims; d++) dims[d] = d == 0 && tensor->has_rows ? all->n_rows : tensor->dims[d];
    if (status == NULL) status = dt_array_write(path.data, tensor->dtype, tensor->n_dims, dims, all->results[i].data);
    if (status == NULL) dt_log_written(log, path.data, tensor->dtype, tensor->n_dims, dims);
    dt_release(dims);
    dt_text_free(&path);
    return status;
}

/* `folder` may be NULL: there is nothing to prepare. */
static dt_status *prepare_folder(const char *folder) {
    if (folder == NULL) return NULL;
    DT_TRY(dt_file_make_folders(folder));
    return access(folder, W_OK | X_OK) == 0 ? NULL : dt_error_in(DT_IO, folder, 0, "cannot be written: %s", strerror(errno));
}

/* Says of results that are no pictures why; it is an error where none is one. */
static dt_status *check_pictures(const prediction *all, const dt_run_options *options, dt_log *log) {
    dt_text others = {0};
    int n_pictures = 0;
    for (int i = all->about->n_aggregates; i < all->function->n_results && options->png != NULL; i++) {
        const dt_artifact_tensor *tensor = &all->function->results[i].tensor;
        const char *objection = dt_png_objection(tensor);
        n_pictures += objection == NULL;
        if (objection != NULL) dt_text_format(&others, "%sresult %s %s", others.n > 0 ? "; " : "", tensor->name, objection);
    }
    dt_status *status = NULL;
    if (options->png != NULL && n_pictures == 0)
        status = dt_error(DT_INVALID_ARGUMENT, "step %s returns no pictures for --png: %s", all->about->name, others.data != NULL ? others.data : "");
    else if (others.n > 0 && options->output == NULL)
        dt_log_remark(log, "note", "%s: --output writes it", others.data);
    dt_text_free(&others);
    return status;
}

static dt_status *write_pictures(const prediction *all, int i, const char *folder, dt_log *log) {
    const dt_artifact_tensor *tensor = &all->function->results[i].tensor;
    if (dt_png_objection(tensor) != NULL) return NULL;
    int64_t dims[4];
    for (int d = 0; d < tensor->n_dims; d++) dims[d] = d == 0 ? all->n_rows : tensor->dims[d];
    dt_text files = {0};
    dt_status *status = dt_png_write_rows(folder, tensor, all->n_rows, all->results[i].data, &files);
    if (status == NULL) dt_log_written(log, files.data != NULL ? files.data : folder, tensor->dtype, tensor->n_dims, dims);
    dt_text_free(&files);
    return status;
}

static dt_status *write_results(const prediction *all, const dt_run_options *options, dt_log *log) {
    for (int i = all->about->n_aggregates; i < all->function->n_results; i++) {
        if (options->output != NULL) DT_TRY(write_result(all, i, options->output, log));
        if (options->png != NULL) DT_TRY(write_pictures(all, i, options->png, log));
    }
    return dt_log_status(log);
}

static dt_status *predict(prediction *all, const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    int64_t epoch;
    DT_TRY(dt_pipeline_check(all->pipeline, all->step));
    DT_TRY(dt_data_check_start(all->session, all->pipeline));
    DT_TRY(check_results(all));
    DT_TRY(check_pictures(all, options, log));
    DT_TRY(dt_run_prepare_weights(all->session, options, log, &epoch));
    dt_run_log_started(log, kernels, all->session, all->pipeline, all->step, (dt_log_start){.seed = options->seed});
    if (dt_session_leads(all->session)) {
        DT_TRY(prepare_folder(options->output));
        DT_TRY(prepare_folder(options->png));
    }
    DT_TRY(run_batches(all, options));
    log_batches(all, log);
    return dt_session_leads(all->session) ? write_results(all, options, log) : NULL;
}

/* The user's files as a pipeline: files(…) | batch(rows). `arguments`: [n_inputs + 1]. */
static dt_artifact_pipeline pipeline_of(const dt_run_options *options, int64_t rows, dt_artifact_argument *arguments, dt_artifact_stage stages[2]) {
    int n = options->n_inputs;
    for (int i = 0; i < n; i++) arguments[i] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = options->inputs[i]};
    arguments[n] = (dt_artifact_argument){.kind = DT_ARGUMENT_INT, .integer = rows};
    stages[0] = (dt_artifact_stage){.kind = "files", .n_arguments = n, .arguments = arguments};
    stages[1] = (dt_artifact_stage){.kind = "batch", .n_arguments = 1, .arguments = arguments + n};
    return (dt_artifact_pipeline){.name = "--input", .n_stages = 2, .stages = stages};
}

static dt_status *open_input(prediction *all, const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about,
                             dt_artifact_argument *arguments, dt_artifact_stage stages[2]) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    dt_artifact_pipeline files = pipeline_of(options, about->rows, arguments, stages);
    dt_pipeline_options data = {
        .folder = NULL, .replicas = about->replicas, .rows = about->rows, .seed = about->seed, .ignore_bad_index = options->ignore_bad_index};
    DT_TRY(dt_run_find_rows(kernels, options, about, &data.part));
    if (options->n_inputs > 0) return dt_run_open_pipeline(kernels, options, &files, &data, &all->pipeline);
    int from;
    if (options->from == NULL && all->about->pipeline < 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "step %s needs its input: name a file for each of its %d input%s with --input, or data of the program with --from",
                        all->about->name, all->function->n_inputs, dt_plural(all->function->n_inputs));
    DT_TRY(dt_run_find_pipeline(artifact, options->from, all->step, &from));
    data.folder = options->data;
    return dt_run_open_pipeline(kernels, options, &artifact->pipelines[from], &data, &all->pipeline);
}

dt_status *dt_run_predict(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    prediction all = {0};
    DT_TRY(dt_run_find_step(artifact, options, "predict", &all.step));
    all.about = &artifact->steps[all.step];
    all.function = &artifact->functions[all.about->function];
    if (all.about->trains) return dt_error(DT_INVALID_ARGUMENT, "step %s trains: run it with `dtrun train`", all.about->name);
    if (all.function->n_results == all.about->n_aggregates) return dt_error(DT_INVALID_ARGUMENT, "step %s returns nothing", all.about->name);
    DT_TRY(dt_run_need_computation(options, "there are no results to write"));
    if (options->output == NULL && options->png == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "name the folder for the results with --output, or for pictures with --png");
    dt_session_options about;
    DT_TRY(dt_run_describe_session(options, &about));
    DT_TRY(dt_run_rows(options, artifact->capacity, &about.rows));

    dt_artifact_stage stages[2];
    dt_artifact_argument *arguments = dt_allocate(((size_t)options->n_inputs + 1) * sizeof *arguments);
    all.results = dt_allocate_zeroed((size_t)all.function->n_results, sizeof *all.results);
    dt_status *status = arguments == NULL || all.results == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) status = open_input(&all, kernels, options, &about, arguments, stages);
    if (status == NULL) status = dt_run_open_session(kernels, options, &about, &all.session);
    if (status == NULL) status = predict(&all, kernels, options, log);
    dt_run_free_session(options, all.session);
    dt_pipeline_close(all.pipeline);
    for (int i = 0; all.results != NULL && i < all.function->n_results; i++) dt_text_free(&all.results[i]);
    dt_release(all.results);
    dt_release(arguments);
    return status;
}
