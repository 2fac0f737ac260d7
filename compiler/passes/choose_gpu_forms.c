/* choose_gpu_forms: what one launch holds, and which form it has.
 *
 * A nest that is best run in tiles, or as a scatter, is a launch of its own. Others share one with as many of those after them as have enough in
 * common: either a team of threads runs them one after another, in each iteration of their common loops, or they have nothing to do with one another
 * and lie side by side. */
#include "compiler/passes/choose_gpu.h"

/* Iterations of the loops from loop `first` on that are reduced, or are not. */
static int64_t iterations_of(const dt_gpu_scope *s, const dt_nest *nest, int first, bool reduced) {
    uint64_t set = reduced ? dt_nest_reduced_loops(nest) : dt_nest_outer_loops(nest);
    return dt_nest_iterations(s->plan, nest, set & ~dt_first_loops(first));
}

static bool can_share(const dt_gpu_scope *s, const dt_nest *a, const dt_nest *b, int n_shared) {
    return dt_nests_can_share(s->plan, s->kernel, a, b, n_shared);
}

static bool are_parallel(const dt_gpu_scope *s, const dt_nest *nest, int n_first) {
    return (dt_first_loops(n_first) & ~dt_nest_parallel_loops(s->plan, s->kernel, nest)) == 0;
}

static bool has_nothing_to_do(const dt_gpu_scope *s, const dt_gpu_function *f, const dt_nest *b) {
    for (int i = 0; i < f->n_nests; i++)
        if (!can_share(s, &s->kernel->nests[f->first + i], b, 0)) return false;
    return true;
}

/* What a library may compute instead, or a part of that, is a launch of its own. */
static bool stands_alone(const dt_nest *nest) { return nest->library != NULL || nest->beside_library; }

/* ---- teams ---- */

/* How many loops nest `b` can share with the nests of the function, at most `f->n_shared`. A nest that has nothing to do with them shares all of its
 * outer loops or none: side by side it does better than in few teams. */
static int loops_to_share(const dt_gpu_scope *s, const dt_gpu_function *f, const dt_nest *b) {
    const dt_nest *nests = &s->kernel->nests[f->first];
    int n_outer = dt_nest_n_outer(b), n = f->n_shared < n_outer ? f->n_shared : n_outer, same = 0;
    while (same < n && b->loops[same].extent == nests[0].loops[same].extent) same++;
    for (; same > 0; same--) {
        bool good = are_parallel(s, b, same);
        for (int i = 0; i < f->n_nests && good; i++) good = can_share(s, &nests[i], b, same);
        if (!good) continue;
        bool whole = same == dt_nest_n_outer(&nests[0]) && same == n_outer;
        return whole || !has_nothing_to_do(s, f, b) ? same : 0;
    }
    return 0;
}

/* Sets how many teams there are; returns the iterations of the longest nest for one of them. */
static int64_t measure_teams(const dt_gpu_scope *s, dt_gpu_function *f) {
    const dt_nest *nests = &s->kernel->nests[f->first];
    int64_t longest = 0;
    f->n_items = dt_nest_iterations(s->plan, &nests[0], dt_first_loops(f->n_shared));
    for (int i = 0; i < f->n_nests; i++) {
        int64_t work = iterations_of(s, &nests[i], f->n_shared, false) * iterations_of(s, &nests[i], f->n_shared, true);
        if (work > longest) longest = work;
    }
    return longest;
}

/* Whether a nest is a sum of products that a team would do much of by itself, reading all of a factor for itself alone. */
static bool is_large_product(const dt_gpu_scope *s, const dt_nest *nest, int n_shared) {
    if (nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0])) return false;
    int64_t elements = iterations_of(s, nest, n_shared, false);
    return elements > 1 && elements * iterations_of(s, nest, n_shared, true) > s->target->much_of_a_product;
}

/* The nests from `first` on that one team can run together: as many as have enough loops in common to keep a device busy. */
static dt_gpu_function by_teams(const dt_gpu_scope *s, int first) {
    const dt_nest *nest = &s->kernel->nests[first];
    dt_gpu_function f = {.form = DT_GPU_TEAMS, .first = first, .n_nests = 1, .n_shared = dt_nest_n_outer(nest)};
    while (f.n_shared > 0 && !are_parallel(s, nest, f.n_shared)) f.n_shared--;
    for (int b = first + 1; b < s->kernel->n_nests && f.n_shared > 0 && !stands_alone(nest); b++) {
        if (stands_alone(&s->kernel->nests[b])) break;
        dt_gpu_function more = f;
        more.n_shared = loops_to_share(s, &f, &s->kernel->nests[b]);
        more.n_nests++;
        if (more.n_shared == 0) break;
        int64_t work = measure_teams(s, &more);
        if (more.n_items < s->target->many_teams && work > s->target->little_work) break;
        bool large = false;
        for (int i = 0; i < more.n_nests; i++) large |= is_large_product(s, &s->kernel->nests[first + i], more.n_shared);
        if (large) break;
        f = more;
    }
    int64_t work = measure_teams(s, &f);
    f.team = work <= s->target->few_iterations ? 1 : work <= s->target->warp_iterations ? s->target->warp : s->target->block;
    return f;
}

/* ---- nests side by side ---- */

static bool lies_beside_others(const dt_gpu_scope *s, const dt_nest *nest) {
    dt_gpu_tiles tiles;
    dt_gpu_scatter scatter;
    return dt_nest_is_constant(nest) && !stands_alone(nest) && !dt_gpu_wants_a_team(s, nest) && !dt_gpu_wants_tiles(s, nest, &tiles) &&
           !dt_gpu_wants_scatter(s, nest, &scatter);
}

static dt_gpu_function by_elements(const dt_gpu_scope *s, int first) {
    const dt_nest *nests = s->kernel->nests;
    dt_gpu_function f = {.form = DT_GPU_ELEMENTS, .first = first, .n_nests = 1, .team = 1};
    bool alone = stands_alone(&nests[first]) || !dt_nest_is_constant(&nests[first]);
    for (int b = first + 1; b < s->kernel->n_nests && f.n_nests < s->target->most_side_by_side && !alone; b++) {
        alone = !lies_beside_others(s, &nests[b]) || !has_nothing_to_do(s, &f, &nests[b]);
        if (!alone) f.n_nests++;
    }
    return f;
}

dt_gpu_function dt_gpu_choose_form(const dt_gpu_scope *s, int first) {
    const dt_nest *nest = &s->kernel->nests[first];
    dt_gpu_function teams = by_teams(s, first), alone = {.first = first, .n_nests = 1};
    if (teams.n_nests == 1 && dt_gpu_wants_tiles(s, nest, &alone.tiles)) {
        alone.form = DT_GPU_TILES;
        alone.team = s->target->block;
        return alone;
    }
    if (teams.n_nests == 1 && dt_gpu_wants_scatter(s, nest, &alone.scatter)) {
        alone.form = DT_GPU_SCATTER;
        alone.team = s->target->warp;
        return alone;
    }
    if (dt_gpu_wants_a_team(s, nest)) return teams;
    dt_gpu_function elements = by_elements(s, first);
    return elements.n_nests >= teams.n_nests ? elements : teams;
}
