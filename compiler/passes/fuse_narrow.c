/* fuse_narrow: what a later kernel needs is kept in its narrowest form.
 *
 * The gradient of a relu asks of the activation only whether it is positive. Asked in a later kernel, the activation of every row would have to
 * stay in memory for that; the answer, a bool made where the activation is, takes a fourth, and the activation itself is then needed for one row
 * only. Whether that is so shows when groups have their kernels: then the answers are marked and the function is fused once more. */
#include "compiler/passes/fuse.h"

static bool is_in_kernel(const dt_fusion *f, const dt_value *user, int kernel) {
    const dt_placement *placement = dt_placement_of(f, user);
    return placement->group >= 0 && f->groups.items[placement->group].collective == NULL && f->groups.items[placement->group].kernel == kernel;
}

/* Whether all that reads `base` runs in `kernel`, but for values that are derived from it in fewer bytes. */
static bool is_read_there_alone(const dt_fusion *f, const dt_value *base, int kernel) {
    const dt_placement *placement = dt_placement_of(f, base);
    if (placement->required) return false;
    for (size_t u = 0; u < placement->users.n; u++) {
        const dt_value *user = placement->users.items[u];
        if (user->dtype != DT_BOOL && !is_in_kernel(f, user, kernel)) return false;
    }
    return true;
}

static bool is_asked_later(const dt_fusion *f, const dt_placement *placement, int kernel) {
    for (size_t u = 0; u < placement->users.n; u++)
        if (!is_in_kernel(f, placement->users.items[u], kernel)) return true;
    return false;
}

/* A bool made element by element of stored values of its own group that nobody needs elsewhere. */
static bool is_worth_keeping(const dt_fusion *f, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(f, value);
    if (placement->base != value || value->dtype != DT_BOOL || placement->stored || placement->group < 0) return false;
    const dt_fusion_group *group = &f->groups.items[placement->group];
    if (group->rows != DT_ROWS_WALKED || !f->kernels.items[group->kernel].in_rows || !is_asked_later(f, placement, group->kernel)) return false;
    bool frees = false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_placement *operand = dt_placement_of(f, dt_placement_of(f, value->operands[k])->base);
        if (operand->group != placement->group || !operand->stored) continue;
        if (!is_read_there_alone(f, operand->base, group->kernel)) return false;
        frees = true;
    }
    return frees;
}

bool dt_fuse_narrow(const dt_fusion *f, bool *keep) {
    bool any = false;
    for (const dt_value *value = f->lowering->function->first; value != NULL; value = value->next)
        if (!keep[value->id] && is_worth_keeping(f, value)) any = keep[value->id] = true;
    return any;
}
