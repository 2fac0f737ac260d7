/* socket: see the header.
 *
 * Whoever listens has one ROUTER, which knows each connection by an identity that it makes up; whoever connects has a DEALER for each server. A
 * DEALER serves one connection: ZeroMQ's own reconnecting, which would carry messages of a lost connection into the next, is off. A monitor tells
 * that a connection was lost: a DEALER's about its own, a ROUTER's (door.h) about one of all. Then every peer is sent a ping, which fails where
 * nobody is; and without any news so it is with each heartbeat. */
#include "runtime/ps/socket.h"

#include "base/memory.h"
#include "runtime/ps/descriptors.h"
#include "runtime/ps/socket_state.h"
#include "runtime/ps/zap.h"
#include "runtime/threads/clock.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MOST_PEERS = 256,
    MOST_PAYLOAD_BYTES = 64 << 20,
    MOST_QUEUED = 256,
    BACKLOG = 128,
    NEVER_MILLISECONDS = 24 * 3600 * 1000,
    MONITORED = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
};

static const double HEARTBEAT_SECONDS = 0.5, SILENCE_SECONDS = 5; /* where nobody said others */
static const double GREETING_SECONDS = 10;                        /* that a handshake, and then a server's answer, may take */
static const double PROBE_SECONDS = 0.01, PROBING_SECONDS = 0.2;  /* after the news that a connection was lost: how often, for how long */
static const double LEAVING_SECONDS = 1;                          /* at most, until what somebody sent before he left has been read */
static const double LEAST_WAIT_SECONDS = 0.001;                   /* what ZeroMQ's poll can count */

/* ---- opening ---- */

static dt_status *zeromq_error(const dt_ps_socket *socket, const char *doing) {
    int reason = errno;
    dt_code code = reason == ENOMEM || reason == EMFILE ? DT_RESOURCE_EXHAUSTED : DT_IO;
    return dt_error(code, "cannot %s: %s", doing, socket->zeromq.strerror(reason));
}

static dt_status *set(const dt_ps_socket *socket, void *of, int option, int value) {
    if (socket->zeromq.setsockopt(of, option, &value, sizeof value) == 0) return NULL;
    return zeromq_error(socket, "set an option of ZeroMQ's");
}

static int milliseconds(double seconds) { return (int)fmin(seconds * 1000, 1e9); }

/* What the ROUTER and DEALERs have in common. */
static dt_status *set_bounds(const dt_ps_socket *socket, void *of, const char *address) {
    const dt_ps_socket_options *options = &socket->options;
    int64_t most_bytes = (int64_t)(options->most_payload_bytes > sizeof(dt_ps_buffer) ? options->most_payload_bytes : sizeof(dt_ps_buffer));
    DT_TRY(set(socket, of, ZMQ_LINGER, 0));
    DT_TRY(set(socket, of, ZMQ_SNDHWM, options->most_queued));
    DT_TRY(set(socket, of, ZMQ_RCVHWM, options->most_queued));
    DT_TRY(set(socket, of, ZMQ_HEARTBEAT_IVL, milliseconds(options->heartbeat_seconds)));
    DT_TRY(set(socket, of, ZMQ_HEARTBEAT_TIMEOUT, milliseconds(options->silence_seconds)));
    DT_TRY(set(socket, of, ZMQ_HANDSHAKE_IVL, milliseconds(GREETING_SECONDS)));
    DT_TRY(set(socket, of, ZMQ_IPV6, strchr(address, '[') != NULL));
    if (socket->zeromq.setsockopt(of, ZMQ_MAXMSGSIZE, &most_bytes, sizeof most_bytes) == 0) return NULL;
    return zeromq_error(socket, "set an option of ZeroMQ's");
}

static dt_status *set_key(const dt_ps_socket *socket, void *of, int option, const dt_ps_key key) {
    if (socket->zeromq.setsockopt(of, option, key, DT_PS_KEY_BYTES) == 0) return NULL;
    return zeromq_error(socket, "set a key");
}

