/* choose_gpu_loops: who runs which loops of a nest, how many iterations of a sum are written out, and which integers are narrow: those of 64 bits are
 * mostly indices, whose range can be computed from the extents of the loops. */
#include "compiler/passes/choose_gpu.h"

/* ---- who runs which loops ---- */

static bool reduces_together(const dt_gpu_chooser *c) {
    const dt_gpu_target *target = c->scope->target;
    if (c->function->form != DT_GPU_TEAMS || c->function->team == 1 || c->nest->n_reductions == 0) return false;
    int64_t elements = dt_nest_iterations(c->scope->plan, c->nest, dt_nest_outer_loops(c->nest) & ~c->how->shared);
    int64_t terms = dt_nest_iterations(c->scope->plan, c->nest, c->how->reduced);
    return elements <= 1 || (elements < target->few_for_a_team && terms >= target->much_to_reduce);
}

void dt_gpu_choose_loops(dt_gpu_chooser *c) {
    const dt_gpu_function *f = c->function;
    uint64_t outer = dt_nest_outer_loops(c->nest), parallel = dt_nest_parallel_loops(c->scope->plan, c->scope->kernel, c->nest);
    c->how->reduced = dt_nest_reduced_loops(c->nest);
    c->how->shared = outer & (f->form == DT_GPU_TEAMS ? dt_first_loops(f->n_shared) : f->form == DT_GPU_TILES ? f->tiles.both : 0);
    c->how->dealt = outer & parallel & ~c->how->shared;
    c->how->serial = outer & ~parallel & ~c->how->shared;
    c->how->together = reduces_together(c);
}

/* ---- iterations that are written out ---- */

/* Iterations of the innermost loops that are best written out, so that their loads are on their way together. Their order stays. */
static int64_t unroll_factor(const dt_gpu_chooser *c) {
    int n_loads = 0, n_all = 0;
    for (int i = 0; i < c->nest->n_instructions; i++) {
        if (!c->needed[i] || c->late[i] || c->levels[i] != c->n_levels - 1) continue;
        n_loads += c->nest->instructions[i].kind == DT_INSTRUCTION_LOAD;
        n_all++;
    }
    return n_loads == 0 || n_all > c->scope->target->most_unrolled_instructions ? 1 : c->scope->target->loads_in_flight / n_loads;
}

/* Of each loop so many as short loops within it leave. */
void dt_gpu_choose_unrolling(dt_gpu_chooser *c) {
    bool in_order = !c->how->together && c->function->form != DT_GPU_TILES;
    int64_t iterations = in_order ? unroll_factor(c) : 1;
    c->how->unrolled = DT_NEW_ARRAY(c->arena, int, c->nest->n_loops);
    for (int l = c->nest->n_loops - 1; l >= 0; l--) {
        int64_t extent = c->nest->loops[l].extent;
        c->how->unrolled[l] = iterations > 1 && extent != 1 && (c->how->reduced >> l & 1) ? (int)iterations : 1;
        iterations = extent > 0 ? iterations / extent : 0;
    }
}

/* ---- narrow integers ---- */

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

static range range_of(const dt_gpu_chooser *c, const range *ranges, const dt_instruction *x) {
    if (x->kind == DT_INSTRUCTION_LOOP) {
        int64_t iterations = dt_trip_count(c->scope->plan, c->nest->loops[x->index].extent);
        return iterations < 0 ? (range){0} : between(0, iterations > 0 ? iterations - 1 : 0);
    }
    if (x->kind == DT_INSTRUCTION_CONSTANT && !dt_dtype_is_float(x->dtype)) return between(x->integer, x->integer);
    if (x->kind == DT_INSTRUCTION_SCALAR && x->dtype == DT_I64 && x->n_operands <= 2) return scalar_range(ranges, x);
    dt_dtype from = x->kind == DT_INSTRUCTION_CONVERT ? c->nest->instructions[x->operands[0]].dtype : DT_F32;
    return from == DT_U8 || from == DT_BOOL ? between(0, 255) : from == DT_I8 ? between(-128, 127) : (range){0};
}

void dt_gpu_choose_narrow(dt_gpu_chooser *c) {
    const int64_t narrow = 1 << 30; /* leaves room for a sum of two */
    range *ranges = DT_NEW_ARRAY(c->arena, range, c->nest->n_instructions);
    c->how->narrow = DT_NEW_ARRAY(c->arena, bool, c->nest->n_instructions);
    for (int i = 0; i < c->nest->n_instructions; i++) {
        ranges[i] = range_of(c, ranges, &c->nest->instructions[i]);
        c->how->narrow[i] = c->nest->instructions[i].dtype == DT_I64 && ranges[i].known && ranges[i].least >= -narrow && ranges[i].greatest <= narrow;
    }
}
