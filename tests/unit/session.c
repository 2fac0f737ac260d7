/* session: a whole step by hand: linear regression with a gather, on any number of devices, with short batches, bad indices and failures. */
#include "runtime/execution/ranges.h"

#include "base/memory.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/example_function.h"
#include "runtime/threads/clock.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

#include <math.h>

enum {
    MOST_ROWS = 40,
    TRAIN = 0,
    LATE = 1
};

static dt_artifact *artifact;
static dt_kernels *kernels;

static int open_artifact(void **state) {
    (void)state;
    return fixture_open_line(&artifact, &kernels);
}

static int close_artifact(void **state) {
    (void)state;
    fixture_close_line(artifact, kernels);
    return 0;
}

static dt_session *open_placed(const char *devices, int64_t replicas, bool central) {
    dt_session_options options = dt_session_options_default();
    options.central = central;
    options.devices = devices;
    options.replicas = replicas;
    options.seed = 5;
    dt_session *session;
    dt_status *status = dt_session_create(kernels, &options, &session);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    assert_null(dt_session_initialize(session));
    return session;
}

static dt_session *open_session(const char *devices, int64_t replicas) { return open_placed(devices, replicas, false); }

/* Rows of a plane, none of them exact in binary. */
typedef struct data {
    float x[MOST_ROWS + 6][3], y[MOST_ROWS + 16];
} data;

static data make_data(int step) {
    data made = {0};
    for (int r = 0; r < MOST_ROWS; r++) {
        for (int i = 0; i < 3; i++) made.x[r][i] = (float)((step * 131 + r * 37 + i * 11) % 101) / 101.0f;
        made.y[r] = made.x[r][0] * 0.3f - made.x[r][1] * 0.7f + made.x[r][2] * 0.11f;
    }
    return made;
}

static void train(dt_session *session, int step, int64_t rows, dt_total *aggregates) {
    data d = make_data(step);
    const void *inputs[] = {d.x, d.y};
    expect_ok(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = rows, .counter = step}, aggregates));
}

/* ---- training ---- */

static void any_number_of_devices_gives_the_same_bits(void **state) {
    (void)state;
    static const struct {
        int64_t replicas;
        const char *devices[4];
    } cases[] = {{8, {"cpu:2", "cpu:3x2", "cpu:5", "cpu:8x2"}},
                 {3, {"cpu:2", "cpu:3x1", "cpu", "cpu:1x4"}},
                 {5, {"cpu:2x3", "cpu:4", "cpu:5", "cpu:3"}},
                 {1, {"cpu:1x2", "cpu:1x4", "cpu", "cpu:1"}}};
    for (size_t c = 0; c < 4; c++) {
        dt_session *one = open_session("cpu:1x1", cases[c].replicas);
        for (int d = 0; d < 4; d++) {
            dt_session *many = open_session(cases[c].devices[d], cases[c].replicas);
            assert_null(dt_session_initialize(one));
            for (int step = 0; step < 50; step++) {
                int64_t global = dt_session_global_batch(one), rows = step % 3 == 2 ? 1 + step * 7 % global : global;
                dt_total a[2], b[2];
                train(one, step, rows, a);
                train(many, step, rows, b);
                assert_memory_equal(&a[0].number, &b[0].number, 8);
                assert_int_equal(a[1].integer, rows);
                assert_int_equal(b[1].integer, rows);
            }
            float w[2][3];
            int64_t n;
            assert_null(dt_ranges_read(one, 0, 0, dt_ranges_own(one, 0), w[0]));
            for (int device = 0; device < dt_session_n_devices(many); device++) {
                assert_null(dt_ranges_read(many, device, 0, dt_ranges_own(many, 0), w[1]));
                assert_memory_equal(w[0], w[1], sizeof w[0]);
                assert_null(dt_ranges_read(many, device, 1, dt_ranges_own(many, 1), &n));
                assert_int_equal(n, 150);
            }
            dt_session_destroy(many);
        }
        dt_session_destroy(one);
    }
}

