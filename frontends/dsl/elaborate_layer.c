/* elaborate_layer: who owns which parameters.
 *
 * A model has one instance in the program, a layer one for each call met while its owner is unrolled. The first unrolling of a model makes the tree
 * of instances and their variables; each later one walks the same tree and must meet the same names, types and shapes. Variables are values in
 * program order: the front end keeps what each holds at this point, so a function reads it once, at first use, and writes it once, at its end. */
#include "frontends/dsl/elaborator.h"

#include <limits.h>
#include <string.h>

/* ---- variables ---- */

void dt_variables_reset(dt_elaborator *e) {
    for (size_t i = 0; i < e->variables.n; i++) {
        const dt_variable_state *old = &e->variables.items[i];
        e->variables.items[i] = (dt_variable_state){.initial = old->initial, .trained = old->trained, .follows = old->follows};
    }
}

static void count_trainable(dt_elaborator *e, const dt_instance *instance) {
    int64_t *n = &e->module->layers.items[instance->layer].n_trainable;
    for (size_t i = 0; i < instance->variables.n; i++) {
        const dt_variable *variable = &e->module->variables.items[instance->variables.items[i]];
        if (variable->trainable) *n += dt_shape_elements_per_row(variable->shape);
    }
    for (size_t i = 0; i < instance->children.n; i++) count_trainable(e, instance->children.items[i]);
}

/* What a bound layer holds is met when it is called, which may be after what is bound after it. */
static void sort_layers(dt_elaborator *e) {
    size_t n = e->module->layers.n, n_sorted = 0, n_open = 0;
    dt_layer *sorted = DT_NEW_ARRAY(e->arena, dt_layer, n);
    int *next = DT_NEW_ARRAY(e->arena, int, n), *first = DT_NEW_ARRAY(e->arena, int, n + 1), *open = DT_NEW_ARRAY(e->arena, int, n);
    for (size_t i = 0; i <= n; i++) first[i] = -1;
    for (size_t i = n; i-- > 0;) { /* first[1 + row], next: its children in order; first[0]: the models */
        int *of_parent = &first[1 + e->layer_parents.items[i]];
        next[i] = *of_parent;
        *of_parent = (int)i;
    }
    for (int at = first[0]; at >= 0 || n_open > 0;) {
        if (at < 0) {
            at = next[open[--n_open]];
            continue;
        }
        sorted[n_sorted++] = e->module->layers.items[at];
        open[n_open++] = at;
        at = first[1 + at];
    }
    e->module->layers.items = sorted;
}

void dt_settle_trainable(dt_elaborator *e) {
    bool any_trains = false;
    for (size_t i = 0; i < e->module->steps.n; i++) any_trains |= e->module->steps.items[i].trains;
    for (size_t i = 0; i < e->variables.n && any_trains; i++) e->module->variables.items[i].trainable &= e->variables.items[i].trained;
    for (size_t i = 0; i < e->models.n; i++) count_trainable(e, e->models.items[i]);
    sort_layers(e);
}

dt_object dt_variable_read(dt_elaborator *e, int variable) {
    dt_variable_state *state = &e->variables.items[variable];
    const char *path = e->module->variables.items[variable].path;
    dt_variable_kind kind = e->module->variables.items[variable].kind;
    bool is_launch = kind == DT_VARIABLE_LAUNCH;
    bool may_be_passed = !is_launch && kind != DT_VARIABLE_SLOT && e->frame->update == NULL; /* by a forward pass */
    if (is_launch && (e->function == e->init || e->step == NULL)) return dt_launch_too_early(e, path);
    if (e->function == e->init) return dt_object_tensor(state->initial);
    if (e->reporting) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "a report is made of totals, %s belongs to a step", path);
        dt_diagnostic_help(error, "report what it is after the last step: last(…)");
        return dt_poison();
    }
    if (e->step == NULL) return dt_elaborator_fail(e, "%s exists only in steps", path);
    if (state->current == NULL) {
        dt_named_attribute setting = {"variable", {.s = path}};
        dt_object value = dt_emit_outside(e, "read", NULL, 0, &setting, 1);
        if (dt_is_poison(value)) return value;
        state->current = value.value;
        if (!is_launch) dt_list_push(e->arena, &state->versions, value.value);
        if (kind == DT_VARIABLE_PARAMETER) dt_mark_weak(e, value.value);
    } else if (may_be_passed && state->written && !state->detached && dt_dtype_is_float(state->current->dtype)) {
        /* What was written is a new beginning for gradients: they are taken at it and do not flow on into how it was computed. */
        dt_object value = dt_emit_outside(e, "stop_gradient", &state->current, 1, NULL, 0);
        if (dt_is_poison(value)) return value;
        state->current = value.value;
        state->detached = true;
        if (kind == DT_VARIABLE_PARAMETER) dt_mark_weak(e, value.value);
        dt_list_push(e->arena, &state->versions, value.value);
    }
    dt_object object = dt_object_tensor(state->current);
    object.flexible = is_launch;
    return object;
}

