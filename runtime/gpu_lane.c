/* gpu_lane: a lane that is a GPU. All replicas are its leaves; what a step does is put on the GPU as a graph, once for each slot of input, when the
 * session is created, and a step is: write the launch values, launch the graph, wait.
 *
 * A function's graph:    launch values and empty records of bad indices, from the host
 *                        for each segment: kernels that run once; for each leaf its kernels, and the folds that it completes; the folds of all
 *                        collectives, in one launch, which puts aggregates side by side behind the records of bad indices
 *                        aggregates that no collective made, there too; all of these to the host, in one copy
 *
 * All that it needs on the GPU is known when it is opened, what libraries need and the tables of folds included, and is a part of the session's one
 * allocation there (devices/cuda/memory.h).
 *
 * With DT_CUDA_CHECK=1 in the environment a step's kernels are run one by one instead, each waited for, so that an error that a kernel makes says
 * which one it was.
 *
 * Inputs have two slots, each in pinned memory and on the GPU. While a step reads one, the next batch is copied into the other. In a slot the rows of
 * each leaf begin at a multiple of 256 bytes. Nothing is allocated, loaded or captured once it is bound.
 *
 * What a function does is a list of operations, made before there is memory, for its tables are part of it; the list is walked once for each graph,
 * and, where kernels are to be timed, in each step. */
#include "runtime/lane.h"

#include "abi/fold.h"
#include "runtime/devices/cuda/device.h"
#include "runtime/devices/cuda/graph.h"
#include "runtime/devices/cuda/kernels.h"
#include "runtime/devices/cuda/memory.h"
#include "runtime/devices/cuda/peak.h"
#include "runtime/devices/cuda/staging.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    MOST_OPERATIONS = 1 << 20,
    N_SLOTS = DT_CUDA_N_SLOTS
};

/* A kernel of a leaf, or a fold. */
typedef struct operation {
    int kernel; /* -1: a fold */
    int leaf;
    int launch;  /* which launch values */
    size_t work; /* of a fold: which of the tables */
} operation;

/* What folds read and write, before there is memory: a buffer as a leaf has it, a slot of partial sums, an aggregate. */
typedef struct place {
    enum {
        OF_LEAF,
        OF_SLOT,
        OF_AGGREGATES
    } of;
    int function, buffer;
    int number; /* of the leaf, the slot, the aggregate */
} place;

/* A function as the GPU runs it. */
typedef struct gpu_function {
    DT_LIST(operation) operations;
    int64_t *input_starts;  /* [n_inputs] within a slot */
    int64_t *input_strides; /* [n_inputs] from leaf to leaf; 0: all leaves read the same */
    int64_t input_bytes;    /* of a slot, all inputs */
    void *graphs[N_SLOTS];  /* the same one, where there are no inputs */
} gpu_function;

typedef struct dt_gpu_lane {
    dt_lane *lane;
    const dt_cuda *cuda;
    dt_cuda_kernels kernels;
    gpu_function *functions; /* [n_functions] */
    dt_cuda_staging staging;
    int slot; /* that the last step to start reads */

    /* Tables of all folds: on the GPU they lie one behind the other. */
    DT_LIST(dt_fold_work) works;
    DT_LIST(dt_fold_part) parts;
    DT_LIST(dt_fold_leaf) leaves;
    DT_LIST(place) targets; /* of the parts */
    DT_LIST(place) values;  /* of the leaves */

    /* On the GPU, beside lane and home: */
    void *staged;    /* the GPU's part of staging */
    void *tables;    /* NULL: there are no folds */
    void *workspace; /* of libraries; NULL: they need none */

    uint64_t *buffers; /* [most of a kernel] addresses for a call */

    bool checks;   /* kernel by kernel, waiting for each */
    void **events; /* [most operations + 1] where kernels are timed */
    int n_events;
} dt_gpu_lane;

static uint64_t address(const void *place) { return (uint64_t)(uintptr_t)place; }

static size_t table_bytes(const dt_gpu_lane *gpu) {
    return gpu->works.n * sizeof(dt_fold_work) + gpu->parts.n * sizeof(dt_fold_part) + gpu->leaves.n * sizeof(dt_fold_leaf);
}

static bool is_bound(const dt_artifact_function *function) { return function->role == DT_ROLE_INIT || function->role == DT_ROLE_STEP; }

/* ---- layout ---- */

