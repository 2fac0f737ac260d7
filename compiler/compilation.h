/* compilation: what the passes hand on from one to the next.
 *
 * Up to partition a pass rewrites the module's functions in place; fuse turns each function into a plan, and the passes after it work on plans.
 * All of it lives in one arena. */
#ifndef DT_COMPILER_COMPILATION_H
#define DT_COMPILER_COMPILATION_H

#include "compiler/kernel/kernel.h"
#include "compiler/switches.h"

typedef struct dt_compilation {
    dt_arena *arena;
    dt_module *module;
    dt_switches off; /* what the passes are not to do; 0: nothing is left out */
    int n_plans;     /* 0 before fuse, then one plan for each function of the module, in its order */
    dt_plan **plans;
    DT_LIST(dt_location) sites; /* index expressions that kernels check, by the `site` they count a bad index with: "sites" of the manifest */
    dt_text warnings;           /* lines for the user: what a pass did that costs something; owned by whoever made the compilation */
} dt_compilation;

/* Rows of a block in every plan (kernel.h); the capacity where the switch is off. */
static inline int64_t dt_compilation_block_rows(const dt_compilation *compilation) {
    int64_t capacity = compilation->module->capacity;
    return dt_switch_is_on(compilation->off, DT_SWITCH_BLOCKS) ? dt_block_rows(capacity) : capacity;
}

/* One pass. Rewrites `compilation`; on error the compilation is no longer usable. */
typedef dt_status *(*dt_pass_function)(dt_compilation *compilation);

#endif
