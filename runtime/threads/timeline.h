/* timeline: what each thread of this process, and each queue of a device, did, and when: what `dtrun --timeline` writes (runtime/timeline_file.h).
 *
 * A thread records its spans in a ring of its own, which was allocated before: the newest are kept, as many as so many steps have. It waits for
 * nobody and shares nothing. Without a timeline a thread has no recorder: recording is then the look at a NULL. Strings of spans are the program's or
 * constants, and outlive the timeline. Threads: each recorder belongs to one; the rest is the main thread's. */
#ifndef DT_RUNTIME_THREADS_TIMELINE_H
#define DT_RUNTIME_THREADS_TIMELINE_H

#include "base/status.h"
#include "runtime/threads/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* X(name, what the file calls it) */
#define DT_SPAN_KINDS(X)                                                                                                                             \
    X(STEP, "step")                                                                                                                                  \
    X(KERNEL, "kernel")                                                                                                                              \
    X(REDUCE, "reduce")     /* sums of what microbatches and executors have */                                                                       \
    X(COPY, "copy")         /* between the memory of the host and of a device */                                                                     \
    X(ENQUEUE, "enqueue")   /* of all that a device does later */                                                                                    \
    X(WAIT, "wait")         /* for other threads, processes, the device or data */                                                                   \
    X(TRANSFER, "transfer") /* between devices of processes, by themselves */                                                                        \
    X(EXCHANGE, "exchange") /* between processes, by a thread; several at a time */                                                                  \
    X(DATA, "data")                                                                                                                                  \
    X(CHECKPOINT, "checkpoint")

typedef enum dt_span_kind {
#define X(name, text) DT_SPAN_##name,
    DT_SPAN_KINDS(X)
#undef X
} dt_span_kind;

typedef struct dt_span {
    double began, ended; /* dt_seconds_now */
    dt_span_kind kind;
    int segment;        /* with `step` */
    int tag;            /* of an exchange: the same in all processes */
    const char *name;   /* what was done */
    const char *detail; /* to what, or where in the program: "fashion_cnn.dt:14"; NULL: the name says it all */
    const char *step;   /* of which function, or data; NULL: of none */
    int64_t number;     /* of the step, or batch, from 0 */
    int64_t bytes;      /* 0: not said */
} dt_span;

typedef struct dt_recorder { /* of one thread */
    const char *name;
    int64_t n_added, capacity;
    dt_span *spans; /* [capacity] span i is at i % capacity */
    struct dt_recorder *next;
} dt_recorder;

typedef struct dt_timeline {
    int64_t n_steps;     /* to keep */
    int64_t n_steps_run; /* the main thread's */
    dt_recorder *first;  /* in the order in which they were added; the first one is the main thread's */
} dt_timeline;

/* With a recorder of the main thread. */
dt_status *dt_timeline_create(int64_t n_steps, dt_timeline **timeline);
void dt_timeline_destroy(dt_timeline *timeline); /* NULL is allowed */

/* A recorder that keeps `n_spans` for each step. Its name is copied. *recorder is NULL where there is no timeline. */
dt_status *dt_timeline_add_thread(dt_timeline *timeline, int64_t n_spans, dt_recorder **recorder, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* NULL where there is no timeline. */
static inline dt_recorder *dt_timeline_main(dt_timeline *timeline) { return timeline != NULL ? timeline->first : NULL; }

/* The oldest span that a recorder still has. */
static inline int64_t dt_recorder_first(const dt_recorder *recorder) {
    return recorder->n_added > recorder->capacity ? recorder->n_added - recorder->capacity : 0;
}

/* All of these take a NULL, and do nothing then. */
static inline double dt_recorder_now(const dt_recorder *recorder) { return recorder != NULL ? dt_seconds_now() : 0; }
static inline void dt_recorder_add(dt_recorder *recorder, dt_span span) {
    if (recorder != NULL) recorder->spans[recorder->n_added++ % recorder->capacity] = span;
}
/* One that ends now. */
static inline void dt_recorder_end(dt_recorder *recorder, dt_span span) {
    if (recorder == NULL) return;
    span.ended = dt_seconds_now();
    dt_recorder_add(recorder, span);
}

#endif
