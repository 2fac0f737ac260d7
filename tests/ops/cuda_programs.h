/* cuda_programs: whole programs as CUDA text, by emulation: initial values and training steps against the interpreter, with equal bits for every
 * order of threads.
 *
 * An element may differ by a tolerance, and by as much more as it moves when variables move by a millionth: an optimizer that divides a gradient by
 * its own size makes much of little. Each step begins where the emulation left. */
#ifndef DT_TESTS_OPS_CUDA_PROGRAMS_H
#define DT_TESTS_OPS_CUDA_PROGRAMS_H

#include "base/cpu.h"
#include "base/file.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "tests/support/emulated.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct program {
    const char *name; /* without a source, of a file: "examples/gpt" */
    const char *source;
    int64_t capacity, rows; /* of a replica; of all of them, valid */
    int n_replicas;         /* 0: one */
    int n_steps;
    double tolerance; /* of a value of size 1, and relative to larger ones */
    dt_dsl_define defines[4];
    bool wide_indices;
    dt_target target; /* 0: CUDA */
} program;

typedef struct trial {
    const program *program;
    dt_arena *arena;
    dt_module *written;         /* for the interpreter */
    dt_compilation compilation; /* for the emulation */
    emulated_code code;
    random_source random;
    long n_elements, n_loose; /* compared; and of them those that move by more than the tolerance */
} trial;

static void trial_succeed(const trial *t, dt_status *status) {
    if (status != NULL) fail_msg("%s: %s", t->program->name, dt_status_message(status));
}

static dt_module *trial_elaborate(trial *t) {
    dt_dsl_options options = {.defines = t->program->defines, .capacity = t->program->capacity};
    dt_diagnostics *diagnostics = dt_diagnostics_create(t->arena);
    dt_module *module = NULL;
    while (options.n_defines < 4 && t->program->defines[options.n_defines].name != NULL) options.n_defines++;
    trial_succeed(t, dt_dsl_compile(t->arena, t->program->name, t->program->source, &options, diagnostics, &module));
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (module == NULL) fail_msg("%s", text.data);
    dt_text_free(&text);
    return module;
}

static int trial_function(const dt_module *module, const char *name) {
    for (size_t f = 0; f < module->functions.n; f++)
        if (strcmp(module->functions.items[f]->name, name) == 0) return (int)f;
    return -1;
}

static void trial_compare(trial *t, const char *what, const dt_tensor *got, const dt_tensor *want, const dt_tensor *near) {
    for (size_t i = 0; i < dt_tensor_elements(want); i++) {
        double x = dt_tensor_get(got, i), y = dt_tensor_get(want, i), moves = fabs(y - dt_tensor_get(near, i));
        double tolerance = t->program->tolerance * (1 + fabs(y)) + 30 * moves;
        t->n_elements++;
        t->n_loose += moves > t->program->tolerance;
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= tolerance)) fail_msg("%s: %s[%zu] is %.9g, should be %.9g", t->program->name, what, i, x, y);
    }
}

static dt_memory trial_copy(trial *t, const dt_memory *memory) {
    dt_memory copy = dt_memory_create(t->arena, t->written);
    for (size_t v = 0; v < t->written->variables.n; v++)
        memcpy(copy.variables[v].data, memory->variables[v].data, dt_tensor_bytes(&copy.variables[v]));
    return copy;
}

static dt_memory trial_perturbed(trial *t, const dt_memory *memory) {
    dt_memory copy = trial_copy(t, memory);
    for (size_t v = 0; v < t->written->variables.n; v++)
        for (size_t i = 0; i < dt_tensor_elements(&copy.variables[v]) && dt_dtype_is_float(copy.variables[v].dtype); i++) {
            double factor = 1 + 1e-6 * ((double)random_below(&t->random, 2001) / 1000 - 1);
            dt_tensor_set(&copy.variables[v], i, dt_tensor_get(&copy.variables[v], i) * factor);
        }
    return copy;
}

static int trial_n_replicas(const trial *t) { return t->program->n_replicas > 0 ? t->program->n_replicas : 1; }

