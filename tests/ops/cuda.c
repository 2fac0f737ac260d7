/* cuda: a row of each class of the op table as CUDA text, by emulation; cuda_full.c has all of them. */
#include "tests/ops/cuda_rows.h"

static void some_rows(void **state) {
    (void)state;
    static const char *const names[] = {"add",    "divide",     "tanh",   "where",       "reduce_sum",  "argmax",         "matmul",
                                        "conv2d", "max_pool2d", "gather", "scatter_add", "concatenate", "random_uniform", NULL};
    run_rows(&cuda, names);
}

/* Loops, places of elements, positions and what is held by tensors, with indices of 64 bits. */
static void some_rows_of_64_bits(void **state) {
    (void)state;
    static const char *const names[] = {"where", "reduce_max", "gather", "scatter_add", "max_pool2d", "pad", NULL};
    run_rows(&cuda_of_64_bits, names);
}

/* What warps do, with warps of 64. */
static void some_rows_at_warps_of_64(void **state) {
    (void)state;
    static const char *const names[] = {"reduce_sum", "argmax", "matmul", "scatter_add", NULL};
    run_rows(&(generator){DT_TARGET_WARPS_OF_64, EMULATED_WAYS * sizeof(emulated_code), make, release, wrong}, names);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(some_rows), cmocka_unit_test(some_rows_of_64_bits),
                                       cmocka_unit_test(some_rows_at_warps_of_64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
