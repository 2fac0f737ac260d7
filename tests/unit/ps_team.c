/* ps_team: one member of a team, whose others are sockets of this test that say what it lets them say: too early, too late, or nonsense. What one of
 * them does wrong is its own affair; the others go on. */
#include "runtime/ps/team.h"

#include "base/memory.h"
#include "tests/support/ps_peers.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* ---- the member that is tested, in a thread of its own ---- */

typedef struct member {
    dt_ps_team_options options;
    pthread_t thread;
    atomic_int stop, n_started, n_ended; /* signal; plans that have started, and that somebody has ended */
    atomic_bool leaves;                  /* the plan that runs, as if somebody had failed, */
    atomic_bool has_ended;
    atomic_bool ends; /* or as if all were done */
    _Atomic(const char *) address;
    const char *reason; /* why it closes the team; NULL: all is well */
    dt_status *status;
    bool over;
} member;

static dt_status *run_plan(member *self, dt_ps_team *team) {
    dt_transport *transport;
    dt_status *status = dt_ps_team_open_transport(team, &transport);
    atomic_fetch_add(&self->n_started, 1);
    while (status == NULL && !atomic_exchange(&self->leaves, false)) {
        status = dt_transport_progress(transport);
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    atomic_fetch_add(&self->n_ended, 1);
    return status;
}

static void *run(void *argument) {
    member *self = argument;
    dt_ps_team *team = NULL;
    bool resumes = false;
    self->status = dt_ps_team_open(&self->options, &team);
    if (self->status == NULL && self->options.part >= 0) atomic_store(&self->address, dt_ps_team_address(team));
    while (self->status == NULL) {
        self->status = dt_ps_team_form(team, &resumes, &self->over);
        if (self->status != NULL || self->over) break;
        dt_status_free(run_plan(self, team));
        if (atomic_load(&self->ends)) break;
    }
    dt_ps_team_close(team, self->reason);
    atomic_store(&self->has_ended, true);
    return NULL;
}

static void start(member *self, dt_ps_team_options options) {
    *self = (member){.options = options};
    self->options.artifact = ps_artifact;
    self->options.stop = &self->stop;
    self->options.regroups = true;
    if (options.deadline_seconds == 0) self->options.deadline_seconds = PATIENCE_SECONDS;
    if (options.n_workers == 0) self->options.n_workers = self->options.most_workers = 1;
    if (options.part >= 0) self->options.listen = "127.0.0.1:*";
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static const char *address_of(member *self) {
    while (atomic_load(&self->address) == NULL) nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    return atomic_load(&self->address);
}

static void wait_until(const atomic_int *number, int wanted) {
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; atomic_load(number) < wanted;) {
        if (dt_seconds_now() > end) fail_msg("it stays at %d, not %d", atomic_load(number), wanted);
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
}

/* It ends because a signal asks it to, and nothing else is wrong. */
static void end(member *self) {
    atomic_store(&self->stop, SIGTERM);
    pthread_join(self->thread, NULL);
    expect_ok(self->status);
}

static void expect_failure(member *self, dt_code code, const char *words) {
    pthread_join(self->thread, NULL);
    expect_error(self->status, code, words);
}

/* ---- opening ---- */

static void memory_that_is_out_is_an_error(void **state) {
    (void)state;
    static const char *const servers[] = {"127.0.0.1:1", "127.0.0.1:2"};
    atomic_int stop = SIGTERM; /* server 0 is not there, and not waited for */
    dt_ps_team_options options = {
        .part = 1, .n_servers = 2, .servers = servers, .listen = "127.0.0.1:*", .artifact = ps_artifact, .settings = "--seed=1", .stop = &stop};
    dt_ps_team *team = NULL;
    int n_failed = 0;
    for (dt_status *status = NULL; team == NULL; n_failed += status != NULL) {
        dt_memory_fail_after(n_failed);
        status = dt_ps_team_open(&options, &team);
        dt_memory_fail_after(-1);
        if (team == NULL) expect_error(status, DT_RESOURCE_EXHAUSTED, "");
    }
    assert_true(n_failed > 3);
    dt_ps_team_close(team, NULL);
}

/* ---- server 0 ---- */

/* The number of a plan that it makes for the only worker, which is ready. */
static uint64_t take_plan(dt_ps_socket *worker) {
    uint64_t number = expect_message(worker, DT_PS_PLAN).message.plan.number;
    ready(worker, number);
    return number;
}

static void servers_that_are_there_or_not_of_the_run_are_refused(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 2, .settle_seconds = 0.3});
    const char *address = address_of(&self);
    dt_ps_socket *one = open_socket("one", DT_PS_SERVER, 1, &address, 1), *twin = NULL, *beyond = NULL;
    expect_peer(one);
    twin = open_socket("twin", DT_PS_SERVER, 1, &address, 1);
    assert_true(expect(twin, DT_PS_GONE, DT_PS_PING, "there is a server 1 already: server 1, one").is_final);
    beyond = open_socket("beyond", DT_PS_SERVER, 2, &address, 1);
    assert_true(expect(beyond, DT_PS_GONE, DT_PS_PING, "this is server 0 of 2: server 2 does not connect to it").is_final);
    dt_ps_socket_close(one, 0);
    dt_ps_socket_close(twin, 0);
    dt_ps_socket_close(beyond, 0);
    end(&self);
}

