/* llvm_tile: sums of products in register tiles.
 *
 *     for other outer loops, with the blocks of the vector loop among them as far out as operand b allows
 *         for tiles of the row loop
 *             tile[rows][vectors] = 0
 *             for reduced loops:  tile[r][v] = fma(a of row r, b of vector v, tile[r][v])
 *             late instructions and stores for each row and vector
 *
 * Accumulators are values, never an array: LLVM keeps them in registers through all reduced loops. Rows and vectors are
 * split into equal tiles, without a remainder. Where the number of rows is known at run time only, the remainder is tiles of one row; where that of
 * the vector loop is, tiles of one vector, the last of them masked. A row's products are summed in the same order wherever it stands: its result does
 * not depend on how many others there are. */
#include "compiler/codegen/llvm.h"

#include <assert.h>

enum {
    LATENCY_ACCUMULATORS = 10, /* what hides an fma's latency: 4 cycles, two a cycle, and some room */
    UNROLLED_PRODUCTS = 48,    /* in the body of a loop */
    HEAVY_EPILOGUE = 160       /* late instructions over all of a tile: more than that are a loop over the tile in memory */
};

static uint64_t loop_bit(int loop) { return loop >= 0 ? (uint64_t)1 << loop : 0; }

/* ---- what can be tiled ---- */

static bool is_plain_load(const dt_llvm_nest *n, int i, uint64_t tile) {
    const dt_instruction *load = &n->nest->instructions[i];
    if (load->kind != DT_INSTRUCTION_LOAD || load->guard >= 0) return false;
    for (int t = 0; t < load->address.n_terms; t++) {
        uint64_t depends = n->depends[load->address.terms[t]];
        for (int l = 0; l < n->nest->n_loops; l++)
            if ((depends & loop_bit(l)) && (n->nest->loops[l].reduced || (tile & loop_bit(l)))) return false;
    }
    return true;
}

bool dt_llvm_tile_is_possible(const dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    const dt_tiling *tiling = &nest->tiling;
    if (nest->algorithm == DT_ALGORITHM_LOOPS || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0])) return false;
    int v = tiling->vector_loop, row = tiling->row_loop;
    const int *operands = nest->instructions[nest->reductions[0].operand].operands;
    dt_precision precision;
    const int factors[2] = {dt_factor_unrounded(nest, operands[0], &precision), dt_factor_unrounded(nest, operands[1], &precision)};
    bool in_order = factors[0] == tiling->a && factors[1] == tiling->b, swapped = factors[0] == tiling->b && factors[1] == tiling->a;
    if (!in_order && !swapped) return false;
    if (nest->loops[v].extent == DT_GATHERED || nest->loops[v].reduced || (row >= 0 && nest->loops[row].reduced)) return false;
    if (nest->in_rows && (v == 0 || row == 0)) return false;
    uint64_t tile = loop_bit(v) | loop_bit(row);
    if (!is_plain_load(n, tiling->a, tile) || !is_plain_load(n, tiling->b, tile)) return false;
    const int64_t *a = nest->instructions[tiling->a].address.coefficients, *b = nest->instructions[tiling->b].address.coefficients;
    if (b[v] != 1 || a[v] != 0 || (row >= 0 && b[row] != 0)) return false;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK && (n->depends[i] & tile)) return false;
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].address.coefficients[v] != 1 || nest->stores[s].address.n_terms > 0) return false;
    return true;
}

/* ---- choice of the tile ---- */

/* Iterations of the vector loop, or as many as there can be. */
static int64_t trip_count(const dt_llvm_nest *n) {
    int64_t extent = n->nest->loops[n->nest->tiling.vector_loop].extent;
    return dt_llvm_is_constant_extent(extent) ? extent : n->e->at_work.plan->microbatch_rows;
}

static int64_t most_of(int64_t x, int64_t y) { return x > y ? x : y; }

