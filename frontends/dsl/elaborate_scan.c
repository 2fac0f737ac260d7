/* elaborate_scan: scan(fn(state, x) => …, init, xs). The body is elaborated once, between a loop's begin and end (ir/body.h), on a carry for each
 * tensor of the state and this iteration's part of each of xs: so a layer that it calls has one set of parameters.
 *
 * What the front end remembers beyond an expression, such as what a variable holds, is emitted before the outermost loop (dt_emit_outside), where
 * everybody may use it. So are random numbers: those of all iterations are one tensor, which the loop scans like any other. An element's number, and
 * with it the iteration, decides what is drawn. */
#include "frontends/dsl/elaborator.h"

#include "ir/body.h"

struct dt_scan {
    dt_value *loop;
    dt_function *function;
    dt_scan *outer;
};

enum {
    BODY,
    INIT,
    XS,
    AXIS,
    REVERSE,
    LENGTH
};

/* ---- what is emitted elsewhere ---- */

bool dt_is_in_scan(const dt_elaborator *e) { return e->scan != NULL && e->scan->function == e->function; }

dt_object dt_emit_outside(dt_elaborator *e, const char *op, dt_value *const *operands, int n_operands, const dt_named_attribute *settings,
                          size_t n_settings) {
    dt_value *before = e->before;
    if (dt_is_in_scan(e)) {
        const dt_scan *scan = e->scan;
        while (scan->outer != NULL) scan = scan->outer;
        e->before = scan->loop;
    }
    dt_object object = dt_emit(e, op, operands, n_operands, settings, n_settings);
    e->before = before;
    return object;
}

/* The part of `x` that belongs to the iteration of `scan`, which stands in the body of that loop alone: before `inner`, the loop within it. */
static dt_object take_part(dt_elaborator *e, dt_object x, int axis, dt_value *inner) {
    if (dt_is_poison(x)) return x;
    dt_value *before = e->before;
    e->before = inner;
    dt_named_attribute settings[] = {{"axis", {.i = axis}}};
    dt_object part = dt_emit(e, "scanned", &x.value, 1, settings, 1);
    e->before = before;
    return part;
}

/* The random numbers of all iterations, reduced to this one's from the outermost loop to the innermost. */
static dt_object scan_random(dt_elaborator *e, const dt_scan *scan, dt_object all, int axis, dt_value *inner) {
    if (scan->outer != NULL) all = scan_random(e, scan->outer, all, axis, scan->loop);
    return take_part(e, all, axis, inner);
}

dt_object dt_emit_random(dt_elaborator *e, const dt_op *op, const dt_attribute *attributes) {
    const dt_attribute *shape = &attributes[dt_op_attribute_index(op, "shape")], *stream = &attributes[dt_op_attribute_index(op, "stream")];
    dt_scan *scans = dt_is_in_scan(e) ? e->scan : NULL;
    int axis = dt_stack_axis((dt_shape){(int)shape->i, shape->ints}), n = 0;
    for (const dt_scan *scan = scans; scan != NULL; scan = scan->outer) n++;
    int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, shape->i + n);
    for (int d = 0; d < axis; d++) dims[d] = shape->ints[d];
    for (int d = axis; d < shape->i; d++) dims[d + n] = shape->ints[d];
    for (const dt_scan *scan = scans; scan != NULL; scan = scan->outer) dims[axis + --n] = dt_loop_trips(scan->loop);
    for (const dt_scan *scan = scans; scan != NULL; scan = scan->outer) n++;
    dt_named_attribute settings[] = {{"shape", {.i = shape->i + n, .ints = dims}}, {"stream", *stream}};
    dt_object all = dt_emit_outside(e, op->name, NULL, 0, settings, 2);
    return scans != NULL ? scan_random(e, scans, all, axis, NULL) : all;
}

/* ---- tensors, alone or in a list ---- */

typedef struct group {
    bool is_list;
    size_t n;
    dt_object *tensors;
} group;

/* false: reported. `like`: of which group a literal takes the types, or NULL. */
static bool to_group(dt_elaborator *e, const char *what, dt_object object, const group *like, group *result) {
    bool is_list = object.kind == DT_OBJECT_LIST || object.kind == DT_OBJECT_TUPLE;
    *result = (group){.is_list = is_list, .n = object.kind == DT_OBJECT_NONE ? 0 : is_list ? object.items->n : 1};
    result->tensors = DT_NEW_ARRAY(e->arena, dt_object, result->n);
    for (size_t i = 0; i < result->n; i++) {
        dt_object item = dt_settle(e, is_list ? object.items->items[i] : object);
        bool fits = item.kind == DT_OBJECT_TENSOR || dt_is_number(item) || item.kind == DT_OBJECT_BOOL;
        if (dt_is_poison(item)) return false;
        if (!fits) return dt_elaborator_fail(e, "scan: %s is a tensor or a list of tensors, not %s", what, dt_object_describe(e->arena, item)), false;
        result->tensors[i] = dt_to_tensor(e, item, like != NULL && i < like->n ? like->tensors[i].value->dtype : DT_F32);
        if (dt_is_poison(result->tensors[i])) return false;
    }
    return true;
}

