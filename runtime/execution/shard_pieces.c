/* shard_pieces: see shard_pieces.h. */
#include "runtime/execution/shard_pieces.h"

/* Bytes that lie side by side in the tensor and in a shard: a shard's part of one group, at one position of the dimensions before. */
static int64_t run_bytes(const dt_artifact_variable *variable, int n_shards) {
    const dt_artifact_tensor *tensor = &variable->tensor;
    int64_t bytes = (int64_t)dt_dtype_bytes(tensor->dtype);
    for (int d = variable->split.axis; d < tensor->n_dims; d++) bytes *= tensor->dims[d];
    return bytes / variable->split.groups / n_shards;
}

/* Runs of the tensor go round the shards: group after group, position after position. A shard's own follow one another. */
dt_shard_piece dt_shard_piece_at(const dt_artifact_variable *variable, int n_shards, dt_byte_range range) {
    if (variable->split.groups == 0) return (dt_shard_piece){0, range.first, range.n_bytes};
    int64_t bytes = run_bytes(variable, n_shards), run = range.first / bytes, within = range.first % bytes;
    int64_t n = bytes - within < range.n_bytes ? bytes - within : range.n_bytes;
    return (dt_shard_piece){(int)(run % n_shards), run / n_shards * bytes + within, n};
}
