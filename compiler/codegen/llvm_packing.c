/* llvm_packing: products whose operands are larger than the first cache.
 *
 * A block of tiles reads some columns of operand b, row after row, far apart in memory: with many rows, each costs a page and competes for a few sets
 * of the cache, and every tile pays for that again. So the block's columns are packed first: copied to contiguous memory on the stack, which all its
 * tiles then read.
 *
 * A long reduced loop also runs in parts, each with as many products as fit the packed block, and the sums are kept in the result between them: the
 * packed block stays in the first cache and what the tiles read of a in the second. The parts are fixed when code is generated, so sums have one
 * order.
 *
 * Of two reduced loops both are packed, if that takes one part: the terms of a row of the batch, and the rows.
 *
 * Where neighbours in a lie pages apart, some rows of it are packed for a part too, in their own layout but close together, and all blocks run over
 * these rows before the next ones are packed. */
#include "compiler/codegen/llvm.h"

enum {
    DEPTH = 256,             /* products of a part, at most */
    PACKED_BYTES = 64 << 10, /* at most */
    LARGE_BYTES = 32 << 10,  /* of b, over the reduced loop: less than that stays in cache anyway */
    LEAST_REUSE = 32,        /* rows that read the packed block: then packing costs a few percent */
    LEAST_DEPTH = 32,
    ROWS_BYTES = 128 << 10, /* of a that are copied, at most */
    GAP = 16,               /* elements between copied rows: rows a power of two apart would fall into the same sets of the cache */
    PAGE_BYTES = 4096,
    LEAST_BLOCKS = 2,      /* that read the copied rows */
    MEMORY_BYTES = 2 << 20 /* of a: more than a core's caches hold */
};

static int64_t assumed_extent(const dt_llvm_nest *n, int loop) {
    int64_t extent = n->nest->loops[loop].extent;
    return dt_llvm_is_constant_extent(extent) ? extent : n->e->at_work.plan->microbatch_rows;
}

/* Finds the innermost reduced loop, and the one over rows of the microbatch around it, or -1; false: there is none, or more of them longer than 1. Of
 * the rows of all replicas there may be any number, which the place for what is packed would not hold. */
static bool find_reduced_loops(const dt_llvm_nest *n, int *loop, int *around) {
    const dt_nest *nest = n->nest;
    *around = -1;
    if (n->n_outer == nest->n_loops) return false;
    for (int p = n->n_outer; p + 1 < nest->n_loops; p++) {
        if (nest->loops[n->order[p]].extent == 1) continue;
        if (*around >= 0 || nest->loops[n->order[p]].extent != DT_BATCH) return false;
        *around = n->order[p];
    }
    *loop = n->order[nest->n_loops - 1];
    return true;
}

/* Whether what is stored is the sum itself, once, so that it can be kept there. */
static bool stores_sum(const dt_nest *nest) {
    const dt_store *store = &nest->stores[0];
    return nest->n_stores == 1 && store->guard < 0 && nest->instructions[store->operand].kind == DT_INSTRUCTION_REDUCED;
}

/* How often each element of a block of b is read: iterations of the loops inside of the blocks. */
static int64_t reuse(const dt_llvm_nest *n) {
    int64_t reuse = 1;
    for (int p = n->n_outer - 1; p >= 0 && n->order[p] != n->vector_loop; p--) reuse *= assumed_extent(n, n->order[p]);
    return reuse;
}

/* Whether elements of a that one tile reads in turn lie pages apart: those of a row; or rows, in the same sets of the caches at that. */
static bool is_scattered(const dt_llvm_nest *n) {
    const int64_t *a = n->nest->instructions[n->nest->tiling.a].address.coefficients, element = (int64_t)dt_dtype_bytes(n->nest->reductions[0].dtype);
    int64_t along = a[n->packed_loop], across = a[n->nest->tiling.row_loop];
    return (across == 1 && along * element >= PAGE_BYTES) || (along == 1 && across > 0 && across * element % (2 * PAGE_BYTES) == 0);
}

