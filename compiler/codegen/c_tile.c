/* c_tile: sums of products in tiles of vectors, as llvm_tile.c has them, without what is only for speed there: b and a are read where they are, and
 * all sums go through memory to what comes after them.
 *
 *     tROWxVECTOR = 0
 *     for reduced loops:  tROWxVECTOR = fma(a of row, b of vector, tROWxVECTOR)      one set for each chain
 *     for rows, for elements of the vectors:  late instructions and stores */
#include "compiler/codegen/c.h"

#include <inttypes.h>

#define LINE DT_C_LINE
#define FORMAT DT_C_FORMAT

static const char *vector_type(dt_c_nest *n) { return FORMAT(n, "%sx%d", dt_c_type(n->nest->reductions[0].dtype), n->choices->width); }

bool dt_c_has_vector_tiles(const dt_c_nest *n) {
    if (!n->choices->tiled || n->choices->width < 2 || n->n_outer == n->nest->n_loops) return false;
    const dt_reduction *reduction = &n->nest->reductions[0];
    const int *factors = n->nest->instructions[reduction->operand].operands;
    for (int k = 0; k < 2; k++) {
        const dt_instruction *x = &n->nest->instructions[factors[k]];
        if (x->kind != DT_INSTRUCTION_LOAD) return false; /* rounded */
        if (n->f->plan->buffers[n->f->kernel->buffers[x->address.buffer]].dtype != reduction->dtype) return false;
    }
    return reduction->dtype == DT_F32 || reduction->dtype == DT_F64;
}

/* ---- the products ---- */

/* The element of an address that lies so many rows and vectors after the first one of the tile. */
static const char *element_at(dt_c_nest *n, const dt_address *address, int row, int vector) {
    int row_loop = n->nest->tiling.row_loop, vector_loop = n->choices->vector_loop;
    const char *rows = row_loop >= 0 ? n->loops[row_loop] : NULL, *vectors = n->loops[vector_loop];
    if (row_loop >= 0) n->loops[row_loop] = FORMAT(n, "(%s + %d)", rows, row);
    n->loops[vector_loop] = FORMAT(n, "(%s + %d)", vectors, vector * n->choices->width);
    const char *element = dt_c_element(n, address);
    if (row_loop >= 0) n->loops[row_loop] = rows;
    n->loops[vector_loop] = vectors;
    return element;
}

/* One product, in iteration `index` of the innermost loop. */
static void product(dt_c_nest *n, const dt_tile *t, const char *index, int chain) {
    const char *type = vector_type(n);
    const dt_instruction *all = n->nest->instructions;
    int loop = n->choices->order[n->nest->n_loops - 1];
    const char *before = n->loops[loop];
    n->loops[loop] = index;
    LINE(n, "{");
    for (int v = 0; v < t->vectors; v++)
        LINE(n, "const %s y%d = *(const %s *)&%s;", type, v, type, element_at(n, &all[n->nest->tiling.b].address, 0, v));
    for (int r = 0; r < t->rows; r++) {
        const char *a = element_at(n, &all[n->nest->tiling.a].address, r, 0);
        if (n->choices->skips_zeros) LINE(n, "if (%s == 0) continue;", a);
        LINE(n, "const %s x%d = splat_%s(%s);", type, r, type, a);
        for (int v = 0; v < t->vectors; v++) LINE(n, "t%d_%dx%d = fma_%s(x%d, y%d, t%d_%dx%d);", chain, r, v, type, r, v, chain, r, v);
    }
    LINE(n, "}");
    n->loops[loop] = before;
}

/* Chain c adds every chains-th product from the c-th on; what is left of a number known at run time only goes to chain 0. */
static void innermost_loop(dt_c_nest *n, const dt_tile *t, const dt_c_range *range) {
    int loop = n->choices->order[n->nest->n_loops - 1];
    int64_t extent = range->is_part ? n->choices->depth : n->nest->loops[loop].extent;
    const char *i = n->loops[loop], *whole = range->end;
    bool unrolled = n->choices->unrolled[loop];
    int step = t->chains == 1 ? 1 : t->unroll;
    if (unrolled && t->chains > 1) {
        for (int64_t u = 0; u < extent; u++) product(n, t, FORMAT(n, "%" PRId64, u), (int)(u % t->chains));
        return;
    }
    if (step > 1) whole = FORMAT(n, "%s - (%s - %s) %% %d", range->end, range->end, range->start, step);
    if (step == 1) LINE(n, "#pragma GCC unroll %d", t->unroll);
    LINE(n, "for (i64 %s = %s; %s < %s; %s += %d) {", i, range->start, i, whole, i, step);
    for (int u = 0; u < step; u++) product(n, t, FORMAT(n, "(%s + %d)", i, u), u % t->chains);
    LINE(n, "}");
    if (step == 1) return;
    if (range->at_run_time) {
        LINE(n, "for (i64 %s = %s; %s < %s; %s++) {", i, whole, i, range->end, i);
        product(n, t, i, 0);
        LINE(n, "}");
    }
    for (int u = 0; !range->at_run_time && u < extent % step; u++) product(n, t, FORMAT(n, "(%s + %d)", whole, u), u % t->chains);
}

