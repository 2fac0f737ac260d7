/* codegen: every row of the op table as LLVM's code, on each instruction-set level of this machine; see rows.h. */
#include "tests/ops/rows.h"
#include "tests/support/compiled.h"

typedef struct codes {
    int n;
    compiled_code levels[COMPILED_MOST_LEVELS];
} codes;

static const char *levels[COMPILED_MOST_LEVELS];
static int n_levels;

static dt_status *make(const dt_compilation *compilation, void *context, way *ways, int *n_ways) {
    codes *codes = context;
    codes->n = *n_ways = n_levels;
    DT_TRY(compiled_make(compilation, levels, n_levels, codes->levels));
    for (int i = 0; i < n_levels; i++) ways[i] = (way){levels[i], compiled_run, &codes->levels[i], false};
    return NULL;
}

static void release(void *context) {
    codes *codes = context;
    compiled_free(codes->levels, codes->n);
}

static void every_row(void **state) {
    (void)state;
    static const generator llvm = {DT_TARGET_CPU, sizeof(codes), make, release, NULL};
    n_levels = compiled_levels(levels);
    run_rows(&llvm, NULL);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
