/* cuda_programs: ten training steps of a small convolutional network, and some of other small ones, as CUDA text by emulation. */
#include "tests/ops/cuda_programs.h"

static const char cnn[] = "use nn, losses, optimizers\n"
                          "model Cnn(image: u8[B, 9, 9]) -> f32[B, 4] {\n"
                          "    x = f32(image)[..., newaxis] / 5\n"
                          "    x = conv2d(x, filters: 3, kernel: 2, activation: relu)\n"
                          "    x = max_pool2d(x, size: 2)\n"
                          "    x = batch_norm(x)\n"
                          "    x = dropout(flatten(x), rate: 0.25)\n"
                          "    return dense(x, units: 4)\n"
                          "}\n"
                          "step train(image: u8[B, 9, 9], label: u8[B]) {\n"
                          "    logits = Cnn(image)\n"
                          "    loss = sparse_categorical_crossentropy(label % 4, logits)\n"
                          "    minimize(loss, adam(learning_rate: 1e-2))\n"
                          "    report loss: mean(loss), accuracy: mean(argmax(logits) == label)\n"
                          "}\n"
                          "step predict(image: u8[B, 9, 9]) {\n"
                          "    logits = Cnn(image)\n"
                          "    return label: argmax(logits), probability: softmax(logits)\n"
                          "}\n";

static void ten_steps_of_a_small_cnn(void **state) {
    (void)state;
    run_program(&(program){.name = "small cnn", .source = cnn, .capacity = 6, .rows = 5, .n_steps = 10, .tolerance = 1e-3});
}

/* Sizes that are no multiples of a tile, in both directions of training; batched and transposed products; 16 bits. */
static const char tiles[] = "use nn, losses, optimizers\n"
                            "model Two(x: f32[B, 50]) -> f32[B, 40] {\n"
                            "    return dense(dense(x, units: 70, activation: relu), units: 40)\n"
                            "}\n"
                            "model Convolved(image: f32[B, 9, 8, 3]) -> f32[B, 33] {\n"
                            "    return mean(conv2d(conv2d(image, filters: 33, kernel: 2), filters: 33, kernel: 3, padding: same), axes: [1, 2])\n"
                            "}\n"
                            "step layers(x: f32[B, 50], y: f32[B, 40]) {\n"
                            "    e = Two(x) - y\n"
                            "    minimize(e * e, sgd(learning_rate: 0.1))\n"
                            "    report loss: mean(e * e)\n"
                            "}\n"
                            "step convolution(image: f32[B, 9, 8, 3], y: f32[B, 33]) {\n"
                            "    e = Convolved(image) - y\n"
                            "    minimize(e * e, sgd(learning_rate: 0.1))\n"
                            "    report loss: mean(e * e)\n"
                            "}\n"
                            "step batched(a: f32[B, 37, 20], b: f32[B, 35, 20]) {\n"
                            "    return c: a @ transpose(b, [0, 2, 1])\n"
                            "}\n"
                            "step half(a: f16[B, 33, 16], b: bf16[B, 16, 65]) {\n"
                            "    return c: f32(a) @ f32(b)\n"
                            "}\n";

static void products_in_tiles(void **state) {
    (void)state;
    run_program(&(program){.name = "tiles", .source = tiles, .capacity = 40, .rows = 37, .n_steps = 2, .tolerance = 1e-4});
}

/* Each row with each, and rows in another order: of the rows of all replicas, that is, in products by tiles and beside them. */
static const char pairs[] = "use nn, optimizers\n"
                            "model Encoder(x: f32[B, 9]) -> f32[B, 33] {\n"
                            "    return dense(x, units: 33)\n"
                            "}\n"
                            "step train(a: f32[B, 9], b: f32[B, 9]) {\n"
                            "    p = Encoder(a)\n"
                            "    q = Encoder(b)\n"
                            "    logits = p @ q.T / 5\n"
                            "    both = 0\n"
                            "    for one in [logits, logits.T] {\n"
                            "        most = stop_gradient(max(one, axis: 1, keep: true))\n"
                            "        both = both + log(sum(exp(one - most), axis: 1)) + most[:, 0] - sum(p * q, axis: 1) / 5\n"
                            "    }\n"
                            "    minimize(both / 2, sgd(learning_rate: 0.1))\n"
                            "    report loss: mean(both / 2)\n"
                            "}\n"
                            "step nearest(p: f32[B, 40], q: f32[B, 40]) {\n"
                            "    apart = sum(square(p[:, newaxis, :] - q[newaxis, :, :]), axis: 2)\n"
                            "    return least: min(apart, axis: 1), all: sum(apart, axis: 0)\n"
                            "}\n"
                            "step moved(p: f32[B, 40]) {\n"
                            "    q = p[permutation(B)] * reverse(p, axis: 0)\n"
                            "    return q: q, of_p: grad(sum(q * q), p)\n"
                            "}\n";

