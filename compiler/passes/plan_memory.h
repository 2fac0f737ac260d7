/* plan_memory: what the files of the pass share. */
#ifndef DT_PASSES_PLAN_MEMORY_H
#define DT_PASSES_PLAN_MEMORY_H

#include "compiler/passes/passes.h"

/* Kernels that run once are divided where they can be; what has to wait for all parts of one becomes a kernel after it. */
void dt_plan_divide(dt_arena *arena, dt_plan *plan);

/* When a buffer holds something that is still needed: from its first to its last use, both included, on one time line for the whole plan. */
typedef struct dt_lifetime {
    int64_t first, last; /* first > last: never */
} dt_lifetime;
/* [n_buffers]. Buffers of which only the row at hand is ever needed lose their first dimension. launches: [kernels][nests], of a plan for a GPU. */
dt_lifetime *dt_plan_lifetimes(dt_arena *arena, dt_plan *plan, const dt_nest_range *const *launches);

#endif
