/* llvm_packing: operands of tiles that are copied before the tiles read them (compiler/passes/choose_packing.c says which).
 *
 * The packed memory is on the stack: first a block of b, vector after vector, then rows of a. */
#include "compiler/codegen/llvm.h"

static LLVMTypeRef vector_type(const dt_llvm_nest *n) { return dt_llvm_vector(dt_llvm_type(n->e, n->nest->reductions[0].dtype), n->width); }

/* The iteration of the reduced loops that has been entered, counted through both. */
static dt_llvm_sum iteration_at_work(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum iteration = n->loops[n->choices->packed_loop];
    if (n->choices->packed_around < 0) return iteration;
    dt_llvm_sum around = n->loops[n->choices->packed_around];
    iteration.constant += around.constant * n->choices->depth;
    if (around.variable == NULL) return iteration;
    LLVMValueRef before = LLVMBuildNSWMul(e->builder, around.variable, dt_llvm_i64(e, n->choices->depth), "");
    iteration.variable = iteration.variable == NULL ? before : LLVMBuildNSWAdd(e->builder, before, iteration.variable, "");
    return iteration;
}

/* The loop around the packed one, entered, where there is one. */
static dt_llvm_loop begin_around(dt_llvm_nest *n) {
    dt_llvm_loop loop = {0};
    if (n->choices->packed_around < 0) return loop;
    loop = dt_llvm_loop_begin(n->e, dt_llvm_i64(n->e, 0), dt_llvm_extent(n->e, n->nest->loops[n->choices->packed_around].extent), 1, true);
    dt_llvm_enter(n, n->choices->packed_around, (dt_llvm_sum){loop.index, 0});
    return loop;
}

static void end_around(dt_llvm_nest *n, dt_llvm_loop *loop) {
    if (n->choices->packed_around >= 0) dt_llvm_loop_end(n->e, loop);
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
    int64_t row_step = by_iterations ? 1 : n->choices->depth + n->choices->packed_gap, iteration_step = by_iterations ? n->choices->packed_rows : 1;
    LLVMTypeRef type = dt_llvm_type(e, n->nest->reductions[0].dtype);
    LLVMValueRef start = dt_llvm_i64(e, DT_PACKED_BLOCK_BYTES),
                 constant = dt_llvm_i64(e, row.constant * row_step + iteration.constant * iteration_step);
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

LLVMValueRef dt_llvm_packing_extent(dt_llvm_nest *n) { return n->depth_here != NULL ? n->depth_here : dt_llvm_i64(n->e, n->choices->depth); }

void dt_llvm_packing_fill(dt_llvm_nest *n, dt_llvm_sum start) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->choices->vector_loop];
    dt_llvm_enter(n, n->choices->vector_loop, start);
    dt_llvm_loop around = begin_around(n);
    dt_llvm_loop iterations = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_packing_extent(n), 1, n->depth_here != NULL);
    dt_llvm_enter(n, n->choices->packed_loop, (dt_llvm_sum){iterations.index, 0});
    for (int v = 0; v < n->block_vectors; v++)
        LLVMBuildStore(e->builder, dt_llvm_load_factor(n, n->nest->tiling.b, (dt_llvm_sum){NULL, (int64_t)v * n->width}, n->width),
                       packed_vector(n, v));
    dt_llvm_loop_end(e, &iterations);
    end_around(n, &around);
    n->loops[n->choices->vector_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

/* Copies the rows of a that have been entered, packed_rows of them: by neighbours, which lie along the rows or across them. What is
 * copied beyond the last iteration of a part is never read. What the next rows will need of an iteration is asked for while these are copied: the
 * processor foresees a few streams, not one for each iteration. */
static void fill_rows(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    int a = n->nest->tiling.a, row_loop = n->nest->tiling.row_loop;
    bool by_iterations = n->nest->instructions[a].address.coefficients[row_loop] == 1;
    LLVMValueRef n_iterations = dt_llvm_packing_extent(n), n_rows = dt_llvm_i64(e, n->choices->packed_rows), zero = dt_llvm_i64(e, 0);
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), rows = n->loops[row_loop], iterations = n->loops[n->choices->packed_loop];
    dt_llvm_loop around = begin_around(n);
    dt_llvm_loop outer = dt_llvm_loop_begin(e, zero, by_iterations ? n_iterations : n_rows, 1, by_iterations && n->depth_here != NULL);
    dt_llvm_enter(n, by_iterations ? n->choices->packed_loop : row_loop, (dt_llvm_sum){outer.index, 0});
    int width = by_iterations && n->choices->packed_rows < n->width ? 1 : n->width;
    while (by_iterations && n->choices->packed_rows % width != 0) width /= 2;
    dt_llvm_loop inner = dt_llvm_loop_begin(e, zero, by_iterations ? n_rows : n_iterations, width, !by_iterations && n->depth_here != NULL);
    dt_llvm_enter(n, by_iterations ? row_loop : n->choices->packed_loop, (dt_llvm_sum){inner.index, 0});
    LLVMValueRef target = packed_element(n, n->loops[row_loop], iteration_at_work(n));
    LLVMValueRef copy = LLVMBuildStore(e->builder, dt_llvm_load_factor(n, a, (dt_llvm_sum){NULL, 0}, width), target);
    LLVMSetAlignment(copy, (unsigned)dt_dtype_bytes(n->nest->reductions[0].dtype));
    if (n->choices->prefetches_rows) dt_llvm_prefetch_load(n, a, n->choices->packed_rows);
    dt_llvm_loop_end(e, &inner);
    dt_llvm_loop_end(e, &outer);
    end_around(n, &around);
    n->loops[row_loop] = rows;
    n->loops[n->choices->packed_loop] = iterations;
    dt_llvm_restore_addresses(n, saved);
}

