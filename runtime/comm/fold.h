/* fold: sums (and maxima, minima) over replicas, by one fixed binary tree.
 *
 *     tree(leaf 0 … n-1) = leaf 0                                    for n = 1
 *                        = tree(0 … p-1) + tree(p … n-1)             p: the largest power of two below n
 *
 * The order of additions depends on the number of leaves alone, never on who holds them: that is where "the same bits on any number of devices"
 * comes from. f16 and bf16 are folded in f32 and rounded once, at the root. A maximum or minimum with a NaN in it is NaN. */
#ifndef DT_RUNTIME_COMM_FOLD_H
#define DT_RUNTIME_COMM_FOLD_H

#include "abi/dtype.h"
#include "runtime/artifact.h"

#include <stddef.h>

/* Bytes of scratch that dt_fold_leaves needs for so many leaves; align it to 64. */
size_t dt_fold_scratch_bytes(int n_leaves);

/* Folds elements [first, first + n) of all leaves into the first n elements of each target. Targets and leaves do not overlap.
 * spans  [n_leaves] leaf l is the fold of so many leaves from l on, a subtree of the tree; 0: it is in one before, and not read. NULL: all are 1.
 *        Of f16 and bf16 all are 1: what is folded on the way is not rounded.
 * A sum of bool does not exist. Integers wrap around. */
void dt_fold_leaves(dt_fold fold, dt_dtype dtype, const void *const *leaves, const int *spans, int n_leaves, size_t first, size_t n, void *scratch,
                    void *const *targets, int n_targets);

/* One step of the tree: folds n elements of `right` into `left`. Not of f16 and bf16. */
void dt_fold_pair(dt_fold fold, dt_dtype dtype, void *left, const void *right, size_t n);

#endif
