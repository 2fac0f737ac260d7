/* dtc_program: how every subcommand gets from a path to a module, and from a status to an exit code. */
#include "base/file.h"
#include "compiler/dtc.h"
#include "frontends/dsl/dsl.h"
#include "ir/text_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Digits and nothing else, from 1 to what an artifact holds. */
static bool parse_rows(const char *text, int64_t *rows) {
    char *end;
    if (text[strspn(text, "0123456789")] != 0) return false;
    *rows = strtoll(text, &end, 10); /* too many digits are LLONG_MAX */
    return end != text && *rows >= 1 && *rows <= INT32_MAX;
}

error_t dtc_parse_program_option(int key, char *argument, struct argp_state *state) {
    dtc_call *call = state->input;
    dtc_program *program = &call->program;
    switch (key) {
    case 'D': dt_list_push(call->arena, &program->defines, argument); return 0;
    case DTC_KEY_BATCH:
        if (!parse_rows(argument, &program->batch))
            argp_error(state, "--batch takes a number of rows, from 1 to %" PRId32 ", not \"%s\"", INT32_MAX, argument);
        return 0;
    case DTC_KEY_PRECISION:
        if (dt_precision_from_name(argument) == DT_N_PRECISIONS)
            argp_error(state, "--precision takes f32, tf32 or bf16, not \"%s\"%s", argument,
                       strcmp(argument, "f16") == 0 ? ", which needs losses that are scaled, for its small range" : "");
        program->precision = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (program->path) argp_error(state, "one program at a time: \"%s\" or \"%s\"?", program->path, argument);
        program->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which program?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* No local of this function changes between setjmp and longjmp. */
dt_status *dtc_in_arena(const char *out_of_memory, dt_status *(*work)(dt_arena *arena, void *context), void *context) {
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "%s", out_of_memory);
    if (setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "%s", out_of_memory);
    }
    dt_arena_guard(arena, &guard);
    dt_status *status = work(arena, context);
    dt_arena_destroy(arena);
    return status;
}

/* A command on its way: how it is called, and what becomes of it. */
typedef struct command {
    const struct argp *argp;
    int argc;
    char **argv;
    dt_status *(*run)(dtc_call *call);
    dtc_call call;
    bool wrong_usage;
} command;

static dt_status *run_command(dt_arena *arena, void *context) {
    command *command = context;
    command->call.arena = arena;
    command->call.program.defines.items = DT_NEW_ARRAY(arena, const char *, command->argc); /* for all, for argp_parse cannot be left */
    command->call.program.defines.capacity = (size_t)command->argc;
    command->wrong_usage = argp_parse(command->argp, command->argc, command->argv, 0, NULL, &command->call) != 0;
    return command->wrong_usage ? NULL : command->run(&command->call);
}

int dtc_run_on_program(const struct argp *argp, int argc, char **argv, void *options, dt_status *(*run)(dtc_call *call)) {
    command command = {argp, argc, argv, run, {.options = options}, false};
    int code = dtc_finish(dtc_in_arena("out of memory", run_command, &command));
    free(command.call.program.source);
    return command.wrong_usage ? 2 : code;
}

/* "name=value" as the front end takes it. */
static dt_status *split_defines(dtc_call *call, dt_dsl_options *options) {
    size_t n = call->program.defines.n;
    dt_dsl_define *defines = DT_NEW_ARRAY(call->arena, dt_dsl_define, n);
    for (size_t i = 0; i < n; i++) {
        const char *text = call->program.defines.items[i], *equals = strchr(text, '=');
        if (equals == NULL || equals == text) return dt_error(DT_INVALID_ARGUMENT, "-D %s: write -D name=value", text);
        defines[i].name = dt_arena_substring(call->arena, text, (size_t)(equals - text));
        defines[i].value = equals + 1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(defines[k].name, defines[i].name) == 0)
                return dt_error(DT_INVALID_ARGUMENT, "-D %s: %s is set twice, to %s before", text, defines[i].name, defines[k].value);
    }
    options->defines = defines;
    options->n_defines = n;
    return NULL;
}

