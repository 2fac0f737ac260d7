/* operations: see operations.h. */
#include "runtime/execution/operations_builder.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>

typedef dt_operations_builder builder;

/* Only a step runs for each microbatch; everything else once. */
static int n_microbatches(const builder *in) { return dt_function_role_has_rows(in->function->role) ? in->memory->n_microbatches : 1; }

static const dt_artifact_step *step_of(const dt_artifact *artifact, int function) {
    for (int s = 0; s < artifact->n_steps; s++)
        if (artifact->steps[s].function == function) return &artifact->steps[s];
    return NULL;
}

static bool is_partial(const dt_artifact_function *function, const dt_artifact_collective *collective) {
    return function->buffers[collective->source].space == DT_MEMORY_PARTIAL;
}

/* Of its source, which is partial. */
static const dt_partial_sums *sums_of(const builder *in, const dt_artifact_collective *collective) {
    return dt_executor_memory_sums(in->memory, in->number, in->function->buffers[collective->source].root);
}

/* Of a row, or of all of what has none. */
static size_t n_elements(const dt_artifact_tensor *tensor) { return (size_t)tensor->row_bytes / dt_dtype_bytes(tensor->dtype); }

/* Where the host reads an aggregate. */
static void *aggregate_address(const builder *in, int i) { return dt_executor_memory_aggregates(in->memory) + in->step->aggregate_starts[i]; }

char *dt_builder_address(const builder *in, int buffer, int microbatch) {
    int root = in->function->buffers[buffer].root;
    if (!dt_memory_domain_stage_has(in->memory->domain, in->number, root)) return NULL;
    int64_t offset = in->layer != NULL ? dt_layer_offset(in->layer, in->function->buffers, root, in->shard) : -1;
    char *start = offset >= 0 ? dt_memory_domain_place(in->memory->domain, in->place, offset)
                              : dt_executor_memory_address(in->memory, in->number, root, microbatch, in->shard, in->slot);
    return start + dt_artifact_shift(in->function, buffer, in->iterations);
}

static void add(builder *in, dt_operation operation) { dt_list_push(in->arena, &in->made.list, operation); }

/* How often something is there: for each held shard, or once. */
int dt_builder_n_copies(const builder *in, bool sharded) { return sharded ? in->memory->domain->n_shards : 1; }

/* ---- kernels ---- */

/* Launch values number `launch` of each shard: those of a microbatch, or the last ones, for kernels that run once. */
static void add_launch_of_shard(builder *in, int k, int microbatch, int launch) {
    const dt_artifact_kernel *kernel = &in->function->kernels[k];
    void **buffers = DT_NEW_ARRAY(in->arena, void *, kernel->n_buffers);
    for (int i = 0; i < kernel->n_buffers; i++) {
        const dt_artifact_buffer *buffer = &in->function->buffers[kernel->buffers[i]];
        if (dt_builder_is_left_out(in, k, buffer->root)) continue;
        if (buffer->space != DT_MEMORY_INPUT || in->memory->slots > 0) {
            buffers[i] = dt_builder_address(in, kernel->buffers[i], microbatch);
            continue;
        }
        const dt_artifact_tensor *input_tensor = &in->function->buffers[buffer->root].tensor;
        dt_input_argument input = {.argument = &buffers[i], .input = buffer->input};
        input.offset = dt_artifact_shift(in->function, kernel->buffers[i], in->iterations);
        int64_t row = dt_microbatches_first_row(&in->memory->rows, in->memory->first_microbatch + microbatch) - in->options->first_row;
        if (input_tensor->has_rows) input.offset += row * input_tensor->row_bytes;
        dt_list_push(in->arena, &in->made.inputs, input);
    }
    dt_kernel_entry entry = in->options->kernels != NULL ? dt_kernels_entry(in->options->kernels, in->number, k) : NULL;
    int number = kernel->sharded ? dt_executor_memory_launch(in->memory, launch, in->shard) : dt_executor_memory_whole_launch(in->memory, launch);
    dt_operation_launch added = {.function = in->number,
                                 .kernel = k,
                                 .entry = entry,
                                 .buffers = buffers,
                                 .values = dt_executor_memory_launches(in->memory) + number,
                                 .segment = in->segment,
                                 .position = in->position + (kernel->sharded ? in->memory->domain->first_shard + in->shard : 0),
                                 .place = dt_executor_memory_place(in->memory, microbatch, in->shard),
                                 .iteration = kernel->loop >= 0 ? in->iterations[kernel->loop] : -1};
    add(in, (dt_operation){.kind = DT_OPERATION_LAUNCH, .launch = added});
}

/* Whether it combines the shards of a microbatch, of this stage. */
static bool stands_within(const builder *in, const dt_artifact_collective *collective) {
    return collective->is_within && dt_builder_is_of_stage(in, collective);
}

/* How many collectives within the segment are done before kernel number n of those that replicas run; and how many of these right before it. */
static int n_within_before(const builder *in, const dt_artifact_segment *segment, int n) {
    int n_found = 0;
    for (int c = 0; c < segment->n_collectives; c++)
        n_found += stands_within(in, &segment->collectives[c]) && segment->collectives[c].complete_after <= n;
    return n_found;
}
static int n_within_at(const builder *in, const dt_artifact_segment *segment, int n) {
    return n_within_before(in, segment, n) - n_within_before(in, segment, n - 1);
}

/* How many positions of a segment a launch of the kernel takes. */
static int n_positions(const builder *in, const dt_artifact_kernel *kernel) { return kernel->sharded ? in->memory->artifact->n_shards : 1; }

static int positions_of(const builder *in, const int *kernels, int n) {
    int n_all = 0;
    for (int k = 0; k < n; k++)
        n_all += (int)dt_artifact_runs(in->function, in->function->kernels[kernels[k]].loop) * n_positions(in, &in->function->kernels[kernels[k]]);
    return n_all;
}

/* The position of kernel number n of those that replicas run: what combines shards has positions as launches have. */
static int position_of(const builder *in, const dt_artifact_segment *segment, int n) {
    return positions_of(in, segment->device_kernels, segment->n_device_kernels) + positions_of(in, segment->replica_kernels, n) +
           n_within_before(in, segment, n);
}

static void add_launch(builder *in, int k, int microbatch, int launch) {
    const dt_artifact_kernel *kernel = &in->function->kernels[k];
    if (in->memory->domain->layout.holds || !kernel->for_examples)
        for (in->shard = 0; in->shard < dt_builder_n_copies(in, kernel->sharded); in->shard++) add_launch_of_shard(in, k, microbatch, launch);
    in->shard = 0;
    in->position += n_positions(in, kernel);
}

