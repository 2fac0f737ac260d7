/* parallel: see the header. */
#include "compiler/kernel/parallel.h"
#include "compiler/kernel/analysis.h"

#include <stdlib.h>

/* Heuristics, in iterations at capacity. They choose between forms that compute the same. */
enum {
    FEW_ELEMENTS = 4096,      /* do not fill a device */
    MUCH_TO_REDUCE = 32,      /* is worth a team */
    FEW_FOR_A_TEAM = 16,      /* elements that a team rather reduces together, one after another */
    MANY_TEAMS = 512,         /* fill a device */
    LITTLE_WORK = 4096,       /* one team does it as fast as a launch would take */
    MOST_SIDE_BY_SIDE = 32,   /* nests of one launch */
    MUCH_OF_A_PRODUCT = 1024, /* terms for one team: weights are better read for many results at once */
    MOST_TERMS = 16,          /* of an address that is looked at */
    TILE_SIDE = 64,
    LEAST_SIDE = 32,       /* results along each side that are worth a tile */
    LEAST_TERMS = 16,      /* terms of each sum */
    LEAST_NARROW_SIDE = 8, /* the same where there are tiles for all of a device */
    LEAST_NARROW_TERMS = 8,
    MOST_TILED_INSTRUCTIONS = 1024,  /* of a nest that is looked at for tiles */
    MOST_TALL_INSTRUCTIONS = 64,     /* of one that gets tiles of twice the height */
    LONG_FOR_A_THREAD = 128,         /* loads that a team rather does, even where its lanes read far apart */
    MOST_OWNERS = 2048,              /* warps: each walks all indices, so no more than keep a device busy */
    MOST_SLICE = 32768,              /* elements of a slice: more keep a device busy without owners */
    LEAST_WALK = 64,                 /* indices that are worth owners */
    MOST_SCATTER_INSTRUCTIONS = 256, /* of a nest that is considered for a scatter */
    BUSY_BLOCKS = 256,               /* tiles that keep a device busy: a few on each of its multiprocessors */
    BUSY_TEAMS = 1024,               /* what waits for memory: as many as a large device holds at a time */
    BUSY_THREADS = 131072,           /* with the loads that each has in flight: half a wave of an H200 */
    LEAST_TILED_PART = 256,          /* terms of a part for tiles (small ones: half of it), a team, or a thread */
    LEAST_TEAM_PART = 4096,
    LEAST_PART = 32,
    FEWEST_PARTS = 4, /* that are worth a launch to reduce them: a thread alone has a few loads in flight anyway */
    SECTOR_BYTES = 32 /* that memory is read by */
};

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* ---- bounds of addresses ---- */

/* The check with a constant limit that `term` has passed wherever `guard` holds; -1: none is known. */
static int check_of(const dt_nest *nest, int guard, int term) {
    if (guard < 0) return -1;
    const dt_instruction *x = &nest->instructions[guard];
    if (x->kind == DT_INSTRUCTION_CHECK) return x->operands[0] == term && !dt_dim_is_symbol(x->integer) ? guard : -1;
    if (x->kind != DT_INSTRUCTION_SCALAR || x->scalar != DT_SCALAR_AND) return -1;
    int check = check_of(nest, x->operands[0], term);
    return check >= 0 ? check : check_of(nest, x->operands[1], term);
}

/* The limit below which a check that guards the access holds `term`; -1: none is known. */
static int64_t checked_limit(const dt_nest *nest, int guard, int term) {
    int check = check_of(nest, guard, term);
    return check < 0 ? -1 : nest->instructions[check].integer;
}

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
        int64_t limit = checked_limit(nest, store->guard, store->address.terms[t]);
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
    uint64_t set = 0, before;
    for (int l = 0; l < nest->n_loops; l++)
        if (!dt_nest_reduces(nest, l)) set |= (uint64_t)1 << l;
    if (reads_its_own(plan, kernel, nest)) return 0;
    do {
        before = set;
        for (int s = 0; s < nest->n_stores; s++) set = less_one(plan, nest, &nest->stores[s], set);
    } while (set != before);
    return set;
}

