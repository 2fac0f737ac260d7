/* shard: a step of one shard, run for all shards of all replicas side by side, means what the step as written means over the global batch: by the
 * interpreter, as a plan that runs naively, and as code. */
#include "tests/support/compiled.h"
#include "tests/support/two_ways.h"

enum {
    ROWS = 5,
    REPLICAS = 2
};

/* Attention over heads that shards have, in three groups side by side; a net of columns, then rows; dropout in what is split; norms of gradients,
 * which all shards have a part of; a sum and a greatest of it, of what would be neither if padding took part; positions along it. Shards cannot share
 * some WIDTHs evenly. */
static const char STEP[] = "variable \"qkv\": f32[8, 24] parameter trainable shard(axis=1, groups=3) @0:1:1\n"
                           "variable \"qkv_bias\": f32[24] parameter trainable shard(axis=0, groups=3) @0:1:1\n"
                           "variable \"out\": f32[8, 8] parameter trainable shard(axis=0, groups=1) @0:1:1\n"
                           "variable \"up\": f32[8, WIDTH] parameter trainable shard(axis=1, groups=1) @0:1:1\n"
                           "variable \"down\": f32[WIDTH, 8] parameter trainable shard(axis=0, groups=1) @0:1:1\n"
                           "variable \"scale\": f32[8] parameter trainable @0:1:1\n"
                           "variable \"norm\": f32 state @0:1:1\n"
                           "function f step (%0 x: f32[B, 3, 8] @0:1:1, %1 seen: f32[B] @0:1:1) {\n"
                           "  %2: f32[8, 24] = read(variable=\"qkv\")\n"
                           "  %3: f32[B, 3, 24] = matmul(%0, %2)\n"
                           "  %4: f32[24] = read(variable=\"qkv_bias\")\n"
                           "  %5: f32[B, 3, 24] = broadcast(%4, shape=[B, 3, 24], dims=[2])\n"
                           "  %6: f32[B, 3, 24] = add(%3, %5)\n"
                           "  %7: f32[B, 3, 8] = slice(%6, starts=[0, 0, 0], limits=[B, 3, 8])\n"
                           "  %8: f32[B, 3, 8] = slice(%6, starts=[0, 0, 8], limits=[B, 3, 16])\n"
                           "  %9: f32[B, 3, 8] = slice(%6, starts=[0, 0, 16], limits=[B, 3, 24])\n"
                           "  %10: f32[B, 3, 4, 2] = reshape(%7, shape=[B, 3, 4, 2])\n"
                           "  %11: f32[B, 3, 4, 2] = reshape(%8, shape=[B, 3, 4, 2])\n"
                           "  %12: f32[B, 3, 4, 2] = reshape(%9, shape=[B, 3, 4, 2])\n"
                           "  %13: f32[B, 4, 3, 2] = transpose(%10, permutation=[0, 2, 1, 3])\n"
                           "  %14: f32[B, 4, 2, 3] = transpose(%11, permutation=[0, 2, 3, 1])\n"
                           "  %15: f32[B, 4, 3, 2] = transpose(%12, permutation=[0, 2, 1, 3])\n"
                           "  %16: f32[B, 4, 3, 3] = matmul(%13, %14)\n"
                           "  %17: f32[B, 4, 3, 3] = exp(%16)\n"
                           "  %18: f32[B, 4, 3, 3] = random_uniform(shape=[B, 4, 3, 3], stream=5)\n"
                           "  %19: f32[B, 4, 3, 3] = multiply(%17, %18)\n"
                           "  %20: f32[B, 4, 3, 2] = matmul(%19, %15)\n"
                           "  %21: f32[B, 3, 4, 2] = transpose(%20, permutation=[0, 2, 1, 3])\n"
                           "  %22: f32[B, 3, 8] = reshape(%21, shape=[B, 3, 8])\n"
                           "  %23: f32[8, 8] = read(variable=\"out\")\n"
                           "  %24: f32[B, 3, 8] = matmul(%22, %23)\n"
                           "  %25: f32[B, 3, 8] = add(%24, %0)\n"
                           "  %26: f32[8] = read(variable=\"scale\")\n"
                           "  %27: f32[B, 3, 8] = broadcast(%26, shape=[B, 3, 8], dims=[2])\n"
                           "  %28: f32[B, 3, 8] = multiply(%25, %27)\n"
                           "  %29: f32[8, WIDTH] = read(variable=\"up\")\n"
                           "  %30: f32[B, 3, WIDTH] = matmul(%28, %29)\n"
                           "  %31: i64[WIDTH] = iota(shape=[WIDTH], axis=0)\n"
                           "  %32: f32[WIDTH] = convert(%31, to=f32)\n"
                           "  %33: f32[B, 3, WIDTH] = broadcast(%32, shape=[B, 3, WIDTH], dims=[2])\n"
                           "  %34: f32[B, 3, WIDTH] = multiply(%30, %33)\n"
                           "  %35: f32[B, 3, WIDTH] = cos(%34)\n"
                           "  %55: f32[B, 3, WIDTH] = negate(%35)\n"
                           "  %36: f32[WIDTH, 8] = read(variable=\"down\")\n"
                           "  %37: f32[B, 3, 8] = matmul(%35, %36)\n"
                           "  %38: f32[B, 3] = reduce_max(%55, axes=[2])\n"
                           "  %39: f32[B, 3, 8] = square(%37)\n"
                           "  %40: f32[B] = reduce_sum(%39, axes=[1, 2])\n"
                           "  %41: f32[B] = reduce_sum(%35, axes=[1, 2])\n"
                           "  %56: f32[B] = add(%40, %41)\n"
                           "  %42: f32[B] = multiply(%56, %1)\n"
                           "  %43: f32 = reduce_sum(%42, axes=[0])\n"
                           "  %44: f32[8, 24] = gradient(%43, %2)\n"
                           "  %45: f32[24] = gradient(%43, %4)\n"
                           "  %46: f32[8, 8] = gradient(%43, %23)\n"
                           "  %47: f32[8, WIDTH] = gradient(%43, %29)\n"
                           "  %48: f32[WIDTH, 8] = gradient(%43, %36)\n"
                           "  %49: f32[8] = gradient(%43, %26)\n"
                           "  %50: f32[8, WIDTH] = square(%47)\n"
                           "  %51: f32 = reduce_sum(%50, axes=[0, 1])\n"
                           "  %52: f32 = sqrt(%51)\n"
                           "  %53: f32[8, 24] = broadcast(%52, shape=[8, 24], dims=[])\n"
                           "  %54: f32[8, 24] = divide(%44, %53)\n"
                           "  write(%54, variable=\"qkv\")\n"
                           "  write(%45, variable=\"qkv_bias\")\n"
                           "  write(%46, variable=\"out\")\n"
                           "  write(%47, variable=\"up\")\n"
                           "  write(%48, variable=\"down\")\n"
                           "  write(%49, variable=\"scale\")\n"
                           "  write(%52, variable=\"norm\")\n"
                           "  return loss=%42, most=%38\n"
                           "}\n";