/* Launches of the kernels, and of those in loops once for each iteration. */
static void add_launches(builder *in, const int *kernels, int n, int around, int microbatch, int launch) {
    for (int k = 0, end; k < n; k = end) {
        int loop = dt_artifact_next_loop(in->function, kernels[k], around);
        end = k + dt_artifact_n_together(in->function, kernels + k, n - k, around);
        if (loop == around) add_launch(in, kernels[k], microbatch, launch);
        for (int64_t t = 0; loop != around && t < in->function->loops[loop].trips; t++) {
            in->iterations[loop] = t;
            add_launches(in, kernels + k, end - k, loop, microbatch, launch);
        }
    }
}

/* What follows is one of them. */
static void add_collectives(builder *in, int segment, int n) {
    dt_operation_collective all = {.first = in->collective, .n = n, .segment = segment};
    add(in, (dt_operation){.kind = DT_OPERATION_COLLECTIVE, .collective = all});
    in->collective += n;
    in->apart = false;
}

/* Whether a buffer that a kernel has written shares of is gathered then: not a parameter that is gathered for its layers. */
static bool is_gathered_now(const builder *in, const dt_artifact_kernel *kernel, const dt_artifact_gather *gather) {
    const dt_artifact_buffer *buffer = &in->function->buffers[gather->buffer];
    const int k = (int)(kernel - in->function->kernels);
    if (!dt_memory_domain_stage_has(in->memory->domain, in->number, buffer->root) || dt_builder_is_left_out(in, k, buffer->root)) return false;
    bool is_variable = buffer->space == DT_MEMORY_VARIABLE;
    return !in->memory->domain->layout.gathers || !is_variable || !dt_is_gathered(&in->memory->artifact->variables[buffer->variable]);
}

/* How often a buffer is gathered after the kernel: for each held shard, or once; and all of them. */
static int n_gathers_of(const builder *in, const dt_artifact_kernel *kernel, const dt_artifact_gather *gather) {
    if (in->memory->domain->layout.sharing.n_processes <= 1 || !is_gathered_now(in, kernel, gather)) return 0;
    return dt_builder_n_copies(in, in->function->buffers[gather->buffer].sharded);
}
static int n_gathers(const builder *in, const dt_artifact_kernel *kernel) {
    int n = 0;
    for (int g = 0; g < kernel->n_gathers; g++) n += n_gathers_of(in, kernel, &kernel->gathers[g]);
    return n;
}

/* Whether this executor runs, of a kernel that runs once, its part. */
static bool runs(const builder *in, int k) {
    const dt_memory_domain *domain = in->memory->domain;
    int n_parts = in->function->kernels[k].divided ? domain->n_parts : 1;
    return in->options->part < n_parts && dt_memory_domain_runs(domain, in->number, k);
}

/* What is handed over from the central memory domain to others after kernel number i of those that run once. Returns how many. */
static int handed_over(const builder *in, int s, int i, const int **buffers) {
    const dt_placement *placement = in->memory->domain->placement;
    return placement != NULL ? dt_placement_handed_out(placement, in->memory->artifact, in->number, s, i, in->arena, buffers) : 0;
}

static void add_handing_over(builder *in, int s, int i) {
    const int *buffers;
    int n = handed_over(in, s, i, &buffers);
    if (n > 0) add_collectives(in, s, n);
}

static void add_meeting(builder *in) {
    if (in->memory->domain->n_executors > 1) add(in, (dt_operation){.kind = DT_OPERATION_MEET});
    in->apart = false;
}

/* ---- parameters in shares ---- */

/* Starts a nonblocking collective, of n parts, or waits for it. */
void dt_builder_add_nonblocking(builder *in, dt_operation_kind kind, int first, int n) {
    dt_operation_collective all = {.first = first, .n = n, .segment = in->segment};
    if (n > 0) add(in, (dt_operation){.kind = kind, .collective = all});
}

/* What a kernel that runs once needs whole; NULL: nothing. */
static const dt_layer *whole_of(const builder *in, int s, int i) {
    const dt_layer *layer = in->layers != NULL ? &in->layers[s].once[i] : NULL;
    return layer != NULL && layer->n_variables > 0 ? layer : NULL;
}

static bool is_laid_out(const builder *in, int k) {
    return in->layers != NULL && in->memory->domain->gathering->functions[in->number].is_laid_out[k];
}

/* How many parts are gathered for a layer, and leave with it: of what is sharded one for each held shard. */
static int n_gathered(const builder *in, const dt_layer *layer) {
    int n = 0;
    for (int i = 0; i < layer->n_variables; i++) n += dt_builder_n_copies(in, in->function->buffers[layer->buffers[i].buffer].sharded);
    return n;
}
static int n_leaving(const builder *in, int s, const dt_layer *layer) {
    int n = 0;
    for (int i = 0; i < layer->n_sums; i++)
        n += dt_builder_n_copies(in, in->function->buffers[in->function->segments[s].collectives[layer->sums[i]].source].sharded);
    return n;
}

static void gather_once(builder *in, int s, const dt_layer *layer) {
    int n = n_gathered(in, layer);
    in->segment = s;
    in->layer = layer;
    in->place = 0;
    dt_builder_add_nonblocking(in, DT_OPERATION_START, in->collective, n);
    dt_builder_add_nonblocking(in, DT_OPERATION_WAIT, in->collective, n);
    in->collective += n;
}

/* Lays out what the layer's kernels take so: each executor its part. Where something was gathered, nobody is at what was in the place before. */
static void lay_out(builder *in, const dt_layer *layer) {
    if (layer->n_kernels > 0 && layer->n_variables == 0) add_meeting(in);
    for (int i = 0; i < layer->n_kernels; i++) {
        if (runs(in, layer->kernels[i])) add_launches(in, &layer->kernels[i], 1, -1, 0, in->memory->n_microbatches);
    }
    if (layer->n_kernels > 0) add_meeting(in);
}

/* What comes before and after a kernel that runs once, or is gathered after it, is done on all executors of the domain, but for a run of those that
 * the first one does alone.
 */
