/* fake_cuda_devices: what tests/support/fake_cuda.h promises of several GPUs: what belongs to one is refused on another, memory of a peer needs
 * access, and events order the work of all. Two GPUs, each case in a process of its own. */
#include "tests/support/fake_process.h"

#include <pthread.h>

static void give_access(world *w, world *to) {
    use(w);
    GOOD(w, cuCtxEnablePeerAccess, to->context, 0);
}

/* On GPU `w`, from the second's memory. */
static void add_one_from(world *w, uint64_t from, int to) { must_be("add_one", 0, launch(w, "add_one", 0, from, w->device[to])); }

/* ---- apart ---- */

static void own_memory(world *w) {
    size_t free_bytes, all;
    uint64_t more;
    int count;
    GOOD(w, cuDeviceGetCount, &count);
    must_be("count", 2, count);
    world other = second(w);
    GOOD(w, cuMemGetInfo_v2, &free_bytes, &all);
    must_be("free on the second", 2000 - 3 * BYTES, (int)free_bytes);
    FAILS(w, 2, cuMemAlloc_v2, &more, free_bytes + 1);
    GOOD(w, cuMemAlloc_v2, &more, free_bytes);
    use(w);
    GOOD(w, cuMemGetInfo_v2, &free_bytes, &all);
    must_be("free on the first", 3000 - 3 * BYTES, (int)free_bytes);
    must_be("all of the first", 3000, (int)all);
    use(&other);
    GOOD(w, cuMemFree_v2, more);
    end_second(w, &other);
}

static void each_gpu_has_its_memory(void **state) {
    (void)state;
    assert_good(run(own_memory, 0, "FAKE_CUDA_MEMORY", "3000,2000"));
}

/* What is asked for with the first GPU's context and something of the second's. */
static void foreign_function(world *w, world *o) {
    uint64_t a = w->device[0], b = w->device[1];
    use(o);
    void *f = function(o, "add_one");
    use(w);
    FAILS(w, 400, cuLaunchKernel, f, 1, 1, 1, N, 1, 1, 0, w->streams[0], (void *[]){&a, &b}, NULL);
}
static void foreign_copy(world *w, world *o) { FAILS(w, 400, cuMemcpyHtoDAsync_v2, o->device[0], o->pinned[0], BYTES, o->streams[0]); }
static void foreign_fill(world *w, world *o) { FAILS(w, 400, cuMemsetD8Async, o->device[0], 0, BYTES, o->streams[0]); }
static void foreign_event(world *w, world *o) { FAILS(w, 400, cuEventRecord, o->events[0], w->streams[0]); }
static void foreign_stream(world *w, world *o) { FAILS(w, 400, cuEventRecord, w->events[0], o->streams[0]); }
static void foreign_waiter(world *w, world *o) { FAILS(w, 400, cuStreamWaitEvent, o->streams[0], w->events[0], 0); }
static void foreign_capture(world *w, world *o) { FAILS(w, 1, cuStreamBeginCapture_v2, o->streams[0], 1); }
static void foreign_module(world *w, world *o) { FAILS(w, 400, cuModuleUnload, o->module); }
static void foreign_free(world *w, world *o) { FAILS(w, 1, cuMemFree_v2, o->device[0]); }
static void foreign_destroy(world *w, world *o) { FAILS(w, 400, cuStreamDestroy_v2, o->streams[1]); }
static void foreign_library(world *w, world *o) {
    fake_cuda_submitter *submit = (fake_cuda_submitter *)(uintptr_t)dlsym(w->driver.library, "fake_cuda_submit");
    must_be("library", 400, submit(o->streams[0], "addLibrary", NULL, 0, NULL, "", 1));
}
static void times_of_two(world *w, world *o) {
    float milliseconds;
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    use(o);
    GOOD(w, cuEventRecord, o->events[0], o->streams[0]);
    FAILS(w, 400, cuEventElapsedTime, &milliseconds, w->events[0], o->events[0]);
    use(w);
}

