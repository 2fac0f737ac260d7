/* ops: rows of the op table on a GPU, against the interpreter; see tests/ops/rows.h. Any grid computes the same bits: each case runs in one block, in
 * three, and in as many as have something to do.
 *
 * OPS_ROW=name runs one row alone, OPS_PART=2/16 the third of sixteen parts of the rows. */
#include "tests/ops/rows.h"
#include "tests/support/on_gpu.h"

static gpu the_gpu;

enum {
    N_WAYS = 3
};

typedef struct context {
    gpu_code code;
    gpu_way ways[N_WAYS];
} context;

static dt_status *make(const dt_compilation *compilation, void *made, way *ways, int *n_ways) {
    static const char *const names[N_WAYS] = {"one block", "three blocks", "all blocks"};
    static const int most_blocks[N_WAYS] = {1, 3, 1 << 16};
    context *c = made;
    bool runs;
    DT_TRY(gpu_make(compilation, &the_gpu, &c->code, &runs));
    for (int i = 0; i < N_WAYS && runs; i++) {
        c->ways[i] = (gpu_way){&c->code, most_blocks[i]};
        ways[i] = (way){names[i], gpu_run, &c->ways[i], i > 0};
    }
    *n_ways = runs ? N_WAYS : 0;
    return NULL;
}

static void release(void *made) { gpu_free(&((context *)made)->code); }

static const char *wrong(void *way) {
    const gpu_code *code = ((gpu_way *)way)->code;
    return code->message[0] != 0 ? code->message : NULL;
}

static const generator on_gpu = {DT_TARGET_CUDA, sizeof(context), make, release, wrong};

static void rows_as_interpreted(void **state) {
    (void)state;
    run_rows(&on_gpu, NULL);
}

int main(void) {
    dt_status *status = gpu_open(&the_gpu);
    if (status != NULL) {
        int code = dt_status_code(status) == DT_NOT_FOUND ? 77 : 1;
        printf("%s%s\n", code == 77 ? "skipped: " : "", dt_status_message(status));
        dt_status_free(status);
        return code;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_as_interpreted)};
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    status = gpu_close(&the_gpu);
    if (status != NULL) fprintf(stderr, "%s\n", dt_status_message(status));
    return n_failed != 0 || status != NULL;
}
