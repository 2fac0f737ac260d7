/* nest: see nest.h. One evaluator for all classes; it knows loops, not ops.
 *
 * One loop is the lane: the body is computed for a run of its iterations at once, so that what one iteration costs besides arithmetic is paid once a
 * run. Where an operand is never outside along the lane, a run of it is an address and a step. All other loops turn as an odometer, which moves
 * every operand's position by what the loop contributes. The lane is the loop with the cheapest runs; sums along it differ in order from sums over
 * other loops, which in double does not matter to an oracle. */
#include "ir/nest.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    LANES = 512 /* longest run */
};

/* One access at the odometer's position. Dimensions that are always inside are in `element`; the others are checked at each run. */
typedef struct stream {
    const dt_wide *tensor;
    const dt_access *access;
    int64_t *strides; /* [rank] */
    bool *checked;    /* [rank] */
    bool has_checked;
    int64_t *numerators; /* [rank] of checked dimensions: offset and loops but the lane */
    int64_t *steps;      /* [n_loops] what a loop adds to `element` */
    int64_t element;
    bool *index_loops; /* [n_loops] the loops that move the operand that the access is indirect by; NULL when it is direct */
    bool uniform;      /* no checked dimension depends on the lane */
} stream;

typedef enum body_kind {
    BODY_OPERAND,
    BODY_PRODUCT,
    BODY_GENERAL
} body_kind;

typedef struct nest {
    const dt_value *value;
    const dt_loops *loops;
    const dt_launch *launch;
    int64_t *extents;   /* [n_loops], numbers */
    int64_t *positions; /* [n_loops], the odometer; of the lane where the run starts */
    int lane;           /* -1: no loops at all */
    int deep;           /* the last reduced loop when products are summed over all of it at once, else -1 */
    int n_streams;
    stream *streams;      /* one for each operand, and behind them the result of a scatter */
    bool *is_read;        /* [n_operands] by the body */
    bool *is_named;       /* [n_loops] by the body */
    dt_elements *runs;    /* [n_operands] what each reads along the run at hand */
    dt_scalar **gathered; /* [n_operands][LANES] of streams that are not uniform */
    bool **insides;
    body_kind kind;
    int factors[2];         /* operands of BODY_OPERAND, BODY_PRODUCT */
    dt_precision precision; /* of BODY_PRODUCT */
    dt_evaluation *evaluation;
    bool is_float; /* the body */
    dt_dtype body_dtype;
    dt_scalar *body;  /* [LANES] */
    dt_scalar *sums;  /* [LANES] */
    int64_t *winners; /* [LANES] positions of ARGMAX and ARGMIN */
    int64_t *places;  /* [n_loops] what a reduced loop adds to such a position */
    dt_wide *result;
} nest;

static int64_t resolve(int64_t dim, const dt_launch *launch) { return dim == DT_BATCH ? launch->rows : dim == DT_GATHERED ? launch->valid : dim; }

/* ---- making ready ---- */

/* May the index leave the dimension? Extents are numbers now, so this is exact but for `indirect`. */
static bool needs_check(const nest *nest, const dt_index *index, int64_t dim) {
    if (index->divisor != 1 || index->indirect >= 0) return true;
    int64_t lowest = index->offset, highest = index->offset;
    for (int l = 0; l < nest->loops->n_loops; l++) {
        if (nest->extents[l] == 0) return false;
        *(index->coefficients[l] > 0 ? &highest : &lowest) += index->coefficients[l] * (nest->extents[l] - 1);
    }
    return lowest < 0 || highest >= dim;
}

