/* artifact: what a good file becomes, and the sentence that each kind of bad one gets: truncated, altered, foreign, of another version, and every
 * promise of the manifest broken once. */
#include "runtime/artifact/artifact.h"

#include "abi/version.h"
#include "base/memory.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

static char *manifest, *object;
static size_t n_object;

static int make_line(void **state) {
    (void)state;
    fixture_line(&manifest, &object, &n_object);
    return 0;
}

static int remove_line(void **state) {
    (void)state;
    free(manifest);
    free(object);
    fixture_remove_folder();
    return 0;
}

static void expect_refused(const char *path, dt_code expected, const char *words) {
    dt_artifact *artifact;
    dt_status *status = dt_artifact_open(path, &artifact);
    assert_null(artifact);
    expect_error(status, expected, words);
}

/* ---- good ---- */

static void a_good_file_becomes_plain_structs(void **state) {
    (void)state;
    dt_artifact *artifact;
    const char *path = fixture_artifact("line.dtx", manifest, object, n_object);
    assert_null(dt_artifact_open(path, &artifact));
    assert_string_equal(artifact->path, path);
    assert_string_equal(artifact->name, "line");
    assert_int_equal(artifact->capacity, 4);
    assert_int_equal(artifact->microbatch_rows, 2);
    assert_int_equal(dt_artifact_microbatches(artifact, 1), 1);
    assert_int_equal(dt_artifact_microbatches(artifact, 2), 1);
    assert_int_equal(dt_artifact_microbatches(artifact, 3), 2);
    assert_int_equal(dt_artifact_microbatches(artifact, 5), 4); /* not 3: the tree over blocks is one of trees over each replica's */
    assert_int_equal(artifact->n_parameters, 3);
    assert_int_equal(artifact->n_trainable, 3);
    assert_int_equal(artifact->objects[0].n_bytes, n_object);
    assert_memory_equal(artifact->objects[0].bytes, object, n_object);
    assert_int_equal((uintptr_t)artifact->objects[0].bytes % 64, 0);
    assert_int_equal(dt_artifact_find_variable(artifact, "Line/n"), 1);
    assert_int_equal(dt_artifact_find_variable(artifact, "Line/none"), -1);
    const dt_artifact_function *train = &artifact->functions[dt_artifact_find_function(artifact, "train")];
    assert_int_equal(train->inputs[0].row_bytes, 12);
    assert_true(train->inputs[0].has_rows && !train->inputs[0].has_all_rows);
    assert_true(train->buffers[9].tensor.has_all_rows);
    assert_string_equal(train->kernels[0].lines, "line.dt:14");
    assert_int_equal(train->segments[0].collectives[3].kind, DT_COLLECTIVE_ALL_GATHER);
    const dt_artifact_step *step = &artifact->steps[dt_artifact_find_step(artifact, "train")];
    assert_int_equal(step->n_aggregates, 2);
    assert_int_equal(step->pipeline, 0);
    assert_true(step->trains);
    const dt_artifact_pipeline *data = &artifact->pipelines[dt_artifact_find_pipeline(artifact, "data")];
    assert_string_equal(data->stages[0].arguments[0].string, "line.npy");
    assert_int_equal(data->stages[1].arguments[0].function, dt_artifact_find_function(artifact, "data/map0"));
    assert_int_equal(data->stages[2].arguments[0].integer, INT64_MAX);
    assert_string_equal(data->stages[2].arguments[0].name, "n");
    dt_artifact_bytes bytes = dt_artifact_memory(artifact);
    assert_int_equal(bytes.shared, 20 + 192);
    assert_int_equal(bytes.core, 0);
    assert_int_equal(bytes.partial, 192);
    assert_int_equal(bytes.replica, 2 * 320); /* two blocks */
    dt_artifact_close(artifact);

    char *text;
    assert_null(dt_artifact_read_text(path, "program.dt", &text));
    assert_string_equal(text, "# a program\n");
    free(text);
    expect_error(dt_artifact_read_text(path, "program.c", &text), DT_DATA_LOSS, "the artifact has no member program.c");
    assert_null(text);
}

/* ---- not an artifact ---- */

