/* nest_product: sums of products in the interpreter, where nearly all of its time goes: matrix products, convolutions and their gradients. */
#ifndef DT_IR_NEST_PRODUCT_H
#define DT_IR_NEST_PRODUCT_H

#include "ir/nest.h"

typedef struct dt_nest_factor {
    const dt_wide *tensor;   /* of floats */
    const dt_access *access; /* without an indirect index */
} dt_nest_factor;

/* Fills result->data with the sums over the reduced loops, in double. `extents`: of the loops, as numbers. */
void dt_nest_product(dt_arena *scratch, const dt_loops *loops, const int64_t *extents, const dt_nest_factor factors[2], dt_wide *result);

#endif