/* ---- sizes ---- */

/* Iterations of the loops that are reduced, or are not, from loop `first` on. What has no bound counts as much. */
static int64_t iterations_of(const dt_plan *plan, const dt_nest *nest, int first, bool reduced) {
    int64_t iterations = 1;
    for (int l = first; l < nest->n_loops; l++) {
        if (dt_nest_reduces(nest, l) != reduced) continue;
        int64_t most = dt_trip_count(plan, nest->loops[l].extent);
        iterations *= most < 0 ? INT32_MAX : most;
        if (iterations > INT64_C(1) << 40) iterations = INT64_C(1) << 40;
    }
    return iterations;
}

static int n_outer(const dt_nest *nest) {
    int n = 0;
    while (n < nest->n_loops && !dt_nest_reduces(nest, n)) n++;
    return n;
}

static bool are_parallel(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int n_first) {
    uint64_t all = n_first == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n_first) - 1;
    return (dt_nest_parallel_loops(plan, kernel, nest) & all) == all;
}

bool dt_nest_reduces_together(const dt_plan *plan, const dt_nest *nest, int n_shared) {
    if (nest->n_reductions == 0) return false;
    int64_t elements = iterations_of(plan, nest, n_shared, false);
    return elements <= 1 || (elements < FEW_FOR_A_TEAM && iterations_of(plan, nest, n_shared, true) >= MUCH_TO_REDUCE);
}

/* Sectors of memory that the lanes of a warp read of an address when the loops of `set` are dealt to them, the last one first; of fewer lanes as
 * much more. Terms are taken to be the same for all of them. */
static int64_t sectors_of(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_address *address, uint64_t set) {
    int64_t sectors[DT_WARP], bytes = (int64_t)dt_dtype_bytes(plan->buffers[kernel->buffers[address->buffer]].dtype);
    int n = 0, n_lanes = 0;
    for (int64_t lane = 0; lane < DT_WARP; lane++) {
        int64_t rest = lane, offset = 0;
        for (int l = nest->n_loops - 1; l >= 0; l--) {
            int64_t iterations = dt_trip_count(plan, nest->loops[l].extent);
            if (!(set >> l & 1) || iterations == 0) continue;
            offset += address->coefficients[l] * (iterations < 0 ? rest : rest % iterations);
            rest = iterations < 0 ? 0 : rest / iterations;
        }
        if (rest > 0) break;
        n_lanes++;
        int64_t sector = magnitude(offset) * bytes / SECTOR_BYTES;
        int at = 0;
        while (at < n && sectors[at] != sector) at++;
        if (at == n) sectors[n++] = sector;
    }
    return n * (int64_t)DT_WARP / n_lanes;
}

/* What a reduction loads in each iteration of the reduced loops. */
typedef struct reading {
    int n_loads;
    int64_t more_together; /* sectors when the reduced loops are dealt to lanes, less those when the outer ones are: above 0 where neighbours of a
                              team would stride, and those that have a result each would not */
} reading;

static reading reading_of(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    uint64_t reduced = 0, all = nest->n_loops == 64 ? ~(uint64_t)0 : ((uint64_t)1 << nest->n_loops) - 1;
    reading of = {0};
    for (int l = 0; l < nest->n_loops; l++)
        if (dt_nest_reduces(nest, l)) reduced |= (uint64_t)1 << l;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        bool walks = false;
        if (x->kind != DT_INSTRUCTION_LOAD) continue;
        for (int l = 0; l < nest->n_loops; l++) walks |= (reduced >> l & 1) && x->address.coefficients[l] != 0;
        if (!walks) continue; /* read once for a result */
        of.n_loads++;
        of.more_together += sectors_of(plan, kernel, nest, &x->address, reduced) - sectors_of(plan, kernel, nest, &x->address, all & ~reduced);
    }
    return of;
}

