/* changes: functions whose choices are changed at random, as far as that is allowed, run in all ways that there are. */
#ifndef DT_TESTS_OPS_CHANGES_H
#define DT_TESTS_OPS_CHANGES_H

#include "ir/text_form.h"
#include "tests/ops/same_bits_programs.h"
#include "tests/support/random_choices.h"
#include "tests/support/random_products.h"

/* A random function, or a product or convolution. */
static inline dt_compilation changed_compilation(dt_arena *arena, random_source *source, uint64_t seed) {
    if (seed % 2 == 0) return random_compilation(arena, source, seed / 2);
    dt_compilation compilation = {.arena = arena, .off = 1u << DT_SWITCH_MICROBATCHES};
    const char *body = seed % 8 == 1 ? random_product(arena, source) : random_convolution(arena, source);
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
    s.random = source;
    int n_changes = random_changes(arena, &source, choices, 4);
    if (getenv("DT_SEED") != NULL) {
        dt_text text = {.arena = arena};
        for (int p = 0; p < compilation.n_plans; p++) dt_plan_print(&text, compilation.plans[p], choices);
        puts(text.data);
    }
    same_bits_add_naive(&s, choices);
    same_bits_add_llvm(&s, DT_LEVEL_V3, choices);
    if (strcmp(level, DT_LEVEL_V4) == 0 && dt_cpu_level() >= 4) same_bits_add_llvm(&s, DT_LEVEL_V4, choices);
    same_bits_add_c(&s, DT_LEVEL_V3, choices);
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
    for (uint64_t seed = two_ways_seeds(n, &end); seed < end; seed++) n_changes += run_changed(seed, seed / 2 % 2 == 0 ? DT_LEVEL_V3 : DT_LEVEL_V4);
    print_message("%d changes were allowed\n", n_changes);
    assert_true(n_changes > 0);
}

#endif
