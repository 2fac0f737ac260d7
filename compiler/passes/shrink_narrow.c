/* shrink_narrow: how a part of a value is computed from parts of its operands.
 *
 * What a part reads follows from the loops. With which attributes the op makes just that part is said by its row; that it really does is not taken
 * on trust: the narrowed value's loops must be the old ones, moved to where the parts begin. They walk the same elements in the same order, so
 * every bit is the same; and a row that cannot be narrowed, or not like this, is found out here. */
#include "compiler/passes/shrink.h"

#include <string.h>

dt_range *dt_whole_range(dt_arena *arena, dt_shape shape) {
    dt_range *spans = DT_NEW_ARRAY(arena, dt_range, shape.rank);
    for (int d = 0; d < shape.rank; d++) spans[d].high = shape.dims[d];
    return spans;
}

bool dt_range_is_whole(const dt_range *spans, dt_shape shape) {
    for (int d = 0; d < shape.rank; d++)
        if (spans[d].low != 0 || spans[d].high != shape.dims[d]) return false;
    return true;
}

static dt_shape shape_of(dt_arena *arena, const dt_range *spans, int rank) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    for (int d = 0; d < rank; d++) dims[d] = dt_range_extent(spans[d]);
    return (dt_shape){rank, dims};
}

/* ---- what is read ---- */

static int64_t divide_down(int64_t x, int64_t divisor) { return x / divisor - (x % divisor < 0); }

/* The indices of a dimension that the loops come to while they make `part`; 0 .. 0 when all of them are outside. */
static dt_range span_of_index(const dt_loops *loops, const dt_range *part, const dt_index *index, int64_t dim) {
    dt_range whole = {0, dim};
    int64_t first = index->offset, last = index->offset;
    if (dt_dim_is_symbol(dim) || index->indirect >= 0) return whole;
    for (int l = 0; l < loops->n_loops; l++) {
        int64_t coefficient = index->coefficients[l];
        dt_range walked = l < loops->n_outer ? part[l] : (dt_range){0, loops->extents[l]};
        if (coefficient == 0) continue;
        if (dt_range_extent(walked) <= 0) return whole; /* B, or nothing */
        first += coefficient * (coefficient > 0 ? walked.low : walked.high - 1);
        last += coefficient * (coefficient > 0 ? walked.high - 1 : walked.low);
    }
    dt_range span = {-divide_down(-first, index->divisor), divide_down(last, index->divisor) + 1};
    if (span.low < 0) span.low = 0;
    if (span.high > dim) span.high = dim;
    return span.low < span.high ? span : (dt_range){0, 0};
}

/* An operand of which nothing is read: the only one of its kind keeps an element, one of several is left out. */
static bool read_operand(const dt_value *value, int k, const dt_loops *loops, const dt_range *part, dt_range *spans) {
    dt_shape shape = value->operands[k]->shape;
    for (int d = 0; d < shape.rank; d++) {
        spans[d] = span_of_index(loops, part, &loops->operands[k].dims[d], shape.dims[d]);
        if (spans[d].high != 0 || shape.dims[d] == 0) continue;
        if (value->op->variadic) return false;
        spans[d].high = 1;
    }
    return true;
}

/* ---- are these the same loops, moved? ---- */

/* Node by node; nodes of formulas that were made alike have the same numbers, so each pair is met once. */
static bool same_formula(const dt_formula *a, const dt_formula *b, bool *seen) {
    if (a->number != b->number) return false;
    if (seen[a->number]) return true;
    seen[a->number] = true;
    if (a->kind != b->kind || a->index != b->index || a->scalar != b->scalar || a->dtype != b->dtype || a->n_arguments != b->n_arguments)
        return false;
    if (memcmp(&a->literal, &b->literal, sizeof a->literal) != 0) return false;
    if (a->literal_is_integer != b->literal_is_integer || (a->literal_is_integer && a->integer != b->integer)) return false;
    for (int i = 0; i < a->n_arguments; i++)
        if (!same_formula(a->arguments[i], b->arguments[i], seen)) return false;
    return true;
}

/* A loop whose number the body computes with must go on beginning at 0. */
static void keep_counted_loops(const dt_formula *node, const dt_loops *loops, dt_range *part, bool *seen) {
    if (seen[node->number]) return;
    seen[node->number] = true;
    if (node->kind == DT_FORMULA_LOOP && node->index < loops->n_outer) part[node->index].low = 0;
    for (int i = 0; i < node->n_arguments; i++) keep_counted_loops(node->arguments[i], loops, part, seen);
}

static bool same_index(const dt_loops *old, const dt_index *a, const dt_range *part, dt_range operand, const dt_loops *new, const dt_index *b) {
    int64_t offset = a->offset - operand.low * a->divisor;
    for (int l = 0; l < old->n_loops; l++) {
        if (l < old->n_outer) offset += a->coefficients[l] * part[l].low;
        if (a->coefficients[l] != b->coefficients[l] && new->extents[l] != 1) return false;
    }
    return b->offset == offset && b->divisor == a->divisor && b->indirect == a->indirect;
}

