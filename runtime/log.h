/* log: what a run says: one stream of events, for whoever listens: what prints them (runtime/commands/print_log.h), the folder of --log-dir
 * (runtime/log_folder.h), an application. An event cannot fail: whether all were written is asked when it matters. Threads: one. */
#ifndef DT_RUNTIME_LOG_H
#define DT_RUNTIME_LOG_H

#include "abi/dtype.h"
#include "base/status.h"
#include "include/dtrt.h"

#include <stdint.h>

typedef struct dt_log dt_log;

dt_status *dt_log_create(dt_log **log);
void dt_log_destroy(dt_log *log); /* NULL is allowed */

/* A listener cannot write any more, and a run that would be lost for it should end. The log takes the status; the first one stands. */
void dt_log_fail(dt_log *log, dt_status *status);
bool dt_log_failed(const dt_log *log);
dt_status *dt_log_status(const dt_log *log); /* a copy */

/* Is given each event as it happens. It may remark something, and must not destroy the log. */
typedef struct dt_log_event dt_log_event;
typedef struct dt_log_listener {
    void (*hear)(struct dt_log_listener *listener, const dt_log_event *event);
    bool wants_details;           /* plan, launch values, times, weights, pictures */
    bool wants_progress;          /* of an epoch under way, ten times a second */
    struct dt_log_listener *next; /* the log's */
} dt_log_listener;

/* The listener is the caller's, and is there until the log is destroyed or it is removed. Those that were added first hear first. */
void dt_log_add_listener(dt_log *log, dt_log_listener *listener);
void dt_log_remove_listener(dt_log *log, dt_log_listener *listener); /* one that was never added is allowed */

/* Reports of a step by name, or of an epoch: those of one number, and those with a shape. */
typedef struct dt_log_values {
    int n;
    const char *const *names;
    const double *values;
    int n_arrays;
    const dtrt_report_array *arrays;
} dt_log_values;

typedef struct dt_log_start {
    const char *program, *step, *level, *resumed_from; /* resumed_from: path of a checkpoint or NULL */
    int64_t n_parameters, n_trainable;
    int64_t replicas, global_batch, epochs, steps_per_epoch, n_examples, first_step, seed, memory_bytes;
    int n_devices;
    const char *const *devices;
} dt_log_start;

typedef struct dt_log_step {
    int64_t number;             /* steps that are done */
    int64_t epoch;              /* from 1 */
    double examples_per_second; /* since the event before, or the start of the epoch; 0: not known */
    bool is_told;               /* to the application, which has asked for it; nobody else is to say it */
} dt_log_step;

/* What an application says of its own. */
typedef struct dt_log_scalar {
    const char *name;
    int64_t number; /* steps that are done */
    double value;
} dt_log_scalar;

typedef struct dt_log_epoch {
    const char *step;       /* "train", "evaluate" */
    int64_t epoch, epochs;  /* from 1; epochs 0: unknown */
    int64_t number;         /* steps of the whole training that are done */
    int64_t steps, n_steps; /* done, and in a whole epoch */
    int64_t examples;
    bool trains; /* the step does */
    bool complete;
    double seconds;
    double examples_per_second, seconds_per_step; /* without the first step; 0: there was no other */
    double data_wait;                             /* part of `seconds` that was spent waiting for data, 0 to 1 */
} dt_log_epoch;

typedef struct dt_log_end {
    const char *reason; /* "epochs", "max_steps", "signal", "no_gain", "output", "regroup" */
    int64_t steps, epochs;
    double seconds;
    double first_step_seconds; /* from the start of the process to the end of its first step; < 0: none */
    double data_check_seconds; /* of this process's threads, to compare what several processes read; 0: nothing was compared */
} dt_log_end;

/* What is to run: details of a step, of this process. */
typedef struct dt_log_kernel {
    const char *name, *lines; /* "fashion_cnn.dt:14"; "": the compiler knows none */
    const char *layers;       /* whose parameters it reads, or computes gradients of: "Cnn/conv2d_1"; "": of none */
    double flops, bytes;      /* of a step; 0: not said */
} dt_log_kernel;

typedef struct dt_log_memory {
    const char *name; /* "parameters" */
    int64_t bytes;
} dt_log_memory;

typedef struct dt_log_plan {
    const char *compiler, *llvm, *program_hash, *source; /* source: the program's text; NULL: not there */
    int n_memory, n_kernels;
    const dt_log_memory *memory;  /* [n_memory] add up to the start event's memory_bytes */
    const dt_log_kernel *kernels; /* [n_kernels] of the step that trains */
} dt_log_plan;

