/* run_details: see run_details.h. */
#include "runtime/run_details.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/pipeline.h"
#include "runtime/execution/launch_values.h"
#include "runtime/execution/ranges.h"
#include "runtime/png_file.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <string.h>

enum {
    MOST_PICTURES = 16, /* an epoch */
    GPU_FIRST = 2,      /* of an epoch's steps, from 0, these are measured on a GPU: kernel by kernel, which takes longer than the step does */
    GPU_END = 4
};

struct dt_run_details {
    const dt_artifact *artifact;
    const dt_artifact_function *function; /* of the step that trains, with the plan that runs */
    const dt_run_options *options;
    dt_session *session;
    dt_log *log;

    bool is_timed, is_gpu;
    double *kernel_seconds; /* [n_kernels] of the epoch so far */
    double *of_step;        /* [n_kernels] */
    int *calls;             /* [n_kernels] */
    double seconds, exchanging;
    double began;             /* the step */
    int64_t n_steps, n_timed; /* of the epoch */

    int sampler;          /* a step that makes pictures; -1: there is none */
    dt_pipeline *samples; /* its data */
};

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* A timeline measures processors too; of a GPU it records the graph of the step, which measuring would take apart. */
void dt_run_details_want(const dt_run_options *options, dt_session_options *about) {
    about->times = options->log_dir != NULL && options->timeline == NULL;
}

/* ---- pictures ---- */

static const dt_artifact_tensor *picture_result(const dt_artifact *artifact, int step, int *result) {
    const dt_artifact_function *function = &artifact->functions[artifact->steps[step].function];
    for (*result = artifact->steps[step].n_aggregates; *result < function->n_results; ++*result)
        if (dt_png_objection(&function->results[*result].tensor) == NULL) return &function->results[*result].tensor;
    return NULL;
}

/* The first step that makes pictures of data of its own, and trains nothing. */
static int find_sampler(const dt_artifact *artifact) {
    int result;
    for (int s = 0; s < artifact->n_steps; s++)
        if (!artifact->steps[s].trains && artifact->steps[s].pipeline >= 0 && picture_result(artifact, s, &result) != NULL) return s;
    return -1;
}

static dt_status *open_samples(dt_run_details *details, const dt_kernels *kernels, const dt_session_options *about) {
    if (details->sampler < 0) return NULL;
    dt_pipeline_options data = {.folder = details->options->data,
                                .replicas = about->replicas,
                                .rows = about->rows,
                                .seed = about->seed,
                                .ignore_bad_index = true,
                                .progress = dt_processes_progress(about->processes)};
    DT_TRY(dt_run_find_rows(kernels, details->options, about, &data.part));
    const dt_artifact_step *sampler = &details->artifact->steps[details->sampler];
    dt_status *status = dt_run_open_pipeline(kernels, details->options, &details->artifact->pipelines[sampler->pipeline], &data, &details->samples);
    if (status != NULL && details->options->given != NULL) { /* who gives data may have no files */
        dt_log_remark(details->log, "note", "there are no pictures of step %s: %s", sampler->name, dt_status_message(status));
        dt_status_free(status);
        details->sampler = -1;
        return NULL;
    }
    DT_TRY(status);
    return dt_pipeline_check(details->samples, details->sampler);
}

static dt_status *emit_picture(const dt_run_details *details, const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, int64_t row,
                               int64_t number) {
    char *png;
    size_t n_bytes;
    dt_text name = {0};
    DT_TRY(dt_png_encode_row(tensor, n_rows, rows, row, &png, &n_bytes));
    dt_text_format(&name, "%s/%s/%" PRId64, details->artifact->steps[details->sampler].name, tensor->name, row);
    dt_log_picture picture = {.name = name.data,
                              .number = number,
                              .width = tensor->dims[2],
                              .height = tensor->dims[1],
                              .channels = tensor->n_dims == 4 ? (int)tensor->dims[3] : 1,
                              .png = png,
                              .n_bytes = n_bytes};
    if (!name.failed) dt_log_detail(details->log, &(dt_log_event){.kind = DT_LOG_PICTURE, .picture = &picture});
    dt_text_free(&name);
    dt_release(png);
    return NULL;
}

