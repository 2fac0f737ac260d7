/* reduction: what the function is called with that reduces, on a GPU, the values of a reduction tree's leaves.
 *
 * `dtc` generates one for each program:   void reduce_replicas(const dt_reduction_work *work);
 * All pointers are addresses in the GPU's memory, and so is the structure. For each element of each part, the values of the sources
 * are combined in the order of the tree over all leaves. Floats of 16 bits are combined as f32 and rounded once; where sums cross processes their
 * targets, or sources, are in f32. The bits are those of the runtime on a CPU (runtime/devices/reduce.h). A part with one source is a copy. Its
 * target may be one of its sources; nothing else overlaps. */
#ifndef DT_ABI_REDUCTION_H
#define DT_ABI_REDUCTION_H

#include "abi/dtype.h"
#include "abi/manifest.h"

/* What is done with an element, a number on which the generated function and the runtime agree: it is copied, by its size, or reduced. `op` is a
 * dt_reduction_op, `width` says of f16 and bf16 what is in f32. */
#define DT_REDUCTION_KIND_COPY(element_bytes) ((int64_t)(element_bytes))
#define DT_REDUCTION_KIND(dtype, op, width) (16 + 128 * (int64_t)(width) + 4 * (dtype) + (op))

/* X(name, suffix of the type in the generated function, meaning) */
#define DT_REDUCTION_WIDTHS(X)                                                                                                                       \
    X(ALIKE, "", "sources and targets are of the type")                                                                                              \
    X(WIDE_TARGETS, "_to_f32", "targets are f32, and nothing is rounded")                                                                            \
    X(WIDE_SOURCES, "_from_f32", "sources are f32")

typedef enum dt_reduction_width {
#define X(name, suffix, meaning) DT_REDUCTION_##name,
    DT_REDUCTION_WIDTHS(X)
#undef X
} dt_reduction_width;

enum {
    DT_REDUCTION_DEPTH = 20 /* open sums of an element: what a tree of up to 2^20 leaves has at a time */
};

/* X(name, meaning): eight bytes a field. `values`, `target`, `others`, `sources` and `parts` are addresses. */
#define DT_REDUCTION_SOURCE_FIELDS(X)                                                                                                                \
    X(values, "of a subtree of the tree, or of one leaf")                                                                                            \
    X(span, "how many leaves that are: a power of two")

#define DT_REDUCTION_PART_FIELDS(X)                                                                                                                  \
    X(target, "where the result goes")                                                                                                               \
    X(others, "an array of addresses of further targets, in this GPU's memory or in another's")                                                      \
    X(n_others, "0 or more")                                                                                                                         \
    X(sources, "in the order of their leaves")                                                                                                       \
    X(n_sources, "1 or more")                                                                                                                        \
    X(first, "elements of all parts before it")                                                                                                      \
    X(kind, "what is done")

#define DT_REDUCTION_WORK_FIELDS(X)                                                                                                                  \
    X(parts, "an array")                                                                                                                             \
    X(n_parts, "1 or more")                                                                                                                          \
    X(n_elements, "of all parts")

#define X(name, meaning) int64_t name;
typedef struct dt_reduction_source {
    DT_REDUCTION_SOURCE_FIELDS(X)
} dt_reduction_source;

typedef struct dt_reduction_part {
    DT_REDUCTION_PART_FIELDS(X)
} dt_reduction_part;

typedef struct dt_reduction_work {
    DT_REDUCTION_WORK_FIELDS(X)
} dt_reduction_work;
#undef X

#endif
