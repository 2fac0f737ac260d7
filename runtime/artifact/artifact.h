/* artifact: a .dtx read into plain structs, every number of it checked.
 *
 * What dt_artifact_open returns can be used without a further test: indices are within their arrays, buffers within their spaces, names unique,
 * the sum of each member but the weights is right. A file that is truncated, altered or foreign gives one sentence instead. The structs are const to
 * everybody; their memory is the artifact's. After opening, any number of threads may read it.
 *
 * Dimensions: DT_ROWS (-1) stands for B, the valid rows of a microbatch; DT_ALL_ROWS (-2) for the valid rows of all replicas side by side. Memory
 * counts them as microbatch_rows, and as microbatch_rows of every microbatch. What crosses the border of a function, and whatever has DT_ALL_ROWS,
 * has them first; between kernels a DT_ROWS may stand anywhere. */
#ifndef DT_RUNTIME_ARTIFACT_ARTIFACT_H
#define DT_RUNTIME_ARTIFACT_ARTIFACT_H

#include "abi/dtype.h"
#include "abi/library.h"
#include "abi/manifest.h"
#include "abi/share.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_ROWS ((int64_t)-1)
#define DT_ALL_ROWS ((int64_t)-2)

typedef struct dt_artifact_tensor {
    const char *name; /* of an input or a result; "" elsewhere */
    dt_dtype dtype;
    int n_dims;
    const int64_t *dims; /* [n_dims] */
    int64_t row_bytes;   /* DT_ROWS or DT_ALL_ROWS first: bytes of one row; else bytes of all of it */
    bool has_rows;       /* dims[0] is DT_ROWS or DT_ALL_ROWS */
    bool has_all_rows;   /* dims[0] is DT_ALL_ROWS */
} dt_artifact_tensor;

typedef struct dt_artifact_object {
    const char *level; /* "x86-64-v3", … or "native" */
    const char *cpu;   /* "native": the processor that it was compiled for (dt_cpu_name); else "" */
    const char *file;
    const void *bytes;
    size_t n_bytes;
} dt_artifact_object;

/* Where in the program an index expression stands: dt_bad_index.location. */
typedef struct dt_artifact_location {
    const char *file;
    int64_t line, column;
} dt_artifact_location;

/* How a variable is split over the logical shards of a model: its dimension `axis` is `groups` tensors side by side, of each of which every shard has
 * its part (abi/manifest.h, dt_shard_extent). groups 0: it is not split, and all shards have all of it. */
typedef struct dt_artifact_split {
    int axis, groups;
} dt_artifact_split;

typedef struct dt_artifact_variable {
    const char *path;
    dt_variable_kind kind;
    bool trainable;
    dt_artifact_tensor tensor; /* no rows; of one that is split: all shards together */
    int64_t bytes;
    dt_artifact_split split;
    dt_share share;        /* of a slot that processes may share out, and of a parameter that parameter servers may */
    double launch_default; /* of a launch value: what the initialiser writes */
    bool by_rows;          /* of artifact->by_rows: a table or a slot of one, of which steps take rows: it is no variable of theirs */
    int row_init;          /* function: initial values of B rows, the first of which is row_offset of the launch. Where there is none, -1 */
} dt_artifact_variable;

/* Bytes of a variable. */
typedef struct dt_byte_range {
    int64_t first, n_bytes;
} dt_byte_range;

/* A loop over tensors: the kernels of its body run `trips` times for each microbatch. */
typedef struct dt_artifact_loop {
    int64_t trips;
    int around; /* the loop, before it, whose body it is in; -1: none */
} dt_artifact_loop;

/* What of another buffer a buffer is: in iteration t of the loop, position (first + step * t), modulo `wrap` where that is not 0, of an axis. */
typedef struct dt_artifact_view {
    int of;   /* an earlier buffer, which may be a view in turn */
    int loop; /* -1: it is always position `first` */
    int64_t first, step, wrap;
    int64_t stride;         /* bytes from one position to the next */
    const int64_t *strides; /* [n_dims of the buffer] bytes from one element to the next */
} dt_artifact_view;