/* `object` in the dtype and shape of a variable; POISON when it cannot be, reported. */
static dt_object fit_variable(dt_elaborator *e, const char *path, dt_dtype dtype, dt_shape shape, dt_object object) {
    dt_object tensor = dt_to_tensor(e, object, object.kind == DT_OBJECT_FLOAT && !dt_dtype_is_float(dtype) ? DT_F32 : dtype);
    if (tensor.kind == DT_OBJECT_TENSOR && object.flexible) tensor = dt_emit_convert(e, tensor.value, dtype);
    tensor = dt_to_type_of_variable(e, tensor, dtype);
    if (dt_is_poison(tensor)) return tensor;
    bool fits = tensor.value->dtype == dtype && (tensor.value->shape.rank == 0 || dt_shape_equal(tensor.value->shape, shape));
    if (fits) return dt_emit_broadcast(e, tensor.value, shape);
    dt_text wanted = {.arena = e->arena};
    dt_shape_print(&wanted, dtype, shape);
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s is %s, it cannot hold %s", path, wanted.data, dt_object_describe(e->arena, tensor));
    if (tensor.value->dtype != dtype) dt_diagnostic_help(error, "convert it: %s(x)", dt_dtype_name(dtype));
    return dt_poison();
}

void dt_variable_write(dt_elaborator *e, int variable, dt_object object, dt_span span) {
    const dt_variable *v = &e->module->variables.items[variable];
    e->at = span;
    if (dt_refuse_in_scan(e, span, "a state is written")) return;
    dt_object value = fit_variable(e, v->path, v->dtype, v->shape, object);
    if (dt_is_poison(value)) return;
    dt_variable_state *state = &e->variables.items[variable];
    state->current = value.value;
    state->written = true;
    state->detached = false;
    state->trained |= v->kind == DT_VARIABLE_PARAMETER || v->kind == DT_VARIABLE_STATE;
}

int dt_variable_add(dt_elaborator *e, const char *path, dt_variable_kind kind, dt_object initial, bool trainable, dt_span span) {
    dt_value *value = initial.value;
    dt_variable variable = {.path = path,
                            .kind = kind,
                            .dtype = value->dtype,
                            .shape = value->shape,
                            .trainable = trainable,
                            .shard_axis = -1,
                            .shard_groups = 1,
                            .location = dt_elaborator_location(e, span)};
    dt_module_add_variable(e->module, variable);
    dt_variable_state state = {.initial = value};
    dt_list_push(e->arena, &e->variables, state);
    dt_function *function = e->function;
    e->function = e->init;
    dt_named_attribute setting = {"variable", {.s = path}};
    dt_emit(e, "write", &value, 1, &setting, 1);
    e->function = function;
    return (int)e->module->variables.n - 1;
}

