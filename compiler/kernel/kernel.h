/* kernel: the loop-nest form that both backends render. Nothing in it names an op or a target.
 *
 * A kernel is a list of nests, run one after another. Neighbouring nests marked `in_rows` share one outer loop over the rows of the batch, so that
 * what one leaves for the next (a row's maximum, a packed image) stays in cache; those marked `in_blocks` share the loop inside of it as well, over
 * blocks of another loop, so that what they hand on is a block of a row only. A nest is one statement:
 *
 *     for outer loops …            stores of scalars of level "outer" (after the reduction)
 *         for reduced loops …      scalars that depend on reduced loops, the operands of its reductions
 *
 * Scalars are instructions in SSA; each is computed at the outermost loop where its operands are known, which is where a renderer puts it. */
#ifndef DT_KERNEL_KERNEL_H
#define DT_KERNEL_KERNEL_H

#include "abi/share.h"
#include "ir/graph.h"

/* ---- addresses ---- */

/* Element offset into a buffer: sum of coefficient * loop, plus offset, plus (for gathers) the value of i64 scalars times a coefficient.
 * Coefficients are in elements; no division: what the graph's divisors mean has become a guard scalar and exact division scalars by now. */
typedef struct dt_address {
    int buffer;            /* index in kernel->buffers */
    int64_t *coefficients; /* [n_loops of the nest] */
    int64_t offset;
    int n_terms; /* scalar terms: address += term_coefficients[i] * scalars[terms[i]] */
    int *terms;
    int64_t *term_coefficients;
} dt_address;

/* ---- scalar instructions ---- */

typedef enum dt_instruction_kind {
    DT_INSTRUCTION_CONSTANT, /* `number` as dtype (integers exact in `integer`) */
    DT_INSTRUCTION_LOOP,     /* i64 value of loop `index` */
    DT_INSTRUCTION_LAUNCH,   /* i64 field `index` of dt_launch */
    DT_INSTRUCTION_LOAD,     /* dtype element at `address`; if `guard` >= 0 and that bool scalar is false: not read, value is scalar `otherwise` */
    DT_INSTRUCTION_SCALAR,   /* `scalar` (ir/formula.h) over operands; f16 and bf16 are computed in f32 */
    DT_INSTRUCTION_CONVERT,  /* operands[0] converted to dtype: float to integer truncates and saturates, to bool is != 0 */
    DT_INSTRUCTION_BITS,     /* same bits, other type of that size */
    DT_INSTRUCTION_REDUCED,  /* result of reduction `index` of this nest: known at outer level */
    DT_INSTRUCTION_CHECK     /* bool: is i64 operands[0] in [0, integer)? if not, counts a bad index with location `index` and the row of operands[1]
                                (i64; or no operand 1: row unknown), unless it is counted `before` or by another shard. Never vectorised. */
} dt_instruction_kind;

typedef struct dt_instruction {
    dt_instruction_kind kind;
    dt_dtype dtype; /* of the result */
    dt_scalar_op scalar;
    int index;
    double number;
    int64_t integer;
    int n_operands;
    int operands[3]; /* earlier instructions of the nest */
    dt_address address;
    int guard, otherwise; /* LOAD: -1 none */
    int indices;          /* CHECK: the value of the graph, by its id, that holds the index */
    bool before;          /* CHECK: an earlier nest counts the same: this one does only where nothing is counted yet */
    bool by_first_shard;  /* CHECK: all shards of the model look up the same: the first one counts it */
} dt_instruction;

typedef struct dt_reduction {
    dt_combiner combiner; /* ARGMAX/ARGMIN: result i64, the position within the reduced loops, row-major, of the first best */
    int operand;          /* the instruction reduced */
    dt_dtype dtype;       /* of the accumulator: f32 for f16 and bf16 operands, u8 for bool */
} dt_reduction;

