/* fake_process: what the tests of the fake driver share: a case is a process of its own, whose end is looked at, and kernels are emulated. */
#ifndef DT_TESTS_SUPPORT_FAKE_PROCESS_H
#define DT_TESTS_SUPPORT_FAKE_PROCESS_H

#include "runtime/devices/cuda/driver.h"
#include "tests/support/fake_cuda_library.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    N = 64, /* numbers in each buffer, and threads of the one block */
    BYTES = N * sizeof(int),
    SEEDS = 12,
    LEFT_BEHIND = 86 /* the exit code of a process that misused the driver, or holds something at its end */
};

static char library[400], kernels[64];

static const char text[] = "extern \"C\" __global__ void add_one(const int *in, int *out) { out[threadIdx.x] = in[threadIdx.x] + 1; }\n"
                           "extern \"C\" __global__ void fill(int *out, int value, long long times) { out[threadIdx.x] = value * (int)times; }\n"
                           "extern \"C\" __global__ void in_front(int *out) { out[(int)threadIdx.x - 1] = 5; }\n"
                           "extern \"C\" __global__ void behind(int *out) { out[threadIdx.x + 1] = 5; }\n"
                           "extern \"C\" __global__ void far_off(int *out) { out[threadIdx.x + 1000000] = 5; }\n"
                           "extern \"C\" __global__ void diverge(int *out) { if (threadIdx.x < 3) __syncthreads(); }\n"
                           "extern \"C\" __global__ void follow(int **out) { (*out)[threadIdx.x] = 5; }\n";

#define PTX(version, target)                                                                                                                         \
    ".version " version "\n.target " target                                                                                                          \
    "\n.address_size 64\n.visible .entry add_one(\n.visible .entry fill(\n.visible .entry in_front(\n.visible .entry behind(\n"                      \
    ".visible .entry far_off(\n.visible .entry diverge(\n.visible .entry follow(\n.visible .entry only_here(\n"

/* ---- a process ---- */

/* A GPU, and what a case has on it. */
typedef struct world {
    dt_cuda_driver driver;
    int number;
    void *context, *module, *streams[2], *events[2];
    uint64_t device[3];
    int *pinned[2];
    int *results; /* seen by the parent */
} world;

typedef struct outcome {
    int code; /* -signal, if it was killed */
    char said[2000];
    int *results; /* [4 N] */
} outcome;

#define GOOD(w, call, ...) must_be(#call, 0, (w)->driver.call(__VA_ARGS__))
#define FAILS(w, error, call, ...) must_be(#call, error, (w)->driver.call(__VA_ARGS__))

static inline void must_be(const char *call, int wanted, int error) {
    if (error == wanted) return;
    fprintf(stderr, "%s returned %d, not %d\n", call, error, wanted);
    _exit(1);
}

/* Makes the GPU current, and puts on it what a case needs. */
static inline void open_gpu(world *w) {
    int device;
    GOOD(w, cuDeviceGet, &device, w->number);
    GOOD(w, cuDevicePrimaryCtxRetain, &w->context, device);
    GOOD(w, cuCtxSetCurrent, w->context);
    GOOD(w, cuModuleLoadDataEx, &w->module, PTX("8.0", "sm_90"), 0, NULL, NULL);
    for (int i = 0; i < 2; i++) GOOD(w, cuStreamCreate, &w->streams[i], 1);
    for (int i = 0; i < 2; i++) GOOD(w, cuEventCreate, &w->events[i], 0);
    for (int i = 0; i < 3; i++) GOOD(w, cuMemAlloc_v2, &w->device[i], BYTES);
    for (int i = 0; i < 2; i++) GOOD(w, cuMemAllocHost_v2, (void **)&w->pinned[i], BYTES);
    for (int i = 0; i < N; i++) w->pinned[0][i] = i;
}

static inline void begin(world *w) {
    memset(&w->driver, 0, sizeof w->driver);
    void *fake = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (fake == NULL) _exit(2);
    dt_status *status = dt_cuda_driver_start(&w->driver, fake, dlsym);
    if (status != NULL) {
        fprintf(stderr, "%s\n", dt_status_message(status));
        _exit(1);
    }
    open_gpu(w);
}

/* Gives back what is on the GPU, which must be current. */
static inline void end(world *w) {
    for (int i = 0; i < 2; i++) w->driver.cuMemFreeHost(w->pinned[i]);
    for (int i = 0; i < 3; i++) w->driver.cuMemFree_v2(w->device[i]);
    for (int i = 0; i < 2; i++) w->driver.cuEventDestroy_v2(w->events[i]);
    for (int i = 0; i < 2; i++) w->driver.cuStreamDestroy_v2(w->streams[i]);
    w->driver.cuModuleUnload(w->module);
    w->driver.cuDevicePrimaryCtxRelease_v2(w->number);
}

