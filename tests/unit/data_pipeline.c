/* pipeline: batches of the right examples in the right order, whatever the threads; what a step may be given; what goes wrong; the parts of several
 * processes.
 *
 * Compiled functions are not what is tested here: this file has its own dt_kernels and dt_example_function, which take the place of the library's.
 * Function 0 maps (u8[2], u8) to (f32 = 100 * first element + number, u8), function 1 keeps even labels, function 2 looks up a bad index, function 6
 * keeps even labels and looks up a bad index. */
#include "base/memory.h"
#include "runtime/data/permutation.h"
#include "runtime/data/pipeline.h"
#include "runtime/execution/example_function.h"
#include "tests/unit/scratch_folder.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct dt_kernels {
    dt_artifact artifact;
};

struct dt_example_function {
    int function;
    float number;
    unsigned char byte;
    dt_bad_index bad;
};

static _Atomic int n_calls, call_that_waits = -1; /* until it is -1 again */

const dt_artifact *dt_kernels_artifact(const dt_kernels *kernels) { return &kernels->artifact; }

dt_status *dt_example_function_create(const dt_kernels *kernels, int function, dt_example_function **instance) {
    (void)kernels;
    *instance = dt_allocate_zeroed(1, sizeof **instance);
    if (*instance == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    (*instance)->function = function;
    return NULL;
}

void dt_example_function_destroy(dt_example_function *instance) { dt_release(instance); }

void dt_example_function_call(dt_example_function *instance, const void *const *inputs, int64_t counter, int64_t seed) {
    const unsigned char *image = inputs[0], *label = inputs[1];
    for (int number = n_calls++; number == call_that_waits;) usleep(1000);
    instance->number = 100.0f * image[0] + (float)counter + (float)(seed == (int64_t)dt_key_join(5, 1)) * 1e6f;
    bool filters = instance->function == 1 || instance->function == 6;
    instance->byte = filters ? *label % 2 == 0 : *label;
    if ((instance->function == 2 || instance->function == 6) && *label == 7)
        instance->bad = (dt_bad_index){.count = instance->bad.count + 1, .value = 12, .location = 0, .limit = 10};
}

const void *dt_example_function_result(const dt_example_function *instance, int i) {
    return instance->function != 1 && instance->function != 6 && i == 0 ? (const void *)&instance->number : &instance->byte;
}

const dt_bad_index *dt_example_function_bad_index(const dt_example_function *instance) { return &instance->bad; }

static const int64_t pair[] = {2}, pair_rows[] = {DT_ROWS, 2}, other_rows[] = {DT_ROWS, 3};

#define TENSOR(input, type, n, shape, rows)                                                                                                          \
    { .name = input, .dtype = type, .n_dims = n, .dims = shape, .has_rows = rows }
static const dt_artifact_tensor example_inputs[] = {TENSOR("image", DT_U8, 1, pair, false), TENSOR("label", DT_U8, 0, NULL, false)};
static const dt_artifact_tensor step_inputs[] = {TENSOR("image", DT_U8, 2, pair_rows, true), TENSOR("label", DT_U8, 1, pair_rows, true)};
static const dt_artifact_tensor other_inputs[] = {TENSOR("image", DT_U8, 2, other_rows, true), TENSOR("label", DT_U8, 1, pair_rows, true)};
static const dt_artifact_result map_results[] = {{.tensor = {.dtype = DT_F32, .row_bytes = 4}}, {.tensor = {.dtype = DT_U8, .row_bytes = 1}}};
static const dt_artifact_result filter_results[] = {{.tensor = {.dtype = DT_BOOL, .row_bytes = 1}}};
static const dt_artifact_function functions[] = {
    {.name = "map", .n_inputs = 2, .inputs = example_inputs, .n_results = 2, .results = map_results},
    {.name = "filter", .n_inputs = 2, .inputs = example_inputs, .n_results = 1, .results = filter_results},
    {.name = "bad", .n_inputs = 2, .inputs = example_inputs, .n_results = 2, .results = map_results},
    {.name = "step", .n_inputs = 2, .inputs = step_inputs},
    {.name = "other", .n_inputs = 2, .inputs = other_inputs},
    {.name = "one", .n_inputs = 1, .inputs = step_inputs},
    {.name = "bad filter", .n_inputs = 2, .inputs = example_inputs, .n_results = 1, .results = filter_results},
};
static const dt_artifact_step steps[] = {{.name = "step", .function = 3}, {.name = "other", .function = 4}, {.name = "one", .function = 5}};
static const dt_artifact_location locations[] = {{"gpt.dt", 14, 9}};

static dt_artifact_argument arguments[8][2];
static dt_artifact_stage stages[8];
static dt_artifact_pipeline written = {.name = "train_set", .stages = stages};
static dt_kernels kernels = {.artifact = {.name = "test",
                                          .n_functions = 7,
                                          .functions = functions,
                                          .n_steps = 3,
                                          .steps = steps,
                                          .n_locations = 1,
                                          .locations = locations,
                                          .n_pipelines = 1,
                                          .pipelines = &written}};

/* Example i: image (i % 256, i / 256), label i % 10. The images are gzipped, or lie there plain. */
static void write_files(int n, bool plain) {
    static unsigned char images[12 + 2 * 2000], labels[8 + 2000];
    const unsigned char counts[] = {0, 0, (unsigned char)(n >> 8), (unsigned char)n};
    memcpy(images, "\0\0\x08\2", 4), memcpy(images + 4, counts, 4), memcpy(images + 8, "\0\0\0\2", 4);
    memcpy(labels, "\0\0\x08\1", 4), memcpy(labels + 4, counts, 4);
    for (int i = 0; i < n; i++) {
        images[12 + 2 * i] = (unsigned char)i;
        images[12 + 2 * i + 1] = (unsigned char)(i >> 8);
        labels[8 + i] = (unsigned char)(i % 10);
    }
    unlink(scratch_path("images.gz"));
    if (plain)
        scratch_write("images", images, 12 + 2 * (size_t)n);
    else
        scratch_write_gzip("images.gz", images, 12 + 2 * (size_t)n);
    scratch_write("labels", labels, 8 + (size_t)n);
}

static void write_examples(int n) { write_files(n, false); }

/* idx("images.gz", "labels"), then "shuffle:5 map:0 batch:3". */
static void write_pipeline(const char *text) {
    static char kinds[8][16];
    arguments[0][0] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = "images.gz"};
    arguments[0][1] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = "labels"};
    stages[0] = (dt_artifact_stage){.kind = "idx", .n_arguments = 2, .arguments = arguments[0]};
    int n = 1;
    for (int length; *text != 0; text += length, n++) {
        int64_t count = -1;
        length = 0;
        if (sscanf(text, " %15[a-z]:%ld%n", kinds[n], &count, &length) < 2) sscanf(text, " %15[a-z]%n", kinds[n], &length);
        bool calls = strcmp(kinds[n], "map") == 0 || strcmp(kinds[n], "filter") == 0;
        arguments[n][0] = (dt_artifact_argument){.kind = calls ? DT_ARGUMENT_FUNCTION : DT_ARGUMENT_INT, .integer = count, .function = (int)count};
        stages[n] = (dt_artifact_stage){.kind = kinds[n], .n_arguments = count >= 0, .arguments = arguments[n]};
    }
    written.n_stages = n;
}

