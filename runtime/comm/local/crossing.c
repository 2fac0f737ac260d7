/* crossing: the collectives of a process that is one of several. They cross in buckets: of each, every member adds up its share of the elements of
 * this process's microbatches, as far as the tree goes here, into the nodes of exchanges; the last member to have done so begins them; when one is
 * over each copies its share of the result to where it is wanted. What one memory domain wants at one place crosses in that place, and is not copied:
 * a piece of one tensor, and what is shared out. */
#include "runtime/comm/buckets.h"
#include "runtime/comm/local/hub.h"

#include <limits.h>
#include <string.h>

/* What crosses in one exchange: ranges of parts, whose `tensor` is a part's number. Several parts only where all are summed. */
typedef struct crossing_piece {
    const dt_piece *image;
    dt_exchange *exchange;
    bool lands;         /* slot 0 is the target */
    dt_image_range own; /* what this process has, of shares */
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
    void *memory;             /* of the host, of all slots that are no targets; NULL: a device has it, or it is of a place */
    size_t n_bytes;
    dt_crossing *next;
};

/* ---- making ---- */

static bool over_shards(const dt_collective_part *part) { return part->axis == DT_AXIS_MODEL; }

static const dt_process_roles *data_of(const dt_local_hub *hub) { return &hub->options.mesh.axes[DT_AXIS_DATA]; }

static dt_row_range rows_of(const dt_local_hub *hub, int p) {
    int64_t replicas = hub->options.n_all_microbatches / hub->options.rows.per_replica;
    return dt_microbatches_rows_of_process(&hub->options.rows, replicas, p, *data_of(hub));
}

/* Elements cross as wide as they are summed, or as they are. */
static dt_dtype crossing_dtype(const dt_collective_part *part) {
    return part->kind == DT_COLLECTIVE_ALL_GATHER ? part->dtype : dt_dtype_of_sums(part->dtype);
}

static const dt_collective_part *first_part(const dt_local_hub *hub, const dt_piece *image) { return dt_local_part(hub, 0, image->ranges[0].tensor); }

/* Where an image is wanted as it crosses, if that is one place that messages reach: of members of one memory, or where a device does it all itself
 * and it is shared out, or does not cross the replicas. */
static char *only_place(const dt_local_hub *hub, const dt_piece *image, dt_arena *arena) {
    const dt_collective_part *part = first_part(hub, image);
    bool is_reached = hub->options.shares_memory || (hub->options.has_link && (part->shares != NULL || part->axis != DT_AXIS_DATA));
    int n_targets;
    if (part->nonblocking != 0 && part->kind != DT_COLLECTIVE_ALL_GATHER && !over_shards(part)) return NULL; /* there is no more than a share of it */
    if (image->n_ranges != 1 || crossing_dtype(part) != part->dtype || !is_reached) return NULL;
    void **targets = dt_local_collect_targets(hub, image->ranges[0].tensor, (size_t)image->ranges[0].first, arena, &n_targets);
    return n_targets == 1 ? targets[0] : NULL;
}

/* Who has and needs what one stage hands on to others: *owned is what each has. */
static const dt_layout_member *stage_members(const dt_local_hub *hub, const dt_collective_part *part, int64_t n_bytes, const dt_image_range **owned,
                                             dt_arena *arena) {
    dt_process_roles stages = hub->options.mesh.axes[DT_AXIS_STAGES];
    dt_layout_member *members = DT_NEW_ARRAY(arena, dt_layout_member, stages.n_processes);
    dt_image_range *ranges = DT_NEW_ARRAY(arena, dt_image_range, stages.n_processes);
    for (int p = 0; p < stages.n_processes; p++) {
        bool has = p == part->from, needs = (part->to >> p & 1) != 0;
        members[p] = (dt_layout_member){.rank = dt_process_rank(stages, p), .owns = has, .needs = needs};
        ranges[p] = (dt_image_range){p <= part->from ? 0 : n_bytes, p < part->from ? 0 : n_bytes};
    }
    *owned = ranges;
    return members;
}

