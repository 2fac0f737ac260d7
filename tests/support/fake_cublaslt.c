/* fake_cublaslt: products, column by column, with the epilogues that are used; see fake_library.h. Heuristics propose a way with a reduction first,
 * unless the preference forbids it, and running that one is misuse: it is not what we promise of bits. */
#include "runtime/devices/cuda/cublaslt.h"
#include "tests/support/fake_library.h"

enum {
    HANDLE = 1,
    OPERATION,
    LAYOUT,
    PREFERENCE,
    N_ATTRIBUTES = 16,
    INVALID = 7,
    WORKSPACE = 1024,
    INPLACE = 1 /* the reduction scheme */
};

typedef struct object {
    fake_library_object object;
    int type;
    uint64_t rows, columns;
    int64_t ld, attributes[N_ATTRIBUTES];
    bool has[N_ATTRIBUTES];
} object;

FAKE_EXPORT size_t cublasLtGetVersion(void) { return 130002; }
FAKE_EXPORT const char *cublasLtGetStatusName(int status) {
    return status == 13                               ? "CUBLAS_STATUS_EXECUTION_FAILED"
           : status == DT_CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
           : status == DT_CUBLAS_STATUS_ARCH_MISMATCH ? "CUBLAS_STATUS_ARCH_MISMATCH"
                                                      : "CUBLAS_STATUS_OTHER";
}
FAKE_EXPORT const char *cublasLtGetStatusString(int status) { return status == 13 ? "the fake was told to fail" : "another status"; }

static int make(const char *call, int kind, void **made, object contents) {
    int error = fake_library_call(call);
    if (error != 0) return error;
    object *o = fake_library_new(kind, sizeof *o);
    contents.object.kind = kind;
    *o = contents;
    *made = o;
    return 0;
}

static int destroy(int kind, void *x) {
    if (!fake_library_is(x, kind)) return fake_library_misuse(INVALID, "something else, or nothing, is destroyed");
    fake_library_delete(x);
    return 0;
}

static int set(const char *call, int kind, void *x, int attribute, const void *value, size_t bytes, size_t wanted) {
    object *o = x;
    int error = fake_library_call(call);
    if (error != 0) return error;
    if (!fake_library_is(o, kind) || attribute < 0 || attribute >= N_ATTRIBUTES || bytes != wanted)
        return fake_library_misuse(INVALID, "an attribute of another object, or of another size");
    o->attributes[attribute] = 0;
    memcpy(&o->attributes[attribute], value, bytes);
    o->has[attribute] = true;
    return 0;
}

FAKE_EXPORT int cublasLtCreate(void **handle) { return make(__func__, HANDLE, handle, (object){0}); }
FAKE_EXPORT int cublasLtDestroy(void *handle) { return destroy(HANDLE, handle); }

FAKE_EXPORT int cublasLtMatmulDescCreate(void **operation, int compute, int scale) {
    if (scale != DT_CUDA_R_32F) return fake_library_misuse(INVALID, "scales are f32");
    return make(__func__, OPERATION, operation, (object){.type = compute});
}
FAKE_EXPORT int cublasLtMatmulDescDestroy(void *operation) { return destroy(OPERATION, operation); }
FAKE_EXPORT int cublasLtMatmulDescSetAttribute(void *operation, int attribute, const void *value, size_t bytes) {
    return set(__func__, OPERATION, operation, attribute, value, bytes, attribute == DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4);
}

FAKE_EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (type != DT_CUDA_R_32F || ld < (int64_t)rows) return fake_library_misuse(INVALID, "columns of a matrix overlap, or are not of f32");
    return make(__func__, LAYOUT, layout, (object){.rows = rows, .columns = columns, .ld = ld});
}
FAKE_EXPORT int cublasLtMatrixLayoutDestroy(void *layout) { return destroy(LAYOUT, layout); }
FAKE_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
    return set(__func__, LAYOUT, layout, attribute, value, bytes, attribute == DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? 4 : 8);
}

FAKE_EXPORT int cublasLtMatmulPreferenceCreate(void **preference) { return make(__func__, PREFERENCE, preference, (object){0}); }
FAKE_EXPORT int cublasLtMatmulPreferenceDestroy(void *preference) { return destroy(PREFERENCE, preference); }
FAKE_EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
    return set(__func__, PREFERENCE, preference, attribute, value, bytes, attribute == DT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4);
}

static bool transposed(const object *operation, int attribute) { return operation->attributes[attribute] == DT_CUBLAS_OP_T; }
static uint64_t high(const object *layout, bool t) { return t ? layout->columns : layout->rows; }
static uint64_t wide(const object *layout, bool t) { return t ? layout->rows : layout->columns; }

/* D [m, n] = A [m, k] B [k, n] */
static bool fits(const object *operation, const object *a, const object *b, const object *c, const object *d) {
    if (!fake_library_is(operation, OPERATION) || !fake_library_is(a, LAYOUT) || !fake_library_is(b, LAYOUT) || !fake_library_is(d, LAYOUT))
        return false;
    bool ta = transposed(operation, DT_CUBLASLT_MATMUL_DESC_TRANSA), tb = transposed(operation, DT_CUBLASLT_MATMUL_DESC_TRANSB);
    bool same = c == d && a->attributes[DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] == d->attributes[DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT];
    return same && high(a, ta) == d->rows && wide(b, tb) == d->columns && wide(a, ta) == high(b, tb);
}

