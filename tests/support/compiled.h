/* compiled: the plans of a compilation as code of each instruction-set level that this machine has, loaded and callable. */
#ifndef DT_TESTS_SUPPORT_COMPILED_H
#define DT_TESTS_SUPPORT_COMPILED_H

#include "base/cpu.h"
#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/compilation.h"
#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "runtime/artifact/object_loader.h"

#include <stdio.h>

typedef struct compiled_code {
    const char *level;
    dt_object *code;
} compiled_code;

enum {
    COMPILED_MOST_LEVELS = 3
};

/* The levels that this machine has, by name. Those that it lacks are printed. */
static inline int compiled_levels(const char *levels[COMPILED_MOST_LEVELS]) {
    static const char *const names[] = {DT_LEVEL_V3, DT_LEVEL_V4};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        if (dt_cpu_level() >= 3 + i)
            levels[n++] = names[i];
        else
            printf("skipped: %s, which this machine does not have\n", names[i]);
    }
    if (n > 0) levels[n++] = DT_LEVEL_NATIVE;
    return n;
}

/* Compiles all plans for `n` levels and loads the code; compiled_free releases it, after an error too. */
static inline dt_status *compiled_make(const dt_compilation *compilation, const char *const *levels, int n, compiled_code *codes) {
    dt_codegen_object objects[COMPILED_MOST_LEVELS];
    for (int i = 0; i < n; i++) {
        const dt_cpu_target *target;
        objects[i] = (dt_codegen_object){.level = levels[i]};
        DT_TRY(dt_codegen_target(levels[i], &target));
        DT_TRY(dt_passes_choose(compilation, target, &objects[i].choices));
        codes[i] = (compiled_code){.level = levels[i]};
    }
    DT_TRY(dt_codegen_llvm((const dt_plan *const *)compilation->plans, compilation->n_plans, &(dt_codegen_options){.check = true}, objects, n));
    dt_status *status = NULL;
    for (int i = 0; i < n; i++) {
        status = dt_status_first(status, dt_object_load(levels[i], objects[i].bytes, objects[i].n_bytes, &codes[i].code));
        dt_release(objects[i].bytes);
    }
    return status;
}

static inline void compiled_free(compiled_code *codes, int n) {
    for (int i = 0; i < n; i++) dt_object_free(codes[i].code);
}

/* A dt_kernel_runner whose context is a compiled_code. */
static inline void compiled_run(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    const compiled_code *compiled = context;
    dt_kernel_entry entry = (dt_kernel_entry)dt_object_find(compiled->code, plan->kernels[kernel].name);
    if (entry != NULL) entry(buffers, launch); /* without it, results keep the pattern of memory that was never written */
}

#endif
