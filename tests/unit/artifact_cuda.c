/* artifact_cuda: what an artifact says of GPUs, as structs; and the sentence for each promise that it breaks. */
#include "runtime/artifact/artifact.h"

#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

static char *manifest;

static int read_manifest(void **state) {
    (void)state;
    size_t n_bytes;
    return dt_file_read(fixture_source("tests/fuzz/artifact/cuda.json"), &manifest, &n_bytes) != NULL;
}

static int remove_all(void **state) {
    (void)state;
    free(manifest);
    fixture_remove_folder();
    return 0;
}

static dt_status *open_text(const char *text, dt_artifact **artifact) {
    return dt_artifact_open(fixture_artifact("slope.dtx", text, "code", 4), artifact);
}

static void plans_for_gpus_stand_beside_those_for_processors(void **state) {
    (void)state;
    dt_artifact *artifact;
    expect_ok(open_text(manifest, &artifact));
    const dt_artifact_cuda *cuda = artifact->cuda;
    assert_non_null(cuda);
    assert_string_equal(cuda->compiler, "NVRTC 13.0");
    assert_int_equal(cuda->n_units, 2);
    assert_int_equal(cuda->n_modules, 4);
    assert_string_equal(cuda->modules[0].architecture, "sm_90");
    assert_true(!cuda->modules[0].is_ptx && cuda->modules[0].major == 9 && cuda->modules[0].minor == 0 && cuda->modules[0].suffix == 0);
    assert_true(cuda->modules[3].is_ptx && cuda->modules[3].unit == 1);
    assert_string_equal(cuda->modules[3].bytes, "code"); /* terminated, as PTX must be */
    assert_string_equal(cuda->reduction.function, "reduce_replicas");
    assert_int_equal(cuda->reduction.unit, 1);

    const dt_artifact *program = cuda->program;
    assert_null(program->cuda);
    assert_int_equal(artifact->microbatch_rows, 2);
    assert_int_equal(program->microbatch_rows, 8);
    assert_int_equal(dt_artifact_microbatches(program, 8), 1);
    assert_int_equal(artifact->n_locations, 0);
    assert_int_equal(program->n_locations, 1);
    assert_ptr_equal(program->steps, artifact->steps);
    assert_int_equal(artifact->functions[0].kernels[0].n_launches, 0);
    const dt_artifact_kernel *kernel = &program->functions[0].kernels[0];
    assert_int_equal(kernel->n_launches, 2);
    assert_string_equal(kernel->launches[1].function, "train_0_part1");
    assert_int_equal(kernel->launches[1].arguments[1], 2);
    assert_int_equal(kernel->launches[0].team, 32);
    assert_int_equal(kernel->launches[0].n_items, 8);
    dt_artifact_close(artifact);
}

static void every_broken_promise_has_its_sentence(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *sentence; /* the first `old` of the part for GPUs */
    } cases[] = {
        {"\"compiler\": \"NVRTC 13.0\", ", "", "cuda: \"compiler\" is missing"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"x86_90\", \"unit\": 1", "cuda.modules[2]: \"x86_90\" is no architecture"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"sm_9\", \"unit\": 1", "\"sm_9\" is no architecture"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"sm_90ab\", \"unit\": 1", "\"sm_90ab\" is no architecture"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"sm_90a\", \"unit\": 1", "cuda: 0 modules for unit 1 of sm_90"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"sm_90\", \"unit\": 0", "cuda: 2 modules for unit 0 of sm_90"},
        {"\"architecture\": \"sm_90\", \"unit\": 1", "\"architecture\": \"sm_90\", \"unit\": -1", "modules[2].unit: expected at least 0, found -1"},
        {"\"reduction\": {", "\"addition\": {", "cuda: \"reduction\" is missing"},
        {"\"function\": \"reduce_replicas\", \"unit\": 1", "\"function\": \"reduce_replicas\", \"unit\": 2",
         "cuda.reduction.unit: expected at most 1, found 2"},
        {"\"unit\": 0, \"arguments\": [1, 2]", "\"unit\": 2, \"arguments\": [1, 2]", "calls[1].unit: expected at most 1, found 2"},
        {"\"arguments\": [1, 2]", "\"arguments\": [1, 3]", "calls[1].arguments[1]: expected at most 2, found 3"},
        {"\"threads\": 256, \"team\": 256", "\"threads\": 2048, \"team\": 256", "calls[1].threads: expected at most 1024, found 2048"},
        {"\"threads\": 256, \"team\": 256", "\"threads\": 256, \"team\": 512", "calls[1].team: expected at most 256, found 512"},
        {"\"team\": 256, \"items\": 1", "\"team\": 256, \"items\": -1", "calls[1].items: expected at least 0, found -1"},
        {"\"calls\": [", "\"recalls\": [", "\"calls\" is missing"},
        {"\"offset\": 0, \"bytes\": 64", "\"offset\": 128, \"bytes\": 64", "bytes 128 to 192 of a space of 128"},
        {"\"offset\": 0, \"bytes\": 64", "\"offset\": 0, \"bytes\": 16", "bytes: expected at least 64, found 16"}, /* rows of a whole replica */
        {"\"shape\": [-1, 3]}]", "\"shape\": [-1, 4]}]", "not of the type and shape of the input x"},
        {"\"name\": \"aggregate0\"", "\"name\": \"aggregate1\"", "cuda: train is not what it is for processors"},
        {"\"name\": \"rows\", \"space\": \"scratch\"", "\"name\": \"rows\", \"space\": \"constant\"", "a GPU's plan has no constants"},
        {"\"all_reduce\"", "\"all_gather\"", "part and all are not the two sides of such a collective"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_artifact *artifact;
        char *place = strstr(manifest, "\"cuda\": {");
        char *found = strstr(place, cases[i].old);
        if (found == NULL) fail_msg("the manifest has no %s", cases[i].old);
        dt_text text = {0};
        dt_text_append_bytes(&text, manifest, (size_t)(found - manifest));
        dt_text_append(&text, cases[i].new);
        dt_text_append(&text, found + strlen(cases[i].old));
        expect_error(open_text(text.data, &artifact), DT_DATA_LOSS, cases[i].sentence);
        assert_null(artifact);
        dt_text_free(&text);
    }
}

static void without_that_part_there_is_nothing_for_gpus(void **state) {
    (void)state;
    dt_artifact *artifact;
    char *place = strstr(manifest, "\"cuda\": {");
    place[1] = 'K'; /* a member that nobody reads */
    expect_ok(open_text(manifest, &artifact));
    place[1] = 'c';
    assert_null(artifact->cuda);
    dt_artifact_close(artifact);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_for_gpus_stand_beside_those_for_processors),
        cmocka_unit_test(every_broken_promise_has_its_sentence),
        cmocka_unit_test(without_that_part_there_is_nothing_for_gpus),
    };
    return cmocka_run_group_tests(tests, read_manifest, remove_all);
}
