/* registry: the kinds of devices, a line each. */
#include "runtime/devices/device.h"

const dt_device_kind *const dt_device_kinds[] = {
    &dt_device_cpu,
    &dt_device_cuda,
    &dt_device_null,
    NULL,
};
