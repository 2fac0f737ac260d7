/* plugin: the transport over MPI, for the family of MPIs whose mpi.h it is compiled with.
 *
 * Messages and notices have a communicator each, so that they never match one another. A message becomes one MPI message, or several where it is
 * longer than MPI's `int` can say with ease. Notices are synchronous sends from buffers of ours: one is known to have been received when it is done,
 * so that closing can wait for all of them, and then for all processes, with nothing left in MPI that belongs to nobody (Hoefler, Siebert and
 * Lumsdaine, Scalable Communication Protocols for Dynamic Sparse Data Exchange, 2010). */
#include "runtime/comm/mpi/plugin.h"

#include "runtime/comm/buckets.h"

#include <ctype.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PIECE_BYTES = 1 << 30, /* of an MPI message, at most */
    NOTICE_TAG = 0,
    ALL_PROCESSES = -1,
    NO_ROUND = -1,
    MORE_PIECES = 32, /* at a time */
    MORE_BUFFERS = 64 /* of notices, at a time */
};

/* A part of a message that is one MPI message. */
typedef struct piece {
    int peer, bytes; /* peer: or ALL_PROCESSES */
    int round;       /* that it is of; NO_ROUND: it is the notice that is listened for */
    bool sends;
} piece;

typedef struct round {
    bool is_under_way;
    int n_open; /* pieces */
} round;

/* All pieces that are under way, side by side, for one call of MPI: each call looks at every connection. The first one is what is listened for. */
typedef struct open_pieces {
    int n, capacity; /* of each array */
    piece *pieces;
    MPI_Request *requests;
    MPI_Status *statuses; /* what MPI_Testsome says */
    int *done;
} open_pieces;

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
    open_pieces open;
    outgoing outgoing;
    int heard_from;              /* -1: nobody */
    int n_heard;                 /* bytes */
    char heard[DT_NOTICE_BYTES]; /* a persistent request receives them, from whoever sends */
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

/* For n more. */
static dt_status *make_room(const mpi_transport *mpi, open_pieces *open, int n) {
    int capacity = open->n + n + MORE_PIECES;
    if (open->n + n <= open->capacity) return NULL;
    if (!grow(mpi, (void **)&open->pieces, sizeof *open->pieces, capacity) ||
        !grow(mpi, (void **)&open->requests, sizeof *open->requests, capacity) ||
        !grow(mpi, (void **)&open->statuses, sizeof *open->statuses, capacity) || !grow(mpi, (void **)&open->done, sizeof *open->done, capacity))
        return mpi->host->error(DT_RESOURCE_EXHAUSTED, "no memory for %d messages", capacity);
    open->capacity = capacity;
    return NULL;
}

/* Its request is in place. */
static void add_piece(mpi_transport *mpi, piece piece) {
    mpi->open.pieces[mpi->open.n++] = piece;
    if (piece.round != NO_ROUND) mpi->rounds[piece.round].n_open++;
}

static dt_status *start_message(mpi_transport *mpi, int tag, const dt_message *message, int round) {
    size_t first = 0;
    do {
        size_t left = message->bytes - first;
        piece piece = {.peer = message->peer, .round = round, .sends = message->sends, .bytes = left < PIECE_BYTES ? (int)left : PIECE_BYTES};
        char *data = (char *)message->data + first;
        MPI_Request *request = &mpi->open.requests[mpi->open.n];
        if (piece.sends)
            CALL(mpi, MPI_Isend, data, piece.bytes, MPI_BYTE, piece.peer, tag, mpi->messages, request);
        else
            CALL(mpi, MPI_Irecv, data, piece.bytes, MPI_BYTE, piece.peer, tag, mpi->messages, request);
        add_piece(mpi, piece);
        first += (size_t)piece.bytes;
    } while (first < message->bytes);
    if (message->sends) mpi->transport.n_sent_bytes += message->bytes;
    return NULL;
}

/* The next round, for so many pieces. */
static dt_status *take_round(mpi_transport *mpi, int n_pieces, int *index) {
    for (*index = 0; *index < DT_MOST_ROUNDS && mpi->rounds[*index].is_under_way; ++*index) {
    }
    if (*index == DT_MOST_ROUNDS) return mpi->host->error(DT_INTERNAL, "more than %d rounds are under way", DT_MOST_ROUNDS);
    DT_TRY(make_room(mpi, &mpi->open, n_pieces));
    mpi->rounds[*index] = (round){.is_under_way = true};
    return NULL;
}

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *index) {
    mpi_transport *mpi = (mpi_transport *)transport;
    int n_pieces = 0;
    for (int i = 0; i < n; i++) n_pieces += pieces_of(messages[i].bytes);
    DT_TRY(take_round(mpi, n_pieces, index));
    for (int wants_sends = 0; wants_sends < 2; wants_sends++) /* receives first: what comes finds its place */
        for (int i = 0; i < n; i++)
            if (messages[i].sends == wants_sends) DT_TRY(start_message(mpi, tag, &messages[i], *index));
    return NULL;
}

/* One request, of all processes. */
static dt_status *all_reduce(dt_transport *transport, dt_dtype dtype, void *data, size_t n, int *index) {
    mpi_transport *mpi = (mpi_transport *)transport;
    MPI_Datatype type = dtype == DT_F32 ? MPI_FLOAT : dtype == DT_F64 ? MPI_DOUBLE : dtype == DT_I32 ? MPI_INT32_T : MPI_INT64_T;
    if (n > PIECE_BYTES / 8) return mpi->host->error(DT_INTERNAL, "a sum of %zu elements by MPI", n);
    DT_TRY(take_round(mpi, 1, index));
    CALL(mpi, MPI_Iallreduce, MPI_IN_PLACE, data, (int)n, type, MPI_SUM, mpi->messages, &mpi->open.requests[mpi->open.n]);
    add_piece(mpi, (piece){.peer = ALL_PROCESSES, .round = *index, .sends = true});
    return NULL;
}

