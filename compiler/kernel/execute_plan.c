/* execute_plan: a whole plan, kernel by kernel and collective by collective, as a device runs it. See execute.h.
 *
 * Buffers lie where plan_memory put them; arguments and variables have memory of their own, laid out for a full microbatch and followed by the slack
 * that vector code may read. */
#include "compiler/kernel/affine.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/execute.h"
#include "compiler/kernel/view.h"
#include "ir/evaluate.h"

#include <string.h>

enum {
    PATTERN = 0xa5
};

typedef struct dt_execution {
    dt_arena *arena;
    const dt_plan *plan;
    dt_kernel_runner runner;
    void *context;
    int n_replicas, n_shards;
    const dt_launch *launches;
    int64_t microbatch_rows;
    char **buffers; /* [n_replicas * n_shards * n_buffers]: of replica r and shard s, buffer b: (r * n_shards + s) * n_buffers + b; of views none */
    int64_t *iterations; /* [n_loops] */
} dt_execution;

/* ---- memory ---- */

static char *new_block(dt_arena *arena, int64_t bytes) {
    char *memory = dt_arena_new(arena, (size_t)bytes + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT);
    memory += (DT_BUFFER_ALIGNMENT - (uintptr_t)memory % DT_BUFFER_ALIGNMENT) % DT_BUFFER_ALIGNMENT;
    memset(memory, PATTERN, (size_t)bytes + DT_SLACK_BYTES);
    return memory;
}

static char **buffer_of_shard(const dt_execution *e, int replica, int shard, int b) {
    return &e->buffers[(replica * e->n_shards + shard) * e->plan->n_buffers + b];
}

/* Of what is the same for all shards. */
static char **buffer_of(const dt_execution *e, int replica, int b) { return buffer_of_shard(e, replica, 0, b); }

static bool has_own_block(const dt_buffer *buffer) {
    return buffer->view == NULL && (buffer->space == DT_MEMORY_VARIABLE || buffer->space == DT_MEMORY_INPUT);
}

static int64_t bytes_of(const dt_execution *e, const dt_buffer *buffer) {
    return dt_shape_elements(buffer->shape, e->microbatch_rows, e->microbatch_rows * e->n_replicas) * (int64_t)dt_dtype_bytes(buffer->dtype);
}

/* A space once: what has a size of its own, then what is as large as there are replicas, each of one microbatch. */
typedef struct dt_memory_block {
    char *fixed, *gathered;
} dt_memory_block;

static dt_memory_block new_space(const dt_execution *e, int64_t bytes, int64_t gathered) {
    return (dt_memory_block){new_block(e->arena, bytes), new_block(e->arena, gathered * e->n_replicas)};
}

static char *place_in(const dt_execution *e, const dt_memory_block *block, const dt_buffer *buffer) {
    return dt_buffer_is_gathered(buffer) ? block->gathered + buffer->offset * e->n_replicas : block->fixed + buffer->offset;
}

/* The spaces of a shard of a replica; what is whole is in those of shard 0. */
typedef struct dt_spaces {
    dt_memory_block device, scratch, replica, partial;
} dt_spaces;

static void make_buffer(dt_execution *e, const dt_spaces *spaces, int r, int s, int b) {
    const dt_buffer *buffer = &e->plan->buffers[b];
    const dt_memory_block *block = buffer->space == DT_MEMORY_DEVICE    ? &spaces->device
                                   : buffer->space == DT_MEMORY_SCRATCH ? &spaces->scratch
                                   : buffer->space == DT_MEMORY_PARTIAL ? &spaces->partial
                                                                        : &spaces->replica;
    char **made = buffer_of_shard(e, r, s, b);
    if (buffer->view != NULL) return;
    if (s > 0 && !buffer->sharded)
        *made = *buffer_of(e, r, b);
    else if (buffer->space == DT_MEMORY_VARIABLE && r > 0)
        *made = *buffer_of_shard(e, 0, s, b);
    else if (has_own_block(buffer))
        *made = new_block(e->arena, bytes_of(e, buffer));
    else
        *made = place_in(e, block, buffer);
}