/* owned: NULL, or what each process owns of the image. */
static dt_layout layout_of(dt_local_hub *hub, const dt_collective_part *part, int64_t n_bytes, dt_layout_needs needs, const dt_image_range *owned,
                           dt_arena *arena) {
    dt_process_roles roles = hub->options.mesh.axes[part->axis];
    bool adds = part->kind != DT_COLLECTIVE_ALL_GATHER;
    int n_leaves = !adds ? 0 : over_shards(part) ? hub->options.n_all_shards : hub->options.n_all_microbatches;
    const dt_layout_member **members = over_shards(part) ? &hub->shard_members : &hub->members[adds][needs], *of_stages = NULL;
    if (part->axis == DT_AXIS_STAGES) of_stages = stage_members(hub, part, n_bytes, &owned, arena);
    if (of_stages == NULL && *members == NULL) *members = dt_layout_members(roles, n_leaves, needs, arena);
    return (dt_layout){roles.n_processes, roles.process, of_stages != NULL ? of_stages : *members, n_leaves, n_bytes, owned};
}

/* The same in all processes that it crosses. */
static int new_tag(const dt_local_hub *hub, dt_mesh_axis axis) {
    bool is_of_all = hub->options.mesh.axes[axis].stride == 0;
    return is_of_all ? dt_processes_new_tag(hub->options.processes) : dt_processes_new_tag_along(hub->options.processes, axis);
}

static dt_exchange *add_piece(dt_local_hub *hub, crossing_bucket *bucket, const dt_piece *image, dt_layout_needs needs, const dt_image_range *owned,
                              dt_schedule_algorithm algorithm, dt_arena *arena) {
    const dt_collective_part *first = first_part(hub, image);
    dt_layout layout = layout_of(hub, first, image->n_bytes, needs, owned, arena);
    dt_schedule schedule = dt_schedule_of(&layout, algorithm, arena);
    dt_exchange_region *regions = DT_NEW_ARRAY(arena, dt_exchange_region, image->n_ranges);
    for (int r = 0; r < image->n_ranges; r++) {
        const dt_collective_part *part = dt_local_part(hub, 0, image->ranges[r].tensor);
        regions[r] = (dt_exchange_region){crossing_dtype(part), part->combine, image->ranges[r].at, image->ranges[r].n_bytes};
    }
    dt_exchange *made = dt_exchange_create(&schedule, image->n_ranges, regions, first->label, new_tag(hub, first->axis), arena);
    dt_processes_expect(hub->options.processes, dt_exchange_most_of_one(made));
    bool is_all_reduce = first->kind == DT_COLLECTIVE_ALL_REDUCE || first->kind == DT_COLLECTIVE_REDUCE_SCATTER;
    made->axis = first->axis;
    made->kind = !is_all_reduce ? first->kind : needs == DT_NEEDED_BY_ALL ? DT_COLLECTIVE_ALL_REDUCE : DT_COLLECTIVE_REDUCE_SCATTER;
    char *place = only_place(hub, image, arena);
    if (place != NULL) dt_exchange_land(made, place);
    dt_image_range own = owned != NULL ? owned[layout.place] : (dt_image_range){0, 0};
    dt_list_push(arena, &bucket->pieces, ((crossing_piece){image, made, place != NULL, own}));
    return made;
}

/* Of a part these elements, one range after another: each begins with a whole unit. */
static const dt_piece *image_of(const dt_local_hub *hub, int i, int n, const dt_image_range *elements, dt_arena *arena) {
    int64_t bytes = (int64_t)dt_dtype_bytes(crossing_dtype(dt_local_part(hub, 0, i)));
    dt_bucket_range *ranges = DT_NEW_ARRAY(arena, dt_bucket_range, n);
    dt_piece *made = DT_NEW(arena, dt_piece);
    *made = (dt_piece){.n_ranges = n, .ranges = ranges};
    for (int r = 0; r < n; r++) {
        ranges[r] =
            (dt_bucket_range){i, elements[r].first * bytes, (elements[r].end - elements[r].first) * bytes, dt_schedule_whole_units(made->n_bytes)};
        made->n_bytes = ranges[r].at + ranges[r].n_bytes;
    }
    return made;
}

