/* stages: a model whose layers are spread over processes (--stages S), so that each has some of its kernels, variables and activations.
 *
 * Kernels that replicas run stand by layers (dt_artifact_kernel), and layers that have the same parameters belong together: a block forwards and
 * backwards, in training and in evaluation. So do layers that add to one sum, such as the two uses of a tied table. What belongs together is cut
 * into S runs, in the order in which a microbatch first comes by, so that arithmetic balances. Everything else follows from what kernels read and
 * write:
 *
 *   units      a microbatch goes through runs of kernels, each on one stage. What a unit reads and another stage has written crosses before it
 *   nests      that run once are computed where what they read is, if somebody wants what they write; where that is in several places, small things
 *              go to all who want them, and each computes the same
 *   variables  are where anybody reads or writes them. One that several stages read is updated by one of them, which hands it to the others
 *
 * All of it is a pure function of the artifact and S, which all processes compute alike. No order of sums depends on it. */
#ifndef DT_RUNTIME_EXECUTION_STAGES_H
#define DT_RUNTIME_EXECUTION_STAGES_H

#include "base/arena.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DT_MOST_STAGES = 64
};

/* Which stages: bit s is stage s. */
typedef uint64_t dt_stage_set;

/* Replica kernels [first, end) of a segment, those of one stage that follow one another. */
typedef struct dt_stage_unit {
    int stage, first, end;
    double flops; /* for a row */
} dt_stage_unit;

/* What of a microbatch crosses from a stage to another: a root, when unit `after` of segment `made` has run, before unit `before` of segment `used`.
 */
typedef struct dt_stage_crossing {
    int root, from, to;
    int made, after;
    int used, before;
} dt_stage_crossing;

/* What is there once, and crosses from one stage to others: in a segment after number `after` of the kernels that run once, or where that is as many
 * as there are after the segment's collectives. */
typedef struct dt_stage_handing {
    int segment, after;
    int root, from;
    dt_stage_set to;
} dt_stage_handing;

typedef struct dt_staged_segment {
    int n_units;
    const dt_stage_unit *units;
    const dt_stage_set *takers;      /* [stages] who takes in this segment what a stage makes in it of a microbatch; NULL: anybody may */
    const dt_stage_set *collectives; /* [n_collectives] who takes part: whose the microbatches' sources are; of what is there once who combines it */
} dt_staged_segment;

typedef struct dt_staged_function {
    const dt_staged_segment *segments; /* [n_segments] */
    int n_crossings, n_handings;
    const dt_stage_crossing *crossings; /* in the order in which they are made */
    const dt_stage_handing *handings;   /* in order */
    const dt_stage_set *const *runs;    /* [n_kernels][n_nests] of kernels that run once: who runs the nest */
    const dt_stage_set *kernels;        /* [n_kernels] who runs any of it */
    const dt_stage_set *has;            /* [n_buffers] roots: who has it */
} dt_staged_function;

typedef struct dt_stages {
    int n;
    const dt_staged_function *functions; /* [n_functions]; of one that is not wanted zeros */
    const dt_stage_set *variables;       /* [n_variables] who has it */
} dt_stages;

/* Which stage each kernel that replicas run is on (stages_cut.c). */
typedef struct dt_stage_cut {
    int *const *kernels; /* [n_functions][n_kernels] */
} dt_stage_cut;
dt_status *dt_stage_cut_of(const dt_artifact *artifact, int wanted, int n_stages, dt_arena *arena, dt_stage_cut *cut);

/* Of the functions that dt_memory_has says are wanted. Errors: DT_INVALID_ARGUMENT, more stages than the model can be cut into. */
dt_status *dt_stages_of(const dt_artifact *artifact, int wanted, int n_stages, dt_arena *arena, const dt_stages **stages);

static inline bool dt_stage_is_in(dt_stage_set set, int stage) { return (set >> stage & 1) != 0; }
static inline dt_stage_set dt_stage_only(int stage) { return (dt_stage_set)1 << stage; }
static inline dt_stage_set dt_stages_all(int n) { return n == DT_MOST_STAGES ? ~(dt_stage_set)0 : ((dt_stage_set)1 << n) - 1; }
static inline int dt_stage_first(dt_stage_set set) { return __builtin_ctzll(set); } /* of one that is not empty */

#endif
