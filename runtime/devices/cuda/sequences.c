/* sequences: operations on a GPU. Each sequence is captured once, as a graph, when it is prepared; to enqueue it is one call of the driver.
 *
 * Before anything is captured the tables of reductions are in the GPU's memory, and libraries and the link have run once what they will be asked for.
 * With DT_CUDA_CHECK=1 in the environment operations are put on the stream one by one instead, each waited for. */
#include "runtime/devices/cuda/device.h"

#include "base/memory.h"
#include "runtime/devices/cuda/graph.h"
#include "runtime/threads/clock.h"

#include <math.h>

static uint64_t address(const void *memory) { return (uint64_t)(uintptr_t)memory; }

/* ---- one operation ---- */

enum {
    NUMBER_BYTES = sizeof(uint32_t)
};

static bool crosses(const dt_operation *one) { return one->kind == DT_OPERATION_TRANSFER || one->kind == DT_OPERATION_ALL_REDUCE; }

/* Whoever looks while it is under way sees that the GPU waits. */
static dt_status *cross(dt_cuda_device *self, const dt_operation *one, void *stream) {
    const dt_cuda *cuda = &self->cuda;
    void *waits = (void *)(uintptr_t)self->waits;
    DT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, waits, address(self->numbers) + NUMBER_BYTES, NUMBER_BYTES, stream);
    if (one->kind == DT_OPERATION_TRANSFER)
        DT_TRY(dt_link_transfer(cuda->link, stream, one->transfer.messages, one->transfer.n));
    else
        DT_TRY(dt_link_all_reduce(cuda->link, stream, one->all_reduce.dtype, one->all_reduce.data, one->all_reduce.n));
    DT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, waits, address(self->numbers), NUMBER_BYTES, stream);
    return NULL;
}

/* *work: number of the next reduction. The stream is the one that computes, or for what is beside it the other one. */
static dt_status *launch(dt_cuda_device *self, const dt_operation *one, void *stream, size_t *work) {
    const dt_cuda *cuda = &self->cuda;
    switch (one->kind) {
    case DT_OPERATION_LAUNCH: return dt_cuda_launch(&self->kernels, &one->launch);
    case DT_OPERATION_REDUCE: {
        size_t w = (*work)++;
        return dt_cuda_launch_reduction(&self->kernels, dt_cuda_tables_work(address(self->table_memory), w),
                                        dt_cuda_tables_n_elements(&self->tables, w), stream);
    }
    case DT_OPERATION_TRANSFER:
    case DT_OPERATION_ALL_REDUCE: return cross(self, one, stream);
    case DT_OPERATION_JOIN: return NULL;
    case DT_OPERATION_COPY:
        DT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2, address(one->copy.target), one->copy.source, one->copy.bytes, cuda->stream);
        return NULL;
    case DT_OPERATION_READ_BACK:
        DT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2, one->copy.target, address(one->copy.source), one->copy.bytes, cuda->stream);
        return NULL;
    default: break;
    }
    return dt_error(DT_INTERNAL, "%s was handed what a group does", self->head.name);
}

static dt_status *say_which(const dt_cuda_device *self, const dt_operation *one, dt_status *status) {
    if (status == NULL) return NULL;
    if (one->kind == DT_OPERATION_LAUNCH) {
        const dt_artifact_kernel *kernel = dt_cuda_kernel_of(&self->kernels, &one->launch);
        return dt_status_annotate(status, "%s (%s)", kernel->name, kernel->lines);
    }
    return dt_status_annotate(status, one->kind == DT_OPERATION_REDUCE ? "the sums over replicas"
                                      : crosses(one)                   ? "what processes exchange"
                                                                       : "what host and GPU exchange");
}

/* ---- preparing ---- */

