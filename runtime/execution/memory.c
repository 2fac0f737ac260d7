/* memory: see memory.h. */
#include "runtime/execution/memory.h"

#include <assert.h>

enum {
    CACHE_LINE = 64,
    INPUT_ALIGNMENT = 256 /* of the rows of a microbatch in a slot: a GPU's for its allocations */
};

/* ---- sizes ---- */

static int64_t sum(int64_t a, int64_t b) {
    int64_t result;
    return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

static int64_t product(int64_t bytes, int64_t n) {
    int64_t result;
    return __builtin_mul_overflow(bytes, n, &result) ? INT64_MAX : result;
}

static int64_t rounded(int64_t bytes, int64_t to) { return bytes > INT64_MAX - to ? INT64_MAX : (bytes + to - 1) / to * to; }

/* `bytes` with slack, up to the next cache line. */
static int64_t padded(int64_t bytes) { return rounded(sum(bytes, DT_SLACK_BYTES), CACHE_LINE); }

/* Takes `bytes` from the end of what is laid out. */
static int64_t take(int64_t *end, int64_t bytes) {
    int64_t start = *end;
    *end = sum(*end, bytes);
    return start;
}

static void raise_to(int64_t *most, int64_t bytes) {
    if (bytes > *most) *most = bytes;
}

bool dt_memory_has(const dt_artifact *artifact, int wanted, int function) {
    dt_function_role role = artifact->functions[function].role;
    return wanted == DT_ALL_FUNCTIONS ? role == DT_ROLE_INIT || role == DT_ROLE_STEP : wanted == function;
}

/* ---- gathered rows ---- */

static bool is_gathered_once(const dt_artifact_buffer *buffer) { return buffer->tensor.has_all_rows && buffer->space == DT_MEMORY_DEVICE; }

static bool is_gathered_apart(const dt_artifact_buffer *buffer) {
    return buffer->tensor.has_all_rows && (buffer->space == DT_MEMORY_REPLICA || buffer->space == DT_MEMORY_SCRATCH);
}

/* Room for the rows of all microbatches, once. */
static int64_t all_rows_bytes(const dt_artifact_buffer *buffer, int n_all_microbatches) { return padded(product(buffer->bytes, n_all_microbatches)); }

/* The same for all who have a copy on this executor. */
static int64_t gathered_bytes(const dt_executor_memory *memory, const dt_artifact_buffer *buffer) {
    return product(all_rows_bytes(buffer, memory->n_all_microbatches), buffer->space == DT_MEMORY_REPLICA ? memory->n_microbatches : 1);
}

/* ---- layout ---- */

static char *not_allocated(const dt_memory_domain *domain) { return (char *)(uintptr_t)(INPUT_ALIGNMENT * (1 + (uint64_t)domain->number)); }

void dt_memory_domain_lay_out(dt_memory_domain *domain, const dt_artifact *artifact, int n_all_microbatches, int wanted, dt_arena *arena) {
    int64_t device = 0, gathered = 0;
    domain->bytes = 0;
    domain->memory = not_allocated(domain);
    domain->variables = DT_NEW_ARRAY(arena, int64_t, artifact->n_variables);
    for (int v = 0; v < artifact->n_variables && wanted == DT_ALL_FUNCTIONS; v++)
        domain->variables[v] = take(&domain->bytes, padded(artifact->variables[v].bytes));
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        int64_t own_gathered = 0;
        if (!dt_memory_has(artifact, wanted, f)) continue;
        for (int b = 0; b < function->n_buffers; b++)
            if (is_gathered_once(&function->buffers[b])) take(&own_gathered, all_rows_bytes(&function->buffers[b], n_all_microbatches));
        raise_to(&device, function->device_bytes);
        raise_to(&gathered, own_gathered);
    }
    domain->device_space = take(&domain->bytes, padded(device));
    domain->gathered_space = take(&domain->bytes, gathered);
}

static void lay_spaces_out(dt_executor_memory *memory, int wanted) {
    const dt_artifact *artifact = memory->artifact;
    int64_t scratch = 0, partial = 0, replica = 0, gathered = 0;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        int64_t own_gathered = 0;
        if (!dt_memory_has(artifact, wanted, f)) continue;
        for (int b = 0; b < function->n_buffers; b++)
            if (is_gathered_apart(&function->buffers[b])) take(&own_gathered, gathered_bytes(memory, &function->buffers[b]));
        raise_to(&scratch, function->scratch_bytes);
        raise_to(&partial, function->partial_bytes);
        raise_to(&replica, function->replica_bytes);
        raise_to(&gathered, own_gathered);
    }
    memory->scratch_space = take(&memory->bytes, padded(scratch));
    memory->partial_stride = padded(partial);
    memory->partial_space = take(&memory->bytes, product(memory->partial_stride, memory->sums.n_slots));
    memory->microbatch_stride = padded(replica);
    memory->microbatch_space = take(&memory->bytes, product(memory->microbatch_stride, memory->n_microbatches));
    memory->gathered_space = take(&memory->bytes, gathered);
}

/* What the host writes before a step and reads after it. */
static void lay_exchange_out(dt_executor_memory *memory, int wanted) {
    const dt_artifact *artifact = memory->artifact;
    int64_t n_launches = (int64_t)memory->n_microbatches + 1;
    for (int s = 0; s < artifact->n_steps; s++)
        if (dt_memory_has(artifact, wanted, artifact->steps[s].function)) raise_to(&memory->n_aggregates, artifact->steps[s].n_aggregates);
    memory->launch_space = take(&memory->bytes, product((int64_t)sizeof(dt_launch), n_launches));
    memory->record_space = take(&memory->bytes, product((int64_t)sizeof(dt_bad_index), n_launches));
    memory->aggregate_space = take(&memory->bytes, 8 * memory->n_aggregates);
    memory->bytes = rounded(memory->bytes, CACHE_LINE);
}

