/* choose_streaming: which results are stored past the caches.
 *
 * An ordinary store reads the cache line first that it is about to overwrite. A result of which nothing will be left in a cache when somebody
 * reads it is written by streaming stores instead: the line goes to memory without having been read, and drives nothing else out. That pays where
 * the result is larger than what a core has of the last cache, and the nest waits for memory, not for arithmetic. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/choose.h"

static bool is_loaded(const dt_chooser *c, int buffer) {
    for (int k = 0; k < c->kernel->n_nests; k++) {
        const dt_nest *nest = &c->kernel->nests[k];
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD &&
                dt_arguments_overlap(c->plan, c->kernel, nest->instructions[i].address.buffer, buffer))
                return true;
    }
    return false;
}

/* Whether all vectors of the store begin at lines where the buffer does. */
static bool is_aligned(const dt_nest *nest, const dt_address *address, int64_t line) {
    for (int l = 0; l < nest->n_loops; l++)
        if (l != nest->vector_loop && address->coefficients[l] % line != 0) return false;
    return nest->vector_loop >= 0 && address->coefficients[nest->vector_loop] == 1 && address->n_terms == 0 && address->offset % line == 0;
}

static bool streams(const dt_chooser *c, const dt_store *store) {
    const dt_nest *nest = c->nest;
    const dt_buffer *buffer = &c->plan->buffers[c->kernel->buffers[store->address.buffer]];
    if (!dt_buffer_begins_at(c->plan, c->kernel->buffers[store->address.buffer], c->target->line_bytes)) return false;
    if (buffer->bytes < c->target->cache_share_bytes || store->accumulate || store->guard >= 0) return false;
    if (nest->n_reductions > 0 || (nest->part_iterations > 0 && nest->vector_loop == 0)) return false;
    return is_aligned(nest, &store->address, c->target->line_bytes / (int64_t)dt_dtype_bytes(buffer->dtype)) && !is_loaded(c, store->address.buffer);
}

void dt_choose_streaming(dt_chooser *c) {
    int n_operations = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) n_operations += c->nest->instructions[i].kind == DT_INSTRUCTION_SCALAR;
    if (n_operations > c->target->light_operations) return;
    for (int s = 0; s < c->nest->n_stores; s++)
        if (streams(c, &c->nest->stores[s])) c->choices->stores[s] = DT_STORE_STREAMING;
}
