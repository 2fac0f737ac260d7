/* elaboration: what small programs mean, read off the graph that they become. */
#include "base/memory.h"
#include "frontends/dsl/dsl.h"
#include "ir/text_form.h"
#include "ir/verify.h"
#include "tests/unit/scratch_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct compiled {
    dt_arena *arena;
    dt_module *module;
    char *text;        /* the module */
    char *diagnostics; /* "" when there are none, but names that nobody reads */
} compiled;

static compiled compile_with(const char *source, const dt_dsl_options *options) {
    compiled c = {.arena = dt_arena_create()};
    dt_diagnostics *diagnostics = dt_diagnostics_create(c.arena);
    assert_null(dt_dsl_compile(c.arena, "t.dt", source, options, diagnostics, &c.module));
    dt_text text = {0};
    dt_text_append(&text, "");
    size_t n;
    dt_diagnostic *const *all = dt_diagnostics_sorted(diagnostics, &n);
    for (size_t i = 0; i < n; i++) /* steps here have inputs that all tests share */
        if (all[i]->severity == DT_SEVERITY_ERROR || all[i]->warning != DT_WARN_NEVER_READ) dt_diagnostics_print_one(&text, all[i]);
    c.diagnostics = dt_text_take(&text);
    if (c.module == NULL) return c;
    dt_status *status = dt_verify(c.module);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    dt_module_print(&text, c.module);
    c.text = dt_text_take(&text);
    return c;
}

static compiled compile(const char *source) {
    compiled c = compile_with(source, NULL);
    if (c.module == NULL || *c.diagnostics != '\0') fail_msg("%s", c.diagnostics);
    return c;
}

static void release(compiled *c) {
    free(c->text);
    free(c->diagnostics);
    dt_arena_destroy(c->arena);
}

/* The module's text holds each line, after the one before it. Locations are not part of it: a line is looked for up to its " @". */
static void holds(const compiled *c, const char *const *lines) {
    const char *at = c->text;
    for (; *lines != NULL; lines++) {
        const char *found = strstr(at, *lines);
        if (found == NULL) fail_msg("not found: %s\nin\n%s", *lines, c->text);
        at = found + strlen(*lines);
    }
}
#define HOLDS(c, ...) holds(c, (const char *const[]){__VA_ARGS__, NULL})

