/* owners: see the header. */
#include "compiler/passes/owners.h"

typedef struct search {
    const dt_plan *plan;
    bool *is_read; /* [n_buffers] by an owner */
    bool *needed;  /* [n_kernels] */
} search;

/* The buffer that a view is of. */
static int whole(const dt_plan *plan, int buffer) {
    while (plan->buffers[buffer].view != NULL) buffer = plan->buffers[buffer].view->of;
    return buffer;
}

static bool is_wanted(const search *s, const dt_kernel_function *kernel) {
    for (int n = 0; n < kernel->n_nests; n++)
        for (int i = 0; i < kernel->nests[n].n_stores; i++) {
            int buffer = whole(s->plan, kernel->buffers[kernel->nests[n].stores[i].address.buffer]);
            if (s->plan->buffers[buffer].space == DT_MEMORY_VARIABLE || s->is_read[buffer]) return true;
        }
    return false;
}

static void note_loads(const search *s, const dt_kernel_function *kernel) {
    for (int n = 0; n < kernel->n_nests; n++)
        for (int i = 0; i < kernel->nests[n].n_instructions; i++) {
            const dt_instruction *one = &kernel->nests[n].instructions[i];
            if (one->kind == DT_INSTRUCTION_LOAD) s->is_read[whole(s->plan, kernel->buffers[one->address.buffer])] = true;
        }
}

/* Whether one more kernel turned out to be needed: what a loop carries is read before it is written. */
static bool look(const search *s, const bool *shared) {
    bool found = false;
    for (int g = s->plan->n_segments; g-- > 0;)
        for (int i = s->plan->segments[g].n_device_kernels; i-- > 0;) {
            int k = s->plan->segments[g].device_kernels[i];
            if (s->needed[k] || !(shared[k] || is_wanted(s, &s->plan->kernels[k]))) continue;
            s->needed[k] = found = true;
            note_loads(s, &s->plan->kernels[k]);
        }
    return found;
}

void dt_owners_find_kernels(dt_arena *arena, const dt_plan *plan, const bool *shared, bool *needed) {
    search s = {plan, DT_NEW_ARRAY(arena, bool, plan->n_buffers), needed};
    for (int k = 0; k < plan->n_kernels; k++) needed[k] = false;
    for (size_t r = 0; r < plan->function->results.n; r++) s.is_read[whole(plan, plan->results[r])] = true;
    while (look(&s, shared)) continue;
}
