/* library: which nests a vendor's library can do, read off their loops and addresses.
 *
 * A product is known by its nest alone: two plain loads in memory, each outer loop walked by one of them or by both, and steps that make matrices.
 * A convolution's nest says less than the loops it was lowered from (borders have become guards, strides divisions), so those are asked, once both
 * operands are known to lie in memory as they are. */
#ifndef DT_KERNEL_LIBRARY_H
#define DT_KERNEL_LIBRARY_H

#include "abi/library.h"
#include "compiler/kernel/lower.h"

/* Fills in `call` if the nest, all of it, is what a library can do. The nest is as dt_lower_cluster made it. */
bool dt_nest_library(dt_lowering *lowering, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call);
bool dt_nest_library_product(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call);
bool dt_nest_library_convolution(dt_lowering *lowering, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call);

/* Whether a sum of products is large enough that a call is worth it, and wide enough that laying out a factor for it would be. */
bool dt_loops_want_library(const dt_plan *plan, const dt_value *root, const dt_loops *loops);
/* Whether it is so long as well that what follows the sum is better done by a nest of its own. */
bool dt_loops_want_split(const dt_plan *plan, const dt_loops *loops);

/* Notes that an argument must be zero beyond the valid rows; false: that cannot be had, since its rows are not contiguous. */
bool dt_library_add_clear(const dt_plan *plan, const dt_kernel_function *kernel, int argument, int64_t row_stride, dt_library_call *call);
/* Whether the result of a call may go there: for a variable, others may still have to read what it was. */
bool dt_library_may_write(const dt_plan *plan, const dt_kernel_function *kernel, int argument);

/* Adds what follows a product, with the argument that keeps something for it (-1: none), which lies as the result does; false: no library does that,
 * and `call` is of no use any more. */
bool dt_library_add_activation(const dt_plan *plan, const dt_kernel_function *kernel, dt_library_activation activation, int kept,
                               dt_library_call *call);

/* Adds that the nest `sum`, which runs right before, sums one of the product's factors; false, and nothing is changed: it does something else, or
 * what no library does beside that product. */
bool dt_library_add_bias_gradient(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *sum, dt_library_call *call);

/* "product 64 x 10 over 3200, bias, relu" */
void dt_library_print(dt_text *text, const dt_library_call *call);

#endif
