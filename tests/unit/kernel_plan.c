/* Plans mean what the graph means: random functions run by the interpreter and, after fuse, schedule and plan_memory, kernel by kernel. */
#include "compiler/kernel/execute.h"
#include "compiler/passes/passes.h"
#include "ir/text_form.h"
#include "tests/unit/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void expect_ok(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
}

static void run_passes(dt_compilation *compilation) {
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_plan_memory};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        expect_ok(passes[i](compilation));
        for (int p = 0; p < compilation->n_plans; p++) expect_ok(dt_plan_verify(compilation->plans[p]));
    }
}

static void show(const dt_compilation *compilation) {
    dt_text text = {0};
    dt_module_print(&text, compilation->module);
    dt_plan_print(&text, compilation->plans[0]);
    fputs(text.data, stderr);
    dt_text_free(&text);
}

static bool close_enough(double x, double y, double tolerance) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= tolerance * (1 + fabs(x)) || (fabs(x) > 1e9 && fabs(x - y) <= 1e-5 * fabs(x));
}

/* Random numbers are f32: what comes of them is as rough. */
static double tolerance_of(const dt_module *module) {
    for (const dt_value *value = module->functions.items[0]->first; value != NULL; value = value->next)
        if (value->dtype == DT_F32) return 1e-5;
    return 1e-9;
}

static void compare(const dt_compilation *compilation, const char *what, const dt_tensor *x, const dt_tensor *y) {
    double tolerance = tolerance_of(compilation->module);
    if (!dt_shape_equal(x->shape, y->shape)) fail_msg("%s: shapes differ", what);
    for (size_t i = 0; i < dt_tensor_elements(x); i++)
        if (!close_enough(dt_tensor_get(x, i), dt_tensor_get(y, i), tolerance)) {
            show(compilation);
            fail_msg("%s[%zu]: the graph gives %.17g, the plan %.17g", what, i, dt_tensor_get(x, i), dt_tensor_get(y, i));
        }
}

static dt_memory copy_memory(dt_arena *arena, const dt_module *module, const dt_memory *memory) {
    dt_memory copy = dt_memory_create(arena, module);
    for (size_t v = 0; v < module->variables.n; v++) memcpy(copy.variables[v].data, memory->variables[v].data, dt_tensor_bytes(&copy.variables[v]));
    return copy;
}

static void run_both(dt_arena *arena, random_source *source, dt_compilation *compilation, int64_t rows) {
    dt_function *function = compilation->module->functions.items[0];
    dt_bad_index bad[2] = {{0}, {0}};
    dt_launch launch = {.rows = rows,
                        .row_offset = 0,
                        .valid = rows,
                        .global_batch = 4,
                        .replicas = 1,
                        .epochs = 3,
                        .steps_per_epoch = 5,
                        .counter = 6,
                        .seed = 7,
                        .bad_index = &bad[0]};
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, function->inputs.n), *results = DT_NEW_ARRAY(arena, dt_tensor, 2 * function->results.n);
    for (size_t i = 0; i < function->inputs.n; i++)
        inputs[i] = random_tensor(arena, source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows);
    dt_memory memory = dt_memory_create(arena, compilation->module);
    for (size_t v = 0; v < compilation->module->variables.n; v++)
        memory.variables[v] =
            random_tensor(arena, source, compilation->module->variables.items[v].dtype, compilation->module->variables.items[v].shape, 0);
    dt_memory other = copy_memory(arena, compilation->module, &memory);
    expect_ok(dt_interpret(arena, function, &launch, inputs, &memory, results));
    launch.bad_index = &bad[1];
    expect_ok(dt_plan_execute(arena, compilation->plans[0], 1, &launch, inputs, &other, results + function->results.n));
    for (size_t r = 0; r < function->results.n; r++)
        compare(compilation, function->results.items[r].name, &results[r], &results[function->results.n + r]);
    for (size_t v = 0; v < compilation->module->variables.n; v++)
        compare(compilation, compilation->module->variables.items[v].path, &memory.variables[v], &other.variables[v]);
    assert_int_equal(bad[0].count > 0, bad[1].count > 0);
}

static void random_functions_run_alike(void **state) {
    (void)state;
    const char *only = getenv("DT_SEED"), *count = getenv("DT_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : only ? 1 : 150;
    for (uint64_t seed = first; seed < first + n; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena, .module = random_module(arena, &source, 12 + (int)random_below(&source, 30))};
        if (seed % 2 == 0) compilation.off = random_below(&source, 1u << DT_N_SWITCHES); /* whatever is switched off, the meaning stays */
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        run_passes(&compilation);
        if (only && !count) show(&compilation);
        for (int64_t rows = 0; rows <= 4; rows += 2) run_both(arena, &source, &compilation, rows);
        dt_arena_destroy(arena);
    }
}

/* ---- several replicas ---- */

enum {
    n_replicas = 3,
    capacity = 4
};

