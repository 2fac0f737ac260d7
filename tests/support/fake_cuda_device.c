/* fake_cuda_device: the GPUs that the fake driver pretends, and their contexts. A context is the primary one of its GPU, retained and released; what
 * a thread does needs it to have been made current there. */
#include "tests/support/fake_cuda.h"

#include <string.h>

static fake_context *contexts[FAKE_MOST_DEVICES];
static int lost[FAKE_MOST_DEVICES]; /* errors */
static FAKE_THREAD_LOCAL fake_context *current;

fake_context *fake_current(void) { return current != NULL && current->object.is_live ? current : NULL; }

bool fake_can_access(const fake_context *context, const fake_context *memory_of) {
    return context == memory_of || context->has_access[memory_of->device];
}

int fake_lost_error(const fake_context *context) { return lost[context->device]; }

void fake_set_lost(int device, int error) {
    if (lost[device] == 0) lost[device] = error;
    fake_drop_work(device);
}

int cuInit(unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_NOTHING);
    if (error == 0 && flags != 0) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0 && fake.count == 0) error = FAKE_ERROR_NO_DEVICE;
    return fake_end(error, "%u", flags);
}

int cuDriverGetVersion(int *version) {
    int error = fake_begin(__func__, FAKE_NEEDS_NOTHING);
    if (error == 0) *version = fake.driver_version;
    return fake_end(error, "%d", fake.driver_version);
}

int cuDeviceGetCount(int *count) {
    int error = fake_begin(__func__, FAKE_NEEDS_START);
    if (error == 0) *count = fake.count;
    return fake_end(error, "%d", fake.count);
}

static int check_device(int device) { return device >= 0 && device < fake.count ? 0 : FAKE_ERROR_INVALID_DEVICE; }

int cuDeviceGet(int *device, int number) {
    int error = fake_begin_on(number, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(number);
    if (error == 0) *device = number;
    return fake_end(error, "%d", number);
}

int cuDeviceGetName(char *name, int n_bytes, int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) snprintf(name, (size_t)n_bytes, "%s", fake.name);
    return fake_end(error, "%d", device);
}

/* All processes of a test are on one machine: a GPU is its number. */
int cuDeviceGetUuid_v2(void *id, int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) memset(id, 1 + device, 16);
    return fake_end(error, "%d", device);
}

/* The driver's numbers, with what an H100 says. -1: not known here. */
static int attribute(int which) {
    static const struct {
        int which, value;
    } all[] = {
        {1, 1024},      /* threads of a block */
        {8, 49152},     /* shared memory of a block, in bytes */
        {10, 32},       /* threads of a warp */
        {12, 65536},    /* registers of a block */
        {13, 1980000},  /* clock, kHz */
        {36, 2619000},  /* clock of the memory, kHz */
        {37, 5120},     /* width of its bus, bits */
        {38, 52428800}, /* second-level cache, bytes */
        {39, 2048},     /* threads of a multiprocessor */
        {40, 3},        /* copies that run beside kernels */
        {41, 1},        /* one space of addresses with the host */
        {81, 233472},   /* shared memory of a multiprocessor */
        {82, 65536},    /* registers of a multiprocessor */
        {97, 232448},   /* shared memory of a block that asks for more */
        {106, 32},      /* blocks of a multiprocessor */
    };
    if (which == 16) return fake.multiprocessors;
    if (which == 75) return fake.major;
    if (which == 76) return fake.minor;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].which == which) return all[i].value;
    return -1;
}

int cuDeviceGetAttribute(int *value, int which, int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) {
        *value = attribute(which);
        if (*value < 0) error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "attribute %d of a GPU is not known to the fake", which);
    }
    return fake_end(error, "%d of %d", which, device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) *bytes = fake.memory_bytes[device];
    return fake_end(error, "%d", device);
}

int cuDevicePrimaryCtxRetain(void **handle, int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) {
        if (contexts[device] == NULL) {
            contexts[device] = fake_new(FAKE_CONTEXT, sizeof *contexts[device]);
            contexts[device]->device = device;
        }
        contexts[device]->n_users++;
        *handle = contexts[device];
    }
    return fake_end(error, "device %d", device);
}

/* What the context still holds is not given back by this, so that it is found at exit; queued work is run, as the driver does. */
int cuDevicePrimaryCtxRelease_v2(int device) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (check_device(device) != 0 || contexts[device] == NULL) {
        error = fake_misuse(FAKE_ERROR_INVALID_CONTEXT, "a context is released that was not retained");
    } else if (--contexts[device]->n_users == 0) {
        fake_await((fake_goal){.context = contexts[device]});
        contexts[device]->object.is_live = false;
        contexts[device] = NULL;
        for (int other = 0; other < fake.count; other++)
            if (contexts[other] != NULL) contexts[other]->has_access[device] = false;
    }
    return fake_end(error, "device %d", device);
}

int cuCtxSetCurrent(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_START);
    fake_context *c = NULL;
    if (error == 0 && handle != NULL) {
        c = fake_object_of(FAKE_CONTEXT, handle);
        if (c == NULL) error = FAKE_ERROR_INVALID_CONTEXT;
    }
    if (error == 0) current = c;
    return fake_end(error, "context %d", fake_number(handle));
}

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    int error = fake_begin_on(device, __func__, FAKE_NEEDS_START);
    if (error == 0) error = check_device(device);
    if (error == 0) error = check_device(peer);
    if (error == 0) *can = fake.has_peers && device != peer;
    return fake_end(error, "device %d to device %d", device, peer);
}

int cuCtxEnablePeerAccess(void *handle, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_context *here = fake_current(), *peer = error == 0 ? fake_object_of(FAKE_CONTEXT, handle) : NULL;
    if (error == 0 && (peer == NULL || peer == here)) error = FAKE_ERROR_INVALID_CONTEXT;
    if (error == 0 && flags != 0) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0 && !fake.has_peers) error = FAKE_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (error == 0 && here->has_access[peer->device]) error = FAKE_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (error == 0) here->has_access[peer->device] = true;
    return fake_end(error, "to context %d", fake_number(handle));
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    size_t used = 0, all = 0;
    if (error == 0) {
        used = fake_used_bytes(fake_current());
        *total_bytes = all = fake.memory_bytes[fake_current()->device];
        *free_bytes = used < all ? all - used : 0;
    }
    return fake_end(error, "%zu used of %zu", used, all);
}
