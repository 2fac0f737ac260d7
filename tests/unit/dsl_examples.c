/* dsl: the example programs elaborate, verify, and have the parameters that they should have. */
#include "base/file.h"
#include "frontends/dsl/dsl.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct example {
    const char *name;
    int64_t n_parameters;
    int n_steps;
} example;

static dt_module *compile(dt_arena *arena, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/%s.dt", getenv("DT_SOURCE"), name);
    char *source;
    size_t n_bytes;
    assert_null(dt_file_read(path, &source, &n_bytes));
    dt_diagnostics *sink = dt_diagnostics_create(arena);
    dt_module *module;
    assert_null(dt_dsl_compile(arena, path, source, NULL, sink, &module));
    free(source);
    dt_text text = {0};
    dt_diagnostics_print(&text, sink);
    if (text.data != NULL) print_error("%s", text.data);
    dt_text_free(&text);
    assert_int_equal(dt_diagnostics_n_warnings(sink), 0);
    assert_non_null(module);
    return module;
}

static void check(const example *expected) {
    dt_arena *arena = dt_arena_create();
    dt_module *module = compile(arena, expected->name);
    dt_status *status = dt_verify(module);
    if (status != NULL) fail_msg("%s: %s", expected->name, dt_status_message(status));
    int64_t n_parameters = 0;
    for (size_t i = 0; i < module->variables.n; i++)
        if (module->variables.items[i].kind == DT_VARIABLE_PARAMETER) n_parameters += dt_shape_elements_per_row(module->variables.items[i].shape);
    assert_int_equal(n_parameters, expected->n_parameters);
    assert_int_equal(module->steps.n, expected->n_steps);
    dt_text text = {0}, again = {0};
    dt_module_print(&text, module);
    dt_module *parsed;
    assert_null(dt_module_parse(arena, expected->name, text.data, &parsed));
    dt_module_print(&again, parsed);
    assert_string_equal(text.data, again.data);
    dt_text_free(&text);
    dt_text_free(&again);
    dt_arena_destroy(arena);
}

static void perceptron(void **state) {
    (void)state;
    check(&(example){"perceptron", 101770, 3});
}

static void fashion_cnn(void **state) {
    (void)state;
    check(&(example){"fashion_cnn", 106506, 3});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perceptron),
        cmocka_unit_test(fashion_cnn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
