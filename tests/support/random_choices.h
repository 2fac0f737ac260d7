/* random_choices: random changes of what was chosen for a target, as far as dt_choices_verify allows them: whatever it allows, code follows. */
#ifndef DT_TESTS_SUPPORT_RANDOM_CHOICES_H
#define DT_TESTS_SUPPORT_RANDOM_CHOICES_H

#include "compiler/kernel/analysis.h"
#include "compiler/kernel/choices.h"
#include "tests/support/random_graph.h"

/* A nest whose choices change. */
typedef struct changed_nest {
    random_source *random;
    const dt_plan *plan;
    const dt_nest *nest;
    dt_nest_choices *choices;
    int register_width;
} changed_nest;

static inline bool random_flip(random_source *source) { return random_below(source, 2) == 0; }
static inline int random_within(random_source *source, int least, int greatest) {
    return least + (int)random_below(source, (uint32_t)(greatest - least + 1));
}
static inline int random_loop(const changed_nest *c) { return random_within(c->random, 0, c->nest->n_loops - 1); }
static inline int64_t extent_at_most(const changed_nest *c, int loop, int64_t most) {
    int64_t extent = dt_trip_count(c->plan, c->nest->loops[loop].extent);
    return extent < 0 || extent > most ? most : extent;
}

/* ---- one change ---- */

static inline void change_order(changed_nest *c) {
    int a = random_loop(c), b = random_flip(c->random) && a > 0 ? a - 1 : random_loop(c), before = c->choices->order[a];
    c->choices->order[a] = c->choices->order[b];
    c->choices->order[b] = before;
}

static inline void change_vectors(changed_nest *c) {
    if (!c->choices->tiled && random_flip(c->random)) c->choices->vector_loop = random_within(c->random, -1, c->nest->n_loops - 1);
    c->choices->width = c->choices->vector_loop < 0 ? 1 : 1 << random_below(c->random, 7);
}

/* So much code at most that compilers are done with it soon. */
static inline void change_unrolling(changed_nest *c) {
    enum {
        MOST_COPIES = 40
    };
    int loop = random_loop(c);
    int64_t copies = 1;
    c->choices->unrolled[loop] = random_flip(c->random);
    c->choices->jammed[loop] = c->choices->unrolled[loop] || random_flip(c->random) ? 0 : random_within(c->random, 2, 6);
    for (int l = 0; l < c->nest->n_loops; l++)
        copies *= c->choices->unrolled[l] ? c->nest->loops[l].extent : c->choices->jammed[l] > 0 ? c->choices->jammed[l] : 1;
    if (copies > MOST_COPIES) c->choices->unrolled[loop] = false, c->choices->jammed[loop] = 0;
}

static inline void change_sums(changed_nest *c, dt_tile *tile) {
    tile->chains = 1 << random_below(c->random, 4);
    tile->unroll = tile->chains * random_within(c->random, 1, 3);
    tile->in_memory = random_flip(c->random);
}

static inline void make_tiles(changed_nest *c) {
    dt_tile_sizes rows = dt_row_sizes(c->nest, c->choices), vectors = dt_vector_sizes(c->nest, c->choices);
    c->choices->n_tiles = 0;
    for (int r = 0; r < rows.n; r++)
        for (int v = 0; v < vectors.n; v++) {
            dt_tile *tile = &c->choices->tiles[c->choices->n_tiles++];
            tile->rows = rows.items[r];
            tile->vectors = vectors.items[v];
            change_sums(c, tile);
        }
}

/* Products with zeros are left out, or are not. */
static inline void change_zeros(changed_nest *c) {
    dt_nest_choices *choices = c->choices;
    if (!choices->tiled || c->nest->n_loops == dt_nest_n_outer(c->nest)) return;
    choices->skips_zeros = random_flip(c->random);
    if (!choices->skips_zeros) return;
    choices->packed_loop = choices->packed_around = -1;
    choices->packed_rows = 0;
    choices->tile_rows = 1;
    for (int l = 0; l < c->nest->n_loops; l++) choices->unrolled[l] = false;
    make_tiles(c);
    for (int t = 0; t < choices->n_tiles; t++) choices->tiles[t].chains = choices->tiles[t].unroll = 1;
}

