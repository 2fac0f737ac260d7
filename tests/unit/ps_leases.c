/* ps_leases: each batch is applied once, whatever workers do, no lag is above its bound, and the ledger says what happened. */
#include "base/memory.h"
#include "runtime/ps/leases.h"
#include "tests/unit/scratch_folder.h"

#include <signal.h>
#include <sys/resource.h>

enum {
    TRAIN,
    EVALUATE
};

static dt_ps_leases *new_leases(const char *name, int64_t staleness, bool resumes) {
    dt_ps_leases *leases;
    const dt_ps_leases_options options = {.path = name != NULL ? scratch_path(name) : NULL, .staleness = staleness, .resumes = resumes};
    assert_ok(dt_ps_leases_create(&options, &leases));
    return leases;
}

static void join(dt_ps_leases *leases, uint32_t worker) {
    char name[32];
    snprintf(name, sizeof name, "w%u", worker);
    assert_ok(dt_ps_leases_join(leases, worker, name));
}

static void train(dt_ps_leases *leases, int64_t epoch, int64_t first, int64_t end, int64_t version) {
    assert_ok(dt_ps_leases_open(leases, TRAIN, true, epoch, first, end, version));
}

/* The batch that the worker is given, -1 if none; it fetches at once what it is to fetch. */
static int64_t take(dt_ps_leases *leases, uint32_t worker) {
    dt_ps_lease lease;
    bool any;
    assert_ok(dt_ps_leases_take(leases, worker, &lease, &any));
    if (any && lease.pulls) assert_ok(dt_ps_leases_pulled(leases, worker, dt_ps_leases_version(leases)));
    return any ? lease.batch : -1;
}

static bool push(dt_ps_leases *leases, uint32_t worker, int64_t epoch, int64_t batch) {
    bool dropped;
    assert_ok(dt_ps_leases_pushed(leases, worker, epoch, batch, &dropped));
    return !dropped;
}

/* The batch that is applied now, -1 if none. */
static int64_t apply(dt_ps_leases *leases) {
    dt_ps_lease lease;
    uint32_t worker;
    bool any;
    assert_ok(dt_ps_leases_apply(leases, &worker, &lease, &any));
    return any ? lease.batch : -1;
}

/* One after another, until the range is over or `n` are applied. */
static void work_alone(dt_ps_leases *leases, uint32_t worker, int64_t epoch, int64_t n) {
    for (int64_t batch; n > 0 && (batch = take(leases, worker)) >= 0; n--) {
        assert_true(push(leases, worker, epoch, batch));
        assert_int_equal(apply(leases), batch);
    }
}

static void expect_lines(const char *name, const char *wanted) {
    char *found;
    size_t n;
    assert_ok(dt_file_read(scratch_path(name), &found, &n));
    assert_string_equal(found, wanted);
    dt_release(found);
}

/* ---- leases ---- */

static void leases_go_out_in_order_and_are_applied_as_they_come(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases("order", -1, false);
    join(leases, 1), join(leases, 2);
    assert_true(dt_ps_leases_is_over(leases));
    train(leases, 0, 0, 5, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 2), 1);
    assert_int_equal(take(leases, 1), 2);
    assert_int_equal(take(leases, 1), -1); /* it has two */
    assert_int_equal(apply(leases), -1);
    push(leases, 2, 0, 1), push(leases, 1, 0, 0);
    assert_int_equal(apply(leases), 1);
    assert_int_equal(apply(leases), 0);
    push(leases, 1, 0, 2);
    assert_int_equal(apply(leases), 2);
    assert_int_equal(dt_ps_leases_version(leases), 3);
    work_alone(leases, 2, 0, 2);
    assert_int_equal(take(leases, 1), -1);
    assert_true(dt_ps_leases_is_over(leases));
    dt_ps_leases_destroy(leases);
    expect_lines("order", "{\"event\":\"opened\",\"epoch\":1,\"first\":1,\"last\":5,\"version\":0}\n"
                          "{\"event\":\"applied\",\"epoch\":1,\"batch\":2,\"version\":0,\"lag\":0,\"worker\":\"w2\"}\n"
                          "{\"event\":\"applied\",\"epoch\":1,\"batch\":1,\"version\":1,\"lag\":1,\"worker\":\"w1\"}\n"
                          "{\"event\":\"applied\",\"epoch\":1,\"batch\":3,\"version\":2,\"lag\":0,\"worker\":\"w1\"}\n"
                          "{\"event\":\"applied\",\"epoch\":1,\"batch\":4,\"version\":3,\"lag\":0,\"worker\":\"w2\"}\n"
                          "{\"event\":\"applied\",\"epoch\":1,\"batch\":5,\"version\":4,\"lag\":0,\"worker\":\"w2\"}\n");
}

