/* example_function: one compiled function run on the host, outside of any step.
 *
 * Pipelines run their maps and filters with it (one example in, one example out), reports their arithmetic on totals, tables the updates of their
 * rows. An instance owns the memory that its plan asks for; a thread that wants to run the same function beside another makes its own instance. */
#ifndef DT_RUNTIME_EXECUTION_EXAMPLE_FUNCTION_H
#define DT_RUNTIME_EXECUTION_EXAMPLE_FUNCTION_H

#include "abi/launch.h"
#include "runtime/artifact/artifact.h"
#include "runtime/artifact/kernels.h"

typedef struct dt_example_function dt_example_function;

/* `function` is an index in the artifact of `kernels`, of role EXAMPLE, REPORT or ROWS. The kernels must outlive the instance. */
dt_status *dt_example_function_create(const dt_kernels *kernels, int function, dt_example_function **instance);
void dt_example_function_destroy(dt_example_function *instance); /* NULL is allowed */

/* Runs it.
 * inputs   [n_inputs] one example each, dense, element aligned, with DT_SLACK_BYTES readable bytes after it; never written
 * counter  launch.counter: the number of the example in its epoch
 * seed     launch.seed: the run's seed hashed with the epoch
 * Threads  one at a time an instance; instances are independent. */
void dt_example_function_call(dt_example_function *instance, const void *const *inputs, int64_t counter, int64_t seed);

/* The same of a function of role ROWS: inputs of so many rows, 1 to the microbatch_rows of the artifact, which its results have as well. first: the
 * number of the first one, launch.row_offset. */
void dt_example_function_call_rows(dt_example_function *instance, const void *const *inputs, int64_t first, int64_t rows, int64_t seed);

/* Result i of the last call, dense, tensor.row_bytes long, with slack. Valid until the next call; a result that is an input is that input itself. */
const void *dt_example_function_result(const dt_example_function *instance, int i);

/* Indices out of range since creation; count 0 when there was none. */
const dt_bad_index *dt_example_function_bad_index(const dt_example_function *instance);

const dt_artifact_function *dt_example_function_plan(const dt_example_function *instance);

#endif
