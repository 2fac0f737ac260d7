/* fake_cublaslt: products, column by column, with the epilogues that are used; see fake_library.h. Heuristics propose a way with a reduction first,
 * unless the preference forbids it, and running that one is misuse: it is not what we promise of bits.
 *
 * Epilogues are what cublasLt.h says of them. Of D's rows each has one element of the bias; gradients of a bias are sums of A over its rows, or of B
 * over its columns. The second matrix holds what gelu was taken of, in D's type and at steps that are multiples of 8, or a bit for each element that
 * a relu let through, at steps of 128 bits. Whether a gradient of a bias is scaled is not said: asking for one that would be is misuse. */
#include "runtime/devices/cuda/cublaslt.h"
#include "tests/support/fake_library.h"

#include <math.h>

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

FAKE_EXPORT size_t cublasLtGetVersion(void) {
    const char *version = getenv("FAKE_CUBLASLT_VERSION");
    return version != NULL ? strtoul(version, NULL, 10) : 130002;
}
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
    bool wide = attribute == DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER || attribute == DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER ||
                attribute == DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;
    return set(__func__, OPERATION, operation, attribute, value, bytes, wide ? 8 : 4);
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

/* ---- epilogues ---- */

enum {
    AUX = 128, /* of an epilogue: it has a second matrix; BIAS, RELU and GELU are such bits as well, where no gradient is meant */
    MASK_STEP = 128,
    GELU_STEP = 8
};

static bool has(uint32_t epilogue, uint32_t bits) { return (epilogue & bits) == bits; }
static bool is_of_relu(uint32_t epilogue) { return has(epilogue, DT_CUBLASLT_EPILOGUE_RELU) || epilogue == DT_CUBLASLT_EPILOGUE_DRELU; }
static bool sums_factor(uint32_t epilogue) { return epilogue == DT_CUBLASLT_EPILOGUE_BGRADA || epilogue == DT_CUBLASLT_EPILOGUE_BGRADB; }
static bool has_vector(uint32_t epilogue) { return sums_factor(epilogue) || has(epilogue, DT_CUBLASLT_EPILOGUE_BIAS); }

/* What it needs is there, and as it is to be. */
static bool epilogue_fits(const object *operation, const object *d) {
    uint32_t epilogue = (uint32_t)operation->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE];
    int64_t step = operation->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD], unit = is_of_relu(epilogue) ? MASK_STEP : GELU_STEP;
    uint64_t aux = (uint64_t)operation->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER];
    if (has_vector(epilogue) && operation->attributes[DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER] == 0) return false;
    if (!has(epilogue, AUX)) return true;
    return aux != 0 && aux % 16 == 0 && step % unit == 0 && step >= (int64_t)d->rows && !d->has[DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT];
}

static bool refuses(const object *operation) {
    const char *list = getenv("FAKE_LIBRARY_REFUSE_EPILOGUES");
    for (char *end; list != NULL && *list != 0; list = *end == ',' ? end + 1 : NULL)
        if (strtoll(list, &end, 10) == operation->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE]) return true;
    return getenv("FAKE_LIBRARY_REFUSE") != NULL;
}

FAKE_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int most,
                                               dt_cublaslt_choice *choices, int *n) {
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    const object *p = preference;
    if (!fake_library_is(handle, HANDLE) || !fake_library_is(p, PREFERENCE) || !fits(operation, a, b, c, d) || !epilogue_fits(operation, d))
        return fake_library_misuse(INVALID, "heuristics are asked for factors that do not fit");
    if (refuses(operation)) return DT_CUBLAS_STATUS_NOT_SUPPORTED;
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
    float *vector; /* the bias, or its gradient */
    void *aux;     /* the second matrix */
    int64_t aux_step;
    float scale;
    uint32_t epilogue;
    uint64_t m, n, k, n_batches;
} work;

static float of_a(const work *w, uint64_t batch, uint64_t i, uint64_t k) {
    return w->a.values[(int64_t)batch * w->a.batch + (int64_t)i * w->a.step_i + (int64_t)k * w->a.step_j];
}

static float of_b(const work *w, uint64_t batch, uint64_t k, uint64_t j) {
    return w->b.values[(int64_t)batch * w->b.batch + (int64_t)k * w->b.step_i + (int64_t)j * w->b.step_j];
}

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x) {
    double t = tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 0.134145 * x * x);
}

