/* cuda_nvrtc: text to code by NVRTC, without a GPU: cubins and PTX, what functions take, warnings, the cache, and what is said when something lacks.
 */
#include "compiler/codegen/cuda_nvrtc.h"
#include "base/file.h"
#include "compiler/codegen/codegen.h"
#include "tests/unit/scratch_folder.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char plain[] = "(float *x) {\n    __shared__ float all[256];\n    all[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n"
                            "    x[threadIdx.x] = all[255 - threadIdx.x];\n}\n";
static const char greedy[] = "(float *x) {\n    float a[200];\n    for (int i = 0; i < 200; i++) a[i] = x[i];\n    __syncthreads();\n"
                             "#pragma unroll\n    for (int i = 0; i < 200; i++) x[i] = a[199 - i] * a[(i * 7) % 200];\n}\n";

/* A program of n functions with such a body. */
static dt_cuda_program program_of(dt_cuda_source *sources, int n, const char *body, int threads) {
    static const char *const names[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};
    for (int i = 0; i < n; i++) sources[i] = (dt_cuda_source){.name = names[i], .remarks = "", .body = body, .threads = threads};
    return (dt_cuda_program){.head = "", .resident_blocks = 2, .n_sources = n, .sources = sources};
}

static dt_status *compile(const dt_cuda_program *program, const char *architecture, const char *cache, dt_text *warnings, dt_cuda_code *code) {
    return dt_cuda_compile(program, &architecture, 1, cache, warnings, code);
}

static void code_for_each_architecture(void **state) {
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_90", "compute_80"};
    dt_cuda_source sources[10];
    dt_cuda_program program = program_of(sources, 10, plain, 256);
    dt_text warnings = {0};
    dt_cuda_code code;
    assert_ok(dt_cuda_compile(&program, architectures, 3, NULL, &warnings, &code));
    assert_int_equal(code.n_modules, 6); /* two units */
    assert_null(warnings.data);
    for (int m = 0; m < code.n_modules; m++) {
        const dt_cuda_module *module = &code.modules[m];
        dt_cuda_usage usage[2] = {{.name = m < 3 ? "k7" : "k9"}, {.name = m < 3 ? "k8" : "k1"}};
        bool cubin = m % 3 < 2;
        assert_string_equal(module->architecture, architectures[m % 3]);
        assert_int_equal(dt_cuda_read_usage(module->bytes, module->n_bytes, usage, 2), cubin);
        if (!cubin) assert_non_null(strstr(module->bytes, ".entry"));
        if (!cubin) continue;
        assert_in_range(usage[0].registers, 4, 64);
        assert_in_range(usage[0].shared_bytes, 1024, 2048);
        assert_int_equal(usage[0].stack_bytes, 0);
        assert_int_equal(usage[1].registers, 0); /* of the other unit */
    }
    dt_cuda_code_free(&code);
}

static void the_default_can_be_compiled(void **state) {
    (void)state;
    const char *architectures[DT_CUDA_MOST_DEFAULT];
    int n;
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, plain, 256);
    dt_text warnings = {0};
    dt_cuda_code code;
    assert_ok(dt_cuda_default_architectures(architectures, &n));
    assert_in_range(n, 2, DT_CUDA_MOST_DEFAULT);
    assert_string_equal(architectures[0], "sm_80");
    assert_int_equal(strncmp(architectures[n - 1], "compute_", 8), 0);
    assert_ok(dt_cuda_compile(&program, architectures, n, NULL, &warnings, &code));
    assert_int_equal(code.n_modules, n);
    dt_cuda_code_free(&code);
}

static void a_spill_is_a_warning(void **state) {
    (void)state;
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, greedy, 1024);
    dt_text warnings = {0};
    dt_cuda_code code;
    assert_ok(compile(&program, "sm_90", NULL, &warnings, &code));
    assert_non_null(warnings.data);
    assert_non_null(strstr(warnings.data, "spill"));
    assert_non_null(strstr(warnings.data, "'k0'"));
    dt_text_free(&warnings);
    dt_cuda_code_free(&code);
}

