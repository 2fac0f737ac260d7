/* gpu_forms: see the header. */
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/parallel.h"

enum { /* of a nest that is looked at */
    MOST_TILED_INSTRUCTIONS = 1024,
    MOST_SCATTER_INSTRUCTIONS = 256,
    MOST_LANES = 64
};
#define MOST_TARGETS ((int64_t)1 << 40)

static int64_t n_terms(const dt_plan *plan, const dt_nest *nest) { return dt_nest_iterations(plan, nest, dt_nest_reduced_loops(nest)); }
static int64_t n_results(const dt_plan *plan, const dt_nest *nest) { return dt_nest_iterations(plan, nest, dt_nest_outer_loops(nest)); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t covering(int64_t extent, int64_t side) { return (extent + side - 1) / side; }

static bool is_parallel(const dt_gpu_scope *s, const dt_nest *nest) {
    return dt_nest_parallel_loops(s->plan, s->kernel, nest) == dt_nest_outer_loops(nest);
}

/* ---- teams ---- */

/* Sectors of memory that the lanes of a warp read of an address when the loops of `set` are dealt to them, the last one first; of fewer lanes as
 * much more. Terms are taken to be the same for all of them. */
static int64_t sectors_of(const dt_gpu_scope *s, const dt_nest *nest, const dt_address *address, uint64_t set) {
    int64_t sectors[MOST_LANES], bytes = (int64_t)dt_dtype_bytes(s->plan->buffers[s->kernel->buffers[address->buffer]].dtype);
    int n = 0, n_lanes = 0;
    for (int64_t lane = 0; lane < s->target->warp; lane++) {
        int64_t rest = lane, offset = 0;
        for (int l = nest->n_loops - 1; l >= 0; l--) {
            int64_t iterations = dt_trip_count(s->plan, nest->loops[l].extent);
            if (!(set >> l & 1) || iterations == 0) continue;
            offset += address->coefficients[l] * (iterations < 0 ? rest : rest % iterations);
            rest = iterations < 0 ? 0 : rest / iterations;
        }
        if (rest > 0) break;
        n_lanes++;
        int64_t sector = (offset < 0 ? -offset : offset) * bytes / s->target->sector_bytes;
        int at = 0;
        while (at < n && sectors[at] != sector) at++;
        if (at == n) sectors[n++] = sector;
    }
    return n * (int64_t)s->target->warp / (n_lanes > 0 ? n_lanes : 1);
}

/* What a reduction loads in each iteration of the reduced loops. */
typedef struct reading {
    int n_loads;
    int64_t more_together; /* sectors when the reduced loops are dealt to lanes, less those when the outer ones are: above 0 where neighbours of a
                              team would stride, and those that have a result each would not */
} reading;

static reading reading_of(const dt_gpu_scope *s, const dt_nest *nest) {
    uint64_t reduced = dt_nest_reduced_loops(nest), outer = dt_nest_outer_loops(nest);
    reading of = {0};
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        bool once = true; /* for a result */
        for (int l = 0; l < nest->n_loops && x->kind == DT_INSTRUCTION_LOAD; l++) once &= !(reduced >> l & 1) || x->address.coefficients[l] == 0;
        if (once) continue;
        of.n_loads++;
        of.more_together += sectors_of(s, nest, &x->address, reduced) - sectors_of(s, nest, &x->address, outer);
    }
    return of;
}

bool dt_gpu_wants_a_team(const dt_gpu_scope *s, const dt_nest *nest) {
    int64_t terms = n_terms(s->plan, nest);
    if (nest->n_reductions == 0 || terms < s->target->much_to_reduce || !is_parallel(s, nest)) return false;
    reading of = reading_of(s, nest);
    if (n_results(s->plan, nest) < s->target->few_elements) return of.more_together <= 0 || terms * of.n_loads >= s->target->long_for_a_thread;
    return of.more_together < 0;
}

/* ---- sums of products ---- */

