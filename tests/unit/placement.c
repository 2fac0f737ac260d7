/* placement: what of a function the central memory domain has and does alone, and what is handed over. By hand, on a small step (line_kernels.c). */
#include "runtime/execution/placement.h"

#include "runtime/devices/device.h"
#include "runtime/execution/memory.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

static dt_artifact *artifact;
static dt_kernels *kernels;
static dt_arena *arena;

enum {
    W = 2,
    LOSS_ALL = 5,
    GATHERED = 9,
    G_ALL = 12,
    N = 13,    /* buffers of the step */
    UPDATE = 2 /* a kernel */
};

static int open_artifact(void **state) {
    (void)state;
    arena = dt_arena_create();
    return fixture_open_line(&artifact, &kernels);
}

static int close_artifact(void **state) {
    (void)state;
    dt_arena_destroy(arena);
    fixture_close_line(artifact, kernels);
    return 0;
}

static void others_have_what_their_kernels_read(void **state) {
    (void)state;
    int train = dt_artifact_find_function(artifact, "train");
    const dt_placement *placement = dt_placement_find(artifact, DT_ALL_FUNCTIONS, arena);
    assert_true(placement->variables[0] && !placement->variables[1]); /* weights, and the number of updates that only the update counts */
    assert_true(placement->functions[train].central[UPDATE]);
    const bool *common = placement->functions[train].common;
    assert_true(common[GATHERED] && !common[LOSS_ALL] && !common[G_ALL]);
    assert_int_equal(placement->bytes.device, 0);
    assert_int_equal(placement->gathered.device, 16);
}

static void what_is_updated_is_handed_out(void **state) {
    (void)state;
    int train = dt_artifact_find_function(artifact, "train"), init = dt_artifact_find_function(artifact, "init");
    const dt_placement *placement = dt_placement_find(artifact, DT_ALL_FUNCTIONS, arena);
    const int *buffers;
    assert_int_equal(dt_placement_handed_out(placement, artifact, train, 1, 0, arena, &buffers), 1);
    assert_int_equal(buffers[0], W);
    assert_int_equal(dt_placement_handed_out(placement, artifact, init, 0, 0, arena, &buffers), 1);
    assert_int_equal(buffers[0], 0);
}

/* What a kernel computes of what others have, and they ask for, each computes itself. */
static void others_compute_what_they_can(void **state) {
    (void)state;
    dt_artifact changed = *artifact;
    int train = dt_artifact_find_function(artifact, "train");
    dt_artifact_function *functions = dt_arena_copy(arena, artifact->functions, (size_t)artifact->n_functions * sizeof *functions);
    dt_artifact_kernel *of_train = dt_arena_copy(arena, functions[train].kernels, (size_t)functions[train].n_kernels * sizeof *of_train);
    static const int update[] = {LOSS_ALL, G_ALL}, writes_loss[] = {LOSS_ALL}, spread[] = {LOSS_ALL, GATHERED, 10};
    of_train[UPDATE].buffers = update; /* reads the sum of gradients, writes what `spread` reads then */
    of_train[UPDATE].n_buffers = 2;
    of_train[UPDATE].writes = writes_loss;
    of_train[UPDATE].n_writes = 1;
    of_train[1].buffers = spread;
    of_train[1].n_buffers = 3;
    functions[train].kernels = of_train;
    changed.functions = functions;
    const dt_placement *placement = dt_placement_find(&changed, train, arena);
    const int *buffers;
    assert_false(placement->functions[train].central[UPDATE]);
    assert_true(placement->functions[train].common[LOSS_ALL] && placement->functions[train].common[G_ALL]);
    assert_int_equal(dt_placement_handed_out(placement, &changed, train, 1, 0, arena, &buffers), 0);
}

/* The central domain's executors have no microbatch, and run kernels that need scratch nevertheless. */
static void scratch_is_there_without_microbatches(void **state) {
    (void)state;
    enum {
        SCRATCH = 3 /* a buffer */
    };
    dt_artifact changed = *artifact;
    int train = dt_artifact_find_function(artifact, "train");
    dt_artifact_function *functions = dt_arena_copy(arena, artifact->functions, (size_t)artifact->n_functions * sizeof *functions);
    dt_artifact_buffer *buffers = dt_arena_copy(arena, functions[train].buffers, (size_t)functions[train].n_buffers * sizeof *buffers);
    buffers[SCRATCH].space = DT_MEMORY_SCRATCH;
    functions[train].buffers = buffers;
    functions[train].bytes.scratch = buffers[SCRATCH].offset + buffers[SCRATCH].bytes;
    changed.functions = functions;
    dt_memory_domain domain = {.n_shards = 1};
    dt_executor_memory memory = {.artifact = &changed, .domain = &domain, .n_together = 1, .n_all_microbatches = 4, .rows = {4, 2, 2}};
    dt_executor_memory_lay_out(&memory, &dt_device_null, train, arena);
    ptrdiff_t at = dt_executor_memory_address(&memory, train, SCRATCH, 0, 0, 0) - memory.memory;
    assert_in_range(at, memory.scratch_space.start, memory.bytes - buffers[SCRATCH].bytes);
    assert_int_equal(at, memory.scratch_space.start + buffers[SCRATCH].offset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_have_what_their_kernels_read),
        cmocka_unit_test(what_is_updated_is_handed_out),
        cmocka_unit_test(others_compute_what_they_can),
        cmocka_unit_test(scratch_is_there_without_microbatches),
    };
    return cmocka_run_group_tests(tests, open_artifact, close_artifact);
}
