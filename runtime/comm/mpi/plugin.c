/* plugin: the transport over MPI, for the family of MPIs whose mpi.h it is compiled with.
 *
 * Messages and notices have a communicator each, so that they never match one another. A message becomes one MPI message, or several where it is
 * longer than MPI's `int` can say with ease. Notices are synchronous sends from buffers of ours: one is known to have been received when it is done,
 * so that closing can wait for all of them, and then for all processes, with nothing left in MPI that belongs to nobody (Hoefler, Siebert and
 * Lumsdaine, Scalable Communication Protocols for Dynamic Sparse Data Exchange, 2010). */
#include "runtime/comm/mpi/plugin.h"

#include <ctype.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 30, /* of an MPI message, at most */
    NOTICE_TAG = 0
};

/* A part of a message that is one MPI message. */
typedef struct piece {
    int peer, bytes;
    bool sends;
} piece;

typedef struct round {
    bool is_under_way;
    int n, capacity; /* of each array */
    piece *pieces;
    MPI_Request *requests;
    MPI_Status *statuses;
} round;

/* A buffer for a notice that is sent; free where its request is null. */
typedef struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    char notice[DT_NOTICE_BYTES];
} outgoing;

typedef struct mpi_transport {
    dt_transport transport;
    const dt_mpi_host *host;
    MPI_Comm messages, notices;
    round rounds[DT_MOST_ROUNDS];
    outgoing *outgoing;    /* as many as were ever under way at a time */
    MPI_Request listening; /* persistent, for `heard`, from whoever sends */
    char heard[DT_NOTICE_BYTES];
} mpi_transport;

static dt_status *failed(const mpi_transport *mpi, const char *call, int error) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n;
    if (MPI_Error_string(error, text, &n) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", error);
    return mpi->host->error(DT_ABORTED, "%s, %s: %s", mpi->transport.version, call, text);
}

#define CALL(mpi, function, ...)                                                                                                                     \
    do {                                                                                                                                             \
        int error_ = function(__VA_ARGS__);                                                                                                          \
        if (error_ != MPI_SUCCESS) return failed((mpi), #function, error_);                                                                          \
    } while (0)

/* ---- messages ---- */

static int pieces_of(size_t bytes) { return bytes == 0 ? 1 : (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES); }

/* Makes an array of `capacity` items out of one of fewer. */
static bool grow(const mpi_transport *mpi, void **array, size_t item_bytes, int capacity) {
    void *grown = mpi->host->reallocate(*array, item_bytes * (size_t)capacity);
    if (grown != NULL) *array = grown;
    return grown != NULL;
}

static dt_status *make_room(const mpi_transport *mpi, round *round, int n) {
    if (n <= round->capacity) return NULL;
    if (!grow(mpi, (void **)&round->pieces, sizeof *round->pieces, n) || !grow(mpi, (void **)&round->requests, sizeof *round->requests, n) ||
        !grow(mpi, (void **)&round->statuses, sizeof *round->statuses, n))
        return mpi->host->error(DT_RESOURCE_EXHAUSTED, "no memory for a round of %d messages", n);
    round->capacity = n;
    return NULL;
}

static dt_status *start_message(mpi_transport *mpi, int tag, const dt_message *message, round *round) {
    size_t first = 0;
    do {
        size_t left = message->bytes - first;
        piece piece = {.peer = message->peer, .sends = message->sends, .bytes = left < PIECE_BYTES ? (int)left : PIECE_BYTES};
        char *data = (char *)message->data + first;
        if (piece.sends)
            CALL(mpi, MPI_Isend, data, piece.bytes, MPI_BYTE, piece.peer, tag, mpi->messages, &round->requests[round->n]);
        else
            CALL(mpi, MPI_Irecv, data, piece.bytes, MPI_BYTE, piece.peer, tag, mpi->messages, &round->requests[round->n]);
        round->pieces[round->n++] = piece;
        first += (size_t)piece.bytes;
    } while (first < message->bytes);
    if (message->sends) mpi->transport.n_sent_bytes += message->bytes;
    return NULL;
}

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *index) {
    mpi_transport *mpi = (mpi_transport *)transport;
    int n_pieces = 0;
    for (*index = 0; *index < DT_MOST_ROUNDS && mpi->rounds[*index].is_under_way; ++*index) {
    }
    if (*index == DT_MOST_ROUNDS) return mpi->host->error(DT_INTERNAL, "more than %d rounds are under way", DT_MOST_ROUNDS);
    round *round = &mpi->rounds[*index];
    for (int i = 0; i < n; i++) n_pieces += pieces_of(messages[i].bytes);
    DT_TRY(make_room(mpi, round, n_pieces));
    round->is_under_way = true;
    round->n = 0;
    for (int wants_sends = 0; wants_sends < 2; wants_sends++) /* receives first: what comes finds its place */
        for (int i = 0; i < n; i++)
            if (messages[i].sends == wants_sends) DT_TRY(start_message(mpi, tag, &messages[i], round));
    return NULL;
}