static void what_a_lost_worker_has_not_pushed_goes_to_others(void **state) {
    (void)state;
    int n_returned;
    dt_ps_leases *leases = new_leases("returned", -1, false);
    join(leases, 1), join(leases, 2);
    train(leases, 0, 0, 6, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 2), 1);
    assert_int_equal(take(leases, 1), 2);
    push(leases, 1, 0, 0);
    assert_ok(dt_ps_leases_leave(leases, 1, &n_returned));
    assert_int_equal(n_returned, 1);
    assert_int_equal(apply(leases), 0); /* pushed, so it stays */
    assert_int_equal(take(leases, 2), 2);
    assert_ok(dt_ps_leases_leave(leases, 2, &n_returned));
    assert_int_equal(n_returned, 2);
    join(leases, 3);
    assert_int_equal(take(leases, 3), 1);
    push(leases, 3, 0, 1), apply(leases);
    work_alone(leases, 3, 0, 10);
    assert_true(dt_ps_leases_is_over(leases));
    assert_ok(dt_ps_leases_leave(leases, 7, NULL)); /* nobody */
    dt_ps_leases_destroy(leases);
    expect_lines("returned", "{\"event\":\"opened\",\"epoch\":1,\"first\":1,\"last\":6,\"version\":0}\n"
                             "{\"event\":\"returned\",\"epoch\":1,\"batch\":3,\"worker\":\"w1\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":1,\"version\":0,\"lag\":0,\"worker\":\"w1\"}\n"
                             "{\"event\":\"returned\",\"epoch\":1,\"batch\":2,\"worker\":\"w2\"}\n"
                             "{\"event\":\"returned\",\"epoch\":1,\"batch\":3,\"worker\":\"w2\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":2,\"version\":1,\"lag\":0,\"worker\":\"w3\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":3,\"version\":2,\"lag\":0,\"worker\":\"w3\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":4,\"version\":3,\"lag\":0,\"worker\":\"w3\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":5,\"version\":4,\"lag\":0,\"worker\":\"w3\"}\n"
                             "{\"event\":\"applied\",\"epoch\":1,\"batch\":6,\"version\":5,\"lag\":0,\"worker\":\"w3\"}\n");
}

static void what_comes_once_more_is_dropped(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases("double", -1, false);
    join(leases, 1);
    train(leases, 1, 0, 6, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_true(push(leases, 1, 1, 0));
    assert_false(push(leases, 1, 1, 0)); /* is pushed */
    assert_ok(dt_ps_leases_leave(leases, 1, NULL));
    join(leases, 2);
    apply(leases);
    assert_false(push(leases, 1, 1, 0));  /* is applied, and comes from one that is gone */
    assert_false(push(leases, 2, 0, 77)); /* of an epoch that is over */
    assert_int_equal(apply(leases), -1);
    assert_int_equal(dt_ps_leases_count(leases)->n_doubles, 3);
    dt_ps_leases_destroy(leases);
    expect_lines("double", "{\"event\":\"opened\",\"epoch\":2,\"first\":1,\"last\":6,\"version\":0}\n"
                           "{\"event\":\"double\",\"epoch\":2,\"batch\":1,\"worker\":\"w1\"}\n"
                           "{\"event\":\"applied\",\"epoch\":2,\"batch\":1,\"version\":0,\"lag\":0,\"worker\":\"w1\"}\n"
                           "{\"event\":\"double\",\"epoch\":2,\"batch\":1,\"worker\":null}\n"
                           "{\"event\":\"double\",\"epoch\":1,\"batch\":78,\"worker\":\"w2\"}\n");
}

static void what_nobody_leased_is_refused(void **state) {
    (void)state;
    dt_ps_lease lease;
    bool any;
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    join(leases, 1), join(leases, 2);
    assert_fails(dt_ps_leases_join(leases, 2, "again"), DT_ALREADY_EXISTS, "worker 2");
    assert_fails(dt_ps_leases_pushed(leases, 1, 0, 0, &any), DT_DATA_LOSS, "worker 1, w1 has pushed batch 0 of epoch 1");
    train(leases, 1, 0, 6, 3);
    assert_fails(dt_ps_leases_take(leases, 9, &lease, &any), DT_DATA_LOSS, "no worker 9");
    assert_ok(dt_ps_leases_take(leases, 1, &lease, &any));
    assert_true(any && lease.pulls && lease.trains && lease.epoch == 1 && lease.batch == 0 && lease.step == TRAIN);
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, 0, &any), DT_DATA_LOSS, "has not fetched");
    assert_fails(dt_ps_leases_pulled(leases, 1, 2), DT_DATA_LOSS, "w1 has fetched version 2");
    assert_fails(dt_ps_leases_pulled(leases, 1, 4), DT_DATA_LOSS, "w1 has fetched version 4");
    assert_fails(dt_ps_leases_pulled(leases, 9, 3), DT_DATA_LOSS, "no worker 9");
    assert_ok(dt_ps_leases_pulled(leases, 1, 3));
    assert_fails(dt_ps_leases_pulled(leases, 1, 3), DT_DATA_LOSS, "w1 fetches the variables, and no lease has told it to"); /* twice */
    assert_fails(dt_ps_leases_pulled(leases, 2, 3), DT_DATA_LOSS, "w2 fetches the variables");
    assert_int_equal(take(leases, 1), 1);
    assert_fails(dt_ps_leases_pushed(leases, 2, 1, 0, &any), DT_DATA_LOSS, "worker 2"); /* somebody else's */
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, 1, &any), DT_DATA_LOSS, "batch 1");  /* read ahead */
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, 5, &any), DT_DATA_LOSS, "batch 5");
    assert_fails(dt_ps_leases_pushed(leases, 1, 2, 0, &any), DT_DATA_LOSS, "epoch 3");
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, -1, &any), DT_DATA_LOSS, "batch -1");
    assert_true(push(leases, 1, 1, 0));
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, 1, &any), DT_DATA_LOSS, "batch 1");
    assert_ok(dt_ps_leases_leave(leases, 1, NULL));
    assert_fails(dt_ps_leases_pushed(leases, 1, 1, 1, &any), DT_DATA_LOSS, "worker 1 has pushed batch 1"); /* returned */
    assert_fails(dt_ps_leases_pushed(leases, 2, 1, 1, &any), DT_DATA_LOSS, "batch 1");
    dt_ps_leases_destroy(leases);
}