/* That launches of the sequences are in. */
static int n_places(const dt_sequence *const *sequences, size_t n) {
    int n_found = 1;
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sequences[s]->n_operations; i++) {
            const dt_operation *one = &sequences[s]->operations[i];
            if (one->kind == DT_OPERATION_LAUNCH && one->launch.place >= n_found) n_found = one->launch.place + 1;
        }
    return n_found;
}

int64_t dt_cuda_prepare_bytes(const dt_device *device, const dt_sequence *const *sequences, size_t n) {
    const dt_cuda_device *self = (const dt_cuda_device *)device;
    dt_cuda_tables tables = dt_cuda_tables_count(sequences, n);
    return (self->cuda.link != NULL ? dt_device_taken_bytes(device, 2 * NUMBER_BYTES) : 0) +
           dt_device_taken_bytes(device, (int64_t)dt_cuda_tables_bytes(&tables)) +
           dt_device_taken_bytes(device, (int64_t)dt_cuda_kernels_workspace_bytes(&self->kernels, n_places(sequences, n)));
}

static dt_status *upload_tables(dt_cuda_device *self, const dt_sequence *const *sequences, size_t n) {
    self->tables = dt_cuda_tables_count(sequences, n);
    size_t bytes = dt_cuda_tables_bytes(&self->tables);
    if (bytes == 0) return NULL;
    DT_TRY(dt_device_allocate(&self->head, bytes, &self->table_memory));
    DT_TRY(dt_cuda_tables_fill(&self->tables, sequences, n, address(self->table_memory)));
    return dt_device_write(&self->head, self->table_memory, self->tables.host, bytes);
}

static dt_status *make_workspace(dt_cuda_device *self, const dt_sequence *const *sequences, size_t n) {
    size_t bytes = dt_cuda_kernels_workspace_bytes(&self->kernels, n_places(sequences, n));
    if (bytes == 0) return NULL;
    DT_TRY(dt_device_allocate(&self->head, bytes, &self->workspace));
    self->kernels.workspace = address(self->workspace);
    return NULL;
}

static dt_status *make_numbers(dt_cuda_device *self) {
    static const uint32_t numbers[2] = {0, 1};
    void *waits;
    if (self->cuda.link == NULL) return NULL;
    DT_TRY(self->head.kind->allocate_host(&self->head, NUMBER_BYTES, &waits));
    self->waits = waits;
    DT_TRY(dt_device_allocate(&self->head, sizeof numbers, &self->numbers));
    return dt_device_write(&self->head, self->numbers, numbers, sizeof numbers);
}

/* Libraries load and allocate when they are first asked for something, which a capture forbids. */
static dt_status *warm_libraries(dt_cuda_device *self, const dt_sequence *sequence) {
    for (size_t i = 0; i < sequence->n_operations && self->kernels.libraries != NULL; i++)
        if (sequence->operations[i].kind == DT_OPERATION_LAUNCH) DT_TRY(dt_cuda_warm(&self->kernels, &sequence->operations[i].launch));
    return NULL;
}

/* A link connects to a peer when it is first asked for a message: once with what is there, which is nothing yet. All processes do the same. */
static dt_status *warm_link(dt_cuda_device *self, const dt_sequence *sequence) {
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        if (!crosses(one)) continue;
        DT_TRY(cross(self, one, self->cuda.stream));
        DT_TRY(dt_cuda_device_wait(self));
    }
    return NULL;
}

/* ---- one operation of a prepared sequence ---- */

/* A time that is to be known; within a capture a node of the graph. */
static dt_status *note(const dt_cuda_device *self, void *event, void *stream, bool captures) {
    if (captures)
        DT_CUDA_TRY(&self->cuda, cuEventRecordWithFlags, event, stream, DT_CUDA_EVENT_RECORD_EXTERNAL);
    else
        DT_CUDA_TRY(&self->cuda, cuEventRecord, event, stream);
    return NULL;
}