void dt_c_tile_products(dt_c_nest *n, const dt_c_range *ranges) {
    const dt_tile *t = dt_tile_find(n->choices, n->tile_rows, n->tile_vectors);
    const dt_store *store = &n->nest->stores[0];
    int last = n->nest->n_loops - 1, width = n->choices->width;
    const char *type = vector_type(n), *element = dt_c_type(n->nest->reductions[0].dtype);
    bool goes_on = ranges[0].is_part || ranges[last - n->n_outer].is_part;
    for (int c = 0; c < t->chains; c++)
        for (int r = 0; r < t->rows; r++)
            for (int v = 0; v < t->vectors; v++) LINE(n, "%s t%d_%dx%d = {0};", type, c, r, v);
    for (int r = 0; r < t->rows && n->choices->stores[0] == DT_STORE_PREFETCHED; r++)
        for (int v = 0; v < t->vectors; v++) LINE(n, "__builtin_prefetch(&%s, 1);", element_at(n, &store->address, r, v));
    for (int r = 0; r < t->rows && goes_on && !store->accumulate; r++)
        for (int v = 0; v < t->vectors; v++) LINE(n, "if (part > 0) t0_%dx%d = *(const %s *)&%s;", r, v, type, element_at(n, &store->address, r, v));
    for (int level = n->n_outer; level < last; level++) {
        const char *i = n->loops[n->choices->order[level]];
        LINE(n, "for (i64 %s = %s; %s < %s; %s++) {", i, ranges[level - n->n_outer].start, i, ranges[level - n->n_outer].end, i);
    }
    innermost_loop(n, t, &ranges[last - n->n_outer]);
    for (int level = n->n_outer; level < last; level++) LINE(n, "}");
    for (int half = t->chains / 2; half >= 1; half /= 2)
        for (int c = 0; c < half; c++)
            for (int r = 0; r < t->rows; r++)
                for (int v = 0; v < t->vectors; v++) LINE(n, "t%d_%dx%d += t%d_%dx%d;", c, r, v, c + half, r, v);
    LINE(n, "%s tile[%d][%d];", element, t->rows, t->vectors * width);
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++) LINE(n, "*(%s *)&tile[%d][%d] = t0_%dx%d;", type, r, v * width, r, v);
}

/* ---- what becomes of the sums ---- */

void dt_c_tile_finish(dt_c_nest *n, void (*finish)(dt_c_nest *n)) {
    int row_loop = n->nest->tiling.row_loop, vector_loop = n->choices->vector_loop, columns = n->tile_vectors * n->choices->width;
    int64_t extent = n->nest->loops[vector_loop].extent;
    const char *rows = row_loop >= 0 ? n->loops[row_loop] : NULL, *vectors = n->loops[vector_loop], *end = dt_c_extent(n->f->arena, extent);
    bool whole = !dt_dim_is_symbol(extent) && extent % n->choices->width == 0;
    LINE(n, "for (int r = 0; r < %d; r++) {", n->tile_rows);
    if (!whole) LINE(n, "const i64 columns = lower_i64(%d, %s - %s);", columns, end, vectors);
    LINE(n, "#pragma omp simd");
    LINE(n, "for (int k = 0; k < %s; k++) {", whole ? FORMAT(n, "%d", columns) : "columns");
    if (row_loop >= 0) n->loops[row_loop] = FORMAT(n, "(%s + r)", rows);
    n->loops[vector_loop] = FORMAT(n, "(%s + k)", vectors);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = "tile[r][k]";
    finish(n);
    if (row_loop >= 0) n->loops[row_loop] = rows;
    n->loops[vector_loop] = vectors;
    LINE(n, "}\n}");
}
