/* stages: what each process has of a step, and of a model that is cut into stages does, and how long a step may take, for people. */
#ifndef DT_RUNTIME_ABOUT_STAGES_H
#define DT_RUNTIME_ABOUT_STAGES_H

#include "runtime/comm/mesh.h"
#include "runtime/execution/memory.h"

/* A step, as the processes run it that have most microbatches. */
typedef struct dt_about_step {
    const dt_artifact *artifact;
    const dt_stages *stages; /* NULL: every process has all layers */
    int function;
    dt_mesh mesh; /* of a process of the first stage */
    dt_sharing sharing;
    int n_rounds; /* in which parameters are gathered */
    const dt_device_kind *kind;
    dt_microbatches rows;
    int n_microbatches, n_all_microbatches; /* of the process; of all */
} dt_about_step;

/* What can be computed, and sent, in a second, and how long a message takes; 0: not said. */
typedef struct dt_about_rates {
    double flops, bandwidth, latency;
} dt_about_rates;

/* What a process sends in a step, at most. */
typedef struct dt_about_traffic {
    double within_bytes, within_messages; /* of these for microbatches, over shards: as often as there are messages somebody waits */
    double stage_bytes;                   /* to the next stage, for a microbatch */
    double end_bytes, end_rounds;         /* at the end of segments, over replicas */
} dt_about_traffic;

/* A line on the memory of a process of one core, whose model is not cut into stages. */
void dt_about_memory(const dt_about_step *step, dt_text *text, dt_arena *arena);

/* A table of stages: shares of the arithmetic, memory, microbatches under way, and how long each is idle, in order. */
void dt_about_stages(const dt_about_step *step, dt_text *text, dt_arena *arena);

/* A sentence on the time of a step, where `flops` is said. */
void dt_about_seconds(const dt_about_step *step, const dt_about_rates *rates, const dt_about_traffic *traffic, dt_text *text, dt_arena *arena);

#endif
