/* c_scalar: one instruction of a nest as a C expression: the meaning is that of llvm_scalar.c. Compound expressions are in parentheses. */
#include "compiler/codegen/c.h"
#include "ir/evaluate.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#define FORMAT DT_C_FORMAT

const char *dt_c_type(dt_dtype dtype) {
    static const char *const types[DT_N_DTYPES] = {[DT_F32] = "f32", [DT_F16] = "f32", [DT_BF16] = "f32", [DT_F64] = "f64",  [DT_I8] = "i8",
                                                   [DT_U8] = "u8",   [DT_I32] = "i32", [DT_I64] = "i64",  [DT_BOOL] = "bool"};
    return types[dtype];
}

const char *dt_c_memory_type(dt_dtype dtype) { return dtype == DT_F16 || dtype == DT_BF16 ? "u16" : dtype == DT_BOOL ? "u8" : dt_c_type(dtype); }

const char *dt_c_extent(dt_arena *arena, int64_t extent) {
    return extent == DT_BATCH ? "launch->rows" : extent == DT_GATHERED ? "launch->valid" : dt_arena_format(arena, "%" PRId64, extent);
}

/* ---- constants ---- */

static const char *real(dt_c_nest *n, double number, dt_dtype dtype) {
    const char *f = dtype == DT_F64 ? "" : "f";
    if (isnan(number)) return FORMAT(n, "__builtin_nan%s(\"\")", f);
    if (isinf(number)) return FORMAT(n, "(%s__builtin_inf%s())", number < 0 ? "-" : "", f);
    return FORMAT(n, "(%a%s)", dtype == DT_F64 ? number : (double)(float)number, f);
}

static const char *integer(dt_c_nest *n, int64_t value) {
    return value == INT64_MIN ? "INT64_MIN" : FORMAT(n, value < 0 ? "(%" PRId64 "LL)" : "%" PRId64 "LL", value);
}

const char *dt_c_identity(dt_c_nest *n, dt_combiner combiner, dt_dtype dtype) {
    dt_scalar value = dt_combiner_identity(combiner, dtype);
    return dt_dtype_is_float(dtype) ? real(n, value.f, dtype) : integer(n, value.i);
}

/* ---- arithmetic ---- */

static const char *extreme(dt_c_nest *n, const char *name, dt_dtype dtype, const char *a, const char *b) {
    const char *type = dtype == DT_F64 ? "f64" : dt_dtype_is_float(dtype) ? "f32" : "i64";
    return FORMAT(n, "(%s)%s_%s(%s, %s)", dt_c_type(dtype), name, type, a, b);
}

static const char *on_floats(dt_c_nest *n, dt_scalar_op op, dt_dtype dtype, const char *const *x) {
    const char *f = dtype == DT_F64 ? "" : "f";
    switch (op) {
    case DT_SCALAR_REMAINDER: return FORMAT(n, "__builtin_fmod%s(%s, %s)", f, x[0], x[1]);
    case DT_SCALAR_NEGATE: return FORMAT(n, "(-%s)", x[0]);
    case DT_SCALAR_ABSOLUTE: return FORMAT(n, "__builtin_fabs%s(%s)", f, x[0]);
    case DT_SCALAR_FLOOR: return FORMAT(n, "__builtin_floor%s(%s)", f, x[0]);
    case DT_SCALAR_ROUND: return FORMAT(n, "__builtin_rint%s(%s)", f, x[0]);
    case DT_SCALAR_ROUND_TF32: return FORMAT(n, "round_tf32(%s)", x[0]);
    case DT_SCALAR_ROUND_BF16: return FORMAT(n, "round_bf16(%s)", x[0]);
    case DT_SCALAR_SQUARE_ROOT: return FORMAT(n, "__builtin_sqrt%s(%s)", f, x[0]);
    case DT_SCALAR_FUSED: return FORMAT(n, "__builtin_fma%s(%s, %s, %s)", f, x[0], x[1], x[2]);
    default: break;
    }
    assert(!"a scalar of floats");
    return "";
}

