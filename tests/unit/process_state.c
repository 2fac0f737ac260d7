/* process_state: what is written is read, also while it is replaced; a process that is gone is known to be. */
#include "runtime/comm/process_state.h"

#include "tests/unit/scratch_folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void what_is_written_is_read(void **state) {
    (void)state;
    dt_state_file file;
    dt_process_state read;
    bool found;
    assert_ok(dt_process_state_read(scratch, 3, &read, &found));
    assert_false(found);
    assert_ok(dt_state_file_create(scratch_path("new/folder"), 3, 4, &file));
    assert_ok(dt_process_state_read(scratch_path("new/folder"), 3, &read, &found));
    assert_true(found);
    assert_int_equal(read.process, 3);
    assert_int_equal(read.n_processes, 4);
    assert_int_equal(read.pid, getpid());
    assert_int_equal(read.started, dt_process_started(getpid()));
    assert_int_equal(read.phase, DT_PROCESS_RUNS);
    assert_string_equal(read.doing, "starting");
    assert_string_equal(read.reason, "");
    file.state.phase = DT_PROCESS_FAILED;
    file.state.waits = file.state.person_knows = true;
    file.state.progressed = 12.5;
    memset(file.state.doing, 'd', sizeof file.state.doing - 1);
    memset(file.state.reason, 'r', sizeof file.state.reason - 1);
    dt_state_file_write(&file);
    assert_ok(dt_process_state_read(scratch_path("new/folder"), 3, &read, &found));
    assert_true(found && read.waits && read.person_knows);
    assert_int_equal(read.phase, DT_PROCESS_FAILED);
    assert_true(read.progressed == 12.5);
    assert_string_equal(read.doing, file.state.doing);
    assert_string_equal(read.reason, file.state.reason);
    dt_state_file_close(&file);
}

static atomic_bool done;

static void *write_on_and_on(void *argument) {
    dt_state_file *file = argument;
    for (int i = 0; !atomic_load(&done); i++) {
        size_t n = (size_t)(i * 37 % 300);
        memset(file->state.doing, 'a' + i % 26, n);
        memset(file->state.reason, 'a' + i % 26, n);
        file->state.doing[n] = file->state.reason[n] = 0;
        dt_state_file_write(file);
    }
    return NULL;
}

static void a_record_is_read_whole(void **state) {
    (void)state;
    dt_state_file file;
    pthread_t writer;
    assert_ok(dt_state_file_create(scratch, 0, 1, &file));
    file.state.doing[0] = 0;
    dt_state_file_write(&file);
    pthread_create(&writer, NULL, write_on_and_on, &file);
    for (int i = 0; i < 2000; i++) {
        dt_process_state read;
        bool found;
        assert_ok(dt_process_state_read(scratch, 0, &read, &found));
        if (found) assert_string_equal(read.doing, read.reason);
    }
    atomic_store(&done, true);
    pthread_join(writer, NULL);
    dt_state_file_close(&file);
}

/* The beginning of the next record, the end of the one before, for as long as the writer does not go on. */
static void a_torn_record_is_none(void **state) {
    (void)state;
    dt_state_file file;
    dt_process_state read;
    bool found;
    char before[2048] = "";
    assert_ok(dt_state_file_create(scratch, 0, 1, &file));
    int other = open(scratch_path("process-0"), O_RDWR);
    ssize_t n = pread(other, before, sizeof before, 0);
    strcpy(file.state.doing, "training");
    dt_state_file_write(&file);
    assert_ok(dt_process_state_read(scratch, 0, &read, &found));
    assert_true(found);
    ssize_t at = strstr(before, "starting") + 3 - before;
    assert_int_equal(pwrite(other, before + at, (size_t)(n - at), at), n - at);
    assert_ok(dt_process_state_read(scratch, 0, &read, &found));
    assert_false(found);
    close(other);
    dt_state_file_close(&file);
}

static void a_process_is_known_by_when_it_began(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) pause(), _exit(0);
    assert_true(dt_process_started(child) >= dt_process_started(getpid()) && dt_process_started(getpid()) > 0);
    assert_false(dt_process_is_stopped(child));
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    assert_true(dt_process_is_stopped(child));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(dt_process_started(child), 0);
}

/* The last one that ends takes the files away, unless a launch does. */
static void the_last_one_leaves_nothing(void **state) {
    (void)state;
    const char *folder = scratch_path("of/run");
    dt_state_file here, gone;
    assert_ok(dt_state_file_create(folder, 0, 3, &here));
    assert_ok(dt_state_file_create(folder, 2, 3, &gone));
    gone.state.started++; /* this process's pid is another one's by now */
    dt_state_file_write(&gone);
    dt_state_folder_tidy(folder, 3);
    assert_int_equal(access(scratch_path("of/run/process-0"), F_OK), 0); /* who runs may still want to know what the other did */
    assert_int_equal(access(scratch_path("of/run/process-2"), F_OK), 0);
    here.state.started++;
    dt_state_file_write(&here);
    assert_ok(dt_state_folder_mark(folder));
    dt_state_folder_tidy(folder, 3);
    assert_int_equal(access(scratch_path("of/run/process-2"), F_OK), 0);
    assert_int_equal(unlink(scratch_path("of/run/launcher")), 0);
    dt_state_folder_tidy(folder, 3);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_equal(access(scratch_path("of"), F_OK), 0);
    dt_state_file_close(&here);
    dt_state_file_close(&gone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(a_record_is_read_whole, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(a_torn_record_is_none, scratch_make, scratch_remove),
        cmocka_unit_test(a_process_is_known_by_when_it_began),
        cmocka_unit_test_setup_teardown(the_last_one_leaves_nothing, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