static void add_once(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    if (segment->n_device_kernels == 0) return;
    if (in->apart) add_meeting(in);
    for (int i = 0, end; i < segment->n_device_kernels; i = end) {
        int k = segment->device_kernels[i];
        bool divided = in->function->kernels[k].divided;
        const dt_layer *whole = whole_of(in, s, i);
        int n_together = dt_artifact_n_together(in->function, segment->device_kernels + i, segment->n_device_kernels - i, -1);
        for (end = i + n_together; end < segment->n_device_kernels && is_laid_out(in, segment->device_kernels[end]);) end++;
        if (is_laid_out(in, k)) continue;
        if (whole != NULL) gather_once(in, s, whole);
        if (runs(in, k))
            add_launches(in, segment->device_kernels + i, n_together, -1, 0, in->memory->n_microbatches);
        else
            in->position += positions_of(in, segment->device_kernels + i, n_together);
        in->layer = NULL;
        bool goes_on = end < segment->n_device_kernels && !divided && !in->function->kernels[segment->device_kernels[end]].divided && whole == NULL &&
                       whole_of(in, s, end) == NULL;
        int n = n_gathers(in, &in->function->kernels[k]);
        if (n > 0)
            add_collectives(in, s, n);
        else if (!goes_on)
            add_meeting(in);
        add_handing_over(in, s, end - 1);
        dt_builder_add_handings(in, s, i, end);
    }
}

/* ---- sums ---- */

dt_tree_reduction *dt_builder_add_reductions(builder *in, int n) {
    dt_tree_reduction *reductions = DT_NEW_ARRAY(in->arena, dt_tree_reduction, n);
    add(in, (dt_operation){.kind = DT_OPERATION_REDUCE, .reduce = {n, reductions}});
    return reductions;
}

dt_tree_reduction dt_builder_copy(builder *in, dt_dtype dtype, const void *from, void *to, size_t n) {
    dt_tree_source *source = DT_NEW(in->arena, dt_tree_source);
    void **target = DT_NEW(in->arena, void *);
    *source = (dt_tree_source){from, 1};
    *target = to;
    return (dt_tree_reduction){.dtype = dtype, .n_leaves = 1, .n_sources = 1, .sources = source, .n_elements = n, .n_targets = 1, .targets = target};
}

/* The step of the tree that makes of two sums one, of one tensor. Sums on the way are not rounded, so none is of 16 bits. */
static dt_tree_reduction merge_of(builder *in, const dt_partial_merge *merge, const dt_artifact_collective *collective) {
    const dt_artifact_buffer *buffer = &in->function->buffers[collective->source];
    int64_t rows = buffer->tensor.has_all_rows ? in->memory->rows.rows * (in->memory->n_all_microbatches / in->memory->rows.per_replica) : 1;
    dt_tree_source *sources = DT_NEW_ARRAY(in->arena, dt_tree_source, 2);
    void **target = DT_NEW(in->arena, void *);
    assert(buffer->tensor.dtype != DT_F16 && buffer->tensor.dtype != DT_BF16);
    sources[0] = (dt_tree_source){dt_executor_memory_partial(in->memory, in->number, buffer->root, in->shard, merge->left), 1};
    sources[1] = (dt_tree_source){dt_executor_memory_partial(in->memory, in->number, buffer->root, in->shard, merge->right), 1};
    *target = (void *)sources[0].values;
    return (dt_tree_reduction){.dtype = buffer->tensor.dtype,
                               .combine = collective->op,
                               .n_leaves = 2,
                               .n_sources = 2,
                               .sources = sources,
                               .n_elements = (size_t)rows * n_elements(&buffer->tensor),
                               .n_targets = 1,
                               .targets = target};
}

/* Whether other processes have shards of the model, so that what combines them crosses. */
static bool lacks_shards(const builder *in) { return dt_memory_domain_lacks_shards(in->memory->domain, in->memory->artifact); }

/* How many parts a collective at the segment's end is: one for each held shard of what is sharded. What combines shards of what is there once is one
 * where it crosses, and else none. */
static int n_parts(const builder *in, const dt_artifact_collective *collective) {
    if (collective->is_within || !dt_builder_is_of_stage(in, collective)) return 0;
    if (collective->kind != DT_COLLECTIVE_SHARD_REDUCE) return dt_builder_n_copies(in, in->function->buffers[collective->source].sharded);
    return lacks_shards(in);
}

/* Whether a sum is added up as microbatches go through the segment, or through one layer of it. */
static bool is_merged(const builder *in, const dt_artifact_collective *collective, const dt_layer *layer, const dt_partial_sums *sums) {
    bool is_of_layer = layer == NULL || (collective->complete_after > layer->first && collective->complete_after <= layer->end);
    return is_partial(in->function, collective) && is_of_layer && sums_of(in, collective) == sums;
}

/* Of the segment's partial sums, or a layer's, what `microbatch` makes complete: merges from number m on. Returns the first one that has to wait. */
int dt_builder_add_merges(builder *in, const dt_artifact_segment *segment, const dt_layer *layer, const dt_partial_sums *sums, int microbatch,
                          int m) {
    int n_partial = 0;
    for (int c = 0; c < segment->n_collectives; c++)
        if (is_merged(in, &segment->collectives[c], layer, sums)) n_partial += n_parts(in, &segment->collectives[c]);
    while (m < sums->n_merges && sums->merges[m].after < microbatch) m++;
    for (; m < sums->n_merges && sums->merges[m].after == microbatch; m++) {
        if (n_partial == 0) continue;
        dt_tree_reduction *reductions = dt_builder_add_reductions(in, n_partial);
        for (int c = 0; c < segment->n_collectives; c++)
            for (in->shard = 0; is_merged(in, &segment->collectives[c], layer, sums) && in->shard < n_parts(in, &segment->collectives[c]);
                 in->shard++)
                *reductions++ = merge_of(in, &sums->merges[m], &segment->collectives[c]);
        in->shard = 0;
    }
    return m;
}

/* ---- collectives ---- */

/* Whether the executor's memory domain has a buffer of those that are there once. */
static bool has(const builder *in, int buffer) {
    return dt_memory_domain_has_buffer(in->memory->domain, in->number, in->function->buffers, in->function->buffers[buffer].root);
}

/* Where the result goes: to its buffer where the domain has it, and of an aggregate, on the executor that leads, to the aggregates too. */
static void **targets_of(const builder *in, const dt_artifact_collective *collective, int *n) {
    void **targets = DT_NEW_ARRAY(in->arena, void *, in->memory->n_microbatches + 1 + in->n_aggregates);
    *n = 0;
    if (collective->kind == DT_COLLECTIVE_REDUCE_SCATTER) {
        for (int m = 0; m < in->memory->n_microbatches; m++) targets[(*n)++] = dt_builder_address(in, collective->target, m);
        return targets;
    }
    if (has(in, collective->target)) targets[(*n)++] = dt_builder_address(in, collective->target, 0);
    for (int i = 0; i < in->n_aggregates && in->options->leads; i++)
        if (in->function->results[i].buffer == collective->target) targets[(*n)++] = aggregate_address(in, i);
    return targets;
}

