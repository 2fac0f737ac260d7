/* order_kernels: the kernels of a plan stand in the order in which they run, those that run once first, as its text has them. */
#include "compiler/kernel/nest.h"
#include "compiler/passes/passes.h"

static void order_kernels(dt_arena *arena, dt_plan *plan) {
    const dt_kernel_function *kernels = plan->kernels;
    plan->kernels = NULL;
    plan->n_kernels = 0;
    for (int s = 0; s < plan->n_segments; s++) {
        dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_device_kernels + segment->n_replica_kernels; k++) {
            bool once = k < segment->n_device_kernels;
            int *kernel = once ? &segment->device_kernels[k] : &segment->replica_kernels[k - segment->n_device_kernels];
            *kernel = dt_plan_add_kernel(arena, plan, kernels[*kernel]);
        }
    }
}

dt_status *dt_pass_order_kernels(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) order_kernels(compilation->arena, compilation->plans[p]);
    return NULL;
}
