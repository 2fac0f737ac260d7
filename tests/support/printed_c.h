/* printed_c: the plans of a compilation twice, as LLVM's code and as C that `cc` compiles, with the same choices: all that either leaves is to have
 * the same bits. */
#ifndef DT_TESTS_SUPPORT_PRINTED_C_H
#define DT_TESTS_SUPPORT_PRINTED_C_H

#include "tests/support/compiled.h"
#include "tests/support/expect.h"
#include "tests/support/random_graph.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

typedef struct printed_c {
    const char *name; /* of the program, for messages */
    dt_arena *arena;
    const dt_compilation *compilation;
    compiled_code llvm;
    void *library;
    random_source random;
    dt_memory memories[2]; /* of LLVM's code and of C */
    long n_elements;       /* compared */
    double seconds[2];     /* in kernels */
} printed_c;

static inline void printed_c_compile(printed_c *p, const char *level, const char *text, const char *folder) {
    const char *path = dt_arena_format(p->arena, "%s/kernels.c", folder), *library = dt_arena_format(p->arena, "%s/kernels.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const char *command =
        dt_arena_format(p->arena, "cc -O2 -ffp-contract=off -fwrapv -fno-math-errno -fopenmp-simd -Wno-psabi -march=%s -fPIC -shared %s -o %s -lm",
                        level, path, library);
    if (system(command) != 0) fail_msg("%s: %s failed", p->name, command);
    p->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (p->library == NULL) fail_msg("%s: %s", p->name, dlerror());
    unlink(path);
    unlink(library);
    rmdir(folder);
}

/* Compiles and loads both; printed_c_free releases them. */
static inline printed_c printed_c_make(const char *name, const dt_compilation *compilation, const char *level) {
    printed_c p = {.name = name, .arena = compilation->arena, .compilation = compilation, .random = {7}};
    char folder[] = "/tmp/dt-printed-c-XXXXXX";
    const dt_cpu_target *target;
    const dt_choices *choices;
    dt_text text = {.arena = p.arena};
    expect_ok(compiled_make(compilation, &level, 1, &p.llvm));
    expect_ok(dt_codegen_target(level, &target));
    expect_ok(dt_passes_choose(compilation, target, &choices));
    dt_codegen_c(p.arena, (const dt_plan *const *)compilation->plans, compilation->n_plans, choices, &text);
    assert_non_null(mkdtemp(folder));
    printed_c_compile(&p, level, text.data, folder);
    random_memories(p.arena, &p.random, compilation->module, p.memories);
    return p;
}

static inline void printed_c_free(printed_c *p) {
    compiled_free(&p->llvm, 1);
    dlclose(p->library);
}

/* Runners whose context is a printed_c. */
static inline void printed_c_run_llvm(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    printed_c *p = context;
    double start = dt_seconds();
    compiled_run(&p->llvm, plan, kernel, buffers, launch);
    p->seconds[0] += dt_seconds() - start;
}

static inline void printed_c_run(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    printed_c *p = context;
    double start = dt_seconds();
    dt_kernel_entry entry = (dt_kernel_entry)(uintptr_t)dlsym(p->library, plan->kernels[kernel].name);
    if (entry != NULL) entry(buffers, launch); /* without it, results keep the pattern of memory that was never written */
    p->seconds[1] += dt_seconds() - start;
}

static inline void printed_c_compare(printed_c *p, const char *what, const dt_tensor *llvm, const dt_tensor *c) {
    size_t bytes = dt_dtype_bytes(llvm->dtype);
    for (size_t i = 0; i < dt_tensor_elements(llvm); i++, p->n_elements++) {
        if (memcmp((const char *)llvm->data + i * bytes, (const char *)c->data + i * bytes, bytes) == 0) continue;
        double x = dt_tensor_get(llvm, i), y = dt_tensor_get(c, i);
        if (!isnan(x) || !isnan(y)) fail_msg("%s: %s[%zu]: LLVM's code gives %.17g, C %.17g", p->name, what, i, x, y);
    }
}

/* Function f both ways, on the same random inputs, of `rows` rows for each of the replicas, or as many as a microbatch has. */
static inline void printed_c_step(printed_c *p, int f, int64_t counter, int n_replicas, int64_t rows) {
    const dt_module *module = p->compilation->module;
    const dt_function *function = module->functions.items[f];
    if (rows > p->compilation->plans[f]->microbatch_rows) rows = p->compilation->plans[f]->microbatch_rows;
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    dt_launch *launches = DT_NEW_ARRAY(p->arena, dt_launch, n_replicas);
    dt_tensor *inputs = DT_NEW_ARRAY(p->arena, dt_tensor, n_inputs * (size_t)n_replicas), *results[2];
    dt_bad_index *bad[2];
    for (int r = 0; r < n_replicas; r++) {
        launches[r] = (dt_launch){.rows = rows,
                                  .row_offset = r * module->capacity,
                                  .valid = rows * n_replicas,
                                  .global_batch = module->capacity * n_replicas,
                                  .replicas = n_replicas,
                                  .epochs = 1,
                                  .steps_per_epoch = 100,
                                  .counter = counter,
                                  .seed = 42};
        for (size_t i = 0; i < n_inputs; i++)
            inputs[(size_t)r * n_inputs + i] =
                random_tensor(p->arena, &p->random, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows);
    }
    for (int way = 0; way < 2; way++) {
        bad[way] = DT_NEW_ARRAY(p->arena, dt_bad_index, n_replicas);
        results[way] = DT_NEW_ARRAY(p->arena, dt_tensor, n_results * (size_t)n_replicas);
        for (int r = 0; r < n_replicas; r++) launches[r].bad_index = &bad[way][r];
        dt_plan_run run = {p->compilation->plans[f],
                           way == 0 ? printed_c_run_llvm : printed_c_run,
                           p,
                           n_replicas,
                           launches,
                           inputs,
                           &p->memories[way],
                           results[way]};
        expect_ok(dt_plan_execute(p->arena, &run));
    }
    for (size_t i = 0; i < n_results * (size_t)n_replicas; i++)
        printed_c_compare(p, function->results.items[i % n_results].name, &results[0][i], &results[1][i]);
    for (size_t v = 0; v < module->variables.n; v++)
        printed_c_compare(p, module->variables.items[v].path, &p->memories[0].variables[v], &p->memories[1].variables[v]);
    assert_memory_equal(bad[0], bad[1], sizeof **bad * (size_t)n_replicas);
}

#endif