/* NULL where nobody shares out. */
static const int64_t *shares_of(const builder *in, dt_share how, size_t n) {
    dt_process_roles sharing = in->memory->domain->layout.sharing;
    if (sharing.n_processes <= 1) return NULL;
    int64_t *shares = DT_NEW_ARRAY(in->arena, int64_t, sharing.n_processes + 1);
    for (int p = 0; p <= sharing.n_processes; p++)
        shares[p] = dt_share_first_element(how, (int64_t)n, dt_process_bound(sharing, p), dt_process_n_owners(sharing));
    return shares;
}

/* Rows that a buffer holds for a microbatch, of all; 1 of a tensor without. */
int64_t dt_builder_n_rows(const builder *in, const dt_artifact_tensor *tensor, int microbatch) {
    const dt_executor_memory *memory = in->memory;
    if (tensor->has_all_rows) return memory->rows.rows * (memory->n_all_microbatches / memory->rows.per_replica);
    return tensor->has_rows ? dt_microbatches_rows(&memory->rows, microbatch) : 1;
}

static dt_collective_part part_of(const builder *in, const dt_artifact_collective *collective) {
    const dt_artifact_tensor *tensor = &in->function->buffers[collective->source].tensor;
    void **sources = DT_NEW_ARRAY(in->arena, void *, in->memory->n_microbatches);
    for (int m = 0; m < in->memory->n_microbatches; m++) sources[m] = dt_builder_address(in, collective->source, m);
    dt_collective_part part = {.kind = collective->kind,
                               .combine = collective->op,
                               .dtype = tensor->dtype,
                               .n = n_elements(tensor),
                               .spans = is_partial(in->function, collective) ? sums_of(in, collective)->spans : NULL,
                               .sources = sources,
                               .complete_after = collective->complete_after,
                               .label = collective->label};
    part.targets = targets_of(in, collective, &part.n_targets);
    if (collective->share.unit > 0) part.shares = shares_of(in, collective->share, part.n);
    return part;
}

/* Of what combines shards, for microbatch `own` of this member, or of what is there once, in each memory domain; is_here: this member names that. */
static dt_collective_part shards_part(builder *in, const dt_artifact_collective *collective, int own, size_t n, bool is_here) {
    dt_collective_part part = {.kind = collective->kind,
                               .combine = collective->op,
                               .dtype = in->function->buffers[collective->source].tensor.dtype,
                               .n = n,
                               .complete_after = INT_MAX,
                               .axis = DT_AXIS_MODEL,
                               .label = collective->label};
    if (!is_here) return part;
    int n_shards = in->memory->domain->n_shards;
    void **sources = DT_NEW_ARRAY(in->arena, void *, n_shards), **target = DT_NEW(in->arena, void *);
    for (in->shard = 0; in->shard < n_shards; in->shard++) sources[in->shard] = dt_builder_address(in, collective->source, own);
    in->shard = 0;
    *target = dt_builder_address(in, collective->target, own);
    part.sources = sources;
    part.n_targets = 1;
    part.targets = target;
    return part;
}

/* All of a buffer, from where it `is` and to where it is `wanted`; `otherwise` names one without a name. */
static dt_collective_part copied_part(const builder *in, int number, bool is, bool wanted, const char *otherwise) {
    const dt_artifact_buffer *buffer = &in->function->buffers[number];
    void **place = DT_NEW(in->arena, void *);
    if (is || wanted) *place = dt_builder_address(in, number, 0);
    return (dt_collective_part){.kind = DT_COLLECTIVE_ALL_GATHER,
                                .dtype = buffer->tensor.dtype,
                                .n = n_elements(&buffer->tensor),
                                .sources = is ? place : NULL,
                                .n_targets = wanted,
                                .targets = place,
                                .label = buffer->tensor.name != NULL ? buffer->tensor.name : otherwise};
}

/* What each process has written its share of, in place. Of a parameter that is shared out servers keep theirs alone. */
static dt_collective_part gathered_part(const builder *in, const dt_artifact_gather *gather) {
    const dt_artifact_buffer *buffer = &in->function->buffers[gather->buffer];
    bool is_here = dt_memory_domain_is_whole(in->memory->domain);
    dt_collective_part part = copied_part(in, gather->buffer, is_here, is_here, "shares");
    part.shares = shares_of(in, gather->share, part.n);
    bool stays = buffer->space == DT_MEMORY_VARIABLE && in->memory->artifact->variables[buffer->variable].share.unit > 0;
    part.needs = stays ? DT_NEEDED_BY_HOLDERS : DT_NEEDED_BY_ALL;
    return part;
}

/* What the central domain has, and others that have it too want. */
static dt_collective_part handed_part(const builder *in, int buffer) {
    const dt_memory_domain *domain = in->memory->domain;
    bool is_central = dt_memory_domain_is_whole(domain);
    dt_collective_part part = copied_part(in, buffer, is_central, !is_central && has(in, buffer), "update");
    const dt_artifact_tensor *tensor = &in->function->buffers[buffer].tensor;
    if (tensor->has_all_rows) part.n *= (size_t)(in->memory->rows.rows * (in->memory->n_all_microbatches / in->memory->rows.per_replica));
    part.hands_over = true;
    return part;
}

static builder builder_of(const dt_operations_options *options, int f, dt_arena *arena) {
    const dt_artifact *artifact = options->memory->artifact;
    const dt_artifact_step *step = step_of(artifact, f);
    const dt_gathering *gathering = options->memory->domain->gathering;
    return (builder){.options = options,
                     .memory = options->memory,
                     .function = &artifact->functions[f],
                     .number = f,
                     .iterations = DT_NEW_ARRAY(arena, int64_t, artifact->functions[f].n_loops),
                     .step = step,
                     .n_aggregates = step != NULL ? step->n_aggregates : 0,
                     .layers = gathering != NULL ? gathering->functions[f].segments : NULL,
                     .arena = arena};
}

