/* evaluate: the value of a formula for given elements.
 *
 * A formula is made ready once for its operands' types: put into order, literals given their types, so that elements cost one walk over an
 * array. Two ways: as the oracle, floats are doubles throughout and functions are libm's; as kernels do, each operation on f32, f16 and bf16 is
 * rounded to f32 and functions are their expansions, which tells how good the expansions are. Integers wrap around in both. */
#ifndef DT_IR_EVALUATE_H
#define DT_IR_EVALUATE_H

#include "abi/launch.h"
#include "ir/formula.h"
#include "ir/loops.h"

typedef enum dt_arithmetic {
    DT_ARITHMETIC_ORACLE,
    DT_ARITHMETIC_KERNEL
} dt_arithmetic;

/* An element: `f` of float dtypes, `i` of integers and bool, as its dtype would hold it (a u8 is 0 .. 255). */
typedef union dt_scalar {
    double f;
    int64_t i;
} dt_scalar;

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
    int lane;             /* the loop that the run walks; -1: none does */
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

/* What a value becomes when stored as `dtype`: floats rounded to f32, f16, bf16 (half to even); integers wrapped. */
dt_scalar dt_scalar_round(dt_scalar value, dt_dtype dtype);
void dt_scalars_round(dt_scalar *values, size_t n, dt_dtype dtype); /* each of them, in place */
/* What is left of a factor of f32. */
double dt_factor_round(double factor, dt_precision precision);
/* The value conversion from(…) to to(…): float to integer truncates and saturates, NaN becomes 0; to bool: is it not 0? */
dt_scalar dt_scalar_convert(dt_scalar value, dt_dtype from, dt_dtype to);
/* What a reduction of elements of `dtype` starts from, and what is left where it has none; of argmax and argmin, the element that loses to all. */
dt_scalar dt_combiner_identity(dt_combiner combiner, dt_dtype dtype);
/* An element in memory, and back. */
dt_scalar dt_scalar_load(const void *memory, dt_dtype dtype);
void dt_scalar_store(void *memory, dt_dtype dtype, dt_scalar value); /* rounds */

#endif
