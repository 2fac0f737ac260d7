/* parser_expression: expressions, types and parameters. Lowest to highest:
 *   a | b    b if a else c    or    and    not    == != < <= > >=    ..    + -    * / // % @    - (sign)    **    call, [ ], ., as */
#include "frontends/dsl/parser.h"

#include <string.h>

enum {
    MOST_OPERATORS = 200 /* of one level in a row */
};
enum {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_RANGE,
    LEVEL_ADD,
    LEVEL_MULTIPLY,
    LEVEL_UNARY
};

static dt_expression *make(dt_parser *p, dt_expression_kind kind, dt_span span) {
    dt_expression *e = DT_NEW(p->arena, dt_expression);
    e->kind = kind;
    e->span = span;
    return e;
}

/* From the first to the last, when they share a line. */
static dt_span join(dt_span a, dt_span b) {
    if (a.line == b.line && b.column + b.length > a.column + a.length) a.length = b.column + b.length - a.column;
    return a;
}

static dt_expression *binary(dt_parser *p, dt_token_kind operator, dt_expression * a, dt_expression *b) {
    dt_expression *e = make(p, DT_EXPRESSION_BINARY, join(a->span, b->span));
    e->operator= operator;
    e->a = a;
    e->b = b;
    return e;
}

void dt_parse_arguments(dt_parser *p, dt_argument_list *arguments, dt_token_kind close) {
    bool in_block = close == DT_TOKEN_NEWLINE; /* of return and report, which } may end too */
    while (!dt_parser_is(p, close) && !(in_block && dt_parser_is(p, DT_TOKEN_CLOSE_BRACE)) && !p->panicked) {
        dt_argument argument = {.span = dt_parser_peek(p, 0)->span};
        const dt_token *first = dt_parser_peek(p, 0);
        bool is_word = first->text != NULL && first->kind != DT_TOKEN_STRING; /* a keyword may name an argument */
        if (is_word && dt_parser_peek(p, 1)->kind == DT_TOKEN_COLON) {
            argument.name = first->text;
            dt_parser_next(p);
            dt_parser_next(p);
        }
        argument.value = dt_parse_expression(p);
        if (argument.name == NULL) argument.span = argument.value->span;
        dt_list_push(p->arena, arguments, argument);
        if (!dt_parser_accept(p, DT_TOKEN_COMMA)) break;
    }
}

/* One item of an index: i, a:b, a:b:c, ... */
static dt_expression *parse_index_item(dt_parser *p) {
    dt_span span = dt_parser_peek(p, 0)->span;
    if (dt_parser_accept(p, DT_TOKEN_ELLIPSIS)) return make(p, DT_EXPRESSION_ELLIPSIS, span);
    dt_expression *start = dt_parser_is(p, DT_TOKEN_COLON) ? NULL : dt_parse_expression(p);
    if (!dt_parser_is(p, DT_TOKEN_COLON)) return start;
    dt_expression *slice = make(p, DT_EXPRESSION_SLICE, span);
    slice->a = start;
    dt_parser_next(p);
    dt_expression **parts[] = {&slice->b, &slice->c};
    for (int i = 0; i < 2; i++) {
        if (!dt_parser_is(p, DT_TOKEN_COLON) && !dt_parser_is(p, DT_TOKEN_COMMA) && !dt_parser_is(p, DT_TOKEN_CLOSE_SQUARE))
            *parts[i] = dt_parse_expression(p);
        if (i == 0 && !dt_parser_accept(p, DT_TOKEN_COLON)) break;
    }
    return slice;
}

static dt_expression *parse_index(dt_parser *p, dt_expression *base) {
    dt_span open = dt_parser_next(p)->span;
    dt_expression *e = make(p, DT_EXPRESSION_INDEX, base->span);
    e->a = base;
    while (!dt_parser_is(p, DT_TOKEN_CLOSE_SQUARE) && !p->panicked) {
        dt_list_push(p->arena, &e->items, parse_index_item(p));
        if (!dt_parser_accept(p, DT_TOKEN_COMMA)) break;
    }
    e->span = join(base->span, dt_parser_peek(p, 0)->span);
    dt_parser_expect_close(p, DT_TOKEN_CLOSE_SQUARE, "at the end of the index", open);
    return e;
}

