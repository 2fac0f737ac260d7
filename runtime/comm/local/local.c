/* local: see local.h. A collective is reductions in memory: each member computes a share of the elements, from all members' parts where they lie, and
 * stores it once in each memory. The elements are shared out, not the tree, so that the number of members changes no bit. */
#include "runtime/comm/local/hub.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/threads/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* Another process has failed. */
static void hear_of_failure(void *hub, const char *reason) { abort_hub(hub, reason); }

/* Where processes have failed, it is theirs to say whose fault that is. */
static dt_status *aborted(dt_local_hub *hub) {
    dt_status *failed = dt_processes_status(hub->options.processes);
    if (failed != NULL) return failed;
    pthread_mutex_lock(&hub->lock);
    dt_status *status = dt_error(DT_ABORTED, "%s", hub->reason);
    pthread_mutex_unlock(&hub->lock);
    return status;
}

/* ---- meeting ---- */

static bool has_arrived(dt_local_hub *hub, int rank, uint32_t n_arrivals) {
    return (int32_t)(atomic_load(&hub->seats[rank].n_arrivals) - n_arrivals) >= 0;
}

/* The deadline has come: says who is missing, and where the others wait. */
static dt_status *give_up(dt_local_member *self, const dt_step_context *context, const char *label) {
    dt_local_hub *hub = self->hub;
    dt_text text = {0};
    int n_missing = 0;
    for (int rank = 0; rank < self->group.n_ranks; rank++)
        if (!has_arrived(hub, rank, self->n_arrivals)) dt_text_format(&text, "%s%d", n_missing++ == 0 ? "device " : " and ", rank);
    dt_text_format(&text, " missing at %s %" PRId64 ", segment %d, %s, after %g s", context->step, context->number, context->segment, label,
                   hub->options.deadline_seconds);
    const char *reason = text.data != NULL ? text.data : "a device is missing";
    abort_hub(hub, reason);
    dt_processes_abort(hub->options.processes, reason);
    dt_text_free(&text);
    return aborted(hub);
}

static dt_status *meet(dt_group *group, const dt_step_context *context, const char *label) {
    dt_local_member *self = (dt_local_member *)group;
    dt_local_hub *hub = self->hub;
    double deadline = INFINITY;
    int rank = 0, end = group->n_ranks;
    if (end == 1) return atomic_load(&hub->aborted) ? aborted(hub) : NULL;
    uint32_t n_arrivals = ++self->n_arrivals;
    atomic_store(&hub->seats[group->rank].n_arrivals, n_arrivals);
    dt_event_advance(&hub->arrivals);
    for (;;) {
        uint32_t seen = dt_event_value(&hub->arrivals);
        if (atomic_load(&hub->aborted)) return aborted(hub);
        while (rank < end && has_arrived(hub, rank, n_arrivals)) rank++;
        if (rank >= end) return NULL;
        if (deadline == (double)INFINITY) deadline = dt_seconds_now() + hub->options.deadline_seconds;
        if (!dt_event_wait(&hub->arrivals, seen, hub->may_look, deadline)) return give_up(self, context, label);
    }
}

/* ---- collectives ---- */

static void publish(dt_group *group, const dt_collective_part *parts, int n) {
    dt_local_hub *hub = ((dt_local_member *)group)->hub;
    hub->seats[group->rank].parts = parts;
    hub->n_parts = n;
}

int dt_local_first_microbatch(const dt_local_hub *hub, int rank) {
    const dt_local_hub_options *options = &hub->options;
    return options->first_microbatch + dt_microbatches_first_of_member(rank, options->n_ranks, options->n_idle, options->n_microbatches);
}

void dt_local_share(const dt_group *group, size_t n, size_t *first, size_t *end) {
    enum {
        LINE = 64 /* elements: at least a line of any type */
    };
    size_t n_lines = (n + LINE - 1) / LINE, n_ranks = (size_t)group->n_ranks, rank = (size_t)group->rank;
    *first = n_lines * rank / n_ranks * LINE;
    *end = n_lines * (rank + 1) / n_ranks * LINE;
    if (*first > n) *first = n;
    if (*end > n) *end = n;
}

/* The same of shards, which one member has. */
static int collect_shards(const dt_local_hub *hub, int i, int64_t first, int64_t end, size_t at, dt_tree_source *sources) {
    const dt_collective_part *part = dt_local_owner(hub, 0, i);
    const dt_process_roles *model = &hub->options.mesh.axes[DT_AXIS_MODEL];
    dt_microbatch_range own = dt_microbatches_of_process(*model, model->process, hub->options.n_all_shards);
    int n = 0;
    for (int s = own.first; s < own.end; s++)
        if (s >= first && s < end) sources[n++] = (dt_tree_source){(const char *)part->sources[s - own.first] + at, 1};
    return n;
}

