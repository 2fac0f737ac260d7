/* device: a GPU as a dt_device. Its memory is the GPU's; what runs on it is what runtime/gpu_lane.c hands over, not functions of the host. */
#ifndef DT_RUNTIME_DEVICES_CUDA_DEVICE_H
#define DT_RUNTIME_DEVICES_CUDA_DEVICE_H

#include "runtime/devices/cuda/context.h"
#include "runtime/devices/device.h"

/* Of a device of kind dt_device_cuda. */
dt_cuda *dt_cuda_of(dt_device *device);

#endif
