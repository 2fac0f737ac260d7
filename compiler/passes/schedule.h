/* schedule: what the files of the pass share. */
#ifndef DT_PASSES_SCHEDULE_H
#define DT_PASSES_SCHEDULE_H

#include "compiler/kernel/lower.h"
#include "compiler/passes/passes.h"

/* Lowers nest n again, window by window, if it sums over windows that lie side by side. */
void dt_schedule_windows(dt_arena *arena, dt_lowering *lowering, dt_kernel_function *kernel, int n);

/* Where operands of nest n, a sum, are read at every divisor-th index only: the nest becomes several, each for the indices of the result at which
 * the same ones are read. Returns how many they are; the first is nest n. */
int dt_schedule_phases(dt_arena *arena, dt_lowering *lowering, dt_kernel_function *kernel, int n);

/* Makes one loop of neighbouring ones that nest n walks as one. */
void dt_schedule_join(dt_arena *arena, dt_plan *plan, dt_kernel_function *kernel, int n);

/* Moves nests that lay out what is the same for all rows to kernels that run once. */
void dt_schedule_ahead(dt_arena *arena, dt_plan *plan);

#endif
