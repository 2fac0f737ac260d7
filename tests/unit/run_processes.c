/* run_processes: training, evaluation and prediction over processes leave what one process leaves, byte for byte: weights, slots, reports, results;
 * also where a process has no rows, in the last batch or in any, and where another number of processes goes on in the middle of an epoch. One process
 * alone writes. Here the processes are threads of one. */
#include "base/text.h"
#include "compiler/commands/command.h"
#include "runtime/checkpoint.h"
#include "runtime/commands/print_log.h"
#include "runtime/run.h"
#include "tests/support/thread_processes.h"
#include "tests/unit/scratch_folder.h"

#include <signal.h>
#include <unistd.h>

/* Random numbers in a map and in the step, a state, slots; data that is read by row, and data that is read whole. */
static const char program[] = "use nn, losses, optimizers\n"
                              "fn noisy(x: u8[4], label: u8) { return f32(x) / 255 + uniform([4], low: 0.0, high: 0.1), label }\n"
                              "fn known(x: u8[4], label: u8) { return label < 3 }\n"
                              "data train_set = idx(\"x\", \"label\") | shuffle(100) | map(noisy) | batch(64) | prefetch(2)\n"
                              "data test_set  = idx(\"x\", \"label.gz\") | filter(known) | map(noisy) | batch(64)\n"
                              "model Net(x: f32[B, 4]) -> f32[B, 3] {\n"
                              "    x = dropout(batch_norm(dense(x, units: 6, activation: relu)), rate: 0.3)\n"
                              "    return dense(x, units: 3)\n"
                              "}\n"
                              "step train(x: f32[B, 4], label: u8[B]) from train_set {\n"
                              "    loss = sparse_categorical_crossentropy(label, Net(x))\n"
                              "    minimize(loss, adam())\n"
                              "    report loss: mean(loss), highest: max(label)\n"
                              "}\n"
                              "step evaluate(x: f32[B, 4], label: u8[B]) from test_set {\n"
                              "    report loss: mean(sparse_categorical_crossentropy(label, Net(x)))\n"
                              "}\n"
                              "step predict(x: f32[B, 4], label: u8[B]) from train_set { return y: Net(x), label: label, numbers: iota([4]) }\n";

enum {
    N_EXAMPLES = 47,
    MOST_PROCESSES = 4
};

typedef struct shape {
    int64_t replicas, global_batch;
    int steps; /* of three epochs */
} shape;

static const shape by_replica = {4, 20, 9}; /* a microbatch each: batches of 20, 20 and 7 */
static const shape within_replica = {
    4, 160, 3}; /* microbatches of 16, 16, 8 and 0, which three processes cut: batches of 47, the last replicas without a row */

static dt_artifact *artifact;
static dt_kernels *kernels;
static atomic_int stop[MOST_THREAD_PROCESSES];

static void catch_nothing(void) {}

static int set_up(void **state) {
    static unsigned char x[12 + 4 * N_EXAMPLES] = {0, 0, 8, 2, 0, 0, 0, N_EXAMPLES, 0, 0, 0, 4},
                                    label[8 + N_EXAMPLES] = {0, 0, 8, 1, 0, 0, 0, N_EXAMPLES};
    if (scratch_make(state) != 0) return -1;
    for (int i = 0; i < 4 * N_EXAMPLES; i++) x[12 + i] = (unsigned char)(i * 71 % 256);
    for (int i = 0; i < N_EXAMPLES; i++) label[8 + i] = (unsigned char)(i * 5 % 3);
    scratch_write("x", x, sizeof x);
    scratch_write("label", label, sizeof label);
    scratch_write("net.dt", program, sizeof program - 1);
    char *source = strdup(scratch_path("net.dt")), *output = strdup(scratch_path("net.dtx"));
    char *arguments[] = {"dtc compile", source, "-o", output, NULL};
    if (dt_command_compile(4, arguments) != 0) return -1;
    assert_ok(dt_artifact_open(output, &artifact));
    assert_ok(dt_kernels_load(artifact, NULL, &kernels));
    free(source);
    free(output);
    return 0;
}

static int tear_down(void **state) {
    dt_kernels_free(kernels);
    dt_artifact_close(artifact);
    return scratch_remove(state);
}

typedef dt_status *run_function(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);

typedef struct process {
    run_function *run;
    dt_run_options options;
    FILE *log;
    dt_status *status;
} process;