/* Where the time of some steps of training went: seconds of all executors together. */
typedef struct dt_log_times {
    int64_t number, n_steps; /* the last of them; how many */
    double seconds;          /* all: kernels, exchanging, and the rest, which is launching and waiting for a batch */
    double exchanging;       /* sums over replicas, and waiting for one another */
    int n_kernels;
    const double *kernel_seconds; /* [n_kernels] in the order of the plan */
} dt_log_times;

typedef struct dt_log_weights { /* one variable */
    const char *path;
    int64_t number; /* steps that are done */
    dt_dtype dtype;
    int64_t n;
    const void *values; /* [n] */
} dt_log_weights;

typedef struct dt_log_picture {
    const char *name; /* of step and result, and the row: "sample/image/3" */
    int64_t number;   /* steps that are done */
    int64_t width, height;
    int channels; /* 1 or 3 */
    const void *png;
    size_t n_bytes;
} dt_log_picture;

typedef enum dt_log_kind {
    DT_LOG_STARTED,
    DT_LOG_STEPPED,
    DT_LOG_EPOCH_DONE,
    DT_LOG_CHECKPOINT,
    DT_LOG_WRITTEN,
    DT_LOG_ENDED,
    DT_LOG_REMARK,
    DT_LOG_PROGRESS,
    DT_LOG_LEASES, /* of an asynchronous training */
    DT_LOG_PLAN,   /* from here on: details */
    DT_LOG_LAUNCH, /* what launch values are from this step on */
    DT_LOG_TIMES,
    DT_LOG_WEIGHTS,
    DT_LOG_PICTURE,
    DT_LOG_SCALAR
} dt_log_kind;

/* Who computed the batches of an asynchronous training, and how stale their gradients were. */
typedef struct dt_log_worker {
    const char *name;
    int64_t leases; /* applied */
    double examples_per_second;
    bool is_gone;
} dt_log_worker;

typedef struct dt_log_lag {
    const char *name; /* "0", "3-4", "513+" */
    int64_t leases;
} dt_log_lag;

typedef struct dt_log_leases {
    int64_t epoch, epochs; /* from 1; epoch 0: of the run */
    int64_t leases, returned, doubles;
    double examples_per_second; /* of all workers */
    int n_lags, n_workers;
    const dt_log_lag *lags;       /* [n_lags] */
    const dt_log_worker *workers; /* [n_workers] */
} dt_log_leases;

/* What it points to is there as long as the call that hears of it. */
struct dt_log_event {
    dt_log_kind kind;
    union {
        const dt_log_start *start;
        const dt_log_step *step;
        const dt_log_epoch *epoch;
        const dt_log_end *end;
        const dt_log_leases *leases;
        const dt_log_plan *plan;
        const dt_log_times *times;
        const dt_log_weights *weights;
        const dt_log_picture *picture;
        const dt_log_scalar *scalar;
        struct {
            const char *path;
            int64_t number;   /* of a checkpoint */
            double seconds;   /* that a step waited for it */
            const char *type; /* of a file of results: "f32[200, 10]" */
        } file;
        struct {
            const char *kind, *message; /* "note", "warning" */
        } remark;
    };
    const dt_log_values *values; /* of STEPPED (that step alone), EPOCH_DONE, PROGRESS and LAUNCH; else NULL */
};

void dt_log_started(dt_log *log, const dt_log_start *start);
void dt_log_stepped(dt_log *log, const dt_log_step *step, const dt_log_values *values);
void dt_log_epoch_done(dt_log *log, const dt_log_epoch *epoch, const dt_log_values *values);
/* stall_seconds: how long a step waited for it. */
void dt_log_checkpoint(dt_log *log, const char *path, int64_t number, double stall_seconds);
/* A file of results. */
void dt_log_written(dt_log *log, const char *path, dt_dtype dtype, int n_dims, const int64_t *dims);
void dt_log_leased(dt_log *log, const dt_log_leases *leases);
void dt_log_ended(dt_log *log, const dt_log_end *end);
/* For the person. kind: "note", "warning", "library". */
void dt_log_remark(dt_log *log, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Details: one of the kinds from DT_LOG_PLAN on. */
void dt_log_detail(dt_log *log, const dt_log_event *event);

/* Whether a listener wants to know: ten times a second, never where none does. */
bool dt_log_wants_progress(dt_log *log);
void dt_log_progress(dt_log *log, const dt_log_epoch *so_far, const dt_log_values *values);

#endif
