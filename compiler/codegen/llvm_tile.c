/* llvm_tile: sums of products in register tiles.
 *
 *     for other outer loops, with the blocks of the vector loop among them
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

/* ---- the vector loop ---- */

static void one_block(dt_llvm_nest *n, int level, dt_llvm_sum start) {
    if (n->choices->packed_loop >= 0) dt_llvm_packing_fill(n, start);
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
    LLVMValueRef end = dt_llvm_extent(e, n->nest->loops[n->choices->vector_loop].extent), start = dt_llvm_i64(e, 0);
    n->last_lanes = n->width;
    start = whole_blocks(n, level, start, end, n->choices->tile_vectors);
    if (n->choices->tile_vectors > 1) start = whole_blocks(n, level, start, end, 1);
    dt_llvm_loop rest = dt_llvm_loop_begin(e, start, end, n->width, true);
    n->block_vectors = 1;
    n->last_mask = dt_llvm_prefix_at_run_time(e, LLVMBuildNSWSub(e->builder, end, rest.index, ""), n->width);
    one_block(n, level, (dt_llvm_sum){rest.index, 0});
    n->last_mask = NULL;
    dt_llvm_loop_end(e, &rest);
}

static void all_blocks(dt_llvm_nest *n, int level) {
    int64_t extent = n->nest->loops[n->choices->vector_loop].extent, n_vectors = (extent + n->width - 1) / n->width;
    if (extent == 0) return;
    if (!dt_llvm_is_constant_extent(extent)) {
        blocks_at_run_time(n, level);
        return;
    }
    dt_parts blocks = dt_deal(n_vectors, n->choices->tile_vectors);
    int64_t middle = blocks.n_larger * (blocks.size + 1) * n->width, end = n_vectors * n->width;
    bool partial = end != extent; /* then the last block is code of its own */
    int64_t whole_end = partial ? end - blocks.size * n->width : end;
    n->last_lanes = n->width;
    equal_blocks(n, level, 0, middle, (int)blocks.size + 1);
    equal_blocks(n, level, middle, whole_end, (int)blocks.size);
    if (!partial) return;
    n->last_lanes = (int)(extent - (n_vectors - 1) * n->width);
    equal_blocks(n, level, whole_end, end, (int)blocks.size);
}

void dt_llvm_tile_blocks(dt_llvm_nest *n, int level) {
    if (n->choices->packed_loop >= 0)
        dt_llvm_packing_parts(n, level, all_blocks);
    else
        all_blocks(n, level);
}

/* ---- one tile ---- */

