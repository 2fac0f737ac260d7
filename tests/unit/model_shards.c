/* model_shards: a model that is split into logical shards, by hand (tests/support/shards_kernels.c): where variables and buffers lie, what a step
 * computes on any devices and processes, and what is refused. */
#include "base/memory.h"
#include "runtime/execution/operations.h"
#include "runtime/execution/ranges.h"
#include "runtime/execution/shard_pieces.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"
#include "tests/support/thread_processes.h"

#include <math.h>

enum {
    SHARDS = 4,
    IN = 3,
    HIDDEN = 16,
    TRAIN = 0,
    W = 0,
    V = 1,
    REPLICAS = 4,
    BATCH = 4 * REPLICAS,
    STEPS = 12
};

static char *manifest, *object;
static size_t n_object;
static dt_artifact *artifact;
static dt_kernels *kernels;

static int open_artifact(void **state) {
    (void)state;
    size_t n_manifest;
    fixture_compile(fixture_source("tests/support/shards_kernels.c"), "", &object, &n_object);
    if (dt_file_read(fixture_source("tests/fuzz/artifact/shards.json"), &manifest, &n_manifest) != NULL) abort();
    dt_status *status = dt_artifact_open(fixture_artifact("shards.dtx", manifest, object, n_object), &artifact);
    if (status == NULL) status = dt_kernels_load(artifact, NULL, &kernels);
    if (status != NULL) fprintf(stderr, "%s\n", dt_status_message(status));
    return status != NULL;
}

static int close_artifact(void **state) {
    (void)state;
    free(manifest);
    free(object);
    fixture_close_line(artifact, kernels);
    return 0;
}

/* ---- pieces ---- */

/* Element by element: the shard that has it, and where there. */
static void locate(const dt_artifact_variable *variable, int64_t element, int64_t *shard, int64_t *local) {
    const dt_artifact_tensor *tensor = &variable->tensor;
    int64_t inner = 1, dim = tensor->dims[variable->split.axis];
    for (int d = variable->split.axis + 1; d < tensor->n_dims; d++) inner *= tensor->dims[d];
    int64_t outer = element / inner / dim, i = element / inner % dim, group_length = dim / variable->split.groups;
    int64_t length = (group_length + SHARDS - 1) / SHARDS, group = i / group_length, within = i % group_length;
    *shard = within / length;
    *local = ((outer * variable->split.groups + group) * length + within % length) * inner + element % inner;
}

static void check_pieces(const dt_artifact_variable *variable, dt_byte_range range) {
    int64_t width = (int64_t)dt_dtype_bytes(variable->tensor.dtype), first = range.first, end = range.first + range.n_bytes;
    while (first < end) {
        dt_shard_piece piece = dt_shard_piece_at(variable, SHARDS, (dt_byte_range){first, end - first});
        assert_in_range(piece.n_bytes, 1, end - first);
        for (int64_t i = 0; i < piece.n_bytes; i++) {
            int64_t shard, local, byte = first + i;
            locate(variable, byte / width, &shard, &local);
            assert_int_equal(piece.shard, shard);
            assert_int_equal(piece.at + i, local * width + byte % width);
        }
        first += piece.n_bytes;
    }
}

/* Part [first, first + n) of each shard's tensor, byte by byte. */
static void check_parts(const dt_artifact_variable *variable, int64_t first, int64_t n) {
    int64_t width = (int64_t)dt_dtype_bytes(variable->tensor.dtype);
    unsigned char seen[1024] = {0};
    assert_true(variable->bytes <= (int64_t)sizeof seen);
    for (int shard = 0; shard < SHARDS; shard++) {
        dt_strided_range found[DT_SHARD_RANGES];
        int n_found = dt_shard_ranges(variable, SHARDS, shard, (dt_byte_range){first, n}, found);
        for (int i = 0; i < n_found; i++)
            for (int64_t byte = 0; byte < found[i].n_bytes * found[i].times; byte++)
                seen[found[i].first + byte / found[i].n_bytes * found[i].stride + byte % found[i].n_bytes] += (unsigned char)(1 + shard);
    }
    for (int64_t byte = 0; byte < variable->bytes; byte++) {
        int64_t shard, local;
        locate(variable, byte / width, &shard, &local);
        local = local * width + byte % width;
        assert_int_equal(seen[byte], local >= first && local < first + n ? 1 + shard : 0);
    }
}

