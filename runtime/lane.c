/* lane: see lane.h.
 *
 * Two allocations:  a home's     variables | device space | gathered rows that all read
 *                   a lane's     scratch | slot 0 of partial sums | slot 1 | … | leaf 0 | leaf 1 | … | gathered rows of its own
 * Spaces are shared by all functions, which never run at once; gathered rows, whose size grows with the leaves, come after everything that does not.
 */
#include "runtime/lane.h"

#include "base/cpu.h"
#include "runtime/clock.h"
#include "runtime/comm/fold.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- memory ---- */

/* `bytes` with slack, up to the next multiple of 64. Sums saturate at INT64_MAX. */
static int64_t padded(int64_t bytes) { return bytes > INT64_MAX - 128 ? INT64_MAX : (bytes + DT_SLACK_BYTES + 63) & ~(int64_t)63; }

static int64_t times(int64_t bytes, int64_t n) {
    int64_t product;
    return __builtin_mul_overflow(bytes, n, &product) ? INT64_MAX : product;
}

/* Takes `bytes` from the end of what is laid out. */
static int64_t take(int64_t *end, int64_t bytes) {
    int64_t start = *end;
    if (__builtin_add_overflow(*end, bytes, end)) *end = INT64_MAX;
    return start;
}

static void raise_to(int64_t *most, int64_t bytes) {
    if (bytes > *most) *most = bytes;
}

static bool is_wanted(const dt_artifact *artifact, int wanted, int function) {
    dt_function_role role = artifact->functions[function].role;
    return wanted < 0 ? role == DT_ROLE_INIT || role == DT_ROLE_STEP : wanted == function;
}

/* Only a step runs for each leaf; everything else once. */
static int n_bound_leaves(const dt_lane *lane, const dt_artifact_function *function) { return function->role == DT_ROLE_STEP ? lane->n_leaves : 1; }

static bool is_gathered_at_home(const dt_artifact_buffer *buffer) { return buffer->tensor.has_all_rows && buffer->space == DT_MEMORY_DEVICE; }

static bool is_gathered_apart(const dt_artifact_buffer *buffer) {
    return buffer->tensor.has_all_rows && (buffer->space == DT_MEMORY_REPLICA || buffer->space == DT_MEMORY_SCRATCH);
}

/* Room for the rows of all leaves, once. */
static int64_t all_rows_bytes(const dt_artifact_buffer *buffer, int n_all_leaves) { return padded(times(buffer->bytes, n_all_leaves)); }

/* The same for all who have a copy on this lane. */
static int64_t gathered_bytes(const dt_lane *lane, const dt_artifact_buffer *buffer) {
    return times(all_rows_bytes(buffer, lane->n_all_leaves), buffer->space == DT_MEMORY_REPLICA ? lane->n_leaves : 1);
}

void dt_home_lay_out(dt_home *home, const dt_artifact *artifact, int n_all_leaves, int wanted, dt_arena *arena) {
    int64_t device = 0, gathered = 0;
    home->bytes = 0;
    home->variables = DT_NEW_ARRAY(arena, int64_t, artifact->n_variables);
    for (int v = 0; v < artifact->n_variables && wanted < 0; v++) home->variables[v] = take(&home->bytes, padded(artifact->variables[v].bytes));
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        int64_t own_gathered = 0;
        if (!is_wanted(artifact, wanted, f)) continue;
        for (int b = 0; b < function->n_buffers; b++)
            if (is_gathered_at_home(&function->buffers[b])) take(&own_gathered, all_rows_bytes(&function->buffers[b], n_all_leaves));
        raise_to(&device, function->device_bytes);
        raise_to(&gathered, own_gathered);
    }
    home->device_space = take(&home->bytes, padded(device));
    home->gathered_space = take(&home->bytes, gathered);
}

