/* artifact_plan: one function of an artifact: its inputs, its results, and the plan that computes them. See artifact.h.
 *
 * What is checked here is what the executor relies on without a test: a kernel's buffers exist and lie within their spaces, a collective's two
 * sides fit each other, a result can be read from where it is said to be. What a kernel does inside its buffers is the compiler's promise. */
#include "runtime/artifact/artifact_reader.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

static bool is_step(const dt_artifact_function *function) { return dt_function_role_has_rows(function->role); }

/* ---- buffers ---- */

static dt_status *read_variable_buffer(dt_artifact_reader *reader, const dt_json *item, dt_artifact_buffer *buffer) {
    int64_t variable;
    DT_TRY(dt_json_integer(item, "variable", 0, reader->artifact->n_variables - 1, &variable));
    buffer->variable = (int)variable;
    const dt_artifact_variable *about = &reader->artifact->variables[variable];
    bool is_split = about->split.groups > 0;
    if (about->tensor.dtype != buffer->tensor.dtype ||
        dt_artifact_shard_bytes(reader->artifact, about) != dt_artifact_tensor_bytes(reader->artifact, &buffer->tensor))
        return dt_json_wrong(item, "not of the type and size of %s%s", is_split ? "a shard of " : "", about->path);
    if (buffer->sharded != is_split)
        return dt_json_wrong(item, "%s is %s, and the buffer is not", about->path, is_split ? "split over shards" : "the same for all shards");
    return NULL;
}

/* Absent: there is one for all shards. Functions outside of steps and initialisers know of no shards. */
static dt_status *read_sharded(const dt_artifact_reader *reader, const dt_json *item, dt_function_role role, bool *sharded) {
    *sharded = false;
    if (!dt_json_has(item, "sharded")) return NULL;
    DT_TRY(dt_json_bool(item, "sharded", sharded));
    if (!*sharded) return NULL;
    if (reader->artifact->n_shards == 1) return dt_json_wrong(item, "sharded, and the program has one shard");
    return role == DT_ROLE_INIT || dt_function_role_has_rows(role) ? NULL : dt_json_wrong(item, "only steps and initialisers have shards");
}

static dt_status *read_input_buffer(const dt_json *item, const dt_artifact_function *function, dt_artifact_buffer *buffer) {
    int64_t input;
    DT_TRY(dt_json_integer(item, "input", 0, function->n_inputs - 1, &input));
    buffer->input = (int)input;
    const dt_artifact_tensor *about = &function->inputs[input];
    if (about->dtype != buffer->tensor.dtype || about->row_bytes != buffer->tensor.row_bytes || about->has_rows != buffer->tensor.has_rows)
        return dt_json_wrong(item, "not of the type and shape of the input %s", about->name);
    return NULL;
}

/* offset and bytes of a buffer that the plan has placed in a space of `space_bytes`. */
static dt_status *read_place(const dt_json *item, int64_t space_bytes, dt_artifact_buffer *buffer) {
    DT_TRY(dt_json_integer(item, "offset", 0, DT_MOST_BYTES, &buffer->offset));
    if (buffer->offset % DT_BUFFER_ALIGNMENT != 0)
        return dt_json_wrong(item, "the offset %" PRId64 " is not a multiple of %d", buffer->offset, DT_BUFFER_ALIGNMENT);
    if (buffer->offset + buffer->bytes > space_bytes)
        return dt_json_wrong(item, "bytes %" PRId64 " to %" PRId64 " of a space of %" PRId64, buffer->offset, buffer->offset + buffer->bytes,
                             space_bytes);
    return NULL;
}

