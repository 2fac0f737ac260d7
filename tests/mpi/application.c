/* application: one process of an application that trains with others: `mpirun -n 3 application CASE PROGRAM FOLDER`, as tests/mpi/application.py
 * starts it. Nothing but include/dtrt.h is used. What a process finds is printed, a line each; an error is printed and ends it with exit status 1. */
#include "include/dtrt.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ROWS = 12, /* of the global batch */
    EXAMPLES = 30,
    WIDTH = 4,
    EPOCHS = 3
};

typedef struct application {
    dtrt_processes *processes;
    dtrt_program *program;
    dtrt_session *session;
    const char *folder;
    int number, n_processes, train, evaluate, predict;
    int64_t n_rows; /* of this process, of a full batch */
} application;

static void check(const application *app, dt_status *status) {
    if (status == NULL) return;
    printf("process %d: error %s: %s\n", app->number, dtrt_code_name(status->code), status->message);
    exit(1); /* the launcher ends the others, where they do not know yet */
}

#define CHECK(call) check(app, call)

/* Prints the error that is expected of this process, or that there was none. */
static void fails(const application *app, const char *what, dt_status *status) {
    printf("process %d: %s: %s\n", app->number, what, status != NULL ? status->message : "no error");
    dtrt_status_free(status);
}

/* All examples, as the test has written them for dtrun too. */
static float x[EXAMPLES][WIDTH];
static int32_t label[EXAMPLES];

static void read_examples(const application *app) {
    char path[4096];
    snprintf(path, sizeof path, "%s/examples.raw", app->folder);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(x, sizeof x, 1, file) != 1 || fread(label, sizeof label, 1, file) != 1) exit(2);
    fclose(file);
}

static void open_session(application *app, dtrt_session_options options) {
    options.processes = app->processes;
    options.replicas = 6;
    options.global_batch = ROWS;
    options.seed = 5;
    options.data = app->folder;
    CHECK(dtrt_session_create(app->program, &options, &app->session));
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    CHECK(dtrt_session_describe(app->session, &info));
    app->n_rows = info.n_rows;
    CHECK(dtrt_initialize(app->session));
}

static dt_status *step_on(const application *app, int step, int64_t first, int64_t n) {
    const int64_t x_dims[] = {n, WIDTH}, label_dims[] = {n};
    const dtrt_array arrays[] = {{x[first], DTRT_F32, 2, x_dims, NULL}, {label + first, DTRT_I32, 1, label_dims, NULL}};
    return dtrt_step(app->session, step, arrays, 0);
}

/* The application's own loop: of each batch the rows of this process. */
static void step_all(application *app) {
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int64_t at = 0; at < EXAMPLES; at += ROWS) {
            int64_t rows = EXAMPLES - at < ROWS ? EXAMPLES - at : ROWS, first, n;
            CHECK(dtrt_session_rows(app->session, rows, &first, &n));
            CHECK(step_on(app, app->train, at + first, n));
        }
    double loss;
    CHECK(dtrt_report(app->session, app->train, "loss", &loss));
    printf("process %d: loss %a\n", app->number, loss);
}

/* An epoch of batches, those of this process. */
static int64_t callback_at;

static int fill(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows) {
    (void)context, (void)most_rows;
    if (callback_at == EXAMPLES) return 0;
    int64_t all = EXAMPLES - callback_at < ROWS ? EXAMPLES - callback_at : ROWS, first;
    dtrt_status_free(dtrt_session_rows(session, all, &first, rows));
    memcpy(buffers[0], x[callback_at + first], (size_t)*rows * sizeof x[0]);
    memcpy(buffers[1], label + callback_at + first, (size_t)*rows * sizeof label[0]);
    callback_at += all;
    return 0;
}

static void step_callback(application *app) {
    int64_t n_steps = 0, n;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        callback_at = 0;
        CHECK(dtrt_step_callback(app->session, app->train, fill, NULL, 0, &n));
        n_steps += n;
    }
    printf("process %d: %d steps\n", app->number, (int)n_steps);
}

static void step_pipeline(application *app) {
    dtrt_pipeline *pipeline;
    CHECK(dtrt_pipeline_open(app->session, "rows", &pipeline));
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int64_t rows = 1; rows > 0;) CHECK(dtrt_step_pipeline(app->session, app->train, pipeline, &rows));
    CHECK(dtrt_pipeline_close(pipeline));
}

