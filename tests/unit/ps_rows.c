/* ps_rows: rows of tables that a worker of asynchronous servers asks for. Who asks for what a server does not have is refused, and told what was
 * wrong; the server goes on. A worker that gets other rows than it asked for, or is refused, ends with that error. */
#include "base/memory.h"
#include "include/dtc.h"
#include "runtime/ps/leasing.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/ps_peers.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum {
    N_SERVERS = 2,
    N_ROWS = 500, /* of the table, */
    WIDTH = 5     /* and their elements */
};

static dt_artifact *artifact;
static dt_kernels *kernels;
static int table, no_table; /* variables */

static int open_program(void **state) {
    (void)state;
    dtc_program program = {.size = sizeof program, .path = fixture_source("tests/programs/recommend.dt")};
    dtc_bytes bytes;
    expect_ok(dtc_compile(&program, &(dtc_compile_options){.size = sizeof(dtc_compile_options), .cpu = "x86-64-v3"}, &bytes));
    expect_ok(dt_artifact_open_memory("recommend.dtx", bytes.data, bytes.n_bytes, &artifact));
    dtc_free(bytes.data);
    expect_ok(dt_kernels_load(artifact, NULL, &kernels));
    for (int v = 0; v < artifact->by_rows->n_variables; v++) {
        const dt_artifact_variable *variable = &artifact->by_rows->variables[v];
        if (variable->by_rows && variable->tensor.dims[0] == N_ROWS) table = v;
        if (!variable->by_rows) no_table = v;
    }
    assert_true(artifact->by_rows->variables[table].by_rows);
    return 0;
}

static int close_program(void **state) {
    (void)state;
    dt_kernels_free(kernels);
    dt_artifact_close(artifact);
    return 0;
}

/* ---- members, each in a thread of its own ---- */

typedef struct member member;
struct member {
    dt_ps_team_options options;
    dt_status *(*body)(member *self, dt_ps_team *team, dt_processes *processes);
    pthread_t thread;
    atomic_int stop;
    _Atomic(const char *) address;
    dt_status *status, *next; /* of the body; of waiting for another plan */
};

static dt_status *run_plan(member *self, dt_ps_team *team) {
    dt_processes_options options = {.open = dt_ps_team_open_transport,
                                    .context = team,
                                    .deadline_seconds = PATIENCE_SECONDS,
                                    .stop = &self->stop,
                                    .outlives = true,
                                    .lets_go = true};
    dt_processes *processes;
    DT_TRY(dt_processes_open(&options, &processes));
    dt_status *status = self->body(self, team, processes);
    if (status == NULL) status = dt_processes_finish(processes);
    if (status != NULL) dt_processes_abort(processes, dt_status_message(status));
    dt_processes_close(processes, 1);
    return status;
}

static void *run(void *argument) {
    member *self = argument;
    dt_ps_team *team;
    bool resumes = false, over = false;
    expect_ok(dt_ps_team_open(&self->options, &team));
    if (self->options.part >= 0) atomic_store(&self->address, dt_ps_team_address(team));
    if (self->options.part < 0) expect_ok(dt_ps_team_lease(team));
    expect_ok(dt_ps_team_form(team, &resumes, &over));
    assert_false(over);
    self->status = run_plan(self, team);
    if (self->status != NULL) self->next = dt_ps_team_form(team, &resumes, &over);
    dt_ps_team_close(team, NULL);
    return NULL;
}