/* fn(a, b: type) => expression */
static dt_expression *parse_lambda(dt_parser *p) {
    dt_expression *e = make(p, DT_EXPRESSION_LAMBDA, dt_parser_next(p)->span);
    e->callable = DT_NEW(p->arena, dt_callable);
    dt_parse_parameters(p, e->callable);
    dt_parser_expect(p, DT_TOKEN_FAT_ARROW, "after a lambda's parameters");
    dt_statement *result = DT_NEW(p->arena, dt_statement);
    result->kind = DT_STATEMENT_RETURN;
    result->span = dt_parser_peek(p, 0)->span;
    dt_argument value = {.span = result->span, .value = dt_parse_expression(p)};
    dt_list_push(p->arena, &result->arguments, value);
    dt_list_push(p->arena, &e->callable->body, result);
    return e;
}

static dt_expression *parse_level(dt_parser *p, int level);

/* for a, b in list if condition, after the item of a list, which the innermost of them holds. */
static void parse_clauses(dt_parser *p, dt_block *block, dt_expression *item) {
    while (dt_parser_is(p, DT_TOKEN_FOR) || dt_parser_is(p, DT_TOKEN_IF)) {
        dt_statement *s = DT_NEW(p->arena, dt_statement);
        const dt_token *word = dt_parser_next(p);
        s->kind = word->kind == DT_TOKEN_FOR ? DT_STATEMENT_FOR : DT_STATEMENT_IF;
        s->span = word->span;
        if (s->kind == DT_STATEMENT_FOR) {
            dt_parse_targets(p, s);
            dt_parser_expect(p, DT_TOKEN_IN, "after what for binds");
        }
        s->value = parse_level(p, LEVEL_OR);
        dt_list_push(p->arena, block, s);
        block = &s->body;
    }
    dt_statement *kept = DT_NEW(p->arena, dt_statement);
    kept->kind = DT_STATEMENT_ITEM;
    kept->span = item->span;
    kept->value = item;
    dt_list_push(p->arena, block, kept);
}

static dt_expression *parse_bracketed(dt_parser *p) {
    dt_span span = dt_parser_peek(p, 0)->span;
    if (dt_parser_accept(p, DT_TOKEN_OPEN_ROUND)) {
        dt_expression *inner = dt_parse_expression(p);
        dt_parser_expect_close(p, DT_TOKEN_CLOSE_ROUND, "at the end of the parenthesis", span);
        return inner;
    }
    dt_parser_next(p);
    dt_expression *list = make(p, DT_EXPRESSION_LIST, span);
    while (!dt_parser_is(p, DT_TOKEN_CLOSE_SQUARE) && !p->panicked) {
        dt_list_push(p->arena, &list->items, dt_parse_expression(p));
        if (!dt_parser_accept(p, DT_TOKEN_COMMA)) break;
    }
    if (list->items.n == 1 && dt_parser_is(p, DT_TOKEN_FOR)) {
        list->kind = DT_EXPRESSION_COMPREHENSION;
        parse_clauses(p, &list->body, list->items.items[0]);
        list->items.n = 0;
    }
    list->span = join(span, dt_parser_peek(p, 0)->span);
    dt_parser_expect_close(p, DT_TOKEN_CLOSE_SQUARE, "at the end of the list", span);
    return list;
}

static dt_expression *parse_call(dt_parser *p, dt_expression *callee) {
    dt_expression *call = make(p, DT_EXPRESSION_CALL, callee->span);
    dt_span open = dt_parser_next(p)->span;
    call->a = callee;
    dt_parse_arguments(p, &call->arguments, DT_TOKEN_CLOSE_ROUND);
    dt_parser_expect_close(p, DT_TOKEN_CLOSE_ROUND, "at the end of the arguments", open);
    return call;
}

static dt_expression *parse_field(dt_parser *p, dt_expression *base) {
    const dt_token *name = (dt_parser_next(p), dt_parser_peek(p, 0));
    dt_expression *field = make(p, DT_EXPRESSION_FIELD, join(base->span, name->span));
    field->a = base;
    field->text = name->text != NULL ? name->text : "";
    if (name->kind == DT_TOKEN_NAME || name->kind >= DT_TOKEN_FN)
        dt_parser_next(p);
    else
        dt_parser_expected(p, "a name after .");
    return field;
}

