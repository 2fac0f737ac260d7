/* builtins_tensor: reductions, which are aggregators in a report, and what needs the shape of a tensor or the number of valid rows. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* ---- reductions ---- */

enum {
    ARGUMENT_X,
    ARGUMENT_AXIS,
    ARGUMENT_AXES,
    ARGUMENT_KEEP,
    ARGUMENT_WEIGHT /* of mean */
};

bool dt_resolve_axes(dt_elaborator *e, dt_object one, dt_object several, dt_shape shape, const int64_t **resolved, int *n_resolved) {
    int rank = shape.rank;
    bool has_axis = one.kind != DT_OBJECT_NONE, has_axes = several.kind != DT_OBJECT_NONE;
    dt_object list = has_axes ? several : one;
    if (has_axis && has_axes) return dt_elaborator_error(e, e->at, "axis and axes are two ways to say one thing: leave one out"), false;
    bool *reduced = DT_NEW_ARRAY(e->arena, bool, rank);
    if (list.kind == DT_OBJECT_NONE) {
        for (int d = 0; d < rank; d++) reduced[d] = true;
    } else {
        size_t n = list.kind == DT_OBJECT_LIST ? list.items->n : 1;
        for (size_t i = 0; i < n; i++) {
            int axis;
            if (!dt_to_axis(e, list.kind == DT_OBJECT_LIST ? list.items->items[i] : list, rank, &axis)) return false;
            if (reduced[axis]) return dt_elaborator_error(e, e->at, "axis %d is named twice", axis), false;
            reduced[axis] = true;
        }
    }
    int64_t *axes = DT_NEW_ARRAY(e->arena, int64_t, rank);
    *n_resolved = 0;
    for (int d = 0; d < rank; d++)
        if (reduced[d]) axes[(*n_resolved)++] = d;
    *resolved = axes;
    return true;
}

static bool resolve_axes(dt_elaborator *e, const dt_object *a, dt_shape shape, const int64_t **axes, int *n_axes) {
    return dt_resolve_axes(e, a[ARGUMENT_AXIS], a[ARGUMENT_AXES], shape, axes, n_axes);
}

dt_extent dt_extent_of(dt_shape shape, const int64_t *axes, int n) {
    dt_extent extent = {.per_row = 1};
    for (int i = 0; i < n; i++) {
        int64_t dim = shape.dims[axes[i]];
        extent.n_batch += dim == DT_BATCH;
        if (dim != DT_BATCH) extent.per_row *= dim;
    }
    return extent;
}

static dt_object reduce(dt_elaborator *e, const char *op, dt_object x, const dt_object *a) {
    const int64_t *axes;
    int n_axes;
    if (!resolve_axes(e, a, x.value->shape, &axes, &n_axes)) return dt_poison();
    if (e->visit == NULL && dt_extent_of(x.value->shape, axes, n_axes).n_batch > 0) e->has_reduced_batch = true;
    if (a[ARGUMENT_KEEP].kind != DT_OBJECT_BOOL) return dt_elaborator_fail(e, "keep is true or false");
    return dt_emit_reduce(e, op, x.value, axes, n_axes, a[ARGUMENT_KEEP].b);
}

/* What the aggregator of a report gives; NONE: the function is none here. */
static dt_object aggregate(dt_elaborator *e, const char *name, const dt_object *a, dt_object weight) {
    if (a[ARGUMENT_X].kind == DT_OBJECT_LIST || !dt_aggregates_here(e, a[ARGUMENT_X])) return dt_object_none();
    dt_aggregator aggregator = {a[ARGUMENT_X], a[ARGUMENT_AXIS], a[ARGUMENT_AXES], weight, a[ARGUMENT_KEEP].b};
    return dt_aggregate(e, name, &aggregator);
}

static dt_object plain_reduction(dt_elaborator *e, const char *name, const char *op, const dt_object *a) {
    if (a[ARGUMENT_X].kind == DT_OBJECT_LIST) return dt_reduce_items(e, name, a[ARGUMENT_X]);
    dt_object x = dt_to_tensor(e, a[ARGUMENT_X], DT_N_DTYPES);
    return dt_is_poison(x) ? x : reduce(e, op, x, a);
}

/* sum, max, min: of a list at compile time, in a report an aggregator, else an op. */
static dt_object reduction(dt_elaborator *e, const char *name, const char *op, const dt_object *a) {
    dt_object total = aggregate(e, name, a, dt_object_none());
    return total.kind != DT_OBJECT_NONE ? total : plain_reduction(e, name, op, a);
}

static dt_object builtin_sum(dt_elaborator *e, const dt_object *a) { return reduction(e, "sum", "reduce_sum", a); }
static dt_object builtin_max(dt_elaborator *e, const dt_object *a) { return reduction(e, "max", "reduce_max", a); }
static dt_object builtin_min(dt_elaborator *e, const dt_object *a) { return reduction(e, "min", "reduce_min", a); }

