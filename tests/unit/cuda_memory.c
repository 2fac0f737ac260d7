/* cuda_memory: what a session holds on a GPU, by the fake of the driver: one allocation, cut into pieces; or piece by piece, where that is asked for.
 */
#include "runtime/devices/cuda/memory.h"
#include "tests/support/fake_driver.h"

static size_t free_bytes(void) {
    size_t n, all;
    assert_int_equal(cuda.driver.cuMemGetInfo_v2(&n, &all), 0);
    return n;
}

static uint64_t take(dt_cuda_memory *memory, size_t bytes) {
    uint64_t piece;
    expect_ok(dt_cuda_memory_take(memory, &cuda, bytes, &piece));
    return piece;
}

static void assert_zeros(uint64_t place, size_t bytes) {
    char *found = malloc(bytes);
    memset(found, 1, bytes);
    assert_int_equal(cuda.driver.cuMemcpyDtoHAsync_v2(found, place, bytes, cuda.stream), 0);
    expect_ok(dt_cuda_wait(&cuda));
    for (size_t i = 0; i < bytes; i++) assert_int_equal(found[i], 0);
    free(found);
}

static void pieces_are_cut_from_one_allocation(void **state) {
    (void)state;
    dt_cuda_memory memory = {0};
    size_t before = free_bytes();
    uint64_t other;
    expect_ok(dt_cuda_memory_reserve(&memory, &cuda, 4 * 256));
    uint64_t first = take(&memory, 1), second = take(&memory, 257), third = take(&memory, 256);
    assert_int_equal(first % 256, 0);
    assert_int_equal(second, first + 256);
    assert_int_equal(third, second + 512);
    assert_zeros(first, 4 * 256);
    assert_int_equal(free_bytes(), before - 4 * 256);
    expect_error(dt_cuda_memory_take(&memory, &cuda, 1, &other), DT_INTERNAL, "1 bytes of a GPU's memory are taken where 0 are left of 1024");
    assert_int_equal(other, 0);
    dt_cuda_memory_release(&memory, &cuda, second);
    assert_int_equal(free_bytes(), before - 4 * 256);
    dt_cuda_memory_close(&memory, &cuda);
    dt_cuda_memory_close(&memory, &cuda);
    assert_int_equal(free_bytes(), before);
}

static void pieces_lie_apart_where_that_is_asked_for(void **state) {
    (void)state;
    dt_cuda_memory memory = {0};
    size_t before = free_bytes();
    setenv("DT_CUDA_CHECK", "memory", 1);
    assert_true(dt_cuda_checks(DT_CUDA_CHECK_MEMORY));
    assert_false(dt_cuda_checks(DT_CUDA_CHECK_KERNELS));
    expect_ok(dt_cuda_memory_reserve(&memory, &cuda, 2 * 256));
    assert_int_equal(free_bytes(), before);
    uint64_t first = take(&memory, 100), second = take(&memory, 256);
    unsetenv("DT_CUDA_CHECK");
    assert_true(second >= first + 4096 || first >= second + 4096); /* the fake leaves a closed page between allocations */
    assert_zeros(first, 100);
    assert_int_equal(free_bytes(), before - 356);
    dt_cuda_memory_release(&memory, &cuda, first);
    dt_cuda_memory_release(&memory, &cuda, 0);
    dt_cuda_memory_close(&memory, &cuda);
    dt_cuda_memory_release(&memory, &cuda, second);
    assert_int_equal(free_bytes(), before);
}

static void what_is_asked_for_is_a_word(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool memory, kernels;
    } cases[] = {{"", false, false}, {"0", false, false}, {"memory", true, false}, {"1", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("DT_CUDA_CHECK", cases[i].text, 1);
        assert_int_equal(dt_cuda_checks(DT_CUDA_CHECK_MEMORY), cases[i].memory);
        assert_int_equal(dt_cuda_checks(DT_CUDA_CHECK_KERNELS), cases[i].kernels);
    }
    unsetenv("DT_CUDA_CHECK");
    assert_false(dt_cuda_checks(DT_CUDA_CHECK_MEMORY));
}

static void too_much_is_refused(void **state) {
    (void)state;
    dt_cuda_memory memory = {0};
    size_t before = free_bytes();
    expect_error(dt_cuda_memory_reserve(&memory, &cuda, before + 1), DT_RESOURCE_EXHAUSTED, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY");
    assert_int_equal(memory.bytes, 0);
    expect_ok(dt_cuda_memory_reserve(&memory, &cuda, 256));
    dt_cuda_memory_close(&memory, &cuda);
    assert_int_equal(free_bytes(), before);
}

int main(void) {
    use_fake_driver();
    unsetenv("DT_CUDA_CHECK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_cut_from_one_allocation),
        cmocka_unit_test(pieces_lie_apart_where_that_is_asked_for),
        cmocka_unit_test(what_is_asked_for_is_a_word),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
