/* choose: what of each nest depends on the target. It runs once for each target, after all passes over plans, and leaves these as they are. A choice
 * depends on the nest, on what it shares with its neighbours and on the rows of a microbatch, so nests that are one routine (kernel/repeats.h) have
 * equal ones; but for streaming stores, which a kernel has for itself. */
#include "compiler/passes/choose.h"

int dt_chooser_n_reduced(const dt_chooser *c) {
    uint64_t reduced = 0;
    int n_reduced = 0;
    for (int l = 0; l < c->nest->n_loops; l++) reduced |= (uint64_t)dt_nest_reduces(c->nest, l) << l;
    for (int i = 0; i < c->nest->n_instructions; i++) n_reduced += c->needed[i] && (c->depends[i] & reduced) != 0;
    return n_reduced;
}

/* The loops as they stand. */
static void begin_choices(dt_chooser *c) {
    const dt_nest *nest = c->nest;
    int outer = 0, reduced = c->n_outer;
    *c->choices = (dt_nest_choices){.order = DT_NEW_ARRAY(c->arena, int, nest->n_loops),
                                    .unrolled = DT_NEW_ARRAY(c->arena, bool, nest->n_loops),
                                    .jammed = DT_NEW_ARRAY(c->arena, int, nest->n_loops),
                                    .stores = DT_NEW_ARRAY(c->arena, dt_store_way, nest->n_stores),
                                    .vector_loop = -1,
                                    .width = 1,
                                    .packed_loop = -1,
                                    .packed_around = -1};
    for (int l = 0; l < nest->n_loops; l++) c->choices->order[dt_nest_reduces(nest, l) ? reduced++ : outer++] = l;
}

static void choose_nest(dt_chooser *c) {
    begin_choices(c);
    if (dt_tiles_need(c->nest, c->depends) == NULL) {
        dt_choose_tile(c);
        if (!dt_choose_zeros(c)) {
            dt_choose_packing(c);
            dt_choose_tile_sums(c);
        }
    } else {
        dt_choose_vector_loop(c);
        dt_choose_unrolling(c);
        dt_choose_vector_width(c);
        for (int l = 0; l < c->nest->n_loops; l++) c->choices->unrolled[l] &= c->nest->loops[l].extent != 1; /* there is nothing to write out */
    }
    dt_choose_stores(c);
}

static dt_nest_choices *choose_kernel(dt_arena *arena, const dt_cpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel) {
    dt_nest_choices *choices = DT_NEW_ARRAY(arena, dt_nest_choices, kernel->n_nests);
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
        bool *needed = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
        dt_nest_tile_depends(nest, depends);
        dt_nest_mark_needed(nest, needed);
        choose_nest(&(dt_chooser){arena, target, plan, kernel, nest, dt_nest_n_outer(nest), dt_nest_n_shared(kernel, n), depends, needed,
                                  target->vector_bytes / 4, &choices[n]});
    }
    return choices;
}

dt_choices *dt_pass_choose(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_cpu_target *target) {
    dt_choices *choices = DT_NEW(arena, dt_choices);
    *choices = (dt_choices){.target = target, .n_plans = n_plans, .plans = plans, .nests = DT_NEW_ARRAY(arena, dt_nest_choices **, n_plans)};
    for (int p = 0; p < n_plans; p++) {
        choices->nests[p] = DT_NEW_ARRAY(arena, dt_nest_choices *, plans[p]->n_kernels);
        for (int k = 0; k < plans[p]->n_kernels; k++) choices->nests[p][k] = choose_kernel(arena, target, plans[p], &plans[p]->kernels[k]);
    }
    return choices;
}