/* A tensor of which each process has a share, in pieces: of every share, as many bytes. */
static void add_shares(dt_local_hub *hub, crossing_bucket *bucket, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    const dt_piece *image = image_of(hub, i, 1, &(dt_image_range){0, (int64_t)part->n}, arena);
    int64_t bytes = (int64_t)dt_dtype_bytes(crossing_dtype(part)), most = 0;
    int n_processes = data_of(hub)->n_processes;
    const dt_exchange *first = NULL;
    for (int p = 0; p < n_processes; p++)
        if (part->shares[p + 1] - part->shares[p] > most) most = part->shares[p + 1] - part->shares[p];
    for (int64_t at = 0; at < most * bytes; at += DT_SHARE_BYTES) {
        dt_image_range *owned = DT_NEW_ARRAY(arena, dt_image_range, n_processes);
        for (int p = 0; p < n_processes; p++) {
            int64_t end = part->shares[p + 1] * bytes;
            owned[p].first = part->shares[p] * bytes + at < end ? part->shares[p] * bytes + at : end;
            owned[p].end = owned[p].first + DT_SHARE_BYTES < end ? owned[p].first + DT_SHARE_BYTES : end;
        }
        dt_exchange *made = add_piece(hub, bucket, image, part->needs, owned, DT_SCHEDULE_AUTO, arena);
        made->like = first;
        if (first == NULL) first = made;
    }
}

/* Part i, which nobody has in shares: what combines shards in a few pieces, one of which is added up while another one crosses. They are so few that
 * those of all members of a process may be under way at a time (DT_MOST_ROUNDS): members do not start them in one order in all processes. */
static void add_whole(dt_local_hub *hub, crossing_bucket *bucket, int i, dt_arena *arena) {
    enum {
        MOST_PIECES = 4
    };
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    int64_t n = (int64_t)part->n, bytes = (int64_t)dt_dtype_bytes(crossing_dtype(part)), most = n;
    if (over_shards(part)) most = dt_piece_bytes(hub->options.mesh.axes[part->axis].n_processes) / bytes;
    if (most < (n + MOST_PIECES - 1) / MOST_PIECES) most = (n + MOST_PIECES - 1) / MOST_PIECES;
    for (int64_t at = 0; at < n; at += most) {
        dt_image_range elements = {at, n - at < most ? n : at + most};
        add_piece(hub, bucket, image_of(hub, i, 1, &elements, arena), DT_NEEDED_BY_ALL, NULL, DT_SCHEDULE_AUTO, arena);
    }
}

/* A nonblocking collective: each part by itself. */
static void fill_nonblocking(dt_local_hub *hub, dt_crossing *made, dt_arena *arena) {
    made->n_buckets = 1;
    made->buckets = DT_NEW(arena, crossing_bucket);
    for (int i = made->first; i < made->first + made->n; i++) {
        if (dt_local_part(hub, 0, i)->axis == DT_AXIS_DATA)
            add_shares(hub, &made->buckets[0], i, arena);
        else
            add_whole(hub, &made->buckets[0], i, arena);
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

/* Rows that are gathered, or scattered: an exchange of their own, those of each process a range. */
static void add_rows(dt_local_hub *hub, crossing_bucket *bucket, int i, dt_arena *arena) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    int n_processes = data_of(hub)->n_processes;
    dt_image_range *elements = DT_NEW_ARRAY(arena, dt_image_range, n_processes), *owned = DT_NEW_ARRAY(arena, dt_image_range, n_processes);
    for (int p = 0; p < n_processes; p++)
        elements[p] = (dt_image_range){rows_of(hub, p).first * (int64_t)part->n, rows_of(hub, p).end * (int64_t)part->n};
    const dt_piece *image = image_of(hub, i, n_processes, elements, arena);
    for (int p = 0; p < n_processes; p++) owned[p] = (dt_image_range){image->ranges[p].at, image->ranges[p].at + image->ranges[p].n_bytes};
    add_piece(hub, bucket, image, part->kind == DT_COLLECTIVE_ALL_GATHER ? DT_NEEDED_BY_ALL : DT_NEEDED_BY_NOBODY, owned, DT_SCHEDULE_AUTO, arena);
}

/* Numbers of tensors become numbers of parts. */
static const dt_piece *of_parts(const dt_piece *piece, const int *parts, dt_arena *arena) {
    dt_bucket_range *ranges = dt_arena_copy(arena, piece->ranges, (size_t)piece->n_ranges * sizeof *ranges);
    dt_piece *made = DT_NEW(arena, dt_piece);
    for (int r = 0; r < piece->n_ranges; r++) ranges[r].tensor = parts[ranges[r].tensor];
    *made = (dt_piece){piece->n_bytes, piece->n_ranges, ranges};
    return made;
}

/* Number i is to be divided among buckets. */
static dt_bucket_tensor tensor_of(const dt_local_hub *hub, int i) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    return (dt_bucket_tensor){(int64_t)(part->n * dt_dtype_bytes(dt_dtype_of_sums(part->dtype))), part->complete_after, kind_of(hub, part, i)};
}

