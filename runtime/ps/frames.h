/* frames: messages as ZeroMQ moves them: one frame of head and fields, one with the payload where there is one; at a ROUTER, before these, the
 * identity of the connection. Frames of a message arrive together or not at all. */
#ifndef DT_RUNTIME_PS_FRAMES_H
#define DT_RUNTIME_PS_FRAMES_H

#include "runtime/ps/message.h"
#include "runtime/ps/zeromq.h"

#include <stdbool.h>

enum {
    DT_PS_MOST_FRAMES = 8 /* ours have three at most, what ZeroMQ asks seven (zap.h) */
};

typedef struct dt_ps_frames {
    int n;      /* that arrived */
    int n_kept; /* of `items`: more have no meaning */
    zmq_msg_t items[DT_PS_MOST_FRAMES];
} dt_ps_frames;

/* What has arrived, without waiting; *any: there was something, which the caller closes. */
dt_status *dt_ps_frames_receive(const dt_zeromq *zeromq, void *from, dt_ps_frames *frames, bool *any);
void dt_ps_frames_close(const dt_zeromq *zeromq, dt_ps_frames *frames);

/* Reads the message that frame `first` begins; its payload is the caller's, and needs the frames no more. DT_DATA_LOSS: what was sent is wrong. */
dt_status *dt_ps_frames_decode(const dt_zeromq *zeromq, dt_ps_frames *frames, int first, dt_ps_head *head, dt_ps_message *message);

/* "10.0.0.7": from where they came, and by which descriptor; -1: it is not known. */
const char *dt_ps_frames_address(const dt_zeromq *zeromq, dt_ps_frames *frames);
int dt_ps_frames_descriptor(const dt_zeromq *zeromq, dt_ps_frames *frames);

typedef enum dt_ps_sent {
    DT_PS_SENT,
    DT_PS_FULL,  /* as many are queued as may be */
    DT_PS_NOBODY /* is there */
} dt_ps_sent;

/* Queues a message, to the connection of that identity [identity_bytes] where there is one. The payload is given away whatever comes of it. */
dt_status *dt_ps_frames_send(const dt_zeromq *zeromq, void *to, const uint8_t *identity, size_t identity_bytes, const dt_ps_head *head,
                             dt_ps_message *message, dt_ps_sent *sent);

#endif
