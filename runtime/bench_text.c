/* bench_text: runs one step, or that of two programs in turn, and says where the time goes: in a table, or as one JSON object. */
#include "base/file.h"
#include "runtime/artifact/json_text.h"
#include "runtime/bench.h"
#include "runtime/bench_profile.h"

#include <inttypes.h>
#include <string.h>

enum {
    N_WARM_UP = 3
};

/* One of the one or two programs. */
typedef struct subject {
    const dt_artifact *artifact;
    dt_bench *bench;
    dt_peak peak;
} subject;

/* ---- what is said of a kernel ---- */

static double rate(double amount, const dt_bench_kernel *kernel) { return kernel->seconds > 0 ? amount / kernel->seconds : 0; }

static double fraction(double rate, double of) { return of > 0 ? rate / of : 0; }

/* ---- text ---- */

static int name_width(const dt_bench_result *result) {
    size_t width = strlen("kernel");
    for (int k = 0; k < result->n_kernels; k++)
        if (strlen(result->kernels[k].name) > width) width = strlen(result->kernels[k].name);
    return (int)width;
}

static void say_kernel(dt_text *text, int width, const dt_bench_kernel *kernel, const dt_peak *most) {
    dt_peak_share nearest = dt_peak_nearest(most, rate(kernel->flops, kernel), rate(kernel->bytes, kernel));
    dt_text_format(text, "%-*s %5.0f %10.3f %6.1f%% %9.2f %9.2f %6.1f%% %-6s  %s\n", width, kernel->name, kernel->calls, 1e3 * kernel->seconds,
                   100 * kernel->share, 1e-9 * rate(kernel->flops, kernel), 1e-9 * rate(kernel->bytes, kernel), 100 * nearest.share, nearest.of,
                   kernel->lines);
}

static void say_subject(dt_text *text, const subject *one) {
    dt_bench_result result = dt_bench_result_of(one->bench);
    int width = name_width(&result);
    char examples[32];
    dt_text_format(text, "%s: step %s, %" PRId64 " rows a step, %" PRId64 " replica%s on ", one->artifact->path, result.step, result.global_batch,
                   result.replicas, dt_plural(result.replicas));
    if (result.gpu != NULL)
        dt_text_append(text, result.gpu);
    else
        dt_text_format(text, "%d device%s, %d core%s", result.n_devices, dt_plural(result.n_devices), result.n_cores, dt_plural(result.n_cores));
    if (result.n_processes > 1) dt_text_format(text, " of each of %d processes", result.n_processes);
    dt_text_format(text, ", %s; %" PRId64 " steps\n", result.level, result.n_steps);
    dt_text_format(text, "%s: %.1f GFLOP/s, memory %.1f GB/s, cache %.1f GB/s\n\n", result.gpu != NULL ? result.gpu : "one core of this machine",
                   1e-9 * one->peak.flops, 1e-9 * one->peak.memory_bytes, 1e-9 * one->peak.cache_bytes);
    dt_session_print_placement(dt_bench_session(one->bench), text);
    dt_session_print_crossing(dt_bench_session(one->bench), text);
    dt_session_print_libraries(dt_bench_session(one->bench), true, text);
    dt_text_format(text, "%-*s %5s %10s %7s %9s %9s %14s  %s\n", width, "kernel", "calls", "ms", "share", "GFLOP/s", "GB/s", "of peak", "lines");
    for (int k = 0; k < result.n_kernels; k++) say_kernel(text, width, &result.kernels[k], &one->peak);
    dt_text_format(text, "%-*s %6.1f%%\n", width + 17, "between replicas", 100 * result.exchange_share);
    dt_text_format(text, "%-*s %6.1f%%\n\n", width + 17, "between kernels", 100 * result.rest_share);
    if (result.n_timers > 0) dt_profile_print(text, &result, &one->peak);
    dt_text_format(text, "a step: %.3f ms median, %.3f p10, %.3f p90; %s examples/s\n", 1e3 * result.median, 1e3 * result.p10, 1e3 * result.p90,
                   dt_text_with_commas((int64_t)result.examples_per_second, examples));
    if (result.n_processes > 1)
        dt_text_format(text, "between processes: %.3f ms of a step, of which %.3f ms are waited for\n", 1e3 * result.exchanging,
                       1e3 * result.exposed);
    if (result.linked > 0)
        dt_text_format(text,
                       "between GPUs themselves: %.3f ms, one exchange by one; in a step they are beside kernels, as dtrun train --timeline shows\n",
                       1e3 * result.linked);
    if (result.bad_indices > 0)
        dt_text_format(text, "%" PRId64 " indices of the last step were out of range: run it on the step's data, not on made-up input\n",
                       result.bad_indices);
}