static void variables_are_fetched_where_they_are_not_the_newest(void **state) {
    (void)state;
    dt_ps_lease lease;
    bool any;
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    join(leases, 1), join(leases, 2);
    train(leases, 0, 0, 4, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 2), 1);
    push(leases, 1, 0, 0), push(leases, 2, 0, 1);
    apply(leases);
    assert_ok(dt_ps_leases_take(leases, 1, &lease, &any));
    assert_true(any && !lease.pulls); /* it has what its own made */
    push(leases, 1, 0, 2);
    apply(leases), apply(leases);
    work_alone(leases, 1, 0, 1);
    assert_true(dt_ps_leases_is_over(leases));
    assert_int_equal(dt_ps_leases_version(leases), 4);
    assert_ok(dt_ps_leases_open(leases, EVALUATE, false, 0, 0, 3, 4));
    assert_ok(dt_ps_leases_take(leases, 1, &lease, &any));
    assert_true(any && !lease.pulls && !lease.trains && lease.step == EVALUATE);
    assert_ok(dt_ps_leases_take(leases, 2, &lease, &any));
    assert_true(any && lease.pulls);
    assert_ok(dt_ps_leases_pulled(leases, 2, 4));
    push(leases, 2, 0, 1), push(leases, 1, 0, 0);
    assert_int_equal(apply(leases), 1);
    assert_ok(dt_ps_leases_take(leases, 2, &lease, &any));
    assert_true(any && !lease.pulls);
    push(leases, 2, 0, 2);
    apply(leases), apply(leases);
    assert_true(dt_ps_leases_is_over(leases));
    assert_int_equal(dt_ps_leases_version(leases), 4);
    dt_ps_leases_outdate(leases);
    train(leases, 1, 0, 1, 4);
    assert_ok(dt_ps_leases_take(leases, 2, &lease, &any));
    assert_true(any && lease.pulls);
    dt_ps_leases_destroy(leases);
}

/* Of one number there are two versions, before and after a loss. */
static void versions_of_before_a_loss_are_none(void **state) {
    (void)state;
    dt_ps_lease lease;
    bool any;
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    join(leases, 1), join(leases, 2), join(leases, 3);
    train(leases, 0, 0, 10, 0);
    work_alone(leases, 1, 0, 3);
    assert_int_equal(take(leases, 3), 3);
    assert_ok(dt_ps_leases_leave(leases, 3, NULL));
    train(leases, 0, 1, 10, 1);
    assert_int_equal(take(leases, 2), 1); /* and not the one that was returned */
    push(leases, 2, 0, 1), apply(leases);
    work_alone(leases, 2, 0, 1);
    assert_int_equal(dt_ps_leases_version(leases), 3);
    assert_ok(dt_ps_leases_take(leases, 1, &lease, &any));
    assert_true(any && lease.pulls);
    assert_ok(dt_ps_leases_take(leases, 2, &lease, &any));
    assert_true(any && !lease.pulls);
    dt_ps_leases_destroy(leases);
}

static void a_range_that_is_asked_to_end_ends_with_a_prefix(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    join(leases, 1), join(leases, 2);
    train(leases, 0, 0, 10000000, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 2), 1);
    assert_int_equal(take(leases, 2), 2);
    dt_ps_leases_end(leases);
    assert_int_equal(dt_ps_leases_bound(leases), 3);
    assert_int_equal(take(leases, 1), -1);
    push(leases, 1, 0, 0);
    apply(leases);
    assert_ok(dt_ps_leases_leave(leases, 2, NULL));
    assert_false(dt_ps_leases_is_over(leases));
    work_alone(leases, 1, 0, 10);
    assert_true(dt_ps_leases_is_over(leases));
    assert_int_equal(dt_ps_leases_version(leases), 3);
    dt_ps_leases_destroy(leases);
}

static void the_last_batches_are_for_whoever_is_free(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    join(leases, 1), join(leases, 2);
    train(leases, 0, 0, 4, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 1), 1);
    assert_int_equal(take(leases, 2), 2);
    assert_int_equal(take(leases, 2), -1);
    push(leases, 2, 0, 2);
    apply(leases);
    assert_int_equal(take(leases, 2), 3);
    dt_ps_leases_destroy(leases);
}

/* ---- bounded staleness ---- */

static void what_waits_no_longer_goes_before_what_came_earlier(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases(NULL, 1, false);
    join(leases, 1), join(leases, 2), join(leases, 3);
    train(leases, 0, 0, 100, 0);
    assert_int_equal(take(leases, 1), 0);
    assert_int_equal(take(leases, 2), 1);
    assert_int_equal(take(leases, 3), -1); /* two places */
    assert_int_equal(take(leases, 1), 2);
    push(leases, 1, 0, 0);
    assert_int_equal(apply(leases), 0);
    push(leases, 1, 0, 2);
    assert_int_equal(apply(leases), -1); /* version 1 is the last for batch 1 */
    push(leases, 2, 0, 1);
    assert_int_equal(apply(leases), 1);
    assert_int_equal(take(leases, 3), 3);
    assert_int_equal(apply(leases), 2);
    assert_int_equal(dt_ps_leases_count(leases)->lags[0], 1);
    assert_int_equal(dt_ps_leases_count(leases)->lags[1], 2);
    dt_ps_leases_destroy(leases);
}

