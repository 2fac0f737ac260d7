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
#include <time.h>

enum {
    PIECE_BYTES = 1 << 30, /* of an MPI message, at most */
    NOTICE_TAG = 0,
    ALL_PROCESSES = -1,
    MORE_BUFFERS = 64 /* of notices, at a time */
};

/* A part of a message that is one MPI message. */
typedef struct piece {
    int peer, bytes; /* peer: or ALL_PROCESSES */
    bool sends;
} piece;

typedef struct round {
    bool is_under_way;
    int n, capacity; /* of each array */
    piece *pieces;
    MPI_Request *requests;
    MPI_Status *statuses;
} round;

/* Buffers of notices that are sent: as many as were ever under way at a time. One whose request is null is free. */
typedef struct outgoing {
    int n; /* of each array */
    MPI_Request *requests;
    char **notices; /* of DT_NOTICE_BYTES */
    int *done;      /* what MPI_Testsome says */
} outgoing;

typedef struct mpi_transport {
    dt_transport transport;
    const dt_mpi_host *host;
    MPI_Comm messages, notices;
    round rounds[DT_MOST_ROUNDS];
    outgoing outgoing;
    MPI_Request listening; /* persistent, for `heard`, from whoever sends */
    char heard[DT_NOTICE_BYTES];
} mpi_transport;

static dt_status *failed(const mpi_transport *mpi, const char *call, int error) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n;
    if (MPI_Error_string(error, text, &n) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", error);
    for (char *line = text; (line = strchr(line, '\n')) != NULL;) *line = ' '; /* MPICH's have several lines */
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

/* The next round, for so many requests. */
static dt_status *take_round(mpi_transport *mpi, int n_requests, int *index) {
    for (*index = 0; *index < DT_MOST_ROUNDS && mpi->rounds[*index].is_under_way; ++*index) {
    }
    if (*index == DT_MOST_ROUNDS) return mpi->host->error(DT_INTERNAL, "more than %d rounds are under way", DT_MOST_ROUNDS);
    round *round = &mpi->rounds[*index];
    DT_TRY(make_room(mpi, round, n_requests));
    round->is_under_way = true;
    round->n = 0;
    return NULL;
}

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *index) {
    mpi_transport *mpi = (mpi_transport *)transport;
    int n_pieces = 0;
    for (int i = 0; i < n; i++) n_pieces += pieces_of(messages[i].bytes);
    DT_TRY(take_round(mpi, n_pieces, index));
    round *round = &mpi->rounds[*index];
    for (int wants_sends = 0; wants_sends < 2; wants_sends++) /* receives first: what comes finds its place */
        for (int i = 0; i < n; i++)
            if (messages[i].sends == wants_sends) DT_TRY(start_message(mpi, tag, &messages[i], round));
    return NULL;
}

/* One request, of all processes. */
static dt_status *all_reduce(dt_transport *transport, dt_dtype dtype, void *data, size_t n, int *index) {
    mpi_transport *mpi = (mpi_transport *)transport;
    MPI_Datatype type = dtype == DT_F32 ? MPI_FLOAT : dtype == DT_F64 ? MPI_DOUBLE : dtype == DT_I32 ? MPI_INT32_T : MPI_INT64_T;
    if (n > PIECE_BYTES / 8) return mpi->host->error(DT_INTERNAL, "a sum of %zu elements by MPI", n);
    DT_TRY(take_round(mpi, 1, index));
    round *round = &mpi->rounds[*index];
    round->pieces[0] = (piece){.peer = ALL_PROCESSES, .sends = true};
    CALL(mpi, MPI_Iallreduce, MPI_IN_PLACE, data, (int)n, type, MPI_SUM, mpi->messages, &round->requests[0]);
    round->n = 1;
    return NULL;
}

