/* log: the lines of each event in both forms; the metric that a run watches. */
#include "base/memory.h"
#include "runtime/artifact/json_text.h"
#include "runtime/commands/print_log.h"
#include "runtime/log_lines.h"
#include "runtime/metric.h"
#include "runtime/threads/clock.h"
#include "tests/unit/scratch_folder.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <unistd.h>

static char written[8192];

static FILE *stream_of(char **data, size_t *n) {
    FILE *stream = open_memstream(data, n);
    assert_non_null(stream);
    return stream;
}

static dt_log *print_to(FILE *stream, dt_log_format format, dtrun_printer **printer) {
    dt_log *log;
    assert_ok(dt_log_create(&log));
    assert_ok(dtrun_printer_create(stream, format, true, log, printer));
    return log;
}

static void stop_printing(dt_log *log, dtrun_printer *printer) {
    dtrun_printer_destroy(printer);
    dt_log_destroy(log);
}

/* Every event once. */
static const char *all_events(dt_log_format format, double loss) {
    char *data;
    size_t n;
    FILE *stream = stream_of(&data, &n);
    dtrun_printer *printer;
    dt_log *log = print_to(stream, format, &printer);
    const char *devices[] = {"cpu:0", "cpu:1"}, *names[] = {"loss", "odd \"name\"", "steps"};
    const double values[] = {loss, 0.1, 0.5};
    dt_log_values reports = {.n = 3, .names = names, .values = values};
    dt_log_start start = {.program = "fashion_cnn",
                          .step = "train",
                          .level = "x86-64-v4",
                          .n_parameters = 106506,
                          .n_trainable = 106506,
                          .replicas = 2,
                          .global_batch = 128,
                          .n_examples = 60000,
                          .steps_per_epoch = 469,
                          .memory_bytes = 1 << 20,
                          .n_devices = 2,
                          .devices = devices};
    dt_log_epoch epoch = {.step = "train",
                          .epoch = 1,
                          .epochs = 5,
                          .steps = 469,
                          .n_steps = 469,
                          .examples = 60000,
                          .complete = true,
                          .seconds = 4,
                          .data_wait = 0.004};
    dt_log_started(log, &start);
    dt_log_stepped(log, &(dt_log_step){.number = 100, .epoch = 1, .examples_per_second = 512}, &reports);
    assert_false(dt_log_wants_progress(log)); /* no terminal */
    dt_log_epoch_done(log, &epoch, &reports);
    dt_log_checkpoint(log, "ck/step-469", 469, 0.0125);
    dt_log_written(log, "out/label.npy", DT_I64, 1, (int64_t[]){200});
    dt_log_ended(log, &(dt_log_end){.reason = "signal", .steps = 469, .epochs = 1, .seconds = 3725, .first_step_seconds = 0.4});
    stop_printing(log, printer);
    fclose(stream);
    snprintf(written, sizeof written, "%s", data);
    free(data);
    return written;
}

static void json_is_an_object_a_line(void **state) {
    (void)state;
    const char *const events[] = {"start", "step", "epoch", "checkpoint", "result", "end"};
    char *text = strdup(all_events(DT_LOG_JSON, NAN)), *rest = text, *line;
    for (int i = 0; i < 6; i++) {
        line = strsep(&rest, "\n");
        cJSON *object = cJSON_Parse(line);
        assert_non_null(object);
        assert_string_equal(cJSON_GetObjectItem(object, "event")->valuestring, events[i]);
        if (i == 1) assert_true(cJSON_IsNull(cJSON_GetObjectItem(object, "loss"))); /* JSON has no NaN */
        if (i == 2) assert_true(cJSON_GetObjectItemCaseSensitive(object, "odd \"name\"")->valuedouble == 0.1);
        if (i == 2) assert_true(cJSON_GetObjectItemCaseSensitive(object, "steps")->valuedouble == 469); /* its own */
        if (i == 2) assert_true(cJSON_GetObjectItemCaseSensitive(object, "report.steps")->valuedouble == 0.5);
        cJSON_Delete(object);
    }
    assert_string_equal(rest, "");
    free(text);
    assert_non_null(strstr(written, "{\"event\":\"step\",\"number\":100,\"epoch\":1,\"examples_per_second\":512.0,\"loss\":null,"));
    assert_non_null(strstr(written, "\"devices\":[\"cpu:0\",\"cpu:1\"],\"global_batch\":128,\"memory_bytes\":1048576"));
    assert_non_null(strstr(written, "{\"event\":\"checkpoint\",\"path\":\"ck/step-469\",\"number\":469,\"stall_seconds\":0.012500}\n"));
}

#define OTHER "\xef\xbf\xbd"

