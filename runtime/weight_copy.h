/* weight_copy: elements from one tensor into another: in another order, of another type, scaled. */
#ifndef DT_RUNTIME_WEIGHT_COPY_H
#define DT_RUNTIME_WEIGHT_COPY_H

#include "abi/dtype.h"
#include "base/status.h"

#include <stdbool.h>

/* Whether elements of one type can become those of another: floats floats, whole numbers whole numbers, and each what it is. */
bool dt_weight_can_convert(dt_dtype from, dt_dtype to);

/* A tensor's elements as n axes see them: `data` is the first one, of any alignment; strides are in elements. */
typedef struct dt_weight_view {
    dt_dtype dtype;
    const int64_t *strides; /* [n] */
} dt_weight_view;

/* to[i] = from[i] * scale (1: the same bits, where the types are the same), for all i of sizes[n]. DT_OUT_OF_RANGE where a whole number does not fit
 * its new type; a scale other than 1 is for floats alone. */
dt_status *dt_weight_copy(int n, const int64_t *sizes, const dt_weight_view *from, const void *source, const dt_weight_view *to, void *target,
                          double scale);

/* How many of n elements are infinite or no numbers. */
int64_t dt_weight_count_not_finite(dt_dtype dtype, const void *data, int64_t n);

#endif