static void pairs_of_rows_of_several_replicas(void **state) {
    (void)state;
    run_program(&(program){.name = "pairs", .source = pairs, .capacity = 40, .rows = 101, .n_replicas = 3, .n_steps = 2, .tolerance = 1e-4});
    run_program(&(program){.name = "few pairs", .source = pairs, .capacity = 6, .rows = 7, .n_replicas = 3, .n_steps = 2, .tolerance = 1e-4});
}

/* Sides of which a tile covers more than there is: it is smaller then, if there are tiles enough for a device. */
static const char narrow_tiles[] = "step low(a: f32[B, 9, 20], b: f32[B, 20, 65]) {\n"
                                   "    return c: a @ b, d: %s\n"
                                   "}\n"
                                   "step lower_half(a: f32[B, 30, 9], b: f32[B, 9, 70]) {\n"
                                   "    return c: a @ b, d: %s\n"
                                   "}\n"
                                   "step slim(a: f32[B, 70, 17], b: f32[B, 17, 24]) {\n"
                                   "    return c: a @ b, d: %s\n"
                                   "}\n"
                                   "step tall(a: f32[B, 129, 17], b: f32[B, 17, 10]) {\n"
                                   "    return c: a @ b, d: %s\n"
                                   "}\n"
                                   "step small(a: f32[B, 2, 30, 17], b: f32[B, 2, 17, 24]) {\n"
                                   "    return c: a @ b, d: %s\n"
                                   "}\n";

static void products_in_narrow_tiles(void **state) {
    static const char *const products[] = {"ops.matmul(a, b, precision: \"bf16\")", "ops.matmul(a, b, precision: \"tf32\")"};
    char source[sizeof narrow_tiles + 5 * 64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *p = products[i];
        snprintf(source, sizeof source, narrow_tiles, p, p, p, p, p);
        run_program(&(program){.name = "narrow tiles", .source = source, .capacity = 64, .rows = 64, .n_steps = 1, .tolerance = 1e-4});
    }
}

/* By tensor cores, or what they mean. Factors are rounded, so a sum that is one unit off may round to another factor further on. */
static const char rounded[] = "use nn, losses, optimizers\n"
                              "model Two(x: f32[B, 50]) -> f32[B, 40] {\n"
                              "    return dense(dense(x, units: 36, activation: relu), units: 40)\n"
                              "}\n"
                              "step layers(x: f32[B, 50], y: f32[B, 40]) {\n"
                              "    e = Two(x) - y\n"
                              "    minimize(e * e, sgd(learning_rate: 0.1))\n"
                              "    report loss: mean(e * e)\n"
                              "}\n";

static void products_by_warps(void **state) {
    static const char *const precisions[] = {"tf32", "bf16"};
    char source[sizeof rounded + 64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(source, sizeof source, "option precision: %s\n%s", precisions[i], rounded);
        run_program(&(program){.name = precisions[i], .source = source, .capacity = 40, .rows = 37, .n_steps = 1, .tolerance = 5e-3});
    }
}

/* Values of 16 bits between layers and from iteration to iteration, and updates by gradients of a scaled loss, which overflow until the scale has
 * fallen. A sum that is one unit off in f32 may be rounded to another value of 16 bits. */
