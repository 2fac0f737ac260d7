/* crossing: the collectives of a process that is one of several. They cross in buckets: of each, every member adds up its share of the elements of
 * this process's microbatches, as far as the tree goes here, into the nodes of exchanges; the last member to have done so begins them; when one is
 * over each copies its share of the result to where it is wanted. What one memory domain wants at one place crosses in that place, and is not copied:
 * a piece of one tensor, and what is shared out. */
#include "runtime/comm/buckets.h"
#include "runtime/comm/local/hub.h"

#include <limits.h>
#include <string.h>

/* What crosses in one exchange. */
typedef struct crossing_piece {
    dt_exchange *exchange;
    const dt_piece *sums; /* ranges of all_reduces, whose `tensor` is a part's number; NULL: it is all of one part */
    bool lands;           /* slot 0 is the target */
    int part;             /* of rows, and of what is shared out */
    int64_t *of_process;  /* [n_processes + 1] the same: the first byte of the rows of each, a whole unit */
} crossing_piece;

typedef struct crossing_bucket {
    int complete_after;
    DT_LIST(crossing_piece) pieces;
    dt_gate complete, begin; /* where members arrive when their sources are there, and when they have done what is before */
} crossing_bucket;

struct dt_crossing {
    int first, n; /* parts */
    int n_buckets;
    crossing_bucket *buckets; /* [n_buckets] */
    void *memory;             /* of the host, of all slots that are no targets; NULL: a device has it */
    size_t n_bytes;
    dt_crossing *next;
};

/* ---- rows of processes ---- */

static dt_row_range rows_of(const dt_local_hub *hub, int p) {
    int64_t replicas = hub->options.n_all_microbatches / hub->options.rows.per_replica;
    return dt_microbatches_rows_of_process(&hub->options.rows, replicas, p, hub->options.roles);
}

static int64_t first_row(const dt_local_hub *hub, int p) { return rows_of(hub, p).first; }
static int64_t n_rows(const dt_local_hub *hub, int p) { return rows_of(hub, p).end - rows_of(hub, p).first; }

/* ---- making ---- */

/* parts: NULL, or what each process owns. */
static dt_exchange *new_exchange(dt_local_hub *hub, bool adds, dt_layout_needs needs, int64_t n_bytes, const dt_image_range *parts,
                                 dt_schedule_algorithm algorithm, int n_regions, const dt_exchange_region *regions, const char *label,
                                 dt_arena *arena) {
    dt_process_roles roles = hub->options.roles;
    int n_microbatches = adds ? hub->options.n_all_microbatches : 0;
    const dt_layout_member **members = &hub->members[adds][needs];
    if (*members == NULL) *members = dt_layout_members(roles, n_microbatches, needs, arena);
    dt_layout layout = {roles.n_processes, roles.process, *members, n_microbatches, n_bytes, parts};
    dt_schedule schedule = dt_schedule_of(&layout, algorithm, arena);
    dt_exchange *made = dt_exchange_create(&schedule, n_regions, regions, label, dt_processes_new_tag(hub->options.processes), arena);
    dt_processes_expect(hub->options.processes, dt_exchange_most_of_one(made));
    made->kind = !adds ? DT_COLLECTIVE_ALL_GATHER : needs == DT_NEEDED_BY_ALL ? DT_COLLECTIVE_ALL_REDUCE : DT_COLLECTIVE_REDUCE_SCATTER;
    return made;
}

/* Where a piece of one tensor is wanted, if that is one place, as wide as sums are, and all members are of its memory. */
static char *only_target(const dt_local_hub *hub, const dt_piece *sums, dt_arena *arena) {
    const dt_bucket_range *range = &sums->ranges[0];
    int n_targets;
    if (sums->n_ranges != 1 || !hub->options.shares_memory || dt_dtype_is_half(dt_local_part(hub, 0, range->tensor)->dtype)) return NULL;
    void **targets = dt_local_collect_targets(hub, range->tensor, (size_t)range->first, arena, &n_targets);
    return n_targets == 1 ? targets[0] : NULL;
}

