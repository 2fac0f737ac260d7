/* nccl: the link between GPUs of a run's processes, one of each, by NVIDIA's NCCL. Along each axis of the mesh a process is in a communicator of its
 * own, of those that it exchanges with there; so all of a communicator's processes use it in one order, whatever others do.
 *
 * NCCL moves bytes: who sends what to whom is the schedule's, and sums are the GPU's own reductions, so that bits are those of any other way
 * (runtime/comm/schedule.h). It adds up itself only what somebody has left to it, with --reduce=fast. Its communicator never blocks a thread: whoever
 * waits looks for errors of NCCL's, for failures that other processes tell, and at the clock. */
#ifndef DT_RUNTIME_COMM_NCCL_NCCL_H
#define DT_RUNTIME_COMM_NCCL_NCCL_H

#include "runtime/comm/mesh.h"
#include "runtime/comm/processes.h"
#include "runtime/devices/device.h"

typedef struct dt_nccl_options {
    dt_processes *processes; /* more than one */
    const dt_mesh *mesh;     /* of them */
    dt_device *device;       /* of this process */
    const char *refusal;     /* why this process takes no part; NULL: it does, with its GPU */
    double deadline_seconds;
} dt_nccl_options;

/* All processes call it together. Where all can, and the environment variable DT_NCCL is nowhere "none", *link is one, for the device to own. Else it
 * is NULL, and `why`, the same everywhere, says what is in the way: a process's refusal, no NCCL or another version somewhere, two processes with one
 * GPU. */
dt_status *dt_nccl_open(const dt_nccl_options *options, dt_link **link, char *why, size_t why_bytes);

#endif
