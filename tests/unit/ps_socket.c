/* ps_socket: two ends of connections in one process: who joins and who is refused, that messages arrive whole and once, that an end is told, however
 * it comes, and that nothing that somebody sends to the port does any harm. */
#include "runtime/ps/socket.h"

#include "runtime/ps/frames.h"
#include "runtime/threads/clock.h"
#include "tests/support/expect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const double PATIENCE_SECONDS = 20; /* on a busy machine */

static dt_ps_hello introduction(dt_ps_role role, const char *name) {
    dt_ps_hello hello = {.role = (uint8_t)role, .artifact = {1, 2, 3}};
    snprintf(hello.name, sizeof hello.name, "%s", name);
    return hello;
}

static dt_ps_socket *listen_as(dt_ps_hello hello, dt_ps_socket_options options) {
    dt_ps_socket *socket;
    options.listen = options.listen != NULL ? options.listen : "127.0.0.1:*";
    options.hello = hello;
    expect_ok(dt_ps_socket_open(&options, &socket));
    return socket;
}

static dt_ps_socket *listen_here(void) { return listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){0}); }

static dt_ps_socket *connect_with(dt_ps_hello hello, const char *address, int most_queued) {
    dt_ps_socket *socket;
    dt_ps_socket_options options = {.servers = &address, .n_servers = 1, .hello = hello, .most_queued = most_queued};
    expect_ok(dt_ps_socket_open(&options, &socket));
    return socket;
}

static dt_ps_socket *connect_as(dt_ps_hello hello, const char *address) { return connect_with(hello, address, 0); }

static dt_ps_socket *connect_to(const dt_ps_socket *server) { return connect_as(introduction(DT_PS_WORKER, "two"), dt_ps_socket_address(server)); }

/* The next event of `socket`, while `other`, which may be NULL, is at work too: nothing must happen there. */
static dt_ps_event next(dt_ps_socket *socket, dt_ps_socket *other) {
    static dt_ps_event idle;
    dt_ps_event event = {0};
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; dt_seconds_now() < end;) {
        expect_ok(dt_ps_receive(socket, 0.01, &event));
        if (event.kind != DT_PS_NOTHING) return event;
        if (other == NULL) continue;
        expect_ok(dt_ps_receive(other, 0, &idle));
        if (idle.kind != DT_PS_NOTHING) fail_msg("at the other end: %d, %s", idle.kind, idle.text);
    }
    fail_msg("nothing happens");
    return event;
}

static dt_ps_event expect_event(dt_ps_socket *socket, dt_ps_socket *other, dt_ps_event_kind kind, const char *words) {
    dt_ps_event event = next(socket, other);
    if (event.kind != kind || strstr(event.text, words) == NULL) fail_msg("event %d, %s; not %d, %s", event.kind, event.text, kind, words);
    return event;
}

/* Both have joined; the number of the worker at the server. */
static uint32_t join(dt_ps_socket *server, dt_ps_socket *worker) {
    dt_ps_event joined = expect_event(server, worker, DT_PS_JOINED, "");
    expect_event(worker, NULL, DT_PS_JOINED, "");
    return joined.peer;
}

static dt_ps_message ping(void) { return (dt_ps_message){.kind = DT_PS_PING}; }

static void both_join_and_know_each_other(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here(), *worker = connect_to(server);
    dt_ps_event joined = expect_event(server, worker, DT_PS_JOINED, "");
    assert_string_equal(joined.message.hello.name, "two");
    assert_int_equal(joined.peer, 0);
    assert_string_equal(dt_ps_peer_name(server, joined.peer), "worker two (127.0.0.1)");
    dt_ps_event welcomed = expect_event(worker, server, DT_PS_JOINED, "");
    assert_string_equal(welcomed.message.welcome.name, "one");
    assert_int_equal(welcomed.message.welcome.version, DT_PS_HIGHEST_VERSION);
    assert_string_equal(dt_ps_peer_name(worker, 0), "server 0, one (127.0.0.1)");
    dt_ps_socket_close(worker, 0);
    expect_event(server, NULL, DT_PS_GONE, "worker two (127.0.0.1): the connection was lost");
    dt_ps_socket_close(server, 0);
}

static void *wake_soon(void *socket) {
    usleep(50000);
    dt_ps_socket_wake(socket);
    return NULL;
}