/* All blocks for packed_rows rows at a time; for what rows are left, a is read where it is. */
static void row_blocks(dt_llvm_nest *n, int level, dt_llvm_blocks *blocks) {
    dt_llvm_emitter *e = n->e;
    int row_loop = n->nest->tiling.row_loop;
    if (n->choices->packed_rows == 0) {
        blocks(n, level);
        return;
    }
    int64_t extent = n->nest->loops[row_loop].extent;
    LLVMValueRef end = dt_llvm_extent(e, extent), whole = dt_llvm_i64(e, extent - extent % n->choices->packed_rows);
    bool constant = dt_llvm_is_constant_extent(extent);
    if (!constant) whole = LLVMBuildNSWSub(e->builder, end, LLVMBuildSRem(e->builder, end, dt_llvm_i64(e, n->choices->packed_rows), ""), "");
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    dt_llvm_loop rows = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), whole, n->choices->packed_rows, !constant);
    dt_llvm_enter(n, row_loop, (dt_llvm_sum){rows.index, 0});
    fill_rows(n);
    n->rows_here = n->choices->packed_rows;
    n->rows_are_copied = true;
    blocks(n, level);
    n->rows_are_copied = false;
    dt_llvm_loop_end(e, &rows);
    dt_llvm_restore_addresses(n, saved);
    n->rows_here = constant ? extent % n->choices->packed_rows : 0;
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
    int64_t extent = n->nest->loops[n->choices->packed_loop].extent;
    if (e->packed == NULL) e->packed = dt_llvm_stack(e, e->i8, DT_PACKED_BLOCK_BYTES + DT_PACKED_ROWS_BYTES, e->choices->target->vector_bytes);
    if (extent == n->choices->depth) {
        row_blocks(n, level, blocks);
        return;
    }
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    LLVMValueRef end = dt_llvm_extent(e, extent), depth = dt_llvm_i64(e, n->choices->depth), one = dt_llvm_i64(e, 1), last = end;
    if (!dt_llvm_is_constant_extent(extent)) /* sums of nothing are stored too */
        last = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, end, one, ""), one, end, "");
    dt_llvm_loop parts = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), last, n->choices->depth, false);
    dt_llvm_enter(n, n->choices->packed_loop, (dt_llvm_sum){parts.index, 0});
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, parts.index, "");
    bool whole = dt_llvm_is_constant_extent(extent) && extent % n->choices->depth == 0;
    if (!whole) n->depth_here = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, left, depth, ""), left, depth, "");
    n->is_first = LLVMBuildICmp(e->builder, LLVMIntEQ, parts.index, dt_llvm_i64(e, 0), "");
    row_blocks(n, level, blocks);
    n->depth_here = n->is_first = NULL;
    dt_llvm_loop_end(e, &parts);
    dt_llvm_restore_addresses(n, saved);
}