static const char mixed[] = "use nn, losses, optimizers\n"
                            "model Net(image: f32[B, 6, 6, 2]) -> f32[B, 4] {\n"
                            "    x = conv2d(image, filters: 3, kernel: 3, activation: relu)\n"
                            "    x = flatten(max_pool2d(batch_norm(x), size: 2))\n"
                            "    x = layer_norm(dense(x, units: 16, activation: relu))\n"
                            "    return dense(dropout(x, rate: 0.25), units: 4)\n"
                            "}\n"
                            "layer cell(h: f32[B, 36], row: f32[B, 5]) -> f32[B, 36] {\n"
                            "    return tanh(dense(h, units: 36) + dense(row, units: 36, use_bias: false))\n"
                            "}\n"
                            "model Rows(x: f32[B, 4, 5]) -> f32[B, 4] {\n"
                            "    last, none_kept = scan(fn(h, row) => [cell(h, row), none], zeros([B, 36]), x)\n"
                            "    return dense(last, units: 4)\n"
                            "}\n"
                            "model Words(word: i32[B, 6]) -> f32[B, 4] {\n"
                            "    x = embedding(word % 10, rows: 10, width: 8)\n"
                            "    return mean(dense(multi_head_attention(x, heads: 2, causal: true), units: 4), axis: 1)\n"
                            "}\n"
                            "step net(image: f32[B, 6, 6, 2], label: u8[B]) {\n"
                            "    loss = sparse_categorical_crossentropy(label % 4, Net(image))\n"
                            "    minimize(loss, sgd(learning_rate: 0.1))\n"
                            "    report loss: mean(loss)\n"
                            "}\n"
                            "step rows(x: f32[B, 4, 5], y: f32[B, 4]) {\n"
                            "    e = Rows(x) - y\n"
                            "    minimize(e * e, sgd(learning_rate: 0.01, momentum: 0.9))\n"
                            "    report loss: mean(e * e)\n"
                            "}\n"
                            "step words(word: u8[B, 6], y: f32[B, 4]) {\n"
                            "    e = Words(i32(word)) - y\n"
                            "    minimize(e * e, sgd(learning_rate: 0.01))\n"
                            "    report loss: mean(e * e)\n"
                            "}\n";

static void values_of_16_bits(void **state) {
    static const char *const precisions[] = {"mixed_bf16", "mixed_f16"};
    char source[sizeof mixed + 64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(source, sizeof source, "option precision: %s\n%s", precisions[i], mixed);
        run_program(
            &(program){.name = precisions[i], .source = source, .capacity = 20, .rows = 37, .n_replicas = 2, .n_steps = 3, .tolerance = 2e-2});
    }
}

/* Sums that are cut into parts: over rows of which the last part has too many, and where what is not valid would be 0 times infinity; over places, in
 * tiles, by teams; other combiners, and whole numbers. */
static const char sums[] =
    "use nn, initializers, losses, optimizers\n"
    "model Narrow(x: f32[B, 5]) -> f32[B, 3] {\n"
    "    return dense(x, units: 3)\n"
    "}\n"
    "model Square(x: f32[B, 2, 40]) -> f32[B, 2, 36] {\n"
    "    return dense(x, units: 36)\n"
    "}\n"
    "model Scaled(x: f32[B, 5]) -> f32[B, 5] {\n"
    "    param scale: f32[5] = zeros()\n"
    "    return x * scale\n"
    "}\n"
    "step infinite(x: f32[B, 5], y: f32[B, 5]) {\n"
    "    minimize(sum(Scaled(x * log(y * y)), axis: 1), sgd(learning_rate: 0.1))\n"
    "}\n"
    "step narrow(x: f32[B, 5], y: f32[B, 3]) {\n"
    "    e = Narrow(x) - y\n"
    "    minimize(e * e, sgd(learning_rate: 0.1))\n"
    "    report loss: mean(e * e), right: mean(argmax(y) == argmax(x)), columns: mean(e, axis: 0), most: max(e, axis: 0),\n"
    "           pairs: sum(x[:, :, newaxis] * y[:, newaxis], axis: 0)\n"
    "}\n"
    "step square(x: f32[B, 2, 40]) {\n"
    "    e = Square(x)\n"
    "    minimize(e * e, sgd(learning_rate: 0.1))\n"
    "    report loss: mean(e * e)\n"
    "}\n"
    "step extremes(x: f32[B, 16]) {\n"
    "    y = iota([130, 128, 3], axis: 0) * 7 % 13 + iota([130, 128, 3], axis: 1) * 5 % 17\n"
    "    z = f32(y) / 40 + 0.5\n"
    "    return a: x + max(z), b: x[:, 0] + sum(z), c: sum(y, axes: [0, 1]) + i64(x[:, :3]), d: min(z, axes: [0, 1]) + x[:, :3]\n"
    "}\n";

static void sums_in_parts(void **state) {
    (void)state;
    run_program(&(program){.name = "sums", .source = sums, .capacity = 600, .rows = 577, .n_steps = 1, .tolerance = 1e-4});
}

