/* fake_cuda_faults: what tests/support/fake_cuda.h promises of GPUs that fail, late or at once, and of work that never ends: a GPU is lost alone,
 * queries say what is so, and whoever waits for ever is told. Two GPUs, each case in a process of its own. */
#include "tests/support/fake_process.h"

/* ---- queries ---- */

static void asks(world *w) {
    FAILS(w, 0, cuEventQuery, w->events[0]); /* nothing was recorded */
    FAILS(w, 0, cuStreamQuery, w->streams[0]);
    copy_in(w, 0, 0), add_one(w, 0, 0, 1);
    FAILS(w, 600, cuStreamQuery, w->streams[0]);
    FAILS(w, 0, cuStreamQuery, w->streams[0]);
    copy_out(w, 0, 1);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    FAILS(w, 600, cuEventQuery, w->events[0]);
    FAILS(w, 0, cuEventQuery, w->events[0]);
    memcpy(w->results, w->pinned[1], BYTES);
}

static void polls(world *w) {
    int n = 0;
    one_stream(w);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    for (int error = 600; error == 600 && n < 1000; n++) error = w->driver.cuEventQuery(w->events[0]);
    must_be("the last query", 0, w->driver.cuEventQuery(w->events[0]));
}

static void queries_say_what_is_done(void **state) {
    (void)state;
    outcome o = run(asks, 0, NULL, NULL);
    assert_good(o);
    assert_true(results_are(o, 1));
    for (int seed = 1; seed < SEEDS; seed++) assert_good(run(polls, seed, NULL, NULL));
}

/* ---- failures ---- */

static void fails_on_the_second(world *w) {
    uint64_t more;
    world other = second(w);
    FAILS(w, 2, cuMemAlloc_v2, &more, 100); /* the fourth there, the seventh of all */
    use(w);
    GOOD(w, cuMemAlloc_v2, &more, 100);
    GOOD(w, cuMemFree_v2, more);
    end_second(w, &other);
}

static void calls_fail_for_one_gpu(void **state) {
    (void)state;
    assert_good(run(fails_on_the_second, 0, "FAKE_CUDA_FAIL", "cuMemAlloc_v2@1:4=2"));
    assert_outcome(run(fails_on_the_second, 0, "FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain@1:1=2"), 1, "cuDevicePrimaryCtxRetain returned 2");
}

/* The second GPU is lost, and the first one goes on. */
static void loses_second(world *w) {
    world other = second(w);
    copy_in(&other, 0, 0), add_one(&other, 0, 0, 1), copy_out(&other, 0, 1);
    FAILS(w, 700, cuStreamSynchronize, other.streams[0]);
    FAILS(w, 700, cuStreamQuery, other.streams[0]);
    FAILS(w, 700, cuMemsetD8Async, other.device[0], 0, 4, other.streams[0]);
    use(w);
    FAILS(w, 700, cuStreamSynchronize, other.streams[0]);
    one_stream(w);
    end_second(w, &other);
}

static void goes_far_off(world *w) {
    world other = second(w);
    must_be("launch", 0, launch(&other, "far_off", 0, other.device[0], 0));
    FAILS(w, 700, cuStreamSynchronize, other.streams[0]);
    use(w), one_stream(w);
    end_second(w, &other);
}

static void fails_in_a_graph(world *w) {
    void *graph, *exec;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 1);
    add_one(w, 0, 0, 1);
    GOOD(w, cuStreamEndCapture, w->streams[0], &graph);
    GOOD(w, cuGraphInstantiateWithFlags, &exec, graph, 0);
    GOOD(w, cuGraphLaunch, exec, w->streams[0]);
    FAILS(w, 719, cuStreamSynchronize, w->streams[0]);
    w->driver.cuGraphDestroy(graph);
    w->driver.cuGraphExecDestroy(exec);
}

static void a_gpu_is_lost_alone(void **state) {
    (void)state;
    outcome o = run(loses_second, 0, "FAKE_CUDA_FAIL_LATE", "cuLaunchKernel@1:1=700");
    assert_true(o.results[0] == 2);
    assert_outcome(o, 0, "add_one fails, as the test wants");
    o = run(goes_far_off, 0, NULL, NULL);
    assert_true(o.results[0] == 2);
    assert_outcome(o, 0, "far_off touches");
    assert_outcome(run(fails_in_a_graph, 0, "FAKE_CUDA_FAIL_LATE", "cuLaunchKernel:1=719"), 0, "add_one fails, as the test wants");
    assert_outcome(run(fails_in_a_graph, 0, "FAKE_CUDA_FAIL_LATE", "cuGraphLaunch:1=719"), 0, "a graph fails, as the test wants");
}

