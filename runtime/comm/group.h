/* group: what replicas exchange through.
 *
 * A process holds a contiguous run of the microbatches of all replicas, and deals them to its members, in order: each is an executor of this process.
 * The first ones may get none (dt_microbatches_first_of_member). All members make the same calls in the same order. What other processes hold, the
 * group gets from them (processes.h).
 *
 * A collective is published once, before the first step: where each member leaves its part, and where it wants the result. The group then says what
 * this member has to do for it on its device's own queue: reductions before and after what crosses processes, where there are others. What comes out
 * depends on the microbatches alone, never on who holds them.
 *
 * What crosses processes does so in buckets (buckets.h), in the order in which sources become complete, while members still compute: a member arrives
 * at a gate (gate.h) when its sources of a bucket are complete, and waits for nobody; once that is open each does its part of what is before,
 * whenever it comes by, and arrives at a second one, which begins the exchange. At the end all meet, do what is left, and take each bucket's results
 * when they are here.
 *
 * A group that fails stays failed: once a member has aborted, or has not arrived within the deadline, or another process has failed, every meeting of
 * every member returns DT_ABORTED with the first reason. Nobody hangs. Threads: a member belongs to the thread of its executor, dt_group_abort may be
 * called from any. */
#ifndef DT_RUNTIME_COMM_GROUP_H
#define DT_RUNTIME_COMM_GROUP_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"
#include "runtime/comm/exchange.h"
#include "runtime/comm/gate.h"
#include "runtime/comm/mesh.h"

#include <stdint.h>

enum {
    DT_NONBLOCKING_NOT_FIRST = -1,
    DT_NONBLOCKING_PLACES = 2 /* that nonblocking collectives take by turns, so that one is under way while another's results are used */
};

/* One collective of a segment, as a member has it. A row is whatever is split: `n` elements of it. Of what combines shards (SHARD_REDUCE) there is
 * one part for each microbatch of this process, or for what is there once: of that a member of each memory names sources, which are the same in all,
 * and a target. */
typedef struct dt_collective_part {
    dt_collective_kind kind;
    dt_reduction_op combine; /* not of ALL_GATHER */
    dt_dtype dtype;
    size_t n;         /* ALL_REDUCE: elements; ALL_GATHER, REDUCE_SCATTER: elements of a row */
    const int *spans; /* [microbatches of this member] ALL_REDUCE: each source is the sum of so many, a subtree of the tree over all; 0: it is in a
                         sum before. NULL: each is one */
    void *const *sources; /* [microbatches of this member] ALL_GATHER: its own rows; REDUCE_SCATTER: all rows of the batch. SHARD_REDUCE: [shards
                             that this process holds] */
    int n_targets;
    void *const *targets; /* [n_targets] ALL_REDUCE; ALL_GATHER: of all rows; REDUCE_SCATTER: [microbatches of this member] its own rows. Neighbours
                             that share memory may name one target, at the same index: it is written once */
    int complete_after;   /* when its sources are there, of those made together: the same number in all members, and greater for what is later */
    bool hands_over; /* ALL_GATHER: of what one member of each process has, all of it: `n` elements, of which it alone names a source. Others name a
                        target, or none. Nothing crosses processes, nor is made together with parts that do */
    const int64_t *shares; /* [processes + 1] process p has elements [shares[p], shares[p + 1]) of n. ALL_REDUCE: its targets get these alone;
                              ALL_GATHER: its target, the one there is, holds them before, and all of them after; members without it name
                              neither source nor target. NULL: nothing is shared out */
    dt_layout_needs needs; /* the same: others than these hold their own elements alone, before and after */
    int nonblocking;   /* it is one nonblocking collective with so many from this one on: members start it and wait for it later, and need not meet;
                          DT_NONBLOCKING_NOT_FIRST: it is one of those many; 0: it is made together with others, between two meetings. Of shares, in a
                          process that is one of several. Of an ALL_GATHER the source is a process's share where it keeps it, from its first element
                          on. Before any member starts one with sums, all have left theirs */
    int place;         /* of nonblocking sums: what was started last in this place is over before these start. From 0 on */
    dt_mesh_axis axis; /* among which processes it crosses; of SHARD_REDUCE it is MODEL */
    int member;        /* 0: it is of all members. Else of the one of rank member - 1 alone, who starts it and waits for it: others name neither
                          source nor target. Of what is nonblocking */
    int from;          /* of STAGES, an ALL_GATHER: stage `from` has all n elements, */
    uint64_t to;       /* and these stages, bit s is stage s, get them. All of these name one target: where it is, or is wanted. It is nonblocking */
    const char *label;
} dt_collective_part;

