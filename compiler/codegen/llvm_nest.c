/* llvm_nest: where each instruction of a nest goes, and the loops around it.
 *
 * An instruction is emitted once in the innermost loop that it depends on, before the loops inside of it; what only the stores after a reduction
 * need comes after the reduced loops. LLVM is not asked to hoist anything: here it is certain, and costs nothing.
 *
 * The vector loop advances by `width`; what is left over is the same code once more, with fewer lanes in use: a number of them known here, or a
 * mask. An extent smaller than a register makes smaller vectors. */
#include "compiler/codegen/llvm.h"

#include <assert.h>
#include <string.h>

bool dt_llvm_is_constant_extent(int64_t extent) { return !dt_dim_is_symbol(extent); }

LLVMValueRef dt_llvm_extent(dt_llvm_emitter *e, int64_t extent) {
    return extent == DT_BATCH ? e->rows : extent == DT_GATHERED ? e->valid : dt_llvm_i64(e, extent);
}

bool dt_llvm_varies(const dt_llvm_nest *n, int instruction) { return n->width > 1 && (n->depends[instruction] >> n->vector_loop & 1) != 0; }

LLVMValueRef dt_llvm_operand(dt_llvm_nest *n, int instruction, bool as_vector) {
    LLVMValueRef value = n->values[instruction];
    if (!as_vector || dt_llvm_width(value) > 1) return value;
    return n->splatted[instruction] ? n->splats[instruction] : dt_llvm_splat(n->e, value, n->width);
}

/* ---- analysis: what depends on what ---- */

/* The loops of a register tile. */
static uint64_t tile_loops(const dt_nest *nest) {
    uint64_t row = nest->tiling.row_loop >= 0 ? (uint64_t)1 << nest->tiling.row_loop : 0;
    return row | (uint64_t)1 << nest->tiling.vector_loop;
}

/* A result of a reduction differs with the loops of its tile, whatever it is a sum of. */
static void find_depends(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    dt_nest_depends(nest, n->depends);
    if (nest->algorithm == DT_ALGORITHM_LOOPS) return;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_REDUCED) n->depends[i] |= tile_loops(nest);
        for (int k = 0; k < dt_instruction_n_uses(x); k++) n->depends[i] |= n->depends[dt_instruction_use(x, k)];
    }
}

static bool stores_into(const dt_llvm_nest *n, const dt_nest *nest, int buffer) {
    for (int s = 0; s < nest->n_stores; s++)
        if (dt_arguments_overlap(n->e->at_work.plan, n->e->at_work.kernel, nest->stores[s].address.buffer, buffer)) return true;
    return false;
}

/* The loops that a load must stay in because of what is stored between two iterations. */
static int lowest_level(const dt_llvm_nest *n, const dt_address *address, const dt_nest *group, int n_group) {
    if (stores_into(n, n->nest, address->buffer)) return n->n_outer;
    for (int g = 0; g < n_group; g++)
        if (stores_into(n, &group[g], address->buffer)) return n->n_shared;
    return 0;
}

static void find_levels(dt_llvm_nest *n, const dt_nest *group, int n_group) {
    const dt_nest *nest = n->nest;
    int *of_loop = DT_NEW_ARRAY(n->e->arena, int, nest->n_loops), *least = DT_NEW_ARRAY(n->e->arena, int, nest->n_instructions);
    for (int p = 0; p < nest->n_loops; p++) of_loop[n->order[p]] = p + 1;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) least[i] = lowest_level(n, &nest->instructions[i].address, group, n_group);
    dt_depths depths = {of_loop, n->n_outer, least, n->tiled ? tile_loops(nest) : 0};
    dt_nest_place(n->e->arena, nest, n->depends, &depths, n->levels, n->late);
}

