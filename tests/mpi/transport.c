/* transport: one process of a run in which the transport is tried: `mpirun -n 3 transport CASE`, as tests/support/mpi.py starts it.
 *
 * All processes make the same plan from the same seed, so that each knows what the others send; what arrives is compared byte for byte. A mistake is
 * said on stderr and ends the run with exit status 1; a process ends itself when it has run for too long. */
#include "base/memory.h"
#include "runtime/comm/buckets.h"
#include "runtime/comm/mpi/mpi.h"
#include "runtime/threads/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_SECONDS = 60,
    MOST_PROCESSES = 8,
    MOST_MESSAGES = 10,
    N_NOTICES = 200,
    LARGE_BYTES = 40 * 1000 * 1000,
    HUGE_BYTES = 1100 * 1000 * 1000 /* more than one message of MPI's */
};

static dt_transport *transport;

static void end(void) {
    dt_transport_abort(transport, 1);
    _exit(1);
}

#define CHECK(condition)                                                                                                                             \
    do {                                                                                                                                             \
        if (!(condition)) {                                                                                                                          \
            fprintf(stderr, "%s:%d: process %d: %s does not hold\n", __FILE__, __LINE__, transport->process, #condition);                            \
            end();                                                                                                                                   \
        }                                                                                                                                            \
    } while (0)

static void check(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "process %d: %s\n", transport->process, dt_status_message(status));
    end();
}

/* ---- numbers that all processes agree on ---- */

static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t next(uint64_t *state) { return mixed(++*state); }