/* Of `n` rows from `first` on. */
static dt_launch trial_launch(const trial *t, int64_t counter, int64_t first, int64_t n) {
    return (dt_launch){.rows = n,
                       .row_offset = first,
                       .valid = t->program->rows,
                       .global_batch = t->program->capacity * trial_n_replicas(t),
                       .replicas = trial_n_replicas(t),
                       .epochs = 1,
                       .steps_per_epoch = 100,
                       .counter = counter,
                       .seed = 42,
                       .n_parts = 1};
}

static bool trial_has_rows(const dt_value *value) { return value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH; }

/* Rows first, …, `n` of them: all of a tensor that has none. */
static dt_tensor trial_rows(trial *t, const dt_value *value, const dt_tensor *whole, int64_t first, int64_t n) {
    if (!trial_has_rows(value)) return *whole;
    int64_t *dims = dt_arena_copy(t->arena, whole->shape.dims, (size_t)whole->shape.rank * sizeof *dims);
    size_t row_bytes = dt_tensor_bytes(whole) / (size_t)dims[0];
    dims[0] = n;
    dt_tensor part = dt_tensor_make(t->arena, whole->dtype, (dt_shape){whole->shape.rank, dims});
    memcpy(part.data, (const char *)whole->data + (size_t)first * row_bytes, (size_t)n * row_bytes);
    return part;
}

/* Puts a replica's rows where they belong; what has none is the same on all replicas. */
static void trial_put_rows(const dt_value *value, const dt_tensor *part, int64_t first, const dt_tensor *whole) {
    size_t bytes = dt_tensor_bytes(part), rows = trial_has_rows(value) ? (size_t)part->shape.dims[0] : 1;
    if (bytes > 0) memcpy((char *)whole->data + (trial_has_rows(value) ? (size_t)first * (bytes / rows) : 0), part->data, bytes);
}

/* Function f by emulation, on as many replicas as there are. */
static void trial_run(trial *t, int f, int64_t counter, const dt_tensor *inputs, dt_memory *memory, const dt_tensor *results) {
    const dt_function *function = t->written->functions.items[f];
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    int n = trial_n_replicas(t);
    dt_launch *launches = DT_NEW_ARRAY(t->arena, dt_launch, n);
    dt_bad_index bad = {0};
    dt_tensor *own = DT_NEW_ARRAY(t->arena, dt_tensor, (size_t)n * n_inputs), *parts = DT_NEW_ARRAY(t->arena, dt_tensor, (size_t)n * n_results);
    for (int r = 0; r < n; r++) {
        int64_t first = r * t->program->capacity, left = t->program->rows - first;
        launches[r] = trial_launch(t, counter, first, left < 0 ? 0 : left < t->program->capacity ? left : t->program->capacity);
        launches[r].bad_index = &bad;
        for (size_t i = 0; i < n_inputs; i++)
            own[(size_t)r * n_inputs + i] = trial_rows(t, function->inputs.items[i], &inputs[i], left > 0 ? first : 0, launches[r].rows);
    }
    trial_succeed(t, dt_plan_execute(t->arena, &(dt_plan_run){t->compilation.plans[f], emulated_run, &t->code, n, launches, own, memory, parts}));
    if (t->code.message[0] != 0) fail_msg("%s: %s", t->program->name, t->code.message);
    assert_int_equal(bad.count, 0);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < n_results; i++)
            trial_put_rows(function->results.items[i].value, &parts[(size_t)r * n_results + i], launches[r].row_offset, &results[i]);
}

/* The same in every order of threads; *memory and *results, of the shapes that they come with, are those of the first. */
static void trial_emulate(trial *t, int f, int64_t counter, const dt_tensor *inputs, dt_memory *memory, const dt_tensor *results) {
    size_t n_results = t->written->functions.items[f]->results.n;
    dt_memory before = trial_copy(t, memory);
    for (int how = 0; how < EMULATED_WAYS; how++) {
        dt_memory after = trial_copy(t, &before);
        dt_tensor *again = DT_NEW_ARRAY(t->arena, dt_tensor, n_results);
        for (size_t r = 0; r < n_results; r++) again[r] = dt_tensor_make(t->arena, results[r].dtype, results[r].shape);
        t->code.how = how;
        trial_run(t, f, counter, inputs, &after, how == 0 ? results : again);
        if (how == 0) {
            *memory = after;
            continue;
        }
        for (size_t v = 0; v < t->written->variables.n; v++)
            assert_memory_equal(after.variables[v].data, memory->variables[v].data, dt_tensor_bytes(&after.variables[v]));
        for (size_t r = 0; r < n_results; r++) assert_memory_equal(again[r].data, results[r].data, dt_tensor_bytes(&again[r]));
    }
}

