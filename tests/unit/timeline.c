/* timeline: rings keep the newest spans; processes whose clocks differ put their events on the clock of the first one, within the error that they
 * say; and without a timeline nothing is recorded. Here the processes are threads of one, each with a clock of its own. */
#include "runtime/timeline_file.h"

#include "base/file.h"
#include "base/memory.h"
#include "tests/support/expect.h"
#include "tests/support/thread_processes.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>
#include <sys/syscall.h>
#include <time.h>

enum {
    N_PROCESSES = 3
};

static _Thread_local double shift; /* of this thread's clock, seconds */

/* The system's, of the whole program. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC) now->tv_sec += (time_t)shift;
    return (int)failed;
}

static void a_ring_keeps_the_newest(void **state) {
    (void)state;
    dt_timeline *timeline;
    dt_recorder *recorder;
    assert_ok(dt_timeline_create(4, &timeline));
    assert_ok(dt_timeline_add_thread(timeline, 2, &recorder, "thread %d", 7));
    assert_string_equal(recorder->name, "thread 7");
    assert_ptr_equal(dt_timeline_main(timeline), timeline->first);
    assert_ptr_equal(timeline->first->next, recorder);
    assert_true(recorder->capacity >= 8);
    for (int64_t i = 0; i < recorder->capacity + 3; i++) {
        assert_int_equal(dt_recorder_first(recorder), i <= recorder->capacity ? 0 : i - recorder->capacity);
        dt_recorder_add(recorder, (dt_span){.number = i});
    }
    for (int64_t i = dt_recorder_first(recorder); i < recorder->n_added; i++) assert_int_equal(recorder->spans[i % recorder->capacity].number, i);
    assert_fails(dt_timeline_add_thread(timeline, INT64_MAX / 2, &recorder, "long"), DT_RESOURCE_EXHAUSTED, "use fewer --timeline-steps");
    dt_timeline_destroy(timeline);
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_timeline_create(4, &timeline);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_null(timeline);
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
    dt_timeline_destroy(timeline);
}

static void without_a_timeline_nothing_is_recorded(void **state) {
    (void)state;
    dt_recorder *recorder;
    assert_ok(dt_timeline_add_thread(NULL, 2, &recorder, "nobody"));
    assert_null(recorder);
    assert_null(dt_timeline_main(NULL));
    assert_true(dt_recorder_now(recorder) == 0);
    dt_recorder_end(recorder, (dt_span){0});
    dt_timeline_destroy(NULL);
}

typedef struct process {
    dt_processes *processes;
    int number;
    dt_timeline_clock clock;
    dt_text note;
    dt_status *status;
} process;

/* Each records one span, of its own hour, at the moment when all have found out about the clocks. */
static dt_status *run_one(process *self, const char *path) {
    dt_timeline *timeline;
    DT_TRY(dt_timeline_align(self->processes, &self->clock));
    DT_TRY(dt_timeline_create(2, &timeline));
    double now = dt_seconds_now();
    dt_recorder_end(dt_timeline_main(timeline), (dt_span){.began = now, .kind = DT_SPAN_STEP, .name = "train \"it\"", .detail = "", .step = "train"});
    timeline->n_steps_run++;
    dt_status *status = dt_timeline_write(timeline, &self->clock, self->processes, false, "net", path, &self->note);
    dt_timeline_destroy(timeline);
    return status;
}

static void *run_process(void *argument) {
    process *self = argument;
    shift = 3600.0 * self->number;
    self->status = run_one(self, scratch_path("trace.json"));
    return NULL;
}

static void clocks_are_put_right(void **state) {
    (void)state;
    thread_processes run;
    pthread_t threads[N_PROCESSES];
    process processes[N_PROCESSES];
    thread_processes_open(&run, N_PROCESSES, 20);
    for (int p = 0; p < N_PROCESSES; p++) {
        assert_ok(run.statuses[p]);
        processes[p] = (process){.processes = run.all[p], .number = p};
        pthread_create(&threads[p], NULL, run_process, &processes[p]);
    }
    for (int p = 0; p < N_PROCESSES; p++) pthread_join(threads[p], NULL);
    thread_processes_close(&run);
    double error = processes[0].clock.error_seconds;
    assert_true(error > 0 && error < 10);
    for (int p = 0; p < N_PROCESSES; p++) {
        assert_ok(processes[p].status);
        assert_true(processes[p].clock.error_seconds == error);
        assert_true(fabs(processes[p].clock.zero - processes[0].clock.zero - 3600.0 * p) <= error);
    }
    assert_non_null(strstr(processes[0].note.data, "trace.json: the last 1 of 1 step"));
    assert_null(processes[1].note.data);
    dt_text_free(&processes[0].note);

    char *text;
    size_t n;
    assert_ok(dt_file_read(scratch_path("trace.json"), &text, &n));
    assert_non_null(
        strstr(text, "\"otherData\":{\"program\":\"net\",\"processes\":3,\"steps_kept\":1,\"steps_run\":1,\"clock_error_microseconds\":"));
    const char *at = text;
    for (int p = 0; p < N_PROCESSES; p++) { /* all began within some seconds of the start, on one clock */
        int pid;
        double ts;
        at = strstr(at, "{\"ph\":\"X\"");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "{\"ph\":\"X\",\"pid\":%d,\"tid\":1,\"name\":\"train \\\"it\\\"\",\"cat\":\"step\",\"ts\":%lf", &pid, &ts), 2);
        assert_int_equal(pid, p + 1);
        assert_true(ts > -1e6 * error && ts < 20e6);
        at++;
    }
    dt_release(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_keeps_the_newest),
        cmocka_unit_test(without_a_timeline_nothing_is_recorded),
        cmocka_unit_test(clocks_are_put_right),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
