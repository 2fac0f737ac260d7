/* execute PROGRAM.dtx STEP IN.safetensors OUT.safetensors: steps of an artifact as its compiled code runs them, on any number of replicas and
 * devices.
 *
 * The twin of tests/tools/interpret.c: the same files in, the same files out, so that a test compares two files. The global batch is --rows (by
 * default all rows, rounded up to a multiple of the replicas), dealt to --replicas evenly: the last replicas may get no valid row. */
#include "runtime/execution/ranges.h"
#include "tests/support/recording.h"

#include <stdio.h>

typedef struct options {
    dt_recording_options common; /* first: dt_recording_parse fills it in */
    int64_t replicas;
    const char *devices, *level;
} options;

typedef struct run {
    dt_arena *arena;
    const options *options;
    const dt_artifact *artifact;
    const dt_kernels *kernels;
    dt_session *session;
    dt_reports *reports;
    int step;
    const dt_artifact_function *function;
    const dt_safetensors *given;
    const dt_safetensor **inputs; /* [function->n_inputs] */
    dt_cut cut;
    dt_recording recording;
} run;

static dt_status *find_step(run *run, const char *name) {
    run->step = dt_artifact_find_step(run->artifact, name);
    if (run->step < 0) return dt_error(DT_NOT_FOUND, "there is no step %s", name);
    run->function = &run->artifact->functions[run->artifact->steps[run->step].function];
    return NULL;
}

static dt_status *find_inputs(run *run) {
    run->inputs = DT_NEW_ARRAY(run->arena, const dt_safetensor *, run->function->n_inputs);
    run->cut.rows = run->options->common.rows;
    for (int i = 0; i < run->function->n_inputs; i++) {
        const dt_artifact_tensor *input = &run->function->inputs[i];
        int skip = input->has_rows;
        DT_TRY(dt_recorded_input(run->given, input->name, input->dtype, input->n_dims - skip, input->dims + skip, &run->inputs[i]));
        DT_TRY(dt_cut_add(&run->cut, run->inputs[i], skip));
    }
    if (run->cut.n_steps == 0) run->cut.n_steps = 1;
    return NULL;
}

static dt_status *start(run *run) {
    dt_session_options options = dt_session_options_default();
    options.devices = run->options->devices;
    options.replicas = run->options->replicas;
    options.rows = (run->cut.rows + options.replicas - 1) / options.replicas;
    options.seed = run->options->common.seed;
    options.epochs = run->options->common.epochs;
    options.steps_per_epoch = run->cut.n_steps;
    DT_TRY(dt_session_create(run->kernels, &options, &run->session));
    DT_TRY(dt_session_initialize(run->session));
    for (int i = 0; i < run->given->n; i++) {
        const dt_safetensor *tensor = &run->given->tensors[i];
        const char *path = dt_recorded_variable(tensor);
        int variable = path ? dt_artifact_find_variable(run->artifact, path) : -1;
        if (path == NULL) continue;
        if (variable < 0) return dt_error(DT_NOT_FOUND, "the program has no variable %s", path);
        if (run->artifact->variables[variable].tensor.dtype != tensor->dtype || run->artifact->variables[variable].bytes != tensor->n_bytes)
            return dt_error(DT_INVALID_ARGUMENT, "variable/%s is of another type or size than the program's", path);
        DT_TRY(dt_ranges_write(run->session, variable, dt_ranges_own(run->session, variable), tensor->data));
    }
    return NULL;
}

static dt_status *record_results(run *run, int64_t rows) {
    for (int i = run->artifact->steps[run->step].n_aggregates; i < run->function->n_results; i++) {
        const dt_artifact_tensor *tensor = &run->function->results[i].tensor;
        int64_t *dims = DT_NEW_ARRAY(run->arena, int64_t, tensor->n_dims);
        for (int d = 0; d < tensor->n_dims; d++) dims[d] = tensor->dims[d] < 0 ? rows : tensor->dims[d];
        char *data = dt_arena_new(run->arena, (size_t)(tensor->row_bytes * (tensor->has_rows ? rows : 1)));
        DT_TRY(dt_session_result(run->session, run->step, i, data));
        dt_record(run->arena, &run->recording, "result", tensor->name, tensor->dtype, tensor->has_rows, tensor->n_dims, dims, data);
    }
    return NULL;
}

