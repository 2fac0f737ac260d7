/* cuda: every row of the op table as CUDA text, by emulation. */
#include "tests/ops/cuda_rows.h"

static void every_row(void **state) {
    (void)state;
    run_rows(&cuda, NULL);
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
