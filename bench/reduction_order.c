/* reduction_order: what the fixed order of sums over replicas costs.
 *
 *     reduction_order PROGRAM.dtx        prints {"step": …, "leaves": …, "bytes": …, "fixed": …, "arrival": …, "difference": …}, seconds
 *
 * step        of the program's step `train`, 8 replicas on 2 devices of a core
 * fixed       adding up copies of all gradients, one for each microbatch of each replica, in the tree of runtime/devices/reduce.h
 * arrival     the same copies by the same threads, with the same meetings, each added to one accumulator as it comes
 * difference  fixed less arrival
 *
 * Both leave their results in the same place, a block of elements at a time so that what is added up stays in the first-level cache, and run in turn;
 * times are medians, the difference that of the rounds' differences. */
#include "base/memory.h"
#include "runtime/comm/local/local.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/session.h"
#include "runtime/threads/clock.h"
#include "runtime/threads/thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLICAS = 8,
    RANKS = 2,
    STEPS = 5,
    ROUNDS = 15,
    BLOCK = 512 /* elements */
};

typedef struct sums {
    int n_leaves;
    size_t n; /* elements of a leaf */
    float **leaves, *target;
    dt_group *groups[RANKS];
    dt_collective_part parts[RANKS];
    dt_group_work work[RANKS];
    void *scratch[RANKS];
    bool in_tree;
} sums;

static const dt_step_context at = {.step = "train"};

/* ---- one round ---- */

static dt_status *add_in_tree(const sums *of, int rank) {
    DT_TRY(dt_group_meet(of->groups[rank], &at, "all gradients"));
    for (size_t o = 0; o < of->work[rank].operations.n; o++) {
        const dt_operation_reduce *reduce = &of->work[rank].operations.items[o].reduce;
        for (int r = 0; r < reduce->n; r++) dt_reduce(&reduce->reductions[r], of->scratch[rank]);
    }
    return dt_group_meet(of->groups[rank], &at, "all gradients");
}

static dt_status *add_as_they_come(const sums *of, int rank) {
    size_t n_blocks = (of->n + BLOCK - 1) / BLOCK, share = (size_t)rank;
    size_t first = n_blocks * share / RANKS * BLOCK, end = n_blocks * (share + 1) / RANKS * BLOCK;
    if (end > of->n) end = of->n;
    DT_TRY(dt_group_meet(of->groups[rank], &at, "all gradients"));
    for (size_t e = first; e < end; e += BLOCK) {
        size_t n = end - e < BLOCK ? end - e : BLOCK;
        float *restrict sum = of->target + e;
        memcpy(sum, of->leaves[0] + e, n * sizeof *sum);
        for (int l = 1; l < of->n_leaves; l++) {
            const float *restrict leaf = of->leaves[l] + e;
            for (size_t i = 0; i < n; i++) sum[i] += leaf[i];
        }
    }
    return dt_group_meet(of->groups[rank], &at, "all gradients");
}

static dt_status *add_up(void *context, int member) {
    const sums *of = context;
    return (of->in_tree ? add_in_tree : add_as_they_come)(of, member);
}

/* ---- times ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, int n) {
    qsort(seconds, (size_t)n, sizeof *seconds, compare);
    return seconds[n / 2];
}

static dt_status *time_of_round(sums *of, dt_thread_pool *pool, bool in_tree, double *seconds) {
    double began = dt_seconds_now();
    of->in_tree = in_tree;
    DT_TRY(dt_thread_pool_run(pool, add_up, of));
    *seconds = dt_seconds_now() - began;
    return NULL;
}

static dt_status *time_sums(sums *of, dt_thread_pool *pool, double *fixed, double *arrival, double *difference) {
    double times[3][ROUNDS];
    DT_TRY(time_of_round(of, pool, true, &times[0][0])); /* one that is not counted */
    for (int i = 0; i < ROUNDS; i++) {
        DT_TRY(time_of_round(of, pool, true, &times[0][i]));
        DT_TRY(time_of_round(of, pool, false, &times[1][i]));
        times[2][i] = times[0][i] - times[1][i];
    }
    *fixed = median(times[0], ROUNDS);
    *arrival = median(times[1], ROUNDS);
    *difference = median(times[2], ROUNDS);
    return NULL;
}

