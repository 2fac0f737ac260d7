/* run_data: what a step would see, as arrays that other programs read: DIR/INPUT.npy holds the rows of all batches, one after the other, and
 * DIR/batch-rows.npy says how many each batch has. Batches are those of a training with the same seed, replicas and global batch: the pipeline is the
 * same one, so order, random maps and the short batch at the end of an epoch are too. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/arrays.h"
#include "runtime/run.h"

#include <inttypes.h>

typedef struct extract {
    const dt_artifact_function *function;
    dt_pipeline *pipeline;
    dt_text *inputs;    /* [n_inputs]: the bytes of each, batch after batch */
    dt_text batch_rows; /* i64 of each batch */
    int64_t n_rows, n_batches;
} extract;

static dt_status *collect(extract *all, const dt_pipeline_batch *batch) {
    bool failed;
    dt_text_append_bytes(&all->batch_rows, (const char *)&batch->rows, sizeof batch->rows);
    failed = all->batch_rows.failed;
    for (int i = 0; i < all->function->n_inputs; i++) {
        dt_text_append_bytes(&all->inputs[i], batch->inputs[i], (size_t)(batch->rows * all->function->inputs[i].row_bytes));
        failed = failed || all->inputs[i].failed;
    }
    all->n_rows += batch->rows;
    all->n_batches++;
    return failed ? dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %" PRId64 " batches: ask for fewer with --batches", all->n_batches) : NULL;
}

/* From the beginning of the epoch; into the next ones where it has fewer batches than are wanted. */
static dt_status *read_batches(extract *all, const dt_run_options *options) {
    int64_t wanted = options->n_batches > 0 ? options->n_batches : dt_pipeline_n_batches(all->pipeline);
    for (int64_t epoch = options->epoch - 1; all->n_batches < wanted; epoch++) {
        DT_TRY(dt_pipeline_start(all->pipeline, epoch, 0));
        while (all->n_batches < wanted) {
            dt_pipeline_batch batch;
            DT_TRY(dt_pipeline_next(all->pipeline, &batch));
            if (batch.rows == 0) break;
            DT_TRY(collect(all, &batch));
        }
    }
    return NULL;
}

static dt_status *write_array(const char *folder, const char *name, dt_dtype dtype, int n_dims, const int64_t *dims, const dt_text *bytes,
                              dt_log *log) {
    dt_text path = {0};
    dt_text_format(&path, "%s/%s.npy", folder, name);
    dt_status *status = path.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_array_write(path.data, dtype, n_dims, dims, bytes->data);
    if (status == NULL) dt_log_written(log, path.data, dtype, n_dims, dims);
    dt_text_free(&path);
    return status;
}

static dt_status *write_input(const extract *all, int i, const char *folder, dt_log *log) {
    const dt_artifact_tensor *tensor = &all->function->inputs[i];
    int64_t *dims = dt_allocate((size_t)tensor->n_dims * sizeof *dims);
    if (dims == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int d = 0; d < tensor->n_dims; d++) dims[d] = d == 0 ? all->n_rows : tensor->dims[d];
    dt_status *status = write_array(folder, tensor->name, tensor->dtype, tensor->n_dims, dims, &all->inputs[i], log);
    dt_release(dims);
    return status;
}

static dt_status *extract_batches(extract *all, const dt_run_options *options, int step, dt_log *log) {
    DT_TRY(dt_pipeline_check(all->pipeline, step));
    DT_TRY(dt_file_make_folders(options->output));
    DT_TRY(read_batches(all, options));
    for (int i = 0; i < all->function->n_inputs; i++) DT_TRY(write_input(all, i, options->output, log));
    DT_TRY(write_array(options->output, "batch-rows", DT_I64, 1, &all->n_batches, &all->batch_rows, log));
    int64_t n_bad = dt_pipeline_bad_indices(all->pipeline);
    if (n_bad > 0) dt_log_remark(log, "warning", "%" PRId64 " indices were out of range", n_bad);
    return dt_log_status(log);
}

dt_status *dt_run_data(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    extract all = {0};
    int step, from;
    if (options->output == NULL) return dt_error(DT_INVALID_ARGUMENT, "name the folder for the arrays with --output");
    DT_TRY(dt_run_find_step(artifact, options, "train", &step));
    DT_TRY(dt_run_find_pipeline(artifact, options->from, step, &from));
    all.function = &artifact->functions[artifact->steps[step].function];
    dt_pipeline_options data = {.folder = options->data,
                                .replicas = options->replicas != 0 ? options->replicas : 1,
                                .seed = options->seed,
                                .ignore_bad_index = options->ignore_bad_index};
    DT_TRY(dt_run_rows(options, dt_pipeline_rows(&artifact->pipelines[from]), &data.rows));
    DT_TRY(dt_session_check_shape(artifact, data.replicas, data.rows));
    all.inputs = dt_allocate_zeroed((size_t)all.function->n_inputs, sizeof *all.inputs);
    dt_status *status = all.inputs == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) status = dt_pipeline_open(kernels, &artifact->pipelines[from], &data, &all.pipeline);
    if (status == NULL) status = extract_batches(&all, options, step, log);
    dt_pipeline_close(all.pipeline);
    for (int i = 0; all.inputs != NULL && i < all.function->n_inputs; i++) dt_text_free(&all.inputs[i]);
    dt_release(all.inputs);
    dt_text_free(&all.batch_rows);
    return status;
}
