/* row_ranges: the rows that processes hold of a global batch are those of their microbatches, one run each, in order, all of them. */
#include "runtime/comm/microbatches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    REPLICAS = 3
};

/* Of a global batch of which `valid` rows are valid. */
static void check(const dt_microbatches *all, int n_processes, int64_t valid) {
    int n = (int)all->per_replica * REPLICAS;
    int64_t end = 0;
    for (int p = 0; p < n_processes; p++) {
        dt_row_range range = dt_microbatches_rows_of_process(all, REPLICAS, p, (dt_process_roles){.n_processes = n_processes});
        int64_t rows = 0, n_valid = 0;
        for (int m = dt_microbatches_first_of_rank(p, n_processes, n); m < dt_microbatches_first_of_rank(p + 1, n_processes, n); m++) {
            rows += dt_microbatches_rows(all, m);
            n_valid += dt_microbatches_valid_rows(all, m, valid);
        }
        assert_int_equal(range.first, end);
        assert_int_equal(range.end - range.first, rows);
        assert_int_equal(dt_row_range_valid(range, valid), n_valid);
        end = range.end;
    }
    assert_int_equal(end, all->rows * REPLICAS);
}

static void ranges_are_those_of_the_microbatches(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 9; rows++)
        for (int64_t microbatch_rows = 1; microbatch_rows <= rows; microbatch_rows++) {
            dt_microbatches all = {rows, 1, microbatch_rows};
            while (all.per_replica * microbatch_rows < rows) all.per_replica *= 2; /* the last ones are empty */
            for (int n_processes = 1; n_processes <= all.per_replica * REPLICAS; n_processes++)
                for (int64_t valid = 0; valid <= rows * REPLICAS; valid++) check(&all, n_processes, valid);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_those_of_the_microbatches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
