/* rows: row forms of steps, for tables whose rows they take.
 *
 * A step that reads a table by gather alone needs the rows that a batch names, and changes no others, as long as the optimizer leaves rows without a
 * gradient alone. Of a table of ten million rows these are a few thousand. In the row form of the step the gathered rows are an input, and what a
 * scatter would add up is a result: the step cut in two at the table. Whoever runs it fetches rows and adds them up, in the order of the scatter and
 * of the tree over microbatches, so that the bits are those of the step as it is. The step itself stays, for those who have all of the table.
 *
 * A table has row forms if each step that knows it gathers rows of it once, along its first dimension, by indices that need no table; and if all else
 * that a step does with it goes row by row: gradient, slots and parameter, element by element, with numbers that are the same for all. A norm of the
 * gradient, a product with the table itself, or a reduction over a slot are not of that kind. Small tables are left as they are: a form is the step
 * compiled once more, and worth it where a batch names a small part of the rows.
 *
 * It runs after partition, whose graph has all that decides bits: what crosses replicas is known, and the forms are made of the same values. */
#include "compiler/passes/rows.h"

#include "ir/body.h"

#include <string.h>

enum {
    WORTH = 8 /* rows of a table, for each that a replica's batch names */
};

/* ---- how a step uses a table ---- */

typedef struct finding {
    dt_arena *arena;
    dt_table_use use;
    dt_value *read;
    bool *uniform;     /* [next_id] dt_rows_find_uniform */
    bool *numbered;    /* [next_id] uniform values whose numbers are among use.numbers */
    dt_value **bodies; /* [next_id] of loops */
    dt_value *other;   /* what uses the table, its gradient or a slot in another way; NULL so far */
    bool more;         /* a value was found to go row by row */
} finding;

static bool is_uniform(const bool *uniform, const dt_value *value) {
    if (dt_value_is(value, "constant")) return true;
    if (dt_value_is(value, "broadcast")) return value->operands[0]->shape.rank == 0;
    if (value->op->class != DT_CLASS_MAP || value->n_operands == 0) return false;
    for (int k = 0; k < value->n_operands; k++)
        if (!uniform[value->operands[k]->id]) return false;
    return true;
}

bool *dt_rows_find_uniform(dt_arena *arena, const dt_function *function) {
    bool *uniform = DT_NEW_ARRAY(arena, bool, function->next_id);
    for (const dt_value *value = function->first; value != NULL; value = value->next) uniform[value->id] = is_uniform(uniform, value);
    return uniform;
}

static bool names(const dt_value *value, const char *variable) {
    return value->op->class == DT_CLASS_STATE && strcmp(dt_value_string(value, "variable"), variable) == 0;
}

static bool is_slot(const finding *f, const dt_value *value) {
    if (value->op->class != DT_CLASS_STATE) return false;
    const dt_variable *variable = dt_module_find_variable(f->use.function->module, dt_value_string(value, "variable"));
    return variable->kind == DT_VARIABLE_SLOT && variable->dtype == DT_F32 && dt_shape_equal(variable->shape, f->use.table->shape);
}

static void refuse(finding *f, dt_value *value) {
    if (f->other == NULL) f->other = value;
}

static bool is_only(dt_value **known, dt_value *value) {
    if (*known == NULL) *known = value;
    return *known == value;
}

/* The numbers that uniform values repeat. */
static void add_numbers(finding *f, dt_value *value) {
    if (f->numbered[value->id]) return;
    f->numbered[value->id] = true;
    for (int k = 0; k < value->n_operands && !dt_value_is(value, "broadcast"); k++) add_numbers(f, value->operands[k]);
    if (!dt_value_is(value, "broadcast") || dt_value_is(value->operands[0], "constant")) return;
    for (size_t i = 0; i < f->use.numbers.n; i++)
        if (f->use.numbers.items[i] == value->operands[0]) return;
    dt_list_push(f->arena, &f->use.numbers, value->operands[0]);
}

/* The value, and what it is computed of, goes row by row; or it is in the way. */
static void claim(finding *f, dt_value *value) {
    if (f->use.by_row[value->id]) return;
    if (f->uniform[value->id]) {
        add_numbers(f, value);
        return;
    }
    bool reads = value->op->class == DT_CLASS_STATE && value->n_operands == 0;
    bool is_sum = dt_value_is(value, "all_reduce") && strcmp(dt_value_string(value, "kind"), "sum") == 0;
    bool is_scatter = dt_value_is(value, "scatter_add") && dt_value_int(value, "axis") == 0;
    bool goes_by_row =
        reads ? value == f->read || is_slot(f, value)
              : value->op->class == DT_CLASS_MAP || (is_sum && is_only(&f->use.crossing, value)) || (is_scatter && is_only(&f->use.scatter, value));
    if (!goes_by_row || !dt_shape_equal(value->shape, f->use.table->shape) || f->bodies[value->id] != NULL) {
        refuse(f, value);
        return;
    }
    f->use.by_row[value->id] = f->more = true;
    if (reads && value != f->read) dt_list_push(f->arena, &f->use.slots, value);
    for (int k = 0; k < value->n_operands && !is_scatter; k++) claim(f, value->operands[k]);
}