static void prepare_stream(dt_arena *scratch, const nest *nest, stream *stream, const dt_wide *tensor, const dt_access *access) {
    int n_loops = nest->loops->n_loops;
    stream->tensor = tensor;
    stream->access = access;
    stream->strides = DT_NEW_ARRAY(scratch, int64_t, tensor->rank);
    stream->checked = DT_NEW_ARRAY(scratch, bool, tensor->rank);
    stream->numerators = DT_NEW_ARRAY(scratch, int64_t, tensor->rank);
    stream->steps = DT_NEW_ARRAY(scratch, int64_t, n_loops);
    int64_t stride = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        const dt_index *index = &access->dims[d];
        stream->strides[d] = stride;
        stride *= tensor->dims[d];
        stream->checked[d] = needs_check(nest, index, tensor->dims[d]);
        stream->has_checked |= stream->checked[d];
        stream->numerators[d] = index->offset;
        if (index->indirect >= 0) {
            stream->index_loops = DT_NEW_ARRAY(scratch, bool, n_loops);
            const dt_access *by = &nest->loops->operands[index->indirect];
            for (int e = 0; e < nest->value->operands[index->indirect]->shape.rank; e++)
                for (int l = 0; l < n_loops; l++) stream->index_loops[l] |= by->dims[e].coefficients[l] != 0;
        }
        if (stream->checked[d]) continue;
        stream->element += index->offset * stream->strides[d];
        for (int l = 0; l < n_loops; l++) stream->steps[l] += index->coefficients[l] * stream->strides[d];
    }
}

static bool is_uniform(const stream *stream, int lane) {
    if (lane < 0) return true;
    if (stream->index_loops != NULL && stream->index_loops[lane]) return false;
    for (int d = 0; d < stream->tensor->rank; d++)
        if (stream->checked[d] && stream->access->dims[d].coefficients[lane] != 0) return false;
    return true;
}

/* Which operands and which loops the body names. */
static void find_names(const dt_formula *node, bool *seen, bool *is_read, bool *is_named) {
    if (seen[node->number]) return;
    seen[node->number] = true;
    if (node->kind == DT_FORMULA_OPERAND || node->kind == DT_FORMULA_INSIDE) is_read[node->index] = true;
    if (node->kind == DT_FORMULA_LOOP) is_named[node->index] = true;
    for (int i = 0; i < node->n_arguments; i++) find_names(node->arguments[i], seen, is_read, is_named);
}

/* What an iteration costs when loop `lane` is the lane, in rough nanoseconds. */
static double lane_cost(const nest *nest, int lane) {
    double cost = 30.0 / (double)(nest->extents[lane] < LANES ? nest->extents[lane] : LANES);
    if (lane >= nest->loops->n_outer) cost += 0.3;
    for (int k = 0; k < nest->n_streams; k++) {
        if (k < nest->value->n_operands && !nest->is_read[k]) continue;
        const stream *stream = &nest->streams[k];
        int64_t step = stream->steps[lane];
        cost += !is_uniform(stream, lane) ? 10 : step == 0 || step == 1 ? 0.2 : 1;
    }
    return cost;
}

static void choose_lane(nest *nest) {
    double best = INFINITY;
    nest->lane = -1;
    for (int l = 0; l < nest->loops->n_loops; l++) {
        double cost = lane_cost(nest, l);
        if (cost < best) {
            best = cost;
            nest->lane = l;
        }
    }
}

static dt_status *prepare_body(dt_arena *scratch, nest *nest) {
    const dt_formula *body = nest->loops->body;
    int n = nest->value->n_operands;
    dt_dtype *dtypes = DT_NEW_ARRAY(scratch, dt_dtype, n);
    for (int k = 0; k < n; k++) dtypes[k] = nest->value->operands[k]->dtype;
    DT_TRY(dt_evaluation_prepare(scratch, body, dtypes, nest->value->dtype, DT_ARITHMETIC_ORACLE, &nest->evaluation));
    nest->body_dtype = dt_evaluation_dtype(nest->evaluation);
    nest->is_float = dt_dtype_is_float(nest->body_dtype);
    nest->is_read = DT_NEW_ARRAY(scratch, bool, n);
    nest->is_named = DT_NEW_ARRAY(scratch, bool, nest->loops->n_loops);
    find_names(body, DT_NEW_ARRAY(scratch, bool, body->number + 1), nest->is_read, nest->is_named);
    nest->kind = BODY_GENERAL;
    if (body->kind == DT_FORMULA_OPERAND) {
        nest->kind = BODY_OPERAND;
        nest->factors[0] = body->index;
    } else if (nest->is_float && dt_formula_is_product(body, nest->factors, &nest->precision)) {
        nest->kind = BODY_PRODUCT;
    }
    return NULL;
}

