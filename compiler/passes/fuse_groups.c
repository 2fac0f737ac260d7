/* fuse_groups: which values are in memory, and which nest computes them.
 *
 * Values are met in program order, groups numbered as they come, so a group needs only groups before it. A value that depends, element by element,
 * on the last group it needs is computed in that group's nest: what follows a convolution follows it there. Others are computed where they are used,
 * unless that would cost too much too often: then they get an elementwise group, together with others of their shape that need the same. */
#include "compiler/kernel/nest.h"
#include "compiler/passes/fuse.h"
#include "ir/body.h"

#include <string.h>

enum {
    cheap = 4,          /* at most so many operations are cheaper to repeat than their result is to store and load */
    most_derived = 8,   /* the same from what is in memory on, where groups have made a value one of what the other one had */
    function_cost = 16, /* of exp and its like, in operations */
    guard_cost = 2,     /* of asking whether an element lies outside of what is read */
    most_cost = 1 << 20 /* costs above it are not told apart */
};

bool dt_fusion_is_replicated(const dt_fusion *f, const dt_value *value) {
    const dt_value *loop = f->bodies[value->id];
    if (loop != NULL) return f->is_replicated[loop->id];
    return value->distribution.kind == DT_REPLICATED || !dt_function_role_has_rows(f->plan->role);
}

bool dt_fusion_runs_as(const dt_fusion *f, const dt_fusion_group *group, const dt_value *value) {
    return group->replicated == dt_fusion_is_replicated(f, value) && group->sharded == value->distribution.sharded;
}

bool dt_fusion_is_on(const dt_fusion *f) { return dt_switch_is_on(f->compilation->off, DT_SWITCH_FUSE); }

bool dt_access_is_in_place(const dt_loops *loops, const dt_access *access, dt_shape shape) {
    if (shape.rank != loops->n_outer) return false;
    for (int d = 0; d < shape.rank; d++) {
        const dt_index *index = &access->dims[d];
        if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0 || shape.dims[d] != loops->extents[d]) return false;
        for (int l = 0; l < loops->n_loops; l++)
            if (index->coefficients[l] != (l == d)) return false;
    }
    return true;
}

/* ---- before the walk: bases, users, what must be in memory, costs ---- */

typedef DT_LIST(const dt_formula *) dt_formula_list;

static int count_operations(const dt_formula *node, dt_formula_list *seen, dt_arena *arena) {
    for (size_t i = 0; i < seen->n; i++)
        if (seen->items[i] == node) return 0;
    dt_list_push(arena, seen, node);
    int cost = node->kind == DT_FORMULA_FUNCTION ? function_cost : node->kind == DT_FORMULA_SCALAR || node->kind == DT_FORMULA_CONVERT;
    if (node->kind == DT_FORMULA_SCALAR && (node->scalar == DT_SCALAR_DIVIDE || node->scalar == DT_SCALAR_SQUARE_ROOT)) cost = 2;
    for (int k = 0; k < node->n_arguments; k++) cost += count_operations(node->arguments[k], seen, arena);
    return cost;
}

static void prepare(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    *placement = (dt_placement){.base = value, .producer = -1, .group = -1};
    if (dt_value_is_alias(value)) placement->base = dt_placement_of(f, value->operands[0])->base;
    for (int k = 0; k < value->n_operands && !dt_value_is_alias(value); k++)
        dt_list_push(f->arena, &dt_placement_of(f, dt_placement_of(f, value->operands[k])->base)->users, value);
    if (value->op->class == DT_CLASS_COLLECTIVE || dt_value_is(value, "scanned"))
        dt_placement_of(f, dt_placement_of(f, value->operands[0])->base)->required = true;
}

/* Whether `value` is its two operands added up, element by element. */
static bool is_addition(dt_fusion *f, const dt_value *value) {
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    if (loops == NULL || dt_loops_are_root(loops) || value->n_operands != 2) return false;
    const dt_formula *body = loops->body;
    if (body->kind != DT_FORMULA_SCALAR || body->scalar != DT_SCALAR_ADD) return false;
    for (int k = 0; k < 2; k++) {
        if (body->arguments[k]->kind != DT_FORMULA_OPERAND || body->arguments[k]->index == body->arguments[1 - k]->index) return false;
        if (!dt_access_is_in_place(loops, &loops->operands[k], value->operands[k]->shape)) return false;
    }
    return true;
}

