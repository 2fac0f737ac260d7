/* stages_cut: which layers are on which stage; see stages.h. */
#include "runtime/execution/memory.h"
#include "runtime/execution/stages.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

/* A layer of a segment, or all of a segment that is not cut into layers. */
typedef struct layer {
    int function, segment, number;
    double flops; /* of training, for a row */
    int group;    /* the first layer that it is with; by way of that one's, and so on */
} layer;

typedef struct cutter {
    const dt_artifact *artifact;
    dt_arena *arena;
    DT_LIST(layer) layers; /* in the order of functions, and in each as they run */
    int *first;            /* [n_variables] the first layer that has it; -1: none yet */
    int64_t *shared;       /* [layers] bytes that the layer at hand has in common with a group */
} cutter;

static int group_of(const cutter *in, int l) {
    while (in->layers.items[l].group != l) l = in->layers.items[l].group;
    return l;
}

static void join(cutter *in, int a, int b) {
    a = group_of(in, a);
    b = group_of(in, b);
    in->layers.items[a > b ? a : b].group = a < b ? a : b;
}

/* ---- layers ---- */

static bool trains(const dt_artifact *artifact, int f) {
    for (int s = 0; s < artifact->n_steps; s++)
        if (artifact->steps[s].function == f) return artifact->steps[s].trains;
    return false;
}

/* Each once: no variable is twice among those of a layer. */
static void count_variables(cutter *in, const dt_artifact_function *function, const dt_artifact_kernel *kernel, int l, bool *seen, int64_t *bytes) {
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_artifact_buffer *root = &function->buffers[function->buffers[kernel->buffers[b]].root];
        if (root->space != DT_MEMORY_VARIABLE || seen[root->variable]) continue;
        const dt_artifact_variable *variable = &in->artifact->variables[root->variable];
        seen[root->variable] = true;
        *bytes += variable->bytes;
        if (in->first[root->variable] >= 0)
            in->shared[group_of(in, in->first[root->variable])] += variable->bytes;
        else
            in->first[root->variable] = l;
    }
}

/* A layer is with those that have at least half of its parameters; one without any is where the one before is. */
static void find_group(cutter *in, int l) {
    const layer *here = &in->layers.items[l];
    const dt_artifact_function *function = &in->artifact->functions[here->function];
    const dt_artifact_segment *segment = &function->segments[here->segment];
    bool *seen = DT_NEW_ARRAY(in->arena, bool, in->artifact->n_variables);
    int64_t bytes = 0;
    int most = l;
    memset(in->shared, 0, ((size_t)l + 1) * sizeof *in->shared);
    for (int k = 0; k < segment->n_replica_kernels + segment->n_device_kernels; k++) {
        int kernel = k < segment->n_replica_kernels ? segment->replica_kernels[k] : segment->device_kernels[k - segment->n_replica_kernels];
        bool lays_out = k >= segment->n_replica_kernels && here->number == 0; /* of no layer: an update, say */
        if (function->kernels[kernel].layer == here->number && !lays_out) count_variables(in, function, &function->kernels[kernel], l, seen, &bytes);
    }
    for (int g = 0; g < l; g++)
        if (in->shared[g] > in->shared[most] || (most == l && in->shared[g] > 0)) most = g;
    if (most != l && 2 * in->shared[most] >= bytes) join(in, l, most);
    if (bytes == 0 && l > 0 && in->layers.items[l - 1].function == here->function) join(in, l, l - 1);
}

static void list_layers(cutter *in, int f) {
    const dt_artifact_function *function = &in->artifact->functions[f];
    for (int s = 0; s < function->n_segments; s++)
        for (int i = 0; i < function->segments[s].n_replica_kernels; i++) {
            const dt_artifact_kernel *kernel = &function->kernels[function->segments[s].replica_kernels[i]];
            bool is_first = i == 0 || kernel->layer != in->layers.items[in->layers.n - 1].number;
            int n = (int)in->layers.n;
            if (is_first) dt_list_push(in->arena, &in->layers, ((layer){.function = f, .segment = s, .number = kernel->layer, .group = n}));
            if (trains(in->artifact, f))
                in->layers.items[in->layers.n - 1].flops += kernel->flops.per_row * (double)dt_artifact_runs(function, kernel->loop);
        }
}

static int layer_of(const cutter *in, int f, int s, int number) {
    int l = 0;
    while (in->layers.items[l].function != f || in->layers.items[l].segment != s || in->layers.items[l].number != number) l++;
    return l;
}

