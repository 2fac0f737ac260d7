/* cases: every row of the op table applied to something, for the tests that walk the table.
 *
 * A case is text, "reduce_sum(f32[7, 9]; axes=[0])". Elementwise rows get theirs from their signature; the others are listed below, with odd
 * sizes on purpose. A row without a case is a failure of the test that walks the table (op_cases says which). B is 5 rows. */
#ifndef DT_TESTS_SUPPORT_OP_CASES_H
#define DT_TESTS_SUPPORT_OP_CASES_H

#include "base/text.h"
#include "ir/evaluate.h"
#include "ir/graph.h"
#include "ir/interpret.h"
#include "ir/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_case_list {
    DT_LIST(const char *) texts;
} op_case_list;

static const char *const listed_cases[] = {
    "constant(; value=1.0, shape=[7, 3], dtype=f32)",
    "constant(; value=2.5, shape=[7, 3], dtype=f64)",
    "constant(; value=-3.0, shape=[], dtype=i32)",
    "constant(; value=1.0, shape=[B, 9], dtype=bool)",
    "constant(; value=3.1, shape=[3], dtype=f16)",
    "constant(; value=0.3, shape=[B, 2], dtype=bf16)",
    "constant(; value=9007199254740993, shape=[B], dtype=i64)",
    "iota(; shape=[7, 9], axis=1, dtype=i64)",
    "iota(; shape=[7, 9], axis=0, dtype=f32)",
    "iota(; shape=[B, 3], axis=0, dtype=i32)",
    "iota(; shape=[4, 0], axis=0, dtype=i32)",
    "launch(; name=\"valid\")",
    "launch(; name=\"seed\")",
    "launch(; name=\"steps_per_epoch\")",

    "reduce_sum(f32[7, 9]; axes=[0])",
    "reduce_sum(f32[7, 9]; axes=[1], keep=true)",
    "reduce_sum(f32[B, 8, 17]; axes=[0, 2])",
    "reduce_sum(f32[1]; axes=[0])",
    "reduce_sum(f32[3, 1, 5]; axes=[])",
    "reduce_sum(f64[17, 1]; axes=[0, 1])",
    "reduce_sum(bool[B, 17]; axes=[0, 1])",
    "reduce_sum(u8[9, 131]; axes=[1])",
    "reduce_sum(i8[2, 3000]; axes=[0, 1])",
    "reduce_sum(i32[B, 9]; axes=[0])",
    "reduce_sum(i64[8, 9]; axes=[0])",
    "reduce_sum(f32[3, 100]; axes=[1])",
    "reduce_sum(f32[1, 3000]; axes=[1])",
    "reduce_sum(bool[1, 3000]; axes=[1])",
    "reduce_sum(f32[0, 9]; axes=[0])",
    "reduce_sum(f32[B, 0, 9]; axes=[1, 2])",
    "reduce_sum(f32[7, 0]; axes=[0])",
    "reduce_product(f32[7, 9]; axes=[0])",
    "reduce_product(f32[3, 60]; axes=[1])",
    "reduce_product(f32[2, 3, 5]; axes=[0, 2], keep=true)",
    "reduce_product(i32[4, 3]; axes=[1])",
    "reduce_product(f32[7, 0]; axes=[1])",
    "reduce_max(f32[7, 9]; axes=[1])",
    "reduce_max(f32[B, 17]; axes=[0], keep=true)",
    "reduce_max(f32[3, 4, 5]; axes=[0, 2])",
    "reduce_max(i32[8, 9]; axes=[0, 1])",
    "reduce_max(f32[3, 100]; axes=[1])",
    "reduce_max(f32[1, 3000]; axes=[1])",
    "reduce_max(f32[7, 0]; axes=[0])",
    "reduce_max(f32[B, 3]; axes=[0])",
    "reduce_min(f32[7, 9]; axes=[1])",
    "reduce_min(f32[3, B, 5]; axes=[1, 2], keep=true)",
    "reduce_min(u8[8, 9]; axes=[0])",
    "reduce_min(f32[3, 100]; axes=[1])",
    "reduce_min(f32[1, 3000]; axes=[1])",
    "reduce_all(bool[17, 2]; axes=[1])",
    "reduce_all(bool[B]; axes=[0])",
    "reduce_all(bool[B, 0]; axes=[0, 1])",
    "reduce_all(bool[1, 3000]; axes=[1])",
    "reduce_any(bool[17, 2]; axes=[1], keep=true)",
    "reduce_any(bool[3, 100]; axes=[1])",
    "reduce_any(bool[3, 0]; axes=[1])",
    "reduce_any(bool[B, 9]; axes=[0])",
    "argmax(f32[B, 10]; axes=[1])",
    "argmax(f32[7, 8, 9]; axes=[1, 2], keep=true)",
    "argmax(i32[7, 19]; axes=[1])",
    "argmax(f32[3, 100]; axes=[1])",
    "argmax(f32[1, 3000]; axes=[1])",
    "argmax(f32[0, 9]; axes=[1])",
    "argmin(f32[9, 7]; axes=[0])",
    "argmin(f32[1, 3000]; axes=[1])",
    "argmin(f32[1, 1]; axes=[0, 1])",

    "matmul(f32[7, 9], f32[9, 8]; )",
    "matmul(f32[9, 7], f32[9, 8]; transpose_a=true)",
    "matmul(f32[7, 9], f32[17, 9]; transpose_b=true)",
    "matmul(f32[9, 1], f32[8, 9]; transpose_a=true, transpose_b=true)",
    "matmul(f32[B, 3, 7], f32[B, 7, 5]; )",
    "matmul(f32[B, 2, 7, 3], f32[B, 2, 5, 7]; transpose_a=true, transpose_b=true)",
    "matmul(f32[B, 3, 7], f32[7, 5]; )",
    "matmul(f32[B, 7, 3], f32[5, 7]; transpose_a=true, transpose_b=true)",
    "matmul(f32[B, 7], f32[B, 5]; transpose_a=true)",
    "matmul(f64[1, 1], f64[1, 1]; )",
    "matmul(f32[70, 45], f32[45, 66]; )",
    "matmul(f32[B, 35, 20], f32[B, 33, 20]; transpose_b=true)",
    "matmul(f32[7, 9], f32[9, 0]; )",
    "matmul(f32[0, 9], f32[9, 8]; )",
    "matmul(f32[7, 0], f32[0, 8]; )",
    "matmul(f32[B, 0], f32[B, 5]; transpose_a=true)",
    "matmul(f32[B, 9], f32[B, 0]; transpose_a=true)",
    "matmul(f32[B, 0], f32[0, 5]; )",
    "matmul(f32[B, 9], f32[9, 0]; )",
    "matmul(f32[B, 0, 7], f32[B, 7, 5]; )",
    "matmul(f32[0, 40, 45], f32[0, 45, 66]; )",
    "matmul(f32[70, 0], f32[0, 66]; )",
    "matmul(f32[B, 17], f32[17, 33]; precision=\"tf32\")",
    "matmul(f32[B, 17], f32[17, 33]; precision=\"bf16\")",
    "matmul(f32[B, 3, 7], f32[7, 5]; precision=\"bf16\")",
    "matmul(f32[B, 17], f32[B, 5]; transpose_a=true, precision=\"tf32\")",
    "matmul(f32[70, 300], f32[300, 260]; precision=\"bf16\")",
    "matmul(f32[65, 33], f32[67, 33]; transpose_b=true, precision=\"tf32\")",
    "dot_general(f32[7, 9], f32[9, 8]; a_batch=[], b_batch=[], a_contract=[1], b_contract=[0])",
    "dot_general(f32[B, 7, 3], f32[B, 7, 5]; a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1])",
    "dot_general(f32[3, 5, B, 2], f32[B, 4, 2, 3]; a_batch=[2], b_batch=[0], a_contract=[3, 0], b_contract=[2, 3])",
    "dot_general(f32[3], f32[5]; a_batch=[], b_batch=[], a_contract=[], b_contract=[])",
    "dot_general(f32[B, 7, 0], f32[B, 7, 5]; a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1])",
    "dot_general(f32[B, 0, 3], f32[B, 0, 5]; a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1])",
    "dot_general(f32[B, 7, 3], f32[B, 7, 5]; a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1], precision=\"bf16\")",
    "dot_general(f32[3, 5, B, 2], f32[B, 4, 2, 3]; a_batch=[2], b_batch=[0], a_contract=[3, 0], b_contract=[2, 3], precision=\"tf32\")",
    "dot_general(f32[40, B, 180], f32[40, B, 400]; a_batch=[1], b_batch=[1], a_contract=[0], b_contract=[0], precision=\"bf16\")",

    "conv2d(f32[B, 7, 9, 3], f32[3, 3, 3, 8]; )",
    "conv2d(f32[B, 8, 7, 1], f32[2, 3, 1, 5]; strides=[2, 1], padding=[1, 0, 1, 1])",
    "conv2d(f32[2, 9, 9, 2], f32[3, 2, 2, 3]; strides=[1, 2], padding=[2, 2, 0, 1], dilation=[2, 3])",
    "conv2d(f32[B, 7, 7, 3, 2], f32[3, 3, 2, 3, 4]; padding=[1, 1, 1, 1])",
    "conv2d(f32[B, 6, 6, 5, 1], f32[3, 3, 1, 5, 1]; strides=[2, 2])",
    "conv2d(f32[B, 7, 9, 0], f32[3, 3, 0, 8]; padding=[1, 1, 1, 1])",
    "conv2d(f32[B, 7, 9, 3], f32[3, 3, 3, 0]; )",
    "conv2d(f32[B, 7, 9, 3], f32[3, 3, 3, 8]; padding=[1, 1, 1, 1], precision=\"tf32\")",
    "conv2d(f32[B, 8, 7, 1], f32[2, 3, 1, 5]; strides=[2, 1], padding=[1, 0, 1, 1], precision=\"bf16\")",
    "conv2d(f32[B, 6, 6, 5, 1], f32[3, 3, 1, 5, 1]; strides=[2, 2], precision=\"bf16\")",
    "conv2d_input_gradient(f32[B, 5, 7, 8], f32[3, 3, 3, 8]; size=[7, 9])",
    "conv2d_input_gradient(f32[B, 4, 7, 5], f32[2, 3, 1, 5]; size=[8, 7], strides=[2, 1], padding=[1, 0, 1, 1])",
    "conv2d_input_gradient(f32[2, 9, 4, 3], f32[3, 2, 2, 3]; size=[9, 9], strides=[1, 2], padding=[2, 2, 0, 1], dilation=[2, 3])",
    "conv2d_input_gradient(f32[B, 7, 7, 3, 4], f32[3, 3, 2, 3, 4]; size=[7, 7], padding=[1, 1, 1, 1])",
    "conv2d_input_gradient(f32[B, 7, 7, 8], f32[4, 4, 3, 8]; size=[14, 14], strides=[2, 2], padding=[1, 1, 1, 1])",
    "conv2d_input_gradient(f32[B, 4, 3, 6], f32[3, 5, 18, 6]; size=[11, 9], strides=[3, 3], padding=[0, 1, 2, 1])",
    "conv2d_input_gradient(f32[B, 3, 4, 5], f32[2, 1, 9, 5]; size=[8, 12], strides=[3, 3], padding=[0, 0, 0, 0])",
    "conv2d_input_gradient(f32[B, 5, 4, 4], f32[2, 3, 8, 4]; size=[10, 9], strides=[2, 2], padding=[1, 1, 2, 1], dilation=[2, 2])",
    "conv2d_input_gradient(f32[B, 4, 4, 5, 1], f32[3, 3, 1, 5, 1]; size=[7, 8], strides=[2, 2], padding=[1, 1, 0, 1])",
    "conv2d_input_gradient(f32[B, 2, 3, 20], f32[5, 5, 1, 20]; size=[4, 6], strides=[2, 2], padding=[1, 2, 1, 2])",
    "conv2d_input_gradient(f32[B, 5, 7, 0], f32[3, 3, 3, 0]; size=[7, 9])",
    "conv2d_input_gradient(f32[B, 5, 7, 8], f32[3, 3, 0, 8]; size=[7, 9])",
    "conv2d_input_gradient(f32[B, 5, 7, 8], f32[3, 3, 3, 8]; size=[7, 9], precision=\"bf16\")",
    "conv2d_input_gradient(f32[B, 4, 3, 6], f32[3, 5, 18, 6]; size=[11, 9], strides=[3, 3], padding=[0, 1, 2, 1], precision=\"tf32\")",
    "conv2d_kernel_gradient(f32[B, 7, 9, 3], f32[B, 5, 7, 8]; size=[3, 3])",
    "conv2d_kernel_gradient(f32[B, 8, 7, 1], f32[B, 4, 7, 5]; size=[2, 3], strides=[2, 1], padding=[1, 0, 1, 1])",
    "conv2d_kernel_gradient(f32[2, 9, 9, 2], f32[2, 9, 4, 3]; size=[3, 2], strides=[1, 2], padding=[2, 2, 0, 1], dilation=[2, 3])",
    "conv2d_kernel_gradient(f32[B, 7, 7, 3, 2], f32[B, 7, 7, 3, 4]; size=[3, 3], padding=[1, 1, 1, 1])",
    "conv2d_kernel_gradient(f32[B, 7, 9, 0], f32[B, 5, 7, 8]; size=[3, 3])",
    "conv2d_kernel_gradient(f32[B, 7, 9, 3], f32[B, 5, 7, 0]; size=[3, 3])",
    "conv2d_kernel_gradient(f32[B, 7, 9, 3], f32[B, 5, 7, 8]; size=[3, 3], precision=\"bf16\")",
    "conv2d_kernel_gradient(f32[B, 8, 7, 1], f32[B, 4, 7, 5]; size=[2, 3], strides=[2, 1], padding=[1, 0, 1, 1], precision=\"tf32\")",
    "conv3d(f32[B, 4, 5, 6, 3], f32[2, 3, 3, 3, 8]; )",
    "conv3d(f32[B, 5, 4, 5, 1], f32[3, 2, 3, 1, 5]; strides=[2, 1, 2], padding=[1, 1, 0, 1, 2, 0], dilation=[1, 2, 1])",
    "conv3d(f32[B, 3, 4, 5, 3, 2], f32[2, 3, 2, 2, 3, 4]; padding=[0, 1, 1, 1, 0, 0])",
    "conv3d(f32[B, 3, 4, 5, 3], f32[2, 3, 2, 3, 4]; precision=\"bf16\")",
    "conv3d_input_gradient(f32[B, 3, 3, 4, 8], f32[2, 3, 3, 3, 8]; size=[4, 5, 6])",
    "conv3d_input_gradient(f32[B, 2, 4, 3, 5], f32[3, 2, 3, 1, 5]; size=[4, 4, 5], strides=[2, 1, 2], padding=[1, 0, 1, 0, 1, 1])",
    "conv3d_input_gradient(f32[B, 3, 4, 4, 3, 4], f32[2, 3, 2, 2, 3, 4]; size=[3, 4, 5], padding=[0, 1, 1, 1, 0, 0])",
    "conv3d_kernel_gradient(f32[B, 4, 5, 6, 3], f32[B, 3, 3, 4, 8]; size=[2, 3, 3])",
    "conv3d_kernel_gradient(f32[B, 4, 4, 5, 1], f32[B, 2, 4, 3, 5]; size=[3, 2, 3], strides=[2, 1, 2], padding=[1, 0, 1, 0, 1, 1])",
    "conv3d_kernel_gradient(f32[B, 3, 4, 5, 3, 2], f32[B, 3, 4, 4, 3, 4]; size=[2, 3, 2], padding=[0, 1, 1, 1, 0, 0])",

    "max_pool2d(f32[B, 7, 9, 3]; size=[2, 2], strides=[2, 2])",
    "max_pool2d(f32[B, 7, 8, 1]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "max_pool2d(f32[B, 7, 9, 0]; size=[2, 2], strides=[2, 2])",
    "max_pool2d_index(f32[B, 7, 9, 3]; size=[2, 2], strides=[2, 2])",
    "max_pool2d_index(f32[B, 7, 8, 1]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "sum_pool2d(f32[B, 7, 9, 3]; size=[2, 2], strides=[2, 2])",
    "sum_pool2d(f32[B, 7, 8, 1]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "sum_pool2d_gradient(f32[B, 3, 4, 3]; input=[7, 9], size=[2, 2], strides=[2, 2])",
    "sum_pool2d_gradient(f32[B, 4, 8, 1]; input=[7, 8], size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "sum_pool2d_gradient(f32[B, 3, 4, 0]; input=[7, 9], size=[2, 2], strides=[2, 2])",
    "window_gather(f32[B, 7, 9, 3], i32[B, 3, 4, 3]; size=[2, 2], strides=[2, 2])",
    "window_gather(f32[B, 7, 8, 1], i32[B, 4, 8, 1]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "window_scatter(f32[B, 3, 4, 3], i32[B, 3, 4, 3]; input=[7, 9], size=[2, 2], strides=[2, 2])",
    "window_scatter(f32[B, 4, 8, 1], i32[B, 4, 8, 1]; input=[7, 8], size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])",
    "window_scatter(f32[B, 3, 4, 0], i32[B, 3, 4, 0]; input=[7, 9], size=[2, 2], strides=[2, 2])",

    "reshape(f32[B, 8, 9]; shape=[B, 72])",
    "reshape(i32[6, 4]; shape=[3, 1, 8])",
    "reshape(f32[1]; shape=[])",
    "reshape(f32[B, 0, 9]; shape=[B, 3, 0])",
    "transpose(f32[7, 9]; permutation=[1, 0])",
    "transpose(f32[B, 3, 5, 7]; permutation=[0, 2, 1, 3])",
    "transpose(u8[2, 3, 17]; permutation=[2, 0, 1])",
    "transpose(f32[B, 0, 5]; permutation=[2, 0, 1])",
    "broadcast(f32[9]; shape=[B, 7, 9], dims=[2])",
    "broadcast(f32[7, 1, 9]; shape=[7, 8, 9], dims=[0, 1, 2])",
    "broadcast(f32; shape=[17], dims=[])",
    "broadcast(bool[B, 1]; shape=[B, 3, 4], dims=[0, 2])",
    "broadcast(f32[B, 1]; shape=[B, 3, 0], dims=[0, 2])",
    "slice(f32[B, 9, 8]; starts=[0, 2, 0], limits=[B, 7, 8])",
    "slice(f32[17]; starts=[1], limits=[17], steps=[3])",
    "slice(i64[7, 9]; starts=[6, 4], limits=[7, 4], steps=[1, 2])",
    "pad(f32[B, 3, 5]; low=[0, 1, 2], high=[0, 2, 0])",
    "pad(f32[7, 4]; low=[2, 0], high=[1, 3], value=1, steps=[3, 1])",
    "pad(f64[7, 4]; low=[2, 0], high=[1, 3], value=-1.5, steps=[3, 1])",
    "pad(f32[9, 5]; low=[0, 1], high=[3, 0], steps=[2, 1])",
    "pad(f32[B, 0, 5]; low=[0, 2, 0], high=[0, 1, 0], value=1)",
    "pad(f16[9]; low=[1], high=[2], value=3.1)",
    "pad(i64[9]; low=[1], high=[2], value=9007199254740993)",
    "concatenate(f32[B, 3], f32[B, 1], f32[B, 5]; axis=1)",
    "concatenate(f32[7, 2, 3]; axis=0)",
    "concatenate(u8[2, 9], u8[7, 9]; axis=0)",
    "concatenate(f32[B, 0], f32[B, 3]; axis=1)",
    "reverse(f32[B, 7, 9]; axes=[1, 2])",
    "reverse(bool[17]; axes=[0])",
    "reverse(f32[B, 0]; axes=[1])",

    "gather(f32[9, 4], i32[7]; axis=0)",
    "gather(f32[31, 3], u8[B, 7]; axis=0)",
    "gather(f32[31, 8], i32[B, 7]; axis=0)",
    "gather(bool[B, 5, 32], i64[B, 9]; axis=1)",
    "gather(f32[B, 10], u8[B]; axis=1)",
    "gather(f32[B, 7, 3], i64[B, 5]; axis=1)",
    "gather(f32[B, 2, 9], i32[B, 2]; axis=2)",
    "gather(i32[7, 9], i32; axis=0)",
    "gather(f32[9, 0], i32[B, 7]; axis=0)",
    "gather(f32[9, 4], i32[B, 0]; axis=0)",
    "scatter_add(f32[7, 4], i32[7]; axis=0, size=9)",
    "scatter_add(f32[B, 7, 3], u8[B, 7]; axis=0, size=31)",
    "scatter_add(f32[B, 5, 3], i64[B, 5]; axis=1, size=7)",
    "scatter_add(f32[B], i32[B]; axis=1, size=10)",
    "scatter_add(i32[9], i32[9]; axis=0, size=3)",
    "scatter_add(f32[90, 37], i32[90]; axis=0, size=7)", /* enough indices for owners of places (kernel/gpu_forms.h) */
    "scatter_add(f32[B, 70, 3], i32[B, 70]; axis=0, size=2500)",
    "scatter_add(i32[130], u8[130]; axis=0, size=5)",
    "scatter_add(f32[B, 0, 3], u8[B, 0]; axis=0, size=31)",
    "scatter_add(f32[90, 0], i32[90]; axis=0, size=7)",

    "random_uniform(; shape=[7, 9], stream=81985529216486895)",
    "random_uniform(; shape=[B, 3, 5], stream=-2)",
    "random_uniform(; shape=[3, B], stream=7)",
    "random_uniform(; shape=[], stream=0)",
    "random_uniform(; shape=[B, 0], stream=0)",
};

