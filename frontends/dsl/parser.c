/* parser: declarations and statements; see parser.h. Words that begin a declaration or a statement (model, step, state, report, …) are no
 * reserved words: they mean something only at the place where one may begin, and stay free as names. */
#include "frontends/dsl/parser.h"

#include <stdarg.h>
#include <string.h>

enum {
    DEEPEST = 120 /* levels of nested brackets and braces */
};

const dt_token *dt_parser_peek(const dt_parser *p, size_t ahead) {
    size_t at = p->at;
    while (ahead-- > 0 && p->tokens[at].kind != DT_TOKEN_END) at++;
    return &p->tokens[at];
}

bool dt_parser_is(const dt_parser *p, dt_token_kind kind) { return p->tokens[p->at].kind == kind; }

bool dt_parser_is_word(const dt_parser *p, const char *word) { return dt_parser_is(p, DT_TOKEN_NAME) && strcmp(p->tokens[p->at].text, word) == 0; }

const dt_token *dt_parser_next(dt_parser *p) {
    const dt_token *token = &p->tokens[p->at];
    if (token->kind != DT_TOKEN_END) p->at++;
    return token;
}

bool dt_parser_accept(dt_parser *p, dt_token_kind kind) {
    if (!dt_parser_is(p, kind)) return false;
    dt_parser_next(p);
    return true;
}

static const char *describe(const dt_parser *p, const dt_token *token) {
    if (token->kind == DT_TOKEN_NAME) return token->text;
    if (token->kind == DT_TOKEN_STRING) return dt_arena_format(p->arena, "\"%s\"", token->text);
    return dt_token_spelling(token->kind);
}

/* What is written otherwise in the languages that people come from: told where it is found in the place of `what`. */
static void help_with_habit(const dt_parser *p, dt_diagnostic *error, const char *what) {
    const dt_token *token = dt_parser_peek(p, 0);
    bool wants_close = strcmp(what, dt_token_spelling(DT_TOKEN_CLOSE_ROUND)) == 0;
    dt_token_kind before = p->at > 0 ? p->tokens[p->at - 1].kind : DT_TOKEN_END;
    bool follows_sign = before == DT_TOKEN_PLUS || before == DT_TOKEN_MINUS || before == DT_TOKEN_STAR || before == DT_TOKEN_SLASH;
    if (token->kind == DT_TOKEN_DOUBLE_SLASH) dt_diagnostic_help(error, "a comment begins with #");
    if (token->kind == DT_TOKEN_DOT && dt_parser_peek(p, 1)->kind == DT_TOKEN_INT) dt_diagnostic_help(error, "a number begins with a digit: 0.5");
    if (token->kind == DT_TOKEN_COMMA && wants_close) dt_diagnostic_help(error, "a list stands in square brackets: [3, 3]");
    if (token->kind == DT_TOKEN_ASSIGN && follows_sign) dt_diagnostic_help(error, "write x = x %s …", dt_token_spelling(before));
    if (token->kind == DT_TOKEN_ASSIGN && wants_close && before == DT_TOKEN_NAME)
        dt_diagnostic_help(error, "an argument is named with a colon, %s: …; == compares", p->tokens[p->at - 1].text);
    else if (token->kind == DT_TOKEN_ASSIGN && wants_close)
        dt_diagnostic_help(error, "== compares");
}

/* Silent in a line in which the lexer, or this parser, has found a mistake: what does not fit there follows from it. */
dt_diagnostic *dt_parser_error(dt_parser *p, dt_span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    p->panicked = true;
    bool follows = dt_diagnostics_has_error(p->diagnostics, span.file, span.line);
    dt_diagnostic *error = follows ? dt_diagnostics_swallowed(p->diagnostics) : dt_diagnostics_vadd(p->diagnostics, span, format, arguments);
    va_end(arguments);
    return error;
}

