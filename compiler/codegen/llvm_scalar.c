/* llvm_scalar: one instruction of a nest as LLVM instructions, on one element or on a vector of them alike.
 *
 * What C leaves undefined is defined here, the same for every level: integers divided by 0 give 0, as do shifts by the width or more,
 * floats that do not fit an integer saturate. Nothing is contracted: a product is rounded before it is added, unless the instruction is the fused
 * one.
 *
 * f16 and bf16 values are f32 registers; they are rounded where they are converted or stored. */
#include "compiler/codegen/llvm.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

/* ---- pieces ---- */

LLVMValueRef dt_llvm_fused(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef type = LLVMTypeOf(c);
    return dt_llvm_intrinsic(e, "llvm.fma", &type, 1, (LLVMValueRef[]){a, b, c}, 3);
}

static bool is_number(LLVMValueRef value) { /* a constant that is not NaN: all of this compiler's vector constants but NaN itself are splats */
    if (!LLVMIsConstant(value) || LLVMIsUndef(value)) return false;
    if (dt_llvm_width(value) > 1) value = LLVMGetAggregateElement(value, 0);
    LLVMBool loses;
    return value != NULL && LLVMIsAConstantFP(value) && !isnan(LLVMConstRealGetDouble(value, &loses));
}

/* The greater (or the lesser) of two floats, NaN if either is. x86's instruction gives its second operand when either is NaN, which is half of
 * it, and all of it when the first is known to be a number. */
static LLVMValueRef float_extreme(dt_llvm_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef better = LLVMBuildSelect(builder, LLVMBuildFCmp(builder, predicate, a, b, ""), a, b, "");
    return is_number(a) ? better : LLVMBuildSelect(builder, LLVMBuildFCmp(builder, LLVMRealUNO, a, a, ""), a, better, "");
}

static LLVMValueRef integer_extreme(dt_llvm_emitter *e, LLVMIntPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, predicate, a, b, ""), a, b, "");
}

LLVMValueRef dt_llvm_maximum(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, dt_dtype dtype) {
    if (dt_dtype_is_float(dtype)) return float_extreme(e, LLVMRealOGT, a, b);
    return integer_extreme(e, dt_dtype_is_signed(dtype) ? LLVMIntSGT : LLVMIntUGT, a, b);
}

LLVMValueRef dt_llvm_minimum(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, dt_dtype dtype) {
    if (dt_dtype_is_float(dtype)) return float_extreme(e, LLVMRealOLT, a, b);
    return integer_extreme(e, dt_dtype_is_signed(dtype) ? LLVMIntSLT : LLVMIntULT, a, b);
}

/* Quotient and rest of integers; both 0 where the divisor is 0, and no trap for the least number divided by -1. */
static LLVMValueRef integer_division(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, bool is_signed, bool want_rest) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = LLVMConstNull(type), one = dt_llvm_integer(type, 1);
    LLVMValueRef by_zero = LLVMBuildICmp(builder, LLVMIntEQ, b, zero, "");
    LLVMValueRef safe = LLVMBuildSelect(builder, by_zero, one, b, ""), result;
    if (!is_signed) {
        result = want_rest ? LLVMBuildURem(builder, a, safe, "") : LLVMBuildUDiv(builder, a, safe, "");
    } else {
        LLVMValueRef by_minus_one = LLVMBuildICmp(builder, LLVMIntEQ, b, dt_llvm_integer(type, -1), "");
        safe = LLVMBuildSelect(builder, by_minus_one, one, safe, "");
        LLVMValueRef negative = want_rest ? zero : LLVMBuildSub(builder, zero, a, "");
        result = want_rest ? LLVMBuildSRem(builder, a, safe, "") : LLVMBuildSDiv(builder, a, safe, "");
        result = LLVMBuildSelect(builder, by_minus_one, negative, result, "");
    }
    return LLVMBuildSelect(builder, by_zero, zero, result, "");
}

/* 0 where the amount is not within the width. */
static LLVMValueRef shifted(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, bool left) {
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = LLVMConstNull(type), bits = dt_llvm_integer(type, LLVMGetIntTypeWidth(dt_llvm_element(a)));
    LLVMValueRef within = LLVMBuildICmp(e->builder, LLVMIntULT, b, bits, ""), amount = LLVMBuildSelect(e->builder, within, b, zero, "");
    LLVMValueRef result = left ? LLVMBuildShl(e->builder, a, amount, "") : LLVMBuildLShr(e->builder, a, amount, "");
    return LLVMBuildSelect(e->builder, within, result, zero, "");
}

