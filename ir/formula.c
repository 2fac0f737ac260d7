/* formula: see formula.h. Gives the syntax of expression.h its meaning over scalars, and types to what came out. */
#include "ir/formula.h"

#include "abi/launch.h"
#include "ir/formula_syntax.h"
#include "ir/graph.h"

#include <assert.h>
#include <string.h>

typedef struct scope {
    dt_arena *arena;
    const char *text;
    const char *const *names, *const *attributes;
    int n_names, n_attributes;
    int n_nodes;
} scope;

static const struct {
    const char *text;
    int n_arguments;
    char result;
} scalars[DT_N_SCALARS] = {
#define X(enumerator, text, operands, result) {text, operands, result},
    DT_SCALARS(X)
#undef X
};

const char *dt_scalar_text(dt_scalar_op scalar) { return scalars[scalar].text; }
int dt_scalar_n_operands(dt_scalar_op scalar) { return scalars[scalar].n_arguments; }
char dt_scalar_result(dt_scalar_op scalar) { return scalars[scalar].result; }

static const char *const launch_fields[] = {
#define X(name, type, dtype, meaning) #name,
    DT_LAUNCH_FIELDS(X)
#undef X
};

static int find(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

const char *dt_launch_field_name(int field) { return launch_fields[field]; }
int dt_launch_field_find(const char *name) { return find(launch_fields, DT_N_LAUNCH_FIELDS, name); }

static int find_function(const char *name) {
    for (size_t i = 0; i < dt_n_scalar_functions; i++)
        if (strcmp(dt_scalar_function_at(i)->name, name) == 0) return (int)i;
    return -1;
}

static int find_scalar(const char *name) {
    int scalar = 0;
    while (scalar < DT_N_SCALARS && strcmp(scalars[scalar].text, name) != 0) scalar++;
    return scalar < DT_N_SCALARS ? scalar : -1;
}

static dt_status *unknown(const scope *scope, const char *what, const char *name) {
    return dt_error(DT_INTERNAL, "formula \"%s\": %s %s", scope->text, what, name);
}

static dt_status *give_meaning(scope *scope, dt_formula_syntax *syntax, dt_formula **result);

static dt_status *name_meaning(const scope *scope, const char *name, dt_formula *node) {
    node->kind = DT_FORMULA_OPERAND;
    node->index = find(scope->names, scope->n_names, name);
    if (node->index >= 0) return NULL;
    node->kind = DT_FORMULA_ATTRIBUTE;
    node->index = find(scope->attributes, scope->n_attributes, name);
    return node->index >= 0 ? NULL : unknown(scope, "nothing is called", name);
}

/* inside(x), loop(k), launch(name): calls whose argument is a name or a number and no value. */
static dt_status *place_meaning(scope *scope, const dt_formula_syntax *call, dt_formula *node, bool *is_place) {
    const dt_formula_syntax *argument = call->arguments[0];
    const char *name = argument->kind == DT_FORMULA_SYNTAX_NAME ? argument->name : "";
    *is_place = true;
    if (strcmp(call->name, "inside") == 0) {
        node->kind = DT_FORMULA_INSIDE;
        node->index = find(scope->names, scope->n_names, name);
    } else if (strcmp(call->name, "loop") == 0) {
        node->kind = DT_FORMULA_LOOP;
        node->index = argument->kind == DT_FORMULA_SYNTAX_NUMBER ? (int)argument->integer : -1;
    } else if (strcmp(call->name, "launch") == 0) {
        node->kind = DT_FORMULA_LAUNCH;
        node->index = dt_launch_field_find(name);
    } else {
        *is_place = false;
        return NULL;
    }
    if (node->index < 0 && node->kind != DT_FORMULA_INSIDE && find(scope->attributes, scope->n_attributes, name) >= 0) {
        node->index = 0;
        node->n_arguments = 1;
        return give_meaning(scope, call->arguments[0], &node->arguments[0]);
    }
    return node->index >= 0 ? NULL : unknown(scope, "a wrong argument for", call->name);
}

/* Which node a call is, its arguments aside; `wanted`: how many arguments that takes. */
static bool call_meaning(const scope *scope, const char *name, dt_formula *node, int *wanted) {
    *wanted = 1;
    node->kind = DT_FORMULA_CONVERT;
    node->dtype = dt_dtype_from_name(name);
    if (node->dtype != DT_N_DTYPES) return true;
    node->index = find(scope->attributes, scope->n_attributes, name);
    if (node->index >= 0) return true;
    if (strncmp(name, "bits_", 5) == 0) {
        node->kind = DT_FORMULA_BITS;
        node->dtype = dt_dtype_from_name(name + 5);
        return node->dtype != DT_N_DTYPES;
    }
    int scalar = find_scalar(name);
    if (scalar >= 0) {
        node->kind = DT_FORMULA_SCALAR;
        node->scalar = (dt_scalar_op)scalar;
        *wanted = scalars[scalar].n_arguments;
        return true;
    }
    node->kind = DT_FORMULA_FUNCTION;
    node->index = find_function(name);
    if (node->index < 0) return false;
    *wanted = dt_scalar_function_at((size_t)node->index)->n_arguments;
    return true;
}

static dt_status *number_arguments(scope *scope, dt_formula_syntax *call, dt_formula *node) {
    for (int i = 0; i < call->n_arguments; i++) DT_TRY(give_meaning(scope, call->arguments[i], &node->arguments[i]));
    node->n_arguments = call->n_arguments;
    return NULL;
}

static bool is_literal(const dt_formula *node) {
    if (node->kind != DT_FORMULA_SCALAR && node->kind != DT_FORMULA_FUNCTION)
        return node->kind == DT_FORMULA_LITERAL || node->kind == DT_FORMULA_ATTRIBUTE;
    for (int i = 0; i < node->n_arguments; i++)
        if (!is_literal(node->arguments[i])) return false;
    return true;
}

static dt_status *give_meaning(scope *scope, dt_formula_syntax *syntax, dt_formula **result) {
    *result = syntax->meaning;
    if (*result != NULL) return NULL;
    dt_formula *node = *result = DT_NEW(scope->arena, dt_formula);
    node->dtype = DT_N_DTYPES;
    if (syntax->kind == DT_FORMULA_SYNTAX_NUMBER) {
        node->kind = DT_FORMULA_LITERAL;
        node->literal = syntax->number;
        node->literal_is_integer = syntax->is_integer;
        node->integer = syntax->integer;
    } else if (syntax->kind == DT_FORMULA_SYNTAX_NAME) {
        DT_TRY(name_meaning(scope, syntax->name, node));
    } else {
        bool is_place;
        DT_TRY(place_meaning(scope, syntax, node, &is_place));
        if (!is_place) {
            int wanted;
            if (!call_meaning(scope, syntax->name, node, &wanted)) return unknown(scope, "there is no function", syntax->name);
            if (wanted != syntax->n_arguments) return unknown(scope, "a wrong number of arguments for", syntax->name);
            DT_TRY(number_arguments(scope, syntax, node));
        }
    }
    node->number = scope->n_nodes++;
    /* Literals are not shared: each takes the type of its own neighbour. */
    if (!is_literal(node)) syntax->meaning = node;
    return NULL;
}

dt_status *dt_formula_parse(dt_arena *arena, const char *text, const char *const *names, int n_names, const char *const *attributes, int n_attributes,
                            dt_formula **formula) {
    dt_formula_syntax *syntax;
    DT_TRY(dt_formula_syntax_parse(arena, text, &syntax));
    scope scope = {.arena = arena, .text = text, .names = names, .attributes = attributes, .n_names = n_names, .n_attributes = n_attributes};
    return give_meaning(&scope, syntax, formula);
}

static void bind(dt_formula *formula, const dt_value *value, bool *done) {
    if (done[formula->number]) return;
    done[formula->number] = true;
    int index = formula->index;
    if (formula->kind == DT_FORMULA_ATTRIBUTE) {
        formula->kind = DT_FORMULA_LITERAL;
        formula->literal_is_integer = value->op->attributes[index].kind != DT_ATTR_NUMBER || !dt_dtype_is_float(value->dtype);
        formula->integer = value->attributes[index].i;
        formula->literal = formula->literal_is_integer ? (double)formula->integer : value->attributes[index].f;
    } else if (formula->kind == DT_FORMULA_CONVERT && formula->dtype == DT_N_DTYPES) {
        formula->dtype = (dt_dtype)value->attributes[index].i;
    } else if ((formula->kind == DT_FORMULA_LOOP || formula->kind == DT_FORMULA_LAUNCH) && formula->n_arguments == 1) {
        const dt_attribute *place = &value->attributes[formula->arguments[0]->index];
        formula->index = formula->kind == DT_FORMULA_LOOP ? (int)place->i : dt_launch_field_find(place->s);
        assert(formula->index >= 0 && "the row's infer function checks names of launch fields");
        formula->n_arguments = 0;
    }
    for (int i = 0; i < formula->n_arguments; i++) bind(formula->arguments[i], value, done);
}

void dt_formula_bind(dt_arena *scratch, dt_formula *formula, const dt_value *value) {
    bind(formula, value, DT_NEW_ARRAY(scratch, bool, formula->number + 1));
}

static dt_precision precision_of(const dt_formula *factor) {
    return factor->kind == DT_FORMULA_SCALAR ? dt_scalar_precision(factor->scalar) : DT_PRECISION_F32;
}

bool dt_formula_is_product(const dt_formula *formula, int factors[2], dt_precision *precision) {
    if (formula->kind != DT_FORMULA_SCALAR || formula->scalar != DT_SCALAR_MULTIPLY) return false;
    *precision = precision_of(formula->arguments[0]);
    if (precision_of(formula->arguments[1]) != *precision) return false;
    for (int i = 0; i < 2; i++) {
        const dt_formula *factor = formula->arguments[i];
        if (*precision != DT_PRECISION_F32) factor = factor->arguments[0];
        if (factor->kind != DT_FORMULA_OPERAND) return false;
        factors[i] = factor->index;
    }
    return true;
}

/* ---- types ---- */

typedef struct typing {
    const dt_dtype *operands;
    dt_dtype *types; /* by number; DT_N_DTYPES: literal so far */
} typing;

/* The arguments that share one type: [*first, *end). The rest (the condition of `where`) are bool. */
static void shared_arguments(const dt_formula *node, int *first, int *end) {
    *first = node->kind == DT_FORMULA_SCALAR && node->scalar == DT_SCALAR_SELECT ? 1 : 0;
    *end = node->n_arguments;
}

/* A literal inside bits_i32(…) is of the other kind and the same size. */
static dt_dtype type_of_literal_argument(const dt_formula *node) {
    if (node->kind == DT_FORMULA_CONVERT) return node->arguments[0]->literal_is_integer ? DT_I64 : DT_F64;
    switch (node->dtype) {
    case DT_F32: return DT_I32;
    case DT_F64: return DT_I64;
    case DT_I64: return DT_F64;
    default: return DT_F32;
    }
}

static void settle(const typing *t, const dt_formula *node, dt_dtype dtype) {
    if (t->types[node->number] != DT_N_DTYPES) return;
    t->types[node->number] = dtype;
    int first, end;
    shared_arguments(node, &first, &end);
    for (int i = first; i < end; i++) settle(t, node->arguments[i], dtype);
}

static dt_status *type_of(const typing *t, const dt_formula *node, bool *done);

static dt_status *unify_arguments(const typing *t, const dt_formula *node, bool *done, dt_dtype *shared) {
    int first, end;
    shared_arguments(node, &first, &end);
    *shared = DT_N_DTYPES;
    for (int i = 0; i < node->n_arguments; i++) {
        DT_TRY(type_of(t, node->arguments[i], done));
        dt_dtype type = t->types[node->arguments[i]->number];
        if (i < first) {
            settle(t, node->arguments[i], DT_BOOL);
        } else if (*shared == DT_N_DTYPES) {
            *shared = type;
        } else if (type != DT_N_DTYPES && type != *shared) {
            return dt_error(DT_INTERNAL, "a formula mixes %s and %s", dt_dtype_name(*shared), dt_dtype_name(type));
        }
    }
    bool compares = node->kind == DT_FORMULA_SCALAR && node->scalar >= DT_SCALAR_EQUAL && node->scalar <= DT_SCALAR_LESS_EQUAL;
    if (compares && *shared == DT_N_DTYPES) *shared = DT_F64;
    if (*shared != DT_N_DTYPES)
        for (int i = first; i < end; i++) settle(t, node->arguments[i], *shared);
    if (compares) *shared = DT_BOOL;
    return NULL;
}

static dt_status *type_of(const typing *t, const dt_formula *node, bool *done) {
    if (done[node->number]) return NULL;
    done[node->number] = true;
    dt_dtype *type = &t->types[node->number];
    switch (node->kind) {
    case DT_FORMULA_LITERAL:
    case DT_FORMULA_ATTRIBUTE: *type = DT_N_DTYPES; return NULL;
    case DT_FORMULA_OPERAND: *type = t->operands[node->index]; return NULL;
    case DT_FORMULA_INSIDE: *type = DT_BOOL; return NULL;
    case DT_FORMULA_LOOP:
    case DT_FORMULA_LAUNCH: *type = DT_I64; return NULL;
    case DT_FORMULA_CONVERT:
    case DT_FORMULA_BITS:
        DT_TRY(type_of(t, node->arguments[0], done));
        settle(t, node->arguments[0], type_of_literal_argument(node));
        *type = node->dtype;
        return NULL;
    case DT_FORMULA_SCALAR:
    case DT_FORMULA_FUNCTION: {
        dt_dtype shared;
        DT_TRY(unify_arguments(t, node, done, &shared));
        *type = shared;
        return NULL;
    }
    }
    return NULL;
}

dt_status *dt_formula_types(dt_arena *arena, const dt_formula *formula, const dt_dtype *operands, dt_dtype result, dt_dtype **types) {
    size_t n = (size_t)formula->number + 1;
    typing t = {operands, DT_NEW_ARRAY(arena, dt_dtype, n)};
    for (size_t i = 0; i < n; i++) t.types[i] = DT_N_DTYPES;
    DT_TRY(type_of(&t, formula, DT_NEW_ARRAY(arena, bool, n)));
    settle(&t, formula, result);
    *types = t.types;
    return NULL;
}
