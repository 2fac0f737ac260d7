/* host_memory: the memory of devices that compute in this process: aligned, zeroed, in huge pages where it is large. */
#ifndef DT_RUNTIME_DEVICES_HOST_MEMORY_H
#define DT_RUNTIME_DEVICES_HOST_MEMORY_H

#include "runtime/devices/device.h"

#include <stddef.h>
#include <stdint.h>

void *dt_host_memory_allocate(size_t bytes); /* aligned to 64, zeroed; NULL when there is none */
void dt_host_memory_release(void *memory, size_t bytes);

/* What this process may still have: of the machine's memory, that of its control groups (containers, jobs of Slurm) and under `ulimit -v` and `-d`.
 * INT64_MAX when nothing says. *bound: where it is not the machine that bounds it, what does, as in " under `ulimit -v`"; else "". `root` is where
 * the system's files lie: "", but for tests. */
int64_t dt_host_memory_find_free(const char *root, const char **bound);
int64_t dt_host_memory_free_bytes(void);

/* The memory of a device in the host's: its part of a dt_device_kind. */
#define DT_HOST_MEMORY_OF_A_DEVICE                                                                                                                   \
    .free_bytes = dt_host_device_free_bytes, .allocate = dt_host_device_allocate, .release = dt_host_device_release, .write = dt_host_device_write,  \
    .read = dt_host_device_read
int64_t dt_host_device_free_bytes(const dt_device *device);
dt_status *dt_host_device_allocate(dt_device *device, size_t bytes, void **memory);
void dt_host_device_release(dt_device *device, void *memory, size_t bytes);
dt_status *dt_host_device_write(dt_device *device, void *memory, const void *host, size_t bytes);
dt_status *dt_host_device_read(dt_device *device, void *host, const void *memory, size_t bytes);

#endif
