/* operation: what a device is given to do.
 *
 * A function of the program is one list of operations, made once, by the same code for every kind of device (runtime/execution/operations.h). A
 * device runs a run of them, a sequence, in order, as often as it is asked to. All addresses are fixed when the list is made, but for the inputs of
 * kernels that read them where the host has them: those buffers are written before each step. */
#ifndef DT_RUNTIME_DEVICES_OPERATION_H
#define DT_RUNTIME_DEVICES_OPERATION_H

#include "abi/launch.h"
#include "runtime/devices/link.h"
#include "runtime/devices/reduce.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum dt_operation_kind {
    DT_OPERATION_LAUNCH,     /* a kernel of the program */
    DT_OPERATION_REDUCE,     /* sums of microbatches, and copies within the memory that the device reaches */
    DT_OPERATION_TRANSFER,   /* a round of messages to and from devices of other processes, of a device that has a link (link.h) */
    DT_OPERATION_ALL_REDUCE, /* a sum over devices of other processes that its link adds up as it likes */
    DT_OPERATION_JOIN,       /* what follows waits for what is beside: all of it, or up to a mark */
    DT_OPERATION_COPY,       /* from the host's memory to the device's */
    DT_OPERATION_READ_BACK,  /* from the device's memory to the host's */

    /* what no device sees: the thread of an executor does it, between two sequences */
    DT_OPERATION_MEET,       /* the executors of this process wait for one another */
    DT_OPERATION_ARRIVE,     /* at a gate (runtime/comm/gate.h): what the last one who does opens */
    DT_OPERATION_PASS,       /* what follows runs once the gate is open */
    DT_OPERATION_AWAIT,      /* what the gate has begun is over */
    DT_OPERATION_COLLECTIVE, /* what crosses executors, and */
    DT_OPERATION_COMPLETE,   /* what some of that takes is there; */
    DT_OPERATION_START,      /* a nonblocking collective begins, and */
    DT_OPERATION_WAIT        /* is over: a group makes all that is above of them (runtime/comm/group.h) */
} dt_operation_kind;

/* A kernel of a plan with its arguments. */
typedef struct dt_operation_launch {
    int function, kernel;    /* of the artifact's program for this kind of device */
    dt_kernel_entry entry;   /* of a device that runs functions of the host; else NULL */
    void **buffers;          /* [n_buffers of the kernel] addresses */
    const dt_launch *values; /* its launch values, where the device reads them */
    int segment, position;   /* how many launches of the segment come before it, for one microbatch */
    int place;               /* of those that microbatches under way and shards have each for itself: which is this one's, from 0 */
    int64_t iteration;       /* of the innermost loop that it is in; -1: it is in none */
} dt_operation_launch;

/* What is combined where that is the shards' values of one tensor, of a microbatch or of all, and not what microbatches left. */
typedef struct dt_over_shards {
    const char *label;
    int segment, position; /* of what a microbatch has: as if it were a launch; -1: of what is there once */
    const dt_artifact_tensor *tensor;
    const dt_launch *values; /* of the microbatch, or of the first one, which say how many rows are valid */
    bool is_on_the_way;      /* it is of some shards, and what other processes have is added yet; all else is empty */
} dt_over_shards;

/* Tensors that are reduced together. */
typedef struct dt_operation_reduce {
    int n;
    const dt_tree_reduction *reductions; /* [n] */
    const dt_over_shards *over_shards;   /* NULL: over microbatches, or copies. Of what is there already, `n` is 0, and it is the one reduction */
} dt_operation_reduce;

typedef struct dt_operation_transfer {
    int n;
    const dt_message *messages; /* [n] */
} dt_operation_transfer;

typedef struct dt_operation_all_reduce {
    dt_dtype dtype;
    void *data;
    size_t n; /* elements */
} dt_operation_all_reduce;

/* Collectives [first, first + n) of what the executor has published to its group. */
typedef struct dt_operation_collective {
    int first, n;
    int segment;
    int complete_after; /* of COMPLETE: those are complete of which the artifact says so, or less */
} dt_operation_collective;

/* Of COPY the source, of READ_BACK the target is host memory of the device (dt_device_allocate_host). */
typedef struct dt_operation_copy {
    void *target;
    const void *source;
    size_t bytes;
} dt_operation_copy;

typedef struct dt_operation {
    dt_operation_kind kind;
    int mark;    /* of what is beside: a number of its own in the sequence, from 1; JOIN: of the last that it waits for. 0: none, all */
    bool beside; /* after what is before it, while what follows runs, until JOIN. Those that are beside the rest run in their order. Of what devices
                    see REDUCE, TRANSFER and ALL_REDUCE may be */
    union {
        dt_operation_launch launch;
        dt_operation_reduce reduce;
        dt_operation_transfer transfer;
        dt_operation_all_reduce all_reduce;
        dt_operation_collective collective; /* from COLLECTIVE on */
        dt_operation_copy copy;             /* COPY and READ_BACK */
        struct dt_gate *gate;               /* ARRIVE, PASS and AWAIT */
    };
} dt_operation;

/* Operations that a device runs one after another, all together: launches, reductions, transfers, copies; but for those that are beside the rest. */
typedef struct dt_sequence {
    const char *name; /* of the function: for messages */
    size_t n_operations;
    const dt_operation *operations;
    void *prepared; /* the device's own; NULL until it is prepared */
} dt_sequence;

#endif
