/* simplify: the same values with less to compute.
 *
 * In and out: a verified graph. A list of local rules is applied to every value in program order until nothing changes, then values that are the
 * same expression become one, and what nobody reads is dropped. Rules keep bits: x * 1 is x, but x + 0 stays (it turns -0 into 0). Only where zeros
 * need not be added, in a sum of what a pooling's gradient scatters, the terms of a sum come in another order.
 *
 * One rule is about what comes later: a reshape moves nothing in memory, but it hides from fusion that an elementwise value belongs to the
 * one before it. So reshapes sink: map(reshape(x)) becomes reshape(map(x)), and what is cheap beside it (constants, random numbers, broadcasts of
 * scalars) is made in the shape of x. A dropout below a flatten then belongs to the pooling above it. */
#include "compiler/passes/passes.h"
#include "ir/body.h"
#include "ir/evaluate.h"
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

typedef struct simplify {
    dt_arena *arena;
    dt_function *function;
    bool changed;
} simplify;

/* A rule sets *replacement when it found something better than `value`, building before it. */
typedef dt_status *(*rule)(simplify *s, dt_value *value, dt_value **replacement);

static dt_builder builder_at(const simplify *s, dt_value *value) {
    return (dt_builder){.function = s->function, .before = value, .locations = value->locations, .n_locations = value->n_locations};
}

/* ---- what a value is, read off its row and its loops ---- */

static bool is_constant(const dt_value *value) { return dt_value_is(value, "constant"); }

/* To the bit: x - -0 is 0 where x is -0. */
static bool is_filled_with(const dt_value *value, double number) {
    return is_constant(value) && dt_value_number(value, "value") == number && !signbit(dt_value_number(value, "value"));
}

static bool is_alias(const dt_value *value) { return value->op->class == DT_CLASS_MOVE && value->op->loops == NULL; }

/* Whether gradients that are still to be made end at the value: then nobody may look through it. */
static bool stops_gradients(const simplify *s, const dt_value *value) {
    if (value->op->gradient_function != NULL || (value->op->gradient != NULL && value->op->gradient[0] != '\0')) return false;
    for (const dt_value *other = s->function->first; other; other = other->next)
        if (other->op->class == DT_CLASS_CONTROL) return true;
    return false;
}

/* The loops of a value each of whose elements is one of its only operand's; NULL: it is not, or an alias, which has no loops. */
static const dt_loops *loops_of_copy(const simplify *s, const dt_value *value) {
    if (value->n_operands != 1 || value->op->loops == NULL || value->dtype != value->operands[0]->dtype) return NULL;
    const dt_loops *loops = dt_value_loops(s->arena, value);
    const dt_formula *body = loops->body;
    if (body->kind == DT_FORMULA_CONVERT) body = body->arguments[0]; /* to its own type */
    bool whole = loops->n_outer == loops->n_loops && loops->combiner == DT_COMBINE_NONE && loops->result == NULL && !loops->operands[0].guarded;
    return whole && body->kind == DT_FORMULA_OPERAND ? loops : NULL;
}

static bool is_copy(const simplify *s, const dt_value *value) { return is_alias(value) || loops_of_copy(s, value) != NULL; }

/* Whether every element stays where it is. */
static bool keeps_places(const dt_loops *loops, int rank) {
    for (int d = 0; d < rank; d++) {
        const dt_index *index = &loops->operands[0].dims[d];
        if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return false;
        for (int l = 0; l < loops->n_loops; l++)
            if (index->coefficients[l] != (l == d)) return false;
    }
    return true;
}

/* ---- identities ---- */

static dt_status *drop_neutral_operand(simplify *s, dt_value *value, dt_value **replacement) {
    (void)s;
    unsigned algebra = value->op->algebra;
    if (((algebra & DT_OP_ONE_RIGHT) && is_filled_with(value->operands[1], 1)) ||
        ((algebra & DT_OP_ZERO_RIGHT) && is_filled_with(value->operands[1], 0)))
        *replacement = value->operands[0];
    else if ((algebra & DT_OP_ONE_LEFT) && is_filled_with(value->operands[0], 1))
        *replacement = value->operands[1];
    return NULL;
}

static dt_status *drop_double_inverse(simplify *s, dt_value *value, dt_value **replacement) {
    (void)s;
    if ((value->op->algebra & DT_OP_INVOLUTION) && value->operands[0]->op == value->op) *replacement = value->operands[0]->operands[0];
    return NULL;
}

