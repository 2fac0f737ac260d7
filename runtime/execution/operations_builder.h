/* operations_builder: a list of operations (operations.h) on the way, for the files that it is made by: operations.c, operations_stages.c. */
#ifndef DT_RUNTIME_EXECUTION_OPERATIONS_BUILDER_H
#define DT_RUNTIME_EXECUTION_OPERATIONS_BUILDER_H

#include "runtime/execution/operations.h"

/* The list of one function, on the way. */
typedef struct dt_operations_builder {
    const dt_operations_options *options;
    const dt_executor_memory *memory;
    const dt_artifact_function *function;
    int number; /* of the function */
    int slot;
    int shard;                    /* of those that are held: whose sharded buffers are meant */
    const dt_artifact_step *step; /* whose function it is; NULL: it is no step's */
    int n_aggregates;
    int collective;                  /* number of the next one */
    int within;                      /* number of the first one within the segment, which microbatches have each for itself */
    int segment, position;           /* of the next launch: which one of its segment it is, for a microbatch */
    int64_t *iterations;             /* [n_loops] where the launches to be added are */
    const dt_segment_layers *layers; /* [n_segments] NULL: all parameters are whole */
    const dt_layer *layer;           /* whose parameters are gathered, in this place of the domain; NULL: none */
    int place;
    int handed; /* of a stage: number of the first collective of the segment that crosses stages */
    bool apart; /* executors of the domain have done something each for itself since they last met */
    dt_arena *arena;
    dt_operations made;
} dt_operations_builder;

typedef DT_LIST(dt_collective_part) dt_part_list;

/* ---- operations.c ---- */

/* Where a buffer is, for a microbatch and in->shard; NULL: this stage does without it. */
char *dt_builder_address(const dt_operations_builder *in, int buffer, int microbatch);
/* How often something is there: for each held shard, or once. */
int dt_builder_n_copies(const dt_operations_builder *in, bool sharded);
/* Rows that a buffer holds for a microbatch, of all; 1 of a tensor without. */
int64_t dt_builder_n_rows(const dt_operations_builder *in, const dt_artifact_tensor *tensor, int microbatch);
/* Starts a nonblocking collective, of n parts, or waits for it. */
void dt_builder_add_nonblocking(dt_operations_builder *in, dt_operation_kind kind, int first, int n);
/* Reductions that are made together, which the caller fills in; and one that copies n elements. */
dt_tree_reduction *dt_builder_add_reductions(dt_operations_builder *in, int n);
dt_tree_reduction dt_builder_copy(dt_operations_builder *in, dt_dtype dtype, const void *from, void *to, size_t n);
/* Kernels [first, end) of the segment's for replicas, with what stands behind each of them, for microbatches [m, n), which are together: each has
 * scratch of its own. Where what combines shards crosses, that of one microbatch is under way while others are computed. */
void dt_builder_add_kernels(dt_operations_builder *in, int s, int first, int end, int m, int n);
/* Of the segment's partial sums, or a layer's, what `microbatch` makes complete: merges from number m on. Returns the first one that has to wait. */
int dt_builder_add_merges(dt_operations_builder *in, const dt_artifact_segment *segment, const dt_layer *layer, const dt_partial_sums *sums,
                          int microbatch, int m);

/* ---- operations_stages.c: of a stage ---- */

/* What of the segment crosses stages, in parts, which are the same of all stages; how many these are. */
void dt_builder_append_stage_parts(dt_operations_builder *in, int s, dt_part_list *parts);
int dt_builder_n_stage_parts(const dt_operations_builder *in, int s);
/* What is handed to other stages after one of kernels [first, end) that run once; or, of as many as there are, after the segment's collectives. */
void dt_builder_add_handings(dt_operations_builder *in, int s, int first, int end);
/* All microbatches through the units that are the stage's, in its order. */
void dt_builder_add_units(dt_operations_builder *in, int s);
/* Results with rows, to the stages that have not made them. */
void dt_builder_add_results(dt_operations_builder *in);
/* Whether of kernel k, which it runs, it does without what that writes into the root. */
bool dt_builder_is_left_out(const dt_operations_builder *in, int k, int root);
/* Whether a collective is the stage's. */
bool dt_builder_is_of_stage(const dt_operations_builder *in, const dt_artifact_collective *collective);

#endif
