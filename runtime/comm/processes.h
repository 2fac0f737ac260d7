/* processes: those that a run consists of, and all that they tell one another.
 *
 * Each process has one thread that owns the transport (transport.h): it runs the rounds of exchanges, answers when others ask whether this process is
 * alive, and tells them when it fails. Whoever is waited for for longer than the deadline without a sign of progress ends the run: the process that
 * notices it first says who it was, and everybody returns DT_ABORTED with that sentence. A process that waits for others itself is not to blame.
 *
 * All processes make the same calls in the same order: exchanges in the order of their creation may be under way together. Where a run has one
 * process there is none of this: a NULL is a valid dt_processes everywhere here, of one process.
 * Threads: begin, abort and status from any; the rest from one at a time. */
#ifndef DT_RUNTIME_COMM_PROCESSES_H
#define DT_RUNTIME_COMM_PROCESSES_H

#include "base/text.h"
#include "runtime/comm/exchange.h"
#include "runtime/comm/mesh.h"
#include "runtime/comm/process_state.h"
#include "runtime/threads/progress.h"
#include "runtime/threads/timeline.h"

typedef struct dt_processes dt_processes;

typedef struct dt_processes_options {
    dt_status *(*open)(void *context, dt_transport **transport); /* called by the thread that will own it; *transport NULL: this process is alone */
    void *context;
    double deadline_seconds; /* without any progress of somebody who is waited for */
    dt_state_file *state;    /* where this process's state is kept; NULL: nowhere */
    atomic_int *stop;        /* number of the signal that asked for the end: of one process, and so of all; NULL: there is none */
    int stop_of_others;      /* what the others get when this process is asked; 0: the same number */
    bool outlives;           /* the process goes on without the others after a failure: nothing of ours ends it, and what messages may still reach is
                                never given back, */
    bool lets_go;            /* but where the transport touches no memory once its thread has ended */
} dt_processes_options;

enum {
    DT_RECORD_BYTES = 320 /* of a record that processes gather, at most */
};

/* Returns once all processes have found one another; *processes is NULL where there is one. After an error it is NULL too, unless this process ends
 * with the others and has found some of them: closing would end it, so the caller first says why. */
dt_status *dt_processes_open(const dt_processes_options *options, dt_processes **processes);
/* How long that may take, with this deadline. */
double dt_processes_start_seconds(double deadline_seconds);
/* All processes close together, or after a failure with `exit_status` each on its own: then this may not return, unless the process outlives it. */
void dt_processes_close(dt_processes *processes, int exit_status);
/* Returns when all processes have come here: none ends while another is at work. */
dt_status *dt_processes_finish(dt_processes *processes);

/* The thread may use the cores that the caller may: whoever waits for it wakes up sooner where both are on one core. */
void dt_processes_take_cores(dt_processes *processes);

int dt_processes_number(const dt_processes *processes);             /* of this one, from 0: among those that agree with one another */
int dt_processes_count(const dt_processes *processes);              /* of these */
dt_process_roles dt_processes_roles(const dt_processes *processes); /* of those that exchange: the same, but with asynchronous parameter servers */
const dt_transport *dt_processes_transport(const dt_processes *processes); /* to read what it says of itself; NULL: alone */
dt_progress *dt_processes_progress(dt_processes *processes);               /* of this process; NULL: nobody waits for it */

/* A record of each to all: records [n_processes] of `bytes` each, at most DT_RECORD_BYTES, of which this process's is filled in. */
dt_status *dt_processes_allgather(dt_processes *processes, void *records, size_t bytes, const dt_step_context *context);
/* The same in two halves, between which this process does something else: but gathers nothing. `mine` is its record. */
void dt_processes_begin_allgather(dt_processes *processes, const void *mine, size_t bytes, const dt_step_context *context);
dt_status *dt_processes_end_allgather(dt_processes *processes, void *records, size_t bytes);
/* Bytes of each, as many as it has, to process 0: there they are appended to `all`, in the order of processes. */
dt_status *dt_processes_gatherv(dt_processes *processes, const void *mine, size_t bytes, const dt_step_context *context, dt_text *all);
/* The same while steps go on, of lengths that all know: that of process p ends at byte ends[p] of all. Whoever has what is at `mine` begins the
 * exchange, once or several times, and waits for it, in any thread; then process 0 has what the others had, from ends[0] on, in slot 0. */
