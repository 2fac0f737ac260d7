/* compilation: what the passes hand on from one to the next.
 *
 * Up to partition a pass rewrites the module's functions in place; fuse makes each function into a plan, and the passes after it work on plans.
 * All of it lives in one arena. */
#ifndef DT_KERNEL_COMPILATION_H
#define DT_KERNEL_COMPILATION_H

#include "compiler/kernel/gpu_target.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/switches.h"

/* What a pass did that costs something, for the user. */
typedef struct dt_warning {
    dt_warning_kind kind;
    dt_location location; /* file -1: no place */
    const char *message;  /* a sentence */
} dt_warning;

/* A large table that some step takes rows of, and that has no row forms (compiler/passes/rows.c). */
typedef struct dt_dense_table {
    const char *path;
    const char *why; /* a sentence */
} dt_dense_table;

typedef struct dt_compilation {
    dt_arena *arena;
    dt_module *module;
    dt_switches off;  /* what the passes are not to do; 0: nothing is left out */
    dt_target target; /* what the plans are for */
    bool profile;     /* nests are timed */
    int n_plans;      /* 0 before fuse, then one plan for each function of the module, in its order */
    dt_plan **plans;
    struct dt_lowering **lowerings;  /* [n_plans] what fuse leaves for schedule (compiler/kernel/lower.h) */
    const dt_share *variable_shares; /* [variables of the module] of slots that processes may share out, and of parameters that servers may; NULL
                                        before share_updates */
    int64_t microbatch_rows;         /* of every plan, chosen before fuse (compiler/kernel/microbatches.h) */
    DT_LIST(dt_location)
    locations; /* index expressions that kernels check, by the `location` they count a bad index with: "locations" of the manifest */
    DT_LIST(dt_warning) warnings;
    DT_LIST(dt_dense_table) dense_tables;
} dt_compilation;

/* One pass. Rewrites `compilation`; on error the compilation is no longer usable. */
typedef dt_status *(*dt_pass_function)(dt_compilation *compilation);

#endif