/* Time of one product of `rows` x `vectors`, in tenths of a multiply-add's: of products, loads, vectors of b that come from the second cache, and
 * latency, whatever takes longest; of equal ones the one with fewer loads. The numbers are measured (AMD Zen 4, every tile that fits the registers):
 * a core loads two registers for two multiply-adds, but not quite where they are of 64 bytes; the second cache delivers one in the time of two;
 * eight sums at a time reach 93 %, twelve 99 %. */
static int64_t tile_cost(const dt_llvm_nest *n, int64_t rows, int64_t vectors) {
    enum {
        SECOND_CACHE = 20,
        LATENCY = 85,
        ENOUGH_SUMS = 12
    };
    int64_t sums = rows * vectors, loads = rows + vectors, a_load = n->e->target->vector_bytes == 64 ? 12 : 10;
    int64_t longest = most_of(most_of(10 * sums, a_load * loads), most_of(SECOND_CACHE * vectors, LATENCY));
    return longest + (sums < ENOUGH_SUMS ? (ENOUGH_SUMS - sums) * 3 / 2 : 0) + loads;
}

/* Of `extent` things dealt into tiles of at most `most`: the total cost is that of two kinds of tiles of nearly equal size. */
static int64_t dealt_cost(const dt_llvm_nest *n, int64_t extent, int64_t most, int64_t vectors, bool at_run_time) {
    int64_t n_tiles = (extent + most - 1) / most, size = extent / n_tiles, larger = extent % n_tiles;
    if (at_run_time) return n_tiles * tile_cost(n, most, vectors);
    int64_t uneven = larger > 0 ? 20 : 0; /* a second kind of tile is more code */
    return larger * tile_cost(n, size + 1, vectors) + (n_tiles - larger) * tile_cost(n, size, vectors) + uneven;
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

static void choose_tile(dt_llvm_nest *n, int64_t n_vectors) {
    int row = n->nest->tiling.row_loop;
    int64_t extent = row >= 0 ? n->nest->loops[row].extent : 1, best = INT64_MAX;
    bool at_run_time = !dt_llvm_is_constant_extent(extent);
    if (at_run_time) extent = n->e->at_work.plan->microbatch_rows;
    for (int64_t vectors = 1; vectors <= n_vectors && vectors <= 8; vectors++)
        for (int64_t rows = 1; rows <= extent && registers_of(rows, vectors) <= n->e->choices->target->registers; rows++) {
            int64_t n_blocks = (n_vectors + vectors - 1) / vectors, size = n_vectors / n_blocks, larger = n_vectors % n_blocks;
            int64_t cost =
                larger * dealt_cost(n, extent, rows, size + 1, at_run_time) + (n_blocks - larger) * dealt_cost(n, extent, rows, size, at_run_time);
            if (cost >= best) continue;
            best = cost;
            n->tile_rows = (int)rows;
            n->tile_vectors = (int)vectors;
        }
}

/* Neighbouring rows that read the same elements of a in turn, as a convolution's taps do: unrolled, LLVM would keep them all in registers. */
static bool rows_overlap(const dt_llvm_nest *n, int rows, int vectors, int loop) {
    const dt_tiling *tiling = &n->nest->tiling;
    const int64_t *a = n->nest->instructions[tiling->a].address.coefficients;
    return tiling->row_loop >= 0 && a[loop] == a[tiling->row_loop] && rows * vectors + vectors + rows > n->e->choices->target->registers;
}

enum {
    SMALL_BYTES = 16 << 10, /* of b: stays in the first cache beside what else the tiles touch */
    LARGE_BYTES = 1 << 20   /* stays in no cache of a core */
};

/* What one row of tiles reads of operand b, with these coefficients; more than any cache holds where that is known at run time only. */
static int64_t bytes_of_b(const dt_llvm_nest *n, const int64_t *b) {
    const dt_nest *nest = n->nest;
    int64_t elements = trip_count(n);
    for (int l = 0; l < nest->n_loops; l++) {
        if (!nest->loops[l].reduced || b[l] == 0) continue;
        if (!dt_llvm_is_constant_extent(nest->loops[l].extent)) return INT64_MAX;
        elements *= nest->loops[l].extent;
    }
    return elements * (int64_t)dt_dtype_bytes(nest->reductions[0].dtype);
}

/* Whether tiles of all iterations of a loop run on a block of b before the next block: the block then stays in cache, where all of b would not. Rows
 * of a microbatch have much else to read, so only a b that comes from memory each time is worth that. */
static bool is_inside_blocks(const dt_llvm_nest *n, int loop) {
    const int64_t *b = n->nest->instructions[n->nest->tiling.b].address.coefficients;
    int64_t bytes = bytes_of_b(n, b);
    if (b[loop] != 0 || bytes <= SMALL_BYTES) return false;
    return dt_llvm_is_constant_extent(n->nest->loops[loop].extent) || bytes > LARGE_BYTES;
}

void dt_llvm_tile_choose(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    const dt_tiling *tiling = &nest->tiling;
    int n_others = 0;
    for (int p = 0; p < n->n_outer; p++)
        if (n->order[p] != tiling->vector_loop && n->order[p] != tiling->row_loop) n->order[n_others++] = n->order[p];
    int at = n_others;
    while (at > 0 && !(nest->in_rows && at == 1) && is_inside_blocks(n, n->order[at - 1])) at--;
    for (int p = n_others; p > at; p--) n->order[p] = n->order[p - 1];
    n->order[at] = tiling->vector_loop;
    if (tiling->row_loop >= 0) n->order[n->n_outer - 1] = tiling->row_loop;
    n->tile_level = n->n_outer - (tiling->row_loop >= 0);

    n->vector_loop = tiling->vector_loop;
    int64_t extent = trip_count(n);
    n->width = n->target_width = n->e->target->vector_bytes / (int)dt_dtype_bytes(nest->reductions[0].dtype);
    while (n->width > 1 && n->width / 2 >= extent) n->width /= 2;
    choose_tile(n, (extent + n->width - 1) / n->width);
    if (n->nest->n_loops > n->n_outer && !rows_overlap(n, n->tile_rows, n->tile_vectors, n->order[n->nest->n_loops - 1]))
        dt_llvm_choose_unrolling(n, (int64_t)n->tile_rows * n->tile_vectors, UNROLLED_PRODUCTS);
    dt_llvm_packing_choose(n);
}

/* ---- the vector loop ---- */

static void one_block(dt_llvm_nest *n, int level, dt_llvm_sum start) {
    if (n->packed_loop >= 0) dt_llvm_packing_fill(n, start);
    dt_llvm_iteration(n, level, start);
}

/* Blocks of `vectors` vectors, starting at elements start, …, below end. */
static void equal_blocks(dt_llvm_nest *n, int level, int64_t start, int64_t end, int vectors) {
    int64_t step = (int64_t)vectors * n->width;
    if (start >= end) return;
    n->block_vectors = vectors;
    if (start + step >= end) {
        one_block(n, level, (dt_llvm_sum){NULL, start});
        return;
    }
    dt_llvm_loop loop = dt_llvm_loop_begin(n->e, dt_llvm_i64(n->e, start), dt_llvm_i64(n->e, end), step, false);
    one_block(n, level, (dt_llvm_sum){loop.index, 0});
    dt_llvm_loop_end(n->e, &loop);
}

/* Blocks of so many vectors from `start` on, as long as they end at `end` or before; returns where the last one ends. */
static LLVMValueRef whole_blocks(dt_llvm_nest *n, int level, LLVMValueRef start, LLVMValueRef end, int vectors) {
    dt_llvm_emitter *e = n->e;
    int64_t step = (int64_t)vectors * n->width;
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, start, "");
    LLVMValueRef whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, left, dt_llvm_i64(e, step), ""), "");
    dt_llvm_loop loop = dt_llvm_loop_begin(e, start, whole, step, true);
    n->block_vectors = vectors;
    one_block(n, level, (dt_llvm_sum){loop.index, 0});
    dt_llvm_loop_end(e, &loop);
    return whole;
}

