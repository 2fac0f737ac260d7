/* placement: see the header. */
#include "runtime/execution/placement.h"

#include "runtime/execution/memory.h"

/* The placement, on the way. */
typedef struct finder {
    const dt_artifact *artifact;
    dt_placement *made;
    bool changed;
} finder;

/* Where it says whether the other domains have a buffer. NULL: they have it anyway, as a microbatch's own. */
static bool *common_of(const dt_artifact *artifact, const dt_placement *placement, int f, int buffer) {
    const dt_artifact_buffer *buffers = artifact->functions[f].buffers, *root = &buffers[buffers[buffer].root];
    if (root->space == DT_MEMORY_VARIABLE) return &placement->variables[root->variable];
    return root->space == DT_MEMORY_DEVICE ? &placement->functions[f].common[root - buffers] : NULL;
}

/* The other domains need a buffer. */
static void need(finder *in, int f, int buffer) {
    bool *common = common_of(in->artifact, in->made, f, buffer);
    if (common == NULL || *common) return;
    *common = true;
    in->changed = true;
}

static void need_all(finder *in, int f, int kernel) {
    const dt_artifact_kernel *one = &in->artifact->functions[f].kernels[kernel];
    for (int b = 0; b < one->n_buffers; b++) need(in, f, one->buffers[b]);
}

/* Whether the kernel is the optimizer's, or changes what all are to have alike. */
static bool is_update(const finder *in, int f, const dt_artifact_kernel *kernel) {
    const dt_artifact_buffer *buffers = in->artifact->functions[f].buffers;
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &buffers[kernel->buffers[b]];
        if (buffer->space == DT_MEMORY_VARIABLE && in->artifact->variables[buffer->variable].kind == DT_VARIABLE_SLOT) return true;
    }
    for (int w = 0; w < kernel->n_writes; w++)
        if (buffers[kernel->writes[w]].space == DT_MEMORY_VARIABLE) return true;
    return false;
}

static bool writes_common(const finder *in, int f, const dt_artifact_kernel *kernel) {
    for (int w = 0; w < kernel->n_writes; w++)
        if (*common_of(in->artifact, in->made, f, kernel->writes[w])) return true;
    return false;
}

/* A loop is in one place as a whole. What the others compute themselves they need the operands of. */
static void place_kernels(finder *in, int f, const dt_artifact_segment *segment) {
    const dt_artifact_function *function = &in->artifact->functions[f];
    const int *kernels = segment->device_kernels;
    for (int i = 0, end; i < segment->n_device_kernels; i = end) {
        bool updates = false, asked_for = false;
        end = i + dt_artifact_n_together(function, kernels + i, segment->n_device_kernels - i, -1);
        for (int k = i; k < end; k++) {
            updates |= is_update(in, f, &function->kernels[kernels[k]]);
            asked_for |= writes_common(in, f, &function->kernels[kernels[k]]);
        }
        for (int k = i; k < end; k++) {
            in->made->functions[f].central[kernels[k]] = updates || !asked_for;
            if (!updates && asked_for) need_all(in, f, kernels[k]);
        }
    }
}

static void find_bytes(finder *in, int f) {
    const dt_artifact_function *function = &in->artifact->functions[f];
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        if (buffer->space != DT_MEMORY_DEVICE || !in->made->functions[f].common[b]) continue;
        dt_memory_raise_to(buffer->tensor.has_all_rows ? &in->made->gathered.device : &in->made->bytes.device, buffer->offset + buffer->bytes);
    }
}

const dt_placement *dt_placement_find(const dt_artifact *artifact, int wanted, dt_arena *arena) {
    dt_placement *made = DT_NEW(arena, dt_placement);
    finder in = {.artifact = artifact, .made = made};
    made->functions = DT_NEW_ARRAY(arena, dt_placed_function, artifact->n_functions);
    made->variables = DT_NEW_ARRAY(arena, bool, artifact->n_variables);
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        made->functions[f].central = DT_NEW_ARRAY(arena, bool, function->n_kernels);
        made->functions[f].common = DT_NEW_ARRAY(arena, bool, function->n_buffers);
        for (int s = 0; s < function->n_segments && dt_memory_has(artifact, wanted, f); s++)
            for (int k = 0; k < function->segments[s].n_replica_kernels; k++) need_all(&in, f, function->segments[s].replica_kernels[k]);
    }
    do { /* what is needed only grows */
        in.changed = false;
        for (int f = 0; f < artifact->n_functions; f++)
            for (int s = 0; s < artifact->functions[f].n_segments && dt_memory_has(artifact, wanted, f); s++)
                place_kernels(&in, f, &artifact->functions[f].segments[s]);
    } while (in.changed);
    for (int f = 0; f < artifact->n_functions; f++)
        if (dt_memory_has(artifact, wanted, f)) find_bytes(&in, f);
    return made;
}

/* ---- handing over ---- */

static void add_root(int *buffers, int *n, int root) {
    for (int i = 0; i < *n; i++)
        if (buffers[i] == root) return;
    buffers[(*n)++] = root;
}

int dt_placement_handed_out(const dt_placement *placement, const dt_artifact *artifact, int f, int s, int i, dt_arena *arena, const int **buffers) {
    const dt_artifact_function *function = &artifact->functions[f];
    const dt_artifact_segment *segment = &function->segments[s];
    const dt_placed_function *placed = &placement->functions[f];
    const int *kernels = segment->device_kernels;
    bool goes_on = i + 1 < segment->n_device_kernels && placed->central[kernels[i + 1]];
    if (!placed->central[kernels[i]] || goes_on) return 0;
    int *found = DT_NEW_ARRAY(arena, int, function->n_buffers), n = 0, first = i;
    while (first > 0 && placed->central[kernels[first - 1]]) first--;
    for (int k = first; k <= i; k++)
        for (int w = 0; w < function->kernels[kernels[k]].n_writes; w++) {
            int written = function->kernels[kernels[k]].writes[w];
            if (*common_of(artifact, placement, f, written)) add_root(found, &n, function->buffers[written].root);
        }
    *buffers = found;
    return n;
}
