/* partition_convert: a value in another distribution than its own.
 *
 *     partial            → whole, or split where it has rows      all_reduce, reduce_scatter
 *     split              → whole                                  all_gather
 *     anything           → split at another dimension, …          computed once more, of operands that are converted in turn
 *
 * Computing once more is what constants, broadcasts and other moves are for: their operands are smaller, or nothing. It is also how pairs of rows
 * are turned round, f32[B, B] split at the other dimension, for which nearly all of it would have to cross; of what the pairs were made of, less
 * has to. Where there is a choice the cheaper way is taken, counted in bytes that cross and operations for each row. */
#include "compiler/passes/partition.h"

#include <string.h>

enum {
    ASSUMED_ROWS = 256, /* of all replicas, where it is to be said what a dimension of them costs */
    MOST_COST = 1 << 30
};

dt_value **dt_origin_version(dt_origin *origin, int axis) { return &origin->versions[axis == DT_WHOLE ? origin->shape.rank : axis]; }

void dt_origin_add_version(dt_partition *p, dt_origin *origin, int axis, dt_value *version) {
    *dt_origin_version(origin, axis) = version;
    p->n_made++;
}

/* ---- loops and dimensions ---- */

/* The n-th dimension that is B. */
static int batch_dimension(dt_shape shape, int n) {
    int d = 0;
    for (; n > 0 || shape.dims[d] != DT_BATCH; d++) n -= shape.dims[d] == DT_BATCH;
    return d;
}

int dt_operand_axis(const dt_partition *p, const dt_origin *origin, int k, int shared) {
    const dt_shape shape = dt_origin_of(p, origin->operands[k])->shape;
    if (shared < 0 || dt_shape_count(shape, DT_BATCH) == 0) return DT_WHOLE;
    if (origin->loops == NULL) /* a reshape leaves the B's in their order */
        return batch_dimension(shape, dt_shape_count((dt_shape){shared, origin->shape.dims}, DT_BATCH));
    for (int d = 0; d < shape.rank; d++)
        if (shape.dims[d] == DT_BATCH && dt_loop_of_dimension(origin->loops, &origin->loops->operands[k], d) == shared) return d;
    return DT_WHOLE;
}

int dt_loop_of_axis(const dt_origin *origin, int axis) {
    if (axis == DT_WHOLE || origin->loops == NULL || origin->loops->result == NULL) return axis;
    return dt_loop_of_dimension(origin->loops, origin->loops->result, axis);
}

/* ---- costs ---- */

static int64_t bytes_of(const dt_origin *origin) { return dt_shape_elements(origin->shape, 1, 1) * (int64_t)dt_dtype_bytes(origin->value->dtype); }

static int64_t at_most(int64_t x, int64_t y) { return x < y ? x : y; }

/* Operations of an own row. Moves and sources are computed where they are used anyway. */
static int64_t work_of(const dt_origin *origin) {
    switch (origin->value->op->class) {
    case DT_CLASS_SOURCE:
    case DT_CLASS_RANDOM:
    case DT_CLASS_LOOP:
    case DT_CLASS_MOVE: return 0;
    default: break;
    }
    int64_t work = 1;
    bool own = false; /* of one loop over B the rows are the replica's own, or shared out among what computes for all */
    for (int l = 0; l < origin->loops->n_loops; l++) {
        int64_t extent = origin->loops->extents[l];
        work = at_most(work * (extent != DT_BATCH ? extent : own ? ASSUMED_ROWS : 1), MOST_COST);
        own |= extent == DT_BATCH;
    }
    return work;
}

static int64_t cost_of_computing(dt_partition *p, const dt_origin *origin, int axis) {
    int64_t cost = work_of(origin);
    int shared = dt_loop_of_axis(origin, axis);
    for (int k = 0; k < origin->value->n_operands; k++)
        cost = at_most(cost + dt_partition_cost(p, dt_origin_of(p, origin->operands[k]), dt_operand_axis(p, origin, k, shared)), MOST_COST);
    return cost;
}

