/* What rows say to operands and attributes that do not fit. The front end shows these sentences to users behind the place in the program: each
 * names the op, what is wrong, and the types that met. */
#include "tests/support/op_cases.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
    const char *text, *message;
} mistakes[] = {
    {"iota(; shape=[3], axis=1)", "iota: axis 1 is not a dimension of a shape of rank 1"},
    {"launch(; name=\"rank\")", "launch: there is no launch value \"rank\""},
    {"launch(; name=\"rows\")", "launch: \"rows\" differs from replica to replica"},
    {"random_uniform(; shape=[B, B], stream=1)", "random_uniform: B may stand once in the shape"},
    {"add(f32[3], f32[4]; )", "add expects x and y of one shape, got f32[3] and f32[4]"},
    {"add(f32[3], f64[3]; )", "add: x is f32 and y is f64"},
    {"exp(i32[3]; )", "exp: x must be float, it is i32"},
    {"reduce_sum(f32[3]; axes=[1])", "reduce_sum: axes 1 is not a dimension of x, which has 1"},
    {"reduce_max(f32[3, 4]; axes=[1, 0])", "reduce_max: axes must increase, but 0 follows 1"},
    {"matmul(f32[3], f32[3, 4]; )", "matmul expects a: [..., M, K] and b: [..., K, N] or [K, N], got f32[3] and f32[3, 4]"},
    {"matmul(f32[B, 3, 4], f32[3, 4, 5]; )", "got f32[B, 3, 4] and f32[3, 4, 5]"},
    {"matmul(f32[3, 4], f32[3, 4]; )", "matmul sums over dimension 1 of a: f32[3, 4] and dimension 0 of b: f32[3, 4], which differ"},
    {"dot_general(f32[3, 4], f32[3, 4]; a_batch=[0], b_batch=[1], a_contract=[], b_contract=[])", "dot_general pairs dimensions of a: f32[3, 4]"},
    {"dot_general(f32[3, 4], f32[3, 4]; a_batch=[0], b_batch=[0], a_contract=[0], b_contract=[0])", "dot_general pairs dimensions of a: f32[3, 4]"},
    {"matmul(f32[3, 4], f32[4, 3]; precision=\"f16\")", "matmul: precision must be \"f32\", \"tf32\" or \"bf16\", it is \"f16\""},
    {"matmul(f64[3, 4], f64[4, 3]; precision=\"tf32\")", "matmul: precision tf32 rounds factors of f32, these are f64"},
    {"conv2d(f32[B, 28, 28], f32[3, 3, 1, 8]; )", "conv2d expects x: [B, H, W, channels], got f32[B, 28, 28]"},
    {"conv2d(f32[B, 28, 28, 1], f32[3, 3, 8]; )", "conv2d expects kernel: [KH, KW, I, O], got f32[3, 3, 8]"},
    {"conv2d(f32[B, 28, 28, 3], f32[3, 3, 1, 8]; )", "conv2d: the channels of x: f32[B, 28, 28, 3] and kernel: f32[3, 3, 1, 8] do not fit"},
    {"conv2d(f32[B, 2, 28, 1], f32[3, 3, 1, 8]; )", "conv2d: the sizes of x: f32[B, 2, 28, 1] and kernel: f32[3, 3, 1, 8] do not fit"},
    {"conv2d(f32[B, 8, 8, 1], f32[3, 3, 1, 8]; strides=[0, 1])", "conv2d: strides must be at least 1, got 0"},
    {"conv2d(f32[B, 8, 8, 1], f32[3, 3, 1, 8]; padding=[1, 1])", "conv2d: padding needs 4 numbers, got 2"},
    {"conv2d(f32[B, 8, 8, 2, 1], f32[3, 3, 1, 8]; )", "conv2d expects x and kernel both with or both without groups"},
    {"conv2d_input_gradient(f32[B, 5, 5, 8], f32[3, 3, 1, 8]; size=[8, 7])", "conv2d_input_gradient: size and the sizes of g"},
    {"conv2d_kernel_gradient(f32[B, 7, 7, 1], f32[B, 5, 5, 8]; size=[2, 3])", "conv2d_kernel_gradient: size and the sizes of x"},
    {"max_pool2d(f32[B, 7]; size=[2, 2], strides=[2, 2])", "max_pool2d expects x: [B, H, W, C], got f32[B, 7]"},
    {"max_pool2d(f32[B, 1, 7, 3]; size=[2, 2], strides=[2, 2])", "max_pool2d: a window of 2 x 2 does not fit into x: f32[B, 1, 7, 3]"},
    {"max_pool2d(f32[B, 7, 7, 3]; size=[2, 2], strides=[2, 2], padding=[2, 0, 0, 0])", "max_pool2d: padding must be smaller than the window"},
    {"window_gather(f32[B, 7, 7, 3], i32[B, 3, 3, 1]; size=[2, 2], strides=[2, 2])",
     "window_gather: index: i32[B, 3, 3, 1] does not name a position"},
    {"window_scatter(f32[B, 3, 3, 1], i32[B, 3, 3, 1]; input=[9, 9], size=[2, 2], strides=[2, 2])",
     "an image of 9 x 9 does not have the windows of g"},
    {"reshape(f32[B, 6]; shape=[B, 7])", "reshape: x: f32[B, 6] cannot become f32[B, 7]"},
    {"reshape(f32[B, 6]; shape=[6, B])", "reshape: x: f32[B, 6] cannot become f32[6, B]"},
    {"reshape(f32[6]; shape=[-3, -2])", "reshape: shape holds the dimension -3"},
    {"transpose(f32[2, 3]; permutation=[0, 0])", "transpose: permutation names dimension 0 twice"},
    {"transpose(f32[2, 3]; permutation=[0, 2])", "transpose: permutation 2 is not a dimension of x, which has 2"},
    {"broadcast(f32[3]; shape=[4, 5], dims=[1])", "broadcast: dimension 0 of x: f32[3] cannot become dimension 1 of f32[4, 5]"},
    {"broadcast(f32[4, 4]; shape=[4, 4], dims=[1, 0])", "broadcast: dims must increase"},
    {"slice(f32[B, 4]; starts=[1, 0], limits=[B, 4])", "slice: dimension 0 of x: f32[B, 4] is B and can only be taken whole"},
    {"slice(f32[4]; starts=[2], limits=[5])", "slice: 2:5 is not within dimension 0 of x: f32[4]"},
    {"slice(f32[4]; starts=[3], limits=[2])", "slice: 3:2 is not within dimension 0 of x: f32[4]"},
    {"slice(f32[4]; starts=[0], limits=[4], steps=[0])", "slice: steps must be at least 1, got 0"},
    {"pad(f32[B, 4]; low=[1, 0], high=[0, 0])", "pad: dimension 0 of x: f32[B, 4] is B and cannot be padded"},
    {"pad(f32[4]; low=[-1], high=[0])", "pad: low must be at least 0, got -1"},
    {"concatenate(f32[3, 4], f32[3, 5]; axis=0)", "concatenate along axis 0: operand 1, f32[3, 5], does not fit to the first, f32[3, 4]"},
    {"concatenate(f32[B], f32[B]; axis=0)", "concatenate along axis 0: that is the batch of operand 0, f32[B], to which no rows can be added"},
    {"reverse(f32[B, 3]; axes=[0])", "reverse: dimension 0 of x: f32[B, 3] is B and has no order"},
    {"gather(f32[4, 3], i32[5]; axis=1)", "gather along axis 1 pairs the dimensions before it, but x: f32[4, 3] and index: i32[5] differ there"},
    {"gather(f32[4, 3], f32[4]; axis=0)", "gather: index must be integer, it is f32"},
    {"scatter_add(f32[4], i32[5]; size=3)", "scatter_add along axis 0 of size 3: updates: f32[4] must begin with the dimensions of index: i32[5]"},
    {"all_reduce(f32; kind=\"mean\")", "all_reduce: kind must be \"sum\", \"max\" or \"min\", it is \"mean\""},
    {"all_gather(f32[3, B]; axis=0)", "all_gather: dimension 0 of x: f32[3, B] does not hold a replica's rows"},
    {"shard_reduce(f32; kind=\"mean\")", "shard_reduce: kind must be \"sum\", \"max\" or \"min\", it is \"mean\""},
    {"reduce_scatter(f32[B]; axis=0)", "reduce_scatter: dimension 0 of x: f32[B] does not hold the rows of all replicas"},
    {"gradient(f32[3], f32[3]; )", "gradient: y must be a scalar, it is f32[3]"},
    {"gradient(f32, i32[3]; )", "gradient: x must be of floats, it is i32[3]"},
};

static void each_mistake_has_its_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        dt_arena *arena = dt_arena_create();
        dt_function *function = dt_module_add_function(dt_module_create(arena, "m"), "f", DT_ROLE_STEP);
        dt_value *value;
        dt_status *status = op_case_build(function, mistakes[i].text, NULL, NULL, &value);
        assert_int_equal(dt_status_code(status), DT_INVALID_ARGUMENT);
        if (strstr(dt_status_message(status), mistakes[i].message) == NULL)
            fail_msg("%s: '%s' does not hold '%s'", mistakes[i].text, dt_status_message(status), mistakes[i].message);
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_mistake_has_its_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
