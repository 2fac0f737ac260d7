/* codegen_plan: random functions run by the interpreter and as generated code, on each level of this machine. DT_SEED and DT_COUNT rerun one and
 * more of them. */
#include "compiler/passes/passes.h"
#include "tests/support/compiled.h"
#include "tests/support/two_ways.h"

enum {
    CAPACITY = 4
};

static void run_level(random_source source, const dt_compilation *compilation, compiled_code *code, int64_t rows) {
    dt_arena *arena = dt_arena_create();
    dt_launch launch = {
        .rows = rows, .valid = rows, .global_batch = CAPACITY, .replicas = 1, .epochs = 3, .steps_per_epoch = 5, .counter = 6, .seed = 7};
    two_ways ways = two_ways_make(arena, &source, compilation, 1, &launch);
    expect_ok(dt_interpret(arena, ways.function, ways.launches[0], ways.inputs, &ways.memories[0], ways.results[0]));
    expect_ok(
        dt_plan_execute_with(arena, compilation->plans[0], compiled_run, code, 1, ways.launches[1], ways.inputs, &ways.memories[1], ways.results[1]));
    two_ways_compare(&ways, dt_arena_format(arena, "code of %s", code->level));
    dt_arena_destroy(arena);
}

static void random_functions_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_plan_memory};
    const char *levels[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(20, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena, .module = random_module(arena, &source, 12 + (int)random_below(&source, 30))};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) expect_ok(passes[i](&compilation));
        compiled_code codes[COMPILED_MOST_LEVELS];
        expect_ok(compiled_make(&compilation, levels, n_levels, codes));
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
