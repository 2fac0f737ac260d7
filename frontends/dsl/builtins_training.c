/* builtins_training: the words of training, as functions. */
#include "frontends/dsl/elaborator.h"

static dt_object builtin_objective(dt_elaborator *e, const dt_object *a) {
    if (e->step == NULL || e->reporting) return dt_elaborator_fail(e, "objective stands in a step");
    return dt_objective(e, a[0], a[1], a[2].text, a[3]);
}

static dt_object builtin_grad(dt_elaborator *e, const dt_object *a) {
    if (e->step == NULL || e->reporting) return dt_elaborator_fail(e, "grad stands in a step");
    return dt_gradients(e, a[0], a[1]);
}

static dt_object builtin_minimize(dt_elaborator *e, const dt_object *a) { return dt_minimize(e, a[0], a[1], a[2], a[3], a[4].text); }

static dt_object builtin_apply(dt_elaborator *e, const dt_object *a) { return dt_apply(e, a[0], a[1], a[2]); }

static dt_object builtin_params(dt_elaborator *e, const dt_object *a) {
    if (e->step == NULL || e->reporting) return dt_elaborator_fail(e, "params stands in a step");
    return dt_params(e, a[0], a[1].b);
}

static dt_object builtin_regularize(dt_elaborator *e, const dt_object *a) {
    dt_regularize(e, a[0]);
    return dt_object_none();
}

static dt_object builtin_tree_map(dt_elaborator *e, const dt_object *a) { return dt_tree_map(e, a[0], a + 1, a[2].kind == DT_OBJECT_NONE ? 1 : 2); }

/* Never called: a call of freeze is taken as written, see dt_freeze. */
static dt_object builtin_freeze(dt_elaborator *e, const dt_object *a) {
    (void)a;
    return dt_elaborator_fail(e, "freeze is called by its name");
}

#define NORMALIZE "normalize: batch | examples | weights = batch"

const dt_builtin dt_builtins_training[] = {
    {"objective", "(loss, weight = none, " NORMALIZE ", over = none)", builtin_objective, false},
    {"grad", "(scalar, over)", builtin_grad, false},
    {"minimize", "(loss, optimizer: optimizer, over = none, weight = none, " NORMALIZE ")", builtin_minimize, false},
    {"apply", "(optimizer: optimizer, gradients: tree, when = none)", builtin_apply, false},
    {"params", "(model, only: bool = false)", builtin_params, false},
    {"regularize", "(term)", builtin_regularize, false},
    {"tree_map", "(function: function, tree: tree, other = none)", builtin_tree_map, false},
    {"freeze", "(part)", builtin_freeze, false},
    {NULL, NULL, NULL, false},
};
