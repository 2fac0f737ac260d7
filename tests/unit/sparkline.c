/* sparkline: heights, how many columns, what is left out. */
#include "runtime/commands/sparkline.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>

static void assert_line(const dt_sparkline *line, const char *wanted) {
    dt_text text = {0};
    dt_text_append(&text, "");
    dt_sparkline_append(line, &text);
    assert_string_equal(text.data, wanted);
    dt_text_free(&text);
}

static void heights_go_from_the_least_to_the_most(void **state) {
    (void)state;
    dt_sparkline line = {0};
    for (int i = 0; i < 8; i++) dt_sparkline_add(&line, 7 - i);
    assert_line(&line, "█▇▆▅▄▃▂▁");
    line = (dt_sparkline){0};
    for (int i = 0; i < 3; i++) dt_sparkline_add(&line, 0.25);
    assert_line(&line, "▁▁▁");
}

static void fewer_than_two_values_are_no_line(void **state) {
    (void)state;
    dt_sparkline line = {0};
    assert_line(&line, "");
    dt_sparkline_add(&line, 1);
    dt_sparkline_add(&line, NAN);
    dt_sparkline_add(&line, INFINITY);
    assert_line(&line, "");
}

static void columns_become_means_when_they_are_full(void **state) {
    (void)state;
    dt_sparkline line = {0};
    for (int i = 0; i < 2 * DT_SPARKLINE_COLUMNS; i++) dt_sparkline_add(&line, i);
    assert_int_equal(line.n, DT_SPARKLINE_COLUMNS);
    assert_true(line.columns[0] == 0.5 && line.columns[DT_SPARKLINE_COLUMNS - 1] == 2 * DT_SPARKLINE_COLUMNS - 1.5);
    dt_sparkline_add(&line, 100); /* three more make a column of four */
    assert_int_equal(line.n, DT_SPARKLINE_COLUMNS / 2);
    assert_true(line.columns[0] == 1.5);
    for (int i = 0; i < 3; i++) dt_sparkline_add(&line, 100);
    assert_true(line.n == DT_SPARKLINE_COLUMNS / 2 + 1 && line.columns[DT_SPARKLINE_COLUMNS / 2] == 100);
}

/* A mean of numbers that are this large may be no number. */
static void a_range_that_is_too_wide_is_flat(void **state) {
    (void)state;
    dt_sparkline line = {0};
    for (int i = 0; i < 2 * DT_SPARKLINE_COLUMNS + 2; i++) dt_sparkline_add(&line, i % 4 < 2 ? 1.7e308 : -1.7e308);
    dt_text text = {0};
    dt_sparkline_append(&line, &text);
    assert_int_equal(text.n, line.n * strlen("▁"));
    for (int i = 0; i < line.n; i++) assert_memory_equal(text.data + (size_t)i * strlen("▁"), "▁", strlen("▁"));
    dt_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heights_go_from_the_least_to_the_most),
        cmocka_unit_test(fewer_than_two_values_are_no_line),
        cmocka_unit_test(columns_become_means_when_they_are_full),
        cmocka_unit_test(a_range_that_is_too_wide_is_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
