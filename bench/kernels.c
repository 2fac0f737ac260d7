/* kernels: the speed of single kernels of generated code on one core, beside OpenBLAS and oneDNN where these are installed.
 *
 *   build/bench/kernels x86-64-v3|x86-64-v4|native [WORD]      only those whose name contains WORD
 *
 * Each case is a program of one op, so that what is measured is what the passes make of it. Times are the best of many runs on the same
 * buffers, ours and theirs. A ratio is to the faster of the two libraries with the same arithmetic; Winograd's convolutions stand beside it, and
 * the last line's last figure is the mean of the ratios with these counted too. The shapes are those of examples/ and their gradients. */
#include "abi/launch.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "bench/kernel_case.h"
#include "bench/kernel_peers.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"
#include "runtime/object_loader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLACK_BYTES = 64
};

// clang-format off
#define PRODUCT(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {.batch = 1, __VA_ARGS__}}
#define PRODUCTS(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {__VA_ARGS__}}
#define CONV(title, ...) {.kind = CASE_CONV, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_INPUT(title, ...) {.kind = CASE_CONV_INPUT, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_KERNEL(title, ...) {.kind = CASE_CONV_KERNEL, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define OTHER(title, ...) {.kind = CASE_OTHER, .name = title, .other = {__VA_ARGS__}}

#define CNN_1 .size = 28, .channels = 1, .filters = 64, .kernel = 3, .stride = 1
#define CNN_2 .size = 13, .channels = 64, .filters = 128, .kernel = 3, .stride = 1
#define RESNET_1 .size = 28, .channels = 32, .filters = 32, .kernel = 3, .stride = 1, .before = 1, .after = 1
#define RESNET_DOWN .size = 28, .channels = 32, .filters = 64, .kernel = 3, .stride = 2, .after = 1
#define RESNET_2 .size = 14, .channels = 64, .filters = 64, .kernel = 3, .stride = 1, .before = 1, .after = 1
#define RESNET_3 .size = 7, .channels = 128, .filters = 128, .kernel = 3, .stride = 1, .before = 1, .after = 1
#define RESNET_SHORTCUT .size = 28, .channels = 32, .filters = 64, .kernel = 1, .stride = 2

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

static double operations_of(const kernel_case *t) {
    if (t->kind == CASE_OTHER) return t->other.operations;
    if (t->kind == CASE_MATMUL) return 2.0 * t->matmul.batch * t->matmul.m * t->matmul.k * t->matmul.n;
    int out = kernel_case_out(t);
    return 2.0 * t->conv.images * out * out * t->conv.filters * t->conv.kernel * t->conv.kernel * t->conv.channels;
}

static int rows_of(const kernel_case *t) {
    if (t->kind == CASE_OTHER) return KERNEL_CASE_ROWS;
    if (t->kind == CASE_MATMUL) return t->matmul.rows == 'm' ? t->matmul.m : t->matmul.rows == 'k' ? t->matmul.k : 1;
    return t->conv.images;
}

double kernel_case_time(void (*run)(void *context), void *context) {
    enum {
        LEAST_RUNS = 5
    };
    double best = INFINITY, start = dt_seconds();
    for (int i = 0; i < LEAST_RUNS || dt_seconds() - start < 0.2; i++) {
        double before = dt_seconds();
        run(context);
        best = fmin(best, dt_seconds() - before);
    }
    return best;
}

/* ---- a case in the text form ---- */

/* "f32[128, B, 32]", of a matrix in memory: `rows_is_b` and `columns_is_b` say which is the number of rows of the launch. */
static void append_matrix(dt_text *text, int batch, int rows, int columns, bool rows_is_b, bool columns_is_b) {
    dt_text_append(text, "f32[");
    if (batch > 1) dt_text_format(text, "%d, ", batch);
    rows_is_b ? dt_text_append(text, "B, ") : dt_text_format(text, "%d, ", rows);
    columns_is_b ? dt_text_append(text, "B]") : dt_text_format(text, "%d]", columns);
}

static void append_matmul(dt_text *text, const kernel_case *t) {
    int batch = t->matmul.batch, m = t->matmul.m, k = t->matmul.k, n = t->matmul.n;
    bool ta = t->matmul.transpose_a, tb = t->matmul.transpose_b, m_is_b = t->matmul.rows == 'm', k_is_b = t->matmul.rows == 'k';
    dt_text_append(text, "%0 a: ");
    append_matrix(text, batch, ta ? k : m, ta ? m : k, ta ? k_is_b : m_is_b, ta ? m_is_b : k_is_b);
    dt_text_append(text, ", %1 b: ");
    append_matrix(text, batch, tb ? n : k, tb ? k : n, !tb && k_is_b, tb && k_is_b);
    dt_text_append(text, ") {\n  %9: ");
    append_matrix(text, batch, m, n, m_is_b, false);
    dt_text_format(text, " = matmul(%%0, %%1%s%s)\n", ta ? ", transpose_a=true" : "", tb ? ", transpose_b=true" : "");
}