static void ranges_are_made_of_the_right_pieces(void **state) {
    (void)state;
    static const struct {
        int64_t dims[3];
        int n_dims, axis, groups;
        dt_dtype dtype;
    } cases[] = {{{16}, 1, 0, 1, DT_F32},     {{3, 24}, 2, 1, 3, DT_F32}, {{8, 5}, 2, 0, 2, DT_BF16}, {{2, 12, 3}, 3, 1, 3, DT_F64},
                 {{4, 1, 7}, 3, 0, 1, DT_I8}, {{13, 3}, 2, 0, 1, DT_F32}, {{2, 15}, 2, 1, 3, DT_F32}, {{3, 5, 2}, 3, 1, 1, DT_BF16}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_artifact_variable variable = {.tensor = {.dtype = cases[c].dtype, .n_dims = cases[c].n_dims, .dims = cases[c].dims},
                                         .split = {cases[c].axis, cases[c].groups}};
        variable.bytes = (int64_t)dt_dtype_bytes(cases[c].dtype);
        for (int d = 0; d < cases[c].n_dims; d++) variable.bytes *= cases[c].dims[d];
        for (int64_t first = 0; first < variable.bytes; first += 5)
            for (int64_t n = 0; first + n <= variable.bytes; n += 7) {
                check_pieces(&variable, (dt_byte_range){first, n});
                check_parts(&variable, first, n);
            }
    }
}

/* Of slots, split and not, in shares and not, over four processes of which so many have the shards: each byte is given once, and by one that has it.
 */
static void each_byte_is_given_once(void **state) {
    (void)state;
    static const int64_t dims[] = {40, 93}; /* of each group 31: the last shard has a column less */
    static unsigned char seen[40 * 93 * 4];
    dt_artifact_variable variables[] = {{.kind = DT_VARIABLE_SLOT,
                                         .tensor = {.dtype = DT_F32, .row_bytes = sizeof seen, .n_dims = 2, .dims = dims},
                                         .bytes = sizeof seen,
                                         .share = {DT_SHARE_LINE, 3},
                                         .split = {1, 3},
                                         .row_init = -1}};
    const dt_artifact of = {.n_shards = SHARDS, .n_variables = 1, .variables = variables};
    thread_processes all;
    thread_processes_open(&all, 4, 10);
    for (int c = 0; c < 12; c++) {
        dt_arena *arena = dt_arena_create();
        dt_session_options options = {.processes = all.all[0], .shards_over = 1 << c % 3, .shard_optimizer = c / 3 % 2};
        const dt_ranges_layout layout = {.artifact = &of, .options = &options};
        variables[0].split.groups = c < 6 ? 3 : 0;
        memset(seen, 0, sizeof seen);
        for (int p = 0; p < 4; p++) {
            dt_strided_ranges given = {0};
            dt_ranges_give(&layout, 0, p, arena, &given);
            for (size_t i = 0; i < given.n; i++)
                for (int64_t byte = 0; byte < given.items[i].n_bytes * given.items[i].times; byte++) {
                    int64_t at = given.items[i].first + byte / given.items[i].n_bytes * given.items[i].stride + byte % given.items[i].n_bytes;
                    assert_int_equal(seen[at]++, 0);
                    int holder = dt_shard_piece_at(&variables[0], SHARDS, (dt_byte_range){at, 1}).shard * (int)options.shards_over / SHARDS;
                    if (c < 6) assert_int_equal(p % options.shards_over, options.shards_over > 1 ? holder : 0);
                }
        }
        for (size_t i = 0; i < sizeof seen; i++) assert_int_equal(seen[i], 1);
        bool is_over = c < 6 && options.shards_over > 1, is_in_shares = options.shard_optimizer && options.shards_over < 4;
        assert_int_equal(dt_ranges_are_shared_out(&layout, 0), is_over || is_in_shares);
        dt_arena_destroy(arena);
    }
    thread_processes_close(&all);
}

static void what_is_not_split_is_one_piece(void **state) {
    (void)state;
    dt_shard_piece piece = dt_shard_piece_at(&artifact->variables[2], SHARDS, (dt_byte_range){3, 5});
    assert_true(piece.shard == 0 && piece.at == 3 && piece.n_bytes == 5);
}

/* ---- memory ---- */

typedef struct place {
    const char *first, *end;
    int buffer, shard, microbatch;
} place;

static bool is_once(const dt_artifact_buffer *buffer) { return buffer->space == DT_MEMORY_DEVICE || buffer->space == DT_MEMORY_VARIABLE; }

/* Where a buffer is for each shard and microbatch. */
static size_t places_of(const dt_executor_memory *memory, int f, place *places) {
    const dt_artifact_function *function = &artifact->functions[f];
    size_t n = 0;
    for (int b = 0; b < function->n_buffers; b++) {
        const dt_artifact_buffer *buffer = &function->buffers[b];
        int64_t rows = buffer->tensor.has_rows ? artifact->microbatch_rows : 1;
        if (buffer->space == DT_MEMORY_INPUT) continue;
        for (int m = 0; m < (is_once(buffer) ? 1 : memory->n_microbatches); m++)
            for (int s = 0; s < (buffer->sharded ? SHARDS : 1); s++) {
                const char *at = dt_executor_memory_address(memory, f, b, m, s, 0);
                places[n++] = (place){at, at + buffer->tensor.row_bytes * rows, b, s, m};
            }
    }
    return n;
}

enum {
    N = 4 /* microbatches of an executor */
};

