/* rows_forms: makes the row forms of a step (ir/graph.h, dt_row_form) of what rows.c has found. All are copies of parts of the step, so that they
 * compute with the same bits. */
#include "compiler/passes/rows.h"

#include <string.h>

/* A copy that is being made: of each value of the step, by id, what stands for it. NULL: nothing does yet. */
typedef struct copying {
    dt_module *module;
    dt_function *to;
    dt_value **copies;
    int64_t table_rows; /* a first dimension that has become B; 0: none has */
} copying;

static copying begin(dt_module *module, const dt_function *from, const char *name, int64_t table_rows) {
    return (copying){module, dt_module_add_function(module, name, DT_ROLE_ROWS), DT_NEW_ARRAY(module->arena, dt_value *, from->next_id), table_rows};
}

static dt_distribution distribution_of(const dt_value *value) {
    bool has_rows = value->shape.rank > 0 && value->shape.dims[0] == DT_BATCH;
    return (dt_distribution){.kind = has_rows ? DT_SPLIT : DT_REPLICATED};
}

static dt_value *add_input(copying *c, const char *name, dt_shape shape, const dt_value *like) {
    dt_location location = like->n_locations > 0 ? like->locations[0] : (dt_location){0};
    dt_value *input = dt_build_input(c->to, name, like->dtype, shape, location);
    input->distribution = distribution_of(input);
    return input;
}

static void add_result(copying *c, const char *name, const dt_value *of) {
    dt_list_push(c->module->arena, &c->to->results, ((dt_result){name, c->copies[of->id]}));
}

/* ---- values as they are ---- */

static dt_status *copy_value(copying *c, const dt_value *value) {
    dt_builder builder = {.function = c->to, .locations = value->locations, .n_locations = value->n_locations};
    dt_value **operands = DT_NEW_ARRAY(c->module->arena, dt_value *, value->n_operands), *copy;
    for (int k = 0; k < value->n_operands; k++) operands[k] = c->copies[value->operands[k]->id];
    DT_TRY(dt_build_copy(&builder, value, operands, &copy));
    copy->name = value->name;
    c->copies[value->id] = copy;
    return NULL;
}

static void copy_inputs(copying *c, const dt_function *from) {
    for (size_t i = 0; i < from->inputs.n; i++) {
        const dt_value *input = from->inputs.items[i];
        c->copies[input->id] = add_input(c, input->name, input->shape, input);
    }
}

/* The step without what `uses` take over, and without writes where it is to have no effect. */
static dt_status *copy_step(copying *c, const dt_table_use *uses, int n, bool writes) {
    for (const dt_value *value = uses[0].function->first; value != NULL; value = value->next) {
        bool is_left = c->copies[value->id] != NULL || (dt_value_writes(value) && !writes);
        for (int u = 0; u < n && !is_left; u++) {
            is_left = uses[u].by_row[value->id] || value == uses[u].write;
            for (size_t s = 0; s < uses[u].slots.n; s++) is_left |= value == uses[u].slot_writes.items[s];
        }
        for (int k = 0; k < value->n_operands && !is_left; k++) is_left = c->copies[value->operands[k]->id] == NULL;
        if (!is_left) DT_TRY(copy_value(c, value));
    }
    return NULL;
}

static void finish(copying *c) {
    dt_function_sweep(c->to);
    dt_function_renumber(c->to);
}

/* ---- indices, step ---- */

static dt_status *make_indices(dt_module *module, const dt_table_use *uses, int n, dt_row_form *forms) {
    dt_function *from = uses[0].function;
    copying c = begin(module, from, dt_arena_format(module->arena, "%s/indices", from->name), 0);
    copy_inputs(&c, from);
    DT_TRY(copy_step(&c, uses, n, false));
    for (int u = 0; u < n; u++) {
        forms[u].indices = c.to;
        forms[u].index = (int)c.to->results.n;
        add_result(&c, dt_arena_format(module->arena, "index%d", u), uses[u].gather->operands[1]);
    }
    finish(&c);
    return NULL;
}

static dt_status *make_step(dt_module *module, const dt_table_use *uses, int n, dt_row_form *forms) {
    dt_function *from = uses[0].function;
    copying c = begin(module, from, dt_arena_format(module->arena, "%s/rows", from->name), 0);
    copy_inputs(&c, from);
    for (int u = 0; u < n; u++) {
        const dt_value *gather = uses[u].gather;
        forms[u].step = c.to;
        forms[u].rows = (int)c.to->inputs.n;
        c.copies[gather->id] = add_input(&c, dt_arena_format(module->arena, "rows%d", u), gather->shape, gather);
    }
    DT_TRY(copy_step(&c, uses, n, true));
    for (size_t r = 0; r < from->results.n; r++) add_result(&c, from->results.items[r].name, from->results.items[r].value);
    for (int u = 0; u < n; u++) {
        forms[u].gradient = -1;
        if (uses[u].scatter == NULL) continue;
        forms[u].gradient = (int)c.to->results.n;
        add_result(&c, dt_arena_format(module->arena, "gradient%d", u), uses[u].scatter->operands[0]);
        forms[u].first_number = (int)c.to->results.n;
        forms[u].n_numbers = (int)uses[u].numbers.n;
        for (size_t i = 0; i < uses[u].numbers.n; i++) add_result(&c, dt_arena_format(module->arena, "number%d_%zu", u, i), uses[u].numbers.items[i]);
    }
    finish(&c);
    return NULL;
}

