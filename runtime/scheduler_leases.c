/* scheduler_leases: see scheduler.h. Here: an asynchronous parameter server, which applies one lease (ps/leasing.h) after the other, whoever computed
 * it.
 *
 * Leases come in ranges, each of which ends with a barrier: what has been applied then is all that comes before, as after so many steps in order. So
 * a checkpoint, an evaluation and the end of an epoch stand between ranges. */
#include "base/memory.h"
#include "runtime/data_check.h"
#include "runtime/ps/lease_steps.h"
#include "runtime/ps/leasing.h"
#include "runtime/scheduler.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <string.h>

typedef struct leases {
    dt_scheduler base;
    const dt_run_options *options;
    dt_session *session;
    dt_log *log;
    bool is_open;        /* a range */
    const void **inputs; /* [most inputs of a step] all the same nothing, where a worker has the examples: a server's session holds no row */
    dt_pipeline *data[]; /* [n_steps] of those that were begun; then the inputs, and what they are */
} leases;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How much a step reads. */
static void look_at_inputs(const dt_artifact *artifact, int64_t rows, int64_t *bytes, int *n) {
    for (int s = 0; s < artifact->n_steps; s++) {
        const dt_artifact_function *function = &artifact->functions[artifact->steps[s].function];
        *n = (int)larger(*n, function->n_inputs);
        for (int i = 0; i < function->n_inputs; i++)
            *bytes = larger(*bytes, function->inputs[i].row_bytes * (function->inputs[i].has_rows ? rows : 1));
    }
}

/* In server 0: whether a worker that says this of a lease has read what is here. *what is appended to where it has not. */
static dt_status *compare_examples(void *context, const dt_ps_examples *said, const uint64_t *words, size_t n, dt_text *what) {
    const leases *self = context;
    bool differs = false;
    dt_text where = {0};
    dt_pipeline *data = (int64_t)said->step < dt_session_artifact(self->session)->n_steps ? self->data[said->step] : NULL;
    if (data == NULL) return dt_error(DT_DATA_LOSS, "examples of a step that is not leased");
    if ((int64_t)said->n_examples != dt_pipeline_n_examples(data)) {
        dt_text_format(what, "it has other data than server 0: it finds %" PRId64 " examples in its files, server 0 %" PRId64 "; " DT_DATA_CHECK_HELP,
                       (int64_t)said->n_examples, dt_pipeline_n_examples(data));
        return NULL;
    }
    if (said->layout != dt_pipeline_layout(data)) {
        dt_text_append(
            what,
            "it has other data than server 0: examples of other types or shapes, or another number before they are filtered; " DT_DATA_CHECK_HELP);
        return NULL;
    }
    DT_TRY(dt_pipeline_compare_rows(data, words, n, said->all != 0, &differs, &where));
    if (differs)
        dt_text_format(what, "it has other data than server 0: %s differs; " DT_DATA_CHECK_HELP ", and --no-data-check does not compare them",
                       where.data != NULL ? where.data : "an example");
    dt_text_free(&where);
    return NULL;
}

/* Examples a second, of leases of so many rows. */
static double rate(double from, int64_t n_leases, double rows) {
    double seconds = dt_seconds_now() - from;
    return seconds > 0 ? (double)n_leases * rows / seconds : 0;
}

