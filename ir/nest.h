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
    const int64_t *dims;    /* numbers: symbols have been replaced */
    const int64_t *strides; /* scalars from one index of a dimension to the next; 0: one element stands for all */
    int64_t start;          /* scalars from `data` to the first element */
    size_t n;               /* elements */
    dt_scalar *data;        /* no element stands before it */
} dt_wide;

/* Dense and row-major; data is the caller's to set. */
dt_wide dt_wide_make(dt_arena *arena, dt_dtype dtype, dt_shape shape);
bool dt_wide_is_dense(const dt_wide *wide);            /* and begins at the start of its data */
void dt_wide_copy(const dt_wide *from, dt_scalar *to); /* its elements, row-major */

/* Whether the value does nothing but say where elements of one operand stand, or is one constant. Then nothing has to be run: `view`, which has its
 * dtype and dims, gets strides and a start in the data of operands[*operand]; or where that is -1, in that of a tensor of one element, *constant. */
bool dt_nest_view(dt_arena *arena, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *view, int *operand,
                  dt_scalar *constant);

/* Fills result->data, which is dense, from the operands by the value's loops. Sums are taken in double (in 64 bits for integers) and rounded once to
 * the result's dtype. Indices out of range are counted in launch->bad_index, once for each element of the operand that holds them, with location
 * value->id. */
dt_status *dt_nest_run(dt_arena *scratch, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *result);

#endif
