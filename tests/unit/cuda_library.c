/* cuda_library: products and convolutions through the interfaces of cuBLASLt and cuDNN, both faked and on the fake driver, agree with their
 * descriptions done one element at a time; heuristics are asked once; what fails is reported, gives everything back and leaves the process alive;
 * and every symbol that is looked up is in the real libraries, where they are installed. Each case is a process of its own, whose end is looked at.
 */
#include "runtime/devices/cuda/cublaslt.h"
#include "runtime/devices/cuda/cudnn.h"
#include "runtime/devices/cuda/library.h"
#include "tests/support/library_naive.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    CAPACITY = 4,
    N_BUFFERS = 5,
    VALUES = 1 << 14, /* of each buffer */
    BYTES = VALUES * sizeof(float)
};

static char folder[] = "/tmp/dt-cuda-library-XXXXXX", log_path[64];

static const char text[] = "extern \"C\" __global__ void clear_rows(float *values, long long row, long long capacity, const long long *launch) {\n"
                           "    for (long long i = launch[0] * row + threadIdx.x + blockIdx.x * blockDim.x; i < capacity * row; i += gridDim.x * "
                           "blockDim.x) values[i] = 0;\n"
                           "}\n"
                           "extern \"C\" __global__ void transpose(const float *from, float *to, long long rows, long long columns) {\n"
                           "    for (long long i = threadIdx.x + blockIdx.x * blockDim.x; i < rows * columns; i += gridDim.x * blockDim.x)\n"
                           "        to[i] = from[i % rows * columns + i / rows];\n"
                           "}\n";

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry clear_rows(\n.visible .entry transpose(\n";

typedef struct world {
    dt_arena *arena;
    dt_cuda_driver driver;
    void *context, *module, *stream, *graph;
    uint64_t buffers[N_BUFFERS], launch, workspace;
    float *host[N_BUFFERS]; /* as they begin */
    float *pinned;
    dt_cuda_libraries *libraries;
} world;

static void must_be(const char *what, dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s: %s\n", what, dt_status_message(status));
    _exit(1);
}

#define DRIVER(w, symbol, ...) must_be(#symbol, dt_cuda_driver_error(&(w)->driver, #symbol, (w)->driver.symbol(__VA_ARGS__)))

static void begin(world *w, int64_t rows) {
    bool present;
    int device;
    dt_cuda_library_functions functions = {.threads = 64};
    *w = (world){.arena = dt_arena_create()};
    must_be("open", dt_cuda_driver_open(&w->driver, &present));
    DRIVER(w, cuDeviceGet, &device, 0);
    DRIVER(w, cuDevicePrimaryCtxRetain, &w->context, device);
    DRIVER(w, cuCtxSetCurrent, w->context);
    DRIVER(w, cuModuleLoadDataEx, &w->module, ptx, 0, NULL, NULL);
    DRIVER(w, cuModuleGetFunction, &functions.clear_rows, w->module, "clear_rows");
    DRIVER(w, cuModuleGetFunction, &functions.transpose, w->module, "transpose");
    DRIVER(w, cuStreamCreate, &w->stream, 1);
    DRIVER(w, cuMemAlloc_v2, &w->launch, sizeof rows);
    DRIVER(w, cuMemAllocHost_v2, (void **)&w->pinned, BYTES);
    memcpy(w->pinned, &rows, sizeof rows);
    DRIVER(w, cuMemcpyHtoDAsync_v2, w->launch, w->pinned, sizeof rows, w->stream);
    DRIVER(w, cuStreamSynchronize, w->stream);
    for (int b = 0; b < N_BUFFERS; b++) {
        w->host[b] = malloc(BYTES);
        for (int i = 0; i < VALUES; i++) w->host[b][i] = (float)((i * 7 + b * 5) % 33 - 16) / 4;
        DRIVER(w, cuMemAlloc_v2, &w->buffers[b], BYTES);
        memcpy(w->pinned, w->host[b], BYTES);
        DRIVER(w, cuMemcpyHtoDAsync_v2, w->buffers[b], w->pinned, BYTES, w->stream);
        DRIVER(w, cuStreamSynchronize, w->stream);
    }
    w->libraries = dt_cuda_libraries_create(&w->driver, &functions, CAPACITY, w->arena);
}

/* Everything back: the fakes look whether it is. */
static void end(world *w) {
    dt_cuda_libraries_destroy(w->libraries);
    for (int b = 0; b < N_BUFFERS; b++) {
        w->driver.cuMemFree_v2(w->buffers[b]);
        free(w->host[b]);
    }
    if (w->workspace != 0) w->driver.cuMemFree_v2(w->workspace);
    w->driver.cuMemFree_v2(w->launch);
    w->driver.cuMemFreeHost(w->pinned);
    w->driver.cuStreamDestroy_v2(w->stream);
    w->driver.cuModuleUnload(w->module);
    w->driver.cuDevicePrimaryCtxRelease_v2(0);
    dt_cuda_driver_close(&w->driver);
    dt_arena_destroy(w->arena);
}

/* ---- the calls ---- */

/* result [3, 20] = relu(0.5 first [3, 12] second + bias), the second factor as its transpose, in 2 x 3 batches of which the first are two calls. */
static const dt_library_call product = {
    .class = DT_LIBRARY_PRODUCT,
    .product = {.rows = 3,
                .columns = 20,
                .terms = 12,
                .n_batches = 2,
                .batches = {2, 3},
                .first = {.argument = 0, .offset = 8, .strides = {14, 1}, .batch_strides = {400, 50}},
                .second = {.argument = 1, .offset = 4, .strides = {1, 16}, .batch_strides = {0, 320}},
                .result = {.argument = 2, .strides = {24, 1}, .batch_strides = {300, 100}},
                .scale = 0.5,
                .bias = 3,
                .bias_offset = 12,
                .activation = DT_LIBRARY_ACTIVATION_RELU,
                .kept = -1,
                .bias_gradient = {.argument = -1}},
};

/* A sum over rows of both factors, which are stored row by row. */
static const dt_library_call sum_over_rows = {
    .class = DT_LIBRARY_PRODUCT,
    .product = {.rows = 9,
                .columns = 8,
                .terms = CAPACITY,
                .first = {.argument = 0, .strides = {1, 9}},
                .second = {.argument = 1, .strides = {8, 1}},
                .result = {.argument = 2, .strides = {8, 1}},
                .scale = 1,
                .bias = -1,
                .kept = -1,
                .bias_gradient = {.argument = -1}},
    .n_clears = 2,
    .clears = {{0, 9 * sizeof(float)}, {1, 8 * sizeof(float)}},
};

/* [5, 19] = activation([5, 12] second + bias). */
static dt_library_call activated(dt_library_activation activation, bool kept) {
    return (dt_library_call){.class = DT_LIBRARY_PRODUCT,
                             .product = {.rows = 5,
                                         .columns = 19,
                                         .terms = 12,
                                         .first = {.argument = 0, .offset = 8, .strides = {14, 1}},
                                         .second = {.argument = 1, .offset = 4, .strides = {1, 16}},
                                         .result = {.argument = 2, .offset = 16, .strides = {24, 1}},
                                         .scale = dt_library_is_gradient(activation) ? 1 : 0.125,
                                         .bias = dt_library_is_gradient(activation) ? -1 : 3,
                                         .bias_offset = 12,
                                         .activation = activation,
                                         .kept = kept ? N_BUFFERS - 1 : -1,
                                         .bias_gradient = {.argument = -1}}};
}

static dt_library_call convolution(dt_library_class class) {
    dt_library_call call = {.class = class,
                            .convolution = {.n_directions = 2,
                                            .images = CAPACITY,
                                            .channels = 3,
                                            .filters = 5,
                                            .groups = 1,
                                            .input = {7, 6},
                                            .taps = {3, 2},
                                            .output = {4, 5},
                                            .stride = {2, 1},
                                            .dilation = {1, 2},
                                            .padding = {1, 0},
                                            .padding_after = {1, 1},
                                            .x = 0,
                                            .kernel = 1,
                                            .y = 2}};
    if (class == DT_LIBRARY_KERNEL_GRADIENT) {
        call.n_clears = 2;
        call.clears[0] = (dt_library_clear){0, 7 * 6 * 3 * sizeof(float)};
        call.clears[1] = (dt_library_clear){2, 4 * 5 * 5 * sizeof(float)};
    }
    return call;
}

/* In three directions, of three groups of two channels and four filters. */
static dt_library_call grouped_volume(dt_library_class class) {
    dt_library_call call = {.class = class,
                            .convolution = {.n_directions = 3,
                                            .images = CAPACITY,
                                            .channels = 6,
                                            .filters = 12,
                                            .groups = 3,
                                            .input = {4, 5, 6},
                                            .taps = {2, 3, 2},
                                            .output = {4, 3, 4},
                                            .stride = {1, 2, 1},
                                            .dilation = {1, 1, 2},
                                            .padding = {1, 1, 0},
                                            .padding_after = {0, 1, 0},
                                            .x = 0,
                                            .kernel = 1,
                                            .y = 2}};
    if (class == DT_LIBRARY_KERNEL_GRADIENT) {
        call.n_clears = 2;
        call.clears[0] = (dt_library_clear){0, 4 * 5 * 6 * 6 * sizeof(float)};
        call.clears[1] = (dt_library_clear){2, 4 * 3 * 4 * 12 * sizeof(float)};
    }
    return call;
}

/* ---- the pieces of a case ---- */

static dt_cuda_library_operation *prepare(world *w, const dt_library_call *call) {
    dt_cuda_library_operation *operation;
    must_be("prepare", dt_cuda_libraries_prepare(w->libraries, "a_function", call, NULL, &operation));
    return operation;
}

static dt_cuda_library_operation *prepare_gradient(world *w, const dt_library_call *call, dt_cuda_library_operation *relu) {
    dt_cuda_library_operation *operation;
    must_be("prepare", dt_cuda_libraries_prepare(w->libraries, "a_function", call, relu, &operation));
    return operation;
}

static void make_workspace(world *w) { DRIVER(w, cuMemAlloc_v2, &w->workspace, dt_cuda_libraries_workspace_bytes(w->libraries, 1)); }

static void run(world *w, dt_cuda_library_operation *operation) {
    must_be("run", dt_cuda_library_run(operation, w->buffers, w->launch, &(dt_cuda_library_place){w->workspace, 0, w->stream}));
}

/* All of memory is what the descriptions alone leave, but what was cleared. */
static void compare_all(world *w, const dt_library_call *const *calls, int n, int64_t rows) {
    float *wanted[N_BUFFERS];
    for (int b = 0; b < N_BUFFERS; b++) {
        wanted[b] = malloc(BYTES);
        memcpy(wanted[b], w->host[b], BYTES);
    }
    for (int i = 0; i < n; i++) library_run_naively(calls[i], (void *const *)wanted, rows, CAPACITY);
    for (int b = 0; b < N_BUFFERS; b++) {
        DRIVER(w, cuMemcpyDtoHAsync_v2, w->pinned, w->buffers[b], BYTES, w->stream);
        DRIVER(w, cuStreamSynchronize, w->stream);
        for (int i = 0; i < VALUES; i++)
            if (!(fabsf(w->pinned[i] - wanted[b][i]) <= 1e-4f * (1 + fabsf(wanted[b][i])))) {
                fprintf(stderr, "class %d, buffer %d, value %d: %g, wanted %g\n", (int)calls[n - 1]->class, b, i, (double)w->pinned[i],
                        (double)wanted[b][i]);
                _exit(1);
            }
        free(wanted[b]);
    }
}

static void compare(world *w, const dt_library_call *call, int64_t rows) { compare_all(w, &call, 1, rows); }

/* ---- cases: each ends with what the process says, and its code ---- */

static void one(const dt_library_call *call, int64_t rows) {
    world w;
    begin(&w, rows);
    dt_cuda_library_operation *operation = prepare(&w, call);
    if (operation == NULL) fprintf(stderr, "refused\n"), _exit(1);
    make_workspace(&w);
    run(&w, operation);
    compare(&w, call, rows);
    end(&w);
}

static void products(void) { one(&product, CAPACITY), one(&sum_over_rows, CAPACITY), one(&sum_over_rows, 1), one(&sum_over_rows, 0); }

static void activations(void) {
    dt_library_call calls[] = {activated(DT_LIBRARY_ACTIVATION_NONE, false), activated(DT_LIBRARY_ACTIVATION_RELU, false),
                               activated(DT_LIBRARY_ACTIVATION_GELU, false), activated(DT_LIBRARY_ACTIVATION_GELU, true),
                               activated(DT_LIBRARY_ACTIVATION_GELU_GRADIENT, true)};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) one(&calls[i], CAPACITY);
}

/* A relu and its gradient, which reads the relu's result: the library's reads a mask, and gives the same. Both, or neither. */
static void relu_and_gradient(void) {
    dt_library_call relu = activated(DT_LIBRARY_ACTIVATION_RELU, false), gradient = activated(DT_LIBRARY_ACTIVATION_RELU_GRADIENT, true);
    relu.product.result.argument = gradient.product.kept;
    gradient.product.first.offset = 40;
    world w;
    begin(&w, CAPACITY);
    dt_cuda_library_operation *operations[2] = {prepare(&w, &relu)};
    size_t without = dt_cuda_libraries_workspace_bytes(w.libraries, 1);
    operations[1] = prepare_gradient(&w, &gradient, operations[0]);
    int n = operations[1] != NULL ? 2 : 1;
    fprintf(stderr, "%zu bytes of mask, %d calls\n", dt_cuda_libraries_workspace_bytes(w.libraries, 1) - without, n);
    make_workspace(&w);
    for (int i = 0; i < n; i++) run(&w, operations[i]);
    compare_all(&w, (const dt_library_call *const[]){&relu, &gradient}, n, CAPACITY);
    end(&w);
}

/* A relu that turns out to be refused when it is first run leaves no mask, though it may do without: its gradient is refused. */
static void relu_that_is_refused_late(void) {
    dt_library_call relu = activated(DT_LIBRARY_ACTIVATION_RELU, false), gradient = activated(DT_LIBRARY_ACTIVATION_RELU_GRADIENT, true);
    relu.product.result.argument = gradient.product.kept;
    world w;
    begin(&w, CAPACITY);
    dt_cuda_library_operation *operations[2] = {prepare(&w, &relu)};
    operations[1] = prepare_gradient(&w, &gradient, operations[0]);
    make_workspace(&w);
    for (int i = 0; i < 2; i++) must_be("warm", dt_cuda_library_warm(&operations[i], w.buffers, &(dt_cuda_library_place){w.workspace, 0, w.stream}));
    compare_all(&w, (const dt_library_call *const[]){&relu, &gradient}, (operations[0] != NULL) + (operations[1] != NULL), CAPACITY);
    fprintf(stderr, "%d, %d\n", operations[0] != NULL, operations[1] != NULL);
    end(&w);
}

/* Neither a gradient that no relu goes with, nor one of another size or place, is the library's. */
static void gradients_alone(void) {
    dt_library_call relus[4], gradient = activated(DT_LIBRARY_ACTIVATION_RELU_GRADIENT, true);
    dt_text choices = {0};
    world w;
    begin(&w, CAPACITY);
    for (int i = 0; i < 4; i++) relus[i] = activated(DT_LIBRARY_ACTIVATION_RELU, false);
    relus[0].product.columns--, relus[1].product.rows--, relus[2].product.result.offset += 4, relus[3].product.result.strides[0] += 4;
    if (prepare_gradient(&w, &gradient, NULL) != NULL) _exit(1);
    for (int i = 0; i < 4; i++)
        if (prepare_gradient(&w, &gradient, prepare(&w, &relus[i])) != NULL) _exit(1);
    dt_cuda_libraries_print(w.libraries, true, &choices);
    fputs(choices.data, stderr);
    dt_text_free(&choices);
    end(&w);
}

/* The sums beside a product, of either factor, over all rows and over those that are valid; the library does them if it can. */
static void bias_gradients(void) {
    static const int64_t rows[] = {CAPACITY, 1, 0};
    for (int i = 0; i < 6; i++) {
        dt_library_call call = sum_over_rows, plain = sum_over_rows;
        call.product.bias_gradient = (dt_library_bias_gradient){3, 20, i % 2 == 1, 1};
        world w;
        begin(&w, rows[i / 2]);
        dt_cuda_library_operation *operation = prepare(&w, &call);
        make_workspace(&w);
        must_be("warm", dt_cuda_library_warm(&operation, w.buffers, &(dt_cuda_library_place){w.workspace, 0, w.stream}));
        bool does = dt_cuda_library_does_bias_gradient(operation);
        if (i == 0) fprintf(stderr, does ? "with it\n" : "without it\n");
        run(&w, operation);
        compare(&w, does ? &call : &plain, rows[i / 2]);
        end(&w);
    }
}

static void convolutions(void) {
    for (int class = DT_LIBRARY_CONVOLUTION; class <= DT_LIBRARY_KERNEL_GRADIENT; class ++) {
        dt_library_call calls[] = {convolution((dt_library_class) class), grouped_volume((dt_library_class) class)};
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            one(&calls[i], CAPACITY);
            one(&calls[i], 2);
        }
    }
}

