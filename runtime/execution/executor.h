/* executor: what runs a device's share: a core with its thread, or a GPU with its queue.
 *
 * It holds a contiguous run of the microbatches of all replicas. What it has to do for a function is a list of operations (operations.h), made when a
 * session is created and cut where executors wait for one another: the sequences between are handed to the device one after another. What is the same
 * on all executors of one memory, variables and replicated values, their memory domain holds once.
 *
 * To wait for others is two things: their threads meet (runtime/comm/group.h), and, where devices run what they are given later, their queues wait
 * for events that were signalled before. A step then only writes launch values and says where the batch is.
 *
 * Sessions have executors for each device; a function that runs outside of a session (example_function.h) is an executor with one microbatch. */
#ifndef DT_RUNTIME_EXECUTION_EXECUTOR_H
#define DT_RUNTIME_EXECUTION_EXECUTOR_H

#include "runtime/execution/operations.h"
#include "runtime/threads/progress.h"
#include "runtime/threads/team.h"
#include "runtime/threads/timeline.h"

/* A sequence for the device, or what the executor's thread does itself between two of them. */
typedef struct dt_executor_stage {
    dt_sequence sequence;
    const dt_operation *own; /* NULL: there is a sequence */
    int end_beside;          /* of JOIN: stages of the list beside, up to which it runs them */
    bool counts_all;         /* of JOIN: no kernel that runs for each microbatch follows, so that all their bad indices are counted */
    int segment;
    const char *label; /* of what crosses there, for messages */
} dt_executor_stage;

typedef struct dt_executor_stages {
    int n;
    dt_executor_stage *stages; /* [n] */
} dt_executor_stages;

/* A function's stages, and those beside them: whenever the thread has arrived at a gate it does of these what gates let it do. */
typedef struct dt_executor_list {
    dt_executor_stages stages, beside;
} dt_executor_list;

/* A function as an executor runs it. */
typedef struct dt_executor_function {
    dt_executor_list *lists[DT_INPUT_SLOTS]; /* for each slot; the same one where there are no inputs in slots */
    size_t n_inputs;
    dt_input_argument *inputs;
    int first_collective; /* of the executor's collectives: the function's */
    uint64_t n_runs;      /* this one included */
} dt_executor_function;

/* Where the time of an executor's last run went: kernels one by one, then what crosses replicas, waiting for the others included. */
typedef struct dt_executor_times {
    double *kernel_seconds;  /* [most kernels of a function] all launches of each together */
    int *kernel_calls;       /* the same */
    double exchange_seconds; /* of all collectives, and sums on the way */
    double crossing_seconds; /* of these: waiting for what other processes send */
    double link_seconds;     /* of these: what the device exchanges with other processes itself, one exchange by one */
    bool pauses;             /* a device that works ahead is not to be measured this time, for which its operations would have to run one by one */
    double *operations;      /* [most operations of a sequence] */
    double *began, *ended;   /* the same, by a device's clock */
} dt_executor_times;