/* Function f on `memory`, which it changes as the emulation does. */
static void trial_step(trial *t, int f, int64_t counter, dt_memory *memory) {
    const dt_function *function = t->written->functions.items[f];
    dt_tensor *inputs = DT_NEW_ARRAY(t->arena, dt_tensor, function->inputs.n);
    dt_tensor *results = DT_NEW_ARRAY(t->arena, dt_tensor, 3 * function->results.n), *want = results + function->results.n,
              *near = want + function->results.n;
    dt_memory wanted = trial_copy(t, memory), nearby = trial_perturbed(t, memory);
    dt_bad_index bad = {0};
    dt_launch launch = trial_launch(t, counter, 0, t->program->rows);
    for (size_t i = 0; i < function->inputs.n; i++)
        inputs[i] = random_tensor(t->arena, &t->random, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, t->program->rows);
    launch.bad_index = &bad;
    trial_succeed(t, dt_interpret(t->arena, function, &launch, inputs, &wanted, want));
    trial_succeed(t, dt_interpret(t->arena, function, &launch, inputs, &nearby, near));
    for (size_t r = 0; r < function->results.n; r++) results[r] = dt_tensor_make(t->arena, want[r].dtype, want[r].shape);
    trial_emulate(t, f, counter, inputs, memory, results);
    for (size_t r = 0; r < function->results.n; r++) trial_compare(t, function->results.items[r].name, &results[r], &want[r], &near[r]);
    for (size_t v = 0; v < t->written->variables.n; v++)
        trial_compare(t, t->written->variables.items[v].path, &memory->variables[v], &wanted.variables[v], &nearby.variables[v]);
}

static void run_program(const program *program) {
    trial t = {.program = program, .arena = dt_arena_create(), .random = {7}};
    char path[4096], *source = NULL;
    size_t n_bytes;
    struct program copy = *program;
    if (copy.source == NULL) {
        snprintf(path, sizeof path, "%s/%s.dt", getenv("DT_SOURCE"), program->name);
        assert_null(dt_file_read(path, &source, &n_bytes));
        copy.source = source;
        t.program = &copy;
    }
    t.written = trial_elaborate(&t);
    dt_compilation graph = {.arena = t.arena, .module = t.written};
    trial_succeed(&t, dt_passes_run(&graph, &(dt_passes_options){.stop_after = "autodiff"}));
    t.compilation = (dt_compilation){.arena = t.arena, .module = trial_elaborate(&t), .target = program->target};
    if (program->target == DT_TARGET_CPU) t.compilation.target = DT_TARGET_CUDA;
    trial_succeed(&t, dt_passes_run(&t.compilation, &(dt_passes_options){0}));
    trial_succeed(&t, emulated_make_with(&t.compilation, &t.code, program->wide_indices, NULL));
    dt_memory memory = dt_memory_create(t.arena, t.written);
    int init = trial_function(t.written, "init");
    if (init >= 0) trial_step(&t, init, 0, &memory);
    for (size_t s = 0; s < t.written->steps.n; s++) {
        const dt_step *step = &t.written->steps.items[s];
        int n_steps = step->trains ? program->n_steps : 1;
        for (int k = 0; k < n_steps; k++) trial_step(&t, trial_function(t.written, step->function->name), k, &memory);
    }
    print_message("%s: %d functions, %ld elements compared, %ld of them loosely\n", program->name, t.code.program.n_sources, t.n_elements, t.n_loose);
    assert_true(t.n_loose < t.n_elements / 10);
    emulated_free(&t.code);
    dt_arena_destroy(t.arena);
    free(source);
}

#endif
