/* fuse_recompute: gradients compute again what a call of the program says, rather than that it is kept for them.
 *
 * Between a call with `recompute: true` and its gradients nothing of its inside is kept: what gradients read of it gets a copy, by copies of the
 * groups that compute it, which run when the first gradient needs them. They start from what other calls read anyway, the call's inputs and what
 * leaves it: Chen, Xu, Zhang and Guestrin, Training Deep Nets with Sublinear Memory Cost (2016).
 *
 * The bits are those of a program that keeps everything: groups are what they would be there, and a copy of a group is the same nest. So copies are
 * made when all is decided, and of whole groups: one that has to do with two calls, writes a variable, is in a loop or crosses replicas has none, and
 * what it stores is kept. Random numbers depend on nothing but their place: a mask that is made again is the same mask. */
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/fuse.h"

typedef struct recompute {
    dt_fusion *f;
    int n;             /* ids below this one are of values that were there before */
    int n_groups;      /* that were there before */
    int *inside;       /* [n] the call whose inside the value is, if a copy of it is the same; 0: none */
    int *calls;        /* [n_groups] whose inside the group computes; 0: it has no copy */
    bool *is_kept;     /* [n] it is read beyond its call */
    bool *is_wanted;   /* [n] it has a copy */
    dt_value **copies; /* [n] */
    int *again;        /* [n_groups] the copy's number, from n_groups on; 0: it has none */
    DT_LIST(dt_value *) wanted;
    DT_LIST(dt_fusion_group) groups; /* the copies */
} recompute;

/* ---- what belongs to a call ---- */

/* What of a gradient a nest of the call computes beside the call's own values, such as a factor of it, is of the call's inside. */
static int call_of_value(const dt_fusion *f, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(f, value);
    bool can = !dt_value_has_effect(value) && value->op->class != DT_CLASS_LOOP && value->op->class != DT_CLASS_COLLECTIVE &&
               f->bodies[value->id] == NULL && (value->n_operands > 0 || value->op->class == DT_CLASS_RANDOM);
    if (!can) return 0;
    if (value->call != DT_BACKWARD) return value->recompute;
    if (placement->base != value || placement->group < 0 || f->groups.items[placement->group].cluster.roots.n == 0) return 0;
    const dt_value *root = f->groups.items[placement->group].cluster.roots.items[0];
    return root->call != DT_BACKWARD ? root->recompute : 0;
}

static int call_of(const recompute *r, const dt_value *value) { return r->inside[value->id]; }

static bool is_gradient(const recompute *r, const dt_value *value) { return value->call == DT_BACKWARD && call_of(r, value) == 0; }

static int call_of_group(const recompute *r, const dt_fusion_group *group) {
    const dt_cluster *cluster = &group->cluster;
    if (group->collective != NULL || group->loop != NULL || group->replicated || cluster->outputs.n == 0) return 0;
    int call = call_of(r, cluster->outputs.items[0].value);
    for (size_t i = 0; i < cluster->roots.n; i++) {
        const dt_value *root = cluster->roots.items[i];
        if (call_of(r, root) != call || dt_placement_of(r->f, root)->onto != NULL || dt_lowering_loops(r->f->lowering, root)->result != NULL)
            return 0;
    }
    for (size_t i = 0; i < cluster->members.n; i++)
        if (call_of(r, cluster->members.items[i]) != call) return 0;
    for (size_t i = 0; i < cluster->outputs.n; i++) {
        const dt_output *output = &cluster->outputs.items[i];
        const dt_buffer *buffer = &r->f->plan->buffers[output->buffer];
        bool is_own = r->f->lowering->buffers[output->value->id] == output->buffer;
        if (call_of(r, output->value) != call || !is_own || buffer->space != DT_MEMORY_SCRATCH || buffer->view != NULL) return 0;
    }
    return call;
}

/* Of each group, if all that it computes is of one call, also what it does not store. */
static void find_calls(recompute *r) {
    for (int g = 0; g < r->n_groups; g++) r->calls[g] = call_of_group(r, &r->f->groups.items[g]);
    for (const dt_value *value = r->f->lowering->function->first; value != NULL; value = value->next) {
        const dt_placement *placement = dt_placement_of(r->f, value);
        if (placement->base == value && placement->group >= 0 && !is_gradient(r, value) && call_of(r, value) != r->calls[placement->group])
            r->calls[placement->group] = 0;
    }
}

static bool is_stored(const recompute *r, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(r->f, value);
    return placement->base == value && placement->stored;
}