static dt_status *launch_noted(dt_cuda_device *self, const dt_cuda_prepared *prepared, size_t i, void *stream, bool captures, size_t *work) {
    if (prepared->events != NULL) DT_TRY(note(self, prepared->events[2 * i], stream, captures));
    DT_TRY(launch(self, &prepared->sequence->operations[i], stream, work));
    return prepared->events != NULL ? note(self, prepared->events[2 * i + 1], stream, captures) : NULL;
}

/* What a capture takes. */
typedef struct capture {
    dt_cuda_device *self;
    const dt_cuda_prepared *prepared;
} capture;

/* `to` waits for what `from` has been given. */
static dt_status *branch(dt_cuda_device *self, void *from, void *to) {
    DT_CUDA_TRY(&self->cuda, cuEventRecord, self->branches, from);
    DT_CUDA_TRY(&self->cuda, cuStreamWaitEvent, to, self->branches, 0);
    return NULL;
}

/* For what is beside, up to a mark or all of it. */
static dt_status *join(dt_cuda_device *self, const dt_operation *one) {
    if (one->mark == 0) return branch(self, self->cuda.beside, self->cuda.stream);
    DT_CUDA_TRY(&self->cuda, cuStreamWaitEvent, self->cuda.stream, self->marks[one->mark - 1], 0);
    return NULL;
}

/* What is beside the rest is a branch of the graph, which begins anew wherever something else was in between. */
static dt_status *launch_all(void *context) {
    const capture *of = context;
    dt_cuda_device *self = of->self;
    const dt_sequence *sequence = of->prepared->sequence;
    size_t work = of->prepared->first_work;
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        bool was_beside = i > 0 && sequence->operations[i - 1].beside;
        if (one->beside && !was_beside) DT_TRY(branch(self, self->cuda.stream, self->cuda.beside));
        if (one->kind == DT_OPERATION_JOIN) DT_TRY(join(self, one));
        DT_TRY(launch_noted(self, of->prepared, i, one->beside ? self->cuda.beside : self->cuda.stream, true, &work));
        if (one->beside && one->mark > 0) DT_CUDA_TRY(&self->cuda, cuEventRecord, self->marks[one->mark - 1], self->cuda.beside);
    }
    return NULL;
}

static dt_status *make_graph(dt_cuda_device *self, dt_cuda_prepared *prepared) {
    const dt_sequence *sequence = prepared->sequence;
    dt_status *status = dt_cuda_graph_make(&self->cuda, launch_all, &(capture){self, prepared}, &prepared->graph);
    status = dt_cuda_say_memory(&self->cuda, status, sequence->n_operations, "operations of a graph");
    return dt_status_annotate(status, "%s", sequence->name);
}

