/* The contract of group.h, over every implementation: one group after another of all numbers of ranks and microbatches, each collective compared with
 * a plain loop over the tree that is promised; what processes tell one another; and what happens when somebody fails or does not come. */
#include "runtime/comm/local/local.h"

#include "base/memory.h"
#include "runtime/devices/reduce.h"
#include "runtime/threads/clock.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MOST_RANKS = 5,
    MOST_LEAVES = 9,
    ELEMENTS = 1300 /* several blocks, and a rest */
};

typedef struct layout {
    int n_ranks, n_processes, n_leaves;
    bool shares_memory;
    double deadline;
    dt_microbatches rows;
} layout;

static const dt_step_context context = {.step = "train", .number = 57, .segment = 3};

/* All members of a group; what they share is released. */
static dt_status *open_local(const layout *of, dt_group **groups) {
    dt_local_hub *hub;
    dt_local_hub_options options = {of->n_ranks, of->n_processes, of->shares_memory, of->n_leaves, of->rows, of->deadline};
    dt_status *status = dt_local_hub_create(&options, &hub);
    for (int r = 0; r < of->n_ranks; r++) {
        groups[r] = NULL;
        if (status == NULL) status = dt_local_hub_join(hub, r, &groups[r]);
    }
    dt_local_hub_release(hub);
    return status;
}

/* An implementation is one row. */
static const struct implementation {
    const char *name;
    dt_status *(*open)(const layout *of, dt_group **groups);
} implementations[] = {{"local", open_local}};

static layout ranks(int n_ranks, int n_leaves) { return (layout){n_ranks, 1, n_leaves, true, 60, {4, 1, 4}}; }

/* ---- running one function on all ranks ---- */

typedef struct rank_thread {
    dt_group *group;
    void (*body)(dt_group *group, void *shared);
    void *shared;
} rank_thread;

static void *run_rank(void *argument) {
    rank_thread *thread = argument;
    thread->body(thread->group, thread->shared);
    return NULL;
}

static void on_all_ranks(const struct implementation *implementation, layout of, void (*body)(dt_group *, void *), void *shared) {
    dt_group *groups[MOST_RANKS];
    rank_thread threads_of[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    assert_null(implementation->open(&of, groups));
    for (int r = 0; r < of.n_ranks; r++) {
        threads_of[r] = (rank_thread){groups[r], body, shared};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &threads_of[r]), 0);
    }
    for (int r = 0; r < of.n_ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < of.n_ranks; r++) dt_group_close(groups[r]);
}

/* A collective from the beginning to its end, `times` times. */
static void exchange(dt_group *group, const dt_collective_part *part, int times) {
    dt_arena *arena = dt_arena_create();
    dt_tree_reductions reductions = {0};
    _Alignas(64) char scratch[1 << 16];
    assert_true(dt_reduce_scratch_bytes(group->n_all_microbatches) <= sizeof scratch);
    dt_group_publish(group, part);
    assert_null(dt_group_meet(group, DT_GROUP_ALL, &context, "start"));
    dt_group_lower(group, 0, 1, arena, &reductions);
    for (int i = 0; i < times; i++) {
        assert_null(dt_group_meet(group, DT_GROUP_ALL, &context, part->label));
        for (size_t r = 0; r < reductions.n; r++) dt_reduce(&reductions.items[r], scratch);
        assert_null(dt_group_meet(group, DT_GROUP_ALL, &context, part->label));
    }
    dt_arena_destroy(arena);
}

/* ---- the naive twin ---- */

static double tree(const double *leaves, int n, dt_reduction_op op, bool in_f32) {
    if (n == 1) return leaves[0];
    int left = 1;
    while (left * 2 < n) left *= 2;
    double a = tree(leaves, left, op, in_f32), b = tree(leaves + left, n - left, op, in_f32);
    double result = op == DT_REDUCTION_SUM ? a + b : op == DT_REDUCTION_MAX ? fmax(a, b) : fmin(a, b);
    return in_f32 ? (double)(float)result : result;
}

/* ---- all_reduce ---- */

typedef struct reduce_case {
    dt_dtype dtype;
    dt_reduction_op op;
    char *sources[MOST_LEAVES], *targets[MOST_RANKS];
} reduce_case;

