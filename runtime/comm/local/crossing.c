/* crossing: the collectives of a process that is one of several. Each member adds up its share of the elements of this process's microbatches, as far
 * as the tree goes here, into the nodes of an exchange; when all have done so the exchange runs; then each copies its share of the result to where it
 * is wanted. */
#include "runtime/comm/local/hub.h"

#include <string.h>

/* One part in the image of an exchange. Rows are those of each process side by side, each process's from a whole unit on. */
typedef struct placed {
    dt_exchange *exchange;
    int64_t first;       /* ALL_REDUCE: the first byte */
    int64_t *of_process; /* [n_processes + 1] ALL_GATHER, REDUCE_SCATTER: the first byte of the rows of each */
} placed;

struct dt_crossing {
    int first, n;
    placed *parts; /* [n] */
    int n_exchanges;
    dt_exchange **exchanges; /* [n_exchanges] */
    void **memories;         /* [n_exchanges] */
    dt_crossing *next;
};

static bool is_half(dt_dtype dtype) { return dtype == DT_F16 || dtype == DT_BF16; }

/* As wide as sums are. */
static dt_dtype wide(dt_dtype dtype) { return is_half(dtype) ? DT_F32 : dtype; }

static int64_t whole_units(int64_t bytes) { return (bytes + DT_SCHEDULE_UNIT - 1) / DT_SCHEDULE_UNIT * DT_SCHEDULE_UNIT; }

/* ---- rows of processes ---- */

static dt_row_range rows_of(const dt_local_hub *hub, int p) {
    int64_t replicas = hub->options.n_all_microbatches / hub->options.rows.per_replica;
    return dt_microbatches_rows_of_process(&hub->options.rows, replicas, p, dt_processes_count(hub->options.processes));
}

static int64_t first_row(const dt_local_hub *hub, int p) { return rows_of(hub, p).first; }
static int64_t n_rows(const dt_local_hub *hub, int p) { return rows_of(hub, p).end - rows_of(hub, p).first; }

/* ---- making ---- */

static dt_schedule_options schedule_options(const dt_local_hub *hub, dt_schedule_goal goal, int64_t n_bytes, const int64_t *parts) {
    const dt_processes *processes = hub->options.processes;
    return (dt_schedule_options){.goal = goal,
                                 .process = dt_processes_number(processes),
                                 .n_processes = dt_processes_count(processes),
                                 .n_microbatches = hub->options.n_all_microbatches,
                                 .n_bytes = n_bytes,
                                 .parts = parts};
}

/* Never nothing. */
static size_t exchange_memory(const dt_exchange *exchange) { return (size_t)dt_exchange_bytes(exchange) + DT_SCHEDULE_UNIT; }

static dt_status *add_exchange(dt_local_hub *hub, dt_crossing *made, const dt_schedule_options *options, int n_regions,
                               const dt_exchange_region *regions, const char *label, dt_arena *arena, dt_exchange **exchange) {
    dt_schedule schedule = dt_schedule_of(options, arena);
    *exchange = dt_exchange_create(&schedule, n_regions, regions, label, dt_processes_new_tag(hub->options.processes), arena);
    void **memory = &made->memories[made->n_exchanges];
    made->exchanges[made->n_exchanges] = *exchange;
    DT_TRY(hub->options.allocate(hub->options.context, exchange_memory(*exchange), memory));
    dt_exchange_place(*exchange, *memory);
    made->n_exchanges++;
    return NULL;
}

/* All sums together are one image. */
static dt_status *place_sums(dt_local_hub *hub, dt_crossing *made, dt_arena *arena) {
    dt_exchange_region *regions = DT_NEW_ARRAY(arena, dt_exchange_region, made->n);
    const char *label = NULL;
    int64_t end = 0;
    int n = 0;
    for (int i = 0; i < made->n; i++) {
        const dt_collective_part *part = dt_local_part(hub, 0, made->first + i);
        if (part->kind != DT_COLLECTIVE_ALL_REDUCE) continue;
        int64_t bytes = (int64_t)(part->n * dt_dtype_bytes(wide(part->dtype)));
        regions[n++] = (dt_exchange_region){wide(part->dtype), part->combine, end, bytes};
        made->parts[i].first = end;
        end += whole_units(bytes);
        if (label == NULL) label = part->label;
    }
    if (n == 0) return NULL;
    dt_schedule_options options = schedule_options(hub, DT_SCHEDULE_ALL_REDUCE, end, NULL);
    dt_exchange *exchange;
    DT_TRY(add_exchange(hub, made, &options, n, regions, label, arena, &exchange));
    for (int i = 0; i < made->n; i++)
        if (dt_local_part(hub, 0, made->first + i)->kind == DT_COLLECTIVE_ALL_REDUCE) made->parts[i].exchange = exchange;
    return NULL;
}

