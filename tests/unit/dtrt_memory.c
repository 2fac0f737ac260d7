/* dtrt_memory: calls of include/dtrt.h on a session whose memory runs out within them, at one allocation after the other: for good, and once, as for
 * one that is too large. The call says so, and the same call then gives, on the same session, the bits of one that never ran out. */
#include "base/memory.h"
#include "tests/unit/dtrt_data_fixture.h"

enum {
    TRAINED_STEPS = 6 /* of the checkpoint that calls begin with: in the middle of an epoch */
};

typedef dt_status *work_function(dtrt_session *session);

/* ---- the calls ---- */

static dt_status *step_on_arrays(dtrt_session *session) {
    net_batch batch = net_make(1);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    return dtrt_step(session, net_train, arrays, 0);
}

static dt_status *step_on_strided_arrays(dtrt_session *session) {
    static const int64_t turned[] = {sizeof(float), NET_ROWS * sizeof(float)};
    float columns[NET_IN][NET_ROWS];
    net_batch batch = net_make(2);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    for (int r = 0; r < NET_ROWS; r++)
        for (int i = 0; i < NET_IN; i++) columns[i][r] = batch.x[r][i];
    arrays[0].data = columns;
    arrays[0].strides = turned;
    return dtrt_step(session, net_train, arrays, 0);
}

/* Two batches, the second of which is the last. */
static int fill(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows) {
    (void)session, (void)most_rows;
    int *n_filled = context;
    net_batch batch = net_make(3 + *n_filled);
    memcpy(buffers[0], batch.x, sizeof batch.x);
    memcpy(buffers[1], batch.label, sizeof batch.label);
    *rows = (*n_filled)++ < 2 ? NET_ROWS : 0;
    return 0;
}

static dt_status *step_on_a_callback(dtrt_session *session) {
    dtrt_session_info before = DTRT_INIT(dtrt_session_info);
    DT_TRY(dtrt_session_describe(session, &before));
    int n_filled = (int)(before.n_steps - TRAINED_STEPS); /* the steps that were run before an error count */
    return dtrt_step_callback(session, net_train, fill, &n_filled, 0, NULL);
}

static dt_status *look_at_a_pipeline(dtrt_session *session) {
    dtrt_pipeline *pipeline;
    dtrt_array arrays[2];
    int64_t rows = 1;
    DT_TRY(dtrt_pipeline_open(session, "rows", &pipeline));
    dt_status *status = dtrt_pipeline_seek(pipeline, 1, 6);
    while (status == NULL && rows > 0) status = dtrt_pipeline_next(pipeline, arrays, &rows);
    return dt_status_first(status, dtrt_pipeline_close(pipeline));
}

static dt_status *step_on_a_pipeline(dtrt_session *session) {
    dtrt_pipeline *pipeline;
    int64_t rows = 1;
    DT_TRY(dtrt_pipeline_open(session, "test", &pipeline));
    dt_status *status = dtrt_step_pipeline(session, net_train, pipeline, &rows);
    return dt_status_first(status, dtrt_pipeline_close(pipeline));
}

static dt_status *train(dtrt_session *session) {
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    options.epochs = 3;
    options.checkpoint_dir = scratch_path("checkpoints");
    options.checkpoint_every = 2;
    options.keep = 1;
    options.keep_best = "evaluate.accuracy";
    options.reduce_on_plateau = "evaluate.accuracy:rate";
    options.log_every = 2;
    return dtrt_train(session, &options, NULL);
}

static int give_batch(void *context, dtrt_session *session, dtrt_array *arrays, int64_t *rows) {
    static const float x[NET_ROWS][NET_IN];
    static const int32_t label[NET_ROWS];
    (void)session;
    const dtrt_array batch[] = {{x, DTRT_F32, 2, net_x_dims, NULL}, {label, DTRT_I32, 1, net_label_dims, NULL}};
    if ((*(int *)context)++ % 3 == 2) return 0;
    memcpy(arrays, batch, sizeof batch);
    *rows = NET_ROWS;
    return 0;
}

static int begin_given(void *context, dtrt_session *session, int64_t epoch, int64_t examples, const char *place, int64_t *begun) {
    (void)session, (void)epoch, (void)place;
    *(int *)context = (int)(examples / NET_ROWS);
    *begun = examples;
    return 0;
}

static int tell_given(void *context, dtrt_session *session, const char **place) {
    (void)context, (void)session;
    *place = "there";
    return 0;
}

static dt_status *train_on_arrays_and_batches(dtrt_session *session) {
    static const float x[8][NET_IN];
    static const int32_t label[8];
    static const int64_t x_dims[] = {8, NET_IN}, label_dims[] = {8};
    const dtrt_array arrays[] = {{x, DTRT_F32, 2, x_dims, NULL}, {label, DTRT_I32, 1, label_dims, NULL}};
    int n_given;
    dtrt_given given = DTRT_INIT(dtrt_given), validation = given;
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    given.next = give_batch;
    given.begin = begin_given;
    given.place = tell_given;
    given.context = &n_given;
    validation.arrays = arrays;
    options.given = &given;
    options.validation = &validation;
    options.epochs = 3;
    options.checkpoint_dir = scratch_path("checkpoints");
    options.checkpoint_every = 1;
    return dtrt_train(session, &options, NULL);
}

