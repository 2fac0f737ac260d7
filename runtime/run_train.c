/* run_train: epochs of a step that trains, evaluations after them, checkpoints, and going on from one.
 *
 * All that the run is at a step is (variables, epoch, position in the epoch, step number, totals of the epoch, best so far); a checkpoint holds
 * exactly that. Each is copied between two steps and written while the next ones run, so going on from it cannot be told from not having stopped. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/data_check.h"
#include "runtime/execution/launch_values.h"
#include "runtime/log_folder.h"
#include "runtime/metric.h"
#include "runtime/plateau.h"
#include "runtime/ps/team.h"
#include "runtime/run.h"
#include "runtime/run_details.h"
#include "runtime/runner.h"
#include "runtime/scheduler.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_KEEP = 3
};

/* A step that is run over its own data after epochs. */
typedef struct evaluation {
    int step;
    dt_pipeline *data;
    dt_runner *runner;
} evaluation;

typedef struct training {
    const dt_kernels *kernels;
    const dt_artifact *artifact;
    const dt_run_options *options;
    dt_log *log;
    int step; /* in the artifact */
    int from; /* number of the data */
    const dt_artifact_pipeline *written;
    dt_session_options about;
    dt_pipeline *data;
    dt_session *session;
    dt_runner *trainer;
    evaluation *evaluations; /* [n_evaluations] */
    int n_evaluations;
    dt_scheduler *scheduler;   /* of the steps */
    dt_log_folder *log_folder; /* NULL: there is none, or another process writes it */
    dt_run_details *details;   /* NULL: nobody wants them */
    dt_metric metric;          /* that --keep-best or --stop-after-no-gain watch */
    dt_plateau plateau;

    dt_checkpoint_state state;    /* the run at this step; its totals only while it is saved */
    dt_checkpoint_writer *writer; /* NULL: no checkpoints */
    uint64_t mark;                /* of the run in the folder of checkpoints; 0: not all processes see it, */
    int other;                    /* but for this one; -1: nobody can tell */
    int64_t saved_step;           /* of the last checkpoint; -1: none */
    int lock;                     /* of the folder of checkpoints; -1: none */
    char *resumed_from;
    const char *reason; /* why it ended */
    double began, first_step_seconds;
    double said_at; /* when throughput was last asked for, or an epoch began */
    int64_t n_said; /* examples of the whole training until then */
} training;

/* ---- checkpoints ---- */

/* Where given batches are, in the words of who gives them. */
static dt_status *note_place(training *run) {
    dt_release(run->state.place);
    run->state.place = NULL;
    return run->state.examples > 0 ? dt_pipeline_tell_place(run->data, &run->state.place) : NULL;
}

static dt_status *save(training *run) {
    if (run->options->checkpoint_dir == NULL) return NULL;
    DT_TRY(run->scheduler->kind->sync(run->scheduler));
    DT_TRY(note_place(run));
    dt_reports *reports = dt_runner_reports(run->trainer);
    run->state.n_added = dt_reports_n_added(reports);
    run->state.n_totals = run->state.n_added > 0 ? dt_reports_n_totals(reports) : 0;
    run->state.totals = (dt_total *)(uintptr_t)dt_reports_totals(reports);
    dt_status *status = dt_checkpoint_writer_begin(run->writer, &run->state);
    run->state.totals = NULL; /* the reports' */
    run->saved_step = run->state.step;
    return status;
}

static void log_checkpoint(void *log, const char *path, int64_t step, double stall_seconds) { dt_log_checkpoint(log, path, step, stall_seconds); }

static dt_status *open_writer(training *run) {
    const dt_run_options *options = run->options;
    if (options->checkpoint_dir == NULL) return NULL;
    dt_checkpoint_writer_options writer = {.folder = options->checkpoint_dir,
                                           .mark = run->mark,
                                           .keep = options->keep > 0 ? options->keep : DEFAULT_KEEP,
                                           .progress = dt_processes_progress(options->processes),
                                           .timeline = options->timeline,
                                           .written = log_checkpoint,
                                           .context = run->log};
    return dt_checkpoint_writer_create(run->session, &writer, &run->writer);
}

static void take_best(dt_checkpoint_state *to, const dt_checkpoint_state *from) {
    to->has_best = from->has_best;
    to->best = from->best;
    to->best_step = from->best_step;
    to->epochs_without_gain = from->epochs_without_gain;
}

static bool is_same(const char *a, const char *b) { return a != NULL && b != NULL && strcmp(a, b) == 0; }

/* The best so far and the state of a plateau, where this run watches the same. */
static void take_watched(dt_checkpoint_state *to, const dt_checkpoint_state *from) {
    if (is_same(to->metric, from->metric)) take_best(to, from);
    if (is_same(to->plateau, from->plateau)) to->plateau_state = from->plateau_state;
}

