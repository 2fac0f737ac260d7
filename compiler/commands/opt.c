/* dtc opt: one pass, text in and text out. What the tests of the passes use, and a way to look at one pass alone. */
#include "compiler/commands/command.h"

#include <string.h>

typedef struct options {
    const char *path;
    dtc_pass_options pass;
    dt_command_tell tell;
} options;

static const struct argp_option option_rows[] = {
    {"pass", 'p', "NAME", 0, "The pass to run (`dtc compile --help` names them); none: read and print", 0},
    {"output", 'o', "FILE", 0, "Where to write; standard output by default", 0},
    {0},
};

static bool is_pass(const char *name) {
    int i = 0;
    while (dtc_pass_name(i) != NULL && strcmp(dtc_pass_name(i), name) != 0) i++;
    return dtc_pass_name(i) != NULL;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case 'p':
        if (!is_pass(argument)) argp_error(state, "there is no pass \"%s\"", argument);
        if (options->pass.pass) argp_error(state, "one pass at a time: \"%s\" or \"%s\"?", options->pass.pass, argument);
        options->pass.pass = argument;
        return 0;
    case 'o':
        if (*argument == 0) argp_error(state, "-o takes the name of a file");
        options->pass.output = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path) argp_error(state, "one file at a time");
        options->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which file?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static dt_status *run(options *options) {
    const dtc_program program = {.size = sizeof program, .path = options->path, .diagnostic = dt_command_print_finding, .context = &options->tell};
    dtc_bytes text = {0};
    if (options->pass.output != NULL && strcmp(options->pass.output, "-") == 0) options->pass.output = NULL;
    bool is_printed = options->pass.output == NULL;
    DT_TRY(dtc_run_pass(&program, &options->pass, is_printed ? &text : NULL));
    return is_printed ? dt_command_print(&text) : NULL;
}

int dt_command_opt(int argc, char **argv) {
    static const struct argp argp = {option_rows, parse, "FILE", "Run one pass on a graph in text form, or on plans (FILE.plan), and print what comes out.",
                                     NULL,        NULL,  NULL};
    options options = {.pass = {.size = sizeof options.pass}};
    if (dt_arguments_parse(&argp, argc, argv, 0, &options) != 0) return 2;
    return dt_command_finish(run(&options));
}
