/* processes: what each says reaches all; and when one is silent, stands still or fails, all end with one sentence that names it, never one that waits
 * for it, and never one that is merely slow. The processes are threads of this one.
 *
 * Each test waits most of its time: they run at once, each in a process of its own. */
#include "base/memory.h"
#include "runtime/threads/clock.h"
#include "tests/support/expect.h"
#include "tests/support/thread_processes.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const double DEADLINE = 2;

/* ---- processes that each run a function ---- */

typedef struct process {
    dt_processes *processes;
    int number;
    const void *about; /* what the test gives all of them */
} process;

static thread_processes everybody;

/* `lost`: nothing comes from this process from the beginning on, and nothing gets there; -1: all are there. */
static void run_all_but(int lost, int n, double deadline, void *(*body)(void *), const void *about) {
    process all[MOST_THREAD_PROCESSES];
    pthread_t threads[MOST_THREAD_PROCESSES];
    thread_processes_open(&everybody, n, deadline);
    for (int p = 0; p < n; p++) expect_ok(everybody.statuses[p]);
    if (lost >= 0) thread_network_cut(everybody.network, lost);
    for (int p = 0; p < n; p++) {
        all[p] = (process){everybody.all[p], p, about};
        pthread_create(&threads[p], NULL, body, &all[p]);
    }
    for (int p = 0; p < n; p++) pthread_join(threads[p], NULL);
    thread_processes_close(&everybody);
}

static void run_all(int n, double deadline, void *(*body)(void *), const void *about) { run_all_but(-1, n, deadline, body, about); }

static void rest(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

static dt_status *meet(dt_processes *processes) {
    char records[MOST_THREAD_PROCESSES] = {0};
    return dt_processes_allgather(processes, records, 1, &(dt_step_context){.step = "train", .number = 6, .segment = 1});
}

/* ---- memory ---- */

static atomic_int n_released;

static void release(void *memory, size_t bytes) {
    assert_int_equal(bytes, 100);
    free(memory);
    atomic_fetch_add(&n_released, 1);
}

static void *fail_and_release(void *argument) {
    process *self = argument;
    dt_processes_release(self->processes, release, malloc(100), 100);
    expect_ok(meet(self->processes));
    int n_before = atomic_load(&n_released);
    assert_int_equal(n_before, 2);
    expect_ok(meet(self->processes));
    dt_processes_abort(self->processes, "enough");
    dt_processes_release(self->processes, release, malloc(100), 100);
    dt_processes_release(self->processes, release, malloc(100), 100);
    assert_int_equal(atomic_load(&n_released), n_before);
    dt_processes_settle(self->processes);
    return NULL;
}

/* What is under way then may still be written to it. */
static void after_a_failure_memory_goes_with_the_processes(void **state) {
    (void)state;
    run_all(2, DEADLINE, fail_and_release, NULL);
    assert_int_equal(atomic_load(&n_released), 6);
    dt_processes_release(NULL, release, malloc(100), 100);
    assert_int_equal(atomic_load(&n_released), 7);
}

/* ---- what is gathered ---- */

static unsigned char part(int process, int time, size_t i) { return (unsigned char)(process * 31 + time * 7 + (int)i * 3 + 1); }

static void *gather_records(void *argument) {
    process *self = argument;
    size_t bytes = *(const size_t *)self->about;
    int n = everybody.n;
    unsigned char *records = calloc((size_t)n, bytes);
    for (int time = 0; time < 3; time++) {
        memset(records, 0, (size_t)n * bytes);
        for (size_t i = 0; i < bytes; i++) records[(size_t)self->number * bytes + i] = part(self->number, time, i);
        expect_ok(dt_processes_allgather(self->processes, records, bytes, &(dt_step_context){.step = "test"}));
        for (int p = 0; p < n; p++)
            for (size_t i = 0; i < bytes; i++) assert_int_equal(records[(size_t)p * bytes + i], part(p, time, i));
    }
    free(records);
    return NULL;
}

static void a_record_of_each_reaches_all(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 8, DT_RECORD_BYTES};
    for (int n = 1; n <= 9; n++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) run_all(n, 60, gather_records, &sizes[s]);
}

static size_t bytes_of(int process) { return process % 3 == 1 ? 0 : (size_t)process * 10000 + 5; }

