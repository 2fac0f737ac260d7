/* cuda_random: random functions run by the interpreter and as CUDA text by emulation, in every order of threads. What shares a launch with what is
 * found out from addresses alone; these functions have more kinds of sharing than programs do. DT_SEED and DT_COUNT rerun one and more of them. */
#include "base/cpu.h"
#include "compiler/passes/passes.h"
#include "tests/support/emulated.h"
#include "tests/support/two_ways.h"

enum {
    CAPACITY = 4,
    SEEDS = 20
};

static void run_order(random_source source, const dt_compilation *compilation, emulated_code *code, int64_t rows) {
    dt_arena *arena = dt_arena_create();
    dt_launch launch = {
        .rows = rows, .valid = rows, .global_batch = CAPACITY, .replicas = 1, .epochs = 3, .steps_per_epoch = 5, .counter = 6, .seed = 7};
    two_ways ways = two_ways_make(arena, &source, compilation, 1, &launch);
    expect_ok(dt_interpret(arena, ways.function, ways.launches[0], ways.inputs, &ways.memories[0], ways.results[0]));
    expect_ok(
        dt_plan_execute_with(arena, compilation->plans[0], emulated_run, code, 1, ways.launches[1], ways.inputs, &ways.memories[1], ways.results[1]));
    if (code->message[0] != 0) fail_msg("%s", code->message);
    two_ways_compare(&ways, dt_arena_format(arena, "threads in order %d", code->how));
    dt_arena_destroy(arena);
}

static void random_functions_run_alike(void **state) {
    (void)state;
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_plan_memory};
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
            for (int64_t rows = 0; rows <= CAPACITY; rows += 2) run_order(source, &compilation, &code, rows);
        emulated_free(&code);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_functions_run_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
