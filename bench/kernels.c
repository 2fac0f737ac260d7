/* kernels: the speed of single kernels of generated code, one core, each instruction-set level of this machine: the time of the best of many runs,
 * and what that is in operations a second. Each is a program of one op, so that what is measured is what the passes make of it.
 *
 *   build/bench/kernels [WORD]      only those whose text contains WORD */
#include "abi/launch.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"
#include "runtime/object_loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 64,
    SLACK_BYTES = 64
};

typedef struct kernel_case {
    const char *name, *inputs, *result, *call;
    double operations; /* of all rows */
} kernel_case;

static const kernel_case cases[] = {
    {"convolution 26 x 26, 64 to 128", "%0 x: f32[B, 28, 28, 64], %1 w: f32[3, 3, 64, 128]", "f32[B, 26, 26, 128]", "conv2d(%0, %1)",
     2.0 * ROWS * 26 * 26 * 128 * 9 * 64},
    {"convolution 11 x 11, 64 to 128", "%0 x: f32[B, 13, 13, 64], %1 w: f32[3, 3, 64, 128]", "f32[B, 11, 11, 128]", "conv2d(%0, %1)",
     2.0 * ROWS * 11 * 11 * 128 * 9 * 64},
    {"convolution 26 x 26, 1 to 64", "%0 x: f32[B, 28, 28, 1], %1 w: f32[3, 3, 1, 64]", "f32[B, 26, 26, 64]", "conv2d(%0, %1)",
     2.0 * ROWS * 26 * 26 * 64 * 9},
    {"its input's gradient 13 x 13", "%0 g: f32[B, 11, 11, 128], %1 w: f32[3, 3, 64, 128]", "f32[B, 13, 13, 64]",
     "conv2d_input_gradient(%0, %1, size=[13, 13])", 2.0 * ROWS * 13 * 13 * 64 * 9 * 128},
    {"its weights' gradient", "%0 x: f32[B, 13, 13, 64], %1 g: f32[B, 11, 11, 128]", "f32[3, 3, 64, 128]",
     "conv2d_kernel_gradient(%0, %1, size=[3, 3])", 2.0 * ROWS * 11 * 11 * 128 * 9 * 64},
    {"rows x 3200, to 10", "%0 x: f32[B, 3200], %1 w: f32[3200, 10]", "f32[B, 10]", "matmul(%0, %1)", 2.0 * ROWS * 3200 * 10},
    {"rows x 784, to 128", "%0 x: f32[B, 784], %1 w: f32[784, 128]", "f32[B, 128]", "matmul(%0, %1)", 2.0 * ROWS * 784 * 128},
    {"512 x 512, to 512", "%0 x: f32[512, 512], %1 w: f32[512, 512]", "f32[512, 512]", "matmul(%0, %1)", 2.0 * 512 * 512 * 512},
    {"512 x 512 transposed, to 512", "%0 x: f32[512, 512], %1 w: f32[512, 512]", "f32[512, 512]", "matmul(%0, %1, transpose_b=true)",
     2.0 * 512 * 512 * 512},
    {"pooling 2 x 2 of 26 x 26 x 64", "%0 x: f32[B, 26, 26, 64]", "f32[B, 13, 13, 64]", "max_pool2d(%0, size=[2, 2], strides=[2, 2])",
     1.0 * ROWS * 26 * 26 * 64},
    {"sum over rows and 121 positions", "%0 x: f32[B, 121, 128]", "f32[128]", "reduce_sum(%0, axes=[0, 1])", 1.0 * ROWS * 121 * 128},
    {"sum of 3200 in each row", "%0 x: f32[B, 3200]", "f32[B]", "reduce_sum(%0, axes=[1])", 1.0 * ROWS * 3200},
    {"exponential of 64 x 3200", "%0 x: f32[B, 3200]", "f32[B, 3200]", "exp(%0)", 1.0 * ROWS * 3200},
};

static void succeed(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", dt_status_message(status));
    exit(1);
}

