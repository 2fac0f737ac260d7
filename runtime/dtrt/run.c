/* run: what dtrun's commands do: on a session of the caller's, or for dtrun on one of the run's own. */
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "runtime/dtrt/given.h"
#include "runtime/dtrt/log.h"
#include "runtime/dtrt/processes.h"
#include "runtime/options.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The runs use runners by the number of the step. */
static dt_runner **open_runners(const dtrt_session *session) {
    int n = session->artifact->n_steps;
    dt_runner **runners = dt_allocate_zeroed((size_t)n, sizeof *runners);
    for (int s = 0; runners != NULL && s < n; s++) runners[s] = session->steps[s].runner;
    return runners;
}

static void close_runners(dtrt_session *session, dt_runner **runners) {
    for (int s = 0; s < session->artifact->n_steps; s++) session->steps[s].runner = runners[s];
    dt_release(runners);
}

/* Runs `run` with the session's own values in `options`. The session then is where the run has left it. */
static dt_status *run_on(dtrt_session *session, dt_run_function *run, dt_run_options *options, dt_run_session *on, bool *stopped) {
    const dt_session_options *about = dt_session_get_options(session->session);
    dt_checkpoint_state *state = &session->progress;
    dt_api_log log;
    on->session = session->session;
    on->state = state;
    on->trained_step = session->trained_step;
    on->trained_on = session->trained_on;
    on->n_examples = session->n_examples;
    on->runners = open_runners(session);
    if (on->runners == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_status *status = dt_api_open_log(session, &log);
    if (status == NULL) {
        options->on = on;
        options->timeline = session->timeline;
        options->replicas = about->replicas;
        options->global_batch = dt_session_global_batch(session->session);
        options->seed = about->seed;
        if (options->stop == NULL) options->stop = &log.stop;
        options->was_stopped = stopped;
        session->run_log = options->log_dir != NULL ? log.log : NULL;
        session->run_number = state->step;
        status = run(session->kernels, options, log.log);
        session->run_log = NULL;
        *stopped = *stopped || atomic_load(&log.stop) != 0;
        dt_api_close_log(&log);
    }
    close_runners(session, on->runners);
    session->trained_step = on->trained_step;
    session->trained_on = on->trained_on;
    session->n_examples = on->n_examples;
    session->last_step = -1; /* results are a batch's, not a run's */
    return status;
}

/* Whether there is room for a result, before the run: zeros until then. */
static dt_status *prepare_result(dtrt_run_result *result) {
    static const dtrt_run_result nothing;
    return result != NULL ? dt_options_write(result, &nothing, sizeof nothing, "dtrt_run_result") : NULL;
}

static dt_status *give_result(const dt_run_session *on, bool stopped, dtrt_run_result *result) {
    if (result == NULL) return NULL;
    dtrt_run_result about = {.n_steps = on->n_steps, .n_epochs = on->n_epochs, .stopped = stopped};
    snprintf(about.reason, sizeof about.reason, "%s", stopped ? "stopped" : on->reason);
    return dt_options_write(result, &about, sizeof about, "dtrt_run_result");
}

/* ---- what the application gives ---- */

/* For a run, of its step and of `evaluate`. */
typedef struct given_data {
    dt_api_given *given, *validation;
    uint64_t hash; /* of what is alike in all processes */
} given_data;

static dt_status *take_given(dtrt_session *session, const char *otherwise, const dtrt_given *given, const dtrt_given *validation, dt_run_options *run,
                             given_data *data) {
    int step, evaluate = -1;
    const dt_run_options validating = {.step = "evaluate"};
    if (validation != NULL && given == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "validation is for data that is given: the program's own data is evaluated on by its step evaluate");
    if (given != NULL) DT_TRY(dt_run_find_step(session->artifact, run, otherwise, &step));
    if (given != NULL) DT_TRY(dt_api_take_given(session, step, given, &data->given, &data->hash));
    if (validation != NULL) DT_TRY(dt_run_find_step(session->artifact, &validating, otherwise, &evaluate));
    if (validation != NULL) DT_TRY(dt_api_take_given(session, evaluate, validation, &data->validation, &data->hash));
    if (data->given != NULL) run->given = &data->given->base;
    if (data->validation != NULL) run->validation = &data->validation->base;
    return NULL;
}

static void free_given(given_data *data) {
    dt_api_free_given(data->given);
    dt_api_free_given(data->validation);
}

/* ---- training ---- */

static dt_status *read_train_options(const dtrt_session *session, const dtrt_train_options *given, dtrt_train_options *options, dt_run_options *run) {
    DT_TRY(dt_run_options_read(DT_OF_TRAIN, given, options, sizeof *options, run));
    if (options->pause_after_epochs < 0)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_train_options.pause_after_epochs is %" PRId64, options->pause_after_epochs);
    if (options->tell_every < 0) return dt_error(DT_INVALID_ARGUMENT, "dtrt_train_options.tell_every is %" PRId64, options->tell_every);
    if (session->options.forward_only) return dt_error(DT_FAILED_PRECONDITION, "the session is forward-only: it cannot train");
    if (options->log_histograms > 0 && options->log_dir == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "log_histograms are written to log_dir, which is NULL");
    if (options->resume && options->checkpoint_dir == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "resume goes on from the newest checkpoint of checkpoint_dir, which is NULL");
    return NULL;
}

/* A run of the session, where nothing else is said. */
static dt_run_options begin_run(const dtrt_session *session) {
    dt_run_options run = session->asked;
    dt_options_set_defaults(dt_run_option_rows, dt_n_run_options, &run);
    return run;
}

/* The session remembers where its past is told. */
static dt_status *train_logged(dtrt_session *session, dt_run_options *run, dt_run_session *on, bool *stopped) {
    char *log_dir;
    DT_TRY(dt_api_copy_text(run->log_dir, &log_dir));
    on->log_dir = session->log_dir;
    on->is_loaded = session->is_loaded;
    dt_status *status = run_on(session, dt_run_train, run, on, stopped);
    char *other = on->has_logged ? session->log_dir : log_dir;
    if (on->has_logged) session->log_dir = log_dir;
    dt_release(other);
    return status;
}

static dt_status *train(dtrt_session *session, const dtrt_train_options *given, given_data *data, dtrt_run_result *result) {
    dtrt_train_options options;
    dt_run_options run = begin_run(session);
    bool stopped = false;
    dt_status *status = read_train_options(session, given, &options, &run);
    if (status == NULL) status = take_given(session, "train", options.given, options.validation, &run, data);
    dt_api_call call = {.name = "dtrt_train",
                        .which = options.pause_after_epochs,
                        .hash = dt_api_mix_integer(dt_run_options_hash(DT_OF_TRAIN, &run), (int64_t)data->hash)};
    DT_TRY(dt_api_agree(session, &call, status));
    dt_run_session on = {.pause_after = options.pause_after_epochs, .tell_every = options.tell_every};
    status = train_logged(session, &run, &on, &stopped);
    DT_TRY(dt_api_conclude(session, call.name, status));
    return give_result(&on, stopped, result);
}

dt_status *dtrt_train(dtrt_session *session, const dtrt_train_options *options, dtrt_run_result *result) {
    DT_TRY(prepare_result(result));
    DT_TRY(dt_api_enter(session));
    given_data data = {.hash = DT_HASH_SEED};
    dt_status *status = train(session, options, &data, result);
    free_given(&data);
    return dt_api_leave(session, status);
}

/* ---- evaluation and prediction ---- */

/* The end of a call, whose options are read: `status`. */
static dt_status *run_alike(dtrt_session *session, dt_api_call call, dt_run_function *function, dt_run_options *run, dt_status *status,
                            dtrt_run_result *result) {
    dt_run_session on = {.reason = "epochs"};
    bool stopped = false;
    DT_TRY(dt_api_agree(session, &call, status));
    DT_TRY(dt_api_conclude(session, call.name, run_on(session, function, run, &on, &stopped)));
    return give_result(&on, stopped, result);
}

static dt_status *evaluate(dtrt_session *session, const dtrt_evaluate_options *given, given_data *data, dtrt_run_result *result) {
    dtrt_evaluate_options options;
    dt_run_options run = begin_run(session);
    dt_status *status = dt_run_options_read(DT_OF_EVALUATE, given, &options, sizeof options, &run);
    if (status == NULL) status = take_given(session, "evaluate", options.given, NULL, &run, data);
    dt_api_call call = {.name = "dtrt_evaluate", .hash = dt_api_mix_integer(dt_run_options_hash(DT_OF_EVALUATE, &run), (int64_t)data->hash)};
    return run_alike(session, call, dt_run_evaluate, &run, status, result);
}

dt_status *dtrt_evaluate(dtrt_session *session, const dtrt_evaluate_options *options, dtrt_run_result *result) {
    DT_TRY(prepare_result(result));
    DT_TRY(dt_api_enter(session));
    given_data data = {.hash = DT_HASH_SEED};
    dt_status *status = evaluate(session, options, &data, result);
    free_given(&data);
    return dt_api_leave(session, status);
}

static dt_status *read_predict_options(const dtrt_predict_options *given, dt_run_options *run) {
    dtrt_predict_options options;
    DT_TRY(dt_run_options_read(DT_OF_PREDICT, given, &options, sizeof options, run));
    if (options.n_inputs < 0 || (options.inputs == NULL && options.n_inputs > 0))
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_predict_options: %d inputs%s", options.n_inputs, options.inputs == NULL ? " that are NULL" : "");
    for (int i = 0; i < options.n_inputs; i++) DT_TRY(dt_api_need(options.inputs[i], "dtrt_predict_options.inputs[i]"));
    run->inputs = options.inputs;
    run->n_inputs = options.n_inputs;
    return NULL;
}

static dt_status *predict(dtrt_session *session, const dtrt_predict_options *given, dtrt_run_result *result) {
    dt_run_options run = begin_run(session);
    dt_status *status = read_predict_options(given, &run);
    dt_api_call call = {.name = "dtrt_predict", .which = run.n_inputs, .hash = dt_run_options_hash(DT_OF_PREDICT, &run)};
    return run_alike(session, call, dt_run_predict, &run, status, result);
}

dt_status *dtrt_predict(dtrt_session *session, const dtrt_predict_options *options, dtrt_run_result *result) {
    DT_TRY(prepare_result(result));
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, predict(session, options, result));
}