static void who_leaves_holds_nobody_up(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases(NULL, 1, false);
    join(leases, 1), join(leases, 2), join(leases, 3);
    train(leases, 0, 0, 100, 0);
    take(leases, 1), take(leases, 2), take(leases, 1);
    push(leases, 1, 0, 0), apply(leases), push(leases, 1, 0, 2);
    assert_int_equal(apply(leases), -1);
    assert_ok(dt_ps_leases_leave(leases, 2, NULL));
    assert_int_equal(apply(leases), 2);
    assert_int_equal(take(leases, 3), 1);
    dt_ps_leases_destroy(leases);
}

/* Workers that do anything at any time, and what of it each of them has. */
enum {
    MOST_WORKERS = 9
};

typedef struct simulated {
    uint32_t number; /* 0: nobody is here */
    int n_held;      /* leases in order */
    int64_t held[2];
    int64_t version;     /* of its variables */
    int64_t computed_on; /* the pushed one was; -1: none is pushed */
    bool fetches;
} simulated;

typedef struct simulation {
    dt_ps_leases *leases;
    int64_t staleness, epoch, most_lag;
    simulated workers[MOST_WORKERS];
    simulated gone[1000]; /* that have pushed */
    int n_gone;
    uint32_t n_joined;
    uint64_t random;
    unsigned char *applied; /* [the range's batches] how often */
} simulation;

static unsigned below(simulation *all, unsigned n) {
    all->random = all->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(all->random >> 33) % n;
}

static void note_applied(simulation *all, uint32_t number, int64_t batch, bool trains) {
    simulated *one = NULL;
    for (int w = 0; w < MOST_WORKERS; w++)
        if (all->workers[w].number == number) one = &all->workers[w];
    for (int g = 0; g < all->n_gone; g++)
        if (all->gone[g].number == number) one = &all->gone[g];
    assert_non_null(one);
    assert_true(one->n_held > 0 && one->held[0] == batch && one->computed_on >= 0);
    int64_t lag = dt_ps_leases_version(all->leases) - trains - one->computed_on;
    if (lag > all->most_lag) all->most_lag = lag;
    all->applied[batch]++;
    one->held[0] = one->held[1];
    one->n_held--;
    one->computed_on = -1;
    if (trains) one->version = dt_ps_leases_version(all->leases);
}

static bool apply_all(simulation *all) {
    uint32_t number;
    dt_ps_lease lease;
    bool any, some = false;
    for (;; some = true) {
        assert_ok(dt_ps_leases_apply(all->leases, &number, &lease, &any));
        if (!any) return some;
        note_applied(all, number, lease.batch, lease.trains);
    }
}

static void take_as(simulation *all, simulated *one) {
    dt_ps_lease lease;
    bool any;
    assert_ok(dt_ps_leases_take(all->leases, one->number, &lease, &any));
    if (!any) return;
    one->held[one->n_held++] = lease.batch;
    if (lease.pulls) one->fetches = true;
    assert_true(one->n_held <= 2 && (lease.pulls || one->n_held == 2 || one->version == dt_ps_leases_version(all->leases)));
}

static void fetch_as(simulation *all, simulated *one) {
    one->version = dt_ps_leases_version(all->leases);
    one->fetches = false;
    assert_ok(dt_ps_leases_pulled(all->leases, one->number, one->version));
}

static void push_as(simulation *all, simulated *one) {
    one->computed_on = one->version;
    assert_true(push(all->leases, one->number, all->epoch, one->held[0]));
}

/* What it can do next by itself. */
static bool go_on(simulation *all, simulated *one) {
    if (one->number == 0) return false;
    if (one->n_held == 0) take_as(all, one);
    if (one->fetches) return fetch_as(all, one), true;
    if (one->n_held > 0 && one->computed_on < 0) return push_as(all, one), true;
    return false;
}

static void leave_as(simulation *all, simulated *one) {
    int n_returned;
    assert_ok(dt_ps_leases_leave(all->leases, one->number, &n_returned));
    assert_int_equal(n_returned, one->n_held - (one->computed_on >= 0));
    if (one->computed_on >= 0) all->gone[all->n_gone++] = *one;
    *one = (simulated){.computed_on = -1, .version = -1};
}

static void do_anything(simulation *all) {
    simulated *one = &all->workers[below(all, MOST_WORKERS)];
    if (one->number == 0) {
        if (below(all, 4) != 0) return;
        *one = (simulated){.number = ++all->n_joined, .computed_on = -1, .version = -1};
        join(all->leases, one->number);
    } else if (below(all, 40) == 0) {
        leave_as(all, one);
    } else if (below(all, 2) == 0) {
        take_as(all, one);
    } else {
        go_on(all, one);
    }
    if (below(all, 3) != 0) apply_all(all);
}

