/* cublaslt: see the header.
 *
 * The library thinks in matrices that are stored column by column. Our result's columns lie side by side, so what it computes is our result
 * transposed: its rows are our columns, its first factor is our second one. So its bias, one value for each of its rows, is ours for each column; and
 * the sums over its first factor, for each of its rows, are ours over the second. */
#include "runtime/devices/cuda/cublaslt.h"
#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_WORKSPACE = 32 << 20, /* bytes: what NVIDIA recommends for its newest GPUs */
    ALIGNMENT = 64,            /* bytes, of buffers */
    MOST_CHOICES = 8
};

static dt_status *say(const dt_cublaslt *lt, const char *call, int error, bool is_unsupported) {
    if (error == 0) return NULL;
    return dt_error(is_unsupported ? DT_UNIMPLEMENTED : DT_INTERNAL, "cuBLASLt, %s: %s, %d (%s)", call, lt->cublasLtGetStatusName(error), error,
                    lt->cublasLtGetStatusString(error));
}

/* Two statuses say of what was asked for that the library, or this GPU, does not have it. */
static bool is_unsupported(int error) { return error == DT_CUBLAS_STATUS_NOT_SUPPORTED || error == DT_CUBLAS_STATUS_ARCH_MISMATCH; }

static dt_status *error_of(const dt_cublaslt *lt, const char *call, int error) { return say(lt, call, error, is_unsupported(error)); }

#define CALL(lt, symbol, ...) DT_TRY(error_of((lt), #symbol, (lt)->symbol(__VA_ARGS__)))

dt_status *dt_cublaslt_open(const dt_cuda_driver *driver, dt_cublaslt *lt) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    int driver_version;
    *lt = (dt_cublaslt){0};
    DT_TRY(dt_cuda_driver_error(driver, "cuDriverGetVersion", driver->cuDriverGetVersion(&driver_version)));
    bool takes_13 = driver_version >= 13000;
    DT_TRY(dt_shared_library_open("DT_CUBLASLT", takes_13 ? names : names + 1, &lt->library));
    if (lt->library == NULL)
        return dt_error(
            DT_NOT_FOUND,
            "cuBLASLt is not installed: %s%s, for this driver of CUDA %d.%d, is in no place where such libraries lie; DT_CUBLASLT names one "
            "elsewhere",
            takes_13 ? "libcublasLt.so.13 or " : "", names[1], driver_version / 1000, driver_version % 1000 / 10);
