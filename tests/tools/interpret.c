/* interpret PROGRAM.dt STEP IN.safetensors OUT.safetensors: steps of a program as the reference interpreter runs them, over the global batch.
 * STEP,STEP: one after the other, on the same variables; their inputs and results are told apart by name alone.
 *
 * The oracle of the tests in e2e: nothing but front end, autodiff and interpreter is between the program and its numbers. tests/tools/execute.c does
 * the same with compiled code. IN and OUT are recordings (recording.h):
 *
 *   IN   input/NAME      what each input of the step is given
 *        variable/PATH   what a variable begins with; those that are not there are initialised by the program
 *   OUT  result/NAME     what the step returns
 *        report/NAME     f64 [steps]: each step's own report
 *        variable/PATH   what each variable holds in the end */
#include "ir/interpret.h"
#include "base/file.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "tests/support/recording.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct run {
    dt_arena *arena;
    const dt_recording_options *options;
    const dt_module *module;
    const dt_step *step;
    const dt_safetensors *given;
    const dt_safetensor **inputs; /* [n inputs of the step] */
    dt_cut cut;
    dt_memory memory;
    dt_recording recording;
} run;

static bool has_rows(const dt_value *value) { return value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH; }

static dt_status *compile(dt_arena *arena, const char *path, const char *source, dt_module **module) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_status *status = dt_dsl_compile(arena, path, source, NULL, diagnostics, module);
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (text.data) fputs(text.data, stderr);
    dt_text_free(&text);
    DT_TRY(status);
    if (*module == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s has mistakes", path);
    dt_compilation compilation = {.arena = arena, .module = *module, .off = DT_SWITCHES_OFF};
    status = dt_passes_run(&compilation, &(dt_passes_options){.stop_after = "autodiff"});
    return status;
}

static dt_status *find_step(run *run, const char *name) {
    run->step = NULL;
    for (size_t i = 0; i < run->module->steps.n; i++)
        if (strcmp(run->module->steps.items[i].name, name) == 0) run->step = &run->module->steps.items[i];
    return run->step ? NULL : dt_error(DT_NOT_FOUND, "there is no step %s", name);
}

static dt_status *find_inputs(run *run) {
    const dt_function *function = run->step->function;
    run->inputs = DT_NEW_ARRAY(run->arena, const dt_safetensor *, function->inputs.n);
    run->cut.rows = run->options->rows;
    for (size_t i = 0; i < function->inputs.n; i++) {
        const dt_value *input = function->inputs.items[i];
        int skip = has_rows(input);
        DT_TRY(dt_recorded_input(run->given, input->name, input->dtype, input->shape.rank - skip, input->shape.dims + skip, &run->inputs[i]));
        DT_TRY(dt_cut_add(&run->cut, run->inputs[i], skip));
    }
    if (run->cut.n_steps == 0) run->cut.n_steps = 1;
    return NULL;
}

/* The program's initial values, then those of the file. */
static dt_status *set_variables(run *run) {
    dt_bad_index bad_index = {0};
    dt_launch launch = {.replicas = 1, .seed = run->options->seed, .bad_index = &bad_index};
    run->memory = dt_memory_create(run->arena, run->module);
    for (size_t i = 0; i < run->module->functions.n; i++)
        if (run->module->functions.items[i]->role == DT_ROLE_INIT)
            DT_TRY(dt_interpret(run->arena, run->module->functions.items[i], &launch, NULL, &run->memory, NULL));
    for (int i = 0; i < run->given->n; i++) {
        const char *path = dt_recorded_variable(&run->given->tensors[i]);
        const dt_variable *variable = path ? dt_module_find_variable(run->module, path) : NULL;
        if (path == NULL) continue;
        if (variable == NULL) return dt_error(DT_NOT_FOUND, "the program has no variable %s", path);
        dt_tensor *tensor = &run->memory.variables[variable - run->module->variables.items];
        if (tensor->dtype != run->given->tensors[i].dtype || (int64_t)dt_tensor_bytes(tensor) != run->given->tensors[i].n_bytes)
            return dt_error(DT_INVALID_ARGUMENT, "variable/%s is of another type or size than the program's", path);
        memcpy(tensor->data, run->given->tensors[i].data, dt_tensor_bytes(tensor));
    }
    return NULL;
}

static dt_launch launch_of(const run *run, int64_t step, dt_bad_index *bad_index) {
    int64_t rows = dt_cut_rows(&run->cut, step);
    return (dt_launch){.rows = rows,
                       .valid = rows,
                       .global_batch = run->cut.rows,
                       .replicas = 1,
                       .epochs = run->options->epochs,
                       .steps_per_epoch = run->cut.n_steps,
                       .counter = step,
                       .seed = run->options->seed,
                       .bad_index = bad_index};
}

