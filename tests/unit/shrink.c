/* shrink leaves every bit that is read as it was: random functions, by the interpreter before and after the pass.
 *
 * The oracle's order of summing depends on shapes, so bits are compared where no sum is rounded: in functions made of what shrinks (convolutions,
 * poolings, slices, paddings and their like, of which a part is returned) on images of small integers. Functions over the whole op table are compared
 * as closely as an order of summing allows. */
#include "compiler/passes/passes.h"
#include "ir/flops.h"
#include "ir/text_form.h"
#include "ir/verify.h"
#include "tests/support/expect.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <stdio.h>

/* ---- functions on images ---- */

enum {
    n_channels = 3
};

static int between(random_source *source, int low, int high) { return low + (int)random_below(source, (uint32_t)(high - low + 1)); }

static const char *image_attributes(dt_arena *arena, random_source *source, const char *op, dt_shape x) {
    int h = (int)x.dims[1], w = (int)x.dims[2], c = (int)x.dims[3], stride = between(source, 1, 3), size = between(source, 1, 3);
    int low = between(source, 0, size - 1), high = between(source, 0, size - 1);
    const char *windows =
        dt_arena_format(arena, "size=[%d, 2], strides=[%d, %d], padding=[%d, %d, 0, 1]", size, stride, between(source, 1, 2), low, high);
    if (strcmp(op, "conv2d") == 0)
        return dt_arena_format(arena, "strides=[%d, 1], padding=[%d, %d, 1, 0], dilation=[%d, 1]", stride, between(source, 0, 3),
                               between(source, 0, 3), between(source, 1, 2));
    if (strcmp(op, "conv2d_input_gradient") == 0)
        return dt_arena_format(arena, "size=[%d, %d], strides=[%d, 1], padding=[%d, %d, 1, 1]", between(source, 3, 14), w, stride,
                               between(source, 0, 2), between(source, 0, 2));
    if (strcmp(op, "sum_pool2d_gradient") == 0)
        return dt_arena_format(arena, "input=[%d, %d], %s", between(source, 3, 14), between(source, 3, 10), windows);
    if (strcmp(op, "slice") == 0) {
        int top = between(source, 0, h - 1), left = between(source, 0, w - 1);
        return dt_arena_format(arena, "starts=[0, %d, %d, 0], limits=[B, %d, %d, %d], steps=[1, %d, 1, 1]", top, left, between(source, top + 1, h),
                               between(source, left + 1, w), between(source, 1, c), between(source, 1, 2));
    }
    if (strcmp(op, "pad") == 0)
        return dt_arena_format(arena, "low=[0, %d, 0, 0], high=[0, %d, 1, 0], value=0.5, steps=[1, %d, 1, 1]", between(source, 0, 2),
                               between(source, 0, 2), between(source, 1, 2));
    if (strcmp(op, "reverse") == 0) return dt_arena_format(arena, "axes=[%d]", between(source, 1, 3));
    if (strcmp(op, "concatenate") == 0) return dt_arena_format(arena, "axis=%d", between(source, 1, 3));
    if (strcmp(op, "transpose") == 0) return "permutation=[0, 2, 1, 3]";
    if (strcmp(op, "reshape") == 0) return dt_arena_format(arena, "shape=[B, %d, %d, 1, %d]", h, w, c);
    return strstr(op, "pool2d") ? windows : "";
}

/* Small integers again, exactly. */
static dt_value *reduced(dt_builder *builder, dt_value *x) {
    dt_value *modulus;
    expect_ok(dt_build_constant(builder, &modulus, DT_F64, 64, x->shape));
    expect_ok(dt_build_binary(builder, &x, "remainder", x, modulus));
    return x;
}

/* x, or a value of its type: a constant, a random or counted one. */
static dt_value *partner(dt_builder *builder, random_source *source, dt_value *x) {
    dt_value *value = x, *random;
    dt_shape shape = x->shape;
    const char *dims =
        dt_arena_format(builder->function->module->arena, "shape=[B, %d, %d, %d]", (int)shape.dims[1], (int)shape.dims[2], (int)shape.dims[3]);
    switch (random_below(source, 4)) {
    case 0: expect_ok(dt_build_text(builder, &value, "iota", NULL, 0, "%s, axis=%d, dtype=f64", dims, between(source, 0, 3))); break;
    case 1:
        expect_ok(dt_build_text(builder, &random, "random_uniform", NULL, 0, "%s, stream=5", dims));
        expect_ok(dt_build_expression(builder, &value, "floor(8 * x)", (const char *const[]){"x"}, &random, 1));
        expect_ok(dt_build_convert(builder, &value, value, DT_F64));
        break;
    case 2: expect_ok(dt_build_constant(builder, &value, DT_F64, 3, shape)); break;
    default: break;
    }
    return value;
}

