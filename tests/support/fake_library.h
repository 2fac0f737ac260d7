/* fake_library: what the fakes of cuBLASLt and cuDNN share. Each is a shared library with the exports of the runtime's table that computes on the CPU
 * what it is asked for, as work of the fake driver's (tests/support/fake_cuda_library.h): queued, captured, replayed, in memory that it checks.
 *
 *     DT_CUDA_DRIVER=build/tests/libfake_cuda.so DT_CUBLASLT=build/tests/libfake_cublaslt.so DT_CUDNN=build/tests/libfake_cudnn.so dtrun …
 *
 *   FAKE_LIBRARY_FAIL      cublasLtMatmul:2=13: the second call of it returns 13; several with commas between
 *   FAKE_LIBRARY_REFUSE    set: heuristics know of no way
 *   FAKE_LIBRARY_REFUSE_EPILOGUES  136,192: cuBLASLt's know of none with these epilogues, which are numbers of cublasLtEpilogue_t
 *   FAKE_LIBRARY_LOG       a file that gets a line for each call
 *   FAKE_CUBLASLT_VERSION  130100: it is 13.1.0, and not 13.0.2
 *
 * Its misuse, and what is not given back at the end, is told on stderr, and the process ends with 86. */
#ifndef DT_TESTS_SUPPORT_FAKE_LIBRARY_H
#define DT_TESTS_SUPPORT_FAKE_LIBRARY_H

#include "tests/support/fake_cuda_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FAKE_LIBRARY_LEFT_BEHIND = 86,
    FAKE_LIBRARY_NAMES = 32
};

static struct {
    const char *names[FAKE_LIBRARY_NAMES]; /* of calls, and how often they came */
    int counts[FAKE_LIBRARY_NAMES];
    int n_names, n_objects;
    bool misused;
} fake_library;

/* Begins a call; what it has to return at once: 0, or what a test has asked for. */
static inline int fake_library_call(const char *name) {
    int i = 0, number, error;
    char wanted[80];
    while (i < fake_library.n_names && strcmp(fake_library.names[i], name) != 0) i++;
    if (i == fake_library.n_names) fake_library.names[fake_library.n_names++] = name;
    fake_library.counts[i]++;
    if (getenv("FAKE_LIBRARY_LOG") != NULL) {
        FILE *log = fopen(getenv("FAKE_LIBRARY_LOG"), "a");
        if (log != NULL) fprintf(log, "%s\n", name), fclose(log);
    }
    for (const char *rest = getenv("FAKE_LIBRARY_FAIL"); rest != NULL; rest = strchr(rest, ',')) {
        if (*rest == ',') rest++;
        if (sscanf(rest, "%79[^:]:%d=%d", wanted, &number, &error) == 3 && strcmp(wanted, name) == 0 && number == fake_library.counts[i])
            return error;
    }
    return 0;
}

static inline int fake_library_misuse(int error, const char *what) {
    fprintf(stderr, "fake library: %s\n", what);
    fake_library.misused = true;
    return error;
}

/* Objects begin with this. */
typedef struct fake_library_object {
    int kind;
} fake_library_object;

static inline void *fake_library_new(int kind, size_t bytes) {
    fake_library_object *object = calloc(1, bytes);
    if (object == NULL) abort();
    object->kind = kind;
    fake_library.n_objects++;
    return object;
}

static inline bool fake_library_is(const void *object, int kind) { return object != NULL && ((const fake_library_object *)object)->kind == kind; }

static inline void fake_library_delete(void *object) {
    ((fake_library_object *)object)->kind = -1;
    free(object);
    fake_library.n_objects--;
}

static inline int fake_library_submit(void *stream, const char *call, const fake_cuda_range *ranges, size_t n_ranges, void (*run)(const void *data),
                                      const void *data, size_t bytes) {
    void *driver = dlopen(getenv("DT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    fake_cuda_submitter *submit = driver != NULL ? (fake_cuda_submitter *)(uintptr_t)dlsym(driver, "fake_cuda_submit") : NULL;
    if (submit == NULL) return fake_library_misuse(1, "DT_CUDA_DRIVER is not the fake driver, or not loaded");
    return submit(stream, call, ranges, n_ranges, run, data, bytes);
}

__attribute__((destructor)) static void fake_library_end(void) {
    if (fake_library.n_objects != 0) fprintf(stderr, "fake library: %d objects were not destroyed\n", fake_library.n_objects);
    fflush(stderr);
    if (fake_library.n_objects != 0 || fake_library.misused) _exit(FAKE_LIBRARY_LEFT_BEHIND);
}

#endif
