/* llvm_zeros: sums of products that leave out those with a zero of operand a (compiler/passes/choose_zeros.c says which nests do).
 *
 *     for iterations of the loops that a depends on, but for reduced ones: a list
 *         for reduced loops:  if a is not 0, the list has a, and how far from its first element b has the other factor
 *     for outer loops, with the blocks of the vector loop among them
 *         for rows
 *             sums[vectors] = 0;  for a, at in the list:  sums[v] = fma(a, b of vector v at `at`, sums[v])
 *
 * Lists are on the stack: all values, then all places, then the length of each list. */
#include "compiler/codegen/llvm.h"

enum {
    VALUE_BYTES = 4
};

/* The address of item `index` of the values, the places, or the lengths. */
static LLVMValueRef item(dt_llvm_emitter *e, LLVMTypeRef type, int64_t first_byte, LLVMValueRef index) {
    LLVMValueRef start = dt_llvm_i64(e, first_byte), first = LLVMBuildInBoundsGEP2(e->builder, e->i8, e->lists, &start, 1, "");
    return LLVMBuildInBoundsGEP2(e->builder, type, first, &index, 1, "");
}
static LLVMValueRef value_item(dt_llvm_emitter *e, LLVMValueRef index) { return item(e, e->f32, 0, index); }
static LLVMValueRef place_item(dt_llvm_emitter *e, LLVMValueRef index) { return item(e, e->i32, VALUE_BYTES * DT_MOST_LISTED, index); }
static LLVMValueRef length_item(dt_llvm_emitter *e, LLVMValueRef index) { return item(e, e->i32, 2 * VALUE_BYTES * DT_MOST_LISTED, index); }

/* sum of factor * loop. */
static LLVMValueRef weighed(dt_llvm_nest *n, const int64_t *factors, bool reduced) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef sum = dt_llvm_i64(e, 0);
    for (int l = 0; l < n->nest->n_loops; l++) {
        if (factors[l] == 0 || dt_nest_reduces(n->nest, l) != reduced) continue;
        LLVMValueRef index = dt_llvm_sum_value(e, n->loops[l]);
        sum = LLVMBuildNSWAdd(e->builder, sum, LLVMBuildNSWMul(e->builder, index, dt_llvm_i64(e, factors[l]), ""), "");
    }
    return sum;
}

/* ---- filling ---- */

/* The element of a at work: it is stored, and stays if it is not 0. */
static void list_element(dt_llvm_nest *n, LLVMValueRef first) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef a = dt_llvm_load_factor(n, n->nest->tiling.a, (dt_llvm_sum){NULL, 0}, 1), at = LLVMBuildNSWAdd(e->builder, first, e->carried[0], "");
    LLVMValueRef place = weighed(n, n->nest->instructions[n->nest->tiling.b].address.coefficients, true);
    LLVMBuildStore(e->builder, a, value_item(e, at));
    LLVMBuildStore(e->builder, LLVMBuildTrunc(e->builder, place, e->i32, ""), place_item(e, at));
    LLVMValueRef stays = LLVMBuildFCmp(e->builder, LLVMRealUNE, a, LLVMConstNull(e->f32), "");
    e->carried[0] = LLVMBuildNSWAdd(e->builder, e->carried[0], LLVMBuildZExt(e->builder, stays, e->i64, ""), "");
}

/* The loops from `level` on, in their order: first those that have lists of their own, then, with `first` of the list at work, reduced ones. */
static void fill_from(dt_llvm_nest *n, const dt_factor_lists *lists, int level, LLVMValueRef first) {
    dt_llvm_emitter *e = n->e;
    if (level == n->nest->n_loops) {
        list_element(n, first);
        return;
    }
    if (level == n->n_outer && first == NULL) {
        LLVMValueRef list = weighed(n, lists->strides, false);
        e->n_carried = 1;
        e->carried = DT_NEW_ARRAY(e->arena, LLVMValueRef, 1);
        e->carried[0] = dt_llvm_i64(e, 0);
        fill_from(n, lists, level, LLVMBuildNSWMul(e->builder, list, dt_llvm_i64(e, lists->n_elements), ""));
        e->n_carried = 0;
        LLVMBuildStore(e->builder, LLVMBuildTrunc(e->builder, e->carried[0], e->i32, ""), length_item(e, list));
        return;
    }
    const int loop = n->choices->order[level];
    if (level < n->n_outer && lists->strides[loop] == 0) {
        fill_from(n, lists, level + 1, first);
        return;
    }
    dt_llvm_sum *saved = dt_llvm_save_addresses(n), index = n->loops[loop];
    dt_llvm_loop walk = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, n->nest->loops[loop].extent), 1, false);
    dt_llvm_enter(n, loop, (dt_llvm_sum){walk.index, 0});
    fill_from(n, lists, level + 1, first);
    dt_llvm_loop_end(e, &walk);
    n->loops[loop] = index;
    dt_llvm_restore_addresses(n, saved);
}

void dt_llvm_fill_lists(dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    const dt_factor_lists lists = dt_nest_factor_lists(e->arena, n->nest);
    if (e->lists == NULL) e->lists = dt_llvm_stack(e, e->i8, 2 * VALUE_BYTES * DT_MOST_LISTED + 4 * DT_MOST_LISTS, VALUE_BYTES);
    fill_from(n, &lists, 0, NULL);
}

/* ---- reading ---- */

void dt_llvm_sum_list(dt_llvm_nest *n, const dt_tile *t) {
    dt_llvm_emitter *e = n->e;
    const dt_factor_lists lists = dt_nest_factor_lists(e->arena, n->nest);
    LLVMValueRef list = weighed(n, lists.strides, false), first = LLVMBuildNSWMul(e->builder, list, dt_llvm_i64(e, lists.n_elements), "");
    LLVMValueRef length = LLVMBuildZExt(e->builder, LLVMBuildLoad2(e->builder, e->i32, length_item(e, list), ""), e->i64, "");
    dt_llvm_loop walk = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), length, 1, true);
    LLVMValueRef at = LLVMBuildNSWAdd(e->builder, first, walk.index, "");
    LLVMValueRef a = dt_llvm_splat(e, LLVMBuildLoad2(e->builder, e->f32, value_item(e, at), ""), n->width);
    LLVMValueRef place = LLVMBuildSExt(e->builder, LLVMBuildLoad2(e->builder, e->i32, place_item(e, at), ""), e->i64, "");
    for (int v = 0; v < t->vectors; v++) {
        LLVMValueRef b = dt_llvm_load_factor(n, n->nest->tiling.b, (dt_llvm_sum){place, (int64_t)v * n->width}, n->width);
        e->carried[v] = dt_llvm_fused(e, a, b, e->carried[v]);
    }
    dt_llvm_loop_end(e, &walk);
}
