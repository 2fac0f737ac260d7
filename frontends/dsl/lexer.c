/* lexer: see lexer.h. One pass over the text, no look-ahead but the newlines before a |. */
#include "frontends/dsl/lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *spelling;
    bool breaks;
} kinds[] = {
#define X(enumerator, spelling, breaks) {spelling, breaks},
    DT_TOKENS(X)
#undef X
};

typedef struct lexer {
    dt_arena *arena;
    dt_diagnostics *diagnostics;
    int file;
    const char *at, *line_start;
    int line;
    DT_LIST(dt_token) tokens;
    DT_LIST(char) brackets; /* the open ones: ( [ { */
} lexer;

const char *dt_token_spelling(dt_token_kind kind) { return kinds[kind].spelling; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static dt_span span_from(const lexer *l, const char *start) {
    return (dt_span){l->file, l->line, (int)(start - l->line_start) + 1, (int)(l->at - start)};
}

static dt_token *push(lexer *l, dt_token_kind kind, const char *start) {
    dt_token token = {.kind = kind, .span = span_from(l, start)};
    dt_list_push(l->arena, &l->tokens, token);
    return &l->tokens.items[l->tokens.n - 1];
}

/* Whether the next thing that is neither blank nor comment is a |. */
static bool pipe_follows(const char *at) {
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (*at != '#') return *at == '|';
        at += strcspn(at, "\n");
    }
}

static void lex_newline(lexer *l) {
    const char *start = l->at++;
    bool inside = l->brackets.n > 0 && l->brackets.items[l->brackets.n - 1] != '{';
    const dt_token *last = l->tokens.n > 0 ? &l->tokens.items[l->tokens.n - 1] : NULL;
    bool continues = last == NULL || last->kind == DT_TOKEN_NEWLINE || kinds[last->kind].breaks || pipe_follows(l->at);
    if (!inside && !continues) push(l, DT_TOKEN_NEWLINE, start);
    l->line++;
    l->line_start = l->at;
}

static void lex_name(lexer *l) {
    const char *start = l->at;
    while (is_letter(*l->at) || is_digit(*l->at)) l->at++;
    const char *text = dt_arena_substring(l->arena, start, (size_t)(l->at - start));
    dt_token_kind kind = DT_TOKEN_NAME;
    for (int k = DT_TOKEN_FN; k < DT_N_TOKENS; k++)
        if (strcmp(kinds[k].spelling, text) == 0) kind = (dt_token_kind)k;
    push(l, kind, start)->text = text;
}

/* 12  60_000  1.5  1e-3.  "0..n" is 0, .., n, and "x.1" is no number. */
static void lex_number(lexer *l) {
    const char *start = l->at;
    bool is_float = false;
    while (is_digit(*l->at) || (*l->at == '_' && is_digit(l->at[1]))) l->at++;
    if (*l->at == '.' && is_digit(l->at[1])) {
        is_float = true;
        l->at++;
        while (is_digit(*l->at)) l->at++;
    }
    size_t n_exponent = (l->at[0] == 'e' || l->at[0] == 'E') ? (l->at[1] == '-' || l->at[1] == '+' ? 2 : 1) : 0;
    if (n_exponent > 0 && is_digit(l->at[n_exponent])) {
        is_float = true;
        l->at += n_exponent;
        while (is_digit(*l->at)) l->at++;
    }
    char *digits = dt_arena_new(l->arena, (size_t)(l->at - start) + 1);
    size_t n = 0;
    for (const char *c = start; c < l->at; c++)
        if (*c != '_') digits[n++] = *c;
    dt_token *token = push(l, is_float ? DT_TOKEN_FLOAT : DT_TOKEN_INT, start);
    token->f = strtod(digits, NULL);
    errno = 0;
    if (!is_float) token->i = strtoll(digits, NULL, 10);
    if (errno == ERANGE) dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, token->span, "%s does not fit in 64 bits", digits);
    if (is_letter(*l->at)) {
        dt_diagnostic *error = dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, token->span, "a number runs into a name");
        dt_diagnostic_help(error, "put an operator or a blank between them");
    }
}

