/* The contract of group.h, over every implementation: one group after another of all numbers of ranks and microbatches, each collective compared with
 * a plain loop over the tree that is promised; and what happens when somebody fails or does not come. In one process, in as many as there are
 * members, and in two. */
#include "runtime/comm/local/local.h"

#include "base/memory.h"
#include "runtime/devices/reduce.h"
#include "runtime/threads/clock.h"
#include "tests/support/thread_processes.h"

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
    int n_members, n_leaves;
    bool shares_memory;
    int n_idle; /* members of each process without a microbatch, its first ones */
    double deadline;
    dt_microbatches rows;
} layout;

static const dt_step_context context = {.step = "train", .number = 57, .segment = 3};

/* An implementation is one row: how many processes n members are dealt to. */
static const struct implementation {
    const char *name;
    int most_processes;
} implementations[] = {{"one process", 1}, {"two processes", 2}, {"a process each", MOST_RANKS}};

static layout ranks(int n_members, int n_leaves) { return (layout){n_members, n_leaves, true, 0, 60, {4, 1, 4}}; }

/* ---- members ---- */

typedef struct member {
    int index; /* among those of all processes */
    dt_group *group;
    pthread_mutex_t *lock;   /* of its process: members lower one after the other */
    dt_arena *arena;         /* of its process */
    dt_processes *processes; /* as its process knows them; NULL: there is one */
    void (*body)(struct member *self, void *shared);
    void *shared;
} member;

typedef struct run {
    thread_processes processes;
    int n_processes;
    pthread_mutex_t locks[MOST_RANKS];
    dt_arena *arenas[MOST_RANKS];
    member members[MOST_RANKS];
} run;

