/* formula_syntax: the little language of formulas as syntax, before its names mean anything.
 *
 *   e = exp(-abs(x)); where(x >= 0, 1, e) / (1 + e)
 *
 * formula.c gives it its meaning over scalars, build_expression.c over graph values: one grammar for both. Infix operators, loosest first:
 * | ^ & (== !=) (< <= > >=) (+ -) (* /), unary -, all to the left; a > b is b < a. Numbers: 1, 0.5, 1e-3, 0x1f, inf, nan, true, false. */
#ifndef DT_IR_FORMULA_SYNTAX_H
#define DT_IR_FORMULA_SYNTAX_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef enum dt_formula_syntax_kind {
    DT_FORMULA_SYNTAX_NUMBER,
    DT_FORMULA_SYNTAX_NAME,
    DT_FORMULA_SYNTAX_CALL
} dt_formula_syntax_kind;

typedef struct dt_formula_syntax dt_formula_syntax;
struct dt_formula_syntax {
    dt_formula_syntax_kind kind;
    const char *name; /* NAME; CALL: the function's, or the operator as the scalar vocabulary spells it: "+", "neg" */
    double number;    /* NUMBER */
    bool is_integer;  /* written without point and exponent */
    int64_t integer;  /* then its exact value, modulo 2^64 */
    int n_arguments;
    dt_formula_syntax *arguments[3];
    void *meaning; /* what the reader of the tree made of this node, so that a shared node is shared there too */
};

/* Uses of a local name are the node it was bound to, so the result is a DAG. It lives in the arena. Errors name the place in the text. */
dt_status *dt_formula_syntax_parse(dt_arena *arena, const char *text, dt_formula_syntax **expression);

#endif
