/* dtrt: runs compiled programs (.dtx, made by dtc) inside an application: it trains, evaluates, predicts, in the application's own loop or in ours.
 *
 *   dtrt_program    an artifact, opened; read-only, shared by any number of sessions and threads
 *   dtrt_session    its variables on devices, ready to step
 *   dtrt_processes  those that a launcher started together, for sessions that they share
 *   dtrt_pipeline   data of the program, batch after batch
 *
 * Errors     dt_status.h says how a function tells that it failed. What it gives through a pointer is then NULL or 0; a struct or an array that it
 *            would have filled is no result. After a step that failed on a device the session can only be destroyed; every other error leaves it as
 *            it was before the call, or after the last step that the call has run.
 * Pointers   are never NULL but where "or NULL" is said; a NULL that is not allowed is DT_INVALID_ARGUMENT.
 * Structs    begin with their size, as dt_status.h says: DTRT_INIT(type) sets it. Of a struct that the library fills, so much is filled as the
 *            caller's size has room for.
 * Arrays     are borrowed until the call returns. Strings that the library gives live as long as the object they are asked of.
 * Callbacks  run on the thread that called, which holds no lock. Other than 0 stops what is under way in an orderly manner. Inside a callback the
 *            session may be read (reports, results, variables, positions), and dtrt_set_launch and dtrt_log_… say what else they allow: to step,
 * write, load or destroy there is DT_FAILED_PRECONDITION, as it is to use a session from two threads at once, or in a child after fork. Threads
 * Programs are shared freely. A session, with its pipelines, is used by one thread at a time; different sessions are independent. Process    Nothing
 * is printed, no signal handled, no exit called, no global state kept. */
#ifndef DTRT_H
#define DTRT_H

#include "dt_status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An options or info struct of this header's size, all else 0. */
#define DTRT_INIT(type) ((type){.size = sizeof(type)})

/* ---- status ---- */

DT_API void dtrt_status_free(dt_status *status); /* NULL is allowed */
DT_API const char *dtrt_code_name(dt_code code); /* "invalid argument" */

DT_API const char *dtrt_version(void); /* of the library: "0.1.0" */

/* ---- element types and arrays ---- */

typedef enum dtrt_dtype {
    DTRT_F32,
    DTRT_F16,
    DTRT_BF16,
    DTRT_F64,
    DTRT_I8,
    DTRT_U8,
    DTRT_I32,
    DTRT_I64,
    DTRT_BOOL /* a byte: 0 or 1 */
} dtrt_dtype;

DT_API const char *dtrt_dtype_name(dtrt_dtype dtype); /* "f32"; NULL for what is no type */
DT_API size_t dtrt_dtype_bytes(dtrt_dtype dtype);     /* 0 for what is no type */

/* An array of the caller's, or a view of one of the library's. */
typedef struct dtrt_array {
    const void *data;
    dtrt_dtype dtype;
    int n_dims;
    const int64_t *dims;    /* [n_dims] */
    const int64_t *strides; /* [n_dims] bytes from one element to the next of each dimension, of any sign; or NULL: dense, the last one fastest */
} dtrt_array;

#define DTRT_ROWS ((int64_t)-1) /* as a dimension of dtrt_tensor: the rows of a batch */

/* ---- programs ---- */

typedef struct dtrt_program dtrt_program;

typedef struct dtrt_open_options {
    size_t size;
    const char *level; /* "x86-64-v3": run this code and no other; or NULL: the best that this processor runs */
    int perf_map;      /* not 0: name the kernels for `perf`, in /tmp/perf-PID.map */
} dtrt_open_options;

/* Opens an artifact. `options` or NULL. Its file is read whole, checked, and closed.
 * Errors  DT_NOT_FOUND, DT_DATA_LOSS (not an artifact, or altered), DT_FAILED_PRECONDITION (of another version). */
DT_API dt_status *dtrt_open(const char *path, const dtrt_open_options *options, dtrt_program **program);
/* The same of `n_bytes` in memory, which are copied. `name` is for messages. */
DT_API dt_status *dtrt_open_memory(const char *name, const void *bytes, size_t n_bytes, const dtrt_open_options *options, dtrt_program **program);
/* Gives up the caller's hold; sessions keep the program as long as they need it. NULL is allowed. */
DT_API void dtrt_close(dtrt_program *program);

typedef struct dtrt_program_info {
    size_t size;
    const char *name;
    const char *path;     /* as opened */
    const char *compiler; /* "dtc 0.1.0" */
    const char *hash;     /* of the program: 16 hex digits */
    int64_t capacity;     /* most rows of a replica */
    int64_t n_parameters; /* elements */
    int64_t n_trainable;  /* of these */
    int n_variables, n_steps, n_pipelines, n_launch_values;
    int has_weights; /* `dtc pack` put weights into the file: dtrt_initialize sets them */
} dtrt_program_info;

DT_API dt_status *dtrt_program_describe(const dtrt_program *program, dtrt_program_info *info);

