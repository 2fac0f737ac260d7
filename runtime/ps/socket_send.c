/* socket_send: what a socket says, and how its connections end. */
#include "runtime/ps/socket_state.h"

#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    MOST_STRANGERS = 20 /* that are told of at once */
};

static const double STRANGER_SECONDS = 0.5; /* after which one more is told of */
static const double MOST_PAUSE_SECONDS = 1; /* before a server is connected to again */
static const double REFUSAL_SECONDS = 0.5;  /* that telling a server why we leave may take */

/* ---- connections that end ---- */

/* Told when somebody receives. `why` is a constant. */
void dt_ps_lose(dt_ps_socket *socket, dt_ps_connection *connection, const char *why) {
    connection->state = DT_PS_LOST;
    connection->lost_because = why;
    socket->n_lost++;
}

void dt_ps_tell_gone(dt_ps_event *event, const dt_ps_connection *connection, const char *why) {
    event->kind = DT_PS_GONE;
    event->peer = connection->peer;
    snprintf(event->text, sizeof event->text, "%s: %s", connection->name, why);
}

void dt_ps_tell_refused_here(dt_ps_event *event, dt_ps_event_kind kind, const dt_ps_connection *connection, const char *why) {
    event->kind = kind;
    event->peer = connection->peer;
    snprintf(event->text, sizeof event->text, "%s refuses this process: %s", connection->name, why);
}

/* Whether one more stranger is told of: so many at once, and then one from time to time, so that nobody can fill a disk with them. */
static bool may_tell(dt_ps_socket *socket) {
    double now = dt_seconds_now();
    socket->strangers = fmin(MOST_STRANGERS, socket->strangers + (now - socket->strangers_at) / STRANGER_SECONDS);
    socket->strangers_at = now;
    if (socket->strangers < 1) {
        socket->n_untold++;
        return false;
    }
    socket->strangers--;
    return true;
}

/* Somebody who has not joined. */
void dt_ps_tell_refused(dt_ps_socket *socket, dt_ps_event *event, const char *who, const char *why) {
    if (!may_tell(socket)) return;
    event->kind = DT_PS_REFUSED;
    int n = snprintf(event->text, sizeof event->text, "%s: %s", who, why);
    if (socket->n_untold > 0 && n > 0 && (size_t)n < sizeof event->text)
        snprintf(event->text + n, sizeof event->text - (size_t)n, " (and %lld others before)", (long long)socket->n_untold);
    socket->n_untold = 0;
}

void dt_ps_close_monitored(dt_ps_socket *socket, void **of, void **monitor, double linger_seconds) {
    const dt_zeromq *zeromq = &socket->zeromq;
    int linger = (int)(linger_seconds * 1000);
    if (*of == NULL) return;
    if (monitor != NULL) zeromq->socket_monitor(*of, NULL, 0);
    if (monitor != NULL && *monitor != NULL) zeromq->close(*monitor);
    zeromq->setsockopt(*of, ZMQ_LINGER, &linger, sizeof linger);
    zeromq->close(*of);
    *of = NULL;
    if (monitor != NULL) *monitor = NULL;
}

/* Whether there is no use in trying again. */
bool dt_ps_is_final(const dt_ps_socket *socket, dt_ps_refused why) {
    bool is_another_run = why == DT_PS_REFUSED_VERSION || why == DT_PS_REFUSED_ARTIFACT || why == DT_PS_REFUSED_SETTINGS;
    return why != DT_PS_REFUSED_FULL && why != DT_PS_REFUSED_MESSAGE && !(is_another_run && socket->outlasts);
}

/* The next attempt is after a pause, or never. */
void dt_ps_close_link(dt_ps_socket *socket, dt_ps_link *link, bool for_good) {
    dt_ps_close_monitored(socket, &link->dealer, &link->monitor, 0);
    link->connection.state = DT_PS_CLOSED;
    link->retry_at = for_good ? INFINITY : dt_seconds_now() + link->pause_seconds;
    link->pause_seconds = fmin(2 * link->pause_seconds, MOST_PAUSE_SECONDS);
}

/* ---- sending ---- */

dt_status *dt_ps_send_to_server(dt_ps_socket *socket, dt_ps_link *link, const dt_ps_head *head, dt_ps_message *message) {
    dt_ps_sent sent = DT_PS_SENT;
    DT_TRY(dt_ps_frames_send(&socket->zeromq, link->dealer, NULL, 0, head, message, &sent));
    if (sent != DT_PS_SENT && link->connection.state == DT_PS_OPEN) dt_ps_lose(socket, &link->connection, "it reads nothing any more");
    return NULL;
}