static dt_diagnostic *complain(dt_parser *p, const char *what, const char *where) {
    const dt_token *token = dt_parser_peek(p, 0);
    dt_span span = token->span;
    bool is_next = dt_parser_begins_declaration(p) || (token->kind == DT_TOKEN_END && p->at > 0 && p->tokens[p->at - 1].kind == DT_TOKEN_NEWLINE);
    if (is_next && p->at > 0) span = p->tokens[p->at - 1].span; /* what is missing should have stood there */
    dt_diagnostic *error = dt_parser_error(p, span, "expected %s%s%s, found %s", what, *where != '\0' ? " " : "", where, describe(p, token));
    help_with_habit(p, error, what);
    return error;
}

void dt_parser_expected(dt_parser *p, const char *what) {
    if (!p->panicked) complain(p, what, "");
}

bool dt_parser_expect(dt_parser *p, dt_token_kind kind, const char *where) {
    if (p->panicked) return false;
    if (dt_parser_accept(p, kind)) return true;
    const char *spelling = dt_token_spelling(kind);
    if (kind == DT_TOKEN_NAME) spelling = "a name";
    complain(p, spelling, where);
    return false;
}

void dt_parser_expect_close(dt_parser *p, dt_token_kind kind, const char *where, dt_span open) {
    bool line_ended = dt_parser_peek(p, 0)->span.line != open.line || dt_parser_is(p, DT_TOKEN_NEWLINE);
    if (p->panicked || dt_parser_is(p, kind) || !line_ended) {
        dt_parser_expect(p, kind, where);
        return;
    }
    const char *close = dt_token_spelling(kind);
    dt_diagnostic *error = dt_parser_error(p, open, "%s is missing %s", close, where);
    if (!dt_parser_is(p, DT_TOKEN_NEWLINE))
        dt_diagnostic_note(error, "found %s in line %d instead", describe(p, dt_parser_peek(p, 0)), dt_parser_peek(p, 0)->span.line);
    dt_diagnostic_help(error, "close what is opened here with %s", close);
}

bool dt_parser_enter(dt_parser *p) {
    if (p->depth < DEEPEST) {
        p->depth++;
        return true;
    }
    if (!p->panicked) {
        dt_diagnostic *error = dt_parser_error(p, dt_parser_peek(p, 0)->span, "nested deeper than %d levels", DEEPEST);
        dt_diagnostic_help(error, "name a part of it and use the name");
    }
    return false;
}

void dt_parser_leave(dt_parser *p) { p->depth--; }

/* ---- statements ---- */

/* After a mistake: on to where the next statement begins, over nested braces. */
static void recover(dt_parser *p) {
    int braces = 0;
    while (!dt_parser_is(p, DT_TOKEN_END)) {
        if (braces == 0 && (dt_parser_is(p, DT_TOKEN_NEWLINE) || dt_parser_is(p, DT_TOKEN_CLOSE_BRACE))) break;
        dt_token_kind kind = dt_parser_next(p)->kind;
        braces += kind == DT_TOKEN_OPEN_BRACE ? 1 : kind == DT_TOKEN_CLOSE_BRACE ? -1 : 0;
    }
    p->panicked = false;
}

/* What was skipped may have bound names: whatever stands before = or :=, at the least. */
static void break_statement(dt_parser *p, dt_statement *statement, size_t start) {
    statement->broken = true;
    for (size_t i = start; i + 1 < p->at; i++) {
        dt_token_kind after = p->tokens[i + 1].kind;
        if (p->tokens[i].kind != DT_TOKEN_NAME || (after != DT_TOKEN_ASSIGN && after != DT_TOKEN_WRITE)) continue;
        dt_assignment_target target = {p->tokens[i].text, p->tokens[i].span};
        dt_list_push(p->arena, &statement->targets, target);
    }
}

static dt_statement *parse_statement(dt_parser *p);

static void skip_newlines(dt_parser *p) {
    while (dt_parser_accept(p, DT_TOKEN_NEWLINE)) {
    }
}

