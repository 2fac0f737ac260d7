/* fuse_units: which values are in memory, and which nest computes them.
 *
 * Values are met in program order, units numbered as they come, so a unit needs only units before it. A value that hangs, element by element, on
 * the last unit it needs is computed in that unit's nest: what follows a convolution follows it there. Others are computed where they are used,
 * unless that would cost too much too often: then they get an elementwise unit, together with others of their shape that need the same. */
#include "compiler/kernel/nest.h"
#include "compiler/passes/fuse.h"

#include <string.h>

enum {
    cheap = 4,          /* operations that are rather done again than their result stored and loaded */
    function_cost = 16, /* of exp and its like, in operations */
};

/* Whether every replica computes the same: then a device does it once. */
static bool is_once(const dt_fusion *f, const dt_value *value) {
    return value->distribution.kind == DT_REPLICATED || f->plan->function->role != DT_ROLE_STEP;
}

bool dt_fusion_is_on(const dt_fusion *f) { return dt_switch_is_on(f->compilation->off, DT_SWITCH_FUSE); }

/* It reduces or scatters. */
static bool is_root(const dt_loops *loops) { return loops != NULL && (loops->combiner != DT_COMBINE_NONE || loops->result != NULL); }

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
    dt_place *place = dt_place_of(f, value);
    *place = (dt_place){.base = value, .home = -1, .unit = -1};
    if (dt_value_is_alias(value)) place->base = dt_place_of(f, value->operands[0])->base;
    for (int k = 0; k < value->n_operands && !dt_value_is_alias(value); k++)
        dt_list_push(f->arena, &dt_place_of(f, dt_place_of(f, value->operands[k])->base)->users, value);
    if (value->op->class == DT_CLASS_COLLECTIVE) dt_place_of(f, dt_place_of(f, value->operands[0])->base)->required = true;
}

/* Operations for one element of `value` when all that is not in memory is computed along; scalars are computed outside of all loops. */
static int cost_of(dt_fusion *f, const dt_value *value) {
    if (dt_shape_elements_per_row(value->shape) <= 1 && dt_shape_batch_axis(value->shape) < 0) return 0;
    int cost = dt_place_of(f, value)->operations;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_place *operand = dt_place_of(f, dt_place_of(f, value->operands[k])->base);
        if (!operand->stored && operand->unit < 0) cost += operand->cost;
    }
    return cost;
}

/* ---- units ---- */

static int new_unit(dt_fusion *f, dt_unit unit) {
    dt_list_push(f->arena, &f->units, unit);
    return (int)f->units.n - 1;
}

static int home_of_operands(dt_fusion *f, const dt_value *value) {
    int home = -1;
    for (int k = 0; k < value->n_operands; k++) {
        int of_operand = dt_place_of(f, value->operands[k])->home;
        if (of_operand > home) home = of_operand;
    }
    return home;
}

/* Whether element i of `value` needs, of unit `home`, element i alone. */
static bool is_in_place(dt_fusion *f, const dt_value *value, const dt_loops *loops, int home) {
    if (home < 0 || f->units.items[home].collective != NULL || f->units.items[home].once != is_once(f, value)) return false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_place *operand = dt_place_of(f, value->operands[k]);
        if (operand->home != home) continue;
        if (!operand->in_place || !dt_access_is_in_place(loops, &loops->operands[k], value->operands[k]->shape)) return false;
    }
    return true;
}

static bool shares_operand(dt_fusion *f, const dt_value *x, const dt_value *y) {
    for (int i = 0; i < x->n_operands; i++)
        for (int j = 0; j < y->n_operands; j++)
            if (dt_place_of(f, x->operands[i])->base == dt_place_of(f, y->operands[j])->base) return true;
    return false;
}

static bool same_loops(const dt_loops *x, const dt_loops *y) {
    if (x->n_loops != y->n_loops || x->n_outer != y->n_outer || x->result != NULL || y->result != NULL) return false;
    return memcmp(x->extents, y->extents, (size_t)x->n_loops * sizeof *x->extents) == 0;
}

