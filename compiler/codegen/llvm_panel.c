/* llvm_panel: products whose operands are larger than the first cache.
 *
 * A block of tiles reads some columns of operand b, row after row, far apart in memory: once there are many rows, each of them costs a page and a
 * place in a few sets of the cache, and all tiles pay that anew. So the block's columns are copied first to where they lie one behind the other, a
 * panel on the stack, which all its tiles then read.
 *
 * Where the reduced loop is long, it runs in parts besides, as many products at a time as a panel holds, the sums being kept in the result between
 * them: the panel stays in the first cache and what the tiles read of a in the second. The parts are fixed when code is generated, so sums have one
 * order. */
#include "compiler/codegen/llvm.h"

enum {
    DEPTH = 256,            /* products of a part, at most */
    PANEL_BYTES = 64 << 10, /* at most */
    LARGE_BYTES = 32 << 10, /* of b, over the reduced loop: less than that stays in cache anyway */
    LEAST_REUSE = 32,       /* rows that read the panel: then copying it costs a few percent */
    LEAST_DEPTH = 32
};

static int64_t assumed_extent(const dt_llvm_nest *n, int loop) {
    int64_t extent = n->nest->loops[loop].extent;
    return dt_llvm_is_constant_extent(extent) ? extent : n->e->at_work.plan->block_rows;
}

/* The reduced loop, if only one is longer than 1 and stands innermost; -1. */
static int reduced_loop(const dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    if (n->n_outer == nest->n_loops) return -1;
    for (int p = n->n_outer; p + 1 < nest->n_loops; p++)
        if (nest->loops[n->order[p]].extent != 1) return -1;
    return n->order[nest->n_loops - 1];
}

/* Whether what is stored is the sum itself, once, so that it can be kept there. */
static bool stores_sum(const dt_nest *nest) {
    const dt_store *store = &nest->stores[0];
    return nest->n_stores == 1 && store->guard < 0 && nest->instructions[store->operand].kind == DT_INSTRUCTION_REDUCED;
}

/* How often each element of a block of b is read: turns of the loops inside of the blocks. */
static int64_t reuse(const dt_llvm_nest *n) {
    int64_t reuse = 1;
    for (int p = n->n_outer - 1; p >= 0 && n->order[p] != n->vector_loop; p--) reuse *= assumed_extent(n, n->order[p]);
    return reuse;
}

void dt_llvm_panel_choose(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int loop = reduced_loop(n);
    n->panel_loop = -1;
    if (loop < 0 || n->unrolled[loop] || n->width != n->target_width || reuse(n) < LEAST_REUSE) return;
    int64_t extent = assumed_extent(n, loop), element = (int64_t)dt_dtype_bytes(nest->reductions[0].dtype);
    int64_t stride = nest->instructions[nest->tiling.b].address.coefficients[loop] * element,
            block = (int64_t)n->tile_vectors * n->e->target->vector_bytes;
    if (extent < LEAST_DEPTH || stride < 2 * block || stride * extent <= LARGE_BYTES) return;
    int64_t most = PANEL_BYTES / block < DEPTH ? PANEL_BYTES / block : DEPTH, n_parts = (extent + most - 1) / most;
    bool constant = dt_llvm_is_constant_extent(nest->loops[loop].extent);
    if (n_parts == 1 && constant)
        n->depth = extent;
    else if (stores_sum(nest))
        n->depth = constant ? ((extent + n_parts - 1) / n_parts + 7) / 8 * 8 : most;
    else
        return;
    n->panel_loop = loop;
}

static LLVMTypeRef vector_type(const dt_llvm_nest *n) { return dt_llvm_vector(dt_llvm_type(n->e, n->nest->reductions[0].dtype), n->width); }

/* Where vector v lies, in the turn of the reduced loop that has been entered. */
static LLVMValueRef place(dt_llvm_nest *n, int v) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum turn = n->loops[n->panel_loop];
    LLVMValueRef panel = e->panel, constant = dt_llvm_i64(e, turn.constant * n->block_vectors + v);
    if (turn.variable != NULL) {
        LLVMValueRef at = LLVMBuildNSWMul(e->builder, turn.variable, dt_llvm_i64(e, n->block_vectors), "");
        panel = LLVMBuildInBoundsGEP2(e->builder, vector_type(n), panel, &at, 1, "");
    }
    return LLVMBuildInBoundsGEP2(e->builder, vector_type(n), panel, &constant, 1, "");
}

LLVMValueRef dt_llvm_panel_load(dt_llvm_nest *n, int v) { return LLVMBuildLoad2(n->e->builder, vector_type(n), place(n, v), ""); }

LLVMValueRef dt_llvm_panel_extent(dt_llvm_nest *n) { return n->depth_here != NULL ? n->depth_here : dt_llvm_i64(n->e, n->depth); }

void dt_llvm_panel_fill(dt_llvm_nest *n, dt_llvm_sum start) {
    dt_llvm_emitter *e = n->e;
    if (e->panel == NULL) e->panel = dt_llvm_stack(e, e->i8, PANEL_BYTES, e->target->vector_bytes);
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[n->vector_loop];
    dt_llvm_enter(n, n->vector_loop, start);
    dt_llvm_loop turns = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_panel_extent(n), 1, n->depth_here != NULL);
    dt_llvm_enter(n, n->panel_loop, (dt_llvm_sum){turns.index, 0});
    for (int v = 0; v < n->block_vectors; v++)
        LLVMBuildStore(e->builder, dt_llvm_load_plain(n, n->nest->tiling.b, (dt_llvm_sum){NULL, (int64_t)v * n->width}, n->width), place(n, v));
    dt_llvm_loop_end(e, &turns);
    n->loops[n->vector_loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

void dt_llvm_panel_parts(dt_llvm_nest *n, int level, void (*blocks)(dt_llvm_nest *n, int level)) {
    dt_llvm_emitter *e = n->e;
    int64_t extent = n->nest->loops[n->panel_loop].extent;
    if (extent == n->depth) {
        blocks(n, level);
        return;
    }
    dt_llvm_sum *saved = dt_llvm_save_addresses(n);
    LLVMValueRef end = dt_llvm_extent(e, extent), depth = dt_llvm_i64(e, n->depth), one = dt_llvm_i64(e, 1), last = end;
    if (!dt_llvm_is_constant_extent(extent)) /* sums of nothing are stored too */
        last = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, end, one, ""), one, end, "");
    dt_llvm_loop parts = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), last, n->depth, false);
    dt_llvm_enter(n, n->panel_loop, (dt_llvm_sum){parts.index, 0});
    LLVMValueRef left = LLVMBuildNSWSub(e->builder, end, parts.index, "");
    bool whole = dt_llvm_is_constant_extent(extent) && extent % n->depth == 0;
    if (!whole) n->depth_here = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, left, depth, ""), left, depth, "");
    n->is_first = LLVMBuildICmp(e->builder, LLVMIntEQ, parts.index, dt_llvm_i64(e, 0), "");
    blocks(n, level);
    n->depth_here = n->is_first = NULL;
    dt_llvm_loop_end(e, &parts);
    dt_llvm_restore_addresses(n, saved);
}