static LLVMValueRef *accumulator(dt_llvm_nest *n, const dt_tile *t, int chain, int r, int v) {
    return &n->e->carried[(chain * t->rows + r) * t->vectors + v];
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
static void product(dt_llvm_nest *n, const dt_tile *t, int chain) {
    dt_llvm_emitter *e = n->e;
    const dt_tiling *tiling = &n->nest->tiling;
    int64_t step = tiling->row_loop >= 0 ? n->nest->instructions[tiling->a].address.coefficients[tiling->row_loop] : 0;
    LLVMValueRef b[DT_MOST_TILE_VECTORS];
    for (int v = 0; v < t->vectors; v++)
        b[v] = n->choices->packed_loop >= 0 ? dt_llvm_packing_load(n, v)
                                            : dt_llvm_load_factor(n, tiling->b, (dt_llvm_sum){NULL, (int64_t)v * n->width}, n->width);
    for (int r = 0; r < t->rows; r++) {
        dt_llvm_sum row = {NULL, r * step};
        LLVMValueRef a = dt_llvm_splat(e, n->rows_are_copied ? dt_llvm_packing_load_row(n, r) : dt_llvm_load_factor(n, tiling->a, row, 1), n->width);
        for (int v = 0; v < t->vectors; v++) {
            LLVMValueRef *sum = accumulator(n, t, chain, r, v);
            *sum = dt_llvm_fused(e, a, b[v], *sum);
        }
    }
}

static void reduced_loops(dt_llvm_nest *n, const dt_tile *t, int level);

static void reduced_iteration(dt_llvm_nest *n, const dt_tile *t, int level, dt_llvm_sum index) {
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_enter(n, n->choices->order[level], index);
    if (level + 1 == n->nest->n_loops)
        product(n, t, (int)(index.constant % t->chains));
    else
        reduced_loops(n, t, level + 1);
    dt_llvm_restore_addresses(n, saved);
}

static void innermost_loop(dt_llvm_nest *n, const dt_tile *t, int level) {
    dt_llvm_emitter *e = n->e;
    int loop_index = n->choices->order[level];
    bool in_parts = loop_index == n->choices->packed_loop;
    int64_t extent = in_parts ? n->choices->depth : n->nest->loops[loop_index].extent, step = t->unroll;
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

static void reduced_loops(dt_llvm_nest *n, const dt_tile *t, int level) {
    dt_llvm_emitter *e = n->e;
    int64_t extent = n->nest->loops[n->choices->order[level]].extent;
    if (n->choices->unrolled[n->choices->order[level]]) {
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
    int row_loop = n->nest->tiling.row_loop;
    uint64_t row = row_loop >= 0 ? (uint64_t)1 << row_loop : 0;
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

static void finish_in_registers(dt_llvm_nest *n, const dt_tile *t) {
    for (int v = 0; v < t->vectors; v++) {
        dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->choices->vector_loop];
        shift(n, n->choices->vector_loop, (dt_llvm_sum){NULL, (int64_t)v * n->width});
        set_lanes(n, v == t->vectors - 1);
        set_reduced(n, *accumulator(n, t, 0, 0, v)); /* without row loop */
        emit_late(n, false);
        for (int r = 0; r < t->rows; r++) finish_row(n, (dt_llvm_sum){NULL, r}, *accumulator(n, t, 0, r, v));
        n->loops[n->choices->vector_loop] = index;
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
static void finish_columns(dt_llvm_nest *n, const dt_tile *t, LLVMValueRef memory, int first, int last, bool are_last) {
    dt_llvm_emitter *e = n->e;
    if (first >= last) return;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->choices->vector_loop];
    set_lanes(n, are_last);
    dt_llvm_loop v = dt_llvm_loop_begin(e, dt_llvm_i64(e, first), dt_llvm_i64(e, last), 1, false);
    shift(n, n->choices->vector_loop, (dt_llvm_sum){LLVMBuildNSWMul(e->builder, v.index, dt_llvm_i64(e, n->width), ""), 0});
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
    n->loops[n->choices->vector_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

static void finish_in_memory(dt_llvm_nest *n, const dt_tile *t) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, n->nest->reductions[0].dtype), n->width);
    LLVMValueRef memory = dt_llvm_stack(e, type, t->rows * t->vectors, e->choices->target->vector_bytes);
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

/* What the tile will be added to, or stored over, comes into cache while its products run. */
static void prefetch_result(dt_llvm_nest *n, const dt_tile *t) {
    int row_loop = n->nest->tiling.row_loop;
    int64_t line = n->e->choices->target->line_bytes / (int64_t)dt_dtype_bytes(n->nest->reductions[0].dtype);
    for (int s = 0; s < n->nest->n_stores; s++) {
        if (n->choices->stores[s] != DT_STORE_PREFETCHED) continue;
        for (int r = 0; r < t->rows; r++)
            for (int64_t at = 0; at < (int64_t)t->vectors * n->width; at += line)
                dt_llvm_prefetch(n, s, at + (row_loop >= 0 ? r * n->nest->stores[s].address.coefficients[row_loop] : 0));
    }
}

/* Begins with the sums that the parts before left in the result; in the first part with 0, whatever stands there. */
static void go_on(dt_llvm_nest *n, const dt_tile *t) {
    int row_loop = n->nest->tiling.row_loop;
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++) {
            int64_t offset = (int64_t)v * n->width + (row_loop >= 0 ? r * n->nest->stores[0].address.coefficients[row_loop] : 0);
            LLVMValueRef *sum = accumulator(n, t, 0, r, v);
            *sum = LLVMBuildSelect(n->e->builder, n->is_first, *sum, dt_llvm_load_stored(n, 0, offset, n->width), "");
        }
}

/* A tile of so many rows, the first of which has been entered in the row loop. */
static void one_tile(dt_llvm_nest *n, int rows) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, n->nest->reductions[0].dtype), n->width);
    const dt_tile *t = dt_tile_find(n->choices, rows, n->block_vectors);
    int sums = t->rows * t->vectors;
    e->n_carried = sums * t->chains;
    e->carried = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->n_carried);
    for (int k = 0; k < e->n_carried; k++) e->carried[k] = LLVMConstNull(type);
    if (n->is_first != NULL && !n->nest->stores[0].accumulate) go_on(n, t);
    prefetch_result(n, t);
    if (n->choices->skips_zeros)
        dt_llvm_sum_list(n, t);
    else
        reduced_loops(n, t, n->n_outer);
    for (int half = t->chains / 2; half >= 1; half /= 2)
        for (int k = 0; k < sums * half; k++) e->carried[k] = LLVMBuildFAdd(e->builder, e->carried[k], e->carried[k + sums * half], "");
    e->n_carried = 0;
    if (t->in_memory)
        finish_in_memory(n, t);
    else
        finish_in_registers(n, t);
    set_lanes(n, false);
}

