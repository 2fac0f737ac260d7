/* partial_sums: whatever microbatches an executor has, what it adds up is of the fixed tree, in slots that nobody else needs, and few of them. */
#include "runtime/execution/partial_sums.h"

#include "runtime/devices/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    MOST_LEAVES = 40
};

/* Whether [first, first + n) is a node of the tree over [start, start + all). */
static bool is_node(int first, int n, int start, int all) {
    if (first == start && n == all) return true;
    if (all < 2) return false;
    int left = 1;
    while (left < all - left) left *= 2;
    return first + n <= start + left ? is_node(first, n, start, left) : first >= start + left && is_node(first, n, start + left, all - left);
}

/* Leaves as sets of bits: what lies in a slot says which leaves it is the sum of. */
static void check(int first, int n, int n_together, int n_at_once, int n_all) {
    dt_arena *arena = dt_arena_create();
    dt_partial_sums sums = dt_partial_sums_plan(arena, first, n, n_together, n_at_once, n_all);
    uint64_t slots[MOST_LEAVES] = {0};
    int at = 0, depth = 1;
    while (1 << depth < n) depth++;
    int room = n_together - 1 + n_at_once - 1; /* more than the tree alone needs */
    assert_true(sums.n_slots <= 2 * (depth + 1) + room && (first != 0 || sums.n_slots <= depth + 1 + room));
    for (int leaf = 0; leaf < n; leaf++) {
        int begun = leaf == 0 ? 0 : leaf + n_at_once - 1; /* as early as can be */
        for (; begun < n && begun < leaf + n_at_once; begun++)
            slots[sums.slots[begun]] = (uint64_t)1 << begun; /* a free one: else leaves are missing in the end */
        for (; at < sums.n_merges && sums.merges[at].after == leaf; at++) {
            slots[sums.merges[at].left] |= slots[sums.merges[at].right];
            slots[sums.merges[at].right] = 0;
        }
    }
    assert_int_equal(at, sums.n_merges);
    for (int leaf = n - n_together; leaf < n; leaf++) assert_int_equal(sums.spans[leaf], 1);
    for (int leaf = 0; leaf < n; leaf += sums.spans[leaf]) {
        assert_true(sums.spans[leaf] > 0 && is_node(first + leaf, sums.spans[leaf], 0, n_all));
        assert_true(slots[sums.slots[leaf]] == (((uint64_t)1 << sums.spans[leaf]) - 1) << leaf);
        for (int in = leaf + 1; in < leaf + sums.spans[leaf]; in++) assert_int_equal(sums.spans[in], 0);
    }
    dt_arena_destroy(arena);
}

static void executors_add_up_nodes_of_the_tree(void **state) {
    (void)state;
    for (int n_all = 1; n_all <= MOST_LEAVES; n_all++)
        for (int first = 0; first < n_all; first++)
            for (int n = 1; first + n <= n_all; n++)
                for (int n_together = 1; n_together <= n && n_together <= 4; n_together++)
                    for (int n_at_once = 1; n_at_once <= 5; n_at_once += 2) check(first, n, n_together, n_at_once, n_all);
}

static void the_last_additions_are_left_to_the_exchange(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_partial_sums two = dt_partial_sums_plan(arena, 0, 2, 1, 1, 2), eight = dt_partial_sums_plan(arena, 8, 8, 1, 1, 32);
    assert_int_equal(two.n_merges, 0);
    assert_int_equal(two.n_slots, 2);
    assert_int_equal(eight.n_merges, 4); /* 8+9, 10+11, 8..11, 12+13 */
    assert_int_equal(eight.n_slots, 4);
    assert_int_equal(eight.spans[0], 4);
    assert_int_equal(eight.spans[4], 2);
    dt_arena_destroy(arena);
}

static void add_up(int n_sources, const dt_tree_source *sources, int n_leaves, float *target) {
    _Alignas(64) static char scratch[1 << 16];
    void *targets[] = {target};
    assert_true(dt_reduce_scratch_bytes(n_leaves) <= sizeof scratch);
    dt_reduce(&(dt_tree_reduction){.dtype = DT_F32,
                                   .combine = DT_REDUCTION_SUM,
                                   .n_leaves = n_leaves,
                                   .n_sources = n_sources,
                                   .sources = sources,
                                   .n_elements = 1,
                                   .n_targets = 1,
                                   .targets = targets},
              scratch);
}

/* Floats whose sums depend on their order: folding on the way changes no bit. */
static void sums_on_the_way_have_the_bits_of_the_tree(void **state) {
    (void)state;
    for (int n = 1; n <= MOST_LEAVES; n++) {
        dt_arena *arena = dt_arena_create();
        dt_partial_sums sums = dt_partial_sums_plan(arena, 0, n, n % 3 + 1 < n ? n % 3 + 1 : n, 1, n);
        float leaves[MOST_LEAVES], slots[MOST_LEAVES], whole, on_the_way;
        dt_tree_source all[MOST_LEAVES], kept[MOST_LEAVES];
        int n_kept = 0;
        for (int leaf = 0, at = 0; leaf < n; leaf++) {
            leaves[leaf] = slots[sums.slots[leaf]] = 1 / (float)(leaf * 7 % 11 + 1);
            all[leaf] = (dt_tree_source){&leaves[leaf], 1};
            for (; at < sums.n_merges && sums.merges[at].after == leaf; at++) {
                float *left = &slots[sums.merges[at].left];
                add_up(2, (dt_tree_source[]){{left, 1}, {&slots[sums.merges[at].right], 1}}, 2, left);
            }
        }
        for (int leaf = 0; leaf < n; leaf++)
            if (sums.spans[leaf] > 0) kept[n_kept++] = (dt_tree_source){&slots[sums.slots[leaf]], sums.spans[leaf]};
        add_up(n, all, n, &whole);
        add_up(n_kept, kept, n, &on_the_way);
        assert_memory_equal(&whole, &on_the_way, sizeof whole);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executors_add_up_nodes_of_the_tree),
        cmocka_unit_test(the_last_additions_are_left_to_the_exchange),
        cmocka_unit_test(sums_on_the_way_have_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