/* What combines shards, in pieces of its own: the processes that share them have the same microbatches, and so the same pieces; others have not. */
static void fill_shards(dt_local_hub *hub, const dt_crossing *made, crossing_bucket *bucket, dt_arena *arena) {
    dt_bucket_tensor *tensors = DT_NEW_ARRAY(arena, dt_bucket_tensor, made->n);
    int *parts = DT_NEW_ARRAY(arena, int, made->n), n = 0, n_buckets;
    for (int i = made->first; i < made->first + made->n; i++) {
        if (!over_shards(dt_local_part(hub, 0, i))) continue;
        tensors[n] = tensor_of(hub, i);
        parts[n++] = i;
    }
    const dt_bucket *buckets = dt_buckets_of(tensors, n, dt_piece_bytes(hub->options.mesh.axes[DT_AXIS_MODEL].n_processes), arena, &n_buckets);
    for (int b = 0; b < n_buckets; b++)
        for (int p = 0; p < buckets[b].n_pieces; p++) {
            const dt_piece *piece = of_parts(&buckets[b].pieces[p], parts, arena);
            add_piece(hub, bucket, piece, DT_NEEDED_BY_ALL, NULL, DT_SCHEDULE_AUTO, arena);
        }
    bucket->complete_after = INT_MAX; /* results belong where kernels of this segment may have something else */
}

/* How many parts are gathered, scattered or handed on; or combine shards. */
static int count_rest(const dt_local_hub *hub, const dt_crossing *made, bool shards) {
    int n = 0;
    for (int i = made->first; i < made->first + made->n; i++) {
        const dt_collective_part *part = dt_local_part(hub, 0, i);
        n += part->kind != DT_COLLECTIVE_ALL_REDUCE && over_shards(part) == shards && dt_local_crosses(hub, i);
    }
    return n;
}

