/* cuda_scalar: one instruction of a nest as a C++ expression.
 *
 * Every compound expression is in parentheses, so that it can stand anywhere. What C leaves undefined, or would let the compiler choose, goes
 * through a function of the prelude; the meaning is that of llvm_scalar.c and of the interpreter.
 *
 * Integers of 64 bits are mostly indices, whose range can be computed from the extents of the loops: those that fit are ints. */
#include "compiler/codegen/cuda.h"
#include "ir/evaluate.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *dt_cuda_type(dt_dtype dtype) {
    static const char *const types[DT_N_DTYPES] = {[DT_F32] = "float", [DT_F16] = "float", [DT_BF16] = "float", [DT_F64] = "double", [DT_I8] = "i8",
                                                   [DT_U8] = "u8",     [DT_I32] = "int",   [DT_I64] = "i64",    [DT_BOOL] = "bool"};
    return types[dtype];
}

const char *dt_cuda_memory_type(dt_dtype dtype) {
    return dtype == DT_F16 || dtype == DT_BF16 ? "u16" : dtype == DT_BOOL ? "u8" : dt_cuda_type(dtype);
}

#define FORMAT(n, ...) dt_arena_format((n)->f->arena, __VA_ARGS__)

/* ---- ranges ---- */

enum {
    NARROW = 1 << 30 /* leaves room for a sum of two */
};

static dt_cuda_range between(int64_t least, int64_t greatest) {
    const int64_t far = INT64_C(1) << 62;
    return (dt_cuda_range){least > -far && greatest < far, least, greatest};
}

static dt_cuda_range product_range(dt_cuda_range x, dt_cuda_range y) {
    const int64_t xs[2] = {x.least, x.greatest}, ys[2] = {y.least, y.greatest};
    int64_t least = INT64_MAX, greatest = INT64_MIN;
    for (int i = 0; i < 4; i++) {
        int64_t p;
        if (__builtin_mul_overflow(xs[i / 2], ys[i % 2], &p)) return (dt_cuda_range){0};
        least = p < least ? p : least;
        greatest = p > greatest ? p : greatest;
    }
    return between(least, greatest);
}

static dt_cuda_range scalar_range(const dt_cuda_nest *n, const dt_instruction *x) {
    const dt_cuda_range none = {0};
    dt_cuda_range a = n->ranges[x->operands[0]], b = x->n_operands > 1 ? n->ranges[x->operands[1]] : none;
    if (!a.known || (x->n_operands > 1 && !b.known)) return none;
    switch (x->scalar) {
    case DT_SCALAR_ADD: return between(a.least + b.least, a.greatest + b.greatest);
    case DT_SCALAR_SUBTRACT: return between(a.least - b.greatest, a.greatest - b.least);
    case DT_SCALAR_MULTIPLY: return product_range(a, b);
    case DT_SCALAR_DIVIDE: return a.least >= 0 && b.least > 0 ? between(0, a.greatest / b.least) : none;
    case DT_SCALAR_REMAINDER: return a.least >= 0 && b.least > 0 ? between(0, b.greatest - 1) : none;
    case DT_SCALAR_NEGATE: return between(-a.greatest, -a.least);
    case DT_SCALAR_MINIMUM: return between(a.least < b.least ? a.least : b.least, a.greatest < b.greatest ? a.greatest : b.greatest);
    case DT_SCALAR_MAXIMUM: return between(a.least > b.least ? a.least : b.least, a.greatest > b.greatest ? a.greatest : b.greatest);
    default: return none;
    }
}

void dt_cuda_find_ranges(dt_cuda_nest *n) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        const dt_instruction *x = &n->nest->instructions[i];
        dt_cuda_range range = {0};
        if (x->kind == DT_INSTRUCTION_LOOP) {
            int64_t iterations = dt_trip_count(n->f->plan, n->nest->loops[x->index].extent);
            if (iterations >= 0) range = between(0, iterations > 0 ? iterations - 1 : 0);
        } else if (x->kind == DT_INSTRUCTION_CONSTANT && !dt_dtype_is_float(x->dtype)) {
            range = between(x->integer, x->integer);
        } else if (x->kind == DT_INSTRUCTION_SCALAR && x->dtype == DT_I64 && x->n_operands <= 2) {
            range = scalar_range(n, x);
        } else if (x->kind == DT_INSTRUCTION_CONVERT) {
            dt_dtype from = n->nest->instructions[x->operands[0]].dtype;
            if (from == DT_U8 || from == DT_BOOL) range = between(0, 255);
            if (from == DT_I8) range = between(-128, 127);
        }
        n->ranges[i] = range;
    }
}

