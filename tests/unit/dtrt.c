/* dtrt: sessions of include/dtrt.h as an application uses them: arrays in, reports and variables out, and each wrong use an error. */
#include "base/memory.h"
#include "tests/unit/dtrt_fixture.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void destroy(dtrt_session *session) { assert_ok(dtrt_session_destroy(session)); }

static void train(dtrt_session *session, int first, int n) {
    for (int i = first; i < first + n; i++) {
        net_batch batch = net_make(i);
        dtrt_array arrays[] = NET_ARRAYS(batch);
        assert_ok(dtrt_step(session, net_train, arrays, 0));
    }
}

/* ---- the ways in ---- */

/* Columns first, and a pointer that is no multiple of four. */
static void arrays_of_any_strides_give_the_same_bits(void **state) {
    (void)state;
    dtrt_session *dense = net_session(NULL), *strided = net_session(NULL);
    for (int i = 0; i < 3; i++) {
        net_batch batch = net_make(i);
        char columns[NET_IN * NET_ROWS * 4 + 1];
        int64_t labels[NET_ROWS], x_strides[] = {4, NET_ROWS * 4}, label_strides[] = {-8};
        for (int r = 0; r < NET_ROWS; r++) {
            for (int c = 0; c < NET_IN; c++) memcpy(columns + 1 + (c * NET_ROWS + r) * 4, &batch.x[r][c], 4);
            labels[NET_ROWS - 1 - r] = batch.label[r]; /* little-endian: the low half comes first */
        }
        dtrt_array arrays[] = {{columns + 1, DTRT_F32, 2, net_x_dims, x_strides},
                               {labels + NET_ROWS - 1, DTRT_I32, 1, net_label_dims, label_strides}};
        assert_ok(dtrt_step(strided, net_train, arrays, 0));
    }
    train(dense, 0, 3);
    net_assert_same(dense, strided);
    train(dense, 3, 1); /* the comparison itself works */
    size_t n;
    char *a = net_variables(dense, &n), *b = net_variables(strided, &n);
    assert_memory_not_equal(a, b, n);
    free(a), free(b);
    destroy(dense), destroy(strided);
}

static void buffers_filled_in_place_give_the_same_bits(void **state) {
    (void)state;
    dtrt_session *arrays = net_session(NULL), *buffers = net_session(NULL);
    void *x, *label;
    size_t bytes;
    assert_ok(dtrt_step_buffer(buffers, net_train, 0, &x, &bytes));
    assert_int_equal(bytes, NET_ROWS * NET_IN * 4);
    assert_ok(dtrt_step_buffer(buffers, net_train, 1, &label, NULL));
    for (int i = 0; i < 3; i++) {
        net_batch batch = net_make(i);
        memcpy(x, batch.x, sizeof batch.x);
        memcpy(label, batch.label, sizeof batch.label);
        assert_ok(dtrt_step(buffers, net_train, NULL, 0));
    }
    train(arrays, 0, 3);
    net_assert_same(arrays, buffers);
    destroy(arrays), destroy(buffers);
}

typedef struct feed {
    int next, end, stop_at;
    dt_code stepped, written, read; /* what it got for trying */
} feed;

static int fill(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows) {
    feed *of = context;
    assert_int_equal(most_rows, NET_ROWS);
    dt_status *stepped = dtrt_step(session, net_train, NULL, 0), *written = dtrt_initialize(session);
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    dt_status *read = dtrt_session_describe(session, &info);
    of->stepped = stepped != NULL ? stepped->code : DT_OK;
    of->written = written != NULL ? written->code : DT_OK;
    of->read = read != NULL ? read->code : DT_OK;
    dtrt_status_free(stepped), dtrt_status_free(written), dtrt_status_free(read);
    assert_int_equal(info.n_steps, of->next);
    if (of->next == of->stop_at) return 1;
    if (of->next == of->end) return 0;
    net_batch batch = net_make(of->next++);
    memcpy(buffers[0], batch.x, sizeof batch.x);
    memcpy(buffers[1], batch.label, sizeof batch.label);
    *rows = NET_ROWS;
    return 0;
}