static dt_object builtin_product(dt_elaborator *e, const dt_object *a) { return plain_reduction(e, "product", "reduce_product", a); }
static dt_object builtin_all(dt_elaborator *e, const dt_object *a) { return plain_reduction(e, "all", "reduce_all", a); }
static dt_object builtin_any(dt_elaborator *e, const dt_object *a) { return plain_reduction(e, "any", "reduce_any", a); }

/* How many elements are added up in one element of the result, as a tensor of `dtype` and of that result's shape. */
static dt_object divisor_of(dt_elaborator *e, dt_value *x, dt_value *sum, const int64_t *axes, int n_axes) {
    dt_extent extent = dt_extent_of(x->shape, axes, n_axes);
    if (extent.n_batch == 0) return dt_emit_constant(e, sum->dtype, dt_object_int(extent.per_row), sum->shape);
    dt_object count = dt_emit_elements(e, extent, "valid");
    if (!dt_is_poison(count)) count = dt_emit_convert(e, count.value, sum->dtype);
    return dt_is_poison(count) ? count : dt_emit_broadcast(e, count.value, sum->shape);
}

/* In `dtype`, which holds sums and counts; sums of integers and bool are exact until they are divided. */
static dt_object mean_of(dt_elaborator *e, dt_value *value, dt_dtype dtype, const dt_object *a) {
    bool weighted = a[ARGUMENT_WEIGHT].kind != DT_OBJECT_NONE;
    dt_object x = dt_object_tensor(value);
    if (weighted || dt_dtype_is_float(value->dtype)) x = dt_emit_convert(e, value, dtype);
    if (dt_is_poison(x)) return x;
    if (weighted) {
        dt_object weight = dt_broadcast_weight(e, a[ARGUMENT_WEIGHT], x.value);
        if (dt_is_poison(weight)) return weight;
        dt_object product = dt_emit_binary(e, "multiply", x.value, weight.value);
        if (dt_is_poison(product)) return product;
        return dt_binary(e, DT_TOKEN_SLASH, reduce(e, "reduce_sum", product, a), reduce(e, "reduce_sum", weight, a));
    }
    const int64_t *axes;
    int n_axes;
    dt_object sum = reduce(e, "reduce_sum", x, a);
    if (!dt_is_poison(sum)) sum = dt_emit_convert(e, sum.value, dtype);
    if (dt_is_poison(sum) || !resolve_axes(e, a, x.value->shape, &axes, &n_axes)) return dt_poison();
    dt_object divisor = divisor_of(e, x.value, sum.value, axes, n_axes);
    return dt_is_poison(divisor) ? divisor : dt_emit_binary(e, "divide", sum.value, divisor.value);
}

static dt_object builtin_mean(dt_elaborator *e, const dt_object *a) {
    dt_object total = aggregate(e, "mean", a, a[ARGUMENT_WEIGHT]);
    if (total.kind != DT_OBJECT_NONE) return total;
    if (a[ARGUMENT_X].kind == DT_OBJECT_LIST) {
        dt_object sum = dt_reduce_items(e, "sum", a[ARGUMENT_X]);
        return dt_binary(e, DT_TOKEN_SLASH, sum, dt_object_int((int64_t)a[ARGUMENT_X].items->n));
    }
    dt_object x = dt_to_tensor(e, a[ARGUMENT_X], DT_F32);
    if (dt_is_poison(x)) return x;
    dt_dtype result = dt_dtype_is_float(x.value->dtype) ? x.value->dtype : DT_F32;
    dt_object quotient = mean_of(e, x.value, dt_dtype_of_sums(result), a);
    return dt_is_poison(quotient) ? quotient : dt_emit_convert(e, quotient.value, result);
}

static dt_object builtin_last(dt_elaborator *e, const dt_object *a) {
    if (!e->reporting) return dt_elaborator_fail(e, "last stands in a report");
    if (!dt_aggregates_here(e, a[0])) return dt_elaborator_fail(e, "last takes a value of the step, this is made of totals");
    return dt_aggregate(e, "last", &(dt_aggregator){.x = a[0], .axis = dt_object_none(), .axes = dt_object_none()});
}

static dt_object position(dt_elaborator *e, const char *op, const dt_object *a) {
    dt_object x = dt_to_tensor(e, a[0], DT_N_DTYPES);
    int axis;
    if (dt_is_poison(x) || !dt_to_axis(e, a[1], x.value->shape.rank, &axis)) return dt_poison();
    int64_t axes[] = {axis};
    return dt_emit_reduce(e, op, x.value, axes, 1, a[2].kind == DT_OBJECT_BOOL && a[2].b);
}

static dt_object builtin_argmax(dt_elaborator *e, const dt_object *a) { return position(e, "argmax", a); }
static dt_object builtin_argmin(dt_elaborator *e, const dt_object *a) { return position(e, "argmin", a); }

static dt_object builtin_count(dt_elaborator *e, const dt_object *a) {
    dt_aggregator all = {.x = a[0], .axis = dt_object_none(), .axes = dt_object_none()};
    if (dt_aggregates_here(e, a[0])) return dt_aggregate(e, "count", &all);
    dt_object x = dt_to_tensor(e, a[0], DT_N_DTYPES);
    return dt_is_poison(x) ? x : dt_emit_count(e, x.value, "valid");
}