/* Server 1 has died, which server 0 hears of after it has heard of the one in its place. */
static void a_server_in_the_place_of_a_dead_one_has_its_part(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 2});
    const char *address = address_of(&self);
    dt_ps_socket *dead = open_socket("dead", DT_PS_SERVER, 1, &address, 1), *next = NULL, *worker = worker_of("worker", address);
    expect_peer(dead), expect_peer(worker);
    offer(dead, 1, 0);
    next = open_socket("next", DT_PS_SERVER, 1, &address, 1);
    expect_peer(next);
    offer(next, 2, 0);
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL); /* for that to be heard first */
    dt_ps_socket_close(dead, 0);
    offer(worker, 3, 0);
    while (atomic_load(&self.n_started) == 0) { /* there may have been one with the dead one */
        dt_ps_event event;
        expect_ok(dt_ps_receive(next, 0.01, &event));
        if (event.kind == DT_PS_MESSAGE && event.message.kind == DT_PS_PLAN) ready(next, event.message.plan.number);
        expect_ok(dt_ps_receive(worker, 0.01, &event));
        if (event.kind == DT_PS_MESSAGE && event.message.kind == DT_PS_PLAN) ready(worker, event.message.plan.number);
    }
    dt_ps_socket_close(next, 0);
    dt_ps_socket_close(worker, 0);
    wait_until(&self.n_ended, 1);
    end(&self);
}

static void a_worker_that_is_not_ready_keeps_nobody_from_going_on(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 2, .most_workers = 2, .settle_seconds = 0.3});
    dt_ps_socket *quick = worker_of("quick", address_of(&self)), *slow = worker_of("slow", address_of(&self));
    expect_peer(quick), expect_peer(slow);
    offer(quick, 1, 0), offer(slow, 2, 0);
    uint64_t first = expect_message(slow, DT_PS_PLAN).message.plan.number;
    assert_int_equal(take_plan(quick), first);
    dt_ps_plan plan = expect_message(quick, DT_PS_PLAN).message.plan;
    assert_int_equal(plan.n_workers, 1);
    assert_int_equal(plan.workers[0], 1);
    ready(quick, plan.number);
    wait_until(&self.n_started, 1);
    ready(slow, first); /* now it has found all */
    wait_until(&self.stop, DT_PS_REGROUP);
    dt_ps_socket_close(quick, 0);
    dt_ps_socket_close(slow, 0);
    wait_until(&self.n_ended, 1);
    end(&self);
}

