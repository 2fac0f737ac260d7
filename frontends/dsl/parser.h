/* parser: tokens to a tree, by recursive descent. A mistake is reported once and parsing goes on at the next statement. */
#ifndef DT_FRONTENDS_DSL_PARSER_H
#define DT_FRONTENDS_DSL_PARSER_H

#include "frontends/dsl/syntax.h"

/* The program in `text`, known to the diagnostics as `file`. Never NULL. What was not understood is broken or
 * incomplete in it (syntax.h), so that the rest can be elaborated: mistakes of all kinds are shown together. */
dt_syntax *dt_parse(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text);

/* One expression and nothing else: the value of -D name=value. */
dt_expression *dt_parse_lone_expression(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text);

/* ---- between parser.c and parser_expression.c ---- */
typedef struct dt_parser {
    dt_arena *arena;
    dt_diagnostics *diagnostics;
    const dt_token *tokens;
    size_t at;
    int depth;     /* of nesting: bounded, so that no input can exhaust the stack */
    bool panicked; /* a mistake was reported; silent until the next statement */
} dt_parser;

const dt_token *dt_parser_peek(const dt_parser *p, size_t ahead);
bool dt_parser_is(const dt_parser *p, dt_token_kind kind);
bool dt_parser_is_word(const dt_parser *p, const char *word); /* a contextual keyword: a name with that spelling */
const dt_token *dt_parser_next(dt_parser *p);
bool dt_parser_accept(dt_parser *p, dt_token_kind kind);
bool dt_parser_expect(dt_parser *p, dt_token_kind kind, const char *where); /* reports what stands there instead */
/* The closing bracket of `open`; when the line has ended without it, the opening one is what is shown. */
void dt_parser_expect_close(dt_parser *p, dt_token_kind kind, const char *where, dt_span open);
void dt_parser_expected(dt_parser *p, const char *what);
dt_diagnostic *dt_parser_error(dt_parser *p, dt_span span, const char *format, ...) __attribute__((format(printf, 3, 4))); /* and panics */
bool dt_parser_begins_declaration(const dt_parser *p); /* at the beginning of a line: what stands before it has ended */
bool dt_parser_enter(dt_parser *p);                    /* one level deeper; false when too deep, reported. Always paired with leave */
void dt_parser_leave(dt_parser *p);

dt_expression *dt_parse_expression(dt_parser *p); /* never NULL; after a mistake a BROKEN */
dt_type_syntax *dt_parse_type(dt_parser *p, bool may_be_enum);
void dt_parse_parameters(dt_parser *p, dt_callable *callable); /* ( … ) */
void dt_parse_targets(dt_parser *p, dt_statement *s);          /* a, b */
/* `value, name: value, …` up to what ends the list; may break lines inside brackets only, which the lexer has seen to. */
void dt_parse_arguments(dt_parser *p, dt_argument_list *arguments, dt_token_kind close);

#endif
