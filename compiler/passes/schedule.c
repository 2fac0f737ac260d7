/* schedule: decides how each nest runs: which loop is vectorised. */
#include "compiler/passes/passes.h"

/* The innermost outer loop that walks every store's elements one by one. */
static int vector_loop_of(const dt_nest *nest) {
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        if (nest->loops[l].reduced || (nest->in_rows && l == 0)) continue;
        bool walks = nest->n_stores > 0;
        for (int s = 0; s < nest->n_stores && walks; s++) walks = nest->stores[s].address.coefficients[l] == 1;
        if (walks) return l;
    }
    return -1;
}

dt_status *dt_pass_schedule(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++)
        for (int k = 0; k < compilation->plans[p]->n_kernels; k++) {
            dt_kernel_function *kernel = &compilation->plans[p]->kernels[k];
            for (int n = 0; n < kernel->n_nests; n++) kernel->nests[n].vector_loop = vector_loop_of(&kernel->nests[n]);
        }
    return NULL;
}
