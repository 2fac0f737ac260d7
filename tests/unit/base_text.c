/* text: growth, exact float text, names that were nearly right. */
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void appends_grow(void **state) {
    (void)state;
    dt_text text = {0};
    for (int i = 0; i < 100; i++) dt_text_format(&text, "%d,", i);
    dt_text_append(&text, "end");
    dt_text_append_bytes(&text, "abc", 1);
    assert_int_equal(text.n, 10 * 2 + 90 * 3 + 4);
    assert_string_equal(text.data + text.n - 7, "99,enda");
    dt_text_free(&text);
    assert_null(text.data);
}

static void an_empty_text_can_be_taken(void **state) {
    (void)state;
    dt_text text = {0};
    char *taken = dt_text_take(&text);
    assert_string_equal(taken, "");
    dt_release(taken);
}

static void out_of_memory_is_remembered(void **state) {
    (void)state;
    size_t n_failed = 0;
    for (int n = 0;; n++) {
        dt_text text = {0};
        dt_memory_fail_after(n);
        for (int i = 0; i < 50; i++) dt_text_append(&text, "0123456789");
        dt_memory_fail_after(-1);
        bool failed = text.failed;
        dt_text_append(&text, "more"); /* does nothing on a failed text */
        char *taken = dt_text_take(&text);
        assert_int_equal(failed, taken == NULL);
        dt_release(taken);
        if (!failed) break;
        n_failed++;
    }
    assert_in_range(n_failed, 2, 20);
}

static void floats_are_short_and_exact(void **state) {
    (void)state;
    char buffer[32];
    static const struct {
        double value;
        const char *text;
    } wanted[] = {{0.1, "0.1"},
                  {3, "3.0"},
                  {-0.0, "-0.0"},
                  {1e300, "1e+300"},
                  {INFINITY, "inf"},
                  {-INFINITY, "-inf"},
                  {1.0 / 3, "0.3333333333333333"},
                  {123456789, "123456789.0"},
                  {5e-324, "5e-324"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) assert_string_equal(dt_text_from_f64(wanted[i].value, buffer), wanted[i].text);
    assert_non_null(strstr(dt_text_from_f64(NAN, buffer), "nan"));
    assert_string_equal(dt_text_from_f32(0.1f, buffer), "0.1");
    assert_string_equal(dt_text_from_f32(16777216.0f, buffer), "16777216.0");
    assert_string_equal(dt_text_from_f32(-1e-45f, buffer), "-1e-45");

    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        double wide;
        float narrow;
        uint32_t high = (uint32_t)(random >> 32);
        memcpy(&wide, &random, sizeof wide);
        memcpy(&narrow, &high, sizeof narrow);
        if (!isnan(wide)) assert_true(strtod(dt_text_from_f64(wide, buffer), NULL) == wide);
        if (!isnan(narrow)) assert_true(strtof(dt_text_from_f32(narrow, buffer), NULL) == narrow);
    }
}

static void commas(void **state) {
    (void)state;
    char buffer[32];
    assert_string_equal(dt_text_with_commas(0, buffer), "0");
    assert_string_equal(dt_text_with_commas(-999, buffer), "-999");
    assert_string_equal(dt_text_with_commas(106506, buffer), "106,506");
    assert_string_equal(dt_text_with_commas(-1234567, buffer), "-1,234,567");
    assert_string_equal(dt_text_with_commas(INT64_MIN, buffer), "-9,223,372,036,854,775,808");
}

static void the_nearest_name(void **state) {
    (void)state;
    static const char *const names[] = {"conv2d", "dense", "dropout", "relu", "lr"};
    enum {
        N = sizeof names / sizeof *names
    };
    assert_string_equal(dt_text_nearest("conv2", names, N), "conv2d");
    assert_string_equal(dt_text_nearest("desne", names, N), "dense");
    assert_string_equal(dt_text_nearest("droput", names, N), "dropout");
    assert_string_equal(dt_text_nearest("relu", names, N), "relu");
    assert_null(dt_text_nearest("softmax", names, N));
    assert_null(dt_text_nearest("x", names, N));
    assert_null(dt_text_nearest("relu", names, 0));
}

static void hash_is_fnv1a(void **state) {
    (void)state;
    assert_true(dt_hash_bytes("", 0, DT_HASH_SEED) == 0xcbf29ce484222325u);
    assert_true(dt_hash_bytes("a", 1, DT_HASH_SEED) == 0xaf63dc4c8601ec8cu); /* from the FNV authors' test vectors */
    assert_true(dt_hash_bytes("foobar", 6, DT_HASH_SEED) == 0x85944171f73967e8u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_grow),
        cmocka_unit_test(an_empty_text_can_be_taken),
        cmocka_unit_test(out_of_memory_is_remembered),
        cmocka_unit_test(floats_are_short_and_exact),
        cmocka_unit_test(commas),
        cmocka_unit_test(the_nearest_name),
        cmocka_unit_test(hash_is_fnv1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
