/* verify_gpu_choices: what the choices for a GPU must keep, asked of the plan anew: whatever chose them, the code computes what the plan says. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/parallel.h"

typedef struct subject {
    const dt_gpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_gpu_function *function;
    int number;          /* of the nest, or of the first one */
    const dt_nest *nest; /* NULL: a rule for all nests */
    const dt_gpu_nest *how;
    const uint64_t *depends;
} subject;

/* A rule says what is wrong, or returns NULL. */
typedef const char *(*rule)(const subject *s);

/* ---- of a function ---- */

static const char *verify_team(const subject *s) {
    const dt_gpu_function *f = s->function;
    const dt_gpu_target *target = s->target;
    if (f->team != 1 && f->team != target->warp && f->team != target->block) return "a team is a thread, a warp or a block";
    if (f->form == DT_GPU_ELEMENTS && f->team != 1) return "elements are for threads";
    if (f->form == DT_GPU_TILES && f->team != target->block) return "a tile is for a block";
    if (f->form == DT_GPU_SCATTER && f->team != target->warp) return "targets are owned by warps";
    if (dt_gpu_shared_bytes(target, f) > target->shared_bytes) return "what a block shares fits its memory";
    return !f->wide && dt_gpu_needs_wide(s->plan, s->kernel, f) ? "indices of 32 bits count all that there is" : NULL;
}

static const char *verify_library(const subject *s) {
    const dt_nest *nest = &s->kernel->nests[s->function->first];
    if (s->function->library == NULL) return NULL;
    bool product = nest->n_reductions == 1 && dt_reduction_is_product(nest, &nest->reductions[0]);
    return !product || s->function->n_nests != 1 ? "a library computes one sum of products" : NULL;
}

static const char *verify_neighbours(const subject *s) {
    const dt_gpu_function *f = s->function;
    bool teams = f->form == DT_GPU_TEAMS;
    if (f->n_nests < 1 || (f->n_nests > 1 && !teams && f->form != DT_GPU_ELEMENTS)) return "tiles and a scatter are of one nest";
    for (int a = 0; a < f->n_nests; a++) {
        const dt_nest *nest = &s->kernel->nests[f->first + a];
        if (teams && f->n_shared > dt_nest_n_outer(nest)) return "teams share outer loops";
        for (int l = 0; l < f->n_shared && teams; l++)
            if (nest->loops[l].extent != s->kernel->nests[f->first].loops[l].extent) return "the loops that nests share are alike";
        if (!teams && f->n_nests > 1 && !dt_nest_is_constant(nest)) return "nests side by side have constant extents";
        for (int b = a + 1; b < f->n_nests; b++)
            if (!dt_nests_can_share(s->plan, s->kernel, nest, &s->kernel->nests[f->first + b], teams ? f->n_shared : 0))
                return "nests of one launch have nothing to do with each other but in an iteration that they share";
    }
    return NULL;
}

/* ---- of a nest ---- */

static const char *verify_loops(const subject *s) {
    const dt_gpu_nest *how = s->how;
    uint64_t outer = dt_nest_outer_loops(s->nest), parallel = dt_nest_parallel_loops(s->plan, s->kernel, s->nest);
    if (how->reduced != dt_nest_reduced_loops(s->nest)) return "reduced loops are those of the nest";
    if ((how->shared | how->dealt | how->serial) != outer || (how->shared & how->dealt) || ((how->shared | how->dealt) & how->serial))
        return "each outer loop is shared by a team, dealt to threads, or walked in order";
    if ((how->shared | how->dealt) & ~parallel) return "iterations that run at the same time have nothing to do with each other";
    dt_gpu_form form = s->function->form;
    bool teams = form == DT_GPU_TEAMS, tiles = form == DT_GPU_TILES;
    if (teams && how->shared != dt_first_loops(s->function->n_shared)) return "teams share the first loops";
    if (!teams && !tiles && how->shared != 0) return "threads that share loops are a team, or have a tile";
    if (how->serial != 0 && (tiles || s->nest->share.n_units > 0)) return "a loop of tiles, or of what processes share out, is not walked in order";
    if (how->together && (!teams || s->function->team == 1 || s->nest->n_reductions == 0))
        return "a team reduces together, and has something to reduce";
    for (int l = 0; l < s->nest->n_loops; l++) {
        bool in_order = (how->reduced >> l & 1) && !how->together && !tiles && s->nest->loops[l].extent != 1;
        if (how->unrolled[l] < 1 || (how->unrolled[l] > 1 && !in_order)) return "loops that are reduced in order are written out once or more";
    }
    return NULL;
}

