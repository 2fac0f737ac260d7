/* operators: sources, reductions, moves and indices; see model.h. */
#include "compiler/onnx/model.h"

#include "abi/launch.h"

#include <inttypes.h>
#include <string.h>

/* [n]: 1 everywhere. */
static int64_t *ones(const dt_onnx *onnx, int n) {
    int64_t *dims = DT_NEW_ARRAY(onnx->arena, int64_t, n);
    for (int d = 0; d < n; d++) dims[d] = 1;
    return dims;
}

static const char *list_of(dt_onnx *onnx, const dt_value *value, const char *attribute) {
    int n;
    const int64_t *ints = dt_value_ints(value, attribute, &n);
    return dt_onnx_list(onnx, n, ints);
}

/* x with a dimension of 1 at each of so many axes from `first` on. */
static const char *unsqueeze(dt_onnx *onnx, const char *x, int first, int n) {
    int64_t *axes = DT_NEW_ARRAY(onnx->arena, int64_t, n);
    for (int i = 0; i < n; i++) axes[i] = first + i;
    return n == 0 ? x : dt_onnx_add_binary(onnx, "Unsqueeze", x, dt_onnx_list(onnx, n, axes));
}

/* ---- sources ---- */

dt_status *dt_onnx_constant(dt_onnx *onnx, const dt_value *value) {
    dt_onnx_give(onnx, value, dt_onnx_scalar(onnx, value->dtype, dt_value_scalar(value, "value")), ones(onnx, value->shape.rank));
    return NULL;
}

/* An extent as a scalar. */
static const char *extent_of(dt_onnx *onnx, int64_t dim) {
    if (!dt_dim_is_symbol(dim)) return dt_onnx_scalar(onnx, DT_I64, (dt_scalar){.i = dim});
    return dt_onnx_add_unary(onnx, "Squeeze", dt_onnx_extent(onnx, dim));
}

static const char *range(dt_onnx *onnx, int64_t extent) {
    return dt_onnx_add(onnx, "Range", DT_ONNX_INPUTS(dt_onnx_number(onnx, DT_I64, 0), extent_of(onnx, extent), dt_onnx_number(onnx, DT_I64, 1)),
                       NULL);
}

dt_status *dt_onnx_iota(dt_onnx *onnx, const dt_value *value) {
    int axis = (int)dt_value_int(value, "axis");
    int64_t *dims = ones(onnx, value->shape.rank);
    dims[axis] = value->shape.dims[axis];
    const char *numbers = dt_onnx_convert(onnx, range(onnx, dims[axis]), DT_I64, value->dtype);
    dt_onnx_give(onnx, value, axis == value->shape.rank - 1 ? numbers : dt_onnx_reshape(onnx, numbers, value->shape.rank, dims), dims);
    return NULL;
}

/* The model runs all rows that it is given, as one replica. */
dt_status *dt_onnx_launch(dt_onnx *onnx, const dt_value *value) {
    const char *name = dt_value_string(value, "name");
    switch ((dt_launch_field)dt_launch_field_find(name)) {
    case DT_LAUNCH_rows:
    case DT_LAUNCH_valid:
    case DT_LAUNCH_global_batch:
        DT_TRY(dt_onnx_need_rows(value));
        dt_onnx_give(onnx, value, extent_of(onnx, DT_BATCH), NULL);
        return NULL;
    case DT_LAUNCH_replicas: dt_onnx_give(onnx, value, dt_onnx_number(onnx, DT_I64, 1), NULL); return NULL;
    case DT_LAUNCH_row_offset:
    case DT_LAUNCH_shard: dt_onnx_give(onnx, value, dt_onnx_number(onnx, DT_I64, 0), NULL); return NULL;
    default: return dt_onnx_unimplemented(value, dt_arena_format(onnx->arena, "a model has no %s", name));
    }
}

