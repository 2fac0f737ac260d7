/* cuda: every row of the op table as CUDA text, by emulation; and through NVRTC, where there is one. */
#include "compiler/codegen/cuda_nvrtc.h"
#include "tests/ops/cuda_rows.h"

static void every_row(void **state) {
    (void)state;
    run_rows(&cuda, NULL);
}

static void every_row_of_64_bits(void **state) {
    (void)state;
    run_rows(&cuda_of_64_bits, NULL);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    dt_nvrtc nvrtc;
    dt_status *status = dt_nvrtc_open(&nvrtc);
    has_nvrtc = status == NULL;
    if (!has_nvrtc) printf("skipped: %s\n", dt_status_message(status));
    dt_status_free(status);
    dt_nvrtc_close(&nvrtc);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row), cmocka_unit_test(every_row_of_64_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
