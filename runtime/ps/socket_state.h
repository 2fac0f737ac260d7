/* socket_state: what the files of a socket share: socket.c opens, waits and reads, socket_hear.c is what it reads, socket_send.c what it says, and
 * how connections end. */
#ifndef DT_RUNTIME_PS_SOCKET_STATE_H
#define DT_RUNTIME_PS_SOCKET_STATE_H

#include "runtime/ps/address.h"
#include "runtime/ps/connection.h"
#include "runtime/ps/door.h"
#include "runtime/ps/frames.h"
#include "runtime/ps/socket.h"
#include "runtime/ps/zeromq.h"

enum {
    DT_PS_IDENTITY_BYTES = 255 /* at most, of ZeroMQ's */
};

static const double DT_PS_FIRST_PAUSE_SECONDS = 0.05; /* before a server is connected to again */

/* A connection to a server. */
typedef struct dt_ps_link {
    dt_ps_connection connection;
    char address[DT_PS_ADDRESS_BYTES];
    void *dealer, *monitor; /* NULL: there is none */
    double retry_at;        /* while there is none; INFINITY: never */
    double give_up_at;      /* while the server has not answered */
    double pause_seconds;
} dt_ps_link;

/* A connection that somebody has made to this process. */
typedef struct dt_ps_peer {
    dt_ps_connection connection;
    uint8_t identity[DT_PS_IDENTITY_BYTES];
    size_t identity_bytes;
    int descriptor; /* of the connection; -1: it is not known */
    double leaving_since;
} dt_ps_peer;

struct dt_ps_socket {
    dt_zeromq zeromq;
    dt_ps_socket_options options; /* with the defaults, without the texts */
    void *context;
    void *router;     /* NULL: it does not listen */
    dt_ps_door *door; /* of the router */
    void *zap;        /* NULL: it does not listen, or without keys */
    char address[DT_PS_ADDRESS_BYTES];
    dt_ps_link *links; /* [options.n_servers] */
    dt_ps_peer
        *peers;  /* [options.most_peers]: one that is lost keeps its place until another needs it, so that what it still sends is known as its */
    int n_peers; /* places that were ever taken */
    uint32_t next_peer;
    uint32_t n_monitors; /* so far: each has a name */
    int turn;            /* who is read from first */
    bool outlasts;       /* dt_ps_socket_outlast */
    int n_lost;          /* connections whose end has not been told */
    double next_probe, probe_eagerly_until;
    double strangers, strangers_at; /* how many may be told of, and when that was so */
    int64_t n_untold;
    int wake;              /* an eventfd */
    zmq_pollitem_t *items; /* [3 + 2 * n_servers] */
};

/* ---- how connections end ---- */

/* Whether there is no use in trying again. */
bool dt_ps_is_final(const dt_ps_socket *socket, dt_ps_refused why);

/* The connection is over, which is told when somebody receives. `why` is a constant. */
void dt_ps_lose(dt_ps_socket *socket, dt_ps_connection *connection, const char *why);
void dt_ps_tell_gone(dt_ps_event *event, const dt_ps_connection *connection, const char *why);
/* The other end wants no more of this process, before it has joined (DT_PS_REFUSED) or after (DT_PS_GONE). */
void dt_ps_tell_refused_here(dt_ps_event *event, dt_ps_event_kind kind, const dt_ps_connection *connection, const char *why);
/* Of somebody who has not joined. Nothing where many were told of: nobody can fill a disk with them. */
void dt_ps_tell_refused(dt_ps_socket *socket, dt_ps_event *event, const char *who, const char *why);

/* Closes a socket of ZeroMQ's and its monitor, where there are some. */
void dt_ps_close_monitored(dt_ps_socket *socket, void **monitored, void **monitor, double linger_seconds);
/* The next attempt is after a pause, or never. */
void dt_ps_close_link(dt_ps_socket *socket, dt_ps_link *link, bool for_good);

/* ---- what is said ---- */

extern const dt_ps_head dt_ps_no_head; /* of what is outside the order of a connection's messages */

dt_status *dt_ps_send_to_server(dt_ps_socket *socket, dt_ps_link *link, const dt_ps_head *head, dt_ps_message *message);
dt_status *dt_ps_send_to_peer(dt_ps_socket *socket, dt_ps_peer *peer, const dt_ps_head *head, dt_ps_message *message);

/* The connection is over, and its other end is told why. */
dt_status *dt_ps_refuse_peer(dt_ps_socket *socket, dt_ps_peer *peer, dt_ps_refused why, const char *reason);
dt_status *dt_ps_refuse_server(dt_ps_socket *socket, dt_ps_link *link, dt_ps_refused why, const char *reason);

/* ---- what is heard ---- */

/* Frames from the ROUTER, whose first is an identity, and from a server's DEALER. */
dt_status *dt_ps_hear_peer(dt_ps_socket *socket, dt_ps_frames *frames, dt_ps_event *event);
dt_status *dt_ps_hear_server(dt_ps_socket *socket, dt_ps_link *link, dt_ps_frames *frames, dt_ps_event *event);

#endif
