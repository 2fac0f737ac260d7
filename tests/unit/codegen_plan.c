/* codegen_plan: random functions run by the interpreter and as generated code, on each level of this machine. DT_SEED and DT_COUNT rerun one and
 * more of them. */
#include "compiler/passes/passes.h"
#include "ir/text_form.h"
#include "tests/support/compiled.h"
#include "tests/unit/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum {
    CAPACITY = 4
};

static void succeed(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
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

static void compare(const dt_compilation *compilation, const char *level, const char *what, const dt_tensor *x, const dt_tensor *y) {
    double tolerance = 1e-9; /* random numbers are f32: what comes of them is as rough */
    for (const dt_value *value = compilation->module->functions.items[0]->first; value != NULL; value = value->next)
        if (value->dtype == DT_F32) tolerance = 1e-5;
    for (size_t i = 0; i < dt_tensor_elements(x); i++)
        if (!close_enough(dt_tensor_get(x, i), dt_tensor_get(y, i), tolerance)) {
            show(compilation);
            fail_msg("%s: %s[%zu]: the graph gives %.17g, the code %.17g", level, what, i, dt_tensor_get(x, i), dt_tensor_get(y, i));
        }
}

static void run_level(random_source source, const dt_compilation *compilation, compiled_code *code, int64_t rows) {
    const dt_module *module = compilation->module;
    dt_function *function = module->functions.items[0];
    dt_arena *arena = dt_arena_create();
    dt_bad_index bad[2] = {{0}, {0}};
    dt_launch launch = {
        .rows = rows, .valid = rows, .global_batch = CAPACITY, .replicas = 1, .epochs = 3, .steps_per_epoch = 5, .counter = 6, .seed = 7};
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, n_inputs), *results = DT_NEW_ARRAY(arena, dt_tensor, 2 * n_results);
    for (size_t i = 0; i < n_inputs; i++)
        inputs[i] = random_tensor(arena, &source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows);
    dt_memory memory = dt_memory_create(arena, module), other = dt_memory_create(arena, module);
    for (size_t v = 0; v < module->variables.n; v++) {
        memory.variables[v] = random_tensor(arena, &source, module->variables.items[v].dtype, module->variables.items[v].shape, 0);
        memcpy(other.variables[v].data, memory.variables[v].data, dt_tensor_bytes(&memory.variables[v]));
    }
    launch.bad_index = &bad[0];
    succeed(dt_interpret(arena, function, &launch, inputs, &memory, results));
    launch.bad_index = &bad[1];
    succeed(dt_plan_execute_with(arena, compilation->plans[0], compiled_run, code, 1, &launch, inputs, &other, results + n_results));
    for (size_t r = 0; r < n_results; r++) compare(compilation, code->level, function->results.items[r].name, &results[r], &results[n_results + r]);
    for (size_t v = 0; v < module->variables.n; v++)
        compare(compilation, code->level, module->variables.items[v].path, &memory.variables[v], &other.variables[v]);
    assert_int_equal(bad[0].count > 0, bad[1].count > 0);
    dt_arena_destroy(arena);
}

static void random_functions_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_plan_memory};
    const char *only = getenv("DT_SEED"), *count = getenv("DT_COUNT"), *levels[COMPILED_MOST_LEVELS];
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : only ? 1 : 20;
    int n_levels = compiled_levels(levels);
    for (uint64_t seed = first; seed < first + n; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena, .module = random_module(arena, &source, 12 + (int)random_below(&source, 30))};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) succeed(passes[i](&compilation));
        compiled_code codes[COMPILED_MOST_LEVELS];
        succeed(compiled_make(&compilation, levels, n_levels, codes));
        for (int i = 0; i < n_levels; i++)
            for (int64_t rows = 0; rows <= CAPACITY; rows += 2) run_level(source, &compilation, &codes[i], rows);
        compiled_free(codes, n_levels);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_functions_run_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
