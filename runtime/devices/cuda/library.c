/* library: see the header. */
#include "runtime/devices/cuda/library.h"
#include "runtime/devices/cuda/cublaslt.h"
#include "runtime/devices/cuda/cudnn.h"
#include "runtime/devices/cuda/memory.h"

#include <stdio.h>

enum {
    MOST_BLOCKS = 512 /* of the small functions around a call: any number is right */
};

struct dt_cuda_library_operation {
    dt_cuda_libraries *libraries;
    const char *name;
    const dt_library_call *call;
    char fallback[400];                    /* why generated code does it; empty: the library does */
    size_t mask;                           /* where its mask lies among those of a place, if it has one */
    const dt_cuda_library_operation *relu; /* whose mask it reads; NULL: no other one's */
    dt_cublaslt_product product;
    dt_cudnn_convolution convolution;
};

struct dt_cuda_libraries {
    const dt_cuda_driver *driver;
    dt_cuda_library_functions functions;
    int64_t capacity; /* rows of a replica */
    dt_arena *arena;
    dt_cublaslt cublaslt;
    dt_cudnn cudnn;
    size_t workspace_bytes, mask_bytes; /* what the largest call needs, and behind that for each place all masks: multiples of DT_CUDA_ALIGNMENT */
    DT_LIST(dt_cuda_library_operation *) operations;
};

dt_cuda_libraries *dt_cuda_libraries_create(const dt_cuda_driver *driver, const dt_cuda_library_functions *functions, int64_t capacity,
                                            dt_arena *arena) {
    dt_cuda_libraries *libraries = DT_NEW(arena, dt_cuda_libraries);
    *libraries = (dt_cuda_libraries){.driver = driver, .functions = *functions, .capacity = capacity, .arena = arena};
    return libraries;
}

static bool falls_back(const dt_cuda_library_operation *operation) { return operation->fallback[0] != 0; }

/* What the library made for it. Only what a library made is there to be given back, so that the library is open. */
static void release(dt_cuda_library_operation *operation) {
    dt_cublaslt_product_free(&operation->libraries->cublaslt, &operation->product);
    dt_cudnn_convolution_free(&operation->libraries->cudnn, &operation->convolution);
}

void dt_cuda_libraries_destroy(dt_cuda_libraries *libraries) {
    if (libraries == NULL) return;
    for (size_t i = 0; i < libraries->operations.n; i++) release(libraries->operations.items[i]);
    dt_cublaslt_close(&libraries->cublaslt);
    dt_cudnn_close(&libraries->cudnn);
    libraries->operations.n = 0;
}

size_t dt_cuda_libraries_workspace_bytes(const dt_cuda_libraries *libraries, int n_places) {
    return libraries->workspace_bytes + (size_t)n_places * libraries->mask_bytes;
}

/* ---- making ready ---- */

/* What goes wrong with a library names the flag that does without. */
static dt_status *with_flag(dt_status *status, const char *name) {
    if (status == NULL) return NULL;
    dt_status *better =
        dt_error(dt_status_code(status), "%s (%s is made for it; --library none runs generated code instead)", dt_status_message(status), name);
    dt_status_free(status);
    return better;
}

/* What a library does not have is no error: the operation falls back to generated code and gives back what was made for it. */
static dt_status *or_fall_back(dt_cuda_library_operation *operation, dt_status *status) {
    if (dt_status_code(status) != DT_UNIMPLEMENTED) return with_flag(status, operation->name);
    snprintf(operation->fallback, sizeof operation->fallback, "%s", dt_status_message(status));
    dt_status_free(status);
    release(operation);
    return NULL;
}

/* What is not open has no handle: after an error it is tried again when it is next asked for. */
static dt_status *open_for(dt_cuda_libraries *libraries, dt_library_class class) {
    dt_status *status = NULL;
    if (class == DT_LIBRARY_PRODUCT && libraries->cublaslt.handle == NULL) {
        status = dt_cublaslt_open(libraries->driver, &libraries->cublaslt);
        if (status != NULL) dt_cublaslt_close(&libraries->cublaslt);
    }
    if (class != DT_LIBRARY_PRODUCT && libraries->cudnn.handle == NULL) {
        status = dt_cudnn_open(&libraries->cudnn);
        if (status != NULL) dt_cudnn_close(&libraries->cudnn);
    }
    return status;
}