typedef struct run {
    dt_launch launches[REPLICAS];
    dt_tensor inputs[REPLICAS * 2], results[REPLICAS * 2];
    dt_memory memory;
} run;

static dt_module *module_of(dt_arena *arena, int n_shards, int width) {
    dt_module *module;
    dt_text text = {.arena = arena};
    dt_text_format(&text, "module m capacity %d\n", ROWS);
    if (n_shards > 1) dt_text_format(&text, "shards %d\n", n_shards);
    dt_text_append(&text, "file 0 \"m.dt\"\n");
    const char *from = STEP;
    for (const char *next; (next = strstr(from, "WIDTH")) != NULL; from = next + strlen("WIDTH"))
        dt_text_format(&text, "%.*s%d", (int)(next - from), from, width);
    dt_text_append(&text, from);
    expect_ok(dt_module_parse(arena, "m", text.data, &module));
    return module;
}

/* Small ones, of which no exponential is too large. */
static dt_tensor small_tensor(dt_arena *arena, random_source *source, dt_shape shape, int64_t rows) {
    dt_tensor tensor = random_tensor(arena, source, DT_F32, shape, rows);
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, 0.3 * tanh(dt_tensor_get(&tensor, i)));
    return tensor;
}

/* The same numbers for all runs. */
static run make_run(dt_arena *arena, const dt_module *module, int n_replicas, int64_t valid, dt_bad_index *bad) {
    random_source source = {11};
    const dt_function *function = module->functions.items[0];
    run made = {.memory = dt_memory_create(arena, module)};
    for (size_t v = 0; v < module->variables.n; v++) made.memory.variables[v] = small_tensor(arena, &source, module->variables.items[v].shape, 0);
    for (size_t i = 0; i < 2; i++) {
        dt_tensor all = small_tensor(arena, &source, function->inputs.items[i]->shape, valid);
        for (int r = 0; r < n_replicas; r++) {
            int64_t first = r * ROWS, rows = n_replicas == 1 ? valid : valid - first < 0 ? 0 : valid - first < ROWS ? valid - first : ROWS;
            int64_t *dims = dt_arena_copy(arena, all.shape.dims, (size_t)all.shape.rank * sizeof *dims);
            size_t row_bytes = dt_tensor_bytes(&all) / (size_t)valid;
            dims[0] = rows;
            made.launches[r] = (dt_launch){.rows = rows,
                                           .row_offset = first,
                                           .valid = valid,
                                           .global_batch = REPLICAS * ROWS,
                                           .replicas = n_replicas,
                                           .counter = 3,
                                           .seed = 9,
                                           .bad_index = bad,
                                           .n_parts = 1,
                                           .n_shares = 1};
            made.inputs[r * 2 + i] = dt_tensor_make(arena, DT_F32, (dt_shape){all.shape.rank, dims});
            memcpy(made.inputs[r * 2 + i].data, (char *)all.data + (size_t)first * row_bytes * (rows > 0), (size_t)rows * row_bytes);
        }
    }
    return made;
}

