/* socket_hear: what a socket makes of what it reads: who may join, what is the next message of a connection, and what ends one. */
#include "runtime/ps/socket_state.h"
#include "runtime/ps/zap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* ---- what is heard on a connection ---- */

/* A message on an open connection: an event, but for what only connections need. DT_DATA_LOSS: there must be no more of it. */
static dt_status *hear(dt_ps_socket *socket, dt_ps_connection *connection, dt_ps_frames *frames, int first, dt_ps_event *event) {
    dt_ps_head head;
    DT_TRY(dt_ps_frames_decode(&socket->zeromq, frames, first, &head, &event->message));
    dt_ps_kind kind = event->message.kind;
    dt_status *status = NULL;
    if (kind == DT_PS_REFUSAL) return NULL;
    if (kind == DT_PS_HELLO || kind == DT_PS_WELCOME)
        status = dt_error(DT_DATA_LOSS, "a second %s", dt_ps_kind_name(kind));
    else
        status = dt_ps_check_head(connection, &head);
    if (status != NULL) {
        dt_ps_payload_release(&event->message.payload);
        return status;
    }
    if (kind == DT_PS_PING) return NULL;
    event->kind = DT_PS_MESSAGE;
    event->peer = connection->peer;
    return NULL;
}

/* Whether what was heard last is a refusal. */
static bool is_refused(const dt_status *status, const dt_ps_event *event) {
    return status == NULL && event->kind == DT_PS_NOTHING && event->message.kind == DT_PS_REFUSAL;
}

