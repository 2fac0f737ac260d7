/* stages: see the header. */
#include "runtime/execution/stages.h"

#include "runtime/execution/memory.h"

/* A nest of a kernel that runs once. */
typedef struct once_nest {
    int segment, kernel; /* kernel: of the segment's device_kernels */
    const dt_artifact_nest *nest;
    dt_stage_set can; /* what it reads is there, or comes there */
    dt_stage_set *runs;
} once_nest;

/* A function on the way. */
typedef struct staging {
    const dt_artifact_function *function;
    const int *stages; /* [n_kernels] of those that replicas run */
    dt_stage_set all;
    dt_arena *arena;
    dt_stage_set *variables;  /* [n_variables] */
    DT_LIST(once_nest) nests; /* in order */
    DT_LIST(dt_stage_crossing) crossings;
    DT_LIST(dt_stage_handing) handings;
    dt_staged_segment *segments;
    dt_stage_set **collectives; /* [n_segments][n_collectives] those of the segments */
    dt_stage_set *has;
    dt_stage_set *where; /* [n_buffers] roots: who has it now. Of what is there once: who can make it, or has it from collectives; 0: nobody yet */
    int *maker, *segment_of, *unit_of; /* [n_buffers] roots of microbatches: who wrote last */
    dt_stage_set **runs;
    bool changed;
} staging;

static const dt_artifact_buffer *root_of(const staging *in, int buffer) { return &in->function->buffers[in->function->buffers[buffer].root]; }
static int number_of(const staging *in, const dt_artifact_buffer *root) { return (int)(root - in->function->buffers); }

static bool is_of_microbatches(dt_memory_space space) {
    return space == DT_MEMORY_SCRATCH || space == DT_MEMORY_REPLICA || space == DT_MEMORY_PARTIAL;
}

/* Where it stands who has a root that is there once; NULL: everybody has it, or it is there for each microbatch. */
static dt_stage_set *wanted_by(staging *in, int buffer) {
    const dt_artifact_buffer *root = root_of(in, buffer);
    if (root->space == DT_MEMORY_VARIABLE) return &in->variables[root->variable];
    return root->space == DT_MEMORY_DEVICE ? &in->has[number_of(in, root)] : NULL;
}

static void want(staging *in, int buffer, dt_stage_set stages) {
    dt_stage_set *set = wanted_by(in, buffer);
    if (set == NULL || (*set | stages) == *set) return;
    *set |= stages;
    in->changed = true;
}

/* ---- microbatches ---- */

static void made_by(staging *in, int root, int stage, int segment, int unit) {
    in->where[root] = dt_stage_only(stage);
    in->maker[root] = stage;
    in->segment_of[root] = segment;
    in->unit_of[root] = unit;
}

/* A unit touches a root: if another stage has made it, it crosses. */
static void touch(staging *in, int buffer, int stage, int segment, int unit) {
    int root = number_of(in, root_of(in, buffer));
    if (!is_of_microbatches(in->function->buffers[root].space)) return;
    in->has[root] |= dt_stage_only(stage);
    if (in->where[root] == 0 || dt_stage_is_in(in->where[root], stage)) return;
    dt_stage_crossing made = {root, in->maker[root], stage, in->segment_of[root], in->unit_of[root], segment, unit};
    dt_list_push(in->arena, &in->crossings, made);
    in->where[root] |= dt_stage_only(stage);
}

/* What combines shards of a microbatch behind the first n kernels: who runs the last of these does it, and has made the target. */
static void combine_within(staging *in, int s, int n, int stage, int unit) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *one = &segment->collectives[c];
        if (!one->is_within || one->complete_after != n) continue;
        int target = number_of(in, root_of(in, one->target));
        in->collectives[s][c] = dt_stage_only(stage);
        touch(in, one->source, stage, s, unit);
        made_by(in, target, stage, s, unit);
        in->has[target] |= dt_stage_only(stage);
    }
}