typedef struct dt_store {
    dt_address address; /* coefficients of reduced loops are 0 unless the nest has no reductions */
    int operand;        /* instruction; its dtype is the buffer's */
    bool accumulate;    /* += : a scatter, or a sum to which iterations of outer loops add */
    int guard;          /* bool instruction: store only where true; -1 always */
} dt_store;

/* ---- loops ---- */

typedef struct dt_loop {
    int64_t extent; /* constant; DT_BATCH: launch->rows; DT_GATHERED: launch->valid */
    bool reduced;
} dt_loop;

/* How a nest computes what it stores: a choice that schedule makes and renderers follow. All but LOOPS are for sums of products. */
#define DT_ALGORITHMS(X)                                                                                                                             \
    X(LOOPS, "loops")   /* the loops as they stand */                                                                                                \
    X(TILED, "tiled")   /* each element of the result gathers its products, a tile of elements at a time */                                          \
    X(SPREAD, "spread") /* the same, but operand a's elements are spread over the result, which is in memory and added to for each tap */            \
    X(PHASED, "phased") /* tiles of those elements of a result at which a divided index reads the same taps; the others are nests of their own */

typedef enum dt_algorithm {
#define X(enumerator, name) DT_ALGORITHM_##enumerator,
    DT_ALGORITHMS(X)
#undef X
    DT_N_ALGORITHMS
} dt_algorithm;
const char *dt_algorithm_name(dt_algorithm algorithm);

/* The tiles of a nest whose single reduction is SUM over the product of two plain loads.
 * The `vector` loop is contiguous (coefficient 1) in operand b and in the result, and absent from operand a; the `row` loop is absent from b.
 * A tile of rows x vectors accumulators stays in registers over all reduced loops in order; how many, the renderer chooses: it knows the registers.
 */
typedef struct dt_tiling {
    int row_loop, vector_loop; /* row_loop may be -1: rows = 1 */
    int a, b;                  /* load instructions: a broadcast, b contiguous */
} dt_tiling;

struct dt_library_call;
struct dt_choices;

/* What of a nest is a process's, where processes share out the update that it belongs to. An iteration of loop 0 is within one unit. */
typedef struct dt_nest_share {
    int64_t n_units;                     /* of its tensors (abi/share.h); 0: every process runs all of the nest */
    int64_t turn;                        /* the same */
    int64_t first_unit, unit_iterations; /* iteration i is within unit first_unit + i / unit_iterations */
} dt_nest_share;

typedef struct dt_nest {
    bool in_rows;            /* loop 0 is the row loop (extent DT_BATCH), shared with its in_rows neighbours */
    bool in_blocks;          /* loop 1, over blocks, is shared with the nest before it; both are in rows */
    dt_nest_share share;     /* of a divided kernel that runs once */
    int64_t part_iterations; /* of a divided kernel: a part is a multiple of so many iterations of loop 0, or after a loop over rows of loop 1; 0: the
                                nest is part 0's as a whole */
    bool meets;              /* of a divided kernel that replicas run: before the nest all its parts have come this far (kernel/meetings.h) */
    int n_loops;
    dt_loop *loops; /* outer ones first, then reduced; order is the order of execution unless tiled */
    int n_instructions;
    dt_instruction *instructions;
    int n_reductions;
    dt_reduction *reductions;
    int n_stores;
    dt_store *stores;
    int vector_loop; /* loop to vectorise, or -1 (scalar): the innermost outer loop that is contiguous in the stores, or a reduced loop */
    dt_algorithm algorithm;
    dt_tiling tiling; /* unless algorithm is LOOPS */
    int n_locations;
    dt_location *locations;
    const char *note;  /* "pack", "epilogue", … for people */
    const char *layer; /* for people, not in text form: the layer whose values it computes (dt_value.layer); NULL: none, or it is not known */
    bool backward;     /* the same: they are gradients, or made of these */
    int timer;  /* from 1: when it is done, or for row nests if no other of them has one, when their loop is, the time since the last reading of
                   the clock is added to that counter of the launch. A plan's stand in their order. 0: none */
    int origin; /* what it was lowered from (dt_lowering_origin), for the passes that make the plan; 0: it clears or lays something out */
    const struct dt_library_call *library; /* what a vendor's library can be asked for in its place (abi/library.h), or in its place and that of the
                                              neighbours that name the same call; NULL: nothing */
    bool beside_library;                   /* the library that is asked for the product after it can do this as well */
} dt_nest;