/* Also where the deadline is shorter than others are waited for usually. */
static void workers_that_are_never_ready_make_nobody_miss_anybody(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 2, .most_workers = 2, .deadline_seconds = 1});
    dt_ps_socket *quick = worker_of("quick", address_of(&self)), *slow = worker_of("slow", address_of(&self));
    expect_peer(quick), expect_peer(slow);
    offer(quick, 1, 0), offer(slow, 2, 0);
    take_plan(quick);
    assert_int_equal(expect_message(slow, DT_PS_PLAN).message.plan.n_workers, 2);
    dt_ps_plan plan = expect_message(quick, DT_PS_PLAN).message.plan;
    assert_int_equal(plan.n_workers, 1);
    ready(quick, plan.number);
    wait_until(&self.n_started, 1);
    dt_ps_socket_close(quick, 0);
    dt_ps_socket_close(slow, 0);
    wait_until(&self.n_ended, 1);
    end(&self);
}

static void a_worker_that_was_lost_learns_that_all_is_over(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 2, .most_workers = 2});
    dt_ps_socket *stays = worker_of("stays", address_of(&self)), *lost = worker_of("lost", address_of(&self));
    expect_peer(stays), expect_peer(lost);
    offer(stays, 1, 0), offer(lost, 2, 0);
    uint64_t plan = take_plan(stays);
    take_plan(lost);
    wait_until(&self.n_started, 1);
    dt_ps_socket_close(lost, 0);
    wait_until(&self.n_ended, 1);
    offer(stays, 1, plan);
    take_plan(stays);
    wait_until(&self.n_started, 2);
    atomic_store(&self.ends, true);
    atomic_store(&self.leaves, true);
    expect_message(stays, DT_PS_OVER);
    lost = worker_of("lost", address_of(&self));
    assert_string_equal(expect_message(lost, DT_PS_OVER).message.over.reason, "");
    pthread_join(self.thread, NULL);
    expect_ok(self.status);
    dt_ps_socket_close(stays, 0);
    dt_ps_socket_close(lost, 0);
}

static void a_signal_stands_where_somebody_new_comes(void **state) {
    (void)state;
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 1, .most_workers = 2});
    dt_ps_socket *worker = worker_of("one", address_of(&self)), *other = NULL;
    expect_peer(worker);
    offer(worker, 1, 0);
    take_plan(worker);
    wait_until(&self.n_started, 1);
    atomic_store(&self.stop, SIGTERM);
    other = worker_of("other", address_of(&self));
    expect_peer(other);
    offer(other, 2, 0);
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL); /* for it to be heard */
    assert_int_equal(atomic_load(&self.stop), SIGTERM);
    atomic_store(&self.leaves, true);
    end(&self);
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(other, 0);
}

static char notes[1024]; /* by the member's thread, read when that has ended */

static void keep_note(const char *text) { snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", text); }

/* Two workers leave a plan, of which server 0 makes another one, or which is the last, as it has found what one of them has found. */
static void expect_notes(const char *reason, const char *wanted) {
    member self;
    notes[0] = 0;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 2, .most_workers = 2, .note = keep_note});
    dt_ps_socket *workers[] = {worker_of("one", address_of(&self)), worker_of("two", address_of(&self))};
    for (uint64_t w = 0; w < 2; w++) expect_peer(workers[w]), offer(workers[w], w + 1, 0);
    for (int w = 0; w < 2; w++) take_plan(workers[w]);
    wait_until(&self.n_started, 1);
    say(workers[0], 0, (dt_ps_message){.kind = DT_PS_FAILED, .failed.reason = "x holds NaN"});
    say(workers[1], 0, (dt_ps_message){.kind = DT_PS_FAILED, .failed.reason = "its disk is full"});
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL); /* for that to be heard */
    self.reason = reason;
    atomic_store(&self.ends, reason != NULL);
    atomic_store(&self.leaves, true);
    wait_until(&self.n_ended, 1);
    if (reason == NULL) atomic_store(&self.stop, SIGTERM);
    pthread_join(self.thread, NULL);
    expect_ok(self.status);
    char *one = strstr(notes, "worker one (127.0.0.1): x holds NaN\n"), *two = strstr(notes, "worker two (127.0.0.1): its disk is full\n");
    assert_true((one != NULL) == (strstr(wanted, "one") != NULL) && (two != NULL) == (strstr(wanted, "two") != NULL));
    for (int w = 0; w < 2; w++) dt_ps_socket_close(workers[w], 0);
}

