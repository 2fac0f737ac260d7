/* log_folder: which files a run leaves, how another run goes on there, what is refused, and that a failing write is no failing run. */
#include "runtime/log_folder.h"
#include "base/memory.h"
#include "tests/unit/scratch_folder.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static double noon(void) { return 1700000000.25; }

static dt_log *log_of_nothing(void) {
    dt_log *log;
    assert_ok(dt_log_create(&log));
    return log;
}

/* A run of one step. */
static void run_once(const char *folder_name, bool goes_on, int64_t first_step) {
    dt_log *log = log_of_nothing();
    dt_log_folder *folder;
    const char *names[] = {"loss"};
    const double values[] = {0.5};
    assert_ok(dt_log_folder_open(scratch_path(folder_name), goes_on, noon, "host.7", log, &folder));
    dt_log_started(log, &(dt_log_start){.program = "net", .step = "train", .level = "x86-64-v4", .first_step = first_step});
    dt_log_stepped(log, &(dt_log_step){.number = first_step + 1, .epoch = 1}, &(dt_log_values){.n = 1, .names = names, .values = values});
    dt_log_folder_close(folder);
    dt_log_remark(log, "note", "nobody listens");
    dt_log_destroy(log);
}

static char *read_lines(const char *folder_name) {
    char *text, path[300];
    size_t n;
    snprintf(path, sizeof path, "%s/run.jsonl", scratch_path(folder_name));
    assert_ok(dt_file_read(path, &text, &n));
    return text;
}

static bool has_file(const char *folder_name, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", scratch_path(folder_name), name);
    return dt_file_exists(path);
}

static void a_run_goes_on_in_a_file_of_a_later_second(void **state) {
    (void)state;
    run_once("runs", false, 0);
    run_once("runs", true, 1);
    assert_true(has_file("runs", "events.out.tfevents.1700000000.host.7") && has_file("runs", "events.out.tfevents.1700000001.host.7"));
    char *lines = read_lines("runs");
    assert_memory_equal(lines, "{\"time\":1700000000.250,\"event\":\"start\",\"program\":\"net\"", 52);
    assert_non_null(
        strstr(lines, "\n{\"time\":1700000000.250,\"event\":\"step\",\"number\":2,\"epoch\":1,\"examples_per_second\":0.0,\"loss\":0.5}\n"));
    assert_null(strstr(lines, "nobody listens"));
    dt_release(lines);
}

/* Seconds as no clock of ours tells them: the name is somebody else's, and none can be later than the last one. */
static void a_name_of_no_second_is_left_alone(void **state) {
    (void)state;
    assert_ok(dt_file_make_folders(scratch_path("names")));
    scratch_write("names/events.out.tfevents.9223372036854775807.x", "", 0);
    scratch_write("names/events.out.tfevents.99999999999999999999", "", 0);
    scratch_write("names/events.out.tfevents.-1.x", "", 0);
    scratch_write("names/events.out.tfevents.1700000003.x", "", 0);
    run_once("names", false, 0);
    assert_true(has_file("names", "events.out.tfevents.1700000004.host.7"));
}

static void a_run_that_is_there_is_not_mixed_with_another(void **state) {
    (void)state;
    dt_log *log = log_of_nothing();
    dt_log_folder *folder;
    run_once("taken", false, 0);
    assert_fails(dt_log_folder_open(scratch_path("taken"), false, noon, NULL, log, &folder), DT_ALREADY_EXISTS, "there is a run already");
    assert_null(folder);
    dt_log_folder *first;
    assert_ok(dt_log_folder_open(scratch_path("taken"), true, noon, NULL, log, &first));
    assert_fails(dt_log_folder_open(scratch_path("taken"), true, noon, NULL, log, &folder), DT_IO, "another run writes there");
    dt_log_folder_close(first);
    dt_log_destroy(log);
}

static void a_line_that_was_cut_stays_a_line(void **state) {
    (void)state;
    assert_ok(dt_file_make_folders(scratch_path("cut")));
    scratch_write("cut/run.jsonl", "{\"time\":1,\"ev", 13);
    run_once("cut", true, 0);
    char *lines = read_lines("cut");
    assert_memory_equal(lines, "{\"time\":1,\"ev\n{\"time\":1700000000.250,\"event\":\"start\"", 48);
    dt_release(lines);
}

static void a_folder_that_cannot_be_is_an_error(void **state) {
    (void)state;
    dt_log *log = log_of_nothing();
    dt_log_folder *folder;
    scratch_write("file", "x", 1);
    assert_fails(dt_log_folder_open(scratch_path("file/logs"), false, noon, NULL, log, &folder), DT_NOT_FOUND, "--log-dir: ");
    assert_fails(dt_log_folder_open(scratch_path("file"), false, noon, NULL, log, &folder), DT_NOT_FOUND, "file");
    dt_log_destroy(log);
}

static int n_warnings;
static void count_warnings(dt_log_listener *listener, const dt_log_event *event) {
    (void)listener;
    if (event->kind != DT_LOG_REMARK) return;
    n_warnings++;
    assert_string_equal(event->remark.kind, "warning");
    assert_non_null(strstr(event->remark.message, "nothing more is written to --log-dir; the training goes on"));
}

static void a_full_disk_is_a_warning(void **state) {
    (void)state;
    struct rlimit before;
    dt_log *log = log_of_nothing();
    dt_log_folder *folder;
    dt_log_listener listener = {.hear = count_warnings};
    n_warnings = 0;
    dt_log_add_listener(log, &listener);
    assert_ok(dt_log_folder_open(scratch_path("full"), false, noon, NULL, log, &folder));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 500, .rlim_max = before.rlim_max}), 0);
    dt_log_started(log, &(dt_log_start){.program = "net", .step = "train", .level = "x86-64-v4"});
    for (int i = 0; i < 50; i++) dt_log_checkpoint(log, "ck/step-1", 1, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(n_warnings, 1);
    dt_log_folder_close(folder);
    dt_log_destroy(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_goes_on_in_a_file_of_a_later_second),     cmocka_unit_test(a_name_of_no_second_is_left_alone),
        cmocka_unit_test(a_run_that_is_there_is_not_mixed_with_another), cmocka_unit_test(a_line_that_was_cut_stays_a_line),
        cmocka_unit_test(a_folder_that_cannot_be_is_an_error),           cmocka_unit_test(a_full_disk_is_a_warning),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