static void a_wait_is_ended_by_another_thread(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    dt_ps_event event;
    pthread_t thread;
    double began = dt_seconds_now();
    assert_int_equal(pthread_create(&thread, NULL, wake_soon, server), 0);
    expect_ok(dt_ps_receive(server, PATIENCE_SECONDS, &event));
    assert_true(event.kind == DT_PS_NOTHING && dt_seconds_now() - began < PATIENCE_SECONDS / 2);
    pthread_join(thread, NULL);
    dt_ps_socket_wake(server); /* before the wait */
    expect_ok(dt_ps_receive(server, PATIENCE_SECONDS, &event));
    assert_true(dt_seconds_now() - began < PATIENCE_SECONDS / 2);
    dt_ps_socket_close(server, 0);
}

/* ---- payloads ---- */

/* The first that has one. */
static dt_ps_kind payload_kind(void) {
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++)
        if (dt_ps_kind_item_bytes((dt_ps_kind)kind) > 0) return (dt_ps_kind)kind;
    fail_msg("no message has a payload");
    return DT_PS_N_KINDS;
}

static int n_released;

static void count_released(void *owner) {
    __atomic_add_fetch(&n_released, 1, __ATOMIC_SEQ_CST);
    free(owner);
}

/* n bytes of `first`, `first` + 1, … that belong to the message. */
static dt_ps_message data(size_t n, uint8_t first) {
    uint8_t *bytes = malloc(n > 0 ? n : 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(first + i);
    return (dt_ps_message){.kind = payload_kind(), .payload = {.data = bytes, .bytes = n, .release = count_released, .owner = bytes}};
}

static void payloads_arrive_whole_in_order_and_are_released(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 100, 4096, 10000, 3 << 20};
    enum {
        N = sizeof sizes / sizeof *sizes
    };
    dt_ps_socket *server = listen_here(), *worker = connect_to(server);
    dt_ps_payload kept[N];
    join(server, worker);
    n_released = 0;
    for (int i = 0; i < N; i++) {
        dt_ps_message message = data(sizes[i], (uint8_t)i);
        expect_ok(dt_ps_send(worker, 0, &message));
        assert_null(message.payload.data); /* it is given away */
    }
    for (int i = 0; i < N; i++) {
        dt_ps_event event = expect_event(server, worker, DT_PS_MESSAGE, "");
        assert_int_equal(event.message.payload.bytes, sizes[i]);
        kept[i] = event.message.payload; /* for as long as one likes */
    }
    for (int i = 0; i < N; i++) {
        const uint8_t *bytes = kept[i].data;
        assert_int_equal((uintptr_t)bytes % 8, 0);
        for (size_t b = 0; b < sizes[i]; b++)
            if (bytes[b] != (uint8_t)((size_t)i + b)) fail_msg("byte %zu of %zu", b, sizes[i]);
        dt_ps_payload_release(&kept[i]);
    }
    uint8_t lent[100] = {1, 2, 3};
    dt_ps_message message = {.kind = payload_kind(), .payload = {.data = lent, .bytes = sizeof lent}};
    expect_ok(dt_ps_send(worker, 0, &message));
    memset(lent, 0, sizeof lent); /* it has been copied */
    dt_ps_event event = expect_event(server, worker, DT_PS_MESSAGE, "");
    assert_int_equal(((const uint8_t *)event.message.payload.data)[2], 3);
    dt_ps_payload_release(&event.message.payload);
    message = data(1000, 0);
    expect_ok(dt_ps_send(worker, 7, &message)); /* nobody */
    dt_ps_socket_close(worker, 1);
    dt_ps_socket_close(server, 0);
    assert_int_equal(n_released, N + 1);
}

static void a_payload_beyond_the_bound_ends_the_connection(void **state) {
    (void)state;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.most_payload_bytes = 1 << 16}),
                 *worker = connect_to(server);
    join(server, worker);
    dt_ps_message message = data((1 << 16) + 1, 0);
    expect_ok(dt_ps_send(worker, 0, &message));
    expect_event(server, NULL, DT_PS_GONE, "the connection was lost");
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

static void who_reads_nothing_is_gone(void **state) {
    (void)state;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.most_queued = 4});
    dt_ps_socket *worker = connect_with(introduction(DT_PS_WORKER, "two"), dt_ps_socket_address(server), 4);
    uint32_t peer = join(server, worker);
    for (int i = 0; i < 200; i++) { /* the worker's queue and the system's buffers are filled first */
        dt_ps_message message = data(1 << 20, 0);
        expect_ok(dt_ps_send(server, peer, &message));
    }
    expect_event(server, NULL, DT_PS_GONE, "worker two (127.0.0.1): it reads nothing any more");
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