/* What changes neither type nor shape nor order, as a conversion to its own type, or a slice of all. */
static dt_status *drop_no_move(simplify *s, dt_value *value, dt_value **replacement) {
    if (value->n_operands != 1 || value->dtype != value->operands[0]->dtype) return NULL;
    if (!dt_shape_equal(value->operands[0]->shape, value->shape) || stops_gradients(s, value)) return NULL;
    const dt_loops *loops = loops_of_copy(s, value);
    if (is_alias(value) || (loops != NULL && keeps_places(loops, value->shape.rank))) *replacement = value->operands[0];
    return NULL;
}

static dt_status *join_reshapes(simplify *s, dt_value *value, dt_value **replacement) {
    if (!is_alias(value) || !is_alias(value->operands[0])) return NULL;
    value->operands[0] = value->operands[0]->operands[0];
    s->changed = true;
    (void)replacement;
    return NULL;
}

/* Whatever order the elements of a constant come in, they are that constant. */
static dt_status *spread_constants(simplify *s, dt_value *value, dt_value **replacement) {
    if (value->n_operands != 1 || !is_constant(value->operands[0]) || !is_copy(s, value) || stops_gradients(s, value)) return NULL;
    dt_builder builder = builder_at(s, value);
    return dt_build_constant_like(&builder, replacement, value->operands[0], value->shape);
}

/* A choice whose condition is known is one of its two. */
static dt_status *drop_known_choice(simplify *s, dt_value *value, dt_value **replacement) {
    (void)s;
    if (dt_value_is(value, "where") && is_constant(value->operands[0]))
        *replacement = value->operands[dt_value_scalar(value->operands[0], "value").i == 0 ? 2 : 1];
    return NULL;
}

/* An elementwise value of constants is a constant: what a kernel would make of them, to the bit. */
static dt_status *fold_constants(simplify *s, dt_value *value, dt_value **replacement) {
    enum {
        MOST_OPERANDS = 8
    };
    dt_dtype dtypes[MOST_OPERANDS];
    dt_scalar operands[MOST_OPERANDS];
    if (value->op->class != DT_CLASS_MAP || value->n_operands == 0 || value->n_operands > MOST_OPERANDS) return NULL;
    for (int k = 0; k < value->n_operands; k++) {
        if (!is_constant(value->operands[k])) return NULL;
        dtypes[k] = value->operands[k]->dtype;
        operands[k] = dt_scalar_round(dt_value_scalar(value->operands[k], "value"), dtypes[k]);
    }
    if (stops_gradients(s, value)) return NULL;
    dt_evaluation *evaluation;
    DT_TRY(dt_evaluation_prepare(s->arena, dt_value_loops(s->arena, value)->body, dtypes, value->dtype, DT_ARITHMETIC_KERNEL, &evaluation));
    dt_scalar folded = dt_scalar_round(dt_evaluate(evaluation, &(dt_evaluation_context){.operands = operands}), value->dtype);
    dt_builder builder = builder_at(s, value);
    dt_attribute number = dt_dtype_is_float(value->dtype) ? dt_number(folded.f) : dt_number_of_int(folded.i);
    return dt_build_number(&builder, replacement, value->dtype, number, value->shape);
}

/* ---- sums ---- */

static bool has_padding(const dt_value *windows) {
    int n;
    const int64_t *padding = dt_value_ints(windows, "padding", &n);
    for (int i = 0; i < n; i++)
        if (padding[i] != 0) return true;
    return false;
}

/* The sum of an image that a pooling's gradient was scattered to, as for the bias before the pooling, is the sum of that gradient: each window adds
 * its own to one element, where no padding may be that element. */
static dt_status *sum_before_scatter(simplify *s, dt_value *value, dt_value **replacement) {
    if (!dt_value_is(value, "reduce_sum") || !dt_value_is(value->operands[0], "window_scatter")) return NULL;
    const dt_value *scatter = value->operands[0];
    if (!dt_value_is(scatter->operands[1], "max_pool2d_index") || has_padding(scatter)) return NULL;
    int n;
    const int64_t *axes = dt_value_ints(value, "axes", &n);
    bool height = false, width = false;
    for (int i = 0; i < n; i++) height |= axes[i] == 1, width |= axes[i] == 2;
    if (!height || !width) return NULL;
    dt_builder builder = builder_at(s, value);
    return dt_build_reduce(&builder, replacement, "reduce_sum", scatter->operands[0], axes, n, dt_value_bool(value, "keep"));
}

/* ---- sinking reshapes ---- */

/* Both have B first, or none has B: then the k-th element of a row is the k-th element of a row in either. */
static bool same_rows(dt_shape a, dt_shape b) {
    bool a_rows = a.rank > 0 && dt_dim_is_symbol(a.dims[0]), b_rows = b.rank > 0 && dt_dim_is_symbol(b.dims[0]);
    return a_rows ? b_rows && a.dims[0] == b.dims[0] : dt_shape_batch_axis(a) < 0 && dt_shape_batch_axis(b) < 0;
}

