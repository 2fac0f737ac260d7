/* driver: see the header. */
#include "runtime/devices/cuda/driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

dt_status *dt_cuda_driver_error(const dt_cuda_driver *driver, const char *call, int error) {
    const char *name = NULL, *text = NULL;
    if (error == 0) return NULL;
    if (driver->cuGetErrorName(error, &name) != 0 || name == NULL) name = "an error that it has no name for";
    if (driver->cuGetErrorString(error, &text) != 0 || text == NULL) text = "no explanation";
    return dt_error(error == DT_CUDA_OUT_OF_MEMORY ? DT_RESOURCE_EXHAUSTED : DT_INTERNAL, "NVIDIA's driver, %s: %s, %d (%s)", call, name, error,
                    text);
}

#define CALL(driver, symbol, ...) DT_TRY(dt_cuda_driver_error((driver), #symbol, (driver)->symbol(__VA_ARGS__)))

dt_status *dt_cuda_driver_start(dt_cuda_driver *driver, void *library, dt_symbol_finder *find) {
    *driver = (dt_cuda_driver){.library = library};
#define X(symbol, arguments)                                                                                                                         \
    driver->symbol = (int(*) arguments)(uintptr_t)find(library, #symbol);                                                                            \
    if (driver->symbol == NULL) return dt_error(DT_FAILED_PRECONDITION, "NVIDIA's driver has no %s: it is too old", #symbol);
    DT_CUDA_DRIVER_SYMBOLS(X)
#undef X
    int error = driver->cuInit(0);
    driver->has_no_gpu = error == DT_CUDA_NO_DEVICE;
    return driver->has_no_gpu ? NULL : dt_cuda_driver_error(driver, "cuInit", error);
}

dt_status *dt_cuda_driver_open(dt_cuda_driver *driver, bool *present) {
    const char *given = getenv("DT_CUDA_DRIVER");
    bool is_given = given != NULL && *given != 0;
    *driver = (dt_cuda_driver){0};
    /* It may have threads of its own, so that its code must stay where it is. */
    void *library = dlopen(is_given ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    *present = library != NULL;
    if (library == NULL) return is_given ? dt_error(DT_NOT_FOUND, "DT_CUDA_DRIVER=%s cannot be loaded: %s", given, dlerror()) : NULL;
    dt_status *status = dt_cuda_driver_start(driver, library, dlsym);
    if (status != NULL) dt_cuda_driver_close(driver);
    return status;
}

void dt_cuda_driver_close(dt_cuda_driver *driver) {
    if (driver->library != NULL) dlclose(driver->library);
    *driver = (dt_cuda_driver){0};
}

dt_status *dt_cuda_driver_count(const dt_cuda_driver *driver, int *n) {
    *n = 0;
    if (driver->has_no_gpu) return NULL;
    int error = driver->cuDeviceGetCount(n);
    return error == DT_CUDA_NO_DEVICE ? NULL : dt_cuda_driver_error(driver, "cuDeviceGetCount", error);
}

static dt_status *list_one(const dt_cuda_driver *driver, dt_text *text, int number) {
    int device, major, minor, multiprocessors;
    char name[128] = "";
    size_t bytes;
    CALL(driver, cuDeviceGet, &device, number);
    CALL(driver, cuDeviceGetName, name, (int)sizeof name - 1, device);
    CALL(driver, cuDeviceGetAttribute, &major, DT_CUDA_MAJOR, device);
    CALL(driver, cuDeviceGetAttribute, &minor, DT_CUDA_MINOR, device);
    CALL(driver, cuDeviceGetAttribute, &multiprocessors, DT_CUDA_MULTIPROCESSORS, device);
    CALL(driver, cuDeviceTotalMem_v2, &bytes, device);
    dt_text_format(text, "GPU %d: %s, sm_%d%d, %d multiprocessors, %.1f GiB of memory\n", number, name, major, minor, multiprocessors,
                   (double)bytes / (1 << 30));
    return NULL;
}

dt_status *dt_cuda_driver_list(const dt_cuda_driver *driver, dt_text *text) {
    int version, n;
    CALL(driver, cuDriverGetVersion, &version);
    DT_TRY(dt_cuda_driver_count(driver, &n));
    for (int i = 0; i < n; i++) DT_TRY(list_one(driver, text, i));
    dt_text_format(text, n > 0 ? "NVIDIA's driver is for CUDA %d.%d\n" : "no GPU, though NVIDIA's driver is there, for CUDA %d.%d\n", version / 1000,
                   version % 1000 / 10);
    return NULL;
}
