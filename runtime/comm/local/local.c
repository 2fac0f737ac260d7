/* local: see local.h. */
#include "runtime/comm/local/local.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/comm/fold.h"
#include "runtime/gate.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What one rank shows the others. A cache line of its own: it is written at each wait and read by all. */
typedef struct seat {
    _Alignas(128) _Atomic uint32_t n_arrivals; /* waits that the rank has come to */
    const dt_comm_part *parts;                 /* of the exchange in progress */
    void *data;                                /* of the broadcast in progress */
} seat;

/* What the ranks share. */
typedef struct group {
    int n_ranks, n_leaves;
    bool may_look; /* each rank has a core of its own */
    double deadline_seconds;
    dt_gate arrivals; /* moves whenever somebody arrives or aborts */
    atomic_bool aborted;
    pthread_mutex_t lock; /* guards what follows */
    char reason[512];     /* why, once aborted */
    int n_open;           /* members not yet closed */
    seat *seats;          /* [n_ranks] */
    void *seats_memory;
} group;

typedef struct member {
    dt_comm comm;
    group *group;
    uint32_t n_arrivals; /* own */
    const void **leaves; /* [n_leaves] sources of the part in progress */
    int *spans;          /* [n_leaves] of its leaves */
    int n_targets;       /* of the part in progress */
    void **targets;      /* [n_ranks] */
    char *scratch;       /* of dt_fold_leaves, aligned */
    void *memory;        /* all of the above */
} member;

/* ---- failing ---- */

static void abort_group(group *group, const char *reason) {
    pthread_mutex_lock(&group->lock);
    if (!atomic_load(&group->aborted)) {
        snprintf(group->reason, sizeof group->reason, "%s", reason);
        atomic_store(&group->aborted, true);
    }
    pthread_mutex_unlock(&group->lock);
    dt_gate_advance(&group->arrivals);
}

static dt_status *aborted(group *group) {
    pthread_mutex_lock(&group->lock);
    dt_status *status = dt_error(DT_ABORTED, "%s", group->reason);
    pthread_mutex_unlock(&group->lock);
    return status;
}

static bool has_arrived(group *group, int rank, uint32_t n_arrivals) {
    return (int32_t)(atomic_load(&group->seats[rank].n_arrivals) - n_arrivals) >= 0;
}

/* The deadline has come: says who is missing, and where the others wait. */
static dt_status *give_up(member *self, const dt_comm_moment *moment, const char *label) {
    group *group = self->group;
    dt_text text = {0};
    int n_missing = 0;
    for (int rank = 0; rank < group->n_ranks; rank++)
        if (!has_arrived(group, rank, self->n_arrivals)) dt_text_format(&text, "%s%d", n_missing++ == 0 ? "device " : " and ", rank);
    dt_text_format(&text, " missing at %s %" PRId64 ", segment %d, %s, after %g s", moment->step, moment->number, moment->segment, label,
                   group->deadline_seconds);
    abort_group(group, text.data != NULL ? text.data : "a device is missing");
    dt_text_free(&text);
    return aborted(group);
}

/* ---- waiting ---- */

/* Waits until all ranks have come here. What each wrote before, all see after. */
static dt_status *meet(member *self, const dt_comm_moment *moment, const char *label) {
    group *group = self->group;
    double deadline = INFINITY;
    atomic_store(&group->seats[self->comm.rank].n_arrivals, ++self->n_arrivals);
    dt_gate_advance(&group->arrivals);
    for (int rank = 0;;) {
        uint32_t seen = dt_gate_value(&group->arrivals);
        if (atomic_load(&group->aborted)) return aborted(group);
        while (rank < group->n_ranks && has_arrived(group, rank, self->n_arrivals)) rank++;
        if (rank == group->n_ranks) return NULL;
        if (deadline == (double)INFINITY) deadline = dt_now() + group->deadline_seconds;
        if (!dt_gate_wait(&group->arrivals, seen, group->may_look, deadline)) return give_up(self, moment, label);
    }
}

/* ---- exchanging ---- */

