/* execute: see the header. */
#include "compiler/kernel/execute.h"
#include "base/half.h"
#include "compiler/kernel/affine.h"
#include "compiler/kernel/analysis.h"
#include "ir/evaluate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct dt_run {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    void *const *buffers;
    const dt_launch *launch;
    const dt_nest *nest;
    const dt_nest_choices *choices; /* what its sums go by; NULL: loops run as they stand, and sums term by term */
    int n_outer;
    int64_t *loops;
    int64_t part, part_end; /* of the packed loop, where it runs in parts */
    const dt_tile *tile;    /* that the element at work is of; NULL: of none */
    int n_partials;         /* partial results of each reduction, of lanes or of chains */
    dt_scalar *scalars;
    dt_scalar *accumulators; /* of reduction r: partial result k is [r * n_partials + k], the result [r] */
    int64_t *best;           /* position of an ARGMAX or ARGMIN so far */
    bool *late, *inner;      /* depends on a result of a reduction; on a reduced loop */
    uint64_t *depends;       /* of each instruction: the set of loops that it depends on */
} dt_run;

/* ---- scalars ---- */

static dt_scalar of_float(double f) { return (dt_scalar){.f = f}; }
static dt_scalar of_integer(int64_t i) { return (dt_scalar){.i = i}; }

static dt_scalar float_scalar(dt_scalar_op op, const dt_scalar *x, dt_dtype dtype) {
    double a = x[0].f, b = x[1].f;
    switch (op) {
    case DT_SCALAR_ADD: return of_float(a + b);
    case DT_SCALAR_SUBTRACT: return of_float(a - b);
    case DT_SCALAR_MULTIPLY: return of_float(a * b);
    case DT_SCALAR_DIVIDE: return of_float(a / b);
    case DT_SCALAR_REMAINDER: return of_float(fmod(a, b));
    case DT_SCALAR_NEGATE: return of_float(-a);
    case DT_SCALAR_MINIMUM: return of_float(isnan(a) || isnan(b) ? NAN : a < b ? a : b);
    case DT_SCALAR_MAXIMUM: return of_float(isnan(a) || isnan(b) ? NAN : a > b ? a : b);
    case DT_SCALAR_ABSOLUTE: return of_float(fabs(a));
    case DT_SCALAR_FLOOR: return of_float(floor(a));
    case DT_SCALAR_ROUND: return of_float(nearbyint(a));
    case DT_SCALAR_ROUND_TF32: return of_float(dt_tf32_from_f32((float)a));
    case DT_SCALAR_ROUND_BF16: return of_float(dt_f32_from_bf16(dt_bf16_from_f32((float)a)));
    case DT_SCALAR_SQUARE_ROOT: return of_float(sqrt(a));
    case DT_SCALAR_FUSED: return of_float(dtype == DT_F64 ? fma(a, b, x[2].f) : fmaf((float)a, (float)b, (float)x[2].f));
    case DT_SCALAR_EQUAL: return of_integer(a == b);
    case DT_SCALAR_NOT_EQUAL: return of_integer(a != b);
    case DT_SCALAR_LESS: return of_integer(a < b);
    case DT_SCALAR_LESS_EQUAL: return of_integer(a <= b);
    default: return of_float(NAN);
    }
}