/* ---- text ---- */

/* Each of several processes would make the same text, or the same files. */
static dt_status *need_to_be_alone(const dtrt_session *session, const char *name) {
    int n = dt_processes_count(dt_api_processes(session->processes));
    if (n == 1) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s is for one process, and the session is of %d: give it a session without processes", name, n);
}

/* A text under way. */
typedef struct making {
    dtrt_session *session;
    const dtrt_generate_options *options;
    dt_text text;
    atomic_int stop; /* the callback has asked for the end */
} making;

static dt_status *take_bytes(void *context, const char *bytes, size_t n_bytes) {
    making *all = context;
    dt_text_append_bytes(&all->text, bytes, n_bytes);
    if (all->text.failed) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for the text");
    if (all->options->made == NULL) return NULL;
    dt_api_begin_callback(all->session);
    if (all->options->made(all->options->context, all->session, bytes, n_bytes) != 0) atomic_store(&all->stop, 1);
    dt_api_end_callback(all->session);
    return NULL;
}

static dt_status *make_text(making *all, dt_run_options *run) {
    const dtrt_generate_options *options = all->options;
    bool stopped = false;
    DT_TRY(dt_api_need(options->prompt, "dtrt_generate_options.prompt"));
    if (*options->prompt == 0) return dt_error(DT_INVALID_ARGUMENT, "dtrt_generate_options.prompt is empty: how does the text begin?");
    if (!(options->temperature >= 0 && options->temperature <= FLT_MAX))
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_generate_options: temperature %g: it is 0 or more", options->temperature);
    dt_run_session on = {.reason = "epochs"};
    run->has_temperature = options->has_temperature != 0;
    if (run->has_temperature) run->temperature = options->temperature;
    run->made = take_bytes;
    run->made_context = all;
    run->stop = &all->stop;
    return run_on(all->session, dt_run_generate, run, &on, &stopped);
}

