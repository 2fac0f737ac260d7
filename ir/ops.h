/* ops: what the rows of ops.def name. Each function is defined in the ops_CLASS.c of its class.
 *
 *   OP(name, CLASS, "signature", "formula or combiner", "gradient", infer, loops, gradient_function, LINEAR or NOT_LINEAR, "domain", ulp, "numpy", "doc")
 *
 * The signature reads  "operands; attributes -> result":  "x: number; axes: ints, keep: bool = false",  "x: number, y: number -> bool",
 * "x: any; to: dtype -> to".  `...` behind the last operand: there may be any number of them, at least one. An attribute with a default may be
 * left out. NULL for infer or loops means what the class says (MAP has both), else that there is none: `input` and `read` have the type of the
 * argument and of the variable. */
#ifndef DT_IR_OPS_H
#define DT_IR_OPS_H

#include "ir/formula.h"
#include "ir/graph.h"

/* The dtype that the row states for its result: of the operand or attribute that it names, else the first operand's. For infer functions. */
dt_dtype dt_op_result_dtype(const dt_op *op, dt_value *const *operands, const dt_attribute *attributes);

/* The attribute by name, while there is no value yet. For infer functions. */
const dt_attribute *dt_op_attribute(const dt_op *op, const dt_attribute *attributes, const char *name);

/* The row's formula over the operands of `value`, its attributes put in and its result of the value's dtype: the body of its loops. */
const dt_formula *dt_op_body(dt_arena *arena, const dt_value *value);

/* The functions of the rows, as types, so that each needs only its name below. See op.h for their contracts. */
typedef dt_status *dt_row_infer(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                dt_shape *shape, dt_dtype *dtype);
typedef dt_loops *dt_row_loops(dt_arena *arena, const dt_value *value);
typedef dt_status *dt_row_gradient(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients);

/* ops_source.c */
dt_row_infer dt_infer_constant, dt_infer_iota, dt_infer_launch;
dt_row_loops dt_loops_constant, dt_loops_iota, dt_loops_launch;

/* ops_map.c: operands of one shape, which is the result's; the row's formula over their elements at the same place. */
dt_row_infer dt_infer_map;
dt_row_loops dt_loops_map;
dt_row_gradient dt_gradient_convert;

/* ops_reduce.c */
dt_row_infer dt_infer_reduce;
dt_row_loops dt_loops_reduce;
dt_row_gradient dt_gradient_reduce_sum, dt_gradient_reduce_product, dt_gradient_reduce_max, dt_gradient_reduce_min;

/* ops_contract.c: matrix products */
dt_row_infer dt_infer_matmul, dt_infer_dot_general;
dt_row_loops dt_loops_matmul, dt_loops_dot_general;
dt_row_gradient dt_gradient_matmul, dt_gradient_dot_general;

/* ops_convolution.c */
dt_row_infer dt_infer_conv2d, dt_infer_conv2d_input_gradient, dt_infer_conv2d_kernel_gradient;
dt_row_loops dt_loops_conv2d, dt_loops_conv2d_input_gradient, dt_loops_conv2d_kernel_gradient;
dt_row_gradient dt_gradient_conv2d, dt_gradient_conv2d_input_gradient, dt_gradient_conv2d_kernel_gradient;

/* ops_window.c: window2d makes one result of each window, spread2d is its reverse. */
dt_row_infer dt_infer_window2d, dt_infer_spread2d;
dt_row_loops dt_loops_window2d, dt_loops_spread2d, dt_loops_window_gather, dt_loops_window_scatter;
dt_row_gradient dt_gradient_max_pool2d, dt_gradient_sum_pool2d, dt_gradient_sum_pool2d_gradient, dt_gradient_window_gather, dt_gradient_window_scatter;

/* ops_move.c */
dt_row_infer dt_infer_reshape, dt_infer_transpose, dt_infer_broadcast, dt_infer_slice, dt_infer_pad, dt_infer_concatenate, dt_infer_reverse;
dt_row_loops dt_loops_transpose, dt_loops_broadcast, dt_loops_slice, dt_loops_pad, dt_loops_concatenate, dt_loops_reverse;
dt_row_gradient dt_gradient_reshape, dt_gradient_transpose, dt_gradient_broadcast, dt_gradient_slice, dt_gradient_pad, dt_gradient_concatenate,
    dt_gradient_reverse;

/* ops_index.c */
dt_row_infer dt_infer_gather, dt_infer_scatter_add;
dt_row_loops dt_loops_gather, dt_loops_scatter_add;
dt_row_gradient dt_gradient_gather, dt_gradient_scatter_add;

/* ops_random.c */
dt_row_infer dt_infer_random_uniform;
dt_row_loops dt_loops_random_uniform;

/* ops_state.c: collectives, variables, control */
dt_row_infer dt_infer_all_reduce, dt_infer_all_gather, dt_infer_reduce_scatter, dt_infer_write, dt_infer_gradient;

#endif
