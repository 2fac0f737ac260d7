/* row_sums: the bits of a table that each microbatch scatters into, and that the tree adds up. */
#include "runtime/execution/row_sums.h"

#include "base/arena.h"
#include "base/memory.h"
#include "runtime/comm/schedule.h"
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

static void assert_same(const dt_rows_part *part, float whole[TABLE_ROWS][WIDTH]) {
    static const float none[WIDTH] = {0};
    int64_t i = 0;
    for (int64_t row = 0; row < TABLE_ROWS; row++) {
        bool is_there = i < part->n && part->rows[i] == row;
        assert_memory_equal(is_there ? part->values + i * WIDTH : none, whole[row], sizeof none);
        i += is_there;
    }
    assert_int_equal(i, part->n);
}

static void add_all(dt_row_sums *sums, const batch *batch, int64_t first, int64_t end) {
    dt_rows_part part;
    dt_row_sums_clear(sums);
    for (int64_t m = first; m < end; m++) expect_ok(dt_row_sums_add(sums, batch->indices[m], batch->gradients[m][0], batch->n[m], TABLE_ROWS, &part));
}

static void sums_have_the_bits_of_the_whole_table(void **state) {
    (void)state;
    dt_row_sums *sums;
    expect_ok(dt_row_sums_create(WIDTH, &sums));
    for (int n_microbatches = 1; n_microbatches <= MOST_MICROBATCHES; n_microbatches++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            float whole[TABLE_ROWS][WIDTH];
            batch batch = make_batch(seed, n_microbatches);
            add_naively(&batch, n_microbatches, whole);
            add_all(sums, &batch, 0, n_microbatches);
            dt_rows_part part = dt_row_sums_reduce(sums, 0, n_microbatches);
            assert_same(&part, whole);
        }
    dt_row_sums_destroy(sums);
}

/* Two have a run of the microbatches each, and add up what they can; a third one adds up the rest. */
static void whoever_adds_up_gets_the_same_bits(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_row_sums *own, *all;
    expect_ok(dt_row_sums_create(WIDTH, &own));
    expect_ok(dt_row_sums_create(WIDTH, &all));
    for (int64_t n = 2; n <= MOST_MICROBATCHES; n++)
        for (int64_t cut = 1; cut < n; cut++) {
            float whole[TABLE_ROWS][WIDTH];
            batch batch = make_batch((uint64_t)(n * 100 + cut), (int)n);
            add_naively(&batch, (int)n, whole);
            dt_row_sums_clear(all);
            for (int half = 0; half < 2; half++) {
                int64_t first = half == 0 ? 0 : cut, end = half == 0 ? cut : n;
                int n_nodes;
                const dt_schedule_node *nodes = dt_schedule_nodes(first, end, n, arena, &n_nodes);
                add_all(own, &batch, first, end);
                for (int k = 0; k < n_nodes; k++) {
                    dt_rows_part part = dt_row_sums_reduce(own, nodes[k].first - first, nodes[k].span);
                    expect_ok(dt_row_sums_put(all, nodes[k].span, &part));
                }
            }
            dt_rows_part part = dt_row_sums_reduce(all, 0, n);
            assert_same(&part, whole);
        }
    dt_row_sums_destroy(own);
    dt_row_sums_destroy(all);
    dt_arena_destroy(arena);
}

static void without_memory_there_is_an_error(void **state) {
    (void)state;
    batch batch = make_batch(1, 1);
    dt_row_sums *sums;
    dt_rows_part part;
    expect_ok(dt_row_sums_create(WIDTH, &sums));
    for (int64_t n = 0; n < 6; n++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_row_sums_add(sums, batch.indices[0], batch.gradients[0][0], batch.n[0], TABLE_ROWS, &part);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        expect_error(status, DT_RESOURCE_EXHAUSTED, "memory");
    }
    add_all(sums, &batch, 0, 1);
    dt_row_sums_destroy(sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_have_the_bits_of_the_whole_table), cmocka_unit_test(whoever_adds_up_gets_the_same_bits),
                                       cmocka_unit_test(without_memory_there_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
