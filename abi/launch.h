/* launch: what a compiled kernel is called with.
 *
 * A kernel is   void kernel(void *const *buffers, const dt_launch *launch);
 * `buffers` are its arguments in the order of the plan ("buffers" of the kernel in manifest.json). No kernel constant depends on the number of
 * replicas, the global batch, or the rows that are valid: they are read here, so that a short last batch or another number of replicas needs
 * no compilation. A replica's rows are run in microbatches.
 * One dt_launch a microbatch (and one a core for kernels that run once); the runtime fills it before each step.
 *
 * A kernel that runs once may be divided ("divided" in manifest.json): it is called n_parts times, in any order or at once, and each call does its
 * part of the work. So may one that replicas run: of that all parts run at the same time, and call `meeting` where they have to wait for one another,
 * unless there is one part. Other kernels read none of these fields, and those of GPUs do not: one call does all parts.
 *
 * Of a kernel that runs once a caller may leave out results, whose buffers are then NULL: nests are skipped whose first result nobody wants ("nests"
 * in manifest.json).
 *
 * Where processes share out an update (share.h), such a kernel does share `share` of `n_shares` of the nests that this is for, and its part of that.
 */
#ifndef DT_ABI_LAUNCH_H
#define DT_ABI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name in the IR's `launch` op, C type, IR dtype, meaning).  The order is the layout: 8 bytes a field. */
#define DT_LAUNCH_FIELDS(X)                                                                                                                          \
    X(rows, int64_t, I64, "valid rows of this microbatch in this step, 0 to the rows it was dealt")                                                  \
    X(row_offset, int64_t, I64, "global index of its first row: replica * rows_per_replica + rows of the microbatches before it")                    \
    X(valid, int64_t, I64, "valid rows of the whole global batch in this step")                                                                      \
    X(global_batch, int64_t, I64, "rows of a full global batch: replicas * rows_per_replica")                                                        \
    X(replicas, int64_t, I64, "V, the number of replicas")                                                                                           \
    X(epochs, int64_t, I64, "epochs asked for")                                                                                                      \
    X(steps_per_epoch, int64_t, I64, "steps of a full epoch")                                                                                        \
    X(counter, int64_t, I64, "training step number from 0; in other steps the number of the batch; in pipelines the example")                        \
    X(seed, int64_t, I64, "seed of the run; in pipelines hashed with the epoch")                                                                     \
    X(shard, int64_t, I64, "which logical shard of the model (mesh model = M) this call is for, from 0; 0 where there is one")

/* DT_LAUNCH_rows, …: the number of each field, as the kernel form knows it. */
typedef enum dt_launch_field {
#define X(name, type, dtype, meaning) DT_LAUNCH_##name,
    DT_LAUNCH_FIELDS(X)
#undef X
    DT_N_LAUNCH_FIELDS
} dt_launch_field;

/* Indices out of range since it was last cleared, one record a microbatch: how many, and the first of them. That is the one of the lowest row, of
 * that row at the lowest location, there the lowest value: which one it is depends on the data alone, not on the order of kernels and threads. */
typedef struct dt_bad_index {
    int64_t count;
    int64_t value;    /* of the first one */
    int64_t row;      /* global row (example) of the first one, or -1 */
    int64_t location; /* which index expression of the program: "locations" of the manifest names file, line and column */
    int64_t limit;    /* the extent that it had to be below */
    int64_t state;    /* how threads of a GPU keep out of one another's way; cleared with the rest, and of no meaning elsewhere */
    int64_t loop;     /* 1 + the iteration of the innermost loop that the first one is in; 0: in none. A core's kernels leave it to the device */
} dt_bad_index;

/* Whether `one`, of a count of 1 or more, comes before what `all` has recorded. */
static inline bool dt_bad_index_is_first(const dt_bad_index *one, const dt_bad_index *all) {
    if (all->count == 0 || one->row != all->row) return all->count == 0 || one->row < all->row;
    return one->location != all->location ? one->location < all->location : one->value < all->value;
}

/* Whether both have the same first one. */
static inline bool dt_bad_index_is_same(const dt_bad_index *one, const dt_bad_index *other) {
    return one->row == other->row && one->location == other->location && one->value == other->value && (one->count > 0) == (other->count > 0);
}

/* Adds what `one` has counted to `all`. */
static inline void dt_bad_index_add(dt_bad_index *all, const dt_bad_index *one) {
    int64_t count = all->count + one->count;
    if (one->count > 0 && dt_bad_index_is_first(one, all)) *all = *one;
    all->count = count;
}

/* Who runs parts of a kernel at the same time. `meet` returns when it has been called by each of them. */
typedef struct dt_meeting {
    void (*meet)(struct dt_meeting *meeting);
} dt_meeting;

typedef struct dt_launch {
#define X(name, type, dtype, meaning) type name;
    DT_LAUNCH_FIELDS(X)
#undef X
    dt_bad_index *bad_index; /* never NULL */
    int64_t part, n_parts;   /* 0 <= part < n_parts */
    int64_t share, n_shares; /* 0 <= share < n_shares; 0 of 1: all of it */
    dt_meeting *meeting;     /* of the parts of a kernel that replicas run; NULL where there is one */
    int64_t *timers; /* of who runs the kernel: cycles of each timer, then how often it was read, side by side; NULL where kernels have none */
} dt_launch;

typedef void (*dt_kernel_entry)(void *const *buffers, const dt_launch *launch);

#endif
