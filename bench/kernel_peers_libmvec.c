/* kernel_peers_libmvec: the C library's vector functions, for kernels that are one function of one input. Loaded when asked for, as the others of
 * kernel_peers.h; names are those of the x86-64 vector ABI: "d" AVX2, "e" AVX-512, then the number of elements. */
#include "bench/kernel_formula.h"
#include "bench/kernel_peers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef float floats_8 __attribute__((vector_size(32)));
typedef float floats_16 __attribute__((vector_size(64)));

typedef struct mapping {
    void *function;
    size_t n; /* elements, a multiple of 16 */
    const float *x;
    float *y;
} mapping;

__attribute__((target("avx2"))) static void run_8(void *context) {
    const mapping *m = context;
    floats_8 (*function)(floats_8) = (floats_8(*)(floats_8))m->function;
    for (size_t i = 0; i < m->n; i += 8) *(floats_8 *)(m->y + i) = function(*(const floats_8 *)(m->x + i));
}

__attribute__((target("avx512f"))) static void run_16(void *context) {
    const mapping *m = context;
    floats_16 (*function)(floats_16) = (floats_16(*)(floats_16))m->function;
    for (size_t i = 0; i < m->n; i += 16) *(floats_16 *)(m->y + i) = function(*(const floats_16 *)(m->x + i));
}

static void *library(void) { return dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL); }

bool kernel_peers_has_libmvec(void) { return library() != NULL; }

/* NULL: there is no such function. */
static void *find(const kernel_case *test, bool avx2) {
    static const char *const functions[] = {"exp", "log", "tanh", "erf", "sin", "cos", "expm1", "log1p"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char name[32];
        snprintf(name, sizeof name, avx2 ? "_ZGVdN8v_%sf" : "_ZGVeN16v_%sf", functions[i]);
        if (kernel_formula_is(test, functions[i])) return library() != NULL ? dlsym(library(), name) : NULL;
    }
    return NULL;
}

static size_t elements_of(const kernel_case *test) {
    size_t n = 1;
    for (int d = 0; d < test->elementwise.shape.rank; d++) n *= (size_t)test->elementwise.shape.dims[d];
    return n;
}

double kernel_peers_libmvec(const kernel_case *test, bool avx2) {
    void *function = find(test, avx2);
    if (function == NULL) return 0;
    size_t n = (elements_of(test) + 15) / 16 * 16;
    float *x = aligned_alloc(64, n * sizeof *x), *y = aligned_alloc(64, n * sizeof *y);
    double seconds = 0;
    if (x != NULL && y != NULL) {
        for (size_t i = 0; i < n; i++) x[i] = (float)kernel_case_element(test, i);
        mapping m = {function, n, x, y};
        seconds = kernel_case_time(avx2 ? run_8 : run_16, &m);
    }
    free(x);
    free(y);
    return seconds;
}
