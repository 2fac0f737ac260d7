/* llvm_kernel: a kernel as a function, and the loops over rows, and over blocks of a row, that neighbouring nests share. */
#include "compiler/codegen/llvm.h"

#include <stddef.h>
#include <string.h>

static void add_attribute(dt_llvm_emitter *e, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->context, kind, 0));
}

/* void kernel(void *const *buffers, const dt_launch *launch), as abi/launch.h has it. Nothing is thrown, and no loop is to be replaced by a call of
 * memset or memcpy, which nobody would provide. */
static void begin_function(dt_llvm_emitter *e, const char *name) {
    LLVMTypeRef type = LLVMFunctionType(e->void_type, (LLVMTypeRef[]){e->pointer, e->pointer}, 2, false);
    e->function = LLVMAddFunction(e->module, name, type);
    add_attribute(e, "nounwind");
    LLVMAddTargetDependentFunctionAttr(e->function, "no-builtins", "");
    LLVMAddTargetDependentFunctionAttr(e->function, "target-cpu", e->target->cpu);
    LLVMAddTargetDependentFunctionAttr(e->function, "target-features", e->target->features);
    if (e->target->vector_bytes == 64) LLVMAddTargetDependentFunctionAttr(e->function, "prefer-vector-width", "512");
    LLVMPositionBuilderAtEnd(e->builder, dt_llvm_block(e, "entry"));
}

static LLVMValueRef item(dt_llvm_emitter *e, LLVMTypeRef type, LLVMValueRef array, size_t index) {
    LLVMValueRef at = dt_llvm_i64(e, (int64_t)index);
    LLVMValueRef load = LLVMBuildLoad2(e->builder, type, LLVMBuildInBoundsGEP2(e->builder, type, array, &at, 1, ""), "");
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return load;
}

static void load_arguments(dt_llvm_emitter *e) {
    LLVMValueRef buffers = LLVMGetParam(e->function, 0);
    e->launch = LLVMGetParam(e->function, 1);
    e->rows = item(e, e->i64, e->launch, offsetof(dt_launch, rows) / 8);
    e->valid = item(e, e->i64, e->launch, offsetof(dt_launch, valid) / 8);
    e->bad_index = item(e, e->pointer, e->launch, offsetof(dt_launch, bad_index) / 8);
    if (e->at_work.kernel->divided) {
        e->part = item(e, e->i64, e->launch, offsetof(dt_launch, part) / 8);
        e->n_parts = item(e, e->i64, e->launch, offsetof(dt_launch, n_parts) / 8);
        e->share = item(e, e->i64, e->launch, offsetof(dt_launch, share) / 8);
        e->n_shares = item(e, e->i64, e->launch, offsetof(dt_launch, n_shares) / 8);
    }
    e->buffers = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->at_work.kernel->n_buffers);
    for (int b = 0; b < e->at_work.kernel->n_buffers; b++) {
        const char *name = e->at_work.plan->buffers[e->at_work.kernel->buffers[b]].name;
        e->buffers[b] = item(e, e->pointer, buffers, (size_t)b);
        if (name != NULL) LLVMSetValueName2(e->buffers[b], name, strlen(name));
    }
}

/* Nests that share a loop over blocks inside of that over rows, which has been entered: what depends on no block comes before it. */
static void block_group(dt_llvm_emitter *e, dt_llvm_nest **group, int n_nests, dt_llvm_sum row) {
    for (int k = 0; k < n_nests; k++) {
        dt_llvm_enter(group[k], 0, row);
        dt_llvm_emit_level(group[k], 1, false);
    }
    dt_llvm_loop blocks = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, group[0]->nest->loops[1].extent), 1, false);
    for (int k = 0; k < n_nests; k++) dt_llvm_iteration(group[k], 1, (dt_llvm_sum){blocks.index, 0});
    dt_llvm_loop_end(e, &blocks);
}

/* Nests that share the loop over rows: what depends on no row comes before it. */
static void row_group(dt_llvm_emitter *e, const dt_nest *nests, int n_nests) {
    dt_llvm_nest **group = DT_NEW_ARRAY(e->arena, dt_llvm_nest *, n_nests);
    for (int k = 0; k < n_nests; k++) {
        group[k] = dt_llvm_nest_prepare(e, &nests[k], nests, n_nests);
        dt_llvm_emit_level(group[k], 0, false);
    }
    dt_llvm_loop rows = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_extent(e, nests[0].loops[0].extent), 1, true);
    for (int k = 0, end; k < n_nests; k = end) {
        for (end = k + 1; end < n_nests && nests[end].in_blocks;) end++;
        if (end > k + 1)
            block_group(e, &group[k], end - k, (dt_llvm_sum){rows.index, 0});
        else
            dt_llvm_iteration(group[k], 0, (dt_llvm_sum){rows.index, 0});
    }
    dt_llvm_loop_end(e, &rows);
}

/* Iterations [first, end) of loop 0. */
typedef struct iteration_range {
    LLVMValueRef first, end;
} iteration_range;

static LLVMValueRef least(dt_llvm_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, x, y, ""), x, y, "");
}

static LLVMValueRef next(dt_llvm_emitter *e, LLVMValueRef number) { return LLVMBuildAdd(e->builder, number, dt_llvm_i64(e, 1), ""); }