dt_object dt_initial_value(dt_elaborator *e, const dt_expression *x, const char *path, dt_dtype dtype, dt_shape shape) {
    dt_function *function = e->function;
    uint64_t stream = e->frame->stream;
    int n_streams = e->frame->n_streams;
    bool reporting = e->reporting;
    e->function = e->init;
    e->reporting = false;
    e->frame->stream = dt_hash_bytes(path, strlen(path), DT_HASH_SEED); /* two programs with one path begin with the same numbers */
    e->frame->n_streams = 0;
    dt_object *dims = DT_NEW_ARRAY(e->arena, dt_object, shape.rank);
    for (int i = 0; i < shape.rank; i++) dims[i] = dt_object_dim(shape.dims[i]);
    dt_object list = dt_object_items(e->arena, DT_OBJECT_LIST, dims, (size_t)shape.rank);
    bool is_call = x->kind == DT_EXPRESSION_CALL;
    dt_object object = dt_value_of(e, is_call ? x->a : x);
    e->at = x->span;
    if (dt_is_callable(object)) {
        dt_actuals actuals = {0};
        dt_list_push(e->arena, &actuals, ((dt_actual){.span = x->span, .object = list}));
        for (size_t i = 0; is_call && i < x->arguments.n; i++) {
            const dt_argument *a = &x->arguments.items[i];
            dt_actual actual = {.name = a->name, .span = a->span, .object = dt_settle(e, dt_value_of(e, a->value)), .written = a->value};
            dt_list_push(e->arena, &actuals, actual);
        }
        object = dt_call(e, object, actuals.items, actuals.n, x->span);
    } else if (is_call && !dt_is_poison(object)) {
        object = dt_elaborator_fail(e, "%s is no function of a shape", dt_object_describe(e->arena, object));
    }
    e->at = x->span;
    object = dt_settle(e, object);
    if (object.kind == DT_OBJECT_TENSOR && dt_dtype_is_float(dtype) && dt_dtype_is_float(object.value->dtype))
        object = dt_emit_convert(e, object.value, dtype);
    if (!dt_is_poison(object)) object = fit_variable(e, path, dtype, shape, object);
    e->function = function;
    e->reporting = reporting;
    e->frame->stream = stream;
    e->frame->n_streams = n_streams;
    return object;
}

/* ---- param and state ---- */

static const dt_visit *root_visit(const dt_elaborator *e) {
    const dt_visit *visit = e->visit;
    while (visit->instance->parent != NULL) visit = visit->outer;
    return visit;
}

void dt_report_difference(dt_elaborator *e, const char *difference) {
    const dt_visit *shared = dt_shared_visit(e);
    bool is_model = shared->instance->parent == NULL;
    dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, shared->call, "this call of %s differs from its first: %s",
                                              is_model ? shared->instance->name : shared->instance->path, difference);
    dt_diagnostic_note(error, "the first call is in %s", dt_elaborator_place(e, shared->instance->first_call));
    dt_diagnostic_help(error, "a %s has one set of parameters, the same for every call: %s, or call it with equal shapes and options",
                       is_model ? "model" : "layer that is bound", is_model ? "declare two models" : "bind two");
}

static const char *describe_type(dt_elaborator *e, dt_dtype dtype, dt_shape shape) {
    return dt_arena_format(e->arena, "%s%s", dt_dtype_name(dtype), shape.rank > 0 ? dt_describe_shape(e, shape) : "");
}

/* How a parameter is split over the shards of the model. */
typedef struct split {
    int axis, groups; /* -1 and 1: it is not */
} split;

static bool fits_split(int64_t size, int64_t groups, int64_t n_shards) {
    return size % groups == 0 && (n_shards == 1 || dt_shards_all_have(size / groups, n_shards));
}

/* The tensors side by side are equally long, and the last shard has something of each too. */
static bool check_split(dt_elaborator *e, const char *path, int axis, int64_t size, int64_t groups) {
    int64_t n_shards = e->module->n_shards, below = size - 1, above = size + 1, own = dt_shard_extent(size / groups, 1, n_shards);
    if (fits_split(size, groups, n_shards)) return true;
    dt_diagnostic *error;
    const char *in_each =
        groups > 1 ? dt_arena_format(e->arena, ", %lld in each of %lld tensors", (long long)(size / groups), (long long)groups) : "";
    if (size % groups != 0)
        error = dt_elaborator_error(e, e->at, "dimension %d of %s has %lld elements, which are not %lld equal tensors side by side", axis, path,
                                    (long long)size, (long long)groups);
    else
        error = dt_elaborator_error(e, e->at, "dimension %d of %s has %lld elements%s: with %lld for each of %lld shards the last one has none", axis,
                                    path, (long long)size, in_each, (long long)own, (long long)n_shards);
    while (below > 0 && !fits_split(below, groups, n_shards)) below--;
    while (!fits_split(above, groups, n_shards)) above++;
    if (below > 0)
        dt_diagnostic_help(error, "%lld or %lld would fit", (long long)below, (long long)above);
    else
        dt_diagnostic_help(error, "%lld would fit", (long long)above);
    return false;
}