/* In central storage the first of several devices holds no rows, and all others read what it has updated. */
static void central_storage_gives_the_same_bits(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int n_computing, n_executors;
    } cases[] = {{"cpu:1x2", 1, 2}, {"cpu:2x1", 1, 2}, {"cpu:3x2", 2, 6}, {"cpu:4x1", 3, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_session *one = open_session("cpu:1x1", 3), *central = open_placed(cases[c].devices, 3, true);
        assert_int_equal(dt_session_n_computing(central), cases[c].n_computing);
        assert_int_equal(dt_session_n_executors(central), cases[c].n_executors);
        for (int step = 0; step < 20; step++) {
            dt_total a[2], b[2];
            float spread[2][12];
            int64_t rows = step % 3 == 2 ? 1 + step * 7 % 12 : 12;
            train(one, step, rows, a);
            train(central, step, rows, b);
            assert_memory_equal(&a[0].number, &b[0].number, 8);
            assert_int_equal(b[1].integer, rows);
            expect_ok(dt_session_result(one, TRAIN, 3, spread[0]));
            expect_ok(dt_session_result(central, TRAIN, 3, spread[1]));
            assert_memory_equal(spread[0], spread[1], (size_t)rows * sizeof(float));
        }
        float w[2][3];
        int64_t n;
        expect_ok(dt_ranges_read(one, 0, 0, dt_ranges_own(one, 0), w[0]));
        for (int device = 0; device < dt_session_n_devices(central); device++) {
            expect_ok(dt_ranges_read(central, device, 0, dt_ranges_own(central, 0), w[1]));
            assert_memory_equal(w[0], w[1], sizeof w[0]);
            expect_ok(dt_ranges_read(central, device, 1, dt_ranges_own(central, 1), &n));
            assert_int_equal(n, 120);
            dt_session_device_bytes bytes = dt_session_bytes_of_device(central, device);
            assert_int_equal(bytes.weights, device == 0 ? 20 : 0); /* the others read them there */
            assert_true(bytes.all > bytes.weights);
        }
        dt_session_destroy(one);
        dt_session_destroy(central);
    }
}

static void a_step_computes_what_its_kernels_say(void **state) {
    (void)state;
    dt_session *session = open_session("cpu:2", 3);
    int64_t rows = 9; /* of 12: the last replica has one */
    data d = make_data(7);
    const void *inputs[] = {d.x, d.y};
    float w[3], prediction[9], spread[9], after[3], y[9];
    dt_total aggregates[2];
    double loss = 0;
    assert_null(dt_ranges_read(session, 1, 0, dt_ranges_own(session, 0), w));
    assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = rows, .counter = 7}, aggregates));
    assert_null(dt_session_result(session, TRAIN, 2, prediction));
    assert_null(dt_session_result(session, TRAIN, 3, spread));
    assert_null(dt_session_result(session, TRAIN, 4, after));
    assert_null(dt_session_result(session, TRAIN, 5, y));
    for (int r = 0; r < rows; r++) {
        float expected = d.x[r][0] * w[0] + d.x[r][1] * w[1] + d.x[r][2] * w[2];
        assert_true(prediction[r] == expected);
        assert_true(fabsf(spread[r] - 6 * (expected + 1)) < 1e-5f); /* the sum over the two blocks of three replicas of the same gathered row */
        assert_true(y[r] == d.y[r]);
        loss += (double)((expected - d.y[r]) * (expected - d.y[r]));
    }
    assert_true(fabs(aggregates[0].number - loss) < 1e-12 && !aggregates[0].is_integer);
    assert_true(aggregates[1].integer == rows && aggregates[1].is_integer);
    assert_true(memcmp(w, after, sizeof w) != 0);
    dt_session_destroy(session);
}

