/* gpu_complete: what follows from the choices for a GPU, and from the nests that they are for. A chooser asks it of what it has chosen, and whoever
 * reads choices from a text of what stands there, so that a text need not say it. Nothing is verified here: what is impossible stays as it is. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/parallel.h"

/* ---- narrow integers ---- */

/* Integers of 64 bits are mostly indices, whose range can be computed from the extents of the loops. */

/* What is known of the value of an integer instruction. */
typedef struct range {
    bool known;
    int64_t least, greatest;
} range;

static range between(int64_t least, int64_t greatest) {
    const int64_t far = INT64_C(1) << 62;
    return (range){least > -far && greatest < far, least, greatest};
}

static range product_range(range x, range y) {
    const int64_t xs[2] = {x.least, x.greatest}, ys[2] = {y.least, y.greatest};
    int64_t least = INT64_MAX, greatest = INT64_MIN;
    for (int i = 0; i < 4; i++) {
        int64_t p;
        if (__builtin_mul_overflow(xs[i / 2], ys[i % 2], &p)) return (range){0};
        least = p < least ? p : least;
        greatest = p > greatest ? p : greatest;
    }
    return between(least, greatest);
}

static range scalar_range(const range *ranges, const dt_instruction *x) {
    const range none = {0};
    range a = ranges[x->operands[0]], b = x->n_operands > 1 ? ranges[x->operands[1]] : none;
    if (!a.known || (x->n_operands > 1 && !b.known)) return none;
    switch (x->scalar) {
    case DT_SCALAR_ADD: return between(a.least + b.least, a.greatest + b.greatest);
    case DT_SCALAR_SUBTRACT: return between(a.least - b.greatest, a.greatest - b.least);
    case DT_SCALAR_MULTIPLY: return product_range(a, b);
    case DT_SCALAR_DIVIDE: return a.least >= 0 && b.least > 0 ? between(0, a.greatest / b.least) : none;
    case DT_SCALAR_REMAINDER: return a.least >= 0 && b.least > 0 ? between(0, b.greatest - 1) : none;
    case DT_SCALAR_NEGATE: return between(-a.greatest, -a.least);
    case DT_SCALAR_MINIMUM: return between(a.least < b.least ? a.least : b.least, a.greatest < b.greatest ? a.greatest : b.greatest);
    case DT_SCALAR_MAXIMUM: return between(a.least > b.least ? a.least : b.least, a.greatest > b.greatest ? a.greatest : b.greatest);
    default: return none;
    }
}

static range range_of(const dt_plan *plan, const dt_nest *nest, const range *ranges, const dt_instruction *x) {
    if (x->kind == DT_INSTRUCTION_LOOP) {
        int64_t iterations = dt_trip_count(plan, nest->loops[x->index].extent);
        return iterations < 0 ? (range){0} : between(0, iterations > 0 ? iterations - 1 : 0);
    }
    if (x->kind == DT_INSTRUCTION_CONSTANT && !dt_dtype_is_float(x->dtype)) return between(x->integer, x->integer);
    if (x->kind == DT_INSTRUCTION_SCALAR && x->dtype == DT_I64 && x->n_operands <= 2) return scalar_range(ranges, x);
    dt_dtype from = x->kind == DT_INSTRUCTION_CONVERT ? nest->instructions[x->operands[0]].dtype : DT_F32;
    return from == DT_U8 || from == DT_BOOL ? between(0, 255) : from == DT_I8 ? between(-128, 127) : (range){0};
}

static bool *narrow_integers(dt_arena *arena, const dt_plan *plan, const dt_nest *nest) {
    const int64_t most = 1 << 30; /* leaves room for a sum of two */
    range *ranges = DT_NEW_ARRAY(arena, range, nest->n_instructions);
    bool *narrow = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        ranges[i] = range_of(plan, nest, ranges, &nest->instructions[i]);
        narrow[i] = nest->instructions[i].dtype == DT_I64 && ranges[i].known && ranges[i].least >= -most && ranges[i].greatest <= most;
    }
    return narrow;
}

/* ---- vectors ---- */

