/* gathering: see the header. */
#include "runtime/execution/gathering.h"

#include "runtime/execution/memory.h"

#include <string.h>

/* The layers of a function, on the way. */
typedef struct finder {
    const dt_artifact *artifact;
    const dt_artifact_function *function;
    dt_arena *arena;
    int n_shards;      /* that are held */
    bool *is_read;     /* [n_buffers] roots, by the layer at hand */
    bool *is_laid_out; /* [n_kernels] */
} finder;

static int root_of(const finder *in, int buffer) { return in->function->buffers[buffer].root; }

/* ---- what lays out ---- */

static bool reads(const finder *in, const dt_artifact_kernel *kernel, int root) {
    for (int w = 0; w < kernel->n_writes; w++)
        if (root_of(in, kernel->writes[w]) == root) return false;
    for (int b = 0; b < kernel->n_buffers; b++)
        if (root_of(in, kernel->buffers[b]) == root) return true;
    return false;
}

/* Whether anybody but layers has use for it. */
static bool is_needed_elsewhere(const finder *in, int root) {
    for (int k = 0; k < in->function->n_kernels; k++)
        if (in->function->kernels[k].once && !in->is_laid_out[k] && reads(in, &in->function->kernels[k], root)) return true;
    for (int r = 0; r < in->function->n_results; r++)
        if (root_of(in, in->function->results[r].buffer) == root) return true;
    for (int s = 0; s < in->function->n_segments; s++)
        for (int c = 0; c < in->function->segments[s].n_collectives; c++)
            if (root_of(in, in->function->segments[s].collectives[c].source) == root) return true;
    return false;
}

/* Whether a kernel lays out for a layer what it can have again: not the rows of all replicas, nor what processes write shares of. */
static bool is_of_layer(const finder *in, const dt_artifact_kernel *kernel) {
    bool is_of_rows = false;
    for (int w = 0; w < kernel->n_writes; w++) is_of_rows |= in->function->buffers[root_of(in, kernel->writes[w])].tensor.has_all_rows;
    return kernel->once && kernel->layer > 0 && kernel->loop < 0 && kernel->n_gathers == 0 && !is_of_rows;
}

/* Kernels of a layer that run once, but for those whose results others need as well. */
static void find_laid_out(finder *in) {
    bool changed = true;
    for (int k = 0; k < in->function->n_kernels; k++) in->is_laid_out[k] = is_of_layer(in, &in->function->kernels[k]);
    while (changed) {
        changed = false;
        for (int k = 0; k < in->function->n_kernels; k++)
            for (int w = 0; w < in->function->kernels[k].n_writes && in->is_laid_out[k]; w++) {
                if (!is_needed_elsewhere(in, root_of(in, in->function->kernels[k].writes[w]))) continue;
                in->is_laid_out[k] = false;
                changed = true;
            }
    }
}

/* ---- layers ---- */

typedef DT_LIST(dt_gathered) gathered_list;

static void add_buffer(finder *in, gathered_list *all, dt_layer *layer, int root, int variable) {
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].buffer == root || (variable >= 0 && all->items[i].variable == variable)) return;
    const dt_artifact_buffer *buffer = &in->function->buffers[root];
    int64_t bytes = dt_memory_padded(variable >= 0 ? dt_artifact_shard_bytes(in->artifact, &in->artifact->variables[variable]) : buffer->bytes);
    dt_gathered added = {root, variable, layer->bytes, buffer->sharded ? bytes : 0};
    for (int shard = 0; shard < (buffer->sharded ? in->n_shards : 1); shard++) dt_memory_take(&layer->bytes, bytes);
    dt_list_push(in->arena, all, added);
}

static void read_all(const finder *in, const dt_artifact_kernel *kernel) {
    for (int b = 0; b < kernel->n_buffers; b++) in->is_read[root_of(in, kernel->buffers[b])] = true;
}

static bool lays_out(const finder *in, const dt_artifact_kernel *kernel) {
    for (int w = 0; w < kernel->n_writes; w++)
        if (in->is_read[root_of(in, kernel->writes[w])]) return true;
    return false;
}

/* What is_read says that kernels read; kernels that lay out follow those whose results they take. */
static void fill(finder *in, dt_layer *layer) {
    const dt_artifact_function *function = in->function;
    gathered_list all = {0};
    bool *is_needed = DT_NEW_ARRAY(in->arena, bool, function->n_kernels);
    int *kernels = DT_NEW_ARRAY(in->arena, int, function->n_kernels);
    for (int k = function->n_kernels; k-- > 0;) {
        is_needed[k] = in->is_laid_out[k] && lays_out(in, &function->kernels[k]);
        if (is_needed[k]) read_all(in, &function->kernels[k]);
    }
    for (int k = 0; k < function->n_kernels; k++)
        if (is_needed[k]) kernels[layer->n_kernels++] = k;
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        bool is_shared = buffer->space == DT_MEMORY_VARIABLE && dt_is_gathered(&in->artifact->variables[buffer->variable]);
        if (in->is_read[b] && is_shared) add_buffer(in, &all, layer, b, buffer->variable);
    }
    layer->n_variables = (int)all.n;
    for (int i = 0; i < layer->n_kernels; i++)
        for (int w = 0; w < function->kernels[kernels[i]].n_writes; w++)
            add_buffer(in, &all, layer, root_of(in, function->kernels[kernels[i]].writes[w]), -1);
    layer->n_buffers = (int)all.n;
    layer->buffers = all.items;
    layer->kernels = kernels;
}