/* A graph of two calls, launched three times. */
static void captured(void) {
    world w;
    void *graph, *executable;
    begin(&w, CAPACITY);
    dt_library_call gradient = convolution(DT_LIBRARY_KERNEL_GRADIENT);
    dt_cuda_library_operation *operations[] = {prepare(&w, &product), prepare(&w, &gradient)};
    make_workspace(&w);
    DRIVER(&w, cuStreamBeginCapture_v2, w.stream, 1);
    for (int i = 0; i < 2; i++) run(&w, operations[i]);
    DRIVER(&w, cuStreamEndCapture, w.stream, &graph);
    DRIVER(&w, cuGraphInstantiateWithFlags, &executable, graph, 0);
    for (int i = 0; i < 3; i++) DRIVER(&w, cuGraphLaunch, executable, w.stream);
    DRIVER(&w, cuStreamSynchronize, w.stream);
    w.driver.cuGraphExecDestroy(executable);
    w.driver.cuGraphDestroy(graph);
    end(&w);
}

/* What a session does with each call: heuristics, the first call, all others. What is not refused is right. */
static void falling_back(void) {
    dt_library_call gradient = convolution(DT_LIBRARY_KERNEL_GRADIENT);
    const dt_library_call *calls[] = {&product, &gradient};
    dt_text choices = {0};
    for (int i = 0; i < 2; i++) {
        world w;
        begin(&w, CAPACITY);
        dt_cuda_library_operation *operation = prepare(&w, calls[i]);
        if (operation != NULL) {
            make_workspace(&w);
            must_be("warm", dt_cuda_library_warm(&operation, w.buffers, &(dt_cuda_library_place){w.workspace, 0, w.stream}));
        }
        if (operation != NULL) {
            run(&w, operation);
            compare(&w, calls[i], CAPACITY);
        }
        DRIVER(&w, cuStreamSynchronize, w.stream);
        dt_cuda_libraries_print(w.libraries, true, &choices);
        end(&w);
    }
    fputs(choices.data, stderr);
    dt_text_free(&choices);
}

