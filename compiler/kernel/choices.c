/* choices: see the header. */
#include "compiler/kernel/choices.h"

#include <assert.h>

const dt_nest_choices *dt_choices_of(const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel) {
    int p = 0;
    while (p < choices->n_plans && choices->plans[p] != plan) p++;
    assert(p < choices->n_plans);
    return choices->nests[p][kernel - plan->kernels];
}

const dt_tile *dt_tile_of(const dt_nest_choices *choices, int rows, int vectors) {
    int t = 0;
    while (t < choices->n_tiles && (choices->tiles[t].rows != rows || choices->tiles[t].vectors != vectors)) t++;
    assert(t < choices->n_tiles);
    return &choices->tiles[t];
}

dt_parts dt_deal(int64_t things, int64_t most) {
    int64_t n = (things + most - 1) / most;
    return (dt_parts){.n = n, .size = things / n, .n_larger = things % n};
}
