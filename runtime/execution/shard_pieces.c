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
typedef struct cut {
    int64_t bytes, room; /* of a group, and a shard's of these */
} cut;

static cut cut_of(const dt_artifact_variable *variable, int n_shards) {
    int64_t length = variable->tensor.dims[variable->split.axis] / variable->split.groups, one = bytes_of_one(variable);
    return (cut){length * one, dt_shard_extent(length, 1, n_shards) * one};
}

dt_shard_piece dt_shard_piece_at(const dt_artifact_variable *variable, int n_shards, dt_byte_range range) {
    if (variable->split.groups == 0) return (dt_shard_piece){0, range.first, range.n_bytes};
    cut cut = cut_of(variable, n_shards);
    int64_t group = range.first / cut.bytes, within = range.first % cut.bytes;
    int64_t shard = within / cut.room, end = (shard + 1) * cut.room < cut.bytes ? (shard + 1) * cut.room : cut.bytes;
    int64_t n = end - within < range.n_bytes ? end - within : range.n_bytes;
    return (dt_shard_piece){(int)shard, group * cut.room + within % cut.room, n};
}

dt_shard_piece dt_shard_piece_of(const dt_artifact_variable *variable, int n_shards, dt_byte_range range, dt_byte_range part, bool *is_in) {
    dt_shard_piece piece = dt_shard_piece_at(variable, n_shards, range);
    int64_t part_end = part.first + part.n_bytes, end = piece.at < part.first ? part.first : piece.at < part_end ? part_end : INT64_MAX;
    *is_in = end == part_end && piece.at >= part.first;
    if (piece.n_bytes > end - piece.at) piece.n_bytes = end - piece.at;
    return piece;
}

int dt_shard_ranges(const dt_artifact_variable *variable, int n_shards, int shard, dt_byte_range part, dt_strided_range found[DT_SHARD_RANGES]) {
    cut cut = cut_of(variable, n_shards);
    int64_t end = part.first + part.n_bytes, there = cut.bytes - shard * cut.room < cut.room ? cut.bytes - shard * cut.room : cut.room;
    int n = 0;
    /* Of the first group what is left of it, then whole ones, then the beginning of one. */
    for (int64_t at = part.first; at < end;) {
        int64_t within = at % cut.room, times = within == 0 && end - at >= cut.room ? (end - at) / cut.room : 1;
        int64_t n_bytes = cut.room - within < end - at ? cut.room - within : end - at;
        int64_t first = at / cut.room * cut.bytes + shard * cut.room + within;
        at += times > 1 ? times * cut.room : n_bytes;
        if (within >= there) continue;
        if (n_bytes > there - within) n_bytes = there - within;
        found[n++] = (dt_strided_range){first, n_bytes, times > 1 ? cut.bytes : 0, times};
    }
    return n;
}