/* ---- JSON ---- */

static void say_number(dt_text *text, const char *key, double value) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_number(text, value);
}

static void say_string(dt_text *text, const char *key, const char *string) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_string(text, string);
}

static void say_kernel_json(dt_text *text, const dt_bench_kernel *kernel, const dt_peak *most) {
    dt_text_append(text, "{\"name\": ");
    dt_text_append_json_string(text, kernel->name);
    say_string(text, "lines", kernel->lines);
    say_number(text, "calls", kernel->calls);
    say_number(text, "seconds", kernel->seconds);
    say_number(text, "share", kernel->share);
    say_number(text, "flops", kernel->flops);
    say_number(text, "bytes", kernel->bytes);
    say_number(text, "flops_of_peak", fraction(rate(kernel->flops, kernel), most->flops));
    say_number(text, "bytes_of_peak", fraction(rate(kernel->bytes, kernel), most->memory_bytes));
    say_number(text, "bytes_of_cache_peak", fraction(rate(kernel->bytes, kernel), most->cache_bytes));
    dt_text_append(text, "}");
}

static void say_devices_json(dt_text *text, const dt_session *session) {
    dt_text_append(text, ", \"memory\": [");
    for (int d = 0; d < dt_session_n_devices(session); d++) {
        dt_session_device_bytes bytes = dt_session_bytes_of_device(session, d);
        dt_text_append(text, d > 0 ? ", {\"device\": " : "{\"device\": ");
        dt_text_append_json_string(text, dt_session_device_name(session, d));
        say_number(text, "bytes", (double)bytes.all);
        say_number(text, "variables", (double)bytes.weights);
        say_number(text, "optimizer", (double)bytes.slots);
        dt_text_append(text, "}");
    }
    dt_text_append(text, "]");
}

/* An object without its closing brace. */
static void say_subject_json(dt_text *text, const subject *one) {
    dt_bench_result result = dt_bench_result_of(one->bench);
    dt_text_append(text, "{\"program\": ");
    dt_text_append_json_string(text, one->artifact->path);
    say_string(text, "step", result.step);
    say_string(text, "level", result.level);
    if (result.gpu != NULL) say_string(text, "gpu", result.gpu);
    say_number(text, "processes", result.n_processes);
    say_number(text, "devices", result.n_devices);
    say_number(text, "cores", result.n_cores);
    say_number(text, "replicas", (double)result.replicas);
    say_number(text, "global_batch", (double)result.global_batch);
    say_number(text, "steps", (double)result.n_steps);
    say_number(text, "median", result.median);
    say_number(text, "p10", result.p10);
    say_number(text, "p90", result.p90);
    say_number(text, "examples_per_second", result.examples_per_second);
    say_number(text, "peak_flops", one->peak.flops);
    say_number(text, "peak_bytes", one->peak.memory_bytes);
    say_number(text, "peak_cache_bytes", one->peak.cache_bytes);
    say_devices_json(text, dt_bench_session(one->bench));
    dt_text_append(text, ", \"kernels\": [");
    for (int k = 0; k < result.n_kernels; k++) {
        if (k > 0) dt_text_append(text, ", ");
        say_kernel_json(text, &result.kernels[k], &one->peak);
    }
    dt_text_append(text, "]");
    if (result.n_timers > 0) dt_profile_print_json(text, &result);
    say_number(text, "exchange_share", result.exchange_share);
    say_number(text, "rest_share", result.rest_share);
    say_number(text, "exchanging", result.exchanging);
    say_number(text, "exposed", result.exposed);
    say_number(text, "linked", result.linked);
    say_number(text, "bad_indices", (double)result.bad_indices);
}

