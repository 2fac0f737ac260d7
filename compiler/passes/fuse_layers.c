/* fuse_layers: kernels begin and end where a model's layers do, so that a layer's parameters need to be there from its first kernel to its last one
 * only.
 *
 * A layer is a call in a model's body, or in an iteration of its loops, that has parameters; those that the model has of its own are one more. The
 * path of a parameter says which: "Gpt/block_1/dense/kernel" is block_1's. A layer is gone through forwards, and again backwards: here each way is a
 * layer. What is too small to be worth bringing by itself joins its neighbour.
 *
 * A group is in the layer whose parameters it reads, or whose gradients it makes. One that reads none, or next to none, is where the last group is
 * that it needs, so that a layer's gradients are complete before those of the next one; but where more comes of it than is put into it, as of a
 * pooling's gradient, it is where it is needed, and the less is kept from one layer to the next. */
#include "compiler/kernel/view.h"
#include "compiler/passes/fuse.h"

#include <string.h>

/* Bytes of a layer's parameters; of less there is no boundary. A quarter of a bucket of runtime/comm/buckets.h. With it the steps of the examples
 * GPT, BERT and ViT take as long as without boundaries, and with 64 KiB GPT, ViT and the CNN do; but then convolutions are cut apart that hand on a
 * block of a row. */
static const int64_t LEAST_BYTES = 256 << 10;

enum {
    NONE = -1, /* not known yet, or replicas do not run it */
    WAITS = -2 /* for the group that needs it */
};

typedef struct layer {
    int segment;
    int64_t bytes;       /* of its owners' parameters, up to the one that made them enough, */
    int64_t more;        /* and of small ones that came after it */
    DT_LIST(int) owners; /* calls of the program */
} layer;

typedef struct layers {
    dt_fusion *f;
    const dt_needs *needs;
    const int *order;
    int *owner_of;           /* [variables] -1: no parameter */
    DT_LIST(int64_t) owners; /* bytes of their parameters */
    DT_LIST(layer) items;    /* those of a segment as they run */
    DT_LIST(int) along;      /* groups that wait, and come along with the one at work */
    int *walked, n_walks;    /* [values] the last walk that has come by */
    int *seen;               /* [groups] the last one at work that has come by */
} layers;

/* ---- owners ---- */

/* "Gpt/block_1" of "Gpt/block_1/dense/kernel", "Gpt" of "Gpt/table". */
static const char *owner_name(dt_arena *arena, const char *path) {
    const char *end = strchr(path, '/'), *second = end != NULL ? strchr(end + 1, '/') : NULL;
    if (second != NULL) end = second;
    return dt_arena_format(arena, "%.*s", end != NULL ? (int)(end - path) : 0, path);
}

static int64_t bytes_of(dt_dtype dtype, dt_shape shape) { return dt_shape_elements_per_row(shape) * (int64_t)dt_dtype_bytes(dtype); }

static void find_owners(layers *l) {
    dt_arena *arena = l->f->arena;
    const dt_module *module = l->f->lowering->function->module;
    dt_names names = {0};
    l->owner_of = DT_NEW_ARRAY(arena, int, module->variables.n);
    for (size_t v = 0; v < module->variables.n; v++) {
        const dt_variable *variable = &module->variables.items[v];
        l->owner_of[v] = -1;
        if (variable->kind != DT_VARIABLE_PARAMETER) continue;
        const char *name = owner_name(arena, variable->path);
        int owner = dt_names_find(&names, name);
        if (owner < 0) {
            owner = (int)l->owners.n;
            dt_names_add(arena, &names, name, owner);
            dt_list_push(arena, &l->owners, 0);
        }
        l->owner_of[v] = owner;
        l->owners.items[owner] += bytes_of(variable->dtype, variable->shape);
    }
}

/* Of whose parameters groups order[at … end) read most, by their roots if these read any: an embedding that is looked up again, to be added to a
 * product, is not the product's. -1: they read none, or next to none of what the owner has, such as the scale of a norm, which may be where what
 * follows it is. */