static void who_does_not_belong_is_refused_and_named(void **state) {
    (void)state;
    dt_ps_hello ours = introduction(DT_PS_SERVER, "one"), artifact = introduction(DT_PS_WORKER, "two\033[2J"), version = artifact,
                settings = artifact;
    strcpy(ours.settings, "--seed=1\n--replicas 4\n--epochs=3\n");
    strcpy(settings.settings, "--seed=1\n--replicas 8\n");
    artifact.artifact[31] = 9;
    version.lowest_version = DT_PS_HIGHEST_VERSION + 1;
    version.highest_version = DT_PS_HIGHEST_VERSION + 3;
    const struct {
        dt_ps_hello hello;
        const char *words;
    } refused[] = {{artifact, "its artifact has the SHA-256 0102030000000000…, that of server 0, one 0102030000000000…"},
                   {version, "it speaks versions 3 to 5 of the protocol, and server 0, one 2 to 2"},
                   {settings, "its settings are others: \"--replicas 8\" where server 0, one has \"--replicas 4 --epochs=3\""}};
    dt_ps_socket *server = listen_as(ours, (dt_ps_socket_options){0});
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        dt_ps_socket *worker = connect_as(refused[i].hello, dt_ps_socket_address(server));
        dt_ps_event event = expect_event(server, worker, DT_PS_REFUSED, refused[i].words);
        assert_non_null(strstr(event.text, "worker two?[2J (127.0.0.1): it")); /* and nothing that a terminal would obey */
        event = expect_event(worker, server, DT_PS_REFUSED, refused[i].words);
        assert_non_null(strstr(event.text, " refuses this process: "));
        assert_true(event.is_final);
        dt_ps_socket_close(worker, 0);
    }
    dt_ps_socket_close(server, 0);
}

static void one_too_many_is_told_to_come_later(void **state) {
    (void)state;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.most_peers = 1}), *first = connect_to(server);
    join(server, first);
    dt_ps_socket *second = connect_to(server);
    expect_event(server, second, DT_PS_REFUSED, "there are 1 peers already");
    assert_false(expect_event(second, server, DT_PS_REFUSED, "there are 1 peers already").is_final);
    dt_ps_socket_close(first, 0);
    dt_ps_event event = {0}, of_second;
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; event.kind != DT_PS_JOINED && dt_seconds_now() < end;) {
        expect_ok(dt_ps_receive(second, 0.01, &of_second)); /* it comes again by itself */
        expect_ok(dt_ps_receive(server, 0.01, &event));
    }
    assert_int_equal(event.kind, DT_PS_JOINED);
    dt_ps_socket_close(second, 0);
    dt_ps_socket_close(server, 0);
}

static void a_server_that_comes_back_is_found(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here(), *worker = connect_to(server);
    char address[64];
    snprintf(address, sizeof address, "%s", dt_ps_socket_address(server));
    join(server, worker);
    dt_ps_socket_close(server, 0);
    expect_event(worker, NULL, DT_PS_GONE, "server 0, one (127.0.0.1): the connection was lost");
    dt_ps_message lost = ping();
    expect_ok(dt_ps_send(worker, 0, &lost)); /* into nothing */
    dt_ps_event event;
    expect_ok(dt_ps_receive(worker, 0.3, &event)); /* attempts that fail */
    assert_int_equal(event.kind, DT_PS_NOTHING);
    server = listen_as(introduction(DT_PS_SERVER, "one again"), (dt_ps_socket_options){.listen = address});
    join(server, worker);
    assert_string_equal(dt_ps_peer_name(worker, 0), "server 0, one again (127.0.0.1)");
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

/* Runs `child` with the address of `server` in a process of its own. */
static pid_t start(const dt_ps_socket *server, void (*child)(const char *address)) {
    char address[64];
    snprintf(address, sizeof address, "%s", dt_ps_socket_address(server));
    pid_t pid = fork();
    if (pid == 0) {
        child(address);
        _exit(0);
    }
    return pid;
}

static void join_and_stay(const char *address) {
    dt_ps_socket *worker = connect_as(introduction(DT_PS_WORKER, "child"), address);
    for (dt_ps_event event;;) dt_status_free(dt_ps_receive(worker, 1, &event));
}

static void who_is_killed_is_gone_at_once(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    pid_t child = start(server, join_and_stay);
    expect_event(server, NULL, DT_PS_JOINED, "");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    expect_event(server, NULL, DT_PS_GONE, "worker child (127.0.0.1): the connection was lost");
    dt_ps_socket_close(server, 0);
}

static void who_is_stopped_is_gone_after_the_silence(void **state) {
    (void)state;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.heartbeat_seconds = 0.1, .silence_seconds = 0.5});
    pid_t child = start(server, join_and_stay);
    expect_event(server, NULL, DT_PS_JOINED, "");
    double before = dt_seconds_now();
    kill(child, SIGSTOP);
    expect_event(server, NULL, DT_PS_GONE, "worker child (127.0.0.1): the connection was lost");
    assert_true(dt_seconds_now() - before > 0.4);
    kill(child, SIGCONT);
    expect_event(server, NULL, DT_PS_JOINED, ""); /* it notices, and joins anew */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    dt_ps_socket_close(server, 0);
}

