/* processes_exchange: the sum of the images of all processes, by rounds of the transport and by the MPI_Allreduce of the same MPI, in pairs.
 *
 *     cmake --build build --target processes_exchange_openmpi
 *     mpirun -n 2 --bind-to none build/processes_exchange_openmpi [BYTES [PIECE_BYTES [PAIRS]]]       44 MB in pieces of 4 MB, 20 pairs
 *
 * Each process owns a share of the image, is sent that share of all, adds it up in the order of processes, and sends the sum to all. A share goes in
 * pieces, each a round there and a round back; several are under way, so that one is added up while others travel. */
#include "runtime/comm/mpi/mpi.h"
#include "runtime/devices/reduce.h"
#include "runtime/threads/clock.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT = 64, /* bytes: no share ends within one */
    MOST_PROCESSES = 64,
    MOST_PIECES = DT_MOST_ROUNDS / 2, /* under way, there and back each */
    MOST_PAIRS = 1000
};

typedef struct exchange {
    dt_transport *transport;
    size_t bytes, piece_bytes;
    char *image, *sum; /* [bytes] */
    char *received;    /* [n_processes] of share_bytes */
    size_t share_bytes;
    void *scratch;
} exchange;

static void check(dt_transport *transport, dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "processes_exchange: %s\n", dt_status_message(status));
    if (transport != NULL) dt_transport_abort(transport, 1);
    exit(1);
}

/* Where piece `index` of the share of a process lies; empty beyond the end of the share. */
static size_t piece(const exchange *exchange, int process, size_t index, size_t *first) {
    size_t units = exchange->bytes / UNIT, n = (size_t)exchange->transport->n_processes;
    size_t begin = units * (size_t)process / n * UNIT, end = units * ((size_t)process + 1) / n * UNIT;
    *first = begin + index * exchange->piece_bytes;
    if (*first >= end) return 0;
    return end - *first < exchange->piece_bytes ? end - *first : exchange->piece_bytes;
}

/* The round of piece `index`. There, every process sends everybody's piece of its image and receives its own piece of theirs; back, it sends its own
 * piece of the sum and receives everybody's. */
static int start_round(exchange *exchange, size_t index, bool back) {
    dt_transport *transport = exchange->transport;
    dt_message messages[2 * MOST_PROCESSES];
    size_t own, theirs, own_bytes = piece(exchange, transport->process, index, &own);
    int n = 0, round;
    for (int peer = 0; peer < transport->n_processes; peer++) {
        if (peer == transport->process) continue;
        size_t bytes = piece(exchange, peer, index, &theirs);
        char *place = exchange->received + (size_t)peer * exchange->share_bytes + index * exchange->piece_bytes;
        messages[n++] = back ? (dt_message){peer, false, exchange->sum + theirs, bytes} : (dt_message){peer, false, place, own_bytes};
        messages[n++] = back ? (dt_message){peer, true, exchange->sum + own, own_bytes} : (dt_message){peer, true, exchange->image + theirs, bytes};
    }
    check(transport, dt_transport_start(transport, back, messages, n, &round));
    return round;
}

static void add(exchange *exchange, size_t index) {
    dt_tree_source sources[MOST_PROCESSES];
    size_t own, bytes = piece(exchange, exchange->transport->process, index, &own);
    void *target = exchange->sum + own;
    int n = exchange->transport->n_processes;
    for (int p = 0; p < n; p++) {
        char *place = exchange->received + (size_t)p * exchange->share_bytes + index * exchange->piece_bytes;
        sources[p] = (dt_tree_source){p == exchange->transport->process ? exchange->image + own : place, 1};
    }
    const dt_tree_reduction sum = {
        .dtype = DT_F32, .n_leaves = n, .n_sources = n, .sources = sources, .n_elements = bytes / sizeof(float), .n_targets = 1, .targets = &target};
    dt_reduce(&sum, exchange->scratch);
}

static bool is_done(exchange *exchange, int round) {
    bool done;
    check(exchange->transport, dt_transport_progress(exchange->transport));
    check(exchange->transport, dt_transport_test(exchange->transport, round, &done));
    return done;
}