static dt_status *hear_known(dt_ps_socket *socket, dt_ps_peer *peer, dt_ps_frames *frames, dt_ps_event *event) {
    if (peer->connection.state == DT_PS_LOST) return NULL; /* what it sent before it knew */
    dt_status *status = hear(socket, &peer->connection, frames, 1, event);
    if (is_refused(status, event)) {
        dt_ps_tell_refused_here(event, DT_PS_GONE, &peer->connection, event->message.refusal.reason);
        peer->connection.state = DT_PS_LOST;
        dt_ps_door_dismiss(socket->door, peer->descriptor);
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_ps_tell_gone(event, &peer->connection, dt_status_message(status));
    dt_status *failed = dt_ps_refuse_peer(socket, peer, DT_PS_REFUSED_MESSAGE, dt_status_message(status));
    dt_status_free(status);
    return failed;
}

static dt_status *hear_open_server(dt_ps_socket *socket, dt_ps_link *link, dt_ps_frames *frames, dt_ps_event *event) {
    dt_status *status = hear(socket, &link->connection, frames, 0, event);
    if (event->kind == DT_PS_MESSAGE) link->pause_seconds = DT_PS_FIRST_PAUSE_SECONDS; /* a welcome may be followed by a refusal, again and again */
    if (is_refused(status, event)) {
        event->is_final = dt_ps_is_final(socket, event->message.refusal.why);
        dt_ps_tell_refused_here(event, DT_PS_GONE, &link->connection, event->message.refusal.reason);
        dt_ps_close_link(socket, link, event->is_final);
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_ps_tell_gone(event, &link->connection, dt_status_message(status));
    dt_status *failed = dt_ps_refuse_server(socket, link, DT_PS_REFUSED_MESSAGE, dt_status_message(status));
    dt_status_free(status);
    return failed;
}

/* ---- greeting ---- */

/* A place for one more, or NULL: of those that are lost the one whose number is lowest is forgotten. */
static dt_ps_peer *find_place(dt_ps_socket *socket) {
    dt_ps_peer *oldest = NULL;
    if (socket->n_peers < socket->options.most_peers) return &socket->peers[socket->n_peers++];
    for (int i = 0; i < socket->n_peers; i++) {
        dt_ps_peer *peer = &socket->peers[i];
        bool is_free = peer->connection.state == DT_PS_LOST && peer->connection.lost_because == NULL;
        if (is_free && (oldest == NULL || peer->connection.peer < oldest->connection.peer)) oldest = peer;
    }
    return oldest;
}

/* Whether somebody who says hello may join, in which version; *why in short where not. */
static dt_status *judge(dt_ps_socket *socket, const dt_ps_hello *hello, uint16_t *version, dt_ps_refused *why) {
    const dt_ps_hello *ours = &socket->options.hello;
    dt_ps_introduction theirs = dt_ps_of_hello(hello);
    *why = DT_PS_REFUSED_VERSION;
    DT_TRY(dt_ps_agree_on_version(ours, hello, version));
    return dt_ps_compare(ours, &theirs, why);
}

static dt_status *welcome(dt_ps_socket *socket, dt_ps_peer *peer, uint16_t version) {
    const dt_ps_hello *ours = &socket->options.hello;
    dt_ps_message message = {.kind = DT_PS_WELCOME, .welcome = {.version = version, .role = ours->role, .part = ours->part}};
    dt_ps_connection *connection = &peer->connection;
    memcpy(message.welcome.artifact, ours->artifact, sizeof ours->artifact);
    strcpy(message.welcome.settings, ours->settings);
    strcpy(message.welcome.name, ours->name);
    if (getrandom(&message.welcome.session, sizeof message.welcome.session, 0) < 0) return dt_error(DT_IO, "no random number: %s", strerror(errno));
    connection->state = DT_PS_OPEN;
    connection->peer = socket->next_peer++;
    connection->version = version;
    connection->session = message.welcome.session;
    connection->n_sent = connection->n_received = 0;
    return dt_ps_send_to_peer(socket, peer, &dt_ps_no_head, &message);
}

/* `stranger` has an identity and a name, and no place yet. */
static dt_status *hear_hello(dt_ps_socket *socket, dt_ps_peer *stranger, bool has_right_key, dt_ps_event *event) {
    uint16_t version = 0;
    dt_ps_refused why = DT_PS_REFUSED_OTHERWISE;
    bool is_server = event->message.hello.role == DT_PS_SERVER;
    dt_status *status = has_right_key ? judge(socket, &event->message.hello, &version, &why)
                                      : dt_error(DT_FAILED_PRECONDITION, "its key is for a %s, and it says that it is a %s",
                                                 is_server ? "worker" : "server", is_server ? "server" : "worker");
    dt_ps_peer *place = status == NULL ? find_place(socket) : NULL;
    if (status == NULL && place == NULL) {
        why = DT_PS_REFUSED_FULL;
        status = dt_error(DT_RESOURCE_EXHAUSTED, "there are %d peers already, as many as may be", socket->options.most_peers);
    }
    if (status != NULL) {
        dt_ps_tell_refused(socket, event, stranger->connection.name, dt_status_message(status));
        dt_status *failed = dt_ps_refuse_peer(socket, stranger, why, dt_status_message(status));
        dt_status_free(status);
        return failed;
    }
    for (int i = 0; i < socket->n_peers; i++) /* whoever had the descriptor before has closed it */
        if (socket->peers[i].descriptor == stranger->descriptor) socket->peers[i].descriptor = -1;
    *place = *stranger;
    dt_ps_door_admit(socket->door, place->descriptor);
    event->kind = DT_PS_JOINED;
    event->peer = socket->next_peer;
    return welcome(socket, place, version);
}

/* Somebody who has not said hello before. */
static dt_status *hear_stranger(dt_ps_socket *socket, dt_ps_frames *frames, dt_ps_event *event) {
    const dt_zeromq *zeromq = &socket->zeromq;
    const char *address = dt_ps_frames_address(zeromq, frames);
    dt_ps_peer stranger = {.identity_bytes = zeromq->msg_size(&frames->items[0]), .descriptor = dt_ps_frames_descriptor(zeromq, frames)};
    dt_ps_head head;
    char who[128];
    if (stranger.identity_bytes > sizeof stranger.identity) return NULL; /* ZeroMQ's are shorter */
    memcpy(stranger.identity, zeromq->msg_data(&frames->items[0]), stranger.identity_bytes);
    snprintf(who, sizeof who, "somebody at %s", address);
    dt_status *status = dt_ps_frames_decode(zeromq, frames, 1, &head, &event->message);
    if (status == NULL && event->message.kind == DT_PS_HELLO) {
        dt_ps_introduction introduction = dt_ps_of_hello(&event->message.hello);
        dt_ps_print_name(&introduction, address, stranger.connection.name, sizeof stranger.connection.name);
        bool has_right_key = socket->options.keys == NULL || dt_ps_zap_is_role(zeromq, frames, (dt_ps_role)introduction.role);
        return hear_hello(socket, &stranger, has_right_key, event);
    }
    if (status == NULL) {
        dt_ps_payload_release(&event->message.payload);
        status = dt_error(DT_DATA_LOSS, "message %s without a hello before", dt_ps_kind_name(event->message.kind));
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_ps_tell_refused(socket, event, who, dt_status_message(status));
    dt_status_free(status);
    return NULL;
}

/* A server that this process does not want. */
static void tell_server_refused(const dt_ps_socket *socket, const dt_ps_link *link, dt_ps_refused why, const char *reason, dt_ps_event *event) {
    event->kind = DT_PS_REFUSED;
    event->peer = link->connection.peer;
    event->is_final = dt_ps_is_final(socket, why);
    snprintf(event->text, sizeof event->text, "%s: %s", link->connection.name, reason);
}

static dt_status *judge_server(dt_ps_socket *socket, const dt_ps_welcome *welcome, dt_ps_refused *why) {
    const dt_ps_hello *ours = &socket->options.hello;
    dt_ps_introduction theirs = dt_ps_of_welcome(welcome);
    *why = DT_PS_REFUSED_VERSION;
    if (welcome->version < ours->lowest_version || welcome->version > ours->highest_version)
        return dt_error(DT_FAILED_PRECONDITION, "answers in version %d of the protocol, which was not offered", welcome->version);
    *why = DT_PS_REFUSED_OTHERWISE;
    if (welcome->role != DT_PS_SERVER) return dt_error(DT_FAILED_PRECONDITION, "is no server");
    return dt_ps_compare(ours, &theirs, why);
}

static dt_status *hear_welcome(dt_ps_socket *socket, dt_ps_link *link, const char *address, dt_ps_event *event) {
    const dt_ps_welcome *welcome = &event->message.welcome;
    dt_ps_connection *connection = &link->connection;
    dt_ps_introduction introduction = dt_ps_of_welcome(welcome);
    dt_ps_refused why;
    dt_ps_print_name(&introduction, address, connection->name, sizeof connection->name);
    dt_status *status = judge_server(socket, welcome, &why);
    if (status != NULL) {
        tell_server_refused(socket, link, why, dt_status_message(status), event);
        dt_status *failed = dt_ps_refuse_server(socket, link, why, dt_status_message(status));
        dt_status_free(status);
        return failed;
    }
    connection->state = DT_PS_OPEN;
    connection->version = welcome->version;
    connection->session = welcome->session;
    connection->n_sent = connection->n_received = 0;
    event->kind = DT_PS_JOINED;
    event->peer = connection->peer;
    return NULL;
}

/* The first that a server says. */
static dt_status *hear_answer(dt_ps_socket *socket, dt_ps_link *link, dt_ps_frames *frames, dt_ps_event *event) {
    dt_ps_head head;
    dt_status *status = dt_ps_frames_decode(&socket->zeromq, frames, 0, &head, &event->message);
    if (status == NULL && event->message.kind == DT_PS_WELCOME)
        return hear_welcome(socket, link, dt_ps_frames_address(&socket->zeromq, frames), event);
    if (status == NULL && event->message.kind == DT_PS_REFUSAL) {
        event->is_final = dt_ps_is_final(socket, event->message.refusal.why);
        dt_ps_tell_refused_here(event, DT_PS_REFUSED, &link->connection, event->message.refusal.reason);
        dt_ps_close_link(socket, link, event->is_final);
        return NULL;
    }
    if (status == NULL) {
        dt_ps_payload_release(&event->message.payload);
        status = dt_error(DT_DATA_LOSS, "it answers a hello by %s", dt_ps_kind_name(event->message.kind));
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    tell_server_refused(socket, link, DT_PS_REFUSED_MESSAGE, dt_status_message(status), event);
    dt_ps_close_link(socket, link, false);
    dt_status_free(status);
    return NULL;
}

/* ---- who it was ---- */

dt_status *dt_ps_hear_peer(dt_ps_socket *socket, dt_ps_frames *frames, dt_ps_event *event) {
    const dt_zeromq *zeromq = &socket->zeromq;
    const void *identity = zeromq->msg_data(&frames->items[0]);
    size_t bytes = zeromq->msg_size(&frames->items[0]);
    for (int i = 0; i < socket->n_peers; i++) {
        dt_ps_peer *peer = &socket->peers[i];
        if (peer->identity_bytes == bytes && memcmp(peer->identity, identity, bytes) == 0) return hear_known(socket, peer, frames, event);
    }
    return hear_stranger(socket, frames, event);
}

dt_status *dt_ps_hear_server(dt_ps_socket *socket, dt_ps_link *link, dt_ps_frames *frames, dt_ps_event *event) {
    switch (link->connection.state) {
    case DT_PS_OPEN: return hear_open_server(socket, link, frames, event);
    case DT_PS_GREETING: return hear_answer(socket, link, frames, event);
    default: return NULL;
    }
}