static dt_status *failed_round(const mpi_transport *mpi, const round *round, int error) {
    for (int i = 0; error == MPI_ERR_IN_STATUS && i < round->n; i++) {
        const piece *piece = &round->pieces[i];
        int of_piece = round->statuses[i].MPI_ERROR;
        if (of_piece == MPI_SUCCESS || of_piece == MPI_ERR_PENDING) continue;
        char call[64];
        snprintf(call, sizeof call, "%s process %d", piece->sends ? "sending to" : "receiving from", piece->peer);
        return failed(mpi, call, of_piece);
    }
    return failed(mpi, "MPI_Testall", error);
}

/* What was received is as long as was expected: processes that disagree must not go on. */
static dt_status *check_lengths(const mpi_transport *mpi, round *round) {
    for (int i = 0; i < round->n; i++) {
        const piece *piece = &round->pieces[i];
        int bytes;
        if (piece->sends) continue;
        CALL(mpi, MPI_Get_count, &round->statuses[i], MPI_BYTE, &bytes);
        if (bytes != piece->bytes)
            return mpi->host->error(DT_INTERNAL, "process %d sent %d bytes, and process %d expected %d", piece->peer, bytes, mpi->transport.process,
                                    piece->bytes);
    }
    return NULL;
}

static dt_status *test(dt_transport *transport, int index, bool *done) {
    mpi_transport *mpi = (mpi_transport *)transport;
    round *round = &mpi->rounds[index];
    int all = 0;
    int error = MPI_Testall(round->n, round->requests, &all, round->statuses);
    *done = all;
    if (error != MPI_SUCCESS) return failed_round(mpi, round, error);
    if (!*done) return NULL;
    round->is_under_way = false;
    return check_lengths(mpi, round);
}

/* ---- notices ---- */

static dt_status *is_free(const mpi_transport *mpi, outgoing *outgoing, bool *result) {
    int done;
    CALL(mpi, MPI_Test, &outgoing->request, &done, MPI_STATUS_IGNORE);
    *result = done;
    return NULL;
}

static dt_status *find_outgoing(mpi_transport *mpi, outgoing **found) {
    bool done = false;
    for (*found = mpi->outgoing; *found != NULL; *found = (*found)->next) {
        DT_TRY(is_free(mpi, *found, &done));
        if (done) return NULL;
    }
    *found = mpi->host->reallocate(NULL, sizeof **found);
    if (*found == NULL) return mpi->host->error(DT_RESOURCE_EXHAUSTED, "no memory for a notice");
    (*found)->request = MPI_REQUEST_NULL;
    (*found)->next = mpi->outgoing;
    mpi->outgoing = *found;
    return NULL;
}

static dt_status *notify(dt_transport *transport, int peer, const void *notice, size_t bytes) {
    mpi_transport *mpi = (mpi_transport *)transport;
    outgoing *outgoing;
    if (bytes > DT_NOTICE_BYTES) return mpi->host->error(DT_INTERNAL, "a notice of %zu bytes, %d at most", bytes, DT_NOTICE_BYTES);
    DT_TRY(find_outgoing(mpi, &outgoing));
    memcpy(outgoing->notice, notice, bytes);
    CALL(mpi, MPI_Issend, outgoing->notice, (int)bytes, MPI_BYTE, peer, NOTICE_TAG, mpi->notices, &outgoing->request);
    return NULL;
}

static dt_status *listen(dt_transport *transport, int *peer, void *notice, size_t *bytes) {
    mpi_transport *mpi = (mpi_transport *)transport;
    MPI_Status status;
    int done, n;
    *peer = -1;
    CALL(mpi, MPI_Test, &mpi->listening, &done, &status);
    if (!done) return NULL;
    CALL(mpi, MPI_Get_count, &status, MPI_BYTE, &n);
    memcpy(notice, mpi->heard, (size_t)n);
    *bytes = (size_t)n;
    *peer = status.MPI_SOURCE;
    CALL(mpi, MPI_Start, &mpi->listening);
    return NULL;
}

/* ---- the end ---- */

static void abort_all(dt_transport *transport, int exit_status) {
    (void)transport;
    MPI_Abort(MPI_COMM_WORLD, exit_status);
}

static dt_status *hear_all(mpi_transport *mpi) {
    char notice[DT_NOTICE_BYTES];
    size_t bytes;
    int peer;
    do {
        DT_TRY(listen(&mpi->transport, &peer, notice, &bytes));
    } while (peer >= 0);
    sched_yield();
    return NULL;
}

