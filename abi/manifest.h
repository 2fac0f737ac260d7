/* manifest: what the parts of a compilation and the runtime have to call by the same name, one table each. Front end and passes use the enumerators,
 * the graph's text form and an artifact's manifest the names; who writes and who reads them finds both here. */
#ifndef DT_ABI_MANIFEST_H
#define DT_ABI_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

/* A buffer begins at a multiple of DT_BUFFER_ALIGNMENT. Vector code may read, never write, DT_SLACK_BYTES after a buffer, an input or a result. */
enum {
    DT_BUFFER_ALIGNMENT = 64,
    DT_SLACK_BYTES = 64
};

/* X(enumerator, name, meaning): where the memory of a buffer is. Offsets are given by plan_memory within each space. */
#define DT_MEMORY_SPACES(X)                                                                                                                          \
    X(VARIABLE, "variable", "a variable of the module, once a memory")                                                                               \
    X(INPUT, "input", "rows of a step's input, from the microbatch's first one")                                                                     \
    X(DEVICE, "device", "once a memory, which cores share: replicated values, and what collectives deliver")                                         \
    X(REPLICA, "replica", "once for each microbatch: what lives across segments, results, what collectives take and is not PARTIAL")                 \
    X(PARTIAL, "partial",                                                                                                                            \
      "once for each partial sum that a core has open: what one segment computes, an all_reduce or reduce_scatter takes and nobody else needs. "     \
      "Microbatches are summed as they are done, and the memory of what is summed serves the next ones")                                             \
    X(SCRATCH, "scratch", "once a core, reused by microbatch after microbatch: what lives within one segment")                                       \
    X(CONSTANT, "constant", "read-only bytes in the artifact")

/* X(enumerator, name, meaning): what a function is for. */
#define DT_FUNCTION_ROLES(X)                                                                                                                         \
    X(INIT, "init", "no inputs; writes every variable its initial value")                                                                            \
    X(STEP, "step", "inputs over the global batch (B)")                                                                                              \
    X(REPORT, "report", "inputs: f64 totals of a step's aggregates; results: its reports, f64")                                                      \
    X(EXAMPLE, "example", "a pipeline's map or filter, over one example; no B")                                                                      \
    X(ROWS, "rows", "of a step, for tables of which it takes rows: ir/graph.h, dt_row_form")

/* X(enumerator, name, meaning): what crosses replicas, or shards of the model. */
#define DT_COLLECTIVES(X)                                                                                                                            \
    X(ALL_REDUCE, "all_reduce", "the replicas' values, combined; everyone has the result")                                                           \
    X(ALL_GATHER, "all_gather", "the replicas' rows, side by side; everyone has them")                                                               \
    X(REDUCE_SCATTER, "reduce_scatter", "the replicas' values, combined; each replica has its own rows")                                             \
    X(SHARD_REDUCE, "shard_reduce", "within a replica: the shards' values, combined; all shards have the result")

enum {
    DT_MOST_SHARDS = 64 /* of a model */
};
static inline bool dt_shards_are_valid(int64_t n) { return n >= 1 && n <= DT_MOST_SHARDS && (n & (n - 1)) == 0; } /* a power of two */
/* Elements of each shard's part of a dimension that is `groups` tensors of equal length side by side, of each of which every shard has a part. Where
 * the shards cannot share it evenly, the last ones have fewer of the whole's elements, and padding, zeros, behind them. */
static inline int64_t dt_shard_extent(int64_t extent, int64_t groups, int64_t n_shards) {
    return groups * ((extent / groups + n_shards - 1) / n_shards);
}
/* Whether the last shard has one of so many elements. */
static inline bool dt_shards_all_have(int64_t extent, int64_t n_shards) { return (n_shards - 1) * dt_shard_extent(extent, 1, n_shards) < extent; }

/* X(enumerator, name, meaning): how a collective combines elements. */
#define DT_REDUCTION_OPS(X)                                                                                                                          \
    X(SUM, "sum", "in the order of the tree")                                                                                                        \
    X(MAX, "max", "the greatest")                                                                                                                    \
    X(MIN, "min", "the least")

