/* llvm_reduce: accumulators of the generic form.
 *
 * With the vector loop among the outer ones every lane is a result of its own. With the vector loop among the reduced ones each lane reduces
 * its share, and the lanes are reduced at the end in a fixed tree, upper half onto lower half: the order depends on the level and the extents, never
 * on data. The best position of an element is carried beside the best element; i32 while that suffices. */
#include "compiler/codegen/llvm.h"
#include "ir/evaluate.h"

#include <assert.h>

static bool vector_is_reduced(const dt_llvm_nest *n) { return n->width > 1 && n->nest->loops[n->choices->vector_loop].reduced; }

/* Positions within the reduced loops fit i32, as a rule. */
static LLVMTypeRef position_type(const dt_llvm_nest *n) {
    double positions = 1;
    for (int i = n->n_outer; i < n->nest->n_loops; i++) {
        int64_t extent = n->nest->loops[n->choices->order[i]].extent;
        positions *= dt_llvm_is_constant_extent(extent) ? (double)extent : 1e18;
    }
    return positions < 2147483647.0 ? n->e->i32 : n->e->i64;
}

/* ---- the beginning ---- */

static LLVMValueRef identity(dt_llvm_emitter *e, dt_combiner combiner, dt_dtype dtype, int width) {
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_type(e, dtype), width);
    dt_scalar value = dt_combiner_identity(combiner, dtype);
    return dt_dtype_is_float(dtype) ? dt_llvm_real(type, value.f) : dt_llvm_integer(type, value.i);
}

/* dt_reduction_found_by; but lanes have positions of their own, and no best element. */
static int found_by(const dt_llvm_nest *n, int r) { return vector_is_reduced(n) ? -1 : dt_reduction_found_by(n->nest, r); }

static void begin_copy(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    const dt_nest *nest = n->nest;
    for (int r = 0; r < nest->n_reductions; r++) {
        const dt_reduction *reduction = &nest->reductions[r];
        bool wide = vector_is_reduced(n) || dt_llvm_varies(n, reduction->operand);
        int width = wide ? n->width : 1;
        if (found_by(n, r) >= 0) continue;
        n->slots[r] = e->n_carried;
        e->carried[e->n_carried++] = identity(e, reduction->combiner, dt_reduction_element(n->nest, reduction), width);
        if (dt_combiner_is_position(reduction->combiner)) e->carried[e->n_carried++] = LLVMConstNull(dt_llvm_vector(position_type(n), width));
    }
}

void dt_llvm_reduce_begin(dt_llvm_nest *n) {
    n->e->carried = DT_NEW_ARRAY(n->e->arena, LLVMValueRef, 2 * n->nest->n_reductions * n->n_copies);
    n->e->n_carried = 0;
    for (int c = 0; c < n->n_copies; c++) {
        dt_llvm_use_copy(n, c);
        begin_copy(n);
    }
}

/* ---- one step ---- */

/* What combining is, for all but positions. */
static LLVMValueRef combine(dt_llvm_emitter *e, dt_combiner combiner, dt_dtype dtype, LLVMValueRef a, LLVMValueRef b) {
    bool is_float = dt_dtype_is_float(dtype);
    switch (combiner) {
    case DT_COMBINE_SUM: return is_float ? LLVMBuildFAdd(e->builder, a, b, "") : LLVMBuildAdd(e->builder, a, b, "");
    case DT_COMBINE_PRODUCT: return is_float ? LLVMBuildFMul(e->builder, a, b, "") : LLVMBuildMul(e->builder, a, b, "");
    case DT_COMBINE_MAX: return dt_llvm_maximum(e, a, b, dtype);
    case DT_COMBINE_MIN: return dt_llvm_minimum(e, a, b, dtype);
    default: break;
    }
    assert(!"a combiner of values");
    return NULL;
}

/* Is x better than best? NaN is better than any number, and not better than NaN. */
static LLVMValueRef is_better(dt_llvm_emitter *e, bool greatest, dt_dtype dtype, LLVMValueRef x, LLVMValueRef best) {
    if (!dt_dtype_is_float(dtype)) {
        bool is_signed = dt_dtype_is_signed(dtype);
        LLVMIntPredicate predicate = greatest ? (is_signed ? LLVMIntSGT : LLVMIntUGT) : (is_signed ? LLVMIntSLT : LLVMIntULT);
        return LLVMBuildICmp(e->builder, predicate, x, best, "");
    }
    LLVMValueRef beats = LLVMBuildFCmp(e->builder, greatest ? LLVMRealUGT : LLVMRealULT, x, best, "");
    return LLVMBuildAnd(e->builder, beats, LLVMBuildFCmp(e->builder, LLVMRealORD, best, best, ""), "");
}

/* The row-major position of the current iteration of the reduced loops. */
static LLVMValueRef current_position(dt_llvm_nest *n, int width) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = position_type(n);
    LLVMValueRef sum = LLVMConstNull(type);
    for (int i = n->n_outer; i < n->nest->n_loops; i++) {
        int loop = n->choices->order[i];
        LLVMValueRef extent = LLVMBuildIntCast2(e->builder, dt_llvm_extent(e, n->nest->loops[loop].extent), type, true, "");
        LLVMValueRef index = LLVMBuildIntCast2(e->builder, dt_llvm_sum_value(e, n->loops[loop]), type, true, "");
        sum = LLVMBuildMul(e->builder, sum, dt_llvm_splat(e, extent, dt_llvm_width(sum)), "");
        if (vector_is_reduced(n) && loop == n->choices->vector_loop)
            sum = LLVMBuildAdd(e->builder, dt_llvm_splat(e, sum, n->width), dt_llvm_iota(type, n->width), "");
        sum = LLVMBuildAdd(e->builder, sum, dt_llvm_splat(e, index, dt_llvm_width(sum)), "");
    }
    return dt_llvm_splat(e, sum, width);
}

