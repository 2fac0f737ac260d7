/* verify_choices: what a nest needs for each choice. The passes that choose ask the same functions before they do. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/view.h"

#include <stdlib.h>

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

static bool multiplies(const dt_nest *nest, int a, int b) {
    const int *operands = nest->instructions[nest->reductions[0].operand].operands;
    dt_precision precision;
    int x = dt_factor_unrounded(nest, operands[0], &precision), y = dt_factor_unrounded(nest, operands[1], &precision);
    return (x == a && y == b) || (x == b && y == a);
}

const char *dt_tiles_need(const dt_nest *nest, const uint64_t *depends) {
    int v = nest->tiling.vector_loop, row = nest->tiling.row_loop, a = nest->tiling.a, b = nest->tiling.b;
    if (nest->algorithm == DT_ALGORITHM_LOOPS || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0]) ||
        dt_nest_n_outer(nest) == nest->n_loops)
        return "tiles are for one sum of products";
    if (nest->n_stores == 0) return "tiles are stored";
    if (!multiplies(nest, a, b)) return "the operands of tiles are the factors of the products";
    if (nest->loops[v].extent == DT_GATHERED) return "tiles have no vectors over the rows of all replicas";
    if (nest->loops[v].reduced || (row >= 0 && nest->loops[row].reduced)) return "tiles are of results, not along reduced loops";
    if (nest->in_rows && (v == 0 || row == 0)) return "tiles have no part in the loop that nests share";
    if (dt_nest_is_divided(nest) && (v == dt_nest_part_loop(nest) || row == dt_nest_part_loop(nest)))
        return "tiles have no part in the loop that a nest's parts share out";
    uint64_t tile = loop_bit(v) | loop_bit(row);
    if (!is_plain_load(nest, a, tile, depends) || !is_plain_load(nest, b, tile, depends))
        return "the operands of tiles are loads without guard, at indices that are the same for all products of a tile";
    const int64_t *of_a = nest->instructions[a].address.coefficients, *of_b = nest->instructions[b].address.coefficients;
    if (of_b[v] != 1 || of_a[v] != 0) return "vectors are neighbours in operand b of tiles, and one element of operand a";
    if (row >= 0 && of_b[row] != 0) return "operand b is the same for all rows of a tile";
    if (dt_nest_checks(nest, depends, tile)) return "an index that is checked differs within a tile";
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].address.coefficients[v] != 1 || nest->stores[s].address.n_terms > 0) return "vectors of tiles are stored to neighbours";
    return NULL;
}

/* ---- products with zeros ---- */

static bool is_number_of(const dt_nest *nest, int load) {
    const int *factors = nest->instructions[nest->reductions[0].operand].operands;
    return nest->instructions[load].dtype == DT_F32 && (factors[0] == load || factors[1] == load);
}

const char *dt_skipping_needs(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    const dt_address *a = &nest->instructions[nest->tiling.a].address, *b = &nest->instructions[nest->tiling.b].address;
    double n_listed = 1, n_lists = 1, reach = 0;
    if (nest->reductions[0].dtype != DT_F32 || !is_number_of(nest, nest->tiling.a) || !is_number_of(nest, nest->tiling.b))
        return "zeros are skipped among f32 as they are in memory";
    if (dt_nest_is_divided(nest) || dt_nest_n_shared(kernel, (int)(nest - kernel->nests)) > 1 || a->n_terms > 0)
        return "zeros are skipped in nests of their own, of an operand at indices that loops say";
    if (plan->is_placed && dt_nest_stores_into(plan, kernel, nest, a->buffer)) return "where zeros are skipped is not written meanwhile";
    for (int l = 0; l < nest->n_loops; l++) {
        const int64_t extent = nest->loops[l].extent;
        const bool reduces = dt_nest_reduces(nest, l), is_walked = reduces || a->coefficients[l] != 0;
        if (!is_walked || (nest->in_rows && l == 0)) continue;
        if (dt_dim_is_symbol(extent) || extent == 0) return "what is listed of an operand has a constant size";
        if (reduces && extent > 1 && a->coefficients[l] == 0) return "what is listed of an operand differs from term to term";
        n_listed *= (double)extent;
        if (reduces) reach += (double)(extent - 1) * (double)llabs(b->coefficients[l]);
        if (!reduces) n_lists *= (double)extent;
    }
    if (n_listed > DT_MOST_LISTED || n_lists > DT_MOST_LISTS || reach > INT32_MAX) return "what is listed of an operand fits its memory";
    return NULL;
}

