/* codegen_c_full: the larger examples, and many random functions, as C, with the bits of LLVM's code. CODEGEN_C_EXAMPLE=gpt runs that one alone. */
#include "tests/ops/same_bits_programs.h"

static const char *const names[] = {"gru",       "lstm", "image_folder", "gan", "infonce", "sentence_embedding",
                                    "mobilenet", "gpt",  "bert_mlm",     "vit", "resnet"};

static void large_examples(void **state) {
    (void)state;
    const char *only = getenv("CODEGEN_C_EXAMPLE");
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (only != NULL && strcmp(only, names[i]) != 0) continue;
        snprintf(path, sizeof path, "examples/%s", names[i]);
        run_program(path, 3, 1, DT_LEVEL_V3, llvm_and_c);
    }
}

static void random_functions(void **state) {
    (void)state;
    if (getenv("CODEGEN_C_EXAMPLE") != NULL) return;
    run_random_functions(1000, DT_LEVEL_V3, llvm_and_c);
    if (dt_cpu_level() >= 4) run_random_functions(200, DT_LEVEL_V4, llvm_and_c);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_examples), cmocka_unit_test(random_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