/* An executor alone, whose microbatches go through a segment together. */
static void lay_out(const dt_artifact *of, dt_memory_domain *domain, dt_executor_memory *memory, dt_arena *arena) {
    *domain = (dt_memory_domain){
        .n_executors = 1, .n_parts = 1, .n_rounds = 1, .layout = dt_state_layout_of((dt_process_roles){.n_processes = 1}, DT_SHARES_NOTHING)};
    *memory =
        (dt_executor_memory){.artifact = of, .domain = domain, .n_microbatches = N, .n_together = N, .n_all_microbatches = N, .rows = {8, 4, 2}};
    dt_memory_domain_lay_out(domain, of, N, DT_ALL_FUNCTIONS, arena);
    dt_executor_memory_lay_out(memory, &dt_device_cpu, DT_ALL_FUNCTIONS, arena);
}

static void no_two_buffers_of_any_shards_overlap(void **state) {
    (void)state;
    enum {
        MOST = 1000
    };
    dt_arena *arena = dt_arena_create();
    int train = dt_artifact_find_function(artifact, "train");
    dt_memory_domain domain;
    dt_executor_memory memory;
    lay_out(artifact, &domain, &memory, arena);
    domain.memory = malloc((size_t)domain.bytes);
    memory.memory = malloc((size_t)memory.bytes);
    place *places = malloc(MOST * sizeof *places);
    size_t n = places_of(&memory, train, places);
    assert_in_range(n, 80, MOST);
    for (size_t i = 0; i < n; i++) {
        bool once = is_once(&artifact->functions[train].buffers[places[i].buffer]);
        const char *start = once ? domain.memory : memory.memory;
        assert_true(places[i].first >= start && places[i].end <= start + (once ? domain.bytes : memory.bytes));
        assert_int_equal((places[i].first - start) % DT_BUFFER_ALIGNMENT, 0);
        for (size_t k = 0; k < i; k++) assert_true(places[i].end <= places[k].first || places[k].end <= places[i].first);
    }
    assert_int_equal(dt_executor_memory_n_launches(&memory), (N + 1) * SHARDS);
    assert_int_equal(dt_executor_memory_microbatch_of(&memory, dt_executor_memory_launch(&memory, 2, 3)), 2);
    free(places);
    free(domain.memory);
    free(memory.memory);
    dt_arena_destroy(arena);
}

/* ---- operations ---- */

/* What the list launches, of the first microbatch: kernel, shard, iteration. */
static void expect_launches(const dt_executor_memory *memory, const dt_operations *made, const int (*wanted)[3], size_t n_wanted) {
    size_t n = 0;
    int segment = 0, position = -1;
    for (size_t i = 0; i < made->list.n; i++) {
        const dt_operation_launch *one = &made->list.items[i].launch;
        const dt_over_shards *over = made->list.items[i].kind == DT_OPERATION_REDUCE ? made->list.items[i].reduce.over_shards : NULL;
        if (over != NULL && over->values == dt_executor_memory_launches(memory) && over->position >= 0) {
            assert_int_equal(over->position, ++position); /* the sum within the segment, of the first microbatch */
            assert_int_equal(made->list.items[i].reduce.n, 1);
        }
        ptrdiff_t launch = made->list.items[i].kind == DT_OPERATION_LAUNCH ? one->values - dt_executor_memory_launches(memory) : -1;
        int m = dt_executor_memory_microbatch_of(memory, launch);
        if (launch < 0 || (m != 0 && m != N)) continue;
        assert_in_range(n, 0, n_wanted - 1);
        assert_int_equal(one->kernel, wanted[n][0]);
        assert_int_equal(launch - dt_executor_memory_launch(memory, m, 0), wanted[n][1]);
        assert_int_equal(one->iteration, wanted[n][2]);
        if (one->segment != segment) position = -1;
        assert_int_equal(one->position, ++position); /* of its segment */
        segment = one->segment;
        n++;
    }
    assert_int_equal(n, n_wanted);
}

