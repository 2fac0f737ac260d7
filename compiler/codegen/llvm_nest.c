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

bool dt_llvm_varies(const dt_llvm_nest *n, int instruction) { return n->width > 1 && (n->depends[instruction] >> n->choices->vector_loop & 1) != 0; }

LLVMValueRef dt_llvm_operand(dt_llvm_nest *n, int instruction, bool as_vector) {
    LLVMValueRef value = n->values[instruction];
    if (!as_vector || dt_llvm_width(value) > 1) return value;
    return n->splatted[instruction] ? n->splats[instruction] : dt_llvm_splat(n->e, value, n->width);
}

/* ---- analysis ---- */

static void find_levels(dt_llvm_nest *n, const dt_nest *group, int n_group) {
    const dt_llvm_function *f = &n->e->at_work;
    const dt_nest *nest = n->nest;
    int *of_loop = DT_NEW_ARRAY(n->e->arena, int, nest->n_loops), *least = DT_NEW_ARRAY(n->e->arena, int, nest->n_instructions);
    for (int p = 0; p < nest->n_loops; p++) of_loop[n->choices->order[p]] = p + 1;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD)
            least[i] = dt_nest_load_level(f->plan, f->kernel, nest, nest->instructions[i].address.buffer, group, n_group);
    dt_depths depths = {of_loop, n->n_outer, least, n->choices->tiled ? dt_nest_tile_loops(nest) : 0};
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

static const dt_address *address_of(const dt_nest *nest, int i) {
    return i < nest->n_instructions ? &nest->instructions[i].address : &nest->stores[i - nest->n_instructions].address;
}

dt_llvm_nest *dt_llvm_nest_prepare(dt_llvm_emitter *e, const dt_nest *nest, const dt_nest *group, int n_group) {
    dt_llvm_nest *n = DT_NEW(e->arena, dt_llvm_nest);
    int n_instructions = nest->n_instructions;
    assert(nest->n_loops <= 64);
    *n = (dt_llvm_nest){
        .e = e, .nest = nest, .choices = &e->at_work.choices[nest - e->at_work.kernel->nests], .n_outer = dt_nest_n_outer(nest), .n_copies = 1};
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

    n->width = n->lanes = n->choices->width;
    n->tile_level = n->n_outer - (nest->tiling.row_loop >= 0);
    dt_nest_tile_depends(nest, n->depends);
    dt_nest_mark_needed(nest, n->needed);
    find_levels(n, group, n_group);
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
        dt_llvm_enter(n, n->choices->order[level], index);
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
    if (n->mask != NULL && n->choices->order[level] == n->choices->vector_loop) {
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
    int loop = n->choices->order[level];
    int64_t extent = nest->loops[loop].extent;
    if (n->part_end != NULL && loop == dt_nest_part_loop(nest)) {
        if (loop == n->choices->vector_loop)
            vector_range(n, level, n->part_start, n->part_end);
        else
            runtime_loop(n, level, n->part_start, n->part_end, 1);
    } else if (n->choices->tiled && loop == n->choices->vector_loop) {
        dt_llvm_tile_blocks(n, level);
    } else if (n->choices->jammed[loop] > 0) {
        dt_llvm_unroll_and_jam_loop(n, level);
    } else if (loop == n->choices->vector_loop) {
        vector_loop(n, level, extent);
    } else if (!dt_llvm_is_constant_extent(extent)) {
        runtime_loop(n, level, dt_llvm_i64(n->e, 0), dt_llvm_extent(n->e, extent), 1);
    } else if (n->choices->unrolled[loop]) {
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
    if (n->choices->skips_zeros && level == n->nest->in_rows) dt_llvm_fill_lists(n);
    if (n->choices->tiled && level == n->tile_level) {
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
