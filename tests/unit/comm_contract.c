/* The contract of comm.h, over every implementation: one group after another of all numbers of ranks and leaves, each collective compared with a
 * plain loop over the tree that comm.h promises; and what happens when somebody fails or does not come. */
#include "runtime/comm/local/local.h"

#include "base/memory.h"
#include "runtime/comm/fold.h"
#include "runtime/gate.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* An implementation is one row. */
static const struct implementation {
    const char *name;
    dt_status *(*open)(int n_ranks, int n_leaves, double deadline_seconds, dt_comm **comms);
} implementations[] = {{"local", dt_comm_local_open}};

enum {
    MOST_RANKS = 5,
    MOST_LEAVES = 9,
    ELEMENTS = 1300 /* several blocks, and a rest */
};

static const dt_comm_moment full = {.step = "train", .number = 57, .segment = 3, .rows = 4, .blocks = 1, .block_rows = 4, .valid = 4 * MOST_LEAVES};

/* ---- running one function on all ranks ---- */

typedef struct rank_thread {
    dt_comm *comm;
    void (*body)(dt_comm *comm, void *shared);
    void *shared;
} rank_thread;

static void *run_rank(void *argument) {
    rank_thread *thread = argument;
    thread->body(thread->comm, thread->shared);
    return NULL;
}

static void on_all_ranks(const struct implementation *implementation, int n_ranks, int n_leaves, double deadline, void (*body)(dt_comm *, void *),
                         void *shared) {
    dt_comm *comms[MOST_RANKS];
    rank_thread ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    assert_null(implementation->open(n_ranks, n_leaves, deadline, comms));
    for (int r = 0; r < n_ranks; r++) {
        ranks[r] = (rank_thread){comms[r], body, shared};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < n_ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < n_ranks; r++) dt_comm_close(comms[r]);
}

/* ---- the naive twin ---- */

static double tree(const double *leaves, int n, dt_fold fold, bool in_f32) {
    if (n == 1) return leaves[0];
    int left = 1;
    while (left * 2 < n) left *= 2;
    double a = tree(leaves, left, fold, in_f32), b = tree(leaves + left, n - left, fold, in_f32);
    double result = fold == DT_FOLD_SUM ? a + b : fold == DT_FOLD_MAX ? fmax(a, b) : fmin(a, b);
    return in_f32 ? (double)(float)result : result;
}

/* ---- all_reduce ---- */

typedef struct reduce_case {
    dt_dtype dtype;
    dt_fold fold;
    char *sources[MOST_LEAVES], *targets[MOST_RANKS];
} reduce_case;

