/* share_updates_owners: see share_updates.h. */
#include "compiler/passes/share_updates.h"

typedef struct search {
    const dt_plan *plan;
    bool *is_read;       /* [n_buffers] by a nest that is needed */
    bool **needed_nests; /* [n_kernels][n_nests] */
} search;

/* The buffer that a view is of. */
static int whole(const dt_plan *plan, int buffer) {
    while (plan->buffers[buffer].view != NULL) buffer = plan->buffers[buffer].view->of;
    return buffer;
}

static bool is_wanted(const search *s, const dt_kernel_function *kernel, const dt_nest *nest) {
    for (int i = 0; i < nest->n_stores; i++) {
        int buffer = whole(s->plan, kernel->buffers[nest->stores[i].address.buffer]);
        if (s->plan->buffers[buffer].space == DT_MEMORY_VARIABLE || s->is_read[buffer]) return true;
    }
    return false;
}

static void need(const search *s, int k, int n) {
    const dt_kernel_function *kernel = &s->plan->kernels[k];
    const dt_nest *nest = &kernel->nests[n];
    s->needed_nests[k][n] = true;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD)
            s->is_read[whole(s->plan, kernel->buffers[nest->instructions[i].address.buffer])] = true;
}

/* What shards give together of what is there once is made of what each gives. */
static bool look_behind_shards(const search *s) {
    bool found = false;
    for (int g = 0; g < s->plan->n_segments; g++)
        for (int c = 0; c < s->plan->segments[g].n_collectives; c++) {
            const dt_collective *one = &s->plan->segments[g].collectives[c];
            int source = whole(s->plan, one->source);
            bool is_new = one->kind == DT_COLLECTIVE_SHARD_REDUCE && s->is_read[whole(s->plan, one->target)] && !s->is_read[source];
            if (is_new) s->is_read[source] = found = true;
        }
    return found;
}

/* Whether one more nest turned out to be needed. */
static bool look(const search *s, const bool *shared) {
    bool found = look_behind_shards(s);
    for (int k = s->plan->n_kernels; k-- > 0;)
        for (int n = s->plan->kernels[k].n_nests; n-- > 0;) {
            const dt_kernel_function *kernel = &s->plan->kernels[k];
            if (s->needed_nests[k][n] || !(shared[k] || is_wanted(s, kernel, &kernel->nests[n]))) continue;
            need(s, k, n);
            found = true;
        }
    return found;
}

void dt_owners_find_kernels(dt_arena *arena, const dt_plan *plan, const bool *shared, bool *needed) {
    search s = {plan, DT_NEW_ARRAY(arena, bool, plan->n_buffers), DT_NEW_ARRAY(arena, bool *, plan->n_kernels)};
    for (int k = 0; k < plan->n_kernels; k++) s.needed_nests[k] = DT_NEW_ARRAY(arena, bool, plan->kernels[k].n_nests);
    for (int r = 0; r < plan->n_results; r++) {
        int buffer = whole(plan, plan->results[r].buffer);
        if (dt_shape_count(plan->buffers[buffer].shape, DT_BATCH) == 0) s.is_read[buffer] = true;
    }
    while (look(&s, shared)) continue;
    for (int k = 0; k < plan->n_kernels; k++) {
        needed[k] = false;
        for (int n = 0; n < plan->kernels[k].n_nests; n++) needed[k] |= s.needed_nests[k][n];
    }
}
