/* dtc check: what a program says is checked by its compilation; what the compiler derives from it, gradients and replicas, by running it. */
#include "compiler/check.h"
#include "base/thread.h"
#include "compiler/api/api.h"
#include "compiler/commands/command.h"
#include "compiler/pipeline.h"
#include "compiler/progress.h"
#include "ir/flops.h"
#include "ir/text_form.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *step;
    int64_t rows; /* 0: by how much work a row is */
} options;

enum {
    KEY_STEP = 2000,
    KEY_ROWS
};

static const struct argp_option option_rows[] = {
    {"step", KEY_STEP, "NAME", 0, "Only this step", 0},
    {"rows", KEY_ROWS, "N", 0, "Rows for each replica (default: 2, and of large steps 1)", 0},
    DT_COMMAND_PROGRAM_OPTIONS,
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = ((dt_command_call *)state->input)->options;
    char *end;
    switch (key) {
    case KEY_STEP: options->step = argument; return 0;
    case KEY_ROWS:
        options->rows = strtoll(argument, &end, 10);
        if (*end || options->rows < 1 || options->rows > 1024) argp_error(state, "--rows takes a number of rows, 1 to 1024, not \"%s\"", argument);
        return 0;
    default: return dt_command_parse(key, argument, state);
    }
}

typedef struct job job;

/* One of the checks of one step. */
typedef struct part {
    job *job;
    size_t step;
    bool replicas; /* this, or gradients */
    int64_t rows;
    double work, done; /* about how much there is, in any unit; which share of it is done */
    bool is_finished;
    dt_text text; /* one line */
    bool wrong;
    dt_status *status; /* why there is no line */
} part;

/* All parts, which threads take one after another, and their lines, which are written in order. */
struct job {
    const dt_check *check;
    part *parts;
    int n_parts, n_taken, n_written;
    pthread_mutex_t lock; /* of all that changes */
    dt_progress progress;
};

/* ---- a part ---- */

/* One line, and whether it says that something is wrong. */
static void say(part *part, const char *step, const dt_finding *finding) {
    dt_text *text = &part->text;
    const char *agree = part->replicas ? "results and variables are those of one" : "are the slopes";
    bool unknown = finding->wrong ? finding->is_stopped : finding->is_undefined;
    part->wrong = finding->wrong && !unknown;
    dt_text_format(text, "step %s: %s: ", step, part->replicas ? "3 replicas" : "gradients");
    if (finding->n == 0)
        dt_text_append(text, "none\n");
    else if (part->wrong)
        dt_text_format(text, "WRONG: %s is %.2g apart\n", finding->where, finding->worst);
    else if (finding->wrong)
        dt_text_format(text, "not known: %s is %.2g apart: the step has a stop_gradient, which slopes know nothing of\n", finding->where,
                       finding->worst);
    else if (unknown)
        dt_text_format(text, "not known: %s or its slope is not finite with the data that was made up\n", finding->where);
    else
        dt_text_format(text, "%d %s, at worst %.1g apart\n", finding->n, agree, finding->worst);
}

static void tell(void *context, double done) {
    part *part = context;
    job *job = part->job;
    double work = 0, all_work = 0;
    pthread_mutex_lock(&job->lock);
    part->done = done;
    for (int i = 0; i < job->n_parts; i++) {
        work += job->parts[i].work * job->parts[i].done;
        all_work += job->parts[i].work;
    }
    dt_progress_tell(&job->progress, work / all_work);
    pthread_mutex_unlock(&job->lock);
}

static dt_status *run_part(dt_arena *arena, void *context) {
    part *part = context;
    dt_check check = *part->job->check;
    check.progress = tell;
    check.context = part;
    dt_finding finding;
    DT_TRY((part->replicas ? dt_check_replicas : dt_check_gradients)(arena, &check, part->step, part->rows, &finding));
    say(part, check.module->steps.items[part->step].name, &finding);
    return NULL;
}

/* ---- all of them ---- */

/* The next part; once one has failed none is begun. */
static part *take_part(job *job) {
    bool failed = false;
    for (int i = 0; i < job->n_taken; i++) failed |= job->parts[i].status != NULL;
    return failed || job->n_taken == job->n_parts ? NULL : &job->parts[job->n_taken++];
}

/* Writes the lines of all parts up to the first that has none yet. */
static void write_lines(job *job) {
    for (; job->n_written < job->n_parts; job->n_written++) {
        part *part = &job->parts[job->n_written];
        if (!part->is_finished || part->status != NULL) return;
        dt_progress_end(&job->progress);
        part->status = dt_command_write(NULL, &part->text);
    }
}

