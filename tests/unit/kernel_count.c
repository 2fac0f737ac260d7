/* What the compiler says of a kernel's work: the flops of products, of maps and reductions, and the bytes that must cross its border. */
#include "compiler/kernel/count.h"
#include "compiler/passes/passes.h"
#include "ir/text_form.h"
#include "tests/support/expect.h"

/* All kernels of the module's first function together. */
static dt_kernel_count count_of(dt_arena *arena, const char *text) {
    dt_compilation compilation = {.arena = arena};
    dt_kernel_count all = {0};
    expect_ok(dt_module_parse(arena, "count.ir", text, &compilation.module));
    expect_ok(dt_pass_fuse(&compilation));
    expect_ok(dt_pass_schedule(&compilation));
    expect_ok(dt_pass_plan_memory(&compilation));
    for (int k = 0; k < compilation.plans[0]->n_kernels; k++) {
        dt_kernel_count count = dt_kernel_count_of(arena, compilation.plans[0], &compilation.plans[0]->kernels[k]);
        all.flops.per_row += count.flops.per_row;
        all.flops.per_pair += count.flops.per_pair;
        all.flops.fixed += count.flops.fixed;
        all.bytes.per_row += count.bytes.per_row;
        all.bytes.per_pair += count.bytes.per_pair;
        all.bytes.fixed += count.bytes.fixed;
    }
    return all;
}

static void assert_count(const char *text, dt_kernel_count wanted) {
    dt_arena *arena = dt_arena_create();
    dt_kernel_count found = count_of(arena, text);
    assert_true(found.flops.per_row == wanted.flops.per_row);
    assert_true(found.flops.per_pair == wanted.flops.per_pair);
    assert_true(found.flops.fixed == wanted.flops.fixed);
    assert_true(found.bytes.per_row == wanted.bytes.per_row);
    assert_true(found.bytes.per_pair == wanted.bytes.per_pair);
    assert_true(found.bytes.fixed == wanted.bytes.fixed);
    dt_arena_destroy(arena);
}

static void a_product_counts_two(void **state) {
    (void)state;
    assert_count("module m capacity 64\n"
                 "function f step (%0 x: f32[6, 16], %1 y: f32[16, 10]) {\n"
                 "  %2: f32[6, 10] = matmul(%0, %1, transpose_a=false, transpose_b=false)\n"
                 "  return y=%2\n"
                 "}\n",
                 (dt_kernel_count){.flops.fixed = 2 * 6 * 10 * 16, .bytes.fixed = 4 * (6 * 16 + 16 * 10 + 6 * 10)});
}

static void rows_count_apart(void **state) {
    (void)state;
    assert_count("module m capacity 64\n"
                 "function f step (%0 x: f32[B, 16], %1 y: f32[16, 10]) {\n"
                 "  %2: f32[B, 10] = matmul(%0, %1, transpose_a=false, transpose_b=false)\n"
                 "  return y=%2\n"
                 "}\n",
                 (dt_kernel_count){.flops.per_row = 2 * 10 * 16, .bytes.per_row = 4 * (16 + 10), .bytes.fixed = 4 * 16 * 10});
}

static void pairs_of_rows_count_apart(void **state) {
    (void)state;
    assert_count("module m capacity 64\n"
                 "function f step (%0 x: f32[B, 16], %1 y: f32[B, 16]) {\n"
                 "  %2: f32[B, B] = matmul(%0, %1, transpose_a=false, transpose_b=true)\n"
                 "  return y=%2\n"
                 "}\n",
                 (dt_kernel_count){.flops.per_pair = 2 * 16, .bytes.per_row = 4 * (16 + 16), .bytes.per_pair = 4});
}

/* Outside of the reduced loop: the square root of each sum, not of each term. */
static void a_level_counts_its_own_iterations(void **state) {
    (void)state;
    assert_count("module m capacity 64\n"
                 "function f step (%0 x: f64[B, 8]) {\n"
                 "  %1: f64[B, 8] = multiply(%0, %0)\n"
                 "  %2: f64[B] = reduce_sum(%1, axes=[1], keep=false)\n"
                 "  %3: f64[B] = sqrt(%2)\n"
                 "  return y=%3\n"
                 "}\n",
                 (dt_kernel_count){.flops.per_row = 2 * 8 + 1, .bytes.per_row = 8 * (8 + 1)});
}

static void integers_count_bytes_alone(void **state) {
    (void)state;
    assert_count("module m capacity 64\n"
                 "function f step (%0 x: i32[B, 8], %1 y: i32[B, 8]) {\n"
                 "  %2: i32[B, 8] = add(%0, %1)\n"
                 "  return y=%2\n"
                 "}\n",
                 (dt_kernel_count){.bytes.per_row = 4 * 3 * 8});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_counts_two),       cmocka_unit_test(pairs_of_rows_count_apart),
        cmocka_unit_test(rows_count_apart),           cmocka_unit_test(a_level_counts_its_own_iterations),
        cmocka_unit_test(integers_count_bytes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
