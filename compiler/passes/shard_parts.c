/* shard_parts: what a shard has of a value that is the same for all, and the whole of what each shard has a part of. What is computed element by
 * element is computed once more, of parts of its operands; of anything else a shard takes its elements from the whole. Numbers that depend on where
 * an element is, as positions and random numbers do, are those of the whole tensor: so initial values, masks and dropout are the same for any number
 * of shards. */
#include "compiler/passes/shard.h"

#include <inttypes.h>

/* ---- shapes ---- */

dt_shape dt_split_shape(const dt_sharding *s, dt_shape shape, dt_split split) {
    int64_t *dims = dt_arena_copy(s->function->module->arena, shape.dims, (size_t)shape.rank * sizeof *dims);
    if (split.axis != DT_NOT_SPLIT) dims[split.axis] = dt_split_extent(s, shape, split);
    return (dt_shape){shape.rank, dims};
}

/* Elements before the dimension that a place in a row-major tensor is in: a product of numbers, and how many dimensions are the batch. */
typedef struct place {
    int n_symbols;
    int64_t product;
} place;

static place place_of(dt_shape shape, int axis) {
    place before = {0, 1};
    for (int d = 0; d < axis; d++) {
        before.n_symbols += dt_dim_is_symbol(shape.dims[d]);
        if (!dt_dim_is_symbol(shape.dims[d])) before.product *= shape.dims[d];
    }
    return before;
}

/* Padding stands behind the elements of a group: whoever has it in another shape has as many of them. */
dt_split dt_split_reshaped(const dt_sharding *s, dt_shape from, dt_split split, dt_shape to) {
    place wanted = place_of(from, split.axis);
    int64_t length = from.dims[split.axis] / split.groups;
    wanted.product *= split.groups;
    for (int d = 0; d < to.rank; d++) {
        place before = place_of(to, d);
        if (dt_dim_is_symbol(to.dims[d]) || before.n_symbols != wanted.n_symbols) continue;
        if (before.product == 0 || wanted.product % before.product != 0) continue;
        int64_t groups = wanted.product / before.product;
        if (groups == 0 || groups >= to.dims[d] || to.dims[d] % groups != 0) continue;
        bool is_even = length % s->n_shards == 0 && to.dims[d] / groups % s->n_shards == 0;
        if (is_even || to.dims[d] / groups == length) return (dt_split){d, groups};
    }
    return (dt_split){DT_NOT_SPLIT, 1};
}

int dt_loop_of_whole_dimension(const dt_loops *loops, const dt_access *access, dt_shape shape, int dim) {
    int loop = dt_loop_of_dimension(loops, access, dim);
    return loop >= 0 && loops->extents[loop] == shape.dims[dim] ? loop : -1;
}

bool dt_split_of_operand(const dt_sharded *sharded, int operand, dt_shape shape, int loop, int64_t groups, dt_split *split) {
    const dt_access *access = &sharded->loops->operands[operand];
    *split = (dt_split){DT_NOT_SPLIT, 1};
    for (int d = 0; d < shape.rank; d++) {
        if (access->dims[d].coefficients[loop] == 0) continue;
        if (dt_loop_of_whole_dimension(sharded->loops, access, shape, d) != loop || split->axis != DT_NOT_SPLIT) return false;
        *split = (dt_split){d, groups};
    }
    return true;
}

dt_attribute *dt_split_attributes(const dt_sharding *s, const dt_sharded *sharded, dt_split split) {
    static const char *const sizes[] = {"shape", "starts", "limits", "low", "high"};
    dt_arena *arena = s->function->module->arena;
    const dt_op *op = sharded->value->op;
    int64_t length = sharded->shape.dims[split.axis] / split.groups; /* whole ones of which it takes, or puts side by side */
    dt_attribute *attributes = dt_arena_copy(arena, sharded->attributes, (size_t)op->n_attributes * sizeof *attributes);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int a = dt_op_attribute_index(op, sizes[i]);
        if (a < 0) continue;
        int64_t *ints = dt_arena_copy(arena, attributes[a].ints, (size_t)attributes[a].i * sizeof *ints);
        ints[split.axis] = ints[split.axis] / length * dt_shard_extent(length, 1, s->n_shards);
        attributes[a].ints = ints;
    }
    return attributes;
}

/* ---- building ---- */

