/* parallel: see the header. */
#include "compiler/kernel/parallel.h"
#include "compiler/kernel/analysis.h"

#include <stdlib.h>

enum {
    MOST_TERMS = 16 /* of an address that is looked at */
};

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* ---- sets of loops ---- */

uint64_t dt_nest_reduced_loops(const dt_nest *nest) { return dt_first_loops(nest->n_loops) & ~dt_nest_outer_loops(nest); }

uint64_t dt_nest_outer_loops(const dt_nest *nest) {
    uint64_t set = 0;
    for (int l = 0; l < nest->n_loops; l++)
        if (!dt_nest_reduces(nest, l)) set |= (uint64_t)1 << l;
    return set;
}

bool dt_nest_is_constant(const dt_nest *nest) {
    for (int l = 0; l < nest->n_loops; l++)
        if (dt_dim_is_symbol(nest->loops[l].extent)) return false;
    return true;
}

int64_t dt_nest_iterations(const dt_plan *plan, const dt_nest *nest, uint64_t set) {
    int64_t iterations = 1;
    for (int l = 0; l < nest->n_loops; l++) {
        if (!(set >> l & 1)) continue;
        int64_t most = dt_trip_count(plan, nest->loops[l].extent);
        iterations *= most < 0 ? INT32_MAX : most;
        if (iterations > INT64_C(1) << 40) iterations = INT64_C(1) << 40;
    }
    return iterations;
}

int dt_nest_last_loop(const dt_nest *nest, uint64_t set) {
    int l = nest->n_loops - 1;
    while (l >= 0 && (!(set >> l & 1) || nest->loops[l].extent == 1)) l--;
    return l;
}

/* ---- checks ---- */

/* The check with a constant limit that `term` has passed wherever `guard` holds; -1: none is known. */
static int check_of(const dt_nest *nest, int guard, int term) {
    if (guard < 0) return -1;
    const dt_instruction *x = &nest->instructions[guard];
    if (x->kind == DT_INSTRUCTION_CHECK) return x->operands[0] == term && !dt_dim_is_symbol(x->integer) ? guard : -1;
    if (x->kind != DT_INSTRUCTION_SCALAR || x->scalar != DT_SCALAR_AND) return -1;
    int check = check_of(nest, x->operands[0], term);
    return check >= 0 ? check : check_of(nest, x->operands[1], term);
}

int64_t dt_nest_checked_limit(const dt_nest *nest, int guard, int term) {
    int check = check_of(nest, guard, term);
    return check < 0 ? -1 : nest->instructions[check].integer;
}

/* ---- bounds of addresses ---- */

/* The least and greatest offset of an address over loops `first` and on; false when a term or a loop has no bounds. */
static bool address_range(const dt_plan *plan, const dt_nest *nest, const dt_address *address, int first, int64_t *least, int64_t *greatest) {
    *least = *greatest = address->offset;
    if (address->n_terms > 0) return false;
    for (int l = first; l < nest->n_loops; l++) {
        int64_t iterations = dt_trip_count(plan, nest->loops[l].extent), coefficient = address->coefficients[l];
        if (coefficient == 0) continue;
        if (iterations < 0) return false;
        int64_t last = iterations > 0 ? coefficient * (iterations - 1) : 0;
        if (last < 0)
            *least += last;
        else
            *greatest += last;
    }
    return true;
}

static bool same_address(const dt_nest *nest, const dt_address *x, const dt_address *y) {
    if (x->buffer != y->buffer || x->offset != y->offset || x->n_terms != y->n_terms) return false;
    for (int l = 0; l < nest->n_loops; l++)
        if (x->coefficients[l] != y->coefficients[l]) return false;
    for (int t = 0; t < x->n_terms; t++)
        if (x->terms[t] != y->terms[t] || x->term_coefficients[t] != y->term_coefficients[t]) return false;
    return true;
}

/* ---- loops of one nest ---- */

/* One part of an address: step * (0 … iterations - 1). */
typedef struct walk {
    int64_t step, iterations; /* iterations -1: unbounded */
    int loop;                 /* -1: a term, or a loop walked in order by one thread */
} walk;

