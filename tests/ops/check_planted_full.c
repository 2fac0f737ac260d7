/* dtc check finds a gradient that is a hundredth too large, of each op of the larger examples, as they are and with the rows that dtc takes. */
#include "tests/support/planted.h"

static void fashion_cnn(void **state) {
    (void)state;
    planted_run(&(planted_example){"fashion_cnn", 2, NULL, NULL});
}

static void gan(void **state) {
    (void)state;
    planted_run(&(planted_example){"gan", 2, NULL, " maximum.0 minimum.1 negate.0 "}); /* all logits are negative */
}

static void gpt(void **state) {
    (void)state;
    planted_run(&(planted_example){"gpt", 1, NULL, NULL});
}

static void resnet(void **state) {
    (void)state;
    planted_run(&(planted_example){"resnet", 1, NULL, NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fashion_cnn),
        cmocka_unit_test(gan),
        cmocka_unit_test(gpt),
        cmocka_unit_test(resnet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