/* To tiles of another size, or from tiles to loops and back. */
static inline void change_tiles(changed_nest *c) {
    dt_nest_choices *choices = c->choices;
    if (c->nest->algorithm == DT_ALGORITHM_LOOPS) return;
    choices->packed_loop = choices->packed_around = -1;
    choices->packed_rows = choices->n_tiles = 0;
    choices->skips_zeros = false;
    choices->tiled = random_below(c->random, 5) > 0;
    if (!choices->tiled) return;
    choices->vector_loop = c->nest->tiling.vector_loop;
    choices->width = c->register_width >> (random_flip(c->random) ? 0 : random_below(c->random, 4));
    if (choices->width < 1) choices->width = 1;
    choices->tile_rows = c->nest->tiling.row_loop >= 0 ? random_within(c->random, 1, 6) : 1;
    choices->tile_vectors = random_within(c->random, 1, 4);
    for (int p = 0; p + 1 < dt_nest_n_outer(c->nest); p++) { /* rows come last */
        if (choices->order[p] != c->nest->tiling.row_loop) continue;
        choices->order[p] = choices->order[p + 1];
        choices->order[p + 1] = c->nest->tiling.row_loop;
    }
    for (int l = 0; l < c->nest->n_loops; l++) choices->jammed[l] = 0;
    if (extent_at_most(c, choices->vector_loop, 1) > 0) make_tiles(c);
}

static inline void change_packing(changed_nest *c) {
    dt_nest_choices *choices = c->choices;
    int last = c->nest->n_loops - 1, row = c->nest->tiling.row_loop;
    if (!choices->tiled || last < 0) return;
    choices->packed_loop = choices->order[last];
    choices->packed_around = random_flip(c->random) && last > 0 ? choices->order[last - 1] : -1;
    choices->unrolled[choices->packed_loop] = false;
    int64_t extent = extent_at_most(c, choices->packed_loop, 64);
    choices->depth = random_flip(c->random) ? extent : random_within(c->random, 1, (int)extent + 4);
    choices->packed_rows = 0;
    choices->packed_gap = random_within(c->random, choices->width - 1, choices->width + 20);
    choices->prefetches_rows = random_flip(c->random);
    if (row >= 0 && random_flip(c->random))
        choices->packed_rows = extent_at_most(c, row, random_within(c->random, 1, 80)) / choices->tile_rows * choices->tile_rows;
    make_tiles(c);
}

static inline void change_stores(changed_nest *c) {
    if (c->nest->n_stores > 0)
        c->choices->stores[random_below(c->random, (uint32_t)c->nest->n_stores)] =
            (dt_store_way)random_within(c->random, DT_STORE_ORDINARY, DT_STORE_PREFETCHED);
}

static inline void change_tile(changed_nest *c) {
    if (c->choices->n_tiles > 0) change_sums(c, &c->choices->tiles[random_below(c->random, (uint32_t)c->choices->n_tiles)]);
}

/* ---- many ---- */

static inline dt_nest_choices copy_of_choices(dt_arena *arena, const dt_nest *nest, const dt_nest_choices *choices) {
    dt_nest_choices copy = *choices;
    copy.order = dt_arena_copy(arena, choices->order, sizeof *copy.order * (size_t)nest->n_loops);
    copy.unrolled = dt_arena_copy(arena, choices->unrolled, sizeof *copy.unrolled * (size_t)nest->n_loops);
    copy.jammed = dt_arena_copy(arena, choices->jammed, sizeof *copy.jammed * (size_t)nest->n_loops);
    copy.stores = dt_arena_copy(arena, choices->stores, sizeof *copy.stores * (size_t)nest->n_stores);
    return copy;
}

/* Tries to change the choices of each nest a few times, by one or several changes at once. Returns how many were allowed. */
static inline int random_changes(dt_arena *arena, random_source *source, dt_choices *choices, int attempts) {
    static void (*const changes[])(changed_nest *) = {change_order,   change_vectors, change_unrolling, change_tiles,
                                                      change_packing, change_zeros,   change_stores,    change_tile};
    int n_allowed = 0;
    for (int p = 0; p < choices->n_plans; p++)
        for (int k = 0; k < choices->plans[p]->n_kernels; k++)
            for (int n = 0; n < choices->plans[p]->kernels[k].n_nests * attempts; n++) {
                const dt_nest *nest = &choices->plans[p]->kernels[k].nests[n / attempts];
                dt_nest_choices *now = &choices->nests[p][k][n / attempts], before = copy_of_choices(arena, nest, now);
                int element = nest->n_reductions > 0 ? (int)dt_dtype_bytes(nest->reductions[0].dtype) : 4;
                changed_nest changed = {source, choices->plans[p], nest, now, choices->target->vector_bytes / element};
                *now = copy_of_choices(arena, nest, now);
                for (int i = random_within(source, 1, 3); i > 0 && nest->n_loops > 0; i--)
                    changes[random_below(source, sizeof changes / sizeof *changes)](&changed);
                dt_status *status = dt_choices_verify(arena, choices);
                n_allowed += status == NULL;
                if (status != NULL) *now = before;
                dt_status_free(status);
            }
    return n_allowed;
}

#endif