typedef struct dt_executor {
    const dt_kernels *kernels;
    dt_device *device;
    dt_memory_domain *domain;
    int part;                         /* which of the domain's executors it is */
    dt_team *team;                    /* with whom it runs kernels in parts; NULL: with nobody */
    int team_part;                    /* which of these is its own: that of who has the microbatches is 0 */
    const struct dt_executor *helps;  /* who that is, of one that has none; NULL: nobody */
    dt_launch *helping;               /* [its microbatches] launch values of these parts */
    dt_group *group;                  /* NULL: nothing crosses replicas */
    dt_progress *progress;            /* of this process; NULL: nobody waits for it */
    struct dt_executor *const *peers; /* [n_peers] the executors of this process, this one included */
    int n_peers;
    int64_t first_row; /* of this process, in the global batch */
    dt_executor_memory memory;
    int64_t prepare_bytes; /* of the device's memory, beside `memory` */
    size_t crossing_bytes; /* of these, for what its device exchanges with those of other processes */
    void *crossing_memory;
    dt_executor_times *times;              /* NULL: nobody asks, and nothing is measured */
    struct dt_numerics *numerics;          /* what is not finite (numerics.h); NULL: nobody asks */
    dt_status *(*computed)(void *context); /* at such a stage, before the last of it begins to cross: results of rows are there; NULL: nobody asks */
    void *computed_context;
    void (*counted)(void *context); /* at a stage that counts_all, while what crosses is on its way; NULL: nobody asks */
    void *counted_context;
    dt_recorder *recorder; /* with `times`; NULL: there is no timeline */
    double started;        /* the last run, where it is recorded */
    int64_t *timers;       /* [2 * most timers of a function] what its kernels add to (abi/launch.h), since the session began; NULL: they have none */
    int n_beside;          /* stages beside that it has done */
    dt_recorder *queue;    /* of a device that is timed; NULL: its clock is not read */
    dt_recorder *beside;   /* the same, of what its queue does beside the rest */

    /* what the host sees of its memory */
    char *host; /* NULL: the device's memory is the host's */
    dt_host_exchange exchange;
    char *host_slots[DT_INPUT_SLOTS];
    dt_launch *launches;     /* [dt_executor_memory_n_launches]; the last ones are for kernels that run once */
    dt_bad_index *bad_index; /* [n_microbatches + 1], one for all shards; without a group the first one for all */
    int64_t *aggregates;

    int slot;                                /* of inputs that the last run read */
    dt_device_event *staged[DT_INPUT_SLOTS]; /* the slot's inputs are there */
    dt_device_event *arrived[2];             /* at the last two meetings, in turn */
    uint32_t n_meetings;
    const dt_collective_part *collectives; /* of all functions, as they were published */
    dt_executor_function *functions;       /* [n_functions] */
} dt_executor;

/* What is the same for all executors in one run of a function. */
typedef struct dt_run_values {
    int function;
    const void *const *inputs; /* rows of this process; NULL: those that were staged last */
    dt_launch launch;          /* all but rows, shard, bad_index and parts; row_offset: of the first row of all */
    const char *step;          /* for messages */
} dt_run_values;

/* What must be set before: kernels, device, domain, part, group, first_row, and of `memory` what memory.h says. Those of a group publish its
 * collectives: all of them are to be planned before any is asked for bytes or prepared. */
void dt_executor_plan(dt_executor *executor, int wanted, dt_arena *arena);

/* Sets prepare_bytes: what preparing will allocate on the device beside `memory`. */
dt_status *dt_executor_prepare_bytes(dt_executor *executor, int wanted, dt_arena *arena);

/* Allocates its memory, on device and host, zeroed. Then it is to be planned, again if it was: there are addresses now. */
dt_status *dt_executor_allocate(dt_executor *executor);

/* Makes all functions ready to run, once it and its domain are allocated. */
dt_status *dt_executor_prepare(dt_executor *executor, int wanted, dt_arena *arena);

/* What it records of a run of a function, at most, once it is prepared. */
int64_t dt_executor_most_spans(const dt_executor *executor, int wanted);

/* Gives back what it has allocated; one of zeros is allowed. The device is the caller's. */
void dt_executor_free(dt_executor *executor);

dt_status *dt_memory_domain_allocate(dt_memory_domain *domain);
void dt_memory_domain_free(dt_memory_domain *domain); /* one of zeros is allowed */

/* Copies inputs of a function to where the next start finds them; the host's are free when it returns. Only where memory.slots > 0. */
dt_status *dt_executor_stage_inputs(dt_executor *executor, int function, const void *const *inputs, int64_t valid);

/* The halves of a run: each executor is started by a thread of its own, all of a process are finished together. Bad indices are those of this run
 * alone.
 */
dt_status *dt_executor_start(dt_executor *executor, const dt_run_values *values);
dt_status *dt_executors_finish(dt_executor *const *executors, int n, const dt_run_values *values);

/* "x86-64-v4", "sm_90": of the code that runs. */
const char *dt_executor_level(const dt_executor *executor);

#endif
