/* operations_stages: what one stage of a model does (stages.h): its units of each microbatch, in its order, and what crosses from stage to stage.
 *
 * What crosses of a microbatch is a nonblocking collective of the executor that has it. The stage that has made it starts it then, and goes on; it
 * waits for it before it does of that microbatch what comes after the unit that needs it, or anything of another one in its place. The stage that
 * needs it starts it as soon as there is a place for it, and waits for it before the unit. */
#include "runtime/execution/operations_builder.h"

typedef dt_operations_builder builder;

static const dt_staged_function *staged_of(const builder *in) { return &in->memory->domain->stages->functions[in->number]; }
static int stage_of(const builder *in) { return in->memory->domain->stage; }
static bool is_staged(const builder *in) { return in->memory->domain->stages != NULL; }

/* ---- who does what ---- */

bool dt_builder_is_of_stage(const builder *in, const dt_artifact_collective *collective) {
    int s = 0;
    if (!is_staged(in)) return true;
    while (collective < in->function->segments[s].collectives ||
           collective >= in->function->segments[s].collectives + in->function->segments[s].n_collectives)
        s++;
    return dt_stage_is_in(staged_of(in)->segments[s].collectives[collective - in->function->segments[s].collectives], stage_of(in));
}

bool dt_builder_is_left_out(const builder *in, int k, int root) {
    const dt_artifact_kernel *kernel = &in->function->kernels[k];
    bool others_write = false;
    if (!is_staged(in) || !kernel->once) return false;
    for (int n = 0; n < kernel->n_nests; n++)
        for (int w = 0; w < kernel->nests[n].n_writes; w++) {
            if (in->function->buffers[kernel->nests[n].writes[w]].root != root) continue;
            if (dt_stage_is_in(staged_of(in)->runs[k][n], stage_of(in))) return false;
            others_write = true;
        }
    return others_write;
}

/* ---- parts ---- */

static int n_held(const builder *in) { return in->memory->domain->holds.end - in->memory->domain->holds.first; }

static int n_copies_of(const builder *in, int root) { return dt_builder_n_copies(in, in->function->buffers[root].sharded); }

/* Elements of a root of microbatch `all`, of all. */
static size_t n_elements(const builder *in, int root, int all) {
    const dt_artifact_tensor *tensor = &in->function->buffers[root].tensor;
    return (size_t)dt_builder_n_rows(in, tensor, all) * (size_t)(tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype));
}

static const dt_stage_places *places_of(const builder *in) { return &in->memory->domain->staged->functions[in->number]; }

/* What crossing c brings this stage arrives early. */
static bool comes_early(const builder *in, int c) { return c >= 0 && places_of(in)->arrivals[c] >= 0; }

static void *arrival_of(const builder *in, int c, int m) { return dt_executor_memory_arrival(in->memory, in->number, c, m, in->shard); }

/* Of a root of microbatch `all`, of all, or of what is there once, with crossing c or -1; is_here: this member names where it is. */
static void append_part(builder *in, int root, int c, int all, int own, int member, int from, dt_stage_set to, bool is_here, dt_part_list *parts) {
    const dt_artifact_tensor *tensor = &in->function->buffers[root].tensor;
    int n = n_copies_of(in, root);
    is_here = is_here && dt_stage_is_in(to | dt_stage_only(from), stage_of(in));
    for (in->shard = 0; in->shard < n; in->shard++) {
        void **place = DT_NEW(in->arena, void *);
        if (is_here) *place = comes_early(in, c) ? arrival_of(in, c, own) : dt_builder_address(in, root, own);
        dt_collective_part part = {.kind = DT_COLLECTIVE_ALL_GATHER,
                                   .dtype = tensor->dtype,
                                   .n = n_elements(in, root, all),
                                   .n_targets = is_here,
                                   .targets = place,
                                   .nonblocking = in->shard == 0 ? n : DT_NONBLOCKING_NOT_FIRST,
                                   .axis = DT_AXIS_STAGES,
                                   .member = member,
                                   .from = from,
                                   .to = to,
                                   .label = tensor->name != NULL ? tensor->name : "activations"};
        dt_list_push(in->arena, parts, part);
    }
    in->shard = 0;
}

/* Of each microbatch of this process. */
static void append_crossing(builder *in, int c, dt_part_list *parts) {
    const dt_stage_crossing *one = &staged_of(in)->crossings[c];
    const dt_memory_domain *domain = in->memory->domain;
    for (int rank = 0; rank < domain->n_members; rank++) {
        int first = dt_microbatches_first_of_member(rank, domain->n_members, 0, n_held(in));
        bool is_here = domain->holds.first + first == in->memory->first_microbatch;
        for (int m = first; m < dt_microbatches_first_of_member(rank + 1, domain->n_members, 0, n_held(in)); m++)
            append_part(in, one->root, c, domain->holds.first + m, m - first, rank + 1, one->from, dt_stage_only(one->to), is_here, parts);
    }
}