/* Where what is shared out is wanted as it crosses, if that is one place that messages reach. */
static char *only_place(const dt_local_hub *hub, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    bool is_widened = part->kind != DT_COLLECTIVE_ALL_GATHER && dt_dtype_is_half(part->dtype);
    int n_targets;
    if (is_widened || !(hub->options.shares_memory || hub->options.has_link)) return NULL;
    void **targets = dt_local_collect_targets(hub, i, 0, arena, &n_targets);
    return n_targets == 1 ? targets[0] : NULL;
}

/* A tensor of which each process has a share, in pieces: of every share, as many bytes. */
static void add_shares(dt_local_hub *hub, crossing_bucket *bucket, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    bool gathers = part->kind == DT_COLLECTIVE_ALL_GATHER;
    dt_dtype dtype = gathers ? part->dtype : dt_dtype_of_sums(part->dtype);
    int n_processes = hub->options.roles.n_processes;
    int64_t bytes = (int64_t)dt_dtype_bytes(dtype), n_bytes = (int64_t)part->n * bytes, most = 0;
    char *place = only_place(hub, i, arena);
    const dt_exchange *first = NULL;
    dt_exchange_region *region = DT_NEW(arena, dt_exchange_region);
    *region = (dt_exchange_region){dtype, part->combine, 0, n_bytes};
    for (int p = 0; p < n_processes; p++)
        if (part->shares[p + 1] - part->shares[p] > most) most = part->shares[p + 1] - part->shares[p];
    for (int64_t at = 0; at < most * bytes; at += DT_SHARE_BYTES) {
        dt_image_range *parts = DT_NEW_ARRAY(arena, dt_image_range, n_processes);
        for (int p = 0; p < n_processes; p++) {
            int64_t end = part->shares[p + 1] * bytes;
            parts[p].first = part->shares[p] * bytes + at < end ? part->shares[p] * bytes + at : end;
            parts[p].end = parts[p].first + DT_SHARE_BYTES < end ? parts[p].first + DT_SHARE_BYTES : end;
        }
        crossing_piece piece = {.lands = place != NULL, .part = i};
        piece.exchange = new_exchange(hub, !gathers, part->needs, n_bytes, parts, DT_SCHEDULE_AUTO, 1, region, part->label, arena);
        piece.exchange->like = first;
        if (first == NULL) first = piece.exchange;
        if (place != NULL) dt_exchange_land(piece.exchange, place);
        dt_list_push(arena, &bucket->pieces, piece);
    }
}

/* Whether a part may be left to the engine of the link or the transport. Not maxima and minima: they are exact in any order, and an engine's may lose
 * a NaN. */
static bool is_for_engine(const dt_local_hub *hub, const dt_collective_part *part) {
    dt_dtype dtype = dt_dtype_of_sums(part->dtype);
    if (!hub->options.fast) return false;
    bool has_engine = hub->options.has_link || dt_processes_transport(hub->options.processes)->kind->all_reduce != NULL;
    return part->shares == NULL && has_engine && part->combine == DT_REDUCTION_SUM &&
           (dtype == DT_F32 || dtype == DT_F64 || dtype == DT_I32 || dtype == DT_I64);
}

/* What the engine adds up in one piece is of one type; what is shared out, part i, is with no other in a piece. */
static int kind_of(const dt_local_hub *hub, const dt_collective_part *part, int i) {
    if (part->shares != NULL) return 1 + DT_N_DTYPES + i;
    return is_for_engine(hub, part) ? 1 + (int)dt_dtype_of_sums(part->dtype) : 0;
}

static void add_sums(dt_local_hub *hub, crossing_bucket *bucket, const dt_piece *sums, dt_arena *arena) {
    dt_exchange_region *regions = DT_NEW_ARRAY(arena, dt_exchange_region, sums->n_ranges);
    for (int r = 0; r < sums->n_ranges; r++) {
        const dt_bucket_range *range = &sums->ranges[r];
        const dt_collective_part *part = dt_local_part(hub, 0, range->tensor);
        regions[r] = (dt_exchange_region){dt_dtype_of_sums(part->dtype), part->combine, range->at, range->n_bytes};
    }
    const dt_collective_part *first = dt_local_part(hub, 0, sums->ranges[0].tensor);
    dt_schedule_algorithm algorithm = is_for_engine(hub, first) ? DT_SCHEDULE_ENGINE : DT_SCHEDULE_AUTO;
    char *target = only_target(hub, sums, arena);
    crossing_piece piece = {.sums = sums, .lands = target != NULL};
    piece.exchange = new_exchange(hub, true, DT_NEEDED_BY_ALL, sums->n_bytes, NULL, algorithm, sums->n_ranges, regions, first->label, arena);
    if (target != NULL) dt_exchange_land(piece.exchange, target);
    dt_list_push(arena, &bucket->pieces, piece);
}