/* Where the extent is known at run time only. */
static void blocks_at_run_time(dt_llvm_nest *n, int level) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef end = dt_llvm_extent(e, n->nest->loops[n->vector_loop].extent), start = dt_llvm_i64(e, 0);
    n->last_lanes = n->width;
    start = whole_blocks(n, level, start, end, n->tile_vectors);
    if (n->tile_vectors > 1) start = whole_blocks(n, level, start, end, 1);
    dt_llvm_loop rest = dt_llvm_loop_begin(e, start, end, n->width, true);
    n->block_vectors = 1;
    n->last_mask = dt_llvm_prefix_at_run_time(e, LLVMBuildNSWSub(e->builder, end, rest.index, ""), n->width);
    one_block(n, level, (dt_llvm_sum){rest.index, 0});
    n->last_mask = NULL;
    dt_llvm_loop_end(e, &rest);
}

static void all_blocks(dt_llvm_nest *n, int level) {
    int64_t extent = n->nest->loops[n->vector_loop].extent, n_vectors = (extent + n->width - 1) / n->width;
    if (extent == 0) return;
    if (!dt_llvm_is_constant_extent(extent)) {
        blocks_at_run_time(n, level);
        return;
    }
    int64_t n_blocks = (n_vectors + n->tile_vectors - 1) / n->tile_vectors, size = n_vectors / n_blocks, larger = n_vectors % n_blocks;
    int64_t middle = larger * (size + 1) * n->width, end = n_vectors * n->width;
    bool partial = end != extent; /* then the last block is code of its own */
    int64_t whole_end = partial ? end - size * n->width : end;
    n->last_lanes = n->width;
    equal_blocks(n, level, 0, middle, (int)size + 1);
    equal_blocks(n, level, middle, whole_end, (int)size);
    if (!partial) return;
    n->last_lanes = (int)(extent - (n_vectors - 1) * n->width);
    equal_blocks(n, level, whole_end, end, (int)size);
}

