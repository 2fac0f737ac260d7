/* random_gpu_choices: random changes of what was chosen for a GPU, as far as dt_gpu_choices_verify allows them: whatever it allows, code follows. */
#ifndef DT_TESTS_SUPPORT_RANDOM_GPU_CHOICES_H
#define DT_TESTS_SUPPORT_RANDOM_GPU_CHOICES_H

#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/parallel.h"
#include "tests/support/random_graph.h"

/* A function that changes, and one of its nests. */
typedef struct changed_function {
    dt_arena *arena;
    random_source *random;
    const dt_gpu_scope *scope;
    dt_gpu_function *function;
    const dt_nest *nest;
    dt_gpu_nest *how;
    dt_gpu_form wanted;
} changed_function;

static inline int gpu_below(const changed_function *c, int n) { return (int)random_below(c->random, (uint32_t)n); }

/* ---- one change ---- */

static inline void change_team(changed_function *c) {
    const int teams[] = {1, c->scope->target->warp, c->scope->target->block};
    c->function->team = teams[gpu_below(c, 3)];
    c->function->wide = gpu_below(c, 2) == 0;
}

/* A loop goes to others: is shared, dealt, or walked in order. */
static inline void change_loop(changed_function *c) {
    uint64_t *const sets[] = {&c->how->shared, &c->how->dealt, &c->how->serial};
    if (c->nest->n_loops == 0) return;
    uint64_t loop = (uint64_t)1 << gpu_below(c, c->nest->n_loops);
    if (c->how->reduced & loop) return;
    for (int s = 0; s < 3; s++) *sets[s] &= ~loop;
    int to = gpu_below(c, 3);
    *sets[to] |= loop;
    dt_gpu_tiles *tiles = &c->function->tiles;
    tiles->rows.loops &= ~loop;
    tiles->columns.loops &= ~loop;
    if (to == 1) *(gpu_below(c, 2) == 0 ? &tiles->rows.loops : &tiles->columns.loops) |= loop;
}

static inline void change_sum(changed_function *c) {
    c->how->together = gpu_below(c, 2) == 0;
    for (int l = 0; l < c->nest->n_loops; l++) c->how->unrolled[l] = c->how->reduced >> l & 1 && gpu_below(c, 2) == 0 ? 1 + gpu_below(c, 6) : 1;
}

static inline dt_gpu_vectors random_vectors(const changed_function *c, uint64_t counted) {
    dt_gpu_vectors vectors = {.width = 1 << gpu_below(c, 4), .along = -1};
    if (gpu_below(c, 4) > 0) vectors.along = dt_nest_last_loop(c->nest, counted);
    if (gpu_below(c, 16) == 0 && c->nest->n_loops > 0) vectors.along = gpu_below(c, c->nest->n_loops);
    if (vectors.width == 1) vectors.along = -1;
    return vectors;
}

static inline void change_width(changed_function *c) {
    uint64_t counted = c->function->form == DT_GPU_TILES ? c->function->tiles.columns.loops : c->how->dealt;
    c->how->vectors = random_vectors(c, counted);
}

static inline void change_side(changed_function *c, dt_gpu_side *side) {
    side->results = gpu_below(c, 4) > 0 ? 16 << gpu_below(c, 4) : 8 * (1 + gpu_below(c, 16));
    side->by_terms = gpu_below(c, 2) == 0;
    side->vectors = random_vectors(c, side->by_terms ? c->how->reduced : side->loops);
}

static inline void change_tile(changed_function *c) {
    dt_gpu_tiles *tiles = &c->function->tiles;
    if (gpu_below(c, 2) == 0) change_side(c, &tiles->rows);
    if (gpu_below(c, 2) == 0) change_side(c, &tiles->columns);
    if (gpu_below(c, 2) == 0) tiles->terms = 16 + 16 * gpu_below(c, 4);
    if (gpu_below(c, 2) == 0) tiles->padding = gpu_below(c, 4) > 0 ? 4 * gpu_below(c, 4) : gpu_below(c, 10);
    if (gpu_below(c, 16) == 0) tiles->rows.factor = tiles->columns.factor;
    if (gpu_below(c, 2) == 0) tiles->n_down = gpu_below(c, 2) * (1 << gpu_below(c, 4));
    if (gpu_below(c, 2) == 0) c->how->vectors = random_vectors(c, tiles->columns.loops);
}

static inline void change_owners(changed_function *c) {
    dt_gpu_scatter *scatter = &c->function->scatter;
    scatter->targets_each = 1 + gpu_below(c, 5);
    scatter->groups = 1 + gpu_below(c, 4);
    scatter->at_once = 1 << gpu_below(c, 6);
}