static void append_conv(dt_text *text, const kernel_case *t) {
    int out = kernel_case_out(t), size = t->conv.size, kernel = t->conv.kernel, before = t->conv.before, after = t->conv.after;
    char x[64], w[64], y[64];
    snprintf(x, sizeof x, "f32[B, %d, %d, %d]", size, size, t->conv.channels);
    snprintf(w, sizeof w, "f32[%d, %d, %d, %d]", kernel, kernel, t->conv.channels, t->conv.filters);
    snprintf(y, sizeof y, "f32[B, %d, %d, %d]", out, out, t->conv.filters);
    if (t->kind == CASE_CONV)
        dt_text_format(text, "%%0 x: %s, %%1 w: %s) {\n  %%9: %s = conv2d(%%0, %%1", x, w, y);
    else if (t->kind == CASE_CONV_INPUT)
        dt_text_format(text, "%%0 g: %s, %%1 w: %s) {\n  %%9: %s = conv2d_input_gradient(%%0, %%1, size=[%d, %d]", y, w, x, size, size);
    else
        dt_text_format(text, "%%0 x: %s, %%1 g: %s) {\n  %%9: %s = conv2d_kernel_gradient(%%0, %%1, size=[%d, %d]", x, y, w, kernel, kernel);
    dt_text_format(text, ", strides=[%d, %d], padding=[%d, %d, %d, %d])\n", t->conv.stride, t->conv.stride, before, after, before, after);
}

static void append_module(dt_text *text, const kernel_case *t) {
    dt_text_format(text, "module m capacity %d\nfile 0 \"m\"\nfunction f step (", rows_of(t));
    if (t->kind == CASE_MATMUL)
        append_matmul(text, t);
    else if (t->kind == CASE_OTHER)
        dt_text_format(text, "%s) {\n  %%9: %s = %s\n", t->other.inputs, t->other.result, t->other.call);
    else
        append_conv(text, t);
    dt_text_append(text, "  return y=%9\n}\n");
}

/* ---- our code for it ---- */

static void succeed(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", dt_status_message(status));
    exit(1);
}

static dt_tensor make_input(dt_arena *arena, const dt_value *input, int rows) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, input->shape.rank);
    for (int d = 0; d < input->shape.rank; d++) dims[d] = dt_dim_is_symbol(input->shape.dims[d]) ? rows : input->shape.dims[d];
    dt_tensor tensor = dt_tensor_make(arena, input->dtype, (dt_shape){input->shape.rank, dims});
    tensor.data = dt_arena_new(arena, dt_tensor_bytes(&tensor) + SLACK_BYTES);
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, (double)(i * 7 % 23) / 16 - 0.7);
    return tensor;
}

typedef struct timed_code {
    dt_object *code;
    double seconds;
} timed_code;

typedef struct entry_call {
    dt_kernel_entry entry;
    void *const *buffers;
    const dt_launch *launch;
} entry_call;

static void call_entry(void *context) {
    const entry_call *call = context;
    call->entry(call->buffers, call->launch);
}

static void run_timed(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    timed_code *timed = context;
    entry_call call = {(dt_kernel_entry)dt_object_find(timed->code, plan->kernels[kernel].name), buffers, launch};
    timed->seconds += kernel_case_time(call_entry, &call);
}

/* Seconds of all the kernels that the case becomes. */
static double time_ours(const kernel_case *test, const char *level) {
    dt_arena *arena = dt_arena_create();
    dt_text text = {0};
    append_module(&text, test);
    dt_compilation compilation = {.arena = arena, .off = 1u << DT_SWITCH_BLOCKS}; /* all rows in one call, as the libraries have them */
    succeed(dt_module_parse(arena, test->name, text.data, &compilation.module));
    succeed(dt_pipeline_run(&compilation, &(dt_pipeline_options){0}));
    dt_function *function = compilation.module->functions.items[0];
    int rows = rows_of(test);
    dt_tensor inputs[2], result;
    for (size_t i = 0; i < function->inputs.n; i++) inputs[i] = make_input(arena, function->inputs.items[i], rows);
    dt_memory memory = dt_memory_create(arena, compilation.module);
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = rows, .valid = rows, .global_batch = rows, .replicas = 1, .bad_index = &bad_index};
    dt_codegen_object object = {.level = level};
    succeed(dt_codegen_llvm((const dt_plan *const *)compilation.plans, compilation.n_plans, NULL, &object, 1));
    timed_code timed = {0};
    succeed(dt_object_load(level, object.bytes, object.n_bytes, &timed.code));
    succeed(dt_plan_execute_with(arena, compilation.plans[0], run_timed, &timed, 1, &launch, inputs, &memory, &result));
    dt_object_free(timed.code);
    dt_release(object.bytes);
    dt_text_free(&text);
    dt_arena_destroy(arena);
    return timed.seconds;
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
        double operations = operations_of(test), ours = time_ours(test, level), openblas = kernel_peers_openblas(test),
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
