/* analysis: see the header. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/view.h"

#include <assert.h>
#include <math.h>

bool dt_buffers_are_one(const dt_plan *plan, int a, int b) {
    const dt_buffer *x = &plan->buffers[a], *y = &plan->buffers[b];
    if (a == b) return true;
    if (x->space == DT_MEMORY_VARIABLE && y->space == DT_MEMORY_VARIABLE) return x->variable == y->variable;
    return x->space == DT_MEMORY_INPUT && y->space == DT_MEMORY_INPUT && x->input == y->input;
}

bool dt_arguments_are_one(const dt_plan *plan, const dt_kernel_function *kernel, int a, int b) {
    return dt_buffers_are_one(plan, kernel->buffers[a], kernel->buffers[b]);
}

bool dt_arguments_overlap(const dt_plan *plan, const dt_kernel_function *kernel, int a, int b) {
    const dt_buffer *x = &plan->buffers[kernel->buffers[a]], *y = &plan->buffers[kernel->buffers[b]];
    assert(plan->is_placed);
    if (dt_arguments_are_one(plan, kernel, a, b)) return true;
    if (dt_views_are_apart(plan, kernel->buffers[a], kernel->buffers[b])) return false;
    if (x->space != y->space || x->space == DT_MEMORY_VARIABLE || x->space == DT_MEMORY_INPUT) return false;
    if (dt_buffer_is_gathered(x) != dt_buffer_is_gathered(y)) return false;
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

int dt_plan_n_arguments(const dt_plan *plan, dt_memory_space space) {
    int n = 0;
    for (int b = 0; b < plan->n_buffers; b++) {
        int number = space == DT_MEMORY_INPUT ? plan->buffers[b].input : plan->buffers[b].variable;
        if (number >= n) n = number + 1;
    }
    return n;
}

bool dt_kernel_is_sharded(const dt_plan *plan, const dt_kernel_function *kernel) {
    for (int b = 0; b < kernel->n_buffers && plan->n_shards > 1; b++)
        if (plan->buffers[dt_buffer_root(plan, kernel->buffers[b])].sharded) return true;
    return false;
}

void dt_plan_mark_sharded(dt_plan *plan) {
    for (bool changed = plan->n_shards > 1; changed;) {
        changed = false;
        for (int k = 0; k < plan->n_kernels; k++) {
            const dt_kernel_function *kernel = &plan->kernels[k];
            if (!dt_kernel_is_sharded(plan, kernel)) continue;
            for (int b = 0; b < kernel->n_buffers; b++) {
                dt_buffer *buffer = &plan->buffers[dt_buffer_root(plan, kernel->buffers[b])];
                if (buffer->sharded || !dt_kernel_stores_to(kernel, kernel->buffers[b])) continue;
                buffer->sharded = changed = true;
            }
        }
    }
}

bool dt_kernel_stores_to(const dt_kernel_function *kernel, int buffer) {
    for (int n = 0; n < kernel->n_nests; n++)
        for (int s = 0; s < kernel->nests[n].n_stores; s++)
            if (kernel->buffers[kernel->nests[n].stores[s].address.buffer] == buffer) return true;
    return false;
}

bool dt_nest_stores_into(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int argument) {
    for (int s = 0; s < nest->n_stores; s++)
        if (dt_arguments_overlap(plan, kernel, nest->stores[s].address.buffer, argument)) return true;
    return false;
}

dt_dtype dt_reduction_element(const dt_nest *nest, const dt_reduction *reduction) {
    return dt_combiner_is_position(reduction->combiner) ? nest->instructions[reduction->operand].dtype : reduction->dtype;
}

int dt_reduction_found_by(const dt_nest *nest, int r) {
    const dt_reduction *reduction = &nest->reductions[r];
    dt_combiner position = reduction->combiner == DT_COMBINE_MAX   ? DT_COMBINE_ARGMAX
                           : reduction->combiner == DT_COMBINE_MIN ? DT_COMBINE_ARGMIN
                                                                   : DT_COMBINE_NONE;
    for (int k = 0; k < nest->n_reductions && position != DT_COMBINE_NONE; k++) {
        const dt_reduction *other = &nest->reductions[k];
        if (other->combiner == position && other->operand == reduction->operand && dt_reduction_element(nest, other) == reduction->dtype) return k;
    }
    return -1;
}

bool dt_nest_is_number(const dt_nest *nest, int instruction) {
    const dt_instruction *x = &nest->instructions[instruction];
    if (x->kind == DT_INSTRUCTION_CONSTANT) return !isnan(x->number);
    if (x->kind == DT_INSTRUCTION_SCALAR && x->scalar > DT_SCALAR_DIVIDE && x->scalar != DT_SCALAR_NEGATE) return false;
    if (x->kind != DT_INSTRUCTION_SCALAR && x->kind != DT_INSTRUCTION_CONVERT) return false;
    for (int k = 0; k < x->n_operands; k++)
        if (!dt_nest_is_number(nest, x->operands[k])) return false;
    return true;
}

bool dt_nest_stores_sum(const dt_nest *nest) {
    const dt_store *store = &nest->stores[0];
    return nest->n_stores == 1 && store->guard < 0 && nest->instructions[store->operand].kind == DT_INSTRUCTION_REDUCED;
}

static bool uses(const dt_plan *plan, const dt_kernel_function *kernel, int buffer) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (dt_buffer_root(plan, kernel->buffers[b]) == dt_buffer_root(plan, buffer)) return true;
    return false;
}

static bool stores_into(const dt_plan *plan, const dt_kernel_function *kernel, int root) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (dt_buffer_root(plan, kernel->buffers[b]) == root && dt_kernel_stores_to(kernel, kernel->buffers[b])) return true;
    return false;
}

bool dt_collective_is_within(const dt_plan *plan, const dt_collective *collective) {
    return collective->kind == DT_COLLECTIVE_SHARD_REDUCE && plan->buffers[collective->target].space != DT_MEMORY_DEVICE;
}

int dt_complete_after(const dt_plan *plan, const dt_segment *segment, const dt_collective *collective) {
    int n = segment->n_replica_kernels;
    bool is_within = dt_collective_is_within(plan, collective);
    for (; n > 0; n--) {
        const dt_kernel_function *kernel = &plan->kernels[segment->replica_kernels[n - 1]];
        if (is_within ? stores_into(plan, kernel, collective->source) : uses(plan, kernel, collective->source)) break;
    }
    for (int c = 0; c < segment->n_collectives && !is_within; c++) {
        const dt_collective *other = &segment->collectives[c];
        if (other->target != collective->source || !dt_collective_is_within(plan, other)) continue;
        int behind = dt_complete_after(plan, segment, other);
        if (behind > n) n = behind;
    }
    while (n > 0 && n < segment->n_replica_kernels && plan->kernels[segment->replica_kernels[n - 1]].loop != NULL &&
           dt_loop_outermost(plan->kernels[segment->replica_kernels[n]].loop) ==
               dt_loop_outermost(plan->kernels[segment->replica_kernels[n - 1]].loop))
        n++; /* to the end of the loop */
    return n;
}

