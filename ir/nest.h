/* nest: runs the loops of one value over elements in memory: the inside of the interpreter. */
#ifndef DT_IR_NEST_H
#define DT_IR_NEST_H

#include "abi/launch.h"
#include "ir/evaluate.h"
#include "ir/graph.h"

/* A tensor as the interpreter works with it: every element a scalar, floats as double. Each is already what its dtype would hold. */
typedef struct dt_wide {
    dt_dtype dtype;
    int rank;
    const int64_t *dims; /* numbers: symbols have been replaced */
    size_t n;            /* elements */
    dt_scalar *data;
} dt_wide;

/* Fills result->data from the operands by the value's loops. Sums are taken in double (in 64 bits for integers) and rounded once to the result's
 * dtype. Indices out of range are counted in launch->bad_index, once for each element of the operand that holds them, with site value->id. */
dt_status *dt_nest_run(dt_arena *scratch, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *result);

#endif
