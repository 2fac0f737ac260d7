/* group: what replicas exchange through.
 *
 * The ranks of a group hold the microbatches of all replicas in contiguous runs, in order. A member is one rank: an executor of this process. Members
 * that share memory form a domain; members of one process are led by the first of them. All members make the same calls in the same order.
 *
 * A collective is published once, before the first step: where each member leaves its part, and where it wants the result. The group then says what
 * this member has to do for it: reductions on its device's own queue, between two meetings. What comes out depends on the microbatches alone, never
 * on who holds them. What a process must know of all ranks beside that (bad indices, whether somebody failed or was told to stop) goes through
 * dt_group_combine.
 *
 * A group that fails stays failed: once a rank has aborted, or has not arrived within the deadline, every meeting of every rank returns DT_ABORTED
 * with the first reason. Nobody hangs. Threads: a member belongs to the thread of its executor, dt_group_abort may be called from any. */
#ifndef DT_RUNTIME_COMM_GROUP_H
#define DT_RUNTIME_COMM_GROUP_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"
#include "runtime/comm/microbatches.h"
#include "runtime/devices/reduce.h"

#include <stdint.h>

/* One collective of a segment, as a member has it. A row is whatever is split: `n` elements of it. */
typedef struct dt_collective_part {
    dt_collective_kind kind;
    dt_reduction_op combine; /* not of ALL_GATHER */
    dt_dtype dtype;
    size_t n;         /* ALL_REDUCE: elements; ALL_GATHER, REDUCE_SCATTER: elements of a row */
    const int *spans; /* [microbatches of this member] ALL_REDUCE: each source is the sum of so many, a subtree of the tree over all; 0: it is in a
                         sum before. NULL: each is one */
    void *const *sources; /* [microbatches of this member] ALL_GATHER: its own rows; REDUCE_SCATTER: all rows of the batch */
    int n_targets;
    void *const *targets; /* [n_targets] ALL_REDUCE; ALL_GATHER: of all rows; REDUCE_SCATTER: [microbatches of this member] its own rows. Neighbours
                             that share memory may name one target, at the same index: it is written once */
    const char *label;
} dt_collective_part;

/* Which step, for messages. */
typedef struct dt_step_context {
    const char *step;
    int64_t number;
    int segment;
} dt_step_context;

typedef enum dt_group_scope {
    DT_GROUP_ALL,    /* every member */
    DT_GROUP_DOMAIN, /* the members of this one's memory */
    DT_GROUP_LEADERS /* the first member of each process */
} dt_group_scope;

typedef DT_LIST(dt_tree_reduction) dt_tree_reductions;

typedef struct dt_group dt_group;

typedef struct dt_group_kind {
    const char *name;
    void (*publish)(dt_group *group, const dt_collective_part *parts);
    void (*lower)(dt_group *group, int first, int n, dt_arena *arena, dt_tree_reductions *reductions);
    dt_status *(*meet)(dt_group *group, dt_group_scope scope, const dt_step_context *context, const char *label);
    dt_status *(*gather)(dt_group *group, void *records, size_t bytes, const dt_step_context *context);
    void (*abort)(dt_group *group, const char *reason);
    void (*close)(dt_group *group);
} dt_group_kind;

struct dt_group { /* the head of every implementation's own struct */
    const dt_group_kind *kind;
    uint64_t id;                                              /* the same for all members, and of no other group of this process */
    int rank, n_ranks;                                        /* of this member; of all */
    int first_domain_rank, n_domain_ranks;                    /* the members that share its memory, this one included */
    int process, n_processes;                                 /* of this member; of all */
    int first_microbatch, n_microbatches, n_all_microbatches; /* of this member; of all */
    dt_microbatches rows;                                     /* where their rows are */
};

/* Says what this member leaves and takes: an array of all collectives of all functions, which stays where it is until the group is closed. */
static inline void dt_group_publish(dt_group *group, const dt_collective_part *parts) { group->kind->publish(group, parts); }

/* Appends what this member has to do for published parts [first, first + n), together: between a meeting before, when all sources are there, and one
 * behind, when all targets are. Sources are unchanged. What it allocates is of the arena. All members must have published: leaders meet before. */
static inline void dt_group_lower(dt_group *group, int first, int n, dt_arena *arena, dt_tree_reductions *reductions) {
    group->kind->lower(group, first, n, arena, reductions);
}

/* Returns when all members of `scope` have come here. What each wrote before, all see after. Of LEADERS alone: called by leaders. */
static inline dt_status *dt_group_meet(dt_group *group, dt_group_scope scope, const dt_step_context *context, const char *label) {
    return group->kind->meet(group, scope, context, label);
}

/* A record of each process to all of them: records [n_processes] of `bytes` each, of which this process's is filled in. Called by leaders. */
static inline dt_status *dt_group_gather(dt_group *group, void *records, size_t bytes, const dt_step_context *context) {
    return group->n_processes == 1 ? NULL : group->kind->gather(group, records, bytes, context);
}

/* This member cannot go on; `reason` is what the others' errors say. */
static inline void dt_group_abort(dt_group *group, const char *reason) { group->kind->abort(group, reason); }

/* How a process that holds a part of a group gets its members. */
typedef struct dt_group_entry {
    dt_status *(*join)(void *context, int rank, dt_group **group); /* as a dt_group that knows all ranks */
    void *context;
    int process, n_processes; /* all of them have as many ranks: process p those from p * ranks of a process on */
} dt_group_entry;

/* NULL is allowed. Every member closes its own, in any order, when no call is in progress. */
static inline void dt_group_close(dt_group *group) {
    if (group != NULL) group->kind->close(group);
}

#endif