/* What adds to one sum is together. */
static void join_sums(cutter *in, int f) {
    const dt_artifact_function *function = &in->artifact->functions[f];
    int *last = DT_NEW_ARRAY(in->arena, int, function->n_buffers);
    for (int b = 0; b < function->n_buffers; b++) last[b] = -1;
    for (int s = 0; s < function->n_segments; s++)
        for (int i = 0; i < function->segments[s].n_replica_kernels; i++) {
            const dt_artifact_kernel *kernel = &function->kernels[function->segments[s].replica_kernels[i]];
            int l = layer_of(in, f, s, kernel->layer);
            for (int b = 0; b < kernel->n_buffers; b++) {
                int root = function->buffers[kernel->buffers[b]].root;
                if (function->buffers[root].space != DT_MEMORY_PARTIAL) continue;
                if (last[root] >= 0) join(in, l, last[root]);
                last[root] = l;
            }
        }
}

/* ---- runs of groups ---- */

/* Cuts n numbers into so many runs, none of them empty, the largest sum of which is the least that there can be: *starts [n_runs] is where each
 * begins. */
static void cut_evenly(const double *numbers, int n, int n_runs, int *starts, dt_arena *arena) {
    double *sums = DT_NEW_ARRAY(arena, double, n + 1), *most = DT_NEW_ARRAY(arena, double, (n_runs + 1) * (n + 1));
    int *from = DT_NEW_ARRAY(arena, int, (n_runs + 1) * (n + 1));
    for (int i = 0; i < n; i++) sums[i + 1] = sums[i] + numbers[i];
    for (int r = 0; r <= n_runs; r++)
        for (int end = 0; end <= n; end++) {
            double *best = &most[r * (n + 1) + end];
            *best = r == 0 && end == 0 ? 0 : DBL_MAX;
            for (int start = 0; r > 0 && start < end; start++) {
                double before = most[(r - 1) * (n + 1) + start], own = sums[end] - sums[start], largest = before > own ? before : own;
                if (before == DBL_MAX || largest >= *best) continue;
                *best = largest;
                from[r * (n + 1) + end] = start;
            }
        }
    for (int r = n_runs, end = n; r > 0; r--) starts[r - 1] = end = from[r * (n + 1) + end];
}

static dt_status *too_many(const cutter *in, int n_stages, int n_groups) {
    if (n_groups <= 1)
        return dt_error(
            DT_INVALID_ARGUMENT,
            "--stages %d: the layers of %s cannot be cut apart: a stage has layers of at least 256 KiB of parameters each, and layers with "
            "the same parameters are on one; leave the option out",
            n_stages, in->artifact->path);
    return dt_error(DT_INVALID_ARGUMENT,
                    "--stages %d: the layers of %s can be cut into at most %d stages, of layers of at least 256 KiB of parameters each, where layers "
                    "with the same parameters are on one; use --stages %d",
                    n_stages, in->artifact->path, n_groups, n_groups);
}

dt_status *dt_stage_cut_of(const dt_artifact *artifact, int wanted, int n_stages, dt_arena *arena, dt_stage_cut *cut) {
    cutter in = {.artifact = artifact, .arena = arena, .first = DT_NEW_ARRAY(arena, int, artifact->n_variables)};
    int n_groups = 0, **kernels = DT_NEW_ARRAY(arena, int *, artifact->n_functions);
    for (int v = 0; v < artifact->n_variables; v++) in.first[v] = -1;
    for (int f = 0; f < artifact->n_functions; f++)
        if (dt_memory_has(artifact, wanted, f)) list_layers(&in, f);
    int n_layers = (int)in.layers.n, *groups = DT_NEW_ARRAY(arena, int, n_layers), *starts = DT_NEW_ARRAY(arena, int, n_stages);
    double *flops = DT_NEW_ARRAY(arena, double, n_layers);
    in.shared = DT_NEW_ARRAY(arena, int64_t, n_layers);
    for (int l = 0; l < n_layers; l++) find_group(&in, l);
    for (int f = 0; f < artifact->n_functions; f++)
        if (dt_memory_has(artifact, wanted, f)) join_sums(&in, f);
    for (int l = 0; l < n_layers; l++) {
        if (group_of(&in, l) == l) groups[l] = n_groups++;
        groups[l] = groups[group_of(&in, l)];
        flops[groups[l]] += in.layers.items[l].flops;
    }
    if (n_groups < n_stages) return too_many(&in, n_stages, n_groups);
    cut_evenly(flops, n_groups, n_stages, starts, arena);
    cut->kernels = kernels;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        kernels[f] = DT_NEW_ARRAY(arena, int, function->n_kernels);
        for (int s = 0; s < function->n_segments && dt_memory_has(artifact, wanted, f); s++)
            for (int i = 0; i < function->segments[s].n_replica_kernels; i++) {
                int k = function->segments[s].replica_kernels[i], group = groups[layer_of(&in, f, s, function->kernels[k].layer)];
                while (kernels[f][k] + 1 < n_stages && starts[kernels[f][k] + 1] <= group) kernels[f][k]++;
            }
    }
    return NULL;
}