void dt_builder_append_stage_parts(builder *in, int s, dt_part_list *parts) {
    const dt_staged_function *staged = is_staged(in) ? staged_of(in) : &(dt_staged_function){0};
    for (int h = 0; h < staged->n_handings; h++) {
        const dt_stage_handing *one = &staged->handings[h];
        if (one->segment == s) append_part(in, one->root, -1, 0, 0, 0, one->from, one->to, true, parts);
    }
    for (int c = 0; c < staged->n_crossings; c++)
        if (staged->crossings[c].used == s) append_crossing(in, c, parts);
}

/* Where the parts of crossing c begin among those of its segment; of as many as there are, how many all are. */
static int first_of_crossing(const builder *in, int s, int c) {
    const dt_staged_function *staged = staged_of(in);
    int n = 0;
    for (int h = 0; h < staged->n_handings; h++)
        if (staged->handings[h].segment == s) n += n_copies_of(in, staged->handings[h].root);
    for (int i = 0; i < c; i++)
        if (staged->crossings[i].used == s) n += n_held(in) * n_copies_of(in, staged->crossings[i].root);
    return n;
}

int dt_builder_n_stage_parts(const builder *in, int s) { return is_staged(in) ? first_of_crossing(in, s, staged_of(in)->n_crossings) : 0; }

/* ---- handing ---- */

void dt_builder_add_handings(builder *in, int s, int first, int end) {
    const dt_staged_function *staged = is_staged(in) ? staged_of(in) : &(dt_staged_function){0};
    for (int wait = 0; wait < 2; wait++)
        for (int h = 0, at = in->handed; h < staged->n_handings; h++) {
            const dt_stage_handing *one = &staged->handings[h];
            if (one->segment != s) continue;
            int n = n_copies_of(in, one->root);
            bool is_now = one->after >= first && one->after < end && dt_stage_is_in(one->to | dt_stage_only(one->from), stage_of(in));
            if (is_now) dt_builder_add_nonblocking(in, wait ? DT_OPERATION_WAIT : DT_OPERATION_START, at, n);
            at += n;
        }
}

/* ---- units ---- */

/* The units of a segment, on the way. */
typedef struct walk {
    builder *in;
    int segment, stage, n;
    const dt_staged_function *staged;
    int *firsts;    /* [n_crossings] */
    bool **is_sent; /* [n_crossings][n] and not waited for */
} walk;

static void cross(const walk *w, int c, int m, dt_operation_kind kind) {
    int n = n_copies_of(w->in, w->staged->crossings[c].root);
    int number = w->in->memory->first_microbatch - w->in->memory->domain->holds.first + m;
    dt_builder_add_nonblocking(w->in, kind, w->firsts[c] + number * n, n);
}

static bool is_made_before(const walk *w, int c) { return w->staged->crossings[c].made != w->segment; }

/* Crossing c brings this stage something in this segment, before unit u. */
static bool comes_before(const walk *w, int c, int u) {
    const dt_stage_crossing *one = &w->staged->crossings[c];
    return one->used == w->segment && one->to == w->stage && one->before == u && !is_made_before(w, c);
}

/* What was made in an earlier segment, and stays where it comes to. */
static void cross_first(const walk *w) {
    for (int c = 0; c < w->staged->n_crossings; c++) {
        const dt_stage_crossing *one = &w->staged->crossings[c];
        bool is_own = one->used == w->segment && (one->from == w->stage || one->to == w->stage);
        for (int m = 0; m < w->n && is_own && is_made_before(w, c); m++) {
            cross(w, c, m, DT_OPERATION_START);
            cross(w, c, m, DT_OPERATION_WAIT);
        }
    }
}

/* Another microbatch comes to where it is. */
static bool is_in_scratch(const walk *w, int c) {
    const dt_artifact_buffer *root = &w->in->function->buffers[w->staged->crossings[c].root];
    return root->space == DT_MEMORY_SCRATCH && !root->tensor.has_all_rows;
}

/* Before unit u of it: what others take before that, until when the plan keeps it. To wait for more may be for ever, where what others do before they
 * take it waits for this stage. */
static void await_sent(const walk *w, int m, int u) {
    for (int c = 0; c < w->staged->n_crossings; c++) {
        if (!w->is_sent[c][m] || w->staged->crossings[c].before > u) continue;
        cross(w, c, m, DT_OPERATION_WAIT);
        w->is_sent[c][m] = false;
    }
}

