/* device: see the header. Here: opening, memory, the order of queues, and what is said when something goes wrong. */
#include "runtime/devices/cuda/device.h"

#include "base/memory.h"
#include "runtime/devices/cuda/peak.h"

#include <stdio.h>
#include <string.h>

static uint64_t address(const void *memory) { return (uint64_t)(uintptr_t)memory; }
static const dt_cuda *cuda_of(dt_device *device) { return &dt_cuda_device_of(device)->cuda; }

/* ---- opening ---- */

static dt_status *cuda_open(int number, int n, dt_device **device) {
    (void)n;
    *device = NULL;
    dt_cuda_device *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to open cuda:%d", number);
    dt_status *status = dt_cuda_open(number, &opened->cuda);
    if (status != NULL) {
        dt_release(opened);
        return status;
    }
    opened->head.kind = &dt_device_cuda;
    opened->checks = dt_cuda_checks(DT_CUDA_CHECK_KERNELS);
    snprintf(opened->head.name, sizeof opened->head.name, "cuda:%d", number);
    *device = &opened->head;
    return NULL;
}

static dt_status *cuda_n_present(int *n) {
    dt_cuda_driver driver;
    bool present;
    *n = 0;
    DT_TRY(dt_cuda_driver_open(&driver, &present));
    if (!present) return dt_cuda_no_driver();
    dt_status *status = dt_cuda_driver_count(&driver, n);
    dt_cuda_driver_close(&driver);
    return status;
}

/* What hangs is left to the end of the process. */
static void cuda_close(dt_device *device) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    if (!self->hangs) {
        self->cuda.driver.cuCtxSetCurrent(self->cuda.context);
        self->cuda.driver.cuStreamSynchronize(self->cuda.copies);
        self->cuda.driver.cuStreamSynchronize(self->cuda.stream);
    }
    dt_cuda_release_sequences(self);
    if (self->hangs) dt_link_abort(self->cuda.link);
    dt_link_close(self->cuda.link); /* what it has captured is no more */
    if (!self->hangs) {
        if (self->is_loaded) dt_cuda_kernels_free(&self->kernels);
        dt_device_release(device, self->table_memory, 0);
        dt_device_release(device, self->workspace, 0);
        dt_device_release(device, self->numbers, 0);
        device->kind->release_host(device, (void *)(uintptr_t)self->waits);
        dt_cuda_memory_close(&self->memory, &self->cuda);
        dt_cuda_close(&self->cuda);
    }
    dt_release(self);
}

/* Each function that is called enters by itself. */
static void cuda_enter(dt_device *device) { (void)device; }

dt_status *dt_cuda_device_enter(dt_cuda_device *self) {
    if (self->hangs) return dt_error(DT_FAILED_PRECONDITION, "%s has not finished what it was given before", self->head.name);
    self->cuda.deadline_seconds = self->head.deadline_seconds;
    return dt_cuda_enter(&self->cuda);
}

/* On the way out, where what fails is lost with the GPU. The thread may be there already: then an error of this call alone changes nothing. */
static bool can_enter(const dt_cuda_device *self) {
    if (!self->hangs) self->cuda.driver.cuCtxSetCurrent(self->cuda.context);
    return !self->hangs;
}

static dt_status *cuda_connect(dt_device *device, dt_device *peer) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    const dt_cuda *other = cuda_of(peer);
    int can = 0;
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuDeviceCanAccessPeer, &can, self->cuda.device, other->device);
    if (!can)
        return dt_error(DT_FAILED_PRECONDITION, "%s cannot reach the memory of %s, as GPUs of one run have to; run on one of them: --devices %s",
                        device->name, peer->name, device->name);
    int error = self->cuda.driver.cuCtxEnablePeerAccess(other->context, 0);
    if (error == DT_CUDA_PEER_ACCESS_ALREADY_ENABLED) return NULL;
    return dt_status_annotate(dt_cuda_driver_error(&self->cuda.driver, "cuCtxEnablePeerAccess", error), "%s, %s", device->name, peer->name);
}

static dt_status *cuda_identify(dt_device *device, uint8_t id[DT_DEVICE_ID_BYTES]) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuDeviceGetUuid_v2, id, self->cuda.device);
    return NULL;
}

static void cuda_attach(dt_device *device, dt_link *link) { dt_cuda_device_of(device)->cuda.link = link; }

static dt_status *cuda_load(dt_device *device, const dt_artifact *artifact, bool use_libraries, dt_arena *arena) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    self->is_loaded = true; /* also in part */
    return dt_cuda_kernels_load(&self->cuda, artifact, use_libraries, arena, &self->kernels);
}

