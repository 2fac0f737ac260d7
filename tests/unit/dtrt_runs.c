/* dtrt_runs: pipelines, checkpoints and whole runs of include/dtrt.h. What dtrun does and what an application's own loop does are the same bits. */
#include "base/memory.h"
#include "tests/unit/dtrt_data_fixture.h"

#include <math.h>

/* The first batches of an epoch, one by one; launch values as dtrun has them. */
static void step_epochs(dtrt_session *session, int n) {
    dtrt_pipeline *rows;
    assert_ok(dtrt_pipeline_open(session, "rows", &rows));
    assert_ok(dtrt_set_launch(session, "epochs", n));
    assert_ok(dtrt_set_launch(session, "steps_per_epoch", 4));
    for (int e = 0; e < n; e++)
        for (int64_t given = 1; given != 0;) assert_ok(dtrt_step_pipeline(session, net_train, rows, &given));
    assert_ok(dtrt_pipeline_close(rows));
}

static void an_own_loop_gives_the_checkpoint_of_dtrun(void **state) {
    (void)state;
    char command[512], *path;
    snprintf(command, sizeof command, "train %s --epochs 2 --checkpoint-dir %s", scratch_path("net.dtx"), scratch_path("dtrun"));
    dtrun(command);
    dtrt_session *session = open_session();
    step_epochs(session, 2);
    assert_ok(dtrt_save(session, scratch_path("own"), &path));
    assert_string_equal(path, scratch_path("own/step-8"));
    dtrt_free(path);
    assert_same_files("dtrun/step-8/model.safetensors", "own/step-8/model.safetensors");
    assert_same_files("dtrun/step-8/optimizer.safetensors", "own/step-8/optimizer.safetensors");
    destroy(session);
}

typedef struct heard {
    int kinds[DTRT_EVENT_END + 1];
    int stop_at; /* the kind that is answered by a stop; -1: none */
    char last[400], json[400], remark[400];
} heard;

static int hear(void *context, dtrt_session *session, const dtrt_event *event) {
    heard *all = context;
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    char *text, *json;
    assert_ok(dtrt_session_describe(session, &info));
    assert_fails(dtrt_train(session, NULL, NULL), DT_FAILED_PRECONDITION, "callback");
    all->kinds[event->kind]++;
    assert_ok(dtrt_event_text(event, DTRT_TEXT, &text));
    assert_ok(dtrt_event_text(event, DTRT_JSON, &json));
    snprintf(all->last, sizeof all->last, "%s", text);
    snprintf(all->json, sizeof all->json, "%s", json);
    dtrt_free(text), dtrt_free(json);
    if (event->kind == DTRT_EVENT_REMARK) snprintf(all->remark, sizeof all->remark, "%s", event->text);
    return (int)event->kind == all->stop_at;
}

static void training_on_a_session_is_dtruns_and_may_be_paused(void **state) {
    (void)state;
    heard all = {.stop_at = -1};
    dtrt_session_options options = with_data();
    options.event = hear;
    options.context = &all;
    dtrt_session *whole = net_session(&options), *paused = open_session(), *own = open_session();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    train.epochs = 3;
    train.log_every = 2;
    assert_ok(dtrt_train(whole, &train, &result));
    assert_int_equal(result.n_steps, 12);
    assert_string_equal(result.reason, "epochs");
    assert_int_equal(all.kinds[DTRT_EVENT_START], 1);
    assert_int_equal(all.kinds[DTRT_EVENT_STEP], 6);
    assert_int_equal(all.kinds[DTRT_EVENT_EPOCH], 6); /* evaluation too */
    assert_int_equal(all.kinds[DTRT_EVENT_END], 1);
    assert_non_null(strstr(all.last, "done: 12 steps"));
    assert_non_null(strstr(all.json, "\"event\":\"end\",\"reason\":\"epochs\""));

    train.pause_after_epochs = 1;
    for (int e = 1; e <= 3; e++) {
        assert_ok(dtrt_train(paused, &train, &result));
        assert_int_equal(result.n_epochs, 1);
        assert_string_equal(result.reason, e < 3 ? "pause" : "epochs");
        double of_whole, of_paused;
        assert_ok(dtrt_total(paused, dtrt_find_step(net, "evaluate"), "accuracy", &of_paused));
        assert_ok(dtrt_total(whole, dtrt_find_step(net, "evaluate"), "accuracy", &of_whole));
        if (e == 3) assert_true(of_paused == of_whole);
    }
    step_epochs(own, 3);
    net_assert_same(whole, paused);
    net_assert_same(whole, own);
    destroy(whole), destroy(paused), destroy(own);
}