static void a_rerun_starts_from_variables_that_were_set(void **state) {
    (void)state;
    dt_session *a = open_session("cpu:2", 4), *b = open_session("cpu:3", 4);
    float w[3], wa[3], wb[3];
    int64_t n;
    for (int step = 0; step < 5; step++) train(a, step, 16, NULL);
    assert_null(dt_ranges_read(a, 0, 0, dt_ranges_own(a, 0), w));
    assert_null(dt_ranges_read(a, 0, 1, dt_ranges_own(a, 1), &n));
    assert_null(dt_ranges_write(b, 0, dt_ranges_own(b, 0), w));
    assert_null(dt_ranges_write(b, 1, dt_ranges_own(b, 1), &n));
    for (int step = 5; step < 9; step++) train(a, step, 16, NULL), train(b, step, 16, NULL);
    for (int device = 0; device < 3; device++) {
        assert_null(dt_ranges_read(a, 0, 0, dt_ranges_own(a, 0), wa));
        assert_null(dt_ranges_read(b, device, 0, dt_ranges_own(b, 0), wb));
        assert_memory_equal(wa, wb, sizeof wa);
    }
    dt_session_destroy(a);
    dt_session_destroy(b);
}

static void a_bad_index_is_counted_and_named(void **state) {
    (void)state;
    dt_session *session = open_session("cpu:2", 3);
    data d = make_data(0);
    const void *inputs[] = {d.x, d.y};
    assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 12, .counter = 57}, NULL));
    assert_null(dt_session_bad_index_status(session));
    d.y[5] = 1012, d.y[6] = 2000, d.y[11] = 3000;
    assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 12, .counter = 57}, NULL));
    assert_int_equal(dt_session_bad_index(session)->count, 3);
    expect_error(dt_session_bad_index_status(session), DT_OUT_OF_RANGE,
                 "line.dt:14:9: train step 58, row 5: index 1012 is not within 0 to 9 (and 2 more out of range)");
    assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 5, .counter = 58}, NULL));
    assert_null(dt_session_bad_index_status(session));
    dt_session_destroy(session);
}

static void null_devices_run_steps_without_kernels(void **state) {
    (void)state;
    dt_session *session = open_session("null:2", 2);
    dt_total aggregates[2];
    for (int step = 0; step < 3; step++) train(session, step, 8, aggregates);
    assert_int_equal(aggregates[1].integer, 0);
    assert_string_equal(dt_session_device_name(session, 1), "null:1");
    dt_session_destroy(session);
}

static void steps_cost_little_beside_their_kernels(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu:1", "cpu:2"};
    for (int i = 0; i < 2; i++) {
        dt_session *session = open_session(devices[i], 2);
        data d = make_data(1);
        const void *inputs[] = {d.x, d.y};
        double start = dt_seconds_now();
        for (int step = 0; step < 2000; step++)
            assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 8, .counter = step + 10}, NULL));
        print_message("%s: %.1f us a step\n", devices[i], (dt_seconds_now() - start) / 2000 * 1e6);
        dt_session_destroy(session);
    }
}

