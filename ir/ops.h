/* ops: what the rows of ops.def name. Each function is defined in the ops_CLASS.c of its class.
 *
 *   OP(name, CLASS, "signature", "formula or combiner", "gradient", infer, loops, gradient_function, narrow, algebra, "domain", ulp,
 *      "numpy", "doc")
 *
 * The signature reads  "operands; attributes -> result":  "x: number; axes: ints, keep: bool = false",  "x: number, y: number -> bool",
 * "x: any; to: dtype -> to".  `...` after the last operand: there may be any number of them, at least one. An attribute with a default may be
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
typedef void dt_row_narrow(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes);
typedef dt_status *dt_row_gradient(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients);

/* ops_loops.c: what loops functions are made of.
 *
 * Loops of `value` with the outer extents `outer` and the reduced ones after them. Every index is 0 (no loop moves it, divisor 1, direct) until
 * the caller says otherwise. `body` is a formula over the row's operand names, an operand of a variadic op being its row's name and its
 * number; NULL is the row's own formula. */
dt_loops *dt_loops_new(dt_arena *arena, const dt_value *value, dt_shape outer, int n_reduced, const int64_t *reduced, dt_combiner combiner,
                       const char *body);
/* Last step: marks each access that may read outside of its operand (or write outside of the result). Returns `loops`. */
dt_loops *dt_loops_guard(dt_loops *loops, const dt_value *value);
/* An access of `rank` dimensions at index 0 in all. */
dt_access dt_access_new(dt_arena *arena, int rank, int n_loops);

/* ops_infer.c: what infer functions share. "f32[B, 28, 28]", for errors. */
const char *dt_type_text(dt_arena *arena, const dt_value *value);
/* Ascending, without repetition and below rank: "%s: axes …" otherwise. */
dt_status *dt_check_axes(const dt_op *op, const char *name, const dt_attribute *axes, int rank);
dt_status *dt_check_axis(const dt_op *op, const char *name, int64_t axis, int rank);
/* The attribute must hold n integers, each at least `lowest`. */
dt_status *dt_check_ints(const dt_op *op, const dt_attribute *attributes, const char *name, int n, int64_t lowest);
/* An attribute that is a shape: no entry below 0 but the symbols. */
dt_status *dt_check_shape(const dt_op *op, const dt_attribute *attributes, const char *name);

/* The attribute `precision` of a product: one of abi/precision.h, another than f32 for factors of f32 alone. */
dt_status *dt_check_precision(const dt_op *op, dt_value *const *operands, const dt_attribute *attributes);

/* ops_source.c */
dt_row_infer dt_infer_constant, dt_infer_iota, dt_infer_launch;
dt_row_loops dt_loops_constant, dt_loops_iota, dt_loops_launch;

/* ops_map.c: operands of one shape, which is the result's; the row's formula over their elements at the same index. */
dt_row_infer dt_infer_map;
dt_row_loops dt_loops_map;

/* ops_gradient.c: what gradient functions are made of, and the gradient of the one MAP row that needs a function.
 *
 * Builds an op whose attributes are, by name: those of `settings`, else those of `like` (may be NULL), else the row's defaults. */
typedef struct dt_setting {
    const char *name;
    dt_attribute value;
} dt_setting;
dt_status *dt_build_like(dt_builder *builder, dt_value **result, const char *op, dt_value *const *operands, int n_operands, const dt_value *like,
                         const dt_setting *settings, int n_settings);
dt_setting dt_set_int(const char *name, int64_t i);                                        /* BOOL and DTYPE too */
dt_setting dt_set_ints(dt_builder *builder, const char *name, int n, const int64_t *ints); /* a copy in the module's arena */
dt_row_gradient dt_gradient_convert;

