/* dtc check: what a program says is checked by its compilation; what the compiler derives from it, gradients and replicas, by running it. */
#include "compiler/check.h"
#include "compiler/dtc.h"
#include "ir/flops.h"
#include "compiler/progress.h"
#include "ir/text_form.h"

#include <inttypes.h>
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
    DTC_PROGRAM_OPTIONS,
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = ((dtc_call *)state->input)->options;
    char *end;
    switch (key) {
    case KEY_STEP: options->step = argument; return 0;
    case KEY_ROWS:
        options->rows = strtoll(argument, &end, 10);
        if (*end || options->rows < 1 || options->rows > 1024) argp_error(state, "--rows takes a number of rows, 1 to 1024, not \"%s\"", argument);
        return 0;
    default: return dtc_parse_program_option(key, argument, state);
    }
}

static int64_t rows_of(dt_arena *arena, const options *options, const dt_step *step) {
    const double many = 5e7; /* scalar operations of a row, forwards: a few tenths of a second */
    if (options->rows > 0) return options->rows;
    return dt_flops_of_function(arena, step->function).per_row > many ? 1 : 2;
}

/* One of the checks of one step. The text is the caller's to free. */
typedef struct part {
    dt_check check;
    const options *options;
    size_t step;
    bool replicas; /* this, or gradients */
    dt_text text;
    bool wrong;
} part;

/* One line, and whether it says that something is wrong. */
static void say(part *part, const dt_finding *finding) {
    dt_text *text = &part->text;
    const char *agree = part->replicas ? "results and variables are those of one" : "are the slopes";
    bool unknown = finding->wrong ? finding->is_stopped : finding->is_undefined;
    part->wrong = finding->wrong && !unknown;
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

static void tell(void *progress, double done) { dt_progress_tell(progress, done); }

static dt_status *run_part(dt_arena *arena, void *context) {
    part *part = context;
    const dt_step *step = &part->check.module->steps.items[part->step];
    int64_t rows = rows_of(arena, part->options, step);
    const char *what = dt_arena_format(arena, "step %s: %s", step->name, part->replicas ? "3 replicas" : "gradients");
    dt_finding finding;
    dt_progress progress;
    dt_progress_begin(&progress, stderr, isatty(STDERR_FILENO), dt_seconds, what);
    part->check.progress = tell;
    part->check.context = &progress;
    dt_status *status = (part->replicas ? dt_check_replicas : dt_check_gradients)(arena, &part->check, part->step, rows, &finding);
    dt_progress_end(&progress);
    DT_TRY(status);
    dt_text_format(&part->text, "%s: ", what);
    say(part, &finding);
    return dtc_write_text(NULL, &part->text);
}

static dt_status *check_step(const dt_check *check, const options *options, size_t s, int *n_wrong) {
    for (int replicas = 0; replicas < 2; replicas++) {
        part part = {.check = *check, .options = options, .step = s, .replicas = replicas};
        dt_status *status = dtc_in_arena("out of memory: take fewer --rows", run_part, &part);
        dt_text_free(&part.text);
        DT_TRY(status);
        *n_wrong += part.wrong;
    }
    return NULL;
}

static dt_status *say_program(const dtc_call *call, const dt_module *module) {
    dt_text text = {0};
    dt_text_format(&text, "%s: types and shapes agree: %zu step%s, %zu variable%s\n", call->program.path, module->steps.n,
                   dt_plural((int64_t)module->steps.n), module->variables.n, dt_plural((int64_t)module->variables.n));
    return dtc_write_text(NULL, &text);
}

static dt_status *run(dtc_call *call) {
    const options *options = call->options;
    dt_module *module;
    dt_check check = {0};
    DT_TRY(dtc_load(call, &module));
    DT_TRY(say_program(call, module));
    DT_TRY(dt_check_prepare(call->arena, module, &check));
    int n_wrong = 0, n_checked = 0;
    for (size_t s = 0; s < module->steps.n; s++) {
        if (options->step != NULL && strcmp(options->step, module->steps.items[s].name) != 0) continue;
        DT_TRY(dt_status_annotate(check_step(&check, options, s, &n_wrong), "step %s", module->steps.items[s].name));
        n_checked++;
    }
    if (options->step != NULL && n_checked == 0) return dt_error(DT_NOT_FOUND, "%s has no step %s", call->program.path, options->step);
    if (n_wrong == 0) return NULL;
    return dt_error(DT_INTERNAL,
                    "%s: %d check%s failed: no program makes that happen, so it is a mistake of the compiler, or of a graph changed by hand",
                    call->program.path, n_wrong, dt_plural(n_wrong));
}

int dtc_check(int argc, char **argv) {
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
    return dtc_run_on_program(&argp, argc, argv, &options, run);
}