/* Every buffer of every shard of every replica; what a device holds once is the same memory for all replicas. */
static void make_buffers(dt_execution *e) {
    const dt_space_bytes *bytes = &e->plan->bytes, *gathered = &e->plan->gathered;
    dt_spaces *spaces = DT_NEW_ARRAY(e->arena, dt_spaces, e->n_shards);
    e->buffers = DT_NEW_ARRAY(e->arena, char *, e->n_replicas * e->n_shards * e->plan->n_buffers);
    for (int s = 0; s < e->n_shards; s++)
        spaces[s] = (dt_spaces){.device = new_space(e, bytes->device, gathered->device), .scratch = new_space(e, bytes->scratch, gathered->scratch)};
    for (int r = 0; r < e->n_replicas; r++)
        for (int s = 0; s < e->n_shards; s++) {
            spaces[s].replica = new_space(e, bytes->replica, gathered->replica);
            spaces[s].partial = new_space(e, bytes->partial, gathered->partial);
            for (int b = 0; b < e->plan->n_buffers; b++) make_buffer(e, &spaces[s], r, s, b);
        }
}

static dt_status *check_slack(const dt_execution *e) {
    for (int copy = 0; copy < e->n_replicas * e->n_shards; copy++)
        for (int b = 0; b < e->plan->n_buffers; b++) {
            const dt_buffer *buffer = &e->plan->buffers[b];
            char *const *memory = buffer_of_shard(e, copy / e->n_shards, copy % e->n_shards, b);
            const unsigned char *slack = (const unsigned char *)*memory + bytes_of(e, buffer);
            for (int i = 0; i < DT_SLACK_BYTES && has_own_block(buffer); i++)
                if (slack[i] != PATTERN) return dt_error(DT_INTERNAL, "%s: byte %d past %s is written", e->plan->name, i, buffer->name);
        }
    return NULL;
}

/* Copies between a dense tensor and memory in which symbols after the first dimension have room for a full microbatch. `shape` has the symbols. */
static void copy_elements(const dt_execution *e, dt_shape shape, const dt_tensor *tensor, char *memory, bool to_tensor) {
    const int64_t *dims = tensor->shape.dims;
    int64_t *strides = DT_NEW_ARRAY(e->arena, int64_t, shape.rank);
    dt_shape_strides(shape, e->microbatch_rows, strides);
    size_t bytes = dt_dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) {
        int64_t rest = (int64_t)i, at = 0;
        for (int d = shape.rank - 1; d >= 0; rest /= dims[d--]) at += rest % dims[d] * strides[d];
        char *element = (char *)tensor->data + i * bytes, *stored = memory + (size_t)at * bytes;
        memcpy(to_tensor ? element : stored, to_tensor ? stored : element, bytes);
    }
}

/* The same of a shard's part of a variable, where padding is zero. */
static void copy_part(const dt_execution *e, const dt_buffer *buffer, const dt_tensor *variable, int shard, char *memory, bool to_tensor) {
    size_t bytes = dt_dtype_bytes(buffer->dtype), n = (size_t)bytes_of(e, buffer) / bytes;
    for (size_t i = 0; i < n; i++) {
        int64_t at = dt_shape_element_of_part(variable->shape, buffer->split_axis, buffer->split_groups, e->n_shards, shard, (int64_t)i);
        char *stored = memory + i * bytes;
        if (at < 0) {
            memset(stored, 0, bytes);
            continue;
        }
        char *element = (char *)variable->data + (size_t)at * bytes;
        memcpy(to_tensor ? element : stored, to_tensor ? stored : element, bytes);
    }
}

/* Between variables and memory. */
static void copy_variables(const dt_execution *e, const dt_memory *memory, bool to_tensors) {
    for (int b = 0; b < e->plan->n_buffers; b++) {
        const dt_buffer *buffer = &e->plan->buffers[b];
        if (buffer->space != DT_MEMORY_VARIABLE || buffer->view != NULL) continue;
        const dt_tensor *variable = &memory->variables[buffer->variable];
        for (int s = 0; s < e->n_shards && buffer->sharded; s++) copy_part(e, buffer, variable, s, *buffer_of_shard(e, 0, s, b), to_tensors);
        if (!buffer->sharded) copy_elements(e, buffer->shape, variable, *buffer_of(e, 0, b), to_tensors);
    }
}