/* An input or a result of a step, or a variable. */
typedef struct dtrt_tensor {
    size_t size;
    const char *name; /* of a variable its path: "Net/dense_1/w" */
    dtrt_dtype dtype;
    int n_dims;
    const int64_t *dims; /* [n_dims]; the first may be DTRT_ROWS */
    size_t row_bytes;    /* of one row where there are rows, else of all */
    const char *kind;    /* of a variable: "parameter", "state", "slot" (of an optimizer) or "launch"; else NULL */
    int trainable;       /* of a parameter */
} dtrt_tensor;

typedef struct dtrt_step_info {
    size_t size;
    const char *name;
    int trains; /* it changes variables */
    int n_inputs, n_results, n_reports;
    const char *pipeline; /* that it names as its data; NULL: none */
} dtrt_step_info;

/* A name's index, from 0; -1: there is none, or a pointer is NULL. */
DT_API int dtrt_find_step(const dtrt_program *program, const char *name);
DT_API int dtrt_find_variable(const dtrt_program *program, const char *path);
DT_API int dtrt_find_pipeline(const dtrt_program *program, const char *name);
DT_API int dtrt_find_input(const dtrt_program *program, int step, const char *name);
DT_API int dtrt_find_result(const dtrt_program *program, int step, const char *name);
DT_API int dtrt_find_report(const dtrt_program *program, int step, const char *name);

/* What is at an index. DT_OUT_OF_RANGE: nothing is. */
DT_API dt_status *dtrt_describe_step(const dtrt_program *program, int step, dtrt_step_info *info);
DT_API dt_status *dtrt_describe_variable(const dtrt_program *program, int variable, dtrt_tensor *tensor);
DT_API dt_status *dtrt_describe_input(const dtrt_program *program, int step, int input, dtrt_tensor *tensor);
DT_API dt_status *dtrt_describe_result(const dtrt_program *program, int step, int result, dtrt_tensor *tensor);
DT_API dt_status *dtrt_describe_report(const dtrt_program *program, int step, int report, const char **name);
DT_API dt_status *dtrt_describe_report_shape(const dtrt_program *program, int step, int report, dtrt_tensor *tensor); /* of f64, without rows */
DT_API dt_status *dtrt_describe_pipeline(const dtrt_program *program, int pipeline, const char **name);
DT_API dt_status *dtrt_describe_launch_value(const dtrt_program *program, int value, const char **name);

/* A text in the artifact: "program.dt", "program.ir", "plan.txt". The caller frees *text with dtrt_free. It is read from the file again, which must
 * be the one that was opened: DT_FAILED_PRECONDITION where another one has taken its place. DT_NOT_FOUND: it holds no such text. */
DT_API dt_status *dtrt_program_text(const dtrt_program *program, const char *member, char **text);
DT_API void dtrt_free(void *memory); /* what the library gave to be freed; NULL is allowed */

/* ---- events ---- */

typedef struct dtrt_session dtrt_session;

typedef enum dtrt_event_kind {
    DTRT_EVENT_START, /* program, step, level, resumed_from, parameters, trainable, replicas, global_batch, epochs, steps_per_epoch, examples, seed,
                         first_step, memory_bytes, devices */
    DTRT_EVENT_STEP,  /* number (training steps done), values of that step alone */
    DTRT_EVENT_PROGRESS,   /* as EPOCH, of an epoch under way: at most ten times a second */
    DTRT_EVENT_EPOCH,      /* step, epoch, epochs, steps, steps_per_epoch, examples, complete, seconds, …, values of the epoch */
    DTRT_EVENT_CHECKPOINT, /* path, number: training steps done; seconds: that a step waited for it */
    DTRT_EVENT_RESULT,     /* path of a file that was written, text: its type, "f32[200, 10]" */
    DTRT_EVENT_REMARK,     /* what ("note", "warning", "library"), text */
    DTRT_EVENT_END         /* what (the reason: "epochs", "max_steps", "pause", "stopped", "no_gain"), number of training steps, epoch, seconds,
                              first_step_seconds */
} dtrt_event_kind;

/* A report with a shape. */
typedef struct dtrt_report_array {
    const char *name;
    int n_dims; /* 1 or more */
    const int64_t *dims;
    const double *values; /* dense */
} dtrt_report_array;

/* What happened. All of it lives until the callback returns; members that are not of the kind are 0. */
typedef struct dtrt_event {
    size_t size;
    dtrt_event_kind kind;
    const char *what, *text, *program, *step, *level, *path, *resumed_from;
    int64_t number;
    int64_t epoch, epochs;          /* from 1; epochs 0: unknown */
    int64_t steps, steps_per_epoch; /* done; of a whole epoch */
    int64_t examples;
    int complete; /* of EPOCH: 0 where it was stopped */
    double seconds;
    double examples_per_second, seconds_per_step; /* without the first step; 0: there was no other */
    double data_wait;                             /* part of `seconds` that was spent waiting for data, 0 to 1 */
    double first_step_seconds;                    /* from the start of the process to the end of its first step; < 0: none */
    int64_t parameters, trainable, replicas, global_batch, seed, first_step, memory_bytes;
    int n_devices;
    const char *const *devices;
    int n_values;
    const char *const *names; /* [n_values] of the reports that are one number each */
    const double *values;     /* [n_values] */
    int trains;               /* of EPOCH and PROGRESS: the step does */
    int n_arrays;
    const dtrt_report_array *arrays; /* [n_arrays]: the reports with a shape */
} dtrt_event;

