/* memory: where an executor's buffers are.
 *
 * Two allocations:
 *   a memory domain's   places of layers (gathering.h) | variables | what functions keep once for all
 *   an executor's       launch values | records of bad indices | aggregates
 *                       | scratch | … of each microbatch of those that go through a segment together
 *                       | slot 0 of partial sums | slot 1 | … | microbatch 0 | microbatch 1 | …
 *                       | inputs of slot 0 | of slot 1
 *
 * In a space, what has the rows of all replicas comes after all else: the plan has sizes and offsets for one microbatch, and there are so many times
 * as much. Where a model is split into logical shards, each space is there once for each shard that the domain holds, one after another: sharded
 * buffers lie in their shard's, all others in the first. Of a variable that is split, the parts of the shards lie one after another.
 *
 * A memory domain is one memory with what is stored once in it: the executors of one machine's cores share one, a GPU is one by itself. Spaces are
 * shared by all functions, which never run at once. Inputs have slots only where a device cannot read them in the host's memory: while a step reads
 * one slot, the next batch is copied into the other. In a slot the rows of each microbatch begin at a multiple of 256 bytes.
 *
 * Where processes have parameters in shares, sums that leave with a layer, and those that several layers add to, have slots of their own, and what is
 * there once is where gathering.h says.
 *
 * Sizes are known before anything is allocated, and saturate at INT64_MAX: more than there can be. */
#ifndef DT_RUNTIME_EXECUTION_MEMORY_H
#define DT_RUNTIME_EXECUTION_MEMORY_H

#include "abi/launch.h"
#include "base/arena.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/comm/microbatches.h"
#include "runtime/devices/device.h"
#include "runtime/execution/gathering.h"
#include "runtime/execution/partial_sums.h"
#include "runtime/execution/placement.h"
#include "runtime/execution/stage_memory.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DT_INPUT_SLOTS = 2, /* of a device that does not read the host's memory */
    DT_UNDER_WAY = 2    /* microbatches of an executor whose shards are combined with other processes': one crosses while the other is computed */
};

/* Which functions there is memory for: one, or all of role INIT and STEP, with the variables; or of these the steps that do not train, without the
 * optimizer's slots; or the initialisers alone. */
#define DT_ALL_FUNCTIONS (-1)
#define DT_FORWARD_FUNCTIONS (-2)
#define DT_INITIAL_FUNCTIONS (-3)

/* A space, as often as there is one. */
typedef struct dt_space_layout {
    int64_t start, stride; /* of the first one, from the start of all; from one to the next */
    int64_t shard_stride;  /* in each: from a held shard to the next */
    int64_t gathered;      /* in each of these: where what has the rows of all replicas begins */
} dt_space_layout;

/* What processes are asked to share out: the optimizer's states (ZeRO-1); parameters as well, gathered layer by layer (ZeRO-3). */
typedef enum dt_sharing {
    DT_SHARES_NOTHING,
    DT_SHARES_OPTIMIZER,
    DT_SHARES_PARAMETERS
} dt_sharing;

static inline dt_sharing dt_sharing_of(bool shards_optimizer, bool shards_parameters) {
    return shards_parameters ? DT_SHARES_PARAMETERS : shards_optimizer ? DT_SHARES_OPTIMIZER : DT_SHARES_NOTHING;
}

/* What a process has of the variables that can be shared out, and whether it computes. */
typedef struct dt_state_layout {
    dt_process_roles sharing;        /* those that share out an update; of one, nobody does */
    dt_held_share slots, parameters; /* what is its to update; what it keeps */
    bool holds;                      /* microbatches: else it runs no kernel that is for examples */
    bool gathers;                    /* it does, of parameters of which it keeps a share */
} dt_state_layout;

/* Slots are shared out where that is asked for, by the processes that hold microbatches, with parameters or without, and always by parameter servers,
 * which share parameters out too. */
