/* affine: arithmetic of index expressions. */
#include "compiler/kernel/affine.h"

#include <string.h>

dt_affine dt_affine_constant(dt_arena *arena, int n_loops, int64_t value) {
    dt_affine x = {.coefficients = DT_NEW_ARRAY(arena, int64_t, n_loops), .offset = value};
    return x;
}

dt_affine dt_affine_loop(dt_arena *arena, int n_loops, int loop) {
    dt_affine x = dt_affine_constant(arena, n_loops, 0);
    x.coefficients[loop] = 1;
    return x;
}

dt_affine dt_affine_term(dt_arena *arena, int n_loops, int scalar) {
    dt_affine x = dt_affine_constant(arena, n_loops, 0);
    x.n_terms = 1;
    x.terms = DT_NEW(arena, int);
    x.term_coefficients = DT_NEW(arena, int64_t);
    x.terms[0] = scalar;
    x.term_coefficients[0] = 1;
    return x;
}

static void add_term(dt_affine *x, int scalar, int64_t coefficient) {
    int i = 0;
    while (i < x->n_terms && x->terms[i] != scalar) i++;
    if (i == x->n_terms) {
        x->terms[x->n_terms] = scalar;
        x->term_coefficients[x->n_terms++] = 0;
    }
    x->term_coefficients[i] += coefficient;
    if (x->term_coefficients[i] != 0) return;
    x->n_terms--;
    for (; i < x->n_terms; i++) {
        x->terms[i] = x->terms[i + 1];
        x->term_coefficients[i] = x->term_coefficients[i + 1];
    }
}

dt_affine dt_affine_add(dt_arena *arena, int n_loops, dt_affine x, dt_affine y, int64_t factor) {
    dt_affine sum = dt_affine_constant(arena, n_loops, x.offset + factor * y.offset);
    for (int l = 0; l < n_loops; l++) sum.coefficients[l] = x.coefficients[l] + factor * y.coefficients[l];
    if (x.n_terms + y.n_terms == 0) return sum;
    sum.terms = DT_NEW_ARRAY(arena, int, x.n_terms + y.n_terms);
    sum.term_coefficients = DT_NEW_ARRAY(arena, int64_t, x.n_terms + y.n_terms);
    for (int i = 0; i < x.n_terms; i++) add_term(&sum, x.terms[i], x.term_coefficients[i]);
    for (int i = 0; i < y.n_terms; i++)
        if (factor != 0) add_term(&sum, y.terms[i], factor * y.term_coefficients[i]);
    return sum;
}

dt_affine dt_affine_scale(dt_arena *arena, int n_loops, dt_affine x, int64_t factor) {
    return dt_affine_add(arena, n_loops, dt_affine_constant(arena, n_loops, 0), x, factor);
}

bool dt_affine_equal(int n_loops, const dt_affine *x, const dt_affine *y) {
    if (x->offset != y->offset || x->n_terms != y->n_terms) return false;
    for (int i = 0; i < x->n_terms; i++)
        if (x->terms[i] != y->terms[i] || x->term_coefficients[i] != y->term_coefficients[i]) return false;
    return memcmp(x->coefficients, y->coefficients, (size_t)n_loops * sizeof *x->coefficients) == 0;
}

bool dt_affine_divides(dt_arena *arena, int n_loops, dt_affine x, int64_t divisor, dt_affine *quotient) {
    if (x.offset % divisor != 0) return false;
    for (int l = 0; l < n_loops; l++)
        if (x.coefficients[l] % divisor != 0) return false;
    for (int i = 0; i < x.n_terms; i++)
        if (x.term_coefficients[i] % divisor != 0) return false;
    *quotient = dt_affine_scale(arena, n_loops, x, 1);
    quotient->offset /= divisor;
    for (int l = 0; l < n_loops; l++) quotient->coefficients[l] /= divisor;
    for (int i = 0; i < x.n_terms; i++) quotient->term_coefficients[i] /= divisor;
    return true;
}

/* The value at the ends that lie in direction `sign`. */
static bool bound(int n_loops, const dt_loop *loops, const dt_affine *x, int sign, int64_t *value) {
    *value = x->offset;
    if (x->n_terms > 0) return false;
    for (int l = 0; l < n_loops; l++) {
        int64_t coefficient = x->coefficients[l];
        if (coefficient == 0 || (coefficient > 0) != (sign > 0)) continue; /* loop 0 is where it is least in that direction */
        if (dt_dim_is_symbol(loops[l].extent)) return false;
        if (loops[l].extent > 0) *value += coefficient * (loops[l].extent - 1);
    }
    return true;
}

bool dt_affine_least(int n_loops, const dt_loop *loops, const dt_affine *x, int64_t *least) { return bound(n_loops, loops, x, -1, least); }
bool dt_affine_greatest(int n_loops, const dt_loop *loops, const dt_affine *x, int64_t *greatest) { return bound(n_loops, loops, x, 1, greatest); }

void dt_shape_strides(dt_shape shape, int64_t microbatch_rows, int64_t *strides) {
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        if (shape.dims[d] == DT_GATHERED) continue;
        strides[d] = stride;
        stride *= dt_dim_is_symbol(shape.dims[d]) ? microbatch_rows : shape.dims[d];
    }
    for (int d = 0; d < shape.rank; d++)
        if (shape.dims[d] == DT_GATHERED) strides[d] = stride;
}