static void start(member *self, dt_ps_team_options options, dt_status *(*body)(member *, dt_ps_team *, dt_processes *)) {
    *self = (member){.options = options, .body = body};
    self->options.artifact = ps_artifact;
    self->options.stop = &self->stop;
    self->options.deadline_seconds = PATIENCE_SECONDS;
    self->options.n_workers = self->options.most_workers = 1;
    self->options.settle_seconds = 0.3;
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static const char *address_of(member *self) {
    while (atomic_load(&self->address) == NULL) nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    return atomic_load(&self->address);
}

/* ---- servers ---- */

static dt_status *serve(member *self, dt_ps_team *team, dt_processes *processes) {
    dt_session_options options = dt_session_options_default();
    dt_session *session;
    dt_ps_order order;
    bool any = true;
    options.devices = "cpu:1x1";
    options.processes = processes;
    options.by_rows = DT_BY_ROWS_EXACTLY;
    DT_TRY(dt_session_create(kernels, &options, &session));
    dt_status *status = dt_session_initialize(session);
    if (status == NULL) status = dt_ps_leasing_open(team, 0, true, 0, 0, 8, 0);
    while (status == NULL && any) status = dt_ps_leasing_next(team, session, processes, &self->stop, &order, &any);
    dt_session_destroy(session);
    return status;
}

/* A worker that takes part: it is told the number of the plan. */
static dt_ps_socket *join(member *servers, uint64_t *plan) {
    static uint64_t id;
    const char *addresses[] = {address_of(&servers[0]), address_of(&servers[1])};
    dt_ps_socket *worker = open_socket("odd", DT_PS_WORKER, 0, addresses, N_SERVERS);
    id++;
    for (int s = 0; s < N_SERVERS; s++) expect_peer(worker);
    for (uint32_t s = 0; s < N_SERVERS; s++) say(worker, s, (dt_ps_message){.kind = DT_PS_OFFER, .offer = {.id = id}});
    *plan = expect_message(worker, DT_PS_PLAN).message.plan.number;
    ready(worker, *plan);
    expect_message(worker, DT_PS_START);
    return worker;
}

static void want(dt_ps_socket *worker, uint32_t server, uint64_t plan, int variable, const int64_t *rows, int n) {
    dt_ps_message message = {.kind = DT_PS_ROWS_WANTED, .payload = {.data = rows, .bytes = (size_t)n * sizeof *rows}};
    message.rows_wanted = (dt_ps_rows_wanted){.plan = plan, .variable = (uint32_t)variable};
    say(worker, server, message);
}

/* Gives the first row that a server has; and that one alone is the same. */
static void expect_right_rows(member *servers, float first[WIDTH]) {
    uint64_t plan;
    dt_ps_socket *worker = join(servers, &plan);
    for (int s = 0; s < N_SERVERS; s++) {
        float both[2 * WIDTH] = {0}, one[WIDTH] = {0};
        const int64_t rows[] = {s * N_ROWS / N_SERVERS, (s + 1) * N_ROWS / N_SERVERS - 1};
        for (int n = 2; n > 0; n--) {
            want(worker, (uint32_t)s, plan, table, rows + 2 - n, n);
            dt_ps_event event = expect_with_payload(worker, DT_PS_MESSAGE, DT_PS_ROWS, "");
            assert_int_equal(event.peer, s);
            assert_int_equal(event.message.payload.bytes, (size_t)n * sizeof one);
            memcpy(n == 2 ? both : one, event.message.payload.data, event.message.payload.bytes);
            dt_ps_payload_release(&event.message.payload);
        }
        assert_memory_equal(one, both + WIDTH, sizeof one);
        assert_memory_not_equal(both, both + WIDTH, sizeof one);
        if (s == 0) memcpy(first, both, sizeof one);
    }
    dt_ps_socket_close(worker, 0);
}

static void who_asks_for_what_is_not_there_is_refused_and_the_servers_go_on(void **state) {
    (void)state;
    const struct {
        uint32_t server;
        int variable, n;
        int64_t rows[3];
        const char *words;
    } wrong[] = {{0, table, 3, {0, 7, 500}, "row 500 of Taste/users/table is asked for, where this process has rows 0 to 249, in order"},
                 {1, table, 3, {3, 260, 270}, "row 3 of Taste/users/table is asked for, where this process has rows 250 to 499, in order"},
                 {0, table, 1, {-1}, "row -1 of Taste/users/table"},
                 {0, table, 2, {INT64_MAX, 1}, "row 9223372036854775807 of Taste/users/table"},
                 {0, table, 3, {7, 8, 8}, "row 8 of Taste/users/table"},
                 {1, table, 2, {270, 260}, "row 260 of Taste/users/table"},
                 {0, no_table, 1, {0}, "rows of what is no table are asked for"},
                 {1, INT32_MAX, 1, {0}, "rows of what is no table are asked for"}};
    member servers[N_SERVERS];
    dt_ps_team_options options = {.n_servers = N_SERVERS, .listen = "127.0.0.1:*", .is_asynchronous = true, .staleness = -1};
    start(&servers[0], options, serve);
    const char *addresses[] = {address_of(&servers[0]), "127.0.0.1:1"};
    options.part = 1;
    options.servers = addresses;
    start(&servers[1], options, serve);
    float before[WIDTH], after[WIDTH];
    expect_right_rows(servers, before);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t plan;
        dt_ps_socket *worker = join(servers, &plan);
        want(worker, wrong[i].server, plan, wrong[i].variable, wrong[i].rows, wrong[i].n);
        dt_ps_event event = expect(worker, DT_PS_GONE, DT_PS_PING, wrong[i].words);
        assert_true(event.is_final && event.peer == wrong[i].server);
        dt_ps_socket_close(worker, 0);
    }
    expect_right_rows(servers, after);
    assert_memory_equal(before, after, sizeof before);
    atomic_store(&servers[0].stop, SIGTERM);
    for (int s = 0; s < N_SERVERS; s++) {
        pthread_join(servers[s].thread, NULL);
        expect_ok(servers[s].status);
    }
}

