/* reduce: the sum may lie where any of its sources lay. */
#include "runtime/devices/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    N = 1000, /* elements: more than are added at a time */
    MOST_SOURCES = 9
};

static void reduce_into(float *target, dt_dtype dtype, float (*values)[N], int n) {
    _Alignas(64) static char scratch[1 << 16];
    dt_tree_source sources[MOST_SOURCES];
    for (int s = 0; s < n; s++) sources[s] = (dt_tree_source){values[s], 1};
    size_t n_elements = sizeof *values / dt_dtype_bytes(dtype);
    assert_true(dt_reduce_scratch_bytes(n) <= sizeof scratch);
    dt_reduce(&(dt_tree_reduction){.dtype = dtype,
                                   .combine = DT_REDUCTION_SUM,
                                   .n_leaves = n,
                                   .n_sources = n,
                                   .sources = sources,
                                   .n_elements = n_elements,
                                   .n_targets = 1,
                                   .targets = (void *[]){target}},
              scratch);
}

static void a_sum_may_lie_in_the_place_of_any_source(void **state) {
    static float values[MOST_SOURCES][N], apart[N], kept[N];
    const dt_dtype *dtype = *state;
    for (int n = 2; n <= MOST_SOURCES; n++)
        for (int target = 0; target < n; target++) {
            for (int s = 0; s < n; s++)
                for (int i = 0; i < N; i++) values[s][i] = (float)((i + 1) * (s + 1) % 97) / 7;
            reduce_into(apart, *dtype, values, n);
            memcpy(kept, values[(target + 1) % n], sizeof kept);
            reduce_into(values[target], *dtype, values, n);
            assert_memory_equal(values[target], apart, sizeof apart);
            assert_memory_equal(values[(target + 1) % n], kept, sizeof kept);
        }
}

int main(void) {
    static dt_dtype dtypes[] = {DT_F32, DT_BF16};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_sum_may_lie_in_the_place_of_any_source, &dtypes[0]),
        cmocka_unit_test_prestate(a_sum_may_lie_in_the_place_of_any_source, &dtypes[1]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