static dt_module *random_image_module(dt_arena *arena, random_source *source) {
    static const char *const ops[] = {"conv2d",
                                      "conv2d",
                                      "conv2d_input_gradient",
                                      "max_pool2d",
                                      "max_pool2d",
                                      "sum_pool2d",
                                      "sum_pool2d_gradient",
                                      "slice",
                                      "slice",
                                      "pad",
                                      "reverse",
                                      "concatenate",
                                      "transpose",
                                      "reshape",
                                      "relu",
                                      "add",
                                      "multiply"};
    dt_module *module = dt_module_create(arena, "images");
    module->capacity = 2;
    dt_list_push(arena, &module->files, "images.dt");
    dt_variable kernel = {.path = "w",
                          .dtype = DT_F64,
                          .shard_axis = -1,
                          .shard_groups = 1,
                          .shape = dt_shape_make(arena, 4, (int64_t[]){2, 3, n_channels, n_channels})};
    dt_module_add_variable(module, kernel);
    dt_function *function = dt_module_add_function(module, "step", DT_ROLE_STEP);
    dt_location location = {0, 1, 1};
    dt_builder builder = {.function = function, .n_locations = 1, .locations = &location};
    dt_value *values[24], *w;
    int64_t dims[] = {DT_BATCH, between(source, 6, 12), between(source, 6, 10), n_channels};
    values[0] = dt_build_input(function, "x", DT_F64, dt_shape_make(arena, 4, dims), location);
    expect_ok(dt_build_text(&builder, &w, "read", NULL, 0, "variable=\"w\""));
    int n = 1, wanted = between(source, 4, 16);
    for (int attempts = 0; n < wanted && attempts < 200; attempts++) {
        const char *op = ops[random_below(source, sizeof ops / sizeof *ops)];
        dt_value *x = values[random_below(source, 3) ? n - 1 : (int)random_below(source, (uint32_t)n)];
        if (x->shape.rank != 4) continue;
        dt_value *operands[] = {x, w};
        int n_operands = strncmp(op, "conv2d", 6) == 0 ? 2 : dt_op_find(op)->variadic ? 2 : dt_op_find(op)->n_operands;
        if (n_operands == 2 && operands[1] == w && strncmp(op, "conv2d", 6) != 0) operands[1] = partner(&builder, source, x);
        dt_status *status = dt_build_text(&builder, &values[n], op, operands, n_operands, "%s", image_attributes(arena, source, op, x->shape));
        if (status == NULL && values[n]->shape.rank == 5) /* without its 1 again */
            status = dt_build_text(&builder, &values[n], "reshape", &values[n], 1, "shape=[B, %d, %d, %d]", (int)x->shape.dims[1],
                                   (int)x->shape.dims[2], (int)x->shape.dims[3]);
        if (status == NULL) values[n] = reduced(&builder, values[n]), n++;
        dt_status_free(status);
    }
    for (int i = n > 2 ? n - 2 : 0; i < n; i++) {
        dt_value *part;
        if (dt_value_is(values[i], "input")) continue;
        expect_ok(dt_build_text(&builder, &part, "slice", &values[i], 1, "%s", image_attributes(arena, source, "slice", values[i]->shape)));
        dt_result result = {dt_arena_format(arena, "r%d", i), part};
        dt_list_push(arena, &function->results, result);
    }
    return module;
}

/* ---- before and after ---- */

static void show(const dt_module *module) {
    dt_text text = {0};
    dt_module_print(&text, module);
    fputs(text.data, stderr);
    dt_text_free(&text);
}

typedef struct outcome {
    dt_tensor *results;
    dt_memory memory;
} outcome;

static dt_tensor whole_numbers(dt_tensor tensor) {
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, (double)(int)dt_tensor_get(&tensor, i));
    return tensor;
}

