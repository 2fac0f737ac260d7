/* products: matrix products and convolutions. Images are transposed from [B, H, W, C] to ONNX's [B, C, H, W] and back; two transpositions
 * that meet are left for the runtime to cancel. */
#include "compiler/onnx/model.h"

#include <string.h>

enum {
    MOST_DIRECTIONS = 3
};

/* A factor, rounded as the product's precision has it. */
static dt_status *factor(dt_onnx *onnx, const dt_value *value, int k, const char **name) {
    const char *precision = dt_value_string(value, "precision");
    *name = dt_onnx_whole(onnx, value->operands[k]);
    switch (dt_precision_from_name(precision)) {
    case DT_PRECISION_F32: return NULL;
    case DT_PRECISION_BF16: *name = dt_onnx_round(onnx, *name, DT_BF16); return NULL;
    default:
        return dt_onnx_unimplemented(value,
                                     dt_arena_format(onnx->arena, "its factors are rounded to %s; in the precision f32 they are not", precision));
    }
}

static dt_status *factors(dt_onnx *onnx, const dt_value *value, const char *names[2]) {
    DT_TRY(factor(onnx, value, 0, &names[0]));
    return factor(onnx, value, 1, &names[1]);
}

/* ---- matrix products ---- */

static const char *transpose_last(dt_onnx *onnx, const char *x, int rank) {
    int64_t *permutation = DT_NEW_ARRAY(onnx->arena, int64_t, rank);
    for (int d = 0; d < rank; d++) permutation[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    return dt_onnx_transpose(onnx, x, rank, permutation);
}

dt_status *dt_onnx_matmul(dt_onnx *onnx, const dt_value *value) {
    static const char *const transposed[] = {"transpose_a", "transpose_b"};
    const char *names[2];
    DT_TRY(factors(onnx, value, names));
    for (int k = 0; k < 2; k++)
        if (dt_value_bool(value, transposed[k])) names[k] = transpose_last(onnx, names[k], value->operands[k]->shape.rank);
    dt_onnx_give_rounded(onnx, value, dt_onnx_add_binary(onnx, "MatMul", names[0], names[1]));
    return NULL;
}

/* "abc,acd->abd": a letter for each pair of dimensions, and for each that has no other. */
static const char *equation_of(dt_arena *arena, const dt_value *value) {
    int n_batch, n_contract, ranks[2] = {value->operands[0]->shape.rank, value->operands[1]->shape.rank};
    const int64_t *batch[2] = {dt_value_ints(value, "a_batch", &n_batch), dt_value_ints(value, "b_batch", &n_batch)};
    const int64_t *contract[2] = {dt_value_ints(value, "a_contract", &n_contract), dt_value_ints(value, "b_contract", &n_contract)};
    char *letters[2] = {dt_arena_new(arena, (size_t)ranks[0] + 1), dt_arena_new(arena, (size_t)ranks[1] + 1)}, next = 'a';
    dt_text result = {.arena = arena};
    for (int i = 0; i < n_batch; i++, next++) {
        letters[0][batch[0][i]] = letters[1][batch[1][i]] = next;
        dt_text_append_bytes(&result, &next, 1);
    }
    for (int i = 0; i < n_contract; i++, next++) letters[0][contract[0][i]] = letters[1][contract[1][i]] = next;
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < ranks[k]; d++) {
            if (letters[k][d] != 0) continue;
            letters[k][d] = next++;
            dt_text_append_bytes(&result, &letters[k][d], 1);
        }
    return dt_arena_format(arena, "%s,%s->%s", letters[0], letters[1], result.data != NULL ? result.data : "");
}

dt_status *dt_onnx_dot_general(dt_onnx *onnx, const dt_value *value) {
    const char *names[2];
    DT_TRY(factors(onnx, value, names));
    if (value->operands[0]->shape.rank + value->operands[1]->shape.rank > 26)
        return dt_onnx_unimplemented(value, "it has more dimensions than letters");
    const char *equation = equation_of(onnx->arena, value);
    dt_onnx_give_rounded(
        onnx, value, dt_onnx_add(onnx, "Einsum", DT_ONNX_INPUTS(names[0], names[1]), DT_ONNX_ATTRIBUTES(dt_onnx_string(onnx, "equation", equation))));
    return NULL;
}

/* ---- convolutions ---- */