/* Nobody comes or goes: while somebody can work, something is applied in the end. */
static void finish(simulation *all) {
    if (all->workers[0].number == 0) {
        all->workers[0] = (simulated){.number = ++all->n_joined, .computed_on = -1, .version = -1};
        join(all->leases, all->workers[0].number);
    }
    for (bool goes_on = true; goes_on;) {
        goes_on = apply_all(all);
        for (int w = 0; w < MOST_WORKERS; w++) goes_on |= go_on(all, &all->workers[w]);
    }
    assert_true(dt_ps_leases_is_over(all->leases));
}

static void random_range(simulation *all, bool trains, int64_t n) {
    all->applied = calloc((size_t)n, 1);
    all->n_gone = 0;
    assert_ok(dt_ps_leases_open(all->leases, trains ? TRAIN : EVALUATE, trains, all->epoch, 0, n,
                                dt_ps_leases_version(all->leases) < 0 ? 0 : dt_ps_leases_version(all->leases)));
    for (int i = 0; i < 2000; i++) do_anything(all);
    if (below(all, 2) == 0) dt_ps_leases_end(all->leases);
    int64_t bound = dt_ps_leases_bound(all->leases);
    finish(all);
    for (int64_t batch = 0; batch < n; batch++) assert_int_equal(all->applied[batch], batch < bound);
    free(all->applied);
}

static void random_workers_apply_each_batch_once_within_the_bound(void **state) {
    (void)state;
    static const int64_t bounds[] = {0, 1, 2, 3, 5, 8, 20, -1};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        simulation all = {.staleness = bounds[b], .random = b, .leases = new_leases(NULL, bounds[b], false)};
        for (int w = 0; w < MOST_WORKERS; w++) all.workers[w] = (simulated){.computed_on = -1, .version = -1};
        for (; all.epoch < 6; all.epoch++) {
            random_range(&all, true, 1 + below(&all, 2000));
            if (all.staleness >= 0) assert_in_range(all.most_lag, all.staleness < 3 ? all.staleness : 2, all.staleness); /* and comes near it */
            int64_t most_lag = all.most_lag;
            random_range(&all, false, 1 + below(&all, 100));
            all.most_lag = most_lag;
        }
        const dt_ps_leases_statistics *counts = dt_ps_leases_count(all.leases);
        assert_int_equal(counts->in_all, dt_ps_leases_version(all.leases));
        dt_ps_leases_destroy(all.leases);
    }
}

/* ---- statistics ---- */

static void leases_are_counted_by_lag_and_worker(void **state) {
    (void)state;
    static const char *const names[DT_PS_N_LAGS] = {"0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257-512", "513+"};
    static const int64_t wanted[DT_PS_N_LAGS] = {1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 100};
    enum {
        N = 613
    };
    char buffer[32];
    for (int i = 0; i < DT_PS_N_LAGS; i++) assert_string_equal(dt_ps_lags_name(i, buffer), names[i]);
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    for (uint32_t w = 0; w < N; w++) join(leases, w);
    train(leases, 0, 0, N, 0);
    for (uint32_t w = 0; w < N; w++) assert_int_equal(take(leases, w), w);
    for (uint32_t w = 0; w < N; w++) push(leases, w, 0, w);
    while (apply(leases) >= 0) {
    }
    const dt_ps_leases_statistics *counts = dt_ps_leases_count(leases);
    assert_memory_equal(counts->epoch_lags, wanted, sizeof wanted);
    assert_ok(dt_ps_leases_leave(leases, 0, NULL));
    assert_true(dt_ps_leases_worker_at(leases, 0)->is_gone);
    train(leases, 0, N, N + 3, N); /* the same epoch goes on */
    work_alone(leases, 1, 0, 3);
    assert_int_equal(counts->in_epoch, N + 3);
    assert_int_equal(dt_ps_leases_worker_at(leases, 1)->in_epoch, 4);
    train(leases, 1, 0, 2, N + 3);
    work_alone(leases, 1, 1, 2);
    assert_true(counts->in_epoch == 2 && counts->in_all == N + 5 && counts->epoch_lags[0] == 2 && counts->lags[0] == 6);
    const dt_ps_leases_worker *one = dt_ps_leases_worker_at(leases, 0); /* who is gone is forgotten */
    assert_string_equal(one->name, "w1");
    assert_true(one->in_epoch == 2 && one->in_all == 6 && !one->is_gone && one->joined <= counts->epoch_began);
    assert_null(dt_ps_leases_worker_at(leases, N - 1));
    dt_ps_leases_destroy(leases);
}

/* Workers that come and go all day take no more memory than a thousand. */
static void many_that_are_gone_are_forgotten(void **state) {
    (void)state;
    enum {
        N = 5000
    };
    dt_ps_leases *leases = new_leases(NULL, -1, false);
    train(leases, 0, 0, N, 0);
    join(leases, N);
    take(leases, N), push(leases, N, 0, 0); /* is applied in the end */
    assert_ok(dt_ps_leases_leave(leases, N, NULL));
    for (uint32_t w = 1; w < N; w++) {
        join(leases, w);
        assert_int_equal(take(leases, w), w);
        push(leases, w, 0, w);
        assert_ok(dt_ps_leases_leave(leases, w, NULL));
        if (w > 2000) assert_int_equal(apply(leases), w - 2001);
    }
    while (apply(leases) >= 0) {
    }
    join(leases, N + 1), join(leases, N + 2);
    assert_null(dt_ps_leases_worker_at(leases, 1024));
    assert_int_equal(dt_ps_leases_count(leases)->in_epoch, N);
    assert_true(dt_ps_leases_is_over(leases));
    dt_ps_leases_destroy(leases);
}