int64_t dt_trip_count(const dt_plan *plan, int64_t extent) {
    return extent == DT_BATCH ? plan->microbatch_rows : extent == DT_GATHERED ? -1 : extent;
}

bool dt_reduction_is_product(const dt_nest *nest, const dt_reduction *reduction) {
    const dt_instruction *operand = &nest->instructions[reduction->operand];
    return reduction->combiner == DT_COMBINE_SUM && operand->kind == DT_INSTRUCTION_SCALAR && operand->scalar == DT_SCALAR_MULTIPLY &&
           dt_dtype_is_float(operand->dtype) && (operand->dtype == DT_F64) == (reduction->dtype == DT_F64);
}

int dt_factor_unrounded(const dt_nest *nest, int factor, dt_precision *precision) {
    const dt_instruction *x = &nest->instructions[factor];
    *precision = x->kind == DT_INSTRUCTION_SCALAR ? dt_scalar_precision(x->scalar) : DT_PRECISION_F32;
    return *precision != DT_PRECISION_F32 ? x->operands[0] : factor;
}

dt_precision dt_product_precision(const dt_nest *nest, const dt_reduction *reduction) {
    const int *factors = nest->instructions[reduction->operand].operands;
    dt_precision a, b;
    dt_factor_unrounded(nest, factors[0], &a);
    dt_factor_unrounded(nest, factors[1], &b);
    return a == b ? a : DT_PRECISION_F32;
}