/* A parameter of the layer, from where its shares are. */
static dt_collective_part layer_part(const builder *in, const dt_gathered *one) {
    const dt_artifact_variable *variable = &in->memory->artifact->variables[one->variable];
    dt_collective_part part = copied_part(in, one->buffer, true, true, "parameters");
    void **source = DT_NEW(in->arena, void *);
    part.shares = shares_of(in, variable->share, part.n);
    *source = dt_executor_memory_address(in->memory, in->number, one->buffer, 0, in->shard, 0) +
              part.shares[in->memory->domain->layout.sharing.process] * (int64_t)dt_dtype_bytes(part.dtype);
    part.sources = source;
    part.needs = DT_NEEDED_BY_ALL;
    return part;
}

static void append_gathered(builder *in, const dt_layer *layer, int place, dt_part_list *parts) {
    int n = n_gathered(in, layer);
    in->layer = layer;
    in->place = place;
    for (int i = 0; i < layer->n_variables; i++)
        for (in->shard = 0; in->shard < dt_builder_n_copies(in, in->function->buffers[layer->buffers[i].buffer].sharded); in->shard++) {
            dt_collective_part part = layer_part(in, &layer->buffers[i]);
            part.nonblocking = n;
            n = DT_NONBLOCKING_NOT_FIRST;
            dt_list_push(in->arena, parts, part);
        }
    in->shard = 0;
    in->layer = NULL;
}

static void append_leaving(builder *in, int s, const dt_layer *layer, dt_part_list *parts) {
    int n = n_leaving(in, s, layer);
    for (int i = 0; i < layer->n_sums; i++) {
        const dt_artifact_collective *collective = &in->function->segments[s].collectives[layer->sums[i]];
        for (in->shard = 0; in->shard < n_parts(in, collective); in->shard++) {
            dt_collective_part part = part_of(in, collective);
            part.nonblocking = n;
            part.place = layer->sum_place;
            n = DT_NONBLOCKING_NOT_FIRST;
            dt_list_push(in->arena, parts, part);
        }
    }
    in->shard = 0;
}

/* Whether a sum leaves with a layer of the segment, before the rest. */
static bool leaves(const builder *in, int s, int collective) {
    for (int l = 0; in->layers != NULL && l < in->layers[s].n; l++)
        for (int i = 0; i < in->layers[s].layers[l].n_sums; i++)
            if (in->layers[s].layers[l].sums[i] == collective) return true;
    return false;
}

/* What does not, in parts. */
static int n_staying(const builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    int n = 0;
    for (int c = 0; c < segment->n_collectives; c++) n += leaves(in, s, c) ? 0 : n_parts(in, &segment->collectives[c]);
    return n;
}

static void append_handed(const builder *in, int s, int i, dt_part_list *parts) {
    const int *buffers;
    int n = handed_over(in, s, i, &buffers);
    for (int b = 0; b < n; b++) {
        dt_collective_part part = handed_part(in, buffers[b]);
        dt_list_push(in->arena, parts, part);
    }
}

static int n_all_within(const builder *in, const dt_artifact_segment *segment) { return n_within_before(in, segment, segment->n_replica_kernels); }

/* What combines shards before kernel number n: a nonblocking collective of microbatch `own` of member number `rank`, which has a place by
 * turns. Others name nothing of it. */
static void append_within_at(builder *in, const dt_artifact_segment *segment, int n, int rank, int own, dt_part_list *parts) {
    const dt_microbatch_range holds = in->memory->domain->holds;
    int microbatch = holds.first + dt_microbatches_first_of_member(rank, in->memory->domain->n_members, 0, holds.end - holds.first) + own;
    int n_together = n_within_at(in, segment, n);
    bool is_here = microbatch - own == in->memory->first_microbatch && own < in->memory->n_microbatches;
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *collective = &segment->collectives[c];
        if (!stands_within(in, collective) || collective->complete_after != n) continue;
        const dt_artifact_tensor *tensor = &in->function->buffers[collective->source].tensor;
        dt_collective_part part = shards_part(in, collective, own, (size_t)dt_builder_n_rows(in, tensor, microbatch) * n_elements(tensor), is_here);
        part.nonblocking = n_together;
        part.place = DT_NONBLOCKING_PLACES + DT_UNDER_WAY * rank + own % DT_UNDER_WAY; /* behind those of sums that leave with layers */
        part.member = rank + 1;
        n_together = DT_NONBLOCKING_NOT_FIRST;
        dt_list_push(in->arena, parts, part);
    }
}

/* Of each microbatch of this process what is within the segment, where it crosses: as many for each. */
static void append_within(builder *in, const dt_artifact_segment *segment, dt_part_list *parts) {
    const dt_memory_domain *domain = in->memory->domain;
    int n_held = domain->holds.end - domain->holds.first;
    for (int rank = 0; rank < domain->n_members && lacks_shards(in) && n_all_within(in, segment) > 0; rank++) {
        int first = dt_microbatches_first_of_member(rank, domain->n_members, 0, n_held);
        for (int m = first; m < dt_microbatches_first_of_member(rank + 1, domain->n_members, 0, n_held); m++)
            for (int n = 1; n <= segment->n_replica_kernels; n++) append_within_at(in, segment, n, rank, m - first, parts);
    }
}

/* In the order in which the list of operations has them. */
static void append_parts(builder *in, int s, dt_part_list *parts) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    dt_builder_append_stage_parts(in, s, parts);
    for (int k = 0; k < segment->n_device_kernels; k++) {
        const dt_artifact_kernel *kernel = &in->function->kernels[segment->device_kernels[k]];
        const dt_layer *whole = whole_of(in, s, k);
        if (whole != NULL) append_gathered(in, whole, 0, parts);
        for (int g = 0; g < kernel->n_gathers; g++)
            for (in->shard = 0; in->shard < n_gathers_of(in, kernel, &kernel->gathers[g]); in->shard++) {
                dt_collective_part part = gathered_part(in, &kernel->gathers[g]);
                dt_list_push(in->arena, parts, part);
            }
        in->shard = 0;
        append_handed(in, s, k, parts);
    }
    int n_rounds = in->memory->domain->n_rounds, n_layers = in->layers != NULL ? in->layers[s].n : 0;
    for (int i = 0; i < n_rounds * n_layers; i++) {
        append_gathered(in, &in->layers[s].layers[i % n_layers], i % DT_NONBLOCKING_PLACES, parts);
        if (i / n_layers == n_rounds - 1) append_leaving(in, s, &in->layers[s].layers[i % n_layers], parts);
    }
    append_within(in, segment, parts);
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *collective = &segment->collectives[c];
        bool over_shards = collective->kind == DT_COLLECTIVE_SHARD_REDUCE;
        size_t n = n_elements(&in->function->buffers[collective->source].tensor);
        if (leaves(in, s, c)) continue;
        for (in->shard = 0; in->shard < n_parts(in, collective); in->shard++) {
            dt_collective_part part = over_shards ? shards_part(in, collective, 0, n, in->options->part == 0) : part_of(in, collective);
            dt_list_push(in->arena, parts, part);
        }
        in->shard = 0;
    }
}