static void what_all_have_found_is_said_once(void **state) {
    (void)state;
    expect_notes("x holds NaN", "two");
    expect_notes("its disk is full", "one");
    expect_notes(NULL, "one, two");
}

/* What process 2 of a plan says, and what it hears of it. */
static void expect_refusal(dt_ps_message (*nonsense)(uint64_t plan), const char *words) {
    member self;
    start(&self, (dt_ps_team_options){.part = 0, .n_servers = 1, .n_workers = 2, .most_workers = 2, .settle_seconds = 0.3});
    dt_ps_socket *sound = worker_of("sound", address_of(&self)), *odd = NULL;
    expect_peer(sound);
    offer(sound, 1, 0);
    odd = worker_of("odd", address_of(&self));
    expect_peer(odd);
    offer(odd, 2, 0);
    uint64_t plan = take_plan(sound);
    take_plan(odd);
    wait_until(&self.n_started, 1);
    say(odd, 0, nonsense(plan));
    expect(odd, DT_PS_GONE, DT_PS_PING, words);
    wait_until(&self.n_ended, 1);
    offer(sound, 1, plan);
    take_plan(sound);
    wait_until(&self.n_started, 2);
    dt_ps_socket_close(odd, 0);
    dt_ps_socket_close(sound, 0);
    wait_until(&self.n_ended, 2);
    end(&self);
}

static dt_ps_message long_notice(uint64_t plan) {
    static const char bytes[DT_NOTICE_BYTES + 1];
    return (dt_ps_message){.kind = DT_PS_NOTICE, .notice = {.plan = plan, .source = 2}, .payload = {.data = bytes, .bytes = sizeof bytes}};
}

static dt_ps_message data_of_nobody(uint64_t plan) { return (dt_ps_message){.kind = DT_PS_DATA, .data = {.plan = plan, .source = 7}}; }
static dt_ps_message own_plan(uint64_t plan) { return (dt_ps_message){.kind = DT_PS_PLAN, .plan = {.number = plan + 1, .n_servers = 1}}; }

static dt_ps_message data_too_early(uint64_t plan) {
    static const char bytes[DT_EARLY_BYTES + 1];
    return (dt_ps_message){.kind = DT_PS_DATA, .data = {.plan = plan, .source = 2, .tag = 5}, .payload = {.data = bytes, .bytes = sizeof bytes}};
}

static void who_talks_nonsense_is_refused_and_the_others_go_on(void **state) {
    (void)state;
    expect_refusal(long_notice, "sent a notice of 1025 bytes");
    expect_refusal(data_of_nobody, "a message from process 7 to 0 of 3");
    expect_refusal(data_too_early, "process 2 sends 1048577 bytes that nobody waits for");
    expect_refusal(own_plan, "a plan, which server 0 alone makes");
}

/* ---- other servers, and workers ---- */

/* Server 1 hears that a worker has left a plan before it hears that the plan has started: the offer is one for the next. */
static void an_offer_that_overtakes_the_start_stands(void **state) {
    (void)state;
    member self;
    dt_ps_socket *zero = server_0();
    const char *addresses[] = {dt_ps_socket_address(zero), "127.0.0.1:1"};
    start(&self, (dt_ps_team_options){.part = 1, .n_servers = 2, .servers = addresses});
    uint32_t one = expect_peer(zero);
    say_job(zero, one, "job");
    expect_message(zero, DT_PS_OFFER);
    dt_ps_socket *worker = worker_of("worker", address_of(&self));
    expect_peer(worker);
    offer(worker, 7, 0);
    dt_ps_message plan = {.kind = DT_PS_PLAN, .plan = {.number = 100, .process = 1, .n_servers = 2, .n_workers = 1, .workers = {7}}};
    say(zero, one, plan);
    expect_message(zero, DT_PS_READY);
    offer(worker, 7, 100);
    nanosleep(&(struct timespec){.tv_nsec = 500 * 1000 * 1000}, NULL); /* for that to be heard first */
    say(zero, one, (dt_ps_message){.kind = DT_PS_START, .start = {.plan = 100}});
    wait_until(&self.n_started, 1);
    atomic_store(&self.leaves, true);
    assert_int_equal(expect_message(zero, DT_PS_OFFER).message.offer.left, 100);
    plan.plan.number = 101;
    say(zero, one, plan);
    assert_int_equal(expect_message(zero, DT_PS_READY).message.ready.plan, 101);
    say(zero, one, (dt_ps_message){.kind = DT_PS_OVER});
    pthread_join(self.thread, NULL);
    expect_ok(self.status);
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(zero, 0);
}