int dt_instruction_n_uses(const dt_instruction *x) {
    bool load = x->kind == DT_INSTRUCTION_LOAD;
    return x->n_operands + (load ? x->address.n_terms + (x->guard >= 0 ? 2 : 0) : 0);
}

int dt_instruction_use(const dt_instruction *x, int i) {
    if (i < x->n_operands) return x->operands[i];
    i -= x->n_operands;
    if (i < x->address.n_terms) return x->address.terms[i];
    return i == x->address.n_terms ? x->guard : x->otherwise;
}

int dt_nest_n_outer(const dt_nest *nest) {
    int n_outer = 0;
    for (int l = 0; l < nest->n_loops; l++) n_outer += !dt_nest_reduces(nest, l);
    return n_outer;
}

int dt_nest_n_shared(const dt_kernel_function *kernel, int n) {
    bool in_blocks = kernel->nests[n].in_blocks || (n + 1 < kernel->n_nests && kernel->nests[n + 1].in_blocks);
    bool in_parts = !kernel->once && kernel->nests[n].part_iterations > 0;
    return in_blocks ? 2 : kernel->nests[n].in_rows + in_parts;
}

int dt_nest_load_level(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int argument, const dt_nest *group, int n_group) {
    if (dt_nest_stores_into(plan, kernel, nest, argument)) return dt_nest_n_outer(nest);
    for (int g = 0; g < n_group; g++)
        if (dt_nest_stores_into(plan, kernel, &group[g], argument)) return dt_nest_n_shared(kernel, (int)(nest - kernel->nests));
    return 0;
}

uint64_t dt_nest_tile_loops(const dt_nest *nest) {
    uint64_t row = nest->tiling.row_loop >= 0 ? (uint64_t)1 << nest->tiling.row_loop : 0;
    return row | (uint64_t)1 << nest->tiling.vector_loop;
}

void dt_nest_depends(const dt_nest *nest, uint64_t *depends) {
    uint64_t outer = 0;
    for (int l = 0; l < nest->n_loops; l++)
        if (!nest->loops[l].reduced) outer |= (uint64_t)1 << l;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        depends[i] = x->kind == DT_INSTRUCTION_LOOP ? (uint64_t)1 << x->index : 0;
        for (int k = 0; k < dt_instruction_n_uses(x); k++) depends[i] |= depends[dt_instruction_use(x, k)];
        for (int l = 0; l < nest->n_loops && x->kind == DT_INSTRUCTION_LOAD; l++)
            if (x->address.coefficients[l] != 0) depends[i] |= (uint64_t)1 << l;
        if (x->kind == DT_INSTRUCTION_REDUCED) depends[i] = depends[nest->reductions[x->index].operand] & outer;
    }
}

void dt_nest_tile_depends(const dt_nest *nest, uint64_t *depends) {
    dt_nest_depends(nest, depends);
    for (int i = 0; i < nest->n_instructions && nest->algorithm != DT_ALGORITHM_LOOPS; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_REDUCED) depends[i] |= dt_nest_tile_loops(nest);
        for (int k = 0; k < dt_instruction_n_uses(x); k++) depends[i] |= depends[dt_instruction_use(x, k)];
    }
}