/* Of a convolution, or of one of its gradients, in ONNX's terms. */
typedef struct geometry {
    int n;            /* directions */
    bool has_groups;  /* a dimension of groups before the channels of both operands */
    int64_t n_groups; /* 1 without */
    const int64_t *strides, *dilation;
    int64_t pads[2 * MOST_DIRECTIONS]; /* the low ones, then the high ones */
} geometry;

static geometry geometry_of(const dt_value *value) {
    geometry geometry = {0};
    int n_padding;
    geometry.strides = dt_value_ints(value, "strides", &geometry.n);
    geometry.dilation = dt_value_ints(value, "dilation", &geometry.n);
    const int64_t *padding = dt_value_ints(value, "padding", &n_padding);
    for (int i = 0; i < geometry.n; i++) geometry.pads[i] = padding[2 * i], geometry.pads[geometry.n + i] = padding[2 * i + 1];
    dt_shape image = value->operands[0]->shape;
    geometry.has_groups = image.rank == geometry.n + 3;
    geometry.n_groups = geometry.has_groups ? image.dims[geometry.n + 1] : 1;
    return geometry;
}

/* x [B, directions, (G), C] as [B, G C, directions]. */
static const char *channels_first(dt_onnx *onnx, const char *x, dt_shape shape, const geometry *geometry) {
    int n = geometry->n, rank = shape.rank, at = 1;
    int64_t permutation[MOST_DIRECTIONS + 3] = {0}, dims[MOST_DIRECTIONS + 2] = {shape.dims[0], geometry->n_groups * shape.dims[rank - 1]};
    for (int d = n + 1; d < rank; d++) permutation[at++] = d;
    for (int d = 1; d <= n; d++) permutation[at++] = d, dims[1 + d] = shape.dims[d];
    x = dt_onnx_transpose(onnx, x, rank, permutation);
    return geometry->has_groups ? dt_onnx_reshape(onnx, x, n + 2, dims) : x;
}

/* [B, G C, directions] as the value's [B, directions, (G), C]. */
static const char *channels_last(dt_onnx *onnx, const char *x, dt_shape shape, int n) {
    int64_t permutation[MOST_DIRECTIONS + 2] = {0};
    for (int d = 1; d <= n; d++) permutation[d] = d + 1;
    permutation[n + 1] = 1;
    x = dt_onnx_transpose(onnx, x, n + 2, permutation);
    return shape.rank == n + 3 ? dt_onnx_reshape(onnx, x, shape.rank, shape.dims) : x;
}

/* kernel [directions, I, (G), O] as [G O, I, directions], which a transposed convolution, of O channels, takes too. */
static const char *kernel_first(dt_onnx *onnx, const char *kernel, dt_shape shape, const geometry *geometry) {
    int n = geometry->n, rank = shape.rank, at = 0;
    int64_t permutation[MOST_DIRECTIONS + 3], dims[MOST_DIRECTIONS + 2] = {geometry->n_groups * shape.dims[rank - 1], shape.dims[n]};
    for (int d = n + 1; d < rank; d++) permutation[at++] = d;
    permutation[at++] = n;
    for (int d = 0; d < n; d++) permutation[at++] = d, dims[2 + d] = shape.dims[d];
    kernel = dt_onnx_transpose(onnx, kernel, rank, permutation);
    return geometry->has_groups ? dt_onnx_reshape(onnx, kernel, n + 2, dims) : kernel;
}

dt_status *dt_onnx_convolution(dt_onnx *onnx, const dt_value *value) {
    const char *names[2];
    DT_TRY(factors(onnx, value, names));
    geometry geometry = geometry_of(value);
    const char *x = channels_first(onnx, names[0], value->operands[0]->shape, &geometry);
    const char *kernel = kernel_first(onnx, names[1], value->operands[1]->shape, &geometry);
    const char *y = dt_onnx_add(
        onnx, "Conv", DT_ONNX_INPUTS(x, kernel),
        DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "strides", geometry.n, geometry.strides), dt_onnx_ints(onnx, "pads", 2 * geometry.n, geometry.pads),
                           dt_onnx_ints(onnx, "dilations", geometry.n, geometry.dilation), dt_onnx_int(onnx, "group", geometry.n_groups)));
    dt_onnx_give_rounded(onnx, value, channels_last(onnx, y, value->shape, geometry.n));
    return NULL;
}