/* A path may be any bytes, JSON is UTF-8. */
static void json_is_unicode(void **state) {
    (void)state;
    static const struct {
        const char *path, *wanted;
    } cases[] = {
        {"h\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x98\x80", "\"h\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x98\x80\""},
        {"a\xff/\xe9", "\"a" OTHER "/" OTHER "\""},
        {"\xc0\x80 \xed\xa0\x80", "\"" OTHER OTHER " " OTHER OTHER OTHER "\""},
        {"\xf4\x90\x80\x80", "\"" OTHER OTHER OTHER OTHER "\""},
        {"\xe2\x82", "\"" OTHER OTHER "\""},
        {"tab\t\"quote\"\\", "\"tab\\u0009\\\"quote\\\"\\\\\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_text text = {0};
        dt_text_append_json_string(&text, cases[i].path);
        assert_string_equal(text.data, cases[i].wanted);
        dt_text_free(&text);
    }
}

static void text_is_for_people(void **state) {
    (void)state;
    const char *text = all_events(DT_LOG_TEXT, 0.25);
    assert_non_null(strstr(
        text, "fashion_cnn, step train: 106,506 parameters, 106,506 of them trained\n2 replicas on cpu:0 cpu:1 (x86-64-v4), global batch 128"));
    assert_non_null(strstr(text, "\nstep 100  loss 0.2500  "));
    assert_non_null(strstr(text, "\nepoch 1/5  train     469 steps  60,000 examples  4.00 s  data wait 0.4 %  loss 0.2500"));
    assert_non_null(strstr(text, "\nout/label.npy  i64[200]\n"));
    assert_non_null(strstr(text, "\ndone: 469 steps in 1:02:05, stopped by a signal\n"));
    assert_non_null(strstr(all_events(DT_LOG_TEXT, -NAN), "\nstep 100  loss nan  odd"));
}

/* An application makes events of its own, with whatever numbers and words. */
static void odd_numbers_and_words_are_still_lines(void **state) {
    (void)state;
    dt_log_epoch epoch = {.step = "train", .n_steps = INT64_MAX, .steps = 1, .examples = 1, .examples_per_second = 1e-300, .seconds = INFINITY};
    const double seconds_left[] = {-1e300, NAN, INFINITY, 1e300};
    for (size_t i = 0; i < sizeof seconds_left / sizeof *seconds_left; i++) {
        dt_text text = {0};
        dt_log_append_line(&(dt_log_event){.kind = DT_LOG_ENDED, .end = &(dt_log_end){.reason = "epochs", .seconds = seconds_left[i]}}, &text);
        assert_string_equal(text.data, i < 2 ? "done: 0 steps in 0:00" : "done: 0 steps in 277777:46:40");
        dt_text_free(&text);
    }
    dt_text text = {0};
    dt_log_append_progress(&epoch, &(dt_log_values){0}, &text);
    assert_non_null(strstr(text.data, "277777:46:40 left"));
    dt_text_free(&text);
    dt_text_append(&text, "{");
    dt_log_append_members(&(dt_log_event){.kind = DT_LOG_EPOCH_DONE, .epoch = &epoch}, &text);
    dt_text_append(&text, "}");
    assert_non_null(strstr(text.data, "\"seconds\":null,"));
    dt_text_free(&text);
    dt_log_append_members(&(dt_log_event){.kind = DT_LOG_REMARK, .remark = {.kind = "a\"b", .message = "c"}}, &text);
    assert_string_equal(text.data, "\"event\":\"a\\\"b\",\"message\":\"c\"");
    dt_text_free(&text);
}

/* The live line too: rate and time of a step, once there were two. */
static void reports_with_a_shape_have_brackets_and_tables(void **state) {
    (void)state;
    const char *names[] = {"loss"};
    const double values[] = {0.5, 0.25, NAN, 5421, 3, 0, 61, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    const int64_t three[] = {3}, pairs[] = {2, 2}, many[] = {13}, blocks[] = {2, 2, 1};
    const dtrt_report_array arrays[] = {
        {"recall", 1, three, values}, {"confusion", 2, pairs, values + 3}, {"bins", 1, many, values + 7}, {"blocks", 3, blocks, values + 7}};
    dt_log_values reports = {.n = 1, .names = names, .values = values, .n_arrays = 4, .arrays = arrays};
    dt_log_step step = {.number = 7};
    dt_log_epoch epoch = {.step = "check", .steps = 3, .n_steps = 3, .complete = true};
    dt_log_event stepped = {.kind = DT_LOG_STEPPED, .step = &step, .values = &reports},
                 done = {.kind = DT_LOG_EPOCH_DONE, .epoch = &epoch, .values = &reports};
    dt_text line = {0}, table = {0}, json = {0}, live = {0};
    dt_log_append_line(&stepped, &line);
    assert_string_equal(line.data, "step 7  loss 0.5000  recall [0.5000 0.2500 nan]  bins [1 2 3 4 5 6 7 8 … 13 in all]  blocks [2 × 2 × 1]");
    dt_log_append_line(&done, &table);
    assert_non_null(strstr(table.data, "[2 × 2 × 1]\nconfusion:\n  5421     3\n     0    61"));
    dt_log_append_progress(&epoch, &reports, &live);
    assert_null(strstr(live.data, "recall"));
    dt_log_append_members(&stepped, &json);
    assert_non_null(strstr(json.data, "\"recall\":[0.5,0.25,null],\"confusion\":[[5421.0,3.0],[0.0,61.0]]"));
    assert_non_null(strstr(json.data, "\"blocks\":[[[1.0],[2.0]],[[3.0],[4.0]]]"));
    dt_text_free(&line);
    dt_text_free(&table);
    dt_text_free(&json);
    dt_text_free(&live);
}

static void a_step_has_a_time(void **state) {
    (void)state;
    static const struct {
        double seconds_per_step;
        const char *wanted;
    } cases[] = {{0, "examples/s  data"}, {0.00123, "  1.23 ms/step  data"}, {0.0313, "  31.3 ms/step  data"}, {1.5, "  1500 ms/step  data"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *data;
        size_t n;
        FILE *stream = stream_of(&data, &n);
        dtrun_printer *printer;
        dt_log *log = print_to(stream, DT_LOG_TEXT, &printer);
        dt_log_epoch epoch = {.step = "train",
                              .epoch = 1,
                              .epochs = 5,
                              .steps = 2,
                              .n_steps = 4,
                              .examples = 64,
                              .examples_per_second = 1022.4,
                              .seconds_per_step = cases[i].seconds_per_step};
        dt_log_values none = {0};
        dt_log_epoch_done(log, &epoch, &none);
        stop_printing(log, printer);
        fclose(stream);
        assert_non_null(strstr(data, "  1,022 examples/s"));
        assert_non_null(strstr(data, cases[i].wanted));
        free(data);
        dt_text live = {0};
        dt_log_append_progress(&epoch, &none, &live);
        assert_true(i == 0 || strstr(live.data, "/step  0:00 left") != NULL);
        dt_text_free(&live);
    }
}

/* Nothing fails but the question. */
static void what_is_not_written_is_known(void **state) {
    (void)state;
    dtrun_printer *printer;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    dt_log *log = print_to(full, DT_LOG_JSON, &printer);
    assert_false(dt_log_failed(log));
    assert_ok(dt_log_status(log));
    dt_log_checkpoint(log, "ck/step-1", 1, 0);
    assert_true(dt_log_failed(log));
    dt_log_checkpoint(log, "ck/step-2", 2, 0);
    assert_fails(dt_log_status(log), DT_IO, "cannot write to standard output: No space left on device");
    stop_printing(log, printer);
    fclose(full);
}

/* Of all processes but one. */
static void a_log_without_a_printer_says_nothing(void **state) {
    (void)state;
    dt_log *log;
    FILE *said = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_true(said != NULL && before >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    assert_ok(dt_log_create(&log));
    dt_log_checkpoint(log, "ck/step-1", 1, 0);
    dt_log_remark(log, "note", "one of several");
    assert_false(dt_log_wants_progress(log));
    assert_ok(dt_log_status(log));
    dt_log_destroy(log);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_int_equal(fseek(said, 0, SEEK_END), 0);
    assert_int_equal(ftell(said), 0);
    fclose(said);
}

static const char *const train_reports[] = {"loss", "accuracy"}, *const evaluate_reports[] = {"accuracy", "loss"};
static const char *const check_reports[] = {"recall", "f1"};
static const int64_t numbers[] = {0, 1, 2}, check_numbers[] = {0, 10, 11};
static const dt_artifact_step steps[] = {{.name = "train", .n_reports = 2, .reports = train_reports, .report_starts = numbers},
                                         {.name = "evaluate", .n_reports = 2, .reports = evaluate_reports, .report_starts = numbers},
                                         {.name = "check", .n_reports = 2, .reports = check_reports, .report_starts = check_numbers}};
static const dt_artifact artifact = {.n_steps = 3, .steps = steps};
static const int evaluate_first[] = {1, 0}, all_steps[] = {2, 1, 0};

static void assert_metric(const char *text, bool wanted, int evaluate, const char *name, bool smaller_is_better) {
    dt_metric metric;
    assert_ok(dt_metric_find(&artifact, evaluate < 0 ? evaluate_first + 1 : evaluate_first, evaluate < 0 ? 1 : 2, text, wanted, &metric));
    if (name == NULL)
        assert_null(metric.name);
    else {
        assert_string_equal(metric.name, name);
        assert_int_equal(metric.smaller_is_better, smaller_is_better);
        assert_string_equal(steps[metric.step].reports[metric.value], strchr(name, '.') + 1);
    }
    dt_metric_free(&metric);
}

static void a_metric_is_one_number_of_a_report(void **state) {
    (void)state;
    dt_metric metric;
    assert_ok(dt_metric_find(&artifact, all_steps, 3, "check.recall[7]", false, &metric));
    assert_string_equal(metric.name, "check.recall[7]");
    assert_int_equal(metric.value, 7);
    dt_metric_free(&metric);
    assert_ok(dt_metric_find(&artifact, all_steps, 3, NULL, true, &metric)); /* the first that is one number */
    assert_string_equal(metric.name, "check.f1");
    assert_int_equal(metric.value, 10);
    dt_metric_free(&metric);
    assert_fails(dt_metric_find(&artifact, all_steps, 3, "check.recall", false, &metric), DT_INVALID_ARGUMENT,
                 "check.recall has 10 numbers: name one of them, as in check.recall[0]");
    assert_fails(dt_metric_find(&artifact, all_steps, 1, "check.recall[10]", false, &metric), DT_NOT_FOUND,
                 "check.recall[10] is no report of this run; there are: check.recall[0 to 9], check.f1");
    assert_fails(dt_metric_find(&artifact, all_steps, 1, "check.recall[1", false, &metric), DT_NOT_FOUND, "is no report");
    assert_fails(dt_metric_find(&artifact, all_steps, 1, "check.recall1]", false, &metric), DT_NOT_FOUND, "is no report");
}

static void a_metric_is_found_by_name(void **state) {
    (void)state;
    assert_metric(NULL, false, 1, NULL, false);
    assert_metric(NULL, true, 1, "evaluate.accuracy", false);
    assert_metric(NULL, true, -1, "train.loss", true);
    assert_metric("evaluate.loss", false, 1, "evaluate.loss", true);
    assert_metric("train.accuracy", false, 1, "train.accuracy", false);
    assert_metric("min:evaluate.accuracy", false, 1, "evaluate.accuracy", true);
    assert_metric("max:train.loss", false, 1, "train.loss", false);
    dt_metric metric;
    assert_fails(dt_metric_find(&artifact, evaluate_first, 2, "evaluate.f1", false, &metric), DT_NOT_FOUND,
                 "evaluate.f1 is no report of this run; there are: evaluate.accuracy, evaluate.loss, train.loss, train.accuracy");
    assert_fails(dt_metric_find(&artifact, evaluate_first + 1, 1, "evaluate.loss", false, &metric), DT_NOT_FOUND,
                 "there are: train.loss, train.accuracy");
    dt_memory_fail_after(0);
    dt_status *status = dt_metric_find(&artifact, evaluate_first, 2, "train.loss", false, &metric);
    dt_memory_fail_after(-1);
    assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
}

static void better_is_better(void **state) {
    (void)state;
    dt_metric larger = {0}, smaller = {.smaller_is_better = true};
    assert_true(dt_metric_is_better(&larger, 2, 1) && !dt_metric_is_better(&larger, 1, 1) && !dt_metric_is_better(&larger, 0, 1));
    assert_true(dt_metric_is_better(&smaller, 0, 1) && !dt_metric_is_better(&smaller, 1, 1));
    assert_true(dt_metric_is_better(&larger, 0, NAN) && !dt_metric_is_better(&larger, NAN, 0) && !dt_metric_is_better(&larger, NAN, NAN));
}

static void clocks_go_forward(void **state) {
    (void)state;
    double a = dt_seconds_now(), since = dt_seconds_since_exec();
    assert_true(dt_seconds_now() >= a);
    assert_true(since >= -0.02 && since < 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_an_object_a_line),
        cmocka_unit_test(json_is_unicode),
        cmocka_unit_test(text_is_for_people),
        cmocka_unit_test(odd_numbers_and_words_are_still_lines),
        cmocka_unit_test(reports_with_a_shape_have_brackets_and_tables),
        cmocka_unit_test(a_step_has_a_time),
        cmocka_unit_test(what_is_not_written_is_known),
        cmocka_unit_test(a_log_without_a_printer_says_nothing),
        cmocka_unit_test(a_metric_is_found_by_name),
        cmocka_unit_test(a_metric_is_one_number_of_a_report),
        cmocka_unit_test(better_is_better),
        cmocka_unit_test(clocks_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
