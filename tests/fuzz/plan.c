/* Any bytes as plans in text form: refused with an error, or read; then what is printed reads back to the same bytes, and C or CUDA can be made of
 * it. */
#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/plan_text.h"
#include "compiler/passes/choose.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *print(dt_arena *arena, const dt_plan_sets *sets) {
    dt_text text = {.arena = arena};
    dt_plan_sets_print(arena, &text, sets);
    return text.data;
}

/* C for the choices that are there, or for those that are made; CUDA for those that are there. */
static void render(dt_arena *arena, const dt_plan_set *set) {
    dt_text text = {.arena = arena};
    const dt_plan *const *plans = (const dt_plan *const *)set->plans;
    dt_cuda_program program;
    if (set->gpu_choices != NULL) dt_codegen_cuda(arena, set->gpu_choices, &program);
    if (set->plans[0]->batched) return;
    const dt_choices *choices = set->choices != NULL ? set->choices : dt_pass_choose(arena, plans, set->n_plans, dt_cpu_target_find(DT_LEVEL_V4));
    dt_status *status = dt_choices_verify(arena, choices);
    if (status != NULL) abort();
    dt_codegen_c(arena, plans, set->n_plans, choices, &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dt_arena *arena = dt_arena_create();
    dt_plan_sets sets, again;
    dt_status *status = dt_plans_parse(arena, "fuzz.plan", dt_arena_substring(arena, (const char *)data, n), &sets);
    if (status == NULL) {
        const char *text = print(arena, &sets);
        status = dt_plans_parse(arena, "again.plan", text, &again);
        if (status != NULL || strcmp(text, print(arena, &again)) != 0) abort();
        for (int s = 0; s < sets.n; s++) render(arena, &sets.items[s]);
    }
    dt_status_free(status);
    dt_arena_destroy(arena);
    return 0;
}
