/* run: one microbatch through a plan in text form, by the naive executor: what code that was made of the plan is held against. */
#include "base/file.h"
#include "base/npy.h"
#include "base/options.h"
#include "compiler/api/api.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/execute.h"

#include <inttypes.h>
#include <string.h>

typedef struct job {
    dtc_run_options options;
    const dt_plan *plan;
    const dt_choices *choices; /* of the plan; NULL: it has none */
    dt_arena *arena;
    dt_npy file; /* being read */
} job;

/* ---- what goes in ---- */

/* Of a variable of which each shard has a part that of all of it. */
static dt_shape whole_shape(dt_arena *arena, const dt_buffer *buffer) {
    if (buffer->space != DT_MEMORY_VARIABLE || !buffer->sharded) return buffer->shape;
    int64_t *dims = dt_arena_copy(arena, buffer->shape.dims, (size_t)buffer->shape.rank * sizeof *dims);
    dims[buffer->split_axis] = buffer->split_extent;
    return (dt_shape){buffer->shape.rank, dims};
}

/* A tensor of that type, of a file; B in the shape is *rows, which the first file says that has one. */
static dt_status *read_tensor(dt_api_call *call, job *job, const char *path, const dt_buffer *buffer, int64_t *rows, dt_tensor *tensor) {
    dt_npy *file = &job->file;
    if (buffer->dtype == DT_BF16) return dt_error_in(DT_UNIMPLEMENTED, path, 0, "%s is bf16, which .npy files do not have", buffer->name);
    dt_shape shape = whole_shape(call->arena, buffer);
    dt_npy_free(file);
    DT_TRY(dt_npy_read(path, file));
    dt_text type = {.arena = call->arena};
    dt_shape_print(&type, buffer->dtype, shape);
    dt_dtype dtype = dt_dtype_from_numpy_name(file->header.type);
    if (dtype == DT_N_DTYPES) return dt_npy_refuse_type(path, &file->header);
    bool fits = file->header.n_dims == shape.rank && dtype == buffer->dtype;
    for (int d = 0; fits && d < shape.rank; d++) {
        int64_t dim = shape.dims[d], got = file->header.dims[d];
        if (dim == DT_BATCH && *rows < 0) *rows = got;
        fits = dim == DT_BATCH ? got == *rows : got == dim;
    }
    if (!fits) {
        dt_text got = {.arena = call->arena};
        dt_shape_print(&got, dtype, (dt_shape){file->header.n_dims, file->header.dims});
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is %s, and %s is %s%s", got.data, buffer->name, type.data,
                           *rows >= 0 ? dt_arena_format(call->arena, ", of as many rows as the inputs before it have: %" PRId64, *rows) : "");
    }
    if (*rows > job->plan->microbatch_rows)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "the plan has room for %" PRId64 " rows, not for %" PRId64, job->plan->microbatch_rows,
                           *rows);
    *tensor = dt_tensor_make(call->arena, buffer->dtype, dt_shape_make(call->arena, file->header.n_dims, file->header.dims));
    memcpy(tensor->data, file->elements, dt_tensor_bytes(tensor));
    return NULL;
}

/* The buffer of each of `n` inputs or variables; NULL: the plan does without it. */
static const dt_buffer **find_buffers(dt_arena *arena, const dt_plan *plan, dt_memory_space space, int n) {
    const dt_buffer **found = DT_NEW_ARRAY(arena, const dt_buffer *, n);
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[b];
        if (buffer->space == space && buffer->view == NULL) found[space == DT_MEMORY_INPUT ? buffer->input : buffer->variable] = buffer;
    }
    return found;
}

static dt_status *read_inputs(dt_api_call *call, job *job, const dt_buffer **buffers, int64_t *rows, dt_tensor **inputs) {
    const dtc_run_options *options = &job->options;
    dt_text names = {.arena = call->arena};
    int n = job->plan->n_inputs;
    for (int i = 0; i < n && i < 100; i++) /* enough to see what is meant */
        dt_text_format(&names, "%s%s", i > 0 ? ", " : "", buffers[i] != NULL ? buffers[i]->name : "one that is not read");
    if (options->n_inputs != (size_t)n)
        return dt_error(DT_INVALID_ARGUMENT, "the plan %s has %d input%s%s%s: name a file for each with --input", job->plan->name, n, dt_plural(n),
                        n > 0 ? ", " : "", n > 0 ? names.data : "");
    *inputs = DT_NEW_ARRAY(call->arena, dt_tensor, n);
    for (int i = 0; i < n; i++)
        if (buffers[i] != NULL) DT_TRY(read_tensor(call, job, options->inputs[i], buffers[i], rows, &(*inputs)[i]));
    return NULL;
}

static dt_status *read_variables(dt_api_call *call, job *job, const dt_buffer **buffers, int n, dt_memory *memory) {
    memory->variables = DT_NEW_ARRAY(call->arena, dt_tensor, n);
    int64_t rows = -1;
    for (int v = 0; v < n; v++)
        if (buffers[v] != NULL) memory->variables[v] = dt_tensor_make(call->arena, buffers[v]->dtype, whole_shape(call->arena, buffers[v]));
    for (size_t i = 0; i < job->options.n_variables; i++) {
        const dtc_define *said = &job->options.variables[i];
        int v = 0;
        while (v < n && (buffers[v] == NULL || strcmp(buffers[v]->name, said->name) != 0)) v++;
        if (v == n) return dt_error(DT_NOT_FOUND, "--variable %s: the plan %s has no variable of that name", said->name, job->plan->name);
        DT_TRY(read_tensor(call, job, said->value, buffers[v], &rows, &memory->variables[v]));
    }
    return NULL;
}