/* An elementwise row over one shape: its first word that is not bool takes `dtype`. */
static inline const char *map_case(dt_arena *arena, const dt_op *op, dt_dtype dtype, const char *dims, dt_dtype to) {
    const char *text = dt_arena_format(arena, "%s(", op->name);
    for (int k = 0; k < op->n_operands; k++) {
        const char *own = strcmp(op->operands[k].type, "bool") == 0 ? "bool" : dt_dtype_name(dtype);
        text = dt_arena_format(arena, "%s%s%s%s", text, k > 0 ? ", " : "", own, dims);
    }
    for (int a = 0; a < op->n_attributes; a++) text = dt_arena_format(arena, "%s; %s=%s", text, op->attributes[a].name, dt_dtype_name(to));
    return dt_arena_format(arena, op->n_attributes > 0 ? "%s)" : "%s; )", text);
}

static inline void add_map_cases(dt_arena *arena, op_case_list *list, const dt_op *op) {
    static const char *const shapes[] = {"", "[1]", "[7]", "[8]", "[9]", "[17]", "[3, 5, 7]", "[B, 33]", "[B, 0]"};
    const char *word = "bool";
    for (int k = op->n_operands - 1; k >= 0; k--)
        if (strcmp(op->operands[k].type, "bool") != 0) word = op->operands[k].type;
    bool has_all_shapes = false;
    for (int d = 0; d < DT_N_DTYPES; d++) {
        if (!dt_type_word_holds(word, (dt_dtype)d)) continue;
        if (dt_dtype_kind((dt_dtype)d) == 'i' && op->n_operands > 1)
            dt_list_push(arena, &list->texts, map_case(arena, op, (dt_dtype)d, "[12, 12]", DT_I64)); /* op_fill_with_extremes */
        for (size_t s = has_all_shapes ? 5 : 0; s < (has_all_shapes ? 6 : sizeof shapes / sizeof *shapes); s++)
            for (int to = 0; to < (op->n_attributes > 0 ? DT_N_DTYPES : 1); to++)
                dt_list_push(arena, &list->texts, map_case(arena, op, (dt_dtype)d, shapes[s], (dt_dtype)to));
        has_all_shapes = true;
    }
}

