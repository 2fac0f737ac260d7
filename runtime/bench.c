/* bench: see the header. Times are kept for each step and each kernel, so that what is said of them are medians. */
#include "runtime/bench.h"
#include "runtime/bench_profile.h"

#include "base/memory.h"
#include "runtime/threads/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_STEPS = 1000000 /* whose times are kept */
};

struct dt_bench {
    const dt_kernels *kernels;
    const dt_artifact *artifact;
    const dt_artifact_function *function; /* of the plans that run */
    dt_session *session;
    dt_processes *processes;
    dt_pipeline *pipeline; /* NULL: made-up input */
    void **inputs;         /* [n_inputs] made up */
    int step;
    int64_t counter, epoch, n_steps, n_most_steps;

    dt_batch staged; /* where the session takes the next batch while one runs */
    bool has_staged;

    double *step_seconds;                 /* [n_most_steps] */
    double *exchanging_seconds;           /* [n_most_steps] between processes */
    double *exposed_seconds;              /* [n_most_steps] of these: spent waiting */
    double *link_seconds;                 /* [n_most_steps] what a GPU exchanges itself, one by one */
    double *kernel_seconds;               /* [n_kernels][n_most_steps] */
    double *step_kernels;                 /* [n_kernels] of one step */
    int *kernel_calls;                    /* [n_kernels] the same in each step */
    int64_t *step_timers;                 /* [2 * n_timers] of one step */
    double *cycles, *readings;            /* [n_timers] of the measured steps */
    double exchange_seconds, all_seconds; /* of all cores, in the measured steps; the GPU's where its kernels were run one by one */
    double *sorted;                       /* [n_most_steps] for medians */
    dt_bench_kernel *said;
    dt_bench_timer *said_timers;
};

/* ---- input ---- */

/* xorshift64: any numbers will do, the same ones each time. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool is_image(const dt_artifact_tensor *tensor) { return tensor->dtype == DT_U8 && tensor->n_dims >= (tensor->has_rows ? 3 : 2); }

static void store_integer(const dt_artifact_tensor *tensor, void *at, uint64_t random) {
    int64_t number = tensor->dtype == DT_BOOL ? (int64_t)(random & 1) : is_image(tensor) ? (int64_t)(random & 255) : (int64_t)(random % 10);
    memcpy(at, &number, dt_dtype_bytes(tensor->dtype)); /* small numbers: the low bytes come first */
}

/* Half precision takes a random fraction after the exponent of [0.5, 1). */
static void store_float(dt_dtype dtype, void *at, uint64_t random) {
    double number = (double)(random >> 11) * 0x1p-53;
    float rounded = (float)(random & 0xffffff) * 0x1p-24F;
    uint16_t half = (uint16_t)(dtype == DT_F16 ? 0x3800 | (random & 0x3ff) : 0x3f00 | (random & 0x7f));
    if (dtype == DT_F64)
        memcpy(at, &number, sizeof number);
    else if (dtype == DT_F32)
        memcpy(at, &rounded, sizeof rounded);
    else
        memcpy(at, &half, sizeof half);
}