static inline dt_state_layout dt_state_layout_of(dt_process_roles roles, dt_sharing asked) {
    bool shares = roles.n_processes > 1 && (asked != DT_SHARES_NOTHING || roles.n_servers > 0);
    bool holds = dt_process_holds(roles, roles.process), gathers = holds && asked == DT_SHARES_PARAMETERS;
    dt_held_share all = {0, 1}, own = {roles.process, dt_process_n_owners(roles)}, none = {0, DT_SHARE_NONE};
    if (!shares) return (dt_state_layout){{.n_processes = 1}, all, all, true, false};
    if (!dt_process_owns(roles, roles.process)) own = none;
    return (dt_state_layout){roles, own, holds && !gathers ? all : own, holds, gathers};
}

typedef struct dt_memory_domain {
    dt_device *device; /* that allocates it */
    int number;        /* of the session's domains; the first one is the central one, where there is one */
    int n_executors;
    int n_members;                 /* executors of all memory domains of this process, its group's; 0, which laying out replaces: this one's */
    int n_parts;                   /* of kernels that run once: executors that do one, the first ones */
    int first_shard, n_shards;     /* logical shards that it holds; n_shards 0, which laying out replaces: all */
    dt_microbatch_range holds;     /* microbatches of this process: read where it holds some shards of all */
    const dt_placement *placement; /* NULL: it has, and runs, all that is there once */
    const dt_stages *stages;       /* NULL: the model is not cut into stages, */
    int stage;                     /* of which the domain is of this one */
    const dt_stage_memory *staged; /* where the stage has what it has; laying out sets it */
    bool is_allocated;
    char *memory; /* until it is allocated, an address that no other domain has: lists are made of such addresses to see how long they are */
    int64_t bytes;
    dt_state_layout layout;
    int64_t *variables; /* [n_variables] from its start; 0 of one that it does not have. Of one that is shared out, the first element, which may be
                           another's: less than 0 */
    int64_t *variable_strides; /* [n_variables] from a held shard to the next; 0 of one that is not split */
    dt_space_layout device_space;
    int n_rounds;                  /* at least 1: microbatches go through all layers in so many, and parameters are gathered in each */
    const dt_gathering *gathering; /* NULL: all parameters are whole */
    int64_t gathering_space;       /* of places one after another */
} dt_memory_domain;

typedef struct dt_executor_memory {
    const dt_artifact *artifact;
    const dt_memory_domain *domain;
    int first_microbatch, n_microbatches, n_all_microbatches;
    int n_together; /* microbatches, the last ones, that go through a segment together: at least 1; where all go in rounds
                       (dt_executor_memory_has_rounds), those of a round, or that are under way at a time, which laying out sets */
    dt_microbatches rows;
    int slots;                           /* of inputs: 0 or DT_INPUT_SLOTS */
    dt_partial_sums sums;                /* of its microbatches: which slot of the partial space is whose */
    dt_partial_sums sums_across;         /* the same of what several layers, or units of a stage, add to, through which microbatches go together */
    const dt_stage_order *const *orders; /* [n_functions][n_segments] of a stage: what it does of its microbatches; NULL: there are no stages */
    int64_t arrival_space;               /* of a stage: n_together + 1 places for what arrives */

    bool is_allocated;
    char *memory; /* the same */
    int64_t bytes;
    dt_space_layout scratch_space, partial_space, microbatch_space;
    dt_space_layout leaving_space, across_space; /* the same as partial_space of sums that leave with a layer, and of those across (gathering.h) */
    int64_t launch_space, record_space, aggregate_space, input_space, slot_bytes;
    int64_t n_aggregates;                    /* numbers, of the step that has most */
    int64_t **input_starts, **input_strides; /* [n_functions][n_inputs] within a slot; from microbatch to microbatch, 0: all read the same */
    int64_t *input_bytes;                    /* [n_functions] all inputs of a slot */
} dt_executor_memory;