void dt_gpu_find_vectors(dt_arena *arena, const dt_gpu_scope *s, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends, bool guarded,
                         dt_gpu_vectors *vectors) {
    int along = vectors->along;
    bool *needed = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    dt_nest_mark_needed(nest, needed);
    vectors->loads = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    vectors->ahead = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    for (int i = nest->n_instructions - 1; i >= 0 && vectors->width > 1; i--) {
        const dt_instruction *x = &nest->instructions[i];
        bool load = needed[i] && x->kind == DT_INSTRUCTION_LOAD, one_guard = guarded && along >= 0;
        if (load && x->guard >= 0 && one_guard) one_guard = !((depends[x->guard] | depends[x->otherwise]) >> along & 1);
        vectors->loads[i] =
            load && (x->guard < 0 || one_guard) && dt_gpu_is_vector(s->plan, s->kernel, nest, how, depends, &x->address, along, vectors->width);
        vectors->ahead[i] |= x->kind == DT_INSTRUCTION_CHECK;
        for (int k = 0; (vectors->ahead[i] || vectors->loads[i]) && k < dt_instruction_n_uses(x); k++)
            vectors->ahead[dt_instruction_use(x, k)] = true;
    }
}

/* ---- tiles and owners ---- */

void dt_gpu_tile_grid(const dt_gpu_target *target, int n_down, int *rows, int *columns) {
    int n_products = target->block / target->product_lanes;
    *rows = n_down * DT_GPU_PIECE_ROWS;
    *columns = n_down > 0 ? n_products / n_down * DT_GPU_PIECE_COLUMNS : 1;
    for (int side = 1; n_down == 0 && side * side <= target->block; side *= 2) *rows = *columns = side;
}

static void complete_tiles(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_tiles *tiles) {
    int rows, columns;
    dt_gpu_tile_grid(s->target, tiles->n_down, &rows, &columns);
    tiles->rows.own = tiles->rows.results / rows;
    tiles->columns.own = tiles->columns.results / columns;
    if (nest->n_reductions > 0) tiles->precision = dt_product_precision(nest, &nest->reductions[0]);
}

static void complete_scatter(const dt_nest *nest, dt_gpu_scatter *scatter) {
    if (nest->n_stores == 0 || nest->stores[0].address.n_terms == 0) return;
    const dt_store *store = &nest->stores[0];
    scatter->index = store->address.terms[0];
    scatter->targets = dt_nest_checked_limit(nest, store->guard, scatter->index);
    scatter->n_owners = scatter->targets / scatter->targets_each + (scatter->targets % scatter->targets_each != 0);
}

/* ---- all ---- */

/* Threads or teams that have something to do. */
static int64_t count_items(const dt_gpu_scope *s, const dt_gpu_function *f) {
    const dt_nest *nests = &s->kernel->nests[f->first];
    int64_t n = 0;
    if (f->form == DT_GPU_TEAMS) return dt_nest_iterations(s->plan, &nests[0], dt_first_loops(f->n_shared));
    if (f->form == DT_GPU_TILES) return dt_gpu_n_tiles(s->plan, &nests[0], &f->tiles);
    if (f->form == DT_GPU_SCATTER) return f->scatter.n_owners * f->scatter.groups;
    for (int k = 0; k < f->n_nests; k++) {
        int width = f->nests[k].vectors.width;
        n += (dt_nest_iterations(s->plan, &nests[k], f->nests[k].dealt) + width - 1) / width;
    }
    return n;
}

void dt_gpu_complete(dt_arena *arena, const dt_gpu_scope *s, dt_gpu_function *f) {
    for (int k = 0; k < f->n_nests; k++) {
        const dt_nest *nest = &s->kernel->nests[f->first + k];
        dt_gpu_nest *how = &f->nests[k];
        uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
        dt_nest_depends(nest, depends);
        how->narrow = narrow_integers(arena, s->plan, nest);
        dt_gpu_find_vectors(arena, s, nest, how, depends, f->form == DT_GPU_ELEMENTS, &how->vectors);
        if (f->form != DT_GPU_TILES) continue;
        f->tiles.both = how->shared;
        dt_gpu_find_vectors(arena, s, nest, how, depends, true, &f->tiles.rows.vectors);
        dt_gpu_find_vectors(arena, s, nest, how, depends, true, &f->tiles.columns.vectors);
        complete_tiles(s, nest, &f->tiles);
    }
    f->n_shared = 0;
    for (int l = 0; l < 64 && f->form == DT_GPU_TEAMS; l++) f->n_shared += f->nests[0].shared >> l & 1;
    if (f->form == DT_GPU_SCATTER) complete_scatter(&s->kernel->nests[f->first], &f->scatter);
    f->n_items = count_items(s, f);
}
