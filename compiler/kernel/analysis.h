/* analysis: what every renderer asks of a nest before it renders it. */
#ifndef DT_KERNEL_ANALYSIS_H
#define DT_KERNEL_ANALYSIS_H

#include "compiler/kernel/kernel.h"

/* Are two buffers of the plan one: the same, or of the same variable or input? Others share no memory while both are in use, so this is all there is
 * to ask about the arguments of one nest, before plan_memory as after it. */
bool dt_buffers_are_one(const dt_plan *plan, int a, int b);
bool dt_arguments_are_one(const dt_plan *plan, const dt_kernel_function *kernel, int a, int b);
/* May two arguments of a kernel, of whichever nests, share memory? For plans whose buffers have their offsets. */
bool dt_arguments_overlap(const dt_plan *plan, const dt_kernel_function *kernel, int a, int b);

/* More than the index of each variable, or each input, that a buffer is. space: DT_MEMORY_VARIABLE or DT_MEMORY_INPUT */
int dt_plan_n_arguments(const dt_plan *plan, dt_memory_space space);
/* Whether it runs for each shard of the model: it reads or writes what shards have by themselves. */
bool dt_kernel_is_sharded(const dt_plan *plan, const dt_kernel_function *kernel);
/* Marks what such kernels write, as where passes have laid something out, as sharded. */
void dt_plan_mark_sharded(dt_plan *plan);
bool dt_kernel_stores_to(const dt_kernel_function *kernel, int buffer); /* of the plan */

/* Whether it combines what a microbatch has, between two kernels of its segment; all others combine at the segment's end what all have left. */
bool dt_collective_is_within(const dt_plan *plan, const dt_collective *collective);
/* How many of a segment's kernels for replicas have to run until what a collective takes is complete; 0: it is so before them. Once they have run on
 * the last microbatch it may be on its way to others while the rest of them run: none of those uses it. Of one within the segment: where it stands.
 */
int dt_complete_after(const dt_plan *plan, const dt_segment *segment, const dt_collective *collective);

bool dt_nest_stores_into(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int argument);
/* The loops, of those in order of execution, that a load of `argument` stays in because of what is stored between two iterations. `group`: the nests
 * that share a loop over rows with this one, itself among them. */
int dt_nest_load_level(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int argument, const dt_nest *group, int n_group);
/* The type in which elements are combined: the accumulator's; for positions the compared element's. */
dt_dtype dt_reduction_element(const dt_nest *nest, const dt_reduction *reduction);
/* The search for the best position whose best element is what reduction r looks for, or -1: a maximum beside its position is found once. */
int dt_reduction_found_by(const dt_nest *nest, int r);
/* Whether a float is a constant other than NaN, also where that is a parameter of a routine. A maximum of equal numbers, 0 and -0, is its second
 * operand, but of one with such a constant the other operand. */
bool dt_nest_is_number(const dt_nest *nest, int instruction);
/* Whether what the nest stores is its sum, once, so that it can be kept there while it is added to. */
bool dt_nest_stores_sum(const dt_nest *nest);

/* The timer that is read behind the nests that end before `end`, or, where rows are done, behind their loop over rows; 0: none. */
int dt_timer_before(const dt_kernel_function *kernel, int end, bool rows_are_done);

/* Iterations that a loop of that extent takes at capacity; -1: unbounded, the rows of all replicas. */
int64_t dt_trip_count(const dt_plan *plan, int64_t extent);

/* Is the loop reduced over? A loop that is marked so in a nest without reductions is an outer one. */
static inline bool dt_nest_reduces(const dt_nest *nest, int loop) { return nest->n_reductions > 0 && nest->loops[loop].reduced; }

/* The loop that runs in parts, of a divided kernel or of a process's share; and whether it does. */
static inline int dt_nest_part_loop(const dt_nest *nest) { return nest->in_rows; }
static inline bool dt_nest_is_divided(const dt_nest *nest) { return nest->part_iterations > 0 || nest->share.n_units > 0; }

/* Is the reduction a sum of products, which is what a fused multiply-add is for? */
bool dt_reduction_is_product(const dt_nest *nest, const dt_reduction *reduction);

/* A factor of a product before it is rounded, if it is; *precision: to what. */
int dt_factor_unrounded(const dt_nest *nest, int factor, dt_precision *precision);
/* The precision of a sum of products: what both factors are rounded to. */
dt_precision dt_product_precision(const dt_nest *nest, const dt_reduction *reduction);

/* The nests that a library's call stands for together with nest n: first to last. n alone where there is no call. */
void dt_library_nests(const dt_kernel_function *kernel, int n, int *first, int *last);

int dt_nest_n_outer(const dt_nest *nest); /* loops that are not reduced over */
/* The first loops of nest n that it shares with others, over rows, and over blocks; and of a kernel that replicas run the one that is divided. */
int dt_nest_n_shared(const dt_kernel_function *kernel, int n);
uint64_t dt_nest_tile_loops(const dt_nest *nest); /* of nest->tiling, a bit each */

/* depends[n_instructions]: the loops that each instruction differs with, a bit each; after a reduction only outer ones. */
void dt_nest_depends(const dt_nest *nest, uint64_t *depends);

/* The same, and where the algorithm has tiles, a result of a reduction differs with their loops, whatever it is a sum of. */
void dt_nest_tile_depends(const dt_nest *nest, uint64_t *depends);

/* Whether an index is checked; and one that differs within `loops`. */
bool dt_nest_has_check(const dt_nest *nest);
bool dt_nest_checks(const dt_nest *nest, const uint64_t *depends, uint64_t loops);

/* Marks instruction i, unless that is -1, and all that it uses; and so what a store needs. marks[n_instructions] */
void dt_nest_mark(const dt_nest *nest, bool *marks, int i);
void dt_nest_mark_store(const dt_nest *nest, bool *marks, const dt_store *store);
/* Marks the operands of reductions, with all that it uses; of a fused product, its factors. marks[n_instructions] */
void dt_nest_mark_reduced(const dt_nest *nest, bool *marks);
/* Marks all that has to be computed: what is reduced, stored or checked. */
void dt_nest_mark_needed(const dt_nest *nest, bool *marks);

/* How deep the loops of a nest lie, as a renderer orders them. */
typedef struct dt_depths {
    const int *of_loop;  /* [n_loops] the level inside of each loop; level 0 is outside of all */
    int outer;           /* the level inside of all outer loops, where the reductions' results are known */
    const int *least;    /* [n_instructions] what an instruction may not stand further out than */
    uint64_t tile_loops; /* outer loops that run once more after the reduced ones, over the sums of a tile */
} dt_depths;
/* levels[n_instructions]: where each instruction stands: inside of the loops that it depends on, not further in, and with what it uses.
 * late[n_instructions]: it comes after the reductions, at level `outer`: their results, what uses them, and what only the stores need. */
void dt_nest_place(dt_arena *arena, const dt_nest *nest, const uint64_t *depends, const dt_depths *depths, int *levels, bool *late);

/* An instruction uses others as operands, as terms of its address, as its guard and as what stands for a guarded load. */
int dt_instruction_n_uses(const dt_instruction *x);
int dt_instruction_use(const dt_instruction *x, int i);

#endif
