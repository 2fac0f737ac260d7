/* execute: runs a plan one element at a time. It is slow and obvious: what fusion, scheduling, memory planning and the code generators are tested
 * against, as ir/interpret.h is for the graph. Buffers lie where plan_memory put them.
 *
 * With the choices for a target (choices.h) it leaves the bits that code for it leaves. Of the choices, only what orders or rounds sums means
 * anything here: the order of the loops, lanes of vectors over reduced loops, chains of tiles, parts of a packed loop, and that products are added up
 * unrounded.
 */
#ifndef DT_KERNEL_EXECUTE_H
#define DT_KERNEL_EXECUTE_H

#include "compiler/kernel/choices.h"
#include "ir/interpret.h"

/* One kernel over its buffers, as generated code is called. choices: of the plan; NULL: loops run as they stand, and sums term by term. */
void dt_kernel_execute(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_choices *choices, void *const *buffers,
                       const dt_launch *launch);

/* What runs a kernel: dt_kernel_execute, or generated code. */
typedef void (*dt_kernel_runner)(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch);

/* A run of a whole plan on one device that holds all replicas. */
typedef struct dt_plan_run {
    const dt_plan *plan;
    dt_kernel_runner runner; /* NULL: dt_kernel_execute, without choices */
    void *context;           /* of the runner */
    int n_replicas;
    const dt_launch *launches; /* [n_replicas] */
    const dt_tensor *inputs;   /* [n_replicas * n_inputs], replica by replica */
    dt_memory *memory;         /* variables, which replicas share; NULL: there are none */
    dt_tensor *results;        /* [n_replicas * n_results] */
} dt_plan_run;

/* Fills in results, made in `arena`. Memory starts filled with a pattern, so that what was never written shows; what is written past arguments and
 * variables is an error. A kernel that runs once finds no rows in its launch: it may not ask for them. One that is divided is run in parts, the last
 * one first. */
dt_status *dt_plan_execute(dt_arena *arena, const dt_plan_run *run);

#endif
