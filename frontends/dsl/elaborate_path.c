/* elaborate_path: naming parts of models: `call as name`, Cnn.conv2d_1.kernel, params(M), freeze(M.part). */
#include "frontends/dsl/elaborator.h"

#include <stdlib.h>
#include <string.h>

/* ---- as ---- */

/* The declared thing that an expression names, without reporting anything. */
static const dt_callee *named_callee(dt_elaborator *e, const dt_expression *x) {
    dt_object object;
    if (x->kind == DT_EXPRESSION_FIELD && x->a->kind == DT_EXPRESSION_NAME) {
        bool is_module = dt_find_binding(e->frame->scope, x->a->text) == NULL && dt_find_top(e, e->frame->file, x->a->text, &object) &&
                         object.kind == DT_OBJECT_MODULE && object.file != NULL;
        if (!is_module || !dt_find_in_file(e, object.file, x->text, &object)) return NULL;
    } else if (x->kind == DT_EXPRESSION_NAME) {
        dt_binding *binding = dt_find_binding(e->frame->scope, x->text);
        if (binding != NULL)
            object = binding->object;
        else if (!dt_find_top(e, e->frame->file, x->text, &object))
            return NULL;
    } else {
        return NULL;
    }
    return object.kind == DT_OBJECT_FUNCTION ? object.callee : NULL;
}

/* The outermost call of a layer in an expression: relu(conv_norm(x)) as stem names conv_norm. */
static const dt_expression *find_layer_call(dt_elaborator *e, const dt_expression *x) {
    if (x == NULL || x->kind == DT_EXPRESSION_LAYER) return x;
    const dt_expression *found = NULL;
    if (x->kind == DT_EXPRESSION_CALL) {
        const dt_callee *callee = named_callee(e, x->a);
        if (callee != NULL && callee->callable != NULL && callee->kind == DT_DECLARATION_LAYER && callee->instance == NULL) return x;
        for (size_t i = 0; i < x->arguments.n && found == NULL; i++) found = find_layer_call(e, x->arguments.items[i].value);
        return found;
    }
    const dt_expression *parts[] = {x->a, x->b, x->c};
    for (int i = 0; i < 3 && found == NULL; i++) found = find_layer_call(e, parts[i]);
    return found;
}

dt_object dt_evaluate_as(dt_elaborator *e, const dt_expression *x) {
    const dt_expression *call = find_layer_call(e, x->a);
    if (call == NULL || e->visit == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, x->span, "as %s: there is no layer to name", x->text);
        dt_diagnostic_help(error, "as names the call of a layer to its left: dense(x, units: 10) as head");
        return dt_poison();
    }
    dt_visit *visit = e->visit;
    const char *outer_name = visit->pending_name;
    const dt_expression *outer_call = visit->pending_call;
    visit->pending_name = x->text;
    visit->pending_call = call;
    dt_object object = dt_value_of(e, x->a);
    visit->pending_name = outer_name;
    visit->pending_call = outer_call;
    return object;
}

