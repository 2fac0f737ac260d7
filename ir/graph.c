/* graph: see graph.h. Functions are doubly linked lists of values; uses are found by walking the list, since graphs are small and change seldom. */
#include "ir/graph.h"

#include <assert.h>
#include <string.h>

/* ---- modules ---- */

dt_module *dt_module_create(dt_arena *arena, const char *name) {
    dt_module *module = DT_NEW(arena, dt_module);
    module->arena = arena;
    module->name = dt_arena_string(arena, name);
    module->n_shards = 1;
    return module;
}

dt_function *dt_module_add_function(dt_module *module, const char *name, dt_function_role role) {
    dt_function *function = DT_NEW(module->arena, dt_function);
    function->module = module;
    function->name = dt_arena_string(module->arena, name);
    function->role = role;
    dt_list_push(module->arena, &module->functions, function);
    return function;
}

dt_function *dt_module_find_function(const dt_module *module, const char *name) {
    for (size_t i = 0; i < module->functions.n; i++)
        if (strcmp(module->functions.items[i]->name, name) == 0) return module->functions.items[i];
    return NULL;
}

void dt_module_add_variable(dt_module *module, dt_variable variable) {
    dt_list_push(module->arena, &module->variables, variable);
    dt_names_add(module->arena, &module->by_path, variable.path, (int)module->variables.n - 1); /* the first of two, which verify refuses */
}

dt_variable *dt_module_find_variable(const dt_module *module, const char *path) {
    int i = dt_names_find(&module->by_path, path);
    return i >= 0 ? &module->variables.items[i] : NULL;
}

/* ---- what a value says of itself ---- */

static const dt_attribute *attribute_of(const dt_value *value, const char *name, dt_attribute_kind kind) {
    int i = dt_op_attribute_index(value->op, name);
    assert(i >= 0 && value->op->attributes[i].kind == kind);
    (void)kind;
    return &value->attributes[i];
}

int64_t dt_value_int(const dt_value *value, const char *attribute) {
    int i = dt_op_attribute_index(value->op, attribute);
    assert(i >= 0 && (value->op->attributes[i].kind == DT_ATTR_INT || value->op->attributes[i].kind == DT_ATTR_DTYPE));
    return value->attributes[i].i;
}

double dt_value_number(const dt_value *value, const char *attribute) { return attribute_of(value, attribute, DT_ATTR_NUMBER)->f; }

dt_scalar dt_value_scalar(const dt_value *value, const char *attribute) {
    const dt_attribute *number = attribute_of(value, attribute, DT_ATTR_NUMBER);
    return dt_dtype_is_float(value->dtype) ? (dt_scalar){.f = number->f} : (dt_scalar){.i = number->i};
}

bool dt_value_bool(const dt_value *value, const char *attribute) { return attribute_of(value, attribute, DT_ATTR_BOOL)->i != 0; }

const char *dt_value_string(const dt_value *value, const char *attribute) { return attribute_of(value, attribute, DT_ATTR_STRING)->s; }

const int64_t *dt_value_ints(const dt_value *value, const char *attribute, int *n) {
    const dt_attribute *ints = attribute_of(value, attribute, DT_ATTR_INTS);
    *n = (int)ints->i;
    return ints->ints;
}

bool dt_value_is(const dt_value *value, const char *op) { return strcmp(value->op->name, op) == 0; }

bool dt_value_writes(const dt_value *value) { return value->op->class == DT_CLASS_STATE && value->n_operands > 0; }

bool dt_value_has_effect(const dt_value *value) {
    if (value->op->class != DT_CLASS_LOOP) return dt_value_writes(value);
    return dt_value_is(value, "end_loop") || dt_value_is(value, "advance");
}

/* ---- what varies from batch to batch ---- */

static ptrdiff_t variable_of(const dt_value *value) {
    return dt_module_find_variable(value->function->module, dt_value_string(value, "variable")) - value->function->module->variables.items;
}

/* [variables of the module] */
static bool *find_written(const dt_function *function) {
    bool *written = DT_NEW_ARRAY(function->module->arena, bool, function->module->variables.n);
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_writes(value)) written[variable_of(value)] = true;
    return written;
}

/* Apart from its operands. */
static bool varies_by_itself(const dt_value *value, const bool *written) {
    for (int d = 0; d < value->shape.rank; d++)
        if (value->shape.dims[d] < 0) return true;
    if (value->op->class == DT_CLASS_STATE) return written[variable_of(value)];
    if (dt_value_is(value, "launch")) {
        const char *name = dt_value_string(value, "name");
        return strcmp(name, "valid") == 0 || strcmp(name, "counter") == 0;
    }
    return value->op->class == DT_CLASS_RANDOM || dt_value_is(value, "input");
}

void dt_function_find_varying(const dt_function *function, bool *varies) {
    const bool *written = find_written(function);
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        varies[value->id] = varies_by_itself(value, written);
        for (int k = 0; k < value->n_operands; k++) varies[value->id] |= varies[value->operands[k]->id];
    }
}

/* ---- changing a function ---- */

