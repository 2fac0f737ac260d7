/* frames: see the header. */
#include "runtime/ps/frames.h"

#include "base/memory.h"

#include <errno.h>
#include <string.h>

static const size_t ALIGNMENT = 8; /* of payloads */

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for a message of a parameter server"); }

/* ---- receiving ---- */

dt_status *dt_ps_frames_receive(const dt_zeromq *zeromq, void *from, dt_ps_frames *frames, bool *any) {
    bool more = true;
    frames->n = frames->n_kept = 0;
    *any = false;
    while (more) {
        zmq_msg_t frame;
        zeromq->msg_init(&frame);
        if (zeromq->msg_recv(&frame, from, ZMQ_DONTWAIT) < 0) {
            int reason = errno;
            zeromq->msg_close(&frame);
            if (reason == EINTR && frames->n > 0) continue; /* a signal; the rest is there */
            if (reason == EAGAIN || reason == EINTR) return NULL;
            dt_ps_frames_close(zeromq, frames);
            return dt_error(DT_IO, "cannot receive from ZeroMQ: %s", zeromq->strerror(reason));
        }
        more = zeromq->msg_more(&frame) != 0;
        frames->n++;
        if (frames->n_kept < DT_PS_MOST_FRAMES) {
            zeromq->msg_init(&frames->items[frames->n_kept]);
            zeromq->msg_move(&frames->items[frames->n_kept++], &frame);
        }
        zeromq->msg_close(&frame);
    }
    *any = true;
    return NULL;
}

void dt_ps_frames_close(const dt_zeromq *zeromq, dt_ps_frames *frames) {
    for (int i = 0; i < frames->n_kept; i++) zeromq->msg_close(&frames->items[i]);
    frames->n_kept = 0;
}

const char *dt_ps_frames_address(const dt_zeromq *zeromq, dt_ps_frames *frames) {
    const char *address = zeromq->msg_gets(&frames->items[frames->n_kept - 1], "Peer-Address"); /* an identity has none */
    return address != NULL ? address : "an unknown address";
}

int dt_ps_frames_descriptor(const dt_zeromq *zeromq, dt_ps_frames *frames) {
    return zeromq->msg_get(&frames->items[frames->n_kept - 1], ZMQ_SRCFD);
}

/* A frame that is kept for as long as somebody reads it. */
typedef struct kept {
    __typeof__(zmq_msg_close) *close;
    zmq_msg_t frame;
} kept;

static void release_kept(void *owner) {
    kept *self = owner;
    self->close(&self->frame);
    dt_release(self);
}

/* Short frames lie where they happened to be in what was received at once: at any address. Such are copied. */
static dt_status *take_payload(const dt_zeromq *zeromq, zmq_msg_t *frame, dt_ps_payload *payload) {
    size_t bytes = zeromq->msg_size(frame);
    if ((uintptr_t)zeromq->msg_data(frame) % ALIGNMENT != 0) {
        void *copy = dt_allocate(bytes);
        if (copy == NULL) return no_memory();
        memcpy(copy, zeromq->msg_data(frame), bytes);
        *payload = (dt_ps_payload){.data = copy, .bytes = bytes, .release = dt_release, .owner = copy};
        return NULL;
    }
    kept *self = dt_allocate_zeroed(1, sizeof *self);
    if (self == NULL) return no_memory();
    self->close = zeromq->msg_close;
    zeromq->msg_init(&self->frame);
    zeromq->msg_move(&self->frame, frame);
    *payload = (dt_ps_payload){.data = zeromq->msg_data(&self->frame), .bytes = bytes, .release = release_kept, .owner = self};
    return NULL;
}

dt_status *dt_ps_frames_decode(const dt_zeromq *zeromq, dt_ps_frames *frames, int first, dt_ps_head *head, dt_ps_message *message) {
    int n = frames->n - first;
    dt_ps_payload payload = {0};
    if (n != 1 && n != 2) return dt_error(DT_DATA_LOSS, "a message in %d frames", n);
    if (n == 2) DT_TRY(take_payload(zeromq, &frames->items[first + 1], &payload));
    zmq_msg_t *fields = &frames->items[first];
    dt_status *status = dt_ps_decode(zeromq->msg_data(fields), zeromq->msg_size(fields), n == 2 ? &payload : NULL, head, message);
    if (status != NULL) dt_ps_payload_release(&payload);
    return status;
}

/* ---- sending ---- */

/* Called by ZeroMQ when it has sent a payload, which lies in `hint`. */
static void release_sent(void *data, void *hint) {
    (void)data;
    dt_ps_payload_release(hint);
    dt_release(hint);
}

static dt_status *add_bytes(const dt_zeromq *zeromq, dt_ps_frames *frames, const void *bytes, size_t n) {
    zmq_msg_t *frame = &frames->items[frames->n_kept];
    if (zeromq->msg_init_size(frame, n) != 0) return no_memory();
    if (n > 0) memcpy(zeromq->msg_data(frame), bytes, n);
    frames->n_kept++;
    return NULL;
}

/* One that was given is ZeroMQ's then. */
static dt_status *add_payload(const dt_zeromq *zeromq, dt_ps_frames *frames, dt_ps_payload *payload) {
    if (payload->release == NULL || payload->bytes == 0) return add_bytes(zeromq, frames, payload->data, payload->bytes);
    dt_ps_payload *given = dt_allocate(sizeof *given);
    if (given == NULL) return no_memory();
    *given = *payload;
    if (zeromq->msg_init_data(&frames->items[frames->n_kept], (void *)payload->data, payload->bytes, release_sent, given) != 0) {
        dt_release(given);
        return no_memory();
    }
    frames->n_kept++;
    *payload = (dt_ps_payload){0};
    return NULL;
}

/* Who is nobody, and whose queue is full, shows with the first frame: then none is sent. */
static dt_ps_sent send_all(const dt_zeromq *zeromq, void *to, dt_ps_frames *frames) {
    for (int i = 0; i < frames->n_kept; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < frames->n_kept ? ZMQ_SNDMORE : 0);
        while (zeromq->msg_send(&frames->items[i], to, flags) < 0) {
            int reason = errno;
            if (reason != EINTR) return reason == EAGAIN ? DT_PS_FULL : DT_PS_NOBODY;
        }
    }
    return DT_PS_SENT;
}

dt_status *dt_ps_frames_send(const dt_zeromq *zeromq, void *to, const uint8_t *identity, size_t identity_bytes, const dt_ps_head *head,
                             dt_ps_message *message, dt_ps_sent *sent) {
    dt_ps_frames frames = {0};
    dt_ps_buffer buffer;
    size_t n_bytes = 0;
    dt_status *status = dt_ps_encode(message, head, &buffer, &n_bytes);
    if (status == NULL && identity != NULL) status = add_bytes(zeromq, &frames, identity, identity_bytes);
    if (status == NULL) status = add_bytes(zeromq, &frames, buffer.bytes, n_bytes);
    if (status == NULL && dt_ps_kind_item_bytes(message->kind) > 0) status = add_payload(zeromq, &frames, &message->payload);
    dt_ps_payload_release(&message->payload);
    if (status == NULL) *sent = send_all(zeromq, to, &frames);
    dt_ps_frames_close(zeromq, &frames); /* of those that were sent nothing is left */
    return status;
}
