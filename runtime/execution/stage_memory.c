/* stage_memory: see the header. */
#include "runtime/execution/stage_memory.h"

#include "runtime/execution/memory.h"

#include <stdlib.h>

typedef struct placed {
    int64_t offset, end; /* where the plan has it */
    int buffer;
} placed;

static int compare_places(const void *a, const void *b) {
    const placed *left = a, *right = b;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

int64_t dt_close_gaps(const dt_artifact_function *function, const bool *kept, int64_t *offsets, dt_arena *arena) {
    placed *all = DT_NEW_ARRAY(arena, placed, function->n_buffers);
    int64_t covered = 0, removed = 0; /* of the plan's space: up to where somebody is, and what nobody is in before */
    int n = 0;
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        if (kept[b]) all[n++] = (placed){buffer->offset, buffer->offset + dt_memory_padded(buffer->bytes), b};
    }
    qsort(all, (size_t)n, sizeof *all, compare_places);
    for (int i = 0; i < n; i++) {
        if (all[i].offset > covered) removed += all[i].offset - covered;
        offsets[all[i].buffer] = all[i].offset - removed;
        dt_memory_raise_to(&covered, all[i].end);
    }
    return covered - removed;
}

/* ---- a stage ---- */

static int64_t close_gaps_in(const dt_artifact_function *function, const dt_staged_function *staged, int stage, dt_memory_space space, bool across,
                             dt_stage_places *made, dt_arena *arena) {
    bool *kept = DT_NEW_ARRAY(arena, bool, function->n_buffers);
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        bool has = dt_stage_is_in(staged->has[b], stage) && made->arrived[b] < 0 && made->is_across[b] == across;
        kept[b] = buffer->space == space && buffer->root == b && has && !buffer->tensor.has_all_rows;
    }
    return dt_close_gaps(function, kept, made->offsets, arena);
}

/* What lives across segments arrives where it stays. */
static void place_arrivals(const dt_artifact_function *function, const dt_staged_function *staged, int stage, dt_stage_places *made, int64_t *most,
                           dt_arena *arena) {
    bool *had = DT_NEW_ARRAY(arena, bool, function->n_buffers);
    int64_t end = 0;
    for (int b = 0; b < function->n_buffers; b++) made->arrived[b] = -1;
    for (int c = 0; c < staged->n_crossings; c++) {
        const dt_stage_crossing *one = &staged->crossings[c];
        const dt_artifact_buffer *buffer = &function->buffers[one->root];
        made->arrivals[c] = -1;
        if (buffer->space != DT_MEMORY_SCRATCH || buffer->tensor.has_all_rows || (one->from != stage && one->to != stage)) continue;
        if (one->to == stage) made->arrivals[c] = dt_memory_take(&end, dt_memory_padded(buffer->bytes));
        if (one->to == stage && !had[one->root]) made->arrived[one->root] = c;
        had[one->root] = true;
    }
    dt_memory_raise_to(most, end);
}

static void find_across(const dt_artifact_function *function, const dt_staged_function *staged, int stage, dt_stage_places *made, dt_arena *arena) {
    int *seen = DT_NEW_ARRAY(arena, int, function->n_buffers); /* the number of the unit, of all, from 1 */
    int number = 0;
    for (int s = 0; s < function->n_segments; s++)
        for (int u = 0; u < staged->segments[s].n_units; u++) {
            const dt_stage_unit *unit = &staged->segments[s].units[u];
            number++;
            for (int i = unit->first; i < unit->end && unit->stage == stage; i++) {
                const dt_artifact_kernel *kernel = &function->kernels[function->segments[s].replica_kernels[i]];
                for (int b = 0; b < kernel->n_buffers; b++) {
                    int root = function->buffers[kernel->buffers[b]].root;
                    made->is_across[root] |= function->buffers[root].space == DT_MEMORY_PARTIAL && seen[root] != 0 && seen[root] != number;
                    seen[root] = number;
                }
            }
        }
}

const dt_stage_memory *dt_stage_memory_of(const dt_artifact *artifact, int wanted, const dt_stages *stages, int stage, dt_arena *arena) {
    dt_stage_memory *made = DT_NEW(arena, dt_stage_memory);
    dt_stage_places *functions = DT_NEW_ARRAY(arena, dt_stage_places, artifact->n_functions);
    *made = (dt_stage_memory){.functions = functions};
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        const dt_staged_function *staged = &stages->functions[f];
        if (!dt_memory_has(artifact, wanted, f)) continue;
        functions[f] = (dt_stage_places){.offsets = DT_NEW_ARRAY(arena, int64_t, function->n_buffers),
                                         .arrivals = DT_NEW_ARRAY(arena, int64_t, staged->n_crossings),
                                         .arrived = DT_NEW_ARRAY(arena, int, function->n_buffers),
                                         .is_across = DT_NEW_ARRAY(arena, bool, function->n_buffers)};
        place_arrivals(function, staged, stage, &functions[f], &made->arrival_bytes, arena);
        find_across(function, staged, stage, &functions[f], arena);
        dt_memory_raise_to(&made->bytes.device, close_gaps_in(function, staged, stage, DT_MEMORY_DEVICE, false, &functions[f], arena));
        dt_memory_raise_to(&made->bytes.scratch, close_gaps_in(function, staged, stage, DT_MEMORY_SCRATCH, false, &functions[f], arena));
        dt_memory_raise_to(&made->bytes.partial, close_gaps_in(function, staged, stage, DT_MEMORY_PARTIAL, false, &functions[f], arena));
        dt_memory_raise_to(&made->across_bytes, close_gaps_in(function, staged, stage, DT_MEMORY_PARTIAL, true, &functions[f], arena));
        dt_memory_raise_to(&made->bytes.replica, close_gaps_in(function, staged, stage, DT_MEMORY_REPLICA, false, &functions[f], arena));
    }
    return made;
}
