/* codegen_products: matrix products and convolutions of random shapes, and some that are large enough for what large ones do (panels, sums in
 * parts), with what stands beside them in a step (a scatter onto one, a long search, a turned matrix), as code of each level of this machine against
 * the interpreter. DT_SEED and DT_COUNT rerun one and more of the random ones. */
#include "compiler/passes/passes.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"
#include "tests/support/compiled.h"
#include "tests/support/random_products.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct {
    const char *body;
    int capacity;
} large[] = {
    {"%0 a: f32[B, 70], %1 b: f32[70, 200]) {\n  %9: f32[B, 200] = matmul(%0, %1)", 600},
    {"%0 a: f32[B, 300], %1 b: f32[300, 165]) {\n  %9: f32[B, 165] = matmul(%0, %1)", 40},
    {"%0 a: f32[40, 520], %1 b: f32[180, 520]) {\n  %9: f32[40, 180] = matmul(%0, %1, transpose_b=true)", 0},
    {"%0 a: f32[B, 40], %1 b: f32[B, 257]) {\n  %9: f32[40, 257] = matmul(%0, %1, transpose_a=true)", 600},
    {"%0 a: f32[3, 520, 36], %1 b: f32[3, 520, 176]) {\n  %9: f32[3, 36, 176] = matmul(%0, %1, transpose_a=true)", 0},
    {"%0 a: f64[B, 40], %1 b: f64[B, 130]) {\n  %9: f64[40, 130] = matmul(%0, %1, transpose_a=true)", 600},
    {"%0 a: f32[40, 1100], %1 b: f32[40, 330]) {\n  %9: f32[1100, 330] = matmul(%0, %1, transpose_a=true)", 0},
    {"%0 a: f32[B, 1100], %1 b: f32[B, 100]) {\n  %9: f32[1100, 100] = matmul(%0, %1, transpose_a=true)", 33},
    {"%0 a: f64[B, 1024], %1 b: f64[1024, 70]) {\n  %9: f64[B, 70] = matmul(%0, %1)", 130},
    {"%0 a: f64[402, 512], %1 b: f64[402, 80]) {\n  %9: f64[512, 80] = matmul(%0, %1, transpose_a=true)", 0}, /* blocks of 5 x 64 bytes */
    {"%0 a: f32[B, 7, 1100], %1 b: f32[B, 7, 200]) {\n  %9: f32[1100, 200] = dot_general(%0, %1, a_batch=[], b_batch=[], "
     "a_contract=[0, 1], b_contract=[0, 1])",
     12},
    {"%0 a: f32[B, 300], %1 b: f32[B, 300]) {\n  %9: i64[B] = argmax(%0, axes=[1])", 5},
    {"%0 a: f32[70, 333], %1 b: f32[1]) {\n  %9: f32[333, 70] = transpose(%0, permutation=[1, 0])", 0},
    {"%0 a: f32[B, 40], %1 b: f32[B, 24]) {\n  %2: f32[40, 24] = matmul(%0, %1, transpose_a=true)\n  %3: i64[B] = argmax(%0, axes=[1])\n"
     "  %4: f32[40, 24] = scatter_add(%1, %3, size=40)\n  %9: f32[40, 24] = add(%2, %4)",
     70},
};

enum {
    SMALL_CAPACITY = 3,
    MOST_REPLICAS = 16
};

static void succeed(dt_status *status, const char *text) {
    if (status != NULL) fail_msg("%s\n%s", text, dt_status_message(status));
}

/* Up to rounding, which is of the size of what was summed. */
static void compare(const char *text, const char *level, int64_t rows, const dt_tensor *want, const dt_tensor *got) {
    double squares = 0, n = (double)dt_tensor_elements(want);
    for (size_t i = 0; i < dt_tensor_elements(want); i++) squares += dt_tensor_get(want, i) * dt_tensor_get(want, i);
    double tolerance = (want->dtype == DT_F64 ? 1e-12 : 1e-4) * (1 + (n > 0 ? sqrt(squares / n) : 0));
    for (size_t i = 0; i < dt_tensor_elements(want); i++)
        if (!(fabs(dt_tensor_get(want, i) - dt_tensor_get(got, i)) <= tolerance))
            fail_msg("%s\n%s, %lld rows: element %zu is %.9g, the interpreter says %.9g", text, level, (long long)rows, i, dt_tensor_get(got, i),
                     dt_tensor_get(want, i));
}