static dt_status *failed_round(const mpi_transport *mpi, const round *round, int error) {
    for (int i = 0; error == MPI_ERR_IN_STATUS && i < round->n; i++) {
        const piece *piece = &round->pieces[i];
        int of_piece = round->statuses[i].MPI_ERROR;
        if (of_piece == MPI_SUCCESS || of_piece == MPI_ERR_PENDING) continue;
        char call[64];
        if (piece->peer == ALL_PROCESSES) return failed(mpi, "MPI_Iallreduce", of_piece);
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

static dt_status *add_buffers(const mpi_transport *mpi, outgoing *outgoing, int capacity) {
    if (!grow(mpi, (void **)&outgoing->requests, sizeof *outgoing->requests, capacity) ||
        !grow(mpi, (void **)&outgoing->notices, sizeof *outgoing->notices, capacity) ||
        !grow(mpi, (void **)&outgoing->done, sizeof *outgoing->done, capacity))
        return mpi->host->error(DT_RESOURCE_EXHAUSTED, "no memory for %d notices", capacity);
    for (; outgoing->n < capacity; outgoing->n++) {
        outgoing->requests[outgoing->n] = MPI_REQUEST_NULL;
        outgoing->notices[outgoing->n] = mpi->host->reallocate(NULL, DT_NOTICE_BYTES);
        if (outgoing->notices[outgoing->n] == NULL) return mpi->host->error(DT_RESOURCE_EXHAUSTED, "no memory for %d notices", capacity);
    }
    return NULL;
}

static bool find_null(const outgoing *outgoing, int *index) {
    for (*index = 0; *index < outgoing->n; ++*index)
        if (outgoing->requests[*index] == MPI_REQUEST_NULL) return true;
    return false;
}

/* MPI is asked only where no buffer is known to be free. */
static dt_status *find_free(mpi_transport *mpi, int *index) {
    outgoing *outgoing = &mpi->outgoing;
    int n_done;
    if (find_null(outgoing, index)) return NULL;
    CALL(mpi, MPI_Testsome, outgoing->n, outgoing->requests, &n_done, outgoing->done, MPI_STATUSES_IGNORE);
    if (find_null(outgoing, index)) return NULL;
    return add_buffers(mpi, outgoing, outgoing->n + MORE_BUFFERS);
}

static dt_status *notify(dt_transport *transport, int peer, const void *notice, size_t bytes) {
    mpi_transport *mpi = (mpi_transport *)transport;
    int i;
    if (bytes > DT_NOTICE_BYTES) return mpi->host->error(DT_INTERNAL, "a notice of %zu bytes, %d at most", bytes, DT_NOTICE_BYTES);
    DT_TRY(find_free(mpi, &i));
    memcpy(mpi->outgoing.notices[i], notice, bytes);
    CALL(mpi, MPI_Issend, mpi->outgoing.notices[i], (int)bytes, MPI_BYTE, peer, NOTICE_TAG, mpi->notices, &mpi->outgoing.requests[i]);
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

/* The wait is for the launcher, to pass on what was said just before: MPICH's drops what it has not read by the time that it ends a run. */
static void abort_all(dt_transport *transport, int exit_status) {
    (void)transport;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
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
    int all;
    for (all = 0; !all;) {
        DT_TRY(hear_all(mpi));
        CALL(mpi, MPI_Testall, mpi->outgoing.n, mpi->outgoing.requests, &all, MPI_STATUSES_IGNORE);
    }
    CALL(mpi, MPI_Ibarrier, mpi->notices, &barrier);
    for (all = 0; !all;) {
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
    for (int i = 0; i < mpi->outgoing.n; i++) host->release(mpi->outgoing.notices[i]);
    host->release(mpi->outgoing.requests);
    host->release(mpi->outgoing.notices);
    host->release(mpi->outgoing.done);
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

static const dt_transport_kind mpi_kind = {.name = "MPI",
                                           .start = start,
                                           .test = test,
                                           .all_reduce = all_reduce,
                                           .notify = notify,
                                           .listen = listen,
                                           .abort = abort_all,
                                           .close = close_all};

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
