/* cuda_vector: several elements of a nest by one thread, with memory in vectors.
 *
 * What little a thread does with an element is soon done; what counts is how much of memory one instruction asks for. So a thread takes as many
 * elements that lie side by side as fill 16 bytes of the widest type. That they do, and where they begin, is read off the addresses: the last loop
 * steps by one, and all else by multiples of a vector. Buffers begin at multiples of 64 bytes. What is not so, a value for each row, a column of
 * another layout, is read element by element as elsewhere. */
#include "compiler/codegen/cuda.h"
#include "compiler/kernel/view.h"

#include <inttypes.h>

#define FORMAT(n, ...) dt_arena_format((n)->f->arena, __VA_ARGS__)

enum {
    VECTOR_BYTES = 16,
    MOST_WIDTH = 8,
    MOST_INSTRUCTIONS = 64 /* of an element: where there are more, memory is not what a thread waits for, and registers run short */
};

static int last_outer_loop(const dt_nest *nest) {
    for (int l = nest->n_loops - 1; l >= 0; l--)
        if (nest->loops[l].extent != 1) return l;
    return -1;
}

static const dt_buffer *buffer_of(const dt_cuda_nest *n, const dt_address *address) {
    return &n->f->plan->buffers[n->f->kernel->buffers[address->buffer]];
}

/* A replica's part of an input begins at any row, a view at its position. */
static bool begins_aligned(const dt_cuda_nest *n, const dt_address *address, int width) {
    const dt_plan *plan = n->f->plan;
    int number = n->f->kernel->buffers[address->buffer];
    const dt_buffer *buffer = &plan->buffers[dt_buffer_root(plan, number)];
    int64_t row = 1;
    if (!dt_buffer_begins_at(plan, number, width * (int64_t)dt_dtype_bytes(buffer->dtype))) return false;
    if (buffer->space != DT_MEMORY_INPUT || buffer->shape.rank == 0 || !dt_dim_is_symbol(buffer->shape.dims[0])) return true;
    for (int d = 1; d < buffer->shape.rank; d++) row *= dt_dim_is_symbol(buffer->shape.dims[d]) ? 1 : buffer->shape.dims[d];
    return row % width == 0;
}

/* Whether vectors end with the loop. */
static bool divides_loop(const dt_nest *nest, int loop, int width) {
    return !dt_dim_is_symbol(nest->loops[loop].extent) && nest->loops[loop].extent % width == 0;
}

bool dt_cuda_is_vector(const dt_cuda_nest *n, const dt_address *address, int along, int width) {
    const dt_nest *nest = n->nest;
    if (!begins_aligned(n, address, width) || !divides_loop(nest, along, width)) return false;
    if (address->coefficients[along] != 1 || address->offset % width != 0) return false;
    for (int l = 0; l < nest->n_loops; l++)
        if (l != along && nest->loops[l].extent != 1 && address->coefficients[l] % width != 0) return false;
    for (int t = 0; t < address->n_terms; t++)
        if ((n->depends[address->terms[t]] >> along & 1) || address->term_coefficients[t] % width != 0) return false;
    return true;
}

/* The same of elements that are dealt one by one: where vectors do not end with the loop, all of the buffer must be walked. */
static bool is_vector(const dt_cuda_nest *n, const dt_address *address, int along, int width) {
    if (!begins_aligned(n, address, width)) return false;
    return divides_loop(n->nest, along, width) ? dt_cuda_is_vector(n, address, along, width) : dt_cuda_is_element(n, address, "e");
}

/* Marks what is computed before the vectors are read: checks, and what guarded vectors and those of an index's slice depend on. False: something of
 * it differs within a vector. */
static bool find_ahead(dt_cuda_nest *n, int along) {
    const dt_nest *nest = n->nest;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_CHECK) n->ahead[i] = true;
        if (n->ahead[i] && (n->depends[i] >> along & 1)) return false;
        for (int k = 0; (n->ahead[i] || n->vectors[i]) && k < dt_instruction_n_uses(x); k++) n->ahead[dt_instruction_use(x, k)] = true;
    }
    return true;
}

static bool has_check(const dt_nest *nest) {
    bool any = false;
    for (int i = 0; i < nest->n_instructions; i++) any |= nest->instructions[i].kind == DT_INSTRUCTION_CHECK;
    return any;
}

/* The guard, and what stands where it does not hold, are one for the vector. */
static bool is_guarded_as_one(const dt_cuda_nest *n, const dt_instruction *x, int along) {
    return x->guard < 0 || !((n->depends[x->guard] | n->depends[x->otherwise]) >> along & 1);
}

