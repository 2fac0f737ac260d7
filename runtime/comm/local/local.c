/* local: see local.h. A collective is reductions in memory: each member computes a share of the elements, from all members' parts where they lie, and
 * stores it once in each memory. The elements are shared out, not the tree, so that the number of members changes no bit. */
#include "runtime/comm/local/local.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/threads/clock.h"
#include "runtime/threads/event.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    N_SCOPES = DT_GROUP_LEADERS + 1
};

/* What one rank shows the others. Cache lines of its own: it is written at each meeting and read by all. */
typedef struct seat {
    _Alignas(128) _Atomic uint32_t n_arrivals[N_SCOPES]; /* meetings that the rank has come to */
    const dt_collective_part *parts;
    const void *record; /* of the gathering in progress */
} seat;

struct dt_local_hub {
    dt_local_hub_options options;
    bool may_look;     /* each rank has a core of its own */
    dt_event arrivals; /* moves whenever somebody arrives or aborts */
    atomic_bool aborted;
    pthread_mutex_t lock; /* guards what follows */
    char reason[512];     /* why, once aborted */
    int n_users;          /* members not yet closed, and the creator */
    seat *seats;          /* [n_ranks] */
    void *seats_memory;
};

typedef struct member {
    dt_group group;
    dt_local_hub *hub;
    uint32_t n_arrivals[N_SCOPES]; /* own */
} member;

/* ---- failing ---- */

static void abort_hub(dt_local_hub *hub, const char *reason) {
    pthread_mutex_lock(&hub->lock);
    if (!atomic_load(&hub->aborted)) {
        snprintf(hub->reason, sizeof hub->reason, "%s", reason);
        atomic_store(&hub->aborted, true);
    }
    pthread_mutex_unlock(&hub->lock);
    dt_event_advance(&hub->arrivals);
}

static dt_status *aborted(dt_local_hub *hub) {
    pthread_mutex_lock(&hub->lock);
    dt_status *status = dt_error(DT_ABORTED, "%s", hub->reason);
    pthread_mutex_unlock(&hub->lock);
    return status;
}

/* ---- meeting ---- */

/* Ranks first, first + step, … below end. */
typedef struct ranks {
    int first, end, step;
} ranks;

static ranks ranks_of(const dt_group *group, dt_group_scope scope) {
    switch (scope) {
    case DT_GROUP_ALL: break;
    case DT_GROUP_DOMAIN: return (ranks){group->first_domain_rank, group->first_domain_rank + group->n_domain_ranks, 1};
    case DT_GROUP_LEADERS: return (ranks){0, group->n_ranks, group->n_ranks / group->n_processes};
    }
    return (ranks){0, group->n_ranks, 1};
}

static bool has_arrived(dt_local_hub *hub, int rank, dt_group_scope scope, uint32_t n_arrivals) {
    return (int32_t)(atomic_load(&hub->seats[rank].n_arrivals[scope]) - n_arrivals) >= 0;
}

/* The deadline has come: says who is missing, and where the others wait. */
static dt_status *give_up(member *self, dt_group_scope scope, const dt_step_context *context, const char *label) {
    dt_local_hub *hub = self->hub;
    ranks all = ranks_of(&self->group, scope);
    dt_text text = {0};
    int n_missing = 0;
    for (int rank = all.first; rank < all.end; rank += all.step)
        if (!has_arrived(hub, rank, scope, self->n_arrivals[scope])) dt_text_format(&text, "%s%d", n_missing++ == 0 ? "device " : " and ", rank);
    dt_text_format(&text, " missing at %s %" PRId64 ", segment %d, %s, after %g s", context->step, context->number, context->segment, label,
                   hub->options.deadline_seconds);
    abort_hub(hub, text.data != NULL ? text.data : "a device is missing");
    dt_text_free(&text);
    return aborted(hub);
}

static dt_status *meet(dt_group *group, dt_group_scope scope, const dt_step_context *context, const char *label) {
    member *self = (member *)group;
    dt_local_hub *hub = self->hub;
    ranks all = ranks_of(group, scope);
    double deadline = INFINITY;
    if (all.first + all.step >= all.end) return NULL;
    uint32_t n_arrivals = ++self->n_arrivals[scope];
    atomic_store(&hub->seats[group->rank].n_arrivals[scope], n_arrivals);
    dt_event_advance(&hub->arrivals);
    for (int rank = all.first;;) {
        uint32_t seen = dt_event_value(&hub->arrivals);
        if (atomic_load(&hub->aborted)) return aborted(hub);
        while (rank < all.end && has_arrived(hub, rank, scope, n_arrivals)) rank += all.step;
        if (rank >= all.end) return NULL;
        if (deadline == (double)INFINITY) deadline = dt_seconds_now() + hub->options.deadline_seconds;
        if (!dt_event_wait(&hub->arrivals, seen, hub->may_look, deadline)) return give_up(self, scope, context, label);
    }
}