/* What stands between two words of the only line of the account that begins with `name`. */
static int number_in(const char *account, const char *name, const char *before, const char *after) {
    const char *line = strstr(account, name), *end = line != NULL ? strchr(line, '\n') : NULL;
    const char *start = line != NULL ? strstr(line, before) : NULL, *stop = start != NULL ? strstr(start, after) : NULL;
    assert_true(start != NULL && stop != NULL && end != NULL && stop < end);
    return atoi(start + strlen(before));
}

static void the_account_has_what_is_spilled(void **state) {
    (void)state;
    dt_cuda_source sources[2];
    dt_cuda_program program = program_of(sources, 2, greedy, 1024);
    dt_text warnings = {0}, account = {0};
    dt_cuda_code code;
    sources[1] = (dt_cuda_source){.name = "k1", .remarks = "", .body = plain, .threads = 256};
    assert_ok(compile(&program, "sm_90", NULL, &warnings, &code));
    dt_cuda_print_account(&account, &program, &code, "sm_90");
    /* of 200 floats, 64 registers hold what they can */
    assert_in_range(number_in(account.data, "  k0 ", "stack", "spilled"), 400, 8000);
    assert_in_range(number_in(account.data, "  k0 ", "spilled,", "reloaded"), 400, 8000);
    assert_int_equal(number_in(account.data, "  k1 ", "stack", "spilled"), 0);
    assert_int_equal(number_in(account.data, "  k1 ", "spilled,", "reloaded"), 0);
    dt_text_free(&account);
    dt_text_free(&warnings);
    dt_cuda_code_free(&code);
}

static void a_warning_names_its_function(void **state) {
    (void)state;
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, "(float *x) {\n    int y = 1;\n    x[0] = 1;\n}\n", 256);
    dt_text warnings = {0};
    dt_cuda_code code;
    assert_ok(compile(&program, "sm_90", NULL, &warnings, &code));
    assert_non_null(warnings.data);
    assert_non_null(strstr(warnings.data, "never referenced, in k0\n"));
    dt_text_free(&warnings);
    dt_cuda_code_free(&code);
}

static void no_cubin_is_read(void **state) {
    (void)state;
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, plain, 256);
    dt_cuda_code code;
    dt_text warnings = {0};
    dt_cuda_usage usage = {.name = "k0"};
    assert_ok(compile(&program, "sm_90", NULL, &warnings, &code));
    for (size_t n = 0; n < code.modules[0].n_bytes; n += 97) {
        char *part = malloc(n + 1);
        memcpy(part, code.modules[0].bytes, n);
        dt_cuda_read_usage(part, n, &usage, 1); /* whatever it says, it stays within the file */
        free(part);
    }
    assert_false(dt_cuda_read_usage("text", 4, &usage, 1));
    dt_cuda_code_free(&code);
}