/* Takes over what the checkpoint says, where it has a meaning here. */
static dt_status *restore(training *run, const dt_checkpoint_state *saved) {
    const char *data = run->written->name;
    dt_checkpoint_state *state = &run->state;
    dt_run_warn_of_differences(run->log, saved, state);
    state->step = run->saved_step = saved->step;
    state->epoch = saved->epoch;
    state->examples = saved->examples;
    if (strcmp(saved->data, data) != 0) {
        dt_log_remark(run->log, "warning", "the checkpoint was written in the middle of data %s, this run reads %s: the epoch begins again",
                      saved->data, data);
        state->examples = 0;
    }
    take_watched(state, saved);
    return state->examples > 0 ? dt_pipeline_set_place(run->data, saved->place) : NULL;
}

/* A new run takes no folder of another run. A session that goes on finds its own past there: nothing later than where it is. */
static dt_status *check_past(const training *run) {
    const dt_run_session *on = run->options->on;
    if (on != NULL && on->state->step > 0) {
        dt_checkpoint_state newest;
        dt_status *status = dt_checkpoint_read_state(run->resumed_from, &newest);
        bool is_past = status == NULL && newest.step <= on->state->step;
        dt_checkpoint_state_free(&newest);
        if (status != NULL || is_past) return status;
    }
    return dt_checkpoint_check_new(run->options->checkpoint_dir);
}

/* The seed and the shape of the run are those of the checkpoint, where the command line does not say otherwise. */
static dt_status *find_checkpoint(training *run, dt_checkpoint_state *saved) {
    const dt_run_options *options = run->options;
    if (options->checkpoint_dir == NULL) return NULL;
    DT_TRY(dt_run_need_computation(options, "there is nothing to save in --checkpoint-dir"));
    if (dt_run_leads(options)) DT_TRY(dt_checkpoint_prepare(options->checkpoint_dir, &run->lock));
    if (dt_run_leads(options) && run->lock < 0)
        dt_log_remark(run->log, "note", "%s: the file system has no locks: see that no other run writes its checkpoints there",
                      options->checkpoint_dir);
    DT_TRY(dt_checkpoint_find_mark(options->checkpoint_dir, options->processes, &run->mark, &run->other));
    DT_TRY(dt_checkpoint_newest(options->checkpoint_dir, &run->resumed_from));
    if (!options->resume && run->resumed_from != NULL) {
        DT_TRY(check_past(run));
        dt_release(run->resumed_from);
        run->resumed_from = NULL;
    }
    if (!options->resume) return NULL;
    if (run->resumed_from == NULL) {
        dt_log_remark(run->log, "note", "%s: no checkpoint to go on from: starting from the beginning", options->checkpoint_dir);
        return NULL;
    }
    DT_TRY(dt_checkpoint_read_state(run->resumed_from, saved));
    if (!options->has_seed) run->about.seed = saved->seed;
    if (options->replicas == 0) run->about.replicas = saved->replicas;
    return NULL;
}

static void warn_of_folder(const training *run) {
    char other[160];
    if (run->other < 0) return;
    dt_processes_print_name(run->options->processes, run->other, other, sizeof other);
    dt_log_remark(
        run->log, "warning",
        "%s: not all processes see the same folder there and may write in it: %s does not, so process 0 writes the checkpoints alone; --resume needs "
        "one that all machines share",
        run->options->checkpoint_dir, other);
}

static const char *print_step(int64_t step, char *text, size_t bytes) {
    snprintf(text, bytes, step < 0 ? "none" : "step-%" PRId64, step);
    return text;
}

/* All processes go on from where this one does: each has looked for itself. */
static dt_status *check_checkpoint(training *run, const dt_checkpoint_state *saved) {
    dt_session_answers steps;
    DT_TRY(dt_session_ask(run->session, run->resumed_from != NULL ? saved->step : -1, &steps));
    if (steps.other < 0) return NULL;
    char first[32], others[32], other[160];
    dt_session_print_process(run->session, steps.other, other, sizeof other);
    return dt_fault_of(
        run->session, steps.other,
        "%s: not all processes find the same newest checkpoint there: process 0 finds %s, %s %s; --checkpoint-dir names a folder that all "
        "machines share",
        run->options->checkpoint_dir, print_step(steps.of_first, first, sizeof first), other, print_step(steps.of_other, others, sizeof others));
}

/* ---- a session of the caller's ---- */

/* Of the data that the session was trained on last. */
static const char *name_of_past(const training *run) {
    const dt_run_session *on = run->options->on;
    return on->trained_on < run->artifact->n_pipelines ? run->artifact->pipelines[on->trained_on].name : on->state->data;
}

static void copy_position(dt_checkpoint_state *to, const dt_checkpoint_state *from) {
    to->step = from->step;
    to->epoch = from->epoch;
    to->examples = from->examples;
}