/* Runs `scenario` between begin and end in a process of its own, with one more setting, if `name` is not NULL. */
static inline outcome run(void (*scenario)(world *), int seed, const char *name, const char *value) {
    outcome o = {0};
    int pipes[2], state;
    char number[20];
    o.results = mmap(NULL, 4 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(o.results != MAP_FAILED && pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        world w = {.results = o.results};
        signal(SIGSEGV, SIG_DFL); /* cmocka has one of its own */
        dup2(pipes[1], 2);
        snprintf(number, sizeof number, "%d", seed);
        setenv("FAKE_CUDA_SEED", number, 1);
        setenv("FAKE_CUDA_KERNELS", kernels, 1);
        if (name != NULL) setenv(name, value, 1);
        begin(&w);
        scenario(&w);
        end(&w);
        exit(0);
    }
    close(pipes[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof o.said - 1; n += (size_t)got) {
        got = read(pipes[0], o.said + n, sizeof o.said - 1 - n);
        if (got < 0) break;
    }
    close(pipes[0]);
    waitpid(child, &state, 0);
    o.code = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
    return o;
}

static inline void assert_outcome(outcome o, int code, const char *says) {
    if (o.code != code || strstr(o.said, says) == NULL) fail_msg("ended with %d, wanted %d; said \"%s\", wanted \"%s\"", o.code, code, o.said, says);
    munmap(o.results, 4 * BYTES);
}

static inline void assert_good(outcome o) {
    if (o.code != 0 || o.said[0] != 0) fail_msg("ended with %d: %s", o.code, o.said);
}

/* ---- pieces of scenarios ---- */

static inline void *function(world *w, const char *name) {
    void *f;
    GOOD(w, cuModuleGetFunction, &f, w->module, name);
    return f;
}

static inline int launch(world *w, const char *name, int stream, uint64_t a, uint64_t b) {
    return w->driver.cuLaunchKernel(function(w, name), 1, 1, 1, N, 1, 1, 0, w->streams[stream], (void *[]){&a, &b}, NULL);
}

static inline void add_one(world *w, int stream, int from, int to) {
    must_be("add_one", 0, launch(w, "add_one", stream, w->device[from], w->device[to]));
}
static inline void copy_in(world *w, int stream, int to) { GOOD(w, cuMemcpyHtoDAsync_v2, w->device[to], w->pinned[0], BYTES, w->streams[stream]); }
static inline void copy_out(world *w, int stream, int from) {
    GOOD(w, cuMemcpyDtoHAsync_v2, w->pinned[1], w->device[from], BYTES, w->streams[stream]);
}

static inline void take_results(world *w, int stream) {
    GOOD(w, cuStreamSynchronize, w->streams[stream]);
    memcpy(w->results, w->pinned[1], BYTES);
}

static inline bool results_are(outcome o, int first) {
    bool good = true;
    for (int i = 0; i < N; i++) good &= o.results[i] == i + first;
    munmap(o.results, 4 * BYTES);
    return good;
}

/* Adds two to the numbers of pinned[0]. */
static inline void one_stream(world *w) {
    copy_in(w, 0, 0), add_one(w, 0, 0, 1), add_one(w, 0, 1, 2), copy_out(w, 0, 2);
    take_results(w, 0);
}

/* ---- a second GPU ---- */

static inline void use(world *w) { GOOD(w, cuCtxSetCurrent, w->context); }

/* Beside the one that a case begins with, and current. */
static inline world second(world *w) {
    world other = {.driver = w->driver, .number = 1, .results = w->results + N};
    open_gpu(&other);
    return other;
}

static inline void end_second(world *w, world *other) {
    use(other), end(other);
    use(w);
}

/* ---- the kernels ---- */

static inline bool make_kernels(void) {
    char folder[] = "/tmp/dt-fake-XXXXXX", source[64], command[1200];
    const char *root = getenv("DT_SOURCE"), *build = getenv("DT_BUILD"), *python = getenv("DT_PYTHON");
    snprintf(library, sizeof library, "%s/tests/libfake_cuda.so", build != NULL ? build : "build");
    if (mkdtemp(folder) == NULL) abort();
    snprintf(source, sizeof source, "%s/text.cu", folder);
    snprintf(kernels, sizeof kernels, "%s/kernels.so", folder);
    FILE *file = fopen(source, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) abort();
    snprintf(command, sizeof command, "%s %s/tests/support/emulated_kernels.py %s %s", python != NULL ? python : "python3", root != NULL ? root : ".",
             source, kernels);
    int state = system(command);
    if (state != 0 && WEXITSTATUS(state) != 77) exit(1);
    return state == 0;
}

static inline void remove_kernels(void) {
    char command[200];
    snprintf(command, sizeof command, "rm -r \"$(dirname %s)\"", kernels);
    if (system(command) != 0) puts("a folder in /tmp stays");
}

#endif