/* ---- fields of models ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static dt_instance *instance_of(dt_elaborator *e, dt_object object, dt_span span) {
    if (object.kind == DT_OBJECT_INSTANCE) return object.instance;
    if (object.kind == DT_OBJECT_FUNCTION && object.callee->instance != NULL) {
        dt_instance *bound = object.callee->instance;
        if (bound->complete) return bound;
        if (!dt_is_tainted(e)) dt_diagnostic_help(dt_elaborator_error(e, span, "%s has no parts yet", bound->path), "call it first");
        return NULL;
    }
    bool is_model = object.kind == DT_OBJECT_FUNCTION && object.callee->kind == DT_DECLARATION_MODEL && object.callee->callable != NULL;
    if (!is_model) {
        if (!dt_is_poison(object)) dt_elaborator_error(e, span, "a model is needed here, not %s", dt_object_describe(e->arena, object));
        return NULL;
    }
    dt_instance *model = dt_find_model(e, object.callee->callable);
    if (model == NULL || !model->complete) {
        if (dt_is_tainted(e)) return NULL;
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s has no parts yet: no step has called it before this point", object.callee->name);
        dt_diagnostic_help(error, "call the model first");
        return NULL;
    }
    return model;
}

dt_object dt_instance_field(dt_elaborator *e, dt_object base, const char *name, dt_span span) {
    const dt_instance *instance = instance_of(e, base, span);
    if (instance == NULL || instance->broken) return dt_poison();
    DT_LIST(const char *) names = {0};
    for (size_t i = 0; i < instance->variables.n; i++) {
        const char *part = last_part(e->module->variables.items[instance->variables.items[i]].path);
        if (strcmp(part, name) == 0) return (dt_object){.kind = DT_OBJECT_VARIABLE, .i = instance->variables.items[i]};
        dt_list_push(e->arena, &names, part);
    }
    for (size_t i = 0; i < instance->children.n; i++) {
        if (strcmp(instance->children.items[i]->name, name) == 0)
            return (dt_object){.kind = DT_OBJECT_INSTANCE, .instance = instance->children.items[i]};
        dt_list_push(e->arena, &names, instance->children.items[i]->name);
    }
    dt_diagnostic *error = dt_elaborator_error(e, span, "%s has no part %s", instance->path, name);
    dt_text list = {.arena = e->arena};
    for (size_t i = 0; i < names.n; i++) dt_text_format(&list, "%s%s", i > 0 ? ", " : "", names.items[i]);
    dt_diagnostic_note(error, "its parts: %s", list.data != NULL ? list.data : "none");
    dt_diagnostic_suggest(error, name, names.items, names.n);
    return dt_poison();
}

/* ---- params ---- */

static void collect(dt_elaborator *e, const dt_instance *instance, bool only, dt_variable_list *variables, int depth) {
    for (size_t i = 0; i < instance->variables.n; i++) {
        int v = instance->variables.items[i];
        bool known = false;
        for (size_t k = 0; k < variables->n; k++) known |= variables->items[k] == v;
        const dt_variable *variable = &e->module->variables.items[v];
        if (!known && variable->trainable && !dt_is_frozen(e, variable->path)) dt_list_push(e->arena, variables, v);
    }
    for (size_t i = 0; i < instance->children.n; i++) collect(e, instance->children.items[i], only, variables, depth);
    for (size_t i = 0; i < instance->models.n && !only && depth < DT_MOST_DEPTH; i++)
        collect(e, instance->models.items[i], only, variables, depth + 1);
}

void dt_instance_params(dt_elaborator *e, const dt_instance *instance, dt_variable_list *variables) { collect(e, instance, false, variables, 0); }