static void reduce_position(dt_llvm_nest *n, const dt_reduction *reduction, LLVMValueRef *slot) {
    dt_llvm_emitter *e = n->e;
    int width = dt_llvm_width(slot[0]);
    LLVMValueRef x = dt_llvm_operand(n, reduction->operand, width > 1);
    LLVMValueRef better = is_better(e, reduction->combiner == DT_COMBINE_ARGMAX, dt_reduction_element(n->nest, reduction), x, slot[0]);
    if (n->mask != NULL && vector_is_reduced(n)) better = LLVMBuildAnd(e->builder, better, n->mask, "");
    slot[0] = LLVMBuildSelect(e->builder, better, x, slot[0], "");
    slot[1] = LLVMBuildSelect(e->builder, better, current_position(n, width), slot[1], "");
}

static void reduce_value(dt_llvm_nest *n, const dt_reduction *reduction, LLVMValueRef *slot) {
    dt_llvm_emitter *e = n->e;
    const dt_instruction *operand = &n->nest->instructions[reduction->operand];
    bool wide = dt_llvm_width(slot[0]) > 1;
    LLVMValueRef next;
    if (dt_reduction_is_product(n->nest, reduction)) {
        next = dt_llvm_fused(e, dt_llvm_operand(n, operand->operands[0], wide), dt_llvm_operand(n, operand->operands[1], wide), slot[0]);
    } else {
        LLVMValueRef x = dt_llvm_convert(e, dt_llvm_operand(n, reduction->operand, wide), operand->dtype, reduction->dtype);
        next = combine(e, reduction->combiner, reduction->dtype, slot[0], x);
    }
    slot[0] = n->mask != NULL && vector_is_reduced(n) ? LLVMBuildSelect(e->builder, n->mask, next, slot[0], "") : next;
}

void dt_llvm_reduce_step(dt_llvm_nest *n) {
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        LLVMValueRef *slot = &n->e->carried[n->slots[r]];
        if (found_by(n, r) >= 0) continue;
        if (dt_combiner_is_position(reduction->combiner))
            reduce_position(n, reduction, slot);
        else
            reduce_value(n, reduction, slot);
    }
}

/* ---- the end ---- */

/* Reduces the lanes of both arrays to one: of equal elements the lower position wins. */
static LLVMValueRef position_tree(dt_llvm_emitter *e, bool greatest, dt_dtype dtype, LLVMValueRef best, LLVMValueRef position) {
    for (int half = dt_llvm_width(best) / 2; half >= 1; half /= 2) {
        LLVMValueRef best_a = dt_llvm_lanes(e, best, 0, half), best_b = dt_llvm_lanes(e, best, half, half);
        LLVMValueRef at_a = dt_llvm_lanes(e, position, 0, half), at_b = dt_llvm_lanes(e, position, half, half);
        LLVMValueRef worse = is_better(e, greatest, dtype, best_a, best_b), better = is_better(e, greatest, dtype, best_b, best_a);
        LLVMValueRef earlier = LLVMBuildICmp(e->builder, LLVMIntSLT, at_b, at_a, "");
        LLVMValueRef tie = LLVMBuildAnd(e->builder, earlier, LLVMBuildNot(e->builder, worse, ""), "");
        LLVMValueRef take_b = LLVMBuildOr(e->builder, better, tie, "");
        best = LLVMBuildSelect(e->builder, take_b, best_b, best_a, "");
        position = LLVMBuildSelect(e->builder, take_b, at_b, at_a, "");
    }
    return position;
}

static LLVMValueRef value_tree(dt_llvm_emitter *e, dt_combiner combiner, dt_dtype dtype, LLVMValueRef lanes) {
    for (int half = dt_llvm_width(lanes) / 2; half >= 1; half /= 2)
        lanes = combine(e, combiner, dtype, dt_llvm_lanes(e, lanes, 0, half), dt_llvm_lanes(e, lanes, half, half));
    return lanes;
}

static void end_copy(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef *results = DT_NEW_ARRAY(e->arena, LLVMValueRef, n->nest->n_reductions);
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        int finder = found_by(n, r);
        LLVMValueRef *slot = &e->carried[n->slots[finder >= 0 ? finder : r]];
        bool positions = dt_combiner_is_position(reduction->combiner);
        results[r] = slot[positions];
        if (vector_is_reduced(n)) {
            if (positions)
                results[r] = position_tree(e, reduction->combiner == DT_COMBINE_ARGMAX, dt_reduction_element(n->nest, reduction), slot[0], slot[1]);
            else
                results[r] = value_tree(e, reduction->combiner, reduction->dtype, slot[0]);
        }
        if (positions) results[r] = LLVMBuildIntCast2(e->builder, results[r], dt_llvm_like(results[r], dt_llvm_type(e, reduction->dtype)), true, "");
    }
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = results[n->nest->instructions[i].index];
}

void dt_llvm_reduce_end(dt_llvm_nest *n) {
    for (int c = 0; c < n->n_copies; c++) {
        dt_llvm_use_copy(n, c);
        end_copy(n);
    }
    n->e->n_carried = 0;
}
