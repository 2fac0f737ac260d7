/* formula_syntax: see formula_syntax.h. Recursive descent over the text, one function a rule. */
#include "ir/formula_syntax.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEEPEST = 200 /* nested parentheses; our own tables stay far below, and bad text may not exhaust the stack */
};

typedef struct local {
    const char *name;
    dt_formula_syntax *value;
} local;

typedef struct reader {
    dt_arena *arena;
    const char *text, *at;
    DT_LIST(local) locals;
    int depth;
} reader;

static dt_status *mistake(const reader *r, const char *expected) {
    return dt_error(DT_INTERNAL, "formula \"%s\": expected %s at \"%.20s\"", r->text, expected, r->at);
}

static void skip_spaces(reader *r) {
    while (isspace((unsigned char)*r->at)) r->at++;
}

/* Takes `symbol` when it is next and no longer operator is. */
static bool take(reader *r, const char *symbol) {
    size_t n = strlen(symbol);
    skip_spaces(r);
    if (strncmp(r->at, symbol, n) != 0) return false;
    if (strchr("<>=!", symbol[n - 1]) != NULL && r->at[n] == '=') return false;
    r->at += n;
    return true;
}

static size_t word_length(const char *at) {
    if (!isalpha((unsigned char)*at) && *at != '_') return 0;
    size_t n = 1;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

static dt_formula_syntax *new_call(reader *r, const char *name, dt_formula_syntax *a, dt_formula_syntax *b) {
    dt_formula_syntax *call = DT_NEW(r->arena, dt_formula_syntax);
    call->kind = DT_FORMULA_SYNTAX_CALL;
    call->name = name;
    call->n_arguments = b != NULL ? 2 : 1;
    call->arguments[0] = a;
    call->arguments[1] = b;
    return call;
}

static dt_status *parse_or(reader *r, dt_formula_syntax **result);

static dt_formula_syntax *new_number(reader *r, double value, bool is_integer, int64_t integer) {
    dt_formula_syntax *number = DT_NEW(r->arena, dt_formula_syntax);
    number->kind = DT_FORMULA_SYNTAX_NUMBER;
    number->number = value;
    number->is_integer = is_integer;
    number->integer = integer;
    return number;
}

static dt_status *parse_number(reader *r, dt_formula_syntax **result) {
    char *end, *integer_end;
    double value = strtod(r->at, &end);
    uint64_t integer = strtoull(r->at, &integer_end, strncmp(r->at, "0x", 2) == 0 ? 16 : 10);
    if (end == r->at) return mistake(r, "a number");
    *result = new_number(r, value, integer_end == end, (int64_t)integer);
    r->at = end;
    return NULL;
}

static dt_formula_syntax *named_number(reader *r, const char *word, size_t n) {
    static const struct {
        const char *name;
        double value;
        bool is_integer;
    } numbers[] = {{"inf", INFINITY, false}, {"nan", NAN, false}, {"true", 1, true}, {"false", 0, true}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == n && memcmp(numbers[i].name, word, n) == 0)
            return new_number(r, numbers[i].value, numbers[i].is_integer, numbers[i].is_integer ? (int64_t)numbers[i].value : 0);
    return NULL;
}

static dt_status *parse_call(reader *r, const char *name, dt_formula_syntax **result) {
    dt_formula_syntax *call = new_call(r, name, NULL, NULL);
    call->n_arguments = 0;
    do {
        if (call->n_arguments == 3) return mistake(r, "at most three arguments");
        DT_TRY(parse_or(r, &call->arguments[call->n_arguments++]));
    } while (take(r, ","));
    if (!take(r, ")")) return mistake(r, "')'");
    *result = call;
    return NULL;
}

static dt_status *parse_word(reader *r, size_t n, dt_formula_syntax **result) {
    *result = named_number(r, r->at, n);
    if (*result != NULL) {
        r->at += n;
        return NULL;
    }
    const char *name = dt_arena_substring(r->arena, r->at, n);
    r->at += n;
    if (take(r, "(")) return parse_call(r, name, result);
    for (size_t i = r->locals.n; i-- > 0;)
        if (strcmp(r->locals.items[i].name, name) == 0) {
            *result = r->locals.items[i].value;
            return NULL;
        }
    dt_formula_syntax *leaf = DT_NEW(r->arena, dt_formula_syntax);
    leaf->kind = DT_FORMULA_SYNTAX_NAME;
    leaf->name = name;
    *result = leaf;
    dt_list_push(r->arena, &r->locals, ((local){name, leaf})); /* the next use of the name is this node */
    return NULL;
}

static dt_status *parse_primary(reader *r, dt_formula_syntax **result) {
    skip_spaces(r);
    if (isdigit((unsigned char)*r->at) || *r->at == '.') return parse_number(r, result);
    size_t n = word_length(r->at);
    if (n > 0) return parse_word(r, n, result);
    if (!take(r, "(")) return mistake(r, "a value");
    DT_TRY(parse_or(r, result));
    return take(r, ")") ? NULL : mistake(r, "')'");
}

static dt_status *parse_unary(reader *r, dt_formula_syntax **result) {
    if (++r->depth > DEEPEST) return mistake(r, "less nesting");
    if (take(r, "-")) {
        dt_formula_syntax *argument;
        DT_TRY(parse_unary(r, &argument));
        if (argument->kind == DT_FORMULA_SYNTAX_NUMBER)
            *result = new_number(r, -argument->number, argument->is_integer, -argument->integer);
        else
            *result = new_call(r, "neg", argument, NULL);
    } else {
        DT_TRY(parse_primary(r, result));
    }
    r->depth--;
    return NULL;
}

/* Operators of one strength; `swapped` is the operator that means the same with its operands exchanged. */
typedef struct infix {
    const char *symbol, *swapped;
} infix;

static const infix strengths[][5] = {
    {{"|", NULL}},
    {{"^", NULL}},
    {{"&", NULL}},
    {{"==", NULL}, {"!=", NULL}},
    {{"<=", NULL}, {">=", "<="}, {"<", NULL}, {">", "<"}},
    {{"+", NULL}, {"-", NULL}},
    {{"*", NULL}, {"/", NULL}},
};
enum {
    N_STRENGTHS = sizeof strengths / sizeof *strengths
};

static dt_status *parse_infix(reader *r, int strength, dt_formula_syntax **result) {
    if (strength == N_STRENGTHS) return parse_unary(r, result);
    DT_TRY(parse_infix(r, strength + 1, result));
    for (;;) {
        const infix *found = NULL;
        for (const infix *i = strengths[strength]; i->symbol != NULL && found == NULL; i++)
            if (take(r, i->symbol)) found = i;
        if (found == NULL) return NULL;
        dt_formula_syntax *right;
        DT_TRY(parse_infix(r, strength + 1, &right));
        *result = found->swapped != NULL ? new_call(r, found->swapped, right, *result) : new_call(r, found->symbol, *result, right);
    }
}

static dt_status *parse_or(reader *r, dt_formula_syntax **result) { return parse_infix(r, 0, result); }

/* "name =" in front of an expression; 0 when there is none. */
static size_t binding_length(reader *r) {
    skip_spaces(r);
    size_t n = word_length(r->at);
    const char *behind = r->at + n;
    while (isspace((unsigned char)*behind)) behind++;
    return behind[0] == '=' && behind[1] != '=' ? n : 0;
}

dt_status *dt_formula_syntax_parse(dt_arena *arena, const char *text, dt_formula_syntax **expression) {
    reader r = {.arena = arena, .text = text, .at = text};
    for (size_t n; (n = binding_length(&r)) > 0;) {
        local bound = {dt_arena_substring(arena, r.at, n), NULL};
        r.at += n;
        take(&r, "=");
        DT_TRY(parse_or(&r, &bound.value));
        if (!take(&r, ";")) return mistake(&r, "';'");
        dt_list_push(arena, &r.locals, bound);
    }
    DT_TRY(parse_or(&r, expression));
    skip_spaces(&r);
    return *r.at == '\0' ? NULL : mistake(&r, "the end");
}
