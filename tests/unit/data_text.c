/* text as data: bytes and windows over them, whole and read where they lie. */
#include "base/memory.h"
#include "runtime/data/source.h"
#include "tests/unit/scratch_folder.h"

#include <unistd.h>

static dt_status *open_rows(const char *kind, int n_names, const char *const *names, bool by_row, dt_source **source) {
    dt_artifact_argument arguments[4] = {{0}};
    for (int i = 0; i < n_names; i++) arguments[i] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = names[i]};
    dt_artifact_stage stage = {.kind = kind, .n_arguments = n_names, .arguments = arguments};
    return dt_source_open(&stage, scratch, by_row, source);
}

static dt_status *open_one(const char *kind, const char *name, bool by_row, dt_source **source) { return open_rows(kind, 1, &name, by_row, source); }

static void write_text(const char *name, const char *text) { scratch_write(name, text, strlen(text)); }

/* Component 0 of example `row`, wherever it is. */
static const char *row_of(dt_source *source, int64_t row) {
    static char text[256];
    const dt_column *column = &source->columns[0];
    assert_ok(dt_source_wait(source, row + 1));
    dt_component component = {text, (size_t)column->tensor.row_bytes};
    if (column->bytes != NULL)
        component = dt_column_row(column, row);
    else
        assert_ok(dt_source_read(source, 0, row, 1, text));
    assert_true(component.n_bytes < sizeof text);
    memmove(text, component.bytes, component.n_bytes);
    text[component.n_bytes] = 0;
    return text;
}

static void bytes_of_files_one_after_the_other(void **state) {
    (void)state;
    write_text("part-2", "cd");
    write_text("part-10", "b");
    scratch_write_gzip("packed.gz", "efgh", 4);
    for (int by_row = 0; by_row < 2; by_row++) {
        dt_source *source;
        assert_ok(open_rows("bytes", 2, (const char *[]){"part-*", "part-2"}, by_row, &source)); /* sorted by bytes: part-10 comes first */
        assert_int_equal(source->n_examples, 5);
        assert_true((source->columns[0].bytes == NULL) == by_row);
        for (int i = 0; i < 5; i++) assert_int_equal(row_of(source, i)[0], "bcdcd"[i]);
        dt_source_close(source);
        assert_ok(open_rows("bytes", 2, (const char *[]){"part-2", "packed"}, by_row, &source));
        assert_int_equal(source->n_examples, 6);
        for (int i = 0; i < 6; i++) assert_int_equal(row_of(source, i)[0], "cdefgh"[i]);
        dt_source_close(source);
    }
}

static void a_window_is_a_slice(void **state) {
    (void)state;
    static const struct {
        int64_t n, shift;
        const char *windows;
    } cases[] = {{3, 3, "abc def ghi "}, {4, 3, "abcd defg ghij "}, {2, 5, "ab fg "}, {10, 1, "abcdefghij "}, {1, 4, "a e i "}};
    write_text("a", "abcde");
    write_text("b", "fghij");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int by_row = 0; by_row < 2; by_row++) {
            dt_source *bytes, *source;
            char text[200] = "";
            assert_ok(open_rows("bytes", 2, (const char *[]){"a", "b"}, by_row, &bytes));
            const unsigned char *first = bytes->columns[0].bytes;
            assert_ok(dt_source_window(bytes, cases[c].n, cases[c].shift, &source));
            for (int64_t i = 0; i < source->n_examples; i++) strcat(strcat(text, row_of(source, i)), " ");
            assert_string_equal(text, cases[c].windows);
            assert_ptr_equal(source->columns[0].bytes, first); /* no copy of the files */
            assert_int_equal(source->columns[0].tensor.n_dims, 1);
            assert_int_equal(source->columns[0].tensor.dims[0], cases[c].n);
            dt_source_close(source);
        }
}

static void what_is_wrong_with_files_is_named(void **state) {
    (void)state;
    dt_source *source;
    write_text("empty", "");
    write_text("short", "abcd");
    for (int by_row = 0; by_row < 2; by_row++) {
        assert_fails(open_one("bytes", "empty", by_row, &source), DT_DATA_LOSS, "empty: is empty");
        assert_fails(open_one("bytes", "no-*.txt", by_row, &source), DT_NOT_FOUND, "no-*.txt: matches no file; name the folder");
        assert_fails(open_one("bytes", "missing", by_row, &source), DT_NOT_FOUND, "missing: no such file");
    }
    assert_ok(open_one("bytes", "short", false, &source));
    assert_fails(dt_source_window(source, 5, 5, &source), DT_INVALID_ARGUMENT, "short: holds 4 examples, fewer than the 5 of a window");
    assert_ok(open_one("bytes", "short", true, &source));
    assert_int_equal(truncate(scratch_path("short"), 2), 0);
    char row;
    assert_fails(dt_source_read(source, 0, 2, 1, &row), DT_DATA_LOSS, "short: the file was truncated while it was in use: it ends before byte 3");
    dt_source_close(source);
}

static void allocations_may_fail(void **state) {
    (void)state;
    write_text("plain", "abcdefgh");
    scratch_write_gzip("packed.gz", "abcdefgh", 8);
    int n = 0;
    for (bool failed = true; failed && n < 1000; n++) {
        dt_source *source;
        dt_memory_fail_after(n);
        dt_status *status = open_rows("bytes", 2, (const char *[]){"pl*n", "packed"}, false, &source);
        if (status == NULL) status = dt_source_window(source, 3, 1, &source);
        dt_memory_fail_after(-1);
        failed = status != NULL;
        if (failed)
            assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        else
            dt_source_close(source);
        dt_status_free(status);
    }
    assert_true(n > 5 && n < 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_files_one_after_the_other),
        cmocka_unit_test(a_window_is_a_slice),
        cmocka_unit_test(what_is_wrong_with_files_is_named),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