static dt_status *read_buffer(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function, dt_artifact_buffer *buffers) {
    int space, number = (int)item->index;
    dt_artifact_buffer *buffer = &buffers[number];
    DT_TRY(dt_artifact_read_tensor(reader, item, DT_ROWS_ANYWHERE, &buffer->tensor));
    DT_TRY(dt_json_word(item, "space", dt_memory_space_names(), DT_N_MEMORY_SPACES, &space));
    buffer->space = (dt_memory_space)space;
    buffer->root = number;
    buffer->variable = buffer->input = -1;
    DT_TRY(read_sharded(reader, item, function->role, &buffer->sharded));
    if (dt_json_has(item, "view")) return dt_artifact_read_view(reader, item, function, buffers, number);
    if (buffer->space == DT_MEMORY_VARIABLE && function->role != DT_ROLE_INIT && !is_step(function))
        return dt_json_wrong(item, "only a step reads variables");
    if (buffer->space == DT_MEMORY_VARIABLE) return read_variable_buffer(reader, item, buffer);
    if (buffer->sharded && (buffer->space == DT_MEMORY_INPUT || buffer->space == DT_MEMORY_CONSTANT))
        return dt_json_wrong(item, "all shards read the same inputs and constants");
    if (buffer->space == DT_MEMORY_INPUT) return read_input_buffer(item, function, buffer);
    DT_TRY(dt_json_integer(item, "bytes", dt_artifact_tensor_bytes(reader->artifact, &buffer->tensor), DT_MOST_BYTES, &buffer->bytes));
    if (buffer->tensor.has_rows && !is_step(function)) return dt_json_wrong(item, "only a step has rows");
    if (buffer->space == DT_MEMORY_CONSTANT) {
        if (reader->cuda != NULL) return dt_json_wrong(item, "a GPU's plan has no constants");
        if (buffer->tensor.has_rows) return dt_json_wrong(item, "a constant has no rows");
        return read_place(item, reader->artifact->constant_bytes, buffer);
    }
    bool own_rows = buffer->tensor.has_rows && !buffer->tensor.has_all_rows;
    if (buffer->space == DT_MEMORY_PARTIAL && (own_rows || !is_step(function)))
        return dt_json_wrong(item, "only what a step sums over replicas is partial");
    const dt_space_bytes *bytes = buffer->tensor.has_all_rows ? &function->gathered : &function->bytes;
    return read_place(item,
                      buffer->space == DT_MEMORY_DEVICE    ? bytes->device
                      : buffer->space == DT_MEMORY_REPLICA ? bytes->replica
                      : buffer->space == DT_MEMORY_PARTIAL ? bytes->partial
                                                           : bytes->scratch,
                      buffer);
}

static dt_status *read_space_bytes(const dt_json *object, dt_space_bytes *bytes) {
    DT_TRY(dt_json_integer(object, "device_bytes", 0, DT_MOST_BYTES, &bytes->device));
    DT_TRY(dt_json_integer(object, "replica_bytes", 0, DT_MOST_BYTES, &bytes->replica));
    DT_TRY(dt_json_integer(object, "partial_bytes", 0, DT_MOST_BYTES, &bytes->partial));
    return dt_json_integer(object, "scratch_bytes", 0, DT_MOST_BYTES, &bytes->scratch);
}

static dt_status *read_buffers(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function) {
    dt_json array, gathered;
    DT_TRY(read_space_bytes(plan, &function->bytes));
    DT_TRY(dt_json_member(plan, "gathered", &gathered));
    DT_TRY(read_space_bytes(&gathered, &function->gathered));
    DT_TRY(dt_json_array(plan, "buffers", &array, &function->n_buffers));
    dt_artifact_buffer *buffers = DT_NEW_ARRAY(reader->arena, dt_artifact_buffer, function->n_buffers);
    function->buffers = buffers;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        DT_TRY(read_buffer(reader, &item, function, buffers));
        if (dt_json_has(&item, "name")) {
            DT_TRY(dt_json_string(&item, "name", &buffers[item.index].tensor.name));
            buffers[item.index].tensor.name = dt_arena_string(reader->arena, buffers[item.index].tensor.name);
        }
    }
    return NULL;
}

/* ---- kernels ---- */