/* ---- vectors ---- */

const char *dt_vector_loop_needs(const dt_nest *nest, int loop, const uint64_t *depends) {
    if (nest->in_rows && loop == 0) return "the loop over rows is no vector loop";
    if (dt_nest_checks(nest, depends, loop_bit(loop))) return "an index that is checked differs within a vector";
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
    if (nest->part_iterations > 0 && loop == dt_nest_part_loop(nest)) return "the loop that runs in parts is not jammed";
    return dt_nest_has_check(nest) ? "a nest that checks an index has no jammed loops" : NULL;
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
static bool is_aligned(const dt_nest *nest, int vector_loop, const dt_address *address, int64_t line) {
    for (int l = 0; l < nest->n_loops; l++)
        if (l != vector_loop && address->coefficients[l] % line != 0) return false;
    return vector_loop >= 0 && address->coefficients[vector_loop] == 1 && address->n_terms == 0 && address->offset % line == 0;
}

const char *dt_streaming_needs(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int vector_loop, const dt_store *store,
                               int64_t line_bytes) {
    int buffer = kernel->buffers[store->address.buffer];
    if (store->accumulate || store->guard >= 0 || nest->n_reductions > 0) return "a streaming store writes whole vectors, of a map";
    if (!dt_buffer_begins_at(plan, buffer, line_bytes)) return "a buffer of streaming stores begins at a line";
    if ((nest->part_iterations > 0 && vector_loop == dt_nest_part_loop(nest)) ||
        !is_aligned(nest, vector_loop, &store->address, line_bytes / (int64_t)dt_dtype_bytes(plan->buffers[buffer].dtype)))
        return "vectors of streaming stores begin at lines";
    return is_loaded(plan, kernel, store->address.buffer) ? "what streaming stores write, no nest of the kernel loads" : NULL;
}

/* ---- all choices of a nest: what is wrong, or NULL ---- */

typedef struct subject {
    const dt_cpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest *nest;
    const dt_nest_choices *choices;
    const uint64_t *depends;
    int n_outer, n_shared;
} subject;

static bool is_constant(const subject *s, int loop) { return !dt_dim_is_symbol(s->nest->loops[loop].extent); }

static bool is_power_of_two(int x) { return x > 0 && (x & (x - 1)) == 0; }

static const char *verify_order(const subject *s) {
    uint64_t seen = 0;
    bool searches = false;
    for (int r = 0; r < s->nest->n_reductions; r++) searches |= dt_combiner_is_position(s->nest->reductions[r].combiner);
    for (int p = 0; p < s->nest->n_loops; p++) {
        int loop = s->choices->order[p];
        if (loop < 0 || loop >= s->nest->n_loops || (seen & loop_bit(loop))) return "the order has each loop once";
        seen |= loop_bit(loop);
        if (dt_nest_reduces(s->nest, loop) != (p >= s->n_outer)) return "reduced loops are inside of outer ones";
        if (p < s->n_shared && loop != p) return "loops that nests share come first";
        if (searches && p > s->n_outer && loop < s->choices->order[p - 1]) return "a search goes through its loops as they stand";
    }
    return NULL;
}

static const char *verify_vectors(const subject *s) {
    int loop = s->choices->vector_loop, width = s->choices->width;
    if (loop < -1 || loop >= s->nest->n_loops) return "the vector loop is one of the nest's";
    if (!is_power_of_two(width) || width > s->target->vector_bytes) return "a vector has a power of two of elements, four registers at most";
    if (loop < 0) return width > 1 ? "vectors need a vector loop" : NULL;
    if (loop < s->n_shared) return "loops that nests share are no vector loops";
    return s->choices->tiled ? NULL : dt_vector_loop_needs(s->nest, loop, s->depends);
}

static const char *verify_unrolling(const subject *s) {
    for (int l = 0; l < s->nest->n_loops; l++) {
        int jammed = s->choices->jammed[l];
        bool free = l != s->choices->vector_loop && l >= s->n_shared && !(l == dt_nest_part_loop(s->nest) && dt_nest_is_divided(s->nest));
        if (s->choices->unrolled[l] && (!free || !is_constant(s, l) || jammed != 0))
            return "unrolled loops are of constant extent, and neither shared nor of vectors nor jammed";
        if (jammed == 0) continue;
        if (!free || s->choices->tiled) return "jammed loops are neither shared nor of vectors or tiles";
        if (dt_jamming_needs(s->nest, l) != NULL) return dt_jamming_needs(s->nest, l);
        if (jammed < 2 || jammed > s->nest->loops[l].extent) return "two iterations of a loop are jammed, or more, and no more than it has";
    }
    return NULL;
}

static const char *verify_tile(const subject *s, const dt_tile *tile) {
    if (!is_power_of_two(tile->chains) || tile->unroll < 1)
        return "the chains of a tile are a power of two, and it does an iteration at a time, or more";
    if (s->n_outer == s->nest->n_loops || s->choices->unrolled[s->choices->order[s->nest->n_loops - 1]]) return NULL;
    return tile->unroll % tile->chains != 0 ? "the iterations that are one have a product for each chain, or several" : NULL;
}

static const char *verify_skipping(const subject *s) {
    const dt_nest_choices *choices = s->choices;
    bool is_plain = choices->tile_rows == 1 && choices->packed_loop < 0;
    for (int t = 0; t < choices->n_tiles; t++) is_plain &= choices->tiles[t].chains == 1 && choices->tiles[t].unroll == 1;
    for (int l = 0; l < s->nest->n_loops; l++) is_plain &= !(choices->unrolled[l] && dt_nest_reduces(s->nest, l));
    return is_plain ? dt_skipping_needs(s->plan, s->kernel, s->nest)
                    : "tiles that skip zeros have one row, one chain, and nothing packed or unrolled";
}

static const char *verify_tiles(const subject *s) {
    const dt_nest_choices *choices = s->choices;
    const dt_tiling *tiling = &s->nest->tiling;
    if (!choices->tiled)
        return choices->n_tiles > 0 || choices->packed_loop >= 0 || choices->skips_zeros
                   ? "without tiles there are no kinds of them, nothing is packed, and no zeros are skipped"
                   : NULL;
    const char *need = dt_tiles_need(s->nest, s->depends);
    if (need != NULL) return need;
    if (choices->vector_loop != tiling->vector_loop) return "the vector loop of tiles is the one of the plan";
    if (choices->width * (int)dt_dtype_bytes(s->nest->reductions[0].dtype) > s->target->vector_bytes) return "a vector of tiles is one register";
    if (tiling->row_loop >= 0 && choices->order[s->n_outer - 1] != tiling->row_loop) return "the rows of tiles are the innermost of the outer loops";
    bool is_empty = s->nest->loops[tiling->vector_loop].extent == 0 || (tiling->row_loop >= 0 && s->nest->loops[tiling->row_loop].extent == 0);
    if (is_empty) return NULL;
    if (choices->tile_rows < 1 || choices->tile_vectors < 1 || choices->tile_vectors > DT_MOST_TILE_VECTORS)
        return "a tile has a row or more, and one to eight vectors";
    if (tiling->row_loop < 0 && choices->tile_rows != 1) return "without a loop over rows, a tile has one";
    dt_tile_sizes rows = dt_row_sizes(s->nest, choices), vectors = dt_vector_sizes(s->nest, choices);
    for (int i = 0; i < rows.n * vectors.n; i++)
        if (dt_tile_find(choices, rows.items[i / vectors.n], vectors.items[i % vectors.n]) == NULL) return "there is a kind of tiles for each size";
    for (int t = 0; t < choices->n_tiles; t++)
        if (verify_tile(s, &choices->tiles[t]) != NULL) return verify_tile(s, &choices->tiles[t]);
    return choices->skips_zeros ? verify_skipping(s) : NULL;
}

/* ---- sums in memory ---- */

/* Whether what is stored to one place in iterations of `others` and of `loop` is stored in one iteration of `loop`. Each of the others either moves
 * the place by multiples of what all of `loop` covers, or all of these together by less than `loop` does. */
static bool tells_apart(const subject *s, const dt_address *address, int loop, uint64_t others) {
    int64_t step = address->coefficients[loop] < 0 ? -address->coefficients[loop] : address->coefficients[loop], least = 0;
    int64_t extent = dt_trip_count(s->plan, s->nest->loops[loop].extent);
    if (extent == 0) return true;
    if (step == 0 || extent < 0) return false;
    for (int t = 0; t < address->n_terms; t++)
        if ((s->depends[address->terms[t]] & loop_bit(loop)) ||
            ((s->depends[address->terms[t]] & others) && address->term_coefficients[t] % (step * extent) != 0))
            return false;
    for (int l = 0; l < s->nest->n_loops; l++) {
        if (!(others & loop_bit(l)) || address->coefficients[l] % (step * extent) == 0) continue;
        int64_t n = dt_trip_count(s->plan, s->nest->loops[l].extent), by = address->coefficients[l];
        if (n < 0 || n > step) return false;
        least += (by < 0 ? -by : by) * (n - 1);
    }
    return least < step;
}

/* Vectors, copies of a jammed loop and parts of a packed one change the order of iterations: those of their loop, or of all inside of the blocks,
 * come after others inside of it. */
static const char *verify_accumulation(const subject *s) {
    const dt_nest_choices *choices = s->choices;
    bool in_parts = choices->packed_loop >= 0 && choices->depth != s->nest->loops[choices->packed_loop].extent, in_blocks = false;
    uint64_t inside = 0, blocks = 0;
    for (int p = 0; p < s->n_outer; p++)
        if (s->nest->loops[choices->order[p]].extent != 1) inside |= loop_bit(choices->order[p]);
    for (int p = 0; p < s->n_outer; p++) {
        int loop = choices->order[p];
        if (in_parts && loop == choices->vector_loop) in_blocks = true, blocks = inside;
        inside &= ~loop_bit(loop);
        bool moves = ((loop == choices->vector_loop && choices->width > 1) || choices->jammed[loop] > 0) && inside != 0;
        for (int i = 0; i < s->nest->n_stores; i++) {
            const dt_address *address = &s->nest->stores[i].address;
            if (!s->nest->stores[i].accumulate || s->nest->loops[loop].extent == 1) continue;
            if ((moves && !tells_apart(s, address, loop, inside)) || (in_blocks && !tells_apart(s, address, loop, blocks & ~loop_bit(loop))))
                return "iterations that are added to one place keep their order";
        }
    }
    return NULL;
}

/* ---- packing ---- */

static const char *verify_packed_rows(const subject *s, int64_t iterations) {
    const dt_nest_choices *choices = s->choices;
    const int64_t *a = s->nest->instructions[s->nest->tiling.a].address.coefficients;
    const char *need = dt_packing_rows_needs(s->nest, choices);
    if (need != NULL) return need;
    if (choices->packed_rows % choices->tile_rows != 0) return "rows are packed for whole tiles";
    int64_t extent = s->nest->loops[s->nest->tiling.row_loop].extent;
    if (!dt_dim_is_symbol(extent) && choices->packed_rows > extent) return "no more rows are packed than there are";
    if (a[s->nest->tiling.row_loop] != 1 && a[choices->packed_loop] != 1) return "packed rows, or their elements, are neighbours";
    if (choices->packed_gap < choices->width - 1) return "between packed rows there is room for the end of a vector";
    int64_t bytes = choices->packed_rows * (iterations + choices->packed_gap) * (int64_t)dt_dtype_bytes(s->nest->reductions[0].dtype);
    return bytes > DT_PACKED_ROWS_BYTES ? "packed rows fit their memory" : NULL;
}

static const char *verify_packing(const subject *s) {
    const dt_nest_choices *choices = s->choices;
    int loop = choices->packed_loop, around = choices->packed_around, last = s->nest->n_loops - 1;
    if (loop < 0) return around >= 0 || choices->packed_rows > 0 ? "a is packed where b is" : NULL;
    if (s->n_outer > last || loop != choices->order[last] || choices->unrolled[loop])
        return "the packed loop is the innermost of the reduced ones, as a loop";
    for (int p = s->n_outer; p < last; p++)
        if (choices->order[p] != around && s->nest->loops[choices->order[p]].extent != 1) return "of several reduced loops two at most are packed";
    if (around >= 0 && (!dt_nest_reduces(s->nest, around) || s->nest->loops[around].extent == DT_GATHERED))
        return "the loop around the packed one is reduced, and not over the rows of all replicas";
    bool in_block = false;
    for (int p = 0; p < s->n_outer; in_block |= choices->order[p++] == choices->vector_loop)
        if (in_block && (s->depends[s->nest->tiling.b] & loop_bit(choices->order[p]))) return "a packed block serves all loops inside of its own";
    if (!is_constant(s, choices->vector_loop) || choices->width * (int)dt_dtype_bytes(s->nest->reductions[0].dtype) != s->target->vector_bytes)
        return "packed blocks are of whole registers, of a loop of constant extent";
    bool whole = choices->depth == s->nest->loops[loop].extent;
    if (choices->depth < 1 || (!whole && (!dt_nest_stores_sum(s->nest) || around >= 0)))
        return "a packed loop runs in parts where the sum is stored as it is";
    int64_t iterations = choices->depth * (around >= 0 ? dt_trip_count(s->plan, s->nest->loops[around].extent) : 1);
    if (iterations * choices->tile_vectors * s->target->vector_bytes > DT_PACKED_BLOCK_BYTES) return "a packed block fits its memory";
    return choices->packed_rows > 0 ? verify_packed_rows(s, iterations) : NULL;
}

static const char *verify_stores(const subject *s) {
    for (int i = 0; i < s->nest->n_stores; i++) {
        const char *need = NULL;
        if (s->choices->stores[i] == DT_STORE_STREAMING)
            need = dt_streaming_needs(s->plan, s->kernel, s->nest, s->choices->vector_loop, &s->nest->stores[i], s->target->line_bytes);
        if (s->choices->stores[i] == DT_STORE_PREFETCHED && !s->choices->tiled) need = "what tiles are stored over is prefetched";
        if (need != NULL) return need;
    }
    return NULL;
}

static dt_status *verify_nest(dt_arena *arena, const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel, int n) {
    static const char *(*const rules[])(const subject *) = {verify_order,   verify_vectors,      verify_unrolling, verify_tiles,
                                                            verify_packing, verify_accumulation, verify_stores};
    const dt_nest *nest = &kernel->nests[n];
    uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
    dt_nest_tile_depends(nest, depends);
    subject subject = {
        choices->target, plan, kernel, nest, &dt_choices_of(choices, plan, kernel)[n], depends, dt_nest_n_outer(nest), dt_nest_n_shared(kernel, n)};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        const char *rule = rules[r](&subject);
        if (rule != NULL) return dt_error(DT_INTERNAL, "kernel %s, nest %d, for %s: %s", kernel->name, n, choices->target->level, rule);
    }
    return NULL;
}

dt_status *dt_choices_verify(dt_arena *arena, const dt_choices *choices) {
    for (int p = 0; p < choices->n_plans; p++)
        for (int k = 0; k < choices->plans[p]->n_kernels; k++)
            for (int n = 0; n < choices->plans[p]->kernels[k].n_nests; n++)
                DT_TRY(verify_nest(arena, choices, choices->plans[p], &choices->plans[p]->kernels[k], n));
    return NULL;
}
