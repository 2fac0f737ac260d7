/* llvm_remainder: C's fmod of floats, exact for all numbers, in vectors.
 *
 * |x| - floor(|x| / |y|) |y| is exact in one fused operation as long as the quotient is below 2^50: rounding it can make the floor too large by one,
 * which shows as a negative rest. A larger quotient is taken away in steps of 50 bits: of the rest by |y| 2^(50 j), from the greatest j on. These are
 * numbers that f64 has, and every rest is one. Narrower types are computed in f64. Nearly always one step is all: two loops that do not loop.
 *
 * x of infinity, y of 0 and NaN give NaN; finite x and infinite y give x. The sign is that of x, of 0 too. */
#include "compiler/codegen/llvm.h"

#include <math.h>

static const double STEP = 0x1p50;

/* Whether any lane has it. */
static LLVMValueRef any(dt_llvm_emitter *e, LLVMValueRef mask) {
    LLVMTypeRef type = LLVMTypeOf(mask);
    return dt_llvm_width(mask) == 1 ? mask : dt_llvm_intrinsic(e, "llvm.vector.reduce.or", &type, 1, &mask, 1);
}

/* do { … } while (any lane goes on): two values that change. */
typedef struct repeat {
    LLVMBasicBlockRef body;
    LLVMValueRef phis[2];
} repeat;

static repeat repeat_begin(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    repeat loop = {.body = dt_llvm_block(e, "repeat")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, loop.body);
    LLVMPositionBuilderAtEnd(e->builder, loop.body);
    LLVMValueRef first[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        loop.phis[k] = LLVMBuildPhi(e->builder, LLVMTypeOf(first[k]), "");
        LLVMAddIncoming(loop.phis[k], &first[k], &before, 1);
    }
    return loop;
}

static void repeat_end(dt_llvm_emitter *e, const repeat *loop, LLVMValueRef goes_on, LLVMValueRef a, LLVMValueRef b) {
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder), exit = dt_llvm_block(e, "done");
    LLVMValueRef next[2] = {a, b};
    for (int k = 0; k < 2; k++) LLVMAddIncoming(loop->phis[k], &next[k], &last, 1);
    LLVMBuildCondBr(e->builder, any(e, goes_on), loop->body, exit);
    LLVMMoveBasicBlockAfter(exit, last);
    LLVMPositionBuilderAtEnd(e->builder, exit);
}

/* y 2^(50 j), the greatest that is not above the finite x, or y. That of 0 is 0. */
static LLVMValueRef greatest_step(dt_llvm_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef builder = e->builder;
    repeat loop = repeat_begin(e, y, LLVMConstNull(dt_llvm_like(y, e->i1)));
    LLVMValueRef step = loop.phis[0], next = LLVMBuildFMul(builder, step, dt_llvm_real(LLVMTypeOf(y), STEP), "");
    LLVMValueRef fits =
        LLVMBuildAnd(builder, LLVMBuildFCmp(builder, LLVMRealOLE, next, x, ""), LLVMBuildFCmp(builder, LLVMRealOGT, next, step, ""), "");
    LLVMValueRef greater = LLVMBuildSelect(builder, fits, next, step, "");
    repeat_end(e, &loop, fits, greater, fits);
    return greater;
}

/* x modulo y for a quotient below 2^50; finite and not negative. */
static LLVMValueRef rest_of_step(dt_llvm_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef quotient = dt_llvm_unary(e, "llvm.floor", LLVMBuildFDiv(builder, x, y, ""));
    LLVMValueRef rest = dt_llvm_fused(e, LLVMBuildFNeg(builder, quotient, ""), y, x);
    LLVMValueRef is_negative = LLVMBuildFCmp(builder, LLVMRealOLT, rest, LLVMConstNull(LLVMTypeOf(x)), "");
    return LLVMBuildSelect(builder, is_negative, LLVMBuildFAdd(builder, rest, y, ""), rest, "");
}

LLVMValueRef dt_llvm_remainder(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef narrow = LLVMTypeOf(a), type = dt_llvm_like(a, e->f64);
    LLVMValueRef x = narrow == type ? a : LLVMBuildFPExt(builder, a, type, ""), size = dt_llvm_unary(e, "llvm.fabs", x);
    LLVMValueRef y = dt_llvm_unary(e, "llvm.fabs", narrow == type ? b : LLVMBuildFPExt(builder, b, type, "")),
                 infinity = dt_llvm_real(type, INFINITY);
    LLVMValueRef infinite = LLVMBuildFCmp(builder, LLVMRealOEQ, y, infinity, ""), finite = LLVMBuildFCmp(builder, LLVMRealOLT, size, infinity, "");
    LLVMValueRef first = greatest_step(e, LLVMBuildSelect(builder, finite, size, LLVMConstNull(type), ""), y);
    repeat loop = repeat_begin(e, size, first);
    LLVMValueRef step = loop.phis[1], rest = rest_of_step(e, loop.phis[0], step);
    LLVMValueRef goes_on = LLVMBuildFCmp(builder, LLVMRealOGT, step, y, "");
    LLVMValueRef next = LLVMBuildSelect(builder, goes_on, LLVMBuildFMul(builder, step, dt_llvm_real(type, 1 / STEP), ""), step, "");
    repeat_end(e, &loop, goes_on, rest, next);
    rest = LLVMBuildSelect(builder, LLVMBuildAnd(builder, infinite, finite, ""), size, rest, "");
    rest = dt_llvm_intrinsic(e, "llvm.copysign", &type, 1, (LLVMValueRef[]){rest, x}, 2);
    return narrow == type ? rest : LLVMBuildFPTrunc(builder, rest, narrow, "");
}
