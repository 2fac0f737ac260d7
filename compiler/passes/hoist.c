/* hoist: what need not be computed in a loop is computed before or after it, for all iterations at once.
 *
 * What depends on nothing of the body stands before the loop. A product of what does not depend on the state, x @ W of a recurrent cell, becomes one
 * product of all that is scanned, and the loop scans the result.
 *
 * A value for all iterations is `whole`: it has an axis more, where a stack puts one (dt_stack_axis). What a product needs is made whole if it is of
 * elementwise values, broadcasts, reshapes and products themselves. Bits may change, as with any other form of a product: in the order of a sum.
 *
 * Sums of products over the iterations, the gradients of weights, become one product over rows and iterations after the loop, of the stacks of its
 * factors; one that was scanned is there already. Of a value that is stacked for that a sum is taken after the loop too. Where the loop adds up in
 * more precision than it multiplies in, all of that sum is in this precision: less is rounded than in the loop, and what the loop could hold does not
 * become infinite. */
#include "abi/precision.h"
#include "compiler/passes/passes.h"
#include "ir/body.h"

#include <string.h>

typedef enum answer {
    UNKNOWN,
    NO,
    YES
} answer;

typedef struct hoist {
    dt_arena *arena;
    dt_function *function;
    dt_value *loop, *end;
    int n;                /* ids below this one are of values that were there when the loop's turn came */
    dt_value **bodies;    /* [n] */
    dt_value **wholes;    /* [n] by id of a value of the body; NULL: not made */
    answer *can, *varies; /* [n] */
} hoist;

static bool is_product(const dt_value *value) { return value->op->class == DT_CLASS_CONTRACT && dt_value_is(value, "matmul"); }

/* New values stand outside, but for those that are marked with the loop. */
static const dt_value *body_of(const hoist *h, const dt_value *value) { return value->id < h->n ? h->bodies[value->id] : value->scratch; }

/* Of this loop's body, or of one within it; the number of its iteration is too. */
static bool is_within(const hoist *h, const dt_value *value) {
    const dt_value *body = body_of(h, value);
    return value == h->loop || body == h->loop || (value->id < h->n && dt_body_is_within(h->bodies, body, h->loop));
}

static dt_builder builder_at(const hoist *h, const dt_value *value, dt_value *before) {
    return (dt_builder){.function = h->function, .before = before, .n_locations = value->n_locations, .locations = value->locations};
}

/* Dimensions of a value as those of the whole, which has one more at `axis`; with room for that. */
static int64_t *shifted(const hoist *h, const int64_t *dims, int n, int axis) {
    int64_t *result = DT_NEW_ARRAY(h->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) result[i] = dims[i] + (dims[i] >= axis);
    return result;
}

static dt_shape whole_shape(const hoist *h, dt_shape shape) {
    int axis = dt_stack_axis(shape);
    int64_t *dims = DT_NEW_ARRAY(h->arena, int64_t, shape.rank + 1);
    for (int d = 0; d <= shape.rank; d++) dims[d] = d == axis ? dt_loop_trips(h->loop) : shape.dims[d < axis ? d : d - 1];
    return (dt_shape){shape.rank + 1, dims};
}

/* ---- before the loop: values for all iterations ---- */

static bool can_be_whole(const hoist *h, const dt_value *value);

/* Whether the iterations of a broadcast's operand stay between the same dimensions: a broadcast keeps their order. */
static bool keeps_axis(const dt_value *broadcast) {
    int n, before = 0, axis = dt_stack_axis(broadcast->shape);
    const int64_t *dims = dt_value_ints(broadcast, "dims", &n);
    while (before < n && dims[before] < axis) before++;
    return before == dt_stack_axis(broadcast->operands[0]->shape);
}

static bool is_known(const hoist *h, const dt_value *value) {
    bool known = value->op->class == DT_CLASS_MAP || dt_value_is(value, "broadcast") || dt_value_is(value, "reshape") || is_product(value);
    if (!known || value->n_operands == 0) return false;
    if (dt_value_is(value, "broadcast") && is_within(h, value->operands[0]) && !keeps_axis(value)) return false;
    if (dt_value_is(value, "reshape") && dt_stack_axis(value->operands[0]->shape) != dt_stack_axis(value->shape)) return false;
    if (is_product(value) && (dt_value_bool(value, "transpose_a") || value->operands[1]->shape.rank != 2 || is_within(h, value->operands[1])))
        return false;
    for (int k = 0; k < value->n_operands; k++)
        if (!can_be_whole(h, value->operands[k])) return false;
    return true;
}

