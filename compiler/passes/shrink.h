/* shrink: what the files of the pass share. shrink_narrow.c says how a value is computed in part, shrink_index.c which gathers are slices, shrink.c
 * decides which part of each value that is. */
#ifndef DT_PASSES_SHRINK_H
#define DT_PASSES_SHRINK_H

#include "ir/graph.h"

/* One way to compute a part of a value. */
typedef struct dt_narrowing {
    dt_range *part;      /* [rank] of the value's own dimensions */
    dt_range **operands; /* [n_operands][their rank] the parts of its operands that this takes; NULL: this operand is not needed at all */
    dt_attribute *attributes;
} dt_narrowing;

dt_range *dt_whole_range(dt_arena *arena, dt_shape shape); /* of each dimension */
bool dt_range_is_whole(const dt_range *spans, dt_shape shape);

/* A narrowing of `value` whose part covers `part`, or false when the op has none. The operands' parts are those that it reads, or, where `available`
 * is not NULL, exactly those. What comes out has the bits that the whole value has there: its loops are the same, moved. */
bool dt_narrow(dt_arena *arena, const dt_module *module, dt_value *value, const dt_range *part, dt_range *const *available, dt_narrowing *narrowing);

/* Replaces gathers whose index is known, such as a constant or a count, by slices. */
dt_status *dt_slice_known_gathers(dt_function *function);

#endif