/* Rows that are gathered, or scattered: an exchange of their own. Those of the processes are side by side, each process's from a whole unit on. */
static void add_rows(dt_local_hub *hub, crossing_bucket *bucket, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    bool gathers = part->kind == DT_COLLECTIVE_ALL_GATHER;
    dt_dtype dtype = gathers ? part->dtype : dt_dtype_of_sums(part->dtype);
    int n_processes = hub->options.roles.n_processes;
    int64_t row_bytes = (int64_t)(part->n * dt_dtype_bytes(dtype)), *starts = DT_NEW_ARRAY(arena, int64_t, n_processes + 1);
    dt_image_range *parts = DT_NEW_ARRAY(arena, dt_image_range, n_processes);
    for (int p = 0; p < n_processes; p++) {
        starts[p + 1] = starts[p] + dt_schedule_whole_units(n_rows(hub, p) * row_bytes);
        parts[p] = (dt_image_range){starts[p], starts[p + 1]};
    }
    dt_exchange_region *region = DT_NEW(arena, dt_exchange_region);
    *region = (dt_exchange_region){dtype, part->combine, 0, starts[n_processes]};
    crossing_piece piece = {.part = i, .of_process = starts};
    piece.exchange = new_exchange(hub, !gathers, gathers ? DT_NEEDED_BY_ALL : DT_NEEDED_BY_NOBODY, starts[n_processes], parts, DT_SCHEDULE_AUTO, 1,
                                  region, part->label, arena);
    dt_list_push(arena, &bucket->pieces, piece);
}

/* Numbers of tensors become numbers of parts. */
static const dt_piece *of_parts(const dt_piece *piece, const int *parts, dt_arena *arena) {
    dt_bucket_range *ranges = dt_arena_copy(arena, piece->ranges, (size_t)piece->n_ranges * sizeof *ranges);
    dt_piece *made = DT_NEW(arena, dt_piece);
    for (int r = 0; r < piece->n_ranges; r++) ranges[r].tensor = parts[ranges[r].tensor];
    *made = (dt_piece){piece->n_bytes, piece->n_ranges, ranges};
    return made;
}

/* Sums in buckets; rows with the last one, or by themselves. */
static void fill_buckets(dt_local_hub *hub, dt_crossing *made, dt_arena *arena) {
    dt_bucket_tensor *tensors = DT_NEW_ARRAY(arena, dt_bucket_tensor, made->n);
    int *parts = DT_NEW_ARRAY(arena, int, made->n), n_sums = 0, n_buckets;
    for (int i = made->first; i < made->first + made->n; i++) {
        const dt_collective_part *part = dt_local_part(hub, 0, i);
        if (part->kind != DT_COLLECTIVE_ALL_REDUCE) continue;
        tensors[n_sums] =
            (dt_bucket_tensor){(int64_t)(part->n * dt_dtype_bytes(dt_dtype_of_sums(part->dtype))), part->complete_after, kind_of(hub, part, i)};
        parts[n_sums++] = i;
    }
    int64_t piece_bytes = hub->options.has_link ? DT_WHOLE_PIECES : dt_piece_bytes(hub->options.roles.n_processes);
    const dt_bucket *buckets = dt_buckets_of(tensors, n_sums, piece_bytes, arena, &n_buckets);
    made->n_buckets = n_buckets > 0 ? n_buckets : 1;
    made->buckets = DT_NEW_ARRAY(arena, crossing_bucket, made->n_buckets);
    for (int b = 0; b < n_buckets; b++) {
        made->buckets[b].complete_after = buckets[b].complete_after;
        for (int p = 0; p < buckets[b].n_pieces; p++) {
            const dt_piece *piece = of_parts(&buckets[b].pieces[p], parts, arena);
            int first = piece->ranges[0].tensor;
            if (dt_local_part(hub, 0, first)->shares == NULL)
                add_sums(hub, &made->buckets[b], piece, arena);
            else if (piece->ranges[0].first == 0)
                add_shares(hub, &made->buckets[b], first, arena);
        }
    }
    crossing_bucket *last = &made->buckets[made->n_buckets - 1];
    for (int i = made->first; i < made->first + made->n; i++) {
        const dt_collective_part *part = dt_local_part(hub, 0, i);
        if (part->kind == DT_COLLECTIVE_ALL_REDUCE) continue;
        if (part->shares != NULL)
            add_shares(hub, last, i, arena);
        else
            add_rows(hub, last, i, arena);
        if (last->complete_after < part->complete_after) last->complete_after = part->complete_after;
        /* A device puts results where they belong at once. Rows of microbatches belong where kernels of this segment may have something else. */
        if (hub->options.has_link && part->kind == DT_COLLECTIVE_REDUCE_SCATTER) last->complete_after = INT_MAX;
    }
}