dt_status *dt_artifact_read_indices(dt_artifact_reader *reader, const dt_json *object, const char *key, int limit, int *n, const int **indices) {
    dt_json array;
    DT_TRY(dt_json_array(object, key, &array, n));
    int *copy = DT_NEW_ARRAY(reader->arena, int, *n);
    *indices = copy;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        int64_t index;
        DT_TRY(dt_json_as_integer(&item, 0, limit - 1, &index));
        copy[item.index] = (int)index;
    }
    return NULL;
}

/* What an artifact may say for people to read; absent is 0. */
static dt_status *read_amount(const dt_json *item, const char *key, double *amount) {
    if (!dt_json_has(item, key)) return NULL;
    DT_TRY(dt_json_number(item, key, amount));
    return *amount >= 0 && isfinite(*amount) ? NULL : dt_json_wrong(item, "\"%s\": %g is no amount", key, *amount);
}

dt_status *dt_artifact_read_share(const dt_json *object, int64_t n_elements, dt_share *share) {
    dt_json item;
    *share = (dt_share){0};
    if (!dt_json_has(object, "share")) return NULL;
    DT_TRY(dt_json_member(object, "share", &item));
    DT_TRY(dt_json_integer(&item, "unit", 1, DT_MOST_BYTES, &share->unit));
    DT_TRY(dt_json_integer(&item, "turn", 0, DT_MOST_BYTES, &share->turn));
    return n_elements > 0 ? NULL : dt_json_wrong(object, "it has no elements to share out");
}

static bool has_argument(const dt_artifact_kernel *kernel, int buffer) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (kernel->buffers[b] == buffer) return true;
    return false;
}

static dt_status *read_writes(dt_artifact_reader *reader, const dt_json *object, const dt_artifact_function *function, dt_artifact_kernel *kernel) {
    if (!dt_json_has(object, "writes")) return NULL;
    DT_TRY(dt_artifact_read_indices(reader, object, "writes", function->n_buffers, &kernel->n_writes, &kernel->writes));
    for (int w = 0; w < kernel->n_writes; w++) {
        const dt_artifact_buffer *buffer = &function->buffers[kernel->writes[w]];
        bool is_there_once = buffer->space == DT_MEMORY_DEVICE || buffer->space == DT_MEMORY_VARIABLE;
        if (!is_there_once || !has_argument(kernel, kernel->writes[w]))
            return dt_json_wrong(object, "\"writes\": %d is no buffer of the kernel's that is there once for all replicas", kernel->writes[w]);
        if (!kernel->once) return dt_json_wrong(object, "\"writes\": a kernel that runs for each replica writes nothing that is there once for all");
        if (kernel->sharded && !buffer->sharded)
            return dt_json_wrong(object, "\"writes\": a kernel that runs for each shard writes nothing that all shards have");
    }
    return NULL;
}

/* Places among the kernel's buffers become buffers. */
static dt_status *read_touched(dt_artifact_reader *reader, const dt_json *nest, const char *key, const dt_artifact_kernel *kernel, int *n,
                               const int **buffers) {
    const int *places;
    DT_TRY(dt_artifact_read_indices(reader, nest, key, kernel->n_buffers, n, &places));
    int *found = DT_NEW_ARRAY(reader->arena, int, *n);
    for (int i = 0; i < *n; i++) found[i] = kernel->buffers[places[i]];
    *buffers = found;
    return NULL;
}

static dt_status *read_nests(dt_artifact_reader *reader, const dt_json *object, dt_artifact_kernel *kernel) {
    dt_json array;
    if (!dt_json_has(object, "nests")) return NULL;
    DT_TRY(dt_json_array(object, "nests", &array, &kernel->n_nests));
    dt_artifact_nest *nests = DT_NEW_ARRAY(reader->arena, dt_artifact_nest, kernel->n_nests);
    kernel->nests = nests;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        DT_TRY(read_touched(reader, &item, "reads", kernel, &nests[item.index].n_reads, &nests[item.index].reads));
        DT_TRY(read_touched(reader, &item, "writes", kernel, &nests[item.index].n_writes, &nests[item.index].writes));
    }
    return NULL;
}