/* Other than 0 asks for the end, as a signal does that dtrun gets: the step is finished, and with several processes perhaps the next one; a
 * checkpoint is written where there are any. */
typedef int dtrt_event_callback(void *context, dtrt_session *session, const dtrt_event *event);

typedef enum dtrt_text_format {
    DTRT_TEXT, /* as dtrun prints it for people */
    DTRT_JSON  /* one object, as `dtrun --log-format json` */
} dtrt_text_format;

/* The event in words, without a newline after it; *text is "" where nothing is said. The caller frees it with dtrt_free. */
DT_API dt_status *dtrt_event_text(const dtrt_event *event, dtrt_text_format format, char **text);

/* In a callback of a dtrt_train with `log_dir`: writes a number, or a picture, of the application's own beside what is written there, at the training
 * step that the last STEP or EPOCH event was of: for TensorBoard, under `name` as it is, and for the report page. `image`: u8 or f32, [H, W] or
 * [H, W, 1|3], as results that `dtrun predict --png` writes. Of several processes the first one writes. DT_FAILED_PRECONDITION: there is no such
 * training. */
DT_API dt_status *dtrt_log_scalar(dtrt_session *session, const char *name, double value);
DT_API dt_status *dtrt_log_image(dtrt_session *session, const char *name, const dtrt_array *image);

/* ---- several processes ---- */

/* The processes of a run, which a launcher of MPI has started: `mpirun -n 4 ./app`. A session with them is one training in all of them: each process
 * has a part of the global batch, and all have the same variables, reports and totals, with the bits of one process.
 *
 * Rows        A step is given the rows of this process, as a DistributedSampler deals them out: dtrt_session_rows says which of the global batch.
 *             Results are of these rows. An input without rows is the same in all processes.
 * Together    What changes a session is called by all processes, in the same order, with the same arguments but for rows: to create it, initialise,
 *             step, write, set launch values, open a pipeline, train, evaluate, predict, save, load, to write a timeline, dtrt_bench. Each waits for
 *             the others there. What reads it, and to destroy it, is each process's own: reports, totals, results, variables.
 * Files       Process 0 writes them, for all: checkpoints, results, logs. All read, so that a folder is one that all machines see.
 * Errors      What is wrong with the arguments of one process is everybody's error, before anything has changed: its own sentence there, with the
 *             number of the process before it elsewhere. So is a call that is not the same in all. What fails in one process while a call is at work
 *             (to create a session, a whole run, a file that only one cannot read) ends the run of all: every call returns DT_ABORTED with that
 *             sentence from then on, and sessions can only be destroyed. So it is where a process has died, or has made no call and computed nothing
 *             for `deadline_seconds`.
 * The end     No process is ended by the library. A launcher ends the others when one ends with a status other than 0. */
typedef struct dtrt_processes dtrt_processes;

typedef struct dtrt_processes_options {
    size_t size;
    double deadline_seconds; /* how long the others wait for a process that does not get on, between two calls too; 0: ten minutes */
} dtrt_processes_options;

/* Finds the others. Once in a process, for MPI starts once; where no launcher started it, or started it alone, it is a run of one, which all calls
 * allow. A thread of its own talks to the others, through the MPI of the launcher: libdt_mpi_NAME.so beside this library, the program, or in ../lib
 * from there, or the file that DT_MPI_PLUGIN names. `options` or NULL.
 * Errors  DT_NOT_FOUND (no MPI, no plugin), DT_FAILED_PRECONDITION (MPI was started before), DT_ABORTED (not all processes have come in time). */
DT_API dt_status *dtrt_processes_open(const dtrt_processes_options *options, dtrt_processes **processes);

/* All processes close, when each has destroyed its sessions. DT_ABORTED: the run has failed, or another one has not come to its end; it is closed
 * here all the same, and memory that messages may still reach stays the process's. NULL is allowed. */
DT_API dt_status *dtrt_processes_close(dtrt_processes *processes);

typedef struct dtrt_processes_info {
    size_t size;
    int number;       /* of this process, from 0 */
    int n_processes;  /* 1: it is alone */
    const char *note; /* what is likely not meant: srun was not told of MPI, so each process is alone; or NULL */
} dtrt_processes_info;

DT_API dt_status *dtrt_processes_describe(const dtrt_processes *processes, dtrt_processes_info *info);

/* This process cannot go on: from now on every call that the others make, or wait in, returns DT_ABORTED with `reason`. From any thread. */
DT_API dt_status *dtrt_processes_abort(dtrt_processes *processes, const char *reason);

/* ---- sessions ---- */

