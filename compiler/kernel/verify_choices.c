/* verify_choices: what a nest needs for a choice to be right. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/view.h"

static uint64_t loop_bit(int loop) { return loop >= 0 ? (uint64_t)1 << loop : 0; }

/* ---- register tiles ---- */

static bool is_plain_load(const dt_nest *nest, int i, uint64_t tile, const uint64_t *depends) {
    const dt_instruction *load = &nest->instructions[i];
    if (load->kind != DT_INSTRUCTION_LOAD || load->guard >= 0) return false;
    for (int t = 0; t < load->address.n_terms; t++) {
        uint64_t of_term = depends[load->address.terms[t]];
        for (int l = 0; l < nest->n_loops; l++)
            if ((of_term & loop_bit(l)) && (nest->loops[l].reduced || (tile & loop_bit(l)))) return false;
    }
    return true;
}

/* Whether an index is checked that differs within `loops`; depends NULL: any. */
static bool has_check(const dt_nest *nest, uint64_t loops, const uint64_t *depends) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK && (depends == NULL || (depends[i] & loops))) return true;
    return false;
}

static bool multiplies(const dt_nest *nest, int a, int b) {
    const int *operands = nest->instructions[nest->reductions[0].operand].operands;
    dt_precision precision;
    int x = dt_factor_unrounded(nest, operands[0], &precision), y = dt_factor_unrounded(nest, operands[1], &precision);
    return (x == a && y == b) || (x == b && y == a);
}

const char *dt_tiles_need(const dt_nest *nest, const uint64_t *depends) {
    int v = nest->tiling.vector_loop, row = nest->tiling.row_loop, a = nest->tiling.a, b = nest->tiling.b;
    if (nest->algorithm == DT_ALGORITHM_LOOPS || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0]))
        return "tiles are for one sum of products";
    if (!multiplies(nest, a, b)) return "the operands of tiles are the factors of the products";
    if (nest->loops[v].extent == DT_GATHERED) return "tiles have no vectors over the rows of all replicas";
    if (nest->loops[v].reduced || (row >= 0 && nest->loops[row].reduced)) return "tiles are of results, not along reduced loops";
    if (nest->in_rows && (v == 0 || row == 0)) return "tiles have no part in the loop that nests share";
    uint64_t tile = loop_bit(v) | loop_bit(row);
    if (!is_plain_load(nest, a, tile, depends) || !is_plain_load(nest, b, tile, depends))
        return "the operands of tiles are loads without guard, at indices that are the same for all products of a tile";
    const int64_t *of_a = nest->instructions[a].address.coefficients, *of_b = nest->instructions[b].address.coefficients;
    if (of_b[v] != 1 || of_a[v] != 0) return "vectors are neighbours in operand b of tiles, and one element of operand a";
    if (row >= 0 && of_b[row] != 0) return "operand b is the same for all rows of a tile";
    if (has_check(nest, tile, depends)) return "an index that is checked differs within a tile";
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].address.coefficients[v] != 1 || nest->stores[s].address.n_terms > 0) return "vectors of tiles are stored to neighbours";
    return NULL;
}

/* ---- vectors ---- */

const char *dt_vector_loop_needs(const dt_nest *nest, int loop, const uint64_t *depends) {
    if (nest->in_rows && loop == 0) return "the loop over rows is no vector loop";
    if (has_check(nest, loop_bit(loop), depends)) return "an index that is checked differs within a vector";
    if (dt_nest_reduces(nest, loop)) return NULL;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_address *address = &nest->stores[s].address;
        if (address->coefficients[loop] != 1) return "vectors are stored to neighbours";
        for (int t = 0; t < address->n_terms; t++)
            if (depends[address->terms[t]] & loop_bit(loop)) return "vectors are stored where one index says";
    }
    return NULL;
}

const char *dt_packing_rows_needs(const dt_nest *nest, const dt_nest_choices *choices) {
    int row = nest->tiling.row_loop, n_outer = dt_nest_n_outer(nest);
    if (row < 0 || n_outer < 2 || choices->order[n_outer - 2] != choices->vector_loop) return "rows that are packed are those of all blocks";
    if (!dt_nest_stores_sum(nest)) return "where rows are packed, the sums are stored as they are";
    if (choices->packed_around >= 0 && nest->instructions[nest->tiling.a].address.coefficients[row] != 1)
        return "rows that are packed over two loops are neighbours";
    return NULL;
}

/* ---- unroll and jam ---- */

const char *dt_jamming_needs(const dt_nest *nest, int loop) {
    if (dt_dim_is_symbol(nest->loops[loop].extent) || dt_nest_reduces(nest, loop)) return "jammed loops are outer ones of constant extent";
    if (nest->n_reductions == 0) return "jammed loops are around reduced ones";
    if (nest->part_iterations > 0) return "a nest that runs in parts has no jammed loops";
    return has_check(nest, 0, NULL) ? "a nest that checks an index has no jammed loops" : NULL;
}

/* ---- streaming stores ---- */

static bool is_loaded(const dt_plan *plan, const dt_kernel_function *kernel, int buffer) {
    for (int k = 0; k < kernel->n_nests; k++) {
        const dt_nest *nest = &kernel->nests[k];
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && dt_arguments_overlap(plan, kernel, nest->instructions[i].address.buffer, buffer))
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

const char *dt_streaming_needs(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_store *store,
                               int64_t line_bytes) {
    int buffer = kernel->buffers[store->address.buffer];
    if (store->accumulate || store->guard >= 0 || nest->n_reductions > 0) return "a streaming store writes whole vectors, of a map";
    if (!dt_buffer_begins_at(plan, buffer, line_bytes)) return "a buffer of streaming stores begins at a line";
    if ((nest->part_iterations > 0 && nest->vector_loop == 0) ||
        !is_aligned(nest, &store->address, line_bytes / (int64_t)dt_dtype_bytes(plan->buffers[buffer].dtype)))
        return "vectors of streaming stores begin at lines";
    return is_loaded(plan, kernel, store->address.buffer) ? "what streaming stores write, no nest of the kernel loads" : NULL;
}
