/* lexer: text to tokens.
 *
 * The rule of newlines is decided here, so that the parser sees a newline token exactly where a statement ends: not inside ( and [ (inside { they
 * count again), not after a comma or an operator that wants a right side, not before a leading |. */
#ifndef DT_FRONTENDS_DSL_LEXER_H
#define DT_FRONTENDS_DSL_LEXER_H

#include "frontends/dsl/diagnostics.h"

#include <stdint.h>

/* X(enumerator, spelling; "" where it varies, whether a line may break after it) */
#define DT_TOKENS(X)                                                                                                                                 \
    X(END, "end of file", 0)                                                                                                                         \
    X(NEWLINE, "end of line", 0)                                                                                                                     \
    X(NAME, "name", 0)                                                                                                                               \
    X(INT, "integer", 0)                                                                                                                             \
    X(FLOAT, "number", 0)                                                                                                                            \
    X(STRING, "string", 0)                                                                                                                           \
    X(PLUS, "+", 1)                                                                                                                                  \
    X(MINUS, "-", 1)                                                                                                                                 \
    X(STAR, "*", 1)                                                                                                                                  \
    X(SLASH, "/", 1)                                                                                                                                 \
    X(DOUBLE_SLASH, "//", 1)                                                                                                                         \
    X(PERCENT, "%", 1)                                                                                                                               \
    X(DOUBLE_STAR, "**", 1)                                                                                                                          \
    X(AT, "@", 1)                                                                                                                                    \
    X(EQUAL_EQUAL, "==", 1)                                                                                                                          \
    X(NOT_EQUAL, "!=", 1)                                                                                                                            \
    X(LESS, "<", 1)                                                                                                                                  \
    X(LESS_EQUAL, "<=", 1)                                                                                                                           \
    X(GREATER, ">", 1)                                                                                                                               \
    X(GREATER_EQUAL, ">=", 1)                                                                                                                        \
    X(ASSIGN, "=", 1)                                                                                                                                \
    X(WRITE, ":=", 1)                                                                                                                                \
    X(FAT_ARROW, "=>", 1)                                                                                                                            \
    X(ARROW, "->", 1)                                                                                                                                \
    X(PIPE, "|", 1)                                                                                                                                  \
    X(COMMA, ",", 1)                                                                                                                                 \
    X(COLON, ":", 1)                                                                                                                                 \
    X(DOT, ".", 0)                                                                                                                                   \
    X(DOT_DOT, "..", 1)                                                                                                                              \
    X(ELLIPSIS, "...", 0)                                                                                                                            \
    X(OPEN_ROUND, "(", 0)                                                                                                                            \
    X(CLOSE_ROUND, ")", 0)                                                                                                                           \
    X(OPEN_SQUARE, "[", 0)                                                                                                                           \
    X(CLOSE_SQUARE, "]", 0)                                                                                                                          \
    X(OPEN_BRACE, "{", 0)                                                                                                                            \
    X(CLOSE_BRACE, "}", 0)                                                                                                                           \
    X(FN, "fn", 0)                                                                                                                                   \
    X(IF, "if", 0)                                                                                                                                   \
    X(ELSE, "else", 0)                                                                                                                               \
    X(FOR, "for", 0)                                                                                                                                 \
    X(IN, "in", 1)                                                                                                                                   \
    X(RETURN, "return", 0)                                                                                                                           \
    X(AND, "and", 1)                                                                                                                                 \
    X(OR, "or", 1)                                                                                                                                   \
    X(NOT, "not", 1)                                                                                                                                 \
    X(TRUE, "true", 0)                                                                                                                               \
    X(FALSE, "false", 0)                                                                                                                             \
    X(NONE, "none", 0)                                                                                                                               \
    X(AS, "as", 0)

typedef enum dt_token_kind {
#define X(enumerator, spelling, breaks) DT_TOKEN_##enumerator,
    DT_TOKENS(X)
#undef X
    DT_N_TOKENS
} dt_token_kind;

typedef struct dt_token {
    dt_token_kind kind;
    dt_span span;
    const char *text; /* NAME: the name; keywords: their spelling; STRING: its value, escapes resolved */
    int64_t i;        /* INT */
    double f;         /* INT and FLOAT */
} dt_token;

const char *dt_token_spelling(dt_token_kind kind);

/* The text of a file after the byte order mark, with which some editors begin a file of UTF-8. */
const char *dt_source_text(const char *text);

/* All tokens of `text`, the last one END. Mistakes go to the diagnostics and leave out what they concern. */
dt_token *dt_lex(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text, size_t *n_tokens);

#endif
