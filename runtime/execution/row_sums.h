/* row_sums: the gradient of a table as a sum over microbatches, of the rows alone that have one.
 *
 * What a step with all of the table would do: each microbatch adds up what its examples give a row, in their order, from zero; then the microbatches
 * follow the tree (runtime/devices/reduce.h). Rows that nobody names are zero there, and adding zero is what is done here where one side of a sum
 * lacks a row. So the bits are the same, whoever adds up which nodes of the tree. */
#ifndef DT_RUNTIME_EXECUTION_ROW_SUMS_H
#define DT_RUNTIME_EXECUTION_ROW_SUMS_H

#include "base/status.h"

#include <stdint.h>

typedef struct dt_row_sums dt_row_sums;

/* Rows of a table, ascending, each once, and what is added to them. */
typedef struct dt_rows_part {
    int64_t n;
    int64_t *rows; /* [n] */
    float *values; /* [n, width] */
} dt_rows_part;

dt_status *dt_row_sums_create(int64_t width, dt_row_sums **sums);
void dt_row_sums_destroy(dt_row_sums *sums); /* NULL is allowed */

void dt_row_sums_clear(dt_row_sums *sums);

/* The next microbatch: gradients[i] is added to row indices[i]. One that is not below n_table_rows is nobody's. *part may be changed in place, and is
 * valid until the next call. */
dt_status *dt_row_sums_add(dt_row_sums *sums, const int64_t *indices, const float *gradients, int64_t n, int64_t n_table_rows, dt_rows_part *part);
/* The sum of the next `span` microbatches, a node of the tree. */
dt_status *dt_row_sums_put(dt_row_sums *sums, int64_t span, const dt_rows_part *part);

/* The sum of microbatches [first, first + span), counted from the first that was added: a node of the tree, of which there are all parts. Valid until
 * the next call. */
dt_rows_part dt_row_sums_reduce(dt_row_sums *sums, int64_t first, int64_t span);

#endif
