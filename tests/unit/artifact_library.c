/* artifact_library: what an artifact says of calls of vendors' libraries, as structs; and the sentence for each promise that it breaks. */
#include "runtime/artifact/artifact.h"

#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

/* The manifest of the tests for GPUs, with a buffer of [8 rows, 8] f32 in scratch memory, argument 1, in which everything here happens. */
static char *manifest;

static const char product[] =
    "\"library\": {\"class\": \"product\", \"launches\": 2, \"precision\": \"tf32\", \"sizes\": [4, 3, 4], \"batches\": [2], "
    "\"first\": {\"argument\": 1, \"offset\": 0, \"strides\": [8, 1], \"batch_strides\": [32]}, "
    "\"second\": {\"argument\": 1, \"offset\": 4, \"strides\": [1, 8], \"batch_strides\": [0]}, "
    "\"result\": {\"argument\": 1, \"offset\": 1, \"strides\": [9, 1], \"batch_strides\": [32]}, "
    "\"scale\": 0.5, \"bias\": [1, 61], \"activation\": \"relu\", \"clears\": [[1, 32]]}, ";

static const char gelu[] = "\"library\": {\"class\": \"product\", \"launches\": 2, \"precision\": \"f32\", \"sizes\": [4, 3, 4], \"batches\": [], "
                           "\"first\": {\"argument\": 1, \"offset\": 0, \"strides\": [8, 1], \"batch_strides\": []}, "
                           "\"second\": {\"argument\": 1, \"offset\": 4, \"strides\": [1, 8], \"batch_strides\": []}, "
                           "\"result\": {\"argument\": 1, \"offset\": 8, \"strides\": [16, 1], \"batch_strides\": []}, "
                           "\"scale\": 1, \"activation\": \"gelu\", \"kept\": 1, \"clears\": []}, ";

static const char convolution[] =
    "\"library\": {\"class\": \"input_gradient\", \"launches\": 1, \"precision\": \"f32\", \"sizes\": [2, 3, 2], \"input\": [3, 3], "
    "\"taps\": [2, 1], \"output\": [2, 2], \"stride\": [1, 2], \"dilation\": [1, 1], \"padding\": [0, 0], "
    "\"padding_after\": [0, 0], \"arguments\": [1, 1, 1], \"clears\": []}, ";

static const char volume[] = "\"library\": {\"class\": \"input_gradient\", \"launches\": 1, \"precision\": \"f32\", \"sizes\": [2, 4, 6], "
                             "\"groups\": 2, \"input\": [2, 1, 2], "
                             "\"taps\": [1, 1, 2], \"output\": [2, 1, 1], \"stride\": [1, 1, 2], \"dilation\": [1, 1, 1], \"padding\": [0, 0, 0], "
                             "\"padding_after\": [0, 0, 0], \"arguments\": [1, 1, 1], \"clears\": []}, ";

/* `text` with the first `old` behind `from` replaced, to be freed. */
static char *replaced(const char *text, const char *from, const char *old, const char *new) {
    const char *found = strstr(text, from);
    found = found != NULL ? strstr(found, old) : NULL;
    if (found == NULL) fail_msg("there is no %s behind %s", old, from);
    dt_text result = {0};
    dt_text_append_bytes(&result, text, (size_t)(found - text));
    dt_text_append(&result, new);
    dt_text_append(&result, found + strlen(old));
    return result.data;
}

static int read_manifest(void **state) {
    (void)state;
    static const char *const changes[][2] = {{"\"scratch_bytes\": 128", "\"scratch_bytes\": 256"},
                                             {"\"dtype\": \"f64\", \"shape\": [-1], \"offset\": 0, \"bytes\": 64",
                                              "\"dtype\": \"f32\", \"shape\": [-1, 8], \"offset\": 0, \"bytes\": 256"}};
    size_t n_bytes;
    expect_ok(dt_file_read(fixture_source("tests/fuzz/artifact/cuda.json"), &manifest, &n_bytes));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = replaced(manifest, "\"cuda\": {", changes[i][0], changes[i][1]);
        free(manifest);
        manifest = changed;
    }
    return 0;
}

