/* driver: NVIDIA's driver, loaded when it is asked for: dtrun neither links it nor needs it.
 *
 * The driver is a library, libcuda.so.1, that comes with the kernel's module; a machine without a GPU has none, and that is no error. Names without a
 * suffix are old interfaces where one with a suffix exists, so each is named as it is exported. Types and numbers are held against NVIDIA's header by
 * tests/structure/vendor_headers.py. */
#ifndef DT_RUNTIME_DEVICES_CUDA_DRIVER_H
#define DT_RUNTIME_DEVICES_CUDA_DRIVER_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(symbol, arguments): all of them are needed, and return a number that is 0 for success. What is opaque (contexts, modules, functions, streams,
 * events, graphs) is void *, an address in a GPU's memory uint64_t. */
#define DT_CUDA_DRIVER_SYMBOLS(X)                                                                                                                    \
    X(cuInit, (unsigned))                                                                                                                            \
    X(cuDriverGetVersion, (int *))                                                                                                                   \
    X(cuGetErrorName, (int, const char **))                                                                                                          \
    X(cuGetErrorString, (int, const char **))                                                                                                        \
    X(cuDeviceGetCount, (int *))                                                                                                                     \
    X(cuDeviceGet, (int *, int))                                                                                                                     \
    X(cuDeviceGetName, (char *, int, int))                                                                                                           \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                                                       \
    X(cuDeviceGetUuid_v2, (void *, int))                                                                                                             \
    X(cuDeviceTotalMem_v2, (size_t *, int))                                                                                                          \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                                                                      \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                                                      \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                                                           \
    X(cuCtxSetCurrent, (void *))                                                                                                                     \
    X(cuCtxEnablePeerAccess, (void *, unsigned))                                                                                                     \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                                                         \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                                                           \
    X(cuMemFree_v2, (uint64_t))                                                                                                                      \
    X(cuMemAllocHost_v2, (void **, size_t))                                                                                                          \
    X(cuMemFreeHost, (void *))                                                                                                                       \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))                                                                                \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))                                                                                      \
    X(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void *))                                                                                    \
    X(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                                                                    \
    X(cuStreamCreate, (void **, unsigned))                                                                                                           \
    X(cuStreamDestroy_v2, (void *))                                                                                                                  \
    X(cuStreamSynchronize, (void *))                                                                                                                 \
    X(cuStreamQuery, (void *))                                                                                                                       \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                                                 \
    X(cuEventCreate, (void **, unsigned))                                                                                                            \
    X(cuEventRecord, (void *, void *))                                                                                                               \
    X(cuEventRecordWithFlags, (void *, void *, unsigned))                                                                                            \
    X(cuEventSynchronize, (void *))                                                                                                                  \
    X(cuEventQuery, (void *))                                                                                                                        \
    X(cuEventElapsedTime, (float *, void *, void *))                                                                                                 \
    X(cuEventDestroy_v2, (void *))                                                                                                                   \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                                                                         \
    X(cuModuleUnload, (void *))                                                                                                                      \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                                                          \
    X(cuFuncGetAttribute, (int *, int, void *))                                                                                                      \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))                                                                     \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))                      \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                                                        \
    X(cuStreamEndCapture, (void *, void **))                                                                                                         \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                                                            \
    X(cuGraphLaunch, (void *, void *))                                                                                                               \
    X(cuGraphExecDestroy, (void *))                                                                                                                  \
    X(cuGraphDestroy, (void *))

/* X(ours, after DT_CUDA_; theirs; the number): of the driver's numbers, those that are used. */
#define DT_CUDA_DRIVER_NUMBERS(X)                                                                                                                    \
    X(OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                                                    \
    X(NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                                                                                          \
    X(INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, 200)                                                                                                  \
    X(NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                                                          \
    X(INVALID_PTX, CUDA_ERROR_INVALID_PTX, 218)                                                                                                      \
    X(UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                                              \
    X(NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                                                                                          \
    X(NOT_READY, CUDA_ERROR_NOT_READY, 600)                                                                                                          \
    X(PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                                                      \
    X(CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                                                                                 \
    X(MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                                                 \
    X(MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                                                       \
    X(MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                                                       \
    X(FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                                 \
    X(FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                                                             \
    X(STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                                                                                \
    X(EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                                                                              \
    X(EVENT_RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL, 1)                                                                                            \
    X(EVENT_WAIT_EXTERNAL, CU_EVENT_WAIT_EXTERNAL, 1)                                                                                                \
    X(CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                                                  \
    X(JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER, 5)                                                                                                     \
    X(JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)

enum {
#define X(ours, theirs, number) DT_CUDA_##ours = number,
    DT_CUDA_DRIVER_NUMBERS(X)
#undef X
};

typedef struct dt_cuda_driver {
    void *library;
    bool has_no_gpu; /* it said so when it was started, and knows no more */
#define X(symbol, arguments) int(*symbol) arguments;
    DT_CUDA_DRIVER_SYMBOLS(X)
#undef X
} dt_cuda_driver;

/* Finds a symbol in a library: dlsym, or what a test puts in its place. */
typedef void *dt_symbol_finder(void *library, const char *symbol);

/* Loads libcuda.so.1, or what the environment variable DT_CUDA_DRIVER names, and starts it. *present is false, and the driver empty, where there is
 * none. Errors carry the driver's own name and text. */
dt_status *dt_cuda_driver_open(dt_cuda_driver *driver, bool *present);
/* The second half of it: fills in the table and starts the driver. */
dt_status *dt_cuda_driver_start(dt_cuda_driver *driver, void *library, dt_symbol_finder *find);
void dt_cuda_driver_close(dt_cuda_driver *driver); /* an empty one is allowed */

/* "NVIDIA's driver, cuInit: CUDA_ERROR_NO_DEVICE, 100 (no CUDA-capable device is detected)"; NULL for 0. DT_RESOURCE_EXHAUSTED where memory is out,
 * else DT_INTERNAL. */
dt_status *dt_cuda_driver_error(const dt_cuda_driver *driver, const char *call, int error);

/* How many GPUs there are: 0 is no error. */
dt_status *dt_cuda_driver_count(const dt_cuda_driver *driver, int *n);

/* A line for each GPU: its number, name, architecture, multiprocessors, memory. */
dt_status *dt_cuda_driver_list(const dt_cuda_driver *driver, dt_text *text);

#endif
