/* choose_unrolling: which loops of a nest without tiles are unrolled.
 *
 * Short reduced loops, from the innermost outwards: sums over few terms are better off as one expression. Short outer loops whose index is computed
 * with: unrolled, it is a constant, and a comparison with it one with a constant.
 *
 * Sums of products that no register tile holds, such as a depthwise convolution or a sum over vectors, read both operands once for each product.
 * Where one operand is the same for neighbouring results, the loop over these is unrolled and its copies are jammed into one body, which reads it
 * once. The sum of each result keeps its order; several independent sums hide the latency of an addition. */
#include "compiler/passes/choose.h"

/* ---- unroll and jam ---- */

/* Whether one factor of the nest's products is invariant in the loop, and the other is not. */
static bool shares_factor(const dt_chooser *c, int loop) {
    const int *factors = c->nest->instructions[c->nest->reductions[0].operand].operands;
    return ((c->depends[factors[0]] ^ c->depends[factors[1]]) >> loop & 1) != 0;
}

/* How many iterations are unrolled: a number that divides the extent where there is one, at most `most`. */
static int unroll_factor(int64_t extent, int most) {
    for (int unrolled = most; unrolled > 3; unrolled--)
        if (extent % unrolled == 0) return unrolled;
    return extent <= most ? (int)extent : most < 4 ? 1 : 4;
}

/* Makes the loop at `from` the innermost of the first `end` ones. */
static void move_inwards(int *order, int from, int end) {
    int loop = order[from];
    for (int k = from; k + 1 < end; k++) order[k] = order[k + 1];
    order[end - 1] = loop;
}

static void jam(dt_chooser *c) {
    enum {
        MOST_COPIES = 9 /* with what they share, they fit sixteen registers */
    };
    const dt_nest *nest = c->nest;
    int most = MOST_COPIES, end = c->n_outer;
    if (c->choices->vector_loop < 0 || nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0])) return;
    for (int p = c->n_outer - 1; p >= c->n_shared; p--) {
        int loop = c->choices->order[p];
        int64_t extent = nest->loops[loop].extent;
        if (extent < 2 || !shares_factor(c, loop) || dt_jamming_needs(nest, loop) != NULL || loop == c->choices->vector_loop) continue;
        int unrolled = unroll_factor(extent, most);
        if (unrolled < 2) continue;
        c->choices->jammed[loop] = unrolled;
        most /= unrolled;
        move_inwards(c->choices->order, p, end--);
    }
}

/* ---- unrolling ---- */

void dt_choose_reduced_unrolling(dt_chooser *c, int64_t body, int64_t budget) {
    const dt_nest *nest = c->nest;
    int64_t copies = body > 0 ? body : 1;
    for (int p = nest->n_loops - 1; p >= c->n_outer; p--) {
        int loop = c->choices->order[p];
        int64_t extent = nest->loops[loop].extent;
        if (loop == c->choices->vector_loop || dt_dim_is_symbol(extent) || extent > budget || copies * extent > budget) return;
        copies *= extent;
        c->choices->unrolled[loop] = true;
    }
}

static bool is_unrollable(const dt_chooser *c, int loop) {
    return dt_chooser_is_constant(c, loop) && loop != c->choices->vector_loop && c->choices->jammed[loop] == 0 && loop >= c->n_shared &&
           !(loop == dt_nest_part_loop(c->nest) && dt_nest_is_divided(c->nest));
}

static void unroll_indices(dt_chooser *c, int64_t budget) {
    enum {
        SHORT = 4
    };
    const dt_nest *nest = c->nest;
    int64_t copies = nest->n_instructions;
    for (int i = 0; i < nest->n_instructions; i++) {
        int loop = nest->instructions[i].index;
        if (nest->instructions[i].kind != DT_INSTRUCTION_LOOP || !c->needed[i] || !is_unrollable(c, loop)) continue;
        int64_t extent = nest->loops[loop].extent;
        if (nest->loops[loop].reduced || extent > SHORT || copies * extent > budget) continue;
        copies *= extent;
        c->choices->unrolled[loop] = true;
    }
}

void dt_choose_unrolling(dt_chooser *c) {
    enum {
        ITERATIONS = 16,
        INSTRUCTIONS = 320
    };
    jam(c);
    int n_reduced = dt_chooser_n_reduced(c);
    dt_choose_reduced_unrolling(c, n_reduced > INSTRUCTIONS / ITERATIONS ? n_reduced * ITERATIONS / INSTRUCTIONS : 1, ITERATIONS);
    unroll_indices(c, INSTRUCTIONS);
}
