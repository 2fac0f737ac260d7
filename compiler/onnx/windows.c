/* windows: poolings, and what their gradients are made of. Poolings and the spreading of sums are operators over [B, C, H, W]; a position within a
 * window is a place of the image, rows of pixels one after the other, [B, H W, C], of which elements are gathered and to which they are added. */
#include "compiler/onnx/model.h"

static const int64_t channels_first[] = {0, 3, 1, 2}, channels_last[] = {0, 2, 3, 1};

/* In ONNX's terms. */
typedef struct geometry {
    const int64_t *size, *strides;
    int64_t pads[4]; /* top, left, bottom, right */
} geometry;

static geometry geometry_of(const dt_value *value) {
    int n;
    const int64_t *padding = dt_value_ints(value, "padding", &n);
    return (geometry){dt_value_ints(value, "size", &n), dt_value_ints(value, "strides", &n), {padding[0], padding[2], padding[1], padding[3]}};
}

/* ---- operators ---- */

static const char *pool(dt_onnx *onnx, const dt_value *value, const char *type, Onnx__AttributeProto *setting) {
    geometry geometry = geometry_of(value);
    const char *x = dt_onnx_transpose(onnx, dt_onnx_whole(onnx, value->operands[0]), 4, channels_first);
    x = dt_onnx_add(onnx, type, DT_ONNX_INPUTS(x),
                    DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "kernel_shape", 2, geometry.size), dt_onnx_ints(onnx, "strides", 2, geometry.strides),
                                       dt_onnx_ints(onnx, "pads", 4, geometry.pads), setting));
    return dt_onnx_transpose(onnx, x, 4, channels_last);
}

dt_status *dt_onnx_max_pool(dt_onnx *onnx, const dt_value *value) {
    dt_onnx_give_rounded(onnx, value, pool(onnx, value, "MaxPool", NULL));
    return NULL;
}

/* The mean, of what lies outside as well, times the number of elements. */
dt_status *dt_onnx_sum_pool(dt_onnx *onnx, const dt_value *value) {
    geometry geometry = geometry_of(value);
    const char *mean = pool(onnx, value, "AveragePool", dt_onnx_int(onnx, "count_include_pad", 1));
    const char *n_elements = dt_onnx_number(onnx, dt_onnx_kept(value->dtype), (double)(geometry.size[0] * geometry.size[1]));
    dt_onnx_give_rounded(onnx, value, dt_onnx_add_binary(onnx, "Mul", mean, n_elements));
    return NULL;
}

/* The transposed convolution of each channel with ones. */
dt_status *dt_onnx_spread(dt_onnx *onnx, const dt_value *value) {
    geometry geometry = geometry_of(value);
    const int64_t *image = value->shape.dims, *windows = value->operands[0]->shape.dims, *size = geometry.size;
    int64_t rest[2], n_channels = image[3];
    for (int i = 0; i < 2; i++)
        rest[i] = image[1 + i] + geometry.pads[i] + geometry.pads[2 + i] - size[i] - geometry.strides[i] * (windows[1 + i] - 1);
    const char *one = dt_onnx_number(onnx, dt_onnx_kept(value->dtype), 1);
    const char *ones = dt_onnx_add_binary(onnx, "Expand", one, dt_onnx_list(onnx, 4, (int64_t[]){n_channels, 1, size[0], size[1]}));
    const char *g = dt_onnx_transpose(onnx, dt_onnx_whole(onnx, value->operands[0]), 4, channels_first);
    g = dt_onnx_add(onnx, "ConvTranspose", DT_ONNX_INPUTS(g, ones),
                    DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "strides", 2, geometry.strides), dt_onnx_ints(onnx, "pads", 4, geometry.pads),
                                       dt_onnx_ints(onnx, "output_padding", 2, rest), dt_onnx_int(onnx, "group", n_channels)));
    dt_onnx_give_rounded(onnx, value, dt_onnx_transpose(onnx, g, 4, channels_last));
    return NULL;
}

/* ---- positions within windows ---- */

/* x op number, of i64. */
static const char *with_number(dt_onnx *onnx, const char *type, const char *x, int64_t number) {
    return dt_onnx_add_binary(onnx, type, x, dt_onnx_scalar(onnx, DT_I64, (dt_scalar){.i = number}));
}

/* Where each of the windows begins in direction i, which may be outside: [n, 1, 1] or [n, 1]. */
static const char *starts_of(dt_onnx *onnx, const geometry *geometry, int i, int64_t n) {
    int64_t *starts = DT_NEW_ARRAY(onnx->arena, int64_t, n);
    for (int64_t k = 0; k < n; k++) starts[k] = k * geometry->strides[i] - geometry->pads[i];
    return dt_onnx_reshape(onnx, dt_onnx_list(onnx, n, starts), 3 - i, (int64_t[]){n, 1, 1});
}