/* The last outer loop that stores walk element by element; -1: none. */
static int contiguous_loop(const dt_nest *nest) {
    int l = dt_nest_last_loop(nest, dt_nest_outer_loops(nest));
    return l >= 0 && nest->stores[0].address.coefficients[l] == 1 ? l : -1;
}

/* Loops are told apart by what the factors differ with. Each outer loop must be one of a factor, and none may be walked in order. */
static bool divide_loops(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_tiles *tiles) {
    const dt_instruction *product = &nest->instructions[nest->reductions[0].operand];
    uint64_t depends[MOST_TILED_INSTRUCTIONS], outer = dt_nest_outer_loops(nest), several = 0;
    if (nest->n_instructions > MOST_TILED_INSTRUCTIONS || !is_parallel(s, nest)) return false;
    dt_nest_depends(nest, depends);
    for (int l = 0; l < nest->n_loops; l++)
        if ((outer >> l & 1) && nest->loops[l].extent != 1) several |= (uint64_t)1 << l;
    uint64_t a = depends[product->operands[0]] & outer, b = depends[product->operands[1]] & outer;
    int last = contiguous_loop(nest);
    bool swapped = last >= 0 && (a >> last & 1) && !(b >> last & 1);
    *tiles = (dt_gpu_tiles){.rows = {.loops = swapped ? b & ~a : a & ~b, .factor = product->operands[swapped]},
                            .columns = {.loops = swapped ? a & ~b : b & ~a, .factor = product->operands[!swapped]},
                            .both = (a & b) | (outer & ~several & ~(a | b)),
                            .precision = dt_product_precision(nest, &nest->reductions[0])};
    return (several & ~(a | b)) == 0;
}

int64_t dt_gpu_n_tiles(const dt_plan *plan, const dt_nest *nest, const dt_gpu_tiles *tiles) {
    return covering(dt_nest_iterations(plan, nest, tiles->rows.loops), tiles->rows.results) *
           covering(dt_nest_iterations(plan, nest, tiles->columns.loops), tiles->columns.results) * dt_nest_iterations(plan, nest, tiles->both);
}

/* Taller tiles read less for each product, as long as there is one for each multiprocessor. They leave few registers: for no more columns, and not
 * for much that is computed on the way or after the sum, as the random numbers of a dropout are. None is larger than what it is to cover. */
static void choose_sides(const dt_gpu_scope *s, const dt_nest *nest, int64_t rows, int64_t columns, dt_gpu_tiles *tiles) {
    int side = s->target->tile_side;
    tiles->columns.results = columns <= side / 2 && rows > side / 4 ? side / 2 : side;
    tiles->rows.results = rows <= side / 4 ? side / 4 : rows <= side / 2 ? side / 2 : rows <= side ? side : 2 * side;
    bool few = dt_gpu_n_tiles(s->plan, nest, tiles) < s->target->busy_blocks / 2;
    if (tiles->rows.results > side && (few || nest->n_instructions > s->target->most_tall_instructions)) tiles->rows.results = side;
}

static int64_t least_tiled_part(const dt_gpu_target *target, const dt_gpu_tiles *tiles) {
    bool small = tiles->rows.results < target->tile_side || tiles->columns.results < target->tile_side;
    return small ? target->least_tiled_part / 2 : target->least_tiled_part;
}

bool dt_gpu_wants_tiles(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_tiles *tiles) {
    const dt_gpu_target *target = s->target;
    if (nest->n_stores == 0 || nest->n_reductions != 1 || nest->reductions[0].dtype != DT_F32) return false;
    if (!dt_reduction_is_product(nest, &nest->reductions[0]) || dt_nest_has_check(nest)) return false; /* which is counted once a result */
    if (!divide_loops(s, nest, tiles)) return false;
    int64_t rows = dt_nest_iterations(s->plan, nest, tiles->rows.loops), columns = dt_nest_iterations(s->plan, nest, tiles->columns.loops),
            terms = n_terms(s->plan, nest);
    choose_sides(s, nest, rows, columns, tiles);
    if (rows >= target->least_side && columns >= target->least_side && terms >= target->least_terms) return true;
    if (rows < target->least_narrow_side || columns < target->least_narrow_side || terms < target->least_narrow_terms) return false;
    int64_t parts = terms / least_tiled_part(target, tiles); /* that its sums may be cut into */
    return dt_gpu_n_tiles(s->plan, nest, tiles) * (parts > 1 ? parts : 1) >= target->busy_blocks / 2;
}