static void a_callback_stops_training_which_goes_on_from_its_checkpoint(void **state) {
    (void)state;
    heard all = {.stop_at = DTRT_EVENT_STEP};
    dtrt_session_options options = with_data();
    options.event = hear;
    options.context = &all;
    dtrt_session *stopped = net_session(&options), *other = open_session(), *idle = net_session(&options), *whole = open_session();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    train.epochs = 2;
    train.log_every = 3;
    train.checkpoint_dir = scratch_path("stopped");
    assert_ok(dtrt_train(stopped, &train, &result));
    assert_true(result.stopped);
    assert_int_equal(result.n_steps, 3);
    assert_string_equal(result.reason, "stopped");
    train.resume = 1;
    assert_ok(dtrt_train(other, &train, &result));
    assert_int_equal(result.n_steps, 5);
    all.stop_at = -1;
    assert_ok(dtrt_train(idle, &train, &result));
    assert_int_equal(result.n_steps, 0);
    assert_string_equal(all.remark, "nothing is left to do: 2 epochs are done; `epochs` asks for more");
    train = (dtrt_train_options){.size = sizeof train, .epochs = 2};
    assert_ok(dtrt_train(whole, &train, NULL));
    net_assert_same(whole, other);
    assert_ok(dtrt_train(stopped, &train, NULL)); /* the session itself goes on too */
    net_assert_same(whole, stopped);
    destroy(stopped), destroy(other), destroy(idle), destroy(whole);
}

static void a_session_goes_on_beside_its_own_checkpoints(void **state) {
    (void)state;
    dtrt_session *first = open_session(), *second = open_session();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    train.epochs = 1;
    train.checkpoint_dir = scratch_path("past");
    assert_ok(dtrt_train(first, &train, NULL));
    assert_fails(dtrt_train(second, &train, NULL), DT_ALREADY_EXISTS, "step-4");
    train.epochs = 2;
    assert_ok(dtrt_train(first, &train, NULL));
    assert_ok(dtrt_load(second, scratch_path("past/step-4")));
    train.epochs = 3;
    assert_fails(dtrt_train(second, &train, NULL), DT_ALREADY_EXISTS, "step-8");
    destroy(first), destroy(second);
}

static void a_step_that_was_trained_takes_arrays_too(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    assert_ok(dtrt_train(session, NULL, NULL));
    void *input;
    assert_ok(dtrt_step_buffer(session, net_train, 0, &input, NULL));
    assert_ok(dtrt_step(session, net_train, NULL, 0));
    destroy(session);
}

/* The second of its two lists cannot be had; training then makes the step's runner. */
static void a_step_whose_memory_was_out_takes_arrays_later(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    net_batch batch = net_make(0);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    dt_memory_fail_once(1);
    assert_fails(dtrt_step(session, net_train, arrays, 0), DT_RESOURCE_EXHAUSTED, "memory");
    assert_ok(dtrt_train(session, NULL, NULL));
    assert_ok(dtrt_step(session, net_train, NULL, 0));
    destroy(session);
}

/* A result that cannot be given is no reason to have run for hours. */
static void a_result_without_size_is_refused_before_the_run(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    dtrt_run_result result = {0};
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    assert_fails(dtrt_train(session, NULL, &result), DT_INVALID_ARGUMENT, "dtrt_run_result has no size");
    assert_ok(dtrt_session_describe(session, &info));
    assert_int_equal(info.n_steps, 0);
    destroy(session);
}

