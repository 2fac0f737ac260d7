/* gpu_choices: what choosers, verifier and renderer ask of a nest that is divided among threads. */
#include "compiler/kernel/gpu_choices.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/parallel.h"
#include "compiler/kernel/view.h"

int dt_gpu_nest_levels(dt_arena *arena, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends, int *levels, bool *late) {
    int *of_loop = DT_NEW_ARRAY(arena, int, nest->n_loops), *least = DT_NEW_ARRAY(arena, int, nest->n_instructions);
    int first = dt_nest_n_outer(nest);
    for (int l = 0; l < nest->n_loops; l++) of_loop[l] = l >= first ? 2 + (how->together ? 0 : l - first) : how->shared >> l & 1 ? 0 : 1;
    for (int i = 0; i < nest->n_instructions; i++) least[i] = nest->instructions[i].kind == DT_INSTRUCTION_CHECK ? 1 : 0;
    dt_nest_place(arena, nest, depends, &(dt_depths){of_loop, 1, least, 0}, levels, late);
    return 2 + (how->reduced == 0 ? 0 : how->together ? 1 : nest->n_loops - first);
}

/* ---- memory ---- */

bool dt_gpu_is_element(const dt_plan *plan, const dt_nest *nest, const dt_gpu_nest *how, const dt_address *address) {
    int64_t stride = 1;
    if (how->serial != 0 || address->n_terms > 0 || address->offset != 0) return false;
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        int64_t iterations = dt_trip_count(plan, nest->loops[l].extent);
        bool dealt = how->dealt >> l & 1, constant = !dt_dim_is_symbol(nest->loops[l].extent);
        if (iterations == 1 && constant) continue;
        if (address->coefficients[l] != (dealt ? stride : 0)) return false;
        if (!dealt) continue;
        if (stride < 0) return false;
        stride = constant ? stride * iterations : -1; /* rows may be fewer: only outermost */
    }
    return true;
}

/* A replica's part of an input begins at any row, a view at its position. */
static bool begins_aligned(const dt_plan *plan, int number, int width) {
    const dt_buffer *buffer = &plan->buffers[dt_buffer_root(plan, number)];
    int64_t row = 1;
    if (!dt_buffer_begins_at(plan, number, width * (int64_t)dt_dtype_bytes(buffer->dtype))) return false;
    if (buffer->space != DT_MEMORY_INPUT || buffer->shape.rank == 0 || !dt_dim_is_symbol(buffer->shape.dims[0])) return true;
    for (int d = 1; d < buffer->shape.rank; d++) row *= dt_dim_is_symbol(buffer->shape.dims[d]) ? 1 : buffer->shape.dims[d];
    return row % width == 0;
}

bool dt_gpu_is_vector(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends,
                      const dt_address *address, int along, int width) {
    if (!begins_aligned(plan, kernel->buffers[address->buffer], width)) return false;
    if (along < 0) return dt_gpu_is_element(plan, nest, how, address); /* vectors do not end with a loop: all of the buffer must be walked */
    if (dt_dim_is_symbol(nest->loops[along].extent) || nest->loops[along].extent % width != 0) return false;
    if (address->coefficients[along] != 1 || address->offset % width != 0) return false;
    for (int l = 0; l < nest->n_loops; l++)
        if (l != along && nest->loops[l].extent != 1 && address->coefficients[l] % width != 0) return false;
    for (int t = 0; t < address->n_terms; t++)
        if ((depends[address->terms[t]] >> along & 1) || address->term_coefficients[t] % width != 0) return false;
    return true;
}

int64_t dt_gpu_shared_bytes(const dt_gpu_target *target, const dt_gpu_function *f) {
    const dt_gpu_tiles *tiles = &f->tiles;
    int64_t side = f->form == DT_GPU_TILES ? tiles->rows.results + tiles->columns.results + 2 * tiles->padding : 0, reduced = 0;
    for (int n = 0; n < f->n_nests; n++)
        if (f->nests[n].together && f->team == target->block) reduced = target->block / target->warp * 2 * (int64_t)sizeof(uint64_t);
    return 2 * tiles->terms * side * (int64_t)sizeof(float) + reduced;
}

/* ---- indices ---- */

enum {
    NARROW = 1 << 30 /* elements that indices of 32 bits count, with room for a grid's stride */
};

static bool is_long(const dt_plan *plan, int number) {
    const dt_buffer *buffer = &plan->buffers[number];
    int64_t elements = buffer->view != NULL ? dt_buffer_span(plan, number) : dt_shape_elements(buffer->shape, plan->microbatch_rows, NARROW);
    return elements >= NARROW;
}

bool dt_gpu_needs_wide(const dt_plan *plan, const dt_kernel_function *kernel, const dt_gpu_function *function) {
    bool wide = function->n_items >= NARROW;
    for (int n = 0; n < function->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[function->first + n];
        for (int i = 0; i < nest->n_instructions; i++)
            wide |= nest->instructions[i].kind == DT_INSTRUCTION_LOAD && is_long(plan, kernel->buffers[nest->instructions[i].address.buffer]);
        for (int s = 0; s < nest->n_stores; s++) wide |= is_long(plan, kernel->buffers[nest->stores[s].address.buffer]);
        wide |= dt_nest_iterations(plan, nest, dt_nest_outer_loops(nest)) >= NARROW;
        wide |= dt_nest_iterations(plan, nest, dt_nest_reduced_loops(nest)) >= NARROW;
    }
    return wide;
}
