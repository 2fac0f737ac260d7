/* fuse_narrow: what a later kernel needs is kept in its narrowest form.
 *
 * The gradient of a relu asks of the activation only whether it is positive. Asked in a later kernel, the activation of every row would have to
 * stay in memory for that; the answer, a bool made where the activation is, takes a fourth, and the activation itself is then needed for one row
 * only. Whether that is so shows when units have their kernels: then the answers are marked and the function is fused once more. */
#include "compiler/passes/fuse.h"

static bool is_in_kernel(const dt_fusion *f, const dt_value *user, int kernel) {
    const dt_place *place = dt_place_of(f, user);
    return place->unit >= 0 && f->units.items[place->unit].collective == NULL && f->units.items[place->unit].kernel == kernel;
}

/* Whether all that reads `base` runs in `kernel`, but for values that are derived from it in fewer bytes. */
static bool is_read_there_alone(const dt_fusion *f, const dt_value *base, int kernel) {
    const dt_place *place = dt_place_of(f, base);
    if (place->required) return false;
    for (size_t u = 0; u < place->users.n; u++) {
        const dt_value *user = place->users.items[u];
        if (user->dtype != DT_BOOL && !is_in_kernel(f, user, kernel)) return false;
    }
    return true;
}

static bool is_asked_later(const dt_fusion *f, const dt_place *place, int kernel) {
    for (size_t u = 0; u < place->users.n; u++)
        if (!is_in_kernel(f, place->users.items[u], kernel)) return true;
    return false;
}

/* A bool made element by element of stored values of its own unit that nobody needs elsewhere. */
static bool is_worth_keeping(const dt_fusion *f, const dt_value *value) {
    const dt_place *place = dt_place_of(f, value);
    if (place->base != value || value->dtype != DT_BOOL || place->stored || place->unit < 0) return false;
    const dt_unit *unit = &f->units.items[place->unit];
    if (unit->rows != DT_ROWS_WALKED || !f->kernels.items[unit->kernel].in_rows || !is_asked_later(f, place, unit->kernel)) return false;
    bool frees = false;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_place *operand = dt_place_of(f, dt_place_of(f, value->operands[k])->base);
        if (operand->unit != place->unit || !operand->stored) continue;
        if (!is_read_there_alone(f, operand->base, unit->kernel)) return false;
        frees = true;
    }
    return frees;
}

bool dt_fuse_narrow(const dt_fusion *f, bool *keep) {
    bool any = false;
    for (const dt_value *value = f->plan->function->first; value != NULL; value = value->next)
        if (!keep[value->id] && is_worth_keeping(f, value)) any = keep[value->id] = true;
    return any;
}
