/* formula: from the formula language (ir/formula.h) to scalar instructions of a nest.
 *
 * Types: operands have theirs (f16 and bf16 are computed in f32), literals take their neighbour's, comparisons give bool. Functions such as exp
 * are replaced by the expansion of their row for f32 or f64. */
#ifndef DT_KERNEL_FORMULA_H
#define DT_KERNEL_FORMULA_H

#include "compiler/kernel/nest.h"

/* What the names in a formula mean, as instructions of `nest`. */
typedef struct dt_scope dt_scope;
struct dt_scope {
    dt_nest_builder *nest;
    int (*operand)(dt_scope *scope, int index);
    int (*inside)(dt_scope *scope, int index); /* a bool; -1: always */
    int (*loop)(dt_scope *scope, int index);   /* an i64 */
    void *context;                             /* the callbacks' own */
    dt_status *status;                         /* the first error: a bug in a table */
    DT_LIST(struct dt_formula_memo) memo;      /* starts empty */
};

/* The formula's value: of its own type, or of `wanted` when it has none (a literal). */
int dt_lower_formula(dt_scope *scope, const dt_formula *formula, dt_dtype wanted);

#endif