void dt_llvm_tile_blocks(dt_llvm_nest *n, int level) {
    if (n->packed_loop >= 0)
        dt_llvm_packing_parts(n, level, all_blocks);
    else
        all_blocks(n, level);
}

/* ---- one tile ---- */

typedef struct tile {
    int rows, vectors;
    int full_rows; /* of the tiles that this one is like in the order of its sums: rows, but for a rest */
    int parts;     /* sums of every parts-th product, where rows x vectors alone would wait for the adder */
} tile;

static LLVMValueRef *accumulator(dt_llvm_nest *n, const tile *t, int part, int r, int v) {
    return &n->e->carried[(part * t->rows + r) * t->vectors + v];
}

LLVMValueRef dt_llvm_load_factor(dt_llvm_nest *n, int load, dt_llvm_sum offset, int width) {
    const int *factors = n->nest->instructions[n->nest->reductions[0].operand].operands;
    LLVMValueRef value = dt_llvm_load_plain(n, load, offset, width);
    for (int k = 0; k < 2; k++) {
        dt_precision precision;
        if (dt_factor_unrounded(n->nest, factors[k], &precision) == load && precision != DT_PRECISION_F32)
            return dt_llvm_round(n->e, value, precision);
    }
    return value;
}

/* One product: all rows of a times all vectors of b. */
static void product(dt_llvm_nest *n, const tile *t, int part) {
    dt_llvm_emitter *e = n->e;
    const dt_tiling *tiling = &n->nest->tiling;
    int64_t step = tiling->row_loop >= 0 ? n->nest->instructions[tiling->a].address.coefficients[tiling->row_loop] : 0;
    LLVMValueRef b[8];
    for (int v = 0; v < t->vectors; v++)
        b[v] = n->packed_loop >= 0 ? dt_llvm_packing_load(n, v)
                                   : dt_llvm_load_factor(n, tiling->b, (dt_llvm_sum){NULL, (int64_t)v * n->width}, n->width);
    for (int r = 0; r < t->rows; r++) {
        dt_llvm_sum row = {NULL, r * step};
        LLVMValueRef a = dt_llvm_splat(e, n->rows_are_copied ? dt_llvm_packing_load_row(n, r) : dt_llvm_load_factor(n, tiling->a, row, 1), n->width);
        for (int v = 0; v < t->vectors; v++) {
            LLVMValueRef *sum = accumulator(n, t, part, r, v);
            *sum = dt_llvm_fused(e, a, b[v], *sum);
        }
    }
}

