/* emulated: the plans of a compilation as CUDA text, compiled for the CPU and run by tests/support/cuda_emulation.h: the GPU's counterpart of
 * compiled.h.
 *
 * Each call gets its buffers in memory of their exact size, with a border on both sides that must stay as it is, or under AddressSanitizer in
 * blocks of their own. */
#ifndef DT_TESTS_SUPPORT_EMULATED_H
#define DT_TESTS_SUPPORT_EMULATED_H

#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/compilation.h"
#include "compiler/kernel/execute.h"
#include "compiler/kernel/view.h"
#include "compiler/pipeline.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef const char *(*emulated_launch)(const char *name, void *const *arguments, int blocks, int threads, int how, unsigned seed);

typedef struct emulated_code {
    dt_cuda_program program;
    void *library;
    emulated_launch launch;
    int how;           /* 0 forward, 1 in reverse, 2 at random */
    unsigned seed;     /* of the random order */
    char message[400]; /* the first thing that went wrong; "" */
} emulated_code;

enum {
    EMULATED_WAYS = 3,
    EMULATED_BORDER = 256,
    EMULATED_PATTERN = 0x7f
};

#if defined(__SANITIZE_ADDRESS__)
#define EMULATED_FLAGS "-fsanitize=address -g"
#define EMULATED_OWN_BORDER 0
#else
#define EMULATED_FLAGS ""
#define EMULATED_OWN_BORDER EMULATED_BORDER
#endif

/* Compiles `text`, behind which the table of `names` is put, and loads it. `root` is the project's folder. */
static inline dt_status *emulated_compile(const char *text, const char *const *names, int n_names, const char *flags, emulated_code *code) {
    char folder[] = "/tmp/dt-emulated-XXXXXX", path[64], library[64], command[1200];
    const char *root = getenv("DT_SOURCE");
    if (mkdtemp(folder) == NULL) return dt_error(DT_INTERNAL, "no folder for the emulation");
    snprintf(path, sizeof path, "%s/kernels.cu", folder);
    snprintf(library, sizeof library, "%s/kernels.so", folder);
    FILE *file = fopen(path, "w");
    if (file == NULL) return dt_error(DT_INTERNAL, "no file for the emulation");
    fprintf(file, "%s\nEMULATION(", text);
    for (int i = 0; i < n_names; i++) fprintf(file, "EMULATED(%s) ", names[i]);
    fputs(")\n", file);
    fclose(file);
    snprintf(command, sizeof command,
             "c++ -x c++ -std=c++17 -O1 -march=x86-64-v3 -ffp-contract=off -Wall -Wno-unused -Wno-bool-operation -Wno-unknown-pragmas %s %s -fPIC "
             "-shared -include "
             "%s/tests/support/cuda_emulation.h %s -o %s",
             EMULATED_FLAGS, flags, root != NULL ? root : ".", path, library);
    bool good = system(command) == 0;
    if (good) code->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (code->library != NULL) code->launch = (emulated_launch)(uintptr_t)dlsym(code->library, "launch");
    dt_status *status = NULL;
    if (code->launch == NULL) status = dt_error(DT_INTERNAL, "%s: %s", command, good ? dlerror() : "failed");
    if (getenv("EMULATED_KEEP") == NULL) {
        unlink(path);
        unlink(library);
        rmdir(folder);
    } else {
        printf("kept: %s\n", path);
    }
    return status;
}

/* Renders what was chosen for plans, compiles and loads it; emulated_free releases it, after an error too. `mistake`, if not NULL, is done to the
 * text first. */
static inline dt_status *emulated_make_chosen(dt_arena *arena, const dt_gpu_choices *choices, emulated_code *code, void (*mistake)(char *text)) {
    dt_text text = {0};
    *code = (emulated_code){0};
    dt_codegen_cuda(arena, choices, &code->program);
    const char **names = DT_NEW_ARRAY(arena, const char *, code->program.n_sources);
    for (int i = 0; i < code->program.n_sources; i++) names[i] = code->program.sources[i].name;
    dt_cuda_print(&text, &code->program, 0, code->program.n_sources);
    if (mistake != NULL) mistake(text.data);
    const char *flags = dt_arena_format(arena, "-DEMULATED_WARP=%d", choices->target->warp);
    dt_status *status = emulated_compile(text.data, names, code->program.n_sources, flags, code);
    dt_text_free(&text);
    return status;
}

/* The same of all plans. `wide`: with indices of 64 bits, where 32 are enough too. */
static inline dt_status *emulated_make_with(const dt_compilation *compilation, emulated_code *code, bool wide, void (*mistake)(char *text)) {
    dt_gpu_choices *choices;
    *code = (emulated_code){0};
    DT_TRY(dt_passes_choose_gpu(compilation, &choices));
    for (int p = 0; p < choices->n_plans; p++)
        for (int k = 0; k < choices->plans[p]->n_kernels; k++)
            for (int f = 0; f < choices->kernels[p][k].n_functions; f++) choices->kernels[p][k].functions[f].wide |= wide;
    return emulated_make_chosen(compilation->arena, choices, code, mistake);
}

