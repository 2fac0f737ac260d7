/* gpu_stores: nests that store several things are divided, a nest for each group of stores that belong together. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_choices.h"
#include "compiler/kernel/parallel.h"

/* Whether store s, which needs what `marks` says, reads what store `other` stores, or both need what is computed for each element. */
static bool belong_together(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const uint64_t *depends, const bool *marks,
                            const bool *other_marks, int other) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (!marks[i]) continue;
        if (other_marks[i] && depends[i] != 0 && x->kind != DT_INSTRUCTION_LOOP) return true;
        if (x->kind == DT_INSTRUCTION_LOAD && dt_arguments_are_one(plan, kernel, x->address.buffer, nest->stores[other].address.buffer)) return true;
    }
    return false;
}

/* groups[n_stores]: of each store the first one that it belongs together with. */
static void group_stores(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int *groups) {
    int n = nest->n_stores;
    uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
    bool **marks = DT_NEW_ARRAY(arena, bool *, n);
    dt_nest_depends(nest, depends);
    for (int s = 0; s < n; s++) {
        marks[s] = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
        dt_nest_mark_store(nest, marks[s], &nest->stores[s]);
        groups[s] = s;
    }
    for (int s = 0; s < n; s++)
        for (int o = 0; o < n; o++) {
            if (groups[s] == groups[o] || !belong_together(plan, kernel, nest, depends, marks[s], marks[o], o)) continue;
            int least = groups[s] < groups[o] ? groups[s] : groups[o], greatest = groups[s] + groups[o] - least;
            for (int k = 0; k < n; k++)
                if (groups[k] == greatest) groups[k] = least;
        }
}

/* The nest with the stores of group g alone; what only others needed is a constant now, so that it touches no memory. */
static dt_nest one_group(dt_arena *arena, const dt_nest *nest, const int *groups, int g) {
    dt_nest part = *nest;
    bool *marks = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    part.stores = DT_NEW_ARRAY(arena, dt_store, nest->n_stores);
    part.instructions = DT_NEW_ARRAY(arena, dt_instruction, nest->n_instructions);
    part.n_stores = 0;
    for (int s = 0; s < nest->n_stores; s++) {
        if (groups[s] != g) continue;
        dt_nest_mark_store(nest, marks, &nest->stores[s]);
        part.stores[part.n_stores++] = nest->stores[s];
    }
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction nothing = {.kind = DT_INSTRUCTION_CONSTANT, .dtype = nest->instructions[i].dtype, .guard = -1, .otherwise = -1};
        part.instructions[i] = marks[i] ? nest->instructions[i] : nothing;
    }
    return part;
}

dt_kernel_function dt_gpu_divide_stores(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, int **origins) {
    dt_kernel_function result = *kernel;
    DT_LIST(dt_nest) nests = {0};
    DT_LIST(int) of = {0};
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        bool whole = nest->n_reductions > 0 || nest->n_stores < 2 || !dt_nest_is_constant(nest) || dt_nest_has_check(nest); /* counted once */
        int *groups = DT_NEW_ARRAY(arena, int, nest->n_stores);
        if (!whole) group_stores(arena, plan, kernel, nest, groups);
        for (int g = 0; g < nest->n_stores && !whole; g++)
            if (groups[g] == g) dt_list_push(arena, &nests, one_group(arena, nest, groups, g));
        if (whole) dt_list_push(arena, &nests, *nest);
        while (of.n < nests.n) dt_list_push(arena, &of, n);
    }
    if (origins != NULL) *origins = of.items;
    result.nests = nests.items;
    result.n_nests = (int)nests.n;
    return result;
}
