/* connection: what the two ends of a connection know of each other, and what they must say. No bytes move here: socket.c moves them. */
#ifndef DT_RUNTIME_PS_CONNECTION_H
#define DT_RUNTIME_PS_CONNECTION_H

#include "runtime/ps/message.h"

#include <stdbool.h>

enum {
    DT_PS_NAME_BYTES = 256 /* of what a peer is called in messages */
};

typedef enum dt_ps_state {
    DT_PS_CLOSED,   /* there is none */
    DT_PS_GREETING, /* to a server, which has not answered yet */
    DT_PS_OPEN,     /* the peer has joined */
    DT_PS_LEAVING,  /* the other end is gone, and what it sent before is still to be read */
    DT_PS_LOST      /* it is over; what still comes is not read */
} dt_ps_state;

typedef struct dt_ps_connection {
    dt_ps_state state;
    uint32_t peer;
    uint16_t version;
    uint64_t session, n_sent, n_received;
    const char *lost_because;    /* of one that is lost: why, as long as that has not been told; NULL: it has */
    char name[DT_PS_NAME_BYTES]; /* "worker host7, pid 4711 (10.0.0.7)" */
} dt_ps_connection;

/* What a peer says of itself, whichever message says it. */
typedef struct dt_ps_introduction {
    uint8_t role;
    uint32_t part;
    const uint8_t *artifact;
    const char *settings, *name;
} dt_ps_introduction;

dt_ps_introduction dt_ps_of_hello(const dt_ps_hello *hello);
dt_ps_introduction dt_ps_of_welcome(const dt_ps_welcome *welcome);

/* "worker host7, pid 4711 (10.0.0.7)", without the brackets where there is no address. */
void dt_ps_print_name(const dt_ps_introduction *introduction, const char *address, char *name, size_t bytes);

/* Whether a message that has arrived on an open connection, or answers its hello, is the next one: DT_DATA_LOSS where it is of another connection,
 * doubled, or one is missing. It is counted. */
dt_status *dt_ps_check_head(dt_ps_connection *connection, const dt_ps_head *head);
/* The head of the next message that is sent; it is counted. */
dt_ps_head dt_ps_next_head(dt_ps_connection *connection);

/* The highest version that both speak; DT_FAILED_PRECONDITION: there is none. */
dt_status *dt_ps_agree_on_version(const dt_ps_hello *ours, const dt_ps_hello *theirs, uint16_t *version);
/* Whether `theirs` is of our run. DT_FAILED_PRECONDITION: what differs, with both sides; *why says it in short. */
dt_status *dt_ps_compare(const dt_ps_hello *ours, const dt_ps_introduction *theirs, dt_ps_refused *why);

#endif
