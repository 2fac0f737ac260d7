/* session: an artifact on devices, ready to step.
 *
 * Replica r of V holds rows [r*n, (r+1)*n) of the global batch, in microbatches of a size that the artifact fixes. The microbatches of all replicas
 * are dealt to D devices, and within them to their cores, in contiguous runs: each to an executor. An executor runs a segment of the step for all its
 * microbatches, then what crosses is exchanged, then the next segment. Who holds which microbatch never changes a bit of the result: sums follow one
 * fixed tree over all of them (runtime/devices/reduce.h). Devices that share memory hold the variables once, and share the work of updating them; in
 * central storage the first of several devices does that alone, and holds no replica.
 *
 * Where shards of a model are over several processes (shards_over), these hold the same microbatches, and combine what their shards make of them.
 *
 * A session owns the executors of this process. Where it is one of several (runtime/comm/processes.h), each holds a run of the microbatches: what
 * crosses replicas crosses processes too, and bad indices, stop requests and failures are everybody's. All processes make the same calls.
 *
 * No memory is allocated inside a step. One thread drives each executor; the caller of dt_session_run is the one of the first.
 * Threads: one caller at a time a session; sessions are independent. A step that fails ends the session, which may only be destroyed then, and
 * the group: it may have changed some variables and not others, so none can be read any more. An argument that is refused changes nothing. */
#ifndef DT_RUNTIME_EXECUTION_SESSION_H
#define DT_RUNTIME_EXECUTION_SESSION_H

#include "abi/launch.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/artifact/kernels.h"
#include "runtime/comm/microbatches.h"
#include "runtime/comm/processes.h"
#include "runtime/devices/peak.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/reports.h"

typedef struct dt_session dt_session;

/* Whether all of a table is updated of which steps take rows, or the rows that a batch names. */
typedef enum dt_by_rows {
    DT_BY_ROWS_NOT,
    DT_BY_ROWS_EXACTLY, /* with the bits that there are without; an error where the update changes rows without a gradient */
    DT_BY_ROWS_LAZILY   /* such rows change when they are named next */
} dt_by_rows;

/* Rows of a table that a process has, ascending, each once; `values` gets them, one after another. */
typedef struct dt_row_request {
    int process, table; /* the table: a variable */
    const int64_t *rows;
    int64_t n;
    void *values;
    size_t bytes; /* of them all */
} dt_row_request;

/* Where a worker of asynchronous parameter servers has rows from: of the version of its parameters, or newer ones. */
typedef struct dt_row_source {
    dt_status *(*fetch)(void *context, const dt_row_request *requests, int n);
    void *context;
} dt_row_source;

typedef struct dt_session_options {
    const char *devices;   /* "cpu", "cpu:2", "cpu:2x4", "cuda:0", "null:1": see runtime/devices/spec.h */
    int64_t replicas;      /* V >= D, those devices that compute */
    int64_t rows;          /* n: rows of each replica in a full step, 1 to the capacity; 0: the capacity. Global batch = n * V */
    int64_t said_replicas; /* launch value; 0: V. With asynchronous servers a lease is a batch of one replica, whatever was asked for */
    int64_t seed;
    int64_t epochs;          /* launch value */
    int64_t steps_per_epoch; /* launch value */
    double deadline_seconds; /* how long an executor waits for the others, and for its device; 0: ten minutes */
    bool check_numerics;     /* look for what is not finite, for dt_session_numerics_status; of a session of one core */
    bool times;              /* measure each kernel, for dt_session_times */
    bool no_libraries;       /* on a GPU: leave nothing to vendors' libraries */
    int64_t host_bytes;      /* that the caller will take of the host's memory beside the session: they are to fit too */
    bool central;         /* central storage (placement.h): the first device of each process has the variables and updates them, the others compute */
    bool shard_optimizer; /* each process has its share of the optimizer's states alone, and updates that */
    bool shard_parameters; /* the same of parameters too, which are gathered layer by layer (gathering.h) */
    int64_t gather_rounds; /* the same: in so many rounds of microbatches; 0: in as few as there is memory for */
    int64_t shards_over;   /* so many processes have a part each of the shards of the model, and the same rows (microbatches.h); 0, 1: each has all */
    int64_t stages;        /* the layers of the model are cut into so many, of which each process has one (stages.h); 0, 1: each has all */
    bool forward_only;     /* no memory for steps that train, nor for slots: neither may be asked for */
    bool initial_only;     /* no memory for steps, nor for tables of which they take rows: what another session draws its initial values with */
    dt_by_rows by_rows;    /* on CPUs */
    dt_row_source rows_from; /* of such a worker */
    bool fast_sums;          /* over processes: added up as the engine of the transport, or of the GPUs' link, likes, which promises no bits */
    dt_processes *processes; /* of the run, which outlive the session; NULL: this is the only one */
    dt_timeline *timeline;   /* gets a thread for each executor, each queue of a GPU, and one for `processes`; NULL: nothing is recorded */
} dt_session_options;