/* The first iteration of `share`: dt_share_first_unit, of this nest. */
static LLVMValueRef start_of_share(dt_llvm_emitter *e, const dt_nest *nest, LLVMValueRef share) {
    const dt_nest_share *how = &nest->share;
    LLVMValueRef turn = LLVMBuildURem(e->builder, dt_llvm_i64(e, how->turn), e->n_shares, "");
    LLVMValueRef sum = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, dt_llvm_i64(e, how->n_units), share, ""), turn, "");
    LLVMValueRef unit = LLVMBuildSub(e->builder, LLVMBuildUDiv(e->builder, sum, e->n_shares, ""), dt_llvm_i64(e, how->first_unit), "");
    LLVMValueRef start = LLVMBuildMul(e->builder, unit, dt_llvm_i64(e, how->unit_iterations), "");
    LLVMValueRef is_before = LLVMBuildICmp(e->builder, LLVMIntSLT, unit, dt_llvm_i64(e, 0), "");
    return least(e, LLVMBuildSelect(e->builder, is_before, dt_llvm_i64(e, 0), start, ""), dt_llvm_i64(e, nest->loops[0].extent));
}

static iteration_range share_of(dt_llvm_emitter *e, const dt_nest *nest) {
    if (nest->share.n_units == 0) return (iteration_range){dt_llvm_i64(e, 0), dt_llvm_i64(e, nest->loops[0].extent)};
    return (iteration_range){start_of_share(e, nest, e->share), start_of_share(e, nest, next(e, e->share))};
}

/* The first iteration of `part` of the share, as kernel.h has it. */
static LLVMValueRef start_of_part(dt_llvm_emitter *e, const dt_nest *nest, iteration_range share, LLVMValueRef part) {
    int64_t iterations = nest->part_iterations;
    LLVMValueRef n = LLVMBuildSub(e->builder, share.end, share.first, "");
    LLVMValueRef n_units = LLVMBuildUDiv(e->builder, LLVMBuildAdd(e->builder, n, dt_llvm_i64(e, iterations - 1), ""), dt_llvm_i64(e, iterations), "");
    LLVMValueRef unit = LLVMBuildUDiv(e->builder, LLVMBuildMul(e->builder, n_units, part, ""), e->n_parts, "");
    LLVMValueRef start = LLVMBuildAdd(e->builder, share.first, LLVMBuildMul(e->builder, unit, dt_llvm_i64(e, iterations), ""), "");
    bool is_even = nest->share.n_units == 0 && nest->loops[0].extent % iterations == 0;
    return is_even ? start : least(e, start, share.end);
}

/* A nest of a divided kernel: a range of its outermost loop, or all of the process's share in part 0. */
static void part_of_nest(dt_llvm_emitter *e, const dt_nest *nest) {
    dt_llvm_nest *n = dt_llvm_nest_prepare(e, nest, NULL, 0);
    if (nest->part_iterations > 0) {
        iteration_range share = share_of(e, nest);
        n->part_start = start_of_part(e, nest, share, e->part);
        n->part_end = start_of_part(e, nest, share, next(e, e->part));
        dt_llvm_nest_emit(n, 0);
    } else {
        LLVMValueRef is_first = LLVMBuildICmp(e->builder, LLVMIntEQ, e->part, dt_llvm_i64(e, 0), "");
        LLVMBasicBlockRef join = dt_llvm_if_begin(e, is_first, true);
        if (nest->share.n_units > 0) {
            iteration_range share = share_of(e, nest);
            n->part_start = share.first;
            n->part_end = share.end;
        }
        dt_llvm_nest_emit(n, 0);
        dt_llvm_if_end(e, join);
    }
}

static void all_nests(dt_llvm_emitter *e, const dt_kernel_function *kernel) {
    for (int k = 0, end; k < kernel->n_nests; k = end) {
        end = k + 1;
        if (kernel->nests[k].in_rows) {
            while (end < kernel->n_nests && kernel->nests[end].in_rows) end++;
            row_group(e, &kernel->nests[k], end - k);
        } else if (kernel->divided) {
            part_of_nest(e, &kernel->nests[k]);
        } else {
            dt_llvm_nest_emit(dt_llvm_nest_prepare(e, &kernel->nests[k], NULL, 0), 0);
        }
    }
}

/* With streaming stores, then with ordinary ones: which copy runs is up to where the buffers lie. */
static void both_ways(dt_llvm_emitter *e, const dt_kernel_function *kernel, LLVMValueRef may_stream) {
    LLVMBasicBlockRef join = dt_llvm_if_begin(e, may_stream, true);
    e->streams = true;
    all_nests(e, kernel);
    dt_llvm_stream_end(e);
    e->streams = false;
    dt_llvm_if_end(e, join);
    join = dt_llvm_if_begin(e, LLVMBuildNot(e->builder, may_stream, ""), false);
    all_nests(e, kernel);
    dt_llvm_if_end(e, join);
}

void dt_llvm_kernel(dt_llvm_emitter *e, const dt_plan *plan, const dt_kernel_function *kernel) {
    e->at_work = (dt_llvm_function){.plan = plan, .kernel = kernel};
    for (size_t i = 0; i < e->functions.n; i++)
        if (dt_llvm_same_kernel(&e->functions.items[i], &e->at_work)) {
            LLVMValueRef function = e->functions.items[i].function;
            LLVMAddAlias2(e->module, LLVMGlobalGetValueType(function), 0, function, kernel->name);
            return;
        }
    e->n_carried = 0;
    e->packed = NULL;
    begin_function(e, kernel->name);
    e->at_work.function = e->function;
    dt_list_push(e->arena, &e->functions, e->at_work);
    load_arguments(e);
    LLVMValueRef may_stream = dt_llvm_stream_condition(e);
    if (may_stream != NULL)
        both_ways(e, kernel, may_stream);
    else
        all_nests(e, kernel);
    LLVMBuildRetVoid(e->builder);
}