static void *run_process(void *argument) {
    process *self = argument;
    dt_log *log;
    dtrun_printer *printer = NULL;
    assert_ok(dt_log_create(&log));
    if (self->log != NULL) assert_ok(dtrun_printer_create(self->log, DT_LOG_JSON, true, log, &printer));
    self->status = self->run(kernels, &self->options, log);
    if (self->status != NULL) dt_processes_abort(self->options.processes, dt_status_message(self->status));
    dtrun_printer_destroy(printer);
    dt_log_destroy(log);
    return NULL;
}

/* Runs `run` in n processes: with these options, the last one with its own, where `last` is not NULL. The reports of the first one's epochs are
 * appended to `said`, which may be NULL. statuses: [n]. */
static void run_all(run_function *run, const dt_run_options *options, const dt_run_options *last, int n, dt_text *said, dt_status **statuses) {
    thread_processes all = {0};
    process processes[MOST_THREAD_PROCESSES];
    pthread_t threads[MOST_THREAD_PROCESSES];
    FILE *log = fopen(scratch_path("log"), "w+");
    assert_non_null(log);
    if (n > 1) thread_processes_open(&all, n, 60);
    for (int p = 0; p < n; p++) {
        processes[p] = (process){.run = run, .options = last != NULL && p == n - 1 ? *last : *options, .log = p == 0 ? log : NULL};
        processes[p].options.processes = n > 1 ? all.all[p] : NULL;
        if (processes[p].options.stop == NULL) processes[p].options.stop = &stop[p];
        assert_int_equal(pthread_create(&threads[p], NULL, run_process, &processes[p]), 0);
    }
    for (int p = 0; p < n; p++) {
        pthread_join(threads[p], NULL);
        statuses[p] = processes[p].status;
    }
    if (n > 1) thread_processes_close(&all);
    char line[4000];
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL) {
        const char *values = strstr(line, "\"data_wait\":");
        if (said != NULL && values != NULL) dt_text_append(said, strchr(values, ','));
    }
    fclose(log);
}

static void assert_runs(run_function *run, const dt_run_options *options, int n, dt_text *said) {
    dt_status *statuses[MOST_THREAD_PROCESSES];
    run_all(run, options, NULL, n, said, statuses);
    for (int p = 0; p < n; p++) assert_ok(statuses[p]);
}

static dt_run_options options_of(shape of, const char *checkpoints) {
    return (dt_run_options){.data = scratch,
                            .devices = "cpu:1x1",
                            .replicas = of.replicas,
                            .global_batch = of.global_batch,
                            .seed = 3,
                            .checkpoint_dir = checkpoints,
                            .max_steps = -1,
                            .epochs = 3,
                            .resume = true,
                            .catch_signals = catch_nothing};
}

static void assert_same_files(const char *folder, const char *other, const char *name) {
    char paths[2][600], *bytes[2];
    size_t n[2];
    snprintf(paths[0], sizeof paths[0], "%s/%s", folder, name);
    snprintf(paths[1], sizeof paths[1], "%s/%s", other, name);
    for (int i = 0; i < 2; i++) assert_ok(dt_file_read(paths[i], &bytes[i], &n[i]));
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    for (int i = 0; i < 2; i++) free(bytes[i]);
}

static void assert_same_checkpoints(const char *folder, const char *other, int step) {
    char name[60];
    snprintf(name, sizeof name, "step-%d/model.safetensors", step);
    assert_same_files(folder, other, name);
    snprintf(name, sizeof name, "step-%d/optimizer.safetensors", step);
    assert_same_files(folder, other, name);
}

static void check_shape(shape of, const char *name) {
    char one[200], several[200], results[2][200];
    dt_text said[2] = {{0}, {0}};
    snprintf(one, sizeof one, "%s/%s", scratch, name);
    snprintf(results[0], sizeof results[0], "%s/%s results", scratch, name);
    dt_run_options options = options_of(of, one);
    options.output = results[0];
    assert_runs(dt_run_train, &options, 1, &said[0]);
    assert_runs(dt_run_evaluate, &options, 1, &said[0]);
    assert_runs(dt_run_predict, &options, 1, NULL);
    for (int n = 2; n <= MOST_PROCESSES; n++) {
        snprintf(several, sizeof several, "%s/%s %d", scratch, name, n);
        snprintf(results[1], sizeof results[1], "%s/%s results %d", scratch, name, n);
        options.checkpoint_dir = several;
        options.output = results[1];
        assert_runs(dt_run_train, &options, n, &said[1]);
        assert_runs(dt_run_evaluate, &options, n, &said[1]);
        assert_runs(dt_run_predict, &options, n, NULL);
        assert_same_checkpoints(one, several, of.steps);
        assert_string_equal(said[1].data, said[0].data);
        assert_same_files(results[0], results[1], "y.npy");
        assert_same_files(results[0], results[1], "label.npy");
        assert_same_files(results[0], results[1], "numbers.npy");
        dt_text_free(&said[1]);
    }
    dt_text_free(&said[0]);
}