static const char *cuda_level(const dt_device *device) { return ((const dt_cuda_device *)device)->kernels.architecture; }

/* ---- memory ---- */

static int64_t cuda_free_bytes(const dt_device *device) { return dt_cuda_free_bytes(&((const dt_cuda_device *)device)->cuda); }

static dt_status *cuda_reserve(dt_device *device, size_t bytes) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    return dt_cuda_say_memory(&self->cuda, dt_cuda_memory_reserve(&self->memory, &self->cuda, bytes), bytes, "bytes of the plan");
}

static dt_status *cuda_allocate(dt_device *device, size_t bytes, void **memory) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    uint64_t place;
    dt_status *status = dt_cuda_memory_take(&self->memory, &self->cuda, bytes, &place);
    *memory = (void *)(uintptr_t)place;
    return dt_cuda_say_memory(&self->cuda, status, bytes, "bytes of the plan");
}

static void cuda_release(dt_device *device, void *memory, size_t bytes) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    (void)bytes;
    if (!self->hangs) dt_cuda_memory_release(&self->memory, &self->cuda, address(memory));
}

static dt_status *cuda_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    if (bytes == 0) return NULL;
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuMemcpyHtoDAsync_v2, address(memory), host, bytes, self->cuda.stream);
    return dt_cuda_device_wait(self);
}

static dt_status *cuda_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    if (bytes == 0) return NULL;
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuMemcpyDtoHAsync_v2, host, address(memory), bytes, self->cuda.stream);
    return dt_cuda_device_wait(self);
}

static dt_status *cuda_allocate_host(dt_device *device, size_t bytes, void **memory) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    *memory = NULL;
    DT_TRY(dt_cuda_device_enter(self));
    dt_status *status = dt_cuda_driver_error(&self->cuda.driver, "cuMemAllocHost_v2", self->cuda.driver.cuMemAllocHost_v2(memory, bytes));
    DT_TRY(dt_cuda_say_memory(&self->cuda, status, bytes, "bytes of inputs and launches that the host keeps in place (pinned memory)"));
    memset(*memory, 0, bytes);
    return NULL;
}

static void cuda_release_host(dt_device *device, void *memory) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    if (memory != NULL && can_enter(self)) self->cuda.driver.cuMemFreeHost(memory);
}

/* ---- order ---- */

static dt_status *cuda_create_event(dt_device *device, dt_device_event **event) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    void *made = NULL;
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuEventCreate, &made, DT_CUDA_EVENT_DISABLE_TIMING);
    *event = made;
    return NULL;
}

static void cuda_destroy_event(dt_device *device, dt_device_event *event) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    if (can_enter(self)) self->cuda.driver.cuEventDestroy_v2(event);
}

static dt_status *cuda_signal(dt_device *device, dt_device_event *event) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuEventRecord, event, self->cuda.stream);
    return NULL;
}

static dt_status *cuda_wait(dt_device *device, dt_device_event *event) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuStreamWaitEvent, self->cuda.stream, event, 0);
    return NULL;
}

static dt_status *cuda_copy_ahead(dt_device *device, void *target, const void *source, size_t bytes, dt_device_event *event) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    DT_CUDA_TRY(&self->cuda, cuMemcpyHtoDAsync_v2, address(target), source, bytes, self->cuda.copies);
    DT_CUDA_TRY(&self->cuda, cuEventRecord, event, self->cuda.copies);
    return NULL;
}

/* What was enqueued last: "train, which ends with dense (a.dt:4), update (a.dt:9)". */
static void say_last(const dt_cuda_device *self, dt_text *text) {
    enum {
        N_SAID = 3
    };
    const dt_operation *launches[N_SAID];
    int n = 0;
    for (size_t i = self->last->n_operations; i-- > 0 && n < N_SAID;)
        if (self->last->operations[i].kind == DT_OPERATION_LAUNCH) launches[n++] = &self->last->operations[i];
    dt_text_format(text, "; enqueued last: %zu operations of %s", self->last->n_operations, self->last->name);
    for (int l = n - 1; l >= 0; l--) {
        const dt_artifact_kernel *kernel = dt_cuda_kernel_of(&self->kernels, &launches[l]->launch);
        dt_text_format(text, "%s%s (%s)", l == n - 1 ? ", which end with " : ", ", kernel->name, kernel->lines);
    }
}

