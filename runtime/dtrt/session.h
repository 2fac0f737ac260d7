/* session: what the functions of include/dtrt.h share that take a session.
 *
 * Each of them enters the session and leaves it: so that two threads at once, a call from within a callback, and a process made by fork are found out
 * by one atomic exchange and a comparison, and are errors. */
#ifndef DT_RUNTIME_DTRT_SESSION_H
#define DT_RUNTIME_DTRT_SESSION_H

#include "runtime/checkpoint_state.h"
#include "runtime/dtrt/program.h"
#include "runtime/runner.h"
#include "runtime/timeline_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* What a step is given and leaves. Its members but the runner are NULL until the first batch of the caller's. */
typedef struct dtrt_step_state {
    dt_runner *runner;
    const void **inputs; /* [n_inputs] of the batch that runs */
    void **buffers;      /* [n_inputs] room for a full batch of each, allocated when it is first needed */
    bool returns_inputs; /* a result is an input itself, so inputs must stay: all are copied */
} dtrt_step_state;

struct dtrt_session {
    dtrt_program *program;
    const dt_kernels *kernels;
    const dt_artifact *artifact; /* of the session; of one that takes rows of tables, the one whose steps have all of each */
    dt_session *session;
    dtrt_session_options options;
    dt_run_options asked;         /* the same, for runs */
    char *data;                   /* options.data */
    dtrt_processes *processes;    /* options.processes, once it holds them */
    dtrt_step_state *steps;       /* [n_steps] */
    int last_step;                /* that was run; -1: none */
    int n_pipelines;              /* open ones */
    char *log_dir;                /* that has the past of its training; NULL: none has */
    bool is_loaded;               /* its training began elsewhere */
    int trained_step, trained_on; /* of training on a pipeline: the step, the pipeline; -1: none was */
    int64_t n_examples;           /* that the pipeline had in a run; 0: not known */
    dt_checkpoint_state progress; /* of training: step, epoch, examples, the best so far, and of a plateau */
    dt_timeline *timeline;        /* NULL: none is kept */
    dt_timeline_clock clock;      /* of the timeline */

    dt_log *run_log;    /* of a run under way that writes to a folder; else NULL */
    int64_t run_number; /* training steps done, as it said last */

    pid_t process;
    _Atomic pthread_t owner; /* while it is in use */
    atomic_int usage;        /* what it is in use for */
    bool is_between_steps;   /* in a callback that may set launch values */
    int n_readers;           /* calls from within a callback */
};

/* For a function that changes the session. dt_api_leave returns `status`. */
dt_status *dt_api_enter(dtrt_session *session);
/* For one that only reads it, which callbacks may too. */
dt_status *dt_api_enter_to_read(dtrt_session *session);
/* For one that sets a launch value, which callbacks between two steps of a process that is alone may too. */
dt_status *dt_api_enter_to_set(dtrt_session *session);
dt_status *dt_api_leave(dtrt_session *session, dt_status *status);

enum {
    DT_API_DEVICES = 256 /* bytes of a list of devices */
};

/* What a caller asks of a session, as a run has it; `devices` gets them in writing. */
dt_status *dt_api_read_session(const dtrt_session_options *options, char devices[DT_API_DEVICES], dt_run_options *run);

/* A timeline of so many steps, which all processes begin together. */
dt_status *dt_api_open_timeline(int64_t n_steps, dt_processes *processes, dt_timeline_clock *clock, dt_timeline **timeline);

/* Around a callback. */
void dt_api_begin_callback(dtrt_session *session);
void dt_api_end_callback(dtrt_session *session);

/* A text that the caller frees; NULL of NULL. */
dt_status *dt_api_copy_text(const char *text, char **copy);

/* Training begins at the beginning. */
void dt_api_forget_position(dtrt_session *session);

/* Bytes of an input in a full batch. */
size_t dt_api_input_bytes(const dtrt_session *session, const dt_artifact_tensor *input);

/* The state of step `step`, with its runner. */
dt_status *dt_api_step_state(dtrt_session *session, int step, dtrt_step_state **state);

/* Checks the caller's arrays [n_inputs], or NULL, for `state->inputs`, and says where each is to be read: where it is, or in the step's buffer.
 * *rows: of the batch, this process's; 0: those of the arrays, or a full batch. */
dt_status *dt_api_take_inputs(dtrt_session *session, int step, dtrt_step_state *state, const dtrt_array *arrays, int64_t *rows);

/* "STEP: x has 7 rows; a batch of this session has 1 to 6", and what takes as many. `what`: "x has". */
dt_status *dt_api_refuse_rows(const dtrt_session *session, int step, const char *what, int64_t rows);

/* Runs the step on a batch, wherever it is from, and counts it. */
dt_status *dt_api_run_batch(dtrt_session *session, int step, dtrt_step_state *state, const void *const *inputs, int64_t rows);

#endif
