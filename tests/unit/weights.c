/* weights: what a map makes of tensors is what the session gets and what is written, and memory that is out anywhere is an error that leaves nothing.
 *
 * The session here is this file's own: two variables in plain memory, in place of the library's. */
#include "runtime/weights.h"
#include "base/memory.h"
#include "runtime/data/safetensors.h"
#include "runtime/execution/ranges.h"
#include "runtime/weight_copy.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>
#include <unistd.h>

struct dt_session {
    dt_artifact artifact;
    float kernel[6];
    int32_t count;
};

static const int64_t dims[] = {2, 3}, transposed[] = {3, 2};
static const dt_artifact_variable variables[] = {
    {.path = "Net/kernel", .kind = DT_VARIABLE_PARAMETER, .tensor = {.dtype = DT_F32, .n_dims = 2, .dims = dims}, .bytes = 24},
    {.path = "Net/count", .kind = DT_VARIABLE_STATE, .tensor = {.dtype = DT_I32}, .bytes = 4},
    {.path = "adam/Net/kernel/m", .kind = DT_VARIABLE_SLOT, .tensor = {.dtype = DT_F32, .n_dims = 2, .dims = dims}, .bytes = 24},
};
static dt_session session = {.artifact = {.n_variables = 3, .variables = variables}};

const dt_artifact *dt_session_artifact(const dt_session *of) { return &of->artifact; }

dt_byte_range dt_ranges_own(const dt_session *of, int variable) { return (dt_byte_range){0, of->artifact.variables[variable].bytes}; }

dt_status *dt_ranges_write(dt_session *of, int variable, dt_byte_range range, const void *data) {
    assert_true(variable < 2 && range.first == 0 && range.n_bytes == variables[variable].bytes);
    memcpy(variable == 0 ? (void *)of->kernel : (void *)&of->count, data, (size_t)range.n_bytes);
    return NULL;
}

dt_status *dt_ranges_read(dt_session *of, int device, int variable, dt_byte_range range, void *data) {
    (void)of, (void)device, (void)variable, (void)range, (void)data;
    return dt_error(DT_INTERNAL, "nobody asks for it here");
}

int dt_artifact_find_variable(const dt_artifact *artifact, const char *path) {
    for (int i = 0; i < artifact->n_variables; i++)
        if (strcmp(artifact->variables[i].path, path) == 0) return i;
    return -1;
}

static const double weight[] = {1, 4, 2, 5, 3, 6};
static const int64_t seven = 7;
static const dt_safetensor theirs[] = {
    {.name = "fc.weight", .dtype = DT_F64, .n_dims = 2, .dims = transposed, .n_bytes = 48, .data = weight},
    {.name = "seen", .dtype = DT_I64, .n_bytes = 8, .data = &seven},
};
static const char map[] = "fc.weight -> Net/kernel : i o -> o i, scale=2\nseen -> Net/count\n";

static void write_files(void) {
    unsigned char sum[DT_SHA256_BYTES];
    assert_ok(dt_safetensors_write(scratch_path("theirs"), 2, theirs, sum));
    scratch_write("map", map, sizeof map - 1);
}

static void loaded_and_exported(void **state) {
    (void)state;
    dt_weights_report report;
    dt_weights_options options = {.path = scratch_path("theirs"), .map = scratch_path("map")};
    write_files();
    assert_ok(dt_weights_load(&session, &options, &report));
    for (int i = 0; i < 6; i++) assert_true(session.kernel[i] == 2 * (float)(i + 1));
    assert_int_equal(session.count, 7);
    dt_weights_report_free(&report);

    unsigned char sum[DT_SHA256_BYTES];
    const dt_safetensor ours[] = {{.name = "Net/kernel", .dtype = DT_F32, .n_dims = 2, .dims = dims, .n_bytes = 24, .data = session.kernel},
                                  {.name = "Net/count", .dtype = DT_I32, .n_bytes = 4, .data = &session.count}};
    assert_ok(dt_safetensors_write(scratch_path("ours"), 2, ours, sum));
    options.path = scratch_path("ours");
    assert_ok(dt_weights_export(&options, scratch_path("back"), &report));
    dt_weights_report_free(&report);
    dt_safetensors *file;
    assert_ok(dt_safetensors_read(scratch_path("back"), &file));
    const dt_safetensor *found = dt_safetensors_find(file, "fc.weight");
    assert_true(found->dtype == DT_F32 && found->n_dims == 2 && found->dims[0] == 3);
    const void *written;
    assert_ok(dt_safetensors_load(file, found, &written));
    for (int i = 0; i < 6; i++) assert_true(((const float *)written)[i] == (float)weight[i]);
    dt_safetensors_free(file);
}

