/* context: an open GPU: the driver, its primary context, a stream that computes, and beside it one for copies and one for what processes exchange.
 *
 * The primary context is shared with whatever else the process runs on the GPU, vendors' libraries above all. It is made current by each function
 * that may be a thread's first. An error of the driver is an error like any other: the process goes on, and the GPU can be closed. */
#ifndef DT_RUNTIME_DEVICES_CUDA_CONTEXT_H
#define DT_RUNTIME_DEVICES_CUDA_CONTEXT_H

#include "runtime/devices/cuda/driver.h"
#include "runtime/devices/link.h"

typedef struct dt_cuda {
    dt_cuda_driver driver;
    int number;         /* cuda:number */
    int device;         /* the driver's handle of it */
    int driver_version; /* 13000: for CUDA 13.0 */
    int major, minor, n_multiprocessors;
    bool retained;
    double deadline_seconds; /* for what is waited for */
    void *context;
    void *stream;  /* computes */
    void *copies;  /* copies what the next step needs */
    void *beside;  /* what crosses processes while the first one computes: a branch of its graphs */
    dt_link *link; /* to other processes' GPUs; NULL: none */
} dt_cuda;

/* The error for a machine without a driver. */
dt_status *dt_cuda_no_driver(void);

/* DT_NOT_FOUND: there is no driver, or no such GPU. After an error all of it is closed. */
dt_status *dt_cuda_open(int number, dt_cuda *cuda);
void dt_cuda_close(dt_cuda *cuda);

/* Makes the context this thread's. */
dt_status *dt_cuda_enter(const dt_cuda *cuda);

/* Of the GPU's memory; INT64_MAX: it is not known. */
int64_t dt_cuda_free_bytes(const dt_cuda *cuda);
/* `status`; where it says that memory is out, with what was asked for, `n` and `what`, as 1024 and "bytes of the plan", and what is free. */
dt_status *dt_cuda_say_memory(const dt_cuda *cuda, dt_status *status, size_t n, const char *what);

/* Waits for all that the stream has been given. DT_ABORTED: the deadline came first. Then no call that waits for the GPU comes back, which is what
 * giving back memory does. */
dt_status *dt_cuda_wait(const dt_cuda *cuda);

/* What the environment variable DT_CUDA_CHECK asks for, at the cost of time. */
typedef enum dt_cuda_check {
    DT_CUDA_CHECK_MEMORY, /* "memory", or "1": what a session holds on a GPU is allocated piece by piece (memory.h) */
    DT_CUDA_CHECK_KERNELS /* "1": kernels are run one by one, each waited for, so that an error names the one that made it */
} dt_cuda_check;
bool dt_cuda_checks(dt_cuda_check check);

/* Calls the driver, and returns from the function that it stands in if that fails. */
#define DT_CUDA_TRY(cuda, symbol, ...) DT_TRY(dt_cuda_driver_error(&(cuda)->driver, #symbol, (cuda)->driver.symbol(__VA_ARGS__)))

#endif