/* Whether the value can be had whole: it depends on what is scanned and on invariants alone, by ops that make_whole knows. */
static bool can_be_whole(const hoist *h, const dt_value *value) {
    if (!is_within(h, value)) return true; /* an invariant */
    if (body_of(h, value) != h->loop) return false;
    if (dt_value_is(value, "scanned") || dt_value_is(value, "constant")) return true;
    answer *can = &h->can[value->id];
    if (*can == UNKNOWN) *can = is_known(h, value) ? YES : NO;
    return *can == YES;
}

/* Whether anything of it is other from iteration to iteration. */
static bool varies(const hoist *h, const dt_value *value) {
    if (!is_within(h, value)) return false;
    if (dt_value_is(value, "scanned")) return true;
    answer *answer = &h->varies[value->id];
    if (*answer != UNKNOWN) return *answer == YES;
    *answer = NO;
    for (int k = 0; k < value->n_operands; k++)
        if (varies(h, value->operands[k])) *answer = YES;
    return *answer == YES;
}

static dt_status *make_whole(hoist *h, dt_value *value, dt_value **result);

/* All of what is scanned, its axis where a stack has it. */
static dt_status *turn_scanned(hoist *h, const dt_value *scanned, dt_value **result) {
    dt_builder builder = builder_at(h, scanned, h->loop);
    int axis = (int)dt_value_int(scanned, "axis"), wanted = dt_stack_axis(scanned->shape), rank = scanned->shape.rank + 1;
    *result = scanned->operands[0];
    if (dt_value_bool(scanned, "reverse")) DT_TRY(dt_build_text(&builder, result, "reverse", result, 1, "axes=[%d]", axis));
    if (axis == wanted) return NULL;
    int64_t *permutation = DT_NEW_ARRAY(h->arena, int64_t, rank);
    for (int d = 0; d < rank; d++) {
        int own = d < wanted ? d : d - 1; /* of the scanned part */
        permutation[d] = d == wanted ? axis : own + (own >= axis);
    }
    return dt_build(&builder, dt_op_find("transpose"), result, 1, &(dt_attribute){.i = rank, .ints = permutation}, result);
}

/* An operand in all iterations, for an elementwise value: an invariant is repeated. */
static dt_status *make_operand_whole(hoist *h, dt_builder *builder, dt_value *operand, dt_value **result) {
    if (is_within(h, operand)) return make_whole(h, operand, result);
    int axis = dt_stack_axis(operand->shape), rank = operand->shape.rank;
    int64_t *dims = DT_NEW_ARRAY(h->arena, int64_t, rank);
    for (int d = 0; d < rank; d++) dims[d] = d + (d >= axis);
    return dt_build_broadcast(builder, result, operand, whole_shape(h, operand->shape), dims);
}

static dt_status *broadcast_whole(hoist *h, dt_builder *builder, const dt_value *value, dt_value **result) {
    dt_value *x = value->operands[0];
    int n, axis = dt_stack_axis(value->shape);
    const int64_t *dims = dt_value_ints(value, "dims", &n);
    int64_t *now = shifted(h, dims, n, axis);
    if (is_within(h, x)) {
        int from = dt_stack_axis(x->shape);
        memmove(now + from + 1, now + from, (size_t)(n - from) * sizeof *now);
        now[from] = axis;
        DT_TRY(make_whole(h, x, &x));
    }
    return dt_build_broadcast(builder, result, x, whole_shape(h, value->shape), now);
}

