/* row_steps: what a session that takes rows of tables (dt_session_options.by_rows) does around a step:
 *
 *     before    the rows that the batch names are fetched from the processes that have them (row_tables.h), and are inputs of
 *               the step's row form
 *     after     their gradients are added up (row_sums.h): each process adds up those of its own microbatches, the one that
 *               has a row those of all; then it updates the row and its slots
 *
 * Each process asks the others for the rows that its microbatches name, each once, and sends their gradients back: a node of the tree over
 * microbatches at a time, so that sums have the bits of one process.
 *
 * A worker of asynchronous parameter servers fetches rows by dt_session_options.rows_from, and servers have no part in that. It pushes its
 * microbatches' gradients as they are; servers apply them with their own numbers. */
#ifndef DT_RUNTIME_EXECUTION_ROW_STEPS_H
#define DT_RUNTIME_EXECUTION_ROW_STEPS_H

#include "runtime/execution/row_tables.h"
#include "runtime/execution/session.h"

typedef struct dt_row_steps dt_row_steps;

/* The program that a session with options->by_rows runs. DT_FAILED_PRECONDITION: there is none, it is for a GPU, or with exact bits some update
 * changes rows without a gradient. */
dt_status *dt_row_steps_program(const dt_artifact *artifact, const dt_session_options *options, bool is_gpu, const dt_artifact **program);

/* Of a session that was created. All processes create theirs. It outlives the steps. */
dt_status *dt_row_steps_create(const dt_kernels *kernels, dt_session *session, dt_row_steps **steps);
void dt_row_steps_destroy(dt_row_steps *steps); /* NULL is allowed */
dt_row_tables *dt_row_steps_tables(const dt_row_steps *steps);

/* Before a step: makes `batch` the one that its row form takes. Nothing, where the step has none. */
dt_status *dt_row_steps_begin(dt_row_steps *steps, int step, dt_batch *batch);
/* Indices out of range that were found before the last step: in this process's rows, and of what process 0 says for all, in its own. */
const dt_bad_index *dt_row_steps_bad_index(const dt_row_steps *steps);
/* In its midst, once the gradients are there: what a worker of asynchronous servers gives them, who wait for nothing that comes later. */
dt_status *dt_row_steps_push(dt_row_steps *steps, int step);
/* After it: updates the tables. */
dt_status *dt_row_steps_end(dt_row_steps *steps, int step);

#endif