static void fill_inputs(const dt_execution *e, const dt_tensor *inputs) {
    for (int r = 0; r < e->n_replicas; r++)
        for (int b = 0; b < e->plan->n_buffers; b++) {
            const dt_buffer *buffer = &e->plan->buffers[b];
            if (buffer->space == DT_MEMORY_INPUT && buffer->view == NULL)
                copy_elements(e, buffer->shape, &inputs[r * e->plan->n_inputs + buffer->input], *buffer_of(e, r, b), false);
        }
}

static void take_results(const dt_execution *e, dt_tensor *results) {
    int n_results = e->plan->n_results;
    for (int r = 0; r < e->n_replicas; r++)
        for (int i = 0; i < n_results; i++) {
            const dt_plan_result *from = &e->plan->results[i];
            int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, from->shape.rank);
            for (int d = 0; d < from->shape.rank; d++) {
                int64_t dim = from->shape.dims[d];
                dims[d] = dim == DT_BATCH ? e->launches[r].rows : dim == DT_GATHERED ? e->launches[r].valid : dim;
            }
            dt_tensor *result = &results[r * n_results + i];
            *result = dt_tensor_make(e->arena, from->dtype, (dt_shape){from->shape.rank, dims});
            copy_elements(e, from->shape, result, *buffer_of(e, r, from->buffer), true);
        }
}

/* ---- kernels ---- */

/* Once, or for each shard. */
static void run_kernel(const dt_execution *e, int k, int replica, const dt_launch *launch) {
    const dt_kernel_function *kernel = &e->plan->kernels[k];
    int n_shards = dt_kernel_is_sharded(e->plan, kernel) ? e->n_shards : 1;
    for (int s = 0; s < n_shards; s++) {
        dt_launch of_shard = *launch;
        if (!kernel->once) of_shard.part = 0, of_shard.n_parts = 1;
        void **buffers = DT_NEW_ARRAY(e->arena, void *, kernel->n_buffers);
        of_shard.shard = s;
        for (int b = 0; b < kernel->n_buffers; b++) {
            int root = dt_buffer_root(e->plan, kernel->buffers[b]);
            buffers[b] = *buffer_of_shard(e, replica, s, root) + dt_buffer_shift(e->plan, kernel->buffers[b], e->iterations);
        }
        e->runner(e->context, e->plan, k, buffers, &of_shard);
    }
}

/* In the order that shows at once when a part needs what one before it has done. */
static void run_once(const dt_execution *e, int k) {
    enum {
        N_PARTS = 3
    };
    dt_launch launch = e->launches[0];
    launch.rows = launch.row_offset = 0;
    launch.n_parts = e->plan->kernels[k].divided && !e->plan->batched ? N_PARTS : 1;
    launch.n_shares = 1;
    for (launch.part = launch.n_parts - 1; launch.part >= 0; launch.part--) run_kernel(e, k, 0, &launch);
}

/* kernels[0 … n - 1], which are all in the body of `loop`, for a replica, or once where that is -1. */
static void run_list(const dt_execution *e, const int *kernels, int n, const dt_plan_loop *loop, int replica) {
    for (int k = 0, end; k < n; k = end) {
        const dt_plan_loop *inner = e->plan->kernels[kernels[k]].loop;
        for (; inner != loop && inner->around != loop; inner = inner->around) {
        }
        for (end = k + 1; inner != loop && end < n && dt_loop_is_within(e->plan->kernels[kernels[end]].loop, inner);) end++;
        for (int64_t t = 0; inner != loop && t < inner->trips; t++) {
            e->iterations[inner->number] = t;
            run_list(e, kernels + k, end - k, inner, replica);
        }
        if (inner == loop && replica < 0) run_once(e, kernels[k]);
        if (inner == loop && replica >= 0) run_kernel(e, kernels[k], replica, &e->launches[replica]);
    }
}

/* ---- collectives ---- */

