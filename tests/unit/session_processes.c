/* session_processes: two sessions that hold half of the replicas each, as two processes do, train what one session with all of them trains: the same
 * bits of weights and totals, also in short batches that leave one of them without rows; bad indices of both are known to both; and when one fails,
 * or is gone, the other ends too. Here the processes are threads of one. */
#include "base/memory.h"
#include "runtime/execution/ranges.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"
#include "tests/support/thread_processes.h"

#include <pthread.h>
#include <unistd.h>

enum {
    TRAIN = 0,
    REPLICAS = 4,
    ROWS = 4, /* of a replica, in microbatches of two */
    BATCH = REPLICAS * ROWS,
    STEPS = 20,
    N_PROCESSES = 2,
    MOST_PROCESSES = 6
};

static dt_artifact *artifact;
static dt_kernels *kernels;

static int open_artifact(void **state) {
    (void)state;
    return fixture_open_line(&artifact, &kernels);
}

static int close_artifact(void **state) {
    (void)state;
    fixture_close_line(artifact, kernels);
    return 0;
}

/* The global batch of a step: rows of a plane, none of them exact in binary. Some steps are short. */
typedef struct data {
    float x[BATCH + 6][3], y[BATCH + 16];
    int64_t rows;
} data;

static data make_data(int step) {
    data made = {.rows = step % 3 == 2 ? 1 + step * 7 % BATCH : BATCH};
    for (int r = 0; r < BATCH; r++) {
        for (int i = 0; i < 3; i++) made.x[r][i] = (float)((step * 131 + r * 37 + i * 11) % 101) / 101.0f;
        made.y[r] = made.x[r][0] * 0.3f - made.x[r][1] * 0.7f + made.x[r][2] * 0.11f;
    }
    return made;
}

static dt_session_options options_of(const char *devices, dt_processes *processes) {
    dt_session_options options = dt_session_options_default();
    options.devices = devices;
    options.replicas = REPLICAS;
    options.seed = 5;
    options.processes = processes;
    return options;
}

static dt_status *run(dt_session *session, int step, data *d, dt_total *totals) {
    int64_t first = dt_session_first_row(session);
    const void *inputs[] = {d->x[first], &d->y[first]};
    return dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = d->rows, .counter = step}, totals);
}

/* What a training leaves. */
typedef struct outcome {
    float weights[3];
    dt_total totals[STEPS][2];
    float predictions[STEPS][BATCH];
    int64_t n_bad;
    dt_session_answers answers; /* to which row each begins with */
} outcome;

static void train(dt_session *session, outcome *left) {
    for (int step = 0; step < STEPS; step++) {
        data d = make_data(step);
        expect_ok(run(session, step, &d, left->totals[step]));
        expect_ok(dt_session_result(session, TRAIN, 2, &left->predictions[step][dt_session_first_row(session)]));
    }
    expect_ok(dt_ranges_read(session, 0, 0, dt_ranges_own(session, 0), left->weights));
    data d = make_data(0);
    d.y[1] = 1012, d.y[BATCH - 1] = 3000; /* what the fixture's kernel takes for indices: one in each half */
    expect_ok(run(session, STEPS, &d, NULL));
    left->n_bad = dt_session_bad_index(session)->count;
    expect_ok(dt_session_ask(session, dt_session_first_row(session), &left->answers));
}

typedef struct process {
    dt_processes *processes;
    const char *devices;
    outcome left;
    void (*body)(struct process *self, dt_session *session);
} process;

static void *run_process(void *argument) {
    process *self = argument;
    dt_session_options options = options_of(self->devices, self->processes);
    dt_session *session;
    expect_ok(dt_session_create(kernels, &options, &session));
    dt_process_roles roles = dt_processes_roles(self->processes);
    int n_workers = dt_process_n_workers(roles), worker = dt_processes_number(self->processes) - roles.n_servers;
    assert_int_equal(dt_session_n_rows(session), worker < 0 ? 0 : BATCH / n_workers);
    assert_int_equal(dt_session_first_row(session), worker < 0 ? BATCH : worker * BATCH / n_workers);
    assert_true(dt_session_leads(session) == (dt_processes_number(self->processes) == 0));
    expect_ok(dt_session_initialize(session));
    self->body(self, session);
    dt_session_destroy(session);
    return NULL;
}

