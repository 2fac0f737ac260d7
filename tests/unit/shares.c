/* shares: which elements are whose where processes share out an update, and that kernels compute just these, on what the process has of its own. */
#include "abi/share.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"
#include "tests/support/compiled.h"
#include "tests/support/expect.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <string.h>

enum {
    N = 16385, /* elements: blocks of 128, and one */
    MOST_SHARES = 6,
    MOST_BUFFERS = 16
};

/* ---- the ranges ---- */

static void shares_are_whole_units_and_even(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 4096, 4097, 8192, 16385, 100352, 12345678};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t n = sizes[i], turn = 0; turn < 5; turn++)
            for (int64_t n_shares = 1; n_shares < 9; n_shares++) {
                dt_share how = {turn % 2 == 0 ? DT_SHARE_LINE : dt_share_block(n), turn};
                int64_t n_units = (n + how.unit - 1) / how.unit;
                assert_int_equal(dt_share_first_element(how, n, 0, n_shares), 0);
                assert_int_equal(dt_share_first_element(how, n, n_shares, n_shares), n);
                for (int64_t p = 0; p < n_shares; p++) {
                    int64_t units = dt_share_first_unit(n_units, turn, p + 1, n_shares) - dt_share_first_unit(n_units, turn, p, n_shares);
                    int64_t first = dt_share_first_element(how, n, p, n_shares);
                    assert_true(units == n_units / n_shares || units == (n_units + n_shares - 1) / n_shares);
                    assert_true(first % how.unit == 0 || first == n);
                }
            }
}

static void tensors_of_one_unit_take_turns(void **state) {
    (void)state;
    for (int64_t n_shares = 1; n_shares < 9; n_shares++) {
        int n_units[8] = {0};
        for (int64_t turn = 0; turn < 3 * n_shares; turn++)
            for (int64_t p = 0; p < n_shares; p++)
                n_units[p] += (int)(dt_share_first_unit(1, turn, p + 1, n_shares) - dt_share_first_unit(1, turn, p, n_shares));
        for (int64_t p = 0; p < n_shares; p++) assert_int_equal(n_units[p], 3);
    }
}

static void sums_of_blocks_are_where_their_elements_are(void **state) {
    (void)state;
    for (int64_t n_shares = 1; n_shares < 9; n_shares++)
        for (int64_t p = 0; p <= n_shares; p++) {
            int64_t elements = dt_share_block(N), n_blocks = (N + elements - 1) / elements;
            int64_t block = dt_share_first_element((dt_share){1, 3}, n_blocks, p, n_shares);
            int64_t element = dt_share_first_element((dt_share){elements, 3}, N, p, n_shares);
            assert_int_equal(element, block * elements < N ? block * elements : N);
        }
}

/* Lines that no process has much more of than others, and no more blocks than that takes. */
static void blocks_are_many_but_no_more_than_that(void **state) {
    (void)state;
    for (int64_t n = DT_SHARE_MOST_BLOCK + 1; n < 1000000; n += 777) {
        int64_t block = dt_share_block(n);
        assert_true(block % DT_SHARE_LINE == 0 && block <= DT_SHARE_MOST_BLOCK);
        assert_true(n / block >= 128 || block == DT_SHARE_LINE);
        assert_true(n / block < 256 || block == DT_SHARE_MOST_BLOCK);
    }
}

/* ---- kernels ---- */

/* A state that is updated, its length, and a parameter that both change: m = m w, w = w + m |m|. */
static const char program[] = "module m capacity 1\n"
                              "file 0 \"m.dt\"\n"
                              "variable \"w\": f32[5, 3277] parameter trainable @0:1:1\n"
                              "variable \"m\": f32[5, 3277] slot @0:1:2\n"
                              "function s step (%0 x: f32[B] @0:2:1) {\n"
                              "  %1: f32[5, 3277] = read(variable=\"w\") @0:3:1\n"
                              "  %2: f32[5, 3277] = read(variable=\"m\") @0:3:2\n"
                              "  %3: f32[5, 3277] = multiply(%1, %2) @0:3:3\n"
                              "  %4: f32[5, 3277] = multiply(%3, %3) @0:3:4\n"
                              "  %5: f32 = reduce_sum(%4, axes=[0, 1]) @0:3:5\n"
                              "  %6: f32[5, 3277] = broadcast(%5, shape=[5, 3277], dims=[]) @0:3:6\n"
                              "  %7: f32[5, 3277] = multiply(%3, %6) @0:3:7\n"
                              "  %8: f32[5, 3277] = add(%1, %7) @0:3:8\n"
                              "  write(%8, variable=\"w\") @0:3:9\n"
                              "  write(%3, variable=\"m\") @0:3:10\n"
                              "}\n";

/* The memory of a process. */
typedef struct process {
    float *buffers[MOST_BUFFERS]; /* of the plan */
} process;

static int64_t n_elements(const dt_plan *plan, int b) { return dt_shape_elements(plan->buffers[b].shape, 1, 1); }

static int buffer_of(const dt_plan *plan, int variable) {
    for (int b = 0; b < plan->n_buffers; b++)
        if (plan->buffers[b].space == DT_MEMORY_VARIABLE && plan->buffers[b].variable == variable) return b;
    fail_msg("the plan does not know variable %d", variable);
    return -1;
}

