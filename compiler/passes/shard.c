/* shard: splits a model's values over its shards (`mesh model = M`) and inserts what crosses them.
 *
 * In:  a partitioned graph.      Out: the same program as one shard of one replica runs it.
 *
 * The program says of some parameters at which dimension they are split. What becomes of that is read off the loops of each value, as for replicas
 * (partition.c): where an outer loop walks what is split, the result is split too; where a reduced one does, the result is partial, and is combined
 * over the shards at once. Another operand that the loop walks is made split (shard_parts.c). What can be neither is gathered, of which a warning
 * tells. All else is the same for all shards, and computed once for all of them. Kernels are those of one shard, whose number is a launch value, so
 * that results do not depend on who computes which shards. */
#include "compiler/passes/shard.h"
#include "ir/body.h"

#include <string.h>

static bool is_split(const dt_sharded *sharded) { return sharded->whole == NULL && sharded->parts.n > 0; }

static dt_split own_split(const dt_sharded *sharded) { return sharded->parts.items[0].split; }

/* ---- which loop is split ---- */

typedef struct choice {
    int loop; /* -1: none, all operands are whole */
    int64_t groups;
} choice;

/* False: operands are split in ways that do not fit together, or are read with an offset, or several elements of them at once. */
static bool choose_loop(const dt_sharding *s, const dt_sharded *sharded, choice *chosen) {
    *chosen = (choice){-1, 1};
    for (int k = 0; k < sharded->value->n_operands; k++) {
        const dt_sharded *operand = dt_sharded_of(s, sharded->operands[k]);
        if (!is_split(operand)) continue;
        dt_split split = own_split(operand);
        int loop = dt_loop_of_whole_dimension(sharded->loops, &sharded->loops->operands[k], operand->shape, split.axis);
        if (loop < 0 || (chosen->loop >= 0 && (chosen->loop != loop || chosen->groups != split.groups))) return false;
        *chosen = (choice){loop, split.groups};
    }
    return true;
}

/* ---- moves along the dimension that is split ---- */

/* How the result of a slice, a padding or a concatenation is split whose operands are so many tensors side by side, of which it takes or puts whole
 * ones side by side; DT_NOT_SPLIT: it is not such a one. */
static dt_split split_of_move(const dt_sharding *s, const dt_sharded *sharded) {
    const dt_value *value = sharded->value;
    const dt_sharded *first = dt_sharded_of(s, sharded->operands[0]);
    const dt_split none = {DT_NOT_SPLIT, 1};
    if (!is_split(first)) return none;
    dt_split split = own_split(first);
    int64_t unit = first->shape.dims[split.axis] / split.groups, low = 0, high = 0;
    int n;
    if (dt_value_is(value, "slice")) {
        low = dt_value_ints(value, "starts", &n)[split.axis];
    } else if (dt_value_is(value, "pad")) {
        low = dt_value_ints(value, "low", &n)[split.axis];
        high = dt_value_ints(value, "high", &n)[split.axis];
    } else if (!dt_value_is(value, "concatenate") || dt_value_int(value, "axis") != split.axis) {
        return none;
    }
    for (int k = 1; k < value->n_operands; k++) {
        const dt_sharded *other = dt_sharded_of(s, sharded->operands[k]);
        if (is_split(other) && (own_split(other).axis != split.axis || other->shape.dims[split.axis] / own_split(other).groups != unit)) return none;
        if (other->shape.dims[split.axis] % unit != 0 || other->shape.dims[split.axis] == 0) return none;
    }
    int n_steps = 0;
    const int64_t *steps = dt_value_is(value, "concatenate") ? NULL : dt_value_ints(value, "steps", &n_steps);
    int64_t step = n_steps > 0 ? steps[split.axis] : 1, extent = value->shape.dims[split.axis];
    if (low % unit != 0 || high % unit != 0 || extent % unit != 0 || extent == 0 || step != 1) return none;
    return (dt_split){split.axis, extent / unit};
}