/* ---- the ledger ---- */

#define OPENED(epoch, first, last, version)                                                                                                          \
    "{\"event\":\"opened\",\"epoch\":" #epoch ",\"first\":" #first ",\"last\":" #last ",\"version\":" #version "}\n"
#define APPLIED(epoch, batch, version)                                                                                                               \
    "{\"event\":\"applied\",\"epoch\":" #epoch ",\"batch\":" #batch ",\"version\":" #version ",\"lag\":0,\"worker\":\"w1\"}\n"
#define LOST(epoch, batch, version) "{\"event\":\"lost\",\"epoch\":" #epoch ",\"batch\":" #batch ",\"version\":" #version "}\n"

static void what_was_applied_after_the_checkpoint_is_lost(void **state) {
    (void)state;
    dt_ps_lease lease;
    bool any;
    dt_ps_leases *leases = new_leases("lost", -1, false);
    join(leases, 1);
    train(leases, 0, 0, 3, 0);
    work_alone(leases, 1, 0, 3);
    train(leases, 1, 0, 3, 3);
    work_alone(leases, 1, 1, 1);
    train(leases, 0, 2, 3, 2); /* back to the checkpoint after the second batch */
    assert_ok(dt_ps_leases_take(leases, 1, &lease, &any));
    assert_true(any && lease.pulls && lease.batch == 2);
    assert_ok(dt_ps_leases_pulled(leases, 1, 2));
    push(leases, 1, 0, 2), apply(leases);
    train(leases, 1, 0, 1, 3);
    work_alone(leases, 1, 1, 1);
    train(leases, 0, 1, 3, 1); /* and further back, over lines that are lost already */
    dt_ps_leases_destroy(leases);
    expect_lines("lost", OPENED(1, 1, 3, 0) APPLIED(1, 1, 0) APPLIED(1, 2, 1) APPLIED(1, 3, 2) OPENED(2, 1, 3, 3) APPLIED(2, 1, 3) LOST(1, 3, 2)
                             LOST(2, 1, 3) OPENED(1, 3, 3, 2) APPLIED(1, 3, 2) OPENED(2, 1, 1, 3) APPLIED(2, 1, 3) LOST(1, 2, 1) LOST(1, 3, 2)
                                 LOST(2, 1, 3) OPENED(1, 2, 3, 1));
}

static void a_ledger_goes_on_and_what_was_cut_is_taken_away(void **state) {
    (void)state;
    static const char whole[] = OPENED(1, 1, 3, 0) APPLIED(1, 1, 0) APPLIED(1, 2, 1);
    static const char *const tails[] = {"", "{\"event\":\"appl", "{\"event\":\"lost\",\"epoch\":1,\"batch\":2,\"version\":1}\n",
                                        LOST(1, 2, 1) "{\"event\":\"opened\",\"epoch\":1"};
    for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
        char text[1000];
        scratch_write("resumed", text, (size_t)snprintf(text, sizeof text, "%s%s", whole, tails[t]));
        dt_ps_leases *leases = new_leases("resumed", -1, true);
        assert_int_equal(dt_ps_leases_version(leases), 2);
        join(leases, 1);
        train(leases, 0, 1, 3, 1);
        work_alone(leases, 1, 0, 10);
        assert_ok(dt_ps_leases_sync(leases));
        dt_ps_leases_destroy(leases);
        expect_lines("resumed",
                     OPENED(1, 1, 3, 0) APPLIED(1, 1, 0) APPLIED(1, 2, 1) LOST(1, 2, 1) OPENED(1, 2, 3, 1) APPLIED(1, 2, 1) APPLIED(1, 3, 2));
    }
}

static void a_long_ledger_is_read_in_pieces(void **state) {
    (void)state;
    enum {
        N = 5000
    };
    dt_ps_leases *leases = new_leases("long", -1, false);
    join(leases, 1);
    train(leases, 0, 0, N, 0);
    work_alone(leases, 1, 0, N);
    dt_ps_leases_destroy(leases);
    leases = new_leases("long", -1, true);
    assert_int_equal(dt_ps_leases_version(leases), N);
    train(leases, 0, 0, N, 0);
    dt_ps_leases_destroy(leases);
    char *text;
    size_t n, n_lost = 0;
    assert_ok(dt_file_read(scratch_path("long"), &text, &n));
    for (const char *at = text; (at = strstr(at, "\"lost\"")) != NULL; at++) n_lost++;
    dt_release(text);
    assert_int_equal(n_lost, N);
}

/* What stands in the ledger, applied and not lost: *net[epoch][batch], which is never anything but 0 or 1. */
static void add_up(const char *name, int64_t n_epochs, int64_t n_batches, unsigned char *net) {
    char *text, event[16];
    size_t n;
    long epoch, batch;
    memset(net, 0, (size_t)(n_epochs * n_batches));
    assert_ok(dt_file_read(scratch_path(name), &text, &n));
    for (const char *line = text; *line != 0; line = strchr(line, '\n') + 1) {
        int n_read = sscanf(line, "{\"event\":\"%15[a-z]\",\"epoch\":%ld,\"batch\":%ld,", event, &epoch, &batch);
        if (n_read != 3 || (strcmp(event, "applied") != 0 && strcmp(event, "lost") != 0)) continue;
        assert_true(epoch >= 1 && epoch <= n_epochs && batch >= 1 && batch <= n_batches);
        unsigned char *one = &net[(epoch - 1) * n_batches + batch - 1];
        assert_int_equal(*one, event[0] == 'l');
        *one ^= 1;
    }
    dt_release(text);
}