/* ---- running ---- */

static void say(dt_text *text, const subject *subjects, int n, bool json) {
    double medians[2] = {0};
    for (int i = 0; i < n; i++) medians[i] = dt_bench_result_of(subjects[i].bench).median;
    if (json) {
        say_subject_json(text, &subjects[0]);
        if (n > 1) {
            dt_text_append(text, ", \"vs\": ");
            say_subject_json(text, &subjects[1]);
            dt_text_append(text, "}");
            say_number(text, "ratio", medians[1] / medians[0]);
        }
        dt_text_append(text, "}\n");
    } else {
        for (int i = 0; i < n; i++) {
            say_subject(text, &subjects[i]);
            dt_text_append(text, n > 1 ? "\n" : "");
        }
        if (n > 1)
            dt_text_format(text, "medians of steps run in turn: %s takes %.3f x the time of %s\n", subjects[1].artifact->path,
                           medians[1] / medians[0], subjects[0].artifact->path);
    }
}

static dt_status *open_subject(const dt_kernels *kernels, const dt_run_options *options, int64_t n_steps, subject *one) {
    one->artifact = dt_kernels_artifact(kernels);
    DT_TRY(dt_bench_create(kernels, options, n_steps, &one->bench));
    return dt_bench_peak(one->bench, &one->peak);
}

static dt_status *run(const dt_kernels *const *kernels, int n, const dt_run_options *options, int64_t n_steps, subject *subjects) {
    for (int i = 0; i < n; i++) DT_TRY(open_subject(kernels[i], options, n_steps, &subjects[i]));
    for (int64_t step = -N_WARM_UP; step < n_steps; step++) {
        for (int i = 0; i < n; i++) DT_TRY(dt_bench_step(subjects[i].bench, step >= 0));
        double done = (double)(step + N_WARM_UP + 1) / (double)(n_steps + N_WARM_UP);
        if (options->progress != NULL && options->progress(options->progress_context, done) != 0)
            return dt_error(DT_ABORTED, "a callback has ended the measurement");
    }
    return NULL;
}

/* The flame graph. */
static dt_status *draw(const subject *one, const char *path) {
    dt_bench_result result = dt_bench_result_of(one->bench);
    dt_text svg = {0};
    dt_profile_draw(&svg, one->artifact->path, &result, &one->peak);
    dt_status *status = svg.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_file_write_atomic(path, svg.data, svg.n);
    dt_text_free(&svg);
    return status;
}

static dt_status *check_wishes(const dt_kernels *const *kernels, const dt_bench_wishes *wishes) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels[0]);
    bool is_timed = false;
    for (int f = 0; f < artifact->n_functions; f++) is_timed |= artifact->functions[f].n_timers > 0;
    if (wishes->svg == NULL || is_timed) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--svg %s: the code of %s does not measure itself: dtc compile --profile makes code for CPUs that does",
                    wishes->svg, artifact->path);
}

dt_status *dt_bench_programs(const dt_kernels *const kernels[], int n, const dt_run_options *options, const dt_bench_wishes *wishes, dt_text *text) {
    subject subjects[2] = {{0}};
    DT_TRY(check_wishes(kernels, wishes));
    dt_status *status = run(kernels, n, options, wishes->n_steps, subjects);
    if (status == NULL) say(text, subjects, n, wishes->json);
    if (status == NULL && wishes->svg != NULL && dt_run_leads(options)) status = draw(&subjects[0], wishes->svg);
    for (int i = 0; i < n; i++) dt_bench_destroy(subjects[i].bench);
    return status == NULL && text->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : status;
}