/* Whether it was said when the value was placed where it finds its operands: a loop's beginning, what crosses replicas, a write. */
static bool has_placed_operands(const dt_value *value) {
    return value->op->class == DT_CLASS_LOOP || value->op->class == DT_CLASS_COLLECTIVE || dt_value_has_effect(value);
}

/* What other forward values than those of its call go back to, or the results. */
static void find_kept(recompute *r) {
    const dt_function *function = r->f->lowering->function;
    for (size_t i = 0; i < function->results.n; i++) r->is_kept[function->results.items[i].value->id] = true;
    for (const dt_value *user = function->last; user != NULL; user = user->previous) {
        bool passes_on = r->is_kept[user->id] && !is_stored(r, user);
        for (int k = 0; k < user->n_operands && (!is_gradient(r, user) || has_placed_operands(user)); k++)
            if (passes_on || call_of(r, user) != call_of(r, user->operands[k])) r->is_kept[user->operands[k]->id] = true;
    }
}

/* Whether gradients, and copies, read the value itself. */
static bool is_there(const recompute *r, const dt_value *value) {
    int call = call_of(r, value), group = dt_placement_of(r->f, value)->group;
    return call == 0 || r->is_kept[value->id] || (is_stored(r, value) && (group < 0 || r->calls[group] != call));
}

/* ---- what gets a copy ---- */

static void want(recompute *r, dt_value *value) {
    if (r->is_wanted[value->id]) return;
    r->is_wanted[value->id] = true;
    dt_list_push(r->f->arena, &r->wanted, value);
}

/* All that the group computes and stores: a nest that stored less could be another one. */
static void want_group(recompute *r, int g) {
    const dt_cluster *cluster = &r->f->groups.items[g].cluster;
    if (r->again[g] > 0) return;
    r->again[g] = r->n_groups + (int)r->groups.n;
    dt_list_push(r->f->arena, &r->groups, r->f->groups.items[g]);
    for (size_t i = 0; i < cluster->roots.n; i++) want(r, (dt_value *)cluster->roots.items[i]);
    for (size_t i = 0; i < cluster->members.n; i++) want(r, (dt_value *)cluster->members.items[i]);
    for (size_t i = 0; i < cluster->outputs.n; i++) want(r, (dt_value *)cluster->outputs.items[i].value);
}

/* The copy of a group whose nest computes both. */
static bool are_in_one_copy(const recompute *r, const dt_value *value, const dt_value *operand) {
    int group = dt_placement_of(r->f, value)->group;
    return group >= 0 && group == dt_placement_of(r->f, operand)->group && r->again[group] > 0 && call_of(r, operand) == r->calls[group];
}

/* Whether `value`, a gradient or a copy, reads a copy of its operand. */
static bool reads_copy(const recompute *r, const dt_value *value, const dt_value *operand) {
    if (operand->id >= r->n) return false;
    return !is_there(r, operand) || (!is_gradient(r, value) && are_in_one_copy(r, value, operand));
}

static void want_operands(recompute *r, const dt_value *value) {
    if (is_stored(r, value)) want_group(r, dt_placement_of(r->f, value)->group);
    for (int k = 0; k < value->n_operands; k++)
        if (reads_copy(r, value, value->operands[k])) want(r, value->operands[k]);
}

static void find_wanted(recompute *r) {
    for (const dt_value *user = r->f->lowering->function->first; user != NULL; user = user->next)
        for (int k = 0; k < user->n_operands && is_gradient(r, user); k++)
            if (reads_copy(r, user, user->operands[k])) want(r, user->operands[k]);
    for (size_t n_groups = SIZE_MAX; n_groups != r->groups.n;) { /* which operands are copies' depends on which groups have one */
        n_groups = r->groups.n;
        for (size_t i = 0; i < r->wanted.n; i++) want_operands(r, r->wanted.items[i]);
    }
}

/* ---- copies of values ---- */

static void grow_tables(recompute *r, int n) {
    dt_fusion *f = r->f;
    dt_placement *placements = DT_NEW_ARRAY(f->arena, dt_placement, n);
    dt_value **bodies = DT_NEW_ARRAY(f->arena, dt_value *, n);
    dt_loops **loops = DT_NEW_ARRAY(f->arena, dt_loops *, n);
    int *buffers = DT_NEW_ARRAY(f->arena, int, n);
    for (int i = 0; i < n; i++) {
        buffers[i] = i < r->n ? f->lowering->buffers[i] : -1;
        if (i >= r->n) continue;
        placements[i] = f->placements[i];
        bodies[i] = f->bodies[i];
        loops[i] = f->lowering->loops[i];
    }
    f->placements = placements;
    f->bodies = bodies;
    f->lowering->loops = loops;
    f->lowering->buffers = buffers;
    f->lowering->originals = DT_NEW_ARRAY(f->arena, const dt_value *, n);
}

