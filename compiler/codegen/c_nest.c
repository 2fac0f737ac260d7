/* c_nest: the loops of a nest, its statements, and the order of its sums.
 *
 * Loops run in the order that the choices say. Vectors, loops that are unrolled or jammed are left to the compiler, which is asked for them by a line
 * before the loop. It makes vectors of innermost loops only, so that any other vector loop goes in strips of a vector, with its lanes inside of all:
 *
 *     for strips:  for loops inside of the vector loop:  for lanes:  s[lane] = s[lane] + ...
 *
 * Of sums, those of lanes or chains are elements of an array, and where a tile's size decides how many there are, its loop is printed for each size.
 */
#include "compiler/codegen/c.h"

#include <inttypes.h>

#define LINE DT_C_LINE
#define FORMAT DT_C_FORMAT

/* ---- analysis ---- */

static bool vector_is_reduced(const dt_c_nest *n) { return n->choices->width > 1 && n->nest->loops[n->choices->vector_loop].reduced; }

/* Has each lane of a strip sums of its own? */
static bool lanes_are_outer(const dt_c_nest *n) { return n->strips && n->nest->n_reductions > 0 && !vector_is_reduced(n); }

dt_c_nest *dt_c_nest_prepare(dt_c_function *f, const dt_nest *nest, const dt_nest *group, int n_group) {
    dt_c_nest *n = DT_NEW(f->arena, dt_c_nest);
    int number = (int)(nest - f->kernel->nests), n_instructions = nest->n_instructions;
    *n = (dt_c_nest){.f = f, .nest = nest, .choices = &f->choices[number], .n_outer = dt_nest_n_outer(nest), .tile_rows = 1};
    n->depends = DT_NEW_ARRAY(f->arena, uint64_t, n_instructions);
    n->levels = DT_NEW_ARRAY(f->arena, int, n_instructions);
    n->late = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->needed = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->values = DT_NEW_ARRAY(f->arena, const char *, n_instructions);
    n->loops = DT_NEW_ARRAY(f->arena, const char *, nest->n_loops);
    int *of_loop = DT_NEW_ARRAY(f->arena, int, nest->n_loops), *least = DT_NEW_ARRAY(f->arena, int, n_instructions);
    for (int l = 0; l < nest->n_loops; l++) n->loops[l] = FORMAT(n, "i%d_%d", number, l);
    for (int p = 0; p < nest->n_loops; p++) of_loop[n->choices->order[p]] = p + 1;
    int vector_loop = n->choices->vector_loop;
    n->strips = !n->choices->tiled && n->choices->width > 1 && (nest->n_reductions > 0 || of_loop[vector_loop] < nest->n_loops);
    if (n->strips) n->loops[vector_loop] = "strip", of_loop[vector_loop] = nest->n_loops + 1;
    dt_nest_tile_depends(nest, n->depends);
    dt_nest_mark_needed(nest, n->needed);
    for (int i = 0; i < n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD)
            least[i] = dt_nest_load_level(f->plan, f->kernel, nest, nest->instructions[i].address.buffer, group, n_group);
    uint64_t late_loops = n->choices->tiled ? dt_nest_tile_loops(nest) : lanes_are_outer(n) ? (uint64_t)1 << vector_loop : 0;
    dt_depths depths = {of_loop, n->n_outer, least, late_loops};
    dt_nest_place(f->arena, nest, n->depends, &depths, n->levels, n->late);
    return n;
}

/* ---- statements ---- */

static void emit(dt_c_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    const char *expression = dt_c_expression(n, i);
    n->values[i] = expression;
    if (x->kind == DT_INSTRUCTION_CONSTANT || x->kind == DT_INSTRUCTION_LOOP) return;
    n->values[i] = FORMAT(n, "v%d_%d", (int)(n->nest - n->f->kernel->nests), i);
    LINE(n, "const %s %s = %s;", dt_c_type(x->dtype), n->values[i], expression);
}

