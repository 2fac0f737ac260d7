/* schedule_windows: windows that lie side by side are walked as windows.
 *
 * The gradient of a pooling is read off its loops from the result: element o asks, of every index r in a window, whether (o - r) / stride is a
 * window. Where windows as long as the stride cover the result, that is so for one r of each o, and for the others the body is 0. So the sum over r
 * has one term, and the loop over o becomes one over windows with one over r inside of it: nothing is divided, nothing asked, nothing added up. */
#include "compiler/passes/schedule.h"

/* Whether `node` is 0 (or -0) where the operands in `zero` are. */
static bool vanishes(const dt_formula *node, uint64_t zero) {
    switch (node->kind) {
    case DT_FORMULA_LITERAL: return node->literal_is_integer ? node->integer == 0 : node->literal == 0;
    case DT_FORMULA_OPERAND: return (zero >> node->index & 1) != 0;
    case DT_FORMULA_CONVERT: return vanishes(node->arguments[0], zero);
    case DT_FORMULA_SCALAR:
        if (node->scalar == DT_SCALAR_SELECT) return vanishes(node->arguments[1], zero) && vanishes(node->arguments[2], zero);
        if (node->scalar == DT_SCALAR_MULTIPLY) return vanishes(node->arguments[0], zero) || vanishes(node->arguments[1], zero);
        return node->scalar == DT_SCALAR_NEGATE && vanishes(node->arguments[0], zero);
    default: return false;
    }
}

/* Whether a dimension of `extent` is read at (o - r) / divisor, r running below the divisor and o over all its windows. */
static bool is_window(const dt_loops *loops, const dt_index *index, int64_t extent, dt_spread *spread) {
    *spread = (dt_spread){-1, -1, extent, index->divisor, 1, 0};
    if (index->divisor == 1 || index->offset != 0 || index->indirect >= 0 || dt_dim_is_symbol(extent)) return false;
    for (int l = 0; l < loops->n_loops; l++) {
        int64_t coefficient = index->coefficients[l];
        int *loop = l < loops->n_outer ? &spread->outer : &spread->reduced;
        if (coefficient == 0) continue;
        if (coefficient != (l < loops->n_outer ? 1 : -1) || *loop >= 0) return false;
        *loop = l;
    }
    if (spread->outer < 0 || spread->reduced < 0) return false;
    return loops->extents[spread->reduced] == index->divisor && loops->extents[spread->outer] == index->divisor * extent;
}

typedef struct windows {
    int n;
    dt_spread *spreads;
    uint64_t *readers; /* operands that are read through each, and are 0 outside */
} windows;

static void add(windows *w, const dt_spread *spread, uint64_t reader) {
    int i = 0;
    while (i < w->n && w->spreads[i].reduced != spread->reduced) i++;
    if (i == w->n) {
        w->spreads[w->n++] = *spread;
        w->readers[i] = 0;
    }
    if (w->spreads[i].outer == spread->outer) w->readers[i] |= reader;
}

static windows find_windows(dt_arena *arena, const dt_value *root, const dt_loops *loops) {
    windows w = {0, DT_NEW_ARRAY(arena, dt_spread, loops->n_loops), DT_NEW_ARRAY(arena, uint64_t, loops->n_loops)};
    for (int k = 0; k < root->n_operands && k < 64; k++) {
        const dt_access *access = &loops->operands[k];
        dt_shape shape = root->operands[k]->shape;
        for (int d = 0; d < shape.rank && access->guarded && access->outside.i == 0; d++) {
            dt_spread spread;
            if (is_window(loops, &access->dims[d], shape.dims[d], &spread)) add(&w, &spread, (uint64_t)1 << k);
        }
    }
    int n = 0;
    for (int i = 0; i < w.n; i++)
        if (vanishes(loops->body, w.readers[i])) w.spreads[n++] = w.spreads[i];
    w.n = n;
    return w;
}

void dt_schedule_windows(dt_arena *arena, dt_lowering *lowering, dt_kernel_function *kernel, int n) {
    dt_nest *nest = &kernel->nests[n];
    dt_origin of = dt_lowering_origin(lowering, nest);
    if (of.cluster == NULL || of.cluster->roots.n != 1 || of.layout->row_loop >= 0) return;
    const dt_value *root = of.cluster->roots.items[0];
    const dt_loops *loops = dt_lowering_loops(lowering, root);
    if (loops->combiner != DT_COMBINE_SUM || loops->result != NULL || dt_loops_are_product(loops)) return;
    windows w = find_windows(arena, root, loops);
    if (w.n == 0) return;
    dt_layout *layout = DT_NEW(arena, dt_layout);
    *layout = (dt_layout){.row_loop = -1, .n_spreads = w.n, .spreads = w.spreads, .apart = true};
    bool in_rows = nest->in_rows;
    *nest = dt_lower_cluster(lowering, kernel, of.cluster, layout);
    nest->in_rows = in_rows;
}
