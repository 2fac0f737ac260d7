/* owners: what of a plan is run by who owns variables and computes no examples, as a parameter server does (runtime/comm/microbatches.h).
 *
 * Between what crosses and what kernels of replicas read stand kernels that run once: an update, sums of totals, but also weights made ready for
 * products. Of these an owner needs what comes into variables, into results, and what it shares out with other owners. */
#ifndef DT_COMPILER_PASSES_OWNERS_H
#define DT_COMPILER_PASSES_OWNERS_H

#include "base/arena.h"
#include "compiler/kernel/kernel.h"

/* needed[n_kernels]: kernels that run once, and that owners run. `shared` are those that owners may share out, which all of them run. */
void dt_owners_find_kernels(dt_arena *arena, const dt_plan *plan, const bool *shared, bool *needed);

#endif