/* What a session does that a library refuses: nothing is made, and the choices say so. */
static void refused(void) {
    world w;
    dt_text choices = {0};
    dt_library_call call = convolution(DT_LIBRARY_CONVOLUTION);
    begin(&w, CAPACITY);
    if (prepare(&w, &product) != NULL || prepare(&w, &call) != NULL) _exit(1);
    dt_cuda_libraries_print(w.libraries, true, &choices);
    fputs(choices.data, stderr);
    dt_text_free(&choices);
    end(&w);
}

static void chosen(void) {
    world w;
    dt_text choices = {0};
    dt_library_call call = convolution(DT_LIBRARY_CONVOLUTION);
    begin(&w, CAPACITY);
    prepare(&w, &product), prepare(&w, &call);
    dt_cuda_libraries_print(w.libraries, true, &choices);
    fputs(choices.data, stderr);
    dt_text_free(&choices);
    end(&w);
}

/* Prepares and runs everything; the first error is told, and all is given back. */
static void failing(void) {
    world w;
    dt_library_call call = convolution(DT_LIBRARY_KERNEL_GRADIENT);
    const dt_library_call *calls[] = {&product, &call};
    dt_status *status = NULL;
    begin(&w, CAPACITY);
    for (int i = 0; i < 2 && status == NULL; i++) {
        dt_cuda_library_operation *operation = NULL;
        status = dt_cuda_libraries_prepare(w.libraries, "a_function", calls[i], NULL, &operation);
        if (w.workspace != 0) w.driver.cuMemFree_v2(w.workspace);
        w.workspace = 0;
        if (status == NULL && operation != NULL) make_workspace(&w);
        if (status == NULL && operation != NULL)
            status = dt_cuda_library_run(operation, w.buffers, w.launch, &(dt_cuda_library_place){w.workspace, 0, w.stream});
        w.driver.cuStreamSynchronize(w.stream);
    }
    if (status != NULL) fprintf(stderr, "%s\n", dt_status_message(status));
    dt_status_free(status);
    end(&w);
}