/* Whether `value` is a root that its only user alone needs, of the same kind as that. */
static bool is_only_for(dt_fusion *f, const dt_value *value, const dt_value *user) {
    const dt_placement *placement = dt_placement_of(f, value);
    if (f->bodies[value->id] != f->bodies[user->id]) return false;
    if (!dt_loops_are_root(dt_lowering_loops(f->lowering, value)) || placement->required || placement->users.n != 1) return false;
    return value->dtype == user->dtype && dt_fusion_is_replicated(f, value) == dt_fusion_is_replicated(f, user) &&
           value->distribution.sharded == user->distribution.sharded;
}

static bool stands_before(const dt_value *value, const dt_value *other) {
    for (const dt_value *next = value->next; next != NULL; next = next->next)
        if (next == other) return true;
    return false;
}

/* A sum plus what is scattered, as the gradient of a table that a product and a look-up share: the scatter goes onto the sum where that lies, so that
 * neither zeros nor a second copy of the table are written. */
static void scatter_onto_sum(dt_fusion *f, const dt_value *value) {
    if (!is_addition(f, value) || (value->dtype != DT_F32 && value->dtype != DT_F64)) return;
    for (int k = 0; k < 2; k++) {
        const dt_value *scatter = value->operands[k], *sum = value->operands[1 - k];
        if (!is_only_for(f, scatter, value) || !is_only_for(f, sum, value) || !stands_before(sum, scatter)) continue;
        if (dt_lowering_loops(f->lowering, scatter)->result == NULL || dt_lowering_loops(f->lowering, sum)->result != NULL) continue;
        dt_placement_of(f, scatter)->onto = sum;
        dt_placement_of(f, scatter)->required = dt_placement_of(f, value)->required;
        dt_placement_of(f, value)->base = scatter;
        dt_placement_of(f, value)->stored = true;
        return;
    }
}

/* Operations for one element of `value` when all that is not in memory is computed along; scalars are computed outside of all loops. */
static int cost_of(dt_fusion *f, const dt_value *value) {
    if (dt_shape_elements_per_row(value->shape) <= 1 && dt_shape_batch_axis(value->shape) < 0) return 0;
    int cost = dt_placement_of(f, value)->operations;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_placement *operand = dt_placement_of(f, dt_placement_of(f, value->operands[k])->base);
        if (!operand->stored && operand->group < 0) cost += operand->cost;
        if (cost > most_cost) cost = most_cost;
    }
    return cost;
}

/* ---- groups ---- */

static int new_group(dt_fusion *f, dt_fusion_group group) {
    group.loop = f->loop;
    dt_list_push(f->arena, &f->groups, group);
    return (int)f->groups.n - 1;
}

static int producer_of_operands(dt_fusion *f, const dt_value *value) {
    int producer = -1;
    for (int k = 0; k < value->n_operands; k++) {
        int of_operand = dt_placement_of(f, value->operands[k])->producer;
        if (of_operand > producer) producer = of_operand;
    }
    return producer;
}

/* Whether element i of `value` needs, of group `producer`, element i alone. */
static bool is_in_place(dt_fusion *f, const dt_value *value, const dt_loops *loops, int producer) {
    if (producer < 0 || f->groups.items[producer].collective != NULL || f->groups.items[producer].loop != f->loop) return false;
    if (!dt_fusion_runs_as(f, &f->groups.items[producer], value)) return false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_placement *operand = dt_placement_of(f, value->operands[k]);
        if (operand->producer != producer) continue;
        if (!operand->in_place || !dt_access_is_in_place(loops, &loops->operands[k], value->operands[k]->shape)) return false;
    }
    return true;
}

static bool shares_operand(dt_fusion *f, const dt_value *x, const dt_value *y) {
    for (int i = 0; i < x->n_operands; i++)
        for (int j = 0; j < y->n_operands; j++)
            if (dt_placement_of(f, x->operands[i])->base == dt_placement_of(f, y->operands[j])->base) return true;
    return false;
}

