/* autodiff_loop: the gradient of a loop is a loop that walks its iterations backwards.
 *
 *     forwards                                backwards
 *     carry(init), advance(carry, x)          carry(gradient of final(carry)): what reaches x from the iteration after;
 *                                             advance by the gradient of the carry; its final is added to init's gradient
 *     scanned(xs)                             stack of the gradients, the other way round
 *     an invariant                            accumulate
 *     stack(x)                                scanned(gradient), the other way round
 *     accumulate(x)                           its gradient, in each iteration
 *
 * What the gradients read of the body forwards is kept: stacked there and scanned backwards. What is scanned there already, what is the same in all
 * iterations and moves of what is kept are made again. All of it is ops of the same table, so a gradient of this is taken in the same way. */
#include "compiler/passes/autodiff.h"
#include "ir/body.h"

/* A loop and the one that walks it backwards. */
typedef struct reversal {
    dt_autodiff *walk;
    dt_adjoints *around; /* where the backward loop stands */
    dt_adjoints inside;  /* in its body */
    dt_value *loop, *end;
    dt_value *back, *back_end;
    dt_value **carries; /* [n] backwards, by the carry forwards */
    dt_value *first;    /* what the backward body began with before values that are kept were put in */
    dt_value **kept;    /* [n_kept] by id: a value of the forward body as the backward body has it */
    bool *invariant;    /* [n_kept] by id: of the forward body, and the same in all iterations */
    int n_kept;
} reversal;

static bool is_of_body(const reversal *r, const dt_value *value) { return value->id < r->walk->n && r->walk->bodies[value->id] == r->loop; }

static bool is_wanted(const reversal *r, const dt_value *value) { return r->walk->depends[value->id] && dt_dtype_is_float(value->dtype); }

static void locate(dt_builder *builder, const dt_value *value) {
    builder->locations = value->locations;
    builder->n_locations = value->n_locations;
    builder->layer = value->layer;
}

static const char *flipped(const dt_value *value) { return dt_value_bool(value, "reverse") ? "false" : "true"; }

/* The next value that leaves the loop and whose gradient is known. */
static dt_value *next_leaving(const reversal *r, dt_value *value) {
    for (value = value->next; value != NULL; value = value->next) {
        if (value->id >= r->walk->n || !dt_value_leaves(value) || dt_loop_left(r->walk->bodies, value) != r->loop) continue;
        if (r->around->of[value->id] != NULL && is_wanted(r, value->operands[0])) return value;
    }
    return NULL;
}

static dt_status *build_scanned(dt_builder *builder, dt_value *x, int axis, const char *reverse, dt_value **result) {
    return dt_build_text(builder, result, "scanned", &x, 1, "axis=%d, reverse=%s", axis, reverse);
}

static dt_status *build_stack(const reversal *r, dt_builder *builder, dt_value *x, dt_value *loop, int axis, const char *reverse, dt_value **result) {
    return dt_build_text(builder, result, "stack", (dt_value *[]){x, loop}, 2, "axis=%d, size=%lld, reverse=%s", axis,
                         (long long)dt_loop_trips(r->loop), reverse);
}

/* ---- before the walk through the body ---- */

static dt_status *begin(reversal *r) {
    dt_builder *builder = &r->around->builder;
    locate(builder, r->loop);
    DT_TRY(dt_build_text(builder, &r->back, "begin_loop", NULL, 0, "trips=%lld", (long long)dt_loop_trips(r->loop)));
    DT_TRY(dt_build_text(builder, &r->back_end, "end_loop", NULL, 0, "%s", ""));
    r->inside.builder = (dt_builder){.function = builder->function, .before = r->back_end};
    return NULL;
}

/* What the carry finally is has a gradient that all of `final` share, or none. */
static dt_status *begin_carry(reversal *r, const dt_value *carry) {
    dt_builder before = r->around->builder;
    dt_value *init = NULL;
    before.before = r->back;
    locate(&before, carry);
    locate(&r->inside.builder, carry);
    for (dt_value *final = r->end; (final = next_leaving(r, final)) != NULL;) {
        dt_value *part = r->around->of[final->id];
        if (!dt_value_is(final, "final") || final->operands[0] != carry) continue;
        if (init == NULL)
            init = part;
        else
            DT_TRY(dt_build_binary(&before, &init, "add", init, part));
    }
    if (init == NULL) DT_TRY(dt_build_constant(&before, &init, carry->dtype, 0, carry->shape));
    return dt_build_unary(&r->inside.builder, &r->carries[carry->id], "carry", init);
}

