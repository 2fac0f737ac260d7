/* numerics: see numerics.h. */
#include "runtime/execution/numerics.h"

#include "runtime/execution/shard_pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t AFTER_KERNELS = INT32_MAX; /* the position of sums */

/* ---- looking ---- */

static double element_of(dt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case DT_F32: return (double)((const float *)data)[i];
    case DT_F64: return ((const double *)data)[i];
    case DT_BF16:
    case DT_F16: {
        uint16_t bits = ((const uint16_t *)data)[i], infinite = dtype == DT_F16 ? 0x7c00 : 0x7f80;
        if ((bits & infinite) != infinite) return 0; /* whatever it is, it is finite */
        return (bits & 0x7fff) > infinite ? NAN : (bits & 0x8000) != 0 ? -INFINITY : INFINITY;
    }
    default: return 0;
    }
}

/* Bytes from the beginning to element i, of rows of which there are so many. */
static int64_t offset_of(const dt_artifact *artifact, const dt_artifact_tensor *tensor, const int64_t *strides, int64_t i, int64_t n_rows) {
    int64_t offset = 0;
    for (int d = tensor->n_dims - 1; d >= 0; d--) {
        int64_t extent = tensor->dims[d] >= 0 ? tensor->dims[d] : d == 0 ? n_rows : artifact->microbatch_rows;
        offset += i % extent * strides[d];
        i /= extent;
    }
    return offset;
}

/* The first of n elements that is not finite; -1: all are. strides NULL: they lie side by side. */
static int64_t find(const dt_artifact *artifact, const dt_artifact_tensor *tensor, const int64_t *strides, const char *data, int64_t n,
                    int64_t n_rows, double *value) {
    size_t bytes = dt_dtype_bytes(tensor->dtype);
    if (!dt_dtype_is_float(tensor->dtype)) return -1;
    for (int64_t i = 0; i < n; i++) {
        *value = element_of(tensor->dtype, data + (strides == NULL ? i * (int64_t)bytes : offset_of(artifact, tensor, strides, i, n_rows)), 0);
        if (!isfinite(*value)) return i;
    }
    return -1;
}

const dt_numerics *dt_numerics_first(const dt_numerics *one, const dt_numerics *other) {
    if (one->place == DT_NUMERICS_FINITE || other->place == DT_NUMERICS_FINITE) return one->place != DT_NUMERICS_FINITE ? one : other;
    if (one->segment != other->segment) return one->segment < other->segment ? one : other;
    if (one->position != other->position) return one->position < other->position ? one : other;
    if (one->place == DT_NUMERICS_VARIABLE) return one->element <= other->element ? one : other; /* processes may have shards of it */
    return one->microbatch <= other->microbatch ? one : other;
}

/* Rows of `tensor`, from `first_row` of the global batch on, are looked at on behalf of `what`, which is complete but for the element: that is where
 * they begin. */
static void look(dt_executor *executor, dt_numerics what, const dt_artifact_tensor *tensor, const int64_t *strides, const void *data, int64_t n_rows,
                 int64_t first_row) {
    if (dt_numerics_first(executor->numerics, &what) == executor->numerics && executor->numerics->place != DT_NUMERICS_FINITE) return;
    int64_t a_row = tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype), n = tensor->has_rows ? n_rows * a_row : a_row;
    int64_t at = find(executor->memory.artifact, tensor, strides, data, n, n_rows, &what.value);
    if (at < 0) return;
    what.row = tensor->has_rows ? first_row + at / a_row : first_row;
    what.n_rows = tensor->has_rows ? 1 : n_rows;
    what.element += tensor->has_rows ? at % a_row : at;
    *executor->numerics = what;
}

/* The same of a part of a tensor without rows, side by side. */
static void look_at_part(dt_executor *executor, dt_numerics what, const dt_artifact_tensor *tensor, const char *data, dt_byte_range part) {
    dt_artifact_tensor own = *tensor;
    own.row_bytes = part.n_bytes;
    what.element = part.first / (int64_t)dt_dtype_bytes(tensor->dtype);
    look(executor, what, &own, NULL, data + part.first, 0, 0);
}

