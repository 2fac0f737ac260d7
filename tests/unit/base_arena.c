/* arena: alignment, zeroing, growth over blocks, lists, and the guard, tried with every allocation failing once. */
#include "base/arena.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void memory_is_aligned_zeroed_and_its_own(void **state) {
    (void)state;
    enum {
        N = 2000
    };
    dt_arena *arena = dt_arena_create();
    unsigned char *pieces[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * 7 % 300);
        pieces[i] = dt_arena_new(arena, bytes);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t k = 0; k < bytes; k++) assert_int_equal(pieces[i][k], 0);
        memset(pieces[i], i & 0xff, bytes);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < (size_t)(i * 7 % 300); k++) assert_int_equal(pieces[i][k], i & 0xff);
    assert_in_range(dt_arena_bytes(arena), 290000, 330000);
    dt_arena_destroy(arena);
    dt_arena_destroy(NULL);
}

static void a_piece_may_be_larger_than_a_block(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    char *small = dt_arena_string(arena, "before");
    char *large = dt_arena_new(arena, 10 << 20);
    large[(10 << 20) - 1] = 1;
    assert_string_equal(small, "before");
    dt_arena_destroy(arena);
}

static void strings(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    assert_string_equal(dt_arena_string(arena, ""), "");
    assert_string_equal(dt_arena_substring(arena, "conv2d_1", 6), "conv2d");
    assert_string_equal(dt_arena_substring(arena, "", 0), "");
    assert_string_equal(dt_arena_format(arena, "%s_%d", "dense", 12), "dense_12");
    assert_memory_equal(dt_arena_copy(arena, (int[]){1, 2}, 2 * sizeof(int)), ((int[]){1, 2}), 2 * sizeof(int));
    dt_arena_destroy(arena);
}

static void lists_grow(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    DT_LIST(int) list = {0};
    for (int i = 0; i < 1000; i++) dt_list_push(arena, &list, i * i);
    assert_int_equal(list.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(list.items[i], i * i);
    dt_arena_destroy(arena);
}

/* Builds something of many blocks; false when memory ran out on the way. */
static bool build(dt_arena *arena) {
    jmp_buf guard;
    if (setjmp(guard)) {
        dt_arena_guard(arena, NULL);
        return false;
    }
    dt_arena_guard(arena, &guard);
    DT_LIST(char *) list = {0};
    for (int i = 0; i < 3000; i++) dt_list_push(arena, &list, dt_arena_format(arena, "value %d", i));
    dt_arena_guard(arena, NULL);
    return true;
}

static void running_out_of_memory_jumps_to_the_guard(void **state) {
    (void)state;
    int n = 0;
    for (;; n++) {
        dt_memory_fail_after(n);
        dt_arena *arena = dt_arena_create();
        bool built = arena != NULL && build(arena);
        dt_memory_fail_after(-1);
        if (arena != NULL) assert_string_equal(dt_arena_string(arena, "still usable"), "still usable");
        dt_arena_destroy(arena);
        if (built) break;
    }
    assert_in_range(n, 3, 100);
}

static void a_size_beyond_memory_jumps_too(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    jmp_buf guard;
    volatile int n_jumps = 0;
    if (setjmp(guard)) n_jumps++;
    dt_arena_guard(arena, &guard);
    if (n_jumps == 0) dt_arena_new(arena, SIZE_MAX);
    if (n_jumps == 1) dt_arena_new(arena, SIZE_MAX - 64);
    if (n_jumps == 2) DT_NEW_ARRAY(arena, double, SIZE_MAX / 4); /* the product wraps around */
    assert_int_equal(n_jumps, 3);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_zeroed_and_its_own),
        cmocka_unit_test(a_piece_may_be_larger_than_a_block),
        cmocka_unit_test(strings),
        cmocka_unit_test(lists_grow),
        cmocka_unit_test(running_out_of_memory_jumps_to_the_guard),
        cmocka_unit_test(a_size_beyond_memory_jumps_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
