/* nest: builds one nest, instruction by instruction.
 *
 * An instruction that is already there is not added again, what is constant is folded, and at the end what nothing uses is dropped: lowering may
 * ask for the same thing as often as it likes. */
#ifndef DT_KERNEL_NEST_H
#define DT_KERNEL_NEST_H

#include "compiler/kernel/affine.h"

typedef struct dt_nest_builder {
    dt_arena *arena;
    dt_plan *plan;
    struct dt_lowering *lowering; /* of values, for formulas that name functions; NULL: there are none */
    dt_kernel_function *kernel;   /* its buffers grow as nests use them */
    int n_loops;
    dt_loop *loops;
    DT_LIST(dt_instruction) instructions;
    DT_LIST(dt_reduction) reductions;
    DT_LIST(dt_store) stores;
} dt_nest_builder;

/* Adds `instruction`, or returns the index of an equal one or of a constant that it always equals. */
int dt_nest_add(dt_nest_builder *nest, dt_instruction instruction);
int dt_nest_constant(dt_nest_builder *nest, dt_dtype dtype, double number);
int dt_nest_integer(dt_nest_builder *nest, dt_dtype dtype, int64_t integer); /* exact; wraps to the width of an integer dtype */
int dt_nest_scalar(dt_nest_builder *nest, dt_scalar_op scalar, dt_dtype dtype, int n_operands, const int *operands);
int dt_nest_binary(dt_nest_builder *nest, dt_scalar_op scalar, dt_dtype dtype, int x, int y);
int dt_nest_convert(dt_nest_builder *nest, int x, dt_dtype dtype); /* x itself when it has that type */
int dt_nest_and(dt_nest_builder *nest, int x, int y);              /* bools; -1 is true */
int dt_nest_affine(dt_nest_builder *nest, const dt_affine *x);     /* its value as an i64 */
/* Element `index` of a plan buffer; only where bool `guard` holds (-1: always), else the scalar `otherwise`. */
int dt_nest_load(dt_nest_builder *nest, int plan_buffer, const dt_affine *index, int guard, int otherwise);
void dt_nest_store(dt_nest_builder *nest, int plan_buffer, const dt_affine *index, int operand, bool accumulate, int guard);
int dt_nest_reduce(dt_nest_builder *nest, dt_combiner combiner, int operand, dt_dtype dtype); /* index of the reduction */
dt_dtype dt_nest_dtype(const dt_nest_builder *nest, int x);

/* The finished nest, without the instructions that no store needs. */
dt_nest dt_nest_finish(dt_nest_builder *nest);

/* ---- growing kernels and plans ---- */

/* Room for one more of `n` items: capacities are powers of two, so the count says when to grow. */
void *dt_grown(dt_arena *arena, void *items, int n, size_t item_bytes);
int dt_kernel_argument(dt_arena *arena, dt_kernel_function *kernel, int plan_buffer); /* its index in kernel->buffers, added when new */
int dt_plan_add_buffer(dt_arena *arena, dt_plan *plan, dt_buffer buffer);
int dt_plan_add_kernel(dt_arena *arena, dt_plan *plan, dt_kernel_function kernel);
void dt_kernel_insert_nest(dt_arena *arena, dt_kernel_function *kernel, int at, dt_nest nest);

#endif