/* What processes share out is told apart by the iteration of its only outer loop. */
static const char *verify_share(const subject *s) {
    if (s->nest->share.n_units == 0) return NULL;
    if (s->function->form != DT_GPU_ELEMENTS && s->function->form != DT_GPU_TEAMS) return "what processes share out is for elements or teams";
    if (dt_nest_n_outer(s->nest) != 1) return "what processes share out has one outer loop";
    return s->nest->share.unit_iterations % s->how->vectors.width != 0 ? "a vector is of one unit of what processes share out" : NULL;
}

/* Where a team walks loops in order, its first lane alone has seen what was stored. */
static const char *verify_together(const subject *s) {
    if (!s->how->together || s->how->serial == 0) return NULL;
    for (int i = 0; i < s->nest->n_instructions; i++) {
        const dt_instruction *x = &s->nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOAD && dt_nest_stores_into(s->plan, s->kernel, s->nest, x->address.buffer))
            return "what a team reduces together in each iteration is not read in a later one";
    }
    return NULL;
}

static const char *verify_accesses(const subject *s, const dt_gpu_vectors *vectors) {
    for (int i = 0; i < s->nest->n_instructions; i++) {
        const dt_instruction *x = &s->nest->instructions[i];
        if (!vectors->loads[i]) continue;
        if (x->kind != DT_INSTRUCTION_LOAD ||
            !dt_gpu_is_vector(s->plan, s->kernel, s->nest, s->how, s->depends, &x->address, vectors->along, vectors->width))
            return "a vector is of loads that lie side by side in whole vectors";
        uint64_t guard = x->guard < 0 ? 0 : s->depends[x->guard] | s->depends[x->otherwise];
        if (x->guard >= 0 && (vectors->along < 0 || (guard >> vectors->along & 1))) return "a vector has one guard";
    }
    return NULL;
}

/* Of iterations that are counted together a vector is a part of their last loop. */
static const char *verify_width(const subject *s, const dt_gpu_vectors *vectors, uint64_t counted) {
    if (vectors->width < 1 || (vectors->width & (vectors->width - 1)) != 0) return "vectors have a power of two of elements";
    if (vectors->width > s->target->most_width) return "a thread takes no more elements side by side than its target says";
    if (vectors->width == 1 || vectors->along < 0) return NULL;
    if (vectors->along != dt_nest_last_loop(s->nest, counted)) return "vectors lie along the last of the loops that are counted together";
    int64_t extent = s->nest->loops[vectors->along].extent;
    if (dt_dim_is_symbol(extent) || extent % vectors->width != 0) return "a loop has whole vectors";
    return verify_accesses(s, vectors);
}

/* Of elements, where along < 0 vectors lie along all of them. */
static const char *verify_elements(const subject *s, const dt_gpu_vectors *vectors) {
    int last = dt_nest_last_loop(s->nest, s->how->dealt);
    if (last < 0 || s->how->serial != 0 || s->nest->n_reductions > 0) return "vectors are of elements that are dealt, or of a tile's results";
    if (vectors->along < 0 ? dt_nest_has_check(s->nest) : dt_nest_checks(s->nest, s->depends, (uint64_t)1 << vectors->along))
        return "an index that is checked differs within a vector";
    for (int i = 0; i < s->nest->n_instructions; i++)
        if (vectors->ahead[i] && (s->depends[i] >> last & 1)) return "what is computed ahead of a vector is one for all of it";
    return vectors->along < 0 ? verify_accesses(s, vectors) : NULL;
}

