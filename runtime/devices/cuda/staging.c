/* staging: see the header. */
#include "runtime/devices/cuda/staging.h"
#include "runtime/devices/cuda/memory.h"

#include <string.h>

/* On the GPU: launches, records, aggregates, slots. On the host what goes down, what comes up, slots. */
void dt_cuda_staging_lay_out(dt_cuda_staging *staging, dt_cuda_staging_layout layout) {
    size_t n = (size_t)layout.n_launches, slots = DT_CUDA_N_SLOTS * dt_cuda_rounded((size_t)layout.input_bytes);
    *staging = (dt_cuda_staging){.layout = layout};
    staging->down_bytes = n * (sizeof(dt_launch) + sizeof(dt_bad_index));
    staging->up_bytes = n * sizeof(dt_bad_index) + (size_t)layout.n_aggregates * 8;
    staging->device_bytes = dt_cuda_rounded(n * sizeof(dt_launch) + staging->up_bytes) + slots;
    staging->host_bytes = dt_cuda_rounded(staging->down_bytes) + dt_cuda_rounded(staging->up_bytes) + slots;
}

static uint64_t records(const dt_cuda_staging *staging) { return staging->device + (size_t)staging->layout.n_launches * sizeof(dt_launch); }

dt_status *dt_cuda_staging_open(dt_cuda_staging *staging, const dt_cuda *cuda, uint64_t device) {
    size_t n = (size_t)staging->layout.n_launches, slot_bytes = dt_cuda_rounded((size_t)staging->layout.input_bytes);
    void *host = NULL;
    staging->device = device;
    DT_TRY(dt_cuda_enter(cuda));
    dt_status *status = dt_cuda_driver_error(&cuda->driver, "cuMemAllocHost_v2", cuda->driver.cuMemAllocHost_v2(&host, staging->host_bytes));
    DT_TRY(dt_cuda_say_memory(cuda, status, staging->host_bytes, "bytes of inputs and launches that the host keeps in place (pinned memory)"));
    staging->host = host;
    memset(host, 0, staging->host_bytes);
    staging->host_launches = host;
    staging->host_bad_index = (dt_bad_index *)(staging->host + dt_cuda_rounded(staging->down_bytes));
    staging->host_aggregates = (int64_t *)(staging->host_bad_index + n);
    staging->aggregates = records(staging) + n * sizeof(dt_bad_index);
    for (int s = 0; s < DT_CUDA_N_SLOTS; s++) {
        staging->slots[s].host = staging->host + staging->host_bytes - (size_t)(DT_CUDA_N_SLOTS - s) * slot_bytes;
        staging->slots[s].inputs = device + staging->device_bytes - (size_t)(DT_CUDA_N_SLOTS - s) * slot_bytes;
        void *copied = NULL;
        DT_CUDA_TRY(cuda, cuEventCreate, &copied, DT_CUDA_EVENT_DISABLE_TIMING);
        staging->slots[s].copied = copied;
    }
    return NULL;
}

void dt_cuda_staging_close(dt_cuda_staging *staging, const dt_cuda *cuda) {
    for (int s = 0; s < DT_CUDA_N_SLOTS; s++)
        if (staging->slots[s].copied != NULL) cuda->driver.cuEventDestroy_v2(staging->slots[s].copied);
    if (staging->host != NULL) cuda->driver.cuMemFreeHost(staging->host);
    *staging = (dt_cuda_staging){0};
}

uint64_t dt_cuda_staging_launch(const dt_cuda_staging *staging, int launch) { return staging->device + (size_t)launch * sizeof(dt_launch); }

void dt_cuda_staging_point(dt_cuda_staging *staging) {
    for (int l = 0; l < staging->layout.n_launches; l++)
        staging->host_launches[l].bad_index = (dt_bad_index *)(uintptr_t)(records(staging) + (size_t)l * sizeof(dt_bad_index));
}

dt_status *dt_cuda_staging_send(const dt_cuda_staging *staging, const dt_cuda *cuda) {
    DT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, staging->device, staging->host, staging->down_bytes, cuda->stream);
    return NULL;
}

dt_status *dt_cuda_staging_fetch(const dt_cuda_staging *staging, const dt_cuda *cuda) {
    DT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, staging->host_bad_index, records(staging), staging->up_bytes, cuda->stream);
    return NULL;
}

dt_status *dt_cuda_staging_copy(const dt_cuda_staging *staging, const dt_cuda *cuda, int slot, size_t bytes) {
    DT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, staging->slots[slot].inputs, staging->slots[slot].host, bytes, cuda->copies);
    DT_CUDA_TRY(cuda, cuEventRecord, staging->slots[slot].copied, cuda->copies);
    return NULL;
}
