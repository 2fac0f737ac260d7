/* llvm_build: the few phrases of LLVM IR that everything else is written in: types, vectors, intrinsics, loops, branches. */
#include "compiler/codegen/llvm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void dt_llvm_emitter_begin(dt_llvm_emitter *e, dt_arena *arena, const dt_llvm_target *target, const char *triple, LLVMTargetDataRef layout) {
    LLVMContextRef context = LLVMContextCreate();
    *e = (dt_llvm_emitter){.arena = arena, .target = target, .context = context};
    e->module = LLVMModuleCreateWithNameInContext("kernels", context);
    LLVMSetTarget(e->module, triple);
    LLVMSetModuleDataLayout(e->module, layout);
    e->builder = LLVMCreateBuilderInContext(context);
    e->void_type = LLVMVoidTypeInContext(context);
    e->pointer = LLVMPointerTypeInContext(context, 0);
    e->i1 = LLVMInt1TypeInContext(context);
    e->i8 = LLVMInt8TypeInContext(context);
    e->i16 = LLVMInt16TypeInContext(context);
    e->i32 = LLVMInt32TypeInContext(context);
    e->i64 = LLVMInt64TypeInContext(context);
    e->f16 = LLVMHalfTypeInContext(context);
    e->f32 = LLVMFloatTypeInContext(context);
    e->f64 = LLVMDoubleTypeInContext(context);
}

void dt_llvm_emitter_end(dt_llvm_emitter *e) {
    if (e->builder != NULL) LLVMDisposeBuilder(e->builder);
    if (e->module != NULL) LLVMDisposeModule(e->module);
    if (e->context != NULL) LLVMContextDispose(e->context);
    e->builder = NULL, e->module = NULL, e->context = NULL;
}

/* ---- types ---- */

LLVMTypeRef dt_llvm_type(dt_llvm_emitter *e, dt_dtype dtype) {
    switch (dtype) {
    case DT_F32:
    case DT_F16:
    case DT_BF16: return e->f32;
    case DT_F64: return e->f64;
    case DT_I8:
    case DT_U8: return e->i8;
    case DT_I32: return e->i32;
    case DT_I64: return e->i64;
    case DT_BOOL: return e->i1;
    case DT_N_DTYPES: break;
    }
    assert(!"a dtype");
    return NULL;
}

LLVMTypeRef dt_llvm_memory_type(dt_llvm_emitter *e, dt_dtype dtype) {
    return dtype == DT_F16 ? e->f16 : dtype == DT_BF16 ? e->i16 : dtype == DT_BOOL ? e->i8 : dt_llvm_type(e, dtype);
}

LLVMTypeRef dt_llvm_vector(LLVMTypeRef element, int width) { return width == 1 ? element : LLVMVectorType(element, (unsigned)width); }

int dt_llvm_width(LLVMValueRef value) {
    LLVMTypeRef type = LLVMTypeOf(value);
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

LLVMTypeRef dt_llvm_element(LLVMValueRef value) {
    LLVMTypeRef type = LLVMTypeOf(value);
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

LLVMTypeRef dt_llvm_like(LLVMValueRef value, LLVMTypeRef element) { return dt_llvm_vector(element, dt_llvm_width(value)); }

/* ---- constants and vectors ---- */

/* `element` in every lane of `type`, which may be a scalar type. */
static LLVMValueRef constant_splat(LLVMTypeRef type, LLVMValueRef element) {
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return element;
    LLVMValueRef lanes[256];
    unsigned n = LLVMGetVectorSize(type);
    assert(n <= sizeof lanes / sizeof *lanes);
    for (unsigned i = 0; i < n; i++) lanes[i] = element;
    return LLVMConstVector(lanes, n);
}

static LLVMTypeRef element_of(LLVMTypeRef type) { return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type; }

LLVMValueRef dt_llvm_i64(dt_llvm_emitter *e, int64_t value) { return LLVMConstInt(e->i64, (uint64_t)value, false); }

LLVMValueRef dt_llvm_integer(LLVMTypeRef type, int64_t value) {
    LLVMTypeRef element = element_of(type);
    unsigned bits = LLVMGetIntTypeWidth(element);
    uint64_t low = (uint64_t)value & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
    return constant_splat(type, LLVMConstInt(element, low, false));
}

LLVMValueRef dt_llvm_real(LLVMTypeRef type, double value) {
    LLVMTypeRef element = element_of(type);
    if (LLVMGetTypeKind(element) == LLVMFloatTypeKind) value = (float)value;
    return constant_splat(type, LLVMConstReal(element, value));
}

LLVMValueRef dt_llvm_splat(dt_llvm_emitter *e, LLVMValueRef value, int width) {
    if (width == 1 || dt_llvm_width(value) == width) return value;
    assert(dt_llvm_width(value) == 1);
    LLVMTypeRef type = dt_llvm_vector(LLVMTypeOf(value), width);
    if (LLVMIsConstant(value)) return constant_splat(type, value);
    LLVMValueRef one = LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), value, dt_llvm_i64(e, 0), "");
    return LLVMBuildShuffleVector(e->builder, one, LLVMGetPoison(type), LLVMConstNull(dt_llvm_vector(e->i32, width)), "");
}

LLVMValueRef dt_llvm_lane(dt_llvm_emitter *e, LLVMValueRef value, int lane) {
    return dt_llvm_width(value) == 1 ? value : LLVMBuildExtractElement(e->builder, value, dt_llvm_i64(e, lane), "");
}

