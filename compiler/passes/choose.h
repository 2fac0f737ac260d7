/* choose: what the files of the pass share. Each decides one thing about a nest and reads what those before it have decided; choose.c has their
 * order. */
#ifndef DT_PASSES_CHOOSE_H
#define DT_PASSES_CHOOSE_H

#include "compiler/kernel/analysis.h"
#include "compiler/kernel/choices.h"
#include "compiler/passes/passes.h"

/* A nest at work. */
typedef struct dt_chooser {
    dt_arena *arena;
    const dt_cpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest *nest;
    int n_outer, n_shared;    /* dt_nest_n_outer, dt_nest_n_shared */
    const uint64_t *depends;  /* dt_nest_tile_depends */
    const bool *needed;       /* dt_nest_mark_needed */
    int register_width;       /* elements of a register */
    dt_nest_choices *choices; /* what is chosen */
} dt_chooser;

/* Iterations of a loop, or as many as memory is planned for. */
static inline int64_t dt_chooser_extent(const dt_chooser *c, int loop) {
    int64_t extent = c->nest->loops[loop].extent;
    return dt_dim_is_symbol(extent) ? c->plan->microbatch_rows : extent;
}
static inline bool dt_chooser_is_constant(const dt_chooser *c, int loop) { return !dt_dim_is_symbol(c->nest->loops[loop].extent); }

/* Instructions of an iteration of the reduced loops. */
int dt_chooser_n_reduced(const dt_chooser *c);

/* choose_tiles.c: the tile, and where its loops stand; then, when it is known what is packed, how its sums run. */
void dt_choose_tile(dt_chooser *c);
void dt_choose_tile_sums(dt_chooser *c);
/* choose_zeros.c: whether its sums leave out products with zeros; then it has chosen how they run. */
bool dt_choose_zeros(dt_chooser *c);
/* choose_packing.c: which operands of tiles are copied first. */
void dt_choose_packing(dt_chooser *c);
/* choose_vectors.c: the vector loop, and the order that suits it; then, when it is known what is unrolled, the width of vectors. */
void dt_choose_vector_loop(dt_chooser *c);
void dt_choose_vector_width(dt_chooser *c);
/* choose_unrolling.c: which loops are unrolled; of reduced ones those whose iterations, times `body`, do not exceed `budget`. */
void dt_choose_unrolling(dt_chooser *c);
void dt_choose_reduced_unrolling(dt_chooser *c, int64_t body, int64_t budget);
/* choose_stores.c: how results are stored. */
void dt_choose_stores(dt_chooser *c);

#endif
