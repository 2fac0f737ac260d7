/* ops_convolution: conv2d and its two gradients, closed under differentiation: each one's gradients are the other two.
 *
 * All three walk the same relation between an index of x, a tap of the kernel and an index of the result:
 *
 *     index of x = index of result * stride + tap * dilation - padding
 *
 * solved for what is read: conv2d reads x; the input gradient reads the result's index, whence its divisor; the kernel gradient reads x. A group
 * dimension G stands before the channels of each operand, or is absent. */
#include "ir/ops.h"

#include <inttypes.h>

typedef struct geometry {
    int64_t strides[2], dilation[2], low[2], high[2]; /* of height and width */
} geometry;

static dt_status *read_geometry(const dt_op *op, const dt_attribute *attributes, geometry *geometry) {
    DT_TRY(dt_check_ints(op, attributes, "strides", 2, 1));
    DT_TRY(dt_check_ints(op, attributes, "dilation", 2, 1));
    DT_TRY(dt_check_ints(op, attributes, "padding", 4, 0));
    const int64_t *padding = dt_op_attribute(op, attributes, "padding")->ints;
    for (int i = 0; i < 2; i++) {
        geometry->strides[i] = dt_op_attribute(op, attributes, "strides")->ints[i];
        geometry->dilation[i] = dt_op_attribute(op, attributes, "dilation")->ints[i];
        geometry->low[i] = padding[2 * i];
        geometry->high[i] = padding[2 * i + 1];
    }
    return NULL;
}

static geometry geometry_of(const dt_value *value) {
    geometry geometry = {0};
    dt_status_free(read_geometry(value->op, value->attributes, &geometry)); /* checked when the value was made */
    return geometry;
}

/* Places of the result along height (0) or width (1); 0 when the kernel is larger than the image. */
static int64_t n_windows(const geometry *geometry, int i, int64_t image, int64_t taps) {
    int64_t room = image + geometry->low[i] + geometry->high[i] - geometry->dilation[i] * (taps - 1) - 1;
    return room < 0 ? 0 : room / geometry->strides[i] + 1;
}

