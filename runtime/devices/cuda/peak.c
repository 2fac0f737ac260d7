/* peak: see the header. */
#include "runtime/devices/cuda/peak.h"
#include "runtime/devices/cuda/memory.h"

enum {
    REPEATS = 3
};

/* Two halves of `bytes` each, and how many copies follow one another between two events: so many that the host's time for the first does not count,
 * and an event's own is nothing beside them. */
typedef struct work {
    size_t bytes;
    int n_copies;
} work;
static const work in_memory = {1 << 30, 4}, in_cache = {8 << 20, 50};

typedef struct bench {
    const dt_cuda *cuda;
    uint64_t memory; /* two halves */
    size_t bytes;    /* of each */
    void *began, *ended;
} bench;

static dt_status *copy_in_turn(const bench *b, size_t bytes, int n_copies) {
    const dt_cuda *cuda = b->cuda;
    for (int i = 0; i < n_copies; i++) DT_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2, b->memory + b->bytes, b->memory, bytes, cuda->stream);
    return NULL;
}

/* Bytes a second of copying between the beginnings of the halves: the best of a few. */
static dt_status *copy(const bench *b, work work, double *rate) {
    const dt_cuda *cuda = b->cuda;
    size_t bytes = work.bytes < b->bytes ? work.bytes : b->bytes;
    *rate = 0;
    DT_TRY(copy_in_turn(b, bytes, 1));
    for (int i = 0; i < REPEATS; i++) {
        float milliseconds = 0;
        DT_CUDA_TRY(cuda, cuEventRecord, b->began, cuda->stream);
        DT_TRY(copy_in_turn(b, bytes, work.n_copies));
        DT_CUDA_TRY(cuda, cuEventRecord, b->ended, cuda->stream);
        DT_CUDA_TRY(cuda, cuEventSynchronize, b->ended);
        DT_CUDA_TRY(cuda, cuEventElapsedTime, &milliseconds, b->began, b->ended);
        double found = milliseconds > 0 ? 2e3 * (double)bytes * work.n_copies / milliseconds : 0;
        if (found > *rate) *rate = found;
    }
    return NULL;
}

/* Of a multiprocessor, each a multiply-add of f32 a clock. */
static int n_lanes(const dt_cuda *cuda) { return cuda->major < 8 || (cuda->major == 8 && cuda->minor == 0) ? 64 : 128; }

static dt_status *measure(bench *b, dt_peak *peak) {
    const dt_cuda *cuda = b->cuda;
    size_t free_bytes = 0, all;
    int khz = 0;
    DT_TRY(dt_cuda_enter(cuda));
    DT_CUDA_TRY(cuda, cuDeviceGetAttribute, &khz, DT_CUDA_CLOCK_KHZ, cuda->device);
    DT_CUDA_TRY(cuda, cuMemGetInfo_v2, &free_bytes, &all);
    size_t half = free_bytes / 16 / DT_CUDA_ALIGNMENT * DT_CUDA_ALIGNMENT;
    b->bytes = half < in_memory.bytes ? half : in_memory.bytes;
    DT_CUDA_TRY(cuda, cuMemAlloc_v2, &b->memory, 2 * b->bytes);
    DT_CUDA_TRY(cuda, cuEventCreate, &b->began, 0);
    DT_CUDA_TRY(cuda, cuEventCreate, &b->ended, 0);
    DT_CUDA_TRY(cuda, cuMemsetD8Async, b->memory, 0, 2 * b->bytes, cuda->stream);
    peak->flops = 2e3 * khz * n_lanes(cuda) * cuda->n_multiprocessors;
    DT_TRY(copy(b, in_memory, &peak->memory_bytes));
    DT_TRY(copy(b, in_cache, &peak->cache_bytes));
    /* Where the second-level cache is smaller than that, or no faster, it is no limit of its own. */
    if (peak->cache_bytes < peak->memory_bytes) peak->cache_bytes = peak->memory_bytes;
    return NULL;
}

dt_status *dt_cuda_peak_measure(const dt_cuda *cuda, dt_peak *peak) {
    bench b = {.cuda = cuda};
    *peak = (dt_peak){0};
    dt_status *status = measure(&b, peak);
    cuda->driver.cuStreamSynchronize(cuda->stream);
    if (b.began != NULL) cuda->driver.cuEventDestroy_v2(b.began);
    if (b.ended != NULL) cuda->driver.cuEventDestroy_v2(b.ended);
    if (b.memory != 0) cuda->driver.cuMemFree_v2(b.memory);
    return status;
}