typedef struct dtrt_session_options {
    size_t size;
    const char *devices;  /* "cpu", "cpu:2", "cpu:2x4", "cuda:0,1", "null:1", as of dtrun; or NULL: "cpu" */
    int64_t threads;      /* cores of each "cpu" device; 0: all, shared evenly */
    int64_t replicas;     /* 0: 1 */
    int64_t global_batch; /* rows of a full step, a multiple of `replicas`; 0: as many as the program's batch size for each replica */
    int64_t seed;
    int forward_only;           /* no gradients, no optimizer's slots: steps that train are refused */
    int ignore_bad_index;       /* an index out of range is counted, and no error */
    int no_libraries;           /* on a GPU: leave nothing to vendors' libraries */
    double deadline_seconds;    /* how long a device may take; 0: ten minutes */
    const char *data;           /* folder of the pipelines' files; or NULL: their names are paths */
    dtrt_event_callback *event; /* or NULL: nobody is told */
    void *context;              /* for `event` */
    int check_numerics;         /* one core computes, kernel after kernel: the step that makes the first NaN or infinity is DT_OUT_OF_RANGE, whose
                                   message names the kernel and its lines of the program */
    int measure_kernels;        /* how long each kernel takes, for what dtrt_train writes to `log_dir` */
    int64_t timeline_steps;     /* of which, the newest, a timeline is kept, for dtrt_write_timeline; 0: none */
    dtrt_processes *processes;  /* that train this session together, of which all create it, with the same options but for `devices`; or NULL. Then
                                   devices are those of each process, NULL its share of the cores, and replicas and global_batch those of all */
    int shard_optimizer;        /* each process keeps its share of the optimizer's slots alone */
    int fast_sums;              /* MPI, or NCCL, adds up sums over processes, and their bits are not promised */
    const char *placement; /* "mirrored": each of several devices has and updates the variables; "central": the first one has the optimizer's slots
                              and updates, the others compute; or NULL: "mirrored". The same bits. A device that computes has a replica at least */
    const char *by_rows;   /* on CPUs, of tables of which steps take rows alone, update the rows that a batch names, and share rows out over
                              processes. "exact": the same bits, an error where an update changes rows without a gradient; "lazy": these
                              change when a batch names them, other bits; or NULL: all of each table. Not in a forward-only session */
    int no_data_check;     /* what several processes read of the program's data is not compared */
    int shard_parameters;  /* each process keeps its share of the parameters and of the slots, and gathers a layer's when it computes it; GPUs by NCCL
                            */
    int64_t gather_rounds; /* with shard_parameters: in so many rounds of microbatches; 0: in as few as there is memory for */
    int64_t shards_over;   /* so many processes have a part each of the shards of the model (mesh model = M), and the same examples; 0: 1 */
    int64_t stages;        /* the layers of the model are cut into so many stages, of which each process has one; 0: 1 */
} dtrt_session_options;

/* Allocates all that steps need: no memory is allocated inside them. `options` or NULL. Variables are 0 until dtrt_initialize, a load or a write.
 * Errors  DT_INVALID_ARGUMENT, DT_RESOURCE_EXHAUSTED (the plan does not fit; the message has sizes), DT_NOT_FOUND (no such GPU). */
DT_API dt_status *dtrt_session_create(dtrt_program *program, const dtrt_session_options *options, dtrt_session **session);
/* Waits for devices and files that are being written. Pipelines are closed before. NULL is allowed. In a callback, in another thread's call, or after
 * fork it fails and destroys nothing. */
DT_API dt_status *dtrt_session_destroy(dtrt_session *session);

typedef struct dtrt_session_info {
    size_t size;
    int64_t replicas, global_batch, seed;
    int64_t memory_bytes; /* on all devices together */
    int n_devices, n_threads;
    const char *level; /* of the code that runs: "x86-64-v4", "sm_90" */
    int64_t n_steps;   /* training steps done: launch.counter of the next one */
    int64_t epoch;     /* of training: done */
    int64_t examples;  /* of training: consumed in the epoch under way */
    int64_t n_rows;    /* of a full batch, that this process gives: the global batch where it is alone */
} dtrt_session_info;

DT_API dt_status *dtrt_session_describe(dtrt_session *session, dtrt_session_info *info);

typedef struct dtrt_device_info {
    size_t size;
    const char *name;        /* "cpu:0", "cuda:3"; the session's */
    int64_t memory_bytes;    /* of devices that share their memory the first one has what all have together */
    int64_t variable_bytes;  /* of these: parameters, states, launch values; */
    int64_t optimizer_bytes; /* optimizer's slots. In central storage the first device alone has any */
} dtrt_device_info;

/* Device 0 to n_devices - 1 of the session. DT_OUT_OF_RANGE: there is none of that number. */
DT_API dt_status *dtrt_session_describe_device(dtrt_session *session, int device, dtrt_device_info *info);
DT_API dtrt_program *dtrt_session_program(dtrt_session *session); /* the session's hold, not the caller's; NULL for NULL */

/* Which rows of a batch of `rows` this process gives: *n_rows from *first on. All of them where it is alone; of a short batch the last processes may
 * have none. DT_INVALID_ARGUMENT: a batch has 1 to the global batch. */
