/* row_tables: the tables of a session that has rows of them alone (dt_session_options.by_rows), and what it does with them around a step:
 *
 *     before    the rows that the batch names are taken from their table, and are inputs of the step's row form
 *     after     their gradients are added up (row_sums.h), and these rows of the table and its slots are updated
 *
 * The tables themselves are kept beside the session's variables, in the host's memory. */
#ifndef DT_RUNTIME_EXECUTION_ROW_TABLES_H
#define DT_RUNTIME_EXECUTION_ROW_TABLES_H

#include "runtime/execution/session.h"

typedef struct dt_row_tables dt_row_tables;

/* The program that a session with options->by_rows runs. DT_FAILED_PRECONDITION: there is none, it is for a GPU or for several processes, or with
 * exact bits some update changes rows without a gradient. */
dt_status *dt_row_tables_program(const dt_artifact *artifact, const dt_session_options *options, bool is_gpu, const dt_artifact **program);

/* Of a session that was created. It outlives the rows. */
dt_status *dt_row_tables_create(const dt_kernels *kernels, dt_session *session, dt_row_tables **rows);
void dt_row_tables_destroy(dt_row_tables *rows); /* NULL is allowed */

/* Runs the program's initialiser for the tables. */
dt_status *dt_row_tables_initialize(dt_row_tables *rows);
/* The session whose variables the tables and their slots are. */
dt_session *dt_row_tables_session(const dt_row_tables *rows);

/* Before a step: makes `batch` the one that its row form takes. Nothing, where the step has none. */
dt_status *dt_row_tables_begin(dt_row_tables *rows, int step, dt_batch *batch);
/* After it: adds the indices out of range to `bad_index`, and updates the tables. */
dt_status *dt_row_tables_end(dt_row_tables *rows, int step, dt_bad_index *bad_index);

#endif
