/* process_state: what a process of a run does, in a file of its machine, for whoever watches the run and cannot ask the process: it may be stopped,
 * or gone. A file holds one record of fixed size, which is replaced in one write.
 *
 * Threads: one writes. */
#ifndef DT_RUNTIME_COMM_PROCESS_STATE_H
#define DT_RUNTIME_COMM_PROCESS_STATE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_STATE_FOLDER_VARIABLE "DT_STATE_DIR" /* of the environment: names the folder; not set: no state is kept */

typedef enum dt_process_phase {
    DT_PROCESS_RUNS,
    DT_PROCESS_FAILED, /* `reason` says why the run failed, of which it knows */
    DT_PROCESS_ENDED
} dt_process_phase;

typedef struct dt_process_state {
    int process, n_processes;
    int64_t pid, started; /* when that process began, in ticks since the machine's start: a later one may have its pid */
    char host[64];
    dt_process_phase phase;
    bool waits;        /* for other processes */
    bool person_knows; /* why the run failed: that is printed */
    double progressed; /* when it got on, or somebody whom it waits for: seconds of dt_seconds_now, which all processes of a machine share */
    char doing[400];   /* what and where */
    char reason[640];
} dt_process_state;

typedef struct dt_state_file {
    const char *folder;     /* the caller's, which outlives this */
    int file;               /* -1: none */
    dt_process_state state; /* as it was written last */
    double written;         /* when: dt_seconds_now */
} dt_state_file;

/* Makes the file of this process in `folder`, and the folder where it is missing. */
dt_status *dt_state_file_create(const char *folder, int process, int n_processes, dt_state_file *file);
/* Writes file->state. That it cannot be written is no reason to fail. */
void dt_state_file_write(dt_state_file *file);
void dt_state_file_close(dt_state_file *file);

/* The state of a process; *found: there is one, and it is whole. */
dt_status *dt_process_state_read(const char *folder, int process, dt_process_state *state, bool *found);

/* Marks a folder as that of a launch, which takes it away itself, with what processes have left in it. */
dt_status *dt_state_folder_mark(const char *folder);
/* On machines where there is no launch: takes the files of n_processes away, and the folder, unless one of the processes still runs. */
void dt_state_folder_tidy(const char *folder, int n_processes);

/* When a process began, as `started`; 0: there is no such process. */
int64_t dt_process_started(int64_t pid);
/* Whether a signal has stopped it. */
bool dt_process_is_stopped(int64_t pid);

#endif
