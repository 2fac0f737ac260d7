/* cublaslt_descriptions: the real cuBLASLt takes the description of every product that we may ask it for: each attribute, in the size that we give
 * it. That needs no GPU; choosing a way does, and is where each case ends. Skipped where the library is not installed. */
#include "runtime/devices/cuda/cublaslt.h"
#include "tests/support/expect.h"

#include <dlfcn.h>

/* The library without a handle, which a GPU would be needed for; it stays mapped, for its C++ library keeps memory to its end. */
static dt_cublaslt real;

static bool open_library(void) {
    real.library = dlopen("/usr/local/cuda/lib64/libcublasLt.so", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (real.library == NULL) return false;
#define X(result, symbol, arguments) real.symbol = (result(*) arguments)(uintptr_t)dlsym(real.library, #symbol);
    DT_CUBLASLT_SYMBOLS(X)
#undef X
    return true;
}

/* All is described, and the first thing that goes wrong is that there is no GPU to choose a way for. */
static void expect_described(dt_library_product product, dt_cublaslt_extent extent) {
    dt_library_call call = {.class = DT_LIBRARY_PRODUCT, .n_launches = 1, .product = product};
    dt_cublaslt_product described;
    dt_status *status = dt_cublaslt_prepare(&real, &call, extent, &described);
    if (status == NULL || strstr(dt_status_message(status), "cublasLtMatmulAlgoGetHeuristic: ") == NULL)
        fail_msg("activation %s: %s", dt_library_activation_names()[product.activation], status != NULL ? dt_status_message(status) : "a way");
    dt_status_free(status);
    dt_cublaslt_product_free(&real, &described);
}

static dt_library_product plain_product(void) {
    return (dt_library_product){.rows = 32,
                                .columns = 256,
                                .terms = 64,
                                .first = {.argument = 0, .strides = {64, 1}},
                                .second = {.argument = 1, .strides = {256, 1}},
                                .result = {.argument = 2, .strides = {256, 1}},
                                .scale = 1,
                                .bias = -1,
                                .kept = -1,
                                .bias_gradient = {.argument = -1}};
}

static void every_activation_is_described(void **state) {
    (void)state;
    for (int activation = 0; activation < DT_N_LIBRARY_ACTIVATIONS; activation++) {
        bool gradient = dt_library_is_gradient((dt_library_activation)activation);
        bool relu = activation == DT_LIBRARY_ACTIVATION_RELU || activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT;
        for (int biased = 0; biased < (gradient ? 1 : 2); biased++)
            for (int kept = gradient; kept < 2; kept++) {
                dt_library_product product = plain_product();
                product.activation = (dt_library_activation)activation;
                product.bias = biased ? 3 : -1;
                product.kept = kept ? 4 : -1;
                expect_described(product, (dt_cublaslt_extent){.mask = relu && kept});
            }
    }
}

static void batches_and_gradients_of_a_bias_are_described(void **state) {
    (void)state;
    dt_library_product product = plain_product();
    for (int of_first = 0; of_first < 2; of_first++) {
        product.bias_gradient = (dt_library_bias_gradient){3, 0, of_first != 0, 1};
        expect_described(product, (dt_cublaslt_extent){.bias_gradient = true});
    }
    product = plain_product();
    product.n_batches = 1, product.batches[0] = 5;
    product.first.batch_strides[0] = 2048, product.result.batch_strides[0] = 8192;
    expect_described(product, (dt_cublaslt_extent){0});
}

/* That an attribute of another size is refused shows that they are looked at. */
static void a_wrong_size_is_refused(void **state) {
    (void)state;
    void *operation;
    int64_t step = 256;
    assert_int_equal(real.cublasLtMatmulDescCreate(&operation, DT_CUBLAS_COMPUTE_32F, DT_CUDA_R_32F), 0);
    assert_int_equal(real.cublasLtMatmulDescSetAttribute(operation, DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step, sizeof step), 0);
    assert_int_not_equal(real.cublasLtMatmulDescSetAttribute(operation, DT_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step, 4), 0);
    real.cublasLtMatmulDescDestroy(operation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_activation_is_described),
        cmocka_unit_test(batches_and_gradients_of_a_bias_are_described),
        cmocka_unit_test(a_wrong_size_is_refused),
    };
    if (!open_library()) {
        print_message("skipped: cuBLASLt is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