static void run_replicas(dt_arena *arena, random_source *source, dt_compilation *compilation, int64_t valid) {
    dt_function *function = compilation->module->functions.items[0];
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    dt_bad_index bad[n_replicas] = {{0}};
    dt_launch launches[n_replicas];
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, n_replicas * n_inputs), *results = DT_NEW_ARRAY(arena, dt_tensor, 2 * n_replicas * n_results);
    for (int r = 0; r < n_replicas; r++) {
        int64_t left = valid - r * capacity, rows = left < 0 ? 0 : left < capacity ? left : capacity;
        launches[r] = (dt_launch){.rows = rows,
                                  .row_offset = r * capacity,
                                  .valid = valid,
                                  .global_batch = n_replicas * capacity,
                                  .replicas = n_replicas,
                                  .epochs = 1,
                                  .steps_per_epoch = 1,
                                  .counter = 2,
                                  .seed = 3,
                                  .bad_index = &bad[r]};
        for (size_t i = 0; i < n_inputs; i++)
            inputs[(size_t)r * n_inputs + i] = random_tensor(arena, source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows);
    }
    dt_memory memory = dt_memory_create(arena, compilation->module);
    for (size_t v = 0; v < compilation->module->variables.n; v++)
        memory.variables[v] =
            random_tensor(arena, source, compilation->module->variables.items[v].dtype, compilation->module->variables.items[v].shape, 0);
    dt_memory other = copy_memory(arena, compilation->module, &memory);
    expect_ok(dt_interpret_replicas(arena, function, n_replicas, launches, inputs, &memory, results));
    expect_ok(dt_plan_execute(arena, compilation->plans[0], n_replicas, launches, inputs, &other, results + n_replicas * n_results));
    for (size_t i = 0; i < n_replicas * n_results; i++)
        compare(compilation, function->results.items[i % n_results].name, &results[i], &results[n_replicas * n_results + i]);
    for (size_t v = 0; v < compilation->module->variables.n; v++)
        compare(compilation, compilation->module->variables.items[v].path, &memory.variables[v], &other.variables[v]);
}

/* In a dimension that needs a stride. */
static bool is_gathered(const dt_module *module) {
    for (const dt_value *value = module->functions.items[0]->first; value != NULL; value = value->next)
        for (int d = 1; d < value->shape.rank; d++)
            if (value->shape.dims[d] == DT_GATHERED) return true;
    return false;
}

static void random_functions_run_alike_on_replicas(void **state) {
    (void)state;
    const char *only = getenv("DT_SEED"), *count = getenv("DT_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : only ? 1 : 100, n_run = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + 1000000};
        dt_compilation compilation = {.arena = arena, .module = random_module(arena, &source, 12 + (int)random_below(&source, 20))};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        expect_ok(dt_pass_partition(&compilation));
        if (!is_gathered(compilation.module)) {
            run_passes(&compilation);
            for (int64_t valid = 1; valid <= n_replicas * capacity; valid += 5) run_replicas(arena, &source, &compilation, valid);
            n_run++;
        } else {
            dt_status *status = dt_pass_fuse(&compilation);
            assert_int_equal(dt_status_code(status), DT_UNIMPLEMENTED);
            dt_status_free(status);
        }
        dt_text_free(&compilation.warnings);
        dt_arena_destroy(arena);
    }
    assert_true(only != NULL || n_run > n / 4);
}

/* ---- sums of products, on purpose ---- */

/* A function of one op over g [B, 3, 4, 5] and w [3, 2, 6, 5]: the gradient of a convolution's input, by `attributes`. */
static dt_module *one_product(dt_arena *arena, const char *attributes) {
    static const char text[] = "module m capacity 4\nfile 0 \"m.dt\"\nvariable \"w\": f64[3, 2, 6, 5] parameter trainable @0:1:1\n"
                               "function step step (%%0 g: f64[B, 3, 4, 5] @0:1:1) {\n  %%1: f64[3, 2, 6, 5] = read(variable=\"w\") @0:1:1\n"
                               "  %%2: f64[B, %d, %d, 6] = conv2d_input_gradient(%%0, %%1, %s) @0:1:1\n  return y=%%2\n}\n";
    int height, width;
    dt_module *module;
    assert_int_equal(sscanf(attributes, "size=[%d, %d]", &height, &width), 2);
    expect_ok(dt_module_parse(arena, "m.ir", dt_arena_format(arena, text, height, width, attributes), &module));
    return module;
}

static void products_read_outside_or_are_spread(void **state) {
    (void)state;
    static const struct {
        const char *attributes;
        bool spread; /* no window leaves the image, so no border is laid out */
    } cases[] = {{"size=[5, 5]", true},
                 {"size=[7, 8], strides=[2, 2]", false}, /* with strides: one product for each phase */
                 {"size=[8, 9], strides=[2, 2]", false},
                 {"size=[9, 11], strides=[3, 3]", true}, /* each place of g is read by one tap of each phase */
                 {"size=[7, 7], dilation=[2, 3]", true},
                 {"size=[3, 3], padding=[1, 1, 1, 1]", false},
                 {"size=[6, 7], strides=[2, 2], padding=[1, 0, 1, 0]", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {i};
        dt_compilation compilation = {.arena = arena, .module = one_product(arena, cases[i].attributes)};
        run_passes(&compilation);
        bool border = false, tiled = false;
        for (int n = 0; n < compilation.plans[0]->kernels[0].n_nests; n++) {
            const dt_nest *nest = &compilation.plans[0]->kernels[0].nests[n];
            border |= nest->in_rows && nest->note != NULL && strcmp(nest->note, "pack") == 0;
            tiled |= nest->algorithm != DT_ALGORITHM_LOOPS;
        }
        assert_true(tiled);
        assert_int_equal(border, !cases[i].spread);
        for (int64_t rows = 0; rows <= 4; rows += 2) run_both(arena, &source, &compilation, rows);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_read_outside_or_are_spread), cmocka_unit_test(random_functions_run_alike),
                                       cmocka_unit_test(random_functions_run_alike_on_replicas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
