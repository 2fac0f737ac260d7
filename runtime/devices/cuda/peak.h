/* peak: what a GPU can do at most: the yardstick of `dtrun bench` on one. */
#ifndef DT_RUNTIME_DEVICES_CUDA_PEAK_H
#define DT_RUNTIME_DEVICES_CUDA_PEAK_H

#include "runtime/devices/cuda/context.h"
#include "runtime/devices/peak.h"

/* f32 operations as the GPU's clock and number of lanes say, without tensor cores; copying in memory (2 GiB, or an eighth of what is free) and within
 * the second-level cache (16 MiB) as measured, what is read and what is written both counted. Takes some tens of milliseconds, and gives all memory
 * back. */
dt_status *dt_cuda_peak_measure(const dt_cuda *cuda, dt_peak *peak);

#endif
