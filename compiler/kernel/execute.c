/* execute: see the header. */
#include "compiler/kernel/execute.h"
#include "base/half.h"
#include "compiler/kernel/affine.h"
#include "compiler/kernel/analysis.h"
#include "ir/evaluate.h"

#include <math.h>
#include <string.h>

typedef struct dt_run {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    void *const *buffers;
    const dt_launch *launch;
    const dt_nest *nest;
    int64_t *loops;
    dt_scalar *scalars, *accumulators;
    int64_t *best;      /* position of an ARGMAX or ARGMIN so far */
    bool *late, *inner; /* depends on a result of a reduction; on a reduced loop */
    uint64_t *depends;  /* of each instruction: the set of loops that it depends on */
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
    for (int l = 0; l < run->nest->n_loops; l++)
        if (!(depends >> l & 1) && run->loops[l] != 0) return false;
    int64_t row = x->n_operands > 1 ? run->scalars[x->operands[1]].i : -1;
    dt_bad_index_add(run->launch->bad_index, &(dt_bad_index){.count = 1, .value = value, .row = row, .location = x->index, .limit = limit});
    return false;
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
        return dt_scalar_round((dt_dtype_is_float(dtype) ? float_scalar : integer_scalar)(x->scalar, operands, dtype), x->dtype);
    case DT_INSTRUCTION_CONVERT: return dt_scalar_convert(operands[0], all[x->operands[0]].dtype, x->dtype);
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

/* The first iteration of loop 0 that belongs to `share` of those that the processes have. */
static int64_t start_of_share(const dt_run *run, int64_t share) {
    const dt_nest_share *how = &run->nest->share;
    int64_t extent = extent_of(run, 0);
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

static void accumulate(dt_run *run, int r, int64_t position) {
    const dt_reduction *reduction = &run->nest->reductions[r];
    dt_scalar x = run->scalars[reduction->operand];
    dt_dtype dtype = run->nest->instructions[reduction->operand].dtype;
    static const dt_scalar_op ops[] = {[DT_COMBINE_SUM] = DT_SCALAR_ADD,
                                       [DT_COMBINE_PRODUCT] = DT_SCALAR_MULTIPLY,
                                       [DT_COMBINE_MAX] = DT_SCALAR_MAXIMUM,
                                       [DT_COMBINE_MIN] = DT_SCALAR_MINIMUM};
    if (dt_combiner_is_position(reduction->combiner)) {
        if (position > 0 && !better(x, run->accumulators[r], dtype, reduction->combiner)) return;
        run->accumulators[r] = x;
        run->best[r] = position;
    } else {
        dt_scalar_op op = ops[reduction->combiner];
        dt_scalar pair[3] = {run->accumulators[r], dt_scalar_convert(x, dtype, reduction->dtype), {0}};
        dtype = reduction->dtype;
        run->accumulators[r] = dt_scalar_round((dt_dtype_is_float(dtype) ? float_scalar : integer_scalar)(op, pair, dtype), dtype);
    }
}

static void evaluate_all(dt_run *run, bool late) {
    for (int i = 0; i < run->nest->n_instructions; i++)
        if (run->late[i] == late) run->scalars[i] = evaluate(run, &run->nest->instructions[i]);
}

static void walk_reduced(dt_run *run, int loop, int64_t *position) {
    if (loop == run->nest->n_loops) {
        evaluate_all(run, false);
        for (int r = 0; r < run->nest->n_reductions; r++) accumulate(run, r, *position);
        ++*position;
        return;
    }
    for (run->loops[loop] = 0; run->loops[loop] < extent_of(run, loop); run->loops[loop]++) walk_reduced(run, loop + 1, position);
}

static void store(dt_run *run, const dt_store *x) {
    if (x->guard >= 0 && !run->scalars[x->guard].i) return;
    dt_dtype dtype;
    char *memory = memory_of(run, &x->address, &dtype);
    dt_scalar pair[3] = {run->scalars[x->operand]};
    if (x->accumulate) {
        pair[1] = dt_scalar_load(memory, dtype);
        pair[0] = dt_dtype_is_float(dtype) ? float_scalar(DT_SCALAR_ADD, pair, dtype) : integer_scalar(DT_SCALAR_ADD, pair, dtype);
    }
    dt_scalar_store(memory, dtype, dt_scalar_round(pair[0], dtype));
}

static void statement(dt_run *run, int n_outer) {
    const dt_nest *nest = run->nest;
    int64_t position = 0;
    for (int r = 0; r < nest->n_reductions; r++) {
        run->accumulators[r] = dt_combiner_identity(nest->reductions[r].combiner, nest->reductions[r].dtype);
        run->best[r] = 0;
    }
    if (nest->n_reductions > 0) walk_reduced(run, n_outer, &position);
    for (int l = n_outer; l < nest->n_loops; l++) run->loops[l] = 0; /* what follows is outside of them */
    for (int r = 0; r < nest->n_reductions; r++)
        if (dt_combiner_is_position(nest->reductions[r].combiner)) run->accumulators[r] = of_integer(run->best[r]);
    for (int i = 0; i < nest->n_instructions; i++) /* what no reduced loop changes may not have been met at all */
        if (run->late[i] || !run->inner[i])
            if (position == 0 || run->late[i]) run->scalars[i] = evaluate(run, &nest->instructions[i]);
    for (int s = 0; s < nest->n_stores; s++) store(run, &nest->stores[s]);
}

static void walk_outer(dt_run *run, int loop, int n_outer) {
    if (loop == n_outer) {
        statement(run, n_outer);
        return;
    }
    int64_t end = extent_of(run, loop);
    run->loops[loop] = 0;
    if (loop == 0 && run->kernel->divided) {
        run->loops[loop] = start_of_part(run, run->launch->part);
        end = start_of_part(run, run->launch->part + 1);
    }
    for (; run->loops[loop] < end; run->loops[loop]++) walk_outer(run, loop + 1, n_outer);
}

static void mark_levels(dt_run *run) {
    const dt_nest *nest = run->nest;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        run->late[i] = x->kind == DT_INSTRUCTION_REDUCED;
        run->inner[i] = x->kind == DT_INSTRUCTION_LOOP && nest->loops[x->index].reduced;
        int users[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, n = 0;
        for (int k = 0; k < x->n_operands; k++) users[n++] = x->operands[k];
        if (x->kind == DT_INSTRUCTION_LOAD && x->guard >= 0) users[n++] = x->guard, users[n++] = x->otherwise;
        for (int k = 0; k < n; k++) run->late[i] |= run->late[users[k]], run->inner[i] |= run->inner[users[k]];
        if (x->kind != DT_INSTRUCTION_LOAD) continue;
        for (int t = 0; t < x->address.n_terms; t++) {
            run->late[i] |= run->late[x->address.terms[t]];
            run->inner[i] |= run->inner[x->address.terms[t]];
        }
        for (int l = 0; l < nest->n_loops; l++) run->inner[i] |= nest->loops[l].reduced && x->address.coefficients[l] != 0;
    }
}

/* Inside of its first n_shared loops, which are in iterations `shared`. */
static void run_nest(dt_arena *arena, dt_run run, const dt_nest *nest, const int64_t *shared, int n_shared) {
    size_t n = (size_t)nest->n_instructions;
    run.nest = nest;
    run.loops = DT_NEW_ARRAY(arena, int64_t, nest->n_loops);
    run.scalars = DT_NEW_ARRAY(arena, dt_scalar, n);
    run.late = DT_NEW_ARRAY(arena, bool, n);
    run.inner = DT_NEW_ARRAY(arena, bool, n);
    run.depends = DT_NEW_ARRAY(arena, uint64_t, n);
    run.accumulators = DT_NEW_ARRAY(arena, dt_scalar, nest->n_reductions);
    run.best = DT_NEW_ARRAY(arena, int64_t, nest->n_reductions);
    mark_levels(&run);
    dt_nest_depends(nest, run.depends);
    int n_outer = 0;
    while (n_outer < nest->n_loops && !nest->loops[n_outer].reduced) n_outer++;
    for (int l = 0; l < n_shared; l++) run.loops[l] = shared[l];
    walk_outer(&run, n_shared, n_outer);
}

/* Nests [first, end) of one row loop, in its iteration `row`. */
static void run_row(dt_arena *arena, dt_run run, int first, int end, int64_t row) {
    const dt_nest *nests = run.kernel->nests;
    for (int n = first, next; n < end; n = next) {
        for (next = n + 1; next < end && nests[next].in_blocks;) next++;
        bool in_blocks = next > n + 1;
        for (int64_t block = 0; block < (in_blocks ? nests[n].loops[1].extent : 1); block++)
            for (int k = n; k < next; k++) run_nest(arena, run, &nests[k], (int64_t[]){row, block}, in_blocks ? 2 : 1);
    }
}

void dt_kernel_execute(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, void *const *buffers, const dt_launch *launch) {
    dt_run run = {.plan = plan, .kernel = kernel, .buffers = buffers, .launch = launch};
    for (int n = 0; n < kernel->n_nests;) {
        int end = n + 1;
        if (kernel->divided && kernel->nests[n].part_iterations == 0 && launch->part != 0) {
            ; /* part 0 does all of it */
        } else if (!kernel->nests[n].in_rows) {
            run_nest(arena, run, &kernel->nests[n], NULL, 0);
        } else {
            while (end < kernel->n_nests && kernel->nests[end].in_rows) end++;
            for (int64_t row = 0; row < launch->rows; row++) run_row(arena, run, n, end, row);
        }
        n = end;
    }
}