static void who_is_refused_later_is_told(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here(), *worker = connect_to(server);
    uint32_t peer = join(server, worker);
    expect_ok(dt_ps_refuse(server, peer, DT_PS_REFUSED_OTHERWISE, "part %d is served already", 1));
    assert_true(expect_event(worker, server, DT_PS_GONE, " refuses this process: part 1 is served already").is_final);
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

/* ---- what a stranger can send ---- */

/* A DEALER of the test's own, which says what it likes. */
typedef struct stranger {
    dt_zeromq zeromq;
    void *context, *dealer;
    uint64_t session;
} stranger;

static stranger connect_stranger(const dt_ps_socket *server) {
    stranger self = {0};
    char address[80];
    int linger = 0;
    snprintf(address, sizeof address, "tcp://%s", dt_ps_socket_address(server));
    expect_ok(dt_zeromq_open(&self.zeromq));
    self.context = self.zeromq.ctx_new();
    self.dealer = self.zeromq.socket(self.context, ZMQ_DEALER);
    self.zeromq.setsockopt(self.dealer, ZMQ_LINGER, &linger, sizeof linger);
    assert_int_equal(self.zeromq.connect(self.dealer, address), 0);
    return self;
}

static void disconnect(stranger *self) {
    self->zeromq.close(self->dealer);
    self->zeromq.ctx_term(self->context);
}

static void say_bytes(stranger *self, const void *bytes, size_t n, bool more) {
    zmq_msg_t frame;
    self->zeromq.msg_init_size(&frame, n);
    memcpy(self->zeromq.msg_data(&frame), bytes, n);
    assert_true(self->zeromq.msg_send(&frame, self->dealer, more ? ZMQ_SNDMORE : 0) >= 0);
}

static void say(stranger *self, const dt_ps_message *message, uint64_t session, uint64_t sequence) {
    dt_ps_buffer buffer;
    size_t n;
    dt_ps_head head = {.version = session != 0 ? DT_PS_HIGHEST_VERSION : 0, .session = session, .sequence = sequence};
    expect_ok(dt_ps_encode(message, &head, &buffer, &n));
    say_bytes(self, buffer.bytes, n, false);
}

static void say_hello(stranger *self) {
    dt_ps_message hello = {.kind = DT_PS_HELLO, .hello = introduction(DT_PS_WORKER, "stranger")};
    hello.hello.lowest_version = hello.hello.highest_version = DT_PS_HIGHEST_VERSION;
    say(self, &hello, 0, 0);
}

/* What the server says to the stranger. */
static dt_ps_message listen_to(stranger *self) {
    static dt_ps_message message;
    dt_ps_frames frames;
    dt_ps_head head;
    bool any = false;
    zmq_pollitem_t item = {.socket = self->dealer, .events = ZMQ_POLLIN};
    assert_int_equal(self->zeromq.poll(&item, 1, (long)(PATIENCE_SECONDS * 1000)), 1);
    expect_ok(dt_ps_frames_receive(&self->zeromq, self->dealer, &frames, &any));
    expect_ok(dt_ps_frames_decode(&self->zeromq, &frames, 0, &head, &message));
    dt_ps_frames_close(&self->zeromq, &frames);
    return message;
}

static void join_as_stranger(stranger *self, dt_ps_socket *server) {
    say_hello(self);
    expect_event(server, NULL, DT_PS_JOINED, "");
    dt_ps_message answer = listen_to(self);
    assert_int_equal(answer.kind, DT_PS_WELCOME);
    self->session = answer.welcome.session;
}

/* A worker joins, and goes; strangers may still be told of. */
static void expect_unharmed(dt_ps_socket *server) {
    dt_ps_socket *worker = connect_to(server);
    dt_ps_event event = next(server, worker);
    while (event.kind == DT_PS_REFUSED) event = next(server, worker);
    assert_int_equal(event.kind, DT_PS_JOINED);
    dt_ps_socket_close(worker, 0);
    do event = next(server, NULL);
    while (event.kind == DT_PS_REFUSED);
    assert_int_equal(event.kind, DT_PS_GONE);
}

static void a_message_is_taken_once(void **state) {
    (void)state;
    const struct {
        uint64_t other_session, sequence;
        const char *words;
    } wrong[] = {{0, 0, "message 0 of the connection, where 1 is the next: one is sent again"},
                 {0, 2, "message 2 of the connection, where 1 is the next: one is missing"},
                 {1, 1, "a message of another connection, sent again"}};
    dt_ps_socket *server = listen_here();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stranger self = connect_stranger(server);
        dt_ps_message message = ping();
        join_as_stranger(&self, server);
        say(&self, &message, self.session, 0);
        say(&self, &message, self.session + wrong[i].other_session, wrong[i].sequence);
        expect_event(server, NULL, DT_PS_GONE, wrong[i].words);
        dt_ps_message answer = listen_to(&self);
        while (answer.kind == DT_PS_PING) answer = listen_to(&self);
        assert_int_equal(answer.kind, DT_PS_REFUSAL);
        assert_non_null(strstr(answer.refusal.reason, wrong[i].words));
        say(&self, &message, self.session, 1); /* too late */
        disconnect(&self);
    }
    expect_unharmed(server);
    dt_ps_socket_close(server, 0);
}