static int width_of(int width, dt_dtype dtype) {
    int most = VECTOR_BYTES / (int)dt_dtype_bytes(dtype);
    return most < width ? most : width;
}

void dt_cuda_find_vectors(dt_cuda_nest *n) {
    const dt_nest *nest = n->nest;
    int along = last_outer_loop(nest), width = MOST_WIDTH, n_each = 0, n_vectors = 0, n_others = 0;
    if (nest->n_reductions > 0 || n->serial != 0 || along < 0 || nest->n_stores == 0) return;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (!n->needed[i]) continue;
        n_each += n->levels[i] > 0;
        if (x->kind == DT_INSTRUCTION_LOAD && (n->depends[i] >> along & 1)) width = width_of(width, buffer_of(n, &x->address)->dtype);
    }
    for (int s = 0; s < nest->n_stores; s++) width = width_of(width, buffer_of(n, &nest->stores[s].address)->dtype);
    if (n_each > MOST_INSTRUCTIONS) return;
    bool divides = divides_loop(nest, along, width);
    if (!divides && has_check(nest)) return; /* counted once a vector, which then lies within one iteration of the other loops */
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (store->accumulate || store->guard >= 0 || store->address.n_terms > 0 || !is_vector(n, &store->address, along, width)) return;
    }
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (!n->needed[i] || x->kind != DT_INSTRUCTION_LOAD || !(n->depends[i] >> along & 1)) continue;
        n->vectors[i] = (divides ? is_guarded_as_one(n, x, along) : x->guard < 0) && is_vector(n, &x->address, along, width);
        n_vectors += n->vectors[i];
        n_others += !n->vectors[i];
    }
    if (n_others > n_vectors || !find_ahead(n, along)) return;
    n->width = width;
    n->along = divides ? along : -1;
}

static bool counts_whole_vectors(const dt_cuda_nest *n) {
    int64_t count = 1;
    if (n->along >= 0) return true;
    for (int l = 0; l < n->nest->n_loops; l++) {
        if (dt_dim_is_symbol(n->nest->loops[l].extent)) return false;
        count *= n->nest->loops[l].extent;
    }
    return count % n->width == 0;
}

static const char *vector_type(const dt_cuda_nest *n, const dt_address *address) {
    return FORMAT(n, "values<%s, %d>", dt_cuda_memory_type(buffer_of(n, address)->dtype), n->width);
}

static void read_vectors(dt_cuda_nest *n) {
    dt_cuda_nest_ahead(n);
    for (int s = 0; s < n->nest->n_stores; s++) dt_cuda_line(n->f, "%s y%d;", vector_type(n, &n->nest->stores[s].address), s);
}

static void write_vectors(dt_cuda_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++)
        dt_cuda_line(n->f, "store<%d>(&%s, y%d);", n->width, dt_cuda_access(n, &n->nest->stores[s].address), s);
}

/* The elements from e on. Where vectors end with a loop, its index is the only one that differs within a vector. */
static void one_vector(dt_cuda_nest *n) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    n->element = "e";
    for (int l = 0; l < n->nest->n_loops; l++) n->loop_used[l] = false;
    f->out = &body;
    read_vectors(n);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int k = 0; k < %d; k++) {", n->width);
    n->in_vector = true;
    if (n->along >= 0) {
        const char *name = n->loops[n->along];
        n->loops[n->along] = FORMAT(n, "(%s + k)", name);
        n->element = "e + k";
        dt_cuda_nest_statements(n);
        n->loops[n->along] = name;
    } else {
        dt_cuda_nest_element(n, "(e + k)");
        for (int l = 0; l < n->nest->n_loops; l++) n->loop_used[l] = false;
    }
    n->in_vector = false;
    n->element = "e";
    dt_cuda_line(f, "}");
    write_vectors(n);
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, n->dealt, n->loop_used, "e");
    dt_text_append(out, body.data != NULL ? body.data : "");
}

void dt_cuda_nest_vector(dt_cuda_nest *n) {
    dt_cuda_function *f = n->f;
    const char *count = dt_cuda_count(f, n->nest, n->dealt);
    if (counts_whole_vectors(n)) {
        one_vector(n);
        return;
    }
    dt_cuda_line(f, "if (e + %d <= %s) {", n->width, count);
    one_vector(n);
    dt_cuda_line(f, "} else {");
    dt_cuda_line(f, "for (%s last = e; last < %s; last++) {", dt_cuda_index_type(f), count);
    dt_cuda_nest_element(n, "last");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}
