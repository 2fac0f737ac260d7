/* changes: functions whose choices are changed at random, as far as that is allowed, run in all ways that there are. */
#ifndef DT_TESTS_OPS_CHANGES_H
#define DT_TESTS_OPS_CHANGES_H

#include "ir/text_form.h"
#include "tests/ops/same_bits_programs.h"
#include "tests/support/random_choices.h"
#include "tests/support/random_products.h"

/* What random functions have too little of: from a function's inputs to its last value. */
static const char *const rare_nests[] = {
    "%0 a: f32[B, 6, 7], %1 b: f32[1]) {\n  %9: i64[B] = argmax(%0, axes=[1, 2])",
    "%0 a: u8[3, B, 9], %1 b: f32[1]) {\n  %9: i64[3] = argmin(%0, axes=[1, 2])",
    ("%0 a: f32[B, 5, 9], %1 b: f32[1]) {\n  %2: i64[B] = argmax(%0, axes=[1, 2])\n  %3: f32[B] = reduce_max(%0, axes=[1, 2])\n"
     "  %4: f32[B] = convert(%2, to=f32)\n  %9: f32[B] = add(%3, %4)"),
    "%0 a: f64[B, 67], %1 b: f32[1]) {\n  %9: f16[B, 67] = convert(%0, to=f16)",
    ("%0 a: f32[B, 45], %1 b: f32[1]) {\n  %2: f32[B, 45] = constant(value=0.125, shape=[-1, 45], dtype=f32)\n"
     "  %3: f32[B, 45] = multiply(%0, %2)\n  %4: f32[B, 45] = round(%3)\n  %5: i64[B] = argmax(%4, axes=[1])\n"
     "  %6: f32[B] = reduce_max(%4, axes=[1])\n  %7: f32[B] = convert(%5, to=f32)\n  %8: f32[B] = subtract(%6, %7)\n"
     "  %10: f32[B] = constant(value=1.0, shape=[-1], dtype=f32)\n  %11: f32[B] = divide(%10, %6)\n  %9: f32[B] = add(%8, %11)"),
    ("%0 a: f32[B, 45], %1 b: f32[1]) {\n  %2: f32[B, 45] = constant(value=0.125, shape=[-1, 45], dtype=f32)\n"
     "  %3: f32[B, 45] = multiply(%0, %2)\n  %4: f32[B, 45] = round(%3)\n"
     "  %5: f32[B, 45] = constant(value=0.0, shape=[-1, 45], dtype=f32)\n  %9: f32[B, 45] = maximum(%4, %5)"),
    "%0 a: f32[3, 20, 40], %1 b: f32[3, 40, 24]) {\n  %9: f32[3, 20, 24] = matmul(%0, %1)",
    "%0 a: f32[5, B], %1 b: f32[20, B]) {\n  %9: f32[5, 20] = matmul(%0, %1, transpose_b=true)",
    "%0 a: f32[B, 37, 3], %1 b: f32[B, 37, 3]) {\n  %2: f32[B, 37, 3] = multiply(%0, %1)\n  %9: f32[3] = reduce_sum(%2, axes=[0, 1])",
    "%0 a: bf16[B, 67], %1 b: bf16[B, 67]) {\n  %9: bf16[B] = reduce_sum(%0, axes=[1])",
    "%0 a: f16[9, 67], %1 b: f16[67, 20]) {\n  %9: f16[9, 20] = matmul(%0, %1)",
    "%0 a: f32[B, 5, 150], %1 b: f32[150, 24]) {\n  %9: f32[B, 5, 24] = matmul(%0, %1)",
    "%0 a: f32[40, 130], %1 b: f32[130, 33]) {\n  %9: f32[40, 33] = matmul(%0, %1, precision=\"bf16\")",
    "%0 a: f64[60, 30], %1 b: f64[60, 18]) {\n  %9: f64[30, 18] = matmul(%0, %1, transpose_a=true)",
    ("%0 a: f32[B, 7, 40], %1 b: f32[B, 7, 24]) {\n  %9: f32[40, 24] = dot_general(%0, %1, a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, "
     "1])"),
    "%0 a: f32[B, 8, 8, 16, 1], %1 b: f32[3, 3, 1, 16, 1]) {\n  %9: f32[B, 6, 6, 16, 1] = conv2d(%0, %1)",
    "%0 a: f32[B, 24], %1 b: i64[B]) {\n  %9: f32[5, 24] = scatter_add(%0, %1, size=5)",
    "%0 a: f32[B, 4, 4, 10], %1 b: f32[1]) {\n  %9: f32[B, 6, 6, 10] = sum_pool2d_gradient(%0, input=[6, 6], size=[3, 3], strides=[1, 1])",
    "%0 a: f32[B, 9, 9, 1], %1 b: f32[1]) {\n  %9: f32[B, 11, 11, 1] = sum_pool2d_gradient(%0, input=[11, 11], size=[3, 3], strides=[1, 1])",
    "%0 a: f32[B, 9, 9, 1], %1 b: f32[3, 3, 1, 1]) {\n  %9: f32[B, 11, 11, 1] = conv2d_input_gradient(%0, %1, size=[11, 11])",
    "%0 a: f32[B, 4, 4, 9], %1 b: f32[3, 3, 11, 9]) {\n  %9: f32[B, 6, 6, 11] = conv2d_input_gradient(%0, %1, size=[6, 6])",
    "%0 a: f32[B, 0], %1 b: f32[0, 20]) {\n  %9: f32[B, 20] = matmul(%0, %1)",
    "%0 a: f32[33, 0], %1 b: f32[0, 20]) {\n  %9: f32[33, 20] = matmul(%0, %1)",
    "%0 a: f32[B, 9], %1 b: f32[B, 20]) {\n  %9: f32[B, 9, 20] = dot_general(%0, %1, a_batch=[0], b_batch=[0], a_contract=[], b_contract=[])",
    "%0 a: f32[B, 40], %1 b: f32[B, 24]) {\n  %9: f32[40, 24] = matmul(%0, %1, transpose_a=true)",
    "%0 a: f32[B, 1, 6], %1 b: f32[B, 1, 9]) {\n  %9: f32[B, 6, 9] = matmul(%0, %1, transpose_a=true)",
};

