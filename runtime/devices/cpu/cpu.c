/* cpu: one core of this machine; a device of several is several of these.
 *
 * Operations run on the thread that asks for them, so there is nothing to wait for. A thread that drives a device and nothing else is bound to a core
 * of its own, where there are enough, so that what a step leaves in that core's cache is there for the next. */
#include "base/cpu.h"
#include "base/memory.h"
#include "runtime/devices/device.h"
#include "runtime/devices/host_memory.h"
#include "runtime/devices/peak.h"
#include "runtime/threads/clock.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

typedef struct cpu {
    dt_device device;
    int core;      /* to be bound to, or -1 */
    void *scratch; /* of dt_reduce, for the deepest tree of all sequences */
    size_t scratch_bytes;
} cpu;

/* ---- opening ---- */

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

static void cpu_close(dt_device *device) {
    cpu *self = (cpu *)device;
    dt_host_memory_release(self->scratch, self->scratch_bytes);
    dt_release(self);
}

static void cpu_enter(dt_device *device) {
    cpu *self = (cpu *)device;
    cpu_set_t set;
    if (self->core < 0) return;
    CPU_ZERO(&set);
    CPU_SET(self->core, &set);
    sched_setaffinity(0, sizeof set, &set); /* where it is refused, the scheduler decides */
}

/* ---- operations ---- */

static dt_status *cpu_prepare(dt_device *device, dt_sequence *const *sequences, size_t n) {
    cpu *self = (cpu *)device;
    int64_t n_leaves = 0;
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sequences[s]->n_operations; i++) {
            const dt_operation *one = &sequences[s]->operations[i];
            for (int r = 0; one->kind == DT_OPERATION_REDUCE && r < one->reduce.n; r++)
                if (one->reduce.reductions[r].n_leaves > n_leaves) n_leaves = one->reduce.reductions[r].n_leaves;
        }
    if (n_leaves == 0) return NULL;
    assert(self->scratch == NULL);
    self->scratch_bytes = dt_reduce_scratch_bytes(n_leaves);
    self->scratch = dt_host_memory_allocate(self->scratch_bytes);
    return self->scratch != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for sums on the way", device->name);
}

/* Kernels know of no loop: which iteration a bad index is of shows between two launches. */
static void launch(const dt_operation_launch *one) {
    dt_bad_index *bad_index = one->values->bad_index, before = *bad_index;
    one->entry(one->buffers, one->values);
    if (!dt_bad_index_is_same(bad_index, &before)) bad_index->loop = one->iteration + 1;
}

static void run(cpu *self, const dt_operation *one) {
    switch (one->kind) {
    case DT_OPERATION_LAUNCH: launch(&one->launch); return;
    case DT_OPERATION_REDUCE:
        for (int r = 0; r < one->reduce.n; r++) dt_reduce(&one->reduce.reductions[r], self->scratch);
        return;
    case DT_OPERATION_COPY:
    case DT_OPERATION_READ_BACK: memcpy(one->copy.target, one->copy.source, one->copy.bytes); return;
    default: break;
    }
    assert(!"a group makes reductions of it");
}

static dt_status *cpu_enqueue(dt_device *device, const dt_sequence *sequence) {
    for (size_t i = 0; i < sequence->n_operations; i++) {
        run((cpu *)device, &sequence->operations[i]);
        dt_progress_count(device->progress);
    }
    return NULL;
}

static dt_status *cpu_measure(dt_device *device, const dt_sequence *sequence, double *seconds) {
    double began = dt_seconds_now();
    for (size_t i = 0; i < sequence->n_operations; i++) {
        run((cpu *)device, &sequence->operations[i]);
        double now = dt_seconds_now();
        seconds[i] = now - began;
        began = now;
    }
    return NULL;
}

/* "native" code: all that the machine has. */
static dt_status *cpu_measure_peak(dt_device *device, const char *level, dt_peak *peak) {
    int number = dt_cpu_level_from_name(level);
    (void)device;
    *peak = dt_peak_measure(number > 0 ? number : dt_cpu_level());
    return NULL;
}

const dt_device_kind dt_device_cpu = {
    .name = "cpu",
    .about = "cores of this machine: all, cpu:D in D devices, cpu:DxT in D devices of T",
    .shares_memory = true,
    .reads_host = true,
    .n_cores = dt_cpu_n_cores,
    .open = cpu_open,
    .close = cpu_close,
    .enter = cpu_enter,
    DT_HOST_MEMORY_OF_A_DEVICE,
    .prepare = cpu_prepare,
    .enqueue = cpu_enqueue,
    .measure = cpu_measure,
    .measure_peak = cpu_measure_peak,
};
