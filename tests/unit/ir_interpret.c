/* interpret: functions as a whole: the batch axis, variables, replicas and their fixed tree, bad indices, and memory that runs out. What each op
 * computes is tests/ops/numpy_test.py's business. */
#include "base/memory.h"
#include "ir/interpret.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static dt_arena *arena;
static dt_bad_index bad[8];

static int set_up(void **state) {
    (void)state;
    arena = dt_arena_create();
    memset(bad, 0, sizeof bad);
    return arena == NULL;
}

static int tear_down(void **state) {
    (void)state;
    dt_arena_destroy(arena);
    return 0;
}

static void assert_ok(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
}

static void assert_fails(dt_status *status, const char *part) {
    if (status == NULL || strstr(dt_status_message(status), part) == NULL) fail_msg("'%s' does not hold '%s'", dt_status_message(status), part);
    dt_status_free(status);
}

static dt_module *parse(const char *text) {
    dt_module *module;
    assert_ok(dt_module_parse(arena, "test.ir", text, &module));
    assert_ok(dt_verify(module));
    return module;
}

static dt_tensor floats(int rank, const int64_t *dims, const double *elements) {
    dt_tensor tensor = dt_tensor_make(arena, DT_F32, (dt_shape){rank, dims});
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++) dt_tensor_set(&tensor, i, elements[i]);
    return tensor;
}

static dt_tensor vector(int64_t n, const double *elements) { return floats(1, &n, elements); }

static void assert_elements(const dt_tensor *tensor, size_t n, const double *elements) {
    assert_int_equal(dt_tensor_elements(tensor), n);
    for (size_t i = 0; i < n; i++)
        if (dt_tensor_get(tensor, i) != elements[i]) fail_msg("element %zu is %.9g, not %.9g", i, dt_tensor_get(tensor, i), elements[i]);
}

/* Launches of n replicas of which each holds two rows at most, `valid` in all. */
static void launch_replicas(dt_launch *launches, int n, int64_t valid) {
    for (int r = 0; r < n; r++) {
        int64_t rest = valid - 2 * r;
        launches[r] = (dt_launch){.rows = rest < 0   ? 0
                                          : rest > 2 ? 2
                                                     : rest,
                                  .row_offset = 2 * r,
                                  .valid = valid,
                                  .global_batch = 2 * n,
                                  .replicas = n,
                                  .bad_index = &bad[r]};
    }
}

static void any_number_of_rows(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 4\n"
                              "function f step (%0 x: f32[B, 2]) {\n"
                              "  %1: f32[2] = reduce_sum(%0, axes=[0])\n"
                              "  %2: f32[2] = reduce_max(%0, axes=[0])\n"
                              "  %3: f32[B, 1, 2] = reshape(%0, shape=[B, 1, 2])\n"
                              "  return sum=%1, max=%2, same=%3\n"
                              "}\n");
    const double x[] = {1, 2, 3, 4, 5, -6};
    dt_tensor results[3];
    for (int64_t rows = 0; rows <= 3; rows++) {
        dt_launch launch = {.rows = rows, .valid = rows, .bad_index = &bad[0]};
        dt_tensor input = floats(2, (int64_t[]){rows, 2}, x);
        assert_ok(dt_interpret(arena, module->functions.items[0], &launch, &input, NULL, results));
        static const double sums[4][2] = {{0, 0}, {1, 2}, {4, 6}, {9, 0}};
        static const double most[4][2] = {{-INFINITY, -INFINITY}, {1, 2}, {3, 4}, {5, 4}};
        assert_elements(&results[0], 2, sums[rows]);
        assert_elements(&results[1], 2, most[rows]);
        assert_elements(&results[2], (size_t)rows * 2, x);
    }
    dt_launch launch = {.rows = 2, .valid = 2, .bad_index = &bad[0]};
    dt_tensor input = floats(2, (int64_t[]){3, 2}, x);
    assert_fails(dt_interpret(arena, module->functions.items[0], &launch, &input, NULL, results), "f expects x: f32[2, 2], got f32[3, 2]");
}

