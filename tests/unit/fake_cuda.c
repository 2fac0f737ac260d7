/* fake_cuda: what tests/support/fake_cuda.h promises of the fake driver: work runs late and in any order that waits allow, so that what is missing
 * shows; misuse is refused and told; nothing is forgotten at exit. Each case is a process of its own, whose end is looked at. What it promises of
 * several GPUs is in fake_cuda_devices.c, of faults in fake_cuda_faults.c. */
#include "tests/support/fake_process.h"

/* ---- order ---- */

static void a_stream_is_in_order(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(one_stream, seed, NULL, NULL);
        assert_good(o);
        assert_true(results_are(o, 2));
    }
}

static void slot_reused(world *w) {
    copy_in(w, 0, 0);
    for (int i = 0; i < N; i++) w->pinned[0][i] = -1;
    copy_out(w, 0, 0);
    take_results(w, 0);
}

static void pageable_memory_is_taken_along(world *w) {
    int values[N];
    for (int i = 0; i < N; i++) values[i] = i;
    GOOD(w, cuMemcpyHtoDAsync_v2, w->device[0], values, BYTES, w->streams[0]);
    memset(values, 0, sizeof values);
    GOOD(w, cuMemcpyDtoHAsync_v2, values, w->device[0], BYTES, w->streams[0]);
    memcpy(w->results, values, BYTES);
}

static void a_slot_that_is_reused_too_early_shows(void **state) {
    (void)state;
    outcome o = run(slot_reused, 0, NULL, NULL);
    assert_good(o);
    assert_false(results_are(o, 0));
    o = run(pageable_memory_is_taken_along, 0, NULL, NULL);
    assert_good(o);
    assert_true(results_are(o, 0));
}

/* Stream 0 makes what stream 1 takes, and then stream 0 makes something else in its place. */
static void two_streams(world *w, bool waits, bool waits_back) {
    copy_in(w, 0, 0), add_one(w, 0, 0, 1);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    if (waits) GOOD(w, cuStreamWaitEvent, w->streams[1], w->events[0], 0);
    copy_out(w, 1, 1);
    GOOD(w, cuEventRecord, w->events[1], w->streams[1]);
    if (waits_back) GOOD(w, cuStreamWaitEvent, w->streams[0], w->events[1], 0);
    GOOD(w, cuMemsetD8Async, w->device[1], 0, BYTES, w->streams[0]);
    GOOD(w, cuEventSynchronize, w->events[1]);
    GOOD(w, cuStreamSynchronize, w->streams[0]);
    take_results(w, 1);
    float milliseconds;
    GOOD(w, cuEventElapsedTime, &milliseconds, w->events[0], w->events[1]);
}
static void both_waits(world *w) { two_streams(w, true, true); }
static void no_wait(world *w) { two_streams(w, false, true); }
static void no_wait_back(world *w) { two_streams(w, true, false); }

static void a_missing_wait_shows(void **state) {
    (void)state;
    int n_wrong[2] = {0};
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(both_waits, seed, NULL, NULL);
        assert_good(o);
        assert_true(results_are(o, 1));
        n_wrong[0] += !results_are(run(no_wait, seed, NULL, NULL), 1);
        n_wrong[1] += !results_are(run(no_wait_back, seed, NULL, NULL), 1);
    }
    print_message("of %d seeds, %d and %d show what is missing\n", SEEDS, n_wrong[0], n_wrong[1]);
    assert_true(n_wrong[0] > 0 && n_wrong[1] > 0);
}

/* ---- graphs ---- */

static void *captured(world *w) {
    void *graph, *exec;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 0);
    copy_in(w, 0, 0);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    GOOD(w, cuStreamWaitEvent, w->streams[1], w->events[0], 0);
    add_one(w, 0, 0, 1);
    add_one(w, 1, 0, 2);
    GOOD(w, cuEventRecord, w->events[1], w->streams[1]);
    GOOD(w, cuStreamWaitEvent, w->streams[0], w->events[1], 0);
    add_one(w, 0, 2, 0);
    copy_out(w, 0, 0);
    GOOD(w, cuStreamEndCapture, w->streams[0], &graph);
    GOOD(w, cuGraphInstantiateWithFlags, &exec, graph, 0);
    GOOD(w, cuGraphDestroy, graph);
    return exec;
}

/* The second capture of both streams knows nothing of the first. */
static void graph(world *w) {
    GOOD(w, cuGraphExecDestroy, captured(w));
    void *exec = captured(w);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < N; i++) w->pinned[0][i] = i + turn; /* read when the graph runs */
        GOOD(w, cuGraphLaunch, exec, w->streams[0]);
        take_results(w, 0);
    }
    GOOD(w, cuGraphExecDestroy, exec);
}