static const struct {
    void (*scenario)(world *, world *);
    const char *says;
} foreign[] = {
    {foreign_function, "cuLaunchKernel: function 1 is GPU 1's, and the thread's context is GPU 0's"},
    {foreign_copy, "cuMemcpyHtoDAsync_v2: stream 3 is GPU 1's, and the thread's context is GPU 0's"},
    {foreign_fill, "cuMemsetD8Async: stream 3 is GPU 1's"},
    {foreign_event, "cuEventRecord: event 3 is GPU 1's"},
    {foreign_stream, "cuEventRecord: stream 3 is GPU 1's"},
    {foreign_waiter, "cuStreamWaitEvent: stream 3 is GPU 1's"},
    {foreign_capture, "cuStreamBeginCapture_v2: stream 3 is GPU 1's"},
    {foreign_module, "cuModuleUnload: module 2 is GPU 1's"},
    {foreign_free, "cuMemFree_v2: d4 is GPU 1's"},
    {foreign_destroy, "cuStreamDestroy_v2: stream 4 is GPU 1's"},
    {foreign_library, "addLibrary: stream 3 is GPU 1's"},
    {times_of_two, "cuEventElapsedTime: the events are of two GPUs"},
};

static size_t which;

static void on_two(world *w) {
    world other = second(w);
    use(w);
    foreign[which].scenario(w, &other);
    end_second(w, &other);
}

static void what_is_another_gpus_is_refused(void **state) {
    (void)state;
    for (which = 0; which < sizeof foreign / sizeof *foreign; which++) assert_outcome(run(on_two, 0, NULL, NULL), LEFT_BEHIND, foreign[which].says);
}

/* Waiting and asking need no context in particular. */
static void waits_elsewhere(world *w) {
    world other = second(w);
    copy_in(&other, 0, 0), add_one(&other, 0, 0, 1), copy_out(&other, 0, 1);
    GOOD(w, cuEventRecord, other.events[0], other.streams[0]);
    use(w);
    GOOD(w, cuEventSynchronize, other.events[0]);
    take_results(&other, 0);
    GOOD(w, cuEventQuery, other.events[0]);
    GOOD(w, cuStreamQuery, other.streams[0]);
    end_second(w, &other);
}

static void any_thread_may_wait_for_any_gpu(void **state) {
    (void)state;
    outcome o = run(waits_elsewhere, 0, NULL, NULL);
    assert_good(o);
    assert_true(o.results[N] == 1 && o.results[2 * N - 1] == N);
}