static dt_status *make_inputs(dt_bench *bench) {
    int64_t n_rows = dt_session_n_rows(bench->session);
    uint64_t state = 0x9e3779b97f4a7c15U;
    for (int i = 0; i < bench->function->n_inputs; i++) {
        const dt_artifact_tensor *tensor = &bench->function->inputs[i];
        size_t n_bytes = (size_t)(tensor->row_bytes * (tensor->has_rows ? n_rows : 1)), element = dt_dtype_bytes(tensor->dtype);
        char *data = dt_allocate_zeroed(n_bytes + DT_SLACK_BYTES, 1);
        if (data == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for the input %s", tensor->name);
        bench->inputs[i] = data;
        for (size_t b = 0; b < n_bytes; b += element) {
            if (dt_dtype_is_float(tensor->dtype))
                store_float(tensor->dtype, data + b, next_random(&state));
            else
                store_integer(tensor, data + b, next_random(&state) >> 20);
        }
    }
    return NULL;
}

/* The next full batch, whatever the epoch. */
static dt_status *next_batch(dt_bench *bench, dt_batch *run) {
    int64_t wanted = dt_session_global_batch(bench->session);
    *run = (dt_batch){.inputs = (const void *const *)bench->inputs, .rows = wanted, .counter = bench->counter++};
    if (bench->pipeline == NULL) return NULL;
    for (int i = 0; i < 2; i++) { /* the first one may be the rest of an epoch */
        dt_pipeline_batch batch;
        DT_TRY(dt_processes_sign(bench->processes, dt_pipeline_next(bench->pipeline, &batch)));
        run->inputs = batch.inputs;
        if (batch.rows == wanted) return NULL;
        DT_TRY(dt_pipeline_start(bench->pipeline, ++bench->epoch, 0));
    }
    return dt_error(DT_INVALID_ARGUMENT, "the data hold %lld examples, less than one global batch of %lld",
                    (long long)dt_pipeline_n_examples(bench->pipeline), (long long)wanted);
}

/* ---- creating ---- */

static dt_status *open_data(dt_bench *bench, const dt_run_options *options, dt_session_options *about) {
    int from;
    if (options->data == NULL && options->from != NULL)
        return dt_error(DT_INVALID_ARGUMENT, "--from %s needs --data: where its files are", options->from);
    if (options->data == NULL) return NULL;
    DT_TRY(dt_run_find_pipeline(bench->artifact, options->from, bench->step, &from));
    dt_pipeline_options data = {
        .folder = options->data, .replicas = about->replicas, .rows = about->rows, .seed = about->seed, .ignore_bad_index = true};
    DT_TRY(dt_session_find_rows(bench->kernels, about, &data.part));
    DT_TRY(dt_run_open_pipeline(bench->kernels, options, &bench->artifact->pipelines[from], &data, &bench->pipeline));
    DT_TRY(dt_pipeline_check(bench->pipeline, bench->step));
    about->steps_per_epoch = dt_pipeline_n_batches(bench->pipeline);
    return dt_pipeline_start(bench->pipeline, 0, 0);
}

static dt_status *allocate_times(dt_bench *bench) {
    size_t n_kernels = (size_t)bench->function->n_kernels, n_steps = (size_t)bench->n_most_steps, n_timers = (size_t)bench->function->n_timers;
    bench->inputs = dt_allocate_zeroed((size_t)bench->function->n_inputs, sizeof *bench->inputs);
    bench->step_seconds = dt_allocate_zeroed(n_steps, sizeof *bench->step_seconds);
    bench->exchanging_seconds = dt_allocate_zeroed(n_steps, sizeof *bench->exchanging_seconds);
    bench->exposed_seconds = dt_allocate_zeroed(n_steps, sizeof *bench->exposed_seconds);
    bench->link_seconds = dt_allocate_zeroed(n_steps, sizeof *bench->link_seconds);
    bench->kernel_seconds = dt_allocate_zeroed(n_kernels, n_steps * sizeof *bench->kernel_seconds);
    bench->step_kernels = dt_allocate_zeroed(n_kernels, sizeof *bench->step_kernels);
    bench->kernel_calls = dt_allocate_zeroed(n_kernels, sizeof *bench->kernel_calls);
    bench->sorted = dt_allocate_zeroed(n_steps, sizeof *bench->sorted);
    bench->said = dt_allocate_zeroed(n_kernels, sizeof *bench->said);
    bench->step_timers = dt_allocate_zeroed(2 * n_timers, sizeof *bench->step_timers);
    bench->cycles = dt_allocate_zeroed(n_timers, sizeof *bench->cycles);
    bench->readings = dt_allocate_zeroed(n_timers, sizeof *bench->readings);
    bench->said_timers = dt_allocate_zeroed(n_timers, sizeof *bench->said_timers);
    bool all = bench->inputs && bench->step_seconds && bench->exchanging_seconds && bench->exposed_seconds && bench->link_seconds &&
               bench->kernel_seconds && bench->step_kernels && bench->kernel_calls && bench->sorted && bench->said && bench->step_timers &&
               bench->cycles && bench->readings && bench->said_timers;
    return all ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

static dt_status *create(dt_bench *bench, const dt_run_options *options) {
    dt_session_options about;
    if (bench->n_most_steps > MOST_STEPS)
        return dt_error(DT_INVALID_ARGUMENT, "--steps %lld: at most %d", (long long)bench->n_most_steps, MOST_STEPS);
    DT_TRY(dt_run_find_step(bench->artifact, options, "train", &bench->step));
    const dt_artifact_step *step = &bench->artifact->steps[bench->step];
    DT_TRY(dt_run_describe_session(options, &about));
    about.steps_per_epoch = bench->n_most_steps;
    about.times = true;
    int from = -1;
    if (step->pipeline >= 0 || options->from != NULL) DT_TRY(dt_run_find_pipeline(bench->artifact, options->from, bench->step, &from));
    DT_TRY(dt_run_rows(options, from >= 0 ? dt_pipeline_rows(&bench->artifact->pipelines[from]) : bench->artifact->capacity, &about.rows));
    DT_TRY(open_data(bench, options, &about));
    DT_TRY(dt_session_create(bench->kernels, &about, &bench->session));
    bench->function = &dt_session_artifact(bench->session)->functions[step->function];
    DT_TRY(allocate_times(bench));
    DT_TRY(dt_session_initialize(bench->session));
    return bench->pipeline == NULL ? make_inputs(bench) : NULL;
}

dt_status *dt_bench_create(const dt_kernels *kernels, const dt_run_options *options, int64_t n_steps, dt_bench **bench) {
    *bench = NULL;
    dt_bench *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->kernels = kernels;
    made->artifact = dt_kernels_artifact(kernels);
    made->n_most_steps = n_steps;
    made->processes = options->processes;
    dt_status *status = create(made, options);
    if (status == NULL)
        *bench = made;
    else
        dt_bench_destroy(made);
    return status;
}

void dt_bench_destroy(dt_bench *bench) {
    if (bench == NULL) return;
    dt_session_destroy(bench->session);
    dt_pipeline_close(bench->pipeline);
    for (int i = 0; bench->inputs != NULL && i < bench->function->n_inputs; i++) dt_release(bench->inputs[i]);
    dt_release(bench->inputs);
    dt_release(bench->step_seconds);
    dt_release(bench->exchanging_seconds);
    dt_release(bench->exposed_seconds);
    dt_release(bench->link_seconds);
    dt_release(bench->kernel_seconds);
    dt_release(bench->step_kernels);
    dt_release(bench->kernel_calls);
    dt_release(bench->sorted);
    dt_release(bench->said);
    dt_release(bench->step_timers);
    dt_release(bench->cycles);
    dt_release(bench->readings);
    dt_release(bench->said_timers);
    dt_release(bench);
}

/* ---- running ---- */

static dt_status *stage_next(dt_bench *bench) {
    DT_TRY(next_batch(bench, &bench->staged));
    bench->has_staged = true;
    return dt_session_stage(bench->session, bench->step, &bench->staged);
}

/* As training does: the next batch is handed over while a step runs. */
static dt_status *run_ahead(dt_bench *bench) {
    if (!bench->has_staged) DT_TRY(stage_next(bench));
    dt_batch run = {.rows = bench->staged.rows, .counter = bench->staged.counter};
    DT_TRY(dt_session_start(bench->session, bench->step, &run));
    dt_status *status = stage_next(bench);
    return dt_status_first(dt_session_finish(bench->session, NULL), status);
}

static dt_status *run_once(dt_bench *bench) {
    dt_batch batch;
    if (dt_session_stages(bench->session, bench->step)) return run_ahead(bench);
    DT_TRY(next_batch(bench, &batch));
    return dt_session_run(bench->session, bench->step, &batch, NULL);
}

dt_status *dt_bench_step(dt_bench *bench, bool measured) {
    bool gpu = dt_session_is_gpu(bench->session);
    if (gpu) dt_session_measure(bench->session, false);
    double exchanging_before = dt_processes_exchanging_seconds(bench->processes), began = dt_seconds_now();
    DT_TRY(run_once(bench));
    double exchanging = dt_processes_exchanging_seconds(bench->processes) - exchanging_before, exposed = dt_session_exposed_seconds(bench->session);
    double seconds = dt_seconds_now() - began, all_seconds = seconds * dt_session_n_executors(bench->session);
    if (gpu) {
        dt_session_measure(bench->session, true);
        began = dt_seconds_now();
        DT_TRY(run_once(bench));
        all_seconds = dt_seconds_now() - began;
    }
    dt_session_take_timers(bench->session, bench->step_timers);
    if (!measured || bench->n_steps == bench->n_most_steps) return NULL;
    for (int i = 0; i < bench->function->n_timers; i++) {
        bench->cycles[i] += (double)bench->step_timers[2 * i];
        bench->readings[i] += (double)bench->step_timers[2 * i + 1];
    }
    bench->all_seconds += all_seconds;
    bench->exchange_seconds += dt_session_times(bench->session, bench->step_kernels, bench->kernel_calls);
    for (int k = 0; k < bench->function->n_kernels; k++) bench->kernel_seconds[k * bench->n_most_steps + bench->n_steps] = bench->step_kernels[k];
    bench->exchanging_seconds[bench->n_steps] = exchanging;
    bench->exposed_seconds[bench->n_steps] = exposed;
    bench->link_seconds[bench->n_steps] = dt_session_link_seconds(bench->session);
    bench->step_seconds[bench->n_steps++] = seconds;
    return NULL;
}

/* ---- results ---- */

dt_status *dt_bench_peak(dt_bench *bench, dt_peak *peak) { return dt_session_peak(bench->session, peak); }

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that `part` (0 to 1) of the measured ones lie below, between the two nearest. */
static double quantile(dt_bench *bench, const double *seconds, double part) {
    memcpy(bench->sorted, seconds, (size_t)bench->n_steps * sizeof *seconds);
    qsort(bench->sorted, (size_t)bench->n_steps, sizeof *seconds, compare_seconds);
    double place = part * (double)(bench->n_steps - 1);
    int64_t below = (int64_t)place, above = below + 1 < bench->n_steps ? below + 1 : below;
    return bench->sorted[below] + (place - (double)below) * (bench->sorted[above] - bench->sorted[below]);
}

static double sum_of(const dt_bench *bench, const double *seconds) {
    double sum = 0;
    for (int64_t i = 0; i < bench->n_steps; i++) sum += seconds[i];
    return sum;
}

/* The calls for microbatches share the rows of the batch; a kernel that runs once for a memory has all rows where it has any, in parts or not. One
 * that is sharded does so for each shard. */
static double per_step(const dt_bench *bench, int k, dt_artifact_amount amount) {
    double rows = (double)dt_session_n_rows(bench->session), times = dt_session_n_runs(bench->session, bench->step, k);
    double runs = (double)dt_artifact_runs(bench->function, bench->function->kernels[k].loop);
    if (bench->function->kernels[k].sharded) runs *= dt_session_n_shards(bench->session);
    return bench->function->kernels[k].once ? runs * (amount.per_row * rows + amount.fixed) * times
                                            : runs * amount.per_row * rows + amount.fixed * bench->kernel_calls[k];
}

/* A kernel's time is that of its timers, in their proportion. */
static void say_timers(dt_bench *bench) {
    for (int i = 0; i < bench->function->n_timers; i++) {
        const dt_artifact_timer *timer = &bench->function->timers[i];
        double cycles = 0;
        for (int k = 0; k < bench->function->n_timers; k++)
            if (bench->function->timers[k].kernel == timer->kernel) cycles += bench->cycles[k];
        const double seconds = sum_of(bench, bench->kernel_seconds + timer->kernel * bench->n_most_steps) / (double)bench->n_steps;
        bench->said_timers[i] = (dt_bench_timer){.timer = timer,
                                                 .kernel = bench->function->kernels[timer->kernel].name,
                                                 .seconds = cycles > 0 ? seconds * bench->cycles[i] / cycles : 0,
                                                 .readings = bench->readings[i] / (double)bench->n_steps,
                                                 .flops = per_step(bench, timer->kernel, timer->flops),
                                                 .bytes = per_step(bench, timer->kernel, timer->bytes)};
    }
}

const dt_session *dt_bench_session(const dt_bench *bench) { return bench->session; }

dt_bench_result dt_bench_result_of(dt_bench *bench) {
    int n = 0;
    double all = bench->all_seconds, in_kernels = 0;
    for (int k = 0; k < bench->function->n_kernels; k++) {
        const dt_artifact_kernel *kernel = &bench->function->kernels[k];
        const double *seconds = bench->kernel_seconds + k * bench->n_most_steps;
        if (bench->kernel_calls[k] == 0) continue;
        bench->said[n++] = (dt_bench_kernel){.name = kernel->name,
                                             .lines = kernel->lines,
                                             .calls = bench->kernel_calls[k],
                                             .seconds = quantile(bench, seconds, 0.5),
                                             .share = sum_of(bench, seconds) / all,
                                             .flops = per_step(bench, k, kernel->flops),
                                             .bytes = per_step(bench, k, kernel->bytes)};
        in_kernels += sum_of(bench, seconds);
    }
    say_timers(bench);
    dt_bench_result result = {.step = bench->artifact->steps[bench->step].name,
                              .level = dt_session_level(bench->session),
                              .gpu = dt_session_is_gpu(bench->session) ? dt_session_device_name(bench->session, 0) : NULL,
                              .n_processes = dt_processes_count(bench->processes),
                              .exchanging = quantile(bench, bench->exchanging_seconds, 0.5),
                              .exposed = quantile(bench, bench->exposed_seconds, 0.5),
                              .linked = quantile(bench, bench->link_seconds, 0.5),
                              .n_devices = dt_session_n_devices(bench->session),
                              .n_cores = dt_session_n_executors(bench->session),
                              .replicas = dt_session_replicas(bench->session),
                              .global_batch = dt_session_global_batch(bench->session),
                              .n_steps = bench->n_steps,
                              .median = quantile(bench, bench->step_seconds, 0.5),
                              .p10 = quantile(bench, bench->step_seconds, 0.1),
                              .p90 = quantile(bench, bench->step_seconds, 0.9),
                              .n_kernels = n,
                              .kernels = bench->said,
                              .core_seconds = all / (double)bench->n_steps,
                              .n_timers = bench->function->n_timers,
                              .timers = bench->said_timers,
                              .exchange_share = bench->exchange_seconds / all,
                              .rest_share = 1 - (in_kernels + bench->exchange_seconds) / all,
                              .bad_indices = dt_session_bad_index(bench->session)->count};
    result.examples_per_second = (double)result.global_batch / result.median;
    return result;
}