/* Whoever computes examples has room for all of it. */
static dt_status *read_gathers(dt_artifact_reader *reader, const dt_json *object, const dt_artifact_function *function, dt_artifact_kernel *kernel) {
    dt_json array;
    if (!dt_json_has(object, "gathers")) return NULL;
    DT_TRY(dt_json_array(object, "gathers", &array, &kernel->n_gathers));
    dt_artifact_gather *gathers = DT_NEW_ARRAY(reader->arena, dt_artifact_gather, kernel->n_gathers);
    kernel->gathers = gathers;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        int64_t number;
        DT_TRY(dt_json_integer(&item, "buffer", 0, function->n_buffers - 1, &number));
        const dt_artifact_buffer *buffer = &function->buffers[number];
        const dt_artifact_tensor *tensor = &buffer->tensor;
        dt_artifact_gather *gather = &gathers[item.index];
        gather->buffer = (int)number;
        DT_TRY(dt_artifact_read_share(&item, tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype), &gather->share));
        const dt_artifact_variable *variable = buffer->space == DT_MEMORY_VARIABLE ? &reader->artifact->variables[buffer->variable] : NULL;
        bool is_whole = buffer->space == DT_MEMORY_DEVICE || (variable != NULL && (variable->kind != DT_VARIABLE_SLOT || variable->share.unit == 0));
        if (buffer->view != NULL || gather->share.unit == 0 || tensor->has_rows || !is_whole || !kernel->divided)
            return dt_json_wrong(&item, "%s is nothing that processes gather", tensor->name != NULL ? tensor->name : "the buffer");
    }
    return NULL;
}

/* A kernel that runs once for all shards has no shard whose buffers it could touch. */
static dt_status *read_kernel_buffers(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                                      dt_artifact_kernel *kernel) {
    DT_TRY(read_sharded(reader, item, function->role, &kernel->sharded));
    DT_TRY(dt_artifact_read_indices(reader, item, "buffers", function->n_buffers, &kernel->n_buffers, &kernel->buffers));
    for (int b = 0; b < kernel->n_buffers && !kernel->sharded; b++)
        if (function->buffers[kernel->buffers[b]].sharded)
            return dt_json_wrong(item, "%s runs once for all shards, and its buffer %d is one shard's", kernel->name, kernel->buffers[b]);
    return NULL;
}

static dt_status *read_amounts(const dt_json *item, dt_artifact_amount *flops, dt_artifact_amount *bytes) {
    DT_TRY(read_amount(item, "flops_per_row", &flops->per_row));
    DT_TRY(read_amount(item, "flops_fixed", &flops->fixed));
    DT_TRY(read_amount(item, "bytes_per_row", &bytes->per_row));
    return read_amount(item, "bytes_fixed", &bytes->fixed);
}

static dt_status *read_kernels(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function) {
    dt_json array;
    DT_TRY(dt_json_array(plan, "kernels", &array, &function->n_kernels));
    dt_artifact_kernel *kernels = DT_NEW_ARRAY(reader->arena, dt_artifact_kernel, function->n_kernels);
    function->kernels = kernels;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_kernel *kernel = &kernels[item.index];
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &kernel->name));
        int64_t loop = -1;
        if (dt_json_has(&item, "loop")) DT_TRY(dt_json_integer(&item, "loop", 0, function->n_loops - 1, &loop));
        kernel->loop = (int)loop;
        int64_t layer = 0;
        if (dt_json_has(&item, "layer")) DT_TRY(dt_json_integer(&item, "layer", 1, function->n_kernels, &layer));
        kernel->layer = (int)layer;
        DT_TRY(dt_json_bool(&item, "once", &kernel->once));
        DT_TRY(dt_json_bool(&item, "divided", &kernel->divided));
        if (dt_json_has(&item, "for_examples")) DT_TRY(dt_json_bool(&item, "for_examples", &kernel->for_examples));
        if (kernel->divided && kernel->loop >= 0) return dt_json_wrong(&item, "a kernel in a loop is not divided");
        kernel->lines = "";
        if (dt_json_has(&item, "lines")) {
            DT_TRY(dt_json_string(&item, "lines", &kernel->lines));
            kernel->lines = dt_arena_string(reader->arena, kernel->lines);
        }
        DT_TRY(read_kernel_buffers(reader, &item, function, kernel));
        DT_TRY(read_writes(reader, &item, function, kernel));
        DT_TRY(read_nests(reader, &item, kernel));
        DT_TRY(read_gathers(reader, &item, function, kernel));
        DT_TRY(read_amounts(&item, &kernel->flops, &kernel->bytes));
        if (reader->cuda != NULL) DT_TRY(dt_artifact_read_launches(reader, &item, function, kernel));
    }
    return NULL;
}