/* The value, whose operands are a shard's, is a shard's part of what it was. */
static dt_status *become_part(dt_sharding *s, dt_sharded *sharded, dt_split split) {
    dt_value *value = sharded->value;
    dt_module *module = s->function->module;
    value->attributes = dt_split_attributes(s, sharded, split);
    DT_TRY(dt_op_infer(module->arena, module, value->op, value->operands, value->n_operands, value->attributes, &value->shape, &value->dtype));
    if (!dt_shape_equal(value->shape, dt_split_shape(s, sharded->shape, split)))
        return dt_value_error(value, DT_UNIMPLEMENTED, "%s cannot be split over shards at its dimension %d", value->op->name, split.axis);
    value->distribution.sharded = true;
    sharded->whole = NULL;
    return dt_shard_add_part(s, sharded, split, value);
}

static dt_status *split_move(dt_sharding *s, dt_sharded *sharded, dt_split split) {
    dt_value *value = sharded->value;
    int64_t unit = sharded->shape.dims[split.axis] / split.groups;
    for (int k = 0; k < value->n_operands; k++) {
        dt_sharded *operand = dt_sharded_of(s, sharded->operands[k]);
        DT_TRY(dt_shard_part(s, operand, (dt_split){split.axis, operand->shape.dims[split.axis] / unit}, value, &value->operands[k]));
    }
    return become_part(s, sharded, split);
}

/* ---- one value ---- */

/* What the loops leave of a loop that is split; DT_NOT_SPLIT: a part of a sum. */
static dt_split split_of_result(const dt_sharded *sharded, choice chosen) {
    const dt_loops *loops = sharded->loops;
    if (loops->result == NULL) return (dt_split){chosen.loop < loops->n_outer ? chosen.loop : DT_NOT_SPLIT, chosen.groups};
    for (int d = 0; d < sharded->shape.rank; d++)
        if (dt_loop_of_whole_dimension(loops, loops->result, sharded->shape, d) == chosen.loop) return (dt_split){d, chosen.groups};
    return (dt_split){DT_NOT_SPLIT, 1};
}

static dt_combiner combiner_of(const dt_sharded *sharded) { return sharded->loops->result != NULL ? DT_COMBINE_SUM : sharded->loops->combiner; }

/* Whether each shard can compute its part, of parts of its operands. */
static bool can_be_split(const dt_sharding *s, const dt_sharded *sharded, choice chosen) {
    dt_combiner combiner = combiner_of(sharded);
    bool combines = combiner == DT_COMBINE_SUM || combiner == DT_COMBINE_MAX || combiner == DT_COMBINE_MIN;
    if (split_of_result(sharded, chosen).axis == DT_NOT_SPLIT && !combines) return false;
    for (int k = 0; k < sharded->value->n_operands; k++) {
        dt_split of_operand;
        if (!dt_split_of_operand(sharded, k, dt_sharded_of(s, sharded->operands[k])->shape, chosen.loop, chosen.groups, &of_operand)) return false;
    }
    return true;
}

/* Whether it looks up along the dimension that is split, by an index that is whole. */
static bool is_lookup(const dt_sharding *s, const dt_sharded *sharded) {
    if (!dt_value_is(sharded->value, "gather") || sharded->value->dtype == DT_BOOL) return false;
    const dt_sharded *table = dt_sharded_of(s, sharded->operands[0]);
    return is_split(table) && own_split(table).groups == 1 && own_split(table).axis == dt_value_int(sharded->value, "axis") &&
           dt_sharded_of(s, sharded->operands[1])->whole != NULL;
}

/* Each shard looks up what it has, and gives zeros for the rest. */
static dt_status *split_lookup(dt_sharding *s, dt_sharded *sharded) {
    dt_value *value = sharded->value, *own;
    const dt_sharded *table = dt_sharded_of(s, sharded->operands[0]);
    dt_lookup lookup;
    DT_TRY(dt_shard_look_up(s, dt_sharded_of(s, sharded->operands[1])->whole, table->shape.dims[own_split(table).axis], value, &lookup));
    value->operands[0] = table->parts.items[0].value;
    value->operands[1] = lookup.index;
    value->distribution.sharded = true;
    dt_builder behind = dt_builder_behind(s, value);
    DT_TRY(dt_build_where_own(&behind, lookup.is_own, value, &own));
    own->distribution = value->distribution;
    return dt_shard_combine(s, own, DT_COMBINE_SUM, &sharded->whole);
}