/* At a word that begins a declaration or a statement elsewhere. */
static bool help_with_word(dt_diagnostic *error, const dt_token *token) {
    static const struct {
        const char *word, *help;
    } elsewhere[] = {
        {"def", "a function is written fn name(x) { … }"},
        {"class", "what has parameters is a model, and layers in it"},
        {"import", "modules are named by use: use nn, losses"},
        {"while", "a loop is for i in 0..n { … }; it is unrolled while the program is compiled"},
    };
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (token->kind == DT_TOKEN_NAME && strcmp(elsewhere[i].word, token->text) == 0)
            return dt_diagnostic_help(error, "%s", elsewhere[i].help), true;
    return false;
}

static dt_block parse_block(dt_parser *p) {
    dt_block block = {0};
    dt_span open = dt_parser_peek(p, 0)->span;
    if (!dt_parser_expect(p, DT_TOKEN_OPEN_BRACE, "to begin the body")) return block;
    if (!dt_parser_enter(p)) return block;
    for (;;) {
        skip_newlines(p);
        if (dt_parser_is(p, DT_TOKEN_CLOSE_BRACE) || dt_parser_is(p, DT_TOKEN_END) || dt_parser_begins_declaration(p)) break;
        size_t start = p->at;
        const dt_token *first = dt_parser_peek(p, 0);
        dt_statement *statement = parse_statement(p);
        if (!p->panicked && !dt_parser_is(p, DT_TOKEN_NEWLINE) && !dt_parser_is(p, DT_TOKEN_CLOSE_BRACE)) {
            dt_diagnostic *error = complain(p, "the end of the statement", "");
            if (!help_with_word(error, first)) dt_diagnostic_help(error, "put each statement on a line of its own");
        }
        if (p->panicked && dt_parser_begins_declaration(p)) break; /* a block in this one was not closed, and that was said */
        if (p->panicked) recover(p), break_statement(p, statement, start);
        const dt_statement *before = block.n > 0 ? block.items[block.n - 1] : NULL;
        if (before != NULL && before->kind == DT_STATEMENT_RETURN && !dt_diagnostics_has_error(p->diagnostics, first->span.file, first->span.line))
            dt_diagnostic_help(dt_diagnostics_add(p->diagnostics, statement->span, "nothing comes here: return ends the body"),
                               "put it before the return in line %d", before->span.line);
        dt_list_push(p->arena, &block, statement);
    }
    dt_parser_leave(p);
    dt_parser_expect_close(p, DT_TOKEN_CLOSE_BRACE, "at the end of the body", open);
    return block;
}

static void parse_target(dt_parser *p, dt_statement *s) {
    const dt_token *name = dt_parser_peek(p, 0);
    if (!dt_parser_expect(p, DT_TOKEN_NAME, "to bind")) return;
    dt_assignment_target target = {name->text, name->span};
    dt_list_push(p->arena, &s->targets, target);
}

void dt_parse_targets(dt_parser *p, dt_statement *s) {
    do {
        parse_target(p, s);
    } while (dt_parser_accept(p, DT_TOKEN_COMMA));
}

/* Whether `a, b, … =` or `a :=` begins here. */
static dt_token_kind assignment_ahead(const dt_parser *p) {
    size_t ahead = 0;
    while (dt_parser_peek(p, ahead)->kind == DT_TOKEN_NAME) {
        dt_token_kind after = dt_parser_peek(p, ahead + 1)->kind;
        if (after != DT_TOKEN_COMMA) return after == DT_TOKEN_ASSIGN || (after == DT_TOKEN_WRITE && ahead == 0) ? after : DT_TOKEN_END;
        ahead += 2;
    }
    return DT_TOKEN_END;
}