void dt_c_level(dt_c_nest *n, int level, bool late) {
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->needed[i] && n->levels[i] == level && n->late[i] == late && n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) emit(n, i);
}

static void store(dt_c_nest *n, const dt_store *s) {
    dt_dtype dtype = n->f->plan->buffers[n->f->kernel->buffers[s->address.buffer]].dtype;
    const char *value = n->values[s->operand];
    if (s->accumulate) {
        const char *old = dt_c_read(n, &s->address);
        value = dtype == DT_BOOL ? FORMAT(n, "(%s | %s)", old, value) : dt_c_combine(n, DT_COMBINE_SUM, dtype, old, value);
    }
    if (s->guard >= 0) LINE(n, "if (%s)", n->values[s->guard]);
    LINE(n, "%s = %s;", dt_c_element(n, &s->address), dt_c_written(n, &s->address, value));
}

static void finish(dt_c_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++) store(n, &n->nest->stores[s]);
}

/* ---- reductions ---- */

/* How many partial results there are of each, and which one the current iteration adds to. */
typedef struct partials {
    int n;
    const char *at;
} partials;

static bool is_constant(int64_t extent) { return !dt_dim_is_symbol(extent); }

/* dt_reduction_found_by; but lanes have positions of their own, and no best element. */
static int found_by(const dt_c_nest *n, int r) { return vector_is_reduced(n) ? -1 : dt_reduction_found_by(n->nest, r); }

/* Are the sums of this nest made in several parts of the packed loop? */
static bool has_parts(const dt_c_nest *n) {
    return n->choices->tiled && n->choices->packed_loop >= 0 && n->nest->loops[n->choices->packed_loop].extent != n->choices->depth;
}

/* The chain of a tile: iterations after the last whole step, where their number is known at run time only, are of chain 0. */
static partials chains_of(dt_c_nest *n) {
    const dt_tile *tile = dt_tile_find(n->choices, n->tile_rows, n->tile_vectors);
    int loop = n->choices->order[n->nest->n_loops - 1];
    int64_t extent = n->nest->loops[loop].extent;
    if (tile->chains == 1 || n->n_outer == n->nest->n_loops) return (partials){tile->chains, "0"};
    bool in_parts = has_parts(n) && loop == n->choices->packed_loop;
    const char *i = in_parts ? FORMAT(n, "(%s - part)", n->loops[loop]) : n->loops[loop];
    bool at_run_time = !is_constant(extent) || (in_parts && extent % n->choices->depth != 0);
    if (!at_run_time) return (partials){tile->chains, FORMAT(n, "%s %% %d", i, tile->chains)};
    const char *end = in_parts ? "(part_end - part)" : dt_c_extent(n->f->arena, extent);
    return (partials){tile->chains, FORMAT(n, "%s < %s - %s %% %d ? %s %% %d : 0", i, end, end, tile->unroll, i, tile->chains)};
}

static partials partials_of(dt_c_nest *n) {
    if (n->choices->tiled) return chains_of(n);
    return n->strips ? (partials){n->choices->width, "lane"} : (partials){1, "0"};
}

static void begin_reductions(dt_c_nest *n, partials p) {
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        if (found_by(n, r) >= 0) continue;
        dt_dtype dtype = dt_reduction_element(n->nest, reduction);
        LINE(n, "%s s%d[%d];", dt_c_type(dtype), r, p.n);
        LINE(n, "for (int k = 0; k < %d; k++) s%d[k] = %s;", p.n, r, dt_c_identity(n, reduction->combiner, dtype));
        if (dt_combiner_is_position(reduction->combiner)) LINE(n, "i64 at%d[%d] = {0};", r, p.n);
    }
}

/* Is x better than best? NaN is better than any number, and not better than NaN. */
static const char *is_better(dt_c_nest *n, const dt_reduction *reduction, const char *x, const char *best) {
    bool greatest = reduction->combiner == DT_COMBINE_ARGMAX;
    if (!dt_dtype_is_float(dt_reduction_element(n->nest, reduction))) return FORMAT(n, "(%s %s %s)", x, greatest ? ">" : "<", best);
    return FORMAT(n, "(!(%s %s %s) && %s == %s)", x, greatest ? "<=" : ">=", best, best, best);
}