/* ---- shapes ---- */

/* One dimension may be -1: what is left of the elements. */
static dt_object builtin_reshape(dt_elaborator *e, const dt_object *a) {
    dt_object x = dt_to_tensor(e, a[0], DT_N_DTYPES);
    if (dt_is_poison(x)) return x;
    size_t n = a[1].kind == DT_OBJECT_LIST ? a[1].items->n : 0, open = n;
    dt_object *dims = DT_NEW_ARRAY(e->arena, dt_object, n);
    int64_t known = 1, elements = dt_shape_elements_per_row(x.value->shape);
    for (size_t i = 0; i < n; i++) {
        dims[i] = a[1].items->items[i];
        bool is_open = dims[i].kind == DT_OBJECT_INT && dims[i].i == -1;
        if (is_open && open < n) return dt_elaborator_fail(e, "reshape: one dimension may be -1, not two");
        if (is_open) open = i;
        if (!is_open && dims[i].kind == DT_OBJECT_INT && __builtin_mul_overflow(known, dims[i].i, &known)) known = 0;
    }
    if (open < n) {
        if (known <= 0 || elements % known != 0)
            return dt_elaborator_fail(e, "reshape: no dimension fits for -1 in %s", dt_object_describe(e->arena, a[1]));
        dims[open] = dt_object_int(elements / known);
    }
    dt_shape shape;
    if (!dt_to_shape(e, dt_object_items(e->arena, DT_OBJECT_LIST, dims, n), "reshape", &shape)) return dt_poison();
    bool had_batch = dt_shape_batch_axis(x.value->shape) >= 0, has_batch = dt_shape_batch_axis(shape) >= 0;
    bool first = !has_batch || (shape.dims[0] == DT_BATCH && x.value->shape.dims[0] == DT_BATCH);
    if (had_batch != has_batch || !first || dt_shape_elements_per_row(shape) != elements) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "reshape: %s cannot become %s", dt_object_describe(e->arena, x), dt_describe_shape(e, shape));
        if (had_batch && !has_batch) dt_diagnostic_help(error, "the batch stays a dimension of its own: [B, …]");
        if (had_batch == has_batch && first)
            dt_diagnostic_note(error, "it has %lld elements%s, the shape holds %lld", (long long)elements, had_batch ? " a row" : "",
                               (long long)dt_shape_elements_per_row(shape));
        return dt_poison();
    }
    return dt_emit_reshape(e, x.value, shape);
}

static dt_object builtin_broadcast(dt_elaborator *e, const dt_object *a) {
    dt_object x = dt_to_tensor(e, a[0], DT_F32);
    dt_shape shape, result;
    if (dt_is_poison(x) || !dt_to_shape(e, a[1], "broadcast", &shape)) return dt_poison();
    if (!dt_broadcast_shapes(e, x.value->shape, shape, &result, "broadcast")) return dt_poison();
    if (!dt_shape_equal(result, shape))
        return dt_elaborator_fail(e, "broadcast: %s cannot become %s", dt_object_describe(e->arena, x), dt_describe_shape(e, shape));
    return dt_emit_broadcast(e, x.value, shape);
}

static dt_object builtin_gather(dt_elaborator *e, const dt_object *a) {
    dt_object x = dt_to_tensor(e, a[0], DT_N_DTYPES), index = dt_to_tensor(e, a[1], DT_I64);
    int axis;
    if (dt_is_poison(x) || dt_is_poison(index) || !dt_to_axis(e, a[2], x.value->shape.rank, &axis)) return dt_poison();
    return dt_gather(e, x.value, index.value, axis);
}

#define REDUCTION "(x, axis = none, axes = none, keep: bool = false"

const dt_builtin dt_builtins_tensor[] = {
    {"sum", REDUCTION ")", builtin_sum, true},
    {"mean", REDUCTION ", weight = none)", builtin_mean, true},
    {"max", REDUCTION ")", builtin_max, true},
    {"min", REDUCTION ")", builtin_min, true},
    {"last", "(x)", builtin_last, true},
    {"product", REDUCTION ")", builtin_product, false},
    {"all", REDUCTION ")", builtin_all, false},
    {"any", REDUCTION ")", builtin_any, false},
    {"argmax", "(x, axis: int = -1, keep: bool = false)", builtin_argmax, false},
    {"argmin", "(x, axis: int = -1, keep: bool = false)", builtin_argmin, false},
    {"count", "(x)", builtin_count, true},
    {"reshape", "(x, shape: list)", builtin_reshape, false},
    {"broadcast", "(x, shape: list)", builtin_broadcast, false},
    {"gather", "(x, index, axis: int = 0)", builtin_gather, false},
    {"scan", "(body: function, init, xs = none, axis: int = 1, reverse: bool = false, length = none)", dt_elaborate_scan, false},
    {NULL, NULL, NULL, false},
};
