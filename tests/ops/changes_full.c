/* changes_full: more random changes of what was chosen for a level, as far as they are allowed: LLVM's code and C leave the bits of the executor that
 * takes one element at a time, with the same choices. DT_SEED and DT_COUNT rerun one and more. */
#include "tests/ops/changes.h"

static void random_changes_of_choices(void **state) {
    (void)state;
    change_at_random(1000);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_changes_of_choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