/* trainable: expression, shard: expression, of: expression: those that there are, in any order */
static void parse_param_settings(dt_parser *p, dt_statement *s) {
    dt_span of = {0};
    while (!p->panicked && dt_parser_accept(p, DT_TOKEN_COMMA)) {
        const dt_token *word = dt_parser_peek(p, 0);
        dt_expression **setting = dt_parser_is_word(p, "trainable") ? &s->trainable
                                  : dt_parser_is_word(p, "shard")   ? &s->shard
                                  : dt_parser_is_word(p, "of")      ? &s->of
                                                                    : NULL;
        if (setting == NULL) {
            dt_parser_expected(p, "trainable: true or false, shard: a dimension, or of: how many tensors");
            return;
        }
        if (*setting != NULL) {
            dt_diagnostic_help(dt_parser_error(p, word->span, "%s is said twice", word->text), "leave one of them out");
            return;
        }
        if (setting == &s->of) of = word->span;
        dt_parser_next(p);
        if (dt_parser_expect(p, DT_TOKEN_COLON, dt_arena_format(p->arena, "after %s", word->text))) *setting = dt_parse_expression(p);
    }
    if (p->panicked || s->of == NULL || s->shard != NULL) return;
    dt_diagnostic *error = dt_parser_error(p, of, "of says how many tensors stand side by side in the dimension that is split, and none is");
    dt_diagnostic_help(error, "name the dimension: shard: 1, of: …");
}

/* What belongs to a param, after a state's value. */
static void refuse_state_settings(dt_parser *p) {
    const dt_token *word = dt_parser_peek(p, 1);
    bool is_shard = word->kind == DT_TOKEN_NAME && (strcmp(word->text, "shard") == 0 || strcmp(word->text, "of") == 0);
    if (p->panicked || !dt_parser_is(p, DT_TOKEN_COMMA) || !is_shard || dt_parser_peek(p, 2)->kind != DT_TOKEN_COLON) return;
    dt_diagnostic *error = dt_parser_error(p, word->span, "a state has no %s: every shard of the model has all of it", word->text);
    dt_diagnostic_help(error, "leave it out; only a param can be split");
}

/* param name: type = initialiser, settings        state name: type = value */
static void parse_variable(dt_parser *p, dt_statement *s) {
    s->kind = dt_parser_is_word(p, "param") ? DT_STATEMENT_PARAM : DT_STATEMENT_STATE;
    dt_parser_next(p);
    parse_target(p, s);
    if (dt_parser_accept(p, DT_TOKEN_COLON)) s->type = dt_parse_type(p, false);
    if (s->kind == DT_STATEMENT_PARAM && s->type == NULL && !p->panicked)
        dt_diagnostic_help(complain(p, "a type after the name", ""), "write param name: f32[…] = initialiser()");
    if (!p->panicked && !dt_parser_is(p, DT_TOKEN_ASSIGN))
        dt_diagnostic_help(complain(p, "=", "before the initial value"), s->kind == DT_STATEMENT_PARAM ? "= glorot_uniform(), say" : "= 0, say");
    if (p->panicked || !dt_parser_accept(p, DT_TOKEN_ASSIGN)) return;
    s->value = dt_parse_expression(p);
    if (s->kind == DT_STATEMENT_PARAM)
        parse_param_settings(p, s);
    else
        refuse_state_settings(p);
}

static void parse_if(dt_parser *p, dt_statement *s) {
    s->kind = DT_STATEMENT_IF;
    dt_parser_next(p);
    s->value = dt_parse_expression(p);
    s->body = parse_block(p);
    size_t ahead = 0;
    while (dt_parser_peek(p, ahead)->kind == DT_TOKEN_NEWLINE) ahead++;
    if (p->panicked || dt_parser_peek(p, ahead)->kind != DT_TOKEN_ELSE) return;
    while (!dt_parser_accept(p, DT_TOKEN_ELSE)) dt_parser_next(p);
    if (!dt_parser_is(p, DT_TOKEN_IF)) {
        s->otherwise = parse_block(p);
        return;
    }
    if (!dt_parser_enter(p)) return;
    dt_statement *nested = DT_NEW(p->arena, dt_statement);
    nested->span = dt_parser_peek(p, 0)->span;
    parse_if(p, nested);
    dt_list_push(p->arena, &s->otherwise, nested);
    dt_parser_leave(p);
}

static void parse_for(dt_parser *p, dt_statement *s) {
    s->kind = DT_STATEMENT_FOR;
    dt_parser_next(p);
    dt_parse_targets(p, s);
    dt_parser_expect(p, DT_TOKEN_IN, "after what for binds");
    s->value = dt_parse_expression(p);
    s->body = parse_block(p);
}