const dt_collective_part *dt_operations_collectives(const dt_operations_options *options, int wanted, dt_arena *arena, int *first) {
    const dt_artifact *artifact = options->memory->artifact;
    dt_part_list parts = {0};
    for (int f = 0; f < artifact->n_functions; f++) {
        builder in = builder_of(options, f, arena);
        first[f] = (int)parts.n;
        for (int s = 0; s < in.function->n_segments && dt_memory_has(artifact, wanted, f); s++) append_parts(&in, s, &parts);
        if (dt_memory_has(artifact, wanted, f)) dt_builder_append_stage_parts(&in, in.function->n_segments, &parts);
    }
    first[artifact->n_functions] = (int)parts.n;
    return parts.items;
}

/* ---- shards ---- */

/* A tree over the shards, all of which are held: of a microbatch, or of what is there once. Where processes have done that, nothing but what was. */
static void add_shard_reduction(builder *in, const dt_artifact_collective *collective, int microbatch) {
    const dt_artifact_tensor *tensor = &in->function->buffers[collective->source].tensor;
    int n = in->memory->domain->n_shards;
    dt_tree_source *sources = DT_NEW_ARRAY(in->arena, dt_tree_source, n);
    void **target = DT_NEW(in->arena, void *);
    dt_tree_reduction *reduction = DT_NEW(in->arena, dt_tree_reduction);
    dt_over_shards *over = DT_NEW(in->arena, dt_over_shards);
    for (in->shard = 0; in->shard < n; in->shard++) sources[in->shard] = (dt_tree_source){dt_builder_address(in, collective->source, microbatch), 1};
    in->shard = 0;
    *target = dt_builder_address(in, collective->target, microbatch);
    *reduction =
        (dt_tree_reduction){.dtype = tensor->dtype,
                            .combine = collective->op,
                            .n_leaves = n,
                            .n_sources = n,
                            .sources = sources,
                            .n_elements = (size_t)dt_builder_n_rows(in, tensor, in->memory->first_microbatch + microbatch) * n_elements(tensor),
                            .n_targets = 1,
                            .targets = target};
    dt_operation reduce = {.kind = DT_OPERATION_REDUCE, .reduce = {lacks_shards(in) ? 0 : 1, reduction, over}};
    *over = (dt_over_shards){.label = collective->label, .segment = in->segment, .position = in->position, .tensor = tensor};
    if (collective->is_within)
        in->position++;
    else
        over->position = -1;
    over->values = dt_executor_memory_launches(in->memory) + dt_executor_memory_launch(in->memory, microbatch, 0);
    if (reduction->n_elements > 0) add(in, reduce);
}

/* Whether it combines shards of what is there once, on this stage. */
static bool combines_once(const builder *in, const dt_artifact_collective *collective) {
    return collective->kind == DT_COLLECTIVE_SHARD_REDUCE && !collective->is_within && dt_builder_is_of_stage(in, collective);
}

/* Where all shards are held. What is there once the first executor of the domain combines, when nobody is at what was in the target's place; the
 * others go on when it has. */
static void add_shard_reductions(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    int n_once = 0;
    for (int c = 0; c < segment->n_collectives; c++) n_once += combines_once(in, &segment->collectives[c]);
    if (n_once == 0) return;
    if (in->apart && !lacks_shards(in)) add_meeting(in);
    for (int c = 0; c < segment->n_collectives && in->options->part == 0; c++) {
        const dt_artifact_collective *collective = &segment->collectives[c];
        if (combines_once(in, collective)) add_shard_reduction(in, collective, 0);
    }
    if (lacks_shards(in)) return;
    in->apart = true;
    if (n_staying(in, s) == 0) add_meeting(in);
}

/* What combines the shards of a microbatch before kernel number n: nobody is met. Where others have shards too, it starts, or is waited for. */
static void combine_within(builder *in, const dt_artifact_segment *segment, int n, int microbatch, dt_operation_kind kind) {
    int number = in->memory->first_microbatch - in->memory->domain->holds.first + microbatch;
    int first = in->within + number * n_all_within(in, segment) + n_within_before(in, segment, n - 1);
    if (lacks_shards(in)) dt_builder_add_nonblocking(in, kind, first, n_within_at(in, segment, n));
    if (lacks_shards(in) && (kind == DT_OPERATION_START || !in->options->looks)) return;
    in->position = position_of(in, segment, n) - n_within_at(in, segment, n);
    for (int c = 0; c < segment->n_collectives; c++)
        if (stands_within(in, &segment->collectives[c]) && segment->collectives[c].complete_after == n)
            add_shard_reduction(in, &segment->collectives[c], microbatch);
}

/* ---- aggregates ---- */

/* Whether it is the result of what crosses replicas. */
static bool is_exchanged(const builder *in, int buffer) {
    for (int s = 0; s < in->function->n_segments; s++)
        for (int c = 0; c < in->function->segments[s].n_collectives; c++) {
            const dt_artifact_collective *collective = &in->function->segments[s].collectives[c];
            if (collective->target == buffer && collective->kind != DT_COLLECTIVE_SHARD_REDUCE) return true;
        }
    return false;
}

/* The host has an aggregate that is an input. */
static bool is_copied(const builder *in, const dt_artifact_result *result) {
    bool is_handed = in->memory->domain->stages != NULL; /* it may be another stage's */
    return (is_handed || !is_exchanged(in, result->buffer)) && in->function->buffers[result->buffer].space != DT_MEMORY_INPUT;
}

static dt_tree_reduction copy_of_aggregate(builder *in, int i) {
    const dt_artifact_result *result = &in->function->results[i];
    const void *from = dt_builder_address(in, result->buffer, 0);
    return dt_builder_copy(in, result->tensor.dtype, from, aggregate_address(in, i), n_elements(&result->tensor));
}

