/* choose_gpu: what of each kernel depends on the GPU. It runs after all passes over plans, and leaves these as they are; plan_memory asks before that
 * which nests a launch will hold. */
#include "compiler/passes/choose_gpu.h"

static void choose_nest(dt_arena *arena, const dt_gpu_scope *scope, dt_gpu_function *function, int n) {
    const dt_nest *nest = &scope->kernel->nests[function->first + n];
    uint64_t *depends = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
    bool *needed = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    dt_gpu_chooser c = {.arena = arena, .scope = scope, .nest = nest, .function = function, .how = &function->nests[n], .needed = needed};
    dt_nest_depends(nest, depends);
    dt_nest_mark_needed(nest, needed);
    c.depends = depends;
    c.levels = DT_NEW_ARRAY(arena, int, nest->n_instructions);
    c.late = DT_NEW_ARRAY(arena, bool, nest->n_instructions);
    dt_gpu_choose_loops(&c);
    c.n_levels = dt_gpu_nest_levels(arena, nest, c.how, depends, c.levels, c.late);
    dt_gpu_choose_unrolling(&c);
    c.how->vectors = (dt_gpu_vectors){.width = 1, .along = -1};
    if (function->form == DT_GPU_ELEMENTS) dt_gpu_choose_vectors(&c);
    if (function->form == DT_GPU_TILES) dt_gpu_choose_tiles(&c);
}

/* The call of a library that stands for this function, and perhaps for those after it; NULL: there is none, or an earlier function has it. It notes
 * how many of the functions right before do what the library can do beside its product. */
static const dt_library_call *library_of(dt_arena *arena, const dt_kernel_function *kernel, const dt_gpu_function *functions, int i) {
    int first, last;
    dt_library_nests(kernel, functions[i].first, &first, &last);
    const dt_library_call *call = first == functions[i].first ? kernel->nests[first].library : NULL;
    if (call == NULL || call->class != DT_LIBRARY_PRODUCT || call->product.bias_gradient.argument < 0) return call;
    dt_library_call *noted = DT_NEW(arena, dt_library_call);
    *noted = *call;
    noted->product.bias_gradient.n_launches = 0;
    while (i-- > 0 && kernel->nests[functions[i].first].beside_library) noted->product.bias_gradient.n_launches++;
    return noted;
}

static dt_gpu_kernel choose_kernel(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel) {
    dt_gpu_kernel result = {.divided = dt_gpu_divide_stores(arena, plan, kernel, NULL)};
    const dt_gpu_scope scope = {target, plan, &result.divided};
    DT_LIST(dt_gpu_function) functions = {0};
    for (int n = 0; n < result.divided.n_nests; n += functions.items[functions.n - 1].n_nests) {
        dt_gpu_function f = dt_gpu_choose_form(&scope, n);
        f.nests = DT_NEW_ARRAY(arena, dt_gpu_nest, f.n_nests);
        for (int k = 0; k < f.n_nests; k++) choose_nest(arena, &scope, &f, k);
        dt_gpu_complete(arena, &scope, &f);
        f.wide = dt_gpu_needs_wide(plan, scope.kernel, &f);
        dt_list_push(arena, &functions, f);
    }
    for (int i = 0; i < (int)functions.n; i++) functions.items[i].library = library_of(arena, scope.kernel, functions.items, i);
    result.functions = functions.items;
    result.n_functions = (int)functions.n;
    return result;
}

dt_nest_range *dt_gpu_find_launches(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel) {
    dt_nest_range *ranges = DT_NEW_ARRAY(arena, dt_nest_range, kernel->n_nests);
    int *origins;
    const dt_kernel_function divided = dt_gpu_divide_stores(arena, plan, kernel, &origins);
    const dt_gpu_scope scope = {target, plan, &divided};
    for (int n = 0; n < kernel->n_nests; n++) ranges[n] = (dt_nest_range){n, n};
    for (int n = 0, end; n < divided.n_nests; n = end) {
        end = n + dt_gpu_choose_form(&scope, n).n_nests;
        for (int k = n; k < end; k++) {
            dt_nest_range *range = &ranges[origins[k]];
            if (origins[n] < range->first) range->first = origins[n];
            if (origins[end - 1] > range->last) range->last = origins[end - 1];
        }
    }
    return ranges;
}

dt_gpu_choices *dt_pass_choose_gpu(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_gpu_target *target) {
    dt_gpu_choices *choices = DT_NEW(arena, dt_gpu_choices);
    *choices = (dt_gpu_choices){target, n_plans, plans, DT_NEW_ARRAY(arena, dt_gpu_kernel *, n_plans)};
    for (int p = 0; p < n_plans; p++) {
        choices->kernels[p] = DT_NEW_ARRAY(arena, dt_gpu_kernel, plans[p]->n_kernels);
        for (int k = 0; k < plans[p]->n_kernels; k++) choices->kernels[p][k] = choose_kernel(arena, target, plans[p], &plans[p]->kernels[k]);
    }
    return choices;
}
