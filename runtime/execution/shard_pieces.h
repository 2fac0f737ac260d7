/* shard_pieces: where the bytes of a variable are that is split over logical shards.
 *
 * Everybody but kernels knows a variable as one tensor, row-major, and names a range of its bytes. Where it is split, each shard has a tensor of its
 * own: of each group along the dimension that is split, the shard's part. So a range is a list of pieces, each of which lies in one shard without a
 * gap. A variable that is not split is one piece, of shard 0. */
#ifndef DT_RUNTIME_EXECUTION_SHARD_PIECES_H
#define DT_RUNTIME_EXECUTION_SHARD_PIECES_H

#include "runtime/artifact/artifact.h"

typedef struct dt_shard_piece {
    int shard;  /* of all */
    int64_t at; /* its first byte, in the shard's tensor */
    int64_t n_bytes;
} dt_shard_piece;

/* Bytes [first, first + n_bytes), and times - 1 more such ranges, each `stride` bytes behind the one before. */
typedef struct dt_strided_range {
    int64_t first, n_bytes, stride, times;
} dt_strided_range;

/* The piece that a range of the variable's bytes begins with, no longer than the range; of a program of so many shards. */
dt_shard_piece dt_shard_piece_at(const dt_artifact_variable *variable, int n_shards, dt_byte_range range);

/* The same, no longer than to where `part` of the shard's tensor begins or ends; is_in: it is of that part. */
dt_shard_piece dt_shard_piece_of(const dt_artifact_variable *variable, int n_shards, dt_byte_range range, dt_byte_range part, bool *is_in);

/* Where bytes `part` of a shard's tensor are in the variable: the other way around. What pads a shard is nowhere. Returns how many are found. */
enum {
    DT_SHARD_RANGES = 3
};
int dt_shard_ranges(const dt_artifact_variable *variable, int n_shards, int shard, dt_byte_range part, dt_strided_range found[DT_SHARD_RANGES]);

#endif
