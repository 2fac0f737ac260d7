/* weight_axes: see weight_axes.h. */
#include "runtime/weight_axes.h"

#include "base/text.h"

/* "(c h w)", as the side's dimension d is written. */
static void print_dim(const dt_weight_axes *axes, dt_weight_end side, int d, dt_text *text) {
    const dt_weight_order *order = &axes->orders[side];
    int n = order->first[d + 1] - order->first[d];
    if (n == 0) dt_text_append(text, "1");
    if (n > 1) dt_text_append(text, "(");
    for (int i = order->first[d]; i < order->first[d + 1]; i++)
        dt_text_format(text, "%s%s", i > order->first[d] ? " " : "", axes->names[order->axes[i]]);
    if (n > 1) dt_text_append(text, ")");
}

static dt_status *does_not_fit(const dt_weight_axes *axes, dt_weight_end side, int d, int64_t dim, const char *advice) {
    dt_text name = {0};
    print_dim(axes, side, d, &name);
    dt_status *status = dt_error(DT_FAILED_PRECONDITION, "axis %s of `%s` cannot be the %lld of dimension %d%s", name.data != NULL ? name.data : "",
                                 axes->text, (long long)dim, d, advice);
    dt_text_free(&name);
    return status;
}

dt_status *dt_weight_axes_solve(const dt_weight_axes *axes, dt_weight_end side, int n_dims, const int64_t *dims, int64_t *sizes) {
    const dt_weight_order *order = &axes->orders[side];
    if (n_dims != order->n_dims)
        return dt_error(DT_FAILED_PRECONDITION, "`%s` is of %d dimension%s there, the tensor has %d", axes->text, order->n_dims,
                        dt_plural(order->n_dims), n_dims);
    for (int i = 0; i < axes->n; i++) sizes[i] = axes->sizes[i];
    for (int d = 0; d < n_dims; d++) {
        int64_t known = 1;
        int unknown = -1, n_unknown = 0;
        for (int i = order->first[d]; i < order->first[d + 1]; i++) {
            int axis = order->axes[i];
            if (sizes[axis] == 0) {
                unknown = axis;
                n_unknown++;
            } else if (__builtin_mul_overflow(known, sizes[axis], &known))
                return does_not_fit(axes, side, d, dims[d], ": the sizes said are too large");
        }
        if (n_unknown > 1) return does_not_fit(axes, side, d, dims[d], ": say the sizes of all its axes but one, as in `, h=5`");
        if (n_unknown == 1 && dims[d] > 0 && dims[d] % known == 0)
            sizes[unknown] = dims[d] / known;
        else if (n_unknown == 1 || known != dims[d])
            return does_not_fit(axes, side, d, dims[d], "");
    }
    return NULL;
}

void dt_weight_axes_dims(const dt_weight_axes *axes, dt_weight_end side, const int64_t *sizes, int64_t *dims) {
    const dt_weight_order *order = &axes->orders[side];
    for (int d = 0; d < order->n_dims; d++) {
        dims[d] = 1;
        for (int i = order->first[d]; i < order->first[d + 1]; i++) dims[d] *= sizes[order->axes[i]];
    }
}

void dt_weight_axes_strides(const dt_weight_axes *axes, dt_weight_end side, const int64_t *sizes, const int64_t *dim_strides, int64_t *strides) {
    const dt_weight_order *order = &axes->orders[side];
    for (int d = 0; d < order->n_dims; d++) {
        int64_t stride = dim_strides[d];
        for (int i = order->first[d + 1] - 1; i >= order->first[d]; i--) {
            strides[order->axes[i]] = stride;
            stride *= sizes[order->axes[i]];
        }
    }
}