/* layer nn.conv2d(filters: 8): a layer that is called later, and more than once */
static dt_expression *parse_layer(dt_parser *p) {
    dt_parser_next(p);
    const dt_token *name = dt_parser_next(p);
    dt_expression *callee = make(p, DT_EXPRESSION_NAME, name->span);
    callee->text = name->text;
    if (dt_parser_is(p, DT_TOKEN_DOT)) callee = parse_field(p, callee);
    dt_expression *layer = make(p, DT_EXPRESSION_LAYER, callee->span);
    if (!dt_parser_is(p, DT_TOKEN_OPEN_ROUND)) dt_parser_expected(p, "the arguments of the layer, such as (units: 8)");
    layer->a = p->panicked ? make(p, DT_EXPRESSION_BROKEN, callee->span) : parse_call(p, callee);
    return layer;
}

static dt_expression *parse_primary(dt_parser *p) {
    const dt_token *token = dt_parser_peek(p, 0);
    dt_expression *e = NULL;
    switch (token->kind) {
    case DT_TOKEN_INT: e = make(p, DT_EXPRESSION_INT, token->span); break;
    case DT_TOKEN_FLOAT: e = make(p, DT_EXPRESSION_FLOAT, token->span); break;
    case DT_TOKEN_STRING: e = make(p, DT_EXPRESSION_STRING, token->span); break;
    case DT_TOKEN_TRUE:
    case DT_TOKEN_FALSE: e = make(p, DT_EXPRESSION_BOOL, token->span); break;
    case DT_TOKEN_NONE: e = make(p, DT_EXPRESSION_NONE, token->span); break;
    case DT_TOKEN_NAME:
        if (dt_parser_begins_declaration(p)) break;
        if (dt_parser_is_word(p, "layer") && dt_parser_peek(p, 1)->kind == DT_TOKEN_NAME) return parse_layer(p);
        e = make(p, DT_EXPRESSION_NAME, token->span);
        break;
    case DT_TOKEN_FN: return parse_lambda(p);
    case DT_TOKEN_OPEN_ROUND:
    case DT_TOKEN_OPEN_SQUARE: return parse_bracketed(p);
    default: break;
    }
    if (e == NULL) {
        dt_parser_expected(p, "an expression");
        return make(p, DT_EXPRESSION_BROKEN, token->span);
    }
    dt_parser_next(p);
    e->text = token->text;
    e->i = token->kind == DT_TOKEN_TRUE ? 1 : token->i;
    e->f = token->f;
    return e;
}

static dt_expression *parse_postfix(dt_parser *p) {
    dt_expression *e = parse_primary(p);
    for (int n = 0; !p->panicked; n++) {
        if (n > 200) { /* a.a.a.… nests to the left, without recursion here, but with it later */
            dt_parser_expected(p, "a shorter chain of calls");
            break;
        }
        if (dt_parser_is(p, DT_TOKEN_OPEN_ROUND)) {
            e = parse_call(p, e);
        } else if (dt_parser_is(p, DT_TOKEN_OPEN_SQUARE)) {
            e = parse_index(p, e);
        } else if (dt_parser_is(p, DT_TOKEN_DOT)) {
            e = parse_field(p, e);
        } else if (dt_parser_accept(p, DT_TOKEN_AS)) {
            const dt_token *name = dt_parser_peek(p, 0);
            dt_expression *named = make(p, DT_EXPRESSION_AS, name->span);
            named->a = e;
            named->text = name->text != NULL ? name->text : "";
            if (!dt_parser_accept(p, DT_TOKEN_NAME)) dt_parser_expected(p, "a name after as");
            e = named;
        } else {
            break;
        }
    }
    return e;
}

static dt_expression *parse_unary(dt_parser *p);

static dt_expression *parse_power(dt_parser *p) {
    dt_expression *base = parse_postfix(p);
    if (!dt_parser_accept(p, DT_TOKEN_DOUBLE_STAR)) return base;
    if (!dt_parser_enter(p)) return base;
    dt_expression *exponent = parse_unary(p); /* to the right: a ** b ** c, a ** -b */
    dt_parser_leave(p);
    return binary(p, DT_TOKEN_DOUBLE_STAR, base, exponent);
}

static dt_expression *parse_unary(dt_parser *p) {
    if (!dt_parser_is(p, DT_TOKEN_MINUS) && !dt_parser_is(p, DT_TOKEN_PLUS)) return parse_power(p);
    const dt_token *sign = dt_parser_next(p);
    if (!dt_parser_enter(p)) return make(p, DT_EXPRESSION_BROKEN, sign->span);
    dt_expression *operand = parse_unary(p);
    dt_parser_leave(p);
    if (sign->kind == DT_TOKEN_PLUS) return operand;
    dt_expression *e = make(p, DT_EXPRESSION_UNARY, join(sign->span, operand->span));
    e->operator= DT_TOKEN_MINUS;
    e->a = operand;
    return e;
}