/* Sums of products over lanes that are not summed keep the sums at hand for the whole last loop, where nothing has to be checked along it. */
static void choose_deep(nest *nest) {
    int last = nest->loops->n_loops - 1;
    bool fits = nest->kind == BODY_PRODUCT && nest->loops->combiner == DT_COMBINE_SUM && nest->lane >= 0 && nest->lane < nest->loops->n_outer &&
                last >= nest->loops->n_outer;
    for (int i = 0; fits && i < 2; i++) {
        const stream *stream = &nest->streams[nest->factors[i]];
        fits = stream->uniform && is_uniform(stream, last);
    }
    nest->deep = fits ? last : -1;
}

static void prepare_buffers(dt_arena *scratch, nest *nest) {
    int n = nest->value->n_operands, n_loops = nest->loops->n_loops;
    nest->runs = DT_NEW_ARRAY(scratch, dt_elements, n);
    nest->gathered = DT_NEW_ARRAY(scratch, dt_scalar *, n);
    nest->insides = DT_NEW_ARRAY(scratch, bool *, n);
    for (int k = 0; k < nest->n_streams; k++) {
        stream *stream = &nest->streams[k];
        stream->uniform = is_uniform(stream, nest->lane);
        if (k >= n || stream->uniform) continue;
        nest->gathered[k] = DT_NEW_ARRAY(scratch, dt_scalar, LANES);
        nest->insides[k] = DT_NEW_ARRAY(scratch, bool, LANES);
    }
    choose_deep(nest);
    nest->body = DT_NEW_ARRAY(scratch, dt_scalar, LANES);
    nest->sums = DT_NEW_ARRAY(scratch, dt_scalar, LANES);
    nest->winners = DT_NEW_ARRAY(scratch, int64_t, LANES);
    nest->places = DT_NEW_ARRAY(scratch, int64_t, n_loops);
    int64_t place = 1;
    for (int l = n_loops - 1; l >= nest->loops->n_outer; l--) {
        nest->places[l] = place;
        place *= nest->extents[l];
    }
}

/* ---- reading ---- */

/* Counts an index out of range, once: where the loops that do not move the index stand at their start. */
static void count_bad(const nest *nest, const stream *stream, int64_t lane_position, int64_t index, int64_t limit) {
    int64_t row = -1;
    for (int l = 0; l < nest->loops->n_loops; l++) {
        int64_t position = l == nest->lane ? lane_position : nest->positions[l];
        if (!stream->index_loops[l] && position != 0) return;
        if (nest->loops->extents[l] == DT_BATCH) row = position + nest->launch->row_offset;
    }
    dt_bad_index_add(nest->launch->bad_index, &(dt_bad_index){.count = 1, .value = index, .row = row, .site = nest->value->id, .limit = limit});
}

static int64_t locate(const nest *nest, int k, int64_t lane_position);

/* The element of the operand that an access is indirect by. */
static int64_t indirect_index(const nest *nest, int k, int64_t lane_position) {
    int64_t element = locate(nest, k, lane_position);
    return element < 0 ? 0 : nest->streams[k].tensor->data[element].i;
}

/* The element that stream k reads at a place of the lane; -1: outside. */
static int64_t locate(const nest *nest, int k, int64_t lane_position) {
    const stream *stream = &nest->streams[k];
    int lane = nest->lane;
    int64_t element = stream->element + (lane >= 0 ? stream->steps[lane] * lane_position : 0);
    if (!stream->has_checked) return element;
    for (int d = 0; d < stream->tensor->rank; d++) {
        if (!stream->checked[d]) continue;
        const dt_index *index = &stream->access->dims[d];
        int64_t place = stream->numerators[d] + (lane >= 0 ? index->coefficients[lane] * lane_position : 0);
        if (index->indirect >= 0) place += indirect_index(nest, index->indirect, lane_position);
        if (index->divisor != 1) {
            if (place % index->divisor != 0) return -1;
            place /= index->divisor;
        }
        if (place < 0 || place >= stream->tensor->dims[d]) {
            if (index->indirect >= 0) count_bad(nest, stream, lane_position, place, stream->tensor->dims[d]);
            return -1;
        }
        element += place * stream->strides[d];
    }
    return element;
}