static const char *on_integers(dt_c_nest *n, dt_scalar_op op, dt_dtype dtype, const char *const *x) {
    const char *type = dt_c_type(dtype);
    int bits = 8 * (int)dt_dtype_bytes(dtype);
    switch (op) {
    case DT_SCALAR_REMAINDER: return FORMAT(n, "(%s)rest(%s, %s)", type, x[0], x[1]);
    case DT_SCALAR_NEGATE: return FORMAT(n, "(%s)-%s", type, x[0]);
    case DT_SCALAR_ABSOLUTE: return FORMAT(n, "(%s)(%s < 0 ? -%s : %s)", type, x[0], x[0], x[0]);
    case DT_SCALAR_FLOOR:
    case DT_SCALAR_ROUND: return x[0];
    case DT_SCALAR_FUSED: return FORMAT(n, "(%s)(%s * %s + %s)", type, x[0], x[1], x[2]);
    case DT_SCALAR_SHIFT_LEFT:
    case DT_SCALAR_SHIFT_RIGHT:
        return FORMAT(n, "(%s)shift_%s((uint%d_t)%s, (uint%d_t)%s, %d)", type, op == DT_SCALAR_SHIFT_LEFT ? "left" : "right", bits, x[0], bits, x[1],
                      bits);
    case DT_SCALAR_HIGH_PRODUCT: return FORMAT(n, "high_product(%s, %s)", x[0], x[1]);
    default: break;
    }
    assert(!"a scalar of integers");
    return "";
}

static const char *scalar(dt_c_nest *n, const dt_instruction *instruction, const char *const *x) {
    dt_dtype dtype = n->nest->instructions[instruction->operands[0]].dtype;
    bool is_float = dt_dtype_is_float(dtype);
    const char *type = dt_c_type(dtype);
    dt_scalar_op op = instruction->scalar;
    static const char *const signs[DT_N_SCALARS] = {
        [DT_SCALAR_ADD] = "+",  [DT_SCALAR_SUBTRACT] = "-",    [DT_SCALAR_MULTIPLY] = "*", [DT_SCALAR_EQUAL] = "==", [DT_SCALAR_NOT_EQUAL] = "!=",
        [DT_SCALAR_LESS] = "<", [DT_SCALAR_LESS_EQUAL] = "<=", [DT_SCALAR_AND] = "&",      [DT_SCALAR_OR] = "|",     [DT_SCALAR_XOR] = "^"};
    if (signs[op] != NULL) return FORMAT(n, "(%s)(%s %s %s)", dt_c_type(instruction->dtype), x[0], signs[op], x[1]);
    switch (op) {
    case DT_SCALAR_SELECT: return FORMAT(n, "(%s ? %s : %s)", x[0], x[1], x[2]);
    case DT_SCALAR_MINIMUM:
    case DT_SCALAR_MAXIMUM: {
        bool swap = is_float && dt_nest_is_number(n->nest, instruction->operands[1]);
        return extreme(n, op == DT_SCALAR_MAXIMUM ? "higher" : "lower", dtype, x[swap], x[!swap]);
    }
    case DT_SCALAR_DIVIDE: return FORMAT(n, is_float ? "(%s)(%s / %s)" : "(%s)quotient(%s, %s)", type, x[0], x[1]);
    default: return is_float ? on_floats(n, op, dtype, x) : on_integers(n, op, dtype, x);
    }
}

const char *dt_c_combine(dt_c_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b) {
    switch (combiner) {
    case DT_COMBINE_SUM: return FORMAT(n, "(%s)(%s + %s)", dt_c_type(dtype), a, b);
    case DT_COMBINE_PRODUCT: return FORMAT(n, "(%s)(%s * %s)", dt_c_type(dtype), a, b);
    case DT_COMBINE_MAX: return extreme(n, "higher", dtype, a, b);
    case DT_COMBINE_MIN: return extreme(n, "lower", dtype, a, b);
    default: break;
    }
    assert(!"a combiner of values");
    return "";
}

const char *dt_c_convert(dt_c_nest *n, const char *x, dt_dtype from, dt_dtype to) {
    if (from == to) return x;
    if (to == DT_BOOL) return FORMAT(n, "(%s != 0)", x);
    if (dt_dtype_is_float(from) && !dt_dtype_is_float(to)) return FORMAT(n, "to_%s(%s)", dt_dtype_name(to), x);
    const char *value = FORMAT(n, "(%s)%s", dt_c_type(to), x);
    return to == DT_F16 || to == DT_BF16 ? FORMAT(n, "round_%s(%s)", dt_dtype_name(to), value) : value;
}