/* One replica on "cpu", full capacity, seed 0, one epoch. */
dt_session_options dt_session_options_default(void);

/* The plans that run on a GPU, or else on a CPU. DT_FAILED_PRECONDITION: there are none, and how to compile them. */
dt_status *dt_session_program(const dt_artifact *artifact, bool is_gpu, const dt_artifact **program);
/* Whether a session of these plans may have so many replicas, of so many rows each. */
dt_status *dt_session_check_shape(const dt_artifact *program, int64_t replicas, int64_t rows);

/* Whether a session may be like that of a model that is split into shards. */
dt_status *dt_session_check_shards(const dt_artifact *artifact, const dt_session_options *options);

/* Whether so many of n processes may hold the shards of the model (shards_over). */
dt_status *dt_session_check_shards_over(const dt_artifact *artifact, int64_t over, int64_t n_processes);
/* The same of the stages, and of what goes with them, of n processes, and on a GPU. */
dt_status *dt_session_check_stages(const dt_session_options *options, int64_t n_processes, bool is_gpu);

/* Whether a session may have so many rounds (gather_rounds). */
dt_status *dt_session_check_rounds(int64_t rounds, bool shards_parameters);

/* Which rows of each global batch a session with these options will hold, {0} where all: so that the data can be opened before it. Fails where
 * dt_session_create would for the options. */
dt_status *dt_session_find_rows(const dt_kernels *kernels, const dt_session_options *options, dt_row_range *rows);
/* Of all processes: parts [processes]. */
dt_status *dt_session_find_parts(const dt_kernels *kernels, const dt_session_options *options, dt_row_range *parts);

/* Opens the devices, checks that the plan fits their memory, allocates it. All variables are 0 until dt_session_initialize or
 * dt_ranges_write. The kernels must outlive the session. */
dt_status *dt_session_create(const dt_kernels *kernels, const dt_session_options *options, dt_session **session);
void dt_session_destroy(dt_session *session);            /* NULL is allowed */
dt_status *dt_session_usable(const dt_session *session); /* DT_FAILED_PRECONDITION: it has failed */

/* Runs the program's initialisers. */
dt_status *dt_session_initialize(dt_session *session);

/* Whether it has a variable (index in the artifact): one that is forward-only may lack slots. Its bytes are ranges.h's. */
bool dt_session_has_variable(const dt_session *session, int variable);
/* Rows of a table that this process has, for a worker that asks: *values is the caller's, to be released. What is asked for is looked at:
 * DT_DATA_LOSS. */
dt_status *dt_session_take_rows(const dt_session *session, int variable, const int64_t *rows, int64_t n, char **values, size_t *bytes);

/* With which a step ends: all processes have, and it is the same in all of them. */
typedef struct dt_step_commit {
    uint64_t epoch;  /* of the membership (transport.h) */
    int64_t counter; /* of the step's launch */
} dt_step_commit;

enum {
    DT_STEP_NOTICE_BYTES = DT_RECORD_BYTES - (int)sizeof(dt_bad_index) - (int)sizeof(dt_step_commit)
};

/* What processes tell one another with a step, in the record that commits it, which crosses while the step still runs. All do, or none. */
typedef struct dt_notices {
    void (*write)(void *context, void *notice); /* this process's; called once in the step, by the caller's thread */
    void *context;
    void *all; /* [processes] of DT_STEP_NOTICE_BYTES, when the step is over */
} dt_notices;

/* The next global batch. */
typedef struct dt_batch {
    const void *const *inputs; /* [n_inputs of the step] each dense [rows, …] (or one element without B), element aligned, with DT_SLACK_BYTES
                                  readable bytes after it, from row dt_session_first_row on. Read in place: unchanged until dt_session_run returns,
                                  and until dt_session_result has been asked for results that are inputs */
    int64_t rows;              /* valid rows of all processes, 1 to n * V */
    int64_t counter;           /* launch.counter: the training step from 0; in other steps the number of the batch */
    const dt_notices *notices; /* NULL: there are none. Nobody calls it where there is one process */
} dt_batch;

