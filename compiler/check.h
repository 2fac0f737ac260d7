/* check: does what the compiler derives from a program hold of this program? Its steps run in the interpreter on made-up data, all but after the
 * passes with all floats in f64 and no factors rounded, so that what is right agrees to many digits.
 *
 *   check_gradients.c   each gradient, against the slope of what it is the gradient of
 *   check_replicas.c    the partitioned step on three replicas, against the step as written
 *   check_passes.c      the step after all passes, in its own types, against the step as written
 *   check_batch.c       the step over a batch of which each row is there twice, or in another order
 *   check_inputs.c      the data that they are given */
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
    bool is_stopped;      /* of gradients: the step has a stop_gradient in a loop, which slopes know nothing of */
    bool is_left_out;     /* nothing was run: the step is too large for this check */
    bool is_undefined;    /* of gradients: one, or its slope, is no number at the made-up data; if nothing is wrong, it is `where` */
} dt_finding;

/* Sets module and initial. */
dt_status *dt_check_prepare(dt_arena *arena, const dt_module *module, dt_check *check);

/* Step `step` of the module; `rows` for each replica, of which gradients take those of one. */
dt_status *dt_check_gradients(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);
dt_status *dt_check_replicas(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);
dt_status *dt_check_passes(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);
dt_status *dt_check_batch(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);

/* ---- for check_*.c ---- */

/* A copy with every float an f64, but for random numbers, which are converted where they are drawn, and with products whose factors are not
 * rounded: that has no slopes. */
dt_status *dt_check_copy(dt_arena *arena, const dt_module *module, dt_module **copy);

typedef enum dt_check_data_kind {
    DT_CHECK_PLAIN, /* fractions */
    DT_CHECK_ZEROS, /* of which every fourth is 0 */
    DT_CHECK_LARGE  /* 160 to 224: a product of two fits an f16, the sum of two such products does not */
} dt_check_data_kind;

/* What the inputs of a step hold: floats as the kind says, of whole numbers those that fit what the step does with them. */
typedef struct dt_check_data {
    dt_check_data_kind kind;
    int64_t *n_values; /* [inputs] of whole numbers: 0 to n_values - 1 */
} dt_check_data;
dt_check_data dt_check_data_of(dt_arena *arena, const dt_function *step, dt_check_data_kind kind); /* the step as written */

/* `rows` rows from global row `first` on of input `number`. Element for element the same however the rows are cut. */
dt_tensor dt_check_input(dt_arena *arena, const dt_check_data *data, const dt_value *input, int number, int64_t first, int64_t rows);

/* What a run gives. */
typedef struct dt_check_outcome {
    dt_tensor *results; /* of each replica */
    dt_memory memory;
} dt_check_outcome;

/* The variables as they are at first, in the types of `module`, for one run to write to. */
dt_memory dt_check_memory(dt_arena *arena, const dt_check *check, const dt_module *module);
/* What rounding could have given in place of a float, `by` of it more or less at random: nudge `number`, from 1 on; 0: none. */
void dt_check_nudge(dt_tensor *tensor, int number, double by);
double dt_check_largest_difference(const dt_tensor *a, const dt_tensor *b);
/* `part` against the elements of `whole` from `at` on, into the finding. Apart by no more than `slack`, or by `tolerance` of what is as large as the
 * others, is the same. */
void dt_check_compare(dt_finding *finding, double tolerance, const char *what, const dt_tensor *whole, size_t at, const dt_tensor *part,
                      double slack);

dt_status *dt_check_tell(const dt_check *check, double done);

#endif