dt_builder dt_builder_behind(const dt_sharding *s, const dt_value *value) {
    dt_value *before = value->next;
    while (before != NULL && (dt_value_is(before, "input") || before == s->shard)) before = before->next;
    return (dt_builder){.function = s->function, .before = before, .locations = value->locations, .n_locations = value->n_locations};
}

/* Before all but inputs: parts of any value are made of it. */
static dt_status *build_number_of_shard(dt_sharding *s) {
    dt_value *before = s->function->first;
    if (s->shard != NULL) return NULL;
    while (before != NULL && dt_value_is(before, "input")) before = before->next;
    dt_builder builder = {.function = s->function, .before = before};
    DT_TRY(dt_build_text(&builder, &s->shard, "launch", NULL, 0, "name=\"shard\""));
    s->shard->distribution = (dt_distribution){.kind = DT_REPLICATED, .sharded = true};
    return NULL;
}

/* Groups x one shard x its part of a group, in the place of one dimension. */
static dt_shape shape_in_groups(const dt_sharding *s, dt_shape shape, dt_split split) {
    int64_t *dims = DT_NEW_ARRAY(s->function->module->arena, int64_t, shape.rank + 2);
    for (int d = 0; d < shape.rank; d++) dims[d + (d > split.axis ? 2 : 0)] = shape.dims[d];
    dims[split.axis] = split.groups;
    dims[split.axis + 1] = 1;
    dims[split.axis + 2] = dt_split_extent(s, shape, split) / split.groups;
    return (dt_shape){shape.rank + 2, dims};
}

static void same_for_replicas(const dt_value *like, dt_value *value) {
    value->distribution = like->distribution;
    value->distribution.sharded = true;
}

static dt_status *build_iota(dt_builder *builder, dt_dtype dtype, dt_shape shape, int axis, dt_value **result) {
    dt_text dims = {.arena = builder->function->module->arena};
    for (int d = 0; d < shape.rank; d++) dt_text_format(&dims, "%s%" PRId64, d > 0 ? ", " : "", shape.dims[d]);
    return dt_build_text(builder, result, "iota", NULL, 0, "shape=[%s], axis=%d, dtype=%s", dims.data, axis, dt_dtype_name(dtype));
}

static bool has_padding(const dt_sharding *s, int64_t extent, int64_t groups) {
    return dt_shard_extent(extent, groups, s->n_shards) > extent / s->n_shards;
}

/* Elements of a shard's part of a dimension of the whole, in their groups: where each is in its group, shard · elements of the part + element, and
 * whether it is there. */
typedef struct places {
    dt_shape shape; /* [groups, elements of a part] */
    dt_value *places, *length, *are_there;
} places;

static dt_status *build_places(dt_sharding *s, dt_builder *builder, int64_t extent, int64_t groups, places *made) {
    int64_t own = dt_shard_extent(extent, groups, s->n_shards) / groups;
    dt_value *element, *size, *first;
    made->shape = dt_shape_make(s->function->module->arena, 2, (int64_t[]){groups, own});
    DT_TRY(build_number_of_shard(s));
    DT_TRY(build_iota(builder, DT_I64, made->shape, 1, &element));
    DT_TRY(dt_build_constant(builder, &made->length, DT_I64, (double)(extent / groups), made->shape));
    DT_TRY(dt_build_constant(builder, &size, DT_I64, (double)own, (dt_shape){0}));
    DT_TRY(dt_build_binary(builder, &first, "multiply", s->shard, size));
    DT_TRY(dt_build_broadcast(builder, &first, first, made->shape, NULL));
    DT_TRY(dt_build_binary(builder, &made->places, "add", first, element));
    return dt_build_binary(builder, &made->are_there, "less", made->places, made->length);
}

/* In one dimension. */
static dt_status *join_groups(dt_builder *builder, const places *in, dt_value **value) {
    return dt_build_text(builder, value, "reshape", value, 1, "shape=[%" PRId64 "]", in->shape.dims[0] * in->shape.dims[1]);
}

/* Where each element of a shard's part of so many elements is in the whole: group · elements of a group + its place there; of padding 0.
 * [elements of the part] */