/* Those that no collective put with the others. Without any, the last meeting is left out: whoever asked for a run waits for all executors. */
static void add_aggregates(builder *in) {
    int n = 0;
    for (int i = 0; i < in->n_aggregates; i++) n += is_copied(in, &in->function->results[i]);
    if (n == 0 && in->made.list.n > 0 && in->made.list.items[in->made.list.n - 1].kind == DT_OPERATION_MEET) in->made.list.n--;
    if (n == 0) return;
    if (in->apart) add_meeting(in);
    if (!in->options->leads) return;
    dt_tree_reduction *copies = dt_builder_add_reductions(in, n);
    for (int i = 0; i < in->n_aggregates; i++)
        if (is_copied(in, &in->function->results[i])) *copies++ = copy_of_aggregate(in, i);
}

/* ---- all of it ---- */

dt_status *dt_operations_check(const dt_artifact *artifact, bool is_gpu, int n_microbatches) {
    enum {
        MOST_OF_GPU = 1 << 20, /* in a graph */
        MOST_OF_CPU = 1 << 24
    };
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        int64_t n = dt_artifact_n_launches(function, artifact->n_shards), most = is_gpu ? MOST_OF_GPU : MOST_OF_CPU;
        int n_times = function->role == DT_ROLE_STEP && n_microbatches > 0 ? n_microbatches : 1; /* some kernels run once */
        if (n > most / n_times)
            return dt_error(DT_INVALID_ARGUMENT,
                            "%s: %" PRId64 " launches of kernels, in all iterations of loops, for each of %d %s are more than the %" PRId64
                            " that there may be on a %s; use %s, or shorter loops",
                            function->name, n, n_times, is_gpu ? "replicas" : "microbatches", most, is_gpu ? "GPU" : "CPU",
                            is_gpu ? "fewer replicas, with more rows each" : "a smaller --global-batch");
    }
    return NULL;
}

int64_t dt_operations_bytes(const dt_artifact *artifact, int n_microbatches) {
    const double GROWTH = 4; /* of a list that doubles in an arena, which keeps what it grew out of */
    double bytes = 0;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        if (function->role != DT_ROLE_STEP) continue;
        for (int k = 0; k < function->n_kernels; k++) {
            const dt_artifact_kernel *kernel = &function->kernels[k];
            double n = kernel->once ? 0 : (double)dt_artifact_runs(function, kernel->loop) * (kernel->sharded ? artifact->n_shards : 1);
            bytes += n * (GROWTH * sizeof(dt_operation) + (double)kernel->n_buffers * sizeof(void *));
        }
        for (int s = 0; s < function->n_segments; s++) bytes += function->segments[s].n_collectives * 2.0 * sizeof(void *);
    }
    bytes *= n_microbatches;
    return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
}

/* Of the last microbatches: what `n_done` kernels have made complete, before there are more of them. */
static void add_complete(builder *in, int s, int n_done) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    dt_operation complete = {.kind = DT_OPERATION_COMPLETE,
                             .collective = {.first = in->collective, .n = n_staying(in, s), .segment = s, .complete_after = n_done}};
    bool any = false;
    for (int c = 0; c < segment->n_collectives && !any; c++)
        any = segment->collectives[c].complete_after == n_done && n_parts(in, &segment->collectives[c]) > 0 &&
              segment->collectives[c].kind != DT_COLLECTIVE_SHARD_REDUCE;
    if (any && n_done < segment->n_replica_kernels) add(in, complete);
}

/* The kernels that run together from number k on: one, or those of a loop. */
static int end_together(const builder *in, const dt_artifact_segment *segment, int k) {
    return k + dt_artifact_n_together(in->function, segment->replica_kernels + k, segment->n_replica_kernels - k, -1);
}

/* How far microbatches that are together go one after another: to the next kernel; where they cross, on to what crosses. */
static int end_of_turn(const builder *in, const dt_artifact_segment *segment, int k, int end) {
    int next = end_together(in, segment, k);
    while (lacks_shards(in) && next < end && n_within_at(in, segment, next) == 0) next = end_together(in, segment, next);
    return next;
}

/* Kernels [first, end) of the segment's for replicas, with what stands behind each of them, for microbatches [m, n), which are together: each has
 * scratch of its own. Where what combines shards crosses, that of one microbatch is under way while others are computed. */
void dt_builder_add_kernels(builder *in, int s, int first, int end, int m, int n) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    const bool crosses = lacks_shards(in), completes = n == n_microbatches(in) && in->layers == NULL;
    for (int k = first, next; k < end && m < n; k = next) {
        next = end_of_turn(in, segment, k, end);
        for (int i = m; i < n; i++) {
            const bool is_last = completes && i == n - 1;
            if (crosses && k > first) combine_within(in, segment, k, i, DT_OPERATION_WAIT);
            if (is_last && crosses && k > first) add_complete(in, s, k);
            for (int j = k, stop; j < next; j = stop) {
                stop = end_together(in, segment, j);
                in->position = position_of(in, segment, j);
                add_launches(in, segment->replica_kernels + j, stop - j, -1, i, i);
                if (is_last && stop < next) add_complete(in, s, stop);
            }
            combine_within(in, segment, next, i, DT_OPERATION_START);
        }
        if (completes && !crosses) add_complete(in, s, next);
    }
    for (int i = m; i < n && crosses; i++) combine_within(in, segment, end, i, DT_OPERATION_WAIT);
    if (completes && crosses && m < n) add_complete(in, s, end);
}

/* A layer's sums leave once all have left theirs, and what was in their place is gone. */
static void add_leaving(builder *in, int s, int first, const dt_layer *layer, int *under_way) {
    if (layer->n_sums == 0) return;
    add_meeting(in);
    if (under_way[layer->sum_place] >= 0) dt_builder_add_nonblocking(in, DT_OPERATION_WAIT, under_way[layer->sum_place], 1);
    dt_builder_add_nonblocking(in, DT_OPERATION_START, first, n_leaving(in, s, layer));
    under_way[layer->sum_place] = first;
}

/* Microbatches [first, end) through a layer, one after another, or, where they cross, as many together as may be under way: sums that are the layer's
 * alone are added up on the way, those across behind it. */
static void add_layer(builder *in, int s, const dt_layer *layer, int first, int end) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    const int n_together = lacks_shards(in) ? DT_UNDER_WAY : 1;
    int merge = 0;
    for (int m = first, next; m < end; m = next) {
        next = m + n_together < end ? m + n_together : end;
        dt_builder_add_kernels(in, s, layer->first, layer->end, m, next);
        for (int i = m; i < next; i++) merge = dt_builder_add_merges(in, segment, layer, &in->memory->sums, i, merge);
    }
    merge = 0;
    for (int m = first; m < end; m++) merge = dt_builder_add_merges(in, segment, layer, &in->memory->sums_across, m, merge);
}

