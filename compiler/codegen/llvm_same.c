/* llvm_same: whether two kernels are the same code. Functions of one program share much: training, evaluation and prediction run the same layers.
 * What is compiled once costs half. */
#include "compiler/codegen/llvm.h"

#include <string.h>

static bool same_bytes(const void *a, const void *b, size_t n, size_t item_bytes) { return n == 0 || memcmp(a, b, n * item_bytes) == 0; }

static bool same_address(const dt_address *a, const dt_address *b, int n_loops) {
    return a->buffer == b->buffer && a->offset == b->offset && a->n_terms == b->n_terms &&
           same_bytes(a->coefficients, b->coefficients, (size_t)n_loops, sizeof *a->coefficients) &&
           same_bytes(a->terms, b->terms, (size_t)a->n_terms, sizeof *a->terms) &&
           same_bytes(a->term_coefficients, b->term_coefficients, (size_t)a->n_terms, sizeof *a->term_coefficients);
}

static bool same_instruction(const dt_instruction *a, const dt_instruction *b, int n_loops) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->n_operands != b->n_operands) return false;
    if (!same_bytes(a->operands, b->operands, (size_t)a->n_operands, sizeof *a->operands)) return false;
    switch (a->kind) {
    case DT_INSTRUCTION_CONSTANT: return same_bytes(&a->number, &b->number, 1, sizeof a->number) && a->integer == b->integer;
    case DT_INSTRUCTION_SCALAR: return a->scalar == b->scalar;
    case DT_INSTRUCTION_CHECK: return a->index == b->index && a->integer == b->integer && a->before == b->before;
    case DT_INSTRUCTION_LOAD:
        return a->guard == b->guard && (a->guard < 0 || a->otherwise == b->otherwise) && same_address(&a->address, &b->address, n_loops);
    default: return a->index == b->index;
    }
}

static bool same_tiling(const dt_tiling *a, const dt_tiling *b) {
    return a->row_loop == b->row_loop && a->vector_loop == b->vector_loop && a->a == b->a && a->b == b->b;
}

static bool same_share(const dt_nest_share *a, const dt_nest_share *b) {
    return a->n_units == b->n_units && a->turn == b->turn && a->first_unit == b->first_unit && a->unit_iterations == b->unit_iterations;
}

static bool same_nest(const dt_nest *a, const dt_nest *b) {
    if (a->in_rows != b->in_rows || a->in_blocks != b->in_blocks || a->n_loops != b->n_loops || a->n_instructions != b->n_instructions ||
        a->n_reductions != b->n_reductions || a->n_stores != b->n_stores || a->vector_loop != b->vector_loop ||
        a->part_iterations != b->part_iterations || !same_share(&a->share, &b->share) || a->algorithm != b->algorithm ||
        (a->algorithm != DT_ALGORITHM_LOOPS && !same_tiling(&a->tiling, &b->tiling)))
        return false;
    for (int l = 0; l < a->n_loops; l++)
        if (a->loops[l].extent != b->loops[l].extent || a->loops[l].reduced != b->loops[l].reduced) return false;
    for (int i = 0; i < a->n_instructions; i++)
        if (!same_instruction(&a->instructions[i], &b->instructions[i], a->n_loops)) return false;
    for (int r = 0; r < a->n_reductions; r++) {
        const dt_reduction *x = &a->reductions[r], *y = &b->reductions[r];
        if (x->combiner != y->combiner || x->operand != y->operand || x->dtype != y->dtype) return false;
    }
    for (int s = 0; s < a->n_stores; s++) {
        const dt_store *x = &a->stores[s], *y = &b->stores[s];
        if (x->operand != y->operand || x->accumulate != y->accumulate || x->guard != y->guard || !same_address(&x->address, &y->address, a->n_loops))
            return false;
    }
    return true;
}

bool dt_llvm_same_kernel(const dt_llvm_function *a, const dt_llvm_function *b) {
    const dt_kernel_function *x = a->kernel, *y = b->kernel;
    if (x->n_buffers != y->n_buffers || x->n_nests != y->n_nests || x->divided != y->divided) return false;
    for (int i = 0; i < x->n_buffers; i++) {
        if (a->plan->buffers[x->buffers[i]].dtype != b->plan->buffers[y->buffers[i]].dtype) return false;
        for (int k = 0; k < i; k++)
            if (dt_arguments_overlap(a->plan, x, i, k) != dt_arguments_overlap(b->plan, y, i, k)) return false;
    }
    for (int n = 0; n < x->n_nests; n++) {
        if (!same_nest(&x->nests[n], &y->nests[n])) return false;
        for (int s = 0; s < x->nests[n].n_stores; s++)
            if (dt_llvm_may_stream(a, &x->nests[n], &x->nests[n].stores[s]) != dt_llvm_may_stream(b, &y->nests[n], &y->nests[n].stores[s]))
                return false;
    }
    return true;
}