static void *gatherv(void *argument) {
    process *self = argument;
    dt_text all = {0};
    size_t n = bytes_of(self->number), at = 1;
    unsigned char *mine = malloc(n + 1);
    for (size_t i = 0; i < n; i++) mine[i] = part(self->number, 0, i);
    dt_text_append(&all, "<");
    expect_ok(dt_processes_gatherv(self->processes, mine, n, &(dt_step_context){.step = "parts"}, &all));
    for (int p = 0; p < everybody.n && self->number == 0; p++)
        for (size_t i = 0; i < bytes_of(p); i++) assert_int_equal((unsigned char)all.data[at++], part(p, 0, i));
    assert_int_equal(all.n, at);
    dt_text_free(&all);
    free(mine);
    return NULL;
}

static void bytes_of_each_reach_process_0_in_order(void **state) {
    (void)state;
    for (int n = 2; n <= 6; n++) run_all(n, 60, gatherv, NULL);
}

/* ---- who is waited for ---- */

enum {
    CULPRIT = 2
};

static void *be_cut_off(void *argument) {
    process *self = argument;
    dt_status *status = meet(self->processes);
    assert_non_null(status);
    if (self->number == CULPRIT)
        dt_status_free(status);
    else
        expect_error(status, DT_ABORTED, "has given no sign of life for 2");
    if (self->number != CULPRIT) {
        status = dt_processes_status(self->processes);
        assert_memory_equal(dt_status_message(status), "process 2 (", strlen("process 2 ("));
        assert_non_null(strstr(dt_status_message(status), "waits for it at train step 7, segment 1, records"));
        dt_status_free(status);
    }
    return NULL;
}

static void who_is_silent_is_named(void **state) {
    (void)state;
    double began = dt_seconds_now();
    run_all_but(CULPRIT, 4, DEADLINE, be_cut_off, NULL);
    assert_true(dt_seconds_now() - began < DEADLINE + 5);
}

/* Waits for a message of the next process, then sends one to the process before; the last one only sends. */
static dt_exchange *link_of_chain(const process *self, dt_arena *arena) {
    static const dt_schedule_slot slot = {0, DT_SCHEDULE_UNIT};
    dt_schedule_round *rounds = DT_NEW_ARRAY(arena, dt_schedule_round, 2);
    dt_schedule_message *messages = DT_NEW_ARRAY(arena, dt_schedule_message, 2);
    dt_schedule schedule = {.n_slots = 1, .slots = &slot, .rounds = rounds};
    bool is_last = self->number == everybody.n - 1;
    if (!is_last) {
        messages[0] = (dt_schedule_message){self->number + 1, false, 0, 0, DT_SCHEDULE_UNIT};
        rounds[schedule.n_rounds++] = (dt_schedule_round){.n_messages = 1, .messages = &messages[0]};
    }
    if (self->number > 0) {
        messages[1] = (dt_schedule_message){self->number - 1, true, 0, 0, DT_SCHEDULE_UNIT};
        rounds[schedule.n_rounds++] = (dt_schedule_round){.n_messages = 1, .messages = &messages[1]};
    }
    dt_exchange *made = dt_exchange_create(&schedule, 0, NULL, "gradients of a chain", dt_processes_new_tag(self->processes), arena);
    dt_exchange_place(made, dt_arena_new(arena, (size_t)dt_exchange_bytes(made)));
    dt_exchange_lower(made, arena);
    return made;
}

static dt_status *pass_along(const process *self, dt_arena *arena) {
    dt_exchange *exchange = link_of_chain(self, arena);
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_EXCHANGING);
    dt_processes_begin(self->processes, exchange, &(dt_step_context){.step = "train", .number = 6, .segment = 1});
    return dt_processes_wait(self->processes, exchange, 1);
}

static void wait_for_the_end(const process *self) {
    dt_status *status = NULL;
    while (status == NULL) {
        rest(0.01);
        status = dt_processes_status(self->processes);
    }
    expect_error(status, DT_ABORTED, "process 3 (");
}

static void *stand_still_at_the_end(void *argument) {
    process *self = argument;
    dt_arena *arena = dt_arena_create();
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_COMPUTING);
    if (self->number == everybody.n - 1) {
        wait_for_the_end(self);
    } else {
        expect_error(
            pass_along(self, arena), DT_ABORTED,
            "is alive and has not got on for 2 s; process 2 waits for it at train step 7, segment 1, gradients of a chain. It is at: computing");
        wait_for_the_end(self);
    }
    dt_arena_destroy(arena);
    return NULL;
}