static void unchanged_after_an_error(void **state) {
    (void)state;
    dt_weights_report report;
    dt_weights_options options = {.path = scratch_path("theirs"), .map = scratch_path("wrong")};
    write_files();
    scratch_write("wrong", "seen -> Net/count\nfc.weight -> Net/kernel\n", 42);
    session.count = 3;
    assert_fails(dt_weights_load(&session, &options, &report), DT_FAILED_PRECONDITION,
                 "fc.weight f64[3, 2] does not fit Net/kernel f32[2, 3]; it would with ` : o i -> i o`");
    dt_weights_report_free(&report);
    assert_int_equal(session.count, 3);
}

static void without_memory(void **state) {
    (void)state;
    char *path = strdup(scratch_path("theirs")), *names = strdup(scratch_path("map")), *output = strdup(scratch_path("out"));
    dt_weights_options in = {.path = path, .map = names}, out = {.path = path};
    write_files();
    for (int exported = 0; exported < 2; exported++)
        for (int n = 0;; n++) {
            dt_weights_report report;
            dt_memory_fail_after(n);
            dt_status *status = exported ? dt_weights_export(&out, output, &report) : dt_weights_load(&session, &in, &report);
            dt_memory_fail_after(-1);
            dt_weights_report_free(&report);
            if (status == NULL) {
                assert_true(n > 4);
                break;
            }
            assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
            assert_int_not_equal(access(output, F_OK), 0);
        }
    free(path);
    free(names);
    free(output);
}

/* What was refused when memory ran out is freed, as a build with the sanitizers sees. */
static void without_memory_for_a_refusal(void **state) {
    (void)state;
    char *path = strdup(scratch_path("theirs")), *names = strdup(scratch_path("axes"));
    dt_weights_options in = {.path = path, .map = names};
    dt_code code = DT_RESOURCE_EXHAUSTED;
    write_files();
    scratch_write("axes", "fc.weight -> Net/kernel : (a b) i -> a b i, a=5\nseen -> Net/count\n", 66);
    for (int n = 0; code == DT_RESOURCE_EXHAUSTED; n++) {
        dt_weights_report report;
        dt_memory_fail_after(n);
        dt_status *status = dt_weights_load(&session, &in, &report);
        dt_memory_fail_after(-1);
        dt_weights_report_free(&report);
        code = dt_status_code(status);
        dt_status_free(status);
    }
    assert_int_equal(code, DT_FAILED_PRECONDITION);
    free(path);
    free(names);
}

static void types_of_elements(void **state) {
    (void)state;
    static const uint16_t f16[] = {0x3c00, 0xc000, 0x7c00, 0x7e00}, bf16[] = {0x3f80, 0xc000, 0x7f80, 0x7fc0};
    static const int64_t n[] = {4}, one[] = {1}, back[] = {-1};
    float made[4];
    for (int i = 0; i < 2; i++) {
        dt_weight_view from = {i == 0 ? DT_F16 : DT_BF16, one}, to = {DT_F32, one};
        assert_ok(dt_weight_copy(1, n, &from, i == 0 ? f16 : bf16, &to, made, 1));
        assert_true(made[0] == 1 && made[1] == -2 && isinf(made[2]) && isnan(made[3]));
        assert_int_equal(dt_weight_count_not_finite(DT_F32, made, 4), 2);
    }
    static const double f64[] = {1, 1e300, -0.0, 0.1};
    assert_ok(dt_weight_copy(1, n, &(dt_weight_view){DT_F64, back}, f64 + 3, &(dt_weight_view){DT_F32, one}, made, 0.5));
    assert_true(made[0] == 0.05f && signbit(made[1]) && isinf(made[2]) && made[3] == 0.5f);

    static const int64_t wide[] = {-128, 127, 0, 128};
    int8_t narrow[4] = {0};
    dt_weight_view from = {DT_I64, one}, to = {DT_I8, one};
    assert_ok(dt_weight_copy(1, &(int64_t){3}, &from, wide, &to, narrow, 1));
    assert_true(narrow[0] == -128 && narrow[1] == 127 && narrow[2] == 0);
    assert_fails(dt_weight_copy(1, n, &from, wide, &to, narrow, 1), DT_OUT_OF_RANGE, "128 is no i8");
    assert_true(dt_weight_can_convert(DT_F64, DT_F16) && dt_weight_can_convert(DT_U8, DT_I64) && dt_weight_can_convert(DT_BOOL, DT_BOOL));
    assert_false(dt_weight_can_convert(DT_F32, DT_I32) || dt_weight_can_convert(DT_U8, DT_BOOL) || dt_weight_can_convert(DT_N_DTYPES, DT_F32));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_and_exported),          cmocka_unit_test(unchanged_after_an_error), cmocka_unit_test(without_memory),
        cmocka_unit_test(without_memory_for_a_refusal), cmocka_unit_test(types_of_elements),
    };
    return cmocka_run_group_tests_name("weights", tests, scratch_make, scratch_remove);
}