typedef struct dt_artifact_buffer {
    dt_artifact_tensor tensor; /* sharded: of one shard */
    dt_memory_space space;
    bool sharded; /* there is one for each logical shard */
    int64_t offset,
        bytes; /* within its space, of a full microbatch; DT_ALL_ROWS: bytes of one microbatch's share, and no offset: it is allocated apart */
    int variable, input;          /* index, for those two spaces */
    int root;                     /* the buffer in whose memory a view is; of others the buffer itself */
    const dt_artifact_view *view; /* whose space and place are those of its root; NULL: it is no view */
} dt_artifact_buffer;

/* Of one call: rows * per_row + fixed. */
typedef struct dt_artifact_amount {
    double per_row, fixed;
} dt_artifact_amount;

/* One launch of a GPU's: its arguments are buffers, then the launch values. Any number of blocks computes the same bits. */
typedef struct dt_artifact_launch {
    const char *function; /* of the unit's modules */
    int unit;
    int n_arguments;
    const int *arguments;           /* indices of the kernel's buffers */
    int threads;                    /* of a block */
    int team;                       /* threads that work as one */
    int64_t n_items;                /* threads, or teams, that have something to do at capacity */
    const dt_library_call *library; /* what a vendor's library can do instead; NULL: nothing */
} dt_artifact_launch;

/* A buffer that the processes have written each its share of. */
typedef struct dt_artifact_gather {
    int buffer; /* DEVICE or VARIABLE */
    dt_share share;
} dt_artifact_gather;

/* What a nest of a kernel reads and writes: buffers, each once. */
typedef struct dt_artifact_nest {
    int n_reads, n_writes;
    const int *reads, *writes;
} dt_artifact_nest;

typedef struct dt_artifact_kernel {
    const char *name;  /* symbol in the object */
    const char *lines; /* "fashion_cnn.dt:14", for people */
    int loop;          /* the innermost one whose body it is in; -1: none. Those of a body stand side by side in their segment */
    int layer;         /* of its segment, from 1: it needs the parameters among the layer's buffers, and lays them out if it runs once. 0: of none */
    bool once;
    bool sharded;      /* it is launched for each logical shard, and only such kernels touch sharded buffers */
    bool divided;      /* it does its part of the work a call: launch.part of launch.n_parts */
    bool for_examples; /* who computes no examples does without it */
    int n_buffers;
    const int *buffers;
    int n_writes; /* of these, what it writes that is there once for all replicas: DEVICE and VARIABLE */
    const int *writes;
    int n_nests;
    const dt_artifact_nest *nests; /* [n_nests] of one that runs once each by itself: who does without what it writes is not run. Else all as one */
    int n_gathers;                 /* where the update is shared out, what everybody needs of what it has written; of a divided kernel */
    const dt_artifact_gather *gathers;
    dt_artifact_amount flops, bytes; /* floating-point work, and memory that must cross its border, as counted by the compiler; 0: not said */
    int n_launches;                  /* of a GPU's plan: what the kernel is there, one after another; else 0 */
    const dt_artifact_launch *launches;
} dt_artifact_kernel;

/* Nests of a kernel that are measured together, in code that measures itself. */
typedef struct dt_artifact_timer {
    int kernel, first, n_nests; /* of the function's kernels; nests of it, as --emit=kernels counts them */
    const char *part;           /* "forward", "backward", "update" */
    const char *layer, *lines;  /* "Gpt/block_1/attention", "gpt.dt:14"; "": not known */
    const char *note;           /* "pack"; NULL: none */
    dt_artifact_amount flops, bytes;
} dt_artifact_timer;