static void processes_leave_what_one_leaves(void **state) {
    (void)state;
    assert_int_equal(artifact->microbatch_rows, 16);
    check_shape(by_replica, "by replica");
    check_shape(within_replica, "within a replica");
}

static void other_numbers_of_processes_go_on(void **state) {
    (void)state;
    static const int steps[] = {1, 2, 5, 7, 9}, n_processes[] = {3, 1, 4, 2, 3};
    char one[200], parts[200];
    snprintf(one, sizeof one, "%s/whole", scratch);
    snprintf(parts, sizeof parts, "%s/parts", scratch);
    dt_run_options options = options_of(by_replica, one);
    assert_runs(dt_run_train, &options, 1, NULL);
    options.checkpoint_dir = parts;
    for (int i = 0; i < 5; i++) {
        options.max_steps = steps[i];
        assert_runs(dt_run_train, &options, n_processes[i], NULL);
    }
    assert_same_checkpoints(one, parts, by_replica.steps);
}

/* Once the first checkpoint is there, or after a minute. */
static void *stop_in_mid_run(void *folder) {
    char *first = NULL;
    for (int i = 0; i < 6000 && first == NULL; i++) {
        usleep(10000);
        dt_status_free(dt_checkpoint_newest(folder, &first));
    }
    free(first);
    stop[2] = SIGTERM;
    return NULL;
}

/* A signal that one process gets ends all after the same step. */
static void one_is_told_and_all_end(void **state) {
    (void)state;
    char told[200], asked[200], *newest;
    pthread_t thread;
    dt_checkpoint_state saved;
    snprintf(told, sizeof told, "%s/told", scratch);
    snprintf(asked, sizeof asked, "%s/asked", scratch);
    dt_run_options options = options_of(by_replica, told);
    options.epochs = 1000000;
    options.checkpoint_every = 10;
    assert_int_equal(pthread_create(&thread, NULL, stop_in_mid_run, told), 0);
    assert_runs(dt_run_train, &options, 3, NULL);
    pthread_join(thread, NULL);
    stop[2] = 0;
    assert_ok(dt_checkpoint_newest(told, &newest));
    assert_ok(dt_checkpoint_read_state(newest, &saved));
    assert_true(saved.step > 0);
    options.checkpoint_dir = asked;
    options.max_steps = saved.step;
    assert_runs(dt_run_train, &options, 1, NULL);
    assert_same_checkpoints(told, asked, (int)saved.step);
    dt_checkpoint_state_free(&saved);
    free(newest);
}

static void what_one_lacks_ends_all(void **state) {
    (void)state;
    dt_status *statuses[3];
    char elsewhere[200], shared[200];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", scratch);
    snprintf(shared, sizeof shared, "%s/shared", scratch);
    assert_ok(dt_file_make_folders(elsewhere));
    dt_run_options options = options_of(by_replica, shared), last = options;
    last.data = elsewhere;
    run_all(dt_run_train, &options, &last, 3, NULL, statuses);
    for (int p = 0; p < 3; p++) assert_fails(statuses[p], p == 2 ? DT_NOT_FOUND : DT_ABORTED, "elsewhere/x: no such file");

    options.max_steps = 2;
    assert_runs(dt_run_train, &options, 1, NULL);
    options.max_steps = -1;
    last = options;
    last.checkpoint_dir = elsewhere;
    run_all(dt_run_train, &options, &last, 3, NULL, statuses);
    for (int p = 0; p < 3; p++) { /* each finds it, unless one that did has told it before */
        dt_code code = dt_status_code(statuses[p]) == DT_ABORTED ? DT_ABORTED : DT_FAILED_PRECONDITION;
        assert_fails(statuses[p], code, "not all processes find the same newest checkpoint there");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_leave_what_one_leaves),
        cmocka_unit_test(other_numbers_of_processes_go_on),
        cmocka_unit_test(one_is_told_and_all_end),
        cmocka_unit_test(what_one_lacks_ends_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