static bool at_operator_of(const dt_parser *p, int level) {
    static const dt_token_kind of_level[][7] = {
        [LEVEL_OR] = {DT_TOKEN_OR},
        [LEVEL_AND] = {DT_TOKEN_AND},
        [LEVEL_COMPARE] = {DT_TOKEN_EQUAL_EQUAL, DT_TOKEN_NOT_EQUAL, DT_TOKEN_LESS, DT_TOKEN_LESS_EQUAL, DT_TOKEN_GREATER, DT_TOKEN_GREATER_EQUAL},
        [LEVEL_RANGE] = {DT_TOKEN_DOT_DOT},
        [LEVEL_ADD] = {DT_TOKEN_PLUS, DT_TOKEN_MINUS},
        [LEVEL_MULTIPLY] = {DT_TOKEN_STAR, DT_TOKEN_SLASH, DT_TOKEN_DOUBLE_SLASH, DT_TOKEN_PERCENT, DT_TOKEN_AT},
        [LEVEL_UNARY] = {DT_TOKEN_END},
    };
    for (int k = 0; of_level[level][k] != DT_TOKEN_END; k++)
        if (dt_parser_is(p, of_level[level][k])) return true;
    return false;
}

static dt_expression *parse_level(dt_parser *p, int level) {
    if (level == LEVEL_UNARY) return parse_unary(p);
    if (level == LEVEL_NOT && dt_parser_is(p, DT_TOKEN_NOT)) {
        dt_expression *e = make(p, DT_EXPRESSION_UNARY, dt_parser_next(p)->span);
        e->operator= DT_TOKEN_NOT;
        if (!dt_parser_enter(p)) return e->a = make(p, DT_EXPRESSION_BROKEN, e->span), e;
        e->a = parse_level(p, LEVEL_NOT);
        dt_parser_leave(p);
        e->span = join(e->span, e->a->span);
        return e;
    }
    dt_expression *left = parse_level(p, level + 1);
    for (int n = 0; !p->panicked && at_operator_of(p, level); n++) {
        const dt_token *operator= dt_parser_peek(p, 0);
        if (n >= MOST_OPERATORS) {
            dt_diagnostic *error = dt_parser_error(p, operator->span, "the expression has more than %d operators in a row", MOST_OPERATORS);
            dt_diagnostic_help(error, "give a part of it a name: part = …");
            break;
        }
        if (n > 0 && (level == LEVEL_COMPARE || level == LEVEL_RANGE)) {
            dt_diagnostic_help(dt_parser_error(p, operator->span, "%s does not chain", dt_token_spelling(operator->kind)),
                               "join two comparisons with and");
            break;
        }
        dt_parser_next(p);
        dt_expression *right = parse_level(p, level + 1);
        left = binary(p, operator->kind, left, right);
        if (level == LEVEL_RANGE) left->kind = DT_EXPRESSION_RANGE;
    }
    return left;
}

static dt_expression *parse_conditional(dt_parser *p) {
    dt_expression *value = parse_level(p, LEVEL_OR);
    if (!dt_parser_is(p, DT_TOKEN_IF)) return value;
    dt_parser_next(p);
    dt_expression *e = make(p, DT_EXPRESSION_CONDITIONAL, value->span);
    e->b = value;
    e->a = parse_level(p, LEVEL_OR);
    dt_parser_expect(p, DT_TOKEN_ELSE, "in a conditional expression (a if condition else b)");
    if (!dt_parser_enter(p)) return value;
    e->c = parse_conditional(p);
    dt_parser_leave(p);
    return e;
}

dt_expression *dt_parse_expression(dt_parser *p) {
    if (!dt_parser_enter(p)) return make(p, DT_EXPRESSION_BROKEN, dt_parser_peek(p, 0)->span);
    dt_expression *left = parse_conditional(p);
    for (int n = 0; n < 100 && !p->panicked && dt_parser_is(p, DT_TOKEN_PIPE); n++) {
        dt_span span = dt_parser_next(p)->span;
        dt_expression *right = parse_conditional(p);
        dt_expression *pipe = make(p, DT_EXPRESSION_PIPE, right != NULL ? right->span : span);
        pipe->a = left;
        pipe->b = right;
        left = pipe;
    }
    dt_parser_leave(p);
    return left;
}

