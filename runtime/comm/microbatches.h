/* microbatches: where the rows of the global batch are.
 *
 * Replica r of V holds rows [r * rows, (r + 1) * rows), in microbatches of microbatch_rows each, the last ones shorter or empty: rows that go through
 * a segment together. All microbatches in order are the leaves of the tree that sums follow (runtime/devices/reduce.h). Members of a group hold them
 * in contiguous runs, so that who holds which changes no bit. In a short batch the valid rows come first. */
#ifndef DT_RUNTIME_COMM_MICROBATCHES_H
#define DT_RUNTIME_COMM_MICROBATCHES_H

#include <stdint.h>

typedef struct dt_microbatches {
    int64_t rows;            /* n of each replica */
    int64_t per_replica;     /* microbatches */
    int64_t microbatch_rows; /* at most */
} dt_microbatches;

/* Rows [first, end) of a global batch. */
typedef struct dt_row_range {
    int64_t first, end;
} dt_row_range;

/* Microbatches of rank r: [first, first of r + 1). As even as can be. n_ranks <= n_microbatches. */
static inline int dt_microbatches_first_of_rank(int rank, int n_ranks, int n_microbatches) { return (int)((int64_t)rank * n_microbatches / n_ranks); }

/* The same of a member of a group, of which the first n_idle hold none. */
static inline int dt_microbatches_first_of_member(int rank, int n_ranks, int n_idle, int n_microbatches) {
    return rank <= n_idle ? 0 : dt_microbatches_first_of_rank(rank - n_idle, n_ranks - n_idle, n_microbatches);
}

/* Global index of the first row of microbatch m; of one that is always empty it is the next replica's first. */
static inline int64_t dt_microbatches_first_row(const dt_microbatches *all, int64_t m) {
    int64_t before = m % all->per_replica * all->microbatch_rows; /* in its replica */
    return m / all->per_replica * all->rows + (before < all->rows ? before : all->rows);
}

/* The rows of microbatch m of which `valid` of the whole batch are valid. */
static inline int64_t dt_microbatches_valid_rows(const dt_microbatches *all, int64_t m, int64_t valid) {
    int64_t first = dt_microbatches_first_row(all, m), end = (m / all->per_replica + 1) * all->rows; /* of its replica */
    if (end > first + all->microbatch_rows) end = first + all->microbatch_rows;
    if (end > valid) end = valid;
    return end > first ? end - first : 0;
}

/* The rows of microbatch m in a full batch. */
static inline int64_t dt_microbatches_rows(const dt_microbatches *all, int64_t m) { return dt_microbatches_valid_rows(all, m, INT64_MAX); }

/* The rows of the microbatches that process p holds, in a full batch of `replicas` replicas: may be none, where a replica's last microbatches are
 * empty. The ranges of all processes in order are the batch. n_processes <= microbatches of all replicas. */
static inline dt_row_range dt_microbatches_rows_of_process(const dt_microbatches *all, int64_t replicas, int process, int n_processes) {
    int n = (int)(all->per_replica * replicas);
    int first = dt_microbatches_first_of_rank(process, n_processes, n), end = dt_microbatches_first_of_rank(process + 1, n_processes, n);
    return (dt_row_range){dt_microbatches_first_row(all, first), dt_microbatches_first_row(all, end)};
}

/* Of these rows those that are valid where the first `valid` of the whole batch are. */
static inline int64_t dt_row_range_valid(dt_row_range range, int64_t valid) {
    int64_t end = range.end < valid ? range.end : valid;
    return end > range.first ? end - range.first : 0;
}

#endif
