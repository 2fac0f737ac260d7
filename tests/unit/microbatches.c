/* microbatches: whatever a program costs, how many rows are run at once keeps to some rules. The numbers that the rules leave open are one machine's.
 */
#include "compiler/kernel/microbatches.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    MOST_CAPACITY = 3000,
    CORES = 16 /* that a replica alone is to keep busy */
};

static int64_t next_capacity(int64_t capacity) { return capacity + (capacity < 100 ? 1 : 37); }

/* Arithmetic from nothing to 16 TFLOP a row, what crosses and activations from nothing to 1 GB: a fourth of it at a time. */
static const double sizes[] = {0, 1, 1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 30};
enum {
    N_SIZES = sizeof sizes / sizeof *sizes
};

static dt_microbatch_costs costs_at(int flops, int crossing, int activation) {
    return (dt_microbatch_costs){16 * 1024 * sizes[flops], sizes[crossing], sizes[activation]};
}

/* Calls `check` for each capacity and all costs. */
static void for_all(void (*check)(int64_t capacity, int flops, int crossing, int activation)) {
    for (int64_t capacity = 1; capacity < MOST_CAPACITY; capacity = next_capacity(capacity))
        for (int i = 0; i < N_SIZES * N_SIZES * N_SIZES; i++) check(capacity, i / N_SIZES / N_SIZES, i / N_SIZES % N_SIZES, i % N_SIZES);
}

static int64_t rows_of(int64_t capacity, int flops, int crossing, int activation) {
    dt_microbatch_costs costs = costs_at(flops, crossing, activation);
    return dt_microbatch_rows(capacity, &costs);
}

static void check_even(int64_t capacity, int flops, int crossing, int activation) {
    int64_t rows = rows_of(capacity, flops, crossing, activation), n = dt_microbatches_of(capacity, rows);
    assert_true(rows >= 1 && rows <= capacity && (n & (n - 1)) == 0);
    assert_int_equal(rows, (capacity + n - 1) / n);
}

static void microbatches_are_a_power_of_two_and_even(void **state) {
    (void)state;
    for_all(check_even);
}

static void check_monotone(int64_t capacity, int flops, int crossing, int activation) {
    int64_t rows = rows_of(capacity, flops, crossing, activation);
    if (flops + 1 < N_SIZES) assert_true(rows_of(capacity, flops + 1, crossing, activation) <= rows);
    if (crossing + 1 < N_SIZES) assert_true(rows_of(capacity, flops, crossing + 1, activation) >= rows);
    if (activation + 1 < N_SIZES) assert_true(rows_of(capacity, flops, crossing, activation + 1) <= rows);
}

static void more_work_means_fewer_rows_and_more_crossing_means_more(void **state) {
    (void)state;
    for_all(check_monotone);
}

static void much_work_keeps_all_cores_busy(void **state) {
    (void)state;
    const dt_microbatch_costs sequence = {4e9, 1e6, 1e7}; /* a row of 512 tokens */
    for (int64_t capacity = 1; capacity < MOST_CAPACITY; capacity = next_capacity(capacity)) {
        int64_t rows = dt_microbatch_rows(capacity, &sequence), n = (capacity + rows - 1) / rows;
        assert_true(2 * n > (capacity < CORES ? capacity : CORES)); /* microbatches that are even may be as few as that */
    }
    for (int64_t rows = 1; rows <= CORES; rows *= 2) assert_int_equal(dt_microbatch_rows(rows, &sequence), 1);
}

/* Two microbatches would do the work of a sum of all gradients twice, and little else. */
static void what_crosses_in_memory_keeps_a_replica_whole(void **state) {
    (void)state;
    const dt_microbatch_costs dense = {6 * 10.8e6, 4 * 10.8e6, 4096}; /* each parameter in three products, and its gradient crosses */
    for (int64_t rows = 1; rows <= 64; rows++) assert_int_equal(dt_microbatch_rows(rows, &dense), rows);
    assert_true(dt_microbatch_rows(512, &dense) < 512);
}

/* Where a sum and what is added to it outgrow the third level, twice the rows have half the additions. */
static void what_crosses_beyond_all_caches_takes_more_rows(void **state) {
    (void)state;
    const dt_microbatch_costs within = {0.8e9, 16 << 20, 1e7}, beyond = {0.8e9, 17 << 20, 1e7};
    assert_int_equal(dt_microbatch_rows(32, &within), 4);
    assert_int_equal(dt_microbatch_rows(32, &beyond), 8);
}

static void little_work_is_not_parted_for_cores(void **state) {
    (void)state;
    const dt_microbatch_costs perceptron = {410629, 407616, 1160};
    assert_int_equal(dt_microbatch_rows(8, &perceptron), 8);
    assert_true(dt_microbatch_rows(64, &perceptron) < 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microbatches_are_a_power_of_two_and_even),
        cmocka_unit_test(more_work_means_fewer_rows_and_more_crossing_means_more),
        cmocka_unit_test(much_work_keeps_all_cores_busy),
        cmocka_unit_test(what_crosses_in_memory_keeps_a_replica_whole),
        cmocka_unit_test(what_crosses_beyond_all_caches_takes_more_rows),
        cmocka_unit_test(little_work_is_not_parted_for_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
