/* leases: see the header. */
#include "runtime/ps/leases.h"

#include "base/memory.h"
#include "runtime/ps/ledger.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_HELD = 2,     /* leases of a worker: one that it computes or has pushed, one that it reads ahead */
    MOST_LISTED = 1024 /* workers, with those that are gone */
};

/* One that is there, or was in this epoch, or is gone and has pushed what is still to be applied. */
typedef struct worker {
    dt_ps_leases_worker about;
    char *name;
    int64_t version; /* of the variables that it has; while it fetches them, the least that they will be of; -1: it has none */
    bool fetches;    /* a lease told it to, and it has not yet */
    int n_held;
    int64_t held[MOST_HELD]; /* batches */
    uint64_t pushed;         /* when the first of them was, counted from 1; 0: not yet */
} worker;

typedef struct range {
    int step;
    bool trains;
    int64_t epoch, first, end;
    int64_t next; /* the first batch that was never leased. Those before it are held, returned or applied */
} range;

struct dt_ps_leases {
    dt_ps_ledger *ledger; /* NULL: none is kept */
    int64_t staleness, version;
    range range;                     /* empty before the first one */
    int64_t trained_epoch, position; /* of the last training range: its epoch, and where it ended; -1: there was none */
    uint64_t n_pushed;
    int64_t *returned; /* [n_returned] batches that are leased before any other, falling */
    size_t n_returned, returned_capacity;
    worker *workers; /* [n_workers] in the order of joining */
    size_t n_workers, workers_capacity;
    dt_ps_leases_statistics statistics;
};

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* ---- creating ---- */

dt_status *dt_ps_leases_create(const dt_ps_leases_options *options, dt_ps_leases **leases) {
    *leases = NULL;
    if (options->staleness < -1) return dt_error(DT_INVALID_ARGUMENT, "--staleness %" PRId64 " is no number of versions", options->staleness);
    dt_ps_leases *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return no_memory();
    made->staleness = options->staleness < INT64_MAX / 2 ? options->staleness : INT64_MAX / 2; /* a version and it are a deadline */
    made->version = made->trained_epoch = -1;
    made->statistics.began = dt_seconds_now();
    dt_status *status = options->path != NULL ? dt_ps_ledger_open(options->path, options->resumes, &made->ledger, &made->version) : NULL;
    if (status != NULL)
        dt_ps_leases_destroy(made);
    else
        *leases = made;
    return status;
}

void dt_ps_leases_destroy(dt_ps_leases *leases) {
    if (leases == NULL) return;
    for (size_t w = 0; w < leases->n_workers; w++) dt_release(leases->workers[w].name);
    dt_release(leases->workers);
    dt_release(leases->returned);
    dt_ps_ledger_close(leases->ledger);
    dt_release(leases);
}

/* ---- workers ---- */

static worker *find(const dt_ps_leases *leases, uint32_t number) {
    for (size_t w = 0; w < leases->n_workers; w++)
        if (leases->workers[w].about.number == number) return &leases->workers[w];
    return NULL;
}

static worker *find_present(const dt_ps_leases *leases, uint32_t number) {
    worker *one = find(leases, number);
    return one != NULL && !one->about.is_gone ? one : NULL;
}

bool dt_ps_leases_owes(const dt_ps_leases *leases, uint32_t number) {
    const worker *one = find_present(leases, number);
    return one != NULL && one->n_held > 0 && one->pushed == 0;
}

static dt_status *make_room(void **items, size_t item_bytes, size_t n, size_t *capacity) {
    if (n <= *capacity) return NULL;
    void *grown = dt_reallocate(*items, 2 * n * item_bytes);
    if (grown == NULL) return no_memory();
    *items = grown;
    *capacity = 2 * n;
    return NULL;
}

/* What is known of workers that are gone, but for those of which something is still to be applied. */
static void forget_gone(dt_ps_leases *leases) {
    size_t n_kept = 0;
    for (size_t w = 0; w < leases->n_workers; w++) {
        worker one = leases->workers[w];
        if (one.about.is_gone && one.n_held == 0)
            dt_release(one.name);
        else
            leases->workers[n_kept++] = one;
    }
    leases->n_workers = n_kept;
}