static int owner_of_groups(const layers *l, int at, int end) {
    enum {
        NEXT_TO_NONE = 64
    };
    int64_t most = 0, *bytes = DT_NEW_ARRAY(l->f->arena, int64_t, l->owners.n);
    int found = -1;
    for (int i = at; i < end; i++) {
        const dt_needs *needs = &l->needs[l->order[i]];
        for (size_t v = 0; v < needs->variables.n && (found < 0 || v < needs->n_of_roots); v++) {
            const dt_buffer *buffer = &l->f->plan->buffers[needs->variables.items[v]];
            int owner = l->owner_of[buffer->variable];
            if (owner < 0) continue;
            bytes[owner] += bytes_of(buffer->dtype, buffer->shape);
            if (bytes[owner] <= most) continue;
            most = bytes[owner];
            found = owner;
        }
    }
    return found >= 0 && most >= l->owners.items[found] / NEXT_TO_NONE ? found : -1;
}

/* Whose parameter is written with what is made of a value, element by element; -1: none is. */
static int owner_of_written(layers *l, const dt_value *value, dt_shape shape) {
    const dt_value_list *users = &dt_placement_of(l->f, dt_placement_of(l->f, value)->base)->users;
    int found = -1;
    if (l->walked[value->id] == l->n_walks) return -1;
    l->walked[value->id] = l->n_walks;
    for (size_t u = 0; u < users->n && found < 0; u++) {
        const dt_value *user = users->items[u];
        const dt_module *module = l->f->lowering->function->module;
        if (dt_value_is(user, "write"))
            found = l->owner_of[dt_module_find_variable(module, dt_value_string(user, "variable")) - module->variables.items];
        else if (dt_shape_equal(user->shape, shape))
            found = owner_of_written(l, user, shape);
    }
    return found;
}

/* Of whose parameter the group's sum over the rows is the gradient; -1: of none. */
static int owner_of_gradient(layers *l, const dt_fusion_group *group) {
    int found = -1;
    for (size_t r = 0; r < group->cluster.roots.n && found < 0; r++) {
        const dt_value *root = group->cluster.roots.items[r];
        l->n_walks++;
        if (dt_shape_batch_axis(root->shape) < 0 && root->shape.rank > 0) found = owner_of_written(l, root, root->shape);
    }
    return found;
}

/* ---- layers ---- */

static bool is_cut(const dt_fusion_group *group) { return group->collective == NULL && !group->replicated; }

static bool has_owner(const layer *layer, int owner) {
    for (size_t o = 0; o < layer->owners.n; o++)
        if (layer->owners.items[o] == owner) return true;
    return false;
}

/* For one more owner: no layer has less than LEAST_BYTES where others follow, and of more only the last one that joined before them is large. */
static bool has_room(const layer *layer, int64_t bytes) { return layer->bytes < LEAST_BYTES || layer->more + bytes < LEAST_BYTES; }

/* The last layer of the segment so far; -1: there is none. */
static int last_of(const layers *l, int segment) {
    int last = (int)l->items.n - 1;
    while (last >= 0 && l->items.items[last].segment != segment) last--;
    return last;
}

/* The first layer of the segment from `earliest` on that is the owner's, or can be; made when new. */
static int layer_for(layers *l, int owner, int earliest, int segment) {
    int n = (int)l->items.n, first = earliest < 0 ? 0 : earliest, found = -1;
    while (first < n && l->items.items[first].segment != segment) first++;
    for (int i = first; i < n && owner >= 0 && found < 0; i++)
        if (l->items.items[i].segment == segment && has_owner(&l->items.items[i], owner)) found = i;
    if (found < 0 && first < n && (owner < 0 || has_room(&l->items.items[first], l->owners.items[owner]))) found = first;
    if (found < 0) {
        found = n;
        dt_list_push(l->f->arena, &l->items, (layer){.segment = segment});
    }
    layer *layer = &l->items.items[found];
    if (owner >= 0 && !has_owner(layer, owner)) {
        dt_list_push(l->f->arena, &layer->owners, owner);
        *(layer->bytes < LEAST_BYTES ? &layer->bytes : &layer->more) += l->owners.items[owner];
    }
    return found;
}

/* ---- groups ---- */