static dt_status *failed_piece(const mpi_transport *mpi, const piece *piece, int error) {
    char call[64];
    if (piece->peer == ALL_PROCESSES) return failed(mpi, "MPI_Iallreduce", error);
    if (piece->round == NO_ROUND) return failed(mpi, "receiving a notice", error);
    snprintf(call, sizeof call, "%s process %d", piece->sends ? "sending to" : "receiving from", piece->peer);
    return failed(mpi, call, error);
}

/* What was received is as long as was expected: processes that disagree must not go on. */
static dt_status *check_length(const mpi_transport *mpi, const piece *piece, const MPI_Status *status) {
    int bytes;
    if (piece->sends) return NULL;
    CALL(mpi, MPI_Get_count, status, MPI_BYTE, &bytes);
    if (bytes == piece->bytes) return NULL;
    return mpi->host->error(DT_INTERNAL, "process %d sent %d bytes, and process %d expected %d", piece->peer, bytes, mpi->transport.process,
                            piece->bytes);
}

static dt_status *hear(mpi_transport *mpi, const MPI_Status *status) {
    CALL(mpi, MPI_Get_count, status, MPI_BYTE, &mpi->n_heard);
    mpi->heard_from = status->MPI_SOURCE;
    return NULL;
}

/* Of pieces that are done; the notice's stays. */
static void remove_null(mpi_transport *mpi) {
    open_pieces *open = &mpi->open;
    int n = 1;
    for (int i = 1; i < open->n; i++) {
        if (open->requests[i] == MPI_REQUEST_NULL) continue;
        open->requests[n] = open->requests[i];
        open->pieces[n++] = open->pieces[i];
    }
    open->n = n;
}

static dt_status *progress(dt_transport *transport) {
    mpi_transport *mpi = (mpi_transport *)transport;
    open_pieces *open = &mpi->open;
    int n_done = 0, error = MPI_Testsome(open->n, open->requests, &n_done, open->done, open->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return failed(mpi, "MPI_Testsome", error);
    if (n_done == MPI_UNDEFINED) return NULL; /* nothing is under way, not even a notice: one was heard, and nobody has listened */
    for (int i = 0; i < n_done; i++) {
        const piece *piece = &open->pieces[open->done[i]];
        const MPI_Status *status = &open->statuses[i];
        if (error == MPI_ERR_IN_STATUS && status->MPI_ERROR != MPI_SUCCESS) return failed_piece(mpi, piece, status->MPI_ERROR);
        if (piece->round == NO_ROUND) {
            DT_TRY(hear(mpi, status));
        } else {
            mpi->rounds[piece->round].n_open--;
            DT_TRY(check_length(mpi, piece, status));
        }
    }
    if (n_done > 0) remove_null(mpi);
    return NULL;
}

static dt_status *test(dt_transport *transport, int index, bool *done) {
    round *round = &((mpi_transport *)transport)->rounds[index];
    *done = round->n_open == 0;
    if (*done) round->is_under_way = false;
    return NULL;
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

/* Several may have come since the last time: after each it is asked for the next one. */
static dt_status *listen(dt_transport *transport, int *peer, void *notice, size_t *bytes) {
    mpi_transport *mpi = (mpi_transport *)transport;
    MPI_Request *request = &mpi->open.requests[0];
    MPI_Status status;
    int done;
    *peer = mpi->heard_from;
    if (mpi->heard_from < 0) return NULL;
    *bytes = (size_t)mpi->n_heard;
    memcpy(notice, mpi->heard, *bytes);
    mpi->heard_from = -1;
    CALL(mpi, MPI_Start, request);
    CALL(mpi, MPI_Test, request, &done, &status);
    return done ? hear(mpi, &status) : NULL;
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
    DT_TRY(progress(&mpi->transport));
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
    CALL(mpi, MPI_Cancel, &mpi->open.requests[0]);
    CALL(mpi, MPI_Wait, &mpi->open.requests[0], MPI_STATUS_IGNORE);
    CALL(mpi, MPI_Request_free, &mpi->open.requests[0]);
    return NULL;
}

static void release(mpi_transport *mpi) {
    const dt_mpi_host *host = mpi->host;
    for (int i = 0; i < mpi->outgoing.n; i++) host->release(mpi->outgoing.notices[i]);
    host->release(mpi->outgoing.requests);
    host->release(mpi->outgoing.notices);
    host->release(mpi->outgoing.done);
    host->release(mpi->open.pieces);
    host->release(mpi->open.requests);
    host->release(mpi->open.statuses);
    host->release(mpi->open.done);
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
                                           .progress = progress,
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
    DT_TRY(make_room(mpi, &mpi->open, 1));
    CALL(mpi, MPI_Recv_init, mpi->heard, DT_NOTICE_BYTES, MPI_BYTE, MPI_ANY_SOURCE, NOTICE_TAG, mpi->notices, &mpi->open.requests[0]);
    add_piece(mpi, (piece){.round = NO_ROUND});
    CALL(mpi, MPI_Start, &mpi->open.requests[0]);
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
    *mpi = (mpi_transport){.transport = {.kind = &mpi_kind, .version = "MPI"}, .host = host, .heard_from = -1};
    dt_status *status = start_mpi(mpi);
    if (status != NULL)
        release(mpi);
    else
        *transport = &mpi->transport;
    return status;
}

__attribute__((visibility("default"))) const dt_mpi_plugin dt_mpi_plugin_entry = {DT_MPI_PLUGIN_VERSION, open_transport};