LLVMValueRef dt_llvm_lanes(dt_llvm_emitter *e, LLVMValueRef value, int first, int n) {
    if (n == 1) return dt_llvm_lane(e, value, first);
    LLVMValueRef lanes[256];
    for (int i = 0; i < n; i++) lanes[i] = LLVMConstInt(e->i32, (uint64_t)(first + i), false);
    return LLVMBuildShuffleVector(e->builder, value, LLVMGetPoison(LLVMTypeOf(value)), LLVMConstVector(lanes, (unsigned)n), "");
}

LLVMValueRef dt_llvm_iota(LLVMTypeRef element, int width) {
    LLVMValueRef lanes[256];
    for (int i = 0; i < width; i++) lanes[i] = LLVMConstInt(element, (uint64_t)i, false);
    return width == 1 ? lanes[0] : LLVMConstVector(lanes, (unsigned)width);
}

LLVMValueRef dt_llvm_prefix(dt_llvm_emitter *e, int n, int width) {
    LLVMValueRef lanes[256];
    for (int i = 0; i < width; i++) lanes[i] = LLVMConstInt(e->i1, i < n, false);
    return width == 1 ? lanes[0] : LLVMConstVector(lanes, (unsigned)width);
}

LLVMValueRef dt_llvm_prefix_at_run_time(dt_llvm_emitter *e, LLVMValueRef n, int width) {
    return LLVMBuildICmp(e->builder, LLVMIntULT, dt_llvm_iota(e->i64, width), dt_llvm_splat(e, n, width), "");
}

LLVMValueRef dt_llvm_intrinsic(dt_llvm_emitter *e, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *arguments, int n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    assert(id != 0);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, types, (size_t)n_types);
    return LLVMBuildCall2(e->builder, LLVMIntrinsicGetType(e->context, id, types, (size_t)n_types), function, arguments, (unsigned)n, "");
}

LLVMValueRef dt_llvm_unary(dt_llvm_emitter *e, const char *name, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    return dt_llvm_intrinsic(e, name, &type, 1, &x, 1);
}

/* ---- control ---- */

LLVMBasicBlockRef dt_llvm_block(dt_llvm_emitter *e, const char *name) { return LLVMAppendBasicBlockInContext(e->context, e->function, name); }

dt_llvm_loop dt_llvm_loop_begin(dt_llvm_emitter *e, LLVMValueRef start, LLVMValueRef end, int64_t step, bool may_be_empty) {
    dt_llvm_loop loop = {.end = end,
                         .step = dt_llvm_i64(e, step),
                         .may_be_empty = may_be_empty,
                         .before = LLVMGetInsertBlock(e->builder),
                         .body = dt_llvm_block(e, "loop"),
                         .outside = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->n_carried),
                         .phis = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->n_carried)};
    loop.exit = dt_llvm_block(e, "done");
    if (may_be_empty)
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, start, end, ""), loop.body, loop.exit);
    else
        LLVMBuildBr(e->builder, loop.body);
    LLVMPositionBuilderAtEnd(e->builder, loop.body);
    loop.index = LLVMBuildPhi(e->builder, e->i64, "i");
    LLVMAddIncoming(loop.index, &start, &loop.before, 1);
    for (int k = 0; k < e->n_carried; k++) {
        loop.outside[k] = e->carried[k];
        loop.phis[k] = LLVMBuildPhi(e->builder, LLVMTypeOf(e->carried[k]), "");
        LLVMAddIncoming(loop.phis[k], &e->carried[k], &loop.before, 1);
        e->carried[k] = loop.phis[k];
    }
    return loop;
}

void dt_llvm_loop_end(dt_llvm_emitter *e, dt_llvm_loop *loop) {
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder);
    LLVMValueRef next = LLVMBuildNSWAdd(e->builder, loop->index, loop->step, "");
    LLVMAddIncoming(loop->index, &next, &last, 1);
    for (int k = 0; k < e->n_carried; k++) LLVMAddIncoming(loop->phis[k], &e->carried[k], &last, 1);
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, next, loop->end, ""), loop->body, loop->exit);
    LLVMMoveBasicBlockAfter(loop->exit, last);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
    for (int k = 0; loop->may_be_empty && k < e->n_carried; k++) {
        LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(e->carried[k]), "");
        LLVMAddIncoming(phi, (LLVMValueRef[]){loop->outside[k], e->carried[k]}, (LLVMBasicBlockRef[]){loop->before, last}, 2);
        e->carried[k] = phi;
    }
}

LLVMBasicBlockRef dt_llvm_if_begin(dt_llvm_emitter *e, LLVMValueRef condition, bool is_likely) {
    LLVMBasicBlockRef then = dt_llvm_block(e, "then"), join = dt_llvm_block(e, "join");
    LLVMValueRef branch = LLVMBuildCondBr(e->builder, condition, then, join);
    if (!is_likely) {
        LLVMMetadataRef weights[3] = {LLVMMDStringInContext2(e->context, "branch_weights", 14), LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false)),
                                      LLVMValueAsMetadata(LLVMConstInt(e->i32, 1 << 20, false))};
        LLVMValueRef node = LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, weights, 3));
        LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "prof", 4), node);
    }
    LLVMPositionBuilderAtEnd(e->builder, then);
    return join;
}

void dt_llvm_if_end(dt_llvm_emitter *e, LLVMBasicBlockRef join) {
    LLVMBuildBr(e->builder, join);
    LLVMMoveBasicBlockAfter(join, LLVMGetInsertBlock(e->builder));
    LLVMPositionBuilderAtEnd(e->builder, join);
}
