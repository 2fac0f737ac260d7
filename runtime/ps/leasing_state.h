/* leasing_state: what the files of leasing share: leasing.c has the calls of the thread that runs the training, leasing_hear.c those of the
 * transport's thread. */
#ifndef DT_RUNTIME_PS_LEASING_STATE_H
#define DT_RUNTIME_PS_LEASING_STATE_H

#include "base/memory.h"
#include "runtime/ps/leasing.h"
#include "runtime/ps/team_state.h"
#include "runtime/threads/event.h"

#include <pthread.h>
#include <string.h>

/* ---- queues ---- */

/* An array that grows. */
#define DT_QUEUE(type)                                                                                                                               \
    struct {                                                                                                                                         \
        type *items;                                                                                                                                 \
        size_t n, capacity;                                                                                                                          \
    }
#define DT_QUEUE_ADD(queue, ...)                                                                                                                     \
    do {                                                                                                                                             \
        DT_TRY(dt_ps_leasing_make_room((void **)&(queue).items, sizeof *(queue).items, (queue).n, &(queue).capacity));                               \
        (queue).items[(queue).n++] = (__VA_ARGS__);                                                                                                  \
    } while (0)
#define DT_QUEUE_REMOVE(queue, i) memmove(&(queue).items[i], &(queue).items[(i) + 1], (--(queue).n - (size_t)(i)) * sizeof *(queue).items)

/* For one item more than the n that there are. */
dt_status *dt_ps_leasing_make_room(void **items, size_t item_bytes, size_t n, size_t *capacity);

/* ---- what both threads know ---- */

/* What a worker has pushed: that it is here, and to server 0 in how many other servers. */
typedef struct dt_ps_lease_hold {
    uint64_t id;     /* of the worker */
    int64_t peer;    /* its; -1: it has not pushed here yet */
    int key;         /* then: of what it has sent, in the mailbox */
    uint32_t worker; /* in the book */
    int64_t epoch, batch, rows;
    int n_others;
    bool is_known; /* to the book */
} dt_ps_lease_hold;

/* What a server is to do next. */
typedef struct dt_ps_lease_task {
    enum {
        DT_PS_LEASE_APPLY,
        DT_PS_LEASE_END,
        DT_PS_LEASE_GIVE,      /* the variables to a worker */
        DT_PS_LEASE_GIVE_ROWS, /* that it names */
        DT_PS_LEASE_COMPARE,   /* what it has read */
        DT_PS_LEASE_WRONG      /* what it says of it: the run fails, unless it has read something else */
    } what;
    int key;
    int64_t peer;
    uint64_t id; /* of the worker */
    dt_ps_order order;
    dt_ps_message asked; /* of rows: which; of the last two: what it has said. Its payload is the task's */
} dt_ps_lease_task;

/* A worker that wants the variables, and how many servers have heard so. */
typedef struct dt_ps_lease_pull {
    uint64_t id;
    int n_servers;
} dt_ps_lease_pull;

/* A lease whose examples server 0 has compared: it may be applied. */
typedef struct dt_ps_lease_compared {
    uint64_t id; /* of the worker */
    int64_t epoch, batch;
} dt_ps_lease_compared;

typedef struct dt_ps_lease_letter {
    int64_t peer;
    dt_ps_message message;
} dt_ps_lease_letter;

struct dt_ps_leasing {
    pthread_mutex_t lock;                 /* of all that follows, but what is the transport's thread's own */
    dt_event changed;                     /* for the thread that runs the training */
    DT_QUEUE(dt_ps_lease_letter) letters; /* that the transport's thread is to send */
    dt_ps_run_terms terms;
    bool has_terms;

    /* servers */
    dt_ps_leases *book; /* of server 0 */
    int n_untold;       /* workers that do not know the terms */
    DT_QUEUE(dt_ps_lease_task) tasks;
    DT_QUEUE(dt_ps_lease_task) waiting; /* rows to be given, until a lease of the worker's is applied here */
    dt_ps_examples_check check;         /* of server 0 */
    DT_QUEUE(dt_ps_lease_compared) compared;
    DT_QUEUE(uint64_t) refused;   /* workers that have read something else */
    bool has_compared;            /* since the transport's thread has looked */
    bool is_open, is_to_dispatch; /* of server 0: a range; what it can say to workers may have changed */
    int64_t n_ignored;            /* of server 0: indices in leases that were applied, of which nobody has asked yet */
    int n_workers;                /* there */
    double deserted_since;        /* when there was none any more */
    int current_key;              /* of the worker whose lease is applied: of what it has sent, */
    int64_t current_peer;         /* and to whom the variables go; -1: to nobody */
    uint64_t current_id;          /* who it is */
    int trained;                  /* its step, of which it has not got all variables yet; -1: it has */
    int step;                     /* of the range, where it trains; else -1 */
    /* the transport's thread's own */
    DT_QUEUE(dt_ps_lease_hold) holds;
    DT_QUEUE(uint32_t) askers;
    DT_QUEUE(dt_ps_lease_pull) pulls; /* of server 0 */
    int last_key;
    double looked;     /* last: how workers get on; of a worker: at itself, */
    uint64_t n_done;   /* whose counter stood there then, */
    double progressed; /* and since when */

    /* workers */
    DT_QUEUE(dt_ps_lease) leases;
    DT_QUEUE(dt_ps_message) variables;
    DT_QUEUE(dt_ps_lease_letter) rows; /* from whom */
    int n_pulled;                      /* servers that have given all of theirs */
    bool is_over, is_to_push, has_finished;
    dt_progress *progress; /* of this process; NULL: nothing is known of it yet */
    dt_ps_pushed pushed;   /* what is said when a lease has been sent */
    int64_t epoch, batch;  /* applied last */
};

/* By the transport's thread, again and again: workers say how they get on, and server 0 takes the leases of those that do not. The lock is held. */
dt_status *dt_ps_leasing_watch(dt_ps_team *team);

static inline void dt_ps_leasing_lock(struct dt_ps_leasing *leasing) { pthread_mutex_lock(&leasing->lock); }
static inline void dt_ps_leasing_unlock(struct dt_ps_leasing *leasing) { pthread_mutex_unlock(&leasing->lock); }

#endif
