/* dtrt_commands: what dtrun's commands make, a program makes by include/dtrt.h: the same text, the same files. */
#include "base/memory.h"
#include "tests/unit/dtrt_data_fixture.h"

#include <math.h>

/* Repeats what stood five bytes before; and draws letters, some of them more often where it is warmer. */
static const char letters_program[] = "step sample(text: u8[B, 8], length: i32[B]) {\n"
                                      "    return next: gather(text, length - 5, axis: 1)\n"
                                      "}\n"
                                      "model Letters(token: i32[B]) -> f32[B, 256] {\n"
                                      "    param table: f32[256, 256] = normal(stddev: 2)\n"
                                      "    return table[token]\n"
                                      "}\n"
                                      "step draw(text: u8[B, 4], length: i32[B], temperature: f32[B]) {\n"
                                      "    logits = Letters(i32(gather(text, length - 1, axis: 1)))\n"
                                      "    return next: u8(sample_categorical(logits, temperature[:, newaxis]))\n"
                                      "}\n";

/* What a command prints; the caller frees it. */
static char *printed(const char *format, ...) {
    char command[1024], *text = calloc(1, 1 << 20);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_true(fread(text, 1, (1 << 20) - 1, output) > 0);
    assert_int_equal(pclose(output), 0);
    return text;
}

static void info_and_devices_are_those_of_dtrun(void **state) {
    (void)state;
    char *text, *wanted = printed("dtrun info %s", scratch_path("net.dtx"));
    assert_ok(dtrt_info(net, NULL, &text));
    assert_string_equal(text, wanted);
    dtrt_free(text), free(wanted);
    wanted = printed("dtrun info %s --processes 3 --replicas 4 --shard-optimizer", scratch_path("net.dtx"));
    dtrt_info_options options = {.size = sizeof options, .n_processes = 3, .replicas = 4, .shard_optimizer = 1};
    assert_ok(dtrt_info(net, &options, &text));
    assert_string_equal(text, wanted);
    dtrt_free(text), free(wanted);
    options.n_processes = 5000000000;
    assert_fails(dtrt_info(net, &options, &text), DT_INVALID_ARGUMENT, "5000000000 processes");
    assert_null(text);
    options.n_processes = -1;
    assert_fails(dtrt_info(net, &options, &text), DT_INVALID_ARGUMENT, "-1 processes");
    assert_ok(dtrt_devices(&text));
    assert_non_null(strstr(text, "--devices cpu"));
    dtrt_free(text);
    assert_fails(dtrt_program_text(net, "plan.doc", &text), DT_NOT_FOUND, "there are program.dt");
}

static void bench_says_where_time_goes(void **state) {
    (void)state;
    char *text;
    dtrt_bench_options options = {.size = sizeof options, .n_steps = 3, .versus = net};
    dtrt_session_options shape = {.size = sizeof shape, .replicas = 2};
    assert_ok(dtrt_bench(net, &shape, &options, &text));
    assert_non_null(strstr(text, "a step: "));
    assert_non_null(strstr(text, "2 replicas"));
    assert_non_null(strstr(text, "medians of steps run in turn"));
    dtrt_free(text);
    options = (dtrt_bench_options){.size = sizeof options, .step = "evaluate", .n_steps = 2, .format = DTRT_JSON};
    shape = with_data();
    assert_ok(dtrt_bench(net, &shape, &options, &text));
    assert_non_null(strstr(text, "\"step\": \"evaluate\""));
    assert_non_null(strstr(text, "\"steps\": 2.0,"));
    dtrt_free(text);
    options.step = "trian";
    assert_fails(dtrt_bench(net, NULL, &options, &text), DT_NOT_FOUND, "trian");
    assert_null(text);
    options.n_steps = -1;
    assert_fails(dtrt_bench(net, NULL, &options, &text), DT_INVALID_ARGUMENT, "-1 steps");
}

typedef struct heard_bytes {
    char text[300];
    size_t n;
    size_t stop_at;
} heard_bytes;