static dt_object from_group(dt_elaborator *e, const group *group) {
    if (group->is_list) return dt_object_items(e->arena, DT_OBJECT_LIST, group->tensors, group->n);
    return group->n == 1 ? group->tensors[0] : dt_object_none();
}

/* ---- scan ---- */

/* The length of what is scanned, or 0: reported. */
static int64_t length_of(dt_elaborator *e, const group *xs, const dt_object *a, int *axes) {
    int64_t length = 0;
    if (a[LENGTH].kind == DT_OBJECT_INT) length = a[LENGTH].i;
    if ((a[LENGTH].kind != DT_OBJECT_INT && a[LENGTH].kind != DT_OBJECT_NONE) || (a[LENGTH].kind == DT_OBJECT_INT && length < 1))
        return dt_elaborator_fail(e, "scan: length is a whole number, at least 1"), 0;
    if (xs->n == 0 && length == 0) {
        dt_diagnostic_help(dt_elaborator_error(e, e->at, "scan has neither xs nor a length"), "scan(body, init, length: 10)");
        return 0;
    }
    for (size_t i = 0; i < xs->n; i++) {
        const dt_value *x = xs->tensors[i].value;
        const char *described = dt_object_describe(e->arena, xs->tensors[i]);
        if (!dt_to_axis(e, a[AXIS], x->shape.rank, &axes[i])) return 0;
        int64_t extent = x->shape.dims[axes[i]];
        if (extent == DT_BATCH) {
            dt_diagnostic *error = dt_elaborator_error(e, e->at, "scan: axis %d of %s is the batch, whose length is not known", axes[i], described);
            dt_diagnostic_help(error, "rows of a batch do not follow one another: scan along another axis, axis: 1");
            return 0;
        }
        if (length == 0) length = extent;
        if (extent == 0) return dt_elaborator_fail(e, "scan: axis %d of %s has no positions to walk along", axes[i], described), 0;
        if (extent != length)
            return dt_elaborator_fail(e, "scan: axis %d of %s has %lld positions, not %lld", axes[i], described, (long long)extent,
                                      (long long)length),
                   0;
    }
    return length;
}

static bool enter(dt_elaborator *e, const group *init, const group *xs, const int *axes, const dt_object *a, group *state, group *parts) {
    *state = *init;
    *parts = *xs;
    state->tensors = DT_NEW_ARRAY(e->arena, dt_object, init->n);
    parts->tensors = DT_NEW_ARRAY(e->arena, dt_object, xs->n + 1);
    for (size_t i = 0; i < init->n; i++) {
        state->tensors[i] = dt_emit_unary(e, "carry", init->tensors[i].value);
        if (dt_is_poison(state->tensors[i])) return false;
    }
    for (size_t i = 0; i < xs->n; i++) {
        dt_named_attribute settings[] = {{"axis", {.i = axes[i]}}, {"reverse", {.i = a[REVERSE].b}}};
        parts->tensors[i] = dt_emit(e, "scanned", &xs->tensors[i].value, 1, settings, 2);
        if (dt_is_poison(parts->tensors[i])) return false;
    }
    if (xs->n > 0 || xs->is_list) return true;
    int64_t last = dt_loop_trips(e->scan->loop) - 1;
    parts->n = 1;
    parts->tensors[0] = dt_object_tensor(e->scan->loop);
    if (a[REVERSE].b) parts->tensors[0] = dt_binary(e, DT_TOKEN_MINUS, dt_object_int(last), parts->tensors[0]);
    return !dt_is_poison(parts->tensors[0]);
}

static bool advance(dt_elaborator *e, const group *state, const group *next) {
    if (state->n != next->n || state->is_list != next->is_list)
        return dt_elaborator_fail(e, "scan: the state begins as %s, and the body makes %s of it", dt_object_describe(e->arena, from_group(e, state)),
                                  dt_object_describe(e->arena, from_group(e, next))),
               false;
    for (size_t i = 0; i < state->n; i++) {
        next->tensors[i] = dt_to_type_of_variable(e, next->tensors[i], state->tensors[i].value->dtype);
        if (dt_is_poison(next->tensors[i])) return false;
        dt_value *carry = state->tensors[i].value, *x = next->tensors[i].value;
        if (carry->dtype != x->dtype || !dt_shape_equal(carry->shape, x->shape)) {
            dt_diagnostic *error =
                dt_elaborator_error(e, e->at, "scan: the state begins as %s, and the body makes %s of it",
                                    dt_object_describe(e->arena, state->tensors[i]), dt_object_describe(e->arena, next->tensors[i]));
            if (carry->dtype == x->dtype && dt_shape_batch_axis(carry->shape) < 0 && dt_shape_batch_axis(x->shape) >= 0)
                dt_diagnostic_help(error, "begin with a state for each row: zeros(%s)", dt_describe_shape(e, x->shape));
            return false;
        }
        dt_emit_binary(e, "advance", carry, x);
    }
    return true;
}