static void a_graph_replays(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        outcome o = run(graph, seed, NULL, NULL);
        assert_good(o);
        assert_true(results_are(o, 4));
    }
}

static void unjoined(world *w) {
    void *graph;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 0);
    GOOD(w, cuEventRecord, w->events[0], w->streams[0]);
    GOOD(w, cuStreamWaitEvent, w->streams[1], w->events[0], 0);
    add_one(w, 1, 0, 1);
    FAILS(w, 904, cuStreamEndCapture, w->streams[0], &graph);
}

static void waits_while_capturing(world *w) {
    void *graph;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 0);
    FAILS(w, 900, cuStreamSynchronize, w->streams[0]);
    FAILS(w, 901, cuStreamEndCapture, w->streams[0], &graph);
}

static void allocates_while_capturing(world *w) {
    void *graph;
    uint64_t more;
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 0);
    FAILS(w, 900, cuMemAlloc_v2, &more, 100);
    FAILS(w, 901, cuStreamEndCapture, w->streams[0], &graph);
}

static void captures_are_held_to_their_rules(void **state) {
    (void)state;
    assert_outcome(run(unjoined, 0, NULL, NULL), LEFT_BEHIND, "was not waited for");
    assert_outcome(run(waits_while_capturing, 0, NULL, NULL), LEFT_BEHIND, "stream 1 is capturing");
    assert_outcome(run(allocates_while_capturing, 0, NULL, NULL), LEFT_BEHIND, "a stream captures meanwhile");
}

/* ---- a library ---- */

typedef struct addition {
    int *to;
    int what;
} addition;

static void run_addition(const void *data) {
    const addition *a = data;
    for (int i = 0; i < N; i++) a->to[i] += a->what;
}

static void library_calls(world *w) {
    fake_cuda_submitter *submit = (fake_cuda_submitter *)(uintptr_t)dlsym(w->driver.library, "fake_cuda_submit");
    addition a = {.to = (int *)(uintptr_t)w->device[0], .what = 3};
    fake_cuda_range range = {.address = w->device[0], .bytes = BYTES};
    void *graph, *exec;
    copy_in(w, 0, 0);
    must_be("addLibrary", 0, submit(w->streams[0], "addLibrary", &range, 1, run_addition, &a, sizeof a));
    GOOD(w, cuStreamBeginCapture_v2, w->streams[0], 0);
    must_be("addLibrary", 0, submit(w->streams[0], "addLibrary", &range, 1, run_addition, &a, sizeof a));
    GOOD(w, cuStreamEndCapture, w->streams[0], &graph);
    a.what = 1000; /* taken along by the calls */
    GOOD(w, cuGraphInstantiateWithFlags, &exec, graph, 0);
    for (int turn = 0; turn < 2; turn++) GOOD(w, cuGraphLaunch, exec, w->streams[0]);
    GOOD(w, cuGraphExecDestroy, exec);
    GOOD(w, cuGraphDestroy, graph);
    must_be("addLibrary", 14, submit(w->streams[0], "addLibrary", &range, 1, run_addition, &a, sizeof a));
    copy_out(w, 0, 0);
    take_results(w, 0);
}

static void a_library_takes_part(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS / 4; seed++) {
        outcome o = run(library_calls, seed, "FAKE_CUDA_FAIL", "addLibrary:3=14");
        assert_good(o);
        assert_true(results_are(o, 9));
    }
}

/* ---- misuse ---- */

static int host_number;

static void host_to_host(world *w) { FAILS(w, 1, cuMemcpyHtoDAsync_v2, (uint64_t)(uintptr_t)&host_number, w->pinned[0], 4, w->streams[0]); }
static void device_as_host(world *w) { FAILS(w, 1, cuMemcpyHtoDAsync_v2, w->device[0], (void *)(uintptr_t)w->device[1], 4, w->streams[0]); }
static void too_much(world *w) { FAILS(w, 1, cuMemcpyDtoDAsync_v2, w->device[0], w->device[1] + 4, BYTES, w->streams[0]); }
static void too_much_pinned(world *w) { FAILS(w, 1, cuMemcpyDtoHAsync_v2, w->pinned[0] + 1, w->device[1], BYTES, w->streams[0]); }
static void host_argument(world *w) { must_be("launch", 1, launch(w, "add_one", 0, (uint64_t)(uintptr_t)&host_number, w->device[0])); }
static void twice(world *w) {
    GOOD(w, cuMemFree_v2, w->device[0]);
    FAILS(w, 1, cuMemFree_v2, w->device[0]);
}
static void after_it_was_freed(world *w) {
    GOOD(w, cuMemFree_v2, w->device[0]);
    FAILS(w, 1, cuMemsetD8Async, w->device[0], 0, 4, w->streams[0]);
}
static void wrong_kind(world *w) { FAILS(w, 400, cuStreamSynchronize, w->events[0]); }
static void without_context(world *w) {
    size_t free_bytes, all;
    GOOD(w, cuCtxSetCurrent, NULL);
    FAILS(w, 201, cuMemGetInfo_v2, &free_bytes, &all);
    GOOD(w, cuCtxSetCurrent, w->context);
}
static void leaves_an_event(world *w) {
    void *e;
    GOOD(w, cuEventCreate, &e, 2);
}
static void leaves_a_context(world *w) {
    void *context;
    GOOD(w, cuDevicePrimaryCtxRetain, &context, 0);
}
static void writes_in_front(world *w) {
    must_be("launch", 0, launch(w, "in_front", 0, w->device[0], 0));
    GOOD(w, cuStreamSynchronize, w->streams[0]);
}
static void too_many_threads(world *w) { FAILS(w, 1, cuLaunchKernel, function(w, "fill"), 1, 1, 1, 2048, 1, 1, 0, w->streams[0], NULL, NULL); }
static void no_such_function(world *w) {
    void *f;
    FAILS(w, 500, cuModuleGetFunction, &f, w->module, "nothing");
    FAILS(w, 302, cuModuleGetFunction, &f, w->module, "only_here");
}