static int remove_all(void **state) {
    (void)state;
    free(manifest);
    fixture_remove_folder();
    return 0;
}

/* The manifest with that call, in which `old` became `new`. */
static dt_status *open_call(const char *call, const char *old, const char *new, dt_artifact **artifact) {
    char *changed = replaced(call, "\"library\"", old, new);
    dt_text with = {0};
    dt_text_format(&with, "%s\"function\": \"train_0_part0\"", changed);
    char *text = replaced(manifest, "\"calls\": [", "\"function\": \"train_0_part0\"", with.data);
    dt_status *status = dt_artifact_open(fixture_artifact("slope.dtx", text, "code", 4), artifact);
    dt_text_free(&with);
    free(changed), free(text);
    return status;
}

static const dt_library_call *call_of(const dt_artifact *artifact) { return artifact->cuda->program->functions[0].kernels[0].launches[0].library; }

static void calls_are_read(void **state) {
    (void)state;
    dt_artifact *artifact;
    expect_ok(open_call(product, "", "", &artifact));
    const dt_library_call *call = call_of(artifact);
    const dt_library_product *p = &call->product;
    assert_true(call->class == DT_LIBRARY_PRODUCT && call->precision == DT_PRECISION_TF32);
    assert_true(p->rows == 4 && p->columns == 3 && p->terms == 4 && p->n_batches == 1 && p->batches[0] == 2);
    assert_true(p->second.argument == 1 && p->second.offset == 4 && p->second.strides[0] == 1 && p->second.strides[1] == 8);
    assert_true(p->result.strides[0] == 9 && p->result.batch_strides[0] == 32 && p->second.batch_strides[0] == 0);
    assert_true(p->scale == 0.5 && p->bias == 1 && p->bias_offset == 61);
    assert_true(p->activation == DT_LIBRARY_ACTIVATION_RELU && p->kept == -1 && p->bias_gradient.argument == -1);
    assert_true(call->n_clears == 1 && call->clears[0].argument == 1 && call->clears[0].row_bytes == 32);
    dt_artifact_close(artifact);

    expect_ok(open_call(gelu, "", "", &artifact));
    p = &call_of(artifact)->product;
    assert_true(p->activation == DT_LIBRARY_ACTIVATION_GELU && p->kept == 1 && p->bias == -1 && p->bias_gradient.argument == -1);
    dt_artifact_close(artifact);

    expect_ok(open_call(convolution, "", "", &artifact));
    const dt_library_convolution *c = &call_of(artifact)->convolution;
    assert_true(call_of(artifact)->class == DT_LIBRARY_INPUT_GRADIENT && call_of(artifact)->n_clears == 0);
    assert_true(c->images == 2 && c->channels == 3 && c->filters == 2 && c->input[1] == 3 && c->taps[0] == 2 && c->output[1] == 2);
    assert_true(c->stride[1] == 2 && c->dilation[0] == 1 && c->padding[0] == 0 && c->x == 1 && c->kernel == 1 && c->y == 1);
    assert_true(c->n_directions == 2 && c->groups == 1);
    dt_artifact_close(artifact);

    expect_ok(open_call(volume, "", "", &artifact));
    c = &call_of(artifact)->convolution;
    assert_true(c->n_directions == 3 && c->groups == 2 && c->input[2] == 2 && c->taps[0] == 1 && c->output[2] == 1 && c->stride[2] == 2);
    dt_artifact_close(artifact);

    expect_ok(dt_artifact_open(fixture_artifact("slope.dtx", manifest, "code", 4), &artifact));
    assert_null(call_of(artifact));
    dt_artifact_close(artifact);
}

/* Of one launch before the call. */
#define BIAS_GRADIENT(argument, offset) "{\"argument\": " argument ", \"offset\": " offset ", \"of_first\": false, \"launches\": 1}"