/* Rows of a that are copied at a time: whole tiles. */
static void choose_rows(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int row = nest->tiling.row_loop;
    int64_t block = (int64_t)n->tile_vectors * n->width, n_blocks = (nest->loops[n->vector_loop].extent + block - 1) / block;
    if (row < 0 || n->n_outer < 2 || n->order[n->n_outer - 2] != n->vector_loop || !stores_sum(nest) || n_blocks < LEAST_BLOCKS || !is_scattered(n))
        return;
    if (n->packed_around >= 0 && nest->instructions[nest->tiling.a].address.coefficients[row] != 1) return;
    int64_t iterations = n->depth * (n->packed_around >= 0 ? assumed_extent(n, n->packed_around) : 1);
    int64_t most = ROWS_BYTES / ((iterations + GAP) * (int64_t)dt_dtype_bytes(nest->reductions[0].dtype)), half = assumed_extent(n, row) / 2;
    int64_t rows = (most < half ? most : half) / n->tile_rows * n->tile_rows;
    if (rows >= LEAST_REUSE) n->packed_rows = rows;
}

void dt_llvm_packing_choose(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int loop, around;
    n->packed_loop = n->packed_around = -1;
    if (!find_reduced_loops(n, &loop, &around) || n->unrolled[loop] || n->width != n->target_width || reuse(n) < LEAST_REUSE) return;
    if (!dt_llvm_is_constant_extent(nest->loops[n->vector_loop].extent)) return; /* a microbatch has few columns */
    int64_t extent = assumed_extent(n, loop) * (around >= 0 ? assumed_extent(n, around) : 1);
    int64_t element = (int64_t)dt_dtype_bytes(nest->reductions[0].dtype);
    int64_t stride = nest->instructions[nest->tiling.b].address.coefficients[loop] * element,
            block = (int64_t)n->tile_vectors * n->e->target->vector_bytes;
    if (extent < LEAST_DEPTH || stride < 2 * block || stride * extent <= LARGE_BYTES) return;
    int64_t most = PACKED_BYTES / block < DEPTH ? PACKED_BYTES / block : DEPTH, n_parts = (extent + most - 1) / most;
    bool constant = dt_llvm_is_constant_extent(nest->loops[loop].extent);
    if (n_parts == 1 && constant)
        n->depth = nest->loops[loop].extent;
    else if (stores_sum(nest) && around < 0)
        n->depth = constant ? ((extent + n_parts - 1) / n_parts + 7) / 8 * 8 : most;
    else
        return;
    n->packed_loop = loop;
    n->packed_around = around;
    choose_rows(n);
}

static LLVMTypeRef vector_type(const dt_llvm_nest *n) { return dt_llvm_vector(dt_llvm_type(n->e, n->nest->reductions[0].dtype), n->width); }

/* The iteration of the reduced loops that has been entered, counted through both. */
static dt_llvm_sum iteration_at_work(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum iteration = n->loops[n->packed_loop];
    if (n->packed_around < 0) return iteration;
    dt_llvm_sum around = n->loops[n->packed_around];
    iteration.constant += around.constant * n->depth;
    if (around.variable == NULL) return iteration;
    LLVMValueRef before = LLVMBuildNSWMul(e->builder, around.variable, dt_llvm_i64(e, n->depth), "");
    iteration.variable = iteration.variable == NULL ? before : LLVMBuildNSWAdd(e->builder, before, iteration.variable, "");
    return iteration;
}

/* The loop around the packed one, entered, where there is one. */
static dt_llvm_loop begin_around(dt_llvm_nest *n) {
    dt_llvm_loop loop = {0};
    if (n->packed_around < 0) return loop;
    loop = dt_llvm_loop_begin(n->e, dt_llvm_i64(n->e, 0), dt_llvm_extent(n->e, n->nest->loops[n->packed_around].extent), 1, true);
    dt_llvm_enter(n, n->packed_around, (dt_llvm_sum){loop.index, 0});
    return loop;
}

static void end_around(dt_llvm_nest *n, dt_llvm_loop *loop) {
    if (n->packed_around >= 0) dt_llvm_loop_end(n->e, loop);
}

/* The address of packed vector v, in the iteration of the reduced loops that has been entered. */
static LLVMValueRef packed_vector(dt_llvm_nest *n, int v) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum iteration = iteration_at_work(n);
    LLVMValueRef packed = e->packed, constant = dt_llvm_i64(e, iteration.constant * n->block_vectors + v);
    if (iteration.variable != NULL) {
        LLVMValueRef at = LLVMBuildNSWMul(e->builder, iteration.variable, dt_llvm_i64(e, n->block_vectors), "");
        packed = LLVMBuildInBoundsGEP2(e->builder, vector_type(n), packed, &at, 1, "");
    }
    return LLVMBuildInBoundsGEP2(e->builder, vector_type(n), packed, &constant, 1, "");
}