/* The first GPU waits for an event of the second, which is lost before it, and perhaps before the wait is asked for. */
static void waits_for_the_lost(world *w) {
    world other = second(w);
    add_one(&other, 0, 0, 1);
    w->driver.cuEventRecord(other.events[0], other.streams[0]);
    use(w);
    int error = w->driver.cuStreamWaitEvent(w->streams[0], other.events[0], 0);
    use(&other);
    FAILS(w, 719, cuEventSynchronize, other.events[0]);
    use(w);
    FAILS(w, 719, cuEventQuery, other.events[0]);
    if (error == 0) error = 600;
    for (int i = 0; i < 100 && error == 600; i++) error = w->driver.cuStreamQuery(w->streams[0]);
    w->results[0] = error;
    if (error == 600) exit(0); /* what hangs cannot be given back */
    end_second(w, &other);
}

static void whether_the_events_of_a_lost_gpu_are_reached_is_open(void **state) {
    (void)state;
    int n_hang = 0, n_reached = 0;
    for (int seed = 0; seed < 3 * SEEDS; seed++) {
        outcome o = run(waits_for_the_lost, seed, "FAKE_CUDA_FAIL_LATE", "cuLaunchKernel@1:1=719");
        n_hang += o.results[0] == 600;
        n_reached += o.results[0] == 0;
        assert_true(o.results[0] == 600 || (seed != 0 && (o.results[0] == 0 || o.results[0] == 719)));
        assert_outcome(o, 0, "add_one fails");
    }
    assert_true(n_hang > 1 && n_reached > 1);
}

/* ---- what never ends ---- */

static void hangs(world *w) {
    world other = second(w);
    copy_in(&other, 0, 0), add_one(&other, 0, 0, 1);
    GOOD(w, cuEventRecord, other.events[0], other.streams[0]);
    use(w);
    GOOD(w, cuStreamWaitEvent, w->streams[1], other.events[0], 0); /* and so this one hangs as well */
    for (int i = 0; i < 300; i++) {
        FAILS(w, 600, cuStreamQuery, other.streams[0]);
        FAILS(w, 600, cuEventQuery, other.events[0]);
        FAILS(w, 600, cuStreamQuery, w->streams[1]);
    }
    one_stream(w); /* the others go on */
    GOOD(w, cuStreamDestroy_v2, w->streams[1]);
}
static void hangs_and_is_left(world *w) {
    hangs(w);
    exit(0);
}
static void waits_for_ever(world *w) {
    hangs(w);
    GOOD(w, cuStreamSynchronize, w->streams[0]);
    GOOD(w, cuMemFree_v2, w->device[0]);
}
static void hangs_in_a_graph(world *w) {
    void *graph, *exec;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 1);
    add_one(w, 0, 0, 1);
    GOOD(w, cuStreamEndCapture, w->streams[0], &graph);
    GOOD(w, cuGraphInstantiateWithFlags, &exec, graph, 0);
    GOOD(w, cuGraphLaunch, exec, w->streams[0]);
    for (int i = 0; i < 10; i++) FAILS(w, 600, cuStreamQuery, w->streams[0]);
    w->driver.cuStreamSynchronize(w->streams[0]);
}

static void what_hangs_is_never_done(void **state) {
    static const char hanging[] = "cuLaunchKernel@1:1";
    (void)state;
    for (int seed = 0; seed < SEEDS / 4; seed++) {
        outcome o = run(hangs_and_is_left, seed, "FAKE_CUDA_HANG", hanging);
        assert_good(o);
        assert_true(results_are(o, 2));
    }
    assert_outcome(run(waits_for_ever, 0, "FAKE_CUDA_HANG", hanging), LEFT_BEHIND, "cuMemFree_v2: waits for what never ends, since 1 seconds");
    assert_outcome(run(hangs_in_a_graph, 0, "FAKE_CUDA_HANG", "cuLaunchKernel:1"), LEFT_BEHIND, "cuStreamSynchronize: waits for what never ends");
    assert_outcome(run(hangs_in_a_graph, 0, "FAKE_CUDA_HANG", "cuGraphLaunch:1"), LEFT_BEHIND, "cuStreamSynchronize: waits for what never ends");
}

int main(void) {
    if (!make_kernels()) return remove_kernels(), 77;
    setenv("FAKE_CUDA_COUNT", "2", 1);
    setenv("FAKE_CUDA_PATIENCE", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_say_what_is_done), cmocka_unit_test(calls_fail_for_one_gpu),
        cmocka_unit_test(a_gpu_is_lost_alone),      cmocka_unit_test(whether_the_events_of_a_lost_gpu_are_reached_is_open),
        cmocka_unit_test(what_hangs_is_never_done),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_kernels();
    return failed;
}
