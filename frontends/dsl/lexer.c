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

#define HEAD 'f' /* the ( of a lambda's parameters, which may begin a line with name = */

typedef struct lexer {
    dt_arena *arena;
    dt_diagnostics *diagnostics;
    int file;
    const char *at, *line_start;
    int line;
    DT_LIST(dt_token) tokens;
    DT_LIST(char) brackets;  /* the open ones: ( [ {, HEAD */
    DT_LIST(dt_span) allows; /* `# allow: name` on lines of their own: they are about the line of the next token */
} lexer;

const char *dt_source_text(const char *text) {
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    return strncmp(text, byte_order_mark, strlen(byte_order_mark)) == 0 ? text + strlen(byte_order_mark) : text;
}

const char *dt_token_spelling(dt_token_kind kind) { return kinds[kind].spelling; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static dt_span span_from(const lexer *l, const char *start) {
    return (dt_span){l->file, l->line, (int)(start - l->line_start) + 1, (int)(l->at - start)};
}

static dt_token *push(lexer *l, dt_token_kind kind, const char *start) {
    dt_token token = {.kind = kind, .span = span_from(l, start)};
    for (size_t i = 0; i < l->allows.n && kind != DT_TOKEN_NEWLINE; i++) dt_diagnostics_allow(l->diagnostics, l->allows.items[i], token.span.line);
    if (kind != DT_TOKEN_NEWLINE) l->allows.n = 0;
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

static bool is_word(const char *at, size_t n, const char *const *words, size_t n_words) {
    for (size_t i = 0; i < n_words; i++)
        if (strlen(words[i]) == n && strncmp(at, words[i], n) == 0) return true;
    return false;
}

/* Whether a ) or ] comes that nothing from here on has opened, before the body that this is ends. */
static bool closes_later(const char *at) {
    for (int depth = 0; *at != '\0' && *at != '{' && *at != '}'; at++) {
        if (*at == '#') at += strcspn(at, "\n");
        if (*at == '"') at += 1 + strcspn(at + 1, "\"\n");
        if (*at == '\0') break;
        depth += *at == '(' || *at == '[' ? 1 : *at == ')' || *at == ']' ? -1 : 0;
        if (depth < 0) return true;
    }
    return false;
}

/* Whether a line begins here with `name =` or `name :=`. */
static bool binding_follows(const lexer *l) {
    const char *at = l->at + strspn(l->at, " \t\r\n"), *end = at;
    while (is_letter(*end) || is_digit(*end)) end++;
    if (end == at || is_digit(*at)) return false;
    end += strspn(end, " \t");
    return (*end == '=' && end[1] != '=' && end[1] != '>') || (*end == ':' && end[1] == '=');
}

/* Whether what begins after a newline in ( or [ is the next statement, because the bracket was not closed: there, no line begins with `name =` but in
 * a head, nor with }; and nothing stands beside a value but an operator. */
static bool statement_follows(const lexer *l) {
    static const char *const operators[] = {"if", "else", "and", "or", "in", "as"};
    const char *at = l->at + strspn(l->at, " \t\r\n"), *end = at;
    while (is_letter(*end) || is_digit(*end)) end++;
    size_t n = (size_t)(end - at);
    bool in_head = l->brackets.items[0] != '{';
    for (size_t i = l->brackets.n; i-- > 0;) in_head |= l->brackets.items[i] == HEAD;
    if ((!in_head && binding_follows(l)) || *at == '}') return true;
    dt_token_kind last = l->tokens.items[l->tokens.n - 1].kind;
    bool after_value = last == DT_TOKEN_NAME || last == DT_TOKEN_INT || last == DT_TOKEN_FLOAT || last == DT_TOKEN_STRING ||
                       last == DT_TOKEN_CLOSE_ROUND || last == DT_TOKEN_CLOSE_SQUARE || (last >= DT_TOKEN_TRUE && last <= DT_TOKEN_NONE);
    bool begins_if = n == strlen("if") && strncmp(at, "if", n) == 0 && at[strcspn(at, "{\n")] == '{';
    bool is_operator = is_word(at, n, operators, sizeof operators / sizeof *operators) && !begins_if;
    return after_value && n > 0 && !is_operator && (begins_if || !closes_later(at));
}

static void lex_newline(lexer *l) {
    const char *start = l->at++;
    bool inside = l->brackets.n > 0 && l->brackets.items[l->brackets.n - 1] != '{';
    if (inside && statement_follows(l)) {
        while (l->brackets.n > 0 && l->brackets.items[l->brackets.n - 1] != '{') l->brackets.n--;
        inside = false;
    }
    const dt_token *last = l->tokens.n > 0 ? &l->tokens.items[l->tokens.n - 1] : NULL;
    bool is_open = last != NULL && kinds[last->kind].breaks && (last->kind == DT_TOKEN_COMMA || !binding_follows(l)); /* a right side is to come */
    bool continues = last == NULL || last->kind == DT_TOKEN_NEWLINE || is_open || pipe_follows(l->at);
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
        if (kinds[k].spelling[0] == text[0] && strcmp(kinds[k].spelling, text) == 0) kind = (dt_token_kind)k;
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
    if (errno == ERANGE) dt_diagnostics_add(l->diagnostics, token->span, "%s does not fit in 64 bits", digits);
    if (is_letter(*l->at)) {
        while (is_letter(*l->at) || is_digit(*l->at)) l->at++;
        dt_diagnostic *error = dt_diagnostics_add(l->diagnostics, token->span, "a number runs into a name");
        dt_diagnostic_help(error, "put an operator or a blank between them");
    }
}

/* In single quotes too, which is a mistake, so that nothing follows from it. */
static void lex_string(lexer *l) {
    const char *start = l->at++;
    dt_text value = {.arena = l->arena};
    dt_text_append(&value, "");
    while (*l->at != *start && *l->at != '\n' && *l->at != '\0') {
        char c = *l->at++;
        if (c == '\\' && *l->at != '\n' && *l->at != '\0') {
            char escaped = *l->at++;
            c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
            if (strchr("nt\\\"", escaped) == NULL)
                dt_diagnostics_add(l->diagnostics, span_from(l, l->at - 2), "\\%c means nothing in a string: \\n \\t \\\\ \\\" do", escaped);
        }
        dt_text_append_bytes(&value, &c, 1);
    }
    if (*l->at == *start)
        l->at++;
    else
        dt_diagnostic_help(dt_diagnostics_add(l->diagnostics, span_from(l, start), "the string does not end on its line"), "close it with \"");
    if (*start == '\'') dt_diagnostics_add(l->diagnostics, span_from(l, start), "a string stands in double quotes");
    push(l, DT_TOKEN_STRING, start)->text = value.data;
}

/* To the end of the line: about what stands before it there, or else about the line that follows. */
static void lex_comment(lexer *l) {
    const char *start = l->at;
    l->at += strcspn(l->at, "\n");
    if (strncmp(start + 1 + strspn(start + 1, " \t"), "allow:", strlen("allow:")) != 0) return;
    dt_span span = span_from(l, start);
    bool follows_code = strspn(l->line_start, " \t\r") < (size_t)(start - l->line_start);
    if (follows_code)
        dt_diagnostics_allow(l->diagnostics, span, l->line);
    else
        dt_list_push(l->arena, &l->allows, span);
}

static void track_bracket(lexer *l, char c) {
    if (c == '(' || c == '[' || c == '{') {
        bool is_head = c == '(' && l->tokens.n > 0 && l->tokens.items[l->tokens.n - 1].kind == DT_TOKEN_FN;
        dt_list_push(l->arena, &l->brackets, is_head ? HEAD : c);
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
        size_t n = kinds[k].spelling[0] == *start ? strlen(kinds[k].spelling) : 0;
        if (n > longest && strncmp(kinds[k].spelling, start, n) == 0) longest = n, kind = (dt_token_kind)k;
    }
    if (longest == 0) {
        l->at++;
        while (((unsigned char)*l->at & 0xc0) == 0x80) l->at++;
        dt_span span = span_from(l, start);
        if (dt_text_character_bytes(start) == 0)
            dt_diagnostic_help(dt_diagnostics_add(l->diagnostics, span, "the byte 0x%02X begins no character", (unsigned char)*start),
                               "a program is text in UTF-8: save it as that");
        else if (*start > ' ' && *start < 0x7f)
            dt_diagnostics_add(l->diagnostics, span, "'%c' means nothing here", *start);
        else
            dt_diagnostics_add(l->diagnostics, span, "'%.*s' (U+%04X) means nothing here", span.length, start, code_point(start, span.length));
        return;
    }
    l->at += longest;
    if (longest == 1 && strchr("([{)]}", *start) != NULL) track_bracket(l, *start);
    push(l, kind, start);
}

dt_token *dt_lex(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text, size_t *n_tokens) {
    lexer l = {.arena = arena, .diagnostics = diagnostics, .file = file, .at = text, .line_start = text, .line = 1};
    l.tokens.capacity = strlen(text) / 5 + 1; /* a guess */
    l.tokens.items = DT_NEW_ARRAY(arena, dt_token, l.tokens.capacity);
    while (*l.at != '\0') {
        char c = *l.at;
        if (c == '\n')
            lex_newline(&l);
        else if (c == ' ' || c == '\t' || c == '\r')
            l.at++;
        else if (c == '#')
            lex_comment(&l);
        else if (is_letter(c))
            lex_name(&l);
        else if (is_digit(c))
            lex_number(&l);
        else if (c == '"' || (c == '\'' && l.at[1 + strcspn(l.at + 1, "'\n")] == c))
            lex_string(&l);
        else
            lex_symbol(&l);
    }
    if (l.tokens.n > 0 && l.tokens.items[l.tokens.n - 1].kind != DT_TOKEN_NEWLINE) push(&l, DT_TOKEN_NEWLINE, l.at);
    push(&l, DT_TOKEN_END, l.at);
    *n_tokens = l.tokens.n;
    return l.tokens.items;
}