static dt_scalar integer_scalar(dt_scalar_op op, const dt_scalar *x, dt_dtype dtype) {
    int64_t a = x[0].i, b = x[1].i;
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    unsigned bits = 8 * (unsigned)dt_dtype_bytes(dtype);
    uint64_t pattern = bits == 64 ? u : u & ((UINT64_C(1) << bits) - 1);
    switch (op) {
    case DT_SCALAR_ADD: return of_integer((int64_t)(u + v));
    case DT_SCALAR_SUBTRACT: return of_integer((int64_t)(u - v));
    case DT_SCALAR_MULTIPLY: return of_integer((int64_t)(u * v));
    case DT_SCALAR_DIVIDE: return of_integer(b == 0 ? 0 : b == -1 ? (int64_t)(0 - u) : a / b);
    case DT_SCALAR_REMAINDER: return of_integer(b == 0 || b == -1 ? 0 : a % b);
    case DT_SCALAR_NEGATE: return of_integer((int64_t)(0 - u));
    case DT_SCALAR_MINIMUM: return of_integer(a < b ? a : b);
    case DT_SCALAR_MAXIMUM: return of_integer(a > b ? a : b);
    case DT_SCALAR_ABSOLUTE: return of_integer(a < 0 ? (int64_t)(0 - u) : a);
    case DT_SCALAR_EQUAL: return of_integer(a == b);
    case DT_SCALAR_NOT_EQUAL: return of_integer(a != b);
    case DT_SCALAR_LESS: return of_integer(a < b);
    case DT_SCALAR_LESS_EQUAL: return of_integer(a <= b);
    case DT_SCALAR_AND: return of_integer(a & b);
    case DT_SCALAR_OR: return of_integer(a | b);
    case DT_SCALAR_XOR: return of_integer(a ^ b);
    case DT_SCALAR_SHIFT_LEFT: return of_integer(b < 0 || v >= bits ? 0 : (int64_t)(u << b));
    case DT_SCALAR_SHIFT_RIGHT: return of_integer(b < 0 || v >= bits ? 0 : (int64_t)(pattern >> b));
    case DT_SCALAR_FUSED: return of_integer((int64_t)(u * v + (uint64_t)x[2].i));
    case DT_SCALAR_HIGH_PRODUCT: return of_integer((int64_t)(((u & UINT32_MAX) * (v & UINT32_MAX)) >> 32));
    default: return x[0]; /* floor and round */
    }
}

static dt_scalar bits_of(dt_scalar x, dt_dtype from, dt_dtype to) {
    unsigned char bytes[8];
    dt_scalar_store(bytes, from, x);
    return dt_scalar_load(bytes, to);
}

/* ---- addresses ---- */

static int64_t element_of(const dt_run *run, const dt_address *address) {
    int64_t element = address->offset;
    for (int l = 0; l < run->nest->n_loops; l++) element += address->coefficients[l] * run->loops[l];
    for (int i = 0; i < address->n_terms; i++) element += address->term_coefficients[i] * run->scalars[address->terms[i]].i;
    return element;
}

static char *memory_of(const dt_run *run, const dt_address *address, dt_dtype *dtype) {
    *dtype = run->plan->buffers[run->kernel->buffers[address->buffer]].dtype;
    return (char *)run->buffers[address->buffer] + element_of(run, address) * (int64_t)dt_dtype_bytes(*dtype);
}

/* An index is counted once: where the loops that do not move it stand at their start. */
static bool check(const dt_run *run, const dt_instruction *x) {
    uint64_t depends = run->depends[x - run->nest->instructions];
    int64_t limit = x->integer == DT_BATCH ? run->launch->rows : x->integer == DT_GATHERED ? run->launch->valid : x->integer;
    int64_t value = run->scalars[x->operands[0]].i;
    if (value >= 0 && value < limit) return true;
    if (x->before && run->launch->bad_index->count > 0) return false;
    if (x->by_first_shard && run->launch->shard > 0) return false;
    for (int l = 0; l < run->nest->n_loops; l++)
        if (!(depends >> l & 1) && run->loops[l] != 0) return false;
    int64_t row = x->n_operands > 1 ? run->scalars[x->operands[1]].i : -1;
    dt_bad_index_add(run->launch->bad_index, &(dt_bad_index){.count = 1, .value = value, .row = row, .location = x->index, .limit = limit});
    return false;
}

/* The greater of two numbers that are equal, 0 and -0, is the second; but of one with a constant the other. */
static bool is_turned(const dt_nest *nest, const dt_instruction *x) {
    bool is_extreme = x->scalar == DT_SCALAR_MINIMUM || x->scalar == DT_SCALAR_MAXIMUM;
    return is_extreme && dt_dtype_is_float(x->dtype) && dt_nest_is_number(nest, x->operands[1]);
}

