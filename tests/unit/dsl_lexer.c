/* lexer: tokens, numbers, strings, and where a line ends. */
#include "frontends/dsl/lexer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The spellings of all tokens but END, separated by blanks; names and strings as they are, ";" for the end of a line. */
static void check(const char *text, const char *wanted) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    int file = dt_diagnostics_add_file(diagnostics, "t.dt", text);
    size_t n;
    const dt_token *tokens = dt_lex(arena, diagnostics, file, text, &n);
    dt_text got = {0};
    dt_text_append(&got, "");
    for (size_t i = 0; i + 1 < n; i++) {
        const dt_token *t = &tokens[i];
        if (i > 0) dt_text_append(&got, " ");
        if (t->kind == DT_TOKEN_NEWLINE)
            dt_text_append(&got, ";");
        else if (t->kind == DT_TOKEN_INT)
            dt_text_format(&got, "%lld", (long long)t->i);
        else if (t->kind == DT_TOKEN_FLOAT)
            dt_text_format(&got, "%g", t->f);
        else
            dt_text_append(&got, t->text != NULL ? t->text : dt_token_spelling(t->kind));
    }
    assert_string_equal(got.data, wanted);
    assert_int_equal(tokens[n - 1].kind, DT_TOKEN_END);
    dt_text_free(&got);
    dt_arena_destroy(arena);
}

static size_t errors_in(const char *text) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    size_t n;
    dt_lex(arena, diagnostics, dt_diagnostics_add_file(diagnostics, "t.dt", text), text, &n);
    size_t n_errors = dt_diagnostics_n_errors(diagnostics);
    dt_arena_destroy(arena);
    return n_errors;
}

static void numbers(void **state) {
    (void)state;
    check("1 60_000 1.5 1e-3 2E4 0..n", "1 60000 1.5 0.001 20000 0 .. n ;");
    check("x[..., 1:]", "x [ ... , 1 : ] ;");
    assert_int_equal(errors_in("99999999999999999999"), 1);
    assert_int_equal(errors_in("12px"), 1);
}

static void operators_take_the_longest(void **state) {
    (void)state;
    check("a:=b==c=>d->e//f**g!=h", "a := b == c => d -> e // f ** g != h ;");
}

static void strings(void **state) {
    (void)state;
    check("\"a \\\"b\\\"\\n\" c", "a \"b\"\n c ;");
    assert_int_equal(errors_in("\"no end"), 1);
    assert_int_equal(errors_in("\"\\q\""), 1);
    assert_int_equal(errors_in("x = 1 $ 2"), 1);
    assert_int_equal(errors_in("x = 1 \xc3\xa9 2"), 1);
}

static void a_line_ends_a_statement(void **state) {
    (void)state;
    check("a = b\nc", "a = b ; c ;");
    check("\n\n# nothing\na # text\n\n\nb", "a ; b ;");
}

static void but_goes_on_where_more_must_come(void **state) {
    (void)state;
    check("f(a,\n  b\n)\nc", "f ( a , b ) ; c ;");
    check("[1\n2]\n", "[ 1 2 ] ;");
    check("a +\nb", "a + b ;");
    check("x = idx(1)\n   # then\n   | batch(2)\ny", "x = idx ( 1 ) | batch ( 2 ) ; y ;");
    check("f(fn(x) => {\na\nb})", "f ( fn ( x ) => { ; a ; b } ) ;");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(operators_take_the_longest),
        cmocka_unit_test(strings),
        cmocka_unit_test(a_line_ends_a_statement),
        cmocka_unit_test(but_goes_on_where_more_must_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
