/* partial_sums: the order in which an executor adds up what its microbatches leave, and where it lies meanwhile.
 *
 * Sums over all microbatches follow one fixed tree (runtime/devices/reduce.h). Of that tree an executor adds up what it can as soon as it can, like a
 * binary counter: when both halves of a subtree are there, the right one is added to the left one and its memory serves the next microbatch. So an
 * executor of n microbatches needs memory for log2(n) + 1 of them (twice that, if its first microbatch is in the middle of a subtree), and what is
 * added is still in cache. The additions that its last microbatches make possible, those that go through a segment together, are left to the
 * collective, which makes them together with those of other executors, in one pass. All of it is known when a session is created. */
#ifndef DT_RUNTIME_EXECUTION_PARTIAL_SUMS_H
#define DT_RUNTIME_EXECUTION_PARTIAL_SUMS_H

#include "base/arena.h"

#include <stdbool.h>

/* After microbatch `after`, what lies in slot `right` is added to what lies in slot `left`. */
typedef struct dt_partial_merge {
    int after, left, right;
} dt_partial_merge;

typedef struct dt_partial_sums {
    int n_slots;
    int *slots; /* [n_microbatches] where each leaves its values */
    int *spans; /* [n_microbatches] in the end: the sum of so many microbatches lies where this one's values lay; 0: they are in a sum before */
    int n_merges;
    dt_partial_merge *merges; /* in order */
} dt_partial_sums;

/* For an executor's microbatches [first_microbatch, first_microbatch + n_microbatches) of n_all_microbatches, the last n_together of them together:
 * at least 1. n_at_once: so many may be under way at a time, each of which begins when the one so many before it is done; 1: one after another. */
dt_partial_sums dt_partial_sums_plan(dt_arena *arena, int first_microbatch, int n_microbatches, int n_together, int n_at_once,
                                     int n_all_microbatches);

#endif
