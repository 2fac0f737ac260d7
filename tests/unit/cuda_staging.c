/* cuda_staging: what crosses between host and GPU in a step, and graphs, by the fake of the driver: where things lie, what arrives, and what is left
 * when something fails. */
#include "runtime/devices/cuda/graph.h"
#include "runtime/devices/cuda/memory.h"
#include "runtime/devices/cuda/staging.h"
#include "tests/support/fake_driver.h"

static const dt_cuda_staging_layout layout = {.n_launches = 3, .n_aggregates = 2, .input_bytes = 1000};

static dt_cuda_memory memory;

static void open_staging(dt_cuda_staging *staging) {
    uint64_t device;
    dt_cuda_staging_lay_out(staging, layout);
    expect_ok(dt_cuda_memory_reserve(&memory, &cuda, staging->device_bytes));
    expect_ok(dt_cuda_memory_take(&memory, &cuda, staging->device_bytes, &device));
    expect_ok(dt_cuda_staging_open(staging, &cuda, device));
}

static void close_staging(dt_cuda_staging *staging) {
    dt_cuda_staging_close(staging, &cuda);
    dt_cuda_staging_close(staging, &cuda);
    dt_cuda_memory_close(&memory, &cuda);
}

/* What a step's graph does here: down, one aggregate from the launch values of launch 1, up. */
static dt_status *small_step(void *context) {
    const dt_cuda_staging *staging = context;
    DT_TRY(dt_cuda_staging_send(staging, &cuda));
    DT_CUDA_TRY(&cuda, cuMemcpyDtoDAsync_v2, staging->aggregates + 8, dt_cuda_staging_launch(staging, 1) + offsetof(dt_launch, counter), 8,
                cuda.stream);
    DT_CUDA_TRY(&cuda, cuMemcpyDtoDAsync_v2, staging->aggregates, staging->slots[1].inputs + 992, 8, cuda.stream);
    return dt_cuda_staging_fetch(staging, &cuda);
}

static void a_step_reads_what_was_sent_and_leaves_what_is_fetched(void **state) {
    (void)state;
    dt_cuda_staging staging;
    void *graph;
    open_staging(&staging);
    assert_int_equal(staging.slots[0].inputs % 256, 0);
    assert_int_equal(staging.slots[1].inputs % 256, 0);
    assert_true(staging.slots[1].inputs >= staging.slots[0].inputs + 1000);
    expect_ok(dt_cuda_graph_make(&cuda, small_step, &staging, &graph));
    for (int64_t step = 0; step < 5; step++) { /* the graph is the same; what it reads is not */
        int64_t input = 100 + step;
        memcpy(staging.slots[1].host + 992, &input, sizeof input);
        staging.host_launches[1].counter = 7 * step;
        dt_cuda_staging_point(&staging);
        expect_ok(dt_cuda_staging_copy(&staging, &cuda, 1, 1000));
        expect_ok(dt_cuda_driver_error(&cuda.driver, "wait", cuda.driver.cuStreamWaitEvent(cuda.stream, staging.slots[1].copied, 0)));
        expect_ok(dt_cuda_driver_error(&cuda.driver, "launch", cuda.driver.cuGraphLaunch(graph, cuda.stream)));
        expect_ok(dt_cuda_wait(&cuda));
        assert_int_equal(staging.host_aggregates[0], input);
        assert_int_equal(staging.host_aggregates[1], 7 * step);
        for (int l = 0; l < 3; l++) assert_int_equal(staging.host_bad_index[l].count, 0);
    }
    dt_cuda_graph_free(&cuda, graph);
    dt_cuda_graph_free(&cuda, NULL);
    close_staging(&staging);
}

/* A record for each launch, on the GPU, none of them another's. */
static void each_launch_has_a_record_of_its_own(void **state) {
    (void)state;
    dt_cuda_staging staging;
    open_staging(&staging);
    dt_cuda_staging_point(&staging);
    for (int l = 0; l < 3; l++) {
        uint64_t record = (uint64_t)(uintptr_t)staging.host_launches[l].bad_index;
        assert_int_equal(record, staging.device + 3 * sizeof(dt_launch) + (size_t)l * sizeof(dt_bad_index));
        assert_true(record + sizeof(dt_bad_index) <= staging.aggregates);
    }
    assert_true(staging.aggregates + 16 <= staging.slots[0].inputs);
    close_staging(&staging);
}

static dt_status *fails(void *context) {
    DT_TRY(dt_cuda_staging_send(context, &cuda));
    return dt_error(DT_ABORTED, "half way");
}

static void a_capture_that_fails_leaves_the_stream_as_it_was(void **state) {
    (void)state;
    dt_cuda_staging staging;
    void *graph = &staging;
    open_staging(&staging);
    expect_error(dt_cuda_graph_make(&cuda, fails, &staging, &graph), DT_ABORTED, "half way");
    assert_null(graph);
    expect_ok(dt_cuda_graph_make(&cuda, small_step, &staging, &graph));
    dt_cuda_graph_free(&cuda, graph);
    close_staging(&staging);
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
        cmocka_unit_test(a_step_reads_what_was_sent_and_leaves_what_is_fetched),
        cmocka_unit_test(each_launch_has_a_record_of_its_own),
        cmocka_unit_test(a_capture_that_fails_leaves_the_stream_as_it_was),
        cmocka_unit_test(a_gpu_that_is_not_there_is_told_apart),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