/* All cases of a row, by appending to the list; false when it has none. */
static inline bool op_cases(dt_arena *arena, op_case_list *list, const dt_op *op) {
    size_t before = list->texts.n;
    if (op->class == DT_CLASS_MAP) add_map_cases(arena, list, op);
    for (size_t i = 0; i < sizeof listed_cases / sizeof *listed_cases; i++) {
        size_t length = strlen(op->name);
        if (strncmp(listed_cases[i], op->name, length) == 0 && listed_cases[i][length] == '(') dt_list_push(arena, &list->texts, listed_cases[i]);
    }
    return list->texts.n > before;
}

/* Does the row have a value that can be computed from operands alone? Not arguments, variables, collectives and what passes resolve. */
static inline bool op_has_value(const dt_op *op) { return op->loops != NULL || op->class == DT_CLASS_MOVE; }

/* Builds the case in `function`, its operands as inputs. `from`, `to`: a dtype that stands for another, as f64 for f32 (NULL: none). */
static inline dt_status *op_case_build(dt_function *function, const char *text, const char *from, const char *to, dt_value **value) {
    dt_arena *arena = function->module->arena;
    char *copy = dt_arena_string(arena, text);
    for (char *at = copy; from != NULL && (at = strstr(at, from)) != NULL; at += strlen(to)) memcpy(at, to, strlen(to));
    size_t length = strcspn(copy, "(");
    const dt_op *op = dt_op_find(dt_arena_substring(arena, copy, length));
    if (op == NULL) return dt_error(DT_INTERNAL, "%s: no such op", text);
    dt_reader reader = {.source = copy, .at = copy + length + 1, .arena = arena};
    dt_value *operands[8];
    int n = 0;
    while (!dt_read_symbol(&reader, ";")) {
        dt_dtype dtype;
        dt_shape shape;
        if (n > 0) dt_read_symbol(&reader, ",");
        if (!dt_read_type(&reader, &dtype, &shape)) return dt_reader_error(&reader, "%s: no type", text);
        operands[n] = dt_build_input(function, dt_arena_format(arena, "x%d", n), dtype, shape, (dt_location){0});
        n++;
    }
    dt_attribute *attributes = DT_NEW_ARRAY(arena, dt_attribute, op->n_attributes);
    DT_TRY(dt_read_attributes(&reader, op, attributes));
    dt_builder builder = {.function = function};
    return dt_build(&builder, op, operands, n, attributes, value);
}