/* A library that could not be opened is opened when it is next asked for, not taken for one that is open. */
static void asked_again(void) {
    world w;
    begin(&w, CAPACITY);
    dt_library_call calls[] = {product, convolution(DT_LIBRARY_CONVOLUTION)};
    for (int i = 0; i < 4; i++) {
        dt_cuda_library_operation *operation;
        dt_status *status = dt_cuda_libraries_prepare(w.libraries, "a_function", &calls[i / 2], NULL, &operation);
        fprintf(stderr, "%d: %s\n", i, status != NULL ? dt_status_message(status) : "ready");
        dt_status_free(status);
    }
    end(&w);
}

/* ---- processes ---- */

typedef struct outcome {
    int code;
    char said[2000];
} outcome;

static outcome run_case(void (*scenario)(void), const char *name, const char *value) {
    outcome o = {0};
    int pipes[2], state;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        if (name != NULL) setenv(name, value, 1);
        scenario();
        exit(0);
    }
    close(pipes[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof o.said - 1; n += got > 0 ? (size_t)got : 0) got = read(pipes[0], o.said + n, sizeof o.said - 1 - n);
    close(pipes[0]);
    waitpid(child, &state, 0);
    o.code = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
    return o;
}

static void assert_outcome(outcome o, const char *says) {
    if (o.code != 0 || (says == NULL ? o.said[0] != 0 : strstr(o.said, says) == NULL))
        fail_msg("ended with %d: \"%s\", wanted \"%s\"", o.code, o.said, says != NULL ? says : "");
}