static LLVMValueRef high_product(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMTypeRef narrow = LLVMTypeOf(a), wide = dt_llvm_like(a, e->i64);
    LLVMValueRef x = LLVMBuildZExt(e->builder, a, wide, ""), y = LLVMBuildZExt(e->builder, b, wide, "");
    LLVMValueRef product = LLVMBuildLShr(e->builder, LLVMBuildMul(e->builder, x, y, ""), dt_llvm_integer(wide, 32), "");
    return LLVMBuildTrunc(e->builder, product, narrow, "");
}

/* ---- conversions ---- */

/* Rounds f32 to the values that f16 or bf16 has, to nearest, ties to even. NaN stays NaN, here and below. */
static LLVMValueRef round_to(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype dtype) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    if (dtype == DT_F16) return LLVMBuildFPExt(builder, LLVMBuildFPTrunc(builder, value, dt_llvm_like(value, e->f16), ""), type, "");
    LLVMTypeRef bits_type = dt_llvm_like(value, e->i32);
    LLVMValueRef bits = LLVMBuildBitCast(builder, value, bits_type, "");
    LLVMValueRef odd = LLVMBuildAnd(builder, LLVMBuildLShr(builder, bits, dt_llvm_integer(bits_type, 16), ""), dt_llvm_integer(bits_type, 1), "");
    LLVMValueRef rounded = LLVMBuildAdd(builder, bits, LLVMBuildAdd(builder, odd, dt_llvm_integer(bits_type, 0x7fff), ""), "");
    LLVMValueRef quiet = LLVMBuildOr(builder, bits, dt_llvm_integer(bits_type, 0x400000), "");
    LLVMValueRef is_nan = LLVMBuildFCmp(builder, LLVMRealUNO, value, value, "");
    rounded = LLVMBuildSelect(builder, is_nan, quiet, rounded, "");
    return LLVMBuildBitCast(builder, LLVMBuildAnd(builder, rounded, dt_llvm_integer(bits_type, ~(int64_t)0xffff), ""), type, "");
}

LLVMValueRef dt_llvm_round(dt_llvm_emitter *e, LLVMValueRef value, dt_precision precision) {
    if (precision != DT_PRECISION_TF32) return precision == DT_PRECISION_BF16 ? round_to(e, value, DT_BF16) : value;
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef bits_type = dt_llvm_like(value, e->i32);
    LLVMValueRef rounded = LLVMBuildAdd(builder, LLVMBuildBitCast(builder, value, bits_type, ""), dt_llvm_integer(bits_type, 0x1000), "");
    rounded = LLVMBuildAnd(builder, rounded, dt_llvm_integer(bits_type, ~(int64_t)0x1fff), "");
    LLVMValueRef is_nan = LLVMBuildFCmp(builder, LLVMRealUNO, value, value, "");
    return LLVMBuildSelect(builder, is_nan, value, LLVMBuildBitCast(builder, rounded, LLVMTypeOf(value), ""), "");
}

static LLVMValueRef float_to_integer(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype to) {
    LLVMTypeRef types[2] = {dt_llvm_like(value, dt_llvm_type(e, to)), LLVMTypeOf(value)};
    return dt_llvm_intrinsic(e, dt_dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &value, 1);
}

LLVMValueRef dt_llvm_convert(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype from, dt_dtype to) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = dt_llvm_like(value, dt_llvm_type(e, to));
    if (from == to) return value;
    if (to == DT_BOOL) {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(value));
        return dt_dtype_is_float(from) ? LLVMBuildFCmp(builder, LLVMRealUNE, value, zero, "") : LLVMBuildICmp(builder, LLVMIntNE, value, zero, "");
    }
    if (dt_dtype_is_float(from)) {
        if (!dt_dtype_is_float(to)) return float_to_integer(e, value, to);
        if (to == DT_F64) return LLVMBuildFPExt(builder, value, type, "");
        if (from == DT_F64) value = LLVMBuildFPTrunc(builder, value, type, "");
        return to == DT_F32 ? value : round_to(e, value, to);
    }
    if (dt_dtype_is_float(to)) {
        value = dt_dtype_is_signed(from) ? LLVMBuildSIToFP(builder, value, type, "") : LLVMBuildUIToFP(builder, value, type, "");
        return to == DT_F16 || to == DT_BF16 ? round_to(e, value, to) : value;
    }
    if (LLVMTypeOf(value) == type) return value; /* i8 and u8 */
    if (from != DT_BOOL && dt_dtype_bytes(from) > dt_dtype_bytes(to)) return LLVMBuildTrunc(builder, value, type, "");
    return dt_dtype_is_signed(from) ? LLVMBuildSExt(builder, value, type, "") : LLVMBuildZExt(builder, value, type, "");
}