/* Before another one comes to its place. */
static void await_all_in_place(const walk *w, int m) {
    for (int c = 0; c < w->staged->n_crossings && m >= 0; c++) {
        if (!w->is_sent[c][m] || !is_in_scratch(w, c)) continue;
        cross(w, c, m, DT_OPERATION_WAIT);
        w->is_sent[c][m] = false;
    }
}

/* Of microbatch m, for which there is a place now. */
static void start_arrivals(const walk *w, int m) {
    for (int c = 0; c < w->staged->n_crossings && m < w->n; c++)
        if (comes_before(w, c, w->staged->crossings[c].before) && comes_early(w->in, c)) cross(w, c, m, DT_OPERATION_START);
}

/* What has arrived, to where the stage has had it. */
static void move_arrived(const walk *w, int c, int m) {
    builder *in = w->in;
    int root = w->staged->crossings[c].root, n = n_copies_of(in, root);
    if (!comes_early(in, c) || places_of(in)->arrived[root] == c) return;
    dt_tree_reduction *copies = dt_builder_add_reductions(in, n);
    for (in->shard = 0; in->shard < n; in->shard++)
        *copies++ = dt_builder_copy(in, in->function->buffers[root].tensor.dtype, arrival_of(in, c, m), dt_builder_address(in, root, m),
                                    n_elements(in, root, in->memory->first_microbatch + m));
    in->shard = 0;
}

static void receive(const walk *w, int u, int m) {
    for (int c = 0; c < w->staged->n_crossings; c++) {
        if (!comes_before(w, c, u)) continue;
        if (!comes_early(w->in, c)) cross(w, c, m, DT_OPERATION_START);
        cross(w, c, m, DT_OPERATION_WAIT);
        move_arrived(w, c, m);
    }
}

static void send(const walk *w, int u, int m) {
    for (int c = 0; c < w->staged->n_crossings; c++) {
        const dt_stage_crossing *one = &w->staged->crossings[c];
        if (one->made != w->segment || one->used != w->segment || one->from != w->stage || one->after != u) continue;
        cross(w, c, m, DT_OPERATION_START);
        w->is_sent[c][m] = true;
    }
}

static walk begin(builder *in, int s) {
    walk w = {.in = in, .segment = s, .stage = stage_of(in), .n = in->memory->n_microbatches, .staged = staged_of(in)};
    w.firsts = DT_NEW_ARRAY(in->arena, int, w.staged->n_crossings);
    w.is_sent = DT_NEW_ARRAY(in->arena, bool *, w.staged->n_crossings);
    for (int c = 0; c < w.staged->n_crossings; c++) {
        w.firsts[c] = in->handed + first_of_crossing(in, s, c);
        w.is_sent[c] = DT_NEW_ARRAY(in->arena, bool, w.n);
    }
    return w;
}

/* Unit u of microbatch m is next: its place, and the one ahead, are those of microbatches that are through. */
static void make_room(const walk *w, int u, int m, bool is_first) {
    int n_together = w->in->memory->n_together;
    if (is_first) await_all_in_place(w, m - n_together);
    if (is_first && m >= n_together) start_arrivals(w, m + 1);
    if (!is_first) await_sent(w, m, u);
}

void dt_builder_add_units(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    const dt_executor_memory *memory = in->memory;
    const dt_stage_order *order = &memory->orders[in->number][s];
    walk w = begin(in, s);
    int n_units = w.staged->segments[s].n_units, first_unit = order->n > 0 ? order->tasks[0].unit : 0;
    int *merge = DT_NEW_ARRAY(in->arena, int, n_units), *across = DT_NEW_ARRAY(in->arena, int, n_units);
    cross_first(&w);
    for (int m = 0; m <= memory->n_together; m++) start_arrivals(&w, m);
    for (int t = 0; t < order->n; t++) {
        const dt_stage_unit *unit = &w.staged->segments[s].units[order->tasks[t].unit];
        const dt_layer kernels = {.first = unit->first, .end = unit->end};
        int u = order->tasks[t].unit, m = order->tasks[t].microbatch;
        make_room(&w, u, m, u == first_unit);
        receive(&w, u, m);
        dt_builder_add_kernels(in, s, unit->first, unit->end, m, m + 1);
        merge[u] = dt_builder_add_merges(in, segment, &kernels, &memory->sums, m, merge[u]);
        across[u] = dt_builder_add_merges(in, segment, &kernels, &memory->sums_across, m, across[u]);
        send(&w, u, m);
    }
    for (int m = 0; m < w.n; m++) await_sent(&w, m, n_units);
}

void dt_builder_add_results(builder *in) {
    const int s = in->function->n_segments;
    if (!is_staged(in)) return;
    in->handed = in->collective;
    in->collective += dt_builder_n_stage_parts(in, s);
    const walk w = begin(in, s);
    cross_first(&w);
}