/* Sums and products that are more than any memory become MOST_BYTES, which is more too. */
static const int64_t MOST_BYTES = INT64_MAX / 16;

static int64_t limited_product(int64_t bytes, int64_t n) {
    int64_t product;
    return __builtin_mul_overflow(bytes, n, &product) || product > MOST_BYTES ? MOST_BYTES : product;
}

static int64_t limited_sum(int64_t a, int64_t b) { return a > MOST_BYTES - b ? MOST_BYTES : a + b; }

/* A graph holds each kernel of each replica. */
static dt_status *check_operations(const dt_gpu_lane *gpu) {
    const dt_artifact *artifact = gpu->lane->artifact;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        if (function->role == DT_ROLE_STEP && (int64_t)function->n_kernels * gpu->lane->n_leaves > MOST_OPERATIONS)
            return dt_error(DT_INVALID_ARGUMENT,
                            "%s: %d kernels for each of %d replicas are more than the %d that a step may have on a GPU; use fewer "
                            "replicas, with more rows each",
                            function->name, function->n_kernels, gpu->lane->n_leaves, MOST_OPERATIONS);
    }
    return NULL;
}

static void lay_inputs_out(dt_gpu_lane *gpu, int number, dt_arena *arena) {
    const dt_artifact_function *function = &gpu->lane->artifact->functions[number];
    gpu_function *bound = &gpu->functions[number];
    bound->input_starts = DT_NEW_ARRAY(arena, int64_t, function->n_inputs);
    bound->input_strides = DT_NEW_ARRAY(arena, int64_t, function->n_inputs);
    for (int i = 0; i < function->n_inputs; i++) {
        const dt_artifact_tensor *input = &function->inputs[i];
        int64_t rows = input->has_rows ? gpu->lane->artifact->block_rows : 1;
        int64_t bytes = (int64_t)dt_cuda_rounded((size_t)(input->row_bytes * rows + DT_SLACK_BYTES));
        bound->input_starts[i] = bound->input_bytes;
        bound->input_strides[i] = input->has_rows ? bytes : 0;
        bound->input_bytes = limited_sum(bound->input_bytes, input->has_rows ? limited_product(bytes, gpu->lane->n_leaves) : bytes);
    }
}

static dt_cuda_staging_layout staging_layout(const dt_gpu_lane *gpu) {
    const dt_artifact *artifact = gpu->lane->artifact;
    dt_cuda_staging_layout layout = {.n_launches = gpu->lane->n_leaves + 1};
    for (int f = 0; f < artifact->n_functions; f++)
        if (gpu->functions[f].input_bytes > layout.input_bytes) layout.input_bytes = gpu->functions[f].input_bytes;
    for (int s = 0; s < artifact->n_steps; s++)
        if (artifact->steps[s].n_aggregates > layout.n_aggregates) layout.n_aggregates = artifact->steps[s].n_aggregates;
    return layout;
}

/* ---- what a function does ---- */

typedef struct binder {
    dt_gpu_lane *gpu;
    dt_arena *arena;
    int number;
    const dt_artifact_function *function;
    gpu_function *bound;
    int n_aggregates;
} binder;

static place of_leaf(const binder *in, int buffer, int leaf) {
    return (place){.of = OF_LEAF, .function = in->number, .buffer = buffer, .number = leaf};
}
static place of_slot(const binder *in, int buffer, int slot) {
    return (place){.of = OF_SLOT, .function = in->number, .buffer = buffer, .number = slot};
}
static place of_aggregates(int aggregate) { return (place){.of = OF_AGGREGATES, .number = aggregate}; }

static void add_kernel(const binder *in, int kernel, int leaf, int launch) {
    operation added = {.kernel = kernel, .leaf = leaf, .launch = launch};
    dt_list_push(in->arena, &in->bound->operations, added);
}

/* A fold to which parts are then added. In the tables, addresses are numbers of entries, or stand beside as places, until they lie on the GPU. */
static void add_fold(const binder *in) {
    dt_gpu_lane *gpu = in->gpu;
    operation added = {.kernel = -1, .launch = gpu->lane->n_leaves, .work = gpu->works.n};
    dt_fold_work work = {.parts = (int64_t)gpu->parts.n};
    dt_list_push(in->arena, &gpu->works, work);
    dt_list_push(in->arena, &in->bound->operations, added);
}