static void find_splats(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (!dt_llvm_varies(n, i)) continue;
        for (int k = 0; k < x->n_operands; k++) n->splatted[x->operands[k]] = true;
        if (x->kind == DT_INSTRUCTION_LOAD && x->guard >= 0) n->splatted[x->otherwise] = true;
    }
    for (int i = 0; i < nest->n_instructions; i++) n->splatted[i] &= !dt_llvm_varies(n, i);
}

/* ---- analysis: vectors ---- */

/* Vectors are stored to neighbours, and nothing that a loop of vectors walks is checked. */
static bool vector_loop_is_legal(const dt_llvm_nest *n, int loop) {
    const dt_nest *nest = n->nest;
    if (loop < 0 || (nest->in_rows && loop == 0)) return false;
    uint64_t bit = (uint64_t)1 << loop;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK && (n->depends[i] & bit)) return false;
    if (nest->n_reductions > 0 && nest->loops[loop].reduced) return true;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_address *address = &nest->stores[s].address;
        if (address->coefficients[loop] != 1) return false;
        for (int t = 0; t < address->n_terms; t++)
            if (n->depends[address->terms[t]] & bit) return false;
    }
    return true;
}

static bool has_jammed_loop(const dt_llvm_nest *n) {
    for (int l = 0; l < n->nest->n_loops; l++)
        if (n->jammed[l] > 0) return true;
    return false;
}

static bool has_search(const dt_nest *nest) {
    for (int r = 0; r < nest->n_reductions; r++)
        if (nest->reductions[r].combiner == DT_COMBINE_ARGMAX || nest->reductions[r].combiner == DT_COMBINE_ARGMIN) return true;
    return false;
}

/* Sums over loops that stay loops wait for the adder unless there are several of them: so many registers make up a vector then. */
static int chains(const dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int64_t extent = nest->loops[n->vector_loop].extent;
    int n_reduced = 0;
    if (nest->n_reductions == 0 || !dt_llvm_is_constant_extent(extent) || has_jammed_loop(n)) return 1;
    for (int i = 0; i < nest->n_instructions; i++) n_reduced += n->needed[i] && n->levels[i] > n->n_outer;
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->loops[l].reduced && n->unrolled[l]) return 1;
    if (has_search(nest) && nest->n_reductions > 1) return 1; /* a position is two registers */
    int most = n_reduced <= 4 ? 4 : n_reduced <= 10 ? 2 : 1;
    for (; most > 1; most /= 2) {
        int64_t width = (int64_t)most * n->target_width;
        if (extent % width == 0 || extent >= 8 * width) break;
    }
    return most;
}

/* Whether what is done to an element is so much, one thing after another, that the processor sees no second element to work on meanwhile: a random
 * number's ten rounds, a polynomial. Then two registers make up a vector. */
static bool is_long(const dt_llvm_nest *n) {
    enum {
        LONG = 16
    };
    int n_varying = 0;
    for (int i = 0; i < n->nest->n_instructions; i++)
        n_varying += n->needed[i] && n->nest->instructions[i].kind == DT_INSTRUCTION_SCALAR && (n->depends[i] >> n->vector_loop & 1) != 0;
    return n_varying > LONG;
}

static void choose_width(dt_llvm_nest *n) {
    int64_t extent = n->nest->loops[n->vector_loop].extent;
    n->width = n->target_width;
    if (dt_llvm_is_constant_extent(extent))
        while (n->width / 2 >= extent) n->width /= 2;
    if (n->width == n->target_width) n->width *= chains(n);
    if (n->width == n->target_width && is_long(n) && dt_llvm_is_constant_extent(extent) && extent % (2 * n->width) == 0) n->width *= 2;
    if (n->width <= 1) n->width = 1, n->vector_loop = -1;
}

void dt_llvm_choose_unrolling(dt_llvm_nest *n, int64_t body, int64_t budget) {
    int64_t copies = body > 0 ? body : 1;
    for (int p = n->nest->n_loops - 1; p >= n->n_outer; p--) {
        int64_t extent = n->nest->loops[n->order[p]].extent;
        if (n->order[p] == n->vector_loop || !dt_llvm_is_constant_extent(extent) || extent > budget || copies * extent > budget) return;
        copies *= extent;
        n->unrolled[n->order[p]] = true;
    }
}