bool dt_collect_params(dt_elaborator *e, dt_object over, bool only, dt_variable_list *variables) {
    if (over.kind == DT_OBJECT_TREE) {
        for (size_t i = 0; i < over.tree->n; i++) dt_list_push(e->arena, variables, over.tree->leaves[i].variable);
        return true;
    }
    if (over.kind == DT_OBJECT_NONE) {
        for (size_t i = 0; i < e->step->called.n; i++) collect(e, e->step->called.items[i], false, variables, 0);
        return true;
    }
    dt_object lone[1] = {over};
    const dt_object *models = over.kind == DT_OBJECT_LIST ? over.items->items : lone;
    for (size_t i = 0; i < (over.kind == DT_OBJECT_LIST ? over.items->n : 1); i++) {
        const dt_instance *instance = instance_of(e, models[i], e->at);
        if (instance == NULL) return false;
        collect(e, instance, only, variables, 0);
    }
    return true;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static dt_object tree_of(dt_elaborator *e, dt_variable_list *variables) {
    if (variables->n > 1) qsort(variables->items, variables->n, sizeof *variables->items, by_number);
    dt_tree *tree = dt_arena_new(e->arena, sizeof *tree + variables->n * sizeof *tree->leaves);
    tree->n = variables->n;
    for (size_t i = 0; i < variables->n; i++) {
        int v = variables->items[i];
        tree->leaves[i] = (dt_leaf){.path = e->module->variables.items[v].path, .variable = v, .object = dt_variable_read(e, v)};
        if (dt_is_poison(tree->leaves[i].object)) return dt_poison();
    }
    return (dt_object){.kind = DT_OBJECT_TREE, .tree = tree};
}

dt_object dt_params(dt_elaborator *e, dt_object model, bool only) {
    dt_variable_list variables = {0};
    return dt_collect_params(e, model, only, &variables) ? tree_of(e, &variables) : dt_poison();
}

/* ---- freeze ---- */

bool dt_is_frozen(const dt_elaborator *e, const char *path) {
    if (e->step == NULL) return false;
    for (size_t i = 0; i < e->step->frozen.n; i++) {
        const char *frozen = e->step->frozen.items[i];
        size_t n = strlen(frozen);
        if (strncmp(path, frozen, n) == 0 && (path[n] == '\0' || path[n] == '/')) return true;
    }
    return false;
}

static bool exists_below(const dt_elaborator *e, const dt_instance *instance, const char *path) {
    if (strcmp(instance->path, path) == 0) return true;
    for (size_t i = 0; i < instance->variables.n; i++)
        if (strcmp(e->module->variables.items[instance->variables.items[i]].path, path) == 0) return true;
    for (size_t i = 0; i < instance->children.n; i++)
        if (exists_below(e, instance->children.items[i], path)) return true;
    return false;
}

bool dt_frozen_exists(const dt_elaborator *e, const char *path) {
    for (size_t i = 0; i < e->models.n; i++)
        if (exists_below(e, e->models.items[i], path)) return true;
    return false;
}

/* Bert.encoder.dense as the path "Bert/encoder/dense"; NULL: it is no such thing, reported. */
static const char *path_of(dt_elaborator *e, const dt_expression *x, const dt_callee **model) {
    if (x->kind == DT_EXPRESSION_FIELD) {
        const char *outer = path_of(e, x->a, model);
        return outer != NULL ? dt_arena_format(e->arena, "%s/%s", outer, x->text) : NULL;
    }
    *model = x->kind == DT_EXPRESSION_NAME ? named_callee(e, x) : NULL;
    if (*model != NULL && (*model)->kind == DT_DECLARATION_MODEL) {
        const dt_instance *instance = dt_find_model(e, (*model)->callable);
        return instance != NULL ? instance->path : x->text;
    }
    dt_object object = x->kind == DT_EXPRESSION_NAME && *model == NULL ? dt_value_of(e, x) : dt_object_none();
    if (dt_is_poison(object) || x->kind == DT_EXPRESSION_BROKEN) return NULL;
    dt_diagnostic *error = dt_elaborator_error(e, x->span, "freeze takes models and their parts");
    dt_diagnostic_help(error, "write freeze(Model) or freeze(Model.part)");
    return NULL;
}

dt_object dt_freeze(dt_elaborator *e, const dt_expression *call) {
    if (e->step == NULL) return dt_elaborator_fail(e, "freeze stands in a step");
    for (size_t i = 0; i < call->arguments.n; i++) {
        const dt_expression *x = call->arguments.items[i].value;
        const dt_callee *model = NULL;
        const char *path = path_of(e, x, &model);
        if (path == NULL) return dt_poison();
        for (size_t k = 0; k < e->step->called.n; k++) {
            if (e->step->called.items[k]->callable != model->callable) continue;
            dt_diagnostic *error = dt_elaborator_error(e, x->span, "%s was called in this step before it is frozen", model->name);
            dt_diagnostic_help(error, "freeze holds for the whole step: put it first");
            return dt_poison();
        }
        dt_list_push(e->arena, &e->step->frozen, path);
        dt_list_push(e->arena, &e->step->frozen_spans, x->span);
    }
    return dt_object_none();
}