static void add_leaf(const binder *in, place values, int span) {
    dt_gpu_lane *gpu = in->gpu;
    dt_fold_leaf leaf = {.span = span};
    dt_list_push(in->arena, &gpu->leaves, leaf);
    dt_list_push(in->arena, &gpu->values, values);
    gpu->parts.items[gpu->parts.n - 1].n_leaves++;
}

/* A part of the last fold, to which leaves are then added. */
static void add_part(const binder *in, place target, int64_t kind, int64_t n_elements) {
    dt_gpu_lane *gpu = in->gpu;
    dt_fold_work *work = &gpu->works.items[gpu->works.n - 1];
    dt_fold_part part = {.leaves = (int64_t)gpu->leaves.n, .first = work->n_elements, .kind = kind};
    work->n_parts++;
    work->n_elements += n_elements;
    dt_list_push(in->arena, &gpu->parts, part);
    dt_list_push(in->arena, &gpu->targets, target);
}

static void add_copy(const binder *in, place target, place source, size_t element_bytes, int64_t n_elements) {
    add_part(in, target, DT_FOLD_KIND_COPY(element_bytes), n_elements);
    add_leaf(in, source, 1);
}

static bool is_partial(const binder *in, const dt_artifact_collective *collective) {
    return in->function->buffers[collective->source].space == DT_MEMORY_PARTIAL;
}

static int64_t n_elements_of(const dt_artifact_tensor *tensor) { return tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype); }

/* What the lane's own sums (partial_sums.h) add up once leaf `leaf` is there: merges from number m on; each step of the tree is a launch for all
 * collectives. Returns the first merge that has to wait. */
static int add_merges(const binder *in, const dt_artifact_segment *segment, int leaf, int m) {
    const dt_partial_sums *sums = &in->gpu->lane->sums;
    for (; m < sums->n_merges && sums->merges[m].after == leaf; m++) {
        int n_parts = 0;
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_artifact_collective *collective = &segment->collectives[c];
            const dt_artifact_buffer *buffer = &in->function->buffers[collective->source];
            if (!is_partial(in, collective)) continue;
            if (n_parts++ == 0) add_fold(in);
            place left = of_slot(in, collective->source, sums->merges[m].left);
            add_part(in, left, DT_FOLD_KIND(buffer->tensor.dtype, collective->fold), n_elements_of(&buffer->tensor));
            add_leaf(in, left, 1);
            add_leaf(in, of_slot(in, collective->source, sums->merges[m].right), 1);
        }
    }
    return m;
}

/* What all leaves have left for a collective, folded into `target`: a part of the last fold. */
static void add_exchange(const binder *in, const dt_artifact_collective *collective, place target) {
    const dt_lane *lane = in->gpu->lane;
    const dt_artifact_tensor *tensor = &in->function->buffers[collective->source].tensor;
    if (lane->n_leaves == 1) {
        add_copy(in, target, of_leaf(in, collective->source, 0), dt_dtype_bytes(tensor->dtype), n_elements_of(tensor));
        return;
    }
    add_part(in, target, DT_FOLD_KIND(tensor->dtype, collective->fold), n_elements_of(tensor));
    for (int l = 0; l < lane->n_leaves; l++) {
        int span = is_partial(in, collective) ? lane->sums.spans[l] : 1;
        if (span > 0) add_leaf(in, of_leaf(in, collective->source, l), span);
    }
}

/* All of a segment in one launch. What is an aggregate is put with the aggregates too. */
static void add_collectives(const binder *in, const dt_artifact_segment *segment) {
    if (segment->n_collectives == 0) return;
    add_fold(in);
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *collective = &segment->collectives[c];
        add_exchange(in, collective, of_leaf(in, collective->target, 0));
        for (int i = 0; i < in->n_aggregates; i++)
            if (in->function->results[i].buffer == collective->target) add_exchange(in, collective, of_aggregates(i));
    }
}

static bool is_exchanged(const binder *in, int buffer) {
    for (int s = 0; s < in->function->n_segments; s++)
        for (int c = 0; c < in->function->segments[s].n_collectives; c++)
            if (in->function->segments[s].collectives[c].target == buffer) return true;
    return false;
}

/* Aggregates that are put there by no collective, each at a word of its own. Inputs are not: the host has them. */
static void add_aggregates(const binder *in) {
    int n_added = 0;
    for (int i = 0; i < in->n_aggregates; i++) {
        const dt_artifact_result *result = &in->function->results[i];
        if (is_exchanged(in, result->buffer) || in->function->buffers[result->buffer].space == DT_MEMORY_INPUT) continue;
        if (n_added++ == 0) add_fold(in);
        add_copy(in, of_aggregates(i), of_leaf(in, result->buffer, 0), dt_dtype_bytes(result->tensor.dtype), 1);
    }
}

