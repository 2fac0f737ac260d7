/* driver: NVIDIA's driver, loaded when it is asked for: dtrun neither links it nor needs it.
 *
 * The driver is a library, libcuda.so.1, that comes with the kernel's module; a machine without a GPU has none, and that is no error. Names without a
 * suffix are old interfaces where one with a suffix exists, so each is named as it is exported. */
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
    X(cuDeviceTotalMem_v2, (size_t *, int))                                                                                                          \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                                                      \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                                                           \
    X(cuCtxSetCurrent, (void *))                                                                                                                     \
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
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                                                 \
    X(cuEventCreate, (void **, unsigned))                                                                                                            \
    X(cuEventRecord, (void *, void *))                                                                                                               \
    X(cuEventSynchronize, (void *))                                                                                                                  \
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

/* Of the driver's numbers, those that are used. */
enum {
    DT_CUDA_OUT_OF_MEMORY = 2, /* errors */
    DT_CUDA_NO_DEVICE = 100,
    DT_CUDA_INVALID_IMAGE = 200,
    DT_CUDA_NO_BINARY_FOR_GPU = 209,
    DT_CUDA_INVALID_PTX = 218,
    DT_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    DT_CUDA_NOT_FOUND = 500,
    DT_CUDA_CLOCK_KHZ = 13, /* attributes of a device */
    DT_CUDA_MULTIPROCESSORS = 16,
    DT_CUDA_MAJOR = 75,
    DT_CUDA_MINOR = 76,
    DT_CUDA_FUNCTION_SHARED_BYTES = 1, /* attributes of a function */
    DT_CUDA_FUNCTION_REGISTERS = 4,
    DT_CUDA_STREAM_NON_BLOCKING = 1, /* flags */
    DT_CUDA_EVENT_DISABLE_TIMING = 2,
    DT_CUDA_CAPTURE_THREAD_LOCAL = 1,
    DT_CUDA_JIT_ERROR_LOG = 5,
    DT_CUDA_JIT_ERROR_LOG_BYTES = 6
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