static dt_scalar convert(dt_scalar x, dt_dtype from, dt_dtype to) {
    bool by_way_of_f32 = from == DT_F64 && dt_dtype_is_half(to);
    return dt_scalar_convert(by_way_of_f32 ? dt_scalar_round(x, DT_F32) : x, from, to);
}

static dt_scalar evaluate(dt_run *run, const dt_instruction *x) {
    const dt_instruction *all = run->nest->instructions;
    dt_scalar operands[3] = {0};
    for (int k = 0; k < x->n_operands; k++) operands[k] = run->scalars[x->operands[k]];
    dt_dtype dtype;
    switch (x->kind) {
    case DT_INSTRUCTION_CONSTANT: return dt_dtype_is_float(x->dtype) ? dt_scalar_round(of_float(x->number), x->dtype) : of_integer(x->integer);
    case DT_INSTRUCTION_LOOP: return of_integer(run->loops[x->index]);
    case DT_INSTRUCTION_LAUNCH: return of_integer(((const int64_t *)run->launch)[x->index]);
    case DT_INSTRUCTION_LOAD:
        if (x->guard >= 0 && !run->scalars[x->guard].i) return run->scalars[x->otherwise];
        return dt_scalar_load(memory_of(run, &x->address, &dtype), x->dtype);
    case DT_INSTRUCTION_SCALAR:
        if (x->scalar == DT_SCALAR_SELECT) return operands[0].i ? operands[1] : operands[2];
        dtype = all[x->operands[0]].dtype;
        if (is_turned(run->nest, x)) operands[2] = operands[0], operands[0] = operands[1], operands[1] = operands[2];
        return dt_scalar_round((dt_dtype_is_float(dtype) ? float_scalar : integer_scalar)(x->scalar, operands, dtype), x->dtype);
    case DT_INSTRUCTION_CONVERT: return convert(operands[0], all[x->operands[0]].dtype, x->dtype);
    case DT_INSTRUCTION_BITS: return bits_of(operands[0], all[x->operands[0]].dtype, x->dtype);
    case DT_INSTRUCTION_REDUCED: return run->accumulators[x->index];
    case DT_INSTRUCTION_CHECK: return of_integer(check(run, x));
    }
    return of_integer(0);
}

/* ---- loops ---- */

static int64_t extent_of(const dt_run *run, int loop) {
    int64_t extent = run->nest->loops[loop].extent;
    return extent == DT_BATCH ? run->launch->rows : extent == DT_GATHERED ? run->launch->valid : extent;
}

/* The first iteration of the divided loop that belongs to `share` of those that the processes have. */
static int64_t start_of_share(const dt_run *run, int64_t share) {
    const dt_nest_share *how = &run->nest->share;
    int64_t extent = extent_of(run, dt_nest_part_loop(run->nest));
    if (how->n_units == 0) return share == run->launch->share ? 0 : extent;
    int64_t unit = dt_share_first_unit(how->n_units, how->turn, share, run->launch->n_shares) - how->first_unit;
    int64_t start = unit > 0 ? unit * how->unit_iterations : 0;
    return start < extent ? start : extent;
}

/* The same of `part` of a divided kernel, within the share. */
static int64_t start_of_part(const dt_run *run, int64_t part) {
    int64_t first = start_of_share(run, run->launch->share), end = start_of_share(run, run->launch->share + 1);
    if (run->nest->part_iterations == 0) return part == 0 ? first : end; /* part 0 does all of it */
    int64_t iterations = run->nest->part_iterations, n_units = (end - first + iterations - 1) / iterations;
    int64_t start = first + n_units * part / run->launch->n_parts * iterations;
    return start < end ? start : end;
}

