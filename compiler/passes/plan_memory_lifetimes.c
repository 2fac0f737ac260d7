/* plan_memory_lifetimes: when each buffer is in use.
 *
 * Time goes by nests, in the order in which kernels run. Nests that share a row loop run again and again: what lives from one row to the next lives
 * through all of them, and so it is with nests that share a loop over blocks, and with those that one call of a library stands for: it does all of
 * them at once. Of some buffers only the row at hand is ever needed, since every use is in that one row loop, at its row: they are cut down to one
 * row and live from their first nest to their last. What a loop over tensors uses and is used outside of its body as well, by a collective too, or
 * goes from one iteration to the next, lives through all of the loop.
 *
 * On a GPU the nests of a launch run at the same time, for all rows, and launches one after another: what a launch uses lives through all of it. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/plan_memory.h"

/* A use of a buffer by a nest. */
typedef struct use {
    int kernel, nest;
    int run_first, run_last; /* the nests of the row loop that it is in; run_last < 0: in none */
} use;

typedef struct timeline {
    dt_plan *plan;
    const dt_nest_range *const *launches; /* of a GPU; NULL: rows are gone through one by one */
    dt_arena *arena;
    int64_t *kernel_time; /* when its first nest runs */
    int64_t end;
    dt_lifetime *lifetimes;
    dt_lifetime *loops;          /* [n_loops] from the first kernel of the body to the last */
    const dt_plan_loop **scopes; /* [n_buffers] the innermost loop that all uses are in; NULL: none is around all */
    bool *by_row;                /* every use so far is at the row of one row loop */
    use *uses;                   /* [n_buffers] the first one; kernel -1: none */
} timeline;

static void extend(timeline *t, int buffer, int64_t first, int64_t last) {
    dt_lifetime *lifetime = &t->lifetimes[buffer];
    if (first < lifetime->first) lifetime->first = first;
    if (last > lifetime->last) lifetime->last = last;
}

/* Whether the address is within the row at hand: the row loop, and nothing else, chooses the row. */
static bool is_at_row(const dt_nest *nest, const dt_address *address, dt_shape shape) {
    return nest->in_rows && shape.rank > 0 && shape.dims[0] == DT_BATCH && address->coefficients[0] == dt_shape_elements_per_row(shape);
}

static use use_of(const dt_kernel_function *kernel, int k, int n) {
    use use = {k, n, n, -1};
    if (!kernel->nests[n].in_rows) return use;
    while (use.run_first > 0 && kernel->nests[use.run_first - 1].in_rows) use.run_first--;
    use.run_last = n;
    while (use.run_last + 1 < kernel->n_nests && kernel->nests[use.run_last + 1].in_rows) use.run_last++;
    return use;
}

/* The scope of the buffer becomes one that this use is in as well, and that the loops are in whose iterations use different parts of it. */
static void widen_scope(timeline *t, int root, int buffer, const dt_plan_loop *loop) {
    const dt_plan_loop **scope = &t->scopes[root];
    if (t->uses[root].kernel < 0) *scope = loop;
    while (!dt_loop_is_within(loop, *scope)) *scope = (*scope)->around;
    for (const dt_view *view = t->plan->buffers[buffer].view; view != NULL; view = t->plan->buffers[view->of].view)
        while (view->loop != NULL && dt_loop_is_within(*scope, view->loop)) *scope = (*scope)->around;
}

static void add_use(timeline *t, int k, int n, const dt_address *address) {
    const dt_kernel_function *kernel = &t->plan->kernels[k];
    int buffer = dt_buffer_root(t->plan, kernel->buffers[address->buffer]);
    use now = use_of(kernel, k, n), *first = &t->uses[buffer];
    if (buffer != kernel->buffers[address->buffer]) t->by_row[buffer] = false;
    widen_scope(t, buffer, kernel->buffers[address->buffer], kernel->loop);
    if (!is_at_row(&kernel->nests[n], address, t->plan->buffers[buffer].shape)) t->by_row[buffer] = false;
    if (first->kernel < 0)
        *first = now;
    else if (first->kernel != k || first->run_first != now.run_first)
        t->by_row[buffer] = false;
}