/* This step's reports, from its own aggregates. */
static dt_status *report(run *run, dt_arena *scratch, const dt_launch *launch, const dt_tensor *results) {
    const dt_function *function = run->step->report;
    if (function == NULL) return NULL;
    dt_tensor *totals = DT_NEW_ARRAY(scratch, dt_tensor, function->inputs.n), *reports = DT_NEW_ARRAY(scratch, dt_tensor, function->results.n);
    for (size_t i = 0; i < function->inputs.n; i++) {
        totals[i] = dt_tensor_make(scratch, DT_F64, results[i].shape);
        for (int64_t k = 0; k < dt_shape_elements(results[i].shape, 1, 1); k++) dt_tensor_set(&totals[i], k, dt_tensor_get(&results[i], k));
    }
    DT_TRY(dt_interpret(scratch, function, launch, totals, NULL, reports));
    for (size_t i = 0; i < function->results.n; i++)
        dt_record(run->arena, &run->recording, "report", function->results.items[i].name, DT_F64, false, reports[i].shape.rank, reports[i].shape.dims,
                  reports[i].data);
    return NULL;
}

static dt_status *run_step(run *run, dt_arena *scratch, int64_t step) {
    const dt_function *function = run->step->function;
    dt_bad_index bad_index = {0};
    dt_launch launch = launch_of(run, step, &bad_index);
    dt_tensor *inputs = DT_NEW_ARRAY(scratch, dt_tensor, function->inputs.n), *results = DT_NEW_ARRAY(scratch, dt_tensor, function->results.n);
    for (size_t i = 0; i < function->inputs.n; i++) {
        const dt_value *input = function->inputs.items[i];
        int64_t *dims = DT_NEW_ARRAY(scratch, int64_t, input->shape.rank);
        for (int d = 0; d < input->shape.rank; d++) dims[d] = input->shape.dims[d] == DT_BATCH ? launch.rows : input->shape.dims[d];
        inputs[i] = dt_tensor_make(scratch, input->dtype, (dt_shape){input->shape.rank, dims});
        memcpy(inputs[i].data, dt_cut_data(&run->cut, run->inputs[i], has_rows(input), step), dt_tensor_bytes(&inputs[i]));
    }
    DT_TRY(dt_interpret(scratch, function, &launch, inputs, &run->memory, results));
    if (bad_index.count > 0) return dt_error(DT_OUT_OF_RANGE, "step %lld: %lld indices out of range", (long long)step, (long long)bad_index.count);
    for (size_t i = (size_t)run->step->n_aggregates; i < function->results.n; i++) {
        const dt_result *result = &function->results.items[i];
        dt_record(run->arena, &run->recording, "result", result->name, results[i].dtype, has_rows(result->value), results[i].shape.rank,
                  results[i].shape.dims, results[i].data);
    }
    return report(run, scratch, &launch, results);
}

static dt_status *run_named(run *run, const char *step) {
    DT_TRY(find_step(run, step));
    DT_TRY(find_inputs(run));
    for (int64_t i = 0; i < run->cut.n_steps; i++) {
        dt_arena *scratch = dt_arena_create();
        dt_status *status = run_step(run, scratch, i);
        dt_arena_destroy(scratch);
        DT_TRY(status);
    }
    return NULL;
}

static dt_status *run_all(run *run) {
    const char *const *files = run->options->files;
    char *source;
    size_t n_bytes;
    dt_module *module;
    DT_TRY(dt_file_read(files[0], &source, &n_bytes));
    dt_status *status = compile(run->arena, files[0], source, &module);
    free(source);
    DT_TRY(status);
    run->module = module;
    DT_TRY(set_variables(run));
    char *rest = dt_arena_string(run->arena, files[1]);
    for (char *name = strtok_r(rest, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) DT_TRY(run_named(run, name));
    for (size_t i = 0; i < module->variables.n; i++) {
        const dt_tensor *tensor = &run->memory.variables[i];
        dt_record(run->arena, &run->recording, "variable", module->variables.items[i].path, tensor->dtype, tensor->shape.rank > 0, tensor->shape.rank,
                  tensor->shape.dims, tensor->data);
    }
    return dt_recording_write(run->arena, &run->recording, files[3]);
}

int main(int argc, char **argv) {
    static const struct argp_option rows[] = {
        DT_RECORDING_ROWS,
        {0},
    };
    static const struct argp argp = {rows, dt_recording_parse, "PROGRAM.dt STEP IN.safetensors OUT.safetensors", NULL, NULL, NULL, NULL};
    dt_recording_options options = {.epochs = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    dt_safetensors *given = NULL;
    char *bytes = NULL;
    run run = {.arena = dt_arena_create(), .options = &options};
    dt_status *status = dt_recording_read(options.files[2], &bytes, &given);
    run.given = given;
    if (status == NULL) status = run_all(&run);
    if (status != NULL) fprintf(stderr, "interpret: %s\n", dt_status_message(status));
    int code = status != NULL;
    dt_status_free(status);
    dt_safetensors_free(given);
    free(bytes);
    dt_arena_destroy(run.arena);
    return code;
}