/* Four rows a replica in blocks of two, so that a short batch leaves blocks with one row and with none, and n = 3 blocks that are never full. */
static void blocks_without_rows_take_no_part(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        for (int64_t valid = 1; valid <= 2 * n; valid++) {
            float predictions[2][8], spread[8], found[2][3];
            for (int i = 0; i < 2; i++) {
                dt_session_options options = {.devices = i == 0 ? "cpu:1x1" : "cpu:2x2", .replicas = 2, .rows = n, .seed = 5};
                dt_session *session;
                dt_total aggregates[2];
                assert_null(dt_session_create(kernels, &options, &session));
                assert_null(dt_session_initialize(session));
                assert_int_equal(dt_session_n_executors(session), i == 0 ? 1 : n > 2 ? 4 : 2);
                assert_int_equal(dt_session_n_devices(session), i + 1);
                float w[3];
                assert_null(dt_ranges_read(session, i, 0, dt_ranges_own(session, 0), w));
                data d = make_data(7);
                const void *inputs[] = {d.x, d.y};
                assert_null(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = valid, .counter = 7}, aggregates));
                assert_int_equal(aggregates[1].integer, valid);
                assert_null(dt_session_result(session, TRAIN, 2, predictions[i]));
                for (int64_t r = 0; r < valid; r++) assert_true(predictions[i][r] == d.x[r][0] * w[0] + d.x[r][1] * w[1] + d.x[r][2] * w[2]);
                assert_null(dt_session_result(session, TRAIN, 3, spread)); /* the sum over all blocks of the same gathered row */
                for (int64_t r = 0; r < valid; r++) assert_true(fabsf(spread[r] - (float)(n > 2 ? 4 : 2) * (predictions[i][r] + 1)) < 1e-5f);
                assert_null(dt_ranges_read(session, i, 0, dt_ranges_own(session, 0), found[i]));
                dt_session_destroy(session);
            }
            assert_memory_equal(found[0], found[1], sizeof found[0]);
        }
}

/* ---- refusals and failures ---- */

static void refuse(const char *devices, int64_t replicas, int64_t rows, dt_code expected, const char *words) {
    dt_session_options options = {.devices = devices, .replicas = replicas, .rows = rows};
    dt_session *session;
    expect_error(dt_session_create(kernels, &options, &session), expected, words);
    assert_null(session);
}

static void what_cannot_be_run_is_refused_in_one_sentence(void **state) {
    (void)state;
    refuse("cpu:3", 2, 0, DT_INVALID_ARGUMENT, "3 devices for 2 replicas");
    refuse("cpu", 0, 0, DT_INVALID_ARGUMENT, "--replicas 0: the number of replicas is 1 to");
    refuse("cpu", -1, 0, DT_INVALID_ARGUMENT, "--replicas -1");
    refuse("cpu", 1, 5, DT_INVALID_ARGUMENT, "5 rows a replica, but");
    refuse("cpu", 1, 5, DT_INVALID_ARGUMENT, "dtc compile line.dt --batch 5 -o ");
    refuse("cpu", 1, -1, DT_INVALID_ARGUMENT, "-1 rows a replica");
    refuse("tpu:0", 1, 0, DT_INVALID_ARGUMENT, "no devices called \"tpu\"; it has cpu, cuda, null");
    refuse("cuda:0", 1, 0, DT_FAILED_PRECONDITION, "holds no code for GPUs; compile it for them: dtc compile line.dt --target cuda -o ");
    refuse("cuda:0,1", 2, 0, DT_FAILED_PRECONDITION, "holds no code for GPUs");
    refuse("cuda:x", 1, 0, DT_INVALID_ARGUMENT, "come the numbers of GPUs, as in cuda:0 or cuda:0,3");
    refuse("cpu:", 1, 0, DT_INVALID_ARGUMENT, "as in cpu:2");
    refuse("null:2x4", 2, 0, DT_INVALID_ARGUMENT, "not made of cores; write null:2");
    refuse("cpu:3x2", 2, 0, DT_INVALID_ARGUMENT, "3 devices for 2 replicas");
    refuse("cpu:0", 1, 0, DT_INVALID_ARGUMENT, "the number of devices, 1 to");
    refuse("cpu:99999999999999", 1, 0, DT_INVALID_ARGUMENT, "the number of devices, 1 to");
    dt_session *session = open_session("cpu", 2);
    data d = make_data(0);
    const void *inputs[] = {d.x, d.y};
    expect_error(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 9, .counter = 0}, NULL), DT_INVALID_ARGUMENT,
                 "a batch of 9 rows; the global batch holds 1 to 8");
    expect_error(dt_session_run(session, TRAIN, &(dt_batch){.inputs = inputs, .rows = 0, .counter = 0}, NULL), DT_INVALID_ARGUMENT,
                 "a batch of 0 rows");
    expect_error(dt_session_result(session, TRAIN, 0, &d), DT_FAILED_PRECONDITION, "train has not been run last");
    dt_session_destroy(session);
}