static float follow(const work *w, uint64_t i, uint64_t j, float value) {
    uint64_t place = j * (uint64_t)w->aux_step + i;
    uint8_t *bits = w->aux, bit = (uint8_t)(1u << place % 8);
    float *kept = w->aux;
    if (w->epilogue == DT_CUBLASLT_EPILOGUE_DRELU) return (bits[place / 8] & bit) != 0 ? value : 0;
    if (w->epilogue == DT_CUBLASLT_EPILOGUE_DGELU) return (float)(value * gelu_slope(kept[place]));
    if (has(w->epilogue, DT_CUBLASLT_EPILOGUE_BIAS)) value += w->vector[i];
    if (has(w->epilogue, DT_CUBLASLT_EPILOGUE_RELU_AUX)) bits[place / 8] = (uint8_t)(value > 0 ? bits[place / 8] | bit : bits[place / 8] & ~bit);
    if (has(w->epilogue, DT_CUBLASLT_EPILOGUE_GELU_AUX)) kept[place] = value;
    if (has(w->epilogue, DT_CUBLASLT_EPILOGUE_RELU)) return value > 0 ? value : 0;
    return has(w->epilogue, DT_CUBLASLT_EPILOGUE_GELU) ? (float)gelu(value) : value;
}

static void sum_factor(const work *w) {
    bool a = w->epilogue == DT_CUBLASLT_EPILOGUE_BGRADA;
    for (uint64_t i = 0; i < (a ? w->m : w->n); i++) {
        double sum = 0;
        for (uint64_t k = 0; k < w->k; k++) sum += a ? of_a(w, 0, i, k) : of_b(w, 0, k, i);
        w->vector[i] = (float)sum;
    }
}

static void multiply(const void *data) {
    const work *w = data;
    for (uint64_t batch = 0; batch < w->n_batches; batch++)
        for (uint64_t i = 0; i < w->m; i++)
            for (uint64_t j = 0; j < w->n; j++) {
                double sum = 0;
                for (uint64_t k = 0; k < w->k; k++) sum += (double)of_a(w, batch, i, k) * of_b(w, batch, k, j);
                float *d = (float *)(uintptr_t)w->d.values + (int64_t)batch * w->d.batch + (int64_t)i * w->d.step_i + (int64_t)j * w->d.step_j;
                *d = follow(w, i, j, (float)(w->scale * sum));
            }
    if (sums_factor(w->epilogue)) sum_factor(w);
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
    if (!fake_library_is(handle, HANDLE) || !fits(o, la, lb, c_layout, ld) || !epilogue_fits(o, ld) || c != d || *(const float *)beta != 0)
        return fake_library_misuse(INVALID, "a product of factors that do not fit");
    if (algorithm->data[0] != 66 || workspace_bytes < WORKSPACE || (uintptr_t)workspace % 256 != 0)
        return fake_library_misuse(INVALID, "a product by a way with a reduction, or without its workspace");
    bool ta = transposed(o, DT_CUBLASLT_MATMUL_DESC_TRANSA), tb = transposed(o, DT_CUBLASLT_MATMUL_DESC_TRANSB);
    uint32_t epilogue = (uint32_t)o->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE];
    int64_t step = o->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD];
    if (sums_factor(epilogue) && *(const float *)alpha != 1) return fake_library_misuse(INVALID, "a gradient of a bias beside a scaled product");
    work w = {matrix_of(la, ta, a),
              matrix_of(lb, tb, b),
              matrix_of(ld, false, d),
              (float *)(uintptr_t)o->attributes[DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER],
              (void *)(uintptr_t)o->attributes[DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER],
              step,
              *(const float *)alpha,
              epilogue,
              ld->rows,
              ld->columns,
              wide(la, ta),
              batches(ld)};
    uint64_t n_vector = epilogue == DT_CUBLASLT_EPILOGUE_BGRADB ? ld->columns : ld->rows, n_aux = (uint64_t)step * ld->columns;
    fake_cuda_range ranges[6] = {range_of(la, a), range_of(lb, b), range_of(ld, d), {(uint64_t)(uintptr_t)workspace, workspace_bytes}};
    size_t n_ranges = 4;
    if (has_vector(epilogue)) ranges[n_ranges++] = (fake_cuda_range){(uint64_t)(uintptr_t)w.vector, n_vector * sizeof(float)};
    if (has(epilogue, AUX))
        ranges[n_ranges++] = (fake_cuda_range){(uint64_t)(uintptr_t)w.aux, is_of_relu(epilogue) ? n_aux / 8 : n_aux * sizeof(float)};
    return fake_library_submit(stream, __func__, ranges, n_ranges, multiply, &w, sizeof w) == 0 ? 0 : 13;
}