static void reduce_body(dt_group *group, void *shared) {
    reduce_case *test = shared;
    void *target = test->targets[group->rank];
    exchange(group,
             &(dt_collective_part){.kind = DT_COLLECTIVE_ALL_REDUCE,
                                   .combine = test->op,
                                   .dtype = test->dtype,
                                   .n = ELEMENTS,
                                   .sources = (void *const *)&test->sources[group->first_microbatch],
                                   .n_targets = 1,
                                   .targets = &target,
                                   .label = "Cnn/conv2d_1/kernel"},
             3);
}

/* A value that is exact in every type but whose sums in f32 depend on their order. */
static double sample(dt_dtype dtype, int leaf, int i) {
    uint32_t mixed = (uint32_t)(leaf * ELEMENTS + i) * 2654435761u;
    switch (dtype) {
    case DT_F32:
    case DT_F64: return ldexp((int32_t)(mixed >> 8) - (1 << 23), (int)(mixed % 12) - 20);
    case DT_I32:
    case DT_I64: return (int32_t)(mixed >> 8) - (1 << 23);
    default: return (double)(mixed >> 28); /* also exact in 8 bits and in bf16 */
    }
}

static uint16_t bf16_of(double value) { /* exact values only */
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    return (uint16_t)(bits >> 16);
}

static uint16_t f16_of(double value) { /* small whole numbers only */
    if (value == 0) return 0;
    int exponent;
    double fraction = frexp(value, &exponent);
    return (uint16_t)((uint32_t)(exponent - 1 + 15) << 10 | (uint32_t)((fraction * 2 - 1) * 1024));
}

static void store(dt_dtype dtype, char *data, int i, double value) {
    switch (dtype) {
    case DT_F32: ((float *)data)[i] = (float)value; break;
    case DT_F64: ((double *)data)[i] = value; break;
    case DT_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case DT_I64: ((int64_t *)data)[i] = (int64_t)value; break;
    case DT_F16: ((uint16_t *)data)[i] = f16_of(value); break;
    case DT_BF16: ((uint16_t *)data)[i] = bf16_of(value); break;
    default: ((uint8_t *)data)[i] = (uint8_t)value; break;
    }
}

/* Ranks in n_memories memories: those of one name the same target. */
static void check_reduce(const struct implementation *implementation, int n_ranks, int n_memories, int n_leaves, dt_dtype dtype, dt_reduction_op op) {
    reduce_case test = {.dtype = dtype, .op = op};
    size_t bytes = ELEMENTS * dt_dtype_bytes(dtype);
    char *expected = malloc(bytes);
    for (int l = 0; l < n_leaves; l++) {
        test.sources[l] = malloc(bytes);
        for (int i = 0; i < ELEMENTS; i++) store(dtype, test.sources[l], i, sample(dtype, l, i));
    }
    for (int i = 0; i < ELEMENTS; i++) {
        double leaves[MOST_LEAVES];
        for (int l = 0; l < n_leaves; l++) leaves[l] = sample(dtype, l, i);
        store(dtype, expected, i, tree(leaves, n_leaves, op, dtype == DT_F32));
    }
    for (int r = 0; r < n_ranks; r++) test.targets[r] = r * n_memories % n_ranks < n_memories ? calloc(1, bytes) : test.targets[r - 1];
    on_all_ranks(implementation, ranks(n_ranks, n_leaves), reduce_body, &test);
    for (int r = 0; r < n_ranks; r++) assert_memory_equal(test.targets[r], expected, bytes);
    for (int r = 0; r < n_ranks; r++)
        if (r == 0 || test.targets[r] != test.targets[r - 1]) free(test.targets[r]);
    for (int l = 0; l < n_leaves; l++) free(test.sources[l]);
    free(expected);
}

static void all_reduce_follows_the_tree_whoever_holds_the_leaves(void **state) {
    const struct implementation *implementation = *state;
    static const dt_dtype dtypes[] = {DT_F32, DT_F64, DT_I32, DT_I64, DT_F16, DT_BF16, DT_U8};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int n_leaves = 1; n_leaves <= MOST_LEAVES; n_leaves += d == 0 ? 1 : 3)
            for (int n_ranks = 1; n_ranks <= MOST_RANKS && n_ranks <= n_leaves; n_ranks++)
                for (int n_memories = 1; n_memories <= n_ranks; n_memories += n_ranks > 1 ? n_ranks - 1 : 1)
                    check_reduce(implementation, n_ranks, n_memories, n_leaves, dtypes[d], DT_REDUCTION_SUM);
    check_reduce(implementation, 5, 2, 9, DT_F32, DT_REDUCTION_SUM);
    for (int op = DT_REDUCTION_MAX; op <= DT_REDUCTION_MIN; op++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) check_reduce(implementation, 3, 1, 5, dtypes[d], (dt_reduction_op)op);
}

