/* run_evaluate: one pass of a step that does not train over its data, with weights from a checkpoint or a file. */
#include "base/memory.h"
#include "runtime/data_check.h"
#include "runtime/run.h"
#include "runtime/runner.h"
#include "runtime/threads/clock.h"

/* *whole is false when a signal came. */
static dt_status *evaluate_all(dt_runner *runner, dt_pipeline *pipeline, const dt_run_options *options, dt_log *log, int64_t epoch, bool *whole) {
    dt_runner_outcome outcome = DT_RUNNER_RAN;
    DT_TRY(dt_runner_begin(runner, pipeline, 0, 0));
    for (int64_t batch = 0; outcome == DT_RUNNER_RAN; batch++) {
        DT_TRY(dt_runner_step(runner, batch, false, &outcome));
        if (outcome != DT_RUNNER_RAN || !dt_log_wants_progress(log)) continue;
        dt_log_epoch so_far = dt_runner_summary(runner, false);
        dt_log_values values = dt_runner_epoch_values(runner);
        dt_log_progress(log, &so_far, &values);
    }
    *whole = outcome == DT_RUNNER_EPOCH_OVER;
    if (outcome == DT_RUNNER_STOPPED && options->was_stopped != NULL) *options->was_stopped = true;
    int64_t n_bad;
    DT_TRY(dt_runner_bad_indices(runner, &n_bad));
    dt_log_epoch done = dt_runner_summary(runner, *whole);
    dt_log_values values = dt_runner_epoch_values(runner);
    done.epoch = epoch;
    dt_log_epoch_done(log, &done, &values);
    if (n_bad > 0) dt_log_remark(log, "warning", "%lld indices were out of range", (long long)n_bad);
    return NULL;
}

/* The session is there; its weights, its runner. */
static dt_status *evaluate(const dt_kernels *kernels, dt_session *session, dt_pipeline *pipeline, int step, const dt_run_options *options,
                           dt_log *log) {
    int64_t epoch;
    dt_runner *runner;
    double began = dt_seconds_now();
    DT_TRY(dt_data_check_start(session, pipeline));
    DT_TRY(dt_run_prepare_weights(session, options, log, &epoch));
    DT_TRY(dt_pipeline_check(pipeline, step));
    DT_TRY(dt_run_open_runner(kernels, session, options, step, &runner));
    if (options->catch_signals != NULL) options->catch_signals();
    dt_run_log_started(log, kernels, session, pipeline, step, (dt_log_start){.seed = options->seed});
    bool whole;
    dt_status *status = evaluate_all(runner, pipeline, options, log, epoch, &whole);
    if (status == NULL)
        dt_log_ended(log, &(dt_log_end){.reason = whole ? "epochs" : "signal",
                                        .steps = dt_reports_n_added(dt_runner_reports(runner)),
                                        .epochs = 1,
                                        .seconds = dt_seconds_now() - began,
                                        .first_step_seconds = -1,
                                        .data_check_seconds = dt_pipeline_mark_seconds(pipeline)});
    if (options->on != NULL) options->on->n_steps = dt_reports_n_added(dt_runner_reports(runner));
    dt_run_free_runner(options, runner);
    return status != NULL || !whole ? status : dt_log_status(log);
}

dt_status *dt_run_evaluate(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    dt_pipeline *pipeline = NULL;
    dt_session *session = NULL;
    int step, from;
    const dt_artifact_pipeline *written;
    dt_session_options about;
    DT_TRY(dt_run_find_step(artifact, options, "evaluate", &step));
    if (artifact->steps[step].trains) return dt_error(DT_INVALID_ARGUMENT, "step %s trains: run it with `dtrun train`", artifact->steps[step].name);
    DT_TRY(dt_run_find_data(artifact, options, step, &from, &written));
    DT_TRY(dt_run_describe_session(options, &about));
    DT_TRY(dt_run_rows(options, dt_pipeline_rows(written), &about.rows));
    dt_pipeline_options data = {.folder = options->data,
                                .replicas = about.replicas,
                                .rows = about.rows,
                                .seed = options->seed,
                                .ignore_bad_index = options->ignore_bad_index,
                                .stop = options->stop,
                                .progress = dt_processes_progress(options->processes),
                                .timeline = options->timeline};
    dt_status *status = dt_run_share_data(kernels, options, &about, &data);
    if (status == NULL)
        status = options->given != NULL ? dt_run_open_given(kernels, options, options->given, &data, &pipeline)
                                        : dt_run_open_pipeline(kernels, options, written, &data, &pipeline);
    dt_release((void *)(uintptr_t)data.parts);
    if (status == NULL) about.steps_per_epoch = dt_pipeline_n_batches(pipeline);
    if (status == NULL) status = dt_run_open_session(kernels, options, &about, &session);
    if (status == NULL) status = evaluate(kernels, session, pipeline, step, options, log);
    dt_run_free_session(options, session);
    dt_pipeline_close(pipeline);
    return status;
}
