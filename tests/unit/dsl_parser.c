/* parser: how operators bind, what stands where, and that one mistake does not hide the next. */
#include "frontends/dsl/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void print(dt_text *text, const dt_expression *x);

static void print_all(dt_text *text, const dt_expression_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0) dt_text_append(text, " ");
        print(text, list->items[i]);
    }
}

/* An expression with all its brackets. */
static void print(dt_text *text, const dt_expression *x) {
    if (x == NULL) {
        dt_text_append(text, "_");
        return;
    }
    switch (x->kind) {
    case DT_EXPRESSION_INT: dt_text_format(text, "%lld", (long long)x->i); break;
    case DT_EXPRESSION_FLOAT: dt_text_format(text, "%g", x->f); break;
    case DT_EXPRESSION_BOOL: dt_text_append(text, x->i != 0 ? "true" : "false"); break;
    case DT_EXPRESSION_NONE: dt_text_append(text, "none"); break;
    case DT_EXPRESSION_STRING: dt_text_format(text, "\"%s\"", x->text); break;
    case DT_EXPRESSION_NAME: dt_text_append(text, x->text); break;
    case DT_EXPRESSION_ELLIPSIS: dt_text_append(text, "..."); break;
    case DT_EXPRESSION_LIST:
        dt_text_append(text, "[");
        print_all(text, &x->items);
        dt_text_append(text, "]");
        break;
    case DT_EXPRESSION_CALL:
        print(text, x->a);
        dt_text_append(text, "(");
        for (size_t i = 0; i < x->arguments.n; i++) {
            if (i > 0) dt_text_append(text, " ");
            if (x->arguments.items[i].name != NULL) dt_text_format(text, "%s:", x->arguments.items[i].name);
            print(text, x->arguments.items[i].value);
        }
        dt_text_append(text, ")");
        break;
    case DT_EXPRESSION_INDEX:
        print(text, x->a);
        dt_text_append(text, "[");
        print_all(text, &x->items);
        dt_text_append(text, "]");
        break;
    case DT_EXPRESSION_LAMBDA:
        dt_text_append(text, "(fn ");
        print(text, x->callable->body.items[0]->arguments.items[0].value);
        dt_text_append(text, ")");
        break;
    case DT_EXPRESSION_FIELD:
    case DT_EXPRESSION_AS:
        dt_text_append(text, "(");
        print(text, x->a);
        dt_text_format(text, x->kind == DT_EXPRESSION_FIELD ? " .%s)" : " as %s)", x->text);
        break;
    default:
        dt_text_append(text, "(");
        if (x->kind == DT_EXPRESSION_CONDITIONAL) dt_text_append(text, "if ");
        if (x->kind == DT_EXPRESSION_PIPE) dt_text_append(text, "| ");
        if (x->kind == DT_EXPRESSION_SLICE) dt_text_append(text, ": ");
        if (x->kind == DT_EXPRESSION_UNARY || x->kind == DT_EXPRESSION_BINARY || x->kind == DT_EXPRESSION_RANGE)
            dt_text_format(text, "%s ", dt_token_spelling(x->operator));
        print(text, x->a);
        if (x->kind != DT_EXPRESSION_UNARY) dt_text_append(text, " "), print(text, x->b);
        if (x->c != NULL) dt_text_append(text, " "), print(text, x->c);
        dt_text_append(text, ")");
    }
}

static void check(const char *source, const char *wanted) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    int file = dt_diagnostics_add_file(diagnostics, "t.dt", source);
    dt_text got = {0};
    print(&got, dt_parse_lone_expression(arena, diagnostics, file, source));
    assert_string_equal(got.data, wanted);
    assert_int_equal(dt_diagnostics_n_errors(diagnostics), 0);
    dt_text_free(&got);
    dt_arena_destroy(arena);
}

static void operators_bind(void **state) {
    (void)state;
    check("a + b * c - d", "(- (+ a (* b c)) d)");
    check("-a ** -b ** c", "(- (** a (- (** b c))))");
    check("a @ b.T + c", "(+ (@ a (b .T)) c)");
    check("not a == b and c or d", "(or (and (not (== a b)) c) d)");
    check("0..n - 1", "(.. 0 (- n 1))");
    check("2 if a > 0 and b == 0 else 1", "(if (and (> a 0) (== b 0)) 2 1)");
    check("a if b else c if d else e", "(if b a (if d c e))");
    check("x | f(1) | g(2)", "(| (| x f(1)) g(2))");
    check("fn(t) => t + 1", "(fn (+ t 1))");
}

static void calls_indices_and_names(void **state) {
    (void)state;
    check("f(x, units: 4 * C, state: 1)", "f(x units:(* 4 C) state:1)");
    check("f(g(x)) as head", "(f(g(x)) as head)");
    check("x[:, 0, 1:, ..., newaxis, a:b:2, :-1]", "x[(: _ _) 0 (: 1 _) ... newaxis (: a b 2) (: _ (- 1))]");
    check("f(x)[..., newaxis].shape[-1]", "(f(x)[... newaxis] .shape)[(- 1)]");
    check("[1, 2.5, \"a\", true, none,]", "[1 2.5 \"a\" true none]");
}

static dt_syntax *parse(dt_arena *arena, const char *source, size_t *n_errors) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_syntax *syntax = dt_parse(arena, diagnostics, dt_diagnostics_add_file(diagnostics, "t.dt", source), source);
    *n_errors = dt_diagnostics_n_errors(diagnostics);
    return syntax;
}