static void parse_report(dt_parser *p, dt_statement *s) {
    s->kind = DT_STATEMENT_REPORT;
    dt_parser_next(p);
    dt_parse_arguments(p, &s->arguments, DT_TOKEN_NEWLINE);
    bool ends = dt_parser_is(p, DT_TOKEN_NEWLINE) || dt_parser_is(p, DT_TOKEN_CLOSE_BRACE); /* else that is what is wrong */
    for (size_t i = 0; i < s->arguments.n && ends && !p->panicked; i++) {
        if (s->arguments.items[i].name != NULL) continue;
        s->broken = true;
        dt_diagnostic *error = dt_diagnostics_add(p->diagnostics, s->arguments.items[i].span, "a report needs a name");
        dt_diagnostic_help(error, "write report name: expression");
    }
}

static bool is_update(const dt_parser *p) {
    if (!dt_parser_is_word(p, "update") || dt_parser_peek(p, 1)->kind != DT_TOKEN_OPEN_ROUND) return false;
    size_t ahead = 2;
    while (dt_parser_peek(p, ahead)->kind == DT_TOKEN_NAME || dt_parser_peek(p, ahead)->kind == DT_TOKEN_COMMA) ahead++;
    return dt_parser_peek(p, ahead)->kind == DT_TOKEN_CLOSE_ROUND && dt_parser_peek(p, ahead + 1)->kind == DT_TOKEN_OPEN_BRACE;
}

static dt_statement *parse_statement(dt_parser *p) {
    dt_statement *s = DT_NEW(p->arena, dt_statement);
    s->kind = DT_STATEMENT_EXPRESSION;
    s->span = dt_parser_peek(p, 0)->span;
    bool name_follows = dt_parser_peek(p, 1)->kind == DT_TOKEN_NAME;
    dt_token_kind assignment = assignment_ahead(p);
    if (assignment != DT_TOKEN_END) {
        s->kind = assignment == DT_TOKEN_ASSIGN ? DT_STATEMENT_ASSIGN : DT_STATEMENT_WRITE;
        dt_parse_targets(p, s);
        dt_parser_next(p);
        s->value = dt_parse_expression(p);
    } else if (name_follows && (dt_parser_is_word(p, "param") || dt_parser_is_word(p, "state"))) {
        parse_variable(p, s);
    } else if (dt_parser_is(p, DT_TOKEN_IF)) {
        parse_if(p, s);
    } else if (dt_parser_is(p, DT_TOKEN_FOR)) {
        parse_for(p, s);
    } else if (dt_parser_is(p, DT_TOKEN_RETURN)) {
        s->kind = DT_STATEMENT_RETURN;
        dt_parser_next(p);
        dt_parse_arguments(p, &s->arguments, DT_TOKEN_NEWLINE);
    } else if (name_follows && dt_parser_is_word(p, "report")) {
        parse_report(p, s);
    } else if (is_update(p)) {
        s->kind = DT_STATEMENT_UPDATE;
        dt_parser_next(p);
        s->callable = DT_NEW(p->arena, dt_callable);
        dt_parse_parameters(p, s->callable);
        s->callable->body = parse_block(p);
    } else {
        s->value = dt_parse_expression(p);
        if (dt_parser_is(p, DT_TOKEN_ASSIGN) || dt_parser_is(p, DT_TOKEN_WRITE))
            dt_diagnostic_help(complain(p, "a name on the left side", ""), "only a plain name can be bound; a state is written by its own name");
    }
    return s;
}

/* ---- declarations ---- */

static const struct {
    const char *word;
    dt_declaration_kind kind;
} declarations[] = {
    {"const", DT_DECLARATION_CONST}, {"option", DT_DECLARATION_OPTION},       {"launch", DT_DECLARATION_LAUNCH}, {"mesh", DT_DECLARATION_MESH},
    {"fn", DT_DECLARATION_FN},       {"layer", DT_DECLARATION_LAYER},         {"model", DT_DECLARATION_MODEL},   {"data", DT_DECLARATION_DATA},
    {"step", DT_DECLARATION_STEP},   {"optimizer", DT_DECLARATION_OPTIMIZER},
};