#define X(result, symbol, arguments)                                                                                                                 \
    lt->symbol = (result(*) arguments)(uintptr_t)dlsym(lt->library, #symbol);                                                                        \
    if (lt->symbol == NULL) return dt_error(DT_FAILED_PRECONDITION, "cuBLASLt has no %s: it is too old", #symbol);
    DT_CUBLASLT_SYMBOLS(X)
#undef X
    CALL(lt, cublasLtCreate, &lt->handle);
    return NULL;
}

void dt_cublaslt_close(dt_cublaslt *lt) {
    if (lt->handle != NULL) lt->cublasLtDestroy(lt->handle);
    if (lt->library != NULL) dlclose(lt->library);
    *lt = (dt_cublaslt){0};
}

/* ---- matrices ---- */

static dt_status *set(const dt_cublaslt *lt, void *operation, int attribute, const void *value, size_t bytes) {
    CALL(lt, cublasLtMatmulDescSetAttribute, operation, attribute, value, bytes);
    return NULL;
}

/* A matrix whose element (i, j) lies at i * step_i + j * step_j, one of them 1, as `rows` x `columns` stored column by column, or as its transpose.
 */
static dt_status *lay_out(const dt_cublaslt *lt, int64_t rows, int64_t columns, int64_t step_i, int64_t step_j, void **layout, int32_t *transposed) {
    *transposed = step_i == 1 ? DT_CUBLAS_OP_N : DT_CUBLAS_OP_T;
    if (step_i == 1)
        CALL(lt, cublasLtMatrixLayoutCreate, layout, DT_CUDA_R_32F, (uint64_t)rows, (uint64_t)columns, step_j);
    else
        CALL(lt, cublasLtMatrixLayoutCreate, layout, DT_CUDA_R_32F, (uint64_t)columns, (uint64_t)rows, step_i);
    return NULL;
}

static dt_status *set_batches(const dt_cublaslt *lt, const dt_library_product *p, void *layout, const dt_library_matrix *matrix) {
    if (p->n_batches == 0) return NULL;
    int32_t count = (int32_t)p->batches[p->n_batches - 1];
    int64_t step = matrix->batch_strides[p->n_batches - 1];
    CALL(lt, cublasLtMatrixLayoutSetAttribute, layout, DT_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    CALL(lt, cublasLtMatrixLayoutSetAttribute, layout, DT_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
    return NULL;
}

static int compute_type(dt_precision precision) {
    return precision == DT_PRECISION_TF32   ? DT_CUBLAS_COMPUTE_32F_FAST_TF32
           : precision == DT_PRECISION_BF16 ? DT_CUBLAS_COMPUTE_32F_FAST_16BF
                                            : DT_CUBLAS_COMPUTE_32F;
}

/* The bytes, a power of two, that address and steps are multiples of. */
static uint32_t alignment_of(const dt_library_matrix *matrix, int64_t n_batches) {
    uint64_t all = ALIGNMENT | (uint64_t)matrix->offset * sizeof(float);
    for (int64_t b = 0; b < n_batches; b++) all |= (uint64_t)matrix->batch_strides[b] * sizeof(float);
    return (uint32_t)(all & -all);
}

/* ---- what follows the sum ---- */

enum {
    NO_EPILOGUE = 0,
    MASK_STEP = 128, /* bits at which rows of a mask begin */
    MASK_ALIGNMENT = 256
};

/* Whether there is a second matrix: one that is kept, or a mask. */
static bool has_aux(const dt_cublaslt_product *x) {
    bool gelu = x->product->activation == DT_LIBRARY_ACTIVATION_GELU || x->product->activation == DT_LIBRARY_ACTIVATION_GELU_GRADIENT;
    return x->extent.mask || (gelu && x->product->kept >= 0);
}

static uint32_t epilogue_of(const dt_cublaslt_product *x) {
    static const uint32_t epilogues[DT_N_LIBRARY_ACTIVATIONS][2][2] = {
        /* by itself, with a bias; with a second matrix, with both */
        {{DT_CUBLASLT_EPILOGUE_DEFAULT, DT_CUBLASLT_EPILOGUE_BIAS}},
        {{DT_CUBLASLT_EPILOGUE_RELU, DT_CUBLASLT_EPILOGUE_RELU_BIAS}, {DT_CUBLASLT_EPILOGUE_RELU_AUX, DT_CUBLASLT_EPILOGUE_RELU_AUX_BIAS}},
        {{DT_CUBLASLT_EPILOGUE_GELU, DT_CUBLASLT_EPILOGUE_GELU_BIAS}, {DT_CUBLASLT_EPILOGUE_GELU_AUX, DT_CUBLASLT_EPILOGUE_GELU_AUX_BIAS}},
        {{NO_EPILOGUE}, {DT_CUBLASLT_EPILOGUE_DRELU}},
        {{NO_EPILOGUE}, {DT_CUBLASLT_EPILOGUE_DGELU}},
    };
    uint32_t plain = epilogues[x->product->activation][has_aux(x)][x->product->bias >= 0];
    if (!x->extent.bias_gradient) return plain;
    if (plain != DT_CUBLASLT_EPILOGUE_DEFAULT) return NO_EPILOGUE;
    return x->product->bias_gradient.of_first ? DT_CUBLASLT_EPILOGUE_BGRADB : DT_CUBLASLT_EPILOGUE_BGRADA;
}

static int64_t mask_step(const dt_library_product *p) { return (p->columns + MASK_STEP - 1) / MASK_STEP * MASK_STEP; }

size_t dt_cublaslt_mask_bytes(const dt_library_product *p) { return (size_t)(p->rows * mask_step(p) / 8); }

/* Where things of the epilogue are. For the heuristics, which read nothing there, any address of the same alignment is good. */
static dt_status *point(const dt_cublaslt *lt, const dt_cublaslt_product *x, const uint64_t *buffers, uint64_t mask) {
    const dt_library_product *p = x->product;
    const dt_library_bias_gradient *gradient = &p->bias_gradient;
    if (p->bias >= 0 || x->extent.bias_gradient) {
        int64_t offset = x->extent.bias_gradient ? gradient->offset : p->bias_offset;
        uint64_t at =
            (buffers != NULL ? buffers[x->extent.bias_gradient ? gradient->argument : p->bias] : ALIGNMENT) + (uint64_t)offset * sizeof(float);
        DT_TRY(set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at));
    }
    if (!has_aux(x)) return NULL;
    uint64_t kept = x->extent.mask ? mask : (buffers != NULL ? buffers[p->kept] : ALIGNMENT) + (uint64_t)p->result.offset * sizeof(float);
    return set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof kept);
}

/* ---- descriptions ---- */

static dt_status *describe(const dt_cublaslt *lt, const dt_library_call *call, dt_cublaslt_product *x) {
    const dt_library_product *p = x->product;
    int32_t transpose_a, transpose_b, transpose_d;
    uint32_t epilogue = epilogue_of(x);
    DT_TRY(lay_out(lt, p->columns, p->terms, p->second.strides[1], p->second.strides[0], &x->a, &transpose_a));
    DT_TRY(lay_out(lt, p->terms, p->rows, p->first.strides[1], p->first.strides[0], &x->b, &transpose_b));
    DT_TRY(lay_out(lt, p->columns, p->rows, p->result.strides[1], p->result.strides[0], &x->d, &transpose_d));
    DT_TRY(set_batches(lt, p, x->a, &p->second));
    DT_TRY(set_batches(lt, p, x->b, &p->first));
    DT_TRY(set_batches(lt, p, x->d, &p->result));
    CALL(lt, cublasLtMatmulDescCreate, &x->operation, compute_type(call->precision), DT_CUDA_R_32F);
    DT_TRY(set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a, sizeof transpose_a));
    DT_TRY(set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b, sizeof transpose_b));
    DT_TRY(set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    int64_t step = x->extent.mask ? mask_step(p) : p->result.strides[0];
    if (has_aux(x)) DT_TRY(set(lt, x->operation, DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step, sizeof step));
    return point(lt, x, NULL, MASK_ALIGNMENT);
}