/* ---- arithmetic ---- */

static LLVMValueRef on_floats(dt_llvm_emitter *e, dt_scalar_op op, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMBuilderRef builder = e->builder;
    switch (op) {
    case DT_SCALAR_ADD: return LLVMBuildFAdd(builder, a, b, "");
    case DT_SCALAR_SUBTRACT: return LLVMBuildFSub(builder, a, b, "");
    case DT_SCALAR_MULTIPLY: return LLVMBuildFMul(builder, a, b, "");
    case DT_SCALAR_DIVIDE: return LLVMBuildFDiv(builder, a, b, "");
    case DT_SCALAR_REMAINDER: return dt_llvm_remainder(e, a, b);
    case DT_SCALAR_NEGATE: return LLVMBuildFNeg(builder, a, "");
    case DT_SCALAR_ABSOLUTE: return dt_llvm_unary(e, "llvm.fabs", a);
    case DT_SCALAR_FLOOR: return dt_llvm_unary(e, "llvm.floor", a);
    case DT_SCALAR_ROUND: return dt_llvm_unary(e, "llvm.roundeven", a);
    case DT_SCALAR_ROUND_TF32: return dt_llvm_round(e, a, DT_PRECISION_TF32);
    case DT_SCALAR_ROUND_BF16: return dt_llvm_round(e, a, DT_PRECISION_BF16);
    case DT_SCALAR_SQUARE_ROOT: return dt_llvm_unary(e, "llvm.sqrt", a);
    case DT_SCALAR_FUSED: return dt_llvm_fused(e, a, b, c);
    case DT_SCALAR_EQUAL: return LLVMBuildFCmp(builder, LLVMRealOEQ, a, b, "");
    case DT_SCALAR_NOT_EQUAL: return LLVMBuildFCmp(builder, LLVMRealUNE, a, b, "");
    case DT_SCALAR_LESS: return LLVMBuildFCmp(builder, LLVMRealOLT, a, b, "");
    case DT_SCALAR_LESS_EQUAL: return LLVMBuildFCmp(builder, LLVMRealOLE, a, b, "");
    default: break;
    }
    assert(!"a scalar of floats");
    return NULL;
}

static LLVMValueRef on_integers(dt_llvm_emitter *e, dt_scalar_op op, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c, bool is_signed) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    switch (op) {
    case DT_SCALAR_ADD: return LLVMBuildAdd(builder, a, b, "");
    case DT_SCALAR_SUBTRACT: return LLVMBuildSub(builder, a, b, "");
    case DT_SCALAR_MULTIPLY: return LLVMBuildMul(builder, a, b, "");
    case DT_SCALAR_DIVIDE: return integer_division(e, a, b, is_signed, false);
    case DT_SCALAR_REMAINDER: return integer_division(e, a, b, is_signed, true);
    case DT_SCALAR_NEGATE: return LLVMBuildNeg(builder, a, "");
    case DT_SCALAR_ABSOLUTE: return is_signed ? dt_llvm_intrinsic(e, "llvm.abs", &type, 1, (LLVMValueRef[]){a, LLVMConstNull(e->i1)}, 2) : a;
    case DT_SCALAR_FLOOR:
    case DT_SCALAR_ROUND: return a;
    case DT_SCALAR_FUSED: return LLVMBuildAdd(builder, LLVMBuildMul(builder, a, b, ""), c, "");
    case DT_SCALAR_EQUAL: return LLVMBuildICmp(builder, LLVMIntEQ, a, b, "");
    case DT_SCALAR_NOT_EQUAL: return LLVMBuildICmp(builder, LLVMIntNE, a, b, "");
    case DT_SCALAR_LESS: return LLVMBuildICmp(builder, is_signed ? LLVMIntSLT : LLVMIntULT, a, b, "");
    case DT_SCALAR_LESS_EQUAL: return LLVMBuildICmp(builder, is_signed ? LLVMIntSLE : LLVMIntULE, a, b, "");
    case DT_SCALAR_AND: return LLVMBuildAnd(builder, a, b, "");
    case DT_SCALAR_OR: return LLVMBuildOr(builder, a, b, "");
    case DT_SCALAR_XOR: return LLVMBuildXor(builder, a, b, "");
    case DT_SCALAR_SHIFT_LEFT:
    case DT_SCALAR_SHIFT_RIGHT: return shifted(e, a, b, op == DT_SCALAR_SHIFT_LEFT);
    case DT_SCALAR_HIGH_PRODUCT: return high_product(e, a, b);
    default: break;
    }
    assert(!"a scalar of integers");
    return NULL;
}