/* Goes on from where it is. The totals of an epoch under way are kept as those of a checkpoint are. */
static dt_status *take_over(training *run, dt_checkpoint_state *saved) {
    const dt_reports *reports = dt_runner_reports(run->trainer);
    const dt_run_session *on = run->options->on;
    copy_position(&run->state, on->state);
    take_watched(&run->state, on->state);
    bool is_other = on->trained_on != run->from || (run->options->given != NULL && !is_same(on->state->data, run->written->name));
    if (run->state.examples > 0 && on->trained_on >= 0 && is_other) {
        dt_log_remark(run->log, "warning", "the session is in the middle of data %s, this run reads %s: the epoch begins again", name_of_past(run),
                      run->written->name);
        run->state.examples = 0;
    }
    int64_t n_examples = dt_pipeline_n_examples(run->data);
    if (run->options->given == NULL && on->trained_on == run->from && on->n_examples != 0 && on->n_examples != n_examples)
        dt_log_remark(run->log, "warning",
                      "data %s has %" PRId64 " examples now, and had %" PRId64 " when the session was trained on it last: its files have changed",
                      run->written->name, n_examples, on->n_examples);
    DT_TRY(dt_checkpoint_state_set(&run->options->on->state->data, run->written->name));
    if (run->state.examples == 0) return NULL;
    DT_TRY(dt_pipeline_set_place(run->data, on->state->place));
    int n = dt_reports_n_totals(reports);
    saved->totals = dt_allocate((size_t)n * sizeof *saved->totals);
    if (saved->totals == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(saved->totals, dt_reports_totals(reports), (size_t)n * sizeof *saved->totals);
    saved->n_totals = n;
    saved->n_added = dt_reports_n_added(reports);
    return NULL;
}

/* Also after an error: what was run was run. */
static dt_status *hand_back(training *run, int64_t first_step, int64_t first_epoch) {
    dt_run_session *on = run->options->on;
    copy_position(on->state, &run->state);
    on->trained_step = run->step;
    on->trained_on = run->from;
    on->n_examples = dt_pipeline_n_examples(run->data);
    on->n_steps = run->state.step - first_step;
    on->n_epochs = run->state.epoch - first_epoch;
    snprintf(on->reason, sizeof on->reason, "%s", run->reason != NULL ? run->reason : "epochs");
    DT_TRY(dt_checkpoint_state_set(&on->state->metric, run->state.metric));
    take_best(on->state, &run->state);
    DT_TRY(dt_checkpoint_state_set(&on->state->plateau, run->state.plateau));
    on->state->plateau_state = run->state.plateau_state;
    DT_TRY(note_place(run));
    return dt_checkpoint_state_set(&on->state->place, run->state.place);
}

/* ---- beginning ---- */

/* --max-steps alone means as many epochs as it takes. */
static int64_t epochs_of(const dt_run_options *options, int64_t steps_per_epoch) {
    if (options->epochs > 0) return options->epochs;
    if (options->on != NULL && options->max_steps <= 0) return options->on->state->epoch + 1;
    if (options->max_steps <= 0) return 1; /* it may be -1, or 0 */
    return steps_per_epoch > 0 ? (options->max_steps - 1) / steps_per_epoch + 1 : options->max_steps;
}

static dt_status *open_pipelines(training *run, const dt_pipeline_options *data) {
    const dt_run_options *options = run->options;
    if (options->given != NULL) {
        if (run->n_evaluations > 0) DT_TRY(dt_run_open_given(run->kernels, options, options->validation, data, &run->evaluations[0].data));
        return dt_run_open_given(run->kernels, options, options->given, data, &run->data);
    }
    DT_TRY(dt_run_open_pipeline(run->kernels, run->options, run->written, data, &run->data));
    for (int i = 0; i < run->n_evaluations; i++) {
        int pipeline = run->artifact->steps[run->evaluations[i].step].pipeline;
        DT_TRY(dt_run_open_pipeline(run->kernels, run->options, &run->artifact->pipelines[pipeline], data, &run->evaluations[i].data));
    }
    return NULL;
}

static dt_status *open_data(training *run, const dt_checkpoint_state *saved) {
    const dt_run_options *options = run->options;
    dt_run_options shape = *options;
    shape.replicas = run->about.replicas;
    if (shape.global_batch == 0 && options->replicas == 0 && saved->global_batch != 0) shape.global_batch = saved->global_batch;
    DT_TRY(dt_run_rows(&shape, dt_pipeline_rows(run->written), &run->about.rows));
    if (options->team != NULL) run->about.replicas = 1; /* a lease is a batch of one */
    dt_pipeline_options data = {.folder = options->data,
                                .replicas = run->about.replicas,
                                .rows = run->about.rows,
                                .seed = run->about.seed,
                                .ignore_bad_index = options->ignore_bad_index,
                                .stop = options->stop,
                                .progress = dt_processes_progress(options->processes),
                                .timeline = options->timeline};
    dt_status *status = dt_run_share_data(run->kernels, run->options, &run->about, &data);
    if (status == NULL) status = open_pipelines(run, &data);
    dt_release((void *)(uintptr_t)data.parts);
    return status;
}

/* New weights, those of --init, or all of a checkpoint. */
static dt_status *fill_variables(training *run) {
    if (run->resumed_from != NULL) {
        dt_checkpoint_state again;
        dt_status *status = dt_checkpoint_load(run->session, run->resumed_from, &again);
        dt_checkpoint_state_free(&again);
        if (status == NULL && run->options->init != NULL)
            dt_log_remark(run->log, "note", "--init %s is not read: the run goes on from %s", run->options->init, run->resumed_from);
        return status != NULL ? status : dt_run_set_launch_values(run->session, run->options, run->log);
    }
    if (run->options->on != NULL) return NULL;
    bool found;
    int64_t epoch;
    DT_TRY(dt_run_initialize(run->session));
    if (run->options->init != NULL) DT_TRY(dt_run_load_weights(run->session, run->options, run->log, &found, &epoch));
    return dt_run_set_launch_values(run->session, run->options, run->log);
}

static dt_status *describe_state(training *run) {
    DT_TRY(dt_run_describe(run->session, run->written->name, &run->state));
    DT_TRY(dt_checkpoint_state_set(&run->state.metric, run->metric.name));
    DT_TRY(dt_checkpoint_state_set(&run->state.plateau, run->plateau.name));
    run->state.epochs = run->about.epochs;
    run->state.steps_per_epoch = run->about.steps_per_epoch;
    run->state.plateau_state = dt_plateau_begin(&run->plateau);
    return NULL;
}

/* A run that goes on has a past there, whether a checkpoint was found or not. */
static dt_status *open_log_folder(training *run) {
    const dt_run_options *options = run->options;
    if (options->log_dir == NULL || !dt_run_leads(options)) return NULL;
    dt_run_session *on = options->on;
    bool has_past = on != NULL && on->state->step > 0 && (on->is_loaded || (on->log_dir != NULL && strcmp(on->log_dir, options->log_dir) == 0));
    DT_TRY(dt_log_folder_open(options->log_dir, options->resume || has_past, dt_seconds_since_1970, NULL, run->log, &run->log_folder));
    if (on != NULL) on->has_logged = true;
    return NULL;
}

static dt_status *open_session(training *run) {
    const dt_run_options *options = run->options;
    dt_run_details_want(options, &run->about);
    run->about.steps_per_epoch = dt_pipeline_n_batches(run->data);
    if (run->about.steps_per_epoch == 0 && options->on != NULL) /* nobody knows: what the caller has set stays */
        run->about.steps_per_epoch = dt_session_get_options(options->on->session)->steps_per_epoch;
    run->about.epochs = epochs_of(options, dt_pipeline_n_batches(run->data));
    run->about.host_bytes = options->checkpoint_dir != NULL ? dt_checkpoint_copy_bytes(run->artifact, &run->about, run->mark != 0) : 0;
    DT_TRY(dt_run_open_session(run->kernels, options, &run->about, &run->session));
    DT_TRY(open_writer(run));
    DT_TRY(dt_pipeline_check(run->data, run->step));
    DT_TRY(dt_run_open_runner(run->kernels, run->session, options, run->step, &run->trainer));
    for (int i = 0; i < run->n_evaluations; i++) {
        evaluation *one = &run->evaluations[i];
        DT_TRY(dt_pipeline_check(one->data, one->step));
        DT_TRY(dt_run_open_runner(run->kernels, run->session, options, one->step, &one->runner));
    }
    return dt_run_details_create(run->kernels, options, &run->about, run->session, run->step, run->log, &run->details);
}

/* Those that say so, and `evaluate`, in the program's order; where data is given, `evaluate` alone, on what is given for it. */
static dt_status *find_evaluations(training *run) {
    run->evaluations = dt_allocate_zeroed((size_t)run->artifact->n_steps, sizeof *run->evaluations);
    if (run->evaluations == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int s = 0; s < run->artifact->n_steps; s++) {
        const dt_artifact_step *step = &run->artifact->steps[s];
        bool is_evaluate = strcmp(step->name, "evaluate") == 0;
        bool is_run =
            run->options->given != NULL ? is_evaluate && run->options->validation != NULL : (step->every > 0 || is_evaluate) && step->pipeline >= 0;
        if (!is_run || s == run->step) continue;
        if (step->trains)
            return dt_error(DT_INVALID_ARGUMENT,
                            "step %s trains, and what is run after epochs evaluates: without minimize and apply, compile it again", step->name);
        run->evaluations[run->n_evaluations++].step = s;
    }
    if (run->options->validation != NULL && run->n_evaluations == 0)
        return dt_error_in(DT_NOT_FOUND, run->artifact->path, 0, "has no step evaluate, which data for validation is for");
    return NULL;
}

/* What can be watched: reports of `evaluate` first, then of other evaluations, then of the training itself. */
static dt_status *find_metrics(training *run) {
    const dt_run_options *options = run->options;
    int n = 0, *steps = dt_allocate((size_t)(run->n_evaluations + 1) * sizeof *steps);
    if (steps == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int named = 1; named >= 0; named--)
        for (int i = 0; i < run->n_evaluations; i++)
            if ((strcmp(run->artifact->steps[run->evaluations[i].step].name, "evaluate") == 0) == named) steps[n++] = run->evaluations[i].step;
    steps[n++] = run->step;
    dt_status *status = dt_metric_find(run->artifact, steps, n, options->keep_best, options->stop_after_no_gain > 0, &run->metric);
    if (status == NULL) status = dt_plateau_find(run->artifact, steps, n, options->plateau, &run->plateau);
    dt_release(steps);
    return status;
}

static dt_status *begin(training *run, dt_checkpoint_state *saved) {
    const dt_run_options *options = run->options;
    DT_TRY(dt_run_find_step(run->artifact, options, "train", &run->step));
    if (!run->artifact->steps[run->step].trains)
        return dt_error(DT_INVALID_ARGUMENT, "step %s updates nothing: run it with `dtrun %s`", run->artifact->steps[run->step].name,
                        run->artifact->steps[run->step].n_reports > 0 ? "evaluate" : "predict");
    DT_TRY(dt_run_find_data(run->artifact, options, run->step, &run->from, &run->written));
    DT_TRY(find_evaluations(run));
    DT_TRY(find_metrics(run));
    DT_TRY(dt_run_describe_session(options, &run->about));
    DT_TRY(find_checkpoint(run, saved));
    DT_TRY(open_log_folder(run));
    run->about.said_replicas = run->about.replicas;
    DT_TRY(open_data(run, saved));
    DT_TRY(open_session(run));
    DT_TRY(dt_data_check_start(run->session, run->data));
    for (int i = 0; i < run->n_evaluations; i++) DT_TRY(dt_data_check_start(run->session, run->evaluations[i].data));
    DT_TRY(check_checkpoint(run, saved));
    warn_of_folder(run);
    DT_TRY(describe_state(run));
    DT_TRY(fill_variables(run));
    if (run->resumed_from != NULL)
        DT_TRY(restore(run, saved));
    else if (options->on != NULL)
        DT_TRY(take_over(run, saved));
    dt_session_set_length(run->session, run->about.epochs, run->about.steps_per_epoch);
    return dt_scheduler_create(options, run->session, run->step, run->log, &run->scheduler);
}

/* From here on there is something to lose. */
static dt_status *announce(training *run) {
    if (run->options->catch_signals != NULL) run->options->catch_signals();
    dt_run_log_started(
        run->log, run->kernels, run->session, run->data, run->step,
        (dt_log_start){.epochs = run->about.epochs, .seed = run->about.seed, .first_step = run->state.step, .resumed_from = run->resumed_from});
    DT_TRY(dt_run_details_started(run->details, run->state.step));
    for (int i = 0; i < run->n_evaluations; i++) dt_run_log_reading(run->log, run->evaluations[i].data);
    return NULL;
}

/* ---- running ---- */

/* By who runs it, or by who gives the data. */
static bool stopped(const training *run) {
    bool stops = dt_pipeline_is_to_stop(run->data);
    for (int i = 0; i < run->n_evaluations; i++) stops = stops || dt_pipeline_is_to_stop(run->evaluations[i].data);
    return stops;
}

static dt_status *report_epoch(training *run, dt_runner *runner, bool complete) {
    int64_t n_bad;
    DT_TRY(dt_runner_bad_indices(runner, &n_bad));
    dt_log_epoch epoch = dt_runner_summary(runner, complete);
    dt_log_values values = dt_runner_epoch_values(runner);
    epoch.epoch = run->state.epoch + 1;
    epoch.epochs = run->about.epochs;
    epoch.number = run->state.step;
    dt_log_epoch_done(run->log, &epoch, &values);
    if (n_bad > 0) dt_log_remark(run->log, "warning", "%s, epoch %" PRId64 ": %" PRId64 " indices were out of range", epoch.step, epoch.epoch, n_bad);
    return NULL;
}

static void show_progress(training *run, dt_runner *runner) {
    if (!dt_log_wants_progress(run->log)) return;
    dt_log_epoch so_far = dt_runner_summary(runner, false);
    dt_log_values values = dt_runner_epoch_values(runner);
    so_far.epoch = run->state.epoch + 1;
    so_far.epochs = run->about.epochs;
    dt_log_progress(run->log, &so_far, &values);
}

static bool has_all_steps(const training *run) { return run->options->max_steps >= 0 && run->state.step >= run->options->max_steps; }

/* Why the run is to end before its epochs do, as far as this process knows: where several do, the last of these. */
typedef enum end_reason {
    GOES_ON,
    CANNOT_LOG,
    REGROUPS, /* and goes on with other workers of parameter servers; one that was told to end leaves */
    TOLD
} end_reason;

static end_reason find_end(const training *run) {
    dt_process_roles roles = dt_processes_roles(run->options->processes);
    bool is_worker = roles.n_servers > 0 && dt_process_holds(roles, roles.process);
    if (stopped(run)) return is_worker || atomic_load(run->options->stop) == DT_PS_REGROUP ? REGROUPS : TOLD;
    return dt_log_failed(run->log) ? CANNOT_LOG : GOES_ON;
}

/* Sets run->reason where the run is to end before its epochs do: the same for all processes, whoever was told. */
static dt_status *look_for_end(training *run) {
    static const char *const reasons[] = {[CANNOT_LOG] = "output", [REGROUPS] = "regroup", [TOLD] = "signal"};
    dt_session_answers all;
    DT_TRY(dt_session_ask(run->session, find_end(run), &all));
    if (all.most != GOES_ON) run->reason = reasons[all.most];
    if (has_all_steps(run)) run->reason = "max_steps";
    if (all.most >= REGROUPS && run->options->was_stopped != NULL) *run->options->was_stopped = true;
    return NULL;
}

static int64_t n_trained(const training *run) { return run->state.epoch * dt_runner_n_examples(run->trainer) + run->state.examples; }

static void start_clock(training *run) {
    run->said_at = dt_seconds_now();
    run->n_said = n_trained(run);
}

/* Examples a second since the clock was started, which is started anew. */
static double throughput(training *run) {
    double seconds = dt_seconds_now() - run->said_at;
    int64_t n = n_trained(run) - run->n_said;
    start_clock(run);
    return seconds > 0 ? (double)n / seconds : 0;
}

/* Runs the next batch. One that has run counts, also where what it left is an error. */
static dt_status *train_step(training *run, dt_runner_outcome *outcome) {
    int64_t n_run = dt_runner_n_run(run->trainer);
    dt_run_details_step(run->details);
    dt_scheduler_place place = {.epoch = run->state.epoch, .number = run->state.step, .counter = run->state.step, .stops = dt_log_failed(run->log)};
    dt_status *status = run->scheduler->kind->step(run->scheduler, run->trainer, &place, outcome);
    if (dt_runner_n_run(run->trainer) > n_run) {
        run->state.step++;
        run->state.examples = dt_runner_position(run->trainer);
    }
    return status;
}

/* What follows a step. */
static dt_status *after_step(training *run) {
    const dt_run_options *options = run->options;
    bool is_first = run->first_step_seconds < 0;
    if (is_first) run->first_step_seconds = dt_seconds_since_exec();
    DT_TRY(dt_checkpoint_writer_look(run->writer));
    if (is_first) start_clock(run); /* the first step is slower than the others */
    if (options->log_every > 0 && run->state.step % options->log_every == 0) {
        dt_log_values values = dt_runner_step_values(run->trainer);
        dt_log_step step = {.number = run->state.step, .epoch = run->state.epoch + 1, .examples_per_second = throughput(run)};
        dt_log_stepped(run->log, &step, &values);
    } else if (options->on != NULL && options->on->tell_every > 0 && run->state.step % options->on->tell_every == 0) {
        dt_log_values values = dt_runner_step_values(run->trainer);
        dt_log_stepped(run->log, &(dt_log_step){.number = run->state.step, .epoch = run->state.epoch + 1, .is_told = true}, &values);
    }
    show_progress(run, run->trainer);
    return options->checkpoint_every > 0 && run->state.step % options->checkpoint_every == 0 ? save(run) : NULL;
}

/* Whether the epoch's data has all been trained on: a pipeline that is read ahead has handed out more. */
static bool is_at_end(const training *run) {
    const int64_t n_examples = dt_runner_n_examples(run->trainer);
    return n_examples > 0 ? run->state.examples >= n_examples : dt_pipeline_is_at_end(run->data);
}

/* Trains to the end of the epoch, or until the run is to end. */
static dt_status *train_epoch(training *run, const dt_checkpoint_state *saved, bool *complete) {
    dt_reports *reports = dt_runner_reports(run->trainer);
    const dt_scheduler_kind *kind = run->scheduler->kind;
    DT_TRY(kind->begin(run->scheduler, run->trainer, run->data, run->state.epoch, run->state.examples));
    if (dt_runner_position(run->trainer) < run->state.examples) {
        dt_log_remark(run->log, "warning", "%s cannot be entered in the middle: epoch %" PRId64 " begins again", run->written->name,
                      run->state.epoch + 1);
        run->state.examples = 0;
    }
    if (run->state.examples > 0 && saved->n_added > 0 && saved->n_totals == dt_reports_n_totals(reports))
        dt_reports_restore(reports, saved->totals, saved->n_added);
    dt_runner_outcome outcome = DT_RUNNER_RAN;
    start_clock(run);
    while (outcome == DT_RUNNER_RAN) {
        if (has_all_steps(run) && !is_at_end(run)) break;
        DT_TRY(train_step(run, &outcome));
        if (outcome == DT_RUNNER_RAN) dt_run_details_stepped(run->details);
        if (outcome == DT_RUNNER_RAN) DT_TRY(after_step(run));
    }
    *complete = outcome == DT_RUNNER_EPOCH_OVER;
    DT_TRY(kind->end(run->scheduler, run->trainer));
    DT_TRY(report_epoch(run, run->trainer, *complete));
    return kind->say(run->scheduler, run->state.epoch + 1, run->about.epochs);
}

/* Whether it follows the epoch that is under way. */
static bool is_due(const training *run, int step) {
    int64_t every = run->artifact->steps[step].every;
    return every == 0 || (run->state.epoch + 1) % every == 0;
}

/* *whole is false when a signal came. */
static dt_status *evaluate(training *run, const evaluation *one, bool *whole) {
    dt_runner_outcome outcome = DT_RUNNER_RAN;
    dt_scheduler_place place = {.epoch = run->state.epoch, .number = run->state.step};
    DT_TRY(run->scheduler->kind->begin(run->scheduler, one->runner, one->data, 0, 0));
    for (; outcome == DT_RUNNER_RAN; place.counter++) {
        DT_TRY(run->scheduler->kind->step(run->scheduler, one->runner, &place, &outcome));
        if (outcome == DT_RUNNER_RAN) show_progress(run, one->runner);
        DT_TRY(dt_checkpoint_writer_look(run->writer));
    }
    *whole = outcome == DT_RUNNER_EPOCH_OVER;
    return *whole ? report_epoch(run, one->runner, true) : NULL;
}

static dt_status *evaluate_all(training *run, bool *whole) {
    for (int i = 0; i < run->n_evaluations && *whole; i++)
        if (is_due(run, run->evaluations[i].step)) DT_TRY(evaluate(run, &run->evaluations[i], whole));
    return NULL;
}

/* Whether the epoch that was has given the metric a value. */
static bool has_value(const training *run, const dt_metric *metric) {
    return metric->name != NULL && (metric->step == run->step || is_due(run, metric->step));
}

/* Of the epoch that was. */
static double value_of(const training *run, const dt_metric *metric) {
    dt_runner *runner = run->trainer;
    for (int i = 0; i < run->n_evaluations; i++)
        if (run->evaluations[i].step == metric->step) runner = run->evaluations[i].runner;
    return dt_runner_value(runner, metric->value);
}

static dt_status *reduce_on_plateau(training *run) {
    const dt_plateau *plateau = &run->plateau;
    if (plateau->name == NULL || !has_value(run, &plateau->metric)) return NULL;
    const dt_artifact_variable *variable = &run->artifact->variables[plateau->variable];
    char now[32], then[32];
    double rate;
    DT_TRY(dt_session_get_launch(run->session, plateau->variable, &rate));
    double reduced = dt_plateau_next(plateau, &run->state.plateau_state, value_of(run, &plateau->metric), rate);
    if (reduced == rate) return NULL;
    dt_log_remark(run->log, "note", "launch value %s is %s from epoch %" PRId64 " on, and no longer %s: %s brings no gain", variable->path,
                  dt_launch_print(variable, reduced, now), run->state.epoch + 2, dt_launch_print(variable, rate, then), plateau->metric.name);
    run->scheduler->kind->outdate(run->scheduler);
    return dt_session_set_launch(run->session, plateau->variable, reduced);
}

static void watch(training *run) {
    dt_checkpoint_state *state = &run->state;
    if (!has_value(run, &run->metric)) return;
    double value = value_of(run, &run->metric);
    if (!state->has_best || dt_metric_is_better(&run->metric, value, state->best)) {
        state->has_best = true;
        state->best = value;
        state->best_step = state->step;
        state->epochs_without_gain = 0;
        return;
    }
    state->epochs_without_gain++;
    if (run->options->stop_after_no_gain > 0 && state->epochs_without_gain >= run->options->stop_after_no_gain) run->reason = "no_gain";
}

/* One epoch with what belongs to it, or less of it, where the run ends first. An evaluation that was not whole does not count: it is done again. */
static dt_status *run_epoch(training *run, const dt_checkpoint_state *saved) {
    bool complete, evaluated = true;
    DT_TRY(train_epoch(run, saved, &complete));
    if (complete) DT_TRY(evaluate_all(run, &evaluated));
    DT_TRY(dt_run_details_epoch_done(run->details, run->state.epoch + 1, run->state.step));
    if (!complete || !evaluated) return NULL;
    watch(run);
    DT_TRY(reduce_on_plateau(run));
    run->state.epoch++;
    run->state.examples = 0;
    dt_reports_reset(dt_runner_reports(run->trainer));
    return save(run);
}

/* Why a run that goes on did nothing. */
static void explain_idleness(training *run) {
    int64_t most = run->options->max_steps;
    if (most >= 0 && run->state.step >= most)
        dt_log_remark(run->log, "note", "nothing is left to do: %" PRId64 " steps are done, --max-steps asks for %" PRId64, run->state.step, most);
    else if (run->reason == NULL)
        dt_log_remark(run->log, "note", "nothing is left to do: %" PRId64 " epochs are done; --epochs asks for more", run->state.epoch);
}

/* Lines that were not written end the run. A signal is the better reason, where there is one. */
static dt_status *output_status(const training *run) {
    dt_status *status = stopped(run) ? NULL : dt_log_status(run->log);
    if (status == NULL) return NULL;
    dt_status *longer = dt_error(dt_status_code(status), "%s; the training ended after step %" PRId64 "%s", dt_status_message(status),
                                 run->state.step, run->saved_step >= 0 ? ": --resume goes on from there" : "");
    dt_status_free(status);
    return longer;
}

/* A caller of its own session may want to see each epoch. */
static bool wants_pause(const training *run, int64_t first_epoch) {
    const dt_run_session *on = run->options->on;
    return on != NULL && on->pause_after > 0 && run->state.epoch - first_epoch >= on->pause_after && run->state.epoch < run->about.epochs;
}

static double mark_seconds(const training *run) {
    double seconds = dt_pipeline_mark_seconds(run->data);
    for (int i = 0; i < run->n_evaluations; i++) seconds += dt_pipeline_mark_seconds(run->evaluations[i].data);
    return seconds;
}

static dt_status *train_epochs(training *run, dt_checkpoint_state *saved) {
    int64_t first_step = run->state.step, first_epoch = run->state.epoch;
    run->began = dt_seconds_now();
    while (run->state.epoch < run->about.epochs && run->reason == NULL) {
        DT_TRY(look_for_end(run));
        if (run->reason == NULL) DT_TRY(run_epoch(run, saved));
        saved->n_added = 0;
        if (run->reason == NULL && wants_pause(run, first_epoch)) run->reason = "pause";
    }
    bool has_weights = run->state.step > 0 || run->options->max_steps == 0;
    if (has_weights && run->saved_step != run->state.step) DT_TRY(save(run));
    DT_TRY(dt_checkpoint_writer_wait(run->writer));
    if (run->state.step == first_step && run->resumed_from != NULL) explain_idleness(run);
    if (run->state.epoch - first_epoch != 1) DT_TRY(run->scheduler->kind->say(run->scheduler, 0, 0));
    dt_log_ended(run->log, &(dt_log_end){.reason = run->reason != NULL ? run->reason : "epochs",
                                         .steps = run->state.step,
                                         .epochs = run->state.epoch,
                                         .seconds = dt_seconds_now() - run->began,
                                         .first_step_seconds = run->first_step_seconds,
                                         .data_check_seconds = mark_seconds(run)});
    return output_status(run);
}

static dt_status *train(training *run, dt_checkpoint_state *saved) {
    DT_TRY(begin(run, saved));
    int64_t first_step = run->state.step, first_epoch = run->state.epoch;
    dt_status *status = announce(run);
    if (status == NULL) status = train_epochs(run, saved);
    return run->options->on != NULL ? dt_status_first(status, hand_back(run, first_step, first_epoch)) : status;
}

dt_status *dt_run_train(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    training run = {.kernels = kernels,
                    .artifact = dt_kernels_artifact(kernels),
                    .options = options,
                    .log = log,
                    .saved_step = -1,
                    .lock = -1,
                    .other = -1,
                    .first_step_seconds = -1};
    dt_checkpoint_state saved = {0};
    dt_status *status = train(&run, &saved);
    status = dt_status_first(status, dt_checkpoint_writer_wait(run.writer));
    dt_checkpoint_writer_destroy(run.writer);
    dt_checkpoint_state_free(&saved);
    dt_checkpoint_state_free(&run.state);
    dt_metric_free(&run.metric);
    dt_release(run.scheduler);
    dt_run_details_destroy(run.details);
    dt_log_folder_close(run.log_folder);
    dt_plateau_free(&run.plateau);
    dt_run_free_runner(options, run.trainer);
    for (int i = 0; i < run.n_evaluations; i++) dt_run_free_runner(options, run.evaluations[i].runner);
    dt_run_free_session(options, run.session);
    dt_pipeline_close(run.data);
    for (int i = 0; i < run.n_evaluations; i++) dt_pipeline_close(run.evaluations[i].data);
    dt_release(run.evaluations);
    dt_checkpoint_unlock(run.lock);
    dt_release(run.resumed_from);
    return status;
}