/* The same batch after each epoch. What cannot be shown, as brightness that is none, is a remark. */
static dt_status *make_pictures(dt_run_details *details, int64_t number) {
    dt_pipeline_batch batch;
    dt_text rows = {0};
    int result;
    if (details->sampler < 0) return NULL;
    const dt_artifact_tensor *tensor = picture_result(details->artifact, details->sampler, &result);
    DT_TRY(dt_pipeline_start(details->samples, 0, 0));
    DT_TRY(dt_pipeline_next(details->samples, &batch));
    if (batch.rows == 0) return NULL;
    dt_batch run = {.inputs = batch.inputs, .rows = batch.rows};
    DT_TRY(dt_session_run(details->session, details->sampler, &run, NULL));
    dt_status *status = dt_session_gather_result(details->session, details->sampler, result, &rows);
    int64_t n = batch.rows < MOST_PICTURES ? batch.rows : MOST_PICTURES;
    dt_status *shown = NULL;
    for (int64_t row = 0; row < n && status == NULL && shown == NULL && dt_session_leads(details->session); row++)
        shown = emit_picture(details, tensor, batch.rows, rows.data, row, number);
    if (shown != NULL) dt_log_remark(details->log, "note", "no pictures of step %" PRId64 ": %s", number, dt_status_message(shown));
    dt_status_free(shown);
    dt_text_free(&rows);
    return status;
}

/* ---- the plan ---- */

/* Whether the gradient, or the new value, of a variable is summed over replicas from `buffer`. */
static bool sums_into(const dt_run_details *details, int buffer, const char *path) {
    for (int s = 0; s < details->function->n_segments; s++)
        for (int c = 0; c < details->function->segments[s].n_collectives; c++) {
            const dt_artifact_collective *collective = &details->function->segments[s].collectives[c];
            if (collective->source == buffer && strcmp(collective->label, path) == 0) return true;
        }
    return false;
}

/* Whether the kernel reads or writes the variable itself, or computes what is summed into it. */
static bool touches(const dt_run_details *details, const dt_artifact_kernel *kernel, int variable, bool *sums) {
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &details->function->buffers[kernel->buffers[b]];
        *sums = buffer->space != DT_MEMORY_VARIABLE && sums_into(details, kernel->buffers[b], details->artifact->variables[variable].path);
        if (*sums || (buffer->space == DT_MEMORY_VARIABLE && buffer->variable == variable)) return true;
    }
    return false;
}

/* "Net/dense, Net/dense_1 (gradients)": the paths of the parameters and states that the kernel has to do with, without their last part, each once. Of
 * one that changes an optimizer's states "optimizer". */
static void find_layers(const dt_run_details *details, const dt_artifact_kernel *kernel, dt_text *layers) {
    const char *last = "";
    size_t n_last = 0;
    bool sums, any_sums = false;
    for (int v = 0; v < details->artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &details->artifact->variables[v];
        if (variable->kind == DT_VARIABLE_LAUNCH || !touches(details, kernel, v, &sums)) continue;
        if (variable->kind == DT_VARIABLE_SLOT) {
            dt_text_free(layers);
            dt_text_append(layers, "optimizer");
            return;
        }
        const char *end = strrchr(variable->path, '/');
        size_t n = end != NULL ? (size_t)(end - variable->path) : strlen(variable->path);
        any_sums = any_sums || sums;
        if (n == n_last && strncmp(variable->path, last, n) == 0) continue; /* variables of a layer follow one another */
        dt_text_append(layers, layers->n > 0 ? ", " : "");
        dt_text_append_bytes(layers, variable->path, n);
        last = variable->path;
        n_last = n;
    }
    if (any_sums) dt_text_append(layers, " (gradients)");
}

static double per_step(const dt_run_details *details, const dt_artifact_kernel *kernel, dt_artifact_amount amount) {
    double n_calls = kernel->once ? 1 : (double)dt_session_n_rows(details->session) / (double)details->artifact->microbatch_rows;
    double runs = (double)dt_artifact_runs(details->function, kernel->loop) * (kernel->sharded ? dt_session_n_shards(details->session) : 1);
    return runs * (amount.per_row * (double)dt_session_n_rows(details->session) + amount.fixed * n_calls);
}