static void reduced_loops(dt_llvm_nest *n, const tile *t, int level);

static void reduced_iteration(dt_llvm_nest *n, const tile *t, int level, dt_llvm_sum index) {
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_enter(n, n->order[level], index);
    if (level + 1 == n->nest->n_loops)
        product(n, t, (int)(index.constant % t->parts));
    else
        reduced_loops(n, t, level + 1);
    dt_llvm_restore_addresses(n, saved);
}

/* How many iterations of the innermost loop are one: a number that divides its extent, where there is one. */
static int64_t innermost_step(const dt_llvm_nest *n, const tile *t, int loop) {
    int64_t most = UNROLLED_PRODUCTS / (t->full_rows * t->vectors), extent = loop == n->packed_loop ? n->depth : n->nest->loops[loop].extent;
    most = most > 8 ? 8 : most;
    if (most < 2 || rows_overlap(n, t->full_rows, t->vectors, loop)) return 1;
    if (!dt_llvm_is_constant_extent(extent)) return 4 < most ? 4 : most;
    for (int64_t step = most; step > 1; step--)
        if (extent % step == 0 && step % t->parts == 0) return step;
    return 4 < most ? 4 : most;
}

static void innermost_loop(dt_llvm_nest *n, const tile *t, int level) {
    dt_llvm_emitter *e = n->e;
    int loop_index = n->order[level];
    bool in_parts = loop_index == n->packed_loop;
    int64_t extent = in_parts ? n->depth : n->nest->loops[loop_index].extent, step = innermost_step(n, t, loop_index);
    bool at_run_time = in_parts ? n->depth_here != NULL : !dt_llvm_is_constant_extent(extent);
    LLVMValueRef end = in_parts ? dt_llvm_packing_extent(n) : dt_llvm_extent(e, extent), whole = end;
    if (step > 1) whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, end, dt_llvm_i64(e, step), ""), "");
    dt_llvm_loop loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), whole, step, at_run_time || extent < step);
    for (int64_t u = 0; u < step; u++) reduced_iteration(n, t, level, (dt_llvm_sum){loop.index, u});
    dt_llvm_loop_end(e, &loop);
    if (step == 1) return;
    if (at_run_time) {
        loop = dt_llvm_loop_begin(e, whole, end, 1, true);
        reduced_iteration(n, t, level, (dt_llvm_sum){loop.index, 0});
        dt_llvm_loop_end(e, &loop);
    }
    for (int64_t i = extent - extent % step; !at_run_time && i < extent; i++) reduced_iteration(n, t, level, (dt_llvm_sum){NULL, i});
}

static void reduced_loops(dt_llvm_nest *n, const tile *t, int level) {
    dt_llvm_emitter *e = n->e;
    int64_t extent = n->nest->loops[n->order[level]].extent;
    if (n->unrolled[n->order[level]]) {
        for (int64_t i = 0; i < extent; i++) reduced_iteration(n, t, level, (dt_llvm_sum){NULL, i});
    } else if (level + 1 == n->nest->n_loops) {
        innermost_loop(n, t, level);
    } else {
        dt_llvm_loop loop =
            dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_extent(e, extent), 1, !dt_llvm_is_constant_extent(extent) || extent == 0);
        reduced_iteration(n, t, level, (dt_llvm_sum){loop.index, 0});
        dt_llvm_loop_end(e, &loop);
    }
}