static bool same_loops(const dt_loops *x, const dt_loops *y) {
    if (x->n_loops != y->n_loops || x->n_outer != y->n_outer || x->result != NULL || y->result != NULL) return false;
    return memcmp(x->extents, y->extents, (size_t)x->n_loops * sizeof *x->extents) == 0;
}

static bool has_elements(const dt_value *value) { return dt_shape_elements_per_row(value->shape) > 1 || dt_shape_batch_axis(value->shape) >= 0; }

static bool is_in(const dt_value_list *list, const dt_value *value) {
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i] == value) return true;
    return false;
}

/* Adds what a nest that computes `value` reads element by element. */
static void add_reads(dt_fusion *f, const dt_value *value, dt_value_list *reads) {
    const dt_value *base = dt_placement_of(f, value)->base;
    dt_placement *placement = dt_placement_of(f, base);
    if (!has_elements(base) || placement->walk == f->n_walks) return;
    placement->walk = f->n_walks;
    if (placement->stored || placement->group >= 0)
        dt_list_push(f->arena, reads, base);
    else
        for (int k = 0; k < base->n_operands; k++) add_reads(f, base->operands[k], reads);
}

static bool shares_reads(const dt_fusion_group *group, const dt_value_list *reads) {
    for (size_t r = 0; r < reads->n; r++)
        if (is_in(&group->reads, reads->items[r])) return true;
    return false;
}

static void extend_reads(dt_fusion *f, int group, const dt_value_list *reads) {
    for (size_t r = 0; r < reads->n; r++) dt_list_push(f->arena, &f->groups.items[group].reads, reads->items[r]);
}

/* A group after `producer` that reduces over the same loops and the same data, or of examples to a scalar: one walk serves both. */
static int group_to_share(dt_fusion *f, const dt_value *root, const dt_loops *loops, int producer, const dt_value_list *reads) {
    for (int g = (int)f->groups.n - 1; g > producer; g--) {
        const dt_fusion_group *group = &f->groups.items[g];
        if (group->cluster.roots.n == 0 || group->loop != f->loop || !dt_fusion_runs_as(f, group, root)) continue;
        const dt_value *other = group->cluster.roots.items[0];
        const dt_loops *others = dt_lowering_loops(f->lowering, other);
        if (!same_loops(loops, others) || dt_loops_are_product(loops) || dt_loops_are_product(others)) continue;
        if (root->shape.rank == 0 ? !group->replicated || shares_reads(group, reads) : shares_operand(f, root, other)) return g;
    }
    return -1;
}

/* What a root goes through, and what elementwise groups have made that of. */
static dt_value_list reads_of_root(dt_fusion *f, const dt_value *root) {
    dt_value_list reads = {0};
    f->n_walks++;
    for (int k = 0; k < root->n_operands; k++) add_reads(f, root->operands[k], &reads);
    for (size_t r = 0, n = reads.n; r < n; r++) {
        int group = dt_placement_of(f, reads.items[r])->group;
        if (group < 0 || !f->groups.items[group].elementwise) continue;
        const dt_value_list *more = &f->groups.items[group].reads;
        for (size_t m = 0; m < more->n; m++) dt_list_push(f->arena, &reads, more->items[m]);
    }
    return reads;
}

static void place_root(dt_fusion *f, const dt_value *root, const dt_loops *loops) {
    dt_placement *placement = dt_placement_of(f, root);
    dt_value_list reads = reads_of_root(f, root);
    int producer = producer_of_operands(f, root), group = dt_fusion_is_on(f) ? group_to_share(f, root, loops, producer, &reads) : -1;
    if (group < 0)
        group = new_group(f, (dt_fusion_group){.cluster = {.space = root->shape},
                                               .producer = producer,
                                               .replicated = dt_fusion_is_replicated(f, root),
                                               .sharded = root->distribution.sharded});
    extend_reads(f, group, &reads);
    dt_list_push(f->arena, &f->groups.items[group].cluster.roots, root);
    placement->producer = placement->group = group;
    placement->in_place = loops->result == NULL && dt_fusion_is_on(f); /* nothing can follow a scatter before it is complete */
    placement->stored = !placement->in_place;
}