/* What the domain has of a variable. */
static void look_at_variable(dt_executor *executor, int v) {
    const dt_memory_domain *domain = executor->memory.domain;
    const dt_artifact_variable *variable = &executor->memory.artifact->variables[v];
    dt_numerics what = {.place = DT_NUMERICS_VARIABLE, .segment = -1, .position = v, .index = v};
    dt_byte_range own = dt_state_layout_share(&domain->layout, executor->memory.artifact, variable);
    dt_shard_piece piece;
    for (int64_t first = 0; first < variable->bytes; first += piece.n_bytes) {
        bool is_own;
        dt_byte_range left = {first, variable->bytes - first};
        piece = dt_shard_piece_of(variable, executor->memory.artifact->n_shards, left, own, &is_own);
        int held = variable->split.groups > 0 ? dt_memory_domain_find_shard(domain, piece.shard) : 0;
        if (held < 0 || !is_own) continue;
        const char *data = dt_memory_domain_variable(domain, v, held) + piece.at;
        look_at_part(executor, what, &variable->tensor, data - first, (dt_byte_range){first, piece.n_bytes});
    }
}

void dt_numerics_begin(dt_executor *executor, const dt_run_values *values) {
    const dt_executor_memory *memory = &executor->memory;
    const dt_artifact *artifact = memory->artifact;
    const dt_artifact_function *function = &artifact->functions[values->function];
    int64_t n_rows = 0;
    *executor->numerics = (dt_numerics){.place = DT_NUMERICS_FINITE};
    for (int m = 0; m < memory->n_microbatches; m++)
        n_rows += dt_microbatches_valid_rows(&memory->rows, memory->first_microbatch + m, values->launch.valid);
    for (int i = 0; i < function->n_inputs; i++)
        look(executor, (dt_numerics){.place = DT_NUMERICS_INPUT, .segment = -2, .position = i, .index = i}, &function->inputs[i], NULL,
             values->inputs[i], n_rows, executor->first_row);
    for (int v = 0; v < artifact->n_variables && function->role != DT_ROLE_INIT; v++)
        if (!artifact->variables[v].by_rows && dt_memory_domain_has_variable(memory->domain, v)) look_at_variable(executor, v);
}

/* How a buffer of the kernel is cut of which each process writes its share, where they share out the update; unit 0: it is not. */
static dt_share share_of(const dt_artifact *artifact, const dt_artifact_kernel *kernel, const dt_artifact_buffer *buffers, int buffer) {
    for (int g = 0; g < kernel->n_gathers; g++)
        if (kernel->gathers[g].buffer == buffer) return kernel->gathers[g].share;
    return buffers[buffer].space == DT_MEMORY_VARIABLE ? artifact->variables[buffers[buffer].variable].share : (dt_share){0};
}

/* Whether an update that is shared out may keep its own share alone there. What goes wrong in it is in what is written of it as well. */
static bool may_be_cut(const dt_artifact_kernel *kernel, const dt_artifact_buffer *buffer) {
    return kernel->divided && buffer->space == DT_MEMORY_DEVICE && buffer->bytes >= DT_SHARE_LEAST * (int64_t)dt_dtype_bytes(buffer->tensor.dtype);
}

static void look_at_buffer(dt_executor *executor, dt_numerics what, const dt_operation_launch *launch, int i) {
    const dt_artifact *artifact = executor->memory.artifact;
    const dt_artifact_function *function = &artifact->functions[launch->function];
    const dt_artifact_kernel *kernel = &function->kernels[launch->kernel];
    const dt_artifact_buffer *buffer = &function->buffers[kernel->buffers[i]];
    const dt_memory_domain *domain = executor->memory.domain;
    const dt_launch *values = launch->values;
    bool has_all = buffer->tensor.has_all_rows, is_cut = domain->layout.slots.n_shares != 1;
    dt_share share = share_of(artifact, kernel, function->buffers, kernel->buffers[i]);
    int64_t n_rows = has_all ? values->valid : kernel->once ? 0 : values->rows;
    if (is_cut && share.unit > 0)
        look_at_part(executor, what, &buffer->tensor, launch->buffers[i], dt_memory_share_of_tensor(share, &buffer->tensor, domain->layout.slots));
    else if (!is_cut || !may_be_cut(kernel, buffer))
        look(executor, what, &buffer->tensor, buffer->view != NULL ? buffer->view->strides : NULL, launch->buffers[i], n_rows,
             has_all ? 0 : values->row_offset);
}

