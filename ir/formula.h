/* formula: scalar expressions, the one place where the arithmetic of elementwise ops is written.
 *
 * A row of ir/ops.def says  log1p: "log(1 + x)".  The text is parsed once into a tree over operand elements, attributes and literals; the
 * interpreter evaluates it in double, kernels lower it to scalar instructions. Functions such as exp and tanh are rows of ir/functions.def: the
 * oracle uses libm's, backends expand the row's own polynomial, written in this same language, with its error stated. */
#ifndef DT_IR_FORMULA_H
#define DT_IR_FORMULA_H

#include "abi/dtype.h"
#include "abi/precision.h"
#include "base/arena.h"
#include "base/status.h"
#include "ir/op.h"

/* The machine's scalar vocabulary: all that an expression comes down to.
 * X(enumerator, text in formulas, operands, result: 's' same as operand 0, 'b' bool, 'c' same as operand 1 (select)) */
#define DT_SCALARS(X)                                                                                                                                \
    X(ADD, "+", 2, 's')                                                                                                                              \
    X(SUBTRACT, "-", 2, 's')                                                                                                                         \
    X(MULTIPLY, "*", 2, 's')                                                                                                                         \
    X(DIVIDE, "/", 2, 's')      /* floats; integers truncate, by 0 they give 0 */                                                                    \
    X(REMAINDER, "rem", 2, 's') /* C's: sign of the dividend; integers by 0 give 0 */                                                                \
    X(NEGATE, "neg", 1, 's')                                                                                                                         \
    X(MINIMUM, "min", 2, 's') /* NaN if either is */                                                                                                 \
    X(MAXIMUM, "max", 2, 's')                                                                                                                        \
    X(ABSOLUTE, "abs", 1, 's')                                                                                                                       \
    X(FLOOR, "floor", 1, 's')                                                                                                                        \
    X(ROUND, "round", 1, 's') /* half to even */                                                                                                     \
    X(SQUARE_ROOT, "sqrt", 1, 's')                                                                                                                   \
    X(ROUND_TF32, "round_tf32", 1, 's') /* f32 only: what is left of a factor, abi/precision.h */                                                    \
    X(ROUND_BF16, "round_bf16", 1, 's')                                                                                                              \
    X(FUSED, "fma", 3, 's') /* a*b + c with one rounding (in double: the oracle may round twice) */                                                  \
    X(EQUAL, "==", 2, 'b')                                                                                                                           \
    X(NOT_EQUAL, "!=", 2, 'b')                                                                                                                       \
    X(LESS, "<", 2, 'b')                                                                                                                             \
    X(LESS_EQUAL, "<=", 2, 'b')                                                                                                                      \
    X(AND, "&", 2, 's') /* bool and integers, bitwise */                                                                                             \
    X(OR, "|", 2, 's')                                                                                                                               \
    X(XOR, "^", 2, 's')                                                                                                                              \
    X(SHIFT_LEFT, "shl", 2, 's')     /* 0 where the count is no bit of the type */                                                                   \
    X(SHIFT_RIGHT, "shr", 2, 's')    /* logical */                                                                                                   \
    X(HIGH_PRODUCT, "mulhi", 2, 's') /* upper 32 bits of the unsigned product of two i32 */                                                          \
    X(SELECT, "where", 3, 'c')

typedef enum dt_scalar_op {
#define X(enumerator, text, operands, result) DT_SCALAR_##enumerator,
    DT_SCALARS(X)
#undef X
    DT_N_SCALARS
} dt_scalar_op;

/* What a scalar rounds a factor to; of all that do not round factors it is f32. And the scalar that rounds to tf32 or bf16. */
static inline dt_precision dt_scalar_precision(dt_scalar_op scalar) {
    return scalar == DT_SCALAR_ROUND_TF32 ? DT_PRECISION_TF32 : scalar == DT_SCALAR_ROUND_BF16 ? DT_PRECISION_BF16 : DT_PRECISION_F32;
}
static inline dt_scalar_op dt_scalar_of_precision(dt_precision precision) {
    return precision == DT_PRECISION_TF32 ? DT_SCALAR_ROUND_TF32 : DT_SCALAR_ROUND_BF16;
}