static void what_is_loaded_goes_on_where_it_was_saved(void **state) {
    (void)state;
    dtrt_session *first = open_session(), *second = open_session();
    dtrt_pipeline *rows, *again;
    int64_t n;
    assert_ok(dtrt_pipeline_open(first, "rows", &rows));
    for (int i = 0; i < 6; i++) assert_ok(dtrt_step_pipeline(first, net_train, rows, &n)); /* the fifth is the end of the epoch */
    assert_ok(dtrt_save(first, scratch_path("mid"), NULL));
    dtrt_checkpoint_info info = DTRT_INIT(dtrt_checkpoint_info);
    assert_ok(dtrt_checkpoint_describe(scratch_path("mid"), &info));
    assert_int_equal(info.step, 5);
    assert_int_equal(info.epoch, 1);
    assert_int_equal(info.examples, NET_ROWS);
    assert_int_equal(info.seed, 7);
    assert_ok(dtrt_load(second, scratch_path("mid")));
    net_assert_same(first, second);
    dtrt_session_info where = DTRT_INIT(dtrt_session_info);
    assert_ok(dtrt_session_describe(second, &where));
    assert_int_equal(where.n_steps, 5);
    assert_ok(dtrt_pipeline_open(second, "rows", &again));
    assert_ok(dtrt_pipeline_seek(again, where.epoch, where.examples));
    double loss[2][2];
    for (int i = 0; i < 3; i++) {
        assert_ok(dtrt_step_pipeline(first, net_train, rows, &n));
        assert_ok(dtrt_step_pipeline(second, net_train, again, &n));
    }
    assert_ok(dtrt_totals(first, net_train, loss[0]));
    assert_ok(dtrt_totals(second, net_train, loss[1]));
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    net_assert_same(first, second);

    dtrt_session_options options = with_data();
    options.forward_only = 1;
    dtrt_session *forward;
    assert_ok(dtrt_session_create(net, &options, &forward));
    assert_ok(dtrt_load(forward, scratch_path("mid/step-5")));
    assert_fails(dtrt_save(forward, scratch_path("none"), NULL), DT_FAILED_PRECONDITION, "forward-only");
    assert_fails(dtrt_load(second, scratch_path("nowhere")), DT_NOT_FOUND, "nowhere");
    assert_fails(dtrt_session_destroy(second), DT_FAILED_PRECONDITION, "pipeline");
    assert_ok(dtrt_pipeline_close(rows)), assert_ok(dtrt_pipeline_close(again));
    destroy(first), destroy(second), destroy(forward);
}

static void train_to_the_end(dtrt_session *session, int epochs) {
    dtrt_train_options train = {.size = sizeof train, .epochs = epochs};
    assert_ok(dtrt_train(session, &train, NULL));
}

typedef struct interrupted {
    const char *folder; /* of checkpoints, which is taken away */
    double loss;        /* of the epoch that trained */
} interrupted;

static int take_folder_away(void *context, dtrt_session *session, const dtrt_event *event) {
    interrupted *all = context;
    (void)session;
    if (event->kind == DTRT_EVENT_STEP && event->number == 1 && all->folder != NULL) {
        assert_ok(dt_file_remove_tree(all->folder));
        scratch_write("broken", "", 0); /* a file where the folder was: nothing can be written below it */
    }
    if (event->kind == DTRT_EVENT_EPOCH && event->trains) all->loss = event->values[0];
    return 0;
}