static dt_status *open_pipeline(const char *text, int64_t replicas, int threads, dt_pipeline **pipeline) {
    write_pipeline(text);
    return dt_pipeline_open(&kernels, &written, &(dt_pipeline_options){.folder = scratch, .replicas = replicas, .seed = 5, .threads = threads},
                            pipeline);
}

/* All of an epoch from `position`: component i appended to texts[i]; batch sizes to `sizes`. Returns the number of examples. */
static int64_t drain(dt_pipeline *pipeline, int64_t epoch, int64_t position, unsigned char *images, unsigned char *labels, char *sizes) {
    dt_pipeline_batch batch;
    int64_t n = 0;
    assert_ok(dt_pipeline_start(pipeline, epoch, position));
    for (;;) {
        assert_ok(dt_pipeline_next(pipeline, &batch));
        if (batch.rows == 0) break;
        memcpy(images + 2 * n, batch.inputs[0], 2 * (size_t)batch.rows);
        memcpy(labels + n, batch.inputs[1], (size_t)batch.rows);
        n += batch.rows;
        assert_int_equal(dt_pipeline_position(pipeline), position + n);
        if (sizes != NULL) sizes += sprintf(sizes, "%ld ", batch.rows);
    }
    assert_ok(dt_pipeline_next(pipeline, &batch)); /* the end stays the end */
    assert_int_equal(batch.rows, 0);
    return n;
}

static void batches_hold_their_examples(void **state) {
    (void)state;
    static unsigned char images[4000], labels[2000];
    char sizes[1000];
    write_examples(1000);
    dt_pipeline *pipeline;
    assert_ok(open_pipeline("batch:64 prefetch:2", 2, 0, &pipeline));
    assert_ok(dt_pipeline_check(pipeline, 0));
    assert_int_equal(dt_pipeline_global_batch(pipeline), 128);
    assert_int_equal(dt_pipeline_n_examples(pipeline), 1000);
    assert_int_equal(dt_pipeline_n_batches(pipeline), 8);
    assert_int_equal(drain(pipeline, 0, 0, images, labels, sizes), 1000);
    assert_string_equal(sizes, "128 128 128 128 128 128 128 104 ");
    for (int i = 0; i < 1000; i++) assert_true(images[2 * i] == i % 256 && images[2 * i + 1] == i / 256 && labels[i] == i % 10);
    dt_pipeline_close(pipeline);
    assert_ok(open_pipeline("take:256 batch:64", 2, 0, &pipeline));
    drain(pipeline, 0, 0, images, labels, sizes);
    assert_string_equal(sizes, "128 128 ");
    dt_pipeline_close(pipeline);
    assert_int_equal(dt_pipeline_rows(&written), 64);
}

