/* share: which elements of a tensor each process has, where processes share out an update (`dtrun train --shard-optimizer`).
 *
 * A tensor is cut into units, and each process has a run of them: as many as the others, or one more. Tensors of which an optimizer's states are one,
 * a parameter's gradient, its slots, what is computed of them element by element, are cut alike: in units of DT_SHARE_LINE, or of whole rows where
 * one is gone through by rows, and of the blocks that norms are made of; the sums of blocks are cut in as many. So all that a process needs for an
 * element of its own it has itself. Which processes have one unit more differs by the tensor's turn, so that on the whole they have equally many. */
#ifndef DT_ABI_SHARE_H
#define DT_ABI_SHARE_H

#include <stdint.h>

enum {
    DT_SHARE_LINE = 64,         /* elements: a cache line of any type, at least */
    DT_SHARE_MOST_BLOCK = 4096, /* elements of a block; a sum over no more is not made of blocks */
    DT_SHARE_NONE = INT32_MAX,  /* share 0 of so many is empty, of any tensor: what a process has that owns nothing */
    DT_SHARE_LEAST = 1024       /* elements of a tensor that is worth exchanges of its own; of less, every process has all */
};

/* How many of n elements, more than DT_SHARE_MOST_BLOCK, are a block that norms are summed in: part of the bits. There are at least 128 blocks if
 * each has a line, so that a process which has one more of them than others has little more. */
static inline int64_t dt_share_block(int64_t n) {
    enum {
        LEAST_BLOCKS = 128
    };
    int64_t block = DT_SHARE_MOST_BLOCK;
    while (block > DT_SHARE_LINE && n < LEAST_BLOCKS * block) block /= 2;
    return block;
}

/* How a tensor is cut. */
typedef struct dt_share {
    int64_t unit; /* elements; 0: it is not, and every process has all of it */
    int64_t turn; /* 0 or more */
} dt_share;

/* The first of n_units units that process `share` of n_shares has; of n_shares itself n_units. */
static inline int64_t dt_share_first_unit(int64_t n_units, int64_t turn, int64_t share, int64_t n_shares) {
    return (n_units * share + turn % n_shares) / n_shares;
}

/* The same in elements, of n. */
static inline int64_t dt_share_first_element(dt_share how, int64_t n, int64_t share, int64_t n_shares) {
    int64_t first = dt_share_first_unit((n + how.unit - 1) / how.unit, how.turn, share, n_shares) * how.unit;
    return first < n ? first : n;
}

#endif