/* Short outer loops whose index is computed with: unrolled, it is a constant, and a comparison with it one with a constant. */
static void unroll_short_loops(dt_llvm_nest *n, int64_t budget) {
    enum {
        SHORT = 4
    };
    const dt_nest *nest = n->nest;
    int64_t copies = nest->n_instructions;
    for (int i = 0; i < nest->n_instructions; i++) {
        int loop = nest->instructions[i].index;
        if (nest->instructions[i].kind != DT_INSTRUCTION_LOOP || !n->needed[i] || loop == n->vector_loop || nest->loops[loop].reduced) continue;
        int64_t extent = nest->loops[loop].extent;
        if (!dt_llvm_is_constant_extent(extent) || extent > SHORT || copies * extent > budget) continue;
        copies *= extent;
        n->unrolled[loop] = true;
    }
}

/* A nest that only moves elements, and turns them: what it loads lies along another outer loop than what it stores. With that loop innermost, the
 * lines that a vector's elements lie in are read whole while they are in cache. */
static void turn_order(dt_llvm_nest *n) {
    enum {
        LINE = 16 /* elements, of the usual type */
    };
    const dt_nest *nest = n->nest;
    int along = -1, vector = n->vector_loop;
    if (nest->n_reductions > 0 || vector < 0 || !dt_llvm_is_constant_extent(nest->loops[vector].extent)) return;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *load = &nest->instructions[i];
        if (!n->needed[i] || load->kind != DT_INSTRUCTION_LOAD) continue;
        if (along >= 0 || load->guard >= 0 || load->address.n_terms > 0 || load->address.coefficients[vector] < LINE) return;
        for (int l = 0; l < nest->n_loops; l++)
            if (l != vector && !(nest->in_rows && l == 0) && load->address.coefficients[l] == 1 && nest->loops[l].extent >= LINE) along = l;
    }
    if (along < 0) return;
    int at = 0;
    for (int p = 0; p < n->n_outer; p++)
        if (n->order[p] != along) n->order[at++] = n->order[p];
    n->order[at] = along;
}

static void choose_order(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    int at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int l = 0; l < nest->n_loops; l++)
            if ((nest->n_reductions > 0 && nest->loops[l].reduced) == (pass == 1)) n->order[at++] = l;
    n->n_outer = 0;
    for (int l = 0; l < nest->n_loops; l++) n->n_outer += !(nest->n_reductions > 0 && nest->loops[l].reduced);
    if (n->tiled) dt_llvm_tile_choose(n);
}

static const dt_address *address_of(const dt_nest *nest, int i) {
    return i < nest->n_instructions ? &nest->instructions[i].address : &nest->stores[i - nest->n_instructions].address;
}

