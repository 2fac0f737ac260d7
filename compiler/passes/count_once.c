/* count_once: an index out of range is counted by the first nest that looks it up, and not again by those that compute the same lookup anew, or its
 * gradient: how many there were does not depend on what is fused with what. Those count only where nothing has been counted before them, so that none
 * is lost where the first nest goes through fewer rows. */
#include "compiler/passes/passes.h"

/* A check, and how often its kernel runs. */
typedef struct counted {
    const dt_instruction *check;
    const dt_plan_loop *loop;
    bool once;
} counted;

typedef DT_LIST(counted) counted_list;

static bool is_counted(const counted_list *list, const counted *it) {
    for (size_t i = 0; i < list->n; i++) {
        const counted *one = &list->items[i];
        bool is_same =
            one->check->index == it->check->index && one->check->integer == it->check->integer && one->check->indices == it->check->indices;
        if (is_same && one->loop == it->loop && one->once == it->once) return true;
    }
    return false;
}

/* Checks of one nest are of its own loops: what stands there twice is two lookups. */
static void visit(dt_arena *arena, const dt_kernel_function *kernel, dt_nest *nest, counted_list *list) {
    size_t n_before = list->n;
    for (int i = 0; i < nest->n_instructions; i++) {
        counted it = {.check = &nest->instructions[i], .loop = kernel->loop, .once = kernel->once};
        counted_list before = {.items = list->items, .n = n_before};
        if (nest->instructions[i].kind != DT_INSTRUCTION_CHECK) continue;
        if (is_counted(&before, &it))
            nest->instructions[i].before = true;
        else
            dt_list_push(arena, list, it);
    }
}

static void visit_kernels(dt_arena *arena, dt_plan *plan, const int *kernels, int n, counted_list *list) {
    for (int k = 0; k < n; k++) {
        const dt_kernel_function *kernel = &plan->kernels[kernels[k]];
        for (int m = 0; m < kernel->n_nests; m++) visit(arena, kernel, &kernel->nests[m], list);
    }
}

dt_status *dt_pass_count_once(dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan *plan = compilation->plans[p];
        counted_list list = {0};
        for (int s = 0; s < plan->n_segments; s++) {
            const dt_segment *segment = &plan->segments[s];
            visit_kernels(compilation->arena, plan, segment->device_kernels, segment->n_device_kernels, &list);
            visit_kernels(compilation->arena, plan, segment->replica_kernels, segment->n_replica_kernels, &list);
        }
    }
    return NULL;
}