/* ---- elements ---- */

/* A small generator of our own, so that a seed means the same numbers everywhere. */
static inline double next_uniform(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The row's domain of operand k: "low, high", one for all or one for each behind ';'. */
static inline void op_domain(const dt_op *op, int k, double *low, double *high) {
    *low = -10, *high = 10;
    if (strcmp(op->domain, "any") == 0) return;
    const char *at = op->domain;
    for (int i = 0; i < k && strchr(at, ';') != NULL; i++) at = strchr(at, ';') + 1;
    char *end;
    *low = strtod(at, &end);
    *high = strtod(strchr(end, ',') + 1, &end);
}

/* Indices of operand k must be below this; 0 when operand k holds no indices. */
static inline int64_t op_index_limit(dt_arena *arena, const dt_value *value, int k) {
    if (strcmp(value->op->operands[value->op->variadic ? 0 : k].name, "index") != 0) return 0;
    const dt_loops *loops = dt_value_loops(arena, value);
    for (int i = 0; i <= value->n_operands; i++) {
        const dt_access *access = i < value->n_operands ? &loops->operands[i] : loops->result;
        dt_shape shape = i < value->n_operands ? value->operands[i]->shape : value->shape;
        for (int d = 0; access != NULL && d < shape.rank; d++)
            if (access->dims[d].indirect == k) return shape.dims[d];
    }
    int n;
    const int64_t *size = dt_value_ints(value, "size", &n);
    return size[0] * size[1];
}

/* Operand k of the case, B being `rows`. Indices also stray out of range a little, unless `strict`. */
static inline dt_tensor op_random_operand(dt_arena *arena, const dt_value *value, int k, int64_t rows, bool strict, uint64_t *state) {
    const dt_value *operand = value->operands[k];
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, operand->shape.rank);
    for (int d = 0; d < operand->shape.rank; d++) dims[d] = dt_dim_is_symbol(operand->shape.dims[d]) ? rows : operand->shape.dims[d];
    dt_tensor tensor = dt_tensor_make(arena, operand->dtype, (dt_shape){operand->shape.rank, dims});
    int64_t limit = op_index_limit(arena, value, k);
    double low, high;
    op_domain(value->op, value->op->variadic ? 0 : k, &low, &high);
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) {
        double u = next_uniform(state);
        if (limit > 0)
            dt_tensor_set(&tensor, i, strict ? (double)(int64_t)(u * (double)limit) : (double)((int64_t)(u * (double)(limit + 2)) - 1));
        else if (operand->dtype == DT_BOOL)
            dt_tensor_set(&tensor, i, u < 0.5);
        else
            dt_tensor_set(&tensor, i, low + u * (high - low));
    }
    return tensor;
}

/* Operand k of an elementwise row over integers: the ends of its type and what lies around 0; over 12 x 12 elements every pair of them. */
static inline void op_fill_with_extremes(dt_tensor *tensor, int k) {
    int bits = 8 * (int)dt_dtype_bytes(tensor->dtype);
    bool is_signed = dt_dtype_is_signed(tensor->dtype);
    int64_t greatest = (int64_t)(UINT64_MAX >> (64 - bits + is_signed)), least = is_signed ? -greatest - 1 : 0;
    const int64_t values[12] = {least, least + 1, least / 2, -7, -1, 0, 1, 2, 7, greatest / 2 + 1, greatest - 1, greatest};
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++)
        dt_scalar_store((char *)tensor->data + i * dt_dtype_bytes(tensor->dtype), tensor->dtype,
                        (dt_scalar){.i = values[(k == 0 ? i : i / 12) % 12]});
}

#endif
