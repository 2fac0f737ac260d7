/* session_state: what a session is, for the files that it is made of: session.c, session_memory.c, session_results.c, row_steps.c. */
#ifndef DT_RUNTIME_EXECUTION_SESSION_STATE_H
#define DT_RUNTIME_EXECUTION_SESSION_STATE_H

#include "runtime/execution/executor.h"
#include "runtime/execution/numerics.h"
#include "runtime/execution/row_steps.h"
#include "runtime/execution/session.h"
#include "runtime/threads/thread_pool.h"

/* What a process says with a step. */
typedef struct dt_step_record {
    dt_step_commit commit;
    dt_bad_index bad_index;
    char notice[DT_STEP_NOTICE_BYTES];
} dt_step_record;

struct dt_session {
    dt_arena *arena; /* of the executors and what they run */
    const dt_kernels *kernels;
    const dt_artifact *artifact; /* of the kernels: the program that runs, which is that for GPUs, that by rows, or neither */
    dt_session_options options;  /* rows is never 0 */
    dt_device_spec spec;
    bool chose_gpu;    /* for this process, of all that its machine has */
    dt_link *link;     /* of the one GPU to those of other processes; the device's. NULL: there is none */
    char no_link[300]; /* why; empty where nobody asks */
    int n_spare;       /* devices that no replica is left for */
    int n_idle;        /* executors without microbatches, the first ones: those of the central device, where others compute */
    int process, n_processes;
    dt_mesh mesh;                                             /* of the processes that exchange */
    const dt_stages *stages;                                  /* NULL: the model is not cut into stages */
    int first_microbatch, n_microbatches, n_all_microbatches; /* of this process; of all */
    int n_executors;                                          /* of this process: at least one a device */
    dt_executor *executors;                                   /* [n_executors] */
    dt_executor **peers;                                      /* [n_executors] the same */
    int n_domains;
    dt_memory_domain *domains; /* [n_domains] one, where the devices share memory; else one an executor */
    dt_team *teams;            /* [n_executors] of those that have a microbatch, in their places: with whom they run kernels in parts */
    dt_thread_pool *pool;
    dt_row_steps *rows;    /* NULL: all tables are variables like others */
    dt_run_values running; /* what the pool works on */
    bool failed;

    /* of the last dt_session_run */
    int step;
    dt_batch batch;
    double began; /* where it is recorded */
    dt_bad_index bad_index;
    dt_step_record *records;    /* [n_processes] on the way */
    bool is_counted;            /* this process's is on its way */
    dt_numerics first_numerics; /* of all processes, in the last run */
    dt_numerics *numerics;      /* [n_processes] on the way; NULL: nobody asks */
    int64_t *answers;           /* [n_processes] of dt_session_ask, on the way */
    double gathering_seconds;

    const void *const *staged; /* inputs of the batch that was staged last, and no step has run since; NULL: there is none */
    int staged_step;
};

/* ---- devices ---- */

/* Central storage: one of several devices computes nothing but updates. */
static inline bool dt_session_has_central_device(const dt_session *session) { return session->options.central && session->spec.n > 1; }

/* Executors in order belong to devices in order, the idle ones to the central device, the others to the others as evenly as can be. */
static inline int dt_session_device_of_executor(const dt_session *session, int executor) {
    int n_central = dt_session_has_central_device(session), n = session->n_executors - session->n_idle;
    return executor < session->n_idle ? 0 : n_central + (int)((int64_t)(executor - session->n_idle) * dt_session_n_computing(session) / n);
}

/* Of a device: the least executor of which that is the device. */
static inline int dt_session_first_executor(const dt_session *session, int device) {
    int n_central = dt_session_has_central_device(session), n_computing = dt_session_n_computing(session), n = session->n_executors - session->n_idle;
    return device < n_central ? 0 : session->n_idle + (int)(((int64_t)(device - n_central) * n + n_computing - 1) / n_computing);
}

/* ---- running (session.c) ---- */

/* Runs a step as a part of another one, which has not started: for row_steps. */
dt_status *dt_session_run_within(dt_session *session, int step, const dt_batch *batch);

/* ---- memory (session_memory.c) ---- */

/* What domain d takes of its device's memory, and the caller beside it; and of this the caller. */
int64_t dt_session_domain_bytes(const dt_session *session, int d);
int64_t dt_session_caller_bytes(const dt_session *session, int d);
/* Before anything is allocated: does the plan fit? */
dt_status *dt_session_check_memory(const dt_session *session);

#endif