/* Of the step whose function it is; 0: it is no step's. */
static int n_aggregates_of(const dt_artifact *artifact, int function) {
    for (int s = 0; s < artifact->n_steps; s++)
        if (artifact->steps[s].function == function) return artifact->steps[s].n_aggregates;
    return 0;
}

static void list_operations(const binder *in) {
    const dt_lane *lane = in->gpu->lane;
    int n_leaves = in->function->role == DT_ROLE_STEP ? lane->n_leaves : 1;
    for (int s = 0; s < in->function->n_segments; s++) {
        const dt_artifact_segment *segment = &in->function->segments[s];
        for (int k = 0; k < segment->n_device_kernels; k++) add_kernel(in, segment->device_kernels[k], 0, lane->n_leaves);
        for (int l = 0, merge = 0; l < n_leaves; l++) {
            for (int k = 0; k < segment->n_replica_kernels; k++) add_kernel(in, segment->replica_kernels[k], l, l);
            merge = add_merges(in, segment, l, merge);
        }
        add_collectives(in, segment);
    }
    add_aggregates(in);
}

static void list_all_operations(dt_gpu_lane *gpu, dt_arena *arena) {
    const dt_artifact *artifact = gpu->lane->artifact;
    for (int f = 0; f < artifact->n_functions; f++)
        if (is_bound(&artifact->functions[f]))
            list_operations(&(binder){.gpu = gpu,
                                      .arena = arena,
                                      .number = f,
                                      .function = &artifact->functions[f],
                                      .bound = &gpu->functions[f],
                                      .n_aggregates = n_aggregates_of(artifact, f)});
}

/* ---- opening and closing ---- */

static dt_status *choose_program(const dt_artifact *artifact, const dt_artifact **program) {
    if (artifact->cuda == NULL)
        return dt_artifact_suggest(dt_error(DT_FAILED_PRECONDITION, "%s holds no code for GPUs; compile it for them", artifact->path), artifact,
                                   "--target", "cuda");
    *program = artifact->cuda->program;
    return NULL;
}

static int64_t bytes_beside(const dt_gpu_lane *gpu) {
    const dt_device *device = gpu->lane->device;
    return dt_device_taken_bytes(device, (int64_t)gpu->staging.device_bytes) + dt_device_taken_bytes(device, (int64_t)table_bytes(gpu)) +
           dt_device_taken_bytes(device, (int64_t)dt_cuda_kernels_workspace_bytes(&gpu->kernels));
}

static dt_status *open_lane(dt_lane *lane, dt_arena *arena) {
    dt_gpu_lane *gpu = DT_NEW(arena, dt_gpu_lane);
    gpu->lane = lane;
    gpu->cuda = dt_cuda_of(lane->device);
    gpu->functions = DT_NEW_ARRAY(arena, gpu_function, lane->artifact->n_functions);
    gpu->checks = dt_cuda_checks(DT_CUDA_CHECK_KERNELS);
    lane->gpu = gpu;
    for (int f = 0; f < lane->artifact->n_functions; f++)
        if (is_bound(&lane->artifact->functions[f])) lay_inputs_out(gpu, f, arena);
    DT_TRY(check_operations(gpu));
    list_all_operations(gpu, arena);
    dt_cuda_staging_lay_out(&gpu->staging, staging_layout(gpu));
    DT_TRY(dt_cuda_kernels_load(gpu->cuda, dt_kernels_artifact(lane->kernels), !lane->generated_alone, arena, &gpu->kernels));
    lane->level = gpu->kernels.architecture;
    lane->bytes_beside = bytes_beside(gpu);
    return NULL;
}

