/* fake_cuda_calls: what every call of the fake driver begins and ends with: numbers, failures, the log, errors, what is left at exit. */
#include "tests/support/fake_cuda.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

fake_settings fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static bool has_started;
static bool context_failed; /* a thread may lack its context because the test wanted so */
static int n_calls, n_misuses;
static uint64_t random_state;

/* The call under way in this thread. */
static FAKE_THREAD_LOCAL struct {
    const char *name;
    int number;
    fake_fault fault;
} now;

typedef struct named_count {
    const char *name;
    int n, n_of[FAKE_MOST_DEVICES];
} named_count;

static named_count counts[128];

/* ---- settings ---- */

static long long setting(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoll(text, NULL, 10) : otherwise;
}

/* A number for each GPU, with commas between; the last is for all that follow. */
static void read_memory(void) {
    const char *at = getenv("FAKE_CUDA_MEMORY");
    size_t bytes = (size_t)1 << 30;
    for (int device = 0; device < FAKE_MOST_DEVICES; device++) {
        if (at != NULL && *at != 0) {
            bytes = (size_t)strtoull(at, NULL, 10);
            at += strcspn(at, ",");
            at += *at == ',';
        }
        fake.memory_bytes[device] = bytes;
    }
}

void fake_read_settings(void) {
    const char *waits = getenv("FAKE_CUDA_IGNORE_WAITS");
    const char *name = getenv("FAKE_CUDA_NAME"), *capability = getenv("FAKE_CUDA_CAPABILITY"), *path = getenv("FAKE_CUDA_LOG");
    snprintf(fake.name, sizeof fake.name, "%s", name != NULL ? name : "Fake GPU");
    fake.count = (int)setting("FAKE_CUDA_COUNT", 1);
    if (fake.count > FAKE_MOST_DEVICES) fake.count = FAKE_MOST_DEVICES;
    fake.multiprocessors = (int)setting("FAKE_CUDA_MULTIPROCESSORS", 2);
    fake.driver_version = (int)setting("FAKE_CUDA_DRIVER", 13000);
    read_memory();
    fake.has_peers = setting("FAKE_CUDA_PEERS", 1) != 0;
    fake.patience_seconds = (int)setting("FAKE_CUDA_PATIENCE", 20);
    fake.delay_milliseconds = (int)setting("FAKE_CUDA_DELAY", 0);
    fake.seed = random_state = (uint64_t)setting("FAKE_CUDA_SEED", 0);
    fake.ignores_peers = waits != NULL && strcmp(waits, "peers") == 0;
    fake.ignores_waits = !fake.ignores_peers && setting("FAKE_CUDA_IGNORE_WAITS", 0) != 0;
    fake.kernels = getenv("FAKE_CUDA_KERNELS");
    fake.failing = getenv("FAKE_CUDA_FAIL");
    fake.failing_late = getenv("FAKE_CUDA_FAIL_LATE");
    fake.hanging = getenv("FAKE_CUDA_HANG");
    if (capability == NULL || sscanf(capability, "%d.%d", &fake.major, &fake.minor) != 2) fake.major = 9, fake.minor = 0;
    if (log_file == NULL && path != NULL && *path != 0) {
        char own[PATH_MAX];
        size_t n = strlen(path) - 1; /* of all but the last */
        snprintf(own, sizeof own, path[n] == '%' ? "%.*s%d" : "%.*s%c", (int)n, path, path[n] == '%' ? (int)getpid() : path[n]);
        log_file = fopen(own, "w");
    }
}