static void a_callback_feeds_reads_and_stops_but_does_not_step(void **state) {
    (void)state;
    dtrt_session *arrays = net_session(NULL), *called = net_session(NULL);
    feed of = {.end = 4, .stop_at = -1};
    int64_t n;
    assert_ok(dtrt_step_callback(called, net_train, fill, &of, 0, &n));
    assert_int_equal(n, 4);
    assert_int_equal(of.stepped, DT_FAILED_PRECONDITION);
    assert_int_equal(of.written, DT_FAILED_PRECONDITION);
    assert_int_equal(of.read, DT_OK);
    of = (feed){.next = 4, .end = 100, .stop_at = 6};
    assert_ok(dtrt_step_callback(called, net_train, fill, &of, 0, &n));
    assert_int_equal(n, 2);
    train(arrays, 0, 6);
    net_assert_same(arrays, called);
    destroy(arrays), destroy(called);
}

/* ---- what a step leaves ---- */

static void reports_totals_and_results_are_those_of_the_step(void **state) {
    (void)state;
    dtrt_session *session = net_session(NULL);
    double loss[2], mean = 0, total, n;
    assert_fails(dtrt_reports(session, net_train, loss), DT_FAILED_PRECONDITION, "train has not been run");
    for (int i = 0; i < 3; i++) {
        train(session, i, 1);
        assert_ok(dtrt_reports(session, net_train, loss));
        assert_int_equal(loss[1], NET_ROWS);
        mean += loss[0] / 3;
    }
    assert_ok(dtrt_total(session, net_train, "loss", &total));
    assert_true(fabs(total - mean) < 1e-6);
    assert_ok(dtrt_total(session, net_train, "n", &n));
    assert_int_equal(n, 3 * NET_ROWS);
    assert_ok(dtrt_reset_totals(session, net_train));
    train(session, 3, 1);
    assert_ok(dtrt_total(session, net_train, "n", &n));
    assert_int_equal(n, NET_ROWS);
    assert_fails(dtrt_report(session, net_train, "los", &n), DT_NOT_FOUND, "reports no los");
    assert_ok(dtrt_total_values(session, net_train, 1, &n, 1));
    assert_int_equal(n, NET_ROWS);
    assert_ok(dtrt_reports(session, net_train, loss));
    assert_ok(dtrt_report_values(session, net_train, 0, &total, 1));
    assert_true(total == loss[0]);
    assert_fails(dtrt_report_values(session, net_train, 0, &n, 0), DT_INVALID_ARGUMENT, "report loss has 1 numbers, there is room for 0");
    assert_fails(dtrt_report_values(session, net_train, 2, &n, 1), DT_OUT_OF_RANGE, "report");
    dtrt_tensor shape = DTRT_INIT(dtrt_tensor);
    assert_ok(dtrt_describe_report_shape(net, net_train, 1, &shape));
    assert_string_equal(shape.name, "n");
    assert_true(shape.dtype == DTRT_F64 && shape.n_dims == 0);

    net_batch batch = net_make(9);
    int64_t dims[] = {2, NET_IN}, rows;
    float scores[2][NET_OUT], same[2][NET_IN];
    int score = dtrt_find_result(net, net_predict, "score"), input = dtrt_find_result(net, net_predict, "same");
    assert_fails(dtrt_result(session, net_predict, score, scores, sizeof scores, NULL), DT_FAILED_PRECONDITION, "not the last one");
    assert_ok(dtrt_step(session, net_predict, &(dtrt_array){batch.x, DTRT_F32, 2, dims, NULL}, 0));
    assert_ok(dtrt_result(session, net_predict, score, scores, sizeof scores, &rows));
    assert_int_equal(rows, 2);
    float first = batch.x[0][0];
    batch.x[0][0] = -1; /* the array is the caller's again */
    assert_ok(dtrt_result(session, net_predict, input, same, sizeof same, NULL));
    assert_true(same[0][0] == first);
    assert_fails(dtrt_result(session, net_predict, score, scores, sizeof scores - 1, NULL), DT_INVALID_ARGUMENT, "there is room for");
    destroy(session);
}