int dt_local_collect_sources(const dt_local_hub *hub, int i, int64_t first, int64_t end, size_t at, dt_tree_source *sources) {
    int n = 0;
    if (dt_local_part(hub, 0, i)->kind == DT_COLLECTIVE_SHARD_REDUCE) return collect_shards(hub, i, first, end, at, sources);
    for (int rank = 0; rank < hub->options.n_ranks; rank++) {
        const dt_collective_part *part = dt_local_part(hub, rank, i);
        int begin = dt_local_first_microbatch(hub, rank), behind = dt_local_first_microbatch(hub, rank + 1);
        for (int m = begin; m < behind; m++) {
            int span = part->spans != NULL ? part->spans[m - begin] : 1;
            if (span > 0 && m >= first && m < end) sources[n++] = (dt_tree_source){(const char *)part->sources[m - begin] + at, span};
        }
    }
    return n;
}

const dt_collective_part *dt_local_owner(const dt_local_hub *hub, int rank, int i) {
    const dt_collective_part *part = dt_local_part(hub, rank, i);
    for (int other = 0; part->sources == NULL; other++) {
        assert(other < hub->options.n_ranks);
        part = dt_local_part(hub, other, i);
    }
    return part;
}

void **dt_local_collect_targets(const dt_local_hub *hub, int i, size_t at, dt_arena *arena, int *n) {
    int n_all = 0, n_ranks = hub->options.n_ranks;
    for (int rank = 0; rank < n_ranks; rank++) n_all += dt_local_part(hub, rank, i)->n_targets;
    void **targets = DT_NEW_ARRAY(arena, void *, n_all);
    *n = 0;
    for (int rank = 0; rank < n_ranks; rank++) {
        const dt_collective_part *part = dt_local_part(hub, rank, i), *before = rank > 0 ? dt_local_part(hub, rank - 1, i) : NULL;
        for (int t = 0; t < part->n_targets; t++) {
            bool known = before != NULL && t < before->n_targets && before->targets[t] == part->targets[t];
            if (!known) targets[(*n)++] = (char *)part->targets[t] + at;
        }
    }
    return targets;
}

static void add_sum(const dt_local_member *self, int i, size_t first, size_t n_elements, int n_targets, void *const *targets, dt_arena *arena,
                    dt_tree_reductions *reductions) {
    const dt_collective_part *part = dt_local_part(self->hub, self->group.rank, i);
    dt_tree_source *sources = DT_NEW_ARRAY(arena, dt_tree_source, self->group.n_all_microbatches);
    dt_tree_reduction sum = {.dtype = part->dtype,
                             .combine = part->combine,
                             .n_leaves = self->group.n_all_microbatches,
                             .n_sources = dt_local_collect_sources(self->hub, i, 0, INT64_MAX, first * dt_dtype_bytes(part->dtype), sources),
                             .sources = sources,
                             .n_elements = n_elements,
                             .n_targets = n_targets,
                             .targets = targets};
    dt_list_push(arena, reductions, sum);
}

static void all_reduce(const dt_local_member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_collective_part *part = dt_local_part(self->hub, self->group.rank, i);
    size_t first, end;
    int n_targets;
    dt_local_share(&self->group, part->n, &first, &end);
    if (first == end) return;
    void **targets = dt_local_collect_targets(self->hub, i, first * dt_dtype_bytes(part->dtype), arena, &n_targets);
    add_sum(self, i, first, end - first, n_targets, targets, arena, reductions);
}

/* Each member copies its share of what one has to all that want it. */
static void hand_over(const dt_local_member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_collective_part *part = dt_local_part(self->hub, self->group.rank, i), *owner = dt_local_owner(self->hub, self->group.rank, i);
    size_t bytes = dt_dtype_bytes(part->dtype), first, end;
    dt_local_share(&self->group, part->n, &first, &end);
    dt_tree_source *source = DT_NEW(arena, dt_tree_source);
    *source = (dt_tree_source){(const char *)owner->sources[0] + first * bytes, 1};
    dt_tree_reduction copy = {.dtype = part->dtype, .n_leaves = 1, .n_sources = 1, .sources = source, .n_elements = end - first};
    copy.targets = dt_local_collect_targets(self->hub, i, first * bytes, arena, &copy.n_targets);
    if (copy.n_elements > 0 && copy.n_targets > 0) dt_list_push(arena, reductions, copy);
}

/* Each member puts the rows of its microbatches where they belong: behind those of all before. */
static void all_gather(const dt_local_member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_group *group = &self->group;
    const dt_collective_part *part = dt_local_part(self->hub, group->rank, i);
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t first = dt_microbatches_first_row(&group->rows, group->first_microbatch + m);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        dt_tree_source *source = DT_NEW(arena, dt_tree_source);
        *source = (dt_tree_source){part->sources[m], 1};
        dt_tree_reduction copy = {.dtype = part->dtype, .n_leaves = 1, .n_sources = 1, .sources = source, .n_elements = (size_t)rows * part->n};
        if (copy.n_elements == 0) continue;
        copy.targets = dt_local_collect_targets(self->hub, i, (size_t)first * part->n * dt_dtype_bytes(part->dtype), arena, &copy.n_targets);
        dt_list_push(arena, reductions, copy);
    }
}

