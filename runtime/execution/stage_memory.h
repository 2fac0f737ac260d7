/* stage_memory: where a stage has what it has (stages.h).
 *
 * Buffers that it does without take no memory: the others move together, and what shares memory in the plan does so here. As several microbatches are
 * under way at a time, each has scratch of its own. What arrives from another stage within a segment has a place of its own for each of them, and one
 * more, which the next one comes to meanwhile. There it stays, but for what the stage has had before, and gets back when others have written more of
 * it: that is where it was. */
#ifndef DT_RUNTIME_EXECUTION_STAGE_MEMORY_H
#define DT_RUNTIME_EXECUTION_STAGE_MEMORY_H

#include "runtime/execution/stage_order.h"

typedef struct dt_stage_places {
    int64_t *offsets;  /* [n_buffers] roots that the stage has: within their space */
    int64_t *arrivals; /* [n_crossings] what arrives while others are computed: within a place for what arrives; -1: it does not */
    int *arrived;      /* [n_buffers] roots that stay where they arrived: with which crossing; -1: it is in its space */
    bool *is_across;   /* [n_buffers] sums that several units of the stage add to */
} dt_stage_places;

typedef struct dt_stage_memory {
    const dt_stage_places *functions; /* [n_functions]; of one that is not wanted zeros */
    dt_space_bytes bytes;             /* the most of a function */
    int64_t across_bytes;             /* the same of sums that several units add to, which are not among those of `partial` */
    int64_t arrival_bytes;            /* the same of what arrives, for a shard */
} dt_stage_memory;

/* Of the functions that dt_memory_has says are wanted. */
const dt_stage_memory *dt_stage_memory_of(const dt_artifact *artifact, int wanted, const dt_stages *stages, int stage, dt_arena *arena);

/* Roots in one space move together, those that are kept: what shares memory goes on to. Their offsets are set. Returns where the last one ends. */
int64_t dt_close_gaps(const dt_artifact_function *function, const bool *kept, int64_t *offsets, dt_arena *arena);

#endif