/* Elaborates program text; what is wrong with it goes to standard error. */
static dt_status *elaborate(dtc_call *call, dt_module **module) {
    dtc_program *program = &call->program;
    dt_dsl_options options = {.capacity = program->batch, .precision = program->precision};
    DT_TRY(split_defines(call, &options));
    dt_diagnostics *diagnostics = dt_diagnostics_create(call->arena);
    dt_status *status = dt_dsl_compile(call->arena, program->path, program->source, &options, diagnostics, module);
    dt_text text = {.arena = call->arena};
    dt_diagnostics_print(&text, diagnostics);
    if (text.data) fputs(text.data, stderr);
    if (status || *module) return status;
    size_t n_errors = dt_diagnostics_n_errors(diagnostics);
    return dt_error(DT_INVALID_ARGUMENT, "%s: %zu error%s", program->path, n_errors, dt_plural(n_errors));
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

dt_status *dtc_read_text(const char *path, char **text) {
    struct stat about;
    if (stat(path, &about) == 0 && (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)))
        return dt_error(DT_INVALID_ARGUMENT, "%s is a device, and a program is a file of text", path);
    size_t n_bytes;
    DT_TRY(dt_file_read(path, text, &n_bytes));
    if (strncmp(*text, "PK\3\4", 4) == 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%s is an artifact, or another zip file: dtrun runs artifacts, dtc takes programs and graphs in text form", path);
    size_t n_text = strlen(*text);
    if (n_text < n_bytes) return dt_error(DT_INVALID_ARGUMENT, "%s is no text: byte %zu is 0", path, n_text);
    return NULL;
}

/* The program or graph that was named. */
static dt_status *load(dtc_call *call, dt_module **module) {
    dtc_program *program = &call->program;
    DT_TRY(dtc_read_text(program->path, &program->source));
    if (!ends_with(program->path, ".ir")) return elaborate(call, module);
    if (program->defines.n) return dt_error(DT_INVALID_ARGUMENT, "%s: a graph has no options left to set with -D", program->path);
    if (program->precision)
        return dt_error(DT_INVALID_ARGUMENT, "%s: --precision is for programs: in a graph each product says its own", program->path);
    DT_TRY(dt_module_parse(call->arena, program->path, program->source, module));
    if (program->batch) (*module)->capacity = program->batch;
    return NULL;
}

dt_status *dtc_load(dtc_call *call, dt_module **module) {
    DT_TRY(load(call, module));
    int64_t rows = (*module)->capacity;
    if (rows < 0 || rows > INT32_MAX)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%s: memory is planned for 1 to %" PRId32 " rows for each replica, not for %" PRId64 "; --batch says for how many",
                        call->program.path, INT32_MAX, rows);
    return NULL;
}

dt_status *dtc_check_output(const char *input, const char *output) {
    struct stat from, to;
    if (stat(input, &from) != 0 || stat(output, &to) != 0 || !S_ISREG(from.st_mode) || from.st_dev != to.st_dev || from.st_ino != to.st_ino)
        return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "-o %s: this would overwrite what is read", output);
}

dt_status *dtc_write_text(const char *path, dt_text *text) {
    dt_status *status = NULL;
    if (text->failed)
        status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    else if (path && !(path[0] == '-' && path[1] == 0))
        status = dt_file_write_atomic(path, text->data ? text->data : "", text->n);
    else if (fwrite(text->data ? text->data : "", 1, text->n, stdout) != text->n || fflush(stdout) != 0)
        status = dt_error(DT_IO, "cannot write to standard output");
    dt_text_free(text);
    return status;
}

int dtc_finish(dt_status *status) {
    if (status == NULL) return 0;
    fprintf(stderr, "dtc: %s\n", dt_status_message(status));
    dt_status_free(status);
    return 1;
}