/* X(enumerator, name, meaning): how a total grows from step to step. */
#define DT_AGGREGATES(X)                                                                                                                             \
    X(SUM, "sum", "by what the step adds")                                                                                                           \
    X(MIN, "min", "to the least so far")                                                                                                             \
    X(MAX, "max", "to the greatest so far")                                                                                                          \
    X(LAST, "last", "it is the newest")

/* X(enumerator, name, meaning) */
#define DT_VARIABLE_KINDS(X)                                                                                                                         \
    X(PARAMETER, "parameter", "what training changes: model.safetensors")                                                                            \
    X(STATE, "state", "what a layer keeps: model.safetensors")                                                                                       \
    X(SLOT, "slot", "what an optimizer keeps: optimizer.safetensors")                                                                                \
    X(LAUNCH, "launch", "a scalar that no step writes and a run is given: progress.json")

typedef enum dt_memory_space {
#define X(enumerator, name, meaning) DT_MEMORY_##enumerator,
    DT_MEMORY_SPACES(X)
#undef X
} dt_memory_space;

typedef enum dt_function_role {
#define X(enumerator, name, meaning) DT_ROLE_##enumerator,
    DT_FUNCTION_ROLES(X)
#undef X
} dt_function_role;

typedef enum dt_collective_kind {
#define X(enumerator, name, meaning) DT_COLLECTIVE_##enumerator,
    DT_COLLECTIVES(X)
#undef X
} dt_collective_kind;

typedef enum dt_reduction_op {
#define X(enumerator, name, meaning) DT_REDUCTION_##enumerator,
    DT_REDUCTION_OPS(X)
#undef X
} dt_reduction_op;

typedef enum dt_aggregate_kind {
#define X(enumerator, name, meaning) DT_AGGREGATE_##enumerator,
    DT_AGGREGATES(X)
#undef X
} dt_aggregate_kind;

typedef enum dt_variable_kind {
#define X(enumerator, name, meaning) DT_VARIABLE_##enumerator,
    DT_VARIABLE_KINDS(X)
#undef X
} dt_variable_kind;

enum {
#define X(enumerator, name, meaning) +1
    DT_N_MEMORY_SPACES = DT_MEMORY_SPACES(X),
    DT_N_FUNCTION_ROLES = DT_FUNCTION_ROLES(X),
    DT_N_COLLECTIVES = DT_COLLECTIVES(X),
    DT_N_REDUCTION_OPS = DT_REDUCTION_OPS(X),
    DT_N_AGGREGATES = DT_AGGREGATES(X),
    DT_N_VARIABLE_KINDS = DT_VARIABLE_KINDS(X)
#undef X
};

/* The names of a table, in order. */
#define X(enumerator, name, meaning) name,
static inline const char *const *dt_memory_space_names(void) {
    static const char *const names[] = {DT_MEMORY_SPACES(X)};
    return names;
}
static inline const char *const *dt_function_role_names(void) {
    static const char *const names[] = {DT_FUNCTION_ROLES(X)};
    return names;
}
static inline const char *const *dt_collective_names(void) {
    static const char *const names[] = {DT_COLLECTIVES(X)};
    return names;
}
static inline const char *const *dt_reduction_op_names(void) {
    static const char *const names[] = {DT_REDUCTION_OPS(X)};
    return names;
}
static inline const char *const *dt_aggregate_names(void) {
    static const char *const names[] = {DT_AGGREGATES(X)};
    return names;
}
static inline const char *const *dt_variable_kind_names(void) {
    static const char *const names[] = {DT_VARIABLE_KINDS(X)};
    return names;
}
#undef X

/* Whether a function of this role goes through rows, in microbatches. */
static inline bool dt_function_role_has_rows(dt_function_role role) { return role == DT_ROLE_STEP || role == DT_ROLE_ROWS; }

/* What the spaces of a plan take: once a memory, for each block of rows, for each open sum, once a core. */
typedef struct dt_space_bytes {
    int64_t device, replica, partial, scratch;
} dt_space_bytes;

#endif