/* ---- what becomes of the sums ---- */

/* Moves the current index of a loop, from 0 of the tile, by `by`. */
static void shift(dt_llvm_nest *n, int loop, dt_llvm_sum by) {
    dt_llvm_sum before = n->loops[loop];
    dt_llvm_enter(n, loop, by);
    n->loops[loop] = (dt_llvm_sum){before.variable, before.constant + by.constant};
    if (by.variable != NULL)
        n->loops[loop].variable = before.variable != NULL ? LLVMBuildNSWAdd(n->e->builder, before.variable, by.variable, "") : by.variable;
}

/* Emits the late instructions that depend on the row loop, or those that do not. */
static void emit_late(dt_llvm_nest *n, bool of_row) {
    uint64_t row = loop_bit(n->nest->tiling.row_loop);
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (!n->needed[i] || !n->late[i] || ((n->depends[i] & row) != 0) != of_row) continue;
        if (n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) dt_llvm_emit(n, i);
    }
}

static void set_reduced(dt_llvm_nest *n, LLVMValueRef sum) {
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = sum;
}

/* The lanes in use of a vector of the block at work: `is_last` of it, or another one. */
static void set_lanes(dt_llvm_nest *n, bool is_last) {
    n->lanes = is_last ? n->last_lanes : n->width;
    n->mask = is_last ? n->last_mask : NULL;
    if (n->lanes != n->width) n->mask = dt_llvm_prefix(n->e, n->lanes, n->width);
}

/* Row r of the tile, for the vector whose late instructions without row are emitted. */
static void finish_row(dt_llvm_nest *n, dt_llvm_sum r, LLVMValueRef sum) {
    int row_loop = n->nest->tiling.row_loop;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_sum index = row_loop >= 0 ? n->loops[row_loop] : (dt_llvm_sum){NULL, 0};
    if (row_loop >= 0) shift(n, row_loop, r);
    set_reduced(n, sum);
    emit_late(n, true);
    for (int s = 0; s < n->nest->n_stores; s++) dt_llvm_store(n, s);
    if (row_loop >= 0) n->loops[row_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

static void finish_in_registers(dt_llvm_nest *n, const tile *t) {
    for (int v = 0; v < t->vectors; v++) {
        dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->vector_loop];
        shift(n, n->vector_loop, (dt_llvm_sum){NULL, (int64_t)v * n->width});
        set_lanes(n, v == t->vectors - 1);
        set_reduced(n, *accumulator(n, t, 0, 0, v)); /* without row loop */
        emit_late(n, false);
        for (int r = 0; r < t->rows; r++) finish_row(n, (dt_llvm_sum){NULL, r}, *accumulator(n, t, 0, r, v));
        n->loops[n->vector_loop] = index;
        dt_llvm_restore_addresses(n, saved);
    }
}

LLVMValueRef dt_llvm_stack(dt_llvm_emitter *e, LLVMTypeRef type, int n_items, int alignment) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder), entry = LLVMGetEntryBasicBlock(e->function);
    LLVMPositionBuilderBefore(e->builder, LLVMGetFirstInstruction(entry));
    LLVMValueRef memory = LLVMBuildArrayAlloca(e->builder, type, dt_llvm_i64(e, n_items), "tile");
    LLVMSetAlignment(memory, (unsigned)alignment);
    LLVMPositionBuilderAtEnd(e->builder, here);
    return memory;
}

