/* run_lease: a worker of asynchronous parameter servers (ps/leasing.h): one lease after the other, of whichever step, until the run is over. What it
 * computes with, and all variables, it has from the servers; the examples it reads itself, the next lease's while it computes one. */
#include "base/memory.h"
#include "runtime/ps/leasing.h"
#include "runtime/run.h"
#include "runtime/runner.h"

enum {
    MOST_LEASES = 2 /* at a time */
};

/* A step of which there were leases. */
typedef struct leased_step {
    dt_pipeline *data; /* NULL: there were none yet */
    dt_runner *runner;
    int64_t epoch;     /* of the pipeline; -1: none yet */
    int64_t n_ignored; /* indices in that epoch */
} leased_step;

typedef struct lessee {
    const dt_kernels *kernels;
    const dt_artifact *artifact;
    const dt_run_options *options;
    dt_ps_team *team;
    dt_ps_run_terms terms;
    dt_session_options about;
    dt_ps_rows_from rows_from;
    dt_session *session;
    leased_step *steps; /* [n_steps] */
    dt_ps_lease held[MOST_LEASES];
    int n_held, n_asked;
    bool has_finished; /* a lease that the servers are to be told of, */
    int64_t n_ignored; /* and of so many indices */
} lessee;

/* ---- data ---- */

static dt_status *open_step(lessee *self, int step) {
    leased_step *one = &self->steps[step];
    const dt_artifact_step *about = &self->artifact->steps[step];
    int from = about->pipeline;
    if (about->trains) DT_TRY(dt_run_find_pipeline(self->artifact, self->options->from, step, &from));
    dt_pipeline_options data = {.folder = self->options->data,
                                .replicas = 1,
                                .rows = self->terms.rows,
                                .seed = self->terms.seed,
                                .ignore_bad_index = self->options->ignore_bad_index,
                                .marks = !self->options->no_data_check,
                                .stop = self->options->stop,
                                .progress = dt_processes_progress(self->options->processes),
                                .timeline = self->options->timeline};
    DT_TRY(dt_pipeline_open(self->kernels, &self->artifact->pipelines[from], &data, &one->data));
    DT_TRY(dt_pipeline_check(one->data, step));
    one->epoch = -1;
    return dt_run_open_runner(self->kernels, self->session, self->options, step, &one->runner);
}

/* The batch of a lease is made from now on. Leases of two epochs are never held together: between them is a barrier. */
static dt_status *pick(lessee *self, const dt_ps_lease *lease) {
    leased_step *one = &self->steps[lease->step];
    int64_t epoch = lease->trains ? lease->epoch : 0;
    if (one->data == NULL) DT_TRY(open_step(self, lease->step));
    if (one->epoch != epoch) {
        DT_TRY(dt_pipeline_start_picking(one->data, epoch));
        dt_runner_go_to(one->runner, one->data, epoch, 0);
        one->epoch = epoch;
        one->n_ignored = 0;
    }
    dt_pipeline_pick(one->data, lease->batch);
    return NULL;
}

/* ---- leases ---- */

/* The next ones, as many as there are; at least one, unless the run is over. */
static dt_status *take_leases(lessee *self) {
    bool any = true;
    for (; self->n_asked + self->n_held < MOST_LEASES; self->n_asked++) {
        DT_TRY(dt_ps_leasing_ask(self->team, self->has_finished, self->n_ignored));
        self->has_finished = false;
        self->n_ignored = 0;
    }
    while (any && self->n_held < MOST_LEASES) {
        dt_ps_lease *lease = &self->held[self->n_held];
        DT_TRY(dt_ps_leasing_take(self->team, self->options->processes, self->options->stop, self->n_held == 0, lease, &any));
        if (!any) return NULL;
        if (lease->step < 0 || lease->step >= self->artifact->n_steps) return dt_error(DT_DATA_LOSS, "server 0 leases a step that there is not");
        DT_TRY(pick(self, lease));
        self->n_held++;
        self->n_asked--;
    }
    return NULL;
}

/* Since the last time. */
static dt_status *count_ignored(lessee *self, leased_step *one) {
    int64_t n;
    DT_TRY(dt_runner_bad_indices(one->runner, &n));
    self->n_ignored += n - one->n_ignored;
    one->n_ignored = n;
    return NULL;
}