dt_status *dt_onnx_read(dt_onnx *onnx, const dt_value *value) {
    const char *path = dt_value_string(value, "variable");
    const dt_variable *variable = dt_module_find_variable(onnx->function->module, path);
    const void *data = NULL;
    if (onnx->weights != NULL)
        DT_TRY(dt_weights_find(onnx->weights, path, dt_variable_kind_names()[variable->kind], variable->dtype, variable->shape.rank,
                               variable->shape.dims, &data));
    dt_onnx_initialize(onnx, path, variable->dtype, variable->shape, data);
    dt_dtype kept = dt_onnx_kept(variable->dtype);
    dt_onnx_give(onnx, value, kept == variable->dtype ? path : dt_onnx_cast(onnx, path, kept), NULL);
    return NULL;
}

/* ---- reductions ---- */

static const char *reduce(dt_onnx *onnx, const dt_value *value, const char *type, const char *x) {
    int n_axes;
    dt_value_ints(value, "axes", &n_axes);
    if (n_axes == 0) return x; /* for ONNX that would be all of them */
    return dt_onnx_add(onnx, type, DT_ONNX_INPUTS(x, list_of(onnx, value, "axes")),
                       DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "keepdims", dt_value_bool(value, "keep"))));
}

/* Of bool as of numbers: all is the least; any, which is false of nothing, is not all of what is not. */
static const char *reduce_bool(dt_onnx *onnx, const dt_value *value, bool is_any, const char *x) {
    if (is_any) x = dt_onnx_add_unary(onnx, "Not", x);
    x = dt_onnx_cast(onnx, reduce(onnx, value, "ReduceMin", dt_onnx_cast(onnx, x, DT_I32)), DT_BOOL);
    return is_any ? dt_onnx_add_unary(onnx, "Not", x) : x;
}

dt_status *dt_onnx_reduce(dt_onnx *onnx, const dt_value *value) {
    static const struct {
        const char *combiner, *type;
    } types[] = {{"sum", "ReduceSum"}, {"product", "ReduceProd"}, {"max", "ReduceMax"}, {"min", "ReduceMin"}};
    int t = 0;
    while (strcmp(types[t].combiner, value->op->formula) != 0) t++;
    const dt_value *operand = value->operands[0];
    const char *x = dt_onnx_whole(onnx, operand);
    if (value->dtype == DT_BOOL)
        dt_onnx_give(onnx, value, reduce_bool(onnx, value, strcmp(types[t].combiner, "max") == 0, x), NULL);
    else
        dt_onnx_give_rounded(onnx, value, reduce(onnx, value, types[t].type, dt_onnx_convert(onnx, x, operand->dtype, value->dtype)));
    return NULL;
}

/* The axes are moved to the end, B first of them, and made one. */
static const char *axes_last(dt_onnx *onnx, const dt_value *x, const int64_t *axes, int n_axes) {
    int64_t *permutation = DT_NEW_ARRAY(onnx->arena, int64_t, x->shape.rank), *dims = DT_NEW_ARRAY(onnx->arena, int64_t, x->shape.rank + 1);
    int n = 0, batch = dt_shape_batch_axis(x->shape), n_rest = 0;
    for (int d = 0, a = 0; d < x->shape.rank; d++) {
        if (a < n_axes && axes[a] == d)
            a++;
        else
            permutation[n] = d, dims[n++] = x->shape.dims[d];
    }
    n_rest = n;
    int64_t n_together = 1;
    for (int a = 0; a < n_axes; a++)
        if (axes[a] == batch) permutation[n++] = batch;
    for (int a = 0; a < n_axes; a++) {
        if (axes[a] != batch) permutation[n++] = axes[a];
        n_together = axes[a] == batch || n_together < 0 ? DT_BATCH : n_together * x->shape.dims[axes[a]];
    }
    dims[n_rest] = n_together; /* with B among them as many as are left */
    return dt_onnx_reshape(onnx, dt_onnx_transpose(onnx, dt_onnx_whole(onnx, x), n, permutation), n_rest + 1, dims);
}