/* The run of operand k that starts at `start` and has n lanes. `outside` must outlive it. */
static void read_run(nest *nest, int k, int64_t start, int n, dt_scalar *outside) {
    const stream *stream = &nest->streams[k];
    dt_elements *run = &nest->runs[k];
    *outside = stream->access->outside;
    if (stream->uniform) {
        int64_t element = locate(nest, k, start);
        run->outside = element < 0;
        run->insides = NULL;
        run->data = element >= 0 ? stream->tensor->data + element : outside;
        run->step = element >= 0 && nest->lane >= 0 ? stream->steps[nest->lane] : 0;
        return;
    }
    for (int i = 0; i < n; i++) {
        int64_t element = locate(nest, k, start + i);
        nest->insides[k][i] = element >= 0;
        nest->gathered[k][i] = element >= 0 ? stream->tensor->data[element] : *outside;
    }
    run->data = nest->gathered[k];
    run->step = 1;
    run->insides = nest->insides[k];
}

/* Is the body the same along the run, as where all that it reads is outside? */
static bool is_constant(const nest *nest) {
    if (nest->lane >= 0 && nest->is_named[nest->lane]) return false;
    for (int k = 0; k < nest->value->n_operands; k++)
        if (nest->is_read[k] && nest->runs[k].step != 0) return false;
    return true;
}

/* The body along a run. */
static dt_elements evaluate_run(nest *nest, int64_t start, int n, dt_scalar *outsides) {
    int n_operands = nest->value->n_operands, lane = nest->lane;
    for (int k = 0; k < n_operands; k++)
        if (nest->is_read[k]) read_run(nest, k, start, n, &outsides[k]);
    if (nest->kind == BODY_OPERAND) return nest->runs[nest->factors[0]];
    if (nest->kind == BODY_PRODUCT) {
        const dt_elements *a = &nest->runs[nest->factors[0]], *b = &nest->runs[nest->factors[1]];
        for (int i = 0; i < n; i++) nest->body[i].f = a->data[i * a->step].f * b->data[i * b->step].f;
        return (dt_elements){.data = nest->body, .step = 1};
    }
    if (is_constant(nest)) n = 1;
    if (lane >= 0) nest->positions[lane] = start;
    dt_evaluate_run(nest->evaluation, &(dt_evaluation_run){nest->runs, nest->positions, lane, nest->launch}, n, nest->body);
    if (lane >= 0) nest->positions[lane] = 0;
    return (dt_elements){.data = nest->body, .step = n > 1};
}

/* ---- combining ---- */

static double combine_floats(dt_combiner combiner, double a, double b) {
    switch (combiner) {
    case DT_COMBINE_SUM: return a + b;
    case DT_COMBINE_PRODUCT: return a * b;
    case DT_COMBINE_MAX: return a > b || isnan(a) ? a : b;
    case DT_COMBINE_MIN: return a < b || isnan(a) ? a : b;
    default: return b;
    }
}

static int64_t combine_integers(dt_combiner combiner, int64_t a, int64_t b) {
    switch (combiner) {
    case DT_COMBINE_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case DT_COMBINE_PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
    case DT_COMBINE_MAX: return a > b ? a : b;
    case DT_COMBINE_MIN: return a < b ? a : b;
    default: return b;
    }
}

/* A NaN beats every number, as it does in a maximum. */
static bool is_better(const nest *nest, dt_scalar candidate, dt_scalar best, int64_t place, int64_t best_place) {
    bool most = nest->loops->combiner == DT_COMBINE_ARGMAX;
    if (nest->is_float) {
        if (isnan(candidate.f) != isnan(best.f)) return isnan(candidate.f);
        if (isnan(candidate.f) || candidate.f == best.f) return place < best_place;
        return most ? candidate.f > best.f : candidate.f < best.f;
    }
    if (candidate.i == best.i) return place < best_place;
    return most ? candidate.i > best.i : candidate.i < best.i;
}