/* An iteration goes through all shards, kernel by kernel; so do kernels that run once. */
static void an_iteration_goes_through_all_shards(void **state) {
    (void)state;
    static const int wanted[][3] = {{0, 0, 0},  {0, 1, 0},  {0, 2, 0},  {0, 3, 0},  {0, 0, 1},  {0, 1, 1},  {0, 2, 1},  {0, 3, 1},
                                    {1, 0, -1}, {2, 0, -1}, {2, 1, -1}, {2, 2, -1}, {2, 3, -1}, {3, 0, -1}, {3, 1, -1}, {3, 2, -1},
                                    {3, 3, -1}, {4, 0, -1}, {4, 1, -1}, {4, 2, -1}, {4, 3, -1}, {5, 0, -1}};
    static const dt_artifact_loop loop = {.trips = 2, .around = -1};
    dt_arena *arena = dt_arena_create();
    int train = dt_artifact_find_function(artifact, "train");
    dt_artifact looped = *artifact;
    dt_artifact_function *functions = dt_arena_copy(arena, artifact->functions, (size_t)artifact->n_functions * sizeof *functions);
    dt_artifact_kernel *of_train = dt_arena_copy(arena, functions[train].kernels, (size_t)functions[train].n_kernels * sizeof *of_train);
    of_train[0].loop = 0;
    functions[train].kernels = of_train;
    functions[train].n_loops = 1;
    functions[train].loops = &loop;
    looped.functions = functions;
    assert_int_equal(dt_artifact_n_launches(&functions[train], SHARDS), 2 * SHARDS + 1 + 3 * SHARDS + 1);
    dt_memory_domain domain;
    dt_executor_memory memory;
    lay_out(&looped, &domain, &memory, arena);
    dt_operations_options options = {.memory = &memory, .leads = true};
    int first[3];
    dt_operations_collectives(&options, DT_ALL_FUNCTIONS, arena, first);
    assert_int_equal(first[train + 1] - first[train], 2 * SHARDS + 1); /* two sums for each shard, and the loss */
    dt_operations made = dt_operations_of(&options, train, first[train], 0, arena);
    expect_launches(&memory, &made, wanted, sizeof wanted / sizeof *wanted);
    dt_arena_destroy(arena);
}

/* Of the second member, which has the last four of the seven microbatches of a process that has shards 2 and 3: what it starts, waits for and
 * launches within the first segment, by kernel and microbatch, or by part. Two microbatches are under way, each in scratch of its own. */
static void two_microbatches_are_under_way(void **state) {
    (void)state;
    enum {
        LAUNCHES = 100, /* kernel k of microbatch m: LAUNCHES + 10 * m + k; part p is STARTS + p, then WAITS + p */
        STARTS = 200,
        WAITS = 300
    };
    static const int wanted[] = {100, 203, 110, 204, 303, 101, 102, 304, 111, 112, 120, 205, 130, 206, 305, 121, 122, 306, 131, 132};
    dt_arena *arena = dt_arena_create();
    int train = dt_artifact_find_function(artifact, "train"), first[3];
    size_t n = 0, n_wanted = sizeof wanted / sizeof *wanted;
    dt_memory_domain domain = {.n_executors = 2,
                               .n_parts = 2,
                               .n_rounds = 1,
                               .first_shard = 2,
                               .n_shards = 2,
                               .holds = {2, 9},
                               .layout = dt_state_layout_of((dt_process_roles){.n_processes = 1}, DT_SHARES_NOTHING)};
    dt_executor_memory memory = {.artifact = artifact,
                                 .domain = &domain,
                                 .first_microbatch = 5,
                                 .n_microbatches = N,
                                 .n_together = 1,
                                 .n_all_microbatches = 16,
                                 .rows = {8, 4, 2}};
    dt_memory_domain_lay_out(&domain, artifact, 16, DT_ALL_FUNCTIONS, arena);
    dt_executor_memory_lay_out(&memory, &dt_device_cpu, DT_ALL_FUNCTIONS, arena);
    dt_operations_options options = {.memory = &memory, .part = 1};
    const dt_collective_part *parts = dt_operations_collectives(&options, DT_ALL_FUNCTIONS, arena, first);
    dt_operations made = dt_operations_of(&options, train, first[train], 0, arena);
    for (size_t i = 0; i < made.list.n && n < n_wanted; i++) {
        const dt_operation *one = &made.list.items[i];
        int found = one->kind == DT_OPERATION_START  ? STARTS + one->collective.first - first[train]
                    : one->kind == DT_OPERATION_WAIT ? WAITS + one->collective.first - first[train]
                                                     : -1;
        if (one->kind == DT_OPERATION_LAUNCH)
            found = LAUNCHES + 10 * dt_executor_memory_microbatch_of(&memory, one->launch.values - dt_executor_memory_launches(&memory)) +
                    one->launch.kernel;
        if (found >= 0 && (n == 0 || found != wanted[n - 1])) assert_int_equal(found, wanted[n++]); /* a launch for each shard is one */
    }
    assert_int_equal(n, n_wanted);
    for (int m = 0; m < 7; m++) { /* the first member's three, then this one's */
        const dt_collective_part *part = &parts[first[train] + m];
        assert_int_equal(part->nonblocking, 1);
        assert_int_equal(part->member, m < 3 ? 1 : 2);
        assert_int_equal(part->place, DT_NONBLOCKING_PLACES + (m < 3 ? m % 2 : 2 + (m - 3) % 2));
        assert_int_equal(part->sources != NULL, m >= 3);
    }
    int h = 4;
    assert_string_equal(artifact->functions[train].buffers[h].tensor.name, "h");
    char *at[N];
    for (int m = 0; m < N; m++) at[m] = dt_executor_memory_address(&memory, train, h, m, 1, 0);
    assert_true(at[0] == at[2] && at[1] == at[3] && at[0] != at[1]);
    dt_arena_destroy(arena);
}

/* ---- training ---- */

typedef struct data {
    float x[BATCH + 16][IN], y[BATCH + 16];
    int64_t rows;
} data;