static void close_lane(dt_lane *lane) {
    dt_gpu_lane *gpu = lane->gpu;
    if (gpu == NULL) return;
    const dt_cuda_driver *driver = &gpu->cuda->driver;
    driver->cuCtxSetCurrent(gpu->cuda->context);
    driver->cuStreamSynchronize(gpu->cuda->copies);
    driver->cuStreamSynchronize(gpu->cuda->stream);
    for (int f = 0; f < lane->artifact->n_functions; f++)
        for (int s = 0; s < N_SLOTS; s++)
            if (s == 0 || gpu->functions[f].graphs[s] != gpu->functions[f].graphs[0]) dt_cuda_graph_free(gpu->cuda, gpu->functions[f].graphs[s]);
    for (int e = 0; e < gpu->n_events; e++) driver->cuEventDestroy_v2(gpu->events[e]);
    dt_device_release(lane->device, gpu->tables, table_bytes(gpu));
    dt_device_release(lane->device, gpu->workspace, dt_cuda_kernels_workspace_bytes(&gpu->kernels));
    dt_device_release(lane->device, gpu->staged, gpu->staging.device_bytes);
    dt_cuda_staging_close(&gpu->staging, gpu->cuda);
    dt_cuda_kernels_free(&gpu->kernels);
    lane->gpu = NULL;
}

static double in_mib(int64_t bytes) { return (double)bytes / (double)(1 << 20); }

static dt_status *does_not_fit(const dt_lane *lane, int n, int64_t needed, int64_t available) {
    int64_t replicas = lane->n_all_leaves / lane->blocks;
    (void)n;
    return dt_error(DT_RESOURCE_EXHAUSTED,
                    "the plan needs %.1f MiB of %s's memory, with %" PRId64 " replica%s of %" PRId64
                    " rows, and %.1f MiB are free; use fewer replicas, or a smaller --global-batch",
                    in_mib(needed), lane->device->name, replicas, dt_plural(replicas), lane->rows, in_mib(available));
}

/* ---- memory beside lane and home ---- */

static int64_t resolve(const dt_gpu_lane *gpu, const place *place) {
    const dt_lane *lane = gpu->lane;
    switch (place->of) {
    case OF_LEAF: return (int64_t)address(dt_lane_place(lane, place->function, place->buffer, place->number));
    case OF_SLOT:
        return (int64_t)address(dt_lane_partial_place(lane, &lane->artifact->functions[place->function].buffers[place->buffer], place->number));
    case OF_AGGREGATES: break;
    }
    return (int64_t)(gpu->staging.aggregates + 8 * (uint64_t)place->number);
}

static dt_status *open_staging(dt_gpu_lane *gpu) {
    DT_TRY(dt_device_allocate(gpu->lane->device, gpu->staging.device_bytes, &gpu->staged));
    DT_TRY(dt_cuda_staging_open(&gpu->staging, gpu->cuda, address(gpu->staged)));
    gpu->lane->launches = gpu->staging.host_launches;
    gpu->lane->bad_index = gpu->staging.host_bad_index;
    return NULL;
}

/* Numbers and places become addresses. */
static dt_status *upload_tables(dt_gpu_lane *gpu) {
    size_t n_work_bytes = gpu->works.n * sizeof(dt_fold_work), n_part_bytes = gpu->parts.n * sizeof(dt_fold_part),
           n_leaf_bytes = gpu->leaves.n * sizeof(dt_fold_leaf);
    dt_device *device = gpu->lane->device;
    if (table_bytes(gpu) == 0) return NULL;
    DT_TRY(dt_device_allocate(device, table_bytes(gpu), &gpu->tables));
    char *works = gpu->tables, *parts = works + n_work_bytes, *leaves = parts + n_part_bytes;
    for (size_t w = 0; w < gpu->works.n; w++)
        gpu->works.items[w].parts = (int64_t)address(parts) + gpu->works.items[w].parts * (int64_t)sizeof(dt_fold_part);
    for (size_t p = 0; p < gpu->parts.n; p++) {
        gpu->parts.items[p].leaves = (int64_t)address(leaves) + gpu->parts.items[p].leaves * (int64_t)sizeof(dt_fold_leaf);
        gpu->parts.items[p].target = resolve(gpu, &gpu->targets.items[p]);
    }
    for (size_t l = 0; l < gpu->leaves.n; l++) gpu->leaves.items[l].values = resolve(gpu, &gpu->values.items[l]);
    DT_TRY(dt_device_write(device, works, gpu->works.items, n_work_bytes));
    DT_TRY(dt_device_write(device, parts, gpu->parts.items, n_part_bytes));
    return dt_device_write(device, leaves, gpu->leaves.items, n_leaf_bytes);
}

static dt_status *make_workspace(dt_gpu_lane *gpu) {
    size_t bytes = dt_cuda_kernels_workspace_bytes(&gpu->kernels);
    if (bytes == 0) return NULL;
    DT_TRY(dt_device_allocate(gpu->lane->device, bytes, &gpu->workspace));
    gpu->kernels.workspace = address(gpu->workspace);
    return NULL;
}