/* All slots that have no place yet are one allocation: of so many bytes. */
static size_t slot_bytes(const dt_crossing *crossing) {
    int64_t n_bytes = DT_SCHEDULE_UNIT; /* never nothing */
    for (int b = 0; b < crossing->n_buckets; b++)
        for (size_t p = 0; p < crossing->buckets[b].pieces.n; p++) n_bytes += dt_exchange_bytes(crossing->buckets[b].pieces.items[p].exchange);
    return (size_t)n_bytes;
}

static void place_slots(const dt_crossing *crossing, char *memory) {
    for (int b = 0; b < crossing->n_buckets; b++)
        for (size_t p = 0; p < crossing->buckets[b].pieces.n; p++) {
            dt_exchange *exchange = crossing->buckets[b].pieces.items[p].exchange;
            int64_t taken = dt_exchange_bytes(exchange);
            dt_exchange_place(exchange, memory);
            memory += taken;
        }
}

static void make_gates(const dt_local_hub *hub, crossing_bucket *bucket, dt_arena *arena) {
    dt_exchange **exchanges = DT_NEW_ARRAY(arena, dt_exchange *, bucket->pieces.n);
    for (size_t p = 0; p < bucket->pieces.n; p++) exchanges[p] = bucket->pieces.items[p].exchange;
    bucket->complete = (dt_gate){.n_members = (unsigned)hub->options.n_ranks};
    bucket->begin = (dt_gate){.n_members = (unsigned)hub->options.n_ranks,
                              .n_exchanges = (int)bucket->pieces.n,
                              .exchanges = exchanges,
                              .processes = hub->options.processes};
}

static dt_status *make(dt_local_hub *hub, int first, int n, dt_arena *arena, dt_crossing **found) {
    dt_crossing *made = DT_NEW(arena, dt_crossing);
    *made = (dt_crossing){.first = first, .n = n, .next = hub->crossings};
    fill_buckets(hub, made, arena);
    for (int b = 0; b < made->n_buckets; b++) make_gates(hub, &made->buckets[b], arena);
    made->n_bytes = slot_bytes(made);
    if (!hub->options.has_link) {
        DT_TRY(hub->options.allocate(hub->options.context, made->n_bytes, &made->memory));
        place_slots(made, made->memory);
    }
    hub->crossings = made;
    *found = made;
    return NULL;
}

void dt_crossings_free(dt_local_hub *hub) {
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next)
        if (one->memory != NULL) hub->options.release(hub->options.context, one->memory, one->n_bytes);
    hub->crossings = NULL;
}

/* ---- what a member does ---- */

typedef struct reductions {
    dt_tree_reductions before; /* sums of this process's microbatches */
    dt_tree_reductions after;  /* copies of results */
} reductions;