/* A unit that reduces over the same loops and the same data, or to a scalar, and needs nothing behind it: one walk serves both. */
static int unit_to_share(dt_fusion *f, const dt_value *root, const dt_loops *loops, int home) {
    for (int u = (int)f->units.n - 1; u > home; u--) {
        const dt_unit *unit = &f->units.items[u];
        if (unit->cluster.roots.n == 0 || unit->once != is_once(f, root)) continue;
        const dt_value *other = unit->cluster.roots.items[0];
        const dt_loops *others = dt_lowering_loops(f->lowering, other);
        if (!same_loops(loops, others) || dt_loops_are_product(loops) || dt_loops_are_product(others)) continue;
        if (root->shape.rank == 0 || shares_operand(f, root, other)) return u;
    }
    return -1;
}

static void place_root(dt_fusion *f, const dt_value *root, const dt_loops *loops) {
    dt_place *place = dt_place_of(f, root);
    int home = home_of_operands(f, root), unit = dt_fusion_is_on(f) ? unit_to_share(f, root, loops, home) : -1;
    if (unit < 0) unit = new_unit(f, (dt_unit){.cluster = {.space = root->shape}, .home = home, .once = is_once(f, root)});
    dt_list_push(f->arena, &f->units.items[unit].cluster.roots, root);
    place->home = place->unit = unit;
    place->in_place = loops->result == NULL && dt_fusion_is_on(f); /* nothing can follow a scatter before it is complete */
    place->stored = !place->in_place;
}

/* The elementwise unit for a value of this shape that needs `home`. */
static int elementwise_unit(dt_fusion *f, const dt_value *value, int home) {
    bool once = is_once(f, value);
    for (int u = (int)f->units.n - 1; u > home && dt_fusion_is_on(f); u--) {
        const dt_unit *unit = &f->units.items[u];
        if (unit->elementwise && unit->home == home && unit->once == once && dt_shape_equal(unit->cluster.space, value->shape)) return u;
    }
    return new_unit(f, (dt_unit){.cluster = {.space = value->shape}, .home = home, .once = once, .elementwise = true});
}

static void add_member(dt_fusion *f, int unit, const dt_value *value) {
    dt_place *place = dt_place_of(f, value);
    dt_list_push(f->arena, &f->units.items[unit].cluster.members, value);
    place->home = place->unit = unit;
    place->in_place = place->stored = true;
}

/* Users that would each compute `value` for themselves; a write does not: it is a store of the nest that computes its operand. */
static int n_readers(const dt_place *place) {
    int n = 0;
    for (size_t u = 0; u < place->users.n; u++) n += place->users.items[u]->op->class != DT_CLASS_STATE;
    return n;
}

static void place_elementwise(dt_fusion *f, const dt_value *value, const dt_loops *loops) {
    dt_place *place = dt_place_of(f, value);
    place->home = home_of_operands(f, value);
    place->in_place = is_in_place(f, value, loops, place->home);
    place->operations = count_operations(loops->body, &(dt_formula_list){0}, f->arena);
    place->cost = cost_of(f, value);
    bool shared = place->required || (place->home >= 0 && n_readers(place) > 1);
    bool apart = !dt_fusion_is_on(f) && (place->required || value->op->class != DT_CLASS_SOURCE);
    if (apart) {
        add_member(f, elementwise_unit(f, value, place->home), value);
        place->in_place = false;
    } else if (place->in_place) {
        place->unit = place->home; /* stored only if it turns out that others need it */
    } else if ((shared && place->cost > cheap && !f->again[value->id]) || f->keep[value->id]) {
        add_member(f, elementwise_unit(f, value, place->home), value);
    }
}

static void add_output(dt_fusion *f, int unit, const dt_value *value, int buffer) {
    dt_output output = {value, buffer};
    dt_list_push(f->arena, &f->units.items[unit].cluster.outputs, output);
}

/* ---- memory ---- */

static int buffer_of_variable(dt_fusion *f, const dt_value *value) {
    const dt_module *module = f->compilation->module;
    const dt_variable *variable = dt_module_find_variable(module, dt_value_string(value, "variable"));
    int number = (int)(variable - module->variables.items);
    for (int b = 0; b < f->plan->n_buffers; b++)
        if (f->plan->buffers[b].space == DT_MEMORY_VARIABLE && f->plan->buffers[b].variable == number) return b;
    return dt_plan_add_buffer(f->arena, f->plan,
                              (dt_buffer){variable->path, DT_MEMORY_VARIABLE, variable->dtype, variable->shape, .variable = number, .input = -1});
}

