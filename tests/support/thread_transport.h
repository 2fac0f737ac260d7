/* thread_transport: a transport between threads of one process, so that what runs over processes is tested without any engine. A send copies its
 * bytes into the receiver's mailbox; a receive takes the first of its sender and tag. */
#ifndef DT_TESTS_SUPPORT_THREAD_TRANSPORT_H
#define DT_TESTS_SUPPORT_THREAD_TRANSPORT_H

#include "runtime/comm/transport.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct thread_network thread_network;

/* Of process `process`; each opens it once. What an opener is given: */
typedef struct thread_network_end {
    thread_network *network;
    int process;
} thread_network_end;

enum {
    NOTICE_TAG = -1
};

typedef struct letter {
    struct letter *next;
    int from, tag;
    size_t n;
    char bytes[];
} letter;

struct thread_network {
    pthread_mutex_t lock;
    int n, n_servers;
    letter **boxes;         /* [n] */
    bool *is_cut;           /* [n] */
    dt_transport **aborted; /* [n] */
};

typedef struct thread_round {
    dt_message *open; /* receives that have not come */
    int n_open, tag;
    bool is_used;
} thread_round;

typedef struct end {
    dt_transport transport;
    thread_network *network;
    thread_round rounds[DT_MOST_ROUNDS];
} end;

static void post(end *self, int to, int tag, const void *bytes, size_t n) {
    thread_network *network = self->network;
    letter *made = malloc(sizeof *made + n);
    *made = (letter){.from = self->transport.process, .tag = tag, .n = n};
    if (n > 0) memcpy(made->bytes, bytes, n);
    pthread_mutex_lock(&network->lock);
    letter **link = &network->boxes[to];
    while (*link != NULL) link = &(*link)->next;
    if (network->is_cut[self->transport.process] || network->is_cut[to])
        free(made);
    else
        *link = made;
    pthread_mutex_unlock(&network->lock);
}

static letter *take(end *self, int from, int tag) {
    thread_network *network = self->network;
    pthread_mutex_lock(&network->lock);
    letter **link = &network->boxes[self->transport.process];
    while (*link != NULL && ((*link)->tag != tag || (from >= 0 && (*link)->from != from))) link = &(*link)->next;
    letter *found = *link;
    if (found != NULL) *link = found->next;
    pthread_mutex_unlock(&network->lock);
    return found;
}

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *number) {
    end *self = (end *)transport;
    for (*number = 0; self->rounds[*number].is_used; ++*number)
        if (*number == DT_MOST_ROUNDS - 1) return dt_error(DT_INTERNAL, "too many rounds");
    thread_round *made = &self->rounds[*number];
    *made = (thread_round){.is_used = true, .tag = tag, .open = malloc((size_t)(n + 1) * sizeof *made->open)};
    for (int m = 0; m < n; m++) {
        if (messages[m].sends) {
            post(self, messages[m].peer, tag, messages[m].data, messages[m].bytes);
            transport->n_sent_bytes += messages[m].bytes;
        } else {
            made->open[made->n_open++] = messages[m];
        }
    }
    return NULL;
}

/* Letters lie in boxes until they are taken. */
static dt_status *progress(dt_transport *transport) {
    (void)transport;
    return NULL;
}

static dt_status *test(dt_transport *transport, int number, bool *done) {
    end *self = (end *)transport;
    thread_round *one = &self->rounds[number];
    int n = one->n_open;
    bool *is_behind = calloc((size_t)transport->n_processes, sizeof *is_behind); /* of a sender what comes later has to wait */
    one->n_open = 0;
    for (int m = 0; m < n; m++) {
        dt_message wanted = one->open[m];
        letter *found = is_behind[wanted.peer] ? NULL : take(self, wanted.peer, one->tag);
        if (found == NULL) {
            is_behind[wanted.peer] = true;
            one->open[one->n_open++] = wanted;
            continue;
        }
        bool fits = found->n == wanted.bytes;
        if (fits && wanted.bytes > 0) memcpy(wanted.data, found->bytes, wanted.bytes);
        free(found);
        if (!fits) {
            free(is_behind);
            return dt_error(DT_INTERNAL, "process %d sends other bytes than process %d takes", wanted.peer, transport->process);
        }
    }
    free(is_behind);
    *done = one->n_open == 0;
    if (*done) {
        free(one->open);
        one->is_used = false;
    }
    return NULL;
}

static dt_status *notify(dt_transport *transport, int peer, const void *notice, size_t bytes) {
    post((end *)transport, peer, NOTICE_TAG, notice, bytes);
    return NULL;
}

static dt_status *listen(dt_transport *transport, int *peer, void *notice, size_t *bytes) {
    letter *found = take((end *)transport, -1, NOTICE_TAG);
    *peer = found != NULL ? found->from : -1;
    *bytes = found != NULL ? found->n : 0;
    if (found != NULL) memcpy(notice, found->bytes, found->n);
    free(found);
    return NULL;
}

static void close_end(dt_transport *transport) {
    end *self = (end *)transport;
    for (int r = 0; r < DT_MOST_ROUNDS; r++)
        if (self->rounds[r].is_used) free(self->rounds[r].open);
    free(self);
}

static void abort_end(dt_transport *transport, int exit_status) {
    (void)exit_status;
    ((end *)transport)->network->aborted[transport->process] = transport;
}

static const dt_transport_kind threads = {.name = "threads",
                                          .start = start,
                                          .progress = progress,
                                          .test = test,
                                          .notify = notify,
                                          .listen = listen,
                                          .abort = abort_end,
                                          .close = close_end};

/* For n processes; freed when all have closed. */
static inline thread_network *thread_network_create(int n_processes) {
    thread_network *made = calloc(1, sizeof *made);
    pthread_mutex_init(&made->lock, NULL);
    made->n = n_processes;
    made->boxes = calloc((size_t)n_processes, sizeof *made->boxes);
    made->is_cut = calloc((size_t)n_processes, sizeof *made->is_cut);
    made->aborted = calloc((size_t)n_processes, sizeof *made->aborted);
    return made;
}

static inline void thread_network_free(thread_network *network) {
    for (int p = 0; p < network->n; p++) {
        for (letter *one = network->boxes[p], *next; one != NULL; one = next) {
            next = one->next;
            free(one);
        }
        if (network->aborted[p] != NULL) close_end(network->aborted[p]);
    }
    pthread_mutex_destroy(&network->lock);
    free(network->boxes);
    free(network->is_cut);
    free(network->aborted);
    free(network);
}

/* A dt_processes_options.open: the context is a thread_network_end. */
static inline dt_status *thread_transport_open(void *context, dt_transport **transport) {
    const thread_network_end *where = context;
    end *made = calloc(1, sizeof *made);
    made->network = where->network;
    made->transport = (dt_transport){.kind = &threads,
                                     .process = where->process,
                                     .n_processes = where->network->n,
                                     .n_servers = where->network->n_servers,
                                     .n_processes_of_host = 1, /* each is taken to be on a machine of its own */
                                     .version = "threads"};
    *transport = &made->transport;
    return NULL;
}

/* From now on nothing comes from this process, and nothing gets there: as if its wire were cut. */
static inline void thread_network_cut(thread_network *network, int process) {
    pthread_mutex_lock(&network->lock);
    network->is_cut[process] = true;
    pthread_mutex_unlock(&network->lock);
}

#endif