void dt_lane_lay_out(dt_lane *lane, int wanted, dt_arena *arena) {
    const dt_artifact *artifact = lane->artifact;
    int64_t scratch = 0, partial = 0, replica = 0, gathered = 0;
    lane->bytes = 0;
    const dt_device_kind *kind = lane->device->kind;
    lane->sums = dt_partial_sums_plan(arena, lane->first_leaf, lane->n_leaves, lane->n_all_leaves, kind->shares_memory || kind->is_gpu);
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        int64_t own_gathered = 0;
        if (!is_wanted(artifact, wanted, f)) continue;
        for (int b = 0; b < function->n_buffers; b++)
            if (is_gathered_apart(&function->buffers[b])) take(&own_gathered, gathered_bytes(lane, &function->buffers[b]));
        raise_to(&scratch, function->scratch_bytes);
        raise_to(&partial, function->partial_bytes);
        raise_to(&replica, function->replica_bytes);
        raise_to(&gathered, own_gathered);
    }
    lane->scratch_space = take(&lane->bytes, padded(scratch));
    lane->partial_stride = padded(partial);
    lane->partial_space = take(&lane->bytes, times(lane->partial_stride, lane->sums.n_slots));
    lane->leaf_stride = padded(replica);
    lane->leaf_space = take(&lane->bytes, times(lane->leaf_stride, lane->n_leaves));
    lane->gathered_space = take(&lane->bytes, gathered);
}

static dt_status *allocate(dt_device *device, int64_t bytes, char **place) {
    void *memory;
    DT_TRY(dt_device_allocate(device, (size_t)bytes, &memory));
    *place = memory;
    return NULL;
}

dt_status *dt_home_allocate(dt_home *home) { return allocate(home->device, home->bytes, &home->memory); }
dt_status *dt_lane_allocate(dt_lane *lane) { return allocate(lane->device, lane->bytes, &lane->memory); }

void dt_home_free(dt_home *home) {
    if (home->memory != NULL) dt_device_release(home->device, home->memory, (size_t)home->bytes);
    home->memory = NULL;
}

void dt_lane_free(dt_lane *lane) {
    if (lane->memory != NULL) dt_device_release(lane->device, lane->memory, (size_t)lane->bytes);
    lane->memory = NULL;
}

char *dt_lane_partial_place(const dt_lane *lane, const dt_artifact_buffer *buffer, int slot) {
    return lane->memory + lane->partial_space + slot * lane->partial_stride + buffer->offset;
}

static char *place_gathered_at_home(const dt_lane *lane, const dt_artifact_function *function, int buffer) {
    int64_t offset = lane->home->gathered_space;
    for (int b = 0; b < buffer; b++)
        if (is_gathered_at_home(&function->buffers[b])) offset += all_rows_bytes(&function->buffers[b], lane->n_all_leaves);
    return lane->home->memory + offset;
}

static char *place_gathered_apart(const dt_lane *lane, const dt_artifact_function *function, int buffer, int leaf) {
    int64_t offset = lane->gathered_space;
    for (int b = 0; b < buffer; b++)
        if (is_gathered_apart(&function->buffers[b])) offset += gathered_bytes(lane, &function->buffers[b]);
    if (function->buffers[buffer].space == DT_MEMORY_REPLICA) offset += leaf * all_rows_bytes(&function->buffers[buffer], lane->n_all_leaves);
    return lane->memory + offset;
}

char *dt_lane_place(const dt_lane *lane, int f, int b, int leaf) {
    const dt_artifact_function *function = &lane->artifact->functions[f];
    const dt_artifact_buffer *buffer = &function->buffers[b];
    const dt_home *home = lane->home;
    if (is_gathered_at_home(buffer)) return place_gathered_at_home(lane, function, b);
    if (is_gathered_apart(buffer)) return place_gathered_apart(lane, function, b, leaf);
    switch (buffer->space) {
    case DT_MEMORY_VARIABLE: return home->memory + home->variables[buffer->variable];
    case DT_MEMORY_DEVICE: return home->memory + home->device_space + buffer->offset;
    case DT_MEMORY_SCRATCH: return lane->memory + lane->scratch_space + buffer->offset;
    case DT_MEMORY_PARTIAL: return dt_lane_partial_place(lane, buffer, lane->sums.slots[leaf]);
    case DT_MEMORY_REPLICA: return lane->memory + lane->leaf_space + leaf * lane->leaf_stride + buffer->offset;
    case DT_MEMORY_CONSTANT: return (char *)lane->artifact->constants + buffer->offset; /* kernels do not write constants */
    case DT_MEMORY_INPUT: break;
    }
    assert(!"an input has no place of its own");
    return NULL;
}

/* ---- binding ---- */