/* Whether the whole is had by gathering it, rather than by computing it once more. */
static bool is_gathered(dt_partition *p, const dt_origin *origin) {
    if (dt_shape_count(origin->shape, DT_BATCH) != 1) return false;
    switch (origin->value->op->class) {
    case DT_CLASS_MOVE: return bytes_of(origin) < cost_of_computing(p, origin, DT_WHOLE);
    case DT_CLASS_SOURCE: return dt_value_is(origin->value, "input");
    default: return origin->value->op->class != DT_CLASS_RANDOM;
    }
}

int64_t dt_partition_cost(dt_partition *p, dt_origin *origin, int axis) {
    int slot = axis == DT_WHOLE ? origin->shape.rank : axis, n_batch = dt_shape_count(origin->shape, DT_BATCH);
    if (n_batch == 0 || origin->versions[slot] != NULL) return 0;
    if (origin->value->distribution.kind == DT_PARTIAL) return axis == DT_WHOLE ? 2 * bytes_of(origin) : bytes_of(origin);
    if (origin->known_at[slot] == p->n_made) return origin->costs[slot];
    origin->costs[slot] = axis == DT_WHOLE && is_gathered(p, origin) ? bytes_of(origin) : cost_of_computing(p, origin, axis);
    origin->known_at[slot] = p->n_made;
    return origin->costs[slot];
}

/* ---- collectives ---- */

/* New values come right after the one that they are made of, and after all inputs. */
static dt_builder builder_behind(const dt_partition *p, const dt_value *value) {
    dt_value *before = value->next;
    while (before != NULL && dt_value_is(before, "input")) before = before->next;
    return (dt_builder){.function = p->function, .before = before, .locations = value->locations, .n_locations = value->n_locations};
}

/* The dimensions in their order, but for `axis`, which moves to the first place, or from there back. */
static dt_status *build_moved(dt_builder *builder, dt_value *value, int axis, bool back, dt_value **result) {
    const dt_op *op = dt_op_find("transpose");
    int64_t *permutation = DT_NEW_ARRAY(builder->function->module->arena, int64_t, value->shape.rank);
    for (int d = 0; d < value->shape.rank; d++) {
        int first = d == 0 ? axis : d <= axis ? d - 1 : d, after = d == axis ? 0 : d < axis ? d + 1 : d;
        permutation[d] = back ? after : first;
    }
    *result = value;
    if (axis > 0) DT_TRY(dt_build(builder, op, &value, 1, &(dt_attribute){.i = value->shape.rank, .ints = permutation}, result));
    return NULL;
}

/* A collective of rows, which cross as they lie in memory, one after another: B comes first for that. */
static dt_status *build_of_rows(const dt_partition *p, dt_value *value, int axis, const char *op, const char *kind, dt_value **result) {
    dt_builder builder = builder_behind(p, value);
    bool gathers = kind == NULL;
    dt_distribution before = value->distribution;
    DT_TRY(build_moved(&builder, value, axis, false, &value));
    value->distribution = gathers ? dt_distribution_at(0) : before;
    DT_TRY(gathers ? dt_build_text(&builder, result, op, &value, 1, "axis=0")
                   : dt_build_text(&builder, result, op, &value, 1, "axis=0, kind=\"%s\"", kind));
    (*result)->distribution = dt_distribution_at(gathers ? DT_WHOLE : 0);
    DT_TRY(build_moved(&builder, *result, axis, true, result));
    (*result)->distribution = dt_distribution_at(gathers ? DT_WHOLE : axis);
    return NULL;
}

static void warn_of_gather(const dt_partition *p, const dt_origin *origin, const dt_value *user) {
    dt_arena *arena = p->compilation->arena;
    dt_text shape = {.arena = arena};
    const dt_value *at = user->n_locations > 0 ? user : origin->value;
    dt_shape_print(&shape, origin->value->dtype, origin->shape);
    dt_warning warning = {.kind = DT_WARN_ROWS_GATHERED,
                          .location = at->n_locations > 0 ? at->locations[0] : (dt_location){.file = -1},
                          .message = dt_arena_format(arena, "%s needs every row of %s on every replica: it is gathered, %lld bytes a row, each step",
                                                     user->op->name, shape.data, (long long)bytes_of(origin))};
    dt_list_push(arena, &p->compilation->warnings, warning);
}