DT_API dt_status *dtrt_session_rows(dtrt_session *session, int64_t rows, int64_t *first, int64_t *n_rows);

/* New variables by the program's initialisers, from the seed; from the weights packed into the artifact where there are any. Training begins at step
 * 0. */
DT_API dt_status *dtrt_initialize(dtrt_session *session);

/* ---- steps ---- */

/* Runs step `step` on a batch of the caller's.
 *
 * arrays  [n_inputs of the step] in its order. Type and shape are those of the input; those with rows have as many rows each, 1 to the global batch.
 *         A dense aligned array is read where it is, another one is copied to the input's buffer. One whose `data` is NULL stands for the input's
 *         buffer (dtrt_step_buffer); `arrays` NULL: all inputs do.
 * rows    of the batch; 0: those of the arrays, or a full batch where no array has rows. Of several processes each gives its own rows
 *         (dtrt_session_rows), of which it may have none: arrays of 0 rows.
 * Blocks  until the step has run; reports, results and variables can then be read. A step that trains advances the session's counter.
 * Errors  DT_INVALID_ARGUMENT: the arrays, nothing was run. DT_OUT_OF_RANGE: an index of the data, or a report that is not a number; the step has
 *         run, and counts. A step that ends with another error once it has begun may have changed some variables and not others: the session has
 *         failed, in all processes, and can only be destroyed; go on from its newest checkpoint. */
DT_API dt_status *dtrt_step(dtrt_session *session, int step, const dtrt_array *arrays, int64_t rows);

/* Where to write an input so that the next dtrt_step reads it in place: *data has room for this process's rows of a full batch, dense. It is the
 * session's, stays where it is, and keeps what is written there. `bytes` or NULL. */
DT_API dt_status *dtrt_step_buffer(dtrt_session *session, int step, int input, void **data, size_t *bytes);

/* Fills buffers [n_inputs] with a batch of at most `most_rows`, and says of how many rows; 0 rows: there are no more. */
typedef int dtrt_fill_callback(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows);

/* Runs the step on what `fill` gives, batch after batch, until it has no more, or has been asked `most_steps` times (0: no limit). *n_steps (or
 * NULL): how many were run. A callback that stops is no error. Of several processes it ends when none has more, or one stops. */
DT_API dt_status *dtrt_step_callback(dtrt_session *session, int step, dtrt_fill_callback *fill, void *context, int64_t most_steps, int64_t *n_steps);

/* Reports of the last dtrt_step of this step alone, and of all since dtrt_reset_totals, as dtrun prints them: values [n_reports of the step], NaN for
 * those with a shape. Before the first one they may be NaN. DT_FAILED_PRECONDITION: this step was not run yet. */
DT_API dt_status *dtrt_reports(dtrt_session *session, int step, double *values);
DT_API dt_status *dtrt_totals(dtrt_session *session, int step, double *values);
DT_API dt_status *dtrt_report(dtrt_session *session, int step, const char *name, double *value); /* one of dtrt_reports, by name */
DT_API dt_status *dtrt_total(dtrt_session *session, int step, const char *name, double *value);  /* one of dtrt_totals, by name */
/* All numbers of one report, dense, of the shape that dtrt_describe_report_shape says; `n`: room at `values`, for fewer it is DT_INVALID_ARGUMENT. */
DT_API dt_status *dtrt_report_values(dtrt_session *session, int step, int report, double *values, size_t n);
DT_API dt_status *dtrt_total_values(dtrt_session *session, int step, int report, double *values, size_t n);
DT_API dt_status *dtrt_reset_totals(dtrt_session *session, int step);

/* Result `result` of the last step that was run, which must be this one: its rows, dense. *rows (or NULL): how many; 1 of a result without rows.
 * `bytes`: room at `data`. */
DT_API dt_status *dtrt_result(dtrt_session *session, int step, int result, void *data, size_t bytes, int64_t *rows);

/* ---- variables ---- */

/* Copies a variable, dense. DT_INVALID_ARGUMENT: `bytes` is not its size, or the array not of its type and shape. DT_FAILED_PRECONDITION: a slot of a
 * forward-only session is not there; one that processes share out (shard_optimizer) is whole nowhere but in a checkpoint. All processes write the
 * same. */
DT_API dt_status *dtrt_read(dtrt_session *session, int variable, void *data, size_t bytes);
DT_API dt_status *dtrt_write(dtrt_session *session, int variable, const dtrt_array *array);

/* The variable where it is, dense: valid until the session is destroyed, changed by steps. DT_UNIMPLEMENTED where the host cannot read the device's
 * memory. */
DT_API dt_status *dtrt_view(dtrt_session *session, int variable, dtrt_array *view);

/* ---- timeline ---- */

/* Writes what each thread and each GPU has done in the newest steps, in the trace event format, which ui.perfetto.dev opens. Only of a session with
 * `timeline_steps`, else DT_FAILED_PRECONDITION, as while one of its pipelines is open, whose threads are at work. */