/* ---- putting it on the stream ---- */

/* The call of a kernel; its addresses stand in gpu->buffers. */
static dt_cuda_kernel_call call_of(dt_gpu_lane *gpu, int number, int slot, const operation *one) {
    const dt_artifact_function *function = &gpu->lane->artifact->functions[number];
    const dt_artifact_kernel *kernel = &function->kernels[one->kernel];
    const gpu_function *bound = &gpu->functions[number];
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[kernel->buffers[b]];
        gpu->buffers[b] = buffer->space == DT_MEMORY_INPUT ? gpu->staging.slots[slot].inputs + (uint64_t)bound->input_starts[buffer->input] +
                                                                 (uint64_t)(bound->input_strides[buffer->input] * one->leaf)
                                                           : address(dt_lane_place(gpu->lane, number, kernel->buffers[b], one->leaf));
    }
    return (dt_cuda_kernel_call){
        .function = number, .kernel = one->kernel, .buffers = gpu->buffers, .launch = dt_cuda_staging_launch(&gpu->staging, one->launch)};
}

static dt_status *enqueue_kernel(dt_gpu_lane *gpu, int number, int slot, const operation *one) {
    dt_cuda_kernel_call call = call_of(gpu, number, slot, one);
    return dt_cuda_enqueue(&gpu->kernels, &call);
}

/* Libraries load and allocate when they are first asked for something, which a capture forbids. */
static dt_status *warm_libraries(dt_gpu_lane *gpu, int number) {
    const gpu_function *bound = &gpu->functions[number];
    for (size_t i = 0; i < bound->operations.n && gpu->kernels.libraries != NULL; i++) {
        if (bound->operations.items[i].kernel < 0 || bound->operations.items[i].leaf > 0) continue;
        dt_cuda_kernel_call call = call_of(gpu, number, 0, &bound->operations.items[i]);
        DT_TRY(dt_cuda_warm(&gpu->kernels, &call));
    }
    return dt_cuda_wait(gpu->cuda);
}

static dt_status *enqueue_operation(dt_gpu_lane *gpu, int number, int slot, const operation *one) {
    if (one->kernel >= 0) return enqueue_kernel(gpu, number, slot, one);
    return dt_cuda_enqueue_fold(&gpu->kernels, address(gpu->tables) + one->work * sizeof(dt_fold_work), gpu->works.items[one->work].n_elements,
                                dt_cuda_staging_launch(&gpu->staging, one->launch));
}

/* What a capture takes. */
typedef struct capture {
    dt_gpu_lane *gpu;
    int number, slot;
} capture;

static dt_status *enqueue_function(void *context) {
    const capture *of = context;
    const gpu_function *bound = &of->gpu->functions[of->number];
    DT_TRY(dt_cuda_staging_send(&of->gpu->staging, of->gpu->cuda));
    for (size_t i = 0; i < bound->operations.n; i++) DT_TRY(enqueue_operation(of->gpu, of->number, of->slot, &bound->operations.items[i]));
    return dt_cuda_staging_fetch(&of->gpu->staging, of->gpu->cuda);
}

static dt_status *make_graphs(dt_gpu_lane *gpu, int number) {
    gpu_function *bound = &gpu->functions[number];
    for (int s = 0; s < N_SLOTS; s++) {
        if (s > 0 && bound->input_bytes == 0) {
            bound->graphs[s] = bound->graphs[0];
            continue;
        }
        dt_status *status = dt_cuda_graph_make(gpu->cuda, enqueue_function, &(capture){gpu, number, s}, &bound->graphs[s]);
        status = dt_cuda_say_memory(gpu->cuda, status, bound->operations.n, "operations of a graph");
        DT_TRY(dt_status_annotate(status, "%s", gpu->lane->artifact->functions[number].name));
    }
    return NULL;
}

/* An event before each operation, and one behind the last. */
static dt_status *make_events(dt_gpu_lane *gpu, dt_arena *arena) {
    size_t n = 0;
    for (int f = 0; f < gpu->lane->artifact->n_functions; f++)
        if (gpu->functions[f].operations.n + 1 > n) n = gpu->functions[f].operations.n + 1;
    gpu->events = DT_NEW_ARRAY(arena, void *, n);
    for (; gpu->n_events < (int)n; gpu->n_events++) DT_CUDA_TRY(gpu->cuda, cuEventCreate, &gpu->events[gpu->n_events], 0);
    return NULL;
}

