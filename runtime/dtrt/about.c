/* about: texts and files for people: what dtrun's commands print and write that need no session of the caller's. */
#include "runtime/about/about.h"

#include "base/memory.h"
#include "base/options.h"
#include "runtime/bench.h"
#include "runtime/dtrt/processes.h"
#include "runtime/options.h"
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
    dt_run_options run = {0};
    DT_TRY(dt_run_options_read(DT_OF_INFO, given, &options, sizeof options, &run));
    run.devices = options.devices != NULL ? options.devices : "cpu";
    if (options.n_processes < 0) return dt_error(DT_INVALID_ARGUMENT, "dtrt_info_options: %" PRId64 " processes", options.n_processes);
    if (options.n_processes == 0) {
        dt_about_artifact(dt_program_artifact(program), text);
        return NULL;
    }
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

dt_status *dt_program_bench(dtrt_program *const programs[], int n, const char *level, const dt_run_options *options, const dt_bench_wishes *wishes,
                            dt_text *text) {
    const dt_kernels *kernels[2] = {NULL};
    dt_status *status = NULL;
    int n_held = 0;
    while (status == NULL && n_held < n) {
        status = dt_program_hold(programs[n_held], level, &kernels[n_held]);
        n_held += status == NULL;
    }
    if (status == NULL) status = dt_bench_programs(kernels, n, options, wishes, text);
    while (n_held > 0) dt_program_release(programs[--n_held]);
    return status;
}

static dt_status *measure_on(dtrt_program *program, const dt_run_options *run, const dtrt_bench_options *options, dt_text *text) {
    static const int64_t DEFAULT_STEPS = 20;
    const char *level;
    dt_text note = {0};
    dt_status *status = dt_program_rendezvous(program, "bench", run, &level, &note);
    dt_text_free(&note);
    DT_TRY(status);
    const dt_bench_wishes wishes = {options->n_steps != 0 ? options->n_steps : DEFAULT_STEPS, options->format == DTRT_JSON, options->svg};
    return dt_program_bench((dtrt_program *const[]){program, options->versus}, options->versus != NULL ? 2 : 1, level, run, &wishes, text);
}

static dt_status *read_bench_options(const dtrt_session_options *shape, const dtrt_bench_options *given, dtrt_bench_options *options,
                                     char devices[DT_API_DEVICES], dt_run_options *run) {
    DT_TRY(dt_run_options_read(DT_OF_BENCH, given, options, sizeof *options, run));
    DT_TRY(dt_api_read_session(shape, devices, run));
    run->progress = options->progress;
    run->progress_context = options->context;
    run->check_numerics = false;
    run->by_rows = DT_BY_ROWS_NOT;
    if (options->n_steps < 0 || (unsigned)options->format > DTRT_JSON)
        return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " steps, format %d", options->n_steps, (int)options->format);
    return NULL;
}

static dt_status *measure_together(dtrt_program *program, const dtrt_session_options *shape, const dtrt_bench_options *given, dt_text *text) {
    dtrt_bench_options options = {0};
    dt_run_options run = {0};
    char devices[DT_API_DEVICES];
    dt_api_cores cores;
    dt_status *status = read_bench_options(shape, given, &options, devices, &run);
    dt_api_call call = {.name = "dtrt_bench", .which = options.n_steps};
    call.hash = dt_api_mix_integer(dt_run_options_hash(DT_OF_BENCH, &run), options.versus != NULL);
    DT_TRY(dt_api_agree_without_session(shape->processes, &call, status));
    dt_api_keep_cores(&cores);
    status = measure_on(program, &run, &options, text);
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
