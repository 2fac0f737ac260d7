/* gpu_cublaslt: a matrix product by cuBLASLt called alone, as fast as it goes: what bench/gpu.sh holds ours against.
 *
 * Of the ways that its heuristics propose the fastest counts: among those that add the parts of a sum in one order, as our runtime asks for it; and,
 * with `any`, among all, those too whose order of addition varies from run to run. Each is run twice; those that come near the best are then timed,
 * and one that the library does not run after all is left out. Each of the two is a line of JSON, printed at once, so that one is there though the
 * other fails.
 *
 *     gpu_cublaslt ROWS INNER UNITS f32|tf32|bf16 any|ordered [LAUNCHES] */
#include "bench/gpu_time.h"
#include "runtime/devices/cuda/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACE = 32 << 20,
    MOST_CHOICES = 16
};
static const double NEAR = 1.5; /* times what the best algorithm takes */

/* [rows, inner] times [inner, units], row by row. The library sees all of it transposed, column by column: its first factor is our second one. */
typedef struct product {
    dt_cublaslt lt;
    uint64_t rows, inner, units;
    int compute;
    bool any;
    void *operation, *a, *b, *d, *preference;
    uint64_t first, second, result, workspace;
    const dt_cublaslt_choice *choice;
} product;

static dt_status *check(const product *p, const char *call, int error) {
    return error == 0 ? NULL : dt_error(DT_INTERNAL, "%s: %s", call, p->lt.cublasLtGetStatusString(error));
}

#define CALL(p, symbol, ...) DT_TRY(check((p), #symbol, (p)->lt.symbol(__VA_ARGS__)))

static dt_status *describe(product *p) {
    const uint64_t workspace = WORKSPACE;
    CALL(p, cublasLtMatmulDescCreate, &p->operation, p->compute, DT_CUDA_R_32F);
    CALL(p, cublasLtMatrixLayoutCreate, &p->a, DT_CUDA_R_32F, p->units, p->inner, (int64_t)p->units);
    CALL(p, cublasLtMatrixLayoutCreate, &p->b, DT_CUDA_R_32F, p->inner, p->rows, (int64_t)p->inner);
    CALL(p, cublasLtMatrixLayoutCreate, &p->d, DT_CUDA_R_32F, p->units, p->rows, (int64_t)p->units);
    CALL(p, cublasLtMatmulPreferenceCreate, &p->preference);
    CALL(p, cublasLtMatmulPreferenceSetAttribute, p->preference, DT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    return NULL;
}

/* Which algorithms to propose: those too whose order of addition varies? */
static dt_status *allow(const product *p, bool any) {
    const uint32_t schemes = any ? DT_CUBLASLT_REDUCTION_SCHEME_MASK : DT_CUBLASLT_REDUCTION_SCHEME_NONE;
    CALL(p, cublasLtMatmulPreferenceSetAttribute, p->preference, DT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    return NULL;
}

static dt_status *allocate(gpu_time *g, product *p) {
    const struct {
        uint64_t *at, n;
    } all[] = {{&p->first, p->rows * p->inner}, {&p->second, p->inner * p->units}, {&p->result, p->rows * p->units}, {&p->workspace, WORKSPACE / 4}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        DT_CUDA_TRY(&g->gpu, cuMemAlloc_v2, all[i].at, all[i].n * sizeof(float));
        DT_TRY(gpu_time_fill(g, *all[i].at, DT_F32, (int64_t)all[i].n, 0));
    }
    return NULL;
}

static dt_status *multiply(gpu_time *g, void *context) {
    const product *p = context;
    const float one = 1, zero = 0;
    void *d = (void *)(uintptr_t)p->result;
    CALL(p, cublasLtMatmul, p->lt.handle, p->operation, &one, (void *)(uintptr_t)p->second, p->a, (void *)(uintptr_t)p->first, p->b, &zero, d, p->d,
         d, p->d, &p->choice->algorithm, (void *)(uintptr_t)p->workspace, p->choice->workspace_bytes, g->gpu.stream);
    return NULL;
}

/* The least of `seconds`, which are 0 where a way was left out; 0 if all are. */
static double least(const double *seconds, int n) {
    double found = 0;
    for (int i = 0; i < n; i++)
        if (seconds[i] > 0 && (found == 0 || seconds[i] < found)) found = seconds[i];
    return found;
}

typedef dt_status *timer(gpu_time *g, gpu_work *work, void *context, double *seconds);

/* Times the ways in which the last ones took up to `most`; those that fail, and the others, get 0. */
static void time_ways(gpu_time *g, product *p, const dt_cublaslt_choice *choices, int n, timer *time, double most, double *seconds) {
    for (int i = 0; i < n; i++) {
        double found = 0;
        p->choice = &choices[i];
        dt_status *status = seconds[i] > 0 && seconds[i] <= most ? time(g, multiply, p, &found) : NULL;
        seconds[i] = status == NULL ? found : 0;
        dt_status_free(status);
    }
}

/* Prints of all proposed ways how many there were, how many ran, and the fastest. */
static dt_status *say_best(gpu_time *g, product *p, const char *name) {
    dt_cublaslt_choice choices[MOST_CHOICES];
    double seconds[MOST_CHOICES];
    int n = 0, n_run = 0;
    memset(choices, 0, sizeof choices);
    CALL(p, cublasLtMatmulAlgoGetHeuristic, p->lt.handle, p->operation, p->a, p->b, p->d, p->d, p->preference, MOST_CHOICES, choices, &n);
    for (int i = 0; i < n; i++) seconds[i] = choices[i].state == 0;
    time_ways(g, p, choices, n, gpu_time_once, 1, seconds);
    for (int i = 0; i < n; i++) n_run += seconds[i] > 0;
    time_ways(g, p, choices, n, gpu_time_of, NEAR * least(seconds, n), seconds);
    if (least(seconds, n) == 0) return dt_error(DT_NOT_FOUND, "cuBLASLt has no way to do this product");
    printf("{\"version\": %zu, \"order\": \"%s\", \"ways\": %d, \"run\": %d, \"seconds\": %.9g}\n", p->lt.cublasLtGetVersion(), name, n, n_run,
           least(seconds, n));
    fflush(stdout);
    return NULL;
}

static dt_status *say(gpu_time *g, product *p) {
    DT_TRY(allow(p, false));
    DT_TRY(say_best(g, p, "ordered"));
    if (!p->any) return NULL;
    DT_TRY(allow(p, true));
    return say_best(g, p, "any");
}

static void release(gpu_time *g, product *p) {
    const uint64_t memory[] = {p->first, p->second, p->result, p->workspace};
    void *const layouts[] = {p->a, p->b, p->d};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i] != 0) g->gpu.driver.cuMemFree_v2(memory[i]);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i] != NULL) p->lt.cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->preference != NULL) p->lt.cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->operation != NULL) p->lt.cublasLtMatmulDescDestroy(p->operation);
    dt_cublaslt_close(&p->lt);
}

