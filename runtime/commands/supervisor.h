/* supervisor: the processes that this one starts, watches and ends: mpirun and what it is asked (launch), servers and workers of this machine
 * (local_servers). One supervisor a process; no threads. */
#ifndef DT_RUNTIME_COMMANDS_SUPERVISOR_H
#define DT_RUNTIME_COMMANDS_SUPERVISOR_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

/* A handler of signals that ask for an orderly end (dtrun_catch_signals): it counts them. */
void dt_supervisor_ask(int number);
int dt_supervisor_n_asked(void);  /* how often one did */
int dt_supervisor_asked_by(void); /* the newest; 0: none */

typedef struct dt_child {
    pid_t pid;      /* 0: it was not started, or has ended */
    bool has_ended; /* since it was started, which dt_children_look has seen */
    int status;     /* then: as waitpid says it */
    double began;   /* dt_seconds_now */
} dt_child;

typedef struct dt_child_options {
    const char *program;        /* the file; NULL: command[0], found in PATH */
    int dies_by;                /* the signal that it gets when this process is gone */
    int output, errors;         /* what it writes to; 0: as this process */
    const char *variable, *set; /* of its environment; NULL: none */
} dt_child_options;

/* Starts a program in a process group of its own, which the signals of a terminal do not reach, with nothing to read.
 * Errors  DT_RESOURCE_EXHAUSTED: no other process; DT_NOT_FOUND: command[0] cannot be run, and why. */
dt_status *dt_child_start(char *const *command, const dt_child_options *options, dt_child *child);

/* Looks which of n children have ended, and forgets others that were theirs; whether any of the n has since. */
bool dt_children_look(dt_child *const *children, int n);

/* Sends a signal to each that has not ended, and waits for all. After `seconds` it ends their process groups, and then what has become a child of
 * this process (PR_SET_CHILD_SUBREAPER), at once. */
void dt_children_end(dt_child *const *children, int n, int number, double seconds);

/* 0 to 255, as a shell has it: 128 and its number for a signal. */
int dt_child_exit_code(const dt_child *child);

#endif