static dt_status *build_positions(dt_sharding *s, dt_builder *builder, int64_t extent, int64_t groups, dt_value **positions) {
    places made;
    dt_value *group, *zero;
    DT_TRY(build_places(s, builder, extent, groups, &made));
    DT_TRY(build_iota(builder, DT_I64, made.shape, 0, &group));
    DT_TRY(dt_build_binary(builder, &group, "multiply", group, made.length));
    DT_TRY(dt_build_binary(builder, positions, "add", group, made.places));
    if (has_padding(s, extent, groups)) {
        DT_TRY(dt_build_constant(builder, &zero, DT_I64, 0, made.shape));
        DT_TRY(dt_build(builder, dt_op_find("where"), (dt_value *[]){made.are_there, *positions, zero}, 3, NULL, positions));
    }
    return join_groups(builder, &made, positions);
}

/* ---- padding ---- */

/* A part's first element along a dimension, which every shard has, in place of all. */
static dt_status *repeat_first(dt_builder *builder, dt_value *part, int axis, dt_value **result) {
    dt_arena *arena = builder->function->module->arena;
    int rank = part->shape.rank;
    int64_t *starts = DT_NEW_ARRAY(arena, int64_t, rank), *same = DT_NEW_ARRAY(arena, int64_t, rank);
    int64_t *limits = dt_arena_copy(arena, part->shape.dims, (size_t)rank * sizeof *limits);
    limits[axis] = 1;
    for (int d = 0; d < rank; d++) same[d] = d;
    const dt_attribute attributes[] = {{.i = rank, .ints = starts}, {.i = rank, .ints = limits}, {0}};
    DT_TRY(dt_build(builder, dt_op_find("slice"), &part, 1, attributes, result));
    return dt_build_broadcast(builder, result, *result, part->shape, same);
}

/* The part, with what changes nothing in its padding when it is combined so: zero in a sum; in a maximum another element, so that nothing becomes
 * infinite for it, and the first of the greatest ones is where it was. */
static dt_status *pad(dt_sharding *s, const dt_sharded *sharded, dt_split split, dt_combiner combiner, dt_value **part) {
    dt_builder builder = dt_builder_behind(s, *part);
    dt_value *operands[] = {NULL, *part, NULL};
    places made;
    DT_TRY(build_places(s, &builder, sharded->shape.dims[split.axis], split.groups, &made));
    DT_TRY(join_groups(&builder, &made, &made.are_there));
    DT_TRY(dt_build_broadcast(&builder, &operands[0], made.are_there, (*part)->shape, (int64_t[]){split.axis}));
    if (combiner == DT_COMBINE_SUM)
        DT_TRY(dt_build_constant(&builder, &operands[2], (*part)->dtype, 0, (*part)->shape));
    else
        DT_TRY(repeat_first(&builder, *part, split.axis, &operands[2]));
    DT_TRY(dt_build(&builder, dt_op_find("where"), operands, 3, NULL, part));
    (*part)->distribution = operands[1]->distribution;
    return NULL;
}

static bool is_linear(const dt_value *value) { return value->op->algebra & DT_OP_LINEAR && !dt_value_is(value, "divide"); }

/* Whether an operand is a part of the program's that has zeros in its padding. */
static bool has_zeros_in(const dt_sharding *s, const dt_sharded *sharded, const dt_value *part, int operand) {
    const dt_sharded *of = dt_sharded_of(s, sharded->operands[operand]);
    for (size_t i = 0; i < of->parts.n; i++)
        if (of->parts.items[i].value == part->operands[operand]) return of->parts.items[i].has_zeros;
    return false;
}

/* Variables have zeros in their padding, since what is written has; along its axis nothing is scattered there; and linear ops make zeros of zeros. */
static bool has_zeros(const dt_sharding *s, const dt_sharded *sharded, dt_split split, const dt_value *part) {
    if (dt_value_is(part, "read") || (dt_value_is(part, "scatter_add") && dt_value_int(part, "axis") == split.axis)) return true;
    bool of_zeros = part->op == sharded->value->op && part->n_operands > 0 && is_linear(part);
    for (int k = 0; k < part->n_operands && of_zeros; k++) of_zeros = has_zeros_in(s, sharded, part, k);
    return of_zeros;
}

/* What is not linear could make numbers of padding that are not finite, as logarithms do: there it becomes zero at once. So does what is written, and
 * others that read it need not have it as it was. */
