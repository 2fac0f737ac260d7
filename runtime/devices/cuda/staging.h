/* staging: what crosses between host and GPU in a step, in pinned memory on one side and at fixed addresses on the other.
 *
 *   down, each step     dt_launch [n_launches] | dt_bad_index [n_launches], empty          one copy, on the stream that computes
 *   up, each step                                dt_bad_index [n_launches] | aggregates    one copy, on the stream that computes
 *   inputs, two slots   of the widest step                                                 one copy, on the stream of copies, with an event behind it
 *
 * The records of bad indices are the same memory on the GPU. */
#ifndef DT_RUNTIME_DEVICES_CUDA_STAGING_H
#define DT_RUNTIME_DEVICES_CUDA_STAGING_H

#include "abi/launch.h"
#include "runtime/devices/cuda/context.h"

enum {
    DT_CUDA_N_SLOTS = 2
};

typedef struct dt_cuda_staging_layout {
    int n_launches, n_aggregates;
    int64_t input_bytes; /* of a slot */
} dt_cuda_staging_layout;

typedef struct dt_cuda_staging {
    dt_cuda_staging_layout layout;
    size_t down_bytes, up_bytes, device_bytes, host_bytes;

    uint64_t device;              /* the caller's, of device_bytes */
    char *host;                   /* one allocation */
    dt_launch *host_launches;     /* written by the host before each step; their bad_index is set by dt_cuda_staging_point */
    dt_bad_index *host_bad_index; /* what the last step left */
    int64_t *host_aggregates;     /* the same: a word each */
    uint64_t aggregates;          /* where kernels leave them */

    struct {
        char *host;
        uint64_t inputs;
        void *copied; /* event: the slot's last copy is done */
    } slots[DT_CUDA_N_SLOTS];
} dt_cuda_staging;

void dt_cuda_staging_lay_out(dt_cuda_staging *staging, dt_cuda_staging_layout layout);

/* Allocates the host's part. device: staging->device_bytes on the GPU, zeroed, aligned to 256, the caller's. What there is after an error is released
 * by dt_cuda_staging_close. */
dt_status *dt_cuda_staging_open(dt_cuda_staging *staging, const dt_cuda *cuda, uint64_t device);
void dt_cuda_staging_close(dt_cuda_staging *staging, const dt_cuda *cuda); /* nothing may be under way; one that was not opened is allowed */

uint64_t dt_cuda_staging_launch(const dt_cuda_staging *staging, int launch); /* its address on the GPU */
void dt_cuda_staging_point(dt_cuda_staging *staging);                        /* the launch values to their records on the GPU */

/* The two copies of a step, on the stream that computes; they may be captured. */
dt_status *dt_cuda_staging_send(const dt_cuda_staging *staging, const dt_cuda *cuda);
dt_status *dt_cuda_staging_fetch(const dt_cuda_staging *staging, const dt_cuda *cuda);

/* The first bytes of a slot to the GPU, on the stream of copies. No step that reads the slot may be under way. */
dt_status *dt_cuda_staging_copy(const dt_cuda_staging *staging, const dt_cuda *cuda, int slot, size_t bytes);

#endif