static void threads_and_batches_do_not_change_the_stream(void **state) {
    (void)state;
    static unsigned char images[4][4000], labels[4][2000];
    write_examples(1000);
    const char *texts[] = {"shuffle:1000 batch:7 prefetch:3", "filter:1 shuffle:50 repeat:2 batch:7 prefetch:3"};
    for (int t = 0; t < 2; t++) {
        dt_pipeline *pipeline;
        assert_ok(open_pipeline(texts[t], 1, 1, &pipeline));
        int64_t n = drain(pipeline, 1, 0, images[0], labels[0], NULL);
        assert_int_equal(n, 1000);
        assert_int_equal(dt_pipeline_n_examples(pipeline), n);
        assert_int_equal(drain(pipeline, 1, 333, images[1], labels[1], NULL), n - 333);
        assert_memory_equal(images[1], images[0] + 2 * 333, 2 * (size_t)(n - 333));
        drain(pipeline, 2, 0, images[1], labels[1], NULL);
        assert_memory_not_equal(images[1], images[0], 2 * (size_t)n);
        dt_pipeline_close(pipeline);
        assert_ok(open_pipeline(texts[t], 5, 4, &pipeline)); /* other threads, another global batch */
        drain(pipeline, 1, 0, images[1], labels[1], NULL);
        assert_memory_equal(images[1], images[0], 2 * (size_t)n);
        assert_memory_equal(labels[1], labels[0], (size_t)n);
        dt_pipeline_close(pipeline);
    }
}

static void an_epoch_can_be_left_early(void **state) {
    (void)state;
    static unsigned char images[4000], labels[2000];
    write_examples(500);
    dt_pipeline *pipeline;
    assert_ok(open_pipeline("shuffle:500 batch:8 prefetch:4", 1, 3, &pipeline));
    for (int i = 0; i < 50; i++) {
        dt_pipeline_batch batch;
        assert_ok(dt_pipeline_start(pipeline, i, i));
        for (int k = 0; k < i % 5; k++) assert_ok(dt_pipeline_next(pipeline, &batch));
    }
    assert_int_equal(drain(pipeline, 0, 0, images, labels, NULL), 500);
    dt_pipeline_close(pipeline);
}

static atomic_int stop;

/* Batch `number` of the epoch, of seven examples, as an epoch in order has it. */
static void expect_picked(dt_pipeline *pipeline, int64_t number, int64_t rows, const unsigned char *images) {
    dt_pipeline_batch batch;
    assert_ok(dt_pipeline_next(pipeline, &batch));
    assert_int_equal(batch.rows, rows);
    assert_memory_equal(batch.inputs[0], images + 14 * number, 2 * (size_t)rows);
    assert_int_equal(dt_pipeline_position(pipeline), 7 * number + rows);
}

static void batches_are_picked_in_any_order(void **state) {
    (void)state;
    static unsigned char images[4000], labels[2000];
    const char *texts[] = {"shuffle:100 batch:7 prefetch:3", "filter:1 shuffle:50 repeat:2 batch:7 prefetch:3"}; /* the second one is walked */
    write_examples(100);
    for (int t = 0; t < 2; t++) {
        dt_pipeline *pipeline;
        dt_pipeline_batch batch;
        assert_ok(open_pipeline(texts[t], 1, 3, &pipeline));
        assert_int_equal(drain(pipeline, 1, 0, images, labels, NULL), 100);
        assert_ok(dt_pipeline_start_picking(pipeline, 1));
        const int64_t numbers[] = {0, 3, 4, 11, 2, 2, 13, 1, 0};
        int n = sizeof numbers / sizeof *numbers;
        dt_pipeline_pick(pipeline, numbers[0]);
        for (int i = 0; i < n; i++) { /* one ahead */
            if (i + 1 < n) dt_pipeline_pick(pipeline, numbers[i + 1]);
            expect_picked(pipeline, numbers[i], 7, images);
        }
        dt_pipeline_pick(pipeline, 14); /* the last one is short */
        expect_picked(pipeline, 14, 2, images);
        dt_pipeline_pick(pipeline, 15); /* there is none */
        assert_ok(dt_pipeline_next(pipeline, &batch));
        assert_int_equal(batch.rows, 0);
        dt_pipeline_pick(pipeline, 5);
        expect_picked(pipeline, 5, 7, images);
        drain(pipeline, 1, 0, images, labels, NULL); /* and in order again */
        dt_pipeline_close(pipeline);
    }
}

