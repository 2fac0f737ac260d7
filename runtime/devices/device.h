/* device: what runs operations: memory, a queue, events. An implementation is a folder and a line in registry.c.
 *
 * A device knows operations (operation.h) and nothing of training. What it is given with `enqueue` it runs in order, at once or later: its effect is
 * there after `synchronize`, or for another device after it has waited for an event that was signalled behind it. One thread drives a device at a
 * time. Kernels read the memory of their own device, that of all devices of a kind that shares memory, and that of devices which were connected. */
#ifndef DT_RUNTIME_DEVICES_DEVICE_H
#define DT_RUNTIME_DEVICES_DEVICE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/artifact/kernels.h"
#include "runtime/devices/link.h"
#include "runtime/devices/operation.h"
#include "runtime/devices/peak.h"
#include "runtime/threads/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_DEVICE_ID_BYTES = 16
};

typedef struct dt_device dt_device;
typedef struct dt_device_event dt_device_event; /* the device's own: a point in its queue */

typedef struct dt_device_kind {
    const char *name;                /* "cpu": what --devices calls it */
    const char *about;               /* one line for `dtrun devices` */
    bool is_gpu;                     /* named by a number of its own; runs the artifact's plans for GPUs */
    bool shares_memory;              /* what one device of this kind allocates, all of the process read and write: they hold the variables together */
    bool reads_host;                 /* its memory is the host's: it runs functions of the host, and reads inputs where they are */
    int (*n_cores)(void);            /* that its devices may share out; NULL: a device of this kind is not made of cores */
    dt_status *(*n_present)(int *n); /* how many there are, of those with numbers of their own; NULL: as many as are asked for */

    /* Device `number` of the `n` that a session opens: where devices are made of cores, one for each core. A GPU: the machine's GPU of that number.
     */
    dt_status *(*open)(int number, int n, dt_device **device);
    void (*close)(dt_device *device);
    void (*enter)(dt_device *device);                          /* called once by a thread that will only drive this device */
    dt_status *(*connect)(dt_device *device, dt_device *peer); /* from now on its operations reach the memory of `peer`. NULL: they always do */

    /* Devices of other processes. NULL, both, for a kind that has no link. Which GPU it is, among all of all machines; its context is this thread's
     * afterwards, as a link's library wants it. */
    dt_status *(*identify)(dt_device *device, uint8_t id[DT_DEVICE_ID_BYTES]);
    void (*attach)(dt_device *device, dt_link *link); /* from now on it runs TRANSFER, and owns the link */

    /* Code. NULL for a device that runs functions of the host: the kernels' entries are all it needs. */
    dt_status *(*load)(dt_device *device, const dt_artifact *artifact, bool use_libraries, dt_arena *arena);
    const char *(*level)(const dt_device *device); /* of the code that is loaded: "sm_90" */

    /* Memory. Bytes that are free now, shared by all devices of a kind that shares memory; INT64_MAX where there is no limit. */
    int64_t (*free_bytes)(const dt_device *device);
    size_t granularity; /* what an allocation takes is a multiple of so many bytes, and so aligned; 0: aligned to 64 */
    /* Said before the first allocation, in bytes, all together as they are taken: then they are parts of one. NULL: it makes no difference. */
    dt_status *(*reserve)(dt_device *device, size_t bytes);
    dt_status *(*allocate)(dt_device *device, size_t bytes, void **memory); /* zeroed; `bytes` >= 1 */
    void (*release)(dt_device *device, void *memory, size_t bytes);         /* what allocate gave, with its bytes; NULL is allowed */
    dt_status *(*write)(dt_device *device, void *memory, const void *host, size_t bytes);
    dt_status *(*read)(dt_device *device, void *host, const void *memory, size_t bytes);
    /* The host's memory that COPY, READ_BACK and copy_ahead name, zeroed. NULL for a device that reads the host's memory anyway. */
    dt_status *(*allocate_host)(dt_device *device, size_t bytes, void **memory);
    void (*release_host)(dt_device *device, void *memory); /* NULL is allowed */

    /* Operations. What preparing these sequences will allocate, as it is taken: known before there are addresses. NULL: nothing. */
    int64_t (*prepare_bytes)(const dt_device *device, const dt_sequence *const *sequences, size_t n);
    /* Makes all sequences that the device will run ready, once: in a step nothing is allocated. What it makes is undone by close. */
    dt_status *(*prepare)(dt_device *device, dt_sequence *const *sequences, size_t n);
    dt_status *(*enqueue)(dt_device *device, const dt_sequence *sequence);
    /* The same one by one, each waited for: seconds [n_operations]. Returns when it is done. */
    dt_status *(*measure)(dt_device *device, const dt_sequence *sequence, double *seconds);

    /* Order. NULL, all of them, for a device that has done what it was given when `enqueue` returns. */
    dt_status *(*create_event)(dt_device *device, dt_device_event **event);
    void (*destroy_event)(dt_device *device, dt_device_event *event);
    dt_status *(*signal)(dt_device *device, dt_device_event *event); /* behind all that was enqueued before */
    dt_status *(*wait)(dt_device *device, dt_device_event *event);   /* what is enqueued from now on waits; the event may be another device's */
    /* Copies from the host's memory beside what is enqueued, and signals the event when that is done. */
    dt_status *(*copy_ahead)(dt_device *device, void *target, const void *source, size_t bytes, dt_device_event *event);
    /* Of a device that is timed. start_clock: nothing is enqueued. Then, when all that has been enqueued since is done, once of each sequence: when
     * its operations began and ended, by dt_seconds_now [n_operations]. */
    dt_status *(*start_clock)(dt_device *device);
    dt_status *(*read_clock)(dt_device *device, const dt_sequence *sequence, double *began, double *ended);
    dt_status *(*query)(dt_device *device, bool *done); /* whether all that was enqueued is done; what went wrong on the way */
    /* What it runs now waits for devices of other processes. NULL: it never does. */
    bool (*waits)(const dt_device *device);
    /* It took too long: the error, with what was enqueued last. The device can then only be closed. */
    dt_status *(*give_up)(dt_device *device);

    dt_status *(*measure_peak)(dt_device *device, const char *level, dt_peak *peak); /* what it can do at most, when nothing runs */
    /* What of its work is done by which library, in lines; with `each`, how each call is. NULL: none is used. */
    void (*print_libraries)(const dt_device *device, bool each, dt_text *text);
    /* All that bits depend on beside the program, in lines: devices that print the same compute the same. Once it is prepared. NULL: nothing
     * is to be compared. */
    void (*print_identity)(const dt_device *device, dt_text *text);
} dt_device_kind;