static dt_tensor make_input(dt_arena *arena, const dt_value *input) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, input->shape.rank);
    for (int d = 0; d < input->shape.rank; d++) dims[d] = dt_dim_is_symbol(input->shape.dims[d]) ? ROWS : input->shape.dims[d];
    dt_tensor tensor = dt_tensor_make(arena, input->dtype, (dt_shape){input->shape.rank, dims});
    tensor.data = dt_arena_new(arena, dt_tensor_bytes(&tensor) + SLACK_BYTES);
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, (double)(i * 7 % 23) / 16 - 0.7);
    return tensor;
}

/* Runs a kernel again and again and keeps the shortest time. */
typedef struct timed_code {
    dt_object *code;
    double seconds;
} timed_code;

static void run_timed(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    enum {
        LEAST_RUNS = 5
    };
    timed_code *timed = context;
    dt_kernel_entry entry = (dt_kernel_entry)dt_object_find(timed->code, plan->kernels[kernel].name);
    double best = 1e9, start = dt_seconds();
    for (int i = 0; i < LEAST_RUNS || dt_seconds() - start < 0.2; i++) {
        double before = dt_seconds();
        entry(buffers, launch);
        double time = dt_seconds() - before;
        if (time < best) best = time;
    }
    timed->seconds += best;
}

static void run_case(const kernel_case *test, const char *const *levels, int n_levels) {
    dt_arena *arena = dt_arena_create();
    dt_text text = {0};
    dt_text_format(&text, "module m capacity %d\nfile 0 \"m\"\nfunction f step (%s) {\n  %%9: %s = %s\n  return y=%%9\n}\n", ROWS, test->inputs,
                   test->result, test->call);
    dt_compilation compilation = {.arena = arena};
    succeed(dt_module_parse(arena, test->name, text.data, &compilation.module));
    succeed(dt_pipeline_run(&compilation, &(dt_pipeline_options){0}));
    dt_function *function = compilation.module->functions.items[0];
    dt_tensor inputs[2], result;
    for (size_t i = 0; i < function->inputs.n; i++) inputs[i] = make_input(arena, function->inputs.items[i]);
    dt_memory memory = dt_memory_create(arena, compilation.module);
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = ROWS, .valid = ROWS, .global_batch = ROWS, .replicas = 1, .bad_index = &bad_index};
    printf("%-32s", test->name);
    for (int l = 0; l < n_levels; l++) {
        dt_codegen_object object = {.level = levels[l]};
        succeed(dt_codegen_llvm((const dt_plan *const *)compilation.plans, compilation.n_plans, NULL, &object, 1));
        timed_code timed = {0};
        succeed(dt_object_load(levels[l], object.bytes, object.n_bytes, &timed.code));
        succeed(dt_plan_execute_with(arena, compilation.plans[0], run_timed, &timed, 1, &launch, inputs, &memory, &result));
        printf("  %8.3f ms %6.1f G/s (%3.0f ms)", 1e3 * timed.seconds, test->operations / timed.seconds / 1e9, 1e3 * object.seconds);
        dt_object_free(timed.code);
        dt_release(object.bytes);
    }
    printf("\n");
    fflush(stdout);
    dt_text_free(&text);
    dt_arena_destroy(arena);
}

int main(int argc, char **argv) {
    const char *levels[] = {DT_LEVEL_V3, DT_LEVEL_V4, DT_LEVEL_NATIVE};
    int n_levels = dt_cpu_level() >= 4 ? 3 : 2;
    if (dt_cpu_level() < 3) return puts("this machine is below x86-64-v3"), 1;
    if (n_levels == 2) levels[1] = DT_LEVEL_NATIVE;
    printf("%-32s", "best of many runs, compile time");
    for (int l = 0; l < n_levels; l++) printf("  %-31s", levels[l]);
    printf("\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 2 || strstr(cases[i].name, argv[1]) != NULL || strstr(cases[i].call, argv[1]) != NULL) run_case(&cases[i], levels, n_levels);
    return 0;
}