static dt_status *run_step(run *run, int64_t step) {
    int64_t rows = dt_cut_rows(&run->cut, step);
    const void **inputs = DT_NEW_ARRAY(run->arena, const void *, run->function->n_inputs);
    for (int i = 0; i < run->function->n_inputs; i++) {
        const dt_artifact_tensor *input = &run->function->inputs[i];
        size_t n_bytes = (size_t)(input->row_bytes * (input->has_rows ? rows : 1));
        char *data = dt_arena_new(run->arena, n_bytes + DT_SLACK_BYTES);
        inputs[i] = memcpy(data, dt_cut_data(&run->cut, run->inputs[i], input->has_rows, step), n_bytes);
    }
    dt_total *aggregates = DT_NEW_ARRAY(run->arena, dt_total, dt_reports_n_totals(run->reports));
    double *values = DT_NEW_ARRAY(run->arena, double, dt_reports_n_values(run->reports));
    dt_batch batch = {.inputs = inputs, .rows = rows, .counter = step};
    DT_TRY(dt_session_run(run->session, run->step, &batch, aggregates));
    DT_TRY(dt_session_bad_index_status(run->session));
    dt_reports_evaluate(run->reports, aggregates, values);
    const dt_artifact_step *about = &run->artifact->steps[run->step];
    for (int i = 0; i < about->n_reports; i++) {
        const dt_artifact_tensor *tensor = &run->artifact->functions[about->report].results[i].tensor;
        dt_record(run->arena, &run->recording, "report", about->reports[i], DT_F64, false, tensor->n_dims, tensor->dims,
                  &values[about->report_starts[i]]);
    }
    return record_results(run, rows);
}

/* The variables as the first device holds them; the others must hold the same bits. */
static dt_status *record_variables(run *run) {
    for (int i = 0; i < run->artifact->n_variables; i++) {
        const dt_artifact_variable *variable = &run->artifact->variables[i];
        char *first = dt_arena_new(run->arena, (size_t)variable->bytes), *other = dt_arena_new(run->arena, (size_t)variable->bytes);
        DT_TRY(dt_ranges_read(run->session, 0, i, dt_ranges_own(run->session, i), first));
        for (int device = 1; device < dt_session_n_devices(run->session); device++) {
            DT_TRY(dt_ranges_read(run->session, device, i, dt_ranges_own(run->session, i), other));
            if (memcmp(first, other, (size_t)variable->bytes) != 0)
                return dt_error(DT_INTERNAL, "%s differs between %s and %s", variable->path, dt_session_device_name(run->session, 0),
                                dt_session_device_name(run->session, device));
        }
        const dt_artifact_tensor *tensor = &variable->tensor;
        dt_record(run->arena, &run->recording, "variable", variable->path, tensor->dtype, tensor->n_dims > 0, tensor->n_dims, tensor->dims, first);
    }
    return NULL;
}

/* The first step says how all are cut. */
static dt_status *run_named(run *run, const char *step) {
    DT_TRY(find_step(run, step));
    DT_TRY(find_inputs(run));
    if (run->session == NULL) DT_TRY(start(run));
    dt_reports_destroy(run->reports);
    run->reports = NULL;
    DT_TRY(dt_reports_create(run->kernels, run->step, &run->reports));
    for (int64_t i = 0; i < run->cut.n_steps; i++) DT_TRY(run_step(run, i));
    return NULL;
}

static dt_status *run_all(run *run) {
    const char *const *files = run->options->common.files;
    char *rest = dt_arena_string(run->arena, files[1]);
    for (char *name = strtok_r(rest, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) DT_TRY(run_named(run, name));
    DT_TRY(record_variables(run));
    return dt_recording_write(run->arena, &run->recording, files[3]);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case 'v': options->replicas = strtoll(argument, NULL, 10); return 0;
    case 'd': options->devices = argument; return 0;
    case 'l': options->level = argument; return 0;
    default: return dt_recording_parse(key, argument, state);
    }
}

static dt_status *run_artifact(const options *options, dt_arena *arena) {
    dt_artifact *artifact = NULL;
    dt_kernels *kernels = NULL;
    dt_safetensors *given = NULL;
    char *bytes = NULL;
    dt_status *status = dt_artifact_open(options->common.files[0], &artifact);
    if (status == NULL) status = dt_kernels_load(artifact, &(dt_kernels_options){.level = options->level}, &kernels);
    if (status == NULL) status = dt_recording_read(options->common.files[2], &bytes, &given);
    run run = {.arena = arena, .options = options, .artifact = artifact, .kernels = kernels, .given = given};
    if (status == NULL) status = run_all(&run);
    dt_reports_destroy(run.reports);
    dt_session_destroy(run.session);
    dt_safetensors_free(given);
    free(bytes);
    dt_kernels_free(kernels);
    dt_artifact_close(artifact);
    return status;
}

int main(int argc, char **argv) {
    static const struct argp_option rows[] = {
        DT_RECORDING_ROWS,
        {"replicas", 'v', "V", 0, "Replicas (default: 1)", 0},
        {"devices", 'd', "SPEC", 0, "Devices, as dtrun takes them (default: cpu:1)", 0},
        {"level", 'l', "LEVEL", 0, "Instruction set (default: the best one)", 0},
        {0},
    };
    static const struct argp argp = {rows, parse, "PROGRAM.dtx STEP IN.safetensors OUT.safetensors", NULL, NULL, NULL, NULL};
    options options = {.common.epochs = 1, .replicas = 1, .devices = "cpu:1"};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    dt_arena *arena = dt_arena_create();
    dt_status *status = run_artifact(&options, arena);
    if (status != NULL) fprintf(stderr, "execute: %s\n", dt_status_message(status));
    int code = status != NULL;
    dt_status_free(status);
    dt_arena_destroy(arena);
    return code;
}