/* `shard: dimension, of: groups`; none is no dimension. In a program of one shard all is checked and nothing split. false: reported. */
static bool resolve_split(dt_elaborator *e, const dt_statement *s, const char *path, dt_shape shape, split *split) {
    *split = (struct split){-1, 1};
    if (s->shard == NULL) return true;
    dt_object dimension = dt_settle(e, dt_value_of(e, s->shard)), groups = dt_object_int(1);
    if (s->of != NULL) groups = dt_settle(e, dt_value_of(e, s->of));
    if (dt_is_poison(dimension) || dt_is_poison(groups)) return false;
    if (groups.kind != DT_OBJECT_INT || groups.i < 1 || groups.i > INT_MAX) {
        dt_diagnostic *error = dt_elaborator_error(e, s->of->span, "of is how many tensors stand side by side, an int of 1 or more, not %s",
                                                   dt_object_describe(e->arena, groups));
        dt_diagnostic_help(error, "without it there is one");
        return false;
    }
    if (dimension.kind == DT_OBJECT_NONE && groups.i > 1) {
        dt_diagnostic *error = dt_elaborator_error(e, s->of->span, "of: %lld divides nothing: %s is not split", (long long)groups.i, path);
        dt_diagnostic_help(error, "name the dimension, shard: %d, or leave of: away", shape.rank > 0 ? shape.rank - 1 : 0);
        return false;
    }
    if (dimension.kind == DT_OBJECT_NONE) return true;
    bool is_dimension = dimension.kind == DT_OBJECT_INT && dimension.i >= -shape.rank && dimension.i < shape.rank;
    if (!is_dimension) {
        dt_diagnostic *error = dt_elaborator_error(e, s->shard->span, "shard is a dimension of %s, an int, or none, not %s", path,
                                                   dt_object_describe(e->arena, dimension));
        if (shape.rank > 0) dt_diagnostic_help(error, "its dimensions are %d to %d", -shape.rank, shape.rank - 1);
        return false;
    }
    int axis = (int)(dimension.i < 0 ? dimension.i + shape.rank : dimension.i);
    e->at = s->shard->span;
    if (!check_split(e, path, axis, shape.dims[axis], groups.i)) return false;
    if (e->module->n_shards > 1) *split = (struct split){axis, (int)groups.i};
    return true;
}

static const char *describe_split(dt_elaborator *e, split split) {
    if (split.axis < 0) return "whole on every shard";
    const char *of = split.groups > 1 ? dt_arena_format(e->arena, " as %d tensors side by side", split.groups) : "";
    return dt_arena_format(e->arena, "split at dimension %d%s", split.axis, of);
}

static bool is_split_alike(dt_elaborator *e, const dt_variable *v, split here) {
    split there = {v->shard_axis, v->shard_groups};
    if (here.axis == there.axis && here.groups == there.groups) return true;
    dt_report_difference(e, dt_arena_format(e->arena, "%s is %s here, %s there", v->path, describe_split(e, here), describe_split(e, there)));
    return false;
}

static int revisit_variable(dt_elaborator *e, const char *path, dt_dtype dtype, dt_shape shape, split split) {
    const dt_instance *owner = e->visit->instance;
    for (size_t i = 0; i < owner->variables.n; i++) {
        const dt_variable *v = &e->module->variables.items[owner->variables.items[i]];
        if (strcmp(v->path, path) != 0) continue;
        if (v->dtype == dtype && dt_shape_equal(v->shape, shape)) return is_split_alike(e, v, split) ? owner->variables.items[i] : -1;
        dt_report_difference(
            e, dt_arena_format(e->arena, "%s is %s here, %s there", path, describe_type(e, dtype, shape), describe_type(e, v->dtype, v->shape)));
        return -1;
    }
    if (!owner->broken) dt_report_difference(e, dt_arena_format(e->arena, "%s exists only here", path));
    return -1;
}

static int first_variable(dt_elaborator *e, const dt_statement *s, const char *path, dt_dtype dtype, dt_shape shape, split split) {
    bool is_param = s->kind == DT_STATEMENT_PARAM, trainable = is_param;
    if (s->trainable != NULL && !dt_evaluate_bool(e, s->trainable, "trainable", &trainable)) return -1;
    dt_object initial = dt_initial_value(e, s->value, path, dtype, shape);
    if (dt_is_poison(initial)) return -1;
    int variable = dt_variable_add(e, path, is_param ? DT_VARIABLE_PARAMETER : DT_VARIABLE_STATE, initial, trainable, s->span);
    e->module->variables.items[variable].shard_axis = split.axis;
    e->module->variables.items[variable].shard_groups = split.groups;
    dt_instance *owner = e->visit->instance;
    dt_list_push(e->arena, &owner->variables, variable);
    if (is_param) e->module->layers.items[owner->layer].n_parameters += dt_shape_elements_per_row(shape);
    return variable;
}

