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

/* The guard, and what stands where it does not hold, are one for the vector. */
static bool is_guarded_as_one(const dt_gpu_chooser *c, const dt_instruction *x, int along) {
    return x->guard < 0 || (along >= 0 && !((c->depends[x->guard] | c->depends[x->otherwise]) >> along & 1));
}

/* Marks what is computed before the vectors are read: checks, and what guarded vectors and those of an index's slice depend on. False: something of
 * it differs within a vector. */
static bool find_ahead(const dt_gpu_chooser *c, const dt_gpu_vectors *vectors, int along) {
    const dt_nest *nest = c->nest;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const dt_instruction *x = &nest->instructions[i];
        vectors->ahead[i] |= x->kind == DT_INSTRUCTION_CHECK;
        if (vectors->ahead[i] && (c->depends[i] >> along & 1)) return false;
        for (int k = 0; (vectors->ahead[i] || vectors->loads[i]) && k < dt_instruction_n_uses(x); k++)
            vectors->ahead[dt_instruction_use(x, k)] = true;
    }
    return true;
}

/* Sets the loads that are vectors; false: those that are not are more. */
static bool find_loads(const dt_gpu_chooser *c, const dt_gpu_vectors *vectors, int last) {
    int n_vectors = 0, n_others = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) {
        const dt_instruction *x = &c->nest->instructions[i];
        if (!c->needed[i] || x->kind != DT_INSTRUCTION_LOAD || !(c->depends[i] >> last & 1)) continue;
        vectors->loads[i] = is_guarded_as_one(c, x, vectors->along) && dt_gpu_chooser_is_vector(c, &x->address, vectors->along, vectors->width);
        n_vectors += vectors->loads[i];
        n_others += !vectors->loads[i];
    }
    return n_others <= n_vectors;
}

void dt_gpu_choose_vectors(dt_gpu_chooser *c) {
    const dt_nest *nest = c->nest;
    int last = dt_nest_last_loop(nest, dt_first_loops(nest->n_loops));
    if (nest->n_reductions > 0 || c->how->serial != 0 || last < 0 || nest->n_stores == 0) return;
    dt_gpu_vectors vectors = c->how->vectors;
    vectors.width = widest(c, last);
    bool divides = !dt_dim_is_symbol(nest->loops[last].extent) && nest->loops[last].extent % vectors.width == 0;
    if (vectors.width == 1 || (!divides && dt_nest_has_check(nest))) return; /* counted once a vector, which then lies within the last loop */
    vectors.along = divides ? last : -1;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (store->accumulate || store->guard >= 0 || store->address.n_terms > 0) return;
        if (!dt_gpu_chooser_is_vector(c, &store->address, vectors.along, vectors.width)) return;
    }
    if (find_loads(c, &vectors, last) && find_ahead(c, &vectors, last)) c->how->vectors = vectors;
}
