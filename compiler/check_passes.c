/* check_passes: a step after all passes, its plan run one element at a time, against the step as it is written: each op on its own, in its own types,
 * with sums that are rounded once. No pass may change more than the order of sums.
 *
 * What narrow floats and integers cannot hold shows at large numbers alone: of a step that has floats of two bytes the inputs are large in a second
 * run. How far apart two roundings may be says the narrowest float; where that is not enough the step is run a few times more on inputs that rounding
 * could have given, as in check_replicas. Running a plan so is slow: large steps are left out. */
#include "compiler/check.h"
#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "ir/flops.h"
#include "ir/text_form.h"

#include <math.h>

enum {
    N_NUDGES = 4
};

static const double MOST_WORK = 1e7;   /* scalar operations of a step, forwards, and elements of variables */
static const double MOST_NUDGED = 100; /* times what a nudge changes may be rounding as well */

/* What rounding may do to a step: relative to what is compared, and to an input. */
typedef struct roundings {
    double tolerance, nudge;
} roundings;

typedef struct work {
    dt_arena *arena;
    const dt_check *check;
    const dt_module *written;
    dt_compilation compiled;
    int plan;
    size_t step;
    int64_t rows;
    roundings roundings;
    dt_finding *finding;
} work;

static roundings roundings_of(const dt_function *function, bool *has_narrow) {
    bool has_f32 = false, has_f16 = false, has_bf16 = false;
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        has_f32 |= value->dtype == DT_F32;
        has_f16 |= value->dtype == DT_F16;
        has_bf16 |= value->dtype == DT_BF16;
    }
    *has_narrow = has_f16 || has_bf16;
    return has_bf16  ? (roundings){0.03, 0x1p-8}
           : has_f16 ? (roundings){0.005, 0x1p-11}
           : has_f32 ? (roundings){1e-4, 0x1p-24}
                     : (roundings){1e-7, 1e-15};
}

static double work_of(const dt_module *module, dt_flops flops, int64_t rows) {
    double work = flops.fixed + (double)rows * (flops.per_row + (double)rows * flops.per_pair);
    for (size_t v = 0; v < module->variables.n; v++) work += (double)dt_shape_elements(module->variables.items[v].shape, 1, 1);
    return work;
}

static dt_status *make(work *w, const dt_module *program) {
    dt_module *written, *compiled;
    DT_TRY(dt_module_copy(w->arena, program, &written));
    DT_TRY(dt_module_copy(w->arena, program, &compiled));
    compiled->capacity = w->rows;
    dt_compilation plain = {.arena = w->arena, .module = written, .off = DT_SWITCHES_OFF};
    w->written = written;
    w->compiled = (dt_compilation){.arena = w->arena, .module = compiled};
    DT_TRY(dt_passes_run(&plain, &(dt_passes_options){.stop_after = "autodiff"}));
    DT_TRY(dt_passes_run(&w->compiled, &(dt_passes_options){0}));
    for (int p = 0; p < w->compiled.n_plans; p++)
        if (compiled->functions.items[p] == compiled->steps.items[w->step].function) w->plan = p;
    return NULL;
}

/* The step as written, with nudge `number`, or 0; or else its plan. */
static dt_status *run(const work *w, const dt_check_data *data, bool as_written, int number, dt_check_outcome *outcome) {
    const dt_module *module = as_written ? w->written : w->compiled.module;
    const dt_function *function = module->steps.items[w->step].function;
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = w->rows,
                        .valid = w->rows,
                        .global_batch = w->rows,
                        .replicas = 1,
                        .epochs = 1,
                        .steps_per_epoch = 1,
                        .seed = 1,
                        .bad_index = &bad_index};
    dt_tensor *inputs = DT_NEW_ARRAY(w->arena, dt_tensor, function->inputs.n);
    *outcome = (dt_check_outcome){DT_NEW_ARRAY(w->arena, dt_tensor, function->results.n), dt_check_memory(w->arena, w->check, w->check->module)};
    for (size_t i = 0; i < function->inputs.n; i++) {
        inputs[i] = dt_check_input(w->arena, data, function->inputs.items[i], (int)i, 0, w->rows);
        dt_check_nudge(&inputs[i], number, w->roundings.nudge);
    }
    for (size_t v = 0; v < module->variables.n; v++) dt_check_nudge(&outcome->memory.variables[v], number, w->roundings.nudge);
    if (as_written) return dt_interpret(w->arena, function, &launch, inputs, &outcome->memory, outcome->results);
    return dt_plan_execute(w->arena, &(dt_plan_run){.plan = w->compiled.plans[w->plan],
                                                    .n_replicas = 1,
                                                    .launches = &launch,
                                                    .inputs = inputs,
                                                    .memory = &outcome->memory,
                                                    .results = outcome->results});
}

static const dt_tensor *tensor_of(const dt_check_outcome *outcome, size_t n_results, size_t i) {
    return i < n_results ? &outcome->results[i] : &outcome->memory.variables[i - n_results];
}

static void compare(const work *w, const dt_check_outcome *written, const dt_check_outcome *compiled, const double *nudged) {
    const dt_function *function = w->written->steps.items[w->step].function;
    size_t n_results = function->results.n;
    dt_finding *finding = w->finding;
    *finding = (dt_finding){.n = finding->n, .location.file = -1};
    for (size_t i = 0; i < (size_t)finding->n; i++) {
        const char *what = i < n_results ? function->results.items[i].name : w->written->variables.items[i - n_results].path;
        dt_check_compare(finding, w->roundings.tolerance, what, tensor_of(written, n_results, i), 0, tensor_of(compiled, n_results, i),
                         MOST_NUDGED * nudged[i]);
    }
}

static dt_status *check_with(const work *w, dt_check_data data) {
    dt_check_outcome written, compiled, other;
    size_t n_results = w->written->steps.items[w->step].function->results.n;
    double *nudged = DT_NEW_ARRAY(w->arena, double, w->finding->n);
    DT_TRY(run(w, &data, true, 0, &written));
    DT_TRY(run(w, &data, false, 0, &compiled));
    compare(w, &written, &compiled, nudged);
    for (int number = 1; number <= N_NUDGES && w->finding->wrong; number++) {
        DT_TRY(run(w, &data, true, number, &other));
        for (size_t i = 0; i < (size_t)w->finding->n; i++)
            nudged[i] = fmax(nudged[i], dt_check_largest_difference(tensor_of(&written, n_results, i), tensor_of(&other, n_results, i)));
        if (number == N_NUDGES) compare(w, &written, &compiled, nudged);
    }
    return NULL;
}

dt_status *dt_check_passes(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding) {
    const dt_module *module = check->module;
    const dt_function *function = module->steps.items[step].function;
    work w = {.arena = arena, .check = check, .step = step, .rows = rows, .finding = finding};
    bool has_narrow;
    *finding = (dt_finding){.n = (int)(function->results.n + module->variables.n), .location.file = -1};
    w.roundings = roundings_of(function, &has_narrow);
    if (work_of(module, dt_flops_of_function(arena, function), rows) > MOST_WORK) {
        finding->is_left_out = true;
        return NULL;
    }
    DT_TRY(make(&w, module));
    DT_TRY(dt_check_tell(check, 0.3));
    dt_check_data data = dt_check_data_of(arena, function, DT_CHECK_PLAIN);
    DT_TRY(check_with(&w, data));
    if (finding->wrong || !has_narrow) return NULL;
    dt_finding plain = *finding;
    data.kind = DT_CHECK_LARGE;
    DT_TRY(check_with(&w, data));
    if (!finding->wrong && plain.worst > finding->worst) *finding = plain;
    return NULL;
}