/* A random function, a product or convolution, or what is rare. */
static inline dt_compilation changed_compilation(dt_arena *arena, random_source *source, uint64_t seed) {
    if (seed % 2 == 0) return random_compilation(arena, source, seed / 2);
    dt_compilation compilation = {.arena = arena, .off = 1u << DT_SWITCH_MICROBATCHES};
    const char *body = seed % 8 == 1   ? random_product(arena, source)
                       : seed % 8 == 5 ? random_convolution(arena, source)
                                       : rare_nests[seed / 4 % (sizeof rare_nests / sizeof *rare_nests)];
    expect_ok(dt_module_parse(arena, "m", product_module(arena, body, RANDOM_CAPACITY), &compilation.module));
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    return compilation;
}

static inline int run_changed(uint64_t seed, const char *level) {
    dt_arena *arena = dt_arena_create();
    random_source source = {seed};
    dt_compilation compilation = changed_compilation(arena, &source, seed);
    dt_choices *choices = dt_pass_choose(arena, (const dt_plan *const *)compilation.plans, compilation.n_plans, dt_cpu_target_find(level));
    same_bits s = same_bits_make(dt_arena_format(arena, "DT_SEED=%llu, choices for %s", (unsigned long long)seed, level), &compilation);
    s.has_edges = seed % 5 == 0;
    s.is_coarse = random_below(&source, 3) == 0;
    s.random = source;
    int n_changes = random_changes(arena, &source, choices, seed % 2 == 0 ? 4 : 12);
    if (getenv("DT_SEED") != NULL && getenv("DT_COUNT") == NULL) {
        dt_text text = {.arena = arena};
        for (int p = 0; p < compilation.n_plans; p++) dt_plan_print(arena, &text, compilation.plans[p], choices);
        puts(text.data);
    }
    same_bits_add_naive(&s, choices);
    same_bits_add_llvm(&s, DT_LEVEL_V3, choices);
    if (strcmp(level, DT_LEVEL_V4) == 0 && dt_cpu_level() >= 4) same_bits_add_llvm(&s, DT_LEVEL_V4, choices);
    same_bits_add_c(&s, DT_LEVEL_V3, choices);
    if (s.is_coarse) same_bits_add_plan(&s, 1e-5);
    same_bits_set_variables(&s);
    for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2) same_bits_step(&s, 0, 6, 1, rows);
    same_bits_free(&s);
    dt_arena_destroy(arena);
    return n_changes;
}

/* Seeds from 1 to n, or those that DT_SEED and DT_COUNT name, with choices for each level in turn. */
static inline void change_at_random(uint64_t n) {
    uint64_t end;
    int n_changes = 0;
    for (uint64_t seed = two_ways_seeds(n, &end); seed < end; seed++) n_changes += run_changed(seed, seed / 8 % 2 == 0 ? DT_LEVEL_V3 : DT_LEVEL_V4);
    print_message("%d changes were allowed\n", n_changes);
    assert_true(n_changes > 0);
}

#endif