static int by_step(const void *a, const void *b) {
    const walk *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->loop - y->loop;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* A parallel walk must step over all that the smaller ones reach; walks in order may meet one another, but not what lies below them. Returns the
 * loop that breaks this, or -1. */
static int loop_that_meets(const walk *walks, int n) {
    int64_t reach = 0, below = 0, divisor = 0;
    bool bounded = true;
    int last = -1;
    for (int i = 0; i < n; i++) {
        const walk *w = &walks[i];
        if (w->loop >= 0) {
            if (!bounded || w->step <= reach) return w->loop;
            last = w->loop;
            divisor = 0;
        } else {
            divisor = greatest_divisor(w->step, divisor);
            if (last >= 0 && divisor <= below) return last;
        }
        bounded &= w->iterations >= 0;
        reach += w->step * (w->iterations - 1);
        if (w->loop >= 0) below = reach;
    }
    return -1;
}

/* The loops of `set` less one that lets two iterations meet in what `store` stores; `set` itself when none does. */
static uint64_t less_one(const dt_plan *plan, const dt_nest *nest, const dt_store *store, uint64_t set) {
    walk walks[64 + MOST_TERMS];
    int n = 0;
    if (store->address.n_terms > MOST_TERMS) return 0;
    for (int l = 0; l < nest->n_loops; l++) {
        int64_t iterations = dt_trip_count(plan, nest->loops[l].extent), step = magnitude(store->address.coefficients[l]);
        bool parallel = set >> l & 1;
        if (iterations == 0 || iterations == 1 || dt_nest_reduces(nest, l)) continue;
        if (parallel && step == 0) return set & ~((uint64_t)1 << l);
        if (step != 0) walks[n++] = (walk){step, iterations, parallel ? l : -1};
    }
    for (int t = 0; t < store->address.n_terms; t++) {
        int64_t limit = dt_nest_checked_limit(nest, store->guard, store->address.terms[t]);
        walks[n++] = (walk){magnitude(store->address.term_coefficients[t]), limit, -1};
    }
    qsort(walks, (size_t)n, sizeof *walks, by_step);
    int loop = loop_that_meets(walks, n);
    return loop < 0 ? set : set & ~((uint64_t)1 << loop);
}

/* Whether the nest reads what another iteration of it stores. */
static bool reads_its_own(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++)
        for (int s = 0; s < nest->n_stores; s++) {
            const dt_instruction *x = &nest->instructions[i];
            if (x->kind != DT_INSTRUCTION_LOAD || !dt_arguments_are_one(plan, kernel, x->address.buffer, nest->stores[s].address.buffer)) continue;
            if (!same_address(nest, &x->address, &nest->stores[s].address)) return true;
        }
    return false;
}

uint64_t dt_nest_parallel_loops(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    uint64_t set = dt_nest_outer_loops(nest), before;
    if (reads_its_own(plan, kernel, nest)) return 0;
    do {
        before = set;
        for (int s = 0; s < nest->n_stores; s++) set = less_one(plan, nest, &nest->stores[s], set);
    } while (set != before);
    return set;
}

/* ---- nests that share loops ---- */

typedef struct access {
    const dt_nest *nest;
    const dt_address *address;
    bool stores;
} access;

static int n_accesses(const dt_nest *nest) { return nest->n_instructions + nest->n_stores; }

static bool access_at(const dt_nest *nest, int i, access *a) {
    if (i >= nest->n_instructions) {
        *a = (access){nest, &nest->stores[i - nest->n_instructions].address, true};
        return true;
    }
    *a = (access){nest, &nest->instructions[i].address, false};
    return nest->instructions[i].kind == DT_INSTRUCTION_LOAD;
}

/* Whether what one iteration of the first `n_shared` loops touches by `x` no other iteration touches by `y`. */
static bool keep_to_iterations(const dt_plan *plan, const access *x, const access *y, int n_shared) {
    int64_t least[2], greatest[2];
    walk walks[64];
    int n = 0;
    if (x->address->buffer != y->address->buffer) return false;
    if (!address_range(plan, x->nest, x->address, n_shared, &least[0], &greatest[0])) return false;
    if (!address_range(plan, y->nest, y->address, n_shared, &least[1], &greatest[1])) return false;
    for (int l = 0; l < n_shared; l++) {
        int64_t iterations = dt_trip_count(plan, x->nest->loops[l].extent);
        if (x->address->coefficients[l] != y->address->coefficients[l]) return false;
        if (iterations != 1) walks[n++] = (walk){magnitude(x->address->coefficients[l]), iterations, l};
    }
    qsort(walks, (size_t)n, sizeof *walks, by_step);
    int64_t reach = (greatest[0] > greatest[1] ? greatest[0] : greatest[1]) - (least[0] < least[1] ? least[0] : least[1]);
    for (int i = 0; i < n; i++) {
        if (walks[i].step <= reach || walks[i].iterations < 0) return false;
        reach += walks[i].step * (walks[i].iterations - 1);
    }
    return true;
}

bool dt_nests_can_share(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *a, const dt_nest *b, int n_shared) {
    access x, y;
    for (int i = 0; i < n_accesses(a); i++) {
        if (!access_at(a, i, &x)) continue;
        for (int j = 0; j < n_accesses(b); j++) {
            if (!access_at(b, j, &y) || (!x.stores && !y.stores)) continue;
            if (!dt_arguments_overlap(plan, kernel, x.address->buffer, y.address->buffer)) continue;
            if (n_shared == 0 || !keep_to_iterations(plan, &x, &y, n_shared)) return false;
        }
    }
    return true;
}
