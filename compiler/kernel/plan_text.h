/* plan_text: plans from their text, as dt_plan_print writes it: one description does both (kernel/words.h). What is printed reads back to the same
 * text, and code that is made of what was read is that of the plan which was printed. */
#ifndef DT_KERNEL_PLAN_TEXT_H
#define DT_KERNEL_PLAN_TEXT_H

#include "compiler/kernel/choices.h"
#include "compiler/kernel/gpu_choices.h"

/* Neighbouring plans for one target. */
typedef struct dt_plan_set {
    int n_plans;
    dt_plan **plans;
    const dt_choices *choices;   /* for what the plans say they are for; NULL: they have none */
    dt_gpu_choices *gpu_choices; /* the same of plans for GPUs */
} dt_plan_set;

typedef struct dt_plan_sets {
    int n;
    dt_plan_set *items;
} dt_plan_sets;

/* Reads all of `source`, and verifies it: dt_plan_verify, dt_choices_verify, dt_gpu_choices_verify.
 *
 * name     what errors call the text: "gpt.plan:12:4: …"
 * Returns  DT_INVALID_ARGUMENT: it is no plan, or not of good form. Everything that it makes is in `arena`. */
dt_status *dt_plans_parse(dt_arena *arena, const char *name, const char *source, dt_plan_sets *sets);

/* dt_plan_print of all of them, and dt_gpu_choices_print. */
void dt_plan_sets_print(dt_arena *arena, dt_text *text, const dt_plan_sets *sets);

#endif