static data make_data(int step) {
    data made = {.rows = step % 3 == 2 ? 1 + step * 7 % BATCH : BATCH};
    for (int r = 0; r < BATCH; r++) {
        for (int i = 0; i < IN; i++) made.x[r][i] = (float)((step * 131 + r * 37 + i * 11) % 101) / 101.0f;
        made.y[r] = made.x[r][0] * 0.3f - made.x[r][1] * 0.7f + made.x[r][2] * 0.11f;
    }
    return made;
}

static dt_session_options options_of(const char *devices, dt_processes *processes) {
    dt_session_options options = dt_session_options_default();
    options.devices = devices;
    options.replicas = REPLICAS;
    options.seed = 5;
    options.processes = processes;
    return options;
}

static dt_session *open_session(dt_session_options options) {
    dt_session *session;
    expect_ok(dt_session_create(kernels, &options, &session));
    expect_ok(dt_session_initialize(session));
    return session;
}

typedef struct outcome {
    float w[IN][HIDDEN], v[HIDDEN];
    int64_t n;
    dt_total totals[STEPS][2];
    float predictions[STEPS][BATCH];
} outcome;

static void read_variables(dt_session *session, outcome *left) {
    expect_ok(dt_ranges_read(session, 0, W, dt_ranges_own(session, W), left->w));
    expect_ok(dt_ranges_read(session, 0, V, dt_ranges_own(session, V), left->v));
    expect_ok(dt_ranges_read(session, 0, 2, dt_ranges_own(session, 2), &left->n));
}

static void train(dt_session *session, outcome *left) {
    int64_t first = dt_session_first_row(session);
    memset(left, 0, sizeof *left);
    for (int step = 0; step < STEPS; step++) {
        data d = make_data(step);
        const void *inputs[] = {d.x[first], &d.y[first]};
        expect_ok(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = d.rows, .counter = step}, left->totals[step]));
        expect_ok(dt_session_result(session, TRAIN, 2, &left->predictions[step][first]));
        assert_null(dt_session_bad_index_status(session));
    }
    read_variables(session, left);
}

static float predict(const outcome *net, const float *x) {
    float parts[SHARDS] = {0};
    for (int s = 0; s < SHARDS; s++)
        for (int u = 0; u < HIDDEN / SHARDS; u++) {
            float h = 0;
            for (int i = 0; i < IN; i++) h += x[i] * net->w[i][u / 2 * 8 + s * 2 + u % 2];
            parts[s] += h * net->v[s * 4 + u];
        }
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

static void variables_are_whole_to_all_others(void **state) {
    (void)state;
    dt_session *session = open_session(options_of("cpu:1x1", NULL));
    outcome left = {0}, changed = {0};
    float part[7];
    read_variables(session, &left);
    for (int i = 0; i < IN; i++)
        for (int u = 0; u < HIDDEN; u++) assert_true(left.w[i][u] == (float)((5 + 16 * i + u) * 7 % 23 - 11) / 23.0f);
    for (int u = 0; u < HIDDEN; u++) assert_true(left.v[u] == (float)((5 + u) * 5 % 17 - 8) / 17.0f);
    for (int i = 0; i < 7; i++) part[i] = (float)i + 0.5f;
    expect_ok(dt_ranges_write(session, W, (dt_byte_range){13 * 4, sizeof part}, part));
    memcpy(&left.w[0][13], part, sizeof part);
    read_variables(session, &changed);
    assert_memory_equal(&left, &changed, sizeof left);
    expect_ok(dt_ranges_read(session, 0, W, (dt_byte_range){11 * 4, sizeof part}, part));
    assert_memory_equal(part, &left.w[0][11], sizeof part);
    assert_null(dt_ranges_memory(session, W)); /* it lies nowhere in one piece */
    assert_non_null(dt_ranges_memory(session, 2));
    dt_session_destroy(session);
}

static void a_step_computes_what_one_tensor_would(void **state) {
    (void)state;
    dt_session *session = open_session(options_of("cpu:1x1", NULL));
    outcome before = {0}, after;
    read_variables(session, &before);
    train(session, &after);
    data d = make_data(0);
    double loss = 0;
    for (int r = 0; r < BATCH; r++) {
        float difference = predict(&before, d.x[r]) - d.y[r];
        assert_memory_equal(&after.predictions[0][r], &(float){predict(&before, d.x[r])}, 4);
        loss += (double)difference * (double)difference;
    }
    assert_true(fabs(after.totals[0][0].number - loss) < 1e-9 * loss);
    assert_true(after.totals[0][1].number > 0);
    assert_true(after.totals[STEPS - 2][0].number < 0.9 * after.totals[0][0].number); /* it learns */
    assert_int_equal(after.n, STEPS);
    assert_true(memcmp(before.w, after.w, sizeof before.w) != 0 && memcmp(before.v, after.v, sizeof before.v) != 0);
    dt_session_destroy(session);
}

static void any_devices_give_the_same_bits(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu:2x1", "cpu:1x3", "cpu:4x2", "cpu"};
    static outcome one, many;
    dt_session *session = open_session(options_of("cpu:1x1", NULL));
    train(session, &one);
    dt_session_destroy(session);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        session = open_session(options_of(devices[d], NULL));
        train(session, &many);
        assert_memory_equal(&one, &many, sizeof one);
        dt_session_destroy(session);
    }
}