static void every_broken_promise_has_its_sentence(void **state) {
    (void)state;
    static const struct {
        const char *call, *old, *new, *sentence;
    } cases[] = {
        {product, "\"product\"", "\"prodct\"", "library.class: "},
        {product, "\"launches\": 2", "\"launches\": 0", "launches: expected at least 1, found 0"},
        {product, "\"launches\": 2", "\"launches\": 3", "calls[0]: its library's call stands for 3 launches, and there are 2"},
        {product, "\"launches\": 2, ", "", "\"launches\" is missing"},
        {product, "\"tf32\"", "\"f31\"", "library.precision: "},
        {product, "[4, 3, 4]", "[4, 3, 0]", "sizes[2]: expected at least 1, found 0"},
        {product, "[4, 3, 4]", "[4, 3]", "sizes: expected 3 numbers, found 2"},
        {product, "\"batches\": [2]", "\"batches\": [2, 2, 2, 2]", "batches: expected up to 3 numbers, found 4"},
        {product, "\"batches\": [2]", "\"batches\": [3]", "first: it reaches beyond argument 1"},
        {product, "\"strides\": [8, 1]", "\"strides\": [3, 1]", "first: strides of no matrix of 4 x 4"},
        {product, "\"strides\": [1, 8]", "\"strides\": [1, 3]", "second: strides of no matrix of 4 x 3"},
        {product, "\"strides\": [9, 1]", "\"strides\": [1, 9]", "result: strides of no matrix of 4 x 3"}, /* its columns lie side by side */
        {product, "\"argument\": 1, \"offset\": 0", "\"argument\": 3, \"offset\": 0", "first.argument: expected at most 2, found 3"},
        {product, "\"argument\": 1, \"offset\": 0", "\"argument\": 2, \"offset\": 0", "argument 2 is nothing that a library may read"},
        {product, "\"argument\": 1, \"offset\": 1", "\"argument\": 0, \"offset\": 1", "argument 0 may not be written"},
        {gelu, "\"offset\": 8", "\"offset\": 9", "no library keeps anything for such a product"},
        {gelu, "\"gelu\"", "\"gelu_gradient\", \"bias\": [1, 0]", "no library keeps anything for such a product"},
        {product, "\"offset\": 4", "\"offset\": 50", "second: it reaches beyond argument 1"},
        {product, "\"batch_strides\": [0]", "\"batch_strides\": []", "batch_strides: expected 1 numbers, found 0"},
        {product, "[1, 61]", "[1, 62]", "it reaches beyond argument 1"},
        {product, "[1, 61]", "[3, 0]", "a bias in argument 3, and there are 3"},
        {product, "[[1, 32]]", "[[1, 28]]", "its rows are of 32 bytes"},
        {product, "[[1, 32]]", "[[2, 8]]", "its rows are of 8 bytes"}, /* it has none */
        {product, "[[1, 32]]", "[[1, 32], [1, 32], [1, 32]]", "3 arguments to be cleared"},
        {product, "\"relu\"", "\"elu\"", "library.activation: "},
        {product, "\"relu\"", "\"relu_gradient\"", "nothing is kept for its gradient"},
        {product, "\"relu\"", "\"gelu\", \"kept\": 1", "no library keeps anything for such a product"}, /* of batches, with steps of 9 */
        {product, "\"relu\"", "\"none\", \"bias_gradient\": " BIAS_GRADIENT("1", "0"), "no library gives one beside such a product"},
        {gelu, "\"gelu\"", "\"relu\"", "no library keeps anything for such a product"},
        {gelu, "[16, 1]", "[12, 1]", "no library keeps anything for such a product"},
        {gelu, "\"kept\": 1", "\"kept\": 3", "library.kept: expected at most 2, found 3"},
        {gelu, "\"kept\": 1", "\"kept\": 0", "argument 0 may not be written"},
        {gelu, "\"activation\": \"gelu\", \"kept\": 1", "\"activation\": \"none\", \"bias_gradient\": " BIAS_GRADIENT("0", "0"),
         "argument 0 may not be written"},
        {gelu, "\"activation\": \"gelu\", \"kept\": 1", "\"activation\": \"none\", \"bias_gradient\": " BIAS_GRADIENT("1", "62"),
         "it reaches beyond argument 1"},
        {gelu, "\"activation\": \"gelu\", \"kept\": 1", "\"activation\": \"none\", \"bias_gradient\": " BIAS_GRADIENT("1", "0"),
         "no launches before it give its gradient of a bias"},
        {convolution, "\"output\": [2, 2]", "\"output\": [2, 3]", "sizes of no convolution"},
        {convolution, "[2, 3, 2]", "[3, 3, 2]", "it reaches beyond argument 1"},
        {convolution, "[1, 1, 1]", "[0, 1, 1]", "argument 0 may not be written"},
        {convolution, "[1, 1, 1]", "[1, 1, 3]", "arguments[2]: expected at most 2, found 3"},
        {convolution, "\"clears\"", "\"clear\"", "\"clears\" is missing"},
        {convolution, "\"input\": [3, 3]", "\"input\": [3]", "a convolution in 1 directions"},
        {convolution, "\"input\": [3, 3]", "\"input\": [3, 3, 3, 3]", "input: expected up to 3 numbers, found 4"},
        {convolution, "\"input\": [3, 3]", "\"input\": [3, 3, 3]", "taps: expected 3 numbers, found 2"},
        {volume, "\"groups\": 2", "\"groups\": 3", "groups of other sizes"},
        {volume, "\"groups\": 2", "\"groups\": 0", "groups: expected at least 1, found 0"},
        {volume, "\"sizes\": [2, 4, 6]", "\"sizes\": [2, 4, 96]", "it reaches beyond argument 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_artifact *artifact;
        expect_error(open_call(cases[i].call, cases[i].old, cases[i].new, &artifact), DT_DATA_LOSS, cases[i].sentence);
        assert_null(artifact);
    }
}

/* The product for both launches, of which the second one has `second` for its unit and arguments. */
static dt_status *open_both(const char *second, dt_artifact **artifact) {
    static const char arguments[] = "\"unit\": 0, \"arguments\": [1, 2]";
    char *whole = manifest;
    manifest = replaced(whole, "train_0_part1", arguments, second);
    dt_status *status = open_call(product, "", "", artifact);
    free(manifest);
    manifest = whole;
    return status;
}

static void a_call_stands_for_launches_that_do_the_same(void **state) {
    (void)state;
    dt_artifact *artifact;
    dt_text twice = {0};
    expect_ok(open_both("\"unit\": 0, \"arguments\": [2, 1]", &artifact));
    assert_int_equal(call_of(artifact)->n_launches, 2);
    dt_artifact_close(artifact);
    expect_error(open_both("\"unit\": 0, \"arguments\": [0, 2]", &artifact), DT_DATA_LOSS,
                 "calls[0]: its library's call stores argument 1, which the launches do not");
    dt_text_format(&twice, "%s\"unit\": 0, \"arguments\": [1, 2]", convolution);
    expect_error(open_both(twice.data, &artifact), DT_DATA_LOSS, "calls[1]: a library's call stands for it already");
    dt_text_free(&twice);
}

/* What the fuzzer starts from is whole: a product for two launches, and a convolution for the third. */
static void calls_of_several_launches_are_read(void **state) {
    (void)state;
    dt_artifact *artifact;
    char *text;
    size_t n_bytes;
    expect_ok(dt_file_read(fixture_source("tests/fuzz/artifact/library.json"), &text, &n_bytes));
    expect_ok(dt_artifact_open(fixture_artifact("slope.dtx", text, "code", 4), &artifact));
    const dt_artifact_kernel *kernel = &artifact->cuda->program->functions[0].kernels[0];
    assert_int_equal(kernel->n_launches, 3);
    assert_int_equal(kernel->launches[0].library->n_launches, 2);
    assert_null(kernel->launches[1].library);
    assert_int_equal(kernel->launches[2].library->n_launches, 1);
    dt_artifact_close(artifact);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_read), cmocka_unit_test(every_broken_promise_has_its_sentence),
                                       cmocka_unit_test(a_call_stands_for_launches_that_do_the_same),
                                       cmocka_unit_test(calls_of_several_launches_are_read)};
    return cmocka_run_group_tests(tests, read_manifest, remove_all);
}