/* Of the slot nothing is a number but the process's own share. */
static process new_process(dt_arena *arena, const dt_compilation *compilation, int share, int n_shares) {
    const dt_plan *plan = compilation->plans[0];
    process made;
    assert_true(plan->n_buffers <= MOST_BUFFERS);
    for (int b = 0; b < plan->n_buffers; b++) {
        made.buffers[b] = dt_arena_new(arena, (size_t)n_elements(plan, b) * sizeof(float) + DT_SLACK_BYTES);
        for (int64_t i = 0; i < n_elements(plan, b); i++) made.buffers[b][i] = NAN;
    }
    dt_share how = compilation->variable_shares[1];
    int64_t first = dt_share_first_element(how, N, share, n_shares), end = dt_share_first_element(how, N, share + 1, n_shares);
    for (int64_t i = 0; i < N; i++) made.buffers[buffer_of(plan, 0)][i] = (float)(i % 7) / 8;
    for (int64_t i = first; i < end; i++) made.buffers[buffer_of(plan, 1)][i] = (float)(i % 11 - 5) / 16;
    return made;
}

static void gather(const dt_plan *plan, const dt_shared_buffer *what, process *processes, int n) {
    for (int from = 0; from < n; from++) {
        int64_t first = dt_share_first_element(what->share, n_elements(plan, what->buffer), from, n);
        int64_t end = dt_share_first_element(what->share, n_elements(plan, what->buffer), from + 1, n);
        for (int to = 0; to < n; to++)
            if (to != from)
                memcpy(processes[to].buffers[what->buffer] + first, processes[from].buffers[what->buffer] + first,
                       (size_t)(end - first) * sizeof(float));
    }
}

/* All kernels on n processes of n_parts cores. */
static void run(dt_arena *arena, const dt_compilation *compilation, dt_kernel_runner runner, void *context, process *processes, int n, int n_parts) {
    dt_plan *plan = compilation->plans[0];
    dt_bad_index bad = {0};
    for (int p = 0; p < n; p++) processes[p] = new_process(arena, compilation, p, n);
    for (int s = 0; s < plan->n_segments; s++)
        for (int i = 0; i < plan->segments[s].n_device_kernels; i++) {
            int k = plan->segments[s].device_kernels[i];
            const dt_kernel_function *kernel = &plan->kernels[k];
            for (int p = 0; p < n; p++) {
                void *buffers[MOST_BUFFERS];
                dt_launch launch = {.replicas = 1, .bad_index = &bad, .n_parts = kernel->divided ? n_parts : 1, .share = p, .n_shares = n};
                for (int b = 0; b < kernel->n_buffers; b++) buffers[b] = processes[p].buffers[kernel->buffers[b]];
                for (; launch.part < launch.n_parts; launch.part++) runner(context, plan, k, buffers, &launch);
            }
            for (int g = 0; g < kernel->n_gathers && n > 1; g++) gather(plan, &kernel->gathers[g], processes, n);
        }
}

static void run_naively(void *arena, const dt_plan *plan, int k, void *const *buffers, const dt_launch *launch) {
    dt_kernel_execute(arena, plan, &plan->kernels[k], NULL, buffers, launch);
}

/* Each process ends with the parameters of one, and its share of the state of one; the bits are those of one by the same code. */
static void agree(dt_arena *arena, const dt_compilation *compilation, dt_kernel_runner runner, void *context) {
    process one, many[MOST_SHARES];
    int w = buffer_of(compilation->plans[0], 0), m = buffer_of(compilation->plans[0], 1);
    run(arena, compilation, runner, context, &one, 1, 1);
    assert_true(one.buffers[w][N - 1] == one.buffers[w][N - 1]);
    for (int n = 2; n <= MOST_SHARES; n++) {
        run(arena, compilation, runner, context, many, n, 3);
        for (int p = 0; p < n; p++) {
            dt_share how = compilation->variable_shares[1];
            int64_t first = dt_share_first_element(how, N, p, n), end = dt_share_first_element(how, N, p + 1, n);
            assert_memory_equal(many[p].buffers[w], one.buffers[w], N * sizeof(float));
            assert_memory_equal(many[p].buffers[m] + first, one.buffers[m] + first, (size_t)(end - first) * sizeof(float));
            for (int64_t i = 0; i < N; i++) assert_true((i >= first && i < end) || isnan(many[p].buffers[m][i]));
        }
    }
}

static void kernels_touch_the_process_s_share_alone(void **state) {
    (void)state;
    const char *levels[COMPILED_MOST_LEVELS];
    compiled_code codes[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    dt_arena *arena = dt_arena_create();
    dt_compilation compilation = {.arena = arena};
    expect_ok(dt_module_parse(arena, "m", program, &compilation.module));
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    assert_int_equal(compilation.variable_shares[1].unit, dt_share_block(N));
    agree(arena, &compilation, run_naively, arena);
    expect_ok(compiled_make(&compilation, levels, n_levels, codes));
    for (int i = 0; i < n_levels; i++) agree(arena, &compilation, compiled_run, &codes[i]);
    compiled_free(codes, n_levels);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_are_whole_units_and_even), cmocka_unit_test(tensors_of_one_unit_take_turns),
                                       cmocka_unit_test(sums_of_blocks_are_where_their_elements_are),
                                       cmocka_unit_test(blocks_are_many_but_no_more_than_that),
                                       cmocka_unit_test(kernels_touch_the_process_s_share_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