/* All is gone, server 0 too, amid a line. */
static void kill_and_resume(simulation *all, const char *name) {
    dt_ps_leases_destroy(all->leases);
    FILE *file = fopen(scratch_path(name), "a");
    assert_non_null(file);
    fputs("{\"event\":\"applied\",\"ep", file);
    fclose(file);
    all->leases = new_leases(name, all->staleness, true);
    for (int w = 0; w < MOST_WORKERS; w++) all->workers[w] = (simulated){.computed_on = -1, .version = -1};
}

/* Each range ends with a checkpoint; losses go back to any of the last few, in whatever epoch. */
static void whatever_is_lost_each_batch_stands_in_the_ledger_once(void **state) {
    (void)state;
    enum {
        N_EPOCHS = 6,
        N_BATCHES = 60,
        RANGE = 20,
        N_RANGES = N_EPOCHS * N_BATCHES / RANGE
    };
    unsigned char net[N_EPOCHS * N_BATCHES], applied[N_BATCHES];
    simulation all = {.staleness = 3, .random = 11, .leases = new_leases("net", 3, false), .applied = applied};
    for (int w = 0; w < MOST_WORKERS; w++) all.workers[w] = (simulated){.computed_on = -1, .version = -1};
    int n_lost = 0;
    for (int64_t checkpoint = 0; checkpoint < N_RANGES;) {
        int64_t first = checkpoint * RANGE % N_BATCHES;
        bool goes_back = checkpoint * RANGE < dt_ps_leases_version(all.leases);
        all.epoch = checkpoint * RANGE / N_BATCHES;
        all.n_gone = 0;
        for (int w = 0; w < MOST_WORKERS; w++) {
            simulated *one = &all.workers[w];
            *one = (simulated){.number = one->number, .version = goes_back ? -1 : one->version, .computed_on = -1};
        }
        train(all.leases, all.epoch, first, first + RANGE, checkpoint * RANGE);
        for (int i = below(&all, 200); i > 0; i--) do_anything(&all);
        if (below(&all, 3) == 0) {
            int64_t most_back = checkpoint < 4 ? checkpoint : 4;
            checkpoint -= below(&all, (unsigned)most_back + 1);
            if (below(&all, 2) == 0) kill_and_resume(&all, "net");
            n_lost++;
            continue;
        }
        finish(&all);
        checkpoint++;
    }
    assert_true(n_lost > 5);
    assert_int_equal(dt_ps_leases_version(all.leases), N_EPOCHS * N_BATCHES);
    dt_ps_leases_destroy(all.leases);
    add_up("net", N_EPOCHS, N_BATCHES, net);
    for (size_t i = 0; i < sizeof net; i++) assert_int_equal(net[i], 1);
}

static void a_file_that_is_no_ledger_of_this_training_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } files[] = {
        {"weights\n", "at byte 0: is no line of a ledger"},
        {"{\"event\":\"begun\",\"epoch\":1}\n", "event"},
        {OPENED(1, 1, 3, 0) "{\"event\":\"applied\",\"epoch\":1,\"version\":0}\n", "\"batch\" is missing"},
        {OPENED(0, 1, 3, 0), "epoch: expected at least 1, found 0"},
        {"{\"event\":\"opened\",\"epoch\":1,\"version\":\"9223372036854775807\"}\n", "version: expected at most 9007199254740992"},
        {APPLIED(1, 1, 0), "the line \"applied\" at byte 0 does not follow"},
        {OPENED(1, 1, 3, 0) APPLIED(1, 1, 0) APPLIED(1, 2, 2), "does not follow"},
        {OPENED(1, 1, 3, 0) OPENED(2, 1, 3, 3), "does not follow"},
        {OPENED(1, 1, 3, 0) APPLIED(1, 1, 0) LOST(1, 1, 0) APPLIED(1, 2, 1), "does not follow"},
    };
    dt_ps_leases *leases;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        scratch_write("wrong", files[f].text, strlen(files[f].text));
        assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path("wrong"), -1, true}, &leases), DT_DATA_LOSS, files[f].why);
        assert_null(leases);
    }
    char *zeros = calloc(1, 100000);
    scratch_write("wrong", zeros, 100000);
    free(zeros);
    assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path("wrong"), -1, true}, &leases), DT_DATA_LOSS, "a line is longer");
    assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path("wrong"), -1, false}, &leases), DT_ALREADY_EXISTS, "--resume");
    assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path("none"), -1, true}, &leases), DT_NOT_FOUND, "none");
    assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){NULL, -2, false}, &leases), DT_INVALID_ARGUMENT, "--staleness -2");
    dt_ps_leases *first = new_leases("twice", -1, false);
    assert_fails(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path("twice"), -1, true}, &leases), DT_IO, "another process");
    train(first, 0, 0, 3, 5); /* the first range of a ledger may begin with any version */
    assert_fails(dt_ps_leases_open(first, TRAIN, true, 0, 0, 3, 6), DT_FAILED_PRECONDITION, "ends with version 5");
    dt_ps_leases_destroy(first);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    struct rlimit before;
    dt_status *status = NULL;
    dt_ps_leases *leases = new_leases("full", -1, false);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 500, .rlim_max = before.rlim_max}), 0);
    for (int64_t epoch = 0; epoch < 50 && status == NULL; epoch++) status = dt_ps_leases_open(leases, TRAIN, true, epoch, 0, 3, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(status, DT_IO, "/full: cannot write the ledger: ");
    assert_fails(dt_ps_leases_open(leases, TRAIN, true, 0, 0, 3, 0), DT_IO, "/full: cannot write the ledger: "); /* there is room, but a gap too */
    dt_ps_leases_destroy(leases);
    leases = new_leases("full", -1, true); /* the line that did not fit is taken away */
    train(leases, 0, 0, 3, 0);
    dt_ps_leases_destroy(leases);
}