dt_status *dt_ps_send_to_peer(dt_ps_socket *socket, dt_ps_peer *peer, const dt_ps_head *head, dt_ps_message *message) {
    dt_ps_sent sent = DT_PS_SENT;
    DT_TRY(dt_ps_frames_send(&socket->zeromq, socket->router, peer->identity, peer->identity_bytes, head, message, &sent));
    if (sent == DT_PS_SENT || peer->connection.state != DT_PS_OPEN) return NULL;
    if (sent == DT_PS_FULL) {
        dt_ps_lose(socket, &peer->connection, "it reads nothing any more");
        dt_ps_door_dismiss(socket->door, peer->descriptor);
        return NULL;
    }
    peer->connection.state = DT_PS_LEAVING;
    peer->leaving_since = dt_seconds_now();
    return NULL;
}

static dt_ps_peer *find_peer(const dt_ps_socket *socket, uint32_t number) {
    for (int i = 0; i < socket->n_peers; i++)
        if (socket->peers[i].connection.peer == number) return &socket->peers[i];
    return NULL;
}

static bool is_server(const dt_ps_socket *socket, uint32_t number) { return number < (uint32_t)socket->options.n_servers; }

static dt_ps_connection *find(const dt_ps_socket *socket, uint32_t number) {
    if (is_server(socket, number)) return &socket->links[number].connection;
    dt_ps_peer *peer = find_peer(socket, number);
    return peer != NULL ? &peer->connection : NULL;
}

dt_status *dt_ps_send(dt_ps_socket *socket, uint32_t number, dt_ps_message *message) {
    dt_ps_connection *connection = find(socket, number);
    if (connection == NULL || connection->state != DT_PS_OPEN) {
        dt_ps_payload_release(&message->payload);
        return NULL;
    }
    dt_ps_head head = dt_ps_next_head(connection);
    if (is_server(socket, number)) return dt_ps_send_to_server(socket, &socket->links[number], &head, message);
    return dt_ps_send_to_peer(socket, find_peer(socket, number), &head, message);
}

const dt_ps_head dt_ps_no_head = {0};

static dt_ps_message refusal(dt_ps_refused why, const char *reason) {
    dt_ps_message message = {.kind = DT_PS_REFUSAL, .refusal.why = (uint8_t)why};
    snprintf(message.refusal.reason, sizeof message.refusal.reason, "%s", reason);
    return message;
}

/* The connection is over, and its other end is told why. */
dt_status *dt_ps_refuse_peer(dt_ps_socket *socket, dt_ps_peer *peer, dt_ps_refused why, const char *reason) {
    dt_ps_message message = refusal(why, reason);
    peer->connection.state = DT_PS_LOST;
    dt_ps_door_dismiss(socket->door, peer->descriptor);
    return dt_ps_send_to_peer(socket, peer, &dt_ps_no_head, &message);
}

dt_status *dt_ps_refuse_server(dt_ps_socket *socket, dt_ps_link *link, dt_ps_refused why, const char *reason) {
    dt_ps_message message = refusal(why, reason);
    link->connection.state = DT_PS_LOST;
    dt_status *status = dt_ps_send_to_server(socket, link, &dt_ps_no_head, &message);
    dt_ps_close_monitored(socket, &link->dealer, &link->monitor, REFUSAL_SECONDS);
    dt_ps_close_link(socket, link, dt_ps_is_final(socket, why));
    return status;
}

dt_status *dt_ps_refuse(dt_ps_socket *socket, uint32_t number, dt_ps_refused why, const char *format, ...) {
    dt_ps_connection *connection = find(socket, number);
    char reason[sizeof((dt_ps_refusal *)NULL)->reason];
    va_list arguments;
    if (connection == NULL || connection->state != DT_PS_OPEN) return NULL;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (is_server(socket, number)) return dt_ps_refuse_server(socket, &socket->links[number], why, reason);
    return dt_ps_refuse_peer(socket, find_peer(socket, number), why, reason);
}

const char *dt_ps_peer_name(const dt_ps_socket *socket, uint32_t number) {
    const dt_ps_connection *connection = find(socket, number);
    return connection != NULL ? connection->name : "a peer that is gone";
}