static dt_status *gather(dt_partition *p, dt_origin *origin, const dt_value *user) {
    int axis = dt_shape_batch_axis(origin->shape);
    dt_value *whole;
    warn_of_gather(p, origin, user);
    DT_TRY(build_of_rows(p, *dt_origin_version(origin, axis), axis, "all_gather", NULL, &whole));
    dt_origin_add_version(p, origin, DT_WHOLE, whole);
    return NULL;
}

/* Partial values become complete: those of rows where each replica has its own, others everywhere. */
static dt_status *complete(dt_partition *p, dt_origin *origin) {
    dt_value *value = origin->value, *result;
    const char *kind = dt_combiner_name(value->distribution.combiner);
    int axis = dt_shape_batch_axis(origin->shape);
    if (axis >= 0) {
        DT_TRY(build_of_rows(p, value, axis, "reduce_scatter", kind, &result));
    } else {
        dt_builder builder = builder_behind(p, value);
        DT_TRY(dt_build_text(&builder, &result, "all_reduce", &value, 1, "kind=\"%s\"", kind));
        result->distribution = dt_distribution_at(DT_WHOLE);
    }
    dt_origin_add_version(p, origin, axis < 0 ? DT_WHOLE : axis, result);
    return NULL;
}

/* ---- computing once more ---- */

dt_status *dt_partition_operands(dt_partition *p, const dt_origin *origin, int shared, const dt_value *user, dt_value **operands) {
    for (int k = 0; k < origin->value->n_operands; k++)
        DT_TRY(dt_partition_convert(p, dt_origin_of(p, origin->operands[k]), dt_operand_axis(p, origin, k, shared), user, &operands[k]));
    return NULL;
}

/* Where an attribute says B, it says it of the dimension of the result that has its place. */
dt_attribute *dt_partition_attributes(const dt_partition *p, const dt_origin *origin, int axis) {
    dt_arena *arena = p->function->module->arena;
    const dt_op *op = origin->value->op;
    dt_attribute *attributes = dt_arena_copy(arena, origin->attributes, (size_t)op->n_attributes * sizeof *attributes);
    for (int a = 0; a < op->n_attributes; a++) {
        bool is_gathered_axis = op->attributes[a].kind == DT_ATTR_INT && attributes[a].i == DT_BATCH; /* rows that an index names are those of all */
        if (is_gathered_axis) attributes[a].i = DT_GATHERED;
        if (op->attributes[a].kind != DT_ATTR_INTS) continue;
        int64_t *ints = dt_arena_copy(arena, attributes[a].ints, (size_t)attributes[a].i * sizeof *ints);
        for (int d = 0; d < attributes[a].i; d++)
            if (ints[d] == DT_BATCH && d != axis) ints[d] = DT_GATHERED;
        attributes[a].ints = ints;
    }
    return attributes;
}

static dt_status *compute_again(dt_partition *p, dt_origin *origin, int axis, const dt_value *user) {
    dt_value *value = origin->value, *version;
    if (value->op->class == DT_CLASS_LOOP)
        return dt_error(DT_INVALID_ARGUMENT,
                        "function %s: what scan carries, takes or gives is needed split at two dimensions, which is not supported",
                        value->function->name);
    dt_value **operands = DT_NEW_ARRAY(p->function->module->arena, dt_value *, value->n_operands);
    DT_TRY(dt_partition_operands(p, origin, dt_loop_of_axis(origin, axis), user, operands));
    dt_builder builder = builder_behind(p, value);
    DT_TRY(dt_build(&builder, value->op, operands, value->n_operands, dt_partition_attributes(p, origin, axis), &version));
    version->distribution = dt_distribution_at(axis);
    dt_origin_add_version(p, origin, axis, version);
    return NULL;
}

dt_status *dt_partition_convert(dt_partition *p, dt_origin *origin, int axis, const dt_value *user, dt_value **result) {
    if (dt_shape_count(origin->shape, DT_BATCH) == 0) axis = DT_WHOLE;
    dt_value **version = dt_origin_version(origin, axis);
    if (*version == NULL && origin->value->distribution.kind == DT_PARTIAL && *dt_origin_version(origin, dt_shape_batch_axis(origin->shape)) == NULL)
        DT_TRY(complete(p, origin));
    if (*version == NULL) DT_TRY(axis == DT_WHOLE && is_gathered(p, origin) ? gather(p, origin, user) : compute_again(p, origin, axis, user));
    *result = *version;
    return NULL;
}