/* Sums in buckets; rows with the last one, or by themselves; then what combines shards. */
static void fill_buckets(dt_local_hub *hub, dt_crossing *made, dt_arena *arena) {
    dt_bucket_tensor *tensors = DT_NEW_ARRAY(arena, dt_bucket_tensor, made->n);
    int *parts = DT_NEW_ARRAY(arena, int, made->n), n_sums = 0, n_buckets;
    for (int i = made->first; i < made->first + made->n; i++) {
        if (dt_local_part(hub, 0, i)->kind != DT_COLLECTIVE_ALL_REDUCE || !dt_local_crosses(hub, i)) continue;
        tensors[n_sums] = tensor_of(hub, i);
        parts[n_sums++] = i;
    }
    int64_t piece_bytes = hub->options.has_link ? DT_WHOLE_PIECES : dt_piece_bytes(data_of(hub)->n_processes);
    const dt_bucket *buckets = dt_buckets_of(tensors, n_sums, piece_bytes, arena, &n_buckets);
    int n_before = n_buckets > 0 ? n_buckets : count_rest(hub, made, false) > 0;
    made->n_buckets = n_before + (count_rest(hub, made, true) > 0);
    made->buckets = DT_NEW_ARRAY(arena, crossing_bucket, made->n_buckets);
    for (int b = 0; b < n_buckets; b++) {
        made->buckets[b].complete_after = buckets[b].complete_after;
        for (int p = 0; p < buckets[b].n_pieces; p++) {
            const dt_piece *piece = of_parts(&buckets[b].pieces[p], parts, arena);
            const dt_collective_part *first = first_part(hub, piece);
            if (first->shares == NULL)
                add_piece(hub, &made->buckets[b], piece, DT_NEEDED_BY_ALL, NULL, is_for_engine(hub, first) ? DT_SCHEDULE_ENGINE : DT_SCHEDULE_AUTO,
                          arena);
            else if (piece->ranges[0].first == 0)
                add_shares(hub, &made->buckets[b], piece->ranges[0].tensor, arena);
        }
    }
    if (made->n_buckets > n_before) fill_shards(hub, made, &made->buckets[n_before], arena);
    for (int i = made->first; i < made->first + made->n; i++) {
        crossing_bucket *last = &made->buckets[n_before - 1];
        const dt_collective_part *part = dt_local_part(hub, 0, i);
        if (part->kind == DT_COLLECTIVE_ALL_REDUCE || over_shards(part) || !dt_local_crosses(hub, i)) continue;
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

static void make_gates(const dt_local_hub *hub, crossing_bucket *bucket, unsigned n_members, dt_arena *arena) {
    dt_exchange **exchanges = DT_NEW_ARRAY(arena, dt_exchange *, bucket->pieces.n);
    for (size_t p = 0; p < bucket->pieces.n; p++) exchanges[p] = bucket->pieces.items[p].exchange;
    bucket->complete = (dt_gate){.n_members = n_members};
    bucket->begin =
        (dt_gate){.n_members = n_members, .n_exchanges = (int)bucket->pieces.n, .exchanges = exchanges, .processes = hub->options.processes};
}

static dt_status *make(dt_local_hub *hub, int first, int n, dt_arena *arena, dt_crossing **found) {
    dt_crossing *made = DT_NEW(arena, dt_crossing);
    *made = (dt_crossing){.first = first, .n = n, .next = hub->crossings};
    bool nonblocking = dt_local_part(hub, 0, first)->nonblocking != 0;
    unsigned n_members = dt_local_part(hub, 0, first)->member > 0 ? 1 : (unsigned)hub->options.n_ranks;
    (nonblocking ? fill_nonblocking : fill_buckets)(hub, made, arena);
    for (int b = 0; b < made->n_buckets; b++) make_gates(hub, &made->buckets[b], n_members, arena);
    made->n_bytes = slot_bytes(made);
    if (!hub->options.has_link && !nonblocking) {
        DT_TRY(hub->options.allocate(hub->options.context, made->n_bytes, &made->memory));
        place_slots(made, made->memory);
    }
    hub->crossings = made;
    *found = made;
    return NULL;
}

static bool is_nonblocking(const dt_local_hub *hub, const dt_crossing *crossing) { return dt_local_part(hub, 0, crossing->first)->nonblocking > 0; }

static void place_nonblocking(const dt_local_hub *hub) {
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next)
        if (is_nonblocking(hub, one)) place_slots(one, hub->places[dt_local_part(hub, 0, one->first)->place].memory);
}

/* All that are nonblocking, before any is lowered: those of a place have one memory. */
static dt_status *make_nonblocking(dt_local_hub *hub, dt_arena *arena) {
    dt_crossing *made;
    hub->has_nonblocking = true;
    for (int i = 0; i < hub->n_parts; i++) {
        const dt_collective_part *part = dt_local_part(hub, 0, i);
        if (part->nonblocking > 0) DT_TRY(make(hub, i, part->nonblocking, arena, &made));
        if (part->nonblocking > 0 && part->place >= hub->n_places) hub->n_places = part->place + 1;
    }
    hub->places = DT_NEW_ARRAY(arena, dt_local_place, hub->n_places);
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next) {
        const dt_collective_part *part = dt_local_part(hub, 0, one->first);
        if (part->nonblocking > 0 && hub->places[part->place].n_bytes < one->n_bytes) hub->places[part->place].n_bytes = one->n_bytes;
    }
    if (hub->options.has_link) return NULL;
    for (int p = 0; p < hub->n_places; p++) {
        void *memory;
        if (hub->places[p].n_bytes == 0) continue;
        DT_TRY(hub->options.allocate(hub->options.context, hub->places[p].n_bytes, &memory));
        hub->places[p].memory = memory;
    }
    place_nonblocking(hub);
    return NULL;
}

void dt_crossings_free(dt_local_hub *hub) {
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next)
        if (one->memory != NULL) hub->options.release(hub->options.context, one->memory, one->n_bytes);
    for (int p = 0; p < hub->n_places && !hub->options.has_link; p++)
        if (hub->places[p].memory != NULL) hub->options.release(hub->options.context, hub->places[p].memory, hub->places[p].n_bytes);
    hub->crossings = NULL;
    hub->n_places = 0;
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

/* Elements of a range. */
typedef struct range_share {
    size_t first, n; /* of the part */
    int64_t at;      /* of the image: the first one's byte */
} range_share;

/* Elements [first, end) of a part that is all in one range. */
static range_share elements_of(const dt_local_hub *hub, const dt_bucket_range *range, size_t first, size_t end) {
    int64_t bytes = (int64_t)dt_dtype_bytes(crossing_dtype(dt_local_part(hub, 0, range->tensor)));
    return (range_share){first, end - first, range->at + (int64_t)first * bytes - range->first};
}