static void declarations(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    size_t n_errors;
    dt_syntax *syntax = parse(arena,
                              "use nn, losses\n"
                              "option n = 4\n"
                              "option precision: bf16\n"
                              "data d = idx(\"a\")\n    | batch(2)\n"
                              "optimizer o(rate: schedule = 0.1, mode: fast | slow = fast) {\n    update (p, g) { p := p - rate * g }\n}\n"
                              "model M(x: f32[B, 4*C, ...]) -> f32[B], i32[B] {\n"
                              "    param w: f32[C] = zeros(), trainable: false\n    state s: i64 = 0\n"
                              "    if a { s := s + 1 }\n    else if b { y = 1 } else { y = 2 }\n"
                              "    for i, v in enumerate(l) { x = v }\n    return x, y\n}\n"
                              "step t(x: u8[B]) from d { report a: mean(x),\n b: sum(x) }\n",
                              &n_errors);
    assert_int_equal(n_errors, 0);
    assert_int_equal(syntax->uses.n, 2);
    assert_int_equal(syntax->options.n, 1);
    assert_string_equal(syntax->options.items[0].name, "precision");
    assert_string_equal(syntax->options.items[0].value, "bf16");
    assert_int_equal(syntax->declarations.n, 5);
    const dt_callable *optimizer = syntax->declarations.items[2]->callable, *model = syntax->declarations.items[3]->callable;
    assert_int_equal(optimizer->parameters.items[1].type->choices.n, 2);
    assert_int_equal(optimizer->body.items[0]->kind, DT_STATEMENT_UPDATE);
    assert_int_equal(model->results.n, 2);
    assert_int_equal(model->parameters.items[0].type->dims.n, 3);
    const dt_statement_kind kinds[] = {DT_STATEMENT_PARAM, DT_STATEMENT_STATE, DT_STATEMENT_IF, DT_STATEMENT_FOR, DT_STATEMENT_RETURN};
    assert_int_equal(model->body.n, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(model->body.items[i]->kind, kinds[i]);
    assert_int_equal(model->body.items[2]->otherwise.items[0]->kind, DT_STATEMENT_IF);
    assert_string_equal(syntax->declarations.items[4]->from, "d");
    assert_int_equal(syntax->declarations.items[4]->callable->body.items[0]->arguments.n, 2);
    dt_arena_destroy(arena);
}

static void a_mesh_and_what_it_splits(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    size_t n_errors;
    dt_syntax *syntax = parse(arena,
                              "mesh model = 2 * n\n"
                              "model M(x: f32[B, 4]) {\n"
                              "    param w: f32[4, 8] = zeros(), shard: -1, of: 2, trainable: false\n"
                              "    param b: f32[8] = zeros(), of: a + 1, shard: none\n"
                              "    return x @ w + b\n}\n",
                              &n_errors);
    assert_int_equal(n_errors, 0);
    assert_int_equal(syntax->declarations.n, 1);
    assert_int_equal(syntax->meshes.n, 1);
    assert_int_equal(syntax->meshes.items[0]->value->kind, DT_EXPRESSION_BINARY);
    const dt_block *body = &syntax->declarations.items[0]->callable->body;
    const dt_statement *w = body->items[0], *b = body->items[1];
    assert_true(w->shard != NULL && w->of->kind == DT_EXPRESSION_INT && w->trainable->kind == DT_EXPRESSION_BOOL);
    assert_true(b->shard->kind == DT_EXPRESSION_NONE && b->of->kind == DT_EXPRESSION_BINARY && b->trainable == NULL);
    dt_arena_destroy(arena);
}

static void words_of_declarations_stay_names(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    size_t n_errors;
    parse(arena,
          "const mesh = 1\nfn f(step, data, state, shard, of) {\n    update = step + data + mesh\n    state = update\n    shard, of = g(shard: of)\n "
          "   return state\n}\n",
          &n_errors);
    assert_int_equal(n_errors, 0);
    dt_arena_destroy(arena);
}

static void one_mistake_does_not_hide_the_next(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    size_t n_errors;
    dt_syntax *syntax = parse(arena, "fn f(x) {\n    y = )\n    z = [1, }\nwhat is this\nfn g(x) { return x + }\nfn h(x) { return x }\n", &n_errors);
    assert_in_range(n_errors, 3, 5);
    assert_string_equal(syntax->declarations.items[syntax->declarations.n - 1]->name, "h");
    dt_arena_destroy(arena);
}

static void nesting_is_bounded(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    static const char *const openers[] = {"(", "[", "-", "not ", "fn(x) => ", "f(", "a ** ", "1 if a else ", "if x { ", "a.b", "a + ", "x["};
    for (size_t k = 0; k < sizeof openers / sizeof *openers; k++) {
        dt_text text = {0};
        dt_text_append(&text, "fn f(x) {\n");
        for (int i = 0; i < 20000; i++) dt_text_append(&text, openers[k]);
        size_t n_errors;
        parse(arena, text.data, &n_errors);
        assert_in_range(n_errors, 1, 20);
        dt_text_free(&text);
    }
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_bind),
        cmocka_unit_test(calls_indices_and_names),
        cmocka_unit_test(declarations),
        cmocka_unit_test(a_mesh_and_what_it_splits),
        cmocka_unit_test(words_of_declarations_stay_names),
        cmocka_unit_test(one_mistake_does_not_hide_the_next),
        cmocka_unit_test(nesting_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
