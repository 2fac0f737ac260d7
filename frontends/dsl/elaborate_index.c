/* elaborate_index: x[…]. Slices and single positions become one slice and one reshape; an index that is a tensor takes rows. Lists and strings are
 * indexed at compile time. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* ---- at compile time ---- */

/* An int of an index expression; NULL gives `standard`. false: reported. */
static bool index_int(dt_elaborator *e, const dt_expression *x, int64_t standard, int64_t *result) {
    *result = standard;
    if (x == NULL) return true;
    dt_object object = dt_settle(e, dt_value_of(e, x));
    if (object.kind == DT_OBJECT_INT) return *result = object.i, true;
    if (dt_is_poison(object)) return false;
    dt_diagnostic *error = dt_elaborator_error(e, x->span, "a slice has int ends, this is %s", dt_object_describe(e->arena, object));
    if (object.kind == DT_OBJECT_TENSOR)
        dt_diagnostic_help(error, "slices are fixed at compile time; gather(x, index) takes positions that a tensor holds");
    return false;
}

/* Python's rule: negative ends count from the end, ends beyond are cut. */
static bool slice_bounds(dt_elaborator *e, const dt_expression *slice, int64_t extent, int64_t *start, int64_t *limit, int64_t *step) {
    if (!index_int(e, slice->a, 0, start) || !index_int(e, slice->b, extent, limit) || !index_int(e, slice->c, 1, step)) return false;
    if (*step < 1) {
        dt_diagnostic *error = dt_elaborator_error(e, slice->c->span, "a slice steps forward: the step must be at least 1");
        dt_diagnostic_help(error, "reverse(x, axis: …) turns a tensor around");
        return false;
    }
    int64_t *ends[] = {start, limit};
    for (int i = 0; i < 2; i++) {
        if (*ends[i] < 0) *ends[i] += extent;
        if (*ends[i] < 0) *ends[i] = 0;
        if (*ends[i] > extent) *ends[i] = extent;
    }
    if (*limit < *start) *limit = *start;
    return true;
}

/* Of a list, which may be walked through backwards: list[::-1]. */
static dt_object slice_items(dt_elaborator *e, const dt_items *list, const dt_expression *slice) {
    int64_t n = (int64_t)list->n, ends[2], step;
    if (!index_int(e, slice->c, 1, &step)) return dt_poison();
    if (step == 0) return dt_elaborator_error(e, slice->c->span, "a slice has a step other than 0"), dt_poison();
    if (step > n) step = n + 1;
    if (step < -n) step = -n - 1;
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n; /* where it may start and end */
    if (!index_int(e, slice->a, step < 0 ? most : least, &ends[0])) return dt_poison();
    if (!index_int(e, slice->b, step < 0 ? -n - 1 : most, &ends[1])) return dt_poison();
    for (int i = 0; i < 2; i++) {
        if (ends[i] < 0) ends[i] += n;
        if (ends[i] < least) ends[i] = least;
        if (ends[i] > most) ends[i] = most;
    }
    dt_elaborator_charge(e, list->n);
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, n);
    size_t n_taken = 0;
    int64_t distance = step > 0 ? ends[1] - ends[0] : ends[0] - ends[1];
    for (int64_t i = 0; i<distance; i += step> 0 ? step : -step) items[n_taken++] = list->items[step > 0 ? ends[0] + i : ends[0] - i];
    return dt_object_items(e->arena, DT_OBJECT_LIST, items, n_taken);
}

static dt_object index_items(dt_elaborator *e, dt_object base, const dt_expression *index) {
    const dt_expression *x = index->items.items[0];
    int64_t n = (int64_t)base.items->n, i;
    if (x->kind == DT_EXPRESSION_SLICE) return slice_items(e, base.items, x);
    if (!index_int(e, x, 0, &i)) return dt_poison();
    if (i < -n || i >= n) {
        dt_diagnostic *error = dt_elaborator_error(e, x->span, "index %lld of a list of %lld", (long long)i, (long long)n);
        if (n > 0) dt_diagnostic_help(error, "the positions are 0 to %lld; -1 is the last one", (long long)n - 1);
        return dt_poison();
    }
    return base.items->items[i < 0 ? i + n : i];
}

