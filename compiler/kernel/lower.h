/* lower: from values of the graph to nests, by their loops alone.
 *
 * A value that is in memory is loaded; any other is computed where it is used, from its own operands at the indices that its loops say: that is
 * all that fusion is. The passes decide what is in memory and which values share a nest (a cluster). */
#ifndef DT_KERNEL_LOWER_H
#define DT_KERNEL_LOWER_H

#include "compiler/kernel/affine.h"
#include "compiler/kernel/compilation.h"

/* What a value is to the kernels; the only questions asked of an op. */
bool dt_value_is_alias(const dt_value *value);    /* the operand's memory under another shape */
bool dt_loops_are_product(const dt_loops *loops); /* a sum of products of two operands */

/* A value that a cluster leaves in memory. */
typedef struct dt_output {
    const dt_value *value;
    int buffer; /* of the plan; not always the value's own: a write stores to the variable's */
} dt_output;

/* How a nest is laid out, see below. */
typedef struct dt_layout dt_layout;

/* The values that one nest computes: some with equal loops that reduce, or one that scatters (roots), and elementwise ones that follow them. */
typedef struct dt_cluster {
    DT_LIST(const dt_value *) roots;   /* may be empty */
    DT_LIST(const dt_value *) members; /* elementwise ones that other nests load, computed here */
    DT_LIST(dt_output) outputs;
    dt_shape space; /* of the roots' results; every output has as many elements, in the same order */
} dt_cluster;

/* An operand of a cluster's root that an earlier nest has laid out for it: of the access's index before its division, the values low,
 * low + step, …, `extent` of them, are kept; element (n0, n1, …) lies at sum of (n - low) / step * stride. */
typedef struct dt_packing {
    int buffer; /* of the plan; -1: not packed */
    int rank;
    int64_t *lows, *steps, *extents, *strides; /* [rank of the operand]; stride 0: the row, which is packed anew for each iteration of the row loop */
    int *order;                                /* [rank] dimensions from outermost to innermost */
    int64_t n_blocks; /* more than 0: dimension `blocked` has so many times its extent, and a block of it is packed for each iteration of loop 1 */
    int blocked;
} dt_packing;

/* What a nest was lowered from. */
typedef struct dt_origin {
    const dt_cluster *cluster; /* NULL: it clears or lays something out */
    const dt_layout *layout;
} dt_origin;

typedef struct dt_lowering {
    dt_compilation *compilation;
    const dt_function *function;
    dt_plan *plan;
    int *buffers;               /* [function->next_id] plan buffer by value id; -1: computed where it is used */
    dt_loops **loops;           /* [function->next_id] cache of dt_lowering_loops */
    const dt_value **originals; /* [function->next_id] of a value that computes another one again, that one; NULL: there are none */
    DT_LIST(dt_origin) origins; /* dt_nest.origin counts them from 1 */
    dt_formula **expansions;    /* [dt_n_scalar_functions][2] cache of dt_scalar_function_expansion, in f32 and in f64 */
    dt_status *status;          /* the first error: a bug in a table */
} dt_lowering;

/* before: what it was lowered with to another plan, whose loops serve again; or NULL. */
dt_lowering *dt_lowering_create(dt_compilation *compilation, const dt_function *function, dt_plan *plan, const dt_lowering *before);
dt_origin dt_lowering_origin(const dt_lowering *lowering, const dt_nest *nest);
/* The loops of a value; NULL when its op has none. What sums over nothing, or has no elements, is a constant here: no loop that is reduced has the
 * extent 0, and nobody after this has to think of one. */
const dt_loops *dt_lowering_loops(dt_lowering *lowering, const dt_value *value);

/* A loop over the result replaced by one over an operand. Where the operand is read at (o - factor * r + shift) / divisor, o over the result and r
 * reduced, o is instead taken to be divisor * i + factor * r - shift with i over the operand: nothing lies outside, nothing is divided, and the sum
 * over r is kept in memory. */
typedef struct dt_spread {
    int outer, reduced; /* loops o and r of the root */
    int64_t extent;     /* of the operand: i runs to it */
    int64_t divisor, factor, shift;
} dt_spread;

/* Part of a loop over the result, and of the reduced loop that goes with it. Where an operand is read at (o - factor * r + shift) / divisor, there is
 * something to read only where the division leaves nothing: for o = outer_first + divisor * i only at r = reduced_first + reduced_step * q. Over i
 * and q nothing is divided. */
typedef struct dt_polyphase {
    int outer, reduced; /* loops o and r of the root; reduced -1: none */
    int64_t divisor;
    int64_t outer_first, outer_extent;
    int64_t reduced_first, reduced_step, reduced_extent; /* extent 0: nothing is read */
} dt_polyphase;

/* How the nest of a cluster is laid out. */
struct dt_layout {
    const dt_packing *packings; /* [operands of the only root] or NULL */
    int row_loop;               /* the reduced loop of the root that becomes the outermost, the sum being kept in memory; -1: none */
    int64_t n_blocks;           /* more than 0: loop `blocked` of the root runs in so many blocks, over which loop 1 of the nest walks */
    int blocked;
    int n_spreads;
    const dt_spread *spreads;
    bool apart; /* the spreads reach each element of the result once: nothing is added up, and each reduced loop stands inside of its outer one */
    int n_polyphases;
    const dt_polyphase *polyphases; /* the nest computes only these elements of the result */
    const int *accumulators;        /* [roots] plan buffers for sums that are kept in memory, cleared before */
};
#define DT_LAYOUT_PLAIN ((dt_layout){.row_loop = -1}) /* loops as they stand, operands where they are */
/* Whether the sums of the layout's elements of the result have no terms. */
bool dt_layout_is_empty(const dt_layout *layout);
/* Which loop of the nest is loop `loop` of the roots. */
int dt_layout_loop(const dt_layout *layout, const dt_loops *loops, int loop);

/* The nest of a cluster, which both it and its layout must outlive. A scatter adds to its result, which dt_lower_zero must have cleared before. */
dt_nest dt_lower_cluster(dt_lowering *lowering, dt_kernel_function *kernel, const dt_cluster *cluster, const dt_layout *layout);
/* Clears a buffer. */
dt_nest dt_lower_zero(dt_lowering *lowering, dt_kernel_function *kernel, int buffer);
/* Lays operand `operand` of `root` out as `packing` says. */
dt_nest dt_lower_packing(dt_lowering *lowering, dt_kernel_function *kernel, const dt_value *root, int operand, const dt_packing *packing);

#endif
