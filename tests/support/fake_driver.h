/* fake_driver: a GPU for a test of the runtime's CUDA parts: the fake of the driver, opened once for all tests of a program. */
#ifndef DT_TESTS_SUPPORT_FAKE_DRIVER_H
#define DT_TESTS_SUPPORT_FAKE_DRIVER_H

#include "runtime/devices/cuda/context.h"
#include "tests/support/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static dt_cuda cuda;

/* Names the fake to what opens a driver. */
static inline void use_fake_driver(void) {
    char path[4096];
    const char *build = getenv("DT_BUILD");
    snprintf(path, sizeof path, "%s/tests/libfake_cuda.so", build != NULL ? build : ".");
    setenv("DT_CUDA_DRIVER", path, 1);
}

/* Before and after a group of tests. */
static inline int open_gpu(void **state) {
    (void)state;
    expect_ok(dt_cuda_open(0, &cuda));
    return 0;
}

static inline int close_gpu(void **state) {
    (void)state;
    dt_cuda_close(&cuda);
    return 0;
}

#endif
