/* kernel_library: what nests are said to be for libraries is what they are. Programs whose products are large enough are cut for libraries, and then
 * run two ways: by the interpreter, and by their plan with each nest that a library can do done from its description, the others element by element.
 * Rows beyond the valid ones hold NaN, so that what reads them shows. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/library.h"
#include "compiler/kernel/view.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "tests/support/library_naive.h"
#include "tests/support/two_ways.h"

enum {
    CAPACITY = 24
};

typedef struct library_runner {
    dt_arena *arena;
    int n_calls[DT_N_LIBRARY_CLASSES], n_activations[DT_N_LIBRARY_ACTIVATIONS];
    int n_split; /* calls that stand for parts and their sum */
    int n_bias_gradients;
} library_runner;

/* Rows that are not valid of what a library reads: whoever computed them, nobody may rely on them. */
static void spoil(const dt_plan *plan, const dt_kernel_function *kernel, int argument, void *const *buffers, int64_t rows) {
    const dt_buffer *buffer = &plan->buffers[kernel->buffers[argument]];
    if (buffer->shape.rank == 0 || buffer->shape.dims[0] != DT_BATCH || buffer->dtype != DT_F32) return;
    int64_t per_row = dt_shape_elements_per_row(buffer->shape), strides[8];
    dt_buffer_strides(plan, kernel->buffers[argument], strides);
    for (int64_t row = rows; row < plan->microbatch_rows; row++)
        for (int64_t i = 0; i < per_row; i++) ((float *)buffers[argument])[row * strides[0] + i] = NAN;
}

static void run(void *context, const dt_plan *plan, int k, void *const *buffers, const dt_launch *launch) {
    library_runner *runner = context;
    const dt_kernel_function *kernel = &plan->kernels[k];
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        if (nest->beside_library) continue; /* that it is done by the product behind it shows in what comes out */
        if (nest->library == NULL) {
            dt_kernel_function alone = *kernel;
            alone.n_nests = 1;
            alone.nests = &kernel->nests[n];
            dt_kernel_execute(runner->arena, plan, &alone, NULL, buffers, launch);
            continue;
        }
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) spoil(plan, kernel, nest->instructions[i].address.buffer, buffers, launch->rows);
        library_run_naively(nest->library, buffers, launch->rows, plan->microbatch_rows);
        runner->n_calls[nest->library->class]++;
        bool product = nest->library->class == DT_LIBRARY_PRODUCT;
        if (product) runner->n_activations[nest->library->product.activation]++;
        runner->n_bias_gradients += product && nest->library->product.bias_gradient.argument >= 0;
        int first, last;
        dt_library_nests(kernel, n, &first, &last);
        if (nest->library->n_launches != last - first + 1)
            fail_msg("a call for %d launches has %d nests", (int)nest->library->n_launches, last - first + 1);
        runner->n_split += last > first;
        n = last; /* what stands behind it is done by the same call */
    }
}

/* The step of a program as the only function of its compilation, for two_ways. */
static void leave_step(dt_compilation *compilation) {
    dt_module *module = compilation->module;
    size_t f = 0;
    while (module->functions.items[f]->role != DT_ROLE_STEP) f++;
    module->functions.items += f;
    module->functions.n -= f;
    compilation->plans += f;
    compilation->n_plans -= (int)f;
}

static dt_module *elaborate(dt_arena *arena, const char *program) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module = NULL;
    dt_text text = {0};
    expect_ok(dt_dsl_compile(arena, "library.dt", program, &(dt_dsl_options){.capacity = CAPACITY}, diagnostics, &module));
    dt_diagnostics_print(&text, diagnostics);
    if (module == NULL) fail_msg("%s", text.data);
    dt_text_free(&text);
    return module;
}

static void check_counts(const dt_compilation *compilation, const char *what, const char *const *names, const int *found, const int *expected,
                         int n) {
    for (int i = 0; i < n; i++)
        if (found[i] != expected[i]) {
            two_ways_show(compilation);
            fail_msg("%d calls of %s %s, expected %d", found[i], what, names[i], expected[i]);
        }
}