static bool is_random(const dt_value *value) { return value->op->class == DT_CLASS_RANDOM; }

/* Whether all elements are one scalar, which another value has. */
static bool is_spread_scalar(const simplify *s, const dt_value *value) {
    return value->n_operands == 1 && value->operands[0]->shape.rank == 0 && loops_of_copy(s, value) != NULL;
}

/* Elementwise values that can be made in another shape, and what stands for them there: each is looked at, and made, once. */
typedef struct reshaped {
    const dt_value *value;
    dt_value *made; /* NULL: not yet */
} reshaped;
typedef DT_LIST(reshaped) reshaped_list;

static reshaped *find_reshaped(const reshaped_list *known, const dt_value *value) {
    for (size_t i = 0; i < known->n; i++)
        if (known->items[i].value == value) return &known->items[i];
    return NULL;
}

/* Could `value` be made in another shape of the same elements without moving anything? */
static bool can_reshape_freely(const simplify *s, const dt_value *value, dt_shape shape, reshaped_list *known) {
    if (is_constant(value) || is_random(value) || is_spread_scalar(s, value)) return true;
    if (is_alias(value)) return dt_shape_equal(value->operands[0]->shape, shape);
    if (value->op->class != DT_CLASS_MAP) return false;
    if (find_reshaped(known, value) != NULL) return true;
    for (int k = 0; k < value->n_operands; k++)
        if (!can_reshape_freely(s, value->operands[k], shape, known)) return false;
    dt_list_push(s->arena, known, ((reshaped){value, NULL}));
    return true;
}

static const char *shape_text(const simplify *s, dt_shape shape) {
    const char *text = "";
    for (int d = 0; d < shape.rank; d++) {
        const char *comma = d ? ", " : "";
        text = shape.dims[d] == DT_BATCH ? dt_arena_format(s->arena, "%s%sB", text, comma)
                                         : dt_arena_format(s->arena, "%s%s%lld", text, comma, (long long)shape.dims[d]);
    }
    return text;
}

/* The same random numbers in another shape. Whoever read the old ones reads these through a reshape, so that they are drawn once: the mask of a
 * dropout is then the same value forward and backward. */
static dt_status *reshape_random(simplify *s, dt_value *value, dt_shape shape, dt_value **result) {
    dt_builder builder = builder_at(s, value);
    dt_attribute *attributes = dt_arena_copy(s->arena, value->attributes, (size_t)value->op->n_attributes * sizeof *attributes);
    int a = dt_op_attribute_index(value->op, "shape");
    attributes[a].i = shape.rank;
    attributes[a].ints = shape.dims;
    DT_TRY(dt_build(&builder, value->op, NULL, 0, attributes, result));
    dt_value *reshaped;
    DT_TRY(dt_build_text(&builder, &reshaped, "reshape", result, 1, "shape=[%s]", shape_text(s, value->shape)));
    dt_value_replace(value, reshaped);
    return NULL;
}

static dt_status *reshape_freely(simplify *s, dt_builder *builder, dt_value *value, dt_shape shape, const reshaped_list *known, dt_value **result) {
    if (is_alias(value)) {
        *result = value->operands[0];
        return NULL;
    }
    if (is_constant(value)) return dt_build_constant_like(builder, result, value, shape);
    if (is_spread_scalar(s, value)) return dt_build_broadcast(builder, result, value->operands[0], shape, NULL);
    if (is_random(value)) return reshape_random(s, value, shape, result);
    reshaped *own = find_reshaped(known, value);
    if (own->made == NULL) {
        dt_attribute *attributes = dt_arena_copy(s->arena, value->attributes, (size_t)value->op->n_attributes * sizeof *attributes);
        dt_value **operands = DT_NEW_ARRAY(s->arena, dt_value *, value->n_operands);
        for (int k = 0; k < value->n_operands; k++) DT_TRY(reshape_freely(s, builder, value->operands[k], shape, known, &operands[k]));
        DT_TRY(dt_build(builder, value->op, operands, value->n_operands, attributes, &own->made));
    }
    *result = own->made;
    return NULL;
}

static dt_status *sink_reshapes(simplify *s, dt_value *value, dt_value **replacement) {
    if (value->op->class != DT_CLASS_MAP) return NULL;
    const dt_value *moved = NULL;
    for (int k = 0; k < value->n_operands && moved == NULL; k++)
        if (is_alias(value->operands[k])) moved = value->operands[k]->operands[0];
    reshaped_list known = {0};
    if (moved == NULL || !same_rows(moved->shape, value->shape) || !can_reshape_freely(s, value, moved->shape, &known)) return NULL;
    dt_builder builder = builder_at(s, value);
    dt_value *in_shape;
    DT_TRY(reshape_freely(s, &builder, value, moved->shape, &known, &in_shape));
    return dt_build_text(&builder, replacement, "reshape", &in_shape, 1, "shape=[%s]", shape_text(s, value->shape));
}

