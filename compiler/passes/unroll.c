/* unroll: a loop that cannot stay one becomes as many copies of its body as it has iterations.
 *
 * In:  a partitioned graph with loops (ir/body.h).      Out: the same, with those loops alone that plans can have.
 *
 * These are all but two: a loop of one iteration is none; and where what all replicas compute alike leaves a loop that they run each for themselves,
 * nobody is to write it to the memory that they share. What a loop stacks and another one scans, as the gradient does with what it reads of the body,
 * goes from one copy straight to the other. A step grows with its iterations, and so does the time to compile it: what would grow beyond what passes
 * handle is refused. */
#include "compiler/passes/passes.h"
#include "ir/body.h"

#include <assert.h>
#include <string.h>

enum {
    MOST_VALUES = 65536 /* of a function, unrolled */
};

/* A loop that is being unrolled. */
typedef struct unroll {
    dt_arena *arena;
    dt_function *function;
    dt_value *loop, *end;
    dt_value **bodies; /* [next_id before] */
    dt_value **now;    /* [next_id before] of the body's values, what they are in this iteration */
    DT_LIST(dt_value *) leaving;
    dt_value ***parts; /* [leaving.n] of a stack, [trips] in the order of its elements; of an accumulate, [1] the sum so far */
} unroll;

static dt_builder builder_for(const unroll *u, const dt_value *value) {
    return (dt_builder){.function = u->function, .before = u->loop, .n_locations = value->n_locations, .locations = value->locations};
}

static dt_value *now(const unroll *u, dt_value *value) { return u->now[value->id] != NULL ? u->now[value->id] : value; }

/* Where a value is split that has one dimension more or fewer at `axis`. */
static dt_distribution moved(dt_distribution distribution, int axis, int by) {
    if (distribution.kind == DT_SPLIT && distribution.axis >= axis) distribution.axis += by;
    return distribution;
}

static dt_status *build_reshape(dt_builder *builder, dt_value *x, dt_shape shape, dt_value **result) {
    return dt_build(builder, dt_op_find("reshape"), &x, 1, &(dt_attribute){.i = shape.rank, .ints = shape.dims}, result);
}

/* ---- what enters ---- */

/* Element `t` of an axis, of what was stacked from values of that shape; NULL: x is something else. */
static dt_value *stacked_element(const dt_value *x, int axis, int64_t t, dt_shape shape) {
    if (!dt_value_is(x, "concatenate") || dt_value_int(x, "axis") != axis || x->n_operands != x->shape.dims[axis]) return NULL;
    const dt_value *part = x->operands[t];
    return dt_value_is(part, "reshape") && dt_shape_equal(part->operands[0]->shape, shape) ? part->operands[0] : NULL;
}

static dt_status *scan(unroll *u, const dt_value *scanned, int64_t iteration, dt_value **result) {
    dt_value *x = scanned->operands[0], *slice;
    int axis = (int)dt_value_int(scanned, "axis"), rank = x->shape.rank;
    int64_t t = dt_value_bool(scanned, "reverse") ? x->shape.dims[axis] - 1 - iteration : iteration;
    *result = stacked_element(x, axis, t, scanned->shape);
    if (*result != NULL) return NULL;
    dt_builder builder = builder_for(u, scanned);
    int64_t *starts = DT_NEW_ARRAY(u->arena, int64_t, rank), *limits = dt_arena_copy(u->arena, x->shape.dims, (size_t)rank * sizeof *limits);
    starts[axis] = t;
    limits[axis] = t + 1;
    dt_attribute attributes[] = {{.i = rank, .ints = starts}, {.i = rank, .ints = limits}, {.i = 0}};
    DT_TRY(dt_build(&builder, dt_op_find("slice"), &x, 1, attributes, &slice));
    slice->distribution = x->distribution;
    DT_TRY(build_reshape(&builder, slice, scanned->shape, result));
    (*result)->distribution = scanned->distribution;
    return NULL;
}

/* ---- the body ---- */