static const char counter[] = "module m capacity 4\n"
                              "variable count: f32[2] state\n"
                              "function f step (%0 x: f32[2]) {\n"
                              "  %1: f32[2] = read(variable=\"count\")\n"
                              "  %2: f32[2] = add(%1, %0)\n"
                              "  write(%2, variable=\"count\")\n"
                              "  return before=%1\n"
                              "}\n";

static void variables_change_at_the_end(void **state) {
    (void)state;
    dt_module *module = parse(counter);
    dt_memory memory = dt_memory_create(arena, module);
    dt_launch launch = {.bad_index = &bad[0]};
    dt_tensor input = vector(2, (double[]){1, 10}), before;
    for (int i = 0; i < 3; i++) {
        assert_ok(dt_interpret(arena, module->functions.items[0], &launch, &input, &memory, &before));
        assert_elements(&before, 2, (double[]){i, 10 * i});
    }
    assert_elements(&memory.variables[0], 2, (double[]){3, 30});
    assert_fails(dt_interpret(arena, module->functions.items[0], &launch, &input, NULL, &before), "the variable count, which is not given");
}

static void replicas_must_write_the_same(void **state) {
    (void)state;
    dt_module *module = parse(counter);
    dt_memory memory = dt_memory_create(arena, module);
    dt_launch launches[2];
    launch_replicas(launches, 2, 0);
    dt_tensor inputs[2] = {vector(2, (double[]){1, 10}), vector(2, (double[]){1, 10})}, before[2];
    assert_ok(dt_interpret_replicas(arena, module->functions.items[0], 2, launches, inputs, &memory, before));
    assert_elements(&memory.variables[0], 2, (double[]){1, 10});
    dt_tensor_set(&inputs[1], 1, 11);
    assert_fails(dt_interpret_replicas(arena, module->functions.items[0], 2, launches, inputs, &memory, before),
                 "replicas 0 and 1 give the variable count");
    assert_elements(&memory.variables[0], 2, (double[]){1, 10});
}

/* Sums of floats depend on their order, so these say which tree it was: 3 leaves are (0 + 1) + 2, 5 are ((0 + 1) + (2 + 3)) + 4. */
static void sums_go_up_one_tree(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 2\n"
                              "function f step (%0 x: f32[1]) {\n"
                              "  %1: f32[1] = all_reduce(%0)\n"
                              "  %2: f32[1] = all_reduce(%0, kind=\"max\")\n"
                              "  %3: f32[1] = all_reduce(%0, kind=\"min\")\n"
                              "  return sum=%1, max=%2, min=%3\n"
                              "}\n");
    const float leaves[] = {1e8f, 3.3f, -1e8f, 7.7f, 0.1f, 1e4f, -2.5f};
    for (int n = 1; n <= 7; n++) {
        const float *l = leaves;
        float wanted = n == 1   ? l[0]
                       : n == 2 ? l[0] + l[1]
                       : n == 3 ? (l[0] + l[1]) + l[2]
                       : n == 4 ? (l[0] + l[1]) + (l[2] + l[3])
                       : n == 5 ? ((l[0] + l[1]) + (l[2] + l[3])) + l[4]
                       : n == 6 ? ((l[0] + l[1]) + (l[2] + l[3])) + (l[4] + l[5])
                                : ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + l[6]);
        dt_launch launches[7];
        dt_tensor inputs[7], results[21];
        launch_replicas(launches, n, 2 * n);
        for (int r = 0; r < n; r++) inputs[r] = vector(1, (double[]){leaves[r]});
        assert_ok(dt_interpret_replicas(arena, module->functions.items[0], n, launches, inputs, NULL, results));
        for (int r = 0; r < n; r++) {
            assert_elements(&results[3 * r], 1, (double[]){wanted});
            assert_elements(&results[3 * r + 1], 1, (double[]){1e8f});
            assert_elements(&results[3 * r + 2], 1, (double[]){n < 2 ? 1e8f : n < 3 ? 3.3f : -1e8f});
        }
    }
}