static void what_a_stranger_says_without_a_hello_is_refused(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    stranger self = connect_stranger(server);
    dt_ps_message message = ping();
    say(&self, &message, 0, 0);
    expect_event(server, NULL, DT_PS_REFUSED, "somebody at 127.0.0.1: message ping without a hello before");
    say_bytes(&self, "hello", 5, false);
    expect_event(server, NULL, DT_PS_REFUSED, "somebody at 127.0.0.1: 5 bytes that are no message of ours");
    for (int i = 0; i < 9; i++) say_bytes(&self, "", 0, i < 8);
    expect_event(server, NULL, DT_PS_REFUSED, "somebody at 127.0.0.1: a message in 9 frames");
    say_hello(&self); /* and may then behave */
    expect_event(server, NULL, DT_PS_JOINED, "");
    say_hello(&self);
    expect_event(server, NULL, DT_PS_GONE, "worker stranger (127.0.0.1): a second hello");
    disconnect(&self);
    expect_unharmed(server);
    dt_ps_socket_close(server, 0);
}

static int connect_raw(const dt_ps_socket *server) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(dt_ps_socket_address(server), ':') + 1));
    int raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(raw, (struct sockaddr *)&to, sizeof to), 0);
    return raw;
}

static void bytes_that_are_no_zeromq_do_no_harm(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    uint64_t random = 7;
    for (int i = 0; i < 40; i++) {
        uint8_t bytes[500];
        int raw = connect_raw(server);
        for (size_t b = 0; b < sizeof bytes; b++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[b] = (uint8_t)(random >> 56);
        }
        if (i % 2 == 0) memcpy(bytes, "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16); /* a greeting of ZeroMQ's, and then noise */
        ssize_t sent = send(raw, bytes, i % 5 == 0 ? 40 : sizeof bytes, MSG_NOSIGNAL);
        assert_true(sent != 0);
        close(raw);
    }
    expect_unharmed(server);
    dt_ps_socket_close(server, 0);
}

/* Whether the other end has ended it. */
static bool is_ended(int raw) {
    char bytes[100];
    ssize_t n = recv(raw, bytes, sizeof bytes, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void strangers_are_no_more_than_the_bound(void **state) {
    (void)state;
    enum {
        MOST = 4,
        N = 30
    };
    int raw[N], n_ended = 0;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.most_strangers = MOST}), *worker = connect_to(server);
    join(server, worker); /* is none of them, and is not ended */
    for (int i = 0; i < N; i++) raw[i] = connect_raw(server);
    expect_event(server, worker, DT_PS_REFUSED, "there were more than 4 connections that had not said who they are");
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; n_ended < N - MOST && dt_seconds_now() < end; usleep(10000)) {
        n_ended = 0;
        for (int i = 0; i < N; i++) n_ended += is_ended(raw[i]);
    }
    assert_int_equal(n_ended, N - MOST);
    dt_ps_message message = ping();
    for (int i = 0; i < N; i++) close(raw[i]);
    expect_ok(dt_ps_send(worker, 0, &message));
    dt_ps_event event;
    for (double end = dt_seconds_now() + 0.3; dt_seconds_now() < end;) {
        expect_ok(dt_ps_receive(worker, 0.01, &event));
        assert_int_equal(event.kind, DT_PS_NOTHING);
        expect_ok(dt_ps_receive(server, 0.01, &event));
        assert_true(event.kind == DT_PS_NOTHING || event.kind == DT_PS_REFUSED);
    }
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

static void too_few_descriptors_are_an_error(void **state) {
    (void)state;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t n = 4; n < 48; n++) {
        dt_ps_socket_options options = {.listen = "127.0.0.1:*"};
        dt_ps_socket *socket;
        few = (struct rlimit){n, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        dt_status *status = dt_ps_socket_open(&options, &socket);
        setrlimit(RLIMIT_NOFILE, &before);
        if (n < 16)
            expect_error(status, DT_RESOURCE_EXHAUSTED, "raise the limit (ulimit -n)");
        else
            dt_status_free(status);
        dt_ps_socket_close(socket, 0);
    }
}

static void who_has_found_no_server_ends_at_once(void **state) {
    (void)state;
    dt_ps_socket *worker = connect_as(introduction(DT_PS_WORKER, "two"), "127.0.0.1:1");
    double began = dt_seconds_now();
    dt_ps_socket_close(worker, 2 * PATIENCE_SECONDS); /* its hello waits for nobody */
    assert_true(dt_seconds_now() - began < PATIENCE_SECONDS);
}

static void strangers_cannot_fill_a_log(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    stranger self = connect_stranger(server);
    int n_told = 0;
    for (int i = 0; i < 200; i++) say_bytes(&self, "noise", 5, false);
    dt_ps_event event;
    for (double end = dt_seconds_now() + 1; dt_seconds_now() < end;) {
        expect_ok(dt_ps_receive(server, 0.1, &event));
        n_told += event.kind == DT_PS_REFUSED;
    }
    assert_in_range(n_told, 20, 30);
    say_bytes(&self, "noise", 5, false);
    event = expect_event(server, NULL, DT_PS_REFUSED, " others before)");
    disconnect(&self);
    expect_unharmed(server);
    dt_ps_socket_close(server, 0);
}

static void addresses_are_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {"",           "host",           "host:",           ":7000",    "host:0",        "host:65536",
                                        "host:7000x", "ipc:///tmp/x:1", "udp://host:7000", "a b:7000", "eth0;host:7000"};
    dt_ps_socket *socket;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dt_ps_socket_options connects = {.servers = &wrong[i], .n_servers = 1}, listens = {.listen = wrong[i]};
        expect_error(dt_ps_socket_open(&connects, &socket), DT_INVALID_ARGUMENT, "is no address to connect to");
        expect_error(dt_ps_socket_open(&listens, &socket), DT_INVALID_ARGUMENT, "is no address to listen on");
        assert_null(socket);
    }
    const char *far = "10.0.0.7:7000";
    dt_ps_socket_options connects = {.servers = &far, .n_servers = 1}, listens = {.listen = "*:*"};
    expect_error(dt_ps_socket_open(&connects, &socket), DT_FAILED_PRECONDITION, "10.0.0.7:7000 is beyond this machine");
    expect_error(dt_ps_socket_open(&listens, &socket), DT_FAILED_PRECONDITION, "*:* is beyond this machine");
    listens.listen = "127.0.0.1:*";
    expect_ok(dt_ps_socket_open(&listens, &socket));
    listens.listen = dt_ps_socket_address(socket);
    dt_ps_socket *second;
    expect_error(dt_ps_socket_open(&listens, &second), DT_IO, "Address already in use");
    dt_ps_socket_close(socket, 0);
}

