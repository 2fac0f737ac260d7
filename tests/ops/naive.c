/* naive: LLVM's code leaves the bits of the executor that takes one element at a time (kernel/execute.h), with the choices for each level. Choices
 * for x86-64-v4 give the same bits as code of x86-64-v3, so that each machine can be held against the other. */
#include "tests/ops/same_bits_programs.h"

static void small_examples(void **state) {
    (void)state;
    run_at_both_levels("examples/perceptron", 4, 2);
    run_at_both_levels("examples/own_parts", 8, 1);
    run_at_both_levels("examples/fashion_cnn", 2, 1);
}

static void random_functions(void **state) {
    (void)state;
    run_random_functions(50, DT_LEVEL_V3, naive_and_llvm);
    run_random_functions(50, DT_LEVEL_V4, naive_and_llvm);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_examples), cmocka_unit_test(random_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
