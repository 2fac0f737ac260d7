/* buckets: how sums that are exchanged together are divided among exchanges: a pure function of numbers, the same in all processes.
 *
 * A bucket is what is begun at once: sums in the order in which they become complete, few, so that the wire is busy early and little is left for the
 * end of a step. A piece is what one exchange moves: so few bytes that they are still in cache when they are added up, and that one piece is on the
 * wire while another is added. A large tensor is divided into pieces of its own, small ones share a piece. Where it is devices that exchange there is
 * no cache to stay in, and neighbours of one kind in a bucket are one piece: buckets after the first are large then. */
#ifndef DT_RUNTIME_COMM_BUCKETS_H
#define DT_RUNTIME_COMM_BUCKETS_H

#include "base/arena.h"

#include <stdint.h>

enum {
    DT_BUCKET_BYTES = 1 << 20,        /* a bucket is closed once it has as many, and a piece, with all that is complete at once */
    DT_WHOLE_BUCKET_BYTES = 25 << 20, /* the same, of whole pieces, after the first bucket */
    DT_SHARE_BYTES = 256 << 10,       /* of a piece, what a process owns; messages are as long */
    DT_PIECE_BYTES = 4 << 20          /* at most, for many processes; each a multiple of every element and of DT_SCHEDULE_UNIT */
};

/* Of a large piece. */
static inline int64_t dt_piece_bytes(int n_processes) {
    return n_processes < DT_PIECE_BYTES / DT_SHARE_BYTES ? (int64_t)DT_SHARE_BYTES * n_processes : DT_PIECE_BYTES;
}

/* A tensor as it crosses. */
typedef struct dt_bucket_tensor {
    int64_t n_bytes;
    int complete_after; /* numbers grow with time */
    int kind;           /* tensors of different kinds share no piece */
} dt_bucket_tensor;

/* Bytes [first, first + n_bytes) of a tensor, at byte `at` of a piece: a whole unit. */
typedef struct dt_bucket_range {
    int tensor;
    int64_t first, n_bytes, at;
} dt_bucket_range;

typedef struct dt_piece {
    int64_t n_bytes; /* of the image, from the first range to the end of the last one */
    int n_ranges;
    const dt_bucket_range *ranges; /* [n_ranges] */
} dt_piece;

typedef struct dt_bucket {
    int complete_after; /* its last tensor */
    int n_pieces;
    const dt_piece *pieces; /* [n_pieces] */
} dt_bucket;

enum {
    DT_WHOLE_PIECES = 0 /* in place of the most bytes of a piece */
};

/* Every byte of every tensor is in one range. No bucket is empty. piece_bytes: dt_piece_bytes, or DT_WHOLE_PIECES. */
const dt_bucket *dt_buckets_of(const dt_bucket_tensor *tensors, int n_tensors, int64_t piece_bytes, dt_arena *arena, int *n_buckets);

#endif