static dt_status *gather(dt_group *group, void *records, size_t bytes, const dt_step_context *context) {
    dt_local_hub *hub = ((member *)group)->hub;
    ranks leaders = ranks_of(group, DT_GROUP_LEADERS);
    hub->seats[group->rank].record = (char *)records + (size_t)group->process * bytes;
    DT_TRY(meet(group, DT_GROUP_LEADERS, context, "records"));
    for (int process = 0; process < group->n_processes; process++)
        if (process != group->process) memcpy((char *)records + (size_t)process * bytes, hub->seats[process * leaders.step].record, bytes);
    return meet(group, DT_GROUP_LEADERS, context, "records");
}

/* ---- collectives ---- */

static void publish(dt_group *group, const dt_collective_part *parts) { ((member *)group)->hub->seats[group->rank].parts = parts; }

/* This member's share [*first, *end) of n elements: whole cache lines, so that no two members write one. */
static void share(const dt_group *group, size_t n, size_t *first, size_t *end) {
    enum {
        LINE = 64 /* elements: at least a line of any type */
    };
    size_t n_lines = (n + LINE - 1) / LINE, n_ranks = (size_t)group->n_ranks, rank = (size_t)group->rank;
    *first = n_lines * rank / n_ranks * LINE;
    *end = n_lines * (rank + 1) / n_ranks * LINE;
    if (*first > n) *first = n;
    if (*end > n) *end = n;
}

/* What all members have left of part i, from byte `at` on. Returns how many sources that are. */
static int collect_sources(const member *self, int i, size_t at, dt_tree_source *sources) {
    const dt_group *group = &self->group;
    int n = 0;
    for (int rank = 0; rank < group->n_ranks; rank++) {
        const dt_collective_part *part = &self->hub->seats[rank].parts[i];
        int first = dt_microbatches_first_of_rank(rank, group->n_ranks, group->n_all_microbatches);
        int end = dt_microbatches_first_of_rank(rank + 1, group->n_ranks, group->n_all_microbatches);
        for (int m = 0; m < end - first; m++) {
            int span = part->spans != NULL ? part->spans[m] : 1;
            if (span > 0) sources[n++] = (dt_tree_source){(const char *)part->sources[m] + at, span};
        }
    }
    return n;
}

/* Where all members want part i, from byte `at` on, each place once. */
static void **collect_targets(const member *self, int i, size_t at, dt_arena *arena, int *n) {
    int n_all = 0;
    for (int rank = 0; rank < self->group.n_ranks; rank++) n_all += self->hub->seats[rank].parts[i].n_targets;
    void **targets = DT_NEW_ARRAY(arena, void *, n_all);
    *n = 0;
    for (int rank = 0; rank < self->group.n_ranks; rank++) {
        const dt_collective_part *part = &self->hub->seats[rank].parts[i], *before = rank > 0 ? &self->hub->seats[rank - 1].parts[i] : NULL;
        for (int t = 0; t < part->n_targets; t++) {
            bool known = before != NULL && t < before->n_targets && before->targets[t] == part->targets[t];
            if (!known) targets[(*n)++] = (char *)part->targets[t] + at;
        }
    }
    return targets;
}

static void add_sum(const member *self, int i, size_t first, size_t n_elements, int n_targets, void *const *targets, dt_arena *arena,
                    dt_tree_reductions *reductions) {
    const dt_collective_part *part = &self->hub->seats[self->group.rank].parts[i];
    dt_tree_source *sources = DT_NEW_ARRAY(arena, dt_tree_source, self->group.n_all_microbatches);
    dt_tree_reduction sum = {.dtype = part->dtype,
                             .combine = part->combine,
                             .n_leaves = self->group.n_all_microbatches,
                             .n_sources = collect_sources(self, i, first * dt_dtype_bytes(part->dtype), sources),
                             .sources = sources,
                             .n_elements = n_elements,
                             .n_targets = n_targets,
                             .targets = targets};
    dt_list_push(arena, reductions, sum);
}

static void all_reduce(const member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_collective_part *part = &self->hub->seats[self->group.rank].parts[i];
    size_t first, end;
    int n_targets;
    share(&self->group, part->n, &first, &end);
    if (first == end) return;
    void **targets = collect_targets(self, i, first * dt_dtype_bytes(part->dtype), arena, &n_targets);
    add_sum(self, i, first, end - first, n_targets, targets, arena, reductions);
}