/* The elementwise group for a value of this shape that needs `producer`, and reads something that the group reads; numbers have one group. */
static int elementwise_group(dt_fusion *f, const dt_value *value, int producer, bool replicated) {
    dt_value_list reads = {0};
    int found = -1;
    f->n_walks++;
    add_reads(f, value, &reads);
    for (int g = (int)f->groups.n - 1; g > producer && found < 0 && dt_fusion_is_on(f); g--) {
        const dt_fusion_group *group = &f->groups.items[g];
        if (group->elementwise && !group->late && group->producer == producer && group->loop == f->loop && group->replicated == replicated &&
            group->sharded == value->distribution.sharded && dt_shape_equal(group->cluster.space, value->shape) &&
            (!has_elements(value) || shares_reads(group, &reads)))
            found = g;
    }
    if (found < 0)
        found = new_group(f, (dt_fusion_group){.cluster = {.space = value->shape},
                                               .producer = producer,
                                               .replicated = replicated,
                                               .sharded = value->distribution.sharded,
                                               .elementwise = true});
    extend_reads(f, found, &reads);
    return found;
}

static void add_member(dt_fusion *f, int group, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    dt_list_push(f->arena, &f->groups.items[group].cluster.members, value);
    placement->producer = placement->group = group;
    placement->in_place = placement->stored = true;
}

/* The body in which a user reads its operand; NULL: none. A stack does so in each iteration, a carry before the first. */
static const dt_value *body_of_read(const dt_fusion *f, const dt_value *user) {
    const dt_value *body = f->bodies[user->id];
    if (dt_value_is(user, "stack")) return user->operands[1];
    return dt_value_is(user, "carry") ? f->bodies[body->id] : body;
}

/* A write, and what goes on to the next iteration or leaves a loop, is a store of the nest that computes its operand, where that runs in the same
 * body. */
static bool is_store(const dt_fusion *f, const dt_value *value, const dt_value *user) {
    return (user->op->class == DT_CLASS_STATE || user->op->class == DT_CLASS_LOOP) && body_of_read(f, user) == f->bodies[value->id];
}

/* Users that would each compute `value` for themselves; those in a loop do so again and again. */
static int n_readers(const dt_fusion *f, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(f, value);
    int n = 0;
    for (size_t u = 0; u < placement->users.n; u++) {
        const dt_value *user = placement->users.items[u];
        if (!is_store(f, value, user)) n += dt_body_is_within(f->bodies, f->bodies[value->id], body_of_read(f, user)) ? 1 : 2;
    }
    return n;
}

static bool is_read_in_loop(const dt_fusion *f, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(f, value);
    for (size_t u = 0; u < placement->users.n; u++)
        if (!dt_body_is_within(f->bodies, f->bodies[value->id], body_of_read(f, placement->users.items[u]))) return true;
    return false;
}

static void place_elementwise(dt_fusion *f, const dt_value *value, const dt_loops *loops) {
    dt_placement *placement = dt_placement_of(f, value);
    placement->producer = producer_of_operands(f, value);
    placement->in_place = is_in_place(f, value, loops, placement->producer);
    placement->operations = count_operations(loops->body, &(dt_formula_list){0}, f->arena);
    for (int k = 0; k < value->n_operands; k++) placement->operations += loops->operands[k].guarded ? guard_cost : 0;
    placement->cost = cost_of(f, value);
    bool shared = placement->required || ((placement->producer >= 0 || is_read_in_loop(f, value)) && n_readers(f, value) > 1);
    bool apart = !dt_fusion_is_on(f) && (placement->required || value->op->class != DT_CLASS_SOURCE);
    if (apart) {
        add_member(f, elementwise_group(f, value, placement->producer, dt_fusion_is_replicated(f, value)), value);
        placement->in_place = false;
    } else if (placement->in_place) {
        placement->group = placement->producer; /* stored only if it turns out that others need it */
    } else if ((shared && placement->cost > cheap && !f->recompute[value->id]) || f->keep[value->id]) {
        add_member(f, elementwise_group(f, value, placement->producer, dt_fusion_is_replicated(f, value)), value);
    }
}

static void add_output(dt_fusion *f, int group, const dt_value *value, int buffer) {
    dt_output output = {value, buffer};
    dt_list_push(f->arena, &f->groups.items[group].cluster.outputs, output);
}

/* ---- memory ---- */