static dt_status *run(product *p, int most_launches) {
    gpu_time g;
    DT_TRY(gpu_time_open(&g, most_launches));
    dt_status *status = dt_cublaslt_open(&g.gpu.driver, &p->lt);
    if (status == NULL) status = describe(p);
    if (status == NULL) status = allocate(&g, p);
    if (status == NULL) status = say(&g, p);
    release(&g, p);
    gpu_time_close(&g);
    return status;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int compute;
    } precisions[] = {{"f32", DT_CUBLAS_COMPUTE_32F}, {"tf32", DT_CUBLAS_COMPUTE_32F_FAST_TF32}, {"bf16", DT_CUBLAS_COMPUTE_32F_FAST_16BF}};
    product p = {.compute = -1};
    if (argc == 6 || argc == 7) {
        p.rows = strtoull(argv[1], NULL, 10), p.inner = strtoull(argv[2], NULL, 10), p.units = strtoull(argv[3], NULL, 10);
        p.any = strcmp(argv[5], "any") == 0;
        for (size_t i = 0; i < sizeof precisions / sizeof *precisions && (p.any || strcmp(argv[5], "ordered") == 0); i++)
            if (strcmp(argv[4], precisions[i].name) == 0) p.compute = precisions[i].compute;
    }
    int most_launches = argc == 7 ? atoi(argv[6]) : 200;
    if (p.compute < 0 || p.rows == 0 || p.inner == 0 || p.units == 0 || most_launches < 1)
        return fprintf(stderr, "usage: gpu_cublaslt ROWS INNER UNITS f32|tf32|bf16 any|ordered [LAUNCHES]\n"), 2;
    dt_status *status = run(&p, most_launches);
    if (status != NULL) fprintf(stderr, "gpu_cublaslt: %s\n", dt_status_message(status));
    int code = status != NULL;
    dt_status_free(status);
    return code;
}