/* The address of the packed element of a that row `row` and iteration `iteration` read, both counted from the first that are packed. */
static LLVMValueRef packed_element(dt_llvm_nest *n, dt_llvm_sum row, dt_llvm_sum iteration) {
    dt_llvm_emitter *e = n->e;
    bool by_iterations = n->nest->instructions[n->nest->tiling.a].address.coefficients[n->nest->tiling.row_loop] == 1;
    int64_t row_step = by_iterations ? 1 : n->depth + GAP, iteration_step = by_iterations ? n->packed_rows : 1;
    LLVMTypeRef type = dt_llvm_type(e, n->nest->reductions[0].dtype);
    LLVMValueRef start = dt_llvm_i64(e, PACKED_BYTES), constant = dt_llvm_i64(e, row.constant * row_step + iteration.constant * iteration_step);
    LLVMValueRef pointer = LLVMBuildInBoundsGEP2(e->builder, e->i8, e->packed, &start, 1, "");
    for (int i = 0; i < 2; i++) {
        dt_llvm_sum index = i == 0 ? row : iteration;
        if (index.variable == NULL) continue;
        LLVMValueRef at = LLVMBuildNSWMul(e->builder, index.variable, dt_llvm_i64(e, i == 0 ? row_step : iteration_step), "");
        pointer = LLVMBuildInBoundsGEP2(e->builder, type, pointer, &at, 1, "");
    }
    return LLVMBuildInBoundsGEP2(e->builder, type, pointer, &constant, 1, "");
}

LLVMValueRef dt_llvm_packing_load_row(dt_llvm_nest *n, int64_t r) {
    dt_llvm_sum row = n->loops[n->nest->tiling.row_loop];
    row.constant += r;
    return LLVMBuildLoad2(n->e->builder, dt_llvm_type(n->e, n->nest->reductions[0].dtype), packed_element(n, row, iteration_at_work(n)), "");
}

LLVMValueRef dt_llvm_packing_load(dt_llvm_nest *n, int v) { return LLVMBuildLoad2(n->e->builder, vector_type(n), packed_vector(n, v), ""); }

LLVMValueRef dt_llvm_packing_extent(dt_llvm_nest *n) { return n->depth_here != NULL ? n->depth_here : dt_llvm_i64(n->e, n->depth); }

void dt_llvm_packing_fill(dt_llvm_nest *n, dt_llvm_sum start) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->vector_loop];
    dt_llvm_enter(n, n->vector_loop, start);
    dt_llvm_loop around = begin_around(n);
    dt_llvm_loop iterations = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_packing_extent(n), 1, n->depth_here != NULL);
    dt_llvm_enter(n, n->packed_loop, (dt_llvm_sum){iterations.index, 0});
    for (int v = 0; v < n->block_vectors; v++)
        LLVMBuildStore(e->builder, dt_llvm_load_factor(n, n->nest->tiling.b, (dt_llvm_sum){NULL, (int64_t)v * n->width}, n->width),
                       packed_vector(n, v));
    dt_llvm_loop_end(e, &iterations);
    end_around(n, &around);
    n->loops[n->vector_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

/* Whether a is more than a core's caches hold. */
static bool comes_from_memory(const dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int64_t elements = 1;
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->instructions[nest->tiling.a].address.coefficients[l] != 0) elements *= assumed_extent(n, l);
    return elements * (int64_t)dt_dtype_bytes(nest->reductions[0].dtype) > MEMORY_BYTES;
}

/* Copies the rows of a that have been entered, n->packed_rows of them: by neighbours, which lie along the rows or across them. What is copied beyond
 * the last iteration of a part is never read. What the next rows will need of an iteration is asked for while these are copied: the processor
 * foresees a few streams, not one for each iteration. */
