/* ps_peers: workers and servers that are sockets of a test, which says for them what it likes. */
#ifndef DT_TESTS_SUPPORT_PS_PEERS_H
#define DT_TESTS_SUPPORT_PS_PEERS_H

#include "runtime/ps/socket.h"
#include "runtime/threads/clock.h"
#include "tests/support/expect.h"

#include <stdio.h>

static const double PATIENCE_SECONDS = 20; /* on a busy machine */
static const uint8_t ps_artifact[32] = {1, 2, 3};

static inline dt_ps_socket *open_socket(const char *name, dt_ps_role role, int part, const char *const *servers, int n_servers) {
    dt_ps_socket *socket;
    dt_ps_socket_options options = {.servers = servers, .n_servers = n_servers, .listen = n_servers == 0 ? "127.0.0.1:*" : NULL};
    options.hello = (dt_ps_hello){.role = (uint8_t)role, .part = (uint32_t)part};
    memcpy(options.hello.artifact, ps_artifact, sizeof ps_artifact);
    snprintf(options.hello.name, sizeof options.hello.name, "%s", name);
    expect_ok(dt_ps_socket_open(&options, &socket));
    return socket;
}

static inline dt_ps_socket *server_0(void) { return open_socket("server", DT_PS_SERVER, 0, NULL, 0); }
static inline dt_ps_socket *worker_of(const char *name, const char *address) { return open_socket(name, DT_PS_WORKER, 0, &address, 1); }

/* The next event of that kind, and of a message of `what`; others are passed over. Its payload is the caller's. */
static inline dt_ps_event expect_with_payload(dt_ps_socket *socket, dt_ps_event_kind kind, dt_ps_kind what, const char *words) {
    dt_ps_event event = {0};
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; dt_seconds_now() < end;) {
        expect_ok(dt_ps_receive(socket, 0.01, &event));
        if (event.kind == kind && (kind != DT_PS_MESSAGE || event.message.kind == what) && strstr(event.text, words) != NULL) return event;
        if (event.kind == DT_PS_MESSAGE) dt_ps_payload_release(&event.message.payload);
    }
    fail_msg("no event %d, message %d, %s", kind, what, words);
    return event;
}

static inline dt_ps_event expect(dt_ps_socket *socket, dt_ps_event_kind kind, dt_ps_kind what, const char *words) {
    dt_ps_event event = expect_with_payload(socket, kind, what, words);
    if (event.kind == DT_PS_MESSAGE) dt_ps_payload_release(&event.message.payload);
    return event;
}

static inline dt_ps_event expect_message(dt_ps_socket *socket, dt_ps_kind what) { return expect(socket, DT_PS_MESSAGE, what, ""); }
static inline uint32_t expect_peer(dt_ps_socket *socket) { return expect(socket, DT_PS_JOINED, DT_PS_PING, "").peer; }

static inline void say(dt_ps_socket *socket, uint32_t peer, dt_ps_message message) { expect_ok(dt_ps_send(socket, peer, &message)); }
static inline void offer(dt_ps_socket *socket, uint64_t id, uint64_t left) {
    say(socket, 0, (dt_ps_message){.kind = DT_PS_OFFER, .offer = {.id = id, .left = left}});
}
static inline void say_job(dt_ps_socket *socket, uint32_t peer, const char *name) {
    dt_ps_message message = {.kind = DT_PS_JOB};
    snprintf(message.job.name, sizeof message.job.name, "%s", name);
    say(socket, peer, message);
}
static inline void ready(dt_ps_socket *socket, uint64_t plan) { say(socket, 0, (dt_ps_message){.kind = DT_PS_READY, .ready = {.plan = plan}}); }

#endif