DT_API dt_status *dtrt_write_timeline(dtrt_session *session, const char *path);

/* ---- launch values ---- */

/* Scalars that a program reads at each step: "seed", "epochs", "steps_per_epoch", "counter" (training steps done), and those that it declares with
 * `launch`. One that is set is read by the next step. DT_NOT_FOUND; DT_INVALID_ARGUMENT: the value is not of its type. Those that the program
 * declares may be set with dtrt_set_launch in the callback of a STEP, EPOCH or CHECKPOINT event too, where the session is of one process. */
DT_API dt_status *dtrt_set_launch(dtrt_session *session, const char *name, double value);
DT_API dt_status *dtrt_get_launch(dtrt_session *session, const char *name, double *value);
DT_API dt_status *dtrt_set_launch_integer(dtrt_session *session, const char *name, int64_t value); /* the seed: all 64 bits; others: within 2^53 */
DT_API dt_status *dtrt_get_launch_integer(dtrt_session *session, const char *name, int64_t *value);

/* ---- pipelines ---- */

typedef struct dtrt_pipeline dtrt_pipeline;

/* Opens the data `name` of the program for this session: its folder, seed, replicas and batch. Threads of its own make batches ahead. At most until
 * the session is destroyed. */
DT_API dt_status *dtrt_pipeline_open(dtrt_session *session, const char *name, dtrt_pipeline **pipeline);
DT_API dt_status *dtrt_pipeline_close(dtrt_pipeline *pipeline); /* NULL is allowed */

typedef struct dtrt_pipeline_info {
    size_t size;
    int n_components;
    int64_t n_examples, n_batches; /* of an epoch */
    int64_t epoch, position;       /* both from 0; position: examples of the epoch handed out */
} dtrt_pipeline_info;

DT_API dt_status *dtrt_pipeline_describe(dtrt_pipeline *pipeline, dtrt_pipeline_info *info);
/* Goes to an example of an epoch; a pipeline begins at 0, 0. */
DT_API dt_status *dtrt_pipeline_seek(dtrt_pipeline *pipeline, int64_t epoch, int64_t position);
/* The next batch, to look at: arrays [n_components], or NULL, with this process's rows. They live until the next call for the pipeline. *rows: of the
 * batch of all processes; 0: the epoch is over, and the next one begins. */
DT_API dt_status *dtrt_pipeline_next(dtrt_pipeline *pipeline, dtrt_array *arrays, int64_t *rows);
/* Runs step `step` on the next batch. *rows (or NULL) 0: the epoch is over, nothing was run, and the next one begins. Of a step that trains the
 * session remembers where it is in the data, for checkpoints. */
DT_API dt_status *dtrt_step_pipeline(dtrt_session *session, int step, dtrt_pipeline *pipeline, int64_t *rows);

/* ---- checkpoints and weights ---- */

/* Writes a checkpoint, `folder`/step-N, as dtrun does: whole or not at all, one of the same step replaced. *path (or NULL) is its name, to be freed
 * with dtrt_free. */
DT_API dt_status *dtrt_save(dtrt_session *session, const char *folder, char **path);

/* Sets all variables and the position from a checkpoint, or from the newest of a folder of them. On error the session is unchanged, unless it was a
 * device that failed. */
DT_API dt_status *dtrt_load(dtrt_session *session, const char *path);

typedef struct dtrt_weights_options {
    size_t size;
    const char *map;   /* file that says which name in the weights is which variable; or NULL: names are paths */
    int allow_missing; /* variables that the file does not have keep their values */
} dtrt_weights_options;

/* Sets parameters and states from a safetensors file or a checkpoint. `options` or NULL. What there is to say of it is told as remarks. */
DT_API dt_status *dtrt_load_weights(dtrt_session *session, const char *path, const dtrt_weights_options *options);

typedef struct dtrt_checkpoint_info {
    size_t size;
    char path[4096];
    int64_t step, epoch, examples; /* of training: steps and epochs done, examples of the epoch under way */
    int64_t seed, replicas, global_batch;
} dtrt_checkpoint_info;

/* Reads where a training was that wrote a checkpoint: `path`, or the newest below it. Needs no session. */
DT_API dt_status *dtrt_checkpoint_describe(const char *path, dtrt_checkpoint_info *info);

/* ---- data of the application's own ---- */

/* Gives the next batch: arrays [n_inputs of the step] in its order, which the library reads until it asks for the next one, or the run ends. *rows:
 * of this process (dtrt_session_rows), 1 to those of a full batch; both are 0 before, and where they stay so the epoch is over, of several processes
 * when it is in all: one that has no rows of a short batch may give arrays of none. */
typedef int dtrt_batch_callback(void *context, dtrt_session *session, dtrt_array *arrays, int64_t *rows);

/* Goes to epoch `epoch`, from 0, of which `examples` were consumed by all processes. *begun, 0 before: `examples`, where the data can be entered
 * there; 0: the epoch begins anew, which is told as a remark. `place`: what dtrt_place_callback said there; or NULL. */
