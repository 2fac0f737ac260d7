/* cuda_changes: functions whose choices for a GPU are changed at random, as far as that is allowed, read back from their text, and run by emulation.
 */
#ifndef DT_TESTS_OPS_CUDA_CHANGES_H
#define DT_TESTS_OPS_CUDA_CHANGES_H

#include "base/cpu.h"
#include "compiler/kernel/plan_text.h"
#include "ir/text_form.h"
#include "tests/support/emulated.h"
#include "tests/support/random_gpu_choices.h"
#include "tests/support/random_products.h"
#include "tests/support/two_ways.h"

/* What random functions have too little of: from a function's inputs to its last value. */
static const char *const changed_bodies[] = {
    "%0 a: f32[90, 37], %1 b: i32[90]) {\n  %9: f32[7, 37] = scatter_add(%0, %1, axis=0, size=7)",
    "%0 a: f32[B, 24], %1 b: i64[B]) {\n  %9: f32[5, 24] = scatter_add(%0, %1, size=5)",
    "%0 a: f32[40, 130], %1 b: f32[130, 32]) {\n  %9: f32[40, 32] = matmul(%0, %1, precision=\"bf16\")",
    "%0 a: f32[48, 64], %1 b: f32[64, 96]) {\n  %9: f32[48, 96] = matmul(%0, %1, precision=\"tf32\")",
    "%0 a: f32[B, 24, 40], %1 b: f32[B, 40, 24]) {\n  %9: f32[B, 24, 24] = matmul(%0, %1, precision=\"tf32\")",
    "%0 a: f32[3, 20, 40], %1 b: f32[3, 40, 24]) {\n  %9: f32[3, 20, 24] = matmul(%0, %1)",
    "%0 a: f32[B, 300], %1 b: f32[B]) {\n  %9: f32[B] = reduce_sum(%0, axes=[1])",
    "%0 a: u8[3, B, 9], %1 b: f32[1]) {\n  %9: i64[3] = argmin(%0, axes=[1, 2])",
    "%0 a: f32[B, 40], %1 b: f32[B, 40]) {\n  %9: f32[B, 40] = add(%0, %1)",
    "%0 a: bf16[B, 67], %1 b: bf16[B, 67]) {\n  %9: bf16[B] = reduce_sum(%0, axes=[1])",
    "%0 a: f32[B, 4, 4, 10], %1 b: f32[1]) {\n  %9: f32[B, 6, 6, 10] = sum_pool2d_gradient(%0, input=[6, 6], size=[3, 3], strides=[1, 1])",
};

/* The same product of factors that are rounded, or not. */
static inline const char *rounded(dt_arena *arena, const char *product, uint64_t which) {
    static const char *const precisions[] = {"f32", "tf32", "bf16"};
    return dt_arena_format(arena, "%.*s, precision=\"%s\")", (int)strlen(product) - 1, product, precisions[which % 3]);
}

static inline dt_compilation changed_gpu_compilation(dt_arena *arena, random_source *source, uint64_t seed) {
    dt_compilation compilation = {.arena = arena, .target = seed % 7 == 0 ? DT_TARGET_WARPS_OF_64 : DT_TARGET_CUDA};
    if (seed % 4 == 0) {
        compilation.module = random_module(arena, source, 12 + (int)random_below(source, 30));
    } else {
        const char *body = seed % 4 == 1   ? rounded(arena, random_product(arena, source), seed / 4)
                           : seed % 4 == 2 ? random_convolution(arena, source)
                                           : changed_bodies[seed / 4 % (sizeof changed_bodies / sizeof *changed_bodies)];
        expect_ok(dt_module_parse(arena, "m", product_module(arena, body, RANDOM_CAPACITY), &compilation.module));
    }
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    return compilation;
}

/* Plans and choices as their text has them, which is the same once they are read. */
static inline const dt_gpu_choices *read_back(const dt_compilation *compilation, const dt_gpu_choices *choices) {
    dt_arena *arena = compilation->arena;
    dt_text text = {.arena = arena}, again = {.arena = arena};
    dt_plan_sets sets;
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan_print(arena, &text, compilation->plans[p], NULL);
        dt_gpu_choices_print(&text, choices, p);
    }
    if (getenv("DT_SEED") != NULL && getenv("DT_COUNT") == NULL) puts(text.data);
    expect_ok(dt_plans_parse(arena, "changed.plan", text.data, &sets));
    dt_plan_sets_print(arena, &again, &sets);
    assert_string_equal(again.data, text.data);
    assert_int_equal(sets.n, 1);
    return sets.items[0].gpu_choices;
}

static inline int run_gpu_changes(uint64_t seed) {
    dt_arena *arena = dt_arena_create();
    random_source source = {seed};
    dt_compilation compilation = changed_gpu_compilation(arena, &source, seed);
    dt_gpu_choices *choices;
    emulated_code code;
    print_message("DT_SEED=%llu\n", (unsigned long long)seed);
    expect_ok(dt_passes_choose_gpu(&compilation, &choices));
    int n_changes = random_gpu_changes(arena, &source, choices, seed % 4 == 0 ? 8 : 60);
    expect_ok(emulated_make_chosen(arena, read_back(&compilation, choices), &code, NULL));
    for (code.how = 0; code.how < EMULATED_WAYS; code.how++)
        for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2)
            two_ways_run_plan(source, &compilation, rows, emulated_run, &code, dt_arena_format(arena, "threads in order %d", code.how));
    if (code.message[0] != 0) fail_msg("%s", code.message);
    emulated_free(&code);
    dt_arena_destroy(arena);
    return n_changes;
}

/* Seeds from 1 to n, or those that DT_SEED and DT_COUNT name. */
static inline void change_gpu_choices_at_random(uint64_t n) {
    uint64_t end;
    int n_changes = 0;
    for (uint64_t seed = two_ways_seeds(n, &end); seed < end; seed++) n_changes += run_gpu_changes(seed);
    print_message("%d changes were allowed\n", n_changes);
    assert_true(n_changes > 0);
}

#endif