/* Who connects has to show that it has the secret of an allowed key. */
static dt_status *guard(dt_ps_socket *socket) {
    const dt_ps_keys *keys = socket->options.keys;
    if (keys == NULL) return NULL;
    DT_TRY(dt_ps_zap_open(&socket->zeromq, socket->context, &socket->zap));
    DT_TRY(set(socket, socket->router, ZMQ_CURVE_SERVER, 1));
    DT_TRY(set_key(socket, socket->router, ZMQ_CURVE_SECRETKEY, keys->own_secret));
    if (socket->zeromq.setsockopt(socket->router, ZMQ_ZAP_DOMAIN, DT_PS_ZAP_DOMAIN, strlen(DT_PS_ZAP_DOMAIN)) == 0) return NULL;
    return zeromq_error(socket, "set who may connect");
}

/* Shows the server that, and has it show that it is the server. */
static dt_status *identify(const dt_ps_socket *socket, void *dealer) {
    const dt_ps_keys *keys = socket->options.keys;
    if (keys == NULL) return NULL;
    DT_TRY(set_key(socket, dealer, ZMQ_CURVE_SERVERKEY, keys->server));
    DT_TRY(set_key(socket, dealer, ZMQ_CURVE_PUBLICKEY, keys->own_public));
    return set_key(socket, dealer, ZMQ_CURVE_SECRETKEY, keys->own_secret);
}

static dt_status *watch(dt_ps_socket *socket, void *of, void **monitor) {
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%u", (unsigned)socket->n_monitors++);
    if (socket->zeromq.socket_monitor(of, name, MONITORED) != 0) return zeromq_error(socket, "watch a connection");
    *monitor = socket->zeromq.socket(socket->context, ZMQ_PAIR);
    if (*monitor == NULL || socket->zeromq.connect(*monitor, name) != 0) return zeromq_error(socket, "watch a connection");
    return NULL;
}

/* Beyond this machine only with keys, or for those who have said that they know. */
static dt_status *check_exposure(const dt_ps_socket *socket, const char *address) {
    if (socket->options.insecure || socket->options.keys != NULL || dt_ps_address_is_loopback(address)) return NULL;
    return dt_error(
        DT_FAILED_PRECONDITION,
        "%s is beyond this machine, where anybody could read and change what is sent: --keys DIR encrypts it (dtrun keys DIR makes them), "
        "--insecure goes without",
        dt_ps_address_text(address));
}

static dt_status *start_listening(dt_ps_socket *socket, const char *text) {
    const dt_zeromq *zeromq = &socket->zeromq;
    char address[DT_PS_ADDRESS_BYTES], doing[DT_PS_ADDRESS_BYTES + 16];
    size_t n_bytes = sizeof socket->address;
    DT_TRY(dt_ps_address_to_listen(text, address));
    dt_ps_address_resolve(address);
    DT_TRY(check_exposure(socket, address));
    snprintf(doing, sizeof doing, "listen on %s", dt_ps_address_text(address));
    socket->router = zeromq->socket(socket->context, ZMQ_ROUTER);
    if (socket->router == NULL) return zeromq_error(socket, doing);
    DT_TRY(set_bounds(socket, socket->router, address));
    DT_TRY(set(socket, socket->router, ZMQ_ROUTER_MANDATORY, 1));
    DT_TRY(set(socket, socket->router, ZMQ_BACKLOG, BACKLOG));
    DT_TRY(guard(socket));
    dt_ps_door_options door = {.zeromq = zeromq,
                               .context = socket->context,
                               .listener = socket->router,
                               .most_strangers = socket->options.most_strangers,
                               .seconds = GREETING_SECONDS,
                               .wake = socket->wake};
    DT_TRY(dt_ps_door_open(&door, &socket->door));
    if (zeromq->bind(socket->router, address) != 0) return zeromq_error(socket, doing);
    if (zeromq->getsockopt(socket->router, ZMQ_LAST_ENDPOINT, socket->address, &n_bytes) != 0) return zeromq_error(socket, doing);
    return NULL;
}