static bool wants_a_team(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    int64_t terms = iterations_of(plan, nest, 0, true);
    if (nest->n_reductions == 0 || terms < MUCH_TO_REDUCE || !are_parallel(plan, kernel, nest, n_outer(nest))) return false;
    reading of = reading_of(plan, kernel, nest);
    if (iterations_of(plan, nest, 0, false) < FEW_ELEMENTS) return of.more_together <= 0 || terms * of.n_loads >= LONG_FOR_A_THREAD;
    return of.more_together < 0;
}

/* ---- sums of products ---- */

static int64_t iterations_of_set(const dt_plan *plan, const dt_nest *nest, uint64_t set) {
    int64_t iterations = 1;
    for (int l = 0; l < nest->n_loops; l++) {
        int64_t most = dt_trip_count(plan, nest->loops[l].extent);
        if (set >> l & 1) iterations = most < 0 || iterations > INT32_MAX || most > INT32_MAX ? INT32_MAX : iterations * most;
    }
    return iterations;
}

/* The last outer loop that stores walk element by element; -1: none. */
static int contiguous_loop(const dt_nest *nest) {
    for (int l = n_outer(nest) - 1; l >= 0; l--)
        if (nest->loops[l].extent != 1) return nest->stores[0].address.coefficients[l] == 1 ? l : -1;
    return -1;
}

/* Loops are told apart by what the factors differ with. Each outer loop must be one of a factor, and none may be walked in order. */
static bool divide_loops(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_product_loops *loops) {
    const dt_instruction *product = &nest->instructions[nest->reductions[0].operand];
    uint64_t depends[MOST_TILED_INSTRUCTIONS], outer = 0, several = 0;
    if (nest->n_instructions > MOST_TILED_INSTRUCTIONS) return false;
    dt_nest_depends(nest, depends);
    for (int l = 0; l < nest->n_loops; l++) {
        if (!dt_nest_reduces(nest, l)) outer |= (uint64_t)1 << l;
        if (!dt_nest_reduces(nest, l) && nest->loops[l].extent != 1) several |= (uint64_t)1 << l;
    }
    if ((dt_nest_parallel_loops(plan, kernel, nest) & outer) != outer) return false;
    uint64_t a = depends[product->operands[0]] & outer, b = depends[product->operands[1]] & outer;
    int last = contiguous_loop(nest);
    bool swapped = last >= 0 && (a >> last & 1) && !(b >> last & 1);
    *loops = (dt_product_loops){.rows = swapped ? b & ~a : a & ~b,
                                .columns = swapped ? a & ~b : b & ~a,
                                .both = a & b,
                                .row_factor = product->operands[swapped],
                                .column_factor = product->operands[!swapped],
                                .precision = dt_product_precision(nest, &nest->reductions[0])};
    loops->both |= outer & ~several & ~(a | b);
    return (several & ~(a | b)) == 0;
}

static int64_t covering(int64_t extent, int64_t side) { return (extent + side - 1) / side; }

/* Tiles that it takes to cover the results. */
static int64_t tiles_of(const dt_plan *plan, const dt_nest *nest, const dt_product_loops *loops) {
    int64_t rows = iterations_of_set(plan, nest, loops->rows), columns = iterations_of_set(plan, nest, loops->columns);
    return covering(rows, loops->tile_rows) * covering(columns, loops->tile_columns) * iterations_of_set(plan, nest, loops->both);
}

/* Taller tiles read less for each product, as long as there is one for each multiprocessor. They leave few registers: for no more columns, and not
 * for much that is computed on the way or after the sum, as the random numbers of a dropout are. None is larger than what it is to cover. */
static void choose_tile(const dt_plan *plan, const dt_nest *nest, dt_product_loops *loops) {
    int64_t rows = iterations_of_set(plan, nest, loops->rows), columns = iterations_of_set(plan, nest, loops->columns);
    loops->tile_columns = columns <= TILE_SIDE / 2 && rows > TILE_SIDE / 4 ? TILE_SIDE / 2 : TILE_SIDE;
    loops->tile_rows = rows <= TILE_SIDE / 4 ? TILE_SIDE / 4 : rows <= TILE_SIDE / 2 ? TILE_SIDE / 2 : rows <= TILE_SIDE ? TILE_SIDE : 2 * TILE_SIDE;
    if (loops->tile_rows <= TILE_SIDE) return;
    if (tiles_of(plan, nest, loops) < BUSY_BLOCKS / 2 || nest->n_instructions > MOST_TALL_INSTRUCTIONS) loops->tile_rows = TILE_SIDE;
}

