/* choose_tiles: the register tiles of sums of products: rows x vectors, the order of the loops around them, and how their sums run.
 *
 *     for other outer loops, with the blocks of the vector loop among them as far out as operand b allows
 *         for tiles of the row loop
 *             for reduced loops: a product for each row and vector
 *
 * A tile is chosen by what a product of it costs on the target, so that its sums and operands fit the registers. Small tiles have too few sums to
 * hide the latency of a multiply-add: they keep several partial ones of each, chains. That depends on the size of the tile alone, so a row's products
 * are summed in the same order wherever it stands. */
#include "compiler/passes/choose.h"

enum {
    UNROLLED_PRODUCTS = 32, /* in the body of a loop */
    UNROLLED_ITERATIONS = 8,
    HEAVY_EPILOGUE = 160 /* late instructions over all of a tile: more than that are a loop over the tile in memory */
};

/* ---- rows x vectors ---- */

static int64_t most_of(int64_t x, int64_t y) { return x > y ? x : y; }

/* Time of one product of `rows` x `vectors`, in tenths of a multiply-add's: of products, loads, vectors of b that come from the second cache, and
 * latency, whatever takes longest; of equal ones the one with fewer loads. */
static int64_t tile_cost(const dt_cpu_target *target, int64_t rows, int64_t vectors) {
    int64_t sums = rows * vectors, loads = rows + vectors;
    int64_t longest = most_of(most_of(10 * sums, target->load_cost * loads), most_of(target->second_cache_cost * vectors, target->latency_cost));
    return longest + (sums < target->enough_sums ? (target->enough_sums - sums) * 3 / 2 : 0) + loads;
}

/* Of `extent` rows dealt into tiles of at most `most`: the total cost is that of two kinds of tiles of nearly equal size. */
static int64_t dealt_cost(const dt_cpu_target *target, int64_t extent, int64_t most, int64_t vectors, bool at_run_time) {
    dt_parts tiles = dt_deal(extent, most);
    if (at_run_time) return tiles.n * tile_cost(target, most, vectors);
    int64_t uneven = tiles.n_larger > 0 ? 20 : 0; /* a second kind of tile is more code */
    return tiles.n_larger * tile_cost(target, tiles.size + 1, vectors) + (tiles.n - tiles.n_larger) * tile_cost(target, tiles.size, vectors) + uneven;
}

/* Sums, vectors of b, one element of a; one to spare where that element is used once only: LLVM then writes the sum over it. Where there are many of
 * both, LLVM loads the next product's vectors early, and would keep sums in memory for that: three more. */
static int64_t registers_of(int64_t rows, int64_t vectors) {
    enum {
        MANY_ROWS = 4,
        MANY_VECTORS = 5
    };
    return rows * vectors + vectors + 1 + (vectors == 1) + (rows >= MANY_ROWS && vectors >= MANY_VECTORS ? 3 : 0);
}

static void choose_size(dt_chooser *c, int64_t n_vectors) {
    int row = c->nest->tiling.row_loop;
    int64_t extent = row >= 0 ? dt_chooser_extent(c, row) : 1, best = INT64_MAX;
    bool at_run_time = row >= 0 && !dt_chooser_is_constant(c, row);
    for (int64_t vectors = 1; vectors <= n_vectors && vectors <= DT_MOST_TILE_VECTORS; vectors++)
        for (int64_t rows = 1; rows <= extent && registers_of(rows, vectors) <= c->target->registers; rows++) {
            dt_parts blocks = dt_deal(n_vectors, vectors);
            int64_t cost = blocks.n_larger * dealt_cost(c->target, extent, rows, blocks.size + 1, at_run_time) +
                           (blocks.n - blocks.n_larger) * dealt_cost(c->target, extent, rows, blocks.size, at_run_time);
            if (cost >= best) continue;
            best = cost;
            c->choices->tile_rows = (int)rows;
            c->choices->tile_vectors = (int)vectors;
        }
}

/* ---- order ---- */

/* What one row of tiles reads of operand b; more than any cache holds where that is known at run time only. */
static int64_t bytes_of_b(const dt_chooser *c) {
    const dt_nest *nest = c->nest;
    const int64_t *b = nest->instructions[nest->tiling.b].address.coefficients;
    int64_t elements = dt_chooser_extent(c, nest->tiling.vector_loop);
    for (int l = 0; l < nest->n_loops; l++) {
        if (!nest->loops[l].reduced || b[l] == 0) continue;
        if (!dt_chooser_is_constant(c, l)) return INT64_MAX;
        elements *= nest->loops[l].extent;
    }
    return elements * (int64_t)dt_dtype_bytes(nest->reductions[0].dtype);
}

/* Whether tiles of all iterations of a loop run on a block of b before the next block: the block then stays in cache, beside what else the tiles
 * touch, where all of b would not. Rows of a microbatch have much else to read, so only a b that comes from memory each time is worth that. */
static bool is_inside_blocks(const dt_chooser *c, int loop) {
    int64_t bytes = bytes_of_b(c);
    if (c->nest->instructions[c->nest->tiling.b].address.coefficients[loop] != 0 || bytes <= c->target->first_cache_bytes / 2) return false;
    return dt_chooser_is_constant(c, loop) || bytes > c->target->second_cache_bytes;
}