/* Two calls, as one would be, and what dtrun says of them. */
static void train(application *app) {
    char checkpoints[4096];
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    snprintf(checkpoints, sizeof checkpoints, "%s/trained", app->folder);
    options.epochs = EPOCHS;
    options.checkpoint_dir = checkpoints;
    options.pause_after_epochs = 1;
    do CHECK(dtrt_train(app->session, &options, &result));
    while (strcmp(result.reason, "pause") == 0);
    CHECK(dtrt_evaluate(app->session, NULL, NULL));
    double accuracy;
    CHECK(dtrt_total(app->session, app->evaluate, "accuracy", &accuracy));
    printf("process %d: accuracy %a\n", app->number, accuracy);
}

/* Saves, goes on, loads, and has what it had; writes what all write, and reads it. */
static void load(application *app) {
    char *path;
    double rate;
    float before[WIDTH * 5], after[WIDTH * 5];
    int kernel = dtrt_find_variable(app->program, "Net/dense/kernel");
    CHECK(dtrt_set_launch(app->session, "rate", 0.5));
    CHECK(dtrt_save(app->session, app->folder, &path));
    printf("process %d: saved %s\n", app->number, path);
    CHECK(dtrt_read(app->session, kernel, before, sizeof before));
    CHECK(step_on(app, app->train, app->number * app->n_rows, app->n_rows));
    CHECK(dtrt_read(app->session, kernel, after, sizeof after));
    if (memcmp(before, after, sizeof before) == 0) exit(3);
    CHECK(dtrt_set_launch(app->session, "rate", 0.25));
    CHECK(dtrt_load(app->session, path));
    dtrt_free(path);
    CHECK(dtrt_read(app->session, kernel, after, sizeof after));
    CHECK(dtrt_get_launch(app->session, "rate", &rate));
    printf("process %d: %s, rate %g\n", app->number, memcmp(before, after, sizeof before) == 0 ? "the same" : "another", rate);
    const int64_t dims[] = {WIDTH, 5};
    for (int i = 0; i < WIDTH * 5; i++) before[i] = (float)i;
    CHECK(dtrt_write(app->session, kernel, &(dtrt_array){before, DTRT_F32, 2, dims, NULL}));
    CHECK(dtrt_read(app->session, kernel, after, sizeof after));
    printf("process %d: %s\n", app->number, memcmp(before, after, sizeof before) == 0 ? "as written" : "not as written");
}

/* Each its own rows of the results. */
static void predict(application *app) {
    float score[ROWS][3];
    int64_t first, n, rows;
    CHECK(dtrt_session_rows(app->session, 7, &first, &n));
    const int64_t dims[] = {n, WIDTH};
    CHECK(dtrt_step(app->session, app->predict, &(dtrt_array){x[first], DTRT_F32, 2, dims, NULL}, 0));
    CHECK(dtrt_result(app->session, app->predict, 0, score, sizeof score, &rows));
    for (int64_t row = 0; row < rows; row++) printf("row %d: %a %a %a\n", (int)(first + row), score[row][0], score[row][1], score[row][2]);
}

static void measure(const application *app, int64_t n_steps) {
    dtrt_session_options shape = DTRT_INIT(dtrt_session_options);
    dtrt_bench_options options = DTRT_INIT(dtrt_bench_options);
    char *text;
    shape.processes = app->processes;
    options.n_steps = n_steps;
    fails(app, "bench", dtrt_bench(app->program, &shape, &options, &text));
}

static void write_timeline(const application *app, bool keeps_open) {
    dtrt_pipeline *pipeline;
    CHECK(dtrt_pipeline_open(app->session, "rows", &pipeline));
    if (!keeps_open) CHECK(dtrt_pipeline_close(pipeline));
    fails(app, "timeline", dtrt_write_timeline(app->session, "timeline.json"));
    if (keeps_open) CHECK(dtrt_pipeline_close(pipeline));
}

/* Mistakes of one process, after each of which the run goes on. */
static void mistakes(application *app) {
    bool odd = app->number == 1;
    const int64_t dims[] = {WIDTH, 5};
    float kernel[WIDTH * 5] = {(float)app->number};
    int variable = dtrt_find_variable(app->program, "Net/dense/kernel");
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    fails(app, "shape",
          odd ? dtrt_step(app->session, app->train, &(dtrt_array){kernel, DTRT_F32, 2, dims, NULL}, 0)
              : step_on(app, app->train, app->number * app->n_rows, app->n_rows));
    fails(app, "rows", step_on(app, app->train, 0, odd ? 1 : 2));
    fails(app, "call", odd ? dtrt_initialize(app->session) : step_on(app, app->train, 0, app->n_rows));
    fails(app, "step", step_on(app, odd ? app->evaluate : app->train, 0, app->n_rows));
    fails(app, "value", dtrt_set_launch(app->session, "rate", odd ? 0.25 : 0.5));
    fails(app, "weights", dtrt_write(app->session, variable, &(dtrt_array){kernel, DTRT_F32, 2, dims, NULL}));
    options.epochs = odd ? 2 : 3;
    fails(app, "epochs", dtrt_train(app->session, &options, NULL));
    fails(app, "folder", dtrt_save(app->session, odd ? "elsewhere" : app->folder, NULL));
    fails(app, "text", dtrt_generate(app->session, NULL, NULL, NULL));
    measure(app, odd ? -1 : 1);
    write_timeline(app, odd);
    step_all(app);
}

