/* transport: one process of a run in which the transport is tried: `mpirun -n 3 transport CASE`, as tests/support/mpi.py starts it.
 *
 * All processes make the same plan from the same seed, so that each knows what the others send; what arrives is compared byte for byte. A mistake is
 * said on stderr and ends the run with exit status 1; a process ends itself when it has run for too long. */
#include "runtime/comm/mpi/mpi.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_SECONDS = 60,
    LARGE_BYTES = 40 * 1000 * 1000
};

static dt_transport *transport;

#define CHECK(condition)                                                                                                                             \
    do {                                                                                                                                             \
        if (!(condition)) {                                                                                                                          \
            fprintf(stderr, "%s:%d: process %d: %s does not hold\n", __FILE__, __LINE__, transport->process, #condition);                            \
            dt_transport_abort(transport, 1);                                                                                                        \
        }                                                                                                                                            \
    } while (0)

static void check(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "process %d: %s\n", transport->process, dt_status_message(status));
    dt_transport_abort(transport, 1);
}

/* ---- numbers that all processes agree on ---- */

static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- rounds ---- */

static bool is_done(int round) {
    bool done;
    check(dt_transport_test(transport, round, &done));
    return done;
}

static void finish(int round) {
    while (!is_done(round)) {
    }
}

/* What is in a message, by where it goes. */
static void fill(uint64_t *words, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < (bytes + 7) / 8; i++) words[i] = mixed(seed + i);
}

static void exchange_once(size_t bytes, int tag) {
    int peer = transport->process ^ 1, round;
    uint64_t *sent = calloc(bytes / 8 + 1, 8), *received = calloc(bytes / 8 + 1, 8), *expected = calloc(bytes / 8 + 1, 8);
    fill(sent, bytes, (uint64_t)transport->process << 32);
    fill(expected, bytes, (uint64_t)peer << 32);
    const dt_message messages[] = {{peer, true, sent, bytes}, {peer, false, received, bytes}};
    check(dt_transport_start(transport, tag, messages, peer < transport->n_processes ? 2 : 0, &round));
    finish(round);
    CHECK(peer >= transport->n_processes || memcmp(received, expected, bytes) == 0);
    free(sent), free(received), free(expected);
}

/* Sizes that MPIs treat differently, and the bytes that were sent of them. */
static void sizes(void) {
    static const size_t all[] = {0, 1, 7, 4096, 65537, 1 << 20, LARGE_BYTES};
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        exchange_once(all[i], (int)i);
        if ((transport->process ^ 1) < transport->n_processes) n_bytes += all[i];
    }
    CHECK(transport->n_sent_bytes == n_bytes);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"sizes", sizes}};

int main(int n_arguments, char **arguments) {
    alarm(MOST_SECONDS);
    dt_status *status = dt_transport_open(&transport);
    if (status != NULL || transport == NULL) {
        printf("%s\n", status != NULL ? dt_status_message(status) : "no launcher");
        dt_status_free(status);
        return status != NULL;
    }
    if (transport->process == 0)
        printf("%s, %d processes, %d of this host\n", transport->version, transport->n_processes, transport->n_processes_of_host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (n_arguments == 2 && strcmp(cases[i].name, arguments[1]) == 0) cases[i].run();
    dt_transport_close(transport);
    return 0;
}