/* A DEALER for one connection, and its first message, which waits there until it is connected. */
static dt_status *open_link(dt_ps_socket *socket, dt_ps_link *link) {
    const dt_zeromq *zeromq = &socket->zeromq;
    dt_ps_message hello = {.kind = DT_PS_HELLO, .hello = socket->options.hello};
    char doing[DT_PS_ADDRESS_BYTES + 16];
    snprintf(doing, sizeof doing, "connect to %s", dt_ps_address_text(link->address));
    link->dealer = zeromq->socket(socket->context, ZMQ_DEALER);
    if (link->dealer == NULL) return zeromq_error(socket, doing);
    DT_TRY(set_bounds(socket, link->dealer, link->address));
    DT_TRY(set(socket, link->dealer, ZMQ_RECONNECT_IVL, NEVER_MILLISECONDS)); /* switched off, it would drop what has arrived */
    DT_TRY(identify(socket, link->dealer));
    DT_TRY(watch(socket, link->dealer, &link->monitor));
    if (zeromq->connect(link->dealer, link->address) != 0) return zeromq_error(socket, doing);
    link->connection.state = DT_PS_GREETING;
    link->give_up_at = dt_seconds_now() + GREETING_SECONDS;
    return dt_ps_send_to_server(socket, link, &dt_ps_no_head, &hello);
}

static void fill_in_defaults(dt_ps_socket_options *options) {
    if (options->most_peers == 0) options->most_peers = MOST_PEERS;
    if (options->most_payload_bytes == 0) options->most_payload_bytes = MOST_PAYLOAD_BYTES;
    if (options->most_queued == 0) options->most_queued = MOST_QUEUED;
    if (options->heartbeat_seconds == 0) options->heartbeat_seconds = HEARTBEAT_SECONDS;
    if (options->silence_seconds == 0) options->silence_seconds = SILENCE_SECONDS;
    if (options->hello.highest_version == 0) {
        options->hello.lowest_version = DT_PS_LOWEST_VERSION;
        options->hello.highest_version = DT_PS_HIGHEST_VERSION;
    }
}

static dt_status *bound_connections(dt_ps_socket_options *options, bool listens) {
    if (options->most_strangers == 0) options->most_strangers = options->most_peers;
    return listens ? dt_ps_bound_connections(options->n_servers, &options->most_peers, &options->most_strangers)
                   : dt_ps_bound_connections(options->n_servers, NULL, NULL);
}

static dt_status *prepare_links(dt_ps_socket *socket, const char *const *servers) {
    for (int i = 0; i < socket->options.n_servers; i++) {
        dt_ps_link *link = &socket->links[i];
        DT_TRY(dt_ps_address_to_connect(servers[i], link->address));
        DT_TRY(check_exposure(socket, link->address));
        link->connection.peer = (uint32_t)i;
        link->pause_seconds = DT_PS_FIRST_PAUSE_SECONDS;
        snprintf(link->connection.name, sizeof link->connection.name, "server %.200s", dt_ps_address_text(link->address));
    }
    return NULL;
}