static void *stop_soon(void *unused) {
    usleep(50000);
    stop = SIGTERM;
    return unused;
}

static void *go_on_soon(void *unused) {
    usleep(300000);
    call_that_waits = -1;
    return unused;
}

static void a_wait_is_stopped_and_a_batch_given_up(void **state) {
    (void)state;
    dt_pipeline *pipeline;
    dt_pipeline_batch batch;
    pthread_t thread;
    write_examples(2000);
    write_pipeline("map:0 batch:500");
    assert_ok(dt_pipeline_open(&kernels, &written, &(dt_pipeline_options){.folder = scratch, .replicas = 1, .threads = 1, .stop = &stop}, &pipeline));
    n_calls = 0;
    call_that_waits = 510;
    assert_ok(dt_pipeline_start(pipeline, 0, 0));
    assert_ok(dt_pipeline_next(pipeline, &batch));
    assert_true(batch.rows == 500 && !batch.stopped);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    assert_ok(dt_pipeline_next(pipeline, &batch));
    assert_true(batch.rows == 0 && batch.stopped && call_that_waits == 510);
    pthread_join(thread, NULL);
    stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, go_on_soon, NULL), 0);
    dt_pipeline_close(pipeline);
    pthread_join(thread, NULL);
    assert_int_equal(n_calls, 511);
}

/* Rows of the batch that comes next, once that is known. */
static int64_t wait_for_marks(dt_pipeline *pipeline, dt_folded_marks *marks) {
    int64_t rows = -1;
    for (int i = 0; i < 10000 && rows < 0; i++, usleep(1000)) rows = dt_pipeline_fold_marks(pipeline, true, marks);
    return rows;
}

static void marks_are_known_ahead(void **state) {
    (void)state;
    dt_pipeline *pipeline;
    dt_pipeline_batch batch;
    dt_folded_marks ahead, before = {{0}}, marks;
    write_examples(100);
    write_pipeline("shuffle:100 batch:7 prefetch:1");
    dt_pipeline_options options = {.folder = scratch, .replicas = 1, .seed = 5, .marks = true};
    assert_ok(dt_pipeline_open(&kernels, &written, &options, &pipeline));
    assert_ok(dt_pipeline_start(pipeline, 0, 0));
    for (int i = 0; i < 15; i++) {
        int64_t rows = wait_for_marks(pipeline, &ahead);
        assert_memory_not_equal(&ahead, &before, sizeof ahead);
        if (i > 0) assert_int_equal(dt_pipeline_fold_marks(pipeline, false, &marks), 7);
        if (i > 0) assert_memory_equal(&marks, &before, sizeof marks);
        assert_ok(dt_pipeline_next(pipeline, &batch));
        assert_int_equal(batch.rows, i < 14 ? 7 : 2);
        assert_int_equal(rows, batch.rows);
        assert_int_equal(dt_pipeline_fold_marks(pipeline, false, &before), rows);
        assert_memory_equal(&ahead, &before, sizeof ahead);
    }
    assert_int_equal(wait_for_marks(pipeline, &ahead), 0);
    assert_ok(dt_pipeline_next(pipeline, &batch));
    assert_int_equal(dt_pipeline_fold_marks(pipeline, false, &marks), 0);
    dt_pipeline_close(pipeline);

    write_pipeline("map:2 batch:5 prefetch:1"); /* the batch that will fail */
    assert_ok(dt_pipeline_open(&kernels, &written, &options, &pipeline));
    assert_ok(dt_pipeline_start(pipeline, 0, 0));
    assert_ok(dt_pipeline_next(pipeline, &batch));
    usleep(20000);
    assert_int_equal(dt_pipeline_fold_marks(pipeline, true, &marks), -1);
    assert_fails(dt_pipeline_next(pipeline, &batch), DT_OUT_OF_RANGE, "index 12 is not within 0 to 9");
    assert_int_equal(dt_pipeline_fold_marks(pipeline, false, &marks), -1);
    dt_pipeline_close(pipeline);
}