static dt_status *read_string(dt_artifact_reader *reader, const dt_json *item, const char *key, const char **string) {
    DT_TRY(dt_json_string(item, key, string));
    *string = dt_arena_string(reader->arena, *string);
    return NULL;
}

static dt_status *read_timers(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function) {
    dt_json array;
    if (!dt_json_has(plan, "timers")) return NULL;
    DT_TRY(dt_json_array(plan, "timers", &array, &function->n_timers));
    dt_artifact_timer *timers = DT_NEW_ARRAY(reader->arena, dt_artifact_timer, function->n_timers);
    function->timers = timers;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_timer *timer = &timers[item.index];
        int64_t kernel, first, n_nests;
        DT_TRY(dt_json_integer(&item, "kernel", 0, function->n_kernels - 1, &kernel));
        DT_TRY(dt_json_integer(&item, "first", 0, INT32_MAX, &first));
        DT_TRY(dt_json_integer(&item, "nests", 1, INT32_MAX, &n_nests));
        *timer = (dt_artifact_timer){.kernel = (int)kernel, .first = (int)first, .n_nests = (int)n_nests};
        DT_TRY(read_string(reader, &item, "part", &timer->part));
        DT_TRY(read_string(reader, &item, "layer", &timer->layer));
        DT_TRY(read_string(reader, &item, "lines", &timer->lines));
        if (dt_json_has(&item, "note")) DT_TRY(read_string(reader, &item, "note", &timer->note));
        DT_TRY(read_amounts(&item, &timer->flops, &timer->bytes));
    }
    return NULL;
}

/* ---- segments ---- */

static bool has_inner_rows(const dt_artifact_tensor *tensor) {
    for (int i = 1; i < tensor->n_dims; i++)
        if (tensor->dims[i] < 0) return true;
    return false;
}

/* Floats of 16 bits are summed in 32: they have no partial sums of their own type. */
static bool is_partial_sum(const dt_artifact_buffer *source, const dt_artifact_collective *collective) {
    return source->space == DT_MEMORY_PARTIAL && collective->kind != DT_COLLECTIVE_ALL_GATHER && source->tensor.dtype != DT_F16 &&
           source->tensor.dtype != DT_BF16;
}

/* Where a microbatch has something that it writes. */
static bool is_of_microbatch(dt_memory_space space) { return space == DT_MEMORY_REPLICA || space == DT_MEMORY_SCRATCH || space == DT_MEMORY_PARTIAL; }

/* A shard_reduce: within a microbatch, or once for all. */
static bool reduces_shards(const dt_artifact_buffer *source, const dt_artifact_buffer *target) {
    bool rows = source->tensor.has_rows && !source->tensor.has_all_rows,
         is_once = source->space == DT_MEMORY_DEVICE && target->space == DT_MEMORY_DEVICE;
    bool same_rows = source->tensor.has_rows == target->tensor.has_rows && source->tensor.has_all_rows == target->tensor.has_all_rows;
    return same_rows && (is_once ? !rows : is_of_microbatch(source->space) && is_of_microbatch(target->space));
}

