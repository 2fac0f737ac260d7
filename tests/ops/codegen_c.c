/* codegen_c: examples and random functions as C, with the bits of LLVM's code. */
#include "tests/ops/same_bits_programs.h"

static void small_examples(void **state) {
    (void)state;
    run_program("examples/perceptron", 8, 2, DT_LEVEL_V3, llvm_and_c);
    run_program("examples/fashion_cnn", 8, 1, DT_LEVEL_V3, llvm_and_c);
    run_program("examples/own_parts", 8, 1, DT_LEVEL_V3, llvm_and_c);
    if (dt_cpu_level() >= 4) run_program("examples/fashion_cnn", 8, 1, DT_LEVEL_V4, llvm_and_c);
}

static void random_functions(void **state) {
    (void)state;
    run_random_functions(50, DT_LEVEL_V3, llvm_and_c);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_examples), cmocka_unit_test(random_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