static void who_waits_for_somebody_else_is_not_to_blame(void **state) {
    (void)state;
    run_all(4, DEADLINE, stand_still_at_the_end, NULL);
}

static void *get_on_at_the_end(void *argument) {
    process *self = argument;
    dt_arena *arena = dt_arena_create();
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_COMPUTING);
    for (int i = 0; i < 60 && self->number == everybody.n - 1; i++) {
        rest(0.1);
        dt_progress_count(dt_processes_progress(self->processes));
    }
    expect_ok(pass_along(self, arena));
    dt_arena_destroy(arena);
    return NULL;
}

/* Six seconds: longer than it takes to find that processes wait for one another. */
static void whoever_gets_on_has_time(void **state) {
    (void)state;
    run_all(3, DEADLINE, get_on_at_the_end, NULL);
}

/* Each waits for the next one, and the last one for the first. */
static void *wait_in_a_circle(void *argument) {
    process *self = argument;
    dt_arena *arena = dt_arena_create();
    static const dt_schedule_slot slot = {0, DT_SCHEDULE_UNIT};
    dt_schedule_message message = {(self->number + 1) % everybody.n, false, 0, 0, DT_SCHEDULE_UNIT};
    dt_schedule_round round = {.n_messages = 1, .messages = &message};
    dt_schedule schedule = {.n_slots = 1, .slots = &slot, .n_rounds = 1, .rounds = &round};
    dt_exchange *exchange = dt_exchange_create(&schedule, 0, NULL, "a circle", dt_processes_new_tag(self->processes), arena);
    dt_exchange_place(exchange, dt_arena_new(arena, (size_t)dt_exchange_bytes(exchange)));
    dt_exchange_lower(exchange, arena);
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_EXCHANGING);
    dt_processes_begin(self->processes, exchange, &(dt_step_context){.step = "train"});
    expect_error(dt_processes_wait(self->processes, exchange, 1), DT_ABORTED, "processes wait for one another");
    dt_arena_destroy(arena);
    return NULL;
}

static void processes_that_wait_for_one_another_end(void **state) {
    (void)state;
    double began = dt_seconds_now();
    run_all(3, DEADLINE, wait_in_a_circle, NULL);
    assert_true(dt_seconds_now() - began < DEADLINE + 5);
}

/* ---- failing ---- */

static atomic_int n_said;
static char said[700];

static void say(const char *reason) {
    snprintf(said, sizeof said, "%s", reason);
    atomic_fetch_add(&n_said, 1);
}

static void *fail_in_one(void *argument) {
    process *self = argument;
    if (self->number == 1) {
        dt_processes_abort(self->processes, "the disk of process 1 is full");
        dt_processes_abort(self->processes, "and what follows from that");
        expect_error(dt_processes_status(self->processes), DT_ABORTED, "the disk of process 1 is full");
    } else {
        expect_error(meet(self->processes), DT_ABORTED, "the disk of process 1 is full");
        dt_processes_abort(self->processes, "nothing can be met");
    }
    dt_processes_say(self->processes, say);
    return NULL;
}

static void one_says_why_it_failed(void **state) {
    (void)state;
    for (int n = 2; n <= 5; n++) {
        atomic_store(&n_said, 0);
        run_all(n, 60, fail_in_one, NULL);
        assert_int_equal(atomic_load(&n_said), 1);
        assert_string_equal(said, "the disk of process 1 is full");
    }
}

/* Process 0 is gone: then one of the others says it. */
static void *lose_the_first(void *argument) {
    process *self = argument;
    dt_status *status = meet(self->processes);
    assert_non_null(status);
    dt_status_free(status);
    if (self->number > 0) dt_processes_say(self->processes, say);
    return NULL;
}

static void one_says_it_without_process_0(void **state) {
    (void)state;
    atomic_store(&n_said, 0);
    run_all_but(0, 4, DEADLINE, lose_the_first, NULL);
    assert_int_equal(atomic_load(&n_said), 1);
    assert_memory_equal(said, "process 0 (", strlen("process 0 ("));
}

static void *say_what_opening_said(void *argument) {
    process *self = argument;
    if (self->number > 0) dt_processes_say(self->processes, say);
    return NULL;
}

