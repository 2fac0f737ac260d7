/* sparkline: how a number went so far, as one row of Unicode's blocks of eight heights. */
#ifndef DT_RUNTIME_COMMANDS_SPARKLINE_H
#define DT_RUNTIME_COMMANDS_SPARKLINE_H

#include "base/text.h"

#include <stdbool.h>

enum {
    DT_SPARKLINE_COLUMNS = 24
};

/* Starts as {0}. A column is the mean of as many values as it takes for all of them to fit. */
typedef struct dt_sparkline {
    double columns[DT_SPARKLINE_COLUMNS];
    int n;               /* columns that are full */
    int64_t n_of_column; /* values in a full one; 0: one */
    double sum;          /* of the column that is not */
    int64_t n_of_sum;
} dt_sparkline;

void dt_sparkline_add(dt_sparkline *line, double value); /* what is not finite is left out */
/* Appends it; nothing where there are fewer than two values. */
void dt_sparkline_append(const dt_sparkline *line, dt_text *text);

#endif