/* One cannot read its data: the run is over, and everybody knows why. */
static void lost(application *app) {
    const int64_t dims[] = {0, WIDTH};
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    options.epochs = 1;
    fails(app, "train", dtrt_train(app->session, &options, NULL));
    fails(app, "step", dtrt_step(app->session, app->predict, &(dtrt_array){x, DTRT_F32, 2, dims, NULL}, 0));
}

/* A file by which one process says that it has come so far. */
static const char *mark_of(const application *app, int process) {
    static char path[4200];
    snprintf(path, sizeof path, "%s/here-%d", app->folder, process);
    return path;
}

/* One gives up, once the others have their session; one does not come. */
static void gives_up(application *app) {
    if (app->number != 1) {
        FILE *mark = fopen(mark_of(app, app->number), "w");
        if (mark != NULL) fclose(mark);
        fails(app, "step", step_on(app, app->train, 0, app->n_rows));
        return;
    }
    for (int p = 0; p < app->n_processes; p++)
        while (p != 1 && access(mark_of(app, p), F_OK) != 0) usleep(1000);
    fails(app, "abort", dtrt_processes_abort(app->processes, "the camera is gone"));
}

static void leaves(application *app) {
    if (app->number != 1) fails(app, "step", step_on(app, app->train, app->number * app->n_rows, app->n_rows));
}

static void sleeps(application *app) {
    if (app->number == 1) sleep(8);
    fails(app, "step", step_on(app, app->train, app->number * app->n_rows, app->n_rows));
}

static const struct {
    const char *name;
    void (*run)(application *app);
    bool saves, is_over; /* what it trained; the run has failed */
    double deadline;
} cases[] = {{"step", step_all, true, false, 0},     {"callback", step_callback, true, false, 0}, {"pipeline", step_pipeline, true, false, 0},
             {"train", train, false, false, 0},      {"shares", step_all, true, false, 0},        {"load", load, false, false, 0},
             {"predict", predict, false, false, 0},  {"mistakes", mistakes, true, false, 0},      {"lost", lost, false, true, 0},
             {"gives-up", gives_up, false, true, 0}, {"leaves", leaves, false, true, 0},          {"sleeps", sleeps, false, true, 2}};

int main(int argc, char **argv) {
    size_t which = 0;
    application all = {.folder = argc == 4 ? argv[3] : NULL}, *app = &all;
    if (argc != 4) return 2;
    while (which < sizeof cases / sizeof *cases && strcmp(cases[which].name, argv[1]) != 0) which++;
    if (which == sizeof cases / sizeof *cases) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    dtrt_processes_options together = DTRT_INIT(dtrt_processes_options);
    dtrt_processes_info info = DTRT_INIT(dtrt_processes_info);
    together.deadline_seconds = cases[which].deadline;
    CHECK(dtrt_processes_open(&together, &app->processes));
    CHECK(dtrt_processes_describe(app->processes, &info));
    app->number = info.number;
    app->n_processes = info.n_processes;
    CHECK(dtrt_open(argv[2], NULL, &app->program));
    app->train = dtrt_find_step(app->program, "train");
    app->evaluate = dtrt_find_step(app->program, "evaluate");
    app->predict = dtrt_find_step(app->program, "predict");
    char elsewhere[4096];
    snprintf(elsewhere, sizeof elsewhere, "%s/%d", app->folder, app->number); /* there where a process is to have a folder of its own */
    if (access(elsewhere, F_OK) == 0) app->folder = elsewhere;
    read_examples(app);
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    options.shard_optimizer = strcmp(argv[1], "shares") == 0;
    options.timeline_steps = strcmp(argv[1], "mistakes") == 0;
    open_session(app, options);
    cases[which].run(app);
    if (cases[which].saves) CHECK(dtrt_save(app->session, app->folder, NULL));
    CHECK(dtrt_session_destroy(app->session));
    dtrt_close(app->program);
    dt_status *closed = dtrt_processes_close(app->processes);
    if (!cases[which].is_over) CHECK(closed);
    if (cases[which].is_over) {
        fails(app, "close", closed);
        sleep(1); /* the launcher ends all when the first one has ended */
    }
    return 0;
}
