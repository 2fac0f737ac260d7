/* command: what the subcommands of dtc share. Each is a reader of its arguments, a call of the library, and a writer of what comes out. The calls are
 * those of include/dtc.h. */
#ifndef DT_COMMANDS_COMMAND_H
#define DT_COMMANDS_COMMAND_H

#include "abi/precision.h"
#include "base/arguments.h"
#include "base/text.h"
#include "include/dtc.h"

/* One subcommand: parses its own arguments (argv[0] is "dtc NAME") and returns the exit code of the process: 0 done, 1 failed, 2 wrong usage. */
typedef struct dt_command {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} dt_command;

int dt_command_compile(int argc, char **argv);
int dt_command_summary(int argc, char **argv);
int dt_command_graph(int argc, char **argv);
int dt_command_check(int argc, char **argv);
int dt_command_opt(int argc, char **argv);
int dt_command_ops(int argc, char **argv);
int dt_command_pack(int argc, char **argv);
int dt_command_run_plan(int argc, char **argv);
int dt_command_fmt(int argc, char **argv);

/* The options that every command which reads a program takes. */
enum {
    DT_COMMAND_KEY_BATCH = 1000,
    DT_COMMAND_KEY_PRECISION,
    DT_COMMAND_KEY_DIAGNOSTICS
};
#define DT_COMMAND_DIAGNOSTICS_OPTION                                                                                                                \
    {                                                                                                                                                \
        "diagnostics", DT_COMMAND_KEY_DIAGNOSTICS, "text|json", 0,                                                                                   \
            "How mistakes and warnings are written to standard error: for people, or each a line of JSON (default: text)", 0                         \
    }
#define DT_COMMAND_PROGRAM_OPTIONS                                                                                                                     \
    {"define", 'D', "NAME=VALUE", 0, "Set an `option` of the program", 0},                                                                             \
        {"batch", DT_COMMAND_KEY_BATCH, "N", 0, "Rows for each replica that memory is planned for (default: the largest batch(n) of the program)", 0}, \
        DT_COMMAND_DIAGNOSTICS_OPTION, {                                                                                                               \
        "precision", DT_COMMAND_KEY_PRECISION, "TYPE", 0,                                                                                              \
            "Precision of what is computed: " DT_PRECISION_CHOICES " (default: what the program says, or f32)", 0                                      \
    }

/* How findings are told: the context of dt_command_print_finding. */
typedef struct dt_command_tell {
    bool as_json;
    size_t n_errors; /* told so far */
} dt_command_tell;

/* What argp's parser of such a command fills in. */
typedef struct dt_command_call {
    dtc_program program; /* its findings go to standard error */
    dt_command_tell tell;
    dtc_define *defines; /* as many as there are arguments; `name=value` of argv is cut in two */
    void *options;       /* the command's own */
} dt_command_call;

/* Parses the arguments, then runs `run`; returns the exit code. */
int dt_command_run(const struct argp *argp, int argc, char **argv, void *options, dt_status *(*run)(dt_command_call *call));

/* Handles the program's options and path; ARGP_ERR_UNKNOWN for anything else. state->input is a dt_command_call. */
error_t dt_command_parse(int key, char *argument, struct argp_state *state);

/* Ends the process with "wrong usage" if there is an error, which it prints. Memory that is out is no wrong usage: the call itself will say so. */
void dt_command_refuse(struct argp_state *state, dt_status *status);

/* The callback of a dtc_program, whose context is a dt_command_tell: to standard error. */
int dt_command_print_finding(void *context, const dtc_diagnostic *diagnostic);

/* Writes to standard output: a text; bytes, which it frees. */
dt_status *dt_command_print_text(const char *text);
dt_status *dt_command_print(dtc_bytes *bytes);

/* --diagnostics=text|json */
void dt_command_set_diagnostics(struct argp_state *state, const char *argument, dt_command_tell *tell);

/* Prints a status as "dtc: message" and frees it; returns the exit code. As JSON it is a line like that of a finding, unless findings say all of it.
 */
int dt_command_finish(dt_status *status);
int dt_command_finish_with(const dt_command_tell *tell, dt_status *status);

#endif