static void emit_plan(const dt_run_details *details, const char *source, dt_log_kernel *kernels, dt_text *layers) {
    enum {
        MEMORY_KINDS = 4
    };
    dt_log_memory memory[MEMORY_KINDS] = {
        {"parameters", 0}, {"states, launch values", 0}, {"optimizer", 0}, {"activations, gradients, work space", 0}};
    const dt_artifact *artifact = dt_session_artifact(details->session);
    int64_t others = dt_session_memory_bytes(details->session);
    for (int v = 0; v < artifact->n_variables; v++) {
        dt_variable_kind kind = artifact->variables[v].kind;
        int part = kind == DT_VARIABLE_PARAMETER ? 0 : kind == DT_VARIABLE_SLOT ? 2 : 1;
        int64_t bytes = dt_session_variable_bytes(details->session, v);
        memory[part].bytes += bytes;
        others -= bytes;
    }
    memory[MEMORY_KINDS - 1].bytes = others;
    for (int k = 0; k < details->function->n_kernels; k++) {
        const dt_artifact_kernel *kernel = &details->function->kernels[k];
        find_layers(details, kernel, &layers[k]);
        kernels[k] = (dt_log_kernel){.name = kernel->name,
                                     .lines = kernel->lines,
                                     .layers = layers[k].data != NULL ? layers[k].data : "",
                                     .flops = per_step(details, kernel, kernel->flops),
                                     .bytes = per_step(details, kernel, kernel->bytes)};
    }
    dt_log_plan plan = {.compiler = details->artifact->compiler,
                        .llvm = details->artifact->llvm,
                        .program_hash = details->artifact->program_hash,
                        .source = source,
                        .n_memory = MEMORY_KINDS,
                        .n_kernels = details->function->n_kernels,
                        .memory = memory,
                        .kernels = kernels};
    dt_log_detail(details->log, &(dt_log_event){.kind = DT_LOG_PLAN, .plan = &plan});
}

/* ---- launch values ---- */

static dt_status *emit_launch_values(const dt_run_details *details, int64_t number) {
    for (int v = 0; v < details->artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &details->artifact->variables[v];
        double value;
        if (variable->kind != DT_VARIABLE_LAUNCH) continue;
        DT_TRY(dt_session_get_launch(details->session, v, &value));
        dt_log_detail(details->log, &(dt_log_event){.kind = DT_LOG_LAUNCH,
                                                    .step = &(dt_log_step){.number = number},
                                                    .values = &(dt_log_values){.n = 1, .names = &variable->path, .values = &value}});
    }
    return NULL;
}

dt_status *dt_run_details_started(dt_run_details *details, int64_t number) {
    char *source = NULL;
    if (details == NULL || !dt_session_leads(details->session)) return NULL;
    size_t n = (size_t)details->function->n_kernels;
    dt_log_kernel *kernels = dt_allocate_zeroed(n, sizeof *kernels);
    dt_text *layers = dt_allocate_zeroed(n, sizeof *layers);
    dt_status_free(dt_artifact_read_text(details->artifact->path, "program.dt", &source)); /* one from memory has no file: the text is left out */
    if (kernels != NULL && layers != NULL) emit_plan(details, source, kernels, layers);
    for (size_t k = 0; layers != NULL && k < n; k++) dt_text_free(&layers[k]);
    dt_release(source);
    dt_release(layers);
    dt_release(kernels);
    return emit_launch_values(details, number);
}

/* ---- times ---- */

static bool measures(const dt_run_details *details) {
    return details->is_timed && (!details->is_gpu || (details->n_steps >= GPU_FIRST && details->n_steps < GPU_END));
}

void dt_run_details_step(dt_run_details *details) {
    if (details == NULL || !details->is_timed) return;
    if (details->is_gpu) dt_session_measure(details->session, measures(details));
    details->began = dt_seconds_now();
}

void dt_run_details_stepped(dt_run_details *details) {
    if (details == NULL) return;
    if (measures(details)) {
        details->seconds += (dt_seconds_now() - details->began) * dt_session_n_executors(details->session);
        details->exchanging += dt_session_times(details->session, details->of_step, details->calls);
        for (int k = 0; k < details->function->n_kernels; k++) details->kernel_seconds[k] += details->of_step[k];
        details->n_timed++;
    }
    details->n_steps++;
}

