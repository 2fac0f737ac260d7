/* reduce: sums (and maxima, minima) over microbatches, by one fixed binary tree.
 *
 *     tree(leaf 0 … n-1) = leaf 0                                    for n = 1
 *                        = tree(0 … p-1) + tree(p … n-1)             p: the largest power of two below n
 *
 * The order of additions depends on the number of leaves alone, never on who holds them: that is where "the same bits on any number of devices"
 * comes from. f16 and bf16 are added in f32 and rounded once, at the root. A maximum or minimum with a NaN in it is NaN. */
#ifndef DT_RUNTIME_DEVICES_REDUCE_H
#define DT_RUNTIME_DEVICES_REDUCE_H

#include "abi/dtype.h"
#include "runtime/artifact/artifact.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is there already: the result of a subtree. */
typedef struct dt_tree_source {
    const void *values;
    int64_t span; /* how many leaves it is of: 1, or what a node of the tree covers; of f16 and bf16 always 1, since nothing is rounded on the way */
} dt_tree_source;

/* One tensor, or a part of one: elements [0, n_elements) of all sources become those of each target. */
typedef struct dt_tree_reduction {
    dt_dtype dtype;
    dt_reduction_op combine;
    int64_t n_leaves;              /* of the tree */
    int n_sources;                 /* one source is copied */
    const dt_tree_source *sources; /* [n_sources] in the order of their leaves; their spans add up to n_leaves */
    size_t n_elements;
    int n_targets;
    void *const *targets; /* [n_targets] the first may be the values of the first source; else nothing overlaps */
    bool wide_sources;    /* of f16 and bf16: the sources are sums in f32, which spans of any length may have */
    bool wide_targets;    /* of f16 and bf16: the targets are f32, and nothing is rounded */
} dt_tree_reduction;

/* Bytes of scratch that dt_reduce needs for a tree of so many leaves; align it to 64. */
size_t dt_reduce_scratch_bytes(int64_t n_leaves);

/* On the host, where each target may be the values of any source. A sum of bool does not exist. Integers wrap around. */
void dt_reduce(const dt_tree_reduction *reduction, void *scratch);

#endif