/* Runs step `step` (index in the artifact) on a batch.
 * aggregates  [dt_reports_n_totals] of this batch alone, over all replicas; may be NULL.
 * Blocks until all devices are done: dt_session_start, then dt_session_finish. Errors: DT_INVALID_ARGUMENT, DT_ABORTED (a device failed or did not
 * arrive in time). An index out of range is no error here: ask dt_session_bad_index. */
dt_status *dt_session_run(dt_session *session, int step, const dt_batch *batch, dt_total *aggregates);

/* Its halves. Between them a GPU works, and the host may do something else, which may be dt_session_stage; other devices have done all when the first
 * half returns. Where batch->inputs is NULL, though the step has inputs, they are those that were staged last. */
dt_status *dt_session_start(dt_session *session, int step, const dt_batch *batch);
dt_status *dt_session_finish(dt_session *session, dt_total *aggregates);

/* Whether it gains anything to hand over the next batch of this step while one runs. */
bool dt_session_stages(const dt_session *session, int step);
/* Copies the inputs of a batch that the next dt_session_start of `step` will run to where the GPU can fetch them, and lets it fetch them. Only where
 * dt_session_stages says so. The inputs are free when it returns; they are forgotten when another batch is started. */
dt_status *dt_session_stage(dt_session *session, int step, const dt_batch *batch);

/* Result `result` (index in the step's function, aggregates included) of the last dt_session_run, which was of this step: its valid rows alone
 * (tensor.row_bytes * the batch's rows, those of this process), or all of a result without rows. */
dt_status *dt_session_result(dt_session *session, int step, int result, void *data);

int64_t dt_session_last_rows(const dt_session *session); /* valid ones of the last batch, those of this process */

/* The same of all processes, in order, appended to `all` in the one that leads; a result without rows, which all have alike, once. Each calls it. */
dt_status *dt_session_gather_result(dt_session *session, int step, int result, dt_text *all);

/* Where the time of the last dt_session_run went, on all executors together: their seconds, not the clock's. Only with options.times.
 * kernel_seconds  [n_kernels of the step's function, as dt_session_artifact has it] all calls of each
 * kernel_calls    [the same] how many calls that were
 * Returns         seconds of exchanging and waiting for one another in collectives. */
double dt_session_times(const dt_session *session, double *kernel_seconds, int *kernel_calls);

/* What kernels that measure themselves have added to their timers since the last call, on all executors together: of each timer of the last step's
 * function cycles, and how often it was read, side by side in timers [2 * n_timers]. */
void dt_session_take_timers(dt_session *session, int64_t *timers);

/* Of the last dt_session_run, by the clock: how long the first executor, and whoever called, waited for what other processes send. */
double dt_session_exposed_seconds(const dt_session *session);

/* The same, while a GPU's kernels are measured one by one: how long what it exchanges with other processes itself took. */
double dt_session_link_seconds(const dt_session *session);

/* A GPU's kernels are measured one by one, which takes longer than the step does: whether the next runs are (from the beginning they are). Others are
 * measured as they run, always. Only with options.times. */
void dt_session_measure(dt_session *session, bool one_by_one);

/* Indices out of range in the last dt_session_run, all replicas of all processes summed; the rest is of the first, by row, place in the program, and
 * value. */
const dt_bad_index *dt_session_bad_index(const dt_session *session);
/* What all processes say, put together: each calls it, at the same step, and all get the same answers. */
typedef struct dt_session_answers {
    int64_t least, most, sum; /* the sum wraps around */
    int64_t of_first;         /* process 0 */
    int other;                /* the first process that says something else; -1: all say the same */
    int64_t of_other;
} dt_session_answers;
dt_status *dt_session_ask(dt_session *session, int64_t here, dt_session_answers *all);
/* The same of records of at most DT_RECORD_BYTES: [processes], of which this process's is filled in. */
dt_status *dt_session_gather_records(dt_session *session, void *records, size_t bytes);
int dt_session_n_processes(const dt_session *session);
/* Which process holds a row of the global batch, that some process holds. */
int dt_session_process_of_row(const dt_session *session, int64_t row);
void dt_session_print_process(const dt_session *session, int process, char *text, size_t bytes); /* "process 2 (node7, pid 4711)" */
/* Whether this process writes what is written once: checkpoints, logs. */
bool dt_session_leads(const dt_session *session);