/* Elements [first, first + n) of part i, of which byte `at` is in the image the first one: the sums of this process's nodes of the tree. */
static void add_nodes(const dt_local_hub *hub, int i, const dt_exchange *exchange, size_t first, size_t n, int64_t at, dt_arena *arena,
                      dt_tree_reductions *reductions) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    for (int node = 0; node < exchange->schedule.n_nodes && n > 0; node++) {
        const dt_schedule_node *one = &exchange->schedule.nodes[node];
        dt_tree_source *sources = DT_NEW_ARRAY(arena, dt_tree_source, one->span);
        void **target = DT_NEW(arena, void *);
        *target = dt_exchange_at(exchange, node, at);
        int n_sources = dt_local_collect_sources(hub, i, one->first, one->first + one->span, first * dt_dtype_bytes(part->dtype), sources);
        bool is_in_tree = exchange->schedule.algorithm != DT_SCHEDULE_ENGINE;
        for (int s = 0; s < n_sources && !is_in_tree; s++) sources[s].span = 1; /* a tree of its own, over what there is */
        dt_tree_reduction sum = {.dtype = part->dtype,
                                 .combine = part->combine,
                                 .n_leaves = is_in_tree ? one->span : n_sources,
                                 .n_sources = n_sources,
                                 .sources = sources,
                                 .n_elements = n,
                                 .n_targets = 1,
                                 .targets = target,
                                 .wide_targets = dt_dtype_is_half(part->dtype)};
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
                              .wide_sources = dt_dtype_is_half(part->dtype) && part->kind != DT_COLLECTIVE_ALL_GATHER};
    dt_list_push(arena, reductions, copy);
}

/* Its share of each range of a piece. */
static void share_sums(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    for (int r = 0; r < piece->sums->n_ranges; r++) {
        const dt_bucket_range *range = &piece->sums->ranges[r];
        const dt_collective_part *part = dt_local_part(hub, group->rank, range->tensor);
        size_t bytes = dt_dtype_bytes(dt_dtype_of_sums(part->dtype)), before = (size_t)range->first / bytes, first, end;
        int n_targets;
        dt_local_share(group, (size_t)range->n_bytes / bytes, &first, &end);
        int64_t at = range->at + (int64_t)(first * bytes);
        add_nodes(hub, range->tensor, piece->exchange, before + first, end - first, at, arena, &work->before);
        if (piece->lands) continue;
        void **targets = dt_local_collect_targets(hub, range->tensor, (before + first) * dt_dtype_bytes(part->dtype), arena, &n_targets);
        add_copy(piece->exchange, at, end - first, part, n_targets, targets, arena, &work->after);
    }
}

/* Each member puts its own rows into the image, and takes its share of the rows of each process out of it. */
static void gather_rows(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    int i = piece->part;
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    int n_processes = hub->options.roles.n_processes, here = hub->options.roles.process;
    int64_t bytes = (int64_t)dt_dtype_bytes(part->dtype);
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t row = dt_microbatches_first_row(&group->rows, group->first_microbatch + m) - first_row(hub, here);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        dt_tree_source *source = DT_NEW(arena, dt_tree_source);
        void **target = DT_NEW(arena, void *);
        if (rows == 0) continue;
        *source = (dt_tree_source){part->sources[m], 1};
        *target = dt_exchange_at(piece->exchange, 0, piece->of_process[here] + row * (int64_t)part->n * bytes);
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
        add_copy(piece->exchange, piece->of_process[p] + skipped, end - first, part, n_targets, targets, arena, &work->after);
    }
}

/* Each member adds up its share of the rows of each process, and takes those of its own microbatches. */
static void scatter_rows(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    int i = piece->part;
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    int n_processes = hub->options.roles.n_processes, here = hub->options.roles.process;
    int64_t bytes = (int64_t)dt_dtype_bytes(dt_dtype_of_sums(part->dtype));
    for (int p = 0; p < n_processes; p++) {
        size_t first, end;
        dt_local_share(group, (size_t)n_rows(hub, p) * part->n, &first, &end);
        add_nodes(hub, i, piece->exchange, (size_t)first_row(hub, p) * part->n + first, end - first, piece->of_process[p] + (int64_t)first * bytes,
                  arena, &work->before);
    }
    for (int m = 0; m < group->n_microbatches; m++) {
        int64_t row = dt_microbatches_first_row(&group->rows, group->first_microbatch + m) - first_row(hub, here);
        int64_t rows = dt_microbatches_rows(&group->rows, group->first_microbatch + m);
        add_copy(piece->exchange, piece->of_process[here] + row * (int64_t)part->n * bytes, (size_t)rows * part->n, part, 1, &part->targets[m], arena,
                 &work->after);
    }
}

