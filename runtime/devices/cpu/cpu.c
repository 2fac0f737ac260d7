/* cpu: one core of this machine; a device of several is several of these.
 *
 * Calls run on the thread that asks for them. A thread that drives a device and nothing else is bound to a core of its own, where there are
 * enough, so that what a step leaves in that core's cache is there for the next. */
#include "base/memory.h"
#include "runtime/devices/device.h"
#include "runtime/devices/host_memory.h"
#include "runtime/gate.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

typedef struct cpu {
    dt_device device;
    int core; /* to be bound to, or -1 */
} cpu;

/* The `number`th core that this process may use, or -1 when there are fewer than n. */
static int pick_core(int number, int n) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < n) return -1;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &set) && number-- == 0) return core;
    return -1;
}

static dt_status *cpu_open(int number, int n, dt_device **device) {
    cpu *self = dt_allocate_zeroed(1, sizeof *self);
    if (self == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to open cpu:%d", number);
    self->device.kind = &dt_device_cpu;
    self->core = pick_core(number, n);
    snprintf(self->device.name, sizeof self->device.name, "cpu:%d", number);
    *device = &self->device;
    return NULL;
}

static void cpu_close(dt_device *device) { dt_release(device); }

static void cpu_enter(dt_device *device) {
    cpu *self = (cpu *)device;
    cpu_set_t set;
    if (self->core < 0) return;
    CPU_ZERO(&set);
    CPU_SET(self->core, &set);
    sched_setaffinity(0, sizeof set, &set); /* where it is refused, the scheduler decides */
}

static int64_t cpu_free_bytes(const dt_device *device) {
    (void)device;
    return dt_host_memory_free_bytes();
}

static dt_status *cpu_allocate(dt_device *device, size_t bytes, void **memory) {
    *memory = dt_host_memory_allocate(bytes);
    return *memory != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for %zu bytes", device->name, bytes);
}

static void cpu_release(dt_device *device, void *memory, size_t bytes) {
    (void)device;
    dt_host_memory_release(memory, bytes);
}

static dt_status *cpu_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    (void)device;
    memcpy(memory, host, bytes);
    return NULL;
}

static dt_status *cpu_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    (void)device;
    memcpy(host, memory, bytes);
    return NULL;
}

static dt_status *cpu_run(dt_device *device, const dt_device_call *calls, size_t n_calls) {
    (void)device;
    for (size_t i = 0; i < n_calls; i++) calls[i].entry(calls[i].buffers, calls[i].launch);
    return NULL;
}

static dt_status *cpu_synchronize(dt_device *device) {
    (void)device;
    return NULL;
}

const dt_device_kind dt_device_cpu = {
    .name = "cpu",
    .about = "cores of this machine: all, cpu:D in D devices, cpu:DxT in D devices of T",
    .n_cores = dt_n_cores,
    .open = cpu_open,
    .close = cpu_close,
    .enter = cpu_enter,
    .free_bytes = cpu_free_bytes,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .write = cpu_write,
    .read = cpu_read,
    .run = cpu_run,
    .synchronize = cpu_synchronize,
    .lanes = &dt_lane_of_cores,
    .shares_memory = true,
};