/* Terms of a part: what a tile stores of it is little beside what it reads. */
static int64_t least_tiled_part(const dt_product_loops *loops) {
    return loops->tile_rows < TILE_SIDE || loops->tile_columns < TILE_SIDE ? LEAST_TILED_PART / 2 : LEAST_TILED_PART;
}

/* Whether the nest, whose sums may be cut into parts, has tiles for all of a device. */
static bool has_tiles_enough(const dt_plan *plan, const dt_nest *nest, const dt_product_loops *loops) {
    int64_t parts = iterations_of(plan, nest, 0, true) / least_tiled_part(loops);
    return tiles_of(plan, nest, loops) * (parts > 1 ? parts : 1) >= BUSY_BLOCKS / 2;
}

static bool wants_tiles(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_product_loops *loops) {
    if (nest->n_stores == 0 || nest->n_reductions != 1 || nest->reductions[0].dtype != DT_F32) return false;
    if (!dt_reduction_is_product(nest, &nest->reductions[0])) return false;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) return false; /* counted once a result */
    if (!divide_loops(plan, kernel, nest, loops)) return false;
    choose_tile(plan, nest, loops);
    int64_t rows = iterations_of_set(plan, nest, loops->rows), columns = iterations_of_set(plan, nest, loops->columns),
            terms = iterations_of(plan, nest, 0, true);
    if (rows >= LEAST_SIDE && columns >= LEAST_SIDE && terms >= LEAST_TERMS) return true;
    if (rows < LEAST_NARROW_SIDE || columns < LEAST_NARROW_SIDE || terms < LEAST_NARROW_TERMS) return false;
    return has_tiles_enough(plan, nest, loops);
}

/* ---- stores where an index says ---- */

static bool wants_scatter(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_scatter *scatter) {
    uint64_t depends[MOST_SCATTER_INSTRUCTIONS], slice = dt_nest_parallel_loops(plan, kernel, nest), walked = 0;
    if (nest->n_reductions > 0 || nest->n_stores != 1 || nest->n_instructions > MOST_SCATTER_INSTRUCTIONS) return false;
    const dt_store *store = &nest->stores[0];
    if (store->address.n_terms != 1 || store->address.term_coefficients[0] == 0) return false;
    *scatter = (dt_scatter){.index = store->address.terms[0], .targets = checked_limit(nest, store->guard, store->address.terms[0])};
    if (scatter->targets < 1) return false;
    for (int l = 0; l < nest->n_loops; l++) {
        if (!(slice >> l & 1)) walked |= (uint64_t)1 << l;
        if ((walked >> l & 1) && store->address.coefficients[l] != 0) return false;
    }
    dt_nest_depends(nest, depends);
    if (depends[scatter->index] & slice) return false;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_CHECK && (depends[i] & slice)) return false;
        if (x->kind == DT_INSTRUCTION_LOAD && dt_arguments_are_one(plan, kernel, x->address.buffer, store->address.buffer)) return false;
    }
    int64_t n_slice = iterations_of_set(plan, nest, slice), groups = (n_slice + DT_WARP - 1) / DT_WARP;
    if (iterations_of_set(plan, nest, walked) < LEAST_WALK || n_slice < 1 || n_slice >= MOST_SLICE) return false;
    int64_t most = scatter->targets < MOST_OWNERS ? MOST_OWNERS / scatter->targets : 1;
    scatter->groups = groups < most ? groups : most;
    scatter->targets_each = (scatter->targets * scatter->groups + MOST_OWNERS - 1) / MOST_OWNERS;
    scatter->n_owners = (scatter->targets + scatter->targets_each - 1) / scatter->targets_each;
    return true;
}

