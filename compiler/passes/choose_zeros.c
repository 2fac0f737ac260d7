/* choose_zeros: which sums of products leave out those of which a factor is zero.
 *
 * Of operand a what is not zero is listed first, for each row of tiles by itself: values, and where operand b has what they are multiplied with. Then
 * a tile is one row, and goes through the list. A product costs more so, as each loads its vectors of b; it pays where a fourth of a is something
 * (measured on two processors: at a half it takes as long). What is left is added up in the same order. */
#include "compiler/passes/choose.h"

enum {
    LEAST_ZEROS = 75 /* in a hundred */
};

bool dt_choose_zeros(dt_chooser *c) {
    const dt_nest *nest = c->nest;
    dt_nest_choices *choices = c->choices;
    const int buffer = c->kernel->buffers[nest->instructions[nest->tiling.a].address.buffer];
    if (c->plan->buffers[buffer].zeros < LEAST_ZEROS || dt_skipping_needs(c->plan, c->kernel, nest) != NULL) return false;
    const int64_t n_vectors = (nest->loops[choices->vector_loop].extent + choices->width - 1) / choices->width;
    choices->skips_zeros = true;
    choices->tile_rows = 1;
    choices->tile_vectors = (int)(n_vectors < DT_MOST_TILE_VECTORS ? n_vectors : DT_MOST_TILE_VECTORS);
    for (int l = 0; l < nest->n_loops; l++) choices->unrolled[l] = false;
    const dt_tile_sizes vectors = dt_vector_sizes(nest, choices);
    for (int v = 0; v < vectors.n; v++)
        choices->tiles[choices->n_tiles++] = (dt_tile){.rows = 1, .vectors = vectors.items[v], .chains = 1, .unroll = 1};
    return true;
}