/* ---- the row loop ---- */

/* Tiles of `rows` rows at start, start + rows, … below end. */
static void equal_tiles(dt_llvm_nest *n, int64_t start, int64_t end, int rows) {
    dt_llvm_emitter *e = n->e;
    if (start >= end) return;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    bool once = start + rows >= end;
    dt_llvm_loop loop;
    if (!once) loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, start), dt_llvm_i64(e, end), rows, false);
    dt_llvm_enter(n, n->nest->tiling.row_loop, once ? (dt_llvm_sum){NULL, start} : (dt_llvm_sum){loop.index, 0});
    one_tile(n, rows);
    if (!once) dt_llvm_loop_end(e, &loop);
    dt_llvm_restore_addresses(n, saved);
}

/* Tiles at start, start + rows, … below an end known at run time; returns where the last one ends. */
static LLVMValueRef tiles_at_run_time(dt_llvm_nest *n, LLVMValueRef start, LLVMValueRef end, int rows) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, start, "");
    LLVMValueRef whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, left, dt_llvm_i64(e, rows), ""), "");
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_loop loop = dt_llvm_loop_begin(e, start, whole, rows, true);
    dt_llvm_enter(n, n->nest->tiling.row_loop, (dt_llvm_sum){loop.index, 0});
    one_tile(n, rows);
    dt_llvm_loop_end(e, &loop);
    dt_llvm_restore_addresses(n, saved);
    return whole;
}

void dt_llvm_tile_rows(dt_llvm_nest *n) {
    int row_loop = n->nest->tiling.row_loop;
    int64_t extent = row_loop < 0 ? 1 : n->rows_here > 0 ? n->rows_here : n->nest->loops[row_loop].extent;
    if (row_loop < 0) {
        dt_llvm_sum *saved = dt_llvm_save_addresses(n);
        one_tile(n, 1);
        dt_llvm_restore_addresses(n, saved);
    } else if (!dt_llvm_is_constant_extent(extent)) {
        LLVMValueRef end = n->last_rows != NULL ? n->last_rows : dt_llvm_extent(n->e, extent), start = dt_llvm_i64(n->e, 0);
        start = tiles_at_run_time(n, start, end, n->choices->tile_rows);
        if (n->choices->tile_rows > 1) tiles_at_run_time(n, start, end, 1);
    } else if (extent > 0) {
        dt_parts tiles = dt_deal(extent, n->choices->tile_rows);
        equal_tiles(n, 0, tiles.n_larger * (tiles.size + 1), (int)tiles.size + 1);
        equal_tiles(n, tiles.n_larger * (tiles.size + 1), extent, (int)tiles.size);
    }
}