typedef struct binder {
    dt_lane *lane;
    dt_arena *arena;
    int number; /* of the function */
    const dt_artifact_function *function;
    dt_lane_function *bound;
    size_t n_calls;
    int n_parts;
    bool exchanged; /* the last stage ends with an exchange, after which all lanes have met */
} binder;

/* Calls and inputs of one run of kernel k: counted first, then filled. */
static size_t count_inputs(const binder *in, int k) {
    const dt_artifact_kernel *kernel = &in->function->kernels[k];
    size_t n = 0;
    for (int i = 0; i < kernel->n_buffers; i++) n += in->function->buffers[kernel->buffers[i]].space == DT_MEMORY_INPUT;
    return n;
}

static void bind_call(binder *in, int k, int leaf, const dt_launch *launch) {
    const dt_artifact_kernel *kernel = &in->function->kernels[k];
    void **arguments = DT_NEW_ARRAY(in->arena, void *, kernel->n_buffers);
    for (int i = 0; i < kernel->n_buffers; i++) {
        const dt_artifact_buffer *buffer = &in->function->buffers[kernel->buffers[i]];
        if (buffer->space != DT_MEMORY_INPUT) {
            arguments[i] = dt_lane_place(in->lane, in->number, kernel->buffers[i], leaf);
            continue;
        }
        dt_comm_moment rows = {.rows = in->lane->rows, .blocks = in->lane->blocks, .block_rows = in->lane->block_rows};
        int64_t rows_before = buffer->tensor.has_rows ? dt_comm_first_row(in->lane->first_leaf + leaf, &rows) : 0;
        in->bound->inputs[in->bound->n_inputs++] = (dt_lane_input){&arguments[i], buffer->input, rows_before * buffer->tensor.row_bytes};
    }
    in->bound->call_kernels[in->n_calls] = k;
    in->bound->calls[in->n_calls++] = (dt_device_call){dt_kernels_entry(in->lane->kernels, in->number, k), arguments, launch};
}

static bool is_partial(const dt_artifact_function *function, const dt_artifact_collective *collective) {
    return function->buffers[collective->source].space == DT_MEMORY_PARTIAL;
}

/* What a merge of partial sums is called with, as its third argument. */
typedef struct merge_values {
    dt_fold fold;
    dt_dtype dtype;
    size_t n;
} merge_values;

/* A kernel: left, right, values. */
static void run_merge(void *const *buffers, const dt_launch *launch) {
    const merge_values *values = buffers[2];
    (void)launch;
    dt_fold_pair(values->fold, values->dtype, buffers[0], buffers[1], values->n);
}

static void bind_merge(binder *in, const dt_partial_merge *merge, const dt_artifact_collective *collective) {
    const dt_artifact_buffer *buffer = &in->function->buffers[collective->source];
    dt_dtype dtype = buffer->tensor.dtype;
    merge_values *values = DT_NEW(in->arena, merge_values);
    void **arguments = DT_NEW_ARRAY(in->arena, void *, 3);
    *values = (merge_values){collective->fold, dtype, (size_t)buffer->tensor.row_bytes / dt_dtype_bytes(dtype)};
    arguments[0] = dt_lane_partial_place(in->lane, buffer, merge->left);
    arguments[1] = dt_lane_partial_place(in->lane, buffer, merge->right);
    arguments[2] = values;
    in->bound->call_kernels[in->n_calls] = -1;
    in->bound->calls[in->n_calls++] = (dt_device_call){run_merge, arguments, in->lane->launches};
}

/* Of the segment's partial sums what leaf `leaf` makes complete: merges from number m on. Returns the first one that has to wait. */
static int bind_merges(binder *in, const dt_artifact_segment *segment, int leaf, int m) {
    const dt_partial_sums *sums = &in->lane->sums;
    for (; m < sums->n_merges && sums->merges[m].after == leaf; m++)
        for (int c = 0; c < segment->n_collectives; c++)
            if (is_partial(in->function, &segment->collectives[c])) bind_merge(in, &sums->merges[m], &segment->collectives[c]);
    return m;
}

