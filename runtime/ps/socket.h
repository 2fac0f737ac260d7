/* socket: the connections of a worker or a server, over ZeroMQ.
 *
 * A socket listens, or connects to servers, or both; those at the other ends are its peers. A connection begins with a hello and a welcome, by which
 * versions are agreed on and artifacts and settings compared, so that a peer that has joined is one of the same run. It is lost when the other end
 * dies, is silent for too long, or says what is no message; who connected connects again by itself, and joins anew. What a peer sends arrives whole
 * and in order, or its connection ends. Everything is bounded: peers, connections of which nobody knows whose they are (door.h), messages, what is
 * queued for a peer and from it.
 *
 * Threads: the one that opened it makes all calls. ZeroMQ has a thread of its own, which moves bytes and answers heartbeats: a peer that computes for
 * a long time is there, one that is stopped is not. */
#ifndef DT_RUNTIME_PS_SOCKET_H
#define DT_RUNTIME_PS_SOCKET_H

#include "runtime/ps/keys.h"
#include "runtime/ps/message.h"

typedef struct dt_ps_socket dt_ps_socket;

typedef struct dt_ps_socket_options {
    const char *listen;         /* "tcp://127.0.0.1:7000", "127.0.0.1:*": a port that the system chooses; "*:7000": on all networks; NULL: nowhere */
    const char *const *servers; /* [n_servers] to connect to, "host:7000": peers 0 to n_servers - 1 */
    int n_servers;
    dt_ps_hello hello;         /* what this process is; its versions are filled in */
    int most_peers;            /* that may be connected to it at a time; 0: 256; fewer where the process may not have enough descriptors */
    int most_strangers;        /* the same, who have not said who they are; 0: as many as peers */
    size_t most_payload_bytes; /* of a message; 0: 64 MiB. A longer one ends the connection */
    int most_queued;           /* messages for a peer, and from it; 0: 256. A peer for which more are queued is gone */
    double heartbeat_seconds;  /* 0: 0.5 */
    double silence_seconds;    /* after which a peer is gone; 0: 5 */
    const dt_ps_keys *keys;    /* all is encrypted, and only who is allowed may connect; they outlive the socket. NULL: all is plain */
    bool insecure;             /* beyond this machine without keys too */
} dt_ps_socket_options;

/* Returns at once: connections are made while the caller receives. Without keys only addresses of loopback are taken, unless `insecure`.
 * Errors: DT_NOT_FOUND: ZeroMQ is not installed; DT_INVALID_ARGUMENT: no address; DT_IO: the system does not give it; DT_RESOURCE_EXHAUSTED: memory,
 * or descriptors. */
dt_status *dt_ps_socket_open(const dt_ps_socket_options *options, dt_ps_socket **socket);
/* What is queued is sent, for at most that long; payloads that were given away are released. NULL is allowed. */
void dt_ps_socket_close(dt_ps_socket *socket, double seconds);

const char *dt_ps_socket_address(const dt_ps_socket *socket); /* "127.0.0.1:43211": where it listens, to be connected to; NULL: nowhere */

typedef enum dt_ps_event_kind {
    DT_PS_NOTHING, /* within the time, or a signal came */
    DT_PS_JOINED,  /* a peer: message.hello of who connected, message.welcome of a server that was connected to */
    DT_PS_MESSAGE, /* from a peer that has joined */
    DT_PS_GONE,    /* a peer that had joined; text: why. Nothing more comes from it */
    DT_PS_REFUSED  /* somebody here, or this process by a server: text. Nobody joins by it, and nobody is gone */
} dt_ps_event_kind;

typedef struct dt_ps_event {
    dt_ps_event_kind kind;
    uint32_t peer;         /* a number is never given twice but to a server that was connected to */
    dt_ps_message message; /* the caller releases its payload, whenever it likes */
    char text[1024];       /* "worker host7, pid 4711 (10.0.0.7): …" */
    bool is_final;         /* of DT_PS_REFUSED: by server `peer`, which is not connected to again: this process does not belong to its run */
} dt_ps_event;

/* The next thing that happens, within that time. */
dt_status *dt_ps_receive(dt_ps_socket *socket, double seconds, dt_ps_event *event);

/* This process has taken part in a run: a server that is of another run, by its version, artifact or settings, was started again wrongly, and may be
 * started once more. It is connected to again. */
void dt_ps_socket_outlast(dt_ps_socket *socket);

/* Ends the wait of whoever receives, or of the next who does. By any thread. */
void dt_ps_socket_wake(dt_ps_socket *socket);

/* Queues a message for a peer; it never waits. The payload is given away, or copied where its `release` is NULL, whatever comes of it. To a peer that
 * is not there, or no more, nothing is sent, and nobody need ask before: that it is gone is an event of its own. Errors: memory, or a field beyond
 * its bound. */
dt_status *dt_ps_send(dt_ps_socket *socket, uint32_t peer, dt_ps_message *message);

/* Ends a peer's connection; it is told why. No event comes of it. */
dt_status *dt_ps_refuse(dt_ps_socket *socket, uint32_t peer, dt_ps_refused why, const char *format, ...) __attribute__((format(printf, 4, 5)));

const char *dt_ps_peer_name(const dt_ps_socket *socket,
                            uint32_t peer); /* "worker host7, pid 4711 (10.0.0.7)"; of one that is gone, "a peer that is gone" */

#endif
