/* Plans mean what the graph means: random functions run by the interpreter and, after fuse, schedule and plan_memory, kernel by kernel. */
#include "compiler/kernel/execute.h"
#include "compiler/passes/passes.h"
#include "tests/support/two_ways.h"

static void run_passes(dt_compilation *compilation) {
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        expect_ok(passes[i](compilation));
        for (int p = 0; p < compilation->n_plans; p++) expect_ok(dt_plan_verify(compilation->plans[p]));
    }
}

static void run_both(dt_arena *arena, random_source *source, dt_compilation *compilation, int64_t rows) {
    dt_launch launch = {.rows = rows, .valid = rows, .global_batch = 4, .replicas = 1, .epochs = 3, .steps_per_epoch = 5, .counter = 6, .seed = 7};
    two_ways ways = two_ways_make(arena, source, compilation, 1, &launch);
    expect_ok(dt_interpret(arena, ways.function, ways.launches[0], ways.inputs, &ways.memories[0], ways.results[0]));
    expect_ok(dt_plan_execute(
        arena, &(dt_plan_run){compilation->plans[0], NULL, NULL, 1, ways.launches[1], ways.inputs, &ways.memories[1], ways.results[1]}));
    two_ways_compare(&ways, "plan");
}

static void random_functions_run_alike(void **state) {
    (void)state;
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(150, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = {.arena = arena, .module = random_module(arena, &source, 12 + (int)random_below(&source, 30))};
        if (seed % 2 == 0) compilation.off = random_below(&source, 1u << DT_N_SWITCHES); /* whatever is switched off, the meaning stays */
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        run_passes(&compilation);
        if (getenv("DT_SEED") && !getenv("DT_COUNT")) two_ways_show(&compilation);
        for (int64_t rows = 0; rows <= 4; rows += 2) run_both(arena, &source, &compilation, rows);
        dt_arena_destroy(arena);
    }
}

/* ---- several replicas ---- */

/* In more dimensions than the outermost in memory: another one would need a stride that is known at launch only. */
static bool is_gathered_twice(const dt_module *module) {
    for (const dt_value *value = module->functions.items[0]->first; value != NULL; value = value->next)
        if (dt_shape_count(value->shape, DT_GATHERED) > 1) return true;
    return false;
}

static void run_naively(void *arena, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    dt_kernel_execute(arena, plan, &plan->kernels[kernel], NULL, buffers, launch);
}

/* Returns whether there is a plan. */
static bool run_alike_on_replicas(dt_arena *arena, random_source source, dt_module *module) {
    dt_compilation compilation = {.arena = arena, .module = module};
    expect_ok(dt_pass_partition(&compilation));
    bool has_plan = !is_gathered_twice(module);
    if (has_plan) {
        run_passes(&compilation);
        if (getenv("DT_SEED") && !getenv("DT_COUNT")) two_ways_show(&compilation);
        for (int64_t valid = 1; valid <= TWO_WAYS_MOST_ROWS; valid += 5)
            two_ways_run_replicas(source, &compilation, valid, run_naively, arena, "plan");
    } else {
        dt_status *status = dt_pass_fuse(&compilation);
        assert_int_equal(dt_status_code(status), DT_UNIMPLEMENTED);
        dt_status_free(status);
    }
    return has_plan;
}

static void random_functions_run_alike_on_replicas(void **state) {
    (void)state;
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(100, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + 1000000};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        dt_module *module = random_module(arena, &source, 12 + (int)random_below(&source, 20));
        run_alike_on_replicas(arena, source, module);
        dt_arena_destroy(arena);
    }
}

static void pairs_of_rows_run_alike_on_replicas(void **state) {
    (void)state;
    uint64_t end, first = two_ways_seeds(100, &end), n_run = 0;
    for (uint64_t seed = first; seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + 2000000};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        dt_module *module = random_pairs_module(arena, &source, 12 + (int)random_below(&source, 20));
        n_run += run_alike_on_replicas(arena, source, module);
        dt_arena_destroy(arena);
    }
    assert_true(getenv("DT_SEED") != NULL || n_run > (end - first) / 4);
}

/* ---- sums of products, on purpose ---- */

/* A function of one op over g [B, 3, 4, 5] and w [3, 2, 6, 5]: the gradient of a convolution's input, by `attributes`. */
static dt_module *one_product(dt_arena *arena, const char *attributes) {
    static const char text[] = "module m capacity 4\nfile 0 \"m.dt\"\nvariable \"w\": f64[3, 2, 6, 5] parameter trainable @0:1:1\n"
                               "function step step (%%0 g: f64[B, 3, 4, 5] @0:1:1) {\n  %%1: f64[3, 2, 6, 5] = read(variable=\"w\") @0:1:1\n"
                               "  %%2: f64[B, %d, %d, 6] = conv2d_input_gradient(%%0, %%1, %s) @0:1:1\n  return y=%%2\n}\n";
    int height, width;
    dt_module *module;
    assert_int_equal(sscanf(attributes, "size=[%d, %d]", &height, &width), 2);
    expect_ok(dt_module_parse(arena, "m.ir", dt_arena_format(arena, text, height, width, attributes), &module));
    return module;
}

static void products_read_outside_or_are_spread(void **state) {
    (void)state;
    static const struct {
        const char *attributes;
        bool spread; /* no window leaves the image, so no border is laid out */
    } cases[] = {{"size=[5, 5]", true},
                 {"size=[7, 8], strides=[2, 2]", false}, /* with strides: one product for each phase */
                 {"size=[8, 9], strides=[2, 2]", false},
                 {"size=[9, 11], strides=[3, 3]", true}, /* each place of g is read by one tap of each phase */
                 {"size=[7, 7], dilation=[2, 3]", true},
                 {"size=[3, 3], padding=[1, 1, 1, 1]", false},
                 {"size=[6, 7], strides=[2, 2], padding=[1, 0, 1, 0]", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {i};
        dt_compilation compilation = {.arena = arena, .module = one_product(arena, cases[i].attributes)};
        run_passes(&compilation);
        bool border = false, tiled = false;
        for (int n = 0; n < compilation.plans[0]->kernels[0].n_nests; n++) {
            const dt_nest *nest = &compilation.plans[0]->kernels[0].nests[n];
            border |= nest->in_rows && nest->note != NULL && strcmp(nest->note, "pack") == 0;
            tiled |= nest->algorithm != DT_ALGORITHM_LOOPS;
        }
        assert_true(tiled);
        assert_int_equal(border, !cases[i].spread);
        for (int64_t rows = 0; rows <= 4; rows += 2) run_both(arena, &source, &compilation, rows);
        dt_arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_read_outside_or_are_spread), cmocka_unit_test(random_functions_run_alike),
                                       cmocka_unit_test(random_functions_run_alike_on_replicas),
                                       cmocka_unit_test(pairs_of_rows_run_alike_on_replicas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
