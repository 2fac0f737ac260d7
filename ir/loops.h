/* loops: the meaning of an op as a loop nest, the only thing that the interpreter, partition and the kernels know of it.
 *
 *     result[l0, …, l(n_outer-1)] = combine over l(n_outer) … of body(operand 0 at its indices, operand 1 at its, …)
 *
 * An index is quasi-affine: (sum of coefficient * loop + offset) / divisor, where the element counts as outside when the division leaves a rest
 * or the quotient is out of bounds. That covers broadcasting (coefficient 0), slices, reversal, padding, convolution and pooling with stride,
 * and, through the divisor, all their gradients. Which loop walks B says how distribution passes through: an outer loop splits the result,
 * a reduced one makes it partial. reshape has no loops: it moves nothing. */
#ifndef DT_IR_LOOPS_H
#define DT_IR_LOOPS_H

#include "ir/formula.h"
#include "ir/op.h"
#include "ir/scalar.h"
#include "ir/shape.h"

typedef enum dt_combiner {
    DT_COMBINE_NONE, /* no reduced loops */
    DT_COMBINE_SUM,
    DT_COMBINE_PRODUCT,
    DT_COMBINE_MAX,
    DT_COMBINE_MIN,
    DT_COMBINE_ARGMAX, /* position within the reduced loops (row-major, i64 or the result's integer type) of the first greatest body */
    DT_COMBINE_ARGMIN
} dt_combiner;
const char *dt_combiner_name(dt_combiner combiner);
/* What a reduction of elements of `dtype` starts from, and what is left where it has none; of argmax and argmin, the element that loses to all. */
dt_scalar dt_combiner_identity(dt_combiner combiner, dt_dtype dtype);
/* Whether it finds where the best element is, and not a value. */
static inline bool dt_combiner_is_position(dt_combiner combiner) { return combiner == DT_COMBINE_ARGMAX || combiner == DT_COMBINE_ARGMIN; }

typedef struct dt_index {
    int64_t *coefficients; /* [n_loops] */
    int64_t offset;
    int64_t divisor; /* >= 1 */
    int indirect;    /* operand whose element is added to the sum, or -1. An indirect index out of bounds is counted as bad */
} dt_index;

typedef struct dt_access {
    dt_index *dims;    /* [rank of the operand] */
    bool guarded;      /* some element may be outside: it reads as `outside`, and inside(x) is false */
    dt_scalar outside; /* of the operand's type: all its bits are 0 but for maximum windows (-inf) and the like */
} dt_access;

struct dt_loops {
    int n_loops;         /* all */
    int n_outer;         /* the first n_outer are the result's dimensions, in order, unless `result` is given */
    int64_t *extents;    /* [n_loops] constants, DT_BATCH or DT_GATHERED */
    dt_access *operands; /* [operands of the value] */
    dt_access *result;   /* NULL, or where each iteration adds its body to a result of zeros (scatter): then n_outer == n_loops */
    dt_combiner combiner;
    const dt_formula *body;
};

/* Whether an access to an operand of so many dimensions walks the loop: another iteration reads another element. */
static inline bool dt_access_walks(const dt_access *access, int rank, int loop) {
    for (int d = 0; d < rank; d++)
        if (access->dims[d].coefficients[loop] != 0) return true;
    return false;
}

/* Which loop walks dimension `dim` of an access, alone and from its start; -1 when none does. */
int dt_loop_of_dimension(const dt_loops *loops, const dt_access *access, int dim);

/* Whether they reduce or scatter; NULL: there are none. */
static inline bool dt_loops_are_root(const dt_loops *loops) { return loops != NULL && (loops->combiner != DT_COMBINE_NONE || loops->result != NULL); }

/* May an index leave its dimension of extent `dim`, where `extents` are those of the loops, as numbers? A divided or an indirect one may. */
bool dt_index_may_leave(const dt_index *index, int n_loops, const int64_t *extents, int64_t dim);

/* The loops of a value; NULL when its op has none (reshape, state, collectives, input). */
dt_loops *dt_value_loops(dt_arena *arena, const dt_value *value);

#endif