static dt_status *allocate(void *unused, size_t bytes, void **memory) {
    (void)unused;
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *memory != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

static void release(void *unused, void *memory, size_t bytes) {
    (void)unused, (void)bytes;
    free(memory);
}

/* The members of process p of all of them. */
static dt_status *open_members(run *of, const layout *all, int p) {
    int first = p * all->n_members / of->n_processes, end = (p + 1) * all->n_members / of->n_processes;
    dt_local_hub_options options = {
        .n_ranks = end - first,
        .shares_memory = all->shares_memory,
        .n_idle = all->n_idle,
        .first_microbatch = dt_microbatches_first_of_rank(p, of->n_processes, all->n_leaves),
        .n_all_microbatches = all->n_leaves,
        .rows = all->rows,
        .deadline_seconds = all->deadline,
        .mesh = dt_mesh_of((dt_process_roles){.n_processes = of->n_processes, .process = p}, 1, 1),
        .processes = of->n_processes > 1 ? of->processes.all[p] : NULL,
        .allocate = allocate,
        .release = release,
    };
    options.n_microbatches = dt_microbatches_first_of_rank(p + 1, of->n_processes, all->n_leaves) - options.first_microbatch;
    dt_local_hub *hub;
    dt_status *status = dt_local_hub_create(&options, &hub);
    for (int m = first; m < end; m++) {
        of->members[m] = (member){.index = m, .lock = &of->locks[p], .arena = of->arenas[p], .processes = options.processes};
        if (status == NULL) status = dt_local_hub_join(hub, m - first, &of->members[m].group);
    }
    dt_local_hub_release(hub);
    return status;
}

/* No process has more members with microbatches than there are of these, or none. */
static int n_processes_for(const struct implementation *implementation, const layout *all) {
    int n = implementation->most_processes < all->n_members ? implementation->most_processes : all->n_members;
    while (all->n_leaves / n < (all->n_members + n - 1) / n - all->n_idle) n++;
    while (all->n_members / n <= all->n_idle) n--;
    return n;
}

static void open_run(run *of, const struct implementation *implementation, const layout *all) {
    memset(of, 0, sizeof *of);
    of->n_processes = n_processes_for(implementation, all);
    if (of->n_processes > 1) thread_processes_open(&of->processes, of->n_processes, all->deadline);
    for (int p = 0; p < of->n_processes; p++) {
        pthread_mutex_init(&of->locks[p], NULL);
        of->arenas[p] = dt_arena_create();
        assert_null(open_members(of, all, p));
    }
}

static void close_run(run *of, int n_members) {
    for (int m = 0; m < n_members; m++) dt_group_close(of->members[m].group);
    if (of->n_processes > 1) thread_processes_close(&of->processes);
    for (int p = 0; p < of->n_processes; p++) dt_arena_destroy(of->arenas[p]);
}

static void *run_member(void *argument) {
    member *self = argument;
    self->body(self, self->shared);
    return NULL;
}

static void on_all_members(const struct implementation *implementation, layout all, void (*body)(member *, void *), void *shared) {
    static run of;
    pthread_t threads[MOST_RANKS];
    open_run(&of, implementation, &all);
    for (int m = 0; m < all.n_members; m++) {
        of.members[m].body = body;
        of.members[m].shared = shared;
        assert_int_equal(pthread_create(&threads[m], NULL, run_member, &of.members[m]), 0);
    }
    for (int m = 0; m < all.n_members; m++) pthread_join(threads[m], NULL);
    close_run(&of, all.n_members);
}

/* What a member does of operations from number `at` on, until a gate is not open. */
static size_t run_operations(const dt_operation_list *operations, size_t at, int times) {
    _Alignas(64) char scratch[1 << 16];
    for (; at < operations->n; at++) {
        const dt_operation *one = &operations->items[at];
        switch (one->kind) {
        case DT_OPERATION_PASS:
            if (!dt_gate_is_open(one->gate, (uint64_t)times)) return at;
            break;
        case DT_OPERATION_ARRIVE: dt_gate_arrive(one->gate, &context); break;
        case DT_OPERATION_AWAIT: assert_null(dt_gate_await(one->gate, (uint64_t)times)); break;
        default:
            assert_int_equal(one->kind, DT_OPERATION_REDUCE);
            for (int r = 0; r < one->reduce.n; r++) dt_reduce(&one->reduce.reductions[r], scratch);
        }
    }
    return at;
}

/* Of what is beside, of buckets from number n_begun on, what gates let it do. How many have begun then. */
static int begin_buckets(const dt_group_work *work, int n_begun, int times) {
    while (n_begun < work->n_buckets && run_operations(&work->buckets[n_begun].beside, 0, times) == work->buckets[n_begun].beside.n) n_begun++;
    return n_begun;
}

/* What is published, from the beginning to its end: parts [first, first + n) together, `times` times. */
static void exchange(member *self, int first, int n, const char *label, int times) {
    dt_group *group = self->group;
    dt_group_work work = {0};
    assert_null(dt_group_meet(group, &context, "start"));
    pthread_mutex_lock(self->lock);
    assert_null(dt_group_lower(group, first, n, self->arena, &work));
    pthread_mutex_unlock(self->lock);
    for (int i = 1; i <= times; i++) {
        int n_begun = 0;
        for (int b = 0; b < work.n_buckets; b++) {
            dt_gate_arrive(work.buckets[b].complete, &context);
            n_begun = begin_buckets(&work, n_begun, i);
        }
        assert_null(dt_group_meet(group, &context, label));
        assert_int_equal(begin_buckets(&work, n_begun, i), work.n_buckets);
        for (int b = 0; b < work.n_buckets; b++) run_operations(&work.buckets[b].behind, 0, i);
        run_operations(&work.operations, 0, i);
        assert_null(dt_group_meet(group, &context, label));
    }
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

static void reduce_body(member *self, void *shared) {
    reduce_case *test = shared;
    void *target = test->targets[self->index];
    dt_collective_part part = {.kind = DT_COLLECTIVE_ALL_REDUCE,
                               .combine = test->op,
                               .dtype = test->dtype,
                               .n = ELEMENTS,
                               .sources = (void *const *)&test->sources[self->group->first_microbatch],
                               .n_targets = 1,
                               .targets = &target,
                               .label = "Cnn/conv2d_1/kernel"};
    dt_group_publish(self->group, &part, 1);
    exchange(self, 0, 1, part.label, 3);
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

/* Whether rank r is the first of a process. */
static bool begins_process(const struct implementation *implementation, const layout *all, int r) {
    int n = n_processes_for(implementation, all);
    for (int p = 0; p < n; p++)
        if (p * all->n_members / n == r) return true;
    return false;
}

/* Ranks in n_memories memories, or as many as there are processes: those of one name the same target. */
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
    layout all = ranks(n_ranks, n_leaves);
    for (int r = 0; r < n_ranks; r++) {
        bool is_new = r * n_memories % n_ranks < n_memories || begins_process(implementation, &all, r);
        test.targets[r] = is_new ? calloc(1, bytes) : test.targets[r - 1];
    }
    on_all_members(implementation, all, reduce_body, &test);
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

static void row_body(member *self, void *shared) {
    row_case *test = shared;
    dt_group *group = self->group;
    static const int pairs[N_LEAVES] = {2, 0, 2, 0};
    void *own[N_LEAVES], *all[N_LEAVES], *gathered = test->gathered[self->index], *scattered[N_LEAVES], *sums[N_LEAVES], *rescattered[N_LEAVES];
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
    dt_collective_part parts[] = {gather, scatter, scatter_sums};
    dt_group_publish(group, parts, 3);
    exchange(self, 0, 2, "z", 2);
    exchange(self, 2, 1, "g", 2);
}

static void rows_are_gathered_and_scattered(void **state) {
    static row_case test;
    for (int n_ranks = 1; n_ranks <= N_LEAVES; n_ranks++) {
        layout of = {.n_members = n_ranks, .n_leaves = N_LEAVES, .deadline = 60, .rows = {ROWS, 2, 3}};
        memset(&test, 0, sizeof test);
        for (int m = 0; m < N_LEAVES; m++) {
            int first = m / 2 * ROWS + m % 2 * 3; /* row */
            for (int i = 0; i < (m % 2 == 0 ? 3 : 2) * WIDTH; i++) test.own[m][i] = (float)(first * WIDTH + i + 1);
            for (int i = 0; i < N_ALL; i++) test.all[m][i] = (float)((m + 1) * (i + 1));
            for (int i = 0; i < N_ALL; i++) test.sums[m - m % 2][i] += test.all[m][i];
        }
        on_all_members(*state, of, row_body, &test);
        for (int i = 0; i < N_ALL; i++) {
            int row = i / WIDTH % ROWS, m = i / WIDTH / ROWS * 2 + row / 3;
            for (int r = 0; r < n_ranks; r++) assert_true(test.gathered[r][i] == (float)(i + 1));
            assert_true(test.scattered[m][row % 3 * WIDTH + i % WIDTH] == (float)(10 * (i + 1)));
            assert_true(test.rescattered[m][row % 3 * WIDTH + i % WIDTH] == (float)(10 * (i + 1)));
        }
    }
}

/* ---- what one of several memories has ---- */

typedef struct central_case {
    float sources[MOST_LEAVES][ELEMENTS], own[MOST_RANKS][ELEMENTS], targets[MOST_RANKS][ELEMENTS];
} central_case;

/* The first member of each process holds no microbatch, is sent the sum, and hands over what it has; the last one wants nothing. */
static void central_body(member *self, void *shared) {
    central_case *test = shared;
    dt_group *group = self->group;
    bool is_central = group->rank == 0;
    void *sources[MOST_LEAVES], *own = test->own[self->index], *target = test->targets[self->index];
    for (int m = 0; m < group->n_microbatches; m++) sources[m] = test->sources[group->first_microbatch + m];
    assert_int_equal(group->n_microbatches == 0, is_central);
    dt_collective_part parts[] = {{.kind = DT_COLLECTIVE_ALL_REDUCE,
                                   .combine = DT_REDUCTION_SUM,
                                   .dtype = DT_F32,
                                   .n = ELEMENTS,
                                   .sources = sources,
                                   .n_targets = is_central,
                                   .targets = &target,
                                   .label = "g"},
                                  {.kind = DT_COLLECTIVE_ALL_GATHER,
                                   .dtype = DT_F32,
                                   .n = ELEMENTS,
                                   .sources = is_central ? &own : NULL,
                                   .n_targets = !is_central && group->rank < group->n_ranks - 1,
                                   .targets = &target,
                                   .hands_over = true,
                                   .label = "w"}};
    dt_group_publish(group, parts, sizeof parts / sizeof *parts);
    exchange(self, 0, 1, "g", 2);
    exchange(self, 1, 1, "w", 2);
}

static void what_one_memory_has_is_handed_over(void **state) {
    static central_case test;
    for (int n_members = 2; n_members <= MOST_RANKS; n_members++) {
        layout all = {.n_members = n_members, .n_leaves = MOST_LEAVES, .n_idle = 1, .deadline = 60, .rows = {4, 1, 4}};
        memset(&test, 0, sizeof test);
        for (int i = 0; i < ELEMENTS; i++) {
            for (int l = 0; l < MOST_LEAVES; l++) test.sources[l][i] = (float)sample(DT_F32, l, i);
            for (int r = 0; r < n_members; r++) test.own[r][i] = (float)(1 + r * ELEMENTS + i);
        }
        on_all_members(*state, all, central_body, &test);
        for (int r = 0, first = 0; r < n_members; r++) {
            if (begins_process(*state, &all, r)) first = r;
            bool is_last = r + 1 == n_members || begins_process(*state, &all, r + 1);
            for (int i = 0; i < ELEMENTS; i++) {
                double leaves[MOST_LEAVES];
                for (int l = 0; l < MOST_LEAVES; l++) leaves[l] = sample(DT_F32, l, i);
                float sum = (float)tree(leaves, MOST_LEAVES, DT_REDUCTION_SUM, true);
                assert_true(test.targets[r][i] == (r == first ? sum : is_last ? 0 : test.own[first][i]));
            }
        }
    }
}

/* ---- buckets ---- */

enum {
    N_PARTS = 3
};

/* What is complete first is listed second, and is a bucket by itself. */
static const struct {
    size_t n;
    int complete_after;
} early_parts[N_PARTS] = {{5, 4}, {700 * 1000, 1}, {200 * 1000, 2}};

typedef struct early_case {
    float *sources[N_PARTS][MOST_LEAVES], *targets[N_PARTS][MOST_RANKS];
} early_case;

static float early_sample(int part, int leaf, size_t i) { return (float)sample(DT_F32, leaf, (int)(i % 1000) + part); }

static void fill_early(const early_case *test, const dt_group *group, int part) {
    for (int m = group->first_microbatch; m < group->first_microbatch + group->n_microbatches; m++)
        for (size_t i = 0; i < early_parts[part].n; i++) test->sources[part][m][i] = early_sample(part, m, i);
}

/* Each part is filled just before its bucket is said to be complete. */
static void early_body(member *self, void *shared) {
    early_case *test = shared;
    dt_group *group = self->group;
    dt_collective_part parts[N_PARTS];
    dt_group_work work = {0};
    for (int i = 0; i < N_PARTS; i++)
        parts[i] = (dt_collective_part){.kind = DT_COLLECTIVE_ALL_REDUCE,
                                        .combine = DT_REDUCTION_SUM,
                                        .dtype = DT_F32,
                                        .n = early_parts[i].n,
                                        .sources = (void *const *)&test->sources[i][group->first_microbatch],
                                        .n_targets = 1,
                                        .targets = (void *const *)&test->targets[i][self->index],
                                        .complete_after = early_parts[i].complete_after,
                                        .label = "g"};
    dt_group_publish(group, parts, sizeof parts / sizeof *parts);
    assert_null(dt_group_meet(group, &context, "start"));
    pthread_mutex_lock(self->lock);
    assert_null(dt_group_lower(group, 0, N_PARTS, self->arena, &work));
    pthread_mutex_unlock(self->lock);
    assert_int_equal(work.n_buckets, 2);
    assert_int_equal(work.buckets[0].complete_after, 1);
    assert_int_equal(work.buckets[1].complete_after, 4);
    fill_early(test, group, 1);
    dt_gate_arrive(work.buckets[0].complete, &context);
    int n_begun = begin_buckets(&work, 0, 1);
    assert_true(n_begun == 1 || (n_begun == 0 && group->n_ranks > 1));
    fill_early(test, group, 0);
    fill_early(test, group, 2);
    dt_gate_arrive(work.buckets[1].complete, &context);
    n_begun = begin_buckets(&work, n_begun, 1);
    assert_null(dt_group_meet(group, &context, "g"));
    assert_int_equal(begin_buckets(&work, n_begun, 1), 2);
    for (int b = 0; b < 2; b++) run_operations(&work.buckets[b].behind, 0, 1);
    assert_null(dt_group_meet(group, &context, "g"));
}

static void what_is_complete_early_crosses_early(void **state) {
    const struct implementation *implementation = *state;
    static early_case test;
    layout all = ranks(4, 6);
    if (implementation->most_processes == 1) return; /* it has no buckets */
    for (int i = 0; i < N_PARTS; i++) {
        for (int l = 0; l < all.n_leaves; l++) test.sources[i][l] = calloc(early_parts[i].n, sizeof(float));
        for (int r = 0; r < all.n_members; r++)
            test.targets[i][r] = begins_process(implementation, &all, r) ? calloc(early_parts[i].n, sizeof(float)) : test.targets[i][r - 1];
    }
    on_all_members(implementation, all, early_body, &test);
    for (int i = 0; i < N_PARTS; i++) {
        for (size_t e = 0; e < early_parts[i].n; e++) {
            double leaves[MOST_LEAVES];
            for (int l = 0; l < all.n_leaves; l++) leaves[l] = early_sample(i, l, e);
            float expected = (float)tree(leaves, all.n_leaves, DT_REDUCTION_SUM, true);
            for (int r = 0; r < all.n_members; r++) assert_true(test.targets[i][r][e] == expected);
        }
        for (int r = 0; r < all.n_members; r++)
            if (begins_process(implementation, &all, r)) free(test.targets[i][r]);
        for (int l = 0; l < all.n_leaves; l++) free(test.sources[i][l]);
    }
}

/* ---- meeting ---- */

static void meeting_body(member *self, void *shared) {
    atomic_int *n_arrived = shared;
    dt_group *group = self->group;
    for (int turn = 1; turn <= 200; turn++) {
        atomic_fetch_add(n_arrived, 1);
        assert_null(dt_group_meet(group, &context, "barrier"));
        assert_true(atomic_load(n_arrived) >= turn * group->n_ranks);
        assert_null(dt_group_meet(group, &context, "barrier"));
        assert_true(atomic_load(n_arrived) <= (turn + 1) * group->n_ranks);
    }
}

static void a_meeting_lets_nobody_pass_before_all_have_come(void **state) {
    (void)state;
    for (int n = 1; n <= MOST_RANKS; n++) {
        atomic_int n_arrived = 0;
        on_all_members(&implementations[0], ranks(n, n), meeting_body, &n_arrived);
    }
}

static void a_member_knows_where_it_is(void **state) {
    static run of;
    layout all = {4, 9, true, 0, 60, {4, 3, 2}};
    open_run(&of, *state, &all);
    for (int m = 0; m < 4; m++) {
        const dt_group *group = of.members[m].group, *before = m > 0 ? of.members[m - 1].group : NULL;
        bool is_first = before == NULL || before->id != group->id; /* of its process */
        assert_int_equal(group->rank, is_first ? 0 : before->rank + 1);
        assert_int_equal(group->n_ranks, 4 / of.n_processes);
        assert_int_equal(group->first_microbatch, before == NULL ? 0 : before->first_microbatch + before->n_microbatches);
        assert_true(group->n_microbatches >= 2 && group->n_all_microbatches == 9);
    }
    assert_int_equal(of.members[3].group->first_microbatch + of.members[3].group->n_microbatches, 9);
    close_run(&of, 4);
}

/* ---- failing ---- */

static void expect_aborted(dt_status *status, const char *words) {
    assert_int_equal(dt_status_code(status), DT_ABORTED);
    if (strstr(dt_status_message(status), words) == NULL) fail_msg("\"%s\" is not in: %s", words, dt_status_message(status));
    dt_status_free(status);
}

static void abort_body(member *self, void *shared) {
    (void)shared;
    dt_group *group = self->group;
    if (self->index == 1) dt_group_abort(group, "device 1: out of order");
    dt_status *status = NULL; /* a meeting of one hears it as soon as anybody does */
    while (status == NULL) status = dt_group_meet(group, &context, "barrier");
    expect_aborted(status, "device 1: out of order");
    expect_aborted(dt_group_meet(group, &context, "barrier"), "device 1: out of order");
}

static void a_member_that_fails_takes_the_others_along(void **state) { on_all_members(*state, ranks(3, 3), abort_body, NULL); }

/* An error there, and to the others the run was interrupted. */
static void blame_body(member *self, void *shared) {
    (void)shared;
    if (self->index == 0) dt_processes_blame(self->processes, 2, "process 2 has other data");
    dt_status *status = NULL;
    while (status == NULL) status = dt_group_meet(self->group, &context, "barrier");
    assert_int_equal(dt_status_code(status), self->index == 2 ? DT_FAILED_PRECONDITION : DT_ABORTED);
    assert_string_equal(dt_status_message(status), "process 2 has other data");
    dt_status_free(status);
}

static void whose_fault_it_is_hears_so_in_a_meeting(void **state) {
    (void)state;
    on_all_members(&implementations[2], ranks(3, 3), blame_body, NULL);
}

static void missing_body(member *self, void *shared) {
    (void)shared;
    if (self->index == 2) usleep(400 * 1000);
    expect_aborted(dt_group_meet(self->group, &context, "Cnn/conv2d_1/kernel"), "device 2 missing at train 57, segment 3, Cnn/conv2d_1/kernel");
}

static void who_does_not_come_in_time_is_named(void **state) {
    (void)state;
    layout of = ranks(3, 3);
    double start = dt_seconds_now();
    of.deadline = 0.1;
    on_all_members(&implementations[0], of, missing_body, NULL);
    assert_true(dt_seconds_now() - start < 5);
}

static void without_memory_no_group_is_opened(void **state) {
    (void)state;
    static run of;
    layout all = ranks(3, 5);
    of.n_processes = 1;
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = open_members(&of, &all, 0);
        dt_memory_fail_after(-1);
        for (int m = 0; m < 3; m++) dt_group_close(of.members[m].group);
        if (status == NULL) return;
        assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
        assert_true(n < 100);
    }
}

int main(void) {
    int n_failed = 0;
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++) {
        void *state = (void *)&implementations[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(all_reduce_follows_the_tree_whoever_holds_the_leaves, state),
            cmocka_unit_test_prestate(halves_are_rounded_once_and_to_even, state),
            cmocka_unit_test_prestate(rows_are_gathered_and_scattered, state),
            cmocka_unit_test_prestate(what_one_memory_has_is_handed_over, state),
            cmocka_unit_test_prestate(what_is_complete_early_crosses_early, state),
            cmocka_unit_test_prestate(a_meeting_lets_nobody_pass_before_all_have_come, state),
            cmocka_unit_test_prestate(a_member_knows_where_it_is, state),
            cmocka_unit_test_prestate(a_member_that_fails_takes_the_others_along, state),
            cmocka_unit_test_prestate(whose_fault_it_is_hears_so_in_a_meeting, state),
            cmocka_unit_test_prestate(who_does_not_come_in_time_is_named, state),
            cmocka_unit_test_prestate(without_memory_no_group_is_opened, state),
        };
        n_failed += cmocka_run_group_tests_name(implementations[i].name, tests, NULL, NULL);
    }
    return n_failed;
}