/* ---- equal values ---- */

static bool same_attributes(const dt_value *a, const dt_value *b) {
    for (int i = 0; i < a->op->n_attributes; i++) {
        const dt_attribute *x = &a->attributes[i], *y = &b->attributes[i];
        switch (a->op->attributes[i].kind) {
        case DT_ATTR_NUMBER:
            if (x->i != y->i || memcmp(&x->f, &y->f, sizeof x->f) != 0) return false;
            break;
        case DT_ATTR_STRING:
            if (strcmp(x->s, y->s) != 0) return false;
            break;
        case DT_ATTR_INTS:
            if (x->i != y->i || (x->i && memcmp(x->ints, y->ints, (size_t)x->i * sizeof *x->ints) != 0)) return false;
            break;
        default:
            if (x->i != y->i) return false;
        }
    }
    return true;
}

static bool same_value(const dt_value *a, const dt_value *b) {
    return a->op == b->op && a->dtype == b->dtype && a->n_operands == b->n_operands && dt_shape_equal(a->shape, b->shape) &&
           (a->n_operands == 0 || memcmp(a->operands, b->operands, (size_t)a->n_operands * sizeof *a->operands) == 0) && same_attributes(a, b);
}

static uint64_t hash_of_value(const dt_value *value) {
    uint64_t hash = dt_hash_bytes(&value->op, sizeof value->op, DT_HASH_SEED);
    return dt_hash_bytes(value->operands, (size_t)value->n_operands * sizeof *value->operands, hash);
}

/* Whether the value is what its row, operands and attributes say: an argument is itself, and an effect happens each time. What enters the body of a
 * loop depends on where it stands as well. */
static bool is_expression(const dt_value *value) {
    if (value->op->class == DT_CLASS_LOOP) return dt_value_leaves(value);
    return !dt_value_has_effect(value) && (value->op->class != DT_CLASS_SOURCE || value->op->loops != NULL);
}

/* Joins values that are the same expression: a hash table with chains, filled in program order. Whoever uses a value that is joined with another one
 * comes later, and finds that one in its place. */
static void join_equal_values(simplify *s) {
    size_t n_slots = 16;
    while (n_slots < (size_t)s->function->next_id * 2) n_slots *= 2;
    dt_value **slots = DT_NEW_ARRAY(s->arena, dt_value *, n_slots), **bodies = DT_NEW_ARRAY(s->arena, dt_value *, s->function->next_id);
    dt_value **joined = DT_NEW_ARRAY(s->arena, dt_value *, s->function->next_id);
    dt_function_find_bodies(s->function, bodies);
    for (dt_value *value = s->function->first, *next; value; value = next) {
        next = value->next;
        for (int k = 0; k < value->n_operands; k++)
            if (joined[value->operands[k]->id] != NULL) value->operands[k] = joined[value->operands[k]->id];
        if (!is_expression(value)) continue;
        dt_value **slot = &slots[hash_of_value(value) & (n_slots - 1)], *same = *slot;
        while (same && (!same_value(same, value) || !dt_body_is_within(bodies, bodies[value->id], bodies[same->id]))) same = same->scratch;
        if (same) {
            dt_value_add_locations(same, value);
            joined[value->id] = same;
            dt_value_remove(value);
            s->changed = true;
        } else {
            value->scratch = *slot;
            *slot = value;
        }
    }
    for (size_t r = 0; r < s->function->results.n; r++) {
        dt_value **result = &s->function->results.items[r].value;
        if (joined[(*result)->id] != NULL) *result = joined[(*result)->id];
    }
}

/* ---- the pass ---- */

static const rule rules[] = {
    drop_neutral_operand, drop_double_inverse, drop_no_move,       join_reshapes, spread_constants,
    fold_constants,       drop_known_choice,   sum_before_scatter, sink_reshapes,
};

static dt_status *apply_rules(simplify *s) {
    for (dt_value *value = s->function->first, *next; value; value = next) {
        next = value->next;
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            dt_value *replacement = NULL;
            DT_TRY(rules[i](s, value, &replacement));
            if (replacement == NULL) continue;
            dt_value_replace(value, replacement);
            dt_value_remove(value);
            s->changed = true;
            break;
        }
    }
    return NULL;
}

dt_status *dt_pass_simplify(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        simplify s = {.arena = compilation->arena, .function = compilation->module->functions.items[f]};
        do {
            s.changed = false;
            DT_TRY(apply_rules(&s));
            dt_function_sweep(s.function);
            join_equal_values(&s);
        } while (s.changed);
        dt_function_renumber(s.function);
    }
    return NULL;
}