/* ---- several processes, which are threads ---- */

static void collect(dt_session *session, outcome *left) {
    expect_ok(dt_ranges_collect(session, W, (dt_byte_range){8, sizeof left->w - 12}, &(dt_step_context){.step = "test"}, (char *)left->w + 8));
    expect_ok(dt_ranges_collect(session, V, (dt_byte_range){0, sizeof left->v}, &(dt_step_context){.step = "test"}, left->v));
}

typedef struct process {
    dt_processes *processes;
    const char *devices;
    int64_t over;
    outcome left, whole; /* the latter: of all processes, in the first one */
} process;

static void *run_process(void *argument) {
    process *self = argument;
    dt_session_options options = options_of(self->devices, self->processes);
    options.shards_over = self->over;
    dt_session *session = open_session(options);
    train(session, &self->left);
    collect(session, &self->whole);
    dt_session_destroy(session);
    return NULL;
}

/* Of `n` processes of which `over` have the shards of the model. */
static void run_processes(process *processes, int n, int64_t over, const char *devices, void *run(void *)) {
    thread_processes all;
    pthread_t threads[MOST_THREAD_PROCESSES];
    thread_processes_open_roles(&all, (dt_process_roles){.n_processes = n}, 60);
    for (int p = 0; p < n; p++) {
        processes[p] = (process){.processes = all.all[p], .devices = devices, .over = over};
        assert_int_equal(pthread_create(&threads[p], NULL, run, &processes[p]), 0);
    }
    for (int p = 0; p < n; p++) pthread_join(threads[p], NULL);
    thread_processes_close(&all);
}

/* What a process has of the variables, and all that it reports, and predicts of its rows. */
static void expect_shards(const outcome *left, const outcome *one, int index, int over, int first_row, int n_rows) {
    for (int u = 0; u < HIDDEN; u++) {
        bool has_v = u / 4 / (SHARDS / over) == index, has_w = u / 2 % SHARDS / (SHARDS / over) == index; /* two groups of columns */
        if (has_v) assert_memory_equal(&left->v[u], &one->v[u], sizeof one->v[u]);
        for (int i = 0; i < IN && has_w; i++) assert_memory_equal(&left->w[i][u], &one->w[i][u], sizeof one->w[i][u]);
    }
    assert_int_equal(left->n, one->n);
    assert_memory_equal(left->totals, one->totals, sizeof one->totals);
    for (int step = 0; step < STEPS; step++) {
        int64_t rows = make_data(step).rows - first_row;
        if (rows > n_rows) rows = n_rows;
        if (rows > 0) assert_memory_equal(&left->predictions[step][first_row], &one->predictions[step][first_row], (size_t)rows * 4);
    }
}

static void processes_give_the_same_bits(void **state) {
    (void)state;
    static const struct {
        int n, over;
        const char *devices;
    } layouts[] = {{2, 1, "cpu:1x1"}, {2, 1, "cpu:1x2"}, {2, 1, "cpu:2x1"}, {2, 2, "cpu:1x1"}, {2, 2, "cpu:2x1"},
                   {4, 2, "cpu:1x1"}, {4, 2, "cpu:2x1"}, {4, 4, "cpu:1x3"}, {4, 4, "cpu:2x1"}, {6, 2, "cpu:1x2"}};
    static outcome one;
    static process processes[6];
    dt_session *session = open_session(options_of("cpu:1x1", NULL));
    train(session, &one);
    dt_session_destroy(session);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        int n = layouts[l].n, over = layouts[l].over, n_groups = n / over, rows = (int)artifact->microbatch_rows, n_microbatches = BATCH / rows;
        run_processes(processes, n, over, layouts[l].devices, run_process);
        for (int p = 0; p < n; p++) {
            int first = dt_microbatches_first_of_rank(p / over, n_groups, n_microbatches);
            int end = dt_microbatches_first_of_rank(p / over + 1, n_groups, n_microbatches);
            if (p == 0) {
                assert_memory_equal(&processes[0].whole.w[0][2], &one.w[0][2], sizeof one.w - 12);
                assert_memory_equal(processes[0].whole.v, one.v, sizeof one.v);
            }
            expect_shards(&processes[p].left, &one, p % over, over, first * rows, (end - first) * rows);
        }
    }
}

/* ---- numerics ---- */

static void run_once(dt_session *session, data *d) {
    const void *inputs[] = {d->x, d->y};
    expect_ok(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = d->rows, .counter = 0}, NULL));
}

