/* file: whole files, atomically written, and messages that name path and reason. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *below(const char *name) {
    static char path[256];
    dt_text text = {0};
    dt_text_format(&text, "%s/%s", folder, name);
    memcpy(path, text.data, text.n + 1);
    dt_text_free(&text);
    return path;
}

static void assert_ok(dt_status *status) {
    assert_string_equal(dt_status_message(status), "");
    assert_null(status);
}

static void assert_fails(dt_status *status, dt_code code, const char *part) {
    assert_int_equal(dt_status_code(status), code);
    if (strstr(dt_status_message(status), part) == NULL) fail_msg("'%s' does not hold '%s'", dt_status_message(status), part);
    dt_status_free(status);
}

static void assert_holds(const char *path, const char *wanted, size_t n_wanted) {
    char *data;
    size_t n_bytes;
    assert_ok(dt_file_read(path, &data, &n_bytes));
    assert_int_equal(n_bytes, n_wanted);
    assert_memory_equal(data, wanted, n_wanted);
    assert_int_equal(data[n_bytes], 0);
    dt_release(data);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    const char *path = below("file");
    assert_false(dt_file_exists(path));
    assert_ok(dt_file_write_atomic(path, "one\0two", 7));
    assert_true(dt_file_exists(path));
    assert_holds(path, "one\0two", 7);
    assert_ok(dt_file_write_atomic(path, "", 0));
    assert_holds(path, "", 0);

    size_t n = 3000001;
    char *large = malloc(n);
    for (size_t i = 0; i < n; i++) large[i] = (char)(i * 31 >> 3);
    assert_ok(dt_file_write_atomic(path, large, n));
    assert_holds(path, large, n);
    free(large);

    struct stat about;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0666 & ~mask);
}

static void a_file_of_unknown_size_is_read(void **state) {
    (void)state;
    char *data;
    size_t n_bytes;
    assert_ok(dt_file_read("/proc/self/status", &data, &n_bytes)); /* claims 0 bytes */
    assert_true(n_bytes > 100 && strncmp(data, "Name:", 5) == 0);
    dt_release(data);
}

static void errors_name_path_and_reason(void **state) {
    (void)state;
    char *data;
    size_t n_bytes;
    assert_fails(dt_file_read(below("missing"), &data, &n_bytes), DT_NOT_FOUND, "missing: cannot open: No such file");
    assert_null(data);
    assert_fails(dt_file_read(folder, &data, &n_bytes), DT_IO, "Is a directory");
    assert_fails(dt_file_write_atomic(below("missing/file"), "x", 1), DT_NOT_FOUND, "missing/file: cannot create");
    assert_fails(dt_file_sync_folder(below("missing")), DT_NOT_FOUND, "No such file");
}

static void folders_come_and_go(void **state) {
    (void)state;
    assert_ok(dt_file_make_folders(below("a/b//c/")));
    assert_ok(dt_file_make_folders(below("a/b/c")));
    assert_true(dt_file_exists(below("a/b/c")));
    assert_ok(dt_file_write_atomic(below("a/b/file"), "x", 1));
    assert_ok(dt_file_sync_folder(below("a/b")));
    assert_fails(dt_file_make_folders(below("a/b/file/d")), DT_NOT_FOUND, "a/b/file: cannot create the folder: Not a directory");
    assert_int_equal(symlink("/", below("a/b/link")), 0);
    assert_ok(dt_file_remove_tree(below("a"))); /* removes the link, not what it points to */
    assert_false(dt_file_exists(below("a")));
    assert_true(dt_file_exists("/"));
    assert_ok(dt_file_remove_tree(below("a")));
}

static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    assert_ok(dt_file_make_folders(below("kept")));
    const char *path = below("kept/file");
    assert_ok(dt_file_write_atomic(path, "old", 3));
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_file_write_atomic(path, "new", 3);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
        assert_holds(path, "old", 3);
        assert_int_equal(rmdir(below("kept")), -1); /* still in use … */
        path = below("kept/file");
    }
    assert_holds(path, "new", 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(below("kept")), 0); /* … and nothing but the file was ever left in it */
}

static void a_link_stays_a_link(void **state) {
    (void)state;
    struct stat about;
    assert_ok(dt_file_make_folders(below("links")));
    assert_ok(dt_file_write_atomic(below("links/file"), "old", 3));
    assert_int_equal(symlink("file", below("links/link")), 0);
    assert_ok(dt_file_write_atomic(below("links/link"), "new", 3));
    assert_holds(below("links/file"), "new", 3);
    assert_int_equal(lstat(below("links/link"), &about), 0);
    assert_true(S_ISLNK(about.st_mode));
}