static void maps_run_and_caches_keep(void **state) {
    (void)state;
    write_examples(40);
    dt_pipeline *pipeline;
    dt_pipeline_batch batch;
    assert_ok(open_pipeline("skip:3 map:0 batch:4", 1, 2, &pipeline));
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        assert_ok(dt_pipeline_start(pipeline, epoch, 0));
        assert_ok(dt_pipeline_next(pipeline, &batch));
        assert_ok(dt_pipeline_next(pipeline, &batch));
        const float *numbers = batch.inputs[0];
        assert_true(numbers[1] == 100 * (3 + 5) + 5 + (float)epoch * 1e6f); /* row 8 of the source, number 5 here; the seed is of the epoch */
        assert_int_equal(((const unsigned char *)batch.inputs[1])[1], 8);
    }
    assert_fails(dt_pipeline_check(pipeline, 0), DT_INVALID_ARGUMENT, "is f32 here, but step step takes image: u8[B, 2]");
    dt_pipeline_close(pipeline);

    n_calls = 0;
    assert_ok(open_pipeline("map:0 cache shuffle:40 repeat:2 batch:4", 1, 2, &pipeline));
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        double sum = 0;
        assert_ok(dt_pipeline_start(pipeline, epoch, 0));
        for (;;) {
            assert_ok(dt_pipeline_next(pipeline, &batch));
            if (batch.rows == 0) break;
            for (int i = 0; i < batch.rows; i++) sum += (double)((const float *)batch.inputs[0])[i];
        }
        assert_true(sum == 2 * 101.0 * 39 * 40 / 2);
    }
    assert_in_range(n_calls, 40, 80); /* two threads may both want a row that is not there yet */
    dt_pipeline_close(pipeline);
}

static void a_step_that_does_not_fit_is_refused(void **state) {
    (void)state;
    write_examples(10);
    dt_pipeline *pipeline;
    assert_ok(open_pipeline("batch:4", 1, 1, &pipeline));
    assert_fails(dt_pipeline_check(pipeline, 1), DT_INVALID_ARGUMENT,
                 "images.gz: an example of data train_set is u8[2] here, but step other takes image: u8[B, 3]");
    assert_fails(dt_pipeline_check(pipeline, 2), DT_INVALID_ARGUMENT, "an example has 2 components, but step one takes 1 input");
    dt_pipeline_close(pipeline);
    assert_fails(open_pipeline("map:0 map:0 batch:4", 1, 1, &pipeline), DT_INVALID_ARGUMENT,
                 "component 1 of an example is f32, but map() of data train_set takes image: u8[2]");
}

static void wrong_pipelines_are_refused(void **state) {
    (void)state;
    write_examples(10);
    const struct {
        const char *text, *part;
    } wrong[] = {
        {"shuffle:10", "data train_set: ends without batch(n)"},
        {"prefetch:1 batch:4", "prefetch() must stand after batch()"},
        {"batch:4 shuffle:10", "shuffle() must stand before batch()"},
        {"shuffle:9 cache batch:4", "cache() must stand before shuffle()"},
        {"shuffle batch:4", "shuffle(n) takes a whole number, 1 or more"},
        {"batch:0", "batch(n) takes a whole number"},
        {"cache:1 batch:2", "cache() takes 0 arguments, here are 1"},
        {"skip:10 batch:2", "no example is left of 10"},
        {"filter:0 batch:2", "must give one bool"},
    };
    dt_pipeline *pipeline;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(open_pipeline(wrong[i].text, 1, 1, &pipeline), DT_INVALID_ARGUMENT, wrong[i].part);
    assert_fails(open_pipeline("sort batch:4", 1, 1, &pipeline), DT_UNIMPLEMENTED, "has no stage sort");
    assert_fails(open_pipeline("batch:2147483648", 4, 1, &pipeline), DT_INVALID_ARGUMENT, "batch(n) takes at most 2147483647");
    dt_pipeline_options options = {.folder = scratch, .replicas = 4, .threads = 1, .rows = INT64_MAX};
    write_pipeline("batch:4");
    assert_fails(dt_pipeline_open(&kernels, &written, &options, &pipeline), DT_INVALID_ARGUMENT, "make no batch");
    options.replicas = 1;
    assert_fails(dt_pipeline_open(&kernels, &written, &options, &pipeline), DT_RESOURCE_EXHAUSTED, "out of memory for 2 batches");
}

/* Reads an epoch to its end or its failure. */
static dt_status *read_epoch(const char *text, bool ignore, int64_t *n_bad) {
    dt_pipeline *pipeline;
    dt_pipeline_batch batch = {.rows = 1};
    write_pipeline(text);
    DT_TRY(dt_pipeline_open(&kernels, &written, &(dt_pipeline_options){.folder = scratch, .replicas = 1, .threads = 2, .ignore_bad_index = ignore},
                            &pipeline));
    dt_status *status = dt_pipeline_start(pipeline, 0, 0);
    while (status == NULL && batch.rows > 0) status = dt_pipeline_next(pipeline, &batch);
    if (status != NULL) assert_fails(dt_pipeline_next(pipeline, &batch), DT_FAILED_PRECONDITION, "failed before");
    if (n_bad != NULL) *n_bad = dt_pipeline_bad_indices(pipeline);
    dt_pipeline_close(pipeline);
    return status;
}

