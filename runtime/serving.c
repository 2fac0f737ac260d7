/* serving: see the header. */
#include "runtime/serving.h"

#include "base/memory.h"
#include "runtime/ps/lease_steps.h"
#include "runtime/threads/clock.h"

#include <string.h>

struct dt_serving {
    dt_serving_options options;
    void *nothing;       /* what a server's session reads where a worker's has the examples: it holds no row */
    const void **inputs; /* [most inputs of a step] all the same */
    bool is_open;        /* a range */
    int64_t bound;       /* where it ends */
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How much a step reads. */
static dt_status *look_at_inputs(const dt_artifact *artifact, int64_t rows, int64_t *bytes, int *n) {
    for (int s = 0; s < artifact->n_steps; s++) {
        const dt_artifact_function *function = &artifact->functions[artifact->steps[s].function];
        *n = (int)larger(*n, function->n_inputs);
        for (int i = 0; i < function->n_inputs; i++)
            *bytes = larger(*bytes, function->inputs[i].row_bytes * (function->inputs[i].has_rows ? rows : 1));
    }
    return NULL;
}

dt_status *dt_serving_create(const dt_serving_options *options, int64_t replicas, dt_serving **serving) {
    const dt_session_options *about = dt_session_get_options(options->session);
    int64_t bytes = 0;
    int n = 0;
    *serving = NULL;
    DT_TRY(dt_ps_check_step(dt_session_artifact(options->session), options->step));
    dt_serving *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->options = *options;
    dt_status *status = look_at_inputs(dt_session_artifact(options->session), about->rows, &bytes, &n);
    made->nothing = dt_allocate_zeroed(1, (size_t)bytes + DT_SLACK_BYTES);
    made->inputs = dt_allocate_zeroed((size_t)n + 1, sizeof *made->inputs);
    if (status == NULL && (made->nothing == NULL || made->inputs == NULL)) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status != NULL) {
        dt_serving_destroy(made);
        return status;
    }
    for (int i = 0; i < n; i++) made->inputs[i] = made->nothing;
    dt_ps_leasing_agree(
        options->team,
        &(dt_ps_run_terms){.seed = about->seed, .replicas = replicas, .rows = about->rows, .epochs = about->epochs, .steps = about->steps_per_epoch});
    dt_ps_leasing_compare(options->team, &options->check);
    *serving = made;
    return NULL;
}

void dt_serving_destroy(dt_serving *serving) {
    if (serving == NULL) return;
    dt_release(serving->nothing);
    dt_release(serving->inputs);
    dt_release(serving);
}

static double since(double began, double now, double leases, double rows) { return now > began ? leases * rows / (now - began) : 0; }

/* What is said of an epoch, or of the run. */
typedef struct account {
    bool of_run;
    double began, now, rows; /* of a lease */
    dt_ps_leases_statistics all;
    dt_log_worker *workers; /* [n_workers], and after them their names */
    int n_workers;
} account;