static bool better(dt_scalar x, dt_scalar old, dt_dtype dtype, dt_combiner combiner) {
    bool most = combiner == DT_COMBINE_ARGMAX;
    if (!dt_dtype_is_float(dtype)) return most ? x.i > old.i : x.i < old.i;
    if (isnan(x.f) || isnan(old.f)) return isnan(x.f) && !isnan(old.f);
    return most ? x.f > old.f : x.f < old.f;
}

/* ---- sums as they are chosen ---- */

static int loop_at(const dt_run *run, int level) { return run->choices != NULL ? run->choices->order[level] : level; }

static bool is_in_parts(const dt_run *run) {
    int loop = run->choices != NULL && run->choices->tiled ? run->choices->packed_loop : -1;
    return loop >= 0 && run->nest->loops[loop].extent != run->choices->depth;
}

/* So many of the things that are dealt into tiles of at most `most` are in the tile that holds thing i, of n. Where n is known at run time only
 * (`at_run_time`), what no greatest tile holds is in tiles of one thing. */
static int tile_size(int64_t i, int64_t n, int64_t most, bool at_run_time) {
    if (at_run_time) return i < n - n % most ? (int)most : 1;
    int64_t n_tiles = (n + most - 1) / most;
    return (int)(n / n_tiles + (i < n % n_tiles * (n / n_tiles + 1)));
}

static const dt_tile *tile_at_work(const dt_run *run) {
    const dt_nest_choices *choices = run->choices;
    int row = run->nest->tiling.row_loop, vector = choices->vector_loop, rows = 1;
    if (row >= 0) {
        int64_t i = run->loops[row], n = extent_of(run, row), n_packed = choices->packed_rows > 0 ? n - n % choices->packed_rows : 0;
        bool at_run_time = dt_dim_is_symbol(run->nest->loops[row].extent);
        rows = i < n_packed ? choices->tile_rows : tile_size(i - n_packed, n - n_packed, choices->tile_rows, at_run_time);
    }
    int64_t i = run->loops[vector], n = extent_of(run, vector), width = choices->width;
    bool at_run_time = dt_dim_is_symbol(run->nest->loops[vector].extent);
    int vectors = tile_size(i / width, at_run_time ? n / width : (n + width - 1) / width, choices->tile_vectors, at_run_time);
    return dt_tile_find(choices, rows, vectors);
}

/* How many partial results each reduction has: a vector of a reduced loop one for each lane, a tile one for each of its chains. */
static int count_partials(const dt_run *run) {
    const dt_nest_choices *choices = run->choices;
    if (run->tile != NULL) return run->tile->chains;
    return choices != NULL && choices->width > 1 && dt_nest_reduces(run->nest, choices->vector_loop) ? choices->width : 1;
}

/* Which of them the iteration at work adds to. Steps of a tile's innermost loop are of tile->unroll iterations, dealt out to the chains; iterations
 * after the last whole step, where it is known at run time only how many there are, are of chain 0. */
static int partial_at_work(const dt_run *run) {
    const dt_nest_choices *choices = run->choices;
    if (run->n_partials == 1 || run->n_outer == run->nest->n_loops) return 0;
    if (run->tile == NULL) return (int)(run->loops[choices->vector_loop] % run->n_partials);
    int loop = choices->order[run->nest->n_loops - 1];
    int64_t extent = run->nest->loops[loop].extent, i = run->loops[loop], n = extent_of(run, loop);
    bool in_parts = is_in_parts(run) && loop == choices->packed_loop;
    if (in_parts) i -= run->part, n = run->part_end - run->part;
    bool at_run_time = dt_dim_is_symbol(extent) || (in_parts && extent % choices->depth != 0);
    return at_run_time && i >= n - n % run->tile->unroll ? 0 : (int)(i % run->n_partials);
}

