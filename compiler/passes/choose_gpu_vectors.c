/* choose_gpu_vectors: several elements of a nest by one thread, with memory in vectors.
 *
 * What little a thread does with an element is soon done; what counts is how much of memory one instruction asks for. So a thread takes as many
 * elements that lie side by side as fill a vector of the widest type. That they do, and where they begin, is read off the addresses: the last loop
 * steps by one, and all else by multiples of a vector. Buffers begin at multiples of 64 bytes. What is not so, a value for each row, a column of
 * another layout, is read element by element as elsewhere. */
#include "compiler/passes/choose_gpu.h"

static int width_of(const dt_gpu_chooser *c, int width, const dt_address *address) {
    dt_dtype dtype = c->scope->plan->buffers[c->scope->kernel->buffers[address->buffer]].dtype;
    int most = c->scope->target->vector_bytes / (int)dt_dtype_bytes(dtype);
    return most < width ? most : width;
}

/* The widest vectors that nothing exceeds; 1: too much is done with each element. */
static int widest(const dt_gpu_chooser *c, int along) {
    const dt_nest *nest = c->nest;
    int width = c->scope->target->most_width, n_each = 0;
    for (int i = 0; i < nest->n_instructions; i++) {
        if (!c->needed[i]) continue;
        n_each += c->levels[i] > 0;
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && (c->depends[i] >> along & 1))
            width = width_of(c, width, &nest->instructions[i].address);
    }
    for (int s = 0; s < nest->n_stores; s++) width = width_of(c, width, &nest->stores[s].address);
    return n_each > c->scope->target->most_vector_instructions ? 1 : width;
}

/* Whether most loads that differ within a vector are vectors, and nothing that is computed ahead of them does. */
static bool are_worth_it(const dt_gpu_chooser *c, const dt_gpu_vectors *vectors, int last) {
    int n_vectors = 0, n_others = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) {
        bool differs = c->depends[i] >> last & 1;
        if (vectors->ahead[i] && differs) return false;
        if (!c->needed[i] || c->nest->instructions[i].kind != DT_INSTRUCTION_LOAD || !differs) continue;
        n_vectors += vectors->loads[i];
        n_others += !vectors->loads[i];
    }
    return n_others <= n_vectors;
}

void dt_gpu_choose_vectors(dt_gpu_chooser *c) {
    const dt_nest *nest = c->nest;
    int last = dt_nest_last_loop(nest, dt_first_loops(nest->n_loops));
    if (nest->n_reductions > 0 || c->how->serial != 0 || last < 0 || nest->n_stores == 0) return;
    dt_gpu_vectors vectors = {.width = widest(c, last)};
    bool divides = !dt_dim_is_symbol(nest->loops[last].extent) && nest->loops[last].extent % vectors.width == 0;
    if (vectors.width == 1 || (!divides && dt_nest_has_check(nest))) return; /* counted once a vector, which then lies within the last loop */
    vectors.along = divides ? last : -1;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (store->accumulate || store->guard >= 0 || store->address.n_terms > 0) return;
        if (!dt_gpu_chooser_is_vector(c, &store->address, vectors.along, vectors.width)) return;
    }
    dt_gpu_find_vectors(c->arena, c->scope, nest, c->how, c->depends, true, &vectors);
    if (are_worth_it(c, &vectors, last)) c->how->vectors = vectors;
}