/* Rows that are gathered, or scattered: an exchange of their own. */
static dt_status *place_rows(dt_local_hub *hub, dt_crossing *made, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, made->first + i);
    bool gathers = part->kind == DT_COLLECTIVE_ALL_GATHER;
    dt_dtype dtype = gathers ? part->dtype : wide(part->dtype);
    int n_processes = dt_processes_count(hub->options.processes);
    int64_t row_bytes = (int64_t)(part->n * dt_dtype_bytes(dtype)), *starts = DT_NEW_ARRAY(arena, int64_t, n_processes + 1);
    for (int p = 0; p < n_processes; p++) starts[p + 1] = starts[p] + whole_units(n_rows(hub, p) * row_bytes);
    dt_exchange_region *region = DT_NEW(arena, dt_exchange_region);
    *region = (dt_exchange_region){dtype, part->combine, 0, starts[n_processes]};
    dt_schedule_goal goal = gathers ? DT_SCHEDULE_ALL_GATHER : DT_SCHEDULE_REDUCE_SCATTER;
    dt_schedule_options options = schedule_options(hub, goal, starts[n_processes], starts);
    made->parts[i].of_process = starts;
    return add_exchange(hub, made, &options, 1, region, part->label, arena, &made->parts[i].exchange);
}

static dt_status *find_crossing(dt_local_hub *hub, int first, int n, dt_arena *arena, dt_crossing **found) {
    for (*found = hub->crossings; *found != NULL && (*found)->first != first;) *found = (*found)->next;
    if (*found != NULL) return NULL;
    dt_crossing *made = DT_NEW(arena, dt_crossing);
    *made = (dt_crossing){.first = first,
                          .n = n,
                          .parts = DT_NEW_ARRAY(arena, placed, n),
                          .exchanges = DT_NEW_ARRAY(arena, dt_exchange *, n + 1),
                          .memories = DT_NEW_ARRAY(arena, void *, n + 1),
                          .next = hub->crossings};
    hub->crossings = made;
    DT_TRY(place_sums(hub, made, arena));
    for (int i = 0; i < n; i++)
        if (dt_local_part(hub, 0, first + i)->kind != DT_COLLECTIVE_ALL_REDUCE) DT_TRY(place_rows(hub, made, i, arena));
    *found = made;
    return NULL;
}

void dt_crossings_free(dt_local_hub *hub) {
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next)
        for (int e = 0; e < one->n_exchanges; e++) hub->options.release(hub->options.context, one->memories[e], exchange_memory(one->exchanges[e]));
    hub->crossings = NULL;
}

/* ---- what a member does ---- */

/* Elements [first, first + n) of part i, of which byte `at` is in the image the first one: the sums of this process's nodes of the tree. */
static void add_nodes(const dt_local_hub *hub, int i, const dt_exchange *exchange, size_t first, size_t n, int64_t at, dt_arena *arena,
                      dt_tree_reductions *reductions) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    for (int node = 0; node < exchange->schedule.n_nodes && n > 0; node++) {
        const dt_schedule_node *one = &exchange->schedule.nodes[node];
        dt_tree_source *sources = DT_NEW_ARRAY(arena, dt_tree_source, one->span);
        void **target = DT_NEW(arena, void *);
        *target = dt_exchange_at(exchange, node, at);
        dt_tree_reduction sum = {
            .dtype = part->dtype,
            .combine = part->combine,
            .n_leaves = one->span,
            .n_sources = dt_local_collect_sources(hub, i, one->first, one->first + one->span, first * dt_dtype_bytes(part->dtype), sources),
            .sources = sources,
            .n_elements = n,
            .n_targets = 1,
            .targets = target,
            .wide_targets = is_half(part->dtype)};
        dt_list_push(arena, reductions, sum);
    }
}

/* A copy of n elements of a part from slot 0, where sums are wide. */
static void add_copy(const dt_exchange *exchange, int64_t at, size_t n, const dt_collective_part *part, int n_targets, void *const *targets,
                     dt_arena *arena, dt_tree_reductions *reductions) {
    if (n == 0) return;
    dt_tree_source *source = DT_NEW(arena, dt_tree_source);
    *source = (dt_tree_source){dt_exchange_at(exchange, 0, at), 1};
    dt_tree_reduction copy = {.dtype = part->dtype,
                              .combine = part->combine,
                              .n_leaves = 1,
                              .n_sources = 1,
                              .sources = source,
                              .n_elements = n,
                              .n_targets = n_targets,
                              .targets = targets,
                              .wide_sources = is_half(part->dtype) && part->kind != DT_COLLECTIVE_ALL_GATHER};
    dt_list_push(arena, reductions, copy);
}

static void all_reduce(const dt_group *group, const dt_local_hub *hub, int i, const placed *place, dt_arena *arena, dt_group_work *work) {
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    size_t first, end;
    int n_targets;
    dt_local_share(group, part->n, &first, &end);
    int64_t at = place->first + (int64_t)(first * dt_dtype_bytes(wide(part->dtype)));
    add_nodes(hub, i, place->exchange, first, end - first, at, arena, &work->before);
    void **targets = dt_local_collect_targets(hub, i, first * dt_dtype_bytes(part->dtype), arena, &n_targets);
    add_copy(place->exchange, at, end - first, part, n_targets, targets, arena, &work->after);
}

