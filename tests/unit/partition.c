/* partition: what it makes of a function means, on several replicas side by side, what the function means over the global batch. Random functions,
 * most of them of pairs of rows. DT_SEED and DT_COUNT rerun one and more of them. */
#include "compiler/passes/passes.h"
#include "tests/support/two_ways.h"

static dt_launch launch_of(int64_t first, int64_t rows, int64_t valid) {
    return (dt_launch){.rows = rows,
                       .row_offset = first,
                       .valid = valid,
                       .global_batch = TWO_WAYS_MOST_ROWS,
                       .replicas = TWO_WAYS_REPLICAS,
                       .epochs = 1,
                       .steps_per_epoch = 1,
                       .counter = 2,
                       .seed = 3};
}

/* One run of a function: by replica inputs and results, and the variables. */
typedef struct run {
    dt_launch launches[TWO_WAYS_REPLICAS];
    dt_tensor *inputs, *results;
    dt_memory memory;
} run;

static run make_run(dt_arena *arena, const dt_module *module, int n_replicas) {
    const dt_function *function = module->functions.items[0];
    run made = {.inputs = DT_NEW_ARRAY(arena, dt_tensor, (size_t)n_replicas * function->inputs.n),
                .results = DT_NEW_ARRAY(arena, dt_tensor, (size_t)n_replicas * function->results.n),
                .memory = dt_memory_create(arena, module)};
    return made;
}

/* Rows first, … of a tensor, whose first dimension they are. */
static dt_tensor rows_of(dt_arena *arena, const dt_tensor *whole, int64_t first, int64_t rows) {
    int64_t *dims = dt_arena_copy(arena, whole->shape.dims, (size_t)whole->shape.rank * sizeof *dims);
    size_t row_bytes = whole->shape.dims[0] > 0 ? dt_tensor_bytes(whole) / (size_t)whole->shape.dims[0] : 0;
    dims[0] = rows;
    dt_tensor part = dt_tensor_make(arena, whole->dtype, (dt_shape){whole->shape.rank, dims});
    memcpy(part.data, (const char *)whole->data + (size_t)first * row_bytes, (size_t)rows * row_bytes);
    return part;
}

static void assert_alike(const dt_module *partitioned, const char *what, const dt_tensor *x, const dt_tensor *y) {
    assert_true(dt_shape_equal(x->shape, y->shape));
    for (size_t i = 0; i < dt_tensor_elements(x); i++) {
        if (two_ways_close(dt_tensor_get(x, i), dt_tensor_get(y, i), two_ways_tolerance(partitioned->functions.items[0]))) continue;
        dt_text text = {0};
        dt_module_print(&text, partitioned);
        fputs(text.data, stderr);
        dt_text_free(&text);
        fail_msg("%s[%zu]: %.17g over the global batch, %.17g on replicas", what, i, dt_tensor_get(x, i), dt_tensor_get(y, i));
    }
}

static void run_both(random_source source, const dt_module *written, const dt_module *partitioned, int64_t valid) {
    dt_arena *arena = dt_arena_create();
    const dt_function *function = written->functions.items[0];
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    run whole = make_run(arena, written, 1), parts = make_run(arena, partitioned, TWO_WAYS_REPLICAS);
    dt_bad_index bad_index = {0};
    whole.launches[0] = launch_of(0, valid, valid);
    whole.launches[0].bad_index = &bad_index;
    for (size_t i = 0; i < n_inputs; i++)
        whole.inputs[i] = random_tensor(arena, &source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, valid);
    for (size_t v = 0; v < written->variables.n; v++) {
        whole.memory.variables[v] = random_tensor(arena, &source, written->variables.items[v].dtype, written->variables.items[v].shape, 0);
        memcpy(parts.memory.variables[v].data, whole.memory.variables[v].data, dt_tensor_bytes(&whole.memory.variables[v]));
    }
    for (int r = 0; r < TWO_WAYS_REPLICAS; r++) {
        int64_t first = r * RANDOM_CAPACITY, left = valid - first, rows = left < 0 ? 0 : left < RANDOM_CAPACITY ? left : RANDOM_CAPACITY;
        parts.launches[r] = launch_of(first, rows, valid);
        parts.launches[r].bad_index = &bad_index;
        for (size_t i = 0; i < n_inputs; i++) parts.inputs[(size_t)r * n_inputs + i] = rows_of(arena, &whole.inputs[i], rows > 0 ? first : 0, rows);
    }
    expect_ok(dt_interpret(arena, function, whole.launches, whole.inputs, &whole.memory, whole.results));
    expect_ok(
        dt_interpret_replicas(arena, partitioned->functions.items[0], TWO_WAYS_REPLICAS, parts.launches, parts.inputs, &parts.memory, parts.results));
    for (size_t i = 0; i < n_results; i++)
        for (int r = 0; r < TWO_WAYS_REPLICAS; r++) {
            const dt_value *value = function->results.items[i].value;
            bool has_rows = value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH;
            int64_t first = parts.launches[r].rows > 0 ? parts.launches[r].row_offset : 0;
            dt_tensor expected = has_rows ? rows_of(arena, &whole.results[i], first, parts.launches[r].rows) : whole.results[i];
            assert_alike(partitioned, function->results.items[i].name, &expected, &parts.results[(size_t)r * n_results + i]);
        }
    for (size_t v = 0; v < written->variables.n; v++)
        assert_alike(partitioned, written->variables.items[v].path, &whole.memory.variables[v], &parts.memory.variables[v]);
    dt_arena_destroy(arena);
}

typedef dt_module *random_maker(dt_arena *arena, random_source *source, int n_values);

static void replicas_are_one_batch(uint64_t n, uint64_t offset, random_maker *make) {
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(n, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed + offset};
        print_message("DT_SEED=%llu\n", (unsigned long long)seed);
        dt_compilation compilation = {.arena = arena};
        dt_module *written = make(arena, &source, 12 + (int)random_below(&source, 30));
        expect_ok(dt_module_copy(arena, written, &compilation.module));
        expect_ok(dt_pass_partition(&compilation));
        for (int64_t valid = 1; valid <= TWO_WAYS_MOST_ROWS; valid += 5) run_both(source, written, compilation.module, valid);
        dt_arena_destroy(arena);
    }
}

static void random_functions_mean_the_same(void **state) {
    (void)state;
    replicas_are_one_batch(60, 3000000, random_module);
}

static void pairs_of_rows_mean_the_same(void **state) {
    (void)state;
    replicas_are_one_batch(200, 4000000, random_pairs_module);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_functions_mean_the_same), cmocka_unit_test(pairs_of_rows_mean_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