static void variables_are_read_written_and_seen_in_place(void **state) {
    (void)state;
    dtrt_session *a = net_session(NULL), *b = net_session(&(dtrt_session_options){.size = sizeof(dtrt_session_options), .seed = 3});
    dtrt_program_info about = DTRT_INIT(dtrt_program_info);
    assert_ok(dtrt_program_describe(net, &about));
    train(a, 0, 2);
    for (int v = 0; v < about.n_variables; v++) {
        dtrt_array view;
        assert_ok(dtrt_view(a, v, &view));
        assert_ok(dtrt_write(b, v, &view));
    }
    net_assert_same(a, b);
    int kernel = dtrt_find_variable(net, "Net/dense/kernel");
    dtrt_array view;
    float before[NET_IN * 5];
    assert_ok(dtrt_view(a, kernel, &view));
    memcpy(before, view.data, sizeof before);
    train(a, 2, 1);
    assert_memory_not_equal(before, view.data, sizeof before);
    assert_fails(dtrt_read(a, kernel, before, 7), DT_INVALID_ARGUMENT, "has 80 bytes");
    assert_fails(dtrt_read(a, about.n_variables, before, 7), DT_OUT_OF_RANGE, "no variable");
    assert_fails(dtrt_write(a, kernel, &(dtrt_array){before, DTRT_F64, 2, view.dims, NULL}), DT_INVALID_ARGUMENT, "is f32[4, 5], not f64[4, 5]");
    destroy(a), destroy(b);
}

/* ---- forward-only ---- */

static void a_forward_only_session_has_no_slots_and_predicts_the_same(void **state) {
    (void)state;
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    dtrt_session *whole = net_session(NULL);
    options.forward_only = 1;
    dtrt_session *forward = net_session(&options);
    dtrt_session_info of_whole = DTRT_INIT(dtrt_session_info), of_forward = DTRT_INIT(dtrt_session_info);
    assert_ok(dtrt_session_describe(whole, &of_whole));
    assert_ok(dtrt_session_describe(forward, &of_forward));
    assert_true(of_forward.memory_bytes < of_whole.memory_bytes);
    net_batch batch = net_make(0);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    float scores[2][NET_ROWS][NET_OUT];
    dtrt_session *sessions[] = {whole, forward};
    for (int s = 0; s < 2; s++) {
        assert_ok(dtrt_step(sessions[s], net_predict, arrays, 0));
        assert_ok(dtrt_result(sessions[s], net_predict, 0, scores[s], sizeof scores[s], NULL));
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_fails(dtrt_step(forward, net_train, arrays, 0), DT_FAILED_PRECONDITION, "forward-only");
    float slot[NET_IN * 5];
    int m = dtrt_find_variable(net, "adam/Net/dense/kernel/m");
    assert_true(m >= 0);
    assert_fails(dtrt_read(forward, m, slot, sizeof slot), DT_FAILED_PRECONDITION, "forward-only");
    destroy(whole), destroy(forward);
}

/* ---- structs of other versions ---- */

static void an_older_smaller_struct_means_defaults_for_the_rest(void **state) {
    (void)state;
    struct {
        size_t size;
        const char *devices;
    } old = {sizeof old, "cpu:1x1"};
    dtrt_session *from_old = net_session((const dtrt_session_options *)&old), *now = net_session(NULL);
    train(from_old, 0, 2), train(now, 0, 2);
    net_assert_same(from_old, now);

    struct {
        dtrt_session_options known;
        int64_t unknown;
    } newer = {.known = {.size = sizeof newer}};
    dtrt_session *session;
    assert_ok(dtrt_session_create(net, &newer.known, &session));
    destroy(session);
    newer.unknown = 1;
    assert_fails(dtrt_session_create(net, &newer.known, &session), DT_INVALID_ARGUMENT, "dtrt_session_options");
    assert_null(session);
    assert_fails(dtrt_session_create(net, &(dtrt_session_options){.seed = 1}, &session), DT_INVALID_ARGUMENT, "size");

    struct {
        size_t size;
        int64_t replicas;
    } old_info = {sizeof old_info, 0};
    assert_ok(dtrt_session_describe(now, (dtrt_session_info *)&old_info));
    assert_int_equal(old_info.replicas, 1);
    assert_int_equal(old_info.size, sizeof old_info);
    destroy(from_old), destroy(now);
}

/* ---- threads and processes ---- */

static void *train_alone(void *argument) {
    train(argument, 0, 50);
    return NULL;
}

static void sessions_in_threads_are_independent(void **state) {
    (void)state;
    enum {
        N = 4
    };
    dtrt_session *sessions[N];
    pthread_t threads[N];
    for (int i = 0; i < N; i++) {
        sessions[i] = net_session(NULL);
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, sessions[i]), 0);
    }
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i < N; i++) net_assert_same(sessions[0], sessions[i]);
    for (int i = 0; i < N; i++) destroy(sessions[i]);
}