dt_status *dt_ps_leases_join(dt_ps_leases *leases, uint32_t number, const char *name) {
    if (find(leases, number) != NULL) return dt_error(DT_ALREADY_EXISTS, "there is or was a worker %" PRIu32 " already", number);
    if (leases->n_workers >= MOST_LISTED) forget_gone(leases);
    DT_TRY(make_room((void **)&leases->workers, sizeof *leases->workers, leases->n_workers + 1, &leases->workers_capacity));
    /* Returned leases and held ones are never more than workers held at once, as returned ones are leased before others: none has to be dropped. */
    DT_TRY(make_room((void **)&leases->returned, sizeof *leases->returned, MOST_HELD * leases->workers_capacity, &leases->returned_capacity));
    char *copy = dt_allocate(strlen(name) + 1);
    if (copy == NULL) return no_memory();
    strcpy(copy, name);
    leases->workers[leases->n_workers++] =
        (worker){.about = {.number = number, .name = copy, .joined = dt_seconds_now()}, .name = copy, .version = -1};
    return NULL;
}

/* Keeps them falling, so that the last one is the next to be leased. */
static void give_back(dt_ps_leases *leases, int64_t batch) {
    size_t i = leases->n_returned++;
    for (; i > 0 && leases->returned[i - 1] < batch; i--) leases->returned[i] = leases->returned[i - 1];
    leases->returned[i] = batch;
}

dt_status *dt_ps_leases_leave(dt_ps_leases *leases, uint32_t number, int *n_returned) {
    worker *one = find_present(leases, number);
    int n_kept = one != NULL && one->pushed != 0, n_given = one != NULL ? one->n_held - n_kept : 0;
    if (n_returned != NULL) *n_returned = n_given;
    if (one == NULL) return NULL;
    one->about.is_gone = true;
    one->n_held = n_kept;
    for (int i = n_kept; i < n_kept + n_given; i++) give_back(leases, one->held[i]);
    if (!leases->range.trains) return NULL;
    leases->statistics.n_returned += n_given;
    for (int i = n_kept; i < n_kept + n_given; i++) DT_TRY(dt_ps_ledger_returned(leases->ledger, leases->range.epoch, one->held[i], one->name));
    return NULL;
}

/* ---- ranges ---- */

/* Counts of an epoch begin anew, and workers that are gone are forgotten. */
static void begin_epoch(dt_ps_leases *leases) {
    forget_gone(leases);
    for (size_t w = 0; w < leases->n_workers; w++) leases->workers[w].about.in_epoch = 0;
    leases->statistics.in_epoch = 0;
    memset(leases->statistics.epoch_lags, 0, sizeof leases->statistics.epoch_lags);
    leases->statistics.epoch_began = dt_seconds_now();
}

/* What is held of the range before. goes_back: the variables are those of an earlier version. */
static void forget(dt_ps_leases *leases, bool goes_back) {
    leases->n_returned = 0;
    for (size_t w = 0; w < leases->n_workers; w++) {
        worker *one = &leases->workers[w];
        one->n_held = 0;
        one->pushed = 0;
        one->fetches = false;
        if (goes_back) one->version = -1;
    }
}

dt_status *dt_ps_leases_open(dt_ps_leases *leases, int step, bool trains, int64_t epoch, int64_t first, int64_t end, int64_t version) {
    if (epoch < 0 || first < 0 || end < first || version < 0) return dt_error(DT_INTERNAL, "there is no such range of leases");
    if (leases->version >= 0 && version > leases->version)
        return dt_error(DT_FAILED_PRECONDITION,
                        "the ledger ends with version %" PRId64 " of the variables, and the training is to go on with version %" PRId64
                        ": it is the ledger of another training",
                        leases->version, version);
    bool goes_back = version < leases->version;
    bool goes_on = !goes_back && epoch == leases->trained_epoch && first == leases->position;
    forget(leases, goes_back);
    leases->version = version;
    leases->range = (range){.step = step, .trains = trains, .epoch = epoch, .first = first, .end = end, .next = first};
    if (!trains) return NULL;
    if (!goes_on) begin_epoch(leases);
    leases->trained_epoch = epoch;
    leases->position = end;
    return dt_ps_ledger_opened(leases->ledger, epoch, first, end, version);
}

void dt_ps_leases_end(dt_ps_leases *leases) {
    leases->range.end = leases->range.next;
    if (leases->range.trains) leases->position = leases->range.end;
}

void dt_ps_leases_outdate(dt_ps_leases *leases) {
    for (size_t w = 0; w < leases->n_workers; w++) leases->workers[w].version = -1;
}

int64_t dt_ps_leases_bound(const dt_ps_leases *leases) { return leases->range.end; }

