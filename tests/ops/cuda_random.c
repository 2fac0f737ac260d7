/* cuda_random: random functions run by the interpreter and as CUDA text by emulation, in every order of threads. What shares a launch with what is
 * found out from addresses alone; these functions have more kinds of sharing than programs do. DT_SEED and DT_COUNT rerun one and more of them. */
#include "base/cpu.h"
#include "compiler/passes/passes.h"
#include "tests/support/emulated.h"
#include "tests/support/two_ways.h"

enum {
    SEEDS = 20
};

static void random_functions_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(SEEDS, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena, .target = DT_TARGET_CUDA};
        compilation.module = random_module(arena, &source, 12 + (int)random_below(&source, 30));
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) expect_ok(passes[i](&compilation));
        emulated_code code;
        expect_ok(emulated_make(&compilation, &code));
        for (code.how = 0; code.how < EMULATED_WAYS; code.how++)
            for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2)
                two_ways_run_plan(source, &compilation, rows, emulated_run, &code, dt_arena_format(arena, "threads in order %d", code.how));
        emulated_free(&code);
        dt_arena_destroy(arena);
    }
}

static void pairs_of_rows_run_alike_on_replicas(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_partition,        dt_pass_fuse,       dt_pass_schedule, dt_pass_late_writes,
                                              dt_pass_split_reductions, dt_pass_plan_memory};
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(SEEDS, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + 6000000};
        dt_compilation compilation = {.arena = arena, .target = DT_TARGET_CUDA};
        compilation.module = random_pairs_module(arena, &source, 12 + (int)random_below(&source, 20));
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        dt_status *status = NULL;
        for (size_t i = 0; i < sizeof passes / sizeof *passes && status == NULL; i++) status = passes[i](&compilation);
        emulated_code code;
        if (status == NULL) expect_ok(emulated_make(&compilation, &code));
        for (code.how = 0; code.how < EMULATED_WAYS && status == NULL; code.how++)
            for (int64_t valid = 1; valid <= TWO_WAYS_MOST_ROWS; valid += 5)
                two_ways_run_replicas(source, &compilation, valid, emulated_run, &code, dt_arena_format(arena, "threads in order %d", code.how));
        if (status == NULL)
            emulated_free(&code);
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
