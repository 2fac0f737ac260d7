/* dtc check: what a program says is checked by its compilation; what the compiler derives from it, gradients and replicas, by running it. */
#include "compiler/check.h"
#include "compiler/dtc.h"
#include "compiler/flops.h"
#include "ir/text_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const double many = 5e7; /* scalar operations of a row, forwards: a few seconds */
    if (options->rows > 0) return options->rows;
    return dt_flops_of_function(arena, step->function).per_row > many ? 1 : 2;
}

/* One line, and whether it says that something is wrong. */
static bool say(dt_text *text, const char *step, const char *what, const dt_finding *finding, const char *agree) {
    bool wrong = finding->wrong && !finding->is_stopped;
    dt_text_format(text, "step %s: %s: ", step, what);
    if (finding->n == 0)
        dt_text_append(text, "none\n");
    else if (!finding->wrong)
        dt_text_format(text, "%d %s, at worst %.1g apart\n", finding->n, agree, finding->worst);
    else
        dt_text_format(text, "%s: %s is %.2g apart%s\n", wrong ? "WRONG" : "not known", finding->where, finding->worst,
                       wrong ? "" : ": the step has a stop_gradient, which slopes know nothing of");
    return wrong;
}

/* The arena is the check's own: all that the interpreter computes stays in it. */
static dt_status *check(dtc_call *call, const dt_module *module, size_t s, bool replicas, bool *wrong) {
    const dt_step *step = &module->steps.items[s];
    dt_finding finding;
    dt_text text = {0};
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL || setjmp(guard)) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory: take fewer --rows");
    }
    dt_arena_guard(arena, &guard);
    int64_t rows = rows_of(arena, call->options, step);
    dt_status *status = (replicas ? dt_check_replicas : dt_check_gradients)(arena, module, s, rows, &finding);
    if (status == NULL) {
        *wrong = say(&text, step->name, replicas ? "2 replicas" : "gradients", &finding,
                     replicas ? "results and variables are those of one" : "are the slopes");
        status = dtc_write_text(NULL, &text);
    }
    dt_arena_destroy(arena);
    return status;
}

static dt_status *check_step(dtc_call *call, const dt_module *module, size_t s, int *n_wrong) {
    bool wrong = false;
    for (int replicas = 0; replicas < 2; replicas++) {
        DT_TRY(check(call, module, s, replicas, &wrong));
        *n_wrong += wrong;
    }
    return NULL;
}

static dt_status *run(dtc_call *call) {
    const options *options = call->options;
    dt_module *module;
    DT_TRY(dtc_load(call, &module));
    dt_text text = {0};
    dt_text_format(&text, "%s: types and shapes agree: %zu step%s, %zu variable%s\n", call->program.path, module->steps.n,
                   dt_plural((int64_t)module->steps.n), module->variables.n, dt_plural((int64_t)module->variables.n));
    DT_TRY(dtc_write_text(NULL, &text));
    int n_wrong = 0, n_checked = 0;
    for (size_t s = 0; s < module->steps.n; s++) {
        if (options->step != NULL && strcmp(options->step, module->steps.items[s].name) != 0) continue;
        DT_TRY(dt_status_annotate(check_step(call, module, s, &n_wrong), "step %s", module->steps.items[s].name));
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
        "Check a program: its types and shapes, by elaborating it; each gradient against slopes, and each step on two replicas against the step as "
        "it is written, by running them in the interpreter with all floats in f64, whatever the precision.\v"
        "Data is made up: fractions, 0 and 1 for whole numbers, bytes of any value for images. Weights are those of the program's initialisers. "
        "Differences are shares of what is compared. The second of two batches is short by one row.",
        NULL,
        NULL,
        NULL};
    options options = {0};
    return dtc_run_on_program(&argp, argc, argv, &options, run);
}
