/* buckets: every byte of every tensor is in one range, what is complete first is in the first bucket, and buckets and pieces have the sizes that
 * they are to have. */
#include "runtime/comm/buckets.h"

#include "runtime/comm/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    MIB = 1 << 20,
    MOST_TENSORS = 200
};

/* Ranges of a tensor come in order, so that it is enough to know how far they have come. */
static void check_pieces(const dt_bucket *bucket, const dt_bucket_tensor *tensors, int n_processes, int64_t *covered) {
    for (int p = 0; p < bucket->n_pieces; p++) {
        const dt_piece *piece = &bucket->pieces[p];
        int64_t end = 0;
        assert_in_range(piece->n_bytes, 1, dt_piece_bytes(n_processes));
        for (int r = 0; r < piece->n_ranges; r++) {
            const dt_bucket_range *range = &piece->ranges[r];
            assert_true(range->first == covered[range->tensor] && range->n_bytes > 0);
            assert_true(range->at >= end && range->at < end + DT_SCHEDULE_UNIT && range->at % DT_SCHEDULE_UNIT == 0);
            assert_true(tensors[range->tensor].complete_after <= bucket->complete_after);
            assert_int_equal(tensors[range->tensor].kind, tensors[piece->ranges[0].tensor].kind);
            covered[range->tensor] += range->n_bytes;
            end = range->at + range->n_bytes;
        }
        assert_int_equal(piece->n_bytes, end);
    }
}

static int64_t bytes_of(const dt_bucket *bucket) {
    int64_t n = 0;
    for (int p = 0; p < bucket->n_pieces; p++) n += bucket->pieces[p].n_bytes;
    return n;
}

/* How many buckets there are. */
static int check(const dt_bucket_tensor *tensors, int n, int n_processes) {
    dt_arena *arena = dt_arena_create();
    int64_t covered[MOST_TENSORS] = {0}, piece_bytes = dt_piece_bytes(n_processes);
    int n_buckets;
    const dt_bucket *buckets = dt_buckets_of(tensors, n, piece_bytes, arena, &n_buckets);
    for (int b = 0; b < n_buckets; b++) {
        assert_true(b == 0 || buckets[b].complete_after > buckets[b - 1].complete_after);
        assert_true(b == n_buckets - 1 || bytes_of(&buckets[b]) >= (piece_bytes > DT_BUCKET_BYTES ? piece_bytes : DT_BUCKET_BYTES));
        check_pieces(&buckets[b], tensors, n_processes, covered);
    }
    for (int i = 0; i < n; i++) assert_int_equal(covered[i], tensors[i].n_bytes);
    dt_arena_destroy(arena);
    return n_buckets;
}

static void buckets_are_small(void **state) {
    (void)state;
    const dt_bucket_tensor tensors[] = {{30 * MIB, 9, 0}, {10, 1, 0}, {MIB, 3, 0}, {24 * MIB, 5, 1}, {7 * MIB + 4, 4, 0}, {8, 9, 0}};
    assert_int_equal(check(tensors, 6, 2), 4);  /* 10 B + 1 MiB, 7 MiB, 24 MiB, 30 MiB */
    assert_int_equal(check(tensors, 6, 32), 3); /* pieces are of 4 MiB: 8 MiB, 24 MiB, 30 MiB */
    assert_int_equal(check(tensors + 1, 1, 3), 1);
    assert_int_equal(check(tensors, 0, 2), 0);
}

/* A bucket of a device has one piece of each kind. */
static void pieces_may_be_whole(void **state) {
    (void)state;
    const dt_bucket_tensor tensors[] = {{30 * MIB, 9, 0}, {10, 1, 2}, {MIB, 3, 0}, {24 * MIB, 3, 2}, {8, 9, 0}, {8, 3, 2}};
    dt_arena *arena = dt_arena_create();
    int n_buckets;
    const dt_bucket *buckets = dt_buckets_of(tensors, 6, DT_WHOLE_PIECES, arena, &n_buckets);
    assert_int_equal(n_buckets, 2);
    assert_int_equal(buckets[0].n_pieces, 3); /* of kind 2 what is complete first, then kind 0, then the rest of kind 2 */
    assert_int_equal(buckets[0].pieces[2].n_ranges, 2);
    assert_int_equal(buckets[1].n_pieces, 1);
    assert_int_equal(buckets[1].pieces[0].n_bytes, 30 * MIB + 8);
    dt_arena_destroy(arena);
}

static void all_sizes_are_covered(void **state) {
    (void)state;
    dt_bucket_tensor tensors[MOST_TENSORS];
    for (int seed = 1; seed < 50; seed++) {
        for (int i = 0; i < MOST_TENSORS; i++) {
            unsigned mixed = (unsigned)(seed * MOST_TENSORS + i) * 2654435761u;
            tensors[i] = (dt_bucket_tensor){1 + (mixed >> 8) % (1u << (mixed >> 27) % 23), (int)(mixed % 7), (int)(mixed / 7 % 3)};
        }
        check(tensors, seed * 4, seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_small),
        cmocka_unit_test(pieces_may_be_whole),
        cmocka_unit_test(all_sizes_are_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
