/* cuda_scalar: one instruction of a nest as a C++ expression.
 *
 * Every compound expression is in parentheses, so that it can stand anywhere. What C leaves undefined, or would let the compiler choose, goes
 * through a function of the prelude; the meaning is that of llvm_scalar.c and of the interpreter.
 * Integers of 64 bits that were found to be narrow are ints. */
#include "compiler/codegen/cuda.h"
#include "ir/evaluate.h"

#include <assert.h>
#include <ctype.h>
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

#define FORMAT(n, ...) DT_CUDA_FORMAT((n)->f, __VA_ARGS__)

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
    return integer(n, x->integer, x->dtype == DT_I64 && !n->how->narrow[i]);
}

const char *dt_cuda_identity(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype) {
    dt_scalar value = dt_combiner_identity(combiner, dtype);
    return dt_dtype_is_float(dtype) ? real(n, value.f, dtype) : integer(n, value.i, dtype == DT_I64);
}

/* ---- arithmetic ---- */

/* How a scalar is written of floats, of integers, and of indices that are known to fit, whose sums need no care: an infix or prefix sign, or a
 * function. One of floats that ends in "f" is CUDA's, and for f64 it has no f. */
static const struct {
    const char *of_floats, *of_integers, *of_narrow;
} words[DT_N_SCALARS] = {
    [DT_SCALAR_ADD] = {"+", "sum_of", "+"},
    [DT_SCALAR_SUBTRACT] = {"-", "difference", "-"},
    [DT_SCALAR_MULTIPLY] = {"*", "product", "*"},
    [DT_SCALAR_DIVIDE] = {"/", "quotient", "/"},
    [DT_SCALAR_REMAINDER] = {"fmodf", "remainder_of", "%"},
    [DT_SCALAR_NEGATE] = {"-", "opposite", "-"},
    [DT_SCALAR_ABSOLUTE] = {"fabsf", "size_of", NULL},
    [DT_SCALAR_FLOOR] = {"floorf", NULL, NULL},
    [DT_SCALAR_ROUND] = {"rintf", NULL, NULL},
    [DT_SCALAR_ROUND_TF32] = {"round_tf32", NULL, NULL},
    [DT_SCALAR_ROUND_BF16] = {"round_bf16", NULL, NULL},
    [DT_SCALAR_SQUARE_ROOT] = {"sqrtf", NULL, NULL},
    [DT_SCALAR_FUSED] = {"fmaf", NULL, NULL},
    [DT_SCALAR_AND] = {NULL, "&", NULL},
    [DT_SCALAR_OR] = {NULL, "|", NULL},
    [DT_SCALAR_XOR] = {NULL, "^", NULL},
    [DT_SCALAR_SHIFT_LEFT] = {NULL, "shift_left", NULL},
    [DT_SCALAR_SHIFT_RIGHT] = {NULL, "shift_right", NULL},
    [DT_SCALAR_HIGH_PRODUCT] = {NULL, "high_product", NULL},
    [DT_SCALAR_MINIMUM] = {"lower", "lower", NULL},
    [DT_SCALAR_MAXIMUM] = {"higher", "higher", NULL},
    [DT_SCALAR_EQUAL] = {"==", "==", NULL},
    [DT_SCALAR_NOT_EQUAL] = {"!=", "!=", NULL},
    [DT_SCALAR_LESS] = {"<", "<", NULL},
    [DT_SCALAR_LESS_EQUAL] = {"<=", "<=", NULL},
};

/* A function of integers is told the type where that does not follow from its arguments. */
static const char *apply(dt_cuda_nest *n, const char *word, dt_dtype dtype, int n_operands, const char *const *x) {
    assert(word != NULL);
    bool is_float = dt_dtype_is_float(dtype);
    int length = (int)strlen(word);
    if (!isalpha((unsigned char)word[0])) return n_operands == 1 ? FORMAT(n, "(%s%s)", word, x[0]) : FORMAT(n, "(%s %s %s)", x[0], word, x[1]);
    if (dtype == DT_F64 && word[length - 1] == 'f') length--;
    const char *type = is_float || dtype == DT_I32 ? "" : FORMAT(n, "<%s>", dt_cuda_type(dtype));
    return FORMAT(n, "%.*s%s(%s%s%s%s%s)", length, word, type, x[0], n_operands > 1 ? ", " : "", n_operands > 1 ? x[1] : "",
                  n_operands > 2 ? ", " : "", n_operands > 2 ? x[2] : "");
}

static bool is_all_narrow(const dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    bool narrow = n->how->narrow[i];
    for (int k = 0; k < x->n_operands; k++) narrow &= n->how->narrow[x->operands[k]];
    return narrow;
}

static const char *scalar(dt_cuda_nest *n, int i, const char *const *x) {
    const dt_instruction *instruction = &n->nest->instructions[i];
    dt_scalar_op op = instruction->scalar;
    dt_dtype dtype = n->nest->instructions[instruction->operands[0]].dtype;
    int n_operands = instruction->n_operands;
    if (op == DT_SCALAR_SELECT) return FORMAT(n, "(%s ? %s : %s)", x[0], x[1], x[2]);
    if (dt_dtype_is_float(dtype)) return apply(n, words[op].of_floats, dtype, n_operands, x);
    if (words[op].of_narrow != NULL && is_all_narrow(n, i)) return apply(n, words[op].of_narrow, dtype, n_operands, x);
    if (op == DT_SCALAR_FLOOR || op == DT_SCALAR_ROUND || (op == DT_SCALAR_ABSOLUTE && !dt_dtype_is_signed(dtype))) return x[0];
    if (op != DT_SCALAR_FUSED) return apply(n, words[op].of_integers, dtype, n_operands, x);
    const char *pair[2] = {apply(n, words[DT_SCALAR_MULTIPLY].of_integers, dtype, 2, x), x[2]};
    return apply(n, words[DT_SCALAR_ADD].of_integers, dtype, 2, pair);
}