/* Runs the program's step with all rows, with some and with none. off: what the compiler is not to do. Calls of each class, and of each activation
 * (NULL: any); how many of them do the gradient of a bias as well (-1: any). Returns how many of the calls stand for parts and their sum. */
static int check_all(const char *program, dt_switches off, const int classes[DT_N_LIBRARY_CLASSES], const int activations[DT_N_LIBRARY_ACTIVATIONS],
                     int bias_gradients) {
    static const int64_t rows[] = {CAPACITY, 5, 0};
    int n_split = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dt_arena *arena = dt_arena_create();
        dt_compilation compilation = {.arena = arena, .target = DT_TARGET_CUDA, .off = off, .module = elaborate(arena, program)};
        library_runner runner = {.arena = arena};
        expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
        leave_step(&compilation);
        two_ways_run_plan((random_source){11}, &compilation, rows[i], run, &runner, "libraries");
        check_counts(&compilation, "class", dt_library_class_names(), runner.n_calls, classes, DT_N_LIBRARY_CLASSES);
        if (activations != NULL)
            check_counts(&compilation, "activation", dt_library_activation_names(), runner.n_activations, activations, DT_N_LIBRARY_ACTIVATIONS);
        n_split = runner.n_split;
        if (bias_gradients >= 0 && bias_gradients != runner.n_bias_gradients) {
            two_ways_show(&compilation);
            fail_msg("%d gradients of a bias, expected %d", runner.n_bias_gradients, bias_gradients);
        }
        dt_arena_destroy(arena);
    }
    return n_split;
}

static void check(const char *program, dt_switches off, const int expected[DT_N_LIBRARY_CLASSES]) { check_all(program, off, expected, NULL, -1); }

/* Forward with a bias and a relu, the gradient by the second layer's input with the relu's behind it, those by the kernels: sums over rows. */
static void dense_layers_and_their_gradients(void **state) {
    (void)state;
    static const char program[] = "use nn, losses, optimizers\n"
                                  "model M(x: u8[B, 256]) -> f32[B, 256] {\n"
                                  "    return dense(dense(f32(x) / 256, units: 256, activation: relu), units: 256)\n"
                                  "}\n"
                                  "step train(x: u8[B, 256]) {\n"
                                  "    y = M(x)\n"
                                  "    minimize(mean(y * y, axes: [1]), sgd(learning_rate: 0.1))\n"
                                  "}\n";
    check(program, 0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 5});
    check(program, 1u << DT_SWITCH_LIBRARY, (const int[DT_N_LIBRARY_CLASSES]){0});
    check(program, 1u << DT_SWITCH_FUSE, (const int[DT_N_LIBRARY_CLASSES]){0});
}

/* Two dense layers with an activation each, and their gradients. */
#define LAYERS(rank, first, second)                                                                                                                  \
    "use nn, losses, optimizers\n"                                                                                                                   \
    "model M(x: u8[B, " rank "256]) -> f32[B, " rank "256] {\n"                                                                                      \
    "    x = dense(f32(x) / 256, units: 256, activation: fn(t) => " first ")\n"                                                                      \
    "    x = dense(x, units: 256, activation: fn(t) => " second ")\n"                                                                                \
    "    return dense(x, units: 256)\n"                                                                                                              \
    "}\n"                                                                                                                                            \
    "step train(x: u8[B, " rank "256]) {\n"                                                                                                          \
    "    y = M(x)\n"                                                                                                                                 \
    "    minimize(mean(y * y), sgd(learning_rate: 0.1, momentum: 0.9))\n"                                                                            \
    "}\n"

#define GELU "gelu(t, approximate: true)"

static const int eight_products[DT_N_LIBRARY_CLASSES] = {[DT_LIBRARY_PRODUCT] = 8};

