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

int64_t dt_memory_padded(int64_t bytes) { return rounded(sum(bytes, DT_SLACK_BYTES), CACHE_LINE); }

int64_t dt_memory_take(int64_t *end, int64_t bytes) {
    int64_t start = *end;
    *end = sum(*end, bytes);
    return start;
}

static bool trains(const dt_artifact *artifact, int function) {
    for (int s = 0; s < artifact->n_steps; s++)
        if (artifact->steps[s].function == function && artifact->steps[s].trains) return true;
    return false;
}

bool dt_memory_has(const dt_artifact *artifact, int wanted, int function) {
    dt_function_role role = artifact->functions[function].role;
    if (wanted == DT_FORWARD_FUNCTIONS) return role == DT_ROLE_STEP && !trains(artifact, function);
    if (wanted == DT_INITIAL_FUNCTIONS) return role == DT_ROLE_INIT;
    return wanted == DT_ALL_FUNCTIONS ? role == DT_ROLE_INIT || role == DT_ROLE_STEP : wanted == function;
}

/* A slot is needed where a function that is wanted reads it. */
bool dt_memory_has_variable(const dt_artifact *artifact, int wanted, int variable) {
    if (wanted >= 0 || artifact->variables[variable].by_rows) return false;
    if (wanted != DT_FORWARD_FUNCTIONS || artifact->variables[variable].kind != DT_VARIABLE_SLOT) return true;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        for (int b = 0; b < function->n_buffers && dt_memory_has(artifact, wanted, f); b++)
            if (function->buffers[b].space == DT_MEMORY_VARIABLE && function->buffers[b].variable == variable) return true;
    }
    return false;
}

/* ---- shares ---- */

static dt_byte_range share_of(dt_share how, dt_dtype dtype, int64_t n_bytes, dt_held_share held) {
    int64_t bytes = (int64_t)dt_dtype_bytes(dtype), n = n_bytes / bytes;
    if (how.unit == 0 || held.n_shares == 1) return (dt_byte_range){0, n_bytes};
    int64_t first = dt_share_first_element(how, n, held.share, held.n_shares), end = dt_share_first_element(how, n, held.share + 1, held.n_shares);
    return (dt_byte_range){first * bytes, (end - first) * bytes};
}

dt_byte_range dt_memory_share_of_tensor(dt_share how, const dt_artifact_tensor *tensor, dt_held_share held) {
    return share_of(how, tensor->dtype, tensor->row_bytes, held);
}

dt_byte_range dt_memory_share_of_variable(const dt_artifact *artifact, const dt_artifact_variable *variable, dt_held_share held) {
    return share_of(variable->share, variable->tensor.dtype, dt_artifact_shard_bytes(artifact, variable), held);
}

dt_byte_range dt_state_layout_share(const dt_state_layout *layout, const dt_artifact *artifact, const dt_artifact_variable *variable) {
    return dt_memory_share_of_variable(artifact, variable, variable->kind == DT_VARIABLE_SLOT ? layout->slots : layout->parameters);
}

/* Of all variables of a kind but tables by rows, what the process with the largest share has that holds so many shards of those that are split; of
 * one share, all. */