/* ---- sum, update ---- */

static dt_shape by_rows(const copying *c, dt_shape shape) {
    int64_t *dims = dt_arena_copy(c->module->arena, shape.dims, (size_t)shape.rank * sizeof *dims);
    if (shape.rank > 0 && dims[0] == c->table_rows) dims[0] = DT_BATCH;
    return (dt_shape){shape.rank, dims};
}

/* An element of row r is drawn by its number there, whichever row is the first. */
static dt_status *build_random(copying *c, dt_builder *builder, const dt_value *value) {
    int shape = dt_op_attribute_index(value->op, "shape");
    dt_attribute *attributes = dt_arena_copy(c->module->arena, value->attributes, (size_t)value->op->n_attributes * sizeof *attributes);
    attributes[shape].ints = by_rows(c, value->shape).dims;
    return dt_build(builder, value->op, NULL, 0, attributes, &c->copies[value->id]);
}

/* A value of the table's shape, for B of its rows. */
static dt_status *copy_by_rows(copying *c, dt_value *value) {
    dt_builder builder = {.function = c->to, .locations = value->locations, .n_locations = value->n_locations};
    dt_value **copy = &c->copies[value->id];
    if (*copy != NULL) return NULL;
    for (int k = 0; k < value->n_operands; k++) DT_TRY(copy_by_rows(c, value->operands[k]));
    if (dt_value_is(value, "constant"))
        DT_TRY(dt_build_constant_like(&builder, copy, value, by_rows(c, value->shape)));
    else if (dt_value_is(value, "broadcast"))
        DT_TRY(dt_build_broadcast(&builder, copy, c->copies[value->operands[0]->id], by_rows(c, value->shape), (const int64_t[]){0}));
    else if (value->op->class == DT_CLASS_RANDOM)
        DT_TRY(build_random(c, &builder, value));
    else
        DT_TRY(copy_value(c, value));
    (*copy)->distribution = distribution_of(*copy);
    return NULL;
}

static dt_shape row_shape(dt_arena *arena, const dt_table_use *use) {
    return dt_shape_make(arena, 2, (const int64_t[]){DT_BATCH, use->table->shape.dims[1]});
}

static void add_numbers(copying *c, const dt_table_use *use) {
    for (size_t i = 0; i < use->numbers.n; i++) {
        const dt_value *number = use->numbers.items[i];
        c->copies[number->id] = add_input(c, dt_arena_format(c->module->arena, "number%zu", i), dt_shape_scalar(), number);
    }
}

/* Where what crosses is not the gradient itself. */
static dt_status *make_sum(dt_module *module, const dt_table_use *use, const char *name, dt_row_form *form) {
    dt_value *crossing = use->crossing->operands[0];
    if (crossing == use->scatter) return NULL;
    copying c = begin(module, use->function, dt_arena_format(module->arena, "%s/sum", name), use->table->shape.dims[0]);
    c.copies[use->scatter->id] = add_input(&c, "gradient", row_shape(module->arena, use), use->scatter);
    add_numbers(&c, use);
    DT_TRY(copy_by_rows(&c, crossing));
    add_result(&c, "crossing", crossing);
    finish(&c);
    form->sum = c.to;
    return NULL;
}

/* The values before the update are inputs, so that what it gives is read beside them. */
static dt_status *make_update(dt_module *module, const dt_table_use *use, const char *name, dt_row_form *form) {
    dt_arena *arena = module->arena;
    dt_shape shape = row_shape(arena, use);
    copying c = begin(module, use->function, dt_arena_format(arena, "%s/update", name), use->table->shape.dims[0]);
    c.copies[use->gather->operands[0]->id] = add_input(&c, "table", shape, use->gather->operands[0]);
    for (size_t s = 0; s < use->slots.n; s++) {
        dt_value *slot = use->slots.items[s];
        c.copies[slot->id] = add_input(&c, dt_arena_format(arena, "slot%zu", s), shape, slot);
        dt_list_push(arena, &form->slots, dt_value_string(slot, "variable"));
    }
    c.copies[use->crossing->id] = add_input(&c, "gradient", shape, use->crossing);
    add_numbers(&c, use);
    DT_TRY(copy_by_rows(&c, use->write->operands[0]));
    add_result(&c, "table", use->write->operands[0]);
    for (size_t s = 0; s < use->slots.n; s++) {
        dt_value *write = use->slot_writes.items[s], *becomes = write != NULL ? write->operands[0] : use->slots.items[s];
        DT_TRY(copy_by_rows(&c, becomes));
        add_result(&c, dt_arena_format(arena, "slot%zu", s), becomes);
    }
    finish(&c);
    form->update = c.to;
    return dt_rows_find_moves(arena, form, &form->moves);
}