static dt_status *evaluate(dtrt_session *session) { return dtrt_evaluate(session, NULL, NULL); }

static dt_status *predict(dtrt_session *session) {
    dtrt_predict_options options = DTRT_INIT(dtrt_predict_options);
    const char *const inputs[] = {scratch_path("x.npy")};
    options.inputs = inputs;
    options.n_inputs = 1;
    options.output = scratch_path("results");
    return dtrt_predict(session, &options, NULL);
}

static dt_status *save(dtrt_session *session) {
    char *path = NULL;
    dt_status *status = dtrt_save(session, scratch_path("saved"), &path);
    dtrt_free(path);
    return status;
}

static dt_status *load(dtrt_session *session) { return dtrt_load(session, scratch_path("first")); }
static dt_status *load_weights(dtrt_session *session) { return dtrt_load_weights(session, scratch_path("first/step-6/model.safetensors"), NULL); }
static dt_status *initialize(dtrt_session *session) { return dtrt_initialize(session); }

static dt_status *set_what_can_be_set(dtrt_session *session) {
    static const float values[] = {1, 2, 3};
    static const int64_t dims[] = {3}, strides[] = {-(int64_t)sizeof(float)};
    double rate;
    DT_TRY(dtrt_set_launch(session, "rate", 0.25));
    DT_TRY(dtrt_get_launch(session, "rate", &rate));
    return dtrt_write(session, dtrt_find_variable(net, "Net/dense_1/bias"), &(dtrt_array){values + 2, DTRT_F32, 1, dims, strides});
}

static const struct {
    const char *name;
    work_function *work;
} calls[] = {
    {"dtrt_step", step_on_arrays},
    {"dtrt_step, strides", step_on_strided_arrays},
    {"dtrt_step_callback", step_on_a_callback},
    {"dtrt_pipeline_next", look_at_a_pipeline},
    {"dtrt_step_pipeline", step_on_a_pipeline},
    {"dtrt_train", train},
    {"dtrt_train, data given", train_on_arrays_and_batches},
    {"dtrt_evaluate", evaluate},
    {"dtrt_predict", predict},
    {"dtrt_save", save},
    {"dtrt_load", load},
    {"dtrt_load_weights", load_weights},
    {"dtrt_initialize", initialize},
    {"dtrt_set_launch, dtrt_write", set_what_can_be_set},
};

/* ---- running out ---- */

/* One like any other before a call: trained a little, with totals of an epoch under way. */
static dtrt_session *begin(void) {
    dtrt_session *session = open_session();
    assert_ok(dtrt_load(session, scratch_path("first")));
    assert_ok(dt_file_remove_tree(scratch_path("checkpoints")));
    return session;
}

/* Fails the call's allocation n, and those after it where `for_good`; then it is called again. False: it has no such allocation. */
static bool runs_out(int c, int n, bool for_good, dtrt_session *undisturbed) {
    dtrt_session *session = begin();
    (for_good ? dt_memory_fail_after : dt_memory_fail_once)(n);
    dt_status *status = calls[c].work(session);
    dt_memory_fail_after(-1);
    bool failed = status != NULL;
    if (failed && status->code != DT_RESOURCE_EXHAUSTED) fail_msg("%s, allocation %d: %s", calls[c].name, n, status->message);
    dtrt_status_free(status);
    if (failed) {
        status = calls[c].work(session);
        if (status != NULL) fail_msg("%s after allocation %d failed: %s", calls[c].name, n, status->message);
    }
    net_assert_same(session, undisturbed);
    destroy(session);
    return failed;
}

/* Every allocation with --full, else all of the first and fewer of the many that follow. */
static bool is_full;

static void each_call_may_run_out(void **state) {
    (void)state;
    for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++) {
        dtrt_session *undisturbed = begin();
        assert_ok(calls[c].work(undisturbed));
        int n = 0, n_tried = 0;
        for (; runs_out(c, n, true, undisturbed); n_tried++) n += is_full ? 1 : 1 + n / 12;
        for (int once = 0; once < n; once += is_full ? 1 : 1 + once / 12) runs_out(c, once, false, undisturbed);
        print_message("%s: %d of about %d allocations\n", calls[c].name, n_tried, n);
        destroy(undisturbed);
    }
}

static int open_trained(void **state) {
    if (open_all(state) != 0) return -1;
    dtrt_session *session = open_session();
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    options.epochs = 2;
    options.max_steps = TRAINED_STEPS;
    options.checkpoint_dir = scratch_path("first");
    assert_ok(dtrt_train(session, &options, NULL));
    destroy(session);
    return 0;
}

int main(int argc, char **argv) {
    is_full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_may_run_out)};
    return cmocka_run_group_tests(tests, open_trained, net_close);
}