/* ---- kernels and plans ---- */

/* A loop over tensors (ir/body.h): the kernels of its body run `trips` times, one after the other. */
typedef struct dt_plan_loop {
    int number; /* in the plan's list */
    int64_t trips;
    int n_carries;
    int64_t remade;                    /* stacks that it does without, computing again what they would hold */
    const struct dt_plan_loop *around; /* whose body it is in; NULL: no other's */
} dt_plan_loop;

/* Part of another buffer: one position of an axis, which the part does not have, or with `length` so many from `first` on. In iteration t of the loop
 * it is position (first + step * t), modulo `wrap` where that is not 0. Kernels are given its address, so that one kernel serves all iterations. */
typedef struct dt_view {
    int of;                 /* the buffer, which may be a view in turn */
    dt_shape shape;         /* that this one is seen with */
    const int64_t *strides; /* of that shape, in elements; set by dt_plan_add_view */
    int axis;
    const dt_plan_loop *loop; /* NULL: it is always position `first` */
    int64_t first, step, wrap;
    int64_t length; /* 0: one position, without the axis */
} dt_view;

typedef struct dt_buffer {
    const char *name; /* for people: "%12", "Cnn/conv2d/kernel", "packed 3" */
    dt_memory_space space;
    dt_dtype dtype;
    dt_shape shape;       /* DT_BATCH counts as the rows of a microbatch; dt_shape_strides says where elements lie */
    bool one_row;         /* holds what one iteration of a row loop leaves for later nests of the same iteration, and only that */
    bool sharded;         /* there is one for each of a model's shards */
    int variable, input;  /* index, for those spaces */
    int split_axis;       /* of a variable that is sharded: the dimension that is split, */
    int64_t split_extent; /* of so many elements in all shards together, */
    int64_t split_groups; /* which are so many tensors side by side, each of which is split */
    int64_t offset; /* bytes within its space, a multiple of DT_BUFFER_ALIGNMENT. With DT_GATHERED both are those of one microbatch, as many times
                       as large as the launch has microbatches, and lie after all that has not: how many there are is known at launch only */
    int64_t bytes;  /* of a full microbatch, with DT_SLACK_BYTES after it */
    int zeros;      /* in a hundred elements, about; 0: nobody knows of any */
    dt_precision precision; /* that its elements, factors of products, have been rounded to */
    const dt_view *view;    /* what it is part of, whose space, offset and bytes it has; NULL: it has memory of its own */
} dt_buffer;

/* Whether it holds the rows of all replicas, and so lies after all of its space that does not. */
static inline bool dt_buffer_is_gathered(const dt_buffer *buffer) { return dt_shape_count(buffer->shape, DT_GATHERED) > 0; }

/* A buffer that processes have shared out. */
typedef struct dt_shared_buffer {
    int buffer; /* of the plan */
    dt_share share;
} dt_shared_buffer;