/* Since the epoch began, or the run. Copied: workers come and go while it is said. */
static dt_status *copy_workers(const dt_ps_leases *book, double began, double rows, dt_log_leases *said) {
    const dt_ps_leases_worker *one;
    size_t bytes = 1;
    for (; (one = dt_ps_leases_worker_at(book, said->n_workers)) != NULL; said->n_workers++) bytes += sizeof *said->workers + strlen(one->name) + 1;
    dt_log_worker *workers = dt_allocate(bytes);
    if (workers == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    char *name = (char *)(workers + said->n_workers);
    for (int i = 0; i < said->n_workers; i++) {
        one = dt_ps_leases_worker_at(book, i);
        int64_t n_leases = said->epoch == 0 ? one->in_all : one->in_epoch;
        workers[i] = (dt_log_worker){name, n_leases, rate(one->joined > began ? one->joined : began, n_leases, rows), one->is_gone};
        name = stpcpy(name, one->name) + 1;
    }
    said->workers = workers;
    return NULL;
}

/* In the server that leads. */
static dt_status *say(const dt_scheduler *base, int64_t epoch, int64_t epochs) {
    const leases *self = (const leases *)base;
    char names[DT_PS_N_LAGS][32];
    dt_log_lag lags[DT_PS_N_LAGS];
    dt_log_leases said = {.epoch = epoch, .epochs = epochs, .n_lags = DT_PS_N_LAGS, .lags = lags};
    dt_status *status = NULL;
    const dt_ps_leases *book = dt_ps_leasing_take_book(self->options->team);
    if (book != NULL) {
        const dt_ps_leases_statistics *all = dt_ps_leases_count(book);
        double began = epoch == 0 ? all->began : all->epoch_began, rows = (double)dt_session_global_batch(self->session);
        said.leases = epoch == 0 ? all->in_all : all->in_epoch;
        said.returned = all->n_returned;
        said.doubles = all->n_doubles;
        said.examples_per_second = rate(began, said.leases, rows);
        for (int i = 0; i < DT_PS_N_LAGS; i++) lags[i] = (dt_log_lag){dt_ps_lags_name(i, names[i]), (epoch == 0 ? all->lags : all->epoch_lags)[i]};
        status = copy_workers(book, began, rows, &said);
    }
    dt_ps_leasing_return_book(self->options->team);
    if (book == NULL || status != NULL) return status;
    dt_log_leased(self->log, &said);
    dt_release((void *)(uintptr_t)said.workers);
    return NULL;
}

/* Also where a training goes on that was asked to end after the last batch of an epoch. */
static bool is_epoch_over(const dt_runner *runner) { return dt_runner_position(runner) >= dt_runner_n_examples(runner); }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* There is a barrier before each checkpoint, and where the run ends. */
static dt_status *open_range(leases *self, const dt_runner *runner, const dt_scheduler_place *place) {
    const dt_run_options *options = self->options;
    bool trains = dt_session_artifact(self->session)->steps[dt_runner_of(runner)].trains;
    int64_t global_batch = dt_session_global_batch(self->session), first = dt_runner_position(runner) / global_batch;
    int64_t n = (dt_runner_n_examples(runner) - 1) / global_batch + 1 - first;
    if (trains && options->max_steps >= 0) n = smaller(n, options->max_steps - place->number);
    if (trains && options->checkpoint_every > 0) n = smaller(n, options->checkpoint_every - place->number % options->checkpoint_every);
    self->is_open = true;
    return dt_ps_leasing_open(options->team, dt_runner_of(runner), trains, place->epoch, first, first + n, place->number);
}

/* The same for all servers, whichever was asked to stop. */
static dt_status *end_range(leases *self, dt_runner *runner, dt_runner_outcome *outcome) {
    dt_session_answers all;
    self->is_open = false;
    dt_runner_add_bad_indices(runner, dt_ps_leasing_take_ignored(self->options->team));
    DT_TRY(dt_session_ask(self->session, atomic_load(self->options->stop) != 0, &all));
    if (is_epoch_over(runner))
        *outcome = DT_RUNNER_EPOCH_OVER;
    else if (all.most != 0)
        *outcome = DT_RUNNER_STOPPED;
    return NULL;
}

static dt_status *next(leases *self, dt_ps_order *order, bool *any) {
    return dt_ps_leasing_next(self->options->team, self->session, self->options->processes, self->options->stop, order, any);
}

/* The pipeline makes no batches. */
static dt_status *begin(dt_scheduler *base, dt_runner *runner, dt_pipeline *data, int64_t epoch, int64_t position) {
    ((leases *)base)->data[dt_runner_of(runner)] = data;
    dt_runner_go_to(runner, data, epoch, position);
    return NULL;
}

/* Applies the next lease. DT_RUNNER_STOPPED: all that was leased has been applied. */
static dt_status *step(dt_scheduler *base, dt_runner *runner, const dt_scheduler_place *place, dt_runner_outcome *outcome) {
    leases *self = (leases *)base;
    bool trains = dt_session_artifact(self->session)->steps[dt_runner_of(runner)].trains;
    *outcome = DT_RUNNER_RAN;
    while (*outcome == DT_RUNNER_RAN) {
        dt_ps_order order;
        bool any;
        if (!self->is_open && is_epoch_over(runner)) return *outcome = DT_RUNNER_EPOCH_OVER, NULL;
        if (!self->is_open) DT_TRY(open_range(self, runner, place));
        DT_TRY(next(self, &order, &any));
        if (!any)
            DT_TRY(end_range(self, runner, outcome));
        else if (order.rows > 0)
            return dt_runner_run_at(runner, &(dt_batch){.inputs = self->inputs, .rows = order.rows, .counter = trains ? place->number : order.batch},
                                    order.batch * dt_session_global_batch(self->session));
    }
    return NULL;
}

/* Where the training ends at a barrier in mid-epoch, whose last lease was applied: waits until workers are done with it. */
static dt_status *end(dt_scheduler *base, dt_runner *runner) {
    leases *self = (leases *)base;
    dt_runner_outcome outcome;
    dt_ps_order order;
    bool any = true;
    if (!self->is_open) return NULL;
    while (any) DT_TRY(next(self, &order, &any));
    return end_range(self, runner, &outcome);
}

static dt_status *sync(const dt_scheduler *self) { return dt_ps_leasing_sync(((const leases *)self)->options->team); }
static void outdate(const dt_scheduler *self) { dt_ps_leasing_outdate(((const leases *)self)->options->team); }

dt_status *dt_scheduler_create_leases(const dt_run_options *options, dt_session *session, int of, dt_log *log, dt_scheduler **scheduler) {
    static const dt_scheduler_kind kind = {begin, step, end, say, sync, outdate};
    const dt_session_options *about = dt_session_get_options(session);
    const dt_artifact *artifact = dt_session_artifact(session);
    int64_t bytes = DT_SLACK_BYTES;
    int n = 0;
    DT_TRY(dt_ps_check_step(artifact, of));
    look_at_inputs(artifact, about->rows, &bytes, &n);
    leases *made = dt_allocate_zeroed(1, sizeof *made + (size_t)(artifact->n_steps + n) * sizeof *made->data + (size_t)bytes);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    *made = (leases){.base = {&kind}, .options = options, .session = session, .log = log};
    made->inputs = (const void **)(made->data + artifact->n_steps);
    for (int i = 0; i < n; i++) made->inputs[i] = made->inputs + n;
    dt_ps_run_terms terms = {about->seed, about->said_replicas, about->rows, about->epochs, about->steps_per_epoch};
    dt_ps_leasing_agree(options->team, &terms, &(dt_ps_examples_check){compare_examples, made});
    *scheduler = &made->base;
    return NULL;
}
