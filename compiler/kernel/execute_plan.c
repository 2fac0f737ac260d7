/* execute_plan: a whole plan, kernel by kernel and collective by collective, as a device runs it. See execute.h.
 *
 * Buffers lie where plan_memory put them; arguments and variables have memory of their own, laid out for a full microbatch and followed by the slack
 * that vector code may read. */
#include "compiler/kernel/affine.h"
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
    int n_replicas;
    const dt_launch *launches;
    int64_t microbatch_rows;
    char **buffers;      /* [n_replicas * n_buffers]: of replica r, buffer b: r * n_buffers + b; of views none */
    int64_t *iterations; /* [n_loops] */
} dt_execution;

/* ---- memory ---- */

static char *new_block(dt_arena *arena, int64_t bytes) {
    char *memory = dt_arena_new(arena, (size_t)bytes + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT);
    memory += (DT_BUFFER_ALIGNMENT - (uintptr_t)memory % DT_BUFFER_ALIGNMENT) % DT_BUFFER_ALIGNMENT;
    memset(memory, PATTERN, (size_t)bytes + DT_SLACK_BYTES);
    return memory;
}

static char **buffer_of(const dt_execution *e, int replica, int b) { return &e->buffers[replica * e->plan->n_buffers + b]; }

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

/* Every buffer of every replica; what a device holds once is the same memory for all. */
static void make_buffers(dt_execution *e) {
    const dt_plan *plan = e->plan;
    const dt_space_bytes *bytes = &plan->bytes, *gathered = &plan->gathered;
    e->buffers = DT_NEW_ARRAY(e->arena, char *, e->n_replicas * plan->n_buffers);
    dt_memory_block device = new_space(e, bytes->device, gathered->device), scratch = new_space(e, bytes->scratch, gathered->scratch);
    for (int r = 0; r < e->n_replicas; r++) {
        dt_memory_block replica = new_space(e, bytes->replica, gathered->replica), partial = new_space(e, bytes->partial, gathered->partial);
        for (int b = 0; b < plan->n_buffers; b++) {
            const dt_buffer *buffer = &plan->buffers[b];
            const dt_memory_block *block = buffer->space == DT_MEMORY_DEVICE    ? &device
                                           : buffer->space == DT_MEMORY_SCRATCH ? &scratch
                                           : buffer->space == DT_MEMORY_PARTIAL ? &partial
                                                                                : &replica;
            if (buffer->view != NULL) continue;
            if (buffer->space == DT_MEMORY_VARIABLE && r > 0)
                *buffer_of(e, r, b) = *buffer_of(e, 0, b);
            else if (has_own_block(buffer))
                *buffer_of(e, r, b) = new_block(e->arena, bytes_of(e, buffer));
            else
                *buffer_of(e, r, b) = place_in(e, block, buffer);
        }
    }
}

