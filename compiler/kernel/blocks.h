/* blocks: how many rows of a replica are run at once.
 *
 * Rows are run in blocks, each as if it were a replica: all kernels of a segment on one block before the next, and sums over blocks follow the tree
 * that sums over replicas follow. So blocks can be dealt to cores without a change of bits, and little memory is live at once. A replica has a power
 * of two of blocks, as even as can be, so that a tree over all blocks is one over replicas of trees over their blocks.
 *
 * The size is part of the bits: it is chosen here, from the program alone, and recorded in the artifact (block_rows). The caches that it is chosen
 * for are therefore assumed, not those of the machine that compiles. */
#ifndef DT_KERNEL_BLOCKS_H
#define DT_KERNEL_BLOCKS_H

#include "compiler/kernel/compilation.h"

/* What the choice depends on: of the step with the most arithmetic, which is the one that trains. */
typedef struct dt_block_costs {
    double flops_per_row;
    double crossing_bytes;     /* what each block leaves for the sum over all, such as a copy of all gradients */
    double activation_per_row; /* bytes that are left for a later kernel */
} dt_block_costs;

/* The rows of a block of a replica of `capacity`. */
int64_t dt_block_rows(int64_t capacity, const dt_block_costs *costs);

/* Of a partitioned program. The capacity where the switch is off, and on targets that run all rows at once. */
int64_t dt_blocks_choose(const dt_compilation *compilation);

/* The least power of two of blocks that hold so many rows. */
int64_t dt_blocks_of(int64_t rows, int64_t block_rows);

#endif
