/* choose: what of each nest depends on the target. It runs once for each target, after all passes over plans, and leaves these as they are. */
#include "compiler/passes/choose.h"

static void choose_nest(dt_chooser *c) {
    c->choices->stores = DT_NEW_ARRAY(c->arena, dt_store_way, c->nest->n_stores);
    dt_choose_streaming(c);
}

static dt_nest_choices *choose_kernel(dt_arena *arena, const dt_cpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel) {
    dt_nest_choices *choices = DT_NEW_ARRAY(arena, dt_nest_choices, kernel->n_nests);
    for (int n = 0; n < kernel->n_nests; n++)
        choose_nest(
            &(dt_chooser){.arena = arena, .target = target, .plan = plan, .kernel = kernel, .nest = &kernel->nests[n], .choices = &choices[n]});
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