/* The row-major position of the current iteration of the reduced loops. */
static const char *position(dt_c_nest *n) {
    const char *sum = "0";
    for (int p = n->n_outer; p < n->nest->n_loops; p++) {
        int loop = n->choices->order[p];
        sum = FORMAT(n, "(%s * %s + %s)", sum, dt_c_extent(n->f->arena, n->nest->loops[loop].extent), n->loops[loop]);
    }
    return sum;
}

static void accumulate(dt_c_nest *n, partials p) {
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        const dt_instruction *operand = &n->nest->instructions[reduction->operand];
        const char *s = FORMAT(n, "s%d[%s]", r, p.at), *x = n->values[reduction->operand];
        if (found_by(n, r) >= 0) continue;
        if (dt_combiner_is_position(reduction->combiner)) {
            LINE(n, "if (%s) %s = %s, at%d[%s] = %s;", is_better(n, reduction, x, s), s, x, r, p.at, position(n));
        } else if (dt_reduction_is_product(n->nest, reduction)) {
            if (n->choices->skips_zeros) LINE(n, "if (%s != 0)", n->values[n->nest->tiling.a]);
            LINE(n, "%s = __builtin_fma%s(%s, %s, %s);", s, reduction->dtype == DT_F64 ? "" : "f", n->values[operand->operands[0]],
                 n->values[operand->operands[1]], s);
        } else {
            LINE(n, "%s = %s;", s, dt_c_combine(n, reduction->combiner, reduction->dtype, s, dt_c_convert(n, x, operand->dtype, reduction->dtype)));
        }
    }
}

/* Partial results become one: the upper half is combined with the lower. */
static void end_reductions(dt_c_nest *n, partials p) {
    const char *at = lanes_are_outer(n) ? p.at : "0";
    for (int r = 0; r < n->nest->n_reductions && p.n > 1 && !lanes_are_outer(n); r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        const char *a = FORMAT(n, "s%d[k]", r), *b = FORMAT(n, "s%d[k + half]", r);
        if (found_by(n, r) >= 0) continue;
        LINE(n, "for (int half = %d; half >= 1; half /= 2)", p.n / 2);
        LINE(n, "for (int k = 0; k < half; k++)");
        if (dt_combiner_is_position(reduction->combiner)) /* of equal elements the lower position wins */
            LINE(n, "if (%s || (at%d[k + half] < at%d[k] && !%s)) %s = %s, at%d[k] = at%d[k + half];", is_better(n, reduction, b, a), r, r,
                 is_better(n, reduction, a, b), a, b, r, r);
        else
            LINE(n, "%s = %s;", a, dt_c_combine(n, reduction->combiner, reduction->dtype, a, b));
    }
    for (int i = 0; i < n->nest->n_instructions; i++) {
        const dt_instruction *x = &n->nest->instructions[i];
        if (x->kind != DT_INSTRUCTION_REDUCED) continue;
        const dt_reduction *reduction = &n->nest->reductions[x->index];
        int finder = found_by(n, x->index);
        bool positions = dt_combiner_is_position(reduction->combiner);
        n->values[i] = positions ? FORMAT(n, "(%s)at%d[%s]", dt_c_type(reduction->dtype), x->index, at)
                                 : FORMAT(n, "s%d[%s]", finder >= 0 ? finder : x->index, at);
    }
}

static void open_loop(dt_c_nest *n, int loop, const char *start, const char *end, int64_t step) {
    const dt_nest_choices *choices = n->choices;
    const char *i = n->loops[loop];
    bool vectors = loop == choices->vector_loop && !choices->tiled;
    if (vectors && !n->strips) LINE(n, "#pragma omp simd simdlen(%d)", choices->width);
    if (vectors && n->strips) step = choices->width;
    if (choices->unrolled[loop]) LINE(n, "#pragma GCC unroll %" PRId64, n->nest->loops[loop].extent);
    if (choices->jammed[loop] > 0) LINE(n, "#pragma GCC unroll %d", choices->jammed[loop]);
    LINE(n, "for (i64 %s = %s; %s < %s; %s += %" PRId64 ") {", i, start, i, end, i, step);
}

