/* event_file: the bytes are those that TensorBoard's own writer makes (tests/golden/event_file/write.py); what is no histogram; what fails. */
#include "runtime/event_file.h"
#include "base/memory.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static void the_checksum_is_castagnoli(void **state) {
    (void)state;
    assert_int_equal(dt_crc32c("123456789", 9), 0xe3069283); /* the check value of the catalogue of CRCs */
    assert_int_equal(dt_crc32c("", 0), 0);
}

static dt_event_file *make_file(const char *name) {
    dt_event_file *file;
    assert_ok(dt_event_file_create(scratch_path(name), 1700000000.25, 470, &file));
    return file;
}

static void assert_same_file(const char *path, const char *wanted) {
    char *a, *b;
    size_t n_a, n_b;
    assert_ok(dt_file_read(path, &a, &n_a));
    assert_ok(dt_file_read(wanted, &b, &n_b));
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, n_a);
    dt_release(a);
    dt_release(b);
}

static void the_bytes_are_those_of_tensorboard(void **state) {
    (void)state;
    char golden[512];
    float numbers[33];
    dt_event_file *file = make_file("events");
    for (int i = 0; i < 31; i++) numbers[i] = (float)i;
    numbers[31] = NAN; /* left out */
    numbers[32] = INFINITY;
    assert_ok(dt_event_file_add_scalar(file, 1700000001.5, 500, "loss/train_step", 0.1));
    assert_ok(dt_event_file_add_histogram(file, 1700000002, 938, "weights/Net/dense/kernel", DT_F32, 33, numbers));
    assert_ok(dt_event_file_add_histogram(file, 1700000002, 938, "weights/counts", DT_I64, 1, (int64_t[]){1}));
    assert_ok(dt_event_file_add_histogram(file, 1700000002, 938, "weights/nothing", DT_F32, 1, numbers + 31));
    assert_ok(dt_event_file_add_png(file, 1700000003, (int64_t)1 << 40, "sample/image/0", 28, 14, 1, "\0\1\2\3\4\5\6\7\10\11", 10));
    dt_event_file_close(file);
    snprintf(golden, sizeof golden, "%s/tests/golden/event_file/events.bin", getenv("DT_SOURCE"));
    assert_same_file(scratch_path("events"), golden);
}

static void a_file_that_is_there_is_not_written(void **state) {
    (void)state;
    dt_event_file *file = make_file("twice");
    dt_event_file_close(file);
    assert_fails(dt_event_file_create(scratch_path("twice"), 0, 0, &file), DT_IO, "twice: cannot be made: File exists");
    assert_null(file);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    struct rlimit before, little;
    char png[4096] = {0};
    dt_event_file *file = make_file("full");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = (struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    dt_status *status = dt_event_file_add_png(file, 1, 1, "a", 1, 1, 1, png, sizeof png);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(status, DT_IO, "full: cannot be written: ");
    dt_event_file_close(file);
}

static void memory_may_be_out(void **state) {
    (void)state;
    dt_event_file *file = make_file("memory");
    dt_memory_fail_after(0);
    dt_status *status = dt_event_file_add_scalar(file, 1, 1, "a", 1);
    dt_memory_fail_after(-1);
    assert_fails(status, DT_RESOURCE_EXHAUSTED, "memory");
    dt_event_file_close(file);
    dt_memory_fail_after(0);
    status = dt_event_file_create(scratch_path("none"), 0, 0, &file);
    dt_memory_fail_after(-1);
    assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_castagnoli),
        cmocka_unit_test(the_bytes_are_those_of_tensorboard),
        cmocka_unit_test(a_file_that_is_there_is_not_written),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(memory_may_be_out),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
