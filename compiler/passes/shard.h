/* shard: what the files of the pass share. shard.c says which values are split over a model's shards, shard_parts.c makes a shard's part of what is
 * the same for all, and the whole of what each shard has a part of. */
#ifndef DT_PASSES_SHARD_H
#define DT_PASSES_SHARD_H

#include "compiler/passes/passes.h"

/* How the shards have a value. The dimension is `groups` tensors side by side, of each of which every shard has a part: element i of its part of a
 * group is element shard * extent + i of that. Parts are of the same shape. Where shards cannot share a group evenly, those of the last ones end with
 * padding: elements that the whole does not have. */
typedef struct dt_split {
    int axis;       /* DT_NOT_SPLIT: every shard has all of it */
    int64_t groups; /* at least 1 */
} dt_split;

enum {
    DT_NOT_SPLIT = -1
};

/* A shard's part of a value. */
typedef struct dt_part_of_value {
    dt_split split;
    dt_value *value;
    bool has_zeros; /* in its padding; else there may be anything */
} dt_part_of_value;

/* A value as the program has it, before the pass changes it. */
typedef struct dt_sharded {
    dt_value *value;
    dt_shape shape;
    dt_value **operands;
    const dt_attribute *attributes;
    const dt_loops *loops;           /* NULL: it has none */
    bool is_written;                 /* to a variable */
    dt_value *whole;                 /* the same on every shard; NULL: there is none */
    DT_LIST(dt_part_of_value) parts; /* the first one is how it came about, where there is no whole */
} dt_sharded;

typedef struct dt_lookup {
    dt_value *of; /* an index that is whole */
    int64_t extent;
    dt_value *is_own, *index;
} dt_lookup;

typedef struct dt_sharding {
    dt_compilation *compilation;
    dt_function *function;
    int64_t n_shards;
    dt_sharded *values; /* [n] of the program's, by id */
    dt_value **bodies;  /* [n] of loops (ir/body.h) */
    dt_value *shard;    /* the number of the shard; NULL: not made yet */
    DT_LIST(dt_lookup) lookups;
} dt_sharding;

static inline dt_sharded *dt_sharded_of(const dt_sharding *s, const dt_value *value) { return &s->values[value->id]; }

/* Elements of a dimension of a shard's part. */
static inline int64_t dt_split_extent(const dt_sharding *s, dt_shape shape, dt_split split) {
    return dt_shard_extent(shape.dims[split.axis], split.groups, s->n_shards);
}
dt_shape dt_split_shape(const dt_sharding *s, dt_shape shape, dt_split split);

/* How a tensor of the same elements, row by row, in shape `to` is split where one in shape `from` is split so; DT_NOT_SPLIT: no dimension is. */
dt_split dt_split_reshaped(const dt_sharding *s, dt_shape from, dt_split split, dt_shape to);

/* The loop that walks the dimension, alone, from its start to its end; -1: none does. */
int dt_loop_of_whole_dimension(const dt_loops *loops, const dt_access *access, dt_shape shape, int dim);
/* How the operand is split where loop `loop` is, in so many groups; false: that loop walks a dimension of it in another way. */
bool dt_split_of_operand(const dt_sharded *sharded, int operand, dt_shape shape, int loop, int64_t groups, dt_split *split);

/* Adds a shard's part that has been made. */
dt_status *dt_shard_add_part(dt_sharding *s, dt_sharded *sharded, dt_split split, dt_value *part);
/* The shard's part of a value, for `user`, whose place an error has; made behind the value, and once. There may be anything in its padding. */
dt_status *dt_shard_part(dt_sharding *s, dt_sharded *sharded, dt_split split, const dt_value *user, dt_value **part);
/* The same, with what changes nothing that is combined so in its padding: zeros for sums. Whoever mixes elements of the dimension needs that, and
 * indices and variables have zeros too: one is valid, and the other stays as it is. Every shard has at least one element that is none. */
dt_status *dt_shard_padded_part(dt_sharding *s, dt_sharded *sharded, dt_split split, dt_combiner combiner, const dt_value *user, dt_value **part);
/* Whether a shard has what an index says that is along a dimension of so many elements, which is split in one group, and where in its part; element
 * 0, where it has not. What nobody has is counted once, as an index of the whole; made behind the index, and once, with the place of the first user.
 */
dt_status *dt_shard_look_up(dt_sharding *s, dt_value *index, int64_t extent, const dt_value *user, dt_lookup *lookup);
/* `value` where the first dimensions' `is_own` holds, else 0. */
dt_status *dt_build_where_own(dt_builder *builder, dt_value *is_own, dt_value *value, dt_value **result);

/* Where the greatest or least element is along the dimension that is split, in one group, of its operand: each shard finds its own, and of those that
 * are as great as that of all the first one is it. */
dt_status *dt_shard_find_extreme(dt_sharding *s, dt_sharded *sharded);

/* Of values of which each shard has a term, all of them combined, behind it. */
dt_status *dt_shard_combine(const dt_sharding *s, dt_value *term, dt_combiner combiner, dt_value **whole);
/* The value whole: gathered behind it, and once, where shards have parts of it. */
dt_status *dt_shard_whole(dt_sharding *s, dt_sharded *sharded, const dt_value *user, dt_value **whole);
/* The attributes with which the op makes the part. */
dt_attribute *dt_split_attributes(const dt_sharding *s, const dt_sharded *sharded, dt_split split);
/* Builds behind the value and all inputs. */
dt_builder dt_builder_behind(const dt_sharding *s, const dt_value *value);

#endif