static dt_status *check_slack(const dt_execution *e) {
    for (int r = 0; r < e->n_replicas; r++)
        for (int b = 0; b < e->plan->n_buffers; b++) {
            const dt_buffer *buffer = &e->plan->buffers[b];
            const unsigned char *slack = (const unsigned char *)*buffer_of(e, r, b) + bytes_of(e, buffer);
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

static void fill_arguments(const dt_execution *e, const dt_tensor *inputs, const dt_memory *memory) {
    for (int r = 0; r < e->n_replicas; r++)
        for (int b = 0; b < e->plan->n_buffers; b++) {
            const dt_buffer *buffer = &e->plan->buffers[b];
            if (buffer->view != NULL) continue;
            const dt_tensor *tensor = buffer->space == DT_MEMORY_INPUT                ? &inputs[r * e->plan->n_inputs + buffer->input]
                                      : buffer->space == DT_MEMORY_VARIABLE && r == 0 ? &memory->variables[buffer->variable]
                                                                                      : NULL;
            if (tensor != NULL) copy_elements(e, buffer->shape, tensor, *buffer_of(e, r, b), false);
        }
}

static void take_variables(const dt_execution *e, dt_memory *memory) {
    for (int b = 0; b < e->plan->n_buffers; b++) {
        const dt_buffer *buffer = &e->plan->buffers[b];
        if (buffer->space == DT_MEMORY_VARIABLE && buffer->view == NULL)
            copy_elements(e, buffer->shape, &memory->variables[buffer->variable], *buffer_of(e, 0, b), true);
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

static void run_kernel(const dt_execution *e, int k, int replica, const dt_launch *launch) {
    const dt_kernel_function *kernel = &e->plan->kernels[k];
    void **buffers = DT_NEW_ARRAY(e->arena, void *, kernel->n_buffers);
    for (int b = 0; b < kernel->n_buffers; b++)
        buffers[b] =
            *buffer_of(e, replica, dt_buffer_root(e->plan, kernel->buffers[b])) + dt_buffer_shift(e->plan, kernel->buffers[b], e->iterations);
    e->runner(e->context, e->plan, k, buffers, launch);
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

static void run_kernels(const dt_execution *e, const dt_segment *segment) {
    run_list(e, segment->device_kernels, segment->n_device_kernels, NULL, -1);
    for (int r = 0; r < e->n_replicas; r++) run_list(e, segment->replica_kernels, segment->n_replica_kernels, NULL, r);
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

/* Element i over replicas first .. first + n - 1: n leaves split at the largest power of two below n. */
static dt_scalar reduce_tree(const dt_execution *e, const dt_collective *collective, size_t i, int first, int n) {
    dt_dtype dtype = e->plan->buffers[collective->source].dtype;
    if (n == 1) return dt_scalar_load(*buffer_of(e, first, collective->source) + i * dt_dtype_bytes(dtype), dtype);
    int left = 1;
    while (2 * left < n) left *= 2;
    return combine(collective->combiner, dtype, reduce_tree(e, collective, i, first, left), reduce_tree(e, collective, i, first + left, n - left));
}

static void all_reduce(const dt_execution *e, const dt_collective *collective) {
    const dt_buffer *source = &e->plan->buffers[collective->source];
    size_t bytes = dt_dtype_bytes(source->dtype), n = (size_t)bytes_of(e, source) / bytes;
    for (size_t i = 0; i < n; i++)
        dt_scalar_store(*buffer_of(e, 0, collective->target) + i * bytes, source->dtype, reduce_tree(e, collective, i, 0, e->n_replicas));
}

/* Bytes of a row of the buffer, whose first dimension they are. */
static size_t row_bytes(const dt_buffer *buffer) { return (size_t)dt_shape_elements_per_row(buffer->shape) * dt_dtype_bytes(buffer->dtype); }

/* The rows of all replicas, one after another. */
static void all_gather(const dt_execution *e, const dt_collective *collective) {
    size_t row = row_bytes(&e->plan->buffers[collective->source]);
    char *to = *buffer_of(e, 0, collective->target);
    for (int r = 0; r < e->n_replicas; r++) {
        size_t bytes = (size_t)e->launches[r].rows * row;
        memcpy(to, *buffer_of(e, r, collective->source), bytes);
        to += bytes;
    }
}

/* To each replica its own rows of what all of them have. */
static void reduce_scatter(const dt_execution *e, const dt_collective *collective) {
    const dt_buffer *source = &e->plan->buffers[collective->source];
    size_t bytes = dt_dtype_bytes(source->dtype), row = row_bytes(source) / bytes, first = 0;
    for (int r = 0; r < e->n_replicas; r++) {
        size_t n = (size_t)e->launches[r].rows * row;
        for (size_t i = 0; i < n; i++)
            dt_scalar_store(*buffer_of(e, r, collective->target) + i * bytes, source->dtype, reduce_tree(e, collective, first + i, 0, e->n_replicas));
        first += n;
    }
}

static bool has_first(const dt_buffer *buffer, int64_t dim) { return buffer->shape.rank > 0 && buffer->shape.dims[0] == dim; }

static dt_status *run_collective(const dt_execution *e, const dt_collective *collective) {
    const dt_buffer *source = &e->plan->buffers[collective->source], *target = &e->plan->buffers[collective->target];
    dt_memory_space space = has_first(target, DT_BATCH) ? DT_MEMORY_REPLICA : DT_MEMORY_DEVICE;
    if (target->space != space)
        return dt_error(DT_INTERNAL, "%s of %s: its target is in another space", dt_collective_names()[collective->kind], source->name);
    if (has_first(source, DT_BATCH) && has_first(target, DT_GATHERED))
        all_gather(e, collective);
    else if (has_first(source, DT_GATHERED) && has_first(target, DT_BATCH))
        reduce_scatter(e, collective);
    else if (dt_shape_batch_axis(source->shape) < 0)
        all_reduce(e, collective);
    else
        return dt_error(DT_INTERNAL, "%s of %s: rows are not its first dimension", dt_collective_names()[collective->kind], source->name);
    return NULL;
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
                      run->launches,
                      plan->microbatch_rows,
                      NULL,
                      DT_NEW_ARRAY(arena, int64_t, plan->n_loops)};
    if (e.runner == NULL) e.runner = run_naively, e.context = arena;
    make_buffers(&e);
    fill_arguments(&e, run->inputs, run->memory);
    for (int s = 0; s < plan->n_segments; s++) {
        run_kernels(&e, &plan->segments[s]);
        for (int c = 0; c < plan->segments[s].n_collectives; c++) DT_TRY(run_collective(&e, &plan->segments[s].collectives[c]));
    }
    DT_TRY(check_slack(&e));
    take_variables(&e, run->memory);
    take_results(&e, run->results);
    return NULL;
}