/* All buffers of the kernel hold something by now; those that it only reads were looked at when they were written. A microbatch without rows leaves
 * what reductions of nothing are: infinite, of a maximum. */
static void look_at_launch(dt_executor *executor, const dt_operation_launch *launch) {
    const dt_artifact_function *function = &executor->memory.artifact->functions[launch->function];
    const dt_artifact_kernel *kernel = &function->kernels[launch->kernel];
    const dt_launch *values = launch->values;
    dt_numerics what = {.place = DT_NUMERICS_KERNEL, .segment = launch->segment, .position = launch->position, .index = launch->kernel};
    what.iteration = launch->iteration;
    what.microbatch = executor->memory.first_microbatch + dt_executor_memory_microbatch_of(&executor->memory, values - executor->launches);
    what.shard = kernel->sharded ? values->shard : -1;
    if (!kernel->once && values->rows == 0 && function->role == DT_ROLE_STEP) return;
    for (int i = 0; i < kernel->n_buffers; i++) {
        const dt_artifact_buffer *buffer = &function->buffers[kernel->buffers[i]];
        if (buffer->space == DT_MEMORY_INPUT || buffer->space == DT_MEMORY_CONSTANT) continue;
        if (launch->buffers[i] == NULL) continue; /* another stage has it */
        what.variable = buffer->space == DT_MEMORY_VARIABLE ? buffer->variable : -1;
        look_at_buffer(executor, what, launch, i);
    }
}

/* What is combined of the shards' values of a tensor: of one with rows those that are valid. */
static void look_at_shards(dt_executor *executor, const dt_operation_reduce *reduce) {
    const dt_tree_reduction *one = &reduce->reductions[0];
    const dt_over_shards *over = reduce->over_shards;
    bool is_once = over->position < 0;
    dt_numerics what = {
        .place = DT_NUMERICS_SHARDS_SUM, .segment = over->segment, .position = is_once ? AFTER_KERNELS : over->position, .variable = -1};
    snprintf(what.label, sizeof what.label, "%s", over->label);
    bool has_all = over->tensor->has_all_rows, has_own = over->tensor->has_rows && !has_all;
    int m = dt_executor_memory_microbatch_of(&executor->memory, over->values - executor->launches);
    what.microbatch = is_once ? 0 : executor->memory.first_microbatch + m;
    int64_t n_rows = has_all ? over->values->valid : has_own ? over->values->rows : 0;
    if (one->combine == DT_REDUCTION_SUM) look(executor, what, over->tensor, NULL, one->targets[0], n_rows, has_own ? over->values->row_offset : 0);
}

static void look_at_sums(dt_executor *executor, const dt_operation_reduce *reduce, const char *label, int segment) {
    dt_numerics what = {.place = DT_NUMERICS_SUM, .segment = segment, .position = AFTER_KERNELS, .variable = -1};
    if (reduce->over_shards != NULL) {
        if (!reduce->over_shards->is_on_the_way) look_at_shards(executor, reduce);
        return;
    }
    snprintf(what.label, sizeof what.label, "%s", label != NULL ? label : "");
    for (int r = 0; r < reduce->n; r++) {
        const dt_tree_reduction *one = &reduce->reductions[r];
        dt_artifact_tensor tensor = {.dtype = one->wide_targets ? DT_F32 : one->dtype};
        tensor.row_bytes = (int64_t)(one->n_elements * dt_dtype_bytes(tensor.dtype));
        if (one->combine == DT_REDUCTION_SUM && one->n_sources > 1) look(executor, what, &tensor, NULL, one->targets[0], 0, 0);
    }
}

