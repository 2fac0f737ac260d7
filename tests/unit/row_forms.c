/* row_forms: what the pass `rows` makes of a step means what the step means, as the interpreter evaluates both, on several replicas. All numbers are
 * small multiples of powers of two, so that no order of sums shows. */
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "ir/interpret.h"
#include "tests/support/expect.h"

enum {
    REPLICAS = 3,
    CAPACITY = 4,
    WIDTH = 2,
    TABLE_ROWS = 64
};

/* The index is computed, of two inputs; the second table is not trained; a rate is read, and counts. */
static const char PROGRAM[] = "use optimizers\n"
                              "data d = npy(\"a\", \"b\", \"c\") | batch(4)\n"
                              "model M(i: i32[B], j: i64[B, 2]) -> f32[B] {\n"
                              "    param table: f32[64, 2] = constant(0.5)\n"
                              "    param other: f32[128, 2] = constant(2.0), trainable: false\n"
                              "    param plain: f32[2] = constant(1.0)\n"
                              "    return sum(table[(i * 5) % 64] * sum(other[j], axis: 1) * plain[newaxis, :], axis: 1)\n"
                              "}\n"
                              "step train(i: i32[B], j: i64[B, 2], y: f32[B]) from d {\n"
                              "    out = M(i, j)\n"
                              "    minimize(out * y, sgd(fn(count) => 0.5 / f32(count + 1)), normalize: batch)\n"
                              "    report loss: sum(out)\n"
                              "}\n";

static dt_module *compile_to_rows(dt_arena *arena, const char *program) {
    dt_compilation compilation = {.arena = arena};
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_dsl_options options = {0};
    expect_ok(dt_dsl_compile(arena, "m.dt", program, &options, diagnostics, &compilation.module));
    assert_non_null(compilation.module);
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){.stop_after = "rows"}));
    return compilation.module;
}

static dt_tensor tensor_of(dt_arena *arena, const dt_value *value, int64_t rows) {
    int64_t *dims = dt_arena_copy(arena, value->shape.dims, (size_t)value->shape.rank * sizeof *dims);
    for (int d = 0; d < value->shape.rank; d++)
        if (dims[d] == DT_BATCH) dims[d] = rows;
    return dt_tensor_make(arena, value->dtype, (dt_shape){value->shape.rank, dims});
}

/* ---- one step, both ways ---- */

typedef struct run {
    dt_arena *arena;
    const dt_module *module;
    dt_memory memory;
    dt_launch launches[REPLICAS];
    dt_bad_index bad_index;
} run;

static void start(run *run, dt_arena *arena, const dt_module *module, int64_t valid) {
    *run = (struct run){.arena = arena, .module = module, .memory = dt_memory_create(arena, module)};
    for (size_t v = 0; v < module->variables.n; v++)
        for (size_t i = 0; i < dt_tensor_elements(&run->memory.variables[v]); i++)
            dt_tensor_set(&run->memory.variables[v], i, (double)((i * 7 + v) % 16) / 4 - 1);
    for (int r = 0; r < REPLICAS; r++) {
        int64_t left = valid - r * CAPACITY;
        run->launches[r] = (dt_launch){.rows = left < 0          ? 0
                                               : left < CAPACITY ? left
                                                                 : CAPACITY,
                                       .row_offset = r * CAPACITY,
                                       .valid = valid,
                                       .global_batch = REPLICAS * CAPACITY,
                                       .replicas = REPLICAS,
                                       .bad_index = &run->bad_index};
    }
}

/* Of all replicas; results likewise. */
static dt_tensor *interpret(run *run, const dt_function *function, const dt_tensor *inputs) {
    dt_tensor *results = DT_NEW_ARRAY(run->arena, dt_tensor, REPLICAS * function->results.n);
    expect_ok(dt_interpret_replicas(run->arena, function, REPLICAS, run->launches, inputs, &run->memory, results));
    return results;
}

static dt_tensor *make_inputs(run *run, const dt_function *function) {
    size_t n = function->inputs.n;
    dt_tensor *inputs = DT_NEW_ARRAY(run->arena, dt_tensor, REPLICAS * n);
    for (int r = 0; r < REPLICAS; r++)
        for (size_t i = 0; i < n; i++) {
            dt_tensor *input = &inputs[(size_t)r * n + i];
            *input = tensor_of(run->arena, function->inputs.items[i], run->launches[r].rows);
            for (size_t k = 0; k < dt_tensor_elements(input); k++) dt_tensor_set(input, k, (double)((k * 3 + i + (size_t)r) % 5));
        }
    return inputs;
}