dt_status *dt_shard_add_part(dt_sharding *s, dt_sharded *sharded, dt_split split, dt_value *part) {
    bool zeros = !has_padding(s, sharded->shape.dims[split.axis], split.groups) || has_zeros(s, sharded, split, part);
    if (!zeros && (sharded->is_written || (part->op->class == DT_CLASS_MAP && !is_linear(part)))) {
        DT_TRY(pad(s, sharded, split, DT_COMBINE_SUM, &part));
        zeros = true;
    }
    dt_list_push(s->function->module->arena, &sharded->parts, ((dt_part_of_value){split, part, zeros}));
    return NULL;
}

/* ---- parts ---- */

static dt_status *part_of_iota(dt_sharding *s, dt_builder *builder, const dt_sharded *sharded, dt_split split, dt_value **part) {
    dt_shape shape = dt_split_shape(s, sharded->shape, split);
    DT_TRY(build_positions(s, builder, sharded->shape.dims[split.axis], split.groups, part));
    DT_TRY(dt_build_convert(builder, part, *part, sharded->value->dtype));
    return dt_build_broadcast(builder, part, *part, shape, (int64_t[]){split.axis});
}

/* Numbers are drawn for a tensor in which shards are a dimension, of which there is one here. */
static dt_status *part_of_random(dt_sharding *s, dt_builder *builder, const dt_sharded *sharded, dt_split split, dt_value **part) {
    dt_arena *arena = s->function->module->arena;
    const dt_op *op = sharded->value->op;
    dt_shape in_groups = shape_in_groups(s, sharded->shape, split), own = dt_split_shape(s, sharded->shape, split);
    dt_attribute *attributes = dt_arena_copy(arena, sharded->attributes, (size_t)op->n_attributes * sizeof *attributes);
    attributes[dt_op_attribute_index(op, "shape")] = (dt_attribute){.i = in_groups.rank, .ints = in_groups.dims};
    attributes[dt_op_attribute_index(op, "shard_axis")].i = split.axis + 1;
    attributes[dt_op_attribute_index(op, "whole")].i = sharded->shape.dims[split.axis] / split.groups;
    DT_TRY(dt_build(builder, op, NULL, 0, attributes, part));
    same_for_replicas(sharded->value, *part);
    return dt_build(builder, dt_op_find("reshape"), part, 1, &(dt_attribute){.i = own.rank, .ints = own.dims}, part);
}

/* ---- lookups ---- */

/* Whether an index is one of so many elements; counted, where it is not. */
static dt_status *build_is_within(dt_builder *builder, dt_value *index, int64_t extent, dt_value **is_within) {
    dt_value *operands[] = {NULL, index};
    DT_TRY(dt_build_constant(builder, &operands[0], DT_BOOL, 1, (dt_shape){1, &extent}));
    return dt_build_text(builder, is_within, "gather", operands, 2, "axis=0");
}

static dt_status *build_look_up(dt_sharding *s, dt_builder *builder, dt_lookup *lookup) {
    static const char *const names[] = {"i", "first", "own", "within"};
    dt_value *values[4];
    dt_shape shape = lookup->of->shape;
    double own = (double)dt_shard_extent(lookup->extent, 1, s->n_shards);
    DT_TRY(build_is_within(builder, lookup->of, lookup->extent, &values[3]));
    DT_TRY(dt_build_convert(builder, &values[0], lookup->of, DT_I64));
    DT_TRY(dt_build_constant(builder, &values[1], DT_I64, own, (dt_shape){0}));
    DT_TRY(dt_build_binary(builder, &values[1], "multiply", s->shard, values[1]));
    DT_TRY(dt_build_broadcast(builder, &values[1], values[1], shape, NULL));
    DT_TRY(dt_build_constant(builder, &values[2], DT_I64, own, shape));
    DT_TRY(dt_build_expression(builder, &lookup->is_own, "within & i >= first & i < first + own", names, values, 4));
    values[3] = lookup->is_own;
    return dt_build_expression(builder, &lookup->index, "where(within, i - first, 0)", names, values, 4);
}

