/* choose_gpu_loops: who runs which loops of a nest, and how many iterations of a sum are written out. */
#include "compiler/passes/choose_gpu.h"

/* ---- who runs which loops ---- */

static bool reduces_together(const dt_gpu_chooser *c) {
    const dt_gpu_target *target = c->scope->target;
    if (c->function->form != DT_GPU_TEAMS || c->function->team == 1 || c->nest->n_reductions == 0) return false;
    int64_t elements = dt_nest_iterations(c->scope->plan, c->nest, dt_nest_outer_loops(c->nest) & ~c->how->shared);
    int64_t terms = dt_nest_iterations(c->scope->plan, c->nest, c->how->reduced);
    return elements <= 1 || (elements < target->few_for_a_team && terms >= target->much_to_reduce);
}

void dt_gpu_choose_loops(dt_gpu_chooser *c) {
    const dt_gpu_function *f = c->function;
    uint64_t outer = dt_nest_outer_loops(c->nest), parallel = dt_nest_parallel_loops(c->scope->plan, c->scope->kernel, c->nest);
    c->how->reduced = dt_nest_reduced_loops(c->nest);
    c->how->shared = outer & (f->form == DT_GPU_TEAMS ? dt_first_loops(f->n_shared) : f->form == DT_GPU_TILES ? f->tiles.both : 0);
    c->how->dealt = outer & parallel & ~c->how->shared;
    c->how->serial = outer & ~parallel & ~c->how->shared;
    c->how->together = reduces_together(c);
}

/* ---- iterations that are written out ---- */

/* Iterations of the innermost loops that are best written out, so that their loads are on their way together. Their order stays. */
static int64_t unroll_factor(const dt_gpu_chooser *c) {
    int n_loads = 0, n_all = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) {
        if (!c->needed[i] || c->late[i] || c->levels[i] != c->n_levels - 1) continue;
        n_loads += c->nest->instructions[i].kind == DT_INSTRUCTION_LOAD;
        n_all++;
    }
    return n_loads == 0 || n_all > c->scope->target->most_unrolled_instructions ? 1 : c->scope->target->loads_in_flight / n_loads;
}

/* Of each loop so many as short loops within it leave. */
void dt_gpu_choose_unrolling(dt_gpu_chooser *c) {
    bool in_order = !c->how->together && c->function->form != DT_GPU_TILES;
    int64_t iterations = in_order ? unroll_factor(c) : 1;
    c->how->unrolled = DT_NEW_ARRAY(c->arena, int, c->nest->n_loops);
    for (int l = c->nest->n_loops - 1; l >= 0; l--) {
        int64_t extent = c->nest->loops[l].extent;
        c->how->unrolled[l] = iterations > 1 && extent != 1 && (c->how->reduced >> l & 1) ? (int)iterations : 1;
        iterations = extent > 0 ? iterations / extent : 0;
    }
}
