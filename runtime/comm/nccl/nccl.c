/* nccl: see the header. */
#include "runtime/comm/nccl/nccl.h"

#include "base/memory.h"
#include "base/thread.h"
#include "runtime/comm/nccl/library.h"
#include "runtime/threads/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double ABORT_SECONDS = 3; /* how long NCCL may take to end what is under way */

enum {
    ALL = DT_N_AXES, /* processes; before it those along each axis */
    N_COMMUNICATORS
};

typedef struct nccl_link {
    dt_link link;
    dt_nccl_library library;
    dt_link_kind kind; /* with the library's name */
    dt_mesh mesh;
    void *communicators[N_COMMUNICATORS]; /* NULL: nobody needs one, or it was aborted */
    bool aborted;
    dt_processes *processes;
    double deadline_seconds;
} nccl_link;

static nccl_link *link_of(dt_link *link) { return (nccl_link *)link; }

static const dt_step_context at_start = {.step = "start"};

/* ---- waiting ---- */

/* What a communicator is at; of several, what is wrong or else in progress. */
static int ask_all(const nccl_link *self) {
    int all = DT_NCCL_SUCCESS;
    for (int c = 0; c < N_COMMUNICATORS; c++) {
        int error = DT_NCCL_SUCCESS;
        if (self->communicators[c] == NULL) continue;
        int asked = self->library.ncclCommGetAsyncError(self->communicators[c], &error);
        if (asked != DT_NCCL_SUCCESS) error = asked;
        if (all == DT_NCCL_SUCCESS || (all == DT_NCCL_IN_PROGRESS && error != DT_NCCL_SUCCESS)) all = error;
    }
    return all;
}

/* Until what `call` began is done, which returned `error`. */
static dt_status *settle(nccl_link *self, const char *call, int error) {
    double end = dt_seconds_now() + self->deadline_seconds;
    while (error == DT_NCCL_IN_PROGRESS) {
        DT_TRY(dt_processes_status(self->processes));
        if (dt_seconds_now() > end)
            return dt_error(DT_ABORTED, "%s, %s: not done after %g s; NCCL_DEBUG=INFO says what it does", self->library.name, call,
                            self->deadline_seconds);
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000}, NULL);
        error = ask_all(self);
    }
    return dt_nccl_error(&self->library, self->communicators[ALL], call, error);
}

/* ---- the link ---- */

/* The communicator that the run's process `peer` is in as well, and its rank there. */
static void *shared_with(const nccl_link *self, int peer, int *rank) {
    for (int axis = 0; axis < DT_N_AXES; axis++) {
        const dt_process_roles *roles = &self->mesh.axes[axis];
        for (*rank = 0; *rank < roles->n_processes; ++*rank)
            if (self->communicators[axis] != NULL && dt_process_rank(*roles, *rank) == peer) return self->communicators[axis];
    }
    *rank = peer;
    return self->communicators[ALL];
}

static int start_message(const nccl_link *self, void *queue, const dt_message *message) {
    int rank;
    void *communicator = shared_with(self, message->peer, &rank);
    if (message->sends) return self->library.ncclSend(message->data, message->bytes, DT_NCCL_INT8, rank, communicator, queue);
    return self->library.ncclRecv(message->data, message->bytes, DT_NCCL_INT8, rank, communicator, queue);
}

static dt_status *was_aborted(const nccl_link *self) { return dt_error(DT_FAILED_PRECONDITION, "%s was aborted", self->library.name); }

/* The group is ended after an error too, or the thread would stay in it. */
static dt_status *transfer(dt_link *link, void *queue, const dt_message *messages, int n) {
    nccl_link *self = link_of(link);
    if (self->aborted) return was_aborted(self);
    DT_TRY(settle(self, "ncclGroupStart", self->library.ncclGroupStart()));
    dt_status *status = NULL;
    for (int m = 0; m < n && status == NULL; m++)
        status = dt_nccl_error(&self->library, self->communicators[ALL], messages[m].sends ? "ncclSend" : "ncclRecv",
                               start_message(self, queue, &messages[m]));
    return dt_status_first(status, settle(self, "ncclGroupEnd", self->library.ncclGroupEnd()));
}

static int type_of(dt_dtype dtype) {
    switch (dtype) {
    case DT_F64: return DT_NCCL_FLOAT64;
    case DT_I32: return DT_NCCL_INT32;
    case DT_I64: return DT_NCCL_INT64;
    default: return DT_NCCL_FLOAT32;
    }
}