/* ---- stores where an index says ---- */

const char *dt_gpu_scatter_needs(const dt_gpu_scope *s, const dt_nest *nest, const uint64_t *depends, uint64_t slice) {
    const dt_store *store = &nest->stores[0];
    if (nest->n_reductions > 0 || nest->n_stores != 1 || store->address.n_terms != 1 || store->address.term_coefficients[0] == 0)
        return "a scatter stores once, where one index says";
    int index = store->address.terms[0];
    int64_t targets = dt_nest_checked_limit(nest, store->guard, index);
    if (targets < 1 || targets > MOST_TARGETS) return "a check holds the index below the targets";
    for (int l = 0; l < nest->n_loops; l++)
        if (!(slice >> l & 1) && store->address.coefficients[l] != 0) return "a scatter stores in the slice that its index selects";
    if ((depends[index] & slice) || dt_nest_checks(nest, depends, slice)) return "an index and its check are one for a slice";
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOAD && dt_arguments_are_one(s->plan, s->kernel, x->address.buffer, store->address.buffer))
            return "a scatter does not read what it stores";
    }
    return NULL;
}

bool dt_gpu_wants_scatter(const dt_gpu_scope *s, const dt_nest *nest, dt_gpu_scatter *scatter) {
    uint64_t depends[MOST_SCATTER_INSTRUCTIONS];
    uint64_t slice = dt_nest_parallel_loops(s->plan, s->kernel, nest), walked = dt_first_loops(nest->n_loops) & ~slice;
    if (nest->n_instructions > MOST_SCATTER_INSTRUCTIONS) return false;
    dt_nest_depends(nest, depends);
    if (dt_gpu_scatter_needs(s, nest, depends, slice) != NULL) return false;
    const dt_store *store = &nest->stores[0];
    int64_t targets = dt_nest_checked_limit(nest, store->guard, store->address.terms[0]), most_owners = s->target->most_owners;
    int64_t n_slice = dt_nest_iterations(s->plan, nest, slice);
    if (dt_nest_iterations(s->plan, nest, walked) < s->target->least_walk || n_slice < 1 || n_slice >= s->target->most_slice) return false;
    *scatter = (dt_gpu_scatter){.at_once = s->target->indices_at_once};
    scatter->groups = least(covering(n_slice, s->target->warp), targets < most_owners ? most_owners / targets : 1);
    scatter->targets_each = covering(targets * scatter->groups, most_owners);
    return true;
}

/* ---- parts of sums ---- */

int64_t dt_gpu_parts_wanted(const dt_gpu_scope *s, const dt_nest *nest) {
    const dt_gpu_target *target = s->target;
    dt_gpu_tiles tiles;
    int64_t results = n_results(s->plan, nest), busy = target->busy_threads, part = target->least_part, fewest = target->fewest_parts;
    if (dt_gpu_wants_tiles(s, nest, &tiles)) {
        results = dt_gpu_n_tiles(s->plan, nest, &tiles);
        busy = target->busy_blocks;
        part = least_tiled_part(target, &tiles);
        fewest = 2;
    } else if (dt_gpu_wants_a_team(s, nest) && reading_of(s, nest).more_together <= 0) {
        busy = target->busy_teams;
        part = target->least_team_part;
        fewest = 2;
    }
    if (results < 1) return 1;
    int64_t parts = least(busy / results, n_terms(s->plan, nest) / part);
    return parts >= fewest ? parts : 1;
}

bool dt_gpu_parts_are_for_a_team(const dt_gpu_target *target, int64_t results, int64_t parts) {
    return results < target->few_elements && parts >= target->much_to_reduce;
}