static void run_roles(process *processes, dt_process_roles roles, const char *devices, double deadline, void (*body)(process *, dt_session *)) {
    thread_processes all;
    pthread_t threads[MOST_PROCESSES];
    thread_processes_open_roles(&all, roles, deadline);
    for (int p = 0; p < roles.n_processes; p++) {
        processes[p] = (process){.processes = all.all[p], .devices = devices, .body = body};
        assert_int_equal(pthread_create(&threads[p], NULL, run_process, &processes[p]), 0);
    }
    for (int p = 0; p < roles.n_processes; p++) pthread_join(threads[p], NULL);
    thread_processes_close(&all);
}

static void run_processes(process *processes, const char *devices, double deadline, void (*body)(process *, dt_session *)) {
    run_roles(processes, (dt_process_roles){.n_processes = N_PROCESSES}, devices, deadline, body);
}

static void train_process(process *self, dt_session *session) { train(session, &self->left); }

static void train_alone(outcome *one) {
    dt_session_options options = options_of("cpu:1x1", NULL);
    dt_session *session;
    expect_ok(dt_session_create(kernels, &options, &session));
    expect_ok(dt_session_initialize(session));
    train(session, one);
    assert_int_equal(one->n_bad, 2);
    assert_true(one->answers.least == 0 && one->answers.most == 0 && one->answers.sum == 0);
    dt_session_destroy(session);
}

static void two_processes_train_what_one_trains(void **state) {
    (void)state;
    static outcome one;
    static process processes[N_PROCESSES];
    train_alone(&one);
    static const char *const devices[] = {"cpu:1x1", "cpu:1x2", "cpu:2x1"};
    for (size_t c = 0; c < sizeof devices / sizeof *devices; c++) {
        run_processes(processes, devices[c], 60, train_process);
        for (int p = 0; p < N_PROCESSES; p++) {
            const outcome *left = &processes[p].left;
            assert_memory_equal(left->weights, one.weights, sizeof one.weights);
            for (int step = 0; step < STEPS; step++) {
                assert_memory_equal(&left->totals[step][0].number, &one.totals[step][0].number, 8);
                assert_int_equal(left->totals[step][1].integer, make_data(step).rows);
                int64_t valid = make_data(step).rows, first = p * BATCH / N_PROCESSES, end = first + BATCH / N_PROCESSES;
                for (int64_t r = first; r < end && r < valid; r++) assert_true(left->predictions[step][r] == one.predictions[step][r]);
            }
            assert_int_equal(left->n_bad, 2);
            assert_true(left->answers.least == 0 && left->answers.most == BATCH / 2 && left->answers.sum == BATCH / 2);
        }
    }
}

/* Parameter servers have all totals and weights too, and no rows. */
static void servers_and_workers_train_what_one_trains(void **state) {
    (void)state;
    static outcome one;
    static process processes[MOST_PROCESSES];
    train_alone(&one);
    for (int n_servers = 1; n_servers <= 2; n_servers++)
        for (int n_workers = 1; n_workers <= REPLICAS; n_workers *= 2) {
            dt_process_roles roles = {.n_processes = n_servers + n_workers, .n_servers = n_servers};
            run_roles(processes, roles, n_workers == 1 ? "cpu:1x2" : "cpu:1x1", 60, train_process);
            for (int p = 0; p < roles.n_processes; p++) {
                const outcome *left = &processes[p].left;
                assert_memory_equal(left->weights, one.weights, sizeof one.weights);
                for (int step = 0; step < STEPS; step++) assert_memory_equal(&left->totals[step][0].number, &one.totals[step][0].number, 8);
                assert_int_equal(left->n_bad, 2);
            }
        }
}