void dt_declare_variable(dt_elaborator *e, const dt_statement *s) {
    bool is_param = s->kind == DT_STATEMENT_PARAM;
    const dt_assignment_target *target = &s->targets.items[0];
    const char *word = is_param ? "param" : "state";
    dt_object object = dt_poison();
    dt_dtype dtype;
    dt_shape shape;
    if (e->frame->owner == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, s->span, "%s outside a layer or model", word);
        dt_diagnostic_help(error, "a fn has no parameters of its own: make it a layer");
    } else if (s->type == NULL) {
        dt_diagnostic_help(dt_elaborator_error(e, target->span, "%s %s has no type", word, target->name), "write %s %s: f32[…] = …", word,
                           target->name);
    } else if (dt_resolve_type(e, s->type, &dtype, &shape)) {
        const char *path = dt_arena_format(e->arena, "%s/%s", e->frame->owner->path, target->name);
        dt_binding *declared = dt_find_binding(e->frame->scope, target->name);
        int variable = -1;
        split split;
        if (dt_shape_batch_axis(shape) >= 0) {
            dt_diagnostic *error = dt_elaborator_error(e, s->type->span, "the shape of %s %s holds B", word, target->name);
            dt_diagnostic_help(error, "what a model keeps does not depend on the batch: reduce over B first, mean(x, axis: 0)");
        } else if (declared != NULL && declared->object.kind == DT_OBJECT_VARIABLE) {
            dt_elaborator_error(e, target->span, "%s is declared twice", target->name);
        } else if (resolve_split(e, s, path, shape, &split)) {
            variable = e->visit->first ? first_variable(e, s, path, dtype, shape, split) : revisit_variable(e, path, dtype, shape, split);
            if (!e->visit->first) e->visit->n_variables++;
        }
        if (variable >= 0) object = (dt_object){.kind = DT_OBJECT_VARIABLE, .i = variable};
    }
    e->frame->scope = dt_bind(e->arena, e->frame->scope, target->name, object, target->span);
}

void dt_write_statement(dt_elaborator *e, const dt_statement *s) {
    const dt_assignment_target *target = &s->targets.items[0];
    dt_binding *binding = dt_find_binding(e->frame->scope, target->name);
    if (binding == NULL || binding->object.kind != DT_OBJECT_VARIABLE) {
        if (binding != NULL && dt_is_poison(binding->object)) {
            dt_value_of(e, s->value); /* it may have mistakes of its own */
            return;
        }
        dt_object object = dt_poison();
        dt_diagnostic *error;
        if (binding == NULL && !dt_find_top(e, e->frame->file, target->name, &object)) {
            error = dt_elaborator_error(e, target->span, "unknown name %s", target->name);
            dt_suggest_name(e, error, target->name);
            return;
        }
        error = dt_elaborator_error(e, target->span, "%s is a value, := writes only a state", target->name);
        bool is_launch = binding == NULL && object.kind == DT_OBJECT_VARIABLE;
        if (is_launch) dt_diagnostic_help(error, "a launch value is given to a run, and changed between its steps, from outside");
        if (!is_launch) dt_diagnostic_help(error, "bind it with =, or declare it: state %s: f32 = 0", target->name);
        return;
    }
    int variable = (int)binding->object.i;
    const dt_update *update = e->frame->update;
    dt_variable_kind kind = e->module->variables.items[variable].kind;
    if (kind == DT_VARIABLE_PARAMETER && update == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, target->span, "%s is a parameter: only an optimizer's update writes it", target->name);
        dt_diagnostic_help(error, "declare it as state if the model itself changes it");
        return;
    }
    if (kind == DT_VARIABLE_STATE && !e->training) {
        dt_diagnostic *error = dt_elaborator_error(e, target->span, "%s is written in a step that does not train", target->name);
        dt_diagnostic_help(error, "put it under: if training { %s := … }", target->name);
        return;
    }
    dt_object object = dt_settle(e, dt_value_of(e, s->value));
    if (update != NULL) object = dt_only_when(e, update, variable, object);
    dt_variable_write(e, variable, object, s->value->span);
}

/* ---- instances ---- */

