/* checkpoint: a session saved and loaded, as dtrun does it. */
#include "runtime/checkpoint.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/dtrt/given.h"
#include "runtime/dtrt/log.h"
#include "runtime/dtrt/processes.h"
#include "runtime/run.h"
#include "runtime/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- saving ---- */

/* Where training is, with the totals of the step that trains on a pipeline; the totals stay the runner's. */
static dt_status *describe(const dtrt_session *session, dt_checkpoint_state *state) {
    int n_pipelines = session->artifact->n_pipelines;
    const char *given = session->trained_on == n_pipelines ? session->progress.data : "";
    const char *data = session->trained_on >= 0 && session->trained_on < n_pipelines ? session->artifact->pipelines[session->trained_on].name : given;
    DT_TRY(dt_run_describe(session->session, data, state));
    DT_TRY(dt_checkpoint_state_set(&state->place, session->progress.place));
    state->step = session->progress.step;
    state->epoch = session->progress.epoch;
    state->examples = session->progress.examples;
    DT_TRY(dt_checkpoint_state_set(&state->metric, session->progress.metric));
    state->has_best = session->progress.has_best;
    state->best = session->progress.best;
    state->best_step = session->progress.best_step;
    state->epochs_without_gain = session->progress.epochs_without_gain;
    DT_TRY(dt_checkpoint_state_set(&state->plateau, session->progress.plateau));
    state->plateau_state = session->progress.plateau_state;
    if (session->trained_step < 0 || session->progress.examples == 0) return NULL;
    dt_reports *reports = dt_runner_reports(session->steps[session->trained_step].runner);
    state->n_added = dt_reports_n_added(reports);
    state->n_totals = state->n_added > 0 ? dt_reports_n_totals(reports) : 0;
    state->totals = (dt_total *)(uintptr_t)dt_reports_totals(reports);
    return NULL;
}

static void take_path(void *context, const char *path, int64_t step, double stall_seconds) {
    (void)step, (void)stall_seconds;
    snprintf(context, DTRT_MOST_PATH, "%s", path);
}

/* *began: each process has what it writes. */
static dt_status *write_checkpoint(dtrt_session *session, const char *folder, char *written, bool *began) {
    int other;
    dt_checkpoint_state state = {0};
    dt_checkpoint_writer *writer = NULL;
    dt_processes *processes = dt_api_processes(session->processes);
    dt_checkpoint_writer_options options = {
        .folder = folder, .keep = INT64_MAX, .progress = dt_processes_progress(processes), .written = take_path, .context = written};
    snprintf(written, DTRT_MOST_PATH, "%s/step-%" PRId64, folder, session->progress.step);
    dt_status *status = describe(session, &state);
    if (status == NULL) status = dt_checkpoint_find_mark(folder, processes, &options.mark, &other);
    if (status == NULL) status = dt_checkpoint_writer_create(session->session, &options, &writer);
    if (status == NULL) status = dt_checkpoint_writer_begin(writer, &state);
    *began = status == NULL;
    status = dt_status_first(status, dt_checkpoint_writer_wait(writer));
    dt_checkpoint_writer_destroy(writer);
    state.totals = NULL;
    dt_checkpoint_state_free(&state);
    return status;
}

/* The folder, for who writes. *lock -1: nothing is locked. */
static dt_status *prepare(const dtrt_session *session, const char *folder, int *lock) {
    *lock = -1;
    if (session->options.forward_only)
        return dt_error(DT_FAILED_PRECONDITION, "a forward-only session has no slots of the optimizer to save: nothing could go on from it");
    return dt_session_leads(session->session) ? dt_checkpoint_prepare(folder, lock) : NULL;
}

/* What fails after all has been copied is everybody's error, and the run goes on. Where process 0 collects what is shared out, nobody copies: what
 * fails then ends the run. */
