/* parallel: what may run at the same time, for targets with many threads.
 *
 * It is read off the addresses: no two threads store to one element, and none reads what another stores. What cannot be shown is walked by one thread
 * in order. So the bits depend on the plan and on what was chosen alone, however many threads there are. */
#ifndef DT_KERNEL_PARALLEL_H
#define DT_KERNEL_PARALLEL_H

#include "compiler/kernel/kernel.h"

/* Sets of loops have a bit each. */
static inline uint64_t dt_first_loops(int n) { return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1; }
uint64_t dt_nest_reduced_loops(const dt_nest *nest);
uint64_t dt_nest_outer_loops(const dt_nest *nest);

bool dt_nest_is_constant(const dt_nest *nest); /* it has constant extents alone */
/* Iterations of the loops of `set`, at capacity. What has no bound counts as much. */
int64_t dt_nest_iterations(const dt_plan *plan, const dt_nest *nest, uint64_t set);
/* The last loop of `set` that has several iterations; -1: none. */
int dt_nest_last_loop(const dt_nest *nest, uint64_t set);

/* The outer loops whose iterations may run at the same time. */
uint64_t dt_nest_parallel_loops(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest);

/* Whether two nests have nothing to do with each other but within an iteration of the first `n_shared` loops, which are alike. */
bool dt_nests_can_share(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *a, const dt_nest *b, int n_shared);

/* The limit below which a check that guards an access holds `term`; -1: none is known. */
int64_t dt_nest_checked_limit(const dt_nest *nest, int guard, int term);

#endif