typedef enum dt_formula_kind {
    DT_FORMULA_LITERAL,   /* takes its neighbour's type */
    DT_FORMULA_OPERAND,   /* element of operand `index` */
    DT_FORMULA_ATTRIBUTE, /* attribute `index` of the row, as a literal; gone after dt_formula_bind */
    DT_FORMULA_INSIDE,    /* inside(x): was operand `index` read inside its bounds? bool */
    DT_FORMULA_LOOP,      /* loop(k): index of loop `index`, i64; loop(axis) of an attribute: see dt_formula_bind */
    DT_FORMULA_LAUNCH,    /* launch(name): field `index` of dt_launch, i64; the name may be an attribute: see dt_formula_bind */
    DT_FORMULA_SCALAR,    /* `scalar` over arguments */
    DT_FORMULA_CONVERT,   /* f32(x), …: value conversion to `dtype`; float to integer truncates and saturates, NaN
                             to 0; to(x) where `to` is an attribute: dtype is DT_N_DTYPES until dt_formula_bind */
    DT_FORMULA_BITS,      /* bits_f32(x), bits_i32(x), bits_f64(x), bits_i64(x): same bits, other type */
    DT_FORMULA_FUNCTION   /* row `index` of ir/functions.def over arguments */
} dt_formula_kind;

typedef struct dt_formula dt_formula;
struct dt_formula {
    dt_formula_kind kind;
    int index;
    double literal;
    bool literal_is_integer;
    int64_t integer; /* of an integer literal, exactly */
    dt_scalar_op scalar;
    dt_dtype dtype;
    int n_arguments;
    dt_formula *arguments[3];
    int number; /* greater than the numbers of its arguments, so 0 .. number of the root index whatever is kept for each node */
};

/* Parses `text`; ir/formula_syntax.h says what it looks like. `names` are operand names [n_names]; `attributes` names of attributes. Local names:
 * "e = exp(-x); 1 / (1 + e)". All uses of a name are one node (a DAG), literals aside: each takes the type of its own neighbour. The result lives
 * in the arena. Errors mean a bug in a table. */
dt_status *dt_formula_parse(dt_arena *arena, const char *text, const char *const *names, int n_names, const char *const *attributes, int n_attributes,
                            dt_formula **formula);

/* Puts the attributes of `value` in: ATTRIBUTE nodes become literals, loop(axis), launch(name) and to(x) what the attributes say. In place, once, so
 * that nobody after dt_value_loops has to think of attributes. */
void dt_formula_bind(dt_arena *scratch, dt_formula *formula, const dt_value *value);

/* The dtype of each node, by number, when operand k has type operands[k]. A literal, and an expression over literals alone, takes its
 * neighbour's type; where all is literal, `result`'s. An error means operands of two types met: a bug in a table. */
dt_status *dt_formula_types(dt_arena *arena, const dt_formula *formula, const dt_dtype *operands, dt_dtype result, dt_dtype **types);

/* Whether it is the product of two operands, factors[2], each of them rounded to `precision` before. */
bool dt_formula_is_product(const dt_formula *formula, int factors[2], dt_precision *precision);

/* A row of DT_SCALARS. */
const char *dt_scalar_text(dt_scalar_op scalar);
int dt_scalar_n_operands(dt_scalar_op scalar);
char dt_scalar_result(
    dt_scalar_op scalar); /* the result's type: 's' that of the operands, 'b' bool, 'c' that of the second and third, the first is a bool */

const char *dt_launch_field_name(int field);
int dt_launch_field_find(const char *name); /* the number of a field of dt_launch in DT_LAUNCH_FIELDS; -1 when there is none */

/* A scalar function: the oracle's libm twin and the expansion that kernels use, for f32 and f64. */
typedef struct dt_scalar_function {
    const char *name;
    int n_arguments; /* named x, y */
    double (*oracle)(double x, double y);
    const char *f32, *f64;   /* expansions over x (and y), in the formula language; may call other functions */
    double f32_ulp, f64_ulp; /* stated errors of the expansions over the domain */
    const char *domain;      /* "low, high"; of two arguments "low, high; low, high" */
} dt_scalar_function;
extern const size_t dt_n_scalar_functions;
const dt_scalar_function *dt_scalar_function_at(size_t i);
/* The parsed expansion of function `i` for f32 or f64 (DT_F64); operands 0 and 1 are x and y. */
dt_status *dt_scalar_function_expansion(dt_arena *arena, size_t i, dt_dtype dtype, dt_formula **formula);

#endif