/* An operand must have rank 4, or 5 with groups, the same for both, and constant dimensions but the first. */
static dt_status *check_ranks(dt_arena *arena, const dt_op *op, dt_value *const *operands) {
    static const char *const layouts[] = {"[B, H, W, channels]", "[KH, KW, I, O]"};
    for (int k = 0; k < 2; k++) {
        dt_shape shape = operands[k]->shape;
        bool is_kernel = k == 1 && op->operands[k].name[0] == 'k', fits = shape.rank == 4 || shape.rank == 5;
        for (int d = is_kernel ? 0 : 1; fits && d < shape.rank; d++) fits = !dt_dim_is_symbol(shape.dims[d]);
        if (!fits)
            return dt_error(DT_INVALID_ARGUMENT, "%s expects %s: %s, got %s", op->name, op->operands[k].name, layouts[is_kernel],
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

dt_status *dt_infer_conv2d(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                           dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    int rank = operands[0]->shape.rank;
    const int64_t *x = operands[0]->shape.dims, *kernel = operands[1]->shape.dims;
    if (x[rank - 1] != kernel[2] || (rank == 5 && x[3] != kernel[3])) return misfit(arena, op, operands, "the channels");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    dims[0] = x[0];
    for (int i = 0; i < 2; i++) {
        dims[1 + i] = n_windows(&geometry, i, x[1 + i], kernel[i]);
        if (dims[1 + i] == 0) return misfit(arena, op, operands, "the sizes");
    }
    for (int d = 3; d < rank; d++) dims[d] = kernel[d];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

/* The input gradient's `size` must be one whose convolution has g's height and width. */
dt_status *dt_infer_conv2d_input_gradient(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                          dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    DT_TRY(dt_check_ints(op, attributes, "size", 2, 1));
    int rank = operands[0]->shape.rank;
    const int64_t *g = operands[0]->shape.dims, *kernel = operands[1]->shape.dims, *size = dt_op_attribute(op, attributes, "size")->ints;
    if (g[rank - 1] != kernel[rank - 1] || (rank == 5 && g[3] != kernel[3])) return misfit(arena, op, operands, "the channels");
    for (int i = 0; i < 2; i++)
        if (n_windows(&geometry, i, size[i], kernel[i]) != g[1 + i]) return misfit(arena, op, operands, "size and the sizes");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    dims[0] = g[0];
    dims[1] = size[0];
    dims[2] = size[1];
    dims[3] = g[3]; /* the group, if there is one */
    dims[rank - 1] = kernel[2];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

dt_status *dt_infer_conv2d_kernel_gradient(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands,
                                           const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    geometry geometry;
    DT_TRY(check_ranks(arena, op, operands));
    DT_TRY(read_geometry(op, attributes, &geometry));
    DT_TRY(dt_check_ints(op, attributes, "size", 2, 1));
    int rank = operands[0]->shape.rank;
    const int64_t *x = operands[0]->shape.dims, *g = operands[1]->shape.dims, *size = dt_op_attribute(op, attributes, "size")->ints;
    if (x[0] != g[0] || (rank == 5 && x[3] != g[3])) return misfit(arena, op, operands, "the rows or groups");
    for (int i = 0; i < 2; i++)
        if (n_windows(&geometry, i, x[1 + i], size[i]) != g[1 + i]) return misfit(arena, op, operands, "size and the sizes");
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank);
    dims[0] = size[0];
    dims[1] = size[1];
    dims[2] = x[rank - 1];
    for (int d = 3; d < rank; d++) dims[d] = g[d];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

/* x's index along height or width, from the loops over indices of the result and over taps. */
static void set_index_of_x(dt_index *index, const geometry *geometry, int i, int index_loop, int tap_loop) {
    index->coefficients[index_loop] = geometry->strides[i];
    index->coefficients[tap_loop] = geometry->dilation[i];
    index->offset = -geometry->low[i];
}

/* result [B, OH, OW, (G), O] over KH, KW, I */
dt_loops *dt_loops_conv2d(dt_arena *arena, const dt_value *value) {
    int rank = value->shape.rank, taps = rank, input = rank + 2;
    geometry geometry = geometry_of(value);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 3, value->operands[1]->shape.dims, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *x = loops->operands[0].dims, *kernel = loops->operands[1].dims;
    x[0].coefficients[0] = 1;
    for (int i = 0; i < 2; i++) {
        set_index_of_x(&x[1 + i], &geometry, i, 1 + i, taps + i);
        kernel[i].coefficients[taps + i] = 1;
    }
    x[rank - 1].coefficients[input] = 1;
    kernel[2].coefficients[input] = 1;
    if (rank == 5) x[3].coefficients[3] = 1;
    for (int d = 3; d < rank; d++) kernel[d].coefficients[d] = 1;
    return dt_loops_guard(loops, value);
}

/* result [B, H, W, (G), I] over KH, KW, O */
dt_loops *dt_loops_conv2d_input_gradient(dt_arena *arena, const dt_value *value) {
    int rank = value->shape.rank, taps = rank, output = rank + 2;
    geometry geometry = geometry_of(value);
    const int64_t *dims = value->operands[1]->shape.dims;
    dt_loops *loops =
        dt_loops_new(arena, value, value->shape, 3, (int64_t[]){dims[0], dims[1], dims[rank - 1]}, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *g = loops->operands[0].dims, *kernel = loops->operands[1].dims;
    g[0].coefficients[0] = 1;
    for (int i = 0; i < 2; i++) {
        g[1 + i].coefficients[1 + i] = 1;
        g[1 + i].coefficients[taps + i] = -geometry.dilation[i];
        g[1 + i].offset = geometry.low[i];
        g[1 + i].divisor = geometry.strides[i];
        kernel[i].coefficients[taps + i] = 1;
    }
    kernel[2].coefficients[rank - 1] = 1;
    g[rank - 1].coefficients[output] = 1;
    kernel[rank - 1].coefficients[output] = 1;
    if (rank == 5) g[3].coefficients[3] = kernel[3].coefficients[3] = 1;
    return dt_loops_guard(loops, value);
}

/* result [KH, KW, I, (G), O] over B, OH, OW */
dt_loops *dt_loops_conv2d_kernel_gradient(dt_arena *arena, const dt_value *value) {
    int rank = value->shape.rank, row = rank, windows = rank + 1;
    geometry geometry = geometry_of(value);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 3, value->operands[1]->shape.dims, DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *x = loops->operands[0].dims, *g = loops->operands[1].dims;
    x[0].coefficients[row] = g[0].coefficients[row] = 1;
    for (int i = 0; i < 2; i++) {
        set_index_of_x(&x[1 + i], &geometry, i, windows + i, i);
        g[1 + i].coefficients[windows + i] = 1;
    }
    x[rank - 1].coefficients[2] = 1;
    if (rank == 5) x[3].coefficients[3] = 1;
    for (int d = 3; d < rank; d++) g[d].coefficients[d] = 1;
    return dt_loops_guard(loops, value);
}

/* ---- gradients: one of the three from the other two; strides, padding and dilation go along ---- */

static dt_status *build_conv2d(dt_builder *builder, const dt_value *like, dt_value *x, dt_value *kernel, dt_value **result) {
    return dt_build_like(builder, result, "conv2d", (dt_value *[]){x, kernel}, 2, like, NULL, 0);
}

static dt_status *build_input_gradient(dt_builder *builder, const dt_value *like, dt_value *g, dt_value *kernel, const dt_value *x,
                                       dt_value **result) {
    dt_setting size = dt_set_ints(builder, "size", 2, x->shape.dims + 1);
    return dt_build_like(builder, result, "conv2d_input_gradient", (dt_value *[]){g, kernel}, 2, like, &size, 1);
}

static dt_status *build_kernel_gradient(dt_builder *builder, const dt_value *like, dt_value *x, dt_value *g, const dt_value *kernel,
                                        dt_value **result) {
    dt_setting size = dt_set_ints(builder, "size", 2, kernel->shape.dims);
    return dt_build_like(builder, result, "conv2d_kernel_gradient", (dt_value *[]){x, g}, 2, like, &size, 1);
}

dt_status *dt_gradient_conv2d(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_value *x = value->operands[0], *kernel = value->operands[1];
    if (wanted[0]) DT_TRY(build_input_gradient(builder, value, g, kernel, x, &gradients[0]));
    return wanted[1] ? build_kernel_gradient(builder, value, x, g, kernel, &gradients[1]) : NULL;
}

dt_status *dt_gradient_conv2d_input_gradient(dt_builder *builder, const dt_value *value, dt_value *x, const bool *wanted, dt_value **gradients) {
    dt_value *g = value->operands[0], *kernel = value->operands[1];
    if (wanted[0]) DT_TRY(build_conv2d(builder, value, x, kernel, &gradients[0]));
    return wanted[1] ? build_kernel_gradient(builder, value, x, g, kernel, &gradients[1]) : NULL;
}

dt_status *dt_gradient_conv2d_kernel_gradient(dt_builder *builder, const dt_value *value, dt_value *kernel, const bool *wanted,
                                              dt_value **gradients) {
    dt_value *x = value->operands[0], *g = value->operands[1];
    if (wanted[0]) DT_TRY(build_input_gradient(builder, value, g, kernel, x, &gradients[0]));
    return wanted[1] ? build_conv2d(builder, value, x, kernel, &gradients[1]) : NULL;
}

/* ---- parts ---- */

static int64_t reach_of(const geometry *geometry, int i, int64_t taps) { return geometry->dilation[i] * (taps - 1) + 1; }

void dt_narrow_conv2d(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    const int64_t *kernel = value->operands[1]->shape.dims;
    int64_t *padding = dt_arena_copy(arena, (int64_t[]){geometry.low[0], geometry.high[0], geometry.low[1], geometry.high[1]}, 4 * sizeof *padding);
    for (int i = 0; i < 2; i++)
        dt_narrow_windows(geometry.strides[i], reach_of(&geometry, i, kernel[i]), part[1 + i], operands[0][1 + i], &padding[2 * i]);
    dt_narrowed(value, attributes, "padding")->ints = padding;
}

void dt_narrow_conv2d_input_gradient(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands,
                                     dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    const int64_t *kernel = value->operands[1]->shape.dims;
    int64_t *padding = dt_arena_copy(arena, (int64_t[]){geometry.low[0], geometry.high[0], geometry.low[1], geometry.high[1]}, 4 * sizeof *padding);
    for (int i = 0; i < 2; i++)
        dt_narrow_image(geometry.strides[i], reach_of(&geometry, i, kernel[i]), part[1 + i], &operands[0][1 + i], &padding[2 * i]);
    int64_t size[2] = {dt_range_extent(part[1]), dt_range_extent(part[2])};
    dt_narrowed(value, attributes, "size")->ints = dt_arena_copy(arena, size, sizeof size);
    dt_narrowed(value, attributes, "padding")->ints = padding;
}