dt_status *dt_shard_look_up(dt_sharding *s, dt_value *index, int64_t extent, const dt_value *user, dt_lookup *lookup) {
    DT_TRY(build_number_of_shard(s));
    for (size_t i = 0; i < s->lookups.n; i++) {
        *lookup = s->lookups.items[i];
        if (lookup->of == index && lookup->extent == extent) return NULL;
    }
    dt_builder builder = dt_builder_behind(s, index);
    builder.locations = user->locations;
    builder.n_locations = user->n_locations;
    *lookup = (dt_lookup){.of = index, .extent = extent};
    DT_TRY(build_look_up(s, &builder, lookup));
    dt_list_push(s->function->module->arena, &s->lookups, *lookup);
    return NULL;
}

dt_status *dt_build_where_own(dt_builder *builder, dt_value *is_own, dt_value *value, dt_value **result) {
    int64_t *dims = DT_NEW_ARRAY(builder->function->module->arena, int64_t, is_own->shape.rank);
    dt_value *operands[3] = {NULL, value, NULL};
    for (int d = 0; d < is_own->shape.rank; d++) dims[d] = d;
    DT_TRY(dt_build_broadcast(builder, &operands[0], is_own, value->shape, dims));
    DT_TRY(dt_build_constant(builder, &operands[2], value->dtype, 0, value->shape));
    return dt_build(builder, dt_op_find("where"), operands, 3, NULL, result);
}

/* What a shard has of what is scattered along the dimension that is split; *part is NULL: it is scattered in another way. */
static dt_status *part_of_scatter(dt_sharding *s, dt_builder *builder, const dt_sharded *sharded, dt_split split, dt_value **part) {
    dt_value *operands[2];
    dt_lookup lookup;
    *part = NULL;
    if (split.groups > 1 || dt_value_int(sharded->value, "axis") != split.axis) return NULL;
    for (int k = 0; k < 2; k++) {
        operands[k] = dt_sharded_of(s, sharded->operands[k])->whole;
        if (operands[k] == NULL) return NULL;
    }
    DT_TRY(dt_shard_look_up(s, operands[1], sharded->shape.dims[split.axis], sharded->value, &lookup));
    DT_TRY(dt_build_where_own(builder, lookup.is_own, operands[0], &operands[0]));
    operands[1] = lookup.index;
    return dt_build_text(builder, part, "scatter_add", operands, 2, "axis=%d, size=%" PRId64, split.axis, dt_split_extent(s, sharded->shape, split));
}

/* A shard's elements of the whole. */
static dt_status *take_part(dt_sharding *s, dt_builder *builder, dt_sharded *sharded, dt_split split, const dt_value *user, dt_value **part) {
    dt_value *operands[2], *positions;
    DT_TRY(dt_shard_whole(s, sharded, user, &operands[0]));
    DT_TRY(build_positions(s, builder, sharded->shape.dims[split.axis], split.groups, &positions));
    dt_shape own = dt_split_shape(s, sharded->shape, split);
    DT_TRY(dt_build_broadcast(builder, &operands[1], positions, (dt_shape){split.axis + 1, own.dims}, (int64_t[]){split.axis}));
    return dt_build_text(builder, part, "gather", operands, 2, "axis=%d", split.axis);
}

/* Element by element, of parts of its operands; *part is NULL where an operand is read in another way. */
static dt_status *compute_part(dt_sharding *s, dt_builder *builder, dt_sharded *sharded, dt_split split, const dt_value *user, dt_value **part) {
    dt_arena *arena = s->function->module->arena;
    const dt_value *value = sharded->value;
    dt_value **operands = DT_NEW_ARRAY(arena, dt_value *, value->n_operands);
    *part = NULL;
    for (int k = 0; k < value->n_operands; k++) {
        dt_sharded *operand = dt_sharded_of(s, sharded->operands[k]);
        dt_split of_operand = {DT_NOT_SPLIT, 1};
        if (sharded->loops == NULL)
            of_operand = dt_split_reshaped(s, sharded->shape, split, operand->shape);
        else if (!dt_split_of_operand(sharded, k, operand->shape, split.axis, split.groups, &of_operand))
            return NULL;
        if (sharded->loops == NULL && of_operand.axis == DT_NOT_SPLIT) return NULL;
        if (of_operand.axis == DT_NOT_SPLIT)
            DT_TRY(dt_shard_whole(s, operand, user, &operands[k]));
        else
            DT_TRY(dt_shard_part(s, operand, of_operand, user, &operands[k]));
    }
    return dt_build(builder, value->op, operands, value->n_operands, dt_split_attributes(s, sharded, split), part);
}

