/* progress: what this process is doing, for whoever waits for it.
 *
 * Threads that work count what they get done, and say where they are; another thread reads it. A process whose counter stands still and that waits
 * for nobody is the one that all others wait for. Strings outlive the progress: they are the program's. */
#ifndef DT_RUNTIME_THREADS_PROGRESS_H
#define DT_RUNTIME_THREADS_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/* X(name, what a message says of it) */
#define DT_ACTIVITIES(X)                                                                                                                             \
    X(STARTING, "starting")                                                                                                                          \
    X(COMPUTING, "computing")                                                                                                                        \
    X(EXCHANGING, "exchanging")                                                                                                                      \
    X(WAITING, "waiting for other processes")                                                                                                        \
    X(READING, "waiting for data")                                                                                                                   \
    X(WRITING, "writing a checkpoint")                                                                                                               \
    X(APPLICATION, "the application's own work")                                                                                                     \
    X(ENDING, "ending")

typedef enum dt_activity {
#define X(name, text) DT_ACTIVITY_##name,
    DT_ACTIVITIES(X)
#undef X
} dt_activity;

typedef struct dt_progress { /* starts as {0} */
    _Atomic uint64_t n_done; /* kernels, batches, pieces of a checkpoint: whatever, one by one */
    _Atomic int activity;
    _Atomic int64_t number; /* of the step */
    _Atomic int segment;
    const char *_Atomic step;         /* its name; NULL: none yet */
    const char *_Atomic label;        /* of what crosses next or crossed last; NULL: nothing yet */
    _Atomic int n_shards;             /* of the model; 0: each process has the whole model, as far as is known */
    _Atomic int n_over, n_stages;     /* which so many processes each have some of, and some layers */
    _Atomic int process, n_processes; /* which process this is, of so many of the run */
} dt_progress;

/* Both take NULL, for whom nobody waits. */
static inline void dt_progress_count(dt_progress *progress) {
    if (progress != NULL) atomic_fetch_add_explicit(&progress->n_done, 1, memory_order_relaxed);
}
static inline void dt_progress_set(dt_progress *progress, dt_activity activity) {
    if (progress == NULL) return;
    atomic_store_explicit(&progress->activity, (int)activity, memory_order_relaxed);
    dt_progress_count(progress);
}

#endif