static void a_name_of_this_machine_is_listened_on(void **state) {
    (void)state;
    dt_ps_socket *server = listen_as(introduction(DT_PS_SERVER, "one"), (dt_ps_socket_options){.listen = "localhost:*"}), *worker;
    assert_true(strncmp(dt_ps_socket_address(server), "127.0.0.1:", 10) == 0 || strncmp(dt_ps_socket_address(server), "[::1]:", 6) == 0);
    worker = connect_to(server);
    join(server, worker);
    dt_ps_socket_close(worker, 0);
    dt_ps_socket_close(server, 0);
}

/* Nothing that a peer says of itself is an order to whoever looks at a log. */
/* What turns the direction of writing, as bytes: in a literal it would turn that of this line. */
static const char turned[] = {'\xe2', '\x80', '\xae', 0};

static void what_peers_say_is_printable(void **state) {
    (void)state;
    dt_ps_socket *server = listen_here();
    stranger self = connect_stranger(server);
    char name[80];
    snprintf(name, sizeof name, "a\33[2J\r\ndtrun: error: b \xc2\x9b c \xff %s d \xc3\xa4", turned);
    dt_ps_message hello = {.kind = DT_PS_HELLO, .hello = introduction(DT_PS_WORKER, name)};
    hello.hello.lowest_version = hello.hello.highest_version = DT_PS_HIGHEST_VERSION;
    say(&self, &hello, 0, 0);
    dt_ps_event joined = expect_event(server, NULL, DT_PS_JOINED, "");
    static const char wanted[] = "a?[2J??dtrun: error: b ? c ? ? d \xc3\xa4";
    assert_string_equal(joined.message.hello.name, wanted);
    assert_non_null(strstr(dt_ps_peer_name(server, joined.peer), wanted));
    dt_ps_message answer = listen_to(&self);
    dt_ps_message refusal = {.kind = DT_PS_REFUSAL, .refusal = {.why = DT_PS_REFUSED_OTHERWISE, .reason = "x\33]0;y\7\n\x80"}};
    say(&self, &refusal, answer.welcome.session, 0);
    expect_event(server, NULL, DT_PS_GONE, ": x?]0;y???");
    disconnect(&self);
    dt_ps_socket_close(server, 0);
}