/* What `inside` prints, for each lane where there are strips. */
static void in_lanes(dt_c_nest *n, void (*inside)(dt_c_nest *n)) {
    int loop = n->choices->vector_loop, width = n->choices->width;
    if (!n->strips) {
        inside(n);
        return;
    }
    bool divided = loop == dt_nest_part_loop(n->nest) && n->end != NULL;
    int64_t extent = n->nest->loops[loop].extent;
    const char *end = divided ? n->end : dt_c_extent(n->f->arena, extent);
    bool whole = !divided && is_constant(extent) && extent % width == 0;
    LINE(n, "#pragma omp simd");
    LINE(n, "for (i64 lane = 0; lane < %s; lane++) {", FORMAT(n, whole ? "%d" : "lower_i64(%d, %s - strip)", width, end));
    n->loops[loop] = "(strip + lane)";
    inside(n);
    n->loops[loop] = "strip";
    LINE(n, "}");
}

static void finish_late(dt_c_nest *n) {
    bool *marks = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    for (int s = 0; s < n->nest->n_stores; s++) dt_nest_mark_store(n->nest, marks, &n->nest->stores[s]);
    for (int i = 0; i < n->nest->n_instructions && lanes_are_outer(n); i++)
        if (marks[i] && n->levels[i] > n->nest->n_loops) emit(n, i); /* what sums and stores need, and each loop over lanes computes */
    dt_c_level(n, n->n_outer, true);
    finish(n);
}

static void in_iteration(dt_c_nest *n) {
    if (n->strips) dt_c_level(n, n->nest->n_loops + 1, false);
    if (n->nest->n_reductions > 0)
        accumulate(n, partials_of(n));
    else
        finish(n);
}

static dt_c_range *reduced_ranges(dt_c_nest *n) {
    dt_c_range *ranges = DT_NEW_ARRAY(n->f->arena, dt_c_range, n->nest->n_loops - n->n_outer);
    for (int level = n->n_outer; level < n->nest->n_loops; level++) {
        int loop = n->choices->order[level];
        int64_t extent = n->nest->loops[loop].extent;
        bool in_parts = has_parts(n) && loop == n->choices->packed_loop;
        ranges[level - n->n_outer] = (dt_c_range){.start = in_parts ? "part" : "0",
                                                  .end = in_parts ? "part_end" : dt_c_extent(n->f->arena, extent),
                                                  .is_part = in_parts,
                                                  .at_run_time = !is_constant(extent) || (in_parts && extent % n->choices->depth != 0)};
    }
    return ranges;
}

static void reduce(dt_c_nest *n) {
    const dt_nest *nest = n->nest;
    bool parts = has_parts(n);
    partials p = partials_of(n);
    if (parts) {
        int64_t extent = nest->loops[n->choices->packed_loop].extent, depth = n->choices->depth;
        const char *end = dt_c_extent(n->f->arena, extent); /* sums of nothing are stored too */
        LINE(n, "for (i64 part = 0; part < higher_i64(%s, 1); part += %" PRId64 ") {", end, depth);
        LINE(n, "const i64 part_end = lower_i64(part + %" PRId64 ", %s);", depth, end);
    }
    dt_c_range *ranges = reduced_ranges(n);
    if (dt_c_has_vector_tiles(n)) {
        dt_c_tile_products(n, ranges);
        dt_c_tile_finish(n, finish_late);
        if (parts) LINE(n, "}");
        return;
    }
    begin_reductions(n, p);
    if (parts && !nest->stores[0].accumulate) LINE(n, "if (part > 0) s0[0] = %s;", dt_c_read(n, &nest->stores[0].address));
    for (int level = n->n_outer; level < nest->n_loops; level++) {
        open_loop(n, n->choices->order[level], ranges[level - n->n_outer].start, ranges[level - n->n_outer].end, 1);
        dt_c_level(n, level + 1, false);
    }
    in_lanes(n, in_iteration);
    for (int level = n->n_outer; level < nest->n_loops; level++) LINE(n, "}");
    end_reductions(n, p);
    if (lanes_are_outer(n))
        in_lanes(n, finish_late);
    else
        finish_late(n);
    if (parts) LINE(n, "}");
}