static void clear(const finder *in) { memset(in->is_read, 0, (size_t)in->function->n_buffers * sizeof *in->is_read); }

static dt_layer layer_of(finder *in, const dt_artifact_segment *segment, int first) {
    dt_layer made = {.first = first, .end = first};
    int number = in->function->kernels[segment->replica_kernels[first]].layer;
    clear(in);
    for (; made.end < segment->n_replica_kernels; made.end++) {
        const dt_artifact_kernel *kernel = &in->function->kernels[segment->replica_kernels[made.end]];
        if (kernel->layer != number) break;
        read_all(in, kernel);
    }
    fill(in, &made);
    return made;
}

/* Of n kernels that run once, together: one, or those of a loop. Who runs one on shares computes no examples. */
static dt_layer layer_of_once(finder *in, const int *kernels, int n) {
    dt_layer made = {0};
    clear(in);
    for (int k = 0; k < n; k++) {
        const dt_artifact_kernel *kernel = &in->function->kernels[kernels[k]];
        if (!in->is_laid_out[kernels[k]] && kernel->for_examples) read_all(in, kernel);
    }
    fill(in, &made);
    return made;
}

static dt_segment_layers layers_of(finder *in, const dt_artifact_segment *segment, int64_t *most) {
    dt_layer *once = DT_NEW_ARRAY(in->arena, dt_layer, segment->n_device_kernels);
    DT_LIST(dt_layer) layers = {0};
    for (int i = 0, n; i < segment->n_device_kernels; i += n) {
        n = dt_artifact_n_together(in->function, segment->device_kernels + i, segment->n_device_kernels - i, -1);
        once[i] = layer_of_once(in, segment->device_kernels + i, n);
        dt_memory_raise_to(most, once[i].bytes);
    }
    for (int first = 0; first < segment->n_replica_kernels; first = layers.items[layers.n - 1].end) {
        dt_layer made = layer_of(in, segment, first);
        dt_list_push(in->arena, &layers, made);
        dt_memory_raise_to(most, made.bytes);
    }
    return (dt_segment_layers){(int)layers.n, layers.items, once};
}

/* ---- sums ---- */

static bool is_shared_sum(const finder *in, const dt_artifact_collective *collective) {
    return collective->kind == DT_COLLECTIVE_ALL_REDUCE && collective->share.unit > 0 &&
           in->function->buffers[root_of(in, collective->source)].space == DT_MEMORY_PARTIAL;
}

/* Which sums leave with which layer. */
static void find_sums(finder *in, const dt_artifact_segment *segment, const dt_segment_layers *layers, int *n_with_sums) {
    for (int l = 0; l < layers->n; l++) {
        dt_layer *layer = &layers->layers[l];
        int *sums = DT_NEW_ARRAY(in->arena, int, segment->n_collectives);
        layer->sums = sums;
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_artifact_collective *one = &segment->collectives[c];
            if (is_shared_sum(in, one) && one->complete_after > layer->first && one->complete_after <= layer->end) sums[layer->n_sums++] = c;
        }
        if (layer->n_sums > 0) layer->sum_place = (*n_with_sums)++ % DT_NONBLOCKING_PLACES;
    }
}

/* In one pass over all layers: a root that was last seen in another one is across. */
static void find_across(finder *in, dt_gathered_function *made) {
    const dt_layer **seen = DT_NEW_ARRAY(in->arena, const dt_layer *, in->function->n_buffers);
    for (int s = 0; s < in->function->n_segments; s++)
        for (int l = 0; l < made->segments[s].n; l++) {
            const dt_layer *layer = &made->segments[s].layers[l];
            for (int i = layer->first; i < layer->end; i++) {
                const dt_artifact_kernel *kernel = &in->function->kernels[in->function->segments[s].replica_kernels[i]];
                for (int b = 0; b < kernel->n_buffers; b++) {
                    int root = root_of(in, kernel->buffers[b]);
                    if (seen[root] != NULL && seen[root] != layer) made->sums[root].kind = DT_SUM_ACROSS;
                    seen[root] = layer;
                }
            }
        }
}