typedef struct dt_artifact_collective {
    dt_collective_kind kind;
    dt_reduction_op op;
    int source, target; /* buffers: REPLICA to DEVICE (all_reduce, all_gather) or REPLICA to REPLICA (reduce_scatter). The source of an all_reduce
                           may be PARTIAL: then it is of the same segment, and read by nobody after it. Both are sharded, or neither; of a
                           shard_reduce the source alone is, and they are both DEVICE, or neither */
    bool is_within;     /* a shard_reduce of what a microbatch has: it is done behind kernel complete_after, and kernels behind that use the target.
                           All others are done at the segment's end */
    int complete_after; /* so many replica kernels of the segment the source is there, and, unless it is_within, used by none of the rest */
    dt_share share;     /* of an all_reduce: of the result each process needs its share alone, where the update is shared out. unit 0: all of it */
    const char *label;
} dt_artifact_collective;

typedef struct dt_artifact_segment {
    int n_device_kernels, n_replica_kernels, n_collectives;
    int n_layers; /* that replica kernels stand by, in the order in which they run; 0: it is not cut */
    const int *device_kernels, *replica_kernels;
    const dt_artifact_collective *collectives;
} dt_artifact_segment;

typedef struct dt_artifact_result {
    dt_artifact_tensor tensor;
    int buffer;  /* DEVICE (replicated), REPLICA (split over rows), or VARIABLE, INPUT, CONSTANT where it is one of these itself */
    bool varies; /* of a step: from one batch to the next */
} dt_artifact_result;

typedef struct dt_artifact_function {
    const char *name;
    dt_function_role role;
    int n_inputs, n_results, n_buffers, n_kernels, n_segments, n_loops;
    const dt_artifact_tensor *inputs;
    const dt_artifact_result *results;
    dt_space_bytes bytes, gathered; /* gathered: what buffers with DT_ALL_ROWS add for each microbatch of all replicas */
    const dt_artifact_buffer *buffers;
    const dt_artifact_kernel *kernels;
    const dt_artifact_segment *segments;
    const dt_artifact_loop *loops;
    int n_timers;
    const dt_artifact_timer *timers; /* [n_timers] of code that measures itself: counters that its kernels add to (abi/launch.h) */
} dt_artifact_function;

typedef struct dt_artifact_step {
    const char *name;
    int function;  /* its first n_aggregates results have no rows and are replicated; the others are the named results */
    int report;    /* function, or -1: no reports. One f64 input an aggregate, of its shape, one f64 result a report */
    int pipeline;  /* or -1: no `from` */
    int64_t every; /* training runs it after each so many epochs; 0: the program does not say */
    bool trains;
    int64_t n_trained; /* elements of the parameters that it changes */
    int n_aggregates;
    const dt_aggregate_kind *aggregates;
    const int64_t *aggregate_starts; /* [n_aggregates + 1]: of each one's numbers among the totals of the step; last, how many these are */
    int n_reports;
    const char *const *reports;   /* names */
    const int64_t *report_starts; /* [n_reports + 1]: likewise among the values of its reports */
} dt_artifact_step;

/* A step for a table of which it takes rows alone, and which nobody needs as a whole (`dt_row_form` of the compiler). Inputs of `indices` are those
 * of the step's function; inputs and results of `step` begin with these. All rows are f32. */
typedef struct dt_artifact_row_form {
    int table;         /* variable, [rows, width] */
    int of;            /* function of the step as it is */
    int indices, step; /* functions, which serve all tables of the step */
    int index;         /* result of `indices`: [rows of the batch, ...], integers */
    int rows;          /* input of `step`: a row of the table for each of these */
    int64_t n_indices; /* for each row of the batch */
    int gradient;      /* result of `step`, of the same type: what is added to the gradient of each; -1: the step leaves the table as it is */
    int first_number, n_numbers; /* results of `step` without dimensions, the last inputs of `sum` and `update` */
    int sum;                     /* function: a microbatch's gradient [B, width] -> what crosses; -1: that itself */
    int update;                  /* function: table, slots, the sum over microbatches, all [B, width] -> table, slots */
    int n_slots;
    const int *slots;  /* variables of the table's type */
    const char *moves; /* what the update does to a row without a gradient, for people; NULL: nothing, to the bit, with finite numbers not below 0 */
    int location;      /* where an index out of range is counted; -1: not known */
} dt_artifact_row_form;