int dt_count_up(dt_elaborator *e, dt_counters *counters, const char *name) {
    for (size_t i = 0; i < counters->n; i++)
        if (strcmp(counters->items[i].name, name) == 0) return ++counters->items[i].n;
    dt_counter counter = {name, 0};
    dt_list_push(e->arena, counters, counter);
    return 0;
}

const char *dt_numbered(dt_elaborator *e, const char *name, int n) { return n == 0 ? name : dt_arena_format(e->arena, "%s_%d", name, n); }

dt_instance *dt_find_model(const dt_elaborator *e, const dt_callable *callable) {
    for (size_t i = 0; i < e->models.n; i++)
        if (e->models.items[i]->callable == callable) return e->models.items[i];
    return NULL;
}

static dt_instance *find_child(const dt_instance *parent, const char *name) {
    for (size_t i = 0; i < parent->children.n; i++)
        if (strcmp(parent->children.items[i]->name, name) == 0) return parent->children.items[i];
    return NULL;
}

int dt_add_layer_row(dt_elaborator *e, const char *path, const char *kind, int parent, dt_span span) {
    int depth = parent >= 0 ? e->module->layers.items[parent].depth + 1 : 0;
    dt_layer layer = {.path = path, .kind = kind, .shape = dt_shape_scalar(), .depth = depth, .location = dt_elaborator_location(e, span)};
    dt_list_push(e->arena, &e->module->layers, layer);
    dt_list_push(e->arena, &e->layer_parents, parent);
    return (int)e->module->layers.n - 1;
}

static dt_instance *new_instance(dt_elaborator *e, const dt_callee *callee, dt_instance *parent, const char *name, dt_span span) {
    dt_instance *instance = DT_NEW(e->arena, dt_instance);
    *instance = (dt_instance){.name = name, .kind = callee->name, .parent = parent, .callable = callee->callable};
    instance->path = parent != NULL ? dt_arena_format(e->arena, "%s/%s", parent->path, name) : name;
    instance->first_call = dt_elaborator_user_span(e, span);
    instance->layer = dt_add_layer_row(e, instance->path, callee->name, parent != NULL ? parent->layer : -1, span);
    return instance;
}

dt_instance *dt_child_instance(dt_elaborator *e, const dt_callee *callee, dt_site site, const dt_expression *written) {
    dt_visit *visit = e->visit;
    const char *name = dt_name_of_child(e, callee, written);
    dt_instance *child = find_child(visit->instance, name);
    if (visit->first) {
        if (child != NULL) {
            dt_diagnostic *error = dt_elaborator_error(e, site.span, "%s has a layer called %s already", visit->instance->path, name);
            dt_diagnostic_note(error, "it is the call in %s", dt_elaborator_place(e, child->first_call));
            dt_diagnostic_help(error, "name one of them otherwise: … as name");
            return NULL;
        }
        child = new_instance(e, callee, visit->instance, name, site.span);
        child->site = site;
        dt_list_push(e->arena, &visit->instance->children, child);
        return child;
    }
    if (child == NULL || child->callable != callee->callable) {
        if (!visit->instance->broken) dt_report_difference(e, dt_arena_format(e->arena, "%s/%s exists only here", visit->instance->path, name));
        return NULL;
    }
    visit->n_children++;
    return dt_same_site(e, child, site) ? child : NULL;
}

static dt_instance *model_instance(dt_elaborator *e, const dt_callee *callee, dt_span span) {
    dt_instance *model = dt_find_model(e, callee->callable);
    if (model == NULL) {
        int n_namesakes = 0; /* in a module, or the library */
        for (size_t i = 0; i < e->models.n; i++) n_namesakes += strcmp(e->models.items[i]->kind, callee->name) == 0;
        model = new_instance(e, callee, NULL, dt_numbered(e, callee->name, n_namesakes), span);
        dt_list_push(e->arena, &e->models, model);
    } else if (model->active) {
        dt_elaborator_error(e, span, "the model %s calls itself", callee->name);
        return NULL;
    }
    if (e->visit != NULL) {
        dt_instance *caller = root_visit(e)->instance;
        bool known = false;
        for (size_t i = 0; i < caller->models.n; i++) known |= caller->models.items[i] == model;
        if (!known) dt_list_push(e->arena, &caller->models, model);
    }
    bool called = false;
    for (size_t i = 0; i < e->step->called.n; i++) called |= e->step->called.items[i] == model;
    if (!called) dt_list_push(e->arena, &e->step->called, model);
    return model;
}