/* Two results of one reduction as one. */
static dt_scalar combine(const dt_reduction *reduction, dt_scalar a, dt_scalar b) {
    static const dt_scalar_op ops[] = {[DT_COMBINE_SUM] = DT_SCALAR_ADD,
                                       [DT_COMBINE_PRODUCT] = DT_SCALAR_MULTIPLY,
                                       [DT_COMBINE_MAX] = DT_SCALAR_MAXIMUM,
                                       [DT_COMBINE_MIN] = DT_SCALAR_MINIMUM};
    dt_scalar pair[3] = {a, b, {0}};
    dt_dtype dtype = reduction->dtype;
    return dt_scalar_round((dt_dtype_is_float(dtype) ? float_scalar : integer_scalar)(ops[reduction->combiner], pair, dtype), dtype);
}

static void accumulate(dt_run *run, int r, int partial, int64_t position) {
    const dt_reduction *reduction = &run->nest->reductions[r];
    const dt_instruction *operand = &run->nest->instructions[reduction->operand];
    dt_scalar x = run->scalars[reduction->operand], *sum = &run->accumulators[r * run->n_partials + partial];
    if (dt_combiner_is_position(reduction->combiner)) { /* the first best one, whichever lane meets it */
        sum -= partial;
        if (position > 0 && !better(x, *sum, operand->dtype, reduction->combiner)) return;
        *sum = x;
        run->best[r] = position;
    } else if (run->choices != NULL && dt_reduction_is_product(run->nest, reduction)) {
        dt_scalar factors[3] = {run->scalars[operand->operands[0]], run->scalars[operand->operands[1]], *sum};
        if (run->choices->skips_zeros && run->scalars[run->nest->tiling.a].f == 0) return;
        *sum = float_scalar(DT_SCALAR_FUSED, factors, reduction->dtype);
    } else {
        *sum = combine(reduction, *sum, dt_scalar_convert(x, operand->dtype, reduction->dtype));
    }
}

static void evaluate_all(dt_run *run, bool inner, bool late) {
    for (int i = 0; i < run->nest->n_instructions; i++)
        if (run->inner[i] == inner && run->late[i] == late) run->scalars[i] = evaluate(run, &run->nest->instructions[i]);
}

static void walk_reduced(dt_run *run, int level, int64_t *position) {
    if (level == run->nest->n_loops) {
        int partial = partial_at_work(run);
        evaluate_all(run, true, false);
        for (int r = 0; r < run->nest->n_reductions; r++) accumulate(run, r, partial, *position);
        ++*position;
        return;
    }
    int loop = loop_at(run, level);
    bool in_parts = is_in_parts(run) && loop == run->choices->packed_loop;
    int64_t end = in_parts ? run->part_end : extent_of(run, loop);
    for (run->loops[loop] = in_parts ? run->part : 0; run->loops[loop] < end; run->loops[loop]++) walk_reduced(run, level + 1, position);
}

static void store(dt_run *run, const dt_store *x) {
    if (x->guard >= 0 && !run->scalars[x->guard].i) return;
    dt_dtype dtype;
    char *memory = memory_of(run, &x->address, &dtype);
    dt_scalar pair[3] = {run->scalars[x->operand]};
    if (x->accumulate) {
        pair[1] = dt_scalar_load(memory, dtype);
        pair[0] = dt_dtype_is_float(dtype) ? float_scalar(DT_SCALAR_ADD, pair, dtype) : integer_scalar(DT_SCALAR_ADD, pair, dtype);
        if (dt_dtype_is_half(dtype)) pair[0] = dt_scalar_round(pair[0], DT_F32);
    }
    dt_scalar_store(memory, dtype, dt_scalar_round(pair[0], dtype));
}

/* Partial results become one: the upper half of them is combined with the lower. A maximum beside its position is what the search has found; but a
 * lane that searches has no best element of its own. */
