/* choose: what the files of the pass share. Each decides one thing about a nest and reads what those before it have decided; choose.c has their
 * order. */
#ifndef DT_PASSES_CHOOSE_H
#define DT_PASSES_CHOOSE_H

#include "compiler/kernel/choices.h"
#include "compiler/passes/passes.h"

/* A nest at work. */
typedef struct dt_chooser {
    dt_arena *arena;
    const dt_cpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest *nest;
    dt_nest_choices *choices;
} dt_chooser;

/* Which stores go past the caches. */
void dt_choose_streaming(dt_chooser *c);

#endif
