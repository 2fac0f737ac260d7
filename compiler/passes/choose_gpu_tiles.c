/* choose_gpu_tiles: how a tile of a sum of products is divided among the threads of a block, and what of its factors and results moves in vectors.
 *
 * In f32 the threads are a square, and each has as many results along a side as there are tiles of these. Factors that are rounded to tf32 or bf16
 * are multiplied by tensor cores: the threads of one instruction have pieces of 16 x 8 results, up to four of them below one another. */
#include "compiler/passes/choose_gpu.h"

enum {
    WIDTH = DT_GPU_NEIGHBOURS,
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

/* Whether all that the factor reads along the loop are vectors. */
static bool reads_vectors(const dt_gpu_chooser *c, const dt_gpu_side *side) {
    bool *marks = DT_NEW_ARRAY(c->arena, bool, c->nest->n_instructions);
    dt_nest_mark(c->nest, marks, side->factor);
    for (int i = 0; i < c->nest->n_instructions; i++) {
        bool differs = marks[i] && (c->depends[i] >> side->vectors.along & 1);
        if (differs && c->nest->instructions[i].kind == DT_INSTRUCTION_LOAD && !side->vectors.loads[i]) return false;
    }
    return true;
}

static void choose_reading(const dt_gpu_chooser *c, dt_gpu_side *side) {
    int last_term = dt_nest_last_loop(c->nest, c->how->reduced), last_result = dt_nest_last_loop(c->nest, side->loops);
    int terms = count_loads_along(c, side->factor, last_term), results = count_loads_along(c, side->factor, last_result);
    side->by_terms = terms > results;
    side->vectors = (dt_gpu_vectors){.width = WIDTH, .along = side->by_terms ? last_term : last_result};
    if (terms + results > 0) dt_gpu_find_vectors(c->arena, c->scope, c->nest, c->how, c->depends, true, &side->vectors);
    if (terms + results == 0 || !reads_vectors(c, side)) side->vectors = (dt_gpu_vectors){.width = 1, .along = -1};
}

/* ---- results ---- */

/* Results of a thread that lie side by side are stored at once, where they do so in memory; what is read for them alike. */
static void choose_storing(const dt_gpu_chooser *c, int width) {
    const dt_nest *nest = c->nest;
    int along = dt_nest_last_loop(nest, c->function->tiles.columns.loops);
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (along < 0 || store->accumulate || store->guard >= 0 || !dt_gpu_chooser_is_vector(c, &store->address, along, width)) return;
    }
    c->how->vectors = (dt_gpu_vectors){.width = width, .along = along};
}

void dt_gpu_choose_tiles(dt_gpu_chooser *c) {
    const dt_gpu_target *target = c->scope->target;
    dt_gpu_tiles *tiles = &c->function->tiles;
    bool by_threads = tiles->precision == DT_PRECISION_F32;
    int down = tiles->rows.results / DT_GPU_PIECE_ROWS, rows, columns;
    tiles->terms = target->tile_terms;
    tiles->padding = tiles->precision == DT_PRECISION_TF32 ? 8 : 4;
    tiles->n_down = by_threads ? 0 : down < MOST_DOWN ? down : MOST_DOWN;
    dt_gpu_tile_grid(target, tiles->n_down, &rows, &columns);
    choose_reading(c, &tiles->rows);
    choose_reading(c, &tiles->columns);
    int own = tiles->columns.results / columns;
    choose_storing(c, by_threads ? (own < WIDTH ? own : WIDTH) : 2);
}
