/* affine: index expressions over the loops of a nest.
 *
 *     sum of coefficient * loop + offset + sum of term_coefficient * scalar
 *
 * Scalars (terms) are i64 instructions of the nest: values of an index tensor, quotients that are not affine. Everything that an address or a
 * guard needs is computed on this form, so that bounds are proved and guards dropped before any code exists. Expressions never change. */
#ifndef DT_KERNEL_AFFINE_H
#define DT_KERNEL_AFFINE_H

#include "compiler/kernel/kernel.h"

typedef struct dt_affine {
    int64_t *coefficients; /* [n_loops of the nest] */
    int64_t offset;
    int n_terms;
    int *terms;
    int64_t *term_coefficients;
} dt_affine;

dt_affine dt_affine_constant(dt_arena *arena, int n_loops, int64_t value);
dt_affine dt_affine_loop(dt_arena *arena, int n_loops, int loop);
dt_affine dt_affine_term(dt_arena *arena, int n_loops, int scalar);
/* x + factor * y; terms of the same scalar are joined. */
dt_affine dt_affine_add(dt_arena *arena, int n_loops, dt_affine x, dt_affine y, int64_t factor);
dt_affine dt_affine_scale(dt_arena *arena, int n_loops, dt_affine x, int64_t factor);
bool dt_affine_equal(int n_loops, const dt_affine *x, const dt_affine *y);
/* Whether every coefficient and the offset are multiples of `divisor`, and the quotient then. */
bool dt_affine_divides(dt_arena *arena, int n_loops, dt_affine x, int64_t divisor, dt_affine *quotient);

/* Least and greatest value over the loops; false when it is not known: a term, or a loop of unknown extent going that way. */
bool dt_affine_least(int n_loops, const dt_loop *loops, const dt_affine *x, int64_t *least);
bool dt_affine_greatest(int n_loops, const dt_loop *loops, const dt_affine *x, int64_t *greatest);

/* Strides in elements: row-major, but for DT_GATHERED, which is outermost wherever it stands in the shape. How many rows all replicas have is known
 * at launch only, so no stride may depend on it. DT_BATCH after another dimension takes the room of `microbatch_rows` rows. */
void dt_shape_strides(dt_shape shape, int64_t microbatch_rows, int64_t *strides);

#endif
