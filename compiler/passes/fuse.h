/* fuse: what the files of the pass share. fuse_groups.c says what is in memory and which nest computes it, fuse_loops.c where loops have what enters
 * and leaves their bodies, fuse_kernels.c which nests share a kernel, fuse_layers.c where that ends with a layer, fuse_library.c what libraries need
 * in memory, fuse_epilogue.c what they can do after a product, fuse_rematerialize.c what is cheaper to recompute than to store, fuse_narrow.c what is
 * better stored as a bool, fuse_recompute.c what gradients compute again, and fuse.c makes the plan of it. */
#ifndef DT_PASSES_FUSE_H
#define DT_PASSES_FUSE_H

#include "abi/library.h"
#include "compiler/kernel/lower.h"
#include "compiler/passes/passes.h"

typedef DT_LIST(const dt_value *) dt_value_list;

/* What is known of a value. */
typedef struct dt_placement {
    const dt_value *base; /* itself, or what it is an alias of; of a sum plus what is scattered onto it: the scatter */
    int producer;         /* the last group that it depends on, -1: none */
    const dt_value *onto; /* of a scatter: the sum in whose memory it adds, which nobody else reads; NULL: it begins with zeros */
    bool in_place;        /* computed there element by element: element i needs element i of that group alone */
    int group;            /* the group that computes it; -1: none, it is an argument or computed where it is used */
    bool required;        /* must be in memory of its own: a result, what a collective takes */
    bool stored;          /* is in memory */
    int operations;       /* scalar operations of computing an element of its operands */
    int cost;             /* the same, with all that is computed along */
    int walk;             /* the last walk through operands that has met it */
    int cost_to_derive;   /* 1 + operations that this takes; 0: nobody has asked */
    int derived;          /* 1: it can be computed elsewhere from what its group stores anyway; -1: it cannot; 0: nobody has asked */
    dt_value_list users;
} dt_placement;

/* How a group goes through the rows of the batch. */
typedef enum dt_row_kind {
    DT_ROWS_NONE,
    DT_ROWS_WALKED, /* its outermost loop walks them */
    DT_ROWS_SUMMED  /* it sums over them, and something of each row: the sum is kept in memory from row to row */
} dt_row_kind;

/* Ops that become one loop nest, or a collective; groups run in the order of their numbers. */
typedef struct dt_fusion_group {
    const dt_value *collective; /* or NULL */
    int source;                 /* buffer that the collective takes */
    bool is_within;             /* the collective stands between two kernels of its segment (kernel.h): behind the one that `kernel` says */
    dt_cluster cluster;
    int producer;        /* the last group that it needs */
    dt_value_list reads; /* values in memory, of several elements, that it goes through */
    int segment;
    int depth;                             /* behind so many collectives, one after another: replicas run no kernel of groups of two depths */
    int layer;                             /* (fuse_layers.c) of what replicas run, in the order in which those of a segment run; of others -1 */
    const dt_plan_loop *loop;              /* whose body it is in; NULL: none. Kernels do not go beyond a body */
    bool replicated, sharded, elementwise; /* sharded: another for each of a model's shards (compiler/passes/shard.c) */
    dt_row_kind rows;
    bool alone; /* a sum of products that needs many rows at a time: not in a row loop */
    int by_row; /* known before kernels are: 1: its nest goes row by row, -1: as its loops stand, which may add up in another order; 0: not known */
    bool late;  /* in no kernel before it has to be: what it stores to is large, and takes no memory until then */
    bool again; /* the copy of an earlier group, for those that follow it: in no segment before theirs */
    int kernel;
} dt_fusion_group;

/* A kernel in the making: groups that share a loop over the rows first, then those after that loop. */
typedef struct dt_fused_kernel {
    DT_LIST(int) groups;
    int segment, depth, layer;
    const dt_plan_loop *loop;
    bool once;              /* run once for all replicas, not once for each */
    bool sharded;           /* run for each shard */
    bool in_rows;           /* its row groups share one loop over the rows */
    bool closed;            /* something follows the row loop, or it sums enough */
    int64_t n_summed_bytes; /* of what it adds up over the rows */
} dt_fused_kernel;

/* What one group reads of another. */
typedef struct dt_need {
    int group;
    bool by_row; /* only the row at hand */
} dt_need;

typedef struct dt_needs {
    DT_LIST(dt_need) groups;
    DT_LIST(int) variables; /* buffers of those read, */
    size_t n_of_roots;      /* so many by its roots */
} dt_needs;