dt_llvm_nest *dt_llvm_nest_prepare(dt_llvm_emitter *e, const dt_nest *nest, const dt_nest *group, int n_group) {
    enum {
        UNROLL_ITERATIONS = 16,
        UNROLL_INSTRUCTIONS = 320
    };
    dt_llvm_nest *n = DT_NEW(e->arena, dt_llvm_nest);
    int n_instructions = nest->n_instructions;
    assert(nest->n_loops <= 64);
    *n = (dt_llvm_nest){.e = e,
                        .nest = nest,
                        .choices = &e->at_work.choices[nest - e->at_work.kernel->nests],
                        .vector_loop = -1,
                        .packed_loop = -1,
                        .packed_around = -1,
                        .n_copies = 1,
                        .width = 1,
                        .lanes = 1,
                        .target_width = e->target->vector_bytes / 4};
    n->order = DT_NEW_ARRAY(e->arena, int, nest->n_loops);
    n->unrolled = DT_NEW_ARRAY(e->arena, bool, nest->n_loops);
    n->jammed = DT_NEW_ARRAY(e->arena, int, nest->n_loops);
    n->depends = DT_NEW_ARRAY(e->arena, uint64_t, n_instructions);
    n->levels = DT_NEW_ARRAY(e->arena, int, n_instructions);
    n->late = DT_NEW_ARRAY(e->arena, bool, n_instructions);
    n->needed = DT_NEW_ARRAY(e->arena, bool, n_instructions);
    n->splatted = DT_NEW_ARRAY(e->arena, bool, n_instructions);
    n->values = DT_NEW_ARRAY(e->arena, LLVMValueRef, n_instructions);
    n->splats = DT_NEW_ARRAY(e->arena, LLVMValueRef, n_instructions);
    n->loops = DT_NEW_ARRAY(e->arena, dt_llvm_sum, nest->n_loops);
    n->addresses = DT_NEW_ARRAY(e->arena, dt_llvm_sum, n_instructions + nest->n_stores);
    n->slots = DT_NEW_ARRAY(e->arena, int, nest->n_reductions);
    n->numbers = dt_llvm_numbers(e, nest);
    for (int i = 0; i < n_instructions + nest->n_stores; i++)
        if (i >= n_instructions || nest->instructions[i].kind == DT_INSTRUCTION_LOAD)
            n->addresses[i] = (dt_llvm_sum){n->numbers[i], n->numbers[i] != NULL ? 0 : address_of(nest, i)->offset};

    bool in_blocks = nest->in_blocks || (n_group > 0 && nest + 1 < group + n_group && nest[1].in_blocks);
    n->n_shared = n_group == 0 ? 0 : in_blocks ? 2 : 1;
    find_depends(n);
    dt_nest_mark_needed(nest, n->needed);
    n->tiled = dt_llvm_tile_is_possible(n);
    choose_order(n);
    if (!n->tiled && vector_loop_is_legal(n, nest->vector_loop)) {
        n->vector_loop = nest->vector_loop;
        dt_llvm_unroll_and_jam_choose(n);
        turn_order(n);
    }
    find_levels(n, group, n_group);
    if (!n->tiled) {
        int64_t body = 1, n_reduced = 0;
        for (int i = 0; i < n_instructions; i++) n_reduced += n->needed[i] && n->levels[i] > n->n_outer;
        if (n_reduced > UNROLL_INSTRUCTIONS / UNROLL_ITERATIONS) body = n_reduced * UNROLL_ITERATIONS / UNROLL_INSTRUCTIONS;
        dt_llvm_choose_unrolling(n, body, UNROLL_ITERATIONS);
        unroll_short_loops(n, UNROLL_INSTRUCTIONS);
        if (n->vector_loop >= 0) choose_width(n);
    }
    n->lanes = n->width;
    find_splats(n);
    return n;
}

/* ---- emission: indices and addresses ---- */

LLVMValueRef dt_llvm_sum_value(dt_llvm_emitter *e, dt_llvm_sum sum) {
    LLVMValueRef constant = dt_llvm_i64(e, sum.constant);
    if (sum.variable == NULL) return constant;
    return sum.constant == 0 ? sum.variable : LLVMBuildNSWAdd(e->builder, sum.variable, constant, "");
}

static bool has_address(const dt_llvm_nest *n, int i) {
    return i >= n->nest->n_instructions || (n->needed[i] && n->nest->instructions[i].kind == DT_INSTRUCTION_LOAD);
}