static void a_training_that_failed_in_mid_epoch_is_saved_whole(void **state) {
    (void)state;
    interrupted failing = {.folder = scratch_path("broken")}, undisturbed = {0};
    dtrt_session_options options = with_data();
    options.event = take_folder_away;
    options.context = &failing;
    dtrt_session *failed = net_session(&options);
    options.context = &undisturbed;
    dtrt_session *whole = net_session(&options), *loaded = net_session(&options);
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    dtrt_train_options train = {.size = sizeof train, .checkpoint_dir = failing.folder, .checkpoint_every = 1, .log_every = 1};
    dt_status *status = dtrt_train(failed, &train, NULL);
    assert_non_null(status);
    dtrt_status_free(status);
    assert_ok(dtrt_session_describe(failed, &info));
    assert_int_equal(info.n_steps, 2); /* before the second checkpoint is begun, the first one's failure is known */
    assert_int_equal(info.examples, info.n_steps * NET_ROWS);
    train_to_the_end(whole, 1);
    double loss = undisturbed.loss;
    assert_ok(dtrt_save(failed, scratch_path("saved-after"), NULL));
    assert_ok(dtrt_load(loaded, scratch_path("saved-after")));
    undisturbed.loss = 0;
    train_to_the_end(loaded, 1);
    assert_true(undisturbed.loss == loss); /* totals of before and after the failure */
    net_assert_same(whole, loaded);
    failing.folder = NULL;
    train_to_the_end(failed, 1); /* the session itself goes on too */
    assert_true(failing.loss == loss);
    net_assert_same(whole, failed);
    destroy(failed), destroy(whole), destroy(loaded);
    assert_int_equal(remove(scratch_path("broken")), 0);
}

/* The step has run: going on must not run it again. */
static void a_step_whose_label_is_out_of_range_counts(void **state) {
    (void)state;
    dtrt_session_options options = with_data();
    dtrt_session *strict = net_session(&options), *loaded;
    options.ignore_bad_index = 1;
    dtrt_session *ignoring = net_session(&options);
    loaded = net_session(&options);
    int32_t label[N_EXAMPLES], wrong = 77;
    size_t bytes;
    char *file = read_scratch("label.npy", &bytes);
    memcpy(label, file + bytes - sizeof label, sizeof label);
    memcpy(file + bytes - 7 * sizeof *label, &wrong, sizeof wrong);
    scratch_write("label.npy", file, bytes);
    dt_status *status = dtrt_train(strict, NULL, NULL);
    assert_non_null(status);
    assert_int_equal(status->code, DT_OUT_OF_RANGE);
    dtrt_status_free(status);
    assert_ok(dtrt_save(strict, scratch_path("bad-label"), NULL));
    assert_ok(dtrt_load(loaded, scratch_path("bad-label")));
    train_to_the_end(ignoring, 1);
    train_to_the_end(loaded, 1);
    net_assert_same(ignoring, loaded);
    memcpy(file + bytes - sizeof label, label, sizeof label);
    scratch_write("label.npy", file, bytes);
    free(file);
    destroy(strict), destroy(ignoring), destroy(loaded);
}

static void a_load_without_memory_leaves_the_session(void **state) {
    (void)state;
    dtrt_session *saved = open_session(), *as_before = open_session();
    train_to_the_end(saved, 1);
    assert_ok(dtrt_save(saved, scratch_path("to-load"), NULL));
    int n = 0;
    for (bool loaded = false; !loaded; n++) {
        dtrt_session *session = open_session();
        dt_memory_fail_after(n);
        dt_status *status = dtrt_load(session, scratch_path("to-load"));
        dt_memory_fail_after(-1);
        loaded = status == NULL;
        dtrt_status_free(status);
        dtrt_session_info info = DTRT_INIT(dtrt_session_info);
        assert_ok(dtrt_session_describe(session, &info));
        assert_int_equal(info.n_steps, loaded ? 4 : 0);
        net_assert_same(session, loaded ? saved : as_before);
        destroy(session);
    }
    assert_true(n > 10);
    destroy(saved), destroy(as_before);
}

