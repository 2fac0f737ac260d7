/* check: does what the compiler derives from a program hold of this program? Its steps run in the interpreter on made-up data, with all floats in
 * f64 and no factors rounded, so that what is right agrees to many digits.
 *
 *   check_gradients.c   each gradient, against the slope of what it is the gradient of
 *   check_replicas.c    the partitioned step on three replicas, against the step as written */
#ifndef DT_COMPILER_CHECK_H
#define DT_COMPILER_CHECK_H

#include "ir/interpret.h"

/* A program under check. */
typedef struct dt_check {
    const dt_module *module;                            /* as the front end makes it */
    dt_memory initial;                                  /* what its initialisers give the variables, floats in f64 */
    dt_status *(*progress)(void *context, double done); /* told how much of a check is done, 0 to 1; an error ends it. NULL: nobody is told */
    void *context;
} dt_check;

typedef struct dt_finding {
    int n;                /* gradients, or results and variables, that were compared */
    double worst;         /* the largest difference, as a share of what is compared */
    const char *where;    /* of what is wrong: a variable's path or a result's name; NULL: nothing is */
    dt_location location; /* of `where`; file -1: none */
    bool wrong;           /* it is more than rounding */
    bool is_stopped;      /* of gradients: the step has a stop_gradient, which slopes know nothing of */
    bool is_undefined;    /* of gradients: one, or its slope, is no number at the made-up data; if nothing is wrong, it is `where` */
} dt_finding;

/* Sets module and initial. */
dt_status *dt_check_prepare(dt_arena *arena, const dt_module *module, dt_check *check);

/* Step `step` of the module; `rows` for each replica, of which gradients take those of one. */
dt_status *dt_check_gradients(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);
dt_status *dt_check_replicas(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);

/* ---- for check_*.c ---- */

/* A copy with every float an f64, but for random numbers, which are converted where they are drawn, and with products whose factors are not
 * rounded: that has no slopes. */
dt_status *dt_check_copy(dt_arena *arena, const dt_module *module, dt_module **copy);

/* `rows` rows from global row `first` on: fractions, 0 and 1 for integers, bytes of any value for images. Element for element the same however the
 * rows are cut. */
dt_tensor dt_check_input(dt_arena *arena, const dt_value *input, int number, int64_t first, int64_t rows);

dt_status *dt_check_tell(const dt_check *check, double done);

#endif