int64_t dt_nest_parts_wanted(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    dt_product_loops loops;
    int64_t results = iterations_of(plan, nest, 0, false), terms = iterations_of(plan, nest, 0, true);
    int64_t busy = BUSY_THREADS, least = LEAST_PART, fewest = FEWEST_PARTS;
    if (wants_tiles(plan, kernel, nest, &loops)) {
        results = tiles_of(plan, nest, &loops);
        busy = BUSY_BLOCKS;
        least = least_tiled_part(&loops);
        fewest = 2;
    } else if (wants_a_team(plan, kernel, nest) && reading_of(plan, kernel, nest).more_together <= 0) {
        busy = BUSY_TEAMS;
        least = LEAST_TEAM_PART;
        fewest = 2;
    }
    if (results < 1) return 1;
    int64_t parts = busy / results < terms / least ? busy / results : terms / least;
    return parts >= fewest ? parts : 1;
}

bool dt_parts_are_for_a_team(int64_t results, int64_t parts) { return results < FEW_ELEMENTS && parts >= MUCH_TO_REDUCE; }

/* ---- nests that share a launch ---- */

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

/* Whether two nests have nothing to do with each other but within an iteration of the first `n_shared` loops. */
static bool can_share(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *a, const dt_nest *b, int n_shared) {
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

static bool has_nothing_to_do(const dt_plan *plan, const dt_kernel_function *kernel, const dt_phase *phase, const dt_nest *b) {
    for (int i = 0; i < phase->n_nests; i++)
        if (!can_share(plan, kernel, &kernel->nests[phase->first + i], b, 0)) return false;
    return true;
}

/* How many loops nest `b` can share with the nests of the phase, at most `phase->n_shared`. A nest that has nothing to do with them shares all
 * of its outer loops or none: side by side it does better than in few teams. */
static int loops_to_share(const dt_plan *plan, const dt_kernel_function *kernel, const dt_phase *phase, const dt_nest *b) {
    const dt_nest *nests = &kernel->nests[phase->first];
    int n = phase->n_shared < n_outer(b) ? phase->n_shared : n_outer(b), same = 0;
    while (same < n && b->loops[same].extent == nests[0].loops[same].extent) same++;
    for (; same > 0; same--) {
        bool good = are_parallel(plan, kernel, b, same);
        for (int i = 0; i < phase->n_nests && good; i++) good = can_share(plan, kernel, &nests[i], b, same);
        if (!good) continue;
        bool whole = same == n_outer(&nests[0]) && same == n_outer(b);
        return whole || !has_nothing_to_do(plan, kernel, phase, b) ? same : 0;
    }
    return 0;
}

static void measure_teams(const dt_plan *plan, const dt_kernel_function *kernel, dt_phase *phase) {
    const dt_nest *nests = &kernel->nests[phase->first];
    dt_nest shared = nests[0];
    shared.n_loops = phase->n_shared;
    phase->n_items = iterations_of(plan, &shared, 0, false);
    phase->team_work = 0;
    for (int i = 0; i < phase->n_nests; i++) {
        int64_t work = iterations_of(plan, &nests[i], phase->n_shared, false) * iterations_of(plan, &nests[i], phase->n_shared, true);
        if (work > phase->team_work) phase->team_work = work;
    }
}

/* Whether a nest is a sum of products that a team would do much of by itself, reading all of a factor for itself alone. */
static bool is_large_product(const dt_plan *plan, const dt_nest *nest, int n_shared) {
    if (nest->n_reductions != 1 || !dt_reduction_is_product(nest, &nest->reductions[0])) return false;
    int64_t elements = iterations_of(plan, nest, n_shared, false);
    return elements > 1 && elements * iterations_of(plan, nest, n_shared, true) > MUCH_OF_A_PRODUCT;
}

/* What a library may compute instead, or a part of that, is a launch of its own. */
static bool stands_alone(const dt_nest *nest) { return nest->library != NULL || nest->beside_library; }

/* The nests from `first` on that one team can run together: as many as have enough loops in common to keep a device busy. */
static dt_phase team_phase(const dt_plan *plan, const dt_kernel_function *kernel, int first) {
    const dt_nest *nest = &kernel->nests[first];
    dt_phase phase = {.kind = DT_PHASE_TEAMS, .first = first, .n_nests = 1, .n_shared = n_outer(nest)};
    while (phase.n_shared > 0 && !are_parallel(plan, kernel, nest, phase.n_shared)) phase.n_shared--;
    for (int b = first + 1; b < kernel->n_nests && phase.n_shared > 0 && !stands_alone(nest); b++) {
        if (stands_alone(&kernel->nests[b])) break;
        dt_phase more = phase;
        more.n_shared = loops_to_share(plan, kernel, &phase, &kernel->nests[b]);
        more.n_nests++;
        if (more.n_shared == 0) break;
        measure_teams(plan, kernel, &more);
        if (more.n_items < MANY_TEAMS && more.team_work > LITTLE_WORK) break;
        bool large = false;
        for (int i = 0; i < more.n_nests; i++) large |= is_large_product(plan, &kernel->nests[first + i], more.n_shared);
        if (large) break;
        phase = more;
    }
    measure_teams(plan, kernel, &phase);
    return phase;
}

static bool has_constant_extents(const dt_nest *nest) {
    for (int l = 0; l < nest->n_loops; l++)
        if (dt_dim_is_symbol(nest->loops[l].extent)) return false;
    return true;
}

/* Nests side by side that have nothing to do with one another. */
static dt_phase element_phase(const dt_plan *plan, const dt_kernel_function *kernel, int first) {
    dt_phase phase = {.kind = DT_PHASE_ELEMENTS, .first = first, .n_nests = 1, .n_items = iterations_of(plan, &kernel->nests[first], 0, false)};
    for (int b = first + 1; b < kernel->n_nests && phase.n_nests < MOST_SIDE_BY_SIDE; b++) {
        const dt_nest *nest = &kernel->nests[b];
        if (stands_alone(&kernel->nests[first]) || stands_alone(nest)) break;
        if (!has_constant_extents(&kernel->nests[first]) || !has_constant_extents(nest) || wants_a_team(plan, kernel, nest)) break;
        dt_product_loops loops;
        dt_scatter scatter;
        if (wants_tiles(plan, kernel, nest, &loops) || wants_scatter(plan, kernel, nest, &scatter)) break;
        if (!has_nothing_to_do(plan, kernel, &phase, nest)) break;
        phase.n_items += iterations_of(plan, nest, 0, false);
        phase.n_nests++;
    }
    return phase;
}

/* ---- nests that store several things ---- */

static void mark_used(const dt_nest *nest, bool *marks, int i) {
    if (i < 0 || marks[i]) return;
    marks[i] = true;
    for (int k = 0; k < dt_instruction_n_uses(&nest->instructions[i]); k++) mark_used(nest, marks, dt_instruction_use(&nest->instructions[i], k));
}

/* What store s needs: marks[n_instructions]. */
static void mark_store(const dt_nest *nest, int s, bool *marks) {
    mark_used(nest, marks, nest->stores[s].operand);
    mark_used(nest, marks, nest->stores[s].guard);
    for (int t = 0; t < nest->stores[s].address.n_terms; t++) mark_used(nest, marks, nest->stores[s].address.terms[t]);
}

/* Whether store s, which needs what `marks` says, reads what store `other` stores, or both need what is computed for each element. */
static bool belong_together(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const uint64_t *depends, const bool *marks,
                            const bool *other_marks, int other) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (!marks[i]) continue;
        if (other_marks[i] && depends[i] != 0 && x->kind != DT_INSTRUCTION_LOOP) return true;
        if (x->kind == DT_INSTRUCTION_LOAD && dt_arguments_are_one(plan, kernel, x->address.buffer, nest->stores[other].address.buffer)) return true;
    }
    return false;
}

