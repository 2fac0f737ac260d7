/* llvm_unroll_and_jam: the body of a loop for several iterations at a time (compiler/passes/choose_unrolling.c says how many).
 *
 * Each instruction is emitted once a copy, and LLVM finds and keeps what the copies share. */
#include "compiler/codegen/llvm.h"

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
        dt_llvm_enter(n, n->choices->order[level], (dt_llvm_sum){first.variable, first.constant + c % n_iterations});
    }
    dt_llvm_nest_emit(n, level + 1);
    n->copies = before;
    n->n_copies = n_before;
    use(n, &alone);
}

void dt_llvm_unroll_and_jam_loop(dt_llvm_nest *n, int level) {
    dt_llvm_emitter *e = n->e;
    int n_iterations = n->choices->jammed[n->choices->order[level]];
    int64_t extent = n->nest->loops[n->choices->order[level]].extent, whole = extent - extent % n_iterations;
    if (whole > n_iterations) {
        dt_llvm_loop loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, whole), n_iterations, false);
        emit_copies(n, level, (dt_llvm_sum){loop.index, 0}, n_iterations);
        dt_llvm_loop_end(e, &loop);
    } else if (whole > 0) {
        emit_copies(n, level, (dt_llvm_sum){NULL, 0}, n_iterations);
    }
    if (whole < extent) emit_copies(n, level, (dt_llvm_sum){NULL, whole}, (int)(extent - whole));
}