dt_exchange *dt_processes_new_gatherv(dt_processes *processes, void *mine, const int64_t *ends, const char *label, dt_arena *arena);

/* For how long this process has waited for others, or written checkpoints, since it was opened. */
double dt_processes_idle_seconds(const dt_processes *processes);
void dt_processes_print_name(const dt_processes *processes, int process, char *text, size_t bytes); /* "process 2 (node7, pid 4711)" */
/* Puts that before what has gone wrong here and may go well in others, as with files of each machine's own. As it is where there is one process. */
dt_status *dt_processes_sign(const dt_processes *processes, dt_status *status);

/* The next tag, the same in all processes. After all of them the first comes again: exchanges start in one order, and few are under way, so that of
 * two with one tag the first is over before the second starts. */
int dt_processes_new_tag(dt_processes *processes);
/* The same in the processes of one group along an axis (mesh.h), apart from others. */
int dt_processes_new_tag_along(dt_processes *processes, dt_mesh_axis axis);
int dt_processes_n_tags(const dt_processes *processes); /* so far */
/* A step of the run brings so many bytes more, of one process at most. Before the first step all processes have said so of all that they exchange in
 * steps, but for records. Processes end a step by gathering a record, so that none is more than a step ahead of another: what one of them may have
 * sent before it is asked for is what two steps bring. */
void dt_processes_expect(dt_processes *processes, int64_t bytes);
/* The nodes are filled: the exchange is on its way. */
void dt_processes_begin(dt_processes *processes, dt_exchange *exchange, const dt_step_context *context);
/* Returns when it is over for the `times`th time, which it may not have begun yet. Any number of threads. */
dt_status *dt_processes_wait(dt_processes *processes, dt_exchange *exchange, uint32_t times);

/* After a failure: returns when the thread works on no exchange any more, so that exchanges may go; it does not wait for others. */
void dt_processes_settle(dt_processes *processes);
/* `release` gives back memory that messages came from and went to: at once, or, after a failure, when the processes are closed: what was under way
 * then may still be read and written. NULL: at once. */
void dt_processes_release(dt_processes *processes, void (*release)(void *memory, size_t bytes), void *memory, size_t bytes);

/* Each exchange is from now on recorded there, by the thread that owns the transport; NULL: none is any more. */
void dt_processes_record(dt_processes *processes, dt_recorder *recorder);

/* Seconds in which something was under way, since the beginning. */
double dt_processes_exchanging_seconds(const dt_processes *processes);

/* This process waits for all others, and not for an exchange: for what its device sends and receives itself. Until it says that this is over, with
 * NULL, it asks the next process how that is, as everybody does who waits. */
void dt_processes_await(dt_processes *processes, const dt_step_context *context, const char *label);

/* This process cannot go on: all others hear why. The first reason stands. */
void dt_processes_abort(dt_processes *processes, const char *reason);
/* The same, for a fault of process `process` alone. */
void dt_processes_blame(dt_processes *processes, int process, const char *reason);
/* NULL, or DT_ABORTED with the reason; in the process that is to blame DT_FAILED_PRECONDITION. */
dt_status *dt_processes_status(dt_processes *processes);
/* After a failure: prints the reason for the person, `print`, in one process. That is process 0; if it does not within some seconds, the first of
 * those that found out themselves; else any. */
void dt_processes_say(dt_processes *processes, void (*print)(const char *reason));

/* Somebody who wants to know at once when the run fails. `aborted` is called by any thread. */
typedef struct dt_processes_watcher {
    void (*aborted)(void *context, const char *reason);
    void *context;
    struct dt_processes_watcher *next;
} dt_processes_watcher;
void dt_processes_watch(dt_processes *processes, dt_processes_watcher *watcher);
void dt_processes_unwatch(dt_processes *processes, dt_processes_watcher *watcher);

#endif
