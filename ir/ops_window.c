/* ops_window: pooling over windows of [B, H, W, C], and what its gradients are made of.
 *
 *     index of x = index of result * stride + index in the window - padding
 *
 * A maximum's gradient needs to know where in its window it was: max_pool2d_index says so, window_scatter puts the gradient there, and
 * window_gather, which takes it from there, is the gradient of that. */
#include "ir/ops.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct geometry {
    int64_t size[2], strides[2], low[2], high[2]; /* of height and width */
} geometry;

static dt_status *read_geometry(const dt_op *op, const dt_attribute *attributes, geometry *geometry) {
    DT_TRY(dt_check_ints(op, attributes, "size", 2, 1));
    DT_TRY(dt_check_ints(op, attributes, "strides", 2, 1));
    DT_TRY(dt_check_ints(op, attributes, "padding", 4, 0));
    const int64_t *padding = dt_op_attribute(op, attributes, "padding")->ints;
    for (int i = 0; i < 2; i++) {
        geometry->size[i] = dt_op_attribute(op, attributes, "size")->ints[i];
        geometry->strides[i] = dt_op_attribute(op, attributes, "strides")->ints[i];
        geometry->low[i] = padding[2 * i];
        geometry->high[i] = padding[2 * i + 1];
        if (geometry->low[i] >= geometry->size[i] || geometry->high[i] >= geometry->size[i])
            return dt_error(DT_INVALID_ARGUMENT, "%s: padding must be smaller than the window", op->name);
    }
    return NULL;
}

static geometry geometry_of(const dt_value *value) {
    geometry geometry = {0};
    dt_status_free(read_geometry(value->op, value->attributes, &geometry)); /* checked when the value was made */
    return geometry;
}

static int64_t n_places(const geometry *geometry, int i, int64_t image) {
    int64_t room = image + geometry->low[i] + geometry->high[i] - geometry->size[i];
    return room < 0 ? 0 : room / geometry->strides[i] + 1;
}

static dt_status *check_image(dt_arena *arena, const dt_op *op, const dt_value *image) {
    dt_shape shape = image->shape;
    bool fits = shape.rank == 4;
    for (int d = 1; fits && d < 4; d++) fits = !dt_dim_is_symbol(shape.dims[d]);
    if (fits) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s expects %s: [B, H, W, C], got %s", op->name, op->operands[0].name, dt_type_text(arena, image));
}

/* The second operand, where there is one, names a position in each window of the shape `windows`. */
static dt_status *check_index(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, dt_shape windows) {
    if (n_operands == 1 || dt_shape_equal(operands[1]->shape, windows)) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: index: %s does not name a position for each window of %s: %s", op->name,
                    dt_type_text(arena, operands[1]), op->operands[0].name, dt_type_text(arena, operands[0]));
}

dt_status *dt_infer_window2d(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                             dt_shape *shape, dt_dtype *dtype) {
    geometry geometry;
    DT_TRY(check_image(arena, op, operands[0]));
    DT_TRY(read_geometry(op, attributes, &geometry));
    const int64_t *x = operands[0]->shape.dims;
    int64_t dims[4] = {x[0], n_places(&geometry, 0, x[1]), n_places(&geometry, 1, x[2]), x[3]};
    if (dims[1] == 0 || dims[2] == 0)
        return dt_error(DT_INVALID_ARGUMENT, "%s: a window of %" PRId64 " x %" PRId64 " does not fit into x: %s", op->name, geometry.size[0],
                        geometry.size[1], dt_type_text(arena, operands[0]));
    *shape = dt_shape_make(arena, 4, dims);
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return check_index(arena, op, operands, n_operands, *shape);
}

dt_status *dt_infer_spread2d(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                             dt_shape *shape, dt_dtype *dtype) {
    geometry geometry;
    DT_TRY(check_image(arena, op, operands[0]));
    DT_TRY(read_geometry(op, attributes, &geometry));
    DT_TRY(dt_check_ints(op, attributes, "input", 2, 1));
    const int64_t *g = operands[0]->shape.dims, *input = dt_op_attribute(op, attributes, "input")->ints;
    for (int i = 0; i < 2; i++)
        if (n_places(&geometry, i, input[i]) != g[1 + i])
            return dt_error(DT_INVALID_ARGUMENT, "%s: an image of %" PRId64 " x %" PRId64 " does not have the windows of g: %s", op->name, input[0],
                            input[1], dt_type_text(arena, operands[0]));
    *shape = dt_shape_make(arena, 4, (int64_t[]){g[0], input[0], input[1], g[3]});
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return check_index(arena, op, operands, n_operands, operands[0]->shape);
}

enum {
    WINDOW = 4 /* the loops: 0 B, 1 H, 2 W, 3 C, then the indices in a window */
};

/* An access to x from the loops over windows; an access to windows from the loops over an image. */
static void read_image(dt_index *dims, const geometry *geometry) {
    dims[0].coefficients[0] = dims[3].coefficients[3] = 1;
    for (int i = 0; i < 2; i++) {
        dims[1 + i].coefficients[1 + i] = geometry->strides[i];
        dims[1 + i].coefficients[WINDOW + i] = 1;
        dims[1 + i].offset = -geometry->low[i];
    }
}