static dt_status *generate(dtrt_session *session, const dtrt_generate_options *given, char **text, size_t *n_bytes) {
    dtrt_generate_options options;
    dt_run_options run = begin_run(session);
    DT_TRY(need_to_be_alone(session, "dtrt_generate"));
    DT_TRY(dt_run_options_read(DT_OF_GENERATE, given, &options, sizeof options, &run));
    making all = {.session = session, .options = &options};
    dt_status *status = make_text(&all, &run);
    if (status == NULL && n_bytes != NULL) *n_bytes = all.text.n;
    if (status == NULL && text != NULL) *text = dt_text_take(&all.text);
    dt_text_free(&all.text);
    return status;
}

dt_status *dtrt_generate(dtrt_session *session, const dtrt_generate_options *options, char **text, size_t *n_bytes) {
    if (text != NULL) *text = NULL;
    if (n_bytes != NULL) *n_bytes = 0;
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, generate(session, options, text, n_bytes));
}

/* ---- data ---- */

static dt_status *write_data(dtrt_session *session, const dtrt_data_options *given) {
    dtrt_data_options options;
    dt_run_options run = begin_run(session);
    bool stopped = false;
    DT_TRY(need_to_be_alone(session, "dtrt_write_data"));
    DT_TRY(dt_run_options_read(DT_OF_DATA, given, &options, sizeof options, &run));
    DT_TRY(dt_api_need(options.output, "dtrt_data_options.output"));
    dt_run_session on = {.reason = "epochs"};
    return run_on(session, dt_run_data, &run, &on, &stopped);
}

