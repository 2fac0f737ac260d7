/* shape: see shape.h. */
#include "ir/shape.h"

#include "abi/manifest.h"

#include <inttypes.h>

dt_shape dt_shape_make(dt_arena *arena, int rank, const int64_t *dims) {
    return (dt_shape){rank, dt_arena_copy(arena, dims, (size_t)rank * sizeof *dims)};
}

dt_shape dt_shape_scalar(void) {
    static const int64_t none = 0; /* never read: so that dims is not NULL */
    return (dt_shape){0, &none};
}

bool dt_shape_equal(dt_shape a, dt_shape b) {
    if (a.rank != b.rank) return false;
    for (int d = 0; d < a.rank; d++)
        if (a.dims[d] != b.dims[d]) return false;
    return true;
}

int dt_shape_batch_axis(dt_shape shape) {
    for (int d = 0; d < shape.rank; d++)
        if (dt_dim_is_symbol(shape.dims[d])) return d;
    return -1;
}

int dt_shape_count(dt_shape shape, int64_t dim) {
    int n = 0;
    for (int d = 0; d < shape.rank; d++) n += shape.dims[d] == dim;
    return n;
}

int64_t dt_shape_elements(dt_shape shape, int64_t batch, int64_t gathered) {
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++) n *= shape.dims[d] == DT_BATCH ? batch : shape.dims[d] == DT_GATHERED ? gathered : shape.dims[d];
    return n;
}

int64_t dt_shape_element_of_part(dt_shape shape, int axis, int64_t groups, int64_t n_shards, int64_t shard, int64_t i) {
    int64_t inner = 1, extent = shape.dims[axis], own = dt_shard_extent(extent, groups, n_shards), of_group = own / groups;
    for (int d = axis + 1; d < shape.rank; d++) inner *= shape.dims[d];
    int64_t outer = i / inner / own, at = i / inner % own, in_group = shard * of_group + at % of_group;
    if (in_group >= extent / groups) return -1;
    return (outer * extent + at / of_group * (extent / groups) + in_group) * inner + i % inner;
}

int64_t dt_shape_elements_per_row(dt_shape shape) { return dt_shape_elements(shape, 1, 1); }

void dt_shape_print(dt_text *text, dt_dtype dtype, dt_shape shape) {
    dt_text_append(text, dt_dtype_name(dtype));
    for (int d = 0; d < shape.rank; d++) {
        dt_text_append(text, d == 0 ? "[" : ", ");
        if (shape.dims[d] == DT_BATCH)
            dt_text_append(text, "B");
        else if (shape.dims[d] == DT_GATHERED)
            dt_text_append(text, "G");
        else
            dt_text_format(text, "%" PRId64, shape.dims[d]);
    }
    if (shape.rank > 0) dt_text_append(text, "]");
}