static void products_agree(void **state) {
    (void)state;
    assert_outcome(run_case(products, NULL, NULL), NULL);
}

static void convolutions_agree(void **state) {
    (void)state;
    assert_outcome(run_case(convolutions, NULL, NULL), NULL);
}

static void activations_agree(void **state) {
    (void)state;
    assert_outcome(run_case(activations, NULL, NULL), NULL);
    assert_outcome(run_case(relu_and_gradient, NULL, NULL), "256 bytes of mask, 2 calls"); /* 5 rows of 128 bits, rounded up */
    assert_outcome(run_case(bias_gradients, NULL, NULL), "with it");
}

/* 130 and 134: a relu with its mask, without a bias and with one; 136: its gradient; 256: a gradient of a bias. */
static void what_needs_both_calls_is_given_both_or_none(void **state) {
    (void)state;
    assert_outcome(run_case(relu_and_gradient, "FAKE_LIBRARY_REFUSE_EPILOGUES", "130,134"), "0 bytes of mask, 1 calls");
    assert_outcome(run_case(relu_and_gradient, "FAKE_LIBRARY_REFUSE_EPILOGUES", "136"), "0 bytes of mask, 1 calls");
    assert_outcome(run_case(bias_gradients, "FAKE_LIBRARY_REFUSE_EPILOGUES", "256,512"), "without it");
    assert_outcome(run_case(bias_gradients, "FAKE_LIBRARY_FAIL", "cublasLtMatmul:1=15"), "without it");
    assert_outcome(run_case(relu_that_is_refused_late, NULL, NULL), "1, 1\n");
    assert_outcome(run_case(relu_that_is_refused_late, "FAKE_LIBRARY_FAIL", "cublasLtMatmul:1=15"), "1, 0\n");
    assert_outcome(run_case(relu_that_is_refused_late, "FAKE_LIBRARY_FAIL", "cublasLtMatmul:1=15,cublasLtMatmul:2=15"), "0, 0\n");
    assert_outcome(run_case(relu_that_is_refused_late, "FAKE_LIBRARY_FAIL", "cublasLtMatmul:2=15"), "1, 0\n");
    assert_outcome(run_case(gradients_alone, NULL, NULL), "product         generated: the relu is not computed by a product of cuBLASLt's");
}