struct dt_device { /* the head of every implementation's own struct */
    const dt_device_kind *kind;
    char name[32];           /* "cpu:0" */
    double deadline_seconds; /* for what is waited for; ten minutes unless somebody says another */
    bool is_timed;           /* said before `prepare`: what is enqueued notes when it ran, at the cost of time. Of a device that works ahead */
    dt_progress *progress;   /* counts operations where that says that the device gets on; NULL: nobody asks */
};

extern const dt_device_kind dt_device_cpu, dt_device_null, dt_device_cuda;

/* All kinds, ended by NULL. */
extern const dt_device_kind *const dt_device_kinds[];

static inline dt_status *dt_device_open(const dt_device_kind *kind, int number, int n, dt_device **device) {
    DT_TRY(kind->open(number, n, device));
    (*device)->deadline_seconds = 600;
    return NULL;
}
static inline void dt_device_close(dt_device *device) {
    if (device != NULL) device->kind->close(device);
}
static inline void dt_device_enter(dt_device *device) { device->kind->enter(device); }
static inline dt_status *dt_device_connect(dt_device *device, dt_device *peer) {
    return device->kind->connect != NULL ? device->kind->connect(device, peer) : NULL;
}

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

static inline int64_t dt_device_prepare_bytes(const dt_device *device, const dt_sequence *const *sequences, size_t n) {
    return device->kind->prepare_bytes != NULL ? device->kind->prepare_bytes(device, sequences, n) : 0;
}
static inline dt_status *dt_device_prepare(dt_device *device, dt_sequence *const *sequences, size_t n) {
    return device->kind->prepare(device, sequences, n);
}
static inline dt_status *dt_device_enqueue(dt_device *device, const dt_sequence *sequence) { return device->kind->enqueue(device, sequence); }
static inline dt_status *dt_device_measure(dt_device *device, const dt_sequence *sequence, double *seconds) {
    return device->kind->measure(device, sequence, seconds);
}

static inline dt_status *dt_device_create_event(dt_device *device, dt_device_event **event) {
    *event = NULL;
    return device->kind->create_event != NULL ? device->kind->create_event(device, event) : NULL;
}
static inline void dt_device_destroy_event(dt_device *device, dt_device_event *event) {
    if (event != NULL) device->kind->destroy_event(device, event);
}
static inline dt_status *dt_device_signal(dt_device *device, dt_device_event *event) {
    return device->kind->signal != NULL ? device->kind->signal(device, event) : NULL;
}
static inline dt_status *dt_device_wait(dt_device *device, dt_device_event *event) {
    return device->kind->wait != NULL ? device->kind->wait(device, event) : NULL;
}
/* Waits for all that was enqueued, until the device's deadline: DT_ABORTED, with what was enqueued last. Then it can only be closed. */
dt_status *dt_device_synchronize(dt_device *device);

enum {
    DT_MOST_AHEAD = 64 /* devices of a process that work ahead */
};
/* The same for several, which may be waiting for one another: once one has failed, the others are not waited for long. The first failure; *which:
 * whose it is. */
dt_status *dt_devices_synchronize(dt_device *const *devices, int n, dt_device **which);

#endif
