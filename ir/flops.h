/* flops: how much arithmetic a function is, counted from the loops of its values. */
#ifndef DT_IR_FLOPS_H
#define DT_IR_FLOPS_H

#include "ir/graph.h"

typedef struct dt_flops {
    double per_row;  /* for each row of the batch */
    double per_pair; /* for each pair of rows */
    double fixed;    /* whatever the batch: the update of the parameters */
} dt_flops;

/* As written: each scalar operation and each fold of a reduction counts one, a product and its sum two, and exp or tanh one. Borders of zeros count;
 * what a stride leaves out in a gradient does not. */
dt_flops dt_flops_of_value(dt_arena *arena, const dt_value *value);
dt_flops dt_flops_of_function(dt_arena *arena, const dt_function *function);

/* "63.95 MFLOP an example, 128 FLOP a pair of examples and 1.28 MFLOP a step" */
void dt_flops_print(dt_text *text, dt_flops flops);

#endif