static dt_status *allocate_leaf(size_t n, float **leaf) {
    *leaf = dt_host_memory_allocate(n * sizeof **leaf);
    if (*leaf == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %zu elements", n);
    for (size_t i = 0; i < n; i++) (*leaf)[i] = (float)(i % 1021) * 0.001f;
    return NULL;
}

static dt_status *open_groups(sums *of, dt_arena *arena) {
    dt_local_hub *hub;
    dt_local_hub_options options = {.n_ranks = RANKS,
                                    .shares_memory = true,
                                    .n_microbatches = of->n_leaves,
                                    .n_all_microbatches = of->n_leaves,
                                    .rows = {1, 1, 1},
                                    .deadline_seconds = 60};
    DT_TRY(dt_local_hub_create(&options, &hub));
    for (int r = 0; r < RANKS; r++) {
        DT_TRY(dt_local_hub_join(hub, r, &of->groups[r]));
        of->parts[r] = (dt_collective_part){.kind = DT_COLLECTIVE_ALL_REDUCE,
                                            .combine = DT_REDUCTION_SUM,
                                            .dtype = DT_F32,
                                            .n = of->n,
                                            .sources = (void *const *)of->leaves + of->groups[r]->first_microbatch,
                                            .n_targets = 1,
                                            .targets = (void *const *)&of->target,
                                            .label = "all gradients"};
        dt_group_publish(of->groups[r], &of->parts[r], 1);
        of->scratch[r] = dt_host_memory_allocate(dt_reduce_scratch_bytes(of->n_leaves));
        if (of->scratch[r] == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_local_hub_release(hub);
    for (int r = 0; r < RANKS; r++) DT_TRY(dt_group_lower(of->groups[r], 0, 1, arena, &of->work[r]));
    return NULL;
}

static dt_status *measure_sums(sums *of, double *fixed, double *arrival, double *difference) {
    dt_thread_pool *pool;
    of->leaves = dt_allocate_zeroed((size_t)of->n_leaves, sizeof *of->leaves);
    if (of->leaves == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int l = 0; l < of->n_leaves; l++) DT_TRY(allocate_leaf(of->n, &of->leaves[l]));
    DT_TRY(allocate_leaf(of->n, &of->target));
    dt_arena *arena = dt_arena_create();
    if (arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    DT_TRY(open_groups(of, arena));
    DT_TRY(dt_thread_pool_create(RANKS, NULL, NULL, &pool));
    dt_status *status = time_sums(of, pool, fixed, arrival, difference);
    dt_thread_pool_destroy(pool);
    for (int r = 0; r < RANKS; r++) dt_group_close(of->groups[r]);
    dt_arena_destroy(arena);
    return status;
}

/* ---- the program's step ---- */

/* Zeros: times do not depend on them. */
static dt_status *make_inputs(const dt_artifact_function *function, int64_t rows, const void **inputs) {
    for (int i = 0; i < function->n_inputs; i++) {
        inputs[i] = dt_allocate_zeroed((size_t)(function->inputs[i].row_bytes * rows) + DT_SLACK_BYTES, 1);
        if (inputs[i] == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    return NULL;
}

static dt_status *time_steps(const dt_kernels *kernels, int step, double *seconds) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    const dt_artifact_function *function = &artifact->functions[artifact->steps[step].function];
    dt_session_options options = dt_session_options_default();
    dt_session *session;
    double times[STEPS];
    const void **inputs = dt_allocate_zeroed((size_t)function->n_inputs + 1, sizeof *inputs);
    options.devices = "cpu:2x1";
    options.replicas = REPLICAS;
    DT_TRY(dt_session_create(kernels, &options, &session));
    dt_status *status = make_inputs(function, dt_session_global_batch(session), inputs);
    if (status == NULL) status = dt_session_initialize(session);
    for (int i = -1; i < STEPS && status == NULL; i++) {
        double began = dt_seconds_now();
        status = dt_session_run(session, step, &(dt_batch){.inputs = inputs, .rows = dt_session_global_batch(session), .counter = i + 1}, NULL);
        if (i >= 0) times[i] = dt_seconds_now() - began;
    }
    dt_session_destroy(session);
    if (status == NULL) *seconds = median(times, STEPS);
    return status;
}

static size_t n_gradients(const dt_artifact_function *function) {
    int64_t n = 0;
    for (int s = 0; s < function->n_segments; s++)
        for (int c = 0; c < function->segments[s].n_collectives; c++) {
            const dt_artifact_tensor *tensor = &function->buffers[function->segments[s].collectives[c].source].tensor;
            if (tensor->dtype == DT_F32) n += tensor->row_bytes / (int64_t)sizeof(float);
        }
    return (size_t)n;
}

static dt_status *measure(const char *path) {
    dt_artifact *artifact;
    dt_kernels *kernels;
    double step_seconds = 0, fixed = 0, arrival = 0, difference = 0;
    DT_TRY(dt_artifact_open(path, &artifact));
    DT_TRY(dt_kernels_load(artifact, NULL, &kernels));
    int step = dt_artifact_find_step(artifact, "train");
    if (step < 0) return dt_error(DT_NOT_FOUND, "%s has no step train", path);
    DT_TRY(time_steps(kernels, step, &step_seconds));
    sums of = {.n_leaves = REPLICAS * (int)dt_artifact_microbatches(artifact, artifact->capacity),
               .n = n_gradients(&artifact->functions[artifact->steps[step].function])};
    DT_TRY(measure_sums(&of, &fixed, &arrival, &difference));
    printf("{\"step\": %.6f, \"leaves\": %d, \"bytes\": %zu, \"fixed\": %.6f, \"arrival\": %.6f, \"difference\": %.6f}\n", step_seconds, of.n_leaves,
           of.n * sizeof(float), fixed, arrival, difference);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: reduction_order PROGRAM.dtx\n");
        return 2;
    }
    dt_status *status = measure(argv[1]);
    if (status != NULL) fprintf(stderr, "reduction_order: %s\n", dt_status_message(status));
    return status != NULL;
}