static bool declares(const char *word) {
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++)
        if (strcmp(declarations[i].word, word) == 0) return true;
    return false;
}

/* `layer f(x)` and no body: a layer that is bound, not one that is declared. */
static bool binds_layer(const dt_parser *p) {
    if (!dt_parser_is_word(p, "layer")) return false;
    const dt_token *token = dt_parser_peek(p, dt_parser_peek(p, 2)->kind == DT_TOKEN_DOT ? 4 : 2);
    if (token->kind != DT_TOKEN_OPEN_ROUND) return false;
    int depth = 0;
    do {
        depth += token->kind == DT_TOKEN_OPEN_ROUND ? 1 : token->kind == DT_TOKEN_CLOSE_ROUND ? -1 : 0;
        token++;
    } while (depth > 0 && token->kind != DT_TOKEN_END);
    return depth == 0 && token->kind != DT_TOKEN_OPEN_BRACE && token->kind != DT_TOKEN_ARROW;
}

/* No statement begins so: `step train` at the beginning of a line. */
bool dt_parser_begins_declaration(const dt_parser *p) {
    const dt_token *token = dt_parser_peek(p, 0);
    if (token->span.column != 1) return false;
    size_t at = dt_parser_is_word(p, "private") ? 1 : 0;
    const dt_token *declaring = dt_parser_peek(p, at);
    const char *word = declaring->kind == DT_TOKEN_FN ? "fn" : declaring->kind == DT_TOKEN_NAME ? declaring->text : "";
    return declares(word) && dt_parser_peek(p, at + 1)->kind == DT_TOKEN_NAME && (at > 0 || !binds_layer(p));
}

static void parse_uses(dt_parser *p, dt_syntax *syntax) {
    dt_parser_next(p);
    do {
        const dt_token *name = dt_parser_peek(p, 0);
        if (!dt_parser_expect(p, DT_TOKEN_NAME, "of a module")) {
            syntax->incomplete = true;
            return;
        }
        dt_use use = {name->text, name->span};
        dt_list_push(p->arena, &syntax->uses, use);
    } while (dt_parser_accept(p, DT_TOKEN_COMMA));
}

static void add_broken(dt_parser *p, dt_syntax *syntax, const char *name, dt_span span) {
    dt_declaration *d = DT_NEW(p->arena, dt_declaration);
    *d = (dt_declaration){.kind = DT_DECLARATION_CONST, .name = name, .span = span, .value = DT_NEW(p->arena, dt_expression)};
    *d->value = (dt_expression){.kind = DT_EXPRESSION_BROKEN, .span = span};
    dt_list_push(p->arena, &syntax->declarations, d);
}

/* "option name" is what was just read, ':' before. */
static void parse_language_option(dt_parser *p, dt_syntax *syntax, const dt_declaration *d) {
    dt_parser_next(p);
    const dt_token *value = dt_parser_peek(p, 0);
    if (!dt_parser_expect(p, DT_TOKEN_NAME, "after the colon")) {
        add_broken(p, syntax, d->name, d->span);
        return;
    }
    dt_language_option option = {d->name, value->text, d->span, value->span};
    dt_list_push(p->arena, &syntax->options, option);
}

/* "mesh name" is what was just read. */
static void parse_mesh(dt_parser *p, dt_syntax *syntax, dt_declaration *d) {
    if (strcmp(d->name, "model") != 0) {
        dt_diagnostic *error = dt_parser_error(p, d->span, "a mesh has one axis, model, and none that is called %s", d->name);
        dt_diagnostic_help(error, "write mesh model = 4, say, for a model of 4 shards");
        return;
    }
    if (!dt_parser_expect(p, DT_TOKEN_ASSIGN, "after mesh model")) return;
    d->value = dt_parse_expression(p);
    if (p->panicked) d->value->kind = DT_EXPRESSION_BROKEN;
    dt_list_push(p->arena, &syntax->meshes, d);
}