/* MaxPool's own positions are of the whole tensor [B, C, H, W]. */
dt_status *dt_onnx_max_pool_index(dt_onnx *onnx, const dt_value *value) {
    geometry geometry = geometry_of(value);
    const int64_t *image = value->operands[0]->shape.dims, *windows = value->shape.dims;
    const char *x = dt_onnx_transpose(onnx, dt_onnx_whole(onnx, value->operands[0]), 4, channels_first);
    const char *greatest = dt_onnx_name(onnx, "MaxPool"), *at = dt_onnx_name(onnx, "Indices");
    dt_onnx_add_named(onnx, "MaxPool", DT_ONNX_INPUTS(x), DT_ONNX_INPUTS(greatest, at),
                      DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "kernel_shape", 2, geometry.size), dt_onnx_ints(onnx, "strides", 2, geometry.strides),
                                         dt_onnx_ints(onnx, "pads", 4, geometry.pads)));
    at = dt_onnx_transpose(onnx, at, 4, channels_last);
    const char *row = with_number(onnx, "Mod", with_number(onnx, "Div", at, image[2]), image[1]), *column = with_number(onnx, "Mod", at, image[2]);
    row = dt_onnx_add_binary(onnx, "Sub", row, starts_of(onnx, &geometry, 0, windows[1]));
    column = dt_onnx_add_binary(onnx, "Sub", column, starts_of(onnx, &geometry, 1, windows[2]));
    const char *position = dt_onnx_add_binary(onnx, "Add", with_number(onnx, "Mul", row, geometry.size[1]), column);
    dt_onnx_give(onnx, value, dt_onnx_convert(onnx, position, DT_I64, value->dtype), NULL);
    return NULL;
}

/* Is x at least 0 and less than a number? */
static const char *is_within(dt_onnx *onnx, const char *x, int64_t limit) {
    const char *is_low = with_number(onnx, "GreaterOrEqual", x, 0), *is_high = with_number(onnx, "Less", x, limit);
    return dt_onnx_add_binary(onnx, "And", is_low, is_high);
}

/* The place in an image [B, H, W, C], counted row by row, that each index names, [B, windows, C]; `other` for an index of no position, or of one
 * outside. */
static const char *places_of(dt_onnx *onnx, const dt_value *value, const dt_value *index, const int64_t *image, int64_t other,
                             const char **is_inside) {
    geometry geometry = geometry_of(value);
    const int64_t *windows = index->shape.dims, dims[] = {windows[0], windows[1] * windows[2], windows[3]};
    const char *position = dt_onnx_convert(onnx, dt_onnx_whole(onnx, index), index->dtype, DT_I64);
    const char *is_position = is_within(onnx, position, geometry.size[0] * geometry.size[1]);
    const char *row = with_number(onnx, "Div", position, geometry.size[1]), *column = with_number(onnx, "Mod", position, geometry.size[1]);
    row = dt_onnx_add_binary(onnx, "Add", row, starts_of(onnx, &geometry, 0, windows[1]));
    column = dt_onnx_add_binary(onnx, "Add", column, starts_of(onnx, &geometry, 1, windows[2]));
    const char *is_row = is_within(onnx, row, image[1]), *is_column = is_within(onnx, column, image[2]);
    *is_inside = dt_onnx_add_binary(onnx, "And", is_position, dt_onnx_add_binary(onnx, "And", is_row, is_column));
    const char *place = dt_onnx_add_binary(onnx, "Add", with_number(onnx, "Mul", row, image[2]), column);
    return dt_onnx_reshape(onnx, dt_onnx_where(onnx, *is_inside, place, dt_onnx_scalar(onnx, DT_I64, (dt_scalar){.i = other})), 3, dims);
}

dt_status *dt_onnx_window_gather(dt_onnx *onnx, const dt_value *value) {
    const dt_value *x = value->operands[0];
    const int64_t *image = x->shape.dims, pixels[] = {image[0], image[1] * image[2], image[3]};
    const char *is_inside, *places = places_of(onnx, value, value->operands[1], image, 0, &is_inside);
    const char *flat = dt_onnx_reshape(onnx, dt_onnx_whole(onnx, x), 3, pixels);
    const char *taken = dt_onnx_add(onnx, "GatherElements", DT_ONNX_INPUTS(flat, places), DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", 1)));
    taken = dt_onnx_reshape(onnx, taken, 4, value->shape.dims);
    dt_onnx_give(onnx, value, dt_onnx_where(onnx, is_inside, taken, dt_onnx_number(onnx, value->dtype, 0)), NULL);
    return NULL;
}

/* What goes nowhere is added to one pixel more, which is cut off. */
dt_status *dt_onnx_window_scatter(dt_onnx *onnx, const dt_value *value) {
    const dt_value *g = value->operands[0];
    const int64_t *image = value->shape.dims, *windows = g->shape.dims, flat[] = {windows[0], windows[1] * windows[2], windows[3]};
    int64_t n = image[1] * image[2], zero = 0, one = 1;
    const int64_t pixels[] = {image[0], n + 1, image[3]};
    const char *is_inside, *places = places_of(onnx, value, value->operands[1], image, n, &is_inside);
    const char *zeros = dt_onnx_add_binary(onnx, "Expand", dt_onnx_number(onnx, value->dtype, 0), dt_onnx_shape(onnx, 3, pixels));
    const char *sums = dt_onnx_add(onnx, "ScatterElements", DT_ONNX_INPUTS(zeros, places, dt_onnx_reshape(onnx, dt_onnx_whole(onnx, g), 3, flat)),
                                   DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", 1), dt_onnx_string(onnx, "reduction", "add")));
    sums = dt_onnx_reshape(onnx, dt_onnx_slice(onnx, sums, 1, &zero, &n, &one, &one), 4, image);
    dt_onnx_give_rounded(onnx, value, sums);
    return NULL;
}