/* ---- a worker ---- */

static dt_status *fetch(member *self, dt_ps_team *team, dt_processes *processes) {
    (void)self;
    const int64_t rows[] = {3, 4};
    float values[2 * WIDTH];
    dt_row_request request = {.process = 0, .table = 2, .rows = rows, .n = 2, .values = values, .bytes = sizeof values};
    return dt_ps_leasing_fetch_rows(&(dt_ps_rows_from){team, processes}, &request, 1);
}

/* What server 0 says to one that asks for two rows. */
static void answer(const dt_ps_rows *rows, size_t bytes, member *self) {
    static const char values[3 * WIDTH * sizeof(float)];
    dt_ps_socket *zero = server_0();
    const char *address = dt_ps_socket_address(zero);
    start(self, (dt_ps_team_options){.part = -1, .n_servers = 1, .servers = &address}, fetch);
    say_job(zero, expect_peer(zero), "job");
    dt_ps_event offer = expect_message(zero, DT_PS_OFFER);
    dt_ps_message plan = {.kind = DT_PS_PLAN, .plan = {.number = 100, .process = 1, .n_servers = 1, .n_workers = 1}};
    for (; offer.message.offer.left != 100; offer = expect_message(zero, DT_PS_OFFER)) {
        plan.plan.workers[0] = offer.message.offer.id;
        say(zero, offer.peer, plan);
        expect_message(zero, DT_PS_READY);
        say(zero, offer.peer, (dt_ps_message){.kind = DT_PS_START, .start = {.plan = 100}});
        uint32_t peer = expect_message(zero, DT_PS_ROWS_WANTED).peer;
        dt_ps_message said = {.kind = DT_PS_ROWS, .payload = {.data = values, .bytes = bytes}};
        if (rows == NULL) {
            expect_ok(dt_ps_refuse(zero, peer, DT_PS_REFUSED_OTHERWISE, "row 4 is asked for"));
            break;
        }
        said.rows = *rows;
        say(zero, peer, said);
    }
    if (rows != NULL) say(zero, offer.peer, (dt_ps_message){.kind = DT_PS_OVER});
    pthread_join(self->thread, NULL);
    dt_ps_socket_close(zero, 0);
}

static void a_worker_that_gets_other_rows_says_so(void **state) {
    (void)state;
    const dt_ps_rows of_another_table = {.plan = 100, .variable = 7}, right = {.plan = 100, .variable = 2};
    member self;
    answer(&of_another_table, 2 * WIDTH * sizeof(float), &self);
    expect_error(self.status, DT_DATA_LOSS, "server 0 gave other rows than were asked for");
    answer(&right, 3 * WIDTH * sizeof(float), &self);
    expect_error(self.status, DT_DATA_LOSS, "server 0 gave other rows than were asked for");
}

static void a_worker_that_is_refused_says_why(void **state) {
    (void)state;
    member self;
    double began = dt_seconds_now();
    answer(NULL, 0, &self);
    expect_error(self.status, DT_ABORTED, "row 4 is asked for");
    expect_error(self.next, DT_ABORTED, "row 4 is asked for");
    assert_true(dt_seconds_now() - began < PATIENCE_SECONDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_what_is_not_there_is_refused_and_the_servers_go_on),
        cmocka_unit_test(a_worker_that_gets_other_rows_says_so),
        cmocka_unit_test(a_worker_that_is_refused_says_why),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}