/* Bytes that only this seed gives. */
static void fill(char *data, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = mixed(seed + i);
        memcpy(data + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static bool is_filled(const char *data, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = mixed(seed + i);
        if (memcmp(data + i, &word, bytes - i < 8 ? bytes - i : 8) != 0) return false;
    }
    return true;
}

static int start(int tag, const dt_message *messages, int n) {
    int round;
    check(dt_transport_start(transport, tag, messages, n, &round));
    return round;
}

static bool is_done(int round) {
    bool done;
    check(dt_transport_progress(transport));
    check(dt_transport_test(transport, round, &done));
    return done;
}

static void finish(int round) {
    while (!is_done(round)) sched_yield();
}

/* ---- notices: process p sends N_NOTICES to each other process, of which each says its number ---- */

static int n_notified[MOST_PROCESSES], n_heard[MOST_PROCESSES];

static uint64_t notice_seed(int from, int to, int number) { return mixed((uint64_t)from << 40 | (uint64_t)to << 20 | (uint64_t)number); }
static size_t notice_bytes(uint64_t seed) { return seed % (DT_NOTICE_BYTES + 1); }

static void notify(int peer) {
    char notice[DT_NOTICE_BYTES];
    uint64_t seed = notice_seed(transport->process, peer, n_notified[peer]++);
    fill(notice, notice_bytes(seed), seed);
    check(dt_transport_notify(transport, peer, notice, notice_bytes(seed)));
    memset(notice, 0, sizeof notice); /* it has been copied */
}

/* The process whose next notice was heard, -1 for none. */
static int hear(void) {
    char notice[DT_NOTICE_BYTES];
    size_t bytes;
    int peer;
    check(dt_transport_progress(transport));
    check(dt_transport_listen(transport, &peer, notice, &bytes));
    if (peer < 0) return peer;
    uint64_t seed = notice_seed(peer, transport->process, n_heard[peer]++);
    CHECK(bytes == notice_bytes(seed));
    CHECK(is_filled(notice, bytes, seed));
    return peer;
}

static bool have_heard_all(void) {
    for (int peer = 0; peer < transport->n_processes; peer++)
        if (peer != transport->process && n_heard[peer] < N_NOTICES) return false;
    return true;
}

static void notify_and_hear(uint64_t *own) {
    int peer = (int)(next(own) % (uint64_t)transport->n_processes);
    if (peer != transport->process && n_notified[peer] < N_NOTICES) notify(peer);
    hear();
}

/* ---- cases ---- */

/* Sizes that MPIs treat differently, and the bytes that were sent of them. */
static void sizes(void) {
    static const size_t all[] = {0, 1, 7, 4096, 65537, 1 << 20, LARGE_BYTES};
    int peer = transport->process ^ 1;
    uint64_t n_bytes = 0;
    for (size_t i = 0; peer < transport->n_processes && i < sizeof all / sizeof *all; i++) {
        char *sent = calloc(all[i] + 1, 1), *received = calloc(all[i] + 1, 1);
        fill(sent, all[i], (uint64_t)transport->process);
        const dt_message messages[] = {{peer, true, sent, all[i]}, {peer, false, received, all[i]}};
        finish(start((int)i, messages, 2));
        CHECK(is_filled(received, all[i], (uint64_t)peer));
        CHECK(received[all[i]] == 0);
        free(sent), free(received);
        n_bytes += all[i];
    }
    CHECK(transport->n_sent_bytes == n_bytes);
}

typedef struct planned {
    int tag, n;
    dt_message messages[MOST_MESSAGES];
    uint64_t seeds[MOST_MESSAGES];
} planned;

/* What this process sends and receives in a round of all; every process draws the same numbers. */
static void plan(planned *planned, uint64_t *common) {
    static const size_t most[] = {1, 2, 100, 5000, 70000, 300000};
    planned->n = 0;
    for (int i = (int)(next(common) % 10); i > 0; i--) {
        int from = (int)(next(common) % (uint64_t)transport->n_processes), to = (int)(next(common) % (uint64_t)transport->n_processes);
        size_t bytes = next(common) % most[next(common) % 6];
        uint64_t seed = next(common);
        if (from == to || (from != transport->process && to != transport->process)) continue;
        char *data = calloc(bytes + 1, 1);
        if (from == transport->process) fill(data, bytes, seed);
        planned->seeds[planned->n] = seed;
        planned->messages[planned->n++] = (dt_message){from == transport->process ? to : from, from == transport->process, data, bytes};
    }
}

static void verify(planned *planned) {
    for (int i = 0; i < planned->n; i++) {
        const dt_message *message = &planned->messages[i];
        CHECK(is_filled(message->data, message->bytes, planned->seeds[i]));
        free(message->data);
    }
}

/* Rounds of which as many as may be are under way, with notices between. Under tags of their own they are started in an order of each process's own;
 * under one tag in one order. They are asked for in any order. */
static void rounds(void) {
    uint64_t common = 1, own = mixed((uint64_t)transport->process);
    for (int window = 0; window < 60; window++) {
        planned planned[DT_MOST_ROUNDS];
        int rounds[DT_MOST_ROUNDS], n_left = DT_MOST_ROUNDS;
        bool one_tag = next(&common) % 2, done[DT_MOST_ROUNDS] = {false};
        int first = one_tag ? 0 : (int)(next(&own) % DT_MOST_ROUNDS);
        for (int i = 0; i < DT_MOST_ROUNDS; i++) {
            planned[i].tag = one_tag ? 32767 : i;
            plan(&planned[i], &common);
        }
        for (int i = 0; i < DT_MOST_ROUNDS; i++) {
            int at = (first + i) % DT_MOST_ROUNDS;
            rounds[at] = start(planned[at].tag, planned[at].messages, planned[at].n);
        }
        while (n_left > 0) {
            int at = (int)(next(&own) % DT_MOST_ROUNDS);
            notify_and_hear(&own);
            if (done[at] || !is_done(rounds[at])) continue;
            done[at] = true;
            n_left--;
            verify(&planned[at]);
        }
    }
    for (int peer = 0; peer < transport->n_processes; peer++)
        while (peer != transport->process && n_notified[peer] < N_NOTICES) notify(peer);
    while (!have_heard_all()) hear();
}

/* Notices pass by a message that nobody receives yet. */
static void ahead(void) {
    if (transport->process > 1) return;
    char *data = calloc(LARGE_BYTES, 1);
    int peer = transport->process ^ 1, round = -1;
    const dt_message message = {peer, transport->process == 0, data, LARGE_BYTES};
    if (transport->process == 0) {
        fill(data, LARGE_BYTES, 5);
        round = start(0, &message, 1);
        notify(1);
    }
    while (hear() < 0) {
    }
    if (transport->process == 1) {
        notify(0);
        round = start(0, &message, 1);
    }
    finish(round);
    CHECK(is_filled(data, LARGE_BYTES, 5));
    free(data);
}

/* A message that MPI does not take as one. */
static void huge(void) {
    char *data = malloc(HUGE_BYTES);
    const dt_message message = {transport->process ^ 1, transport->process == 0, data, HUGE_BYTES};
    CHECK(data != NULL);
    if (transport->process == 0) fill(data, HUGE_BYTES, 6);
    finish(start(0, &message, 1));
    CHECK(is_filled(data, HUGE_BYTES, 6));
    free(data);
}

/* Without memory a round or a notice is an error, and with memory the next one is none. */
static void memory(void) {
    enum {
        MANY = 100 /* messages, for which there is no room yet */
    };
    char bytes[MANY] = {7};
    dt_message messages[MANY];
    int round, peer = transport->process ^ 1;
    for (int i = 0; i < MANY; i++) messages[i] = (dt_message){peer, transport->process == 0, &bytes[i], 1};
    for (int n = 0; n < 8; n++) { /* four allocations each, of which so many succeed */
        dt_memory_fail_after(n % 4);
        dt_status *status = n < 4 ? dt_transport_start(transport, 0, messages, MANY, &round) : dt_transport_notify(transport, peer, bytes, 1);
        dt_memory_fail_after(-1);
        CHECK(dt_status_code(status) == DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
    }
    finish(start(0, messages, MANY));
    notify(peer);
    while (hear() < 0) {
    }
}

/* Sums by the engine, of each type, with messages and one another under way. Process p has p + 1 at every place, plus what all have. */
static void sums(void) {
    enum {
        N = 3000
    };
    static int64_t wide[N], one;
    static int32_t narrow[N];
    static double doubles[N];
    static float singles[N];
    int n = transport->n_processes, rounds[5];
    one = transport->process + 1;
    char byte = 7;
    const dt_message message = {(transport->process + 1) % n, true, &byte, 1}, back = {(transport->process + n - 1) % n, false, &byte, 1};
    for (int i = 0; i < N; i++) {
        singles[i] = (float)(transport->process + 1 + i);
        doubles[i] = singles[i];
        narrow[i] = transport->process + 1 - i;
        wide[i] = (int64_t)(transport->process + 1) << 40;
    }
    const dt_transport_kind *kind = transport->kind;
    check(kind->all_reduce(transport, DT_F32, singles, N, &rounds[0]));
    check(kind->all_reduce(transport, DT_F64, doubles, N, &rounds[1]));
    int moved = start(0, (dt_message[]){message, back}, 2);
    check(kind->all_reduce(transport, DT_I32, narrow, N, &rounds[2]));
    check(kind->all_reduce(transport, DT_I64, wide, N, &rounds[3]));
    check(kind->all_reduce(transport, DT_I64, &one, 1, &rounds[4]));
    for (int i = 4; i >= 0; i--) finish(rounds[i]);
    finish(moved);
    for (int i = 0; i < N; i++) {
        int ranks = n * (n + 1) / 2;
        CHECK(singles[i] == (float)(ranks + n * i) && doubles[i] == ranks + n * i && narrow[i] == ranks - n * i && wide[i] == (int64_t)ranks << 40);
    }
    CHECK(one == n * (n + 1) / 2);
}

/* Sending notices does not wait for a process that is busy with something else. */
static void busy(void) {
    double begin = dt_seconds_now();
    if (transport->process == 0) sleep(1);
    for (int i = 0; transport->process != 0 && i < N_NOTICES; i++) notify(0);
    CHECK(transport->process == 0 || dt_seconds_now() - begin < 0.8);
    while (transport->process == 0 && !have_heard_all()) hear();
}

/* A message as long as those of exchanges is on its way without a word from its receiver, who is busy. Over TCP; here loopback's buffers have room.
 */
static void unasked(void) {
    char *data = calloc(DT_SHARE_BYTES, 1), byte = 7;
    int peer = transport->process ^ 1;
    const dt_message both[] = {{peer, true, &byte, 1}, {peer, false, data, 1}}, message = {peer, transport->process == 0, data, DT_SHARE_BYTES};
    for (int i = 0; i < 2; i++) finish(start(0, both, 2)); /* the two are connected */
    double begin = dt_seconds_now();
    if (transport->process == 1) sleep(1);
    if (transport->process == 0) fill(data, DT_SHARE_BYTES, 7);
    finish(start(0, &message, 1));
    CHECK(transport->process == 1 || dt_seconds_now() - begin < 0.8);
    CHECK(is_filled(data, DT_SHARE_BYTES, 7));
    free(data);
}

/* Closing leaves none behind, whether its notices were listened to or not, and returns when all processes are there. */
static void unheard(void) {
    for (int peer = 0; peer < transport->n_processes; peer++)
        for (int i = 0; peer != transport->process && i < 20; i++) notify(peer);
    if (transport->process == 0) usleep(300000);
    bool is_last = transport->process == 0;
    if (is_last) printf("begins to close at %.6f\n", dt_seconds_now());
    dt_transport_close(transport);
    if (!is_last) printf("has closed at %.6f\n", dt_seconds_now());
    exit(0);
}

/* One process ends the run while the others wait for a message. */
static void aborts(void) {
    char byte;
    const dt_message message = {transport->n_processes - 1, false, &byte, 1};
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    if (transport->process != transport->n_processes - 1) finish(start(0, &message, 1));
    usleep(300000);
    printf("aborts at %.6f\n", dt_seconds_now());
    fflush(stdout);
    dt_transport_abort(transport, 42);
}

static void disagree(size_t sent, size_t expected) {
    char data[100] = {0};
    const dt_message message = {transport->process ^ 1, transport->process == 0, data, transport->process == 0 ? sent : expected};
    if (transport->process > 1) return;
    finish(start(0, &message, 1));
    while (true) pause(); /* until the other one ends the run */
}
static void shorter(void) { disagree(40, 44); }
static void longer(void) { disagree(44, 40); }

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"sizes", sizes}, {"rounds", rounds},   {"ahead", ahead},     {"huge", huge},     {"memory", memory},   {"sums", sums},
             {"busy", busy},   {"unasked", unasked}, {"unheard", unheard}, {"aborts", aborts}, {"shorter", shorter}, {"longer", longer}};

int main(int n_arguments, char **arguments) {
    alarm(MOST_SECONDS);
    dt_status *status = dt_transport_open(&transport);
    if (status != NULL || transport == NULL) {
        printf("%s\n", status != NULL ? dt_status_message(status) : "no launcher");
        dt_status_free(status);
        return status != NULL;
    }
    if (transport->process == 0 && n_arguments == 1)
        printf("%s, %d processes, %d of this host\n", transport->version, transport->n_processes, transport->n_processes_of_host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (n_arguments == 2 && strcmp(cases[i].name, arguments[1]) == 0) cases[i].run();
    dt_transport_close(transport);
    return 0;
}