static dt_status *all_reduce(dt_link *link, void *queue, dt_dtype dtype, void *data, size_t n) {
    nccl_link *self = link_of(link);
    if (self->aborted) return was_aborted(self);
    return settle(self, "ncclAllReduce", self->library.ncclAllReduce(data, data, n, type_of(dtype), DT_NCCL_SUM, self->communicators[ALL], queue));
}

/* Whoever asks is alive, and its device has a deadline of its own: so it gets on. */
static dt_status *check(dt_link *link) {
    nccl_link *self = link_of(link);
    dt_progress_count(dt_processes_progress(self->processes));
    DT_TRY(dt_processes_status(self->processes));
    return self->aborted ? NULL : dt_nccl_error(&self->library, self->communicators[ALL], "what GPUs exchange", ask_all(self));
}

typedef struct aborting {
    int (*abort)(void *communicator);
    void *communicators[N_COMMUNICATORS];
} aborting;

static void *run_abort(void *argument) {
    aborting *work = argument;
    for (int c = 0; c < N_COMMUNICATORS; c++)
        if (work->communicators[c] != NULL) work->abort(work->communicators[c]);
    dt_release(work);
    return NULL;
}

/* It gives back memory of the GPU, for which the driver waits until nothing runs there: where something else hangs it does not come back. */
static void abort_link(dt_link *link) {
    nccl_link *self = link_of(link);
    aborting *work = dt_allocate_zeroed(1, sizeof *work);
    pthread_t thread;
    if (self->aborted || work == NULL) {
        dt_release(work);
        return;
    }
    work->abort = self->library.ncclCommAbort;
    memcpy(work->communicators, self->communicators, sizeof work->communicators);
    memset(self->communicators, 0, sizeof self->communicators);
    self->aborted = true;
    if (pthread_create(&thread, NULL, run_abort, work) != 0)
        dt_release(work);
    else if (!dt_thread_join(thread, ABORT_SECONDS))
        pthread_detach(thread);
}

/* What all were split off comes last. */
static void close_link(dt_link *link) {
    nccl_link *self = link_of(link);
    for (int c = 0; c < N_COMMUNICATORS && !self->aborted; c++) {
        if (self->communicators[c] == NULL) continue;
        dt_status *status = settle(self, "ncclCommFinalize", self->library.ncclCommFinalize(self->communicators[c]));
        if (status == NULL)
            self->library.ncclCommDestroy(self->communicators[c]);
        else
            abort_link(link);
        dt_status_free(status);
        self->communicators[c] = NULL;
    }
    dt_release(self);
}

/* ---- opening ---- */

/* What processes show one another. */
typedef struct candidate {
    uint8_t gpu[DT_DEVICE_ID_BYTES];
    int32_t version;
    char refusal[200]; /* empty: it can */
} candidate;

_Static_assert(sizeof(candidate) <= DT_RECORD_BYTES && sizeof(dt_nccl_id) <= DT_RECORD_BYTES, "processes gather them");

static dt_status *look(const dt_nccl_options *options, dt_nccl_library *library, candidate *mine) {
    const char *named = getenv("DT_NCCL");
    const char *refusal = named != NULL && strcmp(named, "none") == 0 ? "DT_NCCL=none" : options->refusal;
    if (refusal != NULL) {
        snprintf(mine->refusal, sizeof mine->refusal, "%s", refusal);
        return NULL;
    }
    dt_status *status = dt_nccl_library_open(library);
    if (dt_status_code(status) == DT_UNIMPLEMENTED) {
        snprintf(mine->refusal, sizeof mine->refusal, "%s", dt_status_message(status));
        dt_status_free(status);
        return NULL;
    }
    DT_TRY(status);
    mine->version = library->version;
    return options->device->kind->identify(options->device, mine->gpu);
}

/* The first two processes with one GPU; false: there are none. */
static bool share_gpu(const candidate *all, int n, int *one, int *other) {
    for (*one = 0; *one < n; ++*one)
        for (*other = *one + 1; *other < n; ++*other)
            if (memcmp(all[*one].gpu, all[*other].gpu, sizeof all->gpu) == 0) return true;
    return false;
}