static LLVMValueRef scalar(dt_llvm_nest *n, const dt_instruction *instruction, LLVMValueRef *x) {
    dt_llvm_emitter *e = n->e;
    dt_dtype dtype = n->nest->instructions[instruction->operands[0]].dtype;
    bool swap = instruction->n_operands == 2 && dt_dtype_is_float(dtype) && dt_nest_is_number(n->nest, instruction->operands[1]);
    switch (instruction->scalar) {
    case DT_SCALAR_SELECT: return LLVMBuildSelect(e->builder, x[0], x[1], x[2], "");
    case DT_SCALAR_MINIMUM: return dt_llvm_minimum(e, x[swap], x[!swap], dtype);
    case DT_SCALAR_MAXIMUM: return dt_llvm_maximum(e, x[swap], x[!swap], dtype);
    default: break;
    }
    if (dt_dtype_is_float(dtype)) return on_floats(e, instruction->scalar, x[0], x[1], x[2]);
    return on_integers(e, instruction->scalar, x[0], x[1], x[2], dt_dtype_is_signed(dtype));
}

/* ---- the other kinds ---- */

static LLVMValueRef constant(dt_llvm_nest *n, int i) {
    dt_llvm_emitter *e = n->e;
    const dt_instruction *instruction = &n->nest->instructions[i];
    LLVMTypeRef type = dt_llvm_type(e, instruction->dtype);
    bool is_float = dt_dtype_is_float(instruction->dtype);
    LLVMValueRef parameter = n->numbers[i];
    if (parameter == NULL) return is_float ? dt_llvm_real(type, instruction->number) : dt_llvm_integer(type, instruction->integer);
    if (is_float) parameter = LLVMBuildBitCast(e->builder, parameter, e->f64, "");
    if (type == LLVMTypeOf(parameter)) return parameter;
    return is_float ? LLVMBuildFPTrunc(e->builder, parameter, type, "") : LLVMBuildTrunc(e->builder, parameter, type, "");
}

static LLVMValueRef loop_index(dt_llvm_nest *n, int loop) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef index = dt_llvm_sum_value(e, n->loops[loop]);
    if (loop != n->choices->vector_loop || n->width == 1) return index;
    return LLVMBuildNSWAdd(e->builder, dt_llvm_splat(e, index, n->width), dt_llvm_iota(e->i64, n->width), "");
}

/* Element `index` of a struct of 8-byte fields at `pointer`. */
static LLVMValueRef field(dt_llvm_emitter *e, LLVMValueRef pointer, size_t offset) {
    LLVMValueRef index = dt_llvm_i64(e, (int64_t)(offset / 8));
    return LLVMBuildInBoundsGEP2(e->builder, e->i64, pointer, &index, 1, "");
}

static LLVMValueRef bad_index_field(dt_llvm_emitter *e, size_t offset) {
    return LLVMBuildLoad2(e->builder, e->i64, field(e, e->bad_index, offset), "");
}

/* a < b, or a == b and `then`. */
static LLVMValueRef less_or_equal_and(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef then) {
    LLVMValueRef equal = LLVMBuildAnd(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, a, b, ""), then, "");
    return LLVMBuildOr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, ""), equal, "");
}

/* dt_bad_index_is_first */
static LLVMValueRef is_first(dt_llvm_emitter *e, LLVMValueRef count, LLVMValueRef row, LLVMValueRef location, LLVMValueRef value) {
    LLVMValueRef first = LLVMBuildICmp(e->builder, LLVMIntSLT, value, bad_index_field(e, offsetof(dt_bad_index, value)), "");
    first = less_or_equal_and(e, location, bad_index_field(e, offsetof(dt_bad_index, location)), first);
    first = less_or_equal_and(e, row, bad_index_field(e, offsetof(dt_bad_index, row)), first);
    return LLVMBuildOr(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, count, dt_llvm_i64(e, 0), ""), first, "");
}

/* An index is counted once: where the loops around that do not move it stand at their start, and by one shard. */
static LLVMValueRef is_counted_here(dt_llvm_nest *n, int i, LLVMValueRef is_bad) {
    if (n->nest->instructions[i].by_first_shard) {
        LLVMValueRef shard = LLVMBuildLoad2(n->e->builder, n->e->i64, field(n->e, n->e->launch, offsetof(dt_launch, shard)), "");
        is_bad = LLVMBuildAnd(n->e->builder, is_bad, LLVMBuildICmp(n->e->builder, LLVMIntEQ, shard, dt_llvm_i64(n->e, 0), ""), "");
    }
    for (int p = 0; p < n->levels[i]; p++) {
        int loop = n->choices->order[p];
        if ((n->depends[i] >> loop & 1) || n->nest->loops[loop].extent == 1) continue;
        LLVMValueRef at = dt_llvm_sum_value(n->e, n->loops[loop]);
        is_bad = LLVMBuildAnd(n->e->builder, is_bad, LLVMBuildICmp(n->e->builder, LLVMIntEQ, at, dt_llvm_i64(n->e, 0), ""), "");
    }
    return is_bad;
}

