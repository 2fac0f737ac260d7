/* ops_narrow: what narrow functions of several classes are made of; see ops.h. */
#include "ir/ops.h"

#include <assert.h>

dt_attribute *dt_narrowed(const dt_value *value, dt_attribute *attributes, const char *name) {
    int i = dt_op_attribute_index(value->op, name);
    assert(i >= 0);
    return &attributes[i];
}

void dt_narrow_shape(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes) {
    (void)operands;
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, value->shape.rank);
    for (int d = 0; d < value->shape.rank; d++) dims[d] = dt_range_extent(part[d]);
    dt_narrowed(value, attributes, "shape")->ints = dims;
}

/* The padding is what the taps of the first and of the last window reach beyond the image. */
void dt_narrow_windows(int64_t stride, int64_t reach, dt_range part, dt_range image, int64_t padding[2]) {
    int64_t first = part.low * stride - padding[0], end = (part.high - 1) * stride - padding[0] + reach;
    padding[0] = image.low - first;
    padding[1] = end > image.high ? end - image.high : 0;
}

/* Every window that fits into the padded part has to be there, and the first one may not begin after the part's own first element. */
void dt_narrow_image(int64_t stride, int64_t reach, dt_range part, dt_range *windows, int64_t padding[2]) {
    int64_t latest = (part.low + padding[0]) / stride;
    if (windows->low > latest) windows->low = latest;
    padding[0] += part.low - windows->low * stride;
    int64_t room = dt_range_extent(part) + padding[0] - reach; /* by how much the first window can move without padding at the end */
    if (room >= dt_range_extent(*windows) * stride) windows->high = windows->low + room / stride + 1;
    int64_t needed = (dt_range_extent(*windows) - 1) * stride;
    padding[1] = needed > room ? needed - room : 0;
}
