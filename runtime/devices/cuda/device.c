/* device: see the header. */
#include "runtime/devices/cuda/device.h"

#include "base/memory.h"
#include "runtime/devices/cuda/memory.h"

#include <stdio.h>

typedef struct cuda_device {
    dt_device head;
    dt_cuda cuda;
    dt_cuda_memory memory;
} cuda_device;

dt_cuda *dt_cuda_of(dt_device *device) { return &((cuda_device *)device)->cuda; }
static dt_cuda_memory *memory_of(dt_device *device) { return &((cuda_device *)device)->memory; }

static uint64_t address(const void *memory) { return (uint64_t)(uintptr_t)memory; }

static dt_status *cuda_open(int number, int n, dt_device **device) {
    (void)n;
    *device = NULL;
    cuda_device *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to open cuda:%d", number);
    dt_status *status = dt_cuda_open(number, &opened->cuda);
    if (status != NULL) {
        dt_release(opened);
        return status;
    }
    opened->head.kind = &dt_device_cuda;
    snprintf(opened->head.name, sizeof opened->head.name, "cuda:%d", number);
    *device = &opened->head;
    return NULL;
}

static void cuda_close(dt_device *device) {
    dt_cuda_memory_close(memory_of(device), dt_cuda_of(device));
    dt_cuda_close(dt_cuda_of(device));
    dt_release(device);
}

/* Each function that is called enters by itself. */
static void cuda_enter(dt_device *device) { (void)device; }

static int64_t cuda_free_bytes(const dt_device *device) { return dt_cuda_free_bytes(&((const cuda_device *)device)->cuda); }

static dt_status *cuda_reserve(dt_device *device, size_t bytes) {
    const dt_cuda *cuda = dt_cuda_of(device);
    return dt_cuda_say_memory(cuda, dt_cuda_memory_reserve(memory_of(device), cuda, bytes), bytes, "bytes of the plan");
}

static dt_status *cuda_allocate(dt_device *device, size_t bytes, void **memory) {
    const dt_cuda *cuda = dt_cuda_of(device);
    uint64_t place;
    dt_status *status = dt_cuda_memory_take(memory_of(device), cuda, bytes, &place);
    *memory = (void *)(uintptr_t)place;
    return dt_cuda_say_memory(cuda, status, bytes, "bytes of the plan");
}

static void cuda_release(dt_device *device, void *memory, size_t bytes) {
    (void)bytes;
    dt_cuda_memory_release(memory_of(device), dt_cuda_of(device), address(memory));
}

static dt_status *cuda_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    const dt_cuda *cuda = dt_cuda_of(device);
    if (bytes == 0) return NULL;
    DT_TRY(dt_cuda_enter(cuda));
    DT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, address(memory), host, bytes, cuda->stream);
    return dt_cuda_wait(cuda);
}

static dt_status *cuda_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    const dt_cuda *cuda = dt_cuda_of(device);
    if (bytes == 0) return NULL;
    DT_TRY(dt_cuda_enter(cuda));
    DT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, host, address(memory), bytes, cuda->stream);
    return dt_cuda_wait(cuda);
}

static dt_status *cuda_run(dt_device *device, const dt_device_call *calls, size_t n_calls) {
    (void)calls;
    return n_calls == 0 ? NULL : dt_error(DT_INTERNAL, "%s runs no functions of the host", device->name);
}

static dt_status *cuda_synchronize(dt_device *device) {
    DT_TRY(dt_cuda_enter(dt_cuda_of(device)));
    return dt_cuda_wait(dt_cuda_of(device));
}

const dt_device_kind dt_device_cuda = {
    .name = "cuda",
    .about = "a GPU of NVIDIA's, by its number: cuda:0; for artifacts of dtc compile --target cuda",
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .free_bytes = cuda_free_bytes,
    .granularity = DT_CUDA_ALIGNMENT,
    .reserve = cuda_reserve,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .write = cuda_write,
    .read = cuda_read,
    .run = cuda_run,
    .synchronize = cuda_synchronize,
    .lanes = &dt_lane_of_gpu,
    .is_gpu = true,
};