/* Their transport has found it, and it does not say where it is. */
static void one_says_who_is_lost_before_all_have_met(void **state) {
    (void)state;
    process all[3];
    pthread_t threads[3];
    atomic_store(&n_said, 0);
    thread_processes_prepare(&everybody, (dt_process_roles){.n_processes = 3}, DEADLINE);
    thread_network_cut(everybody.network, 0);
    thread_processes_find_one_another(&everybody);
    for (int p = 0; p < 3; p++) {
        expect_error(everybody.statuses[p], DT_ABORTED, "start step");
        assert_non_null(everybody.all[p]);
        all[p] = (process){everybody.all[p], p, NULL};
        pthread_create(&threads[p], NULL, say_what_opening_said, &all[p]);
    }
    for (int p = 0; p < 3; p++) pthread_join(threads[p], NULL);
    thread_processes_close(&everybody);
    assert_int_equal(atomic_load(&n_said), 1);
    assert_memory_equal(said, "process 0 has", strlen("process 0 has"));
}

/* An engine that waits for a machine that nobody reaches. */
static void abort_for_ever(dt_transport *transport, int exit_status) {
    (void)transport, (void)exit_status;
    for (;;) pause();
}

static dt_status *open_stuck(void *context, dt_transport **transport) {
    static dt_transport_kind stuck;
    DT_TRY(thread_transport_open(context, transport));
    stuck = *(*transport)->kind;
    stuck.abort = abort_for_ever;
    (*transport)->kind = &stuck;
    return NULL;
}

static void a_failed_process_ends_whatever_the_engine_does(void **state) {
    (void)state;
    double began = dt_seconds_now();
    pid_t child = fork();
    if (child == 0) {
        thread_network_end alone = {thread_network_create(1), 0};
        dt_processes *processes;
        dt_status_free(dt_processes_open(&(dt_processes_options){.open = open_stuck, .context = &alone, .deadline_seconds = DEADLINE}, &processes));
        dt_processes_abort(processes, "the disk is full");
        dt_processes_close(processes, 42);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 42);
    assert_true(dt_seconds_now() - began < 5);
}

/* ---- ending ---- */

static void *end_late(void *argument) {
    process *self = argument;
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_WRITING);
    for (int i = 0; i < 30 && self->number == 0; i++) {
        rest(0.1);
        dt_progress_count(dt_processes_progress(self->processes));
    }
    double began = dt_seconds_now();
    expect_ok(dt_processes_finish(self->processes));
    assert_true(self->number == 0 || dt_seconds_now() - began > 2);
    return NULL;
}

static void nobody_ends_while_another_is_at_work(void **state) {
    (void)state;
    run_all(3, DEADLINE, end_late, NULL);
}

static void *never_end(void *argument) {
    process *self = argument;
    dt_progress_set(dt_processes_progress(self->processes), DT_ACTIVITY_WRITING);
    if (self->number > 0) expect_error(dt_processes_finish(self->processes), DT_ABORTED, "It is at: writing a checkpoint");
    while (self->number == 0) {
        dt_status *status = dt_processes_status(self->processes);
        if (status != NULL) {
            dt_status_free(status);
            break;
        }
        rest(0.01);
    }
    return NULL;
}

static void who_never_ends_is_named(void **state) {
    (void)state;
    run_all(3, DEADLINE, never_end, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_failure_memory_goes_with_the_processes),
        cmocka_unit_test(a_record_of_each_reaches_all),
        cmocka_unit_test(bytes_of_each_reach_process_0_in_order),
        cmocka_unit_test(who_is_silent_is_named),
        cmocka_unit_test(who_waits_for_somebody_else_is_not_to_blame),
        cmocka_unit_test(whoever_gets_on_has_time),
        cmocka_unit_test(processes_that_wait_for_one_another_end),
        cmocka_unit_test(one_says_why_it_failed),
        cmocka_unit_test(one_says_it_without_process_0),
        cmocka_unit_test(one_says_who_is_lost_before_all_have_met),
        cmocka_unit_test(a_failed_process_ends_whatever_the_engine_does),
        cmocka_unit_test(nobody_ends_while_another_is_at_work),
        cmocka_unit_test(who_never_ends_is_named),
    };
    enum {
        N_TESTS = sizeof tests / sizeof *tests
    };
    int n_failed = 0, result;
    for (size_t i = 0; i < N_TESTS; i++)
        if (fork() == 0) exit(_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL));
    for (size_t i = 0; i < N_TESTS; i++) n_failed += wait(&result) < 0 || result != 0;
    return n_failed;
}
