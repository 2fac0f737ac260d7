/* command: see command.h. */
#include "compiler/commands/command.h"

#include "base/memory.h"
#include "base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits and nothing else, from 1 to what an artifact holds. */
static bool parse_rows(const char *text, int64_t *rows) {
    char *end;
    if (text[strspn(text, "0123456789")] != 0) return false;
    *rows = strtoll(text, &end, 10); /* too many digits are LLONG_MAX */
    return end != text && *rows >= 1 && *rows <= INT32_MAX;
}

static error_t add_define(struct argp_state *state, dt_command_call *call, char *argument) {
    char *equals = strchr(argument, '=');
    if (equals == NULL || equals == argument) {
        argp_failure(state, 1, 0, "-D %s: write -D name=value", argument);
        return EINVAL;
    }
    *equals = 0;
    call->defines[call->program.n_defines++] = (dtc_define){argument, equals + 1};
    return 0;
}

error_t dt_command_parse(int key, char *argument, struct argp_state *state) {
    dt_command_call *call = state->input;
    dtc_program *program = &call->program;
    switch (key) {
    case 'D': return add_define(state, call, argument);
    case DT_COMMAND_KEY_BATCH:
        if (!parse_rows(argument, &program->batch))
            argp_error(state, "--batch takes a number of rows, from 1 to %" PRId32 ", not \"%s\"", INT32_MAX, argument);
        return 0;
    case DT_COMMAND_KEY_PRECISION: program->precision = argument; return 0;
    case DT_COMMAND_KEY_DIAGNOSTICS: dt_command_set_diagnostics(state, argument, &call->tell); return 0;
    case ARGP_KEY_ARG:
        if (program->path) argp_error(state, "one program at a time: \"%s\" or \"%s\"?", program->path, argument);
        program->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which program?"); return 0;
    case ARGP_KEY_END: dt_command_refuse(state, dtc_check_options(program, NULL)); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void dt_command_refuse(struct argp_state *state, dt_status *status) {
    if (status != NULL && status->code != DT_RESOURCE_EXHAUSTED) argp_error(state, "%s", dt_status_message(status));
    dtc_status_free(status);
}

int dt_command_print_finding(void *context, const dtc_diagnostic *diagnostic) {
    dt_command_tell *tell = context;
    tell->n_errors += diagnostic->severity == DTC_ERROR;
    fputs(tell->as_json ? diagnostic->json : diagnostic->text, stderr);
    return 0;
}

void dt_command_set_diagnostics(struct argp_state *state, const char *argument, dt_command_tell *tell) {
    tell->as_json = strcmp(argument, "json") == 0;
    if (!tell->as_json && strcmp(argument, "text") != 0) argp_error(state, "--diagnostics is text or json, not \"%s\"", argument);
}

int dt_command_run(const struct argp *argp, int argc, char **argv, void *options, dt_status *(*run)(dt_command_call *call)) {
    dt_command_call call = {.program = {.size = sizeof call.program, .diagnostic = dt_command_print_finding}, .options = options};
    call.defines = dt_allocate_zeroed((size_t)argc, sizeof *call.defines);
    if (call.defines == NULL) return dt_command_finish(dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"));
    call.program.defines = call.defines;
    call.program.context = &call.tell;
    int code = dt_arguments_parse(argp, argc, argv, 0, &call) != 0 ? 2 : dt_command_finish_with(&call.tell, run(&call));
    dt_release(call.defines);
    return code;
}

static dt_status *print(const char *data, size_t n) {
    bool written = fwrite(data, 1, n, stdout) == n && fflush(stdout) == 0;
    return written ? NULL : dt_error(DT_IO, "cannot write to standard output: %s", strerror(errno));
}

dt_status *dt_command_print_text(const char *text) { return print(text, strlen(text)); }

dt_status *dt_command_print(dtc_bytes *bytes) {
    dt_status *status = print(bytes->data, bytes->n_bytes);
    dtc_free(bytes->data);
    *bytes = (dtc_bytes){0};
    return status;
}

int dt_command_finish_with(const dt_command_tell *tell, dt_status *status) {
    if (status == NULL) return 0;
    dt_status typed = *status;
    typed.message = dt_status_message(status);
    char *json = tell->as_json ? dtc_status_json(&typed) : NULL;
    bool is_told = tell->n_errors > 0 && status->code == DT_INVALID_ARGUMENT; /* all that the status counts */
    if (!tell->as_json || (json == NULL && !is_told)) fprintf(stderr, "dtc: %s\n", typed.message);
    if (json != NULL && !is_told) fputs(json, stderr);
    dtc_free(json);
    dtc_status_free(status);
    return 1;
}

int dt_command_finish(dt_status *status) { return dt_command_finish_with(&(dt_command_tell){0}, status); }