static dt_status *copy(unroll *u, const dt_value *value, dt_value **result) {
    dt_builder builder = builder_for(u, value);
    dt_value **operands = DT_NEW_ARRAY(u->arena, dt_value *, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) operands[k] = now(u, value->operands[k]);
    return dt_build_copy(&builder, value, operands, result);
}

static dt_status *begin_iteration(unroll *u, int64_t iteration) {
    dt_builder builder = builder_for(u, u->loop);
    dt_value **number = &u->now[u->loop->id];
    DT_TRY(dt_build_number(&builder, number, DT_I64, dt_number_of_int(iteration), dt_shape_scalar()));
    (*number)->distribution = u->loop->distribution;
    return NULL;
}

static dt_status *copy_body(unroll *u, int64_t iteration) {
    for (dt_value *value = u->loop->next; value != u->end; value = value->next) {
        dt_value **result = &u->now[value->id];
        bool own = u->bodies[value->id] == u->loop;
        if (own && dt_value_is(value, "carry")) {
            if (iteration == 0) *result = value->operands[0];
        } else if (own && dt_value_is(value, "scanned")) {
            DT_TRY(scan(u, value, iteration, result));
        } else if (!own || !dt_value_is(value, "advance")) {
            DT_TRY(copy(u, value, result));
        }
    }
    return NULL;
}

/* ---- what leaves ---- */

static dt_status *leave(unroll *u, size_t i, int64_t iteration) {
    const dt_value *value = u->leaving.items[i];
    dt_value *x = now(u, value->operands[0]), **parts = u->parts[i];
    dt_builder builder = builder_for(u, value);
    if (dt_value_is(value, "stack")) {
        parts[dt_value_bool(value, "reverse") ? dt_loop_trips(u->loop) - 1 - iteration : iteration] = x;
    } else if (dt_value_is(value, "accumulate")) {
        dt_value *sum = parts[0];
        parts[0] = x;
        if (sum != NULL) DT_TRY(dt_build_binary(&builder, &parts[0], "add", sum, x));
        parts[0]->distribution = value->distribution;
    }
    return NULL;
}

/* All together: what a carry becomes may be another carry. */
static void advance(unroll *u) {
    DT_LIST(dt_value *) next = {0};
    for (dt_value *value = u->loop->next; value != u->end; value = value->next)
        if (u->bodies[value->id] == u->loop && dt_value_is(value, "advance")) dt_list_push(u->arena, &next, now(u, value->operands[1]));
    size_t i = 0;
    for (dt_value *value = u->loop->next; value != u->end; value = value->next)
        if (u->bodies[value->id] == u->loop && dt_value_is(value, "advance")) {
            assert(i < next.n);
            u->now[value->operands[0]->id] = next.items[i++];
        }
}

static dt_status *build_stack(unroll *u, const dt_value *stack, dt_value *const *parts, dt_value **result) {
    dt_builder builder = builder_for(u, stack);
    int axis = (int)dt_value_int(stack, "axis"), n = (int)dt_loop_trips(u->loop);
    int64_t *dims = dt_arena_copy(u->arena, stack->shape.dims, (size_t)stack->shape.rank * sizeof *dims);
    dims[axis] = 1;
    dt_value **rows = DT_NEW_ARRAY(u->arena, dt_value *, n);
    for (int t = 0; t < n; t++) {
        DT_TRY(build_reshape(&builder, parts[t], (dt_shape){stack->shape.rank, dims}, &rows[t]));
        rows[t]->distribution = moved(parts[t]->distribution, axis, 1);
    }
    DT_TRY(dt_build_text(&builder, result, "concatenate", rows, n, "axis=%d", axis));
    (*result)->distribution = stack->distribution;
    return NULL;
}

static dt_status *finish(unroll *u) {
    for (size_t i = 0; i < u->leaving.n; i++) {
        dt_value *value = u->leaving.items[i], *result = u->parts[i][0];
        if (dt_value_is(value, "stack")) DT_TRY(build_stack(u, value, u->parts[i], &result));
        if (dt_value_is(value, "final")) result = now(u, value->operands[0]);
        dt_value_replace(value, result);
        dt_value_remove(value);
    }
    for (dt_value *value = u->loop, *next, *behind = u->end->next; value != behind; value = next) {
        next = value->next;
        dt_value_remove(value);
    }
    return NULL;
}