/* groups[n_stores]: of each store the first one that it belongs together with. */
static void group_stores(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int *groups) {
    int n = nest->n_stores;
    uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
    bool **marks = DT_NEW_ARRAY(arena, bool *, n);
    dt_nest_depends(nest, depends);
    for (int s = 0; s < n; s++) {
        marks[s] = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
        mark_store(nest, s, marks[s]);
        groups[s] = s;
    }
    for (int s = 0; s < n; s++)
        for (int o = 0; o < n; o++) {
            if (groups[s] == groups[o] || !belong_together(plan, kernel, nest, depends, marks[s], marks[o], o)) continue;
            int least = groups[s] < groups[o] ? groups[s] : groups[o], greatest = groups[s] + groups[o] - least;
            for (int k = 0; k < n; k++)
                if (groups[k] == greatest) groups[k] = least;
        }
}

/* The nest with the stores of group g alone; what only others needed is a constant now, so that it touches no memory. */
static dt_nest one_group(dt_arena *arena, const dt_nest *nest, const int *groups, int g) {
    dt_nest part = *nest;
    bool *marks = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    part.stores = DT_NEW_ARRAY(arena, dt_store, nest->n_stores);
    part.instructions = DT_NEW_ARRAY(arena, dt_instruction, nest->n_instructions);
    part.n_stores = 0;
    for (int s = 0; s < nest->n_stores; s++) {
        if (groups[s] != g) continue;
        mark_store(nest, s, marks);
        part.stores[part.n_stores++] = nest->stores[s];
    }
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction nothing = {.kind = DT_INSTRUCTION_CONSTANT, .dtype = nest->instructions[i].dtype, .guard = -1, .otherwise = -1};
        part.instructions[i] = marks[i] ? nest->instructions[i] : nothing;
    }
    return part;
}