/* Each member puts the rows of its microbatches where they belong: behind those of all before. */
static void all_gather(const member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_group *group = &self->group;
    const dt_collective_part *part = &self->hub->seats[group->rank].parts[i];
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t first = dt_microbatches_first_row(&group->rows, group->first_microbatch + m);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        dt_tree_source *source = DT_NEW(arena, dt_tree_source);
        *source = (dt_tree_source){part->sources[m], 1};
        dt_tree_reduction copy = {.dtype = part->dtype, .n_leaves = 1, .n_sources = 1, .sources = source, .n_elements = (size_t)rows * part->n};
        if (copy.n_elements == 0) continue;
        copy.targets = collect_targets(self, i, (size_t)first * part->n * dt_dtype_bytes(part->dtype), arena, &copy.n_targets);
        dt_list_push(arena, reductions, copy);
    }
}

/* Each member reduces the rows that its own microbatches keep. */
static void reduce_scatter(const member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_group *group = &self->group;
    const dt_collective_part *part = &self->hub->seats[group->rank].parts[i];
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t first = dt_microbatches_first_row(&group->rows, group->first_microbatch + m);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        if (rows > 0) add_sum(self, i, (size_t)first * part->n, (size_t)rows * part->n, 1, &part->targets[m], arena, reductions);
    }
}

static void lower(dt_group *group, int first, int n, dt_arena *arena, dt_tree_reductions *reductions) {
    const member *self = (const member *)group;
    for (int i = first; i < first + n; i++) {
        switch (self->hub->seats[group->rank].parts[i].kind) {
        case DT_COLLECTIVE_ALL_REDUCE: all_reduce(self, i, arena, reductions); break;
        case DT_COLLECTIVE_ALL_GATHER: all_gather(self, i, arena, reductions); break;
        case DT_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(self, i, arena, reductions); break;
        }
    }
}

/* ---- opening and closing ---- */

static void abort_member(dt_group *group, const char *reason) { abort_hub(((member *)group)->hub, reason); }

void dt_local_hub_release(dt_local_hub *hub) {
    if (hub == NULL) return;
    pthread_mutex_lock(&hub->lock);
    int n_users = --hub->n_users;
    pthread_mutex_unlock(&hub->lock);
    if (n_users > 0) return;
    pthread_mutex_destroy(&hub->lock);
    dt_release(hub->seats_memory);
    dt_release(hub);
}

static void close_member(dt_group *group) {
    dt_local_hub_release(((member *)group)->hub);
    dt_release(group);
}

static const dt_group_kind local_kind = {"local", publish, lower, meet, gather, abort_member, close_member};

dt_status *dt_local_hub_create(const dt_local_hub_options *options, dt_local_hub **hub) {
    dt_local_hub *made = dt_allocate_zeroed(1, sizeof *made);
    void *memory = dt_allocate_zeroed((size_t)options->n_ranks + 1, sizeof(seat));
    *hub = NULL;
    if (made == NULL || memory == NULL) {
        dt_release(made);
        dt_release(memory);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d devices", options->n_ranks);
    }
    *made = (dt_local_hub){.options = *options, .may_look = options->n_ranks <= dt_cpu_n_cores(), .n_users = 1, .seats_memory = memory};
    made->seats = (seat *)(((uintptr_t)memory + _Alignof(seat) - 1) & ~(uintptr_t)(_Alignof(seat) - 1));
    pthread_mutex_init(&made->lock, NULL);
    *hub = made;
    return NULL;
}

dt_status *dt_local_hub_join(dt_local_hub *hub, int rank, dt_group **group) {
    const dt_local_hub_options *options = &hub->options;
    member *made = dt_allocate_zeroed(1, sizeof *made);
    *group = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d devices", options->n_ranks);
    int of_a_process = options->n_ranks / options->n_processes, of_a_domain = options->shares_memory ? of_a_process : 1;
    int first = dt_microbatches_first_of_rank(rank, options->n_ranks, options->n_microbatches);
    made->hub = hub;
    made->group = (dt_group){.kind = &local_kind,
                             .id = (uint64_t)(uintptr_t)hub,
                             .rank = rank,
                             .n_ranks = options->n_ranks,
                             .first_domain_rank = rank / of_a_domain * of_a_domain,
                             .n_domain_ranks = of_a_domain,
                             .process = rank / of_a_process,
                             .n_processes = options->n_processes,
                             .first_microbatch = first,
                             .n_microbatches = dt_microbatches_first_of_rank(rank + 1, options->n_ranks, options->n_microbatches) - first,
                             .n_all_microbatches = options->n_microbatches,
                             .rows = options->rows};
    pthread_mutex_lock(&hub->lock);
    hub->n_users++;
    pthread_mutex_unlock(&hub->lock);
    *group = &made->group;
    return NULL;
}
