/* body: see body.h. */
#include "ir/body.h"

#include <assert.h>
#include <inttypes.h>

bool dt_value_is_loop(const dt_value *value) { return dt_value_is(value, "begin_loop"); }
bool dt_value_is_end_loop(const dt_value *value) { return dt_value_is(value, "end_loop"); }
bool dt_value_leaves(const dt_value *value) { return dt_value_is(value, "stack") || dt_value_is(value, "final") || dt_value_is(value, "accumulate"); }

bool dt_function_has_loops(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->op->class == DT_CLASS_LOOP) return true;
    return false;
}

void dt_function_find_bodies(const dt_function *function, dt_value **bodies) {
    dt_value *body = NULL;
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        if (dt_value_is_end_loop(value) && body != NULL) body = bodies[body->id];
        bodies[value->id] = body;
        if (dt_value_is_loop(value)) body = value;
    }
}

dt_value **dt_function_find_advances(dt_arena *arena, const dt_function *function) {
    dt_value **advances = DT_NEW_ARRAY(arena, dt_value *, function->next_id);
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_is(value, "advance")) advances[value->operands[0]->id] = value;
    return advances;
}

dt_value *dt_loop_left(dt_value *const *bodies, const dt_value *value) {
    return value->n_operands == 2 ? value->operands[1] : bodies[value->operands[0]->id];
}

bool dt_body_is_within(dt_value *const *bodies, const dt_value *body, const dt_value *around) {
    while (body != around && body != NULL) body = bodies[body->id];
    return body == around;
}

dt_value *dt_loop_end(const dt_value *loop) {
    int depth = 1;
    dt_value *value = loop->next;
    for (;; value = value->next) {
        depth += dt_value_is_loop(value) - dt_value_is_end_loop(value);
        if (depth == 0) return value;
    }
}

int64_t dt_loop_trips(const dt_value *loop) { return dt_value_int(loop, "trips"); }

bool dt_loop_is_replicated(const dt_value *loop) {
    const dt_value *end = dt_loop_end(loop);
    if (!dt_function_role_has_rows(loop->function->role)) return true;
    for (const dt_value *value = loop; value != end; value = value->next) {
        if (dt_value_is(value, "advance") || dt_value_is_end_loop(value)) continue; /* they are of use to nobody */
        if (value->distribution.kind != DT_REPLICATED) return false;
    }
    for (const dt_value *value = end->next; value != NULL; value = value->next) { /* what leaves may be of outside */
        bool leaves = dt_value_leaves(value) && value->n_operands == 2 && value->operands[1] == loop;
        if (leaves && value->distribution.kind != DT_REPLICATED) return false;
    }
    return true;
}

int dt_stack_axis(dt_shape shape) { return shape.rank > 0 && dt_dim_is_symbol(shape.dims[0]); }

/* ---- verification ---- */

static dt_status *broken(const dt_value *value, const char *rule) {
    return dt_error(DT_INTERNAL, "function %s, %%%d = %s: %s", value->function->name, value->id, value->op->name, rule);
}

static dt_status *verify_balance(const dt_function *function) {
    int depth = 0;
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        depth += dt_value_is_loop(value) - dt_value_is_end_loop(value);
        if (depth < 0) return broken(value, "it ends no loop");
    }
    return depth == 0 ? NULL : dt_error(DT_INTERNAL, "function %s: a loop has no end", function->name);
}

/* A value of the right body, seen from where `value` stands. */
static dt_status *verify_uses(dt_value *const *bodies, const dt_value *value) {
    const dt_value *here = bodies[value->id];
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *there = bodies[value->operands[k]->id];
        bool leaves = k == 0 && dt_value_leaves(value) && there != NULL && there == dt_loop_left(bodies, value);
        if (!leaves && !dt_body_is_within(bodies, here, there)) return broken(value, "an operand is of the body of a loop that it is not in");
    }
    if (!dt_value_leaves(value)) return NULL;
    const dt_value *loop = dt_loop_left(bodies, value);
    bool beside = loop != NULL && dt_value_is_loop(loop) && bodies[loop->id] == here;
    return beside ? NULL : broken(value, "it takes nothing out of a loop that stands beside it");
}

static dt_status *verify_row(dt_value *const *bodies, const dt_value *value, int *n_advances) {
    const dt_value *here = bodies[value->id], *operand = value->n_operands > 0 ? value->operands[0] : NULL;
    if (dt_value_is(value, "carry") || dt_value_is(value, "scanned") || dt_value_is(value, "advance")) {
        if (here == NULL) return broken(value, "it is in no loop's body");
        assert(operand != NULL); /* by their rows */
        if (dt_value_is(value, "advance") && (!dt_value_is(operand, "carry") || bodies[operand->id] != here))
            return broken(value, "it advances no carry of its body");
        if (dt_value_is(value, "advance") && n_advances[operand->id]++ > 0) return broken(value, "the carry advances twice");
        if (!dt_value_is(value, "advance") && bodies[operand->id] == here) return broken(value, "its operand is of the same body");
        if (dt_value_is(value, "scanned") && operand->shape.dims[dt_value_int(value, "axis")] != dt_loop_trips(here))
            return broken(value, "the axis is not as long as the loop");
    }
    if (dt_value_is(value, "final") && !dt_value_is(operand, "carry")) return broken(value, "its operand is no carry");
    if (dt_value_is(value, "stack") && dt_value_int(value, "size") != dt_loop_trips(value->operands[1]))
        return broken(value, "size is not the trip count");
    return NULL;
}

dt_status *dt_bodies_verify(dt_arena *scratch, const dt_function *function) {
    if (!dt_function_has_loops(function)) return NULL;
    DT_TRY(verify_balance(function));
    dt_value **bodies = DT_NEW_ARRAY(scratch, dt_value *, function->next_id);
    int *n_advances = DT_NEW_ARRAY(scratch, int, function->next_id);
    dt_function_find_bodies(function, bodies);
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        DT_TRY(verify_uses(bodies, value));
        DT_TRY(verify_row(bodies, value, n_advances));
    }
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_is(value, "carry") && n_advances[value->id] == 0) return broken(value, "the carry never advances");
    for (size_t i = 0; i < function->results.n; i++)
        if (bodies[function->results.items[i].value->id] != NULL)
            return dt_error(DT_INTERNAL, "function %s: its result %s is in a loop's body", function->name, function->results.items[i].name);
    return NULL;
}
