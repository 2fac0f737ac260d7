/* choose_gpu_tiles: how a tile of a sum of products is divided among the threads of a block, and what of its factors and results moves in vectors.
 *
 * In f32 the threads are a square, and each has as many results along a side as there are tiles of these. Factors that are rounded to tf32 or bf16
 * are multiplied by tensor cores: the threads of one instruction have pieces of 16 x 8 results, up to four of them below one another. */
#include "compiler/passes/choose_gpu.h"

enum {
    WIDTH = 4,       /* values of f32 that a thread reads at once, and has of neighbouring results */
    PIECE_ROWS = 16, /* of what tensor cores multiply at once */
    PIECE_COLUMNS = 8,
    MOST_DOWN = 4
};

/* ---- factors ---- */

/* Of the loads that instruction i needs, how many walk the loop. */
static int count_loads_along(const dt_gpu_chooser *c, int i, int loop) {
    bool *marks = DT_NEW_ARRAY(c->arena, bool, c->nest->n_instructions);
    int n = 0;
    dt_nest_mark(c->nest, marks, i);
    for (int k = 0; k < c->nest->n_instructions && loop >= 0; k++)
        n += marks[k] && c->nest->instructions[k].kind == DT_INSTRUCTION_LOAD && c->nest->instructions[k].address.coefficients[loop] == 1;
    return n;
}

/* Whether all that instruction i reads along the loop are vectors; notes which these are. seen[n_instructions]: those that were looked at. */
static bool reads_vectors(const dt_gpu_chooser *c, int i, int along, bool *seen, bool *vectors) {
    const dt_instruction *x = &c->nest->instructions[i];
    if (seen[i] || !(c->depends[i] >> along & 1)) return true;
    seen[i] = true;
    if (x->kind == DT_INSTRUCTION_LOAD) {
        bool guarded = x->guard >= 0 && ((c->depends[x->guard] | c->depends[x->otherwise]) >> along & 1);
        return vectors[i] = !guarded && dt_gpu_chooser_is_vector(c, &x->address, along, WIDTH);
    }
    for (int k = 0; k < dt_instruction_n_uses(x); k++)
        if (!reads_vectors(c, dt_instruction_use(x, k), along, seen, vectors)) return false;
    return true;
}

static void choose_reading(const dt_gpu_chooser *c, dt_gpu_side *side) {
    int last_term = dt_nest_last_loop(c->nest, c->how->reduced), last_result = dt_nest_last_loop(c->nest, side->loops);
    int terms = count_loads_along(c, side->factor, last_term), results = count_loads_along(c, side->factor, last_result);
    side->by_terms = terms > results;
    int along = side->by_terms ? last_term : last_result;
    bool *vectors = DT_NEW_ARRAY(c->arena, bool, c->nest->n_instructions), *seen = DT_NEW_ARRAY(c->arena, bool, c->nest->n_instructions);
    bool all = terms + results > 0 && reads_vectors(c, side->factor, along, seen, vectors);
    side->vectors = (dt_gpu_vectors){.width = all ? WIDTH : 1, .along = along, .loads = vectors};
}

/* ---- results ---- */

/* Results of a thread that lie side by side are stored at once, where they do so in memory; what is read for them alike. */
static void choose_storing(const dt_gpu_chooser *c, int width) {
    const dt_nest *nest = c->nest;
    dt_gpu_vectors *vectors = &c->how->vectors;
    int along = dt_nest_last_loop(nest, c->function->tiles.columns.loops);
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (along < 0 || store->accumulate || store->guard >= 0 || !dt_gpu_chooser_is_vector(c, &store->address, along, width)) return;
    }
    vectors->width = width;
    vectors->along = along;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        vectors->loads[i] = x->kind == DT_INSTRUCTION_LOAD && x->guard < 0 && dt_gpu_chooser_is_vector(c, &x->address, along, width);
    }
}

void dt_gpu_choose_tiles(dt_gpu_chooser *c) {
    const dt_gpu_target *target = c->scope->target;
    dt_gpu_tiles *tiles = &c->function->tiles;
    bool by_threads = tiles->precision == DT_PRECISION_F32;
    int down = tiles->rows.results / PIECE_ROWS, side = 1;
    while (side * side < target->block) side *= 2;
    tiles->terms = target->tile_terms;
    tiles->padding = tiles->precision == DT_PRECISION_TF32 ? 8 : 4;
    tiles->n_down = by_threads ? 0 : down < MOST_DOWN ? down : MOST_DOWN;
    tiles->rows.own = tiles->rows.results / (by_threads ? side : tiles->n_down * PIECE_ROWS);
    tiles->columns.own = tiles->columns.results / (by_threads ? side : target->block / target->product_lanes / tiles->n_down * PIECE_COLUMNS);
    choose_reading(c, &tiles->rows);
    choose_reading(c, &tiles->columns);
    choose_storing(c, by_threads ? (tiles->columns.own < WIDTH ? tiles->columns.own : WIDTH) : 2);
}