/* To the form that is wanted, if it is none of several nests. */
static inline void change_form(changed_function *c) {
    dt_gpu_function *f = c->function;
    dt_gpu_tiles tiles = {.rows = {.loops = 0}};
    uint64_t outer = dt_nest_outer_loops(c->nest), parallel = dt_nest_parallel_loops(c->scope->plan, c->scope->kernel, c->nest);
    if (f->form == c->wanted || (f->n_nests > 1 && c->wanted >= DT_GPU_TILES)) return;
    f->form = c->wanted;
    f->team = f->form == DT_GPU_TILES ? c->scope->target->block : f->form == DT_GPU_SCATTER ? c->scope->target->warp : 1;
    if (f->n_nests > 1) return;
    *c->how = (dt_gpu_nest){
        .dealt = parallel, .serial = outer & ~parallel, .reduced = c->how->reduced, .unrolled = c->how->unrolled, .vectors = {1, -1, NULL, NULL}};
    for (int l = 0; l < c->nest->n_loops; l++) c->how->unrolled[l] = 1;
    if (f->form == DT_GPU_TEAMS) c->how->shared = parallel & dt_first_loops(gpu_below(c, c->nest->n_loops + 1));
    if (f->form == DT_GPU_TEAMS) c->how->dealt &= ~c->how->shared;
    if (f->form == DT_GPU_SCATTER) change_owners(c);
    if (f->form != DT_GPU_TILES) return;
    dt_gpu_wants_tiles(c->scope, c->nest, &tiles); /* whether it does or not, it says which loops are of which side, if it can */
    f->tiles = tiles;
    c->how->shared = tiles.both;
    c->how->dealt = tiles.rows.loops | tiles.columns.loops;
    f->tiles.terms = 16;
    f->tiles.n_down = gpu_below(c, 2) * (1 << gpu_below(c, 4));
    change_side(c, &f->tiles.rows);
    change_side(c, &f->tiles.columns);
}

/* ---- all ---- */

static inline dt_gpu_function copy_of_function(dt_arena *arena, const dt_gpu_scope *scope, const dt_gpu_function *function) {
    dt_gpu_function copy = *function;
    copy.nests = dt_arena_copy(arena, function->nests, (size_t)function->n_nests * sizeof *copy.nests);
    for (int n = 0; n < copy.n_nests; n++) {
        size_t n_loops = (size_t)scope->kernel->nests[copy.first + n].n_loops;
        copy.nests[n].unrolled = dt_arena_copy(arena, function->nests[n].unrolled, n_loops * sizeof(int));
    }
    return copy;
}

/* The nests after the first `n` become a function of their own. */
static inline void split_function(dt_arena *arena, dt_gpu_kernel *kernel, int f, int n) {
    dt_gpu_function *functions = DT_NEW_ARRAY(arena, dt_gpu_function, kernel->n_functions + 1);
    for (int i = 0; i < kernel->n_functions; i++) functions[i + (i > f)] = kernel->functions[i];
    functions[f + 1] = functions[f];
    functions[f].n_nests = n;
    functions[f + 1].first += n;
    functions[f + 1].n_nests -= n;
    functions[f + 1].nests += n;
    kernel->functions = functions;
    kernel->n_functions++;
}

/* Changes a function by one or several changes at once. Whether that is allowed; else all is as it was. */
static inline bool change_function(dt_arena *arena, random_source *source, const dt_gpu_choices *choices, int plan, dt_gpu_kernel *kernel, int f,
                                   dt_gpu_form wanted) {
    static void (*const changes[])(changed_function *) = {change_team, change_loop, change_sum,    change_width, change_tile,
                                                          change_tile, change_tile, change_owners, change_form};
    const dt_gpu_scope scope = {choices->target, choices->plans[plan], &kernel->divided};
    dt_gpu_kernel before = *kernel;
    dt_gpu_function function_before = kernel->functions[f];
    dt_gpu_function *now = &kernel->functions[f];
    *now = copy_of_function(arena, &scope, now);
    if (now->n_nests > 1 && random_below(source, 3) == 0) split_function(arena, kernel, f, 1 + (int)random_below(source, (uint32_t)now->n_nests - 1));
    for (int i = 0; i < kernel->n_functions - before.n_functions + 1; i++) {
        now = &kernel->functions[f + i];
        int n = (int)random_below(source, (uint32_t)now->n_nests);
        changed_function changed = {arena, source, &scope, now, &kernel->divided.nests[now->first + n], &now->nests[n], wanted};
        for (int k = (int)random_below(source, 4); k > 0; k--) changes[random_below(source, sizeof changes / sizeof *changes)](&changed);
        if (now->scatter.targets_each == 0) now->scatter.targets_each = now->scatter.groups = now->scatter.at_once = 1;
        dt_gpu_complete(arena, &scope, now);
    }
    dt_status *status = dt_gpu_choices_verify(arena, choices);
    if (status != NULL) {
        before.functions[f] = function_before;
        *kernel = before;
    }
    bool allowed = status == NULL;
    dt_status_free(status);
    return allowed;
}

/* Tries to change each function a few times. Returns how many changes were allowed. */
static inline int random_gpu_changes(dt_arena *arena, random_source *source, const dt_gpu_choices *choices, int attempts) {
    static const dt_gpu_form forms[] = {DT_GPU_ELEMENTS, DT_GPU_TEAMS, DT_GPU_TILES, DT_GPU_TILES, DT_GPU_TILES, DT_GPU_SCATTER};
    int n_allowed = 0;
    for (int p = 0; p < choices->n_plans; p++)
        for (int k = 0; k < choices->plans[p]->n_kernels; k++) {
            dt_gpu_kernel *kernel = &choices->kernels[p][k];
            dt_gpu_form wanted = forms[random_below(source, sizeof forms / sizeof *forms)];
            for (int i = 0; i < kernel->n_functions * attempts && i < 1000; i++)
                n_allowed += change_function(arena, source, choices, p, kernel, i / attempts, wanted);
        }
    return n_allowed;
}

#endif