static void read_windows(dt_index *dims, const geometry *geometry) {
    dims[0].coefficients[0] = dims[3].coefficients[3] = 1;
    for (int i = 0; i < 2; i++) {
        dims[1 + i].coefficients[1 + i] = 1;
        dims[1 + i].coefficients[WINDOW + i] = -1;
        dims[1 + i].offset = geometry->low[i];
        dims[1 + i].divisor = geometry->strides[i];
    }
}

static void read_in_place(dt_index *dims) {
    for (int d = 0; d < 4; d++) dims[d].coefficients[d] = 1;
}

dt_loops *dt_loops_window2d(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    dt_combiner combiner = DT_COMBINE_SUM;
    while (strcmp(dt_combiner_name(combiner), value->op->formula) != 0) combiner++;
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 2, geometry.size, combiner, "x");
    read_image(loops->operands[0].dims, &geometry);
    if (combiner != DT_COMBINE_SUM) loops->operands[0].outside.f = -INFINITY;
    return dt_loops_guard(loops, value);
}

dt_loops *dt_loops_spread2d(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 2, geometry.size, DT_COMBINE_SUM, "g");
    read_windows(loops->operands[0].dims, &geometry);
    return dt_loops_guard(loops, value);
}

/* Is this the element of the window that the index names? */
static const char *chosen(dt_arena *arena, const geometry *geometry, const char *operand) {
    return dt_arena_format(arena, "where(i64(index) == loop(%d) * %" PRId64 " + loop(%d), %s, 0)", WINDOW, geometry->size[1], WINDOW + 1, operand);
}

dt_loops *dt_loops_window_gather(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 2, geometry.size, DT_COMBINE_SUM, chosen(arena, &geometry, "x"));
    read_image(loops->operands[0].dims, &geometry);
    read_in_place(loops->operands[1].dims);
    return dt_loops_guard(loops, value);
}

dt_loops *dt_loops_window_scatter(dt_arena *arena, const dt_value *value) {
    geometry geometry = geometry_of(value);
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 2, geometry.size, DT_COMBINE_SUM, chosen(arena, &geometry, "g"));
    read_windows(loops->operands[0].dims, &geometry);
    read_windows(loops->operands[1].dims, &geometry);
    return dt_loops_guard(loops, value);
}

/* ---- gradients ---- */

static dt_setting input_of(dt_builder *builder, const dt_value *image) { return dt_set_ints(builder, "input", 2, image->shape.dims + 1); }

dt_status *dt_gradient_max_pool2d(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    if (!wanted[0]) return NULL;
    dt_value *index;
    dt_setting input = input_of(builder, value->operands[0]);
    DT_TRY(dt_build_like(builder, &index, "max_pool2d_index", value->operands, 1, value, NULL, 0));
    return dt_build_like(builder, &gradients[0], "window_scatter", (dt_value *[]){g, index}, 2, value, &input, 1);
}

dt_status *dt_gradient_sum_pool2d(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_setting input = input_of(builder, value->operands[0]);
    return wanted[0] ? dt_build_like(builder, &gradients[0], "sum_pool2d_gradient", &g, 1, value, &input, 1) : NULL;
}

dt_status *dt_gradient_sum_pool2d_gradient(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? dt_build_like(builder, &gradients[0], "sum_pool2d", &g, 1, value, NULL, 0) : NULL;
}

dt_status *dt_gradient_window_gather(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_setting input = input_of(builder, value->operands[0]);
    return wanted[0] ? dt_build_like(builder, &gradients[0], "window_scatter", (dt_value *[]){g, value->operands[1]}, 2, value, &input, 1) : NULL;
}

dt_status *dt_gradient_window_scatter(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    return wanted[0] ? dt_build_like(builder, &gradients[0], "window_gather", (dt_value *[]){g, value->operands[1]}, 2, value, NULL, 0) : NULL;
}

/* ---- parts ---- */

static int64_t *copy_padding(dt_arena *arena, const geometry *geometry) {
    int64_t padding[4] = {geometry->low[0], geometry->high[0], geometry->low[1], geometry->high[1]};
    return dt_arena_copy(arena, padding, sizeof padding);
}

void dt_narrow_window2d(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    int64_t *padding = copy_padding(arena, &geometry);
    for (int i = 0; i < 2; i++) dt_narrow_windows(geometry.strides[i], geometry.size[i], part[1 + i], operands[0][1 + i], &padding[2 * i]);
    dt_narrowed(value, attributes, "padding")->ints = padding;
}

void dt_narrow_spread2d(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    geometry geometry = geometry_of(value);
    int64_t *padding = copy_padding(arena, &geometry);
    for (int i = 0; i < 2; i++) {
        dt_narrow_image(geometry.strides[i], geometry.size[i], part[1 + i], &operands[0][1 + i], &padding[2 * i]);
        if (value->n_operands == 2) operands[1][1 + i] = operands[0][1 + i]; /* a position for each window */
    }
    int64_t input[2] = {dt_range_extent(part[1]), dt_range_extent(part[2])};
    dt_narrowed(value, attributes, "input")->ints = dt_arena_copy(arena, input, sizeof input);
    dt_narrowed(value, attributes, "padding")->ints = padding;
}
