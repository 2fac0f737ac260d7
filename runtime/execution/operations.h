/* operations: a function of the program as one executor runs it: one list, made by the same code for every kind of device.
 *
 *     launch values and empty records of bad indices, from the host                 COPY, where the device does not read the host's memory
 *     for each segment:
 *         kernels that run once; in parts, one an executor of the memory domain,    LAUNCH, MEET
 *           where the compiler could divide them, else by its first executor
 *           what each process has written its share of, where they share out          COLLECTIVE
 *           what the central memory domain has written and others have too          COLLECTIVE
 *         of the microbatches of another one its part of kernels that have some     LAUNCH
 *         for each microbatch its kernels, then the sums that it completes          LAUNCH, REDUCE
 *           behind some of the kernels what combines its shards                     REDUCE, or START and WAIT
 *         for each kernel the last microbatches, which go through it together       LAUNCH
 *           where some of what crosses replicas is there after it                   COMPLETE
 *         what combines the shards of what is there once                            REDUCE
 *         what crosses replicas                                                     COLLECTIVE
 *     aggregates that no collective put with the others                             REDUCE
 *     records and aggregates, to the host                                           READ_BACK
 *
 * A segment's kernels all run on one microbatch before the next, each with launch values and memory of its own, as if it were a replica. What both
 * halves of a subtree have left is added at once (partial_sums.h), so that memory for partial sums grows with the logarithm of their number. But some
 * of the last ones may go through the segment together, kernel by kernel: the first sums are complete that much earlier, and cross while the rest is
 * computed.
 *
 * What combines the shards of a microbatch stands between two of its kernels. Where other processes have shards too it is a nonblocking collective of
 * the executor alone, in a part for each microbatch of this process, and microbatches go through the segment in pairs: one is computed up to such a
 * place, then the other, while that of the first is under way. A kernel in a loop over tensors is launched for each iteration, and in it one that is
 * sharded for each held shard, in their order. What crosses replicas does so for each shard by itself: a sharded collective is as many as there are
 * shards. */
#ifndef DT_RUNTIME_EXECUTION_OPERATIONS_H
#define DT_RUNTIME_EXECUTION_OPERATIONS_H

#include "runtime/comm/group.h"
#include "runtime/execution/memory.h"

/* An argument that is an input which the device reads where the host has it. */
typedef struct dt_input_argument {
    void **argument;
    int input;
    int64_t offset; /* of the microbatch's first row, in bytes, from the first row of this process */
} dt_input_argument;

/* What the host has of the memory that it shares with a device which does not read the host's; all NULL for one that does. */
typedef struct dt_host_exchange {
    char *down; /* launch values, then empty records */
    char *up;   /* records, then aggregates */
} dt_host_exchange;

/* Of whom the lists are. */
typedef struct dt_operations_options {
    const dt_executor_memory *memory;
    const dt_kernels *kernels;       /* whose functions a device that reads the host's memory runs; else NULL */
    int part;                        /* of kernels that run once: this executor's */
    const dt_executor_memory *helps; /* of one without microbatches: the executor whose kernels it runs parts of; NULL: none */
    const dt_launch *helping;        /* [its microbatches] their launch values */
    bool leads;                      /* of its process: aggregates are read from it */
    bool looks;                      /* for what is not finite, operation by operation */
    int64_t first_row;               /* of this process, in the global batch */
    dt_host_exchange host;
} dt_operations_options;

typedef struct dt_operations {
    DT_LIST(dt_operation) list;
    DT_LIST(dt_input_argument) inputs;
} dt_operations;

/* Whether lists for so many microbatches are not too long for memory, or for a graph of a GPU. */
dt_status *dt_operations_check(const dt_artifact *artifact, bool is_gpu, int n_microbatches);

/* Bytes of the host's memory that such lists take, without what is there once for all microbatches. */
int64_t dt_operations_bytes(const dt_artifact *artifact, int n_microbatches);

/* The collectives of all functions that the memory is for, in their order, and how many there are before those of each function, and in all
 * (first [n_functions + 1]). */
const dt_collective_part *dt_operations_collectives(const dt_operations_options *options, int wanted, dt_arena *arena, int *first);

/* The list of `function`, whose first collective is number `first_collective`, with inputs of slot `slot`. */
dt_operations dt_operations_of(const dt_operations_options *options, int function, int first_collective, int slot, dt_arena *arena);

#endif