void dt_llvm_enter(dt_llvm_nest *n, int loop, dt_llvm_sum index) {
    dt_llvm_emitter *e = n->e;
    int n_addresses = n->nest->n_instructions + n->nest->n_stores;
    n->loops[loop] = index;
    dt_llvm_sum *old = dt_llvm_save_addresses(n);
    for (int i = 0; i < n_addresses; i++) {
        int64_t coefficient = has_address(n, i) ? address_of(n->nest, i)->coefficients[loop] : 0;
        if (coefficient == 0) continue;
        n->addresses[i].constant += coefficient * index.constant;
        if (index.variable == NULL) continue;
        int same = 0; /* an address before this one that has walked the same way: its sum serves both */
        while (same < i &&
               !(has_address(n, same) && address_of(n->nest, same)->coefficients[loop] == coefficient && old[same].variable == old[i].variable))
            same++;
        if (same < i) {
            n->addresses[i].variable = n->addresses[same].variable;
            continue;
        }
        LLVMValueRef step = index.variable;
        if (coefficient != 1) step = LLVMBuildNSWMul(e->builder, step, dt_llvm_i64(e, coefficient), "");
        n->addresses[i].variable = old[i].variable != NULL ? LLVMBuildNSWAdd(e->builder, old[i].variable, step, "") : step;
    }
}

dt_llvm_sum *dt_llvm_save_addresses(dt_llvm_nest *n) {
    size_t bytes = sizeof *n->addresses * (size_t)(n->nest->n_instructions + n->nest->n_stores);
    return dt_arena_copy(n->e->arena, n->addresses, bytes);
}

void dt_llvm_restore_addresses(dt_llvm_nest *n, const dt_llvm_sum *saved) {
    memcpy(n->addresses, saved, sizeof *n->addresses * (size_t)(n->nest->n_instructions + n->nest->n_stores));
}

/* ---- emission: instructions ---- */

void dt_llvm_emit(dt_llvm_nest *n, int i) {
    n->values[i] = n->nest->instructions[i].kind == DT_INSTRUCTION_LOAD ? dt_llvm_load(n, i) : dt_llvm_instruction(n, i);
    if (n->splatted[i]) n->splats[i] = dt_llvm_splat(n->e, n->values[i], n->width);
}

void dt_llvm_emit_level(dt_llvm_nest *n, int level, bool late) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (!n->needed[i] || n->levels[i] != level || n->late[i] != late) continue;
        if (n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED)
            dt_llvm_emit(n, i);
        else if (n->splatted[i])
            n->splats[i] = dt_llvm_splat(n->e, n->values[i], n->width);
    }
}

/* ---- emission: loops ---- */

static void descend(dt_llvm_nest *n, int level);

void dt_llvm_iteration(dt_llvm_nest *n, int level, dt_llvm_sum index) {
    dt_llvm_sum **saved = DT_NEW_ARRAY(n->e->arena, dt_llvm_sum *, n->n_copies);
    for (int c = 0; c < n->n_copies; c++) {
        dt_llvm_use_copy(n, c);
        saved[c] = dt_llvm_save_addresses(n);
        dt_llvm_enter(n, n->order[level], index);
    }
    dt_llvm_nest_emit(n, level + 1);
    for (int c = 0; c < n->n_copies; c++) {
        dt_llvm_use_copy(n, c);
        dt_llvm_restore_addresses(n, saved[c]);
    }
}

/* Iterations start, start + step, … below end. */
static void counted_loop(dt_llvm_nest *n, int level, int64_t start, int64_t end, int64_t step) {
    if (start >= end) return;
    if (start + step >= end) {
        dt_llvm_iteration(n, level, (dt_llvm_sum){NULL, start});
        return;
    }
    dt_llvm_loop loop = dt_llvm_loop_begin(n->e, dt_llvm_i64(n->e, start), dt_llvm_i64(n->e, end), step, false);
    dt_llvm_iteration(n, level, (dt_llvm_sum){loop.index, 0});
    dt_llvm_loop_end(n->e, &loop);
}

static void runtime_loop(dt_llvm_nest *n, int level, LLVMValueRef start, LLVMValueRef end, int64_t step) {
    dt_llvm_loop loop = dt_llvm_loop_begin(n->e, start, end, step, true);
    if (n->mask != NULL && n->order[level] == n->vector_loop) {
        n->mask = dt_llvm_prefix_at_run_time(n->e, LLVMBuildSub(n->e->builder, end, loop.index, ""), n->width);
    }
    dt_llvm_iteration(n, level, (dt_llvm_sum){loop.index, 0});
    dt_llvm_loop_end(n->e, &loop);
}