static void who_names_other_servers_than_there_are_is_told(void **state) {
    (void)state;
    member self;
    dt_ps_socket *zero = server_0();
    const char *address = dt_ps_socket_address(zero);
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &address});
    uint32_t peer = expect_peer(zero);
    say(zero, peer, (dt_ps_message){.kind = DT_PS_PLAN, .plan = {.number = 1, .process = 2, .n_servers = 2, .n_workers = 1, .workers = {1}}});
    expect_failure(&self, DT_FAILED_PRECONDITION, "--servers names 1 servers, and the run has 2");
    dt_ps_socket_close(zero, 0);

    dt_ps_socket *listens = open_socket("server", DT_PS_SERVER, 1, NULL, 0);
    address = dt_ps_socket_address(listens);
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &address});
    expect_peer(listens);
    expect_failure(&self, DT_FAILED_PRECONDITION, "is where --servers has server 0: name them in the order of their parts");
    dt_ps_socket_close(listens, 0);
}

static void a_plan_that_has_no_place_for_its_reader_is_refused(void **state) {
    (void)state;
    member self;
    dt_ps_socket *zero = server_0();
    const char *address = dt_ps_socket_address(zero);
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &address});
    uint32_t peer = expect_peer(zero);
    say(zero, peer, (dt_ps_message){.kind = DT_PS_PLAN, .plan = {.number = 1, .process = 1u << 31, .n_servers = 1, .n_workers = 1, .workers = {1}}});
    expect(zero, DT_PS_GONE, DT_PS_PING, "a plan in which this process is number 2147483648 of 2");
    expect_peer(zero); /* it comes again */
    end(&self);
    dt_ps_socket_close(zero, 0);
}

/* Who connects to servers of two jobs takes part in neither, and says so; where server 0 was started again, all have its new job soon. */
static void servers_of_two_jobs_are_told_apart(void **state) {
    (void)state;
    member self;
    dt_ps_socket *zero = server_0(), *one = open_socket("one", DT_PS_SERVER, 1, NULL, 0);
    const char *addresses[] = {dt_ps_socket_address(zero), dt_ps_socket_address(one)};
    dt_ps_team_options options = {.part = -1, .n_servers = 2, .servers = addresses, .settle_seconds = 0.3};
    start(&self, options);
    say_job(zero, expect_peer(zero), "a");
    say_job(one, expect_peer(one), "b");
    for (dt_ps_event event; !atomic_load(&self.has_ended);) {
        expect_ok(dt_ps_receive(zero, 0.01, &event));
        assert_true(event.kind != DT_PS_MESSAGE || event.message.kind == DT_PS_PING);
        expect_ok(dt_ps_receive(one, 0.01, &event));
        assert_true(event.kind != DT_PS_MESSAGE);
    }
    expect_failure(&self, DT_FAILED_PRECONDITION, " is of job b, and this process of job a with server 0, server (127.0.0.1): is the address right?");

    options.settle_seconds = PATIENCE_SECONDS;
    start(&self, options);
    uint32_t of_zero = expect_peer(zero), of_one = expect_peer(one);
    say_job(zero, of_zero, "c"), say_job(one, of_one, "a");
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL); /* for that to be heard */
    say_job(one, of_one, "c");
    expect_message(zero, DT_PS_OFFER), expect_message(one, DT_PS_OFFER);
    end(&self);

    options.job = "d"; /* who knows its own need not wait */
    start(&self, options);
    say_job(zero, expect_peer(zero), "c");
    expect_failure(&self, DT_FAILED_PRECONDITION, " is of job c, and this process of job d: is the address right?");
    dt_ps_socket_close(zero, 0);
    dt_ps_socket_close(one, 0);
}