static int count(const char *name) {
    char line[200];
    int n = 0;
    FILE *log = fopen(log_path, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL) n += strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\n';
    if (log != NULL) fclose(log);
    return n;
}

static void heuristics_are_asked_once(void **state) {
    (void)state;
    assert_outcome(run_case(captured, "FAKE_LIBRARY_LOG", log_path), NULL);
    assert_int_equal(count("cublasLtMatmulAlgoGetHeuristic"), 1);
    assert_int_equal(count("cublasLtMatmul"), 2); /* two batches are two calls; a graph repeats them by itself */
    assert_int_equal(count("cudnnBackendExecute"), 1);
}

static void choices_are_told(void **state) {
    (void)state;
    outcome o = run_case(chosen, NULL, NULL);
    assert_outcome(o, "cuBLASLt 13.0.2: 1 call\ncuDNN 9.13.0: 1 call\n");
    assert_outcome(o, "algorithm 66, tile 3, stages 3, 1024 bytes");
    assert_outcome(o, "engine 3, 512 bytes"); /* neither the one that adds by chance, nor the one in less precision, nor the one that is none */
}

static outcome fail_at(void (*scenario)(void), const char *call, int number, int status) {
    char setting[100];
    snprintf(setting, sizeof setting, "%s:%d=%d", call, number, status);
    return run_case(scenario, "FAKE_LIBRARY_FAIL", setting);
}

/* "Invalid" is a refusal of an epilogue, and of a product without one a mistake of ours. Of the heuristics of the relu and its gradient the first are
 * the relu's without a mask. */
static void an_invalid_epilogue_is_refused(void **state) {
    (void)state;
    assert_outcome(fail_at(bias_gradients, "cublasLtMatmulAlgoGetHeuristic", 1, 7), "without it");
    for (int n = 2; n <= 3; n++) assert_outcome(fail_at(relu_and_gradient, "cublasLtMatmulAlgoGetHeuristic", n, 7), "0 bytes of mask, 1 calls");
    assert_outcome(fail_at(failing, "cublasLtMatmulAlgoGetHeuristic", 1, 7), "CUBLAS_STATUS_OTHER, 7 (another status) (a_function is made for it");
}

static void what_is_refused_is_generated(void **state) {
    (void)state;
    outcome o = run_case(refused, "FAKE_LIBRARY_REFUSE", "1");
    assert_outcome(o, "product         generated: cuBLASLt, cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED, 15 (");
    assert_outcome(o, "convolution     generated: cuDNN, cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED, 3000: ");
}

/* Wherever a library says that it has no such thing, the call is refused, the reason stands with the choices, the other call is right, and all is
 * given back. */
