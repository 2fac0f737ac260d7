/* codegen_plan: random functions run by the interpreter and as generated code, on each level of this machine. DT_SEED and DT_COUNT rerun one and
 * more of them. */
#include "compiler/passes/passes.h"
#include "tests/support/compiled.h"
#include "tests/support/two_ways.h"

static void random_functions_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
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
            for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2)
                two_ways_run_plan(source, &compilation, rows, compiled_run, &codes[i], dt_arena_format(arena, "code of %s", codes[i].level));
        compiled_free(codes, n_levels);
        dt_arena_destroy(arena);
    }
}

static void pairs_of_rows_run_alike_on_replicas(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_partition, dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    const char *levels[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(20, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + 5000000};
        dt_compilation compilation = {.arena = arena, .module = random_pairs_module(arena, &source, 12 + (int)random_below(&source, 20))};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        dt_status *status = NULL;
        for (size_t i = 0; i < sizeof passes / sizeof *passes && status == NULL; i++) status = passes[i](&compilation);
        compiled_code codes[COMPILED_MOST_LEVELS];
        if (status == NULL) expect_ok(compiled_make(&compilation, levels, n_levels, codes));
        for (int i = 0; i < n_levels && status == NULL; i++)
            for (int64_t valid = 1; valid <= TWO_WAYS_MOST_ROWS; valid += 5)
                two_ways_run_replicas(source, &compilation, valid, compiled_run, &codes[i], dt_arena_format(arena, "code of %s", codes[i].level));
        if (status == NULL)
            compiled_free(codes, n_levels);
        else
            assert_int_equal(dt_status_code(status), DT_UNIMPLEMENTED); /* all pairs on every replica */
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_functions_run_alike), cmocka_unit_test(pairs_of_rows_run_alike_on_replicas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