/* This rank's share [*first, *end) of n elements: whole cache lines, so that no two ranks write one. */
static void share(const member *self, size_t n, size_t *first, size_t *end) {
    enum {
        LINE = 64 /* elements: at least a line of any type */
    };
    size_t n_lines = (n + LINE - 1) / LINE, ranks = (size_t)self->comm.n_ranks, rank = (size_t)self->comm.rank;
    *first = n_lines * rank / ranks * LINE;
    *end = n_lines * (rank + 1) / ranks * LINE;
    if (*first > n) *first = n;
    if (*end > n) *end = n;
}

/* All leaves' sources and all different targets of part i. */
static void collect(member *self, int i) {
    group *group = self->group;
    self->n_targets = 0;
    for (int rank = 0; rank < group->n_ranks; rank++) {
        const dt_comm_part *part = &group->seats[rank].parts[i];
        int first = dt_comm_first_leaf(rank, group->n_ranks, group->n_leaves), end = dt_comm_first_leaf(rank + 1, group->n_ranks, group->n_leaves);
        for (int leaf = first; leaf < end; leaf++) {
            self->leaves[leaf] = part->sources[leaf - first];
            self->spans[leaf] = part->spans != NULL ? part->spans[leaf - first] : 1;
        }
        if (self->n_targets == 0 || self->targets[self->n_targets - 1] != part->targets[0]) self->targets[self->n_targets++] = part->targets[0];
    }
}

static void all_reduce(member *self, const dt_comm_part *part, int i) {
    size_t first, end;
    share(self, part->n, &first, &end);
    if (first == end) return;
    collect(self, i);
    for (int t = 0; t < self->n_targets; t++) self->targets[t] = (char *)self->targets[t] + first * dt_dtype_bytes(part->dtype);
    dt_fold_leaves(part->fold, part->dtype, self->leaves, self->spans, self->group->n_leaves, first, end - first, self->scratch, self->targets,
                   self->n_targets);
}

/* Each rank puts the rows of its leaves where they belong: behind those of all leaves before. */
static void all_gather(member *self, const dt_comm_part *part, int i, const dt_comm_moment *moment) {
    size_t row_bytes = part->n * dt_dtype_bytes(part->dtype);
    collect(self, i);
    for (int leaf = self->comm.first_leaf; leaf < self->comm.first_leaf + self->comm.n_leaves; leaf++) {
        size_t bytes = (size_t)dt_comm_valid_rows(leaf, moment) * row_bytes, before = (size_t)dt_comm_first_row(leaf, moment) * row_bytes;
        for (int t = 0; t < self->n_targets && bytes != 0; t++) memcpy((char *)self->targets[t] + before, self->leaves[leaf], bytes);
    }
}

/* Each rank folds the rows that its own leaves keep. */
static void reduce_scatter(member *self, const dt_comm_part *part, int i, const dt_comm_moment *moment) {
    collect(self, i);
    for (int l = 0; l < self->comm.n_leaves; l++) {
        int leaf = self->comm.first_leaf + l;
        size_t n = (size_t)dt_comm_valid_rows(leaf, moment) * part->n, first = (size_t)dt_comm_first_row(leaf, moment) * part->n;
        dt_fold_leaves(part->fold, part->dtype, self->leaves, self->spans, self->group->n_leaves, first, n, self->scratch, &part->targets[l], 1);
    }
}

static dt_status *exchange(dt_comm *comm, const dt_comm_part *parts, int n_parts, const dt_comm_moment *moment) {
    member *self = (member *)comm;
    bool alone = comm->n_ranks == 1;
    if (n_parts == 0) return NULL;
    self->group->seats[comm->rank].parts = parts;
    if (!alone) DT_TRY(meet(self, moment, parts[0].label));
    for (int i = 0; i < n_parts; i++) {
        const dt_comm_part *part = &parts[i];
        switch (part->kind) {
        case DT_COLLECTIVE_ALL_REDUCE: all_reduce(self, part, i); break;
        case DT_COLLECTIVE_ALL_GATHER: all_gather(self, part, i, moment); break;
        case DT_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(self, part, i, moment); break;
        }
    }
    return alone ? NULL : meet(self, moment, parts[n_parts - 1].label);
}