static int hear_bytes(void *context, dtrt_session *session, const char *bytes, size_t n_bytes) {
    heard_bytes *all = context;
    assert_fails(dtrt_generate(session, NULL, NULL, NULL), DT_FAILED_PRECONDITION, "callback");
    memcpy(all->text + all->n, bytes, n_bytes);
    all->n += n_bytes;
    return all->n >= all->stop_at;
}

static void text_is_generated_as_dtrun_does(void **state) {
    (void)state;
    dtrt_program *letters;
    dtrt_session *session;
    char *text, *wanted;
    size_t n;
    scratch_write("letters.dt", letters_program, strlen(letters_program));
    free(printed("dtc compile %s -o %s --cpu x86-64-v3 2>&1 && echo compiled", scratch_path("letters.dt"), scratch_path("letters.dtx")));
    assert_ok(dtrt_open(scratch_path("letters.dtx"), NULL, &letters));
    dtrt_session_options options = {.size = sizeof options, .seed = 3, .replicas = 2};
    assert_ok(dtrt_session_create(letters, &options, &session));
    assert_ok(dtrt_initialize(session));
    heard_bytes heard = {.stop_at = 17};
    dtrt_generate_options make = {.size = sizeof make, .prompt = "hello", .made = hear_bytes, .context = &heard};
    assert_ok(dtrt_generate(session, &make, &text, &n));
    assert_string_equal(text, "hellohellohellohe");
    assert_int_equal(n, 17);
    assert_memory_equal(heard.text, text, n);
    dtrt_free(text);

    make = (dtrt_generate_options){.size = sizeof make, .step = "draw", .prompt = "a", .length = 40, .has_temperature = 1, .temperature = 0.5};
    assert_ok(dtrt_save(session, scratch_path("letters"), NULL));
    wanted = printed("dtrun generate %s --step draw --prompt a --length 40 --temperature 0.5 --seed 3 --checkpoint-dir %s",
                     scratch_path("letters.dtx"), scratch_path("letters"));
    assert_ok(dtrt_generate(session, &make, &text, &n));
    assert_int_equal(n, 41);
    assert_memory_equal(text, wanted, n);
    dtrt_free(text), free(wanted);

    make.step = NULL;
    assert_fails(dtrt_generate(session, &make, &text, &n), DT_INVALID_ARGUMENT, "takes no temperature");
    assert_null(text);
    make.temperature = NAN;
    assert_fails(dtrt_generate(session, &make, NULL, NULL), DT_INVALID_ARGUMENT, "temperature");
    make.prompt = "";
    assert_fails(dtrt_generate(session, &make, NULL, NULL), DT_INVALID_ARGUMENT, "empty");
    assert_fails(dtrt_generate(session, NULL, NULL, NULL), DT_INVALID_ARGUMENT, "prompt is NULL");
    destroy(session);
    dtrt_close(letters);
}

static void data_are_written_as_dtrun_does(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    dtrt_data_options options = {.size = sizeof options, .epoch = 2, .n_batches = 3, .output = scratch_path("batches")};
    assert_ok(dtrt_write_data(session, &options));
    char command[512];
    snprintf(command, sizeof command, "data %s --epoch 2 --batches 3 --output %s", scratch_path("net.dtx"), scratch_path("of-dtrun"));
    dtrun(command);
    assert_same_files("batches/x.npy", "of-dtrun/x.npy");
    assert_same_files("batches/label.npy", "of-dtrun/label.npy");
    assert_same_files("batches/batch-rows.npy", "of-dtrun/batch-rows.npy");
    options.output = NULL;
    assert_fails(dtrt_write_data(session, &options), DT_INVALID_ARGUMENT, "output is NULL");
    destroy(session);
}

/* How often `part` stands in a file. */
static int count(const char *name, const char *part) {
    size_t bytes;
    char *text = read_scratch(name, &bytes);
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) n++;
    free(text);
    return n;
}