/* ---- loops ---- */

static void loop_from(dt_c_nest *n, int level, const char *start, const char *end, int64_t step) {
    open_loop(n, n->choices->order[level], start, end, step);
    dt_c_inside(n, level + 1);
    LINE(n, "}");
}

/* The loop over rows or over blocks of a tiled nest, from `start` on: things of `size` elements each, dealt into tiles of at most `most`. *tile:
 * things of a tile. */
static void dealt_loop(dt_c_nest *n, int level, int64_t start, int64_t end, int64_t size, int64_t most, int *tile) {
    dt_parts parts = dt_deal((end - start + size - 1) / size, most);
    int64_t middle = start + parts.n_larger * (parts.size + 1) * size;
    bool vectors = dt_c_has_vector_tiles(n);
    *tile = (int)parts.size + 1;
    if (middle > start) loop_from(n, level, FORMAT(n, "%" PRId64, start), FORMAT(n, "%" PRId64, middle), vectors ? *tile * size : 1);
    *tile = (int)parts.size;
    if (middle < end) loop_from(n, level, FORMAT(n, "%" PRId64, middle), FORMAT(n, "%" PRId64, end), vectors ? *tile * size : 1);
}

/* The same where the extent is known at run time only: tiles of the greatest size, then of one thing. */
static void dealt_at_run_time(dt_c_nest *n, int level, int64_t size, int64_t most, int *tile) {
    const char *end = dt_c_extent(n->f->arena, n->nest->loops[n->choices->order[level]].extent);
    const char *whole = FORMAT(n, "%s - %s %% %" PRId64, end, end, size * most);
    bool vectors = dt_c_has_vector_tiles(n);
    *tile = (int)most;
    loop_from(n, level, "0", whole, vectors ? size * most : 1);
    *tile = 1;
    loop_from(n, level, whole, end, vectors ? size : 1);
}

static void tile_loop(dt_c_nest *n, int level) {
    const dt_nest_choices *choices = n->choices;
    int64_t extent = n->nest->loops[choices->order[level]].extent, whole = 0;
    bool over_rows = choices->order[level] == n->nest->tiling.row_loop;
    int64_t size = over_rows ? 1 : choices->width, most = over_rows ? choices->tile_rows : choices->tile_vectors;
    int *tile = over_rows ? &n->tile_rows : &n->tile_vectors;
    if (!is_constant(extent)) {
        dealt_at_run_time(n, level, size, most, tile);
        return;
    }
    if (over_rows && choices->packed_rows > 0) whole = extent - extent % choices->packed_rows;
    if (whole > 0) dealt_loop(n, level, 0, whole, size, most, tile);
    if (whole < extent) dealt_loop(n, level, whole, extent, size, most, tile);
}

void dt_c_inside(dt_c_nest *n, int level) {
    const dt_nest *nest = n->nest;
    dt_c_level(n, level, false);
    if (nest->n_reductions > 0 && level == n->n_outer) {
        reduce(n);
        return;
    }
    if (level == nest->n_loops) {
        in_lanes(n, in_iteration);
        return;
    }
    int loop = n->choices->order[level];
    if (loop == dt_nest_part_loop(nest) && n->end != NULL)
        loop_from(n, level, n->start, n->end, 1);
    else if (n->choices->tiled && (loop == n->choices->vector_loop || loop == nest->tiling.row_loop))
        tile_loop(n, level);
    else
        loop_from(n, level, "0", dt_c_extent(n->f->arena, nest->loops[loop].extent), 1);
}