typedef enum dt_argument_kind {
    DT_ARGUMENT_INT,
    DT_ARGUMENT_FLOAT,
    DT_ARGUMENT_STRING,
    DT_ARGUMENT_FUNCTION
} dt_argument_kind;

typedef struct dt_artifact_argument {
    const char *name; /* NULL: positional */
    dt_argument_kind kind;
    int64_t integer;
    double number;      /* of an INT too */
    const char *string; /* STRING; FUNCTION: its name */
    int function;       /* FUNCTION */
} dt_artifact_argument;

typedef struct dt_artifact_stage {
    const char *kind; /* "idx", "shuffle", "batch": whether there is such a stage the pipeline says */
    int64_t line;     /* in the program, or 0 */
    int n_arguments;
    const dt_artifact_argument *arguments;
} dt_artifact_stage;

typedef struct dt_artifact_pipeline {
    const char *name;
    int n_stages; /* >= 1; the first is the source */
    const dt_artifact_stage *stages;
} dt_artifact_pipeline;

/* Code for one kind of GPU: the functions of one unit. */
typedef struct dt_artifact_module {
    const char *architecture; /* "sm_90", "sm_90a": a cubin; "compute_90": PTX, which a driver compiles */
    bool is_ptx;
    int major, minor; /* 9, 0 */
    char suffix;      /* 'a': of that GPU alone, 'f': of its family; 0 */
    int unit;
    const char *file;
    const char *bytes; /* zeros follow: PTX is a string */
    size_t n_bytes;
} dt_artifact_module;

struct dt_artifact;

/* The program once more, for GPUs. */
typedef struct dt_artifact_cuda {
    const char *compiler; /* "NVRTC 13.0" */
    int n_units, n_modules;
    const dt_artifact_module *modules;        /* an architecture that has one has one for each unit */
    dt_artifact_launch reduction;             /* the function of abi/reduction.h; it has no kernel, and other arguments */
    dt_artifact_launch clear_rows, transpose; /* what calls of libraries need (abi/library.h); `function` is NULL where none do */
    const struct dt_artifact *program;        /* the same program, its functions with the plans of a GPU: a microbatch is a whole replica,
                                                 kernels have launches. All else is the artifact's; `cuda` is NULL */
} dt_artifact_cuda;

typedef struct dt_artifact {
    const char *path;     /* as opened */
    const char *name;     /* of the program */
    const char *compiler; /* "dtc 0.1.0" */
    const char *llvm;
    int n_flags;
    const char *const *flags;
    const char *source_hash, *program_hash; /* 16 hex digits */
    int64_t capacity;                       /* most rows of a replica */
    int64_t microbatch_rows;                /* most rows of a microbatch: what memory is planned for */
    int n_shards;                           /* logical shards of the model, DT_MOST_SHARDS or fewer; 1: it is not split */
    int n_objects, n_locations, n_variables, n_functions, n_steps, n_pipelines;
    const dt_artifact_object *objects;
    const dt_artifact_location *locations;
    const dt_artifact_variable *variables;
    const dt_artifact_function *functions;
    const dt_artifact_step *steps;
    const dt_artifact_pipeline *pipelines;
    const void *constants; /* aligned to 64, with slack; NULL where there are none */
    int64_t constant_bytes;
    int64_t n_parameters, n_trainable; /* elements in variables of kind PARAMETER */
    int n_row_forms;
    const dt_artifact_row_form *row_forms; /* those of a step side by side */
    const struct dt_artifact *by_rows; /* the same program for those who have rows of these tables alone: its steps and its initialiser are the row
                                          forms, and steps NAME/indices follow; numbers of functions and variables are the same. NULL: no row forms */
    const dt_artifact_cuda *cuda;      /* NULL: it was compiled for processors alone */
    const void *weights;               /* [weight_bytes] that `dtc pack` has put in, a safetensors file; NULL: none */
    size_t weight_bytes;
} dt_artifact;