static void run(const char *text, const dt_compilation *compilation, const dt_function *meaning, compiled_code *code, random_source source,
                int64_t rows, int replicas) {
    dt_arena *arena = dt_arena_create();
    dt_bad_index bad = {0};
    dt_launch launch = {.rows = rows, .valid = rows * replicas, .global_batch = rows * replicas, .replicas = replicas, .bad_index = &bad};
    dt_tensor inputs[2 * MOST_REPLICAS], want, got[MOST_REPLICAS];
    dt_launch launches[MOST_REPLICAS];
    for (int i = 0; i < 2; i++)
        inputs[i] = random_tensor(arena, &source, meaning->inputs.items[i]->dtype, meaning->inputs.items[i]->shape, launch.valid);
    for (int i = 2; i < 2 * replicas; i++) inputs[i] = inputs[i - 2];
    for (int r = 0; r < replicas; r++) launches[r] = launch;
    dt_memory memory = dt_memory_create(arena, compilation->module);
    succeed(dt_interpret(arena, meaning, &launch, inputs, &memory, &want), text);
    succeed(dt_plan_execute(arena, &(dt_plan_run){compilation->plans[0], compiled_run, code, replicas, launches, inputs, &memory, got}), text);
    compare(text, code->level, rows, &want, &got[0]);
    dt_arena_destroy(arena);
}

/* A function of two operands, given from its inputs to its last value; capacity 0: without rows. */
static void check(const char *body, int capacity, uint64_t seed) {
    const char *levels[COMPILED_MOST_LEVELS];
    compiled_code codes[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    dt_arena *arena = dt_arena_create();
    const char *text = product_module(arena, body, capacity > 0 ? capacity : 1);
    dt_compilation compilation = {.arena = arena, .off = 1u << DT_SWITCH_MICROBATCHES};
    dt_module *meaning;
    succeed(dt_module_parse(arena, "m", text, &meaning), text);
    succeed(dt_module_parse(arena, "m", text, &compilation.module), text);
    succeed(dt_passes_run(&compilation, &(dt_passes_options){0}), text);
    succeed(compiled_make(&compilation, levels, n_levels, codes), text);
    const int64_t rows[] = {0, 1, capacity - 1, capacity};
    for (int i = 0; i < n_levels; i++)
        for (int k = capacity == 0 ? 3 : 0; k < 4; k++)
            run(text, &compilation, meaning->functions.items[0], &codes[i], (random_source){seed}, rows[k], 1);
    compiled_free(codes, n_levels);
    dt_arena_destroy(arena);
}

static void large_products_run_alike(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) check(large[i].body, large[i].capacity, i);
}

/* Two reduced loops, of which one goes through the rows of all replicas: however many those are, what the code copies for a block has its place. Each
 * replica has them all as its input. */
static void rows_of_many_replicas_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    static const char text[] = "module m capacity 2\nfile 0 \"m\"\nfunction f step (%0 a: f32[G, 96, 40], %1 b: f32[G, 96, 144]) {\n"
                               "  %9: f32[40, 144] = dot_general(%0, %1, a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1])\n"
                               "  return y=%9\n}\n";
    const char *levels[COMPILED_MOST_LEVELS];
    compiled_code codes[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    dt_arena *arena = dt_arena_create();
    dt_compilation compilation = {.arena = arena};
    succeed(dt_module_parse(arena, "m", text, &compilation.module), text);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) succeed(passes[i](&compilation), text);
    succeed(compiled_make(&compilation, levels, n_levels, codes), text);
    for (int i = 0; i < n_levels; i++)
        run(text, &compilation, compilation.module->functions.items[0], &codes[i], (random_source){1}, 2, MOST_REPLICAS);
    compiled_free(codes, n_levels);
    dt_arena_destroy(arena);
}

static void random_shapes_run_alike(void **state) {
    (void)state;
    const char *only = getenv("DT_SEED"), *count = getenv("DT_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : only ? 1 : 40;
    for (uint64_t seed = first; seed < first + n; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        check(seed % 4 == 0 ? random_product(arena, &source) : random_convolution(arena, &source), SMALL_CAPACITY, seed);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_products_run_alike), cmocka_unit_test(rows_of_many_replicas_run_alike),
                                       cmocka_unit_test(random_shapes_run_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
