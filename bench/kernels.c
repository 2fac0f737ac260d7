/* kernels: the speed of single kernels of generated code on one core, beside OpenBLAS and oneDNN where these are installed.
 *
 *   build/bench/kernels x86-64-v3|x86-64-v4|native [WORD]      only those whose name contains WORD
 *
 * Each case is a program of one op, so that what is measured is what the passes make of it. Times are the best of many runs on the same
 * buffers, ours and theirs. A ratio is to the faster of the two libraries with the same arithmetic; Winograd's convolutions stand beside it, and
 * the last line's last figure is the mean of the ratios with these counted too. The shapes are those of examples/ and their gradients. */
#include "base/cpu.h"
#include "bench/kernel_code.h"
#include "bench/kernel_peers.h"
#include "compiler/codegen/codegen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define PRODUCT(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {.batch = 1, __VA_ARGS__}}
#define PRODUCTS(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {__VA_ARGS__}}
#define CONV(title, ...) {.kind = CASE_CONV, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_INPUT(title, ...) {.kind = CASE_CONV_INPUT, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_KERNEL(title, ...) {.kind = CASE_CONV_KERNEL, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define OTHER(title, ...) {.kind = CASE_OTHER, .name = title, .other = {__VA_ARGS__}}

#define CNN_1 .size = {28, 28}, .channels = 1, .filters = 64, .kernel = {3, 3}, .stride = {1, 1}
#define CNN_2 .size = {13, 13}, .channels = 64, .filters = 128, .kernel = {3, 3}, .stride = {1, 1}
#define RESNET_1 .size = {28, 28}, .channels = 32, .filters = 32, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_DOWN .size = {28, 28}, .channels = 32, .filters = 64, .kernel = {3, 3}, .stride = {2, 2}, .after = {1, 1}
#define RESNET_2 .size = {14, 14}, .channels = 64, .filters = 64, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_3 .size = {7, 7}, .channels = 128, .filters = 128, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_SHORTCUT .size = {28, 28}, .channels = 32, .filters = 64, .kernel = {1, 1}, .stride = {2, 2}

static const kernel_case cases[] = {
    CONV("cnn: convolution 28 x 28 x 1 to 64", CNN_1),
    CONV_KERNEL("cnn: … its kernel's gradient", CNN_1),
    CONV("cnn: convolution 13 x 13 x 64 to 128", CNN_2),
    CONV_INPUT("cnn: … its input's gradient", CNN_2),
    CONV_KERNEL("cnn: … its kernel's gradient", CNN_2),
    PRODUCT("cnn: dense 64 x 3200 to 10", .m = 64, .k = 3200, .n = 10, .rows = 'm'),
    PRODUCT("cnn: … its input's gradient", .m = 64, .k = 10, .n = 3200, .transpose_b = true, .rows = 'm'),
    PRODUCT("cnn: … its kernel's gradient", .m = 3200, .k = 64, .n = 10, .transpose_a = true, .rows = 'k'),
    PRODUCT("perceptron: dense 32 x 784 to 128", .m = 32, .k = 784, .n = 128, .rows = 'm'),
    PRODUCT("perceptron: … its kernel's gradient", .m = 784, .k = 32, .n = 128, .transpose_a = true, .rows = 'k'),
    CONV("resnet: convolution 28 x 28 x 32 to 32", RESNET_1),
    CONV_INPUT("resnet: … its input's gradient", RESNET_1),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_1),
    CONV("resnet: 28 x 28 x 32 to 64, stride 2", RESNET_DOWN),
    CONV_INPUT("resnet: … its input's gradient", RESNET_DOWN),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_DOWN),
    CONV("resnet: convolution 14 x 14 x 64 to 64", RESNET_2),
    CONV("resnet: convolution 7 x 7 x 128 to 128", RESNET_3),
    CONV_INPUT("resnet: … its input's gradient", RESNET_3),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_3),
    CONV("resnet: shortcut 28 x 28 x 32 to 64", RESNET_SHORTCUT),
    PRODUCT("gpt: 4096 x 128 to 384", .m = 4096, .k = 128, .n = 384, .rows = 'm'),
    PRODUCT("gpt: 4096 x 128 to 512", .m = 4096, .k = 128, .n = 512, .rows = 'm'),
    PRODUCT("gpt: … its input's gradient", .m = 4096, .k = 512, .n = 128, .transpose_b = true, .rows = 'm'),
    PRODUCT("gpt: … its kernel's gradient", .m = 128, .k = 4096, .n = 512, .transpose_a = true, .rows = 'k'),
    PRODUCT("gpt: 4096 x 512 to 128", .m = 4096, .k = 512, .n = 128, .rows = 'm'),
    PRODUCT("gpt: to the vocabulary, 4096 x 128 to 256", .m = 4096, .k = 128, .n = 256, .transpose_b = true, .rows = 'm'),
    PRODUCTS("gpt: queries by keys, 128 of 128 x 32", .batch = 128, .m = 128, .k = 32, .n = 128, .transpose_b = true),
    PRODUCTS("gpt: weights by values, 128 of 128 x 128", .batch = 128, .m = 128, .k = 128, .n = 32),
    PRODUCT("512 x 512 to 512", .m = 512, .k = 512, .n = 512),
    OTHER("pooling 2 x 2 of 26 x 26 x 64", "%0 x: f32[B, 26, 26, 64]", "f32[B, 13, 13, 64]", "max_pool2d(%0, size=[2, 2], strides=[2, 2])",
          1.0 * KERNEL_CASE_ROWS * 26 * 26 * 64),
    OTHER("sum over rows and 121 positions", "%0 x: f32[B, 121, 128]", "f32[128]", "reduce_sum(%0, axes=[0, 1])", 1.0 * KERNEL_CASE_ROWS * 121 * 128),
    OTHER("exponential of 64 x 3200", "%0 x: f32[B, 3200]", "f32[B, 3200]", "exp(%0)", 1.0 * KERNEL_CASE_ROWS * 3200),
};
// clang-format on