static void the_log_names_gpus(void **state) {
    (void)state;
    char path[] = "/tmp/dt-fake-log-XXXXXX", all[8000] = "";
    close(mkstemp(path));
    assert_good(run(waits_elsewhere, 0, "FAKE_CUDA_LOG", path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    unlink(path);
    assert_non_null(strstr(all, " cuStreamCreate stream 2 of GPU 0\n"));
    assert_non_null(strstr(all, " cuStreamCreate stream 3 of GPU 1\n"));
    assert_non_null(strstr(all, " cuMemAlloc_v2 d4 bytes 256 of GPU 1\n"));
}

/* ---- peers ---- */

static void peers(world *w) {
    int can;
    world other = second(w);
    GOOD(w, cuDeviceCanAccessPeer, &can, 0, 0);
    must_be("itself", 0, can);
    GOOD(w, cuDeviceCanAccessPeer, &can, 0, 1);
    must_be("can access", 1, can);
    FAILS(w, 201, cuCtxEnablePeerAccess, other.context, 0);
    give_access(w, &other);
    FAILS(w, 704, cuCtxEnablePeerAccess, other.context, 0);
    use(&other);
    copy_in(&other, 0, 0);
    GOOD(w, cuStreamSynchronize, other.streams[0]);
    use(w);
    add_one_from(w, other.device[0], 1);
    GOOD(w, cuMemcpyDtoDAsync_v2, other.device[1], w->device[1], BYTES, w->streams[0]);
    GOOD(w, cuMemcpyDtoHAsync_v2, w->pinned[1], other.device[1], BYTES, w->streams[0]);
    take_results(w, 0);
    end_second(w, &other);
}

static void no_peers(world *w) {
    int can;
    world other = second(w);
    GOOD(w, cuDeviceCanAccessPeer, &can, 0, 1);
    must_be("can access", 0, can);
    use(w);
    FAILS(w, 217, cuCtxEnablePeerAccess, other.context, 0);
    end_second(w, &other);
}

static void access_is_given_before_a_peers_memory_is_touched(void **state) {
    (void)state;
    outcome o = run(peers, 0, NULL, NULL);
    assert_good(o);
    assert_true(results_are(o, 1));
    assert_good(run(no_peers, 0, "FAKE_CUDA_PEERS", "0"));
}

/* Access goes one way: the second GPU may touch the first one's memory, and not the other way round. */
static void one_way(world *w, world *other) {
    *other = second(w);
    give_access(other, w);
    use(w);
}
static void copies_without_access(world *w) {
    world other;
    one_way(w, &other);
    FAILS(w, 1, cuMemcpyDtoDAsync_v2, w->device[0], other.device[0], BYTES, w->streams[0]);
    end_second(w, &other);
}
static void launches_without_access(world *w) {
    world other;
    one_way(w, &other);
    must_be("add_one", 1, launch(w, "add_one", 0, other.device[0], w->device[0]));
    end_second(w, &other);
}

/* The kernel finds the peer's memory through a pointer in its own. */
static void follow_to_peer(world *w, bool with_access) {
    world other = second(w);
    use(w);
    if (with_access) give_access(w, &other);
    *(uint64_t *)(void *)w->pinned[0] = other.device[0];
    copy_in(w, 0, 0);
    must_be("follow", 0, launch(w, "follow", 0, w->device[0], 0));
    FAILS(w, with_access ? 0 : 700, cuStreamSynchronize, w->streams[0]);
    use(&other);
    copy_out(&other, 0, 0);
    take_results(&other, 0);
    end_second(w, &other);
}
static void follows_with_access(world *w) { follow_to_peer(w, true); }
static void follows_without_access(world *w) { follow_to_peer(w, false); }

static void memory_of_a_peer_is_closed_without_access(void **state) {
    (void)state;
    assert_outcome(run(copies_without_access, 0, NULL, NULL), LEFT_BEHIND, "the source: d4+0 is memory of GPU 1, to which GPU 0 was given no access");
    assert_outcome(run(launches_without_access, 0, NULL, NULL), LEFT_BEHIND, "argument 0 of add_one: d4+0 is memory of GPU 1");
    outcome o = run(follows_with_access, 0, NULL, NULL);
    assert_good(o);
    assert_true(o.results[N] == 5 && o.results[2 * N - 1] == 5);
    assert_outcome(run(follows_without_access, 0, NULL, NULL), 0, "follow touches d4+0");
}

/* ---- events ---- */

/* The second GPU takes what the first one makes, and the first one then makes something else in its place. */
static void hand_over(world *w, bool waits, bool waits_back) {
    world other = second(w);
    give_access(&other, w);
    use(w);
    copy_in(w, 0, 0), add_one(w, 0, 0, 1);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    use(&other);
    if (waits) GOOD(w, cuStreamWaitEvent, other.streams[0], w->events[0], 0);
    add_one_from(&other, w->device[1], 0), copy_out(&other, 0, 0);
    GOOD(w, cuEventRecord, other.events[0], other.streams[0]);
    use(w);
    if (waits_back) GOOD(w, cuStreamWaitEvent, w->streams[0], other.events[0], 0);
    GOOD(w, cuMemsetD8Async, w->device[1], 0, BYTES, w->streams[0]);
    GOOD(w, cuStreamSynchronize, w->streams[0]);
    GOOD(w, cuStreamSynchronize, other.streams[0]);
    memcpy(w->results, other.pinned[1], BYTES);
    end_second(w, &other);
}
static void hands_over(world *w) { hand_over(w, true, true); }
static void does_not_wait(world *w) { hand_over(w, false, true); }
static void does_not_wait_back(world *w) { hand_over(w, true, false); }

static void a_missing_wait_between_gpus_shows(void **state) {
    (void)state;
    int n_wrong[3] = {0};
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(hands_over, seed, NULL, NULL);
        assert_good(o);
        assert_true(results_are(o, 2));
        n_wrong[0] += !results_are(run(does_not_wait, seed, NULL, NULL), 2);
        n_wrong[1] += !results_are(run(does_not_wait_back, seed, NULL, NULL), 2);
        n_wrong[2] += !results_are(run(hands_over, seed, "FAKE_CUDA_IGNORE_WAITS", "peers"), 2);
    }
    print_message("of %d seeds, %d, %d and %d show what is missing\n", SEEDS, n_wrong[0], n_wrong[1], n_wrong[2]);
    assert_true(n_wrong[0] > 0 && n_wrong[1] > 0 && n_wrong[2] > 0);
}

/* A wait that took a later record than that of its time would wait for itself. */
static void records_again(world *w) {
    world other = second(w);
    GOOD(w, cuStreamWaitEvent, other.streams[1], w->events[1], 0); /* never recorded */
    use(w);
    copy_in(w, 0, 0);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    use(&other);
    GOOD(w, cuStreamWaitEvent, other.streams[0], w->events[0], 0);
    GOOD(w, cuEventRecord, other.events[0], other.streams[0]);
    use(w);
    GOOD(w, cuStreamWaitEvent, w->streams[0], other.events[0], 0);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    GOOD(w, cuEventSynchronize, w->events[0]);
    GOOD(w, cuStreamSynchronize, other.streams[1]);
    end_second(w, &other);
}

static void a_wait_is_for_the_record_before_it(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) assert_good(run(records_again, seed, NULL, NULL));
}