static void what_is_not_finite_is_found_in_its_shard(void **state) {
    (void)state;
    dt_session_options options = options_of("cpu:1x1", NULL);
    options.check_numerics = true;
    dt_session *session = open_session(options);
    data d = make_data(2); /* a short batch: rows that are not valid are not looked at */
    for (int step = 0; step < 3; step++) run_once(session, &d);
    assert_null(dt_session_numerics_status(session));
    float large = 3e38f, nan = NAN;
    d.x[0][0] = d.x[0][1] = d.x[0][2] = 1e10f;
    expect_ok(dt_ranges_write(session, W, (dt_byte_range){4 * 4, 4}, &large)); /* column 4: of shard 2 */
    run_once(session, &d);
    expect_error(dt_session_numerics_status(session), DT_OUT_OF_RANGE, "train step 1, row 0, shard 2: kernel forward makes the first infinity");
    expect_ok(dt_session_initialize(session));
    expect_ok(dt_ranges_write(session, W, (dt_byte_range){29 * 4, 4}, &nan));
    run_once(session, &d);
    expect_error(dt_session_numerics_status(session), DT_OUT_OF_RANGE, "variable Net/w holds NaN (element 29)");
    dt_session_destroy(session);
}

static void *overflow(void *argument) {
    process *self = argument;
    dt_session_options options = options_of("cpu:1x1", self->processes);
    options.check_numerics = true;
    options.shards_over = self->over;
    dt_session *session = open_session(options);
    outcome zero = {0};
    data d = make_data(0);
    for (int u = 0; u < HIDDEN; u++) zero.v[u] = u % 4 == 0 ? 1.5e38f : 0;
    for (int u = 0; u < HIDDEN; u++) zero.w[0][u] = 1;
    expect_ok(dt_ranges_write(session, W, dt_ranges_own(session, W), zero.w));
    expect_ok(dt_ranges_write(session, V, dt_ranges_own(session, V), zero.v));
    for (int r = 0; r < BATCH; r++) d.x[r][0] = r == 5 ? 1 : 0;
    int64_t first = dt_session_first_row(session);
    const void *inputs[] = {d.x[first], &d.y[first]};
    expect_ok(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = d.rows, .counter = 0}, NULL));
    expect_error(dt_session_numerics_status(session), DT_OUT_OF_RANGE, "row 5: the sum over shards of prediction is infinity");
    dt_session_destroy(session);
    return NULL;
}

static void a_sum_over_shards_that_overflows_is_found(void **state) {
    (void)state;
    process processes[4];
    overflow(&(process){.over = 1});
    run_processes(processes, 2, 2, "", overflow);
    run_processes(processes, 4, 2, "", overflow);
}

/* ---- times and sizes ---- */

static void kernels_are_counted_for_each_shard(void **state) {
    (void)state;
    dt_session_options options = options_of("cpu:2x1", NULL);
    options.times = true;
    dt_session *session = open_session(options);
    data d = make_data(0);
    double seconds[6];
    int calls[6];
    run_once(session, &d);
    dt_session_times(session, seconds, calls);
    assert_int_equal(calls[0], BATCH / 2 * SHARDS);
    assert_int_equal(calls[1], BATCH / 2);
    assert_int_equal(calls[3], SHARDS);
    assert_int_equal(calls[4], 2 * SHARDS); /* in two parts */
    assert_int_equal(calls[5], 1);
    assert_int_equal(dt_session_variable_bytes(session, W), IN * HIDDEN * 4);
    dt_session_destroy(session);
    dt_artifact_bytes bytes = dt_artifact_memory(artifact);
    assert_int_equal(bytes.core, 192 * SHARDS);
    assert_int_equal(bytes.replica, 2 * 64 * SHARDS);
}

/* ---- what is refused ---- */

static void refuse(dt_session_options options, const char *words) {
    dt_session *session;
    expect_error(dt_session_create(kernels, &options, &session), DT_FAILED_PRECONDITION, words);
    assert_null(session);
}

static void what_has_a_part_of_the_model_is_refused(void **state) {
    (void)state;
    dt_session_options options = options_of("cpu:2x1", NULL);
    options.central = true;
    refuse(options, "--placement central with the model of ");
    options = options_of("cpu:2x1", NULL);
    options.by_rows = DT_BY_ROWS_EXACTLY;
    refuse(options, "--rows with the model of ");
    options = options_of("cpu:2x1", NULL);
    options.shards_over = 2;
    expect_error(dt_session_create(kernels, &options, &(dt_session *){NULL}), DT_INVALID_ARGUMENT, "1 process cannot be divided into groups of 2");
    options.shards_over = 3;
    expect_error(dt_session_create(kernels, &options, &(dt_session *){NULL}), DT_INVALID_ARGUMENT, "say a power of two up to 4");
}

/* The manifest with the first `old` after `after` replaced. */
static char *damaged(const char *after, const char *old, const char *new) {
    const char *place = strstr(manifest, after);
    place = place != NULL ? strstr(place, old) : NULL;
    if (place == NULL) fail_msg("the manifest has no %s after %s", old, after);
    dt_text text = {0};
    dt_text_append_bytes(&text, manifest, (size_t)(place - manifest));
    dt_text_append(&text, new);
    dt_text_append(&text, place + strlen(old));
    return dt_text_take(&text);
}