static void emit_times(dt_run_details *details, int64_t number) {
    dt_log_times times = {.number = number,
                          .n_steps = details->n_timed,
                          .seconds = details->seconds,
                          .exchanging = details->exchanging,
                          .n_kernels = details->function->n_kernels,
                          .kernel_seconds = details->kernel_seconds};
    if (details->n_timed > 0) dt_log_detail(details->log, &(dt_log_event){.kind = DT_LOG_TIMES, .times = &times});
    memset(details->kernel_seconds, 0, (size_t)details->function->n_kernels * sizeof *details->kernel_seconds);
    details->n_steps = details->n_timed = 0;
    details->seconds = details->exchanging = 0;
}

/* ---- weights ---- */

/* All processes, of which the one that leads says something: others may have shards of it. */
static dt_status *emit_weights(const dt_run_details *details, int64_t number) {
    bool leads = dt_session_leads(details->session);
    const dt_step_context context = {.step = "histograms", .number = number - 1};
    for (int v = 0; v < details->artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &details->artifact->variables[v];
        dt_byte_range own = dt_ranges_own(details->session, v);
        bool is_here = own.n_bytes == variable->bytes; /* rows of a table may be in several processes */
        if (variable->kind != DT_VARIABLE_PARAMETER || !is_here) continue;
        if (!leads) {
            DT_TRY(dt_ranges_collect(details->session, v, own, &context, NULL));
            continue;
        }
        dt_log_weights weights = {.path = variable->path,
                                  .number = number,
                                  .dtype = variable->tensor.dtype,
                                  .n = variable->bytes / (int64_t)dt_dtype_bytes(variable->tensor.dtype)};
        void *values = dt_allocate((size_t)variable->bytes);
        dt_status *status = values == NULL ? no_memory() : dt_ranges_collect(details->session, v, own, &context, values);
        weights.values = values;
        if (status == NULL) dt_log_detail(details->log, &(dt_log_event){.kind = DT_LOG_WEIGHTS, .weights = &weights});
        dt_release(values);
        DT_TRY(status);
    }
    return NULL;
}

dt_status *dt_run_details_epoch_done(dt_run_details *details, int64_t epoch, int64_t number) {
    if (details == NULL) return NULL;
    emit_times(details, number);
    if (dt_session_leads(details->session)) DT_TRY(emit_launch_values(details, number));
    int64_t every = details->options->log_histograms;
    if (every > 0 && epoch % every == 0) DT_TRY(emit_weights(details, number));
    return make_pictures(details, number);
}

/* ---- creating ---- */

dt_status *dt_run_details_create(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_session *session,
                                 int step, dt_log *log, dt_run_details **details) {
    *details = NULL;
    if (options->log_dir == NULL) return NULL;
    const dt_artifact *artifact = dt_session_artifact(session);
    dt_run_details *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return no_memory();
    *made = (dt_run_details){.artifact = artifact,
                             .function = &artifact->functions[artifact->steps[step].function],
                             .options = options,
                             .session = session,
                             .log = log,
                             .is_timed = dt_session_get_options(session)->times,
                             .is_gpu = dt_session_is_gpu(session),
                             .sampler = find_sampler(artifact)};
    size_t n = (size_t)made->function->n_kernels;
    made->kernel_seconds = dt_allocate_zeroed(n, sizeof *made->kernel_seconds);
    made->of_step = dt_allocate_zeroed(n, sizeof *made->of_step);
    made->calls = dt_allocate_zeroed(n, sizeof *made->calls);
    dt_status *status =
        made->kernel_seconds == NULL || made->of_step == NULL || made->calls == NULL ? no_memory() : open_samples(made, kernels, about);
    if (status == NULL)
        *details = made;
    else
        dt_run_details_destroy(made);
    return status;
}

void dt_run_details_destroy(dt_run_details *details) {
    if (details == NULL) return;
    dt_pipeline_close(details->samples);
    dt_release(details->kernel_seconds);
    dt_release(details->of_step);
    dt_release(details->calls);
    dt_release(details);
}