static void a_log_folder_is_written_and_reported(void **state) {
    (void)state;
    dtrt_session_options options = with_data();
    options.measure_kernels = 1;
    dtrt_session *session = net_session(&options), *other = open_session();
    dtrt_train_options train = {
        .size = sizeof train, .epochs = 2, .pause_after_epochs = 1, .log_every = 2, .log_dir = scratch_path("logs"), .log_histograms = 1};
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    assert_ok(dtrt_train(session, &train, &result));
    assert_string_equal(result.reason, "pause");
    assert_ok(dtrt_train(session, &train, &result)); /* goes on there */
    assert_int_equal(count("logs/run.jsonl", "\"event\":\"epoch\""), 4);
    assert_int_equal(count("logs/run.jsonl", "\"event\":\"step\""), 4);
    assert_true(count("logs/run.jsonl", "\"event\":\"times\"") > 0);
    assert_fails(dtrt_train(other, &train, NULL), DT_ALREADY_EXISTS, "logs");
    assert_ok(dtrt_write_report((const char *[]){scratch_path("logs")}, 1, scratch_path("report.html")));
    free(printed("dtrun report %s -o %s && echo made", scratch_path("logs"), scratch_path("report-of-dtrun.html")));
    assert_same_files("report.html", "report-of-dtrun.html");
    assert_fails(dtrt_write_report((const char *[]){scratch_path("nothing")}, 1, scratch_path("none.html")), DT_NOT_FOUND, "nothing");
    assert_fails(dtrt_write_report((const char *[]){NULL}, 1, scratch_path("none.html")), DT_INVALID_ARGUMENT, "folders[i] is NULL");
    train.log_dir = NULL;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "log_histograms");
    destroy(session), destroy(other);
}

static void the_first_infinity_is_traced_to_its_kernel(void **state) {
    (void)state;
    dtrt_session_options options = with_data();
    options.check_numerics = 1;
    dtrt_session *checked = net_session(&options), *session = open_session();
    assert_ok(dtrt_train(checked, NULL, NULL));
    assert_ok(dtrt_train(session, NULL, NULL));
    net_assert_same(checked, session);
    static const int64_t dims[] = {NET_IN, 5};
    float kernel[NET_IN][5];
    for (int i = 0; i < NET_IN; i++)
        for (int u = 0; u < 5; u++) kernel[i][u] = 3e38f;
    dtrt_array array = {kernel, DTRT_F32, 2, dims, NULL};
    assert_ok(dtrt_write(checked, dtrt_find_variable(net, "Net/dense/kernel"), &array));
    assert_fails(dtrt_train(checked, NULL, NULL), DT_OUT_OF_RANGE, "net.dt:6");
    options.devices = "null:1";
    dtrt_session *none;
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "what a CPU computes");
    destroy(checked), destroy(session);
}

static void a_timeline_has_the_newest_steps(void **state) {
    (void)state;
    dtrt_session_options options = with_data();
    options.timeline_steps = 3;
    dtrt_session *session = net_session(&options), *plain = open_session();
    dtrt_pipeline *rows;
    assert_ok(dtrt_train(session, NULL, NULL));
    assert_ok(dtrt_train(plain, NULL, NULL));
    net_assert_same(session, plain);
    assert_ok(dtrt_pipeline_open(session, "rows", &rows));
    assert_ok(dtrt_step_pipeline(session, net_train, rows, NULL));
    assert_fails(dtrt_write_timeline(session, scratch_path("timeline.json")), DT_FAILED_PRECONDITION, "close it");
    assert_ok(dtrt_pipeline_close(rows));
    assert_ok(dtrt_write_timeline(session, scratch_path("timeline.json")));
    assert_true(count("timeline.json", "\"cat\":\"step\"") >= 3);
    assert_fails(dtrt_write_timeline(session, scratch_path("none/timeline.json")), DT_NOT_FOUND, "none");
    assert_fails(dtrt_write_timeline(plain, scratch_path("other.json")), DT_FAILED_PRECONDITION, "keeps no timeline");
    options.timeline_steps = -1;
    dtrt_session *none;
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "timeline_steps");
    destroy(session), destroy(plain);
}