/* Copied: workers come and go while it is said. */
static dt_status *take_account(const dt_ps_leases *book, account *it) {
    const dt_ps_leases_worker *one;
    size_t bytes = 1;
    for (; (one = dt_ps_leases_worker_at(book, it->n_workers)) != NULL; it->n_workers++) bytes += sizeof *it->workers + strlen(one->name) + 1;
    it->all = *dt_ps_leases_count(book);
    it->began = it->of_run ? it->all.began : it->all.epoch_began;
    it->workers = dt_allocate(bytes);
    if (it->workers == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    char *name = (char *)(it->workers + it->n_workers);
    for (int i = 0; i < it->n_workers; i++) {
        one = dt_ps_leases_worker_at(book, i);
        int64_t leases = it->of_run ? one->in_all : one->in_epoch;
        double from = one->joined > it->began ? one->joined : it->began;
        it->workers[i] = (dt_log_worker){name, leases, since(from, it->now, (double)leases, it->rows), one->is_gone};
        name = stpcpy(name, one->name) + 1;
    }
    return NULL;
}

dt_status *dt_serving_say(const dt_serving *self, int64_t epoch, int64_t epochs, dt_log *log) {
    account it = {.of_run = epoch == 0, .now = dt_seconds_now(), .rows = (double)dt_session_global_batch(self->options.session)};
    const dt_ps_leases *book = dt_ps_leasing_take_book(self->options.team);
    dt_status *status = book != NULL ? take_account(book, &it) : NULL;
    dt_ps_leasing_return_book(self->options.team);
    if (book == NULL || status != NULL) return status;
    char names[DT_PS_N_LAGS][32];
    dt_log_lag lags[DT_PS_N_LAGS];
    for (int i = 0; i < DT_PS_N_LAGS; i++) lags[i] = (dt_log_lag){dt_ps_lags_name(i, names[i]), it.of_run ? it.all.lags[i] : it.all.epoch_lags[i]};
    int64_t leases = it.of_run ? it.all.in_all : it.all.in_epoch;
    dt_log_leases said = {.epoch = epoch,
                          .epochs = epochs,
                          .leases = leases,
                          .returned = it.all.n_returned,
                          .doubles = it.all.n_doubles,
                          .examples_per_second = since(it.began, it.now, (double)leases, it.rows),
                          .n_lags = DT_PS_N_LAGS,
                          .lags = lags,
                          .n_workers = it.n_workers,
                          .workers = it.workers};
    dt_log_leased(log, &said);
    dt_release(it.workers);
    return NULL;
}

/* Also where a training goes on that was asked to end after the last batch of an epoch. */
static bool is_epoch_over(const dt_runner *runner) { return dt_runner_position(runner) >= dt_runner_n_examples(runner); }

static int64_t n_batches(const dt_serving *self, const dt_runner *runner) {
    return (dt_runner_n_examples(runner) - 1) / dt_session_global_batch(self->options.session) + 1;
}

static dt_status *open_range(dt_serving *self, const dt_runner *runner, const dt_serving_place *place) {
    int64_t first = dt_runner_position(runner) / dt_session_global_batch(self->options.session), end = n_batches(self, runner);
    if (end - first > place->most) end = first + place->most;
    self->bound = end;
    self->is_open = true;
    return dt_ps_leasing_open(self->options.team, place->step, place->trains, place->epoch, first, end, place->number);
}

/* The same for all servers, whichever was asked to stop. */
static dt_status *end_range(dt_serving *self, dt_runner *runner, dt_runner_outcome *outcome) {
    dt_session_answers all;
    self->is_open = false;
    dt_runner_add_bad_indices(runner, dt_ps_leasing_take_ignored(self->options.team));
    DT_TRY(dt_session_ask(self->options.session, atomic_load(self->options.stop) != 0, &all));
    if (is_epoch_over(runner))
        *outcome = DT_RUNNER_EPOCH_OVER;
    else if (all.most != 0)
        *outcome = DT_RUNNER_STOPPED;
    return NULL;
}

dt_status *dt_serving_step(dt_serving *self, dt_runner *runner, const dt_serving_place *place, dt_runner_outcome *outcome) {
    int64_t global_batch = dt_session_global_batch(self->options.session);
    *outcome = DT_RUNNER_RAN;
    while (*outcome == DT_RUNNER_RAN) {
        dt_ps_order order;
        bool any;
        if (!self->is_open && is_epoch_over(runner)) return *outcome = DT_RUNNER_EPOCH_OVER, NULL;
        if (!self->is_open) DT_TRY(open_range(self, runner, place));
        DT_TRY(dt_ps_leasing_next(self->options.team, self->options.session, self->options.processes, self->options.stop, &order, &any));
        if (!any)
            DT_TRY(end_range(self, runner, outcome));
        else if (order.rows > 0)
            return dt_runner_run_at(runner,
                                    &(dt_batch){.inputs = self->inputs, .rows = order.rows, .counter = place->trains ? place->number : order.batch},
                                    order.batch * global_batch);
    }
    return NULL;
}

dt_status *dt_serving_end(dt_serving *self, dt_runner *runner) {
    dt_runner_outcome outcome;
    dt_ps_order order;
    bool any = true;
    if (!self->is_open) return NULL;
    while (any) DT_TRY(dt_ps_leasing_next(self->options.team, self->options.session, self->options.processes, self->options.stop, &order, &any));
    return end_range(self, runner, &outcome);
}