static dt_tensor *variable(const run *run, const char *path) {
    return &run->memory.variables[dt_module_find_variable(run->module, path) - run->module->variables.items];
}

/* The inputs of the step's row form: rows of tables for what the indices say. */
static dt_tensor *with_rows(run *run, const dt_tensor *inputs, const dt_tensor *indices) {
    const dt_row_form *forms = run->module->row_forms.items;
    size_t n_of = forms[0].of->inputs.n, n = forms[0].step->inputs.n, n_indices = forms[0].indices->results.n;
    dt_tensor *all = DT_NEW_ARRAY(run->arena, dt_tensor, REPLICAS * n);
    for (int r = 0; r < REPLICAS; r++) {
        memcpy(&all[(size_t)r * n], &inputs[(size_t)r * n_of], n_of * sizeof *all);
        for (size_t f = 0; f < run->module->row_forms.n; f++) {
            const dt_tensor *index = &indices[(size_t)r * n_indices + (size_t)forms[f].index], *table = variable(run, forms[f].table);
            dt_tensor *rows = &all[(size_t)r * n + (size_t)forms[f].rows];
            *rows = tensor_of(run->arena, forms[f].step->inputs.items[forms[f].rows], run->launches[r].rows);
            for (size_t i = 0; i < dt_tensor_elements(rows); i++)
                dt_tensor_set(rows, i, dt_tensor_get(table, (size_t)dt_tensor_get(index, i / WIDTH) * WIDTH + i % WIDTH));
        }
    }
    return all;
}

/* Gives a function of B rows of the table all of them. */
static dt_tensor over_rows(run *run, const dt_function *function, const dt_tensor *first, int n_first, const dt_tensor *numbers) {
    dt_tensor *inputs = DT_NEW_ARRAY(run->arena, dt_tensor, function->inputs.n), result;
    dt_launch launch = {.rows = TABLE_ROWS, .valid = TABLE_ROWS, .global_batch = TABLE_ROWS, .replicas = 1, .bad_index = &run->bad_index};
    for (size_t i = 0; i < function->inputs.n; i++) inputs[i] = (int)i < n_first ? first[i] : numbers[(int)i - n_first];
    expect_ok(dt_interpret_replicas(run->arena, function, 1, &launch, inputs, NULL, &result));
    return result;
}

/* Adds up each replica's gradient, and what crosses, and gives it to the update. */
static void update(run *run, const dt_row_form *form, const dt_tensor *indices, const dt_tensor *results) {
    size_t n_indices = form->indices->results.n, n_results = form->step->results.n;
    dt_tensor *table = variable(run, form->table), crossing = dt_tensor_make(run->arena, DT_F32, table->shape);
    for (int r = 0; r < REPLICAS; r++) {
        const dt_tensor *index = &indices[(size_t)r * n_indices + (size_t)form->index];
        const dt_tensor *of_replica = &results[(size_t)r * n_results], *gradients = &of_replica[form->gradient];
        dt_tensor sum = dt_tensor_make(run->arena, DT_F32, table->shape);
        for (size_t i = 0; i < dt_tensor_elements(gradients); i++) {
            size_t at = (size_t)dt_tensor_get(index, i / WIDTH) * WIDTH + i % WIDTH;
            dt_tensor_set(&sum, at, dt_tensor_get(&sum, at) + dt_tensor_get(gradients, i));
        }
        if (form->sum != NULL) sum = over_rows(run, form->sum, &sum, 1, &of_replica[form->first_number]);
        for (size_t i = 0; i < dt_tensor_elements(&sum); i++) dt_tensor_set(&crossing, i, dt_tensor_get(&crossing, i) + dt_tensor_get(&sum, i));
    }
    dt_tensor becomes = over_rows(run, form->update, (dt_tensor[]){*table, crossing}, 2, &results[form->first_number]);
    memcpy(table->data, becomes.data, dt_tensor_bytes(table));
}