static const char *verify_vectors(const subject *s) {
    const dt_gpu_vectors *vectors = &s->how->vectors;
    bool elements = s->function->form == DT_GPU_ELEMENTS, tiles = s->function->form == DT_GPU_TILES;
    const char *wrong = verify_width(s, vectors, tiles ? s->function->tiles.columns.loops : s->how->dealt);
    if (wrong != NULL || vectors->width == 1) return wrong;
    if (!elements && (!tiles || vectors->along < 0)) return "vectors are of elements that are dealt, or of a tile's results";
    for (int t = 0; t < s->nest->n_stores; t++) {
        const dt_store *store = &s->nest->stores[t];
        if (store->accumulate || store->guard >= 0 ||
            !dt_gpu_is_vector(s->plan, s->kernel, s->nest, s->how, s->depends, &store->address, vectors->along, vectors->width))
            return "vectors are stored to whole vectors, without guard";
    }
    return elements ? verify_elements(s, vectors) : NULL;
}

static const char *verify_side(const subject *s, const dt_gpu_side *side, int grid) {
    const dt_gpu_tiles *tiles = &s->function->tiles;
    int width = side->vectors.width, next_to = side->by_terms ? tiles->terms : side->results, block = s->target->block;
    int64_t reads = (int64_t)side->results * tiles->terms / (width < 1 ? 1 : width);
    if (s->depends[side->factor] & dt_nest_outer_loops(s->nest) & ~(side->loops | tiles->both))
        return "a factor differs with the loops of its side, and with those of both";
    if (side->own < 1 || side->own * grid != side->results) return "the results of a tile are dealt to all threads alike";
    if (tiles->n_down == 0 && side->own > 2 && side->own % DT_GPU_NEIGHBOURS != 0)
        return "results of a thread are neighbours, as many as a vector has";
    const char *wrong = verify_width(s, &side->vectors, side->by_terms ? s->how->reduced : side->loops);
    if (wrong != NULL) return wrong;
    if (width > 1 && (side->vectors.along < 0 || width > DT_GPU_NEIGHBOURS || next_to % width != 0))
        return "a factor is read in vectors that lie along terms or results, of as many as are neighbours";
    return reads > block && reads % block != 0 ? "all threads read as much of a stage" : NULL;
}

static const char *verify_sums(const subject *s) {
    const dt_gpu_tiles *tiles = &s->function->tiles;
    int lanes = s->target->product_lanes, own = tiles->columns.own, width = s->how->vectors.width;
    if (tiles->terms < 16 || tiles->terms % 16 != 0) return "a stage has sixteen terms, or a multiple";
    if (tiles->padding < 0 || tiles->padding % DT_GPU_NEIGHBOURS != 0) return "rows in shared memory have whole vectors";
    if (tiles->n_down > 0 && (tiles->precision == DT_PRECISION_F32 || s->target->warp % lanes != 0 || s->target->block / lanes % tiles->n_down != 0))
        return "tensor cores multiply rounded factors, with whole warps or parts of them";
    if (tiles->n_down > 0 && tiles->precision == DT_PRECISION_BF16 && tiles->terms != 16) return "tensor cores add sixteen terms of bf16";
    int neighbours = tiles->n_down > 0 ? 2 : own < DT_GPU_NEIGHBOURS ? own : DT_GPU_NEIGHBOURS;
    return width != 1 && width != neighbours ? "results are stored in vectors of all that are neighbours" : NULL;
}

