/* verify_gpu_choices: what the choices for a GPU must keep, asked of the plan anew: whatever chose them, the code computes what the plan says. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_choices.h"
#include "compiler/kernel/parallel.h"

typedef struct subject {
    const dt_gpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_gpu_function *function;
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
    if (s->function->form == DT_GPU_TEAMS && how->shared != dt_first_loops(s->function->n_shared)) return "teams share the first loops";
    if (how->together && (s->function->team == 1 || s->nest->n_reductions == 0)) return "a team reduces together, and has something to reduce";
    for (int l = 0; l < s->nest->n_loops; l++)
        if (how->unrolled[l] < 1 || (how->unrolled[l] > 1 && !(how->reduced >> l & 1))) return "reduced loops are written out once or more";
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

static const char *verify_vectors(const subject *s) {
    const dt_gpu_vectors *vectors = &s->how->vectors;
    if (vectors->width < 1 || (vectors->width & (vectors->width - 1)) != 0) return "vectors have a power of two of elements";
    if (vectors->width == 1) return NULL;
    bool elements = s->function->form == DT_GPU_ELEMENTS && s->how->serial == 0 && s->nest->n_reductions == 0;
    if (!elements && s->function->form != DT_GPU_TILES) return "vectors are of elements that are dealt, or of a tile's results";
    if (vectors->along >= s->nest->n_loops || (vectors->along < 0 && !elements)) return "vectors lie along a loop of the nest";
    for (int t = 0; t < s->nest->n_stores; t++) {
        const dt_store *store = &s->nest->stores[t];
        if (store->accumulate || store->guard >= 0 ||
            !dt_gpu_is_vector(s->plan, s->kernel, s->nest, s->how, s->depends, &store->address, vectors->along, vectors->width))
            return "vectors are stored to whole vectors, without guard";
    }
    if (elements && vectors->along >= 0 && dt_nest_checks(s->nest, s->depends, (uint64_t)1 << vectors->along))
        return "an index that is checked differs within a vector";
    return verify_accesses(s, vectors);
}

static const char *verify_side(const subject *s, const dt_gpu_side *side, int pieces) {
    const int *factors = s->nest->instructions[s->nest->reductions[0].operand].operands;
    if (side->factor != factors[0] && side->factor != factors[1]) return "the sides of a tile are of the factors of the products";
    if (s->depends[side->factor] & dt_nest_outer_loops(s->nest) & ~(side->loops | s->function->tiles.both))
        return "a factor differs with the loops of its side, and with those of both";
    if (side->own < 1 || side->own * pieces != side->results) return "the results of a tile are dealt to all threads alike";
    return side->vectors.width > 1 ? verify_accesses(s, &side->vectors) : NULL;
}

static const char *verify_tiles(const subject *s) {
    const dt_gpu_tiles *tiles = &s->function->tiles;
    int lanes = s->target->product_lanes, side = 1;
    if (s->function->form != DT_GPU_TILES) return NULL;
    if (s->nest->n_reductions != 1 || s->nest->reductions[0].dtype != DT_F32 || !dt_reduction_is_product(s->nest, &s->nest->reductions[0]) ||
        dt_nest_has_check(s->nest))
        return "tiles are for one sum of products in f32, without checks";
    if ((tiles->rows.loops | tiles->columns.loops) != s->how->dealt || tiles->both != s->how->shared || (tiles->rows.loops & tiles->columns.loops))
        return "rows and columns of tiles are dealt, what both factors differ with is shared";
    if (tiles->terms < 16 || tiles->terms % 16 != 0) return "a stage has sixteen terms, or a multiple";
    if (tiles->n_down > 0 && (tiles->precision == DT_PRECISION_F32 || s->target->warp % lanes != 0 || s->target->block / lanes % tiles->n_down != 0))
        return "tensor cores multiply rounded factors, with whole warps or parts of them";
    while (side * side < s->target->block) side *= 2;
    const char *wrong = verify_side(s, &tiles->rows, tiles->n_down > 0 ? tiles->n_down * 16 : side);
    return wrong != NULL ? wrong : verify_side(s, &tiles->columns, tiles->n_down > 0 ? s->target->block / lanes / tiles->n_down * 8 : side);
}

static const char *verify_scatter(const subject *s) {
    const dt_gpu_scatter *scatter = &s->function->scatter;
    if (s->function->form != DT_GPU_SCATTER) return NULL;
    const dt_store *store = &s->nest->stores[0];
    if (s->nest->n_stores != 1 || s->nest->n_reductions > 0 || store->address.n_terms != 1 || store->address.terms[0] != scatter->index)
        return "a scatter stores once, where one index says";
    if (dt_nest_checked_limit(s->nest, store->guard, scatter->index) != scatter->targets) return "a check holds the index below the targets";
    if (scatter->n_owners * scatter->targets_each < scatter->targets || scatter->groups < 1) return "each target has an owner";
    if ((s->depends[scatter->index] & s->how->dealt) || dt_nest_checks(s->nest, s->depends, s->how->dealt))
        return "an index and its check are one for a slice";
    return scatter->at_once < 1 || s->target->warp % scatter->at_once != 0 ? "a lane reads some indices at a time, of as many as there are lanes"
                                                                           : NULL;
}

/* ---- all ---- */

static dt_status *verify(const subject *s, const rule *rules, size_t n) {
    for (size_t r = 0; r < n; r++) {
        const char *wrong = rules[r](s);
        if (wrong != NULL)
            return dt_error(DT_INTERNAL, "kernel %s, nest %d, for %s: %s", s->kernel->name, s->function->first, s->target->name, wrong);
    }
    return NULL;
}

static dt_status *verify_function(dt_arena *arena, subject *s) {
    static const rule of_function[] = {verify_team, verify_neighbours}, of_nest[] = {verify_loops, verify_vectors, verify_tiles, verify_scatter};
    DT_TRY(verify(s, of_function, sizeof of_function / sizeof *of_function));
    for (int n = 0; n < s->function->n_nests; n++) {
        s->nest = &s->kernel->nests[s->function->first + n];
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
        DT_TRY(verify_function(arena, &(subject){.target = target, .plan = plan, .kernel = &kernel->divided, .function = function}));
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