static void follow_units(staging *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    in->segments[s].collectives = in->collectives[s] = DT_NEW_ARRAY(in->arena, dt_stage_set, segment->n_collectives);
    DT_LIST(dt_stage_unit) units = {0};
    for (int i = 0; i < segment->n_replica_kernels; i++) {
        int k = segment->replica_kernels[i], stage = in->stages[k];
        const dt_artifact_kernel *kernel = &in->function->kernels[k];
        if (units.n == 0 || units.items[units.n - 1].stage != stage) dt_list_push(in->arena, &units, ((dt_stage_unit){.stage = stage, .first = i}));
        dt_stage_unit *unit = &units.items[units.n - 1];
        unit->end = i + 1;
        unit->flops += kernel->flops.per_row * (double)dt_artifact_runs(in->function, kernel->loop);
        for (int n = 0; n < kernel->n_nests; n++) {
            for (int r = 0; r < kernel->nests[n].n_reads; r++) touch(in, kernel->nests[n].reads[r], stage, s, (int)units.n - 1);
            for (int w = 0; w < kernel->nests[n].n_writes; w++) {
                const dt_artifact_buffer *root = root_of(in, kernel->nests[n].writes[w]);
                touch(in, kernel->nests[n].writes[w], stage, s, (int)units.n - 1);
                if (is_of_microbatches(root->space)) made_by(in, number_of(in, root), stage, s, (int)units.n - 1);
            }
        }
        for (int b = 0; b < kernel->n_buffers; b++) want(in, kernel->buffers[b], dt_stage_only(stage));
        combine_within(in, s, i + 1, stage, (int)units.n - 1);
    }
    in->segments[s].n_units = (int)units.n;
    in->segments[s].units = units.items;
}

static void follow_collectives(staging *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *one = &segment->collectives[c];
        if (one->is_within) continue;
        const dt_artifact_buffer *source = root_of(in, one->source), *target = root_of(in, one->target);
        int from = number_of(in, source), to = number_of(in, target), stage = in->where[from] != 0 ? in->maker[from] : 0;
        in->where[to] = is_of_microbatches(source->space) ? dt_stage_only(stage) : in->where[from];
        if (!is_of_microbatches(source->space)) continue;
        in->collectives[s][c] = dt_stage_only(stage);
        in->has[from] |= dt_stage_only(stage);
        in->has[to] |= dt_stage_only(stage);
        if (is_of_microbatches(target->space)) made_by(in, to, stage, s, in->segments[s].n_units);
    }
}

/* ---- what runs once ---- */

static void spread_within(staging *in, size_t end, int root);

/* It comes to all who want it; what the same kernel makes all can make, as what that reads comes to all. */
static void spread(staging *in, size_t nest, int root) {
    if (in->where[root] == 0 || in->where[root] == in->all) return;
    in->where[root] = in->all;
    spread_within(in, nest, root);
}

static void spread_within(staging *in, size_t end, int root) {
    for (size_t n = end; n-- > 0;) {
        once_nest *one = &in->nests.items[n];
        if (one->segment != in->nests.items[end].segment || one->kernel != in->nests.items[end].kernel) return;
        bool makes = false;
        for (int w = 0; w < one->nest->n_writes; w++) makes |= number_of(in, root_of(in, one->nest->writes[w])) == root;
        if (!makes) continue;
        one->can = in->all;
        for (int w = 0; w < one->nest->n_writes; w++) {
            const dt_artifact_buffer *written = root_of(in, one->nest->writes[w]);
            if (written->space == DT_MEMORY_DEVICE) in->where[number_of(in, written)] = in->all;
        }
        for (int r = 0; r < one->nest->n_reads; r++) {
            const dt_artifact_buffer *read = root_of(in, one->nest->reads[r]);
            if (read->space == DT_MEMORY_DEVICE) spread(in, n, number_of(in, read));
        }
    }
}

/* Where a nest can run: what it reads, and adds to, is there. Small things from several places come to all; and the body of a loop is one. */
static void place_nest(staging *in, size_t n) {
    once_nest *one = &in->nests.items[n];
    const dt_artifact_nest *nest = one->nest;
    bool is_in_loop = in->function->kernels[in->function->segments[one->segment].device_kernels[one->kernel]].loop >= 0;
    one->can = in->all;
    for (int i = 0; i < nest->n_reads + nest->n_writes; i++) {
        const dt_artifact_buffer *root = root_of(in, i < nest->n_reads ? nest->reads[i] : nest->writes[i - nest->n_reads]);
        if (root->space == DT_MEMORY_DEVICE && in->where[number_of(in, root)] != 0) one->can &= in->where[number_of(in, root)];
    }
    if (one->can == 0 || is_in_loop) {
        one->can = in->all;
        for (int i = 0; i < nest->n_reads + nest->n_writes; i++) {
            const dt_artifact_buffer *root = root_of(in, i < nest->n_reads ? nest->reads[i] : nest->writes[i - nest->n_reads]);
            if (root->space == DT_MEMORY_DEVICE) spread(in, n, number_of(in, root));
        }
    }
    for (int w = 0; w < nest->n_writes; w++) {
        const dt_artifact_buffer *root = root_of(in, nest->writes[w]);
        if (root->space == DT_MEMORY_DEVICE) in->where[number_of(in, root)] = one->can;
    }
}