static void a_foreign_file_is_told_apart(void **state) {
    (void)state;
    const char *path = fixture_path("foreign.dtx");
    expect_refused(fixture_path("missing.dtx"), DT_NOT_FOUND, "missing.dtx");
    assert_null(dt_file_write_atomic(path, "", 0));
    expect_refused(path, DT_DATA_LOSS, "this is not an artifact; `dtc compile` writes one");
    assert_null(dt_file_write_atomic(path, "model Cnn(image: u8[B, 28, 28])", 31));
    expect_refused(path, DT_DATA_LOSS, "this is not an artifact");
    fixture_write_zip(path, &(fixture_member){"word/document.xml", "<x/>", 4}, 1, 0);
    expect_refused(path, DT_DATA_LOSS, "it has no manifest.json");
    fixture_write_zip(path, &(fixture_member){"manifest.json", manifest, strlen(manifest)}, 1, 6);
    expect_refused(path, DT_DATA_LOSS, "is compressed");
    fixture_write_zip(path, &(fixture_member){"manifest.json", "{\"format\": 1", 12}, 1, 0);
    expect_refused(path, DT_DATA_LOSS, "this is not JSON");
    fixture_write_zip(path, &(fixture_member){"manifest.json", "[]", 2}, 1, 0);
    expect_refused(path, DT_DATA_LOSS, "expected an object, found an array");
    fixture_write_zip(path, &(fixture_member){"manifest.json", manifest, strlen(manifest)}, 1, 0);
    expect_refused(path, DT_DATA_LOSS, "the artifact has no member kernels.o");
}

/* ---- truncated, altered ---- */

static void a_truncated_file_is_refused_wherever_it_ends(void **state) {
    (void)state;
    char *bytes;
    size_t n_bytes;
    assert_null(dt_file_read(fixture_artifact("line.dtx", manifest, object, n_object), &bytes, &n_bytes));
    for (size_t n = 0; n < n_bytes; n += n < 200 || n + 200 > n_bytes ? 1 : 61) {
        dt_artifact *artifact;
        char *copy = malloc(n + 1); /* of its own, so that a sanitizer sees a read past its end */
        memcpy(copy, bytes, n);
        expect_error(dt_artifact_open_memory("line.dtx", copy, n, &artifact), DT_DATA_LOSS, "line.dtx: ");
        assert_null(artifact);
        free(copy);
    }
    free(bytes);
}

/* A changed byte is found, or was in a place that nobody reads (a time, the other member's name): then all is as it was. */
static void an_altered_file_is_refused_or_means_the_same(void **state) {
    (void)state;
    char *bytes;
    size_t n_bytes, n_same = 0, n_refused = 0;
    assert_null(dt_file_read(fixture_artifact("line.dtx", manifest, object, n_object), &bytes, &n_bytes));
    for (size_t at = 0; at < n_bytes; at += 3) {
        dt_artifact *artifact;
        bytes[at] ^= 0x21;
        dt_status *status = dt_artifact_open_memory("line.dtx", bytes, n_bytes, &artifact);
        bytes[at] ^= 0x21;
        if (status == NULL) {
            assert_memory_equal(artifact->objects[0].bytes, object, n_object);
            assert_int_equal(artifact->n_functions, 5);
        }
        n_same += status == NULL;
        n_refused += status != NULL;
        dt_status_free(status);
        dt_artifact_close(artifact);
    }
    assert_true(n_refused > 9 * n_same);
    free(bytes);
}

/* ---- manifests that break their promises ---- */

/* `of` with the first `old` after `after` replaced by `new`. */
static char *replace_in(const char *of, const char *after, const char *old, const char *new) {
    const char *place = strstr(of, after);
    place = place != NULL ? strstr(place, old) : NULL;
    if (place == NULL) fail_msg("the manifest has no %s after %s", old, after);
    dt_text text = {0};
    dt_text_append_bytes(&text, of, (size_t)(place - of));
    dt_text_append(&text, new);
    dt_text_append(&text, place + strlen(old));
    return dt_text_take(&text);
}

static char *replace(const char *after, const char *old, const char *new) { return replace_in(manifest, after, old, new); }