static void misuse_is_told(void **state) {
    static const struct {
        void (*scenario)(world *);
        const char *says;
    } all[] = {
        {host_to_host, "cuMemcpyHtoDAsync_v2: the destination: host is not on the device"},
        {device_as_host, "cuMemcpyHtoDAsync_v2: the source: d2+0 is not on the host"},
        {too_much, "d2+4, 256 bytes, is outside of an allocation of 256"},
        {too_much_pinned, "h1+4, 256 bytes, is outside of an allocation of 256"},
        {host_argument, "cuLaunchKernel: argument 0 of add_one: host is not on the device"},
        {twice, "cuMemFree_v2: d1 is freed twice"},
        {after_it_was_freed, "cuMemsetD8Async: the destination: d1+0 is used after it was freed"},
        {wrong_kind, "cuStreamSynchronize: event 1 where a stream is due"},
        {without_context, "cuMemGetInfo_v2: this thread has no context"},
        {leaves_an_event, "event 3 was never given back"},
        {leaves_a_context, "context 1 was never given back"},
        {writes_in_front, "in_front: there was a write in front of d1 of 256 bytes"},
        {too_many_threads, "cuLaunchKernel: 1 blocks of 2048 threads"},
        {no_such_function, "only_here is not among the emulated kernels"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_outcome(run(all[i].scenario, 0, NULL, NULL), LEFT_BEHIND, all[i].says);
}

static void touches_device_memory(world *w) { *(volatile int *)(uintptr_t)(w->device[1] + 8) = 1; }

static void the_host_cannot_touch_device_memory(void **state) {
    (void)state;
    assert_outcome(run(touches_device_memory, 0, NULL, NULL), -11, "the host touches device memory, d2+8");
}

/* ---- kernels ---- */

static void numbers_as_arguments(world *w) {
    uint64_t to = w->device[0];
    int value = 21;
    long long times = 2;
    GOOD(w, cuLaunchKernel, function(w, "fill"), 1, 1, 1, N, 1, 1, 0, w->streams[0], (void *[]){&to, &value, &times}, NULL);
    value = 0;
    copy_out(w, 0, 0);
    take_results(w, 0);
    w->results[0] -= 42;
}

static void lost(world *w, const char *name, uint64_t argument, int error) {
    must_be("launch", 0, launch(w, name, 0, argument, 0));
    FAILS(w, error, cuStreamSynchronize, w->streams[0]);
    FAILS(w, error, cuMemsetD8Async, w->device[0], 0, 4, w->streams[0]);
}
static void goes_far_off(world *w) { lost(w, "far_off", w->device[0], 700); }
static void goes_behind(world *w) { lost(w, "behind", w->device[0], 700); }
static void diverges(world *w) { lost(w, "diverge", w->device[0], 719); }
static void follows_nothing(world *w) { lost(w, "follow", w->device[0], 700); } /* to where new memory points */

static void kernels_that_go_wrong_lose_the_context(void **state) {
    (void)state;
    outcome o = run(numbers_as_arguments, 0, NULL, NULL);
    assert_good(o);
    assert_true(o.results[0] == 0 && o.results[1] == 42);
    assert_outcome(run(goes_far_off, 0, NULL, NULL), 0, "far_off touches");
    assert_outcome(run(goes_behind, 0, NULL, NULL), 0, "behind touches d1+256");
    assert_outcome(run(follows_nothing, 0, NULL, NULL), 0, "follow touches");
    assert_outcome(run(diverges, 0, NULL, NULL), 0, "diverge: line 6, block 0");
}

/* ---- images, failures, the log ---- */

static void images(world *w) {
    static char cubin[64] = "\177ELF";
    void *m;
    FAILS(w, 222, cuModuleLoadDataEx, &m, PTX("9.9", "sm_90"), 0, NULL, NULL);
    FAILS(w, 209, cuModuleLoadDataEx, &m, PTX("8.0", "sm_100"), 0, NULL, NULL);
    FAILS(w, 218, cuModuleLoadDataEx, &m, "nothing", 0, NULL, NULL);
    cubin[8] = 8, cubin[49] = 80; /* the ABI of CUDA 13; sm_80 */
    FAILS(w, 209, cuModuleLoadDataEx, &m, cubin, 0, NULL, NULL);
    cubin[8] = 7, cubin[49] = 0, cubin[48] = 100;
    FAILS(w, 209, cuModuleLoadDataEx, &m, cubin, 0, NULL, NULL);
    GOOD(w, cuModuleLoadDataEx, &m, PTX("7.0", "sm_52"), 0, NULL, NULL);
    GOOD(w, cuModuleUnload, m);
}

static void images_for_others_are_refused(void **state) {
    (void)state;
    assert_good(run(images, 0, NULL, NULL));
}

static void third_allocation_fails(world *w) {
    uint64_t more;
    FAILS(w, 2, cuMemAlloc_v2, &more, 100); /* the fourth: three were made before */
    GOOD(w, cuMemAlloc_v2, &more, 100);
    GOOD(w, cuMemFree_v2, more);
}

static void loses_device(world *w) {
    copy_in(w, 0, 0);
    FAILS(w, 719, cuStreamSynchronize, w->streams[0]);
    FAILS(w, 719, cuStreamSynchronize, w->streams[0]);
}

static void fills_the_device(world *w) {
    uint64_t more;
    size_t free_bytes, all;
    GOOD(w, cuMemGetInfo_v2, &free_bytes, &all);
    must_be("free", 3000 - 3 * BYTES, (int)free_bytes);
    FAILS(w, 2, cuMemAlloc_v2, &more, free_bytes + 1);
}

static void calls_fail_as_they_are_told_to(void **state) {
    (void)state;
    assert_good(run(third_allocation_fails, 0, "FAKE_CUDA_FAIL", "cuNothing:1=1,cuMemAlloc_v2:4=2"));
    assert_good(run(loses_device, 0, "FAKE_CUDA_FAIL", "cuStreamSynchronize:1=719"));
    assert_good(run(fills_the_device, 0, "FAKE_CUDA_MEMORY", "3000"));
    assert_outcome(run(one_stream, 0, "FAKE_CUDA_FAIL", "3=101"), 1, "cuDevicePrimaryCtxRetain returned 101");
}

static void the_log_has_every_call(void **state) {
    (void)state;
    char path[] = "/tmp/dt-fake-log-XXXXXX", all[8000] = "";
    close(mkstemp(path));
    assert_good(run(one_stream, 0, "FAKE_CUDA_LOG", path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    unlink(path);
    static const char *const wanted[] = {
        " cuMemcpyHtoDAsync_v2 stream 1 d1+0 from h1+0 bytes 256\n",
        " cuLaunchKernel stream 1 add_one 1x64: d1+0, d2+0\n",
        " on stream 1: d1+0 from h1+0 bytes 256\n",
        " cuStreamSynchronize stream 1\n",
    };
    const char *at = all;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, wanted[i]);
        if (at == NULL) fail_msg("the log lacks, in its place,%s%s", wanted[i], all);
    }
}

static void every_call_of_the_runtime_is_there(void **state) {
    (void)state;
    void *fake = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(fake);
#define X(symbol, arguments)                                                                                                                         \
    if (dlsym(fake, #symbol) == NULL) fail_msg("the fake has no %s", #symbol);
    DT_CUDA_DRIVER_SYMBOLS(X)
#undef X
    dlclose(fake);
}

int main(void) {
    if (!make_kernels()) return remove_kernels(), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_the_runtime_is_there),
        cmocka_unit_test(a_stream_is_in_order),
        cmocka_unit_test(a_slot_that_is_reused_too_early_shows),
        cmocka_unit_test(a_missing_wait_shows),
        cmocka_unit_test(a_graph_replays),
        cmocka_unit_test(captures_are_held_to_their_rules),
        cmocka_unit_test(a_library_takes_part),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(the_host_cannot_touch_device_memory),
        cmocka_unit_test(kernels_that_go_wrong_lose_the_context),
        cmocka_unit_test(images_for_others_are_refused),
        cmocka_unit_test(calls_fail_as_they_are_told_to),
        cmocka_unit_test(the_log_has_every_call),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_kernels();
    return failed;
}