static void pipelines_are_looked_at_batch_by_batch(void **state) {
    (void)state;
    dtrt_session *session = open_session();
    dtrt_pipeline *test;
    dtrt_pipeline_info info = DTRT_INIT(dtrt_pipeline_info);
    dtrt_array arrays[2];
    int64_t rows, n = 0;
    assert_fails(dtrt_pipeline_open(session, "tset", &test), DT_NOT_FOUND, "no data tset");
    assert_ok(dtrt_pipeline_open(session, "test", &test));
    for (rows = 1; rows > 0; n += rows) {
        assert_ok(dtrt_pipeline_next(test, arrays, &rows));
        if (rows == 0) break;
        assert_int_equal(arrays[0].dims[0], rows);
        assert_int_equal(arrays[0].dims[1], NET_IN);
        assert_int_equal(arrays[1].dtype, DTRT_I32);
        net_batch first = net_make((int)n);
        assert_memory_equal(arrays[0].data, first.x[0], sizeof first.x[0]);
    }
    assert_int_equal(n, N_EXAMPLES);
    assert_ok(dtrt_pipeline_describe(test, &info));
    assert_int_equal(info.n_batches, 4);
    assert_int_equal(info.epoch, 1);
    assert_int_equal(info.position, 0);
    assert_fails(dtrt_pipeline_seek(test, 0, N_EXAMPLES + 1), DT_OUT_OF_RANGE, "20 examples");
    assert_fails(dtrt_pipeline_seek(test, INT64_MAX, 0), DT_OUT_OF_RANGE, "epoch 9223372036854775807");
    assert_ok(dtrt_pipeline_seek(test, 0, 19));
    assert_ok(dtrt_pipeline_next(test, NULL, &rows));
    assert_int_equal(rows, 1);
    assert_ok(dtrt_pipeline_close(test));
    destroy(session);
}

static void evaluation_and_prediction_are_those_of_dtrun(void **state) {
    (void)state;
    char command[512];
    dtrt_session *session = open_session();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_predict_options predict = DTRT_INIT(dtrt_predict_options);
    const char *inputs[] = {scratch_path("x.npy")};
    train.checkpoint_dir = scratch_path("trained");
    assert_ok(dtrt_train(session, &train, NULL));
    assert_ok(dtrt_evaluate(session, NULL, NULL));
    predict.inputs = inputs;
    predict.n_inputs = 1;
    predict.output = scratch_path("out");
    assert_ok(dtrt_predict(session, &predict, NULL));
    snprintf(command, sizeof command, "predict %s --checkpoint-dir %s --input %s --output %s", scratch_path("net.dtx"), scratch_path("trained"),
             inputs[0], scratch_path("of-dtrun"));
    dtrun(command);
    assert_same_files("out/score.npy", "of-dtrun/score.npy");
    predict.output = NULL;
    assert_fails(dtrt_predict(session, &predict, NULL), DT_INVALID_ARGUMENT, "output");
    train.epochs = -1;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "epochs is -1");
    destroy(session);
}

static void launch_values_are_set_and_read_by_name(void **state) {
    (void)state;
    dtrt_session *seeded = open_session(), *set = net_session(NULL);
    int64_t seed;
    double value;
    assert_ok(dtrt_get_launch_integer(seeded, "seed", &seed));
    assert_int_equal(seed, 7);
    assert_ok(dtrt_set_launch_integer(set, "seed", 7));
    assert_ok(dtrt_initialize(set));
    net_assert_same(seeded, set);
    assert_ok(dtrt_set_launch(set, "counter", 12));
    assert_ok(dtrt_get_launch(set, "counter", &value));
    assert_true(value == 12);
    assert_fails(dtrt_set_launch(set, "counter", 0.5), DT_INVALID_ARGUMENT, "whole");
    assert_fails(dtrt_set_launch(set, "epochs", -1), DT_INVALID_ARGUMENT, "epochs");
    assert_fails(dtrt_set_launch_integer(set, "counter", INT64_MAX), DT_INVALID_ARGUMENT, "counter cannot be 9223372036854775807");
    assert_fails(dtrt_set_launch(set, "rat", 1), DT_NOT_FOUND, "did you mean rate?");
    const char *name;
    dtrt_program_info about = DTRT_INIT(dtrt_program_info);
    assert_ok(dtrt_program_describe(net, &about));
    assert_int_equal(about.n_launch_values, 5);
    assert_ok(dtrt_describe_launch_value(net, 4, &name));
    assert_string_equal(name, "rate");
    assert_ok(dtrt_get_launch(set, "rate", &value));
    assert_true((float)value == 1e-3f);
    assert_fails(dtrt_set_launch(set, "rate", NAN), DT_INVALID_ARGUMENT, "finite");
    assert_fails(dtrt_get_launch_integer(set, "rate", &seed), DT_INVALID_ARGUMENT, "no whole number");
    assert_fails(dtrt_set_launch_integer(set, "rate", (INT64_C(1) << 53) + 1), DT_INVALID_ARGUMENT, "within 2^53");
    assert_fails(dtrt_set_launch_integer(set, "rate", INT64_MIN), DT_INVALID_ARGUMENT, "within 2^53");
    assert_ok(dtrt_set_launch_integer(set, "seed", INT64_MIN));

    dtrt_session *still = open_session(); /* a rate of 0 changes nothing, and is read by the next step */
    net_batch batch = net_make(0);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    int kernel = dtrt_find_variable(net, "Net/dense/kernel");
    float before[NET_IN * 5], after[NET_IN * 5];
    assert_ok(dtrt_set_launch(still, "rate", 0));
    assert_ok(dtrt_read(still, kernel, before, sizeof before));
    assert_ok(dtrt_step(still, net_train, arrays, 0));
    assert_ok(dtrt_read(still, kernel, after, sizeof after));
    assert_memory_equal(before, after, sizeof before);
    assert_ok(dtrt_set_launch(still, "rate", 0.1));
    assert_ok(dtrt_step(still, net_train, arrays, 0));
    assert_ok(dtrt_read(still, kernel, after, sizeof after));
    assert_memory_not_equal(before, after, sizeof before);
    destroy(still);
    destroy(seeded), destroy(set);
}

