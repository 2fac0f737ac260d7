/* verify: see verify.h. Types are not compared rule by rule: the row infers them again, and the answer must be what the value says. */
#include "ir/verify.h"

#include "ir/body.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static dt_status *broken(const dt_value *value, const char *rule) {
    return dt_error(DT_INTERNAL, "function %s, %%%d = %s: %s", value->function->name, value->id, value->op->name, rule);
}

/* Of values that precede the one at hand; by itself, for an operand may be of another function. */
static void mark_defined(dt_value *value) { value->scratch = value; }
static bool is_defined(const dt_value *value) { return value->scratch == value; }

static dt_status *verify_operands(const dt_value *value) {
    for (int i = 0; i < value->n_operands; i++) {
        if (value->operands[i]->function != value->function) return broken(value, "an operand belongs to another function");
        if (!is_defined(value->operands[i])) return broken(value, "an operand is not defined before it");
    }
    return NULL;
}

static dt_status *verify_type(dt_arena *scratch, const dt_value *value) {
    dt_shape shape;
    dt_dtype dtype;
    dt_status *status =
        dt_op_infer(scratch, value->function->module, value->op, value->operands, value->n_operands, value->attributes, &shape, &dtype);
    if (status != NULL) return dt_status_annotate(status, "function %s, %%%d", value->function->name, value->id);
    if (dtype != value->dtype) return broken(value, "it has another dtype than its row infers");
    if (!dt_shape_equal(shape, value->shape)) return broken(value, "it has another shape than its row infers");
    return NULL;
}

static dt_status *verify_locations(const dt_value *value) {
    for (int i = 0; i < value->n_locations; i++)
        if (value->locations[i].file < 0 || (size_t)value->locations[i].file >= value->function->module->files.n)
            return broken(value, "a location names no file of the module");
    return NULL;
}

static bool is_input(const dt_function *function, const dt_value *value) {
    for (size_t i = 0; i < function->inputs.n; i++)
        if (function->inputs.items[i] == value) return true;
    return false;
}

static int compare_ids(const void *a, const void *b) {
    int first = *(const int *)a, second = *(const int *)b;
    return (first > second) - (first < second);
}

static dt_status *verify_ids(dt_arena *scratch, const dt_function *function, size_t n) {
    int *ids = DT_NEW_ARRAY(scratch, int, n);
    size_t i = 0;
    for (const dt_value *value = function->first; value != NULL; value = value->next) ids[i++] = value->id;
    qsort(ids, n, sizeof *ids, compare_ids);
    for (i = 1; i < n; i++)
        if (ids[i] == ids[i - 1]) return dt_error(DT_INTERNAL, "function %s: there are two values %%%d", function->name, ids[i]);
    if (n > 0 && (ids[0] < 0 || ids[n - 1] >= function->next_id))
        return dt_error(DT_INTERNAL, "function %s: a value has a number that was not given out", function->name);
    return NULL;
}

/* The list is linked both ways, the inputs stand first and in order, ids occur once. */
static dt_status *verify_order(dt_arena *scratch, const dt_function *function) {
    size_t n = 0;
    for (const dt_value *value = function->first, *previous = NULL; value != NULL; previous = value, value = value->next, n++) {
        if (value->previous != previous || value->function != function) return broken(value, "it is not linked where it stands");
        bool expected = n < function->inputs.n;
        if (expected && function->inputs.items[n] != value) return broken(value, "inputs do not stand first");
        if (!expected && (is_input(function, value) || dt_value_is(value, "input"))) return broken(value, "an input is not among the inputs");
    }
    if (n < function->inputs.n) return dt_error(DT_INTERNAL, "function %s: an input is not in its list", function->name);
    return verify_ids(scratch, function, n);
}

/* Each variable is read at most once and written at most once. */
static dt_status *verify_state(dt_arena *scratch, const dt_function *function) {
    size_t n = function->module->variables.n;
    bool *used[2] = {DT_NEW_ARRAY(scratch, bool, n), DT_NEW_ARRAY(scratch, bool, n)};
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        if (value->op->class != DT_CLASS_STATE) continue;
        const dt_variable *variable = dt_module_find_variable(function->module, dt_value_string(value, "variable"));
        bool *once = &used[value->n_operands > 0][variable - function->module->variables.items];
        if (*once) return broken(value, value->n_operands > 0 ? "the variable is written twice" : "the variable is read twice");
        *once = true;
    }
    return NULL;
}

static dt_status *verify_function(dt_arena *scratch, dt_function *function) {
    DT_TRY(verify_order(scratch, function));
    for (dt_value *value = function->first; value != NULL; value = value->next) value->scratch = NULL;
    size_t n = 0;
    for (dt_value *value = function->first; value != NULL; value = value->next, n++) {
        DT_TRY(verify_operands(value));
        if (n >= function->inputs.n) DT_TRY(verify_type(scratch, value));
        DT_TRY(verify_locations(value));
        mark_defined(value);
    }
    for (size_t i = 0; i < function->results.n; i++) {
        const dt_value *value = function->results.items[i].value;
        if (value->function != function || !is_defined(value))
            return dt_error(DT_INTERNAL, "function %s: its result %s is not in it", function->name, function->results.items[i].name);
    }
    DT_TRY(verify_state(scratch, function));
    return dt_bodies_verify(scratch, function);
}

