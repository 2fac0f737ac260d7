/* null: a device that has memory and computes nothing: what a step costs without its kernels, and the least an implementation must be. */
#include "base/memory.h"
#include "runtime/devices/device.h"
#include "runtime/devices/host_memory.h"

#include <stdio.h>

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

static dt_status *null_prepare(dt_device *device, dt_sequence *const *sequences, size_t n) {
    (void)device, (void)sequences, (void)n;
    return NULL;
}

static dt_status *null_enqueue(dt_device *device, const dt_sequence *sequence) {
    (void)device, (void)sequence;
    return NULL;
}

static dt_status *null_measure(dt_device *device, const dt_sequence *sequence, double *seconds) {
    (void)device;
    for (size_t i = 0; i < sequence->n_operations; i++) seconds[i] = 0;
    return NULL;
}

static dt_status *null_measure_peak(dt_device *device, const char *level, dt_peak *peak) {
    (void)device, (void)level;
    *peak = (dt_peak){0};
    return NULL;
}

const dt_device_kind dt_device_null = {
    .name = "null",
    .about = "memory, but no computation: for measuring what is not kernels",
    .shares_memory = true,
    .reads_host = true,
    .open = null_open,
    .close = null_close,
    .enter = null_enter,
    DT_HOST_MEMORY_OF_A_DEVICE,
    .prepare = null_prepare,
    .enqueue = null_enqueue,
    .measure = null_measure,
    .measure_peak = null_measure_peak,
};