static dt_object leave(dt_elaborator *e, dt_value *loop, const group *state, const group *ys, const dt_object *a) {
    group last = *state, all = *ys;
    last.tensors = DT_NEW_ARRAY(e->arena, dt_object, state->n);
    all.tensors = DT_NEW_ARRAY(e->arena, dt_object, ys->n);
    for (size_t i = 0; i < state->n; i++) last.tensors[i] = dt_emit_unary(e, "final", state->tensors[i].value);
    for (size_t i = 0; i < ys->n; i++) {
        int axis;
        dt_value *y = ys->tensors[i].value;
        if (!dt_to_axis(e, a[AXIS], y->shape.rank + 1, &axis)) return dt_poison();
        dt_named_attribute settings[] = {{"axis", {.i = axis}}, {"size", {.i = dt_loop_trips(loop)}}, {"reverse", {.i = a[REVERSE].b}}};
        all.tensors[i] = dt_emit(e, "stack", (dt_value *[]){y, loop}, 2, settings, 3);
        if (dt_is_poison(all.tensors[i])) return dt_poison();
    }
    return dt_object_items(e->arena, DT_OBJECT_TUPLE, (dt_object[]){from_group(e, &last), from_group(e, &all)}, 2);
}

/* Runs the body and ends the loop. */
static dt_object run(dt_elaborator *e, const dt_object *a, const group *init, const group *xs, const int *axes) {
    dt_value *loop = e->scan->loop;
    dt_span at = e->at;
    group state, parts, next, ys;
    if (!enter(e, init, xs, axes, a, &state, &parts)) return dt_poison();
    dt_object result = dt_call_with(e, a[BODY], (dt_object[]){from_group(e, &state), from_group(e, &parts)}, 2);
    e->at = at;
    if (dt_is_poison(result)) return result;
    bool is_pair = (result.kind == DT_OBJECT_TUPLE || result.kind == DT_OBJECT_LIST) && result.items->n == 2;
    if (!is_pair) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "scan: the body gives two values, the next state and what is stacked, here is %s",
                                                   dt_object_describe(e->arena, result));
        dt_diagnostic_help(error, "fn(state, x) => [next, y], or y as none; a layer or fn that returns both");
        return dt_poison();
    }
    if (!to_group(e, "the state", result.items->items[0], &state, &next) || !to_group(e, "what is stacked", result.items->items[1], NULL, &ys))
        return dt_poison();
    if (!advance(e, &state, &next)) return dt_poison();
    dt_emit(e, "end_loop", NULL, 0, NULL, 0);
    e->scan = e->scan->outer;
    return leave(e, loop, &state, &ys, a);
}

dt_object dt_elaborate_scan(dt_elaborator *e, const dt_object *a) {
    group init, xs;
    if (e->step == NULL || e->reporting || e->function != e->step->function) return dt_elaborator_fail(e, "scan stands in a step or a model");
    if (!to_group(e, "init", a[INIT], NULL, &init) || !to_group(e, "xs", a[XS], NULL, &xs)) return dt_poison();
    int *axes = DT_NEW_ARRAY(e->arena, int, xs.n + 1);
    int64_t trips = length_of(e, &xs, a, axes);
    if (trips == 0) return dt_poison();
    dt_named_attribute setting = {"trips", {.i = trips}};
    dt_object loop = dt_emit(e, "begin_loop", NULL, 0, &setting, 1);
    if (dt_is_poison(loop)) return loop;
    dt_scan scan = {.loop = loop.value, .function = e->function, .outer = e->scan};
    e->scan = &scan;
    dt_object result = run(e, a, &init, &xs, axes);
    e->scan = scan.outer;
    return result;
}

bool dt_refuse_in_scan(dt_elaborator *e, dt_span span, const char *what) {
    if (!dt_is_in_scan(e)) return false;
    dt_diagnostic *error = dt_elaborator_error(e, span, "%s in the body of a scan", what);
    dt_diagnostic_help(error, "the body runs many times in one step: do it before the scan or after it");
    return true;
}
