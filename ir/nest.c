/* nest: see nest.h. One evaluator for all classes; it knows loops, not ops.
 *
 * One loop is the run loop: the body is computed for a run of its iterations at once, so that what one iteration costs besides arithmetic is paid
 * once a run. Where an operand is never outside along it, a run of it is an address and a step. All other loops count like an odometer, which moves
 * every operand's position by what the loop contributes. The run loop is the one with the cheapest runs; sums along it differ in order from sums over
 * other loops, which in double does not matter to an oracle. */
#include "ir/nest.h"

#include "ir/nest_product.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    MOST_RUN = 512 /* longest run */
};

/* One access at the odometer's position. Dimensions that are always inside are in `element`; the others are checked at each run. */
typedef struct stream {
    const dt_wide *tensor;
    const dt_access *access;
    bool *checked; /* [rank] */
    bool has_checked;
    int64_t *numerators; /* [rank] of checked dimensions: offset and loops but the run loop */
    int64_t *steps;      /* [n_loops] what a loop adds to `element` */
    int64_t element;
    bool *index_loops; /* [n_loops] the loops that move the operand that the access is indirect by; NULL when it is direct */
    bool uniform;      /* no checked dimension depends on the run loop */
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
    int64_t *positions; /* [n_loops], the odometer; of the run loop: where the run starts */
    int run_loop;       /* -1: no loops at all */
    int n_streams;
    stream *streams;      /* one for each operand, and after them the result of a scatter */
    bool *is_read;        /* [n_operands] by the body */
    bool *is_named;       /* [n_loops] by the body */
    dt_elements *runs;    /* [n_operands] what each reads along the run at hand */
    dt_scalar **gathered; /* [n_operands][MOST_RUN] of streams that are not uniform */
    bool **insides;
    body_kind kind;
    int factors[2];         /* operands of BODY_OPERAND, BODY_PRODUCT */
    dt_precision precision; /* of BODY_PRODUCT */
    dt_evaluation *evaluation;
    bool is_float; /* the body */
    dt_dtype body_dtype;
    dt_scalar *body;  /* [MOST_RUN] */
    dt_scalar *sums;  /* [MOST_RUN] */
    int64_t *winners; /* [MOST_RUN] positions of ARGMAX and ARGMIN */
    int64_t *weights; /* [n_loops] what a reduced loop adds to such a position */
    dt_wide *result;
} nest;

static int64_t resolve(int64_t dim, const dt_launch *launch) { return dim == DT_BATCH ? launch->rows : dim == DT_GATHERED ? launch->valid : dim; }

static int64_t *extents_of(dt_arena *arena, const dt_loops *loops, const dt_launch *launch) {
    int64_t *extents = DT_NEW_ARRAY(arena, int64_t, loops->n_loops);
    for (int l = 0; l < loops->n_loops; l++) extents[l] = resolve(loops->extents[l], launch);
    return extents;
}

/* ---- tensors ---- */

dt_wide dt_wide_make(dt_arena *arena, dt_dtype dtype, dt_shape shape) {
    int64_t *strides = DT_NEW_ARRAY(arena, int64_t, shape.rank), stride = 1;
    for (int d = shape.rank - 1; d >= 0; stride *= shape.dims[d--]) strides[d] = stride;
    return (dt_wide){dtype, shape.rank, shape.dims, strides, 0, (size_t)stride, NULL};
}

bool dt_wide_is_dense(const dt_wide *wide) {
    int64_t stride = 1;
    bool is_dense = wide->start == 0;
    for (int d = wide->rank - 1; d >= 0; stride *= wide->dims[d--]) is_dense &= wide->dims[d] == 1 || wide->strides[d] == stride;
    return is_dense || wide->n == 0;
}

/* Dimensions from `d` on, of which the first element is `from`. */
static dt_scalar *copy_from(const dt_wide *wide, int d, const dt_scalar *from, dt_scalar *to) {
    if (d == wide->rank) *to++ = *from;
    for (int64_t i = 0; d < wide->rank && i < wide->dims[d]; i++, from += wide->strides[d])
        if (d + 1 < wide->rank)
            to = copy_from(wide, d + 1, from, to);
        else
            *to++ = *from;
    return to;
}