static dt_status *split_by_loops(dt_sharding *s, dt_sharded *sharded, choice chosen) {
    dt_value *value = sharded->value;
    dt_split split = split_of_result(sharded, chosen);
    bool may_be_index = value->op->class == DT_CLASS_INDEX || value->op->class == DT_CLASS_WINDOW;
    for (int k = 0; k < value->n_operands; k++) {
        dt_sharded *operand = dt_sharded_of(s, sharded->operands[k]);
        dt_split of_operand;
        dt_split_of_operand(sharded, k, operand->shape, chosen.loop, chosen.groups, &of_operand);
        if (of_operand.axis == DT_NOT_SPLIT)
            DT_TRY(dt_shard_whole(s, operand, value, &value->operands[k]));
        else if (split.axis == DT_NOT_SPLIT || may_be_index)
            DT_TRY(dt_shard_padded_part(s, operand, of_operand, split.axis == DT_NOT_SPLIT ? combiner_of(sharded) : DT_COMBINE_SUM, value,
                                        &value->operands[k]));
        else
            DT_TRY(dt_shard_part(s, operand, of_operand, value, &value->operands[k]));
    }
    return split.axis != DT_NOT_SPLIT ? become_part(s, sharded, split) : dt_shard_combine(s, value, combiner_of(sharded), &sharded->whole);
}

/* What is where its operand is: a reshape, what crosses replicas. */
static dt_status *split_as_operand(dt_sharding *s, dt_sharded *sharded, dt_split split) {
    sharded->value->operands[0] = dt_sharded_of(s, sharded->operands[0])->parts.items[0].value;
    return become_part(s, sharded, split);
}

static void set_shards(const dt_sharding *s, dt_value *value) {
    int attribute = dt_op_attribute_index(value->op, "shards");
    value->attributes = dt_arena_copy(s->function->module->arena, value->attributes, (size_t)value->op->n_attributes * sizeof(dt_attribute));
    value->attributes[attribute].i = s->n_shards;
}

static dt_status *split_state(dt_sharding *s, dt_sharded *sharded) {
    dt_value *value = sharded->value;
    dt_module *module = s->function->module;
    const dt_variable *variable = dt_module_find_variable(module, dt_value_string(value, "variable"));
    dt_split split = {variable->shard_axis, variable->shard_groups};
    bool writes = value->n_operands > 0;
    if (split.axis == DT_NOT_SPLIT) return writes ? dt_shard_whole(s, dt_sharded_of(s, sharded->operands[0]), value, &value->operands[0]) : NULL;
    if (writes) DT_TRY(dt_shard_padded_part(s, dt_sharded_of(s, sharded->operands[0]), split, DT_COMBINE_SUM, value, &value->operands[0]));
    set_shards(s, value);
    value->distribution.sharded = true;
    if (writes) return NULL;
    value->shape = dt_split_shape(s, sharded->shape, split);
    sharded->whole = NULL;
    return dt_shard_add_part(s, sharded, split, value);
}

static bool takes_what_is_split(const dt_sharding *s, const dt_sharded *sharded) {
    for (int k = 0; k < sharded->value->n_operands; k++)
        if (is_split(dt_sharded_of(s, sharded->operands[k]))) return true;
    return false;
}

/* Its operands are whole: of those of which each shard has had a part, what has become of that. */
static dt_status *keep_whole(dt_sharding *s, dt_sharded *sharded) {
    for (int k = 0; k < sharded->value->n_operands; k++)
        DT_TRY(dt_shard_whole(s, dt_sharded_of(s, sharded->operands[k]), sharded->value, &sharded->value->operands[k]));
    return NULL;
}

/* How a value without loops is split. */
static dt_split split_of_alias(const dt_sharding *s, const dt_sharded *sharded) {
    const dt_sharded *operand = dt_sharded_of(s, sharded->operands[0]);
    if (sharded->value->op->class == DT_CLASS_COLLECTIVE) return own_split(operand);
    return dt_split_reshaped(s, operand->shape, own_split(operand), sharded->shape);
}

