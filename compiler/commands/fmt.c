/* dtc fmt: programs as everybody writes them, in place. */
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "compiler/commands/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char **paths; /* as many as there are arguments */
    size_t n_paths;
    bool only_checks;
    size_t n_different;
    dt_command_tell tell;
} options;

enum {
    KEY_CHECK = 2000
};

static const struct argp_option option_rows[] = {
    {"check", KEY_CHECK, NULL, 0, "Change nothing: print the names of the files that would change, and exit with 1 if there are any", 0},
    DT_COMMAND_DIAGNOSTICS_OPTION,
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case KEY_CHECK: options->only_checks = true; return 0;
    case DT_COMMAND_KEY_DIAGNOSTICS: dt_command_set_diagnostics(state, argument, &options->tell); return 0;
    case ARGP_KEY_ARG: options->paths[options->n_paths++] = argument; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which files? - is standard input"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* All of standard input, on the heap. */
static dt_status *read_input(char **data, size_t *n_bytes) {
    dt_text text = {0};
    char block[4096];
    size_t n;
    dt_text_append(&text, "");
    while ((n = fread(block, 1, sizeof block, stdin)) > 0) dt_text_append_bytes(&text, block, n);
    if (ferror(stdin)) {
        dt_text_free(&text);
        return dt_error(DT_IO, "cannot read standard input: %s", strerror(errno));
    }
    if (text.failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    *n_bytes = text.n;
    *data = dt_text_take(&text);
    return NULL;
}

/* The name of a file that would change. */
static dt_status *print_name(const char *name) {
    bool written = puts(name) >= 0 && fflush(stdout) == 0;
    return written ? NULL : dt_error(DT_IO, "cannot write to standard output: %s", strerror(errno));
}

static dt_status *format(options *options, const char *path, const char *source, size_t n_bytes) {
    bool is_input = strcmp(path, "-") == 0;
    const dtc_program program = {.size = sizeof program,
                                 .path = is_input ? "standard input" : path,
                                 .source = source,
                                 .diagnostic = dt_command_print_finding,
                                 .context = &options->tell};
    dtc_bytes formatted;
    if (strlen(source) < n_bytes) return dt_error(DT_INVALID_ARGUMENT, "%s is no text: byte %zu is 0", program.path, strlen(source));
    DT_TRY(dtc_format(&program, NULL, &formatted));
    bool differs = formatted.n_bytes != n_bytes || memcmp(formatted.data, source, n_bytes) != 0;
    dt_status *status = NULL;
    options->n_different += differs;
    if (options->only_checks && differs)
        status = print_name(program.path);
    else if (!options->only_checks && is_input)
        return dt_command_print(&formatted);
    else if (differs)
        status = dt_file_write_atomic(path, formatted.data, formatted.n_bytes);
    dtc_free(formatted.data);
    return status;
}

/* Each file by itself: one with a mistake stays as it is, and the others do not wait for it. */
static int run(options *options) {
    int code = 0;
    for (size_t i = 0; i < options->n_paths; i++) {
        char *source = NULL;
        size_t n_bytes;
        bool is_input = strcmp(options->paths[i], "-") == 0;
        dt_status *status = is_input ? read_input(&source, &n_bytes) : dt_file_read(options->paths[i], &source, &n_bytes);
        if (status == NULL) status = format(options, options->paths[i], source, n_bytes);
        free(source);
        code |= dt_command_finish_with(&options->tell, status);
    }
    return options->only_checks && options->n_different > 0 ? 1 : code;
}

int dt_command_fmt(int argc, char **argv) {
    static const struct argp argp = {option_rows,
                                     parse,
                                     "FILE.dt...",
                                     "Format programs in place: indentation, blanks and blank lines as everybody has "
                                     "them. Lines stay as they are broken; a program with mistakes in its grammar stays as it is.",
                                     NULL,
                                     NULL,
                                     NULL};
    options options = {.paths = dt_allocate_zeroed((size_t)argc, sizeof *options.paths)};
    if (options.paths == NULL) return dt_command_finish(dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"));
    int code = dt_arguments_parse(&argp, argc, argv, 0, &options) != 0 ? 2 : run(&options);
    dt_release(options.paths);
    return code;
}
