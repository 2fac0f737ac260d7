/* microbatches: how many rows of a replica are run at once.
 *
 * A replica's rows are run in microbatches, each as if it were a replica: all kernels of a segment run on one before the next, and sums over
 * microbatches follow the tree that sums over replicas follow. So cores can share out microbatches without a change of bits, and little memory is
 * live at once. A replica has a power of two of microbatches, as even as can be, so that the tree over all of them is a tree over replicas of trees
 * over their microbatches.
 *
 * The size is part of the bits: it is chosen here, from the program alone, and recorded in the artifact (microbatch_rows). The caches that it is
 * chosen for are therefore assumed, not those of the machine that compiles. */
#ifndef DT_KERNEL_MICROBATCHES_H
#define DT_KERNEL_MICROBATCHES_H

#include "compiler/kernel/compilation.h"

/* What the choice depends on: of the step with the most arithmetic, which is the one that trains. */
typedef struct dt_microbatch_costs {
    double flops_per_row;
    double crossing_bytes;     /* what each microbatch leaves for the sum over all, such as a copy of all gradients */
    double activation_per_row; /* bytes that are left for a later kernel */
} dt_microbatch_costs;

/* The rows of a microbatch of a replica of `capacity`. */
int64_t dt_microbatch_rows(int64_t capacity, const dt_microbatch_costs *costs);

/* Of a partitioned program. The capacity where the switch is off, and on targets that run all rows at once. */
int64_t dt_microbatches_choose(const dt_compilation *compilation);

/* The least power of two of microbatches that hold so many rows. */
int64_t dt_microbatches_of(int64_t rows, int64_t microbatch_rows);

#endif