/* ---- the choice ---- */

/* Only ways without a reduction behind the product: those that add parts of a sum in one order, whatever runs when. */
static dt_status *set_preference(const dt_cublaslt *lt, const dt_library_product *p, void *preference) {
    const struct {
        int attribute;
        uint32_t value;
    } values[] = {
        {DT_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, DT_CUBLASLT_REDUCTION_SCHEME_NONE},
        {DT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(&p->second, p->n_batches)},
        {DT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(&p->first, p->n_batches)},
        {DT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(&p->result, p->n_batches)},
        {DT_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(&p->result, p->n_batches)},
    };
    uint64_t workspace = MOST_WORKSPACE;
    CALL(lt, cublasLtMatmulPreferenceSetAttribute, preference, DT_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        CALL(lt, cublasLtMatmulPreferenceSetAttribute, preference, values[i].attribute, &values[i].value, sizeof values[i].value);
    return NULL;
}

static const uint32_t UNKNOWN = UINT32_MAX;

static uint32_t trait(const dt_cublaslt *lt, const dt_cublaslt_choice *choice, int attribute) {
    uint32_t value = 0;
    size_t written;
    return lt->cublasLtMatmulAlgoConfigGetAttribute(&choice->algorithm, attribute, &value, sizeof value, &written) == 0 ? value : UNKNOWN;
}

static bool is_good(const dt_cublaslt *lt, const dt_cublaslt_choice *choice) {
    return choice->state == 0 && choice->workspace_bytes <= MOST_WORKSPACE &&
           trait(lt, choice, DT_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == DT_CUBLASLT_REDUCTION_SCHEME_NONE;
}

/* Which epilogues go with which sizes and types is for the heuristics to know, and of some that do not go together they say that the description is
 * invalid. That depends on the description alone, so it is unsupported; of a product without such an epilogue it is our mistake. */
static dt_status *heuristics_error(const dt_cublaslt *lt, const dt_cublaslt_product *x, int error) {
    bool may_be_invalid = has_aux(x) || x->extent.bias_gradient;
    return say(lt, "cublasLtMatmulAlgoGetHeuristic", error, is_unsupported(error) || (may_be_invalid && error == DT_CUBLAS_STATUS_INVALID_VALUE));
}

static dt_status *choose(const dt_cublaslt *lt, void *preference, dt_cublaslt_product *x) {
    dt_cublaslt_choice choices[MOST_CHOICES];
    int n = 0, c = 0;
    memset(choices, 0, sizeof choices);
    DT_TRY(set_preference(lt, x->product, preference));
    int error = lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, x->operation, x->a, x->b, x->d, x->d, preference, MOST_CHOICES, choices, &n);
    DT_TRY(heuristics_error(lt, x, error));
    while (c < n && !is_good(lt, &choices[c])) c++;
    if (c == n) return dt_error(DT_UNIMPLEMENTED, "cuBLASLt has no way without a reduction");
    x->choice = choices[c];
    snprintf(x->text, sizeof x->text, "algorithm %u, tile %u, stages %u, %zu bytes", trait(lt, &x->choice, DT_CUBLASLT_ALGO_CONFIG_ID),
             trait(lt, &x->choice, DT_CUBLASLT_ALGO_CONFIG_TILE_ID), trait(lt, &x->choice, DT_CUBLASLT_ALGO_CONFIG_STAGES_ID),
             x->choice.workspace_bytes);
    return NULL;
}

dt_status *dt_cublaslt_prepare(const dt_cublaslt *lt, const dt_library_call *call, dt_cublaslt_extent extent, dt_cublaslt_product *x) {
    void *preference = NULL;
    *x = (dt_cublaslt_product){.product = &call->product, .extent = extent};
    if (epilogue_of(x) == NO_EPILOGUE) return dt_error(DT_UNIMPLEMENTED, "cuBLASLt has nothing that does what follows the sum");
    DT_TRY(describe(lt, call, x));
    CALL(lt, cublasLtMatmulPreferenceCreate, &preference);
    dt_status *status = choose(lt, preference, x);
    lt->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

void dt_cublaslt_product_free(const dt_cublaslt *lt, dt_cublaslt_product *x) {
    void *layouts[] = {x->a, x->b, x->d};
    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL) lt->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (x->operation != NULL) lt->cublasLtMatmulDescDestroy(x->operation);
    *x = (dt_cublaslt_product){0};
}

/* ---- the call ---- */

static void *place(const uint64_t *buffers, const dt_library_matrix *matrix, const int64_t *batch, int64_t n_batches) {
    int64_t at = matrix->offset;
    for (int64_t b = 0; b < n_batches; b++) at += batch[b] * matrix->batch_strides[b];
    return (void *)(uintptr_t)(buffers[matrix->argument] + (uint64_t)at * sizeof(float));
}

dt_status *dt_cublaslt_run(const dt_cublaslt *lt, const dt_cublaslt_product *x, const uint64_t *buffers, uint64_t mask, uint64_t workspace,
                           void *stream) {
    const dt_library_product *p = x->product;
    const float scale = (float)p->scale, zero = 0;
    int64_t n_calls = 1, n_outer = p->n_batches > 0 ? p->n_batches - 1 : 0, batch[DT_LIBRARY_MOST_BATCHES] = {0};
    DT_TRY(point(lt, x, buffers, mask));
    for (int64_t b = 0; b < n_outer; b++) n_calls *= p->batches[b];
    for (int64_t i = 0; i < n_calls; i++) {
        int64_t rest = i;
        for (int64_t b = n_outer; b-- > 0; rest /= p->batches[b]) batch[b] = rest % p->batches[b];
        void *d = place(buffers, &p->result, batch, n_outer);
        CALL(lt, cublasLtMatmul, lt->handle, x->operation, &scale, place(buffers, &p->second, batch, n_outer), x->a,
             place(buffers, &p->first, batch, n_outer), x->b, &zero, d, x->d, d, x->d, &x->choice.algorithm, (void *)(uintptr_t)workspace,
             x->choice.workspace_bytes, stream);
    }
    return NULL;
}
