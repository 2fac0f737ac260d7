/* llvm_unroll_and_jam: sums of products that no register tile holds, for several results at a time.
 *
 * A depthwise convolution, and a sum over vectors, read both operands once for each product. Where one operand is the same for neighbouring results,
 * the loop over these is unrolled and its copies are jammed into one body: each instruction is emitted once a copy, and LLVM finds and keeps what
 * the copies share. The sum of each result keeps its order; several independent sums hide the latency of an addition. */
#include "compiler/codegen/llvm.h"

enum {
    MOST_COPIES = 9 /* with what they share, they fit sixteen registers */
};

static bool depends(const dt_llvm_nest *n, int instruction, int loop) { return (n->depends[instruction] >> loop & 1) != 0; }

/* Whether one factor of the nest's products is invariant in the loop, and the other is not. */
static bool shares_factor(const dt_llvm_nest *n, int loop) {
    const int *factors = n->nest->instructions[n->nest->reductions[0].operand].operands;
    return depends(n, factors[0], loop) != depends(n, factors[1], loop);
}

/* How many iterations are unrolled: a number that divides the extent where there is one, at most `most`. */
static int unroll_factor(int64_t extent, int most) {
    for (int unrolled = most; unrolled > 3; unrolled--)
        if (extent % unrolled == 0) return unrolled;
    return extent <= most ? (int)extent : most < 4 ? 1 : 4;
}

/* Makes the loop at `from` the innermost of the first `end` ones. */
static void move_inwards(dt_llvm_nest *n, int from, int end) {
    int loop = n->order[from];
    for (int k = from; k + 1 < end; k++) n->order[k] = n->order[k + 1];
    n->order[end - 1] = loop;
}

void dt_llvm_unroll_and_jam_choose(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    if (n->vector_loop < 0 || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0]) || nest->part_iterations > 0) return;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) return;
    int most = MOST_COPIES, end = n->n_outer;
    for (int p = n->n_outer - 1; p >= n->n_shared; p--) {
        int loop = n->order[p];
        int64_t extent = nest->loops[loop].extent;
        if (loop == n->vector_loop || !dt_llvm_is_constant_extent(extent) || extent < 2 || !shares_factor(n, loop)) continue;
        int unrolled = unroll_factor(extent, most);
        if (unrolled < 2) continue;
        n->jammed[loop] = unrolled;
        most /= unrolled;
        move_inwards(n, p, end--);
    }
}

static void use(dt_llvm_nest *n, const dt_llvm_copy *copy) {
    n->values = copy->values;
    n->splats = copy->splats;
    n->loops = copy->loops;
    n->addresses = copy->addresses;
    n->slots = copy->slots;
}

void dt_llvm_use_copy(dt_llvm_nest *n, int c) {
    if (n->n_copies > 1) use(n, &n->copies[c]);
}

static dt_llvm_copy copy_of(const dt_llvm_nest *n) {
    dt_arena *arena = n->e->arena;
    size_t n_instructions = (size_t)n->nest->n_instructions, n_addresses = n_instructions + (size_t)n->nest->n_stores;
    return (dt_llvm_copy){.values = dt_arena_copy(arena, n->values, n_instructions * sizeof *n->values),
                          .splats = dt_arena_copy(arena, n->splats, n_instructions * sizeof *n->splats),
                          .loops = dt_arena_copy(arena, n->loops, (size_t)n->nest->n_loops * sizeof *n->loops),
                          .addresses = dt_arena_copy(arena, n->addresses, n_addresses * sizeof *n->addresses),
                          .slots = dt_arena_copy(arena, n->slots, (size_t)n->nest->n_reductions * sizeof *n->slots)};
}

/* Iterations `first` and on, n_iterations of them, of each copy at work. */
static void emit_copies(dt_llvm_nest *n, int level, dt_llvm_sum first, int n_iterations) {
    const dt_llvm_copy *before = n->copies, alone = {n->values, n->splats, n->loops, n->addresses, n->slots};
    int n_before = n->n_copies, n_copies = n_before * n_iterations;
    dt_llvm_copy *copies = DT_NEW_ARRAY(n->e->arena, dt_llvm_copy, n_copies);
    for (int c = 0; c < n_copies; c++) {
        dt_llvm_use_copy(n, c / n_iterations);
        copies[c] = copy_of(n);
    }
    n->copies = copies;
    n->n_copies = n_copies;
    for (int c = 0; c < n_copies; c++) {
        dt_llvm_use_copy(n, c);
        dt_llvm_enter(n, n->order[level], (dt_llvm_sum){first.variable, first.constant + c % n_iterations});
    }
    dt_llvm_nest_emit(n, level + 1);
    n->copies = before;
    n->n_copies = n_before;
    use(n, &alone);
}

void dt_llvm_unroll_and_jam_loop(dt_llvm_nest *n, int level) {
    dt_llvm_emitter *e = n->e;
    int n_iterations = n->jammed[n->order[level]];
    int64_t extent = n->nest->loops[n->order[level]].extent, whole = extent - extent % n_iterations;
    if (whole > n_iterations) {
        dt_llvm_loop loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, whole), n_iterations, false);
        emit_copies(n, level, (dt_llvm_sum){loop.index, 0}, n_iterations);
        dt_llvm_loop_end(e, &loop);
    } else if (whole > 0) {
        emit_copies(n, level, (dt_llvm_sum){NULL, 0}, n_iterations);
    }
    if (whole < extent) emit_copies(n, level, (dt_llvm_sum){NULL, whole}, (int)(extent - whole));
}
