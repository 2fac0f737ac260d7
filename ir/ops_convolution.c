/* ops_convolution: conv2d and its two gradients, closed under differentiation: each one's gradients are the other two. conv3d is the same in three
 * directions: how many an op has, the default of its strides says.
 *
 * All three walk the same relation between an index of x, a tap of the kernel and an index of the result:
 *
 *     index of x = index of result * stride + tap * dilation - padding
 *
 * solved for what is read: conv2d reads x; the input gradient reads the result's index, whence its divisor; the kernel gradient reads x. A group
 * dimension G stands before the channels of each operand, or is absent. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

enum {
    MOST_DIRECTIONS = 3
};

typedef struct geometry {
    int n;                                                                                     /* directions: depth, height, width */
    int64_t strides[MOST_DIRECTIONS], dilation[MOST_DIRECTIONS], padding[2 * MOST_DIRECTIONS]; /* padding: low and high of each */
} geometry;

static int n_directions(const dt_op *op) { return (int)op->attributes[dt_op_attribute_index(op, "strides")].standard.i; }

static dt_status *read_geometry(const dt_op *op, const dt_attribute *attributes, geometry *geometry) {
    int n = geometry->n = n_directions(op);
    DT_TRY(dt_check_ints(op, attributes, "strides", n, 1));
    DT_TRY(dt_check_ints(op, attributes, "dilation", n, 1));
    DT_TRY(dt_check_ints(op, attributes, "padding", 2 * n, 0));
    memcpy(geometry->strides, dt_op_attribute(op, attributes, "strides")->ints, (size_t)n * sizeof *geometry->strides);
    memcpy(geometry->dilation, dt_op_attribute(op, attributes, "dilation")->ints, (size_t)n * sizeof *geometry->dilation);
    memcpy(geometry->padding, dt_op_attribute(op, attributes, "padding")->ints, 2 * (size_t)n * sizeof *geometry->padding);
    return NULL;
}

static geometry geometry_of(const dt_value *value) {
    geometry geometry = {0};
    dt_status_free(read_geometry(value->op, value->attributes, &geometry)); /* checked when the value was made */
    return geometry;
}

/* Places of the result along direction i; 0 when the kernel is larger than the image. */
static int64_t n_windows(const geometry *geometry, int i, int64_t image, int64_t taps) {
    int64_t room = image + geometry->padding[2 * i] + geometry->padding[2 * i + 1] - geometry->dilation[i] * (taps - 1) - 1;
    return room < 0 ? 0 : room / geometry->strides[i] + 1;
}

/* An operand has a rank of the directions and two more, or three with groups, the same for both, and constant dimensions but the first. */
static dt_status *check_ranks(dt_arena *arena, const dt_op *op, dt_value *const *operands) {
    static const char *const layouts[][2] = {{"[B, H, W, channels]", "[KH, KW, I, O]"}, {"[B, D, H, W, channels]", "[KD, KH, KW, I, O]"}};
    int n = n_directions(op);
    for (int k = 0; k < 2; k++) {
        dt_shape shape = operands[k]->shape;
        bool is_kernel = k == 1 && op->operands[k].name[0] == 'k', fits = shape.rank == n + 2 || shape.rank == n + 3;
        for (int d = is_kernel ? 0 : 1; fits && d < shape.rank; d++) fits = !dt_dim_is_symbol(shape.dims[d]);
        if (!fits)
            return dt_error(DT_INVALID_ARGUMENT, "%s expects %s: %s, got %s", op->name, op->operands[k].name, layouts[n - 2][is_kernel],
                            dt_type_text(arena, operands[k]));
    }
    if (operands[0]->shape.rank == operands[1]->shape.rank) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s expects %s and %s both with or both without groups, got %s and %s", op->name, op->operands[0].name,
                    op->operands[1].name, dt_type_text(arena, operands[0]), dt_type_text(arena, operands[1]));
}

static dt_status *misfit(dt_arena *arena, const dt_op *op, dt_value *const *operands, const char *what) {
    return dt_error(DT_INVALID_ARGUMENT, "%s: %s of %s: %s and %s: %s do not fit", op->name, what, op->operands[0].name,
                    dt_type_text(arena, operands[0]), op->operands[1].name, dt_type_text(arena, operands[1]));
}

