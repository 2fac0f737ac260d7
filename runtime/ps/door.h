/* door: bounds the connections to a listening socket of ZeroMQ's, which itself accepts as many as the process has descriptors: a stranger, who needs no
 * key for that, could take those that checkpoints need.
 *
 * A connection is a stranger's until the socket admits it. There are at most so many strangers, each for at most so long: one more ends the oldest. A
 * connection is ended by shutting its descriptor down, which ZeroMQ takes for the other end's hanging up. Who connects and who is gone ZeroMQ's monitor
 * says. A thread of the door's own reads it, however long nobody receives from the socket: a monitor that nobody reads would stop ZeroMQ itself.
 *
 * Threads: one makes all calls. */
#ifndef DT_RUNTIME_PS_DOOR_H
#define DT_RUNTIME_PS_DOOR_H

#include "runtime/ps/zeromq.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_ps_door dt_ps_door;

typedef struct dt_ps_door_options {
    const dt_zeromq *zeromq;
    void *context, *listener; /* a socket that nothing is bound to yet */
    int most_strangers;
    double seconds; /* that one may stay a stranger */
    int wake;       /* an eventfd that is written to when there is news */
} dt_ps_door_options;

/* Errors: DT_IO and DT_RESOURCE_EXHAUSTED of the system's. */
dt_status *dt_ps_door_open(const dt_ps_door_options *options, dt_ps_door **door);
void dt_ps_door_close(dt_ps_door *door); /* before the listener is. NULL is allowed */

/* Who has connected by this descriptor is known from now on, or a stranger again: it is ended soon. -1: nobody. */
void dt_ps_door_admit(dt_ps_door *door, int descriptor);
void dt_ps_door_dismiss(dt_ps_door *door, int descriptor);

/* What has happened since the last call. */
typedef struct dt_ps_door_news {
    bool any_gone;     /* somebody's connection has ended */
    int64_t n_failed;  /* handshakes, */
    uint16_t failure;  /* of which the last one, as ZeroMQ's event */
    int64_t n_crowded; /* strangers who were ended as there were too many */
} dt_ps_door_news;
void dt_ps_door_take_news(dt_ps_door *door, dt_ps_door_news *news);

#endif