static void for_each_use(timeline *t, void (*visit)(timeline *t, int k, int n, const dt_address *address)) {
    for (int k = 0; k < t->plan->n_kernels; k++)
        for (int n = 0; n < t->plan->kernels[k].n_nests; n++) {
            const dt_nest *nest = &t->plan->kernels[k].nests[n];
            for (int i = 0; i < nest->n_instructions; i++)
                if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) visit(t, k, n, &nest->instructions[i].address);
            for (int s = 0; s < nest->n_stores; s++) visit(t, k, n, &nest->stores[s].address);
        }
}

/* The nests that run again and again within a row, or at once, together with nest n: first to last. */
static void nests_together(const dt_kernel_function *kernel, int n, int *first, int *last) {
    dt_library_nests(kernel, n, first, last);
    while (kernel->nests[*first].in_blocks) --*first;
    while (*last + 1 < kernel->n_nests && kernel->nests[*last + 1].in_blocks) ++*last;
}

static void add_lifetime(timeline *t, int k, int n, const dt_address *address) {
    int buffer = dt_buffer_root(t->plan, t->plan->kernels[k].buffers[address->buffer]);
    use now = use_of(&t->plan->kernels[k], k, n);
    int64_t time = t->kernel_time[k];
    for (const dt_plan_loop *loop = t->plan->kernels[k].loop; loop != t->scopes[buffer]; loop = loop->around)
        extend(t, buffer, t->loops[loop->number].first, t->loops[loop->number].last);
    bool whole_run = now.run_last >= 0 && !t->plan->buffers[buffer].one_row && t->launches == NULL;
    int first, last;
    nests_together(&t->plan->kernels[k], n, &first, &last);
    if (t->launches != NULL && t->launches[k][n].first < first) first = t->launches[k][n].first;
    if (t->launches != NULL && t->launches[k][n].last > last) last = t->launches[k][n].last;
    const dt_kernel_function *kernel = &t->plan->kernels[k];
    /* Of a divided one parts run side by side, one at this nest, another one at that; of a sharded one the next shard begins with the first nest
     * again, and reads what is the same for all. */
    if (kernel->divided || (!t->plan->buffers[buffer].sharded && dt_kernel_is_sharded(t->plan, kernel))) {
        extend(t, buffer, time, time + t->plan->kernels[k].n_nests - 1);
        return;
    }
    extend(t, buffer, time + (whole_run ? now.run_first : first), time + (whole_run ? now.run_last : last));
}

static void leave_loops(timeline *t, int buffer) { t->scopes[dt_buffer_root(t->plan, buffer)] = NULL; }

/* What a collective takes and gives, and a result, is of use outside of all loops. */
static void leave_scopes(timeline *t) {
    for (int s = 0; s < t->plan->n_segments; s++)
        for (int c = 0; c < t->plan->segments[s].n_collectives; c++) {
            leave_loops(t, t->plan->segments[s].collectives[c].source);
            leave_loops(t, t->plan->segments[s].collectives[c].target);
        }
    for (int r = 0; r < t->plan->n_results; r++) leave_loops(t, t->plan->results[r].buffer);
}

/* The row loop no longer chooses the row: there is only one. */
static void cut_to_one_row(timeline *t, int k, int n, const dt_address *address) {
    int buffer = t->plan->kernels[k].buffers[address->buffer];
    if (t->by_row[buffer]) address->coefficients[0] = 0;
    (void)n;
}

static void add_collective(timeline *t, const dt_collective *collective) {
    extend(t, collective->source, t->end, t->end);
    extend(t, collective->target, t->end, t->end);
}

/* A time of its own for collectives behind the first n kernels of the segment. */
static void add_within(timeline *t, const dt_segment *segment, int n) {
    bool any = false;
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_collective *collective = &segment->collectives[c];
        if (!dt_collective_is_within(t->plan, collective) || dt_complete_after(t->plan, segment, collective) != n) continue;
        add_collective(t, collective);
        any = true;
    }
    t->end += any;
}