/* A value that reads what goes row by row. */
static void look_at_user(finding *f, dt_value *user, const dt_value *of) {
    bool takes_rows = of == f->read && dt_value_is(user, "gather") && user->operands[0] == of && dt_value_int(user, "axis") == 0;
    if (takes_rows && is_only(&f->use.gather, user)) return;
    if (names(user, f->use.table->path) || is_slot(f, user)) return;
    if (takes_rows || (user->op->class != DT_CLASS_MAP && user->op->class != DT_CLASS_COLLECTIVE))
        refuse(f, user);
    else
        claim(f, user);
}

static void follow(finding *f) {
    for (f->more = true; f->more && f->other == NULL;) {
        f->more = false;
        for (dt_value *user = f->use.function->first; user != NULL; user = user->next)
            for (int k = 0; k < user->n_operands; k++)
                if (f->use.by_row[user->operands[k]->id]) look_at_user(f, user, user->operands[k]);
    }
    for (size_t r = 0; r < f->use.function->results.n; r++)
        if (f->use.by_row[f->use.function->results.items[r].value->id]) refuse(f, f->use.function->results.items[r].value);
}

/* Each slot's own write; what is written to it has been claimed, or is uniform. */
static void find_slot_writes(finding *f) {
    for (size_t s = 0; s < f->use.slots.n; s++) {
        dt_value *write = NULL;
        for (dt_value *value = f->use.function->first; value != NULL; value = value->next)
            if (dt_value_writes(value) && names(value, dt_value_string(f->use.slots.items[s], "variable"))) write = value;
        if (write != NULL) claim(f, write->operands[0]);
        dt_list_push(f->arena, &f->use.slot_writes, write);
    }
}

static bool is_of_rows(const dt_value *value) {
    return value->distribution.kind == DT_SPLIT && value->distribution.axis == 0 && value->shape.dims[0] == DT_BATCH;
}

static bool is_known_before(const finding *f, const bool *known, const dt_value *value) {
    if (value->op->class == DT_CLASS_COLLECTIVE || value->op->class == DT_CLASS_LOOP || f->use.by_row[value->id]) return false;
    if (f->bodies[value->id] != NULL || dt_shape_count(value->shape, DT_GATHERED) > 0) return false;
    if (value->op->class == DT_CLASS_STATE)
        for (const dt_value *other = f->use.function->first; other != NULL; other = other->next)
            if (dt_value_writes(other) && names(other, dt_value_string(value, "variable"))) return false;
    for (int k = 0; k < value->n_operands; k++)
        if (!known[value->operands[k]->id]) return false;
    return true;
}

/* Whether what says which rows can be known before the step: without its tables, what crosses replicas, and what it writes. */
static bool index_is_known_before(const finding *f, const dt_value *index) {
    bool *known = DT_NEW_ARRAY(f->arena, bool, f->use.function->next_id);
    for (const dt_value *value = f->use.function->first; value != index; value = value->next) known[value->id] = is_known_before(f, known, value);
    return is_known_before(f, known, index);
}

/* A slot that is written and never read, or one that is no slot of the table. */
static dt_value *unknown_write(const finding *f) {
    for (dt_value *value = f->use.function->first; value != NULL; value = value->next) {
        bool is_known = !dt_value_writes(value) || !f->use.by_row[value->operands[0]->id] || value == f->use.write;
        for (size_t s = 0; s < f->use.slots.n; s++) is_known |= value == f->use.slot_writes.items[s];
        if (!is_known) return value;
    }
    return NULL;
}

/* NULL, or what is in the way. */
static dt_value *obstacle(const finding *f) {
    const dt_table_use *use = &f->use;
    const dt_module *module = use->function->module;
    if (!dt_rows_can_begin(module, use->table->path)) return f->read;
    for (size_t s = 0; s < use->slots.n; s++)
        if (!dt_rows_can_begin(module, dt_value_string(use->slots.items[s], "variable"))) return use->slots.items[s];
    if (f->other != NULL) return f->other;
    dt_value *write = unknown_write(f);
    if (write != NULL) return write;
    if (use->gather == NULL) return f->read;
    dt_value *index = use->gather->operands[1];
    if (!is_of_rows(use->gather) || !is_of_rows(index) || f->bodies[use->gather->id] != NULL || !index_is_known_before(f, index)) return use->gather;
    if (use->write == NULL) return use->slots.n > 0 ? use->slots.items[0] : NULL;
    if (use->scatter == NULL || use->crossing == NULL) return use->write;
    return use->scatter->operands[1] == index && is_of_rows(use->scatter->operands[0]) ? NULL : use->scatter;
}