static dt_scalar combine(dt_combiner combiner, dt_dtype dtype, dt_scalar x, dt_scalar y) {
    if (!dt_dtype_is_float(dtype)) {
        if (combiner == DT_COMBINE_SUM) return dt_scalar_round((dt_scalar){.i = (int64_t)((uint64_t)x.i + (uint64_t)y.i)}, dtype);
        return (x.i > y.i) == (combiner == DT_COMBINE_MAX) ? x : y;
    }
    if (combiner == DT_COMBINE_SUM) return dt_scalar_round((dt_scalar){.f = x.f + y.f}, dtype);
    if (x.f != x.f || y.f != y.f) return x.f != x.f ? x : y;
    return (x.f > y.f) == (combiner == DT_COMBINE_MAX) ? x : y;
}

/* A buffer of each of those who combine it: memory of one of them is `step` further in the list of all. */
typedef struct dt_members {
    char **buffers;
    int step, n;
} dt_members;

static dt_members replicas_of(const dt_execution *e, int shard, int b) {
    return (dt_members){buffer_of_shard(e, 0, shard, b), e->n_shards * e->plan->n_buffers, e->n_replicas};
}

static dt_members shards_of(const dt_execution *e, int replica, int b) {
    return (dt_members){buffer_of(e, replica, b), e->plan->n_buffers, e->n_shards};
}

/* Element i over members first .. first + n - 1: n leaves split at the largest power of two below n. */
static dt_scalar reduce_tree(dt_combiner combiner, dt_dtype dtype, dt_members of, size_t i, int first, int n) {
    if (n == 1) return dt_scalar_load(of.buffers[first * of.step] + i * dt_dtype_bytes(dtype), dtype);
    int left = 1;
    while (2 * left < n) left *= 2;
    return combine(combiner, dtype, reduce_tree(combiner, dtype, of, i, first, left), reduce_tree(combiner, dtype, of, i, first + left, n - left));
}

static void reduce(const dt_execution *e, const dt_collective *collective, dt_members of, char *target) {
    const dt_buffer *source = &e->plan->buffers[collective->source];
    size_t bytes = dt_dtype_bytes(source->dtype), n = (size_t)bytes_of(e, source) / bytes;
    for (size_t i = 0; i < n; i++)
        dt_scalar_store(target + i * bytes, source->dtype, reduce_tree(collective->combiner, source->dtype, of, i, 0, of.n));
}

static void all_reduce(const dt_execution *e, const dt_collective *collective, int shard) {
    reduce(e, collective, replicas_of(e, shard, collective->source), *buffer_of_shard(e, 0, shard, collective->target));
}

/* Of what a replica has by itself, or once where all have the same. */
static void shard_reduce(const dt_execution *e, const dt_collective *collective, int replica) {
    reduce(e, collective, shards_of(e, replica, collective->source), *buffer_of(e, replica, collective->target));
}

/* Bytes of a row of the buffer, whose first dimension they are. */
static size_t row_bytes(const dt_buffer *buffer) { return (size_t)dt_shape_elements_per_row(buffer->shape) * dt_dtype_bytes(buffer->dtype); }

/* The rows of all replicas, one after another. */
static void all_gather(const dt_execution *e, const dt_collective *collective, int shard) {
    size_t row = row_bytes(&e->plan->buffers[collective->source]);
    char *to = *buffer_of_shard(e, 0, shard, collective->target);
    for (int r = 0; r < e->n_replicas; r++) {
        size_t bytes = (size_t)e->launches[r].rows * row;
        memcpy(to, *buffer_of_shard(e, r, shard, collective->source), bytes);
        to += bytes;
    }
}

/* To each replica its own rows of what all of them have. */
static void reduce_scatter(const dt_execution *e, const dt_collective *collective, int shard) {
    const dt_buffer *source = &e->plan->buffers[collective->source];
    dt_members of = replicas_of(e, shard, collective->source);
    size_t bytes = dt_dtype_bytes(source->dtype), row = row_bytes(source) / bytes, first = 0;
    for (int r = 0; r < e->n_replicas; r++) {
        size_t n = (size_t)e->launches[r].rows * row;
        for (size_t i = 0; i < n; i++)
            dt_scalar_store(*buffer_of_shard(e, r, shard, collective->target) + i * bytes, source->dtype,
                            reduce_tree(collective->combiner, source->dtype, of, first + i, 0, of.n));
        first += n;
    }
}