static void check_layers(const char *program, int relu, int gelu, int relu_gradient, int gelu_gradient) {
    const int expected[DT_N_LIBRARY_ACTIVATIONS] = {8 - relu - gelu - relu_gradient - gelu_gradient, relu, gelu, relu_gradient, gelu_gradient};
    check_all(program, 0, eight_products, expected, 0);
}

/* The gradient of the first layer's activation follows the second one's product. */
static void activations_and_their_gradients(void **state) {
    (void)state;
    check_layers(LAYERS("", GELU, "relu(t)"), 1, 1, 1, 1);
    check_layers(LAYERS("", "relu(t)", GELU), 1, 1, 1, 1);
    check_layers(LAYERS("3, ", GELU, "relu(t)"), 1, 1, 1, 1);
    check_all(LAYERS("", GELU, "relu(t)"), 1u << DT_SWITCH_EPILOGUES, eight_products, (const int[DT_N_LIBRARY_ACTIVATIONS]){7, 1}, 0);
}

/* However it is written, gelu by tanh is known by what it computes; and so is what is no gelu, however near. */
static void gelu_is_known_by_what_it_computes(void **state) {
    (void)state;
    check_layers(LAYERS("", "t * sigmoid(1.5957691216 * t * (1 + 0.044715 * t * t))", "relu(t)"), 1, 1, 1, 1);
    check_layers(LAYERS("", "(t + tanh((t + t * t * t * 0.044715) * 0.79788456) * t) / 2", "relu(t)"), 1, 1, 1, 1);
    check_layers(LAYERS("", "gelu(t)", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "t * sigmoid(1.702 * t)", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "gelu(t, approximate: true) * 1.0001", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "where(t > 8, 0.5 * t, gelu(t, approximate: true))", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "gelu(t + 0.001, approximate: true)", "relu(t)"), 1, 0, 1, 1); /* its gradient is that of any gelu */
}

/* A slope below 0 is no relu; a relu whose result no product of the library stores notes nothing; nor does one without an end. */
static void what_is_no_relu_is_generated(void **state) {
    (void)state;
    check_layers(LAYERS("", "leaky_relu(t)", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "relu(t) + 1", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "relu(tanh(t))", "relu(t)"), 1, 0, 1, 0);
    check_layers(LAYERS("", "minimum(relu(t), 6)", "relu(t)"), 1, 0, 1, 0);
}

/* A dense layer whose gradients are made by themselves, `option` before it and `update` behind. */
#define BIASED(option, rank, update)                                                                                                                 \
    "use nn, losses\n" option "optimizer plain() { update (p, g) { " update " } }\n"                                                                 \
    "model M(x: u8[B, " rank "256]) -> f32[B, " rank "256] { return dense(f32(x) / 256, units: 256) }\n"                                             \
    "step train(x: u8[B, " rank "256]) {\n"                                                                                                          \
    "    y = M(x)\n"                                                                                                                                 \
    "    minimize(mean(y * y), plain())\n"                                                                                                           \
    "}\n"

static void check_biased(const char *program, dt_switches off, int expected) {
    check_all(program, off, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 2}, NULL, expected);
}

/* Beside the product that makes the kernel's gradient, over rows and over places of rows. Not where a factor follows either, and not where the
 * product's factors are rounded. */
static void gradients_of_a_bias(void **state) {
    (void)state;
    check_biased(BIASED("", "", "p := p - tanh(g)"), 0, 1);
    check_biased(BIASED("", "3, ", "p := p - tanh(g)"), 0, 1);
    check_biased(BIASED("", "", "p := p - tanh(g)"), 1u << DT_SWITCH_EPILOGUES, 0);
    check_biased(BIASED("", "", "p := p - 0.1 * g"), 0, 0);
    check_biased(BIASED("option precision: bf16\n", "", "p := p - tanh(g)"), 0, 0);
}