/* Each member adds up its part of all shares, and takes its part of the process's own, with the first piece. */
static void scatter_shares(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    int i = piece->part, here = hub->options.roles.process, n_targets;
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    int64_t bytes = (int64_t)dt_dtype_bytes(dt_dtype_of_sums(part->dtype));
    size_t first, end;
    dt_local_share(group, part->n, &first, &end);
    add_nodes(hub, i, piece->exchange, first, end - first, (int64_t)first * bytes, arena, &work->before);
    if (piece->lands) return;
    dt_local_share(group, (size_t)(part->shares[here + 1] - part->shares[here]), &first, &end);
    size_t at = (size_t)part->shares[here] + first;
    void **targets = dt_local_collect_targets(hub, i, at * dt_dtype_bytes(part->dtype), arena, &n_targets);
    add_copy(piece->exchange, (int64_t)at * bytes, end - first, part, n_targets, targets, arena, &work->after);
}

/* Each member puts its part of the process's own share, as it or another member has it, into the image, and takes its part of all shares out of it,
 * with the first piece. */
static void gather_shares(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    int i = piece->part, here = hub->options.roles.process, n_targets;
    const dt_collective_part *part = dt_local_part(hub, group->rank, i);
    size_t bytes = dt_dtype_bytes(part->dtype), first, end;
    if (piece->lands) return;
    dt_local_share(group, (size_t)(part->shares[here + 1] - part->shares[here]), &first, &end);
    size_t at = ((size_t)part->shares[here] + first) * bytes;
    if (first < end) {
        dt_tree_source *source = DT_NEW(arena, dt_tree_source);
        void **target = DT_NEW(arena, void *);
        *source = (dt_tree_source){(const char *)dt_local_owner(hub, group->rank, i)->sources[0] + at, 1};
        *target = dt_exchange_at(piece->exchange, 0, (int64_t)at);
        dt_tree_reduction copy = {
            .dtype = part->dtype, .n_leaves = 1, .n_sources = 1, .sources = source, .n_elements = end - first, .n_targets = 1, .targets = target};
        dt_list_push(arena, &work->before, copy);
    }
    if (piece->exchange->schedule.slots[0].n_bytes < (int64_t)(part->n * bytes)) return; /* it keeps its own share alone */
    dt_local_share(group, part->n, &first, &end);
    void **targets = dt_local_collect_targets(hub, i, first * bytes, arena, &n_targets);
    add_copy(piece->exchange, (int64_t)(first * bytes), end - first, part, n_targets, targets, arena, &work->after);
}

static void share_out(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    if (piece->exchange->like != NULL) return;
    if (dt_local_part(hub, group->rank, piece->part)->kind == DT_COLLECTIVE_ALL_GATHER)
        gather_shares(group, hub, piece, arena, work);
    else
        scatter_shares(group, hub, piece, arena, work);
}

static void share_piece(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    if (piece->sums != NULL)
        share_sums(group, hub, piece, arena, work);
    else if (dt_local_part(hub, group->rank, piece->part)->shares != NULL)
        share_out(group, hub, piece, arena, work);
    else if (dt_local_part(hub, group->rank, piece->part)->kind == DT_COLLECTIVE_ALL_GATHER)
        gather_rows(group, hub, piece, arena, work);
    else
        scatter_rows(group, hub, piece, arena, work);
}

/* ---- what a device does itself ---- */

size_t dt_crossings_device_bytes(const dt_group *group) {
    const dt_local_hub *hub = ((const dt_local_member *)group)->hub;
    size_t n_bytes = 0;
    for (const dt_crossing *one = hub->crossings; one != NULL && hub->options.has_link; one = one->next) n_bytes += one->n_bytes;
    return n_bytes;
}

void dt_crossings_place(dt_group *group, void *memory) {
    char *at = memory;
    for (const dt_crossing *one = ((dt_local_member *)group)->hub->crossings; one != NULL; at += one->n_bytes, one = one->next) place_slots(one, at);
}

typedef DT_LIST(dt_message) message_list;

