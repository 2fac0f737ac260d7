/* partition: what the files of the pass share. partition.c gives each value its distribution, partition_convert.c makes others of it where they are
 * needed. */
#ifndef DT_PASSES_PARTITION_H
#define DT_PASSES_PARTITION_H

#include "compiler/passes/passes.h"

enum {
    DT_WHOLE = -1 /* for the dimension at which a value is split: at none, every replica has all of it */
};

/* A value as the program has it, before partition changes it, and its versions: split at each dimension that is B, and whole. */
typedef struct dt_origin {
    dt_value *value;
    dt_shape shape;
    dt_value **operands;
    const dt_attribute *attributes;
    const dt_loops *loops; /* NULL: it has none */
    int n_uses;
    dt_value **versions; /* [rank + 1] by dimension, the whole one last; NULL: not made */
    int64_t *costs;      /* [rank + 1] of making them, as known at `known_at` */
    int *known_at;       /* [rank + 1] */
} dt_origin;

typedef struct dt_partition {
    dt_compilation *compilation;
    dt_function *function;
    int n;              /* values of the program: ids below this one */
    dt_origin *origins; /* [n] */
    dt_value **bodies;  /* [n] of loops (ir/body.h) */
    int n_made;         /* grows with each version: what was known of costs is old then */
} dt_partition;

static inline dt_origin *dt_origin_of(const dt_partition *p, const dt_value *value) { return &p->origins[value->id]; }
dt_value **dt_origin_version(dt_origin *origin, int axis);
void dt_origin_add_version(dt_partition *p, dt_origin *origin, int axis, dt_value *version);

/* The dimension at which operand k is split when the replicas share out loop `shared` (of a reshape: dimension `shared` of the result). */
int dt_operand_axis(const dt_partition *p, const dt_origin *origin, int k, int shared);
/* The loop to share out so that the result is split at `axis`. */
int dt_loop_of_axis(const dt_origin *origin, int axis);

/* What the value costs in the form that is split at `axis`: bytes that cross, and work that is done once more, for each row. */
int64_t dt_partition_cost(dt_partition *p, dt_origin *origin, int axis);
/* The value in that form, for `user`; made after the value, and once. */
dt_status *dt_partition_convert(dt_partition *p, dt_origin *origin, int axis, const dt_value *user, dt_value **result);

/* The operands and attributes with which the op makes the form of its result that is split at `axis`, loop `shared` being shared out. */
dt_status *dt_partition_operands(dt_partition *p, const dt_origin *origin, int shared, const dt_value *user, dt_value **operands);
dt_attribute *dt_partition_attributes(const dt_partition *p, const dt_origin *origin, int axis);

#endif
