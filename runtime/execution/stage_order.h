/* stage_order: in which order a stage does what of which microbatch: one forward, one backward (1F1B).
 *
 * Each microbatch goes through units 0 to n - 1, each on a stage, and through one unit the microbatches go in their order. Of what can go on, a stage
 * does what is furthest, or all of them what is nearest, or shortest, where that ends sooner, as it does where a microbatch comes by several times,
 * for units of several lengths. It begins a microbatch only while few are under way on it, so that memory is for few, however many there are: no more
 * than keep it busy, and at most as many as there are stages, or one more where a microbatch comes by more than twice. With a forward and a backward
 * unit on each of S stages that is the schedule of Narayanan et al., PipeDream (SOSP 2019) and Memory-Efficient Pipeline-Parallel DNN Training (ICML
 * 2021): stage s has S - s under way, and of m microbatches' time each stage is idle for (S - 1) / m.
 *
 * A stage has places for what comes of the microbatches under way, and of one more. Who is ahead of that waits, so that what a stage sends of a
 * microbatch can be taken before it puts another one in its place: no order waits for ever.
 *
 * A pure function of numbers, which every process computes for all stages. */
#ifndef DT_RUNTIME_EXECUTION_STAGE_ORDER_H
#define DT_RUNTIME_EXECUTION_STAGE_ORDER_H

#include "runtime/execution/stages.h"

/* A microbatch through a unit. */
typedef struct dt_stage_task {
    int unit, microbatch;
} dt_stage_task;

typedef struct dt_stage_order {
    int n;
    const dt_stage_task *tasks; /* [n] of one stage, in order */
    int n_in_flight;            /* most microbatches that have begun on it, and not ended: 1 where there are none */
    double busy, end;           /* how long it computes, and when the last stage is done, in the units' flops */
} dt_stage_order;

/* Of all stages [n_stages], for so many microbatches. */
const dt_stage_order *dt_stage_orders(const dt_staged_segment *segment, int n_stages, int n_microbatches, dt_arena *arena);

#endif