static void extremes_of_replicas_keep_nan(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 2\n"
                              "function f step (%0 x: f32[B]) {\n"
                              "  %1: f32 = reduce_min(%0, axes=[0])\n"
                              "  %2: f32 = all_reduce(%1, kind=\"min\")\n"
                              "  %3: f32 = reduce_max(%0, axes=[0])\n"
                              "  %4: f32 = all_reduce(%3, kind=\"max\")\n"
                              "  return least=%2, greatest=%4\n"
                              "}\n");
    for (int where = 0; where < 3; where++) {
        dt_launch launches[3];
        launch_replicas(launches, 3, 6);
        dt_tensor inputs[3], results[6];
        for (int r = 0; r < 3; r++) inputs[r] = vector(2, (double[]){r == where ? NAN : r, 4 - r});
        assert_ok(dt_interpret_replicas(arena, module->functions.items[0], 3, launches, inputs, NULL, results));
        for (int i = 0; i < 6; i++) assert_true(isnan(dt_tensor_get(&results[i], 0)));
    }
}

static void rows_are_gathered_and_scattered(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 2\n"
                              "function f step (%0 x: f32[2, B]) {\n"
                              "  %1: f32[2, G] = all_gather(%0, axis=1)\n"
                              "  %2: f32[2, B] = reduce_scatter(%1, axis=1)\n"
                              "  return all=%1, own=%2\n"
                              "}\n");
    dt_launch launches[4];
    launch_replicas(launches, 4, 5); /* 2, 2, 1 and 0 rows */
    const double x[4][4] = {{0, 1, 10, 11}, {2, 3, 12, 13}, {4, 14}};
    dt_tensor inputs[4], results[8];
    for (int r = 0; r < 4; r++) inputs[r] = floats(2, (int64_t[]){2, launches[r].rows}, x[r]);
    assert_ok(dt_interpret_replicas(arena, module->functions.items[0], 4, launches, inputs, NULL, results));
    for (int r = 0; r < 4; r++) {
        assert_elements(&results[2 * r], 10, (double[]){0, 1, 2, 3, 4, 10, 11, 12, 13, 14});
        double own[4];
        for (int64_t i = 0; i < 2 * launches[r].rows; i++) own[i] = 4 * x[r][i];
        assert_elements(&results[2 * r + 1], (size_t)(2 * launches[r].rows), own);
    }
}

static void random_numbers_and_positions_do_not_depend_on_replicas(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 2\n"
                              "function f step (%0 x: f32[B]) {\n"
                              "  %1: f32[B, 3] = random_uniform(shape=[B, 3], stream=7)\n"
                              "  %2: f32[B] = iota(shape=[B], axis=0, dtype=f32)\n"
                              "  return random=%1, row=%2\n"
                              "}\n");
    dt_launch whole = {.rows = 6, .valid = 6, .seed = 5, .bad_index = &bad[0]}, launches[3];
    launch_replicas(launches, 3, 6);
    dt_tensor input = vector(6, (double[6]){0}), inputs[3], expected[2], results[6];
    assert_ok(dt_interpret(arena, module->functions.items[0], &whole, &input, NULL, expected));
    for (int r = 0; r < 3; r++) {
        inputs[r] = vector(2, (double[2]){0});
        launches[r].seed = 5;
    }
    assert_ok(dt_interpret_replicas(arena, module->functions.items[0], 3, launches, inputs, NULL, results));
    for (int r = 0; r < 3; r++) {
        assert_memory_equal(results[2 * r].data, (float *)expected[0].data + 6 * r, 6 * sizeof(float));
        assert_memory_equal(results[2 * r + 1].data, (float *)expected[1].data + 2 * r, 2 * sizeof(float));
    }
    assert_memory_not_equal(results[0].data, results[2].data, 6 * sizeof(float));
}