/* Pieces [n_back, n_added) are on the way back, [n_added, n_started) on the way there. */
static void exchange_directly(exchange *exchange) {
    size_t n = (exchange->share_bytes + exchange->piece_bytes - 1) / exchange->piece_bytes, n_started = 0, n_added = 0, n_back = 0;
    int there[MOST_PIECES], back[MOST_PIECES];
    while (n_back < n) {
        for (; n_started < n && n_started < n_added + MOST_PIECES; n_started++)
            there[n_started % MOST_PIECES] = start_round(exchange, n_started, false);
        if (n_added < n_started && n_added < n_back + MOST_PIECES && is_done(exchange, there[n_added % MOST_PIECES])) {
            add(exchange, n_added);
            back[n_added % MOST_PIECES] = start_round(exchange, n_added, true);
            n_added++;
        }
        if (n_back < n_added) n_back += is_done(exchange, back[n_back % MOST_PIECES]);
    }
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(UNIT, (bytes + UNIT) / UNIT * UNIT);
    if (memory == NULL) exit(1);
    return memset(memory, 0, bytes);
}

/* Both ways from equal values give equal sums, of whole numbers. */
static void fill(const exchange *exchange, float *image) {
    for (size_t i = 0; i < exchange->bytes / sizeof(float); i++) image[i] = (float)(i % 977 + (size_t)exchange->transport->process);
}

int main(int n_arguments, char **arguments) {
    exchange exchange = {.bytes = n_arguments > 1 ? strtoul(arguments[1], NULL, 10) : 44000000};
    int n_pairs = n_arguments > 3 ? atoi(arguments[3]) : 20;
    double direct[MOST_PAIRS], reduced[MOST_PAIRS];
    check(NULL, dt_transport_open(&exchange.transport));
    if (exchange.transport == NULL || exchange.transport->n_processes > MOST_PROCESSES || n_pairs > MOST_PAIRS) {
        fprintf(stderr, "processes_exchange: mpirun -n 2 %s: of %d processes, %d pairs at most\n", arguments[0], MOST_PROCESSES, MOST_PAIRS);
        return 1;
    }
    int n = exchange.transport->n_processes;
    exchange.bytes = exchange.bytes / UNIT * UNIT;
    exchange.share_bytes = (exchange.bytes / UNIT / (size_t)n + 1) * UNIT;
    exchange.piece_bytes = n_arguments > 2 ? strtoul(arguments[2], NULL, 10) / UNIT * UNIT : 4000000;
    exchange.image = allocate(exchange.bytes);
    exchange.sum = allocate(exchange.bytes);
    exchange.received = allocate(exchange.share_bytes * (size_t)n + exchange.piece_bytes);
    exchange.scratch = allocate(dt_reduce_scratch_bytes(n));
    fill(&exchange, (float *)exchange.image);
    char *sum = allocate(exchange.bytes);
    for (int pair = -2; pair < n_pairs; pair++) { /* two to warm up */
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = dt_seconds_now();
        exchange_directly(&exchange);
        if (pair >= 0) direct[pair] = dt_seconds_now() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
        begin = dt_seconds_now();
        MPI_Allreduce(exchange.image, sum, (int)(exchange.bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (pair >= 0) reduced[pair] = dt_seconds_now() - begin;
        if (memcmp(sum, exchange.sum, exchange.bytes) != 0) fprintf(stderr, "the sums differ\n"), MPI_Abort(MPI_COMM_WORLD, 1);
    }
    qsort(direct, (size_t)n_pairs, sizeof *direct, by_size);
    qsort(reduced, (size_t)n_pairs, sizeof *reduced, by_size);
    if (exchange.transport->process == 0)
        printf("%s, %d processes, %.1f MB in pieces of %.2f MB: direct %.1f ms (least %.1f), MPI_Allreduce %.1f ms (least %.1f): %.2f\n",
               exchange.transport->version, n, (double)exchange.bytes * 1e-6, (double)exchange.piece_bytes * 1e-6, direct[n_pairs / 2] * 1e3,
               direct[0] * 1e3, reduced[n_pairs / 2] * 1e3, reduced[0] * 1e3, direct[n_pairs / 2] / reduced[n_pairs / 2]);
    dt_transport_close(exchange.transport);
    return 0;
}