static dt_status *open_all(dt_ps_socket *socket, const dt_ps_socket_options *options) {
    size_t n_servers = (size_t)socket->options.n_servers;
    socket->links = dt_allocate_zeroed(n_servers, sizeof *socket->links);
    socket->peers = dt_allocate_zeroed((size_t)socket->options.most_peers, sizeof *socket->peers);
    socket->items = dt_allocate_zeroed(3 + 2 * n_servers, sizeof *socket->items);
    if (socket->links == NULL || socket->peers == NULL || socket->items == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %d peers of a parameter server", socket->options.most_peers);
    DT_TRY(prepare_links(socket, options->servers));
    DT_TRY(dt_zeromq_open(&socket->zeromq));
    socket->context = socket->zeromq.ctx_new();
    if (socket->context == NULL) return zeromq_error(socket, "start ZeroMQ");
    if (options->listen != NULL) DT_TRY(start_listening(socket, options->listen));
    for (int i = 0; i < socket->options.n_servers; i++) DT_TRY(open_link(socket, &socket->links[i]));
    return NULL;
}

dt_status *dt_ps_socket_open(const dt_ps_socket_options *options, dt_ps_socket **socket) {
    dt_ps_socket *opened = dt_allocate_zeroed(1, sizeof *opened);
    *socket = NULL;
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for a socket");
    opened->options = *options;
    opened->options.listen = NULL;
    opened->options.servers = NULL;
    fill_in_defaults(&opened->options);
    dt_status *status = bound_connections(&opened->options, options->listen != NULL);
    opened->next_peer = (uint32_t)options->n_servers;
    opened->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (status == NULL && opened->wake < 0) status = dt_error(DT_RESOURCE_EXHAUSTED, "no file for events: %s", strerror(errno));
    if (status == NULL) status = open_all(opened, options);
    if (status != NULL)
        dt_ps_socket_close(opened, 0);
    else
        *socket = opened;
    return status;
}

const char *dt_ps_socket_address(const dt_ps_socket *socket) { return socket->address[0] != 0 ? dt_ps_address_text(socket->address) : NULL; }

/* ---- what time brings ---- */

/* Opens what is to be connected to again, gives up what does not answer, and finds out who is still there. *wake: when to look again. */
static dt_status *keep_time(dt_ps_socket *socket, double now, double *wake) {
    for (int i = 0; i < socket->options.n_servers; i++) {
        dt_ps_link *link = &socket->links[i];
        if (link->connection.state == DT_PS_GREETING && now >= link->give_up_at) dt_ps_close_link(socket, link, false);
        if (link->connection.state == DT_PS_CLOSED && now >= link->retry_at) DT_TRY(open_link(socket, link));
        if (link->connection.state == DT_PS_CLOSED) *wake = fmin(*wake, link->retry_at);
        if (link->connection.state == DT_PS_GREETING) *wake = fmin(*wake, link->give_up_at);
    }
    if (now >= socket->next_probe) {
        socket->next_probe = now + (now < socket->probe_eagerly_until ? PROBE_SECONDS : socket->options.heartbeat_seconds);
        for (int i = 0; i < socket->n_peers; i++) {
            dt_ps_message ping = {.kind = DT_PS_PING};
            if (socket->peers[i].connection.state == DT_PS_OPEN) DT_TRY(dt_ps_send(socket, socket->peers[i].connection.peer, &ping));
        }
    }
    if (socket->n_peers > 0) *wake = fmin(*wake, socket->next_probe);
    return NULL;
}

/* A connection whose end has not been told. */
static void tell_lost(dt_ps_socket *socket, dt_ps_event *event) {
    for (int i = 0; i < socket->options.n_servers + socket->n_peers; i++) {
        bool is_link = i < socket->options.n_servers;
        dt_ps_connection *connection = is_link ? &socket->links[i].connection : &socket->peers[i - socket->options.n_servers].connection;
        if (connection->lost_because == NULL) continue;
        dt_ps_tell_gone(event, connection, connection->lost_because);
        connection->lost_because = NULL;
        socket->n_lost--;
        if (is_link) dt_ps_close_link(socket, &socket->links[i], false);
        return;
    }
}

/* Who has left is gone when all that he sent has been read: nothing is left to read, or he cannot have sent more. */
static void find_left(dt_ps_socket *socket, double now, bool nothing_is_left) {
    for (int i = 0; i < socket->n_peers; i++) {
        dt_ps_peer *peer = &socket->peers[i];
        if (peer->connection.state == DT_PS_LEAVING && (nothing_is_left || now > peer->leaving_since + LEAVING_SECONDS))
            dt_ps_lose(socket, &peer->connection, "the connection was lost");
    }
}

/* ---- monitors ---- */

/* What a handshake with a server failed of; NULL: the event is of something else. */
static const char *handshake_failure(uint16_t event) {
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return "the key of this process is not one that the server allows";
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: return "the other side speaks no ZeroMQ, or without keys where there are some, or with other keys";
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return "the other side has ended the handshake: is it a parameter server, and are its keys the right ones?";
    default: return NULL;
    }
}

/* *any: whether there was something to read; *event: what it was. */
static dt_status *read_monitor(dt_ps_socket *socket, void *monitor, uint16_t *event, bool *any) {
    const dt_zeromq *zeromq = &socket->zeromq;
    dt_ps_frames frames;
    *event = 0;
    DT_TRY(dt_ps_frames_receive(zeromq, monitor, &frames, any));
    if (*any && zeromq->msg_size(&frames.items[0]) >= sizeof *event) memcpy(event, zeromq->msg_data(&frames.items[0]), sizeof *event);
    dt_ps_frames_close(zeromq, &frames);
    return NULL;
}