/* What is known of the body's values before any of them is differentiated. */
static dt_status *begin_values(reversal *r) {
    for (const dt_value *value = r->loop->next; value != r->end; value = value->next)
        if (is_of_body(r, value) && dt_value_is(value, "carry") && is_wanted(r, value)) DT_TRY(begin_carry(r, value));
    for (dt_value *value = r->loop->next; value != r->end; value = value->next) {
        if (!is_of_body(r, value) || !dt_value_is(value, "advance") || !is_wanted(r, value->operands[1])) continue;
        DT_TRY(dt_adjoint_add(&r->inside, value->operands[1], r->carries[value->operands[0]->id]));
    }
    for (dt_value *value = r->end; (value = next_leaving(r, value)) != NULL;) {
        dt_value *part = r->around->of[value->id];
        locate(&r->inside.builder, value);
        if (dt_value_is(value, "final")) continue;
        if (dt_value_is(value, "stack")) DT_TRY(build_scanned(&r->inside.builder, part, (int)dt_value_int(value, "axis"), flipped(value), &part));
        DT_TRY(dt_adjoint_add(&r->inside, value->operands[0], part));
    }
    return NULL;
}

/* ---- after it ---- */

static dt_status *end_carry(reversal *r, const dt_value *carry) {
    dt_value *part = r->inside.of[carry->id], *back = r->carries[carry->id], *made;
    locate(&r->inside.builder, carry);
    if (part == NULL) DT_TRY(dt_build_constant(&r->inside.builder, &part, carry->dtype, 0, carry->shape));
    DT_TRY(dt_build_binary(&r->inside.builder, &made, "advance", back, part));
    if (!is_wanted(r, carry->operands[0])) return NULL;
    locate(&r->around->builder, carry);
    DT_TRY(dt_build_unary(&r->around->builder, &made, "final", back));
    return dt_adjoint_add(r->around, carry->operands[0], made);
}

static dt_status *end_scanned(reversal *r, const dt_value *scanned) {
    dt_value *part = r->inside.of[scanned->id];
    if (part == NULL || !is_wanted(r, scanned->operands[0])) return NULL;
    locate(&r->around->builder, scanned);
    DT_TRY(build_stack(r, &r->around->builder, part, r->back, (int)dt_value_int(scanned, "axis"), flipped(scanned), &part));
    return dt_adjoint_add(r->around, scanned->operands[0], part);
}

/* What the body reads of outside and is not scanned. */
static dt_status *end_invariants(reversal *r) {
    for (dt_value *value = r->walk->function->first; value != r->loop; value = value->next) {
        if (value->id >= r->walk->n || r->inside.of[value->id] == NULL) continue;
        dt_value *sum;
        locate(&r->around->builder, value);
        DT_TRY(dt_build_binary(&r->around->builder, &sum, "accumulate", r->inside.of[value->id], r->back));
        DT_TRY(dt_adjoint_add(r->around, value, sum));
    }
    return NULL;
}

static dt_status *end_values(reversal *r) {
    for (const dt_value *value = r->loop->next; value != r->end; value = value->next) {
        if (!is_of_body(r, value)) continue;
        if (dt_value_is(value, "carry") && r->carries[value->id] != NULL) DT_TRY(end_carry(r, value));
        if (dt_value_is(value, "scanned")) DT_TRY(end_scanned(r, value));
    }
    return end_invariants(r);
}

/* ---- what the backward body reads of the forward one ---- */

static dt_status *keep(reversal *r, dt_value *value, dt_value **result);

/* The forward body that a value stands in, of those that were made on the way too. */
static const dt_value *forward_body(const reversal *r, const dt_value *value) {
    return value->id < r->walk->n ? r->walk->bodies[value->id] : value->scratch;
}

static bool is_constant(const dt_value *value) { return value->op->class == DT_CLASS_SOURCE && !dt_value_is(value, "input"); }
static bool is_move(const dt_value *value) { return value->op->class == DT_CLASS_MOVE && value->n_operands == 1; }

/* Whether the backward body has it without a stack more. */
static bool is_there(const reversal *r, const dt_value *value) {
    if (value == r->loop || forward_body(r, value) != r->loop || r->kept[value->id] != NULL) return true;
    return r->invariant[value->id] || dt_value_is(value, "scanned") || (is_move(value) && is_there(r, value->operands[0]));
}

/* Made again, of what is kept: it costs no memory. A part is kept itself, rather than all that it is part of for its sake. */
static bool is_remade(const reversal *r, const dt_value *value) {
    if (r->invariant[value->id]) return true;
    if (!is_move(value)) return false;
    bool is_part = dt_shape_elements_per_row(value->shape) < dt_shape_elements_per_row(value->operands[0]->shape);
    return !is_part || is_there(r, value->operands[0]);
}

static dt_status *remake(reversal *r, dt_builder *builder, const dt_value *value, dt_value **result) {
    dt_value **operands = DT_NEW_ARRAY(r->walk->arena, dt_value *, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) DT_TRY(keep(r, value->operands[k], &operands[k]));
    return dt_build(builder, value->op, operands, value->n_operands, value->attributes, result);
}