typedef int dtrt_begin_callback(void *context, dtrt_session *session, int64_t epoch, int64_t examples, const char *place, int64_t *begun);

/* Says in the middle of an epoch where the data is, for a checkpoint: *place, which lives until the next call; NULL: there is nothing to say. */
typedef int dtrt_place_callback(void *context, dtrt_session *session, const char **place);

/* What a run goes over in place of the program's data: arrays, of which the library makes batches, in an order that depends on the seed and the epoch
 * alone; or batches that the application gives, on the thread that called. */
typedef struct dtrt_given {
    size_t size;
    const dtrt_array *arrays; /* [n_inputs of the step] in its order, of the same number of rows each, borrowed until the run returns, and the same in
                                 all processes; or NULL: `next` gives batches */
    int64_t batch;            /* of arrays: rows of a batch of all processes, at most the session's global batch; 0: as many */
    int shuffle;              /* of arrays: each epoch in another order, as shuffle(n) of all n examples; 0: in theirs */
    dtrt_batch_callback *next;
    dtrt_begin_callback *begin;
    dtrt_place_callback *place;    /* or NULL: it says nothing */
    void *context;                 /* for the callbacks */
    int64_t n_batches, n_examples; /* that `next` gives in an epoch; 0: not known. Then launch value steps_per_epoch is what it was set to */
} dtrt_given;

/* ---- whole runs: what dtrun's commands do ---- */

typedef struct dtrt_run_result {
    size_t size;
    int64_t n_steps, n_epochs; /* of this call */
    int stopped;               /* a callback asked for the end */
    char reason[16];           /* of dtrt_train: as of DTRT_EVENT_END */
} dtrt_run_result;

typedef struct dtrt_train_options {
    size_t size;
    const char *step;              /* or NULL: "train" */
    const char *from;              /* pipeline; or NULL: that of the step */
    int64_t epochs;                /* that the session has been trained for in the end, those before this call counted; 0: one more */
    int64_t pause_after_epochs;    /* of this call: return then, to be called again with the same `epochs`; 0: at the end */
    int64_t max_steps;             /* training steps done in the end; 0: no limit */
    const char *checkpoint_dir;    /* or NULL: none are written */
    int64_t checkpoint_every;      /* steps; 0: after each epoch and at the end */
    int64_t keep;                  /* newest checkpoints; 0: 3 */
    const char *keep_best;         /* "evaluate.accuracy"; or NULL */
    int64_t stop_after_no_gain;    /* epochs; 0: never */
    int resume;                    /* goes on from the newest checkpoint of the folder, if there is one */
    int64_t log_every;             /* steps between two STEP events; 0: none */
    const char *reduce_on_plateau; /* "evaluate.loss:rate", as dtrun has it: reduces a launch value where a report brings no gain; or NULL */
    const char *log_dir;           /* folder for what dtrt_write_report and TensorBoard read; or NULL. It may not hold another run: DT_ALREADY_EXISTS;
                                      one that resumes, was loaded, or has written there before appends */
    int64_t log_histograms;        /* epochs from one histogram of the weights to the next, in log_dir; 0: none */
    const dtrt_given *given;       /* data of the application's own, in place of `from`; or NULL */
    const dtrt_given *validation;  /* with `given`: what `evaluate` runs over after each epoch, and no other step does; NULL: none is run */
    int64_t tell_every;            /* steps from one STEP event to the next, beside those of log_every, which log_dir has too; 0: none */
} dtrt_train_options;

/* Trains on the program's data, or on what is given, from where the session is, evaluating after each epoch where the program has a step `evaluate`
 * with data. `options` or NULL; `result` or NULL. Two calls to the same `epochs` give the bits of one. After an error of the data or of a file too
 * the session is where its last step was, and can be saved, or go on; where a step has failed it can only be destroyed (dtrt_step). */
DT_API dt_status *dtrt_train(dtrt_session *session, const dtrt_train_options *options, dtrt_run_result *result);

typedef struct dtrt_evaluate_options {
    size_t size;
    const char *step;        /* or NULL: "evaluate" */
    const char *from;        /* pipeline; or NULL: that of the step */
    const dtrt_given *given; /* data of the application's own, in place of `from`; or NULL */
} dtrt_evaluate_options;

/* Runs a step that does not train over all of its data; dtrt_totals has what it reports. `options` or NULL; `result` or NULL. */
DT_API dt_status *dtrt_evaluate(dtrt_session *session, const dtrt_evaluate_options *options, dtrt_run_result *result);

typedef struct dtrt_predict_options {
    size_t size;
    const char *step;          /* or NULL: "predict" */
    const char *from;          /* pipeline; or NULL: that of the step, where there are no inputs */
    const char *const *inputs; /* [n_inputs] .npy files, or .idx, one an input of the step */
    int n_inputs;
    const char *output; /* folder for RESULT.npy; or NULL */
    const char *png;    /* folder for pictures; or NULL */
} dtrt_predict_options;

/* Runs a step that does not train over files or a pipeline, and writes its results. */
DT_API dt_status *dtrt_predict(dtrt_session *session, const dtrt_predict_options *options, dtrt_run_result *result);

