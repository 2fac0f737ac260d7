/* cudnn_choices: the real cuDNN, where it is installed, is asked for convolutions of ours on GPUs that are not there.
 *
 * It takes a description of a GPU in the place of a handle (deviceless compilation, since 9.11) and then proposes engines and makes plans as it would
 * there; only running them takes a GPU. So the table of cuDNN's functions is filled in from the library, but for those that are given the handle. */
#include "base/shared_library.h"
#include "runtime/devices/cuda/cudnn.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { /* cudnn_graph.h */
    TYPE_CHAR = 24,
    DEVICE_DESCRIPTOR = 38,
    ENGINEHEUR_DEVICE = 204,
    EXECUTION_PLAN_DEVICE = 407,
    DEVICE_JSON = 2702
};

/* cuDNN's engines make handles of cuBLASLt, which come to nothing without a GPU and are left lying. What we forget of cuDNN's own is not hidden. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:cublasLtCreate\n"; }

static dt_cudnn real;  /* as the library is */
static dt_cudnn cudnn; /* as it would be with a GPU */
static void *device;
static int64_t most_proposed;

static int set_attribute(void *descriptor, int attribute, int type, int64_t n, const void *values) {
    switch (attribute) {
    case DT_CUDNN_ATTR_OPERATIONGRAPH_HANDLE: return 0;
    case DT_CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
        return real.cudnnBackendSetAttribute(descriptor, EXECUTION_PLAN_DEVICE, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    case DT_CUDNN_ATTR_ENGINEHEUR_MODE: {
        int error = real.cudnnBackendSetAttribute(descriptor, ENGINEHEUR_DEVICE, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
        if (error != 0) return error;
    } /* and then the mode */
        __attribute__((fallthrough));
    default: return real.cudnnBackendSetAttribute(descriptor, attribute, type, n, values);
    }
}

static int get_attribute(void *descriptor, int attribute, int type, int64_t wanted, int64_t *n, void *into) {
    int error = real.cudnnBackendGetAttribute(descriptor, attribute, type, wanted, n, into);
    if (attribute == DT_CUDNN_ATTR_ENGINEHEUR_RESULTS && error == 0) {
        int64_t proposed = 0;
        if (real.cudnnBackendGetAttribute(descriptor, attribute, type, 0, &proposed, NULL) == 0 && proposed > most_proposed) most_proposed = proposed;
    }
    return error;
}

/* False: this library knows no GPUs that are not there. */
static bool describe_device(const char *name, int architecture, int n_multiprocessors, int most_shared_bytes) {
    char json[1000];
    if (device != NULL) real.cudnnBackendDestroyDescriptor(device);
    device = NULL;
    snprintf(json, sizeof json,
             "{\"deviceName\": \"%s\", \"deviceVer\": %d, \"multiProcessorCount\": %d, \"maxSharedMemoryPerBlockOptin\": %d, "
             "\"maxSharedMemoryPerBlock\": 49152, \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"regsPerBlock\": 65536, "
             "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"warpSize\": 32, \"l2CacheSize\": 52428800, "
             "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 2619000, \"totalGlobalMem\": 84929347584, \"supportCoopLaunch\": 1, "
             "\"driverVer\": 13000, \"isTccDriver\": 0, \"pciDeviceId\": 0, \"cudaDeviceId\": 0, \"maxGridSize\": [2147483647, 65535, 65535], "
             "\"maxBlockSize\": [1024, 1024, 64]}",
             name, architecture, n_multiprocessors, most_shared_bytes);
    return real.cudnnBackendCreateDescriptor(DEVICE_DESCRIPTOR, &device) == 0 &&
           real.cudnnBackendSetAttribute(device, DEVICE_JSON, TYPE_CHAR, (int64_t)strlen(json), json) == 0 && real.cudnnBackendFinalize(device) == 0;
}

static const struct {
    const char *name;
    int architecture, n_multiprocessors, most_shared_bytes;
} gpus[] = {{"NVIDIA A100-SXM4-80GB", 800, 108, 166912}, {"NVIDIA H100 80GB HBM3", 900, 132, 232448}, {"NVIDIA B200", 1000, 148, 232448}};
enum {
    N_GPUS = sizeof gpus / sizeof *gpus
};

static void use(int gpu) {
    if (!describe_device(gpus[gpu].name, gpus[gpu].architecture, gpus[gpu].n_multiprocessors, gpus[gpu].most_shared_bytes))
        fail_msg("%s is not taken", gpus[gpu].name);
}

/* ---- convolutions ---- */

static dt_library_convolution square(int64_t images, int64_t channels, int64_t filters, int64_t input, int64_t taps, int64_t output) {
    return (dt_library_convolution){.n_directions = 2,
                                    .images = images,
                                    .channels = channels,
                                    .filters = filters,
                                    .groups = 1,
                                    .input = {input, input, input},
                                    .taps = {taps, taps, taps},
                                    .output = {output, output, output},
                                    .stride = {1, 1, 1},
                                    .dilation = {1, 1, 1},
                                    .x = 0,
                                    .kernel = 1,
                                    .y = 2};
}

typedef struct choice {
    bool made;
    dt_code code; /* of the error */
    char text[500];
} choice;

static choice choose(const dt_library_convolution *convolution, dt_library_class class, dt_precision precision) {
    dt_library_call call = {.class = class, .precision = precision, .convolution = *convolution};
    dt_cudnn_convolution made;
    choice c = {0};
    dt_status *status = dt_cudnn_prepare(&cudnn, &call, &made);
    c.made = status == NULL && made.plan != NULL;
    c.code = dt_status_code(status);
    snprintf(c.text, sizeof c.text, "%s", status != NULL ? dt_status_message(status) : made.text);
    dt_status_free(status);
    dt_cudnn_convolution_free(&cudnn, &made);
    return c;
}

/* The same in groups, and in three directions. */
static dt_library_convolution grouped(dt_library_convolution c, int64_t groups) {
    c.groups = groups;
    return c;
}

static dt_library_convolution cube(dt_library_convolution c) {
    c.n_directions = 3;
    return c;
}

/* Those of a small network, with borders, strides and dilation that differ from side to side, in groups, of volumes. The next time the choice is the
 * same. */
static void engines_are_found(void **state) {
    (void)state;
    dt_library_convolution odd = square(4, 3, 5, 7, 3, 4), half = square(8, 64, 64, 32, 3, 16), wide = square(8, 64, 64, 32, 3, 28);
    odd.input[1] = 6, odd.taps[1] = 2, odd.output[1] = 5, odd.stride[0] = 2, odd.dilation[1] = 2;
    odd.padding[0] = odd.padding_after[0] = odd.padding_after[1] = 1;
    for (int i = 0; i < 3; i++) half.stride[i] = 2, half.padding_after[i] = 1;
    wide.dilation[0] = wide.dilation[1] = 2;
    const dt_library_convolution all[] = {square(64, 1, 64, 28, 3, 26),
                                          square(64, 64, 128, 13, 3, 11),
                                          odd,
                                          half,
                                          wide,
                                          square(1 << 17, 256, 256, 16, 3, 14),
                                          grouped(half, 4),
                                          grouped(square(64, 64, 128, 13, 3, 11), 8),
                                          cube(square(8, 16, 32, 12, 3, 10)),
                                          cube(half),
                                          cube(grouped(half, 4))};
    for (int g = 0; g < N_GPUS; g++) {
        use(g);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            for (int class = DT_LIBRARY_CONVOLUTION; class <= DT_LIBRARY_KERNEL_GRADIENT; class ++)
                for (int p = 0; p < 2; p++) {
                    dt_precision precision = p == 0 ? DT_PRECISION_F32 : DT_PRECISION_TF32;
                    choice first = choose(&all[i], (dt_library_class) class, precision), again = choose(&all[i], (dt_library_class) class, precision);
                    if (!first.made) fail_msg("%s, convolution %zu, class %d, precision %d: %s", gpus[g].name, i, class, p, first.text);
                    assert_string_equal(first.text, again.text);
                }
    }
    print_message("at most %lld engines are proposed\n", (long long)most_proposed);
    assert_in_range(most_proposed, 2, 128); /* there is room for them in cudnn.c */
}

/* What cannot be is a mistake of ours, and an error: no generated code hides it. */
static void contradictions_are_errors(void **state) {
    (void)state;
    dt_library_convolution larger = square(8, 16, 16, 8, 3, 9), empty = square(8, 0, 16, 8, 3, 6);
    use(1);
    for (int class = DT_LIBRARY_CONVOLUTION; class <= DT_LIBRARY_KERNEL_GRADIENT; class ++) {
        choice c = choose(&larger, (dt_library_class) class, DT_PRECISION_F32), none = choose(&empty, (dt_library_class) class, DT_PRECISION_F32);
        assert_int_equal(c.code, DT_INTERNAL);
        assert_non_null(strstr(c.text, "cuDNN, cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM"));
        assert_int_equal(none.code, DT_INTERNAL);
    }
}

/* Sixteen-bit factors of f32 tensors: it is not even asked. */
static void what_it_has_not_is_refused(void **state) {
    (void)state;
    dt_library_convolution plain = square(64, 64, 128, 13, 3, 11);
    use(1);
    choice c = choose(&plain, DT_LIBRARY_CONVOLUTION, DT_PRECISION_BF16);
    assert_int_equal(c.code, DT_UNIMPLEMENTED);
}

/* cuDNN loads NVRTC to see whether it is there, again and again, and each time it loses a pool of its C++ library; what is there stays. */
static void keep_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    void *library;
    dt_status_free(dt_shared_library_open("DT_NVRTC", names, &library));
}

int main(void) {
    static const char *const names[] = {"libcudnn.so.9", NULL};
    keep_nvrtc();
    dt_status *status = dt_shared_library_open("DT_CUDNN", names, &real.library);
    if (status != NULL || real.library == NULL) {
        print_message("skipped: cuDNN is not installed\n");
        dt_status_free(status);
        return 77;
    }
#define X(result, symbol, arguments) real.symbol = (result(*) arguments)(uintptr_t)dlsym(real.library, #symbol);
    DT_CUDNN_SYMBOLS(X)
#undef X
    cudnn = real;
    cudnn.cudnnBackendSetAttribute = set_attribute;
    cudnn.cudnnBackendGetAttribute = get_attribute;
    if (real.cudnnGetVersion() < 91100 ||
        !describe_device(gpus[0].name, gpus[0].architecture, gpus[0].n_multiprocessors, gpus[0].most_shared_bytes)) {
        print_message("skipped: cuDNN %zu knows no GPUs that are not there\n", real.cudnnGetVersion());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_are_found),
        cmocka_unit_test(contradictions_are_errors),
        cmocka_unit_test(what_it_has_not_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    real.cudnnBackendDestroyDescriptor(device);
    return failed;
}