/* A server that was started again in a wrong way, as with other settings, which another one refuses. */
static void who_was_at_work_waits_for_servers_of_one_job(void **state) {
    (void)state;
    member self;
    dt_ps_socket *zero = server_0(), *one = open_socket("one", DT_PS_SERVER, 1, NULL, 0);
    const char *addresses[] = {dt_ps_socket_address(zero), dt_ps_socket_address(one)};
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 2, .servers = addresses, .settle_seconds = 0.2, .deadline_seconds = 2, .job = "a"});
    uint32_t of_zero = expect_peer(zero), of_one = expect_peer(one);
    say_job(zero, of_zero, "a"), say_job(one, of_one, "a");
    uint64_t id = expect_message(zero, DT_PS_OFFER).message.offer.id;
    say(zero, of_zero, (dt_ps_message){.kind = DT_PS_PLAN, .plan = {.number = 5, .process = 2, .n_servers = 2, .n_workers = 1, .workers = {id}}});
    expect_message(zero, DT_PS_READY);
    say(zero, of_zero, (dt_ps_message){.kind = DT_PS_START, .start = {.plan = 5}});
    wait_until(&self.n_started, 1);
    atomic_store(&self.leaves, true);
    say_job(zero, of_zero, "b");
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    assert_false(atomic_load(&self.has_ended));
    say_job(zero, of_zero, "a");
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    double began = dt_seconds_now();
    say_job(zero, of_zero, "b");
    expect_failure(&self, DT_FAILED_PRECONDITION, " is of job b, and this process of job a: is the address right?");
    assert_true(dt_seconds_now() - began > 1.5);
    dt_ps_socket_close(zero, 0);
    dt_ps_socket_close(one, 0);
}

static void a_signal_ends_waiting(void **state) {
    (void)state;
    member self;
    const char *nobody = "127.0.0.1:1";
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &nobody});
    double began = dt_seconds_now();
    end(&self);
    assert_true(dt_seconds_now() - began < PATIENCE_SECONDS / 2);

    dt_ps_socket *zero = server_0();
    const char *address = dt_ps_socket_address(zero);
    start(&self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &address});
    say_job(zero, expect_peer(zero), "job");
    expect_message(zero, DT_PS_OFFER);
    end(&self);
    assert_true(self.over);
    dt_ps_socket_close(zero, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_out_is_an_error),
        cmocka_unit_test(servers_that_are_there_or_not_of_the_run_are_refused),
        cmocka_unit_test(a_server_in_the_place_of_a_dead_one_has_its_part),
        cmocka_unit_test(a_worker_that_is_not_ready_keeps_nobody_from_going_on),
        cmocka_unit_test(workers_that_are_never_ready_make_nobody_miss_anybody),
        cmocka_unit_test(a_worker_that_was_lost_learns_that_all_is_over),
        cmocka_unit_test(a_signal_stands_where_somebody_new_comes),
        cmocka_unit_test(what_all_have_found_is_said_once),
        cmocka_unit_test(who_talks_nonsense_is_refused_and_the_others_go_on),
        cmocka_unit_test(an_offer_that_overtakes_the_start_stands),
        cmocka_unit_test(who_names_other_servers_than_there_are_is_told),
        cmocka_unit_test(a_plan_that_has_no_place_for_its_reader_is_refused),
        cmocka_unit_test(servers_of_two_jobs_are_told_apart),
        cmocka_unit_test(who_was_at_work_waits_for_servers_of_one_job),
        cmocka_unit_test(a_signal_ends_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
