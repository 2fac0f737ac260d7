/* base_names: names are found by their numbers, however many there are; the first number stays. */
#include "base/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void a_thousand_names(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_names names = {0};
    assert_int_equal(dt_names_find(&names, "name0"), -1);
    for (int i = 0; i < 1000; i++) dt_names_add(arena, &names, dt_arena_format(arena, "name%d", i), i);
    for (int i = 0; i < 1000; i++) dt_names_add(arena, &names, dt_arena_format(arena, "name%d", i), 1000 + i);
    assert_int_equal(names.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(dt_names_find(&names, dt_arena_format(arena, "name%d", i)), i);
    assert_int_equal(dt_names_find(&names, "name1000"), -1);
    assert_int_equal(dt_names_find(&names, ""), -1);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