static dt_status *bind(dt_lane *lane, dt_arena *arena) {
    dt_gpu_lane *gpu = lane->gpu;
    const dt_artifact *artifact = lane->artifact;
    int most_buffers = 0;
    for (int f = 0; f < artifact->n_functions; f++)
        for (int k = 0; k < artifact->functions[f].n_kernels; k++)
            if (artifact->functions[f].kernels[k].n_buffers > most_buffers) most_buffers = artifact->functions[f].kernels[k].n_buffers;
    gpu->buffers = DT_NEW_ARRAY(arena, uint64_t, most_buffers);
    DT_TRY(open_staging(gpu));
    DT_TRY(upload_tables(gpu));
    DT_TRY(make_workspace(gpu));
    for (int f = 0; f < artifact->n_functions; f++)
        if (is_bound(&artifact->functions[f])) DT_TRY(warm_libraries(gpu, f));
    for (int f = 0; f < artifact->n_functions; f++)
        if (is_bound(&artifact->functions[f])) DT_TRY(make_graphs(gpu, f));
    return lane->times != NULL ? make_events(gpu, arena) : NULL;
}

/* ---- running ---- */

/* The rows of each leaf to where they lie in a slot. */
static void copy_rows(const dt_lane *lane, const char *source, int64_t row_bytes, int64_t valid, char *target, int64_t stride) {
    for (int l = 0; l < lane->n_leaves && l * lane->rows < valid; l++) {
        int64_t n = valid - l * lane->rows < lane->rows ? valid - l * lane->rows : lane->rows;
        memcpy(target + l * stride, source + l * lane->rows * row_bytes, (size_t)(n * row_bytes));
    }
}

static dt_status *stage(dt_lane *lane, int number, const void *const *inputs, int64_t valid) {
    dt_gpu_lane *gpu = lane->gpu;
    const dt_artifact_function *function = &lane->artifact->functions[number];
    const gpu_function *bound = &gpu->functions[number];
    int slot = (gpu->slot + 1) % N_SLOTS;
    for (int i = 0; i < function->n_inputs; i++) {
        char *target = gpu->staging.slots[slot].host + bound->input_starts[i];
        const dt_artifact_tensor *input = &function->inputs[i];
        if (input->has_rows)
            copy_rows(lane, inputs[i], input->row_bytes, valid, target, bound->input_strides[i]);
        else
            memcpy(target, inputs[i], (size_t)input->row_bytes);
    }
    DT_TRY(dt_cuda_enter(gpu->cuda));
    return bound->input_bytes > 0 ? dt_cuda_staging_copy(&gpu->staging, gpu->cuda, slot, (size_t)bound->input_bytes) : NULL;
}

/* One operation after another, each waited for. */
static dt_status *run_checked(dt_gpu_lane *gpu, int number) {
    const gpu_function *bound = &gpu->functions[number];
    const dt_artifact_kernel *kernels = gpu->lane->artifact->functions[number].kernels;
    DT_TRY(dt_cuda_staging_send(&gpu->staging, gpu->cuda));
    for (size_t i = 0; i < bound->operations.n; i++) {
        const operation *one = &bound->operations.items[i];
        DT_TRY(enqueue_operation(gpu, number, gpu->slot, one));
        dt_status *status = dt_cuda_wait(gpu->cuda);
        DT_TRY(one->kernel >= 0 ? dt_status_annotate(status, "%s (%s)", kernels[one->kernel].name, kernels[one->kernel].lines)
                                : dt_status_annotate(status, "the sums over replicas"));
    }
    return dt_cuda_staging_fetch(&gpu->staging, gpu->cuda);
}

/* One operation after another, each between two events. */
static dt_status *run_timed(dt_gpu_lane *gpu, int number) {
    const gpu_function *bound = &gpu->functions[number];
    const dt_cuda *cuda = gpu->cuda;
    DT_TRY(dt_cuda_staging_send(&gpu->staging, cuda));
    for (size_t i = 0; i < bound->operations.n; i++) {
        DT_CUDA_TRY(cuda, cuEventRecord, gpu->events[i], cuda->stream);
        DT_TRY(enqueue_operation(gpu, number, gpu->slot, &bound->operations.items[i]));
    }
    DT_CUDA_TRY(cuda, cuEventRecord, gpu->events[bound->operations.n], cuda->stream);
    return dt_cuda_staging_fetch(&gpu->staging, cuda);
}