/* Each member puts its own rows into the image, and takes its share of the rows of each process out of it. */
static void all_gather(const dt_group *group, const dt_local_hub *hub, int i, const placed *place, dt_arena *arena, dt_group_work *work) {
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    int n_processes = dt_processes_count(hub->options.processes), here = dt_processes_number(hub->options.processes);
    int64_t bytes = (int64_t)dt_dtype_bytes(part->dtype);
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t row = dt_microbatches_first_row(&group->rows, group->first_microbatch + m) - first_row(hub, here);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        dt_tree_source *source = DT_NEW(arena, dt_tree_source);
        void **target = DT_NEW(arena, void *);
        if (rows == 0) continue;
        *source = (dt_tree_source){part->sources[m], 1};
        *target = dt_exchange_at(place->exchange, 0, place->of_process[here] + row * (int64_t)part->n * bytes);
        dt_tree_reduction copy = {.dtype = part->dtype,
                                  .n_leaves = 1,
                                  .n_sources = 1,
                                  .sources = source,
                                  .n_elements = (size_t)rows * part->n,
                                  .n_targets = 1,
                                  .targets = target};
        dt_list_push(arena, &work->before, copy);
    }
    for (int p = 0; p < n_processes; p++) {
        size_t first, end;
        int n_targets;
        dt_local_share(group, (size_t)n_rows(hub, p) * part->n, &first, &end);
        if (first == end) continue;
        int64_t skipped = (int64_t)first * bytes;
        void **targets = dt_local_collect_targets(hub, i, (size_t)(first_row(hub, p) * (int64_t)part->n * bytes + skipped), arena, &n_targets);
        add_copy(place->exchange, place->of_process[p] + skipped, end - first, part, n_targets, targets, arena, &work->after);
    }
}

/* Each member adds up its share of the rows of each process, and takes those of its own microbatches. */
static void reduce_scatter(const dt_group *group, const dt_local_hub *hub, int i, const placed *place, dt_arena *arena, dt_group_work *work) {
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    int n_processes = dt_processes_count(hub->options.processes), here = dt_processes_number(hub->options.processes);
    int64_t bytes = (int64_t)dt_dtype_bytes(wide(part->dtype));
    for (int p = 0; p < n_processes; p++) {
        size_t first, end;
        dt_local_share(group, (size_t)n_rows(hub, p) * part->n, &first, &end);
        add_nodes(hub, i, place->exchange, (size_t)first_row(hub, p) * part->n + first, end - first, place->of_process[p] + (int64_t)first * bytes,
                  arena, &work->before);
    }
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t row = dt_microbatches_first_row(&group->rows, group->first_microbatch + m) - first_row(hub, here);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        add_copy(place->exchange, place->of_process[here] + row * (int64_t)part->n * bytes, (size_t)rows * part->n, part, 1, &part->targets[m], arena,
                 &work->after);
    }
}

dt_status *dt_crossing_lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work) {
    dt_local_hub *hub = ((dt_local_member *)group)->hub;
    dt_crossing *crossing;
    DT_TRY(find_crossing(hub, first, n, arena, &crossing));
    work->crosses = true;
    for (int i = 0; i < n; i++) {
        const placed *place = &crossing->parts[i];
        switch (dt_local_part(hub, group->rank, first + i)->kind) {
        case DT_COLLECTIVE_ALL_REDUCE: all_reduce(group, hub, first + i, place, arena, work); break;
        case DT_COLLECTIVE_ALL_GATHER: all_gather(group, hub, first + i, place, arena, work); break;
        case DT_COLLECTIVE_REDUCE_SCATTER: reduce_scatter(group, hub, first + i, place, arena, work); break;
        }
    }
    return NULL;
}

/* The first member begins what all wait for. */
dt_status *dt_crossing_cross(dt_group *group, int first, const dt_step_context *context) {
    dt_local_member *self = (dt_local_member *)group;
    dt_local_hub *hub = self->hub;
    const dt_crossing *crossing = hub->crossings;
    dt_progress *progress = dt_processes_progress(hub->options.processes);
    while (crossing->first != first) crossing = crossing->next;
    if (group->rank == 0) {
        dt_progress_set(progress, DT_ACTIVITY_EXCHANGING);
        for (int e = 0; e < crossing->n_exchanges; e++) dt_processes_begin(hub->options.processes, crossing->exchanges[e], context);
        for (int e = 0; e < crossing->n_exchanges; e++) DT_TRY(dt_processes_wait(hub->options.processes, crossing->exchanges[e]));
        dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    }
    return dt_group_meet(group, DT_GROUP_ALL, context, "the results of other processes");
}
