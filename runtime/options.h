/* options: what a run can be told, a row each: which commands take it, its name and its words on the command line, what it may be, the member of
 * dt_run_options that it sets, whether all processes of a run must have it alike, and which structs of include/dtrt.h have it.
 *
 * All who handle options read the rows: the command line (which has rows of its own beside them), what dtrt is given, the rendezvous, the processes
 * that `dtrun` starts, and workers of parameter servers, which are told what a training is. */
#ifndef DT_RUNTIME_OPTIONS_H
#define DT_RUNTIME_OPTIONS_H

#include "runtime/run.h"

#include <stddef.h>

/* The commands of dtrun that take an option. */
typedef enum dt_option_takers {
    DT_FOR_TRAIN = 1,
    DT_FOR_EVALUATE = 2,
    DT_FOR_PREDICT = 4,
    DT_FOR_INFO = 8,
    DT_FOR_DEVICES = 16,
    DT_FOR_BENCH = 32,
    DT_FOR_LAUNCH = 64,
    DT_FOR_DATA = 128,
    DT_FOR_GENERATE = 256,
    DT_FOR_EXPORT = 512,
    DT_FOR_REPORT = 1024,
    DT_FOR_KEYS = 2048,
    DT_FOR_SERVER = 4096, /* ps-server */
    DT_FOR_WORKER = 8192, /* ps-worker */
    DT_FOR_PS = 16384,
    DT_FOR_SERVED = DT_FOR_SERVER | DT_FOR_PS,
    DT_FOR_TRAINS = DT_FOR_TRAIN | DT_FOR_SERVED, /* what a training is said to */
    DT_FOR_RUNS = DT_FOR_TRAINS | DT_FOR_EVALUATE | DT_FOR_PREDICT,
    DT_FOR_STEPS = DT_FOR_RUNS | DT_FOR_BENCH,                   /* what runs steps of a program over examples */
    DT_FOR_COMPUTES = DT_FOR_STEPS | DT_FOR_GENERATE,            /* on devices */
    DT_FOR_READS = DT_FOR_RUNS | DT_FOR_DATA,                    /* files of data */
    DT_FOR_CODE = DT_FOR_COMPUTES | DT_FOR_DATA | DT_FOR_WORKER, /* runs code of the program, if only to make examples */
    DT_FOR_PROGRAM = DT_FOR_CODE | DT_FOR_INFO
} dt_option_takers;

/* What an option may be, and the type of its member. */
typedef enum dt_option_kind {
    DT_OPTION_FLAG,    /* bool */
    DT_OPTION_CHOICE,  /* bool: `argument` is "a|b", and it is b */
    DT_OPTION_LEVEL,   /* an enum, of which the row has the number `least`: the highest that is said */
    DT_OPTION_TEXT,    /* const char *, which is not empty */
    DT_OPTION_PATH,    /* the same; processes may call it otherwise, and agree on whether there is one */
    DT_OPTION_LIST,    /* const char *const *, which dt_option_read allocates: all that are said, `said` of them, an int */
    DT_OPTION_WHOLE,   /* int64_t, `least` or more */
    DT_OPTION_COUNT,   /* int, from 1 to `most` */
    DT_OPTION_SECONDS, /* double: whole seconds, `least` or more */
    DT_OPTION_NUMBER,  /* double: 0 or more, and finite */
    DT_OPTION_ALIAS    /* another name for the row before */
} dt_option_kind;

/* Structs of include/dtrt.h whose members are options. */
typedef enum dt_option_struct {
    DT_OF_SESSION,
    DT_OF_TRAIN,
    DT_OF_EVALUATE,
    DT_OF_PREDICT,
    DT_OF_GENERATE,
    DT_OF_DATA,
    DT_OF_BENCH,
    DT_OF_INFO,
    DT_N_OPTION_STRUCTS
} dt_option_struct;

typedef struct dt_option {
    dt_option_takers takes;
    const char *name, *argument; /* argument NULL: it takes none */
    int group;                   /* of --help, from 1: what is run, on what, checkpoints, what is said, the rest */
    const char *help;            /* NULL: not in --help */
    dt_option_kind kind;
    size_t member, said;            /* offsets; said 0: nobody asks */
    int64_t least, most, otherwise; /* otherwise: of a number, where nothing is said */
    int letter;                     /* -o; 0: none */
    bool is_own;                    /* of each process of a training: servers do not tell it to workers */

    /* How a message says that a process has another value than process 0: "has --seed"; "": it is one of `other options`; NULL: it may. */
    const char *alike;

    /* Where structs of include/dtrt.h have it, in the member's type, but an int for a bool. A number of 0 leaves the member as it is. 0: not there.
     */
    uint16_t in[DT_N_OPTION_STRUCTS];

    dt_status *(*read)(const struct dt_option *option, void *options, const char *text); /* instead of dt_option_read; or NULL */
} dt_option;

/* [dt_n_run_options] those whose members are of dt_run_options. */
extern const dt_option dt_run_option_rows[];
extern const int dt_n_run_options;

void dt_options_set_defaults(const dt_option *rows, int n, void *options);

/* Sets the option's member of `options` from what was typed. DT_INVALID_ARGUMENT: it is not that. */
dt_status *dt_option_read(const dt_option *option, void *options, const char *text);

/* Whether it says which training it is, from beginning to end: what servers tell workers. */
bool dt_option_is_told(const dt_option *option);

/* Sets what a struct of include/dtrt.h says of the run, which dt_options_read has read; or reads it too. */
dt_status *dt_run_options_take(dt_option_struct of, const void *read, dt_run_options *options);
dt_status *dt_run_options_read(dt_option_struct of, const void *given, void *read, size_t bytes, dt_run_options *options);

/* The option as a number: the same in two processes where both have it alike. */
int64_t dt_option_number(const dt_option *option, const dt_run_options *options);
/* A hash of those in which all processes must be alike that the struct has. */
uint64_t dt_run_options_hash(dt_option_struct of, const dt_run_options *options);

#endif