static void fill_rows(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    int a = n->nest->tiling.a, row_loop = n->nest->tiling.row_loop;
    bool by_iterations = n->nest->instructions[a].address.coefficients[row_loop] == 1;
    LLVMValueRef n_iterations = dt_llvm_packing_extent(n), n_rows = dt_llvm_i64(e, n->packed_rows), zero = dt_llvm_i64(e, 0);
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), rows = n->loops[row_loop], iterations = n->loops[n->packed_loop];
    dt_llvm_loop around = begin_around(n);
    dt_llvm_loop outer = dt_llvm_loop_begin(e, zero, by_iterations ? n_iterations : n_rows, 1, by_iterations && n->depth_here != NULL);
    dt_llvm_enter(n, by_iterations ? n->packed_loop : row_loop, (dt_llvm_sum){outer.index, 0});
    int width = by_iterations && n->packed_rows < n->width ? 1 : n->width;
    while (by_iterations && n->packed_rows % width != 0) width /= 2;
    dt_llvm_loop inner = dt_llvm_loop_begin(e, zero, by_iterations ? n_rows : n_iterations, width, !by_iterations && n->depth_here != NULL);
    dt_llvm_enter(n, by_iterations ? row_loop : n->packed_loop, (dt_llvm_sum){inner.index, 0});
    LLVMValueRef target = packed_element(n, n->loops[row_loop], iteration_at_work(n));
    LLVMValueRef copy = LLVMBuildStore(e->builder, dt_llvm_load_factor(n, a, (dt_llvm_sum){NULL, 0}, width), target);
    LLVMSetAlignment(copy, (unsigned)dt_dtype_bytes(n->nest->reductions[0].dtype));
    if (by_iterations && comes_from_memory(n)) dt_llvm_prefetch_load(n, a, n->packed_rows);
    dt_llvm_loop_end(e, &inner);
    dt_llvm_loop_end(e, &outer);
    end_around(n, &around);
    n->loops[row_loop] = rows;
    n->loops[n->packed_loop] = iterations;
    dt_llvm_restore_addresses(n, saved);
}

/* All blocks for n->packed_rows rows at a time; for what rows are left, a is read where it is. */
static void row_blocks(dt_llvm_nest *n, int level, dt_llvm_blocks *blocks) {
    dt_llvm_emitter *e = n->e;
    int row_loop = n->nest->tiling.row_loop;
    if (n->packed_rows == 0) {
        blocks(n, level);
        return;
    }
    int64_t extent = n->nest->loops[row_loop].extent;
    LLVMValueRef end = dt_llvm_extent(e, extent), whole = dt_llvm_i64(e, extent - extent % n->packed_rows);
    bool constant = dt_llvm_is_constant_extent(extent);
    if (!constant) whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, end, dt_llvm_i64(e, n->packed_rows), ""), "");
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_loop rows = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), whole, n->packed_rows, !constant);
    dt_llvm_enter(n, row_loop, (dt_llvm_sum){rows.index, 0});
    fill_rows(n);
    n->rows_here = n->packed_rows;
    n->rows_are_copied = true;
    blocks(n, level);
    n->rows_are_copied = false;
    dt_llvm_loop_end(e, &rows);
    dt_llvm_restore_addresses(n, saved);
    n->rows_here = constant ? extent % n->packed_rows : 0;
    if (!constant || n->rows_here > 0) {
        dt_llvm_enter(n, row_loop, (dt_llvm_sum){whole, 0});
        n->last_rows = constant ? NULL : LLVMBuildNSWSub(e->builder, end, whole, "");
        blocks(n, level);
        dt_llvm_restore_addresses(n, saved);
    }
    n->rows_here = 0;
    n->last_rows = NULL;
}

void dt_llvm_packing_parts(dt_llvm_nest *n, int level, dt_llvm_blocks *blocks) {
    dt_llvm_emitter *e = n->e;
    int64_t extent = n->nest->loops[n->packed_loop].extent;
    if (e->packed == NULL) e->packed = dt_llvm_stack(e, e->i8, PACKED_BYTES + ROWS_BYTES, e->target->vector_bytes);
    if (extent == n->depth) {
        row_blocks(n, level, blocks);
        return;
    }
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    LLVMValueRef end = dt_llvm_extent(e, extent), depth = dt_llvm_i64(e, n->depth), one = dt_llvm_i64(e, 1), last = end;
    if (!dt_llvm_is_constant_extent(extent)) /* sums of nothing are stored too */
        last = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, end, one, ""), one, end, "");
    dt_llvm_loop parts = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), last, n->depth, false);
    dt_llvm_enter(n, n->packed_loop, (dt_llvm_sum){parts.index, 0});
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, parts.index, "");
    bool whole = dt_llvm_is_constant_extent(extent) && extent % n->depth == 0;
    if (!whole) n->depth_here = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, left, depth, ""), left, depth, "");
    n->is_first = LLVMBuildICmp(e->builder, LLVMIntEQ, parts.index, dt_llvm_i64(e, 0), "");
    row_blocks(n, level, blocks);
    n->depth_here = n->is_first = NULL;
    dt_llvm_loop_end(e, &parts);
    dt_llvm_restore_addresses(n, saved);
}