/* Reads and checks all of `path`. Errors: DT_NOT_FOUND, DT_DATA_LOSS (not an artifact, truncated, altered), DT_FAILED_PRECONDITION (written by
 * another version; the message holds the command that compiles it again), DT_RESOURCE_EXHAUSTED. */
dt_status *dt_artifact_open(const char *path, dt_artifact **artifact);
/* The same for a file that is in memory already; `path` is used in messages only. */
dt_status *dt_artifact_open_memory(const char *path, const void *bytes, size_t n_bytes, dt_artifact **artifact);
void dt_artifact_close(dt_artifact *artifact); /* NULL is allowed */

/* `status`, its message followed by the command that makes this artifact again with `option` as `value`, and all else as it was:
 * "…: dtc compile net.dt --precision tf32 --batch 32 -o net.dtx". option NULL: nothing is changed. */
dt_status *dt_artifact_suggest(dt_status *status, const dt_artifact *artifact, const char *option, const char *value);

/* Whether `loop` is `around`, or in its body; -1 is around all. */
bool dt_artifact_loop_is_within(const dt_artifact_function *function, int loop, int around);
/* The loop next to `around` that a kernel is in; `around`: none. */
int dt_artifact_next_loop(const dt_artifact_function *function, int kernel, int around);
/* How many of kernels[0 … n), in the body of `around`, are one kernel or one loop. */
int dt_artifact_n_together(const dt_artifact_function *function, const int *kernels, int n, int around);
/* How often a kernel in `loop` runs for a microbatch; once in none, -1. */
int64_t dt_artifact_runs(const dt_artifact_function *function, int loop);
/* How often all its kernels together do, those that are sharded for each of so many shards. */
int64_t dt_artifact_n_launches(const dt_artifact_function *function, int n_shards);
/* Bytes from the beginning of its root to a buffer, in iteration iterations[number] of each loop. */
int64_t dt_artifact_shift(const dt_artifact_function *function, int buffer, const int64_t *iterations);

/* Bytes of a variable that one shard has room for: all, where it is not split. */
int64_t dt_artifact_shard_bytes(const dt_artifact *artifact, const dt_artifact_variable *variable);

/* Index, or -1. */
int dt_artifact_find_variable(const dt_artifact *artifact, const char *path);
int dt_artifact_find_function(const dt_artifact *artifact, const char *name);
int dt_artifact_find_step(const dt_artifact *artifact, const char *name);
int dt_artifact_find_pipeline(const dt_artifact *artifact, const char *name);

/* One text member of the file: "program.dt", "program.ir", "plan.txt". *text is terminated; the caller frees it. */
dt_status *dt_artifact_read_text(const char *path, const char *member, char **text);
/* The same of a file that is in memory already; `path` is used in messages only. */
dt_status *dt_artifact_read_text_memory(const char *path, const void *bytes, size_t n_bytes, const char *member, char **text);

/* A replica with so many rows (its n, valid or not) is run in microbatches of microbatch_rows, the last ones shorter or empty: the least power of two
 * of them, so that the tree over all microbatches (runtime/devices/reduce.h) is the one over replicas, of trees over theirs. */
int64_t dt_artifact_microbatches(const dt_artifact *artifact, int64_t rows);

/* What a session takes: once in each memory (variables, replicated values), for each core (scratch), for each partial sum that a core has open
 * (runtime/execution/executor.h says how many), for each replica at capacity; all shards of a model together. */
typedef struct dt_artifact_bytes {
    int64_t shared, core, partial, replica;
} dt_artifact_bytes;
dt_artifact_bytes dt_artifact_memory(const dt_artifact *artifact);
/* What each replica adds to each of these: where the rows of all replicas are held. */
dt_artifact_bytes dt_artifact_gathered_memory(const dt_artifact *artifact);

#endif
