/* evaluate: the value of a formula for given elements.
 *
 * A formula is made ready once for its operands' types: put into order, literals given their types, so that elements cost one walk over an
 * array. Two ways: as the oracle, floats are doubles throughout and functions are libm's; as kernels do, each operation on f32, f16 and bf16 is
 * rounded to f32 and functions are their expansions, which tells how good the expansions are. Integers wrap around in both. */
#ifndef DT_IR_EVALUATE_H
#define DT_IR_EVALUATE_H

#include "abi/launch.h"
#include "ir/formula.h"
#include "ir/scalar.h"

typedef enum dt_arithmetic {
    DT_ARITHMETIC_ORACLE,
    DT_ARITHMETIC_KERNEL
} dt_arithmetic;

typedef struct dt_evaluation_context {
    const dt_scalar *operands; /* one element of each; inside(x) holds */
    const int64_t *loops;      /* for loop(k) */
    const dt_launch *launch;   /* for launch(name) */
} dt_evaluation_context;

/* Elements of an operand along iterations of one loop: the i-th is data[i * step]. */
typedef struct dt_elements {
    const dt_scalar *data;
    int64_t step;
    bool outside;        /* all of them are, for inside(x) */
    const bool *insides; /* or of each whether it is not; else NULL */
} dt_elements;

/* What a formula is evaluated for along such a run. */
typedef struct dt_evaluation_run {
    const dt_elements *operands;
    const int64_t *loops; /* at the run's first iteration */
    int run_loop;         /* the loop that the run walks; -1: none does */
    const dt_launch *launch;
} dt_evaluation_run;

typedef struct dt_evaluation dt_evaluation; /* used by one thread at a time */

/* `formula` is bound (no attributes); `operands` are their dtypes; `result` is the dtype of the whole where all of it is literal. */
dt_status *dt_evaluation_prepare(dt_arena *arena, const dt_formula *formula, const dt_dtype *operands, dt_dtype result, dt_arithmetic arithmetic,
                                 dt_evaluation **evaluation);
dt_dtype dt_evaluation_dtype(const dt_evaluation *evaluation); /* of the value */
dt_scalar dt_evaluate(const dt_evaluation *evaluation, const dt_evaluation_context *context);
/* values[0 .. n-1]; they do not overlap the operands. */
void dt_evaluate_run(const dt_evaluation *evaluation, const dt_evaluation_run *run, int64_t n, dt_scalar *values);

#endif