/* The layer of the last group that this one needs, also by way of groups that wait, which come along; -1: there is none. */
static int earliest_of(layers *l, int g, int at_work) {
    const dt_fusion_group *group = &l->f->groups.items[g];
    int earliest = group->late ? last_of(l, group->segment) : -1;
    for (size_t n = 0; n < l->needs[g].groups.n; n++) {
        int needed = l->needs[g].groups.items[n].group;
        const dt_fusion_group *other = &l->f->groups.items[needed];
        if (!(is_cut(other) || other->is_within) || other->segment != group->segment) continue;
        int layer = other->layer;
        if ((layer == WAITS || other->is_within) && l->seen[needed] != at_work) {
            l->seen[needed] = at_work;
            if (layer == WAITS) dt_list_push(l->f->arena, &l->along, needed);
            layer = earliest_of(l, needed, at_work);
        }
        if (layer > earliest) earliest = layer;
    }
    return earliest;
}

/* Whether what comes of a row is more than anything that it is made of. */
static bool grows(const dt_fusion_group *group) {
    int64_t stored = 0, most = 0;
    for (size_t o = 0; o < group->cluster.outputs.n; o++) {
        const dt_value *value = group->cluster.outputs.items[o].value;
        if (dt_shape_batch_axis(value->shape) >= 0) stored += bytes_of(value->dtype, value->shape);
    }
    for (size_t r = 0; r < group->reads.n; r++) {
        int64_t bytes = bytes_of(group->reads.items[r]->dtype, group->reads.items[r]->shape);
        if (bytes > most) most = bytes;
    }
    return stored > most;
}

/* Groups order[at … end) are in one layer: of a loop, which runs as a whole, or one alone. */
static void place(layers *l, int at, int end, bool may_wait) {
    dt_fusion_group *groups = l->f->groups.items, *first = &groups[l->order[at]];
    int owner = owner_of_groups(l, at, end), earliest = -1;
    if (owner < 0 && end == at + 1) owner = owner_of_gradient(l, first);
    l->along.n = 0;
    for (int i = at; i < end; i++) {
        int needed = earliest_of(l, l->order[i], at + 1);
        if (needed > earliest) earliest = needed;
    }
    if (may_wait && owner < 0 && (earliest < 0 || l->along.n > 0 || first->late || grows(first))) {
        first->layer = WAITS;
        return;
    }
    int layer = layer_for(l, owner, earliest, first->segment);
    for (int i = at; i < end; i++) groups[l->order[i]].layer = layer;
    for (size_t i = 0; i < l->along.n; i++) groups[l->along.items[i]].layer = layer;
}

void dt_fuse_layers(dt_fusion *f, const dt_needs *needs, const int *order) {
    dt_fusion_group *groups = f->groups.items;
    int n_groups = (int)f->groups.n;
    layers l = {.f = f, .needs = needs, .order = order, .seen = DT_NEW_ARRAY(f->arena, int, n_groups)};
    l.walked = DT_NEW_ARRAY(f->arena, int, f->lowering->function->next_id);
    find_owners(&l);
    for (int g = 0; g < n_groups; g++) groups[g].layer = NONE;
    for (int at = 0, end; at < n_groups; at = end) {
        const dt_plan_loop *loop = dt_loop_outermost(groups[order[at]].loop);
        for (end = at + 1; loop != NULL && end < n_groups && dt_loop_outermost(groups[order[end]].loop) == loop; end++) {
        }
        if (is_cut(&groups[order[at]])) place(&l, at, end, loop == NULL);
    }
    for (int at = 0; at < n_groups; at++) /* what no parameters are needed after, such as a gradient's sums */
        if (groups[order[at]].layer == WAITS) place(&l, at, at + 1, false);
    for (int at = 0; at < n_groups; at++) /* a collective is where what it takes is made */
        if (groups[order[at]].is_within) groups[order[at]].layer = earliest_of(&l, order[at], n_groups + at + 1);
    for (size_t i = 0; i < l.items.n && !f->has_layers; i++) f->has_layers = last_of(&l, l.items.items[i].segment) != (int)i;
    for (int g = 0; g < n_groups && !f->by_layer; g++) groups[g].layer = NONE;
}