static outcome interpret(dt_arena *arena, const dt_module *module, uint64_t seed, int64_t rows) {
    const dt_function *function = module->functions.items[0];
    random_source source = {seed};
    dt_bad_index bad = {0};
    dt_launch launch = {
        .rows = rows, .valid = rows, .global_batch = 2, .replicas = 1, .epochs = 3, .steps_per_epoch = 5, .counter = 6, .seed = 7, .bad_index = &bad};
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, function->inputs.n);
    for (size_t i = 0; i < function->inputs.n; i++)
        inputs[i] = whole_numbers(random_tensor(arena, &source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows));
    outcome outcome = {DT_NEW_ARRAY(arena, dt_tensor, function->results.n), dt_memory_create(arena, module)};
    for (size_t v = 0; v < module->variables.n; v++)
        outcome.memory.variables[v] =
            whole_numbers(random_tensor(arena, &source, module->variables.items[v].dtype, module->variables.items[v].shape, 0));
    expect_ok(dt_interpret(arena, function, &launch, inputs, &outcome.memory, outcome.results));
    return outcome;
}

static bool same_bits(const dt_tensor *x, const dt_tensor *y) {
    return dt_shape_equal(x->shape, y->shape) && memcmp(x->data, y->data, dt_tensor_bytes(x)) == 0;
}

static bool close(const dt_tensor *x, const dt_tensor *y) {
    bool close = dt_shape_equal(x->shape, y->shape);
    for (size_t i = 0; close && i < dt_tensor_elements(x); i++) {
        double a = dt_tensor_get(x, i), b = dt_tensor_get(y, i);
        close = a == b || fabs(a - b) <= 1e-9 * (1 + fabs(a)) || (isnan(a) && isnan(b));
    }
    return close;
}

static void expect_same(const dt_module *module, const char *what, const dt_tensor *before, const dt_tensor *after, bool exactly) {
    if (exactly ? same_bits(before, after) : close(before, after)) return;
    show(module);
    fail_msg("%s is another when only what is read is computed", what);
}

/* Runs the pass; returns the share of the arithmetic that is left. */
static double shrink(dt_arena *arena, dt_module *module, uint64_t seed, bool exactly, bool verbose) {
    enum {
        rows = 2
    };
    dt_function *function = module->functions.items[0];
    dt_function_sweep(function);
    if (verbose) show(module);
    outcome before = interpret(arena, module, seed, rows);
    double written = dt_flops_of_function(arena, function).per_row;
    dt_compilation compilation = {.arena = arena, .module = module};
    expect_ok(dt_pass_shrink(&compilation));
    if (verbose) show(module);
    expect_ok(dt_verify(module));
    double computed = dt_flops_of_function(arena, function).per_row;
    outcome after = interpret(arena, module, seed, rows);
    for (size_t r = 0; r < function->results.n; r++)
        expect_same(module, function->results.items[r].name, &before.results[r], &after.results[r], exactly);
    for (size_t v = 0; v < module->variables.n; v++)
        expect_same(module, module->variables.items[v].path, &before.memory.variables[v], &after.memory.variables[v], exactly);
    return written > 0 ? computed / written : 1;
}

/* DT_SEED=n runs that one alone and shows it. */
static double for_each_seed(uint64_t n, bool exactly, dt_module *(*make)(dt_arena *arena, random_source *source)) {
    const char *only = getenv("DT_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    n = only ? 1 : n;
    double mean_share = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        double share = shrink(arena, make(arena, &source), seed, exactly, only != NULL);
        if (share > 1.0) fail_msg("more is computed than was written: %.3f times as much", share);
        mean_share += share / (double)n;
        dt_arena_destroy(arena);
    }
    print_message("left of the arithmetic: %.3f\n", mean_share);
    return mean_share;
}

static dt_module *random_table_module(dt_arena *arena, random_source *source) {
    return random_module(arena, source, 12 + (int)random_below(source, 30));
}

static void images_keep_their_bits(void **state) {
    (void)state;
    double share = for_each_seed(400, true, random_image_module);
    if (!getenv("DT_SEED")) assert_true(share < 0.5); /* parts of parts: if much is left, something is no longer narrowed */
}

static void random_functions_mean_the_same(void **state) {
    (void)state;
    for_each_seed(150, false, random_table_module);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(images_keep_their_bits), cmocka_unit_test(random_functions_mean_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