void dt_wide_copy(const dt_wide *from, dt_scalar *to) { copy_from(from, 0, from->data + from->start, to); }

/* ---- making ready ---- */

static void prepare_stream(dt_arena *scratch, const nest *nest, stream *stream, const dt_wide *tensor, const dt_access *access) {
    int n_loops = nest->loops->n_loops;
    stream->tensor = tensor;
    stream->access = access;
    stream->element = tensor->start;
    stream->checked = DT_NEW_ARRAY(scratch, bool, tensor->rank);
    stream->numerators = DT_NEW_ARRAY(scratch, int64_t, tensor->rank);
    stream->steps = DT_NEW_ARRAY(scratch, int64_t, n_loops);
    for (int d = 0; d < tensor->rank; d++) {
        const dt_index *index = &access->dims[d];
        int64_t stride = tensor->strides[d];
        stream->checked[d] = dt_index_may_leave(index, n_loops, nest->extents, tensor->dims[d]);
        stream->has_checked |= stream->checked[d];
        stream->numerators[d] = index->offset;
        if (index->indirect >= 0) {
            stream->index_loops = DT_NEW_ARRAY(scratch, bool, n_loops);
            const dt_access *by = &nest->loops->operands[index->indirect];
            for (int e = 0; e < nest->value->operands[index->indirect]->shape.rank; e++)
                for (int l = 0; l < n_loops; l++) stream->index_loops[l] |= by->dims[e].coefficients[l] != 0;
        }
        if (stream->checked[d]) continue;
        stream->element += index->offset * stride;
        for (int l = 0; l < n_loops; l++) stream->steps[l] += index->coefficients[l] * stride;
    }
}

