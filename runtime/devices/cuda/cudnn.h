/* cudnn: convolutions and their gradients by cuDNN's graph interface, loaded when it is asked for. Its numbers are held against its headers by
 * tests/structure/vendor_headers.py. */
#ifndef DT_RUNTIME_DEVICES_CUDA_CUDNN_H
#define DT_RUNTIME_DEVICES_CUDA_CUDNN_H

#include "abi/library.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* X(result, symbol, arguments). Results that are int are 0 for success. What is opaque is void *. */
#define DT_CUDNN_SYMBOLS(X)                                                                                                                          \
    X(size_t, cudnnGetVersion, (void))                                                                                                               \
    X(const char *, cudnnGetErrorString, (int))                                                                                                      \
    X(void, cudnnGetLastErrorString, (char *, size_t))                                                                                               \
    X(int, cudnnCreate, (void **))                                                                                                                   \
    X(int, cudnnDestroy, (void *))                                                                                                                   \
    X(int, cudnnSetStream, (void *, void *))                                                                                                         \
    X(int, cudnnBackendCreateDescriptor, (int, void **))                                                                                             \
    X(int, cudnnBackendDestroyDescriptor, (void *))                                                                                                  \
    X(int, cudnnBackendSetAttribute, (void *, int, int, int64_t, const void *))                                                                      \
    X(int, cudnnBackendFinalize, (void *))                                                                                                           \
    X(int, cudnnBackendGetAttribute, (void *, int, int, int64_t, int64_t *, void *))                                                                 \
    X(int, cudnnBackendExecute, (void *, void *, void *))

/* X(its name, its number): ours is DT_ before it. */
#define DT_CUDNN_NUMBERS(X)                                                                                                                          \
    X(CUDNN_STATUS_BAD_PARAM, 2000)                                                                                                                  \
    X(CUDNN_STATUS_NOT_SUPPORTED, 3000)                                                                                                              \
    X(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, 4001)                                                                                          \
    X(CUDNN_DATA_FLOAT, 0)                                                                                                                           \
    X(CUDNN_CROSS_CORRELATION, 1)                                                                                                                    \
    X(CUDNN_HEUR_MODE_FALLBACK, 2)                                                                                                                   \
    X(CUDNN_HEUR_MODE_A, 3)                                                                                                                          \
    X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                                                                                           \
    X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                                                                                                   \
    X(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                                                                                           \
    X(CUDNN_NUMERICAL_NOTE_FFT, 3)                                                                                                                   \
    X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                                                                                                      \
    X(CUDNN_NUMERICAL_NOTE_WINOGRAD, 5)                                                                                                              \
    X(CUDNN_TYPE_HANDLE, 0)                                                                                                                          \
    X(CUDNN_TYPE_DATA_TYPE, 1)                                                                                                                       \
    X(CUDNN_TYPE_INT64, 3)                                                                                                                           \
    X(CUDNN_TYPE_FLOAT, 4)                                                                                                                           \
    X(CUDNN_TYPE_VOID_PTR, 6)                                                                                                                        \
    X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                                                                                                \
    X(CUDNN_TYPE_HEUR_MODE, 8)                                                                                                                       \
    X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                                                                                                 \
    X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                                                                                             \
    X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                                                                                                       \
    X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                                                                                            \
    X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                                                                                         \
    X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                                                                                        \
    X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                                                                                    \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                                                                                    \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)                                                                            \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)                                                                              \
    X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                                                                                   \
    X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                                                                                     \
    X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                                                                                           \
    X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                                                                                                         \
    X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                                                                                                         \
    X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                                                                                                         \
    X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                                                                                                    \
    X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                                                                                                     \
    X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                                                                                                      \
    X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                                                                                                      \
    X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                                                                                               \
    X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                                                                                    \
    X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                                                                                            \
    X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                                                                                              \
    X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                                                                                         \
    X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                                                                  \
    X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                                                                 \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                                                                                           \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                                                                                            \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)                                                                                       \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                                                                                               \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                                                                                               \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                                                                                               \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                                                                                          \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                                                                                           \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)                                                                                      \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                                                                              \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                                                                                             \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                                                                                             \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                                                                                        \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                                                                                         \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)                                                                                    \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                                                                                           \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                                                                                            \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                                                                                           \
    X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                                                                                         \
    X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                                                                                            \
    X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                                                                                         \
    X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                                                                                              \
    X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                                                                                             \
    X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                                                                                                \
    X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                                                                                              \
    X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                                                                                      \
    X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                                                                                   \
    X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                                                                                       \
    X(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                                                                                                          \
    X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)

enum {
#define X(name, number) DT_##name = number,
    DT_CUDNN_NUMBERS(X)
#undef X
};

typedef struct dt_cudnn {
    void *library;
#define X(result, symbol, arguments) result(*symbol) arguments;
    DT_CUDNN_SYMBOLS(X)
#undef X
    void *handle;
} dt_cudnn;

/* Loads it and makes a handle for the current context. DT_NOT_FOUND where there is none. dt_cudnn_close, after an error too. */
dt_status *dt_cudnn_open(dt_cudnn *cudnn);
void dt_cudnn_close(dt_cudnn *cudnn); /* an empty one is allowed */

enum {
    DT_CUDNN_MOST_DESCRIPTORS = 16
};

typedef struct dt_cudnn_convolution {
    void *descriptors[DT_CUDNN_MOST_DESCRIPTORS]; /* all that were made, in order */
    int n_descriptors;
    void *plan;
    size_t workspace_bytes;
    char text[120]; /* the choice, for people */
} dt_cudnn_convolution;

/* Chooses a way. DT_UNIMPLEMENTED: the library has none, and why. dt_cudnn_convolution_free, after an error too. */
dt_status *dt_cudnn_prepare(const dt_cudnn *cudnn, const dt_library_call *call, dt_cudnn_convolution *convolution);
void dt_cudnn_convolution_free(const dt_cudnn *cudnn, dt_cudnn_convolution *convolution);
/* The kernel is [filters, taps, channels / groups] here, its filters outermost. DT_UNIMPLEMENTED: the library cannot do it after all. */
dt_status *dt_cudnn_run(const dt_cudnn *cudnn, const dt_cudnn_convolution *convolution, uint64_t x, uint64_t kernel, uint64_t y, uint64_t workspace,
                        void *stream);

#endif