/* every epoch, every 5 epochs */
static void parse_every(dt_parser *p, dt_declaration *d) {
    dt_parser_next(p);
    const dt_token *n = dt_parser_peek(p, 0);
    bool counts = dt_parser_is(p, DT_TOKEN_INT);
    d->is_repeated = true;
    d->every_span = n->span;
    d->every = counts ? n->i : 1;
    if (counts) dt_parser_next(p);
    if (dt_parser_is_word(p, counts ? "epochs" : "epoch"))
        dt_parser_next(p);
    else
        dt_parser_expected(p, counts ? "epochs" : "epoch, or how many epochs: every 5 epochs");
}

static void parse_callable(dt_parser *p, dt_declaration *d) {
    d->callable = DT_NEW(p->arena, dt_callable);
    dt_parse_parameters(p, d->callable);
    if (dt_parser_accept(p, DT_TOKEN_ARROW)) do {
            dt_list_push(p->arena, &d->callable->results, dt_parse_type(p, false));
        } while (dt_parser_accept(p, DT_TOKEN_COMMA));
    if (d->kind == DT_DECLARATION_STEP && dt_parser_is_word(p, "from")) {
        dt_parser_next(p);
        const dt_token *from = dt_parser_peek(p, 0);
        d->from_span = from->span;
        if (dt_parser_expect(p, DT_TOKEN_NAME, "of the step's data")) d->from = from->text;
        if (dt_parser_is_word(p, "every")) parse_every(p, d);
    }
    d->callable->broken = p->panicked;
    while (p->panicked && !dt_parser_is(p, DT_TOKEN_END) && !dt_parser_is(p, DT_TOKEN_NEWLINE)) { /* the body has mistakes of its own */
        p->panicked = !dt_parser_is(p, DT_TOKEN_OPEN_BRACE);
        if (p->panicked) dt_parser_next(p);
    }
    d->callable->body = parse_block(p);
    d->callable->broken |= p->panicked;
}

/* A line that is no declaration: the name that it would have declared, if that can be seen, is poison. */
static void declare_broken(dt_parser *p, dt_syntax *syntax) {
    const dt_token *first = dt_parser_peek(p, 0), *second = dt_parser_peek(p, 1);
    const dt_token *name = second->kind == DT_TOKEN_NAME ? second : second->kind == DT_TOKEN_ASSIGN ? first : NULL;
    if (name == NULL || name->text == NULL || strcmp(first->text != NULL ? first->text : "", "import") == 0) {
        syntax->incomplete = true;
        return;
    }
    add_broken(p, syntax, name->text, name->span);
}

/* After its first word. */
static void parse_declaration_of(dt_parser *p, dt_syntax *syntax, dt_declaration_kind kind, const char *word, bool is_private) {
    dt_declaration *d = DT_NEW(p->arena, dt_declaration);
    d->kind = kind;
    d->is_private = is_private;
    const dt_token *name = dt_parser_peek(p, 0);
    if (!dt_parser_expect(p, DT_TOKEN_NAME, dt_arena_format(p->arena, "after %s", word))) {
        syntax->incomplete = true;
        return;
    }
    d->name = name->text;
    d->span = name->span;
    if (d->kind == DT_DECLARATION_OPTION && dt_parser_is(p, DT_TOKEN_COLON)) {
        parse_language_option(p, syntax, d);
        return;
    }
    if (d->kind == DT_DECLARATION_MESH) {
        parse_mesh(p, syntax, d);
        return;
    }
    bool is_value = kind == DT_DECLARATION_CONST || kind == DT_DECLARATION_OPTION || kind == DT_DECLARATION_LAUNCH || kind == DT_DECLARATION_DATA;
    if (is_value) {
        dt_parser_expect(p, DT_TOKEN_ASSIGN, "after the name");
        d->value = dt_parse_expression(p);
        if (p->panicked) d->value->kind = DT_EXPRESSION_BROKEN;
    } else {
        parse_callable(p, d);
    }
    dt_list_push(p->arena, &syntax->declarations, d);
}