/* Returns when every process has come here and every notice has been received. */
static dt_status *meet(mpi_transport *mpi) {
    MPI_Request barrier;
    int all = 0;
    for (outgoing *outgoing = mpi->outgoing; outgoing != NULL; outgoing = outgoing->next)
        for (bool done = false; !done;) {
            DT_TRY(hear_all(mpi));
            DT_TRY(is_free(mpi, outgoing, &done));
        }
    CALL(mpi, MPI_Ibarrier, mpi->notices, &barrier);
    while (!all) {
        DT_TRY(hear_all(mpi));
        CALL(mpi, MPI_Test, &barrier, &all, MPI_STATUS_IGNORE);
    }
    CALL(mpi, MPI_Cancel, &mpi->listening);
    CALL(mpi, MPI_Wait, &mpi->listening, MPI_STATUS_IGNORE);
    CALL(mpi, MPI_Request_free, &mpi->listening);
    return NULL;
}

static void release(mpi_transport *mpi) {
    const dt_mpi_host *host = mpi->host;
    while (mpi->outgoing != NULL) {
        outgoing *next = mpi->outgoing->next;
        host->release(mpi->outgoing);
        mpi->outgoing = next;
    }
    for (int i = 0; i < DT_MOST_ROUNDS; i++) {
        host->release(mpi->rounds[i].pieces);
        host->release(mpi->rounds[i].requests);
        host->release(mpi->rounds[i].statuses);
    }
    host->release(mpi);
}

static void close_all(dt_transport *transport) {
    mpi_transport *mpi = (mpi_transport *)transport;
    mpi->host->forget(meet(mpi));
    MPI_Finalize();
    release(mpi);
}

/* ---- the beginning ---- */

static const dt_transport_kind mpi_kind = {"MPI", start, test, notify, listen, abort_all, close_all};

/* "Open MPI v4.1.4, package …" and "MPICH Version:\t4.0.2\n…" become "Open MPI 4.1.4" and "MPICH 4.0.2". */
static void shorten_version(const char *text, char *version, size_t bytes) {
    size_t name = strcspn(text, "0123456789"), number = strspn(text + name, "0123456789.");
    const char *word = strstr(text, " Version");
    int n = (int)(word != NULL && word < text + name ? (size_t)(word - text) : name);
    while (n > 0 && (isspace((unsigned char)text[n - 1]) || text[n - 1] == 'v')) n--;
    snprintf(version, bytes, "%.*s %.*s", n, text, (int)number, text + name);
}

static dt_status *know_processes(mpi_transport *mpi) {
    dt_transport *transport = &mpi->transport;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm of_host;
    int n;
    CALL(mpi, MPI_Get_library_version, text, &n);
    shorten_version(text, transport->version, sizeof transport->version);
    CALL(mpi, MPI_Comm_rank, MPI_COMM_WORLD, &transport->process);
    CALL(mpi, MPI_Comm_size, MPI_COMM_WORLD, &transport->n_processes);
    CALL(mpi, MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &of_host);
    CALL(mpi, MPI_Comm_rank, of_host, &transport->process_of_host);
    CALL(mpi, MPI_Comm_size, of_host, &transport->n_processes_of_host);
    CALL(mpi, MPI_Comm_free, &of_host);
    return NULL;
}

static dt_status *open_channels(mpi_transport *mpi) {
    CALL(mpi, MPI_Comm_dup, MPI_COMM_WORLD, &mpi->messages);
    CALL(mpi, MPI_Comm_dup, MPI_COMM_WORLD, &mpi->notices);
    CALL(mpi, MPI_Recv_init, mpi->heard, DT_NOTICE_BYTES, MPI_BYTE, MPI_ANY_SOURCE, NOTICE_TAG, mpi->notices, &mpi->listening);
    CALL(mpi, MPI_Start, &mpi->listening);
    return NULL;
}

static dt_status *start_mpi(mpi_transport *mpi) {
    int was_started, given;
    CALL(mpi, MPI_Initialized, &was_started);
    if (was_started) return mpi->host->error(DT_FAILED_PRECONDITION, "a process can start MPI once, and this one has");
    CALL(mpi, MPI_Init_thread, NULL, NULL, MPI_THREAD_FUNNELED, &given);
    CALL(mpi, MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    DT_TRY(know_processes(mpi));
    if (given < MPI_THREAD_FUNNELED)
        return mpi->host->error(DT_FAILED_PRECONDITION, "%s was built for programs without threads", mpi->transport.version);
    return open_channels(mpi);
}

static dt_status *open_transport(const dt_mpi_host *host, dt_transport **transport) {
    mpi_transport *mpi = host->reallocate(NULL, sizeof *mpi);
    if (mpi == NULL) return host->error(DT_RESOURCE_EXHAUSTED, "no memory for the transport between processes");
    *mpi = (mpi_transport){.transport = {.kind = &mpi_kind, .version = "MPI"}, .host = host};
    dt_status *status = start_mpi(mpi);
    if (status != NULL)
        release(mpi);
    else
        *transport = &mpi->transport;
    return status;
}

__attribute__((visibility("default"))) const dt_mpi_plugin dt_mpi_plugin_entry = {DT_MPI_PLUGIN_VERSION, open_transport};