/* ---- tensors ---- */

dt_object dt_gather(dt_elaborator *e, dt_value *x, dt_value *index, int axis) {
    dt_named_attribute setting = {"axis", {.i = axis}};
    return dt_emit(e, "gather", (dt_value *[]){x, index}, 2, &setting, 1);
}

typedef struct selection {
    dt_value *x;
    int axis;     /* the next one of x to be indexed */
    int n_result; /* dimensions after the slice, before gathering */
    int64_t *starts, *limits, *steps;
    int64_t *dims;   /* of the result */
    dt_value *index; /* a tensor that indexes, or NULL */
    int index_axis;  /* which dimension of the result it indexes */
    bool slices, reshapes;
} selection;

static void keep_axis(selection *s) {
    s->dims[s->n_result++] = s->x->shape.dims[s->axis];
    s->axis++;
}

static bool no_rows_of_batch(dt_elaborator *e, dt_span span) {
    dt_diagnostic *error = dt_elaborator_error(e, span, "this index would pick rows of the batch B");
    dt_diagnostic_note(error, "how many rows B has is known only when a step runs, and they are spread over replicas");
    dt_diagnostic_help(error, "keep it whole with : and index the dimensions after it");
    return false;
}

static bool select_slice(dt_elaborator *e, selection *s, const dt_expression *item) {
    int64_t extent = s->x->shape.dims[s->axis];
    if (item->a == NULL && item->b == NULL && item->c == NULL) return keep_axis(s), true;
    if (extent == DT_BATCH) return no_rows_of_batch(e, item->span);
    int64_t start, limit, step;
    if (!slice_bounds(e, item, extent, &start, &limit, &step)) return false;
    s->starts[s->axis] = start;
    s->limits[s->axis] = limit;
    s->steps[s->axis] = step;
    s->dims[s->n_result++] = (limit - start + step - 1) / step;
    s->axis++;
    s->slices = true;
    return true;
}

static bool select_position(dt_elaborator *e, selection *s, const dt_expression *item, int64_t i) {
    int64_t extent = s->x->shape.dims[s->axis];
    if (extent == DT_BATCH) return no_rows_of_batch(e, item->span);
    if (i < -extent || i >= extent) {
        dt_diagnostic *error = dt_elaborator_error(e, item->span, "index %lld of a dimension of %lld", (long long)i, (long long)extent);
        dt_diagnostic_help(error, "the positions are 0 to %lld; -1 is the last one", (long long)extent - 1);
        return false;
    }
    s->starts[s->axis] = i < 0 ? i + extent : i;
    s->limits[s->axis] = s->starts[s->axis] + 1;
    s->axis++;
    s->slices = s->reshapes = true;
    return true;
}

static bool select_item(dt_elaborator *e, selection *s, const dt_expression *item) {
    dt_object object = item->kind == DT_EXPRESSION_SLICE ? dt_object_none() : dt_settle(e, dt_value_of(e, item));
    if (dt_is_poison(object)) return false;
    if (object.kind == DT_OBJECT_NEWAXIS) {
        s->dims[s->n_result++] = 1;
        s->reshapes = true;
        return true;
    }
    if (s->axis >= s->x->shape.rank) {
        dt_diagnostic *error = dt_elaborator_error(e, item->span, "too many indices for %s", dt_object_describe(e->arena, dt_object_tensor(s->x)));
        dt_diagnostic_help(error, "newaxis adds a dimension: x[..., newaxis]");
        return false;
    }
    if (item->kind == DT_EXPRESSION_SLICE) return select_slice(e, s, item);
    if (object.kind == DT_OBJECT_INT) return select_position(e, s, item, object.i);
    if (object.kind == DT_OBJECT_TENSOR && dt_dtype_kind(object.value->dtype) == 'i') {
        if (s->index != NULL) {
            dt_elaborator_error(e, item->span, "one index may be a tensor, not two");
            return false;
        }
        s->index = object.value;
        s->index_axis = s->n_result;
        keep_axis(s);
        return true;
    }
    dt_diagnostic *error = dt_elaborator_error(e, item->span, "an index is an int, a slice, newaxis, ... or a tensor of integers, not %s",
                                               dt_object_describe(e->arena, object));
    if (object.kind == DT_OBJECT_TENSOR && object.value->dtype == DT_BOOL)
        dt_diagnostic_help(error, "how many are true is known only at run time: use where(mask, x, 0)");
    return false;
}

