/* agreement: GPUs of a run compute alike, or it does not begin: their architecture, the code that they run, the versions of libraries, and the
 * algorithms that these have chosen. Process 0's choices are everybody's. */
#ifndef DT_RUNTIME_EXECUTION_AGREEMENT_H
#define DT_RUNTIME_EXECUTION_AGREEMENT_H

#include "runtime/comm/processes.h"
#include "runtime/devices/device.h"

/* The devices of this process, of one kind, once they are prepared. The first n_idle of them, fewer than n, hold no replicas, and need not call the
 * libraries that the others do. All processes call it together. DT_FAILED_PRECONDITION: what differs first, and what helps; the same in all
 * processes, or of two devices of this one. */
dt_status *dt_devices_agree(dt_processes *processes, const dt_device *const *devices, int n, int n_idle);

#endif
