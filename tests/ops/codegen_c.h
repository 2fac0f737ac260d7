/* codegen_c: programs as C and as LLVM's code, compared bit by bit: initial values, and two steps of each function that trains. */
#ifndef DT_TESTS_OPS_CODEGEN_C_H
#define DT_TESTS_OPS_CODEGEN_C_H

#include "base/file.h"
#include "frontends/dsl/dsl.h"
#include "tests/support/printed_c.h"

static int function_named(const dt_module *module, const char *name) {
    for (size_t f = 0; f < module->functions.n; f++)
        if (strcmp(module->functions.items[f]->name, name) == 0) return (int)f;
    return -1;
}

/* A program of the project's folder, for a batch of `capacity` rows a replica. */
static void run_program(const char *name, int64_t capacity, int n_replicas, const char *level) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    char path[4096], *source;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s/%s.dt", getenv("DT_SOURCE"), name);
    expect_ok(dt_file_read(path, &source, &n_bytes));
    dt_compilation compilation = {.arena = arena};
    expect_ok(dt_dsl_compile(arena, path, source, &(dt_dsl_options){.capacity = capacity}, diagnostics, &compilation.module));
    if (compilation.module == NULL) fail_msg("%s does not compile", name);
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    printed_c p = printed_c_make(name, &compilation, level);
    const dt_module *module = compilation.module;
    int init = function_named(module, "init");
    if (init >= 0) printed_c_step(&p, init, 0, 1, 0);
    for (size_t s = 0; s < module->steps.n; s++)
        for (int k = 0; k < (module->steps.items[s].trains ? 2 : 1); k++)
            printed_c_step(&p, function_named(module, module->steps.items[s].function->name), k, n_replicas, capacity - k);
    print_message("%s, %s: %ld elements compared; LLVM's code took %.3f s, C %.3f s\n", name, level, p.n_elements, p.seconds[0], p.seconds[1]);
    printed_c_free(&p);
    dt_arena_destroy(arena);
    free(source);
}

#endif