/* ---- 16-bit floats, NaN ---- */

static uint16_t reduce_two_halves(dt_dtype dtype, dt_reduction_op op, uint16_t a, uint16_t b) {
    _Alignas(64) static char scratch[1 << 16];
    uint16_t result;
    assert_true(dt_reduce_scratch_bytes(2) <= sizeof scratch);
    dt_reduce(&(dt_tree_reduction){.dtype = dtype,
                                   .combine = op,
                                   .n_leaves = 2,
                                   .n_sources = 2,
                                   .sources = (dt_tree_source[]){{&a, 1}, {&b, 1}},
                                   .n_elements = 1,
                                   .n_targets = 1,
                                   .targets = (void *[]){&result}},
              scratch);
    return result;
}

static void halves_are_rounded_once_and_to_even(void **state) {
    (void)state;
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x3c00, 0x3c00), 0x4000);  /* 1 + 1 */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x0001, 0x0001), 0x0002);  /* subnormals */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x03ff, 0x0001), 0x0400);  /* into the normals */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x7bff, 0x7bff), 0x7c00);  /* infinity */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x7bff, 0x4bff), 0x7bff);  /* 65504 + 15.99 stays */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x6800, 0x3c00), 0x6800);  /* 2048 + 1: a tie, to even */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x6801, 0x3c00), 0x6802);  /* 2050 + 1: a tie, to even */
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_SUM, 0x8001, 0x0000), 0x8001);  /* -2^-24 */
    assert_int_equal(reduce_two_halves(DT_BF16, DT_REDUCTION_SUM, 0x3f80, 0x3b80), 0x3f80); /* 1 + 2^-8: a tie */
    assert_int_equal(reduce_two_halves(DT_BF16, DT_REDUCTION_SUM, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(reduce_two_halves(DT_F16, DT_REDUCTION_MAX, 0x7e01, 0x3c00) & 0x7e00, 0x7e00); /* a NaN wins */
    assert_int_equal(reduce_two_halves(DT_BF16, DT_REDUCTION_MIN, 0x3c00, 0x7fc0) & 0x7fc0, 0x7fc0);
}

/* ---- rows: all_gather, reduce_scatter ---- */

enum {
    N_REPLICAS = 2,
    ROWS = 5, /* of each replica: microbatches of 3 and 2 */
    WIDTH = 2,
    N_LEAVES = 2 * N_REPLICAS,
    N_ALL = N_REPLICAS * ROWS * WIDTH
};

typedef struct row_case {
    float own[N_LEAVES][3 * WIDTH];       /* each microbatch's rows */
    float all[N_LEAVES][N_ALL];           /* each microbatch's view of all rows */
    float gathered[MOST_RANKS][N_ALL];    /* each rank's target */
    float scattered[N_LEAVES][3 * WIDTH]; /* each microbatch's target */
    float sums[N_LEAVES][N_ALL];          /* where a member has both of a replica's microbatches, added up in the first one's place */
    float rescattered[N_LEAVES][3 * WIDTH];
} row_case;

static void row_body(dt_group *group, void *shared) {
    row_case *test = shared;
    static const int pairs[N_LEAVES] = {2, 0, 2, 0};
    void *own[N_LEAVES], *all[N_LEAVES], *gathered = test->gathered[group->rank], *scattered[N_LEAVES], *sums[N_LEAVES], *rescattered[N_LEAVES];
    bool has_pairs = group->n_microbatches % 2 == 0;
    for (int m = 0; m < group->n_microbatches; m++) {
        own[m] = test->own[group->first_microbatch + m];
        all[m] = test->all[group->first_microbatch + m];
        scattered[m] = test->scattered[group->first_microbatch + m];
        sums[m] = test->sums[group->first_microbatch + m];
        rescattered[m] = test->rescattered[group->first_microbatch + m];
    }
    dt_collective_part gather = {
        .kind = DT_COLLECTIVE_ALL_GATHER, .dtype = DT_F32, .n = WIDTH, .sources = own, .n_targets = 1, .targets = &gathered, .label = "z"};
    dt_collective_part scatter = {.kind = DT_COLLECTIVE_REDUCE_SCATTER,
                                  .combine = DT_REDUCTION_SUM,
                                  .dtype = DT_F32,
                                  .n = WIDTH,
                                  .sources = all,
                                  .n_targets = group->n_microbatches,
                                  .targets = scattered,
                                  .label = "g"};
    dt_collective_part scatter_sums = scatter;
    scatter_sums.sources = has_pairs ? sums : all;
    scatter_sums.spans = has_pairs ? pairs : NULL;
    scatter_sums.targets = rescattered;
    exchange(group, &gather, 1);
    exchange(group, &scatter, 1);
    exchange(group, &scatter_sums, 1);
}

static void rows_are_gathered_and_scattered(void **state) {
    static row_case test;
    for (int n_ranks = 1; n_ranks <= N_LEAVES; n_ranks++) {
        layout of = {.n_ranks = n_ranks, .n_processes = 1, .n_leaves = N_LEAVES, .deadline = 60, .rows = {ROWS, 2, 3}};
        memset(&test, 0, sizeof test);
        for (int m = 0; m < N_LEAVES; m++) {
            int first = m / 2 * ROWS + m % 2 * 3; /* row */
            for (int i = 0; i < (m % 2 == 0 ? 3 : 2) * WIDTH; i++) test.own[m][i] = (float)(first * WIDTH + i + 1);
            for (int i = 0; i < N_ALL; i++) test.all[m][i] = (float)((m + 1) * (i + 1));
            for (int i = 0; i < N_ALL; i++) test.sums[m - m % 2][i] += test.all[m][i];
        }
        on_all_ranks(*state, of, row_body, &test);
        for (int i = 0; i < N_ALL; i++) {
            int row = i / WIDTH % ROWS, m = i / WIDTH / ROWS * 2 + row / 3;
            for (int r = 0; r < n_ranks; r++) assert_true(test.gathered[r][i] == (float)(i + 1));
            assert_true(test.scattered[m][row % 3 * WIDTH + i % WIDTH] == (float)(10 * (i + 1)));
            assert_true(test.rescattered[m][row % 3 * WIDTH + i % WIDTH] == (float)(10 * (i + 1)));
        }
    }
}

/* ---- meeting ---- */

/* Members of domains of two, leaders of processes of two: each scope is a meeting of its own. */
static void meeting_body(dt_group *group, void *shared) {
    atomic_int *n_arrived = shared; /* of all; of each process */
    int of_a_process = group->n_ranks / group->n_processes;
    for (int turn = 1; turn <= 200; turn++) {
        atomic_fetch_add(&n_arrived[0], 1);
        assert_null(dt_group_meet(group, DT_GROUP_ALL, &context, "barrier"));
        assert_true(atomic_load(&n_arrived[0]) >= turn * group->n_ranks);
        assert_null(dt_group_meet(group, DT_GROUP_ALL, &context, "barrier"));
        assert_true(atomic_load(&n_arrived[0]) <= (turn + 1) * group->n_ranks);
        atomic_fetch_add(&n_arrived[1 + group->process], 1);
        assert_null(dt_group_meet(group, DT_GROUP_DOMAIN, &context, "barrier"));
        assert_true(atomic_load(&n_arrived[1 + group->process]) >= turn * of_a_process);
    }
}

static void a_meeting_lets_nobody_pass_before_all_have_come(void **state) {
    for (int n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++)
        for (int n_processes = 1; n_processes <= n_ranks; n_processes++) {
            atomic_int n_arrived[1 + MOST_RANKS] = {0};
            layout of = {n_ranks, n_processes, n_ranks, true, 60, {4, 1, 4}};
            if (n_ranks % n_processes == 0) on_all_ranks(*state, of, meeting_body, n_arrived);
        }
}

static void gathering_body(dt_group *group, void *shared) {
    int records[MOST_RANKS][10], *differences = shared;
    if (group->rank % (group->n_ranks / group->n_processes) != 0) return;
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < 10; i++) records[group->process][i] = 1000 * turn + 10 * group->process + i;
        assert_null(dt_group_gather(group, records, sizeof *records, &context));
        for (int p = 0; p < group->n_processes; p++)
            for (int i = 0; i < 10; i++) differences[group->rank] += records[p][i] != 1000 * turn + 10 * p + i;
    }
}