static dt_status *make_whole(hoist *h, dt_value *value, dt_value **result) {
    dt_value *own = NULL, **whole = value->id < h->n ? &h->wholes[value->id] : &own; /* our own are scanned: nothing is made for them */
    dt_builder builder = builder_at(h, value, h->loop);
    dt_shape shape = whole_shape(h, value->shape);
    if (*whole == NULL) {
        if (dt_value_is(value, "scanned")) {
            DT_TRY(turn_scanned(h, value, whole));
        } else if (dt_value_is(value, "constant")) {
            DT_TRY(dt_build_constant_like(&builder, whole, value, shape));
        } else if (dt_value_is(value, "broadcast")) {
            DT_TRY(broadcast_whole(h, &builder, value, whole));
        } else if (dt_value_is(value, "reshape")) {
            dt_value *x;
            DT_TRY(make_whole(h, value->operands[0], &x));
            DT_TRY(dt_build(&builder, value->op, &x, 1, &(dt_attribute){.i = shape.rank, .ints = shape.dims}, whole));
        } else {
            dt_value **operands = dt_arena_copy(h->arena, value->operands, (size_t)value->n_operands * sizeof *operands);
            for (int k = 0; k < value->n_operands; k++)
                if (!is_product(value) || k == 0) DT_TRY(make_operand_whole(h, &builder, value->operands[k], &operands[k]));
            DT_TRY(dt_build(&builder, value->op, operands, value->n_operands, value->attributes, whole));
        }
    }
    *result = *whole;
    return NULL;
}

/* The product leaves the loop, which scans what comes of it. */
static dt_status *hoist_product(hoist *h, dt_value *product) {
    dt_builder builder = builder_at(h, product, product);
    dt_value *whole, *part;
    DT_TRY(make_whole(h, product, &whole));
    DT_TRY(dt_build_text(&builder, &part, "scanned", &whole, 1, "axis=%d", dt_stack_axis(product->shape)));
    part->scratch = h->loop;
    dt_value_replace(product, part);
    return NULL;
}

/* Constants and broadcasts are made where they are used, and cost nothing there; a constant of what is invariant goes with it. */
static bool is_invariant(const hoist *h, const dt_value *value) {
    if (value->n_operands == 0 || value->op->class == DT_CLASS_LOOP || dt_value_is(value, "broadcast")) return false;
    for (int k = 0; k < value->n_operands; k++)
        if (is_within(h, value->operands[k]) && !dt_value_is(value->operands[k], "constant")) return false;
    return true;
}

static void move_out(hoist *h, dt_value *value) {
    for (int k = 0; k < value->n_operands; k++)
        if (is_within(h, value->operands[k])) move_out(h, value->operands[k]);
    dt_value_move(value, h->loop);
    h->bodies[value->id] = h->bodies[h->loop->id];
}

static dt_status *hoist_before(hoist *h) {
    for (dt_value *value = h->loop->next, *next; value != h->end; value = next) {
        next = value->next;
        if (value->id >= h->n || h->bodies[value->id] != h->loop) continue;
        if (is_invariant(h, value)) {
            move_out(h, value);
        } else if (is_product(value) && can_be_whole(h, value) && varies(h, value)) {
            DT_TRY(hoist_product(h, value));
        }
    }
    return NULL;
}

/* What is there for all iterations before the loop is not stacked after it. */
static void drop_stacks(hoist *h) {
    for (dt_value *value = h->end->next, *next; value != NULL; value = next) {
        next = value->next;
        if (!dt_value_is(value, "stack") || value->operands[1] != h->loop || value->operands[0]->id >= h->n || dt_value_bool(value, "reverse"))
            continue;
        dt_value *whole = h->wholes[value->operands[0]->id];
        if (whole == NULL || !dt_shape_equal(whole->shape, value->shape)) continue;
        if (dt_value_int(value, "axis") != dt_stack_axis(value->operands[0]->shape)) continue;
        dt_value_replace(value, whole);
        dt_value_remove(value);
    }
}

/* ---- after the loop: sums over all iterations ---- */

/* Dimensions of a factor of a product. */
typedef struct dims {
    int n;
    const int64_t *items;
} dims;

/* How factor k is used: which of its dimensions go with which of the other. False: it is no product of two such factors. */
static bool find_dims(const hoist *h, const dt_value *product, int k, dims *batch, dims *contract) {
    *batch = (dims){0};
    if (dt_value_is(product, "dot_general")) {
        batch->items = dt_value_ints(product, k == 0 ? "a_batch" : "b_batch", &batch->n);
        contract->items = dt_value_ints(product, k == 0 ? "a_contract" : "b_contract", &contract->n);
        return true;
    }
    if (!is_product(product) || product->operands[0]->shape.rank != 2 || product->operands[1]->shape.rank != 2) return false;
    int64_t *contracted = DT_NEW(h->arena, int64_t);
    *contracted = (k == 0) != dt_value_bool(product, k == 0 ? "transpose_a" : "transpose_b");
    *contract = (dims){1, contracted};
    return true;
}