static void bind_part(binder *in, const dt_artifact_collective *collective) {
    const dt_artifact_tensor *tensor = &in->function->buffers[collective->source].tensor;
    int n_leaves = in->lane->n_leaves;
    const void **sources = DT_NEW_ARRAY(in->arena, const void *, n_leaves);
    void **targets = DT_NEW_ARRAY(in->arena, void *, n_leaves);
    for (int l = 0; l < n_leaves; l++) {
        sources[l] = dt_lane_place(in->lane, in->number, collective->source, l);
        targets[l] = dt_lane_place(in->lane, in->number, collective->target, l);
    }
    in->bound->parts[in->n_parts++] = (dt_comm_part){.kind = collective->kind,
                                                     .fold = collective->fold,
                                                     .dtype = tensor->dtype,
                                                     .n = (size_t)tensor->row_bytes / dt_dtype_bytes(tensor->dtype),
                                                     .spans = is_partial(in->function, collective) ? in->lane->sums.spans : NULL,
                                                     .sources = sources,
                                                     .targets = targets,
                                                     .label = collective->label};
}

/* ---- binding: stages ---- */

static dt_lane_stage *last_stage(const binder *in) { return in->bound->n_stages == 0 ? NULL : &in->bound->stages[in->bound->n_stages - 1]; }

/* Ends the stage that the calls and parts bound since the last one are. */
static void end_stage(binder *in, int segment, bool meets) {
    in->bound->stages[in->bound->n_stages++] = (dt_lane_stage){segment, in->n_calls, in->n_parts, meets};
}

/* Kernels that run once: each a stage, but for those that one lane runs one after another. What comes before them is done on all lanes. */
static void bind_once(binder *in, const dt_artifact_segment *segment, int s) {
    dt_lane *lane = in->lane;
    dt_lane_stage *before = last_stage(in);
    if (before != NULL && !in->exchanged) before->meets = true;
    for (int i = 0; i < segment->n_device_kernels; i++) {
        int k = segment->device_kernels[i];
        bool divided = in->function->kernels[k].divided;
        if (divided || lane->part == 0) bind_call(in, k, 0, &lane->launches[lane->n_leaves]);
        bool same_lane = i + 1 < segment->n_device_kernels && !divided && !in->function->kernels[segment->device_kernels[i + 1]].divided;
        if (!same_lane) end_stage(in, s, true);
    }
    in->exchanged = false;
}

static void bind_segment(binder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    dt_lane *lane = in->lane;
    if (segment->n_device_kernels != 0) bind_once(in, segment, s);
    if (segment->n_replica_kernels + segment->n_collectives == 0) return;
    for (int l = 0, merge = 0; l < n_bound_leaves(lane, in->function); l++) {
        for (int k = 0; k < segment->n_replica_kernels; k++) bind_call(in, segment->replica_kernels[k], l, &lane->launches[l]);
        merge = bind_merges(in, segment, l, merge);
    }
    for (int c = 0; c < segment->n_collectives; c++) bind_part(in, &segment->collectives[c]);
    in->exchanged = segment->n_collectives != 0;
    end_stage(in, s, false);
}

static void bind_function(dt_lane *lane, int number, dt_arena *arena) {
    binder in = {.lane = lane, .arena = arena, .number = number, .function = &lane->artifact->functions[number], .bound = &lane->bound[number]};
    const dt_artifact_function *function = in.function;
    size_t n_calls = 0, n_inputs = 0, n_leaves = (size_t)n_bound_leaves(lane, function);
    int n_parts = 0, n_stages = 0;
    for (int s = 0; s < function->n_segments; s++) {
        const dt_artifact_segment *segment = &function->segments[s];
        n_calls += (size_t)segment->n_device_kernels + (size_t)segment->n_replica_kernels * n_leaves;
        n_calls += (size_t)segment->n_collectives * (size_t)lane->sums.n_merges;
        n_parts += segment->n_collectives;
        n_stages += segment->n_device_kernels + 1;
        for (int k = 0; k < segment->n_device_kernels; k++) n_inputs += count_inputs(&in, segment->device_kernels[k]);
        for (int k = 0; k < segment->n_replica_kernels; k++) n_inputs += count_inputs(&in, segment->replica_kernels[k]) * n_leaves;
    }
    in.bound->calls = DT_NEW_ARRAY(arena, dt_device_call, n_calls);
    in.bound->call_kernels = DT_NEW_ARRAY(arena, int, n_calls);
    in.bound->inputs = DT_NEW_ARRAY(arena, dt_lane_input, n_inputs);
    in.bound->parts = DT_NEW_ARRAY(arena, dt_comm_part, n_parts);
    in.bound->stages = DT_NEW_ARRAY(arena, dt_lane_stage, n_stages);
    for (int s = 0; s < function->n_segments; s++) bind_segment(&in, s);
    if (last_stage(&in) != NULL) last_stage(&in)->meets = false; /* whoever asked for the run waits for all lanes */
}