/* Rounds of all exchanges side by side: the messages of all as one transfer, then the sums of all. */
static void add_rounds(const crossing_bucket *bucket, dt_arena *arena, dt_operation_list *operations) {
    bool more = true;
    for (int r = 0; more; r++) {
        message_list messages = {0};
        dt_tree_reductions sums = {0};
        more = false;
        for (size_t p = 0; p < bucket->pieces.n; p++) {
            const dt_exchange *one = bucket->pieces.items[p].exchange;
            if (r >= one->schedule.n_rounds) continue;
            const dt_operation *crosses = &one->operations[2 * r], *adds = crosses + 1;
            if (crosses->kind == DT_OPERATION_ALL_REDUCE) dt_list_push(arena, operations, *crosses);
            for (int m = 0; crosses->kind == DT_OPERATION_TRANSFER && m < crosses->transfer.n; m++)
                dt_list_push(arena, &messages, crosses->transfer.messages[m]);
            for (int s = 0; s < adds->reduce.n; s++) dt_list_push(arena, &sums, adds->reduce.reductions[s]);
            more = true;
        }
        if (messages.n > 0)
            dt_list_push(arena, operations, ((dt_operation){.kind = DT_OPERATION_TRANSFER, .transfer = {(int)messages.n, messages.items}}));
        dt_local_add_reductions(&sums, arena, operations);
    }
}

/* ---- lowering ---- */

/* What crosses where it is wanted does so where that is now: a device's memory may have been planned, and not yet allocated, before. */
static void lower_exchanges(const dt_local_hub *hub, const crossing_bucket *bucket, dt_arena *arena) {
    for (size_t p = 0; p < bucket->pieces.n; p++) {
        const crossing_piece *piece = &bucket->pieces.items[p];
        if (piece->lands && piece->sums == NULL) dt_exchange_land(piece->exchange, only_place(hub, piece->part, arena));
        dt_exchange_lower(piece->exchange, arena);
    }
}

/* All of it on the device's own queue. */
static dt_group_bucket lower_on_device(crossing_bucket *bucket, const reductions *work, dt_arena *arena) {
    dt_group_bucket made = {.complete_after = bucket->complete_after};
    dt_local_add_reductions(&work->before, arena, &made.beside);
    add_rounds(bucket, arena, &made.beside);
    dt_local_add_reductions(&work->after, arena, &made.beside);
    return made;
}

/* What crosses does so on the queue of the thread that owns the transport. */
static dt_group_bucket lower_beside(crossing_bucket *bucket, const reductions *work, dt_arena *arena) {
    dt_group_bucket made = {.complete_after = bucket->complete_after, .complete = &bucket->complete};
    dt_list_push(arena, &made.beside, ((dt_operation){.kind = DT_OPERATION_PASS, .gate = &bucket->complete}));
    dt_local_add_reductions(&work->before, arena, &made.beside);
    dt_list_push(arena, &made.beside, ((dt_operation){.kind = DT_OPERATION_ARRIVE, .gate = &bucket->begin}));
    dt_list_push(arena, &made.behind, ((dt_operation){.kind = DT_OPERATION_AWAIT, .gate = &bucket->begin}));
    dt_local_add_reductions(&work->after, arena, &made.behind);
    return made;
}

dt_status *dt_crossing_lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work) {
    dt_local_hub *hub = ((dt_local_member *)group)->hub;
    dt_crossing *crossing = hub->crossings;
    while (crossing != NULL && crossing->first != first) crossing = crossing->next;
    if (crossing == NULL) DT_TRY(make(hub, first, n, arena, &crossing));
    *work = (dt_group_work){
        .on_device = hub->options.has_link, .n_buckets = crossing->n_buckets, .buckets = DT_NEW_ARRAY(arena, dt_group_bucket, crossing->n_buckets)};
    for (int b = 0; b < crossing->n_buckets; b++) {
        crossing_bucket *bucket = &crossing->buckets[b];
        reductions own = {0};
        if (group->rank == 0) lower_exchanges(hub, bucket, arena);
        for (size_t p = 0; p < bucket->pieces.n; p++) share_piece(group, hub, &bucket->pieces.items[p], arena, &own);
        work->buckets[b] = (hub->options.has_link ? lower_on_device : lower_beside)(bucket, &own, arena);
    }
    return NULL;
}
