/* shard_pieces: see shard_pieces.h. */
#include "runtime/execution/shard_pieces.h"

/* Bytes of one element of the dimension that is split, with all that the dimensions behind it have. */
static int64_t bytes_of_one(const dt_artifact_variable *variable) {
    const dt_artifact_tensor *tensor = &variable->tensor;
    int64_t bytes = (int64_t)dt_dtype_bytes(tensor->dtype);
    for (int d = variable->split.axis + 1; d < tensor->n_dims; d++) bytes *= tensor->dims[d];
    return bytes;
}

/* Groups follow one another in the tensor, position after position of the dimensions before, and each goes round the shards: all have the same room
 * for its part, and the last ones may have fewer bytes of it, or none. A shard's own parts follow one another. */
dt_shard_piece dt_shard_piece_at(const dt_artifact_variable *variable, int n_shards, dt_byte_range range) {
    if (variable->split.groups == 0) return (dt_shard_piece){0, range.first, range.n_bytes};
    int64_t length = variable->tensor.dims[variable->split.axis] / variable->split.groups, one = bytes_of_one(variable);
    int64_t bytes = length * one, room = dt_shard_extent(length, 1, n_shards) * one, group = range.first / bytes, within = range.first % bytes;
    int64_t shard = within / room, end = (shard + 1) * room < bytes ? (shard + 1) * room : bytes;
    int64_t n = end - within < range.n_bytes ? end - within : range.n_bytes;
    return (dt_shard_piece){(int)shard, group * room + within % room, n};
}