static int buffer_of_variable(dt_fusion *f, const dt_value *value) {
    const dt_module *module = f->compilation->module;
    const dt_variable *variable = dt_module_find_variable(module, dt_value_string(value, "variable"));
    int number = (int)(variable - module->variables.items);
    for (int b = 0; b < f->plan->n_buffers; b++)
        if (f->plan->buffers[b].space == DT_MEMORY_VARIABLE && f->plan->buffers[b].variable == number) return b;
    dt_shape shape = value->n_operands > 0 ? value->operands[0]->shape : value->shape; /* a shard's part */
    return dt_plan_add_buffer(f->arena, f->plan,
                              (dt_buffer){variable->path, DT_MEMORY_VARIABLE, variable->dtype, shape, .sharded = value->distribution.sharded,
                                          .variable = number, .input = -1, .split_axis = variable->shard_axis,
                                          .split_extent = value->distribution.sharded ? variable->shape.dims[variable->shard_axis] : 0,
                                          .split_groups = variable->shard_groups});
}

/* The type of a value in memory that kernels alone see: a position among few is kept in a byte. */
static dt_dtype stored_dtype(dt_fusion *f, const dt_value *value) {
    enum {
        byte_positions = 256
    };
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    if (loops == NULL || dt_placement_of(f, value)->required) return value->dtype;
    if (!dt_combiner_is_position(loops->combiner)) return value->dtype;
    int64_t positions = 1;
    for (int l = loops->n_outer; l < loops->n_loops; l++) {
        if (dt_dim_is_symbol(loops->extents[l]) || loops->extents[l] > byte_positions) return value->dtype;
        positions *= loops->extents[l];
        if (positions > byte_positions) return value->dtype;
    }
    return DT_U8;
}

static int new_buffer(dt_fusion *f, const dt_value *value, const char *suffix) {
    dt_memory_space space = dt_fusion_is_replicated(f, value) ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH;
    const char *name = dt_arena_format(f->arena, "%%%d%s", value->id, suffix);
    return dt_plan_add_buffer(f->arena, f->plan,
                              (dt_buffer){name, space, stored_dtype(f, value), value->shape, .sharded = value->distribution.sharded, .variable = -1,
                                          .input = -1, .zeros = dt_fusion_zeros(f, value)});
}

int dt_fusion_buffer(dt_fusion *f, const dt_value *value) {
    int *buffer = &f->lowering->buffers[value->id];
    const dt_value *base = dt_placement_of(f, value)->base;
    if (base == value && dt_placement_of(f, value)->onto != NULL) base = dt_placement_of(f, value)->onto;
    if (*buffer < 0) *buffer = base == value ? new_buffer(f, value, "") : dt_fusion_buffer(f, base);
    return *buffer;
}

static void place_argument(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    const char *name = value->name ? value->name : dt_arena_format(f->arena, "%%%d", value->id);
    int *buffer = &f->lowering->buffers[value->id];
    if (value->op->class == DT_CLASS_STATE)
        *buffer = buffer_of_variable(f, value);
    else
        *buffer = dt_plan_add_buffer(f->arena, f->plan,
                                     (dt_buffer){name, DT_MEMORY_INPUT, value->dtype, value->shape, .variable = -1, .input = f->n_inputs++});
    placement->stored = true;
}

/* Memory that no later write changes and that lies where the runtime looks for it: the value's own; for an argument, or what its users
 * compute themselves, one more output of an elementwise group. */
static int lasting_buffer(dt_fusion *f, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(f, dt_placement_of(f, value)->base);
    if (placement->group >= 0 || placement->base->op->class == DT_CLASS_COLLECTIVE || dt_value_is(placement->base, "stack"))
        return dt_fusion_buffer(f, value);
    int copy = new_buffer(f, value, placement->base->op->loops != NULL ? "" : "/copy");
    add_output(f, elementwise_group(f, value, placement->producer, dt_fusion_is_replicated(f, value)), value, copy);
    return copy;
}

int dt_fusion_memory(dt_fusion *f, const dt_value *value, int *producer) {
    const dt_placement *placement = dt_placement_of(f, value);
    const dt_value *base = placement->base;
    *producer = placement->producer;
    if (dt_placement_of(f, base)->stored || placement->group >= 0)
        if (base == value || f->plan->buffers[dt_fusion_buffer(f, base)].view == NULL) return dt_fusion_buffer(f, value);
    int copy = new_buffer(f, value, "/copy");
    *producer = elementwise_group(f, value, placement->producer, dt_fusion_is_replicated(f, value));
    add_output(f, *producer, value, copy);
    return copy;
}