/* How many parts layer number i of all rounds has: what is gathered, and in the last round what leaves. */
static int n_parts_of_layer(const builder *in, int s, int i) {
    const dt_segment_layers *layers = &in->layers[s];
    const dt_layer *layer = &layers->layers[i % layers->n];
    return n_gathered(in, layer) + (i / layers->n == in->memory->domain->n_rounds - 1 ? n_leaving(in, s, layer) : 0);
}

/* The microbatches of a round go through a layer together. While they do, the next one's parameters arrive, whose place is that of the one before,
 * and in the last round the sums of the one before leave. All processes start these in one order; what stays, which is little, crosses behind them.
 * Parts of all layers begin with number first_part. */
static void add_layers(builder *in, int s, int first_part) {
    const dt_segment_layers *layers = &in->layers[s];
    int n_all = n_microbatches(in), n_rounds = in->memory->domain->n_rounds, n = n_rounds * layers->n, under_way[DT_NONBLOCKING_PLACES] = {-1, -1};
    int *firsts = DT_NEW_ARRAY(in->arena, int, n + 1);
    firsts[0] = first_part;
    for (int i = 0; i < n; i++) firsts[i + 1] = firsts[i] + n_parts_of_layer(in, s, i);
    if (n > 0) dt_builder_add_nonblocking(in, DT_OPERATION_START, firsts[0], n_gathered(in, &layers->layers[0]));
    for (int i = 0; i < n; i++) {
        const dt_layer *layer = &layers->layers[i % layers->n];
        int first = i / layers->n * in->memory->n_together, end = first + in->memory->n_together;
        dt_builder_add_nonblocking(in, DT_OPERATION_WAIT, firsts[i], n_gathered(in, layer));
        if (i + 1 < n) dt_builder_add_nonblocking(in, DT_OPERATION_START, firsts[i + 1], n_gathered(in, &layers->layers[(i + 1) % layers->n]));
        in->layer = layer;
        in->place = i % DT_NONBLOCKING_PLACES;
        lay_out(in, layer);
        add_layer(in, s, layer, first < n_all ? first : n_all, end < n_all ? end : n_all);
        in->layer = NULL;
        if (i / layers->n == n_rounds - 1) add_leaving(in, s, firsts[i] + n_gathered(in, layer), layer, under_way);
    }
    for (int p = 0; p < DT_NONBLOCKING_PLACES; p++)
        if (under_way[p] >= 0) dt_builder_add_nonblocking(in, DT_OPERATION_WAIT, under_way[p], 1);
}

/* All microbatches through the segment, and their sums up the tree. */
static void add_microbatches(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    int n = n_microbatches(in), n_together = in->memory->n_together, merge = 0;
    for (int m = 0, end; m < n; m = end) {
        end = m + (dt_executor_memory_has_rounds(in->memory) || m + n_together >= n ? n_together : 1);
        if (end > n) end = n;
        dt_builder_add_kernels(in, s, 0, segment->n_replica_kernels, m, end);
        for (int i = m; i < end; i++) merge = dt_builder_add_merges(in, segment, NULL, &in->memory->sums, i, merge);
    }
}

/* An executor without microbatches runs its part of kernels in parts, with those of the one whose microbatches they are. They meet within. */
static void add_helping(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    const dt_executor_memory *own = in->memory;
    if (in->options->helps == NULL || !dt_function_role_has_rows(in->function->role)) return;
    in->memory = in->options->helps;
    for (int m = 0; m < in->memory->n_microbatches; m++)
        for (int k = 0; k < segment->n_replica_kernels; k++) {
            if (!in->function->kernels[segment->replica_kernels[k]].divided) continue;
            in->position = position_of(in, segment, k);
            add_launch(in, segment->replica_kernels[k], m, m);
            in->made.list.items[in->made.list.n - 1].launch.values = &in->options->helping[m];
        }
    in->memory = own;
}

static void add_segment(builder *in, int s) {
    const dt_artifact_segment *segment = &in->function->segments[s];
    in->segment = s;
    in->position = 0;
    in->handed = in->collective;
    in->collective += dt_builder_n_stage_parts(in, s);
    add_once(in, s);
    if (segment->n_replica_kernels + segment->n_collectives == 0) return;
    const int first = in->collective;
    for (int i = 0; in->layers != NULL && i < in->memory->domain->n_rounds * in->layers[s].n; i++) in->collective += n_parts_of_layer(in, s, i);
    in->within = in->collective;
    if (lacks_shards(in)) in->collective += (in->memory->domain->holds.end - in->memory->domain->holds.first) * n_all_within(in, segment);
    if (in->layers != NULL)
        add_layers(in, s, first);
    else if (in->memory->domain->stages != NULL)
        dt_builder_add_units(in, s);
    else
        add_microbatches(in, s);
    add_helping(in, s);
    in->apart |= segment->n_replica_kernels > 0;
    if (!lacks_shards(in)) add_shard_reductions(in, s);
    if (n_staying(in, s) > 0)
        add_collectives(in, s, n_staying(in, s));
    else if (in->layers != NULL && segment->n_collectives > 0)
        add_meeting(in);
    if (lacks_shards(in) && in->options->looks) add_shard_reductions(in, s);
    dt_builder_add_handings(in, s, segment->n_device_kernels, segment->n_device_kernels + 1);
}

static void add_copy_down(builder *in) {
    const dt_executor_memory *memory = in->memory;
    dt_operation copy = {
        .kind = DT_OPERATION_COPY,
        .copy = {dt_executor_memory_launches(memory), in->options->host.down, (size_t)(memory->aggregate_space - memory->launch_space)}};
    if (memory->slots > 0) add(in, copy);
}

static void add_read_back(builder *in) {
    const dt_executor_memory *memory = in->memory;
    size_t bytes = (size_t)(memory->aggregate_space - memory->record_space + 8 * memory->n_aggregates);
    dt_operation copy = {.kind = DT_OPERATION_READ_BACK, .copy = {in->options->host.up, dt_executor_memory_records(memory), bytes}};
    if (memory->slots > 0) add(in, copy);
}

dt_operations dt_operations_of(const dt_operations_options *options, int function, int first_collective, int slot, dt_arena *arena) {
    builder in = builder_of(options, function, arena);
    in.slot = slot;
    in.collective = first_collective;
    add_copy_down(&in);
    for (int s = 0; s < in.function->n_segments; s++) add_segment(&in, s);
    dt_builder_add_results(&in);
    add_aggregates(&in);
    add_read_back(&in);
    return in.made;
}
