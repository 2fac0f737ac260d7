/* context: see the header. */
#include "runtime/devices/cuda/context.h"

#include "base/text.h"
#include "runtime/threads/clock.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static dt_status *find_device(dt_cuda *cuda) {
    int n;
    DT_TRY(dt_cuda_driver_count(&cuda->driver, &n));
    if (n == 0) return dt_error(DT_NOT_FOUND, "cuda:%d: NVIDIA's driver finds no GPU on this machine; --devices cpu runs without", cuda->number);
    if (cuda->number >= n)
        return dt_error(DT_NOT_FOUND, "cuda:%d: this machine has %d GPU%s, counted from 0; `dtrun devices` lists what there is", cuda->number, n,
                        dt_plural(n));
    DT_CUDA_TRY(cuda, cuDeviceGet, &cuda->device, cuda->number);
    DT_CUDA_TRY(cuda, cuDriverGetVersion, &cuda->driver_version);
    DT_CUDA_TRY(cuda, cuDeviceGetAttribute, &cuda->major, DT_CUDA_MAJOR, cuda->device);
    DT_CUDA_TRY(cuda, cuDeviceGetAttribute, &cuda->minor, DT_CUDA_MINOR, cuda->device);
    DT_CUDA_TRY(cuda, cuDeviceGetAttribute, &cuda->n_multiprocessors, DT_CUDA_MULTIPROCESSORS, cuda->device);
    return NULL;
}

dt_status *dt_cuda_no_driver(void) {
    return dt_error(DT_NOT_FOUND,
                    "cuda: this machine has no NVIDIA driver (libcuda.so.1, which comes with that of a GPU); --devices cpu runs without");
}

static dt_status *open_all(dt_cuda *cuda) {
    bool present;
    DT_TRY(dt_cuda_driver_open(&cuda->driver, &present));
    if (!present) return dt_cuda_no_driver();
    DT_TRY(find_device(cuda));
    DT_CUDA_TRY(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->device);
    cuda->retained = true;
    DT_TRY(dt_cuda_enter(cuda));
    DT_CUDA_TRY(cuda, cuStreamCreate, &cuda->stream, DT_CUDA_STREAM_NON_BLOCKING);
    DT_CUDA_TRY(cuda, cuStreamCreate, &cuda->copies, DT_CUDA_STREAM_NON_BLOCKING);
    DT_CUDA_TRY(cuda, cuStreamCreate, &cuda->beside, DT_CUDA_STREAM_NON_BLOCKING);
    return NULL;
}

dt_status *dt_cuda_open(int number, dt_cuda *cuda) {
    *cuda = (dt_cuda){.number = number, .deadline_seconds = 600};
    dt_status *status = open_all(cuda);
    if (status != NULL) dt_cuda_close(cuda);
    return status;
}

/* What fails on the way out is lost with the GPU. */
void dt_cuda_close(dt_cuda *cuda) {
    if (cuda->retained) {
        cuda->driver.cuCtxSetCurrent(cuda->context);
        if (cuda->stream != NULL) cuda->driver.cuStreamDestroy_v2(cuda->stream);
        if (cuda->copies != NULL) cuda->driver.cuStreamDestroy_v2(cuda->copies);
        if (cuda->beside != NULL) cuda->driver.cuStreamDestroy_v2(cuda->beside);
        cuda->driver.cuCtxSetCurrent(NULL);
        cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->device);
    }
    dt_cuda_driver_close(&cuda->driver);
    *cuda = (dt_cuda){0};
}

dt_status *dt_cuda_enter(const dt_cuda *cuda) {
    DT_CUDA_TRY(cuda, cuCtxSetCurrent, cuda->context);
    return NULL;
}

int64_t dt_cuda_free_bytes(const dt_cuda *cuda) {
    size_t free_bytes = 0, all;
    bool known = cuda->driver.cuCtxSetCurrent(cuda->context) == 0 && cuda->driver.cuMemGetInfo_v2(&free_bytes, &all) == 0;
    return known ? (int64_t)free_bytes : INT64_MAX; /* then it is the allocation that fails */
}

dt_status *dt_cuda_say_memory(const dt_cuda *cuda, dt_status *status, size_t n, const char *what) {
    if (dt_status_code(status) != DT_RESOURCE_EXHAUSTED) return status;
    int64_t free_bytes = dt_cuda_free_bytes(cuda);
    if (free_bytes == INT64_MAX) return dt_status_annotate(status, "cuda:%d: no memory for %zu %s", cuda->number, n, what);
    return dt_status_annotate(status, "cuda:%d: no memory for %zu %s, where %lld bytes are free on the GPU", cuda->number, n, what,
                              (long long)free_bytes);
}

/* By looking again and again, as the driver itself does when it is told to wait, which has no deadline. */
dt_status *dt_cuda_wait(const dt_cuda *cuda) {
    double deadline = INFINITY;
    for (;;) {
        int error = cuda->driver.cuStreamQuery(cuda->stream);
        if (error != DT_CUDA_NOT_READY) return dt_cuda_driver_error(&cuda->driver, "cuStreamQuery", error);
        DT_TRY(dt_link_check(cuda->link));
        double now = dt_seconds_now();
        if (deadline == (double)INFINITY) deadline = now + cuda->deadline_seconds;
        if (now > deadline) return dt_error(DT_ABORTED, "the GPU has not finished after %g s", cuda->deadline_seconds);
        sched_yield();
    }
}

bool dt_cuda_checks(dt_cuda_check check) {
    const char *asked = getenv("DT_CUDA_CHECK");
    if (asked == NULL || strcmp(asked, "") == 0 || strcmp(asked, "0") == 0) return false;
    return check == DT_CUDA_CHECK_MEMORY || strcmp(asked, "memory") != 0;
}