/* A collective's two sides: of one type, of shapes that belong together, in the spaces that the executor serves. */
static dt_status *check_collective(const dt_json *item, const dt_artifact_function *function, const dt_artifact_collective *collective) {
    const dt_artifact_buffer *source = &function->buffers[collective->source], *target = &function->buffers[collective->target];
    if (source->tensor.dtype != target->tensor.dtype || source->tensor.row_bytes != target->tensor.row_bytes)
        return dt_json_wrong(item, "%s and %s are not of one type and size", source->tensor.name, target->tensor.name);
    bool over_shards = collective->kind == DT_COLLECTIVE_SHARD_REDUCE; /* of as many elements as there is room for, whatever the rows */
    if (!over_shards && (has_inner_rows(&source->tensor) || has_inner_rows(&target->tensor)))
        return dt_json_wrong(item, "rows that are not the first dimension");
    bool rows = source->tensor.has_rows && !source->tensor.has_all_rows, target_rows = target->tensor.has_rows && !target->tensor.has_all_rows;
    bool fits = source->space == DT_MEMORY_REPLICA || is_partial_sum(source, collective);
    switch (collective->kind) {
    case DT_COLLECTIVE_ALL_REDUCE: fits = fits && !source->tensor.has_rows && !target->tensor.has_rows && target->space == DT_MEMORY_DEVICE; break;
    case DT_COLLECTIVE_ALL_GATHER: fits = fits && rows && target->tensor.has_all_rows && target->space == DT_MEMORY_DEVICE; break;
    case DT_COLLECTIVE_REDUCE_SCATTER: fits = fits && source->tensor.has_all_rows && target_rows && target->space == DT_MEMORY_REPLICA; break;
    case DT_COLLECTIVE_SHARD_REDUCE: fits = reduces_shards(source, target); break;
    }
    fits = fits && (over_shards ? source->sharded && !target->sharded : source->sharded == target->sharded);
    if (!fits || source->view != NULL || target->view != NULL)
        return dt_json_wrong(item, "%s and %s are not the two sides of such a collective", source->tensor.name, target->tensor.name);
    if (collective->kind != DT_COLLECTIVE_ALL_GATHER && collective->op == DT_REDUCTION_SUM && source->tensor.dtype == DT_BOOL)
        return dt_json_wrong(item, "a sum of bool");
    return NULL;
}

static bool uses(const dt_artifact_function *function, const dt_artifact_kernel *kernel, int buffer) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (function->buffers[kernel->buffers[b]].root == function->buffers[buffer].root) return true;
    return false;
}

/* What is on its way is used by no kernel. Where nothing is said, it is on its way when all have run. Of one within the segment no kernel before it
 * uses what it gives. */
static dt_status *read_complete_after(const dt_json *item, const dt_artifact_function *function, const dt_artifact_segment *segment,
                                      dt_artifact_collective *collective) {
    int64_t n = segment->n_replica_kernels;
    if (dt_json_has(item, "complete_after")) DT_TRY(dt_json_integer(item, "complete_after", 0, segment->n_replica_kernels, &n));
    collective->complete_after = (int)n;
    int last = n > 0 ? dt_artifact_next_loop(function, segment->replica_kernels[n - 1], -1) : -1;
    if (last >= 0 && n < segment->n_replica_kernels &&
        dt_artifact_loop_is_within(function, function->kernels[segment->replica_kernels[n]].loop, last))
        return dt_json_wrong(item, "complete after %lld kernels, amid a loop", (long long)n);
    if (collective->is_within && n == 0) return dt_json_wrong(item, "within a segment, and behind none of its kernels");
    int first = collective->is_within ? 0 : (int)n, end = collective->is_within ? (int)n : segment->n_replica_kernels;
    int buffer = collective->is_within ? collective->target : collective->source;
    for (int k = first; k < end; k++)
        if (uses(function, &function->kernels[segment->replica_kernels[k]], buffer))
            return dt_json_wrong(item, "%s is not %s %lld kernels: %s uses it", function->buffers[buffer].tensor.name,
                                 collective->is_within ? "there before" : "complete after", (long long)n,
                                 function->kernels[segment->replica_kernels[k]].name);
    return NULL;
}