const char *dt_cuda_combine(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b) {
    static const dt_scalar_op scalars[] = {[DT_COMBINE_SUM] = DT_SCALAR_ADD,
                                           [DT_COMBINE_PRODUCT] = DT_SCALAR_MULTIPLY,
                                           [DT_COMBINE_MAX] = DT_SCALAR_MAXIMUM,
                                           [DT_COMBINE_MIN] = DT_SCALAR_MINIMUM};
    dt_scalar_op op = scalars[combiner];
    return apply(n, dt_dtype_is_float(dtype) ? words[op].of_floats : words[op].of_integers, dtype, 2, (const char *const[]){a, b});
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

/* value NULL: the coefficient itself */
static void add_term(dt_text *text, int64_t coefficient, const char *value) {
    if (coefficient == 0) return;
    int64_t size = coefficient < 0 ? -coefficient : coefficient;
    dt_text_append(text, text->n == 0 ? (coefficient < 0 ? "-" : "") : coefficient < 0 ? " - " : " + ");
    if (size != 1 || value == NULL) dt_text_format(text, "%" PRId64 "%s", size, value != NULL ? " * " : "");
    if (value != NULL) dt_text_append(text, value);
}

const char *dt_cuda_access(dt_cuda_nest *n, const dt_address *address) {
    const char *name = n->f->names[address->buffer];
    dt_text text = {.arena = n->f->arena};
    if (n->element != NULL && dt_gpu_is_element(n->f->plan, n->nest, n->how, address)) return FORMAT(n, "%s[%s]", name, n->element);
    for (int l = 0; l < n->nest->n_loops; l++) {
        if (address->coefficients[l] == 0 || n->nest->loops[l].extent == 1) continue;
        add_term(&text, address->coefficients[l], n->loops[l]);
        n->loop_used[l] = true;
    }
    for (int t = 0; t < address->n_terms; t++) {
        bool cast = !n->f->how->wide && !n->how->narrow[address->terms[t]];
        const char *value = n->values[address->terms[t]];
        add_term(&text, address->term_coefficients[t], cast ? FORMAT(n, "(int)%s", value) : value);
    }
    add_term(&text, address->offset, NULL);
    return FORMAT(n, "%s[%s]", name, text.n > 0 ? text.data : "0");
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
    if (n->in_vector && n->vectors->loads[i]) return dt_cuda_from_memory(n, FORMAT(n, "x%d.at[k]", i), x->dtype);
    const char *value = dt_cuda_from_memory(n, dt_cuda_access(n, &x->address), x->dtype);
    return x->guard < 0 ? value : FORMAT(n, "(%s ? %s : %s)", n->values[x->guard], value, n->values[x->otherwise]);
}

/* ---- the other kinds ---- */

/* Whether loop l runs around what is emitted at a level. */
static bool is_open(const dt_cuda_nest *n, int l, int level) {
    return !(n->how->reduced >> l & 1) || level >= 2 + (n->how->together ? 0 : l - dt_nest_n_outer(n->nest));
}

/* Of all threads and iterations that ask the same, the one whose other loops stand at 0 counts. */
static const char *counting_thread(dt_cuda_nest *n, int i) {
    dt_text text = {.arena = n->f->arena};
    if (n->counting == DT_CUDA_COUNTED) return "false";
    for (int l = 0; l < n->nest->n_loops; l++) {
        if ((n->depends[i] >> l & 1) || n->nest->loops[l].extent == 1 || !is_open(n, l, n->levels[i])) continue;
        if (n->counting == DT_CUDA_COUNTS_ALONE && (n->how->dealt >> l & 1)) continue;
        dt_text_format(&text, "%s%s == 0", text.n > 0 ? " && " : "", n->loops[l]);
        n->loop_used[l] = true;
    }
    if (n->how->together && n->levels[i] < 2) dt_text_format(&text, "%slane == 0", text.n > 0 ? " && " : "");
    return text.n > 0 ? text.data : "true";
}

static const char *check(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *row = x->n_operands > 1 ? n->values[x->operands[1]] : "-1";
    n->f->says_iteration |= n->f->kernel->loop != NULL;
    return FORMAT(n, "checked(launch, %s, %s, %s, %d, %s%s%s%s)", n->values[x->operands[0]], dt_cuda_extent(n->f, x->integer), row, x->index,
                  x->before ? "launch->bad_index->count == 0 && " : "", x->by_first_shard ? "launch->shard == 0 && " : "", counting_thread(n, i),
                  n->f->kernel->loop != NULL ? ", iteration" : "");
}

const char *dt_cuda_expression(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *operands[3] = {NULL, NULL, NULL};
    for (int k = 0; k < x->n_operands; k++) operands[k] = n->values[x->operands[k]];
    switch (x->kind) {
    case DT_INSTRUCTION_CONSTANT: return constant(n, i);
    case DT_INSTRUCTION_LOOP:
        if (n->nest->loops[x->index].extent == 1) return "0";
        n->loop_used[x->index] = true;
        return n->loops[x->index];
    case DT_INSTRUCTION_LAUNCH: return FORMAT(n, "launch->%s", dt_launch_field_name(x->index));
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
