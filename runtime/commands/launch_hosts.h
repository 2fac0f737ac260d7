/* launch_hosts: the machines that a launch may use, and which of them are left out when it starts a run again: those that the launcher cannot reach,
 * and those that failed twice in a row.
 *
 * Which machines there are the launcher is told in a file, and it is the launcher that asks a machine whether it is there, by starting a program: so
 * all that reaches machines (ssh, an agent of one's own, what a scheduler has instead) is the launcher's, and a machine counts as reached when a run
 * can be. */
#ifndef DT_RUNTIME_COMMANDS_LAUNCH_HOSTS_H
#define DT_RUNTIME_COMMANDS_LAUNCH_HOSTS_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>

/* A program that starts processes, and what it is told each time. */
typedef struct dt_mpirun {
    const char *program;
    const char *options; /* split at blanks; NULL: none */
    bool is_hydra;       /* takes the options of MPICH's; else those of Open MPI's */
} dt_mpirun;

/* Asks the program which of the two it is; an error where it is neither. A question ends early, unanswered, once `is_over`. */
dt_status *dt_mpirun_identify(dt_mpirun *mpirun, bool (*is_over)(void), dt_arena *arena);
/* Its command line for n processes of the machines in `hosts`, a file; NULL: of this one. They are told the variable `tell` of this environment;
 * NULL: none. More words may be pushed; the last one has to be NULL. */
typedef DT_LIST(char *) dt_words;
void dt_mpirun_begin(const dt_mpirun *mpirun, int n, const char *hosts, const char *tell, dt_arena *arena, dt_words *words);

typedef struct dt_host {
    const char *name;  /* as the launcher is told it */
    int n_slots;       /* processes that it may have */
    char own_name[64]; /* as its processes say where they are; "": not known */
    int n_failures;    /* in a row */
    bool answers;      /* when it was asked last */
    bool is_out;
} dt_host;

typedef DT_LIST(dt_host) dt_hosts;

/* "a:2,b": two processes on a, one on b. */
dt_status *dt_hosts_parse(const char *list, dt_arena *arena, dt_hosts *hosts);
/* A file of either launcher: a machine a line, as "a slots=2", "a:2" or "a", and comments after #. */
dt_status *dt_hosts_read(const char *path, dt_arena *arena, dt_hosts *hosts);

int dt_hosts_n_slots(const dt_hosts *hosts); /* of those that are not left out */
/* Writes those that are not left out, for this launcher. */
dt_status *dt_hosts_write(const dt_hosts *hosts, const dt_mpirun *mpirun, const char *path);

/* Asks each that is not left out whether it is there, within `seconds`, and what it calls itself. Files for the launcher are made in `folder`. */
dt_status *dt_hosts_ask(dt_hosts *hosts, const dt_mpirun *mpirun, const char *folder, double seconds, bool (*is_over)(void), dt_arena *arena);
/* After a run that failed, and dt_hosts_ask: leaves machines out, and appends a line for each to `notes`. `blamed`: the machine whose process is said
 * to have failed, as it calls itself; "": nobody knows. One always stays; and where none answers, it is not the machines that are to blame. */
void dt_hosts_leave_out(dt_hosts *hosts, const char *blamed, dt_text *notes);

#endif