/* Is given the prompt, and then bytes as they are made. Other than 0 ends the text there. */
typedef int dtrt_bytes_callback(void *context, dtrt_session *session, const char *bytes, size_t n_bytes);

typedef struct dtrt_generate_options {
    size_t size;
    const char *step;          /* or NULL: "sample" */
    const char *prompt;        /* how the text begins; not empty */
    int64_t length;            /* bytes to make; 0: 200 */
    int has_temperature;       /* of a step that takes one; else it gets 1 */
    double temperature;        /* 0 or more */
    dtrt_bytes_callback *made; /* or NULL */
    void *context;             /* for `made` */
} dtrt_generate_options;

/* Makes text byte by byte with a step of (text: u8[B, T], length: i32[B]), and temperature: f32[B] where it wants one, that returns the next byte.
 * The same seed and weights make the same text. *text (or NULL) is the prompt and what was made, [*n_bytes] (or NULL) and a 0 after them, to be freed
 * with dtrt_free. */
DT_API dt_status *dtrt_generate(dtrt_session *session, const dtrt_generate_options *options, char **text, size_t *n_bytes);

typedef struct dtrt_data_options {
    size_t size;
    const char *step;   /* or NULL: "train" */
    const char *from;   /* pipeline; or NULL: that of the step */
    int64_t epoch;      /* from 1; 0: 1 */
    int64_t n_batches;  /* 0: those of the epoch */
    const char *output; /* folder */
} dtrt_data_options;

/* Writes what a step would see in a training of this session: INPUT.npy for each of its inputs, all batches one after the other, and batch-rows.npy
 * with the rows of each. Nothing is run; dtrt_pipeline_next gives the same batch by batch. */
DT_API dt_status *dtrt_write_data(dtrt_session *session, const dtrt_data_options *options);

/* ---- texts and files for people ---- */

typedef struct dtrt_info_options {
    size_t size;
    int64_t n_processes; /* 0: what the program holds; else what its steps exchange between so many processes, of the shape that follows */
    int64_t replicas;    /* 0: 1 */
    int64_t global_batch;
    const char *devices;
    int shard_optimizer;   /* as `dtrun train --shard-optimizer` exchanges */
    int shard_parameters;  /* as with --shard-parameters */
    int64_t gather_rounds; /* as with --gather-rounds; 0: 1 */
    int64_t shards_over;   /* as with --shards-over; 0: 1 */
    int64_t stages;        /* as with --stages; 0: 1 */
    double flops;          /* that a process computes in a second, for an estimate of a step's time; 0: there is none */
    double bandwidth;      /* the same: bytes that it sends in a second */
    double latency;        /* the same: seconds that a message takes */
} dtrt_info_options;

/* What `dtrun info` prints. No code of the program is run. `options` or NULL. Texts of this section are freed with dtrt_free. */
DT_API dt_status *dtrt_info(const dtrt_program *program, const dtrt_info_options *options, char **text);

/* What `dtrun devices` prints: what this machine has. */
DT_API dt_status *dtrt_devices(char **text);

/* Told how much is done, 0 to 1. Other than 0: stop. */
typedef int dtrt_progress_callback(void *context, double done);

typedef struct dtrt_bench_options {
    size_t size;
    const char *step;        /* or NULL: "train" */
    const char *from;        /* pipeline; or NULL: that of the step */
    int64_t n_steps;         /* to measure; 0: 20 */
    dtrt_program *versus;    /* another program whose steps are run in turn; or NULL */
    dtrt_text_format format; /* a table, or one JSON object */
    const char *svg;         /* a file for where time goes as a flame graph, of a program that measures itself (dtc compile --profile); or NULL */
    dtrt_progress_callback *progress; /* after each step: one that stops makes the call DT_ABORTED; or NULL */
    void *context;                    /* for `progress` */
} dtrt_bench_options;

/* What `dtrun bench` prints: where the time of a step goes, kernel by kernel. It makes a session of its own: of `session` (or NULL) it takes devices,
 * threads, replicas, global_batch, seed and no_libraries, and `data`, NULL for made-up input. `options` or NULL. */
DT_API dt_status *dtrt_bench(dtrt_program *program, const dtrt_session_options *session, const dtrt_bench_options *options, char **text);

/* Makes one HTML page of what dtrt_train has written to `n` folders, of `log_dir`, as the file `path`. */
DT_API dt_status *dtrt_write_report(const char *const *folders, int n, const char *path);

/* Writes the parameters and states of `weights`, a checkpoint or a safetensors file, as the safetensors file `path` for elsewhere: a map that loads
 * weights from there (dtrt_load_weights) is applied backwards. `options` or NULL; with allow_missing, tensors that `weights` cannot give are left
 * out. *text and *warnings (or NULL): what was done, and what is likely not meant, a line each. */
DT_API dt_status *dtrt_export_weights(const char *weights, const char *path, const dtrt_weights_options *options, char **text, char **warnings);

#ifdef __cplusplus
}
#endif
#endif