static void place_collective(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    int source = lasting_buffer(f, value->operands[0]);
    placement->producer = new_group(f, (dt_fusion_group){.collective = value,
                                                         .source = source,
                                                         .is_within = dt_value_is(value, "shard_reduce") && !dt_fusion_is_replicated(f, value),
                                                         .producer = dt_placement_of(f, value->operands[0])->producer});
    placement->stored = true;
    dt_fusion_buffer(f, value);
}

int dt_fusion_store(dt_fusion *f, const dt_value *value, int buffer, bool replicated) {
    const dt_placement *placement = dt_placement_of(f, value);
    const dt_loops *loops = placement->group < 0 ? NULL : dt_lowering_loops(f->lowering, placement->base);
    const dt_fusion_group *own = placement->group < 0 ? NULL : &f->groups.items[placement->group];
    bool scattered = loops != NULL && loops->result != NULL;
    bool there = own != NULL && !scattered && own->loop == f->loop && own->replicated == replicated && own->sharded == value->distribution.sharded;
    int group = there ? placement->group : elementwise_group(f, value, placement->producer, replicated);
    add_output(f, group, value, buffer);
    return group;
}

int dt_fusion_store_late(dt_fusion *f, const dt_value *value, int buffer, bool replicated) {
    const dt_placement *placement = dt_placement_of(f, value);
    if (placement->group >= 0) return dt_fusion_store(f, value, buffer, replicated);
    dt_fusion_group own = {.cluster = {.space = value->shape},
                           .producer = placement->producer,
                           .replicated = replicated,
                           .sharded = value->distribution.sharded,
                           .elementwise = true,
                           .late = true};
    int group = new_group(f, own);
    add_output(f, group, value, buffer);
    return group;
}

static void place_write(dt_fusion *f, const dt_value *write) {
    const dt_value *value = write->operands[0];
    int buffer = buffer_of_variable(f, write);
    if (f->lowering->buffers[value->id] != buffer)
        dt_fusion_store(f, value, buffer, dt_fusion_is_replicated(f, value)); /* else it holds that already */
}

static void place_value(dt_fusion *f, const dt_value *value) {
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    dt_placement *placement = dt_placement_of(f, value);
    if (placement->base != value) {
        const dt_placement *base = dt_placement_of(f, placement->base);
        placement->producer = base->producer;
        placement->group = base->group;
        placement->in_place = base->in_place;
    } else if (value->op->class == DT_CLASS_LOOP)
        dt_fuse_place_loop(f, value);
    else if (value->op->class == DT_CLASS_COLLECTIVE)
        place_collective(f, value);
    else if (value->op->class == DT_CLASS_STATE && value->n_operands > 0)
        place_write(f, value);
    else if (loops == NULL)
        place_argument(f, value);
    else if (dt_loops_are_root(loops))
        place_root(f, value, loops);
    else
        place_elementwise(f, value, loops);
}

/* ---- after the walk: what else is stored ---- */

static bool computed_in(dt_fusion *f, const dt_value *user, int group) {
    const dt_placement *placement = dt_placement_of(f, user);
    return placement->group == group && !dt_loops_are_root(dt_lowering_loops(f->lowering, user));
}

/* Operations for one element of `value` where it is computed elsewhere, from what is stored: those of other groups' values too that are not. */
static int cost_to_derive(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    int cost = placement->operations;
    if (placement->cost_to_derive > 0) return placement->cost_to_derive - 1;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *base = dt_placement_of(f, value->operands[k])->base;
        bool is_root = dt_placement_of(f, base)->group >= 0 && dt_loops_are_root(dt_lowering_loops(f->lowering, base));
        if (!dt_placement_of(f, base)->stored && !is_root) cost += cost_to_derive(f, base);
        if (cost > most_cost) cost = most_cost;
    }
    placement->cost_to_derive = cost + 1;
    return cost;
}

