/* dtc graph: a picture of a step, for Graphviz or drawn by it. */
#include "compiler/api/api.h"
#include "compiler/commands/command.h"
#include "compiler/picture.h"
#include "compiler/pipeline.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KEY_STEP = 2000,
    KEY_DEPTH
};

typedef struct options {
    const char *step, *output;
    int depth;
} options;

static const struct argp_option option_rows[] = {
    {"output", 'o', "FILE", 0,
     "Where it goes: text for Graphviz (.dot, .gv), or a picture drawn by it (.svg, .pdf, .png) (default: text, to standard output)", 1},
    {"step", KEY_STEP, "NAME", 0, "The step (default: train, or else the first)", 1},
    {"depth", KEY_DEPTH, "N", 0, "Layers at this depth are boxes, whatever is in them; models are at 0 (default: all layers are shown)", 1},
    DT_COMMAND_PROGRAM_OPTIONS,
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *own = ((dt_command_call *)state->input)->options;
    switch (key) {
    case 'o': own->output = argument; return 0;
    case KEY_STEP: own->step = argument; return 0;
    case KEY_DEPTH:
        if (argument[0] == 0 || argument[strspn(argument, "0123456789")] != 0 || strlen(argument) > 3)
            argp_error(state, "--depth takes a number from 0 to 999, not \"%s\"", argument);
        own->depth = atoi(argument);
        return 0;
    default: return dt_command_parse(key, argument, state);
    }
}

/* ---- drawing ---- */

extern char **environ;

/* What dot is to write, by the end of the file's name; NULL: text. */
static const char *format_of(const char *path) {
    static const char *const formats[] = {"svg", "pdf", "png"};
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && dot != NULL; i++)
        if (strcmp(dot + 1, formats[i]) == 0) return formats[i];
    return NULL;
}

/* A file without a name, that dot reads from its beginning. */
static dt_status *keep(const dt_text *text, FILE **file) {
    *file = tmpfile();
    if (*file == NULL) return dt_error(DT_IO, "cannot make a temporary file: %s", strerror(errno));
    if (fwrite(text->data, 1, text->n, *file) == text->n && fflush(*file) == 0 && lseek(fileno(*file), 0, SEEK_SET) == 0) return NULL;
    fclose(*file);
    return dt_error(DT_IO, "cannot write a temporary file: %s", strerror(errno));
}

static dt_status *run_dot(FILE *input, const char *format, const char *output) {
    char type[16];
    snprintf(type, sizeof type, "-T%s", format);
    char *arguments[] = {(char[]){"dot"}, type, (char[]){"-o"}, (char *)(uintptr_t)output, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int how = 0;
    if (posix_spawn_file_actions_init(&actions) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO);
    int reason = posix_spawnp(&child, "dot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == ENOENT)
        return dt_error(DT_NOT_FOUND,
                        "%s is drawn by Graphviz's dot, which is not installed: apt-get install graphviz, or write text with -o FILE.dot", output);
    if (reason != 0) return dt_error(DT_INTERNAL, "cannot start dot: %s", strerror(reason));
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(how) && WEXITSTATUS(how) == 0 ? NULL : dt_error(DT_IO, "%s: dot could not write it", output);
}

static dt_status *draw(dt_text *text, const char *format, const char *output) {
    FILE *file;
    if (text->failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    DT_TRY(keep(text, &file));
    dt_status *status = run_dot(file, format, output);
    fclose(file);
    return status;
}

/* ---- the command ---- */

static dt_status *find_step(const dt_module *module, const char *name, const dt_step **step) {
    dt_text names = {.arena = module->arena};
    *step = module->steps.n > 0 ? &module->steps.items[0] : NULL;
    for (size_t i = 0; i < module->steps.n; i++) {
        dt_text_format(&names, "%s%s", i > 0 ? ", " : "", module->steps.items[i].name);
        if (strcmp(module->steps.items[i].name, name != NULL ? name : "train") != 0) continue;
        *step = &module->steps.items[i];
        return NULL;
    }
    if (name == NULL && *step != NULL) return NULL;
    return dt_error(DT_NOT_FOUND, "there is no step %s; --step picks one of: %s", name != NULL ? name : "train",
                    names.data != NULL ? names.data : "none");
}

static dt_status *work(dt_api_call *call, void *context) {
    const options *own = context;
    const char *format = format_of(own->output);
    dt_module *module;
    const dt_step *step;
    dt_picture picture;
    if (own->output != NULL) DT_TRY(dt_api_check_output(call->program.path, own->output));
    DT_TRY(dt_api_load(call, &module));
    DT_TRY(find_step(module, own->step, &step));
    dt_picture_make(call->arena, module, step, own->depth, &picture);
    dt_compilation compilation = {.arena = call->arena, .module = module};
    DT_TRY(dt_passes_run(&compilation, &(dt_passes_options){0}));
    dt_picture_mark_crossing(&picture, &compilation);
    dt_text text = {.arena = call->arena};
    dt_picture_print(call->arena, &picture, &text);
    return format != NULL ? draw(&text, format, own->output) : dt_command_write(own->output, &text);
}

static dt_status *run(dt_command_call *call) { return dt_api_run(&call->program, work, call->options); }

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
    options own = {.depth = -1};
    return dt_command_run(&argp, argc, argv, &own, run);
}