void dt_lane_bind(dt_lane *lane, int wanted, dt_arena *arena) {
    lane->launches = DT_NEW_ARRAY(arena, dt_launch, lane->n_leaves + 1);
    lane->bad_index = DT_NEW_ARRAY(arena, dt_bad_index, lane->n_leaves + 1);
    lane->bound = DT_NEW_ARRAY(arena, dt_lane_function, lane->artifact->n_functions);
    for (int f = 0; f < lane->artifact->n_functions; f++)
        if (is_wanted(lane->artifact, wanted, f)) bind_function(lane, f, arena);
}

/* ---- running ---- */

/* The launch values of each leaf: those of the batch, and which rows of it are its own. */
static void fill_launches(dt_lane *lane, const dt_lane_run_values *values, const dt_comm_moment *moment) {
    for (int l = 0; l <= lane->n_leaves; l++) {
        int leaf = lane->first_leaf + (l < lane->n_leaves ? l : 0);
        dt_launch *launch = &lane->launches[l];
        *launch = values->launch;
        launch->rows = dt_comm_valid_rows(leaf, moment);
        launch->row_offset = dt_comm_first_row(leaf, moment);
        launch->bad_index = &lane->bad_index[lane->comm != NULL ? l : 0];
        launch->part = l < lane->n_leaves ? 0 : lane->part;
        launch->n_parts = l < lane->n_leaves ? 1 : lane->home->n_lanes;
    }
}

static dt_comm_moment moment_of(const dt_lane *lane, const dt_lane_run_values *values) {
    return (dt_comm_moment){.step = values->step,
                            .number = values->launch.counter,
                            .rows = lane->rows,
                            .blocks = lane->blocks,
                            .block_rows = lane->block_rows,
                            .valid = values->launch.valid};
}

void dt_lane_fill_launches(dt_lane *lane, const dt_lane_run_values *values) {
    dt_comm_moment moment = moment_of(lane, values);
    fill_launches(lane, values, &moment);
}

/* A leaf without valid rows points at the batch's start: a place that exists. */
static void place_inputs(const dt_lane_function *bound, const dt_artifact_function *function, const dt_lane_run_values *values) {
    for (size_t i = 0; i < bound->n_inputs; i++) {
        const dt_lane_input *input = &bound->inputs[i];
        int64_t end = values->launch.valid * function->inputs[input->input].row_bytes;
        *input->argument = (char *)values->inputs[input->input] + (input->offset < end ? input->offset : 0);
    }
}

/* One by one, each waited for. */
static dt_status *run_timed(dt_lane *lane, const dt_lane_function *bound, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        int k = bound->call_kernels[i];
        double began = dt_seconds_now();
        DT_TRY(dt_device_run(lane->device, &bound->calls[i], 1));
        DT_TRY(dt_device_synchronize(lane->device));
        double seconds = dt_seconds_now() - began;
        if (k < 0) {
            lane->times->exchange_seconds += seconds;
            continue;
        }
        lane->times->kernel_seconds[k] += seconds;
        lane->times->kernel_calls[k]++;
    }
    return NULL;
}

static dt_status *run_calls(dt_lane *lane, const dt_lane_function *bound, size_t first, size_t end) {
    return lane->times == NULL ? dt_device_run(lane->device, bound->calls + first, end - first) : run_timed(lane, bound, first, end);
}

void dt_lane_clear_times(dt_lane *lane, int n_kernels) {
    if (lane->times == NULL) return;
    memset(lane->times->kernel_seconds, 0, (size_t)n_kernels * sizeof *lane->times->kernel_seconds);
    memset(lane->times->kernel_calls, 0, (size_t)n_kernels * sizeof *lane->times->kernel_calls);
    lane->times->exchange_seconds = 0;
}

