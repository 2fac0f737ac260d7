/* cuda_programs: a training step of every example that compiles, as CUDA text by emulation; the large ones in smaller sizes. */
#include "tests/ops/cuda_programs.h"

static void fashion_cnn(void **state) {
    (void)state;
    run_program(&(program){.name = "fashion_cnn", .capacity = 2, .rows = 2, .n_steps = 2, .tolerance = 1e-3});
}

static void own_parts(void **state) {
    (void)state;
    run_program(&(program){.name = "own_parts", .capacity = 3, .rows = 2, .n_steps = 2, .tolerance = 1e-3});
}

static void gan(void **state) {
    (void)state;
    run_program(&(program){.name = "gan", .capacity = 2, .rows = 2, .n_steps = 1, .tolerance = 1e-3});
}

static void gpt(void **state) {
    (void)state;
    run_program(&(program){.name = "gpt",
                           .capacity = 2,
                           .rows = 2,
                           .n_steps = 1,
                           .tolerance = 1e-3,
                           .defines = {{"layers", "2"}, {"width", "32"}, {"heads", "2"}, {"context", "24"}}});
}

static void resnet(void **state) {
    (void)state;
    run_program(&(program){
        .name = "resnet", .capacity = 3, .rows = 2, .n_steps = 1, .tolerance = 1e-3, .defines = {{"widths", "[4, 6, 8]"}, {"blocks", "1"}}});
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(fashion_cnn), cmocka_unit_test(own_parts), cmocka_unit_test(gan), cmocka_unit_test(gpt),
                                       cmocka_unit_test(resnet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
