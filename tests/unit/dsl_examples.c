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

static char *read_example(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/%s.dt", getenv("DT_SOURCE"), name);
    char *source;
    size_t n_bytes;
    assert_null(dt_file_read(path, &source, &n_bytes));
    return source;
}

static dt_module *compile(dt_arena *arena, const char *name, const char *source) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module;
    assert_null(dt_dsl_compile(arena, dt_arena_format(arena, "%s.dt", name), source, NULL, diagnostics, &module));
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (text.data != NULL) print_error("%s", text.data);
    dt_text_free(&text);
    assert_int_equal(dt_diagnostics_n_warnings(diagnostics), 0);
    assert_non_null(module);
    return module;
}

static int64_t count_parameters(const dt_module *module) {
    int64_t n = 0;
    for (size_t i = 0; i < module->variables.n; i++)
        if (module->variables.items[i].kind == DT_VARIABLE_PARAMETER) n += dt_shape_elements_per_row(module->variables.items[i].shape);
    return n;
}

static void check(const example *expected) {
    dt_arena *arena = dt_arena_create();
    char *source = read_example(expected->name);
    dt_module *module = compile(arena, expected->name, source);
    dt_status *status = dt_verify(module);
    if (status != NULL) fail_msg("%s: %s", expected->name, dt_status_message(status));
    assert_int_equal(count_parameters(module), expected->n_parameters);
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
    free(source);
}

static void perceptron(void **state) {
    (void)state;
    check(&(example){"perceptron", 101770, 3});
}

static void fashion_cnn(void **state) {
    (void)state;
    check(&(example){"fashion_cnn", 106506, 3});
}

static void lstm(void **state) {
    (void)state;
    check(&(example){"lstm", 81674, 3});
}

static void gru(void **state) {
    (void)state;
    check(&(example){"gru", 37386, 3});
}

static void image_folder(void **state) {
    (void)state;
    check(&(example){"image_folder", 225610, 3});
}

static void gan(void **state) {
    (void)state;
    check(&(example){"gan", 280002, 2});
}

static void resnet(void **state) {
    (void)state;
    check(&(example){"resnet", 696042, 2});
}

static void mobilenet(void **state) {
    (void)state;
    check(&(example){"mobilenet", 36874, 2});
}

static void gpt(void **state) {
    (void)state;
    check(&(example){"gpt", 842496, 3});
}

static void own_parts(void **state) {
    (void)state;
    check(&(example){"own_parts", 609, 1});
}

static void bert_mlm(void **state) {
    (void)state;
    check(&(example){"bert_mlm", 4433210, 2});
}

static void sentence_embedding(void **state) {
    (void)state;
    check(&(example){"sentence_embedding", 22565376, 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perceptron),   cmocka_unit_test(fashion_cnn), cmocka_unit_test(lstm),     cmocka_unit_test(gru),
        cmocka_unit_test(image_folder), cmocka_unit_test(gan),         cmocka_unit_test(resnet),   cmocka_unit_test(mobilenet),
        cmocka_unit_test(gpt),          cmocka_unit_test(own_parts),   cmocka_unit_test(bert_mlm), cmocka_unit_test(sentence_embedding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
