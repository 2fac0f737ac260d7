/* codegen_c: examples and random functions as C, with the bits of LLVM's code; see codegen_c.h. */
#include "tests/ops/codegen_c.h"
#include "compiler/passes/passes.h"
#include "tests/support/two_ways.h"

enum {
    SEEDS = 50
};

static void small_examples(void **state) {
    (void)state;
    run_program("examples/perceptron", 8, 2, DT_LEVEL_V3);
    run_program("examples/fashion_cnn", 8, 1, DT_LEVEL_V3);
    run_program("examples/own_parts", 8, 1, DT_LEVEL_V3);
    if (dt_cpu_level() >= 4) run_program("examples/fashion_cnn", 8, 1, DT_LEVEL_V4);
}

static void random_functions(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(SEEDS, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena};
        compilation.module = random_module(arena, &source, 12 + (int)random_below(&source, 30));
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) expect_ok(passes[i](&compilation));
        printed_c p = printed_c_make(dt_arena_format(arena, "DT_SEED=%llu", (unsigned long long)seed), &compilation, DT_LEVEL_V3);
        for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2) printed_c_step(&p, 0, 6, 1, rows);
        printed_c_free(&p);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_examples), cmocka_unit_test(random_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
