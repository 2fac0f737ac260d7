/* dtc check finds a gradient that is a hundredth too large, of each op of small examples, and of larger ones made small. */
#include "tests/support/planted.h"

static void perceptron(void **state) {
    (void)state;
    planted_run(&(planted_example){"perceptron", 2, NULL, NULL});
}

static void own_parts(void **state) {
    (void)state;
    planted_run(&(planted_example){"own_parts", 2, NULL, " where.2 subtract.0 "}); /* no error is larger than delta */
}

static void gpt(void **state) {
    (void)state;
    static const dt_dsl_define small[] = {{"layers", "1"}, {"width", "16"}, {"heads", "2"}, {"context", "8"}, {0}};
    planted_run(&(planted_example){"gpt", 2, small, NULL});
}

static void resnet(void **state) {
    (void)state;
    static const dt_dsl_define small[] = {{"widths", "[2, 4]"}, {"blocks", "1"}, {0}};
    planted_run(&(planted_example){"resnet", 2, small, NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perceptron),
        cmocka_unit_test(own_parts),
        cmocka_unit_test(gpt),
        cmocka_unit_test(resnet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
