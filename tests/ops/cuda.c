/* cuda: a row of each class of the op table as CUDA text, by emulation; cuda_full.c has all of them. */
#include "tests/ops/cuda_rows.h"

static void some_rows(void **state) {
    (void)state;
    static const char *const names[] = {"add",    "divide",     "tanh",   "where",       "reduce_sum",  "argmax",         "matmul",
                                        "conv2d", "max_pool2d", "gather", "scatter_add", "concatenate", "random_uniform", NULL};
    run_rows(&cuda, names);
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(some_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