static void give_times(timeline *t) {
    dt_plan *plan = t->plan;
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_device_kernels; k++) {
            t->kernel_time[segment->device_kernels[k]] = t->end;
            t->end += plan->kernels[segment->device_kernels[k]].n_nests;
        }
        int64_t replicas_begin = t->end;
        for (int k = 0; k < segment->n_replica_kernels; k++) {
            t->kernel_time[segment->replica_kernels[k]] = t->end;
            t->end += plan->kernels[segment->replica_kernels[k]].n_nests;
            add_within(t, segment, k + 1);
        }
        for (int k = 0; k < segment->n_replica_kernels; k++) /* what is there once a device is used by every replica in turn */
            for (int a = 0; a < plan->kernels[segment->replica_kernels[k]].n_buffers; a++) {
                int buffer = dt_buffer_root(plan, plan->kernels[segment->replica_kernels[k]].buffers[a]);
                if (plan->buffers[buffer].space == DT_MEMORY_DEVICE) extend(t, buffer, replicas_begin, t->end);
            }
        for (int c = 0; c < segment->n_collectives; c++)
            if (!dt_collective_is_within(plan, &segment->collectives[c])) add_collective(t, &segment->collectives[c]);
        t->end++;
    }
}

static void find_loops(timeline *t) {
    for (int k = 0; k < t->plan->n_kernels; k++)
        for (const dt_plan_loop *loop = t->plan->kernels[k].loop; loop != NULL; loop = loop->around) {
            dt_lifetime *lifetime = &t->loops[loop->number];
            int64_t first = t->kernel_time[k], last = first + t->plan->kernels[k].n_nests - 1;
            if (first < lifetime->first) lifetime->first = first;
            if (last > lifetime->last) lifetime->last = last;
        }
}

static void cut_rows(timeline *t) {
    for (int b = 0; b < t->plan->n_buffers; b++) {
        t->uses[b].kernel = -1;
        t->by_row[b] = t->plan->buffers[b].space == DT_MEMORY_SCRATCH && t->plan->buffers[b].view == NULL && !t->plan->batched;
    }
    for (int s = 0; s < t->plan->n_segments; s++)
        for (int c = 0; c < t->plan->segments[s].n_collectives; c++)
            t->by_row[t->plan->segments[s].collectives[c].source] = t->by_row[t->plan->segments[s].collectives[c].target] = false;
    for_each_use(t, add_use);
    for_each_use(t, cut_to_one_row);
    for (int b = 0; b < t->plan->n_buffers; b++) {
        dt_buffer *buffer = &t->plan->buffers[b];
        if (!t->by_row[b] || t->uses[b].kernel < 0) continue;
        buffer->shape = (dt_shape){buffer->shape.rank - 1, buffer->shape.dims + 1};
        buffer->one_row = true;
    }
}

dt_lifetime *dt_plan_lifetimes(dt_arena *arena, dt_plan *plan, const dt_nest_range *const *launches) {
    timeline t = {.plan = plan, .arena = arena, .launches = launches};
    t.kernel_time = DT_NEW_ARRAY(arena, int64_t, plan->n_kernels);
    t.lifetimes = DT_NEW_ARRAY(arena, dt_lifetime, plan->n_buffers);
    t.by_row = DT_NEW_ARRAY(arena, bool, plan->n_buffers);
    t.uses = DT_NEW_ARRAY(arena, use, plan->n_buffers);
    t.scopes = DT_NEW_ARRAY(arena, const dt_plan_loop *, plan->n_buffers);
    t.loops = DT_NEW_ARRAY(arena, dt_lifetime, plan->n_loops);
    for (int l = 0; l < plan->n_loops; l++) t.loops[l] = (dt_lifetime){INT64_MAX, -1};
    for (int b = 0; b < plan->n_buffers; b++) t.lifetimes[b] = (dt_lifetime){INT64_MAX, -1};
    give_times(&t);
    find_loops(&t);
    cut_rows(&t);
    leave_scopes(&t);
    for_each_use(&t, add_lifetime);
    for (int r = 0; r < plan->n_results; r++) extend(&t, plan->results[r].buffer, t.end, t.end);
    return t.lifetimes;
}