static bool cuda_waits(const dt_device *device) {
    const dt_cuda_device *self = (const dt_cuda_device *)device;
    return self->waits != NULL && *self->waits != 0;
}

static dt_status *give_up(dt_cuda_device *self) {
    dt_text text = {0};
    self->hangs = true;
    if (cuda_waits(&self->head)) dt_text_format(&text, ", as it waits for those of other processes");
    if (self->last != NULL) say_last(self, &text);
    dt_status *status =
        dt_error(DT_ABORTED, "the GPU has not finished after %g s%s", self->head.deadline_seconds, text.data != NULL ? text.data : "");
    dt_text_free(&text);
    return status;
}

dt_status *dt_cuda_device_wait(dt_cuda_device *self) {
    dt_status *status = dt_cuda_wait(&self->cuda), *of_peer = NULL;
    if (dt_status_code(status) == DT_ABORTED) of_peer = dt_link_check(self->cuda.link);
    if (dt_status_code(status) != DT_ABORTED || of_peer != NULL) { /* another process has failed: this GPU does not hang */
        dt_status_free(of_peer);
        return status;
    }
    dt_status_free(status);
    return give_up(self);
}

/* Which kernel it was a graph does not say. */
static dt_status *say_how_to_find_it(const dt_cuda_device *self, dt_status *status) {
    if (status == NULL || self->checks) return status;
    dt_status *longer =
        dt_error(dt_status_code(status), "%s; if a kernel was the cause, DT_CUDA_CHECK=1 names it, at the cost of time", dt_status_message(status));
    dt_status_free(status);
    return longer;
}

static dt_status *cuda_query(dt_device *device, bool *done) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    int error = self->cuda.driver.cuStreamQuery(self->cuda.stream);
    *done = error == 0;
    if (error == DT_CUDA_NOT_READY && self->cuda.link != NULL) /* is it this GPU that is slow, or does it wait for another one? */
        dt_progress_set(self->head.progress, cuda_waits(device) ? DT_ACTIVITY_EXCHANGING : DT_ACTIVITY_COMPUTING);
    return error == DT_CUDA_NOT_READY ? dt_link_check(self->cuda.link)
                                      : say_how_to_find_it(self, dt_cuda_driver_error(&self->cuda.driver, "cuStreamQuery", error));
}

static dt_status *cuda_give_up(dt_device *device) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    return say_how_to_find_it(self, give_up(self));
}

/* ---- asked ---- */

static dt_status *cuda_measure_peak(dt_device *device, const char *level, dt_peak *peak) {
    (void)level;
    return dt_cuda_peak_measure(cuda_of(device), peak);
}

static void cuda_print_libraries(const dt_device *device, bool each, dt_text *text) {
    const dt_cuda_libraries *libraries = ((const dt_cuda_device *)device)->kernels.libraries;
    if (libraries != NULL) dt_cuda_libraries_print(libraries, each, text);
}

static void cuda_print_identity(const dt_device *device, dt_text *text) {
    const dt_cuda_device *self = (const dt_cuda_device *)device;
    dt_text_format(text, "a GPU of sm_%d%d with code for %s\n", self->cuda.major, self->cuda.minor, self->kernels.architecture);
    cuda_print_libraries(device, true, text);
}

const dt_device_kind dt_device_cuda = {
    .name = "cuda",
    .about = "NVIDIA GPUs: all, or by number, cuda:0,3; for artifacts of dtc compile --target cuda",
    .is_gpu = true,
    .n_present = cuda_n_present,
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .connect = cuda_connect,
    .identify = cuda_identify,
    .attach = cuda_attach,
    .load = cuda_load,
    .level = cuda_level,
    .free_bytes = cuda_free_bytes,
    .granularity = DT_CUDA_ALIGNMENT,
    .reserve = cuda_reserve,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .write = cuda_write,
    .read = cuda_read,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .prepare_bytes = dt_cuda_prepare_bytes,
    .prepare = dt_cuda_prepare,
    .enqueue = dt_cuda_enqueue,
    .measure = dt_cuda_measure,
    .create_event = cuda_create_event,
    .destroy_event = cuda_destroy_event,
    .signal = cuda_signal,
    .wait = cuda_wait,
    .copy_ahead = cuda_copy_ahead,
    .start_clock = dt_cuda_start_clock,
    .read_clock = dt_cuda_read_clock,
    .query = cuda_query,
    .waits = cuda_waits,
    .give_up = cuda_give_up,
    .measure_peak = cuda_measure_peak,
    .print_libraries = cuda_print_libraries,
    .print_identity = cuda_print_identity,
};
