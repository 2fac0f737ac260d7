/* cuda_vector: several iterations of a nest by one thread, with memory in vectors. What differs among them is computed in a loop over k, in which a
 * vector's element is `.at[k]`. */
#include "compiler/codegen/cuda.h"
#include "compiler/kernel/parallel.h"

#define FORMAT(n, ...) DT_CUDA_FORMAT((n)->f, __VA_ARGS__)

/* A load of values that lie side by side. */
static void load_vector(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *type = dt_cuda_memory_type_of(n->f, &x->address);
    const char *value = FORMAT(n, "load<%d>(&%s)", n->vectors->width, dt_cuda_access(n, &x->address));
    if (x->guard >= 0)
        value = FORMAT(n, "%s ? %s : filled<%d, %s>(%s)", n->values[x->guard], value, n->vectors->width, type,
                       dt_cuda_to_memory(n, n->values[x->otherwise], x->dtype));
    dt_cuda_line(n->f, "const values<%s, %d> x%d = %s;", type, n->vectors->width, i, value);
}

static void declare_results(dt_cuda_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++)
        dt_cuda_line(n->f, "values<%s, %d> y%d;", dt_cuda_memory_type_of(n->f, &n->nest->stores[s].address), n->vectors->width, s);
}

static void store_results(dt_cuda_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++)
        dt_cuda_line(n->f, "store<%d>(&%s, y%d);", n->vectors->width, dt_cuda_access(n, &n->nest->stores[s].address), s);
}

/* The loop over k; returns the name of the loop whose iterations they are, to be put back. */
static const char *open_vector(dt_cuda_nest *n) {
    int along = n->vectors->along;
    const char *name = along >= 0 ? n->loops[along] : NULL;
    dt_cuda_unrolled(n->f, "k", n->vectors->width);
    n->in_vector = true;
    if (along >= 0) n->loops[along] = FORMAT(n, "(%s + k)", name);
    return name;
}

static void close_vector(dt_cuda_nest *n, const char *name) {
    if (n->vectors->along >= 0) n->loops[n->vectors->along] = name;
    n->in_vector = false;
    dt_cuda_close_blocks(n->f, 1);
}

/* Of a set, the vectors and what is alike for all elements; or what differs. */
static void emit_part(dt_cuda_nest *n, const bool *set, bool differs) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (!set[i] || n->levels[i] == 0 || n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) continue;
        if (!differs && n->vectors->loads[i])
            load_vector(n, i);
        else if ((n->depends[i] >> n->vectors->along & 1) == differs)
            dt_cuda_emit(n, i);
    }
}

void dt_cuda_vector_value(dt_cuda_nest *n, int instruction, const char *target) {
    const bool *set = dt_cuda_uses(n, instruction);
    emit_part(n, set, false);
    const char *name = open_vector(n);
    emit_part(n, set, true);
    dt_cuda_line(n->f, "%s.at[k] = %s;", target, dt_cuda_bare(n, n->values[instruction]));
    close_vector(n, name);
}

void dt_cuda_vector_finish(dt_cuda_nest *n, const char *sum) {
    const bool *set = dt_cuda_uses(n, -1);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = sum;
    emit_part(n, set, false);
    declare_results(n);
    const char *name = open_vector(n);
    emit_part(n, set, true);
    for (int s = 0; s < n->nest->n_stores; s++) dt_cuda_store(n, &n->nest->stores[s]);
    close_vector(n, name);
    store_results(n);
}

/* The elements from e on. Where vectors end with a loop, its index is the only one that differs within a vector. */
static void one_vector(dt_cuda_nest *n) {
    n->element = "e";
    dt_text *out = dt_cuda_begin(n, n->how->dealt);
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (n->vectors->ahead[i] && n->needed[i] && n->levels[i] > 0) dt_cuda_emit(n, i);
        if (n->vectors->loads[i]) load_vector(n, i);
    }
    declare_results(n);
    const char *name = open_vector(n);
    if (name != NULL) {
        n->element = "e + k";
        dt_cuda_nest_statements(n);
    } else {
        dt_cuda_nest_element(n, "(e + k)");
        for (int l = 0; l < n->nest->n_loops; l++) n->loop_used[l] = false;
    }
    close_vector(n, name);
    n->element = "e";
    store_results(n);
    dt_cuda_end(n, out, n->how->dealt, "e");
}

static bool counts_whole_vectors(const dt_cuda_nest *n) {
    return n->vectors->along >= 0 || (dt_nest_is_constant(n->nest) && dt_nest_iterations(n->f->plan, n->nest, ~(uint64_t)0) % n->vectors->width == 0);
}

void dt_cuda_vector_element(dt_cuda_nest *n) {
    dt_cuda_function *f = n->f;
    const char *count = dt_cuda_count(f, n->nest, n->how->dealt);
    bool whole = counts_whole_vectors(n);
    if (!whole) dt_cuda_line(f, "if (e + %d <= %s) {", n->vectors->width, count);
    one_vector(n);
    if (whole) return;
    dt_cuda_line(f, "} else {");
    dt_cuda_line(f, "for (%s last = e; last < %s; last++) {", f->index, count);
    dt_cuda_nest_element(n, "last");
    dt_cuda_close_blocks(f, 2);
}