static void bad_indices_and_damaged_files_end_the_epoch(void **state) {
    (void)state;
    int64_t n_bad;
    write_examples(40);
    assert_fails(read_epoch("skip:2 map:2 batch:4", false, NULL), DT_OUT_OF_RANGE,
                 "gpt.dt:14:9: map() of data train_set, example 5: index 12 is not within 0 to 9");
    assert_ok(read_epoch("map:2 batch:4", true, &n_bad));
    assert_int_equal(n_bad, 4);
    scratch_write("labels",
                  "\0\0\x08\1\0\0\0\x28"
                  "0123456789",
                  18);
    assert_fails(read_epoch("take:4 batch:4", false, NULL), DT_DATA_LOSS, "labels: the file is truncated or altered");
    assert_fails(read_epoch("shuffle:40 batch:4", false, NULL), DT_DATA_LOSS, "labels: the file is truncated or altered");
}

/* ---- parts ---- */

enum {
    MOST_PARTS = 5,
    BATCH = 14 /* of two replicas */
};

/* How 1 to 5 processes may hold runs of microbatches: cuts within replicas, parts of one row, parts without any. */
static const int64_t cuts[][MOST_PARTS + 1] = {{0, 14}, {0, 9, 14}, {0, 1, 1, 14}, {0, 5, 6, 13, 14}, {0, 3, 3, 7, 12, 14}};

static dt_status *open_part(const char *text, dt_row_range part, dt_pipeline **pipeline) {
    write_pipeline(text);
    dt_pipeline_options options = {.folder = scratch, .replicas = 2, .seed = 5, .threads = 2, .part = part, .ignore_bad_index = true};
    return dt_pipeline_open(&kernels, &written, &options, pipeline);
}

/* Reads an epoch from `position`, batch by batch: the rows of the parts in order are those of the whole. */
static void assert_same_batches(dt_pipeline *whole, dt_pipeline *const *parts, int n_parts, size_t image_bytes, int64_t position) {
    const size_t row_bytes[] = {image_bytes, 1};
    dt_pipeline_batch batch = {.rows = 1}, own;
    assert_ok(dt_pipeline_start(whole, 1, position));
    for (int p = 0; p < n_parts; p++) assert_ok(dt_pipeline_start(parts[p], 1, position));
    while (batch.rows > 0) {
        assert_ok(dt_pipeline_next(whole, &batch));
        for (int p = 0; p < n_parts; p++) {
            dt_row_range range = {cuts[n_parts - 1][p], cuts[n_parts - 1][p + 1]};
            size_t n = (size_t)dt_row_range_valid(range, batch.rows);
            assert_ok(dt_pipeline_next(parts[p], &own));
            assert_int_equal(own.rows, batch.rows);
            assert_int_equal(dt_pipeline_position(parts[p]), dt_pipeline_position(whole));
            for (int i = 0; i < 2 && n > 0; i++)
                assert_memory_equal(own.inputs[i], (const char *)batch.inputs[i] + (size_t)range.first * row_bytes[i], n * row_bytes[i]);
        }
    }
}

static void check_parts(const char *text, int n_parts) {
    dt_pipeline *whole, *parts[MOST_PARTS];
    assert_ok(open_part(text, (dt_row_range){0}, &whole));
    for (int p = 0; p < n_parts; p++) {
        assert_ok(open_part(text, (dt_row_range){cuts[n_parts - 1][p], cuts[n_parts - 1][p + 1]}, &parts[p]));
        assert_int_equal(dt_pipeline_n_examples(parts[p]), dt_pipeline_n_examples(whole));
        assert_int_equal(dt_pipeline_n_batches(parts[p]), dt_pipeline_n_batches(whole));
        assert_int_equal(dt_pipeline_global_batch(parts[p]), BATCH);
    }
    for (int64_t position = 0; position <= dt_pipeline_n_examples(whole); position++)
        assert_same_batches(whole, parts, n_parts, strstr(text, "map") != NULL ? 4 : 2, position);
    for (int p = 0; p < n_parts; p++) dt_pipeline_close(parts[p]);
    dt_pipeline_close(whole);
}

static void parts_are_the_whole(void **state) {
    (void)state;
    const char *texts[] = {"batch:7",
                           "shuffle:60 batch:7",
                           "shuffle:9 batch:7 prefetch:3",
                           "filter:1 batch:7",
                           "map:0 shuffle:60 batch:7",
                           "skip:3 shuffle:60 map:0 repeat:3 take:100 batch:7",
                           "map:0 cache shuffle:60 repeat:2 batch:7",
                           "skip:3 filter:1 map:0 batch:7",
                           "filter:1 cache map:0 shuffle:100 batch:7"};
    for (int plain = 0; plain < 2; plain++) {
        write_files(47, plain);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            for (int n_parts = 1; n_parts <= MOST_PARTS; n_parts++) check_parts(texts[t], n_parts);
    }
}

