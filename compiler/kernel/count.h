/* count: how much arithmetic a kernel does and how much memory it has to move, read off its nests. For people and for `dtrun bench`; no pass
 * decides by it. */
#ifndef DT_KERNEL_COUNT_H
#define DT_KERNEL_COUNT_H

#include "compiler/kernel/kernel.h"

/* For each row of its block, for each pair of one with a row of all replicas, and whatever the rows. */
typedef struct dt_amount {
    double per_row, per_pair, fixed;
} dt_amount;

static inline double dt_amount_of(dt_amount amount, double rows, double all_rows) {
    return amount.per_row * rows + amount.per_pair * rows * all_rows + amount.fixed;
}

/* One call of the kernel.
 *
 * flops  Floating-point scalar instructions and steps of reductions, each as often as the loops around it run: a product and its sum count two, an
 * exp what its expansion has. Integers, conversions, loads and stores count nothing. bytes  What has to cross the kernel's border whatever the
 * caches: each buffer once if values of it are read that the kernel has not written itself, and once if it is written; no more of it than is
 * addressed. Scratch that is the kernel's own counts nothing. */
typedef struct dt_kernel_count {
    dt_amount flops, bytes;
} dt_kernel_count;

dt_kernel_count dt_kernel_count_of(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel);

#endif
