/* device: a GPU as a dt_device: what its files share. */
#ifndef DT_RUNTIME_DEVICES_CUDA_DEVICE_H
#define DT_RUNTIME_DEVICES_CUDA_DEVICE_H

#include "runtime/devices/cuda/context.h"
#include "runtime/devices/cuda/kernels.h"
#include "runtime/devices/cuda/memory.h"
#include "runtime/devices/cuda/tables.h"
#include "runtime/devices/device.h"

/* A sequence that was prepared. */
typedef struct dt_cuda_prepared {
    const dt_sequence *sequence;
    void *graph;
    size_t first_work; /* of the tables: its reductions are this one and the next ones, in order */
    void **events;     /* [2 * n_operations] of a device that is timed: before and after each operation; else NULL */
} dt_cuda_prepared;

typedef struct dt_cuda_device {
    dt_device head;
    dt_cuda cuda;
    dt_cuda_memory memory;
    dt_cuda_kernels kernels;
    bool is_loaded;
    bool checks; /* operations are run one by one, each waited for, so that an error names the one that made it */
    bool hangs;  /* something did not end in time: the driver's calls that wait would not come back */

    dt_cuda_tables tables; /* of all sequences */
    void *table_memory, *workspace;
    void *numbers;                  /* on the GPU: 0 and 1, each of 32 bits. With a link; else NULL */
    const volatile uint32_t *waits; /* of the host: 1 while it waits for other processes */
    size_t n_prepared;
    dt_cuda_prepared *prepared;
    const dt_sequence *last; /* that was enqueued; NULL: none was */
    void *branches;          /* the event by which streams of a capture wait for one another */
    void **marks;            /* [n_marks] the events by which they wait for what is beside, up to a mark */
    int n_marks;

    void *clock;       /* an event at a time that is known; NULL: it is not timed */
    double clock_time; /* of it: dt_seconds_now */

    size_t n_events;
    void **events; /* that measuring takes: one before each operation, and one after the last */
} dt_cuda_device;

static inline dt_cuda_device *dt_cuda_device_of(dt_device *device) { return (dt_cuda_device *)device; }

/* Makes its context this thread's. DT_FAILED_PRECONDITION: it hangs. */
dt_status *dt_cuda_device_enter(dt_cuda_device *device);
/* Waits for all that it was given; notes it when that does not end. */
dt_status *dt_cuda_device_wait(dt_cuda_device *device);

/* The parts of dt_device_kind that are about operations: sequences.c. */
int64_t dt_cuda_prepare_bytes(const dt_device *device, const dt_sequence *const *sequences, size_t n);
dt_status *dt_cuda_prepare(dt_device *device, dt_sequence *const *sequences, size_t n);
dt_status *dt_cuda_enqueue(dt_device *device, const dt_sequence *sequence);
dt_status *dt_cuda_measure(dt_device *device, const dt_sequence *sequence, double *seconds);
dt_status *dt_cuda_start_clock(dt_device *device);
dt_status *dt_cuda_read_clock(dt_device *device, const dt_sequence *sequence, double *began, double *ended);
/* Gives back what they have made; memory is the device's. */
void dt_cuda_release_sequences(dt_cuda_device *device);

#endif