static void place_copy(recompute *r, const dt_value *value, const dt_value *copy) {
    dt_placement *placement = dt_placement_of(r->f, copy);
    *placement = *dt_placement_of(r->f, value);
    const dt_value *base = placement->base;
    placement->base = base == value ? copy : dt_value_is_alias(value) ? dt_placement_of(r->f, copy->operands[0])->base : base;
    if (placement->group >= 0 && r->again[placement->group] > 0) placement->group = r->again[placement->group];
    if (placement->producer >= 0 && placement->producer < r->n_groups && r->again[placement->producer] > 0)
        placement->producer = r->again[placement->producer];
}

static dt_status *copy_value(recompute *r, dt_value *value) {
    dt_builder builder = {.function = value->function, .before = value->next, .locations = value->locations, .n_locations = value->n_locations};
    dt_value **operands = DT_NEW_ARRAY(r->f->arena, dt_value *, value->n_operands), *copy;
    for (int k = 0; k < value->n_operands; k++) {
        dt_value *operand = value->operands[k];
        operands[k] = reads_copy(r, value, operand) ? r->copies[operand->id] : operand;
    }
    DT_TRY(dt_build_copy(&builder, value, operands, &copy));
    r->copies[value->id] = copy;
    r->f->lowering->originals[copy->id] = value;
    place_copy(r, value, copy);
    return NULL;
}

/* A gradient that is another shape of what has a copy now is one of the copy. */
static void replace_operands(recompute *r, dt_value *gradient) {
    dt_placement *placement = dt_placement_of(r->f, gradient);
    for (int k = 0; k < gradient->n_operands; k++)
        if (reads_copy(r, gradient, gradient->operands[k])) gradient->operands[k] = r->copies[gradient->operands[k]->id];
    if (!dt_value_is_alias(gradient) || placement->base == gradient) return;
    *placement = *dt_placement_of(r->f, gradient->operands[0]);
    if (r->f->lowering->buffers[gradient->id] >= 0) r->f->lowering->buffers[gradient->id] = r->f->lowering->buffers[placement->base->id];
}

/* ---- copies of groups ---- */

static void copy_group(recompute *r, dt_fusion_group *group) {
    dt_fusion *f = r->f;
    const dt_cluster from = group->cluster;
    dt_cluster *cluster = &group->cluster;
    *cluster = (dt_cluster){.space = from.space};
    for (size_t i = 0; i < from.roots.n; i++) dt_list_push(f->arena, &cluster->roots, r->copies[from.roots.items[i]->id]);
    for (size_t i = 0; i < from.members.n; i++) dt_list_push(f->arena, &cluster->members, r->copies[from.members.items[i]->id]);
    for (size_t i = 0; i < from.outputs.n; i++) {
        const dt_value *copy = r->copies[from.outputs.items[i].value->id];
        dt_buffer buffer = f->plan->buffers[from.outputs.items[i].buffer];
        buffer.name = dt_arena_format(f->arena, "%%%d", copy->id);
        int *own = &f->lowering->buffers[copy->id];
        *own = dt_plan_add_buffer(f->arena, f->plan, buffer);
        dt_list_push(f->arena, &cluster->outputs, ((dt_output){copy, *own}));
    }
    if (group->producer >= 0 && r->again[group->producer] > 0) group->producer = r->again[group->producer];
    group->late = group->again = true;
}

static void give_buffers_to_aliases(const recompute *r) {
    int *buffers = r->f->lowering->buffers;
    for (size_t i = 0; i < r->wanted.n; i++) {
        int value = r->wanted.items[i]->id, copy = r->copies[value]->id;
        if (buffers[value] >= 0 && buffers[copy] < 0) buffers[copy] = buffers[dt_placement_of(r->f, r->copies[value])->base->id];
    }
}

/* ---- the new order ---- */

enum {
    UNKNOWN = -1,
    AT_WORK = -2
};

typedef struct ordering {
    const recompute *r;
    int *numbers; /* [n_groups + copies] the new one of a group */
    bool *seen;   /* [next_id] values that have been gone through */
    DT_LIST(dt_fusion_group) groups;
} ordering;

static void order_group(ordering *o, int number);

