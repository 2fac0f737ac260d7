/* llvm_copies: sums of products that no register tile holds, several places of the result side by side.
 *
 * A convolution of channels one by one, and a sum over vectors, read both operands once for each product. Where one operand is the same for
 * neighbouring places of the result, these are computed together: each instruction is emitted once for each place, and what is the same for all of
 * them LLVM finds and keeps. The sums of a place are the same as alone; that there are several hides how long each addition takes. */
#include "compiler/codegen/llvm.h"

enum {
    MOST_COPIES = 9 /* with what they share, they fit sixteen registers */
};

static bool depends(const dt_llvm_nest *n, int instruction, int loop) { return (n->depends[instruction] >> loop & 1) != 0; }

/* Whether one factor of the nest's products is the same for all turns of the loop, and the other is not. */
static bool shares_factor(const dt_llvm_nest *n, int loop) {
    const int *factors = n->nest->instructions[n->nest->reductions[0].operand].operands;
    return depends(n, factors[0], loop) != depends(n, factors[1], loop);
}

/* As many turns as divide the loop's, or a few; at most `most`. */
static int turns_of(int64_t extent, int most) {
    for (int turns = most; turns > 3; turns--)
        if (extent % turns == 0) return turns;
    return extent <= most ? (int)extent : most < 4 ? 1 : 4;
}

/* Makes the loop at `place` the innermost of the first `end` ones. */
static void move_inwards(dt_llvm_nest *n, int place, int end) {
    int loop = n->order[place];
    for (int k = place; k + 1 < end; k++) n->order[k] = n->order[k + 1];
    n->order[end - 1] = loop;
}

void dt_llvm_copies_choose(dt_llvm_nest *n) {
    const dt_nest *nest = n->nest;
    if (n->vector_loop < 0 || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0]) || nest->part_turns > 0) return;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) return;
    int most = MOST_COPIES, end = n->n_outer;
    for (int p = n->n_outer - 1; p >= (nest->in_rows ? 1 : 0); p--) {
        int loop = n->order[p];
        int64_t extent = nest->loops[loop].extent;
        if (loop == n->vector_loop || !dt_llvm_is_constant_extent(extent) || extent < 2 || !shares_factor(n, loop)) continue;
        int turns = turns_of(extent, most);
        if (turns < 2) continue;
        n->side[loop] = turns;
        most /= turns;
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

void dt_llvm_copies_use(dt_llvm_nest *n, int c) {
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

/* Turns `first` and on, n_turns of them, of each copy at work. */
static void side_by_side(dt_llvm_nest *n, int level, dt_llvm_sum first, int n_turns) {
    const dt_llvm_copy *before = n->copies, alone = {n->values, n->splats, n->loops, n->addresses, n->slots};
    int n_before = n->n_copies, n_copies = n_before * n_turns;
    dt_llvm_copy *copies = DT_NEW_ARRAY(n->e->arena, dt_llvm_copy, n_copies);
    for (int c = 0; c < n_copies; c++) {
        dt_llvm_copies_use(n, c / n_turns);
        copies[c] = copy_of(n);
    }
    n->copies = copies;
    n->n_copies = n_copies;
    for (int c = 0; c < n_copies; c++) {
        dt_llvm_copies_use(n, c);
        dt_llvm_enter(n, n->order[level], (dt_llvm_sum){first.variable, first.constant + c % n_turns});
    }
    dt_llvm_nest_emit(n, level + 1);
    n->copies = before;
    n->n_copies = n_before;
    use(n, &alone);
}

void dt_llvm_copies_loop(dt_llvm_nest *n, int level) {
    dt_llvm_emitter *e = n->e;
    int n_turns = n->side[n->order[level]];
    int64_t extent = n->nest->loops[n->order[level]].extent, whole = extent - extent % n_turns;
    if (whole > n_turns) {
        dt_llvm_loop loop = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, whole), n_turns, false);
        side_by_side(n, level, (dt_llvm_sum){loop.index, 0}, n_turns);
        dt_llvm_loop_end(e, &loop);
    } else if (whole > 0) {
        side_by_side(n, level, (dt_llvm_sum){NULL, 0}, n_turns);
    }
    if (whole < extent) side_by_side(n, level, (dt_llvm_sum){NULL, whole}, (int)(extent - whole));
}
