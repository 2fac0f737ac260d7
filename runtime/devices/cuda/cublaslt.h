/* cublaslt: matrix products by cuBLASLt, loaded when it is asked for. Its numbers are held against its headers by tests/structure/vendor_headers.py.
 */
#ifndef DT_RUNTIME_DEVICES_CUDA_CUBLASLT_H
#define DT_RUNTIME_DEVICES_CUDA_CUBLASLT_H

#include "abi/library.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/devices/cuda/driver.h"

#include <stddef.h>
#include <stdint.h>

/* X(result, symbol, arguments). Results that are int are 0 for success. What is opaque is void *. */
#define DT_CUBLASLT_SYMBOLS(X)                                                                                                                       \
    X(size_t, cublasLtGetVersion, (void))                                                                                                            \
    X(const char *, cublasLtGetStatusName, (int))                                                                                                    \
    X(const char *, cublasLtGetStatusString, (int))                                                                                                  \
    X(int, cublasLtCreate, (void **))                                                                                                                \
    X(int, cublasLtDestroy, (void *))                                                                                                                \
    X(int, cublasLtMatmulDescCreate, (void **, int, int))                                                                                            \
    X(int, cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t))                                                                      \
    X(int, cublasLtMatmulDescDestroy, (void *))                                                                                                      \
    X(int, cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))                                                                  \
    X(int, cublasLtMatrixLayoutSetAttribute, (void *, int, const void *, size_t))                                                                    \
    X(int, cublasLtMatrixLayoutDestroy, (void *))                                                                                                    \
    X(int, cublasLtMatmulPreferenceCreate, (void **))                                                                                                \
    X(int, cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t))                                                                \
    X(int, cublasLtMatmulPreferenceDestroy, (void *))                                                                                                \
    X(int, cublasLtMatmulAlgoGetHeuristic, (void *, void *, void *, void *, void *, void *, void *, int, dt_cublaslt_choice *, int *))               \
    X(int, cublasLtMatmulAlgoConfigGetAttribute, (const dt_cublaslt_algorithm *, int, void *, size_t, size_t *))                                     \
    X(int, cublasLtMatmul,                                                                                                                           \
      (void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *,                 \
       const dt_cublaslt_algorithm *, void *, size_t, void *))

/* X(its name, its number): ours is DT_ before it. */
#define DT_CUBLASLT_NUMBERS(X)                                                                                                                       \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                                                                                                                \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8)                                                                                                                \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                                                                                                               \
    X(CUBLAS_OP_N, 0)                                                                                                                                \
    X(CUBLAS_OP_T, 1)                                                                                                                                \
    X(CUDA_R_32F, 0)                                                                                                                                 \
    X(CUBLAS_COMPUTE_32F, 68)                                                                                                                        \
    X(CUBLAS_COMPUTE_32F_FAST_16BF, 75)                                                                                                              \
    X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                                                                                              \
    X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                                                                                         \
    X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                                                                                                \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                                                                                \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                                                                                                \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                                                                                              \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                                                                                          \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)                                                                                                 \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12)                                                                                                      \
    X(CUBLASLT_EPILOGUE_DEFAULT, 1)                                                                                                                  \
    X(CUBLASLT_EPILOGUE_RELU, 2)                                                                                                                     \
    X(CUBLASLT_EPILOGUE_BIAS, 4)                                                                                                                     \
    X(CUBLASLT_EPILOGUE_RELU_BIAS, 6)                                                                                                                \
    X(CUBLASLT_EPILOGUE_RELU_AUX, 130)                                                                                                               \
    X(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, 134)                                                                                                          \
    X(CUBLASLT_EPILOGUE_DRELU, 136)                                                                                                                  \
    X(CUBLASLT_EPILOGUE_GELU, 32)                                                                                                                    \
    X(CUBLASLT_EPILOGUE_GELU_BIAS, 36)                                                                                                               \
    X(CUBLASLT_EPILOGUE_GELU_AUX, 160)                                                                                                               \
    X(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)                                                                                                          \
    X(CUBLASLT_EPILOGUE_DGELU, 192)                                                                                                                  \
    X(CUBLASLT_EPILOGUE_BGRADA, 256)                                                                                                                 \
    X(CUBLASLT_EPILOGUE_BGRADB, 512)                                                                                                                 \
    X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)                                                                                                             \
    X(CUBLASLT_REDUCTION_SCHEME_MASK, 7)                                                                                                             \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                                                                   \
    X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                                                                                                 \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                                                                                                 \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                                                                                 \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                                                                                 \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                                                                                                 \
    X(CUBLASLT_ALGO_CONFIG_ID, 0)                                                                                                                    \
    X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)                                                                                                               \
    X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)                                                                                                            \
    X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)                                                                                                      \
    X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)

enum {
#define X(name, number) DT_##name = number,
    DT_CUBLASLT_NUMBERS(X)
#undef X
};

/* cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t, whose layout is part of the interface. */
typedef struct dt_cublaslt_algorithm {
    uint64_t data[8];
} dt_cublaslt_algorithm;

typedef struct dt_cublaslt_choice {
    dt_cublaslt_algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} dt_cublaslt_choice;

typedef struct dt_cublaslt {
    void *library;
#define X(result, symbol, arguments) result(*symbol) arguments;
    DT_CUBLASLT_SYMBOLS(X)
#undef X
    void *handle;
} dt_cublaslt;

/* Loads it and makes a handle for the current context. A library of CUDA 13 is none for a driver of CUDA 12; the other way round it is. DT_NOT_FOUND
 * where there is none. dt_cublaslt_close, after an error too. */
dt_status *dt_cublaslt_open(const dt_cuda_driver *driver, dt_cublaslt *cublaslt);
void dt_cublaslt_close(dt_cublaslt *cublaslt); /* an empty one is allowed */

/* What of a product is left to the library, where there is a choice. */
typedef struct dt_cublaslt_extent {
    bool mask;          /* a relu notes, or its gradient reads, which elements were greater than 0: bits, in memory that no buffer of the plan is */
    bool bias_gradient; /* the sums beside the product, if there are such */
} dt_cublaslt_extent;

typedef struct dt_cublaslt_product {
    const dt_library_product *product;
    dt_cublaslt_extent extent;
    void *operation, *a, *b, *d; /* as the library sees it: column by column, so that A is our second factor */
    dt_cublaslt_choice choice;
    char text[120]; /* the choice, for people */
} dt_cublaslt_product;

/* Chooses a way. DT_UNIMPLEMENTED: the library has none, and why. dt_cublaslt_product_free, after an error too. */
dt_status *dt_cublaslt_prepare(const dt_cublaslt *cublaslt, const dt_library_call *call, dt_cublaslt_extent extent, dt_cublaslt_product *product);
void dt_cublaslt_product_free(const dt_cublaslt *cublaslt, dt_cublaslt_product *product);
/* Bytes of the mask of a relu. */
size_t dt_cublaslt_mask_bytes(const dt_library_product *product);
/* mask: its address, aligned to 256, where the extent has one. DT_UNIMPLEMENTED: the library cannot do it after all. */
dt_status *dt_cublaslt_run(const dt_cublaslt *cublaslt, const dt_cublaslt_product *product, const uint64_t *buffers, uint64_t mask,
                           uint64_t workspace, void *stream);

#endif