static void end_reductions(dt_run *run) {
    const dt_nest *nest = run->nest;
    int n = run->n_partials;
    for (int r = 0; r < nest->n_reductions; r++) {
        dt_scalar *partials = &run->accumulators[r * n];
        int finder = run->choices != NULL && n == 1 ? dt_reduction_found_by(nest, r) : -1;
        for (int half = dt_combiner_is_position(nest->reductions[r].combiner) ? 0 : n / 2; half > 0; half /= 2)
            for (int k = 0; k < half; k++) partials[k] = combine(&nest->reductions[r], partials[k], partials[k + half]);
        run->accumulators[r] = finder >= 0 ? run->accumulators[finder] : partials[0];
    }
    for (int r = 0; r < nest->n_reductions; r++)
        if (dt_combiner_is_position(nest->reductions[r].combiner)) run->accumulators[r] = of_integer(run->best[r]);
}

/* A part after the first goes on with the sums that those before it have stored, or adds to them. */
static void part_of_statement(dt_run *run, bool is_first) {
    const dt_nest *nest = run->nest;
    int64_t position = 0;
    dt_dtype dtype;
    for (int r = 0; r < nest->n_reductions; r++) {
        dt_scalar identity = dt_combiner_identity(nest->reductions[r].combiner, dt_reduction_element(nest, &nest->reductions[r]));
        for (int k = 0; k < run->n_partials; k++) run->accumulators[r * run->n_partials + k] = identity;
        run->best[r] = 0;
    }
    if (!is_first && !nest->stores[0].accumulate) {
        const char *memory = memory_of(run, &nest->stores[0].address, &dtype);
        run->accumulators[0] = dt_scalar_load(memory, dtype);
    }
    evaluate_all(run, false, false);
    if (nest->n_reductions > 0) walk_reduced(run, run->n_outer, &position);
    for (int l = 0; l < nest->n_loops; l++)
        if (dt_nest_reduces(nest, l)) run->loops[l] = 0; /* what follows is outside of them */
    end_reductions(run);
    evaluate_all(run, false, true);
    for (int s = 0; s < nest->n_stores; s++) store(run, &nest->stores[s]);
}

static void statement(dt_run *run) {
    run->tile = run->choices != NULL && run->choices->tiled ? tile_at_work(run) : NULL;
    run->n_partials = count_partials(run);
    if (!is_in_parts(run)) {
        part_of_statement(run, true);
        return;
    }
    assert(run->choices != NULL); /* it has parts */
    int64_t end = extent_of(run, run->choices->packed_loop), depth = run->choices->depth;
    for (int64_t part = 0; part == 0 || part < end; part += depth) { /* sums of nothing are stored too */
        run->part = part;
        run->part_end = part + depth < end ? part + depth : end;
        part_of_statement(run, part == 0);
    }
}

static void walk_outer(dt_run *run, int level) {
    if (level == run->n_outer) {
        statement(run);
        return;
    }
    int loop = loop_at(run, level);
    int64_t end = extent_of(run, loop);
    run->loops[loop] = 0;
    if (loop == dt_nest_part_loop(run->nest) && run->kernel->divided) {
        run->loops[loop] = start_of_part(run, run->launch->part);
        end = start_of_part(run, run->launch->part + 1);
    }
    for (; run->loops[loop] < end; run->loops[loop]++) walk_outer(run, level + 1);
}

static void mark_levels(dt_run *run) {
    const dt_nest *nest = run->nest;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        run->late[i] = x->kind == DT_INSTRUCTION_REDUCED;
        run->inner[i] = x->kind == DT_INSTRUCTION_LOOP && dt_nest_reduces(nest, x->index);
        for (int k = 0; k < dt_instruction_n_uses(x); k++) {
            run->late[i] |= run->late[dt_instruction_use(x, k)];
            run->inner[i] |= run->inner[dt_instruction_use(x, k)];
        }
        for (int l = 0; l < nest->n_loops && x->kind == DT_INSTRUCTION_LOAD; l++)
            run->inner[i] |= dt_nest_reduces(nest, l) && x->address.coefficients[l] != 0;
    }
}

static int most_partials(const dt_nest_choices *choices) {
    int most = choices != NULL ? choices->width : 1;
    for (int t = 0; choices != NULL && t < choices->n_tiles; t++)
        if (choices->tiles[t].chains > most) most = choices->tiles[t].chains;
    return most;
}