/* The copies of groups that go before what computes `value`. */
static void order_needed(ordering *o, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(o->r->f, value);
    if (o->seen[value->id]) return;
    o->seen[value->id] = true;
    if (placement->base == value && placement->stored) {
        if (placement->group >= o->r->n_groups) order_group(o, placement->group);
        return;
    }
    for (int k = 0; k < value->n_operands; k++) order_needed(o, value->operands[k]);
}

static void order_operands(ordering *o, const dt_value *value) {
    for (int k = 0; k < value->n_operands; k++) order_needed(o, value->operands[k]);
}

static void order_needed_by(ordering *o, const dt_fusion_group *group) {
    for (size_t i = 0; i < group->cluster.roots.n; i++) order_operands(o, group->cluster.roots.items[i]);
    for (size_t i = 0; i < group->cluster.outputs.n; i++) order_operands(o, group->cluster.outputs.items[i].value);
    if (group->collective != NULL) order_operands(o, group->collective);
}

static void order_group(ordering *o, int number) {
    const recompute *r = o->r;
    if (o->numbers[number] != UNKNOWN) return;
    o->numbers[number] = AT_WORK;
    const dt_fusion_group *group = number < r->n_groups ? &r->f->groups.items[number] : &r->groups.items[number - r->n_groups];
    order_needed_by(o, group);
    o->numbers[number] = (int)o->groups.n;
    dt_list_push(r->f->arena, &o->groups, *group);
}

/* Groups of a loop stand side by side: what any of them needs goes before the first one. */
static void order_all(ordering *o) {
    const recompute *r = o->r;
    const dt_plan_loop *last = NULL;
    for (int g = 0; g < r->n_groups; g++) {
        const dt_plan_loop *loop = dt_loop_outermost(r->f->groups.items[g].loop);
        for (int i = g; loop != NULL && loop != last && i < r->n_groups && dt_loop_outermost(r->f->groups.items[i].loop) == loop; i++)
            order_needed_by(o, &r->f->groups.items[i]);
        order_group(o, g);
        last = loop;
    }
}

static void renumber(int *number, const ordering *o) {
    if (*number >= 0) *number = o->numbers[*number];
}

/* Copies stand before the first group that needs them. */
static void order_groups(recompute *r) {
    dt_fusion *f = r->f;
    int n_all = r->n_groups + (int)r->groups.n, n_values = f->lowering->function->next_id;
    ordering o = {.r = r, .numbers = DT_NEW_ARRAY(f->arena, int, n_all), .seen = DT_NEW_ARRAY(f->arena, bool, n_values)};
    for (int g = 0; g < n_all; g++) o.numbers[g] = UNKNOWN;
    order_all(&o);
    f->groups.n = f->groups.capacity = 0;
    for (size_t g = 0; g < o.groups.n; g++) {
        dt_list_push(f->arena, &f->groups, o.groups.items[g]);
        renumber(&f->groups.items[g].producer, &o);
    }
    for (int v = 0; v < n_values; v++) {
        renumber(&f->placements[v].group, &o);
        renumber(&f->placements[v].producer, &o);
    }
}

/* ---- the whole ---- */

static bool anything_to_recompute(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->recompute > 0 && value->call != DT_BACKWARD) return true;
    return false;
}

dt_status *dt_fuse_recompute(dt_fusion *f) {
    dt_function *function = (dt_function *)f->lowering->function;
    recompute r = {.f = f, .n = function->next_id, .n_groups = (int)f->groups.n};
    if (!anything_to_recompute(function)) return NULL;
    r.inside = DT_NEW_ARRAY(f->arena, int, r.n);
    r.calls = DT_NEW_ARRAY(f->arena, int, r.n_groups);
    r.again = DT_NEW_ARRAY(f->arena, int, r.n_groups);
    r.is_kept = DT_NEW_ARRAY(f->arena, bool, r.n);
    r.is_wanted = DT_NEW_ARRAY(f->arena, bool, r.n);
    r.copies = DT_NEW_ARRAY(f->arena, dt_value *, r.n);
    for (const dt_value *value = function->first; value != NULL; value = value->next) r.inside[value->id] = call_of_value(f, value);
    find_calls(&r);
    find_kept(&r);
    find_wanted(&r);
    if (r.groups.n == 0) return NULL;
    grow_tables(&r, r.n + (int)r.wanted.n);
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (value->id < r.n && r.is_wanted[value->id]) DT_TRY(copy_value(&r, value));
    for (size_t g = 0; g < r.groups.n; g++) copy_group(&r, &r.groups.items[g]);
    give_buffers_to_aliases(&r);
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (value->id < r.n && is_gradient(&r, value)) replace_operands(&r, value);
    order_groups(&r);
    f->kernels.n = 0;
    return NULL;
}