static void follow_once(staging *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    for (int i = 0; i < segment->n_device_kernels; i++) {
        const dt_artifact_kernel *kernel = &in->function->kernels[segment->device_kernels[i]];
        dt_stage_set *runs = in->runs[segment->device_kernels[i]];
        for (int n = 0; n < kernel->n_nests; n++) {
            once_nest made = {.segment = s, .kernel = i, .nest = &kernel->nests[n], .runs = &runs[n]};
            dt_list_push(in->arena, &in->nests, made);
            place_nest(in, in->nests.n - 1);
        }
    }
}

/* Of those who can make something those who want it; where none of them does, but others, or where it has to be made, the first one. */
static dt_stage_set chosen(dt_stage_set wanted, dt_stage_set can, bool has_to) {
    dt_stage_set made = wanted & can;
    return made == 0 && (wanted != 0 || has_to) ? dt_stage_only(dt_stage_first(can)) : made;
}

/* Who runs a nest needs what it reads, and has what it writes. */
static void want_operands(staging *in, once_nest *one) {
    const dt_artifact_nest *nest = one->nest;
    dt_stage_set wanted = 0;
    bool changes = false;
    for (int w = 0; w < nest->n_writes; w++) {
        const dt_stage_set *set = wanted_by(in, nest->writes[w]);
        if (set != NULL) wanted |= *set;
        changes |= root_of(in, nest->writes[w])->space == DT_MEMORY_VARIABLE && in->function->role != DT_ROLE_INIT;
    }
    dt_stage_set runs = chosen(wanted, one->can, changes);
    if ((*one->runs | runs) != *one->runs) in->changed = true;
    *one->runs |= runs;
    for (int r = 0; r < nest->n_reads; r++) want(in, nest->reads[r], *one->runs);
    for (int w = 0; w < nest->n_writes; w++) want(in, nest->writes[w], *one->runs);
}

/* What collectives combine over shards where it is there once. */
static void want_sources(staging *in) {
    for (int s = 0; s < in->function->n_segments; s++)
        for (int c = 0; c < in->function->segments[s].n_collectives; c++) {
            const dt_artifact_collective *one = &in->function->segments[s].collectives[c];
            int source = number_of(in, root_of(in, one->source)), target = number_of(in, root_of(in, one->target));
            if (is_of_microbatches(in->function->buffers[source].space)) continue;
            in->collectives[s][c] |= chosen(in->has[target], in->where[source] != 0 ? in->where[source] : in->all, false);
            want(in, source, in->collectives[s][c]);
            want(in, target, in->collectives[s][c]);
        }
}

/* ---- handing ---- */

static void hand(staging *in, int s, int after, int buffer, dt_stage_set makes) {
    const dt_stage_set *wanted = wanted_by(in, buffer);
    if (wanted == NULL || makes == 0 || (*wanted & ~makes) == 0) return;
    int root = number_of(in, root_of(in, buffer));
    for (size_t h = 0; h < in->handings.n; h++)
        if (in->handings.items[h].segment == s && in->handings.items[h].after == after && in->handings.items[h].root == root) return;
    dt_list_push(in->arena, &in->handings, ((dt_stage_handing){s, after, root, dt_stage_first(makes), *wanted & ~makes}));
}

static void find_handings(staging *in) {
    size_t n = 0;
    for (int s = 0; s < in->function->n_segments; s++) {
        const dt_artifact_segment *segment = &in->function->segments[s];
        for (; n < in->nests.n && in->nests.items[n].segment == s; n++)
            for (int w = 0; w < in->nests.items[n].nest->n_writes; w++)
                hand(in, s, in->nests.items[n].kernel, in->nests.items[n].nest->writes[w], *in->nests.items[n].runs);
        for (int c = 0; c < segment->n_collectives; c++)
            hand(in, s, segment->n_device_kernels, segment->collectives[c].target, in->collectives[s][c]);
    }
}

/* ---- all of it ---- */

static staging staging_of(const dt_artifact *artifact, int f, const dt_stage_cut *cut, int n_stages, dt_stage_set *variables, dt_arena *arena) {
    const dt_artifact_function *function = &artifact->functions[f];
    staging made = {.function = function,
                    .stages = cut->kernels[f],
                    .all = dt_stages_all(n_stages),
                    .arena = arena,
                    .variables = variables,
                    .segments = DT_NEW_ARRAY(arena, dt_staged_segment, function->n_segments),
                    .collectives = DT_NEW_ARRAY(arena, dt_stage_set *, function->n_segments),
                    .has = DT_NEW_ARRAY(arena, dt_stage_set, function->n_buffers),
                    .where = DT_NEW_ARRAY(arena, dt_stage_set, function->n_buffers),
                    .maker = DT_NEW_ARRAY(arena, int, function->n_buffers),
                    .segment_of = DT_NEW_ARRAY(arena, int, function->n_buffers),
                    .unit_of = DT_NEW_ARRAY(arena, int, function->n_buffers),
                    .runs = DT_NEW_ARRAY(arena, dt_stage_set *, function->n_kernels)};
    for (int k = 0; k < function->n_kernels; k++) made.runs[k] = DT_NEW_ARRAY(arena, dt_stage_set, function->kernels[k].n_nests);
    for (int s = 0; s < function->n_segments; s++) {
        follow_once(&made, s);
        follow_units(&made, s);
        follow_collectives(&made, s);
    }
    for (int r = 0; r < function->n_results; r++) {
        want(&made, function->results[r].buffer, made.all);
        for (int stage = 0; stage < n_stages; stage++) touch(&made, function->results[r].buffer, stage, function->n_segments, 0);
    }
    return made;
}