static void reduce_body(dt_comm *comm, void *shared) {
    reduce_case *test = shared;
    void *target = test->targets[comm->rank];
    dt_comm_part part = {.kind = DT_COLLECTIVE_ALL_REDUCE,
                         .fold = test->fold,
                         .dtype = test->dtype,
                         .n = ELEMENTS,
                         .sources = (const void *const *)&test->sources[comm->first_leaf],
                         .targets = &target,
                         .label = "Cnn/conv2d_1/kernel"};
    for (int again = 0; again < 3; again++) assert_null(dt_comm_exchange(comm, &part, 1, &full));
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
static void check_reduce(const struct implementation *implementation, int n_ranks, int n_memories, int n_leaves, dt_dtype dtype, dt_fold fold) {
    reduce_case test = {.dtype = dtype, .fold = fold};
    size_t bytes = ELEMENTS * dt_dtype_bytes(dtype);
    char *expected = malloc(bytes);
    for (int l = 0; l < n_leaves; l++) {
        test.sources[l] = malloc(bytes);
        for (int i = 0; i < ELEMENTS; i++) store(dtype, test.sources[l], i, sample(dtype, l, i));
    }
    for (int i = 0; i < ELEMENTS; i++) {
        double leaves[MOST_LEAVES];
        for (int l = 0; l < n_leaves; l++) leaves[l] = sample(dtype, l, i);
        store(dtype, expected, i, tree(leaves, n_leaves, fold, dtype == DT_F32));
    }
    for (int r = 0; r < n_ranks; r++) test.targets[r] = r * n_memories % n_ranks < n_memories ? calloc(1, bytes) : test.targets[r - 1];
    on_all_ranks(implementation, n_ranks, n_leaves, 60, reduce_body, &test);
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
                    check_reduce(implementation, n_ranks, n_memories, n_leaves, dtypes[d], DT_FOLD_SUM);
    check_reduce(implementation, 5, 2, 9, DT_F32, DT_FOLD_SUM);
    for (int fold = DT_FOLD_MAX; fold <= DT_FOLD_MIN; fold++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) check_reduce(implementation, 3, 1, 5, dtypes[d], (dt_fold)fold);
}

/* ---- 16-bit floats, NaN ---- */

static uint16_t fold_two_halves(dt_dtype dtype, dt_fold fold, uint16_t a, uint16_t b) {
    const void *leaves[] = {&a, &b};
    _Alignas(64) static char scratch[1 << 16];
    uint16_t result;
    void *target = &result;
    assert_true(dt_fold_scratch_bytes(2) <= sizeof scratch);
    dt_fold_leaves(fold, dtype, leaves, NULL, 2, 0, 1, scratch, &target, 1);
    return result;
}

static void halves_are_rounded_once_and_to_even(void **state) {
    (void)state;
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x3c00, 0x3c00), 0x4000);  /* 1 + 1 */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x0001, 0x0001), 0x0002);  /* subnormals */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x03ff, 0x0001), 0x0400);  /* into the normals */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x7bff, 0x7bff), 0x7c00);  /* infinity */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x7bff, 0x4bff), 0x7bff);  /* 65504 + 15.99 stays */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x6800, 0x3c00), 0x6800);  /* 2048 + 1: a tie, to even */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x6801, 0x3c00), 0x6802);  /* 2050 + 1: a tie, to even */
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_SUM, 0x8001, 0x0000), 0x8001);  /* -2^-24 */
    assert_int_equal(fold_two_halves(DT_BF16, DT_FOLD_SUM, 0x3f80, 0x3b80), 0x3f80); /* 1 + 2^-8: a tie */
    assert_int_equal(fold_two_halves(DT_BF16, DT_FOLD_SUM, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(fold_two_halves(DT_F16, DT_FOLD_MAX, 0x7e01, 0x3c00) & 0x7e00, 0x7e00); /* a NaN wins */
    assert_int_equal(fold_two_halves(DT_BF16, DT_FOLD_MIN, 0x3c00, 0x7fc0) & 0x7fc0, 0x7fc0);
}

/* ---- rows: all_gather, reduce_scatter ---- */

enum {
    ROWS = 3, /* of each leaf */
    WIDTH = 2 /* elements a row */
};

typedef struct row_case {
    int n_leaves;
    dt_comm_moment moment;
    float own[MOST_LEAVES][ROWS * WIDTH];                   /* each leaf's rows */
    float all[MOST_LEAVES][MOST_LEAVES * ROWS * WIDTH];     /* each leaf's view of all rows */
    float gathered[MOST_RANKS][MOST_LEAVES * ROWS * WIDTH]; /* each rank's target */
    float scattered[MOST_LEAVES][ROWS * WIDTH];             /* each leaf's target */
} row_case;

static void row_body(dt_comm *comm, void *shared) {
    row_case *test = shared;
    const void *own[MOST_LEAVES], *all[MOST_LEAVES];
    void *gathered = test->gathered[comm->rank], *scattered[MOST_LEAVES];
    for (int l = 0; l < comm->n_leaves; l++) {
        own[l] = test->own[comm->first_leaf + l];
        all[l] = test->all[comm->first_leaf + l];
        scattered[l] = test->scattered[comm->first_leaf + l];
    }
    dt_comm_part parts[] = {
        {.kind = DT_COLLECTIVE_ALL_GATHER, .dtype = DT_F32, .n = WIDTH, .sources = own, .targets = &gathered, .label = "z"},
        {.kind = DT_COLLECTIVE_REDUCE_SCATTER, .fold = DT_FOLD_SUM, .dtype = DT_F32, .n = WIDTH, .sources = all, .targets = scattered, .label = "g"}};
    assert_null(dt_comm_exchange(comm, parts, 2, &test->moment));
}

static void rows_are_gathered_and_scattered_as_far_as_they_are_valid(void **state) {
    static row_case test;
    int n_leaves = 4;
    for (int valid = 1; valid <= n_leaves * ROWS; valid++)
        for (int n_ranks = 1; n_ranks <= n_leaves; n_ranks++) {
            memset(&test, 0, sizeof test);
            test.n_leaves = n_leaves;
            test.moment = (dt_comm_moment){.step = "train", .rows = ROWS, .blocks = 1, .block_rows = ROWS, .valid = valid};
            for (int l = 0; l < n_leaves; l++) {
                for (int i = 0; i < ROWS * WIDTH; i++) test.own[l][i] = (float)(l * ROWS * WIDTH + i + 1);
                for (int i = 0; i < n_leaves * ROWS * WIDTH; i++) test.all[l][i] = (float)((l + 1) * (i + 1));
            }
            on_all_ranks(*state, n_ranks, n_leaves, 60, row_body, &test);
            for (int i = 0; i < n_leaves * ROWS * WIDTH; i++) {
                bool is_valid = i < valid * WIDTH;
                for (int r = 0; r < n_ranks; r++) assert_true(test.gathered[r][i] == (is_valid ? (float)(i + 1) : 0));
                assert_true(test.scattered[i / (ROWS * WIDTH)][i % (ROWS * WIDTH)] == (is_valid ? (float)(10 * (i + 1)) : 0));
            }
        }
}

/* ---- broadcast and barrier ---- */

static void broadcast_body(dt_comm *comm, void *shared) {
    int *sums = shared, data[100];
    for (int root = 0; root < comm->n_ranks; root++) {
        for (int i = 0; i < 100; i++) data[i] = comm->rank == root ? 1000 * root + i : -1;
        assert_null(dt_comm_broadcast(comm, root, data, sizeof data, &full));
        for (int i = 0; i < 100; i++) sums[comm->rank] += data[i] - 1000 * root - i;
    }
}

static void broadcast_delivers_the_roots_bytes(void **state) {
    int differences[MOST_RANKS] = {0};
    on_all_ranks(*state, 4, 4, 60, broadcast_body, differences);
    for (int r = 0; r < 4; r++) assert_int_equal(differences[r], 0);
}

static void barrier_body(dt_comm *comm, void *shared) {
    atomic_int *n_arrived = shared;
    for (int turn = 1; turn <= 200; turn++) {
        atomic_fetch_add(n_arrived, 1);
        assert_null(dt_comm_barrier(comm, &full));
        assert_true(atomic_load(n_arrived) >= turn * comm->n_ranks);
        assert_null(dt_comm_barrier(comm, &full));
        assert_true(atomic_load(n_arrived) <= (turn + 1) * comm->n_ranks);
    }
}

static void a_barrier_lets_nobody_pass_before_all_have_come(void **state) {
    for (int n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++) {
        atomic_int n_arrived = 0;
        on_all_ranks(*state, n_ranks, n_ranks, 60, barrier_body, &n_arrived);
    }
}

/* ---- failing ---- */

static void expect_aborted(dt_status *status, const char *words) {
    assert_int_equal(dt_status_code(status), DT_ABORTED);
    if (strstr(dt_status_message(status), words) == NULL) fail_msg("\"%s\" is not in: %s", words, dt_status_message(status));
    dt_status_free(status);
}

static void abort_body(dt_comm *comm, void *shared) {
    (void)shared;
    if (comm->rank == 1) dt_comm_abort(comm, "device 1: out of order");
    for (int again = 0; again < 2; again++) expect_aborted(dt_comm_barrier(comm, &full), "device 1: out of order");
}

static void a_rank_that_fails_takes_the_others_along(void **state) { on_all_ranks(*state, 3, 3, 60, abort_body, NULL); }

static void missing_body(dt_comm *comm, void *shared) {
    float *values = shared;
    const void *source = &values[comm->rank];
    void *target = &values[comm->n_ranks + comm->rank];
    dt_comm_part part = {DT_COLLECTIVE_ALL_REDUCE, DT_FOLD_SUM, DT_F32, 1, NULL, &source, &target, "Cnn/conv2d_1/kernel"};
    if (comm->rank == 2) usleep(400 * 1000);
    expect_aborted(dt_comm_exchange(comm, &part, 1, &full), "device 2 missing at train 57, segment 3, Cnn/conv2d_1/kernel");
}

static void who_does_not_come_in_time_is_named(void **state) {
    float values[6] = {0};
    double start = dt_now();
    on_all_ranks(*state, 3, 3, 0.1, missing_body, values);
    assert_true(dt_now() - start < 5);
}

static void without_memory_no_group_is_opened(void **state) {
    const struct implementation *implementation = *state;
    dt_comm *comms[3];
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = implementation->open(3, 5, 60, comms);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
        for (int r = 0; r < 3; r++) assert_null(comms[r]);
        assert_true(n < 100);
    }
    for (int r = 0; r < 3; r++) dt_comm_close(comms[r]);
}

int main(void) {
    int n_failed = 0;
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        void *state = (void *)&implementations[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(all_reduce_follows_the_tree_whoever_holds_the_leaves, state),
            cmocka_unit_test_prestate(halves_are_rounded_once_and_to_even, state),
            cmocka_unit_test_prestate(rows_are_gathered_and_scattered_as_far_as_they_are_valid, state),
            cmocka_unit_test_prestate(broadcast_delivers_the_roots_bytes, state),
            cmocka_unit_test_prestate(a_barrier_lets_nobody_pass_before_all_have_come, state),
            cmocka_unit_test_prestate(a_rank_that_fails_takes_the_others_along, state),
            cmocka_unit_test_prestate(who_does_not_come_in_time_is_named, state),
            cmocka_unit_test_prestate(without_memory_no_group_is_opened, state),
        };
        n_failed += cmocka_run_group_tests_name(implementations[i].name, tests, NULL, NULL);
    }
    return n_failed;
}