static dt_status *make_noted_events(dt_cuda_device *self, dt_cuda_prepared *prepared) {
    size_t n = 2 * prepared->sequence->n_operations;
    if (!self->head.is_timed) return NULL;
    prepared->events = dt_allocate_zeroed(n, sizeof *prepared->events);
    if (prepared->events == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %zu events", n);
    for (size_t e = 0; e < n; e++) DT_CUDA_TRY(&self->cuda, cuEventCreate, &prepared->events[e], 0);
    return NULL;
}

/* Events for as many marks as a sequence has. */
static dt_status *make_marks(dt_cuda_device *self, dt_sequence *const *sequences, size_t n) {
    int n_marks = 0;
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sequences[s]->n_operations; i++)
            if (sequences[s]->operations[i].mark > n_marks) n_marks = sequences[s]->operations[i].mark;
    if (n_marks == 0) return NULL;
    self->marks = dt_allocate_zeroed((size_t)n_marks, sizeof *self->marks);
    if (self->marks == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %d events", n_marks);
    for (; self->n_marks < n_marks; self->n_marks++)
        DT_CUDA_TRY(&self->cuda, cuEventCreate, &self->marks[self->n_marks], DT_CUDA_EVENT_DISABLE_TIMING);
    return NULL;
}

static size_t n_reductions(const dt_sequence *sequence) {
    size_t n = 0;
    for (size_t i = 0; i < sequence->n_operations; i++) n += sequence->operations[i].kind == DT_OPERATION_REDUCE;
    return n;
}

dt_status *dt_cuda_prepare(dt_device *device, dt_sequence *const *sequences, size_t n) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    size_t work = 0;
    DT_TRY(dt_cuda_device_enter(self));
    self->prepared = dt_allocate_zeroed(n, sizeof *self->prepared);
    if (self->prepared == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %zu graphs", n);
    DT_TRY(upload_tables(self, (const dt_sequence *const *)sequences, n));
    DT_TRY(make_workspace(self, (const dt_sequence *const *)sequences, n));
    DT_TRY(make_numbers(self));
    DT_CUDA_TRY(&self->cuda, cuEventCreate, &self->branches, DT_CUDA_EVENT_DISABLE_TIMING);
    DT_TRY(make_marks(self, sequences, n));
    for (size_t s = 0; s < n; s++) {
        DT_TRY(warm_libraries(self, sequences[s]));
        DT_TRY(warm_link(self, sequences[s]));
    }
    DT_TRY(dt_cuda_device_wait(self));
    for (size_t s = 0; s < n; s++) {
        self->prepared[s] = (dt_cuda_prepared){.sequence = sequences[s], .first_work = work};
        sequences[s]->prepared = &self->prepared[s];
        self->n_prepared = s + 1;
        work += n_reductions(sequences[s]);
        DT_TRY(make_noted_events(self, &self->prepared[s]));
        DT_TRY(make_graph(self, &self->prepared[s]));
    }
    return NULL;
}

void dt_cuda_release_sequences(dt_cuda_device *self) {
    for (size_t s = 0; s < self->n_prepared; s++) {
        dt_cuda_prepared *one = &self->prepared[s];
        if (!self->hangs) dt_cuda_graph_free(&self->cuda, one->graph);
        for (size_t e = 0; e < 2 * one->sequence->n_operations && one->events != NULL && !self->hangs; e++)
            if (one->events[e] != NULL) self->cuda.driver.cuEventDestroy_v2(one->events[e]);
        dt_release(one->events);
    }
    if (self->clock != NULL && !self->hangs) self->cuda.driver.cuEventDestroy_v2(self->clock);
    if (self->branches != NULL && !self->hangs) self->cuda.driver.cuEventDestroy_v2(self->branches);
    for (size_t e = 0; e < self->n_events && !self->hangs; e++) self->cuda.driver.cuEventDestroy_v2(self->events[e]);
    for (int m = 0; m < self->n_marks && !self->hangs; m++) self->cuda.driver.cuEventDestroy_v2(self->marks[m]);
    dt_cuda_tables_free(&self->tables);
    dt_release(self->prepared);
    dt_release(self->events);
    dt_release(self->marks);
    self->n_prepared = self->n_events = 0;
    self->n_marks = 0;
    self->prepared = NULL;
    self->events = self->marks = NULL;
    self->branches = self->clock = NULL;
}

/* ---- running ---- */

static dt_status *run_checked(dt_cuda_device *self, const dt_sequence *sequence, double *seconds) {
    const dt_cuda_prepared *prepared = sequence->prepared;
    size_t work = prepared->first_work;
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        double began = dt_seconds_now();
        DT_TRY(launch_noted(self, prepared, i, self->cuda.stream, false, &work));
        DT_TRY(say_which(self, one, dt_cuda_device_wait(self)));
        if (seconds != NULL) seconds[i] = dt_seconds_now() - began;
    }
    return NULL;
}

dt_status *dt_cuda_enqueue(dt_device *device, const dt_sequence *sequence) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    const dt_cuda_prepared *prepared = sequence->prepared;
    DT_TRY(dt_cuda_device_enter(self));
    self->last = sequence;
    if (self->checks) return run_checked(self, sequence, NULL);
    DT_CUDA_TRY(&self->cuda, cuGraphLaunch, prepared->graph, self->cuda.stream);
    return NULL;
}

