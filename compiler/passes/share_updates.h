/* share_updates: what the files of the pass share. share_updates_owners.c says what of a plan is run by who owns variables and computes no examples,
 * as a parameter server does (runtime/comm/microbatches.h).
 *
 * It needs what comes into variables, into results, and what it shares out with other owners: the update, sums of totals, and the numbers that they
 * take. It does without the rest: what is computed of examples, weights made ready for that. */
#ifndef DT_COMPILER_PASSES_SHARE_UPDATES_H
#define DT_COMPILER_PASSES_SHARE_UPDATES_H

#include "base/arena.h"
#include "compiler/kernel/kernel.h"

/* needed[n_kernels]: what owners run: kernels in which anything is needed. `shared` are those that owners may share out, which all of them run. */
void dt_owners_find_kernels(dt_arena *arena, const dt_plan *plan, const bool *shared, bool *needed);

#endif
