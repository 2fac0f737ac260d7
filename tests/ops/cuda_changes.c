/* cuda_changes: random changes of what was chosen for a GPU, as far as they are allowed: the text for CUDA, in every order of threads, computes what
 * the interpreter does. DT_SEED and DT_COUNT rerun one and more. */
#include "tests/ops/cuda_changes.h"

static void random_changes_of_choices(void **state) {
    (void)state;
    change_gpu_choices_at_random(12);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_changes_of_choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
