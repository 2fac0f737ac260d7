/* dtc run: one microbatch through a plan in text form, element by element: the bits that code made of it has to leave. */
#include "compiler/commands/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *path;
    dtc_run_options run;
    const char **inputs; /* as many as there are arguments */
    dtc_define *variables;
    dt_command_tell tell;
} options;

enum {
    KEY_PLAN = 2000,
    KEY_INPUT,
    KEY_VARIABLE,
    KEY_SEED,
    KEY_COUNTER
};

static const struct argp_option option_rows[] = {
    {"plan", KEY_PLAN, "NAME", 0, "Which plan of the file to run: train, predict (default: the only one)", 0},
    {"input", KEY_INPUT, "FILE", 0, "An array (.npy) for each input, in order; their rows are those of the microbatch", 0},
    {"variable", KEY_VARIABLE, "NAME=FILE", 0, "What a variable is before (default: zeros)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of random numbers (default: 0)", 0},
    {"counter", KEY_COUNTER, "N", 0, "Number of the step (default: 0)", 0},
    {"output", 'o', "FOLDER", 0, "Where results, and variables that were written, go: NAME.npy", 0},
    {0},
};

static int64_t number(struct argp_state *state, const char *option, const char *text) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text == 0 || *end != 0 || errno != 0) argp_error(state, "--%s takes a number, not \"%s\"", option, text);
    return value;
}

static void add_variable(struct argp_state *state, options *options, char *argument) {
    char *equals = strchr(argument, '=');
    if (equals == NULL || equals == argument || equals[1] == 0) {
        argp_error(state, "--variable takes NAME=FILE, not \"%s\"", argument);
        return;
    }
    *equals = 0;
    options->variables[options->run.n_variables++] = (dtc_define){argument, equals + 1};
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case KEY_PLAN: options->run.plan = argument; return 0;
    case KEY_INPUT: options->inputs[options->run.n_inputs++] = argument; return 0;
    case KEY_VARIABLE: add_variable(state, options, argument); return 0;
    case KEY_SEED: options->run.seed = number(state, "seed", argument); return 0;
    case KEY_COUNTER: options->run.counter = number(state, "counter", argument); return 0;
    case 'o': options->run.output = argument; return 0;
    case ARGP_KEY_ARG:
        if (options->path) argp_error(state, "one file at a time");
        options->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (options->path == NULL) argp_error(state, "which file?");
        if (options->run.output == NULL || *options->run.output == 0) argp_error(state, "-o names the folder for what comes out");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int dt_command_run_plan(int argc, char **argv) {
    static const struct argp argp = {
        option_rows, parse, "FILE.plan", "Run one microbatch through a plan in text form, one element at a time, as --emit=kernels prints it.",
        NULL,        NULL,  NULL};
    options options = {.run = {.size = sizeof options.run}};
    options.inputs = calloc((size_t)argc, sizeof *options.inputs);
    options.variables = calloc((size_t)argc, sizeof *options.variables);
    options.run.inputs = options.inputs;
    options.run.variables = options.variables;
    int code = 2;
    if (options.inputs == NULL || options.variables == NULL) {
        code = dt_command_finish(dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"));
    } else if (dt_arguments_parse(&argp, argc, argv, 0, &options) == 0) {
        const dtc_program program = {.size = sizeof program, .path = options.path, .diagnostic = dt_command_print_finding, .context = &options.tell};
        code = dt_command_finish(dtc_run_plan(&program, &options.run));
    }
    free(options.inputs);
    free(options.variables);
    return code;
}