static void combine_places(nest *nest, const dt_elements *body, int64_t start, int n, bool along) {
    int64_t place = 0;
    for (int l = nest->loops->n_outer; l < nest->loops->n_loops; l++) place += nest->places[l] * (l == nest->lane ? start : nest->positions[l]);
    for (int i = 0; i < n; i++) {
        int to = along ? 0 : i;
        int64_t here = place + (along ? i * nest->places[nest->lane] : 0);
        dt_scalar candidate = body->data[i * body->step];
        if (!is_better(nest, candidate, nest->sums[to], here, nest->winners[to])) continue;
        nest->sums[to] = candidate;
        nest->winners[to] = here;
    }
}

/* Adds a run to the sums: each lane to its own, or all to the first when the lane is reduced. */
static void combine_run(nest *nest, const dt_elements *body, int64_t start, int n, bool along) {
    dt_combiner combiner = nest->loops->combiner;
    if (combiner == DT_COMBINE_ARGMAX || combiner == DT_COMBINE_ARGMIN) {
        combine_places(nest, body, start, n, along);
    } else if (nest->is_float) {
        for (int i = 0; i < n; i++) {
            double *sum = &nest->sums[along ? 0 : i].f;
            *sum = combine_floats(combiner, *sum, body->data[i * body->step].f);
        }
    } else {
        for (int i = 0; i < n; i++) {
            int64_t *sum = &nest->sums[along ? 0 : i].i;
            *sum = combine_integers(combiner, *sum, body->data[i * body->step].i);
        }
    }
}

/* sums[i] += a[0] b[i] + a[a_step] b[i + b_step] + … for n_terms terms; the arrays do not overlap. Four at a time, so that sums are moved less. */
static void add_multiples(double *restrict sums, int n, const double *restrict a, int64_t a_step, const double *restrict b, int64_t b_step,
                          int64_t n_terms) {
    int64_t t = 0;
    for (; t + 4 <= n_terms; t += 4, a += 4 * a_step, b += 4 * b_step) {
        const double a0 = a[0], a1 = a[a_step], a2 = a[2 * a_step], a3 = a[3 * a_step];
        const double *b1 = b + b_step, *b2 = b + 2 * b_step, *b3 = b + 3 * b_step;
        for (int i = 0; i < n; i++) sums[i] = (((sums[i] + a0 * b[i]) + a1 * b1[i]) + a2 * b2[i]) + a3 * b3[i];
    }
    for (; t < n_terms; t++, a += a_step, b += b_step)
        for (int i = 0; i < n; i++) sums[i] += *a * b[i];
}

