/* fake_nvrtc: NVRTC 12.4, as far as dtc sees it without looking into the code: it knows few architectures, and what it makes is no code. So what is
 * asked for by name, and what by default, is tested where there is no toolkit, and for a version that no machine here has. */
#include "compiler/codegen/cuda_nvrtc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const int known[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};
enum {
    N_KNOWN = sizeof known / sizeof *known,
    INVALID_OPTION = 5
};

struct _nvrtcProgram {
    char code[64]; /* after compilation, with the terminating 0 */
};

/* sm_NN or compute_NN; of those with a suffix there is 90a. */
static bool is_known(const char *architecture) {
    const char *digits = strncmp(architecture, "sm_", 3) == 0 ? architecture + 3 : strncmp(architecture, "compute_", 8) == 0 ? architecture + 8 : "";
    char *end;
    long number = strtol(digits, &end, 10);
    if (*end != 0) return strcmp(digits, "90a") == 0;
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i] == number) return true;
    return false;
}

EXPORT const char *nvrtcGetErrorString(int error) { return error == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_SUCCESS"; }
EXPORT int nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 4;
    return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int *n) {
    *n = N_KNOWN;
    return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *architectures) {
    memcpy(architectures, known, sizeof known);
    return 0;
}
EXPORT int nvrtcCreateProgram(dt_nvrtc_program *program, const char *source, const char *name, int n_headers, const char *const *headers,
                              const char *const *header_names) {
    (void)source, (void)name, (void)n_headers, (void)headers, (void)header_names;
    *program = calloc(1, sizeof **program);
    return 0;
}
EXPORT int nvrtcDestroyProgram(dt_nvrtc_program *program) {
    free(*program);
    *program = NULL;
    return 0;
}
EXPORT int nvrtcCompileProgram(dt_nvrtc_program program, int n_options, const char *const *options) {
    static const char option[] = "--gpu-architecture=";
    for (int i = 0; i < n_options; i++) {
        if (strncmp(options[i], option, strlen(option)) != 0) continue;
        const char *architecture = options[i] + strlen(option);
        if (!is_known(architecture)) return INVALID_OPTION;
        snprintf(program->code, sizeof program->code, "no code for %s", architecture);
        return 0;
    }
    return INVALID_OPTION;
}
EXPORT int nvrtcGetProgramLogSize(dt_nvrtc_program program, size_t *n) {
    (void)program;
    *n = 1;
    return 0;
}
EXPORT int nvrtcGetProgramLog(dt_nvrtc_program program, char *log) {
    (void)program;
    *log = 0;
    return 0;
}
EXPORT int nvrtcGetCUBINSize(dt_nvrtc_program program, size_t *n) {
    *n = strlen(program->code) + 1;
    return 0;
}
EXPORT int nvrtcGetCUBIN(dt_nvrtc_program program, char *code) {
    memcpy(code, program->code, strlen(program->code) + 1);
    return 0;
}
EXPORT int nvrtcGetPTXSize(dt_nvrtc_program program, size_t *n) { return nvrtcGetCUBINSize(program, n); }
EXPORT int nvrtcGetPTX(dt_nvrtc_program program, char *code) { return nvrtcGetCUBIN(program, code); }
