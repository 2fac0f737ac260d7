/* choices: see the header. */
#include "compiler/kernel/choices.h"

#include <assert.h>

const dt_nest_choices *dt_choices_of(const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel) {
    int p = 0;
    while (p < choices->n_plans && choices->plans[p] != plan) p++;
    assert(p < choices->n_plans);
    return choices->nests[p][kernel - plan->kernels];
}
