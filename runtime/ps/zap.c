/* zap: see the header. */
#include "runtime/ps/zap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Frames of a request, and what is in each. */
enum {
    VERSION,
    REQUEST,
    DOMAIN,
    ADDRESS,
    IDENTITY,
    MECHANISM,
    KEY,
    N_FRAMES
};

dt_status *dt_ps_zap_open(const dt_zeromq *zeromq, void *context, void **zap) {
    *zap = zeromq->socket(context, ZMQ_REP);
    if (*zap != NULL && zeromq->bind(*zap, "inproc://zeromq.zap.01") == 0) return NULL;
    return dt_error(DT_IO, "cannot ask who connects: %s", zeromq->strerror(errno));
}

static const char *user_of(dt_ps_role role) { return role == DT_PS_SERVER ? "server" : "worker"; }

bool dt_ps_zap_is_role(const dt_zeromq *zeromq, dt_ps_frames *frames, dt_ps_role role) {
    const char *user = zeromq->msg_gets(&frames->items[frames->n_kept - 1], "User-Id");
    return user != NULL && strcmp(user, user_of(role)) == 0;
}

static bool is_text(const dt_zeromq *zeromq, zmq_msg_t *frame, const char *text) {
    return zeromq->msg_size(frame) == strlen(text) && memcmp(zeromq->msg_data(frame), text, strlen(text)) == 0;
}

static bool is_allowed(const dt_zeromq *zeromq, dt_ps_frames *request, const dt_ps_keys *keys, dt_ps_role *role) {
    zmq_msg_t *frames = request->items;
    return request->n == N_FRAMES && is_text(zeromq, &frames[VERSION], "1.0") && is_text(zeromq, &frames[DOMAIN], DT_PS_ZAP_DOMAIN) &&
           is_text(zeromq, &frames[MECHANISM], "CURVE") && zeromq->msg_size(&frames[KEY]) == DT_PS_KEY_BYTES &&
           dt_ps_keys_allow(keys, zeromq->msg_data(&frames[KEY]), role);
}

static void print_who(const dt_zeromq *zeromq, dt_ps_frames *request, char *who, size_t bytes) {
    char key[41] = "?";
    zmq_msg_t *frames = request->items;
    bool has_key = request->n == N_FRAMES && zeromq->msg_size(&frames[KEY]) == DT_PS_KEY_BYTES;
    if (has_key) zeromq->z85_encode(key, zeromq->msg_data(&frames[KEY]), DT_PS_KEY_BYTES);
    int n_address = request->n_kept > ADDRESS ? (int)zeromq->msg_size(&frames[ADDRESS]) : 0;
    snprintf(who, bytes, "somebody at %.*s with the public key %s", n_address, n_address > 0 ? (char *)zeromq->msg_data(&frames[ADDRESS]) : "", key);
}

/* Version, request, a status of HTTP's and its text, the user's name, which is the role of his key, and what else is known of him, which is nothing.
 */
static dt_status *answer(const dt_zeromq *zeromq, void *zap, dt_ps_frames *request, bool allowed, dt_ps_role role) {
    enum {
        N_ANSWER = 6
    };
    const char *const texts[N_ANSWER] = {
        "1.0", NULL, allowed ? "200" : "400", allowed ? "OK" : "this key is not allowed", allowed ? user_of(role) : "", ""};
    for (int i = 0; i < N_ANSWER; i++) {
        bool is_request = texts[i] == NULL && request->n_kept > REQUEST;
        const void *bytes = is_request ? zeromq->msg_data(&request->items[REQUEST]) : texts[i];
        size_t n = is_request ? zeromq->msg_size(&request->items[REQUEST]) : texts[i] != NULL ? strlen(texts[i]) : 0;
        zmq_msg_t frame;
        if (zeromq->msg_init_size(&frame, n) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for an answer to who connects");
        if (n > 0) memcpy(zeromq->msg_data(&frame), bytes, n);
        if (zeromq->msg_send(&frame, zap, i + 1 < N_ANSWER ? ZMQ_SNDMORE : 0) < 0) {
            zeromq->msg_close(&frame);
            return dt_error(DT_IO, "cannot say who may connect: %s", zeromq->strerror(errno));
        }
    }
    return NULL;
}

dt_status *dt_ps_zap_answer(const dt_zeromq *zeromq, void *zap, const dt_ps_keys *keys, char *who, size_t bytes, bool *any) {
    dt_ps_frames request;
    who[0] = 0;
    DT_TRY(dt_ps_frames_receive(zeromq, zap, &request, any));
    if (!*any) return NULL;
    dt_ps_role role = DT_PS_WORKER;
    bool allowed = is_allowed(zeromq, &request, keys, &role);
    if (!allowed) print_who(zeromq, &request, who, bytes);
    dt_status *status = answer(zeromq, zap, &request, allowed, role);
    dt_ps_frames_close(zeromq, &request);
    return status;
}