static int64_t most_bytes(const dt_artifact *artifact, int wanted, dt_variable_kind kind, int n_shares, int n_shards) {
    int64_t most = 0;
    for (int p = 0; p < n_shares; p++) {
        int64_t bytes = 0;
        for (int v = 0; v < artifact->n_variables; v++) {
            const dt_artifact_variable *variable = &artifact->variables[v];
            if (variable->kind != kind || !dt_memory_has_variable(artifact, wanted, v)) continue;
            bytes +=
                dt_memory_share_of_variable(artifact, variable, (dt_held_share){p, n_shares}).n_bytes * (variable->split.groups > 0 ? n_shards : 1);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

static void print_most(const char *what, int64_t most, int64_t all, int n, const char *of, dt_text *text) {
    const double mib = 1 << 20;
    dt_text_format(text, "%s: at most %.2f MiB of %.2f MiB in each of %d %s, %.1f %%\n", what, (double)most / mib, (double)all / mib, n, of,
                   100 * (double)most / (double)all);
}

void dt_memory_print_sharing(const dt_artifact *artifact, int wanted, dt_process_roles roles, int n_all, int n_shards, dt_sharing asked,
                             dt_text *text) {
    int n = dt_process_n_owners(roles);
    bool has_servers = roles.n_servers > 0, of_parameters = asked == DT_SHARES_PARAMETERS;
    const char *option = of_parameters ? "--shard-parameters" : "--shard-optimizer", *who = has_servers ? "servers" : "processes";
    const dt_variable_kind kinds[] = {DT_VARIABLE_SLOT, DT_VARIABLE_PARAMETER};
    int64_t all[2], held[2], most[2];
    for (int k = 0; k < 2; k++) {
        all[k] = most_bytes(artifact, wanted, kinds[k], 1, artifact->n_shards);
        held[k] = most_bytes(artifact, wanted, kinds[k], 1, n_shards);
        most[k] = most_bytes(artifact, wanted, kinds[k], n, n_shards);
    }
    bool parts_parameters = (of_parameters || roles.n_servers > 1) && most[1] < held[1];
    if (asked != DT_SHARES_NOTHING && n == 1)
        dt_text_format(text, "%s: there is one process%s, which keeps all %s\n", option, n_all > 1 ? " of each part of the model" : "",
                       of_parameters ? "parameters" : "of the optimizer's states");
    else if (asked != DT_SHARES_NOTHING && most[0] == held[0] && !parts_parameters)
        dt_text_format(text, "%s: %s to share out: tensors of %d elements or more, updated element by element\n", option,
                       of_parameters ? "there is nothing" : "the optimizer has no states", DT_SHARE_LEAST);
    if (parts_parameters) print_most("parameters", most[1], all[1], has_servers ? n : n_all, who, text);
    if (most[0] < held[0]) print_most("optimizer's states", most[0], all[0], has_servers ? n : n_all, who, text);
}

/* ---- layout ---- */

/* Lays out `n` spaces, of which each takes so much for each shard, and besides so much for each microbatch of all. */
static void lay_space_out(dt_space_layout *space, int64_t n, int n_shards, int64_t bytes, int64_t gathered, int n_all_microbatches, int64_t *end) {
    space->gathered = dt_memory_padded(bytes);
    space->shard_stride = sum(space->gathered, product(gathered, n_all_microbatches));
    space->stride = product(space->shard_stride, n_shards);
    space->start = dt_memory_take(end, product(space->stride, n));
}

/* Further apart than any memory is large. */
static char *not_allocated(const dt_memory_domain *domain) { return (char *)(uintptr_t)((1 + (uint64_t)domain->number) << 44); }

/* Where a variable is, all of whose shards are side by side, or this process's share of each. */
static void lay_variable_out(dt_memory_domain *domain, const dt_artifact *artifact, int v) {
    const dt_artifact_variable *variable = &artifact->variables[v];
    dt_byte_range own = dt_state_layout_share(&domain->layout, artifact, variable);
    bool is_split = variable->split.groups > 0;
    int64_t bytes = dt_memory_padded(own.n_bytes);
    domain->variable_strides[v] = is_split ? bytes : 0;
    domain->variables[v] = dt_memory_take(&domain->bytes, is_split ? product(bytes, domain->n_shards) : bytes) - own.first;
}

void dt_memory_domain_lay_out(dt_memory_domain *domain, const dt_artifact *artifact, int n_all_microbatches, int wanted, dt_arena *arena) {
    int64_t device = 0, gathered = 0;
    domain->bytes = 0;
    domain->memory = not_allocated(domain);
    domain->variables = DT_NEW_ARRAY(arena, int64_t, artifact->n_variables);
    domain->variable_strides = DT_NEW_ARRAY(arena, int64_t, artifact->n_variables);
    if (domain->n_shards == 0) domain->n_shards = artifact->n_shards;
    if (domain->n_members == 0) domain->n_members = domain->n_executors;
    if (domain->layout.gathers) { /* places come first: what would be before the share of a variable is memory then, although nobody touches it */
        domain->gathering = dt_gathering_of(artifact, wanted, domain->layout.parameters, domain->n_shards, domain->n_rounds, arena);
        domain->gathering_space = dt_memory_take(&domain->bytes, product(domain->gathering->bytes, DT_NONBLOCKING_PLACES));
    }
    for (int v = 0; v < artifact->n_variables; v++) {
        if (!dt_memory_has_variable(artifact, wanted, v) || !dt_memory_domain_has_variable(domain, v)) continue;
        lay_variable_out(domain, artifact, v);
    }
    for (int f = 0; f < artifact->n_functions; f++) {
        bool is_placed = domain->gathering != NULL && domain->gathering->functions[f].segments != NULL;
        if (!dt_memory_has(artifact, wanted, f)) continue;
        dt_memory_raise_to(&device, is_placed ? domain->gathering->device_bytes : artifact->functions[f].bytes.device);
        dt_memory_raise_to(&gathered, artifact->functions[f].gathered.device);
    }
    if (domain->stages != NULL) {
        domain->staged = dt_stage_memory_of(artifact, wanted, domain->stages, domain->stage, arena);
        device = domain->staged->bytes.device;
    }
    if (!dt_memory_domain_is_whole(domain)) {
        device = domain->placement->bytes.device;
        gathered = domain->placement->gathered.device;
    }
    lay_space_out(&domain->device_space, 1, domain->n_shards, device, gathered, n_all_microbatches, &domain->bytes);
}

static void raise_all_to(dt_space_bytes *most, const dt_space_bytes *bytes) {
    dt_memory_raise_to(&most->scratch, bytes->scratch);
    dt_memory_raise_to(&most->partial, bytes->partial);
    dt_memory_raise_to(&most->replica, bytes->replica);
}

static void lay_spaces_out(dt_executor_memory *memory, int wanted) {
    const dt_artifact *artifact = memory->artifact;
    dt_space_bytes bytes = {0}, gathered = {0};
    int n = memory->n_all_microbatches, n_shards = memory->domain->n_shards;
    for (int f = 0; f < artifact->n_functions; f++) {
        if (!dt_memory_has(artifact, wanted, f)) continue;
        raise_all_to(&bytes, &artifact->functions[f].bytes);
        raise_all_to(&gathered, &artifact->functions[f].gathered);
    }
    if (memory->domain->staged != NULL) {
        const dt_stage_memory *staged = memory->domain->staged;
        bytes = staged->bytes;
        memory->arrival_space = dt_memory_take(&memory->bytes, product(product(staged->arrival_bytes, n_shards), memory->n_together + 1));
        lay_space_out(&memory->across_space, memory->sums_across.n_slots, n_shards, staged->across_bytes, gathered.partial, n, &memory->bytes);
    }
    lay_space_out(&memory->scratch_space, memory->n_together, n_shards, bytes.scratch, gathered.scratch, n, &memory->bytes);
    if (memory->domain->gathering != NULL) {
        const int64_t *sum_bytes = memory->domain->gathering->sum_bytes;
        bytes.partial = sum_bytes[DT_SUM_STAYS];
        int n_places = memory->domain->n_rounds > 1 ? 1 : DT_NONBLOCKING_PLACES; /* of several rounds all that leaves in the last one has its place */
        lay_space_out(&memory->leaving_space, n_places * memory->sums.n_slots, n_shards, sum_bytes[DT_SUM_LEAVES], 0, n, &memory->bytes);
        lay_space_out(&memory->across_space, memory->sums_across.n_slots, n_shards, sum_bytes[DT_SUM_ACROSS], gathered.partial, n, &memory->bytes);
    }
    lay_space_out(&memory->partial_space, memory->sums.n_slots, n_shards, bytes.partial, gathered.partial, n, &memory->bytes);
    lay_space_out(&memory->microbatch_space, memory->n_microbatches, n_shards, bytes.replica, gathered.replica, n, &memory->bytes);
}

/* What the host writes before a step and reads after it. */
static void lay_exchange_out(dt_executor_memory *memory, int wanted) {
    const dt_artifact *artifact = memory->artifact;
    int64_t n_records = dt_executor_memory_n_records(memory), n_launches = dt_executor_memory_n_launches(memory);
    for (int s = 0; s < artifact->n_steps; s++)
        if (dt_memory_has(artifact, wanted, artifact->steps[s].function))
            dt_memory_raise_to(&memory->n_aggregates, artifact->steps[s].aggregate_starts[artifact->steps[s].n_aggregates]);
    memory->launch_space = dt_memory_take(&memory->bytes, product((int64_t)sizeof(dt_launch), n_launches));
    memory->record_space = dt_memory_take(&memory->bytes, product((int64_t)sizeof(dt_bad_index), n_records));
    memory->aggregate_space = dt_memory_take(&memory->bytes, 8 * memory->n_aggregates);
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
        memory->input_starts[f][i] = dt_memory_take(&memory->input_bytes[f], input->has_rows ? product(bytes, memory->n_microbatches) : bytes);
    }
    dt_memory_raise_to(&memory->slot_bytes, memory->input_bytes[f]);
}

static void lay_slots_out(dt_executor_memory *memory, int wanted, dt_arena *arena) {
    const dt_artifact *artifact = memory->artifact;
    memory->input_starts = DT_NEW_ARRAY(arena, int64_t *, artifact->n_functions);
    memory->input_strides = DT_NEW_ARRAY(arena, int64_t *, artifact->n_functions);
    memory->input_bytes = DT_NEW_ARRAY(arena, int64_t, artifact->n_functions);
    for (int f = 0; f < artifact->n_functions; f++)
        if (dt_memory_has(artifact, wanted, f)) lay_inputs_out(memory, f, arena);
    memory->bytes = rounded(memory->bytes, INPUT_ALIGNMENT);
    memory->input_space = dt_memory_take(&memory->bytes, product(memory->slot_bytes, memory->slots));
}

/* What the stage does, and how many microbatches are under way on it. */
static void plan_orders(dt_executor_memory *memory, int wanted, dt_arena *arena) {
    const dt_artifact *artifact = memory->artifact;
    const dt_memory_domain *domain = memory->domain;
    const dt_stage_order **orders = DT_NEW_ARRAY(arena, const dt_stage_order *, artifact->n_functions);
    memory->orders = orders;
    memory->n_together = 1;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        dt_stage_order *of_function = DT_NEW_ARRAY(arena, dt_stage_order, function->n_segments);
        orders[f] = of_function;
        for (int s = 0; s < function->n_segments && dt_memory_has(artifact, wanted, f); s++) {
            of_function[s] =
                dt_stage_orders(&domain->stages->functions[f].segments[s], domain->stages->n, memory->n_microbatches, arena)[domain->stage];
            if (of_function[s].n_in_flight > memory->n_together) memory->n_together = of_function[s].n_in_flight;
        }
    }
}

void dt_executor_memory_lay_out(dt_executor_memory *memory, const dt_device_kind *kind, int wanted, dt_arena *arena) {
    memory->bytes = 0;
    memory->memory = not_allocated(memory->domain);
    memory->slots = kind->reads_host ? 0 : DT_INPUT_SLOTS;
    const dt_memory_domain *domain = memory->domain;
    int n = memory->n_microbatches, n_all = memory->n_all_microbatches;
    bool gathers = domain->gathering != NULL, has_rounds = dt_executor_memory_has_rounds(memory);
    if (domain->stages != NULL)
        plan_orders(memory, wanted, arena);
    else if (has_rounds)
        memory->n_together = gathers ? (n + domain->n_rounds - 1) / domain->n_rounds : n < DT_UNDER_WAY ? n : DT_UNDER_WAY;
    if (memory->n_together == 0) memory->n_together = 1;
    int n_last_round = has_rounds && n > 0 ? (n - 1) % memory->n_together + 1 : memory->n_together;
    int n_last = domain->stages != NULL ? 1 : n_last_round;
    dt_partial_sums together = dt_partial_sums_plan(arena, memory->first_microbatch, n, n_last, has_rounds ? memory->n_together : 1, n_all);
    bool one_by_one = gathers || domain->stages != NULL;
    /* Through a layer microbatches go two at a time where shards cross (operations.c): the second one's sum is begun before the first one's is
     * merged. */
    int n_at_once = gathers && dt_memory_domain_lacks_shards(domain, memory->artifact) ? DT_UNDER_WAY : 1;
    memory->sums = one_by_one ? dt_partial_sums_plan(arena, memory->first_microbatch, n, 1, n_at_once, n_all) : together;
    if (one_by_one) memory->sums_across = together;
    lay_exchange_out(memory, wanted);
    lay_spaces_out(memory, wanted);
    if (memory->slots > 0) lay_slots_out(memory, wanted, arena);
}

/* ---- addresses ---- */

static const dt_stage_places *places_of(const dt_executor_memory *memory, int f) {
    return memory->domain->staged != NULL ? &memory->domain->staged->functions[f] : NULL;
}

/* Where root b is, for that shard, in space number `i` of those that lie in `of`. */
static char *place_in(const dt_executor_memory *memory, char *of, const dt_space_layout *space, int64_t i, int f, int b, int shard) {
    const dt_artifact_buffer *buffer = &memory->artifact->functions[f].buffers[b];
    const dt_stage_places *places = places_of(memory, f);
    int64_t offset = places != NULL ? places->offsets[b] : buffer->offset;
    if (buffer->tensor.has_all_rows) offset = space->gathered + buffer->offset * memory->n_all_microbatches;
    if (buffer->sharded) offset += shard * space->shard_stride;
    return of + space->start + i * space->stride + offset;
}

/* What the function's layers say, where they have any. */
static const dt_gathered_function *gathered_of(const dt_executor_memory *memory, int f) {
    const dt_gathering *gathering = memory->domain->gathering;
    return gathering != NULL && gathering->functions[f].segments != NULL ? &gathering->functions[f] : NULL;
}

const dt_partial_sums *dt_executor_memory_sums(const dt_executor_memory *memory, int f, int b) {
    const dt_gathered_function *gathered = gathered_of(memory, f);
    const dt_stage_places *places = places_of(memory, f);
    bool is_across = gathered != NULL ? gathered->sums[b].kind == DT_SUM_ACROSS : places != NULL && places->is_across[b];
    return is_across ? &memory->sums_across : &memory->sums;
}

char *dt_executor_memory_partial(const dt_executor_memory *memory, int f, int b, int shard, int slot) {
    const dt_artifact_buffer *buffer = &memory->artifact->functions[f].buffers[b];
    const dt_gathered_function *gathered = gathered_of(memory, f);
    const dt_space_layout *space = &memory->partial_space;
    if (dt_executor_memory_sums(memory, f, b) == &memory->sums_across) space = &memory->across_space;
    if (gathered == NULL || buffer->tensor.has_all_rows) return place_in(memory, memory->memory, space, slot, f, b, shard);
    if (gathered->sums[b].kind == DT_SUM_LEAVES) {
        space = &memory->leaving_space;
        slot += gathered->sums[b].place * memory->sums.n_slots;
    }
    return memory->memory + space->start + slot * space->stride + (buffer->sharded ? shard : 0) * space->shard_stride + gathered->sums[b].offset;
}

/* Of a sum of shares where all of it would begin. */
static char *device_address(const dt_executor_memory *memory, int f, int b, int shard) {
    const dt_artifact_buffer *buffer = &memory->artifact->functions[f].buffers[b];
    const dt_memory_domain *domain = memory->domain;
    const dt_gathered_function *gathered = gathered_of(memory, f);
    if (gathered == NULL || buffer->tensor.has_all_rows) return place_in(memory, domain->memory, &domain->device_space, 0, f, b, shard);
    assert(gathered->device[b] != DT_NOT_PLACED);
    dt_byte_range own = dt_memory_share_of_tensor(gathered->shares[b], &buffer->tensor, domain->layout.parameters);
    return domain->memory + domain->device_space.start + (buffer->sharded ? shard : 0) * domain->device_space.shard_stride + gathered->device[b] -
           own.first;
}

/* Which of the spaces of scratch is the microbatch's. Kernels that run once have the first one, of an executor without microbatches too. */
static int scratch_of(const dt_executor_memory *memory, int microbatch) {
    int first = memory->n_microbatches - memory->n_together;
    if (dt_executor_memory_has_rounds(memory)) return microbatch % memory->n_together;
    return first >= 0 && microbatch > first ? microbatch - first : 0;
}

int dt_executor_memory_place(const dt_executor_memory *memory, int microbatch, int shard) {
    return scratch_of(memory, microbatch) * memory->domain->n_shards + shard;
}

char *dt_executor_memory_arrival(const dt_executor_memory *memory, int f, int crossing, int microbatch, int shard) {
    const dt_memory_domain *domain = memory->domain;
    int64_t place = microbatch % (memory->n_together + 1) * domain->n_shards + shard;
    return memory->memory + memory->arrival_space + place * domain->staged->arrival_bytes + places_of(memory, f)->arrivals[crossing];
}

char *dt_executor_memory_address(const dt_executor_memory *memory, int f, int b, int microbatch, int shard, int slot) {
    const dt_artifact_function *function = &memory->artifact->functions[f];
    const dt_artifact_buffer *buffer = &function->buffers[b];
    const dt_memory_domain *domain = memory->domain;
    const dt_stage_places *places = places_of(memory, f);
    assert(shard < domain->n_shards);
    if (places != NULL && places->arrived[b] >= 0)
        return dt_executor_memory_arrival(memory, f, places->arrived[b], microbatch, buffer->sharded ? shard : 0);
    switch (buffer->space) {
    case DT_MEMORY_VARIABLE: return dt_memory_domain_variable(domain, buffer->variable, shard);
    case DT_MEMORY_DEVICE: return device_address(memory, f, b, shard);
    case DT_MEMORY_SCRATCH: return place_in(memory, memory->memory, &memory->scratch_space, scratch_of(memory, microbatch), f, b, shard);
    case DT_MEMORY_PARTIAL: return dt_executor_memory_partial(memory, f, b, shard, dt_executor_memory_sums(memory, f, b)->slots[microbatch]);
    case DT_MEMORY_REPLICA: return place_in(memory, memory->memory, &memory->microbatch_space, microbatch, f, b, shard);
    case DT_MEMORY_CONSTANT: return (char *)memory->artifact->constants + buffer->offset; /* kernels do not write constants */
    case DT_MEMORY_INPUT:
        assert(memory->slots > 0);
        return memory->memory + memory->input_space + slot * memory->slot_bytes + memory->input_starts[f][buffer->input] +
               microbatch * memory->input_strides[f][buffer->input];
    }
    assert(!"a space that has no addresses");
    return NULL;
}