/* With others: tests/mpi/application.c. */
static void a_process_that_nobody_launched_is_a_run_of_one(void **state) {
    (void)state;
    dtrt_processes *processes;
    dtrt_processes_options wrong = {.size = sizeof wrong, .deadline_seconds = -1};
    dtrt_processes_info info = DTRT_INIT(dtrt_processes_info);
    assert_fails(dtrt_processes_open(&wrong, &processes), DT_INVALID_ARGUMENT, "a deadline of -1 seconds");
    assert_null(processes);
    assert_ok(dtrt_processes_open(NULL, &processes));
    assert_ok(dtrt_processes_describe(processes, &info));
    assert_int_equal(info.number, 0);
    assert_int_equal(info.n_processes, 1);
    assert_null(info.note);

    dtrt_session_options options = {.size = sizeof options, .processes = processes};
    dtrt_session *together = net_session(&options), *alone = net_session(NULL);
    train(together, 0, 2), train(alone, 0, 2);
    net_assert_same(together, alone);
    int64_t first, n_rows;
    assert_ok(dtrt_session_rows(together, 4, &first, &n_rows));
    assert_int_equal(first, 0);
    assert_int_equal(n_rows, 4);
    assert_fails(dtrt_session_rows(together, NET_ROWS + 1, &first, &n_rows), DT_INVALID_ARGUMENT,
                 "a batch of 7 rows; one of this session has 1 to 6");
    assert_fails(dtrt_processes_close(processes), DT_FAILED_PRECONDITION, "1 session of these processes is there: destroy them first");
    destroy(together), destroy(alone);
    assert_ok(dtrt_processes_close(processes));
    assert_ok(dtrt_processes_close(NULL));
}

static void *try_to_read(void *session) {
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    return dtrt_session_describe(session, &info);
}

/* While this thread's call is under way, another thread tries. */
static int let_another_thread_try(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows) {
    (void)buffers, (void)most_rows, (void)rows;
    pthread_t thread;
    void *status;
    assert_int_equal(pthread_create(&thread, NULL, try_to_read, session), 0);
    pthread_join(thread, &status);
    *(dt_status **)context = status;
    return 1;
}

static void a_session_that_two_threads_use_at_once_is_an_error(void **state) {
    (void)state;
    dtrt_session *session = net_session(NULL);
    dt_status *of_other;
    assert_ok(dtrt_step_callback(session, net_train, let_another_thread_try, &of_other, 0, NULL));
    assert_fails(of_other, DT_FAILED_PRECONDITION, "another thread");
    train(session, 0, 1);
    destroy(session);
}