typedef DT_LIST(dt_tree_reduction) dt_tree_reductions;
typedef DT_LIST(dt_operation) dt_operation_list;

/* Of what crosses processes. */
typedef struct dt_group_bucket {
    int complete_after; /* of all its parts */
    dt_gate *complete;  /* where the member arrives when its sources are; NULL: nobody asks */
    dt_operation_list
        beside; /* from then on: sums of this process's microbatches, and where the device exchanges with others itself, all that follows */
    dt_operation_list behind; /* once members have met: waiting for the results, and copies of them */
    /* Of a nonblocking collective, the only bucket: beside starts it, behind waits for it. */
} dt_group_bucket;

/* What a member does for collectives that are made together. */
typedef struct dt_group_work {
    dt_operation_list operations; /* between two meetings: reductions */
    bool on_device;               /* the only member's device exchanges with other processes itself, and does so in the order of buckets */
    int n_buckets;                /* what crosses processes */
    dt_group_bucket *buckets;     /* [n_buckets] */
} dt_group_work;

typedef struct dt_group dt_group;

typedef struct dt_group_kind {
    const char *name;
    void (*publish)(dt_group *group, const dt_collective_part *parts, int n);
    dt_status *(*lower)(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work);
    size_t (*device_bytes)(const dt_group *group);
    void (*place)(dt_group *group, void *memory);
    dt_status *(*meet)(dt_group *group, const dt_step_context *context, const char *label);
    void (*abort)(dt_group *group, const char *reason);
    void (*close)(dt_group *group);
} dt_group_kind;

struct dt_group { /* the head of every implementation's own struct */
    const dt_group_kind *kind;
    uint64_t id;                                              /* the same for all members, and of no other group of this process */
    int rank, n_ranks;                                        /* of this member; of this process's */
    int first_microbatch, n_microbatches, n_all_microbatches; /* of this member; of all processes */
    dt_microbatches rows;                                     /* where their rows are */
};

/* Says what this member leaves and takes: an array [n] of all collectives of all functions, which stays where it is until the group is closed. */
static inline void dt_group_publish(dt_group *group, const dt_collective_part *parts, int n) { group->kind->publish(group, parts, n); }

/* What this member has to do for published parts [first, first + n), together. Sources are unchanged until the meeting behind, when all targets are
 * there; targets may be written from when the first source is complete, those of REDUCE_SCATTER from when all kernels before are done. What it
 * allocates is of the arena. All members must have published, and all lower in the same order, one after the other; the first call for a `first`
 * decides. */
static inline dt_status *dt_group_lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work) {
    return group->kind->lower(group, first, n, arena, work);
}

/* Memory of this member's device that what was lowered needs, for what crosses processes without the host; 0: none. Once it is placed, all is to be
 * lowered again. */
static inline size_t dt_group_device_bytes(const dt_group *group) { return group->kind->device_bytes(group); }
static inline void dt_group_place(dt_group *group, void *memory) { group->kind->place(group, memory); }

/* Returns when all members have come here. What each wrote before, all see after. */
static inline dt_status *dt_group_meet(dt_group *group, const dt_step_context *context, const char *label) {
    return group->kind->meet(group, context, label);
}

/* This member cannot go on; `reason` is what the others' errors say. */
static inline void dt_group_abort(dt_group *group, const char *reason) { group->kind->abort(group, reason); }

/* NULL is allowed. Every member closes its own, in any order, when no call is in progress. */
static inline void dt_group_close(dt_group *group) {
    if (group != NULL) group->kind->close(group);
}

#endif