dt_status *dt_value_error(const dt_value *value, dt_code code, const char *format, ...) {
    const dt_module *module = value->function->module;
    dt_location at = value->n_locations > 0 ? value->locations[0] : (dt_location){.file = -1};
    va_list arguments;
    va_start(arguments, format);
    dt_status *status = dt_error(code, "%s", dt_arena_vformat(module->arena, format, arguments));
    va_end(arguments);
    if (at.file < 0 || (size_t)at.file >= module->files.n) return dt_status_annotate(status, "function %s", value->function->name);
    const char *file = module->files.items[at.file];
    return dt_status_at(dt_status_annotate(status, "%s:%d:%d", file, at.line, at.column), file, at.line, at.column);
}

void dt_value_replace(dt_value *old, dt_value *replacement) {
    dt_function *function = old->function;
    for (dt_value *user = old->next; user != NULL; user = user->next)
        for (int i = 0; i < user->n_operands; i++)
            if (user->operands[i] == old) user->operands[i] = replacement;
    for (size_t i = 0; i < function->results.n; i++)
        if (function->results.items[i].value == old) function->results.items[i].value = replacement;
}

void dt_function_replace(dt_function *function, dt_value *const *replacements) {
    for (dt_value *user = function->first; user != NULL; user = user->next)
        for (int i = 0; i < user->n_operands; i++)
            if (replacements[user->operands[i]->id] != NULL) user->operands[i] = replacements[user->operands[i]->id];
    for (size_t i = 0; i < function->results.n; i++) {
        dt_value **result = &function->results.items[i].value;
        if (replacements[(*result)->id] != NULL) *result = replacements[(*result)->id];
    }
}

void dt_value_remove(dt_value *value) {
    dt_function *function = value->function;
    *(value->previous != NULL ? &value->previous->next : &function->first) = value->next;
    *(value->next != NULL ? &value->next->previous : &function->last) = value->previous;
    value->previous = value->next = NULL;
}

void dt_value_move(dt_value *value, dt_value *before) {
    dt_value_remove(value);
    value->next = before;
    value->previous = before->previous;
    *(before->previous != NULL ? &before->previous->next : &value->function->first) = value;
    before->previous = value;
}

static bool has_location(const dt_value *value, dt_location location) {
    for (int i = 0; i < value->n_locations; i++) {
        const dt_location *own = &value->locations[i];
        if (own->file == location.file && own->line == location.line && own->column == location.column) return true;
    }
    return false;
}

void dt_value_add_locations(dt_value *value, const dt_value *from) {
    if (value == from || from->n_locations == 0) return;
    dt_location *all = DT_NEW_ARRAY(value->function->module->arena, dt_location, value->n_locations + from->n_locations);
    if (value->n_locations > 0) memcpy(all, value->locations, (size_t)value->n_locations * sizeof *all);
    value->locations = all;
    for (int i = 0; i < from->n_locations; i++)
        if (!has_location(value, from->locations[i])) all[value->n_locations++] = from->locations[i];
}

static void mark_live(dt_value *value) { value->scratch = value; }

static bool is_live(const dt_value *value) { return value->scratch != NULL; }

/* A carry that is read advances, which may make other values live; true: some. */
static bool mark_advances(dt_function *function) {
    bool any = false;
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        if (is_live(value) || value->op->class != DT_CLASS_LOOP || !dt_value_is(value, "advance") || !is_live(value->operands[0])) continue;
        mark_live(value);
        any = true;
    }
    return any;
}

/* A loop stays while anything in its body does. Returns its end. */
static dt_value *mark_loop(dt_value *loop) {
    dt_value *value = loop->next;
    for (bool any = false; !dt_value_is(value, "end_loop"); value = value->next) {
        dt_value *inner = value;
        if (dt_value_is(value, "begin_loop")) value = mark_loop(value);
        any |= is_live(inner);
        if (any) mark_live(loop);
    }
    if (is_live(loop)) mark_live(value);
    return value;
}

void dt_function_sweep(dt_function *function) {
    for (dt_value *value = function->first; value != NULL; value = value->next) value->scratch = NULL;
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_writes(value)) mark_live(value);
    for (size_t i = 0; i < function->inputs.n; i++) mark_live(function->inputs.items[i]);
    for (size_t i = 0; i < function->results.n; i++) mark_live(function->results.items[i].value);
    do {
        for (dt_value *value = function->last; value != NULL; value = value->previous)
            for (int i = 0; i < value->n_operands && is_live(value); i++) mark_live(value->operands[i]);
    } while (mark_advances(function));
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (value->op->class == DT_CLASS_LOOP && dt_value_is(value, "begin_loop")) value = mark_loop(value);
    for (dt_value *value = function->last, *previous; value != NULL; value = previous) {
        previous = value->previous;
        if (!is_live(value)) dt_value_remove(value);
    }
}

void dt_function_renumber(dt_function *function) {
    function->next_id = 0;
    for (dt_value *value = function->first; value != NULL; value = value->next) value->id = function->next_id++;
}