static void a_session_after_fork_is_an_error_in_the_child(void **state) {
    (void)state;
    dtrt_session *session = net_session(NULL);
    pid_t child = fork();
    if (child == 0) {
        dt_status *step = dtrt_step(session, net_train, NULL, 0), *end = dtrt_session_destroy(session);
        bool right = step != NULL && step->code == DT_FAILED_PRECONDITION && strstr(step->message, "fork") != NULL && end != NULL;
        dt_status_free(step);
        dt_status_free(end);
        _exit(right ? 0 : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    train(session, 0, 1);
    destroy(session);
}

/* ---- wrong uses ---- */

static void each_wrong_use_is_an_error(void **state) {
    (void)state;
    dtrt_session *session = net_session(NULL), *none;
    dtrt_program *program;
    net_batch batch = net_make(0);
    int64_t too_many[] = {NET_ROWS + 1, NET_IN}, few[] = {2, NET_IN}, negative[] = {-32, NET_IN}, wide[] = {NET_ROWS, NET_IN + 1},
            no_rows[] = {0, NET_IN};
    dtrt_array right[] = NET_ARRAYS(batch), arrays[2];
    static const char *const devices[] = {"gpu", "cpu:0", "cpu:2x2", "", "cpu:3x"};
    assert_fails(dtrt_open(NULL, NULL, &program), DT_INVALID_ARGUMENT, "path is NULL");
    assert_fails(dtrt_open(scratch_path("net.dtx"), NULL, NULL), DT_INVALID_ARGUMENT, "program is NULL");
    assert_fails(dtrt_open(scratch_path("none.dtx"), NULL, &program), DT_NOT_FOUND, "none.dtx");
    assert_null(program);
    assert_fails(dtrt_open_memory("bytes", "no artifact", 11, NULL, &program), DT_DATA_LOSS, "bytes");
    assert_fails(dtrt_session_create(NULL, NULL, &none), DT_INVALID_ARGUMENT, "program is NULL");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        dt_status *status = dtrt_session_create(net, &(dtrt_session_options){.size = sizeof(dtrt_session_options), .devices = devices[i]}, &none);
        assert_fails(status, DT_INVALID_ARGUMENT, "devices");
    }
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    options.replicas = -1;
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "replicas");
    options.replicas = 2, options.global_batch = 5;
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "evenly");
    options = (dtrt_session_options){.size = sizeof options, .devices = "cpu:1x1", .threads = 2};
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "threads");
    dtrt_device_info device = DTRT_INIT(dtrt_device_info);
    assert_ok(dtrt_session_describe_device(session, 0, &device));
    assert_true(strcmp(device.name, "cpu:0") == 0 && device.variable_bytes > 0 &&
                device.memory_bytes > device.variable_bytes + device.optimizer_bytes);
    assert_fails(dtrt_session_describe_device(session, 1, &device), DT_OUT_OF_RANGE, "no device 1");
    options = (dtrt_session_options){.size = sizeof options, .placement = "elsewhere"};
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "there are \"mirrored\" and \"central\"");
    options = (dtrt_session_options){.size = sizeof options, .by_rows = "each"};
    assert_fails(dtrt_session_create(net, &options, &none), DT_INVALID_ARGUMENT, "there are \"exact\" and \"lazy\"");
    options.by_rows = "exact";
    assert_fails(dtrt_session_create(net, &options, &none), DT_FAILED_PRECONDITION, "no row forms");

    assert_fails(dtrt_step(NULL, net_train, right, 0), DT_INVALID_ARGUMENT, "session is NULL");
    assert_fails(dtrt_step(session, 3, right, 0), DT_OUT_OF_RANGE, "no step 3");
    assert_fails(dtrt_step(session, net_train, right, NET_ROWS + 1), DT_INVALID_ARGUMENT, "7 rows");
    assert_fails(dtrt_step(session, net_train, right, 2), DT_INVALID_ARGUMENT, "x has 6 rows, and the batch 2");
    struct {
        int64_t *dims;
        dtrt_dtype dtype;
        int n_dims;
        const char *part;
    } wrong[] = {
        {too_many, DTRT_F32, 2, "x has 7 rows"},   {no_rows, DTRT_F32, 2, "x has 0 rows"}, {few, DTRT_F32, 2, "label has 6 rows, and the batch 2"},
        {wide, DTRT_F32, 2, "not f32[6, 5]"},      {wide, DTRT_F64, 1, "x is f32[B, 4]"},  {wide, (dtrt_dtype)77, 2, "no element type"},
        {NULL, DTRT_F32, 2, "dimensions"},         {few, DTRT_F32, -1, "dimensions"},      {few, DTRT_F32, 1 << 30, "1073741824 dimensions"},
        {negative, DTRT_F32, 2, "not f32[-32, 4]"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(arrays, right, sizeof arrays);
        arrays[0] = (dtrt_array){batch.x, wrong[i].dtype, wrong[i].n_dims, wrong[i].dims, NULL};
        assert_fails(dtrt_step(session, net_train, arrays, 0), DT_INVALID_ARGUMENT, wrong[i].part);
    }
    void *data;
    assert_fails(dtrt_step_buffer(session, net_train, 2, &data, NULL), DT_OUT_OF_RANGE, "no input 2");
    assert_fails(dtrt_step_callback(session, net_train, NULL, NULL, 0, NULL), DT_INVALID_ARGUMENT, "fill is NULL");
    double value = 7;
    assert_fails(dtrt_report(session, net_train, "none", &value), DT_NOT_FOUND, "none");
    assert_true(value == 0);
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    assert_ok(dtrt_session_describe(session, &info));
    assert_int_equal(info.n_steps, 0); /* nothing of it was run */
    train(session, 0, 1);
    destroy(session);
}

static void the_program_lives_as_long_as_a_session_needs_it(void **state) {
    (void)state;
    dtrt_program *program;
    dtrt_session *session;
    assert_ok(dtrt_open(scratch_path("net.dtx"), NULL, &program));
    assert_ok(dtrt_session_create(program, NULL, &session));
    dtrt_close(program);
    assert_ok(dtrt_initialize(session));
    assert_int_equal(dtrt_find_step(dtrt_session_program(session), "train"), net_train);
    destroy(session);
}

