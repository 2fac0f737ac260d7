/* choose_packing: which operands of tiles are copied before the tiles read them, because they are larger than the first cache.
 *
 * A block of tiles reads some columns of operand b, row after row, far apart in memory: with many rows, each costs a page and competes for a few sets
 * of the cache, and every tile pays for that again. So the block's columns are packed first: copied to contiguous memory, which all its tiles then
 * read.
 *
 * A long reduced loop also runs in parts, each with as many products as fit the packed block, and the sums are kept in the result between them: the
 * packed block stays in the first cache and what the tiles read of a in the second. The parts are fixed here, so sums have one order.
 *
 * Of two reduced loops both are packed, if that takes one part: the terms of a row of the batch, and the rows.
 *
 * Where neighbours in a lie pages apart, some rows of it are packed for a part too, in their own layout but close together, and all blocks run over
 * these rows before the next ones are packed. */
#include "compiler/passes/choose.h"

enum {
    DEPTH = 256,      /* products of a part, at most */
    LEAST_REUSE = 32, /* rows that read the packed block: then packing costs a few percent */
    LEAST_DEPTH = 32,
    LEAST_BLOCKS = 2, /* that read the packed rows */
    GAP = 16          /* elements between packed rows: rows a power of two apart would fall into the same sets of the cache */
};

static int64_t element_bytes(const dt_chooser *c) { return (int64_t)dt_dtype_bytes(c->nest->reductions[0].dtype); }

static const int64_t *coefficients(const dt_chooser *c, int load) { return c->nest->instructions[load].address.coefficients; }

/* How often each element of a block of b is read: iterations of the loops inside of the blocks. */
static int64_t reuse(const dt_chooser *c) {
    int64_t reuse = 1;
    for (int p = c->n_outer - 1; p >= 0 && c->choices->order[p] != c->choices->vector_loop; p--) reuse *= dt_chooser_extent(c, c->choices->order[p]);
    return reuse;
}

/* ---- rows of a ---- */

/* Whether elements of a that one tile reads in turn lie pages apart: those of a row; or rows, in the same sets of the caches at that. */
static bool is_scattered(const dt_chooser *c) {
    const int64_t *a = coefficients(c, c->nest->tiling.a), element = element_bytes(c), page = c->target->page_bytes;
    int64_t along = a[c->choices->packed_loop], across = a[c->nest->tiling.row_loop];
    return (across == 1 && along * element >= page) || (along == 1 && across > 0 && across * element % (2 * page) == 0);
}

/* Whether a is more than a core's caches hold. */
static bool comes_from_memory(const dt_chooser *c) {
    int64_t elements = 1;
    for (int l = 0; l < c->nest->n_loops; l++)
        if (coefficients(c, c->nest->tiling.a)[l] != 0) elements *= dt_chooser_extent(c, l);
    return elements * element_bytes(c) > 2 * c->target->second_cache_bytes;
}

/* Rows of a that are copied at a time: whole tiles. */
static void choose_rows(dt_chooser *c) {
    const dt_nest *nest = c->nest;
    dt_nest_choices *choices = c->choices;
    int row = nest->tiling.row_loop;
    int64_t block = (int64_t)choices->tile_vectors * choices->width, n_blocks = (nest->loops[choices->vector_loop].extent + block - 1) / block;
    if (dt_packing_rows_needs(nest, choices) != NULL || n_blocks < LEAST_BLOCKS || !is_scattered(c)) return;
    int64_t iterations = choices->depth * (choices->packed_around >= 0 ? dt_chooser_extent(c, choices->packed_around) : 1);
    int64_t most = DT_PACKED_ROWS_BYTES / ((iterations + GAP) * element_bytes(c)), half = dt_chooser_extent(c, row) / 2;
    int64_t rows = (most < half ? most : half) / choices->tile_rows * choices->tile_rows;
    if (rows < LEAST_REUSE) return;
    choices->packed_rows = rows;
    choices->packed_gap = GAP;
    choices->prefetches_rows = coefficients(c, nest->tiling.a)[row] == 1 && comes_from_memory(c);
}

/* ---- blocks of b ---- */

/* Finds the innermost reduced loop, and the one over rows of the microbatch around it, or -1; false: there is none, or more of them longer than 1. Of
 * the rows of all replicas there may be any number, which the place for what is packed would not hold. */
static bool find_reduced_loops(const dt_chooser *c, int *loop, int *around) {
    const dt_nest *nest = c->nest;
    *around = -1;
    if (c->n_outer == nest->n_loops) return false;
    for (int p = c->n_outer; p + 1 < nest->n_loops; p++) {
        int64_t extent = nest->loops[c->choices->order[p]].extent;
        if (extent == 1) continue;
        if (*around >= 0 || extent != DT_BATCH) return false;
        *around = c->choices->order[p];
    }
    *loop = c->choices->order[nest->n_loops - 1];
    return true;
}

void dt_choose_packing(dt_chooser *c) {
    const dt_nest *nest = c->nest;
    dt_nest_choices *choices = c->choices;
    int loop, around;
    if (!find_reduced_loops(c, &loop, &around) || choices->unrolled[loop] || choices->width != c->register_width || reuse(c) < LEAST_REUSE) return;
    if (!dt_chooser_is_constant(c, choices->vector_loop)) return; /* a microbatch has few columns */
    int64_t extent = dt_chooser_extent(c, loop) * (around >= 0 ? dt_chooser_extent(c, around) : 1);
    int64_t stride = coefficients(c, nest->tiling.b)[loop] * element_bytes(c), block = (int64_t)choices->tile_vectors * c->target->vector_bytes;
    if (extent < LEAST_DEPTH || stride < 2 * block || stride * extent <= c->target->first_cache_bytes) return; /* it stays in cache anyway */
    int64_t most = DT_PACKED_BLOCK_BYTES / block < DEPTH ? DT_PACKED_BLOCK_BYTES / block : DEPTH, n_parts = (extent + most - 1) / most;
    int64_t eights = ((extent + n_parts - 1) / n_parts + 7) / 8 * 8;
    bool constant = dt_chooser_is_constant(c, loop);
    if (n_parts == 1 && constant)
        choices->depth = nest->loops[loop].extent;
    else if (dt_nest_stores_sum(nest) && around < 0)
        choices->depth = constant && eights < most ? eights : most;
    else
        return;
    choices->packed_loop = loop;
    choices->packed_around = around;
    choose_rows(c);
}