static const char *verify_tiles(const subject *s) {
    const dt_gpu_tiles *tiles = &s->function->tiles;
    int rows, columns;
    if (s->function->form != DT_GPU_TILES) return NULL;
    if (s->nest->n_reductions != 1 || s->nest->reductions[0].dtype != DT_F32 || !dt_reduction_is_product(s->nest, &s->nest->reductions[0]) ||
        dt_nest_has_check(s->nest))
        return "tiles are for one sum of products in f32, without checks";
    if ((tiles->rows.loops | tiles->columns.loops) != s->how->dealt || tiles->both != s->how->shared || (tiles->rows.loops & tiles->columns.loops))
        return "rows and columns of tiles are dealt, what both factors differ with is shared";
    const int *factors = s->nest->instructions[s->nest->reductions[0].operand].operands;
    int first = tiles->rows.factor, second = tiles->columns.factor;
    if ((first != factors[0] || second != factors[1]) && (first != factors[1] || second != factors[0]))
        return "the sides of a tile are of the factors of the products";
    const char *wrong = verify_sums(s);
    if (wrong != NULL) return wrong;
    dt_gpu_tile_grid(s->target, tiles->n_down, &rows, &columns);
    wrong = verify_side(s, &tiles->rows, rows);
    return wrong != NULL ? wrong : verify_side(s, &tiles->columns, columns);
}

static const char *verify_scatter(const subject *s) {
    const dt_gpu_scatter *scatter = &s->function->scatter;
    if (s->function->form != DT_GPU_SCATTER) return NULL;
    const char *needs = dt_gpu_scatter_needs(&(dt_gpu_scope){s->target, s->plan, s->kernel}, s->nest, s->depends, s->how->dealt);
    if (needs != NULL) return needs;
    const dt_store *store = &s->nest->stores[0];
    if (store->address.terms[0] != scatter->index) return "a scatter stores once, where one index says";
    if (dt_nest_checked_limit(s->nest, store->guard, scatter->index) != scatter->targets) return "a check holds the index below the targets";
    if (scatter->n_owners * scatter->targets_each < scatter->targets || scatter->groups < 1) return "each target has an owner";
    return scatter->at_once < 1 || s->target->warp % scatter->at_once != 0 ? "a lane reads some indices at a time, of as many as there are lanes"
                                                                           : NULL;
}

/* ---- all ---- */

static dt_status *verify(const subject *s, const rule *rules, size_t n) {
    for (size_t r = 0; r < n; r++) {
        const char *wrong = rules[r](s);
        if (wrong != NULL) return dt_error(DT_INTERNAL, "kernel %s, nest %d, for %s: %s", s->kernel->name, s->number, s->target->name, wrong);
    }
    return NULL;
}

static dt_status *verify_function(dt_arena *arena, subject *s) {
    static const rule of_function[] = {verify_team, verify_neighbours, verify_library};
    static const rule of_nest[] = {verify_loops, verify_together, verify_share, verify_vectors, verify_tiles, verify_scatter};
    DT_TRY(verify(s, of_function, sizeof of_function / sizeof *of_function));
    for (int n = 0; n < s->function->n_nests; n++) {
        s->number = s->function->first + n;
        s->nest = &s->kernel->nests[s->number];
        s->how = &s->function->nests[n];
        uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, s->nest->n_instructions);
        dt_nest_depends(s->nest, depends);
        s->depends = depends;
        DT_TRY(verify(s, of_nest, sizeof of_nest / sizeof *of_nest));
    }
    return NULL;
}

static dt_status *verify_kernel(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_gpu_kernel *kernel) {
    int next = 0;
    for (int f = 0; f < kernel->n_functions; f++) {
        const dt_gpu_function *function = &kernel->functions[f];
        if (function->first != next) break;
        DT_TRY(verify_function(arena, &(subject){.target = target, .plan = plan, .kernel = &kernel->divided, .function = function, .number = next}));
        next += function->n_nests;
    }
    return next == kernel->divided.n_nests ? NULL : dt_error(DT_INTERNAL, "kernel %s: each nest is in one function, in order", kernel->divided.name);
}

dt_status *dt_gpu_choices_verify(dt_arena *arena, const dt_gpu_choices *choices) {
    for (int p = 0; p < choices->n_plans; p++) {
        if (!choices->plans[p]->batched) return dt_error(DT_INTERNAL, "the plan of %s goes through its rows in order", choices->plans[p]->name);
        for (int k = 0; k < choices->plans[p]->n_kernels; k++)
            DT_TRY(verify_kernel(arena, choices->target, choices->plans[p], &choices->kernels[p][k]));
    }
    return NULL;
}