static size_t count_workers_with_leases(const dt_ps_leases *leases) {
    size_t n = 0;
    for (size_t w = 0; w < leases->n_workers; w++) n += leases->workers[w].n_held > 0;
    return n;
}

bool dt_ps_leases_is_over(const dt_ps_leases *leases) {
    return leases->range.next == leases->range.end && leases->n_returned == 0 && count_workers_with_leases(leases) == 0;
}

int64_t dt_ps_leases_version(const dt_ps_leases *leases) { return leases->version; }

dt_status *dt_ps_leases_sync(dt_ps_leases *leases) { return dt_ps_ledger_sync(leases->ledger); }

/* ---- leases ---- */

static bool is_bounded(const dt_ps_leases *leases) { return leases->range.trains && leases->staleness >= 0; }

static dt_ps_lease describe(const dt_ps_leases *leases, int64_t batch) {
    const range *range = &leases->range;
    return (dt_ps_lease){.epoch = range->epoch, .batch = batch, .step = range->step, .trains = range->trains};
}

/* Whether nobody reads ahead any more: the last batches of a range are for whoever is free first, or a slow worker would hold two of them. */
static bool is_near_end(const dt_ps_leases *leases) {
    int64_t n_left = leases->range.end - leases->range.next + (int64_t)leases->n_returned, n_present = 0;
    for (size_t w = 0; w < leases->n_workers; w++) n_present += !leases->workers[w].about.is_gone;
    return n_left < n_present && (!is_bounded(leases) || n_left <= leases->staleness);
}

dt_status *dt_ps_leases_take(dt_ps_leases *leases, uint32_t number, dt_ps_lease *lease, bool *any) {
    worker *one = find_present(leases, number);
    *any = false;
    if (one == NULL) return dt_error(DT_DATA_LOSS, "there is no worker %" PRIu32, number);
    if (one->n_held == MOST_HELD || (leases->n_returned == 0 && leases->range.next == leases->range.end)) return NULL;
    if (one->n_held == 0 && is_bounded(leases) && count_workers_with_leases(leases) > (uint64_t)leases->staleness) return NULL;
    if (one->n_held > 0 && is_near_end(leases)) return NULL;
    int64_t batch = leases->n_returned > 0 ? leases->returned[--leases->n_returned] : leases->range.next++;
    *any = true;
    *lease = describe(leases, batch);
    /* The first one is computed on the newest variables, so its deadline is as late as any can be, and the second one after an application. */
    lease->pulls = one->n_held == 0 && one->version != leases->version;
    if (lease->pulls) one->version = leases->version, one->fetches = true;
    one->held[one->n_held++] = batch;
    return NULL;
}

dt_status *dt_ps_leases_pulled(dt_ps_leases *leases, uint32_t number, int64_t version) {
    worker *one = find_present(leases, number);
    if (one == NULL) return dt_error(DT_DATA_LOSS, "there is no worker %" PRIu32, number);
    if (!one->fetches) return dt_error(DT_DATA_LOSS, "%s fetches the variables, and no lease has told it to", one->name);
    if (version < one->version || version > leases->version)
        return dt_error(DT_DATA_LOSS, "%s has fetched version %" PRId64 " of the variables, and was to fetch one from %" PRId64 " to %" PRId64,
                        one->name, version, one->version, leases->version);
    one->version = version;
    one->fetches = false;
    return NULL;
}

/* Whether the batch was applied, or is held and pushed. */
static bool is_done(const dt_ps_leases *leases, int64_t epoch, int64_t batch) {
    const range *range = &leases->range;
    if (epoch != range->epoch || batch < range->first) return epoch <= range->epoch;
    if (batch >= range->next) return false;
    for (size_t i = 0; i < leases->n_returned; i++)
        if (leases->returned[i] == batch) return false;
    for (size_t w = 0; w < leases->n_workers; w++)
        for (int i = 0; i < leases->workers[w].n_held; i++)
            if (leases->workers[w].held[i] == batch) return i == 0 && leases->workers[w].pushed != 0;
    return true;
}