/* Factors that are slices and transposes of one buffer, batches whose steps do not continue one another, a reshape of a transpose. */
static void products_of_many_pairs(void **state) {
    (void)state;
    check("use nn, optimizers\n"
          "model M(x: u8[B, 32, 64]) -> f32[B, 32, 64] {\n"
          "    q, k, v = split(dense(f32(x) / 256, units: 192), 3, axis: -1)\n"
          "    head = fn(t) => transpose(reshape(t, [B, 32, 2, 32]), [0, 2, 1, 3])\n"
          "    y = scaled_dot_product_attention(head(q), head(k), head(v), causal: true)\n"
          "    return dense(reshape(transpose(y, [0, 2, 1, 3]), [B, 32, 64]), units: 64)\n"
          "}\n"
          "step train(x: u8[B, 32, 64]) {\n"
          "    y = M(x)\n"
          "    minimize(mean(y * y, axes: [1, 2]), sgd(learning_rate: 0.1))\n"
          "}\n",
          0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 11});
}

/* Borders, strides, a part of a result that is not read, and a convolution of single places, which is a product. */
static void convolutions_and_their_gradients(void **state) {
    (void)state;
    check("use nn, optimizers\n"
          "model M(x: u8[B, 13, 11, 8]) -> f32[B, 3, 3, 16] {\n"
          "    x = conv2d(f32(x) / 256, filters: 16, kernel: 3, padding: same, activation: relu)\n"
          "    x = conv2d(x, filters: 32, kernel: 3, stride: 2, padding: same, activation: relu)\n"
          "    x = conv2d(x, filters: 64, kernel: 1)\n"
          "    return conv2d(x, filters: 16, kernel: 3)[:, :3, :3]\n"
          "}\n"
          "step train(x: u8[B, 13, 11, 8]) {\n"
          "    y = M(x)\n"
          "    minimize(mean(y * y, axes: [1, 2, 3]), sgd(learning_rate: 0.1))\n"
          "}\n",
          0,
          (const int[DT_N_LIBRARY_CLASSES]){
              [DT_LIBRARY_PRODUCT] = 3, [DT_LIBRARY_CONVOLUTION] = 3, [DT_LIBRARY_INPUT_GRADIENT] = 2, [DT_LIBRARY_KERNEL_GRADIENT] = 3});
}

/* Groups of eight channels and more; of fewer, as those of a depthwise convolution, generated code is asked. */
static void convolutions_in_groups(void **state) {
    (void)state;
    check("use nn, optimizers\n"
          "model M(x: u8[B, 9, 8, 8]) -> f32[B, 5, 4, 48] {\n"
          "    x = conv2d(f32(x) / 256, filters: 32, kernel: 3, padding: same, activation: relu)\n"
          "    x = conv2d(x, filters: 48, kernel: 3, stride: 2, padding: same, groups: 2, activation: relu)\n"
          "    x = depthwise_conv2d(x, kernel: 3, padding: same)\n"
          "    return conv2d(x, filters: 48, kernel: 3, padding: same, groups: 12)\n"
          "}\n"
          "step train(x: u8[B, 9, 8, 8]) {\n"
          "    y = M(x)\n"
          "    minimize(mean(y * y, axes: [1, 2, 3]), sgd(learning_rate: 0.1))\n"
          "}\n",
          0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_CONVOLUTION] = 2, [DT_LIBRARY_INPUT_GRADIENT] = 1, [DT_LIBRARY_KERNEL_GRADIENT] = 2});
}

static void convolutions_of_volumes(void **state) {
    (void)state;
    check("use nn, optimizers\n"
          "model M(x: u8[B, 5, 6, 7, 8]) -> f32[B, 3, 3, 4, 16] {\n"
          "    x = conv3d(f32(x) / 256, filters: 16, kernel: 3, padding: same, activation: relu)\n"
          "    return conv3d(x, filters: 16, kernel: 3, stride: 2, padding: same, groups: 2)\n"
          "}\n"
          "step train(x: u8[B, 5, 6, 7, 8]) {\n"
          "    y = M(x)\n"
          "    minimize(mean(y * y, axes: [1, 2, 3, 4]), sgd(learning_rate: 0.1))\n"
          "}\n",
          0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_CONVOLUTION] = 2, [DT_LIBRARY_INPUT_GRADIENT] = 1, [DT_LIBRARY_KERNEL_GRADIENT] = 2});
}