static void place_sums(finder *in, dt_gathered_function *made, int n_rounds, int64_t *most) {
    int64_t ends[DT_SUM_ACROSS + 1] = {0}, bytes = 0;
    find_across(in, made);
    for (int s = 0; s < in->function->n_segments; s++)
        for (int l = 0; l < made->segments[s].n; l++) {
            const dt_layer *layer = &made->segments[s].layers[l];
            if (n_rounds == 1) bytes = 0;
            for (int i = 0; i < layer->n_sums; i++) {
                int root = root_of(in, in->function->segments[s].collectives[layer->sums[i]].source);
                if (made->sums[root].kind == DT_SUM_ACROSS) continue;
                made->sums[root] = (dt_sum_placing){DT_SUM_LEAVES, n_rounds == 1 ? layer->sum_place : 0,
                                                    dt_memory_take(&bytes, dt_memory_padded(in->function->buffers[root].bytes))};
            }
            dt_memory_raise_to(&ends[DT_SUM_LEAVES], bytes);
        }
    for (int b = 0; b < in->function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &in->function->buffers[b];
        bool is_sum = buffer->space == DT_MEMORY_PARTIAL && buffer->root == b && !buffer->tensor.has_all_rows;
        if (is_sum && made->sums[b].kind != DT_SUM_LEAVES)
            made->sums[b].offset = dt_memory_take(&ends[made->sums[b].kind], dt_memory_padded(buffer->bytes));
    }
    for (int kind = 0; kind <= DT_SUM_ACROSS; kind++) dt_memory_raise_to(&most[kind], ends[kind]);
}

/* ---- what is there once ---- */

/* Shares of sums get places of their own, what is laid out has its layer's; the rest moves together: what shares memory goes on to. */
static void place_device(finder *in, dt_gathered_function *made, dt_held_share own, int64_t *most) {
    const dt_artifact_function *function = in->function;
    bool *is_rest = DT_NEW_ARRAY(in->arena, bool, function->n_buffers);
    for (int s = 0; s < function->n_segments; s++)
        for (int l = 0; l < made->segments[s].n; l++)
            for (int i = 0; i < made->segments[s].layers[l].n_sums; i++) {
                const dt_artifact_collective *one = &function->segments[s].collectives[made->segments[s].layers[l].sums[i]];
                made->shares[root_of(in, one->target)] = one->share;
            }
    for (int k = 0; k < function->n_kernels; k++)
        for (int w = 0; w < function->kernels[k].n_writes && in->is_laid_out[k]; w++)
            made->device[root_of(in, function->kernels[k].writes[w])] = DT_NOT_PLACED;
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        bool is_placed = buffer->space == DT_MEMORY_DEVICE && buffer->root == b && !buffer->tensor.has_all_rows && made->device[b] != DT_NOT_PLACED;
        is_rest[b] = is_placed && made->shares[b].unit == 0;
    }
    int64_t end = dt_close_gaps(function, is_rest, made->device, in->arena);
    for (int b = 0; b < function->n_buffers; b++) {
        dt_byte_range share = dt_memory_share_of_tensor(made->shares[b], &function->buffers[b].tensor, own);
        if (made->shares[b].unit > 0) made->device[b] = dt_memory_take(&end, dt_memory_padded(share.n_bytes));
    }
    dt_memory_raise_to(most, end);
}

/* ---- all of it ---- */

const dt_gathering *dt_gathering_of(const dt_artifact *artifact, int wanted, dt_held_share own, int n_shards, int n_rounds, dt_arena *arena) {
    dt_gathering *made = DT_NEW(arena, dt_gathering);
    made->functions = DT_NEW_ARRAY(arena, dt_gathered_function, artifact->n_functions);
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        dt_gathered_function *one = &made->functions[f];
        int n_with_sums = 0;
        if (!dt_memory_has(artifact, wanted, f) || !dt_function_role_has_rows(function->role)) continue;
        dt_segment_layers *segments = DT_NEW_ARRAY(arena, dt_segment_layers, function->n_segments);
        finder in = {
            artifact, function, arena, n_shards, DT_NEW_ARRAY(arena, bool, function->n_buffers), DT_NEW_ARRAY(arena, bool, function->n_kernels)};
        find_laid_out(&in);
        for (int s = 0; s < function->n_segments; s++) {
            segments[s] = layers_of(&in, &function->segments[s], &made->bytes);
            find_sums(&in, &function->segments[s], &segments[s], &n_with_sums);
        }
        *one = (dt_gathered_function){.segments = segments,
                                      .is_laid_out = in.is_laid_out,
                                      .sums = DT_NEW_ARRAY(arena, dt_sum_placing, function->n_buffers),
                                      .device = DT_NEW_ARRAY(arena, int64_t, function->n_buffers),
                                      .shares = DT_NEW_ARRAY(arena, dt_share, function->n_buffers)};
        place_sums(&in, one, n_rounds, made->sum_bytes);
        place_device(&in, one, own, &made->device_bytes);
    }
    return made;
}

int64_t dt_layer_offset(const dt_layer *layer, const dt_artifact_buffer *buffers, int root, int shard) {
    int variable = buffers[root].space == DT_MEMORY_VARIABLE ? buffers[root].variable : -1;
    for (int i = 0; i < layer->n_buffers; i++)
        if (layer->buffers[i].buffer == root || (variable >= 0 && layer->buffers[i].variable == variable))
            return layer->buffers[i].offset + shard * layer->buffers[i].stride;
    return -1;
}