static void finish_visit(dt_elaborator *e, dt_visit *visit, dt_object result) {
    dt_instance *instance = visit->instance;
    if (visit->first) {
        instance->complete = true;
        instance->broken = e->n_poisoned != visit->n_poisoned;
        dt_object first = result.kind == DT_OBJECT_TUPLE && result.items->n > 0 ? result.items->items[0] : result;
        if (first.kind == DT_OBJECT_TENSOR) {
            e->module->layers.items[instance->layer].dtype = first.value->dtype;
            e->module->layers.items[instance->layer].shape = first.value->shape;
        }
        return;
    }
    bool fewer = visit->n_children < instance->children.n || visit->n_variables < instance->variables.n;
    if (!fewer || instance->broken || e->n_poisoned != visit->n_poisoned) return;
    dt_report_difference(e, dt_arena_format(e->arena, "%s has fewer layers or parameters here", instance->path));
}

dt_object dt_call_layer(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span, const dt_expression *written) {
    bool is_model = callee->kind == DT_DECLARATION_MODEL;
    if (e->step == NULL || e->function != e->step->function) {
        dt_elaborator_error(e, span, "%s %s is called outside a step", is_model ? "the model" : "the layer", callee->name);
        return dt_poison();
    }
    if (!is_model && e->visit == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "the layer %s is called outside a model", callee->name);
        dt_diagnostic_note(error, "a layer's parameters belong to the model that calls it");
        dt_diagnostic_help(error, "move the call into a model, and call the model here");
        return dt_poison();
    }
    dt_instance *instance = is_model                   ? model_instance(e, callee, span)
                            : callee->instance != NULL ? dt_bound_instance(e, callee, span)
                                                       : dt_child_instance(e, callee, dt_site_of(e, span, actuals, n), written);
    if (instance == NULL) return dt_poison();
    dt_visit visit = {.instance = instance, .first = !instance->complete, .loop = e->loop, .serial = ++e->n_visits, .outer = e->visit};
    visit.call = dt_elaborator_user_span(e, span);
    visit.n_poisoned = e->n_poisoned;
    visit.call_of_model = is_model ? visit.serial : e->visit->call_of_model;
    dt_frame frame = {.callee = callee, .file = callee->file, .call = span, .stream = dt_next_stream(e, instance->path), .owner = instance};
    visit.frame = &frame;
    bool training = e->training;
    if (dt_is_frozen(e, instance->path)) e->training = false;
    instance->active = true;
    dt_object result = dt_poison();
    dt_actual *own = dt_arena_copy(e->arena, actuals, n * sizeof *own);
    for (size_t i = 0; i < n && !is_model; i++) own[i].object = dt_across_layers(e, own[i].object, false);
    bool bound = dt_bind_arguments(e, callee, own, n, &frame);
    e->visit = &visit;
    if (bound) result = dt_across_layers(e, dt_run_body(e, &frame), is_model);
    if (dt_is_poison(result)) e->n_poisoned++;
    finish_visit(e, &visit, result);
    e->visit = visit.outer;
    instance->active = false;
    e->training = training;
    return result;
}

void dt_record_function_layer(dt_elaborator *e, const dt_callee *callee, int first, dt_object result, dt_span span) {
    if (e->function == NULL || result.kind != DT_OBJECT_TENSOR || !callee->file->is_library || e->frame->file->is_library) return;
    const dt_instance *parent = e->visit != NULL ? e->visit->instance : NULL;
    bool is_layer = parent != NULL && strcmp(callee->file->name, "nn") == 0;
    const char *name = is_layer ? dt_numbered(e, callee->name, dt_count_up(e, &e->visit->counters, callee->name))
                                : dt_arena_format(e->arena, "%s#%d", callee->name, ++e->n_visits);
    const char *path = parent != NULL ? dt_arena_format(e->arena, "%s/%s", parent->path, name) : name;
    const char *around = parent != NULL ? parent->path : NULL;
    for (dt_value *value = e->function->last; value != NULL && value->id >= first; value = value->previous)
        if (value->layer == around) value->layer = path;
    if (!is_layer || !e->visit->first) return;
    int row = dt_add_layer_row(e, path, callee->name, parent->layer, span);
    e->module->layers.items[row].dtype = result.value->dtype;
    e->module->layers.items[row].shape = result.value->shape;
}