/* Several partial sums, so that additions need not wait for each other. */
static double dot(const double *restrict a, const double *restrict b, int n) {
    double sums[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) sums[j] += a[i + j] * b[i + j];
    for (; i < n; i++) sums[0] += a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/* What the deep loop adds to where a run starts; a run that is outside stays there. */
static int64_t deep_step(const nest *nest, int factor) {
    int k = nest->factors[factor];
    return nest->deep >= 0 && !nest->runs[k].outside ? nest->streams[k].steps[nest->deep] : 0;
}

/* A sum of products, where nearly all time goes, without a pass over memory between product and sum. */
static void combine_products(nest *nest, int n, bool along) {
    int broadcast = nest->runs[nest->factors[0]].step == 0 ? 0 : 1;
    const dt_elements *a = &nest->runs[nest->factors[broadcast]], *b = &nest->runs[nest->factors[1 - broadcast]];
    double *sums = &nest->sums[0].f;
    int64_t n_terms = nest->deep >= 0 ? nest->extents[nest->deep] : 1, a_step = deep_step(nest, broadcast), b_step = deep_step(nest, 1 - broadcast);
    if (!along && a->step == 0 && b->step == 1) {
        add_multiples(sums, n, &a->data->f, a_step, &b->data->f, b_step, n_terms);
    } else if (along && a->step == 1 && b->step == 1) {
        sums[0] += dot(&a->data->f, &b->data->f, n);
    } else {
        for (int64_t t = 0; t < n_terms; t++)
            for (int i = 0; i < n; i++) sums[along ? 0 : i] += a->data[t * a_step + i * a->step].f * b->data[t * b_step + i * b->step].f;
    }
}

static void compute_run(nest *nest, int64_t start, int n, bool along, dt_scalar *outsides) {
    if (nest->kind == BODY_PRODUCT && nest->loops->combiner == DT_COMBINE_SUM) {
        for (int i = 0; i < 2; i++) read_run(nest, nest->factors[i], start, n, &outsides[nest->factors[i]]);
        combine_products(nest, n, along);
    } else {
        dt_elements body = evaluate_run(nest, start, n, outsides);
        combine_run(nest, &body, start, n, along);
    }
}

/* ---- the odometer ---- */

static void move(nest *nest, int loop, int64_t by) {
    nest->positions[loop] += by;
    for (int k = 0; k < nest->n_streams; k++) {
        stream *stream = &nest->streams[k];
        stream->element += stream->steps[loop] * by;
        if (!stream->has_checked) continue;
        for (int d = 0; d < stream->tensor->rank; d++) stream->numerators[d] += stream->access->dims[d].coefficients[loop] * by;
    }
}

/* The next position of loops [first, end) but lane and deep, the last turning fastest; false when all are back at 0. */
static bool advance(nest *nest, int first, int end) {
    for (int l = end - 1; l >= first; l--) {
        if (l == nest->lane || l == nest->deep) continue;
        if (nest->positions[l] + 1 < nest->extents[l]) {
            move(nest, l, 1);
            return true;
        }
        move(nest, l, -nest->positions[l]);
    }
    return false;
}

/* Puts n sums, or the positions that won, side by side along the lane from `element` on; they are rounded once all are there. */
static void put_sums(const nest *nest, int64_t element, int64_t step, int n) {
    dt_scalar *to = nest->result->data + element;
    bool is_position = nest->loops->combiner == DT_COMBINE_ARGMAX || nest->loops->combiner == DT_COMBINE_ARGMIN;
    for (int i = 0; i < n && is_position; i++) to[i * step].i = nest->winners[i] == INT64_MAX ? 0 : nest->winners[i];
    for (int i = 0; i < n && !is_position; i++) to[i * step] = nest->sums[i];
}

static void put_body(const nest *nest, int64_t element, int64_t step, int n, const dt_elements *body) {
    dt_scalar *to = nest->result->data + element;
    for (int i = 0; i < n; i++) to[i * step] = body->data[i * body->step];
}

/* What the elements of the result become in memory. */
static void round_result(const nest *nest) {
    dt_wide *result = nest->result;
    dt_dtype dtype = nest->value->dtype;
    bool is_position = nest->loops->combiner == DT_COMBINE_ARGMAX || nest->loops->combiner == DT_COMBINE_ARGMIN;
    if (is_position || nest->is_float == dt_dtype_is_float(dtype))
        dt_scalars_round(result->data, result->n, dtype);
    else
        for (size_t i = 0; i < result->n; i++) result->data[i] = dt_scalar_convert(result->data[i], nest->body_dtype, dtype);
}

/* The reduced loops, for n lanes from `start` on, or where the lane is reduced for one element. */
static void reduce_run(nest *nest, int64_t start, int n, dt_scalar *outsides) {
    const dt_loops *loops = nest->loops;
    bool along = nest->lane >= loops->n_outer;
    int64_t n_lane = along ? nest->extents[nest->lane] : 0;
    dt_scalar identity = dt_combiner_identity(nest->loops->combiner, nest->body_dtype);
    for (int i = 0; i < n; i++) {
        nest->sums[i] = identity;
        nest->winners[i] = INT64_MAX;
    }
    for (int l = loops->n_outer; l < loops->n_loops; l++)
        if (nest->extents[l] == 0) return;
    do {
        if (!along) compute_run(nest, start, n, false, outsides);
        for (int64_t at = 0; at < n_lane; at += LANES) compute_run(nest, at, (int)(n_lane - at < LANES ? n_lane - at : LANES), true, outsides);
    } while (advance(nest, loops->n_outer, loops->n_loops));
}

static void run_loops(nest *nest, dt_scalar *outsides) {
    const dt_loops *loops = nest->loops;
    int lane = nest->lane;
    bool along = lane >= loops->n_outer;
    int64_t n_lanes = along || lane < 0 ? 1 : nest->extents[lane], step = 1;
    for (int l = loops->n_outer - 1; l > lane; l--) step *= nest->extents[l];
    do {
        int64_t element = 0;
        for (int l = 0; l < loops->n_outer; l++) element = element * nest->extents[l] + (l == lane ? 0 : nest->positions[l]);
        for (int64_t start = 0; start < n_lanes; start += LANES) {
            int n = (int)(n_lanes - start < LANES ? n_lanes - start : LANES);
            if (loops->n_loops == loops->n_outer) {
                dt_elements body = evaluate_run(nest, start, n, outsides);
                put_body(nest, element + start * step, step, n, &body);
            } else {
                reduce_run(nest, start, n, outsides);
                put_sums(nest, element + start * step, step, n);
            }
        }
    } while (advance(nest, 0, loops->n_outer));
}

/* Every iteration adds its body to the element that the result's access names. */
static void run_scatter(nest *nest, dt_scalar *outsides) {
    int lane = nest->lane, to = nest->n_streams - 1;
    int64_t n_lane = lane >= 0 ? nest->extents[lane] : 1;
    for (size_t i = 0; i < nest->result->n; i++) nest->result->data[i] = (dt_scalar){.i = 0};
    do {
        for (int64_t start = 0; start < n_lane; start += LANES) {
            int n = (int)(n_lane - start < LANES ? n_lane - start : LANES);
            dt_elements body = evaluate_run(nest, start, n, outsides);
            for (int i = 0; i < n; i++) {
                int64_t element = locate(nest, to, start + i);
                if (element < 0) continue;
                dt_scalar *sum = &nest->result->data[element];
                if (nest->is_float)
                    sum->f += body.data[i * body.step].f;
                else
                    sum->i = combine_integers(DT_COMBINE_SUM, sum->i, body.data[i * body.step].i);
            }
        }
    } while (advance(nest, 0, nest->loops->n_loops));
}

/* Factors are rounded once each, not for each product: what stands outside of them is 0, or as good. */
static void round_factors(dt_arena *scratch, nest *nest) {
    for (int i = 0; i < 2; i++) {
        stream *stream = &nest->streams[nest->factors[i]];
        dt_wide *rounded = dt_arena_copy(scratch, stream->tensor, sizeof *rounded);
        rounded->data = DT_NEW_ARRAY(scratch, dt_scalar, rounded->n);
        for (size_t k = 0; k < rounded->n; k++) rounded->data[k].f = dt_factor_round(stream->tensor->data[k].f, nest->precision);
        stream->tensor = rounded;
    }
}

dt_status *dt_nest_run(dt_arena *scratch, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *result) {
    const dt_loops *loops = dt_value_loops(scratch, value);
    assert(loops != NULL);
    nest nest = {.value = value, .loops = loops, .launch = launch, .result = result, .n_streams = value->n_operands + (loops->result != NULL)};
    nest.extents = DT_NEW_ARRAY(scratch, int64_t, loops->n_loops);
    nest.positions = DT_NEW_ARRAY(scratch, int64_t, loops->n_loops);
    for (int l = 0; l < loops->n_loops; l++) nest.extents[l] = resolve(loops->extents[l], launch);
    nest.streams = DT_NEW_ARRAY(scratch, stream, nest.n_streams);
    for (int k = 0; k < value->n_operands; k++) prepare_stream(scratch, &nest, &nest.streams[k], &operands[k], &loops->operands[k]);
    if (loops->result != NULL) prepare_stream(scratch, &nest, &nest.streams[value->n_operands], result, loops->result);
    DT_TRY(prepare_body(scratch, &nest));
    if (result->n == 0) return NULL;
    if (nest.kind == BODY_PRODUCT && nest.precision != DT_PRECISION_F32) round_factors(scratch, &nest);
    choose_lane(&nest);
    prepare_buffers(scratch, &nest);
    dt_scalar *outsides = DT_NEW_ARRAY(scratch, dt_scalar, value->n_operands);
    if (loops->result == NULL) {
        run_loops(&nest, outsides);
        round_result(&nest);
        return NULL;
    }
    for (int l = 0; l < loops->n_loops; l++)
        if (nest.extents[l] == 0) {
            memset(result->data, 0, result->n * sizeof *result->data);
            return NULL;
        }
    run_scatter(&nest, outsides);
    round_result(&nest);
    return NULL;
}