/* ---- initial values ---- */

static const dt_function *initialiser(const dt_module *module) {
    for (size_t f = 0; f < module->functions.n; f++)
        if (module->functions.items[f]->role == DT_ROLE_INIT) return module->functions.items[f];
    return NULL;
}

static dt_value *initial_value(const dt_module *module, const char *variable) {
    const dt_function *init = initialiser(module);
    for (dt_value *value = init != NULL ? init->first : NULL; value != NULL; value = value->next)
        if (dt_value_writes(value) && strcmp(dt_value_string(value, "variable"), variable) == 0) return value->operands[0];
    return NULL;
}

static bool goes_by_row(const bool *by_row, const bool *uniform, const dt_value *value) {
    if (uniform[value->id] || value->op->class == DT_CLASS_RANDOM) return true;
    if (value->op->class != DT_CLASS_MAP) return false;
    for (int k = 0; k < value->n_operands; k++)
        if (!by_row[value->operands[k]->id]) return false;
    return true;
}

/* An element has to depend on its own number alone: where it is drawn, or made of what is drawn. */
bool dt_rows_can_begin(const dt_module *module, const char *variable) {
    const dt_value *initial = initial_value(module, variable);
    if (initial == NULL) return false;
    const bool *uniform = dt_rows_find_uniform(module->arena, initial->function);
    bool *by_row = DT_NEW_ARRAY(module->arena, bool, initial->function->next_id);
    for (const dt_value *value = initial->function->first; value != initial; value = value->next)
        by_row[value->id] = goes_by_row(by_row, uniform, value);
    return goes_by_row(by_row, uniform, initial);
}

static bool is_row_variable(const dt_module *module, const char *path) {
    for (size_t i = 0; i < module->row_variables.n; i++)
        if (strcmp(module->row_variables.items[i].path, path) == 0) return true;
    return false;
}

static void add_row_variable(dt_module *module, const char *path) {
    if (!is_row_variable(module, path)) dt_list_push(module->arena, &module->row_variables, ((dt_row_variable){.path = path}));
}

/* Of all variables but those of rows. */
static dt_status *make_row_init(dt_module *module, const dt_function *init) {
    copying c = begin(module, init, dt_arena_format(module->arena, "%s/rows", init->name), 0);
    for (const dt_value *value = init->first; value != NULL; value = value->next)
        if (!dt_value_writes(value) || !is_row_variable(module, dt_value_string(value, "variable"))) DT_TRY(copy_value(&c, value));
    finish(&c);
    module->row_init = c.to;
    return NULL;
}

dt_status *dt_rows_make_inits(dt_module *module) {
    const dt_function *init = initialiser(module);
    for (size_t i = 0; i < module->row_forms.n; i++) {
        add_row_variable(module, module->row_forms.items[i].table);
        for (size_t s = 0; s < module->row_forms.items[i].slots.n; s++) add_row_variable(module, module->row_forms.items[i].slots.items[s]);
    }
    for (size_t i = 0; i < module->row_variables.n; i++) {
        dt_row_variable *variable = &module->row_variables.items[i];
        dt_value *value = initial_value(module, variable->path);
        copying c = begin(module, init, dt_arena_format(module->arena, "%s/rows%zu", init->name, i), value->shape.dims[0]);
        DT_TRY(copy_by_rows(&c, value));
        add_result(&c, "rows", value);
        finish(&c);
        variable->init = c.to;
    }
    return make_row_init(module, init);
}

/* ---- all of it ---- */

dt_status *dt_rows_make_forms(dt_module *module, const dt_table_use *uses, int n) {
    dt_arena *arena = module->arena;
    dt_row_form *forms = DT_NEW_ARRAY(arena, dt_row_form, n);
    DT_TRY(make_indices(module, uses, n, forms));
    DT_TRY(make_step(module, uses, n, forms));
    for (int u = 0; u < n; u++) {
        const dt_value *gather = uses[u].gather;
        const char *name = dt_arena_format(arena, "%s/rows%d", uses[u].function->name, u);
        forms[u].table = uses[u].table->path;
        forms[u].of = uses[u].function;
        forms[u].location = gather->n_locations > 0 ? gather->locations[0] : (dt_location){.file = -1};
        if (forms[u].gradient >= 0) DT_TRY(make_sum(module, &uses[u], name, &forms[u]));
        if (forms[u].gradient >= 0) DT_TRY(make_update(module, &uses[u], name, &forms[u]));
        dt_list_push(arena, &module->row_forms, forms[u]);
    }
    return NULL;
}