static void a_machine_without_zeromq_is_told_what_to_install(void **state) {
    (void)state;
    dt_ps_socket *socket;
    dt_ps_socket_options options = {.listen = "127.0.0.1:*"};
    setenv("DT_ZEROMQ", "/nowhere/libzmq.so", 1);
    expect_error(dt_ps_socket_open(&options, &socket), DT_NOT_FOUND, "DT_ZEROMQ=/nowhere/libzmq.so cannot be loaded");
    setenv("DT_ZEROMQ", "libz.so.1", 1);
    expect_error(dt_ps_socket_open(&options, &socket), DT_FAILED_PRECONDITION, "parameter servers need ZeroMQ 4.3 or later");
    unsetenv("DT_ZEROMQ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_join_and_know_each_other),
        cmocka_unit_test(a_wait_is_ended_by_another_thread),
        cmocka_unit_test(payloads_arrive_whole_in_order_and_are_released),
        cmocka_unit_test(a_payload_beyond_the_bound_ends_the_connection),
        cmocka_unit_test(who_reads_nothing_is_gone),
        cmocka_unit_test(who_does_not_belong_is_refused_and_named),
        cmocka_unit_test(one_too_many_is_told_to_come_later),
        cmocka_unit_test(a_server_that_comes_back_is_found),
        cmocka_unit_test(who_is_killed_is_gone_at_once),
        cmocka_unit_test(who_is_stopped_is_gone_after_the_silence),
        cmocka_unit_test(who_is_refused_later_is_told),
        cmocka_unit_test(a_message_is_taken_once),
        cmocka_unit_test(what_a_stranger_says_without_a_hello_is_refused),
        cmocka_unit_test(bytes_that_are_no_zeromq_do_no_harm),
        cmocka_unit_test(strangers_are_no_more_than_the_bound),
        cmocka_unit_test(too_few_descriptors_are_an_error),
        cmocka_unit_test(who_has_found_no_server_ends_at_once),
        cmocka_unit_test(strangers_cannot_fill_a_log),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(a_name_of_this_machine_is_listened_on),
        cmocka_unit_test(what_peers_say_is_printable),
        cmocka_unit_test(a_machine_without_zeromq_is_told_what_to_install),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
