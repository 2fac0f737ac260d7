/* cuda_nvrtc: see the header. */
#include "compiler/codegen/cuda_nvrtc.h"

#include "base/memory.h"
#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Products are rounded before they are added unless the text says otherwise; the rest is what it has by default: denormals, and division and square
 * root to the last bit. The assembler warns of spilled registers, and says of each function how many. */
#define OPTIONS(X) X("--std=c++17") X("--fmad=false") X("-default-device") X("--ptxas-options=--warn-on-spills") X("--ptxas-options=-v")
#define X(option) option,
#define ARCHITECTURE_OPTION "--gpu-architecture="
static const char *const options[] = {OPTIONS(X)};
#undef X
#define X(option) option " "
const char dt_nvrtc_options[] = OPTIONS(X);
#undef X

enum {
    N_OPTIONS = sizeof options / sizeof *options
};

/* NVRTC asks the system's loader for a second library, which does not look into a toolkit's or a package's folder unless it is told to. */
static void load_builtins(const dt_nvrtc *nvrtc) {
    char name[64];
    snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", nvrtc->major, nvrtc->minor);
    dt_shared_library_load_beside((const void *)(uintptr_t)nvrtc->nvrtcVersion, name);
}

dt_status *dt_nvrtc_open(dt_nvrtc *nvrtc) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    *nvrtc = (dt_nvrtc){0};
    DT_TRY(dt_shared_library_open("DT_NVRTC", names, &nvrtc->library));
    if (nvrtc->library == NULL)
        return dt_error(DT_NOT_FOUND, "NVRTC, the compiler of CUDA C++, is not installed: libnvrtc.so.13 or .12 comes with the CUDA toolkit, or with "
                                      "`pip install nvidia-cuda-nvrtc`; DT_NVRTC=PATH names one elsewhere");
    const char *missing = NULL;
#define X(returns, symbol, arguments)                                                                                                                \
    nvrtc->symbol = (returns(*) arguments)(uintptr_t)dlsym(nvrtc->library, #symbol);                                                                 \
    if (nvrtc->symbol == NULL) missing = #symbol;
    DT_NVRTC_SYMBOLS(X)
#undef X
    if (missing == NULL) nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor);
    if (missing == NULL && nvrtc->major >= 12) {
        load_builtins(nvrtc);
        return NULL;
    }
    dt_status *status = missing != NULL
                            ? dt_error(DT_FAILED_PRECONDITION, "this NVRTC has no %s: version 12 or 13 is needed", missing)
                            : dt_error(DT_FAILED_PRECONDITION, "this NVRTC is of version %d.%d: 12 or 13 is needed", nvrtc->major, nvrtc->minor);
    dt_nvrtc_close(nvrtc);
    return status;
}

void dt_nvrtc_close(dt_nvrtc *nvrtc) {
    if (nvrtc->library != NULL) dlclose(nvrtc->library);
    *nvrtc = (dt_nvrtc){0};
}

/* The list that NVRTC gives has numbers, and not which of them have a suffix: that is found by trying. */
static dt_status *check_suffix(const dt_nvrtc *nvrtc, const char *architecture) {
    size_t n = strcspn(architecture, "0123456789");
    n += strspn(architecture + n, "0123456789");
    if (architecture[n] == 0) return NULL;
    char option[64];
    const char *options[] = {option};
    dt_nvrtc_program program = NULL;
    snprintf(option, sizeof option, ARCHITECTURE_OPTION "%s", architecture);
    int error = nvrtc->nvrtcCreateProgram(&program, "", "nothing.cu", 0, NULL, NULL);
    if (error == 0) error = nvrtc->nvrtcCompileProgram(program, 1, options);
    if (program != NULL) nvrtc->nvrtcDestroyProgram(&program);
    return error == 0 ? NULL
                      : dt_error(DT_INVALID_ARGUMENT, "NVRTC %d.%d makes no code for %s; it does for %.*s", nvrtc->major, nvrtc->minor, architecture,
                                 (int)n, architecture);
}