static void places_of_nan_come_first(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 4\n"
                              "function f step (%0 x: f32[B, 3]) {\n"
                              "  %1: i64[B] = argmax(%0, axes=[1])\n"
                              "  %2: i64[3] = argmin(%0, axes=[0])\n"
                              "  return greatest=%1, least=%2\n"
                              "}\n");
    dt_launch launch = {.rows = 4, .valid = 4, .bad_index = &bad[0]};
    dt_tensor input = floats(2, (int64_t[]){4, 3}, (double[]){1, NAN, 7, INFINITY, 2, NAN, NAN, NAN, 9, 3, 3, 3}), results[2];
    assert_ok(dt_interpret(arena, module->functions.items[0], &launch, &input, NULL, results));
    assert_elements(&results[0], 4, (double[]){1, 2, 0, 0});
    assert_elements(&results[1], 3, (double[]){2, 0, 1});
}

static void bad_indices_are_counted_once(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 4\n"
                              "function f step (%0 table: f32[3, 700], %1 index: i32[B, 2]) {\n"
                              "  %2: f32[B, 2, 700] = gather(%0, %1)\n"
                              "  %3: f32[3, 700] = scatter_add(%2, %1, size=3)\n"
                              "  return rows=%2, sums=%3\n"
                              "}\n");
    dt_launch launch = {.rows = 2, .row_offset = 40, .valid = 2, .bad_index = &bad[0]};
    dt_tensor inputs[2] = {dt_tensor_make(arena, DT_F32, (dt_shape){2, (int64_t[]){3, 700}}),
                           dt_tensor_make(arena, DT_I32, (dt_shape){2, (int64_t[]){2, 2}})};
    for (size_t i = 0; i < 2100; i++) dt_tensor_set(&inputs[0], i, 1);
    const double indices[] = {2, 1, 3, -1};
    for (size_t i = 0; i < 4; i++) dt_tensor_set(&inputs[1], i, indices[i]);
    dt_tensor results[2];
    assert_ok(dt_interpret(arena, module->functions.items[0], &launch, inputs, NULL, results));
    assert_int_equal(bad[0].count, 4);  /* two indices, used by two ops */
    assert_int_equal(bad[0].value, -1); /* of two in a row the lower */
    assert_int_equal(bad[0].row, 41);
    assert_int_equal(bad[0].limit, 3);
    for (size_t i = 0; i < 2800; i++) assert_true(dt_tensor_get(&results[0], i) == (i < 1400));
    for (size_t i = 0; i < 2100; i++) assert_true(dt_tensor_get(&results[1], i) == (i >= 700));
}

static void gradients_must_be_resolved_first(void **state) {
    (void)state;
    dt_module *module = parse("module m capacity 4\n"
                              "function f step (%0 x: f32) {\n"
                              "  %1: f32 = gradient(%0, %0)\n"
                              "  return g=%1\n"
                              "}\n");
    dt_launch launch = {.bad_index = &bad[0]};
    dt_tensor input = floats(0, NULL, (double[]){1}), result;
    assert_fails(dt_interpret(arena, module->functions.items[0], &launch, &input, NULL, &result), "gradient is not resolved yet");
}

/* What only moves elements is not computed but looked at, so whoever reads it sees strides: sums, products, reshapes, collectives, writes. */
static const char moves[] = "module m capacity 4\n"
                            "variable w: f32[2] state\n"
                            "function f step (%0 x: f32[2, 3]) {\n"
                            "  %1: f32[2, 3] = reverse(%0, axes=[1])\n"
                            "  %2: f32[1, 2] = slice(%1, starts=[1, 1], limits=[2, 3])\n"
                            "  %3: f32[3, 2] = transpose(%1, permutation=[1, 0])\n"
                            "  %4: f32[6] = reshape(%3, shape=[6])\n"
                            "  %5: f32[2, 2] = broadcast(%2, shape=[2, 2], dims=[0, 1])\n"
                            "  %6: f32[3] = reduce_sum(%1, axes=[0])\n"
                            "  %7: f32[3, 3] = matmul(%3, %1)\n"
                            "  %8: f32[2, 2] = all_reduce(%5)\n"
                            "  %9: f32[2] = constant(value=7.0, shape=[2], dtype=f32)\n"
                            "  write(%9, variable=\"w\")\n"
                            "  return slice=%2, reshape=%4, sum=%6, product=%7, reduced=%8, constant=%9\n"
                            "}\n";

