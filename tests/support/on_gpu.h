/* on_gpu: the plans of a compilation as CUDA text, compiled by NVRTC and run by NVIDIA's driver: what emulated.h is on the CPU, on the real thing.
 *
 * Each call gets its buffers at their exact size in the GPU's memory, with a border on both sides that must stay as it is, is launched alone and
 * waited for. The runtime does none of this: here it is kernels that are tested, one by one.
 *
 * GPU_TEXT=FILE in the environment: the text is written there, and nothing runs. GPU_CACHE=FOLDER: what NVRTC makes is kept there, as dtc does it. */
#ifndef DT_TESTS_SUPPORT_ON_GPU_H
#define DT_TESTS_SUPPORT_ON_GPU_H

#include "compiler/codegen/codegen.h"
#include "compiler/kernel/compilation.h"
#include "runtime/devices/cuda/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GPU_MEMORY = 1 << 20, /* for the buffers of one call */
    GPU_BORDER = 256,
    GPU_PATTERN = 0x7f,
    GPU_MOST_UNITS = 256
};

typedef struct gpu {
    dt_cuda cuda;
    uint64_t memory;
    char architecture[16]; /* "sm_90" */
} gpu;

typedef struct gpu_code {
    gpu *gpu;
    dt_cuda_program program;
    int n_modules;
    void *modules[GPU_MOST_UNITS]; /* one a unit */
    char message[400];             /* the first thing that went wrong; "" */
} gpu_code;

#define GPU_TRY(gpu, symbol, ...) DT_CUDA_TRY(&(gpu)->cuda, symbol, __VA_ARGS__)

/* Opens the first GPU. DT_NOT_FOUND: there is none. */
static inline dt_status *gpu_open(gpu *g) {
    *g = (gpu){0};
    DT_TRY(dt_cuda_open(0, &g->cuda));
    DT_TRY(dt_cuda_enter(&g->cuda));
    snprintf(g->architecture, sizeof g->architecture, "sm_%d%d", g->cuda.major, g->cuda.minor);
    GPU_TRY(g, cuMemAlloc_v2, &g->memory, GPU_MEMORY);
    return NULL;
}

static inline dt_status *gpu_close(gpu *g) {
    GPU_TRY(g, cuMemFree_v2, g->memory);
    dt_cuda_close(&g->cuda);
    return NULL;
}

static inline dt_status *gpu_write_text(const dt_cuda_program *program, const char *path) {
    dt_text text = {0};
    dt_cuda_print(&text, program, 0, program->n_sources);
    FILE *file = fopen(path, "w");
    bool written = file != NULL && !text.failed && fputs(text.data, file) >= 0;
    if (file != NULL && fclose(file) != 0) written = false;
    dt_text_free(&text);
    return written ? NULL : dt_error(DT_INTERNAL, "%s cannot be written", path);
}

static inline dt_status *gpu_load(gpu_code *code) {
    const char *architecture = code->gpu->architecture;
    dt_text warnings = {0};
    dt_cuda_code compiled;
    DT_TRY(dt_cuda_compile(&code->program, &architecture, 1, getenv("GPU_CACHE"), &warnings, &compiled));
    dt_status *status = compiled.n_modules <= GPU_MOST_UNITS ? NULL : dt_error(DT_INTERNAL, "%d units are too many", compiled.n_modules);
    for (int m = 0; m < compiled.n_modules && status == NULL; m++) {
        status = dt_cuda_driver_error(&code->gpu->cuda.driver, "cuModuleLoadDataEx",
                                      code->gpu->cuda.driver.cuModuleLoadDataEx(&code->modules[m], compiled.modules[m].bytes, 0, NULL, NULL));
        code->n_modules += status == NULL;
    }
    dt_text_free(&warnings);
    dt_cuda_code_free(&compiled);
    return status;
}

/* Renders, compiles and loads all plans; gpu_free releases what is loaded, after an error too. *runs is false if the text was written instead. */
static inline dt_status *gpu_make(const dt_compilation *compilation, gpu *gpu, gpu_code *code, bool *runs) {
    const char *path = getenv("GPU_TEXT");
    *code = (gpu_code){.gpu = gpu};
    *runs = path == NULL;
    dt_gpu_choices *choices;
    DT_TRY(dt_passes_choose_gpu(compilation, &choices));
    dt_codegen_cuda(compilation->arena, choices, &code->program);
    return *runs ? gpu_load(code) : gpu_write_text(&code->program, path);
}

static inline void gpu_free(gpu_code *code) {
    for (int m = 0; m < code->n_modules; m++) code->gpu->cuda.driver.cuModuleUnload(code->modules[m]);
    code->n_modules = 0;
}

/* ---- a call ---- */

/* What a call is given, on both sides. */
typedef struct gpu_block {
    uint64_t at; /* behind its first border */
    void *host;
    size_t bytes;
} gpu_block;