dt_status *dtrt_write_data(dtrt_session *session, const dtrt_data_options *options) {
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, write_data(session, options));
}

/* ---- timeline ---- */

dt_status *dt_api_open_timeline(int64_t n_steps, dt_processes *processes, dt_timeline_clock *clock, dt_timeline **timeline) {
    DT_TRY(dt_timeline_align(processes, clock));
    return dt_timeline_create(n_steps, timeline);
}

static dt_status *write_timeline(dt_timeline *timeline, const dt_timeline_clock *clock, dt_processes *processes, bool has_failed, const char *name,
                                 const char *path, dt_log *log) {
    dt_text note = {0};
    dt_status *status = dt_timeline_write(timeline, clock, processes, has_failed, name, path, &note);
    if (note.n > 0) dt_log_remark(log, "note", "%s", note.data);
    dt_text_free(&note);
    return status;
}

static dt_status *check_timeline(const dtrt_session *session, const char *path) {
    if (session->timeline == NULL)
        return dt_error(DT_FAILED_PRECONDITION, "the session keeps no timeline: dtrt_session_options.timeline_steps says of how many steps it does");
    if (session->n_pipelines > 0) return dt_error(DT_FAILED_PRECONDITION, "a pipeline of the session is open, and its threads are at work: close it");
    return dt_session_leads(session->session) ? dt_timeline_check_place(path) : NULL;
}

static dt_status *write_timeline_together(dtrt_session *session, const char *path) {
    dt_api_log log;
    dt_api_call call = {.name = "dtrt_write_timeline"};
    DT_TRY(dt_api_agree(session, &call, check_timeline(session, path)));
    dt_status *status = dt_api_open_log(session, &log);
    if (status == NULL) {
        status =
            write_timeline(session->timeline, &session->clock, dt_api_processes(session->processes), false, session->artifact->name, path, log.log);
        dt_api_close_log(&log);
    }
    return dt_api_conclude(session, call.name, status);
}

dt_status *dtrt_write_timeline(dtrt_session *session, const char *path) {
    DT_TRY(dt_api_need(path, "path"));
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, write_timeline_together(session, path));
}

/* ---- on a session of its own ---- */

/* What the run did is written when it has ended, however it did: what all processes did, unless one has failed. */
static dt_status *run_recorded(const dt_kernels *kernels, dt_run_options *options, const char *path, dt_run_function *run, dt_log *log) {
    dt_timeline_clock clock;
    bool leads = dt_run_leads(options);
    if (path == NULL) return run(kernels, options, log);
    if (leads) DT_TRY(dt_timeline_check_place(path));
    DT_TRY(dt_api_open_timeline(options->timeline_steps, options->processes, &clock, &options->timeline));
    dt_status *status = run(kernels, options, log);
    if (status == NULL || leads)
        status = dt_status_first(
            status, write_timeline(options->timeline, &clock, options->processes, status != NULL, dt_kernels_artifact(kernels)->name, path, log));
    dt_timeline_destroy(options->timeline);
    options->timeline = NULL;
    return status;
}

dt_status *dt_program_run(dtrt_program *program, const char *command, dt_run_options *options, const char *timeline, dt_run_function *run,
                          dt_log *log) {
    const dt_kernels *kernels;
    const char *level;
    dt_text note = {0};
    dt_status *status = dt_program_rendezvous(program, command, options, &level, &note);
    if (status == NULL && note.n > 0) dt_log_remark(log, "note", "%s", note.data);
    dt_text_free(&note);
    DT_TRY(status);
    DT_TRY(dt_run_check_launch_values(dt_program_artifact(program), options));
    DT_TRY(dt_program_hold(program, level, &kernels));
    status = run_recorded(kernels, options, timeline, run, log);
    dt_program_release(program);
    return status;
}