static dt_object take_selection(dt_elaborator *e, const selection *s) {
    dt_value *x = s->x;
    dt_object result = dt_object_tensor(x);
    if (s->slices) {
        int rank = x->shape.rank;
        dt_named_attribute settings[] = {
            {"starts", {.i = rank, .ints = s->starts}}, {"limits", {.i = rank, .ints = s->limits}}, {"steps", {.i = rank, .ints = s->steps}}};
        result = dt_emit(e, "slice", &x, 1, settings, 3);
    }
    if (dt_is_poison(result)) return result;
    if (s->reshapes) result = dt_emit_reshape(e, result.value, (dt_shape){s->n_result, s->dims});
    if (dt_is_poison(result) || s->index == NULL) return result;
    if (s->index_axis == 0) return dt_gather(e, result.value, s->index, 0);
    return dt_elaborator_fail(
        e, "a tensor indexes the first dimension; for another one use gather(x, index, axis: %d), which pairs the dimensions before it",
        s->index_axis);
}

static dt_object index_tensor(dt_elaborator *e, dt_object base, const dt_expression *index) {
    dt_value *x = base.value;
    size_t rank = (size_t)x->shape.rank, n_taken = 0, ellipsis = index->items.n;
    selection s = {.x = x};
    s.starts = DT_NEW_ARRAY(e->arena, int64_t, rank);
    s.limits = dt_arena_copy(e->arena, x->shape.dims, rank * sizeof(int64_t));
    s.steps = DT_NEW_ARRAY(e->arena, int64_t, rank);
    s.dims = DT_NEW_ARRAY(e->arena, int64_t, rank + index->items.n);
    for (size_t i = 0; i < rank; i++) s.steps[i] = 1;
    for (size_t i = 0; i < index->items.n; i++) {
        const dt_expression *item = index->items.items[i];
        if (item->kind == DT_EXPRESSION_ELLIPSIS) {
            if (ellipsis < index->items.n) return dt_elaborator_fail(e, "an index has one ... at most");
            ellipsis = i;
        } else {
            n_taken += !(item->kind == DT_EXPRESSION_NAME && strcmp(item->text, "newaxis") == 0);
        }
    }
    for (size_t i = 0; i < index->items.n; i++) {
        if (i != ellipsis) {
            if (!select_item(e, &s, index->items.items[i])) return dt_poison();
            continue;
        }
        for (size_t k = n_taken; k < rank; k++) keep_axis(&s);
    }
    while (s.axis < x->shape.rank) keep_axis(&s);
    return take_selection(e, &s);
}

dt_object dt_index_object(dt_elaborator *e, dt_object base, const dt_expression *index) {
    e->at = index->span;
    if (dt_is_poison(base)) return base;
    if (index->items.n == 0) return dt_elaborator_fail(e, "an index is missing between the brackets");
    if ((base.kind == DT_OBJECT_LIST || base.kind == DT_OBJECT_TUPLE) && index->items.n == 1) return index_items(e, base, index);
    if (base.kind == DT_OBJECT_TENSOR) return index_tensor(e, base, index);
    return dt_elaborator_fail(e, "%s cannot be indexed%s", dt_object_describe(e->arena, base), base.kind == DT_OBJECT_LIST ? " like this" : "");
}