static void what_is_not_supported_is_generated(void **state) {
    (void)state;
    static const struct {
        const char *call;
        int n, status; /* how often it is called before the first run is over */
        const char *says;
    } calls[] = {{"cublasLtMatrixLayoutCreate", 3, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cublasLtMatrixLayoutSetAttribute", 6, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cublasLtMatmulDescCreate", 1, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cublasLtMatmulDescSetAttribute", 5, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cublasLtMatmulPreferenceSetAttribute", 6, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cublasLtMatmulAlgoGetHeuristic", 1, 8, "CUBLAS_STATUS_ARCH_MISMATCH, 8"},
                 {"cublasLtMatmul", 2, 15, "CUBLAS_STATUS_NOT_SUPPORTED, 15"},
                 {"cudnnBackendSetAttribute", 30, 3002, "CUDNN_STATUS_NOT_SUPPORTED, 3002"},
                 {"cudnnBackendFinalize", 6, 3010, "CUDNN_STATUS_NOT_SUPPORTED, 3010"},
                 {"cudnnSetStream", 1, 3000, "CUDNN_STATUS_NOT_SUPPORTED, 3000"},
                 {"cudnnBackendExecute", 1, 3000, "CUDNN_STATUS_NOT_SUPPORTED, 3000"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int n = 1; n <= calls[i].n; n++) {
            char says[200];
            bool is_product = calls[i].call[1] == 'u' && calls[i].call[2] == 'b';
            snprintf(says, sizeof says, "generated: %s, %s: %s", is_product ? "cuBLASLt" : "cuDNN", calls[i].call, calls[i].says);
            outcome o = fail_at(falling_back, calls[i].call, n, calls[i].status);
            assert_outcome(o, says);
            assert_outcome(o, "1 call, 1 of them generated as a fallback");
            assert_outcome(o, is_product ? "kernel_gradient engine 3" : "product         algorithm 66");
        }
    outcome late = fail_at(falling_back, "cublasLtMatmul", 3, 15); /* when the first run is over, it is too late to do otherwise */
    assert_int_equal(late.code, 1);
    assert_non_null(strstr(late.said, "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED, 15"));
}

/* Of what cuDNN proposes: the seventh to be finalised are the heuristics of one mode, the eighth and the ninth plans of theirs. What one cannot do,
 * another may; but for what might go well the next time no other one is taken. */
static void engines_that_are_none_are_passed_over(void **state) {
    (void)state;
    static const int none[] = {2000, 2008, 3000, 3002, 4001}, failures[] = {1001, 4000, 4003, 4004, 5000, 5001, 7};
    char says[100];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_outcome(fail_at(falling_back, "cudnnBackendFinalize", 8, none[i]), "kernel_gradient engine 3");
        assert_outcome(fail_at(falling_back, "cudnnBackendFinalize", 9, none[i]), "kernel_gradient engine 3"); /* as the other mode proposes */
        for (int n = 1; n <= 8; n++) assert_outcome(fail_at(falling_back, "cudnnBackendGetAttribute", n + 1, none[i]), "kernel_gradient engine 3");
    }
    assert_outcome(fail_at(falling_back, "cudnnBackendFinalize", 7, 3000), "kernel_gradient engine 3");
    assert_outcome(run_case(falling_back, "FAKE_LIBRARY_FAIL", "cudnnBackendFinalize:9=3002,cudnnBackendFinalize:12=3002"),
                   "kernel_gradient generated: cuDNN has no deterministic engine");
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        for (int n = 7; n <= 9; n++) {
            snprintf(says, sizeof says, ", %d: the fake was told to fail (a_function is made for it; --library none", failures[i]);
            assert_outcome(fail_at(failing, "cudnnBackendFinalize", n, failures[i]), says);
        }
    assert_outcome(fail_at(failing, "cudnnBackendFinalize", 5, 2000), "cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM, 2000"); /* our mistake */
}

static void a_way_that_does_not_tell_its_reduction_is_none(void **state) {
    (void)state;
    assert_outcome(fail_at(falling_back, "cublasLtMatmulAlgoConfigGetAttribute", 1, 7), "generated: cuBLASLt has no way without a reduction");
}

/* Every call in turn that can fail. Of cuDNN's, those that look for an engine may: then there is none, or another one. */
static void failing_calls_are_reported(void **state) {
    (void)state;
    static const struct {
        const char *call, *says;
    } calls[] = {{"cublasLtCreate", "cuBLASLt, cublasLtCreate: CUBLAS_STATUS_EXECUTION_FAILED, 13 (the fake was told to fail)"},
                 {"cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutCreate: "},
                 {"cublasLtMatrixLayoutSetAttribute", "cublasLtMatrixLayoutSetAttribute: "},
                 {"cublasLtMatmulDescCreate", "cublasLtMatmulDescCreate: "},
                 {"cublasLtMatmulDescSetAttribute", "cublasLtMatmulDescSetAttribute: "},
                 {"cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceCreate: "},
                 {"cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulPreferenceSetAttribute: "},
                 {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoGetHeuristic: "},
                 {"cublasLtMatmul", "cublasLtMatmul: "},
                 {"cudnnCreate", "cuDNN, cudnnCreate: "},
                 {"cudnnSetStream", "cudnnSetStream: "},
                 {"cudnnBackendCreateDescriptor", "cudnnBackendCreateDescriptor: "},
                 {"cudnnBackendSetAttribute", "cudnnBackendSetAttribute: "},
                 {"cudnnBackendFinalize", "cudnnBackendFinalize: "},
                 {"cudnnBackendExecute", "cudnnBackendExecute: "}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char setting[100];
        snprintf(setting, sizeof setting, "%s:1=13", calls[i].call);
        assert_outcome(run_case(failing, "FAKE_LIBRARY_FAIL", setting), calls[i].says);
    }
    for (int n = 1; n <= 60; n++) { /* whatever fails, all is given back and nobody dies */
        char setting[160];
        snprintf(setting, sizeof setting, "cudnnBackendCreateDescriptor:%d=13,cudnnBackendSetAttribute:%d=13,cudnnBackendFinalize:%d=13", n, n + 60,
                 n + 60);
        assert_outcome(run_case(failing, "FAKE_LIBRARY_FAIL", setting), "");
    }
}

static void a_library_that_cannot_be_had_is_named_with_the_flag(void **state) {
    (void)state;
    outcome o = run_case(failing, "DT_CUBLASLT", "/nowhere/libcublasLt.so");
    assert_outcome(o, "DT_CUBLASLT=/nowhere/libcublasLt.so cannot be loaded");
    assert_outcome(o, "(a_function is made for it; --library none runs generated code instead)");
    o = run_case(asked_again, "FAKE_LIBRARY_FAIL", "cublasLtCreate:1=1,cublasLtCreate:2=1,cudnnCreate:1=1,cudnnCreate:2=1");
    assert_outcome(o, "\n1: cuBLASLt, cublasLtCreate: ");
    assert_outcome(o, "\n3: cuDNN, cudnnCreate: ");
    o = run_case(failing, "FAKE_LIBRARY_FAIL", "cublasLtCreate:1=1");
    assert_outcome(o, "cublasLtCreate: ");
    assert_outcome(o, "(a_function is made for it; --library none runs generated code instead)");
}

/* ---- the real ones: they stay mapped, for their C++ library keeps memory to its end ---- */

static void every_symbol_is_in_cublaslt(void **state) {
    (void)state;
    static const char *const symbols[] = {
#define X(result, symbol, arguments) #symbol,
        DT_CUBLASLT_SYMBOLS(X)
#undef X
    };
    void *library = dlopen("/usr/local/cuda/lib64/libcublasLt.so", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        print_message("skipped: cuBLASLt is not installed\n");
        skip();
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (dlsym(library, symbols[i]) == NULL) fail_msg("cuBLASLt has no %s", symbols[i]);
    dlclose(library);
}

static void every_symbol_is_in_cudnn(void **state) {
    (void)state;
    static const char *const symbols[] = {
#define X(result, symbol, arguments) #symbol,
        DT_CUDNN_SYMBOLS(X)
#undef X
    };
    void *library = dlopen("/usr/local/cuda/lib64/libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        print_message("skipped: cuDNN is not installed\n");
        skip();
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (dlsym(library, symbols[i]) == NULL) fail_msg("cuDNN has no %s", symbols[i]);
    dlclose(library);
}

/* ---- the fakes ---- */

static bool make_fakes(void) {
    static const struct {
        const char *variable, *file;
    } libraries[] = {{"DT_CUDA_DRIVER", "libfake_cuda.so"}, {"DT_CUBLASLT", "libfake_cublaslt.so"}, {"DT_CUDNN", "libfake_cudnn.so"}};
    char command[1400], source[64], kernels[64], path[500];
    const char *root = getenv("DT_SOURCE"), *python = getenv("DT_PYTHON");
    if (mkdtemp(folder) == NULL) return false;
    snprintf(source, sizeof source, "%s/kernels.cu", folder);
    snprintf(kernels, sizeof kernels, "%s/kernels.so", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    FILE *file = fopen(source, "w");
    if (file == NULL) return false;
    fputs(text, file);
    fclose(file);
    snprintf(command, sizeof command, "%s %s/tests/support/emulated_kernels.py %s %s", python != NULL ? python : "python3", root != NULL ? root : ".",
             source, kernels);
    const char *build = getenv("DT_BUILD") != NULL ? getenv("DT_BUILD") : "build";
    setenv("FAKE_CUDA_KERNELS", kernels, 1);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        snprintf(path, sizeof path, "%s/tests/%s", build, libraries[i].file);
        setenv(libraries[i].variable, path, 1);
    }
    int state = system(command);
    if (state != 0 && WEXITSTATUS(state) != 77) exit(1);
    return state == 0;
}

int main(void) {
    char command[100];
    bool made = make_fakes();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree),
        cmocka_unit_test(activations_agree),
        cmocka_unit_test(what_needs_both_calls_is_given_both_or_none),
        cmocka_unit_test(convolutions_agree),
        cmocka_unit_test(heuristics_are_asked_once),
        cmocka_unit_test(choices_are_told),
        cmocka_unit_test(an_invalid_epilogue_is_refused),
        cmocka_unit_test(what_is_refused_is_generated),
        cmocka_unit_test(what_is_not_supported_is_generated),
        cmocka_unit_test(engines_that_are_none_are_passed_over),
        cmocka_unit_test(a_way_that_does_not_tell_its_reduction_is_none),
        cmocka_unit_test(failing_calls_are_reported),
        cmocka_unit_test(a_library_that_cannot_be_had_is_named_with_the_flag),
    };
    const struct CMUnitTest real[] = {cmocka_unit_test(every_symbol_is_in_cublaslt), cmocka_unit_test(every_symbol_is_in_cudnn)};
    int failed = made ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
    failed += cmocka_run_group_tests(real, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) failed++;
    return failed > 0 || made ? failed : 77;
}