/* Of a kernel whose parts run at the same time: one after another, nest by nest, in the order that shows when one needs what another has done. Where
 * they meet they have done so. */
static bool kernel_runs_together(const dt_kernel_function *kernel) { return kernel->divided && !kernel->once; }

static void run_parts(dt_run *run, int n_shared) {
    enum {
        N_PARTS = 3
    };
    dt_launch launch = *run->launch;
    launch.n_parts = run->nest->part_iterations > 0 ? N_PARTS : 1;
    run->launch = &launch;
    for (launch.part = launch.n_parts - 1; launch.part >= 0; launch.part--) walk_outer(run, n_shared);
}

/* Nest n of the kernel, inside of its first n_shared loops, which are in iterations `shared`. choices: [n_nests], or NULL. */
static void run_nest(dt_arena *arena, dt_run run, const dt_nest_choices *choices, int n, const int64_t *shared, int n_shared) {
    const dt_nest *nest = &run.kernel->nests[n];
    size_t n_instructions = (size_t)nest->n_instructions;
    run.nest = nest;
    run.choices = choices != NULL ? &choices[n] : NULL;
    run.n_outer = dt_nest_n_outer(nest);
    run.loops = DT_NEW_ARRAY(arena, int64_t, nest->n_loops);
    run.scalars = DT_NEW_ARRAY(arena, dt_scalar, n_instructions);
    run.late = DT_NEW_ARRAY(arena, bool, n_instructions);
    run.inner = DT_NEW_ARRAY(arena, bool, n_instructions);
    run.depends = DT_NEW_ARRAY(arena, uint64_t, n_instructions);
    run.accumulators = DT_NEW_ARRAY(arena, dt_scalar, nest->n_reductions * most_partials(run.choices));
    run.best = DT_NEW_ARRAY(arena, int64_t, nest->n_reductions);
    mark_levels(&run);
    dt_nest_depends(nest, run.depends);
    for (int l = 0; l < n_shared; l++) run.loops[l] = shared[l];
    if (kernel_runs_together(run.kernel))
        run_parts(&run, n_shared);
    else
        walk_outer(&run, n_shared);
}

/* Nests [first, end) of one row loop, in its iteration `row`. */
static void run_row(dt_arena *arena, dt_run run, const dt_nest_choices *choices, int first, int end, int64_t row) {
    const dt_nest *nests = run.kernel->nests;
    for (int n = first, next; n < end; n = next) {
        for (next = n + 1; next < end && nests[next].in_blocks;) next++;
        bool in_blocks = next > n + 1;
        for (int64_t block = 0; block < (in_blocks ? nests[n].loops[1].extent : 1); block++)
            for (int k = n; k < next; k++) run_nest(arena, run, choices, k, (int64_t[]){row, block}, in_blocks ? 2 : 1);
    }
}

void dt_kernel_execute(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_choices *choices, void *const *buffers,
                       const dt_launch *launch) {
    dt_run run = {.plan = plan, .kernel = kernel, .buffers = buffers, .launch = launch};
    const dt_nest_choices *of_nests = choices != NULL ? dt_choices_of(choices, plan, kernel) : NULL;
    for (int n = 0; n < kernel->n_nests;) {
        int end = n + 1;
        if (kernel->divided && kernel->once && kernel->nests[n].part_iterations == 0 && launch->part != 0) {
            ; /* part 0 does all of it */
        } else if (kernel->once && kernel->nests[n].n_stores > 0 && buffers[kernel->nests[n].stores[0].address.buffer] == NULL) {
            ; /* nobody wants it */
        } else if (!kernel->nests[n].in_rows) {
            run_nest(arena, run, of_nests, n, NULL, 0);
        } else {
            while (end < kernel->n_nests && kernel->nests[end].in_rows) end++;
            for (int64_t row = 0; row < launch->rows; row++) run_row(arena, run, of_nests, n, end, row);
        }
        n = end;
    }
}
