/* peers: what a process knows of the others, and they of it, beside what they exchange: who they are, whether they are alive, why they failed.
 *
 * Whoever waits for a message asks the sender how it is. The answer has its counter of progress and what it is doing; none comes from a process that
 * is stopped, dead, or cut off. All of it belongs to the thread that owns the transport. */
#ifndef DT_RUNTIME_COMM_PEERS_H
#define DT_RUNTIME_COMM_PEERS_H

#include "runtime/comm/exchange.h"
#include "runtime/threads/progress.h"

typedef struct dt_process_name {
    char host[64];
    int64_t pid;
} dt_process_name;

typedef struct dt_peers dt_peers;

/* state_folder: where others of this machine keep their state, for when they cannot be asked; NULL: nowhere. */
dt_status *dt_peers_create(dt_transport *transport, double deadline_seconds, dt_progress *progress, const char *state_folder, dt_peers **peers);
void dt_peers_destroy(dt_peers *peers); /* NULL is allowed */
/* From now on messages name hosts and process ids. names [n_processes] outlive it. */
void dt_peers_introduce(dt_peers *peers, const dt_process_name *names);

/* Answers who asks, and hears answers. *failed: another process has failed, for this reason, for which process *blamed is to blame; -1: nobody is
 * said to be. */
dt_status *dt_peers_listen(dt_peers *peers, char *reason, size_t reason_bytes, int *blamed, bool *failed);
/* Whether process 0 has said that it has told the person why the run failed; and for process 0 to say so. */
bool dt_peers_person_knows(const dt_peers *peers);
void dt_peers_say_person_knows(dt_peers *peers);
/* The signal that asked one of all processes to stop, 0: none; and for the one that it asked to say so. */
int dt_peers_stop(const dt_peers *peers);
void dt_peers_tell_stop(dt_peers *peers, int number);
/* When this process got on, or somebody whom it waits for; *waits: it waits. */
double dt_peers_last_progress(const dt_peers *peers, bool *waits);
/* For how long this process has waited for others, or written checkpoints. Any thread. */
double dt_peers_idle_seconds(const dt_peers *peers);
void dt_peers_print_name(const dt_peers *peers, int process, char *text, size_t bytes); /* "process 2 (node7, pid 4711)" */
/* Asks those who are waited for by one of these exchanges. *failed: one of them is beyond the deadline; the reason names it. */
dt_status *dt_peers_ask(dt_peers *peers, const dt_exchange *exchanges, char *reason, size_t reason_bytes, bool *failed);
/* All others hear that this process has failed, and whom it blames; -1: nobody. Those that cannot hear are left out. */
void dt_peers_tell(dt_peers *peers, const char *reason, int blamed);

/* "train step 57, segment 1, gradients of conv1: computing" */
void dt_progress_describe(const dt_progress *progress, char *text, size_t bytes);

#endif
