/* cuda_driver: NVIDIA's driver by a fake: what is listed of two GPUs, each call failing in turn, symbols that lack; and that the toolkit's stub of
 * the driver, where there is one, exports every symbol that is looked up. */
#include "runtime/devices/cuda/driver.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the fake: two GPUs; the n-th call fails; what a list does not call is there, and must not be called ---- */

static int n_calls, failing_call; /* 0: none */

static int answer(void) { return ++n_calls == failing_call ? 999 : 0; }
static bool has_no_gpu;
static int fake_init(unsigned flags) { return flags != 0 ? 1 : has_no_gpu ? 100 : answer(); }
static int fake_version(int *version) {
    *version = 13010;
    return answer();
}
static int fake_error_name(int error, const char **name) {
    *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
    return error == 999 ? 0 : 1;
}
static int fake_error_string(int error, const char **text) {
    *text = error == 999 ? "unknown error" : NULL;
    return error == 999 ? 0 : 1;
}
static int fake_count(int *n) {
    *n = 2;
    return answer();
}
static int fake_get(int *device, int number) {
    *device = 40 + number; /* a handle is no number */
    return answer();
}
static int fake_name(char *name, int n_bytes, int device) {
    snprintf(name, (size_t)n_bytes, "Fake %d", device);
    return answer();
}
static int fake_attribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : attribute == 76 ? device - 40 : 132;
    return answer();
}
static int fake_memory(size_t *bytes, int device) {
    *bytes = (size_t)(device - 39) << 34;
    return answer();
}

static int never(void) {
    fail_msg("a list of GPUs takes no such call");
    return 1;
}

static const char *missing;

static void *find(void *library, const char *symbol) {
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {
        {"cuInit", (void (*)(void))fake_init},
        {"cuDriverGetVersion", (void (*)(void))fake_version},
        {"cuGetErrorName", (void (*)(void))fake_error_name},
        {"cuGetErrorString", (void (*)(void))fake_error_string},
        {"cuDeviceGetCount", (void (*)(void))fake_count},
        {"cuDeviceGet", (void (*)(void))fake_get},
        {"cuDeviceGetName", (void (*)(void))fake_name},
        {"cuDeviceGetAttribute", (void (*)(void))fake_attribute},
        {"cuDeviceTotalMem_v2", (void (*)(void))fake_memory},
    };
    assert_null(library);
    if (missing != NULL && strcmp(missing, symbol) == 0) return NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, symbol) == 0) return (void *)(uintptr_t)all[i].function;
    return (void *)(uintptr_t)(void (*)(void))never;
}

/* Starts the fake and lists its GPUs; the status of the first that fails. */
static dt_status *list(dt_text *text) {
    dt_cuda_driver driver;
    n_calls = 0;
    DT_TRY(dt_cuda_driver_start(&driver, NULL, find));
    return dt_cuda_driver_list(&driver, text);
}

static void assert_says(dt_status *status, const char *what) {
    assert_non_null(status);
    if (strstr(dt_status_message(status), what) == NULL) fail_msg("\"%s\" should say \"%s\"", dt_status_message(status), what);
    dt_status_free(status);
}

/* ---- tests ---- */

static void gpus_are_listed(void **state) {
    (void)state;
    dt_text text = {0};
    failing_call = 0;
    assert_null(list(&text));
    assert_string_equal(text.data, "GPU 0: Fake 40, sm_90, 132 multiprocessors, 16.0 GiB of memory\n"
                                   "GPU 1: Fake 41, sm_91, 132 multiprocessors, 32.0 GiB of memory\n"
                                   "NVIDIA's driver is for CUDA 13.1\n");
    dt_text_free(&text);
}

static void a_driver_without_a_gpu_is_no_error(void **state) {
    (void)state;
    dt_text text = {0};
    failing_call = 0;
    has_no_gpu = true;
    assert_null(list(&text));
    has_no_gpu = false;
    assert_string_equal(text.data, "no GPU, though NVIDIA's driver is there, for CUDA 13.1\n");
    dt_text_free(&text);
}

static void each_call_that_fails_is_told(void **state) {
    (void)state;
    dt_text text = {0};
    failing_call = 0;
    assert_null(list(&text));
    int all = n_calls;
    assert_int_equal(all, 15);
    for (failing_call = 1; failing_call <= all; failing_call++) assert_says(list(&text), "CUDA_ERROR_UNKNOWN, 999 (unknown error)");
    dt_text_free(&text);
    failing_call = 0;
}

static void each_symbol_that_lacks_is_told(void **state) {
    (void)state;
    dt_text text = {0};
#define X(symbol, arguments)                                                                                                                         \
    missing = #symbol;                                                                                                                               \
    assert_says(list(&text), "has no " #symbol);
    DT_CUDA_DRIVER_SYMBOLS(X)
#undef X
    missing = NULL;
    dt_text_free(&text);
}

static void a_named_driver_must_be_there(void **state) {
    (void)state;
    dt_cuda_driver driver;
    bool present;
    setenv("DT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    assert_says(dt_cuda_driver_open(&driver, &present), "/nowhere/libcuda.so.1");
    setenv("DT_CUDA_DRIVER", "libm.so.6", 1);
    assert_says(dt_cuda_driver_open(&driver, &present), "has no cuInit");
    assert_null(driver.library);
    unsetenv("DT_CUDA_DRIVER");
}

static void the_stub_has_every_symbol(void **state) {
    (void)state;
    void *stub = dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW | RTLD_LOCAL);
    if (stub == NULL) {
        print_message("skipped: there is no toolkit with a stub of the driver in /usr/local/cuda\n");
        skip();
    }
#define X(symbol, arguments)                                                                                                                         \
    if (dlsym(stub, #symbol) == NULL) fail_msg("the driver's stub has no %s", #symbol);
    DT_CUDA_DRIVER_SYMBOLS(X)
#undef X
    dlclose(stub);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_listed),
        cmocka_unit_test(a_driver_without_a_gpu_is_no_error),
        cmocka_unit_test(each_call_that_fails_is_told),
        cmocka_unit_test(each_symbol_that_lacks_is_told),
        cmocka_unit_test(a_named_driver_must_be_there),
        cmocka_unit_test(the_stub_has_every_symbol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