/* NULL, unless the last run made or met what is not finite; else what made the first, where in the program: the same in all processes. Only with
 * options.check_numerics. DT_OUT_OF_RANGE. */
dt_status *dt_session_numerics_status(const dt_session *session);

/* NULL when there was none, else the sentence: "gpt.dt:14:9: train step 57, row 33: index 12 is not within 0 to 9 (and 3 more like it)".
 * Steps are counted from 1. DT_OUT_OF_RANGE. */
dt_status *dt_session_bad_index_status(const dt_session *session);

const dt_session_options *dt_session_get_options(const dt_session *session);              /* as it was created, `rows` never 0; `devices` is NULL */
void dt_session_set_seed(dt_session *session, int64_t seed);                              /* of the steps that follow */
void dt_session_set_length(dt_session *session, int64_t epochs, int64_t steps_per_epoch); /* the launch values, of the steps that follow */
int dt_session_n_devices(const dt_session *session);
int dt_session_n_executors(const dt_session *session); /* of all devices together: at most as many as microbatches */
/* Of the processes with the same rows one gives them, where all rows are counted. */
bool dt_session_gives_rows(const dt_session *session, int process);
/* How many memories have a kernel, number `kernel` of a step's function, that runs once run in them: of each, all parts together are one run. */
int dt_session_n_runs(const dt_session *session, int step, int kernel);
int dt_session_n_shards(const dt_session *session);    /* of the model, that this process has */
int dt_session_n_computing(const dt_session *session); /* devices that hold replicas: all, or all but the central one, the first */
int dt_session_n_spare(const dt_session *session);     /* GPUs that are there, all were asked for, and no replica is left for */
const char *dt_session_device_name(const dt_session *session, int device); /* "cpu:0" */
int64_t dt_session_replicas(const dt_session *session);
int64_t dt_session_rows(const dt_session *session);                                  /* n */
int64_t dt_session_global_batch(const dt_session *session);                          /* n * V */
int64_t dt_session_first_row(const dt_session *session);                             /* of the global batch, that this process holds */
int64_t dt_session_n_rows(const dt_session *session);                                /* that it holds of a full batch */
dt_row_range dt_session_rows_here(const dt_session *session);                        /* both, as dt_session_find_rows has it */
int64_t dt_session_valid_rows(const dt_session *session, int process, int64_t rows); /* of a batch of `rows`, those that a process holds */
int64_t dt_session_own_rows(const dt_session *session, int64_t rows);                /* those of this one */
int64_t dt_session_memory_bytes(const dt_session *session); /* on all devices of this process together; on CPUs with options.host_bytes */
/* Of these, on a device: of devices that share a memory the first one has what is there once. */
typedef struct dt_session_device_bytes {
    int64_t all, weights, slots; /* weights: all variables but slots */
} dt_session_device_bytes;
dt_session_device_bytes dt_session_bytes_of_device(const dt_session *session, int device);
int64_t dt_session_variable_bytes(const dt_session *session, int variable); /* in all memories of this process together */
const dt_artifact *dt_session_artifact(const dt_session *session); /* whose plans run: the artifact's program for GPUs or by rows, or itself */
bool dt_session_is_gpu(const dt_session *session);
dt_status *dt_session_peak(dt_session *session, dt_peak *peak); /* of one of its executors' devices, which must not be running */
/* What of a GPU's work is done by which library, in lines; with `each`, how each call is. Nothing where none is. */
void dt_session_print_libraries(const dt_session *session, bool each, dt_text *text);
/* Of several processes how they exchange, where that is worth saying: which GPU each has, by what, and whether sums are exact. In lines. */
void dt_session_print_crossing(const dt_session *session, dt_text *text);
/* Of central storage what each device does, and how much memory it has for what, in lines. Nothing of another placement. */
void dt_session_print_placement(const dt_session *session, dt_text *text);
/* Of several processes, how much of the optimizer's states each has, in lines; what there is to say where they were to share them out and do not. */
void dt_session_print_sharing(const dt_session *session, dt_text *text);
const char *dt_session_level(const dt_session *session); /* of the code that runs: "x86-64-v4", "sm_90" */

#endif