/* What is held of a variable: of one that is split of each shard's part, which are as long. */
dt_byte_range dt_state_layout_share(const dt_state_layout *layout, const dt_artifact *artifact, const dt_artifact_variable *variable);
dt_byte_range dt_memory_share_of_variable(const dt_artifact *artifact, const dt_artifact_variable *variable, dt_held_share held);
/* The same of a tensor without rows that is cut so. */
dt_byte_range dt_memory_share_of_tensor(dt_share how, const dt_artifact_tensor *tensor, dt_held_share held);
/* How much of all slots that are wanted (dt_memory_has_variable), and of parameters, each process has, in lines: of n_all, which hold n_shards shards
 * of the model each, where those of one group share out what they have alike. asked: so that there is something to say where each has all. */
void dt_memory_print_sharing(const dt_artifact *artifact, int wanted, dt_process_roles roles, int n_all, int n_shards, dt_sharing asked,
                             dt_text *text);

/* `bytes` with slack, up to the next cache line. */
int64_t dt_memory_padded(int64_t bytes);
/* Takes `bytes` from the end of what is laid out: where they begin. */
int64_t dt_memory_take(int64_t *end, int64_t bytes);
static inline void dt_memory_raise_to(int64_t *most, int64_t bytes) {
    if (bytes > *most) *most = bytes;
}

bool dt_memory_has(const dt_artifact *artifact, int wanted, int function);
bool dt_memory_has_variable(const dt_artifact *artifact, int wanted, int variable);

/* Whether the domain has a variable, or a buffer of the spaces VARIABLE and DEVICE, which is a root; and whether it runs a kernel. */
static inline bool dt_memory_domain_is_whole(const dt_memory_domain *domain) { return domain->placement == NULL || domain->number == 0; }
static inline bool dt_memory_domain_has_variable(const dt_memory_domain *domain, int variable) {
    if (domain->stages != NULL) return dt_stage_is_in(domain->stages->variables[variable], domain->stage);
    return dt_memory_domain_is_whole(domain) || domain->placement->variables[variable];
}
/* Whether its stage has a root, of any space: where the model is not cut into stages, it has all. */
static inline bool dt_memory_domain_stage_has(const dt_memory_domain *domain, int function, int root) {
    return domain->stages == NULL || dt_stage_is_in(domain->stages->functions[function].has[root], domain->stage);
}
static inline bool dt_memory_domain_has_buffer(const dt_memory_domain *domain, int function, const dt_artifact_buffer *buffers, int buffer) {
    if (domain->stages != NULL) return dt_memory_domain_stage_has(domain, function, buffer);
    if (buffers[buffer].space == DT_MEMORY_VARIABLE) return dt_memory_domain_has_variable(domain, buffers[buffer].variable);
    return dt_memory_domain_is_whole(domain) || domain->placement->functions[function].common[buffer];
}
/* Where a variable is that it has: of one that is split, number `shard` of the shards that it holds. */
static inline char *dt_memory_domain_variable(const dt_memory_domain *domain, int variable, int shard) {
    return domain->memory + domain->variables[variable] + shard * domain->variable_strides[variable];
}
/* Whether other processes have shards that this one does not have. */
static inline bool dt_memory_domain_lacks_shards(const dt_memory_domain *domain, const dt_artifact *artifact) {
    return domain->n_shards < artifact->n_shards;
}
/* Whether all microbatches go through segments in rounds, those of a round together: where parameters are gathered, and where shards of a microbatch
 * are combined with other processes', while the next microbatch is computed. On a stage so many are under way at a time. */
static inline bool dt_executor_memory_has_rounds(const dt_executor_memory *memory) {
    const dt_memory_domain *domain = memory->domain;
    return domain->gathering != NULL || domain->stages != NULL || dt_memory_domain_lacks_shards(domain, memory->artifact);
}
/* Number `shard` of all among those that it holds; -1: it does not. */
static inline int dt_memory_domain_find_shard(const dt_memory_domain *domain, int shard) {
    int held = shard - domain->first_shard;
    return held >= 0 && held < domain->n_shards ? held : -1;
}
static inline bool dt_memory_domain_runs(const dt_memory_domain *domain, int function, int kernel) {
    if (domain->stages != NULL) return dt_stage_is_in(domain->stages->functions[function].kernels[kernel], domain->stage);
    return dt_memory_domain_is_whole(domain) || !domain->placement->functions[function].central[kernel];
}

