/* build_expression: "g / (1 + x)" as ops, see graph.h. The syntax is that of formulas; here its names mean graph values and rows of MAP ops. */
#include "ir/formula_syntax.h"
#include "ir/graph.h"

#include <assert.h>
#include <string.h>

typedef struct scope {
    dt_builder *builder;
    const char *text;
    const char *const *names;
    dt_value *const *values;
    int n;
} scope;

/* The op that an operator stands for; other calls are ops by their own name. */
static const char *op_of(const char *call) {
    static const char *const pairs[][2] = {{"+", "add"},        {"-", "subtract"},   {"*", "multiply"},  {"/", "divide"},      {"neg", "negate"},
                                           {"==", "equal"},     {"!=", "not_equal"}, {"<", "less"},      {"<=", "less_equal"}, {"&", "logical_and"},
                                           {"|", "logical_or"}, {"^", "not_equal"},  {"min", "minimum"}, {"max", "maximum"},   {"abs", "absolute"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(pairs[i][0], call) == 0) return pairs[i][1];
    return call;
}

static dt_value *find_value(const scope *scope, const char *name) {
    for (int i = 0; i < scope->n; i++)
        if (strcmp(scope->names[i], name) == 0) return scope->values[i];
    return NULL;
}

static dt_status *build(const scope *scope, dt_formula_syntax *syntax, dt_value **result);

/* A literal of the type that its neighbours have, or where there is none, of the first named value. */
static dt_status *build_literal(const scope *scope, const dt_formula_syntax *literal, dt_value *const *arguments, int n, dt_value **result) {
    const dt_value *like = scope->values[0], *typed = NULL;
    for (int i = 0; i < n; i++) {
        if (arguments[i] == NULL) continue;
        like = arguments[i];
        if (arguments[i]->dtype != DT_BOOL || n == 2) typed = arguments[i];
    }
    dt_dtype dtype = typed != NULL ? typed->dtype : scope->values[0]->dtype;
    dt_attribute number = literal->is_integer ? dt_number_of_int(literal->integer) : dt_number(literal->number);
    return dt_build_number(scope->builder, result, dtype, number, like->shape);
}

static dt_status *build_call(const scope *scope, dt_formula_syntax *call, dt_value **result) {
    dt_value *arguments[3] = {NULL, NULL, NULL};
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i]->kind != DT_FORMULA_SYNTAX_NUMBER) DT_TRY(build(scope, call->arguments[i], &arguments[i]));
    dt_value *neighbours[3];
    memcpy(neighbours, arguments, sizeof neighbours);
    for (int i = 0; i < call->n_arguments; i++)
        if (arguments[i] == NULL) DT_TRY(build_literal(scope, call->arguments[i], neighbours, call->n_arguments, &arguments[i]));
    dt_dtype to = dt_dtype_from_name(call->name);
    if (to != DT_N_DTYPES && call->n_arguments == 1) return dt_build_convert(scope->builder, result, arguments[0], to);
    return dt_build_text(scope->builder, result, op_of(call->name), arguments, call->n_arguments, "%s", "");
}

static dt_status *build(const scope *scope, dt_formula_syntax *syntax, dt_value **result) {
    *result = syntax->meaning;
    if (*result != NULL) return NULL;
    switch (syntax->kind) {
    case DT_FORMULA_SYNTAX_NUMBER: DT_TRY(build_literal(scope, syntax, NULL, 0, result)); break;
    case DT_FORMULA_SYNTAX_NAME:
        *result = find_value(scope, syntax->name);
        if (*result == NULL) return dt_error(DT_INTERNAL, "expression \"%s\": nothing is called %s", scope->text, syntax->name);
        break;
    case DT_FORMULA_SYNTAX_CALL: DT_TRY(build_call(scope, syntax, result)); break;
    }
    syntax->meaning = *result;
    return NULL;
}

dt_status *dt_build_expression(dt_builder *builder, dt_value **result, const char *text, const char *const *names, dt_value *const *values, int n) {
    assert(n > 0);
    dt_formula_syntax *syntax;
    DT_TRY(dt_formula_syntax_parse(builder->function->module->arena, text, &syntax));
    scope scope = {builder, text, names, values, n};
    return build(&scope, syntax, result);
}
