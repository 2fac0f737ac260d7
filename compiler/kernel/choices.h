/* choices: how each nest becomes code for one CPU target (kernel/cpu_target.h).
 *
 * A plan says what is computed, in which form and, but for what stands here, in which order: it is the same for all targets. The rest depends on
 * registers and caches: the passes `choose` decide it for one target, and a renderer follows it to the letter. */
#ifndef DT_KERNEL_CHOICES_H
#define DT_KERNEL_CHOICES_H

#include "compiler/kernel/cpu_target.h"
#include "compiler/kernel/kernel.h"

typedef enum dt_store_way {
    DT_STORE_ORDINARY,
    DT_STORE_STREAMING /* past the caches, where the buffer begins at a line */
} dt_store_way;

typedef struct dt_nest_choices {
    dt_store_way *stores; /* [n_stores] */
} dt_nest_choices;

typedef struct dt_choices {
    const dt_cpu_target *target;
    int n_plans;
    const dt_plan *const *plans;
    dt_nest_choices ***nests; /* [plan][kernel][nest] */
} dt_choices;

/* [n_nests] of a kernel of one of the plans */
const dt_nest_choices *dt_choices_of(const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel);

#endif
