/* cuda_graph: what is captured runs as often as it is launched, and what is left when a capture fails; by the fake of the driver. */
#include "runtime/devices/cuda/graph.h"
#include "runtime/devices/cuda/memory.h"
#include "tests/support/fake_driver.h"

static dt_cuda_memory memory;

typedef struct twice {
    uint64_t place;
    const int *from;
    int *to;
} twice;

static dt_status *there_and_back(void *context) {
    const twice *of = context;
    DT_CUDA_TRY(&cuda, cuMemcpyHtoDAsync_v2, of->place, of->from, sizeof(int), cuda.stream);
    DT_CUDA_TRY(&cuda, cuMemcpyDtoHAsync_v2, of->to, of->place, sizeof(int), cuda.stream);
    return NULL;
}

static dt_status *fails(void *context) {
    DT_TRY(there_and_back(context));
    return dt_error(DT_ABORTED, "half way");
}

/* The graph is the same; what it reads is not. A capture that fails leaves the stream as it was. */
static void a_graph_runs_what_was_captured(void **state) {
    (void)state;
    void *host, *graph = &memory;
    twice copied;
    expect_ok(dt_cuda_driver_error(&cuda.driver, "allocate", cuda.driver.cuMemAllocHost_v2(&host, 64)));
    expect_ok(dt_cuda_memory_take(&memory, &cuda, 256, &copied.place));
    copied.from = host;
    copied.to = (int *)host + 1;
    expect_error(dt_cuda_graph_make(&cuda, fails, &copied, &graph), DT_ABORTED, "half way");
    assert_null(graph);
    expect_ok(dt_cuda_graph_make(&cuda, there_and_back, &copied, &graph));
    for (int turn = 1; turn <= 5; turn++) {
        *(int *)host = turn;
        expect_ok(dt_cuda_driver_error(&cuda.driver, "launch", cuda.driver.cuGraphLaunch(graph, cuda.stream)));
        expect_ok(dt_cuda_wait(&cuda));
        assert_int_equal(*copied.to, turn);
    }
    dt_cuda_graph_free(&cuda, graph);
    dt_cuda_graph_free(&cuda, NULL);
    dt_cuda_memory_release(&memory, &cuda, copied.place);
    cuda.driver.cuMemFreeHost(host);
}

static void a_gpu_that_is_not_there_is_told_apart(void **state) {
    (void)state;
    dt_cuda other;
    expect_error(dt_cuda_open(1, &other), DT_NOT_FOUND, "cuda:1: this machine has 1 GPU, counted from 0; `dtrun devices` lists what there is");
    assert_null(other.driver.library);
}

int main(void) {
    use_fake_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_runs_what_was_captured),
        cmocka_unit_test(a_gpu_that_is_not_there_is_told_apart),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