/* This member's share of elements [first, end) of those: all or nothing, where they are one member's. */
static range_share share_of(const dt_group *group, const dt_local_hub *hub, const dt_bucket_range *range, size_t first, size_t end) {
    const int member = dt_local_part(hub, group->rank, range->tensor)->member;
    size_t share_first = 0, share_end = group->rank == member - 1 ? end - first : 0;
    if (member == 0) dt_local_share(group, end - first, &share_first, &share_end);
    return elements_of(hub, range, first + share_first, first + share_end);
}

/* The same of all that is in the range. */
static range_share share_of_range(const dt_group *group, const dt_local_hub *hub, const dt_bucket_range *range) {
    size_t bytes = dt_dtype_bytes(crossing_dtype(dt_local_part(hub, 0, range->tensor)));
    return share_of(group, hub, range, (size_t)range->first / bytes, (size_t)(range->first + range->n_bytes) / bytes);
}

/* To all who want it. */
static void take_share(const dt_local_hub *hub, const crossing_piece *piece, int i, range_share share, dt_arena *arena, reductions *work) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    int n_targets;
    void **targets = dt_local_collect_targets(hub, i, share.first * dt_dtype_bytes(part->dtype), arena, &n_targets);
    add_copy(piece->exchange, share.at, share.n, part, n_targets, targets, arena, &work->after);
}

/* Into the image, as it is. */
static void put(const crossing_piece *piece, const dt_collective_part *part, const void *source, range_share share, dt_arena *arena,
                reductions *work) {
    if (share.n == 0) return;
    dt_tree_source *from = DT_NEW(arena, dt_tree_source);
    void **target = DT_NEW(arena, void *);
    *from = (dt_tree_source){source, 1};
    *target = dt_exchange_at(piece->exchange, 0, share.at);
    dt_tree_reduction copy = {
        .dtype = part->dtype, .n_leaves = 1, .n_sources = 1, .sources = from, .n_elements = share.n, .n_targets = 1, .targets = target};
    dt_list_push(arena, &work->before, copy);
}

/* Each member's own rows: of its microbatches, in the range of this process. */
static void share_rows(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    const dt_bucket_range *range = &piece->image->ranges[data_of(hub)->process];
    const dt_collective_part *part = dt_local_part(hub, group->rank, range->tensor);
    for (int m = 0; m < group->n_microbatches; m++) {
        size_t first = (size_t)dt_microbatches_first_row(&group->rows, group->first_microbatch + m) * part->n;
        size_t n = (size_t)dt_microbatches_rows(&group->rows, group->first_microbatch + m) * part->n;
        range_share own = elements_of(hub, range, first, first + n);
        if (part->kind == DT_COLLECTIVE_ALL_GATHER)
            put(piece, part, part->sources[m], own, arena, work);
        else
            add_copy(piece->exchange, own.at, own.n, part, 1, &part->targets[m], arena, &work->after);
    }
}

static bool is_all_here(const crossing_piece *piece) { return piece->exchange->schedule.slots[0].n_bytes == piece->image->n_bytes; }

/* Of what is shared out: this process's share, as this member has it or another one, or takes it; of one that has no more than its part of a piece,
 * that. */
static void share_own(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    const dt_bucket_range *range = &piece->image->ranges[0];
    const dt_collective_part *part = dt_local_part(hub, group->rank, range->tensor);
    const dt_schedule_slot *slot = &piece->exchange->schedule.slots[0];
    int64_t bytes = (int64_t)dt_dtype_bytes(crossing_dtype(part)), first = slot->first / bytes, end = (slot->first + slot->n_bytes) / bytes;
    if (is_all_here(piece)) {
        first = part->shares[data_of(hub)->process];
        end = part->shares[data_of(hub)->process + 1];
    }
    range_share own = share_of(group, hub, range, (size_t)first, (size_t)end);
    if (part->kind != DT_COLLECTIVE_ALL_GATHER) {
        take_share(hub, piece, range->tensor, own, arena, work);
    } else if (own.n > 0) {
        const char *source = dt_local_owner(hub, group->rank, range->tensor)->sources[0];
        put(piece, part, source + own.first * (size_t)bytes, own, arena, work);
    }
}

/* What a member does for a piece: its share of each range of sums, before; and of each that all processes have in the end, after. What is in pieces
 * of its own it does with the first one, where all of it is in one place. */
