/* gpu_target: what the choices for a GPU depend on (kernel/gpu_choices.h). What was assumed or measured of GPUs stands here and nowhere else. */
#ifndef DT_KERNEL_GPU_TARGET_H
#define DT_KERNEL_GPU_TARGET_H

#include <stddef.h>

/* What plans are for. On a GPU a plan is batched: all rows of a replica run together, in threads instead of a loop, so that no sum is carried from
 * row to row, no buffer holds a single row, and a replica is one microbatch. */
typedef enum dt_target {
    DT_TARGET_CPU,
    DT_TARGET_CUDA,
    DT_TARGET_WARPS_OF_64, /* a GPU that tests emulate; it is no vendor's, and no option names it */
    DT_N_TARGETS
} dt_target;

/* X(name, value, meaning): the machine and its limits, as far as they are the same for all targets; what differs stands in their rows. Sizes of work
 * are in iterations at capacity; they choose between forms that compute the same. */
#define DT_GPU_TARGET_FIELDS(X)                                                                                                                      \
    X(block, 256, "threads of a block: whole warps, and a square")                                                                                   \
    X(resident_blocks, 2, "of a multiprocessor: leaves 128 registers a thread. Unsaid, NVIDIA's assembler aims at 32, and spills")                   \
    X(shared_bytes, 48 << 10, "of a block")                                                                                                          \
    X(product_lanes, 32, "threads that tensor cores take for a product of 16 x 8 results")                                                           \
    X(vector_bytes, 16, "that a thread reads or writes at once")                                                                                     \
    X(sector_bytes, 32, "that memory is read by")                                                                                                    \
    X(most_width, 8, "elements that a thread takes side by side")                                                                                    \
    X(most_vector_instructions, 64, "of an element in a vector: of more, registers run short, and memory is not what a thread waits for")            \
    X(loads_in_flight, 16, "that a thread which reduces in order waits for at a time: nothing else hides their latency")                             \
    X(most_unrolled_instructions, 24, "of an iteration that is written out several times")                                                           \
    X(few_elements, 4096, "do not fill a device")                                                                                                    \
    X(much_to_reduce, 32, "is worth a team")                                                                                                         \
    X(long_for_a_thread, 128, "loads that a team rather does, even where its lanes read far apart")                                                  \
    X(few_for_a_team, 16, "elements that a team rather reduces together, one after another")                                                         \
    X(few_iterations, 8, "for one team: one thread does them")                                                                                       \
    X(warp_iterations, 1024, "a warp does them, and a block what is more")                                                                           \
    X(many_teams, 512, "fill a device")                                                                                                              \
    X(little_work, 4096, "one team does it as fast as a launch would take")                                                                          \
    X(much_of_a_product, 1024, "terms for one team: weights are better read for many results at once")                                               \
    X(most_side_by_side, 32, "nests of one launch")                                                                                                  \
    X(tile_side, 64, "results along a side of a tile; 128 where there are enough of them")                                                           \
    X(tile_terms, 16, "of the sums of a tile at a time")                                                                                             \
    X(least_side, 32, "results along each side that are worth a tile")                                                                               \
    X(least_terms, 16, "of each sum")                                                                                                                \
    X(least_narrow_side, 8, "the same where there are tiles for all of a device")                                                                    \
    X(least_narrow_terms, 8, "the same")                                                                                                             \
    X(most_tall_instructions, 64, "of a nest that gets tiles of twice the height: these leave few registers")                                        \
    X(most_owners, 2048, "warps that each walk all indices: no more than keep a device busy")                                                        \
    X(most_slice, 32768, "elements that an index selects: more keep a device busy without owners")                                                   \
    X(least_walk, 64, "indices that are worth owners")                                                                                               \
    X(indices_at_once, 8, "that a lane asks memory for before it looks at one")                                                                      \
    X(busy_blocks, 256, "tiles that keep a device busy: two on each of its multiprocessors")                                                         \
    X(busy_teams, 1024, "what waits for memory: as many as a large device holds at a time")                                                          \
    X(busy_threads, 131072, "with the loads that each has in flight: half a wave of an H200")                                                        \
    X(least_tiled_part, 256, "terms of a part of a sum for tiles, for small ones half of it: what it stores is little beside what it reads")         \
    X(least_team_part, 4096, "the same for a team")                                                                                                  \
    X(least_part, 32, "the same for a thread")                                                                                                       \
    X(fewest_parts, 4, "for threads, that are worth a launch to add them up: a thread alone has a few loads in flight anyway")

typedef struct dt_gpu_target {
    const char *name;
    const char *warp_name; /* what the vendor calls threads that run in step and read each other's registers, and */
    int warp;              /* how many these are: a power of two, at most 64 */
#define X(name, value, meaning) int name;
    DT_GPU_TARGET_FIELDS(X)
#undef X
} dt_gpu_target;

/* NULL: a CPU. */
const dt_gpu_target *dt_gpu_target_of(dt_target target);

#endif