typedef struct dt_kernel_function {
    const char *name; /* a C identifier: "train_3_conv2d_relu" made from step, number and layer names */
    const dt_plan_loop
        *loop;         /* the innermost one whose body it is of; NULL: it runs once. The kernels of a body stand side by side in their segment */
    int layer;         /* which of its segment's layers it is of, of those that are cut apart, from 1 in the order in which they run: the kernels that
                          replicas run stand by layers, and what lays something out for one is of it too. 0: none, or the segment is not cut. A layer
                          needs those parameters that are arguments of its kernels, from its first one to its last one */
    bool once;         /* all it writes is replicated: run once a memory, not once a replica */
    bool divided;      /* in parts: part p of n runs iterations [floor(u * p / n) * t, floor(u * (p + 1) / n) * t) of loop 0 of each nest, t being
                          the nest's part_iterations and u the number of these that cover the loop. Of a kernel that runs once no nest reads what another
                          one writes. Where processes share out the update, this is said of the iterations that are the process's own. Parts of one that
                          replicas run do so at the same time, and meet */
    bool update;       /* it writes variables */
    bool for_examples; /* who computes no examples does without it: what it writes gets into variables and results by way of sums alone, if at all */
    int n_gathers;
    dt_shared_buffer *gathers; /* [n_gathers] what its nests have written shared out, and somebody needs whole: gathered right after it */
    int n_buffers;
    int *buffers; /* plan->buffers index of each kernel argument; dt_address.buffer indexes this list */
    int n_nests;
    dt_nest *nests;
} dt_kernel_function;

/* A collective. It stands at its segment's end; but what combines the shards of one microbatch stands within the segment: right behind the last
 * kernel that stores to its source, before all that read its target (dt_collective_is_within). */
typedef struct dt_collective {
    dt_collective_kind kind;
    dt_combiner combiner; /* NONE of an all_gather; else what DT_REDUCTION_OPS has */
    int source, target;   /* buffers: REPLICA or PARTIAL space to DEVICE space, or of a reduce_scatter to REPLICA space. Rows come first in both. Of a
                             shard_reduce both are DEVICE space, or neither */
    const char *label;    /* "Cnn/conv2d_1/kernel": what a report of a stuck one says */
    int value;            /* of the graph, by its id */
    dt_share share;       /* of an all_reduce: where the update is shared out, each process needs its share of the result alone. unit 0: all of it */
} dt_collective;

/* A segment: kernels that run once, then kernels that run for each replica, then what crosses replicas. */
typedef struct dt_segment {
    int n_device_kernels, n_replica_kernels, n_collectives;
    int *device_kernels, *replica_kernels; /* index in plan->kernels, in order */
    dt_collective *collectives;
} dt_segment;

typedef struct dt_plan_result {
    const char *name;
    int buffer;
    dt_dtype dtype; /* as the caller sees it: an alias of what the buffer holds may have another shape */
    dt_shape shape;
} dt_plan_result;

/* What a function of the program became. It says all that renderers and the runtime need, and knows nothing of the graph. */
typedef struct dt_plan {
    const char *name; /* of the function: "train", "train/report" */
    dt_function_role role;
    int n_inputs;
    int n_files; /* that locations are in */
    const char *const *files;
    int64_t capacity;        /* most rows of a launch */
    int64_t microbatch_rows; /* most rows of a microbatch (compiler/kernel/microbatches.h) */
    int64_t n_shards;        /* of the model; 1: there are none */
    bool is_placed;          /* buffers have their offsets: plan_memory is done */
    bool batched;            /* for launches over all rows together: nothing is carried from one row to the next */
    int n_buffers, n_kernels, n_segments, n_loops, n_results;
    dt_buffer *buffers;
    dt_kernel_function *kernels;
    dt_segment *segments;
    const dt_plan_loop **loops; /* [n_loops] a loop after those around it */
    dt_plan_result *results;
    dt_space_bytes bytes, gathered; /* gathered: what buffers with DT_GATHERED add for each microbatch of all replicas */
} dt_plan;

/* Checks the form: operands earlier, levels legal, addresses within bounds where provable, vector loop legal. */
dt_status *dt_plan_verify(const dt_plan *plan);
/* The program's lines that a kernel comes from: "fashion_cnn.dt:13, 14". */
void dt_kernel_lines(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel);
/* Text for --emit=kernels and golden files; with what was chosen for a target (kernel/choices.h), unless `choices` is NULL. */
void dt_plan_print(dt_arena *arena, dt_text *text, const dt_plan *plan, const struct dt_choices *choices);
/* A line for each kernel and collective, and the memory: for --emit=plan. */
void dt_plan_print_summary(dt_arena *arena, dt_text *text, const dt_plan *plan);

#endif
