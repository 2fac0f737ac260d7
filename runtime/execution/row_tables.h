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
void dt_row_tables_destroy(dt_row_tables *tables);                                      /* NULL is allowed */
int64_t dt_row_tables_bytes(const dt_artifact *program, const dt_processes *processes); /* that this process's rows take */

/* Which rows of a variable, a table or a slot of one, a process has. */
dt_row_range dt_row_tables_of_process(const dt_row_tables *tables, int variable, int process);

/* The program's initial values. */
dt_status *dt_row_tables_initialize(dt_row_tables *tables, int64_t seed);

/* This process's rows of a variable, from or to `data`, which has room for all of it; the rest is left alone. */
void dt_row_tables_get(const dt_row_tables *tables, int variable, void *data);
void dt_row_tables_set(dt_row_tables *tables, int variable, const void *data);
/* All rows, in process 0: all processes call it; `data` of the others is not looked at. */
dt_status *dt_row_tables_collect(const dt_row_tables *tables, int variable, void *data);
/* The memory of a variable that this process has all of; else NULL. */
const void *dt_row_tables_memory(const dt_row_tables *tables, int variable);

/* Rows of a variable that this process has, one after another. */
void dt_row_tables_take(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, float *values);
void dt_row_tables_put(dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, const float *values);

#endif