/* g [B, directions, (G), O] and the same kernel; what strides leave over of `size` is output_padding. */
dt_status *dt_onnx_transposed_convolution(dt_onnx *onnx, const dt_value *value) {
    const char *names[2];
    DT_TRY(factors(onnx, value, names));
    geometry geometry = geometry_of(value);
    const int64_t *g = value->operands[0]->shape.dims, *taps = value->operands[1]->shape.dims, *size = value->shape.dims + 1;
    int64_t rest[MOST_DIRECTIONS];
    for (int i = 0; i < geometry.n; i++)
        rest[i] = size[i] + geometry.pads[i] + geometry.pads[geometry.n + i] - geometry.dilation[i] * (taps[i] - 1) - 1 -
                  geometry.strides[i] * (g[1 + i] - 1);
    const char *x = channels_first(onnx, names[0], value->operands[0]->shape, &geometry);
    const char *kernel = kernel_first(onnx, names[1], value->operands[1]->shape, &geometry);
    const char *y = dt_onnx_add(
        onnx, "ConvTranspose", DT_ONNX_INPUTS(x, kernel),
        DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "strides", geometry.n, geometry.strides), dt_onnx_ints(onnx, "pads", 2 * geometry.n, geometry.pads),
                           dt_onnx_ints(onnx, "dilations", geometry.n, geometry.dilation), dt_onnx_ints(onnx, "output_padding", geometry.n, rest),
                           dt_onnx_int(onnx, "group", geometry.n_groups)));
    dt_onnx_give_rounded(onnx, value, channels_last(onnx, y, value->shape, geometry.n));
    return NULL;
}

/* [B, directions, (G), C] as [G C or C, B or G B, directions]: channels are what the convolution takes for rows. */
static const char *channels_as_rows(dt_onnx *onnx, const char *x, dt_shape shape, const geometry *geometry, bool groups_with_rows) {
    int n = geometry->n, rank = shape.rank, at = 0;
    int64_t permutation[MOST_DIRECTIONS + 3], dims[MOST_DIRECTIONS + 2];
    if (geometry->has_groups && !groups_with_rows) permutation[at++] = n + 1;
    permutation[at++] = rank - 1;
    if (geometry->has_groups && groups_with_rows) permutation[at++] = n + 1;
    permutation[at++] = 0;
    for (int d = 1; d <= n; d++) permutation[at++] = d, dims[1 + d] = shape.dims[d];
    x = dt_onnx_transpose(onnx, x, rank, permutation);
    if (!geometry->has_groups) return x;
    dims[0] = shape.dims[rank - 1] * (groups_with_rows ? 1 : geometry->n_groups);
    dims[1] = dt_dim_is_symbol(shape.dims[0]) ? DT_BATCH : shape.dims[0] * (groups_with_rows ? geometry->n_groups : 1); /* B: as many as are left */
    return dt_onnx_reshape(onnx, x, n + 2, dims);
}

/* The convolution of x with g, in which strides and dilation have changed places; it may be longer than the kernel. */
dt_status *dt_onnx_kernel_gradient(dt_onnx *onnx, const dt_value *value) {
    const char *names[2];
    DT_TRY(factors(onnx, value, names));
    geometry geometry = geometry_of(value);
    int n = geometry.n;
    const char *x = channels_as_rows(onnx, names[0], value->operands[0]->shape, &geometry, true);
    const char *g = channels_as_rows(onnx, names[1], value->operands[1]->shape, &geometry, false);
    const char *y =
        dt_onnx_add(onnx, "Conv", DT_ONNX_INPUTS(x, g),
                    DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "strides", n, geometry.dilation), dt_onnx_ints(onnx, "pads", 2 * n, geometry.pads),
                                       dt_onnx_ints(onnx, "dilations", n, geometry.strides), dt_onnx_int(onnx, "group", geometry.n_groups)));
    int64_t zeros[MOST_DIRECTIONS] = {0}, axes[MOST_DIRECTIONS], ones[MOST_DIRECTIONS], permutation[MOST_DIRECTIONS + 2];
    for (int i = 0; i < n; i++) axes[i] = 2 + i, ones[i] = 1, permutation[i] = 2 + i;
    permutation[n] = 0, permutation[n + 1] = 1;
    y = dt_onnx_slice(onnx, y, n, zeros, value->shape.dims, axes, ones); /* [I, (G) O, directions] */
    y = dt_onnx_transpose(onnx, y, n + 2, permutation);
    dt_onnx_give_rounded(onnx, value, geometry.has_groups ? dt_onnx_reshape(onnx, y, value->shape.rank, value->shape.dims) : y);
    return NULL;
}
