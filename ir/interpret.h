/* interpret: evaluates graph functions naively, one op after another, from the loops of each row. It is the oracle for both backends.
 *
 * Scalars are computed in double and rounded to the value's type after each op, so an f64 graph is evaluated in double throughout.
 * A function may be one of before partition (B is the global batch) or after it: then dt_interpret_replicas runs V replicas side by side and
 * combines partial values over the fixed binary tree. */
#ifndef DT_IR_INTERPRET_H
#define DT_IR_INTERPRET_H

#include "abi/launch.h"
#include "ir/graph.h"

/* A dense row-major tensor; symbols of its shape have been replaced by numbers. */
typedef struct dt_tensor {
    dt_dtype dtype;
    dt_shape shape;
    void *data; /* elements of dtype, owned by the arena it was made in or by the caller */
} dt_tensor;

dt_tensor dt_tensor_make(dt_arena *arena, dt_dtype dtype, dt_shape shape); /* zeros */
size_t dt_tensor_elements(const dt_tensor *tensor);
size_t dt_tensor_bytes(const dt_tensor *tensor);
double dt_tensor_get(const dt_tensor *tensor, size_t element); /* i64 beyond 2^53 lose bits */
void dt_tensor_set(dt_tensor *tensor, size_t element, double value);

/* The variables of a module: one tensor for each, in module order. */
typedef struct dt_memory {
    dt_tensor *variables;
} dt_memory;
dt_memory dt_memory_create(dt_arena *arena, const dt_module *module); /* zeros */

/* Runs `function`. inputs: one for each of function->inputs, whose B is launch->rows (before partition also launch->valid). results: one tensor
 * for each result, made in `arena`. Variables are read from and, at the end of the function, written to `memory` (NULL if it touches none).
 * launch->bad_index is counted as kernels do. */
dt_status *dt_interpret(dt_arena *arena, const dt_function *function, const dt_launch *launch, const dt_tensor *inputs, dt_memory *memory,
                        dt_tensor *results);

/* A partitioned function over launches[0 .. n_replicas-1]; inputs[r * n_inputs + i], results likewise. Variables are shared: writes must agree. */
dt_status *dt_interpret_replicas(dt_arena *arena, const dt_function *function, int n_replicas, const dt_launch *launches, const dt_tensor *inputs,
                                 dt_memory *memory, dt_tensor *results);

/* Evaluates one value from the elements of its operands, by its loops. */
dt_status *dt_interpret_value(dt_arena *arena, const dt_value *value, const dt_launch *launch, const dt_tensor *operands, dt_tensor *result);

#endif