/* ---- what comes out ---- */

/* FOLDER/NAME.npy; a path's / is a dot there. */
static dt_status *write_tensor(dt_api_call *call, const job *job, const char *name, const dt_tensor *tensor) {
    char *file = dt_arena_string(call->arena, name);
    for (char *c = file; *c; c++)
        if (*c == '/') *c = '.';
    dt_tensor written = *tensor;
    if (tensor->dtype == DT_BF16) written = dt_tensor_make(call->arena, DT_F32, tensor->shape); /* NumPy has no bf16 */
    for (size_t i = 0; tensor->dtype == DT_BF16 && i < dt_tensor_elements(tensor); i++) dt_tensor_set(&written, i, dt_tensor_get(tensor, i));
    return dt_npy_write(dt_arena_format(call->arena, "%s/%s.npy", job->options.output, file), dt_dtype_numpy_name(written.dtype), written.shape.rank,
                        written.shape.dims, written.data);
}

static bool is_written(const dt_plan *plan, const dt_buffer *variable) {
    for (int k = 0; k < plan->n_kernels; k++)
        if (dt_kernel_stores_to(&plan->kernels[k], (int)(variable - plan->buffers))) return true;
    return false;
}

static void run_kernel(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    const job *job = context;
    dt_kernel_execute(job->arena, plan, &plan->kernels[kernel], job->choices, buffers, launch);
}

static dt_status *run_plan(dt_api_call *call, job *job) {
    const dt_plan *plan = job->plan;
    int n_variables = dt_plan_n_arguments(plan, DT_MEMORY_VARIABLE);
    const dt_buffer **inputs = find_buffers(call->arena, plan, DT_MEMORY_INPUT, plan->n_inputs);
    const dt_buffer **variables = find_buffers(call->arena, plan, DT_MEMORY_VARIABLE, n_variables);
    dt_tensor *read, *results = DT_NEW_ARRAY(call->arena, dt_tensor, plan->n_results);
    dt_memory memory;
    int64_t rows = -1;
    DT_TRY(read_inputs(call, job, inputs, &rows, &read));
    DT_TRY(read_variables(call, job, variables, n_variables, &memory));
    if (rows < 0) rows = dt_function_role_has_rows(plan->role) ? plan->microbatch_rows : 0;
    dt_bad_index bad = {0};
    dt_launch launch = {.rows = rows, .valid = rows, .global_batch = plan->capacity, .replicas = 1, .epochs = 1, .steps_per_epoch = 1};
    launch.counter = job->options.counter;
    launch.seed = job->options.seed;
    launch.bad_index = &bad;
    DT_TRY(dt_plan_execute(call->arena, &(dt_plan_run){.plan = plan,
                                                       .runner = run_kernel,
                                                       .context = job,
                                                       .n_replicas = 1,
                                                       .launches = &launch,
                                                       .inputs = read,
                                                       .memory = &memory,
                                                       .results = results}));
    if (bad.count > 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%" PRId64 " indices are out of range; the first, of row %" PRId64 ", is %" PRId64 ", and is to be below %" PRId64, bad.count,
                        bad.row, bad.value, bad.limit);
    DT_TRY(dt_file_make_folders(job->options.output));
    for (int r = 0; r < plan->n_results; r++) DT_TRY(write_tensor(call, job, plan->results[r].name, &results[r]));
    for (int v = 0; v < n_variables; v++)
        if (variables[v] != NULL && is_written(plan, variables[v])) DT_TRY(write_tensor(call, job, variables[v]->name, &memory.variables[v]));
    return NULL;
}

/* ---- the call ---- */

/* The plan that is asked for, or the only one. */
static dt_status *find_plan(const dt_api_call *call, job *job, const dt_plan_sets *sets) {
    dt_text names = {.arena = call->arena};
    const char *wanted = job->options.plan;
    int n = 0;
    for (int s = 0; s < sets->n; s++)
        for (int p = 0; p < sets->items[s].n_plans; p++) {
            const dt_plan *plan = sets->items[s].plans[p];
            dt_text_format(&names, "%s%s", n++ > 0 ? ", " : "", plan->name);
            if (job->plan != NULL || (wanted != NULL && strcmp(plan->name, wanted) != 0)) continue;
            job->plan = plan;
            job->choices = sets->items[s].choices;
        }
    if (wanted == NULL && n > 1)
        return dt_error(DT_INVALID_ARGUMENT, "%s has the plans %s: say with --plan which one to run", call->program.path, names.data);
    if (job->plan == NULL) return dt_error(DT_NOT_FOUND, "%s has no plan %s; it has %s", call->program.path, wanted, names.data);
    return dt_api_check_placed(call, job->plan);
}

static dt_status *work(dt_api_call *call, void *context) {
    job *job = context;
    dt_plan_sets sets;
    job->arena = call->arena;
    if (job->options.output == NULL) return dt_error(DT_INVALID_ARGUMENT, "dtc_run_options.output: a folder is needed for what comes out");
    DT_TRY(dt_api_load_plans(call, &sets));
    DT_TRY(find_plan(call, job, &sets));
    return run_plan(call, job);
}

dt_status *dtc_run_plan(const dtc_program *program, const dtc_run_options *options) {
    job job = {0};
    DT_TRY(dt_options_read(options, &job.options, sizeof job.options, "dtc_run_options"));
    dt_status *status = dt_api_run(program, work, &job);
    dt_npy_free(&job.file);
    return status;
}
