/* dtrt_given: data of an application's own. Arrays have the bits of files, batches those of arrays, both entered in the middle of an epoch too. */
#include "tests/unit/dtrt_data_fixture.h"

static float all_x[N_EXAMPLES][NET_IN];
static int32_t all_labels[N_EXAMPLES];
static const int64_t x_dims[] = {N_EXAMPLES, NET_IN}, label_dims[] = {N_EXAMPLES};
static const dtrt_array all[] = {{all_x, DTRT_F32, 2, x_dims, NULL}, {all_labels, DTRT_I32, 1, label_dims, NULL}};

static int open_given(void **state) {
    if (open_all(state) != 0) return -1;
    for (int e = 0; e < N_EXAMPLES; e++) {
        net_batch batch = net_make(e);
        memcpy(all_x[e], batch.x[0], sizeof all_x[e]);
        all_labels[e] = batch.label[0];
    }
    return 0;
}

/* Those examples in order, in batches. */
typedef struct feed {
    int64_t at, dims[2][2];
    int n_begun;
    bool tells, stops;
    char place[32], was[32];
} feed;

static int next(void *context, dtrt_session *session, dtrt_array *arrays, int64_t *rows) {
    feed *from = context;
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    assert_ok(dtrt_session_describe(session, &info));
    if (from->stops && from->at > 0) return 1;
    if (from->at == N_EXAMPLES) return 0;
    *rows = N_EXAMPLES - from->at < NET_ROWS ? N_EXAMPLES - from->at : NET_ROWS;
    for (int i = 0; i < 2; i++) {
        arrays[i] = all[i];
        from->dims[i][0] = *rows;
        from->dims[i][1] = NET_IN;
        arrays[i].dims = from->dims[i];
    }
    arrays[0].data = all_x[from->at];
    arrays[1].data = &all_labels[from->at];
    from->at += *rows;
    return 0;
}

static int begin(void *context, dtrt_session *session, int64_t epoch, int64_t examples, const char *place, int64_t *begun) {
    (void)session, (void)epoch;
    feed *from = context;
    from->n_begun++;
    if (place != NULL) snprintf(from->was, sizeof from->was, "%s", place);
    from->at = *begun = from->tells ? examples : 0;
    return 0;
}

static int tell(void *context, dtrt_session *session, const char **place) {
    (void)session;
    feed *from = context;
    snprintf(from->place, sizeof from->place, "at %d", (int)from->at);
    *place = from->place;
    return 0;
}

static dtrt_given fed(feed *from) {
    dtrt_given given = DTRT_INIT(dtrt_given);
    given.next = next;
    given.begin = begin;
    given.place = from->tells ? tell : NULL;
    given.context = from;
    return given;
}

static void arrays_are_trained_on_like_files(void **state) {
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "train %s --epochs 2 --checkpoint-dir %s", scratch_path("net.dtx"), scratch_path("files"));
    dtrun(command);
    dtrt_given given = DTRT_INIT(dtrt_given), validation = given;
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    given.arrays = validation.arrays = all;
    given.shuffle = 1;
    train.given = &given;
    train.validation = &validation;
    train.checkpoint_dir = scratch_path("arrays");
    train.keep_best = "evaluate.accuracy";
    train.epochs = 2;
    train.max_steps = 6; /* the second epoch's second batch */
    dtrt_session *session = open_session(), *other = open_session();
    assert_ok(dtrt_train(session, &train, NULL));
    train.max_steps = 0;
    train.resume = 1;
    assert_ok(dtrt_train(other, &train, NULL));
    assert_same_files("files/step-8/model.safetensors", "arrays/step-8/model.safetensors");
    assert_same_files("files/step-8/optimizer.safetensors", "arrays/step-8/optimizer.safetensors");
    assert_ok(dtrt_train(session, &train, NULL)); /* the session goes on as well */
    net_assert_same(session, other);
    destroy(session), destroy(other);
}