/* ops_narrow.c: what narrow functions are made of, and that of all rows whose one attribute to change is `shape`.
 *
 * One direction of windows over an image, for height or width:  index in the image = index of a window * stride + tap * dilation - padding,  taps
 * reaching over `reach` = dilation * (taps - 1) + 1 elements. The first makes windows `part` of the elements `image`, the second elements `part` of
 * the windows `windows`, which it widens. padding: low and high, first the whole op's, then the part's. */
void dt_narrow_windows(int64_t stride, int64_t reach, dt_range part, dt_range image, int64_t padding[2]);
void dt_narrow_image(int64_t stride, int64_t reach, dt_range part, dt_range *windows, int64_t padding[2]);
dt_attribute *dt_narrowed(const dt_value *value, dt_attribute *attributes, const char *name); /* the attribute to set */
dt_row_narrow dt_narrow_shape;

/* ops_reduce.c */
dt_row_infer dt_infer_reduce;
dt_row_loops dt_loops_reduce;
dt_row_gradient dt_gradient_reduce_sum, dt_gradient_reduce_product, dt_gradient_reduce_max, dt_gradient_reduce_min;

/* ops_contract.c: the body of all sums of products, its two factors rounded to the value's precision; and matrix products. */
const char *dt_product_body(dt_arena *arena, const dt_value *value);
dt_row_infer dt_infer_matmul, dt_infer_dot_general;
dt_row_loops dt_loops_matmul, dt_loops_dot_general;
dt_row_gradient dt_gradient_matmul, dt_gradient_dot_general;

/* ops_convolution.c */
dt_row_infer dt_infer_convolution, dt_infer_convolution_input_gradient, dt_infer_convolution_kernel_gradient;
dt_row_loops dt_loops_convolution, dt_loops_convolution_input_gradient, dt_loops_convolution_kernel_gradient;
dt_row_gradient dt_gradient_convolution, dt_gradient_convolution_input_gradient, dt_gradient_convolution_kernel_gradient;
dt_row_narrow dt_narrow_convolution, dt_narrow_convolution_input_gradient;

/* ops_window.c: window2d makes one result of each window, spread2d is its reverse. */
dt_row_infer dt_infer_window2d, dt_infer_spread2d;
dt_row_loops dt_loops_window2d, dt_loops_spread2d, dt_loops_window_gather, dt_loops_window_scatter;
dt_row_gradient dt_gradient_max_pool2d, dt_gradient_sum_pool2d, dt_gradient_sum_pool2d_gradient, dt_gradient_window_gather,
    dt_gradient_window_scatter;
dt_row_narrow dt_narrow_window2d, dt_narrow_spread2d;

/* ops_move.c */
dt_row_infer dt_infer_reshape, dt_infer_transpose, dt_infer_broadcast, dt_infer_slice, dt_infer_pad, dt_infer_concatenate, dt_infer_reverse;
dt_row_loops dt_loops_transpose, dt_loops_broadcast, dt_loops_slice, dt_loops_pad, dt_loops_concatenate, dt_loops_reverse;
dt_row_gradient dt_gradient_reshape, dt_gradient_transpose, dt_gradient_broadcast, dt_gradient_slice, dt_gradient_pad, dt_gradient_concatenate,
    dt_gradient_reverse;
dt_row_narrow dt_narrow_reshape, dt_narrow_slice, dt_narrow_pad;

/* ops_index.c */
dt_row_infer dt_infer_gather, dt_infer_scatter_add;
dt_row_loops dt_loops_gather, dt_loops_scatter_add;
dt_row_gradient dt_gradient_gather, dt_gradient_scatter_add;

/* ops_random.c */
dt_row_infer dt_infer_random_uniform;
dt_row_loops dt_loops_random_uniform;

/* ops_loop.c */
dt_row_infer dt_infer_loop, dt_infer_end_loop, dt_infer_carried, dt_infer_advance, dt_infer_scanned, dt_infer_stack;

/* ops_state.c: collectives, variables, control */
dt_row_infer dt_infer_all_reduce, dt_infer_all_gather, dt_infer_reduce_scatter, dt_infer_write, dt_infer_gradient;

#endif
