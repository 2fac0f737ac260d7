/* dtc: what the subcommands of the command line share. */
#ifndef DT_COMPILER_DTC_H
#define DT_COMPILER_DTC_H

#include "abi/version.h"
#include "compiler/kernel/compilation.h"
#include "compiler/pipeline.h"

#include <argp.h>

/* One subcommand: parses its own arguments (argv[0] is "dtc NAME") and returns the exit code of the process: 0 done, 1 failed, 2 wrong usage. */
typedef struct dtc_command {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} dtc_command;

int dt_command_compile(int argc, char **argv);
int dt_command_summary(int argc, char **argv);
int dt_command_graph(int argc, char **argv);
int dt_command_check(int argc, char **argv);
int dt_command_opt(int argc, char **argv);
int dt_command_ops(int argc, char **argv);
int dt_command_pack(int argc, char **argv);
int dt_command_bench_kernel(int argc, char **argv);

/* The options that every command which reads a program takes. */
typedef struct dtc_program {
    const char *path;
    DT_LIST(const char *) defines; /* "name=value" of -D */
    int64_t batch;                 /* 0: the program's */
    const char *precision;         /* NULL: the program's */
    char *source;                  /* the text, once loaded; freed with the call */
} dtc_program;
enum {
    DTC_KEY_BATCH = 1000,
    DTC_KEY_PRECISION
};
#define DTC_PROGRAM_OPTIONS                                                                                                                          \
    {"define", 'D', "NAME=VALUE", 0, "Set an `option` of the program", 0},                                                                           \
        {"batch", DTC_KEY_BATCH, "N", 0, "Rows for each replica that memory is planned for (default: the largest batch(n) of the program)", 0}, {    \
        "precision", DTC_KEY_PRECISION, "TYPE", 0, "Factors of products are rounded to f32, tf32 or bf16 (default: what the program says, or f32)",  \
            0                                                                                                                                        \
    }

/* One call of such a command: what argp's parser fills in, and what `run` works on. */
typedef struct dtc_call {
    dt_arena *arena;
    dtc_program program;
    void *options; /* the command's own */
} dtc_call;

/* What a thread that elaborates a program or runs passes needs: they recurse as deep as programs nest, and along values that depend on each other. */
enum {
    DTC_STACK_BYTES = 256 << 20
};

/* Handles the program's options and path; ARGP_ERR_UNKNOWN for anything else. state->input is a dtc_call. */
error_t dtc_parse_program_option(int key, char *argument, struct argp_state *state);

/* Runs `work` with an arena of its own; memory that is out becomes the error `out_of_memory`. What `work` takes from elsewhere than the arena belongs
 * into its context, for `work` may be left at any allocation. */
dt_status *dtc_in_arena(const char *out_of_memory, dt_status *(*work)(dt_arena *arena, void *context), void *context);

/* Parses the arguments, then runs `run` in an arena. Returns the exit code. */
int dtc_run_on_program(const struct argp *argp, int argc, char **argv, void *options, dt_status *(*run)(dtc_call *call));

/* Reads and elaborates the program, or a graph in text form (FILE.ir), which is how a stage that was printed is entered again. Mistakes in a
 * program are printed to standard error; the status then only counts them. */
dt_status *dtc_load(dtc_call *call, dt_module **module);

/* Reads a file of text, which the caller frees. What is no text is an error: a device, an artifact, a byte of 0, after which nothing would be read.
 */
dt_status *dtc_read_text(const char *path, char **text);

/* An error if writing to `output` would overwrite `input`. */
dt_status *dtc_check_output(const char *input, const char *output);

/* Prints a status as "dtc: message" and frees it; returns the exit code. */
int dtc_finish(dt_status *status);
/* Writes text to `path`, or to standard output when it is NULL or "-"; frees the text. */
dt_status *dtc_write_text(const char *path, dt_text *text);

#endif
