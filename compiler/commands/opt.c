/* dtc opt: one pass, text in and text out. What the tests of the passes use, and a way to look at one pass alone. */
#include "compiler/api/api.h"
#include "compiler/commands/command.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"

#include <stdio.h>

typedef struct options {
    const char *pass, *path, *output;
} options;

static const struct argp_option option_rows[] = {
    {"pass", 'p', "NAME", 0, "The pass to run (`dtc compile --help` names them); none: read and print", 0},
    {"output", 'o', "FILE", 0, "Where to write; standard output by default", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case 'p':
        if (!dt_pass_exists(argument)) argp_error(state, "there is no pass \"%s\"", argument);
        if (options->pass) argp_error(state, "one pass at a time: \"%s\" or \"%s\"?", options->pass, argument);
        options->pass = argument;
        return 0;
    case 'o':
        if (*argument == 0) argp_error(state, "-o takes the name of a file");
        options->output = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path) argp_error(state, "one file at a time");
        options->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which file?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static dt_status *work(dt_api_call *call, void *context) {
    const options *options = context;
    dt_module *module;
    DT_TRY(dt_api_read_source(call));
    if (options->output) DT_TRY(dt_api_check_output(options->path, options->output));
    DT_TRY(dt_module_parse(call->arena, options->path, call->source, &module));
    dt_compilation compilation = {.arena = call->arena, .module = module};
    dt_status *status = options->pass ? dt_pass_run(&compilation, options->pass) : NULL;
    if (compilation.warnings.data) fputs(compilation.warnings.data, stderr);
    DT_TRY(status);
    dt_text text = {.arena = call->arena};
    dt_compilation_print(&text, &compilation);
    return dt_command_write(options->output, &text);
}

int dt_command_opt(int argc, char **argv) {
    static const struct argp argp = {option_rows, parse, "FILE.ir", "Run one pass on a graph in text form and print what comes out.",
                                     NULL,        NULL,  NULL};
    options options = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) return 2;
    const dtc_program program = {.size = sizeof program, .path = options.path};
    return dt_command_finish(dt_api_run(&program, work, &options));
}