dt_kernel_function dt_kernel_split_nests(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel) {
    dt_kernel_function result = *kernel;
    DT_LIST(dt_nest) nests = {0};
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        bool whole = nest->n_reductions > 0 || nest->n_stores < 2 || !has_constant_extents(nest);
        for (int i = 0; i < nest->n_instructions; i++) whole |= nest->instructions[i].kind == DT_INSTRUCTION_CHECK; /* counted once */
        int *groups = DT_NEW_ARRAY(arena, int, nest->n_stores);
        if (!whole) group_stores(arena, plan, kernel, nest, groups);
        for (int g = 0; g < nest->n_stores && !whole; g++)
            if (groups[g] == g) dt_list_push(arena, &nests, one_group(arena, nest, groups, g));
        if (whole) dt_list_push(arena, &nests, *nest);
    }
    result.nests = nests.items;
    result.n_nests = (int)nests.n;
    return result;
}

/* The phase that begins with nest `first`. */
static dt_phase phase_at(const dt_plan *plan, const dt_kernel_function *kernel, int first) {
    const dt_nest *nest = &kernel->nests[first];
    dt_phase teams = team_phase(plan, kernel, first), alone = {.first = first, .n_nests = 1};
    if (teams.n_nests == 1 && wants_tiles(plan, kernel, nest, &alone.product)) {
        alone.kind = DT_PHASE_TILES;
        alone.n_items = tiles_of(plan, nest, &alone.product);
        return alone;
    }
    if (teams.n_nests == 1 && wants_scatter(plan, kernel, nest, &alone.scatter)) {
        alone.kind = DT_PHASE_SCATTER;
        alone.n_items = alone.scatter.n_owners * alone.scatter.groups;
        return alone;
    }
    if (wants_a_team(plan, kernel, nest)) return teams;
    dt_phase elements = element_phase(plan, kernel, first);
    return elements.n_nests >= teams.n_nests ? elements : teams;
}

int dt_kernel_phases(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, dt_phase **phases) {
    DT_LIST(dt_phase) list = {0};
    for (int n = 0; n < kernel->n_nests;) {
        dt_phase phase = phase_at(plan, kernel, n);
        dt_list_push(arena, &list, phase);
        n += phase.n_nests;
    }
    *phases = list.items;
    return (int)list.n;
}
