/* memory: see the header. */
#include "runtime/devices/cuda/memory.h"

static dt_status *fill(const dt_cuda *cuda, uint64_t place, size_t bytes) {
    DT_CUDA_TRY(cuda, cuMemsetD8Async, place, 0, bytes, cuda->stream);
    return dt_cuda_wait(cuda);
}

static dt_status *allocate(const dt_cuda *cuda, size_t bytes, uint64_t *place) {
    *place = 0;
    DT_TRY(dt_cuda_enter(cuda));
    DT_CUDA_TRY(cuda, cuMemAlloc_v2, place, bytes);
    dt_status *status = fill(cuda, *place, bytes);
    if (status == NULL) return NULL;
    cuda->driver.cuMemFree_v2(*place);
    *place = 0;
    return status;
}

dt_status *dt_cuda_memory_reserve(dt_cuda_memory *memory, const dt_cuda *cuda, size_t bytes) {
    if (bytes == 0 || dt_cuda_checks(DT_CUDA_CHECK_MEMORY)) return NULL;
    DT_TRY(allocate(cuda, bytes, &memory->base));
    memory->bytes = bytes;
    return NULL;
}

dt_status *dt_cuda_memory_take(dt_cuda_memory *memory, const dt_cuda *cuda, size_t bytes, uint64_t *piece) {
    *piece = 0;
    if (memory->bytes == 0) return allocate(cuda, bytes, piece);
    size_t left = memory->bytes - memory->used;
    if (bytes > left || dt_cuda_rounded(bytes) > left)
        return dt_error(DT_INTERNAL, "%zu bytes of a GPU's memory are taken where %zu are left of %zu that were reserved", bytes, left,
                        memory->bytes);
    *piece = memory->base + memory->used;
    memory->used += dt_cuda_rounded(bytes);
    return NULL;
}

void dt_cuda_memory_release(const dt_cuda_memory *memory, const dt_cuda *cuda, uint64_t piece) {
    if (piece == 0 || memory->bytes != 0) return;
    cuda->driver.cuCtxSetCurrent(cuda->context);
    cuda->driver.cuMemFree_v2(piece);
}

void dt_cuda_memory_close(dt_cuda_memory *memory, const dt_cuda *cuda) {
    if (memory->base != 0) {
        cuda->driver.cuCtxSetCurrent(cuda->context);
        cuda->driver.cuMemFree_v2(memory->base);
    }
    *memory = (dt_cuda_memory){0};
}