/* ---- memory ---- */

static dt_dtype buffer_dtype(const dt_c_nest *n, const dt_address *address) {
    return n->f->plan->buffers[n->f->kernel->buffers[address->buffer]].dtype;
}

const char *dt_c_element(dt_c_nest *n, const dt_address *address) {
    dt_text text = {.arena = n->f->arena};
    dt_text_format(&text, "b%d[%" PRId64, address->buffer, address->offset);
    for (int l = 0; l < n->nest->n_loops; l++)
        if (address->coefficients[l] != 0) dt_text_format(&text, " + %" PRId64 " * %s", address->coefficients[l], n->loops[l]);
    for (int t = 0; t < address->n_terms; t++)
        dt_text_format(&text, " + %" PRId64 " * %s", address->term_coefficients[t], n->values[address->terms[t]]);
    dt_text_append(&text, "]");
    return text.data;
}

const char *dt_c_read(dt_c_nest *n, const dt_address *address) {
    dt_dtype dtype = buffer_dtype(n, address);
    const char *element = dt_c_element(n, address);
    if (dtype == DT_F16 || dtype == DT_BF16) return FORMAT(n, "from_%s(%s)", dt_dtype_name(dtype), element);
    return dtype == DT_BOOL ? FORMAT(n, "(%s != 0)", element) : element;
}

const char *dt_c_written(dt_c_nest *n, const dt_address *address, const char *value) {
    dt_dtype dtype = buffer_dtype(n, address);
    return dtype == DT_F16 || dtype == DT_BF16 ? FORMAT(n, "to_%s(%s)", dt_dtype_name(dtype), value) : value;
}

/* An index is counted once: where the loops around that do not move it stand at their start. */
static const char *check(dt_c_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    dt_text counted = {.arena = n->f->arena};
    dt_text_append(&counted, x->by_first_shard ? "launch->shard == 0" : "true");
    for (int p = 0; p < n->levels[i]; p++) {
        int loop = n->choices->order[p];
        if ((n->depends[i] >> loop & 1) || n->nest->loops[loop].extent == 1) continue;
        dt_text_format(&counted, " && %s == 0", n->loops[loop]);
    }
    return FORMAT(n, "check(launch, %s, %s, %s, %d, %s, %d)", n->values[x->operands[0]], dt_c_extent(n->f->arena, x->integer),
                  x->n_operands > 1 ? n->values[x->operands[1]] : "-1", x->index, counted.data, x->before);
}

const char *dt_c_expression(dt_c_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *operands[3] = {NULL, NULL, NULL};
    for (int k = 0; k < x->n_operands; k++) operands[k] = n->values[x->operands[k]];
    dt_dtype from = x->n_operands > 0 ? n->nest->instructions[x->operands[0]].dtype : x->dtype;
    switch (x->kind) {
    case DT_INSTRUCTION_CONSTANT: return dt_dtype_is_float(x->dtype) ? real(n, x->number, x->dtype) : integer(n, x->integer);
    case DT_INSTRUCTION_LOOP: return n->loops[x->index];
    case DT_INSTRUCTION_LAUNCH: return FORMAT(n, "((const i64 *)launch)[%d]", x->index);
    case DT_INSTRUCTION_SCALAR: return scalar(n, x, operands);
    case DT_INSTRUCTION_CONVERT: return dt_c_convert(n, operands[0], from, x->dtype);
    case DT_INSTRUCTION_BITS: {
        bool same = dt_dtype_is_float(from) == dt_dtype_is_float(x->dtype);
        return same ? FORMAT(n, "(%s)%s", dt_c_type(x->dtype), operands[0]) : FORMAT(n, "bits_%s(%s)", dt_dtype_name(x->dtype), operands[0]);
    }
    case DT_INSTRUCTION_CHECK: return check(n, i);
    case DT_INSTRUCTION_LOAD:
        if (x->guard < 0) return dt_c_read(n, &x->address);
        return FORMAT(n, "(%s ? %s : %s)", n->values[x->guard], dt_c_read(n, &x->address), n->values[x->otherwise]);
    case DT_INSTRUCTION_REDUCED: break;
    }
    assert(!"results of reductions have names");
    return "";
}