/* Of its functions, inputs and results there are those that it names. */
static dt_status *verify_row_form(const dt_module *module, const dt_row_form *form) {
    bool is_sound = dt_module_find_variable(module, form->table) != NULL && form->index >= 0 && (size_t)form->index < form->indices->results.n &&
                    form->rows >= 0 && (size_t)form->rows < form->step->inputs.n && form->gradient >= -1 && form->first_number >= 0 &&
                    form->n_numbers >= 0 && (form->gradient < 0) == (form->update == NULL);
    if (is_sound && form->gradient >= 0) {
        size_t n_results = form->step->results.n, n_numbers = (size_t)form->n_numbers, n_tables = 1 + form->slots.n;
        is_sound = (size_t)form->gradient < n_results && (size_t)form->first_number + n_numbers <= n_results && form->update->results.n == n_tables &&
                   form->update->inputs.n == n_tables + 1 + n_numbers &&
                   (form->sum == NULL || (form->sum->results.n == 1 && form->sum->inputs.n == 1 + n_numbers));
        for (size_t s = 0; s < form->slots.n; s++) is_sound &= dt_module_find_variable(module, form->slots.items[s]) != NULL;
    }
    return is_sound ? NULL : dt_error(DT_INTERNAL, "the row form of %s for %s does not fit its functions", form->of->name, form->table);
}

/* What a step writes outlives it, and whoever runs it goes by what it says of itself. */
static dt_status *verify_step(const dt_step *step) {
    if (step->function == NULL || (size_t)step->n_aggregates > step->function->results.n)
        return dt_error(DT_INTERNAL, "step %s: its function returns fewer values than it has aggregates", step->name);
    for (const dt_value *value = step->function->first; value != NULL && !step->trains; value = value->next)
        if (dt_value_writes(value))
            return dt_error(DT_INTERNAL, "step %s writes %s, and is not said to train", step->name, dt_value_string(value, "variable"));
    return NULL;
}

/* Shards split each of the tensors that stand side by side, which are of equal length. */
static dt_status *verify_shard(const dt_module *module, const dt_variable *variable) {
    int axis = variable->shard_axis, groups = variable->shard_groups;
    if (axis < -1 || axis >= variable->shape.rank)
        return dt_error(DT_INTERNAL, "%s is split at dimension %d, and has %d", variable->path, axis, variable->shape.rank);
    if (groups < 1 || (axis < 0 && groups != 1)) return dt_error(DT_INTERNAL, "%s is split as %d tensors side by side", variable->path, groups);
    if (axis >= 0 && variable->shape.dims[axis] % groups != 0)
        return dt_error(DT_INTERNAL, "dimension %d of %s is not %d equal tensors side by side", axis, variable->path, groups);
    if (axis >= 0 && !dt_shards_all_have(variable->shape.dims[axis] / groups, module->n_shards))
        return dt_error(DT_INTERNAL, "dimension %d of %s leaves the last of %d shards nothing", axis, variable->path, (int)module->n_shards);
    return NULL;
}

static dt_status *verify_variables(const dt_module *module) {
    if (!dt_shards_are_valid(module->n_shards))
        return dt_error(DT_INTERNAL, "the number of shards must be a power of two from 1 to %d, and is not", DT_MOST_SHARDS);
    for (size_t i = 0; i < module->variables.n; i++) {
        const dt_variable *variable = &module->variables.items[i];
        if (dt_module_find_variable(module, variable->path) != variable) return dt_error(DT_INTERNAL, "there are two variables %s", variable->path);
        DT_TRY(verify_shard(module, variable));
    }
    return NULL;
}

static dt_status *verify_module(dt_arena *scratch, dt_module *module) {
    for (size_t i = 0; i < module->functions.n; i++) {
        if (dt_module_find_function(module, module->functions.items[i]->name) != module->functions.items[i])
            return dt_error(DT_INTERNAL, "there are two functions %s", module->functions.items[i]->name);
        DT_TRY(verify_function(scratch, module->functions.items[i]));
    }
    DT_TRY(verify_variables(module));
    for (size_t i = 0; i < module->row_variables.n; i++) {
        const dt_row_variable *variable = &module->row_variables.items[i];
        if (dt_module_find_variable(module, variable->path) == NULL || variable->init->inputs.n != 0 || variable->init->results.n != 1)
            return dt_error(DT_INTERNAL, "%s is no row variable, or %s not its initial values", variable->path, variable->init->name);
    }
    for (size_t i = 0; i < module->row_forms.n; i++) DT_TRY(verify_row_form(module, &module->row_forms.items[i]));
    for (size_t i = 0; i < module->steps.n; i++) DT_TRY(verify_step(&module->steps.items[i]));
    return NULL;
}

dt_status *dt_verify(dt_module *module) {
    dt_arena *scratch = dt_arena_create();
    jmp_buf guard;
    if (scratch == NULL || setjmp(guard)) {
        dt_arena_destroy(scratch);
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to verify %s", module->name);
    }
    dt_arena_guard(scratch, &guard);
    dt_status *status = verify_module(scratch, module);
    dt_arena_destroy(scratch);
    return status;
}
