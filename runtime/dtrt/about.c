/* about: texts and files for people: what dtrun's commands print and write that need no session of the caller's. */
#include "runtime/about/about.h"

#include "base/memory.h"
#include "base/options.h"
#include "runtime/bench.h"
#include "runtime/dtrt/processes.h"
#include "runtime/report/page.h"
#include "runtime/weights.h"

#include <inttypes.h>

/* Hands over what was put together, "" where that is nothing; after an error there is none. */
static dt_status *give_text(dt_status *status, dt_text *made, char **text) {
    dt_text_append(made, "");
    if (status == NULL && made->failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status == NULL) *text = dt_text_take(made);
    dt_text_free(made);
    return status;
}

/* ---- programs and machines ---- */

static dt_status *say_info(const dtrt_program *program, const dtrt_info_options *given, dt_text *text) {
    dtrt_info_options options;
    DT_TRY(dt_options_read(given, &options, sizeof options, "dtrt_info_options"));
    if (options.n_processes < 0 || options.replicas < 0 || options.global_batch < 0)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_info_options: %" PRId64 " processes, %" PRId64 " replicas, a global batch of %" PRId64,
                        options.n_processes, options.replicas, options.global_batch);
    if (options.n_processes == 0) {
        dt_about_artifact(dt_program_artifact(program), text);
        return NULL;
    }
    dt_run_options run = {.replicas = options.replicas,
                          .global_batch = options.global_batch,
                          .devices = options.devices != NULL ? options.devices : "cpu",
                          .shard_optimizer = options.shard_optimizer != 0};
    return dt_about_exchange(dt_program_artifact(program), options.n_processes, &run, text);
}

dt_status *dtrt_info(const dtrt_program *program, const dtrt_info_options *options, char **text) {
    dt_text made = {0};
    DT_TRY(dt_api_need(text, "text"));
    *text = NULL;
    DT_TRY(dt_api_need(program, "program"));
    return give_text(say_info(program, options, &made), &made, text);
}

dt_status *dtrt_devices(char **text) {
    dt_text made = {0};
    DT_TRY(dt_api_need(text, "text"));
    *text = NULL;
    dt_about_devices(&made);
    return give_text(NULL, &made, text);
}

/* ---- where time goes ---- */

static dt_status *hold_both(dtrt_program *const programs[2], int n, const char *level, const dt_kernels *kernels[2]) {
    DT_TRY(dt_program_hold(programs[0], level, &kernels[0]));
    dt_status *status = n > 1 ? dt_program_hold(programs[1], level, &kernels[1]) : NULL;
    if (status != NULL) dtrt_close(programs[0]);
    return status;
}

/* `devices` are those of the shape. */
static dt_status *measure_on(dtrt_program *program, const dtrt_session_options *shape, const dtrt_bench_options *options,
                             char devices[DT_API_DEVICES], dt_text *text) {
    static const int64_t DEFAULT_STEPS = 20;
    const char *level;
    dt_text note = {0};
    dt_status *status = dt_api_meet(program, shape, "bench", &level, &note);
    dt_text_free(&note);
    bool central;
    DT_TRY(status);
    DT_TRY(dt_api_read_placement(shape, &central));
    dt_run_options run = {.step = options->step,
                          .from = options->from,
                          .data = shape->data,
                          .devices = devices,
                          .no_libraries = shape->no_libraries != 0,
                          .fast_sums = shape->fast_sums != 0,
                          .central = central,
                          .shard_optimizer = shape->shard_optimizer != 0,
                          .processes = dt_api_processes(shape->processes),
                          .replicas = shape->replicas,
                          .global_batch = shape->global_batch,
                          .seed = shape->seed};
    dtrt_program *const programs[] = {program, options->versus};
    int n = options->versus != NULL ? 2 : 1;
    const dt_kernels *kernels[2] = {NULL};
    DT_TRY(hold_both(programs, n, level, kernels));
    int64_t n_steps = options->n_steps != 0 ? options->n_steps : DEFAULT_STEPS;
    status = dt_bench_programs(kernels, n, &run, n_steps, options->format == DTRT_JSON, text);
    for (int i = 0; i < n; i++) dtrt_close(programs[i]);
    return status;
}