dt_status *dt_numerics_run(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context) {
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        const dt_sequence alone = {.name = sequence->name, .n_operations = 1, .operations = one};
        DT_TRY(dt_device_enqueue(executor->device, &alone));
        if (one->kind == DT_OPERATION_LAUNCH) look_at_launch(executor, &one->launch);
        if (one->kind == DT_OPERATION_REDUCE) look_at_sums(executor, &one->reduce, label, context->segment);
    }
    return NULL;
}

/* ---- saying ---- */

static const char *name_of(double value) { return isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity"; }

/* The place of a kernel is its first line: of "net.dt:12, 17" the 12. */
static dt_status *at_first_line(dt_status *status, const char *lines) {
    char file[256];
    const char *colon = strchr(lines, ':');
    if (colon == NULL || (size_t)(colon - lines) >= sizeof file) return status;
    snprintf(file, sizeof file, "%.*s", (int)(colon - lines), lines);
    return dt_status_at(status, file, atoi(colon + 1), 0);
}

dt_status *dt_numerics_status(const dt_numerics *found, const dt_artifact *artifact, const dt_run_values *values) {
    const dt_artifact_function *function = &artifact->functions[values->function];
    char where[224], row[64] = "", iteration[32] = "", shard[32] = "";
    if (found->place == DT_NUMERICS_FINITE) return NULL;
    if (found->n_rows == 1) snprintf(row, sizeof row, ", row %" PRId64, found->row);
    if (found->n_rows > 1) snprintf(row, sizeof row, ", rows %" PRId64 " to %" PRId64, found->row, found->row + found->n_rows - 1);
    if (found->place == DT_NUMERICS_KERNEL && found->iteration >= 0) snprintf(iteration, sizeof iteration, ", iteration %" PRId64, found->iteration);
    if (found->place == DT_NUMERICS_KERNEL && found->shard >= 0) snprintf(shard, sizeof shard, ", shard %" PRId64, found->shard);
    snprintf(where, sizeof where, "%.80s step %" PRId64 "%s%s%s", values->step, values->launch.counter + 1, row, shard, iteration);
    if (function->role == DT_ROLE_INIT) snprintf(where, sizeof where, "the initial values");
    const char *name = name_of(found->value);
    switch (found->place) {
    case DT_NUMERICS_INPUT:
        return dt_error(DT_OUT_OF_RANGE, "%s: input %s holds %s (element %" PRId64 "): it is in the data, before any kernel", where,
                        function->inputs[found->index].name, name, found->element);
    case DT_NUMERICS_VARIABLE:
        return dt_status_about(dt_error(DT_OUT_OF_RANGE, "%s: variable %s holds %s (element %" PRId64 "): it was set to that before the step", where,
                                        artifact->variables[found->index].path, name, found->element),
                               artifact->variables[found->index].path);
    case DT_NUMERICS_SUM:
        return dt_error(DT_OUT_OF_RANGE, "%s: the sum over replicas of %s is %s (element %" PRId64 "), though what is added is finite: it overflows",
                        where, found->label, name, found->element);
    case DT_NUMERICS_SHARDS_SUM:
        return dt_error(DT_OUT_OF_RANGE, "%s: the sum over shards of %s is %s (element %" PRId64 "), though what is added is finite: it overflows",
                        where, found->label, name, found->element);
    default: break;
    }
    const dt_artifact_kernel *kernel = &function->kernels[found->index];
    const char *variable = found->variable >= 0 ? artifact->variables[found->variable].path : "";
    dt_status *status = dt_error(DT_OUT_OF_RANGE, "%s: kernel %s makes the first %s (element %" PRId64 "%s%s), of what stands in %s", where,
                                 kernel->name, name, found->element, *variable != 0 ? " of " : "", variable, kernel->lines);
    return at_first_line(dt_status_about(status, variable), kernel->lines);
}