/* A server's own: the connection is over. */
static dt_status *watch_link(dt_ps_socket *socket, dt_ps_link *link, dt_ps_event *event, bool *any) {
    uint16_t news;
    *any = false;
    if (link->monitor == NULL) return NULL;
    DT_TRY(read_monitor(socket, link->monitor, &news, any));
    if (news == 0 || link->connection.state == DT_PS_LOST) return NULL;
    if (link->connection.state == DT_PS_OPEN) {
        dt_ps_lose(socket, &link->connection, "the connection was lost");
        return NULL;
    }
    bool is_final = news == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    const char *failure = handshake_failure(news);
    if (failure != NULL) dt_ps_tell_refused(socket, event, link->connection.name, failure);
    event->peer = link->connection.peer;
    event->is_final = is_final && event->kind == DT_PS_REFUSED;
    dt_ps_close_link(socket, link, is_final);
    return NULL;
}

/* Of those who have connected: somebody is gone, who has to be found, or was a stranger. */
static void watch_peers(dt_ps_socket *socket, dt_ps_event *event) {
    dt_ps_door_news news;
    char why[160];
    if (socket->door == NULL) return;
    dt_ps_door_take_news(socket->door, &news);
    if (news.any_gone) {
        socket->next_probe = dt_seconds_now();
        socket->probe_eagerly_until = socket->next_probe + PROBING_SECONDS;
    }
    if (news.n_failed + news.n_crowded == 0) return;
    if (news.n_crowded > 0)
        snprintf(why, sizeof why, "there were more than %d connections that had not said who they are, and the oldest were ended",
                 socket->options.most_strangers);
    else if (news.failure == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        snprintf(why, sizeof why, "the other side speaks no ZeroMQ, or without keys where there are some, or with other keys");
    else
        snprintf(why, sizeof why, "the other side has ended the handshake, or not within %g s", GREETING_SECONDS);
    socket->n_untold += (news.n_crowded > news.n_failed ? news.n_crowded : news.n_failed) - 1;
    dt_ps_tell_refused(socket, event, "somebody who has connected", why);
}

/* Says who may connect. */
static dt_status *watch_door(dt_ps_socket *socket, dt_ps_event *event, bool *any) {
    char who[128];
    if (socket->zap == NULL) return NULL;
    DT_TRY(dt_ps_zap_answer(&socket->zeromq, socket->zap, socket->options.keys, who, sizeof who, any));
    if (who[0] != 0) dt_ps_tell_refused(socket, event, who, "this key is not allowed");
    return NULL;
}

/* ---- closing ---- */

/* Whether what is still to be sent to a server may arrive. */
static bool is_there(dt_ps_socket *socket, const dt_ps_link *link) {
    uint16_t news = 0;
    bool any = link->connection.state == DT_PS_OPEN && link->monitor != NULL;
    if (!any) return false;
    dt_status_free(read_monitor(socket, link->monitor, &news, &any));
    return news == 0;
}

void dt_ps_socket_close(dt_ps_socket *socket, double seconds) {
    if (socket == NULL) return;
    for (int i = 0; socket->links != NULL && i < socket->options.n_servers; i++) {
        dt_ps_link *link = &socket->links[i];
        dt_ps_close_monitored(socket, &link->dealer, &link->monitor, is_there(socket, link) ? seconds : 0);
    }
    dt_ps_door_close(socket->door);
    dt_ps_close_monitored(socket, &socket->router, NULL, seconds);
    if (socket->zap != NULL) socket->zeromq.close(socket->zap);
    if (socket->context != NULL)
        while (socket->zeromq.ctx_term(socket->context) != 0 && errno == EINTR) {
        }
    if (socket->wake >= 0) close(socket->wake);
    dt_release(socket->items);
    dt_release(socket->peers);
    dt_release(socket->links);
    dt_release(socket);
}

/* ---- receiving ---- */

/* From one of the DEALERs, or from the ROUTER. */
static dt_status *read_one(dt_ps_socket *socket, int which, dt_ps_event *event, bool *any) {
    dt_ps_link *link = which < socket->options.n_servers ? &socket->links[which] : NULL;
    void *from = link != NULL ? link->dealer : socket->router;
    dt_ps_frames frames;
    *any = false;
    if (from == NULL) return NULL;
    DT_TRY(dt_ps_frames_receive(&socket->zeromq, from, &frames, any));
    if (!*any) return NULL;
    dt_status *status = link != NULL ? dt_ps_hear_server(socket, link, &frames, event) : dt_ps_hear_peer(socket, &frames, event);
    dt_ps_frames_close(&socket->zeromq, &frames);
    return status;
}

/* Reads until something happens that is worth telling; *any: there was anything at all. Whoever was read from has the last turn next. */
static dt_status *read_all(dt_ps_socket *socket, dt_ps_event *event, bool *any) {
    int n = socket->options.n_servers + 1;
    bool read = false;
    *any = false;
    DT_TRY(watch_door(socket, event, any));
    if (event->kind == DT_PS_NOTHING) watch_peers(socket, event);
    for (int i = 0; i < n && event->kind == DT_PS_NOTHING; i++) {
        int which = (socket->turn + i) % n;
        DT_TRY(read_one(socket, which, event, &read));
        *any |= read;
        if (event->kind != DT_PS_NOTHING) socket->turn = which + 1;
    }
    for (int i = 0; i + 1 < n && !*any && event->kind == DT_PS_NOTHING; i++) {
        DT_TRY(watch_link(socket, &socket->links[i], event, &read)); /* when all that came before the connection was lost has been read */
        *any |= read;
    }
    return NULL;
}

static int add_item(dt_ps_socket *socket, int n, void *from) {
    if (from != NULL) socket->items[n++] = (zmq_pollitem_t){.socket = from, .events = ZMQ_POLLIN};
    return n;
}

/* Until there is something to read. *interrupted: or a signal came, or somebody who wants this to end. */
static dt_status *wait_for_input(dt_ps_socket *socket, double seconds, bool *interrupted) {
    int n = add_item(socket, add_item(socket, 0, socket->router), socket->zap);
    for (int i = 0; i < socket->options.n_servers; i++) n = add_item(socket, add_item(socket, n, socket->links[i].dealer), socket->links[i].monitor);
    socket->items[n++] = (zmq_pollitem_t){.fd = socket->wake, .events = ZMQ_POLLIN};
    int ready = socket->zeromq.poll(socket->items, n, milliseconds(fmax(seconds, LEAST_WAIT_SECONDS)));
    uint64_t n_wakes;
    *interrupted = (ready < 0 && errno == EINTR) || (ready > 0 && read(socket->wake, &n_wakes, sizeof n_wakes) == sizeof n_wakes);
    return ready < 0 && !*interrupted ? zeromq_error(socket, "wait for messages") : NULL;
}

void dt_ps_socket_outlast(dt_ps_socket *socket) { socket->outlasts = true; }

void dt_ps_socket_wake(dt_ps_socket *socket) {
    const uint64_t one = 1;
    (void)!write(socket->wake, &one, sizeof one);
}

dt_status *dt_ps_receive(dt_ps_socket *socket, double seconds, dt_ps_event *event) {
    double now = dt_seconds_now(), end = now + seconds;
    bool interrupted = false;
    event->kind = DT_PS_NOTHING;
    event->message.kind = DT_PS_PING;
    event->message.payload = (dt_ps_payload){0};
    event->text[0] = 0;
    event->is_final = false;
    while (!interrupted) {
        double wake = end;
        bool any;
        DT_TRY(keep_time(socket, now, &wake));
        if (socket->n_lost > 0) tell_lost(socket, event);
        if (event->kind != DT_PS_NOTHING) return NULL;
        DT_TRY(read_all(socket, event, &any));
        if (event->kind != DT_PS_NOTHING) return NULL;
        find_left(socket, now, !any);
        now = dt_seconds_now();
        if (any || socket->n_lost > 0) {
            if (now < end) continue;
            return NULL;
        }
        if (now >= end) return NULL;
        DT_TRY(wait_for_input(socket, wake - now, &interrupted));
        now = dt_seconds_now();
    }
    return NULL;
}