static void lay_inputs_out(dt_executor_memory *memory, int f, dt_arena *arena) {
    const dt_artifact_function *function = &memory->artifact->functions[f];
    memory->input_starts[f] = DT_NEW_ARRAY(arena, int64_t, function->n_inputs);
    memory->input_strides[f] = DT_NEW_ARRAY(arena, int64_t, function->n_inputs);
    for (int i = 0; i < function->n_inputs; i++) {
        const dt_artifact_tensor *input = &function->inputs[i];
        int64_t rows = input->has_rows ? memory->rows.microbatch_rows : 1;
        int64_t bytes = rounded(sum(product(input->row_bytes, rows), DT_SLACK_BYTES), INPUT_ALIGNMENT);
        memory->input_strides[f][i] = input->has_rows ? bytes : 0;
        memory->input_starts[f][i] = take(&memory->input_bytes[f], input->has_rows ? product(bytes, memory->n_microbatches) : bytes);
    }
    raise_to(&memory->slot_bytes, memory->input_bytes[f]);
}

static void lay_slots_out(dt_executor_memory *memory, int wanted, dt_arena *arena) {
    const dt_artifact *artifact = memory->artifact;
    memory->input_starts = DT_NEW_ARRAY(arena, int64_t *, artifact->n_functions);
    memory->input_strides = DT_NEW_ARRAY(arena, int64_t *, artifact->n_functions);
    memory->input_bytes = DT_NEW_ARRAY(arena, int64_t, artifact->n_functions);
    for (int f = 0; f < artifact->n_functions; f++)
        if (dt_memory_has(artifact, wanted, f)) lay_inputs_out(memory, f, arena);
    memory->bytes = rounded(memory->bytes, INPUT_ALIGNMENT);
    memory->input_space = take(&memory->bytes, product(memory->slot_bytes, memory->slots));
}

void dt_executor_memory_lay_out(dt_executor_memory *memory, const dt_device_kind *kind, int wanted, dt_arena *arena) {
    memory->bytes = 0;
    memory->memory = not_allocated(memory->domain);
    memory->slots = kind->reads_host ? 0 : DT_INPUT_SLOTS;
    memory->sums = dt_partial_sums_plan(arena, memory->first_microbatch, memory->n_microbatches, memory->n_all_microbatches);
    lay_exchange_out(memory, wanted);
    lay_spaces_out(memory, wanted);
    if (memory->slots > 0) lay_slots_out(memory, wanted, arena);
}

/* ---- addresses ---- */

char *dt_executor_memory_partial(const dt_executor_memory *memory, const dt_artifact_buffer *buffer, int slot) {
    return memory->memory + memory->partial_space + slot * memory->partial_stride + buffer->offset;
}

static char *gathered_once(const dt_executor_memory *memory, const dt_artifact_function *function, int buffer) {
    int64_t offset = memory->domain->gathered_space;
    for (int b = 0; b < buffer; b++)
        if (is_gathered_once(&function->buffers[b])) offset += all_rows_bytes(&function->buffers[b], memory->n_all_microbatches);
    return memory->domain->memory + offset;
}

static char *gathered_apart(const dt_executor_memory *memory, const dt_artifact_function *function, int buffer, int microbatch) {
    int64_t offset = memory->gathered_space;
    for (int b = 0; b < buffer; b++)
        if (is_gathered_apart(&function->buffers[b])) offset += gathered_bytes(memory, &function->buffers[b]);
    if (function->buffers[buffer].space == DT_MEMORY_REPLICA)
        offset += microbatch * all_rows_bytes(&function->buffers[buffer], memory->n_all_microbatches);
    return memory->memory + offset;
}

char *dt_executor_memory_address(const dt_executor_memory *memory, int f, int b, int microbatch, int slot) {
    const dt_artifact_function *function = &memory->artifact->functions[f];
    const dt_artifact_buffer *buffer = &function->buffers[b];
    const dt_memory_domain *domain = memory->domain;
    if (is_gathered_once(buffer)) return gathered_once(memory, function, b);
    if (is_gathered_apart(buffer)) return gathered_apart(memory, function, b, microbatch);
    switch (buffer->space) {
    case DT_MEMORY_VARIABLE: return domain->memory + domain->variables[buffer->variable];
    case DT_MEMORY_DEVICE: return domain->memory + domain->device_space + buffer->offset;
    case DT_MEMORY_SCRATCH: return memory->memory + memory->scratch_space + buffer->offset;
    case DT_MEMORY_PARTIAL: return dt_executor_memory_partial(memory, buffer, memory->sums.slots[microbatch]);
    case DT_MEMORY_REPLICA: return memory->memory + memory->microbatch_space + microbatch * memory->microbatch_stride + buffer->offset;
    case DT_MEMORY_CONSTANT: return (char *)memory->artifact->constants + buffer->offset; /* kernels do not write constants */
    case DT_MEMORY_INPUT:
        assert(memory->slots > 0);
        return memory->memory + memory->input_space + slot * memory->slot_bytes + memory->input_starts[f][buffer->input] +
               microbatch * memory->input_strides[f][buffer->input];
    }
    assert(!"a space that has no addresses");
    return NULL;
}
