/* dtrun: what the files of the command line share. A command reads its options, calls the library, and prints.
 *
 * info, devices, report and export call include/dtrt.h. What runs a program calls dt_program_run (runtime/dtrt/program.h), which is below dtrt_train
 * and its like: of a run with a session of its own, whose shape and seed may be those of the checkpoint that it goes on from, and its epoch that of
 * the data it finds, there is no word in dtrt.h. launch and what it needs (keeper.h, watch.h, launch_hosts.h) are about processes, and the library
 * is within one. */
#ifndef DT_RUNTIME_COMMANDS_DTRUN_H
#define DT_RUNTIME_COMMANDS_DTRUN_H

#include "base/arena.h"
#include "include/dtrt.h"
#include "runtime/commands/print_log.h"
#include "runtime/options.h"

/* An option as it was given. */
typedef struct dtrun_given {
    int row; /* of the table of options */
    const char *text;
} dtrun_given;

/* What the command line said: what runtime/options.c has rows for in `run`, the others in this. */
typedef struct dtrun_call {
    const char *command;
    dt_option_takers kind; /* of the command */
    const char *program;   /* .dtx or .dt; of export: the weights; of keys: the folder; NULL: the command takes none */
    dt_run_options run;
    bool logs_json;
    const char *level; /* of the kernels' code; NULL: the best */
    bool perf_map;
    const char *timeline; /* of train and evaluate: a file; NULL: none */
    const char *text;     /* of info: a member to print */
    int64_t n_processes;  /* of info: print what they exchange; of launch: start so many; 0: not said */
    int64_t n_steps;      /* of bench: how many to measure */
    bool json;
    const char *versus; /* another program, or NULL */
    const char *svg;    /* of bench: a file for a flame graph; NULL: none */
    int n_defines;      /* for a .dt: NAME=VALUE */
    const char *const *defines;
    const char *precision; /* for a .dt, of its products; NULL: what it says */

    int64_t restarts;           /* of launch */
    const char *mpirun;         /* NULL: that of PATH */
    const char *mpirun_options; /* or NULL */
    const char *hosts;          /* a list of machines; NULL: none */
    const char *hostfile;       /* a file of them; NULL: none */
    char **words;               /* [n_words] what each process runs: a command and what follows it */
    int n_words;

    dtrun_given *given; /* [n_given] all options, for processes that this one starts, or tells what to run */
    int n_given;
    int local_servers, workers; /* parameter servers, and workers, on this machine; of ps-server workers to wait for; 0: not said */
    int64_t staleness;          /* with parameter servers; -1: not said */
    const char *listen;         /* of ps-server: an address */
    int part, n_servers;        /* of ps-server; 0 of 0: not said. Of ps, n_servers alone */
    const char *servers;        /* addresses of all servers, of ps their machines, with commas between; NULL: not said */
    int port;                   /* of ps: that of server 0; 0: not said */
    const char *job;            /* of ps-server, ps-worker and ps: its name; NULL: not said */
    const char *keys;           /* a folder; NULL: none */
    bool insecure;
    bool is_local; /* started by train --local-servers, whose output is that of server 0, */
    bool was_said; /* which says why this process fails */
} dtrun_call;

typedef DT_LIST(const char *) dtrun_words;

/* Appends those of the options that were given that these commands take: --name=value. takers 0: those that say which training it is, from beginning
 * to end, which servers tell workers. */
void dtrun_list_given(const dtrun_call *call, dt_option_takers takers, dt_arena *arena, dtrun_words *words);

/* A worker's call becomes that of the training: lines of dtrun_list_given for a run, which live as long as the call. */
dt_status *dtrun_take_settings(dtrun_call *call, char *settings);

/* Parses argv[1..] for the command argv[1]. Returns an exit status: 0, or 2 after a message. --help ends the process. */
int dtrun_parse(int argc, char **argv, dtrun_call *call);
void dtrun_call_free(dtrun_call *call);

/* Whether several processes can make the command together. */
bool dtrun_runs(const dtrun_call *call);
/* How long one process of a run waits for another that does not get on. */
double dtrun_deadline(const dtrun_call *call);
/* From now on `handler` is called for the signals that ask for an orderly end. What nohup, or a shell that starts jobs in the background, has told us
 * to ignore stays ignored. */
void dtrun_catch_signals(void (*handler)(int number));

/* The commands' names and one line each, for `dtrun --help`. */
void dtrun_print_usage(FILE *to);

/* A program and where it is: the user's own, or what the dtc beside this program has made of a .dt. */
typedef struct dtrun_program {
    dtrt_program *program;
    char *path;
    char *scratch; /* folder that goes with it; NULL: it is the user's, or kept for the next run */
} dtrun_program;

/* Opens `named`, which is call->program or another one; a .dt is compiled as `call` says. After an error there is nothing to close. */
dt_status *dtrun_open_program(const dtrun_call *call, const char *named, dtrun_program *program);
/* The folder that goes with it is needed no more; the program stays open. */
void dtrun_remove_scratch(dtrun_program *program);
void dtrun_close_program(dtrun_program *program); /* one of zeros is allowed */

dt_status *dtrun_bench(dtrun_call *call, dtrt_program *program);
dt_status *dtrun_info(const dtrun_call *call, const dtrt_program *program);
dt_status *dtrun_devices(void);
dt_status *dtrun_export(const dtrun_call *call);
dt_status *dtrun_keys(const dtrun_call *call);   /* program: the folder */
dt_status *dtrun_report(const dtrun_call *call); /* run.inputs: folders; run.output: the page */
/* *code: the exit status, where the launch itself did not fail. */
dt_status *dtrun_launch(const dtrun_call *call, int *code);

/* ps: appends the command line of what this process is among those of the launcher: a ps-server or a ps-worker. `program`: of this one. */
dt_status *dtrun_find_role(const dtrun_call *call, const char *program, dt_arena *arena, dtrun_words *words);

/* ps-server and ps-worker: takes part in a training until it is over. `train` runs it under one plan of the team, with call->run.processes, and where
 * it is asynchronous with call->run.team. */
typedef dt_status *dtrun_train(dtrun_call *call, dtrt_program *program);
dt_status *dtrun_serve(dtrun_call *call, dtrt_program *program, atomic_int *stop, dtrun_train *train);
/* What servers tell workers: the options of the run, a line each. DT_INVALID_ARGUMENT: they are too long. */
dt_status *dtrun_settings(const dtrun_call *call, dt_arena *arena, const char **settings);
/* train --local-servers: starts servers and workers, and again those that die; *code: the exit status of server 0. */
dt_status *dtrun_local_servers(const dtrun_call *call, int *code);

enum {
    DTRUN_STOPPED = 75 /* EX_TEMPFAIL of sysexits.h: the exit status of processes that were asked to end, and can go on */
};

#endif