static LLVMValueRef check(dt_llvm_nest *n, int i) {
    dt_llvm_emitter *e = n->e;
    const dt_instruction *instruction = &n->nest->instructions[i];
    LLVMValueRef value = n->values[instruction->operands[0]], limit = dt_llvm_extent(e, instruction->integer);
    LLVMValueRef row = instruction->n_operands > 1 ? n->values[instruction->operands[1]] : dt_llvm_i64(e, -1);
    LLVMValueRef good = LLVMBuildICmp(e->builder, LLVMIntULT, value, limit, "");
    LLVMBasicBlockRef join = dt_llvm_if_begin(e, is_counted_here(n, i, LLVMBuildNot(e->builder, good, "")), false);
    LLVMValueRef count_at = field(e, e->bad_index, offsetof(dt_bad_index, count));
    LLVMValueRef count = LLVMBuildLoad2(e->builder, e->i64, count_at, "");
    LLVMBasicBlockRef none = NULL;
    if (instruction->before) none = dt_llvm_if_begin(e, LLVMBuildICmp(e->builder, LLVMIntEQ, count, dt_llvm_i64(e, 0), ""), false);
    LLVMBuildStore(e->builder, LLVMBuildAdd(e->builder, count, dt_llvm_i64(e, 1), ""), count_at);
    LLVMValueRef location = n->numbers[i] != NULL ? n->numbers[i] : dt_llvm_i64(e, instruction->index);
    LLVMBasicBlockRef first = dt_llvm_if_begin(e, is_first(e, count, row, location, value), false);
    LLVMBuildStore(e->builder, value, field(e, e->bad_index, offsetof(dt_bad_index, value)));
    LLVMBuildStore(e->builder, row, field(e, e->bad_index, offsetof(dt_bad_index, row)));
    LLVMBuildStore(e->builder, location, field(e, e->bad_index, offsetof(dt_bad_index, location)));
    LLVMBuildStore(e->builder, limit, field(e, e->bad_index, offsetof(dt_bad_index, limit)));
    dt_llvm_if_end(e, first);
    if (none != NULL) dt_llvm_if_end(e, none);
    dt_llvm_if_end(e, join);
    return good;
}

/* The same bits as another type. Registers of f16 and bf16 are wider than the type: those go through what memory holds. */
static LLVMValueRef same_bits(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype from, dt_dtype to) {
    assert(dt_dtype_bytes(from) == dt_dtype_bytes(to) && dt_dtype_bytes(to) != 2);
    (void)from;
    return LLVMBuildBitCast(e->builder, value, dt_llvm_like(value, dt_llvm_type(e, to)), "");
}

LLVMValueRef dt_llvm_instruction(dt_llvm_nest *n, int i) {
    dt_llvm_emitter *e = n->e;
    const dt_instruction *instruction = &n->nest->instructions[i];
    LLVMValueRef x[3] = {NULL, NULL, NULL};
    bool varies = dt_llvm_varies(n, i);
    for (int k = 0; k < instruction->n_operands; k++) x[k] = dt_llvm_operand(n, instruction->operands[k], varies);
    switch (instruction->kind) {
    case DT_INSTRUCTION_CONSTANT: return constant(n, i);
    case DT_INSTRUCTION_LOOP: return loop_index(n, instruction->index);
    case DT_INSTRUCTION_LAUNCH: return LLVMBuildLoad2(e->builder, e->i64, field(e, e->launch, (size_t)instruction->index * 8), "");
    case DT_INSTRUCTION_SCALAR: return scalar(n, instruction, x);
    case DT_INSTRUCTION_CONVERT: return dt_llvm_convert(e, x[0], n->nest->instructions[instruction->operands[0]].dtype, instruction->dtype);
    case DT_INSTRUCTION_BITS: return same_bits(e, x[0], n->nest->instructions[instruction->operands[0]].dtype, instruction->dtype);
    case DT_INSTRUCTION_CHECK: return check(n, i);
    case DT_INSTRUCTION_LOAD:
    case DT_INSTRUCTION_REDUCED: break;
    }
    assert(!"loads and results of reductions are emitted elsewhere");
    return NULL;
}