static bool is_element_by_element(const dt_sharding *s, const dt_value *value) {
    if (s->bodies[value->id] != NULL) return false;
    switch (value->op->class) {
    case DT_CLASS_SOURCE: return !dt_value_is(value, "input");
    case DT_CLASS_MAP:
    case DT_CLASS_MOVE: return true;
    default: return false;
    }
}

static dt_part_of_value *find_part(const dt_sharded *sharded, dt_split split) {
    for (size_t i = 0; i < sharded->parts.n; i++) {
        dt_part_of_value *part = &sharded->parts.items[i];
        if (part->split.axis == split.axis && part->split.groups == split.groups) return part;
    }
    return NULL;
}

dt_status *dt_shard_part(dt_sharding *s, dt_sharded *sharded, dt_split split, const dt_value *user, dt_value **part) {
    const dt_part_of_value *made = find_part(sharded, split);
    if (made != NULL) {
        *part = made->value;
        return NULL;
    }
    const dt_value *value = sharded->value;
    bool is_own = sharded->parts.n == 0; /* the value has not been split in another way */
    DT_TRY(dt_shard_whole(s, sharded, user, part));
    dt_builder builder = dt_builder_behind(s, *part);
    *part = NULL;
    if (!is_own)
        DT_TRY(take_part(s, &builder, sharded, split, user, part));
    else if (dt_value_is(value, "iota") && dt_value_int(value, "axis") == split.axis)
        DT_TRY(part_of_iota(s, &builder, sharded, split, part));
    else if (dt_value_is(value, "scatter_add"))
        DT_TRY(part_of_scatter(s, &builder, sharded, split, part));
    else if (value->op->class == DT_CLASS_RANDOM)
        DT_TRY(part_of_random(s, &builder, sharded, split, part));
    else if (is_element_by_element(s, value))
        DT_TRY(compute_part(s, &builder, sharded, split, user, part));
    if (*part == NULL) DT_TRY(take_part(s, &builder, sharded, split, user, part));
    same_for_replicas(value, *part);
    DT_TRY(dt_shard_add_part(s, sharded, split, *part));
    *part = find_part(sharded, split)->value;
    return NULL;
}

dt_status *dt_shard_padded_part(dt_sharding *s, dt_sharded *sharded, dt_split split, dt_combiner combiner, const dt_value *user, dt_value **part) {
    DT_TRY(dt_shard_part(s, sharded, split, user, part));
    dt_part_of_value *made = find_part(sharded, split);
    bool is_sum = combiner == DT_COMBINE_SUM;
    if ((is_sum && made->has_zeros) || !has_padding(s, sharded->shape.dims[split.axis], split.groups)) return NULL;
    DT_TRY(pad(s, sharded, split, combiner, part));
    if (is_sum) *made = (dt_part_of_value){split, *part, true};
    return NULL;
}

/* ---- positions ---- */

/* Where each shard's extreme is among all, if it is that of all, which may be not a number; else behind the last element. */
static dt_status *build_candidate(dt_sharding *s, dt_builder *builder, dt_value *at, dt_value *own, dt_value *best, int64_t extent,
                                  dt_value **found) {
    static const char *const names[] = {"at", "own", "best", "first", "end"};
    dt_value *values[] = {at, own, best, NULL, NULL};
    DT_TRY(build_number_of_shard(s));
    DT_TRY(dt_build_constant(builder, &values[3], DT_I64, (double)dt_shard_extent(extent, 1, s->n_shards), (dt_shape){0}));
    DT_TRY(dt_build_binary(builder, &values[3], "multiply", s->shard, values[3]));
    DT_TRY(dt_build_broadcast(builder, &values[3], values[3], at->shape, NULL));
    DT_TRY(dt_build_constant(builder, &values[4], DT_I64, (double)extent, at->shape));
    return dt_build_expression(builder, found, "where(own == best | own != own, first + at, end)", names, values, 5);
}