/* ---- measuring ---- */

static dt_status *make_events(dt_cuda_device *self, size_t n) {
    if (n <= self->n_events) return NULL;
    void **events = dt_reallocate(self->events, n * sizeof *events);
    if (events == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %zu events", n);
    self->events = events;
    for (; self->n_events < n; self->n_events++) DT_CUDA_TRY(&self->cuda, cuEventCreate, &self->events[self->n_events], 0);
    return NULL;
}

/* Each operation between two events. */
dt_status *dt_cuda_measure(dt_device *device, const dt_sequence *sequence, double *seconds) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    const dt_cuda *cuda = &self->cuda;
    size_t work = ((const dt_cuda_prepared *)sequence->prepared)->first_work, n = sequence->n_operations;
    DT_TRY(dt_cuda_device_enter(self));
    self->last = sequence;
    if (self->checks) return run_checked(self, sequence, seconds);
    DT_TRY(make_events(self, n + 1));
    for (size_t i = 0; i < n; i++) {
        DT_CUDA_TRY(cuda, cuEventRecord, self->events[i], cuda->stream);
        DT_TRY(launch(self, &sequence->operations[i], cuda->stream, &work));
    }
    DT_CUDA_TRY(cuda, cuEventRecord, self->events[n], cuda->stream);
    DT_TRY(dt_cuda_device_wait(self));
    for (size_t i = 0; i < n; i++) {
        float milliseconds = 0;
        DT_CUDA_TRY(cuda, cuEventElapsedTime, &milliseconds, self->events[i], self->events[i + 1]);
        seconds[i] = milliseconds * 1e-3;
    }
    return NULL;
}

/* ---- the clock ---- */

static const double EXACT_SECONDS = 50e-6; /* of a reading, at most, if it can be had */
enum {
    ATTEMPTS = 5, /* at that */
    LOOKS = 1000  /* whether the event has come, without giving others the core */
};

/* The GPU's own clock tells times between events alone. One that comes at once, for nothing else is there, is at a time that the host knows. */
dt_status *dt_cuda_start_clock(dt_device *device) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    DT_TRY(dt_cuda_device_enter(self));
    if (self->clock == NULL) DT_CUDA_TRY(&self->cuda, cuEventCreate, &self->clock, 0);
    double took = INFINITY;
    for (int attempt = 0; attempt < ATTEMPTS && took > EXACT_SECONDS; attempt++) { /* this thread may have been stopped on the way */
        double before = dt_seconds_now();
        DT_CUDA_TRY(&self->cuda, cuEventRecord, self->clock, self->cuda.stream);
        for (int look = 0; look < LOOKS && self->cuda.driver.cuStreamQuery(self->cuda.stream) == DT_CUDA_NOT_READY;) look++;
        took = dt_seconds_now() - before;
        self->clock_time = before + took / 2;
        DT_TRY(dt_cuda_device_wait(self));
    }
    return NULL;
}

static dt_status *read_time(const dt_cuda_device *self, void *event, double *seconds) {
    float milliseconds;
    DT_CUDA_TRY(&self->cuda, cuEventElapsedTime, &milliseconds, self->clock, event);
    *seconds = self->clock_time + milliseconds * 1e-3;
    return NULL;
}

dt_status *dt_cuda_read_clock(dt_device *device, const dt_sequence *sequence, double *began, double *ended) {
    dt_cuda_device *self = dt_cuda_device_of(device);
    const dt_cuda_prepared *prepared = sequence->prepared;
    DT_TRY(dt_cuda_device_enter(self));
    for (size_t i = 0; i < sequence->n_operations; i++) {
        DT_TRY(read_time(self, prepared->events[2 * i], &began[i]));
        DT_TRY(read_time(self, prepared->events[2 * i + 1], &ended[i]));
    }
    return NULL;
}
