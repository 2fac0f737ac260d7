/* add_timers: says after which nests a kernel reads the clock, where a profile is asked for (dt_compilation.profile).
 *
 * A reading takes some 30 cycles, and is worth at most a few hundredths of what it measures: so nests of little work are measured together with those
 * before them. Nests that share a loop over rows are measured row by row; where all of a row is little work, behind the loop. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/repeats.h"
#include "compiler/passes/passes.h"

enum {
    LEAST_WORK = 1 << 15 /* instructions between two readings: above a thousand cycles, whatever the vectors */
};

/* Nests that run one after another: those that share a loop over rows, or all up to the next ones that do. */
static int run_end(const dt_kernel_function *kernel, int first) {
    int end = first + 1;
    while (end < kernel->n_nests && kernel->nests[end].in_rows == kernel->nests[first].in_rows) end++;
    return end;
}

/* Puts the timer of nests that are too little for one of their own to those before them in the run. */
static void time_run(const dt_plan *plan, const dt_kernel_function *kernel, int first, int end, int *n_timers) {
    double work = 0;
    int last = -1; /* nest with a timer */
    for (int n = first, next; n < end; n = next) {
        next = dt_piece_end(kernel, n);
        work += dt_piece_work(plan, kernel, n, next);
        if (work < LEAST_WORK) continue;
        last = next - 1;
        kernel->nests[last].timer = ++*n_timers;
        work = 0;
    }
    if (last == end - 1) return;
    kernel->nests[end - 1].timer = last >= 0 ? kernel->nests[last].timer : ++*n_timers;
    if (last >= 0) kernel->nests[last].timer = 0;
}

dt_status *dt_pass_add_timers(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans && compilation->profile; p++) {
        const dt_plan *plan = compilation->plans[p];
        int n_timers = 0;
        if (plan->role != DT_ROLE_STEP || plan->batched) continue;
        for (int k = 0; k < plan->n_kernels; k++)
            for (int n = 0; n < plan->kernels[k].n_nests; n = run_end(&plan->kernels[k], n))
                time_run(plan, &plan->kernels[k], n, run_end(&plan->kernels[k], n), &n_timers);
    }
    return NULL;
}