/* Vectors first, first + 1, … below last of the tile that lies at `memory`, row after row. */
static void finish_columns(dt_llvm_nest *n, const tile *t, LLVMValueRef memory, int first, int last, bool are_last) {
    dt_llvm_emitter *e = n->e;
    if (first >= last) return;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->vector_loop];
    set_lanes(n, are_last);
    dt_llvm_loop v = dt_llvm_loop_begin(e, dt_llvm_i64(e, first), dt_llvm_i64(e, last), 1, false);
    shift(n, n->vector_loop, (dt_llvm_sum){LLVMBuildNSWMul(e->builder, v.index, dt_llvm_i64(e, n->width), ""), 0});
    bool has_rows = n->nest->tiling.row_loop >= 0;
    if (has_rows) emit_late(n, false);
    dt_llvm_loop r = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, t->rows), 1, false);
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, n->nest->reductions[0].dtype), n->width);
    LLVMValueRef at = LLVMBuildNSWAdd(e->builder, LLVMBuildNSWMul(e->builder, r.index, dt_llvm_i64(e, t->vectors), ""), v.index, "");
    LLVMValueRef sum = LLVMBuildLoad2(e->builder, type, LLVMBuildInBoundsGEP2(e->builder, type, memory, &at, 1, ""), "");
    if (!has_rows) {
        set_reduced(n, sum);
        emit_late(n, false);
    }
    finish_row(n, (dt_llvm_sum){r.index, 0}, sum);
    dt_llvm_loop_end(e, &r);
    dt_llvm_loop_end(e, &v);
    n->loops[n->vector_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

static void finish_in_memory(dt_llvm_nest *n, const tile *t) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, n->nest->reductions[0].dtype), n->width);
    LLVMValueRef memory = dt_llvm_stack(e, type, t->rows * t->vectors, e->target->vector_bytes);
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++) {
            LLVMValueRef at = dt_llvm_i64(e, r * t->vectors + v);
            LLVMBuildStore(e->builder, *accumulator(n, t, 0, r, v), LLVMBuildInBoundsGEP2(e->builder, type, memory, &at, 1, ""));
        }
    e->n_carried = 0;
    bool partial = n->last_lanes != n->width || n->last_mask != NULL;
    finish_columns(n, t, memory, 0, t->vectors - partial, false);
    if (partial) finish_columns(n, t, memory, t->vectors - 1, t->vectors, true);
}

static bool is_heavy(const dt_llvm_nest *n, const tile *t) {
    int n_late = 0;
    for (int i = 0; i < n->nest->n_instructions; i++) n_late += n->needed[i] && n->late[i];
    return n_late * t->rows * t->vectors > HEAVY_EPILOGUE;
}

/* What the tile will be added to comes into cache while its products run; so does what rows that lie pages apart will be stored over, which the
 * processor does not foresee. */
static void prefetch_result(dt_llvm_nest *n, const tile *t) {
    enum {
        PAGE_BYTES = 4096
    };
    int row_loop = n->nest->tiling.row_loop, element = n->e->target->vector_bytes / n->target_width, line = 64 / element;
    for (int s = 0; s < n->nest->n_stores; s++) {
        const dt_store *store = &n->nest->stores[s];
        bool apart = row_loop >= 0 && store->address.coefficients[row_loop] * element >= PAGE_BYTES;
        if (!(store->accumulate || apart) || n->width < n->target_width) continue;
        for (int r = 0; r < t->rows; r++)
            for (int64_t at = 0; at < (int64_t)t->vectors * n->width; at += line)
                dt_llvm_prefetch(n, s, at + (row_loop >= 0 ? r * store->address.coefficients[row_loop] : 0));
    }
}

/* Begins with the sums that the parts before left in the result; in the first part with 0, whatever stands there. */
static void go_on(dt_llvm_nest *n, const tile *t) {
    int row_loop = n->nest->tiling.row_loop;
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++) {
            int64_t offset = (int64_t)v * n->width + (row_loop >= 0 ? r * n->nest->stores[0].address.coefficients[row_loop] : 0);
            LLVMValueRef *sum = accumulator(n, t, 0, r, v);
            *sum = LLVMBuildSelect(n->e->builder, n->is_first, *sum, dt_llvm_load_stored(n, 0, offset, n->width), "");
        }
}