static void a_pipe_gets_the_bytes(void **state) {
    (void)state;
    struct stat about;
    char got[4] = "";
    assert_ok(dt_file_make_folders(below("pipes")));
    assert_int_equal(mkfifo(below("pipes/pipe"), 0666), 0);
    assert_int_equal(symlink("pipe", below("pipes/link")), 0);
    int reader = open(below("pipes/pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_ok(dt_file_write_atomic(below("pipes/link"), "new", 3));
    assert_int_equal(read(reader, got, sizeof got), 3);
    assert_string_equal(got, "new");
    close(reader);
    assert_int_equal(stat(below("pipes/pipe"), &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(lstat(below("pipes/link"), &about), 0);
    assert_true(S_ISLNK(about.st_mode));
}

static void a_folder_is_refused(void **state) {
    (void)state;
    assert_ok(dt_file_make_folders(below("full")));
    assert_fails(dt_file_write_atomic(below("full"), "x", 1), DT_IO, "full: cannot be written: it is a folder");
    assert_int_equal(rmdir(below("full")), 0);
}

static void reading_without_memory_fails(void **state) {
    (void)state;
    for (int n = 0;; n++) {
        char *data;
        size_t n_bytes;
        dt_memory_fail_after(n);
        dt_status *status = dt_file_read("/proc/self/status", &data, &n_bytes);
        dt_memory_fail_after(-1);
        if (status == NULL) {
            dt_release(data);
            assert_true(n > 3); /* it grew several times */
            break;
        }
        assert_null(data);
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
}

static int make_folder(void **state) {
    (void)state;
    const char *scratch = getenv("TMPDIR");
    dt_text text = {0};
    dt_text_format(&text, "%s/dt-file-XXXXXX", scratch != NULL && strlen(scratch) < 40 ? scratch : "/tmp");
    memcpy(folder, text.data, text.n + 1);
    dt_text_free(&text);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    dt_status *status = dt_file_remove_tree(folder);
    int failed = status != NULL;
    dt_status_free(status);
    return failed;
}

static void plain_files_are_read_from_anywhere(void **state) {
    (void)state;
    char bytes[8] = "";
    int file;
    uint64_t n_file;
    size_t n_read;
    assert_ok(dt_file_write_atomic(below("bytes"), "some text", 9));
    assert_ok(dt_file_open(below("bytes"), &file, &n_file));
    assert_int_equal(n_file, 9);
    assert_ok(dt_file_read_at(file, "bytes", 5, bytes, 4, &n_read));
    assert_int_equal(n_read, 4);
    assert_memory_equal(bytes, "text", 4);
    assert_int_equal(truncate(below("bytes"), 7), 0);
    assert_ok(dt_file_read_at(file, "bytes", 5, bytes, 4, &n_read));
    assert_int_equal(n_read, 2);
    close(file);

    assert_fails(dt_file_open(below("none"), &file, &n_file), DT_NOT_FOUND, "none: cannot open: No such file");
    assert_int_equal(file, -1);
    assert_fails(dt_file_open(folder, &file, &n_file), DT_INVALID_ARGUMENT, ": is a folder, not a file");
    assert_fails(dt_file_open("/dev/zero", &file, &n_file), DT_INVALID_ARGUMENT, "/dev/zero: is a device, not a file");
    assert_int_equal(mkfifo(below("silent"), 0666), 0);
    assert_fails(dt_file_open(below("silent"), &file, &n_file), DT_INVALID_ARGUMENT, "silent: is a pipe, not a file");
    assert_int_equal(file, -1);
}

static void *write_slowly(void *path) {
    int file = open(path, O_WRONLY);
    for (int i = 0; i < 3; i++) {
        usleep(20000);
        if (write(file, "pipe", 4) != 4) return "not written";
    }
    close(file);
    return NULL;
}

/* The pipe that nobody writes into takes as long as we are patient. */
static void a_pipe_is_read_to_its_end_but_not_waited_for(void **state) {
    (void)state;
    char *data, path[256];
    size_t n_bytes;
    pthread_t writer;
    void *failure;
    snprintf(path, sizeof path, "%s", below("slow"));
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, path), 0);
    assert_ok(dt_file_read(path, &data, &n_bytes));
    pthread_join(writer, &failure);
    assert_null(failure);
    assert_int_equal(n_bytes, 12);
    assert_string_equal(data, "pipepipepipe");
    dt_release(data);

    int ends[2]; /* the writer has come and gone */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "gone", 4), 4);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_ok(dt_file_read(path, &data, &n_bytes));
    assert_string_equal(data, "gone");
    dt_release(data);
    close(ends[0]);

    assert_fails(dt_file_read(below("slow"), &data, &n_bytes), DT_INVALID_ARGUMENT, "slow: is a pipe that nobody writes into");
    assert_fails(dt_file_read("/dev/zero", &data, &n_bytes), DT_INVALID_ARGUMENT, "/dev/zero: is a device, not a file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_files_are_read_from_anywhere),
        cmocka_unit_test(a_pipe_is_read_to_its_end_but_not_waited_for),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_file_of_unknown_size_is_read),
        cmocka_unit_test(errors_name_path_and_reason),
        cmocka_unit_test(folders_come_and_go),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_pipe_gets_the_bytes),
        cmocka_unit_test(a_folder_is_refused),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(reading_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