dt_status *dt_nvrtc_check_architecture(const dt_nvrtc *nvrtc, const char *architecture) {
    const char *digits = strchr(architecture, '_');
    int wanted = digits != NULL ? atoi(digits + 1) : 0, known[64], n = 0;
    if (nvrtc->nvrtcGetNumSupportedArchs(&n) != 0 || n > (int)(sizeof known / sizeof *known) || nvrtc->nvrtcGetSupportedArchs(known) != 0)
        return NULL;
    dt_text list = {0};
    for (int i = 0; i < n; i++) {
        if (known[i] == wanted) {
            dt_text_free(&list);
            return check_suffix(nvrtc, architecture);
        }
        dt_text_format(&list, "%ssm_%d", i > 0 ? ", " : "", known[i]);
    }
    dt_status *status = dt_error(DT_INVALID_ARGUMENT, "NVRTC %d.%d makes no code for %s; it knows %s", nvrtc->major, nvrtc->minor, architecture,
                                 list.data != NULL ? list.data : "none");
    dt_text_free(&list);
    return status;
}

static dt_status *take_log(const dt_nvrtc *nvrtc, dt_nvrtc_program program, dt_text *log) {
    size_t n = 0;
    if (nvrtc->nvrtcGetProgramLogSize(program, &n) != 0 || n <= 1) return NULL;
    char *text = dt_allocate(n + 1);
    if (text == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for what NVRTC says");
    if (nvrtc->nvrtcGetProgramLog(program, text) == 0) dt_text_append(log, text);
    dt_release(text);
    return NULL;
}

static dt_status *take_code(const dt_nvrtc *nvrtc, dt_nvrtc_program program, bool ptx, char **bytes, size_t *n_bytes) {
    int error = ptx ? nvrtc->nvrtcGetPTXSize(program, n_bytes) : nvrtc->nvrtcGetCUBINSize(program, n_bytes);
    if (error == 0 && (*bytes = dt_allocate(*n_bytes)) == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu bytes of code", *n_bytes);
    if (error == 0) error = ptx ? nvrtc->nvrtcGetPTX(program, *bytes) : nvrtc->nvrtcGetCUBIN(program, *bytes);
    return error == 0 ? NULL : dt_error(DT_INTERNAL, "NVRTC gives no code: %s", nvrtc->nvrtcGetErrorString(error));
}

dt_status *dt_nvrtc_compile(const dt_nvrtc *nvrtc, const char *source, const char *architecture, char **bytes, size_t *n_bytes, dt_text *log) {
    dt_nvrtc_program program = NULL;
    char architecture_option[64];
    const char *all[N_OPTIONS + 1];
    snprintf(architecture_option, sizeof architecture_option, ARCHITECTURE_OPTION "%s", architecture);
    for (int i = 0; i < N_OPTIONS; i++) all[i] = options[i];
    all[N_OPTIONS] = architecture_option;
    *bytes = NULL;
    int error = nvrtc->nvrtcCreateProgram(&program, source, "kernels.cu", 0, NULL, NULL);
    if (error != 0) return dt_error(DT_INTERNAL, "NVRTC takes no program: %s", nvrtc->nvrtcGetErrorString(error));
    error = nvrtc->nvrtcCompileProgram(program, N_OPTIONS + 1, all);
    dt_status *status = take_log(nvrtc, program, log);
    if (error != 0 && status == NULL)
        status = dt_error(DT_INTERNAL, "NVRTC %d.%d, %s: %s: %s", nvrtc->major, nvrtc->minor, architecture, nvrtc->nvrtcGetErrorString(error),
                          log->data != NULL ? log->data : "");
    if (status == NULL) status = take_code(nvrtc, program, strncmp(architecture, "compute_", 8) == 0, bytes, n_bytes);
    nvrtc->nvrtcDestroyProgram(&program);
    if (status == NULL) return NULL;
    dt_release(*bytes);
    *bytes = NULL;
    return status;
}