dt_status *dt_onnx_argument(dt_onnx *onnx, const dt_value *value) {
    const dt_value *x = value->operands[0];
    int n_axes;
    const int64_t *axes = dt_value_ints(value, "axes", &n_axes);
    bool keep = dt_value_bool(value, "keep");
    const char *type = strcmp(value->op->formula, "argmax") == 0 ? "ArgMax" : "ArgMin";
    const char *from = n_axes == 1 ? dt_onnx_whole(onnx, x) : axes_last(onnx, x, axes, n_axes);
    const char *found = dt_onnx_add(onnx, type, DT_ONNX_INPUTS(from),
                                    DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", n_axes == 1 ? axes[0] : x->shape.rank - n_axes),
                                                       dt_onnx_int(onnx, "keepdims", n_axes == 1 && keep)));
    if (n_axes != 1 && keep) found = dt_onnx_reshape(onnx, found, value->shape.rank, value->shape.dims);
    dt_onnx_give(onnx, value, found, NULL);
    return NULL;
}

/* ---- moves ---- */

dt_status *dt_onnx_reshape_op(dt_onnx *onnx, const dt_value *value) {
    dt_onnx_give(onnx, value, dt_onnx_reshape(onnx, dt_onnx_whole(onnx, value->operands[0]), value->shape.rank, value->shape.dims), NULL);
    return NULL;
}

dt_status *dt_onnx_transpose_op(dt_onnx *onnx, const dt_value *value) {
    int n;
    const int64_t *permutation = dt_value_ints(value, "permutation", &n);
    dt_onnx_give(onnx, value, dt_onnx_transpose(onnx, dt_onnx_whole(onnx, value->operands[0]), n, permutation), NULL);
    return NULL;
}

/* No node where the dimensions are the last ones: then those who read it repeat it. */
dt_status *dt_onnx_broadcast(dt_onnx *onnx, const dt_value *value) {
    const dt_onnx_tensor *x = dt_onnx_tensor_of(onnx, value->operands[0]);
    int n, rank = value->shape.rank;
    const int64_t *to = dt_value_ints(value, "dims", &n);
    int64_t *dims = ones(onnx, rank);
    bool is_in_place = true;
    for (int d = 0; d < n; d++) {
        dims[to[d]] = x->dims[d];
        is_in_place &= x->dims[d] == 1 || to[d] == rank - n + d;
    }
    dt_onnx_give(onnx, value, is_in_place ? x->name : dt_onnx_reshape(onnx, x->name, rank, dims), dims);
    return NULL;
}

dt_status *dt_onnx_slice_op(dt_onnx *onnx, const dt_value *value) {
    const dt_value *x = value->operands[0];
    int n, n_steps, n_cut = 0;
    const int64_t *starts = dt_value_ints(value, "starts", &n), *limits = dt_value_ints(value, "limits", &n),
                  *steps = dt_value_ints(value, "steps", &n_steps);
    int64_t *cut = DT_NEW_ARRAY(onnx->arena, int64_t, 4 * n);
    for (int d = 0; d < n; d++) {
        int64_t step = n_steps > 0 ? steps[d] : 1;
        if (starts[d] == 0 && limits[d] == x->shape.dims[d] && step == 1) continue;
        cut[n_cut] = starts[d], cut[n + n_cut] = limits[d], cut[2 * n + n_cut] = d, cut[3 * n + n_cut++] = step;
    }
    dt_onnx_give(onnx, value, dt_onnx_slice(onnx, dt_onnx_whole(onnx, x), n_cut, cut, cut + n, cut + 2 * n, cut + 3 * n), NULL);
    return NULL;
}

static const char *pad(dt_onnx *onnx, const char *x, int rank, const int64_t *low, const int64_t *high, const char *value) {
    int64_t *both = DT_NEW_ARRAY(onnx->arena, int64_t, 2 * rank);
    memcpy(both, low, (size_t)rank * sizeof *low);
    memcpy(both + rank, high, (size_t)rank * sizeof *high);
    return dt_onnx_add(onnx, "Pad", DT_ONNX_INPUTS(x, dt_onnx_list(onnx, 2 * rank, both), value), NULL);
}