bool dt_cuda_is_narrow(const dt_cuda_nest *n, int i) {
    dt_cuda_range range = n->ranges[i];
    return n->nest->instructions[i].dtype == DT_I64 && range.known && range.least >= -NARROW && range.greatest <= NARROW;
}

/* ---- constants ---- */

static const char *real(dt_cuda_nest *n, double number, dt_dtype dtype) {
    char buffer[32];
    const char *minus = number < 0 ? "-" : "";
    if (isnan(number)) return dtype == DT_F64 ? "(double)not_a_number()" : "not_a_number()";
    if (isinf(number)) return FORMAT(n, "(%s%sinfinity())", minus, dtype == DT_F64 ? "(double)" : "");
    const char *text = dtype == DT_F64 ? dt_text_from_f64(number, buffer) : dt_text_from_f32((float)number, buffer);
    return FORMAT(n, text[0] == '-' ? "(%s%s)" : "%s%s", text, dtype == DT_F64 ? "" : "f");
}

static const char *integer(dt_cuda_nest *n, int64_t value, bool wide) {
    if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
    if (value == INT32_MIN && !wide) return "(-2147483647 - 1)";
    return FORMAT(n, value < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", value, wide ? "LL" : "");
}

static const char *constant(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    if (dt_dtype_is_float(x->dtype)) return real(n, x->number, x->dtype);
    if (x->dtype == DT_BOOL) return x->integer ? "true" : "false";
    return integer(n, x->integer, x->dtype == DT_I64 && !dt_cuda_is_narrow(n, i));
}

const char *dt_cuda_identity(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype) {
    dt_scalar value = dt_combiner_identity(combiner, dtype);
    return dt_dtype_is_float(dtype) ? real(n, value.f, dtype) : integer(n, value.i, dtype == DT_I64);
}

/* ---- arithmetic ---- */

/* "name(a, b)", with the type where it does not follow from the arguments. */
static const char *call(dt_cuda_nest *n, const char *name, dt_dtype dtype, int n_arguments, const char *const *x) {
    bool plain = dtype == DT_I32 || dtype == DT_F64 || dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16;
    const char *type = plain ? "" : FORMAT(n, "<%s>", dt_cuda_type(dtype));
    return n_arguments == 1 ? FORMAT(n, "%s%s(%s)", name, type, x[0]) : FORMAT(n, "%s%s(%s, %s)", name, type, x[0], x[1]);
}

static const char *infix(dt_cuda_nest *n, const char *sign, const char *const *x) { return FORMAT(n, "(%s %s %s)", x[0], sign, x[1]); }

static const char *on_floats(dt_cuda_nest *n, dt_scalar_op op, dt_dtype dtype, const char *const *x) {
    const char *f = dtype == DT_F64 ? "" : "f";
    switch (op) {
    case DT_SCALAR_ADD: return infix(n, "+", x);
    case DT_SCALAR_SUBTRACT: return infix(n, "-", x);
    case DT_SCALAR_MULTIPLY: return infix(n, "*", x);
    case DT_SCALAR_DIVIDE: return infix(n, "/", x);
    case DT_SCALAR_REMAINDER: return FORMAT(n, "fmod%s(%s, %s)", f, x[0], x[1]);
    case DT_SCALAR_NEGATE: return FORMAT(n, "(-%s)", x[0]);
    case DT_SCALAR_ABSOLUTE: return FORMAT(n, "fabs%s(%s)", f, x[0]);
    case DT_SCALAR_FLOOR: return FORMAT(n, "floor%s(%s)", f, x[0]);
    case DT_SCALAR_ROUND: return FORMAT(n, "rint%s(%s)", f, x[0]);
    case DT_SCALAR_ROUND_TF32: return FORMAT(n, "round_tf32(%s)", x[0]);
    case DT_SCALAR_ROUND_BF16: return FORMAT(n, "round_bf16(%s)", x[0]);
    case DT_SCALAR_SQUARE_ROOT: return FORMAT(n, "sqrt%s(%s)", f, x[0]);
    case DT_SCALAR_FUSED: return FORMAT(n, "fma%s(%s, %s, %s)", f, x[0], x[1], x[2]);
    default: break;
    }
    assert(!"a scalar of floats");
    return "";
}

/* Sums of indices that are known to fit need no care. */
static const char *on_narrow(dt_cuda_nest *n, const dt_instruction *x, const char *const *text) {
    dt_cuda_range divisor = x->n_operands > 1 ? n->ranges[x->operands[1]] : (dt_cuda_range){0};
    for (int k = 0; k < x->n_operands; k++)
        if (!dt_cuda_is_narrow(n, x->operands[k])) return NULL;
    switch (x->scalar) {
    case DT_SCALAR_ADD: return infix(n, "+", text);
    case DT_SCALAR_SUBTRACT: return infix(n, "-", text);
    case DT_SCALAR_MULTIPLY: return infix(n, "*", text);
    case DT_SCALAR_DIVIDE: return divisor.least > 0 ? infix(n, "/", text) : NULL;
    case DT_SCALAR_REMAINDER: return divisor.least > 0 ? infix(n, "%", text) : NULL;
    case DT_SCALAR_NEGATE: return FORMAT(n, "(-%s)", text[0]);
    default: return NULL;
    }
}

static const char *on_integers(dt_cuda_nest *n, const dt_instruction *instruction, dt_dtype dtype, const char *const *x) {
    switch (instruction->scalar) {
    case DT_SCALAR_ADD: return call(n, "sum_of", dtype, 2, x);
    case DT_SCALAR_SUBTRACT: return call(n, "difference", dtype, 2, x);
    case DT_SCALAR_MULTIPLY: return call(n, "product", dtype, 2, x);
    case DT_SCALAR_DIVIDE: return call(n, "quotient", dtype, 2, x);
    case DT_SCALAR_REMAINDER: return call(n, "remainder_of", dtype, 2, x);
    case DT_SCALAR_NEGATE: return call(n, "opposite", dtype, 1, x);
    case DT_SCALAR_ABSOLUTE: return dt_dtype_is_signed(dtype) ? call(n, "size_of", dtype, 1, x) : x[0];
    case DT_SCALAR_FLOOR:
    case DT_SCALAR_ROUND: return x[0];
    case DT_SCALAR_FUSED: {
        const char *pair[2] = {call(n, "product", dtype, 2, x), x[2]};
        return call(n, "sum_of", dtype, 2, pair);
    }
    case DT_SCALAR_AND: return infix(n, "&", x);
    case DT_SCALAR_OR: return infix(n, "|", x);
    case DT_SCALAR_XOR: return infix(n, "^", x);
    case DT_SCALAR_SHIFT_LEFT: return call(n, "shift_left", dtype, 2, x);
    case DT_SCALAR_SHIFT_RIGHT: return call(n, "shift_right", dtype, 2, x);
    case DT_SCALAR_HIGH_PRODUCT: return FORMAT(n, "high_product(%s, %s)", x[0], x[1]);
    default: break;
    }
    assert(!"a scalar of integers");
    return "";
}

static const char *scalar(dt_cuda_nest *n, int i, const char *const *x) {
    const dt_instruction *instruction = &n->nest->instructions[i];
    dt_dtype dtype = n->nest->instructions[instruction->operands[0]].dtype;
    switch (instruction->scalar) {
    case DT_SCALAR_SELECT: return FORMAT(n, "(%s ? %s : %s)", x[0], x[1], x[2]);
    case DT_SCALAR_MINIMUM: return call(n, "lower", dtype, 2, x);
    case DT_SCALAR_MAXIMUM: return call(n, "higher", dtype, 2, x);
    case DT_SCALAR_EQUAL: return infix(n, "==", x);
    case DT_SCALAR_NOT_EQUAL: return infix(n, "!=", x);
    case DT_SCALAR_LESS: return infix(n, "<", x);
    case DT_SCALAR_LESS_EQUAL: return infix(n, "<=", x);
    default: break;
    }
    if (dt_dtype_is_float(dtype)) return on_floats(n, instruction->scalar, dtype, x);
    const char *narrow = dt_cuda_is_narrow(n, i) ? on_narrow(n, instruction, x) : NULL;
    return narrow != NULL ? narrow : on_integers(n, instruction, dtype, x);
}

const char *dt_cuda_combine(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b) {
    const char *const x[2] = {a, b};
    bool is_float = dt_dtype_is_float(dtype);
    switch (combiner) {
    case DT_COMBINE_SUM: return is_float ? infix(n, "+", x) : call(n, "sum_of", dtype, 2, x);
    case DT_COMBINE_PRODUCT: return is_float ? infix(n, "*", x) : call(n, "product", dtype, 2, x);
    case DT_COMBINE_MAX: return call(n, "higher", dtype, 2, x);
    case DT_COMBINE_MIN: return call(n, "lower", dtype, 2, x);
    default: break;
    }
    assert(!"a combiner of values");
    return "";
}

const char *dt_cuda_convert(dt_cuda_nest *n, const char *x, dt_dtype from, dt_dtype to) {
    const char *type = dt_cuda_type(to);
    if (from == to) return x;
    if (to == DT_BOOL) return FORMAT(n, "(%s != 0)", x);
    if (dt_dtype_is_float(from) && !dt_dtype_is_float(to)) return FORMAT(n, "to_%s(%s)", dt_dtype_name(to), x);
    if (!dt_dtype_is_float(to)) return FORMAT(n, "(%s)%s", type, x);
    const char *value = strcmp(type, dt_cuda_type(from)) == 0 ? x : FORMAT(n, "(%s)%s", type, x);
    return to == DT_F16 || to == DT_BF16 ? FORMAT(n, "round_%s(%s)", dt_dtype_name(to), value) : value;
}

/* ---- memory ---- */

static void add_term(dt_text *text, int64_t coefficient, const char *value) {
    if (coefficient == 0) return;
    if (text->n > 0)
        dt_text_append(text, coefficient < 0 ? " - " : " + ");
    else if (coefficient < 0)
        dt_text_append(text, "-");
    int64_t size = coefficient < 0 ? -coefficient : coefficient;
    if (size == 1)
        dt_text_append(text, value);
    else
        dt_text_format(text, "%" PRId64 " * %s", size, value);
}

bool dt_cuda_is_element(const dt_cuda_nest *n, const dt_address *address, const char *element) {
    int64_t stride = 1;
    if (element == NULL || n->serial != 0 || address->n_terms > 0 || address->offset != 0) return false;
    for (int l = n->nest->n_loops - 1; l >= 0; l--) {
        int64_t iterations = dt_trip_count(n->f->plan, n->nest->loops[l].extent);
        bool dealt = n->dealt >> l & 1, one = iterations == 1 && !dt_dim_is_symbol(n->nest->loops[l].extent);
        if (one) continue;
        if (address->coefficients[l] != (dealt ? stride : 0)) return false;
        if (!dealt) continue;
        if (stride < 0) return false;
        stride = dt_dim_is_symbol(n->nest->loops[l].extent) ? -1 : stride * iterations; /* rows may be fewer: only outermost */
    }
    return true;
}

const char *dt_cuda_access(dt_cuda_nest *n, const dt_address *address) {
    const char *name = n->f->names[address->buffer];
    dt_text text = {.arena = n->f->arena};
    if (dt_cuda_is_element(n, address, n->element)) return FORMAT(n, "%s[%s]", name, n->element);
    for (int l = 0; l < n->nest->n_loops; l++) {
        if (address->coefficients[l] == 0 || n->nest->loops[l].extent == 1) continue;
        add_term(&text, address->coefficients[l], n->loops[l]);
        n->loop_used[l] = true;
    }
    for (int t = 0; t < address->n_terms; t++) {
        bool cast = !n->f->wide && !dt_cuda_is_narrow(n, address->terms[t]);
        const char *value = n->values[address->terms[t]];
        add_term(&text, address->term_coefficients[t], cast ? FORMAT(n, "(int)%s", value) : value);
    }
    if (address->offset != 0 && text.n > 0)
        dt_text_format(&text, " %c %" PRId64, address->offset < 0 ? '-' : '+', address->offset < 0 ? -address->offset : address->offset);
    else if (text.n == 0)
        dt_text_format(&text, "%" PRId64, address->offset);
    return FORMAT(n, "%s[%s]", name, text.data);
}

const char *dt_cuda_from_memory(dt_cuda_nest *n, const char *element, dt_dtype dtype) {
    if (dtype == DT_F16 || dtype == DT_BF16) return FORMAT(n, "from_%s(%s)", dt_dtype_name(dtype), element);
    return dtype == DT_BOOL ? FORMAT(n, "(%s != 0)", element) : element;
}

const char *dt_cuda_to_memory(dt_cuda_nest *n, const char *value, dt_dtype dtype) {
    if (dtype == DT_F16 || dtype == DT_BF16) return FORMAT(n, "to_%s(%s)", dt_dtype_name(dtype), value);
    return dtype == DT_BOOL ? FORMAT(n, "%s ? 1 : 0", value) : value;
}

static const char *load(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    if (n->in_vector && n->vectors[i]) return dt_cuda_from_memory(n, FORMAT(n, "x%d.at[k]", i), x->dtype);
    const char *value = dt_cuda_from_memory(n, dt_cuda_access(n, &x->address), x->dtype);
    return x->guard < 0 ? value : FORMAT(n, "(%s ? %s : %s)", n->values[x->guard], value, n->values[x->otherwise]);
}

/* ---- the other kinds ---- */

/* Whether loop l runs around what is emitted at a level. */
static bool is_open(const dt_cuda_nest *n, int l, int level) {
    int first = 0;
    if (!(n->reduced >> l & 1)) return true;
    while (!(n->reduced >> first & 1)) first++;
    return level >= 2 + (n->together ? 0 : l - first);
}

/* Of all threads and iterations that ask the same, the one whose other loops stand at 0 counts. */
static const char *counting_thread(dt_cuda_nest *n, int i) {
    dt_text text = {.arena = n->f->arena};
    if (n->counting == DT_CUDA_COUNTED) return "false";
    for (int l = 0; l < n->nest->n_loops; l++) {
        if ((n->depends[i] >> l & 1) || n->nest->loops[l].extent == 1 || !is_open(n, l, n->levels[i])) continue;
        if (n->counting == DT_CUDA_COUNTS_ALONE && (n->dealt >> l & 1)) continue;
        dt_text_format(&text, "%s%s == 0", text.n > 0 ? " && " : "", n->loops[l]);
        n->loop_used[l] = true;
    }
    if (n->together && n->levels[i] < 2) dt_text_format(&text, "%slane == 0", text.n > 0 ? " && " : "");
    return text.n > 0 ? text.data : "true";
}

static const char *check(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *row = x->n_operands > 1 ? n->values[x->operands[1]] : "-1";
    n->f->says_iteration |= n->f->kernel->loop != NULL;
    return FORMAT(n, "checked(launch, %s, %s, %s, %d, %s%s%s)", n->values[x->operands[0]], dt_cuda_extent(n->f, x->integer), row, x->index,
                  x->before ? "launch->bad_index->count == 0 && " : "", counting_thread(n, i), n->f->kernel->loop != NULL ? ", iteration" : "");
}

const char *dt_cuda_expression(dt_cuda_nest *n, int i) {
    static const char *const launch_fields[] = {
#define X(name, type, dtype, meaning) #name,
        DT_LAUNCH_FIELDS(X)
#undef X
    };
    const dt_instruction *x = &n->nest->instructions[i];
    const char *operands[3] = {NULL, NULL, NULL};
    for (int k = 0; k < x->n_operands; k++) operands[k] = n->values[x->operands[k]];
    switch (x->kind) {
    case DT_INSTRUCTION_CONSTANT: return constant(n, i);
    case DT_INSTRUCTION_LOOP:
        if (n->nest->loops[x->index].extent == 1) return "0";
        n->loop_used[x->index] = true;
        return n->loops[x->index];
    case DT_INSTRUCTION_LAUNCH: return FORMAT(n, "launch->%s", launch_fields[x->index]);
    case DT_INSTRUCTION_LOAD: return load(n, i);
    case DT_INSTRUCTION_SCALAR: return scalar(n, i, operands);
    case DT_INSTRUCTION_CONVERT: return dt_cuda_convert(n, operands[0], n->nest->instructions[x->operands[0]].dtype, x->dtype);
    case DT_INSTRUCTION_BITS: return FORMAT(n, "bits_of(%s)", operands[0]);
    case DT_INSTRUCTION_CHECK: return check(n, i);
    case DT_INSTRUCTION_REDUCED: break;
    }
    assert(!"the result of a reduction has its value already");
    return "";
}
