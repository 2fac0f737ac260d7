/* cuda_programs: a training step of every example that compiles, as CUDA text by emulation; the large ones in smaller sizes. And what takes long. */
#include "tests/ops/cuda_programs.h"

static void fashion_cnn(void **state) {
    (void)state;
    run_program(&(program){.name = "examples/fashion_cnn", .capacity = 2, .rows = 2, .n_steps = 2, .tolerance = 1e-3});
}

static void own_parts(void **state) {
    (void)state;
    run_program(&(program){.name = "examples/own_parts", .capacity = 3, .rows = 2, .n_steps = 2, .tolerance = 1e-3});
}

static void gan(void **state) {
    (void)state;
    run_program(&(program){.name = "examples/gan", .capacity = 2, .rows = 2, .n_steps = 1, .tolerance = 1e-3});
}

static void gpt(void **state) {
    (void)state;
    run_program(&(program){.name = "examples/gpt",
                           .capacity = 2,
                           .rows = 2,
                           .n_steps = 1,
                           .tolerance = 1e-3,
                           .defines = {{"layers", "2"}, {"width", "32"}, {"heads", "2"}, {"context", "24"}}});
}

/* With the masked tokens as data; the vocabulary is no option, so what else there is has to be small. */
static void bert(void **state) {
    (void)state;
    run_program(&(program){.name = "tests/twins/bert_mlm",
                           .capacity = 2,
                           .rows = 2,
                           .n_steps = 1,
                           .tolerance = 1e-3,
                           .defines = {{"layers", "1"}, {"width", "8"}, {"predictions", "3"}, {"context", "24"}}});
}

static void resnet(void **state) {
    (void)state;
    run_program(&(program){
        .name = "examples/resnet", .capacity = 3, .rows = 2, .n_steps = 1, .tolerance = 1e-3, .defines = {{"widths", "[4, 6, 8]"}, {"blocks", "1"}}});
}

/* Results enough for tiles of twice the size. */
static const char large_tiles[] = "step large(a: f32[B, 129, 17], b: f32[B, 17, 128]) {\n"
                                  "    return c: a @ b\n"
                                  "}\n"
                                  "step tall(a: f32[B, 129, 17], b: f32[B, 17, 60]) {\n"
                                  "    return c: a @ b\n"
                                  "}\n"
                                  "step rounded(a: f32[B, 129, 16], b: f32[B, 16, 128]) {\n"
                                  "    return c: ops.matmul(a, b, precision: \"bf16\"), d: ops.matmul(a, b, precision: \"tf32\")\n"
                                  "}\n";

static void products_in_large_tiles(void **state) {
    (void)state;
    run_program(&(program){.name = "large tiles", .source = large_tiles, .capacity = 64, .rows = 64, .n_steps = 1, .tolerance = 1e-4});
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(fashion_cnn),
                                       cmocka_unit_test(own_parts),
                                       cmocka_unit_test(gan),
                                       cmocka_unit_test(gpt),
                                       cmocka_unit_test(bert),
                                       cmocka_unit_test(resnet),
                                       cmocka_unit_test(products_in_large_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
