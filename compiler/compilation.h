/* compilation: one run of the compiler, from a module to an artifact; what the passes of pipeline.c work on in turn. */
#ifndef DT_COMPILER_COMPILATION_H
#define DT_COMPILER_COMPILATION_H

#include "compiler/kernel/kernel.h"

typedef struct dt_compilation {
    dt_arena *arena; /* of the module, the plans and all else that lives as long as the compilation */
    dt_module *module;
    int n_plans;     /* from fuse on: one for each function of the module, in its order */
    dt_plan **plans;
    /* Index expressions that kernels check, in the order of the `site` that they count a bad index with: "sites" of the manifest. */
    DT_LIST(dt_location) sites;
    DT_LIST(const char *) warnings; /* sentences for people: what partition had to gather, a parameter that no loss reaches */
} dt_compilation;

#endif