static void moves_are_looked_at(void **state) {
    (void)state;
    dt_module *module = parse(moves);
    dt_memory memory = dt_memory_create(arena, module);
    dt_launch launches[2];
    launch_replicas(launches, 2, 0);
    dt_tensor x = floats(2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6}), inputs[] = {x, x}, results[12];
    assert_ok(dt_interpret_replicas(arena, module->functions.items[0], 2, launches, inputs, &memory, results));
    for (const dt_tensor *of = results; of < results + 12; of += 6) {
        assert_elements(&of[0], 2, (double[]){5, 4});
        assert_elements(&of[1], 6, (double[]){3, 6, 2, 5, 1, 4});
        assert_elements(&of[2], 3, (double[]){9, 7, 5});
        assert_elements(&of[3], 9, (double[]){45, 36, 27, 36, 29, 22, 27, 22, 17});
        assert_elements(&of[4], 4, (double[]){10, 8, 10, 8});
        assert_elements(&of[5], 2, (double[]){7, 7});
    }
    assert_elements(&memory.variables[0], 2, (double[]){7, 7});
}

/* Larger than the tiles and blocks that a product is computed in; against sums that are taken one by one. */
static void products_are_sums(void **state) {
    (void)state;
    enum {
        ROWS = 67,
        TERMS = 301,
        COLUMNS = 259
    };
    dt_module *module = parse("module m capacity 4\n"
                              "function f step (%0 a: f32[301, 67], %1 b: f32[301, 259]) {\n"
                              "  %2: f32[67, 259] = matmul(%0, %1, transpose_a=true)\n"
                              "  return c=%2\n"
                              "}\n");
    dt_launch launch = {.bad_index = &bad[0]};
    static double a[TERMS * ROWS], b[TERMS * COLUMNS];
    for (int i = 0; i < TERMS * ROWS; i++) a[i] = i * 7 % 11 - 5;
    for (int i = 0; i < TERMS * COLUMNS; i++) b[i] = i * 5 % 13 - 6;
    dt_tensor inputs[] = {floats(2, (int64_t[]){TERMS, ROWS}, a), floats(2, (int64_t[]){TERMS, COLUMNS}, b)}, c;
    assert_ok(dt_interpret(arena, module->functions.items[0], &launch, inputs, NULL, &c));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            double sum = 0; /* of integers: exact in any order */
            for (int term = 0; term < TERMS; term++) sum += a[term * ROWS + row] * b[term * COLUMNS + column];
            assert_true(dt_tensor_get(&c, (size_t)(row * COLUMNS + column)) == sum);
        }
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    dt_module *module = parse(counter);
    dt_memory memory = dt_memory_create(arena, module);
    dt_launch launch = {.bad_index = &bad[0]};
    dt_tensor input = vector(2, (double[]){1, 10}), before;
    int n_failed = 0;
    for (int n = 0;; n++, n_failed++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_interpret(arena, module->functions.items[0], &launch, &input, &memory, &before);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
        assert_elements(&memory.variables[0], 2, (double[]){0, 0});
    }
    assert_true(n_failed > 3);
    assert_elements(&memory.variables[0], 2, (double[]){1, 10});
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_rows),
        TEST(variables_change_at_the_end),
        TEST(replicas_must_write_the_same),
        TEST(sums_go_up_one_tree),
        TEST(rows_are_gathered_and_scattered),
        TEST(random_numbers_and_positions_do_not_depend_on_replicas),
        TEST(bad_indices_are_counted_once),
        TEST(gradients_must_be_resolved_first),
        TEST(memory_may_run_out_anywhere),
        TEST(places_of_nan_come_first),
        TEST(extremes_of_replicas_keep_nan),
        TEST(moves_are_looked_at),
        TEST(products_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