/* Server 0 hears what this worker has read: how many examples, and their marks where these are compared. all: something is wrong with it. */
static dt_status *tell_examples(lessee *self, const dt_ps_lease *lease, bool all) {
    const dt_pipeline *data = self->steps[lease->step].data;
    uint64_t *words;
    size_t n;
    DT_TRY(dt_pipeline_marks(data, &words, &n));
    dt_ps_examples examples = {.step = (uint32_t)lease->step,
                               .epoch = (uint64_t)lease->epoch,
                               .batch = (uint64_t)lease->batch,
                               .n_examples = (uint64_t)dt_pipeline_n_examples(data),
                               .layout = dt_pipeline_layout(data),
                               .all = all};
    return dt_ps_leasing_tell(self->team, examples, words, n);
}

/* The batch of the lease that is held first. */
static dt_status *take_batch(lessee *self, const dt_ps_lease *lease, dt_pipeline_batch *batch) {
    dt_status *status = dt_pipeline_next(self->steps[lease->step].data, batch);
    bool is_wrong = dt_status_code(status) == DT_OUT_OF_RANGE;
    if ((status == NULL && !batch->stopped) || is_wrong) status = dt_status_first(status, tell_examples(self, lease, is_wrong));
    return status;
}

static dt_status *compute(lessee *self, const dt_ps_lease *lease, const dt_pipeline_batch *batch) {
    leased_step *one = &self->steps[lease->step];
    dt_batch run = {.inputs = batch->inputs, .rows = batch->rows, .counter = lease->batch};
    if (lease->trains) run.counter += lease->epoch * self->terms.steps;
    if (lease->pulls) DT_TRY(dt_ps_leasing_pull(self->team, self->session, self->options->processes));
    dt_ps_leasing_begin(self->team, lease, batch->rows);
    if (batch->rows > 0) DT_TRY(dt_runner_run_at(one->runner, &run, lease->batch * self->terms.rows));
    DT_TRY(dt_ps_leasing_finish(self->team, self->session, self->options->processes, lease, batch->rows));
    self->has_finished = true;
    return count_ignored(self, one);
}

static dt_status *work(lessee *self) {
    for (;;) {
        dt_pipeline_batch batch;
        DT_TRY(take_leases(self));
        if (self->n_held == 0) return NULL;
        dt_ps_lease lease = self->held[0];
        DT_TRY(take_batch(self, &lease, &batch));
        if (batch.stopped) return NULL;
        dt_status *status = compute(self, &lease, &batch);
        if (dt_status_code(status) == DT_OUT_OF_RANGE) status = dt_status_first(status, tell_examples(self, &lease, true));
        DT_TRY(status);
        self->held[0] = self->held[1];
        self->n_held--;
    }
}

/* ---- beginning and ending ---- */

static dt_status *begin(lessee *self) {
    const dt_run_options *options = self->options;
    DT_TRY(dt_ps_leasing_find_terms(self->team, options->processes, &self->terms));
    self->steps = dt_allocate_zeroed((size_t)self->artifact->n_steps, sizeof *self->steps);
    if (self->steps == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    DT_TRY(dt_run_describe_session(options, &self->about));
    self->about.fast_sums = self->about.shard_optimizer = false; /* servers add up, and have all states */
    self->about.replicas = 1;
    self->rows_from = (dt_ps_rows_from){self->team, options->processes};
    self->about.rows_from = (dt_row_source){dt_ps_leasing_fetch_rows, &self->rows_from};
    self->about.said_replicas = self->terms.replicas;
    self->about.rows = self->terms.rows;
    self->about.seed = self->terms.seed;
    self->about.epochs = self->terms.epochs;
    self->about.steps_per_epoch = self->terms.steps;
    if (options->catch_signals != NULL) options->catch_signals();
    return dt_run_open_session(self->kernels, options, &self->about, &self->session);
}

dt_status *dt_run_lease(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    (void)log;
    lessee self = {.kernels = kernels, .artifact = dt_kernels_artifact(kernels), .options = options, .team = options->team};
    dt_status *status = begin(&self);
    if (status == NULL) status = work(&self);
    if (options->was_stopped != NULL) *options->was_stopped = status == NULL && atomic_load(options->stop) != 0;
    for (int s = 0; self.steps != NULL && s < self.artifact->n_steps; s++) dt_run_free_runner(options, self.steps[s].runner);
    dt_run_free_session(options, self.session);
    for (int s = 0; self.steps != NULL && s < self.artifact->n_steps; s++) dt_pipeline_close(self.steps[s].data);
    dt_release(self.steps);
    return status;
}