/* Each member reduces the rows that its own microbatches keep. */
static void reduce_scatter(const dt_local_member *self, int i, dt_arena *arena, dt_tree_reductions *reductions) {
    const dt_group *group = &self->group;
    const dt_collective_part *part = dt_local_part(self->hub, group->rank, i);
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t first = dt_microbatches_first_row(&group->rows, group->first_microbatch + m);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        if (rows > 0) add_sum(self, i, (size_t)first * part->n, (size_t)rows * part->n, 1, &part->targets[m], arena, reductions);
    }
}

void dt_local_add_reductions(const dt_tree_reductions *reductions, dt_arena *arena, dt_operation_list *operations) {
    dt_operation reduce = {.kind = DT_OPERATION_REDUCE, .reduce = {(int)reductions->n, reductions->items}};
    if (reductions->n > 0) dt_list_push(arena, operations, reduce);
}

static dt_status *lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work) {
    const dt_local_member *self = (const dt_local_member *)group;
    dt_tree_reductions reductions = {0};
    int n_crossing = 0;
    for (int i = first; i < first + n; i++) n_crossing += dt_local_crosses(self->hub, i);
    if (n_crossing > 0) DT_TRY(dt_crossing_lower(group, first, n, arena, work));
    for (int i = first; i < first + n && n_crossing < n; i++) {
        if (dt_local_crosses(self->hub, i)) continue;
        if (dt_local_part(self->hub, group->rank, i)->hands_over) {
            hand_over(self, i, arena, &reductions);
            continue;
        }
        switch (dt_local_part(self->hub, group->rank, i)->kind) {
        case DT_COLLECTIVE_ALL_REDUCE: all_reduce(self, i, arena, &reductions); break;
        case DT_COLLECTIVE_ALL_GATHER: all_gather(self, i, arena, &reductions); break;
        case DT_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(self, i, arena, &reductions); break;
        case DT_COLLECTIVE_SHARD_REDUCE: assert(!"it crosses processes, or is no part"); break;
        }
    }
    dt_local_add_reductions(&reductions, arena, &work->operations);
    return NULL;
}

/* ---- opening and closing ---- */

static void abort_member(dt_group *group, const char *reason) {
    dt_local_hub *hub = ((dt_local_member *)group)->hub;
    abort_hub(hub, reason);
    dt_processes_abort(hub->options.processes, reason);
}

void dt_local_hub_release(dt_local_hub *hub) {
    if (hub == NULL) return;
    pthread_mutex_lock(&hub->lock);
    int n_users = --hub->n_users;
    pthread_mutex_unlock(&hub->lock);
    if (n_users > 0) return;
    dt_processes_unwatch(hub->options.processes, &hub->watcher);
    dt_crossings_free(hub);
    pthread_mutex_destroy(&hub->lock);
    dt_release(hub->seats_memory);
    dt_release(hub);
}

static void close_member(dt_group *group) {
    dt_local_hub_release(((dt_local_member *)group)->hub);
    dt_release(group);
}

static const dt_group_kind local_kind = {
    .name = "local",
    .publish = publish,
    .lower = lower,
    .device_bytes = dt_crossings_device_bytes,
    .place = dt_crossings_place,
    .meet = meet,
    .abort = abort_member,
    .close = close_member,
};

dt_status *dt_local_hub_create(const dt_local_hub_options *options, dt_local_hub **hub) {
    dt_local_hub *made = dt_allocate_zeroed(1, sizeof *made);
    void *memory = dt_allocate_zeroed((size_t)options->n_ranks + 1, sizeof(dt_seat));
    *hub = NULL;
    if (made == NULL || memory == NULL) {
        dt_release(made);
        dt_release(memory);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d devices", options->n_ranks);
    }
    *made = (dt_local_hub){.options = *options, .may_look = options->n_ranks <= dt_cpu_n_cores(), .n_users = 1, .seats_memory = memory};
    made->seats = (dt_seat *)(((uintptr_t)memory + _Alignof(dt_seat) - 1) & ~(uintptr_t)(_Alignof(dt_seat) - 1));
    made->watcher = (dt_processes_watcher){.aborted = hear_of_failure, .context = made};
    pthread_mutex_init(&made->lock, NULL);
    dt_processes_watch(options->processes, &made->watcher);
    *hub = made;
    return NULL;
}

dt_status *dt_local_hub_join(dt_local_hub *hub, int rank, dt_group **group) {
    const dt_local_hub_options *options = &hub->options;
    dt_local_member *made = dt_allocate_zeroed(1, sizeof *made);
    *group = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect %d devices", options->n_ranks);
    made->hub = hub;
    made->group = (dt_group){.kind = &local_kind,
                             .id = (uint64_t)(uintptr_t)hub,
                             .rank = rank,
                             .n_ranks = options->n_ranks,
                             .first_microbatch = dt_local_first_microbatch(hub, rank),
                             .n_microbatches = dt_local_first_microbatch(hub, rank + 1) - dt_local_first_microbatch(hub, rank),
                             .n_all_microbatches = options->n_all_microbatches,
                             .rows = options->rows};
    pthread_mutex_lock(&hub->lock);
    hub->n_users++;
    pthread_mutex_unlock(&hub->lock);
    *group = &made->group;
    return NULL;
}
