/* transport: how the processes of a run move bytes to one another.
 *
 * An implementation moves bytes: what is sent when, what is made of it, deadlines and what errors say is above it (processes.h), so that no engine's
 * algorithm can change a bit; but for all_reduce, for those who asked for it. Processes are numbered from 0; all of them open the transport, and
 * close it. Threads: one makes all calls, from open to close, and is the only one that ever calls the engine. */
#ifndef DT_RUNTIME_COMM_TRANSPORT_H
#define DT_RUNTIME_COMM_TRANSPORT_H

#include "abi/dtype.h"
#include "abi/manifest.h"
#include "base/status.h"
#include "runtime/devices/link.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_MOST_ROUNDS = 1024,   /* that may be under way at a time */
    DT_NOTICE_BYTES = 1024,  /* of a notice */
    DT_EARLY_BYTES = 1 << 20 /* of dt_transport.most_early_bytes, before anything is known of what will be exchanged: records (processes.h) */
};

typedef struct dt_transport dt_transport;

typedef struct dt_transport_kind {
    const char *name; /* "Open MPI" */

    /* Starts all messages of a round; they are under way together. What two processes send each other under one tag arrives in the order of starting;
     * other tags do not mix with it. tag: 0 to 2^15 - 1. *round: which of at most DT_MOST_ROUNDS it is, until it is done. */
    dt_status *(*start)(dt_transport *transport, int tag, const dt_message *messages, int n, int *round);
    /* Moves all that is under way on: what `test` and `listen` then say is as it was found here. Never waits. */
    dt_status *(*progress)(dt_transport *transport);
    /* Whether the round is done, and so free for another. */
    dt_status *(*test)(dt_transport *transport, int round, bool *done);
    /* Returns when there may be something to find for `progress`, after some time, or when somebody calls `wake`, which any thread may. NULL: the
     * engine cannot wait, and is asked again and again. */
    dt_status *(*wait)(dt_transport *transport, double seconds);
    void (*wake)(dt_transport *transport);
    /* Starts a round in which n elements of all processes become their sum, added up as the engine likes. All processes start these in the same
     * order. Of f32, f64, i32 and i64. NULL: the engine has none. */
    dt_status *(*all_reduce)(dt_transport *transport, dt_dtype dtype, void *data, size_t n, int *round);

    /* A notice passes by all messages: to one process, or from whoever sent one (*peer: -1 where nobody has). Notices of one process arrive in order.
     * Sending never waits for the receiver. */
    dt_status *(*notify)(dt_transport *transport, int peer, const void *notice, size_t bytes);
    dt_status *(*listen)(dt_transport *transport, int *peer, void *notice, size_t *bytes); /* notice [DT_NOTICE_BYTES] */

    /* Ends all processes of the run with this exit status, and may not return. For when they can no longer be asked. The transport stays: somebody
     * may still wake it. */
    void (*abort)(dt_transport *transport, int exit_status);
    /* All processes close it, when nothing is under way; returns when all have. */
    void (*close)(dt_transport *transport);
} dt_transport_kind;

struct dt_transport { /* the head of every implementation's own struct */
    const dt_transport_kind *kind;
    int process, n_processes;
    uint64_t epoch;        /* of the membership: another one where other processes take part, or the same again; 0 where nobody comes and goes */
    int n_servers;         /* 0, or how many of them, the first ones, are parameter servers (microbatches.h) */
    int member, n_members; /* n_members > 0: this one of so many agree with one another, and tell one another how they are; the
                              others come and go, and the transport itself sees to it that nobody waits for those who are gone. 0:
                              all processes do */
    int process_of_host, n_processes_of_host; /* among those of this machine */
    char version[64];                         /* of the engine: "Open MPI 4.1.4" */
    uint64_t n_sent_bytes;                    /* of messages, since it was opened */
    _Atomic uint64_t most_early_bytes; /* of messages of one process that this one has not asked for yet: what an engine keeps, that has to keep
                                          them itself. processes.h raises it */
};

/* Among those that agree with one another. */
static inline int dt_transport_member(const dt_transport *transport) { return transport->n_members > 0 ? transport->member : transport->process; }
static inline int dt_transport_n_members(const dt_transport *transport) {
    return transport->n_members > 0 ? transport->n_members : transport->n_processes;
}

static inline dt_status *dt_transport_start(dt_transport *transport, int tag, const dt_message *messages, int n, int *round) {
    return transport->kind->start(transport, tag, messages, n, round);
}
static inline dt_status *dt_transport_progress(dt_transport *transport) { return transport->kind->progress(transport); }
static inline dt_status *dt_transport_test(dt_transport *transport, int round, bool *done) { return transport->kind->test(transport, round, done); }
static inline dt_status *dt_transport_notify(dt_transport *transport, int peer, const void *notice, size_t bytes) {
    return transport->kind->notify(transport, peer, notice, bytes);
}
static inline dt_status *dt_transport_listen(dt_transport *transport, int *peer, void *notice, size_t *bytes) {
    return transport->kind->listen(transport, peer, notice, bytes);
}
static inline void dt_transport_abort(dt_transport *transport, int exit_status) { transport->kind->abort(transport, exit_status); }
static inline void dt_transport_close(dt_transport *transport) {
    if (transport != NULL) transport->kind->close(transport);
}

#endif