/* Whole vectors, then what is left of one. */
static void vector_range(dt_llvm_nest *n, int level, LLVMValueRef start, LLVMValueRef end) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef iterations = LLVMBuildAnd(e->builder, LLVMBuildSub(e->builder, end, start, ""), dt_llvm_i64(e, -(int64_t)n->width), "");
    LLVMValueRef whole = LLVMBuildAdd(e->builder, start, iterations, "");
    runtime_loop(n, level, start, whole, n->width);
    n->mask = dt_llvm_prefix(e, n->width, n->width); /* a tail: the loop makes the mask */
    runtime_loop(n, level, whole, end, n->width);
    n->mask = NULL;
}

static void vector_loop(dt_llvm_nest *n, int level, int64_t extent) {
    dt_llvm_emitter *e = n->e;
    int width = n->width;
    if (dt_llvm_is_constant_extent(extent)) {
        int64_t whole = extent / width * width;
        counted_loop(n, level, 0, whole, width);
        if (whole == extent) return;
        n->lanes = (int)(extent - whole);
        n->mask = dt_llvm_prefix(e, n->lanes, width);
        dt_llvm_iteration(n, level, (dt_llvm_sum){NULL, whole});
    } else {
        vector_range(n, level, dt_llvm_i64(e, 0), dt_llvm_extent(e, extent));
    }
    n->lanes = width;
    n->mask = NULL;
}

static void finish(dt_llvm_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++) dt_llvm_store(n, s);
}

static void descend(dt_llvm_nest *n, int level) {
    const dt_nest *nest = n->nest;
    if (level == nest->n_loops) {
        for (int c = 0; c < n->n_copies; c++) {
            dt_llvm_use_copy(n, c);
            nest->n_reductions > 0 ? dt_llvm_reduce_step(n) : finish(n);
        }
        return;
    }
    int loop = n->order[level];
    int64_t extent = nest->loops[loop].extent;
    if (n->part_end != NULL && loop == 0) {
        if (loop == n->vector_loop)
            vector_range(n, level, n->part_start, n->part_end);
        else
            runtime_loop(n, level, n->part_start, n->part_end, 1);
    } else if (n->tiled && loop == n->vector_loop) {
        dt_llvm_tile_blocks(n, level);
    } else if (n->jammed[loop] > 0) {
        dt_llvm_unroll_and_jam_loop(n, level);
    } else if (loop == n->vector_loop) {
        vector_loop(n, level, extent);
    } else if (!dt_llvm_is_constant_extent(extent)) {
        runtime_loop(n, level, dt_llvm_i64(n->e, 0), dt_llvm_extent(n->e, extent), 1);
    } else if (n->unrolled[loop]) {
        for (int64_t i = 0; i < extent; i++) dt_llvm_iteration(n, level, (dt_llvm_sum){NULL, i});
    } else {
        counted_loop(n, level, 0, extent, 1);
    }
}

void dt_llvm_nest_emit(dt_llvm_nest *n, int level) {
    for (int c = 0; c < n->n_copies; c++) {
        dt_llvm_use_copy(n, c);
        dt_llvm_emit_level(n, level, false);
    }
    if (n->tiled && level == n->tile_level) {
        dt_llvm_tile_rows(n);
    } else if (n->nest->n_reductions > 0 && level == n->n_outer) {
        dt_llvm_reduce_begin(n);
        descend(n, level);
        dt_llvm_reduce_end(n);
        for (int c = 0; c < n->n_copies; c++) {
            dt_llvm_use_copy(n, c);
            dt_llvm_emit_level(n, level, true);
            finish(n);
        }
    } else {
        descend(n, level);
    }
}