static dt_status *broadcast(dt_comm *comm, int root, void *data, size_t bytes, const dt_comm_moment *moment) {
    member *self = (member *)comm;
    self->group->seats[comm->rank].data = data;
    DT_TRY(meet(self, moment, "broadcast"));
    if (comm->rank != root) memcpy(data, self->group->seats[root].data, bytes);
    return meet(self, moment, "broadcast");
}

static dt_status *barrier(dt_comm *comm, const dt_comm_moment *moment) { return comm->n_ranks == 1 ? NULL : meet((member *)comm, moment, "barrier"); }

static void abort_member(dt_comm *comm, const char *reason) { abort_group(((member *)comm)->group, reason); }

/* ---- opening and closing ---- */

static void free_group(group *group) {
    pthread_mutex_destroy(&group->lock);
    dt_release(group->seats_memory);
    dt_release(group);
}

static void close_member(dt_comm *comm) {
    member *self = (member *)comm;
    group *group = self->group;
    pthread_mutex_lock(&group->lock);
    int n_open = --group->n_open;
    pthread_mutex_unlock(&group->lock);
    if (n_open == 0) free_group(group);
    dt_release(self->memory);
    dt_release(self);
}

static const dt_comm_kind local_kind = {"local", exchange, broadcast, barrier, abort_member, close_member};

static void *align(void *memory, size_t alignment) { return (void *)(((uintptr_t)memory + alignment - 1) & ~(uintptr_t)(alignment - 1)); }

static group *open_group(int n_ranks, int n_leaves, double deadline_seconds) {
    group *made = dt_allocate_zeroed(1, sizeof *made);
    void *memory = dt_allocate_zeroed((size_t)n_ranks + 1, sizeof(seat));
    if (made == NULL || memory == NULL) {
        dt_release(made);
        dt_release(memory);
        return NULL;
    }
    *made = (group){.n_ranks = n_ranks, .n_leaves = n_leaves, .may_look = n_ranks <= dt_n_cores(), .deadline_seconds = deadline_seconds};
    made->seats_memory = memory;
    made->seats = align(memory, _Alignof(seat));
    pthread_mutex_init(&made->lock, NULL);
    return made;
}

static dt_comm *open_member(group *group, int rank) {
    size_t leaves_bytes = (size_t)group->n_leaves * sizeof(void *), spans_bytes = (size_t)group->n_leaves * sizeof(int);
    size_t targets_bytes = (size_t)group->n_ranks * sizeof(void *);
    member *self = dt_allocate_zeroed(1, sizeof *self);
    char *memory = dt_allocate_zeroed(1, leaves_bytes + targets_bytes + spans_bytes + dt_fold_scratch_bytes(group->n_leaves) + 64);
    if (self == NULL || memory == NULL) {
        dt_release(self);
        dt_release(memory);
        return NULL;
    }
    int first = dt_comm_first_leaf(rank, group->n_ranks, group->n_leaves), end = dt_comm_first_leaf(rank + 1, group->n_ranks, group->n_leaves);
    *self = (member){.comm = {&local_kind, rank, group->n_ranks, group->n_leaves, first, end - first}, .group = group, .memory = memory};
    self->leaves = (const void **)memory;
    self->targets = (void **)(memory + leaves_bytes);
    self->spans = (int *)(memory + leaves_bytes + targets_bytes);
    self->scratch = align(memory + leaves_bytes + targets_bytes + spans_bytes, 64);
    group->n_open++;
    return &self->comm;
}

dt_status *dt_comm_local_open(int n_ranks, int n_leaves, double deadline_seconds, dt_comm **comms) {
    group *group = open_group(n_ranks, n_leaves, deadline_seconds);
    bool complete = group != NULL;
    for (int rank = 0; rank < n_ranks; rank++) {
        comms[rank] = complete ? open_member(group, rank) : NULL;
        complete = complete && comms[rank] != NULL;
    }
    if (complete) return NULL;
    if (group != NULL && group->n_open == 0) free_group(group);
    for (int rank = 0; rank < n_ranks; rank++) {
        dt_comm_close(comms[rank]);
        comms[rank] = NULL;
    }
    return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d devices", n_ranks);
}
