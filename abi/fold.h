/* fold: what the function is called with that folds, on a GPU, what the leaves of a sum have left.
 *
 * `dtc` generates one for each program:   void fold(const dt_fold_work *work);
 * All pointers are addresses in the GPU's memory, and so is the structure. For each part, and each of its elements, the values of the leaves are
 * folded in the order of the tree over all leaves, floats of 16 bits in 32 and rounded once: to the bit what the runtime does on a CPU
 * (runtime/devices/reduce.h). A part of one leaf is a copy. Its target may be its first leaf; nothing else overlaps. */
#ifndef DT_ABI_FOLD_H
#define DT_ABI_FOLD_H

#include "abi/dtype.h"
#include "abi/manifest.h"

/* What is done with an element, a number that the generated function and the runtime agree on: copied, by its bytes, or folded. `fold` is a
 * dt_fold. */
#define DT_FOLD_KIND_COPY(element_bytes) ((int64_t)(element_bytes))
#define DT_FOLD_KIND(dtype, fold) (16 + 4 * (int64_t)(dtype) + (fold))

enum {
    DT_FOLD_DEPTH = 20 /* open sums of an element: what a tree of up to 2^20 leaves has at a time */
};

/* X(name, meaning): eight bytes a field. `values`, `leaves` and `parts` are addresses. */
#define DT_FOLD_LEAF_FIELDS(X)                                                                                                                       \
    X(values, "of a subtree of the tree, or of one leaf")                                                                                            \
    X(span, "how many leaves that are: a power of two")

#define DT_FOLD_PART_FIELDS(X)                                                                                                                       \
    X(target, "where the result goes")                                                                                                               \
    X(others, "more such places, one address behind the other: in other GPUs' memory, or beside it")                                                 \
    X(n_others, "0 or more")                                                                                                                         \
    X(leaves, "in their order")                                                                                                                      \
    X(n_leaves, "1 or more")                                                                                                                         \
    X(first, "elements of all parts before it")                                                                                                      \
    X(kind, "what is done")

#define DT_FOLD_WORK_FIELDS(X)                                                                                                                       \
    X(parts, "one behind the other")                                                                                                                 \
    X(n_parts, "1 or more")                                                                                                                          \
    X(n_elements, "of all parts")

#define X(name, meaning) int64_t name;
typedef struct dt_fold_leaf {
    DT_FOLD_LEAF_FIELDS(X)
} dt_fold_leaf;

typedef struct dt_fold_part {
    DT_FOLD_PART_FIELDS(X)
} dt_fold_part;

typedef struct dt_fold_work {
    DT_FOLD_WORK_FIELDS(X)
} dt_fold_work;
#undef X

#endif