static dt_status *read_times(dt_gpu_lane *gpu, int number) {
    dt_lane_times *times = gpu->lane->times;
    const gpu_function *bound = &gpu->functions[number];
    dt_lane_clear_times(gpu->lane, gpu->lane->artifact->functions[number].n_kernels);
    for (size_t i = 0; i < bound->operations.n; i++) {
        int k = bound->operations.items[i].kernel;
        float milliseconds = 0;
        DT_CUDA_TRY(gpu->cuda, cuEventElapsedTime, &milliseconds, gpu->events[i], gpu->events[i + 1]);
        if (k < 0) {
            times->exchange_seconds += milliseconds * 1e-3;
            continue;
        }
        times->kernel_seconds[k] += milliseconds * 1e-3;
        times->kernel_calls[k]++;
    }
    return NULL;
}

static bool measures(const dt_lane *lane) { return lane->times != NULL && !lane->times->pauses && !lane->gpu->checks; }

static dt_status *start_function(dt_lane *lane, const dt_lane_run_values *values) {
    dt_gpu_lane *gpu = lane->gpu;
    const gpu_function *bound = &gpu->functions[values->function];
    if (bound->input_bytes > 0) {
        if (values->inputs != NULL) DT_TRY(stage(lane, values->function, values->inputs, values->launch.valid));
        gpu->slot = (gpu->slot + 1) % N_SLOTS;
    }
    dt_lane_fill_launches(lane, values);
    dt_cuda_staging_point(&gpu->staging);
    DT_TRY(dt_cuda_enter(gpu->cuda));
    if (bound->input_bytes > 0) DT_CUDA_TRY(gpu->cuda, cuStreamWaitEvent, gpu->cuda->stream, gpu->staging.slots[gpu->slot].copied, 0);
    if (gpu->checks) return run_checked(gpu, values->function);
    if (measures(lane)) return run_timed(gpu, values->function);
    DT_CUDA_TRY(gpu->cuda, cuGraphLaunch, bound->graphs[gpu->slot], gpu->cuda->stream);
    return NULL;
}

static dt_status *finish_function(dt_lane *lane, const dt_lane_run_values *values) {
    dt_gpu_lane *gpu = lane->gpu;
    DT_TRY(dt_cuda_enter(gpu->cuda));
    DT_TRY(dt_cuda_wait(gpu->cuda));
    return measures(lane) ? read_times(gpu, values->function) : NULL;
}

/* Where the GPU was in the program. */
static dt_status *say_where(const dt_lane *lane, const dt_lane_run_values *values, dt_status *status) {
    return dt_status_annotate(status, "%s, %s step %lld", lane->device->name, values->step, (long long)values->launch.counter + 1);
}

static dt_status *start(dt_lane *lane, const dt_lane_run_values *values) { return say_where(lane, values, start_function(lane, values)); }

static dt_status *finish(dt_lane *lane, const dt_lane_run_values *values) {
    dt_status *status = finish_function(lane, values);
    if (status == NULL) return NULL;
    dt_status *longer = dt_error(dt_status_code(status), "%s%s", dt_status_message(status),
                                 lane->gpu->checks ? "" : "; if a kernel was the cause, DT_CUDA_CHECK=1 names it, at the cost of time");
    dt_status_free(status);
    return say_where(lane, values, longer);
}

/* ---- what it left ---- */

static dt_status *read_aggregate(dt_lane *lane, int function, int index, void *value) {
    memcpy(value, lane->gpu->staging.host_aggregates + index, (size_t)lane->artifact->functions[function].results[index].tensor.row_bytes);
    return NULL;
}

static dt_status *measure_peak(dt_lane *lane, dt_peak *peak) { return dt_cuda_peak_measure(lane->gpu->cuda, peak); }

static void print_libraries(const dt_lane *lane, bool each, dt_text *text) {
    if (lane->gpu->kernels.libraries != NULL) dt_cuda_libraries_print(lane->gpu->kernels.libraries, each, text);
}

const dt_lane_kind dt_lane_of_gpu = {.choose_program = choose_program,
                                     .open = open_lane,
                                     .close = close_lane,
                                     .does_not_fit = does_not_fit,
                                     .bind = bind,
                                     .stage = stage,
                                     .start = start,
                                     .finish = finish,
                                     .read_aggregate = read_aggregate,
                                     .measure_peak = measure_peak,
                                     .print_libraries = print_libraries};
