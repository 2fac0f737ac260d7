/* check_replicas: a step as it is written, over the global batch, against what partition makes of it, on two replicas side by side. A full batch, and
 * one so short that the second replica lacks a row. */
#include "compiler/check.h"
#include "compiler/pipeline.h"

#include <math.h>

enum {
    N_REPLICAS = 2
};

static const double TOLERANCE = 1e-7; /* in f64 sums in another order agree much better; what rounding can do to a small difference is left room */
static const double LEAST = 1e-6;     /* what is smaller than this counts as this large: gradients that are nothing but rounding, and their squares */

typedef struct work {
    dt_arena *arena;
    const dt_module *program;
    const dt_module *written, *partitioned;
    size_t step;
    int64_t rows; /* of a replica */
    dt_finding *finding;
} work;

static dt_status *make(dt_arena *arena, const dt_module *program, const char *last_pass, dt_switches off, const dt_module **made) {
    dt_module *copy;
    DT_TRY(dt_check_copy(arena, program, &copy));
    dt_compilation compilation = {.arena = arena, .module = copy, .off = off};
    dt_status *status = dt_pipeline_run(&compilation, &(dt_pipeline_options){.stop_after = last_pass});
    dt_text_free(&compilation.warnings);
    *made = copy;
    return status;
}

/* What a program can ask of its launch is the same in all runs: only how the rows are cut differs. */
static dt_launch launch_of(const work *w, int64_t first, int64_t rows, int64_t valid, dt_bad_index *bad_index) {
    return (dt_launch){.rows = rows,
                       .row_offset = first,
                       .valid = valid,
                       .global_batch = N_REPLICAS * w->rows,
                       .replicas = N_REPLICAS,
                       .epochs = 1,
                       .steps_per_epoch = 1,
                       .seed = 1,
                       .bad_index = bad_index};
}

static dt_tensor *make_inputs(dt_arena *arena, const dt_function *function, int64_t first, int64_t rows, dt_tensor *inputs) {
    for (int i = 0; i < (int)function->inputs.n; i++) inputs[i] = dt_check_input(arena, function->inputs.items[i], i, first, rows);
    return inputs + function->inputs.n;
}

/* `part` against the elements of `whole` from `at` on. */
static void compare(const work *w, const char *what, const dt_tensor *whole, size_t at, const dt_tensor *part) {
    double squares = 0;
    size_t n = dt_tensor_elements(whole);
    for (size_t i = 0; i < n; i++) squares += pow(dt_tensor_get(whole, i), 2);
    double size = sqrt(squares / fmax((double)n, 1));
    for (size_t i = 0; i < dt_tensor_elements(part); i++) {
        double x = dt_tensor_get(whole, at + i), y = dt_tensor_get(part, i);
        double difference = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y) / (fabs(x) + size + LEAST);
        if (difference <= w->finding->worst) continue;
        w->finding->worst = difference;
        w->finding->where = what;
        w->finding->wrong = !(difference <= TOLERANCE);
    }
}

static void compare_results(const work *w, const dt_function *function, const dt_tensor *whole, const dt_tensor *parts) {
    size_t n = function->results.n;
    for (size_t i = 0; i < n; i++) {
        const dt_value *value = function->results.items[i].value;
        bool has_rows = value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH;
        size_t at = 0;
        for (size_t r = 0; r < N_REPLICAS; r++) {
            compare(w, function->results.items[i].name, &whole[i], at, &parts[r * n + i]);
            if (has_rows) at += dt_tensor_elements(&parts[r * n + i]);
        }
    }
}

static dt_status *run(const work *w, int64_t valid) {
    dt_arena *arena = w->arena;
    const dt_function *written = w->written->steps.items[w->step].function, *partitioned = w->partitioned->steps.items[w->step].function;
    size_t n_inputs = written->inputs.n, n_results = written->results.n;
    dt_bad_index bad_index[1 + N_REPLICAS] = {{0}};
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, (1 + N_REPLICAS) * n_inputs), *next = inputs;
    dt_tensor *results = DT_NEW_ARRAY(arena, dt_tensor, (1 + N_REPLICAS) * n_results);
    dt_launch launches[1 + N_REPLICAS] = {launch_of(w, 0, valid, valid, &bad_index[0])};
    next = make_inputs(arena, written, 0, valid, next);
    for (int r = 0; r < N_REPLICAS; r++) {
        int64_t first = r * w->rows, left = valid - first, rows = left < w->rows ? left : w->rows;
        launches[1 + r] = launch_of(w, first, rows, valid, &bad_index[1 + r]);
        next = make_inputs(arena, written, first, rows, next);
    }
    dt_memory memories[2];
    for (int i = 0; i < 2; i++) DT_TRY(dt_check_initialize(arena, w->program, &memories[i]));
    DT_TRY(dt_interpret(arena, written, launches, inputs, &memories[0], results));
    DT_TRY(dt_interpret_replicas(arena, partitioned, N_REPLICAS, launches + 1, inputs + n_inputs, &memories[1], results + n_results));
    compare_results(w, written, results, results + n_results);
    for (size_t v = 0; v < w->program->variables.n; v++)
        compare(w, w->program->variables.items[v].path, &memories[0].variables[v], 0, &memories[1].variables[v]);
    return NULL;
}

dt_status *dt_check_replicas(dt_arena *arena, const dt_module *module, size_t step, int64_t rows, dt_finding *finding) {
    work w = {.arena = arena, .program = module, .step = step, .rows = rows, .finding = finding};
    *finding = (dt_finding){.n = (int)(module->steps.items[step].function->results.n + module->variables.n)};
    DT_TRY(make(arena, module, "autodiff", (1u << DT_N_SWITCHES) - 1, &w.written)); /* nothing but what has to be done */
    DT_TRY(make(arena, module, "partition", 0, &w.partitioned));
    DT_TRY(run(&w, N_REPLICAS * rows));
    return run(&w, N_REPLICAS * rows - 1);
}
