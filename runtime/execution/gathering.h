/* gathering: where processes have parameters in shares (--shard-parameters), which of them are gathered for which kernels, and where they then are.
 *
 * The kernels that replicas run are cut into layers (dt_artifact_kernel). All microbatches of an executor go through a layer together, or, where
 * there is no memory for that, those of a round, and then the next round's: the layer's parameters are gathered before, kernels that lay them out run
 * then, once, and behind it both are dropped. A kernel that runs once and takes parameters whole, such as a penalty on weights, is a layer of its
 * own. Layers lie in two places by turns, so that the next one's parameters arrive while one is computed. In the last round a layer's sums leave
 * behind it; of one round they lie in two places as well. Rajbhandari, Rasley, Ruwase and He, ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models (SC 2020), stage 3.
 *
 * An update finds each process's own shares where they are, and touches nothing else. Of a model in shards there is a part of a layer's parameters,
 * of its sums, and of their shares, for each shard that is held, one behind the other. */
#ifndef DT_RUNTIME_EXECUTION_GATHERING_H
#define DT_RUNTIME_EXECUTION_GATHERING_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"
#include "runtime/comm/group.h"

#include <stdbool.h>
#include <stdint.h>

/* Share `share` of n_shares: 0 of 1 is all, 0 of DT_SHARE_NONE nothing. */
typedef struct dt_held_share {
    int share, n_shares;
} dt_held_share;

/* A buffer in a layer's place. */
typedef struct dt_gathered {
    int buffer;             /* a root: of a variable that is gathered, or what a kernel lays out */
    int variable;           /* -1: laid out */
    int64_t offset, stride; /* from a held shard to the next; 0 of what all shards have */
} dt_gathered;

typedef struct dt_layer {
    int first, end;             /* of the segment's replica kernels; nothing of one for a kernel that runs once */
    int n_variables, n_buffers; /* that are gathered; with what is laid out */
    const dt_gathered *buffers; /* [n_buffers] variables first, each once */
    int n_kernels;
    const int *kernels; /* [n_kernels] that lay out, in order */
    int64_t bytes;
    int n_sums;      /* of shares, that leave with the layer: all that is added to them is there */
    const int *sums; /* [n_sums] of the segment's collectives */
    int sum_place;   /* layers with sums take turns */
} dt_layer;

typedef struct dt_segment_layers {
    int n;
    dt_layer *layers;     /* [n] in order: all replica kernels; what needs nothing is a layer too */
    const dt_layer *once; /* [n_device_kernels] of the segment, of a loop the first: without variables but where some are taken whole */
} dt_segment_layers;

typedef enum dt_sum_kind {
    DT_SUM_STAYS,  /* until the segment's collectives */
    DT_SUM_LEAVES, /* with the layer that makes all of it */
    DT_SUM_ACROSS  /* several layers add to it: each microbatch has its own */
} dt_sum_kind;

/* Where a root of the space PARTIAL is, within one slot. */
typedef struct dt_sum_placing {
    dt_sum_kind kind;
    int place; /* LEAVES; 0 of several rounds */
    int64_t offset;
} dt_sum_placing;

#define DT_NOT_PLACED ((int64_t)-1)

/* Of a function. */
typedef struct dt_gathered_function {
    const dt_segment_layers *segments; /* [n_segments] */
    bool *is_laid_out;                 /* [n_kernels] it lays out for layers, and runs with these alone */
    dt_sum_placing *sums;              /* [n_buffers] of roots in PARTIAL */
    int64_t *device;                   /* [n_buffers] of roots in DEVICE: the offset; of sums of shares that of the share; NOT_PLACED: in a layer's
                                          place */
    dt_share *shares;                  /* [n_buffers] of these sums: how they are cut; of others unit 0 */
} dt_gathered_function;

/* What has the rows of all replicas is where the plan has it. */
typedef struct dt_gathering {
    dt_gathered_function *functions;      /* [n_functions] `segments` NULL: one that is not wanted, or that no rows go through */
    int64_t bytes;                        /* of the largest layer */
    int64_t device_bytes;                 /* of a shard */
    int64_t sum_bytes[DT_SUM_ACROSS + 1]; /* of a slot, and a shard, by kind; of LEAVES in one place, and of several rounds of all */
} dt_gathering;

/* Of the functions that dt_memory_has says are wanted, in the process that owns `own`, of so many shards, with so many rounds. */
const dt_gathering *dt_gathering_of(const dt_artifact *artifact, int wanted, dt_held_share own, int n_shards, int n_rounds, dt_arena *arena);

/* Where a root is for a held shard, from the layer's beginning; -1: it is elsewhere. */
int64_t dt_layer_offset(const dt_layer *layer, const dt_artifact_buffer *buffers, int root, int shard);

/* Whether processes have shares of a variable where they have parameters in shares. */
static inline bool dt_is_gathered(const dt_artifact_variable *variable) {
    return variable->kind != DT_VARIABLE_SLOT && variable->share.unit > 0 && !variable->by_rows;
}

#endif
