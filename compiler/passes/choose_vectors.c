/* choose_vectors: which loop is one of vectors, and how wide they are.
 *
 * A vector is a register, or a smaller one where the loop is shorter. Several registers make up a vector where one would wait: sums over loops that
 * stay loops wait for the adder, and a long chain of operations on an element leaves the processor nothing else to do. The lanes of a reduced loop
 * keep partial sums, so the order of such a sum depends on the target's registers and on the loop's extent. */
#include "compiler/passes/choose.h"

/* A nest that only moves elements, and turns them: what it loads lies along another outer loop than what it stores. With that loop innermost, the
 * lines that a vector's elements lie in are read whole while they are in cache. */
static void turn_order(dt_chooser *c) {
    enum {
        LINE = 16 /* elements, of the usual type */
    };
    const dt_nest *nest = c->nest;
    int along = -1, vector = c->choices->vector_loop, *order = c->choices->order;
    if (nest->n_reductions > 0 || vector < 0 || !dt_chooser_is_constant(c, vector)) return;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *load = &nest->instructions[i];
        if (!c->needed[i] || load->kind != DT_INSTRUCTION_LOAD) continue;
        if (along >= 0 || load->guard >= 0 || load->address.n_terms > 0 || load->address.coefficients[vector] < LINE) return;
        for (int l = 0; l < nest->n_loops; l++)
            if (l != vector && l >= c->n_shared && load->address.coefficients[l] == 1 && nest->loops[l].extent >= LINE) along = l;
    }
    if (along < 0) return;
    int at = 0;
    for (int p = 0; p < c->n_outer; p++)
        if (order[p] != along) order[at++] = order[p];
    order[at] = along;
}

void dt_choose_vector_loop(dt_chooser *c) {
    int loop = c->nest->vector_loop;
    if (loop < 0 || dt_vector_loop_needs(c->nest, loop, c->depends) != NULL) return;
    c->choices->vector_loop = loop;
    turn_order(c);
}

static bool is_jammed(const dt_chooser *c) {
    for (int l = 0; l < c->nest->n_loops; l++)
        if (c->choices->jammed[l] > 0) return true;
    return false;
}

static bool has_search(const dt_nest *nest) {
    for (int r = 0; r < nest->n_reductions; r++)
        if (dt_combiner_is_position(nest->reductions[r].combiner)) return true;
    return false;
}

/* Sums over loops that stay loops wait for the adder unless there are several of them: so many registers make up a vector then. */
static int chains(const dt_chooser *c) {
    const dt_nest *nest = c->nest;
    int64_t extent = nest->loops[c->choices->vector_loop].extent;
    if (nest->n_reductions == 0 || dt_dim_is_symbol(extent) || is_jammed(c)) return 1;
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->loops[l].reduced && c->choices->unrolled[l]) return 1;
    if (has_search(nest) && nest->n_reductions > 1) return 1; /* a position is two registers */
    int n_reduced = dt_chooser_n_reduced(c), most = n_reduced <= 4 ? 4 : n_reduced <= 10 ? 2 : 1;
    for (; most > 1; most /= 2) {
        int64_t width = (int64_t)most * c->register_width;
        if (extent % width == 0 || extent >= 8 * width) break;
    }
    return most;
}

/* Whether what is done to an element is so much, one thing after another, that the processor sees no second element to work on meanwhile: a random
 * number's ten rounds, a polynomial. Then two registers make up a vector. */
static bool is_long(const dt_chooser *c) {
    enum {
        LONG = 16
    };
    int n_varying = 0;
    for (int i = 0; i < c->nest->n_instructions; i++)
        n_varying += c->needed[i] && c->nest->instructions[i].kind == DT_INSTRUCTION_SCALAR && (c->depends[i] >> c->choices->vector_loop & 1) != 0;
    return n_varying > LONG;
}

void dt_choose_vector_width(dt_chooser *c) {
    dt_nest_choices *choices = c->choices;
    if (choices->vector_loop < 0) return;
    int64_t extent = c->nest->loops[choices->vector_loop].extent;
    bool constant = !dt_dim_is_symbol(extent);
    choices->width = c->register_width;
    while (constant && choices->width > 1 && choices->width / 2 >= extent) choices->width /= 2;
    if (choices->width == c->register_width) choices->width *= chains(c);
    if (choices->width == c->register_width && is_long(c) && constant && extent % (2 * choices->width) == 0) choices->width *= 2;
    if (choices->width == 1) choices->vector_loop = -1;
}