/* Products by blocks and by warps, of floats and of whole numbers, which wrap around. */
static const char reductions[] =
    "step blocks(x: f32[B, 1500]) {\n"
    "    return a: ops.reduce_product(1 + x / 1000, axes: [1]), b: ops.reduce_product(1 + f64(x) / 1000, axes: [1]),\n"
    "           c: ops.reduce_product(2 * i32(100 * x) + 1, axes: [1]), d: ops.reduce_product(2 * i64(100 * x) + 1, axes: [1])\n"
    "}\n"
    "step warps(x: f32[B, 100]) {\n"
    "    return a: ops.reduce_product(1 + x / 100, axes: [1]), b: ops.reduce_product(2 * i64(100 * x) + 1, axes: [1])\n"
    "}\n";

static void products_by_teams(void **state) {
    (void)state;
    run_program(&(program){.name = "reductions", .source = reductions, .capacity = 3, .rows = 2, .n_steps = 1, .tolerance = 1e-4});
}

/* Rounded to f16 and bf16, infinite, and integers that are no double. Nothing here may differ from the interpreter, which NumPy confirms. */
static const char constants[] = "step halves(x: f32[B, 9]) {\n"
                                "    return a: f32(f16(1e6)) + x, b: f16(x) * f16(3.1), c: f32(bf16(x) + bf16(0.3)),\n"
                                "           d: pad(f16(x), [0, 1], [0, 0], value: 0.3)\n"
                                "}\n"
                                "step wide(x: f32[B, 9]) {\n"
                                "    l = i64(100 * x)\n"
                                "    return a: l + 9007199254740993 - 9007199254740992, b: l + 9007199254740992 == 9007199254740993,\n"
                                "           c: pad(l, [0, 1], [0, 0], value: 9007199254740993) - 9007199254740992\n"
                                "}\n";

static void constants_of_each_type(void **state) {
    (void)state;
    run_program(&(program){.name = "constants", .source = constants, .capacity = 7, .rows = 5, .n_steps = 1, .tolerance = 0});
}

static void indices_of_64_bits(void **state) {
    (void)state;
    run_program(&(program){.name = "wide cnn", .source = cnn, .capacity = 6, .rows = 5, .n_steps = 1, .tolerance = 1e-3, .wide_indices = true});
    run_program(&(program){.name = "wide tiles", .source = tiles, .capacity = 40, .rows = 37, .n_steps = 1, .tolerance = 1e-4, .wide_indices = true});
}

static void norms_in_blocks(void **state) {
    (void)state;
    run_program(&(program){.name = "tests/programs/norms", .capacity = 6, .rows = 5, .n_steps = 1, .tolerance = 1e-4});
}

static void each_form_of_convolution(void **state) {
    (void)state;
    run_program(&(program){.name = "tests/programs/convolutions", .capacity = 4, .rows = 3, .n_steps = 2, .tolerance = 1e-4});
}

static void perceptron(void **state) {
    (void)state;
    run_program(&(program){.name = "examples/perceptron", .capacity = 3, .rows = 3, .n_steps = 2, .tolerance = 1e-3});
}

/* ---- mistakes planted in generated text ---- */

static const char normalise[] = "step s(x: f32[B, 40], w: f32[B, 40]) {\n"
                                "    p = exp(x - max(x, axes: 1, keep: true))\n"
                                "    return y: p / sum(p, axes: 1, keep: true) + w\n"
                                "}\n";

static const char multiply[] = "step s(x: f32[B, 33, 20], w: f32[B, 20, 33]) {\n"
                               "    return y: x @ w\n"
                               "}\n";

static const char scale[] = "step s(x: f32[B, 40], w: f32[B, 40]) {\n"
                            "    return y: x * w + 1\n"
                            "}\n";

static void blank_out(char *text, const char *what) {
    char *at = strstr(text, "extern \"C\" __global__");
    assert_non_null(strstr(at, what));
    while ((at = strstr(at, what)) != NULL) memset(at, ' ', strlen(what));
}

static void no_exchange_of_warps(char *text) { blank_out(text, "__syncwarp();"); }
static void no_barriers(char *text) { blank_out(text, "__syncthreads();"); }

static void vectors_between_places(char *text) {
    char *at = strstr(text, "e = 4 * grid_thread()");
    assert_non_null(at);
    memcpy(at, "e = 5", strlen("e = 5"));
}