static dt_status *read_collective(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                                  const dt_artifact_segment *segment, dt_artifact_collective *collective) {
    int kind, op = DT_REDUCTION_SUM;
    int64_t source, target;
    DT_TRY(dt_json_word(item, "kind", dt_collective_names(), DT_N_COLLECTIVES, &kind));
    collective->kind = (dt_collective_kind)kind;
    if (collective->kind != DT_COLLECTIVE_ALL_GATHER) DT_TRY(dt_json_word(item, "combiner", dt_reduction_op_names(), DT_N_REDUCTION_OPS, &op));
    DT_TRY(dt_json_integer(item, "source", 0, function->n_buffers - 1, &source));
    DT_TRY(dt_json_integer(item, "target", 0, function->n_buffers - 1, &target));
    DT_TRY(dt_artifact_read_name(reader, item, "label", &collective->label));
    collective->op = (dt_reduction_op)op;
    collective->source = (int)source;
    collective->target = (int)target;
    collective->is_within = collective->kind == DT_COLLECTIVE_SHARD_REDUCE && function->buffers[target].space != DT_MEMORY_DEVICE;
    DT_TRY(check_collective(item, function, collective));
    DT_TRY(read_complete_after(item, function, segment, collective));
    const dt_artifact_tensor *tensor = &function->buffers[target].tensor;
    if (collective->kind != DT_COLLECTIVE_ALL_REDUCE) return NULL;
    return dt_artifact_read_share(item, tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype), &collective->share);
}

/* Kernels that replicas run stand by layers, none of which begins amid a loop. */
static dt_status *read_layers(const dt_json *item, const dt_artifact_function *function, dt_artifact_segment *segment) {
    for (int i = 0; i < segment->n_replica_kernels; i++) {
        const int k = segment->replica_kernels[i], layer = function->kernels[k].layer, before = segment->n_layers;
        const int loop = i > 0 ? dt_artifact_next_loop(function, segment->replica_kernels[i - 1], -1) : -1;
        if (layer != before && layer != before + 1)
            return dt_json_wrong(item, "layer %d, of %s, behind layer %d", layer, function->kernels[k].name, before);
        if (i > 0 && layer != before && (before == 0 || (loop >= 0 && dt_artifact_loop_is_within(function, function->kernels[k].loop, loop))))
            return dt_json_wrong(item, "%s is in layer %d, and not the kernel before it", function->kernels[k].name, layer);
        segment->n_layers = layer;
    }
    for (int i = 0; i < segment->n_device_kernels; i++) {
        const dt_artifact_kernel *kernel = &function->kernels[segment->device_kernels[i]];
        if (kernel->layer > segment->n_layers) return dt_json_wrong(item, "layer %d, of %s, is not there", kernel->layer, kernel->name);
    }
    return NULL;
}

static dt_status *read_segments(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function) {
    dt_json array, collectives;
    DT_TRY(dt_json_array(plan, "segments", &array, &function->n_segments));
    dt_artifact_segment *segments = DT_NEW_ARRAY(reader->arena, dt_artifact_segment, function->n_segments);
    bool *seen = DT_NEW_ARRAY(reader->arena, bool, function->n_loops);
    function->segments = segments;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_segment *segment = &segments[item.index];
        DT_TRY(dt_artifact_read_indices(reader, &item, "device", function->n_kernels, &segment->n_device_kernels, &segment->device_kernels));
        DT_TRY(dt_artifact_read_indices(reader, &item, "replica", function->n_kernels, &segment->n_replica_kernels, &segment->replica_kernels));
        DT_TRY(dt_artifact_check_bodies(&item, function, segment->device_kernels, segment->n_device_kernels, seen));
        DT_TRY(dt_artifact_check_bodies(&item, function, segment->replica_kernels, segment->n_replica_kernels, seen));
        DT_TRY(read_layers(&item, function, segment));
        DT_TRY(dt_json_array(&item, "collectives", &collectives, &segment->n_collectives));
        if (segment->n_collectives != 0 && !is_step(function)) return dt_json_wrong(&collectives, "only a step has collectives");
        dt_artifact_collective *copy = DT_NEW_ARRAY(reader->arena, dt_artifact_collective, segment->n_collectives);
        segment->collectives = copy;
        for (dt_json collective = dt_json_first(&collectives); collective.value != NULL; dt_json_next(&collective))
            DT_TRY(read_collective(reader, &collective, function, segment, &copy[collective.index]));
    }
    return NULL;
}

