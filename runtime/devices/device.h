/* device: what runs kernels: memory, copies, lists of calls. An implementation is a folder and a line in registry.c.
 *
 * A device is driven by one thread at a time. All memory of a device can be read by kernels of the same device, and by those of all devices of its
 * kind where that shares memory; local collectives ask more
 * (runtime/comm/local): that the memory of all devices of a session be in one address space. */
#ifndef DT_RUNTIME_DEVICES_DEVICE_H
#define DT_RUNTIME_DEVICES_DEVICE_H

#include "abi/launch.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dt_device dt_device;
typedef struct dt_lane_kind dt_lane_kind; /* runtime/lane.h */
extern const dt_lane_kind dt_lane_of_cores, dt_lane_of_gpu;

/* One kernel, with its arguments: what a device runs a list of. */
typedef struct dt_device_call {
    dt_kernel_entry entry;
    void *const *buffers;
    const dt_launch *launch;
} dt_device_call;

typedef struct dt_device_kind {
    const char *name;     /* "cpu": what --devices calls it */
    const char *about;    /* one line for `dtrun devices` */
    int (*n_cores)(void); /* that its devices may share out; NULL: a device of this kind is not made of cores */
    /* Device `number` of the `n` that a session opens: where devices are made of cores, one for each core. A GPU: the machine's GPU of that number.
     */
    dt_status *(*open)(int number, int n, dt_device **device);
    void (*close)(dt_device *device);
    /* Called once by a thread that will only drive this device. */
    void (*enter)(dt_device *device);
    /* Bytes that are free now, shared by all devices of this kind; INT64_MAX where there is no limit. */
    int64_t (*free_bytes)(const dt_device *device);
    /* What an allocation takes is a multiple of so many bytes; 0: of one. */
    size_t granularity;
    /* Said before the first allocation, in bytes, all together as they are taken: then they are parts of one. NULL: it makes no difference. */
    dt_status *(*reserve)(dt_device *device, size_t bytes);
    /* Zeroed, aligned to 64; `bytes` >= 1. */
    dt_status *(*allocate)(dt_device *device, size_t bytes, void **memory);
    void (*release)(dt_device *device, void *memory, size_t bytes); /* what allocate gave, with its bytes; NULL is allowed */
    dt_status *(*write)(dt_device *device, void *memory, const void *host, size_t bytes);
    dt_status *(*read)(dt_device *device, void *host, const void *memory, size_t bytes);
    /* Runs the calls in order. Their effect is there after `synchronize`. */
    dt_status *(*run)(dt_device *device, const dt_device_call *calls, size_t n_calls);
    dt_status *(*synchronize)(dt_device *device);
    const dt_lane_kind *lanes; /* how a session runs steps on it: dt_lane_of_cores, unless the kind has a way of its own */
    bool is_gpu;               /* named by a number of its own; runs no functions of the host, but those of a plan for GPUs */
    bool shares_memory;        /* what one device of this kind allocates, all of the process read and write: they hold the variables together */
} dt_device_kind;

struct dt_device { /* the head of every implementation's own struct */
    const dt_device_kind *kind;
    char name[32]; /* "cpu:0" */
};

extern const dt_device_kind dt_device_cpu, dt_device_null, dt_device_cuda;

/* All kinds, ended by NULL. */
extern const dt_device_kind *const dt_device_kinds[];

static inline dt_status *dt_device_open(const dt_device_kind *kind, int number, int n, dt_device **device) { return kind->open(number, n, device); }
static inline void dt_device_close(dt_device *device) {
    if (device != NULL) device->kind->close(device);
}
static inline void dt_device_enter(dt_device *device) { device->kind->enter(device); }
static inline int64_t dt_device_free_bytes(const dt_device *device) { return device->kind->free_bytes(device); }
/* What an allocation of `bytes` takes. */
static inline int64_t dt_device_taken_bytes(const dt_device *device, int64_t bytes) {
    int64_t most = INT64_MAX - (int64_t)device->kind->granularity, n = (int64_t)device->kind->granularity;
    return n == 0 || bytes > most ? bytes : (bytes + n - 1) / n * n;
}
static inline dt_status *dt_device_reserve(dt_device *device, size_t bytes) {
    return device->kind->reserve != NULL ? device->kind->reserve(device, bytes) : NULL;
}
static inline dt_status *dt_device_allocate(dt_device *device, size_t bytes, void **memory) { return device->kind->allocate(device, bytes, memory); }
static inline void dt_device_release(dt_device *device, void *memory, size_t bytes) { device->kind->release(device, memory, bytes); }
static inline dt_status *dt_device_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    return device->kind->write(device, memory, host, bytes);
}
static inline dt_status *dt_device_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    return device->kind->read(device, host, memory, bytes);
}
static inline dt_status *dt_device_run(dt_device *device, const dt_device_call *calls, size_t n_calls) {
    return device->kind->run(device, calls, n_calls);
}
static inline dt_status *dt_device_synchronize(dt_device *device) { return device->kind->synchronize(device); }

#endif
