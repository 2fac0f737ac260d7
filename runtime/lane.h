/* lane: one core of a device, or a GPU, with the blocks of rows that it holds: its memory, and the functions of an artifact bound to it.
 *
 * What is the same on all of them, the variables and replicated values, lanes of one memory hold together: that is their home. A kernel that runs
 * once is run in parts, one a lane, if the compiler could divide it, else by the first lane of the home. Where one lane needs what another one
 * has done so, all lanes meet.
 *
 * A replica's rows are run in blocks (artifact.h), each with launch values and replica memory of its own, as if it were a replica: a segment's
 * kernels all run on one block before the next. The blocks of all replicas in order are the leaves of the tree that sums follow, and lanes share
 * the leaves out, so that the number of lanes changes no bit.
 *
 * Binding turns a plan into what a step needs and nothing else: for each segment one list of calls whose arguments are addresses, and one list of
 * collectives. A step then only writes its launch values and the places of its inputs. Sessions have lanes for each device; a function that
 * runs outside of a session (example_function.h) is a lane with one leaf. */
#ifndef DT_RUNTIME_LANE_H
#define DT_RUNTIME_LANE_H

#include "base/arena.h"
#include "base/text.h"
#include "runtime/comm/comm.h"
#include "runtime/devices/device.h"
#include "runtime/kernels.h"
#include "runtime/partial_sums.h"
#include "runtime/peak.h"

/* An argument that is an input: it is where the batch is. */
typedef struct dt_lane_input {
    void **argument;
    int input;
    int64_t offset; /* of the leaf's first row, in bytes */
} dt_lane_input;

/* Calls, then what crosses, or a meeting of all lanes where nothing crosses and the next calls are of kernels that hang on these. */
typedef struct dt_lane_stage {
    int segment;
    size_t call_end; /* where the stage's calls end */
    int part_end;
    bool meets;
} dt_lane_stage;

/* A function bound to a lane. */
typedef struct dt_lane_function {
    dt_device_call *calls; /* of all stages */
    int *call_kernels;     /* [n calls] the kernel of each; -1: a merge of partial sums */
    dt_comm_part *parts;   /* of all stages */
    int n_stages;
    dt_lane_stage *stages; /* the same number on all lanes */
    size_t n_inputs;
    dt_lane_input *inputs;
} dt_lane_function;

/* Where the time of a lane's last run went: calls of kernels one by one, then what crosses replicas, waiting for the others included. */
typedef struct dt_lane_times {
    double *kernel_seconds;  /* [most kernels of a function] all calls of each together */
    int *kernel_calls;       /* the same */
    double exchange_seconds; /* of all collectives, and merges of partial sums */
    bool pauses;             /* a GPU, whose kernels are timed by running them one by one, is to run them as one this time */
} dt_lane_times;

/* What the lanes of one memory hold together, relative to its start. */
typedef struct dt_home {
    dt_device *device; /* that allocates it */
    int n_lanes;
    char *memory;
    int64_t bytes;
    int64_t *variables; /* [n_variables] */
    int64_t device_space, gathered_space;
} dt_home;

typedef struct dt_lane {
    const dt_kernels *kernels;
    const dt_artifact *artifact;
    dt_device *device;
    dt_home *home;
    int part;      /* which of the home's lanes it is */
    dt_comm *comm; /* NULL: nothing crosses replicas */
    int first_leaf, n_leaves, n_all_leaves;
    int64_t rows, blocks, block_rows; /* n of each replica, in so many leaves with at most so many rows each */
    bool generated_alone;             /* nothing is to be left to vendors' libraries */

    /* memory of its own, relative to its start */
    char *memory;
    int64_t bytes;
    int64_t scratch_space, partial_space, partial_stride, leaf_space, leaf_stride, gathered_space;
    dt_partial_sums sums; /* of its leaves: which slot of the partial space is whose */

    dt_launch *launches;     /* [n_leaves + 1]; the last one is for kernels that run once */
    dt_bad_index *bad_index; /* [n_leaves + 1], one a launch; without a comm the first one for all */
    dt_lane_function *bound; /* [n_functions] */

    dt_lane_times *times; /* NULL: nobody asks, and nothing is measured */

    /* set when it is opened (dt_lane_kind) */
    const char *level;       /* of the code that runs: "x86-64-v4", "sm_90" */
    int64_t bytes_beside;    /* that it allocates beside `bytes`, as they are taken */
    struct dt_gpu_lane *gpu; /* NULL: it is no GPU (gpu_lane.c); else `bound` is NULL, and launches and bad_index are in memory that it reads */
} dt_lane;

