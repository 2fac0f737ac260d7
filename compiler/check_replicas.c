/* check_replicas: a step as it is written, over the global batch, against what partition makes of it, on three replicas side by side. The batch is
 * short: the first replica has all its rows, the second lacks one (or, of one row each, has it), the third has none. */
#include "compiler/check.h"
#include "compiler/pipeline.h"

#include <math.h>
#include <string.h>

enum {
    N_REPLICAS = 3
};

static const double TOLERANCE = 1e-7; /* in f64 sums in another order agree much better; what rounding can do to a small difference is left room */
static const double LEAST = 1e-6;     /* what is smaller than this counts as this large: gradients that are nothing but rounding, and their squares */

typedef struct work {
    dt_arena *arena;
    const dt_check *check;
    const dt_module *written, *partitioned;
    size_t step;
    int64_t rows; /* of a replica */
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

static dt_tensor *make_inputs(dt_arena *arena, const dt_function *function, int64_t first, int64_t rows, dt_tensor *inputs) {
    for (int i = 0; i < (int)function->inputs.n; i++) inputs[i] = dt_check_input(arena, function->inputs.items[i], i, first, rows);
    return inputs + function->inputs.n;
}

/* The root mean square of what is finite. */
static double size_of(const dt_tensor *tensor) {
    double squares = 0, n = 0;
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) {
        double x = dt_tensor_get(tensor, i);
        if (!isfinite(x)) continue;
        squares += x * x;
        n++;
    }
    return sqrt(squares / fmax(n, 1));
}

/* How far y is from x, as a share of x or of what is as large as the others; infinitely far where only one of them is a number. */
static double difference_of(double x, double y, double size) {
    if (x == y || (isnan(x) && isnan(y))) return 0;
    return isfinite(x) && isfinite(y) ? fabs(x - y) / (fabs(x) + size + LEAST) : INFINITY;
}

/* `part` against the elements of `whole` from `at` on. */
static void compare(const work *w, const char *what, const dt_tensor *whole, size_t at, const dt_tensor *part) {
    if (memcmp((const char *)whole->data + at * dt_dtype_bytes(whole->dtype), part->data, dt_tensor_bytes(part)) == 0) return;
    double size = size_of(whole);
    for (size_t i = 0; i < dt_tensor_elements(part); i++) {
        double difference = difference_of(dt_tensor_get(whole, at + i), dt_tensor_get(part, i), size);
        if (difference <= w->finding->worst) continue;
        w->finding->worst = difference;
        w->finding->where = what;
        w->finding->wrong = difference > TOLERANCE;
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

/* The variables as they are at first, for one run to write to. */
static dt_memory copy_memory(const work *w) {
    size_t n = w->check->module->variables.n;
    dt_memory copy = {dt_arena_copy(w->arena, w->check->initial.variables, n * sizeof *copy.variables)};
    for (size_t v = 0; v < n; v++) copy.variables[v].data = dt_arena_copy(w->arena, copy.variables[v].data, dt_tensor_bytes(&copy.variables[v]));
    return copy;
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
        int64_t first = r * w->rows < valid ? r * w->rows : valid, left = valid - first, rows = left < w->rows ? left : w->rows;
        launches[1 + r] = launch_of(w, first, rows, valid, &bad_index[1 + r]);
        next = make_inputs(arena, written, first, rows, next);
    }
    dt_memory memories[] = {copy_memory(w), copy_memory(w)};
    DT_TRY(dt_interpret(arena, written, launches, inputs, &memories[0], results));
    dt_check_tell(w->check, 0.5);
    DT_TRY(dt_interpret_replicas(arena, partitioned, N_REPLICAS, launches + 1, inputs + n_inputs, &memories[1], results + n_results));
    compare_results(w, written, results, results + n_results);
    for (size_t v = 0; v < w->check->module->variables.n; v++)
        compare(w, w->check->module->variables.items[v].path, &memories[0].variables[v], 0, &memories[1].variables[v]);
    return NULL;
}

dt_status *dt_check_replicas(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding) {
    const dt_module *module = check->module;
    work w = {.arena = arena, .check = check, .step = step, .rows = rows, .finding = finding};
    *finding = (dt_finding){.n = (int)(module->steps.items[step].function->results.n + module->variables.n)};
    DT_TRY(make(arena, module, "autodiff", (1u << DT_N_SWITCHES) - 1, &w.written)); /* nothing but what has to be done */
    DT_TRY(make(arena, module, "partition", 0, &w.partitioned));
    return run(&w, rows > 1 ? 2 * rows - 1 : 2);
}