/* ---- events in graphs ---- */

/* A graph of the second GPU waits for the first one, whose waits for the graph, in each turn. */
static void external(world *w) {
    void *graph, *exec;
    world other = second(w);
    give_access(&other, w);
    GOOD(w, cuStreamBeginCapture_v2, other.streams[0], 1);
    GOOD(w, cuStreamWaitEvent, other.streams[0], w->events[0], 1);
    add_one_from(&other, w->device[0], 0);
    GOOD(w, cuEventRecordWithFlags, other.events[0], other.streams[0], 1);
    copy_out(&other, 0, 0);
    GOOD(w, cuStreamEndCapture, other.streams[0], &graph);
    GOOD(w, cuGraphInstantiateWithFlags, &exec, graph, 0);
    GOOD(w, cuGraphDestroy, graph);
    for (int turn = 0; turn < 3; turn++) {
        use(w);
        for (int i = 0; i < N; i++) w->pinned[0][i] = i + turn;
        copy_in(w, 0, 0);
        GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
        use(&other);
        GOOD(w, cuGraphLaunch, exec, other.streams[0]);
        use(w);
        GOOD(w, cuStreamWaitEvent, w->streams[0], other.events[0], 0);
        GOOD(w, cuMemsetD8Async, w->device[0], 0, BYTES, w->streams[0]);
        GOOD(w, cuStreamSynchronize, w->streams[0]);
    }
    GOOD(w, cuStreamSynchronize, other.streams[0]);
    memcpy(w->results, other.pinned[1], BYTES);
    use(&other);
    GOOD(w, cuGraphExecDestroy, exec);
    end_second(w, &other);
}

static void graphs_wait_for_other_gpus(void **state) {
    (void)state;
    int n_wrong = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(external, seed, NULL, NULL);
        assert_good(o);
        assert_true(results_are(o, 3));
        n_wrong += !results_are(run(external, seed, "FAKE_CUDA_IGNORE_WAITS", "peers"), 3);
    }
    assert_true(n_wrong > 0);
}

static void waits_outside(world *w) {
    void *graph;
    world other = second(w);
    use(w);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    use(&other);
    GOOD(w, cuStreamBeginCapture_v2, other.streams[0], 1);
    FAILS(w, 900, cuStreamWaitEvent, other.streams[0], w->events[0], 0);
    FAILS(w, 901, cuStreamEndCapture, other.streams[0], &graph);
    end_second(w, &other);
}
static void external_without_capture(world *w) { FAILS(w, 1, cuStreamWaitEvent, w->streams[0], w->events[0], 1); }
static void captures_two_gpus(world *w) {
    void *graph;
    world other = second(w);
    GOOD(w, cuStreamBeginCapture_v2, other.streams[0], 1);
    GOOD(w, cuEventRecord, other.events[0], other.streams[0]);
    use(w);
    FAILS(w, 801, cuStreamWaitEvent, w->streams[0], other.events[0], 0);
    use(&other);
    GOOD(w, cuStreamEndCapture, other.streams[0], &graph);
    GOOD(w, cuGraphDestroy, graph);
    end_second(w, &other);
}
static void asks_while_capturing(world *w) {
    void *graph;
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    GOOD(w, cuStreamBeginCapture_v2, w->streams[1], 1);
    FAILS(w, 900, cuEventQuery, w->events[0]);
    FAILS(w, 901, cuStreamEndCapture, w->streams[1], &graph);
}