/* The second process is alive, and makes no step any more. */
static void stand_still(process *self, dt_session *session) {
    data d = make_data(0);
    expect_ok(run(session, 0, &d, NULL));
    if (dt_processes_number(self->processes) == 0) {
        expect_error(run(session, 1, &d, NULL), DT_ABORTED, "is alive and has not got on for 1 s; process 0 waits for it at train step 2");
        return;
    }
    for (dt_status *status = NULL; status == NULL;) {
        usleep(10 * 1000);
        status = dt_processes_status(self->processes);
        if (status != NULL) expect_error(status, DT_ABORTED, "process 1 (");
    }
}

static void who_stands_still_is_named(void **state) {
    (void)state;
    static process processes[N_PROCESSES];
    run_processes(processes, "cpu:1x1", 1, stand_still);
}

/* What goes wrong in one process is what the other one's error says. */
static void fail_in_one(process *self, dt_session *session) {
    data d = make_data(0);
    if (dt_processes_number(self->processes) == 1)
        dt_processes_abort(self->processes, "process 1: its disk is full");
    else
        expect_error(run(session, 0, &d, NULL), DT_ABORTED, "process 1: its disk is full");
}

static void who_fails_takes_the_others_along(void **state) {
    (void)state;
    static process processes[N_PROCESSES];
    run_processes(processes, "cpu:1x1", 60, fail_in_one);
}

/* Both run a step, but not the same one: nobody takes the result for one. */
static void end_other_steps(process *self, dt_session *session) {
    data d = make_data(0);
    expect_ok(run(session, 0, &d, NULL));
    dt_status *status = run(session, 1 + dt_processes_number(self->processes), &d, NULL);
    assert_non_null(status);
    if (dt_processes_number(self->processes) == 0)
        expect_error(status, DT_ABORTED, "has ended train step 3, and this process step 2: all processes run the same steps");
    else
        dt_status_free(status);
}

static void all_end_the_same_step(void **state) {
    (void)state;
    static process processes[N_PROCESSES];
    run_processes(processes, "cpu:1x1", 60, end_other_steps);
}

/* One line, of which one process has all: which one that is the turn decides. */
static void who_owns_all_there_is_shares_it_out(void **state) {
    thread_processes all;
    dt_arena *arena = dt_arena_create();
    (void)state;
    thread_processes_open(&all, N_PROCESSES, 10);
    for (int turn = 0; turn < 2; turn++) {
        dt_artifact_variable slot = {.kind = DT_VARIABLE_SLOT,
                                     .tensor = {.dtype = DT_F32, .row_bytes = 4 * DT_SHARE_LINE},
                                     .bytes = 4 * DT_SHARE_LINE,
                                     .share = {DT_SHARE_LINE, turn},
                                     .row_init = -1};
        const dt_artifact of = {.n_shards = 1, .n_variables = 1, .variables = &slot};
        dt_session_options options = options_of("cpu", all.all[0]);
        const dt_ranges_layout layout = {.artifact = &of, .options = &options};
        assert_false(dt_ranges_are_shared_out(&layout, 0));
        options.shard_optimizer = true;
        for (int p = 0; p < N_PROCESSES; p++) {
            dt_strided_ranges given = {0};
            dt_ranges_give(&layout, 0, p, arena, &given);
            assert_int_equal(given.n, p == 1 - turn);
            if (given.n > 0) assert_true(given.items[0].first == 0 && given.items[0].n_bytes == slot.bytes && given.items[0].times == 1);
        }
        assert_true(dt_ranges_are_shared_out(&layout, 0));
    }
    thread_processes_close(&all);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_train_what_one_trains),
        cmocka_unit_test(servers_and_workers_train_what_one_trains),
        cmocka_unit_test(who_stands_still_is_named),
        cmocka_unit_test(who_fails_takes_the_others_along),
        cmocka_unit_test(all_end_the_same_step),
        cmocka_unit_test(who_owns_all_there_is_shares_it_out),
    };
    return cmocka_run_group_tests(tests, open_artifact, close_artifact);
}