static int64_t kernel_rows(const dt_library_convolution *c) { return dt_library_positions(c, c->taps) * (c->channels / c->groups); }

/* Bytes of the transposed kernel, in front of the library's own. */
static size_t turned_bytes(const dt_library_convolution *c) { return dt_cuda_rounded((size_t)(kernel_rows(c) * c->filters) * sizeof(float)); }

static void make_room(dt_cuda_libraries *libraries, size_t bytes) {
    if (bytes > libraries->workspace_bytes) libraries->workspace_bytes = dt_cuda_rounded(bytes);
}

/* As much of the product as the library has a way for: with the sums beside it, if there are such, or without them. */
static dt_status *prepare_product(dt_cuda_libraries *libraries, const dt_library_call *call, bool mask, dt_cublaslt_product *product) {
    const dt_cublaslt *lt = &libraries->cublaslt;
    dt_cublaslt_extent extent = {.mask = mask, .bias_gradient = call->product.bias_gradient.argument >= 0};
    dt_status *status = dt_cublaslt_prepare(lt, call, extent, product);
    if (extent.bias_gradient && dt_status_code(status) == DT_UNIMPLEMENTED) {
        dt_status_free(status);
        dt_cublaslt_product_free(lt, product);
        extent.bias_gradient = false;
        status = dt_cublaslt_prepare(lt, call, extent, product);
    }
    if (status == NULL) make_room(libraries, product->choice.workspace_bytes);
    return status;
}

/* Makes a relu note its mask. After an error it is as it was. */
static dt_status *add_mask(dt_cuda_libraries *libraries, dt_cuda_library_operation *relu) {
    dt_cublaslt_product with;
    if (relu->product.extent.mask) return NULL;
    dt_status *status = prepare_product(libraries, relu->call, true, &with);
    dt_cublaslt_product_free(&libraries->cublaslt, status == NULL ? &relu->product : &with);
    if (status != NULL) return status;
    relu->product = with;
    relu->mask = libraries->mask_bytes;
    libraries->mask_bytes += dt_cuda_rounded(dt_cublaslt_mask_bytes(&relu->call->product));
    return NULL;
}

/* Whether what `gradient` wants to know of a relu's result is what `relu` computes: all of it, and nothing else, from the same place on. */
static bool is_relu_of(const dt_library_product *relu, const dt_library_product *gradient) {
    const dt_library_matrix *made = &relu->result, *read = &gradient->result; /* the kept matrix lies as the result does */
    return relu->activation == DT_LIBRARY_ACTIVATION_RELU && relu->n_batches == 0 && relu->rows == gradient->rows &&
           relu->columns == gradient->columns && made->offset == read->offset && made->strides[0] == read->strides[0] &&
           made->strides[1] == read->strides[1];
}

/* The gradient of a relu, and the relu with it. */
static dt_status *prepare_gradient(dt_cuda_libraries *libraries, dt_cuda_library_operation *made, dt_cuda_library_operation *relu) {
    if (relu == NULL || !is_relu_of(&relu->call->product, &made->call->product))
        return dt_error(DT_UNIMPLEMENTED, "the relu is not computed by a product of cuBLASLt's");
    DT_TRY(prepare_product(libraries, made->call, true, &made->product));
    DT_TRY(add_mask(libraries, relu));
    made->relu = relu;
    made->mask = relu->mask;
    return NULL;
}

static dt_status *prepare_convolution(dt_cuda_libraries *libraries, dt_cuda_library_operation *made) {
    DT_TRY(dt_cudnn_prepare(&libraries->cudnn, made->call, &made->convolution));
    make_room(libraries, made->convolution.workspace_bytes + turned_bytes(&made->call->convolution));
    return NULL;
}