static bool is_of_body(const hoist *h, const dt_value *value) { return value != h->loop && body_of(h, value) == h->loop; }

/* A product whose sum over the iterations can be had from all of its factors. */
static bool is_summed_product(const hoist *h, const dt_value *value) {
    dims batch, contract;
    return is_of_body(h, value) && find_dims(h, value, 0, &batch, &contract) && is_of_body(h, value->operands[0]) &&
           is_of_body(h, value->operands[1]);
}

static bool is_scanned(const dt_value *value) { return dt_value_is(value, "scanned") && dt_value_int(value, "axis") == dt_stack_axis(value->shape); }

/* The stack of a body's value that is there already; NULL: none. */
static dt_value *find_stack(const hoist *h, const dt_value *value, bool reverse) {
    if (is_scanned(value) && dt_value_bool(value, "reverse") == reverse) return value->operands[0];
    for (dt_value *stack = h->end->next; stack != NULL; stack = stack->next) {
        if (!dt_value_is(stack, "stack") || stack->operands[0] != value || stack->operands[1] != h->loop) continue;
        if (dt_value_int(stack, "axis") == dt_stack_axis(value->shape) && dt_value_bool(stack, "reverse") == reverse) return stack;
    }
    return NULL;
}

/* The value of all iterations, right after the loop. */
static dt_status *stack_all(const hoist *h, dt_value *value, bool reverse, dt_value **result) {
    dt_builder builder = builder_at(h, value, h->end->next);
    *result = find_stack(h, value, reverse);
    if (*result != NULL) return NULL;
    return dt_build_text(&builder, result, "stack", (dt_value *[]){value, h->loop}, 2, "axis=%d, size=%lld, reverse=%s", dt_stack_axis(value->shape),
                         (long long)dt_loop_trips(h->loop), reverse ? "true" : "false");
}

/* The list for the stack, with the axis of the iterations where `with` says: 0 before the others, 1 after them, -1 nowhere. */
static dt_attribute list_of_whole(const hoist *h, dims list, int axis, int with) {
    int64_t *whole = DT_NEW_ARRAY(h->arena, int64_t, list.n + 1);
    int n = 0;
    if (with == 0) whole[n++] = axis;
    for (int i = 0; i < list.n; i++) whole[n++] = list.items[i] + (list.items[i] >= axis);
    if (with == 1) whole[n++] = axis;
    return (dt_attribute){.i = n, .ints = whole};
}

/* What is summed, before it is widened: what the iterations give in less precision is added up in more. */
static dt_value *find_summed(const hoist *h, const dt_value *accumulate) {
    dt_value *x = accumulate->operands[0];
    bool widened = is_of_body(h, x) && dt_value_is(x, "convert") && dt_dtype_is_float(x->dtype) && dt_dtype_is_float(x->operands[0]->dtype) &&
                   dt_dtype_bytes(x->dtype) > dt_dtype_bytes(x->operands[0]->dtype);
    return widened ? x->operands[0] : x;
}

/* The precision of a product whose factors are widened: in f32 the least that has all of what they were, for units that multiply such. NULL: they
 * were rounded to less than their type. */
static const char *precision_of_widened(const dt_value *product, dt_dtype to) {
    const char *all = dt_precision_name(DT_PRECISION_F32);
    if (to == DT_F32) return dt_precision_name(product->dtype == DT_F16 ? DT_PRECISION_TF32 : DT_PRECISION_BF16);
    return strcmp(dt_value_string(product, "precision"), all) == 0 ? all : NULL;
}

/* The sum of all iterations takes the place of one that the loop adds up. */
static void replace_sum(dt_value *accumulate, dt_value *sum) {
    dt_value_replace(accumulate, sum);
    dt_value_remove(accumulate);
}

