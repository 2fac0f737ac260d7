/* comm: what crosses replicas.
 *
 * The ranks of a group are the cores of its devices; they hold the leaves (the blocks of rows of all replicas) in contiguous runs, in order. All
 * ranks make the same calls in the same order. What comes out depends on the leaves alone, never on how many ranks hold them (runtime/comm/fold.h).
 *
 * A group that fails stays failed: once a rank has aborted, or has not arrived within the deadline, every call of every rank returns DT_ABORTED with
 * the first reason. Nobody hangs. Threads: a dt_comm belongs to the thread of its rank, dt_comm_abort may be called from any. */
#ifndef DT_RUNTIME_COMM_COMM_H
#define DT_RUNTIME_COMM_COMM_H

#include "runtime/artifact.h"

/* One collective of a segment. A row is whatever is split: `n` elements of it. */
typedef struct dt_comm_part {
    dt_collective_kind kind;
    dt_fold fold; /* not of ALL_GATHER */
    dt_dtype dtype;
    size_t n;         /* ALL_REDUCE: elements; ALL_GATHER, REDUCE_SCATTER: elements of a row */
    const int *spans; /* [leaves of this rank] ALL_REDUCE: each source is the sum of so many leaves, a subtree of the tree over all; 0: the leaf
                         is in a sum before it. NULL: each is one leaf */
    const void *const *sources; /* [leaves of this rank] ALL_GATHER: its own rows; REDUCE_SCATTER: all rows of the batch */
    void *const *targets;       /* ALL_REDUCE: [1]; ALL_GATHER: [1], all valid rows; REDUCE_SCATTER: [leaves of this rank], its own rows. Neighbouring
                                   ranks that share memory may name one target: it is written once */
    const char *label;
} dt_comm_part;

/* When an exchange happens, and where rows are. Valid rows come first: replica r holds rows [r * rows, (r + 1) * rows) as far as they are valid, in
 * `blocks` leaves of block_rows each, the last ones shorter or empty. */
typedef struct dt_comm_moment {
    const char *step; /* its name, for messages */
    int64_t number;   /* of the step */
    int segment;
    int64_t rows, blocks, block_rows, valid;
} dt_comm_moment;

typedef struct dt_comm dt_comm;

typedef struct dt_comm_kind {
    const char *name;
    dt_status *(*exchange)(dt_comm *comm, const dt_comm_part *parts, int n_parts, const dt_comm_moment *moment);
    dt_status *(*broadcast)(dt_comm *comm, int root, void *data, size_t bytes, const dt_comm_moment *moment);
    dt_status *(*barrier)(dt_comm *comm, const dt_comm_moment *moment);
    void (*abort)(dt_comm *comm, const char *reason);
    void (*close)(dt_comm *comm);
} dt_comm_kind;

struct dt_comm { /* the head of every implementation's own struct */
    const dt_comm_kind *kind;
    int rank, n_ranks;
    int n_all_leaves, first_leaf, n_leaves; /* of the group; of this rank */
};

/* Leaves of rank r: [first, first of r + 1). As even as can be. n_ranks <= n_leaves. */
static inline int dt_comm_first_leaf(int rank, int n_ranks, int n_leaves) { return (int)((int64_t)rank * n_leaves / n_ranks); }

/* Global index of the first row of `leaf`; of one that is always empty it is the next replica's first or beyond. */
static inline int64_t dt_comm_first_row(int leaf, const dt_comm_moment *moment) {
    return leaf / moment->blocks * moment->rows + leaf % moment->blocks * moment->block_rows;
}

/* The rows of `leaf` that are valid. */
static inline int64_t dt_comm_valid_rows(int leaf, const dt_comm_moment *moment) {
    int64_t first = dt_comm_first_row(leaf, moment), end = (leaf / moment->blocks + 1) * moment->rows; /* of its replica */
    if (end > first + moment->block_rows) end = first + moment->block_rows;
    if (end > moment->valid) end = moment->valid;
    return end > first ? end - first : 0;
}

/* All collectives of a segment, together. Sources are unchanged; when it returns the targets are complete and the sources may be written again. */
static inline dt_status *dt_comm_exchange(dt_comm *comm, const dt_comm_part *parts, int n_parts, const dt_comm_moment *moment) {
    return comm->kind->exchange(comm, parts, n_parts, moment);
}

/* `bytes` of rank `root` into `data` of all others. */
static inline dt_status *dt_comm_broadcast(dt_comm *comm, int root, void *data, size_t bytes, const dt_comm_moment *moment) {
    return comm->kind->broadcast(comm, root, data, bytes, moment);
}

static inline dt_status *dt_comm_barrier(dt_comm *comm, const dt_comm_moment *moment) { return comm->kind->barrier(comm, moment); }

/* This rank cannot go on; `reason` is what the others' errors say. */
static inline void dt_comm_abort(dt_comm *comm, const char *reason) { comm->kind->abort(comm, reason); }

/* NULL is allowed. Every rank closes its own, in any order, when no call is in progress. */
static inline void dt_comm_close(dt_comm *comm) {
    if (comm != NULL) comm->kind->close(comm);
}

#endif