typedef struct dt_fusion {
    dt_compilation *compilation;
    dt_arena *arena;
    dt_lowering *lowering;
    dt_plan *plan;
    dt_placement *placements; /* [next_id] */
    DT_LIST(dt_fusion_group) groups;
    DT_LIST(dt_fused_kernel) kernels;
    bool has_layers;       /* some segment has several */
    bool by_layer;         /* no kernel goes beyond one */
    const bool *keep;      /* [next_id] values to store rather than to compute again */
    const bool *recompute; /* [next_id] values to compute again rather than to store */
    int n_inputs;
    int n_walks;
    dt_value **bodies;          /* [next_id] (ir/body.h) */
    dt_value **advances;        /* [next_id] */
    int *parts;                 /* [next_id] of an advance and a stack: the buffer that an iteration stores to */
    bool *is_replicated;        /* [next_id] of a loop */
    const dt_plan_loop **loops; /* [next_id] of a loop */
    const dt_plan_loop *loop;   /* in whose body the walk through the values is */
} dt_fusion;

static inline dt_placement *dt_placement_of(const dt_fusion *fusion, const dt_value *value) { return &fusion->placements[value->id]; }

/* What a library can do to `of`, which is the sum of a group or what becomes of it, before it is stored; a gradient needs `second` for that. */
typedef struct dt_epilogue {
    dt_library_activation activation;
    const dt_value *of, *second;
    int result, kept; /* buffers, once all of the group is known to be that; kept: abi/library.h, -1: none */
} dt_epilogue;

/* Whether every replica computes the same: then it is computed once for all of them. What is in a loop is, if all of that loop is. */
bool dt_fusion_is_replicated(const dt_fusion *fusion, const dt_value *value);
/* Whether a group computes for the same: for all replicas or for each, for all shards or for each. */
bool dt_fusion_runs_as(const dt_fusion *fusion, const dt_fusion_group *group, const dt_value *value);
/* Stores `value` to a buffer besides its own, where the walk is: in the nest that computes it, if that is there, or else in one that copies it.
 * Returns the group. */
int dt_fusion_store(dt_fusion *fusion, const dt_value *value, int buffer, bool replicated);
/* The same, where a nest that copies it runs as late as it can. */
int dt_fusion_store_late(dt_fusion *fusion, const dt_value *value, int buffer, bool replicated);
/* Memory in which the elements of `value` lie in order, or as its own shape says where that is a view; *producer: the last group that writes it. */
int dt_fusion_memory(dt_fusion *fusion, const dt_value *value, int *producer);

/* ---- fuse_loops.c ---- */
void dt_fuse_prepare_loops(dt_fusion *fusion);
/* Places a value of class LOOP. */
void dt_fuse_place_loop(dt_fusion *fusion, const dt_value *value);

/* Switched off, nothing follows or shares: each value has a group, and each group a kernel. */
bool dt_fusion_is_on(const dt_fusion *fusion);
int dt_fusion_buffer(dt_fusion *fusion, const dt_value *value); /* of a stored value; made when new */

/* Whether an operand is read where the loops stand: dimension d at loop d, of the same extent. */
bool dt_access_is_in_place(const dt_loops *loops, const dt_access *access, dt_shape shape);

/* Whether the target has libraries, and they are to be asked. */
bool dt_fusion_has_library(const dt_fusion *fusion);
/* Whether a group is a sum of products that a library is to compute if it can. */
bool dt_fusion_wants_library(const dt_fusion *fusion, const dt_fusion_group *group);
/* Whether its sum is in memory then, because what follows it is more than a library can do. */
bool dt_fusion_stores_sum(const dt_fusion *fusion, const dt_fusion_group *group);

/* What a library can do of all that the group stores, as far as it is more than a bias and a relu; false: nothing, or not all. */
bool dt_fusion_epilogue(const dt_fusion *fusion, const dt_fusion_group *group, dt_epilogue *epilogue);

/* Whether the nest of a group of the kernel goes row by row. */
bool dt_fusion_goes_by_row(const dt_fusion *fusion, const dt_fused_kernel *kernel, const dt_fusion_group *group);

void dt_fuse_groups(dt_fusion *fusion);
void dt_fuse_kernels(dt_fusion *fusion);
/* Groups have their nests for good, in whatever kernels they are from now on: sums row by row may be added up in another order. */
void dt_fuse_keep_forms(const dt_fusion *fusion);
/* How many in a hundred elements of a value are zero, about, as far as the graph knows (fuse_zeros.c). */
int dt_fusion_zeros(const dt_fusion *fusion, const dt_value *value);
/* Gives groups their layers, which have their segments; needs: [groups]; order: in which they go to kernels. */
void dt_fuse_layers(dt_fusion *fusion, const dt_needs *needs, const int *order);
/* Mark values to keep, or to compute again, when the function is fused once more; false: there are none. */
bool dt_fuse_epilogues(const dt_fusion *fusion, bool *keep, bool *recompute);
bool dt_fuse_factors(const dt_fusion *fusion, bool *keep);
bool dt_fuse_rematerialize(const dt_fusion *fusion, bool *keep, bool *recompute);
bool dt_fuse_narrow(const dt_fusion *fusion, bool *keep);
/* When all is decided: copies groups that compute what calls of the program say is not to be kept. Where there are some, there are no kernels then.
 */
dt_status *dt_fuse_recompute(dt_fusion *fusion);

#endif