/* The type of a value in memory that kernels alone see: a position among few is kept in a byte. */
static dt_dtype stored_dtype(dt_fusion *f, const dt_value *value) {
    enum {
        byte_positions = 256
    };
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    if (loops == NULL || dt_place_of(f, value)->required) return value->dtype;
    if (loops->combiner != DT_COMBINE_ARGMAX && loops->combiner != DT_COMBINE_ARGMIN) return value->dtype;
    int64_t positions = 1;
    for (int l = loops->n_outer; l < loops->n_loops; l++) {
        if (dt_dim_is_symbol(loops->extents[l]) || loops->extents[l] > byte_positions) return value->dtype;
        positions *= loops->extents[l];
        if (positions > byte_positions) return value->dtype;
    }
    return DT_U8;
}

static int new_buffer(dt_fusion *f, const dt_value *value, const char *suffix) {
    dt_memory_space space = is_once(f, value) ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH;
    const char *name = dt_arena_format(f->arena, "%%%d%s", value->id, suffix);
    return dt_plan_add_buffer(f->arena, f->plan, (dt_buffer){name, space, stored_dtype(f, value), value->shape, .variable = -1, .input = -1});
}

int dt_fusion_buffer(dt_fusion *f, const dt_value *value) {
    int *buffer = &f->lowering->buffers[value->id];
    const dt_value *base = dt_place_of(f, value)->base;
    if (*buffer < 0) *buffer = base == value ? new_buffer(f, value, "") : dt_fusion_buffer(f, base);
    return *buffer;
}

static void place_argument(dt_fusion *f, const dt_value *value) {
    dt_place *place = dt_place_of(f, value);
    const char *name = value->name ? value->name : dt_arena_format(f->arena, "%%%d", value->id);
    int *buffer = &f->lowering->buffers[value->id];
    if (value->op->class == DT_CLASS_STATE)
        *buffer = buffer_of_variable(f, value);
    else
        *buffer = dt_plan_add_buffer(f->arena, f->plan,
                                     (dt_buffer){name, DT_MEMORY_INPUT, value->dtype, value->shape, .variable = -1, .input = f->n_inputs++});
    place->stored = true;
}

/* Memory that no later write changes and that lies where the runtime looks for it: the value's own; for an argument, or what users rather make
 * again, one more output of an elementwise unit. */
static int lasting_buffer(dt_fusion *f, const dt_value *value) {
    const dt_place *place = dt_place_of(f, dt_place_of(f, value)->base);
    if (place->unit >= 0 || place->base->op->class == DT_CLASS_COLLECTIVE) return dt_fusion_buffer(f, value);
    int copy = new_buffer(f, value, place->base->op->loops != NULL ? "" : " copy");
    add_output(f, elementwise_unit(f, value, place->home), value, copy);
    return copy;
}

static void place_collective(dt_fusion *f, const dt_value *value) {
    dt_place *place = dt_place_of(f, value);
    int source = lasting_buffer(f, value->operands[0]);
    place->home = new_unit(f, (dt_unit){.collective = value, .source = source, .home = dt_place_of(f, value->operands[0])->home});
    place->stored = true;
    dt_fusion_buffer(f, value);
}

static void place_write(dt_fusion *f, const dt_value *write) {
    const dt_value *value = write->operands[0];
    const dt_place *place = dt_place_of(f, value);
    if (f->lowering->buffers[value->id] >= 0 && f->lowering->buffers[value->id] == buffer_of_variable(f, write)) return; /* what it holds already */
    const dt_loops *loops = place->unit < 0 ? NULL : dt_lowering_loops(f->lowering, place->base);
    bool scattered = loops != NULL && loops->result != NULL;
    int unit = place->unit >= 0 && !scattered ? place->unit : elementwise_unit(f, value, place->home);
    add_output(f, unit, value, buffer_of_variable(f, write));
}