static void order_loops(dt_chooser *c) {
    const dt_tiling *tiling = &c->nest->tiling;
    int n_others = 0, *order = c->choices->order;
    for (int p = 0; p < c->n_outer; p++)
        if (order[p] != tiling->vector_loop && order[p] != tiling->row_loop) order[n_others++] = order[p];
    int at = n_others;
    while (at > c->n_shared && is_inside_blocks(c, order[at - 1])) at--;
    for (int p = n_others; p > at; p--) order[p] = order[p - 1];
    order[at] = tiling->vector_loop;
    if (tiling->row_loop >= 0) order[c->n_outer - 1] = tiling->row_loop;
}

/* ---- how its sums run ---- */

/* Neighbouring rows that read the same elements of a in turn, as a convolution's taps do: unrolled, LLVM would keep them all in registers. */
static bool rows_overlap(const dt_chooser *c, int rows, int vectors, int loop) {
    const dt_tiling *tiling = &c->nest->tiling;
    const int64_t *a = c->nest->instructions[tiling->a].address.coefficients;
    return tiling->row_loop >= 0 && a[loop] == a[tiling->row_loop] && rows * vectors + vectors + rows > c->target->registers;
}

/* Partial sums of each element, where these alone would wait for the adder. */
static int chains(const dt_cpu_target *target, int sums) { return sums > target->latency_sums / 2 ? 1 : sums > target->latency_sums / 4 ? 2 : 4; }

/* How many iterations of the innermost loop are one: a number that divides its extent, where there is one. */
static int unroll(const dt_chooser *c, const dt_tile *tile) {
    int loop = c->choices->order[c->nest->n_loops - 1];
    int most = UNROLLED_PRODUCTS / (tile->rows * tile->vectors);
    int64_t extent = loop == c->choices->packed_loop ? c->choices->depth : c->nest->loops[loop].extent;
    most = most > UNROLLED_ITERATIONS ? UNROLLED_ITERATIONS : most;
    if (c->choices->unrolled[loop] || most < 2 || rows_overlap(c, tile->rows, tile->vectors, loop)) return 1;
    for (int step = most; step > 1 && !dt_dim_is_symbol(extent); step--)
        if (extent % step == 0 && step % tile->chains == 0) return step;
    return 4 < most ? 4 : most;
}

/* Instructions that come after the sums. What other nests store between rows is outside of the tiles' loops, and makes no difference. */
static int count_late(const dt_chooser *c) {
    const dt_nest *nest = c->nest;
    int *of_loop = DT_NEW_ARRAY(c->arena, int, nest->n_loops), *least = DT_NEW_ARRAY(c->arena, int, nest->n_instructions), n = 0;
    int *levels = DT_NEW_ARRAY(c->arena, int, nest->n_instructions);
    bool *late = DT_NEW_ARRAY(c->arena, bool, nest->n_instructions);
    for (int p = 0; p < nest->n_loops; p++) of_loop[c->choices->order[p]] = p + 1;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && dt_nest_stores_into(c->plan, c->kernel, nest, nest->instructions[i].address.buffer))
            least[i] = c->n_outer;
    dt_nest_place(c->arena, nest, c->depends, &(dt_depths){of_loop, c->n_outer, least, dt_nest_tile_loops(nest)}, levels, late);
    for (int i = 0; i < nest->n_instructions; i++) n += c->needed[i] && late[i];
    return n;
}

/* Tiles of `rows` rows whose sums run as those of `like` rows do. */
static void add_tile(dt_chooser *c, int rows, int like, int vectors, int n_late) {
    dt_tile tile = {.rows = like, .vectors = vectors, .chains = chains(c->target, like * vectors), .unroll = 1};
    if (c->nest->n_loops > c->n_outer) tile.unroll = unroll(c, &tile);
    tile.rows = rows;
    tile.in_memory = n_late * rows * vectors > HEAVY_EPILOGUE;
    c->choices->tiles[c->choices->n_tiles++] = tile;
}

void dt_choose_tile_sums(dt_chooser *c) {
    dt_nest_choices *choices = c->choices;
    if (choices->tile_rows == 0) return; /* there are no results */
    dt_tile_sizes rows = dt_row_sizes(c->nest, choices), vectors = dt_vector_sizes(c->nest, choices);
    int row = c->nest->tiling.row_loop, n_late = count_late(c);
    bool at_run_time = row >= 0 && !dt_chooser_is_constant(c, row);
    for (int v = 0; v < vectors.n; v++)
        for (int r = 0; r < rows.n; r++) add_tile(c, rows.items[r], at_run_time ? choices->tile_rows : rows.items[r], vectors.items[v], n_late);
}

void dt_choose_tile(dt_chooser *c) {
    const dt_nest *nest = c->nest;
    dt_nest_choices *choices = c->choices;
    int64_t extent = dt_chooser_extent(c, nest->tiling.vector_loop);
    choices->tiled = true;
    choices->vector_loop = nest->tiling.vector_loop;
    c->register_width = choices->width = c->target->vector_bytes / (int)dt_dtype_bytes(nest->reductions[0].dtype);
    while (choices->width > 1 && choices->width / 2 >= extent) choices->width /= 2;
    order_loops(c);
    choose_size(c, (extent + choices->width - 1) / choices->width);
    if (nest->n_loops > c->n_outer && !rows_overlap(c, choices->tile_rows, choices->tile_vectors, choices->order[nest->n_loops - 1]))
        dt_choose_reduced_unrolling(c, (int64_t)choices->tile_rows * choices->tile_vectors, UNROLLED_PRODUCTS);
}