/* ---- inputs and results ---- */

static dt_status *read_inputs(dt_artifact_reader *reader, const dt_json *object, dt_artifact_function *function) {
    dt_json array;
    DT_TRY(dt_json_array(object, "inputs", &array, &function->n_inputs));
    dt_artifact_tensor *inputs = DT_NEW_ARRAY(reader->arena, dt_artifact_tensor, function->n_inputs);
    function->inputs = inputs;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        DT_TRY(dt_artifact_read_tensor(reader, &item, is_step(function) ? DT_ROWS_FIRST : DT_ROWS_NEVER, &inputs[item.index]));
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &inputs[item.index].name));
    }
    if (function->role == DT_ROLE_INIT && function->n_inputs != 0) return dt_json_wrong(&array, "initialisers have no inputs");
    return NULL;
}

/* Replicated results are read from the first device, split ones row by row from each replica. */
static dt_status *check_result(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                               const dt_artifact_result *result) {
    const dt_artifact_buffer *buffer = &function->buffers[result->buffer];
    if (buffer->tensor.dtype != result->tensor.dtype || buffer->tensor.has_rows != result->tensor.has_rows || buffer->tensor.has_all_rows ||
        dt_artifact_tensor_bytes(reader->artifact, &buffer->tensor) != dt_artifact_tensor_bytes(reader->artifact, &result->tensor))
        return dt_json_wrong(item, "not of the type and size of its buffer %s", buffer->tensor.name);
    if (buffer->view != NULL) return dt_json_wrong(item, "its buffer %s is part of another one", buffer->tensor.name);
    if (buffer->sharded) return dt_json_wrong(item, "its buffer %s differs from shard to shard", buffer->tensor.name);
    if (!is_step(function)) return NULL;
    bool split = buffer->space == DT_MEMORY_REPLICA || (buffer->space == DT_MEMORY_INPUT && buffer->tensor.has_rows);
    if (split != result->tensor.has_rows || buffer->space == DT_MEMORY_SCRATCH)
        return dt_json_wrong(item, "its buffer %s is in a space that does not outlive the step", buffer->tensor.name);
    return NULL;
}

static dt_status *read_results(dt_artifact_reader *reader, const dt_json *object, dt_artifact_function *function) {
    dt_json array;
    DT_TRY(dt_json_array(object, "results", &array, &function->n_results));
    dt_artifact_result *results = DT_NEW_ARRAY(reader->arena, dt_artifact_result, function->n_results);
    function->results = results;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_result *result = &results[item.index];
        int64_t buffer;
        DT_TRY(dt_artifact_read_tensor(reader, &item, is_step(function) ? DT_ROWS_FIRST : DT_ROWS_NEVER, &result->tensor));
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &result->tensor.name));
        DT_TRY(dt_json_integer(&item, "buffer", 0, function->n_buffers - 1, &buffer));
        result->buffer = (int)buffer;
        DT_TRY(dt_json_bool(&item, "varies", &result->varies));
        DT_TRY(check_result(reader, &item, function, result));
    }
    return NULL;
}

dt_status *dt_artifact_read_function(dt_artifact_reader *reader, const dt_json *object, dt_artifact_function *function) {
    dt_json plan;
    DT_TRY(read_inputs(reader, object, function));
    DT_TRY(dt_json_member(object, "plan", &plan));
    DT_TRY(dt_artifact_read_loops(reader, &plan, function));
    DT_TRY(read_buffers(reader, &plan, function));
    DT_TRY(read_kernels(reader, &plan, function));
    DT_TRY(read_timers(reader, &plan, function));
    DT_TRY(read_segments(reader, &plan, function));
    return read_results(reader, object, function);
}