__attribute__((unused)) static void one_element_further(char *text) {
    char *at = strstr(strstr(text, "extern \"C\" __global__"), "[40 * row + i1] =");
    assert_non_null(at);
    memcpy(at, "[40 * row + 40] =", strlen("[40 * row + 40] ="));
}

/* What an index is computed with stands in the loops that walk the iterations of a sum by index, among names of theirs. */
static const char computed_indices[] = "use optimizers\n"
                                       "model Table(i: u8[B, 9]) -> f32[B, 9, 40] {\n"
                                       "    param table: f32[7, 40] = normal(stddev: 1)\n"
                                       "    return table[i % 9 % 7] * 0.5 + table[i % 5]\n"
                                       "}\n"
                                       "step train(i: u8[B, 9]) { minimize(mean(sum(square(Table(i)), axes: [1, 2])), sgd(learning_rate: 0.1)) }\n";

static void indices_computed_in_sums(void **state) {
    (void)state;
    run_program(&(program){.name = "computed indices", .source = computed_indices, .capacity = 20, .rows = 17, .n_steps = 2, .tolerance = 1e-4});
}

/* Whether orders of threads differ, or the emulation says what is wrong; in these words, if they are given. */
static bool shows(const char *source, void (*mistake)(char *text), const char *words) {
    trial t = {.program = &(program){.name = "mistakes", .source = source, .capacity = 3}, .arena = dt_arena_create(), .random = {3}};
    dt_tensor first = {0}, result, inputs[2];
    bool found = false;
    t.compilation = (dt_compilation){.arena = t.arena, .module = trial_elaborate(&t), .target = DT_TARGET_CUDA};
    trial_succeed(&t, dt_passes_run(&t.compilation, &(dt_passes_options){0}));
    trial_succeed(&t, emulated_make_with(&t.compilation, &t.code, false, mistake));
    int f = trial_function(t.compilation.module, "s");
    for (int i = 0; i < 2; i++)
        inputs[i] = random_tensor(t.arena, &t.random, DT_F32, t.compilation.module->functions.items[f]->inputs.items[i]->shape, 3);
    for (t.code.how = 0; t.code.how < EMULATED_WAYS; t.code.how++) {
        dt_bad_index bad = {0};
        dt_launch launch = {.rows = 3, .valid = 3, .global_batch = 3, .replicas = 1, .bad_index = &bad, .n_parts = 1};
        trial_succeed(&t, dt_plan_execute(t.arena, &(dt_plan_run){t.compilation.plans[f], emulated_run, &t.code, 1, &launch, inputs, NULL, &result}));
        if (t.code.how == 0) first = result;
        found |= t.code.message[0] != 0 || memcmp(first.data, result.data, dt_tensor_bytes(&first)) != 0;
    }
    if (words != NULL) found = strstr(t.code.message, words) != NULL;
    emulated_free(&t.code);
    dt_arena_destroy(t.arena);
    return found;
}

static void planted_mistakes_show(void **state) {
    (void)state;
    assert_false(shows(normalise, NULL, NULL));
    assert_true(shows(normalise, no_exchange_of_warps, NULL));
#if !defined(__SANITIZE_ADDRESS__) /* which ends the process at such a write */
    assert_true(shows(normalise, one_element_further, NULL));
#endif
    assert_false(shows(multiply, NULL, NULL));
    assert_true(shows(multiply, no_barriers, NULL));
    assert_false(shows(scale, NULL, NULL));
    assert_true(shows(scale, vectors_between_places, "not aligned"));
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_of_a_small_cnn),
        cmocka_unit_test(pairs_of_rows_of_several_replicas),
        cmocka_unit_test(products_in_tiles),
        cmocka_unit_test(products_in_narrow_tiles),
        cmocka_unit_test(products_by_warps),
        cmocka_unit_test(values_of_16_bits),
        cmocka_unit_test(sums_in_parts),
        cmocka_unit_test(products_by_teams),
        cmocka_unit_test(constants_of_each_type),
        cmocka_unit_test(indices_of_64_bits),
        cmocka_unit_test(each_form_of_convolution),
        cmocka_unit_test(perceptron),
        cmocka_unit_test(norms_in_blocks),
        cmocka_unit_test(indices_computed_in_sums),
        cmocka_unit_test(planted_mistakes_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