/* The tile whose first row is `first`; the row loop has been entered there. */
static void one_tile(dt_llvm_nest *n, tile *t) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, n->nest->reductions[0].dtype), n->width);
    t->vectors = n->block_vectors;
    int sums = t->rows * t->vectors, full_sums = t->full_rows * t->vectors;
    t->parts = full_sums > LATENCY_ACCUMULATORS / 2 ? 1 : full_sums > LATENCY_ACCUMULATORS / 4 ? 2 : 4;
    e->n_carried = sums * t->parts;
    e->carried = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->n_carried);
    for (int k = 0; k < e->n_carried; k++) e->carried[k] = LLVMConstNull(type);
    if (n->is_first != NULL && !n->nest->stores[0].accumulate) go_on(n, t);
    prefetch_result(n, t);
    reduced_loops(n, t, n->n_outer);
    for (int half = t->parts / 2; half >= 1; half /= 2)
        for (int k = 0; k < sums * half; k++) e->carried[k] = LLVMBuildFAdd(e->builder, e->carried[k], e->carried[k + sums * half], "");
    e->n_carried = 0;
    if (is_heavy(n, t))
        finish_in_memory(n, t);
    else
        finish_in_registers(n, t);
    set_lanes(n, false);
}

/* ---- the row loop ---- */

/* Tiles of `rows` rows at start, start + rows, … below end. */
static void equal_tiles(dt_llvm_nest *n, int64_t start, int64_t end, int rows) {
    dt_llvm_emitter *e = n->e;
    tile t = {.rows = rows, .full_rows = rows};
    if (start >= end) return;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    bool once = start + rows >= end;
    dt_llvm_loop loop;
    if (!once) loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, start), dt_llvm_i64(e, end), rows, false);
    dt_llvm_enter(n, n->nest->tiling.row_loop, once ? (dt_llvm_sum){NULL, start} : (dt_llvm_sum){loop.index, 0});
    one_tile(n, &t);
    if (!once) dt_llvm_loop_end(e, &loop);
    dt_llvm_restore_addresses(n, saved);
}

/* Tiles at start, start + rows, … below an end known at run time; returns where the last one ends. */
static LLVMValueRef tiles_at_run_time(dt_llvm_nest *n, LLVMValueRef start, LLVMValueRef end, tile *t) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, start, "");
    LLVMValueRef whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, left, dt_llvm_i64(e, t->rows), ""), "");
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_loop loop = dt_llvm_loop_begin(e, start, whole, t->rows, true);
    dt_llvm_enter(n, n->nest->tiling.row_loop, (dt_llvm_sum){loop.index, 0});
    one_tile(n, t);
    dt_llvm_loop_end(e, &loop);
    dt_llvm_restore_addresses(n, saved);
    return whole;
}

void dt_llvm_tile_rows(dt_llvm_nest *n) {
    int row_loop = n->nest->tiling.row_loop;
    int64_t extent = row_loop < 0 ? 1 : n->rows_here > 0 ? n->rows_here : n->nest->loops[row_loop].extent;
    if (row_loop < 0) {
        dt_llvm_sum *saved = dt_llvm_save_addresses(n);
        one_tile(n, &(tile){.rows = 1, .full_rows = 1});
        dt_llvm_restore_addresses(n, saved);
    } else if (!dt_llvm_is_constant_extent(extent)) {
        LLVMValueRef end = n->last_rows != NULL ? n->last_rows : dt_llvm_extent(n->e, extent), start = dt_llvm_i64(n->e, 0);
        start = tiles_at_run_time(n, start, end, &(tile){.rows = n->tile_rows, .full_rows = n->tile_rows});
        if (n->tile_rows > 1) tiles_at_run_time(n, start, end, &(tile){.rows = 1, .full_rows = n->tile_rows});
    } else if (extent > 0) {
        int64_t n_tiles = (extent + n->tile_rows - 1) / n->tile_rows, size = extent / n_tiles, larger = extent % n_tiles;
        equal_tiles(n, 0, larger * (size + 1), (int)size + 1);
        equal_tiles(n, larger * (size + 1), extent, (int)size);
    }
}
