/* meetings: where cores that run parts of one kernel have to wait for one another. */
#ifndef DT_KERNEL_MEETINGS_H
#define DT_KERNEL_MEETINGS_H

#include "compiler/kernel/kernel.h"

/* Whether the cores that run parts of the kernel, which replicas run, meet before nest n: it has to do with what another part has done since they met
 * last. They do so before the first nest, and before those that share a loop over rows, where they meet after each row too; and when all nests are
 * done. `meets` of the nests before n is set; the plan has its offsets. */
bool dt_nest_has_to_meet(const dt_plan *plan, const dt_kernel_function *kernel, int n);

/* Whether it is the first of nests that share a loop over rows. */
static inline bool dt_nest_begins_rows(const dt_kernel_function *kernel, int n) {
    return kernel->nests[n].in_rows && (n == 0 || !kernel->nests[n - 1].in_rows);
}

#endif