/* The manifest with two loops in its step, one in the other, and in the outer one a kernel that is given the iteration's column of x. */
static char *looped_manifest(void) {
    static const char *const edits[][2] = {
        {"\"buffers\": [", "\"loops\": [{\"trips\": 3}, {\"trips\": 2, \"around\": 0}], \"buffers\": ["},
        {"{\"name\": \"n\", \"space\": \"variable\", \"variable\": 1, \"dtype\": \"i64\", \"shape\": []}",
         "{\"name\": \"n\", \"space\": \"variable\", \"variable\": 1, \"dtype\": \"i64\", \"shape\": []}, "
         "{\"name\": \"column\", \"space\": \"input\", \"dtype\": \"f32\", \"shape\": [-1], \"view\": "
         "{\"of\": 0, \"loop\": 0, \"first\": 2, \"step\": -1, \"wrap\": 0, \"stride\": 4, \"strides\": [12]}}"},
        {"{\"name\": \"forward\", \"once\": false, \"divided\": false, \"buffers\": [0,",
         "{\"name\": \"forward\", \"loop\": 0, \"once\": false, \"divided\": false, \"buffers\": [14,"},
    };
    static const char step[] = "\"name\": \"train\"";
    char *text = replace(step, edits[0][0], edits[0][1]);
    for (size_t i = 1; i < sizeof edits / sizeof *edits; i++) {
        char *edited = replace_in(text, step, edits[i][0], edits[i][1]);
        free(text);
        text = edited;
    }
    return text;
}

static void loops_and_views_become_structs(void **state) {
    (void)state;
    dt_artifact *artifact;
    char *looped = looped_manifest();
    dt_status *status = dt_artifact_open(fixture_artifact("looped.dtx", looped, object, n_object), &artifact);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    const dt_artifact_function *train = &artifact->functions[dt_artifact_find_function(artifact, "train")];
    assert_int_equal(train->n_loops, 2);
    assert_int_equal(train->loops[1].trips, 2);
    assert_int_equal(train->loops[1].around, 0);
    assert_int_equal(train->kernels[0].loop, 0);
    assert_int_equal(train->kernels[1].loop, -1);
    assert_int_equal(train->buffers[14].root, 0);
    assert_int_equal(train->buffers[14].input, 0);
    assert_true(dt_artifact_loop_is_within(train, 1, 0) && !dt_artifact_loop_is_within(train, 0, 1));
    assert_int_equal(dt_artifact_runs(train, 1), 6);
    assert_int_equal(dt_artifact_n_launches(train, 1), train->n_kernels + 2);
    assert_int_equal(dt_artifact_shift(train, 14, (int64_t[]){0, 0}), 8);
    assert_int_equal(dt_artifact_shift(train, 14, (int64_t[]){2, 1}), 0);
    dt_artifact_close(artifact);
    free(looped);
}

static void broken_loops_have_their_sentences(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *sentence;
    } cases[] = {
        {"{\"trips\": 3}", "{\"trips\": 0}", "trips: expected at least 1, found 0"},
        {"\"trips\": 2", "\"trips\": 1000000000", "its body runs more than 2147483647 times"},
        {"{\"trips\": 3}", "{\"trips\": 4}", "a part that lies outside of its buffer of 24 bytes"},
        {"\"around\": 0", "\"around\": 1", "around: expected at most 0, found 1"},
        {"\"of\": 0,", "\"of\": 14,", "of: expected at most 13, found 14"},
        {"\"loop\": 0, \"first\"", "\"loop\": 2, \"first\"", "loop: expected at most 1, found 2"},
        {"\"first\": 2", "\"first\": 3", "a part that lies outside of its buffer of 24 bytes"},
        {"\"wrap\": 0", "\"wrap\": 2", "a part that lies outside of its buffer of 24 bytes"},
        {"\"stride\": 4", "\"stride\": 8", "a part that lies outside of its buffer of 24 bytes"},
        {"\"strides\": [12]", "\"strides\": [20]", "a part that lies outside of its buffer of 24 bytes"},
        {"\"strides\": [12]", "\"strides\": []", "0 strides of 1 dimensions"},
        {"\"dtype\": \"f32\", \"shape\": [-1], \"view\"", "\"dtype\": \"i32\", \"shape\": [-1], \"view\"", "not of the type of its buffer"},
        {"\"name\": \"forward\", \"loop\": 0", "\"name\": \"forward\", \"loop\": 2", "loop: expected at most 1, found 2"},
        {"\"name\": \"spread\", \"once\"", "\"name\": \"spread\", \"loop\": 0, \"once\"", "the kernels of loop 0 do not stand side by side"},
        {"\"name\": \"update\", \"once\"", "\"name\": \"update\", \"loop\": 1, \"once\"", "a kernel in a loop is not divided"},
        {"\"source\": 8", "\"source\": 14", "are not the two sides of such a collective"},
    };
    char *looped = looped_manifest();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *broken = replace_in(looped, "\"name\": \"train\"", cases[i].old, cases[i].new);
        expect_refused(fixture_artifact("broken.dtx", broken, object, n_object), DT_DATA_LOSS, cases[i].sentence);
        free(broken);
    }
    free(looped);
}