dt_status *dt_infer_convolution(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    int rank = operands[0]->shape.rank, n = geometry.n;
    const int64_t *x = operands[0]->shape.dims, *kernel = operands[1]->shape.dims;
    if (x[rank - 1] != kernel[n] || (rank == n + 3 && x[n + 1] != kernel[n + 1])) return misfit(arena, op, operands, "the channels");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    dims[0] = x[0];
    for (int i = 0; i < n; i++) {
        dims[1 + i] = n_windows(&geometry, i, x[1 + i], kernel[i]);
        if (dims[1 + i] == 0) return misfit(arena, op, operands, "the sizes");
    }
    for (int d = n + 1; d < rank; d++) dims[d] = kernel[d];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

/* The input gradient's `size` must be one whose convolution has g's sizes. */
dt_status *dt_infer_convolution_input_gradient(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands,
                                               const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    DT_TRY(dt_check_ints(op, attributes, "size", geometry.n, 1));
    int rank = operands[0]->shape.rank, n = geometry.n;
    const int64_t *g = operands[0]->shape.dims, *kernel = operands[1]->shape.dims, *size = dt_op_attribute(op, attributes, "size")->ints;
    if (g[rank - 1] != kernel[rank - 1] || (rank == n + 3 && g[n + 1] != kernel[n + 1])) return misfit(arena, op, operands, "the channels");
    for (int i = 0; i < n; i++)
        if (n_windows(&geometry, i, size[i], kernel[i]) != g[1 + i]) return misfit(arena, op, operands, "size and the sizes");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    dims[0] = g[0];
    for (int i = 0; i < n; i++) dims[1 + i] = size[i];
    dims[n + 1] = g[n + 1]; /* the group, if there is one */
    dims[rank - 1] = kernel[n];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

dt_status *dt_infer_convolution_kernel_gradient(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands,
                                                const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    DT_TRY(dt_check_ints(op, attributes, "size", geometry.n, 1));
    int rank = operands[0]->shape.rank, n = geometry.n;
    const int64_t *x = operands[0]->shape.dims, *g = operands[1]->shape.dims, *size = dt_op_attribute(op, attributes, "size")->ints;
    if (x[0] != g[0] || (rank == n + 3 && x[n + 1] != g[n + 1])) return misfit(arena, op, operands, "the rows or groups");
    for (int i = 0; i < n; i++)
        if (n_windows(&geometry, i, x[1 + i], size[i]) != g[1 + i]) return misfit(arena, op, operands, "size and the sizes");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    for (int i = 0; i < n; i++) dims[i] = size[i];
    dims[n] = x[rank - 1];
    for (int d = n + 1; d < rank; d++) dims[d] = g[d];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

/* x's index along direction i, from the loops over indices of the result and over taps. */
static void set_index_of_x(dt_index *index, const geometry *geometry, int i, int index_loop, int tap_loop) {
    index->coefficients[index_loop] = geometry->strides[i];
    index->coefficients[tap_loop] = geometry->dilation[i];
    index->offset = -geometry->padding[2 * i];
}

/* result [B, OH, OW, (G), O] over KH, KW, I; of conv3d D stands before each H */
dt_loops *dt_loops_convolution(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    int n = geometry.n, rank = value->shape.rank, taps = rank, input = rank + n;
    dt_loops *loops = dt_loops_new(arena, value, value->shape, n + 1, value->operands[1]->shape.dims, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *x = loops->operands[0].dims, *kernel = loops->operands[1].dims;
    x[0].coefficients[0] = 1;
    for (int i = 0; i < n; i++) {
        set_index_of_x(&x[1 + i], &geometry, i, 1 + i, taps + i);
        kernel[i].coefficients[taps + i] = 1;
    }
    x[rank - 1].coefficients[input] = 1;
    kernel[n].coefficients[input] = 1;
    if (rank == n + 3) x[n + 1].coefficients[n + 1] = 1;
    for (int d = n + 1; d < rank; d++) kernel[d].coefficients[d] = 1;
    return dt_loops_guard(loops, value);
}

/* result [B, H, W, (G), I] over KH, KW, O */
dt_loops *dt_loops_convolution_input_gradient(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    int n = geometry.n, rank = value->shape.rank, taps = rank, output = rank + n;
    const int64_t *dims = value->operands[1]->shape.dims;
    int64_t reduced[MOST_DIRECTIONS + 1];
    memcpy(reduced, dims, (size_t)n * sizeof *reduced);
    reduced[n] = dims[rank - 1];
    dt_loops *loops = dt_loops_new(arena, value, value->shape, n + 1, reduced, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *g = loops->operands[0].dims, *kernel = loops->operands[1].dims;
    g[0].coefficients[0] = 1;
    for (int i = 0; i < n; i++) {
        g[1 + i].coefficients[1 + i] = 1;
        g[1 + i].coefficients[taps + i] = -geometry.dilation[i];
        g[1 + i].offset = geometry.padding[2 * i];
        g[1 + i].divisor = geometry.strides[i];
        kernel[i].coefficients[taps + i] = 1;
    }
    kernel[n].coefficients[rank - 1] = 1;
    g[rank - 1].coefficients[output] = 1;
    kernel[rank - 1].coefficients[output] = 1;
    if (rank == n + 3) g[n + 1].coefficients[n + 1] = kernel[n + 1].coefficients[n + 1] = 1;
    return dt_loops_guard(loops, value);
}

/* result [KH, KW, I, (G), O] over B, OH, OW */
dt_loops *dt_loops_convolution_kernel_gradient(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    int n = geometry.n, rank = value->shape.rank, row = rank, windows = rank + 1;
    dt_loops *loops = dt_loops_new(arena, value, value->shape, n + 1, value->operands[1]->shape.dims, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *x = loops->operands[0].dims, *g = loops->operands[1].dims;
    x[0].coefficients[row] = g[0].coefficients[row] = 1;
    for (int i = 0; i < n; i++) {
        set_index_of_x(&x[1 + i], &geometry, i, windows + i, i);
        g[1 + i].coefficients[windows + i] = 1;
    }
    x[rank - 1].coefficients[n] = 1;
    if (rank == n + 3) x[n + 1].coefficients[n + 1] = 1;
    for (int d = n + 1; d < rank; d++) g[d].coefficients[d] = 1;
    return dt_loops_guard(loops, value);
}

/* ---- gradients: one of the three from the other two; strides, padding and dilation go along ---- */

static const char *const names[][3] = {{"conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient"},
                                       {"conv3d", "conv3d_input_gradient", "conv3d_kernel_gradient"}};

static dt_status *build_convolution(dt_builder *builder, const dt_value *like, dt_value *x, dt_value *kernel, dt_value **result) {
    return dt_build_like(builder, result, names[n_directions(like->op) - 2][0], (dt_value *[]){x, kernel}, 2, like, NULL, 0);
}

static dt_status *build_input_gradient(dt_builder *builder, const dt_value *like, dt_value *g, dt_value *kernel, const dt_value *x,
                                       dt_value **result) {
    int n = n_directions(like->op);
    dt_setting size = dt_set_ints(builder, "size", n, x->shape.dims + 1);
    return dt_build_like(builder, result, names[n - 2][1], (dt_value *[]){g, kernel}, 2, like, &size, 1);
}

static dt_status *build_kernel_gradient(dt_builder *builder, const dt_value *like, dt_value *x, dt_value *g, const dt_value *kernel,
                                        dt_value **result) {
    int n = n_directions(like->op);
    dt_setting size = dt_set_ints(builder, "size", n, kernel->shape.dims);
    return dt_build_like(builder, result, names[n - 2][2], (dt_value *[]){x, g}, 2, like, &size, 1);
}

dt_status *dt_gradient_convolution(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_value *x = value->operands[0], *kernel = value->operands[1];
    if (wanted[0]) DT_TRY(build_input_gradient(builder, value, g, kernel, x, &gradients[0]));
    return wanted[1] ? build_kernel_gradient(builder, value, x, g, kernel, &gradients[1]) : NULL;
}

dt_status *dt_gradient_convolution_input_gradient(dt_builder *builder, const dt_value *value, dt_value *x, const bool *wanted, dt_value **gradients) {
    dt_value *g = value->operands[0], *kernel = value->operands[1];
    if (wanted[0]) DT_TRY(build_convolution(builder, value, x, kernel, &gradients[0]));
    return wanted[1] ? build_kernel_gradient(builder, value, x, g, kernel, &gradients[1]) : NULL;
}

dt_status *dt_gradient_convolution_kernel_gradient(dt_builder *builder, const dt_value *value, dt_value *kernel, const bool *wanted,
                                                   dt_value **gradients) {
    dt_value *x = value->operands[0], *g = value->operands[1];
    if (wanted[0]) DT_TRY(build_input_gradient(builder, value, g, kernel, x, &gradients[0]));
    return wanted[1] ? build_convolution(builder, value, x, kernel, &gradients[1]) : NULL;
}

/* ---- parts ---- */

static int64_t reach_of(const geometry *geometry, int i, int64_t taps) { return geometry->dilation[i] * (taps - 1) + 1; }

void dt_narrow_convolution(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    const int64_t *kernel = value->operands[1]->shape.dims;
    int64_t *padding = dt_arena_copy(arena, geometry.padding, 2 * (size_t)geometry.n * sizeof *padding);
    for (int i = 0; i < geometry.n; i++)
        dt_narrow_windows(geometry.strides[i], reach_of(&geometry, i, kernel[i]), part[1 + i], operands[0][1 + i], &padding[2 * i]);
    dt_narrowed(value, attributes, "padding")->ints = padding;
}

void dt_narrow_convolution_input_gradient(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands,
                                          dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    const int64_t *kernel = value->operands[1]->shape.dims;
    int64_t *padding = dt_arena_copy(arena, geometry.padding, 2 * (size_t)geometry.n * sizeof *padding);
    int64_t *size = DT_NEW_ARRAY(arena, int64_t, geometry.n);
    for (int i = 0; i < geometry.n; i++) {
        dt_narrow_image(geometry.strides[i], reach_of(&geometry, i, kernel[i]), part[1 + i], &operands[0][1 + i], &padding[2 * i]);
        size[i] = dt_range_extent(part[1 + i]);
    }
    dt_narrowed(value, attributes, "size")->ints = size;
    dt_narrowed(value, attributes, "padding")->ints = padding;
}