bool dt_nest_checks(const dt_nest *nest, const uint64_t *depends, uint64_t loops) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK && (depends == NULL || (depends[i] & loops))) return true;
    return false;
}

bool dt_nest_has_check(const dt_nest *nest) { return dt_nest_checks(nest, NULL, 0); }

void dt_nest_mark(const dt_nest *nest, bool *marks, int i) {
    if (i < 0 || marks[i]) return;
    marks[i] = true;
    const dt_instruction *x = &nest->instructions[i];
    for (int k = 0; k < dt_instruction_n_uses(x); k++) dt_nest_mark(nest, marks, dt_instruction_use(x, k));
}

void dt_nest_mark_store(const dt_nest *nest, bool *marks, const dt_store *store) {
    dt_nest_mark(nest, marks, store->operand);
    dt_nest_mark(nest, marks, store->guard);
    for (int t = 0; t < store->address.n_terms; t++) dt_nest_mark(nest, marks, store->address.terms[t]);
}

void dt_nest_mark_reduced(const dt_nest *nest, bool *marks) {
    for (int r = 0; r < nest->n_reductions; r++) {
        const dt_reduction *reduction = &nest->reductions[r];
        const dt_instruction *operand = &nest->instructions[reduction->operand];
        if (dt_reduction_is_product(nest, reduction))
            for (int k = 0; k < 2; k++) dt_nest_mark(nest, marks, operand->operands[k]);
        else
            dt_nest_mark(nest, marks, reduction->operand);
    }
}

void dt_nest_mark_needed(const dt_nest *nest, bool *marks) {
    dt_nest_mark_reduced(nest, marks);
    for (int s = 0; s < nest->n_stores; s++) dt_nest_mark_store(nest, marks, &nest->stores[s]);
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) dt_nest_mark(nest, marks, i);
}

void dt_nest_place(dt_arena *arena, const dt_nest *nest, const uint64_t *depends, const dt_depths *depths, int *levels, bool *late) {
    bool *reduced = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    dt_nest_mark_reduced(nest, reduced);
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        levels[i] = depths->least[i];
        late[i] = x->kind == DT_INSTRUCTION_REDUCED || ((depends[i] & depths->tile_loops) && !reduced[i]);
        for (int l = 0; l < nest->n_loops; l++)
            if ((depends[i] >> l & 1) && depths->of_loop[l] > levels[i]) levels[i] = depths->of_loop[l];
        for (int k = 0; k < dt_instruction_n_uses(x); k++) {
            int use = dt_instruction_use(x, k);
            late[i] |= late[use];
            if (levels[use] > levels[i]) levels[i] = levels[use];
        }
        if (late[i])
            levels[i] = depths->outer;
        else
            late[i] = nest->n_reductions > 0 && levels[i] == depths->outer && !reduced[i] && x->kind != DT_INSTRUCTION_CHECK;
    }
}

void dt_library_nests(const dt_kernel_function *kernel, int n, int *first, int *last) {
    const struct dt_library_call *call = kernel->nests[n].library;
    *first = *last = n;
    while (call != NULL && *first > 0 && kernel->nests[*first - 1].library == call) --*first;
    while (call != NULL && *last + 1 < kernel->n_nests && kernel->nests[*last + 1].library == call) ++*last;
}

int dt_timer_before(const dt_kernel_function *kernel, int end, bool rows_are_done) {
    const dt_nest *last = &kernel->nests[end - 1];
    int n_timers = 0, first = end - 1, after = end;
    if (last->timer == 0 || !last->in_rows) return last->timer;
    while (first > 0 && kernel->nests[first - 1].in_rows) first--;
    while (after < kernel->n_nests && kernel->nests[after].in_rows) after++;
    for (int n = first; n < after; n++) n_timers += kernel->nests[n].timer > 0;
    return (n_timers == 1) == rows_are_done ? last->timer : 0;
}
