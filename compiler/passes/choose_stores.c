/* choose_stores: which results are stored past the caches, and which are brought into cache before.
 *
 * An ordinary store reads the cache line first that it is about to overwrite. A result of which nothing will be left in a cache when somebody
 * reads it is written by streaming stores instead: the line goes to memory without having been read, and drives nothing else out. That pays where
 * the result is larger than what a core has of the last cache, and the nest waits for memory, not for arithmetic.
 *
 * What a tile is added to is prefetched while its products run; so is what rows that lie pages apart are stored over, which the processor does not
 * foresee. */
#include "compiler/passes/choose.h"

static bool waits_for_memory(const dt_chooser *c) {
    int n_operations = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) n_operations += c->nest->instructions[i].kind == DT_INSTRUCTION_SCALAR;
    return n_operations <= c->target->light_operations;
}

static bool streams(const dt_chooser *c, const dt_store *store) {
    return c->plan->buffers[c->kernel->buffers[store->address.buffer]].bytes >= c->target->cache_share_bytes && waits_for_memory(c) &&
           dt_streaming_needs(c->plan, c->kernel, c->nest, c->choices->vector_loop, store, c->target->line_bytes) == NULL;
}

static bool prefetches(const dt_chooser *c, const dt_store *store) {
    int row_loop = c->nest->tiling.row_loop, element = c->target->vector_bytes / c->register_width;
    bool apart = row_loop >= 0 && store->address.coefficients[row_loop] * element >= c->target->page_bytes;
    return (store->accumulate || apart) && c->choices->width == c->register_width;
}

void dt_choose_stores(dt_chooser *c) {
    for (int s = 0; s < c->nest->n_stores; s++) {
        const dt_store *store = &c->nest->stores[s];
        if (streams(c, store)) c->choices->stores[s] = DT_STORE_STREAMING;
        if (c->choices->tiled && prefetches(c, store)) c->choices->stores[s] = DT_STORE_PREFETCHED;
    }
}