/* Everything with the nth allocation failing: an error each time, and nothing left behind. */
static dt_status *run_once(void) {
    dtrt_session_options options = with_data();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_program *program = NULL;
    dtrt_session *session = NULL;
    train.checkpoint_dir = scratch_path("memory");
    dt_status *status = dtrt_open(scratch_path("net.dtx"), NULL, &program);
    if (status == NULL) status = dtrt_session_create(program, &options, &session);
    if (status == NULL) status = dtrt_initialize(session);
    if (status == NULL) status = dtrt_train(session, &train, NULL);
    if (status == NULL) status = dtrt_save(session, scratch_path("memory"), NULL);
    if (status == NULL) status = dtrt_load(session, scratch_path("memory"));
    assert_null(dtrt_session_destroy(session));
    dtrt_close(program);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    int n = 0;
    for (bool done = false; !done; n += n < 300 ? 1 : 7) { /* the rest are the same ones, step by step */
        dt_memory_fail_after(n);
        dt_status *status = run_once();
        dt_memory_fail_after(-1);
        done = status == NULL;
        if (!done && status->code != DT_RESOURCE_EXHAUSTED) fail_msg("allocation %d: %s", n, status->message);
        dtrt_status_free(status);
        assert_ok(dt_file_remove_tree(scratch_path("memory")));
    }
    assert_true(n > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_own_loop_gives_the_checkpoint_of_dtrun),
        cmocka_unit_test(training_on_a_session_is_dtruns_and_may_be_paused),
        cmocka_unit_test(a_session_goes_on_beside_its_own_checkpoints),
        cmocka_unit_test(a_step_that_was_trained_takes_arrays_too),
        cmocka_unit_test(a_callback_stops_training_which_goes_on_from_its_checkpoint),
        cmocka_unit_test(a_step_whose_memory_was_out_takes_arrays_later),
        cmocka_unit_test(a_result_without_size_is_refused_before_the_run),
        cmocka_unit_test(what_is_loaded_goes_on_where_it_was_saved),
        cmocka_unit_test(a_training_that_failed_in_mid_epoch_is_saved_whole),
        cmocka_unit_test(a_step_whose_label_is_out_of_range_counts),
        cmocka_unit_test(a_load_without_memory_leaves_the_session),
        cmocka_unit_test(pipelines_are_looked_at_batch_by_batch),
        cmocka_unit_test(evaluation_and_prediction_are_those_of_dtrun),
        cmocka_unit_test(launch_values_are_set_and_read_by_name),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_all, net_close);
}
