/* parallel: what of a kernel may run at the same time, for targets with many threads.
 *
 * A kernel's nests run one after another. On a target that runs thousands of threads at once that order costs a launch each, unless one launch can
 * hold several nests. A phase is what one launch holds:
 *
 *   elements  threads share the iterations of the outer loops; several independent nests lie side by side
 *   tiles     one sum of products, in tiles of results: a block keeps a stage of both factors in shared memory, so that each element of a factor is
 *             read once for many results
 *   teams     a team of threads runs each iteration of the first loops, which all nests of the phase have in common; within it the nests follow
 *             one another, and what one leaves for the next is that iteration's alone
 *   scatter   one nest that stores where an index says: a warp owns some of the targets, walks all indices, and stores to its own targets in the
 *             order of the indices; so several iterations may target one element without atomics
 *
 * Which iterations may run at the same time is read off the addresses: no two threads store to one element, and none reads what another stores. What
 * cannot be shown is walked by one thread in order. So the bits depend on the plan alone, however many threads there are. */
#ifndef DT_KERNEL_PARALLEL_H
#define DT_KERNEL_PARALLEL_H

#include "compiler/kernel/kernel.h"

enum {
    DT_WARP = 32 /* threads that run in step */
};

/* The loops of a sum of products, a bit each: of the rows and the columns of its results, with which one factor differs, and those that both differ
 * with. Columns are what is stored side by side. */
typedef struct dt_product_loops {
    uint64_t rows, columns, both;
    int row_factor, column_factor; /* instructions, rounding and all */
    dt_precision precision;        /* that both are rounded to */
    int tile_rows, tile_columns;   /* of a tile: 16, 32, 64 or 128 by 32 or 64, 16 only by 64 */
} dt_product_loops;

/* An owner-computes scatter: which warp owns which targets of a nest that stores where an index says. The loops that may not run at the same time
 * are walked by every owner; the others run over the slice that one index selects. */
typedef struct dt_scatter {
    int index; /* instruction; a check holds it in [0, targets) wherever the nest stores, and depends on walked loops alone, as all checks do */
    int64_t targets;
    int64_t n_owners, targets_each;
    int64_t groups; /* owners that share targets: each takes a part of the slice */
} dt_scatter;

typedef enum dt_phase_kind {
    DT_PHASE_ELEMENTS,
    DT_PHASE_TEAMS,
    DT_PHASE_TILES,
    DT_PHASE_SCATTER
} dt_phase_kind;

typedef struct dt_phase {
    dt_phase_kind kind;
    int first, n_nests;       /* nests of the kernel */
    int n_shared;             /* TEAMS: loops that its nests have in common */
    int64_t n_items;          /* units of work, at capacity: elements of all nests, teams, tiles, or owners */
    int64_t team_work;        /* TEAMS: iterations of its longest nest for one team */
    dt_product_loops product; /* TILES: of its only nest */
    dt_scatter scatter;       /* SCATTER: of its only nest */
} dt_phase;

/* The kernel with each nest that stores unrelated buffers (updates of several parameters of one shape) split into one nest a buffer: many small
 * iterations suit threads better than few large ones, which run out of registers. */
dt_kernel_function dt_kernel_split_nests(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel);

/* Cuts a kernel into phases, in order; returns how many. The plan may hold nothing from row to row (plan->batched). */
int dt_kernel_phases(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, dt_phase **phases);

/* The outer loops, a bit each, whose iterations may run at the same time. */
uint64_t dt_nest_parallel_loops(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest);

/* Whether the threads of a team share each reduction, rather than each taking its own element: elements are few and reductions long. */
bool dt_nest_reduces_together(const dt_plan *plan, const dt_nest *nest, int n_shared);

/* Into how many parts the nest's reductions are best cut, so that enough of them run at the same time; 1: they are few enough, or short. */
int64_t dt_nest_parts_wanted(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest);

/* Whether so many parts of so many results are better reduced by teams, which want the parts of a result side by side. */
bool dt_parts_are_for_a_team(int64_t results, int64_t parts);

#endif
