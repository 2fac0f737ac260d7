/* cuda_remarks: what is read from the words of NVRTC and its assembler, without either. */
#include "compiler/codegen/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char remarks[] =
    "ptxas warning : Registers are spilled to local memory in function 'greedy', 1104 bytes spill stores, 1248 bytes spill loads\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'warning' for 'sm_90'\n"
    "ptxas info    : Function properties for warning\n"
    "ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 10 registers, used 0 barriers\n"
    "ptxas info    : Function properties for greedy\n"
    "ptxas         .     1000 bytes stack frame, 1104 bytes spill stores, 1248 bytes spill loads\n"
    "ptxas info    : Function properties for cut";

static const dt_cuda_source sources[] = {{.name = "warning"}, {.name = "greedy"}, {.name = "cut"}};

static void spills_are_read_by_function(void **state) {
    (void)state;
    dt_cuda_usage greedy = {.name = "greedy"}, none = {.name = "warning", .spilled_bytes = -1, .reloaded_bytes = -1};
    assert_true(dt_cuda_read_spills(remarks, &greedy));
    assert_int_equal(greedy.spilled_bytes, 1104);
    assert_int_equal(greedy.reloaded_bytes, 1248);
    assert_true(dt_cuda_read_spills(remarks, &none));
    assert_int_equal(none.spilled_bytes, 0);
    assert_int_equal(none.reloaded_bytes, 0);
}

static void what_is_not_said_is_not_known(void **state) {
    (void)state;
    static const char *const names[] = {"cut", "greed", "greedy2", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_false(dt_cuda_read_spills(remarks, &(dt_cuda_usage){.name = names[i]}));
    assert_false(dt_cuda_read_spills(NULL, &(dt_cuda_usage){.name = "greedy"}));
    assert_false(dt_cuda_read_spills("Function properties for greedy\nsomething else\n", &(dt_cuda_usage){.name = "greedy"}));
}

static void only_warnings_are_warnings(void **state) {
    (void)state;
    dt_text warnings = {0};
    dt_cuda_add_warnings(&warnings, remarks, "sm_90", sources, 3);
    assert_string_equal(warnings.data, "sm_90: ptxas warning : Registers are spilled to local memory in function 'greedy', 1104 bytes spill "
                                       "stores, 1248 bytes spill loads\n");
    dt_text_free(&warnings);
    dt_cuda_add_warnings(&warnings, NULL, "sm_90", sources, 3);
    assert_null(warnings.data);
}

static void a_warning_about_nobody_is_about_all(void **state) {
    (void)state;
    dt_text warnings = {0};
    static const dt_cuda_source others[] = {{.name = "k0"}, {.name = "k1"}, {.name = "k2"}};
    dt_cuda_add_warnings(&warnings, "ptxas warning : something is odd\n", "sm_80", others, 3);
    dt_cuda_add_warnings(&warnings, "ptxas warning : k10 is odd\n", "sm_80", others, 2); /* which is none of these */
    dt_cuda_add_warnings(&warnings, "ptxas warning : k1 is odd\n", "sm_80", others, 2);
    assert_string_equal(warnings.data, "sm_80: ptxas warning : something is odd, in k0, k1 or k2\n"
                                       "sm_80: ptxas warning : k10 is odd, in k0 or k1\n"
                                       "sm_80: ptxas warning : k1 is odd\n");
    dt_text_free(&warnings);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spills_are_read_by_function), cmocka_unit_test(what_is_not_said_is_not_known),
                                       cmocka_unit_test(only_warnings_are_warnings), cmocka_unit_test(a_warning_about_nobody_is_about_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
