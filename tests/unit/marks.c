/* marks: any changed byte is another mark; a changed row, or an exchange of two, is found in records of any number of rows and columns, and the place
 * that is named holds it. */
#include "runtime/data/marks.h"

#include "tests/support/expect.h"

#include <stdlib.h>
#include <string.h>

static void any_byte_changes_a_mark(void **state) {
    (void)state;
    unsigned char bytes[100];
    for (size_t n = 0; n < sizeof bytes; n++) {
        memset(bytes, (int)n, n);
        uint64_t mark = dt_mark_of(bytes, n);
        assert_true(mark != 0);
        for (size_t i = 0; i < n; i++)
            for (int bit = 0; bit < 8; bit++) {
                bytes[i] ^= (unsigned char)(1 << bit);
                assert_true(dt_mark_of(bytes, n) != mark);
                bytes[i] ^= (unsigned char)(1 << bit);
            }
        bytes[n] = 0;
        assert_true(dt_mark_of(bytes, n + 1) != mark);
    }
}

static bool holds(const dt_marks_place *place, int64_t row, int column, int64_t n_rows, int n_columns, int64_t batch) {
    bool has_row = false;
    for (int64_t i = place->first; i < place->end; i++) has_row |= dt_marks_row(i, n_rows, n_columns, batch) == row;
    return has_row && column >= place->column && column < place->column + place->n_columns;
}

static void a_changed_row_is_found(void **state) {
    (void)state;
    for (int n_columns = 1; n_columns <= 30; n_columns += 4)
        for (int64_t n_rows = 1; n_rows <= 150; n_rows = n_rows * 3 / 2 + 1)
            for (int64_t batch = 0; batch < 3; batch++) {
                size_t n = (size_t)(n_rows * n_columns);
                uint64_t *marks = malloc(n * sizeof *marks);
                for (size_t i = 0; i < n; i++) marks[i] = dt_mark_of(&i, sizeof i);
                dt_folded_marks known, others;
                dt_marks_place place;
                dt_marks_fold(marks, n_rows, n_columns, batch, &known);
                assert_false(dt_marks_differ(&known, &known, n_rows, n_columns, &place));
                for (int64_t row = 0; row < n_rows; row++) {
                    int column = (int)(row * 7 % n_columns);
                    uint64_t *one = &marks[row * n_columns + column], kept = *one;
                    *one ^= 1;
                    dt_marks_fold(marks, n_rows, n_columns, batch, &others);
                    assert_true(dt_marks_differ(&known, &others, n_rows, n_columns, &place));
                    assert_true(holds(&place, row, column, n_rows, n_columns, batch));
                    *one = 0; /* what is not known here is not compared */
                    dt_marks_fold(marks, n_rows, n_columns, batch, &others);
                    assert_false(dt_marks_differ(&others, &known, n_rows, n_columns, &place));
                    *one = kept;
                }
                free(marks);
            }
}

static void rows_that_are_exchanged_are_found(void **state) {
    (void)state;
    enum {
        N = 200
    };
    uint64_t marks[N];
    dt_folded_marks known, others;
    dt_marks_place place;
    for (size_t i = 0; i < N; i++) marks[i] = dt_mark_of(&i, sizeof i);
    dt_marks_fold(marks, N, 1, 1, &known);
    for (int i = 0; i + 1 < N; i++) {
        uint64_t kept = marks[i];
        marks[i] = marks[i + 1], marks[i + 1] = kept;
        dt_marks_fold(marks, N, 1, 1, &others);
        assert_true(dt_marks_differ(&known, &others, N, 1, &place));
        kept = marks[i], marks[i] = marks[i + 1], marks[i + 1] = kept;
    }
}

static void every_row_has_a_bucket_of_its_own_in_some_batch(void **state) {
    (void)state;
    enum {
        N = 97,
        COLUMNS = 2,
        SINGLE = DT_MARK_BUCKETS / COLUMNS / 2
    };
    bool single[N] = {0};
    for (int64_t batch = 0; batch < 10; batch++)
        for (int64_t i = 0; i < SINGLE; i++) single[dt_marks_row(i, N, COLUMNS, batch)] = true;
    for (int i = 0; i < N; i++) assert_true(single[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_byte_changes_a_mark),
        cmocka_unit_test(a_changed_row_is_found),
        cmocka_unit_test(rows_that_are_exchanged_are_found),
        cmocka_unit_test(every_row_has_a_bucket_of_its_own_in_some_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