FAKE_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int most,
                                               dt_cublaslt_choice *choices, int *n) {
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    const object *p = preference;
    if (!fake_library_is(handle, HANDLE) || !fake_library_is(p, PREFERENCE) || !fits(operation, a, b, c, d))
        return fake_library_misuse(INVALID, "heuristics are asked for factors that do not fit");
    if (getenv("FAKE_LIBRARY_REFUSE") != NULL) return DT_CUBLAS_STATUS_NOT_SUPPORTED;
    bool all = !p->has[DT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] || p->attributes[DT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != 0;
    *n = 0;
    if (all && *n < most) choices[(*n)++] = (dt_cublaslt_choice){.algorithm = {{1, INPLACE}}, .workspace_bytes = WORKSPACE};
    if (*n < most) choices[(*n)++] = (dt_cublaslt_choice){.state = 15};
    if (*n < most) choices[(*n)++] = (dt_cublaslt_choice){.algorithm = {{66, 0}}, .workspace_bytes = WORKSPACE};
    return 0;
}

FAKE_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const dt_cublaslt_algorithm *algorithm, int attribute, void *value, size_t bytes,
                                                     size_t *written) {
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (bytes != 4) return fake_library_misuse(INVALID, "a trait of another size");
    *(uint32_t *)value = attribute == DT_CUBLASLT_ALGO_CONFIG_ID                 ? (uint32_t)algorithm->data[0]
                         : attribute == DT_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ? (uint32_t)algorithm->data[1]
                                                                                 : 3;
    *written = bytes;
    return 0;
}

/* ---- the call ---- */

typedef struct matrix {
    const float *values;
    int64_t step_i, step_j, batch;
} matrix;

typedef struct work {
    matrix a, b, d;
    const float *bias;
    float scale;
    bool relu;
    uint64_t m, n, k, n_batches;
} work;

static void multiply(const void *data) {
    const work *w = data;
    for (uint64_t batch = 0; batch < w->n_batches; batch++)
        for (uint64_t i = 0; i < w->m; i++)
            for (uint64_t j = 0; j < w->n; j++) {
                double sum = 0;
                for (uint64_t k = 0; k < w->k; k++)
                    sum += (double)w->a.values[(int64_t)batch * w->a.batch + (int64_t)i * w->a.step_i + (int64_t)k * w->a.step_j] *
                           w->b.values[(int64_t)batch * w->b.batch + (int64_t)k * w->b.step_i + (int64_t)j * w->b.step_j];
                float value = (float)(w->scale * sum);
                if (w->bias != NULL) value += w->bias[i];
                ((float *)(uintptr_t)w->d.values)[(int64_t)batch * w->d.batch + (int64_t)i * w->d.step_i + (int64_t)j * w->d.step_j] =
                    w->relu && !(value > 0) ? 0 : value;
            }
}

static uint64_t batches(const object *layout) {
    return layout->has[DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] ? (uint64_t)layout->attributes[DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] : 1;
}

static matrix matrix_of(const object *layout, bool t, const void *values) {
    return (matrix){values, t ? layout->ld : 1, t ? 1 : layout->ld, layout->attributes[DT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]};
}

static fake_cuda_range range_of(const object *layout, const void *values) {
    uint64_t last = (uint64_t)(layout->ld * ((int64_t)layout->columns - 1)) + layout->rows +
                    (batches(layout) - 1) * (uint64_t)layout->attributes[DT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET];
    return (fake_cuda_range){(uint64_t)(uintptr_t)values, last * sizeof(float)};
}

FAKE_EXPORT int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                               const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const dt_cublaslt_algorithm *algorithm,
                               void *workspace, size_t workspace_bytes, void *stream) {
    int error = fake_library_call(__func__);
    const object *o = operation, *la = a_layout, *lb = b_layout, *ld = d_layout;
    if (error != 0) return error;
    if (!fake_library_is(handle, HANDLE) || !fits(o, la, lb, c_layout, ld) || c != d || *(const float *)beta != 0)
        return fake_library_misuse(INVALID, "a product of factors that do not fit");
    if (algorithm->data[0] != 66 || workspace_bytes < WORKSPACE || (uintptr_t)workspace % 256 != 0)
        return fake_library_misuse(INVALID, "a product by a way with a reduction, or without its workspace");
    bool ta = transposed(o, DT_CUBLASLT_MATMUL_DESC_TRANSA), tb = transposed(o, DT_CUBLASLT_MATMUL_DESC_TRANSB);
    int64_t epilogue = o->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE];
    bool biased = (epilogue & DT_CUBLASLT_EPILOGUE_BIAS) != 0;
    const float *bias = biased ? (const float *)(uintptr_t)o->attributes[DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER] : NULL;
    work w = {matrix_of(la, ta, a),
              matrix_of(lb, tb, b),
              matrix_of(ld, false, d),
              bias,
              *(const float *)alpha,
              (epilogue & DT_CUBLASLT_EPILOGUE_RELU) != 0,
              ld->rows,
              ld->columns,
              wide(la, ta),
              batches(ld)};
    fake_cuda_range ranges[] = {range_of(la, a),
                                range_of(lb, b),
                                range_of(ld, d),
                                {(uint64_t)(uintptr_t)workspace, workspace_bytes},
                                {(uint64_t)(uintptr_t)bias, ld->rows * sizeof(float)}};
    return fake_library_submit(stream, __func__, ranges, biased ? 5 : 4, multiply, &w, sizeof w) == 0 ? 0 : 13;
}