static void succeed(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "kernels: %s\n", dt_status_message(status));
    exit(1);
}

static double time_ours(const kernel_case *test, const char *level) {
    kernel_measured measured;
    succeed(kernel_code_measure(test, level, &measured));
    return measured.seconds;
}

/* ---- the table ---- */

static void print_rate(double operations, double seconds) {
    if (seconds > 0)
        printf(" %.1f |", 1e-9 * operations / seconds);
    else
        printf(" — |");
}

/* Of two times of which either may be 0, not there. */
static double faster(double a, double b) { return a > 0 && b > 0 ? fmin(a, b) : fmax(a, b); }

/* A geometric mean; ratios of 0 are not there. */
typedef struct mean {
    double sum_of_logs;
    int n;
} mean;

static void add(mean *mean, double ratio) {
    if (ratio > 0) mean->sum_of_logs += log(ratio), mean->n++;
}

static double value(const mean *mean) { return exp(mean->sum_of_logs / mean->n); }

static void print_version(const char *name, const char *version) { printf(", %s %s", name, version != NULL ? version : "not installed"); }

int main(int argc, char **argv) {
    const char *level = argc > 1 ? argv[1] : "", *word = argc > 2 ? argv[2] : "";
    bool native = strcmp(level, DT_LEVEL_NATIVE) == 0;
    int number = native ? dt_cpu_level() : dt_cpu_level_from_name(level);
    if (number < 3 || argc > 3) return fputs("usage: kernels x86-64-v3|x86-64-v4|native [WORD]\n", stderr), 2;
    if (number > dt_cpu_level()) return fprintf(stderr, "kernels: this machine is below %s\n", level), 1;
    kernel_peers_load(number < 4);
    printf("%s, one core", level);
    print_version("OpenBLAS", kernel_peers_openblas_version());
    print_version("oneDNN", kernel_peers_onednn_version());
    printf("\n\n| GFLOP/s | ours | OpenBLAS | oneDNN | ours / the faster | oneDNN, Winograd |\n|---|---|---|---|---|---|\n");
    mean direct = {0}, any = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kernel_case *test = &cases[i];
        if (strstr(test->name, word) == NULL) continue;
        double operations = kernel_case_operations(test), ours = time_ours(test, level), openblas = kernel_peers_openblas(test),
               onednn = kernel_peers_onednn(test), winograd = kernel_peers_winograd(test), best = faster(openblas, onednn);
        printf("| %s |", test->name);
        print_rate(operations, ours), print_rate(operations, openblas), print_rate(operations, onednn);
        best > 0 ? printf(" %.2f |", best / ours) : printf(" — |");
        print_rate(operations, winograd);
        printf("\n");
        fflush(stdout);
        add(&direct, best / ours), add(&any, faster(best, winograd) / ours);
    }
    if (direct.n > 0) printf("| geometric mean of %d | | | | %.2f | %.2f |\n", direct.n, value(&direct), value(&any));
    return 0;
}
