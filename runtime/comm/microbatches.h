/* microbatches: where the rows of the global batch are.
 *
 * Replica r of V holds rows [r * rows, (r + 1) * rows), in microbatches of microbatch_rows each, the last ones shorter or empty: rows that go through
 * a segment together. All microbatches in order are the leaves of the tree that sums follow (runtime/devices/reduce.h). Members of a group hold them
 * in contiguous runs, so that who holds which changes no bit. In a short batch the valid rows come first. */
#ifndef DT_RUNTIME_COMM_MICROBATCHES_H
#define DT_RUNTIME_COMM_MICROBATCHES_H

#include <stdbool.h>
#include <stdint.h>

/* The processes of a run. Each holds a run of the microbatches, and owns a share of what is shared out. Where there are parameter servers, these, the
 * first n_servers processes, own all shares and hold no microbatch; the workers after them hold all microbatches and own nothing. */
typedef struct dt_process_roles {
    int n_processes, n_servers;
    int process;        /* this one */
    int stride, offset; /* where they are some of the run's processes: see dt_process_rank. stride 0: they are all of them */
} dt_process_roles;

/* Which of the run's processes one of these is. */
static inline int dt_process_rank(dt_process_roles roles, int process) { return roles.stride > 0 ? process * roles.stride + roles.offset : process; }

static inline int dt_process_n_workers(dt_process_roles roles) { return roles.n_processes - roles.n_servers; } /* that hold microbatches */
static inline int dt_process_n_owners(dt_process_roles roles) { return roles.n_servers > 0 ? roles.n_servers : roles.n_processes; }

static inline bool dt_process_holds(dt_process_roles roles, int process) { return process >= roles.n_servers; } /* microbatches */
static inline bool dt_process_owns(dt_process_roles roles, int process) { return process < dt_process_n_owners(roles); }

/* A process owns what lies between its own bound and that of the next process, of n_owners equal shares: bounds are 0 to n_owners. */
static inline int dt_process_bound(dt_process_roles roles, int process) {
    return process < dt_process_n_owners(roles) ? process : dt_process_n_owners(roles);
}

typedef struct dt_microbatches {
    int64_t rows;            /* n of each replica */
    int64_t per_replica;     /* microbatches */
    int64_t microbatch_rows; /* at most */
} dt_microbatches;

/* Rows [first, end) of a global batch. */
typedef struct dt_row_range {
    int64_t first, end;
} dt_row_range;

/* Microbatches [first, end), of all. */
typedef struct dt_microbatch_range {
    int first, end;
} dt_microbatch_range;

/* Microbatches of rank r: [first, first of r + 1). As even as can be: of more ranks than microbatches, the last one of each run of them has one. */
static inline int dt_microbatches_first_of_rank(int rank, int n_ranks, int n_microbatches) { return (int)((int64_t)rank * n_microbatches / n_ranks); }

/* The same of a member of a group, of which the first n_idle hold none. */
static inline int dt_microbatches_first_of_member(int rank, int n_ranks, int n_idle, int n_microbatches) {
    return rank <= n_idle ? 0 : dt_microbatches_first_of_rank(rank - n_idle, n_ranks - n_idle, n_microbatches);
}

/* Those that a process holds, of n. A server's are none, after all others. There are as many microbatches as workers at least. */
static inline dt_microbatch_range dt_microbatches_of_process(dt_process_roles roles, int process, int n) {
    int worker = process - roles.n_servers, n_workers = dt_process_n_workers(roles);
    if (worker < 0) return (dt_microbatch_range){n, n};
    return (dt_microbatch_range){dt_microbatches_first_of_rank(worker, n_workers, n), dt_microbatches_first_of_rank(worker + 1, n_workers, n)};
}

/* Global index of the first row of microbatch m. */
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
 * empty. The ranges of all workers in order are the batch. */
static inline dt_row_range dt_microbatches_rows_of_process(const dt_microbatches *all, int64_t replicas, int process, dt_process_roles roles) {
    dt_microbatch_range own = dt_microbatches_of_process(roles, process, (int)(all->per_replica * replicas));
    return (dt_row_range){dt_microbatches_first_row(all, own.first), dt_microbatches_first_row(all, own.end)};
}

/* Of these rows those that are valid where the first `valid` of the whole batch are. */
static inline int64_t dt_row_range_valid(dt_row_range range, int64_t valid) {
    int64_t end = range.end < valid ? range.end : valid;
    return end > range.first ? end - range.first : 0;
}

#endif
