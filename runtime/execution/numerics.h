/* numerics: --check-numerics, which finds what made the first NaN or infinity of a step.
 *
 * After each operation of an executor the floats that it can have written are looked at. What comes first in the program counts: inputs, then
 * variables as they were before, then segment by segment each kernel, and what crosses after them; of one kernel the first microbatch, there the
 * first element. The step goes on to its end, so that a kernel of a later microbatch is found before a later kernel of the first. One executor a
 * process does it, in order, so that nobody writes what is looked at: who asks for the check has sessions of one core. */
#ifndef DT_RUNTIME_EXECUTION_NUMERICS_H
#define DT_RUNTIME_EXECUTION_NUMERICS_H

#include "runtime/execution/executor.h"

typedef enum dt_numerics_place {
    DT_NUMERICS_FINITE, /* nothing was found */
    DT_NUMERICS_INPUT,
    DT_NUMERICS_VARIABLE, /* it held that before the step */
    DT_NUMERICS_KERNEL,
    DT_NUMERICS_SUM,       /* over microbatches and replicas */
    DT_NUMERICS_SHARDS_SUM /* over shards */
} dt_numerics_place;

typedef struct dt_numerics {
    int64_t place;
    int64_t segment, position, microbatch; /* what comes first is less; position: of the kernel in its segment; microbatch: of all */
    int64_t shard;                         /* that the kernel ran for, or -1 */
    int64_t iteration;                     /* of the innermost loop that the kernel is in, or -1 */
    int64_t index;                         /* of the input, the variable or the kernel */
    int64_t variable;                      /* that the kernel wrote it to, or -1 */
    int64_t row, n_rows;                   /* of the global batch: the row, or the rows that went into it; n_rows 0: all, or none */
    int64_t element;                       /* of the row, or of all */
    double value;
    char label[48]; /* of a sum: what crosses */
} dt_numerics;

/* In executor->numerics: forgets what was, and looks at the inputs and variables of a run. */
void dt_numerics_begin(dt_executor *executor, const dt_run_values *values);

/* Runs the operations one by one, and looks at what each has written. `label`: of what crosses there. */
dt_status *dt_numerics_run(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context);

/* Of two the one that is first in the program. */
const dt_numerics *dt_numerics_first(const dt_numerics *one, const dt_numerics *other);

/* "train step 3, row 5: kernel train_2_log makes a NaN …"; NULL where all is finite. DT_OUT_OF_RANGE. */
dt_status *dt_numerics_status(const dt_numerics *found, const dt_artifact *artifact, const dt_run_values *values);

#endif