static void share_piece(const dt_group *group, const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena, reductions *work) {
    const dt_collective_part *first = dt_local_part(hub, group->rank, piece->image->ranges[0].tensor);
    bool adds = piece->exchange->kind != DT_COLLECTIVE_ALL_GATHER;
    if (first->axis == DT_AXIS_STAGES) return; /* it is where it is, and comes where it is wanted */
    if (piece->exchange->like != NULL && is_all_here(piece)) return;
    for (int r = 0; r < piece->image->n_ranges; r++) {
        const dt_bucket_range *range = &piece->image->ranges[r];
        range_share share = share_of_range(group, hub, range);
        if (adds) add_nodes(hub, range->tensor, piece->exchange, share.first, share.n, share.at, arena, &work->before);
        if (!piece->lands && piece->exchange->kind != DT_COLLECTIVE_REDUCE_SCATTER && is_all_here(piece))
            take_share(hub, piece, range->tensor, share, arena, work);
    }
    if (piece->lands) return;
    if (first->shares != NULL)
        share_own(group, hub, piece, arena, work);
    else if (first->kind != DT_COLLECTIVE_ALL_REDUCE && !over_shards(first))
        share_rows(group, hub, piece, arena, work);
}

/* ---- what a device does itself ---- */

size_t dt_crossings_device_bytes(const dt_group *group) {
    const dt_local_hub *hub = ((const dt_local_member *)group)->hub;
    size_t n_bytes = 0;
    for (const dt_crossing *one = hub->crossings; one != NULL && hub->options.has_link; one = one->next)
        if (!is_nonblocking(hub, one)) n_bytes += one->n_bytes;
    for (int p = 0; p < hub->n_places && hub->options.has_link; p++) n_bytes += hub->places[p].n_bytes;
    return n_bytes;
}