static void a_text_is_of_the_file_that_was_opened(void **state) {
    (void)state;
    dtrt_program *program;
    char *text;
    size_t n;
    assert_ok(dt_file_read(scratch_path("net.dtx"), &text, &n));
    scratch_write("copy.dtx", text, n);
    assert_ok(dtrt_open(scratch_path("copy.dtx"), NULL, &program));
    scratch_write("other.dtx", text, n);
    dtrt_free(text);
    assert_ok(dtrt_program_text(program, "program.dt", &text));
    assert_string_equal(text, net_program);
    dtrt_free(text);
    assert_int_equal(rename(scratch_path("other.dtx"), scratch_path("copy.dtx")), 0);
    assert_fails(dtrt_program_text(program, "program.dt", &text), DT_FAILED_PRECONDITION, "another file");
    assert_null(text);
    dtrt_close(program);
}

static void an_event_that_lacks_its_lists_is_refused(void **state) {
    (void)state;
    char *text;
    dtrt_event event = {.size = sizeof event, .kind = DTRT_EVENT_STEP, .n_values = 1};
    assert_fails(dtrt_event_text(&event, DTRT_TEXT, &text), DT_INVALID_ARGUMENT, "names is NULL");
    event.names = (const char *const[]){NULL};
    assert_fails(dtrt_event_text(&event, DTRT_TEXT, &text), DT_INVALID_ARGUMENT, "values is NULL");
    event.values = (const double[]){0.5};
    assert_fails(dtrt_event_text(&event, DTRT_JSON, &text), DT_INVALID_ARGUMENT, "names[i] is NULL");
    event.names = (const char *const[]){"loss"};
    assert_ok(dtrt_event_text(&event, DTRT_TEXT, &text));
    dtrt_free(text);
    event.n_values = -1;
    assert_fails(dtrt_event_text(&event, DTRT_TEXT, &text), DT_INVALID_ARGUMENT, "-1 values");
    event = (dtrt_event){.size = sizeof event, .kind = DTRT_EVENT_START, .n_devices = 2};
    assert_fails(dtrt_event_text(&event, DTRT_TEXT, &text), DT_INVALID_ARGUMENT, "devices is NULL");
}

/* From opening to reading, with the nth allocation failing: an error, and then all goes well in the same process. */
static dt_status *run_once(void) {
    dtrt_program *program = NULL;
    dtrt_session *session = NULL;
    net_batch batch = net_make(0);
    dtrt_array arrays[] = NET_ARRAYS(batch);
    double loss;
    dt_status *status = dtrt_open(scratch_path("net.dtx"), NULL, &program);
    if (status == NULL) status = dtrt_session_create(program, NULL, &session);
    if (status == NULL) status = dtrt_initialize(session);
    if (status == NULL) status = dtrt_step(session, net_train, arrays, 0);
    if (status == NULL) status = dtrt_report(session, net_train, "loss", &loss);
    dt_status *end = dtrt_session_destroy(session);
    assert_null(end);
    dtrt_close(program);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    int n = 0;
    for (bool done = false; !done; n++) {
        dt_memory_fail_after(n);
        dt_status *status = run_once();
        dt_memory_fail_after(-1);
        done = status == NULL;
        if (!done) assert_int_equal(status->code, DT_RESOURCE_EXHAUSTED);
        dtrt_status_free(status);
    }
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_any_strides_give_the_same_bits),
        cmocka_unit_test(buffers_filled_in_place_give_the_same_bits),
        cmocka_unit_test(a_callback_feeds_reads_and_stops_but_does_not_step),
        cmocka_unit_test(reports_totals_and_results_are_those_of_the_step),
        cmocka_unit_test(variables_are_read_written_and_seen_in_place),
        cmocka_unit_test(a_forward_only_session_has_no_slots_and_predicts_the_same),
        cmocka_unit_test(an_older_smaller_struct_means_defaults_for_the_rest),
        cmocka_unit_test(sessions_in_threads_are_independent),
        cmocka_unit_test(a_process_that_nobody_launched_is_a_run_of_one),
        cmocka_unit_test(a_session_that_two_threads_use_at_once_is_an_error),
        cmocka_unit_test(a_session_after_fork_is_an_error_in_the_child),
        cmocka_unit_test(each_wrong_use_is_an_error),
        cmocka_unit_test(the_program_lives_as_long_as_a_session_needs_it),
        cmocka_unit_test(a_text_is_of_the_file_that_was_opened),
        cmocka_unit_test(an_event_that_lacks_its_lists_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, net_open, net_close);
}