/* The manifest with two kernels in its step that replicas run, each a layer of the segment. */
static void layers_stand_one_behind_the_other(void **state) {
    (void)state;
    static const struct {
        const char *forward, *spread, *init, *sentence;
    } cases[] = {
        {"\"layer\": 1, ", "\"layer\": 2, ", "", NULL},
        {"\"layer\": 1, ", "\"layer\": 1, ", "", NULL},
        {"", "\"layer\": 1, ", "", "spread is in layer 1, and not the kernel before it"},
        {"\"layer\": 1, ", "", "", "layer 0, of spread, behind layer 1"},
        {"\"layer\": 2, ", "\"layer\": 1, ", "", "layer 2, of forward, behind layer 0"},
        {"\"layer\": 1, ", "\"layer\": 3, ", "", "layer 3, of spread, behind layer 1"},
        {"\"loop\": 0, \"layer\": 1, ", "\"loop\": 0, \"layer\": 2, ", "", "spread is in layer 2, and not the kernel before it"},
        {"\"layer\": 1, ", "\"layer\": 0, ", "", "layer: expected at least 1, found 0"},
        {"", "", "\"layer\": 1, ", "layer 1, of init, is not there"},
    };
    static const char loops[] = "\"loops\": [{\"trips\": 3}], \"buffers\": [", *const step = "\"name\": \"train\"";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[3][160], *edited = replace_in(manifest, step, "\"buffers\": [", loops);
        snprintf(name[0], sizeof name[0], "{%s\"name\": \"forward\"", cases[i].forward);
        snprintf(name[1], sizeof name[1], "{%s\"name\": \"spread\", \"once\"", cases[i].spread);
        snprintf(name[2], sizeof name[2], "{%s\"name\": \"init\", \"once\"", cases[i].init);
        const char *const edits[][2] = {{"{\"name\": \"forward\"", name[0]},
                                        {"{\"name\": \"spread\", \"once\"", name[1]},
                                        {"{\"name\": \"init\", \"once\"", name[2]},
                                        {"\"replica\": [0]", "\"replica\": [0, 1]"},
                                        {"\"replica\": [1]", "\"replica\": []"}};
        for (size_t k = 0; k < sizeof edits / sizeof *edits; k++) {
            char *next = replace_in(edited, k == 2 ? "{" : step, edits[k][0], edits[k][1]);
            free(edited);
            edited = next;
        }
        dt_artifact *artifact;
        const char *path = fixture_artifact("layers.dtx", edited, object, n_object);
        free(edited);
        if (cases[i].sentence != NULL) {
            expect_refused(path, DT_DATA_LOSS, cases[i].sentence);
            continue;
        }
        dt_status *status = dt_artifact_open(path, &artifact);
        if (status != NULL) fail_msg("%s", dt_status_message(status));
        const dt_artifact_function *train = &artifact->functions[dt_artifact_find_function(artifact, "train")];
        assert_int_equal(train->segments[0].n_layers, train->kernels[1].layer);
        assert_int_equal(train->segments[1].n_layers, 0);
        dt_artifact_close(artifact);
    }
}