void dt_crossings_place(dt_group *group, void *memory) {
    const dt_local_hub *hub = ((dt_local_member *)group)->hub;
    char *at = memory;
    for (int p = 0; p < hub->n_places; p++) {
        hub->places[p].memory = at;
        at += hub->places[p].n_bytes;
    }
    place_nonblocking(hub);
    for (const dt_crossing *one = hub->crossings; one != NULL; one = one->next) {
        if (is_nonblocking(hub, one)) continue;
        place_slots(one, at);
        at += one->n_bytes;
    }
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

/* Of a nonblocking collective: what this process owns of the piece is copied from where it is kept, or to where its sum is wanted. */
static void set_own_copies(const dt_local_hub *hub, const crossing_piece *piece, dt_arena *arena) {
    const dt_collective_part *part = first_part(hub, piece->image);
    bool gathers = part->kind == DT_COLLECTIVE_ALL_GATHER;
    int64_t bytes = (int64_t)dt_dtype_bytes(crossing_dtype(part)), n = (piece->own.end - piece->own.first) / bytes;
    int64_t first = piece->own.first / bytes, from_share = first - part->shares[data_of(hub)->process];
    reductions copies = {0};
    if (n == 0) return;
    if (gathers) {
        put(piece, part, (const char *)part->sources[0] + from_share * bytes, (range_share){(size_t)first, (size_t)n, piece->own.first}, arena,
            &copies);
        piece->exchange->before = (dt_operation_reduce){.n = (int)copies.before.n, .reductions = copies.before.items};
    } else {
        take_share(hub, piece, piece->image->ranges[0].tensor, (range_share){(size_t)first, (size_t)n, piece->own.first}, arena, &copies);
        piece->exchange->after = (dt_operation_reduce){.n = (int)copies.after.n, .reductions = copies.after.items};
    }
}

/* What crosses where it is wanted does so where that is now: a device's memory may have been planned, and not yet allocated, before. */
static void lower_exchanges(const dt_local_hub *hub, const crossing_bucket *bucket, dt_arena *arena) {
    for (size_t p = 0; p < bucket->pieces.n; p++) {
        const crossing_piece *piece = &bucket->pieces.items[p];
        if (piece->lands) dt_exchange_land(piece->exchange, only_place(hub, piece->image, arena));
        if (first_part(hub, piece->image)->nonblocking != 0 && first_part(hub, piece->image)->shares != NULL) set_own_copies(hub, piece, arena);
        dt_exchange_lower(piece->exchange, arena);
    }
}

/* What is added up before shards cross. */
static void add_reductions_before(const crossing_bucket *bucket, const reductions *work, dt_arena *arena, dt_operation_list *operations) {
    static const dt_over_shards on_the_way = {.label = "", .is_on_the_way = true};
    bool shards = bucket->pieces.n > 0 && bucket->pieces.items[0].exchange->kind == DT_COLLECTIVE_SHARD_REDUCE;
    dt_operation reduce = {.kind = DT_OPERATION_REDUCE, .reduce = {(int)work->before.n, work->before.items, shards ? &on_the_way : NULL}};
    if (work->before.n > 0) dt_list_push(arena, operations, reduce);
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
    add_reductions_before(bucket, work, arena, &made.beside);
    dt_list_push(arena, &made.beside, ((dt_operation){.kind = DT_OPERATION_ARRIVE, .gate = &bucket->begin}));
    dt_list_push(arena, &made.behind, ((dt_operation){.kind = DT_OPERATION_AWAIT, .gate = &bucket->begin}));
    dt_local_add_reductions(&work->after, arena, &made.behind);
    return made;
}

static void add_own_copies(const crossing_bucket *bucket, bool after, dt_arena *arena, dt_operation_list *operations) {
    for (size_t p = 0; p < bucket->pieces.n; p++) {
        const dt_exchange *one = bucket->pieces.items[p].exchange;
        dt_operation copies = {.kind = DT_OPERATION_REDUCE, .reduce = after ? one->after : one->before};
        if (copies.reduce.n > 0) dt_list_push(arena, operations, copies);
    }
}

/* The same on the device's own queue. What is in shares it copies itself. */
static dt_group_bucket lower_nonblocking_on_device(crossing_bucket *bucket, const reductions *work, bool is_of_shares, dt_arena *arena) {
    dt_group_bucket made = {0};
    dt_local_add_reductions(&work->before, arena, &made.beside);
    add_own_copies(bucket, false, arena, &made.beside);
    add_rounds(bucket, arena, &made.beside);
    add_own_copies(bucket, true, arena, &made.beside);
    if (!is_of_shares) dt_local_add_reductions(&work->after, arena, &made.beside);
    return made;
}

/* Members start it when what it takes is there, and the last one begins the exchange. */
static dt_group_bucket lower_nonblocking(crossing_bucket *bucket, const reductions *work, bool is_of_shares, dt_arena *arena) {
    dt_group_bucket made = {0};
    add_reductions_before(bucket, work, arena, &made.beside);
    dt_list_push(arena, &made.beside, ((dt_operation){.kind = DT_OPERATION_ARRIVE, .gate = &bucket->begin}));
    dt_list_push(arena, &made.behind, ((dt_operation){.kind = DT_OPERATION_AWAIT, .gate = &bucket->begin}));
    if (!is_of_shares) dt_local_add_reductions(&work->after, arena, &made.behind); /* of shares the transport's thread does that */
    return made;
}

dt_status *dt_crossing_lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work) {
    dt_local_hub *hub = ((dt_local_member *)group)->hub;
    const dt_collective_part *part = dt_local_part(hub, group->rank, first);
    dt_crossing *crossing;
    if (!hub->has_nonblocking) DT_TRY(make_nonblocking(hub, arena));
    crossing = hub->crossings;
    while (crossing != NULL && crossing->first != first) crossing = crossing->next;
    if (crossing == NULL) DT_TRY(make(hub, first, n, arena, &crossing));
    *work = (dt_group_work){
        .on_device = hub->options.has_link, .n_buckets = crossing->n_buckets, .buckets = DT_NEW_ARRAY(arena, dt_group_bucket, crossing->n_buckets)};
    for (int b = 0; b < crossing->n_buckets; b++) {
        crossing_bucket *bucket = &crossing->buckets[b];
        reductions own = {0};
        if (group->rank == (part->member > 0 ? part->member - 1 : 0)) lower_exchanges(hub, bucket, arena);
        for (size_t p = 0; p < bucket->pieces.n; p++) share_piece(group, hub, &bucket->pieces.items[p], arena, &own);
        if (part->nonblocking != 0)
            work->buckets[b] = (hub->options.has_link ? lower_nonblocking_on_device : lower_nonblocking)(bucket, &own, part->shares != NULL, arena);
        else
            work->buckets[b] = (hub->options.has_link ? lower_on_device : lower_beside)(bucket, &own, arena);
    }
    return NULL;
}