static int count_files(const char *folder) {
    char command[4200], line[64] = "";
    snprintf(command, sizeof command, "ls '%s' 2>/dev/null | wc -l", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    return atoi(line);
}

/* The path of the only file in the folder. */
static void only_file(const char *folder, char path[4200]) {
    char command[4200];
    snprintf(command, sizeof command, "printf %%s '%s'/*", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(path, 4200, pipe));
    pclose(pipe);
}

/* What becomes of the only file in the folder: nothing, another text, or it has the same length and one bit is another: at that byte, or at that one
 * from the end. */
enum {
    WHOLE = INT_MIN,
    ANOTHER_TEXT
};

static void damage(const char *folder, int how) {
    char path[4200], *data;
    size_t n_bytes;
    only_file(folder, path);
    assert_ok(dt_file_read(path, &data, &n_bytes));
    if (how == ANOTHER_TEXT)
        assert_ok(dt_file_write_atomic(path, "no code\n", 8));
    else if (how != WHOLE) {
        data[how < 0 ? (int)n_bytes + how : how] ^= 0x10;
        assert_ok(dt_file_write_atomic(path, data, n_bytes));
    }
    free(data);
}

static void the_cache_gives_the_same(void **state) {
    (void)state;
    const char *folder = scratch_path("cache");
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, greedy, 1024);
    dt_cuda_code first, again;
    dt_text warnings[2] = {{0}, {0}}, account = {0}, account_again = {0};
    assert_ok(compile(&program, "sm_90", folder, &warnings[0], &first));
    assert_int_equal(count_files(folder), 1);
    dt_cuda_print_account(&account, &program, &first, "sm_90");
    /* one bit of the mark, the sum, the counts, the remarks, the code */
    static const int damages[] = {WHOLE, ANOTHER_TEXT, 3, 30, 78, 120, -1000, -1};
    for (size_t d = 0; d < sizeof damages / sizeof *damages; d++) {
        damage(folder, damages[d]);
        assert_ok(compile(&program, "sm_90", folder, &warnings[1], &again));
        assert_int_equal(again.modules[0].n_bytes, first.modules[0].n_bytes);
        assert_memory_equal(again.modules[0].bytes, first.modules[0].bytes, first.modules[0].n_bytes);
        assert_string_equal(warnings[1].data, warnings[0].data);
        dt_cuda_print_account(&account_again, &program, &again, "sm_90");
        assert_string_equal(account_again.data, account.data);
        dt_text_free(&account_again);
        dt_text_free(&warnings[1]);
        dt_cuda_code_free(&again);
    }
    assert_ok(compile(&program, "sm_80", folder, &warnings[1], &again));
    assert_int_equal(count_files(folder), 2);
    dt_cuda_code_free(&again);
    dt_cuda_code_free(&first);
    dt_text_free(&account);
    dt_text_free(&warnings[0]);
    dt_text_free(&warnings[1]);
}

static void mistakes_are_told(void **state) {
    (void)state;
    dt_cuda_source source;
    dt_cuda_program program = program_of(&source, 1, "(float *x) { y[0] = 1; }\n", 256);
    dt_text warnings = {0};
    dt_cuda_code code;
    assert_fails(compile(&program, "sm_90", NULL, &warnings, &code), DT_INTERNAL, "\"y\" is undefined");
    assert_int_equal(code.n_modules, 0);
    assert_fails(compile(&program, "sm_12345", NULL, &warnings, &code), DT_INVALID_ARGUMENT, "sm_90");
    assert_fails(compile(&program, "sm_80a", NULL, &warnings, &code), DT_INVALID_ARGUMENT, "makes no code for sm_80a; it does for sm_80");
    assert_fails(compile(&program, "sm_90f", NULL, &warnings, &code), DT_INVALID_ARGUMENT, "makes no code for sm_90f; it does for sm_90");
    dt_text_free(&warnings);
}

static void a_missing_library_is_named(void **state) {
    (void)state;
    char *before = getenv("DT_NVRTC");
    dt_nvrtc nvrtc;
    before = before != NULL ? strdup(before) : NULL;
    setenv("DT_NVRTC", "/nowhere/libnvrtc.so", 1);
    assert_fails(dt_nvrtc_open(&nvrtc), DT_NOT_FOUND, "/nowhere/libnvrtc.so");
    setenv("DT_NVRTC", "libm.so.6", 1);
    assert_fails(dt_nvrtc_open(&nvrtc), DT_FAILED_PRECONDITION, "has no nvrtc");
    if (before != NULL)
        setenv("DT_NVRTC", before, 1);
    else
        unsetenv("DT_NVRTC");
    free(before);
}

int main(void) {
    dt_nvrtc nvrtc;
    dt_status *status = dt_nvrtc_open(&nvrtc);
    if (status != NULL) {
        printf("skipped: %s\n", dt_status_message(status));
        dt_status_free(status);
        return 77;
    }
    dt_nvrtc_close(&nvrtc);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_for_each_architecture),
        cmocka_unit_test(the_default_can_be_compiled),
        cmocka_unit_test(a_spill_is_a_warning),
        cmocka_unit_test(no_cubin_is_read),
        cmocka_unit_test(the_account_has_what_is_spilled),
        cmocka_unit_test(a_warning_names_its_function),
        cmocka_unit_test(the_cache_gives_the_same),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_missing_library_is_named),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
