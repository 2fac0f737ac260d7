/* log: what a run says, to a terminal, a file or a program.
 *
 * The same events in three forms: on a terminal one live line that ends as a plain one, in a file plain lines, with --log-format json one object a
 * line. Events go to standard output, notes and warnings to standard error (json: to both as an event). An event cannot fail: whether all were
 * written is asked when it matters. Threads: one. */
#ifndef DT_RUNTIME_LOG_H
#define DT_RUNTIME_LOG_H

#include "abi/dtype.h"
#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct dt_log dt_log;

typedef enum dt_log_format {
    DT_LOG_TEXT, /* live where the stream is a terminal */
    DT_LOG_JSON
} dt_log_format;

/* stream: NULL for a log that says nothing anywhere, as that of all processes of a run but one. may_be_live: a terminal may be taken for one; a
 * launcher shows its processes a terminal where there may be a file behind. */
dt_status *dt_log_create(FILE *stream, dt_log_format format, bool may_be_live, dt_log **log);
void dt_log_destroy(dt_log *log); /* NULL is allowed */

/* Whether something could not be written; from then on nothing is. The status, which the caller frees, has the system's reason. */
bool dt_log_failed(const dt_log *log);
dt_status *dt_log_status(const dt_log *log);

/* Reports of a step by name, or of an epoch. */
typedef struct dt_log_values {
    int n;
    const char *const *names;
    const double *values;
} dt_log_values;

typedef struct dt_log_start {
    const char *program, *step, *level, *resumed_from; /* resumed_from: path of a checkpoint or NULL */
    int64_t n_parameters, n_trainable;
    int64_t replicas, global_batch, epochs, steps_per_epoch, n_examples, first_step, seed, memory_bytes;
    int n_devices;
    const char *const *devices;
} dt_log_start;

typedef struct dt_log_epoch {
    const char *step;       /* "train", "evaluate" */
    int64_t epoch, epochs;  /* from 1; epochs 0: unknown */
    int64_t steps, n_steps; /* done, and in a whole epoch */
    int64_t examples;
    bool complete;
    double seconds;
    double examples_per_second, seconds_per_step; /* without the first step; 0: there was no other */
    double data_wait;                             /* part of `seconds` that was spent waiting for data, 0 to 1 */
} dt_log_epoch;

void dt_log_started(dt_log *log, const dt_log_start *start);
void dt_log_stepped(dt_log *log, int64_t number, const dt_log_values *values); /* the values of that step alone */
void dt_log_epoch_done(dt_log *log, const dt_log_epoch *epoch, const dt_log_values *values);
void dt_log_checkpoint(dt_log *log, const char *path, int64_t number);
/* A file of results. */
void dt_log_written(dt_log *log, const char *path, dt_dtype dtype, int n_dims, const int64_t *dims);
/* reason: "epochs", "max_steps", "signal", "no_gain". first_step_seconds: from the start of the process to the end of its first step; < 0: none. */
void dt_log_ended(dt_log *log, const char *reason, int64_t steps, int64_t epochs, double seconds, double first_step_seconds);

/* Whether the live line wants to be drawn again: never but on a terminal, and then ten times a second. */
bool dt_log_wants_progress(dt_log *log);
void dt_log_progress(dt_log *log, const dt_log_epoch *so_far, const dt_log_values *values);

/* For the person: "note: …", "warning: …". kind: the word before the colon. */
void dt_log_remark(dt_log *log, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
