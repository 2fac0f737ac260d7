/* weight_axes: how the axes of one tensor lie in two files, written as in einops (Rogozhnikov, ICLR 2022): `o (c h w) -> (h w c) o, h=5`.
 *
 * Each axis has a name and stands on both sides once; a dimension is an axis, a group of them in parentheses, the last one densest, or 1. So
 * transposition, reshaping and both together are one notation, and each can be undone. */
#ifndef DT_RUNTIME_WEIGHT_AXES_H
#define DT_RUNTIME_WEIGHT_AXES_H

#include "base/status.h"

#include <stdint.h>

/* The two sides of whatever is said of weights: the file made elsewhere, and this program. */
typedef enum dt_weight_end {
    DT_THEIRS,
    DT_OURS,
    DT_N_WEIGHT_ENDS
} dt_weight_end;

/* Dimension d is made of axes[first[d]] to axes[first[d + 1] - 1]. */
typedef struct dt_weight_order {
    int n_dims;
    const int *first; /* [n_dims + 1] */
    const int *axes;  /* [first[n_dims]] */
} dt_weight_order;

typedef struct dt_weight_axes {
    const char *text; /* as written */
    int n;
    const char *const *names; /* [n] */
    const int64_t *sizes;     /* [n]; 0: not said */
    dt_weight_order orders[DT_N_WEIGHT_ENDS];
} dt_weight_axes;

/* Finds the sizes of all axes, sizes[axes->n], from the dimensions of one side. DT_FAILED_PRECONDITION says what does not fit. */
dt_status *dt_weight_axes_solve(const dt_weight_axes *axes, dt_weight_end side, int n_dims, const int64_t *dims, int64_t *sizes);

/* The dimensions that a side has where the axes have these sizes. dims: [axes->orders[side].n_dims]. */
void dt_weight_axes_dims(const dt_weight_axes *axes, dt_weight_end side, const int64_t *sizes, int64_t *dims);

/* The step from one element of an axis to the next, of each axis, in a tensor whose dimensions have the steps `dim_strides`. strides: [axes->n]. */
void dt_weight_axes_strides(const dt_weight_axes *axes, dt_weight_end side, const int64_t *sizes, const int64_t *dim_strides, int64_t *strides);

#endif