static int64_t count_bad_indices(const char *text, dt_row_range part) {
    dt_pipeline *pipeline;
    dt_pipeline_batch batch = {.rows = 1};
    assert_ok(open_part(text, part, &pipeline));
    assert_ok(dt_pipeline_start(pipeline, 0, 0));
    while (batch.rows > 0) assert_ok(dt_pipeline_next(pipeline, &batch));
    int64_t n = dt_pipeline_bad_indices(pipeline);
    dt_pipeline_close(pipeline);
    return n;
}

static void bad_indices_of_parts_add_up(void **state) {
    (void)state;
    write_files(47, true);
    const char *texts[] = {"map:2 batch:7", "shuffle:47 map:2 batch:7", "filter:6 batch:7", "filter:6 cache batch:7"};
    for (int t = 0; t < 4; t++) {
        int64_t whole = count_bad_indices(texts[t], (dt_row_range){0}), sum = 0;
        assert_true(whole >= 4);
        for (int p = 0; p < 4; p++) sum += count_bad_indices(texts[t], (dt_row_range){cuts[3][p], cuts[3][p + 1]});
        assert_int_equal(sum, whole);
    }
}

static void what_is_read_whole_is_said(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool plain;
        const char *said; /* @: the folder */
    } cases[] = {
        {"shuffle:47 map:0 batch:7", true, ""},
        {"map:0 cache batch:7", true, ""},
        {"batch:7", false,
         "data train_set: each process reads the whole of @/images.gz (single rows can be read from idx, npy and bytes that are not compressed)"},
        {"filter:1 shuffle:99 batch:7", true,
         "data train_set: each process reads the whole of all its files (filter() is applied to every example), and walks the order of all examples "
         "(no position in it can be computed)"},
        {"shuffle:9 batch:7", true, "data train_set: each process walks the order of all examples (no position in it can be computed)"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_pipeline *pipeline;
        dt_text said = {0}, wanted = {0};
        write_files(47, cases[c].plain);
        for (const char *at = cases[c].said; *at != 0; at++) {
            if (*at == '@')
                dt_text_append(&wanted, scratch);
            else
                dt_text_append_bytes(&wanted, at, 1);
        }
        assert_ok(open_part(cases[c].text, (dt_row_range){0}, &pipeline));
        dt_pipeline_print_whole(pipeline, &said);
        assert_int_equal(said.n, 0); /* for this one makes all */
        dt_pipeline_close(pipeline);
        assert_ok(open_part(cases[c].text, (dt_row_range){3, 7}, &pipeline));
        dt_pipeline_print_whole(pipeline, &said);
        assert_string_equal(said.n > 0 ? said.data : "", wanted.n > 0 ? wanted.data : "");
        dt_pipeline_close(pipeline);
        dt_text_free(&said);
        dt_text_free(&wanted);
    }
}

/* Bytes that this process has read, by /proc. */
static int64_t bytes_read(void) {
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    long long n;
    int n_read = fscanf(file, "rchar: %lld", &n);
    fclose(file);
    assert_int_equal(n_read, 1);
    return n;
}

static void a_part_reads_its_rows_alone(void **state) {
    (void)state;
    enum {
        N_EXAMPLES = 60000,
        ROW_BYTES = 784,
        ROWS = 120
    };
    static const unsigned char images[] = {0, 0, 8, 2, 0, 0, N_EXAMPLES >> 8, N_EXAMPLES & 255, 0, 0, ROW_BYTES >> 8, ROW_BYTES & 255};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, N_EXAMPLES >> 8, N_EXAMPLES & 255};
    unlink(scratch_path("images.gz"));
    scratch_write("images", images, sizeof images);
    scratch_write("labels", labels, sizeof labels);
    assert_int_equal(truncate(scratch_path("images"), (off_t)sizeof images + N_EXAMPLES * ROW_BYTES), 0);
    assert_int_equal(truncate(scratch_path("labels"), (off_t)sizeof labels + N_EXAMPLES), 0);
    const char *texts[] = {"batch:120", "shuffle:60000 batch:120", "shuffle:100 batch:120", "skip:480 batch:120"};
    const int64_t n_examples[] = {N_EXAMPLES, N_EXAMPLES, N_EXAMPLES, N_EXAMPLES - 480};
    for (int t = 0; t < 4; t++)
        for (int64_t p = 0; p < 4; p++) {
            dt_pipeline *pipeline;
            dt_pipeline_batch batch = {.rows = 1};
            write_pipeline(texts[t]);
            dt_pipeline_options options = {.folder = scratch, .replicas = 4, .threads = 1, .part = {p * ROWS, (p + 1) * ROWS}};
            int64_t before = bytes_read(), looking = bytes_read() - before;
            before = bytes_read();
            assert_ok(dt_pipeline_open(&kernels, &written, &options, &pipeline));
            assert_ok(dt_pipeline_start(pipeline, 0, 0));
            while (batch.rows > 0) assert_ok(dt_pipeline_next(pipeline, &batch));
            int64_t n = bytes_read() - before - looking;
            assert_in_range(n, n_examples[t] / 4 * (ROW_BYTES + 1),
                            n_examples[t] / 4 * (ROW_BYTES + 1) + (int64_t)(sizeof images + sizeof labels) + 64);
            dt_pipeline_close(pipeline);
        }
}