dt_status *dt_cuda_libraries_prepare(dt_cuda_libraries *libraries, const char *name, const dt_library_call *call, dt_cuda_library_operation *relu,
                                     dt_cuda_library_operation **operation) {
    *operation = NULL;
    DT_TRY(with_flag(open_for(libraries, call->class), name));
    dt_cuda_library_operation *made = DT_NEW(libraries->arena, dt_cuda_library_operation);
    *made = (dt_cuda_library_operation){.libraries = libraries, .name = name, .call = call};
    dt_list_push(libraries->arena, &libraries->operations, made);
    bool of_relu = call->product.activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT;
    DT_TRY(or_fall_back(made, call->class != DT_LIBRARY_PRODUCT ? prepare_convolution(libraries, made)
                              : of_relu                         ? prepare_gradient(libraries, made, relu)
                                                                : prepare_product(libraries, call, false, &made->product)));
    if (!falls_back(made)) *operation = made;
    return NULL;
}

bool dt_cuda_library_does_bias_gradient(const dt_cuda_library_operation *operation) { return operation->product.extent.bias_gradient; }

/* ---- running ---- */

static dt_status *launch(const dt_cuda_libraries *libraries, void *function, const char *name, int64_t n_items, void **arguments, void *stream) {
    const dt_cuda_driver *driver = libraries->driver;
    unsigned threads = libraries->functions.threads;
    if (function == NULL) return dt_error(DT_DATA_LOSS, "the artifact has no function %s, which its calls of libraries need", name);
    int64_t blocks = (n_items + threads - 1) / threads;
    blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    return dt_cuda_driver_error(driver, "cuLaunchKernel",
                                driver->cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL));
}

static dt_status *clear_rows(const dt_cuda_libraries *libraries, uint64_t values, int64_t row_bytes, uint64_t launch_values, void *stream) {
    int64_t row = row_bytes / (int64_t)sizeof(float), capacity = libraries->capacity;
    void *arguments[] = {&values, &row, &capacity, &launch_values};
    return launch(libraries, libraries->functions.clear_rows, "clear_rows", row * capacity, arguments, stream);
}

/* to [columns, rows] = from [rows, columns] */
static dt_status *transpose(const dt_cuda_libraries *libraries, uint64_t from, uint64_t to, int64_t rows, int64_t columns, void *stream) {
    void *arguments[] = {&from, &to, &rows, &columns};
    return launch(libraries, libraries->functions.transpose, "transpose", rows * columns, arguments, stream);
}

/* The kernel, transposed, lies in front of the workspace. */
static dt_status *call_library(dt_cuda_library_operation *operation, const uint64_t *buffers, const dt_cuda_library_place *place) {
    const dt_cuda_libraries *libraries = operation->libraries;
    const dt_library_convolution *c = &operation->call->convolution;
    uint64_t workspace = place->workspace;
    uint64_t mask = workspace + libraries->workspace_bytes + (size_t)place->number * libraries->mask_bytes + operation->mask;
    if (operation->call->class == DT_LIBRARY_PRODUCT)
        return dt_cublaslt_run(&libraries->cublaslt, &operation->product, buffers, mask, workspace, place->stream);
    return dt_cudnn_run(&libraries->cudnn, &operation->convolution, buffers[c->x], workspace, buffers[c->y], workspace + turned_bytes(c),
                        place->stream);
}

/* The product alone, without a mask or the sums beside it, which the library could not do after all: in the workspace that there is by now. */
static dt_status *warm_alone(dt_cuda_library_operation *operation, const uint64_t *buffers, const dt_cuda_library_place *place) {
    const dt_cuda_libraries *libraries = operation->libraries;
    dt_cublaslt_product *product = &operation->product;
    dt_cublaslt_product_free(&libraries->cublaslt, product);
    DT_TRY(dt_cublaslt_prepare(&libraries->cublaslt, operation->call, (dt_cublaslt_extent){0}, product));
    if (product->choice.workspace_bytes > libraries->workspace_bytes)
        return dt_error(DT_UNIMPLEMENTED, "cuBLASLt has no way in %zu bytes", libraries->workspace_bytes);
    return call_library(operation, buffers, place);
}