static void row_forms_mean_the_step(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    const dt_module *module = compile_to_rows(arena, PROGRAM);
    assert_int_equal(module->row_forms.n, 2);
    const dt_row_form *forms = module->row_forms.items;
    for (int64_t valid = 1; valid <= REPLICAS * CAPACITY; valid += 5) {
        run whole, rows;
        start(&whole, arena, module, valid);
        start(&rows, arena, module, valid);
        dt_tensor *inputs = make_inputs(&whole, forms[0].of);
        dt_tensor *expected = interpret(&whole, forms[0].of, inputs);
        dt_tensor *indices = interpret(&rows, forms[0].indices, inputs);
        dt_tensor *results = interpret(&rows, forms[0].step, with_rows(&rows, inputs, indices));
        assert_memory_equal(results[0].data, expected[0].data, dt_tensor_bytes(&expected[0]));
        for (size_t f = 0; f < module->row_forms.n; f++)
            if (forms[f].update != NULL) update(&rows, &forms[f], indices, results);
        for (size_t v = 0; v < module->variables.n; v++)
            assert_memory_equal(rows.memory.variables[v].data, whole.memory.variables[v].data, dt_tensor_bytes(&whole.memory.variables[v]));
        run untouched;
        start(&untouched, arena, module, valid);
        assert_memory_not_equal(variable(&untouched, "M/table")->data, variable(&rows, "M/table")->data, TABLE_ROWS * WIDTH * sizeof(float));
    }
    dt_arena_destroy(arena);
}

/* ---- what an update does to a row without a gradient ---- */

static const dt_row_form *form_of_update(dt_arena *arena, const char *update) {
    const char *program = dt_arena_format(arena,
                                          "use nn, optimizers\n"
                                          "data d = npy(\"a\", \"b\") | batch(4)\n"
                                          "model M(i: i32[B]) -> f32[B] { return sum(embedding(i, rows: 64, width: 2), axis: 1) }\n"
                                          "optimizer own(rate: schedule = 0.1) { update (p, g) { %s } }\n"
                                          "step train(i: i32[B], y: f32[B]) from d { minimize(square(M(i) - y), own()) }\n",
                                          update);
    const dt_module *module = compile_to_rows(arena, program);
    return module->row_forms.n == 1 ? &module->row_forms.items[0] : NULL;
}

static void rows_without_a_gradient(void **state) {
    (void)state;
    static const struct {
        const char *update, *moves; /* "": it has no row form */
    } cases[] = {
        {"p := p - rate * g", NULL},
        {"p := p - rate * clip(g, -1, 1)", NULL},
        {"p := p + -1 * (rate * clip(g, -1, 1))", NULL},          /* by adding a negative zero */
        {"p := p - f32(count) * (0.5 * ones_like(p)) * g", NULL}, /* a number, of which a part is one as well */
        {"p := p - (0.5 * ones_like(p)) * f32(count) * g", NULL},
        {"p := p + rate * g", "changes the table itself"}, /* -0 becomes 0 */
        {"p := p * 0.9 - rate * g", "changes the table itself"},
        {"state m = zeros_like(p)\n m := 0.9 * m + g\n p := p - rate * g", "changes own/M/embedding/table/m"},
        {"p := p - rate * sign(g + 0.5)", "changes the table itself"},
        {"p := p + -0.1 * g", "makes something else of a gradient of zeros"}, /* negative zeros */
        {"p := p - rate * g / (sqrt(sum(square(g))) + 1)", ""},
        {"p := p - rate * g * sum(p, axis: 0)[newaxis, :]", ""},
        {"p := p - rate * (g - mean(g, axis: 1)[:, newaxis])", ""},
        {"state m = zeros_like(p)\n m := 0.9 * m + g\n p := p - rate * m * sum(m)", ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_arena *arena = dt_arena_create();
        const dt_row_form *form = form_of_update(arena, cases[c].update);
        const char *moves = form != NULL ? form->moves : "";
        bool fits = (moves == NULL) == (cases[c].moves == NULL) && (moves == NULL || strcmp(moves, cases[c].moves) == 0);
        if (!fits) fail_msg("%s: %s", cases[c].update, moves != NULL ? moves : "leaves it");
        dt_arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(row_forms_mean_the_step), cmocka_unit_test(rows_without_a_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
