/* plateau: what becomes of a rate while a metric stands still, beside PyTorch's ReduceLROnPlateau (tests/golden/plateau.py). */
#include "runtime/plateau.h"
#include "tests/support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Its settings are the next line of `file`; false: there is none. */
static bool next_case(FILE *file, dt_plateau *plateau, char line[256]) {
    char mode[8];
    while (fgets(line, 256, file) != NULL) {
        *plateau = (dt_plateau){0};
        if (sscanf(line, "case %7s %lf %ld %lf %ld %lf", mode, &plateau->factor, &plateau->patience, &plateau->min, &plateau->cooldown,
                   &plateau->threshold) != 6)
            continue;
        plateau->metric.smaller_is_better = mode[1] == 'i';
        return true;
    }
    return false;
}

static void reduces_as_pytorch_does(void **unused) {
    (void)unused;
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/tests/golden/plateau.txt", getenv("DT_SOURCE"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    dt_plateau plateau;
    int n_cases = 0, n_reductions = 0;
    for (; next_case(file, &plateau, line); n_cases++) {
        dt_plateau_state state = dt_plateau_begin(&plateau);
        double rate = 1, value, wanted;
        for (int epoch = 0; epoch < 60; epoch++) {
            assert_non_null(fgets(line, sizeof line, file));
            assert_int_equal(sscanf(line, "%lf %lf", &value, &wanted), 2);
            double next = dt_plateau_next(&plateau, &state, value, rate);
            n_reductions += next < rate;
            rate = next;
            if (rate != wanted) fail_msg("case %d, epoch %d: %.17g, PyTorch has %.17g", n_cases, epoch, rate, wanted);
        }
    }
    fclose(file);
    assert_int_equal(n_cases, 5);
    assert_true(n_reductions > 10);
}

/* What a checkpoint keeps is all that is needed to go on. */
static void state_goes_on(void **unused) {
    (void)unused;
    const dt_plateau plateau = {.metric = {.smaller_is_better = true}, .factor = 0.5, .patience = 2, .cooldown = 2, .threshold = 1e-4};
    for (int stopped_at = 0; stopped_at < 12; stopped_at++) {
        dt_plateau_state whole = dt_plateau_begin(&plateau), resumed = {0};
        double rate = 1, again = 1;
        for (int epoch = 0; epoch < 12; epoch++) {
            if (epoch <= stopped_at) resumed = whole, again = rate;
            rate = dt_plateau_next(&plateau, &whole, 0.5, rate);
            again = dt_plateau_next(&plateau, &resumed, 0.5, again);
        }
        assert_true(rate == again && rate < 0.3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reduces_as_pytorch_does), cmocka_unit_test(state_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
