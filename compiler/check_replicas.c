/* check_replicas: a step as it is written, over the global batch, against what partition and shard make of it, on three replicas side by side, of
 * which each has all shards. The batch is short: the first replica has all its rows, the second lacks one (or, of one row each, has it), the third
 * has none.
 *
 * Replicas add in another order, and a program may make much of what rounding leaves: of a gradient that is nothing else Adam makes a step. So where
 * they disagree, the step is run a few times more, as written, on numbers that rounding could have given: what changes as much then is no mistake. */
#include "compiler/check.h"
#include "compiler/pipeline.h"

#include <math.h>

enum {
    N_REPLICAS = 3,
    N_NUDGES = 4
};

static const double TOLERANCE = 1e-7;  /* in f64 sums in another order agree much better; what rounding can do to a small difference is left room */
static const double NUDGE = 1e-15;     /* what rounding could have done to inputs and variables, relative */
static const double MOST_NUDGED = 100; /* times what a nudge changes may be rounding as well: it is one sample of it */

typedef struct work {
    dt_arena *arena;
    const dt_check *check;
    const dt_module *written, *partitioned;
    size_t step;
    int64_t rows; /* of a replica */
    dt_check_data data;
    dt_finding *finding;
} work;

static dt_status *make(dt_arena *arena, const dt_module *program, const char *last_pass, dt_switches off, const dt_module **made) {
    dt_module *copy;
    DT_TRY(dt_check_copy(arena, program, &copy));
    dt_compilation compilation = {.arena = arena, .module = copy, .off = off};
    *made = copy;
    return dt_passes_run(&compilation, &(dt_passes_options){.stop_after = last_pass});
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

static dt_tensor *make_inputs(const work *w, const dt_function *function, int64_t first, int64_t rows, dt_tensor *inputs) {
    for (int i = 0; i < (int)function->inputs.n; i++) inputs[i] = dt_check_input(w->arena, &w->data, function->inputs.items[i], i, first, rows);
    return inputs + function->inputs.n;
}

/* Results and then variables: what the nudges changed of each, at most. */
static void compare_outcomes(const work *w, const dt_check_outcome *whole, const dt_check_outcome *parts, const double *nudged) {
    const dt_module *module = w->check->module;
    const dt_function *function = w->written->steps.items[w->step].function;
    size_t n = function->results.n;
    *w->finding = (dt_finding){.n = w->finding->n, .location.file = -1};
    for (size_t i = 0; i < n; i++) {
        const dt_value *value = function->results.items[i].value;
        bool has_rows = value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH;
        size_t at = 0;
        for (size_t r = 0; r < N_REPLICAS; r++) {
            const dt_tensor *part = &parts->results[r * n + i];
            dt_check_compare(w->finding, TOLERANCE, function->results.items[i].name, &whole->results[i], at, part, MOST_NUDGED * nudged[i]);
            if (has_rows) at += dt_tensor_elements(part);
        }
    }
    for (size_t v = 0; v < module->variables.n; v++)
        dt_check_compare(w->finding, TOLERANCE, module->variables.items[v].path, &whole->memory.variables[v], 0, &parts->memory.variables[v],
                         MOST_NUDGED * nudged[n + v]);
}

/* ---- runs ---- */

/* With nudge `number`, 1 .. N_NUDGES; 0: without one. */
static dt_status *run_written(const work *w, int64_t valid, int number, dt_check_outcome *outcome) {
    const dt_function *function = w->written->steps.items[w->step].function;
    dt_bad_index bad_index = {0};
    dt_launch launch = launch_of(w, 0, valid, valid, &bad_index);
    dt_tensor *inputs = DT_NEW_ARRAY(w->arena, dt_tensor, function->inputs.n);
    make_inputs(w, function, 0, valid, inputs);
    outcome->results = DT_NEW_ARRAY(w->arena, dt_tensor, function->results.n);
    outcome->memory = dt_check_memory(w->arena, w->check, w->written);
    for (size_t i = 0; i < function->inputs.n; i++) dt_check_nudge(&inputs[i], number, NUDGE);
    for (size_t v = 0; v < w->check->module->variables.n; v++) dt_check_nudge(&outcome->memory.variables[v], number, NUDGE);
    return dt_interpret(w->arena, function, &launch, inputs, &outcome->memory, outcome->results);
}

static dt_status *run_partitioned(const work *w, int64_t valid, dt_check_outcome *outcome) {
    const dt_function *function = w->partitioned->steps.items[w->step].function;
    dt_bad_index bad_index[N_REPLICAS] = {{0}};
    dt_launch launches[N_REPLICAS];
    dt_tensor *inputs = DT_NEW_ARRAY(w->arena, dt_tensor, N_REPLICAS * function->inputs.n), *next = inputs;
    for (int r = 0; r < N_REPLICAS; r++) {
        int64_t first = r * w->rows < valid ? r * w->rows : valid, left = valid - first, rows = left < w->rows ? left : w->rows;
        launches[r] = launch_of(w, first, rows, valid, &bad_index[r]);
        next = make_inputs(w, function, first, rows, next);
    }
    outcome->results = DT_NEW_ARRAY(w->arena, dt_tensor, N_REPLICAS * function->results.n);
    outcome->memory = dt_check_memory(w->arena, w->check, w->written);
    return dt_interpret_replicas(w->arena, function, N_REPLICAS, launches, inputs, &outcome->memory, outcome->results);
}

static dt_status *try_nudges(const work *w, int64_t valid, const dt_check_outcome *whole, double *nudged) {
    size_t n_results = w->written->steps.items[w->step].function->results.n;
    for (int number = 1; number <= N_NUDGES; number++) {
        dt_check_outcome other;
        DT_TRY(run_written(w, valid, number, &other));
        for (size_t i = 0; i < n_results; i++) nudged[i] = fmax(nudged[i], dt_check_largest_difference(&whole->results[i], &other.results[i]));
        for (size_t v = 0; v < w->check->module->variables.n; v++) {
            double *most = &nudged[n_results + v];
            *most = fmax(*most, dt_check_largest_difference(&whole->memory.variables[v], &other.memory.variables[v]));
        }
    }
    return NULL;
}

dt_status *dt_check_replicas(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding) {
    const dt_module *module = check->module;
    work w = {.arena = arena, .check = check, .step = step, .rows = rows, .finding = finding};
    w.data = dt_check_data_of(arena, module->steps.items[step].function, DT_CHECK_PLAIN);
    int64_t valid = rows > 1 ? 2 * rows - 1 : 2;
    size_t n = module->steps.items[step].function->results.n + module->variables.n;
    double *nudged = DT_NEW_ARRAY(arena, double, n);
    dt_check_outcome whole, parts;
    *finding = (dt_finding){.n = (int)n, .location.file = -1};
    DT_TRY(make(arena, module, "autodiff", DT_SWITCHES_OFF, &w.written));
    DT_TRY(make(arena, module, "shard", 0, &w.partitioned));
    DT_TRY(run_written(&w, valid, 0, &whole));
    DT_TRY(dt_check_tell(check, 0.5));
    DT_TRY(run_partitioned(&w, valid, &parts));
    compare_outcomes(&w, &whole, &parts, nudged);
    if (!finding->wrong) return NULL;
    DT_TRY(try_nudges(&w, valid, &whole, nudged));
    compare_outcomes(&w, &whole, &parts, nudged);
    return NULL;
}
