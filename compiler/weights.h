/* weights: the tensors of a safetensors file, for what is made of a program with its weights in it. */
#ifndef DT_COMPILER_WEIGHTS_H
#define DT_COMPILER_WEIGHTS_H

#include "abi/dtype.h"
#include "base/status.h"

typedef struct dt_weights dt_weights;

/* Reads a safetensors file, or model.safetensors of a checkpoint. DT_NOT_FOUND; DT_DATA_LOSS: it is none, or damaged. */
dt_status *dt_weights_read(const char *path, dt_weights **weights);
void dt_weights_free(dt_weights *weights); /* NULL is allowed */

/* The elements of a variable of that path, with any alignment, as long as the weights are there. kind: "parameter", for messages.
 * DT_FAILED_PRECONDITION: there is none, or of another type or shape; DT_DATA_LOSS: it has not the bytes of its shape. */
dt_status *dt_weights_find(const dt_weights *weights, const char *path, const char *kind, dt_dtype dtype, int rank, const int64_t *dims,
                           const void **data);

/* All of the file. */
const char *dt_weights_bytes(const dt_weights *weights, size_t *n_bytes);

#endif