/* 64 GiB that take no place on the disk. */
static void a_part_of_more_than_memory_holds(void **state) {
    (void)state;
    static const unsigned char images[] = {0, 0, 8, 2, 0, 16, 0, 0, 0, 1, 0, 0}, labels[] = {0, 0, 8, 1, 0, 16, 0, 0};
    const int64_t n_examples = 1 << 20, row_bytes = 1 << 16;
    unlink(scratch_path("images.gz"));
    scratch_write("images", images, sizeof images);
    scratch_write("labels", labels, sizeof labels);
    assert_int_equal(truncate(scratch_path("images"), (off_t)sizeof images + n_examples * row_bytes), 0);
    assert_int_equal(truncate(scratch_path("labels"), (off_t)sizeof labels + n_examples), 0);
    dt_pipeline *pipeline;
    dt_pipeline_batch batch;
    assert_ok(open_part("shuffle:1048576 batch:7", (dt_row_range){5, 6}, &pipeline));
    assert_int_equal(dt_pipeline_n_examples(pipeline), n_examples);
    assert_ok(dt_pipeline_start(pipeline, 0, n_examples - 30));
    for (int i = 0; i < 2; i++) {
        assert_ok(dt_pipeline_next(pipeline, &batch));
        assert_int_equal(batch.rows, BATCH);
    }
    dt_pipeline_close(pipeline);
}

static void a_file_that_shrinks_ends_the_epoch(void **state) {
    (void)state;
    write_files(2000, true);
    dt_pipeline *pipeline;
    dt_pipeline_batch batch = {.rows = 1};
    assert_ok(open_part("batch:7", (dt_row_range){5, 9}, &pipeline));
    assert_int_equal(truncate(scratch_path("images"), 12 + 2 * 1000 + 1), 0); /* in row 1000 = 71 * 14 + 6 */
    assert_ok(dt_pipeline_start(pipeline, 0, 0));
    dt_status *status = NULL;
    int n_batches = 0;
    for (; status == NULL && batch.rows > 0; n_batches++) status = dt_pipeline_next(pipeline, &batch);
    assert_int_equal(n_batches, 72);
    assert_fails(status, DT_DATA_LOSS, "images: the file was truncated while it was in use: it ends before the end of row 1000 (from 0)");
    dt_pipeline_close(pipeline);
}

static void without_memory_opening_fails(void **state) {
    (void)state;
    write_examples(40);
    for (int n = 0;; n++) {
        dt_pipeline *pipeline;
        write_pipeline("map:0 cache shuffle:40 batch:4");
        dt_memory_fail_after(n);
        dt_pipeline_options options = {.folder = scratch, .replicas = 1, .threads = 1, .part = {1, 3}};
        dt_status *status = dt_pipeline_open(&kernels, &written, &options, &pipeline);
        dt_memory_fail_after(-1);
        if (status == NULL) {
            dt_pipeline_close(pipeline);
            assert_true(n > 20);
            return;
        }
        assert_null(pipeline);
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_hold_their_examples),
        cmocka_unit_test(threads_and_batches_do_not_change_the_stream),
        cmocka_unit_test(an_epoch_can_be_left_early),
        cmocka_unit_test(batches_are_picked_in_any_order),
        cmocka_unit_test(a_wait_is_stopped_and_a_batch_given_up),
        cmocka_unit_test(marks_are_known_ahead),
        cmocka_unit_test(maps_run_and_caches_keep),
        cmocka_unit_test(a_step_that_does_not_fit_is_refused),
        cmocka_unit_test(wrong_pipelines_are_refused),
        cmocka_unit_test(bad_indices_and_damaged_files_end_the_epoch),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(bad_indices_of_parts_add_up),
        cmocka_unit_test(what_is_read_whole_is_said),
        cmocka_unit_test(a_part_reads_its_rows_alone),
        cmocka_unit_test(a_part_of_more_than_memory_holds),
        cmocka_unit_test(a_file_that_shrinks_ends_the_epoch),
        cmocka_unit_test(without_memory_opening_fails),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