static void each_process_gets_the_record_of_each(void **state) {
    for (int n_processes = 1; n_processes <= 4; n_processes *= 2) {
        int differences[MOST_RANKS] = {0};
        on_all_ranks(*state, (layout){4, n_processes, 4, true, 60, {4, 1, 4}}, gathering_body, differences);
        for (int r = 0; r < 4; r++) assert_int_equal(differences[r], 0);
    }
}

static void a_member_knows_where_it_is(void **state) {
    const struct implementation *implementation = *state;
    dt_group *groups[MOST_RANKS];
    assert_null(implementation->open(&(layout){4, 2, 9, true, 60, {4, 3, 2}}, groups));
    for (int r = 0; r < 4; r++) {
        const dt_group *group = groups[r];
        assert_true(group->id == groups[0]->id && group->rank == r && group->n_ranks == 4);
        assert_true(group->process == r / 2 && group->n_processes == 2);
        assert_true(group->first_domain_rank == r / 2 * 2 && group->n_domain_ranks == 2);
        assert_int_equal(group->first_microbatch, r == 0 ? 0 : groups[r - 1]->first_microbatch + groups[r - 1]->n_microbatches);
        assert_true(group->n_microbatches >= 2 && group->n_all_microbatches == 9);
    }
    assert_int_equal(groups[3]->first_microbatch + groups[3]->n_microbatches, 9);
    for (int r = 0; r < 4; r++) dt_group_close(groups[r]);
}