/* What is the same for all lanes in one run of a function. */
typedef struct dt_lane_run_values {
    int function;
    const void *const *inputs;
    dt_launch launch; /* all but rows, row_offset, bad_index and parts */
    const char *step; /* for messages */
} dt_lane_run_values;

/* How a session runs steps on lanes of a kind of device: on cores, which are handed lists of calls (lane.c), or on a GPU, which is handed graphs
 * (gpu_lane.c). Everything else about a session is the same for all. */
struct dt_lane_kind {
    /* The program of an artifact that such lanes run. DT_FAILED_PRECONDITION: it has none. NULL: the artifact itself. */
    dt_status *(*choose_program)(const dt_artifact *artifact, const dt_artifact **program);
    /* What is to be done between the layout and the allocation of memory, and undone, after an error too, when nothing is to run any more. */
    dt_status *(*open)(dt_lane *lane, dt_arena *arena);
    void (*close)(dt_lane *lane); /* NULL: nothing */
    /* The error for a plan that needs more memory than there is, of `n` lanes whose first one is given. */
    dt_status *(*does_not_fit)(const dt_lane *lane, int n, int64_t needed, int64_t available);
    /* Binds all initialisers and steps, when lane and home are allocated. */
    dt_status *(*bind)(dt_lane *lane, dt_arena *arena);
    /* Copies inputs of a function to where the next start finds them. The host's are free when it returns. NULL: nothing is gained by it. */
    dt_status *(*stage)(dt_lane *lane, int function, const void *const *inputs, int64_t valid);
    /* The halves of a run; of several lanes each is started by a thread of its own. inputs NULL: those that were staged last. Bad indices are those
     * of this run alone. */
    dt_status *(*start)(dt_lane *lane, const dt_lane_run_values *values);
    dt_status *(*finish)(dt_lane *lane, const dt_lane_run_values *values); /* NULL: all is done when it has started */
    /* Aggregate `index` of the function that finished last; it must not be an input. */
    dt_status *(*read_aggregate)(dt_lane *lane, int function, int index, void *value);
    /* What it can do at most, when nothing runs. */
    dt_status *(*measure_peak)(dt_lane *lane, dt_peak *peak);
    /* What of its work is done by which library, in lines; with `each`, how each call is. NULL: none is used. */
    void (*print_libraries)(const dt_lane *lane, bool each, dt_text *text);
};

/* `function` -1: all of role INIT and STEP, with the variables. Lay the memory out and say in `bytes` how much it is (INT64_MAX: more than there can
 * be). Everything up to the memory must be set; what they allocate is of the arena. */
void dt_home_lay_out(dt_home *home, const dt_artifact *artifact, int n_all_leaves, int function, dt_arena *arena);
void dt_lane_lay_out(dt_lane *lane, int function, dt_arena *arena);

/* Allocate the memory, zeroed. */
dt_status *dt_home_allocate(dt_home *home);
dt_status *dt_lane_allocate(dt_lane *lane);

/* Binds the same functions, when lane and home are allocated. */
void dt_lane_bind(dt_lane *lane, int function, dt_arena *arena);

/* Runs a bound function; returns when its results are there. */
dt_status *dt_lane_run(dt_lane *lane, const dt_lane_run_values *values);

/* What running needs and shares with GPUs: the launch values of each leaf; no times yet. */
void dt_lane_fill_launches(dt_lane *lane, const dt_lane_run_values *values);
void dt_lane_clear_times(dt_lane *lane, int n_kernels);

/* Where a buffer of the partial space is in its slot `slot`. */
char *dt_lane_partial_place(const dt_lane *lane, const dt_artifact_buffer *buffer, int slot);

/* Where buffer `buffer` of `function` is for the lane's leaf `leaf`. Not for inputs. */
char *dt_lane_place(const dt_lane *lane, int function, int buffer, int leaf);

void dt_lane_free(dt_lane *lane); /* the memory; a lane of zeros is allowed */
void dt_home_free(dt_home *home); /* the same */

#endif
