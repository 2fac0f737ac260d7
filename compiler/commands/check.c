/* dtc check: types and shapes, gradients against slopes, three replicas against one, what passes made against what is written, rows. */
#include "base/status.h"
#include "compiler/commands/command.h"
#include "compiler/commands/progress.h"
#include "compiler/pipeline.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct options {
    dtc_check_program_options check;
    dt_progress progress;
    dt_status *status; /* of writing */
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
    case KEY_STEP: options->check.step = argument; return 0;
    case KEY_ROWS:
        options->check.rows = strtoll(argument, &end, 10);
        if (*end || options->check.rows < 1 || options->check.rows > 1024)
            argp_error(state, "--rows takes a number of rows, 1 to 1024, not \"%s\"", argument);
        return 0;
    default: return dt_command_parse(key, argument, state);
    }
}

static int print_finding(void *context, const dtc_finding *finding) {
    options *options = context;
    dt_progress_end(&options->progress);
    options->status = dt_command_print_text(finding->text);
    return options->status != NULL;
}

static int draw_progress(void *context, double done) {
    options *options = context;
    dt_progress_tell(&options->progress, done);
    return 0;
}

static dt_status *check(dt_command_call *call, const char *what) {
    options *options = call->options;
    dtc_check_result result = {.size = sizeof result};
    dt_progress_begin(&options->progress, stderr, isatty(STDERR_FILENO), dt_seconds, what);
    dt_status *status = dtc_check_program(&call->program, &options->check, &result);
    dt_progress_end(&options->progress);
    DT_TRY(dt_status_first(options->status, status));
    if (result.n_wrong == 0) return NULL;
    return dt_error(DT_INTERNAL,
                    "%s: %d check%s failed: no program makes that happen, so it is a mistake of the compiler, or of a graph changed by hand",
                    call->program.path, result.n_wrong, dt_plural(result.n_wrong));
}

static dt_status *run(dt_command_call *call) {
    dt_text what = {0};
    dt_text_format(&what, "checking %s", call->program.path);
    dt_status *status = what.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : check(call, what.data);
    dt_text_free(&what);
    return status;
}

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
        "it is written, by running them in the interpreter with all floats in f64, whatever the precision; each step after all passes, in its own "
        "types, against the step as it is written; means over a batch of which each row is there twice, and results of one in another order.\v"
        "Data is made up: fractions, and whole numbers that fit what the step does with them: labels, indices, masks, bytes. Weights are those of "
        "the "
        "program's initialisers. "
        "Differences are shares of what is compared. The batch is short: the second replica lacks a row, the third has none. A mistake in a gradient "
        "is "
        "found if it changes the gradient by a hundredth, but for one time in a hundred.",
        NULL,
        NULL,
        NULL};
    options options = {.check = {.size = sizeof options.check, .finding = print_finding, .progress = draw_progress, .context = &options}};
    keep_memory();
    return dt_command_run(&argp, argc, argv, &options, run);
}