/* f32[B, 4*C]   float[...]   int   valid | same */
dt_type_syntax *dt_parse_type(dt_parser *p, bool may_be_enum) {
    dt_type_syntax *type = DT_NEW(p->arena, dt_type_syntax);
    const dt_token *word = dt_parser_peek(p, 0);
    type->span = word->span;
    if (word->kind != DT_TOKEN_NAME) {
        type->word = "any";
        dt_parser_expected(p, "a type, such as f32[B, 10] or int");
        return type;
    }
    dt_parser_next(p);
    type->word = word->text;
    if (may_be_enum && dt_parser_is(p, DT_TOKEN_PIPE)) {
        type->word = NULL;
        dt_list_push(p->arena, &type->choices, word->text);
        while (dt_parser_accept(p, DT_TOKEN_PIPE)) {
            const dt_token *choice = dt_parser_peek(p, 0);
            if (!dt_parser_expect(p, DT_TOKEN_NAME, "as a choice")) break;
            dt_list_push(p->arena, &type->choices, choice->text);
        }
        return type;
    }
    if (!dt_parser_accept(p, DT_TOKEN_OPEN_SQUARE)) return type;
    type->has_dims = true;
    while (!dt_parser_is(p, DT_TOKEN_CLOSE_SQUARE) && !p->panicked) {
        dt_list_push(p->arena, &type->dims, parse_index_item(p));
        if (!dt_parser_accept(p, DT_TOKEN_COMMA)) break;
    }
    type->span = join(type->span, dt_parser_peek(p, 0)->span);
    dt_parser_expect(p, DT_TOKEN_CLOSE_SQUARE, "at the end of the shape");
    return type;
}

static bool at_bound(const dt_parser *p) {
    return dt_parser_is(p, DT_TOKEN_LESS) || dt_parser_is(p, DT_TOKEN_LESS_EQUAL) || dt_parser_is(p, DT_TOKEN_GREATER) ||
           dt_parser_is(p, DT_TOKEN_GREATER_EQUAL);
}

/* float >= 0 < 1 */
static void parse_bounds(dt_parser *p, dt_parameter *parameter) {
    const dt_type_syntax *type = parameter->type;
    bool is_number = type == NULL || (type->word != NULL && !type->has_dims);
    if (at_bound(p) && !is_number) {
        dt_diagnostic *error = dt_parser_error(p, dt_parser_peek(p, 0)->span, "bounds are for numbers, %s is none", parameter->name);
        dt_diagnostic_help(error, "write them after float, int or schedule: rate: float >= 0 < 1");
    }
    while (!p->panicked && at_bound(p)) {
        dt_bound bound = {.operator= dt_parser_next(p)->kind};
        bound.limit = parse_level(p, LEVEL_ADD);
        dt_list_push(p->arena, &parameter->bounds, bound);
    }
}

void dt_parse_parameters(dt_parser *p, dt_callable *callable) {
    if (!dt_parser_expect(p, DT_TOKEN_OPEN_ROUND, "before the parameters")) return;
    while (!dt_parser_is(p, DT_TOKEN_CLOSE_ROUND) && !p->panicked) {
        const dt_token *name = dt_parser_peek(p, 0);
        if (!dt_parser_expect(p, DT_TOKEN_NAME, "as a parameter")) break;
        dt_parameter parameter = {.name = name->text, .span = name->span};
        for (size_t i = 0; i < callable->parameters.n; i++)
            if (strcmp(callable->parameters.items[i].name, name->text) == 0)
                dt_diagnostics_add(p->diagnostics, name->span, "two parameters are called %s", name->text);
        if (dt_parser_accept(p, DT_TOKEN_COLON)) parameter.type = dt_parse_type(p, true);
        parse_bounds(p, &parameter);
        if (dt_parser_accept(p, DT_TOKEN_ASSIGN)) parameter.standard = dt_parse_expression(p);
        dt_list_push(p->arena, &callable->parameters, parameter);
        if (!dt_parser_accept(p, DT_TOKEN_COMMA)) break;
    }
    dt_parser_expect(p, DT_TOKEN_CLOSE_ROUND, "at the end of the parameters");
}