static void place_value(dt_fusion *f, const dt_value *value) {
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    dt_place *place = dt_place_of(f, value);
    if (dt_value_is_alias(value)) {
        const dt_place *operand = dt_place_of(f, value->operands[0]);
        place->home = operand->home;
        place->unit = operand->unit;
        place->in_place = operand->in_place;
    } else if (value->op->class == DT_CLASS_COLLECTIVE)
        place_collective(f, value);
    else if (value->op->class == DT_CLASS_STATE && value->n_operands > 0)
        place_write(f, value);
    else if (loops == NULL)
        place_argument(f, value);
    else if (is_root(loops))
        place_root(f, value, loops);
    else
        place_elementwise(f, value, loops);
}

/* ---- after the walk: what else is stored ---- */

static bool computed_in(dt_fusion *f, const dt_value *user, int unit) {
    const dt_place *place = dt_place_of(f, user);
    return place->unit == unit && !is_root(dt_lowering_loops(f->lowering, user));
}

/* Whether `value`, of a unit, can be computed elsewhere from what the unit stores anyway. */
static bool is_derived(dt_fusion *f, const dt_value *value, int unit) {
    bool quick = dt_place_of(f, value)->cost <= cheap || f->again[value->id];
    if (!quick || is_root(dt_lowering_loops(f->lowering, value))) return false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *base = dt_place_of(f, value->operands[k])->base;
        const dt_place *operand = dt_place_of(f, base);
        if (operand->unit == unit && !operand->stored && !is_derived(f, base, unit)) return false;
    }
    return true;
}

/* Values of units that others need are stored, but for those that are quickly made again of stored ones. Operands are decided before users. */
static void store_what_is_needed(dt_fusion *f, const dt_value *value) {
    dt_place *place = dt_place_of(f, value);
    if (place->base != value || place->unit < 0 || place->stored) return;
    bool needed = place->required || f->keep[value->id];
    for (size_t u = 0; u < place->users.n && !needed; u++)
        needed = place->users.items[u]->op->class != DT_CLASS_STATE && !computed_in(f, place->users.items[u], place->unit);
    if (!needed || (!place->required && !f->keep[value->id] && is_derived(f, value, place->unit))) return;
    place->stored = true;
    if (!is_root(dt_lowering_loops(f->lowering, value))) dt_list_push(f->arena, &f->units.items[place->unit].cluster.members, value);
}

/* A costly value that needs no unit, such as a random mask, is stored by the first unit that computes it element by element. */
static void store_costly(dt_fusion *f, const dt_value *value) {
    dt_place *place = dt_place_of(f, value);
    if (place->base != value || place->unit >= 0 || place->stored || place->cost <= cheap || f->again[value->id] || n_readers(place) < 2) return;
    int first = -1;
    for (size_t u = 0; u < place->users.n; u++) {
        const dt_value *user = place->users.items[u];
        const dt_place *its = dt_place_of(f, user);
        const dt_loops *loops = dt_lowering_loops(f->lowering, user);
        if (its->unit < 0 || is_root(loops)) return; /* not known where it is computed */
        for (int k = 0; k < user->n_operands; k++)
            if (dt_place_of(f, user->operands[k])->base == value && !dt_access_is_in_place(loops, &loops->operands[k], user->operands[k]->shape))
                return;
        if (first < 0 || its->unit < first) first = its->unit;
    }
    if (first <= place->home || f->units.items[first].once != is_once(f, value)) return;
    add_member(f, first, value);
}

void dt_fuse_units(dt_fusion *f) {
    const dt_function *function = f->plan->function;
    for (const dt_value *value = function->first; value != NULL; value = value->next) prepare(f, value);
    for (size_t r = 0; r < function->results.n; r++) dt_place_of(f, dt_place_of(f, function->results.items[r].value)->base)->required = true;
    for (const dt_value *value = function->first; value != NULL; value = value->next) place_value(f, value);
    for (size_t r = 0; r < function->results.n; r++) f->plan->results[r] = lasting_buffer(f, function->results.items[r].value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) store_costly(f, value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) store_what_is_needed(f, value);
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        const dt_place *place = dt_place_of(f, value);
        if (place->base != value || !place->stored || place->unit < 0) continue;
        add_output(f, place->unit, value, dt_fusion_buffer(f, value));
    }
    for (const dt_value *value = function->first; value != NULL; value = value->next) /* aliases see the memory of their base */
        if (dt_place_of(f, value)->base != value && dt_place_of(f, dt_place_of(f, value)->base)->stored) dt_fusion_buffer(f, value);
}