static void *work(void *context) {
    job *job = context;
    part *part;
    pthread_mutex_lock(&job->lock);
    while ((part = take_part(job)) != NULL) {
        pthread_mutex_unlock(&job->lock);
        dt_status *status = dt_api_in_arena("out of memory: take fewer --rows", run_part, part);
        pthread_mutex_lock(&job->lock);
        part->status = status;
        part->is_finished = true;
        part->done = 1;
        write_lines(job);
    }
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* A thread for each processor, this one among them; fewer where there are none to be had. */
static void run_parts(job *job) {
    enum {
        MOST_THREADS = 64
    };
    pthread_t threads[MOST_THREADS];
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0;
    while (n < MOST_THREADS && n + 1 < n_processors && n + 1 < job->n_parts && dt_thread_start(&threads[n], DT_API_STACK_BYTES, work, job)) n++;
    work(job);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    dt_progress_end(&job->progress);
}

/* The parts of the steps that are asked for. */
static void list_parts(dt_arena *arena, const options *options, job *job) {
    const dt_module *module = job->check->module;
    const double many = 5e7; /* scalar operations of a row, forwards: some hundredths of a second */
    job->parts = DT_NEW_ARRAY(arena, part, 2 * module->steps.n);
    for (size_t s = 0; s < module->steps.n; s++) {
        const dt_step *step = &module->steps.items[s];
        if (options->step != NULL && strcmp(options->step, step->name) != 0) continue;
        dt_flops flops = dt_flops_of_function(arena, step->function);
        int64_t rows = options->rows > 0 ? options->rows : flops.per_row + 2 * flops.per_pair > many ? 1 : 2;
        for (int replicas = 0; replicas < 2; replicas++)
            job->parts[job->n_parts++] =
                (part){.job = job, .step = s, .replicas = replicas, .rows = rows, .work = 1 + flops.per_row * (double)rows + flops.fixed};
    }
}

/* The first error of any part, and how many are wrong. */
static dt_status *finish_parts(job *job, int *n_wrong) {
    dt_status *first = NULL;
    for (int i = 0; i < job->n_parts; i++) {
        part *part = &job->parts[i];
        *n_wrong += part->wrong;
        dt_text_free(&part->text);
        first = dt_status_first(first, dt_status_annotate(part->status, "step %s", job->check->module->steps.items[part->step].name));
    }
    return first;
}

static dt_status *say_program(const dt_api_call *call, const dt_module *module) {
    dt_text text = {0};
    dt_text_format(&text, "%s: types and shapes agree: %zu step%s, %zu variable%s\n", call->program.path, module->steps.n,
                   dt_plural((int64_t)module->steps.n), module->variables.n, dt_plural((int64_t)module->variables.n));
    return dt_command_write(NULL, &text);
}

static dt_status *check_all(dt_api_call *call, void *context) {
    const options *options = context;
    dt_module *module;
    dt_check check = {0};
    DT_TRY(dt_api_load(call, &module));
    DT_TRY(say_program(call, module));
    job job = {.check = &check, .lock = PTHREAD_MUTEX_INITIALIZER};
    DT_TRY(dt_check_prepare(call->arena, module, &check));
    list_parts(call->arena, options, &job);
    if (options->step != NULL && job.n_parts == 0) return dt_error(DT_NOT_FOUND, "%s has no step %s", call->program.path, options->step);
    int n_wrong = 0;
    dt_progress_begin(&job.progress, stderr, isatty(STDERR_FILENO), dt_seconds, dt_arena_format(call->arena, "checking %s", call->program.path));
    run_parts(&job);
    DT_TRY(finish_parts(&job, &n_wrong));
    if (n_wrong == 0) return NULL;
    return dt_error(DT_INTERNAL,
                    "%s: %d check%s failed: no program makes that happen, so it is a mistake of the compiler, or of a graph changed by hand",
                    call->program.path, n_wrong, dt_plural(n_wrong));
}

static dt_status *run(dt_command_call *call) { return dt_api_run(&call->program, check_all, call->options); }

/* Tensors of many megabytes come and go: memory that was one's is kept for the next, where the system would take it back and clear it again. */
static void keep_memory(void) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int dt_command_check(int argc, char **argv) {
    static const struct argp argp = {
        option_rows,
        parse,
        "PROGRAM.dt",
        "Check a program: its types and shapes, by elaborating it; its gradients against slopes, and each step on three replicas against the step as "
        "it is written, by running them in the interpreter with all floats in f64, whatever the precision.\v"
        "Data is made up: fractions, 0 and 1 for whole numbers, bytes of any value for images. Weights are those of the program's initialisers. "
        "Differences are shares of what is compared. The batch is short: the second replica lacks a row, the third has none. A mistake in a gradient "
        "is "
        "found if it changes the gradient by a hundredth, but for one time in a hundred.",
        NULL,
        NULL,
        NULL};
    options options = {0};
    keep_memory();
    return dt_command_run(&argp, argc, argv, &options, run);
}