static dt_status *sum_product(const hoist *h, dt_value *accumulate) {
    dt_value *product = find_summed(h, accumulate), *wholes[2], *result;
    const char *precision =
        accumulate->dtype == product->dtype ? dt_value_string(product, "precision") : precision_of_widened(product, accumulate->dtype);
    if (precision == NULL) return NULL;
    dt_builder builder = builder_at(h, product, accumulate);
    dt_attribute batches[2], contracts[2];
    bool reverse = false;
    for (int k = 0; k < 2; k++) reverse |= is_scanned(product->operands[k]) && dt_value_bool(product->operands[k], "reverse");
    for (int k = 0; k < 2; k++) {
        dims batch, contract;
        int axis = dt_stack_axis(product->operands[k]->shape);
        find_dims(h, product, k, &batch, &contract);
        DT_TRY(stack_all(h, product->operands[k], reverse, &wholes[k]));
        DT_TRY(dt_build_convert(&builder, &wholes[k], wholes[k], accumulate->dtype));
        batches[k] = list_of_whole(h, batch, axis, -1);
        contracts[k] = list_of_whole(h, contract, axis, dt_stack_axis(product->operands[0]->shape) > 0); /* rows outermost */
    }
    dt_attribute attributes[] = {batches[0], batches[1], contracts[0], contracts[1], {.s = precision}};
    DT_TRY(dt_build(&builder, dt_op_find("dot_general"), wholes, 2, attributes, &result));
    replace_sum(accumulate, result);
    return NULL;
}

/* Of a value that is stacked anyway. */
static dt_status *sum_stacked(const hoist *h, dt_value *accumulate) {
    dt_value *sum = find_summed(h, accumulate), *result;
    if (!is_of_body(h, sum) || !dt_value_is(sum, "reduce_sum") || dt_value_bool(sum, "keep")) return NULL;
    dt_value *x = sum->operands[0], *stack = find_stack(h, x, false);
    if (stack == NULL) stack = find_stack(h, x, true);
    if (stack == NULL || !is_of_body(h, x)) return NULL;
    dims axes;
    axes.items = dt_value_ints(sum, "axes", &axes.n);
    dt_attribute all = list_of_whole(h, axes, dt_stack_axis(x->shape), dt_stack_axis(x->shape) > 0);
    dt_builder builder = builder_at(h, sum, accumulate);
    DT_TRY(dt_build_convert(&builder, &stack, stack, accumulate->dtype));
    DT_TRY(dt_build_reduce(&builder, &result, "reduce_sum", stack, all.ints, (int)all.i, false));
    replace_sum(accumulate, result);
    return NULL;
}

static bool is_sum(const hoist *h, const dt_value *value) { return dt_value_is(value, "accumulate") && value->operands[1] == h->loop; }

static dt_status *hoist_after(const hoist *h) {
    for (dt_value *value = h->end->next, *next; value != NULL; value = next) {
        next = value->next;
        if (is_sum(h, value) && is_summed_product(h, find_summed(h, value))) DT_TRY(sum_product(h, value));
    }
    for (dt_value *value = h->end->next, *next; value != NULL; value = next) {
        next = value->next;
        if (is_sum(h, value)) DT_TRY(sum_stacked(h, value));
    }
    return NULL;
}

/* ---- the pass ---- */

static dt_status *hoist_loop(dt_arena *arena, dt_function *function, dt_value *loop) {
    int n = function->next_id;
    hoist h = {.arena = arena, .function = function, .loop = loop, .end = dt_loop_end(loop), .n = n};
    h.bodies = DT_NEW_ARRAY(arena, dt_value *, n);
    h.wholes = DT_NEW_ARRAY(arena, dt_value *, n);
    h.can = DT_NEW_ARRAY(arena, answer, n);
    h.varies = DT_NEW_ARRAY(arena, answer, n);
    dt_function_find_bodies(function, h.bodies);
    DT_TRY(hoist_before(&h));
    drop_stacks(&h);
    return hoist_after(&h);
}

dt_status *dt_pass_hoist(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        if (!dt_function_has_loops(function)) continue;
        for (dt_value *value = function->last, *previous; value != NULL; value = previous) { /* inner loops before those around them */
            previous = value->previous;
            if (dt_value_is_loop(value)) DT_TRY(hoist_loop(compilation->arena, function, value));
        }
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}