/* What the function does with the table; *in_the_way: a value that does something else, or NULL. */
static dt_table_use find_use(dt_arena *arena, dt_function *function, const dt_variable *table, dt_value **in_the_way) {
    dt_function_renumber(function);
    finding f = {.arena = arena, .use = {.function = function, .table = table}};
    f.use.by_row = DT_NEW_ARRAY(arena, bool, function->next_id);
    f.uniform = dt_rows_find_uniform(arena, function);
    f.numbered = DT_NEW_ARRAY(arena, bool, function->next_id);
    f.bodies = DT_NEW_ARRAY(arena, dt_value *, function->next_id);
    dt_function_find_bodies(function, f.bodies);
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (names(value, table->path)) *(dt_value_writes(value) ? &f.use.write : &f.read) = value;
    *in_the_way = f.read == NULL ? f.use.write : NULL;
    if (f.read == NULL) return f.use;
    claim(&f, f.read);
    if (f.use.write != NULL) claim(&f, f.use.write->operands[0]);
    follow(&f);
    find_slot_writes(&f);
    follow(&f);
    *in_the_way = obstacle(&f);
    return f.use;
}

/* ---- tables ---- */

static bool is_table(const dt_variable *variable) {
    return variable->kind == DT_VARIABLE_PARAMETER && variable->shape.rank == 2 && variable->dtype == DT_F32;
}

static bool is_worth_it(const dt_module *module, const dt_table_use *use) {
    int64_t capacity = module->capacity > 0 ? module->capacity : 1;
    return use->table->shape.dims[0] >= WORTH * capacity * dt_shape_elements_per_row(use->gather->operands[1]->shape);
}

/* For the user, of a large table that some step takes rows of. */
static void say_dense(dt_compilation *compilation, const dt_variable *table, const dt_value *in_the_way) {
    const dt_module *module = compilation->module;
    dt_location at = in_the_way->n_locations > 0 ? in_the_way->locations[0] : (dt_location){.file = -1};
    const char *place = at.file >= 0 ? dt_arena_format(compilation->arena, "%s:%d", module->files.items[at.file], at.line) : "the program";
    const char *why =
        dt_arena_format(compilation->arena, "%s needs more of it, of its gradient or of a slot than the rows that a batch names", place);
    dt_list_push(compilation->arena, &compilation->dense_tables, ((dt_dense_table){table->path, why}));
}

/* The uses of a table by all steps, where there is nothing else; [functions]. NULL: it stays as it is. */
static dt_table_use *find_uses(dt_compilation *compilation, const dt_variable *table) {
    const dt_module *module = compilation->module;
    int n = (int)module->functions.n;
    dt_table_use *uses = DT_NEW_ARRAY(compilation->arena, dt_table_use, n);
    dt_value *in_the_way = NULL;
    bool any = false;
    for (int f = 0; f < n; f++) {
        dt_value *here = NULL;
        if (module->functions.items[f]->role != DT_ROLE_STEP) continue;
        uses[f] = find_use(compilation->arena, module->functions.items[f], table, &here);
        if (in_the_way == NULL) in_the_way = here;
        if (uses[f].gather == NULL) continue;
        if (!is_worth_it(module, &uses[f])) return NULL;
        any = true;
    }
    if (any && in_the_way != NULL) say_dense(compilation, table, in_the_way);
    return any && in_the_way == NULL ? uses : NULL;
}

/* [variables] Whether some step gathers from it: there are many matrices, and few tables. */
static bool *find_gathered(dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    bool *gathered = DT_NEW_ARRAY(compilation->arena, bool, module->variables.n);
    for (size_t f = 0; f < module->functions.n; f++)
        for (const dt_value *value = module->functions.items[f]->first; value != NULL; value = value->next)
            if (dt_value_is(value, "gather") && dt_value_is(value->operands[0], "read"))
                gathered[dt_module_find_variable(module, dt_value_string(value->operands[0], "variable")) - module->variables.items] = true;
    return gathered;
}

dt_status *dt_pass_rows(dt_compilation *compilation) {
    dt_module *module = compilation->module;
    if (module->n_shards > 1) return NULL; /* nobody would ask a shard for rows */
    int n_tables = 0, n_functions = (int)module->functions.n;
    dt_table_use **all = DT_NEW_ARRAY(compilation->arena, dt_table_use *, module->variables.n);
    const bool *gathered = find_gathered(compilation);
    for (size_t v = 0; v < module->variables.n; v++) {
        if (!is_table(&module->variables.items[v]) || !gathered[v]) continue;
        all[n_tables] = find_uses(compilation, &module->variables.items[v]);
        n_tables += all[n_tables] != NULL;
    }
    dt_table_use *uses = DT_NEW_ARRAY(compilation->arena, dt_table_use, n_tables);
    for (int f = 0; f < n_functions; f++) {
        int n = 0;
        for (int t = 0; t < n_tables; t++)
            if (all[t][f].gather != NULL) uses[n++] = all[t][f];
        if (n > 0) DT_TRY(dt_rows_make_forms(module, uses, n));
    }
    return n_tables > 0 ? dt_rows_make_inits(module) : NULL;
}
