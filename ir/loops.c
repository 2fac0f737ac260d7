/* loops: see loops.h. The loops of each op are made by its row's function in the ops_CLASS.c of its class. */
#include "ir/loops.h"

#include "ir/graph.h"

#include <math.h>

const char *dt_combiner_name(dt_combiner combiner) {
    static const char *const names[] = {
        [DT_COMBINE_NONE] = "none", [DT_COMBINE_SUM] = "sum",       [DT_COMBINE_PRODUCT] = "product", [DT_COMBINE_MAX] = "max",
        [DT_COMBINE_MIN] = "min",   [DT_COMBINE_ARGMAX] = "argmax", [DT_COMBINE_ARGMIN] = "argmin"};
    return names[combiner];
}

dt_scalar dt_combiner_identity(dt_combiner combiner, dt_dtype dtype) {
    bool is_float = dt_dtype_is_float(dtype);
    int64_t least = 0, greatest = 0;
    if (!is_float) dt_dtype_limits(dtype, &least, &greatest);
    switch (combiner) {
    case DT_COMBINE_PRODUCT: return is_float ? (dt_scalar){.f = 1} : (dt_scalar){.i = 1};
    case DT_COMBINE_MAX:
    case DT_COMBINE_ARGMAX: return is_float ? (dt_scalar){.f = -INFINITY} : (dt_scalar){.i = least};
    case DT_COMBINE_MIN:
    case DT_COMBINE_ARGMIN: return is_float ? (dt_scalar){.f = INFINITY} : (dt_scalar){.i = greatest};
    default: return is_float ? (dt_scalar){.f = 0} : (dt_scalar){.i = 0};
    }
}

bool dt_index_may_leave(const dt_index *index, int n_loops, const int64_t *extents, int64_t dim) {
    if (index->divisor != 1 || index->indirect >= 0) return true;
    int64_t lowest = index->offset, highest = index->offset;
    for (int l = 0; l < n_loops; l++) {
        if (extents[l] == 0) return false;
        *(index->coefficients[l] > 0 ? &highest : &lowest) += index->coefficients[l] * (extents[l] - 1);
    }
    return lowest < 0 || highest >= dim;
}

int dt_loop_of_dimension(const dt_loops *loops, const dt_access *access, int dim) {
    const dt_index *index = &access->dims[dim];
    if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return -1;
    int found = -1;
    for (int l = 0; l < loops->n_loops; l++) {
        if (index->coefficients[l] == 0) continue;
        if (index->coefficients[l] != 1 || found >= 0) return -1;
        found = l;
    }
    return found;
}

dt_loops *dt_value_loops(dt_arena *arena, const dt_value *value) { return value->op->loops != NULL ? value->op->loops(arena, value) : NULL; }