/* The iteration's number, counted from the other end. */
static dt_status *count_down(const reversal *r, dt_builder *builder, dt_value **result) {
    dt_value *last;
    DT_TRY(dt_build_number(builder, &last, DT_I64, dt_number_of_int(dt_loop_trips(r->loop) - 1), dt_shape_scalar()));
    return dt_build_binary(builder, result, "subtract", last, r->back);
}

/* Whether the program has a stack of the value, or of what it becomes if it is a carry, that runs from the end on. A second one that lies the same
 * way takes no memory of its own: it is the same, or part of the same history (fuse_loops.c). */
static bool is_stacked_backwards(const reversal *r, const dt_value *value) {
    const dt_value *stacked = value;
    for (const dt_value *advance = value->next; dt_value_is(value, "carry") && advance != r->end; advance = advance->next)
        if (dt_value_is(advance, "advance") && advance->operands[0] == value) stacked = advance->operands[1];
    for (const dt_value *stack = r->end->next; stack != NULL; stack = stack->next) {
        if (!dt_value_is(stack, "stack") || stack->operands[0] != stacked || stack->operands[1] != r->loop) continue;
        if (dt_value_int(stack, "axis") == dt_stack_axis(value->shape)) return dt_value_bool(stack, "reverse");
    }
    return false;
}

/* A value of the forward body, stacked right after the loop. That is a value of the body around, which has to keep it in turn. */
static dt_status *stack_and_scan(reversal *r, dt_builder *builder, dt_value *value, dt_value **result) {
    dt_builder behind = {.function = r->walk->function, .before = r->end->next, .locations = value->locations, .n_locations = value->n_locations};
    int axis = dt_stack_axis(value->shape);
    bool backwards = is_stacked_backwards(r, value);
    dt_value *all;
    DT_TRY(build_stack(r, &behind, value, r->loop, axis, backwards ? "true" : "false", &all));
    all->scratch = r->walk->bodies[r->loop->id];
    return build_scanned(builder, all, axis, backwards ? "false" : "true", result);
}

static dt_status *keep(reversal *r, dt_value *value, dt_value **result) {
    *result = value;
    if (value != r->loop && forward_body(r, value) != r->loop) return NULL;
    if (r->kept[value->id] == NULL) {
        dt_builder builder = {.function = r->walk->function, .before = r->first, .locations = value->locations, .n_locations = value->n_locations};
        dt_value **kept = &r->kept[value->id];
        if (value == r->loop)
            DT_TRY(count_down(r, &builder, kept));
        else if (dt_value_is(value, "scanned"))
            DT_TRY(build_scanned(&builder, value->operands[0], (int)dt_value_int(value, "axis"), flipped(value), kept));
        else if (is_remade(r, value))
            DT_TRY(remake(r, &builder, value, kept));
        else
            DT_TRY(stack_and_scan(r, &builder, value, kept));
    }
    *result = r->kept[value->id];
    return NULL;
}

static bool is_same_in_all(const reversal *r, const dt_value *value) {
    if (value->op->class == DT_CLASS_LOOP || (value->n_operands == 0 && !is_constant(value))) return false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *operand = value->operands[k];
        if (operand == r->loop || (forward_body(r, operand) == r->loop && !r->invariant[operand->id])) return false;
    }
    return true;
}

/* What is made of values from outside alone, such as weights in less precision. Both loops make it, and hoist takes it out of both. */
static void find_invariants(reversal *r) {
    r->invariant = DT_NEW_ARRAY(r->walk->arena, bool, r->n_kept);
    for (const dt_value *value = r->loop->next; value != r->end; value = value->next)
        r->invariant[value->id] = forward_body(r, value) == r->loop && is_same_in_all(r, value);
}

static dt_status *keep_all(reversal *r) {
    r->first = r->back->next;
    r->n_kept = r->walk->function->next_id;
    r->kept = DT_NEW_ARRAY(r->walk->arena, dt_value *, r->n_kept);
    find_invariants(r);
    for (dt_value *value = r->first; value != r->back_end; value = value->next)
        for (int k = 0; k < value->n_operands; k++) DT_TRY(keep(r, value->operands[k], &value->operands[k]));
    return NULL;
}

dt_status *dt_autodiff_loop(dt_autodiff *walk, dt_adjoints *adjoints, dt_value *loop) {
    reversal r = {.walk = walk, .around = adjoints, .loop = loop, .end = dt_loop_end(loop)};
    if (next_leaving(&r, r.end) == NULL) return NULL;
    r.inside.of = DT_NEW_ARRAY(walk->arena, dt_value *, walk->n);
    r.carries = DT_NEW_ARRAY(walk->arena, dt_value *, walk->n);
    DT_TRY(begin(&r));
    DT_TRY(begin_values(&r));
    DT_TRY(dt_autodiff_walk(walk, &r.inside, r.end->previous, loop));
    DT_TRY(end_values(&r));
    return keep_all(&r);
}