/* What is said of the device, artifact, layout and microbatches must be set. What they allocate is of the arena. */
void dt_memory_domain_lay_out(dt_memory_domain *domain, const dt_artifact *artifact, int n_all_microbatches, int wanted, dt_arena *arena);
void dt_executor_memory_lay_out(dt_executor_memory *memory, const dt_device_kind *kind, int wanted, dt_arena *arena);

/* Which of the places that microbatches under way and held shards have in scratch is this one's: what is there for one is not for another. */
int dt_executor_memory_place(const dt_executor_memory *memory, int microbatch, int shard);

/* Where buffer `buffer` of `function` is for microbatch `microbatch` of this executor, and for number `shard` of the shards that are held, if it is
 * sharded: of input slot `slot`, if it is an input, which must then be in a slot. */
char *dt_executor_memory_address(const dt_executor_memory *memory, int function, int buffer, int microbatch, int shard, int slot);
/* Where on a stage comes what a crossing brings early, as said in dt_stage_places. */
char *dt_executor_memory_arrival(const dt_executor_memory *memory, int function, int crossing, int microbatch, int shard);
/* Which slots of the partial space are a root's. */
const dt_partial_sums *dt_executor_memory_sums(const dt_executor_memory *memory, int function, int buffer);
/* Where something is in the place of a layer. */
static inline char *dt_memory_domain_place(const dt_memory_domain *domain, int place, int64_t offset) {
    return domain->memory + domain->gathering_space + place * domain->gathering->bytes + offset;
}
/* Where a root of the partial space is in its slot `slot`, for such a shard. */
char *dt_executor_memory_partial(const dt_executor_memory *memory, int function, int buffer, int shard, int slot);

/* As the device sees them. There is a record for each microbatch, and one more for kernels that run once; for each of these a launch for each held
 * shard: dt_executor_memory_launch. Where other processes have shards too, there is one launch more, for kernels that are not sharded, and after all
 * a record that nobody reads: what such a kernel counts for a microbatch is counted by the first process of a model group alone. */
static inline dt_launch *dt_executor_memory_launches(const dt_executor_memory *memory) {
    return (dt_launch *)(memory->memory + memory->launch_space);
}
static inline dt_bad_index *dt_executor_memory_records(const dt_executor_memory *memory) {
    return (dt_bad_index *)(memory->memory + memory->record_space);
}
/* Which launch is that of a microbatch, or n_microbatches, and a held shard; and the microbatch of a launch. */
static inline int dt_executor_memory_launches_of_one(const dt_executor_memory *memory) {
    return memory->domain->n_shards + dt_memory_domain_lacks_shards(memory->domain, memory->artifact);
}
static inline int dt_executor_memory_launch(const dt_executor_memory *memory, int microbatch, int shard) {
    return microbatch * dt_executor_memory_launches_of_one(memory) + shard;
}
/* The same of kernels that are not sharded. */
static inline int dt_executor_memory_whole_launch(const dt_executor_memory *memory, int microbatch) {
    bool is_apart = dt_memory_domain_lacks_shards(memory->domain, memory->artifact);
    return dt_executor_memory_launch(memory, microbatch, is_apart ? memory->domain->n_shards : 0);
}
static inline int dt_executor_memory_microbatch_of(const dt_executor_memory *memory, ptrdiff_t launch) {
    return (int)(launch / dt_executor_memory_launches_of_one(memory));
}
static inline int dt_executor_memory_n_records(const dt_executor_memory *memory) {
    return memory->n_microbatches + 1 + dt_memory_domain_lacks_shards(memory->domain, memory->artifact);
}
static inline int dt_executor_memory_n_launches(const dt_executor_memory *memory) {
    return dt_executor_memory_launch(memory, memory->n_microbatches + 1, 0);
}
/* Eight bytes each. */
static inline int64_t *dt_executor_memory_aggregates(const dt_executor_memory *memory) {
    return (int64_t *)(memory->memory + memory->aggregate_space);
}

#endif