static void a_plan_that_does_not_fit_is_refused_before_it_starts(void **state) {
    (void)state;
    char *manifest, *object;
    size_t n_bytes;
    dt_text text = {0};
    dt_artifact *large;
    dt_kernels *large_kernels;
    dt_session *session;
    fixture_line(&manifest, &object, &n_bytes);
    char *place = strstr(manifest, "\"replica_bytes\": 320");
    dt_text_append_bytes(&text, manifest, (size_t)(place - manifest));
    dt_text_format(&text, "\"replica_bytes\": 17592186044416%s", place + strlen("\"replica_bytes\": 320"));
    assert_null(dt_artifact_open(fixture_artifact("large.dtx", text.data, object, n_bytes), &large));
    assert_null(dt_kernels_load(large, NULL, &large_kernels));
    expect_error(
        dt_session_create(large_kernels, &(dt_session_options){.devices = "cpu:2", .replicas = 3}, &session), DT_RESOURCE_EXHAUSTED,
        "the plan needs 100663296.0 MiB of the machine's memory (0.0 MiB for the weights and what else is stored once, 0.0 MiB for each of 2 "
        "executors, and 33554432.0 MiB for each of its replicas; 3 replicas in all)");
    expect_error(dt_session_create(large_kernels, &(dt_session_options){.replicas = 1 << 20}, &session), DT_RESOURCE_EXHAUSTED, "the plan needs");
    assert_null(session);
    expect_error(dt_session_create(kernels, &(dt_session_options){.replicas = 1, .host_bytes = (int64_t)1 << 60}, &session), DT_RESOURCE_EXHAUSTED,
                 "; 1 replica in all; 1099511627776.0 MiB for the copy that checkpoints are written from), and");
    assert_null(session);
    dt_kernels_free(large_kernels);
    dt_artifact_close(large);
    dt_text_free(&text);
    free(manifest);
    free(object);
}

static dt_session *open_late(double deadline_seconds) {
    dt_session_options options = dt_session_options_default();
    options.devices = "cpu:2";
    options.replicas = 2;
    if (deadline_seconds > 0) options.deadline_seconds = deadline_seconds;
    dt_session *session;
    expect_ok(dt_session_create(kernels, &options, &session));
    return session;
}

/* Steps whose devices are punctual have the deadline that sessions have: a busy machine may delay one of them by more than the short one. */
static void a_device_that_does_not_arrive_is_named_and_nobody_hangs(void **state) {
    (void)state;
    dt_session *punctual = open_late(0), *late = open_late(0.25);
    for (int64_t step = 0; step < 3; step++) expect_ok(dt_session_run(punctual, LATE, &(dt_batch){.inputs = NULL, .rows = 8, .counter = step}, NULL));
    expect_error(dt_session_run(late, LATE, &(dt_batch){.inputs = NULL, .rows = 8, .counter = 3}, NULL), DT_ABORTED,
                 "device 1 missing at late 3, segment 0, Line/w, after 0.25 s");
    expect_error(dt_session_run(late, LATE, &(dt_batch){.inputs = NULL, .rows = 8, .counter = 4}, NULL), DT_FAILED_PRECONDITION, "failed before");
    dt_session_destroy(punctual);
    dt_session_destroy(late);
}

static void without_memory_no_session_is_created(void **state) {
    (void)state;
    dt_session_options options = dt_session_options_default();
    options.devices = "cpu:2";
    options.replicas = 3;
    for (int n = 0;; n++) {
        dt_session *session;
        dt_memory_fail_after(n);
        dt_status *status = dt_session_create(kernels, &options, &session);
        dt_memory_fail_after(-1);
        if (status == NULL) {
            dt_session_destroy(session);
            break;
        }
        assert_null(session);
        expect_error(status, DT_RESOURCE_EXHAUSTED, "");
        assert_true(n < 1000);
    }
}