/* step - 1 elements between those along `axis`: behind each of them, and the last ones cut off again. */
static const char *spread(dt_onnx *onnx, const char *x, int rank, int64_t *dims, int axis, int64_t step, const char *value) {
    int64_t *wide = DT_NEW_ARRAY(onnx->arena, int64_t, rank + 1), *low = DT_NEW_ARRAY(onnx->arena, int64_t, rank + 1),
            *high = DT_NEW_ARRAY(onnx->arena, int64_t, rank + 1);
    for (int d = 0; d <= rank; d++) wide[d] = d <= axis ? dims[d] : d == axis + 1 ? 1 : dims[d - 1];
    high[axis + 1] = step - 1;
    x = pad(onnx, dt_onnx_reshape(onnx, x, rank + 1, wide), rank + 1, low, high, value);
    int64_t extent = dims[axis] > 0 ? (dims[axis] - 1) * step + 1 : 0, along = axis, zero = 0, one = 1;
    dims[axis] *= step;
    x = dt_onnx_reshape(onnx, x, rank, dims);
    dims[axis] = extent;
    return dt_onnx_slice(onnx, x, 1, &zero, &extent, &along, &one);
}

dt_status *dt_onnx_pad(dt_onnx *onnx, const dt_value *value) {
    const dt_value *x = value->operands[0];
    int rank, n_steps;
    const int64_t *low = dt_value_ints(value, "low", &rank), *high = dt_value_ints(value, "high", &rank),
                  *steps = dt_value_ints(value, "steps", &n_steps);
    const char *fill = dt_onnx_scalar(onnx, value->dtype, dt_value_scalar(value, "value")), *padded = dt_onnx_whole(onnx, x);
    int64_t *dims = dt_arena_copy(onnx->arena, x->shape.dims, (size_t)rank * sizeof *dims);
    for (int d = 0; d < n_steps; d++)
        if (steps[d] != 1) padded = spread(onnx, padded, rank, dims, d, steps[d], fill);
    dt_onnx_give(onnx, value, pad(onnx, padded, rank, low, high, fill), NULL);
    return NULL;
}