static void lex_string(lexer *l) {
    const char *start = l->at++;
    dt_text value = {.arena = l->arena};
    dt_text_append(&value, "");
    while (*l->at != '"' && *l->at != '\n' && *l->at != '\0') {
        char c = *l->at++;
        if (c == '\\' && *l->at != '\n' && *l->at != '\0') {
            char escaped = *l->at++;
            c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
            if (strchr("nt\\\"", escaped) == NULL)
                dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, span_from(l, l->at - 2), "\\%c means nothing in a string: \\n \\t \\\\ \\\" do",
                                   escaped);
        }
        dt_text_append_bytes(&value, &c, 1);
    }
    if (*l->at == '"')
        l->at++;
    else
        dt_diagnostic_help(dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, span_from(l, start), "the string does not end on its line"),
                           "close it with \"");
    push(l, DT_TOKEN_STRING, start)->text = value.data;
}

static void track_bracket(lexer *l, char c) {
    if (c == '(' || c == '[' || c == '{') {
        dt_list_push(l->arena, &l->brackets, c);
        return;
    }
    if (l->brackets.n == 0) return; /* the parser says what is wrong */
    if (c == '}')                   /* a { in braces that were not closed within: newlines must count again after it */
        while (l->brackets.n > 1 && l->brackets.items[l->brackets.n - 1] != '{') l->brackets.n--;
    l->brackets.n--;
}

/* Of the character in n bytes of UTF-8; of what is none, its first byte. */
static unsigned code_point(const char *bytes, int n) {
    static const unsigned char masks[] = {0x7f, 0x1f, 0x0f, 0x07};
    unsigned point = (unsigned char)*bytes;
    if (n < 1 || n > 4 || point < 0x80) return point;
    point &= masks[n - 1];
    for (int i = 1; i < n; i++) point = point << 6 | ((unsigned char)bytes[i] & 0x3f);
    return point;
}

static void lex_symbol(lexer *l) {
    const char *start = l->at;
    size_t longest = 0;
    dt_token_kind kind = DT_TOKEN_END;
    for (int k = DT_TOKEN_PLUS; k < DT_TOKEN_FN; k++) {
        size_t n = strlen(kinds[k].spelling);
        if (n > longest && strncmp(kinds[k].spelling, start, n) == 0) longest = n, kind = (dt_token_kind)k;
    }
    if (longest == 0) {
        l->at++;
        while (((unsigned char)*l->at & 0xc0) == 0x80) l->at++;
        dt_span span = span_from(l, start);
        if (*start > ' ' && *start < 0x7f)
            dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, span, "'%c' means nothing here", *start);
        else
            dt_diagnostics_add(l->diagnostics, DT_SEVERITY_ERROR, span, "'%.*s' (U+%04X) means nothing here", span.length, start,
                               code_point(start, span.length));
        return;
    }
    l->at += longest;
    if (longest == 1 && strchr("([{)]}", *start) != NULL) track_bracket(l, *start);
    push(l, kind, start);
}

dt_token *dt_lex(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text, size_t *n_tokens) {
    lexer l = {.arena = arena, .diagnostics = diagnostics, .file = file, .at = text, .line_start = text, .line = 1};
    while (*l.at != '\0') {
        char c = *l.at;
        if (c == '\n')
            lex_newline(&l);
        else if (c == ' ' || c == '\t' || c == '\r')
            l.at++;
        else if (c == '#')
            l.at += strcspn(l.at, "\n");
        else if (is_letter(c))
            lex_name(&l);
        else if (is_digit(c))
            lex_number(&l);
        else if (c == '"')
            lex_string(&l);
        else
            lex_symbol(&l);
    }
    if (l.tokens.n > 0 && l.tokens.items[l.tokens.n - 1].kind != DT_TOKEN_NEWLINE) push(&l, DT_TOKEN_NEWLINE, l.at);
    push(&l, DT_TOKEN_END, l.at);
    *n_tokens = l.tokens.n;
    return l.tokens.items;
}