static bool is_uniform(const stream *stream, int run_loop) {
    if (run_loop < 0) return true;
    if (stream->index_loops != NULL && stream->index_loops[run_loop]) return false;
    for (int d = 0; d < stream->tensor->rank; d++)
        if (stream->checked[d] && stream->access->dims[d].coefficients[run_loop] != 0) return false;
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

/* What an iteration costs when loop `run_loop` is walked in runs, in rough nanoseconds. */
static double run_cost(const nest *nest, int run_loop) {
    double cost = 30.0 / (double)(nest->extents[run_loop] < MOST_RUN ? nest->extents[run_loop] : MOST_RUN);
    if (run_loop >= nest->loops->n_outer) cost += 0.3;
    for (int k = 0; k < nest->n_streams; k++) {
        if (k < nest->value->n_operands && !nest->is_read[k]) continue;
        const stream *stream = &nest->streams[k];
        int64_t step = stream->steps[run_loop];
        cost += !is_uniform(stream, run_loop) ? 10 : step == 0 || step == 1 ? 0.2 : 1;
    }
    return cost;
}

static void choose_lane(nest *nest) {
    double best = INFINITY;
    nest->run_loop = -1;
    for (int l = 0; l < nest->loops->n_loops; l++) {
        double cost = run_cost(nest, l);
        if (cost < best) {
            best = cost;
            nest->run_loop = l;
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

static void prepare_buffers(dt_arena *scratch, nest *nest) {
    int n = nest->value->n_operands, n_loops = nest->loops->n_loops;
    nest->runs = DT_NEW_ARRAY(scratch, dt_elements, n);
    nest->gathered = DT_NEW_ARRAY(scratch, dt_scalar *, n);
    nest->insides = DT_NEW_ARRAY(scratch, bool *, n);
    for (int k = 0; k < nest->n_streams; k++) {
        stream *stream = &nest->streams[k];
        stream->uniform = is_uniform(stream, nest->run_loop);
        if (k >= n || stream->uniform) continue;
        nest->gathered[k] = DT_NEW_ARRAY(scratch, dt_scalar, MOST_RUN);
        nest->insides[k] = DT_NEW_ARRAY(scratch, bool, MOST_RUN);
    }
    nest->body = DT_NEW_ARRAY(scratch, dt_scalar, MOST_RUN);
    nest->sums = DT_NEW_ARRAY(scratch, dt_scalar, MOST_RUN);
    nest->winners = DT_NEW_ARRAY(scratch, int64_t, MOST_RUN);
    nest->weights = DT_NEW_ARRAY(scratch, int64_t, n_loops);
    int64_t weight = 1;
    for (int l = n_loops - 1; l >= nest->loops->n_outer; l--) {
        nest->weights[l] = weight;
        weight *= nest->extents[l];
    }
}

/* ---- reading ---- */

/* Counts an index out of range, once: where the loops that do not move the index stand at their start. */
static void count_bad(const nest *nest, const stream *stream, int64_t run_position, int64_t index, int64_t limit) {
    int64_t row = -1;
    for (int l = 0; l < nest->loops->n_loops; l++) {
        int64_t position = l == nest->run_loop ? run_position : nest->positions[l];
        if (!stream->index_loops[l] && position != 0) return;
        if (nest->loops->extents[l] == DT_BATCH) row = position + nest->launch->row_offset;
    }
    dt_bad_index_add(nest->launch->bad_index, &(dt_bad_index){.count = 1, .value = index, .row = row, .location = nest->value->id, .limit = limit});
}

static int64_t locate(const nest *nest, int k, int64_t run_position);

/* The element of the operand that an access is indirect by. */
static int64_t indirect_index(const nest *nest, int k, int64_t run_position) {
    int64_t element = locate(nest, k, run_position);
    return element < 0 ? 0 : nest->streams[k].tensor->data[element].i;
}

/* The element that stream k reads at a position of the run loop; -1: outside. */
static int64_t locate(const nest *nest, int k, int64_t run_position) {
    const stream *stream = &nest->streams[k];
    int run_loop = nest->run_loop;
    int64_t element = stream->element + (run_loop >= 0 ? stream->steps[run_loop] * run_position : 0);
    if (!stream->has_checked) return element;
    for (int d = 0; d < stream->tensor->rank; d++) {
        if (!stream->checked[d]) continue;
        const dt_index *index = &stream->access->dims[d];
        int64_t position = stream->numerators[d] + (run_loop >= 0 ? index->coefficients[run_loop] * run_position : 0);
        if (index->indirect >= 0) position += indirect_index(nest, index->indirect, run_position);
        if (index->divisor != 1) {
            if (position % index->divisor != 0) return -1;
            position /= index->divisor;
        }
        if (position < 0 || position >= stream->tensor->dims[d]) {
            if (index->indirect >= 0) count_bad(nest, stream, run_position, position, stream->tensor->dims[d]);
            return -1;
        }
        element += position * stream->tensor->strides[d];
    }
    return element;
}

/* The run of operand k that starts at `start` and has n elements. `outside` must outlive it. */
static void read_run(nest *nest, int k, int64_t start, int n, dt_scalar *outside) {
    const stream *stream = &nest->streams[k];
    dt_elements *run = &nest->runs[k];
    *outside = stream->access->outside;
    if (stream->uniform) {
        int64_t element = locate(nest, k, start);
        run->outside = element < 0;
        run->insides = NULL;
        run->data = element >= 0 ? stream->tensor->data + element : outside;
        run->step = element >= 0 && nest->run_loop >= 0 ? stream->steps[nest->run_loop] : 0;
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
    if (nest->run_loop >= 0 && nest->is_named[nest->run_loop]) return false;
    for (int k = 0; k < nest->value->n_operands; k++)
        if (nest->is_read[k] && nest->runs[k].step != 0) return false;
    return true;
}

/* The body along a run; what has to be computed is put into `to`. */
static dt_elements evaluate_run(nest *nest, int64_t start, int n, dt_scalar *outsides, dt_scalar *to) {
    int n_operands = nest->value->n_operands, run_loop = nest->run_loop;
    for (int k = 0; k < n_operands; k++)
        if (nest->is_read[k]) read_run(nest, k, start, n, &outsides[k]);
    if (nest->kind == BODY_OPERAND) return nest->runs[nest->factors[0]];
    if (nest->kind == BODY_PRODUCT) {
        const dt_elements *a = &nest->runs[nest->factors[0]], *b = &nest->runs[nest->factors[1]];
        for (int i = 0; i < n; i++) to[i].f = a->data[i * a->step].f * b->data[i * b->step].f;
        return (dt_elements){.data = to, .step = 1};
    }
    if (is_constant(nest)) n = 1;
    if (run_loop >= 0) nest->positions[run_loop] = start;
    dt_evaluate_run(nest->evaluation, &(dt_evaluation_run){nest->runs, nest->positions, run_loop, nest->launch}, n, to);
    if (run_loop >= 0) nest->positions[run_loop] = 0;
    return (dt_elements){.data = to, .step = n > 1};
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
static bool is_better(const nest *nest, dt_scalar candidate, dt_scalar best, int64_t position, int64_t best_position) {
    bool most = nest->loops->combiner == DT_COMBINE_ARGMAX;
    if (nest->is_float) {
        if (isnan(candidate.f) != isnan(best.f)) return isnan(candidate.f);
        if (isnan(candidate.f) || candidate.f == best.f) return position < best_position;
        return most ? candidate.f > best.f : candidate.f < best.f;
    }
    if (candidate.i == best.i) return position < best_position;
    return most ? candidate.i > best.i : candidate.i < best.i;
}

static void combine_positions(nest *nest, const dt_elements *body, int64_t start, int n, bool along) {
    int64_t position = 0;
    for (int l = nest->loops->n_outer; l < nest->loops->n_loops; l++)
        position += nest->weights[l] * (l == nest->run_loop ? start : nest->positions[l]);
    for (int i = 0; i < n; i++) {
        int to = along ? 0 : i;
        int64_t here = position + (along ? i * nest->weights[nest->run_loop] : 0);
        dt_scalar candidate = body->data[i * body->step];
        if (!is_better(nest, candidate, nest->sums[to], here, nest->winners[to])) continue;
        nest->sums[to] = candidate;
        nest->winners[to] = here;
    }
}

/* Adds a run to the sums: each element to its own, or all to the first when the run loop is reduced. */
static void combine_run(nest *nest, const dt_elements *body, int64_t start, int n, bool along) {
    dt_combiner combiner = nest->loops->combiner;
    if (dt_combiner_is_position(combiner)) {
        combine_positions(nest, body, start, n, along);
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

static void compute_run(nest *nest, int64_t start, int n, bool along, dt_scalar *outsides) {
    dt_elements body = evaluate_run(nest, start, n, outsides, nest->body);
    combine_run(nest, &body, start, n, along);
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

/* The next position of loops [first, end) but the run loop, the last one fastest; false when all are back at 0. */
static bool advance(nest *nest, int first, int end) {
    for (int l = end - 1; l >= first; l--) {
        if (l == nest->run_loop) continue;
        if (nest->positions[l] + 1 < nest->extents[l]) {
            move(nest, l, 1);
            return true;
        }
        move(nest, l, -nest->positions[l]);
    }
    return false;
}

/* Puts n sums, or the positions that won, side by side along the run loop from `element` on; they are rounded once all are there. */
static void put_sums(const nest *nest, int64_t element, int64_t step, int n) {
    dt_scalar *to = nest->result->data + element;
    bool is_position = dt_combiner_is_position(nest->loops->combiner);
    for (int i = 0; i < n && is_position; i++) to[i * step].i = nest->winners[i] == INT64_MAX ? 0 : nest->winners[i];
    for (int i = 0; i < n && !is_position; i++) to[i * step] = nest->sums[i];
}

static void put_body(dt_scalar *to, int64_t step, int n, const dt_elements *body) {
    const dt_scalar first = *body->data; /* it may stand where the first of them goes */
    for (int i = 0; i < n; i++) to[i * step] = body->step == 0 ? first : body->data[i * body->step];
}

/* What the elements of the result become in memory. */
static void round_result(const nest *nest) {
    dt_wide *result = nest->result;
    dt_dtype dtype = nest->value->dtype;
    bool is_position = dt_combiner_is_position(nest->loops->combiner);
    if (is_position || nest->is_float == dt_dtype_is_float(dtype))
        dt_scalars_round(result->data, result->n, dtype);
    else
        for (size_t i = 0; i < result->n; i++) result->data[i] = dt_scalar_convert(result->data[i], nest->body_dtype, dtype);
}

/* The reduced loops, for n iterations of the run loop from `start` on, or, where that is reduced, for one element. */
static void reduce_run(nest *nest, int64_t start, int n, dt_scalar *outsides) {
    const dt_loops *loops = nest->loops;
    bool along = nest->run_loop >= loops->n_outer;
    int64_t n_iterations = along ? nest->extents[nest->run_loop] : 0;
    dt_scalar identity = dt_combiner_identity(nest->loops->combiner, nest->body_dtype);
    for (int i = 0; i < n; i++) {
        nest->sums[i] = identity;
        nest->winners[i] = INT64_MAX;
    }
    for (int l = loops->n_outer; l < loops->n_loops; l++)
        if (nest->extents[l] == 0) return;
    do {
        if (!along) compute_run(nest, start, n, false, outsides);
        for (int64_t at = 0; at < n_iterations; at += MOST_RUN)
            compute_run(nest, at, (int)(n_iterations - at < MOST_RUN ? n_iterations - at : MOST_RUN), true, outsides);
    } while (advance(nest, loops->n_outer, loops->n_loops));
}

static void run_loops(nest *nest, dt_scalar *outsides) {
    const dt_loops *loops = nest->loops;
    int run_loop = nest->run_loop;
    bool along = run_loop >= loops->n_outer;
    int64_t n_iterations = along || run_loop < 0 ? 1 : nest->extents[run_loop], step = 1;
    for (int l = loops->n_outer - 1; l > run_loop; l--) step *= nest->extents[l];
    do {
        int64_t element = 0;
        for (int l = 0; l < loops->n_outer; l++) element = element * nest->extents[l] + (l == run_loop ? 0 : nest->positions[l]);
        for (int64_t start = 0; start < n_iterations; start += MOST_RUN) {
            int n = (int)(n_iterations - start < MOST_RUN ? n_iterations - start : MOST_RUN);
            if (loops->n_loops == loops->n_outer) {
                dt_scalar *to = nest->result->data + element + start * step;
                dt_elements body = evaluate_run(nest, start, n, outsides, step == 1 ? to : nest->body);
                if (body.data != to || body.step != 1) put_body(to, step, n, &body);
            } else {
                reduce_run(nest, start, n, outsides);
                put_sums(nest, element + start * step, step, n);
            }
        }
    } while (advance(nest, 0, loops->n_outer));
}

/* Every iteration adds its body to the element that the result's access names. */
static void run_scatter(nest *nest, dt_scalar *outsides) {
    int run_loop = nest->run_loop, to = nest->n_streams - 1;
    int64_t n_iterations = run_loop >= 0 ? nest->extents[run_loop] : 1;
    for (size_t i = 0; i < nest->result->n; i++) nest->result->data[i] = (dt_scalar){.i = 0};
    do {
        for (int64_t start = 0; start < n_iterations; start += MOST_RUN) {
            int n = (int)(n_iterations - start < MOST_RUN ? n_iterations - start : MOST_RUN);
            dt_elements body = evaluate_run(nest, start, n, outsides, nest->body);
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
        dt_wide *rounded = DT_NEW(scratch, dt_wide);
        *rounded = dt_wide_make(scratch, stream->tensor->dtype, (dt_shape){stream->tensor->rank, (int64_t *)stream->tensor->dims});
        rounded->data = DT_NEW_ARRAY(scratch, dt_scalar, rounded->n);
        dt_wide_copy(stream->tensor, rounded->data);
        for (size_t k = 0; k < rounded->n; k++) rounded->data[k].f = dt_factor_round(rounded->data[k].f, nest->precision);
        prepare_stream(scratch, nest, stream, rounded, stream->access);
    }
}

static bool is_sum_of_products(const nest *nest) {
    bool is_direct = nest->loops->result == NULL;
    for (int i = 0; i < 2 && nest->kind == BODY_PRODUCT; i++) is_direct &= nest->streams[nest->factors[i]].index_loops == NULL;
    return is_direct && nest->kind == BODY_PRODUCT && nest->loops->combiner == DT_COMBINE_SUM;
}

static void run_products(nest *nest, dt_arena *scratch) {
    dt_nest_factor factors[2];
    for (int i = 0; i < 2; i++) factors[i] = (dt_nest_factor){nest->streams[nest->factors[i]].tensor, nest->streams[nest->factors[i]].access};
    dt_nest_product(scratch, nest->loops, nest->extents, factors, nest->result);
    round_result(nest);
}

dt_status *dt_nest_run(dt_arena *scratch, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *result) {
    const dt_loops *loops = dt_value_loops(scratch, value);
    assert(loops != NULL);
    nest nest = {.value = value, .loops = loops, .launch = launch, .result = result, .n_streams = value->n_operands + (loops->result != NULL)};
    nest.extents = extents_of(scratch, loops, launch);
    nest.positions = DT_NEW_ARRAY(scratch, int64_t, loops->n_loops);
    nest.streams = DT_NEW_ARRAY(scratch, stream, nest.n_streams);
    for (int k = 0; k < value->n_operands; k++) prepare_stream(scratch, &nest, &nest.streams[k], &operands[k], &loops->operands[k]);
    if (loops->result != NULL) prepare_stream(scratch, &nest, &nest.streams[value->n_operands], result, loops->result);
    DT_TRY(prepare_body(scratch, &nest));
    if (result->n == 0) return NULL;
    if (nest.kind == BODY_PRODUCT && nest.precision != DT_PRECISION_F32) round_factors(scratch, &nest);
    if (is_sum_of_products(&nest)) {
        run_products(&nest, scratch);
        return NULL;
    }
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

/* ---- views ---- */

/* Of a body that reads nothing and names no loop. */
static bool find_constant(dt_arena *arena, const dt_value *value, const dt_loops *loops, const dt_launch *launch, dt_scalar *constant) {
    bool *is_named = DT_NEW_ARRAY(arena, bool, loops->n_loops);
    find_names(loops->body, DT_NEW_ARRAY(arena, bool, loops->body->number + 1), NULL, is_named);
    for (int l = 0; l < loops->n_loops; l++)
        if (is_named[l]) return false;
    dt_evaluation *evaluation;
    dt_status *status = dt_evaluation_prepare(arena, loops->body, NULL, value->dtype, DT_ARITHMETIC_ORACLE, &evaluation);
    if (status != NULL || dt_evaluation_dtype(evaluation) != value->dtype) {
        dt_status_free(status); /* dt_nest_run says it again */
        return false;
    }
    *constant = dt_scalar_round(dt_evaluate(evaluation, &(dt_evaluation_context){.launch = launch}), value->dtype);
    return true;
}

/* Where the elements of an operand stand that the loops only walk; false where one may be outside. */
static bool find_elements(const dt_loops *loops, const int64_t *extents, const dt_access *access, const dt_wide *tensor, int64_t *strides,
                          int64_t *start) {
    *start = tensor->start;
    for (int d = 0; d < tensor->rank; d++) {
        const dt_index *index = &access->dims[d];
        if (dt_index_may_leave(index, loops->n_loops, extents, tensor->dims[d])) return false;
        *start += index->offset * tensor->strides[d];
        for (int l = 0; l < loops->n_loops; l++) strides[l] += index->coefficients[l] * tensor->strides[d];
    }
    return true;
}

bool dt_nest_view(dt_arena *arena, const dt_value *value, const dt_launch *launch, const dt_wide *operands, dt_wide *view, int *operand,
                  dt_scalar *constant) {
    const dt_loops *loops = dt_value_loops(arena, value);
    const dt_formula *body = loops->body;
    if (loops->result != NULL || loops->combiner != DT_COMBINE_NONE || view->n == 0) return false;
    int64_t *strides = DT_NEW_ARRAY(arena, int64_t, loops->n_loops);
    view->strides = strides;
    *operand = body->kind == DT_FORMULA_OPERAND ? body->index : -1;
    if (value->n_operands == 0) return find_constant(arena, value, loops, launch, constant);
    return *operand >= 0 && operands[*operand].dtype == value->dtype &&
           find_elements(loops, extents_of(arena, loops, launch), &loops->operands[*operand], &operands[*operand], strides, &view->start);
}