/* Whether all can: what they see is the same, and so is what they say. */
static bool agree(const candidate *all, int n, char *why, size_t bytes) {
    int one, other;
    for (int p = 0; p < n; p++) {
        if (all[p].refusal[0] == 0) continue;
        snprintf(why, bytes, "process %d: %s", p, all[p].refusal);
        return false;
    }
    for (int p = 1; p < n; p++) {
        if (all[p].version == all[0].version) continue;
        char first[32], this[32];
        dt_nccl_name(all[0].version, first, sizeof first);
        dt_nccl_name(all[p].version, this, sizeof this);
        snprintf(why, bytes, "process 0 has %s, process %d has %s", first, p, this);
        return false;
    }
    if (!share_gpu(all, n, &one, &other)) return true;
    snprintf(why, bytes, "processes %d and %d share a GPU, which NCCL cannot", one, other);
    return false;
}

/* Made by process 0. */
static dt_status *share_id(const dt_nccl_options *options, const dt_nccl_library *library, dt_nccl_id *ids, dt_nccl_id *id) {
    int process = dt_processes_number(options->processes);
    if (process == 0) DT_TRY(dt_nccl_error(library, NULL, "ncclGetUniqueId", library->ncclGetUniqueId(&ids[0])));
    DT_TRY(dt_processes_allgather(options->processes, ids, sizeof *ids, &at_start));
    *id = ids[0];
    return NULL;
}

/* All processes split by one axis after another; where one is that of all, nobody does. */
static dt_status *split(nccl_link *self, dt_nccl_config *config) {
    void *all = self->communicators[ALL];
    for (int axis = 0; axis < DT_N_AXES; axis++) {
        const dt_process_roles *roles = &self->mesh.axes[axis];
        if (roles->n_processes == 1 || roles->n_processes == dt_processes_count(self->processes)) continue;
        int error = self->library.ncclCommSplit(all, dt_process_rank(*roles, 0), roles->process, &self->communicators[axis], config);
        DT_TRY(settle(self, "ncclCommSplit", error));
    }
    return NULL;
}

static dt_status *join(nccl_link *self, const dt_nccl_id *id) {
    dt_nccl_config config = {.bytes = sizeof config, .magic = DT_NCCL_CONFIG_MAGIC, .version = DT_NCCL_CONFIG_VERSION, .blocking = 0};
    int n = dt_processes_count(self->processes), process = dt_processes_number(self->processes);
    dt_processes_await(self->processes, &at_start, "NCCL's communicators");
    int error = self->library.ncclCommInitRankConfig(&self->communicators[ALL], n, *id, process, &config);
    dt_status *status = settle(self, "ncclCommInitRankConfig", error);
    if (status == NULL) status = split(self, &config);
    dt_processes_await(self->processes, NULL, NULL);
    if (status == NULL || dt_status_code(status) == DT_ABORTED) return status;
    dt_status *longer = dt_error(dt_status_code(status), "%s; DT_NCCL=none does without it", dt_status_message(status));
    dt_status_free(status);
    return longer;
}

static dt_status *open_link(const dt_nccl_options *options, const dt_nccl_library *library, const dt_nccl_id *id, dt_link **link) {
    nccl_link *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect GPUs");
    *made = (nccl_link){.link.kind = &made->kind,
                        .library = *library,
                        .kind = {made->library.name, transfer, all_reduce, check, abort_link, close_link},
                        .mesh = *options->mesh,
                        .processes = options->processes,
                        .deadline_seconds = options->deadline_seconds};
    dt_status *status = join(made, id);
    if (status == NULL) {
        *link = &made->link;
        return NULL;
    }
    abort_link(&made->link);
    close_link(&made->link);
    return status;
}

dt_status *dt_nccl_open(const dt_nccl_options *options, dt_link **link, char *why, size_t why_bytes) {
    int n = dt_processes_count(options->processes), process = dt_processes_number(options->processes);
    candidate *all = dt_allocate_zeroed((size_t)n, sizeof *all);
    dt_nccl_id *ids = dt_allocate_zeroed((size_t)n, sizeof *ids), id;
    dt_nccl_library library;
    *link = NULL;
    *why = 0;
    dt_status *status = all == NULL || ids == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d GPUs", n) : NULL;
    if (status == NULL) status = look(options, &library, &all[process]);
    if (status == NULL) status = dt_processes_allgather(options->processes, all, sizeof *all, &at_start);
    if (status == NULL && agree(all, n, why, why_bytes)) {
        status = share_id(options, &library, ids, &id);
        if (status == NULL) status = open_link(options, &library, &id, link);
    }
    dt_release(all);
    dt_release(ids);
    return status;
}
