/* shape: the dimensions of a value.
 *
 * A dimension is a constant or one of two symbols. DT_BATCH is B: before partition the rows of the global batch, after it the valid rows of one
 * replica. DT_GATHERED, G, is there from partition on: the valid rows of all replicas, one after another. Both are launch values; memory is planned
 * for the artifact's capacity. Rows that are not valid do not exist: a reduction over B runs over the valid rows, so no mask and no special case for
 * a short last batch is needed anywhere. */
#ifndef DT_IR_SHAPE_H
#define DT_IR_SHAPE_H

#include "abi/dtype.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_BATCH ((int64_t)-1)
#define DT_GATHERED ((int64_t)-2)

typedef struct dt_shape {
    int rank;
    const int64_t *dims; /* [rank], in the arena of the module */
} dt_shape;

static inline bool dt_dim_is_symbol(int64_t dim) { return dim < 0; }

dt_shape dt_shape_make(dt_arena *arena, int rank, const int64_t *dims); /* a copy */
dt_shape dt_shape_scalar(void);
bool dt_shape_equal(dt_shape a, dt_shape b);
int dt_shape_batch_axis(dt_shape shape);         /* the first dimension that is a symbol, or -1 */
int dt_shape_count(dt_shape shape, int64_t dim); /* how many dimensions are `dim`, a constant or a symbol */
/* Where element i, row by row, of shard `shard`'s part is in a tensor of numbers that so many shards split at an axis, which is `groups` tensors side
 * by side, each of which is split; -1: it is padding. */
int64_t dt_shape_element_of_part(dt_shape shape, int axis, int64_t groups, int64_t n_shards, int64_t shard, int64_t i);
int64_t dt_shape_elements(dt_shape shape, int64_t batch, int64_t gathered); /* with values put in for the symbols */
int64_t dt_shape_elements_per_row(dt_shape shape);                          /* product of the constant dimensions */
/* "f32[B, 28, 28]"; a scalar is "f32". */
void dt_shape_print(dt_text *text, dt_dtype dtype, dt_shape shape);

#endif
