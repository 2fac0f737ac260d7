/* null: a device that has memory and computes nothing: what a step costs without its kernels, and the least an implementation must be. */
#include "base/memory.h"
#include "runtime/devices/device.h"
#include "runtime/devices/host_memory.h"

#include <stdio.h>
#include <string.h>

static dt_status *null_open(int number, int n, dt_device **device) {
    (void)n;
    *device = dt_allocate_zeroed(1, sizeof **device);
    if (*device == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to open null:%d", number);
    (*device)->kind = &dt_device_null;
    snprintf((*device)->name, sizeof(*device)->name, "null:%d", number);
    return NULL;
}

static void null_close(dt_device *device) { dt_release(device); }

static void null_enter(dt_device *device) { (void)device; }

static int64_t null_free_bytes(const dt_device *device) {
    (void)device;
    return dt_host_memory_free_bytes();
}

static dt_status *null_allocate(dt_device *device, size_t bytes, void **memory) {
    *memory = dt_host_memory_allocate(bytes);
    return *memory != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for %zu bytes", device->name, bytes);
}

static void null_release(dt_device *device, void *memory, size_t bytes) {
    (void)device;
    dt_host_memory_release(memory, bytes);
}

static dt_status *null_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    (void)device;
    memcpy(memory, host, bytes);
    return NULL;
}

static dt_status *null_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    (void)device;
    memcpy(host, memory, bytes);
    return NULL;
}

static dt_status *null_run(dt_device *device, const dt_device_call *calls, size_t n_calls) {
    (void)device, (void)calls, (void)n_calls;
    return NULL;
}

static dt_status *null_synchronize(dt_device *device) {
    (void)device;
    return NULL;
}

const dt_device_kind dt_device_null = {
    .name = "null",
    .about = "memory, but no computation: for measuring what is not kernels",
    .open = null_open,
    .close = null_close,
    .enter = null_enter,
    .free_bytes = null_free_bytes,
    .allocate = null_allocate,
    .release = null_release,
    .write = null_write,
    .read = null_read,
    .run = null_run,
    .synchronize = null_synchronize,
    .lanes = &dt_lane_of_cores,
    .shares_memory = true,
};