/* Whether `value`, of a group, can be computed elsewhere from what the group stores anyway. */
static bool is_derived(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    if (placement->derived != 0) return placement->derived > 0;
    bool quick = (placement->cost <= cheap && cost_to_derive(f, value) <= most_derived) || f->recompute[value->id];
    bool derived = quick && !dt_loops_are_root(dt_lowering_loops(f->lowering, value));
    for (int k = 0; k < value->n_operands && derived; k++) {
        const dt_value *base = dt_placement_of(f, value->operands[k])->base;
        const dt_placement *operand = dt_placement_of(f, base);
        derived = operand->group != placement->group || operand->stored || is_derived(f, base);
    }
    placement->derived = derived ? 1 : -1;
    return derived;
}

/* Values of groups that others need are stored, but for those that are quickly made again of stored ones. Operands are decided before users. */
static void store_what_is_needed(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    if (placement->base != value || placement->group < 0 || placement->stored) return;
    bool needed = placement->required || f->keep[value->id];
    for (size_t u = 0; u < placement->users.n && !needed; u++)
        needed = !is_store(f, value, placement->users.items[u]) && !computed_in(f, placement->users.items[u], placement->group);
    if (!needed || (!placement->required && !f->keep[value->id] && is_derived(f, value))) return;
    placement->stored = true;
    if (!dt_loops_are_root(dt_lowering_loops(f->lowering, value))) dt_list_push(f->arena, &f->groups.items[placement->group].cluster.members, value);
}

/* A costly value that needs no group, such as a random mask, is stored by the first group that computes it element by element. */
static void store_costly(dt_fusion *f, const dt_value *value) {
    dt_placement *placement = dt_placement_of(f, value);
    if (placement->base != value || placement->group >= 0 || placement->stored || placement->cost <= cheap || f->recompute[value->id] ||
        n_readers(f, value) < 2)
        return;
    int first = -1;
    for (size_t u = 0; u < placement->users.n; u++) {
        const dt_value *user = placement->users.items[u];
        const dt_placement *its = dt_placement_of(f, user);
        const dt_loops *loops = dt_lowering_loops(f->lowering, user);
        if (its->group < 0 || dt_loops_are_root(loops)) return; /* not known where it is computed */
        for (int k = 0; k < user->n_operands; k++)
            if (dt_placement_of(f, user->operands[k])->base == value && !dt_access_is_in_place(loops, &loops->operands[k], user->operands[k]->shape))
                return;
        if (first < 0 || its->group < first) first = its->group;
    }
    if (f->groups.items[first].loop != (f->bodies[value->id] != NULL ? f->loops[f->bodies[value->id]->id] : NULL)) return;
    if (first <= placement->producer || !dt_fusion_runs_as(f, &f->groups.items[first], value)) return;
    add_member(f, first, value);
}

static void add_result(dt_fusion *f, const dt_result *from, dt_plan_result *result) {
    *result = (dt_plan_result){from->name, lasting_buffer(f, from->value), from->value->dtype, from->value->shape};
}

void dt_fuse_groups(dt_fusion *f) {
    const dt_function *function = f->lowering->function;
    dt_fuse_prepare_loops(f);
    for (const dt_value *value = function->first; value != NULL; value = value->next) prepare(f, value);
    for (size_t r = 0; r < function->results.n; r++) dt_placement_of(f, dt_placement_of(f, function->results.items[r].value)->base)->required = true;
    for (const dt_value *value = function->first; value != NULL && dt_fusion_is_on(f); value = value->next) scatter_onto_sum(f, value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) place_value(f, value);
    for (size_t r = 0; r < function->results.n; r++) add_result(f, &function->results.items[r], &f->plan->results[r]);
    for (const dt_value *value = function->first; value != NULL; value = value->next) store_costly(f, value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) store_what_is_needed(f, value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        const dt_placement *placement = dt_placement_of(f, value);
        if (placement->base != value || !placement->stored || placement->group < 0) continue;
        add_output(f, placement->group, value, dt_fusion_buffer(f, value));
    }
    for (const dt_value *value = function->first; value != NULL; value = value->next) { /* aliases see the memory of their base */
        const dt_value *base = dt_placement_of(f, value)->base;
        if (base != value && dt_placement_of(f, base)->stored && f->plan->buffers[dt_fusion_buffer(f, base)].view == NULL) dt_fusion_buffer(f, value);
    }
}
