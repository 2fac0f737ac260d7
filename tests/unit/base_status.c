/* status: codes and messages, annotation, and what is left when there is no memory for a message. */
#include "base/memory.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_status_says_what_failed(void **state) {
    (void)state;
    dt_status *status = dt_error(DT_DATA_LOSS, "%s ends after %d rows", "labels", 7);
    assert_int_equal(dt_status_code(status), DT_DATA_LOSS);
    assert_string_equal(dt_status_message(status), "labels ends after 7 rows");
    status = dt_status_annotate(status, "epoch %d", 3);
    status = dt_status_annotate(status, "train");
    assert_int_equal(dt_status_code(status), DT_DATA_LOSS);
    assert_string_equal(dt_status_message(status), "train: epoch 3: labels ends after 7 rows");
    dt_status_free(status);
}

static void a_status_has_its_place(void **state) {
    (void)state;
    dt_status *status = dt_error_in(DT_DATA_LOSS, "a.csv", 3, "column %d is no number", 2);
    assert_string_equal(status->message, "a.csv:3: column 2 is no number");
    assert_string_equal(status->file, "a.csv");
    assert_int_equal(status->line, 3), assert_int_equal(status->column, 0);
    status = dt_status_annotate(dt_status_about(status, "Net/kernel"), "train");
    assert_string_equal(status->message, "train: a.csv:3: column 2 is no number");
    assert_string_equal(status->file, "a.csv"), assert_string_equal(status->variable, "Net/kernel");
    status = dt_status_at(status, "net.dt", 7, 5);
    assert_string_equal(status->file, "net.dt"), assert_string_equal(status->variable, "Net/kernel");
    assert_int_equal(status->line, 7), assert_int_equal(status->column, 5);
    dt_status_free(status);
    status = dt_error_in(DT_IO, "m.dtx", 0, "cannot open");
    assert_string_equal(status->message, "m.dtx: cannot open");
    assert_int_equal(status->line, 0), assert_string_equal(status->variable, "");
    dt_status_free(status);
    assert_null(dt_status_about(NULL, "Net/kernel"));
}

static void a_caller_reads_members_for_options(void **state) {
    (void)state;
    dt_status *status = dt_status_annotate(dt_error_in(DT_NOT_FOUND, "a.csv", 0, "name its folder with --data"), "--from %s", "rows");
    assert_string_equal(dt_status_message(status), "--from rows: a.csv: name its folder with --data");
    assert_string_equal(status->message, "`from` rows: a.csv: name its folder with `data`");
    dt_status_free(status);
}

static void null_is_success(void **state) {
    (void)state;
    assert_int_equal(dt_status_code(NULL), DT_OK);
    assert_string_equal(dt_status_message(NULL), "");
    assert_null(dt_status_annotate(NULL, "nothing %d", 1));
    dt_status_free(NULL);
}

static void the_first_of_two_failures_is_kept(void **state) {
    (void)state;
    assert_null(dt_status_first(NULL, NULL));
    dt_status *status = dt_status_first(NULL, dt_error(DT_IO, "first"));
    status = dt_status_first(status, NULL);
    status = dt_status_first(status, dt_error(DT_INTERNAL, "second"));
    assert_string_equal(dt_status_message(status), "first");
    dt_status_free(status);
}

static void without_memory_there_is_still_a_status(void **state) {
    (void)state;
    dt_memory_fail_after(0);
    dt_status *status = dt_error(DT_NOT_FOUND, "lost");
    dt_status *annotated = dt_status_annotate(status, "where");
    dt_memory_fail_after(-1);
    assert_ptr_equal(status, annotated);
    assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
    assert_string_equal(dt_status_message(status), "out of memory");
    dt_status_free(status);

    status = dt_error(DT_NOT_FOUND, "cause");
    dt_memory_fail_after(0);
    status = dt_status_annotate(status, "where");
    dt_memory_fail_after(-1);
    assert_string_equal(dt_status_message(status), "cause"); /* the message stays as it was */
    dt_status_free(status);
}

static void every_code_has_a_name(void **state) {
    (void)state;
    for (int a = DT_OK; a <= DT_INTERNAL; a++) {
        assert_string_not_equal(dt_code_name(a), "unknown code");
        for (int b = DT_OK; b < a; b++) assert_string_not_equal(dt_code_name(a), dt_code_name(b));
    }
    assert_string_equal(dt_code_name((dt_code)(DT_INTERNAL + 1)), "unknown code");
}

static dt_status *fails_at(int step, int *n_done) {
    for (int i = 0; i < 3; i++) {
        DT_TRY(i == step ? dt_error(DT_ABORTED, "at %d", i) : NULL);
        (*n_done)++;
    }
    return NULL;
}

static void try_leaves_at_the_first_failure(void **state) {
    (void)state;
    int n_done = 0;
    dt_status *status = fails_at(1, &n_done);
    assert_string_equal(dt_status_message(status), "at 1");
    assert_int_equal(n_done, 1);
    dt_status_free(status);
    assert_null(fails_at(3, &n_done));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_says_what_failed),
        cmocka_unit_test(a_status_has_its_place),
        cmocka_unit_test(a_caller_reads_members_for_options),
        cmocka_unit_test(null_is_success),
        cmocka_unit_test(the_first_of_two_failures_is_kept),
        cmocka_unit_test(without_memory_there_is_still_a_status),
        cmocka_unit_test(every_code_has_a_name),
        cmocka_unit_test(try_leaves_at_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