static dt_status *read_bench_options(const dtrt_session_options *shape, const dtrt_bench_options *given, dtrt_bench_options *options,
                                     char devices[DT_API_DEVICES]) {
    DT_TRY(dt_options_read(given, options, sizeof *options, "dtrt_bench_options"));
    DT_TRY(dt_api_print_devices(shape, devices));
    if (options->n_steps < 0 || shape->replicas < 0 || shape->global_batch < 0 || (unsigned)options->format > DTRT_JSON)
        return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " steps, %" PRId64 " replicas, a global batch of %" PRId64 ", format %d", options->n_steps,
                        shape->replicas, shape->global_batch, (int)options->format);
    return NULL;
}

static dt_status *measure_together(dtrt_program *program, const dtrt_session_options *shape, const dtrt_bench_options *given, dt_text *text) {
    dtrt_bench_options options = {0};
    char devices[DT_API_DEVICES];
    dt_api_cores cores;
    dt_status *status = read_bench_options(shape, given, &options, devices);
    dt_api_call call = {.name = "dtrt_bench", .which = options.n_steps, .hash = dt_api_mix_text(DT_HASH_SEED, options.step)};
    call.hash = dt_api_mix_integer(dt_api_mix_text(call.hash, options.from), options.versus != NULL);
    DT_TRY(dt_api_agree_without_session(shape->processes, &call, status));
    dt_api_keep_cores(&cores);
    status = measure_on(program, shape, &options, devices, text);
    dt_api_restore_cores(shape->processes, &cores);
    return dt_api_conclude_without_session(shape->processes, status);
}

static dt_status *measure(dtrt_program *program, const dtrt_session_options *session, const dtrt_bench_options *options, dt_text *text) {
    dtrt_session_options shape;
    DT_TRY(dt_options_read(session, &shape, sizeof shape, "dtrt_session_options"));
    DT_TRY(dt_api_begin_call(shape.processes));
    dt_status *status = measure_together(program, &shape, options, text);
    dt_api_end_call(shape.processes);
    return status;
}

dt_status *dtrt_bench(dtrt_program *program, const dtrt_session_options *session, const dtrt_bench_options *options, char **text) {
    dt_text made = {0};
    DT_TRY(dt_api_need(text, "text"));
    *text = NULL;
    DT_TRY(dt_api_need(program, "program"));
    return give_text(measure(program, session, options, &made), &made, text);
}

/* ---- files ---- */

dt_status *dtrt_write_report(const char *const *folders, int n, const char *path) {
    DT_TRY(dt_api_need(folders, "folders"));
    DT_TRY(dt_api_need(path, "path"));
    if (n < 1) return dt_error(DT_INVALID_ARGUMENT, "a report of %d folders: it is of one or more", n);
    for (int i = 0; i < n; i++) DT_TRY(dt_api_need(folders[i], "folders[i]"));
    return dt_report_write(folders, n, path);
}

/* What begins with a newline, without it. */
static void take_lines(dt_text *lines, dt_text *text) {
    if (lines->n > 0) dt_text_append(text, lines->data + (lines->data[0] == '\n'));
}

dt_status *dtrt_export_weights(const char *weights, const char *path, const dtrt_weights_options *given, char **text, char **warnings) {
    dtrt_weights_options options;
    dt_weights_report report;
    dt_text lines = {0}, warned = {0};
    char *of_lines = NULL, *of_warned = NULL;
    if (text != NULL) *text = NULL;
    if (warnings != NULL) *warnings = NULL;
    DT_TRY(dt_api_need(weights, "weights"));
    DT_TRY(dt_api_need(path, "path"));
    DT_TRY(dt_options_read(given, &options, sizeof options, "dtrt_weights_options"));
    dt_weights_options export = {.path = weights, .map = options.map, .allow_missing = options.allow_missing != 0};
    dt_status *status = dt_weights_export(&export, path, &report);
    take_lines(&report.lines, &lines);
    take_lines(&report.warnings, &warned);
    status = give_text(status, &lines, &of_lines);
    status = give_text(status, &warned, &of_warned);
    dt_weights_report_free(&report);
    if (text != NULL && status == NULL)
        *text = of_lines;
    else
        dt_release(of_lines);
    if (warnings != NULL && status == NULL)
        *warnings = of_warned;
    else
        dt_release(of_warned);
    return status;
}
