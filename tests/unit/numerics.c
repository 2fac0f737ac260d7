/* numerics: the sentence about a number that is not finite, in a function without any kernel too. */
#include "runtime/execution/numerics.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>

static void an_input_is_named_where_there_is_no_kernel(void **state) {
    (void)state;
    dt_artifact_tensor inputs[] = {{.name = "x"}, {.name = "label"}};
    dt_artifact_function function = {.role = DT_ROLE_STEP, .n_inputs = 2, .inputs = inputs};
    const dt_artifact artifact = {.n_functions = 1, .functions = &function};
    const dt_run_values values = {.step = "train", .launch = {.counter = 4}};
    const dt_numerics found = {.place = DT_NUMERICS_INPUT, .index = 1, .n_rows = 1, .row = 3, .element = 2, .value = NAN};
    assert_fails(dt_numerics_status(&found, &artifact, &values), DT_OUT_OF_RANGE, "train step 5, row 3: input label holds NaN (element 2)");
    assert_null(dt_numerics_status(&(dt_numerics){.place = DT_NUMERICS_FINITE, .index = -1}, &artifact, &values));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_input_is_named_where_there_is_no_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