/* Whether it says where the greatest or least element is along the dimension that is split, alone. */
static bool finds_extreme(const dt_sharding *s, const dt_sharded *sharded) {
    if (sharded->value->op->class != DT_CLASS_REDUCE || !dt_combiner_is_position(sharded->loops->combiner)) return false;
    const dt_sharded *operand = dt_sharded_of(s, sharded->operands[0]);
    int n;
    const int64_t *axes = dt_value_ints(sharded->value, "axes", &n);
    return n == 1 && is_split(operand) && axes[0] == own_split(operand).axis && own_split(operand).groups == 1;
}

/* What cannot be split is computed whole, of what is gathered for it. */
static dt_status *shard_value(dt_sharding *s, dt_sharded *sharded) {
    dt_value *value = sharded->value;
    choice chosen;
    if (value->op->class == DT_CLASS_STATE) return split_state(s, sharded);
    if (!takes_what_is_split(s, sharded)) return keep_whole(s, sharded);
    if (value->op->class == DT_CLASS_LOOP || s->bodies[value->id] != NULL) return keep_whole(s, sharded); /* nothing crosses in a body */
    if (is_lookup(s, sharded)) return split_lookup(s, sharded);
    if (finds_extreme(s, sharded)) return dt_shard_find_extreme(s, sharded);
    dt_split split = sharded->loops == NULL ? split_of_alias(s, sharded) : split_of_move(s, sharded);
    if (split.axis != DT_NOT_SPLIT) return sharded->loops == NULL ? split_as_operand(s, sharded, split) : split_move(s, sharded, split);
    bool can = sharded->loops != NULL && choose_loop(s, sharded, &chosen) && can_be_split(s, sharded, chosen);
    return can ? split_by_loops(s, sharded, chosen) : keep_whole(s, sharded);
}

/* ---- a function ---- */

static dt_status *take_results(dt_sharding *s) {
    for (size_t r = 0; r < s->function->results.n; r++) {
        dt_result *result = &s->function->results.items[r];
        DT_TRY(dt_shard_whole(s, dt_sharded_of(s, result->value), result->value, &result->value));
    }
    return NULL;
}

static dt_sharded sharded_of(dt_arena *arena, dt_value *value) {
    return (dt_sharded){.value = value,
                        .shape = value->shape,
                        .operands = dt_arena_copy(arena, value->operands, (size_t)value->n_operands * sizeof(dt_value *)),
                        .attributes = value->attributes,
                        .loops = dt_value_loops(arena, value),
                        .whole = value};
}

/* What the pass has built on the way, as positions of elements. */
static void distribute_new(dt_function *function) {
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        if (value->distribution.kind != DT_UNKNOWN) continue;
        value->distribution = dt_distribution_at(dt_shape_batch_axis(value->shape));
        for (int k = 0; k < value->n_operands; k++) value->distribution.sharded |= value->operands[k]->distribution.sharded;
    }
}

static dt_status *shard_function(dt_compilation *compilation, dt_function *function) {
    dt_arena *arena = function->module->arena;
    dt_function_renumber(function);
    int n = function->next_id;
    dt_sharding s = {.compilation = compilation, .function = function, .n_shards = function->module->n_shards};
    s.values = DT_NEW_ARRAY(arena, dt_sharded, n);
    s.bodies = DT_NEW_ARRAY(arena, dt_value *, n);
    dt_function_find_bodies(function, s.bodies);
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        s.values[value->id] = sharded_of(arena, value);
        if (dt_value_is(value, "write")) s.values[value->operands[0]->id].is_written = true;
    }
    for (int id = 0; id < n; id++) DT_TRY(shard_value(&s, &s.values[id]));
    DT_TRY(take_results(&s));
    distribute_new(function);
    dt_function_sweep(function);
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_pass_shard(dt_compilation *compilation) {
    dt_module *module = compilation->module;
    for (size_t i = 0; i < module->functions.n && module->n_shards > 1; i++) DT_TRY(shard_function(compilation, module->functions.items[i]));
    return NULL;
}
