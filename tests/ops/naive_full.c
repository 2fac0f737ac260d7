/* naive_full: as naive.c, the larger examples, and more random functions. NAIVE_EXAMPLE=gpt runs that one alone; so do
 * bert_mlm, resnet and sentence_embedding, which are left out otherwise: they would take the executor an hour. */
#include "tests/ops/same_bits_programs.h"

static const char *const names[] = {"gru", "lstm", "image_folder", "gan", "infonce", "mobilenet", "vit", "gpt"};

static void large_examples(void **state) {
    (void)state;
    const char *only = getenv("NAIVE_EXAMPLE");
    char path[256];
    for (size_t i = 0; i < (only != NULL ? 1 : sizeof names / sizeof *names); i++) {
        snprintf(path, sizeof path, "examples/%s", only != NULL ? only : names[i]);
        run_at_both_levels(path, 2, 1);
    }
}

static void random_functions(void **state) {
    (void)state;
    run_random_functions(1000, DT_LEVEL_V3, naive_and_llvm);
    run_random_functions(1000, DT_LEVEL_V4, naive_and_llvm);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_functions), cmocka_unit_test(large_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
