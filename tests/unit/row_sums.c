/* row_sums: the bits of a table that each microbatch scatters into, and that the tree adds up. */
#include "runtime/execution/row_sums.h"

#include "base/memory.h"
#include "runtime/devices/reduce.h"
#include "tests/support/expect.h"

enum {
    TABLE_ROWS = 23,
    WIDTH = 3,
    MOST_MICROBATCHES = 9,
    MOST_ROWS = 7 /* of a microbatch */
};

typedef struct batch {
    int64_t n[MOST_MICROBATCHES], indices[MOST_MICROBATCHES][MOST_ROWS];
    float gradients[MOST_MICROBATCHES][MOST_ROWS][WIDTH];
} batch;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

/* Rows that come often, some that do not exist, and zeros of both signs. */
static batch make_batch(uint64_t seed, int n_microbatches) {
    batch made = {0};
    for (int m = 0; m < n_microbatches; m++) {
        made.n[m] = (int64_t)(next(&seed) % (MOST_ROWS + 1));
        for (int64_t i = 0; i < made.n[m]; i++) {
            made.indices[m][i] = (int64_t)(next(&seed) % 9) * 3 - 1;
            for (int k = 0; k < WIDTH; k++) {
                float value = (float)((double)next(&seed) / 1e9 - 1);
                made.gradients[m][i][k] = next(&seed) % 5 == 0 ? -0.0F : value;
            }
        }
    }
    return made;
}

/* With all of the table. */
static void add_naively(const batch *batch, int n_microbatches, float sum[TABLE_ROWS][WIDTH]) {
    static float leaves[MOST_MICROBATCHES][TABLE_ROWS][WIDTH];
    _Alignas(64) static char scratch[1 << 16];
    dt_tree_source sources[MOST_MICROBATCHES];
    memset(leaves, 0, sizeof leaves);
    for (int m = 0; m < n_microbatches; m++) {
        sources[m] = (dt_tree_source){leaves[m], 1};
        for (int64_t i = 0; i < batch->n[m]; i++) {
            int64_t row = batch->indices[m][i];
            for (int k = 0; k < WIDTH && row >= 0 && row < TABLE_ROWS; k++) leaves[m][row][k] += batch->gradients[m][i][k];
        }
    }
    assert_true(dt_reduce_scratch_bytes(n_microbatches) <= sizeof scratch);
    dt_reduce(&(dt_tree_reduction){.dtype = DT_F32,
                                   .combine = DT_REDUCTION_SUM,
                                   .n_leaves = n_microbatches,
                                   .n_sources = n_microbatches,
                                   .sources = sources,
                                   .n_elements = TABLE_ROWS * WIDTH,
                                   .n_targets = 1,
                                   .targets = (void *[]){sum}},
              scratch);
}

static void sums_have_the_bits_of_the_whole_table(void **state) {
    (void)state;
    for (int n_microbatches = 1; n_microbatches <= MOST_MICROBATCHES; n_microbatches++) {
        dt_row_sums *sums;
        expect_ok(dt_row_sums_create(n_microbatches, (int64_t)n_microbatches * MOST_ROWS, WIDTH, &sums));
        for (uint64_t seed = 0; seed < 200; seed++) {
            float whole[TABLE_ROWS][WIDTH];
            batch batch = make_batch(seed, n_microbatches);
            add_naively(&batch, n_microbatches, whole);
            dt_row_sums_begin(sums);
            for (int m = 0; m < n_microbatches; m++) dt_row_sums_add(sums, batch.indices[m], batch.gradients[m][0], batch.n[m], TABLE_ROWS);
            dt_rows_part part = dt_row_sums_end(sums);
            for (int64_t row = 0, i = 0; row < TABLE_ROWS; row++) {
                bool is_there = i < part.n && part.rows[i] == row;
                static const float none[WIDTH] = {0};
                assert_memory_equal(is_there ? part.values + i * WIDTH : none, whole[row], sizeof whole[row]);
                i += is_there;
            }
        }
        dt_row_sums_destroy(sums);
    }
}

static void without_memory_there_is_an_error(void **state) {
    (void)state;
    for (int64_t n = 0; n < 8; n++) {
        dt_row_sums *sums;
        dt_memory_fail_after(n);
        dt_status *status = dt_row_sums_create(4, 100, 8, &sums);
        dt_memory_fail_after(-1);
        expect_error(status, DT_RESOURCE_EXHAUSTED, "");
        assert_null(sums);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_have_the_bits_of_the_whole_table), cmocka_unit_test(without_memory_there_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
