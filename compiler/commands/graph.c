/* dtc graph: a picture of a step, for Graphviz or drawn by it. */
#include "compiler/commands/command.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_STEP = 2000,
    KEY_DEPTH
};

static const struct argp_option option_rows[] = {
    {"output", 'o', "FILE", 0,
     "Where it goes: text for Graphviz (.dot, .gv), or a picture drawn by it (.svg, .pdf, .png) (default: text, to standard output)", 1},
    {"step", KEY_STEP, "NAME", 0, "The step (default: train, or else the first)", 1},
    {"depth", KEY_DEPTH, "N", 0, "Layers at this depth are boxes, whatever is in them; models are at 0 (default: all layers are shown)", 1},
    DT_COMMAND_PROGRAM_OPTIONS,
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
    dtc_graph_options *options = ((dt_command_call *)state->input)->options;
    switch (key) {
    case 'o': options->output = argument; return 0;
    case KEY_STEP: options->step = argument; return 0;
    case KEY_DEPTH:
        if (argument[0] == 0 || argument[strspn(argument, "0123456789")] != 0 || strlen(argument) > 3)
            argp_error(state, "--depth takes a number from 0 to 999, not \"%s\"", argument);
        options->n_levels = atoi(argument) + 1;
        return 0;
    default: return dt_command_parse(key, argument, state);
    }
}

/* By the end of the file's name; NULL: text. */
static const char *format_of(const char *path) {
    static const char *const formats[] = {"svg", "pdf", "png"};
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && dot != NULL; i++)
        if (strcmp(dot + 1, formats[i]) == 0) return formats[i];
    return NULL;
}

static dt_status *run(dt_command_call *call) {
    dtc_graph_options *options = call->options;
    dtc_bytes text = {0};
    if (options->output != NULL && strcmp(options->output, "-") == 0) options->output = NULL;
    bool is_printed = options->output == NULL;
    options->format = format_of(options->output);
    DT_TRY(dtc_graph(&call->program, options, is_printed ? &text : NULL));
    return is_printed ? dt_command_print(&text) : NULL;
}

int dt_command_graph(int argc, char **argv) {
    static const struct argp argp = {option_rows,
                                     parse,
                                     "PROGRAM.dt",
                                     "Draw what a step computes: layers as boxes, shapes at the arrows between them, and what crosses replicas.\vOf "
                                     "a step that trains the forward part "
                                     "is drawn; its gradients and updates are one box.\n\n  dtc graph fashion_cnn.dt -o fashion_cnn.svg",
                                     NULL,
                                     NULL,
                                     NULL};
    dtc_graph_options options = {.size = sizeof options};
    return dt_command_run(&argp, argc, argv, &options, run);
}