static void batches_are_trained_on_like_arrays(void **state) {
    (void)state;
    dtrt_given given = DTRT_INIT(dtrt_given);
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    dtrt_evaluate_options evaluate = DTRT_INIT(dtrt_evaluate_options);
    dtrt_session *by_arrays = open_session(), *by_batches = open_session(), *resumed = open_session(), *anew = open_session();
    feed from = {.tells = true}, again = from, forgetful = {0};
    dtrt_given batches = fed(&from), rest = fed(&again), whole = fed(&forgetful);
    given.arrays = all;
    train.epochs = 2;
    train.given = &given;
    assert_ok(dtrt_set_launch(by_batches, "steps_per_epoch", 4));
    assert_ok(dtrt_train(by_arrays, &train, NULL));
    train.given = &batches;
    train.checkpoint_dir = scratch_path("batches");
    train.max_steps = 6;
    assert_ok(dtrt_train(by_batches, &train, &result));
    assert_string_equal(result.reason, "max_steps");
    assert_int_equal(from.at, 2 * NET_ROWS); /* none was asked for that is not used */
    train.max_steps = 0;
    train.given = &rest;
    train.resume = 1;
    assert_ok(dtrt_train(resumed, &train, &result));
    assert_int_equal(result.n_steps, 2);
    assert_string_equal(again.was, "at 12");
    net_assert_same(by_arrays, resumed);
    train.given = &batches;
    train.resume = 0;
    train.checkpoint_dir = NULL;
    assert_ok(dtrt_train(by_batches, &train, NULL));
    net_assert_same(by_arrays, by_batches);
    train.given = &whole;
    assert_ok(dtrt_load(anew, scratch_path("batches/step-6")));
    assert_ok(dtrt_train(anew, &train, &result));
    assert_int_equal(result.n_steps, 4); /* the epoch has begun again */

    double of_files, of_batches, of_arrays;
    int step = dtrt_find_step(net, "evaluate");
    assert_ok(dtrt_evaluate(resumed, NULL, NULL));
    assert_ok(dtrt_total(resumed, step, "accuracy", &of_files));
    evaluate.given = &batches;
    assert_ok(dtrt_evaluate(resumed, &evaluate, NULL));
    assert_ok(dtrt_total(resumed, step, "accuracy", &of_batches));
    evaluate.given = &given;
    assert_ok(dtrt_evaluate(resumed, &evaluate, NULL));
    assert_ok(dtrt_total(resumed, step, "accuracy", &of_arrays));
    assert_true(of_files == of_batches && of_files == of_arrays);
    destroy(by_arrays), destroy(by_batches), destroy(resumed), destroy(anew);
}

static void a_callback_that_stops_ends_the_training(void **state) {
    (void)state;
    feed from = {.stops = true};
    dtrt_given batches = fed(&from);
    dtrt_session *session = open_session();
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    train.given = &batches;
    train.checkpoint_dir = scratch_path("stopped");
    assert_ok(dtrt_train(session, &train, &result));
    assert_true(result.stopped);
    assert_int_equal(result.n_steps, 1);
    assert_int_equal(from.n_begun, 1);
    assert_true(dt_file_exists(scratch_path("stopped/step-1/progress.json")));
    train.checkpoint_dir = NULL;
    train.validation = &batches; /* so does one that evaluates */
    dtrt_given given = DTRT_INIT(dtrt_given);
    given.arrays = all;
    train.given = &given;
    assert_ok(dtrt_train(session, &train, &result));
    assert_true(result.stopped);
    assert_int_equal(result.n_epochs, 0);
    destroy(session);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    feed from = {0};
    dtrt_array short_one[] = {all[0], {all_labels, DTRT_I32, 1, net_label_dims, NULL}};
    dtrt_given given = DTRT_INIT(dtrt_given);
    dtrt_train_options train = DTRT_INIT(dtrt_train_options);
    dtrt_session *session = open_session();
    train.given = &given;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "neither arrays nor a callback");
    given = fed(&from);
    given.arrays = all;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "it is one of both");
    given.arrays = NULL;
    given.batch = 3;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "for arrays, and batches are given");
    given = (dtrt_given){.size = sizeof given, .arrays = all, .batch = NET_ROWS + 1};
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "has 1 to 6");
    given.batch = 0;
    given.arrays = short_one;
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "label has 6 rows, and x 20");
    given.arrays = all;
    train.from = "rows";
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "other data is given");
    train = (dtrt_train_options){.size = sizeof train, .validation = &given};
    assert_fails(dtrt_train(session, &train, NULL), DT_INVALID_ARGUMENT, "validation is for data that is given");
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    assert_ok(dtrt_session_describe(session, &info));
    assert_int_equal(info.n_steps, 0);
    destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_trained_on_like_files),
        cmocka_unit_test(batches_are_trained_on_like_arrays),
        cmocka_unit_test(a_callback_that_stops_ends_the_training),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, open_given, net_close);
}
