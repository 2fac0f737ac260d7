/* gradient: the gradient of one op, from its row. autodiff chains these. */
#ifndef DT_IR_GRADIENT_H
#define DT_IR_GRADIENT_H

#include "ir/graph.h"

/* Adds to `builder` what the gradients of the operands of `value` are made of. g: gradient of the result, of its type. Sets gradients[k], of
 * operand k's type, for each k with wanted[k]; NULL where it is zero: the op does not depend on that operand smoothly, or the operand is not of
 * floats. The ops that are built have rows of their own, so gradients of gradients work. */
dt_status *dt_op_gradient(dt_builder *builder, dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients);

#endif