static void assert_close(const char *what, double x, double y) {
    if (!(fabs(x - y) <= 2e-4 * (1 + fabs(x)))) fail_msg("%s: %.9g as written, %.9g by shards", what, x, y);
}

static void compare(const dt_module *module, const run *whole, const run *parts, const char *how) {
    for (size_t v = 0; v < module->variables.n; v++)
        for (size_t i = 0; i < dt_tensor_elements(&whole->memory.variables[v]); i++)
            assert_close(module->variables.items[v].path, dt_tensor_get(&whole->memory.variables[v], i),
                         dt_tensor_get(&parts->memory.variables[v], i));
    for (int r = 0; r < REPLICAS; r++)
        for (int k = 0; k < 2; k++) {
            const dt_tensor *own = &parts->results[r * 2 + k];
            size_t row = k == 0 ? 1 : 3, first = (size_t)(r * ROWS) * row;
            for (size_t i = 0; i < dt_tensor_elements(own); i++)
                assert_close(how, dt_tensor_get(&whole->results[k], first + i), dt_tensor_get(own, i));
        }
}

static dt_module *after(dt_arena *arena, dt_module *module, const char *pass) {
    dt_compilation compilation = {.arena = arena, .module = module};
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){.stop_after = pass}));
    return module;
}

static void run_plan(dt_arena *arena, const dt_compilation *compilation, dt_kernel_runner runner, void *context, run *parts) {
    expect_ok(dt_plan_execute(
        arena, &(dt_plan_run){compilation->plans[0], runner, context, REPLICAS, parts->launches, parts->inputs, &parts->memory, parts->results}));
}

static void run_ways(int n_shards, int width, int64_t valid) {
    dt_arena *arena = dt_arena_create();
    dt_bad_index bad = {0};
    const char *levels[COMPILED_MOST_LEVELS];
    compiled_code codes[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    dt_module *written = after(arena, module_of(arena, 1, width), "autodiff"), *sharded = after(arena, module_of(arena, n_shards, width), "shard");
    dt_compilation compilation = {.arena = arena, .module = module_of(arena, n_shards, width)};
    run whole = make_run(arena, written, 1, valid, &bad), parts = make_run(arena, sharded, REPLICAS, valid, &bad);
    expect_ok(dt_interpret(arena, written->functions.items[0], whole.launches, whole.inputs, &whole.memory, whole.results));
    expect_ok(dt_interpret_replicas(arena, sharded->functions.items[0], REPLICAS, parts.launches, parts.inputs, &parts.memory, parts.results));
    compare(written, &whole, &parts, "interpreter");
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    parts = make_run(arena, compilation.module, REPLICAS, valid, &bad);
    run_plan(arena, &compilation, NULL, NULL, &parts);
    compare(written, &whole, &parts, "plan");
    expect_ok(compiled_make(&compilation, levels, n_levels, codes));
    for (int i = 0; i < n_levels; i++) {
        parts = make_run(arena, compilation.module, REPLICAS, valid, &bad);
        run_plan(arena, &compilation, compiled_run, &codes[i], &parts);
        compare(written, &whole, &parts, codes[i].level);
    }
    compiled_free(codes, n_levels);
    assert_int_equal(bad.count, 0);
    dt_arena_destroy(arena);
}

static void shards_mean_the_same(void **state) {
    (void)state;
    static const int widths[] = {16, 7};
    for (int n_shards = 1; n_shards <= 4; n_shards *= 2)
        for (int w = 0; w < 2; w++)
            for (int64_t valid = 3; valid <= REPLICAS * ROWS; valid += 7) run_ways(n_shards, widths[w], valid);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards_mean_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