static int count_of(const compiled *c, const char *part) {
    int n = 0;
    for (const char *at = c->text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

#define STEP(body) "use nn, losses, optimizers, schedules\nstep s(x: f32[B, 4], i: i32[B], u: u8[B], m: bool[B]) {\n" body "\n}\n"

static void literals_take_their_neighbours_type(void **state) {
    (void)state;
    compiled c = compile(STEP("return a: x * 2, b: i + 1, c: i == u, d: m == true, e: 1 / 4 + x, f: where(m, 1, i)"));
    HOLDS(&c, "constant(value=2.0, shape=[B, 4], dtype=f32)", "constant(value=1, shape=[B], dtype=i32)", "i64[B] = convert(%1, to=i64)",
          "i64[B] = convert(%2, to=i64)", "equal(", "constant(value=0.25, shape=[B, 4], dtype=f32)", "constant(value=1, shape=[B], dtype=i32)",
          "where(%3,");
    release(&c);
}

static void precision_is_of_products_in_steps(void **state) {
    (void)state;
    static const char source[] =
        "option precision: bf16\n"
        "fn twice(shape) {\n    return ops.matmul(ops.constant(value: 1.0, shape: shape, dtype: f32), ops.constant(value: 2.0, "
        "shape: [4, 4], dtype: f32))\n}\n"
        "model M(x: f32[B, 4]) -> f32[B, 4] {\n    param w: f32[4, 4] = twice()\n    return x @ w\n}\n"
        "step s(x: f32[B, 4], y: f64[B, 4]) {\n    z = ops.matmul(M(x), M(x), transpose_a: true, precision: \"f32\")\n"
        "    return a: M(x) @ z, b: y @ f64(z)\n}\n";
    compiled c = compile(source);
    HOLDS(&c, "function init", "= matmul(%0, %1) @", "function s step", "matmul(%0, %2, precision=\"bf16\")", "transpose_a=true) @",
          "precision=\"bf16\")", "f64[B, 4] = matmul(%1, ");
    assert_int_equal(count_of(&c, "precision="), 4);
    release(&c);
    dt_dsl_options options = {.precision = "tf32"};
    c = compile_with(source, &options);
    assert_int_equal(count_of(&c, "precision=\"tf32\""), 4);
    release(&c);
    options.precision = "f32";
    c = compile_with(source, &options);
    assert_int_equal(count_of(&c, "precision="), 0);
    release(&c);
}

static void broadcasting_is_made_explicit(void **state) {
    (void)state;
    compiled c = compile(STEP("return a: x - x[:, :1], b: x + zeros([4]), c: sum(x[:, newaxis, :] * x[newaxis, :, :], axis: 1)"));
    HOLDS(&c, "slice(%0, starts=[0, 0], limits=[B, 1], steps=[1, 1])", "broadcast(%4, shape=[B, 4], dims=[0, 1])",
          "broadcast(%7, shape=[B, 4], dims=[1])", "reshape(%0, shape=[B, 1, 4])", "f32[B, B, 4] = multiply(");
    release(&c);
}

static void reductions_count_valid_rows(void **state) {
    (void)state;
    compiled c = compile(STEP("return a: mean(x), b: mean(x, axis: 1), c: sum(m), d: mean(m), e: count(x)"));
    HOLDS(&c, "f32 = reduce_sum(%0, axes=[0, 1])", "launch(name=\"valid\")", "constant(value=4, shape=[], dtype=i64)",
          "f32[B] = reduce_sum(%0, axes=[1])", "constant(value=4.0, shape=[B], dtype=f32)", "i64 = reduce_sum(%3, axes=[0])",
          "%14: i64 = reduce_sum(%3, axes=[0])", "f32 = convert(%14, to=f32)");
    release(&c);
}

#define MODEL "model M(x: f32[B, 4]) { return dense(x, units: 2) }\n"

static void objectives_divide_by_what_is_said(void **state) {
    (void)state;
    compiled c = compile(
        MODEL STEP("l = M(x)\nreturn a: objective(l), b: objective(l, normalize: examples), c: objective(l, weight: f32(m), normalize: weights)"));
    HOLDS(&c, "reduce_sum(%8, axes=[0, 1])", "launch(name=\"global_batch\")", "constant(value=2, shape=[], dtype=i64)", "divide(",
          "launch(name=\"valid\")", "divide(", "reshape(", "broadcast(", "reduce_sum(", "reduce_sum(", "divide(");
    release(&c);
}

static void an_optimizer_expression_is_one_instance(void **state) {
    (void)state;
    compiled c = compile(MODEL STEP("o = adam()\nminimize(M(x), o)\nminimize(M(x) * 2, o)\nminimize(M(x), adam(), over: params(M))"));
    HOLDS(&c, "variable \"adam/count\": i64 slot", "variable \"adam/M/dense/kernel/m\"", "variable \"adam_1/count\": i64 slot");
    assert_null(strstr(c.text, "adam_2"));
    release(&c);
}

static void a_call_after_an_update_reads_the_new_values(void **state) {
    (void)state;
    compiled c = compile(MODEL STEP("minimize(M(x), sgd(learning_rate: 1.0))\nminimize(M(x), sgd(learning_rate: 1.0))"));
    assert_int_equal(count_of(&c, "read(variable=\"M/dense/kernel\")"), 1); /* once, the second call uses what the first update made */
    assert_int_equal(count_of(&c, "write(%"), 4 + 2 * 2);                   /* init and step: kernel, bias, two counts */
    HOLDS(&c, "read(variable=\"M/dense/kernel\")", "gradient(", "stop_gradient(", "matmul(%0, ", "gradient(");
    release(&c);
}

static void states_are_written_at_the_end(void **state) {
    (void)state;
    compiled c = compile(
        "use nn, optimizers\nmodel M(x: f32[B, 4]) {\n    state n: i64 = 0\n    if training { n := n + count(x) }\n    return dense(x, units: 1)\n}\n"
        "step train(x: f32[B, 4]) {\n    minimize(M(x), sgd())\n    report n: last(M.n)\n}\n"
        "step evaluate(x: f32[B, 4]) { report y: mean(M(x)) }\n");
    HOLDS(&c, "step train = train report train/report aggregates(last) trains", "function train step", "read(variable=\"M/n\")", "write(%",
          "variable=\"M/n\")", "function evaluate step");
    assert_null(strstr(strstr(c.text, "function evaluate"), "M/n"));
    release(&c);
}

static void layers_are_numbered_by_appearance(void **state) {
    (void)state;
    compiled c = compile(
        "use nn\nfn twice(x: f32[B, C]) {\n    return dense(dense(x, units: C), units: C)\n}\n"
        "layer block(x: f32[B, C]) { return x + (relu(dense(x, units: C)) as inner) }\n"
        "model M(x: f32[B, 4]) {\n    for i in 0..2 { x = block(x) }\n    x = twice(x)\n    for i in 0..2 { x = dense(x, units: 4) as head }\n"
        "    return dense(x, units: 1)\n}\nstep s(x: f32[B, 4]) { return y: M(x) }\n");
    HOLDS(&c, "M/block/inner/kernel", "M/block_1/inner/kernel", "M/dense/kernel", "M/dense_1/kernel", "M/head_0/kernel", "M/head_1/kernel",
          "M/dense_2/kernel");
    release(&c);
}

/* The stream of the n-th random_uniform of the text from `from` on. */
static long long stream_after(const compiled *c, const char *from, int n) {
    const char *at = strstr(c->text, from);
    for (int i = 0; i <= n && at != NULL; i++) at = strstr(at + 1, "stream=");
    assert_non_null(at);
    return strtoll(at + strlen("stream="), NULL, 10);
}

static void random_streams_follow_the_path_of_calls(void **state) {
    (void)state;
    const char *source = "use nn\nmodel M(x: f32[B, 4]) {\n    x = dropout(dense(x, units: 4), rate: 0.5)\n    return dropout(x, rate: 0.5)\n}\n"
                         "step a(x: f32[B, 4]) { return p: M(x, training: true), q: M(x, training: true) }\n"
                         "step b(x: f32[B, 4]) { return p: M(x, training: true) }\nstep c(x: f32[B, 4]) { return p: M(x) }\n";
    compiled c = compile(source), again = compile(source);
    assert_string_equal(c.text, again.text);
    long long streams[6];
    for (int i = 0; i < 4; i++) streams[i] = stream_after(&c, "function a", i);
    for (int i = 0; i < 2; i++) streams[4 + i] = stream_after(&c, "function b", i);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_true(streams[i] != streams[k]);
    assert_null(strstr(strstr(c.text, "function c"), "random_uniform"));
    release(&c);
    release(&again);
}

static void schedules_take_launch_values(void **state) {
    (void)state;
    compiled c = compile(MODEL STEP(
        "pace = cosine_decay(1e-3 * replicas, steps: epochs * steps_per_epoch)\nminimize(M(x), sgd(learning_rate: pace))\nreport rate: last(pace)"));
    HOLDS(&c, "launch(name=\"replicas\")", "launch(name=\"epochs\")", "launch(name=\"steps_per_epoch\")", "read(variable=\"sgd/count\")", "cos(");
    HOLDS(&c, "function s/report report (%0 aggregate0: f64", "return rate=%0");
    release(&c);
}

static void what_is_frozen_is_not_trained(void **state) {
    (void)state;
    compiled c =
        compile("use nn, optimizers\nmodel M(x: f32[B, 4]) { return dense(dropout(dense(x, units: 4) as body, rate: 0.5), units: 1) as head }\n"
                "step s(x: f32[B, 4]) {\n    freeze(M.body)\n    minimize(M(x), sgd())\n}\n");
    assert_int_equal(count_of(&c, "gradient(%"), 2);
    HOLDS(&c, "function s step", "variable=\"M/head/kernel\")");
    release(&c);
}

static void regularization_joins_the_minimize_of_its_parameters(void **state) {
    (void)state;
    compiled c =
        compile("use nn, optimizers\nmodel A(x: f32[B, 4]) {\n    param w: f32[4] = ones()\n    regularize(0.5 * sum(w * w))\n    return x * w\n}\n"
                "model C(x: f32[B, 4]) { return dense(x, units: 1) }\n"
                "step s(x: f32[B, 4]) {\n    l = C(A(A(x)))\n    minimize(l, sgd(), over: params(A))\n    minimize(l, sgd(), over: params(C))\n}\n");
    assert_int_equal(count_of(&c, "f32 = add("), 1); /* once, though A is called twice */
    release(&c);
}

static void options_are_set_from_outside(void **state) {
    (void)state;
    const char *source = "use nn\noption widths = [4]\noption rate = 0.5\ndata d = npy(\"x.npy\") | batch(8)\ndata e = npy(\"x.npy\") | batch(24)\n"
                         "model M(x: f32[B, 4]) {\n    for w in widths { x = dense(x, units: w) }\n    return x * rate\n}\nstep s(x: f32[B, 4]) from "
                         "d { return y: M(x) }\n";
    const dt_dsl_define defines[] = {{"widths", "[4, 5 + 1]"}, {"rate", "2"}};
    const dt_dsl_options options = {.defines = defines, .n_defines = 2, .capacity = 7};
    compiled c = compile(source), set = compile_with(source, &options);
    assert_int_equal(c.module->capacity, 24);
    assert_null(strstr(c.text, "dense_1"));
    assert_non_null(set.module);
    assert_int_equal(set.module->capacity, 7);
    HOLDS(&set, "variable \"M/dense_1/kernel\": f32[4, 6]", "constant(value=2.0");
    release(&c);
    release(&set);
}

static void pipelines_compile_their_functions(void **state) {
    (void)state;
    compiled c = compile(
        "fn prepare(image: u8[4], label: u8) { return where(bernoulli(0.5), reverse(image, axis: 0), image), label }\n"
        "fn is_known(image: u8[4], label: u8) { return label < 3 }\n"
        "data d = idx(\"a\", \"b\") | map(prepare) | filter(is_known) | batch(2)\nstep s(x: u8[B, 4], l: u8[B]) from d { report n: sum(l) }\n");
    HOLDS(&c, "pipeline d = idx(\"a\", \"b\")", "| map(function d/map0)", "| filter(function d/filter1)", "function d/map0 example (%0 image: u8[4]",
          "return result0=%", "result1=%1", "function d/filter1 example", "bool = less(");
    release(&c);
}

static void reports_are_made_of_totals(void **state) {
    (void)state;
    compiled c = compile(STEP("y = mean(x, axis: 1)\nreport a: mean(y), b: exp(mean(y)) + 1, c: mean(m, weight: y), d: max(i), e: min(x), f: sum(m) "
                              "/ count_of(m)") "fn count_of(x) { return sum(x == x) }\n");
    HOLDS(&c, "aggregates(sum, sum, sum, sum, max, min, sum, sum)", "function s/report report", "divide(%0, %1)", "exp(", "add(");
    release(&c);
}

static void gradients_of_gradients_and_trees(void **state) {
    (void)state;
    compiled c =
        compile(MODEL STEP("g = grad(sum(square(M(x))), x)\nh = grad(sum(square(g)), params(M))\nh = h * 0.5 + tree_map(fn(t) => t * 2, h)\n"
                           "n = 0.0\nfor path, t in h { n = n + sum(t * t) }\napply(sgd(), clip_by_global_norm(h, 1.0))\nreport n: last(n)"));
    assert_int_equal(count_of(&c, "gradient(%"), 3); /* x; kernel and bias */
    release(&c);
}

static void files_beside_the_program_are_modules(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    const char *part = scratch_path("part.dt"), *program = scratch_path("t.dt");
    const char *text = "use nn\nconst wide = 6\nlayer wide_dense(x: float[B, C]) { return dense(x, units: wide) }\n";
    assert_null(dt_file_write_atomic(part, text, strlen(text)));
    const char *source = "use part\nmodel M(x: f32[B, 4]) { return part.wide_dense(wide_dense(x)) }\nstep s(x: f32[B, 4]) { return y: M(x) }\n";
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module;
    assert_null(dt_dsl_compile(arena, program, source, NULL, diagnostics, &module));
    assert_non_null(module);
    assert_int_equal(module->files.n, 2);
    assert_string_equal(module->files.items[1], "part.dt");
    assert_non_null(dt_module_find_variable(module, "M/wide_dense_1/dense/kernel"));
    text = "option precision: bf16\nconst wide = 6\n";
    assert_null(dt_file_write_atomic(part, text, strlen(text)));
    assert_null(dt_dsl_compile(arena, program, "use part\nstep s(x: f32[B]) { return y: x * wide }\n", NULL, diagnostics, &module));
    assert_null(module);
    dt_text told = {0};
    dt_diagnostics_print(&told, diagnostics);
    assert_non_null(strstr(told.data, "part.dt:1:8: error: precision is an option of the whole program, this is a module"));
    dt_text_free(&told);
    dt_arena_destroy(arena);
}

static void small_powers_are_products(void **state) {
    (void)state;
    compiled c = compile("step s(x: f32[B], n: i32[B]) {\nreturn a: x ** 3, b: x ** 4, c: n ** 3, d: x ** 0.5, e: x ** 5\n}\n");
    HOLDS(&c, "%2: f32[B] = square(%0)", "= multiply(%2, %0)", "= square(%0)", "= square(%4)", "%6: i32[B] = square(%1)", "= multiply(%6, %1)",
          "= sqrt(%0)", "= power(%0, ");
    release(&c);
}

/* Whether `source` compiles while only n_allocations more succeed. */
static bool compiles_with_memory(const char *source, int64_t n_allocations) {
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    assert_non_null(arena);
    dt_memory_fail_after(n_allocations);
    if (setjmp(guard)) {
        dt_memory_fail_after(-1);
        dt_arena_destroy(arena);
        return false;
    }
    dt_arena_guard(arena, &guard);
    dt_module *module;
    dt_status *status = dt_dsl_compile(arena, "t.dt", source, NULL, dt_diagnostics_create(arena), &module);
    dt_memory_fail_after(-1);
    bool compiled = status == NULL;
    if (!compiled) assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
    dt_status_free(status);
    dt_arena_destroy(arena);
    return compiled;
}

/* Functions of numbers, layers, an optimizer; and mistakes, whose messages want memory too. */
static void memory_that_is_out_is_an_error(void **state) {
    (void)state;
    static const char *const sources[] = {
        "use nn, losses, optimizers, schedules\n"
        "const width = int(exp(maximum(2.0, 1.0))) + len([1, 2])\n"
        "model M(x: f32[B, 4]) { return dense(x, units: width, activation: fn(t) => gelu(t)) as head }\n"
        "step train(x: f32[B, 4]) {\n    minimize(M(x), adam(cosine_decay(0.1, steps: 100)))\n    report loss: mean(M(x))\n}\n",
        "use nn\nmodel M(x: f32[B, 4]) { param w: i32[3] = ones()\n return dense(x, unit: 3) }\n"
        "step s(x: f32[B, 4], u: u8[B]) {\n    a = M(x).w\n    b = u + 300\n    c = x @ x\n    d = exp(\"text\", [1, 2])\n    e = ops.reduce_sum(x, "
        "axes: [7])\n}\n",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        int64_t n = 0;
        while (!compiles_with_memory(sources[i], n)) n++;
        assert_true(n > 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_out_is_an_error),
        cmocka_unit_test(small_powers_are_products),
        cmocka_unit_test(literals_take_their_neighbours_type),
        cmocka_unit_test(precision_is_of_products_in_steps),
        cmocka_unit_test(broadcasting_is_made_explicit),
        cmocka_unit_test(reductions_count_valid_rows),
        cmocka_unit_test(objectives_divide_by_what_is_said),
        cmocka_unit_test(an_optimizer_expression_is_one_instance),
        cmocka_unit_test(a_call_after_an_update_reads_the_new_values),
        cmocka_unit_test(states_are_written_at_the_end),
        cmocka_unit_test(layers_are_numbered_by_appearance),
        cmocka_unit_test(random_streams_follow_the_path_of_calls),
        cmocka_unit_test(schedules_take_launch_values),
        cmocka_unit_test(what_is_frozen_is_not_trained),
        cmocka_unit_test(regularization_joins_the_minimize_of_its_parameters),
        cmocka_unit_test(options_are_set_from_outside),
        cmocka_unit_test(pipelines_compile_their_functions),
        cmocka_unit_test(reports_are_made_of_totals),
        cmocka_unit_test(gradients_of_gradients_and_trees),
        cmocka_unit_test_setup_teardown(files_beside_the_program_are_modules, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