static void every_broken_promise_has_its_sentence(void **state) {
    (void)state;
    static const struct {
        const char *after, *old, *new, *sentence;
    } cases[] = {
        {"{", "\"capacity\": 4", "\"capacity\": 0", "capacity: expected at least 1, found 0"},
        {"{", "\"capacity\": 4", "\"capacity\": 1.5", "capacity: expected an integer, found 1.5"},
        {"{", "\"capacity\": 4", "\"capacity\": \"4x\"", "capacity: expected an integer, found \"4x\""},
        {"{", "\"capacity\": 4", "\"capacity\": 1e300", "capacity: expected an integer"},
        {"{", "\"capacity\": 4,", "", "\"capacity\" is missing"},
        {"{", "\"microbatch_rows\": 2,", "", "\"microbatch_rows\" is missing"},
        {"{", "\"microbatch_rows\": 2", "\"microbatch_rows\": 0", "microbatch_rows: expected at least 1, found 0"},
        {"{", "\"microbatch_rows\": 2", "\"microbatch_rows\": 5", "microbatch_rows: expected at most 4, found 5"},
        {"{", "\"program_hash\": \"0123456789abcdef\"", "\"program_hash\": \"0123\"", "\"program_hash\" is not 16 hexadecimal digits"},
        {"\"objects\"", "\"sha256\": \"@\"", "\"sha256\": \"00\"", "objects[0]: kernels.o has the sum"},
        {"\"texts\"", "\"sha256\": \"e2d20ee0", "\"sha256\": \"00", "texts[0]: program.dt has the sum"},
        {"\"texts\"", "program.dt", "program.ir", "the artifact has no member program.ir"},
        {"\"objects\"", "\"file\": \"kernels.o\"", "\"file\": \"\"", "objects[0]: \"file\" is empty"},
        {"\"variables\"", "\"f32\"", "\"f33\"", "variables[0]: \"f33\" is no element type"},
        {"\"variables\"", "\"parameter\"", "\"weights\"", "\"weights\" is none of parameter, state, slot"},
        {"\"variables\"", "\"shape\": [3]", "\"shape\": [-1]", "variables[0].shape[0]: expected at least 0, found -1"},
        {"\"variables\"", "\"shape\": [3]", "\"shape\": [4294967296, 4294967296, 4294967296]", "more elements than any memory holds"},
        {"\"variables\"", "Line/n", "Line/w", "variables: Line/w is there twice"},
        {"\"functions\"", "\"kind\": \"init\"", "\"kind\": \"final\"", "functions[0].kind: \"final\" is none of init, step, report, example"},
        {"\"functions\"", "\"variable\": 0", "\"variable\": 2", "functions[0].plan.buffers[0].variable: expected at most 1, found 2"},
        {"\"functions\"", "\"variable\": 0", "\"variable\": 1", "not of the type and size of Line/n"},
        {"\"functions\"", "\"buffers\": [0, 1]", "\"buffers\": [0, 2]", "kernels[0].buffers[1]: expected at most 1, found 2"},
        {"\"functions\"", "\"buffers\": [0, 1]", "\"buffers\": [0, 1], \"flops_fixed\": -1", "kernels[0]: \"flops_fixed\": -1 is no amount"},
        {"\"functions\"", "\"buffers\": [0, 1]", "\"buffers\": [0, -1]", "kernels[0].buffers[1]: expected at least 0, found -1"},
        {"\"functions\"", "\"device\": [0]", "\"device\": [1]", "segments[0].device[0]: expected at most 0, found 1"},
        {"\"train\"", "\"shape\": [-1, 3]", "\"shape\": [3, -1]", "the rows of the batch are the first dimension or none"},
        {"\"train\"", "\"shape\": [-1, 3]", "\"shape\": [-1, 2]", "not of the type and shape of the input x"},
        {"\"train\"", "\"writes\": [2, 13]", "\"writes\": [2, 14]", "writes[1]: expected at most 13, found 14"},
        {"\"train\"", "\"writes\": [2, 13]", "\"writes\": [2, 5]", "\"writes\": 5 is no buffer of the kernel's that is there once for all replicas"},
        {"\"name\": \"forward\"", "\"lines\"", "\"writes\": [8], \"lines\"", "\"writes\": 8 is no buffer of the kernel's"},
        {"\"name\": \"spread\", \"once\"", "\"buffers\": [9, 10]", "\"buffers\": [9, 10], \"writes\": [9]",
         "a kernel that runs for each replica writes nothing"},
        {"\"name\": \"g\"", "\"offset\": 0", "\"offset\": 32", "the offset 32 is not a multiple of 64"},
        {"\"name\": \"g\"", "\"offset\": 0", "\"offset\": 192", "bytes 192 to 204 of a space of 192"},
        {"\"name\": \"g\"", "\"bytes\": 12", "\"bytes\": 8", "bytes: expected at least 12, found 8"},
        {"\"name\": \"g\"", "\"bytes\": 12", "\"bytes\": 9007199254740991", "of a space of 192"},
        {"\"name\": \"g\"", "\"bytes\": 12", "\"bytes\": 9007199254740993", "bytes: expected an integer, found 9007199254740992"},
        {"\"name\": \"g\"", "\"partial\"", "\"moon\"", "\"moon\" is none of variable, input"},
        {"\"name\": \"g\"", "\"dtype\": \"f32\", \"shape\": [3]", "\"dtype\": \"f32\", \"shape\": [-1]",
         "only what a step sums over replicas is partial"},
        {"\"name\": \"prediction\", \"space\"", "\"replica\"", "\"partial\"", "only what a step sums over replicas is partial"},
        {"\"name\": \"spread\", \"space\"", "\"offset\": 0", "\"offset\": 128", "bytes 128 to 144 of a space of 128"},
        {"\"name\": \"spread\", \"space\"", "\"partial\"", "\"scratch\"", "bytes 0 to 16 of a space of 0"},
        {"\"name\": \"prediction\", \"dtype\"", "\"buffer\": 8", "\"buffer\": 11", ""}, /* also split: fine */
        {"\"name\": \"prediction\", \"dtype\"", "\"buffer\": 8", "\"buffer\": 3", "not of the type and size of its buffer g"},
        {"\"name\": \"prediction\", \"dtype\"", "\"buffer\": 8", "\"buffer\": 14", "buffer: expected at most 13, found 14"},
        {"\"collectives\": [\n", "\"combiner\": \"sum\"", "\"combiner\": \"product\"", "\"product\" is none of sum, max, min"},
        {"\"collectives\": [\n", "\"kind\": \"all_reduce\"", "\"kind\": \"all_to_all\"", "\"all_to_all\" is none of all_reduce"},
        {"\"collectives\": [\n", "\"target\": 12", "\"target\": 3", "g and g are not the two sides of such a collective"},
        {"\"collectives\": [\n", "\"target\": 12", "\"target\": 5", "g and loss_all are not of one type and size"},
        {"\"collectives\": [\n", "\"target\": 12", "\"target\": 12, \"complete_after\": 0", "g is not complete after 0 kernels: forward uses it"},
        {"\"collectives\": [\n", "\"target\": 12", "\"target\": 12, \"complete_after\": 1", ""},
        {"\"collectives\": [\n", "\"target\": 12", "\"target\": 12, \"complete_after\": 2", "complete_after: expected at most 1, found 2"},
        {"\"kind\": \"all_gather\"", "\"target\": 9", "\"target\": 11", "prediction and own are not the two sides"},
        {"\"steps\"", "\"function\": \"train\"", "\"function\": \"init\"", "\"function\" names init, which is no such function"},
        {"\"steps\"", "\"report\": \"train/report\"", "\"report\": null", "reports, but no report function"},
        {"\"steps\"", "\"reports\": [\"loss\", \"count\"]", "\"reports\": [\"loss\"]", "train/report does not take the step's aggregates"},
        {"\"steps\"", "\"aggregates\": [\"sum\", \"sum\"]", "\"aggregates\": [\"sum\", \"mean\"]", "\"mean\" is none of sum, min, max, last"},
        {"\"steps\"", "\"aggregates\": [\"sum\", \"sum\"]", "\"aggregates\": [\"sum\", \"sum\", \"sum\"]", "result 2 of train is of the batch"},
        {"\"steps\"", "\"data\": \"data\"", "\"data\": \"dota\"", "\"data\" names the pipeline dota"},
        {"\"pipelines\"", "\"data/map0\"", "\"train\"", "\"function\" names train, which is no such function"},
        {"\"pipelines\"", "\"9223372036854775807\"", "\"9223372036854775808\"", "expected an integer, found \"9223372036854775808\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_artifact *artifact;
        char *broken = replace(cases[i].after, cases[i].old, cases[i].new);
        const char *path = fixture_artifact("broken.dtx", broken, object, n_object);
        free(broken);
        dt_status *status = dt_artifact_open(path, &artifact);
        if (*cases[i].sentence == '\0')
            assert_null(status);
        else
            expect_error(status, DT_DATA_LOSS, cases[i].sentence);
        dt_artifact_close(artifact);
    }
}

#define FLAGS(list) "\"flags\": [" list "]"

static void expect_suggestion(const dt_artifact *artifact, const char *option, const char *value, const char *wanted) {
    dt_status *status = dt_artifact_suggest(dt_error(DT_OUT_OF_RANGE, "compile it again"), artifact, option, value);
    char all[600];
    snprintf(all, sizeof all, "compile it again: dtc compile line.dt %s -o '%s'", wanted, artifact->path);
    assert_string_equal(dt_status_message(status), all);
    assert_int_equal(dt_status_code(status), DT_OUT_OF_RANGE);
    dt_status_free(status);
}

static void a_suggested_command_keeps_what_is_not_changed(void **state) {
    (void)state;
    dt_artifact *artifact;
    char *manifest = replace("{", "\"flags\": []", FLAGS("\"--target cuda:sm_80\", \"-Dsay=it's $x\", \"-Dn=3\", \"--batch 8\""));
    const char *path = fixture_artifact("with flags.dtx", manifest, object, n_object);
    free(manifest);
    assert_null(dt_artifact_open(path, &artifact));
    expect_suggestion(artifact, NULL, NULL, "--target cuda:sm_80 '-Dsay=it'\\''s $x' -Dn=3 --batch 8");
    expect_suggestion(artifact, "--batch", "32", "--target cuda:sm_80 '-Dsay=it'\\''s $x' -Dn=3 --batch 32");
    expect_suggestion(artifact, "--target", "cuda:sm_90", "'-Dsay=it'\\''s $x' -Dn=3 --batch 8 --target cuda:sm_90");
    expect_suggestion(artifact, "--cpu", "native", "--target cuda:sm_80 '-Dsay=it'\\''s $x' -Dn=3 --batch 8 --cpu native");
    dt_artifact_close(artifact);
}

static void another_version_is_told_with_the_command_that_helps(void **state) {
    (void)state;
    static const char between[] = "\",\n  \"llvm\": \"\",\n  ";
    char now[100], then[100];
    snprintf(now, sizeof now, "dtc " DT_VERSION "%s" FLAGS(""), between);
    snprintf(then, sizeof then, "dtc 0.0.9%s" FLAGS("\"--batch 8\", \"--precision tf32\""), between);
    char *older = replace("{", now, then);
    const char *path = fixture_artifact("older.dtx", older, object, n_object);
    free(older);
    expect_refused(path, DT_FAILED_PRECONDITION,
                   "written in format 12 by dtc 0.0.9, but this dtrun " DT_VERSION " reads format 12 of dtc " DT_VERSION);
    expect_refused(path, DT_FAILED_PRECONDITION, "compile it again: dtc compile line.dt --batch 8 --precision tf32 -o /tmp/");
    char *newer = replace("{", "\"format\": 12", "\"format\": 13");
    path = fixture_artifact("newer.dtx", newer, object, n_object);
    free(newer);
    expect_refused(path, DT_FAILED_PRECONDITION, "written in format 13");
}

static void without_memory_nothing_is_opened(void **state) {
    (void)state;
    const char *path = fixture_artifact("line.dtx", manifest, object, n_object);
    for (int n = 0;; n++) {
        dt_artifact *artifact;
        dt_memory_fail_after(n);
        dt_status *status = dt_artifact_open(path, &artifact);
        dt_memory_fail_after(-1);
        if (status == NULL) {
            dt_artifact_close(artifact);
            break;
        }
        assert_null(artifact);
        expect_error(status, DT_RESOURCE_EXHAUSTED, "");
        assert_true(n < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_becomes_plain_structs),
        cmocka_unit_test(a_foreign_file_is_told_apart),
        cmocka_unit_test(a_truncated_file_is_refused_wherever_it_ends),
        cmocka_unit_test(an_altered_file_is_refused_or_means_the_same),
        cmocka_unit_test(layers_stand_one_behind_the_other),
        cmocka_unit_test(every_broken_promise_has_its_sentence),
        cmocka_unit_test(loops_and_views_become_structs),
        cmocka_unit_test(broken_loops_have_their_sentences),
        cmocka_unit_test(a_suggested_command_keeps_what_is_not_changed),
        cmocka_unit_test(another_version_is_told_with_the_command_that_helps),
        cmocka_unit_test(without_memory_nothing_is_opened),
    };
    return cmocka_run_group_tests(tests, make_line, remove_line);
}