/* What a product's factors are rounded to goes along. */
static void products_in_less_precision(void **state) {
    (void)state;
    check("use nn\n"
          "option precision: bf16\n"
          "model M(x: u8[B, 256]) -> f32[B, 256] { return dense(f32(x) / 256, units: 256) }\n"
          "step predict(x: u8[B, 256]) { return y: M(x) }\n",
          0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 1});
}

/* Rows of an input beyond the valid ones are the last batch's, or nobody's. */
static void inputs_are_factors(void **state) {
    (void)state;
    check("use nn, optimizers\n"
          "model M(x: f32[B, 256]) -> f32[B, 256] { return dense(x, units: 256) }\n"
          "step train(x: f32[B, 256]) {\n"
          "    y = M(x)\n"
          "    minimize(mean(y * y, axes: [1]), sgd(learning_rate: 0.1))\n"
          "}\n",
          0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 2});
}

/* A call reads its factors while it stores its result: that may not lie where a factor was, though the sum of the parts, which stores it, reads none.
 */
static void a_call_does_parts_and_their_sum_at_once(void **state) {
    (void)state;
    static const char program[] = "use nn\n"
                                  "model M(x: u8[B, 256]) -> f32[B, 256] { return dense(dense(f32(x) / 256, units: 256), units: 256) }\n"
                                  "step predict(x: u8[B, 256]) { return y: M(x) }\n";
    static const int two_products[DT_N_LIBRARY_CLASSES] = {[DT_LIBRARY_PRODUCT] = 2};
    assert_int_equal(check_all(program, 0, two_products, NULL, 0), 2);
    assert_int_equal(check_all(program, 1u << DT_SWITCH_SPLIT, two_products, NULL, 0), 0);
}

/* Of a loop over three rows: in its body the state times its weights and the state's gradient, which read and write views of a carry's two halves and
 * of a stack; after it the weights' gradient. Rows of 260 numbers are not aligned in a stack: what touches them there is no call. */
static void products_of_a_loop(void **state) {
    (void)state;
    static const char loop[] = "use nn, optimizers\n"
                               "layer cell(h: f32[B, %d], row: f32[B, %d]) {\n"
                               "    h = tanh(dense(h, units: %d) + row)\n"
                               "    return h, h\n"
                               "}\n"
                               "model M(x: u8[B, 3, %d]) -> f32[B, %d] {\n"
                               "    last, all = scan(fn(h, row) => cell(h, row), ones([B, %d]), f32(x) / 256)\n"
                               "    return last + mean(all, axis: 1)\n"
                               "}\n"
                               "step train(x: u8[B, 3, %d]) {\n"
                               "    y = M(x)\n"
                               "    minimize(mean(y * y, axes: [1]), sgd(learning_rate: 0.1))\n"
                               "}\n";
    char program[sizeof loop + 64];
    snprintf(program, sizeof program, loop, 256, 256, 256, 256, 256, 256, 256);
    check(program, 0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 7});
    snprintf(program, sizeof program, loop, 260, 260, 260, 260, 260, 260, 260);
    check(program, 0, (const int[DT_N_LIBRARY_CLASSES]){[DT_LIBRARY_PRODUCT] = 4});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers_and_their_gradients),
        cmocka_unit_test(activations_and_their_gradients),
        cmocka_unit_test(gelu_is_known_by_what_it_computes),
        cmocka_unit_test(what_is_no_relu_is_generated),
        cmocka_unit_test(gradients_of_a_bias),
        cmocka_unit_test(products_of_many_pairs),
        cmocka_unit_test(convolutions_and_their_gradients),
        cmocka_unit_test(convolutions_in_groups),
        cmocka_unit_test(convolutions_of_volumes),
        cmocka_unit_test(products_in_less_precision),
        cmocka_unit_test(inputs_are_factors),
        cmocka_unit_test(a_call_does_parts_and_their_sum_at_once),
        cmocka_unit_test(products_of_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
