/* gpu_forms: which form (kernel/gpu_choices.h) a nest of a batched plan is best run in, and what follows from that for its sums. It is asked by the
 * passes that choose forms, and by split_reductions, which cuts long sums so that there is enough for all threads to do. */
#ifndef DT_KERNEL_GPU_FORMS_H
#define DT_KERNEL_GPU_FORMS_H

#include "compiler/kernel/gpu_choices.h"

/* Whether the nest is best run in tiles, or as a scatter, and how; or by teams. */
bool dt_gpu_wants_tiles(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_tiles *tiles);
bool dt_gpu_wants_scatter(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_scatter *scatter);
bool dt_gpu_wants_a_team(const dt_gpu_scope *s, const dt_nest *nest);

/* What the nest lacks for a scatter whose owners run the loops of `slice` where its index says; NULL: nothing. depends: dt_nest_depends */
const char *dt_gpu_scatter_needs(const dt_gpu_scope *s, const dt_nest *nest, const uint64_t *depends, uint64_t slice);

/* Tiles that it takes to cover the results. */
int64_t dt_gpu_n_tiles(const dt_plan *plan, const dt_nest *nest, const dt_gpu_tiles *tiles);

/* Into how many parts the nest's reductions are best cut, so that enough of them run at the same time; 1: they are few enough, or short. */
int64_t dt_gpu_parts_wanted(const dt_gpu_scope *s, const dt_nest *nest);
/* Whether so many parts of so many results are better reduced by teams, which want the parts of a result side by side. */
bool dt_gpu_parts_are_for_a_team(const dt_gpu_target *target, int64_t results, int64_t parts);

#endif