static bool has_first(const dt_buffer *buffer, int64_t dim) { return buffer->shape.rank > 0 && buffer->shape.dims[0] == dim; }

/* Over replicas, of a shard. */
static dt_status *run_collective(const dt_execution *e, const dt_collective *collective, int shard) {
    const dt_buffer *source = &e->plan->buffers[collective->source], *target = &e->plan->buffers[collective->target];
    dt_memory_space space = has_first(target, DT_BATCH) ? DT_MEMORY_REPLICA : DT_MEMORY_DEVICE;
    if (target->space != space)
        return dt_error(DT_INTERNAL, "%s of %s: its target is in another space", dt_collective_names()[collective->kind], source->name);
    if (has_first(source, DT_BATCH) && has_first(target, DT_GATHERED))
        all_gather(e, collective, shard);
    else if (has_first(source, DT_GATHERED) && has_first(target, DT_BATCH))
        reduce_scatter(e, collective, shard);
    else if (dt_shape_batch_axis(source->shape) < 0)
        all_reduce(e, collective, shard);
    else
        return dt_error(DT_INTERNAL, "%s of %s: rows are not its first dimension", dt_collective_names()[collective->kind], source->name);
    return NULL;
}

static dt_status *run_collectives(const dt_execution *e, const dt_collective *collective) {
    int n_shards = e->plan->buffers[collective->source].sharded ? e->n_shards : 1;
    if (dt_collective_is_within(e->plan, collective)) return NULL;
    if (collective->kind == DT_COLLECTIVE_SHARD_REDUCE) {
        shard_reduce(e, collective, 0);
        return NULL;
    }
    for (int shard = 0; shard < n_shards; shard++) DT_TRY(run_collective(e, collective, shard));
    return NULL;
}

/* ---- segments ---- */

/* What stands behind the first n kernels. */
static void run_within(const dt_execution *e, const dt_segment *segment, int n, int replica) {
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_collective *collective = &segment->collectives[c];
        if (dt_collective_is_within(e->plan, collective) && dt_complete_after(e->plan, segment, collective) == n)
            shard_reduce(e, collective, replica);
    }
}

static void run_kernels(const dt_execution *e, const dt_segment *segment) {
    run_list(e, segment->device_kernels, segment->n_device_kernels, NULL, -1);
    for (int r = 0; r < e->n_replicas; r++)
        for (int k = 0, end; k < segment->n_replica_kernels; k = end) { /* all kernels of a loop at once */
            const dt_plan_loop *loop = dt_loop_outermost(e->plan->kernels[segment->replica_kernels[k]].loop);
            for (end = k + 1; loop != NULL && end < segment->n_replica_kernels; end++)
                if (dt_loop_outermost(e->plan->kernels[segment->replica_kernels[end]].loop) != loop) break;
            run_list(e, segment->replica_kernels + k, end - k, NULL, r);
            run_within(e, segment, end, r);
        }
}

/* ---- plans ---- */

static void run_naively(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    dt_kernel_execute(context, plan, &plan->kernels[kernel], NULL, buffers, launch);
}

dt_status *dt_plan_execute(dt_arena *arena, const dt_plan_run *run) {
    const dt_plan *plan = run->plan;
    dt_execution e = {arena,
                      plan,
                      run->runner,
                      run->context,
                      run->n_replicas,
                      (int)plan->n_shards,
                      run->launches,
                      plan->microbatch_rows,
                      NULL,
                      DT_NEW_ARRAY(arena, int64_t, plan->n_loops)};
    if (e.runner == NULL) e.runner = run_naively, e.context = arena;
    make_buffers(&e);
    fill_inputs(&e, run->inputs);
    copy_variables(&e, run->memory, false);
    for (int s = 0; s < plan->n_segments; s++) {
        run_kernels(&e, &plan->segments[s]);
        for (int c = 0; c < plan->segments[s].n_collectives; c++) DT_TRY(run_collectives(&e, &plan->segments[s].collectives[c]));
    }
    DT_TRY(check_slack(&e));
    copy_variables(&e, run->memory, true);
    take_results(&e, run->results);
    return NULL;
}