unsigned fake_random(unsigned n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* ---- errors ---- */

static const char *error_name(int error) {
    switch (error) {
#define X(number, name, text)                                                                                                                        \
    case number: return "CUDA_" #name;
        FAKE_ERRORS(X)
#undef X
    default: return NULL;
    }
}

static const char *error_text(int error) {
    switch (error) {
#define X(number, name, text)                                                                                                                        \
    case number: return text;
        FAKE_ERRORS(X)
#undef X
    default: return NULL;
    }
}

int cuGetErrorName(int error, const char **name) {
    *name = error_name(error);
    return *name != NULL ? 0 : FAKE_ERROR_INVALID_VALUE;
}

int cuGetErrorString(int error, const char **text) {
    *text = error_text(error);
    return *text != NULL ? 0 : FAKE_ERROR_INVALID_VALUE;
}

static void say(const char *format, va_list list) {
    char text[400];
    vsnprintf(text, sizeof text, format, list);
    fprintf(stderr, "fake driver, %s: %s\n", now.name != NULL ? now.name : "", text);
    fake_note("! %s", text);
}

int fake_misuse(int error, const char *format, ...) {
    va_list list;
    n_misuses++;
    va_start(list, format);
    say(format, list);
    va_end(list);
    return error;
}

void fake_lose(const fake_context *context, int error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    fake_set_lost(context->device, error);
}

void fake_give_up(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    fflush(NULL);
    _exit(FAKE_EXIT_CODE);
}

int fake_call_number(void) { return now.number; }
fake_fault fake_call_fault(void) { return now.fault; }

/* ---- a call ---- */

static const named_count *count(const char *call, int device) {
    size_t i = 0;
    while (i < sizeof counts / sizeof *counts - 1 && counts[i].name != NULL && strcmp(counts[i].name, call) != 0) i++;
    counts[i].name = call;
    counts[i].n++;
    if (device >= 0) counts[i].n_of[device]++;
    return &counts[i];
}

/* What a test's list, as "cuMemAlloc_v2@1:3=2,17=2", says of this call: the number behind "=", 1 where there is none; 0: nothing. */
static int wanted(const char *list, const named_count *call, int device) {
    for (const char *at = list; at != NULL && *at != 0;) {
        char name[80] = "";
        int of = 0, number = 0, value = 1;
        if (sscanf(at, "%79[A-Za-z0-9_]@%d:%d=%d", name, &of, &number, &value) >= 3) {
            if (strcmp(name, call->name) == 0 && of == device && number == call->n_of[of]) return value;
        } else if (sscanf(at, "%79[A-Za-z0-9_]:%d=%d", name, &number, &value) >= 2) {
            if (strcmp(name, call->name) == 0 && number == call->n) return value;
        } else if (sscanf(at, "%d=%d", &number, &value) == 2 && number == now.number) {
            return value;
        }
        at = strchr(at, ',');
        if (at != NULL) at++;
    }
    return 0;
}

/* Those after which the driver answers no call for the GPU any more. */
static bool loses_context(int error) {
    return error == FAKE_ERROR_ECC_UNCORRECTABLE || error == FAKE_ERROR_ILLEGAL_ADDRESS || (error >= 714 && error <= FAKE_ERROR_LAUNCH_FAILED);
}

int fake_begin_on(int device, const char *call, fake_need need) {
    pthread_mutex_lock(&lock);
    if (strcmp(call, "cuInit") == 0) {
        if (!has_started) {
            fake_read_settings();
            fake_watch_faults();
        }
        has_started = true;
    }
    const fake_context *context = fake_current();
    if (device == FAKE_THREADS_DEVICE && context != NULL) device = context->device;
    if (device >= FAKE_MOST_DEVICES) device = FAKE_THREADS_DEVICE;
    now.name = call;
    now.number = ++n_calls;
    const named_count *counted = count(call, device);
    now.fault = (fake_fault){.hangs = wanted(fake.hanging, counted, device) != 0, .error = wanted(fake.failing_late, counted, device)};
    int error = wanted(fake.failing, counted, device);
    if (error != 0) {
        if (strcmp(call, "cuCtxSetCurrent") == 0) context_failed = true;
        if (loses_context(error) && device >= 0) fake_set_lost(device, error);
        return error;
    }
    if (need >= FAKE_NEEDS_START && !has_started) return FAKE_ERROR_NOT_INITIALIZED;
    if (need == FAKE_NEEDS_CONTEXT) {
        if (context == NULL)
            return context_failed ? FAKE_ERROR_INVALID_CONTEXT : fake_misuse(FAKE_ERROR_INVALID_CONTEXT, "this thread has no context");
        if (fake_lost_error(context) != 0) return fake_lost_error(context);
        fake_wander();
        return fake_lost_error(context);
    }
    return 0;
}

int fake_begin(const char *call, fake_need need) { return fake_begin_on(FAKE_THREADS_DEVICE, call, need); }

int fake_end(int error, const char *format, ...) {
    if (log_file != NULL) {
        va_list list;
        fprintf(log_file, "%d %s ", now.number, now.name);
        va_start(list, format);
        vfprintf(log_file, format, list);
        va_end(list);
        if (error != 0) fprintf(log_file, " = %s", error_name(error) != NULL ? error_name(error) : "an error");
        fputc('\n', log_file);
        fflush(log_file);
    }
    now.name = NULL;
    pthread_mutex_unlock(&lock);
    return error;
}

void fake_pause(void) {
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_lock(&lock);
}

void fake_note(const char *format, ...) {
    if (log_file == NULL) return;
    va_list list;
    fputs("    ", log_file);
    va_start(list, format);
    vfprintf(log_file, format, list);
    va_end(list);
    fputc('\n', log_file);
}

/* ---- what a program holds ---- */

static struct kind {
    const char *name;
    fake_object *first;
    int n;
} kinds[FAKE_KINDS] = {
    [FAKE_DEVICE_MEMORY] = {"allocation on the device", NULL, 0},
    [FAKE_PINNED_MEMORY] = {"pinned allocation", NULL, 0},
    [FAKE_MODULE] = {"module", NULL, 0},
    [FAKE_FUNCTION] = {"function", NULL, 0},
    [FAKE_STREAM] = {"stream", NULL, 0},
    [FAKE_EVENT] = {"event", NULL, 0},
    [FAKE_GRAPH] = {"graph", NULL, 0},
    [FAKE_EXEC] = {"instantiated graph", NULL, 0},
    [FAKE_CONTEXT] = {"context", NULL, 0},
};

void *fake_zeroed(size_t n, size_t bytes) {
    void *memory = calloc(n > 0 ? n : 1, bytes);
    if (memory == NULL) {
        fputs("fake driver: memory is out\n", stderr);
        _exit(FAKE_EXIT_CODE);
    }
    return memory;
}

void *fake_new(fake_kind kind, size_t bytes) {
    fake_object *object = fake_zeroed(1, bytes);
    *object = (fake_object){.kind = kind, .number = ++kinds[kind].n, .is_live = true, .context = fake_current(), .next = kinds[kind].first};
    kinds[kind].first = object;
    return object;
}

fake_object *fake_first(fake_kind kind) { return kinds[kind].first; }

static fake_object *find(const void *handle) {
    for (int kind = 0; kind < FAKE_KINDS; kind++)
        for (fake_object *o = kinds[kind].first; o != NULL; o = o->next)
            if (o == handle) return o;
    return NULL;
}

int fake_number(const void *handle) {
    const fake_object *object = find(handle);
    return object != NULL ? object->number : 0;
}

void *fake_object_of(fake_kind kind, const void *handle) {
    fake_object *object = find(handle);
    if (object == NULL)
        fake_misuse(0, "a handle that is none of the driver's, where a %s is due", kinds[kind].name);
    else if (object->kind != kind)
        fake_misuse(0, "%s %d where a %s is due", kinds[object->kind].name, object->number, kinds[kind].name);
    else if (!object->is_live)
        fake_misuse(0, "%s %d is used after it was given back", kinds[kind].name, object->number);
    else
        return object;
    return NULL;
}

void *fake_object_here(fake_kind kind, const void *handle) {
    fake_object *object = fake_object_of(kind, handle);
    const fake_context *here = fake_current();
    if (object == NULL || here == NULL || object->context == here) return object;
    fake_misuse(0, "%s %d is GPU %d's, and the thread's context is GPU %d's", kinds[kind].name, object->number, object->context->device,
                here->device);
    return NULL;
}

/* ---- the end of the process ---- */

__attribute__((destructor)) static void report(void) {
    int n_left = 0;
    for (int kind = 0; kind < FAKE_KINDS && !fake_something_hangs(); kind++)
        for (const fake_object *o = kinds[kind].first; o != NULL; o = o->next) {
            if (!o->is_live || kind == FAKE_FUNCTION) continue;
            fprintf(stderr, "fake driver: %s %d was never given back\n", kinds[kind].name, o->number);
            fake_note("! %s %d was never given back", kinds[kind].name, o->number);
            n_left++;
        }
    if (n_misuses > 0) fprintf(stderr, "fake driver: misused %d times\n", n_misuses);
    if (log_file != NULL) fclose(log_file);
    if (n_left + n_misuses == 0) return;
    fflush(NULL);
    _exit(FAKE_EXIT_CODE);
}
