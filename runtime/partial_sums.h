/* partial_sums: the order in which a lane adds up what its leaves leave, and where it lies meanwhile.
 *
 * Sums over all leaves follow one fixed tree (runtime/comm/fold.h). Of that tree a lane adds up what it can as soon as it can, like a binary counter:
 * when both halves of a subtree are there, the right one is added to the left one and its memory serves the next leaf. So a lane of n leaves needs
 * memory for log2(n) + 1 of them (twice that, if its first leaf is in the middle of a subtree), and what is added is still in cache. The additions
 * that its last leaf makes possible are left to the exchange, which makes them together with those of other lanes, in one pass. All of it is known
 * when a session is created. */
#ifndef DT_RUNTIME_PARTIAL_SUMS_H
#define DT_RUNTIME_PARTIAL_SUMS_H

#include "base/arena.h"

#include <stdbool.h>

/* After leaf `after`, what lies in slot `right` is added to what lies in slot `left`. */
typedef struct dt_partial_merge {
    int after, left, right;
} dt_partial_merge;

typedef struct dt_partial_sums {
    int n_slots;
    int *slots; /* [n_leaves] where each leaf leaves its values */
    int *spans; /* [n_leaves] in the end: the sum of so many leaves lies where leaf l's values lay; 0: they are in a sum before */
    int n_merges;
    dt_partial_merge *merges; /* in order */
} dt_partial_sums;

/* For a lane's leaves [first_leaf, first_leaf + n_leaves) of n_all_leaves. Without `merges` each leaf has a slot of its own. */
dt_partial_sums dt_partial_sums_plan(dt_arena *arena, int first_leaf, int n_leaves, int n_all_leaves, bool merges);

#endif