static void a_name_is_escaped(void **state) {
    (void)state;
    dt_ps_leases *leases = new_leases("name", -1, false);
    assert_ok(dt_ps_leases_join(leases, 1, "a\"b\\\n\xff"));
    train(leases, 0, 0, 1, 0);
    work_alone(leases, 1, 0, 1);
    dt_ps_leases_destroy(leases);
    expect_lines("name", OPENED(1, 1, 1, 0) "{\"event\":\"applied\",\"epoch\":1,\"batch\":1,\"version\":0,\"lag\":0,"
                                            "\"worker\":\"a\\\"b\\\\\\u000a\xef\xbf\xbd\"}\n");
    assert_int_equal(dt_ps_leases_version(leases = new_leases("name", -1, true)), 1);
    dt_ps_leases_destroy(leases);
}

/* ---- memory ---- */

static dt_status *work_in_little_memory(const char *name, bool resumes, dt_ps_leases **leases) {
    dt_ps_lease lease;
    bool any;
    uint32_t worker;
    DT_TRY(dt_ps_leases_create(&(dt_ps_leases_options){scratch_path(name), 1, resumes}, leases));
    DT_TRY(dt_ps_leases_join(*leases, 1, "w1"));
    DT_TRY(dt_ps_leases_join(*leases, 2, "w2"));
    DT_TRY(dt_ps_leases_open(*leases, TRAIN, true, 0, 0, 9, 0));
    DT_TRY(dt_ps_leases_take(*leases, 1, &lease, &any));
    DT_TRY(dt_ps_leases_pulled(*leases, 1, 0));
    DT_TRY(dt_ps_leases_pushed(*leases, 1, 0, 0, &any));
    DT_TRY(dt_ps_leases_apply(*leases, &worker, &lease, &any));
    DT_TRY(dt_ps_leases_take(*leases, 2, &lease, &any));
    DT_TRY(dt_ps_leases_leave(*leases, 2, NULL));
    return dt_ps_leases_sync(*leases);
}

static void memory_that_is_out_is_an_error(void **state) {
    (void)state;
    char name[32];
    bool failed = true;
    for (int n = 0; failed; n++) {
        assert_true(n < 100);
        for (int resumes = 0; resumes < 2; resumes++) {
            dt_ps_leases *leases = NULL;
            snprintf(name, sizeof name, "memory%d", n);
            if (resumes) scratch_write(name, OPENED(1, 1, 3, 0) APPLIED(1, 1, 0), sizeof(OPENED(1, 1, 3, 0) APPLIED(1, 1, 0)) - 1);
            dt_memory_fail_once(n);
            dt_status *status = work_in_little_memory(name, resumes, &leases);
            dt_memory_fail_after(-1);
            failed = status != NULL;
            if (failed) assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
            dt_ps_leases_destroy(leases);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_go_out_in_order_and_are_applied_as_they_come),
        cmocka_unit_test(what_a_lost_worker_has_not_pushed_goes_to_others),
        cmocka_unit_test(what_comes_once_more_is_dropped),
        cmocka_unit_test(what_nobody_leased_is_refused),
        cmocka_unit_test(variables_are_fetched_where_they_are_not_the_newest),
        cmocka_unit_test(versions_of_before_a_loss_are_none),
        cmocka_unit_test(a_range_that_is_asked_to_end_ends_with_a_prefix),
        cmocka_unit_test(the_last_batches_are_for_whoever_is_free),
        cmocka_unit_test(what_waits_no_longer_goes_before_what_came_earlier),
        cmocka_unit_test(who_leaves_holds_nobody_up),
        cmocka_unit_test(random_workers_apply_each_batch_once_within_the_bound),
        cmocka_unit_test(leases_are_counted_by_lag_and_worker),
        cmocka_unit_test(many_that_are_gone_are_forgotten),
        cmocka_unit_test(what_was_applied_after_the_checkpoint_is_lost),
        cmocka_unit_test(a_ledger_goes_on_and_what_was_cut_is_taken_away),
        cmocka_unit_test(a_long_ledger_is_read_in_pieces),
        cmocka_unit_test(whatever_is_lost_each_batch_stands_in_the_ledger_once),
        cmocka_unit_test(a_file_that_is_no_ledger_of_this_training_is_refused),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_name_is_escaped),
        cmocka_unit_test(memory_that_is_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