/* ---- failing ---- */

static void expect_aborted(dt_status *status, const char *words) {
    assert_int_equal(dt_status_code(status), DT_ABORTED);
    if (strstr(dt_status_message(status), words) == NULL) fail_msg("\"%s\" is not in: %s", words, dt_status_message(status));
    dt_status_free(status);
}

static void abort_body(dt_group *group, void *shared) {
    (void)shared;
    if (group->rank == 1) dt_group_abort(group, "device 1: out of order");
    for (int again = 0; again < 2; again++) expect_aborted(dt_group_meet(group, DT_GROUP_ALL, &context, "barrier"), "device 1: out of order");
}

static void a_rank_that_fails_takes_the_others_along(void **state) { on_all_ranks(*state, ranks(3, 3), abort_body, NULL); }

static void missing_body(dt_group *group, void *shared) {
    (void)shared;
    if (group->rank == 2) usleep(400 * 1000);
    expect_aborted(dt_group_meet(group, DT_GROUP_ALL, &context, "Cnn/conv2d_1/kernel"),
                   "device 2 missing at train 57, segment 3, Cnn/conv2d_1/kernel");
}

static void who_does_not_come_in_time_is_named(void **state) {
    layout of = ranks(3, 3);
    double start = dt_seconds_now();
    of.deadline = 0.1;
    on_all_ranks(*state, of, missing_body, NULL);
    assert_true(dt_seconds_now() - start < 5);
}

static void without_memory_no_group_is_opened(void **state) {
    const struct implementation *implementation = *state;
    dt_group *groups[MOST_RANKS];
    layout of = ranks(3, 5);
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = implementation->open(&of, groups);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
        for (int r = 0; r < 3; r++) dt_group_close(groups[r]);
        assert_true(n < 100);
    }
    for (int r = 0; r < 3; r++) dt_group_close(groups[r]);
}

int main(void) {
    int n_failed = 0;
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        void *state = (void *)&implementations[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(all_reduce_follows_the_tree_whoever_holds_the_leaves, state),
            cmocka_unit_test_prestate(halves_are_rounded_once_and_to_even, state),
            cmocka_unit_test_prestate(rows_are_gathered_and_scattered, state),
            cmocka_unit_test_prestate(a_meeting_lets_nobody_pass_before_all_have_come, state),
            cmocka_unit_test_prestate(each_process_gets_the_record_of_each, state),
            cmocka_unit_test_prestate(a_member_knows_where_it_is, state),
            cmocka_unit_test_prestate(a_rank_that_fails_takes_the_others_along, state),
            cmocka_unit_test_prestate(who_does_not_come_in_time_is_named, state),
            cmocka_unit_test_prestate(without_memory_no_group_is_opened, state),
        };
        n_failed += cmocka_run_group_tests_name(implementations[i].name, tests, NULL, NULL);
    }
    return n_failed;
}