/* Room for `bytes` with borders, and what `host` holds copied there. */
static inline dt_status *gpu_put(gpu *g, size_t *used, gpu_block *block, void *host, size_t bytes) {
    *block = (gpu_block){g->memory + *used + GPU_BORDER, host, bytes};
    *used += (2 * GPU_BORDER + bytes + 255) / 256 * 256;
    if (*used > GPU_MEMORY) return dt_error(DT_INTERNAL, "buffers of more than %d bytes", GPU_MEMORY);
    GPU_TRY(g, cuMemsetD8Async, block->at - GPU_BORDER, GPU_PATTERN, 2 * GPU_BORDER + bytes, g->cuda.stream);
    if (bytes > 0) GPU_TRY(g, cuMemcpyHtoDAsync_v2, block->at, host, bytes, g->cuda.stream);
    return NULL;
}

/* Copies back what was changed, and looks at the borders. */
static inline dt_status *gpu_take(gpu *g, const gpu_block *block) {
    size_t whole = 2 * GPU_BORDER + block->bytes;
    unsigned char *all = malloc(whole);
    if (all == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory");
    dt_status *status = dt_cuda_driver_error(&g->cuda.driver, "cuMemcpyDtoHAsync_v2",
                                             g->cuda.driver.cuMemcpyDtoHAsync_v2(all, block->at - GPU_BORDER, whole, g->cuda.stream));
    if (status == NULL) status = dt_cuda_driver_error(&g->cuda.driver, "cuStreamSynchronize", g->cuda.driver.cuStreamSynchronize(g->cuda.stream));
    for (size_t i = 0; i < GPU_BORDER && status == NULL; i++)
        if (all[i] != GPU_PATTERN || all[GPU_BORDER + block->bytes + i] != GPU_PATTERN) status = dt_error(DT_INTERNAL, "writes outside of a buffer");
    if (status == NULL && memcmp(block->host, all + GPU_BORDER, block->bytes) != 0) memcpy(block->host, all + GPU_BORDER, block->bytes);
    free(all);
    return status;
}

static inline size_t gpu_buffer_bytes(const dt_plan *plan, int b) {
    const dt_buffer *buffer = &plan->buffers[b];
    return (size_t)dt_shape_elements(buffer->shape, plan->microbatch_rows, plan->microbatch_rows) * dt_dtype_bytes(buffer->dtype);
}

/* Runs a call with a grid of `blocks`. Inputs and variables are copied back too: a kernel that changes what it may not shows. */
static inline dt_status *gpu_call(gpu_code *code, const dt_plan *plan, const dt_cuda_call *call, int blocks, void *const *buffers,
                                  const dt_launch *launch) {
    enum {
        MOST_ARGUMENTS = 256
    };
    gpu *g = code->gpu;
    gpu_block given[MOST_ARGUMENTS];
    void *arguments[MOST_ARGUMENTS], *function;
    size_t used = 0;
    int n = call->n_arguments;
    int64_t iteration = 0;
    dt_launch there = *launch;
    if (n + 2 > MOST_ARGUMENTS) return dt_error(DT_INTERNAL, "%d arguments are too many", n);
    for (int a = 0; a < n; a++) {
        int b = call->arguments[a];
        DT_TRY(gpu_put(g, &used, &given[a], buffers[b], gpu_buffer_bytes(plan, plan->kernels[call->kernel].buffers[b])));
    }
    DT_TRY(gpu_put(g, &used, &given[n], launch->bad_index, sizeof *launch->bad_index));
    there.bad_index = (dt_bad_index *)(uintptr_t)given[n].at;
    DT_TRY(gpu_put(g, &used, &given[n + 1], &there, sizeof there));
    for (int a = 0; a < n; a++) arguments[a] = &given[a].at;
    arguments[n] = &given[n + 1].at;
    arguments[n + 1] = &iteration;
    GPU_TRY(g, cuModuleGetFunction, &function, code->modules[dt_cuda_unit_of(call->source)], call->name);
    GPU_TRY(g, cuLaunchKernel, function, (unsigned)blocks, 1, 1, (unsigned)call->threads, 1, 1, 0, g->cuda.stream, arguments, NULL);
    for (int a = 0; a <= n + 1; a++) DT_TRY(gpu_take(g, &given[a]));
    return NULL;
}

/* A way to run: every call with at most `most_blocks` blocks. */
typedef struct gpu_way {
    gpu_code *code;
    int most_blocks;
} gpu_way;

/* A dt_kernel_runner whose context is a gpu_way. */
static inline void gpu_run(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    const gpu_way *way = context;
    gpu_code *code = way->code;
    for (int i = 0; i < code->program.n_calls; i++) {
        const dt_cuda_call *call = &code->program.calls[i];
        if (call->kernel != kernel || strcmp(plan->kernels[kernel].name, call->kernel_name) != 0) continue;
        int64_t wanted = (call->n_items * call->team + call->threads - 1) / call->threads;
        int blocks = (int)(wanted < 1 ? 1 : wanted < way->most_blocks ? wanted : way->most_blocks);
        dt_status *status = gpu_call(code, plan, call, blocks, buffers, launch);
        if (status != NULL && code->message[0] == 0) snprintf(code->message, sizeof code->message, "%s: %s", call->name, dt_status_message(status));
        dt_status_free(status);
    }
}

#endif