static dt_status *save_together(dtrt_session *session, const char *folder, char *written) {
    int lock;
    bool began;
    dt_api_call call = {.name = "dtrt_save", .hash = dt_api_mix_text(DT_HASH_SEED, folder)}, end = {.name = call.name, .which = 1};
    dt_status *status = dt_api_agree(session, &call, prepare(session, folder, &lock));
    if (status == NULL) {
        status = write_checkpoint(session, folder, written, &began);
        status = began ? dt_api_agree(session, &end, status) : dt_api_conclude(session, call.name, status);
    }
    dt_checkpoint_unlock(lock);
    return status;
}

static dt_status *save(dtrt_session *session, const char *folder, char **path) {
    char *written = dt_allocate_zeroed(1, DTRT_MOST_PATH);
    if (written == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_status *status = save_together(session, folder, written);
    if (status == NULL && path != NULL)
        *path = written;
    else
        dt_release(written);
    return status;
}

dt_status *dtrt_save(dtrt_session *session, const char *folder, char **path) {
    if (path != NULL) *path = NULL;
    DT_TRY(dt_api_need(folder, "folder"));
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, save(session, folder, path));
}

/* ---- finding ---- */

/* `path`, if it is a checkpoint, or the newest one in it. The caller frees *found. */
static dt_status *find_checkpoint(const char *path, char **found) {
    char state[DTRT_MOST_PATH];
    *found = NULL;
    if ((size_t)snprintf(state, sizeof state, "%s/progress.json", path) >= sizeof state)
        return dt_error(DT_INVALID_ARGUMENT, "%.80s…: the path is too long", path);
    if (!dt_file_exists(state)) {
        DT_TRY(dt_checkpoint_newest(path, found));
        return *found != NULL ? NULL : dt_error_in(DT_NOT_FOUND, path, 0, "is no checkpoint, and holds none");
    }
    size_t bytes = strlen(path) + 1;
    *found = dt_allocate(bytes);
    if (*found == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(*found, path, bytes);
    return NULL;
}

dt_status *dtrt_checkpoint_describe(const char *path, dtrt_checkpoint_info *info) {
    char *found;
    dt_checkpoint_state state = {0};
    dtrt_checkpoint_info about = {0};
    DT_TRY(dt_api_need(path, "path"));
    DT_TRY(find_checkpoint(path, &found));
    dt_status *status = dt_checkpoint_read_state(found, &state);
    if (status == NULL) {
        snprintf(about.path, sizeof about.path, "%s", found);
        about.step = state.step;
        about.epoch = state.epoch;
        about.examples = state.examples;
        about.seed = state.seed;
        about.replicas = state.replicas;
        about.global_batch = state.global_batch;
        status = dt_options_write(info, &about, sizeof about, "dtrt_checkpoint_info");
    }
    dt_checkpoint_state_free(&state);
    dt_release(found);
    return status;
}

/* ---- loading ---- */

/* What going on needs beside the variables, before any of these is changed: nothing can fail after that. */
static dt_status *make_runners(dtrt_session *session) {
    dtrt_step_state *unused;
    for (int s = 0; s < session->artifact->n_steps; s++)
        if (session->artifact->steps[s].trains) DT_TRY(dt_api_step_state(session, s, &unused));
    return NULL;
}

/* The totals of an epoch that was under way. */
static void restore_totals(const dtrt_session *session, int step, const dt_checkpoint_state *state) {
    dt_reports *reports = dt_runner_reports(session->steps[step].runner);
    if (state->n_added > 0 && state->n_totals == dt_reports_n_totals(reports)) dt_reports_restore(reports, state->totals, state->n_added);
}

static void go_on(dtrt_session *session, dt_checkpoint_state *state) {
    const dt_artifact *artifact = session->artifact;
    dt_api_forget_position(session);
    session->trained_on = dt_given_is_name(state->data) ? artifact->n_pipelines : dt_artifact_find_pipeline(artifact, state->data);
    session->progress = (dt_checkpoint_state){.step = state->step,
                                              .epoch = state->epoch,
                                              .examples = session->trained_on >= 0 ? state->examples : 0,
                                              .metric = state->metric,
                                              .has_best = state->has_best,
                                              .best = state->best,
                                              .best_step = state->best_step,
                                              .epochs_without_gain = state->epochs_without_gain,
                                              .plateau = state->plateau,
                                              .plateau_state = state->plateau_state,
                                              .data = state->data,
                                              .place = state->place};
    state->metric = state->plateau = state->data = state->place = NULL; /* the session's now */
    bool was_given = session->trained_on == artifact->n_pipelines;
    for (int s = 0; s < artifact->n_steps && session->trained_step < 0; s++)
        if (session->trained_on >= 0 && artifact->steps[s].trains && (was_given || artifact->steps[s].pipeline == session->trained_on))
            session->trained_step = s;
    if (session->trained_step >= 0) restore_totals(session, session->trained_step, state);
}

/* What all processes are to find at the path: the same checkpoint. */
static dt_status *look(const dtrt_session *session, const char *path, char **found, dt_api_call *call) {
    dt_checkpoint_state state = {0};
    DT_TRY(find_checkpoint(path, found));
    if (dt_processes_count(dt_api_processes(session->processes)) == 1) return NULL;
    dt_status *status = dt_checkpoint_read_state(*found, &state);
    call->which = state.step;
    for (int f = 0; f < DT_CHECKPOINT_FILES && status == NULL; f++)
        for (int r = 0; r < state.files[f].n; r++) call->hash = dt_hash_bytes(state.files[f].items[r].sha256, DT_SHA256_BYTES, call->hash);
    dt_checkpoint_state_free(&state);
    return status;
}

static dt_status *read_checkpoint(dtrt_session *session, const char *found, dt_checkpoint_state *state) {
    if (session->options.forward_only) return dt_checkpoint_load_weights(session->session, found);
    DT_TRY(make_runners(session));
    return dt_checkpoint_load(session->session, found, state);
}

static dt_status *load(dtrt_session *session, const char *path) {
    char *found = NULL;
    dt_checkpoint_state state = {0};
    dt_api_call call = {.name = "dtrt_load"};
    dt_status *status = look(session, path, &found, &call);
    status = dt_api_agree(session, &call, status);
    if (status == NULL) status = dt_api_conclude(session, call.name, read_checkpoint(session, found, &state));
    if (status == NULL && !session->options.forward_only) {
        go_on(session, &state);
        session->is_loaded = true;
    }
    dt_checkpoint_state_free(&state);
    dt_release(found);
    return status;
}

dt_status *dtrt_load(dtrt_session *session, const char *path) {
    DT_TRY(dt_api_need(path, "path"));
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, load(session, path));
}

static dt_status *load_weights(dtrt_session *session, const char *path, const dtrt_weights_options *given) {
    dtrt_weights_options options;
    dt_api_log log;
    dt_api_call call = {.name = "dtrt_load_weights"};
    dt_status *readable = dt_options_read(given, &options, sizeof options, "dtrt_weights_options");
    call.hash = (uint64_t)(options.map != NULL) << 1 | (options.allow_missing != 0);
    DT_TRY(dt_api_agree(session, &call, readable));
    DT_TRY(dt_api_open_log(session, &log));
    dt_run_options run = {.init = path, .map = options.map, .allow_missing = options.allow_missing != 0};
    bool found;
    int64_t epoch;
    dt_status *status = dt_run_load_weights(session->session, &run, log.log, &found, &epoch);
    dt_api_close_log(&log);
    return dt_api_conclude(session, "dtrt_load_weights", status);
}

dt_status *dtrt_load_weights(dtrt_session *session, const char *path, const dtrt_weights_options *options) {
    DT_TRY(dt_api_need(path, "path"));
    DT_TRY(dt_api_enter(session));
    return dt_api_leave(session, load_weights(session, path, options));
}