static bool may_be_private(dt_declaration_kind kind) {
    return kind == DT_DECLARATION_CONST || kind == DT_DECLARATION_FN || kind == DT_DECLARATION_LAYER || kind == DT_DECLARATION_MODEL ||
           kind == DT_DECLARATION_OPTIMIZER;
}

static void parse_declaration(dt_parser *p, dt_syntax *syntax) {
    bool is_private = dt_parser_is_word(p, "private");
    if (is_private) dt_parser_next(p);
    const dt_token *word = dt_parser_peek(p, 0);
    if (dt_parser_is_word(p, "use") && !is_private) {
        parse_uses(p, syntax);
        return;
    }
    enum {
        n_words = sizeof declarations / sizeof *declarations
    };
    static const char what_is_private[] = "const, fn, layer, model or optimizer";
    const char *words[n_words];
    for (size_t i = 0; i < n_words; i++) words[i] = declarations[i].word;
    const char *spelling = word->text != NULL ? word->text : dt_token_spelling(word->kind), *meant = declares(spelling) ? spelling : NULL;
    if (meant == NULL) {
        dt_diagnostic *error =
            complain(p, is_private ? what_is_private : "use, private, const, option, launch, mesh, fn, layer, model, optimizer, data or step",
                     is_private ? "after private" : "");
        bool helped = help_with_word(error, word);
        if (!helped && word->kind == DT_TOKEN_NAME) meant = dt_text_nearest(spelling, words, n_words);
        if (meant != NULL) dt_diagnostic_help(error, "did you mean %s?", meant);
        if (meant == NULL && dt_parser_peek(p, 1)->kind == DT_TOKEN_ASSIGN) dt_diagnostic_help(error, "a value is declared: const %s = …", spelling);
        if (meant == NULL || dt_parser_peek(p, 1)->kind != DT_TOKEN_NAME) {
            declare_broken(p, syntax);
            return;
        }
        p->panicked = false; /* taken for what was meant */
    }
    size_t at = 0;
    while (strcmp(words[at], meant) != 0) at++;
    if (is_private && !may_be_private(declarations[at].kind)) complain(p, what_is_private, "after private"), p->panicked = false;
    dt_parser_next(p);
    parse_declaration_of(p, syntax, declarations[at].kind, spelling, is_private);
}

/* A mistake between declarations: on to a line that begins with a word that declares. */
static void recover_declaration(dt_parser *p) {
    for (; !dt_parser_is(p, DT_TOKEN_END); dt_parser_next(p)) {
        const dt_token *token = dt_parser_peek(p, 0);
        if (token->span.column != 1 || token->text == NULL) continue;
        if (strcmp(token->text, "use") == 0 || strcmp(token->text, "private") == 0 || declares(token->text)) break;
    }
    p->panicked = false;
}

dt_syntax *dt_parse(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text) {
    size_t n_tokens;
    dt_parser p = {.arena = arena, .diagnostics = diagnostics, .tokens = dt_lex(arena, diagnostics, file, text, &n_tokens)};
    dt_syntax *syntax = DT_NEW(arena, dt_syntax);
    for (skip_newlines(&p); !dt_parser_is(&p, DT_TOKEN_END); skip_newlines(&p)) {
        p.depth = 0;
        parse_declaration(&p, syntax);
        if (!p.panicked && !dt_parser_is(&p, DT_TOKEN_NEWLINE)) complain(&p, "the end of the line", "");
        if (p.panicked) recover_declaration(&p);
    }
    return syntax;
}

dt_expression *dt_parse_lone_expression(dt_arena *arena, dt_diagnostics *diagnostics, int file, const char *text) {
    size_t n_tokens;
    dt_parser p = {.arena = arena, .diagnostics = diagnostics, .tokens = dt_lex(arena, diagnostics, file, text, &n_tokens)};
    dt_expression *e = dt_parse_expression(&p);
    dt_parser_accept(&p, DT_TOKEN_NEWLINE);
    if (!dt_parser_is(&p, DT_TOKEN_END)) dt_parser_expected(&p, "the end of the value");
    return e;
}