static dt_status *unroll_loop(dt_arena *arena, dt_function *function, dt_value *loop) {
    int n = function->next_id;
    int64_t trips = dt_loop_trips(loop);
    unroll u = {.arena = arena, .function = function, .loop = loop, .end = dt_loop_end(loop)};
    u.bodies = DT_NEW_ARRAY(arena, dt_value *, n);
    u.now = DT_NEW_ARRAY(arena, dt_value *, n);
    dt_function_find_bodies(function, u.bodies);
    for (dt_value *value = u.end->next; value != NULL; value = value->next)
        if (dt_value_leaves(value) && dt_loop_left(u.bodies, value) == loop) dt_list_push(arena, &u.leaving, value);
    u.parts = DT_NEW_ARRAY(arena, dt_value **, u.leaving.n);
    for (size_t i = 0; i < u.leaving.n; i++) u.parts[i] = DT_NEW_ARRAY(arena, dt_value *, trips);
    for (int64_t t = 0; t < trips; t++) {
        DT_TRY(begin_iteration(&u, t));
        DT_TRY(copy_body(&u, t));
        for (size_t i = 0; i < u.leaving.n; i++) DT_TRY(leave(&u, i, t));
        advance(&u);
    }
    return finish(&u);
}

/* ---- the pass ---- */

static bool is_inner(const dt_value *loop) {
    int depth = 0;
    for (const dt_value *value = loop->previous; value != NULL; value = value->previous)
        depth += dt_value_is_loop(value) - dt_value_is_end_loop(value);
    return depth > 0;
}

/* What all replicas compute alike leaves a loop that they run each for themselves: they would all write it to the memory that they share. */
static bool shares_what_leaves(const dt_value *loop) {
    if (!dt_function_role_has_rows(loop->function->role) || dt_loop_is_replicated(loop)) return false;
    dt_value **bodies = DT_NEW_ARRAY(loop->function->module->arena, dt_value *, loop->function->next_id);
    dt_function_find_bodies(loop->function, bodies);
    for (const dt_value *value = dt_loop_end(loop)->next; value != NULL; value = value->next)
        if (dt_value_leaves(value) && dt_loop_left(bodies, value) == loop && value->distribution.kind == DT_REPLICATED) return true;
    return false;
}

/* Loops within another one stay with it. */
static bool can_stay(const dt_value *loop) { return dt_loop_trips(loop) > 1 && (is_inner(loop) || !shares_what_leaves(loop)); }

/* How many values a function has when its loops are unrolled, or more than it may have. */
static int64_t count_unrolled(const dt_function *function) {
    int64_t n = 0, times[64] = {1};
    int depth = 0;
    for (const dt_value *value = function->first; value != NULL && n <= MOST_VALUES; value = value->next) {
        if (dt_value_is_loop(value) && depth + 1 == (int)(sizeof times / sizeof *times)) return MOST_VALUES + 1;
        if (dt_value_is_loop(value)) times[depth + 1] = times[depth] * (can_stay(value) ? 1 : dt_loop_trips(value)), depth++;
        if (dt_value_is_end_loop(value)) depth--;
        if (times[depth] > MOST_VALUES) return MOST_VALUES + 1;
        n += times[depth];
    }
    return n;
}

dt_status *dt_pass_unroll(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        if (!dt_function_has_loops(function)) continue;
        if (count_unrolled(function) > MOST_VALUES)
            return dt_error(DT_INVALID_ARGUMENT,
                            "function %s: its scans are unrolled, which makes more than %d values, too many to compile: scan fewer iterations",
                            function->name, MOST_VALUES);
        for (dt_value *value = function->first, *previous; value != NULL; value = previous != NULL ? previous->next : function->first) {
            previous = value;
            if (!dt_value_is_loop(value) || can_stay(value)) continue;
            previous = value->previous;
            DT_TRY(unroll_loop(compilation->arena, function, value));
        }
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}