dt_status *dt_onnx_concatenate(dt_onnx *onnx, const dt_value *value) {
    const char **parts = DT_NEW_ARRAY(onnx->arena, const char *, value->n_operands + 1);
    for (int k = 0; k < value->n_operands; k++) parts[k] = dt_onnx_whole(onnx, value->operands[k]);
    dt_onnx_give(onnx, value, dt_onnx_add(onnx, "Concat", parts, DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", dt_value_int(value, "axis")))), NULL);
    return NULL;
}

dt_status *dt_onnx_reverse(dt_onnx *onnx, const dt_value *value) {
    int n;
    const int64_t *axes = dt_value_ints(value, "axes", &n);
    int64_t *starts = DT_NEW_ARRAY(onnx->arena, int64_t, n), *limits = DT_NEW_ARRAY(onnx->arena, int64_t, n),
            *steps = DT_NEW_ARRAY(onnx->arena, int64_t, n);
    for (int i = 0; i < n; i++) starts[i] = steps[i] = -1, limits[i] = INT64_MIN;
    dt_onnx_give(onnx, value, dt_onnx_slice(onnx, dt_onnx_whole(onnx, value->operands[0]), n, starts, limits, axes, steps), NULL);
    return NULL;
}

/* ---- indices ---- */

/* Which indices are in range, and the indices, `other` in place of those that are not; i64. */
static const char *check_indices(dt_onnx *onnx, const dt_value *index, int64_t extent, const char *other, const char **is_inside) {
    const char *i = dt_onnx_convert(onnx, dt_onnx_whole(onnx, index), index->dtype, DT_I64);
    const char *is_low = dt_onnx_add_binary(onnx, "GreaterOrEqual", i, dt_onnx_number(onnx, DT_I64, 0));
    const char *is_high = dt_onnx_add_binary(onnx, "Less", i, extent_of(onnx, extent));
    *is_inside = dt_onnx_add_binary(onnx, "And", is_low, is_high);
    return dt_onnx_where(onnx, *is_inside, i, other);
}

/* An index that cannot be out of range: positions along a dimension that is no longer. */
static bool is_inside_always(const dt_value *index, int64_t extent) {
    while ((dt_value_is(index, "convert") && dt_dtype_bytes(index->dtype) > 1) || dt_value_is(index, "broadcast")) index = index->operands[0];
    if (!dt_value_is(index, "iota")) return false;
    int64_t n = index->shape.dims[dt_value_int(index, "axis")];
    return n == extent || (n >= 0 && n <= extent);
}

dt_status *dt_onnx_gather(dt_onnx *onnx, const dt_value *value) {
    const dt_value *x = value->operands[0], *index = value->operands[1];
    int64_t axis = dt_value_int(value, "axis"), extent = x->shape.dims[axis];
    bool is_inside_surely = is_inside_always(index, extent);
    const char *is_inside = NULL, *table = dt_onnx_whole(onnx, x);
    const char *safe =
        is_inside_surely ? dt_onnx_whole(onnx, index) : check_indices(onnx, index, extent, dt_onnx_number(onnx, DT_I64, 0), &is_inside);
    if (is_inside_surely) safe = dt_onnx_convert(onnx, safe, index->dtype, DT_I64);
    const char *taken = axis == 0 ? dt_onnx_add(onnx, "Gather", DT_ONNX_INPUTS(table, safe), DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", 0)))
                                  : dt_onnx_add(onnx, "GatherND", DT_ONNX_INPUTS(table, unsqueeze(onnx, safe, index->shape.rank, 1)),
                                                DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "batch_dims", axis)));
    if (!is_inside_surely) {
        is_inside = unsqueeze(onnx, is_inside, index->shape.rank, value->shape.rank - index->shape.rank);
        taken = value->dtype == DT_BOOL ? dt_onnx_add_binary(onnx, "And", is_inside, taken)
                                        : dt_onnx_where(onnx, is_inside, taken, dt_onnx_number(onnx, value->dtype, 0));
    }
    dt_onnx_give(onnx, value, taken, NULL);
    return NULL;
}

/* Where each update goes, [L, P, axis + 1]: the position along the paired dimensions L, and the index. */
static const char *places_of(dt_onnx *onnx, const dt_value *index, const char *along, int axis) {
    int rank = index->shape.rank;
    const char **parts = DT_NEW_ARRAY(onnx->arena, const char *, axis + 2);
    for (int d = 0; d < axis; d++) {
        int64_t *dims = ones(onnx, rank);
        dims[d] = index->shape.dims[d];
        const char *positions = dt_onnx_reshape(onnx, range(onnx, dims[d]), rank, dims);
        parts[d] = unsqueeze(onnx, dt_onnx_add_binary(onnx, "Expand", positions, dt_onnx_shape(onnx, rank, index->shape.dims)), rank, 1);
    }
    parts[axis] = unsqueeze(onnx, along, rank, 1);
    return axis == 0 ? parts[0] : dt_onnx_add(onnx, "Concat", parts, DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", rank)));
}

/* Where an index is out of range 0 is added, at place 0. */
dt_status *dt_onnx_scatter(dt_onnx *onnx, const dt_value *value) {
    const dt_value *updates = value->operands[0], *index = value->operands[1];
    int axis = (int)dt_value_int(value, "axis");
    const char *is_inside, *along = check_indices(onnx, index, value->shape.dims[axis], dt_onnx_number(onnx, DT_I64, 0), &is_inside);
    is_inside = unsqueeze(onnx, is_inside, index->shape.rank, updates->shape.rank - index->shape.rank);
    const char *zero = dt_onnx_number(onnx, value->dtype, 0), *added = dt_onnx_where(onnx, is_inside, dt_onnx_whole(onnx, updates), zero);
    const char *zeros = dt_onnx_add_binary(onnx, "Expand", zero, dt_onnx_shape(onnx, value->shape.rank, value->shape.dims));
    const char *sums = dt_onnx_add(onnx, "ScatterND", DT_ONNX_INPUTS(zeros, places_of(onnx, index, along, axis), added),
                                   DT_ONNX_ATTRIBUTES(dt_onnx_string(onnx, "reduction", "add")));
    dt_onnx_give_rounded(onnx, value, sums);
    return NULL;
}