/* What follows a stage's calls: an exchange, a meeting, or nothing. */
static dt_status *end_with_others(dt_lane *lane, const dt_comm_part *parts, int n_parts, const dt_comm_moment *moment) {
    double began = lane->times != NULL ? dt_seconds_now() : 0;
    DT_TRY(n_parts != 0 ? dt_comm_exchange(lane->comm, parts, n_parts, moment) : dt_comm_barrier(lane->comm, moment));
    if (lane->times != NULL) lane->times->exchange_seconds += dt_seconds_now() - began;
    return NULL;
}

dt_status *dt_lane_run(dt_lane *lane, const dt_lane_run_values *values) {
    const dt_artifact_function *function = &lane->artifact->functions[values->function];
    const dt_lane_function *bound = &lane->bound[values->function];
    dt_comm_moment moment = moment_of(lane, values);
    size_t call = 0;
    int part = 0;
    fill_launches(lane, values, &moment);
    place_inputs(bound, function, values);
    dt_lane_clear_times(lane, function->n_kernels);
    for (const dt_lane_stage *stage = bound->stages; stage < bound->stages + bound->n_stages; stage++) {
        int n_parts = stage->part_end - part;
        moment.segment = stage->segment;
        DT_TRY(run_calls(lane, bound, call, stage->call_end));
        if (n_parts != 0 || (stage->meets && lane->comm != NULL)) {
            DT_TRY(dt_device_synchronize(lane->device));
            DT_TRY(end_with_others(lane, bound->parts + part, n_parts, &moment));
        }
        call = stage->call_end;
        part = stage->part_end;
    }
    return dt_device_synchronize(lane->device);
}

/* ---- as cores ---- */

static dt_status *open_lane(dt_lane *lane, dt_arena *arena) {
    (void)arena;
    lane->level = dt_kernels_level(lane->kernels);
    return NULL;
}

static double in_gib(int64_t bytes) { return (double)bytes / (double)(1 << 30); }

static dt_status *does_not_fit(const dt_lane *lane, int n, int64_t needed, int64_t available) {
    dt_artifact_bytes bytes = dt_artifact_memory(lane->artifact);
    int64_t core_bytes = lane->leaf_space; /* what lies before its leaves */
    int64_t replicas = lane->n_all_leaves / lane->blocks;
    dt_status *status = dt_error(
        DT_RESOURCE_EXHAUSTED,
        "the plan needs %.2f GiB (%.2f GiB for the weights and what else cores share, %.2f GiB for each of %d core%s and %.2f GiB for each of "
        "%" PRId64 " replica%s), %.2f GiB are free; use fewer cores or replicas, or compile for fewer rows",
        in_gib(needed), in_gib(bytes.shared), in_gib(core_bytes), n, dt_plural(n), in_gib(bytes.replica), replicas, dt_plural(replicas),
        in_gib(available));
    return dt_artifact_suggest(status, lane->artifact, "--batch", "N");
}

static dt_status *bind(dt_lane *lane, dt_arena *arena) {
    dt_lane_bind(lane, -1, arena);
    return NULL;
}

/* All of it: one thread drives each core. */
static dt_status *start(dt_lane *lane, const dt_lane_run_values *values) {
    memset(lane->bad_index, 0, ((size_t)lane->n_leaves + 1) * sizeof *lane->bad_index); /* also after none: it costs less than asking */
    return dt_lane_run(lane, values);
}

static dt_status *read_aggregate(dt_lane *lane, int function, int index, void *value) {
    const dt_artifact_result *result = &lane->artifact->functions[function].results[index];
    return dt_device_read(lane->device, value, dt_lane_place(lane, function, result->buffer, 0), (size_t)result->tensor.row_bytes);
}

static dt_status *measure_peak(dt_lane *lane, dt_peak *peak) {
    int level = dt_cpu_level_from_name(lane->level);
    *peak = dt_peak_measure(level > 0 ? level : dt_cpu_level()); /* "native": all that the machine has */
    return NULL;
}

const dt_lane_kind dt_lane_of_cores = {
    .open = open_lane, .does_not_fit = does_not_fit, .bind = bind, .start = start, .read_aggregate = read_aggregate, .measure_peak = measure_peak};
