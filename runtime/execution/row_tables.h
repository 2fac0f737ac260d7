/* row_tables: the tables of a session that takes rows of them (dt_session_options.by_rows), with their slots, in the host's memory. Processes share
 * them out by rows: process p of P has rows [N p / P, N (p + 1) / P) of a table of N, and of its slots the same; where there are parameter servers,
 * these have all of them, and workers none. */
#ifndef DT_RUNTIME_EXECUTION_ROW_TABLES_H
#define DT_RUNTIME_EXECUTION_ROW_TABLES_H

#include "runtime/artifact/kernels.h"
#include "runtime/comm/microbatches.h"
#include "runtime/comm/processes.h"
#include "runtime/execution/row_sums.h"

typedef struct dt_row_tables dt_row_tables;

/* Of a program of row forms, artifact->by_rows. All rows are 0. The kernels and the processes outlive it. */
dt_status *dt_row_tables_create(const dt_kernels *kernels, const dt_artifact *program, dt_processes *processes, dt_row_tables **tables);
void dt_row_tables_destroy(dt_row_tables *tables); /* NULL is allowed */
/* What this process's rows take: of all tables and their slots; of one. */
int64_t dt_row_tables_bytes(const dt_artifact *program, const dt_processes *processes);
int64_t dt_row_tables_variable_bytes(const dt_artifact *program, const dt_processes *processes, int variable);

/* Which rows of a variable, a table or a slot of one, a process has. */
dt_row_range dt_row_tables_rows(const dt_artifact_variable *variable, dt_process_roles roles, int process);
dt_row_range dt_row_tables_of_process(const dt_row_tables *tables, int variable, int process);
/* Those of this process, one after another; NULL: none. */
char *dt_row_tables_memory(const dt_row_tables *tables, int variable);

/* The program's initial values. */
dt_status *dt_row_tables_initialize(dt_row_tables *tables, int64_t seed);

/* Rows of a variable that this process has, one after another. */
void dt_row_tables_take(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, float *values);
void dt_row_tables_put(dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, const float *values);
/* The same in memory of the caller's, which releases *values; which they are somebody else has said: DT_DATA_LOSS. */
dt_status *dt_row_tables_copy(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, char **values, size_t *bytes);

#endif