/* ---- functions outside of steps ---- */

static void an_example_function_runs_on_its_own(void **state) {
    (void)state;
    int function = dt_artifact_find_function(artifact, "data/map0");
    dt_example_function *a, *b;
    assert_null(dt_example_function_create(kernels, function, &a));
    assert_null(dt_example_function_create(kernels, function, &b));
    uint8_t one[4 + DT_SLACK_BYTES] = {1, 2, 3, 4}, two[4 + DT_SLACK_BYTES] = {5, 6, 7, 8};
    dt_example_function_call(a, (const void *[]){one}, 0, 0);
    dt_example_function_call(b, (const void *[]){two}, 100, 0);
    static const float expected_a[] = {2, 4, 6, 8}, expected_b[] = {110, 112, 114, 116};
    assert_memory_equal(dt_example_function_result(a, 0), expected_a, sizeof expected_a);
    assert_memory_equal(dt_example_function_result(b, 0), expected_b, sizeof expected_b);
    assert_int_equal(dt_example_function_bad_index(a)->count, 1);
    dt_example_function_call(a, (const void *[]){one}, 0, 0);
    assert_int_equal(dt_example_function_bad_index(a)->count, 2);
    dt_example_function_destroy(a);
    dt_example_function_destroy(b);
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_example_function_create(kernels, function, &a);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        expect_error(status, DT_RESOURCE_EXHAUSTED, "");
    }
    dt_example_function_destroy(a);
}

static void reports_are_the_programs_arithmetic_on_totals(void **state) {
    (void)state;
    dt_reports *reports;
    double values[2];
    assert_null(dt_reports_create(kernels, TRAIN, &reports));
    assert_int_equal(dt_reports_n(reports), 2);
    assert_string_equal(dt_reports_name(reports, 1), "count");
    dt_total first[] = {{.number = 3}, {.is_integer = true, .integer = 4}}, second[] = {{.number = 7}, {.is_integer = true, .integer = 1}};
    dt_reports_add(reports, first);
    dt_reports_add(reports, second);
    dt_reports_evaluate(reports, NULL, values);
    assert_true(values[0] == 2 && values[1] == 5);
    dt_reports_evaluate(reports, first, values);
    assert_true(values[0] == 0.75 && values[1] == 4);
    dt_total kept[2];
    memcpy(kept, dt_reports_totals(reports), sizeof kept);
    dt_reports_reset(reports);
    assert_int_equal(dt_reports_n_added(reports), 0);
    dt_reports_restore(reports, kept, 2);
    dt_reports_add(reports, second);
    dt_reports_evaluate(reports, NULL, values);
    assert_true(values[0] == 17.0 / 6 && values[1] == 6);
    dt_reports_destroy(reports);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_devices_gives_the_same_bits),
        cmocka_unit_test(central_storage_gives_the_same_bits),
        cmocka_unit_test(a_step_computes_what_its_kernels_say),
        cmocka_unit_test(blocks_without_rows_take_no_part),
        cmocka_unit_test(a_rerun_starts_from_variables_that_were_set),
        cmocka_unit_test(a_bad_index_is_counted_and_named),
        cmocka_unit_test(null_devices_run_steps_without_kernels),
        cmocka_unit_test(steps_cost_little_beside_their_kernels),
        cmocka_unit_test(what_cannot_be_run_is_refused_in_one_sentence),
        cmocka_unit_test(a_plan_that_does_not_fit_is_refused_before_it_starts),
        cmocka_unit_test(a_device_that_does_not_arrive_is_named_and_nobody_hangs),
        cmocka_unit_test(without_memory_no_session_is_created),
        cmocka_unit_test(an_example_function_runs_on_its_own),
        cmocka_unit_test(reports_are_the_programs_arithmetic_on_totals),
    };
    return cmocka_run_group_tests(tests, open_artifact, close_artifact);
}
