/* blocks: how many rows are run at once, for programs of all sizes. */
#include "compiler/blocks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Dense layers: each parameter is read in three products, and its gradient crosses in f32. */
static dt_block_costs dense(double n_parameters) { return (dt_block_costs){6 * n_parameters, 4 * n_parameters, 4096}; }

static void what_crosses_in_the_cache_leaves_blocks_small(void **state) {
    (void)state;
    dt_block_costs perceptron = {410629, 407616, 1160}, cnn = {53.6e6, 426688, 300e3}, none = {1e3, 8, 64};
    assert_int_equal(dt_block_rows(32, &perceptron), 16);
    assert_int_equal(dt_block_rows(64, &cnn), 16);
    assert_int_equal(dt_block_rows(64, &none), 16);
}

static void what_crosses_in_memory_makes_them_large(void **state) {
    (void)state;
    static const struct {
        double n_parameters;
        int64_t capacity, rows;
    } cases[] = {{0.27e6, 64, 32}, {0.54e6, 64, 32}, {2.4e6, 64, 64}, {10.8e6, 64, 64}, {10.8e6, 512, 128}, {10.8e6, 1000, 125}, {1e9, 512, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_block_costs costs = dense(cases[i].n_parameters);
        assert_int_equal(dt_block_rows(cases[i].capacity, &costs), cases[i].rows);
    }
}

static void many_rows_fill_the_cache_when_all_cores_have_some(void **state) {
    (void)state;
    dt_block_costs small = {1e3, 8, 64}, large = {1e6, 8, 1 << 20}, none = {1e3, 8, 0};
    assert_int_equal(dt_block_rows(256, &small), 16);
    assert_int_equal(dt_block_rows(1024, &small), 64);
    assert_int_equal(dt_block_rows(1 << 20, &small), 8192); /* 512 KiB of activations */
    assert_int_equal(dt_block_rows(1 << 20, &none), 65536);
    assert_int_equal(dt_block_rows(1024, &large), 16);
}

/* Whatever the capacity, blocks are a power of two, as even as can be, and none is larger than it need be. */
static void blocks_are_even(void **state) {
    (void)state;
    dt_block_costs costs[] = {dense(1e4), dense(1e6), {0, 0, 0}, {0, 1e9, 1e9}};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        for (int64_t capacity = 1; capacity < 3000; capacity += capacity < 100 ? 1 : 37) {
            int64_t rows = dt_block_rows(capacity, &costs[i]), n = dt_blocks_of(capacity, rows);
            assert_true(rows >= 1 && rows <= capacity && (n & (n - 1)) == 0);
            assert_int_equal(rows, (capacity + n - 1) / n);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_crosses_in_the_cache_leaves_blocks_small),
        cmocka_unit_test(what_crosses_in_memory_makes_them_large),
        cmocka_unit_test(many_rows_fill_the_cache_when_all_cores_have_some),
        cmocka_unit_test(blocks_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