static void weights_are_exported_as_dtrun_does(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    char *path, *text, *warnings;
    static const char map[] = "first.weight -> Net/dense/kernel\n";
    assert_ok(dtrt_save(session, scratch_path("weights"), &path));
    scratch_write("map.txt", map, strlen(map));
    dtrt_weights_options options = {.size = sizeof options, .map = scratch_path("map.txt"), .allow_missing = 1};
    assert_ok(dtrt_export_weights(path, scratch_path("theirs.safetensors"), &options, &text, &warnings));
    char *wanted =
        printed("dtrun export %s --map %s --allow-missing -o %s", path, scratch_path("map.txt"), scratch_path("theirs-of-dtrun.safetensors"));
    assert_same_files("theirs.safetensors", "theirs-of-dtrun.safetensors");
    assert_non_null(strstr(wanted, text));
    dtrt_free(text), dtrt_free(warnings), free(wanted);
    options.allow_missing = 0;
    options.map = scratch_path("no-map.txt");
    assert_fails(dtrt_export_weights(path, scratch_path("none.safetensors"), &options, &text, NULL), DT_NOT_FOUND, "no-map");
    assert_null(text);
    dtrt_free(path);
    destroy(session);
}

/* ---- without memory ---- */

static dtrt_session *no_memory_session; /* with a timeline */

static dt_status *say_info(void) {
    char *text;
    dtrt_info_options options = {.size = sizeof options, .n_processes = 3, .replicas = 4};
    dt_status *status = dtrt_info(net, NULL, &text);
    dtrt_free(text);
    if (status == NULL) status = dtrt_info(net, &options, &text);
    dtrt_free(text);
    return status;
}

static dt_status *write_data(void) {
    dtrt_data_options options = {.size = sizeof options, .n_batches = 1, .output = scratch_path("no-memory-data")};
    return dtrt_write_data(no_memory_session, &options);
}

static dt_status *write_timeline(void) { return dtrt_write_timeline(no_memory_session, scratch_path("no-memory.json")); }

static dt_status *write_report(void) {
    return dtrt_write_report((const char *[]){scratch_path("no-memory-logs")}, 1, scratch_path("no-memory.html"));
}

static dt_status *export_weights(void) {
    char *text, *warnings;
    dt_status *status = dtrt_export_weights(scratch_path("no-memory/step-4"), scratch_path("no-memory.safetensors"), NULL, &text, &warnings);
    dtrt_free(text), dtrt_free(warnings);
    return status;
}

static dt_status *run_bench(void) {
    char *text;
    dtrt_bench_options options = {.size = sizeof options, .step = "predict", .n_steps = 1, .versus = net};
    dtrt_session_options shape = {.size = sizeof shape, .devices = "cpu:1x1"};
    dt_status *status = dtrt_bench(net, &shape, &options, &text);
    dtrt_free(text);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    dt_status *(*const calls[])(void) = {say_info, write_data, write_timeline, write_report, export_weights, run_bench};
    dtrt_session_options options = with_data();
    options.timeline_steps = 2;
    no_memory_session = net_session(&options);
    dtrt_train_options train = {.size = sizeof train, .log_dir = scratch_path("no-memory-logs")};
    assert_ok(dtrt_train(no_memory_session, &train, NULL));
    assert_ok(dtrt_save(no_memory_session, scratch_path("no-memory"), NULL));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int n = 0;
        for (bool done = false; !done; n += n < 20 ? 1 : n / 2) {
            dt_memory_fail_after(n);
            dt_status *status = calls[c]();
            dt_memory_fail_after(-1);
            done = status == NULL;
            if (!done && status->code != DT_RESOURCE_EXHAUSTED) fail_msg("call %zu, allocation %d: %s", c, n, status->message);
            dtrt_status_free(status);
        }
        if (n < 2) fail_msg("call %zu allocates nothing", c);
    }
    destroy(no_memory_session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_and_devices_are_those_of_dtrun),
        cmocka_unit_test(bench_says_where_time_goes),
        cmocka_unit_test(text_is_generated_as_dtrun_does),
        cmocka_unit_test(data_are_written_as_dtrun_does),
        cmocka_unit_test(a_log_folder_is_written_and_reported),
        cmocka_unit_test(the_first_infinity_is_traced_to_its_kernel),
        cmocka_unit_test(a_timeline_has_the_newest_steps),
        cmocka_unit_test(weights_are_exported_as_dtrun_does),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_all, net_close);
}