dt_status *dt_ps_leases_pushed(dt_ps_leases *leases, uint32_t number, int64_t epoch, int64_t batch, bool *dropped) {
    worker *one = find_present(leases, number);
    const char *name = one != NULL ? one->name : NULL;
    *dropped = epoch >= 0 && batch >= 0 && is_done(leases, epoch, batch);
    if (*dropped) {
        leases->statistics.n_doubles += leases->range.trains;
        return leases->range.trains ? dt_ps_ledger_double(leases->ledger, epoch, batch, name) : NULL;
    }
    if (one == NULL || one->n_held == 0 || one->pushed != 0 || one->held[0] != batch || leases->range.epoch != epoch)
        return dt_error(DT_DATA_LOSS, "worker %" PRIu32 "%s%s has pushed batch %" PRId64 " of epoch %" PRId64 ", which it does not compute", number,
                        name != NULL ? ", " : "", name != NULL ? name : "", batch, epoch + 1);
    if (one->fetches)
        return dt_error(DT_DATA_LOSS, "%s has pushed batch %" PRId64 " of epoch %" PRId64 ", and has not fetched the variables for it", name, batch,
                        epoch + 1);
    one->pushed = ++leases->n_pushed;
    return NULL;
}

/* ---- applying ---- */

static int64_t deadline(const dt_ps_leases *leases, const worker *one) { return one->version + leases->staleness; }

/* Leases of this deadline or an earlier one take all versions up to it, if there are so many: then one of them has to be applied now. */
static bool takes_all(const dt_ps_leases *leases, int64_t until) {
    int64_t n = 0;
    for (size_t w = 0; w < leases->n_workers; w++) n += leases->workers[w].n_held > 0 && deadline(leases, &leases->workers[w]) <= until;
    return n > until - leases->version;
}

/* The latest deadline that a lease may have to be applied now, so that all others meet theirs. */
static int64_t find_latest(const dt_ps_leases *leases) {
    int64_t latest = INT64_MAX;
    for (size_t w = 0; w < leases->n_workers && is_bounded(leases); w++) {
        const worker *one = &leases->workers[w];
        if (one->n_held > 0 && deadline(leases, one) < latest && takes_all(leases, deadline(leases, one))) latest = deadline(leases, one);
    }
    return latest;
}

static worker *choose(const dt_ps_leases *leases) {
    int64_t latest = find_latest(leases);
    worker *first = NULL;
    for (size_t w = 0; w < leases->n_workers; w++) {
        worker *one = &leases->workers[w];
        if (one->pushed == 0 || (first != NULL && one->pushed > first->pushed)) continue;
        if (latest == INT64_MAX || deadline(leases, one) <= latest) first = one;
    }
    return first;
}

/* 0, 1, 2, 3 to 4, 5 to 8, …: which count of a histogram a lag belongs to. */
static int find_lags(int64_t lag) {
    int lags = lag < 2 ? (int)lag : 2;
    for (int64_t most = 2; most < lag && lags < DT_PS_N_LAGS - 1; most *= 2) lags++;
    return lags;
}

static void count(dt_ps_leases *leases, worker *one, int64_t lag) {
    dt_ps_leases_statistics *statistics = &leases->statistics;
    int lags = find_lags(lag);
    statistics->in_epoch++, statistics->in_all++;
    statistics->epoch_lags[lags]++, statistics->lags[lags]++;
    one->about.in_epoch++, one->about.in_all++;
}

dt_status *dt_ps_leases_apply(dt_ps_leases *leases, uint32_t *number, dt_ps_lease *lease, bool *any) {
    worker *one = choose(leases);
    *any = one != NULL;
    if (one == NULL) return NULL;
    *number = one->about.number;
    *lease = describe(leases, one->held[0]);
    one->held[0] = one->held[1];
    one->n_held--;
    one->pushed = 0;
    if (!leases->range.trains) return NULL;
    int64_t lag = leases->version - one->version;
    count(leases, one, lag);
    one->version = leases->version + 1;
    return dt_ps_ledger_applied(leases->ledger, lease->epoch, lease->batch, leases->version++, lag, one->name);
}

/* ---- statistics ---- */

const char *dt_ps_lags_name(int lags, char buffer[32]) {
    long first = lags < 3 ? lags : (1L << (lags - 2)) + 1;
    if (lags == DT_PS_N_LAGS - 1)
        snprintf(buffer, 32, "%ld+", first);
    else if (lags < 3)
        snprintf(buffer, 32, "%ld", first);
    else
        snprintf(buffer, 32, "%ld-%ld", first, 1L << (lags - 1));
    return buffer;
}

const dt_ps_leases_statistics *dt_ps_leases_count(const dt_ps_leases *leases) { return &leases->statistics; }

const dt_ps_leases_worker *dt_ps_leases_worker_at(const dt_ps_leases *leases, int i) {
    return i >= 0 && (size_t)i < leases->n_workers ? &leases->workers[i].about : NULL;
}