static void waits_in_captures_are_held_to_their_rules(void **state) {
    (void)state;
    assert_outcome(run(waits_outside, 0, NULL, NULL), LEFT_BEHIND, "stream 3 is capturing, and event 1 was recorded outside");
    assert_outcome(run(external_without_capture, 0, NULL, NULL), LEFT_BEHIND, "stream 1 is not capturing, for which this flag is");
    assert_outcome(run(captures_two_gpus, 0, NULL, NULL), LEFT_BEHIND, "a capture over several GPUs is not known to the fake");
    assert_outcome(run(asks_while_capturing, 0, NULL, NULL), LEFT_BEHIND, "cuEventQuery: a stream captures meanwhile");
}

/* ---- threads ---- */

enum {
    TURNS = 20
};

/* Of a ring of two: each thread's GPU adds one to what the other one's has made in the turn before. */
typedef struct member {
    world *self, *other;
    pthread_barrier_t *barrier;
} member;

static void *take_turns(void *context) {
    member *m = context;
    world *self = m->self, *other = m->other;
    use(self);
    for (int turn = 0; turn < TURNS; turn++) {
        int from = turn % 2, to = 1 - from;
        if (turn > 0) GOOD(self, cuStreamWaitEvent, self->streams[0], other->events[from], 0);
        add_one_from(self, other->device[from], to);
        GOOD(self, cuEventRecord, self->events[to], self->streams[0]);
        pthread_barrier_wait(m->barrier); /* what the other one waits for has been recorded */
    }
    GOOD(self, cuMemcpyDtoHAsync_v2, self->pinned[1], self->device[TURNS % 2], BYTES, self->streams[0]);
    for (int error = 600; error != 0;) {
        error = self->driver.cuStreamQuery(self->streams[0]);
        if (error != 0) must_be("cuStreamQuery", 600, error);
    }
    memcpy(self->results, self->pinned[1], BYTES);
    return NULL;
}

static void two_threads(world *w) {
    pthread_barrier_t barrier;
    pthread_t threads[2];
    world other = second(w);
    give_access(&other, w), give_access(w, &other);
    use(&other), copy_in(&other, 0, 0);
    GOOD(w, cuStreamSynchronize, other.streams[0]);
    use(w), copy_in(w, 0, 0);
    GOOD(w, cuStreamSynchronize, w->streams[0]);
    member members[2] = {{w, &other, &barrier}, {&other, w, &barrier}};
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) must_be("pthread_create", 0, pthread_create(&threads[i], NULL, take_turns, &members[i]));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    end_second(w, &other);
}

static void a_thread_for_each_gpu(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(two_threads, seed, NULL, NULL);
        assert_good(o);
        for (int i = 0; i < 2 * N; i++) assert_int_equal(o.results[i], i % N + TURNS);
    }
}

static void *end_capture(void *context) {
    world *w = context;
    void *graph;
    use(w);
    FAILS(w, 908, cuStreamEndCapture, w->streams[0], &graph);
    return NULL;
}

static void ended_by_another(world *w) {
    pthread_t thread;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 1);
    must_be("pthread_create", 0, pthread_create(&thread, NULL, end_capture, w));
    pthread_join(thread, NULL);
}

static void a_capture_ends_where_it_began(void **state) {
    (void)state;
    assert_outcome(run(ended_by_another, 0, NULL, NULL), LEFT_BEHIND, "the capture was begun by another thread");
}

int main(void) {
    if (!make_kernels()) return remove_kernels(), 77;
    setenv("FAKE_CUDA_COUNT", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gpu_has_its_memory),
        cmocka_unit_test(what_is_another_gpus_is_refused),
        cmocka_unit_test(any_thread_may_wait_for_any_gpu),
        cmocka_unit_test(the_log_names_gpus),
        cmocka_unit_test(access_is_given_before_a_peers_memory_is_touched),
        cmocka_unit_test(memory_of_a_peer_is_closed_without_access),
        cmocka_unit_test(a_missing_wait_between_gpus_shows),
        cmocka_unit_test(a_wait_is_for_the_record_before_it),
        cmocka_unit_test(graphs_wait_for_other_gpus),
        cmocka_unit_test(waits_in_captures_are_held_to_their_rules),
        cmocka_unit_test(a_thread_for_each_gpu),
        cmocka_unit_test(a_capture_ends_where_it_began),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_kernels();
    return failed;
}