static inline dt_status *emulated_make(const dt_compilation *compilation, emulated_code *code) {
    return emulated_make_with(compilation, code, false, NULL);
}

static inline void emulated_free(emulated_code *code) {
    if (code->library != NULL) dlclose(code->library);
}

/* Of a view, with what lies between its elements. */
static inline size_t emulated_bytes(const dt_plan *plan, int b, const dt_launch *launch) {
    const dt_buffer *buffer = &plan->buffers[b];
    if (buffer->view != NULL) return (size_t)dt_buffer_span(plan, b) * dt_dtype_bytes(buffer->dtype);
    int64_t all_rows = plan->microbatch_rows * launch->replicas;
    return (size_t)dt_shape_elements(buffer->shape, plan->microbatch_rows, all_rows) * dt_dtype_bytes(buffer->dtype);
}

static inline void emulated_say(emulated_code *code, const char *name, const char *what) {
    if (code->message[0] == 0) snprintf(code->message, sizeof code->message, "%s: %s", name, what);
}

static inline char *emulated_block(const void *from, size_t bytes) {
    char *block = NULL;
    size_t whole = bytes + 2 * EMULATED_OWN_BORDER;
    if (posix_memalign((void **)&block, 256, whole > 0 ? whole : 1) != 0) abort();
    memset(block, EMULATED_PATTERN, whole);
    memcpy(block + EMULATED_OWN_BORDER, from, bytes);
    return block;
}

/* Copies back what was changed and frees both blocks, of which `before` has the bytes that were given, and looks at the borders. */
static inline void emulated_take(emulated_code *code, const char *name, char *block, char *before, char *to, size_t bytes) {
    for (int i = 0; i < EMULATED_OWN_BORDER; i++)
        if (block[i] != EMULATED_PATTERN || block[EMULATED_OWN_BORDER + bytes + (size_t)i] != EMULATED_PATTERN)
            emulated_say(code, name, "writes outside of a buffer");
    for (size_t i = EMULATED_OWN_BORDER; i < bytes + EMULATED_OWN_BORDER; i++) /* byte by byte: views lie within one another */
        if (block[i] != before[i]) to[i - EMULATED_OWN_BORDER] = block[i];
    free(block);
    free(before);
}

static inline void emulated_call(emulated_code *code, const dt_plan *plan, const dt_cuda_call *call, void *const *buffers, const dt_launch *launch) {
    enum {
        MOST_BLOCKS = 4
    };
    const dt_kernel_function *kernel = &plan->kernels[call->kernel];
    char **blocks = calloc(2 * (size_t)call->n_arguments + 1, sizeof *blocks);
    void **arguments = calloc((size_t)call->n_arguments + 2, sizeof *arguments); /* the last one, the iteration, is 0 */
    if (blocks == NULL || arguments == NULL) abort();
    char **before = blocks + call->n_arguments;
    for (int a = 0; a < call->n_arguments; a++) {
        int b = call->arguments[a];
        blocks[a] = emulated_block(buffers[b], emulated_bytes(plan, kernel->buffers[b], launch));
        before[a] = emulated_block(buffers[b], emulated_bytes(plan, kernel->buffers[b], launch));
        arguments[a] = blocks[a] + EMULATED_OWN_BORDER;
    }
    arguments[call->n_arguments] = (void *)(uintptr_t)launch;
    int64_t wanted = (call->n_items * call->team + call->threads - 1) / call->threads, most = MOST_BLOCKS - code->how;
    int n_blocks = (int)(wanted < 1 ? 1 : wanted < most ? wanted : most);
    const char *wrong = code->launch(call->name, arguments, n_blocks, call->threads, code->how, code->seed);
    if (wrong != NULL) emulated_say(code, call->name, wrong);
    for (int a = 0; a < call->n_arguments; a++) {
        int b = call->arguments[a];
        emulated_take(code, call->name, blocks[a], before[a], buffers[b], emulated_bytes(plan, kernel->buffers[b], launch));
    }
    free(blocks);
    free(arguments);
}

/* A dt_kernel_runner whose context is an emulated_code. */
static inline void emulated_run(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    emulated_code *code = context;
    for (int i = 0; i < code->program.n_calls; i++) {
        const dt_cuda_call *call = &code->program.calls[i];
        if (call->kernel == kernel && strcmp(plan->kernels[kernel].name, code->program.calls[i].kernel_name) == 0)
            emulated_call(code, plan, call, buffers, launch);
    }
}

#endif