/* Until nobody wants more. */
static void settle(staging *functions, int n) {
    bool changed;
    do {
        changed = false;
        for (int f = 0; f < n; f++) {
            staging *in = &functions[f];
            in->changed = false;
            for (size_t i = in->nests.n; i-- > 0;) want_operands(in, &in->nests.items[i]);
            want_sources(in);
            changed |= in->changed;
        }
    } while (changed);
}

/* Who waits for whom within a segment. */
static void find_takers(staging *in) {
    for (int s = 0; s < in->function->n_segments; s++) {
        dt_stage_set *takers = DT_NEW_ARRAY(in->arena, dt_stage_set, DT_MOST_STAGES);
        for (size_t c = 0; c < in->crossings.n; c++) {
            const dt_stage_crossing *one = &in->crossings.items[c];
            if (one->made == s && one->used == s) takers[one->from] |= dt_stage_only(one->to);
        }
        in->segments[s].takers = takers;
    }
}

/* Who runs any of each kernel. */
static const dt_stage_set *runners_of(const staging *in) {
    dt_stage_set *made = DT_NEW_ARRAY(in->arena, dt_stage_set, in->function->n_kernels);
    for (int k = 0; k < in->function->n_kernels; k++) {
        const dt_artifact_kernel *kernel = &in->function->kernels[k];
        if (!kernel->once) made[k] = dt_stage_only(in->stages[k]);
        for (int n = 0; n < kernel->n_nests; n++) made[k] |= in->runs[k][n];
    }
    return made;
}

static dt_staged_function finish(staging *in) {
    find_handings(in);
    find_takers(in);
    for (int b = 0; b < in->function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &in->function->buffers[b];
        if (buffer->space == DT_MEMORY_VARIABLE) in->has[b] = in->variables[buffer->variable];
        if (buffer->space == DT_MEMORY_INPUT || buffer->space == DT_MEMORY_CONSTANT) in->has[b] = in->all;
    }
    return (dt_staged_function){.segments = in->segments,
                                .n_crossings = (int)in->crossings.n,
                                .n_handings = (int)in->handings.n,
                                .crossings = in->crossings.items,
                                .handings = in->handings.items,
                                .runs = (const dt_stage_set *const *)in->runs,
                                .kernels = runners_of(in),
                                .has = in->has};
}

dt_status *dt_stages_of(const dt_artifact *artifact, int wanted, int n_stages, dt_arena *arena, const dt_stages **stages) {
    dt_stages *made = DT_NEW(arena, dt_stages);
    dt_staged_function *functions = DT_NEW_ARRAY(arena, dt_staged_function, artifact->n_functions);
    dt_stage_set *variables = DT_NEW_ARRAY(arena, dt_stage_set, artifact->n_variables);
    staging *on_the_way = DT_NEW_ARRAY(arena, staging, artifact->n_functions);
    int *numbers = DT_NEW_ARRAY(arena, int, artifact->n_functions), n = 0;
    dt_stage_cut cut;
    *stages = NULL;
    DT_TRY(dt_stage_cut_of(artifact, wanted, n_stages, arena, &cut));
    for (int v = 0; v < artifact->n_variables; v++)
        if (artifact->variables[v].kind == DT_VARIABLE_LAUNCH) variables[v] = dt_stages_all(n_stages);
    for (int f = 0; f < artifact->n_functions; f++) {
        if (!dt_memory_has(artifact, wanted, f)) continue;
        numbers[n] = f;
        on_the_way[n++] = staging_of(artifact, f, &cut, n_stages, variables, arena);
    }
    settle(on_the_way, n);
    for (int v = 0; v < artifact->n_variables; v++) /* what nobody touches */
        if (variables[v] == 0 && dt_memory_has_variable(artifact, wanted, v)) variables[v] = dt_stage_only(0);
    settle(on_the_way, n);
    for (int i = 0; i < n; i++) functions[numbers[i]] = finish(&on_the_way[i]);
    *made = (dt_stages){.n = n_stages, .functions = functions, .variables = variables};
    *stages = made;
    return NULL;
}
