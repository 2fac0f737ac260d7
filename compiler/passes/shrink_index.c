/* shrink_index: gathers that are slices.
 *
 * An index that the compiler knows, a constant or positions counted by an iota, says which elements a gather reads: those of a slice. It reads the
 * same elements, and what is before it can be narrowed to them. An index that leaves its bounds anywhere stays a gather: it is counted as bad when it
 * runs. */
#include "compiler/passes/shrink.h"

/* value[i0, i1, …] = offset + step * i(axis); axis -1: the same everywhere. */
typedef struct count {
    int axis;
    int64_t offset, step;
} count;

enum {
    MOST = 1 << 30 /* offsets and steps beyond it are not followed: nothing can wrap around */
};

static bool is_small(int64_t x) { return -MOST < x && x < MOST; }

static bool know(const dt_value *value, count *known);

static bool know_sum(const dt_value *value, int64_t sign, count *known) {
    count x, y;
    if (!know(value->operands[0], &x) || !know(value->operands[1], &y) || (x.axis >= 0 && y.axis >= 0)) return false;
    *known = (count){x.axis >= 0 ? x.axis : y.axis, x.offset + sign * y.offset, x.step + sign * y.step};
    return is_small(known->offset) && is_small(known->step);
}

static bool know_broadcast(const dt_value *value, count *known) {
    int n;
    const int64_t *dims = dt_value_ints(value, "dims", &n);
    if (!know(value->operands[0], known)) return false;
    if (known->axis >= 0) known->axis = value->operands[0]->shape.dims[known->axis] == 1 ? -1 : (int)dims[known->axis];
    if (known->axis < 0) known->step = 0;
    return true;
}

/* B's rows are counted over all replicas: no constants. */
static bool know(const dt_value *value, count *known) {
    if (value->dtype != DT_I32 && value->dtype != DT_I64) return false;
    if (dt_value_is(value, "constant")) {
        *known = (count){-1, dt_value_scalar(value, "value").i, 0};
        return is_small(known->offset);
    }
    if (dt_value_is(value, "iota")) {
        *known = (count){(int)dt_value_int(value, "axis"), 0, 1};
        return !dt_dim_is_symbol(value->shape.dims[known->axis]);
    }
    if (dt_value_is(value, "convert")) return know(value->operands[0], known);
    if (dt_value_is(value, "broadcast")) return know_broadcast(value, known);
    if (dt_value_is(value, "add")) return know_sum(value, 1, known);
    if (dt_value_is(value, "subtract")) return know_sum(value, -1, known);
    return false;
}

/* gather(x [L, N, R], index [L, P]): the slice x [L, N', R], its axis laid along the dimension of P that counts, if one does. */
static dt_status *slice_gather(dt_value *gather, const count *index, int64_t n, dt_value **replacement) {
    dt_builder builder = {.function = gather->function, .before = gather, .locations = gather->locations, .n_locations = gather->n_locations};
    dt_arena *arena = gather->function->module->arena;
    dt_value *x = gather->operands[0], *slice;
    int rank = x->shape.rank, axis = (int)dt_value_int(gather, "axis"), n_before = gather->operands[1]->shape.rank;
    int64_t *starts = DT_NEW_ARRAY(arena, int64_t, rank), *dims = DT_NEW_ARRAY(arena, int64_t, rank), *steps = DT_NEW_ARRAY(arena, int64_t, rank);
    int64_t *limits = dt_arena_copy(arena, x->shape.dims, (size_t)rank * sizeof *limits);
    for (int d = 0; d < rank; d++) steps[d] = 1;
    starts[axis] = index->offset;
    limits[axis] = index->offset + (n - 1) * index->step + 1;
    if (n > 1) steps[axis] = index->step;
    dt_attribute attributes[] = {{.i = rank, .ints = starts}, {.i = rank, .ints = limits}, {.i = rank, .ints = steps}};
    DT_TRY(dt_build(&builder, dt_op_find("slice"), &x, 1, attributes, &slice));
    int kept = 0;
    for (int d = 0; d < rank; d++)
        if (d != axis || n > 1) dims[kept++] = d < axis ? d : d == axis ? index->axis : n_before + d - axis - 1;
    if (kept < rank) { /* one element along the axis: the dimension goes */
        int64_t *shape = DT_NEW_ARRAY(arena, int64_t, kept);
        for (int d = 0; d < kept; d++) shape[d] = x->shape.dims[d < axis ? d : d + 1];
        dt_attribute reshaped = {.i = kept, .ints = shape};
        DT_TRY(dt_build(&builder, dt_op_find("reshape"), &slice, 1, &reshaped, &slice));
    }
    return dt_build_broadcast(&builder, replacement, slice, gather->shape, dims);
}

dt_status *dt_slice_known_gathers(dt_function *function) {
    for (dt_value *value = function->first, *next; value; value = next) {
        next = value->next;
        count index;
        if (!dt_value_is(value, "gather") || !know(value->operands[1], &index)) continue;
        int axis = (int)dt_value_int(value, "axis");
        int64_t extent = value->operands[0]->shape.dims[axis], n = index.axis < 0 ? 1 : value->operands[1]->shape.dims[index.axis];
        int64_t last = index.offset + (n - 1) * index.step;
        bool along = n == 1 || (index.axis >= axis && index.step > 0); /* not along a dimension that x has too, nor backwards */
        if (!along || n < 1 || index.offset < 0 || last >= extent) continue;
        dt_value *slice;
        DT_TRY(slice_gather(value, &index, n, &slice));
        dt_value_replace(value, slice);
        dt_value_remove(value);
    }
    return NULL;
}