dt_status *dt_shard_find_extreme(dt_sharding *s, dt_sharded *sharded) {
    dt_value *value = sharded->value, *own, *best, *found;
    dt_sharded *operand = dt_sharded_of(s, sharded->operands[0]);
    dt_split split = operand->parts.items[0].split;
    dt_combiner combiner = sharded->loops->combiner == DT_COMBINE_ARGMAX ? DT_COMBINE_MAX : DT_COMBINE_MIN;
    const char *reduce = combiner == DT_COMBINE_MAX ? "reduce_max" : "reduce_min";
    DT_TRY(dt_shard_padded_part(s, operand, split, combiner, value, &value->operands[0]));
    dt_builder builder = dt_builder_behind(s, value);
    DT_TRY(dt_build_reduce(&builder, &own, reduce, value->operands[0], (int64_t[]){split.axis}, 1, dt_value_bool(value, "keep")));
    same_for_replicas(value, value);
    same_for_replicas(value, own);
    DT_TRY(dt_shard_combine(s, own, combiner, &best));
    builder = dt_builder_behind(s, best);
    builder.locations = value->locations;
    builder.n_locations = value->n_locations;
    DT_TRY(build_candidate(s, &builder, value, own, best, operand->shape.dims[split.axis], &found));
    same_for_replicas(value, found);
    return dt_shard_combine(s, found, DT_COMBINE_MIN, &sharded->whole);
}

/* ---- whole ---- */

static void warn_of_gather(const dt_sharding *s, const dt_sharded *sharded, const dt_value *user) {
    dt_arena *arena = s->compilation->arena;
    dt_text shape = {.arena = arena};
    const dt_value *at = user->n_locations > 0 ? user : sharded->value;
    dt_shape_print(&shape, sharded->value->dtype, sharded->shape);
    dt_warning warning = {
        .kind = DT_WARN_SHARDS_GATHERED,
        .location = at->n_locations > 0 ? at->locations[0] : (dt_location){.file = -1},
        .message = dt_arena_format(arena, "%s needs all of %s, which is split over %" PRId64 " shards at dimension %d: it is gathered each time",
                                   user->op->class == DT_CLASS_STATE ? "what is written" : user->op->name, shape.data, s->n_shards,
                                   sharded->parts.items[0].split.axis)};
    dt_list_push(arena, &s->compilation->warnings, warning);
}

dt_status *dt_shard_combine(const dt_sharding *s, dt_value *term, dt_combiner combiner, dt_value **whole) {
    dt_builder builder = dt_builder_behind(s, term);
    term->distribution.sharded = true;
    DT_TRY(dt_build_text(&builder, whole, "shard_reduce", &term, 1, "kind=\"%s\"", dt_combiner_name(combiner)));
    (*whole)->distribution = term->distribution;
    (*whole)->distribution.sharded = false;
    return NULL;
}

/* Each shard puts its elements between zeros, and all are added up, by which -0 becomes 0; of bools the greatest are taken, for which they are
 * numbers. */
dt_status *dt_shard_whole(dt_sharding *s, dt_sharded *sharded, const dt_value *user, dt_value **whole) {
    *whole = sharded->whole;
    if (*whole != NULL) return NULL;
    dt_split split = sharded->parts.items[0].split;
    dt_value *operands[2], *positions, *made;
    DT_TRY(dt_shard_padded_part(s, sharded, split, DT_COMBINE_SUM, user, &operands[0]));
    dt_builder builder = dt_builder_behind(s, operands[0]);
    bool is_bool = sharded->value->dtype == DT_BOOL;
    dt_distribution distribution = sharded->value->distribution;
    warn_of_gather(s, sharded, user);
    if (is_bool) DT_TRY(dt_build_convert(&builder, &operands[0], operands[0], DT_U8));
    operands[0]->distribution = distribution;
    DT_TRY(build_positions(s, &builder, sharded->shape.dims[split.axis], split.groups, &positions));
    DT_TRY(dt_build_broadcast(&builder, &operands[1], positions, (dt_shape){split.axis + 1, dt_split_shape(s, sharded->shape, split).dims},
                              (int64_t[]){split.axis}));
    DT_TRY(dt_build_text(&builder, &made, "scatter_add", operands, 2, "axis=%d, size=%" PRId64, split.axis, sharded->shape.dims[split.axis]));
    made->distribution = distribution;
    DT_TRY(dt_shard_combine(s, made, is_bool ? DT_COMBINE_MAX : DT_COMBINE_SUM, &made));
    distribution = made->distribution;
    if (is_bool) DT_TRY(dt_build_convert(&builder, &made, made, DT_BOOL));
    made->distribution = distribution;
    *whole = sharded->whole = made;
    return NULL;
}
