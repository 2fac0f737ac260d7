/* processes: those of a run, as sessions share them, and how a call is the same one in all.
 *
 * A call that changes a session begins by gathering a record of each process: which call it is, what has to be equal, and what is wrong with its
 * arguments, if anything is. So a mistake of one is everybody's error before anything has happened, and nobody waits for a call that another one does
 * not make. A session without others gathers nothing. */
#ifndef DT_RUNTIME_DTRT_PROCESSES_H
#define DT_RUNTIME_DTRT_PROCESSES_H

#include "runtime/dtrt/session.h"
#include "runtime/rendezvous.h"

#include <sched.h>

/* NULL: alone, and so is a session without them. */
dt_processes *dt_api_processes(const dtrt_processes *processes);

/* dt_processes_open, with the transport of whoever started this process. */
dt_status *dt_api_open_processes(dt_processes_options *options, dt_processes **processes);

/* A session is created with them, or destroyed. */
void dt_api_hold_processes(dtrt_processes *processes);
void dt_api_release_processes(dtrt_processes *processes);

/* Around each call of one of their sessions: one at a time. NULL is allowed. */
dt_status *dt_api_begin_call(dtrt_processes *processes);
void dt_api_end_call(dtrt_processes *processes);

/* What a call of all processes says of itself. */
typedef struct dt_api_call {
    const char *name; /* of the function */
    int64_t which;    /* step, variable, …: the same in all, */
    uint64_t hash;    /* as is this, of what else has to be */
    bool has_rows;    /* it runs a batch: */
    int64_t rows;     /* this process's, and then those of all */
    bool stops;       /* this process wants to end, and then: one of them does */
} dt_api_call;

/* Compares the call and `status`, which is what is wrong with it here, and returns it or what is wrong elsewhere. DT_ABORTED: the run has failed. */
dt_status *dt_api_agree(dtrt_session *session, dt_api_call *call, dt_status *status);

/* The call `name` that runs a batch, of which this process has `rows`: what has no rows is the same in all processes. */
dt_api_call dt_api_call_of_batch(const dtrt_session *session, const char *name, int step, const dtrt_step_state *state, int64_t rows);

/* At the end of a call that was at work: what failed here ends the run, or all wait until all are done. */
dt_status *dt_api_conclude(dtrt_session *session, const char *name, dt_status *status);

/* The same of a call that is of no session; at its end nobody waits. processes NULL: alone. */
dt_status *dt_api_agree_without_session(dtrt_processes *processes, dt_api_call *call, dt_status *status);
dt_status *dt_api_conclude_without_session(dtrt_processes *processes, dt_status *status);

/* A call of dt_api_agree about texts, numbers, …: what is hashed of them. `text` or NULL. */
uint64_t dt_api_mix_text(uint64_t hash, const char *text);
uint64_t dt_api_mix_integer(uint64_t hash, int64_t number);

/* The cores that the calling thread may use, until a rendezvous leaves it this process's share; and then again. */
typedef struct dt_api_cores {
    bool is_known;
    cpu_set_t set;
} dt_api_cores;
void dt_api_keep_cores(dt_api_cores *cores);
void dt_api_restore_cores(const dtrt_processes *processes, const dt_api_cores *cores);

#endif