static bool same_access(const dt_loops *old, const dt_access *a, const dt_range *part, const dt_range *operand, const dt_loops *new,
                        const dt_access *b, dt_shape shape) {
    if (b->guarded && !(a->guarded && a->outside.i == b->outside.i)) return false;
    for (int d = 0; d < shape.rank; d++) {
        dt_range read = span_of_index(old, part, &a->dims[d], shape.dims[d]);
        bool covered = dt_dim_is_symbol(shape.dims[d]) || read.low == read.high || (operand[d].low <= read.low && read.high <= operand[d].high);
        if (!covered || !same_index(old, &a->dims[d], part, operand[d], new, &b->dims[d])) return false;
    }
    return true;
}

static bool are_within(const dt_range *spans, dt_shape shape) {
    for (int d = 0; d < shape.rank; d++)
        if (!dt_dim_is_symbol(shape.dims[d]) && (spans[d].low < 0 || spans[d].low > spans[d].high || spans[d].high > shape.dims[d])) return false;
    return true;
}

/* The value as it would be; its operands are `narrowed`'s, without those that are not needed. False when its row refuses it. */
static bool imagine(dt_arena *arena, const dt_module *module, const dt_value *value, const dt_narrowing *narrowing, dt_value *narrowed) {
    *narrowed = *value;
    narrowed->operands = DT_NEW_ARRAY(arena, dt_value *, value->n_operands);
    narrowed->n_operands = 0;
    narrowed->attributes = narrowing->attributes;
    for (int k = 0; k < value->n_operands; k++) {
        if (narrowing->operands[k] == NULL) continue;
        if (!are_within(narrowing->operands[k], value->operands[k]->shape)) return false;
        dt_value *operand = narrowed->operands[narrowed->n_operands++] = DT_NEW(arena, dt_value);
        *operand = *value->operands[k];
        operand->shape = shape_of(arena, narrowing->operands[k], operand->shape.rank);
    }
    if (narrowed->n_operands == 0 && value->n_operands > 0) return false;
    dt_status *refused =
        dt_op_infer(arena, module, value->op, narrowed->operands, narrowed->n_operands, narrowing->attributes, &narrowed->shape, &narrowed->dtype);
    dt_status_free(refused);
    return refused == NULL && narrowed->dtype == value->dtype && dt_shape_equal(narrowed->shape, shape_of(arena, narrowing->part, value->shape.rank));
}

static bool is_exact(dt_arena *arena, const dt_module *module, const dt_value *value, const dt_loops *old, const dt_narrowing *narrowing) {
    dt_value narrowed;
    if (!imagine(arena, module, value, narrowing, &narrowed)) return false;
    if (old == NULL) return true; /* moves nothing: the shapes say it all */
    const dt_loops *new = dt_value_loops(arena, &narrowed);
    if (new->n_loops != old->n_loops || new->n_outer != old->n_outer || new->combiner != old->combiner) return false;
    for (int l = old->n_outer; l < old->n_loops; l++)
        if (new->extents[l] != old->extents[l]) return false;
    for (int k = 0, own = 0; k < value->n_operands; k++)
        if (narrowing->operands[k] != NULL &&
            !same_access(old, &old->operands[k], narrowing->part, narrowing->operands[k], new, &new->operands[own++], value->operands[k]->shape))
            return false;
    if (narrowed.n_operands != value->n_operands) return true; /* of operands beside each other, those that are left stand where they stood */
    return same_formula(old->body, new->body, DT_NEW_ARRAY(arena, bool, old->body->number + 1));
}

/* ---- narrowing ---- */

bool dt_narrow(dt_arena *arena, const dt_module *module, dt_value *value, const dt_range *part, dt_range *const *available, dt_narrowing *narrowing) {
    const dt_loops *loops = dt_value_loops(arena, value);
    if ((loops == NULL && value->op->narrow == NULL) || (loops != NULL && loops->result != NULL)) return false;
    narrowing->part = dt_arena_copy(arena, part, (size_t)value->shape.rank * sizeof *part);
    if (loops != NULL) keep_counted_loops(loops->body, loops, narrowing->part, DT_NEW_ARRAY(arena, bool, loops->body->number + 1));
    narrowing->operands = DT_NEW_ARRAY(arena, dt_range *, value->n_operands);
    bool whole = dt_range_is_whole(narrowing->part, value->shape);
    for (int k = 0; k < value->n_operands; k++) {
        dt_shape shape = value->operands[k]->shape;
        dt_range *spans = narrowing->operands[k] = dt_whole_range(arena, shape);
        if (loops != NULL && !read_operand(value, k, loops, narrowing->part, spans))
            narrowing->operands[k] = NULL;
        else if (available != NULL)
            memcpy(spans, available[k], (size_t)shape.rank * sizeof *spans);
        whole = whole && narrowing->operands[k] != NULL && dt_range_is_whole(spans, shape);
    }
    narrowing->attributes = value->attributes;
    if (whole) return true;
    if (value->op->narrow != NULL) {
        narrowing->attributes = dt_arena_copy(arena, value->attributes, (size_t)value->op->n_attributes * sizeof *value->attributes);
        value->op->narrow(arena, value, narrowing->part, narrowing->operands, narrowing->attributes);
    }
    for (int k = 0; available != NULL && k < value->n_operands; k++) {
        const dt_range *spans = narrowing->operands[k];
        if (spans != NULL && memcmp(spans, available[k], (size_t)value->operands[k]->shape.rank * sizeof *spans) != 0) return false;
    }
    return is_exact(arena, module, value, loops, narrowing);
}