dt_status *dt_cuda_library_warm(dt_cuda_library_operation **operation, const uint64_t *buffers, const dt_cuda_library_place *place) {
    const dt_cuda_library_operation *relu = (*operation)->relu;
    dt_cublaslt_extent extent = (*operation)->product.extent;
    bool is_more = relu == NULL && (extent.mask || extent.bias_gradient); /* the gradient of a relu is nothing without the mask */
    dt_status *status = relu != NULL && !relu->product.extent.mask ? dt_error(DT_UNIMPLEMENTED, "cuBLASLt leaves no mask of the relu after all")
                                                                   : call_library(*operation, buffers, place);
    if (is_more && dt_status_code(status) == DT_UNIMPLEMENTED) {
        dt_status_free(status);
        status = warm_alone(*operation, buffers, place);
    }
    DT_TRY(or_fall_back(*operation, status));
    if (falls_back(*operation)) *operation = NULL;
    return NULL;
}

static dt_status *run_convolution(dt_cuda_library_operation *operation, const uint64_t *buffers, const dt_cuda_library_place *place) {
    const dt_cuda_libraries *libraries = operation->libraries;
    const dt_library_convolution *c = &operation->call->convolution;
    uint64_t kernel = buffers[c->kernel], transposed = place->workspace;
    bool is_result = operation->call->class == DT_LIBRARY_KERNEL_GRADIENT;
    if (!is_result) DT_TRY(transpose(libraries, kernel, transposed, kernel_rows(c), c->filters, place->stream));
    DT_TRY(call_library(operation, buffers, place));
    return is_result ? transpose(libraries, transposed, kernel, c->filters, kernel_rows(c), place->stream) : NULL;
}

dt_status *dt_cuda_library_run(dt_cuda_library_operation *operation, const uint64_t *buffers, uint64_t launch_values,
                               const dt_cuda_library_place *place) {
    const dt_cuda_libraries *libraries = operation->libraries;
    const dt_library_call *call = operation->call;
    for (int64_t i = 0; i < call->n_clears; i++)
        DT_TRY(clear_rows(libraries, buffers[call->clears[i].argument], call->clears[i].row_bytes, launch_values, place->stream));
    return (call->class == DT_LIBRARY_PRODUCT ? call_library : run_convolution)(operation, buffers, place);
}

/* ---- for people ---- */

/* `version`: 130002 is 13.0.2, and so is cuDNN's of five digits. */
static void print_library(const dt_cuda_libraries *libraries, const char *name, size_t version, bool products, dt_text *text) {
    int n = 0, n_generated = 0;
    for (size_t i = 0; i < libraries->operations.n; i++) {
        const dt_cuda_library_operation *operation = libraries->operations.items[i];
        if ((operation->call->class == DT_LIBRARY_PRODUCT) != products) continue;
        n++;
        n_generated += falls_back(operation);
    }
    dt_text_format(text, "%s %zu.%zu.%zu: %d call%s", name, version / 10000, version / 100 % 100, version % 100, n, dt_plural(n));
    if (n_generated > 0) dt_text_format(text, ", %d of them generated as a fallback", n_generated);
    dt_text_append(text, "\n");
}

void dt_cuda_libraries_print(const dt_cuda_libraries *libraries, bool each, dt_text *text) {
    if (libraries->cublaslt.handle != NULL) print_library(libraries, "cuBLASLt", libraries->cublaslt.cublasLtGetVersion(), true, text);
    if (libraries->cudnn.handle != NULL) print_library(libraries, "cuDNN", libraries->cudnn.cudnnGetVersion(), false, text);
    for (size_t i = 0; i < libraries->operations.n && each; i++) {
        const dt_cuda_library_operation *operation = libraries->operations.items[i];
        const char *choice = operation->call->class == DT_LIBRARY_PRODUCT ? operation->product.text : operation->convolution.text;
        dt_text_format(text, "  %-48s %-15s %s%s\n", operation->name, dt_library_class_names()[operation->call->class],
                       falls_back(operation) ? "generated: " : "", falls_back(operation) ? operation->fallback : choice);
    }
}
