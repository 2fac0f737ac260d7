/* memory: what a session holds on a GPU, in one allocation.
 *
 * All sizes are known before the first step, so they are summed, allocated once, and what is then asked for is cut from that, one piece behind the
 * other: what was found to fit does fit, and nothing is left between pieces for others to take. Vendors' libraries allocate some of their own beside
 * it. With DT_CUDA_CHECK=memory in the environment each piece is an allocation by itself, so that a tool that watches borders of allocations (or
 * the fake driver) sees a kernel that goes beyond its piece. */
#ifndef DT_RUNTIME_DEVICES_CUDA_MEMORY_H
#define DT_RUNTIME_DEVICES_CUDA_MEMORY_H

#include "runtime/devices/cuda/context.h"

enum {
    DT_CUDA_ALIGNMENT = 256 /* bytes, of pieces: the driver's for its allocations */
};

static inline size_t dt_cuda_rounded(size_t bytes) { return (bytes + DT_CUDA_ALIGNMENT - 1) / DT_CUDA_ALIGNMENT * DT_CUDA_ALIGNMENT; }

/* Starts as zeros. The addresses are the GPU's. */
typedef struct dt_cuda_memory {
    uint64_t base;
    size_t bytes, used; /* 0: nothing is reserved, and each piece is allocated */
} dt_cuda_memory;

/* Allocates what pieces are then cut from: their sum, each rounded up to DT_CUDA_ALIGNMENT. Once. */
dt_status *dt_cuda_memory_reserve(dt_cuda_memory *memory, const dt_cuda *cuda, size_t bytes);
/* A piece, zeroed. DT_INTERNAL: more is taken than was reserved. */
dt_status *dt_cuda_memory_take(dt_cuda_memory *memory, const dt_cuda *cuda, size_t bytes, uint64_t *piece);
/* Gives a piece back; what was reserved stays until dt_cuda_memory_close. */
void dt_cuda_memory_release(const dt_cuda_memory *memory, const dt_cuda *cuda, uint64_t piece);
void dt_cuda_memory_close(dt_cuda_memory *memory, const dt_cuda *cuda); /* one of zeros is allowed */

#endif