static void broken_promises_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *after, *old, *new, *words;
    } cases[] = {
        {"\"shards\":", "4", "3", "3 is no power of two"},
        {"\"shards\":", "4", "128", "128"},
        {"\"shards\":", "4", "8", "not of the type and size of a shard of Net/w"},
        {"\"shards\":", "4", "1", "Net/w is split, and the program has one shard"},
        {"Net/w", "\"axis\": 1", "\"axis\": 2", "axis"},
        {"Net/w", "\"groups\": 2", "\"groups\": 0", "groups"},
        {"Net/w", "\"groups\": 2", "\"groups\": 3", "dimension 1 of Net/w is not 3 equal groups, of each of which 4 shards have a part"},
        {"Net/w", ", \"shard\": {\"axis\": 1, \"groups\": 2}", "", "not of the type and size of Net/w"},
        {"Net/n", "\"shape\": []", "\"shape\": [], \"shard\": {\"axis\": 0, \"groups\": 1}", "axis"},
        {"\"init\"", "\"shape\": [4], \"sharded\": true", "\"shape\": [4]", "Net/v is split over shards, and the buffer is not"},
        {"\"variable\": 2", "\"shape\": []", "\"shape\": [], \"sharded\": true", "Net/n is the same for all shards, and the buffer is not"},
        {"\"name\": \"y\", \"space\"", "\"shape\": [-1]", "\"shape\": [-1], \"sharded\": true", "all shards read the same inputs and constants"},
        {"\"name\": \"forward\"", "\"sharded\": true, ", "", "forward runs once for all shards, and its buffer 2 is one shard's"},
        {"\"name\": \"count\"", "\"divided\": false", "\"divided\": false, \"sharded\": true", "for each shard writes nothing that all shards have"},
        {"\"collectives\": [{", "\"target\": 6", "\"target\": 5", "not the two sides of such a collective"},
        {"\"collectives\": [{", "\"source\": 5, \"target\": 6", "\"source\": 6, \"target\": 5", "not the two sides of such a collective"},
        {"\"label\": \"prediction\"", "\"source\": 8, \"target\": 11", "\"source\": 8, \"target\": 16", "not of one type and size"},
        {"\"name\": \"gw_all\"", ", \"sharded\": true", "", "gw and gw_all are not the two sides of such a collective"},
        {"\"label\": \"prediction\"", "\"complete_after\": 1", "\"complete_after\": 0", "within a segment, and behind none of its kernels"},
        {"\"label\": \"prediction\"", "\"complete_after\": 1", "\"complete_after\": 2",
         "prediction is not there before 2 kernels: difference uses it"},
        {"\"name\": \"h\"", "\"space\": \"scratch\"", "\"space\": \"constant\"", "all shards read the same inputs and constants"},
        {"\"aggregate1\"", "\"buffer\": 16", "\"buffer\": 15", "its buffer square differs from shard to shard"},
        {"\"label\": \"Net/v\"", "\"kind\": \"shard_reduce\", \"combiner\": \"sum\", \"source\": 15",
         "\"kind\": \"all_reduce\", \"combiner\": \"sum\", \"source\": 15", "not the two sides of such a collective"},
        {"\"prediction\", \"space\"", "\"space\": \"replica\"", "\"space\": \"device\"", "not the two sides of such a collective"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_artifact *read;
        char *text = damaged(cases[c].after, cases[c].old, cases[c].new);
        dt_status *status = dt_artifact_open(fixture_artifact("damaged.dtx", text, object, n_object), &read);
        if (status == NULL) fail_msg("no error where \"%s\" was expected", cases[c].words);
        expect_error(status, DT_DATA_LOSS, cases[c].words);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_made_of_the_right_pieces),
        cmocka_unit_test(each_byte_is_given_once),
        cmocka_unit_test(what_is_not_split_is_one_piece),
        cmocka_unit_test(no_two_buffers_of_any_shards_overlap),
        cmocka_unit_test(an_iteration_goes_through_all_shards),
        cmocka_unit_test(two_microbatches_are_under_way),
        cmocka_unit_test(variables_are_whole_to_all_others),
        cmocka_unit_test(a_step_computes_what_one_tensor_would),
        cmocka_unit_test(any_devices_give_the_same_bits),
        cmocka_unit_test(processes_give_the_same_bits),
        cmocka_unit_test(what_is_not_finite_is_found_in_its_shard),
        cmocka_unit_test(a_sum_over_shards_that_overflows_is_found),
        cmocka_unit_test(kernels_are_counted_for_each_shard),
        cmocka_unit_test(what_has_a_part_of_the_model_is_refused),
        cmocka_unit_test(broken_promises_are_refused),
    };
    return cmocka_run_group_tests(tests, open_artifact, close_artifact);
}
