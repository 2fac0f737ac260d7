/* schedule_phases: gradients with strides, without what lies between.
 *
 * The gradient of a convolution's input reads, for index o of the result and tap r, index (o - factor * r + shift) / stride of its operand, and
 * nothing where the division leaves a remainder: with stride 2 that is three products of four. Which taps leave none depends on o mod stride alone.
 * So the nest becomes one for each such phase: a dense product over the indices and taps of that phase, whose operand is read at consecutive indices.
 * A phase without taps only stores what becomes of 0. For finite numbers that is exact; an infinite or NaN weight counts where it is a term alone,
 * and is not multiplied by the zeros between. */
#include "compiler/kernel/nest.h"
#include "compiler/passes/schedule.h"

#include <string.h>

enum {
    most_divisions = 4, /* dimensions that are divided */
    most_phases = 9     /* nests that one may become: stride 3 both ways */
};

/* A dimension that is read at (coefficient * o + coefficient * r + offset) / divisor. */
typedef struct division {
    int outer, reduced; /* loops o and r; reduced -1: none */
    int64_t outer_coefficient, reduced_coefficient, offset, divisor;
} division;

/* False: it is of another form. */
static bool find_division(const dt_loops *loops, const dt_index *index, division *found) {
    memset(found, 0, sizeof *found); /* compared byte by byte */
    found->outer = found->reduced = -1;
    found->offset = index->offset;
    found->divisor = index->divisor;
    for (int l = 0; l < loops->n_loops; l++) {
        bool is_outer = l < loops->n_outer;
        int *loop = is_outer ? &found->outer : &found->reduced;
        if (index->coefficients[l] == 0) continue;
        if (*loop >= 0 || dt_dim_is_symbol(loops->extents[l])) return false;
        *loop = l;
        *(is_outer ? &found->outer_coefficient : &found->reduced_coefficient) = index->coefficients[l];
    }
    return found->outer >= 0 && index->indirect < 0;
}

/* Joins a division to those known; false: it wants a loop in another way than one of them. */
static bool add(division *divisions, int *n, const division *found) {
    for (int i = 0; i < *n; i++) {
        const division *old = &divisions[i];
        if (memcmp(old, found, sizeof *found) == 0) return true;
        if (old->outer == found->outer || (old->reduced >= 0 && old->reduced == found->reduced)) return false;
    }
    if (*n == most_divisions) return false;
    divisions[(*n)++] = *found;
    return true;
}

/* How many divisions the operands' indices have, each counted once; 0 also where one of them is of another form. */
static int find_divisions(const dt_value *root, const dt_loops *loops, division *divisions) {
    int n = 0;
    for (int k = 0; k < root->n_operands; k++)
        for (int d = 0; d < root->operands[k]->shape.rank; d++) {
            const dt_index *index = &loops->operands[k].dims[d];
            division found;
            if (index->divisor > 1 && (!find_division(loops, index, &found) || !add(divisions, &n, &found))) return 0;
        }
    return n;
}

/* Of o = first, first + divisor, …: which r leave no rest. */
static dt_polyphase phase_of(const dt_loops *loops, const division *d, int64_t first) {
    int64_t extent = loops->extents[d->outer], taps = d->reduced >= 0 ? loops->extents[d->reduced] : 1;
    dt_polyphase phase = {.outer = d->outer, .reduced = d->reduced, .divisor = d->divisor, .outer_first = first, .reduced_step = d->divisor};
    phase.outer_extent = first < extent ? (extent - first + d->divisor - 1) / d->divisor : 0;
    int64_t at = d->offset + first * d->outer_coefficient;
    for (int64_t r = 0; r < taps; r++) { /* the taps found lie a constant step apart: a divisor of the divisor */
        if ((at + r * d->reduced_coefficient) % d->divisor != 0) continue;
        if (phase.reduced_extent == 0) phase.reduced_first = r;
        if (phase.reduced_extent == 1) phase.reduced_step = r - phase.reduced_first;
        phase.reduced_extent++;
    }
    return phase;
}

/* Phase number `combination` of all dimensions together; NULL: the result has no elements there. */
static dt_polyphase *phases_of(dt_arena *arena, const dt_loops *loops, const division *divisions, int n, int64_t combination) {
    dt_polyphase *phases = DT_NEW_ARRAY(arena, dt_polyphase, n);
    for (int i = 0; i < n; combination /= divisions[i++].divisor) {
        phases[i] = phase_of(loops, &divisions[i], combination % divisions[i].divisor);
        if (phases[i].outer_extent == 0) return NULL;
    }
    return phases;
}

/* What a variable becomes may be read by later nests of its own kernel: it is written at once. */
static bool writes_variable(const dt_plan *plan, const dt_cluster *cluster) {
    for (size_t o = 0; o < cluster->outputs.n; o++)
        if (plan->buffers[cluster->outputs.items[o].buffer].space == DT_MEMORY_VARIABLE) return true;
    return false;
}

int dt_schedule_phases(dt_arena *arena, dt_lowering *lowering, dt_kernel_function *kernel, int n) {
    const dt_nest whole = kernel->nests[n];
    const dt_origin of = dt_lowering_origin(lowering, &whole);
    const dt_value *root = of.cluster->roots.items[0];
    const dt_loops *loops = dt_lowering_loops(lowering, root);
    division divisions[most_divisions];
    int n_divisions = find_divisions(root, loops, divisions), n_nests = 0;
    int64_t n_combinations = 1;
    for (int i = 0; i < n_divisions; i++) n_combinations *= divisions[i].divisor <= most_phases ? divisions[i].divisor : most_phases + 1;
    if (n_combinations == 1 || n_combinations > most_phases || of.layout->row_loop >= 0 || writes_variable(lowering->plan, of.cluster)) return 1;
    for (int64_t c = 0; c < n_combinations; c++) {
        const dt_polyphase *phases = phases_of(arena, loops, divisions, n_divisions, c);
        if (phases == NULL) continue;
        dt_layout *layout = DT_NEW(arena, dt_layout);
        *layout = *of.layout;
        layout->n_polyphases = n_divisions;
        layout->polyphases = phases;
        dt_nest nest = dt_lower_cluster(lowering, kernel, of.cluster, layout);
        nest.in_rows = whole.in_rows;
        if (n_nests == 0)
            kernel->nests[n] = nest;
        else
            dt_kernel_insert_nest(arena, kernel, n + n_nests, nest);
        n_nests++;
    }
    return n_nests > 0 ? n_nests : 1;
}
